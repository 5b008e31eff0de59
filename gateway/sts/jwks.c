/*
 * jwks.c - sets of keys, and signatures by them (rule J4). A key is good for the algorithms of its type alone, so
 * no token can choose what its signature is checked with.
 */
#include "gateway/sts/jwks.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/sts/base64url.h"
#include "gateway/sts/jwt.h"

#define RSA_LEAST 256u /* bytes of a modulus */
#define RSA_MOST  1024u
#define NAME_MOST 256u /* bytes of a kid */

enum key_type { KEY_RSA, KEY_P256, KEY_P384, KEY_ED25519 };

static const struct jwk_algorithm {
        const char *name;
        enum key_type type;
        const char *digest;
        bool pss;
        size_t half; /* bytes of each number of a signature by elliptic curves */
} jwk_algorithms[] = {
        {"RS256", KEY_RSA, "SHA256", false, 0}, {"RS384", KEY_RSA, "SHA384", false, 0},
        {"RS512", KEY_RSA, "SHA512", false, 0}, {"PS256", KEY_RSA, "SHA256", true, 0},
        {"PS384", KEY_RSA, "SHA384", true, 0},  {"PS512", KEY_RSA, "SHA512", true, 0},
        {"ES256", KEY_P256, "SHA256", false, 32}, {"ES384", KEY_P384, "SHA384", false, 48},
        {"EdDSA", KEY_ED25519, NULL, false, 0},
};

static const struct {
        const char *kty, *crv, *group;
        enum key_type type;
        size_t half;
} jwk_curves[] = {
        {"EC", "P-256", "P-256", KEY_P256, 32},
        {"EC", "P-384", "P-384", KEY_P384, 48},
        {"OKP", "Ed25519", NULL, KEY_ED25519, 32},
};

struct jwk {
        char *name;
        char *algorithm; /* NULL: any of its type */
        enum key_type type;
        EVP_PKEY *key;
};

struct gw_jwks {
        atomic_uint references;
        unsigned count;
        struct jwk list[GW_JWT_KEYS_MAX];
};

static const struct jwk_algorithm *jwk_algorithm_find(const char *name)
{
        for (size_t i = 0; i < sizeof(jwk_algorithms) / sizeof(jwk_algorithms[0]); i++)
                if (strcmp(jwk_algorithms[i].name, name) == 0)
                        return &jwk_algorithms[i];
        return NULL;
}

bool gw_jwk_algorithm_known(const char *algorithm)
{
        return jwk_algorithm_find(algorithm) != NULL;
}

/* ---- one key --------------------------------------------------------------------------------- */

/* Bytes of a member; 0: there are none, or too many. */
static size_t jwk_bytes(const json_t *json, const char *name, uint8_t *out, size_t cap)
{
        const char *text = json_string_value(json_object_get(json, name));
        int len = text != NULL ? gw_base64url_decode(s3_str_of(text), out, cap) : 0;

        return len > 0 ? (size_t)len : 0;
}

static EVP_PKEY *key_of_params(const char *type, OSSL_PARAM_BLD *build)
{
        OSSL_PARAM *params = build != NULL ? OSSL_PARAM_BLD_to_param(build) : NULL;
        EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
        EVP_PKEY *key = NULL;

        if (params == NULL || ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
            EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
                key = NULL;
        EVP_PKEY_CTX_free(ctx);
        OSSL_PARAM_free(params);
        OSSL_PARAM_BLD_free(build);
        return key;
}

static EVP_PKEY *key_of_rsa(const json_t *json)
{
        uint8_t n[RSA_MOST], e[4];
        size_t n_len = jwk_bytes(json, "n", n, sizeof(n)), e_len = jwk_bytes(json, "e", e, sizeof(e));
        BIGNUM *modulus, *exponent;
        OSSL_PARAM_BLD *build;
        EVP_PKEY *key = NULL;

        if (n_len < RSA_LEAST || n[0] < 0x80 || (n[n_len - 1] & 1) == 0 || e_len == 0 || (e[e_len - 1] & 1) == 0 ||
            (e_len == 1 && e[0] < 3))
                return NULL;
        modulus = BN_bin2bn(n, (int)n_len, NULL);
        exponent = BN_bin2bn(e, (int)e_len, NULL);
        build = OSSL_PARAM_BLD_new();
        if (modulus != NULL && exponent != NULL && build != NULL &&
            OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
            OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, exponent) == 1) {
                key = key_of_params("RSA", build);
                build = NULL;
        }
        OSSL_PARAM_BLD_free(build);
        BN_free(modulus);
        BN_free(exponent);
        return key;
}

/* OpenSSL looks whether the point is on the curve. */
static EVP_PKEY *key_of_curve(const json_t *json, const char *group, size_t half)
{
        uint8_t point[1 + 2 * 48] = {POINT_CONVERSION_UNCOMPRESSED};
        OSSL_PARAM_BLD *build;

        if (jwk_bytes(json, "x", point + 1, half) != half)
                return NULL;
        if (group == NULL)
                return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, point + 1, half);
        if (jwk_bytes(json, "y", point + 1 + half, half) != half)
                return NULL;
        build = OSSL_PARAM_BLD_new();
        if (build != NULL && OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, group, 0) == 1 &&
            OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * half) == 1)
                return key_of_params("EC", build);
        OSSL_PARAM_BLD_free(build);
        return NULL;
}

static EVP_PKEY *jwk_make(const json_t *json, enum key_type *type)
{
        const char *kty = json_string_value(json_object_get(json, "kty")),
                   *crv = json_string_value(json_object_get(json, "crv"));

        *type = KEY_RSA;
        if (kty != NULL && strcmp(kty, "RSA") == 0)
                return key_of_rsa(json);
        for (size_t i = 0; kty != NULL && crv != NULL && i < sizeof(jwk_curves) / sizeof(jwk_curves[0]); i++)
                if (strcmp(jwk_curves[i].kty, kty) == 0 && strcmp(jwk_curves[i].crv, crv) == 0) {
                        *type = jwk_curves[i].type;
                        return key_of_curve(json, jwk_curves[i].group, jwk_curves[i].half);
                }
        return NULL;
}

/* What it says it is good for includes signatures. */
static bool jwk_is_for_signatures(const json_t *json)
{
        const json_t *use = json_object_get(json, "use"), *ops = json_object_get(json, "key_ops");
        bool verifies = ops == NULL;

        for (size_t i = 0; i < json_array_size(ops); i++) {
                const char *op = json_string_value(json_array_get(ops, i));

                verifies |= op != NULL && strcmp(op, "verify") == 0;
        }
        return verifies && (use == NULL || (json_is_string(use) && strcmp(json_string_value(use), "sig") == 0));
}

static bool jwks_has_name(const struct gw_jwks *keys, const char *name)
{
        for (unsigned i = 0; i < keys->count; i++)
                if (strcmp(keys->list[i].name, name) == 0)
                        return true;
        return false;
}

/* A second one of a name takes the first one away, too. */
static void jwks_spoil(struct gw_jwks *keys, const char *name)
{
        for (unsigned i = 0; i < keys->count; i++)
                if (strcmp(keys->list[i].name, name) == 0) {
                        EVP_PKEY_free(keys->list[i].key);
                        keys->list[i].key = NULL;
                }
}

static int jwks_add(struct gw_jwks *keys, const json_t *json)
{
        const char *name = json_string_value(json_object_get(json, "kid"));
        const json_t *algorithm = json_object_get(json, "alg");
        struct jwk *made = &keys->list[keys->count];

        if (name == NULL || strlen(name) > NAME_MOST || (algorithm != NULL && !json_is_string(algorithm)))
                return 0;
        if (jwks_has_name(keys, name)) {
                jwks_spoil(keys, name);
                return 0;
        }
        made->key = jwk_is_for_signatures(json) ? jwk_make(json, &made->type) : NULL;
        made->name = strdup(name);
        made->algorithm = algorithm != NULL ? strdup(json_string_value(algorithm)) : NULL;
        keys->count++;
        return made->name != NULL && (algorithm == NULL || made->algorithm != NULL) ? 0 : -ENOMEM;
}

/* ---- a set ----------------------------------------------------------------------------------- */

int gw_jwks_parse(struct s3_str text, struct gw_jwks **out)
{
        json_t *json = text.len <= GW_JWKS_MAX ? gw_jwt_object(text) : NULL;
        const json_t *list = json_object_get(json, "keys");
        struct gw_jwks *keys;
        int rv = 0;

        if (json == NULL && text.len <= GW_JWKS_MAX && errno == ENOMEM)
                return -ENOMEM;
        if (!json_is_array(list)) {
                json_decref(json);
                return -EBADMSG;
        }
        keys = calloc(1, sizeof(*keys));
        if (keys == NULL) {
                json_decref(json);
                return -ENOMEM;
        }
        atomic_init(&keys->references, 1);
        for (size_t i = 0; rv == 0 && i < json_array_size(list) && keys->count < GW_JWT_KEYS_MAX; i++)
                rv = jwks_add(keys, json_array_get(list, i));
        json_decref(json);
        if (rv == 0)
                *out = keys;
        else
                gw_jwks_put(keys);
        return rv;
}

struct gw_jwks *gw_jwks_get(struct gw_jwks *keys)
{
        atomic_fetch_add(&keys->references, 1);
        return keys;
}

void gw_jwks_put(struct gw_jwks *keys)
{
        if (keys == NULL || atomic_fetch_sub(&keys->references, 1) != 1)
                return;
        for (unsigned i = 0; i < keys->count; i++) {
                EVP_PKEY_free(keys->list[i].key);
                free(keys->list[i].name);
                free(keys->list[i].algorithm);
        }
        free(keys);
}

/* ---- signatures ------------------------------------------------------------------------------ */

/* The two numbers of a signature by elliptic curves as OpenSSL wants them. The length; 0: no memory. */
static size_t signature_der(const uint8_t *raw, size_t half, uint8_t *out, size_t cap)
{
        ECDSA_SIG *sig = ECDSA_SIG_new();
        BIGNUM *r = BN_bin2bn(raw, (int)half, NULL), *s = BN_bin2bn(raw + half, (int)half, NULL);
        uint8_t *at = out;
        int len = 0;

        if (sig != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(sig, r, s) == 1) {
                r = s = NULL;
                len = i2d_ECDSA_SIG(sig, NULL);
                len = len > 0 && (size_t)len <= cap ? i2d_ECDSA_SIG(sig, &at) : 0;
        }
        BN_free(r);
        BN_free(s);
        ECDSA_SIG_free(sig);
        return len > 0 ? (size_t)len : 0;
}

static bool jwk_verifies(const struct gw_jwt *jwt, const struct jwk_algorithm *algorithm, EVP_PKEY *key)
{
        const uint8_t *signature = jwt->signature;
        size_t len = jwt->signature_len;
        EVP_PKEY_CTX *ctx = NULL;
        EVP_MD_CTX *md;
        uint8_t der[128];
        bool good;

        if (algorithm->half > 0) {
                if (len != 2 * algorithm->half)
                        return false;
                len = signature_der(signature, algorithm->half, der, sizeof(der));
                signature = der;
        }
        md = len > 0 ? EVP_MD_CTX_new() : NULL;
        good = md != NULL && EVP_DigestVerifyInit_ex(md, &ctx, algorithm->digest, NULL, NULL, key, NULL) == 1;
        if (good && algorithm->pss)
                good = EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) == 1 &&
                       EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) == 1;
        good = good && EVP_DigestVerify(md, signature, len, (const uint8_t *)jwt->signed_text.data,
                                        jwt->signed_text.len) == 1;
        EVP_MD_CTX_free(md);
        return good;
}

enum gw_jwt_fault gw_jwt_verify(const struct gw_jwt *jwt, const struct gw_jwks *keys)
{
        const struct jwk_algorithm *algorithm = jwk_algorithm_find(jwt->algorithm);

        for (unsigned i = 0; algorithm != NULL && i < keys->count; i++) {
                const struct jwk *one = &keys->list[i];

                if (one->key == NULL || strcmp(one->name, jwt->key) != 0 || one->type != algorithm->type ||
                    (one->algorithm != NULL && strcmp(one->algorithm, algorithm->name) != 0))
                        continue;
                return jwk_verifies(jwt, algorithm, one->key) ? GW_JWT_OK : GW_JWT_SIGNATURE;
        }
        return GW_JWT_NO_KEY;
}
