/*
 * config_load.c - the buckets, as recovery reads them from the members of the CONFIG PG.
 * Coordinator.
 *
 * An index can have lost a row to rot, so one member's word is not enough: two are read, and all of
 * them if one cannot be read or the two differ. Of different values of a bucket the one of the
 * highest generation of its rules counts, and of the highest number where these are the same. A name
 * that some members have, whatever its value, and others have not is there unless most say that it is
 * not: a bucket that is forgotten takes all its objects with it. When the store is open, what members
 * have differently is written anew.
 */
#include "engine/bucket/bucket.h"
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
        eng_mask named;                /* that have any of this name */
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
        struct lp_timer timer;
        unsigned at, tries;
        bool repairing;
        struct eng_texts_loading *texts;
};

static void read_page(struct eng_config_loading *load);

void eng_config_load_free(struct eng_store *store)
{
        struct eng_config_loading *load = store->coord->config_loading;

        store->coord->config_loading = NULL;
        if (load == NULL)
                return;
        lp_timer_stop(store->coord_loop->loop, &load->timer);
        eng_texts_load_free(load->texts);
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

/* A copy that maintenance wrote has a number of its own, so rules tell first which row is newer. */
static bool is_newer(const struct found *a, const struct found *b)
{
        if (a->bucket.id == b->bucket.id && a->bucket.rules.generation != b->bucket.rules.generation)
                return a->bucket.rules.generation > b->bucket.rules.generation;
        return a->seq > b->seq;
}

/* One name of a member, in order. */
static int take_one(struct eng_config_loading *load, const struct eng_bucket *bucket, uint64_t seq)
{
        struct found one = {.bucket = *bucket, .seq = seq, .holders = eng_bit(load->slot), .named = eng_bit(load->slot)}, *known;
        int c = 1;

        assert(load->next <= load->count);
        while (load->next < load->count && (c = strcmp(load->found[load->next].bucket.name, bucket->name)) < 0)
                load->next++;
        if (load->next == load->count || c != 0)
                return insert(load, load->next, &one);
        known = &load->found[load->next];
        one.named |= known->named;
        if (eng_bucket_same(&known->bucket, bucket)) { /* a copy of it may have a higher number */
                known->holders |= one.holders;
                known->seq = seq > known->seq ? seq : known->seq;
        } else if (is_newer(&one, known)) {
                *known = one;
        }
        known->named = one.named;
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
                const uint8_t *name = eng_entry_name(e);

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

static bool config_is_there(const struct eng_config_loading *load, const struct found *f)
{
        return eng_row_is_there(f->named, load->answered);
}

static bool config_give(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        const struct eng_config_loading *load = arg;
        unsigned i;

        for (i = 0; i < load->count; i++)
                if (config_is_there(load, &load->found[i]) && eng_config_take(el, &load->found[i].bucket) != 0)
                        abort(); /* nothing is served yet; a restart tries again */
        if (eng_texts_give(el, load->texts) != 0)
                abort();
        return true;
}

static void given(struct eng_store *store, void *arg)
{
        struct eng_config_loading *load = arg;

        if (agree(load) && load->tried == load->answered && !eng_texts_differ(load->texts))
                end_load(load, 0);
        else
                load->done(store, 0); /* there is something to be repaired when the store is open */
}

/* ---- reading them ---------------------------------------------------------------------------- */

static bool enough(const struct eng_config_loading *load)
{
        return (unsigned)__builtin_popcountll(load->answered) >= BEGIN_WITH && load->tried == load->answered && agree(load);
}

static void lock_loaded(void *arg, int rv)
{
        struct eng_config_loading *load = arg;

        if (rv == 0 && eng_broadcast(load->store, config_give, given, load) != 0)
                rv = -ENOMEM;
        if (rv != 0)
                end_load(load, rv);
}

static void texts_loaded(void *arg, int rv)
{
        struct eng_config_loading *load = arg;

        if (rv == 0)
                rv = eng_texts_settle(load->texts);
        if (rv == 0)
                eng_lock_load(load->store, lock_loaded, load);
        else
                end_load(load, rv);
}

/* The buckets are known: what belongs to them is read. */
static void load_texts(struct eng_config_loading *load)
{
        load->texts = eng_texts_new(load->store, texts_loaded, load);
        if (load->texts == NULL)
                end_load(load, -ENOMEM);
        else
                eng_texts_load(load->texts);
}

/* The next member is read, or all that is needed has been. */
static void next_member(struct eng_config_loading *load)
{
        eng_mask left = members(load) & ~load->tried;

        assert((load->answered & ~load->tried) == 0);
        if (enough(load) || left == 0) {
                if (load->answered == 0)
                        end_load(load, -EIO);
                else
                        load_texts(load);
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
        op->flags = ENG_OP_WANT_ATTRS | ENG_OP_WANT_PARTS; /* parts: there are none, but fields come with them */
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

static void repair_later(struct eng_config_loading *load)
{
        load->tries++;
        load->timer.expired = repair_again;
        lp_timer_start(load->store->coord_loop->loop, &load->timer, REPAIR_NS);
}

static void text_repaired(void *arg, int rv);

/* Nothing of the buckets' own rows is left to be repaired. */
static void repair_texts(struct eng_config_loading *load)
{
        int rv;

        load->repairing = true;
        rv = load->tries < REPAIR_TRIES ? eng_texts_repair(load->texts, text_repaired, load) : -ENOENT;
        if (rv == 0)
                return;
        load->repairing = false;
        if (rv == -ENOENT)
                eng_config_load_free(load->store);
        else
                repair_later(load);
}

static void text_repaired(void *arg, int rv)
{
        struct eng_config_loading *load = arg;

        assert(load->repairing);
        load->repairing = false;
        if (load->store->stopping)
                return;
        if (rv == 0)
                eng_texts_repaired(load->texts);
        if (rv == 0)
                repair_texts(load);
        else
                repair_later(load);
}

static void config_repaired(void *arg, int rv)
{
        struct eng_config_loading *load = arg;
        struct eng_store *store = load->store;

        assert(load->repairing);
        load->repairing = false;
        if (store->stopping)
                return;
        if (rv == 0)
                load->at++;
        if (rv == 0)
                repair_next(load);
        else
                repair_later(load);
}

/*
 * Rows that some member lacks, has otherwise, or may have had where it could not be read: they are
 * written to all members, as the loops have them. A bucket that was deleted meanwhile is left alone.
 */
static void repair_next(struct eng_config_loading *load)
{
        struct eng_store *store = load->store;

        assert(!load->repairing);
        for (; load->at < load->count && load->tries < REPAIR_TRIES; load->at++) {
                const struct found *f = &load->found[load->at];

                if (!config_is_there(load, f) || (load->tried & ~f->holders) == 0)
                        continue;
                load->repairing = true;
                if (eng_bucket_rewrite(store, f->bucket.id, config_repaired, load) == 0)
                        return;
                load->repairing = false;
                repair_later(load);
                return;
        }
        repair_texts(load);
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
