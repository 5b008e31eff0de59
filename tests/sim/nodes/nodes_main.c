/* nodes_main.c - the simulator of several nodes (batches.h tells its options). */
#include <stdio.h>

#include "tests/sim/batches.h"
#include "tests/sim/nodes/nodes.h"
#include "tests/sim/nodes/nodes_world.h"
#include "tests/sim/nodes/sim_net.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_clients.h"

#define N(figure) ((unsigned long long)(figure))

static void report(uint64_t events)
{
        printf("  %llu faults: %llu drive servers killed, %llu nodes off, %llu leaders killed, %llu processes stopped, %llu drives failed, %llu hung\n",
               N(nodes_figures.faults), N(nodes_figures.server_kills), N(nodes_figures.nodes_off), N(nodes_figures.leader_kills),
               N(nodes_figures.stopped), N(sim_figures.failures), N(sim_figures.hangs));
        printf("  %llu streams, %llu refused, %llu cuts, %llu resets, %llu of them with bytes that came late, %llu stalls, %llu bits flipped, %llu KiB\n",
               N(sim_net_figures.streams), N(sim_net_figures.refused), N(sim_net_figures.cuts), N(sim_net_figures.resets), N(sim_net_figures.late),
               N(sim_net_figures.stalls), N(sim_net_figures.flips), N(sim_net_figures.bytes >> 10));
        printf("  %llu leaders, %llu of them to take drives in; %llu sessions, %llu operations unreachable, %llu refused; %llu nodes died for the table of bounds\n",
               N(nodes_figures.leaders), N(nodes_figures.restarts), N(nodes_figures.begins), N(nodes_figures.unreachable), N(nodes_figures.refused),
               N(nodes_figures.bounds));
        printf("  %llu client operations, %llu errors; %llu drive operations, %llu events; %llu frames nothing names in the end; %llu registers too hard\n",
               N(client_figures.ops), N(client_figures.errors), N(sim_figures.ops), N(events), N(nodes_figures.leaked), N(client_figures.undecided));
}

static uint64_t spoilt(void)
{
        return nodes_figures.faults;
}

int main(int argc, char **argv)
{
        const struct batches batches = {
                .size = 20,
                .history = nodes_run,
                .figures = {{&nodes_figures, sizeof(nodes_figures)},
                            {&client_figures, sizeof(client_figures)},
                            {&sim_figures, sizeof(sim_figures)},
                            {&sim_net_figures, sizeof(sim_net_figures)},
                            {&version_figures, sizeof(version_figures)}},
                .report = report,
                .spoilt = spoilt,
        };

        sim_program = "simnodes";
        return batches_main(argc, argv, &batches);
}
