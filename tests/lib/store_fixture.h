/*
 * store_fixture.h - a whole store over temporary folders with running loops, and blocking calls for
 * tests.
 *
 * Each call runs on the loop named and waits for its callback. Test thread only.
 */
#ifndef MILLRACE_TESTS_STORE_FIXTURE_H
#define MILLRACE_TESTS_STORE_FIXTURE_H

#include "engine.h"
#include "engine/base/store.h"

#define SF_DRIVES_MAX 12
#define SF_LOOPS_MAX 4
#define SF_BESIDE_MAX 3

struct sf {
        char root[128];
        char path[SF_DRIVES_MAX][192];
        const char *paths[SF_DRIVES_MAX];
        unsigned drives, loop_count;
        struct lp_loop *loops[SF_LOOPS_MAX + 1];
        unsigned long threads[SF_LOOPS_MAX + 1];
        struct eng_store *store;
        struct eng_options options;
        struct eng_error error;
        size_t attrs_len;              /* of what is put; 0: five bytes */
        struct eng_extras extras;      /* of what is put, as well */
        bool keep_version;             /* each put tells put_version what it made: of one thread alone */
        struct eng_version put_version;
        void (*stopped)(void);         /* NULL, or called by sf_close() when the loops have stopped, before the store is closed */
        void (*closed)(void);          /* NULL, or called by sf_close() before the loops are freed: nobody posts to them any more when it returns */
        _Atomic bool got_inline;              /* what the last sf_get() found has its bytes in its record */
        struct sf *beside[SF_BESIDE_MAX]; /* other stores on these loops */
        unsigned beside_count;
};

/*
 * Makes folders; then open (format or not). ready: waits until health says ready (or, with
 * want_ready false, not at all).
 */
void sf_make(struct sf *sf, unsigned drives, unsigned loops);
int sf_open(struct sf *sf, bool format);
/* On the loops of another store, which is open; sf_close() of that one closes this, too. */
int sf_open_beside(struct sf *sf, struct sf *first, bool format);
/*
 * From now on only the folders of these slots are given to the store: bit 0 is slot 0. Between
 * sf_close() and sf_open().
 */
void sf_give(struct sf *sf, uint64_t slots);
bool sf_wait_ready(struct sf *sf, unsigned seconds);
/* The seconds are those of a quick machine: it waits longer where it must (wait.h). */
bool sf_wait_health(struct sf *sf, bool (*fine)(const struct eng_health *h, void *arg), void *arg, unsigned seconds);
/* Bytes of shards that are named, on all drives. */
uint64_t sf_live_bytes(const struct sf *sf);
/* An orphan collection begins, if one may. */
void sf_collect_orphans(struct sf *sf);
/* Object ids of which drives hold shards, by their indexes: all drives', each counted for itself; ENG_IDS_MAX of a drive at most. */
unsigned sf_ids(struct sf *sf);
/* For so long it does not become fine. */
bool sf_stays_otherwise(struct sf *sf, bool (*fine)(const struct eng_health *h, void *arg), void *arg, unsigned seconds);
/* Asks the coordinator, on its loop. */
uint64_t sf_ask(struct sf *sf, uint64_t (*what)(struct eng_store *store, uint64_t arg), uint64_t arg);
/* Buckets and texts that members had differently at the start were made the same, or tried to. */
bool sf_config_repaired(struct sf *sf);
/* As the coordinator has it now; its map lives until the store closes. */
struct eng_view sf_view(struct sf *sf);
void sf_close(struct sf *sf);          /* clean end */
void sf_remove(struct sf *sf);         /* folders too */

/* The index of a drive that is not open. */
struct eng_index;
struct eng_index *sf_index(const struct sf *sf, unsigned drive);

#define SF_ROW_MAX 4096u
/* A row of a drive's index. */
struct sf_row {
        struct eng_name name;
        uint8_t value[SF_ROW_MAX];
        size_t len;
};
/* Of a drive that is not open. False: it has none of that name. */
bool sf_get_row(const struct sf *sf, unsigned drive, struct sf_row *row);
/* row->len 0: deletes it. */
void sf_put_row(const struct sf *sf, unsigned drive, const struct sf_row *row);
/* Ids of objects of which a drive that is not open has shards. */
unsigned sf_held_ids(const struct sf *sf, unsigned drive);

int sf_bucket(struct sf *sf, const char *name, uint64_t *id);
int sf_bucket_with(struct sf *sf, const char *name, const struct eng_bucket_rules *rules, uint64_t *id);
int sf_rules_set(struct sf *sf, unsigned loop, uint64_t bucket, const struct eng_bucket_rules *rules);
/* As a loop has them. */
int sf_rules(struct sf *sf, unsigned loop, const char *name, struct eng_bucket_rules *out);
int sf_text_set(struct sf *sf, unsigned loop, uint64_t bucket, unsigned kind, uint64_t expected, const void *bytes, size_t len);
int sf_text_delete(struct sf *sf, unsigned loop, uint64_t bucket, unsigned kind, uint64_t expected);
/* eng_bucket_pool_set(), and what a loop has. */
int sf_bucket_pool_set(struct sf *sf, unsigned loop, const char *name, unsigned pool);
int sf_bucket_pool(struct sf *sf, unsigned loop, const char *name, unsigned *pool);
/* As a loop has it; the caller lets go of it. */
int sf_text(struct sf *sf, unsigned loop, uint64_t bucket, unsigned kind, struct eng_text **out);
int sf_bucket_delete(struct sf *sf, const char *name);
int sf_bucket_delete_id(struct sf *sf, const char *name, uint64_t id);
/* Bytes of an object are made from a seed so that tests need not keep them. */
void sf_fill(uint8_t *out, uint64_t seed, uint64_t offset, size_t len);
/* size_known false: as a stream of unknown length. */
int sf_put(struct sf *sf, unsigned loop, uint64_t bucket, const char *key, uint64_t seed, size_t size, bool size_known,
           const struct eng_condition *condition);
/* 0 when the object is there and every byte is right; -EILSEQ when bytes differ. */
int sf_get(struct sf *sf, unsigned loop, uint64_t bucket, const char *key, uint64_t seed, size_t size);
/* Of a version; NULL: the newest. -ENOENT also if it is a delete marker. */
int sf_get_version(struct sf *sf, uint64_t bucket, const char *key, const struct eng_version *version, uint64_t seed, size_t size);
int sf_get_range(struct sf *sf, unsigned loop, uint64_t bucket, const char *key, uint64_t seed, size_t size, uint64_t offset,
                 uint64_t len);
int sf_delete(struct sf *sf, unsigned loop, uint64_t bucket, const char *key, bool *existed);
/* Names found, each ended by a newline; a common prefix is preceded by '>'. Caller frees. */
char *sf_list(struct sf *sf, unsigned loop, uint64_t bucket, const char *prefix, const char *delimiter, const char *after,
              unsigned max, int *rv, bool *more);
int sf_upload(struct sf *sf, uint64_t bucket, const char *key, uint8_t id[ENG_ID_LEN]);
int sf_part(struct sf *sf, unsigned loop, uint64_t bucket, const char *key, const uint8_t id[ENG_ID_LEN], unsigned number,
            uint64_t seed, size_t offset, size_t size, uint8_t part_id[ENG_ID_LEN]);
int sf_complete(struct sf *sf, uint64_t bucket, const char *key, const uint8_t id[ENG_ID_LEN],
                const struct eng_complete_part *parts, unsigned count);
int sf_upload_abort(struct sf *sf, uint64_t bucket, const char *key, const uint8_t id[ENG_ID_LEN]);

#endif
