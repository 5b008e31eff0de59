/*
 * test_buf.c - buffers that are shared, and the checksum that is kept with them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "ec.h"
#include "engine/drive/drive.h"

static struct eng_buf *filled(size_t len)
{
        struct eng_buf *buf = eng_buf_new(len);

        assert_non_null(buf);
        for (size_t i = 0; i < len; i++)
                buf->data[i] = (uint8_t)(7 * i + 1);
        return buf;
}

/* Of all bytes; asked for again it is the same, and not summed anew. */
static void a_checksum_is_kept(void **state)
{
        struct eng_buf *buf = filled(10240);
        uint32_t crc = era_crc32c(0, buf->data, buf->len);

        assert_int_equal(eng_buf_crc32c(buf), crc);
        buf->data[17] ^= 1; /* what nobody may do shows that it was kept: a client finds the damage */
        assert_int_equal(eng_buf_crc32c(buf), crc);
        eng_buf_unref(buf);
}

static void a_slice_has_its_own(void **state)
{
        struct eng_buf *buf = filled(4096), *slice = eng_buf_slice(buf, 100, 1000);

        assert_non_null(slice);
        assert_int_equal(eng_buf_crc32c(buf), era_crc32c(0, buf->data, 4096));
        assert_int_equal(eng_buf_crc32c(slice), era_crc32c(0, buf->data + 100, 1000));
        eng_buf_unref(buf);
        assert_int_equal(eng_buf_crc32c(slice), era_crc32c(0, slice->data, 1000));
        eng_buf_unref(slice);
}

/* One of no bytes, whose checksum is 0, is known all the same. */
static void of_nothing(void **state)
{
        struct eng_buf *buf = filled(0);

        assert_int_equal(eng_buf_crc32c(buf), 0);
        assert_int_equal(eng_buf_crc32c(buf), 0);
        eng_buf_unref(buf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_checksum_is_kept),
                cmocka_unit_test(a_slice_has_its_own),
                cmocka_unit_test(of_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
