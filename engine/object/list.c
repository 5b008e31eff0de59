/*
 * list.c - listings of objects, uploads and parts as the gateway asks for them, over merge.c. Home
 * loops.
 */
#include "engine/object/list_range.h"
#include "engine/object/object.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- from what to what ----------------------------------------------------------------------- */

/*
 * Bytes of `after` up to and with the first delimiter behind the prefix; 0: none (or it does not
 * begin with the prefix).
 */
static size_t list_common_prefix(const struct eng_list_params *p)
{
        const char *hit;

        if (p->delimiter.len == 0 || p->after.len <= p->prefix.len ||
            memcmp(p->after.data, p->prefix.data, p->prefix.len) != 0)
                return 0;
        hit = memmem(p->after.data + p->prefix.len, p->after.len - p->prefix.len, p->delimiter.data, p->delimiter.len);
        return hit == NULL ? 0 : (size_t)(hit - p->after.data) + p->delimiter.len;
}

bool eng_list_after_counts(const struct eng_list_params *p)
{
        size_t n = p->after.len < p->prefix.len ? p->after.len : p->prefix.len;
        int c = n == 0 ? 0 : memcmp(p->after.data, p->prefix.data, n);

        return p->after.len != 0 && (c > 0 || (c == 0 && p->after.len >= p->prefix.len));
}

bool eng_list_is_empty(const struct eng_name *from, const struct eng_name *to)
{
        int c = memcmp(from->data, to->data, from->len < to->len ? from->len : to->len);

        return c > 0 || (c == 0 && from->len >= to->len);
}

bool eng_list_params_fit(const struct eng_list_params *p)
{
        return p->prefix.len <= ENG_KEY_MAX && p->after.len <= ENG_KEY_MAX && p->delimiter.len <= ENG_KEY_MAX &&
               p->max >= 1 && p->max <= 1001;
}

/* ---- objects --------------------------------------------------------------------------------- */

struct list {
        eng_list_done done;
        void *arg;
        struct eng_loop *el;
        bool of_all;                   /* the bucket's; if there are none, its versions are looked at */
        uint64_t bucket;
        unsigned max;
};

static void list_end(struct list *list, int rv, const struct eng_list_entry *entries, unsigned count, bool more)
{
        list->done(list->arg, rv, entries, count, more);
        free(list);
}

/* Versions that no object's row stands for: there should be none. */
static void rows_listed(void *arg, int rv, const struct eng_scan_entry *const *entries, unsigned count, bool more)
{
        struct list *list = arg;
        struct eng_list_entry *out = calloc(count + 1, sizeof(*out));
        uint8_t *keys = calloc(count + 1, ENG_KEY_MAX);
        unsigned i;

        if (out == NULL || keys == NULL)
                rv = -ENOMEM;
        for (i = 0; rv == 0 && i < count; i++) {
                struct eng_name name = {.len = entries[i]->name_len};
                uint8_t key[FMT_NAME_MAX];
                uint64_t bucket;

                memcpy(name.data, eng_entry_name(entries[i]), name.len);
                rv = eng_name_key(&name, &bucket, key, &out[i].name.len) != 0 || out[i].name.len > ENG_KEY_MAX ? -EIO : 0;
                if (rv != 0)
                        break;
                memcpy(keys + (size_t)i * ENG_KEY_MAX, key, out[i].name.len);
                out[i].name.data = (const char *)keys + (size_t)i * ENG_KEY_MAX;
                eng_encoded_object(eng_entry_value(entries[i]), entries[i]->value_len, &out[i].object);
        }
        list_end(list, rv, out, rv == 0 ? count : 0, rv == 0 && more);
        free(keys);
        free(out);
}

static void list_rows(struct list *list)
{
        struct eng_name from, to;
        struct eng_merge_params m = {.from = &from, .to = &to, .delimiter = "", .prefix_len = 9, .max = list->max};

        eng_name_space(&from, FMT_SPACE_VERSION, list->bucket);
        to = from;
        eng_name_successor(&to);
        eng_merge_start(list->el, &m, rows_listed, list);
}

/* Where attributes are not wanted, values come in the short form. */
static unsigned list_flags(const struct eng_list_params *p)
{
        return p->want_attrs ? ENG_OP_WANT_ATTRS : ENG_OP_LISTED;
}

/* No other form has that length. */
static void list_object(const struct eng_scan_entry *e, struct eng_object *out)
{
        if (e->value_len == sizeof(struct eng_listed))
                eng_listed_object(eng_entry_value(e), out);
        else
                eng_encoded_object(eng_entry_value(e), e->value_len, out);
}

static void listed(void *arg, int rv, const struct eng_scan_entry *const *entries, unsigned count, bool more)
{
        struct list *list = arg;
        struct eng_list_entry *out;
        unsigned i;

        if (rv == 0 && count == 0 && list->of_all) {
                list_rows(list);
                return;
        }
        out = calloc(count + 1, sizeof(*out));
        if (out == NULL)
                rv = -ENOMEM;
        for (i = 0; rv == 0 && i < count; i++) {
                out[i].name.data = (const char *)eng_entry_name(entries[i]) + 9;
                out[i].name.len = entries[i]->name_len - 9u;
                out[i].is_prefix = eng_entry_is_prefix(entries[i]);
                if (!out[i].is_prefix)
                        list_object(entries[i], &out[i].object);
        }
        list_end(list, rv, out, rv == 0 ? count : 0, rv == 0 && more);
        free(out);
}

static void object_range(const struct eng_list_params *p, struct eng_name *from, struct eng_name *to, bool *after)
{
        size_t cp = p->after_inclusive ? 0 : list_common_prefix(p);

        eng_name_object(to, p->bucket, p->prefix.data, p->prefix.len);
        *after = false;
        *from = *to;
        if (cp != 0) {
                eng_name_object(from, p->bucket, p->after.data, cp);
                eng_name_successor(from);
        } else if (eng_list_after_counts(p)) {
                eng_name_object(from, p->bucket, p->after.data, p->after.len);
                *after = !p->after_inclusive;
        }
        eng_name_successor(to);
}

void eng_list(struct eng_store *store, const struct eng_list_params *params, eng_list_done done, void *arg)
{
        bool fit = eng_list_params_fit(params);
        struct list *list = fit ? calloc(1, sizeof(*list)) : NULL;
        struct eng_name from, to;
        struct eng_merge_params m = {.from = &from, .to = &to};

        if (list == NULL) {
                eng_early(store, (struct eng_early){.list = done, .arg = arg, .rv = fit ? -ENOMEM : -EINVAL});
                return;
        }
        list->done = done;
        list->arg = arg;
        list->el = eng_here(store);
        list->bucket = params->bucket;
        list->max = params->max;
        list->of_all = !params->hide_markers && params->prefix.len == 0 && params->delimiter.len == 0 && params->after.len == 0;
        object_range(params, &from, &to, &m.after);
        if (eng_list_is_empty(&from, &to)) {
                free(list);
                eng_early(store, (struct eng_early){.list = done, .arg = arg, .rv = 0});
                return;
        }
        m.prefix_len = 9 + (unsigned)params->prefix.len;
        m.delimiter = params->delimiter.len == 0 ? "" : params->delimiter.data;
        m.delimiter_len = params->delimiter.len;
        m.flags = (params->hide_markers ? ENG_OP_NO_MARKERS : 0) | list_flags(params);
        m.max = params->max;
        eng_merge_start(list->el, &m, listed, list);
}

/* ---- uploads --------------------------------------------------------------------------------- */

struct uploads {
        eng_uploads_done done;
        void *arg;
};

size_t eng_list_unescape(uint8_t *dst, const uint8_t *src, size_t len)
{
        size_t i, n = 0;

        for (i = 0; i < len; i++) {
                dst[n++] = src[i];
                if (src[i] == 0 && i + 1 < len && src[i + 1] == 0xff)
                        i++;
        }
        return n;
}

static int view_upload(const struct eng_scan_entry *e, uint8_t *key, void *entry)
{
        struct eng_upload_entry *out = entry;
        const uint8_t *name = eng_entry_name(e) + 9;
        size_t len = e->name_len - 9u;

        out->is_prefix = eng_entry_is_prefix(e);
        if (!out->is_prefix) {
                if (len < FMT_ID + 2u)
                        return -EIO;
                len -= FMT_ID + 2u;
                memcpy(out->upload_id, name + len + 2, FMT_ID);
                list_object(e, &out->object);
        }
        out->key.data = (const char *)key;
        out->key.len = eng_list_unescape(key, name, len);
        return (int)out->key.len;
}

void *eng_list_view(const struct eng_scan_entry *const *entries, unsigned count, size_t size,
                    int (*view)(const struct eng_scan_entry *e, uint8_t *key, void *out), int *rv)
{
        size_t bytes = 1;
        uint8_t *out, *key;
        unsigned i;

        for (i = 0; i < count; i++)
                bytes += entries[i]->name_len;
        out = calloc(1, count * size + bytes);
        if (out == NULL) {
                *rv = -ENOMEM;
                return NULL;
        }
        key = out + count * size;
        for (i = 0; i < count; i++) {
                int len = view(entries[i], key, out + i * size);

                if (len < 0) {
                        free(out);
                        *rv = len;
                        return NULL;
                }
                key += len;
        }
        *rv = 0;
        return out;
}

static void list_uploads_listed(void *arg, int rv, const struct eng_scan_entry *const *entries, unsigned count, bool more)
{
        struct uploads *list = arg;
        struct eng_upload_entry *out = NULL;

        if (rv == 0)
                out = eng_list_view(entries, count, sizeof(*out), view_upload, &rv);
        list->done(list->arg, rv, out, rv == 0 ? count : 0, rv == 0 && more);
        free(out);
        free(list);
}

static void add_escaped(struct eng_name *name, const void *data, size_t len)
{
        assert(len <= ENG_KEY_MAX);
        name->len = (uint16_t)(name->len + eng_name_escape(name->data + name->len, data, len));
}

bool eng_list_escaped_range(const struct eng_list_params *p, enum fmt_space space, struct eng_name *from, struct eng_name *to)
{
        size_t cp = list_common_prefix(p);
        bool behind = cp == 0 && eng_list_after_counts(p);

        eng_name_space(to, space, p->bucket);
        add_escaped(to, p->prefix.data, p->prefix.len);
        *from = *to;
        if (cp != 0) {
                eng_name_space(from, space, p->bucket);
                add_escaped(from, p->after.data, cp);
                eng_name_successor(from);
        } else if (behind) {
                eng_name_space(from, space, p->bucket);
                add_escaped(from, p->after.data, p->after.len);
                memcpy(from->data + from->len, "\0\2", 2);
                from->len = (uint16_t)(from->len + 2);
        }
        eng_name_successor(to);
        return behind;
}

static void upload_range(const struct eng_list_params *p, const uint8_t *after_upload, struct eng_name *from,
                         struct eng_name *to, bool *after)
{
        eng_list_escaped_range(p, FMT_SPACE_UPLOAD, from, to);
        *after = after_upload != NULL && eng_list_after_counts(p);
        if (*after)
                eng_name_upload(from, p->bucket, p->after.data, p->after.len, after_upload);
}

void eng_upload_list(struct eng_store *store, const struct eng_list_params *params, const uint8_t *after_upload,
                     eng_uploads_done done, void *arg)
{
        bool fit = eng_list_params_fit(params);
        struct uploads *list = fit ? calloc(1, sizeof(*list)) : NULL;
        uint8_t delimiter[2 * ENG_KEY_MAX], prefix[2 * ENG_KEY_MAX];
        struct eng_name from, to;
        struct eng_merge_params m = {.from = &from, .to = &to, .delimiter = delimiter, .flags = list_flags(params)};

        if (list == NULL) {
                eng_early(store, (struct eng_early){.uploads = done, .arg = arg, .rv = fit ? -ENOMEM : -EINVAL});
                return;
        }
        list->done = done;
        list->arg = arg;
        upload_range(params, after_upload, &from, &to, &m.after);
        if (eng_list_is_empty(&from, &to)) {
                free(list);
                eng_early(store, (struct eng_early){.uploads = done, .arg = arg, .rv = 0});
                return;
        }
        m.prefix_len = 9 + (unsigned)eng_name_escape(prefix, params->prefix.data, params->prefix.len);
        m.delimiter_len = eng_name_escape(delimiter, params->delimiter.data, params->delimiter.len);
        m.max = params->max;
        eng_merge_start(eng_here(store), &m, list_uploads_listed, list);
}

/* ---- parts ----------------------------------------------------------------------------------- */

struct parts {
        struct eng_lookup lookup;      /* of the upload, to know that it is there */
        struct eng_op scan;
        struct eng_name from, to;
        eng_mask tried;
        unsigned slot;                 /* that was asked last */
        unsigned max;
        eng_parts_done done;
        void *arg;
};

static void parts_finish(struct parts *list, int rv, const struct eng_part_entry *parts, unsigned count, bool more)
{
        if (rv == 0 && !eng_is_home(list->lookup.store) && !eng_is_current(list->lookup.store)) {
                rv = -EHOSTDOWN;
                count = 0;
        }
        list->done(list->arg, rv, parts, count, more);
        eng_buf_unref(list->lookup.value);
        free(list);
}

static void parts_scan(struct parts *list);

static void part_of(const struct eng_scan_entry *e, struct eng_part_entry *out)
{
        const uint8_t *end = eng_entry_value(e);

        out->number = (unsigned)end[-2] << 8 | end[-1];
        eng_encoded_object(end, e->value_len, &out->object);
}

static void parts_answer(struct parts *list, struct eng_buf *entries, unsigned count)
{
        unsigned given = count > list->max ? list->max : count, i;
        struct eng_part_entry *out = calloc(given + 1, sizeof(*out));
        const uint8_t *p = entries == NULL ? NULL : entries->data;

        for (i = 0; out != NULL && i < given; i++) {
                const struct eng_scan_entry *e = (const struct eng_scan_entry *)p;

                part_of(e, &out[i]);
                p += e->size;
        }
        parts_finish(list, out == NULL ? -ENOMEM : 0, out, out == NULL ? 0 : given, count > list->max);
        free(out);
}

static void list_parts_scanned(struct eng_op *op)
{
        struct parts *list = container_of(op, struct parts, scan);
        struct eng_buf *entries = op->scan.entries;

        if (op->result != 0 || !eng_may_say_absent(&eng_here(list->lookup.store)->view, list->lookup.pg, list->slot)) {
                if (op->result == 0)
                        eng_buf_unref(entries);
                parts_scan(list);
                return;
        }
        parts_answer(list, entries, op->scan.count);
        eng_buf_unref(entries);
}

static void parts_scan(struct parts *list)
{
        struct eng_store *store = list->lookup.store;
        struct eng_loop *el = eng_here(store);
        int slot = eng_pg_reader(el, list->lookup.pg, list->tried);
        struct eng_op *op = &list->scan;

        if (slot < 0) {
                parts_finish(list, -EHOSTDOWN, NULL, 0, false);
                return;
        }
        assert((list->tried & eng_bit((unsigned)slot)) == 0);
        list->slot = (unsigned)slot;
        list->tried |= eng_bit((unsigned)slot);
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->flags = ENG_OP_WANT_ATTRS;
        op->epoch = el->view.epoch;
        op->done = list_parts_scanned;
        op->scan.from = list->from.data;
        op->scan.from_len = list->from.len;
        op->scan.after = true;
        op->scan.to = list->to.data;
        op->scan.to_len = list->to.len;
        op->scan.max = list->max + 1;
        eng_drive_submit(store->members[slot].drive, op);
}

/* ---- in a home store ---- */

static void parts_merged(void *arg, int rv, const struct eng_scan_entry *const *entries, unsigned count, bool more)
{
        struct parts *list = arg;
        struct eng_part_entry *out = calloc(count + 1, sizeof(*out));
        unsigned i;

        if (rv == 0 && out == NULL)
                rv = -ENOMEM;
        for (i = 0; rv == 0 && i < count; i++) {
                if (entries[i]->name_len < 2)
                        rv = -EIO; /* no name of a part */
                else
                        part_of(entries[i], &out[i]);
        }
        parts_finish(list, rv, out, rv == 0 ? count : 0, more);
        free(out);
}

static void parts_merge(struct parts *list)
{
        struct eng_merge_params params = {.from = &list->from, .to = &list->to, .after = true, .flags = ENG_OP_WANT_ATTRS, .max = list->max};

        eng_merge_start(list->lookup.home, &params, parts_merged, list);
}

static void parts_upload_found(struct eng_lookup *lookup)
{
        struct parts *list = (struct parts *)lookup;

        if (lookup->result != 0)
                parts_finish(list, lookup->result, NULL, 0, false);
        else if (eng_is_home(lookup->store))
                parts_merge(list);
        else
                parts_scan(list);
}

void eng_part_list(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN],
                   unsigned after, unsigned max, eng_parts_done done, void *arg)
{
        bool fit = key.len <= ENG_KEY_MAX && max >= 1 && max <= ENG_PARTS_MAX;
        struct parts *list = fit ? calloc(1, sizeof(*list)) : NULL;

        if (list == NULL) {
                eng_early(store, (struct eng_early){.parts = done, .arg = arg, .rv = fit ? -ENOMEM : -EINVAL});
                return;
        }
        list->lookup.store = store;
        list->lookup.pg = eng_pg_of_key(store->pg_count, bucket, key.data, key.len);
        list->lookup.done = parts_upload_found;
        eng_name_upload(&list->lookup.name, bucket, key.data, key.len, upload_id);
        eng_name_part(&list->to, bucket, key.data, key.len, upload_id, 0);
        eng_name_part(&list->from, bucket, key.data, key.len, upload_id, after > 65535 ? 65535 : after);
        eng_name_successor(&list->to);
        list->max = max;
        list->done = done;
        list->arg = arg;
        eng_lookup_start(&list->lookup);
}
