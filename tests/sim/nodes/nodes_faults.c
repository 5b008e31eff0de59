/*
 * nodes_faults.c - what happens to nodes, processes, links and drives, by seed.
 */
#include "tests/sim/nodes/nodes_world.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/nodes/nodes.h"
#include "tests/sim/nodes/sim_net.h"
#include "tests/sim/sim_clients.h"

#define FAULTS_MAX 12u
#define SPAN       (25 * SIM_S) /* in which they come */
#define EVENTS     15000u       /* or behind so many events */
#define TRIES      400u         /* to find clients that wait for something */
#define FRAMES     100u         /* between two resets, at most */

enum fault {
        FAULT_CUT, FAULT_CUT_ONE_WAY, FAULT_ISOLATE, FAULT_RESET, FAULT_STALL, FAULT_HALF_OPEN, FAULT_FLIP, FAULT_KILL_SERVER,
        FAULT_HOST_OFF, FAULT_KILL_LEADER, FAULT_LEADER_SILENT, FAULT_STOP, FAULT_BLOCK, FAULT_HANG, FAULT_FULL, FAULT_FAIL, FAULTS
};

static struct {
        bool planned;
        unsigned kinds, left; /* kinds: a mask of enum fault */
        unsigned count, resets, waits;
        bool armed, storm; /* storm: connections are reset all the time */
        uint64_t at[FAULTS_MAX]; /* sim.events; 0: by time, or it has come */
} faults;

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
}

bool faults_planned(void)
{
        return faults.planned;
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

static void server_comes_back(void *arg)
{
        struct sim_node *node = arg;

        if (!node->process.runs && !node->off)
                node_start(node);
}

static void kill_server(struct sim_node *node)
{
        if (!node->process.runs)
                return;
        nodes_figures.server_kills++;
        node_kill(node, below(2) == 0, true);
        sim_at(sim_skewed(SIM_FAULTS, 10 * SIM_MS, 8 * SIM_S), NULL, server_comes_back, node);
}

static void host_comes_back(void *arg)
{
        struct sim_node *node = arg;

        if (!node->off)
                return;
        node->off = false;
        sim_net_host(node->process.host, true);
        server_comes_back(node);
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

static void host_off(struct sim_node *node)
{
        if (node->off)
                return;
        faults_host_off(node);
        sim_at(5 * SIM_S + sim_skewed(SIM_FAULTS, SIM_MS, 55 * SIM_S), NULL, host_comes_back, node);
}

static void kill_leader(bool told)
{
        if (sim_leader.runs) {
                nodes_figures.leader_kills++;
                leader_kill(told);
        }
        leader_start_later(sim_skewed(SIM_FAULTS, 10 * SIM_MS, 5 * SIM_S));
}

static void stop_process(void)
{
        struct sim_process *p = below(3) == 0 ? &sim_leader : &any_node()->process;
        uint64_t ns = sim_skewed(SIM_FAULTS, 10 * SIM_MS, 15 * SIM_S);

        sim_trace("party %u is stopped for %.3f s", p->party, (double)ns / 1e9);
        nodes_figures.stopped++;
        sim_process_stop(p->number, ns);
}

/* ---- links ----------------------------------------------------------------------------------- */

static void cut(struct sim_node *node, bool to, bool from, uint64_t ns)
{
        sim_trace("the leader and node %u are cut off%s for %.3f s", node->process.party, !to ? " one way" : !from ? " the other way" : "",
                  (double)ns / 1e9);
        if (to)
                sim_net_cut(LEADER_PARTY, node->process.party, ns);
        if (from)
                sim_net_cut(node->process.party, LEADER_PARTY, ns);
}

static void isolate(void)
{
        uint64_t ns = sim_skewed(SIM_FAULTS, 10 * SIM_MS, 20 * SIM_S);
        unsigned i;

        for (i = 0; i < nodes_plan.nodes; i++)
                cut(&sim_nodes[i], true, true, ns);
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
                        if (fails)
                                sim_drive_fail(disk, "its seed says so");
                        else
                                sim_drive_hang(disk, sim_skewed(SIM_FAULTS, SIM_MS, 9 * SIM_S));
                        sim_enter(before);
                }
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* A loop of the leader is held up. */
static void block(uint64_t most)
{
        unsigned net = nodes_plan.shared_loops ? 0 : sim_leader.loop_count, at = (unsigned)below(world.loop_count + net);
        uint64_t ns = sim_skewed(SIM_FAULTS, 50 * SIM_US, most);

        if (!sim_leader.runs)
                return;
        sim_trace("loop %u of the leader does nothing for %.3f ms", at, (double)ns / 1e6);
        sim_block(at < world.loop_count ? world.loops[at] : sim_leader.loops[at - world.loop_count], ns);
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
                cut(any_node(), true, true, sim_skewed(SIM_FAULTS, 10 * SIM_MS, 30 * SIM_S));
                break;
        case FAULT_CUT_ONE_WAY:
                if (below(2) == 0)
                        cut(any_node(), true, false, sim_skewed(SIM_FAULTS, 10 * SIM_MS, 30 * SIM_S));
                else
                        cut(any_node(), false, true, sim_skewed(SIM_FAULTS, 10 * SIM_MS, 30 * SIM_S));
                break;
        case FAULT_ISOLATE:
                isolate();
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
        case FAULT_KILL_SERVER:
                kill_server(any_node());
                break;
        case FAULT_HOST_OFF:
                host_off(any_node());
                break;
        case FAULT_KILL_LEADER:
                kill_leader(true);
                break;
        case FAULT_LEADER_SILENT:
                kill_leader(false);
                break;
        case FAULT_STOP:
                stop_process();
                break;
        case FAULT_BLOCK:
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
        faults.resets = 0;
        sim_net_heal();
        for (i = 0; i <= LEADER_PROCESS; i++)
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
                        server_comes_back(&sim_nodes[i]);
        }
        leader_start_later(0);
        return whole;
}
