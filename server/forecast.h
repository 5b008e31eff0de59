/*
 * forecast.h - when drives will be full, from how their use has grown.
 */
#ifndef MILLRACE_SERVER_FORECAST_H
#define MILLRACE_SERVER_FORECAST_H

#include "engine.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Two windows, each a ring of samples: the last hours, for what fills a drive before tomorrow, and
 * the last week, for the rest. Memory is bounded: 6 KiB a drive.
 */
#define SRV_FORECAST_SHORT       72u                  /* samples, */
#define SRV_FORECAST_SHORT_MS    (5 * 60 * 1000ll)    /* so far apart: 6 hours */
#define SRV_FORECAST_LONG        168u
#define SRV_FORECAST_LONG_MS     (60 * 60 * 1000ll)   /* a week */
#define SRV_FORECAST_LEAST       12u                  /* intervals of a window that must have been seen: an hour, half a day */
#define SRV_FORECAST_SHORT_AHEAD 4.0                  /* the short window looks so many times its own length ahead: a day at most */
#define SRV_FORECAST_MOST_S      (10.0 * 365 * 86400) /* beyond that a drive does not grow */

struct srv_forecast_sample {
        int64_t at_ms;
        uint64_t used; /* bytes of the file system */
};

/* The newest `most` samples, at least every_ms apart. Zeroed: empty. */
struct srv_forecast_ring {
        unsigned count, next;
        struct srv_forecast_sample sample[SRV_FORECAST_LONG];
};

/* owner: whoever calls. Zeroed: nothing is known */
struct srv_forecast_drive {
        char id[33]; /* whose samples these are */
        struct srv_forecast_ring recent, week;
        double full_in_s; /* as of the last sample */
};

/*
 * Takes in what the drive is now, at a time that only grows; often is as good as seldom. A drive
 * with another id is a new one; one that is being filled from the others grows for a reason that
 * will end, so what is known of it begins behind that. Pure.
 */
void srv_forecast_take(struct srv_forecast_drive *drive, const struct eng_drive_info *info, int64_t now_ms);
/*
 * Bytes a second by which the least-squares line through the ring's samples grows; negative where
 * it falls. *span_s: the time between the oldest and the newest.
 */
double srv_forecast_growth(const struct srv_forecast_ring *ring, unsigned most, double *span_s);

/* ---- of all drives ---- */

struct srv_forecast;

/*
 * Seconds until PUTs are refused for want of space; INFINITY: nothing grows, or too little is
 * known.
 */
struct srv_forecast_statistics {
        double drive_s[ENG_DRIVES_MAX]; /* by slot */
        double store_s;                 /* the least of those in use: one full drive is enough */
};

/* speed: seconds that a second counts as; 1, but for tests. NULL: out of memory. */
struct srv_forecast *srv_forecast_new(unsigned speed);
void srv_forecast_free(struct srv_forecast *forecast); /* NULL is allowed */
/* Now and then, at least every minute. One thread. */
void srv_forecast_look(struct srv_forecast *forecast, const struct eng_health *health);
/* Any thread. */
void srv_forecast_read(struct srv_forecast *forecast, struct srv_forecast_statistics *out);

#endif
