/*
 * rdma/get_batch_frame.c: the bodies of GetBatch over HTTP, right and wrong, and the frames of its
 * answers.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rdma_wire.h"

static struct rdx_bytes text(const char *s)
{
        return (struct rdx_bytes){s, strlen(s)};
}

/* Appends a message of count entries "kN", N from first on; returns its length. */
static size_t add_message(uint8_t *out, unsigned first, unsigned count, uint8_t flags, uint32_t batch)
{
        struct rdx_message message = {.type = RDX_BATCH,
                                      .flags = flags,
                                      .first = (uint16_t)first,
                                      .batch = batch,
                                      .replies = (uint16_t)((count + RDX_RESULT_SHARE - 1) / RDX_RESULT_SHARE)};
        struct rdx_writer writer;
        char key[16];

        rdx_writer_open(&writer, out, &message);
        for (unsigned i = 0; i < count; i++) {
                struct rdx_entry entry = {.bucket = text("bucket"), .length = UINT64_MAX};

                snprintf(key, sizeof(key), "k%u", first + i);
                entry.key = text(key);
                assert_int_equal(rdx_writer_entry(&writer, &entry), 0);
        }
        return rdx_writer_finish(&writer);
}

static void entries_of_all_messages_come_in_order(void **state)
{
        uint8_t *data = malloc(4 * RDX_MESSAGE_MAX);
        struct rdx_body body = {.data = data};
        struct rdx_entry entry;
        unsigned index;
        bool ordered;
        char key[16];
        size_t len = 0;

        for (unsigned i = 0; i < 4; i++)
                len += add_message(data + len, i * 250, 250, i == 0 ? RDX_ORDERED : 0, 9);
        body.len = len;
        assert_int_equal(rdx_body_check(data, len, &ordered), 1000);
        assert_true(ordered);
        for (unsigned i = 0; i < 1000; i++) {
                assert_int_equal(rdx_body_next(&body, &entry, &index), 1);
                snprintf(key, sizeof(key), "k%u", i);
                assert_int_equal(index, i);
                assert_int_equal(entry.key.len, strlen(key));
                assert_memory_equal(entry.key.data, key, strlen(key));
                assert_memory_equal(entry.bucket.data, "bucket", 6);
        }
        assert_int_equal(rdx_body_next(&body, &entry, &index), 0);
        free(data);
}

static void what_is_no_body(void **state)
{
        uint8_t data[2 * RDX_MESSAGE_MAX];
        size_t first = add_message(data, 0, 3, 0, 9), both = first + add_message(data + first, 3, 3, 0, 9);
        bool ordered;

        assert_int_equal(rdx_body_check(data, both, &ordered), 6);
        assert_false(ordered);
        for (size_t len = 0; len < both; len++)
                assert_int_equal(rdx_body_check(data, len, &ordered), len == first ? 3 : -EBADMSG);
        add_message(data + first, 3, 3, 0, 8); /* of another batch */
        assert_int_equal(rdx_body_check(data, both, &ordered), -EBADMSG);
        add_message(data + first, 4, 3, 0, 9); /* leaves one out */
        assert_int_equal(rdx_body_check(data, both, &ordered), -EBADMSG);
        for (size_t at = 8; at < 16; at++) { /* a request number */
                add_message(data, 0, 3, 0, 9);
                data[at] = 1;
                assert_int_equal(rdx_body_check(data, first, &ordered), -EBADMSG);
        }
        for (size_t at = 28; at < 56; at++) { /* deadline, window */
                add_message(data, 0, 3, 0, 9);
                data[at] = 1;
                assert_int_equal(rdx_body_check(data, first, &ordered), -EBADMSG);
        }
        add_message(data, 0, 3, 0, 9);
        data[56 + 24] = 1; /* the place of an entry */
        assert_int_equal(rdx_body_check(data, first, &ordered), -EBADMSG);
}

static void a_frame_there_and_back(void **state)
{
        struct rdx_result result = {.index = 7, .status = 206, .bytes = 5, .size = 99, .etag = text("e")}, back;
        uint8_t out[RDX_FRAME_HEAD_MOST], tail[RDX_FRAME_TAIL];
        uint32_t crc;
        size_t len = rdx_frame_head(&result, out);

        assert_int_equal(rdx_frame_length(out), len - 4);
        assert_int_equal(rdx_result_decode(out + 4, len - 4, &back), len - 4);
        assert_int_equal(back.index, 7);
        assert_int_equal(back.bytes, 5);
        assert_int_equal(back.size, 99);
        assert_memory_equal(back.etag.data, "e", 1);
        rdx_frame_tail(0x12345678, tail);
        assert_int_equal(rdx_frame_tail_read(tail, &crc), 0);
        assert_int_equal(crc, 0x12345678);
        tail[5] = 1;
        assert_int_equal(rdx_frame_tail_read(tail, &crc), -EBADMSG);
}

static void lengths_that_no_frame_has(void **state)
{
        assert_int_equal(rdx_frame_length((const uint8_t[]){0, 0, 0, 0}), 0);
        assert_int_equal(rdx_frame_length((const uint8_t[]){31, 0, 0, 0}), -EBADMSG);
        assert_int_equal(rdx_frame_length((const uint8_t[]){32, 0, 0, 0}), 32);
        assert_int_equal(rdx_frame_length((const uint8_t[]){160, 0, 0, 0}), 160);
        assert_int_equal(rdx_frame_length((const uint8_t[]){161, 0, 0, 0}), -EBADMSG);
        assert_int_equal(rdx_frame_length((const uint8_t[]){32, 0, 0, 128}), -EBADMSG);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(entries_of_all_messages_come_in_order),
                cmocka_unit_test(what_is_no_body),
                cmocka_unit_test(a_frame_there_and_back),
                cmocka_unit_test(lengths_that_no_frame_has),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
