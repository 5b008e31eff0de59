/*
 * walk.h - the names of some placement groups as several drives have them, side by side and in
 * order (private to the upkeep).
 */
#ifndef MILLRACE_ENGINE_WALK_H
#define MILLRACE_ENGINE_WALK_H

#include "engine/base/store.h"

/* One name. Pointers are valid until the next call. */
struct eng_walk_row {
        const uint8_t *name;
        uint16_t name_len;
        eng_mask have;                 /* drives that gave it */
        const struct eng_scan_entry *of[ENG_DRIVES_MAX]; /* by slot, of those */
};

/* One drive's part. owner: the walk's loop; op: the drive while out */
struct eng_walk_source {
        struct eng_walk *walk;
        unsigned slot;
        struct eng_op op;
        uint64_t *pgs;                 /* groups it is asked for; NULL: the drive has no part in the walk */
        struct eng_buf *page;
        const uint8_t *next;           /* entry */
        unsigned left;                 /* entries from there */
        bool more;
        unsigned tries;                /* of the page that it is asked for: answered 'try again' */
};

/* owner: one loop */
struct eng_walk {
        struct eng_store *store;
        struct eng_loop *el;
        void (*ready)(void *arg);
        void *arg;
        unsigned page;                 /* entries that a drive is asked for at a time */
        eng_mask drives;
        eng_mask failed;               /* could not be read: nothing more of them comes */
        int error;                     /* of the last that failed */
        struct eng_name at, to;        /* the last name given; where the range ends */
        bool after;                    /* at has been given */
        unsigned out;                  /* scans */
        struct eng_walk_source *source[ENG_DRIVES_MAX];
};

/*
 * ready(arg) comes on this loop, never from inside a call, when what eng_walk_next() waited for is
 * there. NULL: no memory.
 */
struct eng_walk *eng_walk_new(struct eng_loop *el, unsigned page, void (*ready)(void *arg), void *arg);
/*
 * The groups that this drive is to be asked for: a bitmap of pg_words words, to be filled. Nothing
 * is under way. NULL: no memory.
 */
uint64_t *eng_walk_groups(struct eng_walk *walk, unsigned slot);
/* No drive is asked any more. Nothing is under way. */
void eng_walk_forget(struct eng_walk *walk);
/*
 * Names in [from, to), from exclusive if after. Nothing is under way. What failed before is asked
 * again.
 */
void eng_walk_begin(struct eng_walk *walk, const struct eng_name *from, bool after, const struct eng_name *to);
/* 1: row is the next name; 0: that was the last; -EAGAIN: drives are being asked. */
int eng_walk_next(struct eng_walk *walk, struct eng_walk_row *row);
/* Some of these drives lack the name, or have it differently. */
bool eng_walk_differs(const struct eng_walk_row *row, eng_mask asked);
/* Nothing is under way, or all drives are closed. */
void eng_walk_free(struct eng_walk *walk);

#endif
