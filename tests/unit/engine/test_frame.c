/*
 * test_frame.c - frames: no header byte may change unnoticed, no frame is taken for another, and
 * ranges are verified in whole blocks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "ec.h"
#include "engine/drive/frame.h"

static struct fmt_frame frame;
static uint8_t payload[FMT_UNIT_MAX];

static struct eng_frame_where make(uint32_t payload_len)
{
        struct eng_frame_what what = {.stripe = 7, .shard = 2, .k = 4, .m = 2, .payload_len = payload_len, .epoch = 3};
        struct eng_frame_where where = {.segment = 5, .generation = 0x1122334455667788, .position = 8192};

        memset(what.object_id, 0xab, FMT_ID);
        memset(where.drive_id, 0xcd, FMT_ID);
        for (size_t i = 0; i < payload_len; i++)
                payload[i] = (uint8_t)(i * 7 + i / 4096);
        memset(&frame, 0xff, sizeof(frame)); /* what the slot held before must not matter */
        eng_frame_fill(&frame, &what, payload);
        eng_frame_locate(&frame, &where);
        return where;
}

static void test_whole(void **state)
{
        static const uint32_t lengths[] = {4096, 12288, 16384, 20480, FMT_UNIT_MAX - 4096, FMT_UNIT_MAX};
        uint8_t id[FMT_ID], other[FMT_ID] = {0};

        memset(id, 0xab, FMT_ID);
        for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                struct eng_frame_where where = make(lengths[i]);

                assert_int_equal(eng_frame_check(&frame, &where), 0);
                assert_int_equal(eng_frame_verify(&frame, payload, 0, lengths[i], NULL), 0);
                assert_true(eng_frame_is(&frame, id, 7, 2, lengths[i]));
                assert_false(eng_frame_is(&frame, other, 7, 2, lengths[i]));
                assert_false(eng_frame_is(&frame, id, 8, 2, lengths[i]));
                assert_false(eng_frame_is(&frame, id, 7, 1, lengths[i]));
                assert_false(eng_frame_is(&frame, id, 7, 2, lengths[i] + 4096));
        }
}

static void test_any_header_byte(void **state)
{
        struct eng_frame_where where = make(65536);
        uint8_t *bytes = (uint8_t *)&frame;

        for (size_t i = 0; i < sizeof(frame); i++)
                for (unsigned bit = 1; bit < 256; bit <<= 3) {
                        bytes[i] ^= (uint8_t)bit;
                        assert_int_equal(eng_frame_check(&frame, &where), -EBADMSG);
                        bytes[i] ^= (uint8_t)bit;
                }
        assert_int_equal(eng_frame_check(&frame, &where), 0);
}

static void test_elsewhere(void **state)
{
        struct eng_frame_where where = make(4096), other;

        other = where;
        other.segment++;
        assert_int_equal(eng_frame_check(&frame, &other), -EBADMSG);
        other = where;
        other.generation++;
        assert_int_equal(eng_frame_check(&frame, &other), -EBADMSG);
        other = where;
        other.position += 4096;
        assert_int_equal(eng_frame_check(&frame, &other), -EBADMSG);
        other = where;
        other.drive_id[15]++;
        assert_int_equal(eng_frame_check(&frame, &other), -EBADMSG);
        /* Placed again, as after a failed first try. */
        eng_frame_locate(&frame, &other);
        assert_int_equal(eng_frame_check(&frame, &other), 0);
}

/* Whoever wrote a header of a good checksum: lengths that cannot be are refused. */
static void test_impossible_lengths(void **state)
{
        static const uint32_t lengths[] = {0, 1, 4095, FMT_UNIT_MAX + 4096, UINT32_MAX, UINT32_MAX - 4095};

        for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                struct eng_frame_where where = make(4096);

                frame.payload_len = lengths[i];
                eng_frame_locate(&frame, &where);
                assert_int_equal(eng_frame_check(&frame, &where), -EBADMSG);
        }
}

static void test_cover(void **state)
{
        static const struct {
                uint32_t payload, offset, len, first, covered;
        } cases[] = {
                {4096, 0, 1, 0, 4096},
                {4096, 4095, 1, 0, 4096},
                {65536, 0, 16384, 0, 16384},
                {65536, 16383, 2, 0, 32768},
                {65536, 16384, 1, 16384, 16384},
                {65536, 65535, 1, 49152, 16384},
                {36864, 32768, 1, 32768, 4096},
                {36864, 0, 36864, 0, 36864},
                {FMT_UNIT_MAX, FMT_UNIT_MAX - 1, 1, FMT_UNIT_MAX - 16384, 16384},
                {FMT_UNIT_MAX, 0, FMT_UNIT_MAX, 0, FMT_UNIT_MAX},
        };

        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                uint32_t first, covered = eng_frame_cover(cases[i].payload, cases[i].offset, cases[i].len, &first);

                assert_int_equal(first, cases[i].first);
                assert_int_equal(covered, cases[i].covered);
        }
}

/* Each bad byte is found exactly by the ranges whose blocks hold it. */
static void test_ranges(void **state)
{
        const uint32_t len = 5 * FMT_CRC_BLOCK + 4096;
        uint32_t first, covered;
        unsigned bad;

        make(len);
        for (uint32_t at = 0; at < len; at += 4001) {
                payload[at] ^= 4;
                for (uint32_t offset = 0; offset < len; offset += 9999) {
                        uint32_t want = len - offset < 20000 ? len - offset : 20000;
                        int rv;

                        covered = eng_frame_cover(len, offset, want, &first);
                        bad = UINT32_MAX;
                        rv = eng_frame_verify(&frame, payload + first, first, covered, &bad);
                        assert_int_equal(rv, at >= first && at < first + covered ? -EBADMSG : 0);
                        assert_int_equal(bad, rv != 0 ? at / FMT_CRC_BLOCK : UINT32_MAX);
                }
                payload[at] ^= 4;
        }
}

/* Any range's CRC is told, and any bad byte of the blocks it touches. */
static void test_sums(void **state)
{
        static const uint32_t lengths[] = {4096, 16384, 20480, 5 * FMT_CRC_BLOCK + 4096, FMT_UNIT_MAX};
        unsigned seed = getenv("SEED") != NULL ? (unsigned)strtoul(getenv("SEED"), NULL, 10) : (unsigned)time(NULL);

        print_message("SEED=%u\n", seed);
        for (unsigned i = 0; i < 500; i++) {
                uint32_t payload_len = lengths[i % 5], offset = (uint32_t)rand_r(&seed) % payload_len, first, sum = 0;
                uint32_t len = 1 + (uint32_t)rand_r(&seed) % (payload_len - offset), covered, bad;

                make(payload_len);
                if (rand_r(&seed) % 4 == 0)
                        offset = offset / FMT_CRC_BLOCK * FMT_CRC_BLOCK;
                if (rand_r(&seed) % 4 == 0)
                        len = payload_len - offset;
                covered = eng_frame_cover(payload_len, offset, len, &first);
                assert_int_equal(eng_frame_sum(&frame, payload, offset, len, &sum), 0);
                assert_int_equal(sum, era_crc32c(0, payload + offset, len));
                bad = (uint32_t)rand_r(&seed) % payload_len;
                payload[bad] ^= (uint8_t)(1u << i % 8);
                assert_int_equal(eng_frame_sum(&frame, payload, offset, len, &sum),
                                 bad >= first && bad < first + covered ? -EBADMSG : 0);
                payload[bad] ^= (uint8_t)(1u << i % 8);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole),     cmocka_unit_test(test_any_header_byte),
                cmocka_unit_test(test_elsewhere), cmocka_unit_test(test_impossible_lengths),
                cmocka_unit_test(test_cover),     cmocka_unit_test(test_ranges),
                cmocka_unit_test(test_sums),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
