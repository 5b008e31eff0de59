/*
 * pages.h - pages of the index that are not in memory: read by the ring, while what needs them
 * waits.
 *
 * LMDB reads its pages where they are mapped, and a page that is not there is a page fault: the
 * thread sleeps until the drive gives it, and a drive that hangs never does. So a lookup on a loop
 * ends with ENG_INDEX_ABSENT before it touches such a page. What was to be done is then begun
 * again, by eng_pages_wait(), when that page has been read. Nothing is kept meanwhile but how far
 * it had come, so each answer is one of the moment when it was given.
 */
#ifndef MILLRACE_ENGINE_DRIVE_PAGES_H
#define MILLRACE_ENGINE_DRIVE_PAGES_H

#include <bsd/sys/queue.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/drive/resident.h"

#define ENG_PAGES_AT_ONCE    64u  /* reads in flight; more wait for one of these to end */
#define ENG_PAGES_TRIES      128u /* pages that one answer may wait for without coming further; then -EAGAIN */
#define ENG_PAGES_SUSPECT_NS 100000000ull /* a drive with an older I/O may be about to hang: nothing known before counts */

struct eng_drive;
struct eng_local;
struct eng_op;

/* owner: the loop */
struct eng_page_wait {
        /*
         * rv 0: the page was read, begin again. -EIO: the drive has failed; -EAGAIN. -ECANCELED:
         * the drive is closed, nobody is to be answered.
         */
        void (*again)(struct eng_local *l, struct eng_page_wait *wait, int rv);
        TAILQ_ENTRY(eng_page_wait) link;
        unsigned tries; /* zeroed by whoever came further */
        uint32_t done;  /* how far it has come: of whoever waits */
};
TAILQ_HEAD(eng_page_wait_list, eng_page_wait);

struct eng_page_read;
LIST_HEAD(eng_page_read_list, eng_page_read);

/* owner: the loop, once the drive is open */
struct eng_pages {
        struct eng_resident resident;
        uint64_t page, count; /* that were missing when LMDB asked last */
        bool open;            /* all may be touched: for what cannot wait */
        unsigned reading;
        struct eng_page_read_list reads;
        struct eng_page_wait_list line; /* until a read ends */
        uint64_t hang_after, hang_ms;   /* for tests, as all that follows: eng_pages_pretend() */
        uint64_t hang_after_soon, hang_ms_soon;
        atomic_bool pretend_soon; /* the two above are set; any thread */
};

/* An index opened by another thread is looked at by the loop from now on. 0 or -ENOMEM. */
int eng_pages_open(struct eng_local *l);
/* Closing: whoever waits is told so. */
void eng_pages_close(struct eng_local *l);
/*
 * What was done last ended with ENG_INDEX_ABSENT: again() is called when the page is there. It may
 * be called at once.
 */
void eng_pages_wait(struct eng_local *l, struct eng_page_wait *wait);
/* The drive has failed. */
void eng_pages_fail(struct eng_local *l);
/* Each second: what was known is forgotten. */
void eng_pages_tick(struct eng_local *l);

/*
 * The same for an operation, in memory that is the drive's while it has it; tries of its wait were
 * zeroed before.
 */
void eng_pages_wait_op(struct eng_local *l, struct eng_op *op, void (*again)(struct eng_local *, struct eng_page_wait *, int));
/* The wait of an operation that the drive holds, in memory that is the drive's. */
struct eng_page_wait *eng_pages_of_op(struct eng_op *op);
struct eng_op *eng_pages_op(struct eng_page_wait *wait);

/*
 * For tests. Loop: no page counts as being in memory before it was read, and with ms 0 again after
 * each second. With ms, each read but the first `after` takes so long.
 */
void eng_pages_pretend(struct eng_local *l, uint64_t after, uint64_t ms);
/* The same by the thread that has opened the drive: from the next tick on. */
void eng_pages_pretend_soon(struct eng_drive *drive, uint64_t after, uint64_t ms);

#endif
