/*
 * session_open.c - RDMA sessions opened and ended over HTTP: JSON in and out
 * (docs/rdma-protocol.md, "Opening a session").
 *
 * On the request's loop; the RDMA module keeps the session. A session's keys come from the signing
 * key of the request that opens it, so this takes requests that are signed in the Authorization
 * header over their body, and no others.
 */
#include "gateway/rdma/rdma_session.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/users.h"
#include "gateway/sts/signer.h"

#define OPEN_BODY_MAX   4096u
#define VERSIONS_MAX    16u
#define QUEUE_PAIRS_MAX 64
#define RECEIVES_LEAST  16
#define RECEIVES_MOST   4096

/* ---- what is asked for ----------------------------------------------------------------------- */

/* 1: version 1 is among them; 0: only others; -EBADMSG. */
static int read_versions(const json_t *versions)
{
        size_t i, n = json_array_size(versions);
        int found = 0;

        if (!json_is_array(versions) || n == 0 || n > VERSIONS_MAX)
                return -EBADMSG;
        for (i = 0; i < n; i++) {
                const json_t *version = json_array_get(versions, i);

                if (!json_is_integer(version))
                        return -EBADMSG;
                if (json_integer_value(version) == RDX_VERSION)
                        found = 1;
        }
        return found;
}

/* The mask of those that are known here. */
static int read_rights(const json_t *rights, unsigned *out)
{
        size_t i;

        if (!json_is_array(rights))
                return -EBADMSG;
        *out = 0;
        for (i = 0; i < json_array_size(rights); i++) {
                const char *name = json_string_value(json_array_get(rights, i));

                if (name == NULL)
                        return -EBADMSG;
                *out |= rdx_rights_named(name);
        }
        return 0;
}

static int read_number(const json_t *value, json_int_t least, json_int_t most, unsigned *out)
{
        if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most)
                return -EBADMSG;
        *out = (unsigned)json_integer_value(value);
        return 0;
}

static enum s3_error read_session_wishes(const json_t *asked, struct rdx_open *open)
{
        const char *nonce = json_string_value(json_object_get(asked, "client_nonce"));
        int version = read_versions(json_object_get(asked, "versions"));

        if (version < 0 || nonce == NULL || !rdx_unhex(nonce, strlen(nonce), open->client_nonce, RDX_NONCE_LEN) ||
            read_number(json_object_get(asked, "queue_pairs"), 1, QUEUE_PAIRS_MAX, &open->queue_pairs) != 0 ||
            read_number(json_object_get(asked, "receives"), RECEIVES_LEAST, RECEIVES_MOST, &open->receives) != 0 ||
            read_rights(json_object_get(asked, "rights"), &open->rights) != 0)
                return S3_ERR_MALFORMED_RDMA_REQUEST;
        return version == 1 ? S3_OK : S3_ERR_RDMA_VERSION_UNSUPPORTED;
}

static enum s3_error read_body(const struct gw_body *body, struct rdx_open *open)
{
        json_t *asked = NULL;
        enum s3_error error;

        if (body != NULL && body->received <= OPEN_BODY_MAX)
                asked = json_loadb(body->kept, body->received, JSON_REJECT_DUPLICATES, NULL);
        error = asked != NULL ? read_session_wishes(asked, open) : S3_ERR_MALFORMED_RDMA_REQUEST;
        json_decref(asked);
        return error;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static json_t *endpoint_json(const struct rdx_opened_endpoint *endpoint)
{
        char boot[2 * RDX_BOOT_LEN + 1];

        rdx_hex(endpoint->boot, RDX_BOOT_LEN, boot);
        return json_pack("{s:i, s:s, s:i, s:s, s:i, s:b}", "endpoint", (int)endpoint->endpoint, "address",
                         endpoint->address, "port", (int)endpoint->port, "boot_id", boot, "queue_pairs",
                         (int)endpoint->queue_pairs, "control", (int)endpoint->control);
}

static json_t *limits_json(const struct rdx_limits *limits)
{
        return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:I}", "requests", (int)limits->requests, "messages",
                         (int)limits->messages, "message_bytes", (int)RDX_MESSAGE_MAX, "message_entries",
                         (int)RDX_MESSAGE_ENTRIES, "batch_entries", (int)RDX_BATCH_ENTRIES, "number_window",
                         (int)RDX_NUMBER_WINDOW, "window_bytes", (json_int_t)limits->window_bytes);
}

/* NULL: no memory. */
static char *answer_text(const struct rdx_opened *opened)
{
        char session[2 * RDX_ID_LEN + 1], nonce[2 * RDX_NONCE_LEN + 1], expires[S3_DATE_ISO_SIZE], *text = NULL;
        json_t *endpoints = json_array(), *answer;
        unsigned i;

        rdx_hex(opened->session, RDX_ID_LEN, session);
        rdx_hex(opened->server_nonce, RDX_NONCE_LEN, nonce);
        s3_date_format_iso(lp_wall_ms() + (int64_t)opened->expires_ms, expires);
        for (i = 0; i < opened->endpoint_count; i++)
                json_array_append_new(endpoints, endpoint_json(&opened->endpoint[i]));
        answer = json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:o}", "version", (int)RDX_VERSION, "session",
                           session, "server_nonce", nonce, "rights", rdx_rights_name(opened->rights), "expires", expires,
                           "expires_ms", (json_int_t)opened->expires_ms, "connect_ms", (json_int_t)opened->connect_ms,
                           "endpoints", endpoints, "limits", limits_json(&opened->limits));
        if (answer != NULL)
                text = json_dumps(answer, JSON_COMPACT);
        json_decref(answer);
        return text;
}

static void reply_opened(struct gw_request *req, const struct rdx_opened *opened)
{
        char *text = answer_text(opened);

        if (text == NULL) {
                rdx_session_end(req->loop->gw->rdma, opened->session);
                gw_reply_no_memory(req);
                return;
        }
        gw_reply_header(req, "Content-Type", "application/json");
        gw_reply_header(req, "Cache-Control", "no-store");
        gw_reply_buffer(req, 200, text, strlen(text));
}

static enum s3_error open_error(int rv)
{
        switch (rv) {
        case -EBUSY:
        case -EDQUOT:
                return S3_ERR_SLOW_DOWN;
        case -ENOTSUP:
                return S3_ERR_RDMA_RIGHTS_UNSUPPORTED;
        case -ENODEV:
                return S3_ERR_RDMA_NOT_SUPPORTED;
        default:
                return S3_ERR_MALFORMED_RDMA_REQUEST;
        }
}

/* ---- the operations -------------------------------------------------------------------------- */

void gw_begin_session_open(struct gw_request *req)
{
        const struct s3_auth *auth = &req->loop->auth;
        struct gw_credential room = {.access_key = ""};
        const struct gw_credential *credential;
        struct s3_signing_key *key = gw_alloc(req, sizeof(*key));

        if (req->temporary != NULL) {
                strcpy(room.access_key, req->temporary->access_key);
                strcpy(room.secret_key, req->temporary->secret);
                credential = &room;
        } else {
                credential = gw_signer_find(req->loop, auth->access_key, &room);
        }
        if (key == NULL)
                gw_reply_no_memory(req);
        else if (auth->kind != S3_AUTH_HEADER || auth->payload != S3_PAYLOAD_SHA256 || credential == NULL)
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, NULL);
        else if (req->loop->gw->rdma == NULL)
                gw_reply_error(req, S3_ERR_RDMA_NOT_SUPPORTED, NULL);
        else if (req->content_length != S3_LENGTH_UNKNOWN && req->content_length > OPEN_BODY_MAX)
                gw_reply_error(req, S3_ERR_MALFORMED_RDMA_REQUEST, NULL);
        else {
                gw_signing_key(req->loop, credential, auth->scope_date, key);
                req->work = key;
                gw_begin_done(req);
        }
        explicit_bzero(&room, sizeof(room));
}

/* A session ends with the credentials that opened it: 1 ms is the least that is left. */
static uint64_t credentials_left_ms(const struct gw_request *req)
{
        int64_t left;

        if (req->temporary == NULL)
                return 0;
        left = req->temporary->expires_ms - lp_wall_ms();
        return left > 0 ? (uint64_t)left : 1;
}

/* Batches on the session will ask for the token by its access key. */
static int hold_token(struct gw_request *req, const struct rdx_opened *opened)
{
        int rv = 0;

        if (req->temporary != NULL)
                rv = gw_temporary_hold(req->loop->gw, req->temporary, lp_wall_ms() + (int64_t)opened->expires_ms);
        if (rv != 0)
                rdx_session_end(req->loop->gw->rdma, opened->session);
        return rv != 0 ? -EBUSY : 0;
}

void gw_run_session_open(struct gw_request *req)
{
        struct s3_signing_key *key = req->work;
        struct rdx_open open = {.owner = req->access_key};
        struct rdx_opened opened;
        enum s3_error error = read_body(req->body, &open);
        int rv = 0;

        if (error == S3_OK) {
                memcpy(open.signing_key, key->bytes, RDX_KEY_LEN);
                open.credentials_ms = credentials_left_ms(req);
                rv = rdx_session_open(req->loop->gw->rdma, &open, &opened);
                if (rv == 0)
                        rv = hold_token(req, &opened);
        }
        explicit_bzero(&open.signing_key, sizeof(open.signing_key));
        explicit_bzero(key, sizeof(*key));
        if (error == S3_OK && rv != 0)
                error = open_error(rv);
        if (error == S3_OK)
                reply_opened(req, &opened);
        else
                gw_reply_error(req, error, NULL);
}

bool gw_session_of_path(const struct gw_request *req, uint8_t session[RDX_ID_LEN])
{
        const char *slash = memrchr(req->key.data, '/', req->key.len);

        return rdx_unhex(slash + 1, req->key.len - (size_t)(slash + 1 - req->key.data), session, RDX_ID_LEN);
}

/*
 * By the key of its user, or by its own: gw_session_accept() has made that the user's. One that is
 * over is ended again.
 */
void gw_run_session_end(struct gw_request *req)
{
        struct rdx_server *rdma = req->loop->gw->rdma;
        struct rdx_session_info info;
        uint8_t session[RDX_ID_LEN];
        enum s3_error error = S3_OK;

        if (rdma == NULL) {
                error = S3_ERR_RDMA_NOT_SUPPORTED;
        } else if (!gw_session_of_path(req, session)) {
                error = S3_ERR_MALFORMED_RDMA_REQUEST;
        } else if (rdx_session_find(rdma, session, &info) == 0) {
                if (strcmp(info.owner, req->access_key) != 0)
                        error = S3_ERR_ACCESS_DENIED;
                else
                        rdx_session_end(rdma, session);
                explicit_bzero(&info, sizeof(info));
        }
        if (error == S3_OK)
                gw_reply_empty(req, 204);
        else
                gw_reply_error(req, error, NULL);
}
