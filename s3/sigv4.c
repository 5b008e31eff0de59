/*
 * SigV4: keys, string to sign, signature, and the tables of reasons. Called by the gateway's
 * authentication (on its loops) and by clients that sign. Keys are never compared or logged here.
 */
#include "sigv4_internal.h" /* first: it includes OpenSSL its own way */

#include <errno.h>
#include <stdio.h>

#include <openssl/crypto.h>

/* ---- reasons --------------------------------------------------------------------------------- */

static const struct {
        enum s3_error error;
        const char *message;
} reason_table[S3_AUTH_REASON_COUNT] = {[S3_AUTH_OK] = {S3_OK, ""},
#define S3_AUTH_ROW(name, error, message) [S3_AUTH_##name] = {S3_ERR_##error, message},
                                        S3_AUTH_REASONS(S3_AUTH_ROW)
#undef S3_AUTH_ROW
};

enum s3_error s3_auth_error(enum s3_auth_reason reason)
{
        return (unsigned)reason < S3_AUTH_REASON_COUNT ? reason_table[reason].error : S3_ERR_INTERNAL_ERROR;
}

const char *s3_auth_message(enum s3_auth_reason reason)
{
        if ((unsigned)reason < S3_AUTH_REASON_COUNT && reason_table[reason].message != NULL)
                return reason_table[reason].message;
        return s3_error_info(s3_auth_error(reason))->message;
}

bool s3_auth_wants_region(enum s3_auth_reason reason)
{
        return reason == S3_AUTH_WRONG_REGION || reason == S3_AUTH_Q_WRONG_REGION;
}

/* Messages that show what was wrong: with it instead of the table's. */
static const struct {
        enum s3_auth_reason reason;
        const char *format;
} fault_formats[] = {
        {S3_AUTH_BAD_HEADER_FIELD,
         "The authorization header is malformed; the authorization component \"%s\" is malformed."},
        {S3_AUTH_BAD_SCOPE_DATE,
         "The authorization header is malformed; incorrect date format \"%s\". This date in the credential must be in "
         "the format \"yyyyMMdd\"."},
        {S3_AUTH_WRONG_SERVICE,
         "The authorization header is malformed; incorrect service \"%s\". This endpoint belongs to \"s3\"."},
        {S3_AUTH_WRONG_TERMINAL,
         "The authorization header is malformed; incorrect terminal \"%s\". This endpoint uses \"aws4_request\"."},
        {S3_AUTH_Q_SCOPE_DATE,
         "Error parsing the X-Amz-Credential parameter; incorrect date format \"%s\". This date in the credential must "
         "be in the format \"yyyyMMdd\"."},
        {S3_AUTH_Q_WRONG_SERVICE,
         "Error parsing the X-Amz-Credential parameter; incorrect service \"%s\". This endpoint belongs to \"s3\"."},
        {S3_AUTH_Q_WRONG_TERMINAL,
         "Error parsing the X-Amz-Credential parameter; incorrect terminal \"%s\". This endpoint uses "
         "\"aws4_request\"."},
};

static const char *describe_fault(enum s3_auth_reason reason, const char *fault, char *buf, size_t cap)
{
        for (size_t i = 0; fault[0] != '\0' && i < sizeof(fault_formats) / sizeof(fault_formats[0]); i++) {
                if (fault_formats[i].reason != reason)
                        continue;
                snprintf(buf, cap, fault_formats[i].format, fault);
                return buf;
        }
        return s3_auth_message(reason);
}

const char *s3_auth_describe(enum s3_auth_reason reason, const struct s3_auth *auth, const char *region, char *buf,
                             size_t cap)
{
        const char *where = reason == S3_AUTH_WRONG_REGION ? "The authorization header is malformed"
                                                           : "Error parsing the X-Amz-Credential parameter";

        if (cap == 0)
                return s3_auth_message(reason);
        if (reason == S3_AUTH_Q_WRONG_SCOPE_DATE) {
                snprintf(buf, cap, "Invalid credential date \"%s\". This date is not the same as X-Amz-Date: \"%.8s\".",
                         auth->scope_date, auth->amz_date);
                return buf;
        }
        if (!s3_auth_wants_region(reason))
                return describe_fault(reason, auth->fault, buf, cap);
        snprintf(buf, cap, "%s; the region '%s' is wrong; expecting '%s'", where, auth->region, region);
        return buf;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void hmac_text(const uint8_t *key, size_t key_len, const char *text, uint8_t out[S3_SHA256_LEN])
{
        s3_hmac_sha256(key, key_len, text, strlen(text), out);
}

void s3_signing_key_derive(struct s3_str secret, const char *scope_date, const char *region, const char *service,
                           struct s3_signing_key *out)
{
        uint8_t start[256 + 4] = "AWS4", hash[S3_SHA256_LEN];
        size_t len = secret.len < 256 ? secret.len : 256;

        /*
         * Secrets longer than that do not exist (the gateway's limit is 128); cutting one would
         * only make it not match.
         */
        if (len > 0)
                memcpy(start + 4, secret.data, len);
        hmac_text(start, 4 + len, scope_date, hash);
        hmac_text(hash, sizeof(hash), region, hash);
        hmac_text(hash, sizeof(hash), service, hash);
        hmac_text(hash, sizeof(hash), "aws4_request", out->bytes);
        OPENSSL_cleanse(start, sizeof(start));
        OPENSSL_cleanse(hash, sizeof(hash));
}

/* ---- signatures ------------------------------------------------------------------------------ */

/* Appends to a text that ends in NUL and is known to fit. */
static char *append(char *at, const char *text)
{
        size_t len = strlen(text);

        memcpy(at, text, len + 1);
        return at + len;
}

size_t s3_scope_format(const struct s3_auth *auth, char out[S3_SCOPE_SIZE])
{
        char *p = append(out, auth->scope_date);

        p = append(p, "/");
        p = append(p, auth->region);
        p = append(p, "/");
        p = append(p, auth->service);
        p = append(p, "/aws4_request");
        return (size_t)(p - out);
}

int s3_canonical_request(const struct s3_request *request, const struct s3_auth *auth, char *out, size_t cap)
{
        struct s3_sink sink = {.out = out, .cap = cap > 0 ? cap - 1 : 0};
        int rv = s3_canonical_emit(request, auth, &sink);

        if (rv != 0)
                return rv;
        if (sink.overflow || cap == 0)
                return -ENOBUFS;
        out[sink.len] = '\0';
        return (int)sink.len;
}

/* Every request comes here, so it is put together without printf. */
#define ALGORITHM "AWS4-HMAC-SHA256\n"
#define TEXT_SIZE (sizeof(ALGORITHM) + S3_DATE_AMZ_SIZE + S3_SCOPE_SIZE + 2 * S3_SHA256_LEN)

int s3_string_to_sign(const struct s3_request *request, const struct s3_auth *auth, char *out, size_t cap)
{
        uint8_t digest[S3_SHA256_LEN];
        char text[TEXT_SIZE], *p = text;
        SHA256_CTX hash;
        struct s3_sink sink;
        int rv;

        sink.hash = &hash;
        sink.pending = 0;
        SHA256_Init(&hash);
        rv = s3_canonical_emit(request, auth, &sink);
        if (rv != 0)
                return rv;
        SHA256_Final(digest, &hash);
        p = append(p, ALGORITHM);
        p = append(p, auth->amz_date);
        p = append(p, "\n");
        p += s3_scope_format(auth, p);
        p = append(p, "\n");
        s3_hex_encode(digest, sizeof(digest), p);
        p += 2 * S3_SHA256_LEN;
        if ((size_t)(p - text) >= cap)
                return -ENOBUFS;
        memcpy(out, text, (size_t)(p - text) + 1);
        return (int)(p - text);
}

int s3_auth_signature(const struct s3_request *request, const struct s3_auth *auth, const struct s3_signing_key *key,
                      char out[S3_SIGNATURE_LEN + 1])
{
        char text[TEXT_SIZE];
        uint8_t mac[S3_SHA256_LEN];
        int n = s3_string_to_sign(request, auth, text, sizeof(text));

        if (n < 0)
                return n;
        s3_hmac_sha256(key->bytes, sizeof(key->bytes), text, (size_t)n, mac);
        s3_hex_encode(mac, sizeof(mac), out);
        return 0;
}

/* ---- chunk signatures ------------------------------------------------------------------------ */

void s3_chunk_chain_of_auth(struct s3_chunk_chain *chain, const struct s3_auth *auth, const struct s3_signing_key *key)
{
        _Static_assert(sizeof(chain->scope) >= S3_SCOPE_SIZE, "a scope fits");
        chain->key = *key;
        memcpy(chain->amz_date, auth->amz_date, sizeof(chain->amz_date));
        s3_scope_format(auth, chain->scope);
        memcpy(chain->previous, auth->signature, sizeof(chain->previous));
}

int s3_chunk_chain_of_signer(struct s3_chunk_chain *chain, const struct s3_signer *signer, int64_t time_ms,
                             const char seed[S3_SIGNATURE_LEN + 1])
{
        int n;

        chain->key = signer->key;
        s3_date_format_amz(time_ms, chain->amz_date);
        n = snprintf(chain->scope, sizeof(chain->scope), "%.8s/%s/%s/aws4_request", chain->amz_date, signer->region,
                     signer->service);
        if (n < 0 || (size_t)n >= sizeof(chain->scope) || strlen(seed) != S3_SIGNATURE_LEN)
                return -EINVAL;
        memcpy(chain->previous, seed, sizeof(chain->previous));
        return 0;
}

/*
 * Signs "algorithm\ndate\nscope\nprevious\n[empty\n]hash" and makes the result the new previous
 * signature.
 */
static void chain_sign(struct s3_chunk_chain *chain, const char *algorithm, const char *empty,
                       const uint8_t sha256[S3_SHA256_LEN])
{
        char hex[2 * S3_SHA256_LEN + 1], text[512];
        uint8_t mac[S3_SHA256_LEN];
        int n;

        s3_hex_encode(sha256, S3_SHA256_LEN, hex);
        n = snprintf(text, sizeof(text), "%s\n%s\n%s\n%s\n%s%s", algorithm, chain->amz_date, chain->scope,
                     chain->previous, empty, hex);
        s3_hmac_sha256(chain->key.bytes, sizeof(chain->key.bytes), text, (size_t)n, mac);
        s3_hex_encode(mac, sizeof(mac), chain->previous);
}

void s3_chunk_sign(struct s3_chunk_chain *chain, const uint8_t sha256[S3_SHA256_LEN])
{
        chain_sign(chain, "AWS4-HMAC-SHA256-PAYLOAD", S3_EMPTY_SHA256 "\n", sha256);
}

void s3_trailer_sign(struct s3_chunk_chain *chain, const uint8_t sha256[S3_SHA256_LEN])
{
        chain_sign(chain, "AWS4-HMAC-SHA256-TRAILER", "", sha256);
}
