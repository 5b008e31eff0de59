/*
 * Members whose names differ: verification finds it, most members or the highest number decide, and nothing goes on one member's word.
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

#include "engine/drive/index.h"
#include "engine/store.h"
#include "tests/lib/store_fixture.h"

#define ROW_MAX 4096u
#define PARTS_SIZE (5u << 20)

/* A row of an index. */
struct row {
        struct eng_name name;
        uint8_t value[ROW_MAX];
        size_t len;
};

static bool is_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == h->drive_count;
}

static bool is_walked(const struct eng_health *h, void *arg)
{
        return is_in(h, arg) && !h->healing;
}

static void start(struct sf *sf)
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, is_in, NULL, 30));
}

/* False: it has none. */
static bool get_row(const struct sf *sf, unsigned slot, struct row *row)
{
        struct eng_index *index = sf_index(sf, slot);
        struct eng_index_entry entry;
        struct eng_index_txn *txn;
        int rv;

        assert_int_equal(eng_index_reader_new(index, &txn), 0);
        assert_int_equal(eng_index_read_begin(txn), 0);
        rv = eng_index_get(txn, row->name.data, row->name.len, &entry);
        if (rv == 0) {
                assert_true(entry.value_len <= ROW_MAX);
                row->len = entry.value_len;
                memcpy(row->value, entry.value, entry.value_len);
        }
        eng_index_read_end(txn);
        eng_index_reader_free(txn);
        eng_index_close(index);
        return rv == 0;
}

/* row->len 0: deletes it. */
static void put_row(const struct sf *sf, unsigned slot, const struct row *row)
{
        struct eng_index *index = sf_index(sf, slot);
        struct eng_index_txn *txn;

        assert_int_equal(eng_index_write_begin(index, &txn), 0);
        if (row->len > 0)
                assert_int_equal(eng_index_put(txn, row->name.data, row->name.len, row->value, row->len), 0);
        else
                assert_int_equal(eng_index_delete(txn, row->name.data, row->name.len), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
        eng_index_close(index);
}

static void verify(struct sf *sf, struct eng_verify_report *r)
{
        unsigned i;

        assert_int_equal(eng_verify_start(sf->store), 0);
        for (i = 0; i < 3000; i++) {
                usleep(10000);
                eng_verify_read(sf->store, r);
                if (!r->running)
                        return;
        }
        fail();
}

/* Found by verifications, and by the walks since the store was opened, which find them as well. */
static void assert_found(const struct sf *sf, const struct eng_verify_report *r, unsigned names)
{
        struct eng_heal_report *heal = malloc(2 * sizeof(*heal)); /* now, last */

        assert_non_null(heal);
        eng_heal_read(sf->store, &heal[0], &heal[1]);
        assert_int_equal(heal[0].differing_names + r->differing_names, names);
        assert_int_equal(heal[0].repaired_names + r->repaired_names, names);
        free(heal);
}

static void begin(struct sf *sf, uint64_t *bucket)
{
        sf_make(sf, 4, 2);
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
}

static bool slot_has(const struct sf *sf, unsigned slot, uint64_t bucket, const char *key, struct row *row)
{
        eng_name_object(&row->name, bucket, key, strlen(key));
        return get_row(sf, slot, row);
}

/* In turn on each drive: its index has lost a name, has an old value, or a name that was deleted. */
static void test_names_that_differ(void **state)
{
        static struct row old[4], gone[4], lost;
        struct eng_verify_report r;
        bool has_old[4], has_gone[4], existed;
        unsigned slot, differ;
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        for (slot = 0; slot < 4; slot++) {
                unsigned i;

                assert_int_equal(sf_put(&sf, 0, bucket, "old", 1 + slot, 300000, true, NULL), 0);
                assert_int_equal(sf_put(&sf, 0, bucket, "gone", 11 + slot, 500, true, NULL), 0);
                assert_int_equal(sf_put(&sf, 0, bucket, "lost", 21 + slot, 500, true, NULL), 0);
                sf_close(&sf);
                for (i = 0; i < 4; i++) {
                        has_old[i] = slot_has(&sf, i, bucket, "old", &old[i]);
                        has_gone[i] = slot_has(&sf, i, bucket, "gone", &gone[i]);
                }
                start(&sf);
                assert_int_equal(sf_put(&sf, 0, bucket, "old", 31 + slot, 200000, true, NULL), 0);
                assert_int_equal(sf_delete(&sf, 0, bucket, "gone", &existed), 0);
                sf_close(&sf);
                differ = 0;
                if (has_old[slot])
                        put_row(&sf, slot, &old[slot]);
                if (has_gone[slot])
                        put_row(&sf, slot, &gone[slot]);
                differ += has_old[slot] + has_gone[slot];
                if (slot_has(&sf, slot, bucket, "lost", &lost)) {
                        lost.len = 0;
                        put_row(&sf, slot, &lost);
                        differ++;
                }
                start(&sf);
                verify(&sf, &r);
                assert_true(sf_wait_health(&sf, is_walked, NULL, 30)); /* what either began has been counted */
                assert_found(&sf, &r, differ);
                assert_int_equal(r.missing_shards + r.damaged_shards + r.unreadable_objects, 0);
                verify(&sf, &r);
                assert_int_equal(r.differing_names, 0);
                assert_int_equal(sf_get(&sf, 0, bucket, "old", 31 + slot, 200000), 0);
                assert_int_equal(sf_get(&sf, 0, bucket, "lost", 21 + slot, 500), 0);
                assert_int_equal(sf_get(&sf, 0, bucket, "gone", 1, 1), -ENOENT);
        }
        sf_close(&sf);
        sf_remove(&sf);
}

/* Each drive in turn has an upload back that was completed: to abort it costs the object nothing. */
static void test_an_upload_that_came_back(void **state)
{
        static struct row upload[4], part[4];
        struct eng_complete_part one = {.number = 1};
        uint8_t id[ENG_ID_LEN], part_id[ENG_ID_LEN];
        struct eng_verify_report r;
        bool has[4];
        uint64_t bucket;
        unsigned slot;
        struct sf sf;

        begin(&sf, &bucket);
        for (slot = 0; slot < 4; slot++) {
                char key[16];
                unsigned i;

                snprintf(key, sizeof(key), "up-%u", slot);
                assert_int_equal(sf_upload(&sf, bucket, key, id), 0);
                assert_int_equal(sf_part(&sf, 0, bucket, key, id, 1, 50 + slot, 0, PARTS_SIZE, part_id), 0);
                sf_close(&sf);
                for (i = 0; i < 4; i++) {
                        eng_name_upload(&upload[i].name, bucket, key, strlen(key), id);
                        eng_name_part(&part[i].name, bucket, key, strlen(key), id, 1);
                        has[i] = get_row(&sf, i, &upload[i]) && get_row(&sf, i, &part[i]);
                }
                start(&sf);
                memcpy(one.id, part_id, ENG_ID_LEN);
                assert_int_equal(sf_complete(&sf, bucket, key, id, &one, 1), 0);
                sf_close(&sf);
                if (has[slot]) {
                        put_row(&sf, slot, &upload[slot]);
                        put_row(&sf, slot, &part[slot]);
                }
                start(&sf);
                sf_upload_abort(&sf, bucket, key, id); /* what it answers depends on who is asked */
                sleep(3);                              /* its index is written, and what is dead goes */
                verify(&sf, &r);
                assert_int_equal(r.missing_shards + r.damaged_shards + r.unreadable_objects, 0);
                assert_int_equal(sf_get(&sf, 0, bucket, key, 50 + slot, PARTS_SIZE), 0);
        }
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names_that_differ),
                cmocka_unit_test(test_an_upload_that_came_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
