/*
 * test_cli.c - the command line's own pieces: paths, options, numbers and bars in print, media
 * types, the queue of jobs.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "cli/media.h"
#include "cli/moments.h"
#include "cli/job_queue.h"

/* ---- paths ----------------------------------------------------------------------------------- */

static void s3_paths(void **state)
{
        static const struct {
                const char *text, *bucket, *key;
                int rv;
        } cases[] = {
                {"s3://", "", "", 0},
                {"s3://bkt", "bkt", "", 0},
                {"s3://bkt/", "bkt", "", 0},
                {"s3://bkt/a/b c", "bkt", "a/b c", 0},
                {"s3://bkt//a", "bkt", "/a", 0},
                {"s3://bkt/..", "bkt", "..", 0},
                {"s3://b.k-t9/a/", "b.k-t9", "a/", 0},
                {"s3:/bkt", NULL, NULL, -EINVAL},
                {"bkt/a", NULL, NULL, -EINVAL},
                {"s3:///a", NULL, NULL, -EINVAL},
                {"s3://ab/a", NULL, NULL, -EINVAL},
                {"s3://Bkt/a", NULL, NULL, -EINVAL},
                {"s3://b_kt/a", NULL, NULL, -EINVAL},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct cli_path path;

                assert_int_equal(cli_path_parse(cases[i].text, &path), cases[i].rv);
                if (cases[i].rv != 0)
                        continue;
                assert_string_equal(path.bucket, cases[i].bucket);
                assert_string_equal(path.key, cases[i].key);
        }
}

static void names_at_their_limits(void **state)
{
        char text[1200] = "s3://";
        struct cli_path path;

        memset(text + 5, 'b', 63);
        strcpy(text + 68, "/");
        memset(text + 69, 'k', 1024);
        text[69 + 1024] = '\0';
        assert_int_equal(cli_path_parse(text, &path), 0);
        assert_int_equal(strlen(path.key), 1024);
        strcat(text, "k");
        assert_int_equal(cli_path_parse(text, &path), -ENAMETOOLONG);
        memset(text + 5, 'b', 64);
        strcpy(text + 69, "/k");
        assert_int_equal(cli_path_parse(text, &path), -EINVAL);
}

static void keys_of_files(void **state)
{
        char out[CLI_KEY_MAX + 1], long_name[CLI_KEY_MAX + 2];

        assert_int_equal(cli_key_join(out, sizeof(out), "a", true, "b"), 0);
        assert_string_equal(out, "a/b");
        assert_int_equal(cli_key_join(out, sizeof(out), "a/", true, "b"), 0);
        assert_string_equal(out, "a/b");
        assert_int_equal(cli_key_join(out, sizeof(out), "", true, "b"), 0);
        assert_string_equal(out, "b");
        assert_int_equal(cli_key_join(out, sizeof(out), "a", false, ""), 0);
        assert_string_equal(out, "a");
        memset(long_name, 'x', sizeof(long_name) - 1);
        long_name[sizeof(long_name) - 1] = '\0';
        assert_int_equal(cli_key_join(out, sizeof(out), "", true, long_name), -ENAMETOOLONG);
        assert_string_equal(cli_base_name("a/b/c"), "c");
        assert_string_equal(cli_base_name("c"), "c");
        assert_string_equal(cli_base_name("a/"), "");
}

static void keys_never_leave_the_folder(void **state)
{
        static const char *const bad[] = {"",     "/a",  "../a",  "a/../b", "a/..", "..",
                                          "a//b", "./a", "a/./b", "a/.",    "//",   "a/b/../../../c"};
        char out[64];

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(cli_local_join(out, sizeof(out), "dir", bad[i]), -EINVAL);
        assert_int_equal(cli_local_join(out, sizeof(out), "dir", "a/..b/c..d/..."), 0);
        assert_string_equal(out, "dir/a/..b/c..d/...");
        assert_int_equal(cli_local_join(out, sizeof(out), "/", "a/"), 0);
        assert_string_equal(out, "/a/");
        assert_int_equal(cli_local_join(out, 6, "dir", "abc"), -ENAMETOOLONG);
}

static void keys_below_a_key(void **state)
{
        static const struct {
                const char *key, *prefix;
                bool below;
        } cases[] = {
                {"a", "", true},     {"a", "a", true},   {"a/b", "a", true}, {"ab", "a", false},
                {"a/b", "a/", true}, {"a/", "a/", true}, {"a", "a/", false}, {"b/a", "a", false},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(cli_key_is_below(cases[i].key, cases[i].prefix), cases[i].below);
}

/* ---- times ----------------------------------------------------------------------------------- */

static void times_as_people_write_them(void **state)
{
        static const struct {
                const char *text;
                int64_t ms;
        } cases[] = {
                {"2013-05-24", INT64_C(1369346400000)}, /* local, two hours ahead */
                {"2013-05-24T12:30", INT64_C(1369391400000)},
                {"2013-05-24 12:30", INT64_C(1369391400000)},
                {"2013-05-24T12:30:01", INT64_C(1369391401000)},
                {"2013-05-24 12:30:01", INT64_C(1369391401000)},
                {"2013-05-24T12:30:01Z", INT64_C(1369398601000)},
                {"2013-05-24T12:30:01.250Z", INT64_C(1369398601250)},
                {"2013-05-24T12:30:01+01:00", INT64_C(1369395001000)},
                {"2013-05-24T12:30:01-01:00", INT64_C(1369402201000)},
        };
        static const struct {
                const char *text;
                int64_t span_ms;
        } spans[] = {{"45s", 45000}, {"30m", 1800000}, {"12h", 43200000}, {"3d", 259200000}, {"0s", 0}};
        static const char *const bad[] = {"",
                                          "d",
                                          "3",
                                          "3w",
                                          "3dd",
                                          "-3d",
                                          "yesterday",
                                          "2013-02-30",
                                          "2013-13-01",
                                          "12:30",
                                          "36526d",
                                          "9999999999999s",
                                          "2013-05-24T12:30Z",
                                          "2013-05-24T12:30:01ZZ",
                                          "2013-05-24x"};
        int64_t ms;

        setenv("TZ", "CEST-2", 1);
        tzset();
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(cli_moment_parse(cases[i].text, 5, true, &ms), 0);
                assert_int_equal(ms, cases[i].ms);
        }
        for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
                assert_int_equal(cli_moment_parse(spans[i].text, INT64_C(1369391400000), true, &ms), 0);
                assert_int_equal(ms, INT64_C(1369391400000) - spans[i].span_ms);
                assert_int_equal(cli_moment_parse(spans[i].text, INT64_C(1369391400000), false, &ms), 0);
                assert_int_equal(ms, INT64_C(1369391400000) + spans[i].span_ms);
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(cli_moment_parse(bad[i], 5, true, &ms), -EINVAL);
        unsetenv("TZ");
        tzset();
}

/* ---- print ----------------------------------------------------------------------------------- */

static void numbers_in_print(void **state)
{
        static const struct {
                uint64_t bytes;
                const char *text;
        } sizes[] = {
                {0, "0 B"},
                {1023, "1023 B"},
                {1024, "1.0 KiB"},
                {1536, "1.5 KiB"},
                {102400, "100 KiB"},
                {1048575, "1.0 MiB"},
                {200 << 20, "200 MiB"},
                {5ull << 30, "5.0 GiB"},
                {1ull << 40, "1.0 TiB"},
                {UINT64_MAX, "16.0 EiB"},
        };
        static const struct {
                int64_t seconds;
                const char *text;
        } times[] = {{-1, "-:--"}, {0, "0:00"}, {7, "0:07"}, {754, "12:34"}, {3723, "1:02:03"}, {360000, "100:00:00"}};
        char out[32];

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                cli_format_bytes(out, sizeof(out), sizes[i].bytes);
                assert_string_equal(out, sizes[i].text);
        }
        for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
                cli_format_time(out, sizeof(out), times[i].seconds);
                assert_string_equal(out, times[i].text);
        }
}

static void lines_and_bars(void **state)
{
        struct cli_snapshot now = {
                .bytes = 50 << 20,
                .total_bytes = 200 << 20,
                .files = 3,
                .total_files = 10,
                .seconds = 5,
                .rate = 10 << 20,
        };
        char out[256];

        cli_format_line(out, sizeof(out), &now);
        assert_string_equal(out, " 25%  50.0 MiB / 200 MiB  10.0 MiB/s  left 0:15  3/10 files");
        cli_format_bar(out, sizeof(out), 150, &now);
        assert_string_equal(
                out, "[##########..............................]  25%  50.0 MiB / 200 MiB  10.0 MiB/s  left 0:15  "
                     "3/10 files");
        cli_format_bar(out, sizeof(out), 79, &now);
        assert_true(strlen(out) <= 79);
        assert_int_equal(out[0], '[');
        cli_format_bar(out, sizeof(out), 40, &now); /* no room for a bar */
        assert_string_equal(out, " 25%  50.0 MiB / 200 MiB  10.0 MiB/s  le");
        cli_format_bar(out, 8, 200, &now);
        assert_int_equal(strlen(out), 7);
        now.total_growing = true;
        cli_format_line(out, sizeof(out), &now);
        assert_string_equal(out, "50.0 MiB  10.0 MiB/s  3/10+ files");
        now = (struct cli_snapshot){.bytes = 1000, .total_bytes = 1000, .total_files = 1};
        cli_format_line(out, sizeof(out), &now);
        assert_string_equal(out, "100%  1000 B / 1000 B  0 B/s  left -:--");
        now.rate = 5000;
        now.bytes = 1001; /* a file that grew */
        cli_format_line(out, sizeof(out), &now);
        assert_string_equal(out, "100%  1001 B / 1000 B  4.9 KiB/s  left 0:00");
}

static void bars_of_every_width(void **state)
{
        char out[512];

        for (unsigned width = 0; width < 300; width++) {
                for (unsigned percent = 0; percent <= 110; percent += 5) {
                        struct cli_snapshot now = {.bytes = percent * 1000, .total_bytes = 100000, .rate = 1};

                        cli_format_bar(out, sizeof(out), width, &now);
                        assert_true(strlen(out) <= width);
                }
        }
}

static void media_types(void **state)
{
        assert_string_equal(cli_media_type("a/b.JSON"), "application/json");
        assert_string_equal(cli_media_type("shard-000.tar"), "application/x-tar");
        assert_null(cli_media_type("a.tar/readme"));
        assert_null(cli_media_type("a.unknown"));
        assert_null(cli_media_type("noending"));
}

/* ---- options --------------------------------------------------------------------------------- */

/* Splits at spaces; quoting is not needed here. */
static int parse(struct cli_call *call, const char *line)
{
        static char text[512];
        static char *argv[32];
        char *rest = text;
        int argc = 0;

        snprintf(text, sizeof(text), "%s", line);
        while (rest != NULL && argc < 31)
                argv[argc++] = strsep(&rest, " ");
        argv[argc] = NULL;
        return cli_call_parse(argc, argv, call);
}

static int no_environment(void **state)
{
        setenv("HOME", "/nonexistent", 1);
        unsetenv("XDG_CONFIG_HOME");
        unsetenv("MILLRACE_CONFIG");
        unsetenv("MILLRACE_ENDPOINT");
        unsetenv("MILLRACE_PARALLEL");
        return 0;
}

static void commands_and_their_options(void **state)
{
        struct cli_call call;

        assert_int_equal(
                parse(&call, "millrace put -r -j 3 --part-size 16M --meta Colour=red=blue -e http://h:1 a s3://bkt/k"),
                -1);
        assert_string_equal(call.command->name, "put");
        assert_true(call.recursive);
        assert_int_equal(call.settings.parallel, 3);
        assert_int_equal(call.settings.part_size, 16 << 20);
        assert_string_equal(call.settings.endpoint, "http://h:1");
        assert_int_equal(call.meta_count, 1);
        assert_string_equal(call.meta[0].name, "colour");
        assert_string_equal(call.meta[0].value, "red=blue");
        assert_int_equal(call.argc, 2);
        assert_string_equal(call.argv[1], "s3://bkt/k");
        assert_int_equal(parse(&call, "millrace admin uploads abort -r --older 24 s3://bkt"), -1);
        assert_string_equal(call.command->name, "admin uploads abort");
        assert_int_equal(call.older_hours, 24);
        assert_int_equal(parse(&call, "millrace put -q - s3://bkt/k"), -1); /* - is an argument */
        assert_string_equal(call.argv[0], "-");
        assert_int_equal(parse(&call, "millrace doctor -d /a --drive /b"), -1);
        assert_int_equal(call.drive_count, 2);
        assert_int_equal(parse(&call, "millrace ls"), -1);
}

static void wrong_usage_is_status_2(void **state)
{
        static const char *const lines[] = {
                "millrace",
                "millrace frobnicate",
                "millrace admin",
                "millrace admin frobnicate",
                "millrace put",
                "millrace put a",
                "millrace put --bogus a s3://bkt",
                "millrace put -j a s3://bkt",
                "millrace put -j",
                "millrace put --checksum md5 a s3://bkt",
                "millrace put --meta colour a s3://bkt",
                "millrace put --meta =red a s3://bkt",
                "millrace put --meta a:b=red a s3://bkt",
                "millrace ls --force",
                "millrace ls a b",
                "millrace ls --older 3",
                "millrace admin uploads ls --older x s3://bkt",
                "millrace cat -c /nonexistent/config s3://bkt/k",
                "millrace help frobnicate",
        };

        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
                struct cli_call call;

                assert_int_equal(parse(&call, lines[i]), CLI_USAGE);
        }
}

static void help_is_no_failure(void **state)
{
        struct cli_call call;
        char line[64];

        assert_int_equal(parse(&call, "millrace --help"), CLI_OK);
        assert_int_equal(parse(&call, "millrace --version"), CLI_OK);
        assert_int_equal(parse(&call, "millrace help put"), CLI_OK);
        assert_int_equal(parse(&call, "millrace admin --help"), CLI_OK);
        for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
                snprintf(line, sizeof(line), "millrace %s --help", c->name);
                assert_int_equal(parse(&call, line), CLI_OK);
        }
}

static void settings_of_the_environment_count(void **state)
{
        struct cli_call call;

        setenv("MILLRACE_PARALLEL", "5", 1);
        assert_int_equal(parse(&call, "millrace ls"), -1);
        assert_int_equal(call.settings.parallel, 5);
        assert_int_equal(parse(&call, "millrace ls -j 6"), -1);
        assert_int_equal(call.settings.parallel, 6);
        setenv("MILLRACE_PARALLEL", "0", 1);
        assert_int_equal(parse(&call, "millrace ls"), CLI_USAGE);
        unsetenv("MILLRACE_PARALLEL");
}

/* ---- work ------------------------------------------------------------------------------------ */

static void add_up(void *arg, void *job)
{
        struct timespec pause = {.tv_nsec = 10000};

        nanosleep(&pause, NULL);
        atomic_fetch_add((_Atomic uint64_t *)arg, (uint64_t)(uintptr_t)job);
}

static void every_job_is_done_once(void **state)
{
        _Atomic uint64_t sum = 0;
        struct cli_work *work;

        assert_int_equal(cli_work_new(4, add_up, &sum, &work), 0);
        for (uintptr_t i = 1; i <= 3000; i++) /* more than the queue holds */
                cli_work_add(work, (void *)i);
        cli_work_finish(work);
        assert_int_equal(sum, 3000 * 3001 / 2);
        assert_int_equal(cli_work_new(1, add_up, &sum, &work), 0);
        cli_work_finish(work);
        cli_work_finish(NULL);
}

static void progress_counts_without_drawing(void **state)
{
        struct cli_progress *progress;

        assert_int_equal(cli_progress_new(CLI_PROGRESS_NONE, &progress), 0);
        cli_progress_expect(progress, 2, 100);
        cli_progress_bytes(progress, 50);
        cli_progress_bytes(progress, -20);
        cli_progress_file(progress);
        cli_progress_free(progress);
        assert_int_equal(cli_progress_new(CLI_PROGRESS_LINES, &progress), 0);
        cli_progress_expect(progress, 2, 100);
        cli_progress_expect_done(progress);
        cli_progress_print(progress, false, "a message");
        cli_progress_free(progress); /* ends the thread at once, with a last line */
        cli_progress_free(NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(s3_paths),
                cmocka_unit_test(names_at_their_limits),
                cmocka_unit_test(keys_of_files),
                cmocka_unit_test(keys_never_leave_the_folder),
                cmocka_unit_test(keys_below_a_key),
                cmocka_unit_test(times_as_people_write_them),
                cmocka_unit_test(numbers_in_print),
                cmocka_unit_test(lines_and_bars),
                cmocka_unit_test(bars_of_every_width),
                cmocka_unit_test(media_types),
                cmocka_unit_test(commands_and_their_options),
                cmocka_unit_test(wrong_usage_is_status_2),
                cmocka_unit_test(help_is_no_failure),
                cmocka_unit_test(settings_of_the_environment_count),
                cmocka_unit_test(every_job_is_done_once),
                cmocka_unit_test(progress_counts_without_drawing),
        };

        return cmocka_run_group_tests(tests, no_environment, NULL);
}
