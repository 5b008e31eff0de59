/*
 * store_fixture.c - a whole store for tests; see store_fixture.h.
 */
#include "tests/lib/store_fixture.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ec.h"
#include "engine/drive/drive.h"
#include "engine/drive/index.h"
#include "engine/upkeep/upkeep.h"
#include "tests/lib/wait.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

void sf_fill(uint8_t *out, uint64_t seed, uint64_t offset, size_t len)
{
        size_t i = 0;

        while (i < len) { /* by words: ThreadSanitizer looks at each store, and tests fill gigabytes */
                unsigned skip = (unsigned)((offset + i) % 8);
                size_t n = len - i < 8 - skip ? len - i : 8 - skip;
                uint64_t x = seed * 0x9e3779b97f4a7c15ull + (offset + i) / 8;

                x ^= x >> 31;
                x *= 0xbf58476d1ce4e5b9ull;
                x ^= x >> 29;
                x >>= 8 * skip;
                if (n == sizeof(x))
                        memcpy(out + i, &x, sizeof(x)); /* one store */
                else
                        memcpy(out + i, &x, n);
                i += n;
        }
}

/* ---- life ------------------------------------------------------------------------------------ */

void sf_make(struct sf *sf, unsigned drives, unsigned loops)
{
        const char *base = getenv("TMPDIR");
        unsigned i;

        memset(sf, 0, sizeof(*sf));
        snprintf(sf->root, sizeof(sf->root), "%s/mr-store-XXXXXX", base != NULL ? base : "/tmp");
        assert(mkdtemp(sf->root) != NULL);
        sf->drives = drives;
        sf->loop_count = loops;
        for (i = 0; i < drives; i++) {
                snprintf(sf->path[i], sizeof(sf->path[i]), "%s/d%u", sf->root, i);
                sf->paths[i] = sf->path[i];
                mkdir(sf->path[i], 0755);
        }
        sf->options.cache_bytes = 8 << 20;
        sf->options.log_file_bytes = 4 << 20;
        sf->options.segment_bytes = 16 << 20;
        sf->options.full_reserve_bytes = 1 << 20;
}

void sf_give(struct sf *sf, uint64_t slots)
{
        unsigned i;

        sf->drives = 0;
        for (i = 0; i < SF_DRIVES_MAX; i++)
                if (slots >> i & 1)
                        sf->paths[sf->drives++] = sf->path[i];
}

static void *loop_thread(void *arg)
{
        lp_loop_run(arg);
        return NULL;
}

/* With several loops there is one more, which hashes: else they do so themselves. */
static unsigned all_loops(const struct sf *sf)
{
        return sf->loop_count + (sf->loop_count > 1);
}

static void free_loops(struct sf *sf)
{
        unsigned i;

        for (i = 0; i < all_loops(sf); i++)
                lp_loop_free(sf->loops[i]);
}

static int open_store(struct sf *sf, bool format)
{
        sf->options.drives = sf->paths;
        sf->options.drive_count = sf->drives;
        sf->options.format = format;
        sf->options.loops = sf->loops;
        sf->options.loop_count = sf->loop_count;
        sf->options.hash_loops = sf->loops + sf->loop_count;
        sf->options.hash_loop_count = all_loops(sf) - sf->loop_count;
        return eng_store_open(&sf->options, &sf->store, &sf->error);
}

int sf_open_beside(struct sf *sf, struct sf *first, bool format)
{
        int rv;

        assert(first->beside_count < SF_BESIDE_MAX);
        sf->loop_count = first->loop_count;
        memcpy(sf->loops, first->loops, sizeof(sf->loops));
        rv = open_store(sf, format);
        if (rv != 0)
                return rv;
        first->beside[first->beside_count++] = sf;
        eng_store_start(sf->store);
        return 0;
}

int sf_open(struct sf *sf, bool format)
{
        unsigned i;
        int rv;

        for (i = 0; i < all_loops(sf); i++) {
                struct lp_config config = {.index = i, .slots = i < sf->loop_count ? 48 : 0};

                assert(lp_loop_new(&config, &sf->loops[i]) == 0);
        }
        rv = open_store(sf, format);
        if (rv != 0) {
                free_loops(sf);
                return rv;
        }
        for (i = 0; i < all_loops(sf); i++)
                assert(pthread_create(&sf->threads[i], NULL, loop_thread, sf->loops[i]) == 0);
        eng_store_start(sf->store);
        return 0;
}

static bool becomes(struct sf *sf, bool (*fine)(const struct eng_health *h, void *arg), void *arg, unsigned seconds)
{
        struct eng_health *h = malloc(sizeof(*h));
        bool ok = false;
        unsigned i;

        for (i = 0; i < seconds * 100 && !ok; i++) {
                eng_health_read(sf->store, h);
                ok = fine(h, arg);
                if (!ok)
                        usleep(10000);
        }
        free(h);
        return ok;
}

static void say_health(struct sf *sf)
{
        struct eng_health *h = malloc(sizeof(*h));
        unsigned i;

        eng_health_read(sf->store, h);
        fprintf(stderr, "health: ready %d writable %d %s; in %u of %u\n", h->ready, h->writable, h->reason, h->drives_in,
                h->drive_count);
        for (i = 0; i < h->drive_count; i++)
                fprintf(stderr, "  drive %u state %d %s\n", i, h->drives[i].state, h->drives[i].reason);
        free(h);
}

bool sf_wait_health(struct sf *sf, bool (*fine)(const struct eng_health *h, void *arg), void *arg, unsigned seconds)
{
        bool ok = becomes(sf, fine, arg, seconds > WAIT_MOST ? seconds : WAIT_MOST);

        if (!ok)
                say_health(sf);
        return ok;
}

uint64_t sf_live_bytes(const struct sf *sf)
{
        struct eng_health *h = malloc(sizeof(*h));
        uint64_t bytes = 0;
        unsigned i;

        eng_health_read(sf->store, h);
        for (i = 0; i < h->drive_count; i++)
                bytes += h->drives[i].data_live_bytes;
        free(h);
        return bytes;
}

bool sf_stays_otherwise(struct sf *sf, bool (*fine)(const struct eng_health *h, void *arg), void *arg, unsigned seconds)
{
        return !becomes(sf, fine, arg, seconds);
}

static bool is_ready(const struct eng_health *h, void *arg)
{
        return h->ready;
}

bool sf_wait_ready(struct sf *sf, unsigned seconds)
{
        return sf_wait_health(sf, is_ready, NULL, seconds);
}

void sf_close(struct sf *sf)
{
        struct eng_store *stores[1 + SF_BESIDE_MAX] = {sf->store};
        unsigned i;

        for (i = 0; i < all_loops(sf); i++)
                lp_loop_stop(sf->loops[i]);
        for (i = 0; i < all_loops(sf); i++)
                pthread_join(sf->threads[i], NULL);
        if (sf->stopped != NULL)
                sf->stopped();
        for (i = 0; i < sf->beside_count; i++) {
                stores[1 + i] = sf->beside[i]->store;
                sf->beside[i]->store = NULL;
        }
        if (eng_stores_close(stores, 1 + sf->beside_count)) {
                if (sf->closed != NULL)
                        sf->closed();
                free_loops(sf);
        } else {
                fprintf(stderr, "the store was left open: a drive, or a file of one, is still being opened\n"); /* a thread may come back to it */
        }
        sf->store = NULL;
        sf->beside_count = 0;
}

void sf_remove(struct sf *sf)
{
        char command[256];

        snprintf(command, sizeof(command), "rm -rf '%s'", sf->root);
        assert(system(command) == 0);
}

struct eng_index *sf_index(const struct sf *sf, unsigned drive)
{
        char path[256];
        struct eng_index_options options = {.path = path};
        enum eng_folder_state state;
        struct eng_identity identity;
        struct eng_index *index;
        struct eng_error error;

        snprintf(path, sizeof(path), "%s/index", sf->path[drive]);
        assert(eng_folder_probe(sf->path[drive], &state, &identity, &error) == 0);
        memcpy(options.drive_id, identity.drive_id, FMT_ID);
        assert(eng_index_open(&options, &index) == 0);
        return index;
}

bool sf_get_row(const struct sf *sf, unsigned slot, struct sf_row *row)
{
        struct eng_index *index = sf_index(sf, slot);
        struct eng_index_entry entry;
        struct eng_index_txn *txn;
        int rv;

        assert(eng_index_reader_new(index, &txn) == 0);
        assert(eng_index_read_begin(txn) == 0);
        rv = eng_index_get(txn, row->name.data, row->name.len, &entry);
        if (rv == 0) {
                assert(entry.value_len <= SF_ROW_MAX);
                row->len = entry.value_len;
                memcpy(row->value, entry.value, entry.value_len);
        }
        eng_index_read_end(txn);
        eng_index_reader_free(txn);
        eng_index_close(index);
        return rv == 0;
}

unsigned sf_held_ids(const struct sf *sf, unsigned slot)
{
        struct eng_index *index = sf_index(sf, slot);
        uint8_t after[FMT_ID] = {0}, id[FMT_ID];
        struct eng_index_txn *txn;
        uint64_t key_hash;
        unsigned n = 0;

        assert(eng_index_reader_new(index, &txn) == 0);
        assert(eng_index_read_begin(txn) == 0);
        for (; eng_index_location_next(txn, after, id, &key_hash) == 0; n++)
                memcpy(after, id, FMT_ID);
        eng_index_read_end(txn);
        eng_index_reader_free(txn);
        eng_index_close(index);
        return n;
}

void sf_put_row(const struct sf *sf, unsigned slot, const struct sf_row *row)
{
        struct eng_index *index = sf_index(sf, slot);
        struct eng_index_txn *txn;

        assert(eng_index_write_begin(index, &txn) == 0);
        if (row->len > 0)
                assert(eng_index_put(txn, row->name.data, row->name.len, row->value, row->len) == 0);
        else
                eng_index_delete(txn, row->name.data, row->name.len); /* a slow drive may lack what the others have */
        assert(eng_index_write_commit(txn) == 0);
        eng_index_close(index);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* One blocking call. start() runs on the loop; finish() is called by its callback. */
struct call {
        struct lp_msg msg;
        struct sf *sf;
        void (*start)(struct call *call);
        sem_t done;
        int rv;
        uint64_t bucket, seed, offset, len;
        const char *name;
        size_t size, at;
        bool size_known, flag, is_part;
        const struct eng_condition *condition;
        const struct eng_version *version;
        uint8_t id[ENG_ID_LEN], part_id[ENG_ID_LEN];
        unsigned number;
        struct eng_view *view;
        struct eng_put *put;
        struct eng_get *get;
        struct eng_list_params list;
        const struct eng_complete_params *complete;
        const struct eng_bucket_rules *rules;
        struct eng_bucket_rules *rules_out;
        struct eng_text *kept;
        uint64_t (*ask)(struct eng_store *store, uint64_t arg);
        char *text;
        struct era_md5 md5; /* of what was put */
        uint32_t crc;       /* of what was got */
};

static void finish(struct call *c, int rv)
{
        c->rv = rv;
        sem_post(&c->done);
}

static void started(struct lp_msg *msg)
{
        struct call *c = (struct call *)msg;

        c->start(c);
}

static int run(struct sf *sf, unsigned loop, struct call *c, void (*start)(struct call *c))
{
        c->sf = sf;
        c->start = start;
        c->msg.run = started;
        sem_init(&c->done, 0, 0);
        lp_post(sf->loops[loop], &c->msg);
        while (sem_wait(&c->done) != 0)
                ;
        sem_destroy(&c->done);
        return c->rv;
}

static struct eng_str str(const char *s)
{
        return (struct eng_str){s, strlen(s)};
}

static void plain_done(void *arg, int rv)
{
        finish(arg, rv);
}

static void start_view(struct call *c)
{
        *c->view = c->sf->store->coord->view;
        finish(c, 0);
}

struct eng_view sf_view(struct sf *sf)
{
        struct eng_view view;
        struct call c = {.view = &view};

        run(sf, 0, &c, start_view);
        return view;
}

static void start_ask(struct call *c)
{
        c->seed = c->ask(c->sf->store, c->seed);
        finish(c, 0);
}

uint64_t sf_ask(struct sf *sf, uint64_t (*what)(struct eng_store *store, uint64_t arg), uint64_t arg)
{
        struct call c = {.ask = what, .seed = arg};

        run(sf, 0, &c, start_ask);
        return c.seed;
}

static uint64_t consider_orphans(struct eng_store *store, uint64_t arg)
{
        eng_orphans_consider(store);
        return 0;
}

void sf_collect_orphans(struct sf *sf)
{
        sf_ask(sf, consider_orphans, 0);
}

struct ids_asked {
        struct lp_msg msg;
        sem_t ended;
        struct sf *sf;
        struct eng_op op;
        unsigned drive, ids;
};

static void ids_ask_next(struct ids_asked *asked);

static void ids_answered(struct eng_op *op)
{
        struct ids_asked *asked = container_of(op, struct ids_asked, op);

        assert(op->result == 0);
        eng_buf_unref(op->ids.ids);
        asked->ids += op->ids.count;
        asked->drive++;
        ids_ask_next(asked);
}

static void ids_ask_next(struct ids_asked *asked)
{
        if (asked->drive == asked->sf->drives) {
                sem_post(&asked->ended);
                return;
        }
        memset(&asked->op, 0, sizeof(asked->op));
        asked->op.kind = ENG_OP_IDS;
        asked->op.epoch = UINT32_MAX;
        asked->op.done = ids_answered;
        asked->op.ids.max = ENG_IDS_MAX;
        eng_drive_submit(asked->sf->store->members[asked->drive].drive, &asked->op);
}

static void ids_begin(struct lp_msg *msg)
{
        ids_ask_next((struct ids_asked *)msg);
}

unsigned sf_ids(struct sf *sf)
{
        struct ids_asked asked = {.msg.run = ids_begin, .sf = sf};

        sem_init(&asked.ended, 0, 0);
        lp_post(sf->loops[0], &asked.msg);
        while (sem_wait(&asked.ended) != 0)
                ;
        return asked.ids;
}

static uint64_t is_repaired(struct eng_store *store, uint64_t arg)
{
        return store->coord->config_loading == NULL;
}

bool sf_config_repaired(struct sf *sf)
{
        return sf_ask(sf, is_repaired, 0) != 0;
}

static void bucket_made(void *arg, int rv)
{
        struct call *c = arg;
        const struct eng_bucket *b;

        if (rv == 0 && eng_bucket_get(c->sf->store, str(c->name), &b) == 0)
                c->bucket = b->id;
        finish(c, rv);
}

static void start_bucket(struct call *c)
{
        eng_bucket_create(c->sf->store, str(c->name), c->rules, "x", 1, bucket_made, c);
}

int sf_bucket(struct sf *sf, const char *name, uint64_t *id)
{
        return sf_bucket_with(sf, name, NULL, id);
}

int sf_bucket_with(struct sf *sf, const char *name, const struct eng_bucket_rules *rules, uint64_t *id)
{
        struct call c = {.name = name, .rules = rules};
        int rv = run(sf, sf->loop_count - 1, &c, start_bucket);

        *id = c.bucket;
        return rv;
}

static void start_rules_set(struct call *c)
{
        eng_bucket_rules_set(c->sf->store, c->bucket, c->rules, plain_done, c);
}

int sf_rules_set(struct sf *sf, unsigned loop, uint64_t bucket, const struct eng_bucket_rules *rules)
{
        struct call c = {.bucket = bucket, .rules = rules};

        return run(sf, loop, &c, start_rules_set);
}

static void start_rules(struct call *c)
{
        const struct eng_bucket *b;
        int rv = eng_bucket_get(c->sf->store, str(c->name), &b);

        if (rv == 0)
                *c->rules_out = b->rules;
        finish(c, rv);
}

int sf_rules(struct sf *sf, unsigned loop, const char *name, struct eng_bucket_rules *out)
{
        struct call c = {.name = name, .rules_out = out};

        return run(sf, loop, &c, start_rules);
}

static void start_text_set(struct call *c)
{
        eng_text_set(c->sf->store, c->bucket, c->number, c->seed, (struct eng_str){c->name, c->size}, plain_done, c);
}

int sf_text_set(struct sf *sf, unsigned loop, uint64_t bucket, unsigned kind, uint64_t expected, const void *bytes, size_t len)
{
        struct call c = {.bucket = bucket, .number = kind, .seed = expected, .name = bytes, .size = len};

        return run(sf, loop, &c, start_text_set);
}

static void start_text_delete(struct call *c)
{
        eng_text_delete(c->sf->store, c->bucket, c->number, c->seed, plain_done, c);
}

int sf_text_delete(struct sf *sf, unsigned loop, uint64_t bucket, unsigned kind, uint64_t expected)
{
        struct call c = {.bucket = bucket, .number = kind, .seed = expected};

        return run(sf, loop, &c, start_text_delete);
}

static void start_bucket_pool_set(struct call *c)
{
        eng_bucket_pool_set(c->sf->store, str(c->name), c->number, plain_done, c);
}

int sf_bucket_pool_set(struct sf *sf, unsigned loop, const char *name, unsigned pool)
{
        struct call c = {.name = name, .number = pool};

        return run(sf, loop, &c, start_bucket_pool_set);
}

static void start_bucket_pool(struct call *c)
{
        finish(c, eng_bucket_pool_get(c->sf->store, str(c->name), &c->number));
}

int sf_bucket_pool(struct sf *sf, unsigned loop, const char *name, unsigned *pool)
{
        struct call c = {.name = name};
        int rv = run(sf, loop, &c, start_bucket_pool);

        *pool = c.number;
        return rv;
}

static void start_text(struct call *c)
{
        struct eng_text *text;
        int rv = eng_text_get(c->sf->store, c->bucket, c->number, &text);

        if (rv == 0)
                c->kept = eng_text_ref(text);
        finish(c, rv);
}

int sf_text(struct sf *sf, unsigned loop, uint64_t bucket, unsigned kind, struct eng_text **out)
{
        struct call c = {.bucket = bucket, .number = kind};
        int rv = run(sf, loop, &c, start_text);

        *out = c.kept;
        return rv;
}

static void start_bucket_delete(struct call *c)
{
        eng_bucket_delete(c->sf->store, str(c->name), c->bucket, plain_done, c);
}

int sf_bucket_delete(struct sf *sf, const char *name)
{
        return sf_bucket_delete_id(sf, name, 0);
}

int sf_bucket_delete_id(struct sf *sf, const char *name, uint64_t id)
{
        struct call c = {.name = name, .bucket = id};

        return run(sf, sf->loop_count - 1, &c, start_bucket_delete);
}

static void put_done(void *arg, int rv, const struct eng_object *object)
{
        struct call *c = arg;

        if (rv == 0) {
                memcpy(c->part_id, object->id, ENG_ID_LEN);
                if (c->sf->keep_version)
                        c->sf->put_version = object->version;
        }
        finish(c, rv);
}

static void put_more(void *arg)
{
        struct call *c = arg;
        uint8_t piece[50000];
        uint8_t want[ERA_MD5_SIZE], got[ERA_MD5_SIZE];
        static const char attrs[ENG_ATTRS_MAX] = "attrs";
        struct eng_put_commit commit = {.attrs = attrs, .attrs_len = c->sf->attrs_len != 0 ? c->sf->attrs_len : 5};

        while (c->at < c->size) {
                size_t n = c->size - c->at < sizeof(piece) ? c->size - c->at : sizeof(piece);
                ssize_t taken;

                sf_fill(piece, c->seed, c->offset + c->at, n);
                taken = eng_put_write(c->put, piece, n);
                if (taken < 0) {
                        eng_put_abort(c->put);
                        finish(c, (int)taken);
                        return;
                }
                c->at += (size_t)taken;
                era_md5_update(&(struct era_md5_job){.md5 = &c->md5, .buf = piece, .len = (size_t)taken}, 1);
                if ((size_t)taken < n)
                        return;
        }
        if (!eng_put_md5_ready(c->put))
                return;
        era_md5_final(&c->md5, want);
        eng_put_md5(c->put, got);
        if (memcmp(got, want, ERA_MD5_SIZE) != 0) {
                eng_put_abort(c->put);
                finish(c, -EBADMSG);
                return;
        }
        if (c->condition != NULL)
                commit.condition = *c->condition;
        if (!c->is_part)
                commit.extras = c->sf->extras;
        memcpy(commit.etag, &c->seed, 8);
        eng_put_commit(c->put, &commit, put_done, c);
}

static void start_put(struct call *c)
{
        struct eng_put_params p = {.bucket = c->bucket, .key = str(c->name), .md5 = true, .wake = put_more, .arg = c};
        int rv;

        era_md5_init(&c->md5);
        p.size = c->size_known ? c->size : ENG_SIZE_UNKNOWN;
        p.is_part = c->is_part;
        p.part_number = c->number;
        memcpy(p.upload_id, c->id, ENG_ID_LEN);
        rv = eng_put_open(c->sf->store, &p, &c->put);
        if (rv != 0)
                finish(c, rv);
        else
                put_more(c);
}

int sf_put(struct sf *sf, unsigned loop, uint64_t bucket, const char *key, uint64_t seed, size_t size, bool size_known,
           const struct eng_condition *condition)
{
        struct call c = {.bucket = bucket, .name = key, .seed = seed, .size = size, .size_known = size_known,
                         .condition = condition};

        return run(sf, loop, &c, start_put);
}

int sf_part(struct sf *sf, unsigned loop, uint64_t bucket, const char *key, const uint8_t id[ENG_ID_LEN], unsigned number,
            uint64_t seed, size_t offset, size_t size, uint8_t part_id[ENG_ID_LEN])
{
        struct call c = {.bucket = bucket, .name = key, .seed = seed, .offset = offset, .size = size, .size_known = true,
                         .is_part = true, .number = number};
        int rv;

        memcpy(c.id, id, ENG_ID_LEN);
        rv = run(sf, loop, &c, start_put);
        memcpy(part_id, c.part_id, ENG_ID_LEN);
        return rv;
}

static void get_more(void *arg)
{
        struct call *c = arg;
        const uint8_t *data;
        uint8_t *want;
        size_t len;
        int rv;

        while ((rv = eng_get_next(c->get, &data, &len)) == 0) {
                want = malloc(len);
                sf_fill(want, c->seed, c->offset + c->at, len);
                if (memcmp(want, data, len) != 0)
                        c->flag = true;
                c->crc = era_crc32c(c->crc, want, len);
                free(want);
                c->at += len;
        }
        if (rv == -EAGAIN)
                return;
        c->flag |= rv == -ENODATA && eng_get_crc32c(c->get) != c->crc;
        eng_get_close(c->get);
        if (rv == -ENODATA)
                rv = c->flag || c->at != c->len ? -EILSEQ : 0;
        finish(c, rv);
}

static void get_opened(void *arg, int rv, struct eng_get *get)
{
        struct call *c = arg;

        if (rv == 0)
                c->sf->got_inline = eng_get_object(get)->inline_value;
        if (rv == 0 && (eng_get_object(get)->marker || eng_get_object(get)->size != c->size)) {
                rv = eng_get_object(get)->marker ? -ENOENT : -EMSGSIZE;
                eng_get_close(get);
        }
        if (rv == 0) {
                c->get = get;
                eng_get_sum(get);
                rv = eng_get_start(get, c->offset, c->len, get_more, c);
                if (rv != 0)
                        eng_get_close(get);
        }
        if (rv != 0)
                finish(c, rv);
        else
                get_more(c);
}

static void start_get(struct call *c)
{
        eng_get_open(c->sf->store, c->bucket, str(c->name), c->version, get_opened, c);
}

int sf_get_range(struct sf *sf, unsigned loop, uint64_t bucket, const char *key, uint64_t seed, size_t size, uint64_t offset,
                 uint64_t len)
{
        struct call c = {.bucket = bucket, .name = key, .seed = seed, .size = size, .offset = offset, .len = len};

        return run(sf, loop, &c, start_get);
}

int sf_get_version(struct sf *sf, uint64_t bucket, const char *key, const struct eng_version *version, uint64_t seed, size_t size)
{
        struct call c = {.bucket = bucket, .name = key, .version = version, .seed = seed, .size = size, .len = size};

        return run(sf, 0, &c, start_get);
}

int sf_get(struct sf *sf, unsigned loop, uint64_t bucket, const char *key, uint64_t seed, size_t size)
{
        return sf_get_range(sf, loop, bucket, key, seed, size, 0, size);
}

static void deleted(void *arg, int rv, const struct eng_deleted *what)
{
        struct call *c = arg;

        c->flag = what->existed;
        finish(c, rv);
}

static void start_delete(struct call *c)
{
        struct eng_delete_params params = {.bucket = c->bucket, .key = str(c->name)};

        eng_delete(c->sf->store, &params, deleted, c);
}

int sf_delete(struct sf *sf, unsigned loop, uint64_t bucket, const char *key, bool *existed)
{
        struct call c = {.bucket = bucket, .name = key};
        int rv = run(sf, loop, &c, start_delete);

        *existed = c.flag;
        return rv;
}

static void listed(void *arg, int rv, const struct eng_list_entry *entries, unsigned count, bool more)
{
        struct call *c = arg;
        size_t bytes = 1, at = 0;
        unsigned i;

        for (i = 0; i < count; i++)
                bytes += entries[i].name.len + 2;
        c->text = calloc(1, bytes);
        for (i = 0; i < count; i++) {
                if (entries[i].is_prefix)
                        c->text[at++] = '>';
                memcpy(c->text + at, entries[i].name.data, entries[i].name.len);
                at += entries[i].name.len;
                c->text[at++] = '\n';
        }
        c->flag = more;
        finish(c, rv);
}

static void start_list(struct call *c)
{
        eng_list(c->sf->store, &c->list, listed, c);
}

char *sf_list(struct sf *sf, unsigned loop, uint64_t bucket, const char *prefix, const char *delimiter, const char *after,
              unsigned max, int *rv, bool *more)
{
        struct call c = {.list = {.bucket = bucket, .prefix = str(prefix), .delimiter = str(delimiter), .after = str(after),
                                  .max = max}};

        *rv = run(sf, loop, &c, start_list);
        *more = c.flag;
        return c.text;
}

static void upload_made(void *arg, int rv, const uint8_t id[ENG_ID_LEN])
{
        struct call *c = arg;

        if (rv == 0)
                memcpy(c->id, id, ENG_ID_LEN);
        finish(c, rv);
}

static void start_upload(struct call *c)
{
        struct eng_upload_params params = {.bucket = c->bucket, .key = str(c->name), .attrs = "u", .attrs_len = 1};

        eng_upload_create(c->sf->store, &params, upload_made, c);
}

int sf_upload(struct sf *sf, uint64_t bucket, const char *key, uint8_t id[ENG_ID_LEN])
{
        struct call c = {.bucket = bucket, .name = key};
        int rv = run(sf, 0, &c, start_upload);

        memcpy(id, c.id, ENG_ID_LEN);
        return rv;
}

static void start_complete(struct call *c)
{
        eng_complete(c->sf->store, c->complete, put_done, c);
}

int sf_complete(struct sf *sf, uint64_t bucket, const char *key, const uint8_t id[ENG_ID_LEN],
                const struct eng_complete_part *parts, unsigned count)
{
        struct eng_complete_params p = {.bucket = bucket, .key = str(key), .parts = parts, .count = count};
        struct call c = {.complete = &p};

        p.commit.attrs = "done";
        p.commit.attrs_len = 4;
        memcpy(p.upload_id, id, ENG_ID_LEN);
        return run(sf, 0, &c, start_complete);
}

static void start_upload_abort(struct call *c)
{
        eng_upload_abort(c->sf->store, c->bucket, str(c->name), c->id, plain_done, c);
}

int sf_upload_abort(struct sf *sf, uint64_t bucket, const char *key, const uint8_t id[ENG_ID_LEN])
{
        struct call c = {.bucket = bucket, .name = key};

        memcpy(c.id, id, ENG_ID_LEN);
        return run(sf, 0, &c, start_upload_abort);
}
