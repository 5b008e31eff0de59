/*
 * test_openssl_digest.c - the digests: known values, in one go and in pieces, reset and used again.
 */
#include "tests/unit/ec/ec_fixture.h"

#include <dlfcn.h>
#include <openssl/evp.h>
#include <sys/wait.h>
#include <unistd.h>

/* These take the place of OpenSSL's, so that they can fail. */
static bool no_algorithm, no_context, no_init;

EVP_MD *EVP_MD_fetch(OSSL_LIB_CTX *ctx, const char *algorithm, const char *properties)
{
        EVP_MD *(*real)(OSSL_LIB_CTX *, const char *, const char *) = dlsym(RTLD_NEXT, "EVP_MD_fetch");

        return no_algorithm ? NULL : real(ctx, algorithm, properties);
}

EVP_MD_CTX *EVP_MD_CTX_new(void)
{
        EVP_MD_CTX *(*real)(void) = dlsym(RTLD_NEXT, "EVP_MD_CTX_new");

        return no_context ? NULL : real();
}

int EVP_DigestInit_ex(EVP_MD_CTX *ctx, const EVP_MD *type, ENGINE *impl)
{
        int (*real)(EVP_MD_CTX *, const EVP_MD *, ENGINE *) = dlsym(RTLD_NEXT, "EVP_DigestInit_ex");

        return no_init ? 0 : real(ctx, type, impl);
}

static const struct known {
        enum era_digest_kind kind;
        const char *text, *hex;
} known[] = {
        {ERA_MD5, "", "d41d8cd98f00b204e9800998ecf8427e"},
        {ERA_MD5, "abc", "900150983cd24fb0d6963f7d28e17f72"},
        {ERA_MD5, "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         "57edf4a22be3c955ac49da2e2107b67a"},
        {ERA_SHA1, "", "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
        {ERA_SHA1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {ERA_SHA1, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
        {ERA_SHA256, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {ERA_SHA256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {ERA_SHA256, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
};

#define KNOWN (sizeof(known) / sizeof(known[0]))

static void assert_hex(const uint8_t *out, size_t size, const char *hex)
{
        char text[2 * ERA_DIGEST_MAX + 1];
        size_t i;

        for (i = 0; i < size; i++)
                snprintf(text + 2 * i, 3, "%02x", out[i]);
        assert_string_equal(text, hex);
}

static void test_known_values(void **state)
{
        const struct known *k;
        uint8_t out[ERA_DIGEST_MAX];

        for (k = known; k < known + KNOWN; k++)
                assert_hex(out, era_digest_of(k->kind, k->text, strlen(k->text), out), k->hex);
}

static void test_in_pieces_and_again(void **state)
{
        struct era_digest *digest;
        uint8_t out[ERA_DIGEST_MAX];
        const struct known *k;
        size_t at, n, len;
        unsigned again;

        for (k = known; k < known + KNOWN; k++) {
                assert_int_equal(era_digest_new(k->kind, &digest), 0);
                for (again = 0; again < 3; again++) {
                        len = strlen(k->text);
                        for (at = 0; at < len; at += n) {
                                n = 1 + random_next() % (len - at);
                                era_digest_update(digest, k->text + at, n);
                        }
                        assert_hex(out, era_digest_final(digest, out), k->hex);
                        era_digest_reset(digest);
                        era_digest_update(digest, "not finished", 12); /* a reset forgets it */
                        era_digest_reset(digest);
                }
                era_digest_free(digest);
        }
        era_digest_free(NULL);
}

static void test_long_input_in_pieces(void **state)
{
        static const enum era_digest_kind each[] = {ERA_MD5, ERA_SHA1, ERA_SHA256, ERA_SHA512};
        uint8_t whole[ERA_DIGEST_MAX], pieces[ERA_DIGEST_MAX];
        static uint8_t buf[300000];
        struct era_digest *digest;
        size_t at, n, size;
        unsigned i;

        random_fill(buf, sizeof(buf));
        for (i = 0; i < 3; i++) {
                size = era_digest_of(each[i], buf, sizeof(buf), whole);
                assert_int_equal(era_digest_new(each[i], &digest), 0);
                for (at = 0; at < sizeof(buf); at += n) {
                        n = random_next() % 5000;
                        n = n < sizeof(buf) - at ? n : sizeof(buf) - at;
                        era_digest_update(digest, buf + at, n);
                }
                assert_int_equal(era_digest_final(digest, pieces), size);
                assert_memory_equal(whole, pieces, size);
                era_digest_free(digest);
        }
}

/* ---- what fails ------------------------------------------------------------------------------ */

static void test_no_memory(void **state)
{
        struct era_digest *digest;

        no_context = true;
        assert_int_equal(era_digest_new(ERA_MD5, &digest), -ENOMEM);
        no_context = false;
        no_init = true;
        assert_int_equal(era_digest_new(ERA_MD5, &digest), -ENOMEM);
        no_init = false;
}

/*
 * An OpenSSL that has no MD5. In a child, as algorithms are looked up once. Runs before all other
 * tests.
 */
static void test_no_such_algorithm(void **state)
{
        struct era_digest *digest;
        int status = 0;
        pid_t pid;

        pid = fork();
        if (pid == 0) {
                no_algorithm = true;
                _exit(era_digest_new(ERA_MD5, &digest) == -ENOTSUP ? 0 : 1);
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_no_such_algorithm),   cmocka_unit_test(test_known_values),
                cmocka_unit_test(test_in_pieces_and_again), cmocka_unit_test(test_long_input_in_pieces),
                cmocka_unit_test(test_no_memory),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
