/*
 * test_form.c - s3/form.c: forms as browsers send them, cut at every byte, what is malformed, and
 * every bound.
 */
#include "tests/unit/s3/s3_fixture.h"

#define B "xYzZY"

/* ---- helpers --------------------------------------------------------------------------------- */

struct result {
        enum s3_error error;
        struct s3_form *form;
        char *file;
        size_t len;
};

/* Feeds a body in pieces; each lies on the heap by itself. refuse: every such byte of the file is refused once. */
static struct result feed(const char *body, size_t len, size_t first, size_t step, size_t refuse)
{
        struct result r = {.file = calloc(1, len + 1)};
        bool at_file = false;

        assert_non_null(r.file);
        assert_int_equal(s3_form_new(S3_STR(B), &r.form), S3_OK);
        for (size_t at = 0, n = first; at < len && r.error == S3_OK; at += n, n = step) {
                struct s3_str piece, in, data;

                n = n < len - at ? n : len - at;
                piece = in = heap_copy(body + at, n);
                while (in.len > 0 && r.error == S3_OK) {
                        r.error = s3_form_next(r.form, &in, &data);
                        if (s3_form_at_file(r.form) && !at_file)
                                assert_int_equal(data.len, 0);
                        at_file = s3_form_at_file(r.form);
                        if (r.error != S3_OK)
                                break;
                        if (refuse != 0 && data.len > 0 && random_next() % refuse == 0) {
                                size_t taken = random_next() % data.len;

                                memcpy(r.file + r.len, data.data, taken);
                                r.len += taken;
                                s3_form_again(r.form, &in, (struct s3_str){data.data + taken, data.len - taken});
                                continue;
                        }
                        if (data.len > 0)
                                memcpy(r.file + r.len, data.data, data.len);
                        r.len += data.len;
                }
                free((char *)piece.data);
        }
        if (r.error == S3_OK)
                r.error = s3_form_finish(r.form);
        return r;
}

static void drop(struct result *r)
{
        s3_form_free(r->form);
        free(r->file);
}

static enum s3_error error_of(const char *body)
{
        struct result r = feed(body, strlen(body), strlen(body), 1, 0), cut = feed(body, strlen(body), 1, 1, 0);
        enum s3_error error = r.error;

        assert_int_equal(error, cut.error);
        drop(&r);
        drop(&cut);
        return error;
}

#define FIELD(name, value) "--" B "\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"
#define FILE_HEAD(name)                                                                                                \
        "--" B "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" name                                   \
        "\"\r\nContent-Type: text/plain\r\n\r\n"
#define END "\r\n--" B "--\r\n"

/* Bytes that look like delimiters and are none. */
#define CONTENT "a\r\n--xYz\r\r\n--xYzZ\r\n-\r\n--\r\n\r\r\r\n--xYzZ y\r"
static const char whole[] = FIELD("key", "dir/${filename}") FIELD("policy", "") FIELD("x-amz-meta-a", "1\r\n2")
        FILE_HEAD("a.txt") CONTENT END;

static void expect_whole(const struct result *r)
{
        assert_int_equal(r->error, S3_OK);
        assert_int_equal(s3_form_count(r->form), 3);
        expect_str(s3_form_find(r->form, "KEY"), "dir/${filename}");
        expect_str(s3_form_find(r->form, "policy"), "");
        expect_str(s3_form_find(r->form, "X-Amz-Meta-A"), "1\r\n2");
        assert_null(s3_form_find(r->form, "file").data);
        expect_str(s3_form_filename(r->form), "a.txt");
        expect_str(s3_form_field(r->form, 0).name, "key");
        assert_int_equal(r->len, sizeof(CONTENT) - 1);
        assert_memory_equal(r->file, CONTENT, sizeof(CONTENT) - 1);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void every_cut(void **state)
{
        for (size_t first = 1; first < sizeof(whole); first++) {
                struct result r = feed(whole, sizeof(whole) - 1, first, sizeof(whole), 0);

                expect_whole(&r);
                drop(&r);
        }
        for (size_t step = 1; step < 90; step++) {
                struct result r = feed(whole, sizeof(whole) - 1, step, step, 0);

                expect_whole(&r);
                drop(&r);
        }
}

static void bytes_that_were_not_taken_come_again(void **state)
{
        random_seed();
        for (unsigned i = 0; i < 2000; i++) {
                size_t step = 1 + random_next() % 40;
                struct result r = feed(whole, sizeof(whole) - 1, 1 + random_next() % 80, step, 2 + random_next() % 3);

                expect_whole(&r);
                drop(&r);
        }
}

static void what_ends_early_is_no_form(void **state)
{
        for (size_t len = 0; len < sizeof(whole) - 3; len++) { /* the line's end behind the closing boundary may lack */
                struct result r = feed(whole, len, 7, 64, 0);

                assert_int_equal(r.error, S3_ERR_MALFORMED_POST);
                drop(&r);
        }
}

static void shapes(void **state)
{
        static const struct {
                const char *body;
                enum s3_error error;
        } cases[] = {
                {FILE_HEAD("") END, S3_OK},
                {"\r\n" FILE_HEAD("") END, S3_OK},
                {"preamble\r\n" FILE_HEAD("") END "epilogue", S3_OK},
                {FILE_HEAD("") "\r\n" FIELD("late", "ignored") "--" B "--", S3_OK},
                {FILE_HEAD("") "\r\n--" B " \t\r\nanything\r\n--" B "--", S3_OK},
                {FIELD("key", "v") "--" B "--", S3_ERR_INCORRECT_FILES},
                {"--" B "--", S3_ERR_INCORRECT_FILES},
                {"preamble" FILE_HEAD("") END, S3_ERR_INCORRECT_FILES} /* the last delimiter is its first */,
                {"", S3_ERR_MALFORMED_POST},
                {FIELD("key", "v") FIELD("KEY", "w") FILE_HEAD("") END, S3_ERR_INVALID_ARGUMENT},
                {"--" B "x\r\n", S3_ERR_MALFORMED_POST},
                {"--" B "-\r\n", S3_ERR_MALFORMED_POST},
                {"--" B "\r-", S3_ERR_MALFORMED_POST},
                {"--" B "\r\n\r\n", S3_ERR_MALFORMED_POST},
                {"--" B "\r\nno colon\r\n\r\n", S3_ERR_MALFORMED_POST},
                {"--" B "\r\nContent-Disposition: form-data; name=\"a\"\n\r\n", S3_ERR_MALFORMED_POST},
                {"--" B "\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\n", S3_ERR_MALFORMED_POST},
                {"--" B "\r\nContent-Disposition: form-data\r\n\r\n", S3_ERR_MALFORMED_POST},
                {"--" B "\r\nContent-Disposition: form-data; name=\"\"\r\n\r\n", S3_ERR_MALFORMED_POST},
                {"--" B "\r\nContent-Disposition: form-data; name=\"a\r\n\r\n", S3_ERR_MALFORMED_POST},
                {"--" B "\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b\r\n\r\n",
                 S3_ERR_MALFORMED_POST},
                {"--" B "\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: Base64\r\n\r\n",
                 S3_ERR_MALFORMED_POST},
                {"--" B "\r\ncontent-disposition:form-data ;NAME=file\r\nContent-Transfer-Encoding: binary\r\n\r\n" END, S3_OK},
        };

        for (size_t i = 0; i < COUNT(cases); i++)
                if (error_of(cases[i].body) != cases[i].error)
                        fail_msg("%s", cases[i].body);
}

static void names_of_files(void **state)
{
        static const char *const cases[][2] = {
                {"a b.txt", "a b.txt"}, {"C:\\\\d\\\\x.txt", "x.txt"}, {"/usr/local/f", "f"}, {"a\\\"b", "a\"b"}, {"dir/", ""},
                {"%22", "%22"},         {"a;b", "a;b"},
        };

        for (size_t i = 0; i < COUNT(cases); i++) {
                char body[512];
                int n = snprintf(body, sizeof(body), "--" B "\r\nContent-Disposition: form-data; name=\"file\"; "
                                                     "filename=\"%s\"\r\n\r\n" END, cases[i][0]);
                struct result r = feed(body, (size_t)n, (size_t)n, 1, 0);

                assert_int_equal(r.error, S3_OK);
                expect_str(s3_form_filename(r.form), cases[i][1]);
                drop(&r);
        }
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static char *big_form(size_t value, size_t file, size_t tail, size_t *len)
{
        static const char head[] = "--" B "\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n", mid[] = "\r\n" FILE_HEAD("");
        char *body = malloc(value + file + tail + 512), *p = body;

        assert_non_null(body);
        p = mempcpy(p, head, sizeof(head) - 1);
        p = memset(p, 'v', value);
        p = mempcpy(p + value, mid, sizeof(mid) - 1);
        p = memset(p, '\r', file);
        p = mempcpy(p + file, END, sizeof(END) - 1);
        p = memset(p, 't', tail);
        *len = (size_t)(p + tail - body);
        return body;
}

static void all_but_the_file_is_bounded(void **state)
{
        static const struct {
                size_t value, file, tail;
                enum s3_error error;
        } cases[] = {
                {20000, 1000000, 0, S3_OK},
                {S3_FORM_BYTES_MAX, 0, 0, S3_ERR_MAX_POST_PRE_DATA},
                {1000000, 0, 0, S3_ERR_MAX_POST_PRE_DATA},
                {1, 0, 20000, S3_OK},
                {1, 0, S3_FORM_BYTES_MAX, S3_ERR_MAX_POST_PRE_DATA},
        };

        for (size_t i = 0; i < COUNT(cases); i++) {
                size_t len;
                char *body = big_form(cases[i].value, cases[i].file, cases[i].tail, &len);
                struct result r = feed(body, len, 1000, 32768, 0);

                assert_int_equal(r.error, cases[i].error);
                if (r.error == S3_OK)
                        assert_int_equal(r.len, cases[i].file);
                drop(&r);
                free(body);
        }
}

static void fields_are_bounded(void **state)
{
        char *body = malloc(100 * (S3_FORM_FIELDS_MAX + 2)), *p = body;
        struct result r;

        assert_non_null(body);
        for (unsigned i = 0; i <= S3_FORM_FIELDS_MAX; i++)
                p += sprintf(p, "--" B "\r\nContent-Disposition: form-data; name=n%u\r\n\r\n\r\n", i);
        r = feed(body, (size_t)(p - body), 99, 99, 0);
        assert_int_equal(r.error, S3_ERR_INVALID_ARGUMENT);
        assert_int_equal(s3_form_count(r.form), S3_FORM_FIELDS_MAX);
        assert_non_null(s3_form_message(r.form));
        drop(&r);
        memset(body, 'x', 9000);
        memcpy(body, "--" B "\r\n", 9);
        r = feed(body, 9000, 9000, 1, 0);
        assert_int_equal(r.error, S3_ERR_MALFORMED_POST); /* a header line without end */
        drop(&r);
        free(body);
}

static void boundaries(void **state)
{
        static const struct {
                const char *type, *boundary;
        } cases[] = {
                {"multipart/form-data; boundary=abc", "abc"},
                {"Multipart/Form-Data;charset=utf-8; BOUNDARY=\"a b'()+_,-./:=?c\"", "a b'()+_,-./:=?c"},
                {"multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW", "----WebKitFormBoundary7MA4YWxkTrZu0gW"},
                {"multipart/form-data; boundary=0123456789012345678901234567890123456789012345678901234567890123456789",
                 "0123456789012345678901234567890123456789012345678901234567890123456789"},
                {"multipart/form-data; boundary=01234567890123456789012345678901234567890123456789012345678901234567890", NULL},
                {"multipart/form-data; boundary=", NULL},
                {"multipart/form-data; boundary=\"a ", NULL},
                {"multipart/form-data; boundary=\"a \"", NULL},
                {"multipart/form-data; boundary=\"a\r\nb\"", NULL},
                {"multipart/form-data; boundary=a; boundary=b", NULL},
                {"multipart/form-data", NULL},
                {"multipart/mixed; boundary=a", NULL},
                {"", NULL},
        };
        struct s3_str found;

        for (size_t i = 0; i < COUNT(cases); i++) {
                assert_int_equal(s3_form_boundary(s3_str_of(cases[i].type), &found), cases[i].boundary != NULL);
                if (cases[i].boundary != NULL)
                        expect_str(found, cases[i].boundary);
        }
        assert_false(s3_form_boundary((struct s3_str){NULL, 0}, &found));
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_cut),
                cmocka_unit_test(bytes_that_were_not_taken_come_again),
                cmocka_unit_test(what_ends_early_is_no_form),
                cmocka_unit_test(shapes),
                cmocka_unit_test(names_of_files),
                cmocka_unit_test(all_but_the_file_is_bounded),
                cmocka_unit_test(fields_are_bounded),
                cmocka_unit_test(boundaries),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
