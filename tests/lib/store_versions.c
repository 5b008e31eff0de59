/*
 * store_versions.c - versions of objects, for tests; see store_versions.h.
 */
#include "tests/lib/store_versions.h"

#include <assert.h>
#include <semaphore.h>
#include <string.h>

/* One blocking call; start() runs on the loop. */
struct version_call {
        struct lp_msg msg;
        void (*start)(struct version_call *call);
        struct sf *sf;
        unsigned loop;
        sem_t done;
        int rv;
        uint64_t bucket;
        struct eng_str key;
        uint64_t seed;
        struct eng_version *made;
        const struct eng_version *version;
        const struct eng_bucket_rules *rules;
        const struct eng_extras_change *change;
        struct eng_deleted *deleted;
        const struct eng_delete_params *deletion;
        const struct eng_list_params *list;
        struct sv_entry *entries;
        unsigned *count;
        bool *more;
};

static void version_call_end(struct version_call *c, int rv)
{
        c->rv = rv;
        sem_post(&c->done);
}

static void version_call_started(struct lp_msg *msg)
{
        struct version_call *c = (struct version_call *)msg;

        c->start(c);
}

static int version_call(struct sf *sf, unsigned loop, struct version_call *c, void (*start)(struct version_call *call))
{
        c->sf = sf;
        c->loop = loop;
        c->start = start;
        c->msg.run = version_call_started;
        sem_init(&c->done, 0, 0);
        lp_post(sf->loops[loop], &c->msg);
        while (sem_wait(&c->done) != 0)
                ;
        sem_destroy(&c->done);
        return c->rv;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void set_rules(struct version_call *c)
{
        struct eng_config_bucket *bucket = eng_bucket_by_id(&c->sf->store->loops[c->loop], c->bucket);

        assert(bucket != NULL);
        bucket->bucket.rules = *c->rules;
        version_call_end(c, 0);
}

void sv_rules(struct sf *sf, uint64_t bucket, const struct eng_bucket_rules *rules)
{
        unsigned loop;

        for (loop = 0; loop < sf->store->loop_count; loop++) {
                struct version_call c = {.bucket = bucket, .rules = rules};

                version_call(sf, loop, &c, set_rules);
        }
}

void sv_versioning(struct sf *sf, uint64_t bucket, enum eng_versioning state)
{
        sv_rules(sf, bucket, &(struct eng_bucket_rules){.versioning = state});
}

/* ---- changes --------------------------------------------------------------------------------- */

static void version_deleted(void *arg, int rv, const struct eng_deleted *deleted)
{
        struct version_call *c = arg;

        *c->deleted = *deleted;
        version_call_end(c, rv);
}

static void version_delete(struct version_call *c)
{
        eng_delete(c->sf->store, c->deletion, version_deleted, c);
}

int sv_delete_with(struct sf *sf, const struct eng_delete_params *params, struct eng_deleted *out)
{
        struct version_call c = {.deletion = params, .deleted = out};

        return version_call(sf, 0, &c, version_delete);
}

int sv_delete_key(struct sf *sf, uint64_t bucket, struct eng_str key, const struct eng_version *version,
                  struct eng_deleted *out)
{
        return sv_delete_with(sf, &(struct eng_delete_params){.bucket = bucket, .key = key, .version = version}, out);
}

int sv_delete(struct sf *sf, uint64_t bucket, const char *key, const struct eng_version *version,
              struct eng_deleted *out)
{
        return sv_delete_key(sf, bucket, (struct eng_str){key, strlen(key)}, version, out);
}

static void version_put_done(void *arg, int rv, const struct eng_object *object)
{
        struct version_call *c = arg;

        if (rv == 0)
                *c->made = object->version;
        version_call_end(c, rv);
}

/* It is small: nothing is waited for. */
static void version_put_woken(void *arg)
{
        (void)arg;
}

static void version_put(struct version_call *c)
{
        struct eng_put_params params = {
                .bucket = c->bucket, .key = c->key, .size = sizeof(c->seed), .wake = version_put_woken};
        struct eng_put_commit commit = {.attrs = "attrs", .attrs_len = 5};
        struct eng_put *put;
        int rv = eng_put_open(c->sf->store, &params, &put);

        if (rv != 0) {
                version_call_end(c, rv);
                return;
        }
        assert(eng_put_write(put, &c->seed, sizeof(c->seed)) == sizeof(c->seed));
        memcpy(commit.etag, &c->seed, sizeof(c->seed));
        eng_put_commit(put, &commit, version_put_done, c);
}

int sv_put(struct sf *sf, uint64_t bucket, struct eng_str key, uint64_t seed, struct eng_version *out)
{
        struct version_call c = {.bucket = bucket, .key = key, .seed = seed, .made = out};

        return version_call(sf, 0, &c, version_put);
}

static void extras_were_set(void *arg, int rv, const struct eng_object *object)
{
        (void)object;
        version_call_end(arg, rv);
}

static void version_extras(struct version_call *c)
{
        eng_extras_set(c->sf->store, c->bucket, c->key, c->version, c->change, extras_were_set, c);
}

int sv_extras(struct sf *sf, uint64_t bucket, const char *key, const struct eng_version *version,
              const struct eng_extras_change *change)
{
        struct version_call c = {.bucket = bucket, .key = {key, strlen(key)}, .version = version, .change = change};

        return version_call(sf, 0, &c, version_extras);
}

/* ---- listing --------------------------------------------------------------------------------- */

static void page_listed(void *arg, int rv, const struct eng_version_entry *entries, unsigned count, bool more)
{
        struct version_call *c = arg;
        unsigned i;

        assert(count <= c->list->max);
        for (i = 0; i < count; i++) {
                struct sv_entry *e = &c->entries[i];

                memset(e, 0, sizeof(*e));
                memcpy(e->key, entries[i].key.data, entries[i].key.len);
                e->key_len = entries[i].key.len;
                e->is_prefix = entries[i].is_prefix;
                e->latest = entries[i].latest;
                e->marker = entries[i].object.marker;
                e->version = entries[i].object.version;
                memcpy(&e->seed, entries[i].object.etag, sizeof(e->seed));
                e->beside = entries[i].object.attrs.len + entries[i].object.tags.len;
        }
        *c->count = count;
        *c->more = more;
        version_call_end(c, rv);
}

static void version_list(struct version_call *c)
{
        eng_version_list(c->sf->store, c->list, c->version, page_listed, c);
}

int sv_list(struct sf *sf, const struct eng_list_params *params, const struct eng_version *after_version,
            struct sv_entry *out, unsigned *count, bool *more)
{
        struct version_call c = {
                .list = params, .version = after_version, .entries = out, .count = count, .more = more};

        return version_call(sf, 0, &c, version_list);
}

bool sv_object_row(const struct sf *sf, unsigned slot, uint64_t bucket, const char *key, struct sf_row *row)
{
        eng_name_object(&row->name, bucket, key, strlen(key));
        return sf_get_row(sf, slot, row);
}

bool sv_version_row(const struct sf *sf, unsigned slot, uint64_t bucket, const char *key, const struct eng_version *version,
                    struct sf_row *row)
{
        eng_name_version(&row->name, bucket, key, strlen(key), version->number);
        return sf_get_row(sf, slot, row);
}

void sv_lose_row(const struct sf *sf, unsigned slot, const struct sf_row *row)
{
        static struct sf_row gone;

        gone.name = row->name;
        sf_put_row(sf, slot, &gone);
}
