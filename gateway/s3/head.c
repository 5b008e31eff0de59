/*
 * head.c - accepting the head of a request: is it one request and no other, what does it name, who
 * sent it, what will its body be.
 *
 * Called by http.c in the library's first call, on the loop. Whatever could make another HTTP
 * implementation see different requests in the same bytes (framing.c) is refused and ends the
 * connection.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "gateway/s3/acl_request.h"
#include "gateway/s3/auth.h"
#include "gateway_head.h"
#include "gateway/s3/cors_answer.h"
#include "gateway/s3/head.h"
#include "gateway/s3/post.h"
#include "gateway/http/permit.h"
#include "gateway/iam/iam.h"
#include "gateway/s3/minio_admin.h"
#include "gateway/s3/minio_health.h"
#include "gateway/s3/refuse.h"
#include "gateway/s3/request_rights.h"
#include "gateway/s3/route.h"
#include "gateway/s3/website_serve.h"
#include "gateway/rdma/rdma_session.h"

/* ---- headers --------------------------------------------------------------------------------- */

static enum s3_error take_headers(struct gw_request *req)
{
        struct s3_header *copy;
        size_t count;

        if (!gw_head_fields(req->mhd, req->loop->headers, GW_HEADERS_MAX, &count))
                return S3_ERR_REQUEST_HEADERS_TOO_LARGE;
        copy = gw_alloc(req, (count + 1) * sizeof(*copy));
        if (copy == NULL)
                return S3_ERR_SLOW_DOWN;
        memcpy(copy, req->loop->headers, count * sizeof(*copy));
        req->headers = copy;
        req->header_count = (unsigned)count;
        return S3_OK;
}

/* ---- one request and no other ---------------------------------------------------------------- */

static enum s3_error check_framing(struct gw_request *req, const char *version, const char **message)
{
        struct gw_raw_head head = {.connection = req->mhd,
                                   .target = req->raw_target,
                                   .target_len = req->target.len,
                                   .method = req->method.data,
                                   .version = version,
                                   .headers = req->headers,
                                   .header_count = req->header_count};
        struct gw_framing framing;
        enum s3_error error = gw_head_check(&head, &framing, message);

        req->body_at = framing.body_at;
        req->http10 = framing.http10;
        req->chunked = framing.chunked;
        req->expects_continue = framing.expects_continue;
        req->content_length = framing.content_length;
        if (error == S3_ERR_NOT_IMPLEMENTED)
                req->refused_header = "Transfer-Encoding";
        return error;
}

/* ---- what it names --------------------------------------------------------------------------- */

static enum s3_error take_address(struct gw_request *req, struct s3_str host)
{
        struct gw_gateway *gw = req->loop->gw;
        struct s3_address address;
        enum s3_error error = s3_address_parse(req->cut.path, host, gw->domains.list, gw->domains.count, &address);

        if (error != S3_OK)
                return error;
        req->bucket = (struct s3_str){gw_copy(req, s3_address_bucket(&address)), address.bucket_len};
        req->key = (struct s3_str){gw_copy(req, s3_address_key(&address)), address.key_len};
        req->virtual_host = address.virtual_host;
        return req->bucket.data == NULL || req->key.data == NULL ? S3_ERR_SLOW_DOWN : S3_OK;
}

static enum s3_error take_request_query(struct gw_request *req)
{
        struct s3_query *query = &req->loop->query, *copy;
        char *text = gw_alloc(req, req->cut.query.len + 1);
        enum s3_error error;
        size_t size;

        if (text == NULL)
                return S3_ERR_SLOW_DOWN;
        query->count = 0;
        error = s3_query_parse(req->cut.query, text, req->cut.query.len, query);
        size = offsetof(struct s3_query, param) + query->count * sizeof(query->param[0]);
        copy = gw_alloc(req, size);
        if (copy == NULL)
                return S3_ERR_SLOW_DOWN;
        memcpy(copy, query, size);
        req->query = copy;
        return error;
}

enum gw_scope gw_scope_of(const struct gw_request *req)
{
        if (!req->virtual_host && s3_str_eq(req->bucket, S3_STR(GW_RESERVED_NAME)))
                return GW_RESERVED;
        if (req->key.len > 0)
                return GW_OBJECT;
        return req->bucket.len > 0 ? GW_BUCKET : GW_SERVICE;
}

static enum s3_error route(struct gw_request *req)
{
        enum gw_scope scope = gw_scope_of(req);
        enum s3_error error =
                scope == GW_RESERVED
                        ? gw_route_reserved(req->method, req->key, &req->op)
                        : gw_route(req->method, scope, req->query, req->headers, req->header_count, &req->op);

        if (error != S3_OK)
                req->op = &gw_op_none;
        return error;
}

static enum s3_error take_request_names(struct gw_request *req, const char **message)
{
        static const struct s3_query no_query;
        enum s3_error error = s3_target_split(req->target, &req->cut);
        struct s3_authority authority = {0};
        struct s3_str site_bucket;

        req->query = &no_query;
        if (error == S3_OK)
                error = s3_authority_of_request(&req->cut, req->headers, req->header_count, req->http10, &authority, message);
        if (error == S3_ERR_BAD_REQUEST)
                req->closing = true;
        if (error != S3_OK)
                return error;
        if (gw_site_host(req->loop->gw, authority.host, &site_bucket))
                return gw_site_address(req, &authority, site_bucket);
        error = take_address(req, authority.host);
        return error == S3_OK ? take_request_query(req) : error;
}

/*
 * May its user do that? A change is counted before the gate is asked, so that whoever makes the store
 * read-only and then reads the count knows of each that was let in (gw_changing()).
 */
static bool is_permitted_request(struct gw_request *req, const struct eng_bucket *bucket)
{
        if (gw_changes(req->op->permission)) {
                req->changing = true;
                atomic_fetch_add(&req->loop->stats.changes_active, 1);
        }
        return gw_rights_permit_request(req, bucket);
}

static void request_take_bucket(struct gw_request *req, const struct eng_bucket *bucket)
{
        req->bucket_id = bucket->id;
        req->versioned = bucket->rules.versioning != ENG_VERSIONING_NEVER;
        req->lockable = bucket->rules.lock;
        req->retains = bucket->rules.default_mode != ENG_RETENTION_NONE;
}

/* The one look at the name: the gate and the operation mean the same bucket (P22). NULL: there is none. */
static const struct eng_bucket *request_find_bucket(struct gw_request *req)
{
        struct gw_gateway *gw = req->loop->gw;
        const struct eng_bucket *bucket = NULL;
        struct eng_store *store = gw->store;
        int rv = 0;

        if (req->bucket.len > 0 && gw_scope_of(req) != GW_RESERVED)
                rv = gw_bucket_get(gw, req->bucket, &bucket, &store);
        if (!req->op->no_bucket) {
                req->store = store;
                req->undecided = rv == -EHOSTDOWN && !gw_pool_alone(gw);
        }
        req->bucket_rv = req->op->no_bucket ? 0 : rv;
        if (rv == 0 && bucket != NULL && !req->op->no_bucket)
                request_take_bucket(req, bucket);
        return rv == 0 ? bucket : NULL;
}

static bool head_is_account(struct s3_str text)
{
        uint64_t number;

        return text.len == GW_ACCOUNT_ID_LEN && s3_parse_uint(text, UINT64_MAX, &number) == 0;
}

/*
 * Who names the account that must own a bucket is let through only if that is so. The owner of a copy's source is
 * compared when it is found (copy.c). False: answered.
 */
static bool owner_as_expected(struct gw_request *req)
{
        struct s3_str owner = gw_header(req, "x-amz-expected-bucket-owner");
        struct s3_str source = gw_header(req, "x-amz-source-expected-bucket-owner");
        char account[GW_ACCOUNT_ID_LEN + 1];

        if ((owner.len > 0 && !head_is_account(owner)) || (source.len > 0 && !head_is_account(source))) {
                gw_reply_error(req, S3_ERR_INVALID_BUCKET_OWNER, NULL);
                return false;
        }
        if (owner.len == 0 || req->op->no_bucket)
                return true;
        gw_request_owner(req, account);
        if (!s3_str_eq(owner, s3_str_of(account)))
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, NULL);
        return !gw_answered(req);
}

/*
 * A bucket of such a name can't be here. To ask for one that AWS would have is no mistake of form.
 */
static enum s3_error bad_bucket_name(const struct gw_request *req)
{
        bool asks = s3_str_eq(req->method, S3_STR("GET")) || req->is_head;

        return asks && s3_bucket_name_once_valid(req->bucket) ? S3_ERR_NO_SUCH_BUCKET : S3_ERR_INVALID_BUCKET_NAME;
}

bool gw_head_permit(struct gw_request *req)
{
        if (is_permitted_request(req, request_find_bucket(req)))
                return true;
        if (req->access_key == NULL)
                gw_auth_stranger_refuse(req);
        else
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, req->refusal);
        return false;
}

bool gw_head_bucket(struct gw_request *req)
{
        if (req->bucket_rv != 0)
                gw_reply_errno(req, req->bucket_rv, GW_ABOUT_BUCKET);
        return req->bucket_rv == 0 && owner_as_expected(req);
}

void gw_head_anybody(struct gw_request *req)
{
        request_find_bucket(req);
}

/* A form is nobody's until its fields have come: only a request that signs otherwise is not. */
static bool is_unsigned_form(const struct gw_request *req, enum s3_error routed)
{
        static const char *const signing[] = {"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature", "AWSAccessKeyId",
                                              "Signature"};

        if (routed != S3_OK || req->op->body != GW_BODY_FORM || gw_header(req, "Authorization").len > 0)
                return false;
        for (unsigned i = 0; i < sizeof(signing) / sizeof(signing[0]); i++)
                if (gw_query_has(req, signing[i]))
                        return false;
        return true;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Its body, which none needs, is checked and dropped. */
static void accept_minio_admin(struct gw_request *req)
{
        struct s3_signing_key key = {{0}};
        const char *message = NULL;
        enum s3_error error;

        req->op = &gw_minio_admin_op;
        gw_request_head(req, GW_STAGE_AUTHENTICATE);
        if (!gw_authenticate(req, &key, S3_OK) || !gw_minio_admin_permit(req))
                return;
        error = gw_body_new(req, &req->loop->auth, &key, &message);
        if (error != S3_OK)
                gw_reply_error(req, error, message);
}

/* Who sent it, which operation, which bucket, what body: in AWS's order of errors. */
static void accept_named(struct gw_request *req)
{
        struct s3_signing_key key = {{0}}; /* stays so where nobody signed */
        const char *message = NULL;
        unsigned in_head = req->header_count;
        enum s3_error routed, error;

        if (gw_iam_is(req)) {
                gw_request_head(req, GW_STAGE_AUTHENTICATE);
                gw_iam_accept(req);
                return;
        }
        if (gw_minio_health(req))
                return;
        if (gw_minio_admin_is(req)) {
                accept_minio_admin(req);
                return;
        }
        routed = route(req);
        gw_request_head(req, GW_STAGE_AUTHENTICATE);
        if (is_unsigned_form(req, routed)) {
                if (s3_bucket_name_valid(req->bucket))
                        gw_post_accept(req);
                else
                        gw_refuse_route(req, bad_bucket_name(req));
                return;
        }
        if (!gw_authenticate(req, &key, routed))
                return;
        if (req->header_count != in_head) /* headers in the URL may make it another one: x-amz-copy-source */
                routed = route(req);
        if (req->bucket.len > 0 && gw_scope_of(req) != GW_RESERVED && !s3_bucket_name_valid(req->bucket))
                routed = bad_bucket_name(req);
        if (routed != S3_OK) {
                gw_refuse_route(req, routed);
                return;
        }
        if (!gw_head_permit(req))
                return;
        if (req->op->body == GW_BODY_FORM) {
                gw_post_refuse_signed(req);
                return;
        }
        if (req->op->scope == GW_OBJECT && req->op->of_version == NULL && gw_query_has(req, "versionId")) {
                gw_reply_argument(req, "versionId", gw_query(req, "versionId"), "This operation does not accept a version-id.");
                return;
        }
        if (!gw_token_accept(req))
                return;
        if (!gw_head_bucket(req))
                return;
        error = gw_body_new(req, &req->loop->auth, &key, &message);
        if (error != S3_OK)
                gw_reply_error(req, error, message);
}

void gw_head_accept(struct gw_request *req, const char *method, const char *version)
{
        const char *message = NULL;
        enum s3_error error;

        gw_request_head(req, GW_STAGE_PARSE);
        req->method = s3_str_of(method);
        req->is_head = s3_str_eq(req->method, S3_STR("HEAD"));
        error = take_headers(req);
        if (error == S3_OK)
                error = check_framing(req, version, &message);
        if (error != S3_OK) {
                req->closing = true;
                gw_reply_error(req, error, message);
                return;
        }
        error = take_request_names(req, &message);
        if (error != S3_OK)
                gw_reply_error(req, error, message);
        else if (s3_str_eq(req->method, S3_STR("OPTIONS")))
                gw_cors_preflight(req);
        else if (req->site)
                gw_site_accept(req);
        else
                accept_named(req);
}
