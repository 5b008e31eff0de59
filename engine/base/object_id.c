/*
 * object_id.c - ids of new objects, and which of two came first. The loop, or any where values are
 * all that is read.
 *
 *   | epoch u32 | loop u16 | node u16 | counter u64 |    big-endian
 *
 * On one machine the node is 0, and the counter begins anew with each run: the epoch tells runs
 * apart. In a cluster the node is not 0, and the counter's upper 24 bits are the number of the
 * node's boot, which no two runs of a node share; the epoch is what the maker believed, and says
 * nothing. docs/design/cluster-engine.md has the rule, and what could go wrong.
 */
#include "engine/base/store.h"
#include "engine_home.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_BITS 40u
#define COUNT_MAX  ((1ull << COUNT_BITS) - 1)

uint64_t eng_id_counter(uint16_t node, uint32_t boot, uint64_t count)
{
        assert(boot <= ENG_BOOT_MAX && (node != 0 || boot == 0));
        if (node == 0)
                return count;
        if (count > COUNT_MAX)
                abort(); /* the next boot's ids would be given: another run has room again */
        return (uint64_t)boot << COUNT_BITS | count;
}

void eng_new_id(struct eng_loop *el, uint8_t id[FMT_ID])
{
        const struct eng_options *o = &el->store->options;
        uint32_t epoch = htobe32((uint32_t)el->view.epoch);
        uint16_t loop = htobe16((uint16_t)el->index), node = htobe16(eng_maker(el->store));
        uint64_t counter = htobe64(eng_id_counter(eng_maker(el->store), o->boot, ++el->home.id_counter));

        assert(eng_on_loop(el));
        memcpy(id, &epoch, 4);
        memcpy(id + 4, &loop, 2);
        memcpy(id + 6, &node, 2);
        memcpy(id + 8, &counter, 8);
}

void eng_id_made(const uint8_t id[FMT_ID], struct eng_made *out)
{
        uint32_t epoch;
        uint64_t counter;

        memcpy(&epoch, id, 4);
        memcpy(&out->loop, id + 4, 2);
        memcpy(&out->node, id + 6, 2);
        memcpy(&counter, id + 8, 8);
        out->loop = be16toh(out->loop);
        out->node = be16toh(out->node);
        counter = be64toh(counter);
        out->run = out->node == 0 ? be32toh(epoch) : counter >> COUNT_BITS;
        out->count = out->node == 0 ? counter : counter & COUNT_MAX;
}

void eng_id_maker(const uint8_t id[ENG_ID_LEN], uint16_t *node, uint32_t *boot)
{
        struct eng_made made;

        eng_id_made(id, &made);
        *node = made.node;
        *boot = (uint32_t)made.run;
}

void eng_id_next(const struct eng_loop *el, struct eng_made *out)
{
        const struct eng_options *o = &el->store->options;

        out->node = eng_maker(el->store);
        out->loop = (uint16_t)el->index;
        out->run = out->node == 0 ? el->view.epoch : o->boot;
        out->count = el->home.id_counter + 1;
}

bool eng_made_before(const struct eng_made *a, const struct eng_made *b)
{
        assert(a->node == b->node && a->loop == b->loop);
        return a->run != b->run ? a->run < b->run : a->count < b->count;
}

bool eng_made_before_run(const struct eng_store *store, const struct eng_made *made)
{
        const struct eng_options *o = &store->options;

        if (o->cluster != NULL) /* all clients' uploads are this process's: those of others ended with them */
                return made->node != eng_maker(store) || made->run != o->boot;
        if (made->node == 0)
                return made->run < store->first_epoch;
        return made->node == eng_maker(store) && made->run < o->boot;
}
