/*
 * home_calls.h - changes of a home store, which the leader of its pool does. The loop of the request;
 * done() as the call of engine.h says.
 */
#ifndef MILLRACE_ENGINE_OBJECT_HOME_CALLS_H
#define MILLRACE_ENGINE_OBJECT_HOME_CALLS_H

#include "engine/object/object.h"

/* The record of an upload: as eng_txn_submit() of it, but for value and name, which stay; `stored` is what was stored. */
struct eng_call_proof;
void eng_home_put(struct eng_txn_put *put, const struct eng_call_proof *proofs, unsigned count, void (*done)(struct eng_txn_put *put, const struct eng_object *stored));
void eng_home_delete(struct eng_store *store, const struct eng_delete_params *params, eng_delete_done done, void *arg);
void eng_home_update(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_condition *condition,
                     const void *attrs, size_t attrs_len, const uint8_t tag[8], eng_put_done done, void *arg);
void eng_home_extras(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_version *version,
                     const struct eng_extras_change *change, eng_put_done done, void *arg);
void eng_home_upload_create(struct eng_store *store, const struct eng_upload_params *params, eng_upload_done done, void *arg);
void eng_home_upload_abort(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN],
                           eng_done done, void *arg);
void eng_home_complete(struct eng_store *store, const struct eng_complete_params *params, eng_put_done done, void *arg);

#endif
