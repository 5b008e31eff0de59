/*
 * ec_fixture.h - what the tests of ec/ share: numbers from a seed that is printed and can be given
 * back.
 */
#ifndef MILLRACE_TEST_EC_FIXTURE_H
#define MILLRACE_TEST_EC_FIXTURE_H

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

#include "ec/ec_internal.h"

static uint64_t random_state;

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
        uint64_t z = random_state += 0x9E3779B97F4A7C15ull;

        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ z >> 27) * 0x94D049BB133111EBull;
        return z ^ z >> 31;
}

static inline void random_fill(void *buf, size_t len)
{
        uint8_t *at = buf;

        while (len-- > 0)
                *at++ = (uint8_t)random_next();
}

#endif
