/*
 * plan.c - cuts uploads and downloads into parts. Called by put_object.c and get.c before they
 * start, on the caller's thread; nothing here keeps state. The bounds are S3's own: 10,000 parts of
 * 5 MiB to 5 GiB.
 */
#include "client/transfer/plan.h"

#include <errno.h>

/*
 * Parts are 8 MiB while that gives up to this many, then double up to 64 MiB: many enough to run in
 * parallel and to lose little by a retry, few enough that completing them is a small request.
 */
#define COMFORTABLE_PARTS 128u

static uint64_t divide_up(uint64_t a, uint64_t b)
{
        return a / b + (a % b != 0);
}

static uint64_t part_size_for(uint64_t size)
{
        uint64_t part = 8 * MR_MIB;

        while (part < 64 * MR_MIB && divide_up(size, part) > COMFORTABLE_PARTS)
                part *= 2;
        if (divide_up(size, part) > MR_PARTS_MAX)
                part = divide_up(divide_up(size, MR_PARTS_MAX), MR_MIB) * MR_MIB;
        return part;
}

int mr_plan_upload(uint64_t size, uint64_t wanted, struct mr_plan *out)
{
        uint64_t whole_max = MR_PUT_WHOLE_MAX;
        uint64_t part = part_size_for(size);

        if (wanted != 0) {
                whole_max = wanted;
                if (divide_up(size, wanted) <= MR_PARTS_MAX)
                        part = wanted;
        }
        if (part > MR_PART_MAX)
                return -EFBIG;
        out->size = size;
        out->part_size = size <= whole_max ? size : part;
        out->parts = size <= whole_max ? 0 : (uint32_t)divide_up(size, part);
        return 0;
}

uint64_t mr_plan_offset(const struct mr_plan *plan, uint32_t index)
{
        return index * plan->part_size;
}

uint64_t mr_plan_length(const struct mr_plan *plan, uint32_t index)
{
        uint64_t offset = mr_plan_offset(plan, index);
        uint64_t left = offset < plan->size ? plan->size - offset : 0;

        return left < plan->part_size ? left : plan->part_size;
}

uint64_t mr_plan_stream_part(uint32_t number, uint64_t wanted)
{
        uint32_t doublings = number == 0 ? 0 : (number - 1) / 1000;

        if (wanted != 0)
                return wanted;
        return (8 * MR_MIB) << (doublings < 7 ? doublings : 7);
}

void mr_plan_download(uint64_t size, uint64_t wanted, struct mr_plan *out)
{
        uint64_t part = wanted != 0 ? wanted : MR_GET_PART;

        while (divide_up(size, part) > UINT32_MAX)
                part *= 2;
        out->size = size;
        out->part_size = part;
        out->parts = (uint32_t)divide_up(size, part);
}
