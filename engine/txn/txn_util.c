/*
 * txn_util.c - what all kinds of changes share. Home loops.
 */
#include "engine/txn/txn.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void eng_txn_init(struct eng_txn *txn, struct eng_store *store, uint64_t bucket, const void *key, size_t key_len)
{
        assert(key_len <= ENG_KEY_MAX);
        txn->store = store;
        txn->bucket = bucket;
        txn->pg = eng_pg_of_key(store->pg_count, bucket, key, key_len);
        txn->key_len = (uint16_t)key_len;
        memcpy(txn->key, key, key_len);
}

void eng_txn_drop(struct eng_txn *txn)
{
        eng_buf_unref(txn->old);
        eng_buf_unref(txn->old_bytes);
        eng_buf_unref(txn->unread);
        txn->old = txn->old_bytes = txn->unread = NULL;
}

static void run(struct lp_msg *msg)
{
        struct eng_early *early = (struct eng_early *)msg;

        if (early->plain != NULL)
                early->plain(early->arg, early->rv);
        else if (early->deleted != NULL)
                early->deleted(early->arg, early->rv, &(struct eng_deleted){.existed = false});
        else if (early->put != NULL)
                early->put(early->arg, early->rv, NULL);
        else if (early->upload != NULL)
                early->upload(early->arg, early->rv, NULL);
        else if (early->object != NULL)
                early->object(early->arg, early->rv, NULL);
        else if (early->list != NULL)
                early->list(early->arg, early->rv, NULL, 0, false);
        else if (early->uploads != NULL)
                early->uploads(early->arg, early->rv, NULL, 0, false);
        else if (early->versions != NULL)
                early->versions(early->arg, early->rv, NULL, 0, false);
        else if (early->parts != NULL)
                early->parts(early->arg, early->rv, NULL, 0, false);
        else
                early->get(early->arg, early->rv, NULL);
        free(early);
}

void eng_early(struct eng_store *store, struct eng_early what)
{
        struct eng_early *early = malloc(sizeof(*early));

        if (early == NULL)
                abort(); /* not even a message: the process is beyond answering */
        *early = what;
        early->msg.run = run;
        lp_post(eng_here(store)->loop, &early->msg);
}

void eng_txn_delete_name(struct eng_txn *txn)
{
        int rv = eng_body_begin(&txn->body, eng_body_need(txn->name.len, 0, 0));

        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        eng_txn_take_seq(txn);
        eng_body_delete(&txn->body, &txn->name);
        eng_txn_append(txn);
}

/* ---- one value ------------------------------------------------------------------------------- */

void eng_txn_put_value(struct eng_txn *txn, struct eng_buf *value, int rv)
{
        if (rv == 0)
                rv = eng_body_begin(&txn->body, eng_body_need(txn->name.len, value->len, 0));
        if (rv == 0)
                eng_body_put(&txn->body, &txn->name, value, eng_txn_take_seq(txn), NULL, 0);
        eng_buf_unref(value);
        if (rv == 0)
                eng_txn_append(txn);
        else
                eng_txn_finish(txn, rv);
}

/* ---- features -------------------------------------------------------------------------------- */

static void submit_allowed(void *arg, int rv)
{
        struct eng_txn *txn = arg;

        if (rv == 0) {
                eng_txn_submit(txn);
                return;
        }
        txn->result = rv;
        txn->done(txn);
}

void eng_txn_submit_with(struct eng_txn *txn, uint64_t features)
{
        if (eng_features_are(txn->store, features))
                eng_txn_submit(txn);
        else
                eng_features_want(txn->store, features, submit_allowed, txn);
}
