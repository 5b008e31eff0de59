/*
 * pack.c - small objects side by side in slots of the arena (pack.h). A slot is filled from its beginning, and empty again when all in it has completed (I7). At most
 * GW_PACK_SLOTS a pack (I9).
 */
#include "gateway/rdma/pack.h"

#include "engine.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

#define ALIGN 64u /* a cache line: what one core copies in is not shared with what the device reads */

_Static_assert(LP_SLOT_SIZE >= RDX_WRITE_MAX, "the longest write has room");

static void pack_slot_release(struct gw_pack_slot *slot)
{
        assert(slot->base != NULL && slot->out == 0 && !slot->waiting);
        lp_slot_put(slot->pack->loop, slot->base);
        lp_unreserve(slot->pack->loop, slot->reserve.share, slot->reserve.count);
        slot->base = NULL;
}

/* Last thing in a callback. */
static void pack_change(struct gw_pack *pack, int rv)
{
        GW_CHECK(gw_pack, pack);
        pack->wanted = false;
        pack->changed(pack, rv);
}

static void pack_granted(struct lp_reserve *reserve)
{
        struct gw_pack_slot *slot = container_of(reserve, struct gw_pack_slot, reserve);

        GW_CHECK(gw_pack_slot, slot);
        assert(slot->waiting && slot->base == NULL);
        slot->waiting = false;
        slot->base = lp_slot_get(slot->pack->loop);
        pack_change(slot->pack, 0);
}

static void pack_expired(struct lp_reserve *reserve)
{
        struct gw_pack_slot *slot = container_of(reserve, struct gw_pack_slot, reserve);

        GW_CHECK(gw_pack_slot, slot);
        assert(slot->waiting && slot->base == NULL);
        slot->waiting = false;
        pack_change(slot->pack, ENG_GET_BUSY);
}

static void pack_completed(struct rdx_write *write, int result)
{
        struct gw_pack_piece *piece = container_of(write, struct gw_pack_piece, write);
        struct gw_pack_slot *slot = piece->slot;

        GW_CHECK(gw_pack_slot, slot);
        assert(slot->base != NULL && !slot->waiting);
        assert(slot->out > 0 && slot->out <= slot->pieces);
        if (--slot->out > 0)
                return;
        slot->used = 0;
        slot->pieces = 0;
        pack_change(slot->pack, 0);
}

void gw_pack_init(struct gw_pack *pack, struct lp_loop *loop, void (*changed)(struct gw_pack *pack, int rv))
{
        unsigned i, k;

        pack->magic = gw_pack_magic;
        pack->loop = loop;
        pack->changed = changed;
        for (i = 0; i < GW_PACK_SLOTS; i++) {
                struct gw_pack_slot *slot = &pack->slot[i];

                slot->magic = gw_pack_slot_magic;
                slot->pack = pack;
                slot->reserve = (struct lp_reserve){
                        .count = 1, .share = LP_SHARE_GET, .granted = pack_granted, .expired = pack_expired};
                for (k = 0; k < GW_PACK_PIECES; k++)
                        slot->piece[k] = (struct gw_pack_piece){.write.done = pack_completed, .slot = slot};
        }
}

static struct rdx_write *pack_place(struct gw_pack_slot *slot, size_t len)
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
static int hold(struct gw_pack_slot *slot)
{
        int rv;

        assert(!slot->waiting && slot->base == NULL && slot->out == 0);
        rv = lp_reserve(slot->pack->loop, &slot->reserve);
        slot->waiting = rv == -EAGAIN;
        if (rv == 0)
                slot->base = lp_slot_get(slot->pack->loop);
        return rv;
}

int gw_pack_take(struct gw_pack *pack, size_t len, struct rdx_write **out)
{
        bool comes = false; /* a slot will be free */
        unsigned i;
        int rv = 0;

        GW_CHECK(gw_pack, pack);
        assert(len > 0 && len <= RDX_WRITE_MAX);
        for (i = 0; i < GW_PACK_SLOTS; i++) {
                *out = pack_place(&pack->slot[i], len);
                if (*out != NULL)
                        return 0;
                comes = comes || pack->slot[i].base != NULL || pack->slot[i].waiting;
        }
        for (i = 0; i < GW_PACK_SLOTS; i++) {
                struct gw_pack_slot *slot = &pack->slot[i];

                if (slot->base != NULL || slot->waiting)
                        continue;
                if (comes && lp_reserve_contended(pack->loop, LP_SHARE_GET))
                        break; /* others have none */
                rv = hold(slot);
                if (rv == 0) {
                        *out = pack_place(slot, len);
                        return 0;
                }
                comes = comes || rv == -EAGAIN;
                break;
        }
        if (!comes)
                return rv;
        pack->wanted = true;
        return -EAGAIN;
}

void gw_pack_trim(struct gw_pack *pack, bool waited)
{
        unsigned i;

        for (i = 0; i < GW_PACK_SLOTS; i++) {
                struct gw_pack_slot *slot = &pack->slot[i];

                if (slot->waiting && !waited) {
                        lp_reserve_cancel(pack->loop, &slot->reserve);
                        slot->waiting = false;
                }
                if (slot->base != NULL && slot->out == 0)
                        pack_slot_release(slot);
        }
}

bool gw_pack_idle(const struct gw_pack *pack)
{
        unsigned i;

        for (i = 0; i < GW_PACK_SLOTS; i++)
                if (pack->slot[i].base != NULL || pack->slot[i].waiting)
                        return false;
        return true;
}

void gw_pack_end(struct gw_pack *pack)
{
        gw_pack_trim(pack, false);
        assert(gw_pack_idle(pack));
}
