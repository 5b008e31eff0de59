/*
 * test_store.c - the store over real drive folders: what users rely on, with restarts, a drive
 * gone, and damage.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/placement/place.h"
#include "ec.h"
#include "tests/lib/filter_wire.h"
#include "tests/lib/store_fixture.h"
#include "tests/lib/wait.h"

static const size_t sizes[] = {0, 1, 4096, 131072, 131073, 200000, 1 << 20, (2 << 20) + 1, (5 << 20) + 12345, 17 << 20};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void restart(struct sf *sf)
{
        sf_close(sf);
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_ready(sf, 20));
}

static void begin(struct sf *sf, unsigned drives, unsigned loops, uint64_t *bucket)
{
        sf_make(sf, drives, loops);
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
}

static void end(struct sf *sf)
{
        sf_close(sf);
        sf_remove(sf);
}

static void put_all(struct sf *sf, uint64_t bucket, bool known)
{
        char key[32];
        unsigned i;

        for (i = 0; i < SIZES; i++) {
                snprintf(key, sizeof(key), "%c/%zu", known ? 'k' : 'u', sizes[i]);
                assert_int_equal(sf_put(sf, i % sf->loop_count, bucket, key, i + 1, sizes[i], known, NULL), 0);
        }
}

static void get_all(struct sf *sf, uint64_t bucket, bool known)
{
        char key[32];
        unsigned i;

        for (i = 0; i < SIZES; i++) {
                snprintf(key, sizeof(key), "%c/%zu", known ? 'k' : 'u', sizes[i]);
                assert_int_equal(sf_get(sf, (i + 1) % sf->loop_count, bucket, key, i + 1, sizes[i]), 0);
        }
}

static void round_trip(unsigned drives, unsigned loops)
{
        struct sf sf;
        uint64_t bucket;

        begin(&sf, drives, loops, &bucket);
        put_all(&sf, bucket, true);
        put_all(&sf, bucket, false);
        get_all(&sf, bucket, true);
        get_all(&sf, bucket, false);
        restart(&sf);
        get_all(&sf, bucket, true);
        get_all(&sf, bucket, false);
        end(&sf);
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

/* Whether an object of this size is to be inline. */
static bool fits(uint32_t inline_max, size_t size)
{
        return size <= (inline_max == ENG_INLINE_NONE ? 0 : inline_max == 0 ? ENG_INLINE_MAX : inline_max);
}

static void get_as_put(struct sf *sf, uint64_t bucket, unsigned limit, uint32_t inline_max)
{
        static const size_t some[] = {0, 1, 700, 4096, 4097, 65536, 65537, 131072, 131073};
        char key[32];

        for (unsigned i = 0; i < 2 * sizeof(some) / sizeof(some[0]); i++) {
                snprintf(key, sizeof(key), "%u/%c/%zu", limit, i % 2 == 0 ? 'k' : 'u', some[i / 2]);
                assert_int_equal(sf_get(sf, i % sf->loop_count, bucket, key, i + 1, some[i / 2]), 0);
                assert_int_equal(sf->got_inline, fits(inline_max, some[i / 2]));
                if (some[i / 2] > 1)
                        assert_int_equal(sf_get_range(sf, 0, bucket, key, i + 1, some[i / 2], 1, some[i / 2] - 1), 0);
        }
}

static void put_under(struct sf *sf, uint64_t bucket, unsigned limit)
{
        static const size_t some[] = {0, 1, 700, 4096, 4097, 65536, 65537, 131072, 131073};
        char key[32];

        for (unsigned i = 0; i < 2 * sizeof(some) / sizeof(some[0]); i++) {
                snprintf(key, sizeof(key), "%u/%c/%zu", limit, i % 2 == 0 ? 'k' : 'u', some[i / 2]);
                assert_int_equal(sf_put(sf, i % sf->loop_count, bucket, key, i + 1, some[i / 2], i % 2 == 0, NULL), 0);
        }
}

/*
 * The limit for new objects changes with each opening: each stays as it was stored, and readable.
 */
static void test_inline_limits(void **state)
{
        static const uint32_t limits[] = {0, 4096, ENG_INLINE_NONE, 1, 65536, ENG_INLINE_MAX};
        struct sf sf;
        uint64_t bucket;

        begin(&sf, 4, 2, &bucket);
        for (unsigned n = 0; n < sizeof(limits) / sizeof(limits[0]); n++) {
                sf.options.inline_max = limits[n];
                restart(&sf);
                put_under(&sf, bucket, n);
                for (unsigned before = 0; before <= n; before++)
                        get_as_put(&sf, bucket, before, limits[before]);
        }
        end(&sf);
}

static void test_ranges(void **state)
{
        const size_t size = (5 << 20) + 12345;
        struct sf sf;
        uint64_t bucket;
        unsigned i;

        begin(&sf, 4, 2, &bucket);
        assert_int_equal(sf_put(&sf, 0, bucket, "big", 7, size, true, NULL), 0);
        for (i = 0; i < 200; i++) {
                uint64_t offset = (i * 7919ull * 1013) % size, len = 1 + (i * 104729ull) % (size - offset);

                assert_int_equal(sf_get_range(&sf, i % 2, bucket, "big", 7, size, offset, len), 0);
        }
        end(&sf);
}

static void test_conditions_and_delete(void **state)
{
        struct eng_condition absent = {.if_absent = true}, etag = {.if_etag = true};
        struct sf sf;
        uint64_t bucket, seed = 2;
        bool existed;

        begin(&sf, 4, 2, &bucket);
        assert_int_equal(sf_put(&sf, 0, bucket, "a", 1, 10, true, &absent), 0);
        assert_int_equal(sf_put(&sf, 1, bucket, "a", 2, 10, true, &absent), -EEXIST);
        assert_int_equal(sf_get(&sf, 1, bucket, "a", 1, 10), 0);
        memcpy(etag.etag, &seed, 8);
        assert_int_equal(sf_put(&sf, 1, bucket, "a", 3, 300000, true, &etag), -ESTALE);
        assert_int_equal(sf_put(&sf, 1, bucket, "missing", 3, 10, true, &etag), -ENOENT);
        seed = 1;
        memcpy(etag.etag, &seed, 8);
        assert_int_equal(sf_put(&sf, 1, bucket, "a", 3, 300000, true, &etag), 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "a", 3, 300000), 0);
        assert_int_equal(sf_delete(&sf, 0, bucket, "a", &existed), 0);
        assert_true(existed);
        assert_int_equal(sf_delete(&sf, 1, bucket, "a", &existed), 0);
        assert_false(existed);
        assert_int_equal(sf_get(&sf, 0, bucket, "a", 3, 300000), -ENOENT);
        restart(&sf);
        assert_int_equal(sf_get(&sf, 0, bucket, "a", 3, 300000), -ENOENT);
        end(&sf);
}

static void test_listing(void **state)
{
        struct sf sf;
        uint64_t bucket;
        char key[64], *text;
        unsigned i;
        bool more;
        int rv;

        begin(&sf, 4, 2, &bucket);
        for (i = 0; i < 300; i++) {
                snprintf(key, sizeof(key), "%c/%03u", 'a' + i % 3, i);
                assert_int_equal(sf_put(&sf, i % 2, bucket, key, i, 5, true, NULL), 0);
        }
        for (i = 0; i < 2; i++) {
                text = sf_list(&sf, 1, bucket, "", "/", "", 1000, &rv, &more);
                assert_int_equal(rv, 0);
                assert_string_equal(text, ">a/\n>b/\n>c/\n");
                assert_false(more);
                free(text);
                text = sf_list(&sf, 0, bucket, "", "/", "a/", 1, &rv, &more);
                assert_string_equal(text, ">b/\n");
                assert_true(more);
                free(text);
                text = sf_list(&sf, 0, bucket, "b/", "", "b/031", 3, &rv, &more);
                assert_string_equal(text, "b/034\nb/037\nb/040\n");
                assert_true(more);
                free(text);
                text = sf_list(&sf, 0, bucket, "c/29", "", "", 10, &rv, &more);
                assert_string_equal(text, "c/290\nc/293\nc/296\nc/299\n");
                assert_false(more);
                free(text);
                restart(&sf);
        }
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), -EBUSY);
        end(&sf);
}

/*
 * A drive is asked for its likely part of a page: when all of a page is on one drive it is asked
 * again.
 */
static void test_listing_of_one_group(void **state)
{
        struct sf sf;
        uint64_t bucket;
        char key[64], wanted[16000] = "", *text;
        unsigned i, n = 0;
        size_t at = 0;
        bool more;
        int rv;

        begin(&sf, 4, 2, &bucket);
        for (i = 0; n < 600; i++) {
                snprintf(key, sizeof(key), "k%08u", i);
                if (eng_pg_of_key(sf.store->pg_count, bucket, key, strlen(key)) != 0)
                        continue;
                assert_int_equal(sf_put(&sf, n % 2, bucket, key, i, 5, true, NULL), 0);
                if (n++ < 500)
                        at += (size_t)sprintf(wanted + at, "%s\n", key);
        }
        for (i = 0; i < 2; i++) {
                text = sf_list(&sf, i, bucket, "", "", "", 500, &rv, &more);
                assert_int_equal(rv, 0);
                assert_string_equal(text, wanted);
                assert_true(more);
                free(text);
                text = sf_list(&sf, i, bucket, "k", "", "", 600, &rv, &more);
                assert_int_equal(rv, 0);
                assert_memory_equal(text, wanted, at);
                assert_int_equal(strlen(text), at * 600 / 500);
                assert_false(more);
                free(text);
        }
        end(&sf);
}

/*
 * An object whose record would be too long is refused before anything has changed: the upload is
 * what it was.
 */
static void test_too_many_parts(void **state)
{
        enum { PARTS = FMT_BODY_MAX / ENG_ATTRS_MAX + 8 };
        static struct eng_complete_part parts[PARTS];
        uint8_t id[ENG_ID_LEN], other[ENG_ID_LEN];
        uint64_t bucket;
        struct sf sf;

        begin(&sf, 4, 2, &bucket);
        sf.attrs_len = ENG_ATTRS_MAX;
        assert_int_equal(sf_upload(&sf, bucket, "m", id), 0);
        for (unsigned i = 0; i < PARTS; i++) {
                parts[i].number = i + 1;
                assert_int_equal(sf_part(&sf, i % 2, bucket, "m", id, i + 1, 9, 100 * i, 100, parts[i].id), 0);
        }
        assert_int_equal(sf_complete(&sf, bucket, "m", id, parts, PARTS), -E2BIG);
        assert_int_equal(sf_get(&sf, 0, bucket, "m", 9, 100 * PARTS), -ENOENT);
        assert_int_equal(sf_part(&sf, 0, bucket, "m", id, 10000, 5, 0, 100, other), 0);
        assert_int_equal(sf_complete(&sf, bucket, "m", id, parts, PARTS), -E2BIG);
        assert_int_equal(sf_complete(&sf, bucket, "m", id, parts, PARTS - 16), 0);
        assert_int_equal(sf_get(&sf, 1, bucket, "m", 9, 100 * (PARTS - 16)), 0);
        end(&sf);
}

static void test_multipart(void **state)
{
        struct eng_complete_part parts[3];
        uint8_t id[ENG_ID_LEN], other[ENG_ID_LEN];
        struct sf sf;
        uint64_t bucket;
        unsigned i;

        begin(&sf, 4, 2, &bucket);
        assert_int_equal(sf_upload(&sf, bucket, "m", id), 0);
        for (i = 0; i < 3; i++) {
                parts[i].number = 2 * i + 1;
                assert_int_equal(
                        sf_part(&sf, i % 2, bucket, "m", id, 2 * i + 1, 9, i * (6u << 20), 6u << 20, parts[i].id), 0);
        }
        assert_int_equal(sf_part(&sf, 0, bucket, "m", id, 9, 5, 0, 100, other), 0);
        parts[1].number = 2;
        assert_int_equal(sf_complete(&sf, bucket, "m", id, parts, 3), -EINVAL);
        parts[1].number = 3;
        assert_int_equal(sf_complete(&sf, bucket, "m", id, parts, 3), 0);
        assert_int_equal(sf_complete(&sf, bucket, "m", id, parts, 3), 0);
        assert_int_equal(sf_get(&sf, 1, bucket, "m", 9, 18u << 20), 0);
        assert_int_equal(sf_upload_abort(&sf, bucket, "m", id), -ENOENT);
        assert_int_equal(sf_part(&sf, 0, bucket, "m", id, 9, 5, 0, 100, other), -ENOENT);
        restart(&sf);
        assert_int_equal(sf_get_range(&sf, 1, bucket, "m", 9, 18u << 20, (6u << 20) - 5, 10), 0);
        assert_int_equal(sf_complete(&sf, bucket, "m", id, parts, 3), 0);
        /* Another try that names other parts expects another object. */
        assert_int_equal(sf_complete(&sf, bucket, "m", id, parts, 2), -EINVAL);
        assert_int_equal(sf_complete(&sf, bucket, "m", id, parts + 1, 2), -EINVAL);
        parts[2].id[0] ^= 1;
        assert_int_equal(sf_complete(&sf, bucket, "m", id, parts, 3), -EINVAL);
        assert_int_equal(sf_upload(&sf, bucket, "n", id), 0);
        assert_int_equal(sf_part(&sf, 0, bucket, "n", id, 1, 5, 0, 100, other), 0);
        assert_int_equal(sf_upload_abort(&sf, bucket, "n", id), 0);
        assert_int_equal(sf_get(&sf, 1, bucket, "n", 5, 100), -ENOENT);
        end(&sf);
}

static void test_buckets(void **state)
{
        struct sf sf;
        uint64_t bucket, again;
        uint8_t id[ENG_ID_LEN];
        bool existed;

        begin(&sf, 4, 2, &bucket);
        assert_int_equal(sf_bucket(&sf, "bucket", &again), -EEXIST);
        assert_int_equal(sf_put(&sf, 0, bucket, "a", 1, 10, true, NULL), 0);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), -EBUSY);
        assert_int_equal(sf_delete(&sf, 0, bucket, "a", &existed), 0);
        assert_int_equal(sf_upload(&sf, bucket, "u", id), 0);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), 0);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), -ENOENT);
        assert_int_equal(sf_put(&sf, 0, bucket, "a", 1, 10, true, NULL), -EIDRM);
        assert_int_equal(sf_bucket(&sf, "bucket", &again), 0);
        assert_int_not_equal(again, bucket);
        restart(&sf);
        assert_int_equal(sf_bucket_delete_id(&sf, "bucket", bucket), -ENOENT); /* another one has the name */
        assert_int_equal(sf_put(&sf, 0, again, "a", 1, 10, true, NULL), 0);
        assert_int_equal(sf_bucket_delete_id(&sf, "bucket", again), -EBUSY);
        assert_int_equal(sf_delete(&sf, 0, again, "a", &existed), 0);
        assert_int_equal(sf_bucket_delete_id(&sf, "bucket", again), 0);
        end(&sf);
}

static bool all_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == h->drive_count;
}

/*
 * A drive that is not there at the start: all is read, writes go on, and the drive catches up when
 * it is back.
 */
static void miss_drive(unsigned slot)
{
        char away[256];
        struct sf sf;
        uint64_t bucket;

        begin(&sf, 4, 2, &bucket);
        put_all(&sf, bucket, true);
        sf_close(&sf);
        snprintf(away, sizeof(away), "%s.away", sf.path[slot]);
        assert_int_equal(rename(sf.path[slot], away), 0);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        get_all(&sf, bucket, true);
        put_all(&sf, bucket, false);
        get_all(&sf, bucket, false);
        sf_close(&sf);
        assert_int_equal(rename(away, sf.path[slot]), 0);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        get_all(&sf, bucket, true);
        get_all(&sf, bucket, false);
        assert_true(sf_wait_health(&sf, all_in, NULL, 20));
        get_all(&sf, bucket, true);
        get_all(&sf, bucket, false);
        end(&sf);
}

static void test_drive_missing(void **state)
{
        miss_drive(0);
        miss_drive(2);
}

#define DEGRADED 60u /* objects of one stripe each: that none has a data unit on a given drive does not happen */

static void get_each(struct sf *sf, uint64_t bucket)
{
        char key[32];

        for (unsigned i = 0; i < DEGRADED; i++) {
                snprintf(key, sizeof(key), "%u", i);
                assert_int_equal(sf_get(sf, 0, bucket, key, i + 1, 200000), 0);
        }
}

static bool some_degraded(const struct eng_health *h, void *arg)
{
        return h->degraded_reads > 0 && h->repaired_reads == 0;
}

/* Reads without a drive are counted, once each; with all drives in, none is. */
static void test_degraded_reads_are_counted(void **state)
{
        char away[256], key[32];
        struct sf sf;
        uint64_t bucket;

        begin(&sf, 4, 1, &bucket);
        for (unsigned i = 0; i < DEGRADED; i++) {
                snprintf(key, sizeof(key), "%u", i);
                assert_int_equal(sf_put(&sf, 0, bucket, key, i + 1, 200000, true, NULL), 0);
        }
        get_each(&sf, bucket);
        assert_int_equal(atomic_load(&sf.store->degraded_reads), 0);
        sf_close(&sf);
        snprintf(away, sizeof(away), "%s.away", sf.path[2]);
        assert_int_equal(rename(sf.path[2], away), 0);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        get_each(&sf, bucket);
        assert_in_range(atomic_load(&sf.store->degraded_reads), 1, DEGRADED);
        assert_true(sf_wait_health(&sf, some_degraded, NULL, 20));
        end(&sf);
}

static bool one_out(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == h->drive_count - 1 && h->writable;
}

/* The folder of a running drive is moved away: that costs the drive and nothing else. */
static void test_drive_moved_away(void **state)
{
        char away[256];
        struct sf sf;
        uint64_t bucket;

        begin(&sf, 4, 2, &bucket);
        put_all(&sf, bucket, true);
        snprintf(away, sizeof(away), "%s.away", sf.path[0]);
        assert_int_equal(rename(sf.path[0], away), 0);
        assert_true(sf_wait_health(&sf, one_out, NULL, 20));
        get_all(&sf, bucket, true);
        put_all(&sf, bucket, false);
        get_all(&sf, bucket, false);
        restart(&sf);
        get_all(&sf, bucket, true);
        get_all(&sf, bucket, false);
        end(&sf);
}

static bool read_only(const struct eng_health *h, void *arg)
{
        return h->ready && !h->writable && h->drives_in == 2;
}

/* Two of four drives: everything is read, nothing is written, nothing pretends. */
static void test_two_drives_gone(void **state)
{
        char away[256];
        struct sf sf;
        uint64_t bucket;
        unsigned i;

        begin(&sf, 4, 2, &bucket);
        put_all(&sf, bucket, true);
        sf_close(&sf);
        for (i = 0; i < 2; i++) {
                snprintf(away, sizeof(away), "%s.away", sf.path[i]);
                assert_int_equal(rename(sf.path[i], away), 0);
        }
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, read_only, NULL, 20));
        get_all(&sf, bucket, true);
        assert_int_equal(sf_put(&sf, 0, bucket, "new", 1, 10, true, NULL), -EROFS);
        sf_close(&sf);
        for (i = 0; i < 2; i++) {
                snprintf(away, sizeof(away), "%s.away", sf.path[i]);
                assert_int_equal(rename(away, sf.path[i]), 0);
        }
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        get_all(&sf, bucket, true);
        assert_int_equal(sf_put(&sf, 0, bucket, "new", 1, 10, true, NULL), 0);
        end(&sf);
}

static void test_index_deleted(void **state)
{
        char command[256];
        struct sf sf;
        uint64_t bucket;

        begin(&sf, 4, 2, &bucket);
        put_all(&sf, bucket, true);
        sf_close(&sf);
        snprintf(command, sizeof(command), "rm -rf %s/d*/index/*", sf.root);
        assert_int_equal(system(command), 0);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        get_all(&sf, bucket, true);
        end(&sf);
}

static void wait_verified(struct sf *sf, struct eng_verify_report *r)
{
        assert_int_equal(eng_verify_start(sf->store), 0);
        WAIT_UNTIL((eng_verify_read(sf->store, r), !r->running));
        assert_false(r->running);
}

/*
 * Bytes flipped in one drive's segments: verification names them, reads are right all the same, and
 * rebuild what they met.
 */
static void test_damage(void **state)
{
        struct eng_verify_report r;
        char command[512];
        struct sf sf;
        uint64_t bucket;

        begin(&sf, 4, 2, &bucket);
        put_all(&sf, bucket, true);
        wait_verified(&sf, &r);
        assert_int_equal(r.objects, SIZES);
        assert_int_equal(r.damaged_shards, 0);
        assert_int_equal(r.missing_shards, 0);
        assert_true(r.shards > 0);
        sf_close(&sf);
        snprintf(command, sizeof(command),
                 "for f in %s/data/*; do for i in $(seq 2 50 4000); do printf X | dd of=$f bs=1 seek=$((i * 4096 + 9)) "
                 "conv=notrunc "
                 "status=none; done; done",
                 sf.path[0]);
        assert_int_equal(system(command), 0);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        wait_verified(&sf, &r);
        assert_true(r.damaged_shards > 0);
        assert_int_equal(r.unreadable_objects, 0);
        assert_int_equal(r.repaired_shards, r.damaged_shards + r.missing_shards);
        wait_verified(&sf, &r);
        assert_int_equal(r.damaged_shards + r.missing_shards, 0);
        get_all(&sf, bucket, true);
        get_all(&sf, bucket, true);
        end(&sf);
}

/*
 * Bytes flipped in the log: a small object's bytes, which two drives of three have lost then, come
 * from the third.
 */
static void test_damage_in_the_log(void **state)
{
        struct eng_verify_report r;
        char command[512];
        struct sf sf;
        uint64_t bucket;
        unsigned i;

        begin(&sf, 4, 2, &bucket);
        for (i = 0; i < 8; i++)
                assert_int_equal(sf_put(&sf, 0, bucket, "twice", 11 + i, 100000, true, NULL), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "once", 99, 100000, true, NULL), 0);
        sf_close(&sf);
        for (i = 0; i < 2; i++) {
                snprintf(command, sizeof(command),
                         "for f in %s/log/*; do for i in $(seq 10 10 400); do printf X | dd of=$f bs=1 seek=$((i * "
                         "4096 + 9)) "
                         "conv=notrunc status=none; done; done",
                         sf.path[i]);
                assert_int_equal(system(command), 0);
        }
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        wait_verified(&sf, &r);
        assert_true(r.damaged_shards > 0);
        assert_int_equal(r.repaired_shards, r.damaged_shards);
        wait_verified(&sf, &r);
        assert_int_equal(r.damaged_shards, 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "twice", 18, 100000), 0);
        assert_int_equal(sf_get(&sf, 1, bucket, "once", 99, 100000), 0);
        end(&sf);
}

static void test_refusals(void **state)
{
        char file[256];
        struct sf sf, other;
        uint64_t bucket;
        FILE *f;

        sf_make(&sf, 4, 1);
        assert_int_not_equal(sf_open(&sf, false), 0);
        assert_non_null(strstr(sf.error.text, "--format"));
        sf_remove(&sf);
        begin(&sf, 4, 1, &bucket);
        begin(&other, 4, 1, &bucket);
        sf_close(&other);
        sf_close(&sf);
        sf.paths[3] = other.path[3];
        assert_int_equal(sf_open(&sf, false), -EXDEV);
        sf.paths[3] = sf.path[1];
        assert_int_equal(sf_open(&sf, false), -EINVAL);
        sf.paths[3] = sf.path[3];
        snprintf(file, sizeof(file), "%s/stray", sf.path[3]);
        sf_remove(&other);
        sf_make(&other, 1, 1);
        snprintf(file, sizeof(file), "%s/stray", other.path[0]);
        f = fopen(file, "w");
        fclose(f);
        assert_int_equal(sf_open(&other, true), -ENOTEMPTY);
        sf_remove(&other);
        sf_remove(&sf);
}

/* ---- what a reader holds --------------------------------------------------------------------- */

/* A GET that stands still. */
struct held {
        struct lp_msg msg;
        struct sf *sf;
        uint64_t bucket;
        struct eng_get *get;
        int rv;
        atomic_bool over;
};

static void held_opened(void *arg, int rv, struct eng_get *get)
{
        struct held *held = arg;

        held->rv = rv;
        held->get = get;
        atomic_store(&held->over, true);
}

static void hold(struct lp_msg *msg)
{
        struct held *held = (struct held *)msg;

        eng_get_open(held->sf->store, held->bucket, (struct eng_str){"read", 4}, NULL, held_opened, held);
}

static void let_go(struct lp_msg *msg)
{
        struct held *held = (struct held *)msg;

        eng_get_close(held->get);
        atomic_store(&held->over, true);
}

static void run_held(struct held *held, void (*run)(struct lp_msg *msg))
{
        atomic_store(&held->over, false);
        held->msg.run = run;
        lp_post(held->sf->loops[0], &held->msg);
        while (!atomic_load(&held->over))
                usleep(1000);
}

static bool comes_down_to(struct sf *sf, uint64_t least, uint64_t most, unsigned ms)
{
        for (; ms > 0; ms -= 20) {
                if (sf_live_bytes(sf) >= least && sf_live_bytes(sf) <= most)
                        return true;
                usleep(20000);
        }
        return false;
}

/*
 * What is overwritten stays on the drive while a GET that began before has it open, however long
 * that takes; others go at once.
 */
static void test_a_reader_keeps_what_it_reads(void **state)
{
        const size_t size = 1 << 20, some = 300 << 10;
        struct held held = {0};
        struct sf sf;

        begin(&sf, 1, 1, &held.bucket);
        held.sf = &sf;
        assert_int_equal(sf_put(&sf, 0, held.bucket, "read", 1, size, true, NULL), 0);
        assert_int_equal(sf_put(&sf, 0, held.bucket, "other", 2, size, true, NULL), 0);
        run_held(&held, hold);
        assert_int_equal(held.rv, 0);
        assert_int_equal(sf_put(&sf, 0, held.bucket, "read", 3, some, true, NULL), 0);
        assert_int_equal(sf_put(&sf, 0, held.bucket, "other", 4, some, true, NULL), 0);
        assert_true(comes_down_to(&sf, size, 2 * size - 1, 20000)); /* the one that nobody reads is gone */
        sleep(3);                                                   /* longer than dead shards are waited with */
        assert_true(sf_live_bytes(&sf) >= size + 2 * some);
        run_held(&held, let_go);
        assert_true(comes_down_to(&sf, 2 * some, size - 1, 20000));
        end(&sf);
}

/* ---- operations as bytes --------------------------------------------------------------------- */

/*
 * A whole store does without a pointer from one side of the drive table to the other: what a remote
 * drive will need.
 */
static void test_operations_as_bytes(void **state)
{
        static const size_t lengths[] = {0, 4096, 300 << 10, 5 << 20};
        uint64_t bucket;
        char key[16];
        struct sf sf;
        unsigned i;

        filter_wire_use();
        sf_make(&sf, 4, 2);
        sf.options.faults = "serialise;duplicate:every=3;serialise";
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        for (i = 0; i < 12; i++) {
                snprintf(key, sizeof(key), "key%u", i);
                assert_int_equal(sf_put(&sf, i % 2, bucket, key, i, lengths[i % 4], true, NULL), 0);
        }
        for (i = 0; i < 12; i++) {
                snprintf(key, sizeof(key), "key%u", i);
                assert_int_equal(sf_get(&sf, i % 2, bucket, key, i, lengths[i % 4]), 0);
        }
        sf_close(&sf);
        sf.options.faults = NULL;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        for (i = 0; i < 12; i++) {
                snprintf(key, sizeof(key), "key%u", i);
                assert_int_equal(sf_get(&sf, i % 2, bucket, key, i, lengths[i % 4]), 0);
        }
        end(&sf);
}

/* ---- metadata alone -------------------------------------------------------------------------- */

static void look(struct lp_msg *msg)
{
        struct held *held = (struct held *)msg;

        eng_get_metadata(held->sf->store, held->bucket, (struct eng_str){"read", 4}, NULL, held_opened, held);
}

/* A GET of the metadata reads nothing of an object's bytes, and refuses to. */
static void test_metadata_reads_no_bytes(void **state)
{
        static const size_t lengths[] = {0, 4096, 300 << 10};
        struct eng_health *before = malloc(sizeof(*before)), *after = malloc(sizeof(*after));
        struct held held = {0};
        struct sf sf;
        unsigned i;

        begin(&sf, 1, 1, &held.bucket);
        held.sf = &sf;
        for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                assert_int_equal(sf_put(&sf, 0, held.bucket, "read", i, lengths[i], true, NULL), 0);
                eng_health_read(sf.store, before);
                run_held(&held, look);
                assert_int_equal(held.rv, 0);
                assert_int_equal(eng_get_object(held.get)->size, lengths[i]);
                assert_int_equal(eng_get_start(held.get, 0, lengths[i], NULL, NULL), -EINVAL);
                run_held(&held, let_go);
                eng_health_read(sf.store, after);
                assert_int_equal(after->drives[0].read_bytes, before->drives[0].read_bytes);
                assert_int_equal(after->cache_hits + after->cache_misses, before->cache_hits + before->cache_misses);
        }
        free(before);
        free(after);
        end(&sf);
}

/* ---- bytes that stay ------------------------------------------------------------------------- */

/* A GET and what it keeps. */
struct keeper {
        struct held held;
        size_t size;
        void *kept;
        const uint8_t *data;
        size_t len;
};

static void never_woken(void *arg)
{
        assert_true(false);
}

static void start_and_keep(struct lp_msg *msg)
{
        struct keeper *keeper = (struct keeper *)msg;
        struct held *held = &keeper->held;

        eng_get_sum(held->get);
        held->rv = eng_get_start(held->get, 0, keeper->size, never_woken, NULL);
        keeper->kept = eng_get_keep(held->get);
        if (keeper->kept != NULL)
                held->rv = eng_get_next(held->get, &keeper->data, &keeper->len);
        if (held->rv == 0 && keeper->kept != NULL && eng_get_crc32c(held->get) != era_crc32c(0, keeper->data, keeper->len))
                held->rv = -EBADMSG;
        eng_get_close(held->get);
        atomic_store(&held->over, true);
}

/* A small object's bytes outlive its GET, and the object. Those of one with shards do not stay. */
static void test_bytes_that_stay(void **state)
{
        static const size_t some[] = {1, 4096, 128 << 10, 1 << 20};
        struct sf sf;

        for (unsigned i = 0; i < 4; i++) {
                struct keeper keeper = {.size = some[i]};
                uint8_t *want = malloc(some[i]);

                begin(&sf, 1, 1, &keeper.held.bucket);
                keeper.held.sf = &sf;
                sf_fill(want, 1, 0, some[i]);
                assert_int_equal(sf_put(&sf, 0, keeper.held.bucket, "read", 1, some[i], true, NULL), 0);
                for (unsigned turn = 0; turn < 2; turn++) { /* the second time its checksum is known */
                        run_held(&keeper.held, hold);
                        assert_int_equal(keeper.held.rv, 0);
                        run_held(&keeper.held, start_and_keep);
                        assert_int_equal(keeper.held.rv, 0);
                        assert_int_equal(keeper.kept != NULL, some[i] < 1 << 20);
                        if (turn == 0)
                                eng_kept_release(keeper.kept);
                }
                assert_int_equal(sf_put(&sf, 0, keeper.held.bucket, "read", 2, 10, true, NULL), 0);
                end(&sf);
                assert_true(keeper.kept == NULL || (keeper.len == some[i] && memcmp(keeper.data, want, some[i]) == 0));
                eng_kept_release(keeper.kept);
                free(want);
        }
}

/* ---- many uploads at once -------------------------------------------------------------------- */

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
                snprintf(key, sizeof(key), "%u/%u", u->number, turn);
                u->rv = sf_put(u->sf, u->number % 2, u->bucket, key, u->number * 10 + turn,
                               upload_size(u->number, turn), turn != 1, NULL);
        }
        return NULL;
}

/*
 * Of all sizes, with a drive that fails on the way: the MD5 of each (the fixture compares it), and
 * its bytes.
 */
static void test_many_uploads_at_once(void **state)
{
        struct uploader uploaders[14];
        pthread_t threads[14];
        uint64_t bucket;
        char key[32];
        unsigned i, turn;
        struct sf sf;

        sf_make(&sf, 4, 2);
        sf.options.faults = "fail:op=write,slot=0,after=30";
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        for (i = 0; i < 14; i++) {
                uploaders[i] = (struct uploader){.sf = &sf, .bucket = bucket, .number = i};
                assert_int_equal(pthread_create(&threads[i], NULL, upload, &uploaders[i]), 0);
        }
        for (i = 0; i < 14; i++) {
                assert_int_equal(pthread_join(threads[i], NULL), 0);
                assert_int_equal(uploaders[i].rv, 0);
        }
        for (i = 0; i < 14; i++)
                for (turn = 0; turn < 3; turn++) {
                        snprintf(key, sizeof(key), "%u/%u", i, turn);
                        assert_int_equal(sf_get(&sf, i % 2, bucket, key, i * 10 + turn, upload_size(i, turn)), 0);
                }
        end(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_drive),
                cmocka_unit_test(test_two_drives),
                cmocka_unit_test(test_four_drives),
                cmocka_unit_test(test_inline_limits),
                cmocka_unit_test(test_ranges),
                cmocka_unit_test(test_conditions_and_delete),
                cmocka_unit_test(test_listing),
                cmocka_unit_test(test_listing_of_one_group),
                cmocka_unit_test(test_multipart), cmocka_unit_test(test_too_many_parts),
                cmocka_unit_test(test_buckets),
                cmocka_unit_test(test_drive_missing),
                cmocka_unit_test(test_degraded_reads_are_counted),
                cmocka_unit_test(test_drive_moved_away),
                cmocka_unit_test(test_two_drives_gone),
                cmocka_unit_test(test_index_deleted),
                cmocka_unit_test(test_damage),
                cmocka_unit_test(test_damage_in_the_log),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_a_reader_keeps_what_it_reads),
                cmocka_unit_test(test_metadata_reads_no_bytes),
                cmocka_unit_test(test_operations_as_bytes),
                cmocka_unit_test(test_bytes_that_stay),
                cmocka_unit_test(test_many_uploads_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
