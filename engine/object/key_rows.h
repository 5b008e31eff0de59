/*
 * key_rows.h - which rows a key has (docs/design/versions.md): looked up for a change, also where
 * the key's OBJECT row cannot be read, and searched for one version. The primary loop of the key,
 * with the key locked.
 */
#ifndef MILLRACE_ENGINE_KEY_ROWS_H
#define MILLRACE_ENGINE_KEY_ROWS_H

#include "engine/txn/txn.h"

/* ---- what its OBJECT row says ---------------------------------------------------------------- */

enum eng_key_state {
        ENG_KEY_NONE,                  /* there is none */
        ENG_KEY_PLAIN,                 /* a plain object */
        ENG_KEY_VERSIONS               /* a head: versions has what it says */
};
struct eng_key_rows {
        enum eng_key_state state;
        bool marker;                   /* the newest version is a delete marker */
        bool unread;                   /* PLAIN: it, or its inline bytes, cannot be read: it can only be replaced */
        struct fmt_head versions;
};
/* After a lookup of the OBJECT row that ended with rv 0 or -ENOENT. */
struct eng_key_rows eng_key_rows_of(const struct eng_txn *txn, int rv);

/*
 * The rules of the txn's bucket, as its primary knows them now. A bucket with object lock has
 * versioning enabled, whatever else its rules say. -EIDRM: there is no such bucket.
 */
int eng_txn_rules(const struct eng_txn *txn, struct eng_bucket_rules *out);
/* -ENOSPC if the store is full: the change leaves more bytes than there were. */
int eng_txn_grows(const struct eng_txn *txn);

/* Whether a value asks for retention or a hold. */
bool eng_value_is_protected(const struct eng_buf *value);
/* Whether a version may be deleted or overwritten now. -EACCES: it is protected. */
int eng_version_unprotected(struct eng_store *store, const struct eng_buf *value, bool bypass_governance);

/* ---- one version among all (key_scan.c) ------------------------------------------------------ */

enum eng_key_scan_for {
        ENG_SCAN_NEWEST,               /* the newest version, that of number `skip` left out */
        ENG_SCAN_HEAD,                 /* what the key's head would say: the newest and the null version */
        ENG_SCAN_UPLOAD                /* the version that this upload made, among the newest ones */
};
/*
 * Goes through a key's VERSION rows on two members where two speak. A row that only one of them has
 * counts; but of those above `skip`, which the key's head says is the newest, only such as most of
 * them have.
 */
struct eng_key_scan {
        enum eng_key_scan_for what;
        uint64_t skip;                 /* NEWEST */
        uint8_t upload_id[FMT_ID];     /* UPLOAD */
        /*
         * 0; -ENOENT: members agree that there is none; -EHOSTDOWN: nobody can tell. May be called
         * from inside eng_key_scan_start().
         */
        void (*done)(struct eng_key_scan *scan, int rv);
        /* answer */
        struct fmt_head head;          /* newest: the number of what was found. HEAD: all of it */
        struct eng_buf *value;         /* of that version: a fmt_value alone. The caller's */
        /* private */
        struct eng_txn *txn;
        struct eng_op op;
        struct eng_name from, to;
        struct eng_words words;
        unsigned answers, pages;
        struct eng_key_scan_found {
                uint64_t above, number;
                struct fmt_value above_value, value;
        } here, all;                   /* on the member that is asked; on those before */
        unsigned above_count;          /* members that have all.above */
};
void eng_key_scan_start(struct eng_key_scan *scan, struct eng_txn *txn);

/* ---- looking it up for a change (key_rows.c) ------------------------------------------------- */

struct eng_key_look {
        struct eng_bucket_rules rules; /* that the change is decided by: set before eng_key_look() */
        struct eng_key_rows rows;      /* answer */
        /* private */
        struct eng_txn *txn;
        struct eng_key_scan scan;
        void (*done)(struct eng_txn *txn, int rv);
        int result;
};
/*
 * Looks the key's OBJECT row up, on two members where the bucket has versioning. done() gets 0, also
 * if there is none, or the error. If no member can read it, in a bucket with versioning, the VERSION
 * rows say what it must have been: a head, or an unread plain object.
 */
void eng_key_look(struct eng_key_look *look, struct eng_txn *txn, unsigned flags, void (*done)(struct eng_txn *txn, int rv));
/* The condition of a change, after eng_key_look(). */
int eng_key_condition(const struct eng_key_look *look, const struct eng_condition *condition);
/* There is an object, and no delete marker stands for it. */
bool eng_key_is_present(const struct eng_key_rows *rows);
/*
 * Before a new version is put, or a plain object is overwritten: done() gets 0 if what dies by it is
 * not protected. It is the null version where versioning is not enabled, and a plain object that
 * cannot be read. An unread one counts as none then. txn->old is lost.
 */
void eng_key_may_replace(struct eng_key_look *look, void (*done)(struct eng_txn *txn, int rv));
/* A change of the object is a new version. */
static inline bool eng_key_makes_version(const struct eng_key_look *look)
{
        return look->rules.versioning == ENG_VERSIONING_ENABLED || look->rows.state == ENG_KEY_VERSIONS;
}

#endif
