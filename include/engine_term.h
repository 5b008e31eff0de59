/*
 * engine_term.h - a term: one leadership of a cluster's pool (docs/cluster.md). Functions over values; any thread.
 */
#ifndef MILLRACE_ENGINE_TERM_H
#define MILLRACE_ENGINE_TERM_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Ordered by generation, then by revision (of the leader key in etcd); node and boot say whose it is.
 * All zero: none, as in a store without a cluster. It goes over the wire as it is, little-endian.
 */
struct eng_term {
        uint64_t generation, revision, boot;
        uint16_t node;
        uint8_t zero[6];
};
_Static_assert(sizeof(struct eng_term) == 32, "it is sent");

static inline bool eng_term_is_none(const struct eng_term *term)
{
        return term->generation == 0 && term->revision == 0;
}

/* Negative: a is older than b; 0: neither is newer. */
static inline int eng_term_compare(const struct eng_term *a, const struct eng_term *b)
{
        if (a->generation != b->generation)
                return a->generation < b->generation ? -1 : 1;
        return (a->revision > b->revision) - (a->revision < b->revision);
}

/* The same leadership. Two of equal order that are not the same mean that etcd was restored (R2). */
static inline bool eng_term_same(const struct eng_term *a, const struct eng_term *b)
{
        return eng_term_compare(a, b) == 0 && a->node == b->node && a->boot == b->boot;
}

/* What comes from outside. */
static inline bool eng_term_is_sound(const struct eng_term *term)
{
        unsigned i, zero = 0;

        for (i = 0; i < sizeof(term->zero); i++)
                zero |= term->zero[i];
        return zero == 0 && (!eng_term_is_none(term) || (term->node == 0 && term->boot == 0));
}

#endif
