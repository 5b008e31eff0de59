/*
 * test_tags.c - s3/tags.c: rules of tags, Tagging, x-amz-tagging, the stored form.
 */
#include "tests/unit/s3/doc_fixture.h"

#define TAG(key, value)  "<Tag><Key>" key "</Key><Value>" value "</Value></Tag>"
#define TAGGING(inside)  "<Tagging><TagSet>" inside "</TagSet></Tagging>"
#define KEY_MESSAGE      "The TagKey you have provided is invalid"
#define VALUE_MESSAGE    "The TagValue you have provided is invalid"
#define REPEATED_MESSAGE "Cannot provide multiple Tags with the same key"
#define OBJECT_MESSAGE   "Object tags cannot be greater than 10"
#define BUCKET_MESSAGE   "Bucket tag count cannot be greater than 50"
#define HEADER_MESSAGE                                                                                                 \
        "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name "  \
        "duplicates."

static void expect_tag(const struct s3_tag *tag, const char *key, const char *value)
{
        expect_str(tag->key, key);
        expect_str(tag->value, value);
        assert_non_null(tag->value.data);
}

/* count times the text, for lengths. */
static char *times(const char *text, unsigned count)
{
        size_t len = strlen(text);
        char *all = malloc(len * count + 1);

        assert_non_null(all);
        for (unsigned i = 0; i < count; i++)
                memcpy(all + i * len, text, len);
        all[len * count] = '\0';
        return all;
}

static enum s3_error check_one(const char *key, const char *value, const char **message)
{
        struct s3_tags tags = {.count = 1, .tag = {{heap_copy(key, strlen(key)), heap_copy(value, strlen(value))}}};
        enum s3_error error;

        *message = NULL;
        error = s3_tags_check(&tags, S3_OBJECT_TAGS_MAX, message);
        heap_free(tags.tag[0].key);
        heap_free(tags.tag[0].value);
        return error;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void test_characters(void **state)
{
        static const char *const good[] = {"a",        "Z9 +-=._:/@", "\xc3\xa9",        "\xe4\xbd\xa0", "\xed\x9e\xa3",
                                           "\xd9\xa3", "\xc2\xa0",    "\xf0\x90\x8c\xb0"};
        static const char *const bad[] = {
                "a&b",          "<",    "\"",   "a\tb",         "a\nb", "%", "a,b", "*", "\xf0\x9f\x98\x80",
                "\xe2\x82\xac", "\xff", "\xc3", "\xed\xa0\x80", "\x7f"};
        const char *message;

        for (size_t i = 0; i < COUNT(good); i++) {
                assert_int_equal(check_one(good[i], good[i], &message), S3_OK);
                assert_null(message);
        }
        assert_int_equal(check_one("k", "", &message), S3_OK);
        assert_int_equal(check_one("", "v", &message), S3_ERR_INVALID_TAG);
        for (size_t i = 0; i < COUNT(bad); i++) {
                assert_int_equal(check_one(bad[i], "v", &message), S3_ERR_INVALID_TAG);
                assert_string_equal(message, KEY_MESSAGE);
                assert_int_equal(check_one("k", bad[i], &message), S3_ERR_INVALID_TAG);
                assert_string_equal(message, VALUE_MESSAGE);
        }
}

/* Lengths are in UTF-16 units, whatever a character takes in UTF-8. */
static void test_lengths(void **state)
{
        static const struct {
                const char *text;
                unsigned units;
        } characters[] = {{"a", 1}, {"\xc3\xa9", 1}, {"\xe4\xbd\xa0", 1}, {"\xf0\x90\x8c\xb0", 2}};
        const char *message;

        for (size_t i = 0; i < COUNT(characters); i++) {
                const char *text = characters[i].text;
                char *key = times(text, S3_TAG_KEY_MAX / characters[i].units);
                char *value = times(text, S3_TAG_VALUE_MAX / characters[i].units);
                char *long_key = times(text, S3_TAG_KEY_MAX / characters[i].units + 1);
                char *long_value = times(text, S3_TAG_VALUE_MAX / characters[i].units + 1);

                assert_int_equal(s3_utf16_len(s3_str_of(key)), S3_TAG_KEY_MAX);
                assert_true(strlen(key) <= S3_TAG_KEY_BYTES && strlen(value) <= S3_TAG_VALUE_BYTES);
                assert_int_equal(check_one(key, value, &message), S3_OK);
                assert_int_equal(check_one(long_key, value, &message), S3_ERR_INVALID_TAG);
                assert_string_equal(message, KEY_MESSAGE);
                assert_int_equal(check_one(key, long_value, &message), S3_ERR_INVALID_TAG);
                assert_string_equal(message, VALUE_MESSAGE);
                free(key);
                free(value);
                free(long_key);
                free(long_value);
        }
}

static void test_reserved(void **state)
{
        const char *message;

        assert_int_equal(check_one("aws:x", "v", &message), S3_ERR_INVALID_TAG);
        assert_string_equal(message, "Your TagKey cannot be prefixed with aws:");
        assert_int_equal(check_one("AwS:", "v", &message), S3_ERR_INVALID_TAG);
        assert_int_equal(check_one("aws", "aws:v", &message), S3_OK);
        expect_refused(S3_DOC_BUCKET_TAGGING, TAGGING(TAG("aws:x", "")), S3_ERR_INVALID_TAG,
                       "System tags cannot be added/updated by requester");
}

/* Tags that came from elsewhere than a document. */
static void test_count(void **state)
{
        const struct s3_tags tags = {.count = 11};
        const char *message = NULL;

        assert_int_equal(s3_tags_check(&tags, S3_OBJECT_TAGS_MAX, &message), S3_ERR_BAD_REQUEST);
        assert_string_equal(message, OBJECT_MESSAGE);
}

static void test_have(void **state)
{
        struct s3_tags tags = {.count = 2, .tag = {{S3_STR("a"), S3_STR("1")}, {S3_STR("b"), S3_STR("")}}};

        assert_true(s3_tags_have(&tags, &(struct s3_tag){S3_STR("a"), S3_STR("1")}));
        assert_true(s3_tags_have(&tags, &(struct s3_tag){S3_STR("b"), S3_STR("")}));
        assert_false(s3_tags_have(&tags, &(struct s3_tag){S3_STR("a"), S3_STR("2")}));
        assert_false(s3_tags_have(&tags, &(struct s3_tag){S3_STR("A"), S3_STR("1")}));
        assert_false(s3_tags_have(&tags, &(struct s3_tag){S3_STR("c"), S3_STR("1")}));
}

/* ---- Tagging --------------------------------------------------------------------------------- */

static void test_document(void **state)
{
        struct s3_xml xml;

        assert_int_equal(read_doc(S3_DOC_OBJECT_TAGGING, TAGGING("")), S3_OK);
        assert_int_equal(doc->tags.count, 0);
        assert_int_equal(read_doc(S3_DOC_OBJECT_TAGGING,
                                  "<Tagging xmlns='" S3_XML_NAMESPACE
                                  "'>\n<TagSet>\n" TAG(" a ", "x+y=z") "<Tag><Value/>"
                                                                       "<Key>b</Key></Tag></TagSet></Tagging>"),
                         S3_OK);
        assert_int_equal(doc->tags.count, 2);
        expect_tag(&doc->tags.tag[0], " a ", "x+y=z"); /* spaces belong to it */
        expect_tag(&doc->tags.tag[1], "b", "");
        s3_xml_init(&xml, 4096);
        s3_tags_write(&xml, &doc->tags);
        expect_written(&xml, "Tagging", "<TagSet>" TAG(" a ", "x+y=z") TAG("b", "") "</TagSet>");
}

static void test_document_refused(void **state)
{
        static const char *const malformed[] = {
                "<Tagging/>",
                "<TagSet/>",
                "<Tagging><Tag/></Tagging>",
                "<Tagging><TagSet/><TagSet/></Tagging>",
                TAGGING("<Tag/>"),
                TAGGING("<Tag><Key>a</Key></Tag>"),
                TAGGING("<Tag><Value>a</Value></Tag>"),
                TAGGING("<Tag><Key>a</Key><Key>a</Key><Value/></Tag>"),
                TAGGING("<Tag><Key><a/></Key><Value/></Tag>"),
                TAGGING("<Tag><Key>a</Key><Value/><Other/></Tag>"),
                TAGGING("text"),
                TAGGING(TAG("a", "1") "<Tag><Key>b</Key></Tag>"),
        };

        for (size_t i = 0; i < COUNT(malformed); i++)
                expect_refused(S3_DOC_OBJECT_TAGGING, malformed[i], S3_ERR_MALFORMED_XML, NULL);
        expect_refused(S3_DOC_OBJECT_TAGGING, "", S3_ERR_MISSING_REQUEST_BODY, NULL);
        expect_refused(S3_DOC_OBJECT_TAGGING, TAGGING(TAG("", "v")), S3_ERR_INVALID_TAG, KEY_MESSAGE);
        expect_refused(S3_DOC_OBJECT_TAGGING, TAGGING(TAG("k", "&lt;")), S3_ERR_INVALID_TAG, VALUE_MESSAGE);
        expect_refused(S3_DOC_OBJECT_TAGGING, TAGGING(TAG("a", "1") TAG("b", "1") TAG("a", "2")), S3_ERR_INVALID_TAG,
                       REPEATED_MESSAGE);
}

/* As many tags as are allowed, of the longest keys and values, as references; then one more. */
static void test_document_full(void **state)
{
        static const struct {
                enum s3_doc_kind kind;
                unsigned max;
                const char *message;
        } kinds[] = {{S3_DOC_OBJECT_TAGGING, S3_OBJECT_TAGS_MAX, OBJECT_MESSAGE},
                     {S3_DOC_BUCKET_TAGGING, S3_TAGS_MAX, BUCKET_MESSAGE}};
        char *key = times("&#x4f60;", S3_TAG_KEY_MAX - 2), *value = times("&#x4f60;", S3_TAG_VALUE_MAX);

        for (size_t i = 0; i < COUNT(kinds); i++) {
                size_t cap = 1u << 20, used = 0;
                char *text = malloc(cap);

                assert_non_null(text);
                used += (size_t)snprintf(text, cap, "<Tagging><TagSet>");
                for (unsigned j = 0; j < kinds[i].max; j++)
                        used += (size_t)snprintf(text + used, cap - used, TAG("%02u%s", "%s"), j, key, value);
                snprintf(text + used, cap - used, "</TagSet></Tagging>");
                assert_int_equal(read_doc(kinds[i].kind, text), S3_OK);
                assert_int_equal(doc->tags.count, kinds[i].max);
                assert_int_equal(doc->tags.tag[kinds[i].max - 1].value.len, S3_TAG_VALUE_BYTES);
                snprintf(text + used, cap - used, TAG("a", "b") "</TagSet></Tagging>");
                assert_int_equal(read_doc(kinds[i].kind, text), S3_ERR_BAD_REQUEST);
                assert_string_equal(doc->message, kinds[i].message);
                free(text);
        }
        free(key);
        free(value);
}

/* ---- header ---------------------------------------------------------------------------------- */

static char header_text[8192];
static struct s3_tags header_tags;

static enum s3_error read_header(const char *value, const char **message)
{
        struct s3_str copy = heap_copy(value, strlen(value));
        enum s3_error error;

        *message = NULL;
        assert_true(copy.len <= sizeof(header_text));
        error = s3_tags_header_parse(copy, header_text, copy.len, &header_tags, message);
        heap_free(copy);
        return error;
}

static void test_header(void **state)
{
        const char *message;

        assert_int_equal(read_header("", &message), S3_OK);
        assert_int_equal(header_tags.count, 0);
        assert_int_equal(read_header("&a=1&&b+c=%2B%3d&d&e=&%C3%A9=x=y&", &message), S3_OK);
        assert_int_equal(header_tags.count, 5);
        expect_tag(&header_tags.tag[0], "a", "1");
        expect_tag(&header_tags.tag[1], "b c", "+=");
        expect_tag(&header_tags.tag[2], "d", "");
        expect_tag(&header_tags.tag[3], "e", "");
        expect_tag(&header_tags.tag[4], "\xc3\xa9", "x=y");
        assert_int_equal(read_header("0=&1=&2=&3=&4=&5=&6=&7=&8=&9=", &message), S3_OK);
        assert_int_equal(header_tags.count, S3_OBJECT_TAGS_MAX);
}

static void test_header_refused(void **state)
{
        static const char *const malformed[] = {"=", "=v", "a=1&=", "a=1&a=2", "a=%4", "a=%zz", "%ff=1", "a=%C3"};
        const char *message;

        for (size_t i = 0; i < COUNT(malformed); i++) {
                assert_int_equal(read_header(malformed[i], &message), S3_ERR_INVALID_ARGUMENT);
                assert_string_equal(message, HEADER_MESSAGE);
        }
        assert_int_equal(read_header("0=&1=&2=&3=&4=&5=&6=&7=&8=&9=&a=", &message), S3_ERR_BAD_REQUEST);
        assert_string_equal(message, OBJECT_MESSAGE);
        assert_int_equal(read_header("a%26=1", &message), S3_ERR_INVALID_TAG);
        assert_string_equal(message, KEY_MESSAGE);
        assert_int_equal(read_header("a=%3C", &message), S3_ERR_INVALID_TAG);
        assert_string_equal(message, VALUE_MESSAGE);
        assert_int_equal(read_header("aws%3Aa=1", &message), S3_ERR_INVALID_TAG);
}

static void test_directive(void **state)
{
        const char *message = NULL;
        bool replace = true;

        assert_int_equal(s3_tagging_directive_parse((struct s3_str){NULL, 0}, &replace, &message), S3_OK);
        assert_false(replace);
        assert_int_equal(s3_tagging_directive_parse(S3_STR("REPLACE"), &replace, &message), S3_OK);
        assert_true(replace);
        assert_int_equal(s3_tagging_directive_parse(S3_STR("COPY"), &replace, &message), S3_OK);
        assert_false(replace);
        assert_null(message);
        assert_int_equal(s3_tagging_directive_parse(S3_STR("copy"), &replace, &message), S3_ERR_INVALID_ARGUMENT);
        assert_string_equal(message, "Unknown tagging directive.");
        assert_int_equal(s3_tagging_directive_parse(S3_STR(""), &replace, &message), S3_ERR_INVALID_ARGUMENT);
}

/* ---- stored ---------------------------------------------------------------------------------- */

static void test_stored_form(void **state)
{
        static const uint8_t form[] = {2, 1, 0, 2, 0, 'a', 'x', 'y', 2, 0, 0, 0, 0xc3, 0xa9};
        struct s3_tags tags = {.count = 2, .tag = {{S3_STR("a"), S3_STR("xy")}, {S3_STR("\xc3\xa9"), S3_STR("")}}};
        uint8_t bytes[sizeof(form)];
        struct s3_tags read;

        assert_int_equal(s3_tags_encode(&tags, bytes, sizeof(bytes)), sizeof(form));
        assert_memory_equal(bytes, form, sizeof(form));
        for (size_t cap = 0; cap < sizeof(form); cap++)
                assert_int_equal(s3_tags_encode(&tags, bytes, cap), -ENOBUFS);
        assert_int_equal(s3_tags_decode(form, sizeof(form), &read), 0);
        assert_int_equal(read.count, 2);
        expect_tag(&read.tag[0], "a", "xy");
        expect_tag(&read.tag[1], "\xc3\xa9", "");
        assert_int_equal(s3_tags_encode(&(struct s3_tags){.count = 0}, bytes, 1), 1);
        assert_int_equal(s3_tags_decode(bytes, 1, &read), 0);
        assert_int_equal(read.count, 0);
}

static void test_stored_damaged(void **state)
{
        static const uint8_t form[] = {2, 1, 0, 2, 0, 'a', 'x', 'y', 2, 0, 0, 0, 0xc3, 0xa9};
        static const struct {
                uint8_t bytes[8];
                size_t len;
        } damaged[] = {
                {{1, 0, 0, 0, 0}, 5},      /* an empty key */
                {{0, 0}, 2},               /* more than there should be */
                {{51, 0}, 1},              /* too many */
                {{1, 0x81, 1, 0, 0}, 5},   /* a key that is too long */
                {{1, 1, 0, 1, 3, 'a'}, 6}, /* a value that is too long */
                {{1, 1, 0, 1, 0, 'a'}, 6},
                {{1, 255, 255, 255, 255, 'a'}, 6},
        };
        struct s3_tags read;

        for (size_t len = 0; len < sizeof(form); len++) {
                struct s3_str copy = heap_copy((const char *)form, len);

                assert_int_equal(s3_tags_decode(copy.data, len, &read), -EINVAL);
                heap_free(copy);
        }
        for (size_t i = 0; i < COUNT(damaged); i++) {
                struct s3_str copy = heap_copy((const char *)damaged[i].bytes, damaged[i].len);

                assert_int_equal(s3_tags_decode(copy.data, copy.len, &read), -EINVAL);
                heap_free(copy);
        }
}

/* Any bytes either are no tags, or are what these tags are stored as. */
static void test_stored_random(void **state)
{
        for (unsigned i = 0; i < 20000; i++) {
                uint8_t bytes[24], again[sizeof(bytes)];
                size_t len = 1 + random_next() % (sizeof(bytes) - 1);
                struct s3_tags read;

                for (size_t j = 0; j < len; j++)
                        bytes[j] = (uint8_t)(random_next() % 4);
                if (s3_tags_decode(bytes, len, &read) == 0) {
                        assert_int_equal(s3_tags_encode(&read, again, sizeof(again)), len);
                        assert_memory_equal(again, bytes, len);
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_characters),
                cmocka_unit_test(test_lengths),
                cmocka_unit_test(test_reserved),
                cmocka_unit_test(test_count),
                cmocka_unit_test(test_have),
                cmocka_unit_test(test_document),
                cmocka_unit_test(test_document_refused),
                cmocka_unit_test(test_document_full),
                cmocka_unit_test(test_header),
                cmocka_unit_test(test_header_refused),
                cmocka_unit_test(test_directive),
                cmocka_unit_test(test_stored_form),
                cmocka_unit_test(test_stored_damaged),
                cmocka_unit_test(test_stored_random),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, teardown);
}
