/*
 * session_request.c - the HTTP side of RDMA sessions: the request that opens one and its answer
 * (docs/rdma-protocol.md, "Opening a session"), and the one that ends it. On the connection's
 * thread, which waits in its own way.
 */
#include "client/rdma/session_request.h"

#include "client/credentials/creds.h"
#include "client/http/client_request.h"
#include "client/base/object_check.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PATH_BUCKET "_millrace" /* no bucket can have that name */
#define PATH_KEY    "rdma/v1/sessions"
#define OPEN_MS     10000 /* transfers wait for it, and may go over TCP or elsewhere */
#define DELETE_MS   2000

/* ---- waiting --------------------------------------------------------------------------------- */

/* owner: the connection's thread, which waits until over */
struct exchange {
        unsigned magic; /* object_check.h */
        struct mr_request request;
        struct mr_session_wait wait;
        pthread_mutex_t lock; /* guards over, and holds up the connection until it was woken: it may go then */
        bool over;
        int rv;
};

static void session_request_answered(void *arg, struct mr_request *request, int rv)
{
        struct exchange *exchange = MR_CAST(exchange, arg);

        pthread_mutex_lock(&exchange->lock);
        assert(!exchange->over && request == &exchange->request);
        exchange->rv = rv;
        exchange->over = true;
        exchange->wait.wake(exchange->wait.arg);
        pthread_mutex_unlock(&exchange->lock); /* the exchange may be gone behind this */
}

static bool session_request_is_over(struct exchange *exchange)
{
        bool over;

        pthread_mutex_lock(&exchange->lock);
        over = exchange->over;
        pthread_mutex_unlock(&exchange->lock);
        return over;
}

static int session_request_run(struct mr_client *client, struct exchange *exchange)
{
        int rv;

        exchange->magic = exchange_magic;
        pthread_mutex_init(&exchange->lock, NULL);
        exchange->request.done = session_request_answered;
        exchange->request.done_arg = exchange;
        rv = mr_request_start(client, &exchange->request);
        while (rv == 0 && !session_request_is_over(exchange))
                exchange->wait.pause(exchange->wait.arg);
        pthread_mutex_destroy(&exchange->lock);
        return rv != 0 ? rv : exchange->rv;
}

/* ---- what is answered ------------------------------------------------------------------------ */

static int read_hex(const json_t *object, const char *name, uint8_t *out, size_t len)
{
        const char *text = json_string_value(json_object_get(object, name));

        return text != NULL && rdx_unhex(text, strlen(text), out, len) ? 0 : -EPROTO;
}

static int session_request_read_number(const json_t *object, const char *name, int64_t least, int64_t most,
                                       int64_t *out)
{
        const json_t *value = json_object_get(object, name);

        if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most)
                return -EPROTO;
        *out = json_integer_value(value);
        return 0;
}

/* -EOPNOTSUPP: more queue pairs than this client makes. */
static int read_endpoint(const json_t *endpoints, struct mr_session *out)
{
        const json_t *endpoint = json_array_get(endpoints, 0);
        const char *address = json_string_value(json_object_get(endpoint, "address"));
        int64_t number, port, pairs;

        if (json_array_size(endpoints) == 0 || address == NULL || strlen(address) >= sizeof(out->address) ||
            session_request_read_number(endpoint, "endpoint", 0, UINT16_MAX, &number) != 0 ||
            session_request_read_number(endpoint, "port", 1, UINT16_MAX, &port) != 0 ||
            session_request_read_number(endpoint, "queue_pairs", 1, INT32_MAX, &pairs) != 0 ||
            read_hex(endpoint, "boot_id", out->grant.boot, RDX_BOOT_LEN) != 0)
                return -EPROTO;
        if (json_array_size(endpoints) != 1 || pairs != 1)
                return -EOPNOTSUPP;
        snprintf(out->address, sizeof(out->address), "%s", address);
        out->grant.address = out->address;
        out->grant.port = (uint16_t)port;
        out->grant.endpoint = (uint16_t)number;
        return json_is_true(json_object_get(endpoint, "control")) ? 0 : -EPROTO;
}

static int read_limits(const json_t *limits, struct mr_session *out)
{
        int64_t requests, messages, window;

        if (session_request_read_number(limits, "requests", 1, INT32_MAX, &requests) != 0 ||
            session_request_read_number(limits, "messages", 0, INT32_MAX, &messages) != 0 ||
            session_request_read_number(limits, "window_bytes", 1, INT64_MAX, &window) != 0)
                return -EPROTO;
        out->grant.requests = (unsigned)requests;
        out->grant.messages = (unsigned)messages;
        out->window_bytes = (uint64_t)window;
        return 0;
}

static int session_request_read_rights(const json_t *answer, unsigned asked, struct mr_session *out)
{
        const char *name = json_string_value(json_object_get(answer, "rights"));
        unsigned rights = name != NULL ? rdx_rights_named(name) & asked : 0;

        if (rights == 0)
                return -EPROTO;
        out->grant.rights = (enum rdx_rights)rights;
        return 0;
}

static int read_answer(const json_t *answer, unsigned rights, struct mr_session *out, int64_t *life_ms)
{
        int64_t version;
        int rv = session_request_read_number(answer, "version", RDX_VERSION, RDX_VERSION, &version);

        if (rv == 0)
                rv = read_hex(answer, "session", out->grant.session, RDX_ID_LEN);
        if (rv == 0)
                rv = read_hex(answer, "server_nonce", out->grant.server_nonce, RDX_NONCE_LEN);
        if (rv == 0)
                rv = session_request_read_number(answer, "expires_ms", 0, INT64_MAX / 2, life_ms);
        if (rv == 0)
                rv = session_request_read_rights(answer, rights, out);
        if (rv == 0)
                rv = read_limits(json_object_get(answer, "limits"), out);
        return rv == 0 ? read_endpoint(json_object_get(answer, "endpoints"), out) : rv;
}

/* ---- opening --------------------------------------------------------------------------------- */

static char *wishes(const uint8_t nonce[RDX_NONCE_LEN], unsigned rights)
{
        char text[2 * RDX_NONCE_LEN + 1], *body = NULL;
        json_t *names = json_array(), *wish;

        rdx_hex(nonce, RDX_NONCE_LEN, text);
        for (unsigned scheme = RDX_RIGHTS_WINDOW2; scheme <= RDX_RIGHTS_REGION; scheme <<= 1)
                if ((scheme & rights) != 0)
                        json_array_append_new(names, json_string(rdx_rights_name((enum rdx_rights)scheme)));
        wish = json_pack("{s:[i], s:s, s:i, s:o, s:i}", "versions", (int)RDX_VERSION, "client_nonce", text,
                         "queue_pairs", 1, "rights", names, "receives", (int)MR_SESSION_RECEIVES);
        if (wish != NULL)
                body = json_dumps(wish, JSON_COMPACT);
        json_decref(wish);
        return body;
}

/*
 * What a refusal means for RDMA: an endpoint that does not know the path answers whatever it has
 * for that.
 */
static int session_request_refused(const struct mr_request *request, int rv, struct mr_error *err)
{
        int status = request->error.http_status;
        bool says_nothing = status == 0 || status == 403 || status == 408 || status == 429 ||
                            (status >= 500 && status != 501 && status != 505);

        *err = request->error;
        if (strcmp(err->s3_code, "RDMARightsUnsupported") == 0)
                rv = -ENOTSUP;
        else if (!says_nothing && !request->may_pass)
                rv = -EOPNOTSUPP;
        if (rv == -EOPNOTSUPP || rv == -ENOTSUP) {
                char what[sizeof(err->message)];

                snprintf(what, sizeof(what), "%s", err->message);
                snprintf(err->message, sizeof(err->message), "the endpoint offers no RDMA session: %.400s", what);
                rv = -EOPNOTSUPP;
        }
        err->code = rv;
        return rv;
}

static int session_request_take_answer(const struct mr_request *request, unsigned rights,
                                       const struct mr_signed *signed_by, struct mr_session *out, struct mr_error *err)
{
        const struct mr_response *response = &request->response;
        json_t *answer = response->body_len > 0 ? json_loadb(response->body, response->body_len, 0, NULL) : NULL;
        int64_t life_ms = 0, left_ms;
        int rv = read_answer(answer, rights, out, &life_ms);

        json_decref(answer);
        if (rv == -EOPNOTSUPP)
                return mr_failure(err, rv, "the endpoint wants more queue pairs than this client makes");
        if (rv != 0 || response->status != 200) {
                /* some answer 200 to everything: they have no RDMA */
                mr_failure(err, -EOPNOTSUPP, "the endpoint's answer is not one that opens an RDMA session");
                err->http_status = response->status;
                return err->code;
        }
        memcpy(out->grant.signing_key, signed_by->key.bytes, RDX_KEY_LEN);
        out->grant.receives = MR_SESSION_RECEIVES;
        out->generation = signed_by->generation;
        left_ms = signed_by->expires_s != 0 ? signed_by->expires_s * 1000 - mr_core_now_ms() : INT64_MAX;
        out->expires_ms = mr_core_clock_ms() + (life_ms < left_ms ? life_ms : left_ms > 0 ? left_ms : 0);
        rdx_hex(out->grant.session, RDX_ID_LEN, out->id);
        return 0;
}

int mr_session_open(struct mr_client *client, unsigned endpoint, unsigned rights, const struct mr_session_wait *wait,
                    struct mr_session *out, struct mr_error *err)
{
        struct exchange *exchange = calloc(1, sizeof(*exchange));
        struct mr_signed signed_by = {0};
        char *body = NULL;
        int rv = -ENOMEM;

        memset(out, 0, sizeof(*out));
        if (exchange != NULL && getrandom(out->grant.client_nonce, RDX_NONCE_LEN, 0) == RDX_NONCE_LEN)
                body = wishes(out->grant.client_nonce, rights);
        if (body == NULL) {
                free(exchange);
                return mr_failure_errno(err, rv);
        }
        exchange->wait = *wait;
        exchange->request = (struct mr_request){.method = "POST",
                                                .bucket = PATH_BUCKET,
                                                .key = PATH_KEY,
                                                .single = true,
                                                .fresh = true,
                                                .limit_ms = OPEN_MS,
                                                .only = &endpoint,
                                                .signed_body = true,
                                                .signed_by = &signed_by,
                                                .data = body,
                                                .len = strlen(body)};
        mr_request_header(&exchange->request, "content-type", "application/json");
        rv = session_request_run(client, exchange);
        if (rv == 0)
                rv = session_request_take_answer(&exchange->request, rights, &signed_by, out, err);
        else
                rv = session_request_refused(&exchange->request, rv, err);
        explicit_bzero(&signed_by, sizeof(signed_by));
        mr_response_free(&exchange->request.response);
        free(exchange);
        free(body);
        if (rv != 0)
                mr_session_wipe(out);
        return rv;
}

void mr_session_wipe(struct mr_session *session)
{
        explicit_bzero(session, sizeof(*session));
}

void mr_session_delete(struct mr_client *client, const struct mr_session_key *key, const struct mr_session_wait *wait)
{
        struct exchange *exchange = calloc(1, sizeof(*exchange));
        char path[sizeof(PATH_KEY) + sizeof(key->id) + 1];

        if (exchange == NULL)
                return;
        snprintf(path, sizeof(path), "%s/%s", PATH_KEY, key->id);
        exchange->wait = *wait;
        exchange->request = (struct mr_request){.method = "DELETE",
                                                .bucket = PATH_BUCKET,
                                                .key = path,
                                                .once = true,
                                                .urgent = true,
                                                .session = key,
                                                .limit_ms = DELETE_MS};
        (void)session_request_run(client, exchange);
        mr_response_free(&exchange->request.response);
        free(exchange);
}
