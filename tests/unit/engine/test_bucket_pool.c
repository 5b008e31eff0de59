/*
 * Which buckets are in which other pool: entries and buckets of one name exclude each other at the leader, also where homes ask; what
 * is refused; restarts; entries that cannot be read, or are another name's.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/bucket/bucket_pool.h"
#include "engine/bucket/config_digest.h"
#include "engine/drive/identity.h"
#include "tests/lib/home_fixture.h"
#include "tests/lib/store_objects.h"

#define KIND ENG_ENTRY_BUCKET_POOL

static struct sf leader;
static struct hf hf;

static int begin(void **state)
{
        sf_make(&leader, 4, 2);
        leader.options.ec_k = leader.options.ec_m = 2;
        assert_int_equal(sf_open(&leader, true), 0);
        assert_true(sf_wait_health(&leader, so_whole, NULL, 20));
        hf_open(&hf, &leader, 2);
        return 0;
}

static int end(void **state)
{
        hf_close(&hf);
        sf_close(&leader);
        sf_remove(&leader);
        return 0;
}

static void expect_pool(struct sf *sf, const char *name, int rv, unsigned pool)
{
        unsigned loop, found;

        for (loop = 0; loop < 2; loop++) {
                assert_int_equal(sf_bucket_pool(sf, loop, name, &found), rv);
                if (rv == 0)
                        assert_int_equal(found, pool);
        }
}

static void test_excludes(void **state)
{
        uint64_t id;

        expect_pool(&leader, "away", -ENOENT, 0);
        assert_int_equal(eng_bucket_pools(leader.store), 0);
        assert_int_equal(sf_bucket_pool_set(&leader, 1, "away", 7), 0);
        expect_pool(&leader, "away", 0, 7);
        assert_true(eng_bucket_pools(leader.store) == 1ull << 7);
        assert_int_equal(sf_bucket(&leader, "away", &id), -EREMOTE);
        assert_int_equal(sf_bucket_pool_set(&leader, 0, "away", 7), -ESTALE);
        assert_int_equal(sf_bucket_pool_set(&leader, 0, "away", 8), -ESTALE);
        assert_int_equal(sf_bucket(&leader, "here", &id), 0);
        assert_int_equal(sf_bucket_pool_set(&leader, 0, "here", 7), -EEXIST);
        assert_int_equal(sf_bucket_delete(&leader, "here"), 0);
        assert_int_equal(sf_bucket_pool_set(&leader, 0, "here", 63), 0); /* the name is free again */
        assert_int_equal(sf_bucket(&leader, "here", &id), -EREMOTE);
        assert_true(eng_bucket_pools(leader.store) == (1ull << 7 | 1ull << 63));
        expect_pool(&leader, "awa", -ENOENT, 0);
        expect_pool(&leader, "awayy", -ENOENT, 0);
}

/* The same by calls of a home, which is told of what others do when it follows. */
static void test_homes(void **state)
{
        uint64_t id;

        assert_int_equal(sf_bucket_pool_set(&leader, 0, "away", 7), 0);
        expect_pool(&hf.home, "away", -ENOENT, 0); /* it was not told yet */
        assert_int_equal(sf_bucket(&hf.home, "away", &id), -EREMOTE);
        assert_int_equal(sf_bucket_pool_set(&hf.home, 1, "away", 9), -ESTALE);
        hf_follow(&hf);
        expect_pool(&hf.home, "away", 0, 7);
        assert_int_equal(sf_bucket_pool_set(&hf.home, 1, "too", 9), 0);
        expect_pool(&leader, "too", 0, 9);
        hf_follow(&hf);
        expect_pool(&hf.home, "too", 0, 9);
        assert_true(eng_bucket_pools(hf.home.store) == (1ull << 7 | 1ull << 9));
        assert_int_equal(sf_bucket(&leader, "here", &id), 0);
        assert_int_equal(sf_bucket_pool_set(&hf.home, 1, "here", 9), -EEXIST);
        hf_lease(&hf, false); /* what is read of an entry is right however old: it is for the gateway to judge */
        expect_pool(&hf.home, "too", 0, 9);
        hf_lease(&hf, true);
}

/* What a home that is not right could send, as bytes. */
static void test_refused(void **state)
{
        static const struct {
                const char *bytes;
                size_t len;
        } bad[] = {{"\1\7", 2}, {"\1\7\0", 3}, {"\2\7name", 6}, {"\1\0name", 6}, {"\1\100name", 6}, {"\1\377name", 6}, {"", 1}, {"\1", 1}, {"\1\7name", 6}};
        char longest[2 + ENG_BUCKET_NAME_MAX + 1], name[ENG_BUCKET_NAME_MAX + 2];
        struct sf *const from[] = {&leader, &hf.home};
        struct eng_text *text;
        unsigned i, k, pool;

        memset(longest, 'n', sizeof(longest));
        longest[0] = 1;
        longest[1] = 7;
        memset(name, 'n', sizeof(name));
        name[sizeof(name) - 1] = 0;
        for (k = 0; k < 2; k++) {
                for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) /* the last one is right, and its number another's */
                        assert_int_equal(sf_text_set(from[k], 0, 12345, KIND, ENG_TEXT_ANY, bad[i].bytes, bad[i].len), -EINVAL);
                assert_int_equal(sf_text_set(from[k], 0, 12345, KIND, ENG_TEXT_ANY, longest, sizeof(longest)), -EINVAL);
                assert_int_equal(sf_text_delete(from[k], 0, 12345, KIND, ENG_TEXT_ANY), -ENOENT);
                assert_int_equal(sf_bucket_pool_set(from[k], 0, "", 7), -EINVAL);
                assert_int_equal(sf_bucket_pool_set(from[k], 0, name, 7), -EINVAL);
                assert_int_equal(sf_bucket_pool_set(from[k], 0, "name", 0), -EINVAL);
                assert_int_equal(sf_bucket_pool_set(from[k], 0, "name", ENG_POOLS_MAX), -EINVAL);
        }
        name[sizeof(name) - 2] = 0;
        assert_int_equal(sf_bucket_pool_set(&leader, 0, name, 63), 0);
        expect_pool(&leader, name, 0, 63);
        assert_int_equal(sf_bucket_pool(&leader, 0, "name", &pool), -ENOENT);
        assert_int_equal(sf_text(&leader, 0, 12345, KIND, &text), -ENOENT);
}

static void number_of(void *arg, uint64_t id, unsigned kind, struct eng_text *text)
{
        if (kind == KIND)
                *(uint64_t *)arg = id;
}

static uint64_t entry_number(struct eng_store *store, uint64_t arg)
{
        uint32_t position = 0;
        uint64_t id = 0;

        while (eng_entries_walk(store, &position, 1u << 20, number_of, &id))
                ;
        return id;
}

/* It is never taken away, nor changed, by whatever call. */
static void test_stays(void **state)
{
        uint64_t id;

        assert_int_equal(sf_bucket_pool_set(&leader, 0, "away", 7), 0);
        id = sf_ask(&leader, entry_number, 0);
        assert_int_not_equal(id, 0);
        assert_int_equal(sf_text_delete(&leader, 0, id, KIND, ENG_TEXT_ANY), -EPERM);
        assert_int_equal(sf_text_delete(&hf.home, 0, id, KIND, ENG_TEXT_ANY), -EPERM);
        assert_int_equal(sf_text_set(&leader, 0, id, KIND, ENG_TEXT_ANY, "\1\10away", 6), -ESTALE);
        assert_int_equal(sf_text_set(&hf.home, 0, id, KIND, ENG_TEXT_ANY, "\1\10away", 6), -ESTALE);
        expect_pool(&leader, "away", 0, 7);
}

/* In place of the entry, on the coordinator. bytes NULL: one that no drive has whole. */
struct forged {
        uint64_t id;
        const char *bytes;
};

static uint64_t forge(struct eng_store *store, uint64_t arg)
{
        const struct forged *forged = (const struct forged *)(uintptr_t)arg;
        struct eng_text *text = eng_text_new(KIND, forged->bytes, forged->bytes != NULL ? strlen(forged->bytes) : 0);

        text->damaged = forged->bytes == NULL;
        text->generation = 1;
        eng_text_unref(eng_entry_put(store, forged->id, KIND, text));
        return 0;
}

/* Two names have one number: the other one is the first pool's. */
static void test_collision(void **state)
{
        struct forged forged = {.bytes = "\1\7other"};
        uint64_t id;

        assert_int_equal(sf_bucket_pool_set(&leader, 0, "away", 7), 0);
        forged.id = sf_ask(&leader, entry_number, 0);
        sf_ask(&leader, forge, (uintptr_t)&forged);
        expect_pool(&leader, "away", -ENOENT, 0);
        assert_int_equal(sf_bucket_pool_set(&leader, 0, "away", 7), -ENOTUNIQ);
        assert_int_equal(sf_bucket(&leader, "away", &id), 0);
}

static void test_unreadable(void **state)
{
        struct forged forged = {.bytes = NULL};
        uint64_t id;

        assert_int_equal(sf_bucket_pool_set(&leader, 0, "away", 7), 0);
        forged.id = sf_ask(&leader, entry_number, 0);
        sf_ask(&leader, forge, (uintptr_t)&forged);
        expect_pool(&leader, "away", -EIO, 0);
        assert_int_equal(sf_bucket_pool_set(&leader, 0, "away", 7), -EIO);
        assert_int_equal(sf_bucket(&leader, "away", &id), -EIO);
}

static uint64_t seen_rows(struct eng_store *store, uint64_t arg)
{
        eng_entries_seen(store, (struct eng_rows_digest *)(uintptr_t)arg);
        return 0;
}

static uint64_t all_rows(struct eng_store *store, uint64_t arg)
{
        eng_home_digest(store, (struct eng_rows_digest *)(uintptr_t)arg);
        return 0;
}

/* A change of users goes on beside buckets that are made; and a home has all rows only with these entries. */
static void test_digests(void **state)
{
        struct eng_rows_digest before, after, all_before, all_after, home;

        assert_int_equal(sf_text_set(&leader, 0, 5, 200, 0, "somebody", 8), 0);
        sf_ask(&leader, seen_rows, (uintptr_t)&before);
        sf_ask(&leader, all_rows, (uintptr_t)&all_before);
        assert_int_equal(sf_bucket_pool_set(&leader, 0, "away", 7), 0);
        sf_ask(&leader, seen_rows, (uintptr_t)&after);
        sf_ask(&leader, all_rows, (uintptr_t)&all_after);
        assert_true(eng_digest_same(&before, &after));
        assert_false(eng_digest_same(&all_before, &all_after));
        hf_follow(&hf);
        sf_ask(&hf.home, all_rows, (uintptr_t)&home);
        assert_true(eng_digest_same(&home, &all_after));
}

/* Drives say that a build must know of it, from before the first entry on; and not before. */
static void test_restart(void **state)
{
        struct eng_identity identity;
        enum eng_folder_state folder;
        struct eng_error error;
        struct sf sf;
        uint64_t id;
        unsigned i;

        sf_make(&sf, 4, 2);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 20));
        assert_int_equal(sf_text_set(&sf, 0, 5, 200, 0, "somebody", 8), 0);
        for (i = 0; i < 4; i++) {
                assert_int_equal(eng_folder_probe(sf.path[i], &folder, &identity, &error), 0);
                assert_int_equal(identity.features & FMT_FEATURE_POOLS, 0);
        }
        assert_int_equal(sf_bucket_pool_set(&sf, 0, "away", 7), 0);
        assert_int_equal(sf_bucket_pool_set(&sf, 1, "far", 8), 0);
        for (i = 0; i < 4; i++) {
                assert_int_equal(eng_folder_probe(sf.path[i], &folder, &identity, &error), 0);
                assert_int_equal(identity.features & FMT_FEATURE_POOLS, FMT_FEATURE_POOLS);
        }
        sf_close(&sf);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        expect_pool(&sf, "away", 0, 7);
        expect_pool(&sf, "far", 0, 8);
        assert_true(eng_bucket_pools(sf.store) == (1ull << 7 | 1ull << 8));
        assert_int_equal(sf_bucket(&sf, "away", &id), -EREMOTE);
        sf_close(&sf);
        sf_remove(&sf);
}

/* ---- at once --------------------------------------------------------------------------------- */

#define NAMES 30u

struct racer {
        struct sf *sf;
        unsigned number, won;
        bool sets;
        pthread_t thread;
        int rv[NAMES];
};

static void *race(void *arg)
{
        struct racer *r = arg;
        char name[32];
        uint64_t id;
        unsigned i;

        for (i = 0; i < NAMES; i++) {
                snprintf(name, sizeof(name), "race-%u", i);
                r->rv[i] = r->sets ? sf_bucket_pool_set(r->sf, r->number % 2, name, 10 + r->number) : sf_bucket(r->sf, name, &id);
        }
        return NULL;
}

/* Of all who make a bucket of one name, here or elsewhere, one does. */
static void test_race(void **state)
{
        struct racer racers[6] = {0};
        unsigned i, k, winners, pool;
        char name[32];

        for (k = 0; k < 6; k++) {
                racers[k] = (struct racer){.sf = k % 2 == 0 ? &leader : &hf.home, .number = k, .sets = k < 4};
                assert_int_equal(pthread_create(&racers[k].thread, NULL, race, &racers[k]), 0);
        }
        for (k = 0; k < 6; k++)
                pthread_join(racers[k].thread, NULL);
        for (i = 0; i < NAMES; i++) {
                bool entry = false;

                snprintf(name, sizeof(name), "race-%u", i);
                for (winners = k = 0; k < 6; k++) {
                        int rv = racers[k].rv[i];

                        winners += rv == 0;
                        entry |= rv == 0 && racers[k].sets;
                        assert_true(rv == 0 || rv == -EEXIST || rv == (racers[k].sets ? -ESTALE : -EREMOTE));
                }
                assert_int_equal(winners, 1);
                assert_int_equal(sf_bucket_pool(&leader, 0, name, &pool), entry ? 0 : -ENOENT);
                assert_int_equal(sf_bucket_delete(&leader, name), entry ? -ENOENT : 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_excludes, begin, end),   cmocka_unit_test_setup_teardown(test_homes, begin, end),
                cmocka_unit_test_setup_teardown(test_refused, begin, end),    cmocka_unit_test_setup_teardown(test_stays, begin, end),
                cmocka_unit_test_setup_teardown(test_collision, begin, end),  cmocka_unit_test_setup_teardown(test_unreadable, begin, end),
                cmocka_unit_test_setup_teardown(test_digests, begin, end),    cmocka_unit_test(test_restart),
                cmocka_unit_test_setup_teardown(test_race, begin, end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
