/*
 * config_digest.h - the digest of all rows of the configuration, by which a home that has them all is not
 * given them again. Coordinator. eng_home_digest() is in engine_home.h.
 */
#ifndef MILLRACE_ENGINE_BUCKET_CONFIG_DIGEST_H
#define MILLRACE_ENGINE_BUCKET_CONFIG_DIGEST_H

#include "engine/base/store.h"
#include "engine/bucket/bucket_text.h"
#include "engine_home.h"

/* Before the store is started. False: no memory. */
bool eng_digests_make(struct eng_store *store);
void eng_digests_free(struct eng_store *store);
/* This entry is in the table from now on, or no more. */
void eng_digest_entry(struct eng_store *store, const struct eng_text *text, bool there);
/* The coordinator's loop was told of all entries as they are. */
void eng_digest_told(struct eng_store *store);
/* Entries, but for those of pools of buckets, are as somebody has seen them. */
bool eng_digest_is_seen(const struct eng_store *store, const struct eng_rows_digest *seen);
/* This loop's buckets, or texts of them, are others by now. Not later than the change is in the feed. */
void eng_digest_changed(struct eng_store *store);
bool eng_digest_same(const struct eng_rows_digest *a, const struct eng_rows_digest *b);

#endif
