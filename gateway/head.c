/*
 * head.c - accepting the head of a request: is it one request and no other, what does it name, who sent it, what will its body be.
 *
 * Called by http.c in the library's first call, on the loop. Whatever could make another HTTP implementation see different requests in the same bytes
 * (smuggling) is refused and ends the connection.
 */
#include <stddef.h>
#include <stdlib.h>

#include "auth.h"
#include "ops.h"
#include "session.h"

/* ---- headers -------------------------------------------------------------------------------------------- */

struct collected {
        struct gw_loop *loop;
        unsigned count;
        bool too_many;
};

static enum MHD_Result collect(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_len, const char *value,
                               size_t value_len)
{
        struct collected *c = cls;

        if (c->count == GW_HEADERS_MAX) {
                c->too_many = true;
                return MHD_NO;
        }
        c->loop->headers[c->count++] = (struct s3_header){{name, name_len}, {value != NULL ? value : "", value_len}};
        return MHD_YES;
}

static enum s3_error take_headers(struct gw_request *req)
{
        struct collected c = {.loop = req->loop};
        struct s3_header *copy;

        MHD_get_connection_values_n(req->mhd, MHD_HEADER_KIND, collect, &c);
        if (c.too_many)
                return S3_ERR_REQUEST_HEADERS_TOO_LARGE;
        copy = gw_alloc(req, (c.count + 1) * sizeof(*copy));
        if (copy == NULL)
                return S3_ERR_SLOW_DOWN;
        memcpy(copy, req->loop->headers, c.count * sizeof(*copy));
        req->headers = copy;
        req->header_count = c.count;
        return S3_OK;
}

static unsigned count_header(const struct gw_request *req, const char *name, struct s3_str *value)
{
        struct s3_str wanted = s3_str_of(name);
        unsigned i, n = 0;

        for (i = 0; i < req->header_count; i++)
                if (s3_str_eq_nocase(req->headers[i].name, wanted)) {
                        *value = s3_str_trim(req->headers[i].value);
                        n++;
                }
        return n;
}

/* ---- one request and no other ------------------------------------------------------------------------------ */

static enum s3_error check_length(struct gw_request *req, const char **message)
{
        struct s3_str length = {NULL, 0}, coding = {NULL, 0};
        unsigned lengths = count_header(req, "Content-Length", &length);
        unsigned codings = count_header(req, "Transfer-Encoding", &coding);

        if (lengths > 1 || codings > 1 || (lengths > 0 && codings > 0)) {
                *message = "The length of the request body is ambiguous";
                return S3_ERR_BAD_REQUEST;
        }
        if (codings == 1) {
                if (!s3_str_eq_nocase(coding, S3_STR("chunked")) || req->http10) {
                        *message = "Transfer-Encoding must be chunked";
                        req->refused_header = "Transfer-Encoding";
                        return S3_ERR_NOT_IMPLEMENTED;
                }
                req->chunked = true;
                req->content_length = S3_LENGTH_UNKNOWN;
        }
        if (lengths == 1 && s3_parse_uint(length, INT64_MAX, &req->content_length) != 0) {
                *message = "Content-Length must be a whole number of bytes";
                return S3_ERR_BAD_REQUEST;
        }
        return S3_OK;
}

static bool name_is_token(struct s3_str name)
{
        size_t i;

        for (i = 0; i < name.len; i++) {
                unsigned char c = (unsigned char)name.data[i];

                if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-')
                        continue; /* as nearly all are */
                if (c <= ' ' || c >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", c) != NULL)
                        return false;
        }
        return name.len > 0;
}

static bool value_is_text(struct s3_str value)
{
        size_t i;

        for (i = 0; i < value.len; i++) {
                unsigned char c = (unsigned char)value.data[i];

                if ((c < ' ' && c != '\t') || c == 0x7f)
                        return false;
        }
        return true;
}

/* The name is followed by its colon (a NUL by now) and blanks, then the value. */
static bool value_follows(const struct s3_header *header)
{
        const char *at = header->name.data + header->name.len + 1;

        if (header->value.data < at)
                return false;
        while (at < header->value.data && (*at == ' ' || *at == '\t'))
                at++;
        return at == header->value.data;
}

/*
 * The library takes a lone LF for a line's end, joins folded lines (to the wrong string), and ends texts at a NUL; another party on the way
 * may have read each of these otherwise. It parses in place, so all of them show as gaps: every line must end in exactly CR LF (two
 * NULs by now), and the next begin right behind.
 */
static bool lines_are_whole(struct gw_request *req, const char *version)
{
        const union MHD_ConnectionInfo *info =
                MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
        const char *at = req->raw_target + req->target.len + 1;
        unsigned i;

        if (version != at || info == NULL)
                return false;
        at = version + strlen(version) + 2;
        for (i = 0; i < req->header_count; i++) {
                const struct s3_header *header = &req->headers[i];

                if (header->name.data != at || !value_follows(header))
                        return false;
                at = header->value.data + header->value.len + 2;
        }
        req->body_at = at + 2;
        return req->body_at == req->method.data + info->header_size; /* the empty line */
}

static enum s3_error check_hygiene(struct gw_request *req, const char *version, const char **message)
{
        struct s3_str expect = {NULL, 0};
        bool fine = lines_are_whole(req, version);

        for (unsigned i = 0; fine && i < req->header_count; i++)
                fine = name_is_token(req->headers[i].name) && value_is_text(req->headers[i].value);
        if (!fine) {
                *message = "The head of the request is not well-formed";
                return S3_ERR_BAD_REQUEST;
        }
        if (count_header(req, "Expect", &expect) > 0)
                req->expects_continue = !req->http10 && s3_str_eq_nocase(expect, S3_STR("100-continue"));
        return check_length(req, message);
}

/* ---- what it names ------------------------------------------------------------------------------------------- */

static enum s3_error take_address(struct gw_request *req, struct s3_str host)
{
        struct gw_gateway *gw = req->loop->gw;
        struct s3_address address;
        enum s3_error error = s3_address_parse(req->cut.path, host, gw->domains, gw->domain_count, &address);

        if (error != S3_OK)
                return error;
        req->bucket = (struct s3_str){gw_copy(req, s3_address_bucket(&address)), address.bucket_len};
        req->key = (struct s3_str){gw_copy(req, s3_address_key(&address)), address.key_len};
        req->virtual_host = address.virtual_host;
        return req->bucket.data == NULL || req->key.data == NULL ? S3_ERR_SLOW_DOWN : S3_OK;
}

static enum s3_error take_query(struct gw_request *req)
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

static enum gw_scope scope_of(const struct gw_request *req)
{
        if (!req->virtual_host && s3_str_eq(req->bucket, S3_STR(GW_RESERVED_NAME)))
                return GW_RESERVED;
        if (req->key.len > 0)
                return GW_OBJECT;
        return req->bucket.len > 0 ? GW_BUCKET : GW_SERVICE;
}

static enum s3_error route(struct gw_request *req)
{
        enum gw_scope scope = scope_of(req);
        enum s3_error error =
                scope == GW_RESERVED
                        ? gw_route_reserved(req->method, req->key, &req->op)
                        : gw_route(req->method, scope, req->query, req->headers, req->header_count, &req->op);

        if (error != S3_OK)
                req->op = &gw_op_none;
        return error;
}

static bool is_cors_method(struct s3_str method)
{
        static const char *const methods[] = {"GET", "PUT", "HEAD", "POST", "DELETE"};

        for (unsigned i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
                if (s3_str_eq(method, s3_str_of(methods[i])))
                        return true;
        return false;
}

/* A browser's question before a request of another site's page. No bucket allows any, so none is looked for: who asks is a stranger. */
static enum s3_error preflight(struct gw_request *req, const char **message)
{
        struct s3_str method = gw_header(req, "Access-Control-Request-Method"),
                      names = gw_header(req, "Access-Control-Request-Headers");

        if (gw_header(req, "Origin").len == 0) {
                *message = "Insufficient information. Origin request header needed.";
                return S3_ERR_BAD_REQUEST;
        }
        if (!is_cors_method(method)) {
                *message = gw_printf(req, "Invalid Access-Control-Request-Method: %.*s",
                                     method.len > 0 ? (int)method.len : 4, method.len > 0 ? method.data : "null");
                return S3_ERR_BAD_REQUEST;
        }
        while (names.len > 0) {
                const char *comma = memchr(names.data, ',', names.len);
                size_t n = comma != NULL ? (size_t)(comma - names.data) : names.len;
                struct s3_str name = s3_str_trim((struct s3_str){names.data, n});

                n += comma != NULL;
                names.data += n;
                names.len -= n;
                if (name_is_token(name))
                        continue;
                *message = gw_printf(req, "Access-Control-Request-Headers \"%.*s\" contains invalid character.",
                                     (int)name.len, name.data);
                return S3_ERR_BAD_REQUEST;
        }
        return S3_ERR_CORS_FORBIDDEN;
}

static enum s3_error take_names(struct gw_request *req, const char **message)
{
        static const struct s3_query no_query;
        enum s3_error error = s3_target_split(req->target, &req->cut);
        struct s3_authority authority = {0};

        req->query = &no_query;
        if (error == S3_OK)
                error = s3_authority_of_request(&req->cut, req->headers, req->header_count, req->http10, &authority, message);
        if (error == S3_ERR_BAD_REQUEST)
                req->closing = true;
        if (error == S3_OK && s3_str_eq(req->method, S3_STR("OPTIONS")))
                return preflight(req, message);
        if (error == S3_OK)
                error = take_address(req, authority.host);
        if (error == S3_OK)
                error = take_query(req);
        return error;
}

static int find_bucket(struct gw_request *req)
{
        const struct eng_bucket *bucket;
        int rv;

        if (req->bucket.len == 0 || req->op->no_bucket)
                return 0;
        rv = eng_bucket_get(req->loop->gw->store, gw_eng_str(req->bucket), &bucket);
        if (rv == 0)
                req->bucket_id = bucket->id;
        return rv;
}

/* Who names the account that must own a bucket is let through only if that is ours. */
static bool owner_as_expected(const struct gw_request *req)
{
        struct s3_str ours = s3_str_of(req->loop->gw->owner_id);
        struct s3_str owner = gw_header(req, "x-amz-expected-bucket-owner");
        struct s3_str source = gw_header(req, "x-amz-source-expected-bucket-owner");

        return (owner.data == NULL || s3_str_eq(owner, ours)) && (source.data == NULL || s3_str_eq(source, ours));
}

void gw_refuse_route(struct gw_request *req, enum s3_error error)
{
        struct s3_str source = gw_header(req, "x-amz-copy-source"), part = gw_query(req, "partNumber");

        if (error == S3_ERR_INVALID_REQUEST)
                gw_reply_error(req, error,
                               gw_printf(req, "Key is not expected for the GET method ?%s subresource",
                                         gw_query_has(req, "uploads") ? "uploads" : "versions"));
        else if (error == S3_ERR_INVALID_ARGUMENT && source.data != NULL && !s3_str_eq(req->method, S3_STR("PUT")))
                gw_reply_argument(req, "x-amz-copy-source", source,
                                  "You can only specify a copy source header for copy requests.");
        else if (error == S3_ERR_INVALID_ARGUMENT && part.data != NULL && !gw_query_has(req, "uploadId"))
                gw_reply_argument(req, "partNumber", part,
                                  "This operation does not accept partNumber without uploadId");
        else if (error == S3_ERR_NOT_IMPLEMENTED && gw_route_sub(req->query).data == NULL)
                gw_refuse_header(req, "Content-Type"); /* of a form, which alone is posted to a bucket */
        else {
                if (error == S3_ERR_NOT_IMPLEMENTED)
                        req->refused_query = gw_route_sub(req->query);
                gw_reply_error(req, error, NULL);
        }
}

/* A bucket of such a name can't be here. To ask for one that AWS would have is no mistake of form. */
static enum s3_error bad_bucket_name(const struct gw_request *req)
{
        bool asks = s3_str_eq(req->method, S3_STR("GET")) || req->is_head;

        return asks && s3_bucket_name_once_valid(req->bucket) ? S3_ERR_NO_SUCH_BUCKET : S3_ERR_INVALID_BUCKET_NAME;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

/* Who sent it, which operation, which bucket, what body: in AWS's order of errors. */
static void accept_named(struct gw_request *req)
{
        struct s3_signing_key key;
        const char *message = NULL;
        unsigned in_head = req->header_count;
        enum s3_error routed, error;
        int rv;

        routed = route(req);
        gw_request_head(req, GW_STAGE_AUTHENTICATE);
        if (!gw_authenticate(req, &key, routed))
                return;
        if (req->header_count != in_head) /* headers in the URL may make it another one: x-amz-copy-source */
                routed = route(req);
        if (req->bucket.len > 0 && scope_of(req) != GW_RESERVED && !s3_bucket_name_valid(req->bucket))
                routed = bad_bucket_name(req);
        if (routed != S3_OK) {
                gw_refuse_route(req, routed);
                return;
        }
        if (req->op->scope == GW_OBJECT && !req->op->versions && gw_query_has(req, "versionId")) {
                gw_reply_argument(req, "versionId", gw_query(req, "versionId"), "This operation does not accept a version-id.");
                return;
        }
        if (!gw_token_accept(req))
                return;
        rv = find_bucket(req);
        if (rv != 0) {
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
                return;
        }
        if (!owner_as_expected(req)) {
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, NULL);
                return;
        }
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
        req->http10 = strcmp(version, MHD_HTTP_VERSION_1_1) != 0;
        error = take_headers(req);
        if (error == S3_OK)
                error = check_hygiene(req, version, &message);
        if (error != S3_OK) {
                req->closing = true;
                gw_reply_error(req, error, message);
                return;
        }
        error = take_names(req, &message);
        if (error != S3_OK)
                gw_reply_error(req, error, message);
        else
                accept_named(req);
}
