/*
 * lost_objects.c - objects with stripes beyond repair, as far as this run has met them.
 *
 * rebuild.c finds them, whoever asks for the repair. Each loop knows those of its own groups; what
 * is counted, and the last that were found with their names, is the store's, for health and the
 * log. One is forgotten when deferred_delete.c gives its shards back, or when its part was read
 * after all. Nothing here decides what is written or discarded: what is not remembered for want of
 * room or memory is met again by the next walk.
 */
#include "engine/base/store.h"
#include "engine/upkeep/lost_objects.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LOST_OBJECTS_MOST 4096u                     /* of a loop */

struct lost_object {
        UT_hash_handle hh;
        uint8_t id[FMT_ID], part[FMT_ID];
        uint64_t epoch, found;         /* lp_now() */
        bool rests;
};

static struct lost_object *lost_object_find(const struct eng_loop *el, const uint8_t id[FMT_ID])
{
        struct lost_object *lost;

        HASH_FIND(hh, el->leader.lost_objects, id, FMT_ID, lost);
        return lost;
}

static struct lost_object *lost_object_remember(struct eng_loop *el, const uint8_t id[FMT_ID])
{
        struct lost_object *lost;

        if (HASH_COUNT(el->leader.lost_objects) >= LOST_OBJECTS_MOST)
                return NULL;
        lost = calloc(1, sizeof(*lost));
        if (lost == NULL)
                return NULL;
        memcpy(lost->id, id, FMT_ID);
        HASH_ADD(hh, el->leader.lost_objects, id, FMT_ID, lost);
        return lost;
}

static void lost_object_forget(struct eng_loop *el, struct lost_object *lost)
{
        HASH_DEL(el->leader.lost_objects, lost);
        free(lost);
        pthread_mutex_lock(&el->store->health_lock);
        assert(el->store->health.lost_objects > 0);
        el->store->health.lost_objects--;
        pthread_mutex_unlock(&el->store->health_lock);
}

static void lost_object_say(struct eng_loop *el, const struct eng_name *name, bool is_new)
{
        struct eng_store *store = el->store;
        const struct eng_config_bucket *bucket;
        struct eng_lost_object *out;
        uint8_t key[FMT_NAME_MAX];
        uint64_t id;
        size_t len;

        if (eng_name_key(name, &id, key, &len) != 0 || len > sizeof(out->key))
                return;
        bucket = eng_bucket_by_id(el, id);
        pthread_mutex_lock(&store->health_lock);
        store->health.lost_objects += is_new;
        out = &store->lost_said[store->lost_number++ % ENG_LOST_SAID];
        out->number = store->lost_number;
        memset(out->bucket, 0, sizeof(out->bucket));
        if (bucket != NULL)
                memcpy(out->bucket, bucket->bucket.name, sizeof(out->bucket));
        out->key_len = (uint16_t)len;
        memcpy(out->key, key, len);
        pthread_mutex_unlock(&store->health_lock);
}

void eng_lost_object_found(struct eng_loop *el, const struct eng_name *name, const uint8_t id[FMT_ID], const uint8_t part[FMT_ID], bool rests)
{
        struct lost_object *lost = lost_object_find(el, id);
        bool is_new = lost == NULL;

        assert(eng_on_loop(el));
        if (is_new)
                lost = lost_object_remember(el, id);
        if (lost != NULL) {
                memcpy(lost->part, part, FMT_ID);
                lost->epoch = el->view.epoch;
                lost->found = lp_now(el->loop);
                lost->rests = rests;
        }
        lost_object_say(el, name, is_new && lost != NULL);
}

void eng_lost_object_readable(struct eng_loop *el, const uint8_t part[FMT_ID])
{
        struct lost_object *lost, *next;

        assert(eng_on_loop(el));
        HASH_ITER(hh, el->leader.lost_objects, lost, next)
                if (memcmp(lost->part, part, FMT_ID) == 0)
                        lost_object_forget(el, lost);
}

void eng_lost_object_gone(struct eng_loop *el, const uint8_t id[FMT_ID])
{
        struct lost_object *lost = lost_object_find(el, id);

        assert(eng_on_loop(el));
        if (lost != NULL)
                lost_object_forget(el, lost);
}

bool eng_lost_object_rests(const struct eng_loop *el, const uint8_t id[FMT_ID], uint64_t ns)
{
        const struct lost_object *lost = lost_object_find(el, id);

        return lost != NULL && lost->rests && lost->epoch == el->view.epoch && lp_now(el->loop) - lost->found < ns;
}

void eng_lost_objects_free(struct eng_loop *el)
{
        struct lost_object *lost, *next;

        HASH_ITER(hh, el->leader.lost_objects, lost, next) {
                HASH_DEL(el->leader.lost_objects, lost);
                free(lost);
        }
}

bool eng_lost_object_next(struct eng_store *store, uint64_t *number, struct eng_lost_object *out)
{
        bool any;

        pthread_mutex_lock(&store->health_lock);
        if (store->lost_number - *number > ENG_LOST_SAID)
                *number = store->lost_number - ENG_LOST_SAID;
        any = *number < store->lost_number;
        if (any)
                *out = store->lost_said[(*number)++ % ENG_LOST_SAID];
        pthread_mutex_unlock(&store->health_lock);
        return any;
}
