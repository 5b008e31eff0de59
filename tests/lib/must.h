/* must.h - what a fixture cannot do without: where it fails, the test program ends there. */
#ifndef MILLRACE_TESTS_MUST_H
#define MILLRACE_TESTS_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define MUST(what)                                                                                                     \
        do {                                                                                                           \
                if (!(what)) {                                                                                         \
                        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                                     \
                        abort();                                                                                       \
                }                                                                                                      \
        } while (0)

#endif
