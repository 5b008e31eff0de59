#include "tests/lib/store_objects.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static size_t size_of(unsigned i)
{
        static const size_t sizes[] = {10, 5000, 131073, 300000, (1 << 20) + 1, (2 << 20) + 4095, (5 << 20) + 777, 100000};

        return sizes[i % 8];
}

static const char *key_of(unsigned i)
{
        static char key[32];

        snprintf(key, sizeof(key), "%c/%u", 'a' + (int)(i % 3), i);
        return key;
}

void so_set(struct sf *sf, uint64_t bucket, struct so_expected *e, unsigned i, uint64_t seed)
{
        bool existed;

        if (seed == 0)
                assert_int_equal(sf_delete(sf, i % sf->loop_count, bucket, key_of(i), &existed), 0);
        else
                assert_int_equal(sf_put(sf, i % sf->loop_count, bucket, key_of(i), seed, size_of(i), true, NULL), 0);
        e->seed[i] = seed;
}

static unsigned lines_of(const char *text)
{
        unsigned n = 0;

        for (; *text != 0; text++)
                n += *text == '\n';
        return n;
}

void so_check(struct sf *sf, uint64_t bucket, const struct so_expected *e)
{
        unsigned i, names = 0;
        bool more;
        char *list;
        int rv;

        for (i = 0; i < SO_NAMES; i++) {
                assert_int_equal(e->seed[i] == 0 ? sf_get(sf, 0, bucket, key_of(i), 1, 1) + ENOENT
                                                 : sf_get(sf, i % sf->loop_count, bucket, key_of(i), e->seed[i], size_of(i)),
                                 0);
                names += e->seed[i] != 0;
        }
        for (i = 'a'; i < 'd'; i++) { /* other names are a test's own */
                char prefix[3] = {(char)i, '/', 0};

                list = sf_list(sf, 0, bucket, prefix, "", "", 1000, &rv, &more);
                assert_int_equal(rv, 0);
                names -= lines_of(list);
                free(list);
        }
        assert_int_equal(names, 0);
}

void so_move(struct sf *sf, unsigned drive, bool away)
{
        char there[256];

        snprintf(there, sizeof(there), "%s.away", sf->path[drive]);
        assert_int_equal(away ? rename(sf->path[drive], there) : rename(there, sf->path[drive]), 0);
}

void so_begin(struct sf *sf, unsigned drives, uint64_t *bucket, struct so_expected *e)
{
        so_begin_coded(sf, drives, 2, 2, bucket, e);
}

void so_begin_coded(struct sf *sf, unsigned drives, unsigned k, unsigned m, uint64_t *bucket, struct so_expected *e)
{
        unsigned i;

        memset(e, 0, sizeof(*e));
        sf_make(sf, drives, 2);
        sf->options.ec_k = k;
        sf->options.ec_m = m;
        sf->options.memtable_bytes = 256 << 10;
        sf->options.log_file_bytes = 1 << 20;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        for (i = 0; i < SO_NAMES; i += i % 4 == 3 ? 2 : 1)
                so_set(sf, *bucket, e, i, i + 1);
}

void so_change(struct sf *sf, uint64_t bucket, struct so_expected *e, unsigned from, unsigned every)
{
        unsigned i;

        for (i = from; i < SO_NAMES; i += every)
                so_set(sf, bucket, e, i, i % 4 == 0 && e->seed[i] != 0 ? 0 : 1000 * from + 1000 + i);
}

void so_verify(struct sf *sf, struct eng_verify_report *out)
{
        assert_int_equal(eng_verify_start(sf->store), 0);
        do {
                usleep(10000);
                eng_verify_read(sf->store, out);
        } while (out->running);
        assert_int_equal(out->damaged_shards + out->missing_shards + out->unreadable_objects, 0);
}

bool so_whole(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == h->drive_count - h->drives_removed && !h->healing && h->objects_below == 0;
}

bool so_can_read(const struct eng_health *h, void *arg)
{
        return h->ready;
}
