/*
 * shard_fixture.c - see shard_fixture.h.
 */
#include "tests/lib/shard_fixture.h"
#include "tests/lib/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint8_t sh_pattern(uint64_t id, uint32_t stripe, size_t i)
{
        return (uint8_t)(id * 31 + stripe * 7 + i + i / 251);
}

uint8_t *sh_new_slot(void)
{
        uint8_t *slot = aligned_alloc(4096, LP_SLOT_SIZE);

        if (slot == NULL)
                abort();
        return slot;
}

int sh_write(struct fx *fx, uint64_t id, uint32_t stripe, uint32_t len)
{
        uint8_t *slot = sh_new_slot();
        struct fx_op op = {.op = {.kind = ENG_OP_WRITE}};
        size_t i;
        int rv;

        fx_id(op.op.write.object_id, id);
        op.op.write.stripe = stripe;
        op.op.write.shard = SH_SHARD;
        op.op.write.k = 2;
        op.op.write.m = 1;
        op.op.write.payload_len = len;
        op.op.write.slot = slot;
        op.op.write.payload = slot + LP_SLOT_HEADER;
        for (i = 0; i < len; i++)
                slot[LP_SLOT_HEADER + i] = sh_pattern(id, stripe, i);
        rv = fx_run(fx, &op);
        free(slot);
        return rv;
}

int sh_read(struct fx *fx, uint64_t id, uint32_t stripe, uint32_t len)
{
        uint8_t *slot = sh_new_slot();
        struct fx_op op = {.op = {.kind = ENG_OP_READ}};
        size_t i;
        int rv;

        fx_id(op.op.read.object_id, id);
        op.op.read.stripe = stripe;
        op.op.read.shard = SH_SHARD;
        op.op.read.len = len;
        op.op.read.payload_len = len;
        op.op.read.slot = slot;
        rv = fx_run(fx, &op);
        for (i = 0; i < len && rv == 0; i++)
                if (slot[LP_SLOT_HEADER + i] != sh_pattern(id, stripe, i))
                        rv = -EILSEQ;
        free(slot);
        return rv;
}

int sh_sync(struct fx *fx)
{
        struct fx_op op = {.op = {.kind = ENG_OP_SYNC}};

        return fx_run(fx, &op);
}

int sh_discard(struct fx *fx, uint64_t id)
{
        struct fx_op op = {.op = {.kind = ENG_OP_DISCARD}};

        fx_id(op.op.discard.object_id, id);
        return fx_run(fx, &op);
}

bool sh_wait_files(struct fx *fx, const char *folder, const char *suffix, unsigned at_most)
{
        WAIT_UNTIL(fx_count_files(fx, folder, suffix) <= at_most);
        return fx_count_files(fx, folder, suffix) <= at_most;
}

void sh_remove_index(struct fx *fx)
{
        char command[256];

        snprintf(command, sizeof(command), "rm -rf '%s/index'", fx->path);
        if (system(command) != 0)
                abort();
}
