/*
 * sim_loop.c - loop.h over the simulator's events: loops without threads.
 *
 * A loop's mailbox is one queue in the order of posting, as the real one is, which keeps order per
 * sender and causality; what varies is when the loop gets round to each message, so that concurrent
 * work is interleaved in every way. Files and descriptors are not here: the engine proper never
 * asks for them.
 */
#include "tests/sim/sim.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(addr, size)   ((void)(addr), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(addr, size) ((void)(addr), (void)(size))
#endif

#define LINE_MAX     1024u
#define WALL_BASE_MS 1700000000000ll
#define FRESH_BYTES  8192u /* of a drawn slot that are spoilt, so that nobody relies on what stood there */

struct share_line {
        unsigned slots, reserved, waiting;
        struct lp_reserve *first, *last;
};

struct lp_loop {
        unsigned index, process, slots, used;
        bool stopped;
        struct lp_msg *first, **last;
        uint64_t busy_until; /* when the last message posted so far is run */
        bool granting;
        struct share_line shares[LP_SHARES];
        void **drawn;         /* slots that are out */
        struct lp_loop *next; /* of all there are */
};

static struct lp_loop *loops;
static void **idle_slots;
static unsigned idle_count, idle_size;

/* ---- memory of slots, kept from process to process of the simulated ones --------------------- */

static void *new_slot(void)
{
        void *slot;

        if (idle_count > 0)
                return idle_slots[--idle_count];
        slot = aligned_alloc(4096, LP_SLOT_SIZE);
        assert(slot != NULL);
        return slot;
}

static void keep_slot(void *slot)
{
        if (idle_count == idle_size) {
                idle_size = idle_size == 0 ? 64 : 2 * idle_size;
                idle_slots = realloc(idle_slots, idle_size * sizeof(*idle_slots));
                assert(idle_slots != NULL);
        }
        ASAN_POISON_MEMORY_REGION(slot, LP_SLOT_SIZE);
        idle_slots[idle_count++] = slot;
}

/* ---- life ------------------------------------------------------------------------------------ */

int lp_loop_new(const struct lp_config *config, struct lp_loop **out)
{
        struct lp_loop *loop = calloc(1, sizeof(*loop));

        if (loop == NULL)
                return -ENOMEM;
        loop->drawn = calloc(config->slots + config->peer_slots + 1, sizeof(*loop->drawn));
        if (loop->drawn == NULL) {
                free(loop);
                return -ENOMEM;
        }
        loop->index = config->index;
        loop->process = sim.process;
        loop->slots = config->slots + config->peer_slots;
        loop->last = &loop->first;
        loop->shares[LP_SHARE_GET].slots = config->slots / 2;
        loop->shares[LP_SHARE_PUT].slots = config->slots * 3 / 8;
        loop->shares[LP_SHARE_INTERNAL].slots = config->slots - config->slots / 2 - config->slots * 3 / 8;
        loop->shares[LP_SHARE_PEER].slots = config->peer_slots;
        loop->next = loops;
        loops = loop;
        *out = loop;
        return 0;
}

static void clear_loops(bool all, unsigned process)
{
        struct lp_loop **at = &loops, *loop;

        while ((loop = *at) != NULL) {
                if (!all && loop->process != process) {
                        at = &loop->next;
                        continue;
                }
                *at = loop->next;
                while (loop->used > 0)
                        keep_slot(loop->drawn[--loop->used]);
                free(loop->drawn);
                free(loop);
        }
}

void sim_loops_clear(void)
{
        clear_loops(true, 0);
}

void sim_loops_clear_of(unsigned process)
{
        clear_loops(false, process);
}

void lp_loop_stop(struct lp_loop *loop)
{
        loop->stopped = true;
        sim_events_drop(loop);
}

uint64_t lp_loop_drain(struct lp_loop *loop)
{
        struct lp_msg *msg;
        uint64_t n = 0;

        sim.self = loop;
        while ((msg = loop->first) != NULL) {
                loop->first = msg->next;
                if (loop->first == NULL)
                        loop->last = &loop->first;
                msg->run(msg);
                n++;
        }
        sim.self = NULL;
        return n;
}

struct lp_loop *lp_self(void)
{
        return sim.self;
}

struct lp_loop *lp_become(struct lp_loop *loop)
{
        struct lp_loop *before = sim.self;

        sim.self = loop;
        return before;
}

unsigned lp_index(const struct lp_loop *loop)
{
        return loop->index;
}

uint64_t lp_now(const struct lp_loop *loop)
{
        return sim_clock(loop->process);
}

uint64_t lp_clock(void)
{
        return sim_clock(sim.self != NULL ? sim.self->process : sim.process);
}

uint64_t lp_boot_clock(void)
{
        return lp_clock();
}

int64_t lp_wall_ms(void)
{
        return WALL_BASE_MS + (int64_t)(lp_clock() / SIM_MS);
}

void lp_random(void *buf, size_t len)
{
        uint8_t *to = buf;
        size_t i;

        for (i = 0; i < len; i++)
                to[i] = (uint8_t)sim_random(SIM_ENGINE);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void deliver(void *arg)
{
        struct lp_loop *loop = arg;
        struct lp_msg *msg = loop->first;

        if (msg == NULL)
                return; /* drained */
        loop->first = msg->next;
        if (loop->first == NULL)
                loop->last = &loop->first;
        msg->run(msg);
}

static uint64_t round_delay(void)
{
        if (sim.slow_loops && sim_chance(SIM_SCHEDULE, 4096))
                return sim_below(SIM_SCHEDULE, 300 * SIM_MS);
        if (sim_chance(SIM_SCHEDULE, 64))
                return sim_below(SIM_SCHEDULE, 2 * SIM_MS);
        return 200 + sim_below(SIM_SCHEDULE, 20 * SIM_US);
}

void lp_post(struct lp_loop *to, struct lp_msg *msg)
{
        uint64_t when = sim.now + round_delay();

        if (when <= to->busy_until)
                when = to->busy_until + 1 + sim_below(SIM_SCHEDULE, 2 * SIM_US);
        to->busy_until = when;
        msg->next = NULL;
        *to->last = msg;
        to->last = &msg->next;
        if (!to->stopped)
                sim_at(when - sim.now, to, deliver, to);
}

/* Later is any time: messages here take theirs as they are drawn. */
void lp_post_last(struct lp_loop *loop, struct lp_msg *msg)
{
        lp_post(loop, msg);
}

/* ---- timers ---------------------------------------------------------------------------------- */

static void expired(void *arg)
{
        struct lp_timer *timer = arg;

        timer->armed = 0;
        timer->expired(timer);
}

void lp_timer_start(struct lp_loop *loop, struct lp_timer *timer, uint64_t delay_ns)
{
        lp_timer_stop(loop, timer);
        timer->deadline = sim_clock(loop->process) + delay_ns;
        if (!loop->stopped)
                timer->armed = sim_at(sim_span(loop->process, delay_ns) + round_delay(), loop, expired, timer);
}

void lp_timer_stop(struct lp_loop *loop, struct lp_timer *timer)
{
        if (timer->armed != 0 && !loop->stopped)
                sim_cancel(timer->armed);
        timer->armed = 0;
}

/* ---- the arena ------------------------------------------------------------------------------- */

static unsigned promised(const struct lp_loop *loop)
{
        unsigned share, sum = 0;

        for (share = 0; share < LP_SHARES; share++)
                sum += loop->shares[share].reserved;
        return sum;
}

void *lp_slot_get(struct lp_loop *loop)
{
        void *slot;

        assert(loop == sim.self);
        if (loop->used >= promised(loop))
                return NULL;
        slot = loop->drawn[loop->used++] = new_slot();
        ASAN_UNPOISON_MEMORY_REGION(slot, LP_SLOT_SIZE);
        memset(slot, 0xa5, FRESH_BYTES);
        return slot;
}

void lp_slot_put(struct lp_loop *loop, void *slot)
{
        unsigned i = 0;

        assert(loop == sim.self);
        while (i < loop->used && loop->drawn[i] != slot)
                i++;
        assert(i < loop->used);
        loop->drawn[i] = loop->drawn[--loop->used];
        memset(slot, 0x5a, FRESH_BYTES);
        keep_slot(slot);
}

unsigned sim_loop_process(const struct lp_loop *loop)
{
        return loop->process;
}

unsigned sim_slots_out(const struct lp_loop *loop)
{
        return loop->used;
}

static bool fits(const struct share_line *line, unsigned count)
{
        return count <= line->slots - line->reserved;
}

static void leave_line(struct share_line *line, struct lp_reserve *r)
{
        if (r->prev != NULL)
                r->prev->next = r->next;
        else
                line->first = r->next;
        if (r->next != NULL)
                r->next->prev = r->prev;
        else
                line->last = r->prev;
        r->next = r->prev = NULL;
        line->waiting--;
        r->waiting = false;
}

static void grant(void *arg)
{
        struct lp_loop *loop = arg;
        struct share_line *line;

        loop->granting = false;
        for (line = loop->shares; line < loop->shares + LP_SHARES; line++) {
                unsigned most = line->waiting;

                while (most-- > 0 && line->first != NULL && fits(line, line->first->count)) {
                        struct lp_reserve *r = line->first;

                        leave_line(line, r);
                        line->reserved += r->count;
                        r->granted(r);
                }
        }
}

static void grant_soon(struct lp_loop *loop)
{
        if (loop->granting || loop->stopped)
                return;
        loop->granting = true;
        sim_at(round_delay(), loop, grant, loop);
}

int lp_reserve(struct lp_loop *loop, struct lp_reserve *r)
{
        struct share_line *line = &loop->shares[r->share];

        assert((unsigned)r->share < LP_SHARES && !r->waiting);
        if (r->count > line->slots)
                return -EINVAL;
        if (line->first == NULL && fits(line, r->count)) {
                line->reserved += r->count;
                return 0;
        }
        if (line->waiting >= LINE_MAX)
                return -EBUSY;
        r->since = sim_clock(loop->process);
        r->next = NULL;
        r->prev = line->last;
        if (line->last != NULL)
                line->last->next = r;
        else
                line->first = r;
        line->last = r;
        line->waiting++;
        r->waiting = true;
        return -EAGAIN;
}

void lp_reserve_cancel(struct lp_loop *loop, struct lp_reserve *r)
{
        if (!r->waiting)
                return;
        leave_line(&loop->shares[r->share], r);
        grant_soon(loop);
}

void lp_unreserve(struct lp_loop *loop, enum lp_share share, unsigned count)
{
        assert((unsigned)share < LP_SHARES && count <= loop->shares[share].reserved);
        loop->shares[share].reserved -= count;
        assert(loop->used <= promised(loop));
        grant_soon(loop);
}

bool lp_reserve_contended(const struct lp_loop *loop, enum lp_share share)
{
        return loop->shares[share].first != NULL;
}

unsigned lp_share_free(const struct lp_loop *loop, enum lp_share share)
{
        return loop->shares[share].slots - loop->shares[share].reserved;
}

unsigned lp_share_slots(const struct lp_loop *loop, enum lp_share share)
{
        return loop->shares[share].slots;
}
