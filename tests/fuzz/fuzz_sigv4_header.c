/*
 * fuzz_sigv4_header.c - any Authorization header, query and headers through parsing and verifying.
 * The input is lines: the target, then header lines. Nothing may verify, since nobody can guess the
 * secret; what parses has bounded, terminated fields.
 */
#include <assert.h>
#include <stdlib.h>

#include "s3.h"

#define HEADERS_MAX 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct s3_str take_line(struct s3_str *rest)
{
        const char *end = rest->len > 0 ? memchr(rest->data, '\n', rest->len) : NULL;
        struct s3_str line = {rest->data, end != NULL ? (size_t)(end - rest->data) : rest->len};
        size_t used = line.len + (end != NULL);

        rest->data += used;
        rest->len -= used;
        return line;
}

static size_t take_headers(struct s3_str rest, struct s3_header *headers)
{
        size_t count = 0;

        while (rest.len > 0 && count < HEADERS_MAX) {
                struct s3_str line = take_line(&rest);
                const char *colon = line.len > 0 ? memchr(line.data, ':', line.len) : NULL;

                if (colon == NULL)
                        continue;
                headers[count].name = (struct s3_str){line.data, (size_t)(colon - line.data)};
                headers[count++].value = (struct s3_str){colon + 1, line.len - (size_t)(colon - line.data) - 1};
        }
        return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct s3_str rest = {(const char *)data, size};
        struct s3_header headers[HEADERS_MAX];
        struct s3_target target;
        struct s3_request request;
        struct s3_auth auth;
        struct s3_signing_key key;
        char text[256];

        if (s3_target_split(take_line(&rest), &target) != S3_OK)
                return 0;
        request = (struct s3_request){S3_STR("GET"), target.path, target.query, headers, take_headers(rest, headers)};
        if (s3_auth_parse(&request, &auth) != S3_AUTH_OK || auth.kind == S3_AUTH_ANONYMOUS)
                return 0;
        assert(strlen(auth.access_key) <= S3_ACCESS_KEY_MAX && strlen(auth.region) <= S3_REGION_MAX);
        assert(strlen(auth.signature) == 0 || strlen(auth.signature) == S3_SIGNATURE_LEN);
        assert(strlen(auth.signed_headers) < sizeof(auth.signed_headers));
        s3_signing_key_derive(S3_STR("a secret nobody guesses"), auth.scope_date, auth.region, auth.service, &key);
        assert(s3_auth_verify(&request, &auth, &key, "us-east-1", auth.time_ms) != S3_AUTH_OK);
        s3_canonical_request(&request, &auth, text, sizeof(text));
        return 0;
}
