/*
 * bench.h - `millrace bench`: its phases, and what became of them. Private to this folder;
 * everything is the main thread's.
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli.h"
#include "load.h"

#define BENCH_PHASES_MAX 64u
#define BENCH_NAME_SIZE  256u /* of an object's name */

/* By way of libmillrace, which --transport asks for (bench_library.h). */
#define BENCH_FLIGHT_MAX 64u             /* operations */
#define BENCH_BATCH_MAX  1024u           /* objects */
#define BENCH_MEMORY_MAX (1024ull << 20) /* of all that is in flight; an object that is stored may have as much */

/* One phase as it was asked for. */
struct bench_phase {
        enum load_phase kind;
        char name[24];        /* "put-4k", "list-1000" */
        uint64_t size;        /* of its objects */
        uint64_t range;       /* of LOAD_RANGE */
        unsigned max_keys;    /* of LOAD_LIST */
        unsigned batch;       /* LOAD_GET in batches of so many objects; 0: none */
        unsigned connections; /* or operations in flight */
};

/* Objects got or put by way of libmillrace. */
struct bench_carried {
        uint64_t rdma, tcp; /* RDMA carried all bytes; TCP some or all of them */
        uint64_t fallbacks; /* of tcp: RDMA was to carry them */
};

/* A phase that was run. */
struct bench_row {
        struct bench_phase phase;
        bool library; /* by way of libmillrace: carried has figures */
        enum mr_transport asked;
        struct load_settings settings;
        struct load_result result;
        struct bench_carried carried;
};

/* ---- bench_plan.c: pure ---------------------------------------------------------------------- */

/*
 * Adds what a word names to phases[*count]. -EINVAL: nothing of that name, or not of a possible
 * size; -E2BIG: too many; -EOPNOTSUPP: with --transport there is no such phase, or without it;
 * -EFBIG: with --transport it would take too much memory.
 */
int bench_plan_add(const char *word, const struct cli_bench_options *options,
                   struct bench_phase phases[BENCH_PHASES_MAX], unsigned *count);
/* All usual phases, with --transport or without. -EFBIG. */
int bench_plan_all(const struct cli_bench_options *options, struct bench_phase phases[BENCH_PHASES_MAX],
                   unsigned *count);
/* Bytes that one operation by way of libmillrace reads into memory. */
uint64_t bench_plan_place(const struct bench_phase *phase);
/* How many objects a phase reads, lists or deletes; 0: it needs none. */
uint64_t bench_plan_objects(const struct bench_phase *phase, const struct cli_bench_options *options);

/* ---- bench_report.c -------------------------------------------------------------------------- */

void bench_print_heading(FILE *out, bool library);
void bench_print_row(FILE *out, const struct bench_row *row);
/*
 * Where this program itself was what could not go faster, a line that says so; and one with why
 * there was no RDMA ("": it was there, or not wanted).
 */
void bench_print_remarks(FILE *out, struct bench_row *const rows[], unsigned count, const char *no_rdma);
/* 0 or -1. */
int bench_print_json(FILE *out, const struct cli_call *call, const char *bucket, struct bench_row *const rows[],
                     unsigned count, bool interrupted, const char *no_rdma);

#endif
