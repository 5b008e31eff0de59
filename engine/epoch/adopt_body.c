/*
 * adopt_body.c - the epoch with which a store of one machine becomes a cluster's pool: made of the newest EPOCH record
 * that its drives hold (docs/design/adopt.md). A function over values; any thread.
 *
 * It needs no EPOCH record on any drive: the first leader takes it from etcd, as one that was decided and not written.
 */
#include "engine_folder.h"

#include "engine/drive/identity.h"
#include "engine/epoch/epoch.h"

#include <errno.h>
#include <string.h>

/* What a slot keeps. That it was being added last is over: the epoch is in force. */
#define ADOPT_KEPT ((uint8_t)(FMT_EPOCH_FILLING | FMT_EPOCH_GONE | FMT_EPOCH_DROPPING_MIGRATED | FMT_EPOCH_LOST_WRITES))

static unsigned adopt_first_slot(uint64_t slots)
{
        return (unsigned)__builtin_ctzll(slots);
}

/* Why the store cannot be a pool as it is. */
static int adopt_check(const struct eng_epoch_info *info, struct eng_error *error)
{
        const uint64_t out = ~(info->in | info->gone) & eng_all_slots(info->slots);

        if (info->features & ENG_FEATURE_SITES)
                return eng_error_set(error, -EEXIST, "it is a cluster's pool already");
        if (info->number == 0 || info->slots == 0 || info->in == 0)
                return eng_error_set(error, -EBADMSG, "an EPOCH record makes no sense");
        if (info->m == 0)
                return eng_error_set(error, -EINVAL, "its erasure code is %u+0: there is one copy of each name, and a cluster's pool takes changes with two at least", info->k);
        if (info->adding != 0 || info->leaving != 0)
                return eng_error_set(error, -EINVAL, "slot %u is being %s: start the store, and let that end first", adopt_first_slot(info->adding | info->leaving),
                                     info->adding != 0 ? "added" : "removed");
        if (info->given_up != 0)
                return eng_error_set(error, -EINVAL, "slot %u was given up: start the store, and replace or remove its drive first", adopt_first_slot(info->given_up));
        if (out != 0)
                return eng_error_set(error, -EINVAL, "slot %u is not in: start the store, and bring its drive up to date, replace or remove it first", adopt_first_slot(out));
        if (info->number > INT32_MAX - 2ull * FMT_EPOCH_FORCED_STEP)
                return eng_error_set(error, -EINVAL, "epoch %llu is too high: no number is left above it", (unsigned long long)info->number);
        return 0;
}

int eng_epoch_adopt(const void *body, size_t len, const struct eng_site *site, uint8_t out[ENG_EPOCH_BODY_MAX], size_t *out_len, struct eng_error *error)
{
        struct eng_epoch_info info;
        struct fmt_epoch_tail tail;
        struct fmt_epoch epoch;
        size_t placed;
        unsigned slot;
        int rv = len > ENG_EPOCH_BODY_MAX ? -EBADMSG : eng_epoch_read(body, len, &info);

        if (rv != 0)
                return eng_error_set(error, rv, "an EPOCH record makes no sense");
        rv = adopt_check(&info, error);
        if (rv != 0)
                return rv;
        memcpy(&epoch, body, sizeof(epoch));
        placed = FMT_EPOCH_PLACED(epoch.drives);
        _Static_assert(FMT_EPOCH_PLACED(ENG_DRIVES_MAX) + sizeof(tail) + FMT_EPOCH_LEFT(ENG_DRIVES_MAX) <= ENG_EPOCH_BODY_MAX, "room");
        memset(out, 0, ENG_EPOCH_BODY_MAX);
        memcpy(out, body, len < placed ? len : placed);
        for (slot = 0; slot < epoch.drives; slot++) {
                uint8_t *at = out + sizeof(epoch) + slot * sizeof(struct fmt_epoch_drive);
                struct fmt_epoch_drive d;

                memcpy(&d, at, sizeof(d));
                d.flags &= ADOPT_KEPT;
                d.base = d.in == FMT_EPOCH_IN;
                d.node = site->node;
                d.rack = site->rack;
                memcpy(at, &d, sizeof(d));
                if (len < placed) /* each slot has its first drive */
                        memcpy(out + sizeof(epoch) + epoch.drives * sizeof(d) + (size_t)slot * FMT_ID, d.drive_id, FMT_ID);
        }
        tail = (struct fmt_epoch_tail){.size = (uint32_t)(sizeof(tail) + FMT_EPOCH_LEFT(epoch.drives)), .must = FMT_EPOCH_MUST_SITES, .in_force = epoch.number};
        memcpy(tail.in_force_id, epoch.id, FMT_ID);
        memcpy(out + placed, &tail, sizeof(tail));
        memcpy(epoch.parent, epoch.id, FMT_ID);
        lp_random(epoch.id, FMT_ID);
        epoch.number += FMT_EPOCH_FORCED_STEP;
        memcpy(out, &epoch, sizeof(epoch));
        *out_len = placed + tail.size;
        return 0;
}

int eng_epoch_is_most(const void *body, size_t len, uint64_t slots)
{
        struct eng_epoch_info info;
        struct fmt_epoch_drive d;
        eng_mask base = 0;
        unsigned slot;
        int rv = len > ENG_EPOCH_BODY_MAX ? -EBADMSG : eng_epoch_read(body, len, &info);

        if (rv != 0)
                return rv;
        for (slot = 0; slot < info.slots; slot++) {
                memcpy(&d, (const uint8_t *)body + sizeof(struct fmt_epoch) + slot * sizeof(d), sizeof(d));
                base |= d.base != 0 ? eng_bit(slot) : 0;
        }
        return eng_is_majority(slots, info.in) && (base == 0 || eng_is_majority(slots, base));
}
