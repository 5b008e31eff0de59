/*
 * gateway/http/users.c: the cache of signing keys keeps those that are used, whoever else comes by.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gateway/http/users.h"

static struct gw_gateway gw = {.region = "us-east-1"};
static struct gw_loop *loop;

static int setup(void **state)
{
        loop = calloc(1, sizeof(*loop));
        assert_non_null(loop);
        loop->gw = &gw;
        return 0;
}

static int teardown(void **state)
{
        free(loop);
        return 0;
}

static void ask(unsigned user, const char *day, struct s3_signing_key *out)
{
        struct gw_credential credential;

        snprintf(credential.access_key, sizeof(credential.access_key), "USER%u", user);
        snprintf(credential.secret_key, sizeof(credential.secret_key), "secret%u", user);
        gw_signing_key(loop, &credential, day, out);
}

static bool is_cached(unsigned user, const char *day)
{
        char name[32];

        snprintf(name, sizeof(name), "USER%u", user);
        for (unsigned i = 0; i < GW_KEYS_CACHED; i++)
                if (strcmp(loop->keys[i].access_key, name) == 0 && strcmp(loop->keys[i].scope_date, day) == 0)
                        return true;
        return false;
}

static void keys_are_right_whether_cached_or_not(void **state)
{
        struct s3_signing_key key, wanted;

        for (unsigned i = 0; i < 3 * GW_KEYS_CACHED; i++) {
                unsigned user = i % (GW_KEYS_CACHED + 3);
                char secret[32];

                snprintf(secret, sizeof(secret), "secret%u", user);
                s3_signing_key_derive(s3_str_of(secret), "20260102", gw.region, "s3", &wanted);
                for (unsigned again = 0; again < 2; again++) {
                        ask(user, "20260102", &key);
                        assert_memory_equal(&key, &wanted, sizeof(key));
                }
        }
}

/* All are of one day, as they mostly are. */
static void the_least_recently_used_gives_way(void **state)
{
        struct s3_signing_key key;

        for (unsigned i = 0; i < GW_KEYS_CACHED; i++)
                ask(i, "20260102", &key);
        for (unsigned i = 0; i < GW_KEYS_CACHED; i++)
                assert_true(is_cached(i, "20260102"));
        for (unsigned i = 0; i < 4 * GW_KEYS_CACHED; i++) {
                ask(0, "20260102", &key);
                ask(100 + i, "20260102", &key);
                assert_true(is_cached(0, "20260102"));
        }
        for (unsigned i = 1; i < GW_KEYS_CACHED; i++) /* those who came by have pushed each other out, and the first ones */
                assert_false(is_cached(i, "20260102"));
        for (unsigned i = 0; i < GW_KEYS_CACHED - 1; i++)
                assert_true(is_cached(100 + 4 * GW_KEYS_CACHED - 1 - i, "20260102"));
}

static void a_user_has_a_key_for_each_day(void **state)
{
        struct s3_signing_key today, tomorrow, key;

        ask(1, "20260102", &today);
        ask(1, "20260103", &tomorrow);
        assert_true(is_cached(1, "20260102") && is_cached(1, "20260103"));
        assert_memory_not_equal(&today, &tomorrow, sizeof(today));
        ask(1, "20260102", &key);
        assert_memory_equal(&key, &today, sizeof(key));
}

/* A key of S3 opens nothing of IAM, and the other way round. */
static void a_key_is_of_one_service_and_region(void **state)
{
        static const struct gw_key_scope scopes[] = {{"us-east-1", "s3"}, {"us-east-1", "iam"}, {"us-east-1", "sts"},
                                                     {"eu-west-1", "iam"}};
        struct gw_credential user = {.access_key = "USER1", .secret_key = "secret1"};
        struct s3_signing_key key[4], wanted;

        for (unsigned again = 0; again < 2; again++)
                for (unsigned i = 0; i < 4; i++) {
                        gw_scope_key(loop, &user, "20260102", scopes[i], &key[i]);
                        s3_signing_key_derive(S3_STR("secret1"), "20260102", scopes[i].region, scopes[i].service, &wanted);
                        assert_memory_equal(&key[i], &wanted, sizeof(wanted));
                        for (unsigned j = 0; j < i; j++)
                                assert_memory_not_equal(&key[i], &key[j], sizeof(wanted));
                }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(keys_are_right_whether_cached_or_not, setup, teardown),
                cmocka_unit_test_setup_teardown(the_least_recently_used_gives_way, setup, teardown),
                cmocka_unit_test_setup_teardown(a_user_has_a_key_for_each_day, setup, teardown),
                cmocka_unit_test_setup_teardown(a_key_is_of_one_service_and_region, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
