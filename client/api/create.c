/*
 * create.c - makes and ends clients. Nothing is started here: loops and workers come with the first
 * request that needs them.
 */
#include "client/api/create.h"

#include "client/api/client_settings.h"
#include "client/base/workers.h"
#include "client/credentials/creds.h"
#include "client/http/curl_loop.h"
#include "client/rdma/rdma_context.h"

#include <curl/curl.h>
#include <errno.h>
#include <libxml/parser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_once_t libraries_once = PTHREAD_ONCE_INIT;
static CURLcode curl_state;

static void libraries_start(void)
{
        xmlInitParser(); /* answers are read on many threads; the first must not be the one that sets the library up */
        curl_state = curl_global_init(CURL_GLOBAL_DEFAULT);
}

const char *mr_version(void)
{
        return MILLRACE_VERSION;
}

static int settings_check(const struct mr_settings *s)
{
        if (mr_url_check(s->admin) != 0)
                return -EINVAL;
        if (s->parallel < 1 || s->parallel > MR_PARALLEL_MAX || s->attempts < 1 || s->attempts > 20)
                return -EINVAL;
        return s->connect_timeout_s < 1 || s->stall_timeout_s < 1 ? -EINVAL : 0;
}

static unsigned threads_default(void)
{
        long processors = sysconf(_SC_NPROCESSORS_ONLN);

        return processors < 1 ? 1 : processors > 4 ? 4 : (unsigned)processors;
}

/* Also in signal handlers. */
static void client_wake(struct mr_client *client)
{
        for (unsigned i = 0; i < MR_THREADS_MAX; i++) {
                struct mr_loop *loop = atomic_load(&client->loop[i]);

                if (loop != NULL)
                        mr_loop_wake(loop);
        }
        mr_rdma_context_wake(client->rdma);
}

int mr_core_new(const struct mr_settings *settings, const struct mr_core_options *options, struct mr_client **out)
{
        struct mr_client *client;
        int rv;

        if (settings_check(settings) != 0 || options->threads > MR_THREADS_MAX)
                return -EINVAL;
        pthread_once(&libraries_once, libraries_start);
        if (curl_state != CURLE_OK)
                return -ENOMEM;
        client = calloc(1, sizeof(*client));
        if (client == NULL)
                return -ENOMEM;
        rv = mr_endpoints_parse(settings->endpoint, &client->endpoints);
        if (rv == 0 && mr_rdma_context_new(client, &client->rdma) != 0)
                rv = -ENOMEM;
        if (rv != 0) {
                free(client);
                return rv;
        }
        client->settings = *settings;
        explicit_bzero(client->settings.secret_key, sizeof(client->settings.secret_key));
        explicit_bzero(client->settings.session_token, sizeof(client->settings.session_token));
        client->threads = options->threads != 0 ? options->threads : threads_default();
        client->creds = options->creds;
        client->pid = getpid();
        client->wake = client_wake;
        mr_url_host(settings->admin, &client->admin_tls, client->admin_host, sizeof(client->admin_host));
        atomic_init(&client->canceled, false);
        pthread_mutex_init(&client->lock, NULL);
        pthread_cond_init(&client->quiet, NULL);
        pthread_cond_init(&client->work, NULL);
        *out = client;
        return 0;
}

void mr_client_free(struct mr_client *client)
{
        if (client == NULL || client->pid != getpid())
                return;
        mr_client_cancel(client);
        pthread_mutex_lock(&client->lock);
        while (client->busy > 0)
                pthread_cond_wait(&client->quiet, &client->lock);
        pthread_mutex_unlock(&client->lock);
        mr_rdma_context_stop(client->rdma);
        mr_work_end(client);
        for (unsigned i = 0; i < client->loops; i++)
                mr_loop_free(atomic_load(&client->loop[i]));
        mr_rdma_context_free(client->rdma);
        mr_creds_free(client->creds);
        pthread_cond_destroy(&client->work);
        pthread_cond_destroy(&client->quiet);
        pthread_mutex_destroy(&client->lock);
        free(client);
}

const char *mr_client_endpoint(const struct mr_client *client)
{
        return client->endpoints.at[0].url;
}

const char *mr_client_region(const struct mr_client *client)
{
        return client->settings.region;
}
