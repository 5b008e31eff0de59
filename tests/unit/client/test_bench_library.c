/*
 * test_bench_library.c - phases of `millrace bench` by way of libmillrace, against an endpoint in
 * the test that has every object there could be, and whose answers are right, wrong or none. RDMA
 * has its tests in tests/integration/test_bench_transport.py.
 */
#include "tests/unit/client/fake_s3.h"

#include <errno.h>
#include <stdatomic.h>

#include "cli/bench_library.h"
#include "load_content.h"

#define K (1ull << 10)

/*
 * What is answered. MISSING: a key that is even is there. IN_SHORT: without a body, which comes at
 * once.
 */
enum wrong { NOTHING, BYTES, SHORTER, LONGER, MISSING, BUSY, REFUSED, REFUSED_IN_SHORT, NO_ANSWER };

/* Set between runs, whose connections the endpoint's threads may still be closing. */
static struct endpoint {
        _Atomic enum wrong wrong;
        _Atomic uint64_t size;
        char *pattern;
        atomic_uint puts, wrong_puts, gets; /* wrong: other bytes than those of their key */
} endpoint;

static struct fake_s3 fake;
static struct cli_call call;
static struct bench_library *library;
static struct load_settings settings;
static struct load_result result;
static struct bench_carried carried;
static unsigned lines, moments;
static char last_line[800];
static bool stop;

/* ---- the endpoint ---------------------------------------------------------------------------- */

static void object(uint64_t key, uint64_t from, char *out, uint64_t len)
{
        while (len > 0) {
                uint32_t at = load_content_at(key, from);
                size_t run = load_content_run(at, len);

                memcpy(out, endpoint.pattern + at, run);
                out += run;
                from += run;
                len -= run;
        }
}

static void serve_get(const struct fake_request *request, struct fake_reply *reply, uint64_t key)
{
        unsigned long long from = 0, last, size = endpoint.size;
        char range[512];

        endpoint.gets++;
        if (endpoint.wrong == SHORTER)
                size--;
        if (endpoint.wrong == LONGER)
                size++;
        last = size - 1;
        if (sscanf(fake_header(request, "Range", range), "bytes=%llu-%llu", &from, &last) == 2) {
                last = last < size ? last : size - 1;
                reply->status = 206;
                snprintf(reply->headers, sizeof(reply->headers),
                         "ETag: \"e\"\r\nContent-Range: bytes %llu-%llu/%llu\r\n", from, last, size);
        } else {
                snprintf(reply->headers, sizeof(reply->headers), "ETag: \"e\"\r\n");
        }
        reply->body_len = (size_t)(last + 1 - from);
        reply->body = malloc(reply->body_len);
        object(key, from, reply->body, reply->body_len);
        if (endpoint.wrong == BYTES)
                reply->body[reply->body_len / 2] ^= 1;
}

static void serve(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        unsigned long long key = 0;

        if (endpoint.wrong == NO_ANSWER) {
                reply->status = 0;
        } else if (endpoint.wrong == BUSY) {
                fake_error(reply, 503, "SlowDown");
        } else if (endpoint.wrong == REFUSED) {
                fake_error(reply, 403, "AccessDenied");
        } else if (endpoint.wrong == REFUSED_IN_SHORT) {
                reply->status = 403;
        } else if (sscanf(request->target, "/bkt/o/%llu", &key) != 1) {
                fake_error(reply, 405, "MethodNotAllowed"); /* sessions, GetBatch */
        } else if (endpoint.wrong == MISSING && key % 2 == 1) {
                fake_error(reply, 404, "NoSuchKey");
        } else if (strcmp(request->method, "PUT") == 0) {
                endpoint.puts++;
                endpoint.wrong_puts +=
                        request->body_len != endpoint.size ||
                        load_content_check(endpoint.pattern, key, 0, request->body, request->body_len) != 0;
                snprintf(reply->headers, sizeof(reply->headers), "ETag: \"e\"\r\n");
        } else {
                serve_get(request, reply, key);
        }
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void on_line(void *arg, const char *line)
{
        lines++;
        snprintf(last_line, sizeof(last_line), "%s", line);
}

static void on_moment(void *arg, const struct load_result *so_far)
{
        moments++;
}

static bool on_stop(void *arg)
{
        return stop;
}

/*
 * Opens the library for a phase of objects of this size, and fills settings that begin so many
 * operations.
 */
static void open_for(enum load_phase kind, uint64_t size, unsigned batch, uint64_t count, enum mr_transport transport)
{
        struct bench_phase phase = {.kind = kind, .size = size, .range = 1000, .batch = batch, .connections = 3};

        endpoint.wrong = NOTHING;
        endpoint.size = size;
        endpoint.puts = endpoint.wrong_puts = endpoint.gets = 0;
        lines = moments = 0;
        stop = false;
        call.settings.transport = transport;
        call.bench.verify = true;
        assert_int_equal(bench_library_open(&call, &phase, 1, &library), CLI_OK);
        load_settings_default(&settings);
        settings.phase = kind;
        settings.endpoint = fake.url;
        settings.bucket = "bkt";
        settings.prefix = "o/";
        settings.access_key = "AKID";
        settings.secret_key = "secret";
        settings.size = size;
        settings.range_size = 1000;
        settings.count = count;
        settings.keys = 40;
        settings.connections = 3;
        settings.verify = true;
}

static void run(unsigned batch)
{
        struct load_watch watch = {.line = on_line, .moment = on_moment, .stop = on_stop, .every_ms = 1};

        assert_null(load_settings_complete(&settings));
        assert_int_equal(bench_library_run(library, &settings, batch, &watch, &result, &carried), 0);
}

static void close_it(void)
{
        bench_library_free(library);
        library = NULL;
}

static void all_went_well(uint64_t ops, uint64_t bytes, uint64_t objects)
{
        assert_int_equal(result.failed, 0);
        assert_int_equal(result.stats.count, ops);
        assert_int_equal(result.bytes, bytes);
        assert_int_equal(carried.tcp, objects);
        assert_int_equal(carried.rdma, 0);
        assert_int_equal(lines, 0);
        assert_true(result.seconds > 0 && result.cpu_s > 0);
        close_it();
}

/* ---- what is right --------------------------------------------------------------------------- */

static void gets(void **state)
{
        open_for(LOAD_GET, 10000, 0, 50, MR_TRANSPORT_TCP);
        run(0);
        assert_int_equal(endpoint.gets, 50);
        assert_int_equal(carried.fallbacks, 0);
        assert_int_equal(result.entries, 0);
        all_went_well(50, 50 * 10000, 50);
}

static void puts_are_windows_of_the_pattern(void **state)
{
        open_for(LOAD_PUT, 100001, 0, 40, MR_TRANSPORT_TCP);
        settings.start = 3;
        run(0);
        assert_int_equal(endpoint.puts, 40);
        assert_int_equal(endpoint.wrong_puts, 0);
        all_went_well(40, 40 * 100001, 40);
}

static void ranges(void **state)
{
        open_for(LOAD_RANGE, 50000, 0, 40, MR_TRANSPORT_TCP);
        run(0);
        all_went_well(40, 40 * 1000, 40);
}

static void a_mix(void **state)
{
        open_for(LOAD_MIXED, 5000, 0, 60, MR_TRANSPORT_TCP);
        run(0);
        assert_true(result.mixed[0].count > 0 && result.mixed[1].count > 0);
        assert_int_equal(result.mixed[0].count + result.mixed[1].count, 60);
        assert_int_equal(endpoint.puts, result.mixed[1].count);
        assert_int_equal(endpoint.wrong_puts, 0);
        all_went_well(60, 60 * 5000, 60);
}

static void batches(void **state)
{
        open_for(LOAD_GET, 5000, 7, 10, MR_TRANSPORT_TCP);
        run(7);
        assert_int_equal(endpoint.gets, 70);
        assert_int_equal(result.entries, 70);
        all_went_well(10, 10 * 7 * 5000, 70);
}

static void a_rate(void **state)
{
        open_for(LOAD_GET, 100, 0, 30, MR_TRANSPORT_TCP);
        settings.rate = 500;
        run(0);
        assert_true(result.seconds >= 29.0 / 500);
        all_went_well(30, 30 * 100, 30);
}

static void time_is_an_end(void **state)
{
        open_for(LOAD_GET, 100, 0, 0, MR_TRANSPORT_TCP);
        settings.duration_s = 0.05;
        run(0);
        assert_true(result.stats.count > 0 && !result.stopped && moments > 0);
        all_went_well(endpoint.gets, endpoint.gets * 100ull, endpoint.gets);
}

/* Without a session auto goes over TCP; that is a fallback where RDMA was to carry it. */
static void auto_without_rdma(void **state)
{
        static const struct {
                uint64_t size;
                unsigned batch, fallbacks;
        } cases[] = {{10 * K, 0, 0}, {300 * K, 0, 12}, {10 * K, 4, 12}};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                unsigned objects = cases[i].batch > 0 ? cases[i].batch : 1;

                open_for(LOAD_GET, cases[i].size, cases[i].batch, 12 / objects, MR_TRANSPORT_AUTO);
                assert_string_not_equal(bench_library_no_rdma(library), "");
                run(cases[i].batch);
                assert_int_equal(carried.fallbacks, cases[i].fallbacks);
                all_went_well(12 / objects, 12 * cases[i].size, 12);
        }
}

static void rdma_without_rdma(void **state)
{
        struct bench_phase phase = {.kind = LOAD_GET, .size = 100, .connections = 1};

        call.settings.transport = MR_TRANSPORT_RDMA;
        assert_int_equal(bench_library_open(&call, &phase, 1, &library), CLI_FAILED);
        assert_null(library);
}

/* ---- what is wrong --------------------------------------------------------------------------- */

static void failures_by_kind(void **state)
{
        static const struct {
                enum wrong wrong;
                enum load_failure kind;
                const char *words;
        } cases[] = {
                {BYTES, LOAD_FAIL_CONTENT, "content: other bytes"},
                {SHORTER, LOAD_FAIL_LENGTH, "length: 9999 bytes of 9999"},
                {LONGER, LOAD_FAIL_LENGTH, "length: "},
                {BUSY, LOAD_FAIL_REFUSED, "SlowDown"},
                {REFUSED, LOAD_FAIL_STATUS, "AccessDenied"},
                {NO_ANSWER, LOAD_FAIL_CLOSED, "closed: "},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                open_for(LOAD_GET, 10000, 0, 8, MR_TRANSPORT_TCP);
                endpoint.wrong = cases[i].wrong;
                run(0);
                assert_int_equal(result.stats.count, 0);
                assert_int_equal(result.failed, 8);
                assert_int_equal(result.failures[cases[i].kind], 8);
                assert_int_equal(carried.tcp, 0);
                assert_int_equal(result.bytes, 0);
                assert_int_equal(lines, LOAD_FAILURES_TOLD);
                assert_non_null(strstr(last_line, cases[i].words));
                close_it();
        }
}

static void bytes_are_looked_at_where_that_is_asked_for(void **state)
{
        open_for(LOAD_GET, 10000, 0, 8, MR_TRANSPORT_TCP);
        endpoint.wrong = BYTES;
        settings.verify = false;
        run(0);
        all_went_well(8, 8 * 10000, 8);
}

/* A batch fails as a whole; what of it came right is counted by its transport. */
static void a_batch_that_lacks_entries(void **state)
{
        open_for(LOAD_GET, 100, 20, 5, MR_TRANSPORT_TCP);
        endpoint.wrong = MISSING;
        run(20);
        assert_int_equal(result.stats.count, 0);
        assert_int_equal(result.failures[LOAD_FAIL_STATUS], 5);
        assert_int_equal(result.failed, 5);
        assert_true(carried.tcp > 0 && carried.tcp < 100);
        assert_int_equal(result.bytes, 0);
        close_it();
}

static void too_many_failures_are_an_end(void **state)
{
        open_for(LOAD_GET, 100, 0, 0, MR_TRANSPORT_TCP);
        settings.duration_s = 3600;
        endpoint.wrong = REFUSED_IN_SHORT;
        run(0);
        assert_true(result.failed >= LOAD_FAILURES_MAX && result.failed <= LOAD_FAILURES_MAX + 2);
        close_it();
}

static void it_can_be_stopped(void **state)
{
        open_for(LOAD_GET, 100, 0, 0, MR_TRANSPORT_TCP);
        settings.duration_s = 3600;
        stop = true;
        run(0);
        assert_true(result.stopped);
        assert_int_equal(result.failed, 0);
        close_it();
}

/* As an interrupt does. */
static void its_client_is_canceled(void **state)
{
        open_for(LOAD_GET, 100, 5, 0, MR_TRANSPORT_TCP);
        settings.duration_s = 3600;
        mr_client_cancel(library->client);
        run(5);
        assert_int_equal(result.failed, 0);
        assert_int_equal(result.stats.count, 0);
        close_it();
}

static int start(void **state)
{
        endpoint.pattern = load_pattern_new();
        fake_start(&fake, serve, NULL);
        mr_settings_default(&call.settings);
        snprintf(call.settings.endpoint, sizeof(call.settings.endpoint), "%s", fake.url);
        snprintf(call.settings.access_key, sizeof(call.settings.access_key), "AKID");
        snprintf(call.settings.secret_key, sizeof(call.settings.secret_key), "secret");
        call.settings.attempts = 1;
        return endpoint.pattern != NULL ? 0 : -1;
}

static int end(void **state)
{
        fake_stop(&fake);
        free(endpoint.pattern);
        return 0;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(gets),
                cmocka_unit_test(puts_are_windows_of_the_pattern),
                cmocka_unit_test(ranges),
                cmocka_unit_test(a_mix),
                cmocka_unit_test(batches),
                cmocka_unit_test(a_rate),
                cmocka_unit_test(time_is_an_end),
                cmocka_unit_test(auto_without_rdma),
                cmocka_unit_test(rdma_without_rdma),
                cmocka_unit_test(failures_by_kind),
                cmocka_unit_test(bytes_are_looked_at_where_that_is_asked_for),
                cmocka_unit_test(a_batch_that_lacks_entries),
                cmocka_unit_test(too_many_failures_are_an_end),
                cmocka_unit_test(it_can_be_stopped),
                cmocka_unit_test(its_client_is_canceled),
        };

        return cmocka_run_group_tests(tests, start, end);
}
