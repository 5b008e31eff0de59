/*
 * hints.h - what is said of a group that is to be looked at: once a minute, by a home and at its leader
 * (docs/design/any-gateway.md, G10). Any thread.
 */
#ifndef MILLRACE_ENGINE_BASE_HINTS_H
#define MILLRACE_ENGINE_BASE_HINTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define ENG_HINTS        4096u
#define ENG_HINT_REST_NS (60ull * 1000 * 1000 * 1000)

/* Zeroes: nothing was said. */
struct eng_hints {
        _Atomic uint64_t last[ENG_HINTS]; /* group, and second: of the groups of one place the last */
};

/* Nothing was said of this group in the last minute; from now on something was. now: lp_now(). */
bool eng_hint_is_due(struct eng_hints *hints, uint32_t group, uint64_t now);

#endif
