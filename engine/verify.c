/*
 * verify.c - reads everything there is and reports: every replica of every record's value, every shard of every object and part.
 *
 * Walks drive by drive on the coordinator, one read at a time, so that it takes little from who is served. Metadata is checked on each drive that holds
 * it; the shards of a value are read once, when the walk is on the PG's first member. It changes nothing.
 */
#include "engine/store.h"
#include "engine/stripe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 64u

/* owner: coordinator; ops: the drives while out */
struct verify {
        struct eng_store *store;
        struct lp_msg msg;
        struct lp_reserve reserve;
        void *slot;
        unsigned drive;                /* whose names are walked */
        struct eng_name from, to;
        struct eng_op scan, lookup, read;
        struct eng_buf *page;
        const uint8_t *entry;          /* next entry of the page */
        uint32_t left;
        bool more;
        /* the value whose shards are being read */
        const uint8_t *value;
        uint32_t value_len;
        size_t part_pos;
        struct eng_part part;
        uint32_t stripe;
        unsigned shard, good, reading; /* reading: the drive */
        bool unreadable;
        struct eng_verify_report report;
};

static void next_drive(struct verify *v);
static void next_page(struct verify *v);
static void next_entry(struct verify *v);
static void next_part(struct verify *v);
static void next_shard(struct verify *v);

static void publish(struct verify *v)
{
        pthread_mutex_lock(&v->store->health_lock);
        v->store->verify = v->report;
        pthread_mutex_unlock(&v->store->health_lock);
}

static const struct eng_view *view(const struct verify *v)
{
        return &v->store->loops[0].view;
}

static bool usable(const struct verify *v, unsigned drive)
{
        return drive < v->store->drive_count && (view(v)->in & view(v)->up & eng_bit(drive)) != 0;
}

static void finish(struct verify *v)
{
        struct lp_loop *loop = v->store->loops[0].loop;

        lp_slot_put(loop, v->slot);
        lp_unreserve(loop, LP_SHARE_INTERNAL, 1);
        v->report.running = false;
        v->report.ended_ms = lp_wall_ms();
        publish(v);
        free(v);
}

/* ---- shards ------------------------------------------------------------------------------------------------ */

static void shard_read(struct eng_op *op)
{
        struct verify *v = (struct verify *)((char *)op - offsetof(struct verify, read));

        v->report.shards++;
        if (op->result == 0) {
                v->good++;
                eng_digest_add(&v->report.digest[v->reading], op->read.object_id, op->read.stripe, op->read.shard,
                               (const uint8_t *)v->slot + LP_SLOT_HEADER, op->read.len);
        } else if (op->result == -EBADMSG) {
                v->report.damaged_shards++;
        } else {
                v->report.missing_shards++;
        }
        v->shard++;
        next_shard(v);
}

/* A data unit without a byte of the part is not stored: it counts as good. */
static bool is_stored(const struct verify *v)
{
        return v->shard >= v->part.head.k || v->shard < eng_stripe_units(&v->part.head, v->stripe);
}

static void read_shard(struct verify *v, unsigned drive)
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
        v->reading = drive;
        eng_drive_submit(v->store->members[drive].drive, op);
}

static void next_shard(struct verify *v)
{
        unsigned shards = (unsigned)v->part.head.k + v->part.head.m, drive;

        while (v->stripe < eng_part_stripes(&v->part.head)) {
                for (; v->shard < shards; v->shard++) {
                        if (!is_stored(v)) {
                                v->good++;
                                continue;
                        }
                        drive = eng_part_drive(&v->part, v->stripe, v->shard);
                        if (usable(v, drive)) {
                                read_shard(v, drive);
                                return;
                        }
                        v->report.shards++;
                        v->report.missing_shards++;
                }
                v->unreadable |= v->good < v->part.head.k;
                v->good = 0;
                v->shard = 0;
                v->stripe++;
        }
        next_part(v);
}

static void next_part(struct verify *v)
{
        int rv = eng_value_next_part(v->value, v->value_len, &v->part_pos, &v->part);

        if (rv == 1) {
                v->stripe = 0;
                v->shard = v->good = 0;
                next_shard(v);
                return;
        }
        v->report.unreadable_objects += v->unreadable || rv < 0;
        v->unreadable = false;
        next_entry(v);
}

/* ---- names --------------------------------------------------------------------------------------------------- */

static bool is_first_member(const struct verify *v, uint32_t pg)
{
        const struct eng_store *store = v->store;
        unsigned i;

        for (i = 0; pg < store->pg_count && i < store->meta_replicas; i++)
                if (usable(v, store->pgs[pg].order[i]))
                        return store->pgs[pg].order[i] == v->drive;
        return false;
}

static void looked_up(struct eng_op *op)
{
        struct verify *v = (struct verify *)((char *)op - offsetof(struct verify, lookup));
        struct fmt_value head;

        eng_buf_unref(op->lookup.value);
        eng_buf_unref(op->lookup.bytes);
        if (op->result == -EBADMSG)
                v->report.damaged_shards++;
        memcpy(&head, v->value, sizeof(head));
        if (op->result == -ENOENT || !is_first_member(v, head.pg)) { /* deleted since the scan, or walked elsewhere */
                next_entry(v);
                return;
        }
        if (head.space == FMT_SPACE_OBJECT) {
                v->report.objects++;
                v->report.bytes += head.size;
        }
        v->part_pos = 0;
        next_part(v);
}

static void next_entry(struct verify *v)
{
        const struct eng_scan_entry *e = (const struct eng_scan_entry *)v->entry;
        struct eng_op *op = &v->lookup;

        publish(v);
        if (v->left == 0) {
                next_page(v);
                return;
        }
        v->left--;
        v->entry += e->size;
        v->from.len = e->name_len;
        memcpy(v->from.data, e + 1, e->name_len);
        v->value = (const uint8_t *)(e + 1) + e->name_len;
        v->value_len = e->value_len;
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_LOOKUP;
        op->flags = ENG_OP_WANT_INLINE;
        op->epoch = view(v)->epoch;
        op->done = looked_up;
        op->lookup.name = v->from.data;
        op->lookup.name_len = v->from.len;
        eng_drive_submit(v->store->members[v->drive].drive, op);
}

static void scanned(struct eng_op *op)
{
        struct verify *v = (struct verify *)((char *)op - offsetof(struct verify, scan));

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

static void scan(struct verify *v)
{
        struct eng_op *op = &v->scan;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->flags = ENG_OP_WANT_ATTRS | ENG_OP_WANT_PARTS;
        op->epoch = view(v)->epoch;
        op->done = scanned;
        op->scan.from = v->from.data;
        op->scan.from_len = v->from.len;
        op->scan.after = true;
        op->scan.to = v->to.data;
        op->scan.to_len = v->to.len;
        op->scan.max = PAGE;
        eng_drive_submit(v->store->members[v->drive].drive, op);
}

static void next_page(struct verify *v)
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

static void next_drive(struct verify *v)
{
        while (v->drive < v->store->drive_count && !usable(v, v->drive))
                v->drive++;
        if (v->drive == v->store->drive_count) {
                finish(v);
                return;
        }
        v->from.len = v->to.len = 1;
        v->from.data[0] = FMT_SPACE_OBJECT;
        v->to.data[0] = FMT_SPACE_PART + 1;
        scan(v);
}

static void granted(struct lp_reserve *reserve)
{
        struct verify *v = (struct verify *)((char *)reserve - offsetof(struct verify, reserve));

        v->slot = lp_slot_get(v->store->loops[0].loop);
        next_drive(v);
}

static void begin(struct lp_msg *msg)
{
        struct verify *v = (struct verify *)((char *)msg - offsetof(struct verify, msg));
        int rv;

        v->reserve.count = 1;
        v->reserve.share = LP_SHARE_INTERNAL;
        v->reserve.granted = granted;
        rv = lp_reserve(v->store->loops[0].loop, &v->reserve);
        if (rv == 0) {
                granted(&v->reserve);
        } else if (rv != -EAGAIN) {
                v->report.running = false;
                publish(v);
                free(v);
        }
}

int eng_verify_start(struct eng_store *store)
{
        struct verify *v = calloc(1, sizeof(*v));
        bool running, ready;

        if (v == NULL)
                return -ENOMEM;
        v->store = store;
        v->report.running = true;
        v->report.started_ms = lp_wall_ms();
        pthread_mutex_lock(&store->health_lock);
        running = store->verify.running;
        ready = store->health.ready;
        if (!running && ready)
                store->verify = v->report;
        pthread_mutex_unlock(&store->health_lock);
        if (running || !ready) {
                free(v);
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
