/*
 * kept.c - a small record of the configuration that says how far some upkeep has come. Coordinator;
 * the records themselves are read and written on the primary loop of the configuration's group, as
 * all changes are.
 */
#include "engine/txn/txn.h"
#include "engine/walk/kept.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void eng_kept_init(struct eng_kept *kept, struct eng_store *store, char key, void (*loaded)(struct eng_kept *kept, const void *data, size_t len))
{
        memset(kept, 0, sizeof(*kept));
        kept->store = store;
        kept->key = key;
        kept->loaded = loaded;
}

static void kept_submit(struct eng_kept *kept, void (*prepare)(struct eng_txn *txn), void (*done)(struct eng_txn *txn))
{
        assert(eng_on_coordinator(kept->store) && !kept->busy);
        memset(&kept->txn, 0, sizeof(kept->txn));
        eng_txn_init(&kept->txn, kept->store, 0, &kept->key, 1);
        kept->txn.pg = kept->store->pg_count;
        kept->txn.internal = true;
        kept->txn.prepare = prepare;
        kept->txn.done = done;
        kept->busy = true;
        eng_txn_submit(&kept->txn);
}

static void name_it(struct eng_txn *txn)
{
        eng_name_space(&txn->name, FMT_SPACE_CONFIG, 0);
        txn->name.data[txn->name.len++] = txn->key[0];
}

static void kept_ended(struct eng_kept *kept)
{
        assert(kept->busy);
        eng_txn_drop(&kept->txn);
        eng_buf_unref(kept->value);
        kept->value = NULL;
        kept->busy = false;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_prepare(struct eng_txn *txn)
{
        const struct eng_buf *value = container_of(txn, struct eng_kept, txn)->value;
        int rv;

        name_it(txn);
        rv = eng_body_begin(&txn->body, eng_body_need(txn->name.len, value->len, 0));
        if (rv == 0)
                eng_body_put(&txn->body, &txn->name, value, eng_txn_take_seq(txn), NULL, 0);
        if (rv == 0)
                eng_txn_append(txn);
        else
                eng_txn_finish(txn, rv);
}

static void kept_written(struct eng_txn *txn)
{
        kept_ended(container_of(txn, struct eng_kept, txn)); /* a failure costs what was done since the last one, after a restart */
}

void eng_kept_write(struct eng_kept *kept, const void *data, size_t len)
{
        struct eng_value_spec spec = {
                .space = FMT_SPACE_CONFIG,
                .pg = kept->store->pg_count,
                .mtime_ms = lp_wall_ms(),
                .attrs = data,
                .attrs_len = len,
        };

        assert(len <= ENG_ATTRS_MAX);
        if (kept->busy || !kept->store->coord->view.writable)
                return;
        kept->value = eng_value_new(&spec);
        if (kept->value != NULL)
                kept_submit(kept, write_prepare, kept_written);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void kept_found(struct eng_txn *txn, int rv)
{
        eng_txn_finish(txn, rv);
}

static void load_prepare(struct eng_txn *txn)
{
        name_it(txn);
        eng_txn_lookup(txn, 0, kept_found);
}

static void kept_load_done(struct eng_txn *txn)
{
        struct eng_kept *kept = container_of(txn, struct eng_kept, txn);
        struct eng_buf *old = txn->result == 0 ? eng_buf_ref(txn->old) : NULL;
        struct eng_object object = {.attrs = {0}};

        kept_ended(kept); /* it may be written from inside */
        if (old != NULL)
                eng_value_object(old, NULL, &object);
        kept->loaded(kept, object.attrs.data, object.attrs.len);
        eng_buf_unref(old);
}

void eng_kept_load(struct eng_kept *kept)
{
        kept_submit(kept, load_prepare, kept_load_done);
}

void eng_kept_stop(struct eng_kept *kept)
{
        if (!kept->busy)
                return;
        eng_txn_abandon(&kept->txn);
        kept_ended(kept);
}
