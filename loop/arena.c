/*
 * arena.c - slots for I/O, and who may draw them.
 *
 * Called on the loop's thread. The arena is one mapping made when the loop is made, so a request
 * never waits for an allocation. Slots are promised before they are drawn: a reservation counts
 * against its share, and the shares together are the arena, so a drawn slot is never missing. Each
 * share has a line of at most LP_LINE_MAX (I9); those whose turn has come are told from the loop's
 * round, never from inside the call that freed the slots.
 */
#include "loop/loop_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(addr, size)   ((void)(addr), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(addr, size) ((void)(addr), (void)(size))
#endif

/* ---- memory ---------------------------------------------------------------------------------- */

static void arena_divide(struct lp_arena *arena, unsigned slots, unsigned peer_slots)
{
        unsigned get = slots * LP_GET_PERCENT / 100;
        unsigned put = slots * LP_PUT_PERCENT / 100;

        arena->shares[LP_SHARE_PEER].slots = peer_slots;
        if (slots == 0)
                return;
        arena->shares[LP_SHARE_GET].slots = get > 0 ? get : 1;
        arena->shares[LP_SHARE_PUT].slots = put > 0 ? put : 1;
        arena->shares[LP_SHARE_INTERNAL].slots =
                slots - arena->shares[LP_SHARE_GET].slots - arena->shares[LP_SHARE_PUT].slots;
}

static int map(struct lp_arena *arena)
{
        unsigned i;

        arena->size = (size_t)arena->slots * LP_SLOT_SIZE;
        arena->base = mmap(NULL, arena->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (arena->base == MAP_FAILED)
                return -errno;
        madvise(arena->base, arena->size, MADV_HUGEPAGE); /* faster to register and to use; refused without harm */
        for (i = 0; i < arena->slots; i++)
                arena->idle[i] = arena->base + (size_t)(arena->slots - 1 - i) * LP_SLOT_SIZE;
        ASAN_POISON_MEMORY_REGION(arena->base, arena->size);
        return 0;
}

int lp_arena_open(struct lp_arena *arena, unsigned slots, unsigned peer_slots)
{
        int rv = -ENOMEM;

        if (slots > 0 && slots <= LP_SHARE_INTERNAL)
                return -EINVAL; /* not one for each share */
        if (slots > UINT32_MAX / 100 || peer_slots > UINT32_MAX / 100)
                return -EINVAL;
        arena->slots = slots + peer_slots;
        arena_divide(arena, slots, peer_slots);
        if (arena->slots == 0)
                return 0;
        arena->idle = calloc(arena->slots, sizeof(*arena->idle));
        arena->drawn = calloc(arena->slots, sizeof(*arena->drawn));
        if (arena->idle != NULL && arena->drawn != NULL)
                rv = map(arena);
        if (rv == 0)
                return 0;
        free(arena->drawn);
        free(arena->idle);
        return rv;
}

void lp_arena_close(struct lp_arena *arena)
{
        if (arena->slots == 0)
                return;
        ASAN_UNPOISON_MEMORY_REGION(arena->base, arena->size);
        munmap(arena->base, arena->size);
        free(arena->drawn);
        free(arena->idle);
}

int lp_arena_group(const struct lp_arena *arena, const void *buf, size_t len)
{
        uintptr_t offset = (uintptr_t)buf - (uintptr_t)arena->base; /* huge if buf lies before */

        if (offset >= arena->size || len > arena->size - offset || len == 0)
                return -1;
        if (offset / LP_GROUP_SIZE != (offset + len - 1) / LP_GROUP_SIZE)
                return -1;
        return (int)(offset / LP_GROUP_SIZE);
}

/* ---- slots ----------------------------------------------------------------------------------- */

static unsigned promised(const struct lp_arena *arena)
{
        unsigned share, sum = 0;

        for (share = 0; share < LP_SHARES; share++)
                sum += arena->shares[share].reserved;
        return sum;
}

void *lp_slot_get(struct lp_loop *loop)
{
        struct lp_arena *arena = &loop->arena;
        char *slot;

        if (arena->used >= promised(arena))
                return NULL;
        slot = arena->idle[arena->slots - 1 - arena->used++];
        arena->drawn[(size_t)(slot - arena->base) / LP_SLOT_SIZE] = true;
        lp_counter_set(&loop->figures.slots_used, arena->used);
        ASAN_UNPOISON_MEMORY_REGION(slot, LP_SLOT_SIZE);
        return slot;
}

void lp_slot_put(struct lp_loop *loop, void *slot)
{
        struct lp_arena *arena = &loop->arena;
        size_t offset = (uintptr_t)slot - (uintptr_t)arena->base;

        assert(offset < arena->size && offset % LP_SLOT_SIZE == 0);
        assert(arena->drawn[offset / LP_SLOT_SIZE]);
        arena->drawn[offset / LP_SLOT_SIZE] = false;
        arena->idle[arena->slots - arena->used--] = slot;
        lp_counter_set(&loop->figures.slots_used, arena->used);
        ASAN_POISON_MEMORY_REGION(slot, LP_SLOT_SIZE);
}

/* ---- reservations ---------------------------------------------------------------------------- */

static void arena_show(struct lp_loop *loop, enum lp_share share)
{
        lp_counter_set(&loop->figures.reserved[share], loop->arena.shares[share].reserved);
        lp_counter_set(&loop->figures.reserve_waiting[share], loop->arena.shares[share].waiting);
}

static bool loop_arena_fits(const struct lp_share_line *line, unsigned count)
{
        return count <= line->slots - line->reserved;
}

static bool has_waited(const struct lp_loop *loop, const struct lp_reserve *r, uint64_t ns)
{
        return lp_now(loop) - r->since >= ns;
}

/*
 * The one to be served next, or NULL. The store's own work gives up nothing by waiting: its oldest
 * must not starve.
 */
static struct lp_reserve *first_choice(const struct lp_loop *loop, const struct lp_share_line *line)
{
        if (line->first == NULL || line >= &loop->arena.shares[LP_SHARE_INTERNAL]) /* and LP_SHARE_PEER */
                return line->first;
        return has_waited(loop, line->first, LP_LINE_STANDING_NS) ? line->last : line->first;
}

static void join_line(struct lp_share_line *line, struct lp_reserve *r)
{
        r->next = NULL;
        r->prev = line->last;
        if (line->last != NULL)
                line->last->next = r;
        else
                line->first = r;
        line->last = r;
        line->waiting++;
        r->waiting = true;
}

static void arena_leave_queue(struct lp_share_line *line, struct lp_reserve *r)
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

int lp_reserve(struct lp_loop *loop, struct lp_reserve *r)
{
        struct lp_share_line *line;
        int rv = 0;

        if ((unsigned)r->share >= LP_SHARES)
                return -EINVAL;
        line = &loop->arena.shares[r->share];
        assert(!r->waiting);
        if (r->count > line->slots)
                return -EINVAL;
        if (line->first == NULL && loop_arena_fits(line, r->count)) {
                line->reserved += r->count;
        } else if (line->waiting >= LP_LINE_MAX) {
                rv = -EBUSY;
        } else {
                r->since = lp_now(loop);
                join_line(line, r);
                rv = -EAGAIN;
        }
        arena_show(loop, r->share);
        return rv;
}

/*
 * Those behind a wide reservation that leaves may fit now; the round finds out
 * (lp_arena_grant_due).
 */
void lp_reserve_cancel(struct lp_loop *loop, struct lp_reserve *r)
{
        if (!r->waiting)
                return;
        arena_leave_queue(&loop->arena.shares[r->share], r);
        arena_show(loop, r->share);
}

void lp_unreserve(struct lp_loop *loop, enum lp_share share, unsigned count)
{
        struct lp_arena *arena = &loop->arena;

        assert((unsigned)share < LP_SHARES && count <= arena->shares[share].reserved);
        arena->shares[share].reserved -= count;
        assert(arena->used <= promised(arena));
        arena_show(loop, share);
}

bool lp_arena_grant_due(const struct lp_loop *loop)
{
        const struct lp_share_line *line, *lines = loop->arena.shares;

        for (line = lines; line < lines + LP_SHARES; line++)
                if (line->first != NULL && loop_arena_fits(line, first_choice(loop, line)->count))
                        return true;
        return false;
}

/* The longest in line are at its head. */
static void expire(struct lp_loop *loop, enum lp_share share)
{
        struct lp_share_line *line = &loop->arena.shares[share];
        struct lp_reserve *r;

        while ((r = line->first) != NULL && r->expired != NULL && has_waited(loop, r, LP_LINE_LONGEST_NS)) {
                arena_leave_queue(line, r);
                arena_show(loop, share);
                r->expired(r);
        }
}

/* Those who join while granted() runs wait for the next round. */
static void grant_share(struct lp_loop *loop, enum lp_share share)
{
        struct lp_share_line *line = &loop->arena.shares[share];
        unsigned most = line->waiting;
        struct lp_reserve *r;

        while (most-- > 0 && (r = first_choice(loop, line)) != NULL && loop_arena_fits(line, r->count)) {
                arena_leave_queue(line, r);
                line->reserved += r->count;
                arena_show(loop, share);
                r->granted(r);
        }
}

void lp_arena_grant(struct lp_loop *loop)
{
        unsigned share;

        for (share = 0; share < LP_SHARES; share++) {
                expire(loop, share);
                grant_share(loop, share);
        }
}

bool lp_reserve_contended(const struct lp_loop *loop, enum lp_share share)
{
        return loop->arena.shares[share].first != NULL;
}

bool lp_reserve_standing(const struct lp_loop *loop, enum lp_share share)
{
        const struct lp_reserve *first = loop->arena.shares[share].first;

        return first != NULL && has_waited(loop, first, LP_LINE_STANDING_NS);
}

unsigned lp_share_slots(const struct lp_loop *loop, enum lp_share share)
{
        return loop->arena.shares[share].slots;
}

unsigned lp_share_free(const struct lp_loop *loop, enum lp_share share)
{
        return loop->arena.shares[share].slots - loop->arena.shares[share].reserved;
}

void lp_arena_memory(const struct lp_loop *loop, void **base, size_t *len)
{
        *base = loop->arena.slots > 0 ? loop->arena.base : NULL;
        *len = loop->arena.slots > 0 ? loop->arena.size : 0;
}
