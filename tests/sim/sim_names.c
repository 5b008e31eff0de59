/*
 * sim_names.c - the names of one simulated drive: applying records, and SCAN.
 *
 * Says the same as engine/drive/{tail,append,scan}.c by simpler means: one sorted list in memory
 * instead of two generations and an index.
 */
#include "tests/sim/sim_alloc.h"
#include "tests/sim/sim_names.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive/memtable.h"

/* ---- the list -------------------------------------------------------------------------------- */

static int compare(const struct sim_name *entry, const uint8_t *name, size_t len)
{
        return eng_name_compare(entry->name->data, entry->name->len, name, len);
}

unsigned sim_names_seek(const struct sim_names *names, const uint8_t *name, size_t len, bool after)
{
        unsigned lo = 0, hi = names->count;

        while (lo < hi) {
                unsigned mid = (lo + hi) / 2;

                if (compare(&names->items[mid], name, len) < (after ? 1 : 0))
                        lo = mid + 1;
                else
                        hi = mid;
        }
        return lo;
}

struct sim_name *sim_names_find(const struct sim_names *names, const uint8_t *name, size_t len)
{
        unsigned at = sim_names_seek(names, name, len, false);

        return at < names->count && compare(&names->items[at], name, len) == 0 ? &names->items[at] : NULL;
}

static void reserve(struct sim_names *names, unsigned count)
{
        if (count <= names->size)
                return;
        names->size = count + 32;
        names->items = realloc(names->items, names->size * sizeof(names->items[0]));
        assert(names->items != NULL);
}

struct sim_name *sim_names_get(struct sim_names *names, const uint8_t *name, size_t len)
{
        unsigned at = sim_names_seek(names, name, len, false);

        if (at < names->count && compare(&names->items[at], name, len) == 0)
                return &names->items[at];
        reserve(names, names->count + 1);
        memmove(&names->items[at + 1], &names->items[at], (names->count - at) * sizeof(names->items[0]));
        names->count++;
        memset(&names->items[at], 0, sizeof(names->items[0]));
        names->items[at].name = sim_buf_new(len);
        memcpy(names->items[at].name->data, name, len);
        return &names->items[at];
}

static void release(struct sim_name *entry)
{
        eng_buf_unref(entry->value);
        eng_buf_unref(entry->body);
        entry->value = entry->body = NULL;
        entry->inline_len = 0;
}

void sim_names_remove(struct sim_names *names, unsigned at)
{
        release(&names->items[at]);
        eng_buf_unref(names->items[at].name);
        memmove(&names->items[at], &names->items[at + 1], (names->count - at - 1) * sizeof(names->items[0]));
        names->count--;
}

void sim_names_clear(struct sim_names *names)
{
        while (names->count > 0)
                sim_names_remove(names, names->count - 1);
        free(names->items);
        memset(names, 0, sizeof(*names));
}

void sim_names_copy(struct sim_names *to, const struct sim_names *from)
{
        unsigned i;

        reserve(to, from->count);
        for (i = 0; i < from->count; i++) {
                struct sim_name *entry = &to->items[to->count];

                if (from->items[i].kind != SIM_PUT)
                        continue;
                *entry = from->items[i];
                eng_buf_ref(entry->name);
                eng_buf_ref(entry->value);
                if (entry->body != NULL)
                        eng_buf_ref(entry->body);
                to->count++;
        }
}

void sim_names_thaw(struct sim_names *names, uint32_t generation)
{
        unsigned i;

        for (i = names->count; i-- > 0;)
                if (names->items[i].kind != SIM_PUT && names->items[i].generation <= generation)
                        sim_names_remove(names, i);
}

/* ---- applying -------------------------------------------------------------------------------- */

struct apply {
        struct sim_names *names;
        const struct eng_mut *mut;
        const struct fmt_record *rec;
        struct eng_buf *body;
        uint32_t generation;
        void (*dead)(void *arg, struct eng_buf *value);
        void *arg;
};

/* A copy proves nothing dead (I6). */
static void died(const struct apply *a, struct eng_buf *value)
{
        if (a->rec->type != FMT_RECORD_COPY && eng_value_has_shards((const struct fmt_value *)value->data))
                a->dead(a->arg, eng_buf_ref(value));
}

/* An upload that ended later than this record hides its parts. */
static bool hidden(const struct apply *a)
{
        const struct sim_name *ended;

        if (a->mut->name[0] != FMT_SPACE_PART || a->mut->name_len <= 2)
                return false;
        ended = sim_names_find(a->names, a->mut->name, a->mut->name_len - 2u);
        return ended != NULL && ended->kind == SIM_ENDED && ended->seq > a->rec->seq;
}

static struct eng_buf *drive_value(const struct apply *a)
{
        struct eng_buf *value = sim_buf_new(a->mut->value_len);
        struct fmt_value *head = (struct fmt_value *)value->data;

        memcpy(value->data, a->mut->value, a->mut->value_len);
        head->crc = 0;
        head->seq = a->rec->seq;
        head->log_file = 1;
        head->log_position = a->rec->position;
        return value;
}

static void set(const struct apply *a, struct sim_name *entry, enum sim_name_kind kind, struct eng_buf *value)
{
        release(entry);
        entry->kind = kind;
        entry->value = value;
        entry->seq = a->rec->seq;
        entry->generation = a->generation;
        if (kind == SIM_PUT && a->mut->inline_len > 0) {
                entry->body = eng_buf_ref(a->body);
                entry->inline_at = (uint32_t)(a->mut->inline_bytes - a->body->data);
                entry->inline_len = a->mut->inline_len;
        }
}

static void put(const struct apply *a)
{
        struct eng_buf *value = drive_value(a);
        struct sim_name *entry = sim_names_find(a->names, a->mut->name, a->mut->name_len);
        bool held = entry != NULL && entry->kind == SIM_PUT;

        if (hidden(a) || (entry != NULL && entry->seq > a->rec->seq)) {
                if (!held || !eng_value_same_shards(value->data, value->len, entry->value->data, entry->value->len))
                        died(a, value);
                eng_buf_unref(value);
                return;
        }
        if (held && !eng_value_same_shards(entry->value->data, entry->value->len, value->data, value->len))
                died(a, entry->value);
        set(a, sim_names_get(a->names, a->mut->name, a->mut->name_len), SIM_PUT, value);
}

static void gone(const struct apply *a, const uint8_t *name, size_t len, enum sim_name_kind kind)
{
        struct sim_name *entry = sim_names_get(a->names, name, len);

        if (entry->seq > a->rec->seq)
                return;
        if (entry->kind == SIM_PUT && entry->value != NULL)
                died(a, entry->value);
        set(a, entry, kind, NULL);
}

/* The parts go, but the data of those whose ids are listed lives on in an object. */
static void end_upload(const struct apply *a)
{
        uint8_t prefix[FMT_NAME_MAX];
        unsigned i;

        memcpy(prefix, a->mut->name, a->mut->name_len);
        prefix[0] = FMT_SPACE_PART;
        i = sim_names_seek(a->names, prefix, a->mut->name_len, true);
        while (i < a->names->count && a->names->items[i].name->len > a->mut->name_len &&
               memcmp(a->names->items[i].name->data, prefix, a->mut->name_len) == 0) {
                struct sim_name *entry = &a->names->items[i];

                if (entry->seq > a->rec->seq) {
                        i++;
                        continue;
                }
                if (entry->kind == SIM_PUT &&
                    !eng_value_in_ids((const struct fmt_value *)entry->value->data, a->mut->value, a->mut->value_len))
                        died(a, entry->value);
                sim_names_remove(a->names, i);
        }
        gone(a, a->mut->name, a->mut->name_len, SIM_GONE);
        gone(a, prefix, a->mut->name_len, SIM_ENDED);
}

void sim_names_apply(struct sim_names *names, const struct eng_mut *mut, const struct fmt_record *rec,
                     struct eng_buf *body, uint32_t generation, void (*dead)(void *arg, struct eng_buf *value),
                     void *arg)
{
        struct apply a = {names, mut, rec, body, generation, dead, arg};

        switch (mut->kind) {
        case FMT_MUT_PUT:
                put(&a);
                break;
        case FMT_MUT_DELETE:
                gone(&a, mut->name, mut->name_len, SIM_GONE);
                break;
        case FMT_MUT_END_UPLOAD:
                end_upload(&a);
                break;
        }
}

/* ---- SCAN ------------------------------------------------------------------------------------ */

static size_t common_prefix(const struct eng_op *op, const uint8_t *name, size_t len)
{
        const uint8_t *found;
        size_t tail;

        if (op->scan.delimiter == NULL || op->scan.delimiter_len == 0 || len == 0 || name[0] > FMT_SPACE_LAST)
                return 0;
        tail = eng_space_tail(name[0]); /* behind the key it may hold any byte */
        if (len >= tail)
                len -= tail;
        if (len < op->scan.prefix_len)
                return 0;
        found = name + op->scan.prefix_len;
        do /* the second byte of an escape is none of the key's */
                found = memmem(found, len - (size_t)(found - name), op->scan.delimiter, op->scan.delimiter_len);
        while (found != NULL && tail != 0 && found > name + 9 && found[0] == 0xff && found[-1] == 0 && ++found <= name + len);
        return found == NULL ? 0 : (size_t)(found - name) + op->scan.delimiter_len;
}

static bool wanted(const struct eng_op *op, const struct sim_name *entry)
{
        uint32_t pg;

        if (entry->kind != SIM_PUT)
                return false;
        if ((op->flags & ENG_OP_NO_MARKERS) != 0 && (((const struct fmt_value *)entry->value->data)->state & FMT_STATE_MARKER) != 0)
                return false;
        pg = ((const struct fmt_value *)entry->value->data)->pg;
        if (op->scan.pgs == NULL)
                return true;
        if (op->scan.pg_words != 0 && pg / 64 >= op->scan.pg_words)
                return false;
        return (op->scan.pgs[pg / 64] >> pg % 64 & 1) != 0;
}

struct answer {
        struct eng_buf *buf;
        size_t len, size;
        uint32_t count;
};

static void emit(struct answer *out, const uint8_t *name, size_t name_len, uint16_t flags, const uint8_t *value,
                 size_t value_len)
{
        struct eng_scan_entry head = {.name_len = (uint16_t)name_len, .flags = flags, .value_len = (uint32_t)value_len};
        size_t size = (sizeof(head) + name_len + value_len + 7) / 8 * 8;
        uint8_t *to;

        if (out->len + size > out->size) {
                struct eng_buf *bigger = sim_buf_new(2 * out->size + size);

                memcpy(bigger->data, out->buf->data, out->len);
                eng_buf_unref(out->buf);
                out->buf = bigger;
                out->size = 2 * out->size + size;
        }
        to = out->buf->data + out->len;
        head.size = (uint32_t)size;
        memset(to, 0, size);
        memcpy(to, &head, sizeof(head));
        memcpy(to + sizeof(head), name, name_len);
        if (value_len > 0)
                memcpy(to + sizeof(head) + name_len, value, value_len);
        out->len += size;
        out->count++;
}

static void emit_value(struct answer *out, const struct eng_op *op, const struct sim_name *entry)
{
        const struct fmt_value *head = (const struct fmt_value *)entry->value->data;
        size_t len = entry->value->len;
        struct eng_listed listed;

        if ((op->flags & ENG_OP_LISTED) != 0) {
                eng_listed_of(entry->value->data, &listed);
                emit(out, entry->name->data, entry->name->len, 0, (const uint8_t *)&listed, sizeof(listed));
                return;
        }
        if ((op->flags & ENG_OP_VERSIONS) != 0)
                len = eng_value_parts_at(head);
        else if ((op->flags & ENG_OP_WANT_PARTS) == 0)
                len = sizeof(*head) + ((op->flags & ENG_OP_WANT_ATTRS) != 0 ? head->attrs_len : 0u);
        emit(out, entry->name->data, entry->name->len, 0, entry->value->data, len);
}

/* First name behind all that begin with this prefix. */
static unsigned behind_prefix(const struct sim_names *names, unsigned i, const uint8_t *prefix, size_t len)
{
        while (i < names->count && names->items[i].name->len >= len &&
               memcmp(names->items[i].name->data, prefix, len) == 0)
                i++;
        return i;
}

static void scan_names(const struct sim_names *names, struct eng_op *op)
{
        struct answer out = {.size = 512};
        size_t given = op->scan.after ? common_prefix(op, op->scan.from, op->scan.from_len) : 0;
        unsigned i = sim_names_seek(names, op->scan.from, op->scan.from_len, op->scan.after);

        out.buf = sim_buf_new(out.size);
        op->scan.more = false;
        if (given > 0)
                i = behind_prefix(names, i, op->scan.from, given);
        while (i < names->count) {
                const struct sim_name *entry = &names->items[i];
                size_t prefix = common_prefix(op, entry->name->data, entry->name->len);

                if (op->scan.to != NULL && compare(entry, op->scan.to, op->scan.to_len) >= 0)
                        break;
                if (!wanted(op, entry)) {
                        i++;
                        continue;
                }
                if (out.count == op->scan.max) {
                        op->scan.more = true;
                        break;
                }
                if (prefix == 0) {
                        emit_value(&out, op, entry);
                        i++;
                } else {
                        emit(&out, entry->name->data, prefix, 1, NULL, 0);
                        i = behind_prefix(names, i, entry->name->data, prefix);
                }
        }
        out.buf->len = (uint32_t)out.len;
        op->scan.entries = out.buf;
        op->scan.count = out.count;
}

/* Plain objects, each by the last name that a version of its key may have, and versions. */
static void names_of_versions(const struct sim_names *all, struct sim_names *out)
{
        unsigned i;

        memset(out, 0, sizeof(*out));
        for (i = 0; i < all->count; i++) {
                const struct sim_name *from = &all->items[i];
                struct eng_name name = {.len = (uint16_t)from->name->len};
                struct sim_name *to;
                uint64_t bucket;

                if (from->kind != SIM_PUT || name.len < 10)
                        continue;
                memcpy(name.data, from->name->data, name.len);
                if (name.data[0] == FMT_SPACE_OBJECT && (((const struct fmt_value *)from->value->data)->state & FMT_STATE_HEAD) == 0) {
                        memcpy(&bucket, name.data + 1, sizeof(bucket));
                        eng_name_version(&name, be64toh(bucket), from->name->data + 9, from->name->len - 9, 0);
                } else if (name.data[0] != FMT_SPACE_VERSION) {
                        continue;
                }
                to = sim_names_get(out, name.data, name.len);
                to->kind = SIM_PUT;
                to->value = eng_buf_ref(from->value);
        }
}

void sim_names_scan(const struct sim_names *names, struct eng_op *op)
{
        struct sim_names versions;

        if ((op->flags & ENG_OP_VERSIONS) == 0) {
                scan_names(names, op);
                return;
        }
        names_of_versions(names, &versions);
        scan_names(&versions, op);
        sim_names_clear(&versions);
}
