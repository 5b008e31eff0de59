/*
 * tail_place.c - places of shards, and discards, that are not in the index yet.
 *
 * WRITE and DISCARD change them, READ looks here first. Owner: the loop while active; nobody changes them once frozen.
 */
#include "engine/drive/tail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_BYTES (sizeof(struct eng_tail_place) + 64)

static void make_key(struct eng_place_key *key, const uint8_t object_id[FMT_ID], uint32_t stripe, uint8_t shard)
{
        memcpy(key->object_id, object_id, FMT_ID);
        key->stripe = stripe;
        key->shard = shard;
}

static struct eng_tail_object *find_object(const struct eng_tail *tail, const uint8_t object_id[FMT_ID])
{
        struct eng_tail_object *object;

        HASH_FIND(hh, tail->objects, object_id, FMT_ID, object);
        return object;
}

static struct eng_tail_object *get_object(struct eng_tail *tail, const uint8_t object_id[FMT_ID])
{
        struct eng_tail_object *object = find_object(tail, object_id);

        if (object != NULL)
                return object;
        object = calloc(1, sizeof(*object));
        if (object == NULL)
                return NULL;
        memcpy(object->id, object_id, FMT_ID);
        HASH_ADD(hh, tail->objects, id, FMT_ID, object);
        tail->bytes += sizeof(*object) + 64;
        return object;
}

int eng_tail_place(struct eng_tail *tail, const uint8_t object_id[FMT_ID], const struct eng_place *place,
                   struct eng_place *old)
{
        struct eng_tail_object *object;
        struct eng_tail_place *entry;
        struct eng_place_key key;

        make_key(&key, object_id, place->stripe, place->shard);
        HASH_FIND(hh, tail->places, &key, sizeof(key), entry);
        if (entry != NULL) {
                *old = entry->place;
                entry->place = *place;
                return 1;
        }
        object = get_object(tail, object_id);
        entry = calloc(1, sizeof(*entry));
        if (object == NULL || entry == NULL) {
                free(entry);
                return -ENOMEM;
        }
        entry->key = key;
        entry->place = *place;
        entry->next = object->places;
        object->places = entry;
        HASH_ADD(hh, tail->places, key, sizeof(entry->key), entry);
        tail->place_count++;
        tail->bytes += PLACE_BYTES;
        return 0;
}

int eng_tail_discard(struct eng_tail *tail, const uint8_t object_id[FMT_ID], eng_index_place_gone gone, void *arg)
{
        struct eng_tail_object *object = get_object(tail, object_id);
        struct eng_tail_place *entry;

        if (object == NULL)
                return -ENOMEM;
        while ((entry = object->places) != NULL) {
                object->places = entry->next;
                gone(arg, &entry->place);
                HASH_DEL(tail->places, entry);
                free(entry);
                tail->place_count--;
                tail->bytes -= PLACE_BYTES;
        }
        tail->discard_count += !object->discarded;
        object->discarded = true;
        return 0;
}

int eng_tail_place_find(const struct eng_tail *tail, const uint8_t object_id[FMT_ID], uint32_t stripe, uint8_t shard,
                        struct eng_place *out)
{
        const struct eng_tail_object *object;
        struct eng_tail_place *entry;
        struct eng_place_key key;

        make_key(&key, object_id, stripe, shard);
        HASH_FIND(hh, tail->places, &key, sizeof(key), entry);
        if (entry != NULL) {
                *out = entry->place;
                return 1;
        }
        object = find_object(tail, object_id);
        return object != NULL && object->discarded ? -ENOENT : 0;
}
