/*
 * test_gcm.c - AES-128-GCM as OpenSSL fetches it here: the same bytes as its own, for messages of all
 * lengths in pieces of all lengths; nothing that was changed is believed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/provider.h>

#include "net/gcm.h"

#define TEXT_MOST 40000
#define TAG       16

static struct net_gcm library;
static EVP_CIPHER *ours, *theirs;
static unsigned seed;

static int begin(void **state)
{
        const char *text = getenv("SEED");

        seed = text != NULL ? (unsigned)strtoul(text, NULL, 0) : (unsigned)time(NULL);
        printf("SEED=%u\n", seed);
        srand(seed);
        assert_int_equal(net_gcm_begin(&library), 0);
        ours = EVP_CIPHER_fetch(library.context, "AES-128-GCM", NET_GCM_PROPERTIES);
        theirs = EVP_CIPHER_fetch(library.context, "AES-128-GCM", "provider=default");
        assert_non_null(ours);
        assert_non_null(theirs);
        return 0;
}

static int end(void **state)
{
        EVP_CIPHER_free(ours);
        EVP_CIPHER_free(theirs);
        net_gcm_end(&library);
        return 0;
}

static int below(int most)
{
        return rand() % most;
}

static void fill(uint8_t *bytes, int len)
{
        for (int i = 0; i < len; i++)
                bytes[i] = (uint8_t)rand();
}

struct message {
        uint8_t key[16], iv[12], aad[64], text[TEXT_MOST], tag[TAG];
        int aad_len, len;
};

/* In pieces, in place. 1: it went, and if it decrypts, the tag is right. */
static int run(EVP_CIPHER *cipher, EVP_CIPHER_CTX *context, struct message *m, int encrypts)
{
        int done = 0, out, piece;

        if (EVP_CipherInit_ex(context, cipher, NULL, m->key, m->iv, encrypts) != 1 ||
            (!encrypts && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, TAG, m->tag) != 1) ||
            (m->aad_len > 0 && EVP_CipherUpdate(context, NULL, &out, m->aad, m->aad_len) != 1))
                return 0;
        for (; done < m->len; done += piece) {
                piece = below(3) == 0 ? 1 + below(20) : 1 + below(m->len - done);
                piece = piece < m->len - done ? piece : m->len - done;
                if (EVP_CipherUpdate(context, m->text + done, &out, m->text + done, piece) != 1)
                        return 0;
                assert_int_equal(out, piece);
        }
        if (EVP_CipherFinal_ex(context, m->text + done, &out) != 1)
                return 0;
        assert_int_equal(out, 0);
        return !encrypts || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TAG, m->tag) == 1;
}

static void test_it_is_ours(void **state)
{
        const char *name = __builtin_cpu_supports("avx2") ? "millrace" : "default";

        assert_string_equal(OSSL_PROVIDER_get0_name(EVP_CIPHER_get0_provider(ours)), name);
        assert_int_equal(EVP_CIPHER_get_mode(ours), EVP_CIPH_GCM_MODE);
        assert_int_equal(EVP_CIPHER_get_key_length(ours), 16);
        assert_int_equal(EVP_CIPHER_get_iv_length(ours), 12);
        assert_int_equal(EVP_CIPHER_get_nid(ours), EVP_CIPHER_get_nid(theirs));
}

static void test_same_bytes(void **state)
{
        EVP_CIPHER_CTX *a = EVP_CIPHER_CTX_new(), *b = EVP_CIPHER_CTX_new();
        struct message *plain = malloc(sizeof(*plain)), *one = malloc(sizeof(*one)), *other = malloc(sizeof(*other));

        for (int n = 0; n < 600; n++) {
                fill((uint8_t *)plain, sizeof(*plain));
                plain->aad_len = below(65);
                plain->len = n < 100 ? n : n % 3 == 0 ? below(300) : below(TEXT_MOST);
                *one = *other = *plain;
                assert_int_equal(run(ours, a, one, 1), 1);
                assert_int_equal(run(theirs, b, other, 1), 1);
                assert_memory_equal(one->text, other->text, (size_t)plain->len);
                assert_memory_equal(one->tag, other->tag, TAG);
                assert_int_equal(run(ours, a, other, 0), 1);
                assert_memory_equal(other->text, plain->text, (size_t)plain->len);
        }
        free(plain);
        free(one);
        free(other);
        EVP_CIPHER_CTX_free(a);
        EVP_CIPHER_CTX_free(b);
}

static void test_changed(void **state)
{
        EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
        struct message *sealed = calloc(1, sizeof(*sealed)), *m = malloc(sizeof(*m));

        for (int n = 0; n < 400; n++) {
                fill((uint8_t *)sealed, sizeof(*sealed));
                sealed->aad_len = 5;
                sealed->len = 1 + below(2000);
                assert_int_equal(run(ours, context, sealed, 1), 1);
                *m = *sealed;
                switch (n % 5) {
                case 0:
                        m->text[below(m->len)] ^= (uint8_t)(1 << below(8));
                        break;
                case 1:
                        m->tag[below(TAG)] ^= (uint8_t)(1 << below(8));
                        break;
                case 2:
                        m->aad[below(5)] ^= (uint8_t)(1 << below(8));
                        break;
                case 3:
                        m->iv[below(12)] ^= (uint8_t)(1 << below(8));
                        break;
                default:
                        m->len--;
                }
                assert_int_equal(run(ours, context, m, 0), 0);
                assert_int_equal(run(ours, context, sealed, 0), 1); /* the next message is judged by itself */
        }
        free(sealed);
        free(m);
        EVP_CIPHER_CTX_free(context);
}

/* A nonce is good for one message, a message needs one, and a tag that was not given is not right. */
static void test_order(void **state)
{
        EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
        uint8_t key[16] = {1}, iv[12] = {2}, text[32] = {3}, tag[TAG];
        int out;

        assert_int_equal(EVP_CipherInit_ex(context, ours, NULL, key, NULL, 1), 1);
        assert_int_equal(EVP_CipherUpdate(context, text, &out, text, 32), 0);
        assert_int_equal(EVP_CipherInit_ex(context, NULL, NULL, NULL, iv, 1), 1);
        assert_int_equal(EVP_CipherUpdate(context, text, &out, text, 32), 1);
        assert_int_equal(EVP_CipherUpdate(context, NULL, &out, text, 5), 0); /* too late */
        assert_int_equal(EVP_CipherFinal_ex(context, text, &out), 1);
        assert_int_equal(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TAG, tag), 1);
        assert_int_equal(EVP_CipherUpdate(context, text, &out, text, 32), 0);
        assert_int_equal(EVP_CipherFinal_ex(context, text, &out), 0);
        assert_int_equal(EVP_CipherInit_ex(context, NULL, NULL, NULL, iv, 0), 1);
        assert_int_equal(EVP_CipherUpdate(context, text, &out, text, 32), 1);
        assert_int_equal(EVP_CipherFinal_ex(context, text, &out), 0);
        assert_int_equal(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, 16, NULL), 0);
        EVP_CIPHER_CTX_free(context);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_it_is_ours),
                cmocka_unit_test(test_same_bytes),
                cmocka_unit_test(test_changed),
                cmocka_unit_test(test_order),
        };

        return cmocka_run_group_tests(tests, begin, end);
}
