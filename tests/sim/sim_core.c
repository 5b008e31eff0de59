/*
 * sim_core.c - randomness, the queue of events, and what is said about a history.
 */
#include "tests/sim/sim.h"

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sim sim;
const char *sim_program = "sim";
uint64_t sim_sweep_at;

struct event {
        uint64_t time, serial;
        uint32_t tie;
        bool used;
        uint8_t process;
        struct lp_loop *self;
        void (*fn)(void *arg); /* NULL: cancelled */
        void *arg;
};

static struct event *slab;
static uint32_t slab_size, *idle, idle_count, *heap, heap_count;
static uint64_t serial;
static struct {
        struct lp_loop *self;
        uint64_t until;
        uint32_t put_off; /* events, so far */
} blocked;
static struct {
        int64_t offset;
        int ppm;
        uint64_t until;   /* stopped so long */
        uint32_t put_off; /* events, in this stop */
} processes[SIM_PROCESSES];

/* ---- randomness ------------------------------------------------------------------------------ */

uint64_t sim_mix(uint64_t x)
{
        x ^= x >> 30;
        x *= 0xbf58476d1ce4e5b9ull;
        x ^= x >> 27;
        x *= 0x94d049bb133111ebull;
        return x ^ (x >> 31);
}

uint64_t sim_random(enum sim_stream stream)
{
        sim.streams[stream] += 0x9e3779b97f4a7c15ull;
        return sim_mix(sim.streams[stream]);
}

uint64_t sim_below(enum sim_stream stream, uint64_t n)
{
        return sim_random(stream) % n;
}

bool sim_chance(enum sim_stream stream, unsigned of)
{
        return of != 0 && sim_below(stream, of) == 0;
}

uint64_t sim_skewed(enum sim_stream stream, uint64_t lo, uint64_t hi)
{
        uint64_t span = hi - lo + 1, bits = 1;

        while (bits < 63 && (1ull << bits) < span)
                bits++;
        bits = 1 + sim_below(stream, bits);
        return lo + sim_random(stream) % ((1ull << bits) < span ? 1ull << bits : span);
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool before(uint32_t a, uint32_t b)
{
        const struct event *x = &slab[a], *y = &slab[b];

        if (x->time != y->time)
                return x->time < y->time;
        return x->tie != y->tie ? x->tie < y->tie : x->serial < y->serial;
}

static void swap(uint32_t i, uint32_t j)
{
        uint32_t kept = heap[i];

        heap[i] = heap[j];
        heap[j] = kept;
}

static void sift_up(uint32_t i)
{
        for (; i > 0 && before(heap[i], heap[(i - 1) / 2]); i = (i - 1) / 2)
                swap(i, (i - 1) / 2);
}

static void sift_down(uint32_t i)
{
        uint32_t child;

        for (; (child = 2 * i + 1) < heap_count; i = child) {
                if (child + 1 < heap_count && before(heap[child + 1], heap[child]))
                        child++;
                if (!before(heap[child], heap[i]))
                        return;
                swap(i, child);
        }
}

static void grow(void)
{
        uint32_t size = slab_size == 0 ? 1024 : 2 * slab_size;

        slab = realloc(slab, size * sizeof(*slab));
        idle = realloc(idle, size * sizeof(*idle));
        heap = realloc(heap, size * sizeof(*heap));
        assert(slab != NULL && idle != NULL && heap != NULL);
        while (slab_size < size) {
                memset(&slab[slab_size], 0, sizeof(*slab));
                idle[idle_count++] = slab_size++;
        }
}

uint32_t sim_at(uint64_t delay, struct lp_loop *self, void (*fn)(void *arg), void *arg)
{
        uint32_t at;

        if (idle_count == 0)
                grow();
        at = idle[--idle_count];
        slab[at] = (struct event){.time = sim.now + delay,
                                  .serial = ++serial,
                                  .tie = (uint32_t)sim_random(SIM_SCHEDULE),
                                  .used = true,
                                  .process = (uint8_t)(self != NULL ? sim_loop_process(self) : sim.process),
                                  .self = self,
                                  .fn = fn,
                                  .arg = arg};
        heap[heap_count++] = at;
        sift_up(heap_count - 1);
        return at + 1;
}

void sim_cancel(uint32_t handle)
{
        assert(handle > 0 && handle <= slab_size && slab[handle - 1].used);
        slab[handle - 1].fn = NULL;
}

void sim_block(struct lp_loop *self, uint64_t ns)
{
        if (blocked.until > sim.now)
                return;
        blocked.self = self;
        blocked.until = sim.now + ns;
        blocked.put_off = 0;
}

/*
 * The first event was to happen on a loop that is blocked. Those put off keep their order by their
 * number.
 */
static bool put_off(void)
{
        struct event *e = &slab[heap[0]];

        if (e->time < processes[e->process].until && e->fn != NULL) {
                e->time = processes[e->process].until;
                e->tie = processes[e->process].put_off++;
                sift_down(0);
                return true;
        }
        if (e->self == NULL || e->self != blocked.self || e->time >= blocked.until)
                return false;
        e->time = blocked.until;
        e->tie = blocked.put_off++;
        sift_down(0);
        return true;
}

static struct {
        jmp_buf to;
        bool runs;
} event_frame;

/* A function of its own, so that nothing a caller has in registers is at stake. */
static void run_event(void (*fn)(void *arg), void *arg)
{
        event_frame.runs = true;
        if (_setjmp(event_frame.to) == 0)
                fn(arg);
        event_frame.runs = false;
}

void sim_abandon(void)
{
        if (event_frame.runs)
                longjmp(event_frame.to, 1);
}

bool sim_step(void)
{
        struct event e;
        uint32_t at;

        do {
                while (heap_count > 0 && put_off())
                        ;
                if (heap_count == 0)
                        return false;
                at = heap[0];
                heap[0] = heap[--heap_count];
                sift_down(0);
                e = slab[at];
                slab[at].used = false;
                idle[idle_count++] = at;
        } while (e.fn == NULL);
        sim.now = e.time;
        sim.events++;
        sim_note(1, e.time, e.serial);
        sim.self = e.self;
        sim.process = e.process;
        run_event(e.fn, e.arg);
        sim.self = NULL;
        sim.process = 0;
        return true;
}

void sim_events_clear(void)
{
        uint32_t i;

        for (i = 0; i < heap_count; i++) {
                slab[heap[i]].used = false;
                idle[idle_count++] = heap[i];
        }
        heap_count = 0;
        memset(&blocked, 0, sizeof(blocked));
}

/* ---- processes ------------------------------------------------------------------------------- */

unsigned sim_enter(unsigned process)
{
        unsigned before = sim.process;

        assert(process < SIM_PROCESSES);
        sim.process = process;
        return before;
}

void sim_clock_set(unsigned process, int64_t offset_ns, int ppm)
{
        processes[process].offset = offset_ns;
        processes[process].ppm = ppm;
}

uint64_t sim_clock(unsigned process)
{
        int64_t gained = (int64_t)(sim.now / 1000) * processes[process].ppm / 1000;

        return (uint64_t)((int64_t)sim.now + processes[process].offset + gained);
}

uint64_t sim_span(unsigned process, uint64_t ns)
{
        if (processes[process].ppm == 0)
                return ns;
        return (uint64_t)((double)ns * 1e6 / (1e6 + processes[process].ppm)) + 1001; /* the clock is read in steps */
}

void sim_process_clear(unsigned process)
{
        uint32_t i;

        for (i = 0; i < heap_count; i++)
                if (slab[heap[i]].process == process)
                        slab[heap[i]].fn = NULL;
        processes[process].until = 0;
}

void sim_process_stop(unsigned process, uint64_t ns)
{
        uint32_t i;

        if (ns == 0) { /* what was put off is due now, in its order */
                for (i = 0; i < heap_count; i++)
                        if (slab[heap[i]].process == process && slab[heap[i]].time == processes[process].until)
                                slab[heap[i]].time = sim.now;
                for (i = heap_count / 2; i-- > 0;)
                        sift_down(i);
                processes[process].until = 0;
        } else if (processes[process].until <= sim.now) {
                processes[process].until = sim.now + ns;
                processes[process].put_off = 0;
        }
}

void sim_events_drop(const struct lp_loop *self)
{
        uint32_t i;

        for (i = 0; i < heap_count; i++)
                if (slab[heap[i]].self == self)
                        slab[heap[i]].fn = NULL;
}

/* ---- what happened --------------------------------------------------------------------------- */

void sim_note(uint64_t what, uint64_t a, uint64_t b)
{
        sim.digest = sim_mix(sim.digest ^ what) + sim_mix(a) * 3 + sim_mix(b + 0x9e3779b97f4a7c15ull);
}

void sim_trace(const char *format, ...)
{
        va_list args;

        if (!sim.trace)
                return;
        printf("%12.6f ", (double)sim.now / 1e9);
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        putchar('\n');
}

void sim_fail(const char *format, ...)
{
        va_list args;

        printf("FAILED seed %llu at event %llu, %.6f s: ", (unsigned long long)sim.seed, (unsigned long long)sim.events,
               (double)sim.now / 1e9);
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("\n  replay: %s ", sim_program);
        if (sim_sweep_at == 0)
                printf("--seeds %llu --trace\n", (unsigned long long)sim.seed);
        else
                printf("--sweep %llu --at %llu --trace\n", (unsigned long long)sim.seed,
                       (unsigned long long)sim_sweep_at);
        fflush(stdout);
        _exit(SIM_FAILED);
}

bool sim_sweep_point(void)
{
        return ++sim.points == sim_sweep_at;
}

void sim_begin(uint64_t seed, bool trace)
{
        unsigned i;

        sim_events_clear();
        idle_count = 0;
        for (i = slab_size; i-- > 0;)
                idle[idle_count++] = i;
        serial = 0;
        memset(&sim, 0, sizeof(sim));
        sim.seed = seed;
        sim.trace = trace;
        sim.now = SIM_S;
        memset(processes, 0, sizeof(processes));
        for (i = 0; i < SIM_OPERATOR; i++)
                sim.streams[i] = sim_mix(seed * SIM_OPERATOR + i + 1);
        for (; i < SIM_STREAMS; i++) /* came later: those before go on as they went */
                sim.streams[i] = sim_mix(~seed ^ (uint64_t)i << 32);
}
