/*
 * key_uses.c - see key_uses.h. A table of a fixed size: a word for each key, which says who it is (31 bits of a hash),
 * for what it was used (2 bits) and when (31 bits: seconds since 1970). A chain of a few words
 * is chosen by other bits of the hash; where it is full, the oldest use is forgotten. Words are written and read whole,
 * so two threads at one chain can lose a use, and never mix two.
 */
#include "gateway/sts/key_uses.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define USE_CHAINS 16384u
#define USE_DEPTH  4u

struct gw_key_uses {
        atomic_uint_least64_t word[USE_CHAINS][USE_DEPTH];
};

static const char *const use_services[] = {"s3", "iam", "sts"};

/* Bits of a word: who << 33 | service << 31 | seconds. */
static uint64_t use_who(const char *access_key, unsigned *chain)
{
        uint64_t hash = 0xcbf29ce484222325; /* FNV-1a: the server has made the keys up */

        for (; *access_key != '\0'; access_key++)
                hash = (hash ^ (unsigned char)*access_key) * 0x100000001b3;
        *chain = (unsigned)(hash % USE_CHAINS);
        return hash >> 33 << 33;
}

static uint64_t use_seconds(uint64_t word)
{
        return word & 0x7fffffff;
}

static unsigned use_service(const struct gw_op *op)
{
        for (unsigned i = 1; op->permission != NULL && i < sizeof(use_services) / sizeof(use_services[0]); i++)
                if (strncmp(op->permission, use_services[i], 3) == 0 && op->permission[3] == ':')
                        return i;
        return 0;
}

int gw_key_uses_start(struct gw_gateway *gw)
{
        gw->key_uses = calloc(1, sizeof(*gw->key_uses));
        return gw->key_uses != NULL ? 0 : -ENOMEM;
}

void gw_key_uses_free(struct gw_gateway *gw)
{
        free(gw->key_uses);
        gw->key_uses = NULL;
}

/* The word of that key, else one that nobody has, else the oldest. */
static atomic_uint_least64_t *use_slot(struct gw_key_uses *uses, uint64_t who, unsigned chain)
{
        atomic_uint_least64_t *slot = &uses->word[chain][0];

        for (unsigned i = 0; i < USE_DEPTH; i++) {
                uint64_t word = atomic_load_explicit(&uses->word[chain][i], memory_order_relaxed);

                if (word != 0 && (word ^ who) >> 33 == 0)
                        return &uses->word[chain][i];
                if (use_seconds(word) < use_seconds(atomic_load_explicit(slot, memory_order_relaxed)))
                        slot = &uses->word[chain][i];
        }
        return slot;
}

void gw_key_used(struct gw_gateway *gw, const char *access_key, const struct gw_op *op, int64_t now_ms)
{
        unsigned chain;
        uint64_t who, word;
        atomic_uint_least64_t *slot;

        if (gw->key_uses == NULL)
                return;
        who = use_who(access_key, &chain);
        word = who | (uint64_t)use_service(op) << 31 | ((uint64_t)(now_ms / 1000) & 0x7fffffff);
        slot = use_slot(gw->key_uses, who, chain);
        if (atomic_load_explicit(slot, memory_order_relaxed) !=
            word) /* most uses are of the same second: loops share it */
                atomic_store_explicit(slot, word, memory_order_relaxed);
}

bool gw_key_last_used(const struct gw_gateway *gw, const char *access_key, struct gw_key_use *out)
{
        unsigned chain;
        uint64_t who = use_who(access_key, &chain);

        for (unsigned i = 0; gw->key_uses != NULL && i < USE_DEPTH; i++) {
                uint64_t word = atomic_load_explicit(&gw->key_uses->word[chain][i], memory_order_relaxed);
                uint64_t service = word >> 31 & 3;

                if (word == 0 || (word ^ who) >> 33 != 0)
                        continue;
                out->ms = (int64_t)use_seconds(word) * 1000;
                out->service = use_services[service < 3 ? service : 0];
                return true;
        }
        return false;
}
