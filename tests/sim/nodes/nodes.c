/*
 * nodes.c - see nodes.h.
 */
#include "tests/sim/nodes/nodes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/store.h"
#include "tests/sim/history.h"
#include "tests/sim/nodes/fiber.h"
#include "tests/sim/nodes/sim_net.h"
#include "tests/sim/sim_clients.h"
#include "tests/sim/sim_locks.h"
#include "tests/sim/sim_world.h"

#define EVENTS_MAX 6000000u

struct nodes_plan nodes_plan;
bool nodes_unfenced;
struct sim_node sim_nodes[NODES_MAX];
struct sim_process sim_leader;
struct nodes_figures nodes_figures;

static bool serves; /* the leader has been seen to */
static char remote_paths[SIM_DISKS][32];
static const char *paths[SIM_DISKS];
static struct eng_site sites[SIM_DISKS];
static uint64_t boots;

/* ---- a process ------------------------------------------------------------------------------- */

static void process_log(void *arg, const char *line)
{
        sim_trace("  party %u: %s", ((const struct sim_process *)arg)->party, line);
}

static void process_knows(struct sim_process *p, uint16_t party)
{
        struct net_peer_options options = {.node = party};
        struct net_peer *peer;

        snprintf(options.name, sizeof(options.name), "node-%u", party);
        snprintf(options.address, sizeof(options.address), "node-%u", party);
        if (net_peer_set(p->net, &options, &peer) != 0)
                abort();
}

static void process_begin(struct sim_process *p, struct lp_loop *const *loops, unsigned loop_count)
{
        struct net_options options = {.cluster = "a simulated one",
                                      .generation = {1, 2},
                                      .node = p->party,
                                      .boot = ++boots,
                                      .loops = loops,
                                      .loop_count = loop_count,
                                      .plain_bulk = nodes_plan.plain_bulk,
                                      .limits = {.silence_ms = nodes_plan.silence_ms, .handshake_ms = nodes_plan.handshake_ms, .backoff_ms = 500},
                                      .log = process_log,
                                      .log_arg = p};

        p->runs = true;
        p->boot = boots;
        options.transport = sim_net_party(p->number, p->party, p->host);
        snprintf(options.listen, sizeof(options.listen), "node-%u", p->party);
        if (p->server != NULL) {
                options.handler = (struct net_handler){.bulk = rem_server_bulk, .request = rem_server_request, .lost = rem_server_lost};
                options.handler_arg = p->server;
        }
        if (net_new(&options, &p->net) != 0)
                abort();
        net_start(p->net, NULL, NULL);
}

static void process_loops(struct sim_process *p, unsigned peer_slots)
{
        unsigned i;

        p->loop_count = nodes_plan.loops_each;
        for (i = 0; i < p->loop_count; i++) {
                struct lp_config config = {.index = i, .peer_slots = peer_slots};

                if (lp_loop_new(&config, &p->loops[i]) != 0)
                        abort();
        }
}

/* What it had in memory stays as it is: nobody has a pointer to it any more. */
static void process_end(struct sim_process *p, bool told)
{
        sim_net_killed(p->number, told);
        sim_process_clear(p->number);
        fibers_clear(p->number);
        sim_loops_clear_of(p->number);
        p->runs = false;
        p->net = NULL;
        p->server = NULL;
        p->client = NULL;
}

/* ---- drive servers --------------------------------------------------------------------------- */

struct disk_start {
        struct sim_node *node;
        unsigned at;
};

static void disk_opens(void *arg)
{
        struct disk_start *start = arg;
        struct sim_process *p = &start->node->process;
        struct sim_disk *disk = start->node->disks[start->at];
        struct eng_local_options options = {.path = disk->path, .identity = disk->identity};
        struct eng_error error;

        if (rem_served_open(p->served[start->at], &options, &error) != 0)
                sim_fail("a drive server could not open %s: %s", disk->path, error.text);
        free(start);
}

void node_start(struct sim_node *node)
{
        struct sim_process *p = &node->process;
        unsigned before = sim_enter(p->number), i;

        assert(!p->runs && !node->off);
        if (rem_server_new(&p->server) != 0)
                abort();
        process_loops(p, nodes_plan.peer_slots);
        process_begin(p, p->loops, p->loop_count);
        process_knows(p, LEADER_PARTY);
        for (i = 0; i < node->disk_count; i++) {
                struct lp_loop *owner = p->loops[i % p->loop_count];
                struct disk_start *start = malloc(sizeof(*start));

                if (start == NULL || rem_served_new(p->server, NODES_POOL, node->disks[i]->identity.slot, owner, &p->served[i]) != 0)
                        abort();
                *start = (struct disk_start){.node = node, .at = i};
                sim_at(sim_skewed(SIM_NODES, 10 * SIM_US, 500 * SIM_MS), NULL, disk_opens, start);
        }
        sim_trace("node %u: its drive server begins, boot %llu", p->party, (unsigned long long)p->boot);
        sim_enter(before);
}

void node_kill(struct sim_node *node, bool power, bool told)
{
        unsigned i;

        sim_trace("node %u: its drive server dies%s", node->process.party, !power ? "" : told ? ", and its host begins anew" : " with its host");
        if (node->process.runs)
                process_end(&node->process, told);
        for (i = 0; i < node->disk_count; i++) {
                sim_disk_crash(node->disks[i], power);
                sim_drive_free_retired(node->disks[i]);
        }
}

/* ---- the leader ------------------------------------------------------------------------------ */

static struct eng_options store_options(void)
{
        return (struct eng_options){.drives = paths,
                                    .drive_count = sim_disk_count,
                                    .ec_k = nodes_plan.k,
                                    .ec_m = nodes_plan.m,
                                    .sites = sites,
                                    .site = sites[0],
                                    .boot = (uint32_t)boots,
                                    .loops = world.loops,
                                    .loop_count = world.loop_count,
                                    .inline_max = nodes_plan.inline_max,
                                    .cache_bytes = 1 << 20,
                                    .wall_ms = locks_wall_ms,
                                    .clock_ns = locks_clock_ns,
                                    .heal_rate = nodes_plan.heal_rate,
                                    .heal_keep_ms = 1,
                                    .drive_wait_ms = 3000};
}

static void store_loops(void)
{
        unsigned i;

        for (i = 0; i < world.loop_count; i++) {
                struct lp_config config = {.index = i, .slots = nodes_plan.slots};

                if (lp_loop_new(&config, &world.loops[i]) != 0)
                        abort();
        }
}

static void store_begins(struct eng_store *store)
{
        world.store = store;
        eng_store_start(store);
}

static void leader_gives_up(void *arg)
{
        leader_kill(true);
        leader_start_later(SIM_S);
}

static void *leader_opens(void *arg)
{
        struct eng_options options = store_options();
        struct eng_store *store;
        struct eng_error error;
        unsigned before;
        int rv;

        options.opener = rem_client_opener(sim_leader.client);
        rv = eng_store_open(&options, &store, &error);
        if (rv == 0) {
                store_begins(store);
                return NULL;
        }
        sim_trace("the store does not open: %d %s", rv, error.text);
        before = sim_enter(0);
        sim_at(SIM_MS, NULL, leader_gives_up, NULL);
        sim_enter(before);
        return NULL;
}

void leader_start(void)
{
        struct sim_process *p = &sim_leader;
        struct rem_client_options options;
        unsigned before = sim_enter(p->number), i;

        assert(!p->runs && world.store == NULL);
        store_loops();
        if (!nodes_plan.shared_loops)
                process_loops(p, 0);
        process_begin(p, nodes_plan.shared_loops ? world.loops : p->loops, nodes_plan.shared_loops ? world.loop_count : p->loop_count);
        for (i = 0; i < nodes_plan.nodes; i++)
                process_knows(p, sim_nodes[i].process.party);
        options = (struct rem_client_options){.net = p->net, .loop = nodes_plan.shared_loops ? world.loops[0] : p->loops[0]};
        if (rem_client_new(&options, &p->client) != 0)
                abort();
        for (i = 0; i < sim_disk_count; i++)
                paths[i] = remote_paths[i];
        nodes_figures.leaders++;
        serves = false;
        sim_trace("the leader begins, boot %llu", (unsigned long long)p->boot);
        fiber_start(leader_opens, NULL);
        sim_enter(before);
}

static void leader_comes_back(void *arg)
{
        if (sim_leader.runs)
                return;
        if (nodes_plan.waits_for_streams && !sim_net_quiet(LEADER_PARTY))
                sim_at(50 * SIM_MS, NULL, leader_comes_back, NULL);
        else
                leader_start();
}

void leader_start_later(uint64_t ns)
{
        unsigned before = sim_enter(0);

        sim_at(ns, NULL, leader_comes_back, NULL);
        sim_enter(before);
}

/* What its remote drives met. */
static void leader_count(void)
{
        struct rem_stats stats;

        rem_stats_read(sim_leader.client, &stats);
        nodes_figures.unreachable += stats.unreachable;
        nodes_figures.refused += stats.refused;
        nodes_figures.begins += stats.begins;
        if (stats.lies > 0)
                sim_fail("%llu answers of drive servers made no sense", (unsigned long long)stats.lies);
}

void leader_kill(bool told)
{
        if (!sim_leader.runs)
                return;
        sim_trace("the leader dies");
        leader_count();
        process_end(&sim_leader, told);
        clients_lost();
        world.store = NULL;
        serves = false;
        locks_between(false);
}

bool leader_serves(void)
{
        return world.store != NULL && serves;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void leader_watch(void)
{
        const struct eng_coord *c;

        if (world.store == NULL || serves || world.store->coord->phase != ENG_PHASE_OPEN)
                return;
        c = world.store->coord;
        serves = true;
        sim_trace("the store is open%s, epoch %llu, in %llx", c->view.writable ? "" : " for reading", (unsigned long long)c->view.epoch,
                  (unsigned long long)c->view.in);
        if (c->view.writable)
                history_settled();
        clients_start();
}

void nodes_step(void)
{
        if (!sim_step())
                sim_fail("nothing happens any more");
        if (sim.events > EVENTS_MAX)
                sim_fail("it does not come to an end");
        leader_watch();
        if (world.store != NULL)
                locks_watch();
        clients_watch();
}

static void first_buckets(void)
{
        clients_first_bucket();
        while (world.bucket_count == 0 || !clients_idle())
                nodes_step();
        if (!versions_planned())
                return;
        clients_versions_bucket();
        while (!clients_idle())
                nodes_step();
}

/* With drives in one process: a store is formatted on folders, and a drive server opens what is formatted. */
void nodes_format(void)
{
        struct eng_options options;
        struct eng_store *store;
        struct eng_error error;
        unsigned i, before = sim_enter(LEADER_PROCESS);

        for (i = 0; i < sim_disk_count; i++)
                paths[i] = sim_disks[i].path;
        store_loops();
        boots++;
        options = store_options();
        options.format = true;
        if (eng_store_open(&options, &store, &error) != 0)
                sim_fail("the store cannot be formatted: %s", error.text);
        store_begins(store);
        sim_enter(before);
        while (!leader_serves())
                nodes_step();
        first_buckets();
        world.stopping = true;
        for (i = 0; i < world.loop_count; i++)
                lp_loop_stop(world.loops[i]);
        if (!eng_store_close(world.store))
                sim_fail("a clean end did not come to its end");
        sim_process_clear(LEADER_PROCESS);
        fibers_clear(LEADER_PROCESS);
        sim_loops_clear_of(LEADER_PROCESS);
        for (i = 0; i < sim_disk_count; i++) {
                sim_disk_crash(&sim_disks[i], false);
                snprintf(remote_paths[i], sizeof(remote_paths[i]), "remote:%u/%u/%u", sites[i].node, NODES_POOL, sim_disks[i].identity.slot);
        }
        clients_lost();
        world.stopping = serves = false;
        world.store = NULL;
        locks_between(false);
}

void nodes_make(void)
{
        unsigned i, j, n = 0;

        memset(sim_nodes, 0, sizeof(sim_nodes));
        memset(&sim_leader, 0, sizeof(sim_leader));
        serves = false;
        boots = 0;
        sim_net_begin();
        sim_disks_make(nodes_plan.nodes * nodes_plan.drives_each);
        for (i = 0; i < nodes_plan.nodes; i++) {
                struct sim_node *node = &sim_nodes[i];

                node->process = (struct sim_process){.number = i + 1, .party = (uint16_t)(i + 1), .host = i};
                node->disk_count = nodes_plan.drives_each;
                for (j = 0; j < node->disk_count; j++, n++) {
                        node->disks[j] = &sim_disks[n];
                        sites[n] = (struct eng_site){.node = (uint16_t)(i + 1)};
                }
        }
        sim_leader = (struct sim_process){.number = LEADER_PROCESS, .party = LEADER_PARTY, .host = NODES_MAX};
        for (i = 0; i <= LEADER_PROCESS; i++)
                sim_clock_set(i, nodes_plan.offset_ns[i], nodes_plan.ppm[i]);
}

/* WATCH is always with a drive server, once for each of its drives. */
void nodes_check_idle(void)
{
        unsigned i, j;

        for (i = 0; i < nodes_plan.nodes; i++) {
                const struct sim_node *node = &sim_nodes[i];
                struct net_stats stats;

                net_stats_read(node->process.net, &stats);
                for (j = 0; j < node->process.loop_count; j++)
                        if (sim_slots_out(node->process.loops[j]) > 0)
                                sim_fail("node %u: %u slots were not given back", i + 1, sim_slots_out(node->process.loops[j]));
                if (stats.requests_in > node->disk_count)
                        sim_fail("node %u: %llu requests are not answered", i + 1, (unsigned long long)stats.requests_in);
        }
}

bool world_others_speak(unsigned slot, uint32_t pg)
{
        const struct eng_view *view;
        eng_mask speakers;

        if (world.store == NULL)
                return false;
        view = &eng_primary(world.store, pg)->view;
        speakers = view->ready ? eng_speakers(view, pg) & view->up : 0;
        return (speakers & eng_bit(slot)) != 0 && (speakers & ~eng_bit(slot)) != 0;
}
