/*
 * store_objects.h - a few objects of many sizes in a store of store_fixture.h, and what is known of
 * each. Test thread only.
 */
#ifndef MILLRACE_TESTS_STORE_OBJECTS_H
#define MILLRACE_TESTS_STORE_OBJECTS_H

#include "tests/lib/store_fixture.h"

#define SO_NAMES 120u

struct so_expected {
        uint64_t seed[SO_NAMES]; /* 0: no such object */
};

/* Puts an object, or deletes it (seed 0). */
void so_set(struct sf *sf, uint64_t bucket, struct so_expected *e, unsigned i, uint64_t seed);
/* Every object is as expected, byte for byte; so is the listing. */
void so_check(struct sf *sf, uint64_t bucket, const struct so_expected *e);
/* Makes a store with small files, formats and opens it, and puts most of the objects. */
void so_begin(struct sf *sf, unsigned drives, uint64_t *bucket, struct so_expected *e);
/* The same with another code than 2+2. */
void so_begin_coded(struct sf *sf, unsigned drives, unsigned k, unsigned m, uint64_t *bucket, struct so_expected *e);
/* Changes each every-th object: deletes some, overwrites others. */
void so_change(struct sf *sf, uint64_t bucket, struct so_expected *e, unsigned from, unsigned every);
/* A verification finds nothing wrong. */
void so_verify(struct sf *sf, struct eng_verify_report *out);
/* Moves a drive's folder away, or back. */
void so_move(struct sf *sf, unsigned drive, bool away);

/* For sf_wait_health(). whole: writable, with all drives, and no object lacks a shard. */
bool so_whole(const struct eng_health *h, void *arg);
bool so_can_read(const struct eng_health *h, void *arg);

#endif
