/*
 * test_message.c - messages of the control queue pair: what is written is read back, and what is
 * not as it should be is refused.
 */
#include "tests/unit/rdma/rdma_fixture.h"

static uint8_t buf[RDX_MESSAGE_MAX + 1];
static struct rdx_writer writer;
static struct rdx_reader reader;
static const struct rdx_message batch_head = {
        .type = RDX_BATCH,
        .flags = RDX_ORDERED,
        .number = 0x1122334455667788,
        .batch = 7,
        .first = 3,
        .replies = 2,
        .deadline_ms = 900,
        .window = {.address = 0x10000, .length = 0x8000, .rkey = 0xcafe},
};

static struct rdx_entry entry_of(const char *key)
{
        struct rdx_entry entry = {.bucket = BYTES("dataset"), .offset = 0x100, .length = 0x200};

        entry.key = (struct rdx_bytes){key, strlen(key)};
        return entry;
}

static void assert_bytes(struct rdx_bytes bytes, const char *expected)
{
        assert_int_equal(bytes.len, strlen(expected));
        assert_memory_equal(bytes.data, expected, bytes.len);
}

/* A BATCH of three entries in buf; its length. */
static size_t make_batch(void)
{
        struct rdx_entry entry = entry_of("a");

        rdx_writer_open(&writer, buf, &batch_head);
        assert_int_equal(rdx_writer_entry(&writer, &entry), 0);
        entry = entry_of("b/c");
        entry.range_first = 5;
        entry.range_length = 10;
        entry.if_match = BYTES("0123-4");
        assert_int_equal(rdx_writer_entry(&writer, &entry), 0);
        entry = entry_of("d");
        entry.bucket = BYTES("other");
        entry.suffix = true;
        entry.range_length = 9;
        entry.version_id = BYTES("v1");
        assert_int_equal(rdx_writer_entry(&writer, &entry), 0);
        return rdx_writer_finish(&writer);
}

static size_t make_results(void)
{
        struct rdx_message head = {.type = RDX_RESULT, .flags = RDX_LAST, .number = 9, .batch = 7, .first = 1};
        struct rdx_result result = {.index = 4,
                                    .status = 206,
                                    .crc32c = 0xdeadbeef,
                                    .bytes = 10,
                                    .size = 1ull << 40,
                                    .etag = BYTES("0123-4"),
                                    .version_id = BYTES("v1")};

        rdx_writer_open(&writer, buf, &head);
        assert_int_equal(rdx_writer_result(&writer, &result), 0);
        result = (struct rdx_result){.index = 5, .status = 400, .code = RDX_CODE_PLACE_TOO_SMALL, .size = 99};
        assert_int_equal(rdx_writer_result(&writer, &result), 0);
        return rdx_writer_finish(&writer);
}

static void test_a_batch_there_and_back(void **state)
{
        size_t len = make_batch();
        struct rdx_entry entry;

        assert_int_equal(len, 56 + (40 + 7 + 1) + (40 + 3 + 6) + (40 + 5 + 1 + 2));
        assert_int_equal(rdx_reader_open(&reader, buf, len), 0);
        assert_int_equal(rdx_reader_check(&reader), 0);
        assert_true(reader.message.number == batch_head.number);
        assert_int_equal(reader.message.count, 3);
        assert_int_equal(reader.message.first, 3);
        assert_int_equal(reader.message.replies, 2);
        assert_int_equal(reader.message.deadline_ms, 900);
        assert_int_equal(reader.message.batch, 7);
        assert_int_equal(reader.message.window.rkey, 0xcafe);
        assert_int_equal(rdx_reader_entry(&reader, &entry), 1);
        assert_bytes(entry.bucket, "dataset");
        assert_bytes(entry.key, "a");
        assert_true(entry.range_length == 0 && entry.offset == 0x100 && entry.length == 0x200);
        assert_int_equal(rdx_reader_entry(&reader, &entry), 1);
        assert_bytes(entry.bucket, "dataset"); /* as before */
        assert_bytes(entry.key, "b/c");
        assert_bytes(entry.if_match, "0123-4");
        assert_true(entry.range_first == 5 && entry.range_length == 10 && !entry.suffix);
        assert_int_equal(rdx_reader_entry(&reader, &entry), 1);
        assert_bytes(entry.bucket, "other");
        assert_bytes(entry.version_id, "v1");
        assert_true(entry.suffix && entry.range_length == 9);
        assert_int_equal(rdx_reader_entry(&reader, &entry), 0);
}

/* The drawing of docs/rdma-protocol.md, so that another's client agrees. */
static void test_a_batch_byte_for_byte(void **state)
{
        static const uint8_t expected[] = {
                1, 0, 1, 1, 104, 0, 0,    0,    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 7,   0,   0,   0,  1,
                0, 3, 0, 2, 0,   0, 0,    0x84, 3,    0,    0,    0,    0,    1,    0,    0,    0,   0,   0,   0,  0x80,
                0, 0, 0, 0, 0,   0, 0xfe, 0xca, 0,    0,    0,    0,    0,    0,    1,    0,    7,   0,   0,   0,  0,
                0, 0, 0, 0, 0,   0, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,   0,   1,   0,  0,
                0, 0, 0, 0, 0,   2, 0,    0,    0,    0,    0,    0,    'd',  'a',  't',  'a',  's', 'e', 't', 'a'};
        struct rdx_entry entry = entry_of("a");

        rdx_writer_open(&writer, buf, &batch_head);
        assert_int_equal(rdx_writer_entry(&writer, &entry), 0);
        assert_int_equal(rdx_writer_finish(&writer), sizeof(expected));
        assert_memory_equal(buf, expected, sizeof(expected));
}

static void test_results_there_and_back(void **state)
{
        size_t len = make_results();
        struct rdx_result result;

        assert_int_equal(len, 32 + (32 + 6 + 2) + 32);
        assert_int_equal(rdx_reader_open(&reader, buf, len), 0);
        assert_int_equal(rdx_reader_check(&reader), 0);
        assert_int_equal(reader.message.flags, RDX_LAST);
        assert_int_equal(reader.message.first, 1);
        assert_int_equal(rdx_reader_result(&reader, &result), 1);
        assert_int_equal(result.index, 4);
        assert_int_equal(result.status, 206);
        assert_true(result.crc32c == 0xdeadbeef && result.bytes == 10 && result.size == 1ull << 40);
        assert_bytes(result.etag, "0123-4");
        assert_bytes(result.version_id, "v1");
        assert_int_equal(rdx_reader_result(&reader, &result), 1);
        assert_int_equal(result.code, RDX_CODE_PLACE_TOO_SMALL);
        assert_int_equal(result.etag.len, 0);
        assert_int_equal(rdx_reader_result(&reader, &result), 0);
}

static void test_a_notice(void **state)
{
        struct rdx_message head = {.type = RDX_NOTICE, .number = 5};

        rdx_writer_open(&writer, buf, &head);
        assert_int_equal(rdx_writer_finish(&writer), RDX_HEADER_LEN);
        assert_int_equal(rdx_reader_open(&reader, buf, RDX_HEADER_LEN), 0);
        assert_int_equal(rdx_reader_check(&reader), 0);
        assert_true(reader.message.number == 5);
        buf[24] = 1; /* replies */
        assert_int_equal(rdx_reader_open(&reader, buf, RDX_HEADER_LEN), -EBADMSG);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static int open_and_check(size_t len)
{
        int rv = rdx_reader_open(&reader, buf, len);

        return rv == 0 ? rdx_reader_check(&reader) : rv;
}

static void refuse16(size_t at, uint16_t value)
{
        size_t len = make_batch();

        memcpy(buf + at, &value, 2);
        if (open_and_check(len) != -EBADMSG)
                fail_msg("u16 %u at %zu was taken", value, at);
}

static void refuse64(size_t at, uint64_t value)
{
        size_t len = make_batch();

        memcpy(buf + at, &value, 8);
        if (open_and_check(len) != -EBADMSG)
                fail_msg("u64 %llu at %zu was taken", (unsigned long long)value, at);
}

static void test_bad_headers(void **state)
{
        assert_int_equal(open_and_check(make_batch()), 0);
        refuse16(0, 0); /* version */
        refuse16(0, 2);
        refuse16(2, 0x0000); /* type */
        refuse16(2, 0x0004);
        refuse16(2, 0x0201); /* LAST of a BATCH */
        refuse16(4, 56);     /* length */
        refuse16(20, 0);     /* count */
        refuse16(20, 2);     /* bytes left over */
        refuse16(20, 4);     /* and missing */
        refuse16(20, 257);
        refuse16(22, 1022); /* first + count */
        refuse16(24, 0);    /* replies */
        refuse16(24, 65);
        refuse16(26, 1);
        refuse16(52, 1);          /* zero behind the window's rkey */
        refuse64(40, UINT64_MAX); /* window runs over the end */
        refuse64(40, 0x100);      /* smaller than its places */
}

static void test_bad_entries(void **state)
{
        refuse16(56, 0); /* no key */
        refuse16(56, 1025);
        refuse16(58, 0);      /* the first one names no bucket */
        refuse16(58, 64);     /* bucket */
        refuse16(58, 0x4107); /* If-Match of 65 */
        refuse16(60, 65);     /* version id */
        refuse16(60, 0x0200); /* flags */
        refuse16(62, 1);
}

/* A suffix of nothing, a suffix that begins somewhere, a range that runs over the end. */
static void test_bad_ranges(void **state)
{
        size_t second = 56 + 48, third = second + 49;

        refuse64(third + 8, 1);
        refuse64(third + 16, 0);
        refuse64(second + 24, 0x8000); /* place behind the window */
        refuse64(second + 32, UINT64_MAX);
}

/* It is for the object's size to say what of such a range there is. */
static void test_ranges_that_pass_the_last_number(void **state)
{
        size_t second = 56 + 48, len;
        uint64_t first = UINT64_MAX, length = UINT64_MAX;

        len = make_batch();
        memcpy(buf + second + 8, &first, 8);
        assert_int_equal(open_and_check(len), 0);
        memcpy(buf + second + 16, &length, 8);
        assert_int_equal(open_and_check(len), 0);
        first = 1;
        memcpy(buf + second + 8, &first, 8);
        assert_int_equal(open_and_check(len), 0);
}

static void test_cut_and_stretched(void **state)
{
        size_t len = make_batch(), cut;
        uint32_t said;

        for (cut = 0; cut < len; cut++) {
                said = (uint32_t)cut;
                make_batch();
                assert_int_equal(open_and_check(cut), -EBADMSG);
                memcpy(buf + 4, &said, 4); /* and its header agrees */
                assert_int_equal(open_and_check(cut), -EBADMSG);
        }
        make_batch();
        said = (uint32_t)len + 1;
        memcpy(buf + 4, &said, 4);
        assert_int_equal(open_and_check(len + 1), -EBADMSG);
        assert_int_equal(rdx_reader_open(&reader, buf, RDX_MESSAGE_MAX + 1), -EBADMSG);
}

static void test_bad_results(void **state)
{
        size_t len = make_results();
        static const struct {
                size_t at;
                uint16_t value;
        } bad[] = {{32, 1024}, {34, 404}, {36, 1}, {38, 65},    {38, 65 << 8}, {44, 1},
                   {20, 1},    {20, 3},   {24, 1}, {2, 0x0102}, {72 + 16, 1} /* bytes of a failed one */};
        size_t i;

        for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                make_results();
                memcpy(buf + bad[i].at, &bad[i].value, 2);
                if (open_and_check(len) != -EBADMSG)
                        fail_msg("u16 %u at %zu was taken", bad[i].value, bad[i].at);
        }
}

/* ---- bounds of the writer -------------------------------------------------------------------- */

static void test_a_full_message(void **state)
{
        char key[RDX_KEY_MOST];
        struct rdx_entry entry = entry_of("x");
        unsigned taken = 0;
        size_t len;

        memset(key, 'k', sizeof(key));
        entry.key = (struct rdx_bytes){key, sizeof(key)};
        rdx_writer_open(&writer, buf, &batch_head);
        while (rdx_writer_entry(&writer, &entry) == 0)
                taken++;
        assert_int_equal(rdx_writer_entry(&writer, &entry), -ENOSPC);
        assert_int_equal(taken, (RDX_MESSAGE_MAX - 56 - 7) / (40 + RDX_KEY_MOST));
        len = rdx_writer_finish(&writer);
        assert_true(len <= RDX_MESSAGE_MAX);
        assert_int_equal(open_and_check(len), 0);
        assert_int_equal(reader.message.count, taken);
}

static void test_the_most_entries(void **state)
{
        struct rdx_message head = batch_head;
        struct rdx_entry entry = entry_of("x");
        unsigned i;
        size_t len;

        head.replies = RDX_MESSAGE_ENTRIES / RDX_RESULT_SHARE;
        rdx_writer_open(&writer, buf, &head);
        for (i = 0; i < RDX_MESSAGE_ENTRIES; i++)
                assert_int_equal(rdx_writer_entry(&writer, &entry), 0);
        assert_int_equal(rdx_writer_entry(&writer, &entry), -ENOSPC);
        len = rdx_writer_finish(&writer);
        assert_int_equal(open_and_check(len), 0);
        buf[24]--; /* too few replies for so many */
        assert_int_equal(open_and_check(len), -EBADMSG);
}

/* RDX_RESULT_SHARE entries fit, whatever their strings. */
static void test_a_reply_has_room_for_its_share(void **state)
{
        struct rdx_message head = {.type = RDX_RESULT};
        char text[RDX_ETAG_MOST];
        struct rdx_result result = {.status = 200, .etag = {text, sizeof(text)}, .version_id = {text, sizeof(text)}};
        unsigned i;

        memset(text, 'e', sizeof(text));
        rdx_writer_open(&writer, buf, &head);
        for (i = 0; i < RDX_RESULT_SHARE; i++)
                assert_int_equal(rdx_writer_result(&writer, &result), 0);
        assert_int_equal(open_and_check(rdx_writer_finish(&writer)), 0);
}

static void test_what_the_format_has_no_room_for(void **state)
{
        char text[RDX_KEY_MOST + 1];
        struct rdx_entry entry = entry_of("");
        struct rdx_result result = {.etag = {text, RDX_ETAG_MOST + 1}};

        memset(text, 'x', sizeof(text));
        rdx_writer_open(&writer, buf, &batch_head);
        assert_int_equal(rdx_writer_entry(&writer, &entry), -EINVAL);
        entry = entry_of("k");
        entry.key = (struct rdx_bytes){text, sizeof(text)};
        assert_int_equal(rdx_writer_entry(&writer, &entry), -EINVAL);
        entry = entry_of("k");
        entry.bucket.len = 0;
        assert_int_equal(rdx_writer_entry(&writer, &entry), -EINVAL);
        entry = entry_of("k");
        entry.suffix = true; /* of no bytes */
        assert_int_equal(rdx_writer_entry(&writer, &entry), -EINVAL);
        assert_int_equal(rdx_writer_result(&writer, &result), -EINVAL);
        assert_int_equal(writer.message.count, 0);
}

static void test_statuses(void **state)
{
        assert_int_equal(rdx_code_status(RDX_CODE_OK), 200);
        assert_int_equal(rdx_code_status(RDX_CODE_PRECONDITION_FAILED), 412);
        assert_int_equal(rdx_code_status(999), 500);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_batch_there_and_back),
                cmocka_unit_test(test_a_batch_byte_for_byte),
                cmocka_unit_test(test_results_there_and_back),
                cmocka_unit_test(test_a_notice),
                cmocka_unit_test(test_bad_headers),
                cmocka_unit_test(test_bad_entries),
                cmocka_unit_test(test_bad_ranges),
                cmocka_unit_test(test_ranges_that_pass_the_last_number),
                cmocka_unit_test(test_cut_and_stretched),
                cmocka_unit_test(test_bad_results),
                cmocka_unit_test(test_a_full_message),
                cmocka_unit_test(test_the_most_entries),
                cmocka_unit_test(test_a_reply_has_room_for_its_share),
                cmocka_unit_test(test_what_the_format_has_no_room_for),
                cmocka_unit_test(test_statuses),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
