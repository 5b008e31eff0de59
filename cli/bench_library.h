/*
 * bench_library.h - phases of `millrace bench` by way of libmillrace, which `--transport` asks for:
 * what a program gets that reads into registered memory and takes results from a completion queue.
 * The same settings, figures and failures as of load_run(), so that both ways are told in one form.
 * Private to this folder; everything is the main thread's.
 *
 *   bench_library_open():  one client, one session, one piece of registered memory for all phases
 *
 *     [ places: as many as the phase has operations in flight ][ the pattern of load_content.h, and its beginning once more ]
 *       GETs are read into these                                 PUTs are windows of it, as they are: nothing is copied
 *
 *   bench_library_run():   start ─> in flight (a slot each) ─> its result ─> judged, counted ─> the slot's next operation
 *
 * Bounds (I9): slots, the memory (bench_plan.c refuses what would take more than BENCH_MEMORY_MAX),
 * failures that are told.
 */
#ifndef CLI_BENCH_LIBRARY_H
#define CLI_BENCH_LIBRARY_H

#include "bench.h"

struct bench_library;

/*
 * Opens it for these phases; what cannot be had has been said: a session, where --transport rdma
 * asks for one, or memory. With auto a session that cannot be opened is no failure. An interrupt
 * cancels its client, too. CLI_OK, CLI_FAILED.
 */
int bench_library_open(const struct cli_call *call, const struct bench_phase phases[], unsigned count,
                       struct bench_library **out);
void bench_library_free(struct bench_library *library); /* NULL is allowed */
/* With auto: why nothing goes over RDMA, or "". Valid as long as the library. */
const char *bench_library_no_rdma(const struct bench_library *library);

/*
 * Runs a phase: put, get, range or mixed, its settings completed; batch > 0: GETs come in batches
 * of so many, and an operation is a batch. Objects that were got or put are counted in *carried by
 * the transport that carried them. 0 or a negative errno, as load_run().
 */
int bench_library_run(struct bench_library *library, const struct load_settings *settings, unsigned batch,
                      const struct load_watch *watch, struct load_result *out, struct bench_carried *carried);

/* ---- between bench_library.c and bench_library_op.c ------------------------------------------ */

struct bench_library {
        struct mr_client *client;
        enum mr_transport asked;
        struct mr_buffer *buffer;
        char *memory;        /* the buffer's */
        uint64_t places_len; /* of the memory: for GETs */
        char *pattern;       /* behind them */
        uint64_t object_max; /* the largest that can be put */
        char no_rdma[512];
};

/* An operation in flight, or a place for one. */
struct bench_slot {
        unsigned number;
        uint64_t index;     /* of the operation in its phase */
        uint64_t since_ns;  /* a latency counts from then */
        enum load_phase op; /* GET, PUT or RANGE */
        struct mr_got *got; /* of a batch */
};

/* One phase. */
struct bench_flight {
        struct bench_library *library;
        const struct load_settings *settings;
        const struct load_watch *watch;
        struct load_result *result;
        struct bench_carried *carried;
        struct mr_queue *queue;
        unsigned batch;           /* objects of an operation */
        bool batched;             /* else there is one, got by itself */
        uint64_t len, place;      /* bytes of each object that are got; from one slot's memory to the next one's */
        struct bench_slot *slots; /* slot_count of them */
        struct bench_slot **idle; /* those without an operation */
        struct mr_get *gets;      /* of the batch that is begun */
        char (*names)[BENCH_NAME_SIZE]; /* of its objects */
        unsigned slot_count, idle_count, told;
        uint64_t issued, start_ns, end_ns, last_ns, moment_ns;
        bool get_prefers_rdma, put_prefers_rdma; /* with auto */
        bool over;                               /* no more operations begin */
};

/* Begins the slot's operation, by slot->index. 0 or a negative errno. */
int bench_op_start(struct bench_flight *flight, struct bench_slot *slot);
/*
 * Judges a result, and counts it: a success with its latency, or a failure, of which the first are
 * told. What was canceled counts as neither.
 */
void bench_op_end(struct bench_flight *flight, struct bench_slot *slot, const struct mr_result *result,
                  uint64_t now_ns);
/* The operation could not be begun. */
void bench_op_failed(struct bench_flight *flight, struct bench_slot *slot, int rv);

#endif
