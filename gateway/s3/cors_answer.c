/*
 * cors_answer.c - see cors_answer.h. On the request's loop; nothing here waits.
 *
 * Anybody may ask a preflight, so it tells no more than whether the rules allow it. The rules are
 * parsed once and kept with their text (text_forms.c). A request without Origin costs one look at
 * the lengths of its headers' names.
 */
#include "gateway/s3/cors_answer.h"

#include <errno.h>

#include "gateway/s3/bucket_texts.h"
#include "gateway_head.h"

#define NOT_ALLOWED                                                                                                    \
        "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, request "    \
        "method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the "         \
        "resource's CORS spec."

/* ---- rules ----------------------------------------------------------------------------------- */

/* The rules of the bucket that the request names. 0, -ENOENT: it has none; other errors: of the store. */
static int cors_rules(struct gw_request *req, const struct s3_config **out)
{
        const struct eng_bucket *bucket;
        int rv = gw_bucket_get(req->loop->gw, req->bucket, &bucket, NULL);

        return rv == 0 ? gw_config_find(bucket->store, bucket->id, GW_TEXT_CORS, out) : rv;
}

/* Texts of a rule, with commas between them. */
static const char *cors_list(struct gw_request *req, const struct s3_config *config, uint32_t rule, const char *name)
{
        uint32_t at = s3_config_first(config, rule, name), first = at;
        size_t len = 0;
        char *text, *p;

        for (; at != S3_CONFIG_NONE; at = s3_config_next(config, rule, at, name))
                len += s3_config_text(config, at).len + 2;
        text = p = len > 0 ? gw_alloc(req, len + 1) : NULL;
        for (at = first; p != NULL && at != S3_CONFIG_NONE; at = s3_config_next(config, rule, at, name)) {
                struct s3_str value = s3_config_text(config, at);

                if (p != text)
                        p = stpcpy(p, ", ");
                p = mempcpy(p, value.data, value.len);
        }
        return text;
}

static void cors_rule_headers(struct gw_request *req, const struct s3_config *config, uint32_t rule,
                              struct s3_str origin, bool any)
{
        struct s3_str age = s3_config_text_of(config, rule, "MaxAgeSeconds");

        if (any) {
                gw_reply_header(req, "Access-Control-Allow-Origin", "*");
        } else {
                gw_reply_header_str(req, "Access-Control-Allow-Origin", origin);
                gw_reply_header(req, "Access-Control-Allow-Credentials", "true");
        }
        gw_reply_header(req, "Access-Control-Allow-Methods", cors_list(req, config, rule, "AllowedMethod"));
        gw_reply_header(req, "Access-Control-Expose-Headers", cors_list(req, config, rule, "ExposeHeader"));
        if (age.len > 0)
                gw_reply_header_str(req, "Access-Control-Max-Age", age);
        gw_reply_header(req, "Vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method");
}

/* ---- preflights ------------------------------------------------------------------------------ */

static bool refuse_bad_names(struct gw_request *req, struct s3_str names)
{
        while (names.len > 0) {
                const char *comma = memchr(names.data, ',', names.len);
                size_t n = comma != NULL ? (size_t)(comma - names.data) : names.len;
                struct s3_str name = s3_str_trim((struct s3_str){names.data, n});

                n += comma != NULL;
                names.data += n;
                names.len -= n;
                if (gw_head_token(name))
                        continue;
                gw_reply_error(req, S3_ERR_BAD_REQUEST,
                               gw_printf(req, "Access-Control-Request-Headers \"%.*s\" contains invalid character.",
                                         (int)name.len, name.data));
                return true;
        }
        return false;
}

/* It lacks what it has to say. True: answered. */
static bool refuse_bad_preflight(struct gw_request *req, struct s3_str origin, struct s3_str method,
                                 struct s3_str names)
{
        if (origin.len == 0) {
                gw_reply_error(req, S3_ERR_BAD_REQUEST, "Insufficient information. Origin request header needed.");
                return true;
        }
        if (!s3_cors_method(method)) {
                gw_reply_error(req, S3_ERR_BAD_REQUEST,
                               gw_printf(req, "Invalid Access-Control-Request-Method: %.*s",
                                         method.len > 0 ? (int)method.len : 4, method.len > 0 ? method.data : "null"));
                return true;
        }
        return refuse_bad_names(req, names);
}

static void refuse_preflight(struct gw_request *req, struct s3_str method, const char *message)
{
        gw_reply_error_extra(req, S3_ERR_CORS_FORBIDDEN, message,
                             gw_detail(req, "Method", method, "ResourceType",
                                       req->key.len > 0 ? S3_STR("OBJECT") : S3_STR("BUCKET")));
}

void gw_cors_preflight(struct gw_request *req)
{
        struct s3_str origin = gw_header(req, "Origin"), method = gw_header(req, "Access-Control-Request-Method"),
                      names = gw_header(req, "Access-Control-Request-Headers");
        const struct s3_config *config;
        uint32_t rule;
        bool any;
        int rv;

        if (refuse_bad_preflight(req, origin, method, names))
                return;
        rv = cors_rules(req, &config);
        if (rv == -ENOENT || rv == -EIDRM) { /* the same whether there is such a bucket or not */
                refuse_preflight(req, method, NULL);
                return;
        }
        if (rv != 0) {
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
                return;
        }
        rule = s3_cors_find(config, origin, method, names, &any);
        if (rule == S3_CONFIG_NONE) {
                refuse_preflight(req, method, NOT_ALLOWED);
                return;
        }
        cors_rule_headers(req, config, rule, origin, any);
        if (names.len > 0)
                gw_reply_header_str(req, "Access-Control-Allow-Headers", names);
        gw_reply_empty(req, 200);
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct s3_str origin_of(const struct gw_request *req)
{
        const struct s3_str name = S3_STR("Origin");

        for (unsigned i = 0; i < req->header_count; i++)
                if (req->headers[i].name.len == name.len && s3_str_eq_nocase(req->headers[i].name, name))
                        return s3_str_trim(req->headers[i].value);
        return (struct s3_str){NULL, 0};
}

void gw_cors_headers(struct gw_request *req)
{
        struct s3_str origin = origin_of(req);
        const struct s3_config *config;
        uint32_t rule;
        bool any;

        if (origin.len == 0 || req->bucket.len == 0 || s3_str_eq(req->method, S3_STR("OPTIONS")))
                return;
        if (cors_rules(req, &config) != 0)
                return;
        rule = s3_cors_find(config, origin, req->method, (struct s3_str){NULL, 0}, &any);
        if (rule != S3_CONFIG_NONE)
                cors_rule_headers(req, config, rule, origin, any);
}
