/*
 * test_client_settings.c - settings from defaults, file, environment and single values; what is
 * refused, and that secrets are not repeated.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "client.h"
#include "client/api/client_settings.h"
#include "client/base/endpoints.h"

static char folder[] = "/tmp/millrace-settings-XXXXXX";
static char path[128];

/* Nothing of the tester's own environment may leak in. */
static int clean(void **state)
{
        for (unsigned i = 0; mr_setting_info(i) != NULL; i++) {
                char names[256], *rest = names, *name;

                snprintf(names, sizeof(names), "%s", mr_setting_info(i)->environment);
                while ((name = strsep(&rest, " ")) != NULL)
                        unsetenv(name);
        }
        unsetenv("MILLRACE_CONFIG");
        unsetenv("XDG_CONFIG_HOME");
        setenv("HOME", folder, 1);
        unlink(path);
        return 0;
}

static int set_up(void **state)
{
        if (mkdtemp(folder) == NULL)
                return -1;
        snprintf(path, sizeof(path), "%s/config", folder);
        return 0;
}

static int tear_down(void **state)
{
        unlink(path);
        return rmdir(folder);
}

static void write_file(const char *text)
{
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        fputs(text, file);
        fclose(file);
}

static void sizes(void **state)
{
        static const struct {
                const char *text;
                int rv;
                uint64_t value;
        } cases[] = {
                {"0", 0, 0},
                {"8388608", 0, 8388608},
                {"8M", 0, 8 << 20},
                {"8MiB", 0, 8 << 20},
                {"8m", 0, 8 << 20},
                {"16K", 0, 16384},
                {"5G", 0, 5ull << 30},
                {"7B", 0, 7},
                {"", -EINVAL, 0},
                {"-1", -EINVAL, 0},
                {"8Q", -EINVAL, 0},
                {"8MM", -EINVAL, 0},
                {"99999999999999999999", -EINVAL, 0},
                {"99999999999T", -EINVAL, 0},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                uint64_t value = 0;

                assert_int_equal(mr_parse_bytes(cases[i].text, &value), cases[i].rv);
                if (cases[i].rv == 0)
                        assert_int_equal(value, cases[i].value);
        }
}

static void urls(void **state)
{
        static const char *const good[] = {"http://a", "https://a.b:9000", "http://[::1]:80", "http://h/"};
        static const char *const bad[] = {"",           "a",          "ftp://a",    "http://",
                                          "http://:80", "http:///",   "http://a/b", "http://u@h",
                                          "http://a?b", "http://a b", "http://a\n"};

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
                assert_int_equal(mr_url_check(good[i]), 0);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(mr_url_check(bad[i]), -EINVAL);
}

static void single_values(void **state)
{
        struct mr_settings s;
        char why[256] = "";

        mr_settings_default(&s);
        assert_int_equal(mr_settings_set(&s, "endpoint", "https://s3.example:9000/", NULL, 0), 0);
        assert_string_equal(s.endpoint, "https://s3.example:9000");
        assert_int_equal(mr_settings_set(&s, "parallel", "64", NULL, 0), 0);
        assert_int_equal(s.parallel, 64);
        assert_int_equal(mr_settings_set(&s, "parallel", "65", why, sizeof(why)), -EINVAL);
        assert_string_equal(why, "bad value for parallel: requests at once (1 to 64)");
        assert_int_equal(s.parallel, 64);
        assert_int_equal(mr_settings_set(&s, "part_size", "0", NULL, 0), 0);
        assert_int_equal(mr_settings_set(&s, "part_size", "16M", NULL, 0), 0);
        assert_int_equal(s.part_size, 16 << 20);
        assert_int_equal(mr_settings_set(&s, "part_size", "4M", NULL, 0), -EINVAL);
        assert_int_equal(mr_settings_set(&s, "part_size", "6G", NULL, 0), -EINVAL);
        assert_int_equal(mr_settings_set(&s, "checksum", "crc32c", NULL, 0), 0);
        assert_int_equal(s.checksum, MR_CRC32C);
        assert_int_equal(mr_settings_set(&s, "checksum", "md5", NULL, 0), -EINVAL);
        assert_int_equal(mr_settings_set(&s, "transport", "rdma", NULL, 0), 0);
        assert_int_equal(s.transport, MR_TRANSPORT_RDMA);
        assert_int_equal(mr_settings_set(&s, "transport", "pigeon", NULL, 0), -EINVAL);
        assert_int_equal(mr_settings_set(&s, "sign_body", "never", NULL, 0), 0);
        assert_int_equal(s.sign_body, MR_SIGN_NEVER);
        assert_int_equal(mr_settings_set(&s, "sign_body", "perhaps", NULL, 0), -EINVAL);
        assert_int_equal(mr_settings_set(&s, "colour", "red", why, sizeof(why)), -ENOENT);
        assert_string_equal(why, "unknown setting colour");
        assert_int_equal(mr_settings_set(&s, "secret_key", "hush\nhush", why, sizeof(why)), -EINVAL);
        assert_null(strstr(why, "hush"));
}

static void the_file_is_read(void **state)
{
        struct mr_settings s;
        char why[256];

        write_file("# comment\nendpoint = http://store:9000\n[default]\naccess_key=AK\nsecret_key = s3cr=t/+\n"
                   "parallel = 3\n");
        assert_int_equal(mr_settings_load(path, &s, why, sizeof(why)), 0);
        assert_string_equal(s.endpoint, "http://store:9000");
        assert_string_equal(s.access_key, "AK");
        assert_string_equal(s.secret_key, "s3cr=t/+");
        assert_int_equal(s.parallel, 3);
        assert_string_equal(s.region, "us-east-1");
        setenv("MILLRACE_CONFIG", path, 1);
        assert_int_equal(mr_settings_load(NULL, &s, why, sizeof(why)), 0);
        assert_int_equal(s.parallel, 3);
}

static void long_lines_are_read_whole(void **state)
{
        char text[2100], token[1801];
        struct mr_settings s;
        char why[256];

        memset(token, 't', sizeof(token) - 1);
        token[sizeof(token) - 1] = '\0';
        snprintf(text, sizeof(text), "session_token = %s\n", token);
        write_file(text);
        assert_int_equal(mr_settings_load(path, &s, why, sizeof(why)), 0);
        assert_string_equal(s.session_token, token);
}

static void mistakes_in_the_file_name_their_line(void **state)
{
        static const struct {
                const char *text, *line;
                int rv;
        } cases[] = {
                {"parallel = 3\nparalel = 4\nattempts = x\n", ":2: unknown setting paralel", -ENOENT},
                {"\nattempts = 21\n", ":2: bad value for attempts", -EINVAL},
                {"[other]\nparallel = 3\n", ":2: unknown section [other]", -ENOENT},
                {"parallel\n", ":1: not a line of the form name = value", -EINVAL},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct mr_settings s;
                char why[512] = "";

                write_file(cases[i].text);
                assert_int_equal(mr_settings_load(path, &s, why, sizeof(why)), cases[i].rv);
                assert_non_null(strstr(why, cases[i].line));
                assert_non_null(strstr(why, path));
        }
}

static void only_the_default_file_may_be_missing(void **state)
{
        struct mr_settings s;
        char why[512];

        assert_int_equal(mr_settings_load(NULL, &s, why, sizeof(why)), 0);
        assert_int_equal(mr_settings_load("/nonexistent/config", &s, why, sizeof(why)), -ENOENT);
        assert_non_null(strstr(why, "/nonexistent/config"));
        setenv("MILLRACE_CONFIG", "/nonexistent/config", 1);
        assert_int_equal(mr_settings_load(NULL, &s, why, sizeof(why)), -ENOENT);
}

static void the_default_file_lies_in_the_home_folder(void **state)
{
        char home[128], config[160], file[200];
        struct mr_settings s;
        char why[512];
        FILE *out;

        snprintf(home, sizeof(home), "%s/.config", folder);
        snprintf(config, sizeof(config), "%s/millrace", home);
        snprintf(file, sizeof(file), "%s/config", config);
        assert_int_equal(mkdir(home, 0700), 0);
        assert_int_equal(mkdir(config, 0700), 0);
        out = fopen(file, "w");
        fputs("parallel = 7\n", out);
        fclose(out);
        assert_int_equal(mr_settings_load(NULL, &s, why, sizeof(why)), 0);
        assert_int_equal(s.parallel, 7);
        setenv("HOME", "/nonexistent", 1);
        setenv("XDG_CONFIG_HOME", home, 1);
        assert_int_equal(mr_settings_load(NULL, &s, why, sizeof(why)), 0);
        assert_int_equal(s.parallel, 7);
        unlink(file);
        rmdir(config);
        rmdir(home);
}

static void the_environment_overrides_the_file(void **state)
{
        struct mr_settings s;
        char why[512];

        write_file("endpoint = http://store:9000\naccess_key = F\nsecret_key = f\nsession_token = ft\n");
        setenv("AWS_ENDPOINT_URL", "http://aws:1", 1);
        assert_int_equal(mr_settings_load(path, &s, why, sizeof(why)), 0);
        assert_string_equal(s.endpoint, "http://aws:1");
        assert_string_equal(s.session_token, "ft");
        setenv("MILLRACE_ENDPOINT", "http://mine:2", 1);
        assert_int_equal(mr_settings_load(path, &s, why, sizeof(why)), 0);
        assert_string_equal(s.endpoint, "http://mine:2");
        setenv("MILLRACE_ENDPOINT", "nonsense", 1);
        assert_int_equal(mr_settings_load(path, &s, why, sizeof(why)), -EINVAL);
        assert_non_null(strstr(why, "MILLRACE_ENDPOINT"));
}

/* A token without the key it belongs to would only spoil the key that is used. */
static void a_session_token_goes_with_its_key(void **state)
{
        struct mr_settings s;
        char why[512];

        write_file("access_key = F\nsecret_key = f\nsession_token = ft\n");
        setenv("AWS_SESSION_TOKEN", "at", 1);
        assert_int_equal(mr_settings_load(path, &s, why, sizeof(why)), 0);
        assert_string_equal(s.session_token, "ft");
        setenv("AWS_ACCESS_KEY_ID", "A", 1);
        setenv("AWS_SECRET_ACCESS_KEY", "a", 1);
        assert_int_equal(mr_settings_load(path, &s, why, sizeof(why)), 0);
        assert_string_equal(s.access_key, "A");
        assert_string_equal(s.session_token, "at");
        setenv("MILLRACE_ROOT_ACCESS_KEY", "R", 1);
        setenv("MILLRACE_ROOT_SECRET_KEY", "r", 1);
        assert_int_equal(mr_settings_load(path, &s, why, sizeof(why)), 0);
        assert_string_equal(s.access_key, "R");
        assert_string_equal(s.secret_key, "r");
        assert_string_equal(s.session_token, "");
}

static void a_client_checks_them_again(void **state)
{
        struct mr_client *client;
        struct mr_settings s;

        mr_settings_default(&s);
        s.parallel = 65;
        assert_int_equal(mr_client_new(&s, &client), -EINVAL);
        mr_settings_default(&s);
        s.attempts = 0;
        assert_int_equal(mr_client_new(&s, &client), -EINVAL);
        mr_settings_default(&s);
        strcpy(s.endpoint, "http://a/b");
        assert_int_equal(mr_client_new(&s, &client), -EINVAL);
        mr_settings_default(&s);
        s.stall_timeout_s = 0;
        assert_int_equal(mr_client_new(&s, &client), -EINVAL);
        mr_client_free(NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(sizes),
                cmocka_unit_test(urls),
                cmocka_unit_test(single_values),
                cmocka_unit_test_setup(the_file_is_read, clean),
                cmocka_unit_test_setup(long_lines_are_read_whole, clean),
                cmocka_unit_test_setup(mistakes_in_the_file_name_their_line, clean),
                cmocka_unit_test_setup(only_the_default_file_may_be_missing, clean),
                cmocka_unit_test_setup(the_default_file_lies_in_the_home_folder, clean),
                cmocka_unit_test_setup(the_environment_overrides_the_file, clean),
                cmocka_unit_test_setup(a_session_token_goes_with_its_key, clean),
                cmocka_unit_test(a_client_checks_them_again),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
