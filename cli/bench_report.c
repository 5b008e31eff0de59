/* bench_report.c - what phases of `millrace bench` came to, as a table and as JSON. Main thread; called by bench.c. */
#include "bench.h"

#define BUSY 0.9 /* of a core: this program is single-threaded, and may be what was measured */

static double cpu_share(const struct load_result *result)
{
        return result->seconds > 0 ? result->cpu_s / result->seconds : 0;
}

void bench_print_heading(FILE *out)
{
        fprintf(out, "%-12s %6s %11s %10s %9s %9s %9s %8s %8s\n", "phase", "conns", "op/s", "MiB/s", "p50 ms", "p99 ms",
                "p99.9 ms", "errors", "own CPU");
}

void bench_print_row(FILE *out, const struct bench_row *row)
{
        const struct load_result *r = &row->result;
        double seconds = r->seconds > 0 ? r->seconds : 1e-9;
        char mib[24] = "-";

        if (r->bytes > 0)
                snprintf(mib, sizeof(mib), "%.1f", load_mib_s(r));
        fprintf(out, "%-12s %6u %11.1f %10s %9.2f %9.2f %9.2f %8llu %6.0f %%\n", row->phase.name,
                row->settings.connections, (double)r->stats.count / seconds, mib, load_us(&r->stats, 0.5) / 1000,
                load_us(&r->stats, 0.99) / 1000, load_us(&r->stats, 0.999) / 1000, (unsigned long long)r->failed,
                cpu_share(r) * 100);
        fflush(out);
}

void bench_print_remarks(FILE *out, struct bench_row *const rows[], unsigned count)
{
        bool begun = false;

        for (unsigned i = 0; i < count; i++) {
                if (cpu_share(&rows[i]->result) < BUSY)
                        continue;
                fprintf(out, "%s%s", begun ? ", " : "\nThis program itself was busy all the time, and a limit, in: ",
                        rows[i]->phase.name);
                begun = true;
        }
        if (begun)
                fputc('\n', out);
}

static json_t *phases_json(struct bench_row *const rows[], unsigned count)
{
        json_t *phases = json_array();

        for (unsigned i = 0; i < count; i++) {
                json_t *one = load_result_json(&rows[i]->settings, &rows[i]->result);

                if (one == NULL || json_object_set_new(one, "name", json_string(rows[i]->phase.name)) != 0 ||
                    json_array_append_new(phases, one) != 0) {
                        json_decref(phases);
                        return NULL;
                }
        }
        return phases;
}

int bench_print_json(FILE *out, const struct cli_call *call, const char *bucket, struct bench_row *const rows[],
                     unsigned count, bool interrupted)
{
        json_t *phases = phases_json(rows, count), *all;
        uint64_t errors = 0;
        int rv;

        for (unsigned i = 0; i < count; i++)
                errors += rows[i]->result.failed;
        all = json_pack("{ss ss ss sI sb so}", "endpoint", call->settings.endpoint, "bucket", bucket, "version",
                        MILLRACE_VERSION, "errors", (json_int_t)errors, "interrupted", (int)interrupted, "phases",
                        phases);
        rv = all != NULL ? load_json_print(all, out) : -1;
        json_decref(all);
        return rv;
}
