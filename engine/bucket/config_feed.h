/*
 * config_feed.h - the configuration for those who keep a copy of it in another process: which row of it
 * changed, in order, and rows as bytes (docs/design/any-gateway.md). Coordinator.
 *
 * A row is a bucket, a text of one, or an entry of the store. The feed says which rows changed, and not
 * what they were: who reads it gets each row as it is when it is read. Rows only go forward, so one that
 * is read twice, or newer than its place in the feed, is as right as any.
 */
#ifndef MILLRACE_ENGINE_BUCKET_CONFIG_FEED_H
#define MILLRACE_ENGINE_BUCKET_CONFIG_FEED_H

#include "engine/base/store.h"

#define ENG_FEED_ITEMS   4096u          /* that the feed remembers */
#define ENG_FEED_READERS 1024u
#define ENG_ROW_MAX      (ENG_TEXT_MAX + 4096u) /* bytes of a row */

enum eng_row_what {
        ENG_ROW_BUCKET = 1,
        ENG_ROW_TEXT,
        ENG_ROW_CLOCK                   /* the lock clock was moved: nothing is in it, and who has this version has the time */
};
struct eng_row_key {
        enum eng_row_what what;
        uint8_t kind;                   /* of a text or entry */
        uint64_t id;                    /* of the bucket, or of the entry */
};

/* changed() is called behind each change; and where something else that copies go by may be another. */
void eng_feed_watch(struct eng_store *store, void (*changed)(void *arg), void *arg);
void eng_feed_tell(struct eng_store *store);
/* Before the store is started. False: no memory. */
bool eng_feed_make(struct eng_store *store);
void eng_feed_free(struct eng_store *store);
/* Changes so far in this run. */
uint64_t eng_feed_version(const struct eng_store *store);
/* All loops have this row as it is now: the change is one more. */
void eng_feed_add(struct eng_store *store, const struct eng_row_key *row);
/*
 * The change behind *version, which is changed to it. 0; -ENOENT: there is none; -ESTALE: it is not
 * remembered, and all rows are to be read anew.
 */
int eng_feed_next(const struct eng_store *store, uint64_t *version, struct eng_row_key *row);

/* ---- all rows ---- */

/* Where a reading of all rows stands; zeroes: at the beginning. */
struct eng_row_cursor {
        unsigned phase;
        char after[ENG_BUCKET_NAME_MAX + 1]; /* the last bucket */
        bool begun;                     /* of that bucket the texts up to `kind` were given */
        unsigned kind;
        uint32_t position;              /* in the entries */
        unsigned given;                 /* of the entries there, ... */
        uint64_t version;               /* ... as they were at this version: else they are given again */
};
/* The next row: 1; 0: those were all. Rows that change meanwhile are given, or left to the feed. */
int eng_row_next(const struct eng_store *store, struct eng_row_cursor *cursor, struct eng_row_key *row);

/* ---- rows as bytes ---- */

/* A row that was read. */
struct eng_row {
        struct eng_row_key key;
        bool there;                     /* else it is gone */
        struct eng_bucket bucket;       /* ENG_ROW_BUCKET */
        bool damaged;                   /* ENG_ROW_TEXT, like the next: nobody has it whole */
        uint64_t generation;
        struct eng_str bytes;           /* in what was read */
};
/* As it is now, into memory of ENG_ROW_MAX bytes: their number. */
size_t eng_row_put(const struct eng_store *store, const struct eng_row_key *key, uint8_t *out);
/* Any thread. The row at *at, which goes on behind it. -EBADMSG. */
int eng_row_get(const uint8_t *bytes, size_t len, size_t *at, struct eng_row *out);

/* ---- who waits for whom ---- */

/* A copy elsewhere. Its owner's, until it is detached. */
struct eng_feed_reader {
        uint64_t has;                   /* version that it is known to have */
        uint64_t until;                 /* lp_now() of the coordinator: from then on it believes its copy no more */
        LIST_ENTRY(eng_feed_reader) link;
};
void eng_feed_attach(struct eng_store *store, struct eng_feed_reader *reader);
void eng_feed_detach(struct eng_store *store, struct eng_feed_reader *reader);
/*
 * Readers are detached from now on though they may believe what they have: no change that waits for them is answered any more.
 * What became of it is known to whoever leads next. Until eng_feed_strangers().
 */
void eng_feed_freeze(struct eng_store *store);
/* has or until have changed. */
void eng_feed_read(struct eng_store *store, struct eng_feed_reader *reader);
/*
 * For so long readers that nobody here knows of may believe what they have, too, those of a leader before: from now on, or from
 * when the store is open. Before that a leader may be at work which goes on telling them.
 */
void eng_feed_strangers(struct eng_store *store, uint64_t ns);
/* The store is open from now on. */
void eng_feed_open(struct eng_store *store);

/* A change that is to be answered when all readers have it. */
struct eng_feed_wait {
        uint64_t version;
        void (*done)(struct eng_feed_wait *wait);
        STAILQ_ENTRY(eng_feed_wait) link;
};
/* done() comes once, later, or from inside where nobody is waited for. */
void eng_feed_wait(struct eng_store *store, struct eng_feed_wait *wait);
/* The store is closed: all are done. */
void eng_feed_stop(struct eng_store *store);

#endif
