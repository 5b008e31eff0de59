/*
 * s3_fixture.h - what the tests of s3/ share: comparing slices, numbers from a seed that is printed
 * and can be given back.
 */
#ifndef MILLRACE_TEST_S3_FIXTURE_H
#define MILLRACE_TEST_S3_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "s3.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t random_state __attribute__((unused));

/* MILLRACE_TEST_SEED=number repeats a run. */
static inline void random_seed(void)
{
        const char *given = getenv("MILLRACE_TEST_SEED");

        random_state = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 1000003u;
        printf("MILLRACE_TEST_SEED=%llu\n", (unsigned long long)random_state);
}

/* splitmix64 */
static inline uint64_t random_next(void)
{
        uint64_t z = (random_state += 0x9e3779b97f4a7c15u);

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
}

static inline void expect_str(struct s3_str got, const char *wanted)
{
        size_t len = strlen(wanted);

        if (got.len != len || (len > 0 && memcmp(got.data, wanted, len) != 0))
                fail_msg("got \"%.*s\", wanted \"%s\"", (int)got.len, got.data, wanted);
}

/* A copy of exactly this size on the heap, so that AddressSanitizer sees a read past its end. */
static inline struct s3_str heap_copy(const char *text, size_t len)
{
        char *copy = malloc(len > 0 ? len : 1);

        assert_non_null(copy);
        if (len > 0)
                memcpy(copy, text, len);
        return (struct s3_str){copy, len};
}

static inline void heap_free(struct s3_str s)
{
        free((char *)(uintptr_t)s.data);
}

#endif
