/*
 * gateway/iam/: forms, the limits of parameters, the table of actions, and whom a secret is told.
 * tests/integration/test_iam.py has the actions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/iam/call.h"

static struct iam_form form;
static struct iam_params params;
static char message[IAM_MESSAGE_SIZE];

/* In memory of the exact size, so that the sanitizer sees each byte beyond. */
static char *parse(const char *text, size_t len, int expected)
{
        char *body = malloc(len + 1);

        assert_non_null(body);
        memcpy(body, text, len);
        assert_int_equal(iam_form_parse(body, len, &form), expected);
        return body;
}

static void check_form(const char *text, int expected)
{
        free(parse(text, strlen(text), expected));
}

static void forms_are_decoded(void **state)
{
        char *body = parse("Action=Get%55ser&A.b=x%2By+z%3d%26&empty=&none&&last=%C3%BC", 59, 0);

        assert_int_equal(form.count, 5);
        assert_string_equal(iam_form_value(&form, "Action"), "GetUser");
        assert_string_equal(iam_form_value(&form, "A.b"), "x+y z=&");
        assert_string_equal(iam_form_value(&form, "empty"), "");
        assert_string_equal(iam_form_value(&form, "none"), "");
        assert_string_equal(iam_form_value(&form, "last"), "\xc3\xbc");
        assert_null(iam_form_value(&form, "action"));
        assert_int_equal(iam_form_check_names(&form), 0);
        free(body);
        body = parse("a=1&b=2&%61=3", 13, 0);
        assert_int_equal(iam_form_check_names(&form), -EEXIST);
        free(body);
}

static void wrong_forms_are_refused(void **state)
{
        char many[IAM_PAIRS_MAX * 2 + 2];

        check_form("", 0);
        check_form("&&&", 0);
        check_form("a=%", -EINVAL);
        check_form("a=%4", -EINVAL);
        check_form("a=%zz", -EINVAL);
        check_form("a=%00", -EINVAL);
        check_form("%00=a", -EINVAL);
        check_form("=a", -EINVAL);
        check_form("a=%ff", -EINVAL);
        check_form("a=%c3", -EINVAL);
        for (unsigned i = 0; i <= IAM_PAIRS_MAX; i++)
                memcpy(many + 2 * i, "x&", 2);
        free(parse(many, 2 * IAM_PAIRS_MAX, 0));
        assert_int_equal(form.count, IAM_PAIRS_MAX);
        free(parse(many, 2 * IAM_PAIRS_MAX + 2, -E2BIG));
}

/* One parameter of an action that needs nothing. */
static int take(const char *name, const char *value, uint64_t may)
{
        form.count = 1;
        form.pair[0] = (struct iam_pair){name, value};
        return iam_params_take(&form, 0, may, &params, message, sizeof(message));
}

static const char *repeat(const char *text, unsigned count)
{
        static char out[2100];

        for (out[0] = '\0'; count > 0; count--)
                strcat(out, text);
        return out;
}

static void parameters_have_limits(void **state)
{
        assert_int_equal(take("UserName", "a_Z0+=,.@-", IAM_BIT(USER)), 0);
        assert_string_equal(params.value[IAM_P_USER], "a_Z0+=,.@-");
        assert_int_equal(take("UserName", "", IAM_BIT(USER)), -EINVAL);
        assert_int_equal(take("UserName", repeat("a", 128), IAM_BIT(USER)), 0);
        assert_int_equal(take("UserName", repeat("a", 129), IAM_BIT(USER)), -EINVAL);
        assert_int_equal(take("UserName", "a/b", IAM_BIT(USER)), -EINVAL);
        assert_int_equal(take("UserName", "\xc3\xbc", IAM_BIT(USER)), -EINVAL);
        assert_int_equal(take("UserName", "a", IAM_BIT(GROUP)), -EINVAL);
        assert_non_null(strstr(message, "UserName"));
        assert_int_equal(take("Path", "/", IAM_BIT(PATH)), 0);
        assert_int_equal(take("Path", "/a", IAM_BIT(PATH)), -EINVAL);
        assert_int_equal(take("Path", "a/", IAM_BIT(PATH)), -EINVAL);
        assert_int_equal(take("Path", "/a b/", IAM_BIT(PATH)), -EINVAL);
        assert_int_equal(take("PathPrefix", "/a", IAM_BIT(PREFIX)), 0);
        assert_int_equal(take("Description", repeat("\xc3\xbc", 1000), IAM_BIT(DESCRIPTION)), 0);
        assert_int_equal(take("Description", repeat("\xc3\xbc", 1001), IAM_BIT(DESCRIPTION)), -EINVAL);
        assert_int_equal(take("Description", "\xc4\x80", IAM_BIT(DESCRIPTION)), -EINVAL);
        assert_int_equal(take("PolicyDocument", "{\"\xe2\x82\xac\"}", IAM_BIT(DOCUMENT)), -EINVAL);
        assert_int_equal(take("PolicyDocument", "{\"\xc3\xbf\"}", IAM_BIT(DOCUMENT)), 0);
        assert_int_equal(take("Description", "a\x01", IAM_BIT(DESCRIPTION)), -EINVAL);
        assert_int_equal(take("Status", "Active", IAM_BIT(STATUS)), 0);
        assert_int_equal(take("Status", "active", IAM_BIT(STATUS)), -EINVAL);
        assert_int_equal(take("Scope", "All AWS", IAM_BIT(SCOPE)), -EINVAL);
        assert_int_equal(take("MaxItems", "1000", IAM_BIT(MAX_ITEMS)), 0);
        assert_int_equal(take("MaxItems", "1001", IAM_BIT(MAX_ITEMS)), -EINVAL);
        assert_int_equal(take("MaxItems", "0", IAM_BIT(MAX_ITEMS)), -EINVAL);
        assert_int_equal(take("MaxItems", "-1", IAM_BIT(MAX_ITEMS)), -EINVAL);
        assert_int_equal(take("MaxItems", "99999999999999999999", IAM_BIT(MAX_ITEMS)), -EINVAL);
        assert_int_equal(take("MaxItems", "1x", IAM_BIT(MAX_ITEMS)), -EBADMSG);
        assert_int_equal(take("MaxItems", "", IAM_BIT(MAX_ITEMS)), -EBADMSG);
        assert_int_equal(take("MaxItems", "-", IAM_BIT(MAX_ITEMS)), -EBADMSG);
        assert_int_equal(take("MaxSessionDuration", "3599", IAM_BIT(SESSION)), -EINVAL);
        assert_int_equal(take("MaxSessionDuration", "43200", IAM_BIT(SESSION)), 0);
        assert_int_equal(take("VersionId", "v12", IAM_BIT(VERSION)), 0);
        assert_int_equal(take("VersionId", "v0", IAM_BIT(VERSION)), -EINVAL);
        assert_int_equal(take("VersionId", "12", IAM_BIT(VERSION)), -EINVAL);
        assert_int_equal(take("Action", "x", 0), 0);
        assert_int_equal(take("Other", "x", 0), -EINVAL);
        form.count = 0;
        assert_int_equal(iam_params_take(&form, IAM_BIT(USER), 0, &params, message, sizeof(message)), -EINVAL);
        assert_non_null(strstr(message, "'userName'"));
}

static int take_tags(const char *text)
{
        char *body = parse(text, strlen(text), 0);
        int rv = iam_params_take(&form, IAM_TAGS, 0, &params, message, sizeof(message));

        if (rv == 0)
                assert_string_equal(params.tags[0].name, "k");
        free(body);
        return rv;
}

static void tags_are_members(void **state)
{
        assert_int_equal(take_tags("Tags.member.1.Key=k&Tags.member.1.Value=v"), 0);
        assert_int_equal(
                take_tags("Tags.member.2.Key=l&Tags.member.2.Value=&Tags.member.1.Value=v&Tags.member.1.Key=k"), 0);
        assert_int_equal(params.tag_count, 2);
        assert_int_equal(take_tags(""), -EINVAL);
        assert_int_equal(take_tags("Tags.member.1.Key=k"), -EINVAL);
        assert_int_equal(take_tags("Tags.member.1.Value=k"), -EINVAL);
        assert_int_equal(take_tags("Tags.member.2.Key=k&Tags.member.2.Value=v"), -EINVAL);
        assert_int_equal(take_tags("Tags.member.0.Key=k&Tags.member.0.Value=v"), -EINVAL);
        assert_int_equal(take_tags("Tags.member.51.Key=k&Tags.member.51.Value=v"), -EINVAL);
        assert_int_equal(take_tags("Tags.member.99999999999999999999.Key=k"), -EINVAL);
        assert_int_equal(
                take_tags("Tags.member.1.Key=k&Tags.member.1.Value=v&Tags.member.2.Key=K&Tags.member.2.Value=v"),
                -EEXIST);
        assert_int_equal(take_tags("Tags.member.1.Key=aws:k&Tags.member.1.Value=v"), -EEXIST);
        assert_int_equal(take_tags("Tags.member.1.Key=k*&Tags.member.1.Value=v"), -EINVAL);
        assert_non_null(strstr(message, "'tags.1.member.key'"));
        assert_int_equal(take_tags("Tags.member.1.Key=k&Tags.member.1.Value=v*"), -EINVAL);
        assert_non_null(strstr(message, "'tags.1.member.value'"));
        assert_int_equal(take_tags("Tags.member.1.Key=k&Tags.member.1.Value=%C3%BC+1"), 0);
        assert_int_equal(take_tags("Tags.member.1.Key=&Tags.member.1.Value=v"), -EINVAL);
        assert_int_equal(take_tags("TagKeys.member.1=k"), -EINVAL);
        form.count = 2;
        form.pair[0] = (struct iam_pair){"TagKeys.member.1", "a"};
        form.pair[1] = (struct iam_pair){"TagKeys.member.2", "b"};
        assert_int_equal(iam_params_take(&form, IAM_TAG_KEYS, 0, &params, message, sizeof(message)), 0);
        assert_int_equal(params.tag_key_count, 2);
        form.pair[1].name = "TagKeys.member.3";
        assert_int_equal(iam_params_take(&form, IAM_TAG_KEYS, 0, &params, message, sizeof(message)), -EINVAL);
}

static void parameters_of_signatures_are_dropped(void **state)
{
        char *body = parse("X-Amz-Date=1&Action=GetUser&X-Amz-Signature=2&X-Amz-Other=3&x-amz-date=4", 72, 0);

        iam_form_drop_signature(&form);
        assert_int_equal(form.count, 3);
        assert_string_equal(form.pair[0].name, "Action");
        assert_string_equal(form.pair[1].name, "X-Amz-Other");
        assert_string_equal(form.pair[2].name, "x-amz-date");
        free(body);
}

static void actions_are_known_by_name(void **state)
{
        for (unsigned i = 0; i < iam_action_count; i++) {
                const struct iam_action *action = &iam_actions[i];

                assert_ptr_equal(iam_action_find(action->name, false), action); /* so none has another's name */
                assert_null(iam_action_find(action->name, true));
                assert_non_null(action->run);
                assert_true(action->kind == 0 || (action->kind >= GW_USER && action->kind <= GW_PROVIDER));
                assert_int_equal(action->needs & action->may, 0);
        }
        assert_non_null(iam_action_find("GetCallerIdentity", true));
        assert_null(iam_action_find("GetCallerIdentity", false));
        assert_null(iam_action_find("", false));
        assert_null(iam_action_find("createuser", false));
}

static void urls_of_providers_are_checked(void **state)
{
        static const char *const good[] = {"https://a",
                                           "https://id.example.org",
                                           "https://id.example.org/a/b@c:d/",
                                           "https://198.51.100.7",
                                           "https://[2001:db8::1]/a",
                                           "https://A-b.C"};
        static const struct {
                const char *url, *code;
        } bad[] = {{"", "ValidationError"},
                   {"id.example.org", "ValidationError"},
                   {"https://", "ValidationError"},
                   {"https:///a", "ValidationError"},
                   {"http://id.example.org", "InvalidInput"},
                   {"HTTPS://id.example.org", "InvalidInput"},
                   {"https://u@id.example.org", "InvalidInput"},
                   {"https://id.example.org:443", "InvalidInput"},
                   {"https://id.example.org?a", "InvalidInput"},
                   {"https://id.example.org/a?b", "InvalidInput"},
                   {"https://id.example.org/a#b", "InvalidInput"},
                   {"https://a_b", "InvalidInput"},
                   {"https://-a", "InvalidInput"},
                   {"https://a-.b", "InvalidInput"},
                   {"https://a..b", "InvalidInput"},
                   {"https://a.", "InvalidInput"},
                   {"https://[::1", "InvalidInput"},
                   {"https://a\\b", "InvalidInput"}};
        char longest[GW_PROVIDER_URL_MAX + 2] = "https://a/";
        const char *code, *why;

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
                assert_false(iam_provider_url_wrong(good[i], &code, &why));
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_true(iam_provider_url_wrong(bad[i].url, &code, &why));
                assert_string_equal(code, bad[i].code);
        }
        memset(longest + 10, 'a', GW_PROVIDER_URL_MAX - 10);
        assert_false(iam_provider_url_wrong(longest, &code, &why));
        longest[GW_PROVIDER_URL_MAX] = 'a';
        assert_true(iam_provider_url_wrong(longest, &code, &why));
}

/* The statement begins so; NULL: it is not found. */
static void statement_is(const char *text, size_t number, const char *start)
{
        const char *from = NULL, *to = NULL;
        bool found = iam_statement_span(text, number, &from, &to);

        assert_int_equal(found, start != NULL);
        if (start == NULL)
                return;
        assert_memory_equal(from, start, strlen(start));
        assert_true(to > from && to[-1] == '}');
}

static void statements_are_found_in_texts(void **state)
{
        const char *two = " { \"Version\" : \"2012-10-17\", \"Id\":\"a,}\\\"]\",\n\"Statement\": [ {\"Sid\":\"}\",\"A\":[{}]} ,"
                          "{\"Sid\":\"b\"}]}";

        statement_is(two, 0, "{\"Sid\":\"}\"");
        statement_is(two, 1, "{\"Sid\":\"b\"");
        statement_is(two, 2, NULL);
        statement_is("{\"Statement\":{\"Sid\":\"c\"}}", 0, "{\"Sid\":\"c\"");
        statement_is("{\"Statement\":{\"Sid\":\"c\"}}", 1, NULL);
        statement_is("{\"A\":{\"Statement\":{}},\"Statement\":[{\"x\":1}]}", 0, "{\"x\"");
        statement_is("{\"St\\u0061tement\":{}}", 0, NULL);
        statement_is("{\"Statement\":[", 0, NULL);
        statement_is("{\"A\":\"", 0, NULL);
        statement_is("{", 0, NULL);
        statement_is("", 0, NULL);
}

static bool told_to(int family, const char *address)
{
        struct sockaddr_in v4 = {.sin_family = AF_INET};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
        void *into = family == AF_INET ? (void *)&v4.sin_addr : (void *)&v6.sin6_addr;

        assert_int_equal(inet_pton(family, address, into), 1);
        return gw_may_tell_secret(false, family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6);
}

static void secrets_stay_on_the_machine_or_go_by_tls(void **state)
{
        assert_true(gw_may_tell_secret(true, NULL));
        assert_false(gw_may_tell_secret(false, NULL));
        assert_true(told_to(AF_INET, "127.0.0.1"));
        assert_true(told_to(AF_INET, "127.9.9.9"));
        assert_false(told_to(AF_INET, "126.0.0.1"));
        assert_false(told_to(AF_INET, "192.168.127.1"));
        assert_true(told_to(AF_INET6, "::1"));
        assert_true(told_to(AF_INET6, "::ffff:127.0.0.1"));
        assert_false(told_to(AF_INET6, "::ffff:10.0.0.1"));
        assert_false(told_to(AF_INET6, "fe80::1"));
}

static void ids_are_random(void **state)
{
        char one[22], two[22];

        assert_true(iam_make_id("AIDA", 21, one) && iam_make_id("AIDA", 21, two));
        assert_int_equal(strlen(one), 21);
        assert_int_equal(strspn(one, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), 21);
        assert_memory_equal(one, "AIDA", 4);
        assert_string_not_equal(one, two);
}

static void pairs_are_put_and_dropped(void **state)
{
        struct gw_pair list[4] = {{"a", "1", 0}, {"b", "2", 0}, {"c", "3", 0}};
        struct gw_pairs set = {3, list};

        iam_pair_put(&set, "B", "new", 0);
        assert_int_equal(set.count, 3);
        assert_string_equal(list[1].text, "new");
        iam_pair_put(&set, "d", "4", 0);
        assert_int_equal(set.count, 4);
        iam_pair_drop(&set, iam_pair_find(&set, "a"));
        assert_int_equal(set.count, 3);
        assert_string_equal(list[0].name, "B");
        iam_pair_drop(&set, iam_pair_find(&set, "d"));
        assert_null(iam_pair_find(&set, "d"));
        assert_non_null(iam_pair_find(&set, "C"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(forms_are_decoded),
                cmocka_unit_test(wrong_forms_are_refused),
                cmocka_unit_test(parameters_have_limits),
                cmocka_unit_test(tags_are_members),
                cmocka_unit_test(parameters_of_signatures_are_dropped),
                cmocka_unit_test(actions_are_known_by_name),
                cmocka_unit_test(urls_of_providers_are_checked),
                cmocka_unit_test(statements_are_found_in_texts),
                cmocka_unit_test(secrets_stay_on_the_machine_or_go_by_tls),
                cmocka_unit_test(ids_are_random),
                cmocka_unit_test(pairs_are_put_and_dropped),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
