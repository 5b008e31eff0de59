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
        uint64_t seed; /* being run */
        uint64_t events;
        unsigned char figures[FIGURES_MAX]; /* one after the other */
};

static const struct batches *batches;
static struct shared *shared;
static bool trace, verbose, twice;
static unsigned long long first = 1, last = 200;
static double limit;

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
        return "detect_leaks=0"; /* a process that is simulated away frees nothing */
}

static void one(uint64_t seed)
{
        uint64_t digest;

        shared->seed = seed;
        batches->history(seed, trace);
        shared->events += sim.events;
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

/* to_shared: the figures go to the memory that parent and children share, else they come from it. */
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

static void child(uint64_t seed, uint64_t end)
{
        alarm(STUCK_SECONDS);
        for (; seed <= end; seed++)
                one(seed);
        copy_figures(true);
        fflush(stdout);
        _exit(0);
}

/* Runs a batch; the seed that failed, or end + 1. */
static uint64_t batch(uint64_t seed, uint64_t end)
{
        int status;
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0)
                child(seed, end);
        if (pid < 0 || waitpid(pid, &status, 0) != pid) {
                perror(sim_program);
                exit(2);
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
                copy_figures(false);
                return end + 1;
        }
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

static bool parse(int argc, char **argv)
{
        int i;

        for (i = 1; i < argc; i++) {
                if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
                        int n = sscanf(argv[++i], "%llu-%llu", &first, &last);

                        if (n < 1)
                                return false;
                        if (n == 1)
                                last = first;
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
        double began = seconds(), took;
        uint64_t seed, next, run = 0;
        unsigned failed = 0;

        batches = given;
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED || !parse(argc, argv)) {
                fprintf(stderr, "usage: %s --seeds A[-B] [--seconds S] [--trace] [--verbose] [--twice]%s\n", sim_program,
                        batches->options != NULL ? batches->options : "");
                return 2;
        }
        for (seed = first; seed <= last && failed < FAILURES_MAX; seed = next) {
                uint64_t end = last - seed < batches->size ? last : seed + batches->size - 1;

                if (limit > 0 && seconds() - began >= limit)
                        break;
                next = batch(seed, end);
                if (next <= end) {
                        failed++;
                        next++;
                }
                run += next - seed;
        }
        took = seconds() - began;
        printf("%s: %llu histories, %u failed, %.1f s, %.0f histories/min\n", sim_program, (unsigned long long)run, failed, took,
               (double)run * 60 / took);
        batches->report(shared->events);
        return failed > 0 ? 1 : 0;
}
