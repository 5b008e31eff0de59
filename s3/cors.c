/*
 * cors.c - CORSConfiguration: its elements, what AWS refuses, and which rule allows a request.
 * Called by docs.c and by the gateway for requests with an Origin; pure.
 *
 * A pattern has one '*' at most, so a match is a comparison of two ends.
 */
#include "s3_cors.h"

#include "config.h"
#include "s3_xml.h"

#define RULE_ID_MAX 255u

enum { CORS, RULE, RULE_ID, ALLOWED_HEADER, ALLOWED_METHOD, ALLOWED_ORIGIN, EXPOSE_HEADER, MAX_AGE };

static const struct s3_element cors_elements[] = {
        [CORS] = S3_GROUP("CORSConfiguration", CORS, 1, 1),
        [RULE] = S3_GROUP("CORSRule", CORS, 1, S3_MANY),
        [RULE_ID] = S3_TEXT("ID", RULE, 0, 1, 0, S3_XML_TEXT_MAX),
        [ALLOWED_HEADER] = S3_TEXT("AllowedHeader", RULE, 0, S3_MANY, 1, S3_XML_TEXT_MAX),
        [ALLOWED_METHOD] = S3_TEXT("AllowedMethod", RULE, 1, S3_MANY, 0, S3_XML_TEXT_MAX),
        [ALLOWED_ORIGIN] = S3_TEXT("AllowedOrigin", RULE, 1, S3_MANY, 1, S3_XML_TEXT_MAX),
        [EXPOSE_HEADER] = S3_TEXT("ExposeHeader", RULE, 0, S3_MANY, 1, S3_XML_TEXT_MAX),
        [MAX_AGE] = S3_INT("MaxAgeSeconds", RULE, 0, 1, 0, INT32_MAX),
};

/* ---- reading --------------------------------------------------------------------------------- */

bool s3_cors_method(struct s3_str method)
{
        static const char *const methods[] = {"GET", "PUT", "HEAD", "POST", "DELETE"};

        for (unsigned i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
                if (s3_str_eq(method, s3_str_of(methods[i])))
                        return true;
        return false;
}

static unsigned stars(struct s3_str text)
{
        unsigned n = 0;

        for (size_t i = 0; i < text.len; i++)
                n += text.data[i] == '*';
        return n;
}

/* A token of RFC 9110, of which a '*' may stand for more: no header has another name. */
static bool is_header_pattern(struct s3_str text)
{
        for (size_t i = 0; i < text.len; i++) {
                char c = text.data[i];

                if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || s3_is_digit(c)) &&
                    (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL))
                        return false;
        }
        return true;
}

/* A letter, digit, '-' or '_': these values become headers of answers. */
static bool is_header_name(struct s3_str text)
{
        for (size_t i = 0; i < text.len; i++) {
                char c = text.data[i];

                if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || s3_is_digit(c) || c == '-' || c == '_'))
                        return false;
        }
        return text.len > 0;
}

static enum s3_error cors_value(struct s3_doc *doc, unsigned row, struct s3_str text)
{
        switch (row) {
        case ALLOWED_METHOD:
                if (!s3_cors_method(text))
                        return s3_config_refuse(
                                doc, S3_ERR_INVALID_REQUEST,
                                "Found unsupported HTTP method in CORS config. Unsupported method is %.*s", text);
                break;
        case ALLOWED_ORIGIN:
                if (stars(text) > 1)
                        return s3_config_refuse(doc, S3_ERR_INVALID_REQUEST,
                                                "AllowedOrigin \"%.*s\" can not have more than one wildcard.", text);
                break;
        case ALLOWED_HEADER:
                if (stars(text) > 1)
                        return s3_config_refuse(doc, S3_ERR_INVALID_REQUEST,
                                                "AllowedHeader \"%.*s\" can not have more than one wildcard.", text);
                if (!doc->priv->kept && !is_header_pattern(text))
                        return s3_config_refuse(doc, S3_ERR_INVALID_REQUEST,
                                                "AllowedHeader \"%.*s\" contains invalid character.", text);
                break;
        case EXPOSE_HEADER:
                if (stars(text) > 0)
                        return s3_config_refuse(
                                doc, S3_ERR_INVALID_REQUEST,
                                "ExposeHeader \"%.*s\" contains wildcard. We currently do not support wildcard "
                                "for ExposeHeader.",
                                text);
                if (!is_header_name(text))
                        return s3_config_refuse(doc, S3_ERR_INVALID_REQUEST,
                                                "ExposeHeader \"%.*s\" contains invalid character.", text);
                break;
        case RULE_ID:
                if (s3_utf16_len(text) > RULE_ID_MAX)
                        return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST,
                                             "The ID of a rule is at most 255 characters long.");
                break;
        }
        return S3_OK;
}

static enum s3_error cors_end(struct s3_doc *doc)
{
        enum s3_error error = S3_OK;

        if (s3_config_count_of(doc->config, 0, S3_SEEN(RULE)) > S3_CORS_RULES_MAX)
                return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST,
                                     "The number of CORS rules should not exceed allowed limit of 100 rules.");
        for (uint32_t at = 0; error == S3_OK && at < s3_config_count(doc->config); at++)
                error = cors_value(doc, s3_config_row(doc->config, at), s3_config_text(doc->config, at));
        return error;
}

S3_CONFIG_SCHEMA(s3_cors_schema, cors_elements, S3_CORS_BODY_MAX, cors_end);

/* ---- matching -------------------------------------------------------------------------------- */

static bool same(struct s3_str a, struct s3_str b, bool nocase)
{
        return nocase ? s3_str_eq_nocase(a, b) : s3_str_eq(a, b);
}

static bool pattern_fits(struct s3_str pattern, struct s3_str text, bool nocase)
{
        const char *star = memchr(pattern.data, '*', pattern.len);
        size_t before, after;

        if (star == NULL)
                return same(pattern, text, nocase);
        before = (size_t)(star - pattern.data);
        after = pattern.len - before - 1;
        return text.len >= before + after &&
               same((struct s3_str){pattern.data, before}, (struct s3_str){text.data, before}, nocase) &&
               same((struct s3_str){star + 1, after}, (struct s3_str){text.data + text.len - after, after}, nocase);
}

static bool rule_allows(const struct s3_config *config, uint32_t rule, const char *name, struct s3_str text,
                        bool nocase, bool *any)
{
        uint32_t at = s3_config_first(config, rule, name);

        for (; at != S3_CONFIG_NONE; at = s3_config_next(config, rule, at, name)) {
                struct s3_str pattern = s3_config_text(config, at);

                *any = s3_str_eq(pattern, S3_STR("*"));
                if (pattern_fits(pattern, text, nocase))
                        return true;
        }
        return false;
}

static bool rule_allows_headers(const struct s3_config *config, uint32_t rule, struct s3_str headers)
{
        bool any;

        for (unsigned n = 0; headers.len > 0; n++) {
                struct s3_str name = s3_str_trim(s3_str_cut(headers, ',', &headers));

                if (n == S3_CORS_NAMES_MAX)
                        return false;
                if (name.len > 0 && !rule_allows(config, rule, "AllowedHeader", name, true, &any))
                        return false;
        }
        return true;
}

uint32_t s3_cors_find(const struct s3_config *config, struct s3_str origin, struct s3_str method, struct s3_str headers,
                      bool *any)
{
        uint32_t rule = s3_config_first(config, 0, "CORSRule");
        bool method_any;

        for (; rule != S3_CONFIG_NONE; rule = s3_config_next(config, 0, rule, "CORSRule"))
                if (rule_allows(config, rule, "AllowedMethod", method, false, &method_any) &&
                    rule_allows(config, rule, "AllowedOrigin", origin, false, any) &&
                    rule_allows_headers(config, rule, headers))
                        return rule;
        return S3_CONFIG_NONE;
}
