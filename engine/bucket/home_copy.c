/*
 * home_copy.c - see home_copy.h.
 */
#include "engine/bucket/home_copy.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/bucket/bucket.h"
#include "engine/bucket/bucket_text.h"
#include "engine/bucket/config_digest.h"

/* Rows on their way to all loops. owner: coordinator; constant while it is under way */
struct taking {
        struct eng_store *store;
        void (*done)(struct eng_store *store);
        unsigned count;
        struct taken {
                struct eng_row row;    /* its bytes are text's */
                struct eng_text *text; /* ENG_ROW_TEXT, unless it is gone */
                struct eng_text *replaced; /* an entry's */
        } rows[];
};

/* owner: coordinator */
struct eng_home_copy {
        bool reading;                  /* all rows are */
        struct eng_row_key *seen;      /* since then */
        size_t count, size;
};

static struct eng_home_copy *copy_of(struct eng_store *store)
{
        if (store->coord->copy == NULL)
                store->coord->copy = calloc(1, sizeof(*store->coord->copy));
        if (store->coord->copy == NULL)
                abort(); /* a store that cannot tell what is gone would serve it for ever */
        return store->coord->copy;
}

void eng_home_rows_free(struct eng_store *store)
{
        if (store->coord->copy != NULL)
                free(store->coord->copy->seen);
        free(store->coord->copy);
        store->coord->copy = NULL;
}

/* ---- to the loops ---------------------------------------------------------------------------- */

static void take_home_bucket(struct eng_loop *el, const struct eng_bucket *bucket)
{
        struct eng_config_bucket *b = eng_bucket_find(el, (struct eng_str){bucket->name, strlen(bucket->name)});

        if (b != NULL && b->bucket.id != bucket->id) { /* deleted, and made anew */
                eng_config_drop(el, b->bucket.id);
                b = NULL;
        }
        if (b != NULL)
                b->bucket = *bucket;
        else if (eng_config_take(el, bucket) != 0)
                abort(); /* as one that is created: a loop that does not know it would lie */
}

static void take_home_text(struct eng_loop *el, const struct taken *taken)
{
        struct eng_config_bucket *b = eng_bucket_by_id(el, taken->row.key.id);
        struct eng_bucket_text *node;

        if (b == NULL)
                return; /* the bucket is gone again, which comes later */
        node = calloc(1, sizeof(*node));
        if (node == NULL)
                abort();
        free(eng_text_put(b, taken->row.key.kind, taken->text, node));
}

static bool take_home_rows(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        const struct taking *taking = arg;
        unsigned i;

        for (i = 0; i < taking->count; i++) {
                const struct taken *taken = &taking->rows[i];

                if (taken->row.key.what == ENG_ROW_CLOCK)
                        continue; /* its time came with the state */
                if (taken->row.key.what == ENG_ROW_BUCKET && taken->row.there)
                        take_home_bucket(el, &taken->row.bucket);
                else if (taken->row.key.what == ENG_ROW_BUCKET)
                        eng_config_drop(el, taken->row.key.id);
                else if (eng_is_entry(taken->row.key.kind))
                        eng_entry_tell(el, taken->row.key.id, taken->row.key.kind);
                else
                        take_home_text(el, taken);
        }
        if (el == el->store->coord_loop)
                eng_digest_told(el->store);
        return true;
}

static void taking_free(struct taking *taking)
{
        unsigned i;

        for (i = 0; i < taking->count; i++) {
                eng_text_unref(taking->rows[i].text);
                eng_text_unref(taking->rows[i].replaced);
        }
        free(taking);
}

static void rows_taken(struct eng_store *store, void *arg)
{
        struct taking *taking = arg;

        eng_digest_changed(store);
        if (taking->done != NULL)
                taking->done(store);
        taking_free(taking); /* each loop has had a turn since an entry was replaced */
}

/* Entries are one table for all loops. */
static void replace_entries(struct taking *taking)
{
        unsigned i;

        for (i = 0; i < taking->count; i++) {
                struct taken *taken = &taking->rows[i];

                if (taken->row.key.what == ENG_ROW_TEXT && eng_is_entry(taken->row.key.kind) &&
                    (taken->text == NULL || eng_entry_of(taking->store, taken->row.key.id, taken->row.key.kind) != NULL ||
                     !eng_entries_full(taking->store)))
                        taken->replaced = eng_entry_put(taking->store, taken->row.key.id, taken->row.key.kind,
                                                        taken->text == NULL ? NULL : eng_text_ref(taken->text));
        }
}

static void taking_go(struct taking *taking)
{
        replace_entries(taking);
        if (eng_broadcast(taking->store, take_home_rows, rows_taken, taking) != 0)
                abort(); /* some would have it, and others not */
}

/* ---- rows that came -------------------------------------------------------------------------- */

static int note_seen(struct eng_home_copy *copy, const struct eng_row *row)
{
        struct eng_row_key *grown;

        if (!copy->reading || !row->there)
                return 0;
        if (copy->count == copy->size) {
                grown = realloc(copy->seen, (2 * copy->size + 256) * sizeof(*grown));
                if (grown == NULL)
                        return -ENOMEM;
                copy->seen = grown;
                copy->size = 2 * copy->size + 256;
        }
        copy->seen[copy->count++] = row->key;
        return 0;
}

static int taking_add(struct taking *taking, const struct eng_row *row)
{
        struct taken *taken = &taking->rows[taking->count++];

        taken->row = *row;
        if (row->key.what != ENG_ROW_TEXT || !row->there)
                return 0;
        taken->text = eng_text_new(row->key.kind, row->bytes.data, row->bytes.len);
        if (taken->text == NULL)
                return -ENOMEM;
        taken->text->generation = row->generation;
        taken->text->damaged = row->damaged;
        return 0;
}

int eng_home_rows_take(struct eng_store *store, const uint8_t *bytes, size_t len, void (*done)(struct eng_store *store))
{
        struct eng_home_copy *copy = copy_of(store);
        struct taking *taking;
        struct eng_row row;
        size_t at = 0;
        unsigned n = 0;
        int rv = 0;

        assert(eng_on_coordinator(store));
        while (at < len && rv == 0) {
                rv = eng_row_get(bytes, len, &at, &row);
                n++;
        }
        if (rv != 0)
                return rv;
        taking = calloc(1, sizeof(*taking) + n * sizeof(taking->rows[0]));
        if (taking == NULL)
                return -ENOMEM;
        taking->store = store;
        taking->done = done;
        for (at = 0; at < len && rv == 0;) {
                rv = eng_row_get(bytes, len, &at, &row);
                if (rv == 0)
                        rv = note_seen(copy, &row);
                if (rv == 0)
                        rv = taking_add(taking, &row);
        }
        if (rv == 0)
                taking_go(taking);
        else
                taking_free(taking);
        return rv;
}

/* ---- all rows -------------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
        const struct eng_row_key *x = a, *y = b;

        if (x->what != y->what)
                return x->what < y->what ? -1 : 1;
        if (x->id != y->id)
                return x->id < y->id ? -1 : 1;
        return (int)x->kind - (int)y->kind;
}

void eng_home_rows_begin(struct eng_store *store)
{
        struct eng_home_copy *copy = copy_of(store);

        copy->reading = true;
        copy->count = 0;
}

void eng_home_rows_settled(struct eng_store *store)
{
        struct eng_home_copy *copy = copy_of(store);

        copy->reading = false;
        copy->count = copy->size = 0;
        free(copy->seen);
        copy->seen = NULL;
}

/* Rows here that were not read. out NULL: only their number. */
static unsigned rows_beyond(struct eng_store *store, struct taking *out)
{
        const struct eng_home_copy *copy = store->coord->copy;
        struct eng_row_cursor cursor = {0};
        struct eng_row_key key;
        unsigned n = 0;

        while (eng_row_next(store, &cursor, &key) == 1) {
                if (copy->count > 0 && bsearch(&key, copy->seen, copy->count, sizeof(key), compare_keys) != NULL)
                        continue;
                if (out != NULL)
                        out->rows[out->count++].row.key = key;
                n++;
        }
        return n;
}

int eng_home_rows_end(struct eng_store *store, void (*done)(struct eng_store *store))
{
        struct eng_home_copy *copy = copy_of(store);
        struct taking *taking;

        assert(eng_on_coordinator(store) && copy->reading);
        if (copy->count > 0)
                qsort(copy->seen, copy->count, sizeof(copy->seen[0]), compare_keys);
        taking = calloc(1, sizeof(*taking) + rows_beyond(store, NULL) * sizeof(taking->rows[0]));
        if (taking == NULL)
                return -ENOMEM;
        taking->store = store;
        taking->done = done;
        rows_beyond(store, taking);
        eng_home_rows_settled(store);
        taking_go(taking);
        return 0;
}
