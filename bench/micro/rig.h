/*
 * rig.h - a store of one drive in a folder of its own, its loops running, and many operations on it
 * at a time, measured. Main thread, but for what runs on loops.
 */
#ifndef BENCH_MICRO_RIG_H
#define BENCH_MICRO_RIG_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "engine.h"
#include "load_stats.h"

#define RIG_LOOPS_MAX 16u
#define RIG_PATTERN   (8u << 20) /* bytes of objects are windows of so many */

struct rig {
        char root[512], drive[560];
        unsigned loop_count;
        struct eng_options options; /* to be changed before rig_open() */
        const char *drives[1];
        uint8_t *pattern; /* RIG_PATTERN, and as many again to read over its end */
        uint64_t bucket;
        /* while it is open */
        struct lp_loop *loops[RIG_LOOPS_MAX];
        pthread_t threads[RIG_LOOPS_MAX];
        struct eng_store *store;
};

/*
 * From now on an interrupt ends the run that is under way, with -EINTR, instead of the process, so
 * that folders are removed.
 */
void rig_catch_interrupts(void);
bool rig_interrupted(void);

/* Makes a folder below `below`. 0 or a negative errno, told on standard error. */
int rig_make(struct rig *rig, const char *below, unsigned loops);
/*
 * Formats the drive if `format`, and is back when the store is ready; makes, or finds, the bucket.
 * 0 or a negative errno, told on standard error.
 */
int rig_open(struct rig *rig, bool format);
void rig_close(struct rig *rig);
/* Removes the folder. */
void rig_remove(struct rig *rig);
/* Figures of the drive; at most a second old. */
void rig_drive_info(struct rig *rig, struct eng_drive_info *out);
/* Waits until the index holds everything, some seconds at most. */
void rig_wait_indexed(struct rig *rig);
/* The bytes of log/ and data/ leave the page cache, those of index/ stay. */
void rig_cool(const struct rig *rig);
/* What a folder of the drive ("index") takes on the disk, holes not counted. */
uint64_t rig_disk_bytes(const struct rig *rig, const char *name);
double rig_now_s(void);

struct rig_run;

/* One operation after the other. owner: its loop */
struct rig_op {
        struct lp_msg msg;
        struct rig_run *run;
        unsigned loop;
        uint64_t index, since_ns; /* of the operation under way */
        char key[32];
        struct eng_put *put;
        struct eng_get *get;
        uint64_t at; /* bytes so far */
};

/* Operations of one kind, `depth` at a time. Set up to `max` by the caller. */
struct rig_run {
        struct rig *rig;
        void (*begin)(struct rig_op *op); /* of ops.h; on a loop */
        unsigned depth;
        uint64_t count; /* operations in all; UINT64_MAX: as many as go into `seconds` */
        double seconds; /* 0: until there were `count` */
        uint64_t size, keys;
        uint64_t first; /* number of the first key that is put */
        bool md5;
        unsigned max; /* of a listing */

        atomic_uint_fast64_t next, done, bytes, entries;
        atomic_uint live;
        atomic_int rv; /* of what failed first: the run ends then */
        uint64_t end_ns;
        sem_t over;
        struct load_stats stats[RIG_LOOPS_MAX]; /* owner: each loop its own, then the main thread: the first has all */
        double took_s;
};

/* Runs it. 0, or the errno of the first operation that failed. */
int rig_run(struct rig_run *run);
/*
 * On the operation's loop, never inside begin() where it succeeded: the operation is over, and the
 * next one begins.
 */
void rig_op_done(struct rig_op *op, int rv, uint64_t bytes, uint64_t entries);

#endif
