/*
 * get_near.c - reading a stripe with as few bytes through a network as can be, and without slow drives: any
 * k shards will do, and what is computed costs less than what is sent. The home loop, as get_stripe.c.
 *
 * For stripes that are wanted whole. Parity takes the place of as many data units, so the slots are those of
 * a plain read: each computed unit comes to lie in the slot of a parity unit that it was computed from.
 */
#include "engine/base/store.h"
#include "engine/object/get.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Where the shards of a stripe are that can be read. */
struct near_shards {
        unsigned units, data, parity; /* of the object; of them near; near parity */
        bool whole;                   /* each unit can be read */
        uint32_t read, far;           /* shards that can be read, and those that are far: other loops change that meanwhile */
};

static bool shard_can_be_read(const struct eng_get *get, const struct get_stripe *s, unsigned shard)
{
        int drive = eng_get_drive_of(get, s, shard);

        return drive >= 0 && !eng_drive_is_last(get->store->members[drive].drive);
}

/* What is slow is as good as far away. */
static bool shard_is_far(const struct eng_get *get, const struct get_stripe *s, unsigned shard)
{
        unsigned slot = eng_part_drive(&s->part, s->stripe, shard);
        const struct eng_drive *drive = get->store->members[slot].drive;

        return drive->far || eng_read_is_slow(&get->el->home.read_times, slot);
}

static void near_look(const struct eng_get *get, const struct get_stripe *s, struct near_shards *out)
{
        unsigned i, k = s->part.head.k;
        bool read, near;

        *out = (struct near_shards){.whole = true};
        for (i = 0; i < eng_get_shards(s); i++) {
                if (eng_get_is_zero_unit(s, i))
                        continue;
                read = shard_can_be_read(get, s, i);
                near = read && !shard_is_far(get, s, i);
                out->read |= (uint32_t)read << i;
                out->far |= (uint32_t)(read && !near) << i;
                out->units += i < k;
                out->whole &= i >= k || read;
                out->data += i < k && near;
                out->parity += i >= k && near;
        }
}

static bool wants_whole(const struct get_stripe *s)
{
        return s->lo == 0 && s->hi == eng_stripe_bytes(&s->part.head, s->stripe);
}

bool eng_get_read_near(struct eng_get *get, struct get_stripe *s)
{
        struct near_shards there;
        unsigned i, shard, k = s->part.head.k, stand_ins, far_data;
        bool far;

        if (!wants_whole(s))
                return false;
        near_look(get, s, &there);
        far_data = there.units - there.data;
        stand_ins = there.parity < far_data ? there.parity : far_data;
        if (!there.whole || stand_ins == 0)
                return false;
        far_data -= stand_ins;
        s->near = true;
        for (i = 0; i < eng_get_shards(s); i++) {
                shard = i < there.units ? (i + s->stripe) % there.units : i; /* stripes take turns at which are left out */
                if ((there.read >> shard & 1) == 0)
                        continue;
                far = there.far >> shard & 1;
                if (shard >= k && (far || stand_ins == 0))
                        continue;
                if (shard < k && far && far_data == 0)
                        continue;
                stand_ins -= shard >= k;
                far_data -= shard < k && far;
                eng_get_read_shard(get, s, shard, eng_get_drive_of(get, s, shard), 0, s->unit);
        }
        assert(stand_ins == 0 && far_data == 0 && s->pending == there.units);
        return true;
}

/* Units that were not read, and the parity that they are computed from. Their number. */
static unsigned near_missing(const struct get_stripe *s, uint8_t missing[ERA_MAX_SHARDS], uint8_t parity[ERA_MAX_SHARDS])
{
        unsigned i, n = 0, have = 0;

        for (i = 0; i < eng_get_shards(s); i++) {
                if (i < s->part.head.k && s->state_of[i] != SHARD_GOOD && !eng_get_is_zero_unit(s, i))
                        missing[n++] = (uint8_t)i;
                else if (i >= s->part.head.k && s->state_of[i] == SHARD_GOOD)
                        parity[have++] = (uint8_t)i;
        }
        return n <= have ? n : 0;
}

int eng_get_near_end(struct eng_get *get, struct get_stripe *s)
{
        uint8_t missing[ERA_MAX_SHARDS], parity[ERA_MAX_SHARDS];
        unsigned i, n = near_missing(s, missing, parity);
        struct get_sources from = {{NULL}, {false}};
        void *to[ERA_MAX_SHARDS];
        uint64_t began = lp_clock();
        struct era_code *code;
        bool made;
        int rv;

        assert(s->near && s->pending == 0);
        if (n == 0)
                return -EAGAIN;
        rv = eng_get_code_for(get, &s->part.head, &code, &made);
        if (rv != 0)
                return rv;
        for (i = 0; i < eng_get_shards(s); i++) {
                from.slot[i] = s->slot[i];
                from.present[i] = s->slot[i] != NULL || eng_get_is_zero_unit(s, i);
        }
        for (i = 0; i < n; i++)
                to[i] = s->slot[parity[i]];
        rv = eng_get_compute(code, eng_get_shards(s), &from, 0, s->unit, missing, to, n);
        if (made)
                era_code_free(code);
        eng_step_ends(get->el, ENG_STEP_REBUILD, began);
        for (i = 0; i < n && rv == 0; i++) {
                s->slot[missing[i]] = s->slot[parity[i]];
                s->slot[parity[i]] = NULL;
                s->state_of[missing[i]] = SHARD_GOOD;
                s->state_of[parity[i]] = SHARD_NONE;
                s->summed &= ~(1u << missing[i]);
        }
        return rv;
}
