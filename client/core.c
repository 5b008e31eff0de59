/*
 * core.c - makes clients, hands out curl handles, sleeps and starts threads. Every request of a client passes
 * mr_core_take(), which is what bounds how many are under way (I9). Any thread may call; the lock is held for no
 * longer than a list takes.
 */
#include "core.h"

#include "settings.h"

#include <errno.h>
#include <libxml/parser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define WAKE_EVERY_MS                                                                                                  \
        100 /* how often a waiting thread looks whether it was canceled: a signal handler cannot signal a condition */

static pthread_once_t libraries_once = PTHREAD_ONCE_INIT;
static CURLcode curl_state;

static void libraries_start(void)
{
        xmlInitParser(); /* answers are read on many threads; the first must not be the one that sets the library up */
        curl_state = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* "http://host:80" -> "host": what curl would send, and so what is signed. */
static void host_of(const char *url, bool *tls, char *out, size_t size)
{
        const char *port;
        size_t len;

        *tls = strncmp(url, "https://", 8) == 0;
        url += *tls ? 8 : 7;
        port = *tls ? ":443" : ":80";
        len = strcspn(url, "/");
        if (len > strlen(port) && strncmp(url + len - strlen(port), port, strlen(port)) == 0)
                len -= strlen(port);
        snprintf(out, size, "%.*s", (int)len, url);
}

static int settings_check(const struct mr_settings *s)
{
        if (mr_url_check(s->endpoint) != 0 || mr_url_check(s->admin) != 0)
                return -EINVAL;
        if (s->parallel < 1 || s->parallel > 64 || s->attempts < 1 || s->attempts > 20)
                return -EINVAL;
        return s->connect_timeout_s < 1 || s->stall_timeout_s < 1 ? -EINVAL : 0;
}

int mr_client_new(const struct mr_settings *settings, struct mr_client **out)
{
        struct mr_client *client;

        if (settings_check(settings) != 0)
                return -EINVAL;
        pthread_once(&libraries_once, libraries_start);
        if (curl_state != CURLE_OK)
                return -ENOMEM;
        client = calloc(1, sizeof(*client));
        if (client == NULL)
                return -ENOMEM;
        client->settings = *settings;
        host_of(settings->endpoint, &client->endpoint_tls, client->endpoint_host, sizeof(client->endpoint_host));
        host_of(settings->admin, &client->admin_tls, client->admin_host, sizeof(client->admin_host));
        atomic_init(&client->canceled, false);
        pthread_mutex_init(&client->lock, NULL);
        pthread_cond_init(&client->idle_more, NULL);
        *out = client;
        return 0;
}

void mr_client_free(struct mr_client *client)
{
        if (client == NULL)
                return;
        for (unsigned i = 0; i < client->idle_count; i++)
                curl_easy_cleanup(client->idle[i]);
        pthread_cond_destroy(&client->idle_more);
        pthread_mutex_destroy(&client->lock);
        explicit_bzero(&client->settings, sizeof(client->settings));
        free(client);
}

void mr_client_cancel(struct mr_client *client)
{
        atomic_store(&client->canceled, true);
}

bool mr_client_canceled(const struct mr_client *client)
{
        return atomic_load(&client->canceled);
}

static void in_ms(struct timespec *out, uint32_t ms)
{
        clock_gettime(CLOCK_REALTIME, out);
        out->tv_sec += ms / 1000;
        out->tv_nsec += (long)(ms % 1000) * 1000000;
        if (out->tv_nsec >= 1000000000) {
                out->tv_nsec -= 1000000000;
                out->tv_sec++;
        }
}

int mr_core_take(struct mr_client *client, bool urgent, CURL **out)
{
        CURL *handle = NULL;
        struct timespec until;
        int rv = 0;

        pthread_mutex_lock(&client->lock);
        for (;;) {
                if (!urgent && mr_client_canceled(client)) {
                        rv = -ECANCELED;
                        break;
                }
                if (client->in_use < client->settings.parallel) {
                        client->in_use++;
                        if (client->idle_count > 0)
                                handle = client->idle[--client->idle_count];
                        break;
                }
                in_ms(&until, WAKE_EVERY_MS);
                pthread_cond_timedwait(&client->idle_more, &client->lock, &until);
        }
        pthread_mutex_unlock(&client->lock);
        if (rv != 0)
                return rv;
        if (handle == NULL)
                handle = curl_easy_init();
        if (handle == NULL) {
                mr_core_give(client, NULL);
                return -ENOMEM;
        }
        *out = handle;
        return 0;
}

void mr_core_give(struct mr_client *client, CURL *handle)
{
        if (handle != NULL)
                curl_easy_reset(handle); /* keeps the connection */
        pthread_mutex_lock(&client->lock);
        client->in_use--;
        if (handle != NULL)
                client->idle[client->idle_count++] = handle;
        pthread_cond_signal(&client->idle_more);
        pthread_mutex_unlock(&client->lock);
}

int mr_core_sleep(struct mr_client *client, uint32_t ms, bool urgent)
{
        while (ms > 0) {
                uint32_t step = ms < WAKE_EVERY_MS ? ms : WAKE_EVERY_MS;
                struct timespec pause = {.tv_nsec = (long)step * 1000000};

                if (!urgent && mr_client_canceled(client))
                        return -ECANCELED;
                nanosleep(&pause, NULL);
                ms -= step;
        }
        return !urgent && mr_client_canceled(client) ? -ECANCELED : 0;
}

uint32_t mr_core_random(void)
{
        uint32_t value = 0;

        /* only spreads retries; without randomness they would still be bounded */
        if (getrandom(&value, sizeof(value), 0) != (ssize_t)sizeof(value))
                value = (uint32_t)mr_core_now_ms() * 2654435761u;
        return value;
}

int64_t mr_core_now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- threads ------------------------------------------------------------------------------------- */

struct together {
        void (*job)(void *arg);
        void *arg;
};

static void *together_main(void *arg)
{
        const struct together *together = arg;

        together->job(together->arg);
        return NULL;
}

void mr_core_together(unsigned threads, void (*job)(void *arg), void *arg)
{
        struct together together = {job, arg};
        pthread_t thread[64];
        unsigned started = 0;

        if (threads > 64)
                threads = 64;
        while (started + 1 < threads) {
                if (pthread_create(&thread[started], NULL, together_main, &together) != 0)
                        break;
                started++;
        }
        job(arg);
        for (unsigned i = 0; i < started; i++)
                pthread_join(thread[i], NULL);
}
