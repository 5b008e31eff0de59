/*
 * fuzz_jwt.c - any bytes as a token of OpenID Connect, and as a set of keys. What is read keeps its bounds, and
 * nobody has signed it.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/sts/jwt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char set_text[] = "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"a\","
                               "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";

static void check_token(struct s3_str text, const struct gw_jwks *keys)
{
        static const char *const audiences[] = {"a"};
        struct gw_jwt jwt;

        if (gw_jwt_parse(text, &jwt) == GW_JWT_OK) {
                assert(gw_jwt_verify(&jwt, keys) != GW_JWT_OK);
                if (gw_jwt_check(&jwt, jwt.issuer, audiences, 1, 1000) == GW_JWT_OK)
                        assert(*jwt.subject != '\0' && strcmp(jwt.audience, "a") == 0);
        }
        gw_jwt_free(&jwt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *exact = malloc(size > 0 ? size : 1);
        struct gw_jwks *keys, *given;

        if (exact == NULL || gw_jwks_parse(s3_str_of(set_text), &keys) != 0)
                abort();
        if (size > 0)
                memcpy(exact, data, size);
        check_token((struct s3_str){exact, size}, keys);
        if (gw_jwks_parse((struct s3_str){exact, size}, &given) == 0)
                gw_jwks_put(given);
        gw_jwks_put(keys);
        free(exact);
        return 0;
}
