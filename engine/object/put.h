/*
 * put.h - one upload in progress (private to put*.c; unit tests look inside).
 */
#ifndef MILLRACE_ENGINE_PUT_H
#define MILLRACE_ENGINE_PUT_H

#include "engine/base/store.h"
#include "engine/record/stripe.h"

enum put_state {
        PUT_BODY,   /* bytes arrive */
        PUT_CALLED, /* commit was called, its message is on its way: what comes back meanwhile waits for it */
        PUT_FLUSH,  /* the last units and parity are on their way */
        PUT_SYNC,   /* shards are being made durable */
        PUT_RECORD, /* the record is with the key's primary */
        PUT_ABORT,  /* waits for its I/O to come back */
        PUT_DONE
};

/* Bytes of an upload, in a slot or a buffer of its own, that are to be hashed. owner: home loop */
struct put_piece {
        struct eng_put *put;
        uint64_t began;                /* lp_clock() */
        struct put_write *written;     /* NULL, or the slot goes back when it is hashed, and written */
        struct eng_hash_piece hash;
};

/*
 * A frame on its way to a drive, or a unit that no drive takes and is only hashed. owner: home
 * loop; op: the drive while out
 */
struct put_write {
        struct eng_op op;
        struct eng_put *put;
        struct put_piece piece;        /* of a data unit */
        unsigned users;                /* the drive, the hasher */
        unsigned slot_no;              /* of the drive */
        struct eng_drive *drive;
        uint64_t stale_until;          /* lp_now(): the drive has an epoch that this loop has not, which is waited for; 0: it has not said so */
        struct lp_timer stale;
        TAILQ_ENTRY(put_write) stale_link; /* el->home.stale_writes */
};

struct put_sync {
        struct eng_op op;
        struct eng_put *put;
        struct eng_drive *drive;
        unsigned slot_no;
};

/* What has taken shards of an upload, on a slot. */
struct eng_proof {
        const struct eng_drive *drive; /* NULL: none yet */
        uint64_t incarnation;
        uint8_t drive_id[FMT_ID];      /* that the slot had then: the leader names no other */
};

/* A slot whose bytes are being brought by somebody else. owner: home loop */
struct put_lent {
        void *slot;
        uint32_t len;
        void *parity[ERA_MAX_M];       /* of the stripe that begins with it; else NULL */
};
#define PUT_LENT_MAX 8u

/* owner: home loop */
struct eng_put {
        uint64_t key_hash;             /* eng_hash_of_key() */
        struct eng_store *store;
        struct eng_loop *el;
        TAILQ_ENTRY(eng_put) link;     /* el->home.puts */
        struct eng_put_params params;
        char key[ENG_KEY_MAX];
        enum put_state state;
        uint64_t request;              /* that it is of (loop_trace.h) */
        int error;                     /* the first; ends the put */
        bool striped, waiting;
        uint64_t no_room;              /* lp_clock() since when it has to wait for slots of its own; 0: it has not */
        uint64_t step_began;           /* lp_clock(): of PUT_FLUSH, PUT_SYNC */
        uint64_t taken;                /* bytes */
        struct eng_hash_stream md5;    /* if params.md5 */
        struct put_piece rest[2];      /* behind the last full unit */
        bool md5_ends;                 /* nothing is to come */
        uint8_t id[FMT_ID];

        struct eng_buf *head_buf;      /* what holds the head; of a small object it goes with the record */
        uint8_t *head;                 /* bytes before (or instead of) the first stripe */
        size_t head_len, head_cap, head_at;

        struct lp_reserve reserve;
        bool reserved, granted;        /* stands in line or holds slots; holds them */
        unsigned used;                 /* slots drawn from the reservation */
        unsigned k, m, need;           /* need: shards of a run that must be stable */
        const struct era_code *code;
        uint32_t unit, stripe_unit, last_unit, fill, stripe;
        unsigned unit_no;
        bool in_stripe;
        void *current, *parity[ERA_MAX_M];
        uint16_t *drives;              /* runs x (k+m) */
        unsigned runs, in_flight;
        eng_mask touched;              /* drives that were sent something */
        struct eng_proof *proofs;      /* of a home store's: by slot, what took its shards; else NULL */
        uint64_t epoch;                /* in which it began: a drive that came later has nothing of it */
        eng_mask leaving;              /* drives that were already to leave then */
        struct put_sync *syncs;

        struct put_lent lent[PUT_LENT_MAX]; /* a ring */
        unsigned lent_first, lent_count;
        uint64_t lent_to;              /* bytes of the upload up to which places were lent */
        uint32_t lent_stripe;          /* of the next one */
        unsigned lent_unit;

        struct eng_put_commit commit;
        uint8_t *commit_attrs;
        struct eng_fields commit_fields; /* of its extras */
        uint32_t commit_state;         /* enum fmt_value_state, of them */
        eng_put_done done;
        void *done_arg;
        struct lp_msg msg;
};

static inline unsigned eng_put_shards(const struct eng_put *put)
{
        return put->k + put->m;
}

void eng_put_wake(struct eng_put *put);
/* What counted in in_flight is back. */
void eng_put_back(struct eng_put *put);

/* ---- put_stripe.c ---------------------------------------------------------------------------- */

/*
 * Stands in line for slots, or has them. One that is not striped needs one, to have its bytes
 * brought there (put_buffer.c).
 */
int eng_put_reserve(struct eng_put *put);
void eng_put_unreserve(struct eng_put *put);
/* NULL: it holds as many as it has reserved, or none is granted yet. */
void *eng_put_take_slot(struct eng_put *put);
void eng_put_drop_slot(struct eng_put *put, void *slot);
/*
 * It has so many left. False: wait for what is out, as eng_put_md5_wait() says where it only is to
 * be hashed.
 */
bool eng_put_has_slots(struct eng_put *put, unsigned count);
/* Slots of what never went to a drive. */
void eng_put_drop_unwritten(struct eng_put *put);
/*
 * Another drive, or the same opened again, is in the slot since: what was written there before is
 * not to be relied on.
 */
bool eng_put_is_new(const struct eng_put *put, unsigned slot);
/* Drives that its runs name. */
eng_mask eng_put_named(const struct eng_put *put);
/* Shards on this drive are lost to the upload: it goes on while enough of each run are left. */
void eng_put_lose_drive(struct eng_put *put, unsigned slot);
int eng_put_buffer_run(struct eng_put *put, unsigned run);
uint32_t eng_put_unit_of(const struct eng_put *put, uint32_t stripe);
/* The next stripe begins; its parity is seen to by the caller. */
int eng_put_begin_stripe(struct eng_put *put);
/* The current unit, full or the last one, is on its way. */
void eng_put_flush_unit(struct eng_put *put);
/* So is the parity of the stripe. */
void eng_put_end_stripe(struct eng_put *put);
/* Copies into the current unit as far as slots go. */
ssize_t eng_put_write_striped(struct eng_put *put, const uint8_t *data, size_t len);

/* ---- put_buffer.c ---------------------------------------------------------------------------- */

/* What is lent and never came. */
void eng_put_drop_lent(struct eng_put *put);

/* ---- put_value.c ----------------------------------------------------------------------------- */

/* NULL: no memory. */
struct eng_buf *eng_put_value(struct eng_put *put, uint32_t pg);

/* ---- put_md5.c ------------------------------------------------------------------------------- */

/*
 * The first len bytes of w's payload come next. They stay until eng_put_write_done() was called and
 * they are hashed.
 */
void eng_put_md5_add(struct eng_put *put, struct put_write *w, size_t len);
/* The drive, or who made it, is done with w. */
void eng_put_write_done(struct eng_put *put, struct put_write *w);
/*
 * Some bytes are not hashed yet, and put->waiting: eng_put_wake() will be called. False: all are.
 */
bool eng_put_md5_wait(struct eng_put *put);
/* What is out is to come back soon. */
void eng_put_md5_hurry(struct eng_put *put);

#endif
