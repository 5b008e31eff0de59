/*
 * report.c - what a run found, as figures and as JSON. Called by whoever had it run, on any thread.
 */
#include "load.h"

static const char *const failure_names[LOAD_FAILURE_COUNT] = {
#define LOAD_FAILURE_NAME(id, name) name,
        LOAD_FAILURES(LOAD_FAILURE_NAME)
#undef LOAD_FAILURE_NAME
};

const char *load_failure_name(enum load_failure kind)
{
        return failure_names[kind];
}

double load_us(const struct load_stats *stats, double share)
{
        return (double)load_stats_percentile(stats, share) / 1000;
}

double load_mib_s(const struct load_result *result)
{
        return result->seconds > 0 ? (double)result->bytes / result->seconds / 1048576 : 0;
}

static int report_set(json_t *object, const char *name, double value)
{
        return json_object_set_new(object, name, json_real(value));
}

static int report_set_count(json_t *object, const char *name, uint64_t value)
{
        return json_object_set_new(object, name, json_integer((json_int_t)value));
}

static int set_latencies(json_t *object, const struct load_stats *stats)
{
        double mean = stats->count > 0 ? (double)stats->sum / (double)stats->count / 1000 : 0;
        int rv = report_set(object, "mean_us", mean);

        rv |= report_set(object, "p50_us", load_us(stats, 0.5));
        rv |= report_set(object, "p90_us", load_us(stats, 0.9));
        rv |= report_set(object, "p99_us", load_us(stats, 0.99));
        rv |= report_set(object, "p999_us", load_us(stats, 0.999));
        rv |= report_set(object, "max_us", (double)stats->max / 1000);
        return rv;
}

static int set_failures(json_t *object, const struct load_result *result)
{
        json_t *kinds = json_object();
        int rv = report_set_count(object, "errors", result->failed);

        for (int i = 0; i < LOAD_FAILURE_COUNT; i++)
                if (result->failures[i] > 0)
                        rv |= report_set_count(kinds, failure_names[i], result->failures[i]);
        return rv | json_object_set_new(object, "error_kinds", kinds);
}

static int set_mixed(json_t *object, const struct load_result *result)
{
        static const char *const names[2][3] = {{"get_ops", "get_p50_us", "get_p99_us"},
                                                {"put_ops", "put_p50_us", "put_p99_us"}};
        int rv = 0;

        for (int i = 0; i < 2; i++) {
                rv |= report_set_count(object, names[i][0], result->mixed[i].count);
                rv |= report_set(object, names[i][1], load_us(&result->mixed[i], 0.5));
                rv |= report_set(object, names[i][2], load_us(&result->mixed[i], 0.99));
        }
        return rv;
}

json_t *load_result_json(const struct load_settings *settings, const struct load_result *result)
{
        double seconds = result->seconds > 0 ? result->seconds : 1e-9;
        json_t *object = json_object();
        int rv = json_object_set_new(object, "phase", json_string(load_phase_name(settings->phase)));

        rv |= report_set_count(object, "size", settings->size);
        rv |= report_set_count(object, "conns", settings->connections);
        rv |= report_set(object, "rate", settings->rate);
        rv |= report_set_count(object, "ops", result->stats.count);
        rv |= report_set_count(object, "bytes", result->bytes);
        rv |= report_set(object, "seconds", result->seconds);
        rv |= report_set(object, "ops_s", (double)result->stats.count / seconds);
        rv |= report_set(object, "mib_s", load_mib_s(result));
        rv |= report_set(object, "entries_s", (double)result->entries / seconds);
        rv |= set_latencies(object, &result->stats);
        rv |= json_object_set_new(object, "verified", json_boolean(settings->verify));
        rv |= report_set_count(object, "reconnects", result->reconnects);
        rv |= set_failures(object, result);
        if (settings->phase == LOAD_MIXED)
                rv |= set_mixed(object, result);
        rv |= report_set(object, "client_cpu_s", result->cpu_s);
        if (rv == 0)
                return object;
        json_decref(object);
        return NULL;
}

int load_json_print(const json_t *object, FILE *out)
{
        int rv = json_dumpf(object, out, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));

        return rv != 0 || fputc('\n', out) == EOF ? -1 : 0;
}
