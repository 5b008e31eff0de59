/* bench.h - `millrace bench`: its phases, and what became of them. Private to this folder; everything is the main thread's. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli.h"
#include "load.h"

#define BENCH_PHASES_MAX 64u

/* One phase as it was asked for. */
struct bench_phase {
        enum load_phase kind;
        char name[24];     /* "put-4k", "list-1000" */
        uint64_t size;     /* of its objects */
        uint64_t range;    /* of LOAD_RANGE */
        unsigned max_keys; /* of LOAD_LIST */
        unsigned connections;
};

/* The same, run. */
struct bench_row {
        struct bench_phase phase;
        struct load_settings settings;
        struct load_result result;
};

/* ---- bench_plan.c: pure ------------------------------------------------------------------------------ */

/*
 * Adds what a word names to phases[*count]. -EINVAL: nothing of that name, or not of a possible size; -E2BIG: too many.
 */
int bench_plan_add(const char *word, const struct cli_bench_options *options,
                   struct bench_phase phases[BENCH_PHASES_MAX], unsigned *count);
/* All usual phases. */
void bench_plan_all(const struct cli_bench_options *options, struct bench_phase phases[BENCH_PHASES_MAX],
                    unsigned *count);
/* How many objects a phase reads, lists or deletes; 0: it needs none. */
uint64_t bench_plan_objects(const struct bench_phase *phase, const struct cli_bench_options *options);

/* ---- bench_report.c ---------------------------------------------------------------------------------- */

void bench_print_heading(FILE *out);
void bench_print_row(FILE *out, const struct bench_row *row);
/* Where this program itself was what could not go faster, a line that says so. */
void bench_print_remarks(FILE *out, struct bench_row *const rows[], unsigned count);
/* 0 or -1. */
int bench_print_json(FILE *out, const struct cli_call *call, const char *bucket, struct bench_row *const rows[],
                     unsigned count, bool interrupted);

#endif
