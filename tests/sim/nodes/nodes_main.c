/*
 * nodes_main.c - the simulator of several nodes (batches.h tells its options). --jobs N, as the first of them, runs N
 * processes side by side, each with a part of the seeds that --seeds A-B names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/batches.h"
#include "tests/sim/nodes/nodes.h"
#include "tests/sim/nodes/nodes_world.h"
#include "tests/sim/nodes/sim_etcd.h"
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
        printf("  %llu terms, %llu served, %llu of them late; %llu leaders ended themselves, %llu handed over, %llu aimed at; %llu sessions, %llu operations unreachable, %llu refused\n",
               N(nodes_figures.leaders), N(nodes_figures.served), N(nodes_figures.old), N(nodes_figures.ended), N(nodes_figures.moved), N(nodes_figures.aimed),
               N(nodes_figures.begins), N(nodes_figures.unreachable), N(nodes_figures.refused));
        printf("  etcd: %llu requests, %llu changes, %llu refused, %llu of unknown outcome, %llu late, %llu restored\n", N(sim_etcd_figures.requests),
               N(sim_etcd_figures.changes), N(sim_etcd_figures.refused), N(sim_etcd_figures.unknown), N(sim_etcd_figures.late), N(sim_etcd_figures.restored));
        printf("  %llu histories with one fault: felt for %.3f s at most when a member died, %.3f s in the middle of an epoch (%llu), %.3f s when the leader did, %.3f s when it moved,\n    %.3f s when a process was killed, %.3f s when a drive failed; reads %.3f s\n", N(nodes_figures.bounds),
               (double)nodes_figures.felt_member / 1e9, (double)nodes_figures.felt_epoch / 1e9, N(nodes_figures.in_epoch), (double)nodes_figures.felt_leader / 1e9, (double)nodes_figures.felt_moved / 1e9,
               (double)nodes_figures.felt_process / 1e9, (double)nodes_figures.felt_drive / 1e9, (double)nodes_figures.felt_read / 1e9);
        printf("  groups were lost %llu times, and came back %llu times\n", N(nodes_figures.lost), N(nodes_figures.found));
        printf("  drives were added %llu times, and drained %llu times\n", N(nodes_figures.added), N(nodes_figures.drained));
        printf("  %llu homes, %llu client operations asked of them\n", N(nodes_figures.homes), N(client_figures.asked_homes));
        printf("  %llu client operations, %llu of them asked of an old leader, %llu errors; %llu drive operations, %llu events; %llu frames nothing names in the end; %llu registers too hard\n",
               N(client_figures.ops), N(client_figures.asked_old), N(client_figures.errors), N(sim_figures.ops), N(events), N(nodes_figures.leaked), N(client_figures.undecided));
}

/* By default some histories have homes, lose groups or have one fault, by seed. */
static const struct {
        const char *name;
        int *what;
        int value;
} options[] = {
        {"--homes", &nodes_homes, NODES_ALL}, {"--no-homes", &nodes_homes, NODES_NONE}, {"--loses", &nodes_loses, NODES_ALL},
        {"--loses-none", &nodes_loses, NODES_NONE}, {"--bounds", &nodes_bounds, NODES_ALL}, {"--moves", &nodes_moves, NODES_ALL},
        {"--grows", &nodes_grows, NODES_ALL},
};

static bool nodes_option(const char *arg)
{
        static char program[80] = "simnodes";
        unsigned i;

        for (i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
                if (strcmp(arg, options[i].name) != 0)
                        continue;
                *options[i].what = options[i].value;
                snprintf(program + strlen(program), sizeof(program) - strlen(program), " %s", arg);
                sim_program = program;
                return true;
        }
        return false;
}

static uint64_t spoilt(void)
{
        return nodes_figures.faults;
}

/* The job's part of the seeds, in place of all of them. False: they are not named so. */
static bool take_part(int argc, char **argv, unsigned job, unsigned jobs)
{
        static char text[64];
        unsigned long long first, last, each;
        int i;

        for (i = 1; i + 1 < argc; i++) {
                if (strcmp(argv[i], "--seeds") != 0)
                        continue;
                if (sscanf(argv[i + 1], "%llu-%llu", &first, &last) != 2 || last - first + 1 < jobs)
                        return false;
                each = (last - first + 1) / jobs;
                snprintf(text, sizeof(text), "%llu-%llu", first + job * each, job + 1 == jobs ? last : first + (job + 1) * each - 1);
                argv[i + 1] = text;
                return true;
        }
        return false;
}

/* In a child: what it is to run. In the parent, when all have ended: -1, and how that went in status. */
static int begin_jobs(int argc, char **argv, unsigned jobs, int *status)
{
        unsigned job;
        int ended;

        *status = 0;
        for (job = 0; job < jobs; job++) {
                pid_t pid = fork();

                if (pid == 0 && take_part(argc, argv, job, jobs))
                        return 0;
                if (pid == 0) {
                        fprintf(stderr, "simnodes: --jobs N --seeds A-B, with N seeds or more\n");
                        _exit(2);
                }
                if (pid < 0)
                        *status = 2;
        }
        while (wait(&ended) > 0)
                if (!WIFEXITED(ended) || WEXITSTATUS(ended) > *status)
                        *status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 2;
        return -1;
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
                            {&sim_etcd_figures, sizeof(sim_etcd_figures)},
                            {&version_figures, sizeof(version_figures)}},
                .report = report,
                .spoilt = spoilt,
                .options = " [--homes | --no-homes] [--loses | --loses-none] [--bounds] [--moves] [--grows] (first: [--jobs N])",
                .option = nodes_option,
        };
        int status;

        sim_program = "simnodes";
        if (argc > 2 && strcmp(argv[1], "--jobs") == 0) {
                if (begin_jobs(argc - 2, argv + 2, (unsigned)strtoul(argv[2], NULL, 10), &status) < 0)
                        return status;
                argc -= 2;
                argv += 2;
        }
        return batches_main(argc, argv, &batches);
}
