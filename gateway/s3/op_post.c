/*
 * op_post.c - PostObject: uploads by a browser's form. The head says nothing but the bucket; who
 * sent it, and what, is in the fields before the file.
 *
 * head.c makes the body, body.c calls gw_post_fields() in the middle of it, on the request's loop.
 * Until then nobody is known: memory is one form (s3_form.h), booked like that of other bodies, and
 * nothing is opened. The fields become the headers that a PUT would have, and take its path
 * (op_put_object.c). Nothing is stored on any error.
 */
#include "gateway/http/users.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/head.h"
#include "gateway/s3/post.h"
#include "gateway/sts/signer.h"

#include <string.h>

#define REDIRECT_MAX 2048u
#define DOC_MAX      (16u << 10)

/* owner: the stack of gw_post_fields(); what it points to is in the arena or in the form */
struct post_fields {
        const struct s3_form *form;
        struct s3_header *field; /* those of the form, with the key as it will be */
        unsigned count;
};

static struct s3_str post_find(const struct post_fields *post, const char *name)
{
        return s3_form_find(post->form, name);
}

/* ---- the head -------------------------------------------------------------------------------- */

static bool is_form(const struct gw_request *req)
{
        struct s3_str boundary;

        return s3_form_boundary(gw_header(req, "Content-Type"), &boundary);
}

static void refuse_no_form(struct gw_request *req)
{
        const struct s3_str condition = S3_STR("Bucket POST must be of the enclosure-type multipart/form-data");

        /* A form, but without a boundary. */
        if (s3_str_starts_nocase(s3_str_trim(gw_header(req, "Content-Type")), S3_STR("multipart/form-data"))) {
                gw_reply_error(req, S3_ERR_MALFORMED_POST, NULL);
                return;
        }
        gw_reply_error_extra(req, S3_ERR_PRECONDITION_FAILED, NULL,
                             gw_detail(req, "Condition", condition, NULL, (struct s3_str){NULL, 0}));
}

void gw_post_refuse_signed(struct gw_request *req)
{
        if (is_form(req))
                gw_reply_error(req, S3_ERR_INVALID_ARGUMENT, s3_auth_message(S3_AUTH_BOTH_FORMS));
        else
                refuse_no_form(req);
}

/* What it would mean of the object must be in a field, which the policy covers. False: answered. */
static bool post_headers_check(struct gw_request *req)
{
        static const char *const others[] = {"Content-MD5", "If-Match", "If-None-Match"};
        bool refused = false;

        for (unsigned i = 0; i < req->header_count && !refused; i++) {
                struct s3_str name = req->headers[i].name;

                refused = s3_str_starts_nocase(name, S3_STR("x-amz-")) &&
                          !s3_str_eq_nocase(name, S3_STR("x-amz-expected-bucket-owner")) &&
                          !s3_str_eq_nocase(name, S3_STR("x-amz-user-agent"));
                for (unsigned k = 0; k < sizeof(others) / sizeof(others[0]); k++)
                        refused = refused || s3_str_eq_nocase(name, s3_str_of(others[k]));
                if (refused)
                        gw_refuse_header(req, gw_copy(req, name));
        }
        return !refused;
}

bool gw_post_accept(struct gw_request *req)
{
        const struct s3_auth nobody = {.kind = S3_AUTH_ANONYMOUS, .payload = S3_PAYLOAD_UNSIGNED};
        const char *message = NULL;
        enum s3_error error;

        if (!is_form(req)) {
                refuse_no_form(req);
                return false;
        }
        if (!post_headers_check(req))
                return false;
        error = gw_body_new(req, &nobody, NULL, &message);
        if (error != S3_OK)
                gw_reply_error(req, error, message);
        return error == S3_OK;
}

/* ---- the key --------------------------------------------------------------------------------- */

static bool post_missing(struct gw_request *req, const char *name)
{
        gw_reply_argument(req, name, S3_STR(""),
                          gw_printf(req,
                                    "Bucket POST must contain a field named '%s'.  If it is specified, please check "
                                    "the order of the fields.",
                                    name));
        return false;
}

static bool post_take_key(struct gw_request *req, const struct post_fields *post, struct s3_str key)
{
        char text[S3_KEY_MAX];
        int len;

        if (key.data == NULL)
                return post_missing(req, "key");
        len = s3_post_key(key, s3_form_filename(post->form), text, sizeof(text));
        if (len < 0) {
                gw_reply_error(req, S3_ERR_KEY_TOO_LONG, NULL);
                return false;
        }
        if (len == 0 || !s3_utf8_valid((struct s3_str){text, (size_t)len})) {
                gw_reply_argument(req, "key", key,
                                  len == 0 ? "User key must have a length greater than 0."
                                           : "The key must be valid UTF-8.");
                return false;
        }
        req->key = (struct s3_str){gw_copy(req, (struct s3_str){text, (size_t)len}), (size_t)len};
        if (req->key.data == NULL)
                gw_reply_no_memory(req);
        return req->key.data != NULL;
}

static bool post_fields_read(struct gw_request *req, struct post_fields *post)
{
        post->form = req->body->form;
        post->count = s3_form_count(post->form);
        post->field = gw_alloc(req, (post->count + 1) * sizeof(*post->field));
        if (post->field == NULL) {
                gw_reply_no_memory(req);
                return false;
        }
        if (!post_take_key(req, post, post_find(post, "key")))
                return false;
        for (unsigned i = 0; i < post->count; i++) {
                post->field[i] = s3_form_field(post->form, i);
                if (s3_str_eq_nocase(post->field[i].name, S3_STR("key")))
                        post->field[i].value = req->key;
        }
        return true;
}

/* ---- who ------------------------------------------------------------------------------------- */

/* Answers with the reason; false. */
static bool post_refuse(struct gw_request *req, enum s3_auth_reason reason)
{
        const char *region = req->loop->gw->region, *extra = NULL;
        char text[512];

        if (s3_auth_wants_region(reason))
                extra = gw_printf(req, "<Region>%s</Region>", region);
        else if (reason == S3_AUTH_MISMATCH)
                extra = gw_detail(req, "AWSAccessKeyId", s3_str_of(req->loop->auth.access_key), NULL,
                                  (struct s3_str){NULL, 0});
        gw_reply_error_extra(req, s3_auth_error(reason),
                             s3_auth_describe(reason, &req->loop->auth, region, text, sizeof(text)), extra);
        return false;
}

static bool refuse_unknown_key(struct gw_request *req)
{
        gw_reply_error_extra(req, S3_ERR_INVALID_ACCESS_KEY_ID, NULL,
                             gw_detail(req, "AWSAccessKeyId", s3_str_of(req->loop->auth.access_key), NULL,
                                       (struct s3_str){NULL, 0}));
        return false;
}

static bool post_is_known(struct gw_request *req)
{
        req->access_key = gw_copy(req, s3_str_of(req->loop->auth.access_key));
        if (req->access_key == NULL) {
                gw_reply_no_memory(req);
                return false;
        }
        req->signed_by = req->loop->auth.kind;
        req->signed_ms = req->loop->auth.time_ms;
        gw_guest_leave(req->conn);
        return true;
}

static bool post_verify_v4(struct gw_request *req, const struct post_fields *post, struct s3_str policy)
{
        static const char *const needed[] = {"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Signature"};
        struct gw_loop *loop = req->loop;
        struct gw_signer signer;
        struct s3_signing_key key;
        struct s3_str value[4];
        enum s3_auth_reason reason;

        for (unsigned i = 0; i < 4; i++) {
                value[i] = post_find(post, needed[i]);
                if (value[i].data == NULL)
                        return post_missing(req, needed[i]);
        }
        reason = s3_auth_parse_form(value[0], value[1], value[2], value[3], &loop->auth);
        if (reason != S3_AUTH_OK)
                return post_refuse(req, reason);
        gw_signer_take_of(loop, loop->auth.access_key, post_find(post, "x-amz-security-token"), &signer);
        if (signer.reason == S3_AUTH_OK && signer.credential == NULL)
                return refuse_unknown_key(req);
        reason = signer.reason;
        if (reason == S3_AUTH_OK) {
                gw_signing_key(loop, signer.credential, loop->auth.scope_date, &key);
                reason = s3_auth_verify_form(&loop->auth, &key, policy, loop->gw->region);
        }
        if (reason == S3_AUTH_OK) {
                gw_signer_accept(req, &signer);
                return post_is_known(req);
        }
        gw_signer_drop(&signer);
        return post_refuse(req, reason);
}

/* As URLs presigned with version 2: where a setting says so. */
static bool post_verify_v2(struct gw_request *req, const struct post_fields *post, struct s3_str policy)
{
        struct s3_str access_key = post_find(post, "AWSAccessKeyId"), signature = post_find(post, "signature");
        struct s3_auth *auth = &req->loop->auth;
        struct gw_credential room = {.access_key = ""};
        const struct gw_credential *credential;
        enum s3_auth_reason reason;

        *auth = (struct s3_auth){.kind = S3_AUTH_QUERY_V2};
        if (!req->loop->gw->presign_v2)
                return post_refuse(req, S3_AUTH_UNSUPPORTED_VERSION);
        if (access_key.data == NULL || signature.data == NULL)
                return post_missing(req, access_key.data == NULL ? "AWSAccessKeyId" : "signature");
        if (post_find(post, "x-amz-security-token").data != NULL)
                return post_refuse(req, S3_AUTH_TOKEN);
        if (access_key.len <= S3_ACCESS_KEY_MAX && memchr(access_key.data, '\0', access_key.len) == NULL)
                memcpy(auth->access_key, access_key.data, access_key.len);
        credential = gw_signer_find(req->loop, auth->access_key, &room);
        if (credential == NULL)
                return refuse_unknown_key(req);
        reason = s3_auth_verify_form_v2(s3_str_of(credential->secret_key), policy, signature);
        explicit_bzero(&room, sizeof(room));
        return reason == S3_AUTH_OK ? post_is_known(req) : post_refuse(req, reason);
}

static bool post_authenticate(struct gw_request *req, const struct post_fields *post)
{
        static const char *const of_v4[] = {"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Signature"};
        bool v2 = post_find(post, "AWSAccessKeyId").data != NULL || post_find(post, "signature").data != NULL, v4 = false;
        struct s3_str policy = post_find(post, "policy");

        for (unsigned i = 0; i < 4; i++)
                v4 = v4 || post_find(post, of_v4[i]).data != NULL;
        if (v4 && v2)
                return post_refuse(req, S3_AUTH_BOTH_FORMS);
        if (policy.data == NULL && !v4 && !v2) {
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, NULL); /* nobody's: there is no anonymous access */
                return false;
        }
        if (policy.data == NULL)
                return post_missing(req, "policy");
        return v2 ? post_verify_v2(req, post, policy) : post_verify_v4(req, post, policy);
}

static bool post_policy_holds(struct gw_request *req, const struct post_fields *post)
{
        struct s3_post_form form = {.bucket = req->bucket, .fields = post->field, .count = post->count};
        char message[S3_POST_MESSAGE];
        struct s3_post_range range;
        enum s3_error error = s3_post_policy_check(post_find(post, "policy"), &form, lp_wall_ms(), &range, message);

        if (error != S3_OK) {
                gw_reply_error(req, error, message[0] != '\0' ? gw_copy(req, s3_str_of(message)) : NULL);
                return false;
        }
        req->body->file_min = range.min;
        if (range.max < req->body->file_max)
                req->body->file_max = range.max;
        return true;
}

/* ---- what: fields as headers ----------------------------------------------------------------- */

/* Headers of the form's request that would speak of the object, and are of the form. */
static bool is_of_form(struct s3_str name)
{
        for (unsigned i = 0; i < GW_META_FIELD_COUNT; i++)
                if (s3_str_eq_nocase(name, s3_str_of(gw_meta_header((enum gw_meta_field)i))))
                        return true;
        return false;
}

enum post_meaning { POST_NOTHING, POST_HEADER, POST_REFUSED };

static enum post_meaning meaning_of(struct s3_str name)
{
        static const char *const headers[] = {"Content-MD5", "x-amz-storage-class"};
        static const char *const prefixes[] = {"x-amz-meta-", "x-amz-checksum-", "x-amz-object-lock-",
                                               "x-amz-server-side-encryption", "x-amz-grant-"};
        static const char *const ours[] = {"x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature",
                                         "x-amz-security-token"};

        if (is_of_form(name))
                return POST_HEADER;
        for (unsigned i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
                if (s3_str_eq_nocase(name, s3_str_of(headers[i])))
                        return POST_HEADER;
        for (unsigned i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
                if (s3_str_starts_nocase(name, s3_str_of(prefixes[i])))
                        return POST_HEADER;
        for (unsigned i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
                if (s3_str_eq_nocase(name, s3_str_of(ours[i])))
                        return POST_NOTHING;
        return s3_str_starts_nocase(name, S3_STR("x-amz-")) ? POST_REFUSED : POST_NOTHING;
}

/* The document of the field tagging as the value of x-amz-tagging. NULL: answered. */
static char *post_tags(struct gw_request *req, struct s3_str document)
{
        char message[256] = "", *text = NULL;
        enum s3_error error;
        struct s3_doc *doc;
        size_t used = 0;

        error = s3_doc_read(S3_DOC_OBJECT_TAGGING, document, &doc);
        if (doc != NULL && doc->message != NULL)
                memccpy(message, doc->message, '\0', sizeof(message) - 1);
        if (error == S3_OK)
                text = gw_alloc(req, 1 + (size_t)doc->tags.count * (2 + 3 * (S3_TAG_KEY_BYTES + S3_TAG_VALUE_BYTES)));
        for (unsigned i = 0; text != NULL && i < doc->tags.count; i++) {
                const struct s3_tag *tag = &doc->tags.tag[i];

                if (i > 0)
                        text[used++] = '&';
                used += (size_t)s3_percent_encode(tag->key, S3_ENCODE_QUERY, text + used, 3 * S3_TAG_KEY_BYTES);
                text[used++] = '=';
                used += (size_t)s3_percent_encode(tag->value, S3_ENCODE_QUERY, text + used, 3 * S3_TAG_VALUE_BYTES);
        }
        s3_doc_free(doc);
        if (error != S3_OK)
                gw_reply_error(req, error, message[0] != '\0' ? gw_copy(req, s3_str_of(message)) : NULL);
        else if (text == NULL)
                gw_reply_no_memory(req);
        return text;
}

static bool post_is_text(struct s3_str s)
{
        for (size_t i = 0; i < s.len; i++)
                if ((unsigned char)s.data[i] < ' ' || s.data[i] == 0x7f)
                        return false;
        return true;
}

/* What the name of a header can be: another one would not come back with the object, or as another header. */
static bool post_is_name(struct s3_str name)
{
        for (size_t i = 0; i < name.len; i++)
                if (name.data[i] <= ' ' || name.data[i] >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", name.data[i]) != NULL)
                        return false;
        return name.len > 0;
}

/* Appends what a field says of the object. False: answered. */
static bool post_field_header(struct gw_request *req, const struct s3_header *field, struct s3_header *out,
                              unsigned *count)
{
        struct s3_header header = *field;

        if (s3_str_eq_nocase(field->name, S3_STR("acl"))) {
                header.name = S3_STR("x-amz-acl");
        } else if (s3_str_eq_nocase(field->name, S3_STR("tagging"))) {
                char *tags = post_tags(req, field->value);

                if (tags == NULL)
                        return false;
                header = (struct s3_header){S3_STR("x-amz-tagging"), s3_str_of(tags)};
        } else {
                enum post_meaning meaning = meaning_of(field->name);

                if (meaning == POST_REFUSED)
                        gw_refuse_header(req, gw_copy(req, field->name));
                if (meaning != POST_HEADER)
                        return meaning == POST_NOTHING;
        }
        if (!post_is_name(header.name)) {
                gw_reply_argument(req, "field", header.name, "The name of a field of the form is none of a header");
                return false;
        }
        if (!post_is_text(header.value)) {
                gw_reply_argument(req, "field", field->value, "A field of the form has control characters");
                return false;
        }
        /* Copies: an answer that refuses frees the form, and who reports it still reads headers. */
        header.name.data = gw_copy(req, header.name);
        header.value.data = gw_copy(req, header.value);
        if (header.name.data == NULL || header.value.data == NULL) {
                gw_reply_no_memory(req);
                return false;
        }
        out[(*count)++] = header;
        return true;
}

/* From here on the request's headers are those that a PUT of the object would have. False: answered. */
static bool post_take_headers(struct gw_request *req, const struct post_fields *post)
{
        struct s3_header *all = gw_alloc(req, (req->header_count + post->count + 1) * sizeof(*all));
        unsigned count = 0;

        if (all == NULL) {
                gw_reply_no_memory(req);
                return false;
        }
        for (unsigned i = 0; i < req->header_count; i++)
                if (!is_of_form(req->headers[i].name))
                        all[count++] = req->headers[i];
        for (unsigned i = 0; i < post->count; i++)
                if (!post_field_header(req, &post->field[i], all, &count))
                        return false;
        req->headers = all;
        req->header_count = count;
        return true;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Address of the object; NULL: no memory. */
static char *post_location(struct gw_request *req)
{
        char key[3 * S3_KEY_MAX + 1];
        struct s3_str host = gw_header(req, "Host");
        int n = s3_percent_encode(req->key, S3_ENCODE_PATH, key, sizeof(key) - 1);
        char *out = n < 0 ? NULL : gw_alloc(req, host.len + req->bucket.len + (size_t)n + 16);
        char *p = out;

        if (p == NULL)
                return NULL;
        if (host.len > 0) {
                p = stpcpy(p, req->conn->listener->tls ? "https://" : "http://");
                p = mempcpy(p, host.data, host.len);
        }
        *p++ = '/';
        if (!req->virtual_host) {
                p = mempcpy(p, req->bucket.data, req->bucket.len);
                *p++ = '/';
        }
        memcpy(p, key, (size_t)n);
        return out;
}

/* The page to show next: an address of the web, of characters that a header may have. Else absent, as AWS has it. */
static struct s3_str post_redirect(const struct gw_request *req)
{
        struct s3_str url = s3_form_find(req->body->form, "success_action_redirect");
        const char *fragment;

        if (url.data == NULL)
                url = s3_form_find(req->body->form, "redirect");
        if (url.len > REDIRECT_MAX || (!s3_str_starts_nocase(url, S3_STR("http://")) &&
                                       !s3_str_starts_nocase(url, S3_STR("https://"))))
                return (struct s3_str){NULL, 0};
        for (size_t i = 0; i < url.len; i++)
                if (url.data[i] <= ' ' || url.data[i] >= 0x7f)
                        return (struct s3_str){NULL, 0};
        fragment = memchr(url.data, '#', url.len);
        if (fragment != NULL)
                url.len = (size_t)(fragment - url.data);
        return url;
}

static void reply_redirect(struct gw_request *req, struct s3_str url, const char *etag)
{
        char *out = gw_alloc(req, url.len + 3 * (req->bucket.len + req->key.len + strlen(etag)) + 64), *p = out;

        if (out == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        p = mempcpy(p, url.data, url.len);
        *p++ = memchr(url.data, '?', url.len) != NULL ? '&' : '?';
        p = stpcpy(p, "bucket=");
        p += s3_percent_encode(req->bucket, S3_ENCODE_QUERY, p, 3 * req->bucket.len);
        p = stpcpy(p, "&key=");
        p += s3_percent_encode(req->key, S3_ENCODE_QUERY, p, 3 * req->key.len);
        p = stpcpy(p, "&etag=");
        p += s3_percent_encode(s3_str_of(etag), S3_ENCODE_QUERY, p, 3 * strlen(etag));
        *p = '\0';
        gw_reply_header(req, "Location", out);
        gw_reply_empty(req, 303);
}

static void reply_document(struct gw_request *req, const char *location, const char *etag)
{
        struct s3_xml xml;

        s3_xml_init(&xml, DOC_MAX);
        s3_xml_declaration(&xml);
        s3_xml_open(&xml, "PostResponse");
        s3_xml_textz(&xml, "Location", location);
        s3_xml_text(&xml, "Bucket", req->bucket);
        s3_xml_text(&xml, "Key", req->key);
        s3_xml_textz(&xml, "ETag", etag);
        s3_xml_close(&xml, "PostResponse");
        gw_reply_xml(req, 201, &xml);
}

/* Its headers are there. */
static void post_stored(struct gw_request *req, const struct eng_object *object)
{
        struct s3_str redirect = post_redirect(req), status = s3_form_find(req->body->form, "success_action_status");
        const char *etag = gw_etag_text(req, object->etag, 0), *location;

        if (etag == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        if (redirect.len > 0) {
                reply_redirect(req, redirect, etag);
                return;
        }
        location = post_location(req);
        if (location == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        gw_reply_header(req, "Location", location);
        if (s3_str_eq(status, S3_STR("201")))
                reply_document(req, location, etag);
        else
                gw_reply_empty(req, s3_str_eq(status, S3_STR("200")) ? 200 : 204);
}

/* ---- in the middle of the body --------------------------------------------------------------- */

bool gw_post_fields(struct gw_request *req)
{
        struct post_fields post;
        const char *message = NULL;
        enum s3_error error;

        if (!post_fields_read(req, &post) || !post_authenticate(req, &post) || !post_policy_holds(req, &post) ||
            !post_take_headers(req, &post) || !gw_head_permit(req) || !gw_head_bucket(req))
                return false;
        error = gw_body_fields(req, &message);
        if (error != S3_OK) {
                gw_reply_error(req, error, message);
                return false;
        }
        return gw_put_form_open(req, post_stored);
}
