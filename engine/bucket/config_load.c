/*
 * config_load.c - the buckets, as recovery reads them from the members of the CONFIG PG.
 * Coordinator.
 *
 * An index can have lost a row to rot, so one member's word is not enough: two are read, and all of
 * them if one cannot be read or the two differ. Of different values of a name the one of the
 * highest number counts. A name that some members have and others have not is there unless most say
 * that it is not: a bucket that is forgotten takes all its objects with it. When the store is open,
 * what a member lacks is written there anew.
 */
#include "engine/bucket/bucket.h"
#include "engine/resync/resync.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 1000u
#define BEGIN_WITH 2u                  /* members */
#define REPAIR_TRIES 100u
#define REPAIR_NS (200ull * 1000 * 1000)

struct found {
        struct eng_bucket bucket;
        uint64_t seq;
        eng_mask holders;              /* members that have this value */
};

/* owner: coordinator; op: the drive while out */
struct eng_config_loading {
        struct eng_store *store;
        void (*done)(struct eng_store *store, int rv);
        struct eng_op scan;
        struct eng_name from, to;
        unsigned slot;                 /* being read */
        eng_mask tried, answered;      /* members asked; those that could be read to the end */
        struct found *found;           /* in order of name */
        unsigned count, size, next;    /* next: where the page being merged has come to */
        /* repairs */
        struct eng_resync resync;
        struct lp_timer timer;
        unsigned at, to_slot, tries;
        bool resyncing;
};

static void read_page(struct eng_config_loading *load);

void eng_config_load_free(struct eng_store *store)
{
        struct eng_config_loading *load = store->coord->config_loading;

        store->coord->config_loading = NULL;
        if (load == NULL)
                return;
        lp_timer_stop(store->loops[0].loop, &load->timer);
        if (load->resyncing) {
                eng_txn_abandon(&load->resync.txn);
                eng_txn_drop(&load->resync.txn);
        }
        free(load->found);
        free(load);
}

static void end_load(struct eng_config_loading *load, int rv)
{
        struct eng_store *store = load->store;
        void (*done)(struct eng_store *, int) = load->done;

        eng_config_load_free(store);
        done(store, rv);
}

/* ---- what members say ------------------------------------------------------------------------ */

static int insert(struct eng_config_loading *load, unsigned at, const struct found *one)
{
        unsigned size = load->size == 0 ? 64 : 2 * load->size;
        struct found *grown;

        assert(at <= load->count && load->count <= load->size);
        if (load->count == load->size) {
                grown = realloc(load->found, size * sizeof(*grown));
                if (grown == NULL)
                        return -ENOMEM;
                load->found = grown;
                load->size = size;
        }
        memmove(load->found + at + 1, load->found + at, (load->count - at) * sizeof(load->found[0]));
        load->found[at] = *one;
        load->count++;
        return 0;
}

static bool says_the_same(const struct eng_bucket *a, const struct eng_bucket *b)
{
        return a->id == b->id && a->created_ms == b->created_ms && a->attrs_len == b->attrs_len &&
               memcmp(a->attrs, b->attrs, a->attrs_len) == 0;
}

/* One name of a member, in order. */
static int take_one(struct eng_config_loading *load, const struct eng_bucket *bucket, uint64_t seq)
{
        struct found one = {.bucket = *bucket, .seq = seq, .holders = eng_bit(load->slot)}, *known;
        int c = 1;

        assert(load->next <= load->count);
        while (load->next < load->count && (c = strcmp(load->found[load->next].bucket.name, bucket->name)) < 0)
                load->next++;
        if (load->next == load->count || c != 0)
                return insert(load, load->next, &one);
        known = &load->found[load->next];
        if (says_the_same(&known->bucket, bucket)) { /* a copy of it may have a higher number */
                known->holders |= one.holders;
                known->seq = seq > known->seq ? seq : known->seq;
        } else if (seq > known->seq) {
                *known = one;
        }
        return 0;
}

/* Values that are no buckets are damage of that member's row. */
static int take_page(struct eng_config_loading *load)
{
        const struct eng_op *op = &load->scan;
        const uint8_t *p = op->scan.entries == NULL ? NULL : op->scan.entries->data;
        struct eng_bucket bucket;
        struct fmt_value head;
        uint32_t i;
        int rv = 0;

        for (i = 0; p != NULL && rv == 0 && i < op->scan.count; i++) {
                const struct eng_scan_entry *e = (const struct eng_scan_entry *)p;
                const uint8_t *name = (const uint8_t *)(e + 1);

                rv = eng_bucket_decode(name, e->name_len, name + e->name_len, e->value_len, &bucket);
                if (rv == 0) {
                        memcpy(&head, name + e->name_len, sizeof(head));
                        rv = take_one(load, &bucket, head.seq);
                }
                load->from.len = e->name_len;
                memcpy(load->from.data, name, e->name_len);
                p += e->size;
        }
        return rv;
}

static eng_mask members(const struct eng_config_loading *load)
{
        const struct eng_store *store = load->store;
        const struct eng_view *view = &store->coord->view;

        return eng_speakers(view, store->pg_count) & view->up;
}

/* All that could be read say the same of all names. */
static bool agree(const struct eng_config_loading *load)
{
        unsigned i;

        for (i = 0; i < load->count; i++)
                if (load->found[i].holders != load->answered)
                        return false;
        return true;
}

/* ---- giving it to the loops ------------------------------------------------------------------ */

/*
 * Unless most say otherwise. A member that could be read in part speaks for the rows that were read,
 * and says of no other name that it is not there.
 */
static bool config_is_there(const struct eng_config_loading *load, const struct found *f)
{
        unsigned have = (unsigned)__builtin_popcountll(f->holders);
        unsigned lack = (unsigned)__builtin_popcountll(load->answered & ~f->holders);

        return have >= lack;
}

static bool config_give(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        const struct eng_config_loading *load = arg;
        unsigned i;

        for (i = 0; i < load->count; i++)
                if (config_is_there(load, &load->found[i]) && eng_config_take(el, &load->found[i].bucket) != 0)
                        abort(); /* nothing is served yet; a restart tries again */
        return true;
}

static void given(struct eng_store *store, void *arg)
{
        struct eng_config_loading *load = arg;

        if (agree(load) && load->tried == load->answered)
                end_load(load, 0);
        else
                load->done(store, 0); /* there is something to be repaired when the store is open */
}

/* ---- reading them ---------------------------------------------------------------------------- */

static bool enough(const struct eng_config_loading *load)
{
        return (unsigned)__builtin_popcountll(load->answered) >= BEGIN_WITH && load->tried == load->answered && agree(load);
}

/* The next member is read, or all that is needed has been. */
static void next_member(struct eng_config_loading *load)
{
        eng_mask left = members(load) & ~load->tried;

        assert((load->answered & ~load->tried) == 0);
        if (enough(load) || left == 0) {
                if (load->answered == 0)
                        end_load(load, -EIO);
                else if (eng_broadcast(load->store, config_give, given, load) != 0)
                        end_load(load, -ENOMEM);
                return;
        }
        load->slot = (unsigned)__builtin_ctzll(left);
        load->tried |= eng_bit(load->slot);
        load->next = 0;
        eng_name_bucket(&load->from, "");
        load->to = load->from;
        eng_name_successor(&load->to);
        read_page(load);
}

static void page_read(struct eng_op *op)
{
        struct eng_config_loading *load = container_of(op, struct eng_config_loading, scan);
        bool more = op->result == 0 && op->scan.more;
        int rv = op->result;

        assert(load->store->coord->config_loading == load && (load->tried & eng_bit(load->slot)) != 0);
        if (rv == 0)
                rv = take_page(load);
        if (op->result == 0)
                eng_buf_unref(op->scan.entries);
        if (rv == -ENOMEM) {
                end_load(load, rv);
        } else if (rv == 0 && more) {
                read_page(load);
        } else {
                load->answered |= rv == 0 ? eng_bit(load->slot) : 0;
                next_member(load);
        }
}

static void read_page(struct eng_config_loading *load)
{
        struct eng_store *store = load->store;
        struct eng_op *op = &load->scan;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->flags = ENG_OP_WANT_ATTRS;
        op->epoch = store->coord->view.epoch;
        op->done = page_read;
        op->scan.from = load->from.data;
        op->scan.from_len = load->from.len;
        op->scan.after = true;
        op->scan.to = load->to.data;
        op->scan.to_len = load->to.len;
        op->scan.max = PAGE;
        eng_drive_submit(store->members[load->slot].drive, op);
}

void eng_config_load(struct eng_store *store, void (*done)(struct eng_store *store, int rv))
{
        struct eng_config_loading *load;

        assert(eng_on_coordinator(store) && store->coord->phase == ENG_PHASE_CONFIG);
        eng_config_load_free(store);
        load = eng_config_begin(store) == 0 ? calloc(1, sizeof(*load)) : NULL;
        if (load == NULL) {
                done(store, -ENOMEM);
                return;
        }
        load->store = store;
        load->done = done;
        store->coord->config_loading = load;
        next_member(load);
}

/* ---- repairs --------------------------------------------------------------------------------- */

static void repair_next(struct eng_config_loading *load);

static void repair_again(struct lp_timer *timer)
{
        repair_next(container_of(timer, struct eng_config_loading, timer));
}

static void config_repaired(struct eng_resync *resync)
{
        struct eng_config_loading *load = container_of(resync, struct eng_config_loading, resync);
        struct eng_store *store = load->store;

        assert(load->resyncing);
        load->resyncing = false;
        if (store->stopping)
                return;
        if (resync->txn.result != 0 && load->tries++ < REPAIR_TRIES) {
                load->timer.expired = repair_again;
                lp_timer_start(store->loops[0].loop, &load->timer, REPAIR_NS);
                return;
        }
        if (resync->txn.result == 0)
                load->to_slot++;
        repair_next(load);
}

/*
 * Members of which a row is missing, differs, or could not be read: the fix looks before it writes.
 */
static void repair_next(struct eng_config_loading *load)
{
        struct eng_store *store = load->store;
        eng_mask lack;

        assert(!load->resyncing);
        for (; load->at < load->count && load->tries < REPAIR_TRIES; load->at++, load->to_slot = 0) {
                if (!config_is_there(load, &load->found[load->at]))
                        continue;
                lack = load->tried & ~load->found[load->at].holders;
                while (load->to_slot < store->drive_count && !(lack & eng_bit(load->to_slot)))
                        load->to_slot++;
                if (load->to_slot == store->drive_count)
                        continue;
                load->resync.slot = load->to_slot;
                load->resync.repair = true;
                load->resync.done = config_repaired;
                eng_name_bucket(&load->resync.name, load->found[load->at].bucket.name);
                load->resyncing = eng_resync_start(store, &load->resync) == 0;
                if (load->resyncing)
                        return;
        }
        eng_config_load_free(store);
}

void eng_config_repair(struct eng_store *store)
{
        struct eng_config_loading *load = store->coord->config_loading;

        if (load == NULL)
                return;
        if (store->coord->view.writable)
                repair_next(load);
        else
                eng_config_load_free(store);
}
