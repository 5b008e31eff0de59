/* report.h - what a run found, as JSON and as a line for people. Main thread. */
#ifndef BENCH_LOAD_REPORT_H
#define BENCH_LOAD_REPORT_H

#include <sys/resource.h>

#include "options.h"
#include "server.h"
#include "stats.h"

#define LOAD_FAILURES(X)                                                                                               \
        X(CONNECT, "connect")   /* no connection */                                                                    \
        X(CLOSED, "closed")     /* the server hung up */                                                               \
        X(TIMEOUT, "timeout")   /* no answer within a minute */                                                        \
        X(PROTOCOL, "protocol") /* not HTTP, or not what it said it would be */                                        \
        X(REFUSED, "refused")   /* 503: come back later */                                                             \
        X(STATUS, "status")     /* another status than the one of success */                                           \
        X(LENGTH, "length")     /* another length, or number of entries */                                             \
        X(CONTENT, "content")   /* other bytes */

enum load_failure {
#define LOAD_FAILURE_ID(id, name) LOAD_FAIL_##id,
        LOAD_FAILURES(LOAD_FAILURE_ID)
#undef LOAD_FAILURE_ID
                LOAD_FAILURE_COUNT
};

static const char *const load_failure_names[LOAD_FAILURE_COUNT] = {
#define LOAD_FAILURE_NAME(id, name) name,
        LOAD_FAILURES(LOAD_FAILURE_NAME)
#undef LOAD_FAILURE_NAME
};

struct load_result {
        struct load_stats stats;    /* of operations that succeeded, nanoseconds */
        struct load_stats mixed[2]; /* a mixed phase's GETs, and its PUTs */
        uint64_t bytes, entries;    /* of objects; of lists */
        uint64_t failures[LOAD_FAILURE_COUNT], failed, reconnects;
        double seconds, client_cpu_s;
        bool server_known;
        struct load_server server; /* memory at the end; the rest of the run alone */
        uint64_t anonymous_peak;   /* seen once a second */
};

static inline double load_own_cpu(void)
{
        struct rusage usage;

        getrusage(RUSAGE_SELF, &usage);
        return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static inline double load_us(const struct load_stats *stats, double share)
{
        return (double)load_stats_percentile(stats, share) / 1000;
}

static inline void load_report_server(const struct load_result *r)
{
        printf(",\"server_cpu_s\":%.3f,\"server_rss\":%llu,\"server_anonymous\":%llu,\"server_file\":%llu,\"server_"
               "peak\":"
               "%llu,\"server_anonymous_peak\":%llu",
               r->server.cpu_s, (unsigned long long)r->server.rss, (unsigned long long)r->server.anonymous,
               (unsigned long long)r->server.file, (unsigned long long)r->server.peak,
               (unsigned long long)r->anonymous_peak);
        if (r->server.io_known)
                printf(",\"server_read\":%llu,\"server_written\":%llu", (unsigned long long)r->server.read,
                       (unsigned long long)r->server.written);
}

static inline void load_report_errors(const struct load_result *r)
{
        printf(",\"errors\":%llu,\"error_kinds\":{", (unsigned long long)r->failed);
        for (int i = 0, shown = 0; i < LOAD_FAILURE_COUNT; i++)
                if (r->failures[i] > 0)
                        printf("%s\"%s\":%llu", shown++ > 0 ? "," : "", load_failure_names[i],
                               (unsigned long long)r->failures[i]);
        printf("}");
}

static inline void load_report_mixed(const struct load_result *r)
{
        static const char *const names[] = {"get", "put"};

        for (int i = 0; i < 2; i++)
                printf(",\"%s_ops\":%llu,\"%s_p50_us\":%.1f,\"%s_p99_us\":%.1f", names[i],
                       (unsigned long long)r->mixed[i].count, names[i], load_us(&r->mixed[i], 0.5), names[i],
                       load_us(&r->mixed[i], 0.99));
}

static inline void load_report_json(const struct load_options *o, const struct load_result *r)
{
        double seconds = r->seconds > 0 ? r->seconds : 1e-9;
        double mean = r->stats.count > 0 ? (double)r->stats.sum / (double)r->stats.count / 1000 : 0;

        printf("{\"phase\":\"%s\",\"size\":%llu,\"conns\":%u,\"rate\":%.1f,\"ops\":%llu,\"bytes\":%llu,\"seconds\":%."
               "6f,"
               "\"ops_s\":%.2f,\"mib_s\":%.2f,\"entries_s\":%.1f,\"mean_us\":%.1f,\"p50_us\":%.1f,\"p90_us\":%.1f,"
               "\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,\"verified\":%s,\"reconnects\":%llu",
               load_phase_names[o->phase], (unsigned long long)o->size, o->connections, o->rate,
               (unsigned long long)r->stats.count, (unsigned long long)r->bytes, r->seconds,
               (double)r->stats.count / seconds, (double)r->bytes / seconds / 1048576, (double)r->entries / seconds,
               mean, load_us(&r->stats, 0.5), load_us(&r->stats, 0.9), load_us(&r->stats, 0.99),
               load_us(&r->stats, 0.999), (double)r->stats.max / 1000, o->verify ? "true" : "false",
               (unsigned long long)r->reconnects);
        load_report_errors(r);
        if (o->phase == LOAD_MIXED)
                load_report_mixed(r);
        printf(",\"client_cpu_s\":%.3f", r->client_cpu_s);
        if (r->server_known)
                load_report_server(r);
        printf("}\n");
}

static inline void load_report_line(const struct load_options *o, const struct load_result *r)
{
        double seconds = r->seconds > 0 ? r->seconds : 1e-9;

        fprintf(stderr, "%-9s %9llu ops in %.2f s: %.0f op/s", load_phase_names[o->phase],
                (unsigned long long)r->stats.count, r->seconds, (double)r->stats.count / seconds);
        if (r->bytes > 0)
                fprintf(stderr, ", %.1f MiB/s", (double)r->bytes / seconds / 1048576);
        if (r->entries > 0)
                fprintf(stderr, ", %.0f entries/s", (double)r->entries / seconds);
        fprintf(stderr, "; p50 %.0f p99 %.0f p99.9 %.0f us; %llu errors; CPU own %.2f s", load_us(&r->stats, 0.5),
                load_us(&r->stats, 0.99), load_us(&r->stats, 0.999), (unsigned long long)r->failed, r->client_cpu_s);
        if (r->server_known)
                fprintf(stderr, ", server %.2f s; memory %.0f MiB anonymous, %.0f MiB files", r->server.cpu_s,
                        (double)r->server.anonymous / 1048576, (double)r->server.file / 1048576);
        fputc('\n', stderr);
}

#endif
