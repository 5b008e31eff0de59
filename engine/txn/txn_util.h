/*
 * txn_util.h - what all kinds of changes share: filling a txn in, and answering a failure to begin
 * one.
 */
#ifndef MILLRACE_ENGINE_TXN_UTIL_H
#define MILLRACE_ENGINE_TXN_UTIL_H

#include "engine/txn/txn.h"

void eng_txn_init(struct eng_txn *txn, struct eng_store *store, uint64_t bucket, const void *key, size_t key_len);
/* Drops what lookups left in it. */
void eng_txn_drop(struct eng_txn *txn);

/*
 * An answer to a call that could not begin (no memory, a limit exceeded): it comes from a message,
 * never from inside the call. Exactly one callback is set.
 */
struct eng_early {
        struct lp_msg msg;
        eng_done plain;
        eng_delete_done deleted;
        eng_put_done put;
        eng_upload_done upload;
        eng_object_done object;
        eng_list_done list;
        eng_uploads_done uploads;
        eng_versions_done versions;
        eng_parts_done parts;
        eng_get_opened get;
        void *arg;
        int rv;
};
void eng_early(struct eng_store *store, struct eng_early what);

/*
 * Appends the record that puts this value, which it takes over, under txn->name; or, where rv is an
 * error or memory is lacking, ends the txn with that. The key is locked.
 */
void eng_txn_put_value(struct eng_txn *txn, struct eng_buf *value, int rv);

/*
 * Submits it once the store has these features (0: none), which its record needs: store.h. If they
 * cannot be set, done() comes with that error.
 */
void eng_txn_submit_with(struct eng_txn *txn, uint64_t features);

/*
 * Appends the record that deletes txn->name, or ends the txn for want of memory. The key is locked.
 */
void eng_txn_delete_name(struct eng_txn *txn);

/* Abort of an upload of a bucket that was deleted. */
void eng_upload_abort_dead(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN], eng_done done, void *arg);

#endif
