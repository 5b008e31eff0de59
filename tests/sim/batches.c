/* batches.c - see batches.h. */
#include "tests/sim/batches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/sim.h"

#define FAILURES_MAX  10u
#define STUCK_SECONDS 120u /* of real time, for a batch */
#define FIGURES_MAX   4096u

/* owner: the child while it runs; shared memory */
struct shared {
        unsigned run; /* of the series, being run */
        uint64_t events;
        uint64_t points; /* of a sweep, in the last run */
        unsigned char figures[FIGURES_MAX]; /* one after the other */
};

/*
 * Histories one after the other: of seed after seed, or in a sweep of one seed, with one point
 * after the other.
 */
struct series {
        uint64_t seed, at;
        uint64_t seed_step, at_step;
        uint64_t count;
};

static const struct batches *batches;
static struct shared *shared;
static bool trace, verbose, twice, sweep;
static unsigned long long first = 1, last = 200, runs_max = 200, only_at;
static unsigned failed;
static uint64_t run, swept;
static double began, limit;

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
        return "detect_leaks=0"; /* a process that is simulated away frees nothing */
}

static void one(uint64_t seed)
{
        uint64_t digest;

        batches->history(seed, trace);
        shared->events += sim.events;
        shared->points = sim.points;
        digest = sim.digest;
        if (verbose)
                printf("seed %llu: digest %016llx, %llu events\n", (unsigned long long)seed, (unsigned long long)digest,
                       (unsigned long long)sim.events);
        if (!twice)
                return;
        batches->history(seed, false);
        if (sim.digest != digest)
                sim_fail("a second run of the seed went another way: %016llx, then %016llx", (unsigned long long)digest,
                         (unsigned long long)sim.digest);
}

/*
 * to_shared: the figures go to the memory that parent and children share, else they come from it.
 */
static void copy_figures(bool to_shared)
{
        unsigned char *there = shared->figures;
        size_t i;

        for (i = 0; i < sizeof(batches->figures) / sizeof(batches->figures[0]) && batches->figures[i].at != NULL; i++) {
                const struct batches_figures *f = &batches->figures[i];

                if (there + f->size > shared->figures + FIGURES_MAX)
                        abort();
                memcpy(to_shared ? (void *)there : f->at, to_shared ? f->at : (void *)there, f->size);
                there += f->size;
        }
}

static void child(const struct series *series)
{
        alarm(STUCK_SECONDS);
        for (shared->run = 0; shared->run < series->count; shared->run++) {
                sim_sweep_at = series->at + shared->run * series->at_step;
                one(series->seed + shared->run * series->seed_step);
        }
        copy_figures(true);
        fflush(stdout);
        _exit(0);
}

static void tell_died(const struct series *series, int status)
{
        unsigned long long seed = series->seed + shared->run * series->seed_step,
                           at = series->at + shared->run * series->at_step;

        printf("FAILED seed %llu: ended by %s %d\n", seed, WIFEXITED(status) ? "status" : "signal",
               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        if (sweep)
                printf("  replay: %s --sweep %llu --at %llu --trace\n", sim_program, seed, at);
        else
                printf("  replay: %s --seeds %llu --trace\n", sim_program, seed);
}

/*
 * Runs a batch. How many histories have held; if those are not all, the one behind them has failed.
 */
static uint64_t batch(const struct series *series)
{
        int status;
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0)
                child(series);
        if (pid < 0 || waitpid(pid, &status, 0) != pid) {
                perror(sim_program);
                exit(2);
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
                copy_figures(false);
                return series->count;
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) != SIM_FAILED)
                tell_died(series, status);
        return shared->run;
}

static double seconds(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Batch by batch, until too many have failed or the time is over. */
static void run_series(struct series left)
{
        while (left.count > 0 && failed < FAILURES_MAX && (limit == 0 || seconds() - began < limit)) {
                struct series some = left;
                uint64_t n;

                some.count = left.count < batches->size ? left.count : batches->size;
                n = batch(&some);
                swept += some.at == SIM_SWEEP_COUNT ? 0 : n;
                if (n < some.count) {
                        failed++;
                        n++;
                }
                run += n;
                left.count -= n;
                left.seed += n * left.seed_step;
                left.at += n * left.at_step;
        }
}

static void sweep_seed(uint64_t seed)
{
        uint64_t points, step, before = run;
        unsigned bad = failed;

        if (only_at != 0) {
                run_series((struct series){.seed = seed, .at = only_at, .count = 1});
                return;
        }
        run_series((struct series){.seed = seed, .at = SIM_SWEEP_COUNT, .count = 1});
        points = shared->points;
        if (failed > bad || points == 0)
                return;
        step = runs_max == 0 ? 1 : (points + runs_max - 1) / runs_max;
        run_series((struct series){.seed = seed, .at = 1 + seed % step, .at_step = step, .count = (points - 1 - seed % step) / step + 1});
        printf("seed %llu: %llu %s, %llu runs with one of them failing, %u failed\n", (unsigned long long)seed,
               (unsigned long long)points, batches->points, (unsigned long long)(run - before - 1), failed - bad);
}

static bool parse_range(const char *text)
{
        int n = sscanf(text, "%llu-%llu", &first, &last);

        if (n == 1)
                last = first;
        return n >= 1;
}

static bool parse(int argc, char **argv)
{
        int i;

        for (i = 1; i < argc; i++) {
                if ((strcmp(argv[i], "--seeds") == 0 || strcmp(argv[i], "--sweep") == 0) && i + 1 < argc) {
                        sweep = strcmp(argv[i++], "--sweep") == 0;
                        if (!parse_range(argv[i]))
                                return false;
                } else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
                        runs_max = strtoull(argv[++i], NULL, 10);
                } else if (strcmp(argv[i], "--at") == 0 && i + 1 < argc) {
                        only_at = strtoull(argv[++i], NULL, 10);
                } else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
                        limit = strtod(argv[++i], NULL);
                } else if (strcmp(argv[i], "--trace") == 0) {
                        trace = true;
                } else if (strcmp(argv[i], "--verbose") == 0) {
                        verbose = true;
                } else if (strcmp(argv[i], "--twice") == 0) {
                        twice = true;
                } else if (batches->option == NULL || !batches->option(argv[i])) {
                        return false;
                }
        }
        return first <= last;
}

int batches_main(int argc, char **argv, const struct batches *given)
{
        uint64_t seed;
        double took;

        began = seconds();
        batches = given;
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED || !parse(argc, argv)) {
                fprintf(stderr, "usage: %s --seeds A[-B] | --sweep A[-B] [--runs N] [--at I] [--seconds S] [--trace] [--verbose] [--twice]%s\n",
                        sim_program, batches->options != NULL ? batches->options : "");
                return 2;
        }
        if (!sweep)
                run_series((struct series){.seed = first, .seed_step = 1, .count = last - first + 1});
        for (seed = first; sweep && seed <= last && failed < FAILURES_MAX; seed++)
                sweep_seed(seed);
        took = seconds() - began;
        printf("%s: %llu histories, %u failed, %.1f s, %.0f histories/min\n", sim_program, (unsigned long long)run, failed, took,
               (double)run * 60 / took);
        batches->report(shared->events);
        printf("  %llu crash and fault points\n", (unsigned long long)(sweep ? swept : batches->spoilt()));
        return failed > 0 ? 1 : 0;
}
