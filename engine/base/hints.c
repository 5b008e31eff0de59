/*
 * hints.c - see hints.h. Two groups at one place, of which a store of the usual size has none, may be said
 * more often.
 */
#include "engine/base/hints.h"

#define HINT_SECOND_NS 1000000000ull

bool eng_hint_is_due(struct eng_hints *hints, uint32_t group, uint64_t now)
{
        _Atomic uint64_t *at = &hints->last[group % ENG_HINTS];
        uint64_t last = atomic_load(at), second = now / HINT_SECOND_NS + 1; /* 0 is never */
        uint32_t since = (uint32_t)second - (uint32_t)last;

        if (last != 0 && last >> 32 == group && since < ENG_HINT_REST_NS / HINT_SECOND_NS)
                return false;
        return atomic_compare_exchange_strong(at, &last, (uint64_t)group << 32 | (uint32_t)second);
}
