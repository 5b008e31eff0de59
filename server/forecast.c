/*
 * forecast.c - when drives will be full, from how their use has grown.
 *
 * The main thread looks at health once a second and keeps a sample now and then; the admin listener
 * reads what follows from it. The growth is the slope of the least-squares line through the samples
 * of a window, so single deletes, and files that are made and given back in large pieces, bend it
 * little, and what is deleted as fast as it is written makes it flat. The line's slope is taken
 * from what is used now: full means that PUTs are refused, when less than the reserve is free.
 *
 * Samples are in memory alone: after a start the short window needs an hour, and the long one half
 * a day, before they say anything.
 */
#include "server/forecast.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- one window ------------------------------------------------------------------------------ */

/* The i-th from the oldest on. */
static const struct srv_forecast_sample *sample_at(const struct srv_forecast_ring *ring, unsigned most, unsigned i)
{
        return &ring->sample[(ring->next + most - ring->count + i) % most];
}

/* Keeps it if the last one is old enough; those beyond the window give way. */
static bool ring_add(struct srv_forecast_ring *ring, unsigned most, int64_t every_ms, int64_t now_ms, uint64_t used)
{
        const struct srv_forecast_sample *last = ring->count > 0 ? sample_at(ring, most, ring->count - 1) : NULL;

        assert(most <= SRV_FORECAST_LONG);
        if (last != NULL && now_ms - last->at_ms < every_ms)
                return false;
        ring->sample[ring->next] = (struct srv_forecast_sample){now_ms, used};
        ring->next = (ring->next + 1) % most;
        if (ring->count < most)
                ring->count++;
        while (ring->count > 1 && now_ms - sample_at(ring, most, 0)->at_ms > every_ms * most) /* nobody looked for a while */
                ring->count--;
        return true;
}

/* Around the means, so that large numbers of which only the difference counts stay exact. */
double srv_forecast_growth(const struct srv_forecast_ring *ring, unsigned most, double *span_s)
{
        double mean_t = 0, mean_u = 0, above = 0, below = 0, t;
        const struct srv_forecast_sample *first = sample_at(ring, most, 0), *s;
        unsigned i;

        *span_s = 0;
        if (ring->count < 2)
                return 0;
        *span_s = (double)(sample_at(ring, most, ring->count - 1)->at_ms - first->at_ms) / 1000;
        for (i = 0; i < ring->count; i++) {
                s = sample_at(ring, most, i);
                mean_t += (double)(s->at_ms - first->at_ms) / 1000 / ring->count;
                mean_u += (double)s->used / ring->count;
        }
        for (i = 0; i < ring->count; i++) {
                s = sample_at(ring, most, i);
                t = (double)(s->at_ms - first->at_ms) / 1000 - mean_t;
                above += t * ((double)s->used - mean_u);
                below += t * t;
        }
        return below > 0 ? above / below : 0;
}

/* Seconds until room is used up, as one window has it. */
static double window_full_in(const struct srv_forecast_ring *ring, unsigned most, int64_t every_ms, double room)
{
        double span_s, growth = srv_forecast_growth(ring, most, &span_s), left_s;

        if (span_s < (double)(SRV_FORECAST_LEAST * every_ms) / 1000 || growth <= 0)
                return INFINITY;
        left_s = room / growth;
        return left_s <= SRV_FORECAST_MOST_S ? left_s : INFINITY;
}

/* ---- one drive ------------------------------------------------------------------------------- */

static double drive_full_in(const struct srv_forecast_drive *drive, const struct eng_drive_info *info)
{
        double room, soon_s, later_s, span_s;

        if (info->starved || info->free_bytes <= info->reserve_bytes)
                return 0;
        room = (double)(info->free_bytes - info->reserve_bytes);
        srv_forecast_growth(&drive->recent, SRV_FORECAST_SHORT, &span_s);
        soon_s = window_full_in(&drive->recent, SRV_FORECAST_SHORT, SRV_FORECAST_SHORT_MS, room);
        if (soon_s > SRV_FORECAST_SHORT_AHEAD * span_s) /* what a few hours did says nothing of next week */
                soon_s = INFINITY;
        later_s = window_full_in(&drive->week, SRV_FORECAST_LONG, SRV_FORECAST_LONG_MS, room);
        return fmin(soon_s, later_s);
}

void srv_forecast_take(struct srv_forecast_drive *drive, const struct eng_drive_info *info, int64_t now_ms)
{
        uint64_t used = info->total_bytes > info->free_bytes ? info->total_bytes - info->free_bytes : 0;
        bool more;

        if (strcmp(drive->id, info->id) != 0 || info->filling) {
                memset(drive, 0, sizeof(*drive));
                memcpy(drive->id, info->id, sizeof(drive->id));
                drive->full_in_s = INFINITY;
        }
        more = ring_add(&drive->recent, SRV_FORECAST_SHORT, SRV_FORECAST_SHORT_MS, now_ms, used);
        more |= ring_add(&drive->week, SRV_FORECAST_LONG, SRV_FORECAST_LONG_MS, now_ms, used);
        if (more)
                drive->full_in_s = drive_full_in(drive, info);
}

/* ---- all drives ------------------------------------------------------------------------------ */

struct srv_forecast {
        unsigned speed;
        struct srv_forecast_drive drives[ENG_DRIVES_MAX]; /* owner: who looks */
        pthread_mutex_t lock;                             /* over the member below */
        struct srv_forecast_statistics statistics;
};

static int64_t forecast_clock_ms(const struct srv_forecast *forecast)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000) * forecast->speed;
}

struct srv_forecast *srv_forecast_new(unsigned speed)
{
        struct srv_forecast *forecast = calloc(1, sizeof(*forecast));
        unsigned i;

        if (forecast == NULL)
                return NULL;
        forecast->speed = speed;
        pthread_mutex_init(&forecast->lock, NULL);
        for (i = 0; i < ENG_DRIVES_MAX; i++)
                forecast->statistics.drive_s[i] = INFINITY;
        forecast->statistics.store_s = INFINITY;
        return forecast;
}

void srv_forecast_free(struct srv_forecast *forecast)
{
        if (forecast == NULL)
                return;
        pthread_mutex_destroy(&forecast->lock);
        free(forecast);
}

void srv_forecast_look(struct srv_forecast *forecast, const struct eng_health *health)
{
        struct srv_forecast_statistics statistics = {.store_s = INFINITY};
        int64_t now_ms = forecast_clock_ms(forecast);
        unsigned i;

        for (i = 0; i < ENG_DRIVES_MAX; i++) {
                const struct eng_drive_info *info = &health->drives[i];

                statistics.drive_s[i] = INFINITY;
                if (i >= health->drive_count || info->state != ENG_DRIVE_IN || info->total_bytes == 0)
                        continue; /* what was known stays: it may come back */
                srv_forecast_take(&forecast->drives[i], info, now_ms);
                statistics.drive_s[i] = forecast->drives[i].full_in_s;
                statistics.store_s = fmin(statistics.store_s, statistics.drive_s[i]);
        }
        pthread_mutex_lock(&forecast->lock);
        forecast->statistics = statistics;
        pthread_mutex_unlock(&forecast->lock);
}

void srv_forecast_read(struct srv_forecast *forecast, struct srv_forecast_statistics *out)
{
        pthread_mutex_lock(&forecast->lock);
        *out = forecast->statistics;
        pthread_mutex_unlock(&forecast->lock);
}
