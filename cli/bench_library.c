/*
 * bench_library.c - `millrace bench --transport`: its client and memory, and when operations of a
 * phase begin. Main thread; called by bench.c. bench_library_op.c says what an operation is, and
 * what came of it.
 */
#include "bench_library.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "load_content.h"

#define PARALLEL 16u /* requests at once, at least: what the library has where nothing is said */
#define ALIGN    4096u
#define RESULTS  16u /* taken in one go */
#define LOOK_MS  1000u

static uint64_t aligned(uint64_t len)
{
        return (len + ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- client and memory ----------------------------------------------------------------------- */

static int open_client(struct bench_library *library, const struct cli_call *call, unsigned flying)
{
        struct mr_settings settings = call->settings;
        int rv;

        settings.parallel = flying > PARALLEL ? flying : PARALLEL;
        library->asked = settings.transport;
        rv = mr_client_new(&settings, &library->client);
        explicit_bzero(&settings, sizeof(settings));
        if (rv != 0) {
                cli_error("cannot start: %s", strerror(-rv));
                return CLI_FAILED;
        }
        cli_interrupt_also(library->client);
        return CLI_OK;
}

/* Opens the session, so that no operation's latency has that in it. */
static int library_find_rdma(struct bench_library *library)
{
        struct mr_rdma_report report;
        struct mr_error err = {0};

        if (library->asked == MR_TRANSPORT_TCP || mr_probe_rdma(library->client, &report, &err) == 0)
                return CLI_OK;
        if (library->asked == MR_TRANSPORT_RDMA || mr_client_canceled(library->client))
                return cli_failed("RDMA", &err);
        snprintf(library->no_rdma, sizeof(library->no_rdma), "%s", err.message);
        return CLI_OK;
}

/* How much of each kind of memory the phases need, at most. */
static void measure_memory(struct bench_library *library, const struct bench_phase phases[], unsigned count,
                           bool verify)
{
        for (unsigned i = 0; i < count; i++) {
                const struct bench_phase *phase = &phases[i];
                uint64_t place = aligned(bench_plan_place(phase)), len = place * phase->connections;

                if (phase->size > library->object_max)
                        library->object_max = phase->size;
                if (phase->kind == LOAD_PUT && verify) { /* by as many at once as there is room for */
                        place = aligned(phase->size);
                        len = place * phase->connections;
                        len = len < BENCH_MEMORY_MAX ? len : place;
                }
                if (len > library->places_len)
                        library->places_len = len;
        }
}

static int make_memory(struct bench_library *library)
{
        uint64_t len = library->places_len + LOAD_PATTERN + library->object_max;
        char *pattern = load_pattern_new();
        int rv = pattern != NULL ? mr_buffer_new(library->client, len, MR_BUFFER_HUGE, &library->buffer) : -ENOMEM;

        if (rv != 0) {
                cli_error("cannot have %llu MiB of memory: %s", (unsigned long long)(len >> 20), strerror(-rv));
                free(pattern);
                return CLI_FAILED;
        }
        library->memory = mr_buffer_memory(library->buffer);
        library->pattern = library->memory + library->places_len;
        memset(library->memory, 0, library->places_len); /* its pages are there when the clock starts */
        memcpy(library->pattern, pattern, LOAD_PATTERN);
        for (uint64_t done = 0; done < library->object_max;) {
                size_t run = load_content_run(0, library->object_max - done);

                memcpy(library->pattern + LOAD_PATTERN + done, pattern, run);
                done += run;
        }
        free(pattern);
        return CLI_OK;
}

int bench_library_open(const struct cli_call *call, const struct bench_phase phases[], unsigned count,
                       struct bench_library **out)
{
        struct bench_library *library = calloc(1, sizeof(*library));
        unsigned flying = 1;
        int status;

        if (library == NULL) {
                cli_error("out of memory");
                return CLI_FAILED;
        }
        for (unsigned i = 0; i < count; i++)
                flying = phases[i].connections > flying ? phases[i].connections : flying;
        measure_memory(library, phases, count, call->bench.verify);
        status = open_client(library, call, flying);
        if (status == CLI_OK)
                status = library_find_rdma(library);
        if (status == CLI_OK)
                status = make_memory(library);
        if (status == CLI_OK)
                *out = library;
        else
                bench_library_free(library);
        return status;
}

void bench_library_free(struct bench_library *library)
{
        if (library == NULL)
                return;
        cli_interrupt_also(NULL);
        mr_buffer_free(library->buffer);
        mr_client_free(library->client);
        free(library);
}

const char *bench_library_no_rdma(const struct bench_library *library)
{
        return library->no_rdma;
}

/* ---- a phase --------------------------------------------------------------------------------- */

/* With --rate, when the next operation may begin; else 0: at once. */
static uint64_t library_due_ns(const struct bench_flight *flight)
{
        double rate = flight->settings->rate;

        return rate > 0 ? flight->start_ns + (uint64_t)((double)flight->issued / rate * 1e9) : 0;
}

static bool library_more_to_do(struct bench_flight *flight, uint64_t now)
{
        if (flight->settings->count > 0 && flight->issued >= flight->settings->count)
                flight->over = true;
        if ((flight->end_ns != 0 && now >= flight->end_ns) || flight->result->failed >= LOAD_FAILURES_MAX)
                flight->over = true;
        return !flight->over;
}

static void library_begin_due(struct bench_flight *flight)
{
        unsigned budget = flight->idle_count; /* those that fail at once come back: not in this round */

        for (; budget > 0; budget--) {
                uint64_t now = load_now_ns(), due = library_due_ns(flight);
                struct bench_slot *slot;
                int rv;

                if (!library_more_to_do(flight, now) || due > now)
                        return;
                slot = flight->idle[--flight->idle_count];
                slot->since_ns = due > 0 ? due : now;
                slot->index = flight->issued++;
                rv = bench_op_start(flight, slot);
                if (rv == 0)
                        continue;
                bench_op_failed(flight, slot, rv);
                flight->idle[flight->idle_count++] = slot;
        }
}

/* How long nothing may happen: until an operation is due, or somebody wants to look. */
static struct timespec library_longest_wait(const struct bench_flight *flight)
{
        uint64_t now = load_now_ns(), until = flight->moment_ns, wait;

        if (flight->idle_count > 0 && !flight->over && library_due_ns(flight) < until)
                until = library_due_ns(flight);
        wait = until > now ? until - now : 0;
        return (struct timespec){.tv_sec = (time_t)(wait / 1000000000u), .tv_nsec = (long)(wait % 1000000000u)};
}

static void library_report_progress(struct bench_flight *flight, bool interrupted)
{
        const struct load_watch *watch = flight->watch;
        uint64_t now = load_now_ns();

        if (now < flight->moment_ns && !interrupted)
                return;
        flight->moment_ns = now + (watch->every_ms > 0 ? watch->every_ms : LOOK_MS) * 1000000ull;
        flight->result->seconds = (double)(now - flight->start_ns) / 1e9;
        if (watch->moment != NULL)
                watch->moment(watch->arg, flight->result);
        flight->result->stopped = watch->stop != NULL && watch->stop(watch->arg);
}

static void library_take_results(struct bench_flight *flight)
{
        struct mr_result results[RESULTS];
        struct pollfd fd = {.fd = mr_queue_fd(flight->queue), .events = POLLIN};
        struct timespec wait = library_longest_wait(flight);
        bool interrupted = ppoll(&fd, 1, &wait, NULL) < 0 && errno == EINTR;
        int taken = mr_queue_take(flight->queue, results, RESULTS, 0);
        uint64_t now = load_now_ns();

        for (int i = 0; i < taken; i++) {
                struct bench_slot *slot = results[i].tag;

                flight->last_ns = now;
                bench_op_end(flight, slot, &results[i], now);
                mr_result_free(&results[i]);
                flight->idle[flight->idle_count++] = slot;
        }
        library_report_progress(flight, interrupted);
}

static void library_run_phase(struct bench_flight *flight)
{
        double cpu = load_own_cpu_s();

        flight->start_ns = load_now_ns();
        flight->last_ns = flight->start_ns;
        if (flight->settings->duration_s > 0)
                flight->end_ns = flight->start_ns + (uint64_t)(flight->settings->duration_s * 1e9);
        while (!flight->result->stopped) {
                library_begin_due(flight);
                if (!library_more_to_do(flight, load_now_ns()) && flight->idle_count == flight->slot_count)
                        break;
                library_take_results(flight);
        }
        flight->result->seconds = (double)(flight->last_ns - flight->start_ns) / 1e9;
        flight->result->cpu_s = load_own_cpu_s() - cpu;
}

static int make_slots(struct bench_flight *flight)
{
        flight->slots = calloc(flight->slot_count, sizeof(*flight->slots));
        flight->idle = calloc(flight->slot_count, sizeof(struct bench_slot *));
        flight->gets = calloc(flight->batch, sizeof(*flight->gets));
        flight->names = calloc(flight->batch, sizeof(*flight->names));
        if (flight->slots == NULL || flight->idle == NULL || flight->gets == NULL || flight->names == NULL)
                return -ENOMEM;
        for (unsigned i = flight->slot_count; i-- > 0;) {
                struct bench_slot *slot = &flight->slots[i];

                slot->number = i;
                flight->idle[flight->idle_count++] = slot;
                if (!flight->batched)
                        continue;
                slot->got = calloc(flight->batch, sizeof(*slot->got));
                if (slot->got == NULL)
                        return -ENOMEM;
        }
        return mr_queue_new(flight->library->client, flight->slot_count, &flight->queue);
}

static void library_set_up(struct bench_flight *flight, unsigned batch)
{
        const struct load_settings *o = flight->settings;
        const struct bench_library *library = flight->library;

        flight->batched = batch > 0;
        flight->batch = batch > 0 ? batch : 1;
        flight->len = o->phase == LOAD_RANGE ? o->range_size : o->size;
        flight->place = aligned(flight->len * flight->batch);
        flight->slot_count = o->connections < BENCH_FLIGHT_MAX ? o->connections : BENCH_FLIGHT_MAX;
        if (o->phase != LOAD_PUT && library->places_len / flight->place < flight->slot_count)
                flight->slot_count = (unsigned)(library->places_len / flight->place);
        assert(flight->slot_count > 0); /* measure_memory() has seen the phase */
        if (library->asked == MR_TRANSPORT_TCP)
                return;
        flight->get_prefers_rdma = mr_prefers_rdma(library->client, false, flight->len, flight->batch);
        flight->put_prefers_rdma = mr_prefers_rdma(library->client, true, o->size, 1);
}

/* Operations that are under way are canceled, and awaited: their memory is ours again. */
static void library_tear_down(struct bench_flight *flight)
{
        mr_queue_free(flight->queue);
        for (unsigned i = 0; flight->slots != NULL && i < flight->slot_count; i++)
                free(flight->slots[i].got);
        free(flight->slots);
        free(flight->idle);
        free(flight->gets);
        free(flight->names);
}

int bench_library_run(struct bench_library *library, const struct load_settings *settings, unsigned batch,
                      const struct load_watch *watch, struct load_result *out, struct bench_carried *carried)
{
        struct bench_flight flight = {
                .library = library, .settings = settings, .watch = watch, .result = out, .carried = carried};
        int rv;

        memset(out, 0, sizeof(*out));
        memset(carried, 0, sizeof(*carried));
        library_set_up(&flight, batch);
        rv = make_slots(&flight);
        if (rv == 0)
                library_run_phase(&flight);
        else if (watch->line != NULL)
                watch->line(watch->arg, "cannot start: out of memory");
        library_tear_down(&flight);
        return rv;
}
