/*
 * nodes_lose.c - histories in which a pool goes on without some of its groups (docs/design/lost-groups.md): of five
 * nodes two fall away, or of four the three that have few drives, so all members of some groups do. They come back in
 * any order, some of them more than once. All other faults may come besides.
 */
#include "tests/sim/nodes/nodes_world.h"

#include <string.h>

#include "engine/base/store.h"
#include "tests/sim/nodes/nodes.h"
#include "tests/sim/nodes/sim_etcd.h"
#include "tests/sim/nodes/sim_net.h"
#include "tests/sim/sim_clients.h"

#define LOSES_IN   6u           /* histories, of which one loses groups */
#define ROUNDS_MAX 3u
#define ROUND_NS   (25 * SIM_S) /* between two of them, at most */
#define AWAY_NS    (40 * SIM_S)
#define LONG_NS    (120 * SIM_S) /* with the leader, for longer than an election waits for them */

int nodes_loses;

static struct {
        unsigned rounds, away; /* away: nodes that are yet to come back for good */
        bool ended;            /* everything heals */
        bool uneven;           /* of four nodes the first has most drives, and the others fall away */
        bool stays;            /* the leader's node is among them, and it lasts until another leads without them */
        bool lost;             /* some group is, as its leader has it */
} lose;

static uint64_t lose_below(uint64_t n)
{
        return sim_below(SIM_LOST, n);
}

void lose_plan(bool none)
{
        struct nodes_plan *p = &nodes_plan;

        memset(&lose, 0, sizeof(lose));
        p->loses = nodes_loses == NODES_ALL || (nodes_loses == NODES_SOME && lose_below(LOSES_IN) == 0);
        p->loses &= !none;
        if (!p->loses)
                return;
        lose.uneven = lose_below(2) == 0;
        p->nodes = 5; /* three go on without two */
        p->drives_each = 1 + (unsigned)lose_below(2);
        p->m = 1;
        p->k = 1 + (unsigned)lose_below(3);
        if (lose.uneven) { /* the first goes on without three, whose groups took changes without the one that left first */
                p->nodes = 4;
                p->drives_each = 1;
                p->first_more = 3;
                p->m = 2;
                p->k = 1 + (unsigned)lose_below(2);
        }
        sim_pg_count = lose_below(2) == 0 ? 4 : 16;
        lose.rounds = 1 + (unsigned)lose_below(ROUNDS_MAX);
}

bool lose_over(void)
{
        return lose.rounds == 0 && lose.away == 0;
}

void lose_heal(void)
{
        lose.ended = true;
        lose.rounds = lose.away = 0;
}

void lose_watch(void)
{
        const bool lost = world.store != NULL && world.store->coord->phase == ENG_PHASE_OPEN && world.store->coord->view.lost > 0;

        if (lost && !lose.lost)
                nodes_figures.lost++;
        if (!lost && lose.lost && world.store != NULL && world.store->coord->phase == ENG_PHASE_OPEN)
                nodes_figures.found++;
        if (lost || world.store != NULL)
                lose.lost = lost;
}

/* ---- one node -------------------------------------------------------------------------------- */

static void lose_goes(void *arg);

static void lose_is_back(void *arg)
{
        struct sim_node *node = arg;

        if (lose.ended)
                return;
        if (node->off)
                faults_host_on(node);
        else if (!node->process.runs)
                node_start(node);
        if (lose_below(3) == 0) /* it falls away again: while it is settled, back, or catches up */
                sim_at(sim_skewed(SIM_LOST, SIM_MS, 6 * SIM_S), NULL, lose_goes, node);
        else
                lose.away--;
}

/* Its process, its host, or what connects it. */
static void lose_goes(void *arg)
{
        struct sim_node *node = arg;
        uint64_t ns = sim_skewed(SIM_LOST, 100 * SIM_MS, AWAY_NS) + (lose.stays ? LONG_NS / 2 + lose_below(LONG_NS / 2) : 0);
        unsigned i;

        if (lose.ended)
                return;
        world.calm = false;
        switch (lose_below(4)) {
        case 0:
                if (!node->off)
                        faults_host_off(node);
                break;
        case 1:
                for (i = 0; i < nodes_plan.nodes; i++)
                        if (&sim_nodes[i] != node) {
                                sim_net_cut(sim_nodes[i].process.host, node->process.host, ns);
                                sim_net_cut(node->process.host, sim_nodes[i].process.host, ns);
                        }
                sim_trace("node %u is alone for %.3f s", node->process.party, (double)ns / 1e9);
                if (lose_below(2) == 0)
                        sim_etcd_cut(node->process.host, ns);
                break;
        default:
                if (node->process.runs)
                        node_kill(node, lose_below(2) == 0, true);
        }
        sim_at(ns, NULL, lose_is_back, node);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void lose_leader(void *arg)
{
        struct sim_leader *leader = newest_leader();

        if (!lose.ended && leader != NULL)
                leader_kill(leader, true);
}

/* One after the other: what comes in between is known to those that are left. */
static void lose_three(void)
{
        unsigned order[3] = {1, 2, 3}, i;
        uint64_t at = 0;

        lose.away += 3;
        for (i = 0; i < 3; i++) {
                const unsigned with = i + (unsigned)lose_below(3 - i), node = order[with];

                order[with] = order[i];
                sim_at(at, NULL, lose_goes, &sim_nodes[node]);
                at += lose_below(4) == 0 ? 0 : sim_skewed(SIM_LOST, 10 * SIM_MS, 10 * SIM_S);
        }
}

static void lose_two(void)
{
        const unsigned a = (unsigned)lose_below(nodes_plan.nodes), b = (a + 1 + (unsigned)lose_below(nodes_plan.nodes - 1)) % nodes_plan.nodes;

        lose.away += 2;
        if (lose.stays && newest_leader() != NULL && newest_leader()->node != &sim_nodes[b])
                lose_goes(newest_leader()->node);
        else
                lose_goes(&sim_nodes[a]);
        sim_at(lose_below(3) == 0 ? 0 : sim_skewed(SIM_LOST, SIM_MS, 8 * SIM_S), NULL, lose_goes, &sim_nodes[b]);
}

static void lose_some(void)
{
        sim_trace("nodes fall away");
        if (lose.uneven)
                lose_three();
        else
                lose_two();
}

void lose_aimed(void)
{
        if (!lose.ended && lose.away == 0)
                lose_some();
}

static void lose_round(void *arg)
{
        if (lose.ended)
                return;
        lose.rounds--;
        lose.stays = lose.rounds == 0 && lose_below(2) == 0;
        lose_some();
        if (lose_below(3) == 0)
                sim_at(sim_skewed(SIM_LOST, SIM_MS, 30 * SIM_S), NULL, lose_leader, NULL);
        if (lose.rounds > 0)
                sim_at(SIM_S + sim_skewed(SIM_LOST, SIM_MS, ROUND_NS), NULL, lose_round, NULL);
}

void lose_start(void)
{
        if (nodes_plan.loses)
                sim_at(sim_skewed(SIM_LOST, 10 * SIM_MS, ROUND_NS), NULL, lose_round, NULL);
}
