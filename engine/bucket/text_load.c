/*
 * text_load.c - texts of buckets and entries of the store, as recovery reads them from the members of
 * the CONFIG PG. Coordinator.
 *
 * As config_load.c has it for buckets: two members are read, and all of them if one cannot be read or
 * they differ. Of a text that members have differently the highest generation counts of which any member
 * has all pieces. One that some have and others have not is there unless most say that it is not. One
 * that is there, and that nobody has whole, is known to the loops as damaged: a policy that cannot be read
 * is not a bucket without policy.
 */
#include "engine/bucket/bucket.h"
#include "engine/bucket/bucket_queue.h"
#include "engine/bucket/bucket_text.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TEXTS_PAGE 64u                 /* rows, of up to 8 KiB */
#define TEXTS_BEGIN_WITH 2u            /* members */

/* What is known of one text. */
struct text_found {
        uint64_t bucket;
        unsigned kind;
        struct eng_text *text;         /* NULL: nobody has it whole so far */
        eng_mask holders;              /* members that have this one, and no other row of it */
        eng_mask named;                /* that have any row of it */
};

/* A text of which the rows are coming in. */
struct text_rows {
        bool any, whole, begun;        /* begun: bucket and kind are of a row of this member */
        uint64_t bucket;
        unsigned kind, next;           /* piece */
        struct fmt_text head;
        uint8_t *bytes;                /* ENG_TEXT_MAX */
};

/* owner: coordinator; scan: the drive while out */
struct eng_texts_loading {
        struct eng_store *store;
        void (*done)(void *arg, int rv);
        void *arg;
        struct eng_op scan;
        struct eng_name from, to;
        unsigned slot;                 /* being read */
        eng_mask tried, answered;
        struct text_found *found;      /* in order of bucket and kind; next: where the rows being merged have come to */
        unsigned count, size, next;
        struct text_found *merged;     /* what is before next, with this member's */
        unsigned merged_count, merged_size;
        struct text_rows rows;
        unsigned repair_at;
};

static void texts_read(struct eng_texts_loading *load);

void eng_texts_load_free(struct eng_texts_loading *load)
{
        unsigned i;

        if (load == NULL)
                return;
        for (i = load->next; i < load->count; i++) /* those before it are in merged */
                eng_text_unref(load->found[i].text);
        for (i = 0; i < load->merged_count; i++) /* no memory: the rest is in found, from next on */
                eng_text_unref(load->merged[i].text);
        free(load->found);
        free(load->merged);
        free(load->rows.bytes);
        free(load);
}

/* ---- one member's rows ----------------------------------------------------------------------- */

static int compare_text(const struct text_found *f, uint64_t bucket, unsigned kind)
{
        if (f->bucket != bucket)
                return f->bucket < bucket ? -1 : 1;
        return f->kind < kind ? -1 : f->kind > kind;
}

/* Behind all that was merged. NULL: no memory. */
static struct text_found *merged_add(struct eng_texts_loading *load, const struct text_found *one)
{
        unsigned size = load->merged_size == 0 ? 64 : 2 * load->merged_size;
        struct text_found *grown;

        if (load->merged_count == load->merged_size) {
                grown = realloc(load->merged, size * sizeof(*grown));
                if (grown == NULL)
                        return NULL;
                load->merged = grown;
                load->merged_size = size;
        }
        load->merged[load->merged_count] = *one;
        return &load->merged[load->merged_count++];
}

/* What is known of a text, which comes behind those of before. NULL: no memory. */
static struct text_found *texts_find(struct eng_texts_loading *load, uint64_t bucket, unsigned kind)
{
        struct text_found none = {.bucket = bucket, .kind = kind};
        int c = 1;

        while (load->next < load->count && (c = compare_text(&load->found[load->next], bucket, kind)) < 0) {
                if (merged_add(load, &load->found[load->next]) == NULL)
                        return NULL;
                load->next++;
        }
        if (load->next == load->count || c != 0)
                return merged_add(load, &none);
        return merged_add(load, &load->found[load->next++]);
}

/* The member has been read: what it did not name comes along. */
static int texts_merged(struct eng_texts_loading *load)
{
        struct text_found *former = load->found;
        unsigned size = load->size;

        for (; load->next < load->count; load->next++)
                if (merged_add(load, &load->found[load->next]) == NULL)
                        return -ENOMEM;
        load->found = load->merged;
        load->count = load->merged_count;
        load->size = load->merged_size;
        load->merged = former;
        load->merged_size = size;
        load->merged_count = load->next = 0;
        return 0;
}

static bool text_is(const struct eng_text *text, const struct fmt_text *head)
{
        return text->generation == head->generation && text->len == head->len && text->crc == head->crc;
}

/* All rows of a text of this member were seen. */
static int texts_take(struct eng_texts_loading *load)
{
        struct text_rows *rows = &load->rows;
        struct text_found *f;
        struct eng_text *text;
        bool whole = rows->whole && rows->head.len > (rows->next - 1) * FMT_TEXT_PIECE && rows->head.len <= rows->next * FMT_TEXT_PIECE &&
                     era_crc32c(0, rows->bytes, rows->head.len) == rows->head.crc;

        if (!rows->any)
                return 0;
        rows->any = false;
        f = texts_find(load, rows->bucket, rows->kind);
        if (f == NULL)
                return -ENOMEM;
        f->named |= eng_bit(load->slot);
        if (!whole)
                return 0;
        if (f->text != NULL && text_is(f->text, &rows->head)) {
                f->holders |= eng_bit(load->slot);
        } else if (f->text == NULL || rows->head.generation > f->text->generation) {
                text = eng_text_new(rows->kind, rows->bytes, rows->head.len);
                if (text == NULL)
                        return -ENOMEM;
                text->generation = rows->head.generation;
                eng_text_unref(f->text);
                f->text = text;
                f->holders = eng_bit(load->slot);
        }
        return 0;
}

/* One more piece. */
static void texts_add(struct text_rows *rows, unsigned piece, const uint8_t *attrs, size_t len)
{
        struct fmt_text head;
        size_t at = (size_t)piece * FMT_TEXT_PIECE, want;

        if (piece == 0 && len > sizeof(head)) {
                memcpy(&rows->head, attrs, sizeof(rows->head));
                rows->whole = rows->head.len > 0 && rows->head.len <= ENG_TEXT_MAX;
        }
        rows->whole = rows->whole && piece == rows->next && len > sizeof(head) && at < rows->head.len;
        rows->next++;
        if (!rows->whole)
                return;
        memcpy(&head, attrs, sizeof(head));
        want = rows->head.len - at < FMT_TEXT_PIECE ? rows->head.len - at : FMT_TEXT_PIECE;
        rows->whole = memcmp(&head, &rows->head, sizeof(head)) == 0 && len - sizeof(head) == want;
        if (rows->whole)
                memcpy(rows->bytes + at, attrs + sizeof(head), want);
}

static int texts_row(struct eng_texts_loading *load, const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len)
{
        struct text_rows *rows = &load->rows;
        struct fmt_value v;
        unsigned kind, piece;
        uint64_t bucket;
        int rv = 0;

        if (!eng_text_name(name, name_len, &bucket, &kind, &piece))
                return 0; /* none of ours */
        if (!rows->any || rows->bucket != bucket || rows->kind != kind) {
                if (rows->begun && (bucket < rows->bucket || (bucket == rows->bucket && kind <= rows->kind)))
                        return -EBADMSG; /* names come in order */
                rv = texts_take(load);
                rows->any = rows->begun = true;
                rows->whole = false;
                rows->next = 0;
                rows->bucket = bucket;
                rows->kind = kind;
        }
        memcpy(&v, value, sizeof(v));
        texts_add(rows, piece, value + sizeof(v), value_len >= sizeof(v) + v.attrs_len ? v.attrs_len : 0);
        return rv;
}

static int texts_page(struct eng_texts_loading *load)
{
        const struct eng_op *op = &load->scan;
        const uint8_t *p = op->scan.entries == NULL ? NULL : op->scan.entries->data;
        uint32_t i;
        int rv = 0;

        for (i = 0; p != NULL && rv == 0 && i < op->scan.count; i++) {
                const struct eng_scan_entry *e = (const struct eng_scan_entry *)p;
                const uint8_t *name = eng_entry_name(e);

                if (e->value_len < sizeof(struct fmt_value))
                        return -EBADMSG;
                rv = texts_row(load, name, e->name_len, name + e->name_len, e->value_len);
                load->from.len = e->name_len;
                memcpy(load->from.data, name, e->name_len);
                p += e->size;
        }
        return rv;
}

/* ---- members --------------------------------------------------------------------------------- */

static bool texts_agree(const struct eng_texts_loading *load)
{
        unsigned i;

        for (i = 0; i < load->count; i++)
                if (load->found[i].holders != load->answered)
                        return false;
        return true;
}

static void texts_member(struct eng_texts_loading *load)
{
        const struct eng_view *view = &load->store->coord->view;
        eng_mask left = eng_speakers(view, load->store->pg_count) & view->up & ~load->tried;
        bool enough = (unsigned)__builtin_popcountll(load->answered) >= TEXTS_BEGIN_WITH && load->tried == load->answered && texts_agree(load);

        if (enough || left == 0) {
                load->done(load->arg, load->answered == 0 ? -EIO : 0);
                return;
        }
        load->slot = (unsigned)__builtin_ctzll(left);
        load->tried |= eng_bit(load->slot);
        load->next = 0;
        load->rows.any = load->rows.begun = false;
        eng_name_space(&load->from, FMT_SPACE_CONFIG, 0);
        load->from.data[load->from.len++] = 'c';
        load->to = load->from;
        eng_name_successor(&load->to);
        texts_read(load);
}

static void texts_answered(struct eng_op *op)
{
        struct eng_texts_loading *load = container_of(op, struct eng_texts_loading, scan);
        bool more = op->result == 0 && op->scan.more;
        int rv = op->result;

        assert((load->tried & eng_bit(load->slot)) != 0);
        if (rv == 0)
                rv = texts_page(load);
        if (op->result == 0)
                eng_buf_unref(op->scan.entries);
        if (rv == 0 && !more)
                rv = texts_take(load);
        if (rv == 0 && more) {
                texts_read(load);
                return;
        }
        if (rv != -ENOMEM && texts_merged(load) != 0)
                rv = -ENOMEM;
        if (rv == -ENOMEM) {
                load->done(load->arg, rv);
        } else {
                load->answered |= rv == 0 ? eng_bit(load->slot) : 0;
                texts_member(load);
        }
}

static void texts_read(struct eng_texts_loading *load)
{
        struct eng_op *op = &load->scan;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->flags = ENG_OP_WANT_ATTRS;
        op->epoch = load->store->coord->view.epoch;
        op->done = texts_answered;
        op->scan.from = load->from.data;
        op->scan.from_len = load->from.len;
        op->scan.after = true;
        op->scan.to = load->to.data;
        op->scan.to_len = load->to.len;
        op->scan.max = TEXTS_PAGE;
        eng_drive_submit(load->store->members[load->slot].drive, op);
}

struct eng_texts_loading *eng_texts_new(struct eng_store *store, void (*done)(void *arg, int rv), void *arg)
{
        struct eng_texts_loading *load = calloc(1, sizeof(*load));

        if (load == NULL)
                return NULL;
        load->rows.bytes = malloc(ENG_TEXT_MAX);
        if (load->rows.bytes == NULL) {
                free(load);
                return NULL;
        }
        load->store = store;
        load->done = done;
        load->arg = arg;
        return load;
}

void eng_texts_load(struct eng_texts_loading *load)
{
        texts_member(load);
}

/* ---- what they say --------------------------------------------------------------------------- */

static bool text_is_there(const struct eng_texts_loading *load, const struct text_found *f)
{
        return eng_row_is_there(f->named, load->answered);
}

/* Those that nobody has whole. */
static int texts_mark_damaged(struct eng_texts_loading *load)
{
        unsigned i;

        for (i = 0; i < load->count; i++) {
                struct text_found *f = &load->found[i];

                if (f->text != NULL)
                        continue;
                f->text = eng_text_new(f->kind, NULL, 0);
                if (f->text == NULL)
                        return -ENOMEM;
                f->text->damaged = true;
        }
        return 0;
}

int eng_texts_settle(struct eng_texts_loading *load)
{
        int rv = texts_mark_damaged(load);
        uint64_t bytes = 0;
        unsigned i;

        for (i = 0; rv == 0 && i < load->count; i++) {
                if (!text_is_there(load, &load->found[i]))
                        continue;
                bytes += load->found[i].text->len;
                if (eng_is_entry(load->found[i].kind))
                        eng_entry_load(load->store, load->found[i].bucket, load->found[i].text);
        }
        eng_config_of(load->store)->text_bytes = bytes;
        return rv;
}

/* Entries are for all loops already. Rows of a bucket that is not there are what a deletion has left; they are dropped with the rest. */
int eng_texts_give(struct eng_loop *el, const struct eng_texts_loading *load)
{
        struct eng_config_bucket *b;
        struct eng_bucket_text *node;
        unsigned i;

        for (i = 0; i < load->count; i++) {
                const struct text_found *f = &load->found[i];

                b = eng_is_entry(f->kind) ? NULL : eng_bucket_by_id(el, f->bucket);
                if (b == NULL || !text_is_there(load, f))
                        continue;
                node = calloc(1, sizeof(*node));
                if (node == NULL)
                        return -ENOMEM;
                eng_text_put(b, f->kind, f->text, node);
        }
        return 0;
}

/* ---- repairs --------------------------------------------------------------------------------- */

bool eng_texts_differ(const struct eng_texts_loading *load)
{
        return load->tried != load->answered || !texts_agree(load);
}

int eng_texts_repair(struct eng_texts_loading *load, eng_done done, void *arg)
{
        for (; load->repair_at < load->count; load->repair_at++) {
                const struct text_found *f = &load->found[load->repair_at];

                if (text_is_there(load, f) && (load->tried & ~f->holders) != 0)
                        return eng_text_rewrite(load->store, f->bucket, f->kind, done, arg);
        }
        return -ENOENT;
}

void eng_texts_repaired(struct eng_texts_loading *load)
{
        load->repair_at++;
}
