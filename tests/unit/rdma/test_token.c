/*
 * test_token.c - x-amz-rdma-token, strictly, in both forms.
 */
#include "tests/unit/rdma/rdma_fixture.h"

#define GID   "fe800000000000000202c9fffe000001"
#define TOKEN "00007f0012345000:00100000:0000beef:00a1:012345:1:" GID

static int parse(const char *text, struct rdx_token *out)
{
        return rdx_token_parse(text, strlen(text), out);
}

static void refuse(const char *text)
{
        struct rdx_token token;

        if (parse(text, &token) != -EBADMSG)
                fail_msg("taken: %s", text);
}

static void test_the_short_form(void **state)
{
        struct rdx_token token;

        assert_int_equal(strlen(TOKEN), 81);
        assert_int_equal(parse(TOKEN, &token), 0);
        assert_true(token.address == 0x7f0012345000);
        assert_true(token.size == 0x100000);
        assert_int_equal(token.rkey, 0xbeef);
        assert_int_equal(token.lid, 0xa1);
        assert_int_equal(token.dct, 0x12345);
        assert_true(token.has_gid);
        assert_int_equal(token.gid[0], 0xfe);
        assert_int_equal(token.gid[15], 1);
}

static void test_the_long_form(void **state)
{
        struct rdx_token token;

        assert_int_equal(parse(TOKEN ":00007f0012345000:0000000100100000", &token), 0);
        assert_true(token.size == 0x100100000);
        assert_true(token.address == 0x7f0012345000);
        refuse(TOKEN ":00007f0012345001:0000000100100000"); /* another address */
        refuse(TOKEN ":00007f0012345000:0000000100100001"); /* another low half */
        refuse(TOKEN ":00007f0012345000:000000010010000");
        refuse(TOKEN ":00007f0012345000:00000001001000000");
        refuse(TOKEN ":00007f0012345000;0000000100100000");
}

/* The short form is the buffer, what is appended the place in it. */
static void test_a_place_in_the_buffer(void **state)
{
        struct rdx_token token;

        assert_int_equal(parse(TOKEN ":00007f0012346000:0000000000001000", &token), 0);
        assert_true(token.address == 0x7f0012346000 && token.size == 0x1000);
        assert_int_equal(parse(TOKEN ":00007f0012345000:0000000000000001", &token), 0);
        assert_int_equal(parse(TOKEN ":00007f0012444fff:0000000000000001", &token), 0);
        assert_int_equal(parse(TOKEN ":00007f0012345000:0000000000100000;v=1", &token), 0);
        refuse(TOKEN ":00007f0012445000:0000000000000001"); /* behind its end */
        refuse(TOKEN ":00007f0012444fff:0000000000000002");
        refuse(TOKEN ":00007f0012344fff:0000000000000001"); /* before it */
        refuse(TOKEN ":00007f0012346000:ffffffffffffffff");
        refuse(TOKEN ":00007f0012345000:0000000000000000");
        refuse(TOKEN ":00007f0012346000:0000000100100000"); /* larger than 4 GiB: only the whole */
        refuse(TOKEN ":00007f0012345000:000000000010000G");
        refuse(TOKEN ":00007f0012345000:0000000000100000:");
        refuse(TOKEN ":00007f0012345000:0000000000100000 ;");
}

static void test_the_form_with_a_semicolon(void **state)
{
        struct rdx_token token;
        char text[81 + 300] = TOKEN ";";

        assert_int_equal(parse(TOKEN ";", &token), 0);
        assert_int_equal(parse(TOKEN ";v=2, whatever", &token), 0);
        refuse(TOKEN ";\t");
        refuse(TOKEN ";\xc3\xa4");
        memset(text + 82, 'x', 256);
        assert_int_equal(parse(text, &token), 0);
        text[82 + 256] = 'x';
        refuse(text);
}

static void test_malformed(void **state)
{
        refuse("");
        refuse("00007f0012345000");
        refuse(TOKEN "0");
        refuse(TOKEN ":");
        refuse(" " TOKEN);
        refuse("00007F0012345000:00100000:0000beef:00a1:012345:1:" GID); /* upper case */
        refuse("00007f001234500g:00100000:0000beef:00a1:012345:1:" GID);
        refuse("00007f0012345000:00000000:0000beef:00a1:012345:1:" GID); /* size 0 */
        refuse("fffffffffff00001:00100000:0000beef:00a1:012345:1:" GID); /* runs over the end */
        refuse("00007f0012345000-00100000:0000beef:00a1:012345:1:" GID);
        refuse("00007f0012345000:0100000:00000beef:00a1:012345:1:" GID); /* another width */
        refuse("00007f0012345000:00100000:0000beef:00a1:012345:2:" GID); /* has_gid */
        refuse("00007f0012345000:00100000:0000beef:00a1:012345:0:" GID); /* none, and yet one */
        refuse("00007f0012345000:00100000:0000beef:00a1:012345:1:fe800000000000000202c9fffe00000x");
}

static void test_without_a_gid(void **state)
{
        struct rdx_token token;

        assert_int_equal(
                parse("00007f0012345000:00100000:0000beef:00a1:012345:0:00000000000000000000000000000000", &token), 0);
        assert_false(token.has_gid);
}

/* Every shorter beginning of it is refused. */
static void test_cut_short(void **state)
{
        struct rdx_token token;
        size_t len;

        for (len = 0; len < strlen(TOKEN); len++)
                assert_int_equal(rdx_token_parse(TOKEN, len, &token), -EBADMSG);
}

/* ---- windows' text --------------------------------------------------------------------------- */

static void test_places(void **state)
{
        struct rdx_window_span place = {.address = 0x7f0000001000, .rkey = 0xabc, .length = 0x4000}, out;
        char text[RDX_PLACE_TEXT + 1];

        rdx_window_span_print(&place, text);
        assert_string_equal(text, "00007f0000001000:00000abc:0000000000004000");
        assert_int_equal(rdx_window_span_parse(text, RDX_PLACE_TEXT, &out), 0);
        assert_true(out.address == place.address && out.length == place.length && out.rkey == place.rkey);
        assert_int_equal(rdx_window_span_parse(text, RDX_PLACE_TEXT - 1, &out), -EBADMSG);
        assert_int_equal(rdx_window_span_parse("00007f0000001000:00000abc-0000000000004000", RDX_PLACE_TEXT, &out), -EBADMSG);
        assert_int_equal(rdx_window_span_parse("00007f0000001000:00000ABC:0000000000004000", RDX_PLACE_TEXT, &out), -EBADMSG);
        assert_int_equal(rdx_window_span_parse("fffffffffffff000:00000abc:0000000000001000", RDX_PLACE_TEXT, &out), -EBADMSG);
        assert_int_equal(rdx_window_span_parse("fffffffffffff000:00000abc:0000000000000fff", RDX_PLACE_TEXT, &out), 0);
}

static void test_what_a_place_holds(void **state)
{
        struct rdx_window_span place = {.length = 100};

        assert_true(rdx_window_span_holds(&place, 0, 100));
        assert_true(rdx_window_span_holds(&place, 100, 0));
        assert_true(rdx_window_span_holds(&place, 99, 1));
        assert_false(rdx_window_span_holds(&place, 1, 100));
        assert_false(rdx_window_span_holds(&place, 101, 0));
        assert_false(rdx_window_span_holds(&place, UINT64_MAX, 2));
        assert_false(rdx_window_span_holds(&place, 2, UINT64_MAX));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_short_form),
                cmocka_unit_test(test_the_long_form),
                cmocka_unit_test(test_a_place_in_the_buffer),
                cmocka_unit_test(test_the_form_with_a_semicolon),
                cmocka_unit_test(test_malformed),
                cmocka_unit_test(test_without_a_gid),
                cmocka_unit_test(test_cut_short),
                cmocka_unit_test(test_places),
                cmocka_unit_test(test_what_a_place_holds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
