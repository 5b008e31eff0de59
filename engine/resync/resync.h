/*
 * resync.h - one name made the same on the members of its group, with its key locked.
 */
#ifndef MILLRACE_ENGINE_RESYNC_H
#define MILLRACE_ENGINE_RESYNC_H

#include "engine/object/key_rows.h"

/*
 * Makes one name on a drive that catches up (or, to repair it, on a member) equal to what current
 * members have, with the name's key locked. result: 0 (copied says whether anything had to be
 * written), or what kept it from being done: it may be tried again.
 */
struct eng_resync {
        /* owner: coordinator, until eng_resync_start and from done */
        struct eng_txn txn;
        unsigned slot;
        struct eng_name name;
        bool repair;                   /* the drive is a member whose copy is damaged: it is copied if it is found so, its bytes included */
        bool copied;
        void (*done)(struct eng_resync *resync);
        void *arg;
        /* owner: primary loop */
        struct eng_op op;
        struct eng_drive *drive;       /* that op is asked of, in slot */
};
/* -EBADMSG: no name of ours. */
int eng_resync_start(struct eng_store *store, struct eng_resync *resync);
/*
 * Appends a COPY record of the name's group to one drive, with the key locked; op->append.body is the
 * caller's, to be released by done. The record says what is committed: else a start that finds the
 * name's last record pending takes it for newer.
 */
void eng_copy_append(struct eng_txn *txn, struct eng_op *op, unsigned slot, struct eng_buf *body, size_t inline_len, uint64_t seq,
                     void (*done)(struct eng_op *op));

/*
 * Makes a name say the same on all members that speak for its group, with its key locked (agree.c).
 * txn.result: 0, or what kept it from being done: it may be tried again.
 */
struct eng_agree {
        /* owner: coordinator, until eng_agree_start and from done */
        struct eng_txn txn;
        struct eng_name name;
        void (*done)(struct eng_agree *agree);
        bool differed;                 /* answers */
        unsigned repaired;             /* copies written */
        /* owner: primary loop */
        struct eng_op op;
        unsigned slot;                 /* being asked, or written to */
        struct eng_drive *drive;       /* that is written to */
        eng_mask asked, same, other, absent, damaged, change;
        bool keep;                     /* the name is to be there */
        bool head_asked, head_denies;  /* of a version: its key's head was looked up; it says that there is no such version */
        bool versions_asked, has_versions; /* of a head that most members lack: versions of its key were looked for; are there */
        struct eng_key_scan next;      /* the newest version that is left, where the head names one that is gone */
        uint64_t seq;                  /* of the value */
        struct eng_buf *value, *bytes; /* that counts, and its inline bytes */
        struct eng_buf *unread;        /* the newest of those whose inline bytes are damaged */
};
/*
 * When done: what members have could not be made equal, or nobody can tell yet whether the name is
 * there.
 */
static inline bool eng_agree_left(const struct eng_agree *agree)
{
        return agree->txn.result != 0 || (agree->repaired == 0 && (agree->differed || agree->damaged != 0));
}
/* -EBADMSG: no name of ours. */
int eng_agree_start(struct eng_store *store, struct eng_agree *agree);
/* The loops have stopped around it. */
void eng_agree_drop(struct eng_agree *agree);

#endif
