/* sim_main.c - the simulator of a whole store (batches.h tells its options). */
#include <stdio.h>

#include "tests/sim/batches.h"
#include "tests/sim/history.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_alloc.h"
#include "tests/sim/sim_clients.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_locks.h"
#include "tests/sim/sim_loss.h"
#include "tests/sim/sim_operator.h"
#include "tests/sim/sim_world.h"

#define N(figure) ((unsigned long long)(figure))

static void report(uint64_t events)
{
        printf("  %llu lives: %llu power cuts, %llu kills; %llu faults: %llu drive failures, %llu hangs, %llu rotten "
               "frames, %llu of them found by a scrub; %llu names missed\n",
               N(world_figures.lives), N(sim_figures.power_cuts), N(sim_figures.kills), N(world_figures.faults),
               N(sim_figures.failures), N(sim_figures.hangs), N(sim_figures.rotten),
               N(sim_figures.rot_found), N(sim_figures.forgotten));
        printf("  %llu disks put back to an image, %llu logs lost acknowledged records; %llu loops blocked, %llu openings never ended\n",
               N(sim_figures.images_restored), N(sim_figures.cuts), N(sim_figures.blocked), N(sim_figures.stuck));
        printf("  drives: %llu lost for good, %llu replaced, %llu returned, %llu added, %llu removed; %llu forced starts; %llu requests "
               "refused\n",
               N(operator_figures.lost), N(operator_figures.replaced), N(operator_figures.returned),
               N(operator_figures.added), N(operator_figures.removed), N(operator_figures.forced), N(operator_figures.refused));
        printf("  %llu stripes lost, %llu of them of objects with more, %llu more but for one drive: %llu shards taken; %llu times a drive lost or removed behind that; %llu such objects counted in the "
               "end, %llu overwritten or deleted\n",
               N(loss_figures.stripes), N(loss_figures.of_several), N(loss_figures.nearly), N(loss_figures.shards), N(loss_figures.changed), N(loss_figures.counted),
               N(loss_figures.overwritten));
        printf("  %llu buckets with versions: %llu changes of their state, %llu listings, %llu delete markers, %llu versions deleted, %llu changes of tags and "
               "holds\n",
               N(version_figures.buckets), N(version_figures.states), N(version_figures.listings), N(version_figures.markers),
               N(version_figures.deleted), N(version_figures.extras));
        printf("  %llu lifecycle passes, %llu versions met by them; %llu histories with locks: the wall clock was set wrong %llu times, %llu times the machine was "
               "off for hours; %llu retentions, %llu changes refused; the lock clock was frozen %llu times and confirmed %llu times\n",
               N(version_figures.walks), N(version_figures.expired), N(lock_figures.buckets), N(lock_figures.set_wrong), N(lock_figures.days_off),
               N(lock_figures.retained), N(lock_figures.refused), N(lock_figures.frozen), N(lock_figures.confirmed));
        printf("  %llu times a drive could not be reached, %llu operations came to one late\n", N(sim_figures.cut_off), N(sim_figures.late));
        printf("  %llu allocations failed, %llu processes ended themselves for that\n", N(sim_alloc_figures.failed),
               N(sim_alloc_figures.ends));
        printf("  %llu client operations, %llu errors; %llu drive operations, %llu events\n", N(client_figures.ops),
               N(client_figures.errors), N(sim_figures.ops), N(events));
        printf("  %llu records lost and %llu settled, %llu frames lost; left in the end: %llu frames nothing names "
               "(known gap); %llu registers too hard\n",
               N(sim_figures.lost_records), N(world_figures.settled), N(sim_figures.lost_frames),
               N(world_figures.leaked_frames), N(client_figures.undecided));
}

static uint64_t spoilt(void)
{
        return sim_figures.power_cuts + sim_figures.kills + sim_figures.failures + sim_figures.hangs + sim_figures.rotten +
               sim_figures.images_restored + sim_figures.cuts + sim_figures.blocked + sim_figures.stuck + sim_figures.cut_off + operator_figures.lost +
               sim_alloc_figures.failed + loss_figures.shards;
}

int main(int argc, char **argv)
{
        const struct batches batches = {
                .size = 20,
                .history = world_run,
                .figures = {{&world_figures, sizeof(world_figures)},
                            {&client_figures, sizeof(client_figures)},
                            {&sim_figures, sizeof(sim_figures)},
                            {&sim_alloc_figures, sizeof(sim_alloc_figures)},
                            {&operator_figures, sizeof(operator_figures)},
                            {&loss_figures, sizeof(loss_figures)},
                            {&version_figures, sizeof(version_figures)},
                            {&lock_figures, sizeof(lock_figures)}},
                .points = "allocations",
                .report = report,
                .spoilt = spoilt,
        };

        return batches_main(argc, argv, &batches);
}
