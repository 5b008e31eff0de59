/*
 * test_rot_store.c - the index of a drive of a 2+2 store rots while another is out: changes are
 * refused before its memory is full, and once the other is back it comes back, too, with nothing
 * lost and without a restart.
 */
#include <errno.h>
#include <fcntl.h>
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

#include "engine/base/store.h"
#include "tests/lib/store_fixture.h"

#define PAGE 4096u
#define KEYS 400u
#define SIZE 3000u
#define PUTS_MOST 20000u

static const char *key_of(unsigned i)
{
        static char key[64];

        snprintf(key, sizeof(key), "a-key-that-takes-some-memory/%u", i);
        return key;
}

static bool all_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == 4;
}

static bool three_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == 3;
}

static bool stalled(const struct eng_health *h, void *arg)
{
        return h->ready && !h->writable && strstr(h->reason, "index") != NULL;
}

/* All that was put is in the index of this drive, and it is not being written. */
static bool indexed(const struct eng_health *h, void *arg)
{
        return h->drives[*(const unsigned *)arg].memtable_bytes == 0;
}

/* Every page but the two that say where the others are: each in use says that it is another one. */
static void rot_index(const struct sf *sf, unsigned drive)
{
        char path[256];
        uint64_t at;
        struct stat st = {0};
        uint8_t byte;
        int fd;

        snprintf(path, sizeof(path), "%s/index/data.mdb", sf->path[drive]);
        fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        for (at = 2 * PAGE; at < (uint64_t)st.st_size; at += PAGE) {
                assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
                byte ^= 4;
                assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        }
        close(fd);
}

struct fault {
        struct lp_msg msg;
        struct eng_store *store;
};

static void fail_first(struct lp_msg *msg)
{
        struct fault *fault = (struct fault *)msg;

        eng_drive_failed(fault->store, 0, fault->store->members[0].drive, "the test says so");
}

/* Puts more, until the store refuses it. Returns how many there are now. */
static unsigned put_until_refused(struct sf *sf, uint64_t bucket, unsigned count)
{
        int rv;

        while ((rv = sf_put(sf, count % sf->loop_count, bucket, key_of(count), count, SIZE, true, NULL)) == 0)
                assert_true(++count < PUTS_MOST);
        assert_int_equal(rv, -EAGAIN);
        return count;
}

static void expect_all(struct sf *sf, uint64_t bucket, unsigned count)
{
        unsigned i;

        for (i = 0; i < count; i++)
                assert_int_equal(sf_get(sf, i % sf->loop_count, bucket, key_of(i), i, SIZE), 0);
}

static void test_rot_while_one_is_out(void **state)
{
        struct eng_health *h = calloc(1, sizeof(*h));
        struct fault fault;
        uint64_t bucket, number;
        struct sf sf;
        unsigned i, count;

        assert_non_null(h);
        sf_make(&sf, 4, 2);
        sf.options.ec_k = sf.options.ec_m = 2;
        sf.options.memtable_bytes = 256 << 10;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 60));
        assert_int_equal(sf_bucket(&sf, "rotten", &bucket), 0);
        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_put(&sf, 0, bucket, key_of(i), i, SIZE, true, NULL), 0);
        fault = (struct fault){.msg = {.run = fail_first}, .store = sf.store};
        lp_post(sf.loops[0], &fault.msg);
        assert_true(sf_wait_health(&sf, three_in, NULL, 60));
        assert_true(sf_wait_health(&sf, indexed, &(unsigned){1}, 60));
        rot_index(&sf, 1);

        count = put_until_refused(&sf, bucket, KEYS);
        assert_true(sf_wait_health(&sf, stalled, NULL, 60));
        eng_health_read(sf.store, h);
        assert_int_equal(h->drives_in, 3); /* none is lost over it */
        expect_all(&sf, bucket, count);

        assert_int_equal(eng_drive_hot_add(sf.store, 0, NULL, false, &number), 0);
        assert_true(sf_wait_health(&sf, all_in, NULL, 240));
        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_put(&sf, 0, bucket, key_of(i), i, SIZE, true, NULL), 0);
        expect_all(&sf, bucket, count);
        sf_close(&sf);
        sf_remove(&sf);
        free(h);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rot_while_one_is_out),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
