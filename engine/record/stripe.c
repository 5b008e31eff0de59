/*
 * stripe.c - the arithmetic of striped data. Pure functions, any thread.
 */
#include "engine/record/value.h"
#include "engine/record/stripe.h"

#include <assert.h>

const uint8_t eng_zero_unit[FMT_UNIT_MAX];

static uint64_t div_up(uint64_t a, uint64_t b)
{
        return (a + b - 1) / b;
}

uint32_t eng_stripe_last_unit(uint64_t rem, unsigned k)
{
        assert(rem > 0 && k > 0);
        return (uint32_t)(div_up(div_up(rem, k), FMT_BLOCK) * FMT_BLOCK);
}

uint32_t eng_stripe_unit(uint64_t size, unsigned k)
{
        if (size == 0)
                return FMT_BLOCK;
        return size >= (uint64_t)k * FMT_UNIT_MAX ? FMT_UNIT_MAX : eng_stripe_last_unit(size, k);
}

uint32_t eng_stripes_per_run(unsigned k, uint32_t unit)
{
        uint64_t n = FMT_RUN_BYTES / ((uint64_t)k * unit);

        return n == 0 ? 1 : (uint32_t)n;
}

uint64_t eng_stripe_bytes(const struct fmt_part *part, uint32_t stripe)
{
        uint64_t full = (uint64_t)part->k * part->unit, start = full * stripe;

        if (start >= part->size)
                return 0;
        return part->size - start < full ? part->size - start : full;
}

unsigned eng_stripe_units(const struct fmt_part *part, uint32_t stripe)
{
        return (unsigned)div_up(eng_stripe_bytes(part, stripe), eng_part_unit(part, stripe));
}
