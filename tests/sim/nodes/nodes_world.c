/*
 * nodes_world.c - see nodes_world.h.
 *
 * The store is formatted in one process; then its drives lie on nodes, and a leader opens them. Clients
 * are part of the leader's process, and lose what they wait for when it dies. When faults and
 * operations are over everything heals, and the store must become whole without an operator.
 */
#include "tests/sim/nodes/nodes_world.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/store.h"
#include "tests/sim/history.h"
#include "tests/sim/nodes/nodes.h"
#include "tests/sim/nodes/sim_etcd.h"
#include "tests/sim/nodes/sim_net.h"
#include "tests/sim/sim_alloc.h"
#include "tests/sim/sim_clients.h"
#include "tests/sim/sim_loss.h"
#include "tests/sim/sim_world.h"

#define LIFE_NS    (90 * SIM_S)
#define LOSE_LIFE_NS (150 * SIM_S) /* and so much more where groups are lost */
#define HEAL_NS    (900 * SIM_S) /* parts of unfinished uploads are looked at again after 600 s */
#define SETTLE_NS  (10 * SIM_S) /* until what died last was noticed */
#define WHOLE_NS   (60 * SIM_S)
#define JOIN_NS    (60 * SIM_S) /* in which all homes join, when a leader serves */
#define HOMES_IN   8            /* histories, of which one has homes */
#define MOVES_IN   8            /* of those, of which one is of readers under leaders that change */
#define SERVE_NS   (150 * SIM_S) /* in which some leader serves: nodes rest for up to a minute, and wait for drives */

static struct {
        unsigned ops;
        bool restarts; /* all processes begin anew before the end */
        bool duels;    /* leaders are ousted, one after the other, and nothing else goes wrong */
        bool moves;    /* clients read slowly, while leaders hand over and homes are held up, and nothing else goes wrong */
        bool bounds;   /* a node dies, nothing else goes wrong, and there are bounds for how long that may be felt */
} plan;

int nodes_homes, nodes_bounds, nodes_moves;

static uint64_t plan_below(uint64_t n)
{
        return sim_below(SIM_PLAN, n);
}

static bool plan_chance(unsigned of)
{
        return sim_chance(SIM_PLAN, of);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void plan_store(void)
{
        static const uint32_t groups[] = {1, 2, 4, 16};
        static const uint32_t inline_max[] = {0, ENG_INLINE_NONE, 700, 4096};
        static const uint64_t heal_rates[] = {0, 1 << 20, 64 << 20};
        struct nodes_plan *p = &nodes_plan;
        unsigned drives;

        p->nodes = 3 + (plan_chance(3) ? (unsigned)plan_below(3) : 0);
        p->drives_each = 1 + (plan_chance(3) ? (unsigned)plan_below(p->nodes == 3 ? 4 : 2) : 0);
        drives = p->nodes * p->drives_each;
        p->m = 1 + (unsigned)plan_below(2);
        p->k = 1 + (unsigned)plan_below(drives - p->m < 4 ? drives - p->m : 4);
        if (plan.duels) { /* a group lies on all nodes, or nearly: a leader that is alone thinks that it may go on */
                p->nodes = 3;
                p->drives_each = 1;
                p->m = 2;
                p->k = 1;
        }
        if (plan.bounds) { /* each copy of a group on a node of its own, and no more shards on one than can be missing */
                bool twice = p->nodes == 3 && plan_chance(2);

                p->drives_each = 1 + twice + (unsigned)plan_below(2);
                p->m = 2;
                p->k = twice ? 2 : 1 + (unsigned)plan_below(p->nodes - 2);
        }
        p->heal_rate = heal_rates[plan_below(3)];
        p->inline_max = inline_max[plan_below(4)];
        sim_pg_count = groups[plan_below(4)];
        sim_loose_order = false; /* a drive server relies on the order of its loop */
}

static void plan_machines(void)
{
        struct nodes_plan *p = &nodes_plan;
        unsigned i;

        p->loops_each = 1 + (unsigned)plan_below(NODE_LOOPS);
        p->shared_loops = plan_chance(2);
        p->plain_bulk = plan_chance(2);
        p->kills_old = !plan.duels && plan_chance(2);
        p->slots = 32 + (unsigned)plan_below(32);
        p->peer_slots = 2 + (unsigned)plan_below(15);
        for (i = 0; i < NODES_MAX; i++) {
                p->offset_ns[i] = (int64_t)plan_below(100 * SIM_S);
                p->ppm[i] = (int)plan_below(100001) - 50000;
        }
}

static void plan_clients(void)
{
        unsigned i;

        plan.ops = 20 + (unsigned)sim_skewed(SIM_PLAN, 0, 250);
        world.loop_count = 1 + (unsigned)plan_below(3);
        world.client_count = 1 + (unsigned)plan_below(CLIENTS_MAX);
        world.bytes_left = plan_chance(2) ? plan_below(2u << 20) : 0;
        world.large = 2 + (unsigned)plan_below(8);
        world.parts = plan_chance(4) ? 2 + (unsigned)plan_below(10) : 0;
        world.buckets_on = plan_chance(4) ? 4 + (unsigned)plan_below(20) : 0;
        world.think = sim_skewed(SIM_PLAN, SIM_MS, 3 * SIM_S);
        world.key_count = 1 + (unsigned)plan_below(KEYS_MAX);
        world.slow_puts = plan_chance(8);
        if (world.slow_puts) {
                world.bytes_left = 24u << 20;
                world.large = 2;
        }
        if (plan_chance(2)) /* at work for about as long as faults come */
                world.pace = sim_skewed(SIM_PLAN, SIM_MS, 20 * SIM_S * world.client_count / plan.ops);
        if (plan.duels) {
                plan.ops = 0;
                world.client_count = CLIENTS_MAX;
                world.pace = 80 * SIM_MS;
                world.slow_puts = false;
                world.bytes_left = 0;
                world.key_count = 4;
        }
        if (plan.bounds) {
                world.client_count = 4;
                world.pace = 100 * SIM_MS; /* some change is always asked for */
                world.slow_puts = false;
                world.bytes_left = 1u << 20;
                world.key_count = KEYS_MAX;
        }
        for (i = 0; i < world.key_count; i++)
                snprintf(world.keys[i], sizeof(world.keys[i]), i % 3 == 0 ? "d/%u" : i % 3 == 1 ? "d/e/%u" : "k%u", i);
}

static void plan_moves(void)
{
        plan.moves = nodes_plan.homes && !plan.bounds && !plan.duels && !nodes_plan.loses && !nodes_plan.grows &&
                     (nodes_moves == NODES_ALL || (nodes_moves == NODES_SOME && sim_chance(SIM_HOMES, MOVES_IN)));
        if (!plan.moves)
                return;
        plan.ops = 0;
        world.client_count = CLIENTS_MAX;
        world.pace = 0;
        world.think = 200 * SIM_MS;
        world.slow_puts = false;
        world.slow_gets = true;
        world.bytes_left = 128u << 20;
        world.large = 2;
        world.parts = world.buckets_on = 0;
        world.key_count = world.key_count < 3 ? world.key_count : 3; /* they are soon overwritten */
}

static void plan_history(void)
{
        memset(&plan, 0, sizeof(plan));
        memset(&nodes_plan, 0, sizeof(nodes_plan));
        memset(&world, 0, sizeof(world));
        plan.bounds = plan_chance(8) || nodes_bounds == NODES_ALL;
        plan.duels = !plan.bounds && plan_chance(8);
        plan_store();
        lose_plan(plan.bounds || plan.duels);
        grow_plan(plan.bounds || plan.duels);
        versions_plan(true);
        versions_plan_no_locks();
        plan_machines();
        plan_clients();
        loss_begin(false, -1);
        nodes_plan.homes = nodes_homes == NODES_ALL || (nodes_homes == NODES_SOME && sim_chance(SIM_HOMES, HOMES_IN));
        if (nodes_plan.homes && world.buckets_on == 0 && sim_chance(SIM_HOMES, 2)) /* what homes have a copy of */
                world.buckets_on = 2 + (unsigned)sim_below(SIM_HOMES, 6);
        if (nodes_plan.homes && sim_chance(SIM_HOMES, 2)) /* one row at a time */
                nodes_plan.home_rows_bytes = 1;
        if (nodes_plan.homes && plan.bounds) /* a change of the configuration waits for the dead node's home as long as that may believe its copy */
                world.buckets_on = 0;
        plan_moves();
        faults_plan(plan.bounds || plan.duels || plan.moves);
        sim.slow_loops = faults_planned() && plan_chance(3);
        plan.restarts = plan_chance(3);
        nodes_make();
        if (nodes_plan.loses && nodes_plan.grows && plan_chance(2)) /* a change of the drives lasts for seconds */
                sim_net_slow(10 * SIM_MS, 40 * SIM_MS);
        sim_trace("plan: %u nodes of %u drives, %u+%u, %u groups, %u loops, %u clients, %u keys, %u operations, %s%s%s%s", nodes_plan.nodes,
                  nodes_plan.drives_each, nodes_plan.k, nodes_plan.m, sim_pg_count, world.loop_count, world.client_count,
                  world.key_count, plan.ops, faults_planned() ? "faults" : "calm", nodes_plan.homes ? ", homes" : "", nodes_plan.loses ? ", groups are lost" : "", nodes_plan.grows ? ", drives change" : "");
}

/* ---- the history ----------------------------------------------------------------------------- */

static void nothing(void *arg)
{
}

static void live_for(uint64_t ns)
{
        uint64_t until = sim.now + ns;

        sim_at(ns, NULL, nothing, NULL); /* time goes on where nothing runs */
        while (sim.now < until)
                nodes_step();
}

/* False: not within this time. */
static bool comes_to(bool (*state)(void), uint64_t ns)
{
        uint64_t until = sim.now + ns;

        while (!leader_serves() || !state()) {
                if (sim.now > until)
                        return false;
                live_for(SIM_S / 4);
        }
        return true;
}

static void wait_for(bool (*state)(void))
{
        if (comes_to(state, HEAL_NS))
                return;
        if (world.store != NULL)
                check_tell_rest();
        sim_fail("without faults it is not whole after %llu s", HEAL_NS / SIM_S);
}

static void begin_all(void)
{
        unsigned i;

        for (i = 0; i < nodes_plan.nodes; i++)
                if (!sim_nodes[i].process.runs)
                        node_start(&sim_nodes[i]);
}

static void end_all(void)
{
        unsigned i;

        for (i = 0; i < nodes_plan.nodes; i++)
                if (sim_nodes[i].process.runs)
                        node_kill(&sim_nodes[i], false, true);
        live_for(SIM_S);
}

static bool is_open(void)
{
        return true;
}

static void serve(void)
{
        begin_all();
        if (!comes_to(is_open, SERVE_NS))
                sim_fail("no leader serves after %llu s", SERVE_NS / SIM_S);
}

static void work(void)
{
        uint64_t until;

        world.calm = !faults_planned() && !nodes_plan.loses && !nodes_plan.grows;
        serve();
        world.ops_left = plan.ops;
        clients_start();
        homes_start();
        faults_start();
        lose_start();
        grow_start();
        until = sim.now + LIFE_NS + (nodes_plan.loses || nodes_plan.grows ? LOSE_LIFE_NS : 0);
        while (sim.now < until && (world.ops_left > 0 || !clients_idle() || !faults_over() || !lose_over() || !grow_over())) {
                nodes_step();
                faults_step();
        }
        world.ops_left = 0;
}

/*
 * How long one fault is felt, in changes that are acknowledged: the longest time without one, from when one was asked for
 * behind the last. Clients are always at work; clocks run up to 5 % slow, and the network and etcd are prompt.
 *
 *   a member's node dies: four pings of T / 6 by the leader's clock; a CAS; the EPOCH. All clients may be waiting for a
 *   read by then, which ends with the connection, and ask for changes behind that. An epoch that is on its way to another
 *   slot of the node is given up when the pings say so
 *   the leader's node dies: the grants, 1.25 T by their clocks. Meanwhile: 2 s of silence, 50 ms until a node looks, the
 *   claim; one ping that the dead node does not answer. Behind the grants: OPEN, the drives are opened, an epoch
 *   it hands over: RELEASE, a look, the claim, and the same
 *   a member's process is killed: until it is back, or as if its node had died
 *   a member's drive fails: a CAS, the EPOCH. Its process opens it again later
 *   reads, while a member is missing: other members are asked, other shards are read
 *   etcd is down: nothing
 */
#define SLOW(ns)  ((ns) * 105 / 100)
#define T_NS      (3 * SIM_S)
#define PING_NS   (T_NS / 6)
#define GRANT_NS  (T_NS / 4 * 5)
#define NET_LOOK_NS (100 * SIM_MS) /* net/ looks so often whether a connection has been silent for 2 s */
#define QUIET_NS  (2 * SIM_S) /* that may pass without any change, when there is no fault */
#define MEMBER_NS (SLOW(4 * PING_NS + NET_LOOK_NS) + 250 * SIM_MS)
#define LEADER_NS (SLOW(GRANT_NS) + 500 * SIM_MS)
#define MOVE_NS   (500 * SIM_MS)
#define DRIVE_NS  (250 * SIM_MS)
#define READ_NS   (400 * SIM_MS)

static uint64_t longest; /* without a change, since felt_from() and until felt_over() */
static uint64_t felt_since, felt_epoch, went_on, quiet;

static uint64_t epoch_now(void)
{
        return world.store == NULL ? 0 : world.store->coord->view.epoch;
}

static void felt_from(void)
{
        longest = 0;
        world.slowest_get = 0;
        felt_since = sim.now;
        felt_epoch = epoch_now();
        went_on = quiet = 0;
}

/* The store has gone on by another epoch, and changes have been acknowledged since. */
static bool felt_over(void)
{
        if (went_on == 0 && epoch_now() > felt_epoch)
                went_on = sim.now;
        return went_on != 0 && world.took > went_on;
}

/* So far: since there was something to be acknowledged. */
static void keep_unanswered(void)
{
        uint64_t since = world.asked > felt_since ? world.asked : felt_since;

        if (world.asked != 0 && sim.now - since > longest)
                longest = sim.now - since;
}

static void felt_step(void)
{
        uint64_t since = world.took > felt_since ? world.took : felt_since;

        nodes_step();
        if (!felt_over())
                keep_unanswered();
        quiet = sim.now - (world.took > since ? world.took : since);
}

/* For so long, and until a change was acknowledged. */
static void felt_for(uint64_t ns, uint64_t most, const char *what)
{
        uint64_t until = sim.now + ns;

        while (sim.now < until || world.took < felt_since) {
                felt_step();
                if (longest > most)
                        sim_fail("%s: no change was acknowledged for %llu ms", what, (unsigned long long)(longest / SIM_MS));
                if (felt_over() && quiet > QUIET_NS)
                        sim_fail("%s, and is over: no change was acknowledged for %llu ms", what, (unsigned long long)(quiet / SIM_MS));
        }
}

/* Reads that have been asked for since felt_from(), while the same leader serves. */
static void felt_by_reads(const char *what)
{
        if (world.slowest_get > READ_NS)
                sim_fail("%s: a read took %llu ms", what, (unsigned long long)(world.slowest_get / SIM_MS));
        if (world.slowest_get > nodes_figures.felt_read)
                nodes_figures.felt_read = world.slowest_get;
}

static void no_fault_for(uint64_t ns)
{
        felt_from();
        felt_for(ns, QUIET_NS, "without a fault");
}

static void keep_longest(uint64_t *of)
{
        if (longest > *of)
                *of = longest;
}

static void bound_host(struct sim_node *node, uint64_t most, const char *what, uint64_t *felt)
{
        felt_from();
        faults_host_off(node);
        felt_for(12 * SIM_S, most, what);
        if (felt == &nodes_figures.felt_member)
                felt_by_reads(what);
        keep_longest(felt);
        world.calm = true;
        no_fault_for(plan_below(5 * SIM_S));
        faults_host_on(node);
}

/* A node that is to die in the middle of the epoch by which it returns; the steps of that epoch's change in etcd that pass before. */
static struct {
        struct sim_node *node;
        unsigned steps;
        bool died;
} doomed;

static void doomed_dies(void *arg)
{
        if (doomed.node->off || newest_leader() == NULL || newest_leader()->node == doomed.node || !leader_serves())
                return;
        sim_trace("in the middle of an epoch:");
        felt_from();
        doomed.died = true;
        faults_host_off(doomed.node);
}

/* In the middle of an event: it comes soon behind. */
static void doomed_step(void)
{
        unsigned before;

        if (doomed.steps-- > 0) {
                sim_etcd_expect(nodes_config_key(), doomed_step);
                return;
        }
        before = sim_enter(0);
        sim_at(sim_skewed(SIM_PLAN, 0, 5 * SIM_MS), NULL, doomed_dies, NULL);
        sim_enter(before);
}

/*
 * An epoch was decided, and a drive that it is to be written to dies: nothing else goes on, and it is noticed as late as any
 * member's death is. No two of these times add up.
 */
static void bound_epoch(struct sim_node *node)
{
        uint64_t until;

        bound_host(node, MEMBER_NS, "a member's node has died", &nodes_figures.felt_member);
        doomed.node = node;
        doomed.steps = (unsigned)plan_below(6);
        doomed.died = false;
        sim_etcd_expect(nodes_config_key(), doomed_step);
        for (until = sim.now + 12 * SIM_S; sim.now < until && !doomed.died;)
                nodes_step();
        sim_etcd_expect(nodes_config_key(), NULL);
        if (!doomed.died)
                return;
        world.calm = false;
        for (until = sim.now + 12 * SIM_S; sim.now < until;) {
                nodes_step();
                keep_unanswered();
                if (longest > MEMBER_NS)
                        sim_fail("a node has died in the middle of an epoch: no change was acknowledged for %llu ms", (unsigned long long)(longest / SIM_MS));
        }
        nodes_figures.in_epoch++;
        keep_longest(&nodes_figures.felt_epoch);
        world.calm = true;
        faults_host_on(node);
}

static void process_returns(void *node)
{
        if (!((struct sim_node *)node)->process.runs)
                node_start(node);
}

static void bound_process(struct sim_node *node)
{
        felt_from();
        node_kill(node, false, true);
        sim_at(sim_skewed(SIM_PLAN, 10 * SIM_MS, 8 * SIM_S), NULL, process_returns, node);
        felt_for(12 * SIM_S, MEMBER_NS, "a member's process was killed");
        felt_by_reads("a member's process was killed");
        keep_longest(&nodes_figures.felt_process);
}

static void bound_drive(struct sim_node *node)
{
        unsigned before;

        felt_from();
        before = sim_enter(node->process.number);
        sim_drive_fail(node->disks[plan_below(node->disk_count)], "its seed says so");
        sim_enter(before);
        felt_for(5 * SIM_S, DRIVE_NS, "a member's drive has failed");
        felt_by_reads("a member's drive has failed");
        keep_longest(&nodes_figures.felt_drive);
        node_kill(node, false, true); /* a new process opens it */
        node_start(node);
        live_for(5 * SIM_S);
}

static struct sim_node *member_node(void)
{
        struct sim_node *node;

        do
                node = &sim_nodes[plan_below(nodes_plan.nodes)];
        while (node == newest_leader()->node);
        return node;
}

/* One thing goes wrong while clients work. */
static void bounds(void)
{
        if (!plan.bounds)
                return;
        serve();
        sim_net_prompt();
        world.ops_left = 100000;
        clients_start();
        wait_for(check_healed);
        no_fault_for(sim_skewed(SIM_PLAN, SIM_MS, 3 * SIM_S));
        nodes_figures.bounds++;
        world.calm = false;
        switch (plan_below(6)) {
        case 4:
                bound_process(member_node());
                break;
        case 5:
                bound_drive(member_node());
                break;
        case 0:
                if (plan_chance(2))
                        bound_epoch(member_node());
                else
                        bound_host(member_node(), MEMBER_NS, "a member's node has died", &nodes_figures.felt_member);
                break;
        case 1:
                bound_host(newest_leader()->node, LEADER_NS, "the leader's node has died", &nodes_figures.felt_leader);
                break;
        case 2:
                felt_from();
                leader_release(newest_leader());
                felt_for(8 * SIM_S, MOVE_NS, "the leader has handed over");
                keep_longest(&nodes_figures.felt_moved);
                break;
        default:
                world.calm = true;
                sim_etcd_down(60 * SIM_S);
                no_fault_for(60 * SIM_S);
        }
        world.calm = true;
        world.ops_left = 0;
        while (!clients_idle())
                nodes_step();
        if (!comes_to(check_healed, WHOLE_NS))
                sim_fail("a minute after the only fault is over the store is not whole");
}

static void duels(void)
{
        unsigned left = 1 + (unsigned)plan_below(2);
        uint64_t ns;

        if (!plan.duels)
                return;
        world.calm = false;
        if (plan_chance(2))
                sim_net_slow(10 * SIM_MS, 40 * SIM_MS);
        while (left-- > 0) {
                serve();
                world.ops_left = 2000;
                clients_start();
                live_for(SIM_S + plan_below(SIM_S));
                ns = faults_oust();
                live_for(ns + plan_below(SIM_S));
        }
        world.ops_left = 0;
}

/*
 * The lead moves, or a home is silent for long enough to lose its session, while clients read what others overwrite. A
 * read that has begun goes on: what it reads is kept for it (G7).
 */
static void moves(void)
{
        unsigned left = 1 + (unsigned)sim_below(SIM_HOMES, 3);

        if (!plan.moves)
                return;
        serve();
        world.calm = false;
        world.reads_last = true;
        world.ops_left = 100000;
        clients_start();
        while (left-- > 0) {
                live_for(3 * SIM_S + sim_below(SIM_HOMES, 10 * SIM_S));
                serve();
                if (sim_chance(SIM_HOMES, 2))
                        faults_block_home(12 * SIM_S);
                else
                        leader_release(newest_leader());
        }
        live_for(15 * SIM_S);
        world.ops_left = 0;
        while (!clients_idle())
                nodes_step();
        world.reads_last = false;
}

static void join(void)
{
        if (comes_to(homes_have_joined, JOIN_NS))
                return;
        homes_tell();
        sim_fail("homes have not joined after %llu s", JOIN_NS / SIM_S);
}

static void heal(void)
{
        bool whole;

        lose_heal();
        grow_heal();
        whole = faults_heal();

        world.last = true;
        if (!whole || plan.restarts) {
                end_all();
                begin_all();
        }
        live_for(SETTLE_NS);
        wait_for(check_healed);
        while (!clients_idle())
                nodes_step();
        join();
}

static bool is_verified(void)
{
        struct eng_verify_report r;

        eng_verify_read(world.store, &r);
        return !r.running;
}

static void check_verification(void)
{
        struct eng_verify_report r;

        wait_for(is_verified);
        if (eng_verify_start(world.store) != 0)
                sim_fail("an idle store does not verify");
        wait_for(is_verified);
        eng_verify_read(world.store, &r);
        if (r.differing_names > 0 || r.damaged_shards + r.missing_shards + r.unreadable_objects > 0)
                sim_fail("verification found %llu names that differ, %llu shards damaged, %llu missing, %llu objects unreadable",
                         (unsigned long long)r.differing_names, (unsigned long long)r.damaged_shards, (unsigned long long)r.missing_shards,
                         (unsigned long long)r.unreadable_objects);
}

/* Upkeep keeps a record of how far it has come, now and then. */
static bool no_change_under_way(void)
{
        unsigned i;

        for (i = 0; i < world.loop_count; i++) {
                const struct eng_loop *el = &world.store->loops[i];

                if (el->leader.txns > 0 || (nodes_plan.homes && el->leader.pins != NULL)) /* of a session that has ended: for a minute */
                        return false;
        }
        return true;
}

/* What a hedge was quicker than, or others were asked for instead, is on its way to nobody. */
static bool no_slot_is_out(void)
{
        unsigned i, j, out = 0;

        for (i = 0; i < world.loop_count; i++)
                out += sim_slots_out(world.loops[i]);
        for (i = 0; nodes_plan.homes && i < nodes_plan.nodes; i++)
                for (j = 0; j < world.loop_count; j++)
                        out += sim_slots_out(sim_nodes[i].home.loops[j]);
        return out == 0;
}

static void look_closely(void)
{
        unsigned i;

        world.final = true;
        clients_final();
        for (i = 0; i < world.home_count; i++)
                clients_read_home(&world.homes[i]);
        live_for(5 * SIM_S);
        wait_for(check_at_rest); /* parts of the uploads that have ended now were in its way */
        wait_for(grow_over);
        wait_for(check_at_rest);
        check_shards(-1);
        check_verification();
        clients_read_versions();
        live_for(SIM_S);
        wait_for(no_change_under_way); /* a record that is committed on one member is on its way to the others */
        check_replicas();
        check_shards(-1);
        wait_for(no_slot_is_out);
        join();
        check_idle();
        nodes_check_idle();
        nodes_figures.leaked += check_leaks();
        world.final = false;
}

void nodes_run(uint64_t seed, bool trace)
{
        sim_begin(seed, trace);
        history_begin();
        clients_begin();
        plan_history();
        world.calm = true;
        nodes_format();
        work();
        bounds();
        duels();
        moves();
        heal();
        look_closely();
        end_all();
        client_figures.undecided += history_check();
        sim_note(5, history_count(), history_now());
        sim_disks_free();
        nodes_figures.histories++;
}
