/*
 * read_times.c - see read_times.h.
 */
#include "engine/base/read_times.h"

#include <assert.h>

#define LOOK_NS    (250ull * 1000 * 1000)
#define HALVE_AT   1024u /* counts of one drive */
#define COUNTS_MIN 16u   /* of a drive whose 99th of 100 is anything to go by */
#define MEAN_OF    8u

static uint64_t ninety_ninth(const uint16_t count[LP_TIME_BUCKETS], unsigned total)
{
        unsigned above = total / 100, i = LP_TIME_BUCKETS - 1;
        uint64_t low;

        while (i > 0 && count[i] <= above)
                above -= count[i--];
        low = i == 0 ? 0 : lp_time_bound_ns(i - 1);
        if (i == LP_TIME_BUCKETS - 1)
                return low;
        return low + (lp_time_bound_ns(i) - low) * (count[i] - above) / count[i]; /* as if they lay evenly in it */
}

static uint64_t middle_of(uint64_t *values, unsigned n)
{
        unsigned i, j;

        for (i = 1; i < n; i++) {
                uint64_t value = values[i];

                for (j = i; j > 0 && values[j - 1] > value; j--)
                        values[j] = values[j - 1];
                values[j] = value;
        }
        return n == 0 ? 0 : values[(n - 1) / 2];
}

static bool is_slow(const struct eng_read_times *times, unsigned slot)
{
        uint64_t mean = times->drive[slot].mean_ns;

        return times->middle_ns != 0 && mean > eng_read_least_ns(times) && mean > ENG_SLOW_TIMES * times->middle_ns;
}

static void halve(struct eng_read_times *times, unsigned slot)
{
        unsigned i, total = 0;

        for (i = 0; i < LP_TIME_BUCKETS; i++)
                total += times->drive[slot].count[i] /= 2;
        times->drive[slot].total = (uint16_t)total;
}

/* A slow drive that was not read is forgiven bit by bit, so that it is tried again. */
static void read_times_look(struct eng_read_times *times, uint64_t now)
{
        uint64_t late[ENG_DRIVES_MAX], mean[ENG_DRIVES_MAX];
        unsigned i, lates = 0, means = 0;

        times->looked = now;
        for (i = 0; i < ENG_DRIVES_MAX; i++) {
                if (times->drive[i].lately == 0 && times->drive[i].mean_ns > eng_read_least_ns(times))
                        times->drive[i].mean_ns -= times->drive[i].mean_ns / 4;
                times->drive[i].lately = 0;
                if (times->drive[i].total >= COUNTS_MIN)
                        late[lates++] = ninety_ninth(times->drive[i].count, times->drive[i].total);
                if (times->drive[i].total > 0)
                        mean[means++] = times->drive[i].mean_ns;
        }
        times->late_ns = middle_of(late, lates);
        times->middle_ns = middle_of(mean, means);
        times->slow = 0;
        for (i = 0; i < ENG_DRIVES_MAX; i++)
                if (is_slow(times, i))
                        times->slow |= eng_bit(i);
}

void eng_read_times_add(struct eng_read_times *times, unsigned slot, uint64_t ns, uint64_t now)
{
        uint64_t *mean = &times->drive[slot].mean_ns;

        assert(slot < ENG_DRIVES_MAX);
        times->owed -= times->owed > 0;
        if (times->drive[slot].total >= HALVE_AT)
                halve(times, slot);
        times->drive[slot].count[lp_time_bucket(ns)]++;
        *mean = times->drive[slot].total++ == 0 ? ns : *mean - *mean / MEAN_OF + ns / MEAN_OF;
        times->drive[slot].lately |= 1;
        if (times->looked == 0 || now - times->looked >= LOOK_NS)
                read_times_look(times, now);
        else if (is_slow(times, slot))
                times->slow |= eng_bit(slot);
}

bool eng_read_times_spend(struct eng_read_times *times, unsigned reads)
{
        if (times->owed + reads * ENG_EXTRA_SHARE > ENG_EXTRA_AT_ONCE * ENG_EXTRA_SHARE)
                return false;
        times->owed += reads * ENG_EXTRA_SHARE;
        return true;
}
