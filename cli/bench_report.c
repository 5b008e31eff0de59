/*
 * bench_report.c - what phases of `millrace bench` came to, as a table and as JSON. Main thread;
 * called by bench.c.
 */
#include "bench.h"

#include <unistd.h>

#define BUSY 0.9 /* of what it can have: this program may be what was measured */

static double cpu_share(const struct load_result *result)
{
        return result->seconds > 0 ? result->cpu_s / result->seconds : 0;
}

void bench_print_heading(FILE *out, bool library)
{
        fprintf(out, "%-12s %6s %11s %10s %9s %9s %9s %8s %8s", "phase", library ? "flight" : "conns", "op/s", "MiB/s",
                "p50 ms", "p99 ms", "p99.9 ms", "errors", "own CPU");
        if (library)
                fprintf(out, " %10s %10s %10s", "by RDMA", "by TCP", "fallbacks");
        fputc('\n', out);
}

void bench_print_row(FILE *out, const struct bench_row *row)
{
        const struct load_result *r = &row->result;
        double seconds = r->seconds > 0 ? r->seconds : 1e-9;
        char mib[24] = "-";

        if (r->bytes > 0)
                snprintf(mib, sizeof(mib), "%.1f", load_mib_s(r));
        fprintf(out, "%-12s %6u %11.1f %10s %9.2f %9.2f %9.2f %8llu %6.0f %%", row->phase.name,
                row->settings.connections, (double)r->stats.count / seconds, mib, load_us(&r->stats, 0.5) / 1000,
                load_us(&r->stats, 0.99) / 1000, load_us(&r->stats, 0.999) / 1000, (unsigned long long)r->failed,
                cpu_share(r) * 100);
        if (row->library)
                fprintf(out, " %10llu %10llu %10llu", (unsigned long long)row->carried.rdma,
                        (unsigned long long)row->carried.tcp, (unsigned long long)row->carried.fallbacks);
        fputc('\n', out);
        fflush(out);
}

/* Of one core, on which load/ runs; of all, where libmillrace's threads do. */
static bool busy(const struct bench_row *row)
{
        long cores = row->library ? sysconf(_SC_NPROCESSORS_ONLN) : 1;

        return cpu_share(&row->result) >= BUSY * (double)(cores > 1 ? cores : 1);
}

void bench_print_remarks(FILE *out, struct bench_row *const rows[], unsigned count, const char *no_rdma)
{
        bool begun = false;

        if (no_rdma[0] != '\0')
                fprintf(out, "\nNo RDMA: %s\n", no_rdma);

        for (unsigned i = 0; i < count; i++) {
                if (!busy(rows[i]))
                        continue;
                fprintf(out, "%s%s", begun ? ", " : "\nThis program itself was busy all the time, and a limit, in: ",
                        rows[i]->phase.name);
                begun = true;
        }
        if (begun)
                fputc('\n', out);
}

/* What a phase by way of libmillrace has beside the figures that all have. 0 or -1. */
static int add_library(json_t *object, const struct bench_row *row)
{
        static const char *const names[] = {"auto", "tcp", "rdma"};
        json_t *more =
                json_pack("{ss sI sI sI}", "transport", names[row->asked], "by_rdma", (json_int_t)row->carried.rdma,
                          "by_tcp", (json_int_t)row->carried.tcp, "fallbacks", (json_int_t)row->carried.fallbacks);
        int rv = more != NULL ? json_object_update(object, more) : -1;

        json_decref(more);
        if (rv == 0 && row->phase.batch > 0)
                rv = json_object_set_new(object, "batch", json_integer((json_int_t)row->phase.batch));
        return rv;
}

static json_t *phases_json(struct bench_row *const rows[], unsigned count)
{
        json_t *phases = json_array();

        for (unsigned i = 0; i < count; i++) {
                json_t *one = load_result_json(&rows[i]->settings, &rows[i]->result);

                if (one == NULL || json_object_set_new(one, "name", json_string(rows[i]->phase.name)) != 0 ||
                    (rows[i]->library && add_library(one, rows[i]) != 0) || json_array_append_new(phases, one) != 0) {
                        json_decref(phases);
                        return NULL;
                }
        }
        return phases;
}

int bench_print_json(FILE *out, const struct cli_call *call, const char *bucket, struct bench_row *const rows[],
                     unsigned count, bool interrupted, const char *no_rdma)
{
        json_t *phases = phases_json(rows, count), *all;
        uint64_t errors = 0;
        int rv;

        for (unsigned i = 0; i < count; i++)
                errors += rows[i]->result.failed;
        all = json_pack("{ss ss ss sI sb so}", "endpoint", call->settings.endpoint, "bucket", bucket, "version",
                        MILLRACE_VERSION, "errors", (json_int_t)errors, "interrupted", (int)interrupted, "phases",
                        phases);
        if (all != NULL && no_rdma[0] != '\0' && json_object_set_new(all, "no_rdma", json_string(no_rdma)) != 0) {
                json_decref(all);
                all = NULL;
        }
        rv = all != NULL ? load_json_print(all, out) : -1;
        json_decref(all);
        return rv;
}
