/*
 * test_xml.c - s3/xml_write.c and s3/xml_read.c: what is written reads back, bounds hold, bombs do
 * not go off.
 */
#include "tests/unit/s3/s3_fixture.h"

/* ---- writer ---------------------------------------------------------------------------------- */

static void expect_xml(struct s3_xml *xml, const char *wanted)
{
        char *text;
        size_t len;

        assert_int_equal(s3_xml_take(xml, &text, &len), 0);
        expect_str((struct s3_str){text, len}, wanted);
        free(text);
        s3_xml_free(xml);
}

static void test_writer(void **state)
{
        struct s3_xml xml;

        s3_xml_init(&xml, 1 << 20);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, "R");
        s3_xml_textz(&xml, "A", "x & <y> \"z\" 'w'");
        s3_xml_uint(&xml, "N", UINT64_MAX);
        s3_xml_bool(&xml, "T", true);
        s3_xml_bool(&xml, "F", false);
        s3_xml_date(&xml, "D", 1369353600123);
        s3_xml_open(&xml, "O");
        s3_xml_raw(&xml, S3_STR("<raw/>"));
        s3_xml_escaped(&xml, S3_STR("a<b"));
        s3_xml_close(&xml, "O");
        s3_xml_key(&xml, "K", S3_STR("a b/+~\xc3\xa9"), true);
        s3_xml_key(&xml, "K", S3_STR("a b/+&\xc3\xa9"), false);
        s3_xml_key(&xml, "K", S3_STR(""), true);
        s3_xml_text(&xml, "E", s3_str_of(NULL));
        s3_xml_close(&xml, "R");
        expect_xml(&xml, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                         "<R xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                         "<A>x &amp; &lt;y&gt; &quot;z&quot; 'w'</A><N>18446744073709551615</N><T>true</T><F>false</F>"
                         "<D>2013-05-24T00:00:00.123Z</D><O><raw/>a&lt;b</O><K>a+b/%2B%7E%C3%A9</K>"
                         "<K>a b/+&amp;\xc3\xa9</K><K></K><E></E></R>");
}

static void test_controls(void **state)
{
        struct s3_xml xml;

        s3_xml_init(&xml, 1 << 20);
        s3_xml_escaped(&xml, (struct s3_str){"\0\x01\t\n\r\x1f\x7f", 7});
        s3_xml_escaped(&xml,
                       S3_STR("|\xff|\xc3|\xed\xa0\x80|\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd\xee\xbf\xbf|\xe2\x82"));
        expect_xml(&xml, "&#x0;&#x1;\t\n&#xd;&#x1f;\x7f|\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|"
                         "&#xfffe;&#xffff;\xef\xbf\xbd\xee\xbf\xbf|\xef\xbf\xbd\xef\xbf\xbd");
}

static void test_error_document(void **state)
{
        struct s3_xml xml;

        s3_xml_init(&xml, 1 << 20);
        s3_xml_error(&xml, S3_ERR_NO_SUCH_KEY, NULL, S3_STR("/b/<k>"), "REQ1", S3_STR("<Key>k</Key>"));
        expect_xml(&xml,
                   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchKey</Code><Message>The specified "
                   "key does not exist.</Message><Key>k</Key><Resource>/b/&lt;k&gt;</Resource>"
                   "<RequestId>REQ1</RequestId></Error>");
        s3_xml_error(&xml, S3_ERR_INVALID_ARGUMENT, "why & how", s3_str_of(NULL), NULL, s3_str_of(NULL));
        expect_xml(&xml, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>InvalidArgument</Code><Message>why "
                         "&amp; how</Message></Error>");
}

/* At every limit: either all of it or an error that sticks, never a byte more. */
static void test_writer_limits(void **state)
{
        static const char wanted[] = "<Key>a%20b</Key><K>%E2%82%AC%E2%82%AC+</K>";

        for (size_t limit = 0; limit <= sizeof(wanted); limit++) {
                struct s3_xml xml;
                char *text;
                size_t len;

                s3_xml_init(&xml, limit);
                s3_xml_textz(&xml, "Key", "a%20b");
                s3_xml_key(&xml, "K", S3_STR("\xe2\x82\xac\xe2\x82\xac "), true);
                if (limit >= sizeof(wanted) - 1 + 9) /* the key's encoding is reserved at its longest */
                        assert_int_equal(xml.error, 0);
                if (xml.error == 0) {
                        expect_xml(&xml, wanted);
                        continue;
                }
                assert_int_equal(xml.error, -ENOBUFS);
                assert_true(xml.len <= limit);
                s3_xml_open(&xml, "x");
                assert_int_equal(s3_xml_take(&xml, &text, &len), -ENOBUFS);
                s3_xml_free(&xml);
        }
}

static void test_empty_writer(void **state)
{
        struct s3_xml xml;
        char *text;
        size_t len;

        s3_xml_init(&xml, 10);
        s3_xml_raw(&xml, S3_STR(""));
        assert_int_equal(s3_xml_take(&xml, &text, &len), 0);
        assert_int_equal(len, 0);
        free(text);
}

/* ---- reader ---------------------------------------------------------------------------------- */

static char trace[8192];
static enum s3_error answer_to_x;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
        size_t used = strlen(trace);
        va_list args;

        va_start(args, format);
        vsnprintf(trace + used, sizeof(trace) - used, format, args);
        va_end(args);
}

static enum s3_error on_open(void *arg, unsigned depth, struct s3_str name)
{
        note("<%u%.*s", depth, (int)name.len, name.data);
        return s3_str_eq(name, S3_STR("openx")) ? answer_to_x : S3_OK;
}

static enum s3_error on_close(void *arg, unsigned depth, struct s3_str name, struct s3_str text)
{
        note(">%u%.*s=%.*s;", depth, (int)name.len, name.data, (int)text.len, text.data);
        return s3_str_eq(name, S3_STR("closex")) ? answer_to_x : S3_OK;
}

static const struct s3_xml_events events = {on_open, on_close};

static enum s3_error read_in_steps(struct s3_str text, size_t step, size_t body_max)
{
        struct s3_xml_reader *reader;
        enum s3_error error = S3_OK;

        trace[0] = '\0';
        assert_int_equal(s3_xml_reader_new(&events, NULL, body_max, &reader), 0);
        for (size_t at = 0; at < text.len && error == S3_OK; at += step) {
                struct s3_str piece = heap_copy(text.data + at, step < text.len - at ? step : text.len - at);

                error = s3_xml_reader_feed(reader, piece.data, piece.len);
                heap_free(piece);
        }
        if (error == S3_OK)
                error = s3_xml_reader_finish(reader);
        else
                assert_int_equal(s3_xml_reader_finish(reader), error);
        if (error != S3_OK)
                assert_int_equal(s3_xml_reader_feed(reader, "x", 1), error);
        s3_xml_reader_free(reader);
        return error;
}

static void expect_read(const char *text, const char *wanted)
{
        size_t len = strlen(text);

        for (size_t step = 1; step <= len; step++) {
                assert_int_equal(read_in_steps((struct s3_str){text, len}, step, 0), S3_OK);
                assert_string_equal(trace, wanted);
        }
}

static void test_reader(void **state)
{
        expect_read("<a/>", "<0a>0a=;");
        expect_read("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- c --><a x='1'> "
                    "<b>t&amp;&lt;&gt;&quot;&apos;&#65;&#x41;"
                    "</b>mixed<c><![CDATA[<raw>]]> x</c><?pi y?> </a>\n",
                    "<0a<1b>1b=t&<>\"'AA;<1c>1c=<raw> x;>0a=;");
        expect_read("<s:a xmlns:s='http://s3.amazonaws.com/doc/2006-03-01/'><s:b> t </s:b></s:a>",
                    "<0a<1b>1b= t ;>0a=;");
        expect_read("<a xmlns='urn:x'>\xc3\xa9\r\n&#13;</a>", "<0a>0a=\xc3\xa9\n\r;");
        expect_read("\xef\xbb\xbf<a>bom</a>", "<0a>0a=bom;");
        expect_read("<?xml version='1.0' encoding='ISO-8859-1'?><a>\xc3\xa9</a>", "<0a>0a=\xc3\xa9;");
}

static void test_malformed(void **state)
{
        static const char *const bad[] = {
                "",
                " ",
                "x",
                "<",
                "<a>",
                "<a></b>",
                "<a><b></a></b>",
                "<a/><b/>",
                "<a>&nope;</a>",
                "<a>&#0;</a>",
                "<a>&#1;</a>",
                "<a x=1/>",
                "<a>\x01</a>",
                "<a>\xff</a>",
                "<a>]]></a>",
                "a<a/>",
                "<a/>b",
                "<a>&</a>",
                "<a b='1' b='2'/>",
                "<!DOCTYPE a><a/>",
                "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
                "<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><a>&e;</a>",
                "<!DOCTYPE a [<!ENTITY b 'bb'><!ENTITY c '&b;&b;&b;&b;'>]><a>&c;</a>",
                "<?xml version='1.0' encoding='UTF-16'?><a>\xff\xfe</a>",
                "<?xml version='1.0'?><?xml version='1.0'?><a/>",
        };

        for (size_t i = 0; i < COUNT(bad); i++)
                for (size_t step = 1; step <= strlen(bad[i]) + 1; step++)
                        if (read_in_steps(s3_str_of(bad[i]), step, 0) != S3_ERR_MALFORMED_XML)
                                fail_msg("taken: %s in steps of %zu", bad[i], step);
}

/* A billion laughs ends at its document type, before an entity is declared. */
static void test_bomb(void **state)
{
        char bomb[4096] = "<!DOCTYPE lolz [<!ENTITY lol 'lol'>";

        for (int i = 1; i < 10; i++)
                snprintf(bomb + strlen(bomb), sizeof(bomb) - strlen(bomb),
                         "<!ENTITY lol%d '&lol%d;&lol%d;&lol%d;&lol%d;&lol%d;&lol%d;&lol%d;&lol%d;&lol%d;&lol%d;'>", i,
                         i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
        strcat(bomb, "]><lolz>&lol9;</lolz>");
        assert_int_equal(read_in_steps(s3_str_of(bomb), 4096, 0), S3_ERR_MALFORMED_XML);
        assert_string_equal(trace, "");
}

static void test_depth(void **state)
{
        char text[1024] = "";

        for (unsigned i = 0; i < S3_XML_DEPTH_MAX; i++)
                strcat(text, "<a>");
        for (unsigned i = 0; i < S3_XML_DEPTH_MAX; i++)
                strcat(text, "</a>");
        assert_int_equal(read_in_steps(s3_str_of(text), 7, 0), S3_OK);
        memmove(text + 3, text, strlen(text) + 1);
        strcat(text, "</a>");
        assert_int_equal(read_in_steps(s3_str_of(text), 7, 0), S3_ERR_MALFORMED_XML);
}

/*
 * Attributes and declarations of namespaces of one element count together; long ones are bounded
 * with their tag.
 */
static void test_attributes(void **state)
{
        static char text[40 << 10];

        for (unsigned spaces = 0; spaces <= S3_XML_ATTRIBUTES_MAX; spaces += 8) {
                for (unsigned more = 0; more < 2; more++) {
                        size_t used = (size_t)snprintf(text, sizeof(text), "<a");

                        for (unsigned i = 0; i < S3_XML_ATTRIBUTES_MAX + more; i++)
                                used += (size_t)snprintf(text + used, sizeof(text) - used,
                                                         i < spaces ? " xmlns:n%u='u:%u'" : " n%u='%u'", i, i);
                        snprintf(text + used, sizeof(text) - used, "><b x='1'/></a>");
                        assert_int_equal(read_in_steps(s3_str_of(text), 7, 0), more == 0 ? S3_OK : S3_ERR_MALFORMED_XML);
                }
        }
        for (unsigned len = 1u << 10; len < sizeof(text) - 64; len += 4u << 10) {
                size_t used = (size_t)snprintf(text, sizeof(text), "<a x='");

                memset(text + used, 'v', len);
                snprintf(text + used + len, sizeof(text) - used - len, "'/>");
                if (len < 12u << 10)
                        assert_int_equal(read_in_steps(s3_str_of(text), 512, 0), S3_OK);
                else if (len > 24u << 10)
                        assert_int_equal(read_in_steps(s3_str_of(text), 512, 0), S3_ERR_MALFORMED_XML);
        }
}

static void test_sizes(void **state)
{
        size_t cap = S3_XML_TEXT_MAX + 64;
        char *text = malloc(cap);
        size_t len;

        assert_non_null(text);
        memset(text, ' ', cap);
        memcpy(text, "<a>", 3);
        len = 3 + S3_XML_TEXT_MAX;
        memcpy(text + len, "</a>", 4);
        assert_int_equal(read_in_steps((struct s3_str){text, len + 4}, 1000, 0), S3_OK);
        text[len] = 'x';
        memcpy(text + len + 1, "</a>", 4);
        assert_int_equal(read_in_steps((struct s3_str){text, len + 5}, 1000, 0), S3_ERR_MALFORMED_XML);
        /* The same text between children is not kept, so it is fine. */
        memcpy(text, "<a><b/>", 7);
        memset(text + 7, ' ', len - 7);
        memcpy(text + len, "</a>", 4);
        assert_int_equal(read_in_steps((struct s3_str){text, len + 4}, 1000, 0), S3_OK);
        assert_int_equal(read_in_steps((struct s3_str){text, len + 4}, 1000, len + 4), S3_OK);
        assert_int_equal(read_in_steps((struct s3_str){text, len + 4}, 1000, len + 3), S3_ERR_MAX_MESSAGE_LENGTH);
        free(text);
}

/*
 * One token that goes on and on is refused before it costs much; white space between elements may.
 */
static void test_endless_tokens(void **state)
{
        static const char *const starts[] = {"<a><!--", "<a><?pi ", "<a b='",       "<a ",    "<a>&",
                                             "<",       "<a></",    "<a><![CDATA[", "<?xml ", "<!DOCTYPE "};
        const size_t len = 300u << 10;
        char *text = malloc(len + 16);

        assert_non_null(text);
        for (size_t i = 0; i < COUNT(starts); i++) {
                memset(text, 'x', len);
                memcpy(text, starts[i], strlen(starts[i]));
                assert_int_equal(read_in_steps((struct s3_str){text, len}, 50000, 0), S3_ERR_MALFORMED_XML);
        }
        memset(text, ' ', len);
        memcpy(text, "<a><b/>", 7);
        memcpy(text + len, "</a>", 4);
        assert_int_equal(read_in_steps((struct s3_str){text, len + 4}, 50000, 0), S3_OK);
        free(text);
}

static void test_callbacks_end_it(void **state)
{
        answer_to_x = S3_ERR_INVALID_PART_ORDER;
        assert_int_equal(read_in_steps(S3_STR("<a><openx/><b/></a>"), 3, 0), S3_ERR_INVALID_PART_ORDER);
        assert_string_equal(trace, "<0a<1openx");
        assert_int_equal(read_in_steps(S3_STR("<a><closex/><b/></a>"), 100, 0), S3_ERR_INVALID_PART_ORDER);
        assert_string_equal(trace, "<0a<1closex>1closex=;");
        answer_to_x = S3_OK;
        s3_xml_reader_free(NULL);
}

/* What the writer writes, the reader reads: all characters XML has. */
static void test_round_trip(void **state)
{
        for (int round = 0; round < 300; round++) {
                char text[600];
                struct s3_xml xml;
                size_t len = random_next() % 300;
                char *out;
                size_t out_len;

                for (size_t i = 0; i < len; i++) {
                        static const char interesting[] = "<>&\"'] \t\n\r;#x";

                        text[i] = random_next() % 2 ? interesting[random_next() % (sizeof(interesting) - 1)]
                                                    : (char)(' ' + random_next() % 95);
                }
                s3_xml_init(&xml, 1 << 20);
                s3_xml_text(&xml, "k", (struct s3_str){text, len});
                assert_int_equal(s3_xml_take(&xml, &out, &out_len), 0);
                assert_int_equal(read_in_steps((struct s3_str){out, out_len}, 1 + random_next() % 50, 0), S3_OK);
                text[len] = '\0';
                assert_memory_equal(trace, "<0k>0k=", 7);
                assert_memory_equal(trace + 7, text, len);
                free(out);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_writer),         cmocka_unit_test(test_controls),
                cmocka_unit_test(test_error_document), cmocka_unit_test(test_writer_limits),
                cmocka_unit_test(test_empty_writer),   cmocka_unit_test(test_reader),
                cmocka_unit_test(test_malformed),      cmocka_unit_test(test_bomb),
                cmocka_unit_test(test_depth),          cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_attributes),
                cmocka_unit_test(test_endless_tokens), cmocka_unit_test(test_callbacks_end_it),
                cmocka_unit_test(test_round_trip),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
