/*
 * leader_lease.c - how long a leader may answer reads (remote.h): arithmetic over the pings that drive
 * servers have answered. Nothing here reads a clock.
 */
#include "remote.h"

#include <assert.h>
#include <string.h>

#define MS_NS (1000ull * 1000)

void rem_lease_init(struct rem_lease *lease, unsigned term_ms)
{
        memset(lease, 0, sizeof(*lease));
        lease->term_ns = (term_ms != 0 ? term_ms : REM_TERM_MS) * MS_NS;
}

static bool lease_has(const struct rem_lease *lease, const struct rem_lease_member *m)
{
        unsigned i;

        for (i = 0; i < lease->members; i++)
                if (lease->member[i].node == m->node && lease->member[i].slot == m->slot &&
                    lease->member[i].incarnation == m->incarnation)
                        return true;
        return false;
}

static unsigned lease_node(const struct rem_lease *lease, uint16_t node)
{
        unsigned i = 0;

        while (i < lease->nodes && lease->node[i].node != node)
                i++;
        return i;
}

void rem_lease_need(struct rem_lease *lease, const struct rem_lease_member *members, unsigned count)
{
        const struct rem_lease before = *lease;
        unsigned i, at, old;

        assert(count <= sizeof(lease->member) / sizeof(lease->member[0]));
        lease->nodes = 0;
        lease->members = count;
        for (i = 0; i < count; i++) {
                lease->member[i] = members[i];
                at = lease_node(lease, members[i].node);
                if (at == lease->nodes) {
                        lease->nodes++;
                        lease->node[at].node = members[i].node;
                        old = lease_node(&before, members[i].node);
                        lease->node[at].renewed = old < before.nodes && before.node[old].renewed;
                        lease->node[at].sent = lease->node[at].renewed ? before.node[old].sent : 0;
                }
                if (!lease_has(&before, &members[i]))
                        lease->node[at].renewed = false;
        }
}

static bool answer_shows(const struct rem_slot *slots, unsigned count, const struct rem_lease_member *m)
{
        unsigned i;

        for (i = 0; i < count; i++)
                if (slots[i].slot == m->slot)
                        return slots[i].incarnation == m->incarnation && (slots[i].flags & REM_SLOT_OPENED) != 0;
        return false;
}

void rem_lease_renew(struct rem_lease *lease, uint16_t node, uint64_t sent, const struct rem_slot *slots,
                     unsigned count)
{
        unsigned at = lease_node(lease, node), i;

        if (at == lease->nodes || (lease->node[at].renewed && sent <= lease->node[at].sent))
                return;
        for (i = 0; i < lease->members; i++)
                if (lease->member[i].node == node && !answer_shows(slots, count, &lease->member[i]))
                        return;
        lease->node[at].renewed = true;
        lease->node[at].sent = sent;
}

uint64_t rem_lease_end(const struct rem_lease *lease)
{
        uint64_t oldest = UINT64_MAX;
        unsigned i;

        for (i = 0; i < lease->nodes; i++) {
                if (!lease->node[i].renewed)
                        return 0;
                if (lease->node[i].sent < oldest)
                        oldest = lease->node[i].sent;
        }
        return lease->nodes == 0 ? 0 : oldest + lease->term_ns;
}
