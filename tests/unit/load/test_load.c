/*
 * test_load.c - the load generator's pieces: percentiles, the bytes of objects, its HTTP parser,
 * what it reads from /proc, its options.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <time.h>

#include "bench/load/load_options.h"
#include "bench/load/server.h"
#include "load_content.h"
#include "load/run.h"
#include "tests/unit/client/fake_s3.h"

static void each_key_once(void **state)
{
        static const uint64_t counts[] = {1, 2, 1000, 4096, 99991};
        static bool seen[100000];

        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                memset(seen, 0, sizeof(seen));
                for (uint64_t index = 0; index < counts[i]; index++) {
                        uint64_t key = load_once(index, counts[i]);

                        assert_true(key < counts[i] && !seen[key]);
                        seen[key] = true;
                }
        }
}

static void percentiles(void **state)
{
        static struct load_stats stats;

        assert_int_equal(load_stats_percentile(&stats, 0.5), 0);
        for (uint64_t i = 1; i <= 100000; i++)
                load_stats_add(&stats, i * 1000);
        for (double share = 0.01; share <= 1; share += 0.01) {
                double exact = share * 1e8, found = (double)load_stats_percentile(&stats, share);

                assert_true(found >= exact * 0.999 && found <= exact * 1.02);
        }
        assert_int_equal(load_stats_percentile(&stats, 1), 100000000);
        assert_int_equal(load_stats_percentile(&stats, 0), load_stats_upper(load_stats_bucket(1000)));
        assert_int_equal(stats.max, 100000000);
}

static void buckets_hold_every_number(void **state)
{
        uint64_t last = 0;

        for (unsigned i = 0; i < LOAD_BUCKETS; i++) {
                uint64_t upper = load_stats_upper(i);

                assert_int_equal(load_stats_bucket(upper), i);
                assert_true(i == 0 || upper > last);
                if (upper != UINT64_MAX)
                        assert_int_equal(load_stats_bucket(upper + 1), i + 1);
                last = upper;
        }
        assert_int_equal(last, UINT64_MAX);
}

static void wrong_bytes_are_seen(void **state)
{
        char *pattern = load_pattern_new(), *data = malloc(3 * LOAD_PATTERN);

        assert_non_null(pattern);
        for (uint64_t at = 0; at < 3ull * LOAD_PATTERN;) { /* over the pattern's end more than once */
                uint32_t from = load_content_at(42, at);
                size_t run = load_content_run(from, 3ull * LOAD_PATTERN - at);

                memcpy(data + at, pattern + from, run);
                at += run;
        }
        assert_int_equal(load_content_check(pattern, 42, 0, data, 3ul * LOAD_PATTERN), 0);
        assert_int_equal(load_content_check(pattern, 42, 5000, data + 5000, 100), 0);
        assert_int_equal(load_content_check(pattern, 43, 0, data, 4096), -EBADMSG);
        assert_int_equal(load_content_check(pattern, 42, 1, data, 4096), -EBADMSG);
        assert_int_equal(load_content_check(pattern, 42, 1 << 20, data, 4096), -EBADMSG);
        data[2 * LOAD_PATTERN] ^= 1;
        assert_int_equal(load_content_check(pattern, 42, 0, data, 3ul * LOAD_PATTERN), -EBADMSG);
        free(pattern);
        free(data);
}

/* ---- parser ---------------------------------------------------------------------------------- */

struct body {
        char text[256];
        size_t len;
        int rv;
};

static int take(void *arg, uint64_t offset, const char *data, size_t len)
{
        struct body *body = arg;

        assert_int_equal(offset, body->len);
        assert_true(body->len + len < sizeof(body->text));
        memcpy(body->text + body->len, data, len);
        body->len += len;
        body->text[body->len] = '\0';
        return body->rv;
}

/*
 * Feeds a response in pieces of `step` bytes. 0, or what the parser said; *left: bytes it did not
 * take.
 */
static int feed(struct load_parser *parser, struct body *body, const char *text, size_t step, size_t *left)
{
        size_t len = strlen(text), at = 0;
        int rv = 0;

        while (at < len && rv == 0 && parser->state != LOAD_DONE) {
                size_t used;

                rv = load_parser_feed(parser, text + at, len - at < step ? len - at : step, take, body, &used);
                at += used;
        }
        *left = len - at;
        return rv;
}

static void answers_cut_anywhere(void **state)
{
        static const struct {
                const char *text, *body;
                int status;
                bool no_body, keep;
        } cases[] = {
                {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"e\"\r\n\r\nhello", "hello", 200, false, true},
                {"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nConnection: close\r\n\r\n", "", 200, false, false},
                {"HTTP/1.1 204 No Content\r\n\r\n", "", 204, false, true},
                {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", "", 200, true, true},
                {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200, false, true},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: "
                 "v\r\n\r\n",
                 "abc0123456789", 200, false, true},
                {"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", 404, false, true},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                for (size_t step = 1; step <= 200; step++) {
                        static struct load_parser parser;
                        struct body body = {.text = ""};
                        size_t left;

                        load_parser_start(&parser, cases[i].no_body);
                        assert_int_equal(feed(&parser, &body, cases[i].text, step, &left), 0);
                        assert_int_equal(parser.state, LOAD_DONE);
                        assert_int_equal(left, 0);
                        assert_int_equal(parser.status, cases[i].status);
                        assert_int_equal(parser.keep, cases[i].keep);
                        assert_string_equal(body.text, cases[i].body);
                        assert_int_equal(parser.body, strlen(cases[i].body));
                        if (i == 0)
                                assert_string_equal(parser.etag, "\"e\"");
                }
        }
}

static void answers_that_are_none(void **state)
{
        static const char *const texts[] = {
                "SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
                "HTTP/1.1 200 OK\r\n\r\n", /* no length */
        };
        static char endless[LOAD_HEAD_MAX + 100];
        static struct load_parser parser;
        struct body body = {.text = ""};
        size_t left;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                load_parser_start(&parser, false);
                assert_int_equal(feed(&parser, &body, texts[i], 7, &left), -EPROTO);
        }
        memset(endless, 'a', sizeof(endless) - 1);
        load_parser_start(&parser, false);
        assert_int_equal(feed(&parser, &body, endless, 100, &left), -EPROTO);
        load_parser_start(&parser, false);
        body.rv = -EBADMSG;
        assert_int_equal(feed(&parser, &body, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 100, &left),
                         -EBADMSG);
}

static void what_comes_behind_is_left(void **state)
{
        static struct load_parser parser;
        struct body body = {.text = ""};
        size_t left;

        load_parser_start(&parser, false);
        assert_int_equal(feed(&parser, &body, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokXYZ", 100, &left), 0);
        assert_int_equal(left, 3);
        load_parser_start(&parser, false);
        assert_int_equal(feed(&parser, &body, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", 100, &left), 0);
        load_parser_skip(&parser, 4);
        assert_int_equal(parser.state, LOAD_BODY);
        load_parser_skip(&parser, 6);
        assert_int_equal(parser.state, LOAD_DONE);
        assert_int_equal(parser.body, 10);
}

static void entries_however_cut(void **state)
{
        static const char page[] =
                "<List><Contents><Key>Contents></Key></Contents><<Contents></Contents><Conten<Contents>"
                "</Contents><CommonPrefixes></CommonPrefixes></List>";
        static struct load_conn conn;

        for (size_t step = 1; step <= sizeof(page); step++) {
                conn.entries = conn.matched = 0;
                for (size_t at = 0; at < sizeof(page) - 1; at += step)
                        load_count_entries(&conn, page + at,
                                           step < sizeof(page) - 1 - at ? step : sizeof(page) - 1 - at);
                assert_int_equal(conn.entries, 3);
        }
}

static void wrong_lengths_are_seen(void **state)
{
        struct load_settings o = {.size = 100, .range_size = 10, .keys = 5, .max_keys = 3};
        static struct load_conn conn;

        conn.op = LOAD_GET;
        conn.parser.body = 100;
        assert_null(load_wrong_length(&o, &conn));
        conn.op = LOAD_RANGE;
        assert_string_equal(load_wrong_length(&o, &conn), "bytes");
        conn.parser.body = 10;
        assert_null(load_wrong_length(&o, &conn));
        conn.op = LOAD_HEADS;
        conn.parser.length = 99;
        assert_string_equal(load_wrong_length(&o, &conn), "bytes");
        conn.op = LOAD_LIST;
        conn.entries = 5;
        assert_string_equal(load_wrong_length(&o, &conn), "entries");
        conn.entries = 3;
        assert_null(load_wrong_length(&o, &conn));
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void figures_of_a_process(void **state)
{
        static const char stat[] = "4242 (a) b) (c) S 1 4242 4242 0 -1 4194560 1 2 3 4 1234 66 7 8 20 0 5 0 99 1 2\n";
        static const char rollup[] = "00400000-7fff [rollup]\nRss:                2048 kB\nPss_Anon: 1 kB\n"
                                     "Anonymous:          1024 kB\nAnonHugePages: 3 kB\n";
        struct load_server server, before;
        uint64_t ticks, most = 0;

        assert_int_equal(load_stat_ticks(stat, &ticks), 0);
        assert_int_equal(ticks, 1300);
        assert_int_equal(load_stat_ticks("nonsense", &ticks), -1);
        assert_int_equal(load_stat_ticks("1 (a) S 1 2", &ticks), -1);
        assert_int_equal(load_proc_bytes(rollup, "Rss"), 2 << 20);
        assert_int_equal(load_proc_bytes(rollup, "Anonymous"), 1 << 20);
        assert_int_equal(load_proc_bytes(rollup, "Anon"), 0);
        assert_int_equal(load_proc_number("rchar: 7\nread_bytes: 8\nwrite_bytes: 9\n", "write_bytes"), 9);
        assert_int_equal(load_server_read((int)getpid(), &server), 0);
        before = server;
        assert_true(server.rss > 0 && server.anonymous > 0 && server.rss >= server.anonymous);
        assert_true(server.peak >= server.rss / 2);
        load_server_sample((int)getpid(), &most);
        assert_true(most > 0);
        load_server_sample(0x7fffffff, &most);
        assert_true(most > 0);
        load_server_since(&server, &before);
        assert_int_equal(server.written, 0);
        assert_int_equal(load_server_read(0x7fffffff, &server), -1);
}

static int parse(struct load_options *options, const char *line)
{
        static char text[512];
        char *argv[32], *rest = text;
        int argc = 0;

        snprintf(text, sizeof(text), "load %s", line);
        while (rest != NULL && argc < 31)
                argv[argc++] = strsep(&rest, " ");
        argv[argc] = NULL;
        optind = 0;
        opterr = 0;
        return load_options_parse(argc, argv, options);
}

static void options_of_a_run(void **state)
{
        static const char *const wrong[] = {
                "",
                "put get",
                "frobnicate",
                "put --conns 0",
                "put --size x",
                "put --rate -1",
                "get --duration 3",
                "range --range 8K --size 4K",
                "multipart --size 1G --part 10K",
                "put --endpoint ftp://a",
                "put --endpoint http://[::1",
                "put --endpoint http://:1",
                "put --endpoint http://a/b",
                "put --bogus",
                "get --once --keys 10 --count 11",
                "mixed --keys 10 --get-share 101",
                "list --keys 10 --random-names",
                "put --pace x",
        };
        struct load_options options;
        struct load_settings *o = &options.settings;

        setenv("MILLRACE_ROOT_ACCESS_KEY", "AK", 1);
        setenv("MILLRACE_ROOT_SECRET_KEY", "SK", 1);
        assert_int_equal(parse(&options, "put --endpoint http://host:99 --size 16M --conns 7 --duration 1.5 --verify"),
                         -1);
        assert_int_equal(o->phase, LOAD_PUT);
        assert_string_equal(o->server[0].host, "host");
        assert_string_equal(o->server[0].port, "99");
        assert_int_equal(o->size, 16 << 20);
        assert_int_equal(o->connections, 7);
        assert_true(o->duration_s == 1.5);
        assert_int_equal(o->count, 0);
        assert_true(o->verify);
        assert_int_equal(parse(&options, "get --once --keys 70 --duration 1"), -1);
        assert_int_equal(o->count, 70);
        assert_int_equal(parse(&options, "mixed --keys 70 --duration 1 --get-share 30 --pace 5M"), -1);
        assert_int_equal(o->start, 70);
        assert_int_equal(o->get_share, 30);
        assert_int_equal(o->pace, 5 << 20);
        assert_int_equal(parse(&options, "get --count 50 --endpoint http://h"), -1);
        assert_int_equal(o->keys, 50);
        assert_string_equal(o->server[0].port, "80");
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
                assert_int_equal(parse(&options, wrong[i]), 2);
        assert_int_equal(parse(&options, "--help"), 0);
}

static void endpoints(void **state)
{
        static const struct {
                const char *text, *host, *port, *header;
                bool tls;
        } cases[] = {
                {"http://a", "a", "80", "a", false},
                {"http://a:80/", "a", "80", "a", false},
                {"https://a.example:443", "a.example", "443", "a.example", true},
                {"https://a:80", "a", "80", "a:80", true},
                {"http://[::1]:9000", "::1", "9000", "[::1]:9000", false},
                {"https://[fe80::1]/", "fe80::1", "443", "[fe80::1]", true},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct load_settings settings;

                load_settings_default(&settings);
                settings.phase = LOAD_PUT;
                settings.access_key = settings.secret_key = "x";
                settings.endpoint = cases[i].text;
                assert_null(load_settings_complete(&settings));
                assert_string_equal(settings.server[0].host, cases[i].host);
                assert_string_equal(settings.server[0].port, cases[i].port);
                assert_string_equal(settings.server[0].header, cases[i].header);
                assert_int_equal(settings.tls, cases[i].tls);
                settings.access_key = "";
                assert_non_null(load_settings_complete(&settings));
        }
}

static void endpoints_may_be_several(void **state)
{
        static const char *const bad[] = {"http://a,", ",http://a", "http://a,,http://b", "http://a,https://b",
                                          "http://a,b", "http://[::1,http://b]", "http://a,http://b/c"};
        char many[400] = "http://h";
        struct load_settings settings;

        load_settings_default(&settings);
        settings.phase = LOAD_PUT;
        settings.access_key = settings.secret_key = "x";
        settings.endpoint = "http://a:9000/ , http://[::1]:80,http://b";
        assert_null(load_settings_complete(&settings));
        assert_int_equal(settings.servers, 3);
        assert_string_equal(settings.server[0].header, "a:9000");
        assert_string_equal(settings.server[0].port, "9000");
        assert_string_equal(settings.server[1].host, "::1");
        assert_string_equal(settings.server[1].header, "[::1]");
        assert_string_equal(settings.server[2].host, "b");
        assert_string_equal(settings.server[2].header, "b");
        assert_string_equal(settings.server[2].port, "80");
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                settings.endpoint = bad[i];
                assert_non_null(load_settings_complete(&settings));
        }
        for (unsigned i = 1; i < LOAD_SERVERS_MAX; i++)
                strcat(many, ",http://h");
        settings.endpoint = many;
        assert_null(load_settings_complete(&settings));
        strcat(many, ",http://h");
        assert_non_null(load_settings_complete(&settings));
}

static void what_is_taken_from_bodies(void **state)
{
        char *pattern = load_pattern_new();
        struct load_settings settings = {.verify = true};
        struct load_run run = {.settings = &settings, .pattern = pattern};
        static struct load_conn conn;
        struct load_receiving receiving = {&run, &conn};
        char bytes[100];

        assert_non_null(pattern);
        memcpy(bytes, pattern + load_content_at(7, 50), sizeof(bytes));
        conn.op = LOAD_RANGE;
        conn.key = 7;
        conn.from = 40;
        conn.parser.status = 206;
        assert_int_equal(load_take_body(&receiving, 10, bytes, sizeof(bytes)), 0);
        assert_int_equal(load_take_body(&receiving, 11, bytes, sizeof(bytes)), -EBADMSG);
        settings.verify = false;
        assert_int_equal(load_take_body(&receiving, 11, bytes, sizeof(bytes)), 0);
        conn.parser.status = 404;
        assert_int_equal(load_take_body(&receiving, 0, "<Error>", 7), 0);
        assert_int_equal(conn.text_len, 7);
        assert_memory_equal(conn.head, "<Error>", 7);
        free(pattern);
}

static bool at_once(void *arg)
{
        return true;
}

static void count_line(void *arg, const char *line)
{
        (*(unsigned *)arg)++;
}

static void runs_that_come_to_nothing(void **state)
{
        static struct load_result result;
        struct load_settings settings;
        unsigned lines = 0;
        struct load_watch watch = {.line = count_line, .arg = &lines, .every_ms = 1};

        load_settings_default(&settings);
        settings.phase = LOAD_HEADS;
        settings.access_key = settings.secret_key = "x";
        settings.endpoint = "http://127.0.0.1:1"; /* nobody listens there */
        settings.count = 3;
        assert_null(load_settings_complete(&settings));
        assert_int_equal(load_run(&settings, &watch, &result), 0);
        assert_int_equal(result.failed, 3);
        assert_int_equal(result.failures[LOAD_FAIL_CONNECT], 3);
        assert_int_equal(lines, 3);
        settings.count = 0;
        settings.duration_s = 3600;
        settings.rate = 0.001;
        settings.keys = 1;
        watch.stop = at_once;
        assert_int_equal(load_run(&settings, &watch, &result), 0);
        assert_true(result.stopped);
        settings.endpoint = "https://127.0.0.1:1";
        settings.ca_file = "/nonexistent";
        assert_null(load_settings_complete(&settings));
        lines = 0;
        assert_int_equal(load_run(&settings, &watch, &result), -EINVAL);
        assert_int_equal(lines, 1);
}

static void figures_as_json(void **state)
{
        static struct load_result result;
        struct load_settings settings;
        json_t *object;

        load_settings_default(&settings);
        settings.phase = LOAD_MIXED;
        result.seconds = 2;
        result.bytes = 4 << 20;
        result.failed = result.failures[LOAD_FAIL_CONTENT] = 5;
        load_stats_add(&result.stats, 1000000);
        object = load_result_json(&settings, &result);
        assert_non_null(object);
        assert_string_equal(json_string_value(json_object_get(object, "phase")), "mixed");
        assert_true(json_real_value(json_object_get(object, "ops_s")) == 0.5);
        assert_true(json_real_value(json_object_get(object, "mib_s")) == 2);
        assert_true(json_real_value(json_object_get(object, "p99_us")) == 1000);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(object, "error_kinds"), "content")), 5);
        assert_non_null(json_object_get(object, "put_ops"));
        json_decref(object);
}

static void targets_are_signed(void **state)
{
        struct load_options options;
        struct load_settings *o = &options.settings;
        struct load_signer signer;
        char target[LOAD_TARGET_MAX], query[1600];

        assert_int_equal(parse(&options, "list --endpoint http://host:80 --prefix a+b/ --keys 5000 --max-keys 1000"),
                         -1);
        load_signer_init(&signer, o, 1369353600000);
        assert_string_equal(o->server[0].header, "host");
        assert_true(load_sign(&signer, 0, "GET", 42, "", target) > 0);
        assert_int_equal(strncmp(target, "/load/a%2Bb/000000000042?X-Amz-", 31), 0);
        assert_non_null(strstr(target, "X-Amz-Signature="));
        load_list_query(o, 0, 64, query, sizeof(query));
        assert_string_equal(query, "list-type=2&max-keys=1000&prefix=a%2Bb%2F");
        load_list_query(o, 63, 64, query, sizeof(query)); /* a whole page is left behind the last start */
        assert_string_equal(query, "list-type=2&max-keys=1000&prefix=a%2Bb%2F&start-after=a%2Bb%2F000000003937");
        o->random_names = true;
        assert_true(load_sign(&signer, 0, "GET", 42, "", target) > 0);
        assert_int_equal(strncmp(target, "/load/a%2Bb/", 12), 0);
        assert_int_equal(strcspn(target + 12, "?"), 16);
        o->sign_headers = true;
        o->session_token = "token";
        assert_true(load_sign(&signer, 0, "GET", 42, "a=b", target) > 0);
        assert_non_null(strstr(target, "?a=b HTTP/1.1\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n"
                                       "x-amz-date: 20130524T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 "));
        assert_non_null(strstr(target, "\r\nx-amz-security-token: token"));
        assert_null(strstr(target, "X-Amz-"));
        o->keys = 900;
        load_list_query(o, 63, 64, query, sizeof(query));
        assert_null(strstr(query, "start-after"));
}

/* ---- several servers ------------------------------------------------------------------------- */

/* A server and what came to it; guarded by its lock while it runs. */
struct signed_server {
        struct fake_s3 fake;
        const struct load_settings *settings;
        unsigned number, reads, writes, wrong;
};

/* The target that this server's request for a key is to have, made at the time that it names. */
static void expected_target(const struct signed_server *server, const struct fake_request *request,
                            char out[LOAD_TARGET_MAX])
{
        const char *date = strstr(request->target, "X-Amz-Date="), *key = strstr(request->target, "/o/");
        struct load_signer signer;
        struct tm when = {0};

        out[0] = '\0';
        if (date == NULL || key == NULL || strptime(date + strlen("X-Amz-Date="), "%Y%m%dT%H%M%SZ", &when) == NULL)
                return;
        load_signer_init(&signer, server->settings, (int64_t)timegm(&when) * 1000);
        if (load_sign(&signer, server->number, request->method, strtoull(key + 3, NULL, 10), "", out) < 0)
                out[0] = '\0';
        out[strcspn(out, " ")] = '\0';
}

static void serve_what_is_signed_for_it(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct signed_server *server = arg;
        char host[512], target[LOAD_TARGET_MAX];
        bool read = strcmp(request->method, "GET") == 0;

        expected_target(server, request, target);
        server->wrong += strcmp(fake_header(request, "Host", host), server->fake.url + strlen("http://")) != 0;
        server->wrong += strcmp(request->target, target) != 0;
        server->reads += read;
        server->writes += !read;
        if (read)
                fake_body(reply, "four", 4);
}

/* Requests that are signed ahead (GETs of a mixed phase), and those that are signed when they are sent. */
static void each_server_gets_its_own_host(void **state)
{
        static struct signed_server server[3];
        static struct load_result result;
        struct load_watch watch = {.every_ms = 1000};
        struct load_settings settings;
        char endpoint[400] = "";

        load_settings_default(&settings);
        for (unsigned i = 0; i < 3; i++) {
                server[i].settings = &settings;
                server[i].number = i;
                fake_start(&server[i].fake, serve_what_is_signed_for_it, &server[i]);
                sprintf(endpoint + strlen(endpoint), "%s%s", i > 0 ? "," : "", server[i].fake.url);
        }
        settings.phase = LOAD_MIXED;
        settings.get_share = 50;
        settings.endpoint = endpoint;
        settings.access_key = settings.secret_key = "x";
        settings.connections = 7;
        settings.count = 210;
        settings.keys = 10;
        settings.size = 4;
        assert_null(load_settings_complete(&settings));
        assert_int_equal(load_run(&settings, &watch, &result), 0);
        assert_int_equal(result.failed, 0);
        assert_int_equal(result.stats.count, 210);
        for (unsigned i = 0; i < 3; i++) {
                fake_stop(&server[i].fake);
                assert_int_equal(server[i].wrong, 0);
                assert_true(server[i].reads > 0 && server[i].writes > 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_key_once),
                cmocka_unit_test(percentiles),
                cmocka_unit_test(buckets_hold_every_number),
                cmocka_unit_test(wrong_bytes_are_seen),
                cmocka_unit_test(answers_cut_anywhere),
                cmocka_unit_test(answers_that_are_none),
                cmocka_unit_test(what_comes_behind_is_left),
                cmocka_unit_test(entries_however_cut),
                cmocka_unit_test(wrong_lengths_are_seen),
                cmocka_unit_test(figures_of_a_process),
                cmocka_unit_test(options_of_a_run),
                cmocka_unit_test(endpoints),
                cmocka_unit_test(endpoints_may_be_several),
                cmocka_unit_test(what_is_taken_from_bodies),
                cmocka_unit_test(runs_that_come_to_nothing),
                cmocka_unit_test(figures_as_json),
                cmocka_unit_test(targets_are_signed),
                cmocka_unit_test(each_server_gets_its_own_host),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
