/*
 * list_versions.c - listings of versions and delete markers, over merge.c. Home loops.
 *
 * Drives give a plain object by the name of the version that it is, so that all names of the listing
 * are versions' names and merge in their order.
 */
#include "engine/object/list_range.h"
#include "engine/object/object.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TAIL (2u + sizeof(uint64_t)) /* behind the key: its end mark, the number */

/* One listing. owner: home loop; lookup: the key's primary while it is out */
struct versions_list {
        struct eng_lookup lookup;      /* of the null version, where the listing is to go on behind it; first */
        struct eng_name from, to;
        struct eng_merge_params merge;
        uint8_t delimiter[2 * ENG_KEY_MAX];
        uint8_t inside[ENG_KEY_MAX];   /* key whose first version was on the page before; inside_len 0: none */
        size_t inside_len;
        bool behind;                   /* `from` is behind all versions of a key, by the last of its bytes, 2; 1: before them */
        eng_versions_done done;
        void *arg;
};

/* ---- the answer ------------------------------------------------------------------------------ */

static int view_version(const struct eng_scan_entry *e, uint8_t *key, void *entry)
{
        struct eng_version_entry *out = entry;
        const uint8_t *name = eng_entry_name(e) + 9, *value = eng_entry_value(e);
        size_t len = e->name_len - 9u;

        out->is_prefix = eng_entry_is_prefix(e);
        if (!out->is_prefix) {
                uint32_t state;

                if (len < TAIL)
                        return -EIO;
                eng_encoded_object(value, e->value_len, &out->object);
                memcpy(&state, value + offsetof(struct fmt_value, state), sizeof(state));
                out->latest = value[offsetof(struct fmt_value, space)] == FMT_SPACE_OBJECT; /* a plain object: there is no other */
                if (!out->latest && (state & FMT_STATE_NULL) == 0)
                        out->object.version.number = eng_name_version_number(eng_entry_name(e), e->name_len);
                len -= TAIL;
        }
        out->key.data = (const char *)key;
        out->key.len = eng_list_unescape(key, name, len);
        return (int)out->key.len;
}

static bool same_key(const struct eng_version_entry *entry, const void *key, size_t len)
{
        return !entry->is_prefix && entry->key.len == len && memcmp(entry->key.data, key, len) == 0;
}

/* The first version that is met of a key is its newest, unless some were on the page before. */
static void find_latest(const struct versions_list *list, struct eng_version_entry *entries, unsigned count)
{
        unsigned i;

        for (i = 0; i < count; i++) {
                bool again = i > 0 && same_key(&entries[i - 1], entries[i].key.data, entries[i].key.len);

                entries[i].latest |= !entries[i].is_prefix && !again &&
                                     !(list->inside_len != 0 && same_key(&entries[i], list->inside, list->inside_len));
        }
}

static void versions_listed(void *arg, int rv, const struct eng_scan_entry *const *entries, unsigned count, bool more)
{
        struct versions_list *list = arg;
        struct eng_version_entry *out = NULL;

        if (rv == 0)
                out = eng_list_view(entries, count, sizeof(*out), view_version, &rv);
        if (rv == 0)
                find_latest(list, out, count);
        list->done(list->arg, rv, out, rv == 0 ? count : 0, rv == 0 && more);
        free(out);
        free(list);
}

/* ---- where it begins ------------------------------------------------------------------------- */

static void versions_start(struct versions_list *list)
{
        list->merge.from = &list->from;
        list->merge.to = &list->to;
        list->merge.delimiter = list->delimiter;
        list->merge.flags = ENG_OP_VERSIONS;
        eng_merge_start(eng_here(list->lookup.store), &list->merge, versions_listed, list);
}

static void versions_end(struct versions_list *list, int rv)
{
        list->done(list->arg, rv, NULL, 0, false);
        free(list);
}

/* The null version was looked up: the listing goes on behind it. */
static void null_found(struct eng_lookup *lookup)
{
        struct versions_list *list = (struct versions_list *)lookup;
        int rv = lookup->result;

        if (rv == 0 && lookup->name.data[0] == FMT_SPACE_VERSION) {
                list->from = lookup->name;
                list->merge.after = true;
        } else if (rv == -ENOENT && list->behind) {
                list->inside_len = 0;
                list->from.data[list->from.len - 1] = 1;
        }
        if (rv == -ENOENT)
                rv = 0;
        eng_buf_unref(lookup->value);
        lookup->value = NULL;
        if (rv != 0 || eng_list_is_empty(&list->from, &list->to))
                versions_end(list, rv);
        else
                versions_start(list);
}

static void find_null(struct versions_list *list, const struct eng_list_params *params)
{
        const struct eng_version null = {.number = 0};

        list->lookup.pg = eng_pg_of_key(list->lookup.store->pg_count, params->bucket, params->after.data, params->after.len);
        list->lookup.done = null_found;
        eng_lookup_which(&list->lookup, params->bucket, params->after, &null);
        eng_lookup_start(&list->lookup);
}

static struct versions_list *versions_new(struct eng_store *store, const struct eng_list_params *params, eng_versions_done done, void *arg)
{
        struct versions_list *list = calloc(1, sizeof(*list));
        uint8_t prefix[2 * ENG_KEY_MAX];

        if (list == NULL)
                return NULL;
        list->lookup.store = store;
        list->done = done;
        list->arg = arg;
        list->behind = eng_list_escaped_range(params, FMT_SPACE_VERSION, &list->from, &list->to);
        list->merge.prefix_len = 9 + (unsigned)eng_name_escape(prefix, params->prefix.data, params->prefix.len);
        list->merge.delimiter_len = eng_name_escape(list->delimiter, params->delimiter.data, params->delimiter.len);
        list->merge.max = params->max;
        return list;
}

void eng_version_list(struct eng_store *store, const struct eng_list_params *params, const struct eng_version *after_version,
                      eng_versions_done done, void *arg)
{
        bool fit = eng_list_params_fit(params), inside = fit && after_version != NULL && eng_list_after_counts(params);
        struct versions_list *list = fit ? versions_new(store, params, done, arg) : NULL;

        if (list == NULL) {
                eng_early(store, (struct eng_early){.versions = done, .arg = arg, .rv = fit ? -ENOMEM : -EINVAL});
                return;
        }
        if (inside) {
                memcpy(list->inside, params->after.data, params->after.len);
                list->inside_len = params->after.len;
        }
        if (inside && after_version->number != 0) {
                eng_name_version(&list->from, params->bucket, params->after.data, params->after.len, after_version->number);
                list->merge.after = true;
        } else if (inside) {
                find_null(list, params);
                return;
        }
        if (eng_list_is_empty(&list->from, &list->to)) {
                free(list);
                eng_early(store, (struct eng_early){.versions = done, .arg = arg, .rv = 0});
                return;
        }
        versions_start(list);
}
