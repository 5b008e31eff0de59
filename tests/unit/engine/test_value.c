/*
 * test_value.c - values, parts and escaped names: every length that outside data can give.
 */
#include <errno.h>
#include <stddef.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive/drive.h"

#include <setjmp.h>
#include <cmocka.h>

struct bytes {
        uint8_t at[4096];
        size_t len;
};

static void add(struct bytes *b, const void *from, size_t len)
{
        memcpy(b->at + b->len, from, len);
        b->len += len;
}

static const struct fmt_part part_10m = {.number = 1,
                                         .k = 2,
                                         .m = 1,
                                         .attrs_len = 3,
                                         .runs = 1,
                                         .unit = 1u << 20,
                                         .last_unit = 1u << 20,
                                         .size = 10u << 20};

static void add_part(struct bytes *b, const struct fmt_part *part, unsigned attrs, unsigned drives)
{
        uint8_t zeroes[64] = {0};

        add(b, part, sizeof(*part));
        add(b, zeroes, attrs);
        add(b, zeroes, 2 * drives);
}

/* A value of two parts with attrs. */
static struct bytes make_value(void)
{
        struct fmt_value value = {.space = FMT_SPACE_OBJECT, .attrs_len = 5, .parts = 2, .size = 20u << 20};
        struct bytes b = {.len = 0};

        add(&b, &value, sizeof(value));
        add(&b, "attrs", 5);
        add_part(&b, &part_10m, 3, 3);
        add_part(&b, &part_10m, 3, 3);
        return b;
}

static void test_check(void **state)
{
        struct bytes b = make_value();
        struct fmt_value *value = (struct fmt_value *)b.at;
        size_t i;

        assert_int_equal(eng_value_check(b.at, b.len), 0);
        for (i = 0; i < b.len; i++)
                assert_int_equal(eng_value_check(b.at, i), -EBADMSG);
        assert_int_equal(eng_value_check(b.at, b.len + 1), -EBADMSG);
        value->parts = 1;
        assert_int_equal(eng_value_check(b.at, b.len), -EBADMSG);
        value->parts = 2;
        value->size++;
        assert_int_equal(eng_value_check(b.at, b.len), -EBADMSG);
        value->size--;
        value->space = 0;
        assert_int_equal(eng_value_check(b.at, b.len), -EBADMSG);
        value->space = FMT_SPACE_LAST + 1;
        assert_int_equal(eng_value_check(b.at, b.len), -EBADMSG);
        value->space = FMT_SPACE_PART;
        value->flags = FMT_VALUE_INLINE; /* has parts */
        assert_int_equal(eng_value_check(b.at, b.len), -EBADMSG);
        value->flags = 0;
        value->inline_len = 1;
        assert_int_equal(eng_value_check(b.at, b.len), -EBADMSG);
        value->inline_len = 0;
        value->attrs_len = ENG_ATTRS_MAX + 1;
        assert_int_equal(eng_value_check(b.at, b.len), -EBADMSG);
}

/* Rules that no bucket can have are damage, never those of a bucket without any. */
static void test_rules(void **state)
{
        const struct fmt_bucket_rules good = {.generation = 3, .versioning = FMT_VERSIONING_ENABLED, .lock = 1,
                                              .retention_mode = FMT_RETENTION_COMPLIANCE, .retention_unit = FMT_RETENTION_YEARS,
                                              .retention = 100};
        struct fmt_bucket_rules bad[9], again;
        struct eng_bucket_rules rules;
        unsigned i;

        for (i = 0; i < 9; i++)
                bad[i] = good;
        bad[0].generation = 0;
        bad[1].versioning = 3;
        bad[2].versioning = FMT_VERSIONING_SUSPENDED;
        bad[3].lock = 2;
        bad[4].lock = 0; /* with a default retention */
        bad[5].retention_mode = 3;
        bad[6].retention_unit = 2;
        bad[7].retention = 101;
        bad[8].retention_mode = 0; /* with a period */
        for (i = 0; i < 9; i++)
                assert_int_equal(eng_rules_decode((const uint8_t *)&bad[i], sizeof(bad[i]), &rules), -EBADMSG);
        assert_int_equal(eng_rules_decode((const uint8_t *)&good, sizeof(good) - 1, &rules), -EBADMSG);
        assert_int_equal(eng_rules_decode((const uint8_t *)&good, sizeof(good), &rules), 0);
        assert_true(rules.lock && rules.versioning == ENG_VERSIONING_ENABLED && rules.default_mode == ENG_RETENTION_COMPLIANCE);
        assert_true(rules.default_years && rules.default_period == 100 && rules.generation == 3);
        again = eng_rules_encode(&rules);
        assert_memory_equal(&again, &good, sizeof(good));
}

static void test_inline(void **state)
{
        struct fmt_value value = {.space = FMT_SPACE_OBJECT, .flags = FMT_VALUE_INLINE, .size = 7, .inline_len = 7};

        assert_int_equal(eng_value_check(&value, sizeof(value)), 0);
        value.size = 8;
        assert_int_equal(eng_value_check(&value, sizeof(value)), -EBADMSG);
        value.size = value.inline_len = FMT_INLINE_MAX;
        assert_int_equal(eng_value_check(&value, sizeof(value)), 0);
        value.size = value.inline_len = FMT_INLINE_MAX + 1;
        assert_int_equal(eng_value_check(&value, sizeof(value)), -EBADMSG);
}

static int check_part(struct fmt_part part, unsigned drives)
{
        struct fmt_value value = {.space = FMT_SPACE_OBJECT, .parts = 1, .size = part.size};
        struct bytes b = {.len = 0};

        add(&b, &value, sizeof(value));
        add_part(&b, &part, part.attrs_len <= 64 ? part.attrs_len : 64, drives);
        return eng_value_check(b.at, b.len);
}

#define EXPECT_BAD(change)                                                                                             \
        do {                                                                                                           \
                part = part_10m;                                                                                       \
                part.change;                                                                                           \
                assert_int_equal(check_part(part, 3), -EBADMSG);                                                       \
        } while (0)

static void test_parts_that_make_no_sense(void **state)
{
        struct fmt_part part = part_10m;

        assert_int_equal(check_part(part, 3), 0);
        EXPECT_BAD(k = 0);
        EXPECT_BAD(k = 17);
        EXPECT_BAD(m = 9);
        EXPECT_BAD(unit = 0);
        EXPECT_BAD(unit = 4097);
        EXPECT_BAD(unit = FMT_UNIT_MAX + 4096);
        EXPECT_BAD(last_unit = 0);
        EXPECT_BAD(last_unit = FMT_UNIT_MAX + 4096);
        EXPECT_BAD(last_unit = 4096); /* too small for the rest */
        EXPECT_BAD(runs = 0);
        EXPECT_BAD(runs = 2);
        EXPECT_BAD(size = UINT64_MAX);
        EXPECT_BAD(number = 10001);
        EXPECT_BAD(attrs_len = ENG_ATTRS_MAX + 1);
        part = (struct fmt_part){.k = 2, .m = 1, .runs = 1}; /* empty */
        assert_int_equal(check_part(part, 3), 0);
        part.runs = 2;
        assert_int_equal(check_part(part, 6), -EBADMSG);
}

static void test_geometry(void **state)
{
        struct fmt_part part = {
                .k = 4, .m = 2, .runs = 1, .unit = 1u << 20, .last_unit = 8192, .size = (8u << 20) + 20000};
        uint8_t drives[2 * 2 * 3];
        struct eng_part decoded;
        unsigned i;

        assert_int_equal(eng_part_stripes(&part), 3);
        assert_int_equal(eng_part_unit(&part, 0), 1u << 20);
        assert_int_equal(eng_part_unit(&part, 1), 1u << 20);
        assert_int_equal(eng_part_unit(&part, 2), 8192);
        part.size = 0;
        assert_int_equal(eng_part_stripes(&part), 0);
        /* 2+1 over two runs of 512 stripes */
        part = (struct fmt_part){
                .k = 2, .m = 1, .runs = 2, .unit = 1u << 20, .last_unit = 1u << 20, .size = FMT_RUN_BYTES + 1};
        for (i = 0; i < 6; i++) {
                drives[2 * i] = (uint8_t)(i + 1);
                drives[2 * i + 1] = i == 5 ? 1 : 0;
        }
        decoded.head = part;
        decoded.drives = drives;
        decoded.width = 2;
        assert_int_equal(eng_part_stripes(&part), 513);
        assert_int_equal(eng_part_drive(&decoded, 0, 0), 1);
        assert_int_equal(eng_part_drive(&decoded, 511, 2), 3);
        assert_int_equal(eng_part_drive(&decoded, 512, 0), 4);
        assert_int_equal(eng_part_drive(&decoded, 512, 2), 0x106);
        assert_int_equal(eng_part_drive(&decoded, 1024, 0), 0xffff);
        assert_int_equal(eng_part_drive(&decoded, 0, 3), 0xffff);
}

static void test_next_part(void **state)
{
        struct bytes b = make_value();
        struct eng_part part;
        size_t pos = 0;

        assert_int_equal(eng_value_next_part(b.at, b.len, &pos, &part), 1);
        assert_int_equal(part.head.size, 10u << 20);
        assert_ptr_equal(part.attrs, b.at + sizeof(struct fmt_value) + 5 + sizeof(struct fmt_part));
        assert_int_equal(eng_value_next_part(b.at, b.len, &pos, &part), 1);
        assert_int_equal(eng_value_next_part(b.at, b.len, &pos, &part), 0);
        pos = b.len + 1;
        assert_int_equal(eng_value_next_part(b.at, b.len, &pos, &part), -EBADMSG);
        pos = 0;
        assert_int_equal(eng_value_next_part(b.at, 10, &pos, &part), -EBADMSG);
}

/*
 * A byte a drive: read back like the wide form, 0xff is missing, and the flag is not part of the
 * number.
 */
static void test_narrow_drives(void **state)
{
        struct fmt_value value = {.space = FMT_SPACE_OBJECT, .parts = 1, .size = 10u << 20};
        const uint8_t drives[] = {0, 63, 0xff};
        struct bytes b = {.len = 0};
        struct fmt_part head = part_10m;
        struct eng_part part;
        size_t pos = 0;

        head.number |= FMT_PART_NARROW;
        head.attrs_len = 0;
        add(&b, &value, sizeof(value));
        add(&b, &head, sizeof(head));
        add(&b, drives, sizeof(drives));
        assert_int_equal(eng_value_check(b.at, b.len), 0);
        assert_int_equal(eng_value_check(b.at, b.len - 1), -EBADMSG);
        assert_int_equal(eng_value_next_part(b.at, b.len, &pos, &part), 1);
        assert_int_equal(part.head.number, 1);
        assert_int_equal(eng_part_drive(&part, 0, 0), 0);
        assert_int_equal(eng_part_drive(&part, 4, 1), 63);
        assert_int_equal(eng_part_drive(&part, 4, 2), ENG_NO_DRIVE);
        eng_part_slot_set(b.at + (part.drives - b.at), part.width, 2, 5);
        assert_int_equal(eng_part_drive(&part, 0, 2), 5);
        eng_part_slot_set(b.at + (part.drives - b.at), part.width, 0, ENG_NO_DRIVE);
        assert_int_equal(eng_part_drive(&part, 0, 0), ENG_NO_DRIVE);
}

/* attrs, a field of 3 bytes and its padding, an empty field, a part. */
static struct bytes make_fields(void)
{
        struct fmt_value value = {
                .space = FMT_SPACE_OBJECT, .attrs_len = 5, .fields_len = 12, .parts = 1, .size = 10u << 20};
        struct fmt_field known = {.kind = FMT_FIELD_TAGS, .len = 3}, newer = {.kind = 999, .len = 0};
        struct bytes b = {.len = 0};

        add(&b, &value, sizeof(value));
        add(&b, "attrs", 5);
        add(&b, &known, sizeof(known));
        add(&b, "abc\0", 4);
        add(&b, &newer, sizeof(newer));
        add_part(&b, &part_10m, 3, 3);
        return b;
}

static void test_fields(void **state)
{
        struct bytes b = make_fields();
        struct fmt_value *value = (struct fmt_value *)b.at;
        struct fmt_field field;
        struct eng_part part;
        const uint8_t *data;
        size_t pos = 0, i;

        assert_int_equal(eng_value_check(b.at, b.len), 0);
        for (i = 0; i < b.len; i++)
                assert_int_equal(eng_value_check(b.at, i), -EBADMSG);
        assert_int_equal(eng_value_next_field(b.at, b.len, &pos, &field, &data), 1);
        assert_int_equal(field.kind, FMT_FIELD_TAGS);
        assert_memory_equal(data, "abc", 3);
        assert_int_equal(eng_value_next_field(b.at, b.len, &pos, &field, &data), 1);
        assert_int_equal(field.kind, 999); /* of a later version: kept */
        assert_int_equal(eng_value_next_field(b.at, b.len, &pos, &field, &data), 0);
        pos = 0;
        assert_int_equal(eng_value_next_part(b.at, b.len, &pos, &part), 1);
        assert_int_equal(part.head.size, 10u << 20);
        value->fields_len = 8; /* ends inside a field */
        assert_int_equal(eng_value_check(b.at, b.len), -EBADMSG);
        value->fields_len = 10;
        assert_int_equal(eng_value_check(b.at, b.len), -EBADMSG);
        value->fields_len = (uint16_t)(FMT_FIELDS_MAX + 4);
        assert_int_equal(eng_value_check(b.at, b.len), -EBADMSG);
        value->fields_len = 12;
        b.at[sizeof(*value) + 5] = 0; /* kind 0 */
        assert_int_equal(eng_value_check(b.at, b.len), -EBADMSG);
        b = make_fields();
        value->state = FMT_STATE_MARKER; /* nobody writes it yet */
        assert_int_equal(eng_value_check(b.at, b.len), -EBADMSG);
}

static int compare(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
        int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

        return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static void test_escape(void **state)
{
        uint8_t a[8], b[8], ea[32], eb[32], back[32];
        size_t a_len, b_len, ea_len, eb_len, consumed, i;
        unsigned round, seed = 1;

        for (round = 0; round < 20000; round++) {
                a_len = (size_t)rand_r(&seed) % 5;
                b_len = (size_t)rand_r(&seed) % 5;
                for (i = 0; i < 5; i++) {
                        static const uint8_t letters[] = {0, 1, 0xff, 'a'};

                        a[i] = letters[rand_r(&seed) % 4];
                        b[i] = letters[rand_r(&seed) % 4];
                }
                ea_len = eng_name_escape(ea, a, a_len);
                ea[ea_len++] = 0;
                ea[ea_len++] = 1;
                eb_len = eng_name_escape(eb, b, b_len);
                eb[eb_len++] = 0;
                eb[eb_len++] = 1;
                assert_int_equal(compare(a, a_len, b, b_len) < 0, compare(ea, ea_len, eb, eb_len) < 0);
                ea[ea_len] = 77;
                assert_int_equal(eng_name_unescape(back, ea, ea_len + 1, &consumed), a_len);
                assert_int_equal(consumed, ea_len);
                assert_memory_equal(back, a, a_len);
        }
        assert_int_equal(eng_name_unescape(back, "abc", 3, &consumed), (size_t)-1);
        assert_int_equal(eng_name_unescape(back, "ab\0", 3, &consumed), (size_t)-1);
        assert_int_equal(eng_name_unescape(back, "ab\0\2", 4, &consumed), (size_t)-1);
}

/* A listing says the same by the short form as by the value, at any address; what it does not tell is empty. */
static void test_short_form(void **state)
{
        uint8_t bytes[sizeof(struct fmt_value) + 1], listed[sizeof(struct eng_listed) + 1];
        struct eng_object whole, brief, expected;
        struct eng_listed made;
        unsigned round, i;

        srandom(1);
        for (round = 0; round < 500; round++) {
                struct fmt_value value = {.space = FMT_SPACE_OBJECT};

                for (i = 0; i < sizeof(value.etag); i++)
                        value.etag[i] = (uint8_t)random();
                for (i = 0; i < sizeof(value.tag); i++)
                        value.tag[i] = (uint8_t)random();
                memset(value.id, 7, sizeof(value.id));
                value.size = (uint64_t)random() << round % 33;
                value.mtime_ms = random() - round;
                value.etag_parts = (uint16_t)random();
                value.parts = value.etag_parts;
                value.state = (uint32_t)random() & FMT_STATE_KNOWN;
                memcpy(bytes + round % 2, &value, sizeof(value));
                eng_encoded_object(bytes + round % 2, sizeof(value), &whole);
                eng_listed_of(bytes + round % 2, &made);
                memcpy(listed + round % 2, &made, sizeof(made));
                eng_listed_object(listed + round % 2, &brief);
                memset(&expected, 0, sizeof(expected));
                expected.size = whole.size;
                expected.mtime_ms = whole.mtime_ms;
                memcpy(expected.etag, whole.etag, sizeof(whole.etag));
                memcpy(expected.tag, whole.tag, sizeof(whole.tag));
                expected.etag_parts = whole.etag_parts;
                expected.marker = whole.marker;
                expected.hold = whole.hold;
                expected.hold_known = whole.hold_known;
                assert_memory_equal(&brief, &expected, sizeof(brief));
        }
}

static void test_buf(void **state)
{
        struct eng_buf *buf = eng_buf_new(5), *again;

        assert_non_null(buf);
        assert_int_equal(buf->len, 5);
        again = eng_buf_ref(buf);
        eng_buf_unref(buf);
        memcpy(again->data, "12345", 5);
        eng_buf_unref(again);
        eng_buf_unref(NULL);
        assert_null(eng_buf_new((size_t)UINT32_MAX + 1));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_check),
                cmocka_unit_test(test_rules),
                cmocka_unit_test(test_inline),
                cmocka_unit_test(test_parts_that_make_no_sense),
                cmocka_unit_test(test_geometry),
                cmocka_unit_test(test_next_part),
                cmocka_unit_test(test_narrow_drives),
                cmocka_unit_test(test_fields),
                cmocka_unit_test(test_short_form),
                cmocka_unit_test(test_escape),
                cmocka_unit_test(test_buf),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
