/*
 * memtable_location.c - places of shards, and discards, that are not in the index yet.
 *
 * WRITE and DISCARD change them, READ looks here first. Owner: the loop while active; nobody
 * changes them once frozen.
 */
#include "engine/drive/memtable.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_BYTES (sizeof(struct eng_memtable_location) + 64)

_Static_assert(sizeof(struct eng_location_key) == FMT_ID + 2 * sizeof(uint32_t), "hashed as bytes: no holes");

static void make_key(struct eng_location_key *key, const uint8_t object_id[FMT_ID], uint32_t stripe, uint8_t shard)
{
        memcpy(key->object_id, object_id, FMT_ID);
        key->stripe = stripe;
        key->shard = shard;
}

static struct eng_memtable_object *find_object(const struct eng_memtable *memtable, const uint8_t object_id[FMT_ID])
{
        struct eng_memtable_object *object;

        HASH_FIND(hh, memtable->objects, object_id, FMT_ID, object);
        return object;
}

static struct eng_memtable_object *get_object(struct eng_memtable *memtable, const uint8_t object_id[FMT_ID])
{
        struct eng_memtable_object *object = find_object(memtable, object_id);

        if (object != NULL)
                return object;
        object = calloc(1, sizeof(*object));
        if (object == NULL)
                return NULL;
        memcpy(object->id, object_id, FMT_ID);
        HASH_ADD(hh, memtable->objects, id, FMT_ID, object);
        memtable->bytes += sizeof(*object) + 64;
        return object;
}

int eng_memtable_location(struct eng_memtable *memtable, const uint8_t object_id[FMT_ID], const struct eng_location *location,
                   struct eng_location *old)
{
        struct eng_memtable_object *object;
        struct eng_memtable_location *entry;
        struct eng_location_key key;

        make_key(&key, object_id, location->stripe, location->shard);
        HASH_FIND(hh, memtable->locations, &key, sizeof(key), entry);
        if (entry != NULL) {
                assert(entry->location.stripe == location->stripe && entry->location.shard == location->shard);
                *old = entry->location;
                entry->location = *location;
                return 1;
        }
        object = get_object(memtable, object_id);
        entry = calloc(1, sizeof(*entry));
        if (object == NULL || entry == NULL) {
                free(entry);
                return -ENOMEM;
        }
        entry->key = key;
        entry->location = *location;
        entry->next = object->locations;
        object->locations = entry;
        HASH_ADD(hh, memtable->locations, key, sizeof(entry->key), entry);
        memtable->location_count++;
        memtable->bytes += PLACE_BYTES;
        return 0;
}

int eng_memtable_discard(struct eng_memtable *memtable, const uint8_t object_id[FMT_ID], eng_index_location_gone gone, void *arg)
{
        struct eng_memtable_object *object = get_object(memtable, object_id);
        struct eng_memtable_location *entry;

        if (object == NULL)
                return -ENOMEM;
        while ((entry = object->locations) != NULL) {
                assert(memtable->location_count > 0 && memtable->bytes >= PLACE_BYTES);
                object->locations = entry->next;
                gone(arg, &entry->location);
                HASH_DEL(memtable->locations, entry);
                free(entry);
                memtable->location_count--;
                memtable->bytes -= PLACE_BYTES;
        }
        memtable->discard_count += !object->discarded;
        object->discarded = true;
        return 0;
}

int eng_memtable_location_find(const struct eng_memtable *memtable, const uint8_t object_id[FMT_ID], uint32_t stripe, uint8_t shard,
                        struct eng_location *out)
{
        const struct eng_memtable_object *object;
        struct eng_memtable_location *entry;
        struct eng_location_key key;

        make_key(&key, object_id, stripe, shard);
        HASH_FIND(hh, memtable->locations, &key, sizeof(key), entry);
        if (entry != NULL) {
                *out = entry->location;
                return 1;
        }
        object = find_object(memtable, object_id);
        return object != NULL && object->discarded ? -ENOENT : 0;
}
