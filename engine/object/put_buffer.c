/*
 * put_buffer.c - places of an upload that are lent to who brings its bytes, so that they need not
 * be copied.
 *
 * Home loop. What is lent is a slot of the reservation: the one that becomes the next unit's frame,
 * or one from which a small object is copied into its record. The first place of a stripe brings
 * the stripe's parity slots with it, so what is lent can always be written, however much of the
 * next stripe is lent already: units of a stripe never wait for slots that a later stripe holds. A
 * place is nobody else's until it is given back (I7).
 */
#include "engine/record/value.h"
#include "engine/object/put.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *bytes_of(void *slot)
{
        return (uint8_t *)slot + LP_SLOT_HEADER;
}

static void put_buffer_drop(struct eng_put *put, struct put_lent *lent)
{
        unsigned i;

        eng_put_drop_slot(put, lent->slot);
        for (i = 0; i < put->m; i++)
                if (lent->parity[i] != NULL)
                        eng_put_drop_slot(put, lent->parity[i]);
}

/* ---- lending --------------------------------------------------------------------------------- */

/* How many bytes the next place has. */
static uint32_t next_len(const struct eng_put *put)
{
        uint64_t left = put->params.size - put->lent_to;
        uint32_t unit = put->striped ? eng_put_unit_of(put, put->lent_stripe) : put->store->inline_max;

        return left < unit ? (uint32_t)left : unit;
}

static void lend(struct eng_put *put)
{
        struct put_lent *lent = &put->lent[(put->lent_first + put->lent_count++) % PUT_LENT_MAX];
        unsigned i;

        memset(lent, 0, sizeof(*lent));
        lent->len = next_len(put);
        lent->slot = eng_put_take_slot(put);
        for (i = 0; put->striped && put->lent_unit == 0 && i < put->m; i++)
                lent->parity[i] = eng_put_take_slot(put);
        assert(lent->slot != NULL && lent->len > 0);
        put->lent_to += lent->len;
        assert(put->lent_to <= put->params.size);
        if (put->striped && ++put->lent_unit == put->k) {
                put->lent_unit = 0;
                put->lent_stripe++;
        }
}

static bool can_lend(struct eng_put *put)
{
        unsigned parity = put->striped && put->lent_unit == 0 ? put->m : 0;

        return put->granted && put->lent_count < PUT_LENT_MAX && eng_put_has_slots(put, 1 + parity);
}

ssize_t eng_put_buffer(struct eng_put *put, void **buffer)
{
        assert(put->state == PUT_BODY && put->head_len == 0 && put->lent_to < put->params.size &&
               put->params.size != ENG_SIZE_UNKNOWN);
        put->waiting = false;
        if (put->error == 0 && !put->reserved) {
                put->error = eng_put_reserve(put);
                put->reserved = put->error == 0;
        }
        if (put->error != 0)
                return put->error;
        if (!can_lend(put)) {
                put->waiting = true;
                put->no_room = put->granted && put->lent_count == 0 ? lp_clock() : 0;
                return 0;
        }
        lend(put);
        *buffer = bytes_of(put->lent[(put->lent_first + put->lent_count - 1) % PUT_LENT_MAX].slot);
        return put->lent[(put->lent_first + put->lent_count - 1) % PUT_LENT_MAX].len;
}

/* ---- taking back ----------------------------------------------------------------------------- */

static int copy_small(struct eng_put *put, const struct put_lent *lent)
{
        assert(put->head_buf == NULL && lent->len <= put->store->inline_max);
        put->head_buf = eng_buf_new(lent->len);
        if (put->head_buf == NULL)
                return -ENOMEM;
        put->head = put->head_buf->data;
        memcpy(put->head, bytes_of(lent->slot), lent->len);
        put->head_len = put->head_cap = lent->len;
        return 0;
}

/* The slot is the current unit from here on, and its parity the stripe's. */
static int take_unit(struct eng_put *put, struct put_lent *lent)
{
        int rv = put->in_stripe ? 0 : eng_put_begin_stripe(put);

        assert(put->current == NULL && put->fill == 0);
        if (rv != 0)
                return rv;
        if (lent->parity[0] != NULL) /* the first of its stripe */
                memcpy(put->parity, lent->parity, put->m * sizeof(put->parity[0]));
        put->current = lent->slot;
        put->fill = lent->len;
        if (put->fill == put->stripe_unit)
                eng_put_flush_unit(put);
        return 0;
}

void eng_put_filled(struct eng_put *put, void *buffer)
{
        struct put_lent *lent = &put->lent[put->lent_first];
        int rv = put->error;

        assert(put->state == PUT_BODY && put->lent_count > 0 && buffer == bytes_of(lent->slot));
        put->lent_first = (put->lent_first + 1) % PUT_LENT_MAX;
        put->lent_count--;
        put->taken += lent->len;
        if (rv == 0)
                rv = put->striped ? take_unit(put, lent) : copy_small(put, lent);
        if (put->error == 0)
                put->error = rv;
        if (rv != 0 || !put->striped)
                put_buffer_drop(put, lent);
        if (!put->striped)
                eng_put_unreserve(put);
}

void eng_put_drop_lent(struct eng_put *put)
{
        while (put->lent_count > 0) {
                put_buffer_drop(put, &put->lent[put->lent_first]);
                put->lent_first = (put->lent_first + 1) % PUT_LENT_MAX;
                put->lent_count--;
        }
}
