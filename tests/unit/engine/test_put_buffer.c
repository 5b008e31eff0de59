/*
 * test_put_buffer.c - uploads whose bytes are brought into lent places, as a device would, some
 * time after they were lent: all sizes, many at once, drives that fail, buffers that are not there,
 * and ends at any moment. Nothing of an upload that was aborted is left, no buffer either.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ec.h"
#include "tests/lib/store_fixture.h"
#include "tests/lib/wait.h"

#define MIB    (1u << 20)
#define PLACES 64u

static const size_t sizes[] = {1,       4096,        131072,          131073,  200000,      1 << 20,
                               2 * MIB, 2 * MIB + 1, 5 * MIB + 12345, 8 * MIB, 17 * MIB + 1};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* One upload. owner: its loop, while it runs */
struct placing {
        struct lp_msg msg;
        struct lp_timer timer;
        sem_t done;
        struct sf *sf;
        struct lp_loop *loop;
        const char *key;
        uint64_t bucket, seed, offset, size;
        const uint8_t *upload; /* NULL: an object */
        unsigned number;
        const struct eng_condition *condition;
        uint64_t delay_ns;
        unsigned abort_lent;   /* aborted when so many were ever lent; 0: never */
        uint64_t abort_filled; /* and when so many bytes are there */
        uint64_t commit_at;    /* no more is lent from there on, and it is committed with what was; 0: all */
        struct eng_put *put;
        struct {
                uint8_t *bytes;
                size_t len;
        } location[PLACES];
        unsigned lent, first; /* ever; not filled yet */
        uint64_t lent_to, at;
        bool timing, over, ending; /* ending: nothing more is placed */
        struct era_md5 md5;
        int rv;
        unsigned most; /* lent at a time */
        uint8_t id[ENG_ID_LEN];
};

static void finish(struct placing *p, int rv)
{
        p->rv = rv;
        p->over = true;
        lp_timer_stop(p->loop, &p->timer);
        sem_post(&p->done);
}

static void give_up(struct placing *p, int rv)
{
        eng_put_abort(p->put);
        finish(p, rv);
}

static void committed(void *arg, int rv, const struct eng_object *object)
{
        struct placing *p = arg;

        if (rv == 0)
                memcpy(p->id, object->id, ENG_ID_LEN);
        finish(p, rv);
}

static void commit(struct placing *p)
{
        struct eng_put_commit c = {.attrs = "attrs", .attrs_len = 5};
        uint8_t want[ERA_MD5_SIZE], got[ERA_MD5_SIZE];

        p->ending = true;
        if (!eng_put_md5_ready(p->put))
                return;
        era_md5_final(&p->md5, want);
        eng_put_md5(p->put, got);
        if (p->at == p->size && memcmp(want, got, ERA_MD5_SIZE) != 0 &&
            memcmp(got, (uint8_t[ERA_MD5_SIZE]){0}, ERA_MD5_SIZE) != 0) {
                give_up(p, -EBADMSG);
                return;
        }
        if (p->condition != NULL)
                c.condition = *p->condition;
        memcpy(c.etag, &p->seed, 8);
        eng_put_commit(p->put, &c, committed, p);
}

/* In one slot of the loop, and nobody else's. */
static void check_location(const struct placing *p, const uint8_t *location, size_t len)
{
        uint8_t *base;
        size_t size;
        unsigned i;

        lp_arena_memory(p->loop, (void **)&base, &size);
        assert_true(location >= base && location + len <= base + size && len <= LP_SLOT_UNIT);
        assert_int_equal((size_t)(location - base) % LP_SLOT_SIZE, LP_SLOT_HEADER);
        for (i = p->first; i < p->lent; i++)
                assert_ptr_not_equal(location, p->location[i % PLACES].bytes);
}

static void arm(struct placing *p)
{
        if (!p->timing && p->first < p->lent) {
                p->timing = true;
                lp_timer_start(p->loop, &p->timer, p->delay_ns);
        }
}

/* How far places are taken. */
static uint64_t wanted(const struct placing *p)
{
        return p->commit_at != 0 ? p->commit_at : p->size;
}

static void take_locations(struct placing *p)
{
        while (p->lent_to < wanted(p)) {
                void *location;
                ssize_t n = eng_put_buffer(p->put, &location);

                if (n < 0) {
                        give_up(p, (int)n);
                        return;
                }
                if (n == 0)
                        break;
                check_location(p, location, (size_t)n);
                memset(location, 0xdb, (size_t)n); /* as a device may, until it says that it is done */
                p->location[p->lent % PLACES].bytes = location;
                p->location[p->lent++ % PLACES].len = (size_t)n;
                p->lent_to += (uint64_t)n;
                if (p->lent - p->first > p->most)
                        p->most = p->lent - p->first;
                if (p->lent == p->abort_lent) {
                        give_up(p, -ECANCELED);
                        return;
                }
        }
        arm(p);
}

static void brought(struct lp_timer *timer)
{
        struct placing *p = container_of(timer, struct placing, timer);
        uint8_t *bytes = p->location[p->first % PLACES].bytes;
        size_t len = p->location[p->first % PLACES].len;

        p->timing = false;
        sf_fill(bytes, p->seed, p->offset + p->at, len);
        era_md5_update(&(struct era_md5_job){.md5 = &p->md5, .buf = bytes, .len = len}, 1);
        p->first++;
        p->at += len;
        eng_put_filled(p->put, bytes);
        if (p->abort_filled != 0 && p->at >= p->abort_filled)
                give_up(p, -ECANCELED);
        else if (p->at >= wanted(p))
                commit(p);
        else
                take_locations(p);
}

static void woken(void *arg)
{
        struct placing *p = arg;

        assert_false(p->over);
        if (p->ending)
                commit(p);
        else
                take_locations(p);
}

static void start(struct lp_msg *msg)
{
        struct placing *p = (struct placing *)msg;
        struct eng_put_params params = {.bucket = p->bucket,
                                        .key = {p->key, strlen(p->key)},
                                        .size = p->size,
                                        .md5 = true,
                                        .is_part = p->upload != NULL,
                                        .part_number = p->number,
                                        .wake = woken,
                                        .arg = p};
        int rv;

        if (p->upload != NULL)
                memcpy(params.upload_id, p->upload, ENG_ID_LEN);
        era_md5_init(&p->md5);
        rv = eng_put_open(p->sf->store, &params, &p->put);
        if (rv != 0)
                finish(p, rv);
        else
                take_locations(p);
}

static void begin(struct placing *p, struct sf *sf, unsigned loop)
{
        p->sf = sf;
        p->loop = sf->loops[loop];
        p->timer.expired = brought;
        p->msg.run = start;
        sem_init(&p->done, 0, 0);
        lp_post(p->loop, &p->msg);
}

static int wait_for(struct placing *p)
{
        while (sem_wait(&p->done) != 0)
                ;
        sem_destroy(&p->done);
        return p->rv;
}

static int put(struct sf *sf, unsigned loop, struct placing *p)
{
        begin(p, sf, loop);
        return wait_for(p);
}

/* Every buffer is back. */
static void check_buffers(const struct sf *sf)
{
        struct lp_stats stats;
        unsigned i;

        for (i = 0; i < sf->loop_count; i++) {
                WAIT_UNTIL((lp_stats_read(sf->loops[i], &stats),
                            stats.slots_used == 0 && stats.reserved[LP_SHARE_PUT] == 0 &&
                                    stats.reserve_waiting[LP_SHARE_PUT] == 0));
                assert_int_equal(stats.slots_used, 0);
                assert_int_equal(stats.reserved[LP_SHARE_PUT], 0);
                assert_int_equal(stats.reserve_waiting[LP_SHARE_PUT], 0);
        }
}

static void open_store(struct sf *sf, unsigned drives, unsigned loops, const char *faults, uint64_t *bucket)
{
        sf_make(sf, drives, loops);
        sf->options.faults = faults;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
}

static void close_store(struct sf *sf)
{
        sf_close(sf);
        sf_remove(sf);
}

/* ---- round trips ----------------------------------------------------------------------------- */

static void round_trip_under(unsigned drives, unsigned loops, uint32_t inline_max)
{
        const size_t limit = inline_max == ENG_INLINE_NONE ? 0 : inline_max == 0 ? ENG_INLINE_MAX : inline_max;
        uint64_t bucket;
        char key[32];
        struct sf sf;
        unsigned i, turn;

        open_store(&sf, drives, loops, NULL, &bucket);
        if (inline_max != 0) { /* the limit is another than that of the start before */
                sf_close(&sf);
                sf.options.inline_max = inline_max;
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_ready(&sf, 20));
        }
        for (i = 0; i < SIZES; i++) {
                struct placing p = {
                        .bucket = bucket, .key = key, .seed = i + 1, .size = sizes[i], .delay_ns = i % 2 * 100000};

                snprintf(key, sizeof(key), "%u", i);
                assert_int_equal(put(&sf, i % loops, &p), 0);
                assert_true(sizes[i] < 4 * MIB || p.most > 1);
        }
        check_buffers(&sf);
        for (turn = 0; turn < 2; turn++) {
                for (i = 0; i < SIZES; i++) {
                        snprintf(key, sizeof(key), "%u", i);
                        assert_int_equal(sf_get(&sf, (i + 1) % loops, bucket, key, i + 1, sizes[i]), 0);
                        assert_int_equal(sf.got_inline, sizes[i] <= limit);
                }
                sf_close(&sf);
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_ready(&sf, 20));
        }
        close_store(&sf);
}

static void round_trip(unsigned drives, unsigned loops)
{
        round_trip_under(drives, loops, 0);
}

/* Places of small objects are units of a stripe then. */
static void test_other_inline_limits(void **state)
{
        round_trip_under(4, 2, ENG_INLINE_NONE);
        round_trip_under(3, 1, 4096);
}

static void test_one_drive(void **state)
{
        round_trip(1, 1);
}

static void test_two_drives(void **state)
{
        round_trip(2, 2);
}

static void test_four_drives(void **state)
{
        round_trip(4, 2);
}

static void test_parts(void **state)
{
        static const size_t lens[] = {5 * MIB, 5 * MIB + 1, 4096, 70000};
        struct eng_complete_part parts[4];
        uint8_t id[ENG_ID_LEN];
        uint64_t bucket, at = 0;
        struct sf sf;
        unsigned i;

        open_store(&sf, 4, 2, NULL, &bucket);
        assert_int_equal(sf_upload(&sf, bucket, "m", id), 0);
        for (i = 0; i < 4; i++) {
                struct placing p = {.bucket = bucket,
                                    .key = "m",
                                    .seed = 9,
                                    .offset = at,
                                    .size = lens[i],
                                    .upload = id,
                                    .number = i + 1};

                assert_int_equal(put(&sf, i % 2, &p), 0);
                parts[i].number = i + 1;
                memcpy(parts[i].id, p.id, ENG_ID_LEN);
                at += lens[i];
        }
        check_buffers(&sf);
        assert_int_equal(sf_complete(&sf, bucket, "m", id, parts, 4), 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "m", 9, at), 0);
        close_store(&sf);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void test_aborted_at_any_moment(void **state)
{
        uint64_t bucket;
        struct sf sf;
        unsigned i, n;

        open_store(&sf, 4, 2, NULL, &bucket);
        for (i = 0; i < SIZES; i++) {
                for (n = 1; n < 20; n++) {
                        struct placing p = {
                                .bucket = bucket, .key = "gone", .seed = n, .size = sizes[i], .abort_lent = n};
                        struct placing q = {.bucket = bucket,
                                            .key = "gone",
                                            .seed = n,
                                            .size = sizes[i],
                                            .abort_filled = n * MIB - MIB / 2};
                        uint64_t least = p.abort_lent * (uint64_t)MIB;

                        if (n > 1 && least > p.size + MIB)
                                break;
                        assert_true(put(&sf, n % 2, &p) == -ECANCELED || p.lent < n);
                        assert_true(put(&sf, n % 2, &q) == -ECANCELED || q.abort_filled > q.size);
                        if (p.rv == 0 || q.rv == 0)
                                break;
                }
        }
        check_buffers(&sf);
        close_store(&sf);
}

static void test_what_is_refused_at_the_commit(void **state)
{
        struct eng_condition absent = {.if_absent = true};
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        open_store(&sf, 4, 2, NULL, &bucket);
        assert_int_equal(sf_put(&sf, 0, bucket, "there", 1, 10, true, NULL), 0);
        for (i = 0; i < SIZES; i++) {
                struct placing p = {
                        .bucket = bucket, .key = "there", .seed = 5, .size = sizes[i], .condition = &absent};

                assert_int_equal(put(&sf, i % 2, &p), -EEXIST);
        }
        {
                struct placing p = {.bucket = bucket, .key = "short", .seed = 5, .size = 8 * MIB, .commit_at = 2 * MIB};

                assert_int_equal(put(&sf, 0, &p), -EINVAL);
        }
        assert_int_equal(sf_get(&sf, 0, bucket, "there", 1, 10), 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "short", 5, 8 * MIB), -ENOENT);
        check_buffers(&sf);
        close_store(&sf);
}

static void fail_drives(const char *faults, bool stays)
{
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        open_store(&sf, 4, 2, faults, &bucket);
        for (i = 0; i < 6; i++) {
                struct placing p = {
                        .bucket = bucket, .key = "key", .seed = i, .size = (3 + i) * MIB + i, .delay_ns = 200000};
                int rv = put(&sf, i % 2, &p);

                if (stays)
                        assert_int_equal(rv, 0);
                if (rv == 0)
                        assert_int_equal(sf_get(&sf, 0, bucket, "key", i, p.size), 0);
                else
                        assert_int_equal(rv, -EROFS);
                if (i == 5)
                        assert_int_equal(rv == 0, stays);
        }
        check_buffers(&sf);
        close_store(&sf);
}

static void test_drives_that_fail(void **state)
{
        fail_drives("fail:op=write,slot=0,after=3", true);
        fail_drives("fail:op=sync,slot=0,after=1", true);
        fail_drives("fail:op=sync,slot=2,after=1", true);
        fail_drives("fail:op=write,slot=0,after=3;fail:op=write,slot=2,after=5", false);
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* Somebody else's reservation. owner: the loop */
struct hog {
        struct lp_msg msg;
        struct lp_reserve reserve;
        struct lp_loop *loop;
        sem_t done;
        bool take;
};

static void hog_run(struct lp_msg *msg)
{
        struct hog *hog = (struct hog *)msg;

        if (hog->take) {
                hog->reserve =
                        (struct lp_reserve){.share = LP_SHARE_PUT, .count = lp_share_slots(hog->loop, LP_SHARE_PUT)};
                assert_int_equal(lp_reserve(hog->loop, &hog->reserve), 0);
        } else {
                lp_unreserve(hog->loop, LP_SHARE_PUT, hog->reserve.count);
        }
        sem_post(&hog->done);
}

static void hog_buffers(struct hog *hog, struct lp_loop *loop, bool take)
{
        hog->loop = loop;
        hog->take = take;
        hog->msg.run = hog_run;
        sem_init(&hog->done, 0, 0);
        lp_post(loop, &hog->msg);
        while (sem_wait(&hog->done) != 0)
                ;
        sem_destroy(&hog->done);
}

static void wait_waiting(struct lp_loop *loop, unsigned count)
{
        struct lp_stats stats;

        do {
                usleep(1000);
                lp_stats_read(loop, &stats);
        } while (stats.reserve_waiting[LP_SHARE_PUT] != count);
}

struct aborting {
        struct lp_msg msg;
        struct placing *placing;
};

static void abort_waiting(struct lp_msg *msg)
{
        give_up(((struct aborting *)msg)->placing, -ECANCELED);
}

/* Small and large ones wait in line; one leaves it. */
static void test_no_buffers_for_now(void **state)
{
        struct placing p[3] = {
                {.key = "small", .size = 1000}, {.key = "large", .size = 5 * MIB}, {.key = "gone", .size = 5 * MIB}};
        struct aborting aborting = {.msg.run = abort_waiting, .placing = &p[2]};
        struct hog hog;
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        open_store(&sf, 4, 1, NULL, &bucket);
        hog_buffers(&hog, sf.loops[0], true);
        for (i = 0; i < 3; i++) {
                p[i].bucket = bucket;
                begin(&p[i], &sf, 0);
        }
        wait_waiting(sf.loops[0], 3);
        lp_post(sf.loops[0], &aborting.msg);
        assert_int_equal(wait_for(&p[2]), -ECANCELED);
        hog_buffers(&hog, sf.loops[0], false);
        for (i = 0; i < 2; i++) {
                assert_int_equal(wait_for(&p[i]), 0);
                assert_int_equal(sf_get(&sf, 0, bucket, p[i].key, 0, p[i].size), 0);
        }
        check_buffers(&sf);
        close_store(&sf);
}

struct uploader {
        struct sf *sf;
        uint64_t bucket;
        unsigned number;
        int rv;
};

static size_t upload_size(unsigned number, unsigned turn)
{
        return 1000 + (size_t)(number * 7 + turn * 5) % 11 * 700000 + number;
}

static void *upload(void *arg)
{
        struct uploader *u = arg;
        char key[32];
        unsigned turn;

        for (turn = 0; turn < 3 && u->rv == 0; turn++) {
                struct placing p = {.bucket = u->bucket,
                                    .key = key,
                                    .seed = u->number * 10 + turn,
                                    .size = upload_size(u->number, turn),
                                    .delay_ns = u->number * 50000};

                snprintf(key, sizeof(key), "%u/%u", u->number, turn);
                if (u->number % 5 == 0)
                        u->rv = sf_put(u->sf, u->number % 2, u->bucket, key, p.seed, p.size, true, NULL);
                else
                        u->rv = put(u->sf, u->number % 2, &p);
        }
        return NULL;
}

/*
 * More than there are buffers for, beside some whose bytes are copied, with a drive that fails on
 * the way: none waits for ever.
 */
static void test_many_uploads_at_once(void **state)
{
        struct uploader uploaders[24];
        pthread_t threads[24];
        uint64_t bucket;
        unsigned i, turn;
        char key[32];
        struct sf sf;

        open_store(&sf, 4, 2, "fail:op=write,slot=0,after=30", &bucket);
        for (i = 0; i < 24; i++) {
                uploaders[i] = (struct uploader){.sf = &sf, .bucket = bucket, .number = i};
                assert_int_equal(pthread_create(&threads[i], NULL, upload, &uploaders[i]), 0);
        }
        for (i = 0; i < 24; i++) {
                assert_int_equal(pthread_join(threads[i], NULL), 0);
                assert_int_equal(uploaders[i].rv, 0);
        }
        for (i = 0; i < 24; i++)
                for (turn = 0; turn < 3; turn++) {
                        snprintf(key, sizeof(key), "%u/%u", i, turn);
                        assert_int_equal(sf_get(&sf, i % 2, bucket, key, i * 10 + turn, upload_size(i, turn)), 0);
                }
        check_buffers(&sf);
        close_store(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_other_inline_limits),
                cmocka_unit_test(test_one_drive),
                cmocka_unit_test(test_two_drives),
                cmocka_unit_test(test_four_drives),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_aborted_at_any_moment),
                cmocka_unit_test(test_what_is_refused_at_the_commit),
                cmocka_unit_test(test_drives_that_fail),
                cmocka_unit_test(test_no_buffers_for_now),
                cmocka_unit_test(test_many_uploads_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
