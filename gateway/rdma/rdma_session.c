/*
 * rdma_session.c - who signed a request on an RDMA session, and what it asks for. On the request's
 * loop; nothing here waits.
 *
 * A session's key signs requests with that session's headers, and the end of the session. Where
 * these headers come with any other key, or with another session's, the request is refused: a
 * window is memory of whoever has the session's key.
 */
#include "gateway/rdma/rdma_session.h"

#include <string.h>

#include "gateway/http/users.h"
#include "gateway/sts/signer.h"

#define SESSION_HEADER "x-millrace-rdma-session"
#define NUMBER_HEADER  "x-millrace-rdma-request"
#define WINDOW_HEADER  "x-millrace-rdma-window"

bool gw_session_credential(struct gw_loop *loop, const char *access_key, struct gw_credential *out)
{
        struct rdx_session_info info;
        uint8_t session[RDX_ID_LEN];
        bool found;

        if (loop->gw->rdma == NULL || !rdx_access_key_parse(access_key, strlen(access_key), session))
                return false;
        found = rdx_session_find(loop->gw->rdma, session, &info) == 0;
        if (found) {
                memset(out, 0, sizeof(*out));
                memcpy(out->access_key, access_key, RDX_ACCESS_KEY_LEN);
                memcpy(out->secret_key, info.secret, RDX_SECRET_LEN);
        }
        explicit_bzero(&info, sizeof(info));
        return found;
}

bool gw_session_signed(const struct s3_auth *auth, const char *name)
{
        const char *at = auth->signed_headers;
        size_t len = strlen(name);

        while (at != NULL && *at != '\0') {
                if (strncmp(at, name, len) == 0 && (at[len] == ';' || at[len] == '\0'))
                        return true;
                at = strchr(at, ';');
                at += at != NULL;
        }
        return false;
}

static bool is_upload(const struct gw_op *op)
{
        return op->body == GW_BODY_DATA;
}

bool gw_session_bodyless(const struct gw_request *req)
{
        return !req->chunked && req->content_length == 0 && req->loop->auth.payload == S3_PAYLOAD_UNSIGNED;
}

/* The headers of a request; session: that of the key that signed it. */
static enum s3_error read_headers(struct gw_request *req, const uint8_t session[RDX_ID_LEN])
{
        const struct s3_auth *auth = &req->loop->auth;
        struct s3_str id = gw_header(req, SESSION_HEADER), number = gw_header(req, NUMBER_HEADER),
                      window = gw_header(req, WINDOW_HEADER);
        uint8_t named[RDX_ID_LEN];
        struct gw_rdma *rdma;

        if (!gw_session_signed(auth, SESSION_HEADER) || !gw_session_signed(auth, NUMBER_HEADER) ||
            !gw_session_signed(auth, WINDOW_HEADER))
                return S3_ERR_ACCESS_DENIED;
        if (id.data == NULL || !rdx_unhex(id.data, id.len, named, RDX_ID_LEN))
                return S3_ERR_MALFORMED_RDMA_REQUEST;
        if (memcmp(named, session, RDX_ID_LEN) != 0)
                return S3_ERR_ACCESS_DENIED;
        rdma = gw_alloc(req, sizeof(*rdma));
        if (rdma == NULL)
                return S3_ERR_SLOW_DOWN;
        memcpy(rdma->session, session, RDX_ID_LEN);
        if (number.data == NULL || s3_parse_uint(number, UINT64_MAX, &rdma->number) != 0 || rdma->number == 0 ||
            window.data == NULL || rdx_window_span_parse(window.data, window.len, &rdma->window) != 0)
                return S3_ERR_MALFORMED_RDMA_REQUEST;
        if (is_upload(req->op) && !gw_session_bodyless(req))
                return S3_ERR_MALFORMED_RDMA_REQUEST;
        gw_session_attach(req, rdma);
        return S3_OK;
}

void gw_session_attach(struct gw_request *req, struct gw_rdma *rdma)
{
        req->rdma = rdma;
        req->carrier = &gw_transfer_carrier;
}

/* Who opened the session may still sign. */
static bool owner_is_there(struct gw_request *req, const char *owner)
{
        struct gw_credential room = {.access_key = ""};
        struct gw_temporary *held = gw_temporary_held(req->loop->gw, owner);
        bool there;

        if (held != NULL) {
                there = gw_temporary_alive(req->loop, held);
                gw_temporary_put(req->temporary);
                req->temporary = held;
                return there;
        }
        there = gw_signer_find(req->loop, owner, &room) != NULL;
        explicit_bzero(&room, sizeof(room));
        return there;
}

bool gw_session_accept(struct gw_request *req, bool by_session)
{
        struct rdx_session_info info;
        uint8_t session[RDX_ID_LEN], ended[RDX_ID_LEN];
        enum s3_error error = S3_OK;

        if (!by_session) {
                if (gw_header(req, SESSION_HEADER).data == NULL)
                        return true;
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, NULL);
                return false;
        }
        rdx_access_key_parse(req->access_key, strlen(req->access_key), session);
        if (req->loop->auth.kind != S3_AUTH_HEADER || rdx_session_find(req->loop->gw->rdma, session, &info) != 0)
                error = S3_ERR_ACCESS_DENIED;
        else if (!owner_is_there(req, info.owner))
                error = S3_ERR_ACCESS_DENIED;
        else if (req->op->sends_object || is_upload(req->op))
                error = read_headers(req, session);
        else if (!req->op->ends_session || !gw_session_of_path(req, ended) ||
                 memcmp(ended, session, RDX_ID_LEN) != 0)
                error = S3_ERR_ACCESS_DENIED;
        if (error == S3_OK) {
                req->access_key = gw_copy(req, s3_str_of(info.owner));
                if (req->access_key == NULL)
                        error = S3_ERR_SLOW_DOWN; /* else it would be nobody's, and strangers reach no RDMA (P7) */
                if (req->rdma != NULL)
                        req->rdma->connected = info.connected;
        }
        explicit_bzero(&info, sizeof(info));
        if (error != S3_OK)
                gw_reply_error(req, error, NULL);
        return !gw_answered(req);
}

void gw_session_headers(struct gw_request *req, unsigned status, uint64_t bytes)
{
        gw_reply_header(req, "Cache-Control", "no-store");
        gw_reply_header(req, "x-millrace-transport", "rdma");
        if (req->rdma->token == NULL) {
                gw_reply_header_uint(req, "x-millrace-rdma-bytes", bytes);
                return;
        }
        gw_reply_header_uint(req, "x-amz-rdma-reply", status);
        gw_reply_header_uint(req, "x-amz-rdma-bytes-transferred", bytes);
}

/* It means to be signed with a session's key, be there such a session or not. */
static bool names_session_key(const struct gw_request *req)
{
        struct s3_str authorization = gw_header(req, "authorization");
        const char *at =
                authorization.data != NULL ? memmem(authorization.data, authorization.len, "Credential=", 11) : NULL;
        uint8_t session[RDX_ID_LEN];

        return at != NULL && authorization.len - (size_t)(at + 11 - authorization.data) >= RDX_ACCESS_KEY_LEN &&
               rdx_access_key_parse(at + 11, RDX_ACCESS_KEY_LEN, session);
}

bool gw_session_none_posted(const struct gw_request *req)
{
        if (req->rdma != NULL)
                return !req->rdma->posted;
        return gw_header(req, SESSION_HEADER).data != NULL || names_session_key(req);
}
