/*
 * cache.h - bytes of small objects, keyed by object id (unique per write, so nothing here is ever
 * out of date).
 *
 * S3-FIFO (Yang et al., SOSP 2023): a small queue for what is new, a main queue for what was asked
 * for again, and a memory of ids that left the small queue unasked. One pass over a million objects
 * does not push out what is read often. owner: the loop.
 */
#ifndef MILLRACE_ENGINE_DRIVE_CACHE_H
#define MILLRACE_ENGINE_DRIVE_CACHE_H

#include <stdint.h>

#include "engine/drive/drive.h"

struct eng_cache;

/* bytes: bound on what is held, bookkeeping included; 0: nothing is ever held. NULL: no memory. */
struct eng_cache *eng_cache_new(uint64_t bytes);
void eng_cache_free(struct eng_cache *cache);
/* A new reference, or NULL. */
struct eng_buf *eng_cache_get(struct eng_cache *cache, const uint8_t id[FMT_ID]);
/*
 * Takes a reference of its own, if it takes the bytes at all (too big, or no memory: it does not).
 */
void eng_cache_put(struct eng_cache *cache, const uint8_t id[FMT_ID], struct eng_buf *bytes);
uint64_t eng_cache_bytes(const struct eng_cache *cache);

#endif
