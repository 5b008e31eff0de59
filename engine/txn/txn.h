/*
 * txn.h - changes of one key, lookups with a pin, and what is deleted later. Primary loop of the
 * key, unless a function says otherwise.
 */
#ifndef MILLRACE_ENGINE_TXN_H
#define MILLRACE_ENGINE_TXN_H

#include "engine/base/store.h"

/* Members that must say that a name is not there before something that is found damaged, or was
 * written in vain, goes for it. */
#define ENG_ABSENT_SURE 2u

/* ---- what members say of a name (words.c) --------------------------------------------------- */

/* Members of its group that were asked for a name, and have not given it. owner: primary loop */
struct eng_words {
        unsigned slot;                 /* asked last */
        eng_mask members;              /* that spoke and were up when it began */
        eng_mask asked;
        eng_mask said;                 /* of those: what they have, or have not; not those that could not answer */
        eng_mask absent;               /* of those: it is not there */
        eng_mask damaged;              /* what is there cannot be read */
};
/* Nobody was asked yet. */
void eng_words_begin(struct eng_words *words, const struct eng_view *view, uint32_t pg);
/* The member asked last answers rv: 0 where it has the name. */
void eng_words_take(struct eng_words *words, const struct eng_view *view, uint32_t pg, int rv);
/* Whether so many members have said something, or all that speak and are up where these are fewer. */
bool eng_words_heard(const struct eng_words *words, const struct eng_view *view, uint32_t pg, unsigned wanted);
/*
 * Whether members without a name outvote those that have it, or may: the one rule by which it is
 * not there. In a tie it is, since nothing is deleted on one member's word (I6).
 */
bool eng_outvoted(eng_mask have, eng_mask absent);
/*
 * Whether that is so by what has been said, whatever all others have that speak and are up, or did
 * when it began: one that failed meanwhile may have had it.
 */
bool eng_words_absent(const struct eng_words *words, const struct eng_view *view, uint32_t pg);
/* Whether more than one member says that it is absent. */
static inline bool eng_words_sure(const struct eng_words *words)
{
        return __builtin_popcountll(words->absent) >= (int)ENG_ABSENT_SURE;
}
/*
 * The answer when nobody is left to be asked, and the name is not absent: -EIO if none of them can
 * be read, else -EHOSTDOWN. Members that contradict each other are compared by the upkeep.
 */
int eng_words_unsure(struct eng_loop *el, uint32_t pg, const struct eng_words *words);

/* ---- transactions (txn.c) -------------------------------------------------------------------- */

enum eng_txn_state {
        ENG_TXN_POSTED,  /* on its way to the primary loop */
        ENG_TXN_PARKED,  /* waits for its bucket, which is being closed */
        ENG_TXN_LOCKING, /* waits for its key */
        ENG_TXN_PREPARE, /* reads what it depends on, then builds the record */
        ENG_TXN_APPEND,  /* record on its way to stable storage on every member */
        ENG_TXN_COMMIT,  /* stable: being made visible on every member */
        ENG_TXN_ANSWER   /* result on its way home */
};

/*
 * The operations of one txn on all members: first its appends, then its commits. Freed when the
 * last has come back, which may be after the txn was answered (a drive that hangs). owner: primary
 * loop
 */
struct eng_fan {
        struct eng_loop *at;
        struct eng_txn *txn;           /* NULL once the txn went on without it */
        struct eng_buf *body;
        unsigned out, members;         /* members: until they are sent, room for so many */
        struct eng_fan_op {
                struct eng_op op;
                struct eng_fan *fan;
                struct eng_drive *drive; /* it was sent to: that of the slot then */
                unsigned slot;
        } ops[];                       /* 2 * members */
};

/*
 * One atomic change of one key, run by the key's primary. The home loop fills the upper part and
 * calls eng_txn_submit(); done() comes on the home loop. prepare() runs on the primary loop with
 * the key locked; it may submit lookups (eng_txn_lookup) and ends in exactly one of
 * eng_txn_append() or eng_txn_finish(). If it sets `then` before eng_txn_append(), the record is the
 * first of two: once it is committed then() goes on like prepare(), with the key still locked. A
 * failure of the first one ends the txn.
 */
struct eng_key_look;
struct eng_txn {
        /* owner: home, until submit and from done */
        struct eng_store *store;
        struct eng_loop *home;
        uint32_t pg;
        uint64_t bucket;
        bool internal;                 /* the store's own: of a bucket that is closing, or gone, too */
        bool moves;                    /* says nothing new but where shards are: as many members are enough as have what it takes the place of */
        void (*prepare)(struct eng_txn *txn);
        void (*then)(struct eng_txn *txn);
        void (*done)(struct eng_txn *txn);
        int result;
        bool counts;                   /* done: it took effect, whether or not the result says so: the store goes by this, and a client by the result */
        bool appended;                 /* the (last) record may have reached a log: its shards must not be discarded */
        uint16_t key_len;
        uint8_t key[ENG_KEY_MAX];

        /* owner: primary loop */
        enum eng_txn_state state;
        uint64_t request;              /* that it is of (loop_trace.h) */
        struct lp_msg msg;
        struct eng_loop *at;
        struct eng_key_lock *lock;
        TAILQ_ENTRY(eng_txn) lock_link, pg_link, loop_link; /* loop_link: while in el->leader.appended */
        struct eng_body body;
        uint16_t record_type;
        uint32_t inline_len, body_crc;
        uint64_t seq, started, append_began; /* lp_now() when it arrived; lp_clock() */
        uint64_t append_number;        /* among those of its loop */
        bool held;                     /* numbered, but appends wait for the end of an epoch change */
        eng_mask sent, waiting;        /* drives the record was sent to; those that have not answered */
        eng_mask holders;              /* members that had it when it was committed */
        struct eng_fan *fan;
        struct eng_op lookup;
        struct eng_words words;        /* of the last lookup */
        struct eng_name name;
        void (*looked_up)(struct eng_txn *txn, int rv);
        unsigned lookup_flags;
        unsigned lookup_wanted, lookup_found; /* members that are to have it; that had it */
        struct eng_key_look *look;     /* object/key_rows.h's own: what is being looked up */
        struct eng_buf *unread;        /* value the last lookup found, its bytes damaged; or NULL */
        struct eng_buf *old;           /* answer of the last lookup */
        struct eng_buf *old_bytes;
};
void eng_txn_submit(struct eng_txn *txn);
/*
 * On its loop: changes that waited for this bucket are admitted, or refused, by what is known of it
 * now.
 */
void eng_txn_unpark(struct eng_config_bucket *bucket);
/* Looks txn->name up on members, one after the other; looked_up() gets 0 (txn->old set), -ENOENT or
 * what eng_words_unsure() says. */
void eng_txn_lookup(struct eng_txn *txn, unsigned flags, void (*looked_up)(struct eng_txn *txn, int rv));
/*
 * The same for a value that a record is built from, which would make one member's old row
 * everybody's: two members are asked where two speak, and the higher number counts. -EHOSTDOWN if
 * one of them could not answer, or has a newer value whose bytes it cannot read.
 */
void eng_txn_lookup_newest(struct eng_txn *txn, unsigned flags, void (*looked_up)(struct eng_txn *txn, int rv));
/* The same of all members that speak: for what may be protected, and for what is copied to others. */
void eng_txn_lookup_all(struct eng_txn *txn, unsigned flags, void (*looked_up)(struct eng_txn *txn, int rv));
/*
 * After a lookup of all that found something: one member alone has it, and another has what nobody
 * knows, since it cannot be read.
 */
bool eng_txn_may_be_newer(const struct eng_txn *txn);
void eng_txn_append(struct eng_txn *txn);
/* The loops have stopped around it: frees what it has in flight. */
void eng_txn_abandon(struct eng_txn *txn);
void eng_txn_finish(struct eng_txn *txn, int result);
/*
 * The sequence number the record will have; valid in prepare (the key's PG may number others
 * meanwhile, so: take, then append at once).
 */
uint64_t eng_txn_take_seq(struct eng_txn *txn);
/* A drive has failed or an epoch came into force: looks at what waits for it. On each loop. */
void eng_txn_view_changed(struct eng_loop *el);
/* It says something. */
static inline bool eng_condition_asks(const struct eng_condition *c)
{
        return c->if_absent || c->if_etag || c->if_present || c->if_mtime || c->if_size;
}
/* Checks a condition against the value present (NULL: none). */
int eng_condition_check(const struct eng_condition *condition, const struct eng_buf *present);
/* Any member of a PG fit for reading, not in tried, the one owned by this loop first; -1: none. */
int eng_pg_reader(struct eng_loop *el, uint32_t pg, eng_mask tried);

/* ---- lookups with a pin (lookup.c) ----------------------------------------------------------- */

/* Which row a lookup is for. A key's rows: docs/design/versions.md. */
enum eng_lookup_which {
        ENG_LOOKUP_NAME,    /* the one of this name */
        ENG_LOOKUP_NEWEST,  /* name is an object's: the plain object, or the newest version */
        ENG_LOOKUP_NULL,    /* name is an object's: the plain object, or the null version */
        ENG_LOOKUP_VERSION  /* name is a version's, whose random bytes must be these */
};

struct eng_lookup {
        /* owner: home */
        struct eng_store *store;
        struct eng_loop *home;
        uint32_t pg;
        unsigned flags;                /* ENG_OP_WANT_INLINE */
        bool pin;                      /* pin objects with shards until eng_unpin */
        enum eng_lookup_which which;
        uint8_t random[ENG_VERSION_RANDOM]; /* ENG_LOOKUP_VERSION */
        struct eng_name name;          /* answer: of the row that was found */
        void (*done)(struct eng_lookup *lookup);
        int result;
        struct eng_buf *value, *bytes; /* owned by the receiver of done */
        bool pinned;
        /* owner: primary loop */
        struct lp_msg msg;
        struct eng_loop *at;
        struct eng_op op;
        struct eng_words words;
        TAILQ_ENTRY(eng_lookup) link;  /* at->leader.lookups, while counted */
        uint64_t number;               /* among those of its primary; in a home store, of its pin */
        bool counted;
        unsigned heads;                /* met so far: one whose version is gone was read too early */
        eng_mask doubted;              /* members that gave such heads: asked again only after the others */
        unsigned head_slot;            /* that gave the last one */
        eng_mask mute;                 /* members that were passed over since their nodes say nothing (ENG_OP_OTHERS) */
        bool waits;                    /* for those: the others could not tell */
};
void eng_lookup_start(struct eng_lookup *lookup);
/* Names the row to be looked up: of the key's newest version (NULL), or of that one. */
void eng_lookup_which(struct eng_lookup *lookup, uint64_t bucket, struct eng_str key, const struct eng_version *version);
/*
 * Home loop: lets go of the pin a lookup took. lookup is used as the message and freed by
 * free_it(lookup) on the primary loop.
 */
void eng_unpin(struct eng_lookup *lookup, void (*free_it)(struct eng_lookup *lookup));
/* The number of the oldest lookup under way at this primary that pins what it finds; UINT64_MAX: there is none. */
uint64_t eng_lookups_since(const struct eng_loop *el);
/* lookup_home.c: the same in a home store: its leader looks it up, and pins. */
void eng_home_lookup(struct eng_lookup *lookup);
void eng_home_unpin(struct eng_lookup *lookup);

/* ---- discards (deferred_delete.c) ------------------------------------------------------------ */

/* Those that are named for its shards. */
eng_mask eng_part_drives(const struct eng_part *part);

/* From a drive, on its owner loop: values that died. */
void eng_deferred_superseded(void *arg, struct eng_drive *drive, struct eng_buf *const values[], unsigned n);
/* Home loop: the shards of an object id that was never named by a record, on these drives. */
void eng_discard(struct eng_store *store, const uint8_t id[FMT_ID], eng_mask drives);
/* Coordinator: the store is open. Any loop: for how long what a record has named is kept, if nobody is known to read it; ns. */
void eng_discards_open(struct eng_store *store);
uint64_t eng_discards_held(const struct eng_store *store);
/* The loop's view says ready: reports that came before are taken. */
void eng_deferred_ready(struct eng_loop *el);
void eng_deferred_tick(struct lp_timer *timer);
/*
 * The primary loop of its group, with the key locked: members that had reported this value dead are
 * given it back. What they said counts no more.
 */
void eng_deferred_keep(struct eng_loop *el, const uint8_t id[FMT_ID]);
void eng_deferred_free(struct eng_loop *el);

#endif
