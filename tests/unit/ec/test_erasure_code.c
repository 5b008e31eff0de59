/*
 * test_erasure_code.c - the erasure code: against arithmetic done bit by bit, every erasure of
 * small codes, random ones of large.
 */
#include "tests/unit/ec/ec_fixture.h"

/* Takes the place of libc's, so that it can fail. */
static bool out_of_memory;

void *calloc(size_t count, size_t size)
{
        void *ptr = NULL;
        size_t all;

        if (out_of_memory || __builtin_mul_overflow(count, size, &all))
                return NULL;
        if (posix_memalign(&ptr, 16, all) != 0) /* of malloc() and memset() the compiler would make a calloc() */
                return NULL;
        return memset(ptr, 0, all);
}

#define LEN_MAX 4096u

struct stripe {
        struct era_code *code;
        unsigned k, m;
        size_t len;
        uint8_t *shards[ERA_MAX_SHARDS]; /* each an allocation of its own, so that ASan sees its borders */
};

static const struct {
        unsigned k, m;
} codes[] = {{1, 0}, {1, 1}, {1, 2}, {2, 1}, {2, 2}, {4, 2}, {6, 2}, {8, 3}, {12, 4}, {16, 0}, {16, 8}};

static void stripe_make(struct stripe *s, unsigned k, unsigned m, size_t len)
{
        unsigned i;

        *s = (struct stripe){.k = k, .m = m, .len = len};
        assert_int_equal(era_code_new(k, m, &s->code), 0);
        for (i = 0; i < k + m; i++) {
                s->shards[i] = malloc(len);
                assert_non_null(s->shards[i]);
                random_fill(s->shards[i], len);
        }
        era_encode(s->code, len, (const uint8_t *const *)s->shards, s->shards + k);
}

static void stripe_free(struct stripe *s)
{
        unsigned i;

        for (i = 0; i < s->k + s->m; i++)
                free(s->shards[i]);
        era_code_free(s->code);
}

/* Loses the shards of the mask and has all of them rebuilt, or one by one. */
static void lose_and_rebuild(const struct stripe *s, uint32_t lost, bool one_by_one)
{
        uint8_t *out[ERA_MAX_SHARDS], want[ERA_MAX_SHARDS];
        const uint8_t *shards[ERA_MAX_SHARDS] = {NULL};
        bool present[ERA_MAX_SHARDS] = {false};
        unsigned i, count = 0;

        for (i = 0; i < s->k + s->m; i++) {
                present[i] = (lost >> i & 1) == 0;
                if (present[i]) {
                        shards[i] = s->shards[i];
                } else {
                        out[count] = malloc(s->len);
                        assert_non_null(out[count]);
                        want[count++] = (uint8_t)i;
                }
        }
        for (i = 0; one_by_one && i < count; i++)
                assert_int_equal(era_rebuild(s->code, s->len, shards, present, want + i, 1, out + i), 0);
        if (!one_by_one)
                assert_int_equal(era_rebuild(s->code, s->len, shards, present, want, count, out), 0);
        for (i = 0; i < count; i++) {
                assert_memory_equal(out[i], s->shards[want[i]], s->len);
                free(out[i]);
        }
}

/* ---- against GF(2^8) done bit by bit --------------------------------------------------------- */

static uint8_t slow_multiply(uint8_t a, uint8_t b)
{
        uint8_t product = 0;

        for (; b != 0; b >>= 1) {
                if ((b & 1) != 0)
                        product ^= a;
                a = (uint8_t)(a << 1 ^ ((a & 0x80) != 0 ? 0x1d : 0));
        }
        return product;
}

static uint8_t slow_inverse(uint8_t a)
{
        unsigned b;

        for (b = 1; b < 256; b++)
                if (slow_multiply(a, (uint8_t)b) == 1)
                        return (uint8_t)b;
        return 0;
}

/*
 * The disk format depends on it: parity i of a k+m code is the sum of data j times 1 / ((k + i) xor
 * j).
 */
static void test_parity_is_cauchy(void **state)
{
        struct stripe s;
        unsigned c, i, j;
        uint8_t sum;
        size_t at;

        for (c = 0; c < sizeof(codes) / sizeof(codes[0]); c++) {
                stripe_make(&s, codes[c].k, codes[c].m, 64);
                for (i = 0; i < s.m; i++)
                        for (at = 0; at < s.len; at++) {
                                for (sum = 0, j = 0; j < s.k; j++)
                                        sum ^= slow_multiply(slow_inverse((uint8_t)((s.k + i) ^ j)), s.shards[j][at]);
                                assert_int_equal(s.shards[s.k + i][at], sum);
                        }
                stripe_free(&s);
        }
}

/* ---- rebuilding ------------------------------------------------------------------------------ */

static void test_every_erasure_of_small_codes(void **state)
{
        struct stripe s;
        uint32_t lost;
        unsigned c;

        for (c = 0; c < sizeof(codes) / sizeof(codes[0]); c++) {
                if (codes[c].k + codes[c].m > 11)
                        continue;
                stripe_make(&s, codes[c].k, codes[c].m, 96);
                for (lost = 0; lost < 1u << (s.k + s.m); lost++)
                        if ((unsigned)__builtin_popcount(lost) <= s.m) {
                                lose_and_rebuild(&s, lost, false);
                                lose_and_rebuild(&s, lost, true);
                        }
                stripe_free(&s);
        }
}

static uint32_t random_loss(unsigned shards, unsigned most)
{
        unsigned count = (unsigned)(random_next() % (most + 1));
        uint32_t lost = 0;

        while ((unsigned)__builtin_popcount(lost) < count)
                lost |= 1u << random_next() % shards;
        return lost;
}

static void test_random_erasures(void **state)
{
        struct stripe s;
        unsigned c, i;

        for (c = 0; c < sizeof(codes) / sizeof(codes[0]); c++)
                for (i = 0; i < 60; i++) {
                        stripe_make(&s, codes[c].k, codes[c].m, 32 * (1 + random_next() % (LEN_MAX / 32)));
                        lose_and_rebuild(&s, random_loss(s.k + s.m, s.m), i % 2 == 0);
                        stripe_free(&s);
                }
}

static void test_rebuild_of_what_is_there(void **state)
{
        uint8_t want[] = {4, 0, 5}, *out[3];
        bool present[6] = {true, true, true, true, true, true};
        struct stripe s;
        unsigned i;

        stripe_make(&s, 4, 2, 128);
        for (i = 0; i < 3; i++)
                out[i] = malloc(s.len);
        assert_int_equal(era_rebuild(s.code, s.len, (const uint8_t *const *)s.shards, present, want, 3, out), 0);
        for (i = 0; i < 3; i++) {
                assert_memory_equal(out[i], s.shards[want[i]], s.len);
                free(out[i]);
        }
        assert_int_equal(era_rebuild(s.code, s.len, (const uint8_t *const *)s.shards, present, want, 0, NULL), 0);
        stripe_free(&s);
}

/* ---- update ---------------------------------------------------------------------------------- */

static void test_update_equals_encode(void **state)
{
        uint8_t *parity[ERA_MAX_M];
        unsigned c, i, j, order[ERA_MAX_K];
        struct stripe s;

        for (c = 0; c < sizeof(codes) / sizeof(codes[0]); c++) {
                stripe_make(&s, codes[c].k, codes[c].m, 32 * (1 + random_next() % (LEN_MAX / 32)));
                for (i = 0; i < s.m; i++)
                        parity[i] = memset(malloc(s.len), 0x5a, s.len);
                for (i = 0; i < s.k; i++) { /* in a random order */
                        j = (unsigned)(random_next() % (i + 1));
                        order[i] = order[j];
                        order[j] = i;
                }
                for (i = 0; i < s.k; i++)
                        era_update(s.code, s.len, order[i], i == 0, s.shards[order[i]], parity);
                for (i = 0; i < s.m; i++) {
                        assert_memory_equal(parity[i], s.shards[s.k + i], s.len);
                        free(parity[i]);
                }
                stripe_free(&s);
        }
}

static void test_no_bytes(void **state)
{
        struct era_code *code;

        assert_int_equal(era_code_new(4, 2, &code), 0);
        era_encode(code, 0, NULL, NULL);
        era_update(code, 0, 3, false, NULL, NULL);
        era_code_free(code);
        era_code_free(NULL);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void test_errors(void **state)
{
        bool present[6] = {true, false, true, false, true, false};
        uint8_t want[25] = {1}, wrong = 6;
        struct era_code *code;
        struct stripe s;

        assert_int_equal(era_code_new(0, 2, &code), -EINVAL);
        assert_int_equal(era_code_new(ERA_MAX_K + 1, 2, &code), -EINVAL);
        assert_int_equal(era_code_new(4, ERA_MAX_M + 1, &code), -EINVAL);
        out_of_memory = true;
        assert_int_equal(era_code_new(4, 2, &code), -ENOMEM);
        out_of_memory = false;
        stripe_make(&s, 4, 2, 64);
        assert_int_equal(era_rebuild(s.code, 64, (const uint8_t *const *)s.shards, present, want, 1, s.shards + 1),
                         -EINVAL); /* three are not enough */
        present[1] = true;
        assert_int_equal(era_rebuild(s.code, 64, (const uint8_t *const *)s.shards, present, &wrong, 1, s.shards + 3),
                         -EINVAL);
        assert_int_equal(era_rebuild(s.code, 64, (const uint8_t *const *)s.shards, present, want, 7, s.shards + 3),
                         -EINVAL);
        assert_int_equal(
                era_rebuild(s.code, (size_t)1 << 31, (const uint8_t *const *)s.shards, present, want, 1, s.shards + 3),
                -EINVAL);
        stripe_free(&s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parity_is_cauchy),
                cmocka_unit_test(test_every_erasure_of_small_codes),
                cmocka_unit_test(test_random_erasures),
                cmocka_unit_test(test_rebuild_of_what_is_there),
                cmocka_unit_test(test_update_equals_encode),
                cmocka_unit_test(test_no_bytes),
                cmocka_unit_test(test_errors),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
