/*
 * Entries of the store: texts that belong to no bucket. Set, replaced and deleted for all loops at once,
 * and told to who watches; there after a restart, a kill and the loss of a drive, whatever one member's
 * rows have become; not touched by a bucket that has the same number; found as fast among many.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/bucket/bucket.h"
#include "engine/bucket/bucket_queue.h"
#include "engine/bucket/bucket_text.h"
#include "engine/drive/index.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/wait.h"

#define USER 128u
#define LAST 254u /* of what is the caller's own: behind it come those of bucket_pool.c */
#define ID   0x8000000000000001ull

static void open_whole(struct sf *sf, bool format)
{
        assert_int_equal(sf_open(sf, format), 0);
        assert_true(sf_wait_health(sf, so_whole, NULL, 60));
}

static void make(struct sf *sf)
{
        sf_make(sf, 4, 2);
        open_whole(sf, true);
}

static const uint8_t *bytes_of(uint64_t seed, size_t len)
{
        static uint8_t bytes[ENG_TEXT_MAX + 1];

        assert_true(len <= sizeof(bytes));
        sf_fill(bytes, seed, 0, len);
        return bytes;
}

static int set(struct sf *sf, uint64_t id, unsigned kind, uint64_t seed, size_t len)
{
        return sf_text_set(sf, 1, id, kind, ENG_TEXT_ANY, bytes_of(seed, len), len);
}

static uint64_t check(struct sf *sf, uint64_t id, unsigned kind, uint64_t seed, size_t len)
{
        uint64_t generation = 0;
        struct eng_text *text;
        unsigned loop;

        for (loop = 0; loop < sf->loop_count; loop++) {
                assert_int_equal(sf_text(sf, loop, id, kind, &text), 0);
                assert_int_equal(eng_text_bytes(text).len, len);
                assert_memory_equal(eng_text_bytes(text).data, bytes_of(seed, len), len);
                generation = eng_text_generation(text);
                eng_text_unref(text);
        }
        return generation;
}

static void check_none(struct sf *sf, uint64_t id, unsigned kind, int why)
{
        struct eng_text *text;
        unsigned loop;

        for (loop = 0; loop < sf->loop_count; loop++)
                assert_int_equal(sf_text(sf, loop, id, kind, &text), why);
}

static uint64_t bytes_counted(struct eng_store *store, uint64_t arg)
{
        return store->coord->config->text_bytes;
}

static uint64_t is_dropping(struct eng_store *store, uint64_t arg)
{
        return eng_drop_running(store);
}

/* ---- the calls ------------------------------------------------------------------------------- */

static void test_set_and_delete(void **state)
{
        static const size_t lengths[] = {1, FMT_TEXT_PIECE + 1, ENG_TEXT_MAX, 300};
        uint64_t generation, before = 0;
        struct sf sf;
        unsigned i;

        make(&sf);
        check_none(&sf, ID, USER, -ENOENT);
        check_none(&sf, ID, USER - 1, -EIDRM); /* a text of a bucket that is not there */
        assert_int_equal(set(&sf, ID, USER - 1, 1, 10), -EIDRM);
        assert_int_equal(set(&sf, ID, LAST + 1, 1, 10), -EINVAL);
        assert_int_equal(set(&sf, ID, ENG_TEXTS_KINDS, 1, 10), -EINVAL);
        assert_int_equal(sf_text_delete(&sf, 0, ID, USER, ENG_TEXT_ANY), -ENOENT);
        for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                assert_int_equal(set(&sf, ID, USER, i, lengths[i]), 0);
                generation = check(&sf, ID, USER, i, lengths[i]);
                assert_true(generation > before);
                assert_int_equal(sf_text_set(&sf, 0, ID, USER, before, "x", 1), -ESTALE);
                before = generation;
                sf_close(&sf);
                open_whole(&sf, false);
                assert_int_equal(check(&sf, ID, USER, i, lengths[i]), generation);
                assert_true(sf_config_repaired(&sf));
        }
        assert_int_equal(set(&sf, 0, LAST, 9, 50), 0); /* any number, any kind */
        assert_int_equal(set(&sf, ID, LAST, 8, 40), 0);
        assert_int_equal(sf_ask(&sf, bytes_counted, 0), 390);
        assert_int_equal(sf_text_delete(&sf, 0, ID, USER, before - 1), -ESTALE);
        assert_int_equal(sf_text_delete(&sf, 0, ID, USER, before), 0);
        check_none(&sf, ID, USER, -ENOENT);
        sf_close(&sf);
        open_whole(&sf, false);
        check_none(&sf, ID, USER, -ENOENT);
        check(&sf, 0, LAST, 9, 50);
        check(&sf, ID, LAST, 8, 40);
        assert_int_equal(sf_ask(&sf, bytes_counted, 0), 90);
        assert_int_equal(sf_text_set(&sf, 0, ID, USER, 0, "again", 5), 0);
        assert_int_equal(sf_text_set(&sf, 0, ID, USER, 0, "again", 5), -ESTALE);
        sf_close(&sf);
        sf_remove(&sf);
}

/* A bucket whose id is the number of entries ends with its own texts alone. */
static void test_same_number_as_bucket(void **state)
{
        struct sf sf;
        uint64_t id;

        make(&sf);
        assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
        assert_int_equal(set(&sf, id, 1, 1, 100), 0);
        assert_int_equal(set(&sf, id, 127, 2, 100), 0);
        assert_int_equal(set(&sf, id, USER, 3, 20000), 0);
        assert_int_equal(set(&sf, id, LAST, 4, 100), 0);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), 0);
        assert_int_equal(sf_ask(&sf, bytes_counted, 0), 20100);
        WAIT_UNTIL(sf_ask(&sf, is_dropping, 0) == 0);
        check_none(&sf, id, 127, -EIDRM);
        check(&sf, id, USER, 3, 20000);
        sf_close(&sf);
        open_whole(&sf, false);
        check(&sf, id, USER, 3, 20000);
        check(&sf, id, LAST, 4, 100);
        assert_true(sf_config_repaired(&sf));
        sf_close(&sf);
        sf_remove(&sf);
}

static atomic_uint told[64];

static void is_told(void *arg, unsigned loop, uint64_t id, unsigned kind)
{
        assert_int_equal(id, ID);
        assert_int_equal(kind, USER);
        atomic_fetch_add(&told[loop], 1);
}

static uint64_t watch(struct eng_store *store, uint64_t arg)
{
        eng_entries_watch(store, is_told, NULL);
        return 0;
}

/* Each loop is told of each change, before the answer; not of one that was refused. */
static void test_watch(void **state)
{
        struct sf sf;
        unsigned i;

        make(&sf);
        sf_ask(&sf, watch, 0);
        assert_int_equal(set(&sf, ID, USER, 1, 10), 0);
        for (i = 0; i < sf.loop_count; i++)
                assert_int_equal(atomic_load(&told[i]), 1);
        assert_int_equal(sf_text_set(&sf, 0, ID, USER, 0, "x", 1), -ESTALE);
        assert_int_equal(sf_text_delete(&sf, 0, ID, USER, ENG_TEXT_ANY), 0);
        for (i = 0; i < sf.loop_count; i++)
                assert_int_equal(atomic_load(&told[i]), 2);
        sf_close(&sf);
        sf_remove(&sf);
}

/* ---- many ------------------------------------------------------------------------------------ */

static uint64_t add_many(struct eng_store *store, uint64_t count)
{
        char bytes[300] = "entry";
        struct eng_text *text;
        uint64_t i;

        for (i = 0; i < count; i++) {
                memcpy(bytes + 8, &i, sizeof(i));
                text = eng_text_new(USER + i % 3, bytes, sizeof(bytes));
                assert_non_null(text);
                text->generation = i + 1;
                assert_null(eng_entry_put(store, i * 4096, USER + i % 3, text));
        }
        return eng_entries_full(store);
}

static uint64_t find_many(struct eng_store *store, uint64_t count)
{
        uint64_t began = lp_clock(), i;
        const struct eng_text *text;

        for (i = 0; i < count; i++) {
                text = eng_entry_of(store, i * 4096, USER + i % 3);
                assert_true(text != NULL && text->generation == i + 1);
        }
        assert_null(eng_entry_of(store, 4096, USER));
        return (lp_clock() - began) / count;
}

static uint64_t seen_sum;

static void see(void *arg, uint64_t id, unsigned kind, struct eng_text *text)
{
        ++*(unsigned *)arg;
        assert_int_equal(kind, USER + id / 4096 % 3);
        seen_sum += id / 4096;
}

static uint64_t walk_many(struct eng_store *store, uint64_t count)
{
        uint32_t position = 0;
        unsigned seen = 0, before;
        bool more;

        seen_sum = 0;
        do {
                before = seen;
                more = eng_entries_walk(store, &position, 100, see, &seen);
                assert_true(seen - before < 200);
        } while (more);
        assert_int_equal(seen_sum, count * (count - 1) / 2);
        return seen;
}

static uint64_t remove_many(struct eng_store *store, uint64_t count)
{
        uint64_t i;

        for (i = 0; i < count; i += 2)
                eng_text_unref(eng_entry_put(store, i * 4096, USER + i % 3, NULL));
        for (i = 0; i < count; i++)
                assert_true((eng_entry_of(store, i * 4096, USER + i % 3) != NULL) == (i % 2 == 1));
        return 0;
}

static void test_many(void **state)
{
        struct sf sf;
        uint64_t ns;

        make(&sf);
        assert_false(sf_ask(&sf, add_many, 200000));
        ns = sf_ask(&sf, find_many, 200000);
        print_message("look-up among 200,000 entries: %llu ns\n", (unsigned long long)ns);
        assert_int_equal(sf_ask(&sf, walk_many, 200000), 200000);
        sf_ask(&sf, remove_many, 200000);
        sf_close(&sf);
        sf_remove(&sf);
}

/* ---- a reader beside the coordinator ---------------------------------------------------------- */

#define STRESSED 64u

struct stress {
        struct lp_msg msg; /* first */
        struct eng_store *store;
        atomic_bool stop, ended;
        uint64_t found, wrong;
};

/* One turn of another loop that does not end while entries come, go and are replaced. */
static void read_always(struct lp_msg *msg)
{
        struct stress *stress = (struct stress *)msg;
        const struct eng_text *text;
        uint64_t i;

        for (i = 0; !atomic_load(&stress->stop); i++) {
                text = eng_entry_of(stress->store, i % STRESSED, USER);
                if (text == NULL)
                        continue;
                stress->found++;
                stress->wrong += text->id != i % STRESSED || text->len != 8 || text->bytes[0] != (char)(i % STRESSED);
        }
        atomic_store(&stress->ended, true);
}

static struct eng_text *replaced[20000];

static uint64_t change_always(struct eng_store *store, uint64_t seed)
{
        char bytes[8] = {0};
        unsigned i;

        for (i = 0; i < 20000; i++) {
                uint64_t id = (i * 7919ull + seed) % STRESSED;
                struct eng_text *text = NULL;

                bytes[0] = (char)id;
                if (i % 3 != 0)
                        text = eng_text_new(USER, bytes, sizeof(bytes));
                replaced[i] = eng_entry_put(store, id, USER, text);
        }
        return 0;
}

static void test_reader(void **state)
{
        struct stress stress = {.msg.run = read_always};
        struct sf sf;
        unsigned i;

        make(&sf);
        stress.store = sf.store;
        lp_post(sf.loops[1], &stress.msg);
        sf_ask(&sf, change_always, 1);
        atomic_store(&stress.stop, true);
        WAIT_UNTIL(atomic_load(&stress.ended));
        assert_int_equal(stress.wrong, 0);
        for (i = 0; i < 20000; i++) /* its turn has ended */
                eng_text_unref(replaced[i]);
        sf_close(&sf);
        sf_remove(&sf);
}

/* ---- what members have ----------------------------------------------------------------------- */

static void forget_row(const struct sf *sf, unsigned drive, uint64_t id, unsigned kind, unsigned piece)
{
        struct sf_row *row = calloc(1, sizeof(*row));

        assert_non_null(row);
        eng_name_text(&row->name, id, kind, piece);
        sf_put_row(sf, drive, row);
        free(row);
}

/* Each member lacks another third of them: all are there, and made the same. */
static void test_members_differ(void **state)
{
        const unsigned count = 60;
        struct sf sf;
        unsigned i;

        make(&sf);
        for (i = 0; i < count; i++)
                assert_int_equal(set(&sf, i * 7919ull, USER + i % 2, i, i % 5 == 0 ? 9000 : 300), 0);
        sf_close(&sf);
        for (i = 0; i < count; i++)
                forget_row(&sf, i % 3, i * 7919ull, USER + i % 2, 0);
        open_whole(&sf, false);
        for (i = 0; i < count; i++)
                check(&sf, i * 7919ull, USER + i % 2, i, i % 5 == 0 ? 9000 : 300);
        WAIT_UNTIL(sf_config_repaired(&sf));
        sf_close(&sf);
        for (i = 0; i < count; i++)
                forget_row(&sf, 3, i * 7919ull, USER + i % 2, 0);
        open_whole(&sf, false);
        for (i = 0; i < count; i++)
                check(&sf, i * 7919ull, USER + i % 2, i, i % 5 == 0 ? 9000 : 300);
        WAIT_UNTIL(sf_config_repaired(&sf));
        sf_close(&sf);
        sf_remove(&sf);
}

/* What one member still has of an entry that was deleted does not bring it back when others are away. */
static void test_row_left_behind(void **state)
{
        struct sf_row *row = calloc(1, sizeof(*row));
        struct sf sf;

        assert_non_null(row);
        make(&sf);
        assert_int_equal(set(&sf, ID, USER, 1, 300), 0);
        sf_close(&sf);
        eng_name_text(&row->name, ID, USER, 0);
        assert_true(sf_get_row(&sf, 0, row));
        open_whole(&sf, false);
        assert_int_equal(sf_text_delete(&sf, 0, ID, USER, ENG_TEXT_ANY), 0);
        sf_close(&sf);
        open_whole(&sf, false); /* after this the log's record of it is not read again */
        sf_close(&sf);
        sf_put_row(&sf, 0, row);
        open_whole(&sf, false);
        check_none(&sf, ID, USER, -ENOENT);
        WAIT_UNTIL(sf_config_repaired(&sf));
        sf_close(&sf);
        assert_false(sf_get_row(&sf, 0, row));
        so_move(&sf, 2, true);
        so_move(&sf, 3, true);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, so_can_read, NULL, 60));
        check_none(&sf, ID, USER, -ENOENT);
        sf_close(&sf);
        so_move(&sf, 2, false);
        so_move(&sf, 3, false);
        free(row);
        sf_remove(&sf);
}

static void see_damaged(void *arg, uint64_t id, unsigned kind, struct eng_text *text)
{
        if (id == ID && kind == USER)
                *(bool *)arg = text == NULL;
}

static uint64_t is_damaged(struct eng_store *store, uint64_t arg)
{
        uint32_t position = 0;
        bool damaged = false;

        while (eng_entries_walk(store, &position, 1000, see_damaged, &damaged))
                ;
        return damaged;
}

static void test_nobody_has_it(void **state)
{
        struct sf sf;
        unsigned slot;

        make(&sf);
        assert_int_equal(set(&sf, ID, USER, 1, 20000), 0);
        assert_int_equal(set(&sf, ID, LAST, 2, 100), 0);
        sf_close(&sf);
        for (slot = 0; slot < 4; slot++)
                forget_row(&sf, slot, ID, USER, 1);
        open_whole(&sf, false);
        check_none(&sf, ID, USER, -EIO);
        assert_true(sf_ask(&sf, is_damaged, 0));
        check(&sf, ID, LAST, 2, 100);
        WAIT_UNTIL(sf_config_repaired(&sf));
        assert_int_equal(set(&sf, ID, USER, 3, 10), 0);
        assert_false(sf_ask(&sf, is_damaged, 0));
        sf_close(&sf);
        open_whole(&sf, false);
        check(&sf, ID, USER, 3, 10);
        sf_close(&sf);
        sf_remove(&sf);
}

/* What a kill leaves, and then without each drive, which comes back after a change that it has missed. */
static void test_killed_and_lost(void **state)
{
        char command[512];
        struct sf sf;
        unsigned i;

        make(&sf);
        assert_int_equal(set(&sf, ID, USER, 1, 9000), 0);
        assert_int_equal(set(&sf, ID, USER, 2, 300), 0);
        snprintf(command, sizeof(command), "cp -a '%s' '%s.killed'", sf.root, sf.root);
        assert_int_equal(system(command), 0);
        sf_close(&sf);
        snprintf(command, sizeof(command), "rm -rf '%s' && mv '%s.killed' '%s'", sf.root, sf.root, sf.root);
        assert_int_equal(system(command), 0);
        open_whole(&sf, false);
        check(&sf, ID, USER, 2, 300);
        sf_close(&sf);
        for (i = 0; i < 4; i++) {
                so_move(&sf, i, true);
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, so_can_read, NULL, 60));
                WAIT_UNTIL(set(&sf, ID, USER, 10 + i, 9001 - 2000 * i) == 0);
                check(&sf, ID, USER, 10 + i, 9001 - 2000 * i);
                sf_close(&sf);
                so_move(&sf, i, false);
                open_whole(&sf, false);
                check(&sf, ID, USER, 10 + i, 9001 - 2000 * i);
                sf_close(&sf);
                open_whole(&sf, false);
                assert_true(sf_config_repaired(&sf)); /* catch-up has made that drive the same */
                sf_close(&sf);
        }
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_set_and_delete), cmocka_unit_test(test_same_number_as_bucket),
                cmocka_unit_test(test_watch),          cmocka_unit_test(test_many),
                cmocka_unit_test(test_reader),         cmocka_unit_test(test_members_differ),
                cmocka_unit_test(test_nobody_has_it),  cmocka_unit_test(test_killed_and_lost),
                cmocka_unit_test(test_row_left_behind),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
