/*
 * etcd_attempt.c - one HTTP request to one endpoint, by libcurl. Called by the client's thread.
 *
 * Whether a byte may have left decides whether a transaction's outcome is known. libcurl says so
 * before it sends (before_send()). It also sends again by itself where a connection that it had
 * kept turns out to be closed: so a transaction gets a new connection, and a second sending is
 * refused.
 */
#include "cluster/etcd_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_ROOM_FIRST 4096u

/* ---- what libcurl calls ---------------------------------------------------------------------- */

static int before_send(void *arg, char *remote, char *local, int remote_port, int local_port)
{
        struct etcd_attempt *attempt = &((struct etcd_call *)arg)->attempt;

        if (attempt->sent && attempt->once)
                return CURL_PREREQFUNC_ABORT;
        attempt->sent = true;
        return CURL_PREREQFUNC_OK;
}

static bool in_make_room(struct etcd_attempt *attempt, size_t len)
{
        size_t room = attempt->in_room > 0 ? attempt->in_room : IN_ROOM_FIRST;
        char *in;

        while (room < attempt->in_len + len)
                room *= 2;
        if (room == attempt->in_room)
                return true;
        in = realloc(attempt->in, room);
        if (in == NULL)
                return false;
        attempt->in = in;
        attempt->in_room = room;
        return true;
}

static size_t attempt_on_bytes(char *data, size_t size, size_t count, void *arg)
{
        struct etcd_attempt *attempt = &((struct etcd_call *)arg)->attempt;
        size_t len = size * count;

        attempt->too_large = len > attempt->in_max - attempt->in_len;
        if (attempt->too_large || !in_make_room(attempt, len))
                return 0;
        memcpy(attempt->in + attempt->in_len, data, len);
        attempt->in_len += len;
        return len;
}

/* ---- the request ----------------------------------------------------------------------------- */

/* Adds a line; false: no memory. */
static bool line_add(struct etcd_attempt *attempt, const char *line)
{
        struct curl_slist *lines = curl_slist_append(attempt->lines, line);

        if (lines != NULL)
                attempt->lines = lines;
        return lines != NULL;
}

static bool lines_make(struct etcd_call *call)
{
        struct etcd_attempt *attempt = &call->attempt;
        char line[ETCD_TOKEN_MAX + 32];

        /* 'Expect: 100-continue' would let libcurl send a body twice */
        if (!line_add(attempt, "Content-Type: application/json") || !line_add(attempt, "Expect:"))
                return false;
        if (call->request == NULL || call->client->token_serial == 0)
                return true;
        snprintf(line, sizeof(line), "Authorization: %s", call->client->token);
        return line_add(attempt, line);
}

static bool curl_set_tls(CURL *curl, const struct etcd_client *client)
{
        bool good = curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK;

        if (client->ca_file != NULL) {
                /* these CAs, and not the system's beside them */
                good = good && curl_easy_setopt(curl, CURLOPT_CAINFO, client->ca_file) == CURLE_OK &&
                       curl_easy_setopt(curl, CURLOPT_CAPATH, NULL) == CURLE_OK;
        }
        if (client->cert_file != NULL) {
                good = good && curl_easy_setopt(curl, CURLOPT_SSLCERT, client->cert_file) == CURLE_OK &&
                       curl_easy_setopt(curl, CURLOPT_SSLKEY, client->key_file) == CURLE_OK;
        }
        return good;
}

static bool curl_set_bounds(CURL *curl, const struct etcd_call *call, uint64_t limit_ns)
{
        long ms = (long)(limit_ns / 1000000);

        return curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, call->client->connect_ms) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, ms > 0 ? ms : 1L) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, call->changes ? 1L : 0L) == CURLE_OK;
}

static bool curl_set_request(CURL *curl, struct etcd_call *call, size_t len)
{
        struct etcd_attempt *attempt = &call->attempt;

        return curl_easy_setopt(curl, CURLOPT_URL, attempt->url) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_HTTPHEADER, attempt->lines) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_USERAGENT, "millrace/" MILLRACE_VERSION) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_POSTFIELDS, attempt->body) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, attempt->text) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_PREREQFUNCTION, before_send) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_PREREQDATA, call) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, attempt_on_bytes) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_WRITEDATA, call) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_PRIVATE, call) == CURLE_OK;
}

int etcd_attempt_begin(struct etcd_call *call, const char *path, char *body, size_t len, size_t answer_max,
                       uint64_t limit_ns)
{
        struct etcd_attempt *attempt = &call->attempt;
        struct etcd_client *client = call->client;
        int rv = -ENOMEM;
        CURL *curl;

        memset(attempt, 0, sizeof(*attempt));
        attempt->body = body;
        attempt->in_max = answer_max;
        attempt->once = call->changes;
        snprintf(attempt->url, sizeof(attempt->url), "%s%s", client->endpoints[call->endpoint], path);
        curl = curl_easy_init();
        if (curl == NULL || !lines_make(call))
                goto err;
        rv = -EINVAL;
        if (!curl_set_bounds(curl, call, limit_ns) || !curl_set_tls(curl, client) ||
            !curl_set_request(curl, call, len) || curl_multi_add_handle(client->multi, curl) != CURLM_OK)
                goto err;
        attempt->curl = curl;
        client->running++;
        return 0;

err:
        curl_slist_free_all(attempt->lines);
        curl_easy_cleanup(curl);
        free(body);
        memset(attempt, 0, sizeof(*attempt));
        return rv;
}

void etcd_attempt_end(struct etcd_call *call)
{
        struct etcd_attempt *attempt = &call->attempt;

        if (attempt->curl == NULL)
                return;
        curl_multi_remove_handle(call->client->multi, attempt->curl);
        curl_easy_cleanup(attempt->curl);
        curl_slist_free_all(attempt->lines);
        free(attempt->body);
        free(attempt->in);
        attempt->curl = NULL;
        attempt->lines = NULL;
        attempt->body = attempt->in = NULL;
        call->client->running--;
}
