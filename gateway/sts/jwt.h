/*
 * jwt.h - tokens of OpenID Connect (RFC 7519), and sets of keys (RFC 7517). Rules J4 to J7 in docs/design/sts.md.
 * Pure; any thread.
 */
#ifndef GATEWAY_STS_JWT_H
#define GATEWAY_STS_JWT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "s3_json.h"

#define GW_JWT_MAX       20000u
#define GW_JWT_KEYS_MAX  64u           /* of a set; others do not count */
#define GW_JWT_SKEW_S    300           /* that an issuer's clock may be ahead */
#define GW_JWT_CLAIM_MAX 255u          /* bytes of sub and of an audience */
#define GW_JWKS_MAX      (256u << 10)  /* bytes of a set of keys */

/* A set of keys; constant, counted. */
struct gw_jwks;
/* -EBADMSG: no set of keys; -ENOMEM. Keys that are not good for signatures are left out. */
int gw_jwks_parse(struct s3_str text, struct gw_jwks **out);
struct gw_jwks *gw_jwks_get(struct gw_jwks *keys);
void gw_jwks_put(struct gw_jwks *keys); /* NULL is allowed */

enum gw_jwt_fault {
        GW_JWT_OK,
        GW_JWT_MALFORMED,
        GW_JWT_ALGORITHM,
        GW_JWT_NO_KEY, /* the set has no key of this name for this algorithm */
        GW_JWT_SIGNATURE,
        GW_JWT_ISSUER,
        GW_JWT_AUDIENCE,
        GW_JWT_CLAIM, /* one that must be there is not, or is no text or time */
        GW_JWT_EARLY,
        GW_JWT_EXPIRED,
        GW_JWT_NO_MEMORY,
        GW_JWT_FAULTS
};
const char *gw_jwt_message(enum gw_jwt_fault fault);

/* What a token says. Strings live as long as it does. */
struct gw_jwt {
        json_t *header, *claims;
        struct s3_str signed_text;
        uint8_t signature[1024];
        size_t signature_len;
        const char *algorithm, *key, *issuer;
        const char *subject, *audience; /* once gw_jwt_check() was content */
};
/* Splits and reads it; text must stay. Free with gw_jwt_free() in any case. MALFORMED, CLAIM, ALGORITHM, NO_MEMORY. */
enum gw_jwt_fault gw_jwt_parse(struct s3_str text, struct gw_jwt *out);
void gw_jwt_free(struct gw_jwt *jwt);
/* NO_KEY, SIGNATURE, NO_MEMORY. */
enum gw_jwt_fault gw_jwt_verify(const struct gw_jwt *jwt, const struct gw_jwks *keys);
/* Of a verified one: ISSUER, AUDIENCE, CLAIM, EARLY, EXPIRED. Fills subject and audience. */
enum gw_jwt_fault gw_jwt_check(struct gw_jwt *jwt, const char *issuer, const char *const *audiences, unsigned count,
                               int64_t now_s);
/* A JSON object of this text, not deeper than 8 and without a member twice. NULL, and errno: EBADMSG, ENOMEM. */
json_t *gw_jwt_object(struct s3_str text);

#endif
