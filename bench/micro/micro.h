/* micro.h - experiments on one drive, and the figures that they give. Main thread. */
#ifndef BENCH_MICRO_MICRO_H
#define BENCH_MICRO_MICRO_H

#include <jansson.h>
#include <stdbool.h>

#include "bench/micro/rig.h"

struct micro_options {
        const char *folder;
        unsigned loops, depth;
        double seconds;
        uint64_t objects; /* of 4 KiB that are looked up, read, overwritten */
        uint64_t records; /* at a kill */
        uint64_t names;   /* that are listed */
        uint64_t size;    /* of a large object */
        bool json;
        json_t *figures; /* found so far, by name */
};

/*
 * Notes one figure, "commit.depth64.ops_s": a line now, or a member of the JSON object at the end.
 */
void micro_figure(struct micro_options *options, double value, const char *unit, const char *name, ...)
        __attribute__((format(printf, 4, 5)));

/* Each on a store of its own. 0 or a negative errno, which was told. */
int micro_commit(struct micro_options *options);
int micro_lookup(struct micro_options *options);
int micro_replay(struct micro_options *options);
int micro_list(struct micro_options *options);
int micro_reclaim(struct micro_options *options);
int micro_reads(struct micro_options *options);
int micro_writes(struct micro_options *options);

#endif
