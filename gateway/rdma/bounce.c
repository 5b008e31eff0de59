/*
 * bounce.c - small objects side by side in slots of the arena (bounce.h). A slot is filled from its
 * beginning, and empty again when all in it has completed (I7). At most GW_PACK_SLOTS a bounce
 * buffer (I9).
 */
#include "gateway/rdma/bounce.h"

#include "engine.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

#define ALIGN 64u /* a cache line: what one core copies in is not shared with what the device reads */

_Static_assert(LP_SLOT_SIZE >= RDX_WRITE_MAX, "the longest write has room");

static void bounce_slot_release(struct gw_bounce_slot *slot)
{
        assert(slot->base != NULL && slot->out == 0 && !slot->waiting);
        lp_slot_put(slot->bounce->loop, slot->base);
        lp_unreserve(slot->bounce->loop, slot->reserve.share, slot->reserve.count);
        slot->base = NULL;
}

/* Last thing in a callback. */
static void bounce_change(struct gw_bounce *bounce, int rv)
{
        GW_CHECK(gw_bounce, bounce);
        bounce->wanted = false;
        bounce->changed(bounce, rv);
}

static void bounce_buffer_granted(struct lp_reserve *reserve)
{
        struct gw_bounce_slot *slot = container_of(reserve, struct gw_bounce_slot, reserve);

        GW_CHECK(gw_bounce_slot, slot);
        assert(slot->waiting && slot->base == NULL);
        slot->waiting = false;
        slot->base = lp_slot_get(slot->bounce->loop);
        bounce_change(slot->bounce, 0);
}

static void bounce_expired(struct lp_reserve *reserve)
{
        struct gw_bounce_slot *slot = container_of(reserve, struct gw_bounce_slot, reserve);

        GW_CHECK(gw_bounce_slot, slot);
        assert(slot->waiting && slot->base == NULL);
        slot->waiting = false;
        bounce_change(slot->bounce, ENG_GET_BUSY);
}

static void bounce_completed(struct rdx_write *write, int result)
{
        struct gw_bounce_piece *piece = container_of(write, struct gw_bounce_piece, write);
        struct gw_bounce_slot *slot = piece->slot;

        GW_CHECK(gw_bounce_slot, slot);
        assert(slot->base != NULL && !slot->waiting);
        assert(slot->out > 0 && slot->out <= slot->pieces);
        if (--slot->out > 0)
                return;
        slot->used = 0;
        slot->pieces = 0;
        bounce_change(slot->bounce, 0);
}

void gw_bounce_init(struct gw_bounce *bounce, struct lp_loop *loop, void (*changed)(struct gw_bounce *bounce, int rv))
{
        unsigned i, k;

        bounce->magic = gw_bounce_magic;
        bounce->loop = loop;
        bounce->changed = changed;
        for (i = 0; i < GW_PACK_SLOTS; i++) {
                struct gw_bounce_slot *slot = &bounce->slot[i];

                slot->magic = gw_bounce_slot_magic;
                slot->bounce = bounce;
                slot->reserve = (struct lp_reserve){
                        .count = 1, .share = LP_SHARE_GET, .granted = bounce_buffer_granted, .expired = bounce_expired};
                for (k = 0; k < GW_PACK_PIECES; k++)
                        slot->piece[k] = (struct gw_bounce_piece){.write.done = bounce_completed, .slot = slot};
        }
}

static struct rdx_write *bounce_place(struct gw_bounce_slot *slot, size_t len)
{
        struct rdx_write *write;

        if (slot->base == NULL || slot->pieces == GW_PACK_PIECES || len > LP_SLOT_SIZE - slot->used)
                return NULL;
        write = &slot->piece[slot->pieces++].write;
        write->buf = slot->base + slot->used;
        write->len = (uint32_t)len;
        slot->used += (len + ALIGN - 1) / ALIGN * ALIGN;
        if (slot->used > LP_SLOT_SIZE)
                slot->used = LP_SLOT_SIZE;
        slot->out++;
        return write;
}

/* 0: held now. */
static int hold(struct gw_bounce_slot *slot)
{
        int rv;

        assert(!slot->waiting && slot->base == NULL && slot->out == 0);
        rv = lp_reserve(slot->bounce->loop, &slot->reserve);
        slot->waiting = rv == -EAGAIN;
        if (rv == 0)
                slot->base = lp_slot_get(slot->bounce->loop);
        return rv;
}

int gw_bounce_take(struct gw_bounce *bounce, size_t len, struct rdx_write **out)
{
        bool comes = false; /* a slot will be free */
        unsigned i;
        int rv = 0;

        GW_CHECK(gw_bounce, bounce);
        assert(len > 0 && len <= RDX_WRITE_MAX);
        for (i = 0; i < GW_PACK_SLOTS; i++) {
                *out = bounce_place(&bounce->slot[i], len);
                if (*out != NULL)
                        return 0;
                comes = comes || bounce->slot[i].base != NULL || bounce->slot[i].waiting;
        }
        for (i = 0; i < GW_PACK_SLOTS; i++) {
                struct gw_bounce_slot *slot = &bounce->slot[i];

                if (slot->base != NULL || slot->waiting)
                        continue;
                if (comes && lp_reserve_contended(bounce->loop, LP_SHARE_GET))
                        break; /* others have none */
                rv = hold(slot);
                if (rv == 0) {
                        *out = bounce_place(slot, len);
                        return 0;
                }
                comes = comes || rv == -EAGAIN;
                break;
        }
        if (!comes)
                return rv;
        bounce->wanted = true;
        return -EAGAIN;
}

void gw_bounce_trim(struct gw_bounce *bounce, bool waited)
{
        unsigned i;

        for (i = 0; i < GW_PACK_SLOTS; i++) {
                struct gw_bounce_slot *slot = &bounce->slot[i];

                if (slot->waiting && !waited) {
                        lp_reserve_cancel(bounce->loop, &slot->reserve);
                        slot->waiting = false;
                }
                if (slot->base != NULL && slot->out == 0)
                        bounce_slot_release(slot);
        }
}

bool gw_bounce_idle(const struct gw_bounce *bounce)
{
        unsigned i;

        for (i = 0; i < GW_PACK_SLOTS; i++)
                if (bounce->slot[i].base != NULL || bounce->slot[i].waiting)
                        return false;
        return true;
}

void gw_bounce_end(struct gw_bounce *bounce)
{
        gw_bounce_trim(bounce, false);
        assert(gw_bounce_idle(bounce));
}
