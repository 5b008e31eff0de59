/*
 * gateway/s3/list_token.c: a token gives back the name it was made of, and nothing else is one.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gateway/s3/handlers.h"

/* A token is made in the arena of a request; nothing else of it is touched. */
static int setup(void **state)
{
        *state = calloc(1, sizeof(struct gw_request));
        return *state != NULL ? 0 : -1;
}

static int teardown(void **state)
{
        gw_arena_free(&((struct gw_request *)*state)->arena);
        free(*state);
        return 0;
}

static void every_name_comes_back(void **state)
{
        char name[ENG_KEY_MAX], back[ENG_KEY_MAX];
        static const size_t lengths[] = {1, 2, 3, 63, 500, ENG_KEY_MAX - 1, ENG_KEY_MAX};

        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
                size_t len = 0;
                char *token;

                for (size_t i = 0; i < lengths[l]; i++)
                        name[i] = (char)(i * 37 + l); /* all bytes, NUL too */
                token = gw_token_make(*state, (struct s3_str){name, lengths[l]});
                assert_non_null(token);
                assert_int_equal(gw_token_read(s3_str_of(token), back, &len), 0);
                assert_int_equal(len, lengths[l]);
                assert_memory_equal(back, name, len);
        }
}

static void an_altered_token_is_none(void **state)
{
        char *token = gw_token_make(*state, S3_STR("some/key"));
        char back[ENG_KEY_MAX];
        size_t len, whole = strlen(token);

        for (size_t i = 0; i < whole; i++) {
                char kept = token[i];

                token[i] = kept == '7' ? '8' : '7';
                assert_int_equal(gw_token_read(s3_str_of(token), back, &len), -EINVAL);
                token[i] = kept;
                assert_int_equal(gw_token_read((struct s3_str){token, i}, back, &len), -EINVAL);
        }
        assert_int_equal(gw_token_read(s3_str_of(token), back, &len), 0);
}

static void what_is_no_token(void **state)
{
        static char long_text[2 * (ENG_KEY_MAX + 64)];
        char back[ENG_KEY_MAX];
        size_t len;

        memset(long_text, 'a', sizeof(long_text));
        assert_int_equal(gw_token_read(S3_STR(""), back, &len), -EINVAL);
        assert_int_equal(gw_token_read(S3_STR("00000000"), back, &len), -EINVAL);
        assert_int_equal(gw_token_read(S3_STR("garbage!!!"), back, &len), -EINVAL);
        assert_int_equal(gw_token_read((struct s3_str){long_text, sizeof(long_text)}, back, &len), -EINVAL);
        assert_int_equal(gw_token_read((struct s3_str){NULL, 0}, back, &len), -EINVAL);
}

int main(void)
{
#define ONE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                ONE(every_name_comes_back),
                ONE(an_altered_token_is_none),
                ONE(what_is_no_token),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
