/*
 * admin_auth.c - who may make admin calls: whoever signs with the root credentials.
 *
 * Called on the admin thread when the whole request is there. The signature is AWS Signature Version 4 in headers,
 * service "s3", the same that the S3 side takes, so that every client library can make it. Presigned URLs are
 * refused: nothing here should be handed around. The body must hash to what was signed.
 */
#include "server/admin_private.h"

#include <openssl/evp.h>
#include <string.h>

static bool refuse(enum s3_auth_reason reason, const char **code, const char **message)
{
        enum s3_error error = s3_auth_error(reason);

        *code = s3_error_info(error)->code;
        *message = s3_auth_message(reason);
        return false;
}

static bool deny(const char *why, const char **code, const char **message)
{
        *code = "AccessDenied";
        *message = why;
        return false;
}

static bool body_matches(const struct admin_request *request, const struct s3_auth *auth)
{
        uint8_t hash[S3_SHA256_LEN];

        if (auth->payload == S3_PAYLOAD_UNSIGNED)
                return true;
        if (auth->payload != S3_PAYLOAD_SHA256)
                return false;
        if (EVP_Digest(request->body != NULL ? request->body : "", request->body_len, hash, NULL, EVP_sha256(), NULL) !=
            1)
                return false;
        return s3_equal_secret(hash, auth->payload_sha256, sizeof(hash));
}

static void signing_key(struct srv_admin *admin, const struct s3_auth *auth, bool *known, struct s3_signing_key *key)
{
        pthread_mutex_lock(&admin->lock);
        *known = strcmp(auth->access_key, admin->credentials.access_key) == 0;
        s3_signing_key_derive(s3_str_of(admin->credentials.secret_key), auth->scope_date, auth->region, auth->service,
                              key);
        pthread_mutex_unlock(&admin->lock);
}

bool srv_admin_authorised(const struct admin_request *request, const char **code, const char **message)
{
        struct s3_request signed_parts = {
                .method = s3_str_of(request->method),
                .path = request->parts.path,
                .query = request->parts.query,
                .headers = request->headers,
                .header_count = request->header_count,
        };
        struct s3_signing_key key;
        enum s3_auth_reason reason;
        struct s3_auth auth;
        bool known;

        if (request->too_many_headers)
                return refuse(S3_AUTH_TOO_LARGE, code, message);
        reason = s3_auth_parse(&signed_parts, &auth);
        if (reason != S3_AUTH_OK)
                return refuse(reason, code, message);
        if (auth.kind != S3_AUTH_HEADER)
                return deny("This call must be signed, in its headers, with the root credentials.", code, message);
        signing_key(request->admin, &auth, &known, &key);
        reason = s3_auth_verify(&signed_parts, &auth, &key, request->admin->region, lp_wall_ms());
        explicit_bzero(&key, sizeof(key));
        if (!known) {
                *code = s3_error_info(S3_ERR_INVALID_ACCESS_KEY_ID)->code;
                *message = s3_error_info(S3_ERR_INVALID_ACCESS_KEY_ID)->message;
                return false;
        }
        if (reason != S3_AUTH_OK)
                return refuse(reason, code, message);
        if (!body_matches(request, &auth))
                return deny("The body is not the one that was signed.", code, message);
        return true;
}
