/*
 * test_metrics.c - /metrics: the text is what Prometheus reads, and the figures are where they
 * belong.
 */
#include "server/metrics.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- a strict reader of the text format ------------------------------------------------------ */

#define SERIES_MAX 4096

struct reader {
        char family[128], type[16];
        char *families[512], *series[SERIES_MAX];
        unsigned family_count, series_count;
        double last_bucket;
};

static bool valid_name(const char *name, size_t len)
{
        size_t i;

        for (i = 0; i < len; i++)
                if (!isalpha((unsigned char)name[i]) && name[i] != '_' && (i == 0 || !isdigit((unsigned char)name[i])))
                        return false;
        return len > 0;
}

/* name="value" pairs up to the closing brace; returns what follows it. */
static const char *read_labels(const char *p)
{
        size_t len;

        for (p++; *p != '}'; p += *p == ',') {
                len = strcspn(p, "=");
                assert_true(valid_name(p, len));
                p += len + 1;
                assert_int_equal(*p, '"');
                for (p++; *p != '"'; p++) {
                        assert_int_not_equal(*p, '\0');
                        if (*p == '\\')
                                assert_non_null(strchr("\\\"n", *++p));
                }
                p++;
                assert_true(*p == ',' || *p == '}');
        }
        return p + 1;
}

/* The sample belongs to the family announced last. */
static void check_family(const struct reader *r, const char *name, size_t len)
{
        size_t family_len = strlen(r->family);
        const char *rest = name + family_len;

        assert_true(len >= family_len && strncmp(name, r->family, family_len) == 0);
        if (strcmp(r->type, "histogram") == 0)
                assert_true((len - family_len == 7 && strncmp(rest, "_bucket", 7) == 0) ||
                            (len - family_len == 4 && strncmp(rest, "_sum", 4) == 0) ||
                            (len - family_len == 6 && strncmp(rest, "_count", 6) == 0));
        else
                assert_int_equal(len, family_len);
        if (strcmp(r->type, "counter") == 0)
                assert_string_equal(r->family + family_len - 6, "_total");
}

static void read_sample(struct reader *r, const char *line)
{
        size_t len = strcspn(line, "{ ");
        const char *rest = line + len;
        char *end, *series;
        double value;
        unsigned i;

        assert_true(valid_name(line, len));
        check_family(r, line, len);
        if (*rest == '{')
                rest = read_labels(rest);
        series = strndup(line, (size_t)(rest - line));
        for (i = 0; i < r->series_count; i++)
                assert_string_not_equal(r->series[i], series);
        assert_true(r->series_count < SERIES_MAX);
        r->series[r->series_count++] = series;
        assert_int_equal(*rest, ' ');
        value = strtod(rest + 1, &end);
        assert_true(end != rest + 1 && *end == '\0');
        if (strstr(series, "_bucket{") != NULL) {
                assert_true(value >= r->last_bucket);
                r->last_bucket = strstr(series, "le=\"+Inf\"") != NULL ? 0 : value;
        }
}

static void read_line(struct reader *r, const char *line)
{
        unsigned i;

        if (strncmp(line, "# HELP ", 7) == 0) {
                assert_int_equal(sscanf(line + 7, "%127s", r->family), 1);
                assert_true(strlen(line) > 8 + strlen(r->family));
                for (i = 0; i < r->family_count; i++)
                        assert_string_not_equal(r->families[i], r->family);
                r->families[r->family_count++] = strdup(r->family);
                r->type[0] = '\0';
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
                char name[128];

                assert_int_equal(sscanf(line + 7, "%127s %15s", name, r->type), 2);
                assert_string_equal(name, r->family);
                assert_true(strcmp(r->type, "counter") == 0 || strcmp(r->type, "gauge") == 0 ||
                            strcmp(r->type, "histogram") == 0);
        } else {
                read_sample(r, line);
        }
}

static void check_text(const char *text)
{
        struct reader *r = calloc(1, sizeof(*r));
        char *copy = strdup(text), *line, *next;
        unsigned i;

        for (line = copy; *line != '\0'; line = next) {
                next = strchr(line, '\n');
                assert_non_null(next);
                *next++ = '\0';
                read_line(r, line);
        }
        assert_true(r->family_count > 50);
        for (i = 0; i < r->series_count; i++)
                free(r->series[i]);
        for (i = 0; i < r->family_count; i++)
                free(r->families[i]);
        free(copy);
        free(r);
}

/* ---- figures --------------------------------------------------------------------------------- */

static void fill_drives(struct eng_health *h)
{
        h->drive_count = 3;
        h->drives_in = 2;
        h->ec_k = 2;
        h->ec_m = 1;
        h->ready = true;
        strcpy(h->drives[0].id, "00aa");
        strcpy(h->drives[0].path, "/srv/\"one\"\\\n");
        h->drives[0].free_bytes = 12345;
        h->drives[0].queue = 7;
        strcpy(h->drives[1].id, "00bb");
        strcpy(h->drives[1].path, "/srv/\xff\x01");
        h->drives[1].state = ENG_DRIVE_STALE;
        strcpy(h->drives[2].id, "00cc");
        h->drives[2].state = ENG_DRIVE_MISSING;
}

static void fill_operations(struct gw_stats *g)
{
        unsigned i;

        g->operations = 3;
        g->op[0].operation = "GetObject";
        g->op[0].by_status[0] = 6;
        g->op[0].by_status[2] = 5;
        g->op[0].by_status[4] = 1;
        g->op[0].bytes_out = 4096;
        g->op[0].latency.sum_ns = 1500000000;
        g->op[1].operation = "NeverUsed";
        g->op[2].operation = "PutObject";
        g->op[2].by_status[0] = LP_TIME_BUCKETS;
        for (i = 0; i < LP_TIME_BUCKETS; i++)
                g->op[2].latency.count[i] = 1;
        g->op[0].latency.count[0] = 4;
        g->op[0].latency.count[3] = 2;
        g->stage[GW_STAGE_WORK].count[1] = 7;
        g->stage[GW_STAGE_WORK].sum_ns = 2500;
        g->step[GW_STEP_CHUNKS].count[2] = 9;
}

static char *text_of(const struct srv_statistics *statistics)
{
        char *text = NULL;
        size_t len;
        FILE *out = open_memstream(&text, &len);

        srv_metrics_write(statistics, out);
        fclose(out);
        assert_int_equal(strlen(text), len);
        return text;
}

static void has_line(const char *text, const char *line)
{
        const char *at;

        for (at = strstr(text, line); at != NULL; at = strstr(at + 1, line))
                if ((at == text || at[-1] == '\n') && at[strlen(line)] == '\n')
                        return;
        fail_msg("no line: %s", line);
}

static void test_full(void **state)
{
        struct srv_statistics *f = calloc(1, sizeof(*f));
        char *text;

        fill_drives(&f->health);
        fill_operations(&f->gateway);
        f->loop_count = 2;
        f->steps[ENG_STEP_KEY].count[20] = 3;
        f->drive_steps[1][0].count[10] = 5;
        f->drive_steps[1][0].sum_ns = 4000000;
        f->loops[1].rounds = 99;
        f->loops[1].reserved[LP_SHARE_PUT] = 5;
        f->loops[0].reserve_waiting[LP_SHARE_INTERNAL] = 3;
        f->access.dropped = 17;
        f->health.rebuilt_objects = 8;
        f->cluster = (struct srv_cluster_statistics){.known = true, .etcd_silent_ns = 2500000000, .nodes_silent = 2, .clock_skew_ms = 1234, .pool_count = 2,
                                                     .pools = {{.number = 1, .led = true, .here = true}, {.number = 3}}};
        f->health.objects_lacking[0] = 12;
        f->health.objects_lacking[1] = 3;
        f->process.cpu_seconds = 1.5;
        f->started_ms = 1700000000500;
        f->now_ms = 1700000002000;
        text = text_of(f);
        check_text(text);
        has_line(text, "millrace_build_info{version=\"" MILLRACE_VERSION "\"} 1");
        has_line(text, "millrace_uptime_seconds 1.500");
        has_line(text, "process_start_time_seconds 1700000000.500");
        has_line(text, "process_cpu_seconds_total 1.500000");
        has_line(text, "millrace_ready 1");
        has_line(text, "millrace_writable 0");
        has_line(text, "millrace_drives 3");
        has_line(text, "millrace_drives_in 2");
        has_line(text, "millrace_drive_losses_left 0");
        has_line(text, "millrace_requests_total{operation=\"GetObject\",status=\"2xx\"} 5");
        has_line(text, "millrace_requests_total{operation=\"GetObject\",status=\"4xx\"} 1");
        has_line(text, "millrace_request_sent_bytes_total{operation=\"GetObject\"} 4096");
        has_line(text, "millrace_request_duration_seconds_bucket{operation=\"GetObject\",le=\"+Inf\"} 6");
        has_line(text, "millrace_request_duration_seconds_count{operation=\"GetObject\"} 6");
        has_line(text, "millrace_request_duration_seconds_sum{operation=\"GetObject\"} 1.500000");
        has_line(text, "millrace_request_stage_seconds_bucket{stage=\"work\",le=\"1e-06\"} 0");
        has_line(text, "millrace_request_stage_seconds_bucket{stage=\"work\",le=\"2e-06\"} 7");
        has_line(text, "millrace_request_stage_seconds_sum{stage=\"work\"} 0.000003");
        has_line(text, "millrace_request_stage_seconds_count{stage=\"head\"} 0");
        has_line(text, "millrace_request_duration_seconds_count{operation=\"PutObject\"} 29");
        has_line(text, "millrace_request_step_seconds_bucket{stage=\"queue\",step=\"key\",le=\"0.524288\"} 0");
        has_line(text, "millrace_request_step_seconds_bucket{stage=\"queue\",step=\"key\",le=\"1.048576\"} 3");
        has_line(text, "millrace_request_step_seconds_count{stage=\"hash\",step=\"md5\"} 0");
        has_line(text, "millrace_request_step_seconds_count{stage=\"hash\",step=\"chunks\"} 9");
        has_line(text, "millrace_drive_operation_seconds_bucket{drive=\"00bb\",operation=\"append\",le=\"0.001024\"} 5");
        has_line(text, "millrace_drive_operation_seconds_sum{drive=\"00bb\",operation=\"append\"} 0.004000");
        assert_null(strstr(text, "{drive=\"00aa\",operation="));
        assert_null(strstr(text, "operation=\"commit\""));
        has_line(text, "millrace_drive_free_bytes{drive=\"00aa\",path=\"/srv/\\\"one\\\"\\\\\\n\"} 12345");
        has_line(text, "millrace_drive_state{drive=\"00bb\",path=\"/srv/??\",state=\"stale\"} 1");
        has_line(text, "millrace_drive_state{drive=\"00bb\",path=\"/srv/??\",state=\"in\"} 0");
        has_line(text, "millrace_drive_state{drive=\"00cc\",path=\"\",state=\"missing\"} 1");
        has_line(text, "millrace_loop_rounds_total{loop=\"1\"} 99");
        has_line(text, "millrace_arena_slots_reserved{loop=\"1\",share=\"put\"} 5");
        has_line(text, "millrace_arena_waiting{loop=\"0\",share=\"internal\"} 3");
        has_line(text, "millrace_access_log_dropped_total 17");
        has_line(text, "millrace_rebuilt_objects_total 8");
        has_line(text, "millrace_cluster_etcd_silent_seconds 2.500000");
        has_line(text, "millrace_cluster_nodes_silent 2");
        has_line(text, "millrace_cluster_clock_skew_ms 1234");
        has_line(text, "millrace_cluster_pool_led{pool=\"1\"} 1");
        has_line(text, "millrace_cluster_pool_led{pool=\"3\"} 0");
        has_line(text, "millrace_cluster_pool_leads{pool=\"1\"} 1");
        has_line(text, "millrace_objects_lacking_shards{missing=\"1\"} 12");
        has_line(text, "millrace_objects_lacking_shards{missing=\"more\"} 3"); /* than M, which is 1 */
        assert_null(strstr(text, "{missing=\"2\"}"));
        has_line(text, "# HELP millrace_mended_objects_total Old name of millrace_rebuilt_objects_total.");
        has_line(text, "millrace_mended_objects_total 8");
        assert_null(strstr(text, "NeverUsed"));
        free(text);
        free(f);
}

/* Before anything has happened: no operation, no drive, no loop. */
static void test_empty(void **state)
{
        struct srv_statistics *f = calloc(1, sizeof(*f));
        char *text = text_of(f);

        check_text(text);
        has_line(text, "millrace_ready 0");
        assert_null(strstr(text, "\nmillrace_cluster_")); /* a store of one machine */
        has_line(text, "millrace_drive_losses_left 0");
        free(text);
        free(f);
}

static void test_losses_left(void **state)
{
        struct srv_statistics *f = calloc(1, sizeof(*f));
        char *text;

        f->health.drive_count = 8;
        f->health.drives_in = 7;
        f->health.ec_k = 6;
        f->health.ec_m = 2;
        text = text_of(f);
        has_line(text, "millrace_drive_losses_left 1");
        free(text);
        free(f);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_full),
                cmocka_unit_test(test_empty),
                cmocka_unit_test(test_losses_left),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
