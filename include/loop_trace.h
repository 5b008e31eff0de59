/*
 * loop_trace.h - what happened on each loop last: a ring of small binary records, always on.
 *
 * Every thread that runs a loop writes into a ring of its own; nothing is allocated, locked or
 * formatted while it does. The newest LP_TRACE_RECORDS records of each loop are there when somebody
 * asks: `millrace admin trace`, an abort (the newest of them go to standard error), or a debugger
 * (tools/gdb/millrace.py reads a core file).
 *
 * Records belong to a request. The loop carries the number of the request along: a message, a timer
 * or a file operation runs for the request that was current when it was posted or started. The
 * gateway sets the number when it begins a request; 0 is the store's own work.
 */
#ifndef MILLRACE_LOOP_TRACE_H
#define MILLRACE_LOOP_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LP_TRACE_RECORDS 8192u /* of each loop; a power of two */
#define LP_TRACE_WORD    32u     /* room for the name of a word's value */
#define LP_TRACE_RINGS   256u  /* loops of a process at one time whose records are kept */

/*
 * The events: name in C, name in dumps, meaning of the two words. Append only: dumps of older
 * builds are read by number. The words are numbers; "" is unused.
 */
#define LP_TRACE_EVENTS(X)                                                                                             \
        /* gateway */                                                                                                  \
        X(HTTP_BEGIN, "http-begin", "", "")                                                                            \
        X(HTTP_STATE, "http-state", "state", "operation")                                                              \
        X(HTTP_ANSWER, "http-answer", "status", "refused")                                                             \
        X(HTTP_END, "http-end", "bytes_in", "bytes_out")                                                               \
        /* engine: requests */                                                                                         \
        X(PUT_BEGIN, "put-begin", "size", "inline")                                                                    \
        X(PUT_STRIPE, "put-stripe", "stripe", "shards")                                                                \
        X(PUT_END, "put-end", "result", "bytes")                                                                       \
        X(GET_OPEN, "get-open", "bucket", "group")                                                                     \
        X(GET_FOUND, "get-found", "result", "size")                                                                    \
        X(GET_DEGRADED, "get-degraded", "stripe", "shard")                                                             \
        X(GET_END, "get-end", "result", "")                                                                            \
        X(TXN_STATE, "txn-state", "state", "sequence")                                                                 \
        X(TXN_END, "txn-end", "result", "sequence")                                                                    \
        /* engine: drives */                                                                                           \
        X(OP_SUBMIT, "op-submit", "op", "")                                                                           \
        X(OP_DONE, "op-done", "op", "result")                                                                          \
        X(LOG_WRITE, "log-write", "slot", "bytes")                                                                     \
        X(LOG_FLUSHED, "log-flushed", "slot", "result")                                                                \
        /* engine: transitions, which the log has in words */                                                          \
        X(EPOCH, "epoch", "number", "members")                                                                         \
        X(DRIVE_STATE, "drive-state", "slot", "state")                                                                 \
        X(RECOVERY, "recovery", "phase", "epoch")                                                                      \
        X(CATCH_UP, "catch-up", "step", "slot")                                                                        \
        X(REPAIR, "repair", "running", "objects")                                                                      \
        X(SCRUB, "scrub", "running", "slot")                                                                           \
        X(RECLAIM, "reclaim", "slot", "bytes")                                                                         \
        X(SESSION, "session", "state", "generation")

enum lp_trace_event {
        LP_TRACE_NONE, /* a record that was never written */
#define LP_TRACE_ENUM(name, text, a, b) LP_TRACE_##name,
        LP_TRACE_EVENTS(LP_TRACE_ENUM)
#undef LP_TRACE_ENUM
                LP_TRACE_COUNT
};

struct lp_trace_text {
        const char *name, *a, *b;
};
/* By number; the first is empty. */
extern const struct lp_trace_text lp_trace_texts[LP_TRACE_COUNT];

/* As lp_trace_read() gives them. */
struct lp_trace_record {
        uint64_t time;    /* ns, the scale of lp_clock() */
        uint64_t request; /* 0: the store's own work */
        uint64_t a, b;
        uint16_t event; /* enum lp_trace_event */
        uint16_t ring;  /* which of the process's */
};

/* ---- writing: on a loop's thread, nothing elsewhere ------------------------------------------ */

/* One record for the current request, with the time read fresh. */
void lp_trace(enum lp_trace_event event, uint64_t a, uint64_t b);
/* The same where the caller has just read lp_clock(). */
void lp_trace_at(uint64_t time, enum lp_trace_event event, uint64_t a, uint64_t b);

/* The request that the calling thread works for now. The loop sets it around all that it runs. */
extern _Thread_local uint64_t lp_trace_current;

static inline uint64_t lp_trace_request(void)
{
        return lp_trace_current;
}
static inline void lp_trace_set_request(uint64_t request)
{
        lp_trace_current = request;
}

/* ---- reading: any thread, at any time -------------------------------------------------------- */

/*
 * Rings there are now are those below this number; one may be NULL in between, and gives nothing.
 */
unsigned lp_trace_rings(void);
/* Name of a ring's loop, as its thread is called; "" if there is none. */
void lp_trace_ring_name(unsigned ring, char name[24]);
/*
 * Copies the newest records of one ring, oldest first; records being overwritten meanwhile are left
 * out. Returns how many, at most `max` and LP_TRACE_RECORDS.
 */
size_t lp_trace_read(unsigned ring, struct lp_trace_record *out, size_t max);

/*
 * Once, early in a program: an abort or a fault writes the newest records of each loop to standard
 * error before the process ends as it would have.
 */
void lp_trace_on_abort(void);

/* ---- a loop's own: loop.c -------------------------------------------------------------------- */

/*
 * The calling thread gets a ring, if one is left; and gives it back. The records stay till another
 * takes it.
 */
void lp_trace_begin(const char *name, unsigned index);
void lp_trace_end(void);

#endif
