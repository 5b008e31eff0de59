/*
 * get_compute.c - data units computed from any k shards, in place: each comes to lie where something was that
 * it was computed from, so that no slot more is needed. Any thread.
 */
#include "engine/base/store.h"
#include "engine/object/get.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK (16u << 10) /* computed at once: it stays in the processor's cache */

int eng_get_compute(const struct era_code *code, unsigned shards, const struct get_sources *from, uint32_t begin, uint32_t end,
                    const uint8_t *missing, void *const *to, unsigned n)
{
        const uint8_t *have[ERA_MAX_SHARDS] = {NULL};
        uint8_t *out[ERA_MAX_SHARDS], *room = aligned_alloc(64, (size_t)n * CHUNK);
        uint32_t at, len;
        unsigned i;
        int rv = room == NULL ? -ENOMEM : 0;

        for (i = 0; i < n; i++)
                out[i] = room + (size_t)i * CHUNK;
        for (at = begin; at < end && rv == 0; at += len) {
                len = end - at < CHUNK ? end - at : CHUNK;
                for (i = 0; i < shards; i++)
                        have[i] = from->slot[i] != NULL ? (const uint8_t *)from->slot[i] + LP_SLOT_HEADER + at : eng_zero_unit;
                rv = era_rebuild(code, len, have, from->present, missing, n, out);
                for (i = 0; i < n && rv == 0; i++)
                        memcpy((uint8_t *)to[i] + LP_SLOT_HEADER + at, out[i], len);
        }
        free(room);
        return rv;
}
