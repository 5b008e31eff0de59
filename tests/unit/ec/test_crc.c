/*
 * test_crc.c - the CRCs: known values, and a bit-by-bit reference over random lengths, alignments,
 * cuts and joins.
 */
#include "tests/unit/ec/ec_fixture.h"

#include <pthread.h>

#define BUF_LEN 20000u

static uint8_t buf[BUF_LEN];

/* ---- reference ------------------------------------------------------------------------------- */

static uint64_t slow_crc(uint64_t poly, uint64_t mask, uint64_t crc, const uint8_t *at, size_t len)
{
        unsigned bit;

        crc ^= mask;
        for (; len > 0; at++, len--) {
                crc ^= *at;
                for (bit = 0; bit < 8; bit++)
                        crc = (crc >> 1) ^ ((crc & 1) != 0 ? poly : 0);
        }
        return crc ^ mask;
}

/* The three kinds behind one signature. */

static uint64_t crc32_of(uint64_t crc, const void *at, size_t len)
{
        return era_crc32((uint32_t)crc, at, len);
}

static uint64_t crc32c_of(uint64_t crc, const void *at, size_t len)
{
        return era_crc32c((uint32_t)crc, at, len);
}

static uint64_t crc32_join(uint64_t a, uint64_t b, uint64_t len)
{
        return era_crc32_combine((uint32_t)a, (uint32_t)b, len);
}

static uint64_t crc32c_join(uint64_t a, uint64_t b, uint64_t len)
{
        return era_crc32c_combine((uint32_t)a, (uint32_t)b, len);
}

static const struct kind {
        const char *name;
        uint64_t (*of)(uint64_t crc, const void *at, size_t len);
        uint64_t (*join)(uint64_t a, uint64_t b, uint64_t len);
        uint64_t poly, mask, check; /* check: of the nine digits */
        uint64_t zeroes, ones;      /* of 32 bytes of 00 and of ff */
} kinds[] = {
        {"crc32", crc32_of, crc32_join, 0xEDB88320, UINT32_MAX, 0xCBF43926, 0x190A55AD, 0xFF6CAB0B},
        {"crc32c", crc32c_of, crc32c_join, 0x82F63B78, UINT32_MAX, 0xE3069283, 0x8A9136AA, 0x62A8AB43},
        {"crc64nvme", era_crc64nvme, era_crc64nvme_combine, ERA_CRC64_POLY, UINT64_MAX, 0xAE8B14860A799888ull,
         0xCF3473434D4ECF3Bull, 0xA0A06974C34D63C4ull},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static uint64_t slow_of(const struct kind *kind, uint64_t crc, const uint8_t *at, size_t len)
{
        return slow_crc(kind->poly, kind->mask, crc, at, len);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void *first_call(void *arg)
{
        const struct kind *kind;

        for (kind = kinds; kind < kinds + KINDS; kind++)
                if (kind->of(0, "123456789", 9) != kind->check ||
                    kind->join(kind->of(0, "1234", 4), kind->of(0, "56789", 5), 5) != kind->check)
                        return arg;
        return NULL;
}

/*
 * What is made by the first call is made once, whichever threads come first. Runs before all other
 * tests.
 */
static void test_first_calls_of_many_threads(void **state)
{
        pthread_t threads[4];
        void *failed;
        unsigned i;

        for (i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, first_call, threads), 0);
        for (i = 0; i < 4; i++) {
                assert_int_equal(pthread_join(threads[i], &failed), 0);
                assert_null(failed);
        }
}

static void test_known_values(void **state)
{
        const struct kind *kind;
        uint8_t block[32];

        for (kind = kinds; kind < kinds + KINDS; kind++) {
                assert_true(kind->of(0, "123456789", 9) == kind->check);
                assert_true(kind->of(0, "", 0) == 0);
                assert_true(kind->of(kind->check, NULL, 0) == kind->check);
                memset(block, 0, sizeof(block));
                assert_true(kind->of(0, block, sizeof(block)) == kind->zeroes);
                memset(block, 0xff, sizeof(block));
                assert_true(kind->of(0, block, sizeof(block)) == kind->ones);
        }
}

/* Each length around the widths of the registers, at each alignment. */
static void test_short_lengths(void **state)
{
        const struct kind *kind;
        size_t len, at;

        for (kind = kinds; kind < kinds + KINDS; kind++)
                for (len = 0; len <= 700; len++) {
                        at = random_next() % 64;
                        assert_true(kind->of(0, buf + at, len) == slow_of(kind, 0, buf + at, len));
                }
}

static void test_random_lengths_and_continuation(void **state)
{
        const struct kind *kind;
        size_t len, at, cut;
        uint64_t first;
        unsigned i;

        for (i = 0; i < 600; i++) {
                kind = &kinds[random_next() % KINDS];
                len = random_next() % (BUF_LEN - 64);
                at = random_next() % 64;
                cut = random_next() % (len + 1);
                first = kind->of(0, buf + at, cut);
                assert_true(first == slow_of(kind, 0, buf + at, cut));
                assert_true(kind->of(first, buf + at + cut, len - cut) == slow_of(kind, 0, buf + at, len));
        }
}

static void test_each_way_of_crc64(void **state)
{
        size_t len, at;
        unsigned way, i;
        uint64_t crc;

        assert_true(era_crc64_way_works(ERA_CRC64_TABLE));
        assert_false(era_crc64_way_works(ERA_CRC64_WAYS));
        for (way = 0; way < ERA_CRC64_WAYS; way++) {
                if (!era_crc64_way_works(way)) {
                        printf("this processor cannot take way %u\n", way);
                        continue;
                }
                assert_true(era_crc64_by(way, 0, "123456789", 9) == 0xAE8B14860A799888ull);
                for (i = 0; i < 1500; i++) {
                        len = i < 1100 ? i : random_next() % (BUF_LEN - 64);
                        at = random_next() % 64;
                        crc = random_next();
                        assert_true(era_crc64_by(way, crc, buf + at, len) ==
                                    slow_crc(ERA_CRC64_POLY, UINT64_MAX, crc, buf + at, len));
                }
        }
}

static void test_combine(void **state)
{
        const struct kind *kind;
        size_t len, cut;
        uint64_t a, b;
        unsigned i;

        for (kind = kinds; kind < kinds + KINDS; kind++) {
                for (i = 0; i < 300; i++) {
                        len = i < 100 ? i : random_next() % BUF_LEN;
                        cut = random_next() % (len + 1);
                        a = kind->of(0, buf, cut);
                        b = kind->of(0, buf + cut, len - cut);
                        assert_true(kind->join(a, b, len - cut) == kind->of(0, buf, len));
                }
                assert_true(kind->join(0x1234, 0, 0) == 0x1234);
                assert_true(kind->join(0, 0x1234, 77) == 0x1234);
        }
}

/* Joining is associative, so lengths that no test can write out are checked against one another. */
static void test_combine_of_long_parts(void **state)
{
        const struct kind *kind;
        uint64_t a, b, c, n, m;
        unsigned i;

        for (i = 0; i < 200; i++) {
                kind = &kinds[i % KINDS];
                a = random_next() & kind->mask;
                b = random_next() & kind->mask;
                c = random_next() & kind->mask;
                n = random_next() >> (1 + random_next() % 40);
                m = random_next() >> (1 + random_next() % 40);
                assert_true(kind->join(kind->join(a, b, n), c, m) == kind->join(a, kind->join(b, c, m), n + m));
        }
}

/*
 * 8 GiB by doubling one MiB equals 8,192 parts joined one after the other, as in a multipart
 * upload.
 */
static void test_combine_of_many_parts(void **state)
{
        const uint64_t part = 1 << 20, parts = 8192;
        uint8_t *bytes = malloc(part);
        const struct kind *kind;
        uint64_t one, doubled, joined, i;

        assert_non_null(bytes);
        random_fill(bytes, part);
        for (kind = kinds; kind < kinds + KINDS; kind++) {
                one = doubled = joined = kind->of(0, bytes, part);
                for (i = 1; i < parts; i++)
                        joined = kind->join(joined, one, part);
                for (i = 1; i < parts; i *= 2)
                        doubled = kind->join(doubled, doubled, part * i);
                assert_true(joined == doubled);
        }
        free(bytes);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_first_calls_of_many_threads),
                cmocka_unit_test(test_known_values),
                cmocka_unit_test(test_short_lengths),
                cmocka_unit_test(test_random_lengths_and_continuation),
                cmocka_unit_test(test_each_way_of_crc64),
                cmocka_unit_test(test_combine),
                cmocka_unit_test(test_combine_of_long_parts),
                cmocka_unit_test(test_combine_of_many_parts),
        };

        random_seed();
        random_fill(buf, sizeof(buf));
        return cmocka_run_group_tests(tests, NULL, NULL);
}
