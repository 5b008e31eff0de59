/*
 * disk.h - what the drive under test has for a disk: files of a real folder, whose writes come to
 * an end one by one, and what a crash leaves of them.
 */
#ifndef MILLRACE_TESTS_SIM_DRIVE_DISK_H
#define MILLRACE_TESTS_SIM_DRIVE_DISK_H

#include <stdbool.h>
#include <stdint.h>

#define DISK_PATH_MAX 160u

struct disk_figures {
        uint64_t writes, flushes, jobs, calls; /* calls: that change a file, made by jobs and while opening */
        uint64_t torn, lost;                   /* writes */
        uint64_t errors;
        uint64_t index_reads; /* pages of the index that something waited for */
        uint64_t unreadable; /* reads that failed; the drive goes on */
        uint64_t full;       /* writes and calls that met a full file system; the same */
        uint64_t unopened;   /* files for which there was no descriptor; the same */
        uint64_t unopened_at; /* simulated time of the last one */
};
extern struct disk_figures disk_figures;

/*
 * Now and then, while the drive is in use (not while it is opened): a read of a file fails, the
 * file system is full for a while, there is no descriptor.
 */
void disk_trouble(bool on);

/* A new process: nothing is in flight. Descriptors opened from now on are its own. */
void disk_begin(void);
/*
 * The process dies in the n-th call from now on that would change a file: that one and all behind
 * it have no effect. 0: it does not.
 */
void disk_arm(uint64_t n);
bool disk_dead(void);
/*
 * The n-th I/O or such call from now on goes wrong (EIO), what it was to write being there or not.
 * 0: none. One has.
 */
void disk_err(uint64_t n);
bool disk_erred(void);
/* In a sweep: whether those of now are among the ones that may go wrong. */
void disk_sweep(bool on);

/*
 * The process is gone. What was in flight was carried out, in part or not at all, and what was not
 * flushed stays so.
 */
void disk_kill(void);
/* The same, and of each write that was not flushed any sectors may be missing. */
void disk_power_cut(void);
/* The loops have stopped: I/O in flight comes to its end (I7). */
void disk_finish(void);

#endif
