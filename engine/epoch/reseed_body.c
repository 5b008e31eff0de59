/*
 * reseed_body.c - the epoch that a cluster's pool goes on with after its configuration service was lost: made of the
 * newest EPOCH record that its drives hold (docs/design/reseed.md). A function over values; any thread.
 *
 * It needs no EPOCH record on any drive: the next leader takes it from etcd, as one that was decided and not written.
 */
#include "engine_folder.h"

#include "engine/drive/identity.h"
#include "engine/epoch/epoch.h"

#include <errno.h>
#include <string.h>

/* Where groups are lost, a slot that is out may be the truth of some: it is not given up. */
static int check_given_up(const uint8_t *body, const struct fmt_epoch *epoch, uint64_t given_up, struct eng_error *error)
{
        struct fmt_epoch_drive d;
        struct fmt_epoch_tail tail;
        unsigned slot;

        memcpy(&tail, body + FMT_EPOCH_PLACED(epoch->drives), sizeof(tail));
        for (slot = 0; slot < epoch->drives && (tail.must & FMT_EPOCH_MUST_LOST); slot++) {
                memcpy(&d, body + sizeof(*epoch) + slot * sizeof(d), sizeof(d));
                if ((given_up & eng_bit(slot)) && d.in != FMT_EPOCH_IN && d.in != FMT_EPOCH_JOINING)
                        return eng_error_set(error, -EINVAL, "some groups of names are lost, and slot %u may be the only one that knows them", slot);
        }
        return 0;
}

/* Of a body that has them: which epoch went on without a slot that it leaves out. */
static void reseed_slots(uint8_t *body, const struct fmt_epoch *epoch, uint64_t given_up)
{
        uint8_t *left = body + FMT_EPOCH_PLACED(epoch->drives) + sizeof(struct fmt_epoch_tail);
        unsigned slot;

        for (slot = 0; slot < epoch->drives; slot++) {
                uint8_t *at = body + sizeof(*epoch) + slot * sizeof(struct fmt_epoch_drive);
                struct fmt_epoch_drive d;

                memcpy(&d, at, sizeof(d));
                if ((given_up & eng_bit(slot)) == 0 || (d.flags & FMT_EPOCH_GONE))
                        continue;
                d.in = FMT_EPOCH_OUT;
                d.base = 0;
                d.flags |= FMT_EPOCH_GIVEN_UP;
                memcpy(at, &d, sizeof(d));
                memset(left + slot * sizeof(uint64_t), 0, sizeof(uint64_t)); /* it is the truth of nothing */
        }
}

int eng_epoch_reseed(const void *body, size_t len, uint64_t given_up, uint8_t out[ENG_EPOCH_BODY_MAX], size_t *out_len, struct eng_error *error)
{
        struct eng_epoch_info info;
        struct fmt_epoch_tail tail;
        struct fmt_epoch epoch;
        size_t least;
        int rv = len > ENG_EPOCH_BODY_MAX ? -EBADMSG : eng_epoch_read(body, len, &info);

        if (rv != 0)
                return eng_error_set(error, rv, "an EPOCH record makes no sense");
        if ((info.features & ENG_FEATURE_SITES) == 0)
                return eng_error_set(error, -EINVAL, "a store of one machine was adopted, and no node has led it yet: it is adopted again (millrace admin cluster adopt)");
        memcpy(&epoch, body, sizeof(epoch));
        least = FMT_EPOCH_PLACED(epoch.drives) + sizeof(tail) + FMT_EPOCH_LEFT(epoch.drives);
        if (len < FMT_EPOCH_PLACED(epoch.drives) + sizeof(tail) || least > ENG_EPOCH_BODY_MAX)
                return eng_error_set(error, -EBADMSG, "an EPOCH record is of no cluster's pool");
        if (info.number > INT32_MAX - 2ull * FMT_EPOCH_FORCED_STEP)
                return eng_error_set(error, -EINVAL, "epoch %llu is too high: no number is left above it", (unsigned long long)info.number);
        rv = eng_epoch_serves(body, len, info.in & ~given_up);
        if (rv == 0)
                return eng_error_set(error, -EINVAL, "some groups of names have no current member but on what would be given up");
        if (rv < 0)
                return eng_error_set(error, rv, "%s", strerror(-rv));
        memset(out, 0, ENG_EPOCH_BODY_MAX);
        memcpy(out, body, len);
        rv = check_given_up(out, &epoch, given_up, error);
        if (rv != 0)
                return rv;
        if (len < least) { /* the first epoch of a pool: nobody has left it */
                memcpy(&tail, out + FMT_EPOCH_PLACED(epoch.drives), sizeof(tail));
                tail.size = (uint32_t)(least - FMT_EPOCH_PLACED(epoch.drives));
                memcpy(out + FMT_EPOCH_PLACED(epoch.drives), &tail, sizeof(tail));
                len = least;
        }
        reseed_slots(out, &epoch, given_up);
        memcpy(epoch.parent, epoch.id, FMT_ID);
        lp_random(epoch.id, FMT_ID);
        epoch.number += FMT_EPOCH_FORCED_STEP;
        memcpy(out, &epoch, sizeof(epoch));
        *out_len = len;
        return 0;
}
