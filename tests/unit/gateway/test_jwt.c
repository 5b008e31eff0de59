/*
 * gateway/sts/jwt.c, jwks.c: a token counts if the issuer has signed it, for us, for now; and each way to forge one
 * is refused: by algorithm, by key, by claims, by what it looks like.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/sts/base64url.h"
#include "gateway/sts/jwt.h"
#include "s3.h"

#define ISSUER "https://id.example.com"
#define NOW    1000000
#define CLAIMS "{\"iss\":\"" ISSUER "\",\"sub\":\"job\",\"aud\":\"store\",\"iat\":999990,\"exp\":1000100}"
#define HEADER(alg, kid) "{\"alg\":\"" alg "\",\"kid\":\"" kid "\",\"typ\":\"JWT\"}"

static EVP_PKEY *rsa, *p256, *p384, *ed, *short_rsa;
static const char *const audiences[] = {"store", "other"};
static char token[GW_JWT_MAX + 64], set_text[16384];
static struct gw_jwks *set;

/* ---- making ---------------------------------------------------------------------------------- */

static void add_part(const void *bytes, size_t len)
{
        s3_base64url_encode(bytes, len, token + strlen(token));
}

/* The signature of what there is of the token. digest NULL: of the text itself (EdDSA). half: of curves. */
static void add_signature(EVP_PKEY *key, const char *digest, bool pss, size_t half)
{
        EVP_MD_CTX *md = EVP_MD_CTX_new();
        uint8_t sig[1024], raw[96];
        size_t len = sizeof(sig), text = strlen(token);
        EVP_PKEY_CTX *ctx;

        assert_int_equal(EVP_DigestSignInit_ex(md, &ctx, digest, NULL, NULL, key, NULL), 1);
        if (pss) {
                assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING), 1);
                assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST), 1);
        }
        assert_int_equal(EVP_DigestSign(md, sig, &len, (uint8_t *)token, text), 1);
        strcat(token, ".");
        if (half > 0) {
                const uint8_t *at = sig;
                ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &at, (long)len);

                BN_bn2binpad(ECDSA_SIG_get0_r(pair), raw, (int)half);
                BN_bn2binpad(ECDSA_SIG_get0_s(pair), raw + half, (int)half);
                ECDSA_SIG_free(pair);
                add_part(raw, 2 * half);
        } else {
                add_part(sig, len);
        }
        EVP_MD_CTX_free(md);
}

static void begin(const char *header, const char *claims)
{
        token[0] = '\0';
        add_part(header, strlen(header));
        strcat(token, ".");
        add_part(claims, strlen(claims));
}

static void sign_rs(const char *header, const char *claims)
{
        begin(header, claims);
        add_signature(rsa, "SHA256", false, 0);
}

static void print_number(EVP_PKEY *key, const char *param, const char *name)
{
        uint8_t bytes[1024];
        BIGNUM *n = NULL;
        char text[2048];

        assert_int_equal(EVP_PKEY_get_bn_param(key, param, &n), 1);
        s3_base64url_encode(bytes, (size_t)BN_bn2bin(n, bytes), text);
        BN_free(n);
        sprintf(set_text + strlen(set_text), ",\"%s\":\"%s\"", name, text);
}

static void add_rsa(EVP_PKEY *key, const char *kid, const char *more)
{
        sprintf(set_text + strlen(set_text), "%s{\"kty\":\"RSA\",\"kid\":\"%s\"%s", strchr(set_text, '}') ? "," : "", kid, more);
        print_number(key, "n", "n");
        print_number(key, "e", "e");
        strcat(set_text, "}");
}

static void add_point(EVP_PKEY *key, const char *crv, const char *kid, size_t half)
{
        uint8_t point[128];
        size_t len;
        char x[128], y[128];

        assert_int_equal(EVP_PKEY_get_octet_string_param(key, "pub", point, sizeof(point), &len), 1);
        if (half > 0) {
                s3_base64url_encode(point + 1, half, x);
                s3_base64url_encode(point + 1 + half, half, y);
        } else {
                s3_base64url_encode(point, len, x);
                y[0] = '\0';
        }
        sprintf(set_text + strlen(set_text), "%s{\"kty\":\"%s\",\"crv\":\"%s\",\"kid\":\"%s\",\"x\":\"%s\",\"y\":\"%s\"}",
                strchr(set_text, '}') ? "," : "", half > 0 ? "EC" : "OKP", crv, kid, x, y);
}

static void take_set(void)
{
        strcat(set_text, "]}");
        gw_jwks_put(set);
        set = NULL;
        assert_int_equal(gw_jwks_parse(s3_str_of(set_text), &set), 0);
}

static int make_keys(void **state)
{
        rsa = EVP_RSA_gen(2048);
        short_rsa = EVP_RSA_gen(1024);
        p256 = EVP_EC_gen("P-256");
        p384 = EVP_EC_gen("P-384");
        ed = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
        EVP_PKEY_set_utf8_string_param(p256, "point-format", "uncompressed");
        EVP_PKEY_set_utf8_string_param(p384, "point-format", "uncompressed");
        strcpy(set_text, "{\"keys\":[");
        add_rsa(rsa, "r", "");
        add_rsa(rsa, "only256", ",\"alg\":\"RS256\",\"use\":\"sig\"");
        add_rsa(rsa, "secret", ",\"use\":\"enc\"");
        add_rsa(rsa, "ops", ",\"key_ops\":[\"encrypt\"]");
        add_rsa(rsa, "twice", "");
        add_rsa(short_rsa, "twice", "");
        add_rsa(short_rsa, "short", "");
        add_point(p256, "P-256", "e2", 32);
        add_point(p256, "P-384", "lies", 32);
        add_point(p384, "P-384", "e3", 48);
        add_point(ed, "Ed25519", "ed", 0);
        strcat(set_text, ",{\"kty\":\"oct\",\"kid\":\"oct\",\"k\":\"AAAA\"},7,{},{\"kid\":\"none\"}");
        take_set();
        return 0;
}

static int free_keys(void **state)
{
        EVP_PKEY_free(rsa);
        EVP_PKEY_free(short_rsa);
        EVP_PKEY_free(p256);
        EVP_PKEY_free(p384);
        EVP_PKEY_free(ed);
        gw_jwks_put(set);
        return 0;
}

/* All that the server does, of what there is in memory of the exact size. */
static enum gw_jwt_fault judge_text(const char *text, size_t len)
{
        char *exact = malloc(len > 0 ? len : 1);
        enum gw_jwt_fault fault;
        struct gw_jwt jwt;

        memcpy(exact, text, len);
        fault = gw_jwt_parse((struct s3_str){exact, len}, &jwt);
        if (fault == GW_JWT_OK)
                fault = gw_jwt_verify(&jwt, set);
        if (fault == GW_JWT_OK)
                fault = gw_jwt_check(&jwt, ISSUER, audiences, 2, NOW);
        if (fault == GW_JWT_OK) {
                assert_string_equal(jwt.subject, "job");
                assert_true(strcmp(jwt.audience, "store") == 0 || strcmp(jwt.audience, "other") == 0);
        }
        gw_jwt_free(&jwt);
        free(exact);
        return fault;
}

static enum gw_jwt_fault judge(void)
{
        return judge_text(token, strlen(token));
}

/* ---- algorithms ------------------------------------------------------------------------------ */

static void each_algorithm_verifies(void **state)
{
        static const struct {
                const char *header, *digest;
                EVP_PKEY **key;
                bool pss;
                size_t half;
        } all[] = {
                {HEADER("RS256", "r"), "SHA256", &rsa, false, 0},  {HEADER("RS384", "r"), "SHA384", &rsa, false, 0},
                {HEADER("RS512", "r"), "SHA512", &rsa, false, 0},  {HEADER("PS256", "r"), "SHA256", &rsa, true, 0},
                {HEADER("PS384", "r"), "SHA384", &rsa, true, 0},   {HEADER("PS512", "r"), "SHA512", &rsa, true, 0},
                {HEADER("ES256", "e2"), "SHA256", &p256, false, 32}, {HEADER("ES384", "e3"), "SHA384", &p384, false, 48},
                {HEADER("EdDSA", "ed"), NULL, &ed, false, 0},      {HEADER("RS256", "only256"), "SHA256", &rsa, false, 0},
        };

        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
                begin(all[i].header, CLAIMS);
                add_signature(*all[i].key, all[i].digest, all[i].pss, all[i].half);
                if (judge() != GW_JWT_OK)
                        fail_msg("%s: %d", all[i].header, judge());
                token[strlen(token) - 10] ^= 1;
                assert_int_not_equal(judge(), GW_JWT_OK);
        }
}

/* One signature in 128 has a number whose first byte is 0, which a JWT keeps and DER leaves out. */
static void numbers_with_leading_zeros_verify(void **state)
{
        const struct {
                const char *header, *digest;
                EVP_PKEY *key;
                size_t half;
        } curves[] = {{HEADER("ES256", "e2"), "SHA256", p256, 32}, {HEADER("ES384", "e3"), "SHA384", p384, 48}};

        for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++) {
                unsigned leading[2] = {0, 0};

                for (unsigned round = 0; round < 20000 && (leading[0] == 0 || leading[1] == 0); round++) {
                        struct gw_jwt jwt;

                        begin(curves[i].header, CLAIMS);
                        add_signature(curves[i].key, curves[i].digest, false, curves[i].half);
                        assert_int_equal(judge(), GW_JWT_OK);
                        assert_int_equal(gw_jwt_parse(s3_str_of(token), &jwt), GW_JWT_OK);
                        leading[0] += jwt.signature[0] == 0;
                        leading[1] += jwt.signature[curves[i].half] == 0;
                        gw_jwt_free(&jwt);
                }
                assert_true(leading[0] > 0 && leading[1] > 0);
        }
}

static void algorithms_are_not_the_tokens_choice(void **state)
{
        uint8_t mac[EVP_MAX_MD_SIZE];
        unsigned len = sizeof(mac);

        begin(HEADER("none", "r"), CLAIMS);
        strcat(token, ".");
        assert_int_equal(judge(), GW_JWT_MALFORMED); /* no signature at all */
        strcat(token, "AAAA");
        assert_int_equal(judge(), GW_JWT_ALGORITHM);
        begin(HEADER("HS256", "r"), CLAIMS); /* the public key as a shared secret */
        HMAC(EVP_sha256(), set_text, (int)strlen(set_text), (uint8_t *)token, strlen(token), mac, &len);
        strcat(token, ".");
        add_part(mac, len);
        assert_int_equal(judge(), GW_JWT_ALGORITHM);
        sign_rs(HEADER("rs256", "r"), CLAIMS);
        assert_int_equal(judge(), GW_JWT_ALGORITHM);
        sign_rs("{\"alg\":7,\"kid\":\"r\"}", CLAIMS);
        assert_int_equal(judge(), GW_JWT_ALGORITHM);
        sign_rs(HEADER("RS384", "r"), CLAIMS); /* signed with another digest */
        assert_int_equal(judge(), GW_JWT_SIGNATURE);
        sign_rs(HEADER("PS256", "r"), CLAIMS);
        assert_int_equal(judge(), GW_JWT_SIGNATURE);
}

static void keys_are_good_for_what_they_say(void **state)
{
        static const char *const headers[] = {
                HEADER("ES256", "r"), HEADER("RS256", "e2"), HEADER("RS256", "secret"), HEADER("RS256", "ops"),
                HEADER("RS256", "twice"), HEADER("RS256", "short"), HEADER("RS256", "oct"), HEADER("RS256", "none"),
                HEADER("RS256", "nobody"), HEADER("RS384", "only256"), HEADER("ES384", "lies"), HEADER("ES384", "e2"),
        };

        for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
                sign_rs(headers[i], CLAIMS);
                if (judge() != GW_JWT_NO_KEY)
                        fail_msg("%s: %d", headers[i], judge());
        }
        begin(HEADER("RS256", "short"), CLAIMS);
        add_signature(short_rsa, "SHA256", false, 0);
        assert_int_equal(judge(), GW_JWT_NO_KEY);
        begin(HEADER("RS256", "r"), CLAIMS);
        add_signature(short_rsa, "SHA256", false, 0);
        assert_int_equal(judge(), GW_JWT_SIGNATURE);
        sign_rs("{\"alg\":\"RS256\"}", CLAIMS);
        assert_int_equal(judge(), GW_JWT_MALFORMED); /* which key? */
        sign_rs("{\"alg\":\"RS256\",\"kid\":\"r\",\"crit\":[\"exp\"]}", CLAIMS);
        assert_int_equal(judge(), GW_JWT_MALFORMED);
}

/* ---- claims ---------------------------------------------------------------------------------- */

#define C(iss, sub, aud, iat, exp, more)                                                                               \
        "{\"iss\":" iss ",\"sub\":" sub ",\"aud\":" aud ",\"iat\":" iat ",\"exp\":" exp more "}"
#define I "\"" ISSUER "\""

static void claims_must_be_true(void **state)
{
        static const struct {
                const char *claims;
                enum gw_jwt_fault fault;
        } all[] = {
                {C(I, "\"job\"", "[\"x\",\"other\"]", "999990", "1000100.5", ""), GW_JWT_OK},
                {C(I, "\"job\"", "[\"x\"]", "999990", "1000100", ",\"azp\":\"other\""), GW_JWT_OK},
                {C(I, "\"job\"", "\"store\"", "999990", "1000100", ",\"azp\":\"x\""), GW_JWT_AUDIENCE},
                {C(I, "\"job\"", "\"store\"", "999990", "1000100", ",\"azp\":7"), GW_JWT_AUDIENCE},
                {C(I, "\"job\"", "\"stor\"", "999990", "1000100", ""), GW_JWT_AUDIENCE},
                {C(I, "\"job\"", "[]", "999990", "1000100", ""), GW_JWT_AUDIENCE},
                {C(I, "\"job\"", "{\"store\":1}", "999990", "1000100", ""), GW_JWT_AUDIENCE},
                {C(I, "\"job\"", "[7]", "999990", "1000100", ""), GW_JWT_AUDIENCE},
                {C("\"" ISSUER "/\"", "\"job\"", "\"store\"", "999990", "1000100", ""), GW_JWT_ISSUER},
                {C("\"https://evil.example.com\"", "\"job\"", "\"store\"", "999990", "1000100", ""), GW_JWT_ISSUER},
                {C("7", "\"job\"", "\"store\"", "999990", "1000100", ""), GW_JWT_CLAIM},
                {C(I, "\"\"", "\"store\"", "999990", "1000100", ""), GW_JWT_CLAIM},
                {C(I, "7", "\"store\"", "999990", "1000100", ""), GW_JWT_CLAIM},
                {C(I, "\"job\"", "\"store\"", "999990", "1000000", ""), GW_JWT_EXPIRED},
                {C(I, "\"job\"", "\"store\"", "999990", "1", ""), GW_JWT_EXPIRED},
                {C(I, "\"job\"", "\"store\"", "999990", "\"1000100\"", ""), GW_JWT_CLAIM},
                {C(I, "\"job\"", "\"store\"", "999990", "1e300", ""), GW_JWT_CLAIM},
                {C(I, "\"job\"", "\"store\"", "999990", "-1", ""), GW_JWT_CLAIM},
                {C(I, "\"job\"", "\"store\"", "999990", "null", ""), GW_JWT_CLAIM},
                {C(I, "\"job\"", "\"store\"", "1000300", "1000900", ""), GW_JWT_OK},
                {C(I, "\"job\"", "\"store\"", "1000301", "1000900", ""), GW_JWT_EARLY},
                {C(I, "\"job\"", "\"store\"", "999990", "1000900", ",\"nbf\":1000301"), GW_JWT_EARLY},
                {C(I, "\"job\"", "\"store\"", "999990", "1000900", ",\"nbf\":\"1\""), GW_JWT_CLAIM},
                {"{\"iss\":" I ",\"aud\":\"store\",\"iat\":1,\"exp\":1000100}", GW_JWT_CLAIM},
                {"{\"iss\":" I ",\"sub\":\"job\",\"iat\":1,\"exp\":1000100}", GW_JWT_CLAIM},
                {"{\"iss\":" I ",\"sub\":\"job\",\"aud\":\"store\",\"exp\":1000100}", GW_JWT_CLAIM},
                {"{\"iss\":" I ",\"sub\":\"job\",\"aud\":\"store\",\"iat\":1}", GW_JWT_CLAIM},
                {"{\"sub\":\"job\",\"aud\":\"store\",\"iat\":1,\"exp\":1000100}", GW_JWT_CLAIM},
                {C(I, "\"job\"", "\"store\"", "999990", "1000100", ",\"sub\":\"admin\""), GW_JWT_MALFORMED},
                {C(I, "\"j\\u0000b\"", "\"store\"", "999990", "1000100", ""), GW_JWT_MALFORMED},
                {"[]", GW_JWT_MALFORMED},
                {"{}x", GW_JWT_MALFORMED},
                {"", GW_JWT_MALFORMED},
        };

        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
                sign_rs(HEADER("RS256", "r"), all[i].claims);
                if (judge() != all[i].fault)
                        fail_msg("%s: %d, not %d", all[i].claims, judge(), all[i].fault);
                assert_string_equal(gw_jwt_message(GW_JWT_OK), "");
        }
}

static void long_and_deep_claims(void **state)
{
        static char claims[GW_JWT_MAX];

        strcpy(claims, "{\"a\":");
        memset(claims + 5, '[', 2000);
        memset(claims + 2005, ']', 2000);
        strcpy(claims + 4005, "}");
        sign_rs(HEADER("RS256", "r"), claims);
        assert_int_equal(judge(), GW_JWT_MALFORMED);
        memset(claims, ' ', 14600);
        memcpy(claims + 14600 - strlen(CLAIMS), CLAIMS, strlen(CLAIMS));
        claims[14600] = '\0';
        sign_rs(HEADER("RS256", "r"), claims);
        assert_true(strlen(token) < GW_JWT_MAX);
        assert_int_equal(judge(), GW_JWT_OK);
        assert_int_equal(judge_text(token, GW_JWT_MAX + 1), GW_JWT_MALFORMED);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void each_character_counts(void **state)
{
        size_t len;

        sign_rs(HEADER("RS256", "r"), CLAIMS);
        len = strlen(token);
        assert_int_equal(judge(), GW_JWT_OK);
        for (size_t i = 0; i < len; i++) {
                char was = token[i];

                token[i] = was == 'A' ? 'B' : 'A';
                assert_int_not_equal(judge(), GW_JWT_OK);
                token[i] = '=';
                assert_int_not_equal(judge(), GW_JWT_OK);
                token[i] = was;
                if (i % 7 == 0)
                        assert_int_not_equal(judge_text(token, i), GW_JWT_OK);
        }
        strcat(token, "A");
        assert_int_not_equal(judge(), GW_JWT_OK);
        token[len] = '\0';
        strcat(token, ".AAAA");
        assert_int_equal(judge(), GW_JWT_MALFORMED);
        assert_int_equal(judge_text("..", 2), GW_JWT_MALFORMED);
        assert_int_equal(judge_text("", 0), GW_JWT_MALFORMED);
        assert_int_equal(judge_text("a.b", 3), GW_JWT_MALFORMED);
}

static void sets_may_be_anything(void **state)
{
        static const char *const texts[] = {"", "[]", "{}", "{\"keys\":{}}", "{\"keys\":7}", "{\"keys\":[],\"keys\":[]}", "{\"keys\":[",
                                            "{\"keys\":[[[[[[[[[[[]]]]]]]]]]]}"};
        struct gw_jwks *got;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                assert_int_equal(gw_jwks_parse(s3_str_of(texts[i]), &got), -EBADMSG);
        assert_int_equal(gw_jwks_parse(S3_STR("{\"keys\":[null,1,\"a\",[],{\"kid\":1},{\"kid\":\"a\",\"kty\":\"RSA\",\"n\":\"AQ\",\"e\":\"AQAB\"}]}"), &got), 0);
        gw_jwks_put(gw_jwks_get(got));
        gw_jwks_put(got);
        gw_jwks_put(NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_algorithm_verifies),
                cmocka_unit_test(numbers_with_leading_zeros_verify),
                cmocka_unit_test(algorithms_are_not_the_tokens_choice),
                cmocka_unit_test(keys_are_good_for_what_they_say),
                cmocka_unit_test(claims_must_be_true),
                cmocka_unit_test(long_and_deep_claims),
                cmocka_unit_test(each_character_counts),
                cmocka_unit_test(sets_may_be_anything),
        };

        return cmocka_run_group_tests(tests, make_keys, free_keys);
}
