/*
 * compose.c - what a request looks like on the wire: its URL, its headers, its signature.
 * client_request.c asks for each attempt anew, because a signature ages and a body's file may have
 * changed. Called on the thread that has the request: a worker, where a body is large or
 * credentials must be waited for.
 */
#include "client/http/compose.h"

#include "client/credentials/creds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define NONCE_BYTES 16u
#define HASH_BLOCK (1u << 20)
#define SMALL_BODY (256u << 10) /* sent without asking for 100 Continue first */
#define HASH_HERE  (64u << 10)  /* a body that a loop hashes by the way */

void mr_request_query(struct mr_request *request, const char *name, const char *value)
{
        if (request->query_count < MR_QUERY_MAX)
                request->query[request->query_count++] = (struct mr_pair){name, value};
}

/* Sets or, where it is there already, replaces. */
void mr_request_header(struct mr_request *request, const char *name, const char *value)
{
        for (unsigned i = 0; i < request->header_count; i++) {
                if (strcmp(request->header[i].name, name) == 0) {
                        request->header[i].value = value;
                        return;
                }
        }
        if (request->header_count < MR_HEADERS_MAX)
                request->header[request->header_count++] = (struct mr_pair){name, value};
}

/* ---- the body -------------------------------------------------------------------------------- */

/*
 * Bytes of the body from `at` on: 1..len of them, or a negative errno. A file that ends early has
 * changed under us.
 */
ssize_t mr_body_read(const struct mr_request *request, uint64_t at, void *out, size_t len)
{
        ssize_t n;

        if (len > request->len - at)
                len = (size_t)(request->len - at);
        if (request->data != NULL) {
                memcpy(out, request->data + at, len);
                return (ssize_t)len;
        }
        do
                n = pread(request->fd, out, len, (off_t)(request->offset + at));
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        return n == 0 ? -ESTALE : n;
}

static int sums_of_file(const struct mr_request *request, struct s3_sums *sums)
{
        uint8_t *block = malloc(HASH_BLOCK);
        uint64_t at = 0;
        ssize_t n = 0;

        if (block == NULL)
                return -ENOMEM;
        while (at < request->len) {
                n = mr_body_read(request, at, block, HASH_BLOCK);
                if (n < 0)
                        break;
                s3_sums_update(sums, block, (size_t)n);
                at += (uint64_t)n;
        }
        free(block);
        return n < 0 ? (int)n : 0;
}

static bool body_is_signed(const struct mr_client *client, const struct mr_request *request)
{
        bool tls = request->admin_path != NULL ? client->admin_tls : client->endpoints.tls;

        if (request->session != NULL)
                return false;
        if (request->signed_body || request->admin_path != NULL)
                return true;
        if (client->settings.sign_body == MR_SIGN_AUTO)
                return !tls;
        return client->settings.sign_body == MR_SIGN_ALWAYS;
}

static bool body_is_hashed(const struct mr_client *client, const struct mr_request *request)
{
        return request->has_checksum ||
               (request->len > 0 && !request->unsigned_request && body_is_signed(client, request));
}

bool mr_compose_waits(struct mr_client *client, const struct mr_request *request)
{
        if (!request->unsigned_request && request->session == NULL && mr_creds_waits(client->creds))
                return true;
        if (!body_is_hashed(client, request))
                return false;
        return request->data == NULL ? request->len > 0 : !request->hashed && request->len > HASH_HERE;
}

/*
 * Reads the body once to sign it and to learn its checksum; it is read again to be sent. A file
 * that changes in between is refused by the server, which is the point of doing it in this order.
 */
static int hash_body(const struct mr_client *client, struct mr_request *request)
{
        bool sign = body_is_signed(client, request);
        unsigned mask = (sign ? S3_CHECKSUM_BIT(S3_SHA256) : 0) |
                        (request->has_checksum ? S3_CHECKSUM_BIT(request->checksum) : 0);
        struct s3_sums *sums;
        int rv;

        if (request->hashed && request->data != NULL)
                return 0;
        snprintf(request->payload, sizeof(request->payload), "%s", sign ? S3_EMPTY_SHA256 : S3_UNSIGNED_PAYLOAD);
        if (!body_is_hashed(client, request))
                return 0;
        rv = s3_sums_new(mask, &sums);
        if (rv != 0)
                return rv;
        if (request->data != NULL)
                s3_sums_update(sums, request->data, (size_t)request->len);
        else
                rv = sums_of_file(request, sums);
        if (rv == 0) {
                s3_sums_final(sums);
                if (sign)
                        s3_hex_encode(s3_sums_value(sums, S3_SHA256), S3_SHA256_LEN, request->payload);
                if (request->has_checksum)
                        memcpy(request->sum, s3_sums_value(sums, request->checksum),
                               s3_checksum_info(request->checksum)->len);
                request->hashed = true;
        }
        s3_sums_free(sums);
        return rv;
}

/* ---- URL and headers ------------------------------------------------------------------------- */

/* owner: one call of build_url() */
struct text {
        char *at, *end;
        bool full;
};

static void compose_put_text(struct text *text, const char *value)
{
        size_t len = strlen(value);

        if (len >= (size_t)(text->end - text->at)) {
                text->full = true;
                return;
        }
        memcpy(text->at, value, len + 1);
        text->at += len;
}

static void put_escaped(struct text *text, const char *value, enum s3_encode mode)
{
        int n = s3_percent_encode(s3_str_of(value), mode, text->at, (size_t)(text->end - text->at) - 1);

        if (n < 0) {
                text->full = true;
                return;
        }
        text->at += n;
        *text->at = '\0';
}

static int build_url(const struct mr_client *client, const struct mr_request *request, struct mr_composed *out)
{
        const char *base = request->admin_path != NULL ? client->settings.admin
                                                       : client->endpoints.at[request->use.index].url;
        struct text text = {out->url, out->url + sizeof(out->url), false};

        compose_put_text(&text, base);
        out->path = text.at;
        compose_put_text(&text, request->admin_path != NULL ? request->admin_path : "/");
        if (request->bucket != NULL)
                put_escaped(&text, request->bucket, S3_ENCODE_PATH);
        if (request->key != NULL) {
                compose_put_text(&text, "/");
                put_escaped(&text, request->key, S3_ENCODE_PATH);
        }
        out->query = NULL;
        for (unsigned i = 0; i < request->query_count; i++) {
                compose_put_text(&text, i == 0 ? "?" : "&");
                if (i == 0)
                        out->query = text.at;
                put_escaped(&text, request->query[i].name, S3_ENCODE_QUERY);
                compose_put_text(&text, "=");
                if (request->query[i].value != NULL)
                        put_escaped(&text, request->query[i].value, S3_ENCODE_QUERY);
        }
        return text.full ? -ENAMETOOLONG : 0;
}

static int compose_add_line(struct mr_composed *out, const char *name, const char *value)
{
        size_t size = strlen(name) + strlen(value) + 3;
        char *line = malloc(size);
        struct curl_slist *grown;

        if (line == NULL)
                return -ENOMEM;
        snprintf(line, size, "%s: %s", name, value);
        grown = curl_slist_append(out->lines, line);
        free(line);
        if (grown == NULL)
                return -ENOMEM;
        out->lines = grown;
        return 0;
}

/* What a request is signed with. owner: one call of mr_compose() */
struct signing {
        struct mr_key *key;             /* of the user */
        const char *access_key, *token; /* NULL: none */
        struct s3_signing_key derived;
        int64_t now_ms;
};

/* Signs exactly the headers given, and adds the signature to what curl sends. */
static int sign(const struct mr_client *client, const struct signing *signing, const struct mr_request *request,
                const struct s3_header *headers, size_t count, struct mr_composed *out)
{
        struct s3_request signed_part = {
                .method = s3_str_of(request->method),
                .path = {out->path, strcspn(out->path, "?")},
                .query = s3_str_of(out->query),
                .headers = headers,
                .header_count = count,
        };
        struct s3_signer signer = {
                .access_key = s3_str_of(signing->access_key),
                .key = signing->derived,
                .region = client->settings.region,
                .service = request->service != NULL ? request->service : "s3",
        };
        char authorization[4096];
        int rv = s3_sign_headers(&signed_part, &signer, authorization, sizeof(authorization), NULL);

        explicit_bzero(&signer, sizeof(signer));
        return rv < 0 ? rv : compose_add_line(out, "Authorization", authorization);
}

/* Makes each admin call one of its own, which the daemon takes once. */
static void make_nonce(char out[2 * NONCE_BYTES + 1])
{
        uint8_t bytes[NONCE_BYTES];

        if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
                abort(); /* the kernel has none, which does not happen after it has started */
        s3_hex_encode(bytes, sizeof(bytes), out);
}

static int build_headers(const struct mr_client *client, const struct mr_request *request,
                         const struct signing *signing, struct mr_composed *out)
{
        struct s3_header headers[MR_HEADERS_MAX + 7];
        char date[S3_DATE_AMZ_SIZE], sum[S3_CHECKSUM_TEXT], nonce[2 * NONCE_BYTES + 1];
        size_t count = 0;
        int rv = 0;

#define ADD(header_name, header_value)                                                                                 \
        (headers[count++] = (struct s3_header){s3_str_of(header_name), s3_str_of(header_value)})
        ADD("host", request->admin_path != NULL ? client->admin_host : client->endpoints.at[request->use.index].host);
        if (signing->access_key != NULL) {
                s3_date_format_amz(signing->now_ms, date);
                ADD("x-amz-date", date);
                ADD("x-amz-content-sha256", request->payload);
                if (signing->token != NULL)
                        ADD("x-amz-security-token", signing->token);
                if (request->admin_path != NULL) {
                        make_nonce(nonce);
                        ADD("x-millrace-nonce", nonce);
                }
        }
        if (request->has_checksum) {
                s3_checksum_format(request->checksum, request->sum, 0, sum);
                ADD(s3_checksum_info(request->checksum)->header, sum);
                ADD("x-amz-sdk-checksum-algorithm", s3_checksum_info(request->checksum)->algorithm);
        }
        for (unsigned i = 0; i < request->header_count; i++)
                ADD(request->header[i].name, request->header[i].value);
#undef ADD
        for (size_t i = 0; i < count && rv == 0; i++)
                rv = compose_add_line(out, headers[i].name.data, headers[i].value.data);
        if (rv == 0 && (request->len <= SMALL_BODY || request->by_window))
                rv = compose_add_line(out, "Expect", "");
        if (rv == 0 && signing->access_key != NULL)
                rv = sign(client, signing, request, headers, count, out);
        return rv;
}

static int sign_by_user(struct mr_client *client, struct mr_request *request, struct signing *signing)
{
        const struct mr_credentials *credentials;
        int rv = mr_creds_take(client->creds, client->settings.region, signing->now_ms, &signing->key,
                               &signing->derived, &request->error);

        if (rv != 0)
                return rv;
        credentials = &signing->key->credentials;
        if (request->service != NULL) {
                char date[S3_DATE_AMZ_SIZE];

                s3_date_format_amz(signing->now_ms, date);
                date[8] = '\0';
                s3_signing_key_derive(s3_str_of(credentials->secret_key), date, client->settings.region,
                                      request->service, &signing->derived);
        }
        signing->access_key = credentials->access_key;
        signing->token = credentials->session_token[0] != '\0' ? credentials->session_token : NULL;
        request->key_generation = signing->key->generation;
        if (request->signed_by != NULL)
                *request->signed_by = (struct mr_signed){.key = signing->derived,
                                                         .generation = signing->key->generation,
                                                         .expires_s = credentials->expires_s};
        return 0;
}

static void sign_by_session(const struct mr_client *client, const struct mr_session_key *key, struct signing *signing)
{
        char date[S3_DATE_AMZ_SIZE];

        s3_date_format_amz(signing->now_ms, date);
        date[8] = '\0';
        s3_signing_key_derive(s3_str_of(key->secret), date, client->settings.region, "s3", &signing->derived);
        signing->access_key = key->access_key;
}

int mr_compose(struct mr_client *client, struct mr_request *request, struct mr_composed *out)
{
        struct signing signing = {.now_ms = mr_core_now_ms()};
        int rv = hash_body(client, request);

        out->lines = NULL;
        if (rv == 0 && request->session != NULL)
                sign_by_session(client, request->session, &signing);
        else if (rv == 0 && !request->unsigned_request && !mr_creds_none(client->creds))
                rv = sign_by_user(client, request, &signing);
        if (rv == 0)
                rv = build_url(client, request, out);
        if (rv == 0)
                rv = build_headers(client, request, &signing, out);
        mr_key_put(signing.key);
        explicit_bzero(&signing.derived, sizeof(signing.derived));
        return rv;
}

void mr_composed_free(struct mr_composed *composed)
{
        curl_slist_free_all(composed->lines);
        composed->lines = NULL;
}
