/*
 * auth.c - who sent a request. On the request's loop.
 */
#include "gateway/s3/auth.h"
#include "gateway/http/users.h"
#include "gateway/s3/minio_admin.h"
#include "gateway/s3/refuse.h"
#include "gateway/rdma/rdma_session.h"
#include "gateway/sts/signer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_TEXT 512u

/* What AWS adds to SignatureDoesNotMatch so that clients can be repaired: what was signed here. */
static const char *mismatch_extra(struct gw_request *req, const struct s3_request *signed_request, const struct s3_auth *auth)
{
        char canonical[8192], to_sign[1024];
        struct s3_xml xml;

        if (s3_canonical_request(signed_request, auth, canonical, sizeof(canonical)) < 0 ||
            s3_string_to_sign(signed_request, auth, to_sign, sizeof(to_sign)) < 0)
                return NULL;
        s3_xml_init(&xml, 64 << 10);
        s3_xml_textz(&xml, "AWSAccessKeyId", auth->access_key);
        s3_xml_textz(&xml, "StringToSign", to_sign);
        s3_xml_textz(&xml, "SignatureProvided", auth->signature);
        s3_xml_textz(&xml, "CanonicalRequest", canonical);
        return gw_detail_xml(req, &xml);
}

static const char *access_key_element(struct gw_request *req, const char *access_key)
{
        struct s3_xml xml;

        s3_xml_init(&xml, 8 << 10);
        s3_xml_textz(&xml, "AWSAccessKeyId", access_key);
        return gw_detail_xml(req, &xml);
}

/* When the request was or will be valid, in AWS's elements, and what time it is here. */
static const char *time_extra(struct gw_request *req, const struct s3_auth *auth, enum s3_auth_reason reason)
{
        char until[S3_DATE_SECONDS_SIZE], server[S3_DATE_SECONDS_SIZE];
        int64_t end = auth->time_ms + (auth->kind == S3_AUTH_QUERY_V2 ? 0 : (int64_t)auth->expires_s * 1000);
        const char *first = "";

        s3_date_format_seconds(lp_wall_ms(), server);
        if (reason == S3_AUTH_SKEWED)
                return gw_printf(req,
                                 "<RequestTime>%s</RequestTime><ServerTime>%s</ServerTime>"
                                 "<MaxAllowedSkewMilliseconds>%lld</MaxAllowedSkewMilliseconds>",
                                 auth->amz_date, server, S3_SKEW_MS);
        if (reason == S3_AUTH_Q_NOT_YET)
                first = gw_printf(req, "<X-Amz-Date>%lld</X-Amz-Date>", (long long)auth->time_ms);
        else if (auth->kind != S3_AUTH_QUERY_V2)
                first = gw_printf(req, "<X-Amz-Expires>%u</X-Amz-Expires>", auth->expires_s);
        s3_date_format_seconds(end, until);
        return gw_printf(req, "%s<Expires>%s</Expires><ServerTime>%s</ServerTime>", first != NULL ? first : "", until,
                         server);
}

static bool is_about_time(enum s3_auth_reason reason)
{
        return reason == S3_AUTH_Q_EXPIRED || reason == S3_AUTH_Q_NOT_YET || reason == S3_AUTH_SKEWED;
}

/*
 * HeadBucket tells the region to whoever asks, and so does a refusal for another region: the answer
 * to a HEAD has no document that could name it.
 */
static void region_header(struct gw_request *req, bool wrong_region)
{
        if (wrong_region || (req->is_head && req->op->scope == GW_BUCKET))
                gw_reply_header(req, "x-amz-bucket-region", req->loop->gw->region);
}

static void auth_refuse(struct gw_request *req, const struct s3_request *signed_request, enum s3_auth_reason reason)
{
        const struct s3_auth *auth = &req->loop->auth;
        const char *region = req->loop->gw->region, *extra = NULL;
        char text[REASON_TEXT], names[1024];
        const char *message = s3_auth_describe(reason, auth, region, text, sizeof(text));

        if (s3_auth_wants_region(reason))
                extra = gw_printf(req, "<Region>%s</Region>", region);
        else if (reason == S3_AUTH_MISMATCH && auth->kind != S3_AUTH_QUERY_V2)
                extra = mismatch_extra(req, signed_request, auth);
        else if (is_about_time(reason))
                extra = time_extra(req, auth, reason);
        else if (reason == S3_AUTH_NO_SPACE || reason == S3_AUTH_UNSUPPORTED_TYPE)
                extra = gw_detail(req, "ArgumentName", S3_STR("Authorization"), "ArgumentValue",
                                  gw_header(req, "Authorization"));
        else if (reason == S3_AUTH_BAD_CONTENT_SHA256)
                extra = gw_detail(req, "ArgumentName", S3_STR("x-amz-content-sha256"), "ArgumentValue",
                                  gw_header(req, "x-amz-content-sha256"));
        else if (reason == S3_AUTH_UNSIGNED_HEADERS) {
                s3_auth_unsigned(signed_request, auth, names, sizeof(names));
                extra = gw_detail(req, "HeadersNotSigned", s3_str_of(names), NULL, (struct s3_str){NULL, 0});
        }
        region_header(req, s3_auth_wants_region(reason));
        gw_reply_error_extra(req, s3_auth_error(reason), message, extra);
}

/* ---- headers in the URL ---------------------------------------------------------------------- */

static bool request_has_header(const struct gw_request *req, struct s3_str name)
{
        unsigned i;

        for (i = 0; i < req->header_count; i++)
                if (s3_str_eq_nocase(req->headers[i].name, name))
                        return true;
        return false;
}

static bool is_text(struct s3_str value)
{
        size_t i;

        for (i = 0; i < value.len; i++)
                if ((unsigned char)value.data[i] < ' ' || value.data[i] == 0x7f)
                        return false;
        return true;
}

/* Version 2 covers these two as well; see s3_auth_verify_v2(). */
static size_t v2_headers(const struct gw_request *req, struct s3_header *out)
{
        static const char *const names[] = {"content-type", "content-md5"};
        size_t i, n = 0;

        for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                const struct s3_query_param *param = s3_query_find(req->query, names[i]);

                if (param != NULL)
                        out[n++] = (struct s3_header){param->name, param->value};
        }
        return n;
}

/*
 * A presigned URL may carry what else would be headers; they are signed with it and count as
 * headers where there is none of that name.
 */
static enum s3_error take_query_headers(struct gw_request *req)
{
        struct s3_header found[S3_QUERY_PARAMS_MAX + 2], *all;
        size_t n = s3_query_headers(req->query, found, S3_QUERY_PARAMS_MAX), i;
        unsigned count = req->header_count;

        if (req->loop->auth.kind == S3_AUTH_QUERY_V2)
                n += v2_headers(req, found + n);
        if (n == 0)
                return S3_OK;
        all = gw_alloc(req, (req->header_count + n) * sizeof(*all));
        if (all == NULL)
                return S3_ERR_SLOW_DOWN;
        memcpy(all, req->headers, req->header_count * sizeof(*all));
        for (i = 0; i < n; i++) {
                if (!is_text(found[i].value))
                        return S3_ERR_INVALID_ARGUMENT;
                if (!request_has_header(req, found[i].name))
                        all[count++] = found[i];
        }
        req->headers = all;
        req->header_count = count;
        return S3_OK;
}

/* ---- the signature --------------------------------------------------------------------------- */

static bool asks_for_headers(const struct gw_request *req)
{
        for (unsigned i = 0; i < req->query->count; i++)
                if (s3_str_starts(req->query->param[i].name, S3_STR("response-")))
                        return true;
        return false;
}

/*
 * Nobody signed: the gate decides, unless it is something that needs a signature whatever policies say. False:
 * answered.
 */
static bool stranger_passes(struct gw_request *req, enum s3_error routed)
{
        enum s3_payload payload = req->loop->auth.payload;

        req->signed_by = S3_AUTH_ANONYMOUS;
        req->anonymous = true;
        if (routed != S3_OK) {
                gw_refuse_route(req, routed);
                return false;
        }
        if (req->op->scope == GW_SERVICE || req->op->scope == GW_RESERVED || req->op->no_bucket ||
            payload == S3_PAYLOAD_SIGNED || payload == S3_PAYLOAD_SIGNED_TRAILER) {
                gw_auth_stranger_refuse(req);
                return false;
        }
        if (asks_for_headers(req)) {
                gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                               "Request specific response headers cannot be used for anonymous GET requests.");
                return false;
        }
        return gw_session_accept(req, false);
}

void gw_auth_stranger_refuse(struct gw_request *req)
{
        region_header(req, false);
        gw_reply_error(req, S3_ERR_ACCESS_DENIED, req->refusal);
}

/* MinIO's clients sign admin calls for no region at all. */
static const char *region_of(const struct gw_request *req, const struct s3_auth *auth)
{
        return req->op == &gw_minio_admin_op && auth->region[0] == '\0' ? "" : req->loop->gw->region;
}

bool gw_authenticate(struct gw_request *req, struct s3_signing_key *key, enum s3_error routed)
{
        struct gw_loop *loop = req->loop;
        struct s3_auth *auth = &loop->auth;
        const char *region;
        struct s3_request signed_request = {
                .method = req->method,
                .path = req->cut.path,
                .query = req->cut.query,
                .headers = req->headers,
                .header_count = req->header_count,
        };
        struct gw_signer signer;
        bool by_session = false;
        enum s3_auth_reason reason = s3_auth_parse(&signed_request, auth);
        int64_t now = lp_wall_ms();
        enum s3_error error;

        region = region_of(req, auth);
        auth->takes_token = true;
        if (reason == S3_AUTH_OK && auth->kind == S3_AUTH_ANONYMOUS)
                return stranger_passes(req, routed);
        /* Refuses a version 2, which is checked when its secret is at hand. */
        if (reason == S3_AUTH_OK && !(auth->kind == S3_AUTH_QUERY_V2 && loop->gw->presign_v2))
                reason = s3_auth_check(&signed_request, auth, region, now);
        if (reason != S3_AUTH_OK) {
                auth_refuse(req, &signed_request, reason);
                return false;
        }
        gw_signer_take(loop, auth, &signer);
        if (signer.reason != S3_AUTH_OK) {
                gw_signer_drop(&signer);
                auth_refuse(req, &signed_request, signer.reason);
                return false;
        }
        if (signer.credential == NULL && gw_session_credential(loop, auth->access_key, &signer.room)) {
                signer.credential = &signer.room;
                signer.by_session = by_session = true;
        }
        if (signer.credential == NULL) {
                region_header(req, false);
                gw_reply_error_extra(req, S3_ERR_INVALID_ACCESS_KEY_ID, NULL, access_key_element(req, auth->access_key));
                return false;
        }
        if (auth->kind == S3_AUTH_QUERY_V2) {
                reason = s3_auth_verify_v2(&signed_request, auth, s3_str_of(signer.credential->secret_key),
                                           req->virtual_host ? req->bucket : (struct s3_str){NULL, 0}, now);
        } else {
                gw_scope_key(loop, signer.credential, auth->scope_date, (struct gw_key_scope){region, "s3"}, key);
                reason = s3_auth_verify(&signed_request, auth, key, region, now);
        }
        if (reason != S3_AUTH_OK) {
                gw_signer_drop(&signer);
                auth_refuse(req, &signed_request, reason);
                return false;
        }
        gw_signer_accept(req, &signer);
        req->access_key = gw_copy(req, s3_str_of(auth->access_key));
        if (req->access_key == NULL) {
                gw_reply_no_memory(req);
                return false;
        }
        req->signed_by = auth->kind;
        req->signed_ms = auth->time_ms;
        gw_guest_leave(req->conn);
        if (!gw_session_accept(req, by_session))
                return false;
        error = auth->kind != S3_AUTH_HEADER ? take_query_headers(req) : S3_OK;
        if (error != S3_OK)
                gw_reply_error(req, error, NULL);
        return error == S3_OK;
}
