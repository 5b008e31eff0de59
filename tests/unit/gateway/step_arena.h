/*
 * step_arena.h - the rest of loop.h for a gateway on stepped loops (tests/unit/rdma/step_loop.h): a
 * few slots a loop, which lie in the world's registered arena. What is given back is spoilt, so
 * that a device that reads it later is noticed (I7).
 */
#ifndef GATEWAY_TESTS_STEP_ARENA_H
#define GATEWAY_TESTS_STEP_ARENA_H

#define STEP_SLOTS 3u

static struct step_arena {
        unsigned slots, reserved; /* of slots; how many there are, as the test wants it */
        bool drawn[STEP_SLOTS];
        bool line_full;
        struct lp_reserve *first;
        struct lp_msg msg;
        bool posted;
        struct lp_loop *loop;
} step_arena[STEP_LOOPS];

static void step_arena_start(void)
{
        for (unsigned i = 0; i < STEP_LOOPS; i++)
                step_arena[i] = (struct step_arena){.slots = STEP_SLOTS, .loop = &step_loop[i]};
}

/* All are back. */
static void step_arena_check(void)
{
        for (unsigned i = 0; i < STEP_LOOPS; i++) {
                assert_int_equal(step_arena[i].reserved, 0);
                assert_null(step_arena[i].first);
                for (unsigned k = 0; k < STEP_SLOTS; k++)
                        assert_false(step_arena[i].drawn[k]);
        }
}

static void step_grant(struct lp_msg *msg)
{
        struct step_arena *a = container_of(msg, struct step_arena, msg);
        struct lp_reserve *r;

        a->posted = false;
        while ((r = a->first) != NULL && a->reserved < a->slots) {
                a->first = r->next;
                r->waiting = false;
                a->reserved++;
                r->granted(r);
        }
}

/* There may be room. */
static void step_arena_look(struct step_arena *a)
{
        if (a->posted)
                return;
        a->posted = true;
        a->msg.run = step_grant;
        lp_post(a->loop, &a->msg);
}

/* Who waits has waited for too long. */
static void step_arena_expire(void)
{
        struct lp_reserve *r;

        for (unsigned i = 0; i < STEP_LOOPS; i++)
                while ((r = step_arena[i].first) != NULL) {
                        step_arena[i].first = r->next;
                        r->waiting = false;
                        r->expired(r);
                }
}

int lp_reserve(struct lp_loop *loop, struct lp_reserve *r)
{
        struct step_arena *a = &step_arena[loop->index];
        struct lp_reserve **link = &a->first;

        assert(r->count == 1 && !r->waiting);
        if (a->first == NULL && a->reserved < a->slots) {
                a->reserved++;
                return 0;
        }
        if (a->line_full)
                return -EBUSY;
        while (*link != NULL)
                link = &(*link)->next;
        *link = r;
        r->next = NULL;
        r->waiting = true;
        return -EAGAIN;
}

void lp_reserve_cancel(struct lp_loop *loop, struct lp_reserve *r)
{
        struct lp_reserve **link = &step_arena[loop->index].first;

        if (!r->waiting)
                return;
        while (*link != r)
                link = &(*link)->next;
        *link = r->next;
        r->waiting = false;
}

void lp_unreserve(struct lp_loop *loop, enum lp_share share, unsigned count)
{
        struct step_arena *a = &step_arena[loop->index];

        assert(a->reserved >= count);
        a->reserved -= count;
        step_arena_look(a);
}

bool lp_reserve_contended(const struct lp_loop *loop, enum lp_share share)
{
        return step_arena[loop->index].first != NULL;
}

bool lp_reserve_standing(const struct lp_loop *loop, enum lp_share share)
{
        return false;
}

static char *step_slot(unsigned loop, unsigned k)
{
        return arena + ((size_t)loop * STEP_SLOTS + k) * LP_SLOT_SIZE;
}

void *lp_slot_get(struct lp_loop *loop)
{
        struct step_arena *a = &step_arena[loop->index];

        for (unsigned k = 0; k < STEP_SLOTS; k++)
                if (!a->drawn[k]) {
                        a->drawn[k] = true;
                        return step_slot(loop->index, k);
                }
        assert(false);
        return NULL;
}

void lp_slot_put(struct lp_loop *loop, void *slot)
{
        for (unsigned k = 0; k < STEP_SLOTS; k++)
                if (step_slot(loop->index, k) == slot) {
                        assert(step_arena[loop->index].drawn[k]);
                        step_arena[loop->index].drawn[k] = false;
                        memset(slot, 0xdb, LP_SLOT_SIZE);
                        return;
                }
        assert(false);
}

int64_t lp_wall_ms(void)
{
        return (int64_t)(step_now / 1000000);
}

void lp_timer_stop(struct lp_loop *loop, struct lp_timer *timer)
{
}

void lp_watch_remove(struct lp_loop *loop, struct lp_watch *watch)
{
}

struct lp_loop *lp_become(struct lp_loop *loop)
{
        struct lp_loop *before = step_self;

        step_self = loop;
        return before;
}

uint64_t lp_loop_drain(struct lp_loop *loop)
{
        struct lp_loop *outer = step_self;
        uint64_t n = 0;

        step_self = loop;
        while (run_message(loop))
                n++;
        step_self = outer;
        return n;
}

#endif
