/*
 * home_changes.h - changes of the configuration that a home store sends to the leader of its pool, as the
 * calls of engine.h. The loop of the request.
 */
#ifndef MILLRACE_ENGINE_BUCKET_HOME_CHANGES_H
#define MILLRACE_ENGINE_BUCKET_HOME_CHANGES_H

#include "engine/base/store.h"

void eng_home_bucket_create(struct eng_store *store, struct eng_str name, const struct eng_bucket_rules *rules, const void *attrs,
                            size_t attrs_len, eng_done done, void *arg);
void eng_home_rules_set(struct eng_store *store, uint64_t bucket, const struct eng_bucket_rules *rules, eng_done done, void *arg);
void eng_home_bucket_delete(struct eng_store *store, struct eng_str name, uint64_t id, eng_done done, void *arg);
/* bytes.data NULL: it is deleted. seen NULL: see eng_entry_set(). */
void eng_home_text_set(struct eng_store *store, uint64_t bucket, unsigned kind, uint64_t expected, const struct eng_rows_digest *seen,
                       struct eng_str bytes, eng_done done, void *arg);
void eng_home_lock_confirm(struct eng_store *store, int64_t wall_ms, eng_done done, void *arg);

#endif
