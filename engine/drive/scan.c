/*
 * scan.c - SCAN: visible names in order, merged from the active generation, the frozen one and the
 * index.
 *
 * All three are in bytewise order. At each step the least name wins, and among equals the newest
 * source; a tombstone there hides the name below. With a delimiter all names under a common prefix
 * make one entry, and the sources seek past it. A scan that meets much it may not give (tombstones,
 * other groups) works in slices, one per message, so that it never holds the loop; nothing but the
 * last name is kept between slices, so no snapshot of the index stays open. A page of the index
 * that is not in memory ends a slice, too: the next one begins when it has been read.
 *
 * owner: the loop.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_STEPS  2000u      /* names looked at before others get their turn */
#define UPLOAD_TAIL  (2u + FMT_ID) /* behind the key in the name of an upload */
#define ANSWER_BYTES (8u << 20) /* an answer this long ends with more = true */
#define ENTRY_ALIGN  8u

enum source { ACTIVE, FROZEN, INDEX, SOURCES };

/* Where one source stands. name NULL: at its end. */
struct cursor {
        const uint8_t *name;
        size_t name_len;
        const struct eng_memtable_name *entry; /* of a generation */
        struct eng_index_entry found;      /* of the index */
};

/* One SCAN under way. */
struct scan {
        struct eng_local *l;
        struct eng_op *op;
        struct lp_msg msg;
        struct eng_page_wait wait;
        struct cursor at[SOURCES];
        struct eng_buf *out;
        size_t out_size;
        uint32_t count;
        bool more;
        /* where the next slice begins */
        uint8_t from[FMT_NAME_MAX + 1];
        size_t from_len;
        bool after, ended;
};

/* ---- answer ---------------------------------------------------------------------------------- */

static int grow(struct scan *scan, size_t need)
{
        size_t size = scan->out_size;
        struct eng_buf *bigger;

        while (size < need)
                size = size == 0 ? 4096 : 2 * size;
        if (size == scan->out_size)
                return 0;
        bigger = eng_buf_new(size);
        if (bigger == NULL)
                return -ENOMEM;
        bigger->len = 0;
        if (scan->out != NULL) {
                memcpy(bigger->data, scan->out->data, scan->out->len);
                bigger->len = scan->out->len;
        }
        eng_buf_unref(scan->out);
        scan->out = bigger;
        scan->out_size = size;
        return 0;
}

static int scan_emit(struct scan *scan, const uint8_t *name, size_t name_len, uint16_t flags, const uint8_t *value,
                size_t value_len)
{
        struct eng_scan_entry head = {.name_len = (uint16_t)name_len, .flags = flags, .value_len = (uint32_t)value_len};
        size_t used = sizeof(head) + name_len + value_len;
        size_t size = eng_round_up(used, ENTRY_ALIGN), len = scan->out != NULL ? scan->out->len : 0;
        uint8_t *to;
        int rv = grow(scan, len + size);

        if (rv != 0)
                return rv;
        head.size = (uint32_t)size;
        to = scan->out->data + len;
        memcpy(to, &head, sizeof(head));
        memcpy(to + sizeof(head), name, name_len);
        if (value_len > 0)
                memcpy(to + sizeof(head) + name_len, value, value_len);
        memset(to + used, 0, size - used);
        scan->out->len = (uint32_t)(len + size);
        scan->count++;
        return 0;
}

static size_t wanted_length(const struct scan *scan, const struct fmt_value *head, size_t whole)
{
        if ((scan->op->flags & ENG_OP_WANT_PARTS) != 0)
                return whole;
        return sizeof(*head) + ((scan->op->flags & ENG_OP_WANT_ATTRS) != 0 ? head->attrs_len : 0);
}

static int emit_value(struct scan *scan, const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len)
{
        size_t before = scan->out != NULL ? scan->out->len : 0, len;
        struct fmt_value head;
        int rv;

        assert(value_len >= sizeof(head));
        memcpy(&head, value, sizeof(head));
        len = wanted_length(scan, &head, value_len);
        if (len > value_len)
                return -EBADMSG;
        rv = scan_emit(scan, name, name_len, 0, value, len);
        if (rv != 0)
                return rv;
        memset(scan->out->data + before + sizeof(struct eng_scan_entry) + name_len + offsetof(struct fmt_value, crc), 0,
               sizeof(head.crc)); /* the index's own */
        return 0;
}

/* ---- sources --------------------------------------------------------------------------------- */

static const struct eng_memtable *tail_of(const struct scan *scan, enum source source)
{
        return source == ACTIVE ? scan->l->active : scan->l->frozen;
}

/* A cursor at entry, or behind it as long as it is not a name of its own. */
static void set_tail(struct cursor *cursor, const struct eng_memtable_name *entry)
{
        while (entry != NULL && entry->kind == ENG_MEMTABLE_RANGE)
                entry = eng_memtable_next(entry);
        cursor->entry = entry;
        cursor->name = entry != NULL ? entry->name : NULL;
        cursor->name_len = entry != NULL ? entry->name_len : 0;
}

/* rv of eng_index_seek or _next. */
static int set_index(struct scan *scan, int rv)
{
        struct cursor *cursor = &scan->at[INDEX];

        cursor->name = NULL;
        if (rv == -ENOENT)
                return 0;
        if (rv != 0)
                return rv;
        cursor->name = cursor->found.name;
        cursor->name_len = cursor->found.name_len;
        return 0;
}

static int seek_all(struct scan *scan, const uint8_t *name, size_t len, bool after)
{
        enum source s;

        for (s = ACTIVE; s <= FROZEN; s++)
                set_tail(&scan->at[s],
                         tail_of(scan, s) != NULL ? eng_memtable_seek(tail_of(scan, s), name, len, after) : NULL);
        return set_index(scan, eng_index_seek(scan->l->reader, name, len, after, &scan->at[INDEX].found));
}

static int scan_advance(struct scan *scan, enum source source)
{
        if (source == INDEX)
                return set_index(scan, eng_index_next(scan->l->reader, &scan->at[INDEX].found));
        set_tail(&scan->at[source], eng_memtable_next(scan->at[source].entry));
        return 0;
}

/* The source that has the least name, the newest among equals; SOURCES: all are at their end. */
static enum source scan_least(const struct scan *scan)
{
        enum source s, best = SOURCES;

        for (s = ACTIVE; s < SOURCES; s++) {
                if (scan->at[s].name == NULL)
                        continue;
                if (best == SOURCES || eng_name_compare(scan->at[s].name, scan->at[s].name_len, scan->at[best].name,
                                                        scan->at[best].name_len) < 0)
                        best = s;
        }
        return best;
}

/*
 * What comes next begins behind the name that source stands at: should that need a page that is not
 * there.
 */
static void scan_remember(struct scan *scan, enum source source)
{
        assert(scan->at[source].name_len <= FMT_NAME_MAX);
        memcpy(scan->from, scan->at[source].name, scan->at[source].name_len);
        scan->from_len = scan->at[source].name_len;
        scan->after = true;
}

/* Steps over the name that source stands at, in all sources. */
static int scan_step_over(struct scan *scan, enum source source)
{
        enum source s;
        int rv = 0;

        scan_remember(scan, source);
        for (s = SOURCES; s-- > ACTIVE && rv == 0;) { /* source itself last: its name is compared with */
                if (s == source || scan->at[s].name == NULL ||
                    eng_name_compare(scan->at[s].name, scan->at[s].name_len, scan->at[source].name,
                                     scan->at[source].name_len) != 0)
                        continue;
                rv = scan_advance(scan, s);
        }
        return rv != 0 ? rv : scan_advance(scan, source);
}

/* ---- one name -------------------------------------------------------------------------------- */

static void value_at(const struct scan *scan, enum source source, const uint8_t **value, size_t *len)
{
        if (source == INDEX) {
                *value = scan->at[INDEX].found.value;
                *len = scan->at[INDEX].found.value_len;
                return;
        }
        assert(scan->at[source].entry->kind == ENG_MEMTABLE_PUT);
        *value = scan->at[source].entry->value->data;
        *len = scan->at[source].entry->value->len;
}

static bool pg_wanted(const struct scan *scan, uint32_t pg)
{
        const uint64_t *pgs = scan->op->scan.pgs;

        if (pgs == NULL)
                return true;
        if (scan->op->scan.pg_words != 0 && pg / 64 >= scan->op->scan.pg_words)
                return false;
        return (pgs[pg / 64] >> pg % 64 & 1) != 0;
}

/* The name at source is visible and of a group that was asked for. */
static bool scan_is_wanted(const struct scan *scan, enum source source)
{
        const struct cursor *cursor = &scan->at[source];
        const uint8_t *value;
        uint64_t seq;
        uint32_t pg;
        size_t len;

        if (source != INDEX && cursor->entry->kind != ENG_MEMTABLE_PUT)
                return false;
        value_at(scan, source, &value, &len);
        memcpy(&pg, value + offsetof(struct fmt_value, pg), sizeof(pg)); /* most names of a listing are of other groups */
        if (!pg_wanted(scan, pg))
                return false;
        memcpy(&seq, value + offsetof(struct fmt_value, seq), sizeof(seq));
        if (source >= FROZEN && eng_memtable_hides(scan->l->active, cursor->name, cursor->name_len, seq))
                return false;
        if (source == INDEX && scan->l->frozen != NULL &&
            eng_memtable_hides(scan->l->frozen, cursor->name, cursor->name_len, seq))
                return false;
        return true;
}

/* Length of the common prefix that a name collapses to, 0: none. */
static size_t scan_common_prefix(const struct eng_op *op, const uint8_t *name, size_t len)
{
        const uint8_t *found;

        if (op->scan.delimiter == NULL || op->scan.delimiter_len == 0)
                return 0;
        if (len >= UPLOAD_TAIL && name[0] == FMT_SPACE_UPLOAD)
                len -= UPLOAD_TAIL; /* the key only: an id may hold any byte */
        if (len < op->scan.prefix_len)
                return 0;
        found = memmem(name + op->scan.prefix_len, len - op->scan.prefix_len, op->scan.delimiter,
                       op->scan.delimiter_len);
        return found == NULL ? 0 : (size_t)(found - name) + op->scan.delimiter_len;
}

/* The least name above all that begin with this one: from is set to it. */
static void skip_prefix(struct scan *scan, const uint8_t *prefix, size_t len)
{
        memmove(scan->from, prefix, len);
        while (len > 0 && scan->from[len - 1] == 0xff)
                len--;
        scan->ended = len == 0;
        if (len > 0)
                scan->from[len - 1]++;
        scan->from_len = len;
        scan->after = false;
}

/* ---- the scan -------------------------------------------------------------------------------- */

static bool scan_is_full(const struct scan *scan)
{
        uint32_t most = scan->op->scan.most != 0 ? scan->op->scan.most : ANSWER_BYTES;

        return scan->count == scan->op->scan.max || (scan->out != NULL && scan->out->len >= most);
}

static bool beyond(const struct scan *scan, const struct cursor *cursor)
{
        const struct eng_op *op = scan->op;

        return op->scan.to != NULL &&
               eng_name_compare(cursor->name, cursor->name_len, op->scan.to, op->scan.to_len) >= 0;
}

/*
 * Gives the name at source, or the prefix it belongs to, and steps on. 1: the answer is full before
 * it.
 */
static int scan_give(struct scan *scan, enum source source)
{
        const struct cursor *cursor = &scan->at[source];
        size_t prefix = scan_common_prefix(scan->op, cursor->name, cursor->name_len), len;
        const uint8_t *value;
        int rv;

        if (scan_is_full(scan))
                return 1;
        if (prefix == 0) {
                value_at(scan, source, &value, &len);
                rv = emit_value(scan, cursor->name, cursor->name_len, value, len);
                return rv != 0 ? rv : scan_step_over(scan, source);
        }
        rv = scan_emit(scan, cursor->name, prefix, 1, NULL, 0);
        if (rv != 0)
                return rv;
        skip_prefix(scan, cursor->name, prefix);
        return scan->ended ? 0 : seek_all(scan, scan->from, scan->from_len, false);
}

/* Works until the end, a full answer, or the end of the slice. 1: done; 0: another slice. */
static int run_slice(struct scan *scan)
{
        enum source source;
        unsigned steps;
        int rv;

        rv = seek_all(scan, scan->from, scan->from_len, scan->after);
        if (rv == 0)
                scan->wait.tries = 0;
        for (steps = 0; rv == 0; steps++) {
                source = scan->ended ? SOURCES : scan_least(scan);
                if (source == SOURCES || beyond(scan, &scan->at[source]))
                        return 1;
                if (steps >= SLICE_STEPS) {
                        memcpy(scan->from, scan->at[source].name, scan->at[source].name_len);
                        scan->from_len = scan->at[source].name_len;
                        scan->after = false;
                        return 0;
                }
                rv = scan_is_wanted(scan, source) ? scan_give(scan, source) : scan_step_over(scan, source);
        }
        scan->more = rv == 1;
        return rv;
}

static void scan_finish(struct scan *scan, int rv)
{
        struct eng_op *op = scan->op;

        assert(rv == -ECANCELED || (op->scan.entries == NULL && scan->count <= op->scan.max)); /* cancelled: the op may be gone */
        if (rv == 0 && scan->out == NULL) {
                scan->out = eng_buf_new(0);
                rv = scan->out == NULL ? -ENOMEM : 0;
        }
        if (rv == 0) {
                op->scan.entries = scan->out;
                op->scan.count = scan->count;
                op->scan.more = scan->more;
        } else {
                eng_buf_unref(scan->out);
        }
        if (rv != -ECANCELED)
                eng_local_answer(op, rv == -ENOMEM ? -EAGAIN : rv);
        free(scan);
}

static void slice(struct scan *scan)
{
        struct eng_local *l = scan->l;
        int rv = eng_index_read_begin(l->reader);

        if (rv == 0) {
                rv = run_slice(scan);
                eng_index_read_end(l->reader);
        }
        if (rv == ENG_INDEX_ABSENT) {
                eng_pages_wait(l, &scan->wait);
                return;
        }
        eng_local_index_error(l, rv);
        if (rv != 0) {
                scan_finish(scan, rv == 1 ? 0 : rv);
                return;
        }
        eng_local_hold(l);
        lp_post(l->drive.owner, &scan->msg);
}

static void scan_next_slice(struct lp_msg *msg)
{
        struct scan *scan = container_of(msg, struct scan, msg);

        if (!eng_local_release(scan->l))
                scan_finish(scan, -ECANCELED);
        else if (eng_local_failed(scan->l))
                scan_finish(scan, -EIO);
        else
                slice(scan);
}

static void scan_again(struct eng_local *l, struct eng_page_wait *wait, int rv)
{
        struct scan *scan = container_of(wait, struct scan, wait);

        (void)l;
        if (rv == 0)
                slice(scan);
        else
                scan_finish(scan, rv);
}

static int check_scan(const struct eng_op *op)
{
        return op->scan.from_len <= FMT_NAME_MAX && op->scan.to_len <= FMT_NAME_MAX && op->scan.max > 0 ? 0 : -EINVAL;
}

void eng_scan_op(struct eng_local *l, struct eng_op *op)
{
        struct scan *scan;
        size_t prefix;
        int rv = check_scan(op);

        op->scan.entries = NULL;
        op->scan.count = 0;
        op->scan.more = false;
        scan = rv == 0 ? calloc(1, sizeof(*scan)) : NULL;
        if (scan == NULL) {
                eng_local_answer(op, rv != 0 ? rv : -EAGAIN);
                return;
        }
        scan->l = l;
        scan->op = op;
        scan->from_len = op->scan.from_len;
        if (scan->from_len > 0)
                memcpy(scan->from, op->scan.from, scan->from_len);
        scan->after = op->scan.after;
        /* Going on after a name under a common prefix: that prefix was given before. */
        prefix = scan->after ? scan_common_prefix(op, scan->from, scan->from_len) : 0;
        if (prefix > 0)
                skip_prefix(scan, scan->from, prefix);
        scan->msg.run = scan_next_slice;
        scan->wait.again = scan_again;
        slice(scan);
}
