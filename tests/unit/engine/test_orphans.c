/*
 * Shards that no record names are found and given up; those of anything that is there, is being
 * written, or is being read are not.
 */
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/store_versions.h"
#include "tests/lib/wait.h"

#define NAMES 40u
#define MIB (1u << 20)

static const char *key_of(unsigned i)
{
        static char key[32];

        snprintf(key, sizeof(key), "k/%u", i);
        return key;
}

static size_t size_of(unsigned i)
{
        static const size_t sizes[] = {10, 131073, MIB + 1, 5 * MIB + 777};

        return sizes[i % 4];
}

static bool at_rest(const struct eng_health *h, void *arg)
{
        uint64_t *least = arg;

        return h->ready && h->writable && !h->healing && !h->collecting_orphans && h->orphan_ids >= *least;
}

static void start(struct sf *sf, const char *faults, uint64_t swept)
{
        sf->options.faults = faults;
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, at_rest, &swept, 60));
}

static void put(struct sf *sf, uint64_t bucket, unsigned i, uint64_t seed)
{
        assert_int_equal(sf_put(sf, i % sf->loop_count, bucket, key_of(i), seed, size_of(i), i % 3 != 0, NULL), 0);
}

static void orphans(struct sf *sf)
{
        uint64_t none = 0;

        sf_collect_orphans(sf);
        assert_true(sf_wait_health(sf, at_rest, &none, 60));
}

static void begin(struct sf *sf, unsigned drives, uint64_t *bucket)
{
        unsigned i;

        sf_make(sf, drives, 2);
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        for (i = 0; i < NAMES; i++)
                put(sf, *bucket, i, i + 1);
}

/* Drives that forget nothing they are told to forget: as if a crash had lost each discard. */
static void lost_discards(unsigned drives)
{
        uint8_t id[ENG_ID_LEN];
        struct eng_complete_part part = {.number = 1};
        unsigned i, before, after;
        uint64_t bucket, other;
        bool existed;
        struct sf sf;

        begin(&sf, drives, &bucket);
        assert_int_equal(sf_upload(&sf, bucket, "open", id), 0);
        assert_int_equal(sf_part(&sf, 0, bucket, "open", id, 1, 500, 0, 3 * MIB, part.id), 0);
        sf_close(&sf);
        start(&sf, "fail:op=discard", 0);
        for (i = 0; i < NAMES; i += 2)
                if (i % 3 == 0)
                        assert_int_equal(sf_delete(&sf, 0, bucket, key_of(i), &existed), 0);
                else
                        put(&sf, bucket, i, 1000 + i);
        usleep(4000000); /* the index, and then the discards */
        sf_close(&sf);
        sf.options.faults = NULL;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "another", &other), 0); /* what begins while it is swept */
        for (i = 0; i < 8; i++)
                assert_int_equal(sf_put(&sf, i % 2, other, key_of(i), 2000 + i, size_of(i), true, NULL), 0);
        assert_true(sf_wait_health(&sf, at_rest, &(uint64_t){10}, 60));
        before = sf_ids(&sf);
        for (i = 0; i < NAMES; i++)
                assert_int_equal(i % 2 != 0       ? sf_get(&sf, 0, bucket, key_of(i), i + 1, size_of(i))
                                 : i % 3 == 0     ? sf_get(&sf, 0, bucket, key_of(i), 1, 1) + ENOENT
                                                  : sf_get(&sf, 1, bucket, key_of(i), 1000 + i, size_of(i)),
                                 0);
        for (i = 0; i < 8; i++)
                assert_int_equal(sf_get(&sf, 1, other, key_of(i), 2000 + i, size_of(i)), 0);
        assert_int_equal(sf_complete(&sf, bucket, "open", id, &part, 1), 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "open", 500, 3 * MIB), 0);
        orphans(&sf);
        after = sf_ids(&sf);
        assert_true(after <= before + drives * 8); /* those may have come to the index since */
        sf_close(&sf);
        start(&sf, NULL, 0);
        for (i = 0; i < NAMES; i++)
                if (i % 2 != 0)
                        assert_int_equal(sf_get(&sf, 0, bucket, key_of(i), i + 1, size_of(i)), 0);
        assert_int_equal(sf_get(&sf, 0, bucket, "open", 500, 3 * MIB), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_lost_discards(void **state)
{
        lost_discards(4);
}

static void test_lost_discards_without_parity(void **state)
{
        lost_discards(1);
}

/* ---- what is being read and written ---------------------------------------------------------- */

struct reader {
        struct lp_msg msg;
        sem_t ended;
        struct sf *sf;
        uint64_t bucket;
        const char *key;
        struct eng_get *get;
        uint64_t got;
        int rv;
};

static void reader_opened(void *arg, int rv, struct eng_get *get)
{
        struct reader *r = arg;

        r->rv = rv;
        r->get = get;
        sem_post(&r->ended);
}

static void reader_open(struct lp_msg *msg)
{
        struct reader *r = (struct reader *)msg;

        eng_get_open(r->sf->store, r->bucket, (struct eng_str){r->key, strlen(r->key)}, NULL, reader_opened, r);
}

static void reader_more(void *arg)
{
        struct reader *r = arg;
        const uint8_t *data;
        size_t len;

        while ((r->rv = eng_get_next(r->get, &data, &len)) == 0)
                r->got += len;
        if (r->rv == -EAGAIN)
                return;
        eng_get_close(r->get);
        sem_post(&r->ended);
}

static void reader_read(struct lp_msg *msg)
{
        struct reader *r = (struct reader *)msg;

        r->rv = eng_get_start(r->get, 0, eng_get_object(r->get)->size, reader_more, r);
        reader_more(r);
}

static void run(struct reader *r, void (*step)(struct lp_msg *msg))
{
        r->msg.run = step;
        lp_post(r->sf->loops[0], &r->msg);
        while (sem_wait(&r->ended) != 0)
                ;
}

static void test_readers_and_writers(void **state)
{
        struct reader r = {.key = key_of(3)};
        uint64_t bucket;
        bool existed;
        struct sf sf;

        begin(&sf, 4, &bucket);
        usleep(3000000); /* so that the index has all of it */
        sem_init(&r.ended, 0, 0);
        r.sf = &sf;
        r.bucket = bucket;
        run(&r, reader_open);
        assert_int_equal(r.rv, 0);
        assert_int_equal(sf_delete(&sf, 1, bucket, r.key, &existed), 0);
        orphans(&sf);
        usleep(3000000);
        orphans(&sf);
        run(&r, reader_read);
        assert_int_equal(r.rv, -ENODATA);
        assert_int_equal(r.got, size_of(3));
        sf_close(&sf);
        sf_remove(&sf);
}

/* ---- versions -------------------------------------------------------------------------------- */

#define VERSION_KEYS 50u
#define VERSION_SIZE 100u /* in shards all the same */

/* MILLRACE_VERSIONS: how many there are; the long run has 100,000. */
static unsigned version_count(void)
{
        const char *text = getenv("MILLRACE_VERSIONS");

        return text == NULL ? 3000 : (unsigned)strtoul(text, NULL, 10);
}

static bool is_deleted(unsigned i)
{
        return i % 5 == 2;
}

static void put_versions(struct sf *sf, uint64_t bucket, struct eng_version *made, unsigned from, unsigned to)
{
        unsigned i;

        for (i = from; i < to; i++) {
                assert_int_equal(sf_put(sf, 0, bucket, key_of(i % VERSION_KEYS), i + 1, VERSION_SIZE, true, NULL), 0);
                made[i] = sf->put_version;
        }
}

static void read_versions(struct sf *sf, uint64_t bucket, const struct eng_version *made, unsigned count)
{
        unsigned i;

        for (i = 0; i < count; i++)
                assert_int_equal(sf_get_version(sf, bucket, key_of(i % VERSION_KEYS), &made[i], i + 1, VERSION_SIZE),
                                 is_deleted(i) ? -ENOENT : 0);
}

static void enable_versions(struct sf *sf, uint64_t bucket)
{
        struct eng_bucket_rules rules;

        assert_int_equal(sf_rules(sf, 0, "bucket", &rules), 0);
        rules.versioning = ENG_VERSIONING_ENABLED;
        assert_int_equal(sf_rules_set(sf, 0, bucket, &rules), 0);
}

/*
 * The first ones are plain objects that become null versions. Drives lose the discards of those that
 * are deleted: their shards are swept, and those of no other version are.
 */
static void test_noncurrent_versions(void **state)
{
        unsigned count = version_count(), i;
        struct eng_version *made = calloc(count, sizeof(*made));
        struct eng_deleted deleted;
        uint64_t bucket, swept = 0;
        struct sf sf;

        assert_non_null(made);
        sf_make(&sf, 1, 1);
        sf.options.inline_max = ENG_INLINE_NONE;
        sf.options.heal_rate = 1ull << 30;
        sf.options.faults = "again:op=discard"; /* no failure: deletions take longer than the first discards */
        sf.keep_version = true;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        put_versions(&sf, bucket, made, 0, VERSION_KEYS);
        enable_versions(&sf, bucket);
        put_versions(&sf, bucket, made, VERSION_KEYS, count);
        for (i = 0; i < count; i++)
                if (is_deleted(i)) {
                        assert_int_equal(sv_delete(&sf, bucket, key_of(i % VERSION_KEYS), &made[i], &deleted), 0);
                        assert_true(deleted.existed);
                        swept++;
                }
        usleep(3000000); /* the index has all of it, and the discards were tried */
        sf_close(&sf);
        start(&sf, NULL, swept);
        usleep(3000000); /* the index has the discards */
        if (count < ENG_IDS_MAX) {
                WAIT_UNTIL(sf_ids(&sf) == count - swept);
                assert_int_equal(sf_ids(&sf), count - swept);
        }
        read_versions(&sf, bucket, made, count);
        orphans(&sf);
        usleep(3000000);
        read_versions(&sf, bucket, made, count);
        sf_close(&sf);
        sf_remove(&sf);
        free(made);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lost_discards),
                cmocka_unit_test(test_lost_discards_without_parity),
                cmocka_unit_test(test_readers_and_writers),
                cmocka_unit_test(test_noncurrent_versions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
