/*
 * test_index_fixture.h - what the tests of the index share: a folder of their own, an index in it,
 * values, and random numbers by seed.
 */
#ifndef MILLRACE_TEST_INDEX_FIXTURE_H
#define MILLRACE_TEST_INDEX_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/drive/index.h"

#define FIXTURE_MAP (64ull << 20)

struct fixture {
        char path[128];
        struct eng_index_options options;
        struct eng_index *index;
        uint64_t random;
};

/* xorshift64*: the same numbers for the same seed everywhere. */
static inline uint64_t fixture_random(struct fixture *f, uint64_t below)
{
        f->random ^= f->random >> 12;
        f->random ^= f->random << 25;
        f->random ^= f->random >> 27;
        return f->random * 2685821657736338717ull % below;
}

/* MILLRACE_SEED repeats a run. */
static inline void fixture_seed(struct fixture *f)
{
        const char *text = getenv("MILLRACE_SEED");
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        f->random = text != NULL ? strtoull(text, NULL, 0) : (uint64_t)now.tv_nsec * 2654435761u + (uint64_t)now.tv_sec;
        f->random |= 1;
        printf("seed MILLRACE_SEED=%llu\n", (unsigned long long)f->random);
}

static inline int fixture_setup(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));
        const char *base = getenv("TMPDIR");

        assert_non_null(f);
        snprintf(f->path, sizeof(f->path), "%s/millrace-index-XXXXXX", base != NULL ? base : "/tmp");
        assert_non_null(mkdtemp(f->path));
        f->options.path = f->path;
        f->options.map_bytes = FIXTURE_MAP;
        memset(f->options.drive_id, 0xd1, FMT_ID);
        assert_int_equal(eng_index_create(&f->options, &f->index), 0);
        fixture_seed(f);
        *state = f;
        return 0;
}

static inline int fixture_teardown(void **state)
{
        struct fixture *f = *state;

        eng_index_close(f->index);
        assert_int_equal(eng_index_remove(f->path), 0);
        assert_int_equal(rmdir(f->path), 0);
        free(f);
        return 0;
}

static inline void fixture_reopen(struct fixture *f)
{
        eng_index_close(f->index);
        f->index = NULL;
        assert_int_equal(eng_index_open(&f->options, &f->index), 0);
}

static inline struct eng_index_txn *fixture_write(struct fixture *f)
{
        struct eng_index_txn *txn;

        assert_int_equal(eng_index_write_begin(f->index, &txn), 0);
        return txn;
}

static inline struct eng_index_txn *fixture_read(struct fixture *f)
{
        struct eng_index_txn *txn;

        assert_int_equal(eng_index_reader_new(f->index, &txn), 0);
        assert_int_equal(eng_index_read_begin(txn), 0);
        return txn;
}

/*
 * A value with extra bytes behind its head; returns its length. buf holds sizeof(struct fmt_value)
 * + extra.
 */
static inline size_t fixture_value(void *buf, uint64_t log_file, uint32_t inline_len, uint64_t seq, size_t extra)
{
        struct fmt_value head = {.space = FMT_SPACE_OBJECT, .seq = seq, .log_file = log_file, .inline_len = inline_len};

        memcpy(buf, &head, sizeof(head));
        for (size_t i = 0; i < extra; i++)
                ((uint8_t *)buf)[sizeof(head) + i] = (uint8_t)(seq * 31 + i);
        return sizeof(head) + extra;
}

#endif
