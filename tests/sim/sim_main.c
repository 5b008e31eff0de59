/*
 * sim_main.c - runs the histories of a range of seeds, a batch of them in each child process.
 *
 *   sim --seeds A[-B] [--trace] [--verbose] [--twice]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/sim_alloc.h"
#include "tests/sim/history.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_clients.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_world.h"

#define BATCH         20u /* what a process that is simulated away leaves behind is freed with the child */
#define FAILURES_MAX  10u
#define STUCK_SECONDS 120u /* of real time, for a batch */

/* owner: the child while it runs; shared memory */
struct shared {
        uint64_t seed; /* being run */
        uint64_t digest;
        struct world_figures world;
        struct client_figures clients;
        struct sim_figures drives;
        struct sim_alloc_figures alloc;
        uint64_t events;
};

static struct shared *shared;
static bool trace, verbose, twice;

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
        return "detect_leaks=0"; /* a process that is simulated away frees nothing */
}

static void one(uint64_t seed)
{
        uint64_t digest;

        shared->seed = seed;
        world_run(seed, trace);
        digest = sim.digest;
        shared->events += sim.events;
        if (verbose)
                printf("seed %llu: digest %016llx, %llu events\n", (unsigned long long)seed, (unsigned long long)digest,
                       (unsigned long long)sim.events);
        if (!twice)
                return;
        world_run(seed, false);
        if (sim.digest != digest)
                sim_fail("a second run of the seed went another way: %016llx, then %016llx", (unsigned long long)digest,
                         (unsigned long long)sim.digest);
}

static void child(uint64_t first, uint64_t last)
{
        alarm(STUCK_SECONDS);
        for (; first <= last; first++)
                one(first);
        shared->world = world_figures;
        shared->clients = client_figures;
        shared->drives = sim_figures;
        shared->alloc = sim_alloc_figures;
        fflush(stdout);
        _exit(0);
}

/* Runs a batch; the seed that failed, or last + 1. */
static uint64_t batch(uint64_t first, uint64_t last)
{
        int status;
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0)
                child(first, last);
        if (pid < 0 || waitpid(pid, &status, 0) != pid) {
                perror("sim");
                exit(2);
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
                world_figures = shared->world; /* a child goes on from what was counted before it */
                client_figures = shared->clients;
                sim_figures = shared->drives;
                sim_alloc_figures = shared->alloc;
                return last + 1;
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) != SIM_FAILED)
                printf("FAILED seed %llu: ended by %s %d\n  replay: sim --seeds %llu --trace\n",
                       (unsigned long long)shared->seed, WIFEXITED(status) ? "status" : "signal",
                       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), (unsigned long long)shared->seed);
        return shared->seed;
}

static double seconds(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void report(uint64_t run, unsigned failed, double took)
{
        printf("sim: %llu histories, %u failed, %.1f s, %.0f histories/min\n", (unsigned long long)run, failed, took,
               (double)run * 60 / took);
        printf("  %llu lives: %llu power cuts, %llu kills; %llu faults: %llu drive failures, %llu hangs, %llu rotten "
               "frames\n",
               (unsigned long long)world_figures.lives, (unsigned long long)sim_figures.power_cuts,
               (unsigned long long)sim_figures.kills, (unsigned long long)world_figures.faults,
               (unsigned long long)sim_figures.failures, (unsigned long long)sim_figures.hangs,
               (unsigned long long)sim_figures.rotten);
        printf("  %llu allocations failed, %llu processes ended themselves for that\n", (unsigned long long)sim_alloc_figures.failed,
               (unsigned long long)sim_alloc_figures.ends);
        printf("  %llu client operations, %llu errors; %llu drive operations, %llu events\n",
               (unsigned long long)client_figures.ops, (unsigned long long)client_figures.errors,
               (unsigned long long)sim_figures.ops, (unsigned long long)shared->events);
        printf("  %llu records lost and %llu settled, %llu frames lost; left in the end: %llu frames nothing names "
               "(known gap); "
               "%llu registers too hard\n",
               (unsigned long long)sim_figures.lost_records, (unsigned long long)world_figures.settled,
               (unsigned long long)sim_figures.lost_frames, (unsigned long long)world_figures.leaked_frames,
               (unsigned long long)client_figures.undecided);
}

static int usage(void)
{
        fprintf(stderr, "usage: sim --seeds A[-B] [--trace] [--verbose] [--twice]\n");
        return 2;
}

int main(int argc, char **argv)
{
        unsigned long long first = 1, last = 200;
        uint64_t seed, next, run = 0;
        unsigned failed = 0;
        double began = seconds();
        int i;

        for (i = 1; i < argc; i++) {
                if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
                        int n = sscanf(argv[++i], "%llu-%llu", &first, &last);

                        if (n < 1)
                                return usage();
                        if (n == 1)
                                last = first;
                } else if (strcmp(argv[i], "--trace") == 0) {
                        trace = true;
                } else if (strcmp(argv[i], "--verbose") == 0) {
                        verbose = true;
                } else if (strcmp(argv[i], "--twice") == 0) {
                        twice = true;
                } else {
                        return usage();
                }
        }
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED || last < first)
                return usage();
        for (seed = first; seed <= last && failed < FAILURES_MAX; seed = next) {
                uint64_t end = last - seed < BATCH ? last : seed + BATCH - 1;

                next = batch(seed, end);
                if (next <= end) {
                        failed++;
                        next++;
                }
                run += next - seed;
        }
        report(run, failed, seconds() - began);
        return failed > 0 ? 1 : 0;
}
