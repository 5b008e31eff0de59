/*
 * fake_engine.h - an engine in memory with a stiff joint everywhere: it can be slow, full, short of
 * buffers, or fail.
 *
 * Included by one test program each, which thereby defines every eng_* function the gateway calls.
 * One loop. Objects are plain memory; uploads in parts do not exist. Every completion is a message,
 * never inside the call, as the contract says. While fake.hold is set completions wait until
 * fake_release(). Knobs are set by the test's thread before requests come, under fake.lock.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"
#include "engine.h"
#include "engine_home.h"

/* Not every program uses every piece. */
#pragma GCC diagnostic ignored "-Wunused-function"

#define FAKE_OBJECTS 64
#define FAKE_BUCKETS 4
#define FAKE_TAGS    512

struct fake_object {
        bool used;
        uint64_t bucket;
        char key[ENG_KEY_MAX];
        size_t key_len;
        uint8_t *bytes, attrs[ENG_ATTRS_MAX], acl[ENG_ACL_MAX], tags[FAKE_TAGS];
        struct eng_object object;
};

/* What a held or posted completion does. */
struct fake_later {
        struct lp_msg msg;
        struct fake_later *next;
        void (*run)(struct fake_later *later);
        void *arg, *thing;
        struct lp_loop *loop;
        void (*fn)(void);
        int rv;
        bool flag;
        uint64_t bucket;
        char key[ENG_KEY_MAX];
        size_t key_len;
        struct eng_condition condition;
        struct eng_put_commit commit;
        uint8_t attrs[ENG_ATTRS_MAX], acl[ENG_ACL_MAX], tags[FAKE_TAGS], seen[FAKE_TAGS], id[ENG_ID_LEN];
        size_t acl_len, tags_len, seen_len;
        bool set_acl, set_tags, if_tags;
};

struct eng_store {
        struct lp_loop *loop;
};

struct eng_text {
        char bytes[2048];
        size_t len;                     /* 0: there is none */
        uint64_t generation;
        void *form;
        void (*destroy)(void *form);
};

/* An entry of the store. */
struct fake_entry {
        uint64_t id;
        unsigned kind;
        struct eng_text text;
};

/* A page of versions, as a test scripts it; room for FAKE_PAGE. Returns what the engine answers. */
#define FAKE_PAGE 8u
typedef int fake_version_page(const struct eng_list_params *params, const struct eng_version *after,
                              struct eng_version_entry *out, unsigned *count, bool *more);

/* As eng_delete() was called. */
struct fake_deletion {
        char key[8];
        struct eng_version version;
        bool by_version, object;
        enum eng_place place;
};

static struct {
        pthread_mutex_t lock;
        struct eng_store store;
        struct fake_object objects[FAKE_OBJECTS];
        struct eng_bucket buckets[FAKE_BUCKETS];
        unsigned bucket_count;
        /* knobs */
        bool hold;                      /* completions wait */
        bool old;                       /* another process leads the pool */
        struct fake_later *held;
        unsigned open_stuck;            /* 1: eng_get_open makes it 2, and returns once it is 0 */
        int open_rv, commit_rv, get_rv; /* what the next calls answer, 0: the truth */
        int write_rv;                   /* what eng_put_write answers once it has taken some bytes, 0: the truth */
        size_t place;                   /* bytes of a place that is lent; 0: 1 MiB */
        int place_rv;                   /* what eng_put_buffer answers once so many bytes are lent: */
        size_t place_from;
        unsigned unready;               /* times eng_put_md5_ready says that it is not */
        size_t room;                    /* bytes one eng_put_write takes before the engine asks to wait; 0: all */
        size_t span;                    /* longest span of a read; 0: all */
        uint64_t break_at;              /* reading fails with -EIO from this offset on; 0: never */
        uint64_t claimed_size;          /* of objects opened, 0: the truth */
        bool shards;                    /* small objects are not in their records, either */
        bool keeps;                     /* bytes stay that an answer is made of */
        bool slow_reads;                /* each span has to be waited for */
        bool stall_reads;               /* and the first such wait sets hold */
        uint8_t *(*memory)(size_t len); /* where an object's bytes lie while it is open; NULL: anywhere */
        void (*memory_back)(uint8_t *bytes, size_t len);
        /* what the calls at the end of this file answer */
        int bucket_rv, list_rv, upload_rv, parts_rv, complete_rv, update_rv, delete_rv;
        struct eng_list_entry entries[4];
        struct eng_upload_entry uploads[4];
        unsigned entry_count;           /* of either */
        bool more;
        uint8_t upload_attrs[ENG_ATTRS_MAX];
        struct eng_object upload;       /* attrs: upload_attrs */
        struct eng_part_entry parts[4]; /* one a page */
        unsigned part_count;
        unsigned object_parts;          /* every object that is opened is made of so many of them */
        struct eng_complete_params completed; /* as asked for last; its pointers are stale */
        struct eng_text texts[32];      /* of the bucket, by kind */
        struct fake_entry entries_kept[8];
        void (*before_entry)(uint64_t id, unsigned kind); /* runs when one is looked for; NULL */
        fake_version_page *version_page; /* NULL: entries, as of objects */
        struct fake_deletion deletions[8];
        unsigned deletion_count, upload_lists, homes_calls;
        uint64_t bucket_deleted;        /* the bucket that was to be deleted last */
        /* figures */
        unsigned puts_open, gets_open, kept, aborts, commits;
        uint8_t next_id;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct eng_get {
        struct fake_object copy;        /* pinned */
        uint64_t at, end;
        void (*wake)(void *arg);
        void *arg;
        bool waited;
        uint32_t crc;
        unsigned posted;                /* wakes under way */
        unsigned held;                  /* spans that are not let go */
        struct fake_kept *kept;
        bool holding;
        bool closed;
};

struct fake_kept {
        uint8_t *bytes;
};

#define FAKE_PLACES 4u

struct eng_put {
        struct eng_put_params params;
        char key[ENG_KEY_MAX];
        uint8_t *bytes;
        size_t len, cap;
        struct { /* lent, oldest first */
                uint8_t *bytes;
                size_t len;
        } place[FAKE_PLACES];
        unsigned lent;
        size_t lent_to;
        unsigned unready;
        bool asked, may_lend;
        bool full;
        unsigned posted;
        bool closed;
};

static void fake_run(struct lp_msg *msg)
{
        struct fake_later *later = (struct fake_later *)msg;

        later->run(later);
        free(later);
}

static struct fake_later *fake_later(void (*run)(struct fake_later *later), void *arg)
{
        struct fake_later *later = calloc(1, sizeof(*later));

        assert(later != NULL);
        later->msg.run = fake_run;
        later->run = run;
        later->arg = arg;
        later->loop = fake.store.loop != NULL ? fake.store.loop : lp_self();
        return later;
}

static void fake_post(struct fake_later *later)
{
        pthread_mutex_lock(&fake.lock);
        if (fake.hold) {
                later->next = fake.held;
                fake.held = later;
                later = NULL;
        }
        pthread_mutex_unlock(&fake.lock);
        if (later != NULL)
                lp_post(later->loop, &later->msg);
}

static void fake_let_go(bool hold)
{
        struct fake_later *later, *next;

        pthread_mutex_lock(&fake.lock);
        later = fake.held;
        fake.held = NULL;
        fake.hold = hold;
        pthread_mutex_unlock(&fake.lock);
        for (; later != NULL; later = next) {
                next = later->next;
                lp_post(later->loop, &later->msg);
        }
}

/* Any thread: lets what was held go, and holds no more. */
static void fake_release(void)
{
        fake_let_go(false);
}

/* Any thread: lets what was held go, and holds what comes of it. */
static void fake_release_held(void)
{
        fake_let_go(true);
}

/* Any thread: completions that wait now. */
static unsigned fake_held(void)
{
        unsigned n = 0;

        pthread_mutex_lock(&fake.lock);
        for (struct fake_later *later = fake.held; later != NULL; later = later->next)
                n++;
        pthread_mutex_unlock(&fake.lock);
        return n;
}

static void fake_set_hold(void)
{
        pthread_mutex_lock(&fake.lock);
        fake.hold = true;
        pthread_mutex_unlock(&fake.lock);
}

static unsigned fake_figure(const unsigned *figure)
{
        unsigned n;

        pthread_mutex_lock(&fake.lock);
        n = *figure;
        pthread_mutex_unlock(&fake.lock);
        return n;
}

static void fake_count(unsigned *figure, int delta)
{
        pthread_mutex_lock(&fake.lock);
        *figure += (unsigned)delta;
        pthread_mutex_unlock(&fake.lock);
}

/* Keeps the loop, until the test lets it go on. */
static void fake_get_stuck(void)
{
        if (fake_figure(&fake.open_stuck) == 1)
                fake_count(&fake.open_stuck, 1);
        while (fake_figure(&fake.open_stuck) != 0)
                nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static struct fake_object *fake_find(uint64_t bucket, const char *key, size_t len)
{
        for (unsigned i = 0; i < FAKE_OBJECTS; i++) {
                struct fake_object *o = &fake.objects[i];

                if (o->used && o->bucket == bucket && o->key_len == len && memcmp(o->key, key, len) == 0)
                        return o;
        }
        return NULL;
}

static void fake_text_write(struct eng_text *text, struct eng_str bytes)
{
        assert(bytes.len <= sizeof(text->bytes));
        if (text->form != NULL)
                text->destroy(text->form);
        text->form = NULL;
        memcpy(text->bytes, bytes.data, bytes.len);
        text->len = bytes.len;
        text->generation++;
}

/* Any thread: what is kept of the bucket; empty: nothing. */
static void fake_text_set(unsigned kind, struct eng_str bytes)
{
        pthread_mutex_lock(&fake.lock);
        fake_text_write(&fake.texts[kind], bytes);
        pthread_mutex_unlock(&fake.lock);
}

/* Any thread: an entry of the store; empty: none. */
static inline void fake_entry_set(uint64_t id, unsigned kind, struct eng_str bytes)
{
        struct fake_entry *entry = fake.entries_kept;

        pthread_mutex_lock(&fake.lock);
        while (entry->kind != 0 && (entry->kind != kind || entry->id != id))
                entry++;
        assert(entry < fake.entries_kept + sizeof(fake.entries_kept) / sizeof(fake.entries_kept[0]));
        entry->kind = kind;
        entry->id = id;
        fake_text_write(&entry->text, bytes);
        pthread_mutex_unlock(&fake.lock);
}

static void fake_reset(struct lp_loop *loop)
{
        for (unsigned i = 0; i < FAKE_OBJECTS; i++)
                free(fake.objects[i].bytes);
        memset(fake.objects, 0, sizeof(fake.objects));
        fake.store.loop = loop;
        fake.bucket_count = 1;
        fake.buckets[0] = (struct eng_bucket){.id = 1, .created_ms = 1000, .name = "bucket"};
        fake.hold = fake.slow_reads = fake.stall_reads = fake.keeps = false;
        fake.open_rv = fake.commit_rv = fake.get_rv = 0;
        fake.memory = NULL;
        fake.room = fake.span = 0;
        fake.write_rv = fake.place_rv = 0;
        fake.place = fake.place_from = 0;
        fake.unready = 0;
        fake.break_at = fake.claimed_size = 0;
        fake.bucket_rv = fake.list_rv = fake.parts_rv = fake.complete_rv = fake.update_rv = fake.delete_rv = 0;
        fake.upload_rv = -ENOENT;
        fake.entry_count = fake.part_count = fake.object_parts = 0;
        fake.more = false;
        fake.puts_open = fake.gets_open = fake.kept = fake.aborts = fake.commits = 0;
        fake.version_page = NULL;
        fake.before_entry = NULL;
        fake.deletion_count = fake.upload_lists = fake.homes_calls = 0;
        for (unsigned i = 0; i < sizeof(fake.texts) / sizeof(fake.texts[0]); i++)
                fake_text_set(i, (struct eng_str){"", 0});
        for (unsigned i = 0; i < sizeof(fake.entries_kept) / sizeof(fake.entries_kept[0]); i++) {
                fake_text_write(&fake.entries_kept[i].text, (struct eng_str){"", 0});
                fake.entries_kept[i].kind = 0;
        }
}

uint64_t eng_homes_calls(const struct eng_store *store)
{
        return fake_figure(&fake.homes_calls);
}

bool eng_is_current(const struct eng_store *store)
{
        return !fake.old;
}

/* ---- buckets ---- */

int eng_bucket_get(struct eng_store *store, struct eng_str name, const struct eng_bucket **out)
{
        if (fake.bucket_rv != 0)
                return fake.bucket_rv;
        for (unsigned i = 0; i < fake.bucket_count; i++) {
                if (strlen(fake.buckets[i].name) == name.len && memcmp(fake.buckets[i].name, name.data, name.len) == 0) {
                        fake.buckets[i].store = store;
                        *out = &fake.buckets[i];
                        return 0;
                }
        }
        return -ENOENT;
}

unsigned eng_bucket_list(struct eng_store *store, struct eng_str from, unsigned max, const struct eng_bucket **out)
{
        unsigned n = 0;

        for (unsigned i = 0; i < fake.bucket_count && n < max; i++) {
                size_t len = strlen(fake.buckets[i].name) + 1; /* with its NUL, which `from` may have, too */
                int order = memcmp(fake.buckets[i].name, from.data, len < from.len ? len : from.len);

                if (order > 0 || (order == 0 && len > from.len))
                        out[n++] = &fake.buckets[i];
        }
        return n;
}

/* All are in the one store that there is. */
int eng_bucket_pool_get(struct eng_store *store, struct eng_str name, unsigned *pool)
{
        return -ENOENT;
}

uint64_t eng_bucket_pools(const struct eng_store *store)
{
        return 0;
}

static void run_done(struct fake_later *later)
{
        ((eng_done)later->fn)(later->arg, later->rv);
}

static void post_done(eng_done done, void *arg, int rv)
{
        struct fake_later *later = fake_later(run_done, arg);

        later->fn = (void (*)(void))done;
        later->rv = rv;
        fake_post(later);
}

void eng_bucket_pool_set(struct eng_store *store, struct eng_str name, unsigned pool, eng_done done, void *arg)
{
        post_done(done, arg, -EINVAL);
}

void eng_bucket_create(struct eng_store *store, struct eng_str name, const struct eng_bucket_rules *rules, const void *attrs,
                       size_t attrs_len, eng_done done, void *arg)
{
        const struct eng_bucket *there;
        struct eng_bucket *b;

        if (eng_bucket_get(store, name, &there) == 0 || fake.bucket_count == FAKE_BUCKETS) {
                post_done(done, arg, -EEXIST);
                return;
        }
        b = &fake.buckets[fake.bucket_count++];
        *b = (struct eng_bucket){.id = fake.bucket_count, .created_ms = lp_wall_ms()};
        if (rules != NULL)
                b->rules = *rules;
        memcpy(b->name, name.data, name.len);
        if (attrs_len > 0)
                memcpy(b->attrs, attrs, attrs_len);
        b->attrs_len = (uint16_t)attrs_len;
        post_done(done, arg, 0);
}

void eng_bucket_delete(struct eng_store *store, struct eng_str name, uint64_t id, eng_done done, void *arg)
{
        fake.bucket_deleted = id;
        post_done(done, arg, -EBUSY);
}

/* ---- reading ---- */

static void run_open(struct fake_later *later)
{
        struct fake_object *o = fake_find(later->bucket, later->key, later->key_len);
        struct eng_get *get = NULL;
        int rv = fake.get_rv != 0 ? fake.get_rv : o == NULL ? -ENOENT : 0;

        if (rv == 0) {
                get = calloc(1, sizeof(*get));
                get->copy = *o;
                get->copy.bytes = fake.memory != NULL ? fake.memory(o->object.size) : malloc(o->object.size + 1);
                memcpy(get->copy.bytes, o->bytes, o->object.size);
                get->copy.object.attrs.data = (const char *)get->copy.attrs;
                get->copy.object.acl.data = (const char *)get->copy.acl;
                get->copy.object.tags.data = (const char *)get->copy.tags;
                get->copy.object.part_count = fake.object_parts;
                if (fake.claimed_size != 0)
                        get->copy.object.size = fake.claimed_size;
                get->copy.object.inline_value = get->copy.object.size <= (fake.shards ? 0 : ENG_INLINE_MAX);
                fake_count(&fake.gets_open, 1);
        }
        ((eng_get_opened)later->fn)(later->arg, rv, get);
}

void eng_get_open(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_version *version, eng_get_opened opened, void *arg)
{
        struct fake_later *later = fake_later(run_open, arg);

        fake_get_stuck();
        later->fn = (void (*)(void))opened;
        later->bucket = bucket;
        memcpy(later->key, key.data, key.len);
        later->key_len = key.len;
        fake_post(later);
}

void eng_get_metadata(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_version *version, eng_get_opened opened,
                      void *arg)
{
        eng_get_open(store, bucket, key, version, opened, arg);
}

const struct eng_object *eng_get_object(const struct eng_get *get)
{
        return &get->copy.object;
}

int eng_get_part(const struct eng_get *get, unsigned i, struct eng_part_view *out)
{
        uint64_t offset = 0;

        if (i >= fake.object_parts)
                return -ENOENT;
        for (unsigned before = 0; before < i; before++)
                offset += fake.parts[before].object.size;
        *out = (struct eng_part_view){fake.parts[i].number, offset, fake.parts[i].object.size, {0}, fake.parts[i].object.attrs};
        memcpy(out->etag, fake.parts[i].object.etag, sizeof(out->etag));
        return 0;
}

int eng_get_start(struct eng_get *get, uint64_t offset, uint64_t len, void (*wake)(void *arg), void *arg)
{
        get->at = offset;
        get->end = offset + len;
        get->wake = wake;
        get->arg = arg;
        get->crc = 0;
        return 0;
}

static void get_drop(struct eng_get *get)
{
        if (get->closed && get->posted == 0) {
                if (fake.memory != NULL)
                        fake.memory_back(get->copy.bytes, get->copy.object.size);
                else
                        free(get->copy.bytes);
                free(get);
        }
}

static void run_get_wake(struct fake_later *later)
{
        struct eng_get *get = later->arg;

        get->posted--;
        if (!get->closed) {
                get->waited = true;
                get->wake(get->arg);
        } else {
                get_drop(get);
        }
}

int eng_get_next(struct eng_get *get, const uint8_t **data, size_t *len)
{
        size_t n = (size_t)(get->end - get->at);

        if (n == 0)
                return -ENODATA;
        if (fake.break_at != 0 && get->at >= fake.break_at)
                return -EIO;
        if (fake.slow_reads && !get->waited && get->kept == NULL) {
                if (fake.stall_reads)
                        fake_set_hold();
                get->posted++;
                fake_post(fake_later(run_get_wake, get));
                return -EAGAIN;
        }
        get->waited = false;
        if (fake.span != 0 && n > fake.span && get->kept == NULL)
                n = fake.span;
        *data = get->copy.bytes + get->at;
        if (get->kept != NULL) { /* a copy: it must be this that is sent */
                get->kept->bytes = malloc(n + 1);
                memcpy(get->kept->bytes, *data, n);
                *data = get->kept->bytes;
        }
        *len = n;
        get->held += get->holding;
        get->at += n;
        get->crc = era_crc32c(get->crc, *data, n);
        return 0;
}

void eng_get_sum(struct eng_get *get)
{
}

uint32_t eng_get_crc32c(const struct eng_get *get)
{
        return get->crc;
}

/* One that stays stands beside the object: who frees which first does not matter. */
void *eng_get_keep(struct eng_get *get)
{
        struct fake_kept *kept;

        if (!fake.keeps)
                return NULL;
        kept = calloc(1, sizeof(*kept));
        get->kept = kept;
        fake_count(&fake.kept, 1);
        return kept;
}

void eng_kept_release(void *arg)
{
        struct fake_kept *kept = arg;

        if (kept == NULL)
                return;
        fake_count(&fake.kept, -1);
        free(kept->bytes);
        free(kept);
}

void eng_get_hold(struct eng_get *get)
{
        get->holding = true;
}

void eng_get_let_go(struct eng_get *get, const uint8_t *data)
{
        assert(get->held-- > 0 && data >= get->copy.bytes && data < get->copy.bytes + get->at);
}

void eng_get_close(struct eng_get *get)
{
        assert(get->held == 0);
        get->closed = true;
        fake_count(&fake.gets_open, -1);
        get_drop(get);
}

/* ---- writing ---- */

uint64_t eng_put_held_max(const struct eng_store *store)
{
        return ENG_INLINE_MAX;
}

int eng_put_open(struct eng_store *store, const struct eng_put_params *params, struct eng_put **out)
{
        struct eng_put *put;

        if (fake.open_rv != 0)
                return fake.open_rv;
        put = calloc(1, sizeof(*put));
        put->params = *params;
        memcpy(put->key, params->key.data, params->key.len);
        fake_count(&fake.puts_open, 1);
        *out = put;
        return 0;
}

static void put_drop(struct eng_put *put)
{
        while (put->closed && put->lent > 0)
                free(put->place[--put->lent].bytes); /* the address sanitiser sees who still writes there */
        if (put->closed && put->posted == 0) {
                free(put->bytes);
                free(put);
        }
}

static void run_put_wake(struct fake_later *later)
{
        struct eng_put *put = later->arg;

        put->posted--;
        if (!put->closed) {
                put->full = false;
                put->params.wake(put->params.arg);
        } else {
                put_drop(put);
        }
}

ssize_t eng_put_write(struct eng_put *put, const void *data, size_t len)
{
        if (put->full)
                return 0;
        if (fake.write_rv != 0 && put->len > 0)
                return fake.write_rv;
        if (put->params.size != ENG_SIZE_UNKNOWN && put->len + len > put->params.size)
                return -EINVAL;
        if (fake.room != 0 && len > fake.room) {
                len = fake.room;
                put->full = true;
                put->posted++;
                fake_post(fake_later(run_put_wake, put));
        }
        if (put->len + len > put->cap) {
                put->cap = (put->len + len) * 2;
                put->bytes = realloc(put->bytes, put->cap);
        }
        memcpy(put->bytes + put->len, data, len);
        put->len += len;
        return (ssize_t)len;
}

static void run_place_wake(struct fake_later *later)
{
        struct eng_put *put = later->arg;

        put->may_lend = true;
        run_put_wake(later);
}

/* fake.room: the first call for each place says that there is none yet. */
ssize_t eng_put_buffer(struct eng_put *put, void **place)
{
        size_t len = fake.place != 0 ? fake.place : 1u << 20, left = put->params.size - put->lent_to;

        assert(put->lent_to < put->params.size && !put->closed);
        if (fake.place_rv != 0 && put->lent_to >= fake.place_from)
                return fake.place_rv;
        if (put->lent == FAKE_PLACES)
                return 0;
        if (fake.room != 0 && !put->may_lend) {
                if (!put->asked)
                        put->posted++;
                if (!put->asked)
                        fake_post(fake_later(run_place_wake, put));
                put->asked = true;
                return 0;
        }
        put->asked = put->may_lend = false;
        len = left < len ? left : len;
        put->place[put->lent].bytes = malloc(len);
        put->place[put->lent].len = len;
        put->lent_to += len;
        *place = put->place[put->lent++].bytes;
        return (ssize_t)len;
}

void eng_put_filled(struct eng_put *put, void *place)
{
        assert(put->lent > 0 && put->place[0].bytes == place && !put->closed);
        put->bytes = realloc(put->bytes, put->len + put->place[0].len);
        memcpy(put->bytes + put->len, place, put->place[0].len);
        put->len = put->cap = put->len + put->place[0].len;
        free(place);
        memmove(&put->place[0], &put->place[1], (--put->lent) * sizeof(put->place[0]));
}

bool eng_put_md5_ready(struct eng_put *put)
{
        if (put->unready >= fake.unready)
                return true;
        put->unready++;
        put->posted++;
        fake_post(fake_later(run_put_wake, put));
        return false;
}

void eng_put_md5(struct eng_put *put, uint8_t out[16])
{
        uint8_t md5[ERA_DIGEST_MAX];

        era_digest_of(ERA_MD5, put->bytes, put->len, md5);
        memcpy(out, md5, 16);
}

void eng_put_abort(struct eng_put *put)
{
        put->closed = true;
        fake_count(&fake.puts_open, -1);
        fake_count(&fake.aborts, 1);
        put_drop(put);
}

static int fake_condition(const struct eng_condition *c, const struct fake_object *o)
{
        if (c->if_absent && o != NULL)
                return -EEXIST;
        if ((c->if_present || c->if_etag) && o == NULL)
                return -ENOENT;
        if (c->if_etag && (memcmp(c->etag, o->object.etag, 16) != 0 || c->etag_parts != o->object.etag_parts))
                return -ESTALE;
        return 0;
}

static void fake_store_object(struct fake_object *o, struct eng_put *put, const struct fake_later *later)
{
        free(o->bytes);
        *o = (struct fake_object){.used = true, .bucket = put->params.bucket, .key_len = put->params.key.len};
        memcpy(o->key, put->key, o->key_len);
        o->bytes = malloc(put->len + 1);
        if (put->len > 0)
                memcpy(o->bytes, put->bytes, put->len);
        memcpy(o->attrs, later->attrs, later->commit.attrs_len);
        o->object.size = put->len;
        o->object.mtime_ms = lp_wall_ms();
        o->object.id[0] = ++fake.next_id;
        memcpy(o->object.etag, later->commit.etag, 16);
        memcpy(o->object.tag, later->commit.tag, 8);
        o->object.attrs = (struct eng_str){(const char *)o->attrs, later->commit.attrs_len};
        memcpy(o->acl, later->acl, later->acl_len);
        o->object.acl = (struct eng_str){(const char *)o->acl, later->acl_len};
        memcpy(o->tags, later->tags, later->tags_len);
        o->object.tags = (struct eng_str){(const char *)o->tags, later->tags_len};
}

static void run_commit(struct fake_later *later)
{
        struct eng_put *put = later->thing;
        struct fake_object *o = fake_find(put->params.bucket, put->key, put->params.key.len);
        int rv = fake.commit_rv != 0 ? fake.commit_rv : fake_condition(&later->commit.condition, o);

        for (unsigned i = 0; rv == 0 && o == NULL && i < FAKE_OBJECTS; i++) {
                if (!fake.objects[i].used)
                        o = &fake.objects[i];
        }
        if (rv == 0) {
                fake_store_object(o, put, later);
                fake_count(&fake.commits, 1);
        }
        fake_count(&fake.puts_open, -1);
        put->closed = true;
        put_drop(put);
        ((eng_put_done)later->fn)(later->arg, rv, rv == 0 ? &o->object : NULL);
}

static size_t fake_tags(uint8_t out[FAKE_TAGS], struct eng_str tags)
{
        assert(tags.len <= FAKE_TAGS);
        if (tags.len > 0)
                memcpy(out, tags.data, tags.len);
        return tags.len;
}

void eng_put_commit(struct eng_put *put, const struct eng_put_commit *commit, eng_put_done done, void *arg)
{
        struct fake_later *later = fake_later(run_commit, arg);

        later->fn = (void (*)(void))done;
        later->thing = put;
        later->commit = *commit;
        memcpy(later->attrs, commit->attrs, commit->attrs_len);
        later->acl_len = commit->extras.acl.len;
        if (later->acl_len > 0)
                memcpy(later->acl, commit->extras.acl.data, later->acl_len);
        later->tags_len = fake_tags(later->tags, commit->extras.tags);
        fake_post(later);
}

static void run_delete(struct fake_later *later)
{
        struct fake_object *o = fake_find(later->bucket, later->key, later->key_len);
        int rv = fake.delete_rv != 0 ? fake.delete_rv : fake_condition(&later->condition, o);
        struct eng_deleted deleted = {.existed = rv == 0 && o != NULL};

        if (rv == 0 && o != NULL) {
                free(o->bytes);
                memset(o, 0, sizeof(*o));
        }
        ((eng_delete_done)later->fn)(later->arg, rv, &deleted);
}

void eng_delete(struct eng_store *store, const struct eng_delete_params *params, eng_delete_done done, void *arg)
{
        struct fake_later *later = fake_later(run_delete, arg);

        later->fn = (void (*)(void))done;
        later->bucket = params->bucket;
        memcpy(later->key, params->key.data, params->key.len);
        later->key_len = params->key.len;
        later->condition = params->condition;
        pthread_mutex_lock(&fake.lock);
        if (fake.deletion_count < sizeof(fake.deletions) / sizeof(fake.deletions[0])) {
                struct fake_deletion *deletion = &fake.deletions[fake.deletion_count++];

                *deletion = (struct fake_deletion){.by_version = params->version != NULL, .object = params->object, .place = params->place};
                memcpy(deletion->key, params->key.data, params->key.len < sizeof(deletion->key) ? params->key.len : sizeof(deletion->key) - 1);
                if (params->version != NULL)
                        deletion->version = *params->version;
        }
        pthread_mutex_unlock(&fake.lock);
        fake_post(later);
}

/* ---- what this engine does not do: scripted ---- */

static void post_scripted(void (*run)(struct fake_later *later), void (*fn)(void), void *arg, int rv)
{
        struct fake_later *later = fake_later(run, arg);

        later->fn = fn;
        later->rv = rv;
        fake_post(later);
}

static void run_put_done(struct fake_later *later)
{
        ((eng_put_done)later->fn)(later->arg, later->rv, later->rv == 0 ? &fake.upload : NULL);
}

void eng_update(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_condition *condition,
                const void *attrs, size_t attrs_len, const uint8_t tag[8], eng_put_done done, void *arg)
{
        post_scripted(run_put_done, (void (*)(void))done, arg, fake.update_rv);
}

/* Of the write that was looked at, with the tags that it had, or of none. */
static void run_extras(struct fake_later *later)
{
        struct fake_object *o = fake_find(later->bucket, later->key, later->key_len);
        int rv = fake.update_rv != 0 ? fake.update_rv : o == NULL ? -ENOENT : memcmp(o->object.id, later->id, ENG_ID_LEN) != 0 ? -ESTALE : 0;

        if (rv == 0 && later->if_tags &&
            (later->seen_len != o->object.tags.len || memcmp(later->seen, o->tags, later->seen_len) != 0))
                rv = -ESTALE;
        if (rv == 0 && later->set_acl) {
                memcpy(o->acl, later->acl, later->acl_len);
                o->object.acl = (struct eng_str){(const char *)o->acl, later->acl_len};
        }
        if (rv == 0 && later->set_tags) {
                memcpy(o->tags, later->tags, later->tags_len);
                o->object.tags = (struct eng_str){(const char *)o->tags, later->tags_len};
        }
        ((eng_put_done)later->fn)(later->arg, rv, rv == 0 ? &o->object : NULL);
}

void eng_extras_set(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_version *version,
                    const struct eng_extras_change *change, eng_put_done done, void *arg)
{
        struct fake_later *later;

        if (!change->if_id) {
                post_scripted(run_put_done, (void (*)(void))done, arg, fake.update_rv);
                return;
        }
        later = fake_later(run_extras, arg);
        later->fn = (void (*)(void))done;
        later->bucket = bucket;
        memcpy(later->key, key.data, key.len);
        later->key_len = key.len;
        later->set_acl = change->set_acl;
        later->acl_len = change->extras.acl.len;
        if (later->acl_len > 0)
                memcpy(later->acl, change->extras.acl.data, later->acl_len);
        later->set_tags = change->set_tags;
        later->tags_len = fake_tags(later->tags, change->extras.tags);
        later->if_tags = change->if_tags;
        later->seen_len = change->if_tags ? fake_tags(later->seen, change->tags_seen) : 0;
        memcpy(later->id, change->id, ENG_ID_LEN);
        fake_post(later);
}

int eng_text_get(struct eng_store *store, uint64_t bucket, unsigned kind, struct eng_text **out)
{
        int rv = -ENOENT;

        if (kind >= ENG_ENTRY_KINDS && fake.before_entry != NULL)
                fake.before_entry(bucket, kind);
        pthread_mutex_lock(&fake.lock);
        if (kind < sizeof(fake.texts) / sizeof(fake.texts[0]) && fake.texts[kind].len > 0) {
                *out = &fake.texts[kind];
                rv = 0;
        }
        for (unsigned i = 0; i < sizeof(fake.entries_kept) / sizeof(fake.entries_kept[0]); i++) {
                struct fake_entry *entry = &fake.entries_kept[i];

                if (kind >= ENG_ENTRY_KINDS && entry->kind == kind && entry->id == bucket && entry->text.len > 0) {
                        *out = &entry->text;
                        rv = 0;
                }
        }
        pthread_mutex_unlock(&fake.lock);
        return rv;
}

uint64_t eng_text_generation(const struct eng_text *text)
{
        return text->generation;
}

int64_t eng_lock_now(struct eng_store *store)
{
        return lp_wall_ms();
}

void eng_entries_watch(struct eng_store *store, void (*changed)(void *arg, unsigned loop, uint64_t id, unsigned kind), void *arg)
{
}

void eng_health_read(struct eng_store *store, struct eng_health *out)
{
        memset(out, 0, sizeof(*out));
        out->ready = out->writable = true;
}


bool eng_entries_walk(struct eng_store *store, uint32_t *position, unsigned most,
                      void (*each)(void *arg, uint64_t id, unsigned kind, struct eng_text *text), void *arg)
{
        return false;
}

struct eng_text *eng_text_ref(struct eng_text *text)
{
        return text;
}

void eng_text_unref(struct eng_text *text)
{
}

struct eng_str eng_text_bytes(const struct eng_text *text)
{
        return (struct eng_str){text->bytes, text->len};
}

void *eng_text_form(struct eng_text *text, void *(*make)(struct eng_str bytes, void *arg), void *arg, void (*destroy)(void *form))
{
        if (text->form == NULL)
                text->form = make(eng_text_bytes(text), arg);
        text->destroy = destroy;
        return text->form;
}

static void run_rules_set(struct fake_later *later)
{
        ((eng_done)later->fn)(later->arg, later->rv);
}

void eng_bucket_rules_set(struct eng_store *store, uint64_t bucket, const struct eng_bucket_rules *rules, eng_done done, void *arg)
{
        post_scripted(run_rules_set, (void (*)(void))done, arg, fake.update_rv);
}

void eng_text_set(struct eng_store *store, uint64_t bucket, unsigned kind, uint64_t expected, struct eng_str bytes, eng_done done,
                  void *arg)
{
        if (fake.update_rv == 0 && kind >= ENG_ENTRY_KINDS)
                fake_entry_set(bucket, kind, bytes);
        else if (fake.update_rv == 0)
                fake_text_set(kind, bytes);
        post_scripted(run_rules_set, (void (*)(void))done, arg, fake.update_rv);
}

void eng_text_delete(struct eng_store *store, uint64_t bucket, unsigned kind, uint64_t expected, eng_done done, void *arg)
{
        if (fake.update_rv == 0 && kind >= ENG_ENTRY_KINDS)
                fake_entry_set(bucket, kind, (struct eng_str){"", 0});
        else if (fake.update_rv == 0)
                fake_text_set(kind, (struct eng_str){"", 0});
        post_scripted(run_rules_set, (void (*)(void))done, arg, fake.update_rv);
}

void eng_entries_seen(struct eng_store *store, struct eng_rows_digest *out)
{
        memset(out, 0, sizeof(*out));
}

void eng_entry_set(struct eng_store *store, uint64_t id, unsigned kind, uint64_t expected, const struct eng_rows_digest *seen, struct eng_str bytes,
                   eng_done done, void *arg)
{
        if (bytes.data == NULL)
                eng_text_delete(store, id, kind, expected, done, arg);
        else
                eng_text_set(store, id, kind, expected, bytes, done, arg);
}

static void run_version_page(struct fake_later *later)
{
        ((eng_versions_done)later->fn)(later->arg, later->rv, later->thing, (unsigned)later->bucket, later->flag);
        free(later->thing);
}

static void run_versions(struct fake_later *later)
{
        struct eng_version_entry entries[4];
        unsigned count = later->rv == 0 ? fake.entry_count : 0;

        for (unsigned i = 0; i < count; i++)
                entries[i] = (struct eng_version_entry){.key = fake.entries[i].name,
                                                        .is_prefix = fake.entries[i].is_prefix,
                                                        .latest = true,
                                                        .object = fake.entries[i].object};
        ((eng_versions_done)later->fn)(later->arg, later->rv, entries, count, later->rv == 0 && fake.more);
}

void eng_version_list(struct eng_store *store, const struct eng_list_params *params, const struct eng_version *after_version,
                      eng_versions_done done, void *arg)
{
        if (fake.version_page != NULL) {
                struct fake_later *later = fake_later(run_version_page, arg);
                struct eng_version_entry *entries = calloc(FAKE_PAGE, sizeof(*entries));
                unsigned count = 0;

                assert(entries != NULL);
                later->fn = (void (*)(void))done;
                later->rv = fake.version_page(params, after_version, entries, &count, &later->flag);
                later->thing = entries;
                later->bucket = count;
                fake_post(later);
                return;
        }
        post_scripted(run_versions, (void (*)(void))done, arg, fake.list_rv);
}

static void run_list(struct fake_later *later)
{
        bool fine = later->rv == 0;

        ((eng_list_done)later->fn)(later->arg, later->rv, fake.entries, fine ? fake.entry_count : 0, fine && fake.more);
}

void eng_list(struct eng_store *store, const struct eng_list_params *params, eng_list_done done, void *arg)
{
        post_scripted(run_list, (void (*)(void))done, arg, fake.list_rv);
}

static void run_upload_done(struct fake_later *later)
{
        ((eng_upload_done)later->fn)(later->arg, later->rv, later->rv == 0 ? fake.upload.upload_id : NULL);
}

void eng_upload_create(struct eng_store *store, const struct eng_upload_params *params, eng_upload_done done, void *arg)
{
        if (fake.upload_rv == 0)
                memcpy(fake.upload_attrs, params->attrs, params->attrs_len);
        fake.upload.attrs = (struct eng_str){(const char *)fake.upload_attrs, params->attrs_len};
        post_scripted(run_upload_done, (void (*)(void))done, arg, fake.upload_rv);
}

static void run_object_done(struct fake_later *later)
{
        ((eng_object_done)later->fn)(later->arg, later->rv, later->rv == 0 ? &fake.upload : NULL);
}

void eng_upload_get(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN],
                    eng_object_done done, void *arg)
{
        post_scripted(run_object_done, (void (*)(void))done, arg, fake.upload_rv);
}

void eng_upload_abort(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN],
                      eng_done done, void *arg)
{
        post_done(done, arg, fake.upload_rv);
}

static void run_uploads_done(struct fake_later *later)
{
        bool fine = later->rv == 0;

        ((eng_uploads_done)later->fn)(later->arg, later->rv, fake.uploads, fine ? fake.entry_count : 0,
                                      fine && fake.more);
}

void eng_upload_list(struct eng_store *store, const struct eng_list_params *params, const uint8_t *after_upload,
                     eng_uploads_done done, void *arg)
{
        fake_count(&fake.upload_lists, 1);
        post_scripted(run_uploads_done, (void (*)(void))done, arg, fake.list_rv);
}

static void run_parts_done(struct fake_later *later)
{
        unsigned i = 0;

        while (i < fake.part_count && fake.parts[i].number <= later->bucket) /* the marker */
                i++;
        ((eng_parts_done)later->fn)(later->arg, later->rv, &fake.parts[i], later->rv == 0 && i < fake.part_count,
                                    later->rv == 0 && i + 1 < fake.part_count);
}

void eng_part_list(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN],
                   unsigned after, unsigned max, eng_parts_done done, void *arg)
{
        struct fake_later *later = fake_later(run_parts_done, arg);

        later->fn = (void (*)(void))done;
        later->rv = fake.parts_rv;
        later->bucket = after;
        fake_post(later);
}

void eng_complete(struct eng_store *store, const struct eng_complete_params *params, eng_put_done done, void *arg)
{
        fake.completed = *params;
        post_scripted(run_put_done, (void (*)(void))done, arg, fake.complete_rv);
}
