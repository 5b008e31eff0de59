/*
 * verify.c - reads everything there is and reports: every replica of every record's value, every shard of every object and part. What it finds
 * damaged or missing on a drive that is in is written anew from the others.
 *
 * A scrub (scrub.c) reads names and small objects, and asks drives for the shards that they hold: bytes of shards are read drive by drive
 * (scrub_drive.c).
 *
 * Walks drive by drive on the coordinator, one read at a time, so that it takes little from who is served. Metadata is checked on each drive that holds
 * it; the shards of a value are read once, when the walk is on the PG's first member. What is amiss with a value counts only if the name still has that
 * value afterwards: else it was overwritten meanwhile. Parts of unfinished uploads are read, but not repaired.
 */
#include "engine/mend.h"
#include "engine/stripe.h"
#include "engine/txn_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 64u
#define BAD_MAX 256u                   /* shards of one object noted: of more a scrub has the repair ask drives, else the next verification finds them */
#define PACE_SLACK_NS (20ull * 1000 * 1000)
#define HELD_BYTES 256u                /* what asking for a shard counts as, of the rate */
#define AGAIN_NS (100ull * 1000 * 1000)
#define AGAIN_MAX 50u                  /* times a shard is asked for anew whose drive cannot look now */

/* owner: coordinator; ops: the drives while out */
struct eng_verify {
        struct eng_store *store;
        struct lp_msg msg;
        struct lp_reserve reserve;
        void (*then)(struct eng_verify *v); /* when the slot is there */
        void *slot;
        unsigned drive;                /* whose names are walked */
        struct eng_name from, to;
        uint64_t *pgs;                 /* groups that it speaks for: there may be names of others it is to forget */
        struct eng_op scan, lookup, read;
        struct eng_buf *page;
        const uint8_t *entry;          /* next entry of the page */
        uint32_t left;
        bool more;
        /* the value whose shards are being read */
        struct eng_buf *value;
        size_t part_pos;
        struct eng_part part;
        uint32_t stripe;
        unsigned shard, good, reading; /* reading: the drive */
        bool unreadable;
        unsigned unread;               /* of this stripe: shards of which nobody knows, since their drives could not look */
        uint8_t turned_away[ENG_DRIVES_MAX]; /* times that a drive could not look, one after the other */
        uint64_t damaged, missing;     /* of this value */
        struct eng_mend_bad *bad;      /* BAD_MAX */
        unsigned bad_count;
        struct eng_mend *mend;
        struct eng_fix fix;
        /* the other members' copies of the name */
        struct eng_op compare;
        unsigned comparing;            /* the drive that is asked */
        eng_mask compared;
        struct eng_agree agree;
        struct eng_verify_report report, *out; /* out: where it is published, under health_lock */
        /* a scrub's */
        uint64_t rate, read_bytes, started; /* bytes/s, 0: any; in this run */
        struct lp_timer timer;
        bool held_only;                /* shards are asked for, not read */
        bool stop;
        void (*ended)(void *arg, bool whole);
        void *arg;
};

static void granted(struct lp_reserve *reserve);
static void go_on(struct eng_verify *v);
static void next_drive(struct eng_verify *v);
static void next_page(struct eng_verify *v);
static void next_entry(struct eng_verify *v);
static void next_part(struct eng_verify *v);
static void next_shard(struct eng_verify *v);
static void compare_copies(struct eng_verify *v);
static void looked_up(struct eng_op *op);

static void publish(struct eng_verify *v)
{
        pthread_mutex_lock(&v->store->health_lock);
        *v->out = v->report;
        pthread_mutex_unlock(&v->store->health_lock);
}

static const struct eng_view *view(const struct eng_verify *v)
{
        return &v->store->loops[0].view;
}

static bool usable(const struct eng_verify *v, unsigned drive)
{
        return drive < v->store->drive_count && (view(v)->in & view(v)->up & eng_bit(drive)) != 0;
}

static void free_verify(struct eng_verify *v)
{
        free(v->bad);
        free(v->pgs);
        free(v);
}

void eng_verify_drop(struct eng_verify *v)
{
        if (v->store->coord->verify == v)
                v->store->coord->verify = NULL;
        lp_timer_stop(v->store->loops[0].loop, &v->timer);
        if (v->mend != NULL)
                eng_mend_drop(v->mend);
        eng_txn_abandon(&v->fix.txn);
        eng_txn_drop(&v->fix.txn);
        eng_agree_drop(&v->agree);
        eng_buf_unref(v->page);
        eng_buf_unref(v->value);
        free_verify(v);
}

static void drop_slot(struct eng_verify *v)
{
        struct lp_loop *loop = v->store->loops[0].loop;

        if (v->slot == NULL)
                return;
        lp_slot_put(loop, v->slot);
        lp_unreserve(loop, LP_SHARE_INTERNAL, 1);
        v->slot = NULL;
}

static void finish(struct eng_verify *v)
{
        void (*ended)(void *arg, bool whole) = v->ended;
        bool whole = v->drive == v->store->drive_count;
        void *arg = v->arg;

        drop_slot(v);
        v->report.running = false;
        v->report.ended_ms = lp_wall_ms();
        publish(v);
        eng_verify_drop(v);
        if (ended != NULL)
                ended(arg, whole);
}

/* ---- pace -------------------------------------------------------------------------------------------------- */

static void paced(struct lp_timer *timer)
{
        struct eng_verify *v = (struct eng_verify *)((char *)timer - offsetof(struct eng_verify, timer));

        v->then(v);
}

/* True if it is ahead of its rate: then() comes later. */
static bool is_ahead(struct eng_verify *v, void (*then)(struct eng_verify *v))
{
        struct lp_loop *loop = v->store->loops[0].loop;
        uint64_t due, spent;

        if (v->rate == 0)
                return false;
        due = v->read_bytes * 1000 / (v->rate / 1000000 + 1); /* ns */
        spent = lp_now(loop) - v->started;
        if (due <= spent + PACE_SLACK_NS)
                return false;
        v->then = then;
        v->timer.expired = paced;
        lp_timer_start(loop, &v->timer, due - spent);
        return true;
}

/* Takes the slot that shards are read into, and then goes on. */
static void take_slot(struct eng_verify *v, void (*then)(struct eng_verify *v))
{
        int rv;

        if (v->held_only) {
                then(v);
                return;
        }
        v->then = then;
        v->reserve.count = 1;
        v->reserve.share = LP_SHARE_INTERNAL;
        v->reserve.granted = granted;
        rv = lp_reserve(v->store->loops[0].loop, &v->reserve);
        if (rv == 0)
                granted(&v->reserve);
        else if (rv != -EAGAIN)
                finish(v);
}

/* ---- repairs ----------------------------------------------------------------------------------------------- */

static void mended(void *arg, int rv, struct eng_mend_written written)
{
        struct eng_verify *v = arg;

        v->mend = NULL;
        if (rv == 0 || rv == -ENODATA)
                v->report.repaired_shards += written.shards;
        v->bad_count = 0;
        take_slot(v, next_entry);
}

/* The slot is given back meanwhile: the repair needs its own, and must not wait for one that waits for it. */
static void repair(struct eng_verify *v)
{
        struct eng_mend_order order = {
                .name = &v->from, .filling = v->store->coord->filling, .bad = v->bad, .bad_count = v->bad_count};

        if (v->held_only && v->bad_count == BAD_MAX)
                order.filling = view(v)->in & view(v)->up; /* there may be more, which drives say as they did here */
        drop_slot(v);
        v->mend = eng_mend_start(v->store, &order, mended, v);
        if (v->mend == NULL)
                mended(v, -ENOMEM, (struct eng_mend_written){0});
}

/* Whether the name still has the value whose shards were read. */
static void looked_again(struct eng_op *op)
{
        struct eng_verify *v = (struct eng_verify *)((char *)op - offsetof(struct eng_verify, lookup));
        bool same = op->result == 0 && op->lookup.value->len >= sizeof(struct fmt_value) &&
                    memcmp(eng_value_head(op->lookup.value->data)->id, eng_value_head(v->value->data)->id, FMT_ID) == 0;

        eng_buf_unref(op->lookup.value);
        if (!same) {
                next_entry(v);
                return;
        }
        v->report.damaged_shards += v->damaged;
        v->report.missing_shards += v->missing;
        v->report.unreadable_objects += v->unreadable;
        if (v->bad_count > 0 && v->from.data[0] == FMT_SPACE_OBJECT)
                repair(v);
        else
                next_entry(v);
}

static void look_up(struct eng_verify *v, unsigned flags, void (*done)(struct eng_op *op))
{
        struct eng_op *op = &v->lookup;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_LOOKUP;
        op->flags = flags;
        op->epoch = view(v)->epoch;
        op->done = done;
        op->lookup.name = v->from.data;
        op->lookup.name_len = v->from.len;
        eng_drive_submit(v->store->members[v->drive].drive, op);
}

static void value_read(struct eng_verify *v)
{
        if (v->damaged + v->missing > 0 || v->unreadable)
                look_up(v, 0, looked_again);
        else
                next_entry(v);
}

/* ---- shards ------------------------------------------------------------------------------------------------ */

static void note_bad(struct eng_verify *v, int result)
{
        struct eng_mend_bad *bad = &v->bad[v->bad_count];

        v->damaged += result == -EBADMSG;
        v->missing += result != -EBADMSG;
        if (v->bad_count == BAD_MAX || (result != -EBADMSG && result != -ENOENT))
                return;
        v->bad_count++;
        memcpy(bad->id, v->part.head.id, FMT_ID);
        bad->stripe = v->stripe;
        bad->shard = (uint8_t)v->shard;
}

static void slot_left(struct lp_loop *home, void *slot)
{
        lp_slot_put(home, slot);
        lp_unreserve(home, LP_SHARE_INTERNAL, 1);
}

/*
 * The machine lacks memory or buffers: nothing is known of the shard. True: it is asked for again a little later. One that stays unread is neither damaged
 * nor missing; those behind it on that drive are asked for once each, until it answers again.
 */
static bool shard_waits(struct eng_verify *v, int result)
{
        if (result != -EAGAIN && result != -ENOMEM) {
                v->turned_away[v->reading] = 0;
                return false;
        }
        if (v->turned_away[v->reading] < AGAIN_MAX) {
                v->turned_away[v->reading]++;
                v->then = next_shard;
                v->timer.expired = paced;
                lp_timer_start(v->store->loops[0].loop, &v->timer, AGAIN_NS);
                return true;
        }
        v->report.shards++;
        v->report.unread_shards++;
        v->unread++;
        v->shard++;
        next_shard(v);
        return true;
}

static void shard_read(struct eng_op *op)
{
        struct eng_verify *v = (struct eng_verify *)((char *)op - offsetof(struct eng_verify, read));

        if (op->read.slot != NULL && shard_waits(v, op->result))
                return;
        v->report.shards++;
        v->read_bytes += op->read.len;
        if (op->result == 0) {
                v->good++;
                eng_digest_add(&v->report.digest[v->reading], op->read.object_id, op->read.stripe, op->read.shard,
                               (const uint8_t *)v->slot + LP_SLOT_HEADER, op->read.len);
        } else {
                note_bad(v, op->result);
        }
        v->shard++;
        if (op->read.slot != NULL) {
                next_shard(v);
                return;
        }
        v->slot = NULL; /* a drive that failed keeps it until its I/O has ended */
        take_slot(v, next_shard);
}

/* A shard that the drive knows to be damaged is as one that it does not hold. */
static void shard_asked_for(struct eng_op *op)
{
        struct eng_verify *v = (struct eng_verify *)((char *)op - offsetof(struct eng_verify, read));

        if (shard_waits(v, op->result))
                return;
        v->report.shards++;
        v->read_bytes += HELD_BYTES;
        if (op->result == 0 && (op->held.bits[0] & 1) != 0)
                v->good++;
        else
                note_bad(v, op->result != 0 ? op->result : -ENOENT);
        v->shard++;
        next_shard(v);
}

static void ask_for_shard(struct eng_verify *v, unsigned drive)
{
        struct eng_op *op = &v->read;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_HELD;
        op->epoch = view(v)->epoch;
        op->done = shard_asked_for;
        memcpy(op->held.object_id, v->part.head.id, FMT_ID);
        op->held.stripe = v->stripe;
        op->held.shard = (uint8_t)v->shard;
        op->held.count = 1;
        v->reading = drive;
        eng_drive_submit(v->store->members[drive].drive, op);
}

/* A data unit without a byte of the part is not stored: it counts as good. */
static bool is_stored(const struct eng_verify *v)
{
        return v->shard >= v->part.head.k || v->shard < eng_stripe_units(&v->part.head, v->stripe);
}

static void read_shard(struct eng_verify *v, unsigned drive)
{
        struct eng_op *op = &v->read;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_READ;
        op->epoch = view(v)->epoch;
        op->done = shard_read;
        memcpy(op->read.object_id, v->part.head.id, FMT_ID);
        op->read.stripe = v->stripe;
        op->read.shard = (uint8_t)v->shard;
        op->read.len = op->read.payload_len = eng_part_unit(&v->part.head, v->stripe);
        op->read.slot = v->slot;
        op->read.left = slot_left;
        v->reading = drive;
        eng_drive_submit(v->store->members[drive].drive, op);
}

static void next_shard(struct eng_verify *v)
{
        unsigned shards = (unsigned)v->part.head.k + v->part.head.m, drive;

        if (is_ahead(v, next_shard))
                return;
        while (v->stripe < eng_part_stripes(&v->part.head)) {
                for (; v->shard < shards; v->shard++) {
                        if (!is_stored(v)) {
                                v->good++;
                                continue;
                        }
                        drive = eng_part_drive(&v->part, v->stripe, v->shard);
                        if (usable(v, drive)) {
                                if (v->held_only)
                                        ask_for_shard(v, drive);
                                else
                                        read_shard(v, drive);
                                return;
                        }
                        v->report.shards++;
                        v->missing++;
                }
                v->unreadable |= v->good + v->unread < v->part.head.k;
                v->good = v->unread = 0;
                v->shard = 0;
                v->stripe++;
        }
        next_part(v);
}

static void next_part(struct eng_verify *v)
{
        int rv = eng_value_next_part(v->value->data, v->value->len, &v->part_pos, &v->part);

        if (rv == 1) {
                v->stripe = 0;
                v->shard = v->good = v->unread = 0;
                next_shard(v);
                return;
        }
        v->unreadable |= rv < 0;
        value_read(v);
}

/* ---- names --------------------------------------------------------------------------------------------------- */

static bool is_first_member(const struct eng_verify *v, uint32_t pg)
{
        return pg < v->store->pg_count &&
               eng_placement_first(view(v)->map, pg, view(v)->in & view(v)->up) == (int)v->drive;
}

static void fixed(struct eng_fix *fix)
{
        struct eng_verify *v = (struct eng_verify *)((char *)fix - offsetof(struct eng_verify, fix));

        v->report.repaired_shards += fix->txn.result == 0 && fix->copied;
        next_entry(v);
}

/* This drive's copy of a name, or its bytes, are damaged. */
static void copy_is_bad(struct eng_verify *v)
{
        v->report.damaged_shards++;
        v->fix.slot = v->drive;
        v->fix.name = v->from;
        v->fix.repair = true;
        v->fix.done = fixed;
        if (eng_fix_start(v->store, &v->fix) != 0)
                next_entry(v);
}

/* ---- what the other members say of it -------------------------------------------------------------------------- */

/* This copy is as the others'; the shards are read when the walk is on the first member. */
static void copies_agree(struct eng_verify *v)
{
        const struct fmt_value *head = eng_value_head(v->value->data);

        if (!is_first_member(v, head->pg)) {
                next_entry(v);
                return;
        }
        if (head->space == FMT_SPACE_OBJECT) {
                v->report.objects++;
                v->report.bytes += head->size;
        }
        v->part_pos = 0;
        next_part(v);
}

/* The value that counts is read anew: it may be another now. */
static void made_to_agree(struct eng_agree *agree)
{
        struct eng_verify *v = (struct eng_verify *)((char *)agree - offsetof(struct eng_verify, agree));

        v->report.differing_names += agree->differed;
        v->report.repaired_names += agree->differed && agree->txn.result == 0 && agree->repaired > 0;
        v->compared = ~(eng_mask)0;
        if (usable(v, v->drive))
                look_up(v, ENG_OP_WANT_INLINE | ENG_OP_WANT_RECORD, looked_up);
        else
                next_entry(v);
}

static void copies_differ(struct eng_verify *v)
{
        v->agree.name = v->from;
        v->agree.done = made_to_agree;
        if (eng_agree_start(v->store, &v->agree) != 0)
                next_entry(v);
}

/* A copy that cannot be read is found when the walk is on that drive. */
static void compared(struct eng_op *op)
{
        struct eng_verify *v = (struct eng_verify *)((char *)op - offsetof(struct eng_verify, compare));
        const struct eng_buf *theirs = op->lookup.value;
        bool differs = op->result == -ENOENT;

        if (op->result == 0)
                differs = !eng_fix_same(theirs->data, theirs->len, v->value->data, v->value->len);
        eng_buf_unref(op->lookup.value);
        if (differs)
                copies_differ(v);
        else
                compare_copies(v);
}

/*
 * On the first member: with all others, so that what one of them lacks is found. On another: with the first, so that what that one lacks is.
 */
static void compare_copies(struct eng_verify *v)
{
        uint32_t pg = eng_value_head(v->value->data)->pg;
        eng_mask others = pg < v->store->pg_count ? eng_speakers(view(v), pg) & view(v)->up & ~eng_bit(v->drive) : 0;
        struct eng_op *op = &v->compare;

        if (!is_first_member(v, pg) && others != 0)
                others &= eng_bit((unsigned)eng_placement_first(view(v)->map, pg, view(v)->in & view(v)->up));
        others &= ~v->compared;
        if (others == 0) {
                copies_agree(v);
                return;
        }
        v->comparing = (unsigned)__builtin_ctzll(others);
        v->compared |= eng_bit(v->comparing);
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_LOOKUP;
        op->epoch = view(v)->epoch;
        op->done = compared;
        op->lookup.name = v->from.data;
        op->lookup.name_len = v->from.len;
        eng_drive_submit(v->store->members[v->comparing].drive, op);
}

static void looked_up(struct eng_op *op)
{
        struct eng_verify *v = (struct eng_verify *)((char *)op - offsetof(struct eng_verify, lookup));

        v->read_bytes += FMT_BLOCK + (op->lookup.bytes == NULL ? 0 : op->lookup.bytes->len);
        eng_buf_unref(op->lookup.bytes);
        eng_buf_unref(v->value);
        v->value = op->result == 0 ? op->lookup.value : NULL;
        if (op->result != 0)
                eng_buf_unref(op->lookup.value);
        if (op->result == -EBADMSG) {
                copy_is_bad(v);
                return;
        }
        if (op->result != 0) /* deleted since the scan */
                next_entry(v);
        else
                compare_copies(v);
}

static void next_entry(struct eng_verify *v)
{
        const struct eng_scan_entry *e = (const struct eng_scan_entry *)v->entry;

        if (v->stop) {
                finish(v);
                return;
        }
        if (is_ahead(v, next_entry))
                return;
        v->damaged = v->missing = 0;
        v->compared = 0;
        v->unreadable = false;
        v->bad_count = 0;
        publish(v);
        if (v->left == 0) {
                next_page(v);
                return;
        }
        v->left--;
        v->entry += e->size;
        v->from.len = e->name_len;
        memcpy(v->from.data, e + 1, e->name_len);
        if (usable(v, v->drive))
                look_up(v, ENG_OP_WANT_INLINE | ENG_OP_WANT_RECORD, looked_up);
        else
                next_page(v); /* it has left */
}

static void scanned(struct eng_op *op)
{
        struct eng_verify *v = (struct eng_verify *)((char *)op - offsetof(struct eng_verify, scan));

        if (op->result != 0) {
                v->report.damaged_shards += op->result == -EBADMSG;
                v->drive++;
                next_drive(v);
                return;
        }
        v->page = op->scan.entries;
        v->entry = v->page == NULL ? NULL : v->page->data;
        v->left = op->scan.count;
        v->more = op->scan.more;
        next_entry(v);
}

static void scan(struct eng_verify *v)
{
        struct eng_op *op = &v->scan;

        memset(v->pgs, 0, v->store->pg_words * sizeof(uint64_t));
        eng_groups_spoken_for(view(v), v->store->pg_count, v->drive, v->pgs);
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->epoch = view(v)->epoch;
        op->done = scanned;
        op->scan.from = v->from.data;
        op->scan.from_len = v->from.len;
        op->scan.after = true;
        op->scan.to = v->to.data;
        op->scan.to_len = v->to.len;
        op->scan.max = PAGE;
        op->scan.pgs = v->pgs;
        op->scan.pg_words = v->store->pg_words;
        eng_drive_submit(v->store->members[v->drive].drive, op);
}

static void next_page(struct eng_verify *v)
{
        eng_buf_unref(v->page);
        v->page = NULL;
        if (v->more && usable(v, v->drive)) {
                scan(v);
                return;
        }
        v->drive++;
        next_drive(v);
}

static void scan_from(struct eng_verify *v)
{
        v->to.len = 1;
        v->to.data[0] = FMT_SPACE_PART + 1;
        scan(v);
}

/* Goes on behind the name it has come to. */
static void go_on(struct eng_verify *v)
{
        if (usable(v, v->drive))
                scan_from(v);
        else
                next_drive(v);
}

static void next_drive(struct eng_verify *v)
{
        while (v->drive < v->store->drive_count && !usable(v, v->drive))
                v->drive++;
        if (v->drive == v->store->drive_count) {
                finish(v);
                return;
        }
        v->from.len = 1;
        v->from.data[0] = FMT_SPACE_OBJECT;
        scan_from(v);
}

static void granted(struct lp_reserve *reserve)
{
        struct eng_verify *v = (struct eng_verify *)((char *)reserve - offsetof(struct eng_verify, reserve));

        v->slot = lp_slot_get(v->store->loops[0].loop);
        v->then(v);
}

static void begin(struct lp_msg *msg)
{
        struct eng_verify *v = (struct eng_verify *)((char *)msg - offsetof(struct eng_verify, msg));

        v->store->coord->verify = v;
        take_slot(v, next_drive);
}

void eng_verify_free(struct eng_store *store)
{
        if (store->coord->verify != NULL)
                eng_verify_drop(store->coord->verify);
}

static struct eng_verify *new_verify(struct eng_store *store, struct eng_verify_report *out)
{
        struct eng_verify *v = calloc(1, sizeof(*v));

        if (v == NULL)
                return NULL;
        v->store = store;
        v->out = out;
        v->bad = calloc(BAD_MAX, sizeof(*v->bad));
        v->pgs = calloc(store->pg_words + 1, sizeof(uint64_t));
        v->report.running = true;
        v->report.started_ms = lp_wall_ms();
        if (v->bad == NULL || v->pgs == NULL) {
                free_verify(v);
                return NULL;
        }
        return v;
}

static void scrub_begins(struct lp_msg *msg)
{
        struct eng_verify *v = (struct eng_verify *)((char *)msg - offsetof(struct eng_verify, msg));

        take_slot(v, v->then);
}

struct eng_verify *eng_verify_scrub(struct eng_store *store, const struct eng_verify_place *at,
                                    const struct eng_verify_report *so_far, uint64_t rate,
                                    void (*ended)(void *arg, bool whole), void *arg)
{
        struct eng_verify *v = new_verify(store, &store->scrub);

        if (v == NULL)
                return NULL;
        v->report = *so_far;
        v->report.running = true;
        v->rate = rate;
        v->held_only = true;
        v->started = lp_now(store->loops[0].loop);
        v->ended = ended;
        v->arg = arg;
        v->drive = at->drive;
        v->from = at->from;
        publish(v);
        v->then = v->from.len == 0 ? next_drive : go_on;
        v->msg.run = scrub_begins; /* by message: it may end at once, and the caller has not got it yet */
        lp_post(store->loops[0].loop, &v->msg);
        return v;
}

void eng_verify_stop(struct eng_verify *v)
{
        v->stop = true;
}

void eng_verify_where(const struct eng_verify *v, struct eng_verify_place *at, struct eng_verify_report *so_far)
{
        at->drive = v->drive;
        at->from = v->from;
        *so_far = v->report;
}

int eng_verify_start(struct eng_store *store)
{
        struct eng_verify *v = new_verify(store, &store->verify);
        bool running, ready;

        if (v == NULL)
                return -ENOMEM;
        pthread_mutex_lock(&store->health_lock);
        running = store->verify.running;
        ready = store->health.ready;
        if (!running && ready)
                store->verify = v->report;
        pthread_mutex_unlock(&store->health_lock);
        if (running || !ready) {
                free_verify(v);
                return running ? -EALREADY : -EHOSTDOWN;
        }
        v->msg.run = begin;
        lp_post(store->loops[0].loop, &v->msg);
        return 0;
}

void eng_verify_read(struct eng_store *store, struct eng_verify_report *out)
{
        pthread_mutex_lock(&store->health_lock);
        *out = store->verify;
        pthread_mutex_unlock(&store->health_lock);
}
