/*
 * test_gzip.c - ec/gzip.c: what is written is read back, and too little room is told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <errno.h>
#include <isa-l/igzip_lib.h>

#include "ec_gzip.h"

#define TEXT (1u << 20)

static uint8_t text[TEXT], packed[TEXT + ERA_GZIP_SLACK], back[TEXT];

static void expect_back(size_t len, size_t wanted)
{
        static struct inflate_state state;

        isal_inflate_init(&state);
        state.crc_flag = ISAL_GZIP; /* checks the sum and the length behind the data */
        state.next_in = packed;
        state.avail_in = (uint32_t)len;
        state.next_out = back;
        state.avail_out = sizeof(back);
        assert_int_equal(isal_inflate(&state), ISAL_DECOMP_OK);
        assert_int_equal(state.block_state, ISAL_BLOCK_FINISH);
        assert_int_equal(state.total_out, wanted);
        assert_memory_equal(back, text, wanted);
}

/* Bytes that do not get shorter, and in pieces of any size. */
static void test_pieces(void **state)
{
        uint32_t sizes[] = {0, 1, 7, 4096, 65537, TEXT};
        struct era_gzip *gzip;
        uint32_t seed = 1;

        for (size_t i = 0; i < sizeof(text); i++) {
                seed = seed * 1103515245u + 12345u;
                text[i] = (uint8_t)(seed >> 16);
        }
        assert_int_equal(era_gzip_new(&gzip), 0);
        for (unsigned i = 1; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                size_t total = sizes[i] * 3ul < TEXT ? sizes[i] * 3ul : TEXT, at = 0;

                era_gzip_begin(gzip, packed, sizeof(packed));
                while (at < total) {
                        uint32_t n = total - at < sizes[i] ? (uint32_t)(total - at) : sizes[i];

                        assert_int_equal(era_gzip_write(gzip, text + at, n), 0);
                        at += n;
                }
                assert_int_equal(era_gzip_end(gzip), 0);
                expect_back(era_gzip_len(gzip), total);
        }
        era_gzip_begin(gzip, packed, sizeof(packed)); /* an empty file is one, too */
        assert_int_equal(era_gzip_end(gzip), 0);
        expect_back(era_gzip_len(gzip), 0);
        era_gzip_free(gzip);
        era_gzip_free(NULL);
}

static void test_too_little_room(void **state)
{
        struct era_gzip *gzip;
        int rv = 0;

        assert_int_equal(era_gzip_new(&gzip), 0);
        era_gzip_begin(gzip, packed, 1000);
        for (unsigned i = 0; i < 10 && rv == 0; i++)
                rv = era_gzip_write(gzip, text, TEXT / 10);
        if (rv == 0)
                rv = era_gzip_end(gzip);
        assert_int_equal(rv, -ENOBUFS);
        assert_true(era_gzip_len(gzip) <= 1000);
        era_gzip_begin(gzip, packed, sizeof(packed));
        assert_int_equal(era_gzip_write(gzip, text, 100), 0);
        assert_int_equal(era_gzip_end(gzip), 0);
        expect_back(era_gzip_len(gzip), 100);
        era_gzip_free(gzip);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces), cmocka_unit_test(test_too_little_room)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
