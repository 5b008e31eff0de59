/*
 * test_settings.c - settings: values of every type, every way to be wrong, who overrides whom, and
 * the sample file.
 */
#include "server/settings.h"

#include "gateway.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ARGC(argv) ((int)(sizeof(argv) / sizeof((argv)[0])))
#define LOAD(f, ...)                                                                                                   \
        ({                                                                                                             \
                const char *argv_[] = {"millraced", __VA_ARGS__};                                                      \
                load(f, ARGC(argv_), argv_);                                                                           \
        })

struct fixture {
        struct srv_settings settings;
        enum srv_action action;
        struct srv_error error;
        char file[64];
};

static int setup(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));
        int fd;

        strcpy(f->file, "/tmp/millrace-settings-XXXXXX");
        fd = mkstemp(f->file);
        if (fd < 0 || srv_settings_init(&f->settings) != 0)
                return -1;
        close(fd);
        *state = f;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *f = *state;

        unlink(f->file);
        srv_settings_free(&f->settings);
        free(f);
        return 0;
}

/* Settings as of a new start. */
static int load(struct fixture *f, int argc, const char *const argv[])
{
        srv_settings_free(&f->settings);
        assert_int_equal(srv_settings_init(&f->settings), 0);
        f->error.text[0] = '\0';
        return srv_settings_load(&f->settings, argc, argv, &f->action, &f->error);
}

static void write_bytes(struct fixture *f, const char *bytes, size_t len)
{
        FILE *file = fopen(f->file, "w");

        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, len, file), len);
        assert_int_equal(fclose(file), 0);
}

static void write_file(struct fixture *f, const char *text)
{
        write_bytes(f, text, strlen(text));
}

static void refused(struct fixture *f, int rv, const char *part)
{
        assert_true(rv < 0);
        if (strstr(f->error.text, part) == NULL)
                fail_msg("'%s' does not name '%s'", f->error.text, part);
        assert_null(strchr(f->error.text, '\n'));
}

/* ---- values ---------------------------------------------------------------------------------- */

static void test_sizes(void **state)
{
        static const struct {
                const char *text;
                uint64_t value;
        } good[] = {{"0", 0},
                    {"1", 1},
                    {"64K", 65536},
                    {"64KiB", 65536},
                    {"64kib", 65536},
                    {"3M", 3 << 20},
                    {"2GiB", 2ull << 30},
                    {"1T", 1ull << 40},
                    {"512B", 512},
                    {"18446744073709551615", UINT64_MAX}};
        static const char *const bad[] = {
                "",          "K",     "-1", "+1", "1 K", "1KB", "1.5M", "0x10", "18446744073709551616",
                "16777216T", "1MiBs", " 1", "1 "};
        const char *why;
        uint64_t value;
        size_t i;

        for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                assert_int_equal(srv_parse_size(good[i].text, &value, &why), 0);
                assert_int_equal(value, good[i].value);
        }
        for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                if (srv_parse_size(bad[i], &value, &why) == 0)
                        fail_msg("'%s' was taken for a size", bad[i]);
}

static void test_durations(void **state)
{
        const char *why;
        uint64_t ms;

        assert_int_equal(srv_parse_duration("250ms", &ms, &why), 0);
        assert_int_equal(ms, 250);
        assert_int_equal(srv_parse_duration("30", &ms, &why), 0);
        assert_int_equal(ms, 30000);
        assert_int_equal(srv_parse_duration("5m", &ms, &why), 0);
        assert_int_equal(ms, 300000);
        assert_int_equal(srv_parse_duration("2h", &ms, &why), 0);
        assert_int_equal(ms, 7200000);
        assert_true(srv_parse_duration("5 m", &ms, &why) < 0);
        assert_true(srv_parse_duration("m", &ms, &why) < 0);
        assert_true(srv_parse_duration("1w", &ms, &why) < 0);
        assert_true(srv_parse_duration("213503982335d", &ms, &why) < 0);
}

static void test_addresses(void **state)
{
        static const char *const bad[] = {"9000",     "127.0.0.1", "127.0.0.1:", ":x",        "1.2.3.4:65536",
                                          "::1:9000", "[::1]",     "[]:1",       "[::1:9000", "a b:1",
                                          "host/x:1", "[host]:1",  "1.2.3.4:-1"};
        struct srv_address a;
        const char *why;
        size_t i;

        assert_int_equal(srv_parse_address("10.0.0.1:9000", &a, &why), 0);
        assert_string_equal(a.host, "10.0.0.1");
        assert_int_equal(a.port, 9000);
        assert_true(a.set);
        assert_int_equal(srv_parse_address("[fe80::1]:0", &a, &why), 0);
        assert_string_equal(a.host, "fe80::1");
        assert_int_equal(a.port, 0);
        assert_int_equal(srv_parse_address("*:65535", &a, &why), 0);
        assert_string_equal(a.host, "");
        assert_int_equal(srv_parse_address(":80", &a, &why), 0);
        assert_string_equal(a.host, "");
        assert_true(a.set);
        assert_int_equal(srv_parse_address("", &a, &why), 0);
        assert_false(a.set);
        for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                if (srv_parse_address(bad[i], &a, &why) == 0)
                        fail_msg("'%s' was taken for an address", bad[i]);
}

static void test_codes_words_and_bools(void **state)
{
        static const char *const bad_codes[] = {"4", "4+", "+2", "0+1", "33+1", "4+9", "4-2", "4+2+1", "4 + 2", "k+m"};
        struct srv_ec ec;
        const char *why;
        unsigned word;
        size_t i;
        bool flag;

        assert_int_equal(srv_parse_ec("8+3", &ec, &why), 0);
        assert_true(ec.k == 8 && ec.m == 3);
        assert_int_equal(srv_parse_ec("1+0", &ec, &why), 0);
        assert_true(ec.k == 1 && ec.m == 0);
        for (i = 0; i < sizeof(bad_codes) / sizeof(bad_codes[0]); i++)
                assert_true(srv_parse_ec(bad_codes[i], &ec, &why) < 0);
        assert_int_equal(srv_parse_choice("warning", "error|warning|info", &word, &why), 0);
        assert_int_equal(word, 1);
        assert_true(srv_parse_choice("warn", "error|warning|info", &word, &why) < 0);
        assert_true(srv_parse_choice("", "error|warning|info", &word, &why) < 0);
        assert_int_equal(srv_parse_bool("Yes", &flag, &why), 0);
        assert_true(flag);
        assert_int_equal(srv_parse_bool("off", &flag, &why), 0);
        assert_false(flag);
        assert_true(srv_parse_bool("maybe", &flag, &why) < 0);
        assert_true(srv_parse_bool("", &flag, &why) < 0);
}

/* What is written is read back as the same value. */
static void test_formats_round_trip(void **state)
{
        static const uint64_t values[] = {0, 1, 1000, 1023, 1024, 65536, 1536, 1ull << 20, 160ull << 20, 1ull << 44};
        const char *why;
        uint64_t back;
        char text[32];
        size_t i;

        for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
                srv_format_size(values[i], text, sizeof(text));
                assert_int_equal(srv_parse_size(text, &back, &why), 0);
                assert_int_equal(back, values[i]);
                srv_format_duration(values[i], text, sizeof(text));
                if (values[i] == 0)
                        continue;
                assert_int_equal(srv_parse_duration(text, &back, &why), 0);
                assert_int_equal(back, values[i]);
        }
        srv_format_size(64ull << 20, text, sizeof(text));
        assert_string_equal(text, "64MiB");
        srv_format_duration(60000, text, sizeof(text));
        assert_string_equal(text, "1m");
}

/* ---- the command line ------------------------------------------------------------------------ */

static void test_defaults(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(LOAD(f, "--drive", "/d"), 0);
        assert_int_equal(f->action, SRV_RUN);
        assert_int_equal(f->settings.drive.count, 1);
        assert_false(f->settings.format);
        assert_string_equal(f->settings.listen.host, "127.0.0.1");
        assert_int_equal(f->settings.listen.port, 9000);
        assert_int_equal(f->settings.admin.port, 9001);
        assert_false(f->settings.plain_listen.set);
        assert_string_equal(f->settings.region, "us-east-1");
        assert_int_equal(f->settings.cache, 32ull << 20);
        assert_int_equal(f->settings.idle_timeout, 60000);
        assert_int_equal(f->settings.heal_rate, 0); /* the engine chooses */
        assert_int_equal(f->settings.inline_max, 128 << 10);
        assert_int_equal(f->settings.ec.k, 0);
        assert_int_equal(f->settings.log_level, 2);
        assert_string_equal(f->settings.test_faults, "");
        assert_int_equal(f->settings.test_md5_lanes, 0);
}

static void test_every_way_to_give_an_option(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(LOAD(f, "--drive", "/a", "--drive=/b", "--format", "--listen", "[::1]:0", "--admin=*:1",
                              "--ec", "2+1", "--loops", "3", "--tls-cert", "/c", "--tls_key=/k=x", "--cache", "0",
                              "--access-log", "-",
                              "--region="
                              "eu-1"),
                         0);
        assert_int_equal(f->settings.drive.count, 2);
        assert_string_equal(f->settings.drive.item[0], "/a");
        assert_string_equal(f->settings.drive.item[1], "/b");
        assert_true(f->settings.format);
        assert_string_equal(f->settings.listen.host, "::1");
        assert_true(f->settings.ec.k == 2 && f->settings.ec.m == 1);
        assert_int_equal(f->settings.loops, 3);
        assert_string_equal(f->settings.tls_key, "/k=x");
        assert_string_equal(f->settings.access_log, "-");
        assert_string_equal(f->settings.region, "eu-1");
        assert_int_equal(f->settings.cache, 0);
        assert_int_equal(LOAD(f, "--drive", "/a", "--format=no"), 0);
        assert_false(f->settings.format);
        assert_int_equal(LOAD(f, "--drive", "/a", "--tail-size", "4MiB"), 0); /* its name in 0.1 */
        assert_int_equal(f->settings.memtable_size, 4 << 20);
        assert_int_equal(LOAD(f, "--drive", "/a", "--inline-max", "4KiB"), 0);
        assert_int_equal(f->settings.inline_max, 4096);
        assert_int_equal(LOAD(f, "--drive", "/a", "--inline-max=0"), 0);
        assert_int_equal(f->settings.inline_max, 0);
}

static void test_command_line_refusals(void **state)
{
        struct fixture *f = *state;

        refused(f, LOAD(f, "--drive", "/a", "--nonsense", "1"), "--nonsense");
        refused(f, LOAD(f, "--drive", "/a", "--dri", "1"), "--dri");
        refused(f, LOAD(f, "--drive", "/a", "/b"), "/b");
        refused(f, LOAD(f, "--drive", "/a", "-x"), "-x");
        refused(f, LOAD(f, "--drive", "/a", "--"), "--");
        refused(f, LOAD(f, "--drive", "/a", "--listen"), "--listen: value missing");
        refused(f, LOAD(f, "--drive", "/a", "--listen", "nowhere"), "--listen");
        refused(f, LOAD(f, "--drive", "/a", "--loops", "many"), "--loops");
        refused(f, LOAD(f, "--drive", "/a", "--loops", "257"), "between 1 and 256");
        refused(f, LOAD(f, "--drive", "/a", "--memory", "1MiB"), "between 32MiB");
        refused(f, LOAD(f, "--drive", "/a", "--idle-timeout", "10ms"), "between 1s and 24h");
        refused(f, LOAD(f, "--drive", "/a", "--memtable-size", "0"), "--memtable-size");
        refused(f, LOAD(f, "--drive", "/a", "--inline-max", "131073"), "--inline-max");
        refused(f, LOAD(f, "--drive", "/a", "--ec", "2+"), "--ec");
        refused(f, LOAD(f, "--drive", "/a", "--format=perhaps"), "--format");
        refused(f, LOAD(f, "--drive", "/a", "--log-level", "loud"), "error|warning|info");
        refused(f, LOAD(f, "--drive", "/a", "--region", ""), "--region");
        refused(f, LOAD(f, "--drive", ""), "--drive");
        refused(f, LOAD(f, "--drive", "/a", "--loops", "1", "--loops", "1"), "--loops is given twice");
        refused(f, LOAD(f, "--format"), "--drive");
        refused(f, LOAD(f, "--drive", "/a", "--tls-cert", "/c"), "tls_key");
        refused(f, LOAD(f, "--drive", "/a", "--tls-key", "/c"), "tls_cert");
        refused(f, LOAD(f, "--drive", "/a", "--admin-tls"), "tls_cert");
        refused(f, LOAD(f, "--drive", "/a", "--tls-priorities", "NORMAL:+VERS-SSL9"), "+VERS-SSL9");
        refused(f, LOAD(f, "--drive", "/a", "--tls-priorities", ""), "--tls-priorities");
        refused(f, LOAD(f, "--drive", "/a", "--listen", ""), "listen");
        refused(f, LOAD(f, "--drive", "/a", "--admin", ""), "admin");
        refused(f, LOAD(f, "--config", f->file, "--config", f->file), "--config is given twice");
        refused(f, LOAD(f, "--config", "/nowhere/at/all"), "/nowhere/at/all");
}

static void test_too_many_and_too_long(void **state)
{
        struct fixture *f = *state;
        const char *argv[2 * SRV_LIST_MAX + 3];
        char *longest;
        int i;

        argv[0] = "millraced";
        for (i = 0; i <= (int)SRV_LIST_MAX; i++) {
                argv[1 + 2 * i] = "--drive";
                argv[2 + 2 * i] = "/d";
        }
        assert_int_equal(load(f, 2 * (int)SRV_LIST_MAX + 1, argv), 0);
        assert_int_equal(f->settings.drive.count, SRV_LIST_MAX);
        refused(f, load(f, 2 * (int)SRV_LIST_MAX + 3, argv), "more than 64");

        longest = malloc(SRV_VALUE_MAX + 2);
        memset(longest, 'x', SRV_VALUE_MAX + 1);
        longest[SRV_VALUE_MAX + 1] = '\0';
        refused(f, LOAD(f, "--drive", longest), "--drive: value is longer");
        longest[SRV_VALUE_MAX] = '\0';
        assert_int_equal(LOAD(f, "--drive", longest), 0);
        free(longest);
}

static void test_actions(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(LOAD(f, "--help"), 0);
        assert_int_equal(f->action, SRV_HELP);
        assert_int_equal(LOAD(f, "--drive", "/a", "--version"), 0);
        assert_int_equal(f->action, SRV_VERSION);
        assert_int_equal(LOAD(f, "--print-sample-config"), 0);
        assert_int_equal(f->action, SRV_PRINT_SAMPLE_CONFIG);
        /* A value is a value, whatever it looks like. */
        assert_int_equal(LOAD(f, "--drive", "--help"), 0);
        assert_int_equal(f->action, SRV_RUN);
        assert_string_equal(f->settings.drive.item[0], "--help");
}

/* ---- the file -------------------------------------------------------------------------------- */

static void test_file(void **state)
{
        struct fixture *f = *state;

        write_file(
                f,
                "# comment\n; comment\n\ndrive = /a\n  drive=/b ; not a comment\r\nformat = yes\nlisten: 10.0.0.1:80\n"
                "cache = 1GiB");
        assert_int_equal(LOAD(f, "--config", f->file), 0);
        assert_int_equal(f->settings.drive.count, 2);
        assert_string_equal(f->settings.drive.item[1], "/b ; not a comment");
        assert_true(f->settings.format);
        assert_int_equal(f->settings.listen.port, 80);
        assert_int_equal(f->settings.cache, 1ull << 30);
}

static void test_who_overrides_whom(void **state)
{
        struct fixture *f = *state;

        write_file(f, "drive = /a\ndrive = /b\nregion = file\nloops = 7\nformat = yes\n");
        assert_int_equal(LOAD(f, "--region", "line", "--config", f->file, "--drive", "/c", "--format=no"), 0);
        assert_string_equal(f->settings.region, "line");
        assert_int_equal(f->settings.loops, 7);
        assert_int_equal(f->settings.drive.count, 1);
        assert_string_equal(f->settings.drive.item[0], "/c");
        assert_false(f->settings.format);
        assert_int_equal(f->settings.source[SRV_SETTING_loops], SRV_FROM_FILE);
        assert_int_equal(f->settings.source[SRV_SETTING_region], SRV_FROM_COMMAND_LINE);
        assert_int_equal(f->settings.source[SRV_SETTING_cache], SRV_FROM_DEFAULT);
        /* What is overridden must still be right. */
        write_file(f, "drive = /a\nloops = none\n");
        refused(f, LOAD(f, "--config", f->file, "--loops", "2"), "loops");
}

static void test_rdma_addresses(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(LOAD(f, "--drive", "/d", "--rdma-listen", "10.0.0.1:9010", "--rdma-listen", "[fd00::1]:0"), 0);
        assert_int_equal(f->settings.rdma_listen.count, 2);
        write_file(f, "drive = /d\nrdma_listen = nowhere\n");
        refused(f, LOAD(f, "--config", f->file), "rdma_listen");
        write_file(f, "drive = /d\nrdma_listen = 10.0.0.1:1\nrdma_listen = 10.0.0.1:2\nrdma_listen = 10.0.0.1:3\nrdma_listen = 10.0.0.1:4\n"
                      "rdma_listen = 10.0.0.1:5\nrdma_listen = 10.0.0.1:6\nrdma_listen = 10.0.0.1:7\nrdma_listen = 10.0.0.1:8\n"
                      "rdma_listen = 10.0.0.1:9\n");
        refused(f, LOAD(f, "--config", f->file), "more than 8");
}

static void test_rdma_tokens(void **state)
{
        static const char *const wrong[] = {"*", "", ",", "::", "0.0.0.0", "fe80::1,*", "fe80::1;fe80::2", "fe80::/10", "10.0.0", "all",
                                            "00000000000000000000ffff7f000002"};
        struct fixture *f = *state;
        struct gw_targets targets;
        uint64_t key;
        unsigned i;
        char line[200];

        assert_int_equal(LOAD(f, "--drive", "/d", "--rdma-listen", "10.0.0.1:1", "--rdma-token-gid", "fe80::1, 10.0.0.2",
                              "--rdma-token-gid", "fd00::3", "--rdma-token-key", "00FF"),
                         0);
        assert_int_equal(srv_token_gids(&f->settings.rdma_token_gid, "rdma_token_gid", &targets, &f->error), 0);
        assert_int_equal(targets.count, 3);
        assert_memory_equal(targets.gid[0], "\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\x01", 16);
        assert_memory_equal(targets.gid[1], "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x02", 16);
        assert_int_equal(targets.gid[2][15], 3);
        assert_int_equal(srv_token_key(f->settings.rdma_token_key, &key, &f->error), 0);
        assert_true(key == 0xff);
        assert_int_equal(LOAD(f, "--drive", "/d"), 0);
        assert_int_equal(srv_token_key(f->settings.rdma_token_key, &key, &f->error), 0);
        assert_true(key == 0xffeeddcc);
        for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                snprintf(line, sizeof(line), "drive = /d\nrdma_listen = 10.0.0.1:1\nrdma_token_gid = %s\n", wrong[i]);
                write_file(f, line);
                refused(f, LOAD(f, "--config", f->file), "rdma_token_gid");
        }
        refused(f, LOAD(f, "--drive", "/d", "--rdma-token-gid", "fe80::1"), "without rdma_listen");
        refused(f, LOAD(f, "--drive", "/d", "--rdma-token-gid-plain", "fe80::1"), "without rdma_listen");
        assert_int_equal(LOAD(f, "--drive", "/d", "--rdma-listen", "10.0.0.1:1", "--rdma-token-gid-plain", "fe80::1"),
                         0);
        refused(f, LOAD(f, "--drive", "/d", "--rdma-token-key", "0x12"), "rdma_token_key");
        refused(f, LOAD(f, "--drive", "/d", "--rdma-token-key", "12345678123456781"), "rdma-token-key");
}

/* More than can be kept. */
static void test_networks(void **state)
{
        static const struct {
                const char *text;
                uint8_t first, last;
                unsigned bits;
        } good[] = {{"10.1.2.3", 0, 3, 128}, {"10.1.0.0/16", 0, 0, 112}, {"0.0.0.0/0", 0, 0, 96},
                    {"2001:db8::/48", 0x20, 0, 48}, {"::1", 0, 1, 128}, {"::/0", 0, 0, 0}};
        static const char *const bad[] = {"", ",", "10.0.0", "10.0.0.0/33", "::/129", "::/x", "10.0.0.0/", "a.example", "10.0.0.1,"};
        struct srv_list list = {.count = 1};
        struct gw_networks out;
        struct srv_error error;

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                list.item[0] = (char *)good[i].text;
                assert_int_equal(srv_networks(&list, "proxy", &out, &error), 0);
                assert_int_equal(out.count, 1);
                assert_int_equal(out.list[0].bits, good[i].bits);
                assert_int_equal(out.list[0].address[0], good[i].first);
                assert_int_equal(out.list[0].address[15], good[i].last);
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                list.item[0] = (char *)bad[i];
                assert_int_equal(srv_networks(&list, "proxy", &out, &error), -EINVAL);
                assert_non_null(strstr(error.text, "proxy"));
        }
        list.item[0] = (char *)" 10.0.0.1 ,\t10.0.0.2/31";
        assert_int_equal(srv_networks(&list, "proxy", &out, &error), 0);
        assert_int_equal(out.count, 2);
}

static void test_too_many_gids(void **state)
{
        static char text[SRV_VALUE_MAX];
        struct srv_list list = {.count = 5};
        struct gw_targets targets;
        struct srv_error error;
        unsigned i;

        for (i = 0; i < 250; i++)
                strcat(text, i > 0 ? ",fe80::1" : "fe80::1");
        for (i = 0; i < 5; i++)
                list.item[i] = text;
        assert_int_equal(srv_token_gids(&list, "rdma_token_gid", &targets, &error), -EINVAL);
        list.count = 4;
        assert_int_equal(srv_token_gids(&list, "rdma_token_gid", &targets, &error), 0);
        assert_int_equal(targets.count, 1000);
}

static void test_file_refusals(void **state)
{
        struct fixture *f = *state;
        char line[6000];

        write_file(f, "drive = /a\nnonsense = 1\n");
        refused(f, LOAD(f, "--config", f->file), ":2: unknown setting 'nonsense'");
        write_file(f, "drive = /a\nconfig = /b\n");
        refused(f, LOAD(f, "--config", f->file), "unknown setting 'config'");
        write_file(f, "drive = /a\ntls-cert = /b\n");
        refused(f, LOAD(f, "--config", f->file), "unknown setting 'tls-cert'");
        write_file(f, "drive = /a\n\nloops = 0x3\n");
        refused(f, LOAD(f, "--config", f->file), ":3: loops");
        write_file(f, "drive = /a\nloops = 1\nloops = 2\n");
        refused(f, LOAD(f, "--config", f->file), ":3: loops is given twice");
        write_file(f, "drive = /a\njust words\n");
        refused(f, LOAD(f, "--config", f->file), ":2: line is not of the form");
        write_file(f, "[server]\ndrive = /a\n");
        refused(f, LOAD(f, "--config", f->file), "sections");
        write_file(f, "drive = /a\n[never closed\n");
        refused(f, LOAD(f, "--config", f->file), ":2: line");
        write_bytes(f, "drive = /a\nregion = a\0b\n", 24);
        refused(f, LOAD(f, "--config", f->file), ":2: line has a byte of zero");
        memset(line, 'x', sizeof(line));
        memcpy(line, "region = ", 9);
        write_bytes(f, line, sizeof(line));
        refused(f, LOAD(f, "--config", f->file), ":1: line is too long");
        refused(f, LOAD(f, "--config", "/tmp"), "/tmp");
}

/* An issuer is asked over TLS, or on this machine; and for what its tokens are made must be said. */
static void test_issuers(void **state)
{
        static const char *const wrong[] = {"http://id.example.org", "ftp://id.example.org", "id.example.org", "https://u:p@id.example.org",
                                            "https://id.example.org/?a=b", "https://id.example.org/#a",
                                            "https://id.example.org http://id.example.org/keys"};
        struct fixture *f = *state;

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
                refused(f, LOAD(f, "--drive", "/d", "--oidc-audience", "a", "--oidc-issuer", wrong[i]), "oidc_issuer");
        assert_int_equal(LOAD(f, "--drive", "/d", "--oidc-issuer", "https://id.example.org"), 0);
        assert_int_equal(LOAD(f, "--drive", "/d", "--oidc-audience", "a", "--oidc-issuer", "http://127.0.0.1:80/realm"), 0);
        assert_int_equal(LOAD(f, "--drive", "/d", "--oidc-audience", "a", "--oidc-issuer", "https://a.b https://c.d/keys"), 0);
}

/* The sample with every comment sign taken away is a file of exactly the defaults. */
static void test_sample_round_trip(void **state)
{
        struct fixture *f = *state;
        struct srv_settings defaults;
        char *sample = NULL, *line, *next;
        const struct srv_setting_info *info;
        size_t len;
        FILE *out;
        int i, settings = 0, hidden = 0, lists = 0;

        for (i = 0; i < SRV_SETTING_COUNT; i++) {
                hidden += srv_setting_infos[i].help == NULL;
                lists += srv_setting_infos[i].type == SRV_LIST;
        }
        out = open_memstream(&sample, &len);
        srv_print_sample_config(out);
        fclose(out);
        write_file(f, sample);
        assert_int_equal(LOAD(f, "--config", f->file, "--drive", "/d"), 0); /* as it stands it says nothing */
        out = fopen(f->file, "w");
        for (line = sample; line != NULL && *line != '\0'; line = next) {
                next = strchr(line, '\n');
                if (next != NULL)
                        *next++ = '\0';
                if (line[0] != '#' || line[1] == ' ')
                        continue;
                fprintf(out, "%s\n", line + 1);
                settings++;
        }
        fclose(out);
        assert_int_equal(settings, SRV_SETTING_COUNT - hidden + lists); /* these twice */
        assert_int_equal(LOAD(f, "--config", f->file), 0);
        assert_int_equal(srv_settings_init(&defaults), 0);
        for (i = 0; i < SRV_SETTING_COUNT; i++) {
                info = &srv_setting_infos[i];
                if (info->type == SRV_INT || info->type == SRV_SIZE || info->type == SRV_DURATION)
                        assert_memory_equal((char *)&f->settings + info->offset, (char *)&defaults + info->offset, 8);
                if (info->type == SRV_ADDRESS)
                        assert_memory_equal((char *)&f->settings + info->offset, (char *)&defaults + info->offset,
                                            sizeof(struct srv_address));
                if (info->type == SRV_STRING)
                        assert_string_equal(*(char **)((char *)&f->settings + info->offset),
                                            *(char **)((char *)&defaults + info->offset));
        }
        srv_settings_free(&defaults);
        free(sample);
}

/* What six lines leave out lies beside the settings file; what they say counts. A leader process knows its node's number. */
static void test_a_node_of_few_lines(void **state)
{
        static const char lines[] = "cluster = c\nnode = n1\netcd = http://h:1\ncluster_listen = 192.0.2.1:7000\ndrive = /d\ncluster_key = /k\n";
        struct fixture *f = *state;
        FILE *out = fopen(f->file, "w");

        fputs(lines, out);
        fclose(out);
        assert_int_equal(LOAD(f, "--config", f->file), 0);
        assert_string_equal(f->settings.cluster_ca, "/tmp/ca.crt");
        assert_string_equal(f->settings.cluster_cert, "/tmp/n1.crt");
        assert_string_equal(f->settings.cluster_key, "/k");
        assert_string_equal(f->settings.key_file, access("/tmp/key", F_OK) == 0 ? "/tmp/key" : "");
        assert_true(f->settings.format);
        assert_int_equal(f->settings.number, 0);
        assert_int_equal(LOAD(f, "--config", f->file, "--format=no", "--cluster-ca", "/a"), 0);
        assert_false(f->settings.format);
        assert_string_equal(f->settings.cluster_ca, "/a");
        assert_int_equal(LOAD(f, "--config", f->file, "--lead", "7:1:1:1:5:0:0:0:1:1:1:1:4"), 0);
        assert_int_equal(f->settings.number, 7);
        refused(f, LOAD(f, "--config", f->file, "--node", "a/b"), "node");
        refused(f, LOAD(f, "--config", f->file, "--node", ""), "node");
        refused(f, LOAD(f, "--drive", "/d", "--cluster", "c", "--node", "n", "--etcd", "http://h:1", "--cluster-listen", "192.0.2.1:7000"), "cluster_ca");
        assert_int_equal(LOAD(f, "--drive", "/d"), 0);
        assert_string_equal(f->settings.cluster_ca, "");
        assert_false(f->settings.format);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_durations),
                cmocka_unit_test(test_addresses),
                cmocka_unit_test(test_codes_words_and_bools),
                cmocka_unit_test(test_formats_round_trip),
                cmocka_unit_test_setup_teardown(test_defaults, setup, teardown),
                cmocka_unit_test_setup_teardown(test_every_way_to_give_an_option, setup, teardown),
                cmocka_unit_test_setup_teardown(test_command_line_refusals, setup, teardown),
                cmocka_unit_test_setup_teardown(test_too_many_and_too_long, setup, teardown),
                cmocka_unit_test_setup_teardown(test_actions, setup, teardown),
                cmocka_unit_test_setup_teardown(test_file, setup, teardown),
                cmocka_unit_test_setup_teardown(test_who_overrides_whom, setup, teardown),
                cmocka_unit_test_setup_teardown(test_rdma_addresses, setup, teardown),
                cmocka_unit_test_setup_teardown(test_rdma_tokens, setup, teardown),
                cmocka_unit_test(test_networks),
                cmocka_unit_test_setup_teardown(test_too_many_gids, setup, teardown),
                cmocka_unit_test_setup_teardown(test_file_refusals, setup, teardown),
                cmocka_unit_test_setup_teardown(test_issuers, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_node_of_few_lines, setup, teardown),
                cmocka_unit_test_setup_teardown(test_sample_round_trip, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
