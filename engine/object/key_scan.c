/*
 * key_scan.c - searches the VERSION rows of one key: for the next newest one, for what the key's
 * head would say, for the version that an upload made.
 *
 * A scan that failed is no answer, and that there is no version must be as sure as any other
 * absence: words.c judges what members say. The scan begins at the key's first version, so that a
 * head which is older than its versions is noticed. The primary loop of the key, with the key
 * locked.
 */
#include "engine/object/key_rows.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Rows per page, and pages that a member is asked for. */
static const struct {
        unsigned rows, pages; /* pages 0: as many as there are */
} scan_limits[] = {
        [ENG_SCAN_NEWEST] = {8, 1},    /* rows above the head's newest are an exception */
        [ENG_SCAN_HEAD] = {500, 0},    /* the null version may be the oldest; the key stays locked meanwhile */
        [ENG_SCAN_UPLOAD] = {500, 4},
};

static void scan_ask(struct eng_key_scan *scan);
static void key_scan_next(struct eng_key_scan *scan);

/* ---- the rows of one member ------------------------------------------------------------------ */

/* True: this member has said what is wanted. */
static bool key_scan_row(struct eng_key_scan *scan, uint64_t number, const struct fmt_value *v)
{
        struct eng_key_scan_found *here = &scan->here;

        switch (scan->what) {
        case ENG_SCAN_NEWEST:
                if (number > scan->skip && here->above == 0) {
                        here->above = number;
                        here->above_value = *v;
                }
                if (number >= scan->skip)
                        return false;
                here->number = number;
                here->value = *v;
                return true;
        case ENG_SCAN_HEAD:
                if (here->number == 0) {
                        here->number = number;
                        here->value = *v;
                }
                if ((v->state & FMT_STATE_NULL) == 0)
                        return false;
                if (number > scan->head.null_number) {
                        scan->head.null_number = number;
                        memcpy(scan->head.null_id, v->id, FMT_ID);
                }
                return true;
        case ENG_SCAN_UPLOAD:
                if (memcmp(v->upload_id, scan->upload_id, FMT_ID) != 0)
                        return false;
                here->number = number;
                here->value = *v;
                return true;
        }
        return false;
}

/* Takes a page. 1: the member has said what is wanted; 0: not yet; -EIO. */
static int key_scan_page(struct eng_key_scan *scan, const struct eng_op *op)
{
        const uint8_t *at = op->scan.entries->data;
        struct fmt_value v;
        uint32_t i;

        for (i = 0; i < op->scan.count; i++) {
                const struct eng_scan_entry *e = (const struct eng_scan_entry *)at;
                const uint8_t *name = eng_entry_name(e);

                if (e->name_len <= sizeof(uint64_t) || name[0] != FMT_SPACE_VERSION || e->value_len < sizeof(v))
                        return -EIO;
                memcpy(&v, name + e->name_len, sizeof(v));
                memcpy(scan->from.data, name, e->name_len);
                scan->from.len = e->name_len;
                if (key_scan_row(scan, eng_name_version_number(name, e->name_len), &v))
                        return 1;
                at += e->size;
        }
        return 0;
}

/* ---- what members say ------------------------------------------------------------------------ */

static void key_scan_merge(struct eng_key_scan *scan)
{
        struct eng_key_scan_found *here = &scan->here, *all = &scan->all;

        scan->answers++;
        if (here->above != 0 && here->above == all->above)
                scan->above_count++;
        if (here->above > all->above) {
                all->above = here->above;
                all->above_value = here->above_value;
                scan->above_count = 1;
        }
        if (here->number > all->number) {
                all->number = here->number;
                all->value = here->value;
        }
}

/* All that this member has of the key was seen, or enough of it. */
static void key_scan_member_over(struct eng_key_scan *scan)
{
        const struct eng_view *view = &scan->txn->at->view;

        if (!eng_may_say_absent(view, scan->txn->pg, scan->words.slot)) {
                key_scan_next(scan);
                return;
        }
        if (scan->here.number != 0 || scan->here.above != 0) {
                key_scan_merge(scan);
                eng_words_take(&scan->words, view, scan->txn->pg, 0);
        } else {
                eng_words_take(&scan->words, view, scan->txn->pg, -ENOENT);
        }
        key_scan_next(scan);
}

static void key_scan_came(struct eng_op *op)
{
        struct eng_key_scan *scan = container_of(op, struct eng_key_scan, op);
        int rv;

        assert(scan->txn->state == ENG_TXN_PREPARE);
        if (op->result != 0) {
                if (op->result == -EBADMSG)
                        eng_words_take(&scan->words, &scan->txn->at->view, scan->txn->pg, -EBADMSG);
                key_scan_next(scan);
                return;
        }
        rv = key_scan_page(scan, op);
        eng_buf_unref(op->scan.entries);
        if (rv == 0 && op->scan.more) {
                if (scan_limits[scan->what].pages == 0 || ++scan->pages < scan_limits[scan->what].pages)
                        scan_ask(scan);
                else if (scan->what == ENG_SCAN_UPLOAD)
                        key_scan_member_over(scan);
                else
                        key_scan_next(scan); /* it could not be searched */
        } else if (rv < 0) {
                key_scan_next(scan);
        } else {
                key_scan_member_over(scan);
        }
}

/* ---- members --------------------------------------------------------------------------------- */

static void scan_ask(struct eng_key_scan *scan)
{
        struct eng_txn *txn = scan->txn;
        struct eng_op *op = &scan->op;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->epoch = txn->at->view.epoch;
        op->done = key_scan_came;
        op->scan.from = scan->from.data;
        op->scan.from_len = scan->from.len;
        op->scan.after = true;
        op->scan.to = scan->to.data;
        op->scan.to_len = scan->to.len;
        op->scan.max = scan_limits[scan->what].rows;
        eng_drive_submit(txn->store->members[scan->words.slot].drive, op);
}

/*
 * Of rows above the newest that the head names, one is there only if most members have it: what the
 * head says outvotes a tie.
 */
static int key_scan_settle(struct eng_key_scan *scan)
{
        const struct eng_key_scan_found *all = &scan->all;
        unsigned said = scan->answers + (unsigned)__builtin_popcountll(scan->words.absent);
        bool above = all->above != 0 && 2 * scan->above_count > said;

        if (all->above != 0)
                eng_upkeep_group(scan->txn->store, scan->txn->pg);
        if (!above && all->number == 0)
                return -EHOSTDOWN;
        scan->head.newest = above ? all->above : all->number;
        scan->value = eng_buf_new(sizeof(struct fmt_value));
        if (scan->value == NULL)
                return -ENOMEM;
        memcpy(scan->value->data, above ? &all->above_value : &all->value, sizeof(struct fmt_value));
        return 0;
}

/* Asks the next member, or ends. */
static void key_scan_next(struct eng_key_scan *scan)
{
        struct eng_txn *txn = scan->txn;
        unsigned enough = scan->what == ENG_SCAN_UPLOAD ? 1 : 2;
        bool heard;
        int slot;

        if (eng_words_absent(&scan->words, &txn->at->view, txn->pg)) {
                scan->done(scan, -ENOENT);
                return;
        }
        slot = scan->answers >= enough ? -1 : eng_pg_reader(txn->at, txn->pg, scan->words.asked);
        if (slot < 0) {
                heard = scan->answers > 0 && eng_words_heard(&scan->words, &txn->at->view, txn->pg, enough);
                scan->done(scan, heard ? key_scan_settle(scan) : -EHOSTDOWN);
                return;
        }
        scan->words.slot = (unsigned)slot;
        scan->words.asked |= eng_bit(scan->words.slot);
        memset(&scan->here, 0, sizeof(scan->here));
        scan->pages = 0;
        eng_name_versions(&scan->from, txn->bucket, txn->key, txn->key_len);
        scan_ask(scan);
}

void eng_key_scan_start(struct eng_key_scan *scan, struct eng_txn *txn)
{
        assert(txn->state == ENG_TXN_PREPARE && scan->done != NULL && scan->value == NULL);
        scan->txn = txn;
        scan->answers = scan->above_count = 0;
        memset(&scan->all, 0, sizeof(scan->all));
        memset(&scan->head, 0, sizeof(scan->head));
        eng_words_begin(&scan->words, &txn->at->view, txn->pg);
        eng_name_versions(&scan->to, txn->bucket, txn->key, txn->key_len);
        eng_name_successor(&scan->to);
        key_scan_next(scan);
}
