/* What the tests of rdma/ share: cmocka and the module's public headers. */
#ifndef RDMA_TESTS_RDMA_FIXTURE_H
#define RDMA_TESTS_RDMA_FIXTURE_H

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

#include "rdma_wire.h"

#define BYTES(text) ((struct rdx_bytes){(text), sizeof(text) - 1})

/*
 * MILLRACE_TEST_SEED from the environment, or the clock; printed, so that a failure can be had
 * again.
 */
static inline unsigned test_seed(void)
{
        const char *given = getenv("MILLRACE_TEST_SEED");
        unsigned seed = given != NULL ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);

        printf("MILLRACE_TEST_SEED=%u\n", seed);
        return seed;
}

#endif
