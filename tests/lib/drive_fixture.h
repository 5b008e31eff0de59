/*
 * drive_fixture.h - a local drive in a temporary folder, with loops running, for tests: ops are
 * submitted from the test's thread and waited for.
 */
#ifndef MILLRACE_TESTS_DRIVE_FIXTURE_H
#define MILLRACE_TESTS_DRIVE_FIXTURE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/drive/drive.h"
#include "tests/lib/body_fixture.h"

#define FX_LOOPS_MAX 3u
#define FX_SLOTS     16u
#define FX_EPOCH     7u /* number of the epoch that a fixture's drive is formatted with */

struct fx_dead { /* ids of the parts that superseded() told of */
        uint8_t ids[4096][FMT_ID];
        unsigned count;
};

struct fx {
        char root[128], path[160];
        unsigned loop_count;
        bool stopped, closed;
        struct lp_loop *loops[FX_LOOPS_MAX];
        pthread_t threads[FX_LOOPS_MAX];
        struct eng_local_options options; /* to be changed before fx_open() */
        const char *filters;
        struct eng_drive *local, *drive; /* drive: outermost */
        struct eng_error error;
        uint64_t seq;         /* of fx_put and its like */
        struct eng_term term; /* of every op that says none */
        pthread_mutex_t lock;
        struct fx_dead dead; /* under lock, as is the next */
        char failed[200];
};

/* One op from a test. Zero it, fill op. */
struct fx_op {
        struct eng_op op;
        struct lp_msg msg;
        sem_t ended;
        struct fx *fx;
        struct eng_drive *drive;
};

/* How many superseded() has told of so far. */
unsigned fx_dead_count(struct fx *fx);
/* Makes a temporary folder and formats it. Aborts the test on any trouble. */
void fx_make(struct fx *fx, unsigned loops);
/* Starts loops and opens; returns eng_local_open()'s result (fx->error has the text). */
int fx_open(struct fx *fx);
/* Stops the loops; fx_close() closes then. */
void fx_stop(struct fx *fx);
/* Stops the loops and closes. */
void fx_close(struct fx *fx);
/*
 * As a crash would: what is on disk stays as it is, the process forgets. Works on a copy of the
 * folder taken while the drive is open, so call it, then fx_close(), then fx_restore().
 */
void fx_snapshot(const struct fx *fx, const char *name);
void fx_restore(struct fx *fx, const char *name);
/* Closes if need be, and removes everything. */
void fx_destroy(struct fx *fx);

void fx_start(struct fx *fx, unsigned loop, struct fx_op *op);
int fx_wait(struct fx_op *op);
int fx_run(struct fx *fx, struct fx_op *op); /* on loop 0, the owner */
/*
 * Starts them, on the loops in turn, while the owner is held up: it meets all of them in one round,
 * before anything that they begin can end. Of appends so the first is written alone, and the
 * others, as far as one batch goes, together, however quick the drive is.
 */
void fx_start_group(struct fx *fx, struct fx_op *ops, unsigned n);
/* Runs a function on a loop's thread and waits for it. */
void fx_call(struct fx *fx, unsigned loop, void (*function)(void *arg), void *arg);

/* ---- ops, on the owner loop ------------------------------------------------------------------ */

void fx_fill_append(struct fx_op *op, const struct fx_body *body, uint32_t pg, uint64_t seq, uint64_t committed);
int fx_append(struct fx *fx, const struct fx_body *body, uint32_t pg, uint64_t seq, uint64_t committed);
int fx_commit(struct fx *fx, uint32_t pg, uint64_t seq);
/* APPEND and COMMIT of one inline put, on pg 1 with the next seq. */
int fx_put(struct fx *fx, const char *name, const void *bytes, size_t len);
int fx_delete(struct fx *fx, const char *name);
/* LOOKUP with inline bytes. bytes NULL: not wanted. The caller unrefs both. */
int fx_lookup(struct fx *fx, const void *name, size_t name_len, struct eng_buf **value, struct eng_buf **bytes);
/* True: the name's bytes are exactly these. */
bool fx_has(struct fx *fx, const char *name, const void *bytes, size_t len);
int fx_lookup_rv(struct fx *fx, const char *name);
/* Waits until the index holds all that is applied (polls figures). */
bool fx_wait_indexed(struct fx *fx);

/* ---- damage ---------------------------------------------------------------------------------- */

/* Path of the file of a folder (log, data) whose name comes first. */
void fx_first(const struct fx *fx, const char *folder, char *out, size_t cap);
void fx_flip(const char *path, uint64_t offset);
uint64_t fx_file_size(const char *path);
/* Number of files in a folder whose names end so. */
unsigned fx_count_files(const struct fx *fx, const char *folder, const char *suffix);

#endif
