/*
 * main.c - runs histories of a drive, of a range of seeds, a few of them in each child process.
 *
 *   simdrive --seeds A[-B] [--seconds S] [--trace] [--twice] [--keep]
 *
 * --keep leaves the folders of histories that failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/drive/disk.h"
#include "tests/sim/drive/world.h"
#include "tests/sim/sim.h"

#define BATCH         8u /* what a process that is simulated away leaves behind is freed with the child */
#define FAILURES_MAX  10u
#define STUCK_SECONDS 120u /* of real time, for a batch */

/* owner: the child while it runs; shared memory */
struct shared {
        uint64_t seed; /* being run */
        struct world_figures world;
        struct disk_figures disk;
        uint64_t events;
};

static struct shared *shared;
static char folder[96];
static bool trace, keep, twice;

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
        return "detect_leaks=0"; /* a process that is simulated away frees nothing */
}

static void one(uint64_t seed)
{
        uint64_t digest;

        shared->seed = seed;
        world_run(seed, trace, folder);
        shared->events += sim.events;
        digest = sim.digest;
        if (!twice)
                return;
        world_run(seed, false, folder);
        if (sim.digest != digest)
                sim_fail("a second run of the seed went another way: %016llx, then %016llx", (unsigned long long)digest,
                         (unsigned long long)sim.digest);
}

static void child(uint64_t first, uint64_t last)
{
        alarm(STUCK_SECONDS);
        world_figures = shared->world;
        disk_figures = shared->disk;
        for (; first <= last; first++)
                one(first);
        shared->world = world_figures;
        shared->disk = disk_figures;
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
                perror(sim_program);
                exit(2);
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return last + 1;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != SIM_FAILED)
                printf("FAILED seed %llu: ended by %s %d\n  replay: %s --seeds %llu --trace\n",
                       (unsigned long long)shared->seed, WIFEXITED(status) ? "status" : "signal",
                       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), sim_program,
                       (unsigned long long)shared->seed);
        return shared->seed;
}

static double seconds(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#define N(figure) ((unsigned long long)(figure))

static void report(uint64_t run, unsigned failed, double took)
{
        const struct world_figures *w = &shared->world;
        const struct disk_figures *d = &shared->disk;

        printf("%s: %llu histories, %u failed, %.1f s, %.0f histories/s\n", sim_program, N(run), failed, took,
               (double)run / took);
        printf("  %llu processes: %llu ended well, %llu died in a call, %llu while opening; then %llu power cuts, %llu "
               "kills, %llu indexes lost\n",
               N(w->lives), N(w->closed), N(w->dead_in_call), N(w->opened_dead), N(w->power_cuts), N(w->kills),
               N(w->rebuilt));
        printf("  %llu changes, %llu copies, %llu voids, %llu epochs, %llu discards, %llu lookups, %llu reads; %llu "
               "events\n",
               N(w->changes), N(w->copies), N(w->voids), N(w->epochs), N(w->discards), N(w->lookups), N(w->reads),
               N(shared->events));
        printf("  records settled %llu, lost %llu, void %llu; writes torn %llu, lost %llu; %llu I/O errors\n",
               N(w->settled), N(w->lost), N(w->voided), N(d->torn), N(d->lost), N(d->errors));
        printf("  log batches %llu with %llu records, index batches %llu; reclaim moved %llu KiB, freed %llu KiB\n",
               N(w->log_batches), N(w->log_records), N(w->index_batches), N(w->copied >> 10), N(w->freed >> 10));
}

static void make_folder(void)
{
        const char *in = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");

        snprintf(folder, sizeof(folder), "%.60s/mr-simdrive-XXXXXX", in != NULL ? in : "/tmp");
        if (mkdtemp(folder) == NULL) {
                perror(folder);
                exit(2);
        }
}

static void remove_folder(void)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -rf '%s'", folder);
        if (system(command) != 0)
                perror(folder);
}

static int usage(void)
{
        fprintf(stderr, "usage: simdrive --seeds A[-B] [--seconds S] [--trace] [--twice] [--keep]\n");
        return 2;
}

int main(int argc, char **argv)
{
        unsigned long long first = 1, last = 200;
        double began = seconds(), limit = 0;
        uint64_t seed, next, run = 0;
        unsigned failed = 0;
        int i;

        sim_program = "simdrive";
        for (i = 1; i < argc; i++) {
                if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
                        int n = sscanf(argv[++i], "%llu-%llu", &first, &last);

                        if (n < 1)
                                return usage();
                        if (n == 1)
                                last = first;
                } else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
                        limit = strtod(argv[++i], NULL);
                } else if (strcmp(argv[i], "--twice") == 0) {
                        twice = true;
                } else if (strcmp(argv[i], "--keep") == 0) {
                        keep = true;
                } else if (strcmp(argv[i], "--trace") == 0) {
                        trace = true;
                } else {
                        return usage();
                }
        }
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED || last < first)
                return usage();
        make_folder();
        for (seed = first; seed <= last && failed < FAILURES_MAX; seed = next) {
                uint64_t end = last - seed < BATCH ? last : seed + BATCH - 1;

                if (limit > 0 && seconds() - began >= limit)
                        break;
                next = batch(seed, end);
                if (next <= end) {
                        failed++;
                        next++;
                }
                run += next - seed;
        }
        if (keep && failed > 0)
                printf("%s: see %s\n", sim_program, folder);
        else
                remove_folder();
        report(run, failed, seconds() - began);
        return failed > 0 ? 1 : 0;
}
