/*
 * Uploads whose shards are durable, and whose record waits for its turn while a drive that holds
 * some of them is replaced and filled: the walk that fills it does not know of them. No record may
 * name them. And uploads that began without the drive, which the walk does not see either; and those
 * of a home, whose record is made without what the drive had.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/object/get.h"
#include "engine/object/object.h"
#include "engine/record/value.h"
#include "engine/txn/txn_util.h"
#include "tests/lib/home_fixture.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/wait.h"

#define DRIVES 4u
#define LOST   0u
#define SIZE   (3u << 20)
#define SEED   6u

/* ---- a change that keeps its key's lock ------------------------------------------------------ */

/* owner: test until posted, then the key's primary loop; what the semaphores say is the test's */
struct keeper {
        struct eng_txn txn;
        struct lp_msg msg;
        unsigned changes;              /* of the key: this one, and those behind it */
        sem_t told, ended;
};

static void wait_sem(sem_t *sem)
{
        while (sem_wait(sem) != 0)
                ;
}

static void keeper_has_lock(struct eng_txn *txn)
{
        sem_post(&((struct keeper *)txn)->told);
}

static void keeper_done(struct eng_txn *txn)
{
        sem_post(&((struct keeper *)txn)->ended);
}

static void keeper_submit(struct lp_msg *msg)
{
        eng_txn_submit(&container_of(msg, struct keeper, msg)->txn);
}

static void keeper_look(struct lp_msg *msg)
{
        struct keeper *k = container_of(msg, struct keeper, msg);

        k->changes = k->txn.lock->count;
        sem_post(&k->told);
}

static void keeper_release(struct lp_msg *msg)
{
        eng_txn_finish(&container_of(msg, struct keeper, msg)->txn, -ECANCELED);
}

static struct keeper *keep_key(struct sf *sf, uint64_t bucket, const char *key)
{
        struct keeper *k = calloc(1, sizeof(*k));

        assert_non_null(k);
        sem_init(&k->told, 0, 0);
        sem_init(&k->ended, 0, 0);
        eng_txn_init(&k->txn, sf->store, bucket, key, strlen(key));
        k->txn.prepare = keeper_has_lock;
        k->txn.done = keeper_done;
        k->msg.run = keeper_submit;
        lp_post(sf->loops[0], &k->msg);
        wait_sem(&k->told);
        return k;
}

/* Until another change waits behind it. */
static void wait_behind(struct keeper *k)
{
        do {
                usleep(1000);
                k->msg.run = keeper_look;
                lp_post(k->txn.at->loop, &k->msg);
                wait_sem(&k->told);
        } while (k->changes < 2);
}

static void release_key(struct keeper *k)
{
        k->msg.run = keeper_release;
        lp_post(k->txn.at->loop, &k->msg);
        wait_sem(&k->ended);
        eng_txn_drop(&k->txn);
        sem_destroy(&k->told);
        sem_destroy(&k->ended);
        free(k);
}

/* ---- an upload beside the test --------------------------------------------------------------- */

struct upload {
        struct sf *sf;
        uint64_t bucket;
        char key[16];
        const uint8_t *id;             /* of what it is a part of; NULL: an object */
        uint8_t part_id[ENG_ID_LEN];
        int rv;
        pthread_t thread;
};

static void *upload_run(void *arg)
{
        struct upload *up = arg;

        if (up->id == NULL)
                up->rv = sf_put(up->sf, 1, up->bucket, up->key, SEED, SIZE, true, NULL);
        else
                up->rv = sf_part(up->sf, 1, up->bucket, up->key, up->id, 1, SEED, 0, SIZE, up->part_id);
        return NULL;
}

/* ---- drives ---------------------------------------------------------------------------------- */

static bool one_out(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == h->drive_count - 1;
}

/* Full members all, and nothing of them is being filled any more. */
static bool filled(const struct eng_health *h, void *arg)
{
        unsigned i;

        for (i = 0; i < h->drive_count; i++)
                if (h->drives[i].filling)
                        return false;
        return so_whole(h, arg);
}

static void lose(struct sf *sf)
{
        so_move(sf, LOST, true);
        assert_true(sf_wait_health(sf, one_out, NULL, 30));
}

static void replace(struct sf *sf)
{
        struct eng_hot_add_report report;
        uint64_t number;
        char empty[256];

        snprintf(empty, sizeof(empty), "%s.new", sf->path[LOST]);
        assert_int_equal(mkdir(empty, 0700), 0);
        assert_int_equal(eng_drive_hot_add(sf->store, LOST, empty, true, &number), 0);
        do {
                usleep(1000);
                assert_int_equal(eng_hot_add_read(sf->store, number, &report), 0);
        } while (report.running);
        assert_int_equal(report.rv, 0);
        assert_true(sf_wait_health(sf, filled, NULL, 120));
}

/* ---- tests ----------------------------------------------------------------------------------- */

/*
 * A key whose group has no member on the drive that is to be lost: what waits for it holds up
 * nothing of that drive.
 */
static void choose_key(const struct sf *sf, uint64_t bucket, char key[16])
{
        const struct eng_view *view = &sf->store->loops[0].view;
        uint32_t pg;
        unsigned i = 0;

        do {
                snprintf(key, 16, "key%u", i++);
                pg = eng_pg_of_key(sf->store->pg_count, bucket, key, strlen(key));
        } while (view->map->groups[pg].after & eng_bit(LOST));
}

static void begin(struct upload *up)
{
        sf_make(up->sf, DRIVES, 2);
        up->sf->options.ec_k = up->sf->options.ec_m = 2; /* each drive gets a shard of every stripe */
        assert_int_equal(sf_open(up->sf, true), 0);
        assert_true(sf_wait_ready(up->sf, 20));
        assert_int_equal(sf_bucket(up->sf, "bucket", &up->bucket), 0);
        choose_key(up->sf, up->bucket, up->key);
}

/* The drive is replaced while the record waits behind another change of the key. */
static void refused(struct upload *up)
{
        struct keeper *keeper = keep_key(up->sf, up->bucket, up->key);

        assert_int_equal(pthread_create(&up->thread, NULL, upload_run, up), 0);
        wait_behind(keeper);
        lose(up->sf);
        replace(up->sf);
        release_key(keeper);
        assert_int_equal(pthread_join(up->thread, NULL), 0);
        assert_int_equal(up->rv, -EBUSY);
}

/* The object is whole. */
static void end(const struct upload *up)
{
        struct eng_verify_report *report = malloc(sizeof(*report));

        assert_non_null(report);
        so_verify(up->sf, report);
        assert_int_equal(sf_get(up->sf, 0, up->bucket, up->key, SEED, SIZE), 0);
        sf_close(up->sf);
        sf_remove(up->sf);
        free(report);
}

static void test_object(void **state)
{
        struct sf sf;
        struct upload up = {.sf = &sf};

        begin(&up);
        refused(&up);
        assert_int_equal(sf_get(&sf, 0, up.bucket, up.key, SEED, SIZE), -ENOENT);
        assert_int_equal(sf_put(&sf, 0, up.bucket, up.key, SEED, SIZE, true, NULL), 0); /* as the client is told to: it tries again */
        end(&up);
}

static void test_part(void **state)
{
        struct eng_complete_part part = {.number = 1};
        uint8_t id[ENG_ID_LEN];
        struct sf sf;
        struct upload up = {.sf = &sf, .id = id};

        begin(&up);
        assert_int_equal(sf_upload(&sf, up.bucket, up.key, id), 0);
        refused(&up);
        memcpy(part.id, up.part_id, ENG_ID_LEN);
        assert_int_equal(sf_complete(&sf, up.bucket, up.key, id, &part, 1), -EINVAL); /* there is no part */
        assert_int_equal(sf_part(&sf, 0, up.bucket, up.key, id, 1, SEED, 0, SIZE, part.id), 0);
        assert_int_equal(sf_complete(&sf, up.bucket, up.key, id, &part, 1), 0);
        end(&up);
}

/* ---- an upload that began without a drive ---------------------------------------------------- */

struct look {
        struct lp_msg msg;
        const struct upload *up;
        bool whole;
        sem_t told;
};

/* Whether the record names a drive for each shard. */
static void look_found(void *arg, int rv, struct eng_get *get)
{
        struct look *look = arg;
        struct eng_part part;
        uint32_t stripe;
        unsigned shard;
        size_t pos = 0;

        look->whole = rv == 0;
        while (rv == 0 && eng_value_next_part(get->lookup.value->data, get->lookup.value->len, &pos, &part) == 1)
                for (stripe = 0; stripe < eng_part_stripes(&part.head); stripe++)
                        for (shard = 0; shard < (unsigned)part.head.k + part.head.m; shard++)
                                look->whole &= eng_part_drive(&part, stripe, shard) != ENG_NO_DRIVE;
        if (rv == 0)
                eng_get_close(get);
        sem_post(&look->told);
}

static void look_begins(struct lp_msg *msg)
{
        struct look *look = container_of(msg, struct look, msg);
        const struct upload *up = look->up;

        eng_get_open(up->sf->store, up->bucket, (struct eng_str){up->key, strlen(up->key)}, NULL, look_found, look);
}

static bool has_all_shards(const struct upload *up)
{
        struct look look = {.up = up};

        sem_init(&look.told, 0, 0);
        look.msg.run = look_begins;
        lp_post(up->sf->loops[1], &look.msg);
        wait_sem(&look.told);
        sem_destroy(&look.told);
        return look.whole;
}

/* The drive is replaced, and filled, before there is a record: the walk has not seen the object, which gets its shard all the same. */
static void test_unseen(void **state)
{
        struct keeper *keeper;
        struct sf sf;
        struct upload up = {.sf = &sf};

        begin(&up);
        lose(&sf);
        keeper = keep_key(&sf, up.bucket, up.key);
        assert_int_equal(pthread_create(&up.thread, NULL, upload_run, &up), 0);
        wait_behind(keeper);
        replace(&sf);
        release_key(keeper);
        assert_int_equal(pthread_join(up.thread, NULL), 0);
        assert_int_equal(up.rv, 0);
        WAIT_UNTIL(has_all_shards(&up));
        assert_true(has_all_shards(&up));
        end(&up);
}

/* So does a part, when its upload is completed: until then nothing of it is repaired. */
static void test_unseen_part(void **state)
{
        struct eng_complete_part part = {.number = 1};
        uint8_t id[ENG_ID_LEN];
        struct keeper *keeper;
        struct sf sf;
        struct upload up = {.sf = &sf, .id = id};

        begin(&up);
        assert_int_equal(sf_upload(&sf, up.bucket, up.key, id), 0);
        lose(&sf);
        keeper = keep_key(&sf, up.bucket, up.key);
        assert_int_equal(pthread_create(&up.thread, NULL, upload_run, &up), 0);
        wait_behind(keeper);
        replace(&sf);
        release_key(keeper);
        assert_int_equal(pthread_join(up.thread, NULL), 0);
        assert_int_equal(up.rv, 0);
        memcpy(part.id, up.part_id, ENG_ID_LEN);
        assert_int_equal(sf_complete(&sf, up.bucket, up.key, id, &part, 1), 0);
        WAIT_UNTIL(has_all_shards(&up));
        assert_true(has_all_shards(&up));
        end(&up);
}

/*
 * A home has sent its PUT with what drives have said when the drive is replaced: its proof is of another drive by the time
 * of the record, which names nothing there. The walk that follows gives it its shard.
 */
static void test_of_a_home(void **state)
{
        static struct hf hf;
        struct keeper *keeper;
        struct sf sf;
        struct upload up = {.sf = &sf}, there;

        begin(&up);
        hf_open(&hf, &sf, 2);
        there = up;
        there.sf = &hf.home;
        keeper = keep_key(&sf, up.bucket, up.key);
        assert_int_equal(pthread_create(&there.thread, NULL, upload_run, &there), 0);
        wait_behind(keeper);
        lose(&sf);
        replace(&sf);
        release_key(keeper);
        assert_int_equal(pthread_join(there.thread, NULL), 0);
        assert_int_equal(there.rv, 0); /* one shard less, of which two may be missing */
        WAIT_UNTIL(has_all_shards(&up));
        assert_true(has_all_shards(&up));
        hf_close(&hf);
        end(&up);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_object),
                cmocka_unit_test(test_part),
                cmocka_unit_test(test_unseen),
                cmocka_unit_test(test_unseen_part),
                cmocka_unit_test(test_of_a_home),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
