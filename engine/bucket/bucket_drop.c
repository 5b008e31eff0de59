/*
 * bucket_drop.c - drops what deleted buckets have left: unfinished uploads and texts under an id that
 * no bucket has any more. Coordinator.
 *
 * The record that deletes a bucket also puts one that names it as dead (bucket.c). That one is the
 * proof (I6) and the place to go on from: one dead bucket after the other, its uploads are listed
 * and aborted, some at a time, until a walk from the beginning finds none; then the rows of its texts
 * are deleted, one after the other, and then the record goes. A restart begins with those that are
 * there. Nothing waits for this: names under the dead id are
 * looked up by nobody.
 */
#include "engine/bucket/bucket.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 64u                               /* uploads listed at a time */
#define ABORTS 16u                             /* under way at the same time */
#define REST_NS (5ull * 1000 * 1000)           /* after each page */
#define LATER_NS (5ull * 1000 * 1000 * 1000)   /* something failed, or the store cannot be written to */

struct upload {
        uint8_t id[FMT_ID];
        uint16_t key_len;
        char key[ENG_KEY_MAX];
};

/* owner: coordinator; op: the drive while out */
struct eng_drop {
        struct eng_store *store;
        bool running, again;           /* a round is under way; another one is wanted */
        bool waiting;                  /* to try again what failed */
        struct eng_name from, to;      /* behind the last record looked at */
        eng_mask tried;
        unsigned slot;                 /* asked last */
        struct eng_op op;              /* SCAN for the next record */
        struct eng_name dead;          /* the bucket being dropped */
        uint64_t bucket;
        struct eng_name text, text_end; /* a row of a text of it */
        char after[ENG_KEY_MAX];
        size_t after_len;
        uint8_t after_id[FMT_ID];
        bool behind;                   /* the listing goes on behind those two */
        struct upload *uploads;        /* PAGE */
        unsigned count, next, out;
        bool more, failed;
        bool clean, progress;          /* this walk has found nothing; has ended an upload */
        struct eng_txn txn;            /* the end of a row: of a text, or of the record; under way while ending */
        bool ending;
        const struct eng_name *row;    /* that ends: dead or text */
        void (*row_next)(struct eng_drop *drop); /* once it has ended */
        struct lp_timer timer;
};

static void next_record(struct eng_drop *drop);
static void next_text(struct eng_drop *drop);
static void list_page(struct eng_drop *drop);

static void drop_consider_again(struct lp_timer *timer)
{
        eng_drop_consider(container_of(timer, struct eng_drop, timer)->store);
}

static void end_round(struct eng_drop *drop, bool later)
{
        assert(drop->running && drop->out == 0 && !drop->ending);
        drop->running = false;
        drop->waiting = later;
        drop->timer.expired = drop_consider_again;
        if (later)
                lp_timer_start(drop->store->coord_loop->loop, &drop->timer, LATER_NS);
        else if (drop->again)
                eng_drop_consider(drop->store);
}

/* ---- the end of one bucket ------------------------------------------------------------------- */

static void row_remove_prepare(struct eng_txn *txn)
{
        const struct eng_drop *drop = container_of(txn, struct eng_drop, txn);

        txn->name = *drop->row;
        eng_txn_delete_name(txn);
}

static void row_removed(struct eng_txn *txn)
{
        struct eng_drop *drop = container_of(txn, struct eng_drop, txn);

        assert(drop->ending);
        drop->ending = false;
        eng_txn_drop(txn);
        if (drop->store->stopping)
                return;
        if (txn->result != 0)
                end_round(drop, true);
        else
                drop->row_next(drop);
}

/* Deletes a row, with the lock of its key; then next(). The name stays until then. */
static void drop_submit(struct eng_drop *drop, const struct eng_name *row, const void *key, size_t key_len,
                        void (*next)(struct eng_drop *drop))
{
        struct eng_txn *txn = &drop->txn;

        assert(!drop->ending && drop->out == 0);
        drop->row = row;
        drop->row_next = next;
        memset(txn, 0, sizeof(*txn));
        eng_txn_init(txn, drop->store, 0, key, key_len);
        txn->pg = drop->store->pg_count;
        txn->internal = true;
        txn->prepare = row_remove_prepare;
        txn->done = row_removed;
        drop->ending = true;
        eng_txn_submit(txn);
}

static void remove_record(struct eng_drop *drop)
{
        assert(drop->clean && !drop->failed);
        drop_submit(drop, &drop->dead, drop->dead.data + 10, eng_dead_bucket_name_len(&drop->dead), next_record);
}

/* ---- its texts ------------------------------------------------------------------------------- */

static void drop_take_text(struct eng_drop *drop, const struct eng_scan_entry *e)
{
        uint8_t key[FMT_NAME_MAX];
        uint64_t bucket;
        size_t len;

        drop->text.len = e->name_len;
        memcpy(drop->text.data, eng_entry_name(e), e->name_len);
        if (eng_name_key(&drop->text, &bucket, key, &len) == 0 && len <= ENG_KEY_MAX)
                drop_submit(drop, &drop->text, key, len, next_text);
        else
                end_round(drop, true);
}

static void text_row_found(struct eng_op *op)
{
        struct eng_drop *drop = container_of(op, struct eng_drop, op);
        struct eng_buf *entries = op->result == 0 ? op->scan.entries : NULL;
        unsigned count = op->result == 0 ? op->scan.count : 0;

        if (drop->store->stopping)
                ;
        else if (op->result != 0)
                end_round(drop, true);
        else if (count == 0)
                remove_record(drop);
        else
                drop_take_text(drop, (const struct eng_scan_entry *)entries->data);
        eng_buf_unref(entries);
}

/* Asks a member for the first row that is left. */
static void next_text(struct eng_drop *drop)
{
        struct eng_store *store = drop->store;
        struct eng_op *op = &drop->op;
        int slot = eng_pg_reader(store->coord_loop, store->pg_count, drop->tried);

        if (slot < 0 || !store->coord->view.writable) {
                end_round(drop, true);
                return;
        }
        eng_name_texts(&drop->text, drop->bucket);
        eng_name_text(&drop->text_end, drop->bucket, ENG_ENTRY_KINDS, 0); /* an entry of this number is not the bucket's */
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->epoch = store->coord_loop->view.epoch;
        op->done = text_row_found;
        op->scan.from = drop->text.data;
        op->scan.from_len = drop->text.len;
        op->scan.after = true;
        op->scan.to = drop->text_end.data;
        op->scan.to_len = drop->text_end.len;
        op->scan.max = 1;
        eng_drive_submit(store->members[slot].drive, op);
}

/* ---- its uploads ----------------------------------------------------------------------------- */

static void drop_begin_walk(struct eng_drop *drop)
{
        assert(drop->running && drop->out == 0);
        drop->behind = false;
        drop->after_len = 0;
        drop->clean = true;
        drop->failed = drop->progress = false;
        list_page(drop);
}

/* The uploads of the last page are listed, and are not there: their members are compared. */
static void drop_compare(struct eng_drop *drop)
{
        struct eng_store *store = drop->store;
        unsigned i;

        for (i = 0; i < drop->count; i++)
                eng_upkeep_group(store, eng_pg_of_key(store->pg_count, drop->bucket, drop->uploads[i].key, drop->uploads[i].key_len));
}

static void drop_walk_ended(struct eng_drop *drop)
{
        bool vain = !drop->failed && !drop->clean && !drop->progress;

        if (vain)
                drop_compare(drop);
        if (drop->failed || vain)
                end_round(drop, true);
        else if (drop->clean)
                next_text(drop);
        else
                drop_begin_walk(drop); /* what was aborted must not be found again */
}

static void drop_rested(struct lp_timer *timer)
{
        list_page(container_of(timer, struct eng_drop, timer));
}

static void drop_page_done(struct eng_drop *drop)
{
        assert(drop->out == 0 && drop->next == drop->count);
        if (!drop->more) {
                drop_walk_ended(drop);
                return;
        }
        drop->timer.expired = drop_rested;
        lp_timer_start(drop->store->coord_loop->loop, &drop->timer, REST_NS);
}

static void abort_some(struct eng_drop *drop);

static void aborted(void *arg, int rv)
{
        struct eng_drop *drop = arg;

        assert(drop->out > 0);
        drop->out--;
        if (rv != 0 && rv != -ENOENT)
                drop->failed = true;
        drop->progress |= rv == 0;
        if (!drop->store->stopping)
                abort_some(drop);
}

static void abort_some(struct eng_drop *drop)
{
        while (drop->next < drop->count && drop->out < ABORTS && !drop->failed) {
                const struct upload *u = &drop->uploads[drop->next++];

                drop->out++;
                eng_upload_abort_dead(drop->store, drop->bucket, (struct eng_str){u->key, u->key_len}, u->id, aborted, drop);
        }
        if (drop->out > 0)
                return;
        if (drop->failed)
                drop_walk_ended(drop);
        else
                drop_page_done(drop);
}

static void keep_upload(struct eng_drop *drop, const struct eng_upload_entry *e)
{
        struct upload *u = &drop->uploads[drop->count++];

        assert(drop->count <= PAGE);
        u->key_len = (uint16_t)e->key.len;
        memcpy(u->key, e->key.data, e->key.len);
        memcpy(u->id, e->upload_id, FMT_ID);
        memcpy(drop->after, e->key.data, e->key.len);
        drop->after_len = e->key.len;
        memcpy(drop->after_id, e->upload_id, FMT_ID);
        drop->behind = true;
        drop->clean = false;
}

static void drop_uploads_listed(void *arg, int rv, const struct eng_upload_entry *entries, unsigned count, bool more)
{
        struct eng_drop *drop = arg;
        unsigned i;

        assert(drop->running && drop->out == 0);
        if (drop->store->stopping)
                return;
        drop->count = drop->next = 0;
        drop->more = more && count > 0;
        drop->failed = rv != 0;
        for (i = 0; rv == 0 && i < count && i < PAGE; i++)
                if (entries[i].key.len <= ENG_KEY_MAX) /* else nobody could have written it: it stays where it is */
                        keep_upload(drop, &entries[i]);
        drop->more = drop->more && drop->count > 0;
        abort_some(drop);
}

static void list_page(struct eng_drop *drop)
{
        struct eng_list_params p = {.bucket = drop->bucket, .max = PAGE};

        p.prefix.data = p.delimiter.data = "";
        p.after = (struct eng_str){drop->after, drop->after_len};
        eng_upload_list(drop->store, &p, drop->behind ? drop->after_id : NULL, drop_uploads_listed, drop);
}

/* ---- which buckets --------------------------------------------------------------------------- */

/* A bucket that is there is not dead, whatever a record says: it is left alone. */
static bool drop_is_dead(const struct eng_drop *drop)
{
        return drop->bucket != 0 && eng_bucket_by_id(drop->store->coord_loop, drop->bucket) == NULL;
}

static void drop_take_record(struct eng_drop *drop, const struct eng_scan_entry *e)
{
        size_t len;

        drop->from.len = e->name_len;
        memcpy(drop->from.data, eng_entry_name(e), e->name_len);
        drop->dead = drop->from;
        len = eng_dead_bucket_name_len(&drop->dead);
        if (len == 0) {
                next_record(drop);
                return;
        }
        memcpy(&drop->bucket, drop->dead.data + 10 + len + 1, sizeof(drop->bucket));
        if (drop_is_dead(drop))
                drop_begin_walk(drop);
        else
                next_record(drop);
}

static void record_found(struct eng_op *op)
{
        struct eng_drop *drop = container_of(op, struct eng_drop, op);
        struct eng_buf *entries = op->result == 0 ? op->scan.entries : NULL;
        unsigned count = op->result == 0 ? op->scan.count : 0;

        if (op->result != 0)
                drop->tried |= eng_bit(drop->slot);
        if (drop->store->stopping)
                ;
        else if (op->result != 0)
                next_record(drop);
        else if (count == 0)
                end_round(drop, false);
        else
                drop_take_record(drop, (const struct eng_scan_entry *)entries->data);
        eng_buf_unref(entries);
}

/* Asks a member for the next record; another one, if that does not answer. */
static void next_record(struct eng_drop *drop)
{
        struct eng_store *store = drop->store;
        struct eng_op *op = &drop->op;
        int slot = eng_pg_reader(store->coord_loop, store->pg_count, drop->tried);

        assert(eng_on_coordinator(store) && drop->running);
        if (slot < 0 || !store->coord->view.writable) {
                end_round(drop, true);
                return;
        }
        drop->slot = (unsigned)slot;
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->epoch = store->coord_loop->view.epoch;
        op->done = record_found;
        op->scan.from = drop->from.data;
        op->scan.from_len = drop->from.len;
        op->scan.after = true;
        op->scan.to = drop->to.data;
        op->scan.to_len = drop->to.len;
        op->scan.max = 1;
        eng_drive_submit(store->members[slot].drive, op);
}

bool eng_drop_make(struct eng_store *store)
{
        struct eng_drop *drop = calloc(1, sizeof(*drop));

        if (drop == NULL)
                return false;
        drop->store = store;
        drop->uploads = calloc(PAGE, sizeof(drop->uploads[0]));
        if (drop->uploads == NULL) {
                free(drop);
                return false;
        }
        store->coord->drop = drop;
        return true;
}

void eng_drop_consider(struct eng_store *store)
{
        const struct eng_coord *c = store->coord;
        struct eng_drop *drop = c->drop;

        if (c->store->stopping || c->phase != ENG_PHASE_OPEN)
                return;
        drop->again = drop->running;
        if (drop->running)
                return;
        drop->running = true;
        drop->waiting = false;
        lp_timer_stop(store->coord_loop->loop, &drop->timer);
        eng_name_space(&drop->from, FMT_SPACE_CONFIG, 0);
        drop->from.data[drop->from.len++] = 'd';
        drop->to = drop->from;
        eng_name_successor(&drop->to);
        drop->tried = 0;
        next_record(drop);
}

bool eng_drop_running(const struct eng_store *store)
{
        return store->coord->drop->running || store->coord->drop->waiting;
}

void eng_drop_free(struct eng_store *store)
{
        struct eng_drop *drop = store->coord->drop;

        if (drop == NULL)
                return;
        store->coord->drop = NULL;
        lp_timer_stop(store->coord_loop->loop, &drop->timer);
        if (drop->ending) {
                eng_txn_abandon(&drop->txn);
                eng_txn_drop(&drop->txn);
        }
        free(drop->uploads);
        free(drop);
}
