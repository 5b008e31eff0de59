/*
 * test_md5.c - MD5 of many streams at once, by every way this processor has, against OpenSSL's.
 */
#include "tests/unit/ec/ec_fixture.h"

#include <stdlib.h>
#include <string.h>

#define STREAMS 40u
#define BYTES   5000u

static uint8_t bytes[STREAMS][BYTES];

static uint64_t draw(uint64_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

static void check(struct era_md5 *md5, const uint8_t *data, size_t len)
{
        uint8_t got[ERA_MD5_SIZE], want[ERA_DIGEST_MAX];

        era_md5_final(md5, got);
        assert_int_equal(era_digest_of(ERA_MD5, data, len, want), ERA_MD5_SIZE);
        assert_memory_equal(got, want, ERA_MD5_SIZE);
}

/* One stream alone, of each length. */
static void test_lengths(void **state)
{
        unsigned way;
        size_t len;

        for (way = 0; way < ERA_MD5_WAYS; way++) {
                if (era_md5_way_lanes(way) == 0)
                        continue;
                for (len = 0; len < 300; len++) {
                        struct era_md5 md5;
                        struct era_md5_job job = {.md5 = &md5, .buf = bytes[len % STREAMS], .len = len};

                        era_md5_init(&md5);
                        era_md5_update_by(way, &job, 1);
                        check(&md5, bytes[len % STREAMS], len);
                }
        }
}

/* Streams that come in pieces of any length, some in a call and some not, until all are through. */
static void pieces(enum era_md5_way way, unsigned streams, uint64_t *random, size_t most)
{
        struct era_md5 md5[STREAMS];
        size_t at[STREAMS] = {0}, len[STREAMS], left = 0;
        unsigned i;

        for (i = 0; i < streams; i++) {
                era_md5_init(&md5[i]);
                len[i] = draw(random) % (BYTES + 1);
                left += len[i];
        }
        while (left > 0) {
                struct era_md5_job jobs[STREAMS];
                unsigned count = 0;

                for (i = 0; i < streams; i++) {
                        size_t n = draw(random) % (most + 1);

                        if (draw(random) % 4 == 0)
                                continue;
                        if (n > len[i] - at[i])
                                n = len[i] - at[i];
                        jobs[count++] = (struct era_md5_job){.md5 = &md5[i], .buf = bytes[i] + at[i], .len = n};
                        at[i] += n;
                        left -= n;
                }
                era_md5_update_by(way, jobs, count);
        }
        for (i = 0; i < streams; i++)
                check(&md5[i], bytes[i], len[i]);
}

static void test_pieces(void **state)
{
        static const size_t most[] = {3, 64, 130, 1000, BYTES};
        uint64_t random = 88172645463325252ull;
        unsigned way, round, i;

        for (way = 0; way < ERA_MD5_WAYS; way++)
                for (round = 0; round < 3 && era_md5_way_lanes(way) != 0; round++)
                        for (i = 0; i < 5; i++) {
                                pieces(way, STREAMS, &random, most[i]);
                                pieces(way, 1 + (unsigned)(draw(&random) % 17), &random, most[i]);
                        }
}

/* Bytes of memory end where a page does: nothing is read behind them. */
static void test_nothing_else_is_read(void **state)
{
        struct era_md5 md5[17];
        struct era_md5_job jobs[17];
        uint8_t *own[17];
        unsigned way, i;

        for (way = 0; way < ERA_MD5_WAYS; way++) {
                for (i = 0; i < 17; i++) { /* heap blocks of their own, for the sanitizer */
                        size_t len = 64 * (i % 3 + 1) + i;

                        own[i] = malloc(len);
                        memcpy(own[i], bytes[i], len);
                        era_md5_init(&md5[i]);
                        jobs[i] = (struct era_md5_job){.md5 = &md5[i], .buf = own[i], .len = len};
                }
                if (era_md5_way_lanes(way) != 0) {
                        era_md5_update_by(way, jobs, 17);
                        for (i = 0; i < 17; i++)
                                check(&md5[i], bytes[i], 64 * (i % 3 + 1) + i);
                }
                for (i = 0; i < 17; i++)
                        free(own[i]);
        }
}

static void test_best_way(void **state)
{
        struct era_md5 md5[2];
        struct era_md5_job jobs[2];
        unsigned i;

        assert_true(era_md5_lanes() == 1 || era_md5_lanes() == 8 || era_md5_lanes() == 16);
        for (i = 0; i < 2; i++) {
                era_md5_init(&md5[i]);
                jobs[i] = (struct era_md5_job){.md5 = &md5[i], .buf = bytes[i], .len = BYTES};
        }
        era_md5_update(jobs, 2);
        era_md5_update(jobs, 0);
        for (i = 0; i < 2; i++)
                check(&md5[i], bytes[i], BYTES);
}

static void test_limit(void **state)
{
        unsigned all = era_md5_lanes();

        era_md5_limit(1);
        assert_int_equal(era_md5_lanes(), 1);
        test_best_way(state);
        era_md5_limit(8);
        assert_true(era_md5_lanes() <= 8 && era_md5_lanes() <= all);
        test_best_way(state);
        era_md5_limit(0);
        assert_int_equal(era_md5_lanes(), all);
}

static int fill(void **state)
{
        uint64_t random = 2463534242ull;
        size_t i;

        for (i = 0; i < sizeof(bytes); i++)
                ((uint8_t *)bytes)[i] = (uint8_t)draw(&random);
        return 0;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lengths),
                cmocka_unit_test(test_pieces),
                cmocka_unit_test(test_nothing_else_is_read),
                cmocka_unit_test(test_best_way),
                cmocka_unit_test(test_limit),
        };

        return cmocka_run_group_tests(tests, fill, NULL);
}
