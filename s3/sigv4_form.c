/*
 * Signatures of browsers' forms: over the text of the policy, by version 4 (HMAC-SHA256 by the
 * key of a day), or by version 2 (HMAC-SHA1 by the secret) where the caller allows it.
 */
#include "sigv4_internal.h" /* first: it includes OpenSSL its own way */

#include <openssl/evp.h>
#include <openssl/hmac.h>

enum s3_auth_reason s3_auth_parse_form(struct s3_str algorithm, struct s3_str credential, struct s3_str date,
                                       struct s3_str signature, struct s3_auth *out)
{
        uint8_t scratch[S3_SHA256_LEN];
        enum s3_auth_reason reason;

        *out = (struct s3_auth){.kind = S3_AUTH_QUERY, .payload = S3_PAYLOAD_UNSIGNED, .service = "s3"};
        if (s3_str_eq(algorithm, S3_STR("AWS4-ECDSA-P256-SHA256")))
                return S3_AUTH_SIGV4A;
        if (!s3_str_eq(algorithm, S3_STR("AWS4-HMAC-SHA256")))
                return S3_AUTH_Q_ALGORITHM;
        reason = s3_auth_credential(credential, out);
        if (reason != S3_AUTH_OK)
                return reason;
        if (s3_date_parse_amz(date, &out->time_ms) != 0)
                return S3_AUTH_Q_DATE;
        s3_date_format_amz(out->time_ms, out->amz_date);
        if (signature.len == S3_SIGNATURE_LEN && s3_hex_decode(signature, scratch, sizeof(scratch)) == 0)
                memcpy(out->signature, signature.data, S3_SIGNATURE_LEN); /* else empty, which matches nothing */
        return S3_AUTH_OK;
}

enum s3_auth_reason s3_auth_verify_form(const struct s3_auth *auth, const struct s3_signing_key *key,
                                        struct s3_str policy, const char *region)
{
        char expected[S3_SIGNATURE_LEN + 1];
        uint8_t mac[S3_SHA256_LEN];

        if (strcmp(auth->region, region) != 0)
                return S3_AUTH_Q_WRONG_REGION;
        if (memcmp(auth->scope_date, auth->amz_date, 8) != 0)
                return S3_AUTH_Q_WRONG_SCOPE_DATE;
        s3_hmac_sha256(key->bytes, sizeof(key->bytes), policy.data, policy.len, mac);
        s3_hex_encode(mac, sizeof(mac), expected);
        return s3_equal_secret(expected, auth->signature, S3_SIGNATURE_LEN) ? S3_AUTH_OK : S3_AUTH_MISMATCH;
}

enum s3_auth_reason s3_auth_verify_form_v2(struct s3_str secret, struct s3_str policy, struct s3_str signature)
{
        char expected[S3_BASE64_SIZE(EVP_MAX_MD_SIZE)];
        uint8_t mac[EVP_MAX_MD_SIZE];
        unsigned mac_len = 0;
        size_t len;

        if (HMAC(EVP_sha1(), secret.data, (int)secret.len, (const unsigned char *)policy.data, policy.len, mac,
                 &mac_len) == NULL)
                return S3_AUTH_MISMATCH;
        len = s3_base64_encode(mac, mac_len, expected);
        return signature.len == len && s3_equal_secret(expected, signature.data, len) ? S3_AUTH_OK : S3_AUTH_MISMATCH;
}
