/*
 * etcd_client.c - the real client of etcd: a thread of its own with a multi handle of libcurl, the
 * requests that it has, and what was seen of etcd. What a request means is etcd_call.c's.
 *
 * Bounds (I9): CL_QUEUE_MAX requests and one login; ETCD_RUNNING_MAX of them have a connection.
 */
#include "cluster/etcd_client.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONNECT_MS  1000
#define CONNECTIONS 16L /* kept open */
#define LOOK_MS     1000

static struct etcd_client *client_of(struct cl_etcd *etcd)
{
        return container_of(etcd, struct etcd_client, base);
}

/* ---- what was seen --------------------------------------------------------------------------- */

enum cl_verdict etcd_client_verdict(struct etcd_client *client, struct cl_seen *seen)
{
        enum cl_verdict verdict;

        pthread_mutex_lock(&client->lock);
        *seen = client->seen;
        verdict = client->verdict;
        pthread_mutex_unlock(&client->lock);
        return verdict;
}

enum cl_verdict etcd_client_judge(struct etcd_client *client, const struct cl_seen *floor,
                                  const struct etcd_header *header)
{
        struct cl_seen known = *floor;
        enum cl_verdict verdict;
        bool found = false;

        pthread_mutex_lock(&client->lock);
        known.cluster_id = client->seen.cluster_id; /* whenever it was learnt */
        verdict = client->verdict;
        if (verdict == CL_SEEN_FINE) {
                verdict = client->verdict = cl_seen_judge(&known, header->cluster_id, header->revision);
                found = verdict != CL_SEEN_FINE;
        }
        if (verdict == CL_SEEN_FINE)
                cl_seen_add(&client->seen, header->cluster_id, header->revision);
        pthread_mutex_unlock(&client->lock);
        if (found && client->violated != NULL)
                client->violated(client->arg, verdict);
        return verdict;
}

static void client_seen(struct cl_etcd *etcd, struct cl_seen *out)
{
        etcd_client_verdict(client_of(etcd), out);
}

static void client_distrust(struct cl_etcd *etcd, enum cl_verdict verdict)
{
        struct etcd_client *client = client_of(etcd);

        pthread_mutex_lock(&client->lock);
        if (client->verdict == CL_SEEN_FINE)
                client->verdict = verdict;
        pthread_mutex_unlock(&client->lock);
}

/* ---- calls ----------------------------------------------------------------------------------- */

void etcd_client_add(struct etcd_client *client, struct etcd_call *call)
{
        call->next = NULL;
        call->prev = client->last;
        if (client->last != NULL)
                client->last->next = call;
        else
                client->first = call;
        client->last = call;
}

void etcd_client_remove(struct etcd_client *client, struct etcd_call *call)
{
        if (call->prev != NULL)
                call->prev->next = call->next;
        else
                client->first = call->next;
        if (call->next != NULL)
                call->next->prev = call->prev;
        else
                client->last = call->prev;
}

static struct etcd_call *call_make(struct etcd_client *client, struct cl_request *request)
{
        struct etcd_call *call = calloc(1, sizeof(*call));

        if (call == NULL)
                return NULL;
        call->client = client;
        call->request = request;
        call->changes = cl_request_changes(request);
        call->deadline = request->deadline != 0 ? request->deadline : lp_clock() + client->timeout_ns;
        call->page = (struct etcd_page){.revision = request->at_revision, .limit = CL_PAGE_KEYS};
        return call;
}

static void inbox_add(struct etcd_client *client, struct etcd_call *call)
{
        pthread_mutex_lock(&client->lock);
        if (client->inbox_last != NULL)
                client->inbox_last->next = call;
        else
                client->inbox_first = call;
        client->inbox_last = call;
        pthread_mutex_unlock(&client->lock);
        curl_multi_wakeup(client->multi);
}

static void client_submit(struct cl_etcd *etcd, struct cl_request *request)
{
        struct etcd_client *client = client_of(etcd);
        struct etcd_call *call;

        if (cl_request_check(request) != 0) {
                cl_request_end(request, CL_FAILED_SURE, -EINVAL, NULL, "the request is wrong, or too large");
                return;
        }
        if (atomic_fetch_add(&client->queued, 1) >= CL_QUEUE_MAX) {
                atomic_fetch_sub(&client->queued, 1);
                cl_request_end(request, CL_FAILED_SURE, -EBUSY, NULL, "%u requests to etcd wait already", CL_QUEUE_MAX);
                return;
        }
        call = call_make(client, request);
        if (call == NULL) {
                atomic_fetch_sub(&client->queued, 1);
                cl_request_end(request, CL_FAILED_SURE, -ENOMEM, NULL, "there is no memory for a request to etcd");
                return;
        }
        inbox_add(client, call);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* False: the client ends. */
static bool client_take_inbox(struct etcd_client *client)
{
        struct etcd_call *call, *next;
        bool ending;

        pthread_mutex_lock(&client->lock);
        call = client->inbox_first;
        client->inbox_first = client->inbox_last = NULL;
        ending = client->ending;
        pthread_mutex_unlock(&client->lock);
        for (; call != NULL; call = next) {
                next = call->next;
                etcd_client_add(client, call);
        }
        return !ending;
}

/* A login that ends may end others, which stand before or behind it: then the list is begun anew. */
static void client_look(struct etcd_client *client)
{
        uint64_t now = lp_clock();
        struct etcd_call *call = client->first, *next;

        for (; call != NULL; call = next) {
                bool login = call->request == NULL;

                next = call->next;
                etcd_call_look(call, now);
                if (login && !client->login_runs)
                        next = client->first;
        }
}

static bool client_take_results(struct etcd_client *client)
{
        CURLMsg *message;
        bool some = false;
        int left;

        while ((message = curl_multi_info_read(client->multi, &left)) != NULL) {
                struct etcd_call *call = NULL;
                CURLcode code = message->data.result;

                if (message->msg != CURLMSG_DONE)
                        continue;
                curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call);
                etcd_call_over(call, code);
                some = true;
        }
        return some;
}

/* How long nothing happens by itself. */
static int client_wait_ms(const struct etcd_client *client)
{
        uint64_t now = lp_clock(), soonest = now + LOOK_MS * 1000000ull;
        const struct etcd_call *call;

        for (call = client->first; call != NULL; call = call->next) {
                uint64_t due = call->state == CALL_PAUSED && call->due < call->deadline ? call->due : call->deadline;

                if (call->state == CALL_READY && client->running < ETCD_RUNNING_MAX)
                        return 0; /* it came while the list was looked at: a login */
                if (call->state != CALL_RUNNING && due < soonest)
                        soonest = due;
        }
        return soonest <= now ? 0 : (int)((soonest - now + 999999) / 1000000);
}

static void *client_main(void *arg)
{
        struct etcd_client *client = arg;
        int running;

        while (client_take_inbox(client)) {
                client_look(client);
                curl_multi_perform(client->multi, &running);
                if (!client_take_results(client))
                        curl_multi_poll(client->multi, NULL, 0, client_wait_ms(client), NULL);
        }
        while (client->first != NULL)
                etcd_call_cancel(client->first);
        return NULL;
}

static int thread_start(struct etcd_client *client)
{
        sigset_t all, before;
        int rv;

        /* of the program's signals none is this thread's, and none of a connection that was closed */
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        rv = -pthread_create(&client->thread, NULL, client_main, client);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (rv == 0)
                pthread_setname_np(client->thread, "etcd-client");
        return rv;
}

/* ---- options --------------------------------------------------------------------------------- */

static bool url_part(CURLU *url, CURLUPart part, char *out, size_t size)
{
        char *text = NULL;
        bool good = curl_url_get(url, part, &text, 0) == CURLUE_OK && strlen(text) < size;

        snprintf(out, size, "%s", good ? text : "");
        curl_free(text);
        return good;
}

static bool is_loopback(const char *host)
{
        return strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 || strcmp(host, "127.0.0.1") == 0;
}

/* "scheme://host:port" of a URL that has no more than that. Its memory is the caller's; NULL: it is none, or there is no memory. */
static char *endpoint_copy(const char *text, bool login, char *why, size_t why_size)
{
        char scheme[16], host[256], port[8], rest[8], *out = NULL;
        CURLU *url = curl_url();

        snprintf(why, why_size, "there is no memory");
        if (url == NULL)
                return NULL;
        snprintf(why, why_size, "'%.200s' is no http:// or https:// URL of a host with a port", text);
        if (curl_url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK ||
            !url_part(url, CURLUPART_SCHEME, scheme, sizeof(scheme)) ||
            !url_part(url, CURLUPART_HOST, host, sizeof(host)) || !url_part(url, CURLUPART_PORT, port, sizeof(port)))
                goto out;
        if ((strcasecmp(scheme, "https") != 0 && strcasecmp(scheme, "http") != 0) ||
            url_part(url, CURLUPART_USER, rest, sizeof(rest)) || url_part(url, CURLUPART_QUERY, rest, sizeof(rest)) ||
            url_part(url, CURLUPART_FRAGMENT, rest, sizeof(rest)) ||
            (url_part(url, CURLUPART_PATH, rest, sizeof(rest)) && strcmp(rest, "/") != 0) || *rest == '\0')
                goto out;
        if (login && strcasecmp(scheme, "https") != 0 && !is_loopback(host)) {
                snprintf(why, why_size, "'%.200s': a password goes over https:// only", text);
                goto out;
        }
        if (asprintf(&out, "%s://%s:%s", scheme, host, port) < 0)
                out = NULL;
out:
        curl_url_cleanup(url);
        return out;
}

static int copy_endpoints(struct etcd_client *client, const struct cl_etcd_options *options, char *why, size_t why_size)
{
        unsigned i;

        if (options->endpoint_count == 0 || options->endpoint_count > CL_ENDPOINTS_MAX) {
                snprintf(why, why_size, "there are %u endpoints of etcd; 1 to %u are allowed", options->endpoint_count,
                         CL_ENDPOINTS_MAX);
                return -EINVAL;
        }
        for (i = 0; i < options->endpoint_count; i++) {
                client->endpoints[i] = endpoint_copy(options->endpoints[i], options->user != NULL, why, why_size);
                if (client->endpoints[i] == NULL)
                        return -EINVAL;
                client->endpoint_count++;
        }
        return 0;
}

static int copy_text(char **out, const char *text)
{
        *out = text != NULL ? strdup(text) : NULL;
        return text != NULL && *out == NULL ? -ENOMEM : 0;
}

static int copy_texts(struct etcd_client *client, const struct cl_etcd_options *options, char *why, size_t why_size)
{
        if ((options->cert_file == NULL) != (options->key_file == NULL)) {
                snprintf(why, why_size, "a certificate and its key are given together");
                return -EINVAL;
        }
        if ((options->user == NULL) != (options->password == NULL)) {
                snprintf(why, why_size, "a user and a password are given together");
                return -EINVAL;
        }
        snprintf(why, why_size, "there is no memory");
        return copy_text(&client->ca_file, options->ca_file) != 0 ||
                               copy_text(&client->cert_file, options->cert_file) != 0 ||
                               copy_text(&client->key_file, options->key_file) != 0 ||
                               copy_text(&client->user, options->user) != 0 ||
                               copy_text(&client->password, options->password) != 0
                       ? -ENOMEM
                       : 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void client_destroy(struct etcd_client *client)
{
        unsigned i;

        if (client->multi != NULL)
                curl_multi_cleanup(client->multi);
        for (i = 0; i < client->endpoint_count; i++)
                free(client->endpoints[i]);
        free(client->ca_file);
        free(client->cert_file);
        free(client->key_file);
        free(client->user);
        if (client->password != NULL)
                explicit_bzero(client->password, strlen(client->password));
        free(client->password);
        explicit_bzero(client->token, sizeof(client->token));
        pthread_mutex_destroy(&client->lock);
        free(client);
}

static void client_free(struct cl_etcd *etcd)
{
        struct etcd_client *client = client_of(etcd);

        pthread_mutex_lock(&client->lock);
        client->ending = true;
        pthread_mutex_unlock(&client->lock);
        curl_multi_wakeup(client->multi);
        pthread_join(client->thread, NULL);
        client_destroy(client);
}

static const struct cl_etcd_ops client_ops = {client_submit, client_seen, client_distrust, client_free};

static int client_start(struct etcd_client *client, char *why, size_t why_size)
{
        int rv;

        snprintf(why, why_size, "there is no memory");
        client->multi = curl_multi_init();
        if (client->multi == NULL || curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS) != CURLM_OK)
                return -ENOMEM;
        rv = thread_start(client);
        if (rv != 0)
                snprintf(why, why_size, "no thread can be started: %s", strerror(-rv));
        return rv;
}

int cl_etcd_new(const struct cl_etcd_options *options, struct cl_etcd **out, char *why, size_t why_size)
{
        struct etcd_client *client;
        int rv;

        snprintf(why, why_size, "there is no memory");
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                return -ENOMEM;
        client = calloc(1, sizeof(*client));
        if (client == NULL)
                return -ENOMEM;
        client->base.ops = &client_ops;
        pthread_mutex_init(&client->lock, NULL);
        client->seen = options->seen;
        client->violated = options->violated;
        client->arg = options->arg;
        client->timeout_ns = (options->timeout_ms != 0 ? options->timeout_ms : CL_TIMEOUT_MS) * 1000000ull;
        client->connect_ms = options->connect_ms != 0 ? (long)options->connect_ms : CONNECT_MS;
        rv = copy_endpoints(client, options, why, why_size);
        if (rv == 0)
                rv = copy_texts(client, options, why, why_size);
        if (rv == 0)
                rv = client_start(client, why, why_size);
        if (rv != 0) {
                client_destroy(client);
                return rv;
        }
        *why = '\0';
        *out = &client->base;
        return 0;
}
