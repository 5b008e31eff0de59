/*
 * Memory of a policy: blocks that double in size and are freed together, so that a policy of one
 * statement costs a kilobyte. Called while a policy is compiled, by the thread that does it.
 */
#include <stdlib.h>

#include "compiled.h"

#define BLOCK_MIN 512u
#define BLOCK_MAX (64u << 10)

static struct acc_block *room_block(struct acc_policy *policy, size_t need)
{
        size_t size = policy->blocks != NULL ? 2 * policy->blocks->size : BLOCK_MIN;
        struct acc_block *block;

        if (size > BLOCK_MAX)
                size = BLOCK_MAX;
        if (size < need)
                size = need;
        block = calloc(1, sizeof(*block) + size);
        if (block == NULL)
                return NULL;
        block->size = size;
        block->next = policy->blocks;
        policy->blocks = block;
        policy->bytes += sizeof(*block) + size;
        return block;
}

void *acc_room(struct acc_policy *policy, size_t count, size_t size)
{
        struct acc_block *block = policy->blocks;
        size_t need;
        void *room;

        if (__builtin_mul_overflow(count, size, &need) || need > SIZE_MAX - 15)
                return NULL;
        need = need > 0 ? (need + 15) & ~(size_t)15 : 16; /* the next piece is aligned, too */
        if (block == NULL || block->size - block->used < need)
                block = room_block(policy, need);
        if (block == NULL)
                return NULL;
        room = block->bytes + block->used;
        block->used += need;
        return room;
}

bool acc_keep(struct acc_policy *policy, struct s3_str text, struct s3_str *out)
{
        char *copy = acc_room(policy, text.len, 1);

        if (copy == NULL)
                return false;
        if (text.len > 0)
                memcpy(copy, text.data, text.len);
        *out = (struct s3_str){copy, text.len};
        return true;
}

void acc_policy_free(struct acc_policy *policy)
{
        if (policy == NULL)
                return;
        while (policy->blocks != NULL) {
                struct acc_block *next = policy->blocks->next;

                free(policy->blocks);
                policy->blocks = next;
        }
        free(policy);
}
