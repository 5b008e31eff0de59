/*
 * bucket_pool.h - which buckets are in which other pool: entries of the cluster's first pool (private to the module).
 * docs/design/pools.md has the rules.
 */
#ifndef MILLRACE_ENGINE_BUCKET_POOL_H
#define MILLRACE_ENGINE_BUCKET_POOL_H

#include "engine/bucket/bucket_text.h"

#define ENG_BUCKET_POOL_BYTES (sizeof(struct fmt_bucket_pool) + ENG_BUCKET_NAME_MAX) /* of an entry's text, at most */

/* Reads an entry's text, which may be any bytes. name NULL: it is not wanted. False: it is no such text. */
bool eng_bucket_pool_read(const struct eng_text *text, struct eng_str *name, unsigned *pool);
/*
 * Coordinator, at the head of the queue of changes: why the entry of this number may not become `wanted` (NULL: be deleted);
 * 0: it may. old: as it is; NULL: there is none. Errors as eng_bucket_pool_set() has them; -EPERM: it would be deleted.
 */
int eng_bucket_pool_refusal(struct eng_store *store, uint64_t id, const struct eng_text *wanted, const struct eng_text *old);
/* Likewise: -EREMOTE, a bucket of this name is another pool's; -EIO, it may be. Else 0. */
int eng_bucket_pool_elsewhere(struct eng_store *store, struct eng_str name);
/* There may be no more of them. */
bool eng_bucket_pools_full(const struct eng_store *store);

#endif
