/*
 * election.c - who tries to lead a pool, and when.
 */
#include "cluster/election.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static bool has_a_slot(const struct cl_election *e, const struct eng_epoch_info *info)
{
        unsigned i;

        for (i = 0; i < info->slots; i++)
                if (info->slot[i].site.node == e->node && (info->gone >> i & 1) == 0)
                        return true;
        return false;
}

/* Slots of that node by the epoch: what it says of others' is not believed. */
static uint64_t slots_of_node(const struct eng_epoch_info *info, uint16_t node)
{
        uint64_t mask = 0;
        unsigned i;

        for (i = 0; i < info->slots; i++)
                if (info->slot[i].site.node == node)
                        mask |= 1ull << i;
        return mask;
}

/*
 * Ns for which the key is as it is and no node that answers has heard of its owner. A key stays as it is for as long as its
 * owner leads, so by itself it says nothing of how long others have had to do without that. An owner that has given its
 * grants back is not waited for.
 */
static uint64_t owner_silent(const struct cl_election *e)
{
        uint64_t silent = e->unchanged;
        unsigned i;

        for (i = 0; e->led && i < e->count; i++) {
                const struct cl_witness *w = &e->witnesses[i];

                if (w->answered && w->heard && !(w->released && w->newest >= e->owner) && w->heard_ns < silent)
                        silent = w->heard_ns;
        }
        return silent;
}

/*
 * Less than half of the slots that are in leave the others the time to go on without them, and to be read about in etcd.
 * Of two halves neither is the smaller one: a key that has stood for long is enough.
 */
static bool has_too_few(const struct cl_election *e, const struct eng_epoch_info *info, uint64_t there)
{
        const int twice = 2 * __builtin_popcountll(there), in = __builtin_popcountll(info->in);

        return e->led && twice <= in && (twice == in ? e->unchanged : owner_silent(e)) < CL_STANDING_NS + e->stagger;
}

/* More than half of all slots, but for those that are being added: the store goes on without the groups that they have no copy of. */
static bool may_lose_groups(const struct cl_election *e, const struct eng_epoch_info *info, uint64_t there)
{
        const uint64_t all = (info->slots == ENG_DRIVES_MAX ? ~0ull : (1ull << info->slots) - 1) & ~(info->gone | info->given_up | info->adding);

        return owner_silent(e) >= CL_PATIENCE_NS + e->stagger && 2 * __builtin_popcountll(there & all) > __builtin_popcountll(all);
}

/*
 * The key's owner was heard there of late. Of one that has just taken the key nothing may have come yet: what is told is
 * of the leader before, which has given up or is dead. So it has as long, from when this node has seen that it is the
 * owner. Else whoever looks in these milliseconds takes the key from it, and waits for what was granted to it.
 */
static bool hears_owner(const struct cl_election *e, const struct cl_witness *w)
{
        if (w->newest < e->owner)
                return e->unchanged < CL_SILENCE_NS || w->heard_ns < CL_SILENCE_NS;
        return !w->released && w->heard_ns < CL_SILENCE_NS;
}

enum cl_election_verdict cl_election_judge(const struct cl_election *e)
{
        struct eng_epoch_info info;
        uint64_t there = 0;
        unsigned i;
        int serves;

        assert(e->count <= CL_NODES_MAX && e->stagger <= CL_STAGGER_NS);
        if (eng_epoch_read(e->epoch, e->epoch_len, &info) != 0)
                return CL_BAD_EPOCH;
        if (!has_a_slot(e, &info))
                return CL_NO_SLOT;
        for (i = 0; i < e->count; i++) {
                const struct cl_witness *w = &e->witnesses[i];

                if (!w->answered)
                        continue;
                if (e->led && hears_owner(e, w))
                        return CL_HEARD;
                there |= w->slots & slots_of_node(&info, w->node);
        }
        there &= info.in;
        if (has_too_few(e, &info, there))
                return CL_TOO_FEW;
        serves = eng_epoch_serves(e->epoch, e->epoch_len, there);
        if (serves < 0)
                return serves == -ENOMEM ? CL_NO_MEMORY : CL_BAD_EPOCH;
        return serves || may_lose_groups(e, &info, there) ? CL_TRY : CL_NO_COPY;
}

/* Numbers of the nodes that have slots of the pool, each once, rising. */
static unsigned nodes_of_pool(const struct eng_epoch_info *info, uint16_t out[ENG_DRIVES_MAX])
{
        unsigned slot, at, count = 0;

        for (slot = 0; slot < info->slots; slot++) {
                const uint16_t node = info->slot[slot].site.node;

                for (at = 0; at < count && out[at] < node; at++)
                        ;
                if ((info->gone >> slot & 1) || (at < count && out[at] == node))
                        continue;
                memmove(&out[at + 1], &out[at], (count - at) * sizeof(out[0]));
                out[at] = node;
                count++;
        }
        return count;
}

/*
 * Pool 1 begins with the first node, pool 2 with the second. The others follow, and are turned by one more each time that all
 * nodes have had a pool: what a node that died led goes to different ones.
 */
static unsigned place_in_order(unsigned at, unsigned count, unsigned pool)
{
        const unsigned behind = (at + count - (pool - 1) % count) % count, turned = (pool - 1) / count;

        return behind == 0 ? 0 : (behind - 1 + (count - 1) - turned % (count - 1)) % (count - 1) + 1;
}

unsigned cl_election_before(const struct cl_election *e, unsigned pool)
{
        uint16_t nodes[ENG_DRIVES_MAX];
        struct eng_epoch_info info;
        unsigned count, at, i, own, before = 0;

        if (eng_epoch_read(e->epoch, e->epoch_len, &info) != 0)
                return 0;
        count = nodes_of_pool(&info, nodes);
        own = count; /* it may lead yet, and has no slot any more: all go before it */
        for (at = 0; at < count; at++)
                if (nodes[at] == e->node)
                        own = place_in_order(at, count, pool);
        for (at = 0; at < count; at++)
                for (i = 0; i < e->count; i++)
                        if (e->witnesses[i].node == nodes[at] && e->witnesses[i].may_lead)
                                before += place_in_order(at, count, pool) < own;
        return before;
}

uint64_t cl_election_turn(unsigned before, bool heard)
{
        return (before < CL_TURN_NODES ? before : CL_TURN_NODES) * (heard ? CL_TURN_NS : CL_TURN_FIRST);
}

uint64_t cl_election_wait(const struct cl_election *e, unsigned before, bool heard)
{
        bool others = false;
        unsigned i;

        for (i = 0; i < e->count; i++) {
                const struct cl_witness *w = &e->witnesses[i];

                if (w->prepared && w->node == e->node)
                        return 0;
                others |= w->prepared;
        }
        return cl_election_turn(before, heard) + (others ? CL_PREPARED_NS : 0);
}

unsigned cl_election_order(const void *epoch, size_t len, unsigned pool, uint16_t out[ENG_DRIVES_MAX])
{
        uint16_t nodes[ENG_DRIVES_MAX];
        struct eng_epoch_info info;
        unsigned count, at;

        if (eng_epoch_read(epoch, len, &info) != 0)
                return 0;
        count = nodes_of_pool(&info, nodes);
        for (at = 0; at < count; at++)
                out[place_in_order(at, count, pool)] = nodes[at];
        return count;
}

const char *cl_election_text(enum cl_election_verdict verdict)
{
        switch (verdict) {
        case CL_TRY:
                return "the pool needs a leader";
        case CL_NO_SLOT:
                return "the pool has no drive on this node";
        case CL_HEARD:
                return "the pool has a leader";
        case CL_TOO_FEW:
                return "too few of the pool's drives answer";
        case CL_NO_COPY:
                return "drives do not answer without which some placement group has no current copy";
        case CL_NO_MEMORY:
                return "out of memory";
        case CL_TURN:
                return "another node goes first";
        case CL_BAD_EPOCH:
                return "the pool's epoch in etcd is damaged";
        }
        return "?";
}

uint64_t cl_election_rest(unsigned times)
{
        uint64_t rest = CL_REST_NS;

        if (times == 0)
                return 0;
        while (--times > 0 && rest < CL_REST_MOST)
                rest *= 2;
        return rest < CL_REST_MOST ? rest : CL_REST_MOST;
}
