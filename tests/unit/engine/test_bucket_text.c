/*
 * Texts of buckets: set, replaced and deleted for all loops at once; there after a restart, a kill and
 * the loss of a drive, whatever one member's rows have become; gone with their bucket.
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

#define POLICY 1u
#define LIFECYCLE 127u

static void open_whole(struct sf *sf, bool format)
{
        assert_int_equal(sf_open(sf, format), 0);
        assert_true(sf_wait_health(sf, so_whole, NULL, 60));
}

static void make(struct sf *sf, uint64_t *id)
{
        sf_make(sf, 4, 2);
        open_whole(sf, true);
        assert_int_equal(sf_bucket(sf, "bucket", id), 0);
}

/* Bytes of a text, from a seed. */
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

/* All loops have this text, and it is one. Returns its generation. */
static uint64_t check(struct sf *sf, uint64_t id, unsigned kind, uint64_t seed, size_t len)
{
        struct eng_text *first = NULL, *text;
        uint64_t generation;
        unsigned loop;

        for (loop = 0; loop < sf->loop_count; loop++) {
                assert_int_equal(sf_text(sf, loop, id, kind, &text), 0);
                assert_true(first == NULL || first == text);
                assert_int_equal(eng_text_bytes(text).len, len);
                assert_memory_equal(eng_text_bytes(text).data, bytes_of(seed, len), len);
                eng_text_unref(first);
                first = text;
        }
        generation = eng_text_generation(first);
        eng_text_unref(first);
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

static uint64_t count_bytes(struct eng_store *store, uint64_t bytes)
{
        return store->coord->config->text_bytes = bytes;
}

static uint64_t is_dropping(struct eng_store *store, uint64_t arg)
{
        return eng_drop_running(store);
}

/* ---- the calls ------------------------------------------------------------------------------- */

static void test_set_and_delete(void **state)
{
        static const size_t lengths[] = {1, FMT_TEXT_PIECE, FMT_TEXT_PIECE + 1, ENG_TEXT_MAX, 100};
        uint64_t id, generation, before = 0;
        struct sf sf;
        unsigned i;

        make(&sf, &id);
        check_none(&sf, id, POLICY, -ENOENT);
        check_none(&sf, id + 1, POLICY, -EIDRM);
        assert_int_equal(sf_text_delete(&sf, 0, id, POLICY, ENG_TEXT_ANY), -ENOENT);
        for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                assert_int_equal(set(&sf, id, POLICY, i, lengths[i]), 0);
                generation = check(&sf, id, POLICY, i, lengths[i]);
                assert_true(generation > before);
                assert_int_equal(sf_text_set(&sf, 0, id, POLICY, before, "x", 1), -ESTALE);
                before = generation;
                sf_close(&sf);
                open_whole(&sf, false);
                assert_int_equal(check(&sf, id, POLICY, i, lengths[i]), generation);
                assert_true(sf_config_repaired(&sf));
        }
        assert_int_equal(set(&sf, id, LIFECYCLE, 7, 5000), 0);
        check(&sf, id, POLICY, 4, 100);
        assert_int_equal(set(&sf, id, ENG_TEXTS_KINDS, 7, 5000), -EINVAL);
        assert_int_equal(set(&sf, id, POLICY, 7, 0), -EINVAL);
        assert_int_equal(set(&sf, id, POLICY, 7, ENG_TEXT_MAX + 1), -EINVAL);
        assert_int_equal(set(&sf, id + 1, POLICY, 7, 10), -EIDRM);
        assert_int_equal(sf_text_delete(&sf, 0, id, POLICY, before - 1), -ESTALE);
        assert_int_equal(sf_text_delete(&sf, 0, id, POLICY, before), 0);
        check_none(&sf, id, POLICY, -ENOENT);
        sf_close(&sf);
        open_whole(&sf, false);
        check_none(&sf, id, POLICY, -ENOENT);
        check(&sf, id, LIFECYCLE, 7, 5000);
        assert_int_equal(sf_text_set(&sf, 0, id, POLICY, 0, "again", 5), 0);
        assert_int_equal(sf_text_set(&sf, 0, id, POLICY, 0, "again", 5), -ESTALE);
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_quota(void **state)
{
        uint64_t id;
        struct sf sf;

        make(&sf, &id);
        assert_int_equal(set(&sf, id, POLICY, 1, 1000), 0);
        assert_int_equal(sf_ask(&sf, bytes_counted, 0), 1000);
        sf_ask(&sf, count_bytes, ENG_TEXTS_BYTES);
        assert_int_equal(set(&sf, id, POLICY, 2, 1001), -EDQUOT);
        assert_int_equal(set(&sf, id, LIFECYCLE, 2, 1), -EDQUOT);
        assert_int_equal(set(&sf, id, POLICY, 2, 900), 0);
        assert_int_equal(set(&sf, id, LIFECYCLE, 3, 100), 0);
        assert_int_equal(sf_text_delete(&sf, 0, id, POLICY, ENG_TEXT_ANY), 0);
        assert_int_equal(set(&sf, id, LIFECYCLE, 3, 1000), 0);
        sf_close(&sf);
        open_whole(&sf, false);
        assert_int_equal(sf_ask(&sf, bytes_counted, 0), 1000);
        sf_close(&sf);
        sf_remove(&sf);
}

static atomic_uint made, destroyed;

static void *make_form(struct eng_str bytes, void *arg)
{
        char *form = malloc(bytes.len);

        assert(form != NULL);
        memcpy(form, bytes.data, bytes.len);
        atomic_fetch_add(&made, 1);
        return form;
}

static void destroy_form(void *form)
{
        atomic_fetch_add(&destroyed, 1);
        free(form);
}

static void *make_nothing(struct eng_str bytes, void *arg)
{
        return NULL;
}

/* What was made of a text is made once, and goes with the last that keeps the text. */
static void test_form(void **state)
{
        struct eng_text *text, *other;
        uint64_t id;
        struct sf sf;
        void *form;

        make(&sf, &id);
        assert_int_equal(set(&sf, id, POLICY, 1, 1000), 0);
        assert_int_equal(sf_text(&sf, 0, id, POLICY, &text), 0);
        assert_null(eng_text_form(text, make_nothing, NULL, destroy_form));
        form = eng_text_form(text, make_form, NULL, destroy_form);
        assert_memory_equal(form, bytes_of(1, 1000), 1000);
        assert_int_equal(sf_text(&sf, 1, id, POLICY, &other), 0);
        assert_ptr_equal(eng_text_form(other, make_form, NULL, destroy_form), form);
        eng_text_unref(other);
        assert_int_equal(set(&sf, id, POLICY, 2, 1000), 0);
        assert_int_equal(atomic_load(&made), 1);
        assert_int_equal(atomic_load(&destroyed), 0);
        assert_memory_equal(form, bytes_of(1, 1000), 1000);
        eng_text_unref(text);
        assert_int_equal(atomic_load(&destroyed), 1);
        assert_int_equal(sf_text(&sf, 0, id, POLICY, &text), 0);
        assert_ptr_not_equal(eng_text_form(text, make_form, NULL, destroy_form), NULL);
        eng_text_unref(text);
        sf_close(&sf);
        assert_int_equal(atomic_load(&destroyed), 2);
        sf_remove(&sf);
}

/* ---- what members have ----------------------------------------------------------------------- */

static void row_name(struct sf_row *row, uint64_t id, unsigned kind, unsigned piece)
{
        memset(row, 0, sizeof(*row));
        eng_name_text(&row->name, id, kind, piece);
}

static void forget_row(const struct sf *sf, unsigned drive, uint64_t id, unsigned kind, unsigned piece)
{
        struct sf_row *row = calloc(1, sizeof(*row));

        row_name(row, id, kind, piece);
        sf_put_row(sf, drive, row);
        free(row);
}

static bool has_row(const struct sf *sf, unsigned drive, uint64_t id, unsigned kind, unsigned piece)
{
        struct eng_index *index = sf_index(sf, drive);
        struct eng_index_entry entry;
        struct eng_index_txn *txn;
        struct eng_name name;
        int rv;

        eng_name_text(&name, id, kind, piece);
        assert_int_equal(eng_index_reader_new(index, &txn), 0);
        assert_int_equal(eng_index_read_begin(txn), 0);
        rv = eng_index_get(txn, name.data, name.len, &entry);
        eng_index_read_end(txn);
        eng_index_reader_free(txn);
        eng_index_close(index);
        return rv == 0;
}

static void test_row_lost(void **state)
{
        uint64_t id;
        struct sf sf;
        unsigned slot, piece;

        make(&sf, &id);
        assert_int_equal(set(&sf, id, POLICY, 1, 20000), 0);
        for (slot = 0; slot < 2; slot++)
                for (piece = 0; piece < 3; piece++) {
                        sf_close(&sf);
                        forget_row(&sf, slot, id, POLICY, piece);
                        assert_false(has_row(&sf, slot, id, POLICY, piece));
                        open_whole(&sf, false);
                        check(&sf, id, POLICY, 1, 20000);
                        WAIT_UNTIL(sf_config_repaired(&sf));
                        sf_close(&sf);
                        assert_true(has_row(&sf, slot, id, POLICY, piece));
                        open_whole(&sf, false);
                }
        sf_close(&sf);
        sf_remove(&sf);
}

/* Nobody has it whole: it is there, and cannot be read; it can be set again. */
static void test_nobody_has_it(void **state)
{
        uint64_t id;
        struct sf sf;
        unsigned slot;

        make(&sf, &id);
        assert_int_equal(set(&sf, id, POLICY, 1, 20000), 0);
        sf_close(&sf);
        for (slot = 0; slot < 4; slot++)
                forget_row(&sf, slot, id, POLICY, 1);
        open_whole(&sf, false);
        check_none(&sf, id, POLICY, -EIO);
        WAIT_UNTIL(sf_config_repaired(&sf));
        assert_int_equal(set(&sf, id, POLICY, 2, 10), 0);
        check(&sf, id, POLICY, 2, 10);
        sf_close(&sf);
        for (slot = 0; slot < 4; slot++)
                assert_false(has_row(&sf, slot, id, POLICY, 2));
        open_whole(&sf, false);
        check(&sf, id, POLICY, 2, 10);
        sf_close(&sf);
        sf_remove(&sf);
}

/* What a kill leaves, and then without each drive. */
static void test_killed_and_lost(void **state)
{
        char command[512];
        uint64_t id;
        struct sf sf;
        unsigned i;

        make(&sf, &id);
        assert_int_equal(set(&sf, id, POLICY, 1, 9000), 0);
        assert_int_equal(set(&sf, id, POLICY, 2, ENG_TEXT_MAX), 0);
        snprintf(command, sizeof(command), "cp -a '%s' '%s.killed'", sf.root, sf.root);
        assert_int_equal(system(command), 0);
        sf_close(&sf);
        snprintf(command, sizeof(command), "rm -rf '%s' && mv '%s.killed' '%s'", sf.root, sf.root, sf.root);
        assert_int_equal(system(command), 0);
        open_whole(&sf, false);
        check(&sf, id, POLICY, 2, ENG_TEXT_MAX);
        sf_close(&sf);
        for (i = 0; i < 4; i++) {
                so_move(&sf, i, true);
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, so_can_read, NULL, 60));
                check(&sf, id, POLICY, 2, ENG_TEXT_MAX);
                sf_close(&sf);
                so_move(&sf, i, false);
                open_whole(&sf, false); /* a slow machine has gone on without it */
                sf_close(&sf);
        }
        sf_remove(&sf);
}

static void test_gone_with_bucket(void **state)
{
        uint64_t id, again;
        struct sf sf;
        unsigned slot;

        make(&sf, &id);
        assert_int_equal(set(&sf, id, POLICY, 1, 20000), 0);
        assert_int_equal(set(&sf, id, LIFECYCLE, 1, 100), 0);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), 0);
        check_none(&sf, id, POLICY, -EIDRM);
        assert_int_equal(set(&sf, id, POLICY, 1, 20000), -EIDRM);
        assert_int_equal(sf_ask(&sf, bytes_counted, 0), 0);
        assert_int_equal(sf_bucket(&sf, "bucket", &again), 0);
        check_none(&sf, again, POLICY, -ENOENT);
        WAIT_UNTIL(sf_ask(&sf, is_dropping, 0) == 0); /* it was begun before the other bucket was made */
        sf_close(&sf);
        for (slot = 0; slot < 4; slot++) {
                assert_false(has_row(&sf, slot, id, POLICY, 0));
                assert_false(has_row(&sf, slot, id, POLICY, 2));
                assert_false(has_row(&sf, slot, id, LIFECYCLE, 0));
        }
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_set_and_delete), cmocka_unit_test(test_quota),       cmocka_unit_test(test_form),
                cmocka_unit_test(test_row_lost),       cmocka_unit_test(test_nobody_has_it), cmocka_unit_test(test_killed_and_lost),
                cmocka_unit_test(test_gone_with_bucket),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
