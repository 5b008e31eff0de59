#include "tests/lib/epoch_gate.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool takes_in(const struct epoch_gate *gate, const struct eng_op *op)
{
        const struct fmt_epoch *epoch;

        if (op->kind != ENG_OP_APPEND || op->append.type != FMT_RECORD_EPOCH)
                return false;
        epoch = (const struct fmt_epoch *)op->append.body->data;
        return gate->takes < epoch->drives && ((const struct fmt_epoch_drive *)(epoch + 1))[gate->takes].in == FMT_EPOCH_IN;
}

/* The first is the one; the store may try once more with what is left, or go on. */
static bool is_the_one(struct epoch_gate *gate, const struct eng_op *op)
{
        const struct fmt_epoch *epoch = (const struct fmt_epoch *)op->append.body->data;

        if (!gate->came)
                memcpy(gate->id, epoch->id, FMT_ID);
        gate->came = true;
        return memcmp(gate->id, epoch->id, FMT_ID) == 0;
}

static void cut_tail(struct epoch_gate *gate, struct eng_op *op)
{
        const struct fmt_epoch *epoch = (const struct fmt_epoch *)op->append.body->data;
        size_t len = FMT_EPOCH_PLACED(epoch->drives);

        if (gate->cut == NULL) {
                gate->cut = eng_buf_new(len);
                if (gate->cut == NULL)
                        fail_msg("no memory");
                memcpy(gate->cut->data, op->append.body->data, len);
        }
        op->append.body = gate->cut;
        op->append.body_crc = era_crc32c(0, gate->cut->data, gate->cut->len);
}

static void refuse(struct lp_msg *msg)
{
        struct epoch_gate_drive *d = container_of(msg, struct epoch_gate_drive, msg);
        struct eng_op *op = d->refused;

        d->refused = NULL;
        op->result = -EIO;
        op->done(op);
}

static void gate_submit(struct eng_drive *drive, struct eng_op *op)
{
        struct epoch_gate_drive *d = container_of(drive, struct epoch_gate_drive, drive);
        struct epoch_gate *gate = d->gate;

        if (takes_in(gate, op)) {
                if (!is_the_one(gate, op) || !(gate->reaches >> d->slot & 1)) {
                        d->refused = op;
                        d->msg.run = refuse;
                        lp_post(gate->sf->loops[0], &d->msg);
                        return;
                }
                if (gate->without_tail)
                        cut_tail(gate, op);
        }
        eng_drive_submit(d->inner, op);
}

static const struct eng_drive_ops gate_ops = {.submit = gate_submit};

void epoch_gate_put(struct epoch_gate *gate)
{
        unsigned i;

        for (i = 0; i < gate->sf->drives; i++) {
                struct epoch_gate_drive *d = &gate->drives[i];

                if (d->inner != NULL || gate->sf->store->members[i].drive == NULL)
                        continue;
                d->inner = gate->sf->store->members[i].drive;
                d->drive = *d->inner;
                d->drive.ops = &gate_ops;
                d->gate = gate;
                d->slot = i;
                atomic_store(&gate->sf->store->members[i].drive, &d->drive);
        }
}

void epoch_gate_free(struct epoch_gate *gate)
{
        eng_buf_unref(gate->cut);
        memset(gate, 0, sizeof(*gate));
}
