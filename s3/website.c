/*
 * website.c - WebsiteConfiguration: its elements, what AWS refuses, and what becomes of a request.
 * Called by docs.c and by whoever serves websites; pure.
 *
 * Texts that become part of a Location are percent-encoded or, the host, checked when they are read:
 * no configuration can add a header to an answer.
 */
#include "s3_website.h"

#include <stdio.h>

#include "config.h"
#include "s3_xml.h"

#define KEY_BYTES 1024u

enum {
        WEBSITE,
        REDIRECT_ALL,
        ALL_HOST,
        ALL_PROTOCOL,
        INDEX,
        SUFFIX,
        ERROR_DOC,
        ERROR_KEY,
        RULES,
        RULE,
        CONDITION,
        KEY_PREFIX,
        ERROR_CODE,
        REDIRECT,
        HOST,
        CODE,
        PROTOCOL,
        REPLACE_PREFIX,
        REPLACE_KEY
};

static const struct s3_element website_elements[] = {
        [WEBSITE] = S3_GROUP("WebsiteConfiguration", WEBSITE, 1, 1),
        [REDIRECT_ALL] = S3_GROUP("RedirectAllRequestsTo", WEBSITE, 0, 1),
        [ALL_HOST] = S3_TEXT("HostName", REDIRECT_ALL, 1, 1, 0, 255),
        [ALL_PROTOCOL] = S3_TEXT("Protocol", REDIRECT_ALL, 0, 1, 0, 255),
        [INDEX] = S3_GROUP("IndexDocument", WEBSITE, 0, 1),
        [SUFFIX] = S3_TEXT("Suffix", INDEX, 1, 1, 0, KEY_BYTES),
        [ERROR_DOC] = S3_GROUP("ErrorDocument", WEBSITE, 0, 1),
        [ERROR_KEY] = S3_TEXT("Key", ERROR_DOC, 1, 1, 0, KEY_BYTES),
        [RULES] = S3_GROUP("RoutingRules", WEBSITE, 0, 1),
        [RULE] = S3_GROUP("RoutingRule", RULES, 1, S3_MANY),
        [CONDITION] = S3_GROUP("Condition", RULE, 0, 1),
        [KEY_PREFIX] = S3_TEXT("KeyPrefixEquals", CONDITION, 0, 1, 0, KEY_BYTES),
        [ERROR_CODE] = S3_TEXT("HttpErrorCodeReturnedEquals", CONDITION, 0, 1, 0, 16),
        [REDIRECT] = S3_GROUP("Redirect", RULE, 1, 1),
        [HOST] = S3_TEXT("HostName", REDIRECT, 0, 1, 0, 255),
        [CODE] = S3_TEXT("HttpRedirectCode", REDIRECT, 0, 1, 0, 16),
        [PROTOCOL] = S3_TEXT("Protocol", REDIRECT, 0, 1, 0, 255),
        [REPLACE_PREFIX] = S3_TEXT("ReplaceKeyPrefixWith", REDIRECT, 0, 1, 0, KEY_BYTES),
        [REPLACE_KEY] = S3_TEXT("ReplaceKeyWith", REDIRECT, 0, 1, 0, KEY_BYTES),
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Letters, digits, '.', '-', '_', and ':' before a port. */
static bool is_redirect_host(struct s3_str text)
{
        for (size_t i = 0; i < text.len; i++) {
                char c = text.data[i];

                if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || s3_is_digit(c) ||
                      strchr(".-_:", c) != NULL) ||
                    c == '\0')
                        return false;
        }
        return text.len > 0;
}

/* 301 to 305, 307 and 308, or 400 to 417 and 500 to 505; one that was kept before may have others of its hundreds. */
static bool code_known(uint64_t code, bool redirect, bool kept)
{
        if (redirect)
                return code >= 301 && code <= (kept ? 399 : 308) && (kept || code != 306);
        return (code >= 400 && code <= (kept ? 499 : 417)) || (code >= 500 && code <= (kept ? 599 : 505));
}

static enum s3_error website_code(struct s3_doc *doc, struct s3_str text, bool redirect)
{
        uint64_t code;

        if (s3_parse_uint(text, INT32_MAX, &code) != 0)
                return S3_ERR_MALFORMED_XML;
        if (code_known(code, redirect, doc->priv->kept))
                return S3_OK;
        if (redirect)
                return s3_config_refuse(
                        doc, S3_ERR_INVALID_REQUEST,
                        "The provided HTTP redirect code (%.*s) is not valid. Valid codes are 3XX except 300.", text);
        return s3_config_refuse(doc, S3_ERR_INVALID_REQUEST,
                                "The provided HTTP error code (%.*s) is not valid. Valid codes are 4XX or 5XX.", text);
}

static enum s3_error website_text(struct s3_doc *doc, unsigned row, struct s3_str text)
{
        switch (row) {
        case ALL_HOST:
        case HOST:
                if (!is_redirect_host(text))
                        return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST, "The HostName is not that of a host.");
                break;
        case ALL_PROTOCOL:
        case PROTOCOL:
                if (!s3_str_eq(text, S3_STR("http")) && !s3_str_eq(text, S3_STR("https")))
                        return s3_doc_refuse(
                                doc, S3_ERR_INVALID_REQUEST,
                                "Invalid protocol, protocol can be http or https. If not defined the protocol will "
                                "be selected automatically.");
                break;
        case SUFFIX:
                if (text.len == 0 || memchr(text.data, '/', text.len) != NULL)
                        return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT,
                                             "The IndexDocument Suffix is not well formed");
                break;
        case ERROR_KEY:
                if (text.len == 0)
                        return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT, "The ErrorDocument Key is not well formed");
                break;
        case CODE:
                return website_code(doc, text, true);
        case ERROR_CODE:
                return website_code(doc, text, false);
        }
        return S3_OK;
}

static enum s3_error website_rule(struct s3_doc *doc, unsigned row, uint32_t at)
{
        if (row == CONDITION && s3_config_count_of(doc->config, at, S3_SEEN(KEY_PREFIX) | S3_SEEN(ERROR_CODE)) == 0)
                return s3_doc_refuse(
                        doc, S3_ERR_MALFORMED_XML,
                        "Condition cannot be empty. To redirect all requests without a condition, the condition "
                        "element shouldn't be present.");
        if (row != REDIRECT)
                return S3_OK;
        if (s3_config_count_of(doc->config, at, ~0ull) == 0)
                return S3_ERR_MALFORMED_XML;
        if (s3_config_count_of(doc->config, at, S3_SEEN(REPLACE_PREFIX) | S3_SEEN(REPLACE_KEY)) > 1)
                return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST,
                                     "You can only define ReplaceKeyPrefix or ReplaceKey but not both.");
        return S3_OK;
}

static enum s3_error website_shape(struct s3_doc *doc)
{
        const struct s3_config *config = doc->config;
        uint32_t rules = s3_config_first(config, 0, "RoutingRules");

        if (s3_config_count_of(config, 0, S3_SEEN(REDIRECT_ALL)) > 0) {
                if (s3_config_count_of(config, 0, ~S3_SEEN(REDIRECT_ALL)) > 0)
                        return s3_doc_refuse(
                                doc, S3_ERR_MALFORMED_XML,
                                "RedirectAllRequestsTo cannot be provided in conjunction with other Routing Rules.");
                return S3_OK;
        }
        if (s3_config_count_of(config, 0, S3_SEEN(INDEX)) == 0)
                return s3_doc_refuse(
                        doc, S3_ERR_INVALID_ARGUMENT,
                        "A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty");
        if (rules != S3_CONFIG_NONE && s3_config_count_of(config, rules, S3_SEEN(RULE)) > S3_WEBSITE_RULES_MAX)
                return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST,
                                     "The number of routing rules in a website configuration is limited to 50.");
        return S3_OK;
}

static enum s3_error website_end(struct s3_doc *doc)
{
        enum s3_error error = website_shape(doc);

        for (uint32_t at = 0; error == S3_OK && at < s3_config_count(doc->config); at++) {
                unsigned row = s3_config_row(doc->config, at);

                error = website_text(doc, row, s3_config_text(doc->config, at));
                if (error == S3_OK)
                        error = website_rule(doc, row, at);
        }
        return error;
}

S3_CONFIG_SCHEMA(s3_website_schema, website_elements, S3_WEBSITE_BODY_MAX, website_end);

/* ---- deciding -------------------------------------------------------------------------------- */

static void answer_page(struct s3_website_answer *out, unsigned status)
{
        out->kind = S3_WEBSITE_PAGE;
        out->status = status;
        out->len = 0;
        out->text[0] = '\0';
}

static void answer_object(struct s3_website_answer *out, unsigned status, struct s3_str key)
{
        out->kind = S3_WEBSITE_OBJECT;
        out->status = status;
        out->len = key.len;
        memcpy(out->text, key.data, key.len);
        out->text[key.len] = '\0';
}

/* Appends the key, percent-encoded. False: it does not fit. */
static bool put_key(struct s3_website_answer *out, struct s3_str key)
{
        int n = key.len == 0 ? 0
                             : s3_percent_encode(key, S3_ENCODE_PATH, out->text + out->len,
                                                 sizeof(out->text) - 1 - out->len);

        if (n < 0)
                return false;
        out->len += (size_t)n;
        out->text[out->len] = '\0';
        return true;
}

/* "protocol://host/" and the pieces of a key. */
static void answer_url(struct s3_website_answer *out, unsigned status, struct s3_str protocol, struct s3_str host,
                       struct s3_str key, struct s3_str more)
{
        int n = snprintf(out->text, sizeof(out->text), "%.*s://%.*s/", (int)protocol.len, protocol.data, (int)host.len,
                         host.data);

        out->kind = S3_WEBSITE_REDIRECT;
        out->status = status;
        out->len = n > 0 && (size_t)n < sizeof(out->text) ? (size_t)n : 0;
        if (out->len == 0 || !put_key(out, key) || !put_key(out, more))
                answer_page(out, 500);
}

static struct s3_str protocol_of(const struct s3_website_request *request, struct s3_str protocol)
{
        if (protocol.len > 0)
                return protocol;
        return request->https ? S3_STR("https") : S3_STR("http");
}

/* status 0: nothing has failed yet. */
static bool routing_condition_holds(const struct s3_config *config, uint32_t rule, struct s3_str key, unsigned status)
{
        uint32_t condition = s3_config_first(config, rule, "Condition");
        struct s3_str prefix, code;
        uint64_t number = 0;

        if (condition == S3_CONFIG_NONE)
                return status == 0;
        prefix = s3_config_text_of(config, condition, "KeyPrefixEquals");
        code = s3_config_text_of(config, condition, "HttpErrorCodeReturnedEquals");
        if (code.data != NULL && s3_parse_uint(code, 599, &number) != 0)
                return false;
        return number == status && (prefix.len == 0 || s3_str_starts(key, prefix));
}

static void follow(const struct s3_config *config, uint32_t rule, const struct s3_website_request *request,
                   struct s3_website_answer *out)
{
        uint32_t redirect = s3_config_first(config, rule, "Redirect"),
                 condition = s3_config_first(config, rule, "Condition");
        struct s3_str host = s3_config_text_of(config, redirect, "HostName"), key = request->key, more = {NULL, 0},
                      whole = s3_config_text_of(config, redirect, "ReplaceKeyWith"),
                      start = s3_config_text_of(config, redirect, "ReplaceKeyPrefixWith"),
                      code = s3_config_text_of(config, redirect, "HttpRedirectCode");
        uint64_t status = 301;

        if (whole.data != NULL)
                key = whole;
        if (start.data != NULL) {
                struct s3_str prefix = condition != S3_CONFIG_NONE
                                               ? s3_config_text_of(config, condition, "KeyPrefixEquals")
                                               : (struct s3_str){NULL, 0};

                more = (struct s3_str){key.data + prefix.len, key.len - prefix.len};
                key = start;
        }
        if (code.data != NULL && s3_parse_uint(code, 399, &status) != 0)
                status = 301;
        answer_url(out, (unsigned)status, protocol_of(request, s3_config_text_of(config, redirect, "Protocol")),
                   host.len > 0 ? host : request->host, key, more);
}

static bool route_by_rules(const struct s3_config *config, const struct s3_website_request *request, unsigned status,
                           struct s3_website_answer *out)
{
        uint32_t rules = s3_config_first(config, 0, "RoutingRules"), rule;

        if (rules == S3_CONFIG_NONE)
                return false;
        rule = s3_config_first(config, rules, "RoutingRule");
        for (; rule != S3_CONFIG_NONE; rule = s3_config_next(config, rules, rule, "RoutingRule")) {
                if (!routing_condition_holds(config, rule, request->key, status))
                        continue;
                follow(config, rule, request, out);
                return true;
        }
        return false;
}

void s3_website_ask(const struct s3_config *config, const struct s3_website_request *request,
                    struct s3_website_answer *out)
{
        uint32_t all = s3_config_first(config, 0, "RedirectAllRequestsTo");
        char index[S3_WEBSITE_KEY_SIZE];

        if (all != S3_CONFIG_NONE) {
                answer_url(out, 301, protocol_of(request, s3_config_text_of(config, all, "Protocol")),
                           s3_config_text_of(config, all, "HostName"), request->key, (struct s3_str){NULL, 0});
                return;
        }
        if (route_by_rules(config, request, 0, out))
                return;
        if (request->key.len == 0 || request->key.data[request->key.len - 1] == '/') {
                size_t len = s3_website_index(config, request->key, index);

                if (len > 0)
                        answer_object(out, 200, (struct s3_str){index, len});
                else
                        answer_page(out, 404);
                return;
        }
        answer_object(out, 200, request->key);
}

void s3_website_failed(const struct s3_config *config, const struct s3_website_request *request, unsigned status,
                       struct s3_website_answer *out)
{
        uint32_t document = s3_config_first(config, 0, "ErrorDocument");

        if (route_by_rules(config, request, status, out))
                return;
        /* AWS has its error document for errors of the client. */
        if (document != S3_CONFIG_NONE && status < 500)
                answer_object(out, status, s3_config_text_of(config, document, "Key"));
        else
                answer_page(out, status);
}

size_t s3_website_index(const struct s3_config *config, struct s3_str key, char out[S3_WEBSITE_KEY_SIZE])
{
        uint32_t index = s3_config_first(config, 0, "IndexDocument");
        bool slash = key.len > 0 && key.data[key.len - 1] != '/';
        struct s3_str suffix;
        size_t len;

        if (index == S3_CONFIG_NONE)
                return 0;
        suffix = s3_config_text_of(config, index, "Suffix");
        len = key.len + slash + suffix.len;
        if (len > KEY_BYTES) /* no object has it */
                return 0;
        if (key.len > 0)
                memcpy(out, key.data, key.len);
        if (slash)
                out[key.len] = '/';
        memcpy(out + key.len + slash, suffix.data, suffix.len);
        return len;
}

/* Two slashes at the front of a Location would begin the name of another host. */
void s3_website_to_folder(const struct s3_website_request *request, struct s3_website_answer *out)
{
        bool slash = s3_str_starts(request->key, S3_STR("/"));
        struct s3_str rest = {request->key.data + slash, request->key.len - slash};

        out->kind = S3_WEBSITE_REDIRECT;
        out->status = 302;
        strcpy(out->text, slash ? "/%2F" : "/");
        out->len = strlen(out->text);
        if (!put_key(out, rest) || !put_key(out, S3_STR("/")))
                answer_page(out, 500);
}
