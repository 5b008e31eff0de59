/*
 * cli/config_names.c: whom entries and policies of a file mean by the names in them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/config_file.h"

#define FIRST  "000000000001"
#define SECOND "123456789012"

static int names_setup(void **state)
{
        static struct config_names names;

        assert_true(cli_names_begin(&names));
        cli_names_note(&names, "1 account - - " SECOND "\n{\"id\":\"c0ffee\"}");
        cli_names_note(&names, "1 user " FIRST " - Alice\n{\"path\":\"/\",\"id\":\"AIDAALICE\"}");
        cli_names_note(&names, "1 user " SECOND " - alice\n{\"path\":\"/\",\"id\":\"AIDAOTHER\"}");
        cli_names_note(&names, "1 group " FIRST " - staff\n{\"path\":\"/\",\"id\":\"AGPASTAFF\"}");
        cli_names_note(&names, "1 policy " FIRST " - Read\n{\"path\":\"/a/\",\"id\":\"ANPAREAD\"}");
        cli_names_note(&names, "1 role " FIRST " - robot\n{\"path\":\"/\",\"id\":\"AROAROBOT\"}");
        *state = &names;
        return 0;
}

static int names_teardown(void **state)
{
        cli_names_end(*state);
        return 0;
}

/* Takes the object. expected: as compact JSON with its members in order. */
static void names_are(json_t *named, const char *expected)
{
        char *text = json_dumps(named, JSON_COMPACT | JSON_SORT_KEYS);

        assert_non_null(text);
        assert_string_equal(text, expected);
        free(text);
        json_decref(named);
}

static void entries_name_others(void **state)
{
        static const struct {
                const char *entry, *names;
        } cases[] = {
                {"1 key - alice AKIAIOSFODNN7EXAMPLE\n{\"owner\":\"" FIRST "\",\"sealed\":\"x\"}",
                 "{\"1 user " FIRST " - alice\":\"AIDAALICE\"}"},
                {"1 key - ALICE AKIAIOSFODNN7EXAMPLE\n{\"owner\":\"" SECOND "\"}",
                 "{\"1 account - - " SECOND "\":\"c0ffee\",\"1 user " SECOND " - alice\":\"AIDAOTHER\"}"},
                {"1 key - - AKIAIOSFODNN7EXAMPLE\n{\"owner\":\"" SECOND "\"}", "{\"1 account - - " SECOND "\":\"c0ffee\"}"},
                {"1 key - bob AKIAIOSFODNN7EXAMPLE\n{\"owner\":\"" FIRST "\"}", "{\"1 user " FIRST " - bob\":\"-\"}"},
                {"1 user " FIRST " - bob\n{\"groups\":{\"Staff\":\"\",\"other\":\"\"},\"id\":\"x\"}",
                 "{\"1 group " FIRST " - other\":\"-\",\"1 group " FIRST " - staff\":\"AGPASTAFF\"}"},
                {"1 user " FIRST " - bob\n{\"attached\":{\"arn:aws:iam::" FIRST ":policy/a/Read\":\"\","
                 "\"arn:aws:iam::aws:policy/readonly\":\"\"},\"boundary\":\"arn:aws:iam::" FIRST ":policy/Most\"}",
                 "{\"1 policy " FIRST " - most\":\"-\",\"1 policy " FIRST " - read\":\"ANPAREAD\"}"},
                {"1 group " SECOND " - staff\n{}", "{\"1 account - - " SECOND "\":\"c0ffee\"}"},
                {"1 account - - " SECOND "\n{\"id\":\"c0ffee\"}", "{}"},
                {"1 provider " FIRST " - 00\n{}", "{}"},
                {"1 user " FIRST " - bob", "{}"},
                {"1 user", "{}"},
                {"", "{}"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                names_are(cli_names_of_entry(*state, cases[i].entry), cases[i].names);
}

#define TRUST(principal) "{\"Statement\":[{\"Effect\":\"Allow\",\"Principal\":" principal ",\"Action\":\"sts:AssumeRole\"}]}"

static void trust_to(void **state, const char *trust, const char *names)
{
        json_t *body = json_pack("{s:s}", "trust", trust);
        char *text = json_dumps(body, 0), *entry = malloc(strlen(text) + 64);

        assert_non_null(entry);
        sprintf(entry, "1 role " FIRST " - r\n%s", text);
        names_are(cli_names_of_entry(*state, entry), names);
        free(entry);
        free(text);
        json_decref(body);
}

/* A trust policy with bindings means ids; sessions are in no binding. */
static void trust_policies_are_bound_or_name(void **state)
{
        trust_to(state, TRUST("{\"AWS\":\"arn:aws:iam::" FIRST ":user/x/alice\"}"), "{\"1 user " FIRST " - alice\":\"AIDAALICE\"}");
        trust_to(state, TRUST("{\"AWS\":\"arn:aws:iam::" FIRST ":user/x/alice\"}") "\n#1\nAIDAALICE arn:aws:iam::" FIRST ":user/x/alice\n", "{}");
        trust_to(state, TRUST("{\"AWS\":[\"arn:aws:sts::" FIRST ":assumed-role/robot/s\",\"" SECOND "\"]}") "\n#1\n",
                 "{\"1 role " FIRST " - robot\":\"AROAROBOT\"}");
        trust_to(state, "no policy", "{}");
        trust_to(state, "", "{}");
}

static void policies_of_buckets_name_principals(void **state)
{
        static const struct {
                const char *policy, *names;
        } cases[] = {
                {"{\"Statement\":{\"Principal\":{\"AWS\":\"arn:aws:iam::" FIRST ":user/alice\"}}}", "{\"1 user " FIRST " - alice\":\"AIDAALICE\"}"},
                {"{\"Statement\":[{\"NotPrincipal\":{\"AWS\":[\"arn:aws:iam::" FIRST ":role/robot\",\"" SECOND "\"]}}]}",
                 "{\"1 account - - " SECOND "\":\"c0ffee\",\"1 role " FIRST " - robot\":\"AROAROBOT\"}"},
                {"{\"Statement\":[{\"Principal\":{\"AWS\":\"arn:aws:iam::" SECOND ":root\"}}]}", "{\"1 account - - " SECOND "\":\"c0ffee\"}"},
                {"{\"Statement\":[{\"Principal\":{\"AWS\":\"arn:aws:iam::" FIRST ":root\"}}]}", "{}"},
                {"{\"Statement\":[{\"Principal\":{\"AWS\":\"arn:aws:sts::" FIRST ":federated-user/bob\"}}]}", "{\"1 user " FIRST " - bob\":\"-\"}"},
                {"{\"Statement\":[{\"Principal\":\"*\"},{\"Principal\":{\"AWS\":\"*\"}},{\"Principal\":{\"AWS\":\"AIDAGONE\"}},"
                 "{\"Principal\":{\"CanonicalUser\":\"c0ffee\"}},{\"Principal\":{\"AWS\":7}},{\"Principal\":{\"AWS\":[null]}}]}", "{}"},
                {"{\"Statement\":[{\"Resource\":\"arn:aws:iam::" FIRST ":user/alice\"}]}", "{}"},
                {"[]", "{}"},
                {"{", "{}"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                names_are(cli_names_of_policy(*state, cases[i].policy), cases[i].names);
}

static void who_is_somebody_else_is_found(void **state)
{
        struct config_names *names = *state;
        json_t *known = cli_names_of_entry(names, "1 key - alice AKIA\n{\"owner\":\"" FIRST "\"}"),
               *unknown = cli_names_of_entry(names, "1 key - bob AKIA\n{\"owner\":\"" FIRST "\"}");

        assert_null(cli_names_who_is_other(names, NULL));
        assert_null(cli_names_who_is_other(names, known));
        assert_string_equal(cli_names_who_is_other(names, unknown), "1 user " FIRST " - bob");
        cli_names_other(names, "1 user " SECOND " - alice\n{}");
        assert_null(cli_names_who_is_other(names, known));
        cli_names_other(names, "1 user " FIRST " - ALICE\n{}");
        assert_string_equal(cli_names_who_is_other(names, known), "1 user " FIRST " - alice");
        json_decref(known);
        json_decref(unknown);
}

/* What nobody could be called is no name; nothing is cut in the middle and taken for another. */
static void long_names_are_none(void **state)
{
        char policy[4096], long_name[3000];

        memset(long_name, 'a', sizeof(long_name) - 1);
        long_name[sizeof(long_name) - 1] = '\0';
        snprintf(policy, sizeof(policy), "{\"Statement\":[{\"Principal\":{\"AWS\":\"arn:aws:iam::" FIRST ":user/%s\"}}]}", long_name);
        names_are(cli_names_of_policy(*state, policy), "{}");
        long_name[520] = '\0';
        snprintf(policy, sizeof(policy), "1 user " FIRST " - b\n{\"groups\":{\"%s\":\"\"}}", long_name);
        names_are(cli_names_of_entry(*state, policy), "{}");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(entries_name_others, names_setup, names_teardown),
                cmocka_unit_test_setup_teardown(trust_policies_are_bound_or_name, names_setup, names_teardown),
                cmocka_unit_test_setup_teardown(policies_of_buckets_name_principals, names_setup, names_teardown),
                cmocka_unit_test_setup_teardown(who_is_somebody_else_is_found, names_setup, names_teardown),
                cmocka_unit_test_setup_teardown(long_names_are_none, names_setup, names_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
