/*
 * nodes_faults.c - what happens to nodes, processes, links and drives, by seed.
 */
#include "tests/sim/nodes/nodes_world.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/nodes/nodes.h"
#include "tests/sim/nodes/sim_etcd.h"
#include "tests/sim/nodes/sim_net.h"
#include "tests/sim/sim_clients.h"

#define FAULTS_MAX 12u
#define SPAN       (25 * SIM_S) /* in which they come */
#define EVENTS     15000u       /* or behind so many events */
#define TRIES      400u         /* to find clients that wait for something */
#define FRAMES     100u         /* between two resets, at most */

enum fault {
        FAULT_CUT, FAULT_CUT_ONE_WAY, FAULT_ISOLATE, FAULT_SPLIT, FAULT_RESET, FAULT_STALL, FAULT_HALF_OPEN, FAULT_FLIP, FAULT_KILL_NODE,
        FAULT_HOST_OFF, FAULT_POWER, FAULT_KILL_LEADER, FAULT_AIM, FAULT_OUST, FAULT_USURP, FAULT_MOVE, FAULT_STOP, FAULT_BLOCK, FAULT_HANG, FAULT_FULL, FAULT_FAIL,
        FAULT_ETCD_DOWN, FAULT_ETCD_CUT, FAULT_ETCD_LOSSY, FAULT_ETCD_RESTORED, FAULTS
};

static struct {
        bool planned;
        unsigned kinds, left; /* kinds: a mask of enum fault */
        unsigned count, resets, waits;
        bool failed_drives;
        int64_t usurped; /* the leader key's revision */
        unsigned aims; /* at leaders to come, when they change the epoch */
        bool armed, storm; /* storm: connections are reset all the time */
        uint64_t at[FAULTS_MAX]; /* sim.events; 0: by time, or it has come */
} faults;

static void cut(struct sim_node *a, struct sim_node *b, bool to, bool from, uint64_t ns);
static uint64_t cut_span(void);

static uint64_t below(uint64_t n)
{
        return sim_below(SIM_FAULTS, n);
}

void faults_plan(bool none)
{
        unsigned n = 1 + (unsigned)below(5);

        memset(&faults, 0, sizeof(faults));
        faults.planned = below(5) != 0 && !none;
        if (!faults.planned)
                return;
        while (n-- > 0)
                faults.kinds |= 1u << below(FAULTS);
        faults.storm = below(5) == 0;
        if (below(4) == 0)
                faults.kinds |= 1u << FAULT_OUST;
}

bool faults_planned(void)
{
        return faults.planned;
}

bool faults_failed_drives(void)
{
        return faults.failed_drives;
}

bool faults_over(void)
{
        return faults.left == 0;
}

/* ---- nodes and processes --------------------------------------------------------------------- */

static struct sim_node *any_node(void)
{
        return &sim_nodes[below(nodes_plan.nodes)];
}

/* The newest leader's, half of the time. */
static struct sim_node *likely_node(void)
{
        struct sim_leader *leader = newest_leader();

        return leader != NULL && below(2) == 0 ? leader->node : any_node();
}

static void node_comes_back(void *arg)
{
        struct sim_node *node = arg;

        if (!node->process.runs && !node->off)
                node_start(node);
}

static void kill_node(struct sim_node *node)
{
        if (!node->process.runs)
                return;
        nodes_figures.server_kills++;
        node_kill(node, below(2) == 0, true);
        sim_at(sim_skewed(SIM_FAULTS, 10 * SIM_MS, 8 * SIM_S), NULL, node_comes_back, node);
}

void faults_kill_node(struct sim_node *node)
{
        kill_node(node);
}

static void host_comes_back(void *arg)
{
        struct sim_node *node = arg;

        if (!node->off)
                return;
        node->off = false;
        sim_net_host(node->process.host, true);
        node_comes_back(node);
}

void faults_host_off(struct sim_node *node)
{
        nodes_figures.nodes_off++;
        node->off = true;
        sim_net_host(node->process.host, false);
        node_kill(node, true, false);
}

void faults_host_on(struct sim_node *node)
{
        host_comes_back(node);
}

static void host_off(struct sim_node *node, uint64_t ns)
{
        if (node->off)
                return;
        faults_host_off(node);
        sim_at(ns, NULL, host_comes_back, node);
}

/* The power of all hosts is gone for a while. */
static void power_off(void)
{
        uint64_t ns = sim_skewed(SIM_FAULTS, SIM_MS, 20 * SIM_S);
        unsigned i;

        for (i = 0; i < nodes_plan.nodes; i++)
                host_off(&sim_nodes[i], ns + sim_skewed(SIM_FAULTS, SIM_MS, 40 * SIM_S));
}

static void kill_leader(bool told)
{
        struct sim_leader *leader = newest_leader();

        if (leader == NULL)
                return;
        nodes_figures.leader_kills++;
        leader_kill(leader, told);
}

static void stop(struct sim_process *p)
{
        uint64_t ns = cut_span();

        if (!p->runs)
                return;
        sim_trace("party %u is stopped for %.3f s", p->party, (double)ns / 1e9);
        nodes_figures.stopped++;
        sim_process_stop(p->number, ns);
        if (p->server != NULL && nodes_plan.homes) /* a node process: its home is a part of it */
                sim_process_stop(((struct sim_node *)p)->home.process.number, ns);
}

static void stop_process(void)
{
        struct sim_leader *leader = newest_leader();

        stop(leader != NULL && below(2) == 0 ? &leader->process : &any_node()->process);
}

/* Another node tries to lead, whether one does or not. */
static void usurp(void)
{
        struct sim_node *node = any_node();

        if (node->process.runs && !node->leader.process.runs)
                leader_start(node, node->leader_revision, false, 0);
}

/* ---- a step of an epoch change ---------------------------------------------------------------- */

static void aim(void);

static void aimed_now(void *arg)
{
        struct sim_leader *leader = newest_leader();
        unsigned i;

        if (leader == NULL)
                return;
        nodes_figures.aimed++;
        switch (below(4)) {
        case 0:
                sim_trace("aimed at the leader:");
                stop(&leader->process);
                break;
        case 1:
                for (i = 0; i < nodes_plan.nodes; i++)
                        cut(&sim_nodes[i], leader->node, true, below(2) == 0, cut_span());
                if (below(2) == 0)
                        sim_etcd_cut(leader->process.host, cut_span());
                break;
        default:
                kill_leader(true);
        }
        if (faults.aims > 0)
                aim();
}

/* In the middle of an event of a process: it comes soon behind. */
static void aimed_step(void)
{
        unsigned before = sim_enter(0);

        sim_at(sim_skewed(SIM_FAULTS, 0, 60 * SIM_MS), NULL, aimed_now, NULL);
        sim_enter(before);
}

static void aim(void)
{
        faults.aims--;
        sim_etcd_expect(nodes_config_key(), aimed_step);
}

/* ---- links ----------------------------------------------------------------------------------- */

static void cut(struct sim_node *a, struct sim_node *b, bool to, bool from, uint64_t ns)
{
        if (a == b)
                return;
        sim_trace("nodes %u and %u are cut off%s for %.3f s", a->process.party, b->process.party, !to ? " one way" : !from ? " the other way" : "",
                  (double)ns / 1e9);
        if (to)
                sim_net_cut(a->process.host, b->process.host, ns);
        if (from)
                sim_net_cut(b->process.host, a->process.host, ns);
}

/* Short ones, and such as a lease and grants run out in. */
static uint64_t cut_span(void)
{
        return below(2) == 0 ? sim_skewed(SIM_FAULTS, 10 * SIM_MS, 30 * SIM_S) : 3 * SIM_S + below(12 * SIM_S);
}

/* A node is alone, with etcd or without. */
static void isolate(void)
{
        struct sim_node *node = likely_node();
        uint64_t ns = cut_span();
        unsigned i;

        for (i = 0; i < nodes_plan.nodes; i++)
                cut(&sim_nodes[i], node, true, true, ns);
        if (below(2) == 0)
                sim_etcd_cut(node->process.host, ns);
}

static void oust_over(void *arg)
{
        world.ousted = NULL;
        if (world.store != NULL)
                clients_start();
}

static void usurp_with(void *arg)
{
        struct sim_node *node = arg;

        node_comes_back(node);
        if (node->process.runs && !node->leader.process.runs)
                leader_start(node, faults.usurped, false, 0);
}

/* A member begins anew, which does not know what it has granted, and tries to lead by itself at once. */
static void restart_alone(struct sim_leader *leader, struct sim_node *other, uint64_t ns)
{
        unsigned i;

        if (other == leader->node || !other->process.runs)
                return;
        faults.usurped = other->leader_revision;
        node_kill(other, false, false);
        for (i = 0; i < nodes_plan.nodes; i++)
                cut(other, &sim_nodes[i], true, true, ns);
        sim_etcd_cut(leader->node->process.host, ns);
        sim_at(sim_skewed(SIM_FAULTS, SIM_MS, 300 * SIM_MS), NULL, usurp_with, other);
}

/*
 * The leader is alone, or stands still, or another node takes the key from it, for long enough that another takes its
 * place while it may think that it leads. Some clients go on asking it.
 */
uint64_t faults_oust(void)
{
        struct sim_leader *leader = newest_leader();
        struct sim_node *other = any_node();
        uint64_t ns = 3500 * SIM_MS + below(6 * SIM_S);
        unsigned i;

        if (leader == NULL || !leader->serves)
                return 0;
        sim_trace("node %u is ousted", leader->node->process.party);
        clients_oust(leader->store);
        sim_at(ns + 6 * SIM_S, NULL, oust_over, NULL);
        switch (below(8)) {
        case 3:
                restart_alone(leader, other, ns);
                break;
        case 0:
        case 1:
                sim_process_stop(leader->process.number, ns);
                sim_trace("party %u is stopped for %.3f s", leader->process.party, (double)ns / 1e9);
                break;
        case 2:
                if (other->process.runs && !other->leader.process.runs)
                        leader_start(other, other->leader_revision, false, 0);
                break;
        default:
                for (i = 0; i < nodes_plan.nodes; i++)
                        cut(leader->node, &sim_nodes[i], true, below(8) != 0, ns);
                sim_etcd_cut(leader->process.host, ns + below(4 * SIM_S));
        }
        return ns;
}

/* Two sides; etcd is on both, or on one. */
static void split(void)
{
        uint64_t ns = cut_span(), side = 1 + below((1u << nodes_plan.nodes) - 2);
        bool with_etcd = below(2) == 0;
        unsigned i, j;

        for (i = 0; i < nodes_plan.nodes; i++) {
                for (j = 0; j < i; j++)
                        if ((side >> i & 1) != (side >> j & 1))
                                cut(&sim_nodes[i], &sim_nodes[j], true, true, ns);
                if (!with_etcd && (side >> i & 1) != 0)
                        sim_etcd_cut(sim_nodes[i].process.host, ns);
        }
}

/* ---- etcd ------------------------------------------------------------------------------------ */

/* Whoever has noticed does nothing any more: the operator starts it again. */
static void etcd_is_right(void *arg)
{
        unsigned i;

        if (!sim_etcd_right())
                return;
        for (i = 0; i < nodes_plan.nodes; i++)
                if (sim_nodes[i].process.runs) {
                        node_kill(&sim_nodes[i], false, true);
                        sim_at(sim_skewed(SIM_FAULTS, SIM_MS, 3 * SIM_S), NULL, node_comes_back, &sim_nodes[i]);
                }
}

static void restore_etcd(void)
{
        if (sim_etcd_restore())
                sim_at(sim_skewed(SIM_FAULTS, 10 * SIM_MS, 30 * SIM_S), NULL, etcd_is_right, NULL);
}

static void backup_etcd(void *arg)
{
        sim_etcd_keep();
}

/* ---- drives ---------------------------------------------------------------------------------- */

static struct sim_disk *any_disk(void)
{
        return &sim_disks[below(sim_disk_count)];
}

static void disk_has_room(void *arg)
{
        ((struct sim_disk *)arg)->full = false;
}

static void fill(struct sim_disk *disk)
{
        disk->full = true;
        sim_at(sim_skewed(SIM_FAULTS, SIM_MS, 10 * SIM_S), NULL, disk_has_room, disk);
}

/* In the process that has it open. */
static void on_disk(struct sim_disk *disk, bool fails)
{
        unsigned i, j, before;

        for (i = 0; i < nodes_plan.nodes; i++)
                for (j = 0; j < sim_nodes[i].disk_count; j++) {
                        if (sim_nodes[i].disks[j] != disk || !sim_nodes[i].process.runs)
                                continue;
                        before = sim_enter(sim_nodes[i].process.number);
                        faults.failed_drives = true; /* one that hangs does, too, after a while */
                        if (fails)
                                sim_drive_fail(disk, "its seed says so");
                        else
                                sim_drive_hang(disk, sim_skewed(SIM_FAULTS, SIM_MS, 9 * SIM_S));
                        sim_enter(before);
                }
}

/* ---- all of them ----------------------------------------------------------------------------- */

bool faults_block_home(uint64_t ns)
{
        if (world.home_count == 0)
                return false;
        sim_trace("a loop of a home does nothing for %.3f ms", (double)ns / 1e6);
        sim_block(world.homes[sim_below(SIM_HOMES, world.home_count)].loops[sim_below(SIM_HOMES, world.loop_count)], ns);
        return true;
}

/* A loop of the leader is held up. */
static void block(uint64_t most)
{
        struct sim_leader *leader = newest_leader();
        unsigned net = leader == NULL || nodes_plan.shared_loops ? 0 : leader->process.loop_count, at = (unsigned)below(world.loop_count + net);
        uint64_t ns = sim_skewed(SIM_FAULTS, 50 * SIM_US, most);

        if (leader == NULL)
                return;
        sim_trace("loop %u of the leader does nothing for %.3f ms", at, (double)ns / 1e6);
        sim_block(at < world.loop_count ? leader->loops[at] : leader->process.loops[at - world.loop_count], ns);
}

/* Connections end while something is under way, a few in a row; now and then a loop learns of it late. */
static void reset(void)
{
        if (sim_net_armed())
                return;
        if (faults.armed && below(2) == 0)
                block(50 * SIM_MS);
        faults.armed = faults.resets > 0;
        if (faults.resets == 0)
                return;
        faults.resets--;
        sim_net_arm(1 + (unsigned)below(FRAMES), sim_skewed(SIM_FAULTS, SIM_US, 10 * SIM_S));
}

static void fault_comes(void *arg)
{
        unsigned kind;

        if (clients_idle() && world.ops_left > 0 && faults.waits > 0) { /* it comes while somebody waits for something */
                faults.waits--;
                sim_at(sim_skewed(SIM_FAULTS, 10 * SIM_US, 50 * SIM_MS), NULL, fault_comes, NULL);
                return;
        }
        do
                kind = (unsigned)below(FAULTS);
        while ((faults.kinds & 1u << kind) == 0);
        faults.left--;
        nodes_figures.faults++;
        world.calm = false;
        switch ((enum fault)kind) {
        case FAULT_CUT:
                cut(any_node(), likely_node(), true, true, cut_span());
                break;
        case FAULT_CUT_ONE_WAY:
                if (below(2) == 0)
                        cut(any_node(), likely_node(), true, false, cut_span());
                else
                        cut(any_node(), likely_node(), false, true, cut_span());
                break;
        case FAULT_ISOLATE:
                isolate();
                break;
        case FAULT_SPLIT:
                split();
                break;
        case FAULT_RESET:
                faults.resets += faults.storm ? 0 : 1 + (unsigned)below(20);
                reset();
                break;
        case FAULT_STALL:
                sim_net_stall(sim_skewed(SIM_FAULTS, SIM_MS, 10 * SIM_S));
                break;
        case FAULT_HALF_OPEN:
                sim_net_stall(SIM_FOREVER);
                break;
        case FAULT_FLIP:
                sim_net_flip();
                break;
        case FAULT_KILL_NODE:
                kill_node(likely_node());
                break;
        case FAULT_HOST_OFF:
                host_off(likely_node(), 5 * SIM_S + sim_skewed(SIM_FAULTS, SIM_MS, 55 * SIM_S));
                break;
        case FAULT_POWER:
                power_off();
                break;
        case FAULT_KILL_LEADER:
                kill_leader(true);
                break;
        case FAULT_AIM:
                faults.aims = 1 + (unsigned)below(3);
                aim();
                if (below(2) == 0) /* something that changes the epoch */
                        kill_node(any_node());
                break;
        case FAULT_OUST:
                (void)faults_oust();
                break;
        case FAULT_USURP:
                usurp();
                break;
        case FAULT_MOVE:
                nodes_figures.moved += leader_release(newest_leader());
                break;
        case FAULT_STOP:
                stop_process();
                break;
        case FAULT_BLOCK:
                if (!nodes_plan.homes || sim_chance(SIM_HOMES, 2) || !faults_block_home(sim_skewed(SIM_FAULTS, 50 * SIM_US, 20 * SIM_S)))
                        block(3 * SIM_S);
                break;
        case FAULT_HANG:
                on_disk(any_disk(), false);
                break;
        case FAULT_FULL:
                fill(any_disk());
                break;
        case FAULT_FAIL:
                on_disk(any_disk(), true);
                break;
        case FAULT_ETCD_DOWN:
                sim_etcd_down(sim_skewed(SIM_FAULTS, 10 * SIM_MS, 150 * SIM_S));
                break;
        case FAULT_ETCD_CUT:
                sim_etcd_cut(likely_node()->process.host, sim_skewed(SIM_FAULTS, 10 * SIM_MS, 60 * SIM_S));
                break;
        case FAULT_ETCD_LOSSY:
                sim_etcd_lossy(sim_skewed(SIM_FAULTS, SIM_S, 60 * SIM_S));
                break;
        case FAULT_ETCD_RESTORED:
                restore_etcd();
                break;
        case FAULTS:
                abort();
        }
}

void faults_start(void)
{
        unsigned i;

        if (!faults.planned)
                return;
        faults.waits = TRIES;
        faults.resets = faults.storm ? 1000 : 0;
        sim_at(sim_skewed(SIM_FAULTS, SIM_MS, SPAN), NULL, backup_etcd, NULL);
        faults.count = faults.left = 1 + (unsigned)below(FAULTS_MAX);
        for (i = 0; i < faults.count; i++)
                if (below(2) == 0)
                        sim_at(sim_skewed(SIM_FAULTS, 10 * SIM_MS, SPAN), NULL, fault_comes, NULL);
                else
                        faults.at[i] = sim.events + 1 + below(EVENTS);
        for (i = 0; i < sim_disk_count; i++)
                sim_disks[i].faults.slow = below(4) == 0 ? 10 + (unsigned)below(300) : 0;
}

void faults_step(void)
{
        unsigned i;

        reset();
        for (i = 0; i < faults.count; i++)
                if (faults.at[i] != 0 && sim.events >= faults.at[i]) {
                        faults.at[i] = 0;
                        fault_comes(NULL);
                }
}

bool faults_heal(void)
{
        bool whole = true;
        unsigned i;

        sim_trace("everything heals");
        faults.resets = faults.aims = 0;
        sim_net_heal();
        sim_etcd_heal();
        for (i = 0; i < ALL_PROCESSES; i++)
                sim_process_stop(i, 0);
        for (i = 0; i < sim_disk_count; i++) {
                whole &= !sim_drive_failed(&sim_disks[i]);
                sim_disks[i].full = false;
                memset(&sim_disks[i].faults, 0, sizeof(sim_disks[i].faults));
        }
        for (i = 0; i < nodes_plan.nodes; i++) {
                if (sim_nodes[i].off)
                        host_comes_back(&sim_nodes[i]);
                else
                        node_comes_back(&sim_nodes[i]);
        }
        etcd_is_right(NULL);
        return whole;
}
