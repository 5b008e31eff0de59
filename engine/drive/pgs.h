/*
 * pgs.h - what a drive knows of each placement group: how far its records are applied, and those
 * that wait for COMMIT.
 */
#ifndef MILLRACE_ENGINE_DRIVE_PGS_H
#define MILLRACE_ENGINE_DRIVE_PGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

#include "engine/drive/drive.h"

#define ENG_PG_RECENT 16u
#define ENG_PGS_NEAR  4160u /* numbers that are found at once: all that a store has, CONFIG too; what a record says beyond is looked for */

/* One record: queued, being written, then (type PG) pending until it is applied. owner: the loop */
struct eng_append {
        struct fmt_record rec;
        struct eng_buf *body; /* whole; NULL when replay found it: its bytes are in the log */
        struct eng_buf *head; /* replay: body without the inline bytes */
        struct eng_op *op;    /* NULL: the drive's own, or replayed */
        void (*durable)(void *arg, struct eng_append *append); /* it is in the log; takes over append */
        bool written;                                          /* it was in a write that met a full file system: not to be refused any more */
        bool cached;                                           /* its inline bytes are to be kept in memory once it is applied */
        TAILQ_ENTRY(eng_append) link;                          /* queue, batch, or pending of its pg in order of seq */
        TAILQ_ENTRY(eng_append) order;                         /* all pending ones in order of position */
};
TAILQ_HEAD(eng_append_list, eng_append);

/* With a reference of its own to body, which may be NULL. NULL: no memory. */
struct eng_append *eng_append_new(enum fmt_record_type type, struct eng_buf *body);
void eng_append_free(struct eng_append *append);
/*
 * What an ENG_OP_APPEND asks for can be a record: -EINVAL if not. The checksum of its body is not
 * looked at.
 */
int eng_append_check(const struct eng_op *op);
/* Copies to the record what the op says of it, all but its type and body. */
void eng_append_describe(struct eng_append *append, const struct eng_op *op);

/* owner: the loop */
struct eng_log_pg {
        RB_ENTRY(eng_log_pg) tree;
        uint32_t pg;
        bool dirty;                  /* differs from its row in the index */
        uint64_t applied, committed; /* highest seq applied; highest known stable on all members */
        uint64_t copied;             /* highest seq of a COPY: it came before pending records that are older than it */
        uint64_t seen;               /* highest durable seq */
        uint64_t known, known_epoch; /* highest seq that a MARKS record has: up to here, what is not pending was applied */
        uint64_t marked; /* opening: committed as the index says, which may know of later than what is being replayed */
        uint64_t epoch;  /* of the record with seq `seen` */
        uint64_t applied_epoch; /* of the record with seq `applied` */
        struct eng_append_list pending;
        uint64_t recent[ENG_PG_RECENT]; /* seqs applied last, so that a repeated APPEND is known */
        unsigned recent_next;
};
RB_HEAD(eng_log_pg_tree, eng_log_pg);

struct eng_pgs {
        struct eng_log_pg_tree tree;
        struct eng_log_pg *near[ENG_PGS_NEAR]; /* those of the tree, by number */
        struct eng_append_list order;
        unsigned count, pending_count;
        uint64_t pending_bytes;
};

void eng_pgs_init(struct eng_pgs *pgs);
void eng_pgs_clear(struct eng_pgs *pgs);
struct eng_log_pg *eng_pgs_find(const struct eng_pgs *pgs, uint32_t number);
/* Makes it if need be. NULL: no memory. */
struct eng_log_pg *eng_pgs_get(struct eng_pgs *pgs, uint32_t number);
/* Ascending; NULL: the first. */
struct eng_log_pg *eng_pgs_next(const struct eng_pgs *pgs, struct eng_log_pg *after);

/*
 * Adds a durable record, behind all others in position. False: one of that seq is pending already;
 * append stays the caller's.
 */
bool eng_pgs_add(struct eng_pgs *pgs, struct eng_log_pg *pg, struct eng_append *append);
/* Takes the first pending record out if its seq is at most up_to; NULL: none. Marks it applied. */
struct eng_append *eng_pgs_take(struct eng_pgs *pgs, struct eng_log_pg *pg, uint64_t up_to);
struct eng_append *eng_pgs_find_pending(const struct eng_log_pg *pg, uint64_t seq);
bool eng_pgs_applied_lately(const struct eng_log_pg *pg, uint64_t seq);
/*
 * The pending records, as the body of a VOID record. NULL: no memory, or more than a record can
 * name.
 */
struct eng_buf *eng_pgs_void_body(const struct eng_pgs *pgs);
/* Drops one pending record; harmless if it is not there. */
void eng_pgs_void(struct eng_pgs *pgs, const struct fmt_void *which);
/* Numbers up to seq were given. Whether their records were applied here is not known. */
void eng_pgs_see(struct eng_log_pg *pg, uint64_t seq, uint64_t epoch);
/*
 * Records up to seq were seen here once, whether or not the log still has them. Those that are not
 * pending were applied.
 */
void eng_pgs_mark(struct eng_log_pg *pg, uint64_t seq, uint64_t epoch);
void eng_pgs_set_committed(struct eng_log_pg *pg, uint64_t committed);
/* Entries of a TAIL answer: per pg the pending ones, then its mark. NULL: no memory. */
struct eng_buf *eng_pgs_tail(const struct eng_pgs *pgs, uint32_t *count);

/*
 * A repeated APPEND of what is here already. One that is still on its way is appended again, which
 * does no harm.
 */
bool eng_append_have(const struct eng_pgs *pgs, const struct eng_op *op);

#endif
