/*
 * loops.c - a thread for each event loop.
 *
 * Called by the main thread. The loops are made before anything else is (the engine and the gateway
 * hang themselves onto them), run when all of that is done, and are freed last.
 */
#include "server/loops.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_DEFAULT      (128ull << 20)
#define MEMORY_EACH_DEFAULT (32ull << 20)
#define DRAIN_ROUNDS        10000u
#define NS_PER_S            1000000000l
#define LOOK_NS             (NS_PER_S / 10) /* whether the host of a guest has ended */
#define LOOPS_PER_HASHER    8u
#define SLOTS_LEAST         24u /* a stripe of 8+3 in the share of uploads, twice */
#define SLOTS_LEADER        48u /* it rebuilds, and reads for listings and lookups: no client's bytes go through it */

static unsigned processors(void)
{
        cpu_set_t set;

        if (sched_getaffinity(0, sizeof(set), &set) != 0)
                return 1;
        return (unsigned)CPU_COUNT(&set);
}

int srv_loops_plan(const struct srv_settings *settings, enum srv_part part, unsigned *count, unsigned *slots, struct srv_error *error)
{
        static const unsigned eighths[SRV_PARTS] = {[SRV_PART_ALL] = 8, [SRV_PART_GATEWAY] = 4, [SRV_PART_LINKS] = 3, [SRV_PART_LEADER] = 1};
        const bool node = part != SRV_PART_ALL;
        const unsigned times = node ? 2 : 1; /* what one machine's store needs at least */
        uint64_t memory = settings->memory, each, least = times * MEMORY_EACH_DEFAULT;
        char size[32];

        *count = settings->loops != 0 ? (unsigned)settings->loops : processors();
        if (memory == 0)
                memory = *count * least > MEMORY_DEFAULT ? *count * least : MEMORY_DEFAULT;
        each = memory / *count / LP_SLOT_SIZE;
        if (each < times * SLOTS_LEAST) {
                srv_format_size(memory, size, sizeof(size));
                return srv_fail(error, -EINVAL, "memory: %s is too little for %u loops%s, which need %" PRIu64 "MiB", size, *count, node ? " of a node" : "",
                                ((uint64_t)*count * times * SLOTS_LEAST * LP_SLOT_SIZE >> 20) + 1);
        }
        each = each * eighths[part] / 8;
        if (part == SRV_PART_LEADER)
                each = each < SLOTS_LEAST ? SLOTS_LEAST : each > SLOTS_LEADER ? SLOTS_LEADER : each;
        *slots = each < UINT32_MAX / 128 ? (unsigned)each : UINT32_MAX / 128;
        return 0;
}

unsigned srv_loops_share(unsigned count, unsigned of)
{
        return of == 0 ? count : (count + of - 1) / of;
}

/* The kernel names no reason: say what it usually is. */
static int refuse_loop(unsigned index, unsigned slots, int rv, struct srv_error *error)
{
        const char *hint = "";

        if (rv == -ENOMEM)
                hint = " (too little memory, or a limit of locked memory below 1 MiB: see ulimit -l)";
        else if (rv == -EPERM || rv == -ENOSYS || rv == -EACCES)
                hint = " (io_uring is not allowed here: see the sysctl kernel.io_uring_disabled, and seccomp profiles)";
        return srv_fail(error, rv, "cannot make event loop %u with %u MiB of buffers: %s%s", index, slots,
                        strerror(-rv), hint);
}

static int make_room(struct srv_loops *out, unsigned most, struct srv_error *error)
{
        memset(out, 0, sizeof(*out));
        out->loops = calloc(most, sizeof(*out->loops));
        out->threads = calloc(most, sizeof(*out->threads));
        return out->loops != NULL && out->threads != NULL ? 0 : srv_fail(error, -ENOMEM, "loops: out of memory");
}

static int make_loop(struct srv_loops *out, const struct lp_config *config, struct srv_error *error)
{
        int rv = lp_loop_new(config, &out->loops[out->made]);

        if (rv != 0)
                return refuse_loop(out->made, config->slots + config->peer_slots, rv, error);
        out->threads[out->made].loop = out->loops[out->made];
        out->made++;
        return 0;
}

int srv_loops_make(unsigned count, unsigned slots, struct srv_loops *out, struct srv_error *error)
{
        unsigned hashers = (count + LOOPS_PER_HASHER - 1) / LOOPS_PER_HASHER;
        struct lp_config config;
        int rv = make_room(out, count + hashers, error);

        while (rv == 0 && out->made < count + hashers) {
                bool serves = out->made < count;

                config = (struct lp_config){.index = serves ? out->made : out->made - count,
                                            .name = serves ? "loop" : "hash",
                                            .slots = serves ? slots : 0,
                                            .gives_way = !serves};
                rv = make_loop(out, &config, error);
        }
        out->count = count;
        out->hashers = hashers;
        return rv;
}

int srv_loops_make_links(unsigned count, unsigned peer_slots, struct srv_loops *out, struct srv_error *error)
{
        struct lp_config config;
        int rv = make_room(out, count, error);

        while (rv == 0 && out->made < count) {
                config = (struct lp_config){.index = out->made, .name = "link", .peer_slots = peer_slots};
                rv = make_loop(out, &config, error);
        }
        out->count = count;
        return rv;
}

static void *run_loop(void *arg)
{
        struct srv_loop_thread *thread = arg;

        atomic_store(&thread->result, lp_loop_run(thread->loop));
        return NULL;
}

static int start_thread(struct srv_loop_thread *thread, struct srv_error *error)
{
        int rv = -pthread_create(&thread->thread, NULL, run_loop, thread);

        return rv == 0 ? 0 : srv_fail(error, rv, "cannot start a thread: %s", strerror(-rv));
}

int srv_loops_start(struct srv_loops *loops, struct srv_error *error)
{
        int rv = 0;

        for (; rv == 0 && loops->running < loops->made; loops->running += rv == 0)
                rv = start_thread(&loops->threads[loops->running], error);
        return rv;
}

static void loop_left(void *arg, int result)
{
        struct srv_loop_thread *guest = arg;

        atomic_store(&guest->result, result);
        sem_post(&guest->left);
}

int srv_loops_start_with(struct srv_loops *loops, const struct srv_loops *hosts, struct srv_error *error)
{
        assert(loops->running == 0);
        for (; loops->running < loops->count && loops->running < hosts->running; loops->running++) {
                struct srv_loop_thread *guest = &loops->threads[loops->running];

                guest->host = &hosts->threads[loops->running];
                sem_init(&guest->left, 0, 0);
                lp_loop_join(hosts->loops[loops->running], guest->loop, loop_left, guest);
        }
        return srv_loops_start(loops, error);
}

int srv_loops_failed(const struct srv_loops *loops)
{
        unsigned i;
        int rv;

        for (i = 0; i < loops->running; i++) {
                rv = atomic_load(&loops->threads[i].result);
                if (rv != 0)
                        return rv;
        }
        return 0;
}

static void thread_end(struct srv_loop_thread *thread)
{
        struct timespec until;

        if (thread->host == NULL) {
                pthread_join(thread->thread, NULL);
                return;
        }
        clock_gettime(CLOCK_MONOTONIC, &until);
        while (sem_clockwait(&thread->left, CLOCK_MONOTONIC, &until) != 0) {
                if (atomic_load(&thread->host->result) != 0)
                        lp_loop_drain(thread->host->loop); /* it has ended, perhaps before the guest had come */
                until.tv_nsec += LOOK_NS;
                until.tv_sec += until.tv_nsec / NS_PER_S;
                until.tv_nsec %= NS_PER_S;
        }
        sem_destroy(&thread->left);
}

bool srv_loops_stop(struct srv_loops *loops)
{
        bool all = true;
        unsigned i;

        for (i = 0; i < loops->running; i++)
                lp_loop_stop(loops->loops[i]);
        for (i = 0; i < loops->running; i++) {
                thread_end(&loops->threads[i]);
                all &= atomic_load(&loops->threads[i].result) != -ETIMEDOUT;
        }
        loops->running = 0;
        return all;
}

void srv_loops_drain(struct srv_loops *loops)
{
        unsigned i, round;
        uint64_t done = 1;

        for (round = 0; done > 0 && round < DRAIN_ROUNDS; round++)
                for (i = 0, done = 0; i < loops->made; i++)
                        done += lp_loop_drain(loops->loops[i]);
}

void srv_loops_free(struct srv_loops *loops)
{
        unsigned i;

        for (i = 0; i < loops->made; i++)
                lp_loop_free(loops->loops[i]);
        free(loops->loops);
        free(loops->threads);
        memset(loops, 0, sizeof(*loops));
}
