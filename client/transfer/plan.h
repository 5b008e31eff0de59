/* plan.h - how a transfer is cut into parts. Pure functions of numbers; any thread. */
#ifndef CLIENT_PLAN_H
#define CLIENT_PLAN_H

#include <stdint.h>

#define MR_MIB (1024ull * 1024)
#define MR_GIB (1024ull * MR_MIB)

/* What S3 sets. */
#define MR_PART_MIN  (5 * MR_MIB)
#define MR_PART_MAX  (5 * MR_GIB)
#define MR_PARTS_MAX 10000u

#define MR_PUT_WHOLE_MAX     (16 * MR_MIB) /* up to here an object is one PUT, unless the caller chose a smaller part */
#define MR_STREAM_MEMORY     (128 * MR_MIB) /* buffers of one upload from a stream */
#define MR_GET_PART          (8 * MR_MIB)   /* one ranged GET of a download */
#define MR_GET_STREAM_MEMORY (64 * MR_MIB)

#define MR_RDMA_LEAST (MR_MIB / 4) /* auto: below, what RDMA saves is less than what its notice and its threads cost */

struct mr_plan {
        uint64_t size, part_size;
        uint32_t parts; /* 0: one PUT */
};

/*
 * Upload of size bytes; wanted: the part size the user asked for, or 0. -EFBIG: more than 10,000
 * parts can carry.
 */
int mr_plan_upload(uint64_t size, uint64_t wanted, struct mr_plan *out);

/* Offset and length of part index (0-based, < max(parts, 1)). */
uint64_t mr_plan_offset(const struct mr_plan *plan, uint32_t index);
uint64_t mr_plan_length(const struct mr_plan *plan, uint32_t index);

/*
 * Size of part number (1-based) of a stream whose length nobody knows: grows, so that 10,000 parts
 * carry 5 TiB and more.
 */
uint64_t mr_plan_stream_part(uint32_t number, uint64_t wanted);

/* Download of size bytes; wanted as above. Never more than UINT32_MAX ranges: they grow instead. */
void mr_plan_download(uint64_t size, uint64_t wanted, struct mr_plan *out);

#endif
