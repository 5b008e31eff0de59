/*
 * step.c - what requests wait for and what their bytes cost: names, and figures summed over loops
 * for whoever asks.
 *
 * Each loop counts in histograms of its own, so nothing here is waited for by a loop.
 */
#include "engine/base/store.h"

#include <assert.h>
#include <string.h>

static const struct {
        const char *stage, *name;
} steps[ENG_STEPS] = {
        [ENG_STEP_BUFFERS] = {"queue", "buffers"},  [ENG_STEP_ROOM] = {"queue", "room"},
        [ENG_STEP_KEY] = {"queue", "key"},          [ENG_STEP_LOOKUP] = {"drive", "lookup"},
        [ENG_STEP_READ] = {"drive", "read"},        [ENG_STEP_WRITE] = {"drive", "write"},
        [ENG_STEP_SYNC] = {"drive", "sync"},        [ENG_STEP_RECORD] = {"drive", "record"},
        [ENG_STEP_MD5] = {"hash", "md5"},           [ENG_STEP_PARITY] = {"encode", "parity"},
        [ENG_STEP_REBUILD] = {"encode", "rebuild"},
};

const char *eng_step_stage(enum eng_step step)
{
        assert(step < ENG_STEPS);
        return steps[step].stage;
}

const char *eng_step_name(enum eng_step step)
{
        assert(step < ENG_STEPS);
        return steps[step].name;
}

void eng_steps_read(const struct eng_store *store, struct lp_histogram out[ENG_STEPS])
{
        unsigned i, s;

        memset(out, 0, ENG_STEPS * sizeof(out[0]));
        for (i = 0; i < store->loop_count; i++)
                for (s = 0; s < ENG_STEPS; s++)
                        lp_times_sum(&store->loops[i].steps[s], &out[s]);
}

void eng_drive_steps_read(const struct eng_store *store, unsigned slot, struct lp_histogram out[ENG_DRIVE_STEPS])
{
        const struct eng_drive_times *times = eng_drive_times_of(store, slot);
        unsigned i, s;

        assert(slot < ENG_DRIVES_MAX);
        memset(out, 0, ENG_DRIVE_STEPS * sizeof(out[0]));
        for (i = 0; i < store->loop_count; i++)
                for (s = 0; s < ENG_DRIVE_STEPS; s++)
                        lp_times_sum(&times[i].step[s], &out[s]);
}
