/*
 * truth.c - groups that have no current member, and whose word counts for them when it is back: functions
 * over values. docs/design/lost-groups.md has the reasons.
 */
#include "engine/format.h"
#include "engine/placement/place.h"

eng_mask eng_left_last(eng_mask members, const uint64_t left[ENG_DRIVES_MAX])
{
        eng_mask last = 0, rest;
        uint64_t highest = 1;

        for (rest = members; rest != 0; rest &= rest - 1) {
                const unsigned slot = (unsigned)__builtin_ctzll(rest);
                const uint64_t number = left[slot] & ~FMT_EPOCH_NO_TRUTH;

                if (number > highest)
                        last = 0;
                if (number >= highest) {
                        highest = number;
                        last |= eng_bit(slot);
                }
        }
        return last;
}

eng_mask eng_truth_of(eng_mask members, const uint64_t left[ENG_DRIVES_MAX])
{
        eng_mask truth = 0, rest;

        for (rest = eng_left_last(members, left); rest != 0; rest &= rest - 1)
                if ((left[__builtin_ctzll(rest)] & FMT_EPOCH_NO_TRUTH) == 0)
                        truth |= rest & -rest;
        return truth; /* if all of them are none there is none: what came until then is not known to who left before */
}

unsigned eng_groups_lost(const struct eng_group *groups, unsigned count, eng_mask in)
{
        unsigned i, n = 0;

        for (i = 0; i < count; i++)
                n += (groups[i].before & in) == 0;
        return n;
}

bool eng_groups_kept(const struct eng_group *groups, unsigned count, bool after, eng_mask next, eng_mask prev)
{
        unsigned i;

        for (i = 0; i < count; i++)
                if ((groups[i].before & prev) != 0 && ((after ? groups[i].after : groups[i].before) & next) == 0)
                        return false;
        return true;
}

bool eng_groups_handed_over(const struct eng_group *from, const struct eng_group *to, unsigned count, eng_mask in)
{
        unsigned i;

        for (i = 0; i < count; i++)
                if ((from[i].before & in) != 0 && (to[i].before & in) == 0)
                        return false;
        return true;
}

bool eng_groups_lost_stay(const struct eng_group *from, const struct eng_group *to, unsigned count, eng_mask in)
{
        unsigned i;

        for (i = 0; i < count; i++)
                if ((from[i].before & in) == 0 && from[i].before != to[i].before)
                        return false;
        return true;
}

bool eng_groups_witnessed(const struct eng_group *groups, unsigned count, eng_mask aside, eng_mask present)
{
        unsigned i;

        for (i = 0; i < count; i++)
                if ((groups[i].before & aside) != 0 && __builtin_popcountll(groups[i].before & present) < 2)
                        return false;
        return true;
}

bool eng_groups_may_lose(eng_mask next, eng_mask all)
{
        return eng_is_majority(next, all);
}

bool eng_may_join(const struct eng_group *groups, unsigned count, eng_mask in, const uint64_t left[ENG_DRIVES_MAX], unsigned slot)
{
        unsigned i;

        for (i = 0; i < count; i++)
                if ((groups[i].before & eng_bit(slot)) != 0 && (groups[i].before & in) == 0 &&
                    (eng_truth_of(groups[i].before, left) & eng_bit(slot)) == 0)
                        return false;
        return true;
}

bool eng_is_truth(const struct eng_group *groups, unsigned count, eng_mask in, const uint64_t left[ENG_DRIVES_MAX], unsigned slot)
{
        unsigned i;

        for (i = 0; i < count; i++)
                if ((groups[i].before & in) == 0 && (eng_truth_of(groups[i].before, left) & eng_bit(slot)) != 0)
                        return true;
        return false;
}
