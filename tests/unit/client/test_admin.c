/*
 * test_admin.c - `millrace admin` and `millrace doctor` against a daemon of the test's own: what
 * they make of its answers, healthy or not, as exit statuses and findings.
 */
#include "tests/unit/client/fake_s3.h"

#include <errno.h>
#include <sys/stat.h>

#include "cli/doctor.h"

#define DRIVE(state)                                                                                                   \
        "{\"path\":\"/d1\",\"id\":\"aa\",\"state\":\"" state "\",\"reason\":\"\",\"total_bytes\":1000,"                \
        "\"free_bytes\":500,\"log_bytes\":1,\"data_bytes\":2,\"index_bytes\":3}"
#define INFO(ready, writable, state)                                                                                   \
        "{\"store\":\"s\",\"ec\":\"2+2\",\"epoch\":3,\"ready\":" ready ",\"writable\":" writable ",\"reason\":null,"   \
        "\"buckets\":2,\"drives\":[" DRIVE("in") "," DRIVE(state) "],\"version\":\"0.1.0\",\"uptime_s\":77}"
#define REPORT(running, damaged, unreadable)                                                                           \
        "{\"running\":" running ",\"objects\":10,\"bytes\":1000,\"shards\":40,\"damaged_shards\":" damaged ","         \
        "\"repaired_shards\":0,\"missing_shards\":0,\"unreadable_objects\":" unreadable ",\"started_ms\":1000,"        \
        "\"ended_ms\":2000}"

/* The daemon: one answer to info, and to verify first POST, then each GET in turn. */
struct daemon {
        int status;
        const char *info;
        int post_status;
        const char *report[3];
        unsigned reports, posts;
        int ready_status;
};

static void serve_daemon(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct daemon *daemon = arg;

        reply->status = daemon->status;
        if (strcmp(request->target, "/admin/v1/info") == 0) {
                fake_text(reply, daemon->info);
        } else if (strcmp(request->method, "POST") == 0) {
                daemon->posts++;
                reply->status = daemon->post_status;
                fake_text(reply, "{\"error\":\"Busy\",\"message\":\"one is running\"}");
        } else if (strcmp(request->target, "/admin/v1/verify") == 0) {
                fake_text(reply, daemon->report[daemon->reports]);
                daemon->reports += daemon->reports < 2;
        } else if (strcmp(request->target, "/health/ready") == 0) {
                reply->status = daemon->ready_status;
                fake_text(reply, "{\"ready\":false,\"reason\":\"two drives are missing\"}");
        } else {
                fake_text(reply, "<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>");
        }
}

/* Runs a command against the daemon. Its exit status. */
static int run(struct daemon *daemon, int (*command)(struct cli_call *call), bool json)
{
        struct cli_call call = {.json = json, .no_progress = true};
        struct fake_s3 fake;
        int status;

        fake_start(&fake, serve_daemon, daemon);
        call.client = fake_client(&fake, 1);
        mr_settings_default(&call.settings);
        status = command(&call);
        mr_client_free(call.client);
        fake_stop(&fake);
        return status;
}

static void info_tells_health_by_its_status(void **state)
{
        static const struct {
                int http;
                const char *info;
                int status;
        } cases[] = {
                {200, INFO("true", "true", "in"), CLI_OK},
                {200, INFO("true", "true", "missing"), CLI_FAILED},
                {200, INFO("false", "false", "in"), CLI_FAILED},
                {200, INFO("true", "false", "in"), CLI_FAILED},
                {200, "{\"ready\":true,\"writable\":true,\"lock_clock_frozen\":false,\"drives\":[]}", CLI_OK},
                {200, "{\"ready\":true,\"writable\":true,\"lock_clock_frozen\":true,\"drives\":[]}", CLI_FAILED},
                {200, "{}", CLI_FAILED},
                {200, "[1,2]", CLI_FAILED},
                {200, "{\"ready\":\"yes\",\"drives\":{\"a\":1},\"epoch\":-1}", CLI_FAILED},
                {200, "not JSON", CLI_FAILED},
                {200, "", CLI_FAILED},
                {403, "{\"error\":\"AccessDenied\",\"message\":\"no\"}", CLI_FAILED},
                {403, "<Error/>", CLI_FAILED},
                {500, "", CLI_FAILED},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct daemon daemon = {.status = cases[i].http, .info = cases[i].info};

                assert_int_equal(run(&daemon, cli_admin_info, false), cases[i].status);
        }
}

/*
 * Forecasts and switches of any value, and of wrong types: shown or left out, never an error by
 * themselves.
 */
static void info_with_forecasts(void **state)
{
        static const char *const seconds[] = {"0", "3600", "90000", "99999999999", "null", "\"soon\"", "-5", "1.5"};

        for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
                char text[512];
                struct daemon daemon = {.status = 200, .info = text};

                snprintf(text, sizeof(text),
                         "{\"ready\":true,\"writable\":true,\"read_only\":true,\"maintenance\":true,\"full_in_seconds\":%s,"
                         "\"drives\":[{\"state\":\"in\",\"full_in_seconds\":%s}]}",
                         seconds[i], seconds[i]);
                assert_int_equal(run(&daemon, cli_admin_info, false), CLI_OK);
        }
}

static void info_as_it_is(void **state)
{
        struct daemon daemon = {.status = 200, .info = INFO("false", "false", "failed")};

        assert_int_equal(run(&daemon, cli_admin_info, true), CLI_OK);
}

static void verify_waits_for_the_end(void **state)
{
        static const struct {
                int post_status;
                const char *report[3];
                int status;
        } cases[] = {
                {202, {REPORT("true", "0", "0"), REPORT("true", "0", "0"), REPORT("false", "0", "0")}, CLI_OK},
                {202, {REPORT("true", "0", "0"), REPORT("false", "1", "0"), NULL}, CLI_FAILED},
                {409, {REPORT("false", "0", "2"), NULL, NULL}, CLI_FAILED}, /* one ran already: it is joined */
                {409, {REPORT("false", "0", "0"), NULL, NULL}, CLI_OK},
                {403, {NULL, NULL, NULL}, CLI_FAILED},
                {202, {"nonsense", NULL, NULL}, CLI_FAILED},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct daemon daemon = {.status = 200, .post_status = cases[i].post_status};

                memcpy(daemon.report, cases[i].report, sizeof(daemon.report));
                assert_int_equal(run(&daemon, cli_admin_verify, i == 1), cases[i].status);
                assert_int_equal(daemon.posts, 1);
        }
}

/* ---- the lock clock -------------------------------------------------------------------------- */

/* The daemon: its lock clock, and what was asked of it last. */
struct clock_daemon {
        int status;
        const char *answer;
        char method[sizeof(((struct fake_request *)0)->method)], target[sizeof(((struct fake_request *)0)->target)];
};

static void serve_lock_clock(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct clock_daemon *daemon = arg;

        strcpy(daemon->method, request->method);
        strcpy(daemon->target, request->target);
        reply->status = daemon->status;
        fake_text(reply, daemon->answer);
}

static int run_lock_clock(struct clock_daemon *daemon, const char *confirm)
{
        static const struct cli_command command = {.name = "admin lock-clock"};
        struct cli_call call = {.command = &command, .confirm = confirm};
        struct fake_s3 fake;
        int status;

        fake_start(&fake, serve_lock_clock, daemon);
        call.client = fake_client(&fake, 1);
        mr_settings_default(&call.settings);
        status = cli_admin_lock_clock(&call);
        mr_client_free(call.client);
        fake_stop(&fake);
        return status;
}

static void a_frozen_lock_clock_is_a_failure(void **state)
{
        static const struct {
                int http;
                const char *answer;
                int status;
        } cases[] = {
                {200, "{\"in_use\":true,\"frozen\":false,\"lock_ms\":1,\"wall_ms\":2,\"budget_ms\":86400000}", CLI_OK},
                {200, "{\"in_use\":false,\"frozen\":false}", CLI_OK},
                {200, "{\"in_use\":true,\"frozen\":true,\"frozen_since_ms\":5,\"lock_ms\":1}", CLI_FAILED},
                {200, "{\"lock_ms\":\"x\",\"budget_ms\":[]}", CLI_OK},
                {503, "{\"error\":\"NotReady\",\"message\":\"no\"}", CLI_FAILED},
                {200, "nonsense", CLI_FAILED},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct clock_daemon daemon = {.status = cases[i].http, .answer = cases[i].answer};

                assert_int_equal(run_lock_clock(&daemon, NULL), cases[i].status);
                assert_string_equal(daemon.method, "GET");
                assert_string_equal(daemon.target, "/admin/v1/lock-clock");
        }
}

/* The time is given as such: not as a distance from what this machine's clock shows. */
static void a_time_is_confirmed(void **state)
{
        static const char *const none[] = {"0s", "3d", "", "now", "-5", "1000000000000", "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z"};
        struct clock_daemon daemon = {.status = 200, .answer = "{\"in_use\":true,\"frozen\":false}"};

        assert_int_equal(run_lock_clock(&daemon, "2001-09-09T01:46:40Z"), CLI_OK);
        assert_string_equal(daemon.method, "POST");
        assert_string_equal(daemon.target, "/admin/v1/lock-clock?confirm=1000000000000");
        daemon = (struct clock_daemon){.status = 409, .answer = "{\"error\":\"ClocksDiffer\",\"message\":\"no\"}"};
        assert_int_equal(run_lock_clock(&daemon, "2001-09-09T03:46:40+02:00"), CLI_FAILED);
        assert_string_equal(daemon.target, "/admin/v1/lock-clock?confirm=1000000000000");
        for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
                daemon = (struct clock_daemon){.status = 200, .answer = "{}"};
                assert_int_equal(run_lock_clock(&daemon, none[i]), CLI_USAGE);
                assert_string_equal(daemon.method, "");
        }
}

/* ---- start ----------------------------------------------------------------------------------- */

#define OUTLOOK(refusal)                                                                                               \
        "{\"reason\":\"waits for 2 drives\",\"missed\":[{\"slot\":1,\"id\":\"aa\",\"path\":\"\",\"reason\":\"gone\"},3],"      \
        "\"epoch\":7,\"drives_total\":4,\"drives_left\":2,\"drives_needed\":2,\"groups\":4096,\"groups_in_doubt\":9,"      \
        "\"groups_lost\":1,\"groups_alone\":2,\"groups_unreadable\":3,\"buckets_in_doubt\":true,\"writable\":false,"       \
        "\"refusal\":\"" refusal "\"}"

/*
 * A daemon that waits for drives: what it answers to the preview, to the word, and then to each
 * question how it went.
 */
struct waiting {
        const char *outlook;
        int post_status;
        const char *post, *report[2];
        unsigned posts, reports;
};

static void serve_waiting(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct waiting *waiting = arg;

        reply->status = 200;
        if (strcmp(request->method, "POST") == 0) {
                assert_string_equal(request->target, "/admin/v1/start?without=1%2C3");
                waiting->posts++;
                reply->status = waiting->post_status;
                fake_text(reply, waiting->post);
        } else if (strcmp(request->target, "/admin/v1/start?without=1%2C3") == 0) {
                fake_text(reply, waiting->outlook);
        } else {
                assert_string_equal(request->target, "/admin/v1/start?number=5");
                fake_text(reply, waiting->report[waiting->reports]);
                waiting->reports += waiting->reports < 1;
        }
}

static void start_does_nothing_without_yes(void **state)
{
        static const struct {
                bool yes, json;
                struct waiting waiting;
                int status;
                unsigned posts;
        } cases[] = {
                {false, false, {.outlook = OUTLOOK("")}, CLI_FAILED, 0},
                {false, true, {.outlook = OUTLOOK("")}, CLI_FAILED, 0},
                {false, false, {.outlook = OUTLOOK("it is here")}, CLI_FAILED, 0},
                {false, false, {.outlook = "{\"missed\":7}"}, CLI_FAILED, 0},
                {true, false, {NULL, 202, "{\"number\":5}", {"{\"running\":true}", "{\"running\":false,\"open\":true}"}, 0, 0}, CLI_OK, 1},
                {true, true, {NULL, 202, "{\"number\":5}", {"{\"running\":true}", "{\"running\":false,\"open\":true}"}, 0, 0}, CLI_OK, 1},
                {true, false, {NULL, 202, "{\"number\":5}", {"{\"open\":false,\"reason\":\"waits\"}"}, 0, 0}, CLI_FAILED, 1},
                {true, false, {NULL, 202, "{\"number\":5}", {"nonsense"}, 0, 0}, CLI_FAILED, 1},
                {true, false, {NULL, 409, "{\"error\":\"Refused\",\"message\":\"it is here\"}", {NULL}, 0, 0}, CLI_FAILED, 1},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct cli_call call = {.yes = cases[i].yes, .json = cases[i].json, .force_without = "1,3"};
                struct waiting waiting = cases[i].waiting;
                struct fake_s3 fake;

                fake_start(&fake, serve_waiting, &waiting);
                call.client = fake_client(&fake, 1);
                mr_settings_default(&call.settings);
                assert_int_equal(cli_admin_start(&call), cases[i].status);
                assert_int_equal(waiting.posts, cases[i].posts);
                mr_client_free(call.client);
                fake_stop(&fake);
        }
}

/* ---- doctor ---------------------------------------------------------------------------------- */

static void drives_good_and_bad(void **state)
{
        char folder[] = "/tmp/millrace-doctor-XXXXXX", file[64];
        struct cli_report report = {0};
        FILE *out;

        assert_non_null(mkdtemp(folder));
        cli_doctor_drive(&report, folder);
        assert_int_equal(report.mends, 0);
        assert_int_equal(rmdir(folder), 0); /* it left nothing behind */
        cli_doctor_drive(&report, folder);
        assert_int_equal(report.mends, 1);
        snprintf(file, sizeof(file), "%s", folder);
        out = fopen(file, "w");
        fclose(out);
        cli_doctor_drive(&report, file); /* not a folder */
        assert_int_equal(report.mends, 2);
        unlink(file);
        report = (struct cli_report){0};
        cli_doctor_drive(&report, "/proc"); /* no place for a store, in more than one way */
        assert_true(report.mends + report.notes >= 2);
}

static void write_line(const char *folder, const char *name, const char *text)
{
        char path[256];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
}

static void rdma_devices(void **state)
{
        static const char *const parts[] = {"/mlx5_0", "/mlx5_0/ports", "/mlx5_0/ports/1"};
        char folder[] = "/tmp/millrace-rdma-XXXXXX", path[128];
        struct cli_report report = {0};

        assert_non_null(mkdtemp(folder));
        cli_doctor_rdma(&report, folder);
        assert_int_equal(report.notes, 1); /* none */
        for (int i = 0; i < 3; i++) {
                snprintf(path, sizeof(path), "%s%s", folder, parts[i]);
                assert_int_equal(mkdir(path, 0700), 0);
        }
        write_line(path, "state", "4: ACTIVE\n");
        write_line(path, "rate", "200 Gb/sec\n");
        cli_doctor_rdma(&report, folder);
        assert_int_equal(report.notes, 1);
        write_line(path, "state", "1: DOWN\n");
        cli_doctor_rdma(&report, folder);
        assert_int_equal(report.notes, 2);
        assert_int_equal(report.mends, 0);
        cli_doctor_rdma(&report, "/nonexistent");
        assert_int_equal(report.notes, 3);
        snprintf(path, sizeof(path), "rm -r %s", folder);
        assert_int_equal(system(path), 0);
}

static void endpoints_good_and_bad(void **state)
{
        struct daemon daemon = {.status = 200, .ready_status = 503};
        struct cli_report report = {0};
        struct mr_settings settings;
        struct mr_client *client;
        struct fake_s3 fake;

        fake_start(&fake, serve_daemon, &daemon);
        client = fake_client(&fake, 1);
        mr_settings_default(&settings);
        snprintf(settings.endpoint, sizeof(settings.endpoint), "%s", fake.url);
        snprintf(settings.access_key, sizeof(settings.access_key), "AK");
        snprintf(settings.secret_key, sizeof(settings.secret_key), "SK");
        cli_doctor_endpoint(&report, client, &settings); /* its clock is in 2013, and it is not ready */
        assert_int_equal(report.mends, 2);
        daemon.ready_status = 200;
        settings.secret_key[0] = '\0';
        report = (struct cli_report){0};
        cli_doctor_endpoint(&report, client, &settings); /* the clock, and no credentials */
        assert_int_equal(report.mends, 2);
        daemon.status = 500;
        daemon.ready_status = 404;
        report = (struct cli_report){0};
        cli_doctor_endpoint(&report, client, &settings);
        assert_int_equal(report.mends, 3);
        assert_int_equal(report.notes, 2); /* no RDMA, too */
        fake_stop(&fake);
        report = (struct cli_report){0};
        cli_doctor_endpoint(&report, client, &settings); /* nobody there */
        assert_int_equal(report.mends, 1);
        assert_int_equal(report.notes, 1);
        mr_client_free(client);
}

static void this_machine(void **state)
{
        struct cli_report report = {0};

        cli_doctor_kernel(&report);
        cli_doctor_limits(&report);
        cli_doctor_clock(&report);
        cli_find(&report, CLI_MEND, "what", NULL, "%s", "found");
        assert_true(report.mends >= 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(info_tells_health_by_its_status),
                cmocka_unit_test(info_with_forecasts),
                cmocka_unit_test(info_as_it_is),
                cmocka_unit_test(verify_waits_for_the_end),
                cmocka_unit_test(a_frozen_lock_clock_is_a_failure),
                cmocka_unit_test(a_time_is_confirmed),
                cmocka_unit_test(start_does_nothing_without_yes),
                cmocka_unit_test(drives_good_and_bad),
                cmocka_unit_test(rdma_devices),
                cmocka_unit_test(endpoints_good_and_bad),
                cmocka_unit_test(this_machine),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
