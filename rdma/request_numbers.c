/*
 * request_numbers.c - each request number of a session counts once: a sliding window of the last
 * RDX_NUMBER_WINDOW numbers. Pure; owner: the session's loop.
 */
#include "rdma_wire.h"

#include <errno.h>
#include <string.h>

static bool was_seen(const struct rdx_numbers *numbers, uint64_t number)
{
        uint64_t bit = number % RDX_NUMBER_WINDOW;

        return (numbers->seen[bit / 64] >> bit % 64 & 1) != 0;
}

static void set_seen(struct rdx_numbers *numbers, uint64_t number, bool seen)
{
        uint64_t bit = number % RDX_NUMBER_WINDOW;

        if (seen)
                numbers->seen[bit / 64] |= 1ull << bit % 64;
        else
                numbers->seen[bit / 64] &= ~(1ull << bit % 64);
}

/* The window's upper end moves to number: those it moves over were not seen. */
static void numbers_advance(struct rdx_numbers *numbers, uint64_t number)
{
        if (number - numbers->highest >= RDX_NUMBER_WINDOW) {
                memset(numbers->seen, 0, sizeof(numbers->seen));
                numbers->highest = number;
        }
        while (numbers->highest != number)
                set_seen(numbers, ++numbers->highest, false);
}

int rdx_number_accept(struct rdx_numbers *numbers, uint64_t number)
{
        if (number == 0)
                return -ERANGE;
        if (number > numbers->highest) {
                if (number - numbers->highest > RDX_NUMBER_JUMP)
                        return -ERANGE;
                numbers_advance(numbers, number);
        } else if (numbers->highest - number >= RDX_NUMBER_WINDOW || was_seen(numbers, number)) {
                return -EEXIST;
        }
        set_seen(numbers, number, true);
        return 0;
}
