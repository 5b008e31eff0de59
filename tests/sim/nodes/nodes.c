/*
 * nodes.c - see nodes.h.
 */
#include "tests/sim/nodes/nodes_process.h"
#include "tests/sim/nodes/nodes_world.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/store.h"
#include "tests/sim/history.h"
#include "tests/sim/nodes/fiber.h"
#include "tests/sim/nodes/sim_etcd.h"
#include "tests/sim/nodes/sim_net.h"
#include "tests/sim/sim_locks.h"
#include "tests/sim/sim_world.h"

#define EVENTS_MAX    8000000u
#define SILENCE_MS    2000u /* these are server/cluster_link.c's */
#define HANDSHAKE_MS  2000u
#define BACKOFF_MS    1024u
#define CONNECT_MS    2000u
#define LEADER_WAIT_MS 1000u /* these are server/lead.c's */
#define DRIVE_WAIT_MS 4750u
#define WHOLE_WAIT_MS 45000u
#define KEEP_NS       (60 * SIM_S)
#define FIRST_BOOT    1u    /* of the process that formats the store */

struct nodes_plan nodes_plan;
struct sim_node sim_nodes[NODES_MAX];
struct nodes_figures nodes_figures;

static const char *paths[SIM_DISKS];
static struct eng_site sites[SIM_DISKS];
static uint64_t boots;
static uint64_t served_term; /* the newest of any leader that has served */
static struct sim_leader *serving; /* world.store is its */

/* ---- a process ------------------------------------------------------------------------------- */

static void process_log(void *arg, const char *line)
{
        sim_trace("  party %u: %s", ((const struct sim_process *)arg)->party, line);
}

static void process_knows(struct sim_process *p, uint16_t party)
{
        struct net_peer_options options = {.node = party};
        struct net_peer *peer;

        if (party == p->party)
                return;
        snprintf(options.name, sizeof(options.name), "node-%u", party);
        snprintf(options.address, sizeof(options.address), "node-%u", party);
        if (net_peer_set(p->net, &options, &peer) != 0)
                abort();
}

/* Every process knows all of them. */
static void process_knows_all(struct sim_process *p)
{
        unsigned i;

        for (i = 0; i < nodes_plan.nodes; i++) {
                process_knows(p, sim_nodes[i].process.party);
                process_knows(p, sim_nodes[i].leader.process.party);
                if (nodes_plan.homes)
                        process_knows(p, sim_nodes[i].home.process.party);
        }
}

void process_connects(struct sim_process *p, struct lp_loop *const *loops, unsigned loop_count)
{
        struct net_options options = {.cluster = "a simulated one",
                                      .generation = {1, 2},
                                      .node = p->party,
                                      .boot = p->boot,
                                      .loops = loops,
                                      .loop_count = loop_count,
                                      .plain_bulk = nodes_plan.plain_bulk,
                                      .limits = {.silence_ms = SILENCE_MS, .handshake_ms = HANDSHAKE_MS, .backoff_ms = BACKOFF_MS},
                                      .log = process_log,
                                      .log_arg = p};

        options.transport = sim_net_party(p->number, p->party, p->host);
        if (p->handler != NULL) {
                snprintf(options.listen, sizeof(options.listen), "node-%u", p->party);
                options.handler = *p->handler;
                options.handler_arg = p->handler_arg;
        }
        if (net_new(&options, &p->net) != 0)
                abort();
        net_start(p->net, NULL, NULL);
        process_knows_all(p);
}

void process_loops(struct sim_process *p, unsigned peer_slots)
{
        unsigned i;

        p->loop_count = nodes_plan.loops_each;
        for (i = 0; i < p->loop_count; i++) {
                struct lp_config config = {.index = i, .peer_slots = peer_slots};

                if (lp_loop_new(&config, &p->loops[i]) != 0)
                        abort();
        }
}

void process_end(struct sim_process *p, bool told)
{
        sim_net_killed(p->number, told);
        sim_etcd_killed(p->number);
        sim_process_clear(p->number);
        fibers_clear(p->number);
        sim_loops_clear_of(p->number);
        p->runs = p->ends = false;
        p->net = NULL;
        p->server = NULL;
        p->handler = NULL;
        p->client = NULL;
        p->etcd = NULL;
        p->loop_count = 0;
}

/* _exit(): what the process would do next, it never does. */
static void process_exits(struct sim_process *p)
{
        p->ends = true;
        fiber_leave();
        sim_abandon();
}

/* ---- a leader process: the key --------------------------------------------------------------- */

/* What its store says of its drives. */
static void leader_trace_drives(const struct sim_leader *l)
{
        unsigned i;

        for (i = 0; sim.trace && l->store != NULL && i < l->store->drive_count; i++)
                sim_trace("  slot %u: state %d %s", i, (int)l->store->members[i].state, l->store->members[i].reason);
}

static void leader_ended(void *arg, const char *why)
{
        struct sim_leader *l = arg;

        if (l->process.ends)
                return;
        sim_trace("node %u: its leader process ends: %s", l->node->process.party, why);
        leader_trace_drives(l);
        nodes_figures.ended++;
        process_exits(&l->process);
}

static void leader_deposed(void *arg, const struct eng_term *by)
{
        leader_ended(arg, "a drive server knows a newer term");
}

struct eng_options store_options(struct lp_loop *const *loops)
{
        return (struct eng_options){.loops = loops,
                                    .loop_count = world.loop_count,
                                    .inline_max = nodes_plan.inline_max,
                                    .cache_bytes = 1 << 20,
                                    .wall_ms = locks_wall_ms,
                                    .clock_ns = locks_clock_ns,
                                    .heal_rate = nodes_plan.heal_rate,
                                    .home_rows_bytes = nodes_plan.home_rows_bytes,
                                    .heal_keep_ms = 1};
}

void store_loops(struct lp_loop **loops)
{
        unsigned i;

        for (i = 0; i < world.loop_count; i++) {
                struct lp_config config = {.index = i, .slots = nodes_plan.slots};

                if (lp_loop_new(&config, &loops[i]) != 0)
                        abort();
        }
}

static void leader_begins(void *arg)
{
        struct sim_leader *l = arg;

        cl_leader_start(l->leader, l->store);
}

/* A thread. */
static void *leader_opens(void *arg)
{
        struct sim_leader *l = arg;
        struct eng_options options = store_options(l->loops);
        struct eng_store *store;
        struct eng_error error;
        int rv;

        options.cluster = cl_leader_cluster(l->leader);
        options.opener = rem_client_opener(l->process.client);
        options.site = (struct eng_site){.node = l->node->process.party, .rack = l->node->process.party};
        options.boot = (uint32_t)l->claim->term.boot;
        if (nodes_plan.homes)
                options.maker = l->claim->term.node; /* ids that homes of this node make are others' */
        options.drive_wait_ms = l->whole_stop ? WHOLE_WAIT_MS : DRIVE_WAIT_MS;
        rv = eng_store_open(&options, &store, &error);
        if (rv != 0) {
                leader_ended(l, error.text);
                return NULL;
        }
        l->store = store;
        if (nodes_plan.homes)
                leader_has_homes(l);
        eng_store_start(store);
        sim_at(sim_skewed(SIM_NODES, SIM_US, SIM_MS), l->loops[0], leader_begins, l);
        return NULL;
}

static void leader_claimed(struct cl_claim *claim)
{
        struct sim_leader *l = claim->arg;
        struct sim_process *p = &l->process;
        struct rem_client_options client = {.term = claim->term, .deposed = leader_deposed, .deposed_arg = l, .wait_ms = LEADER_WAIT_MS};
        struct cl_leader_options leader = {.etcd = p->etcd, .cluster = NODES_CLUSTER, .pool = CL_POOL, .claim = claim, .whole_stop = l->whole_stop, .may_lose = nodes_plan.loses, .silent = l->silent, .ended = leader_ended, .arg = l};

        if (claim->rv != 0) {
                leader_ended(l, claim->text);
                return;
        }
        sim_trace("node %u: leads, term %llu, boot %llu, epoch %llu", l->node->process.party, (unsigned long long)claim->term.revision,
                  (unsigned long long)claim->term.boot, (unsigned long long)claim->config.number);
        nodes_figures.leaders++;
        p->boot = claim->term.boot;
        if (nodes_plan.homes) {
                p->handler = &leader_handler;
                p->handler_arg = l;
        }
        if (!nodes_plan.shared_loops)
                process_loops(p, 0);
        process_connects(p, nodes_plan.shared_loops ? l->loops : p->loops, nodes_plan.shared_loops ? world.loop_count : p->loop_count);
        client.net = p->net;
        client.loop = nodes_plan.shared_loops ? l->loops[0] : p->loops[0];
        memcpy(client.cluster, claim->format.cluster_id, sizeof(client.cluster));
        if (rem_client_new(&client, &p->client) != 0)
                abort();
        leader.client = p->client;
        if (cl_leader_new(&leader, &l->leader) != 0)
                abort();
        fiber_start(leader_opens, l);
}

static void leader_claims(void *arg)
{
        cl_claim_start(((struct sim_leader *)arg)->claim);
}

void leader_start(struct sim_node *node, int64_t judged, bool whole_stop, uint64_t silent)
{
        struct sim_leader *l = &node->leader;
        struct sim_process *p = &l->process;
        struct cl_seen seen;
        unsigned before = sim_enter(p->number);

        assert(!p->runs && node->process.runs);
        p->runs = true;
        cl_etcd_seen(node->process.etcd, &seen);
        p->etcd = sim_etcd_client(p->host, &seen);
        l->judged = judged;
        l->whole_stop = whole_stop;
        l->silent = silent;
        l->store = NULL;
        l->leader = NULL;
        l->homes = NULL;
        l->serves = l->releases = false;
        store_loops(l->loops);
        l->claim = calloc(1, sizeof(*l->claim));
        assert(l->claim != NULL);
        *l->claim = (struct cl_claim){.etcd = p->etcd, .cluster = NODES_CLUSTER, .pool = CL_POOL, .node = node->process.party, .leader_revision = judged, .done = leader_claimed, .arg = l};
        sim_trace("node %u: a leader process begins, over revision %lld%s", node->process.party, (long long)judged, whole_stop ? ", behind a stop of all" : "");
        sim_at(sim_skewed(SIM_NODES, SIM_MS, 50 * SIM_MS), l->loops[0], leader_claims, l);
        sim_enter(before);
}

/* ---- a leader process: its end --------------------------------------------------------------- */

/* What its remote drives met. */
static void leader_count(const struct sim_process *p)
{
        struct rem_stats stats;

        if (p->client == NULL)
                return;
        rem_stats_read(p->client, &stats);
        nodes_figures.unreachable += stats.unreachable;
        nodes_figures.refused += stats.refused;
        nodes_figures.begins += stats.begins;
        if (stats.lies > 0)
                sim_fail("%llu answers of drive servers made no sense", (unsigned long long)stats.lies);
}

void leader_kill(struct sim_leader *l, bool told)
{
        struct sim_node *node = l->node;

        if (!l->process.runs)
                return;
        sim_trace("node %u: its leader process dies", node->process.party);
        leader_count(&l->process);
        process_end(&l->process, told);
        if (l->store != NULL)
                clients_lost_of(l->store);
        if (serving == l) {
                world.store = NULL;
                serving = NULL;
        }
        l->store = NULL;
        l->leader = NULL;
        l->homes = NULL;
        if (nodes_plan.homes)
                clients_seek();
        node->failures = l->serves ? 0 : node->failures + 1;
        node->rest_until = sim_clock(node->process.number) + cl_elector_rest(node->failures);
        l->serves = false;
}

static void leader_released(void *arg)
{
        process_exits(&((struct sim_leader *)arg)->process);
}

static void leader_releases(void *arg)
{
        struct sim_leader *l = arg;

        cl_leader_release(l->leader, leader_released, l);
}

bool leader_release(struct sim_leader *l)
{
        if (l == NULL || !l->serves || l->releases)
                return false;
        sim_trace("node %u: hands over", l->node->process.party);
        l->releases = true;
        sim_at(SIM_US, l->loops[0], leader_releases, l);
        return true;
}

struct sim_leader *newest_leader(void)
{
        struct sim_leader *newest = NULL;
        unsigned i;

        for (i = 0; i < nodes_plan.nodes; i++) {
                struct sim_leader *l = &sim_nodes[i].leader;

                if (l->process.runs && l->leader != NULL && (newest == NULL || l->claim->term.revision > newest->claim->term.revision))
                        newest = l;
        }
        return newest;
}

bool leader_serves(void)
{
        return world.store != NULL;
}

/* It serves from now on: clients that look for a leader find it. */
static void leader_is_open(struct sim_leader *l)
{
        const struct eng_coord *c = l->store->coord;

        l->serves = true;
        nodes_figures.served++;
        sim_trace("node %u: its store is open%s, epoch %llu, in %llx", l->node->process.party, c->view.writable ? "" : " for reading",
                  (unsigned long long)c->view.epoch, (unsigned long long)c->view.in);
        if (l->claim->term.revision < served_term) {
                nodes_figures.old++;
                return;
        }
        served_term = l->claim->term.revision;
        if (c->view.writable) /* whatever was asked of leaders before it counts by now, or never will */
                history_settled();
        serving = l;
        world.store = l->store;
        memcpy(world.loops, l->loops, sizeof(world.loops));
        clients_start();
}

/* Its store is open, and it may answer reads. */
static bool leader_may_answer(const struct sim_leader *l)
{
        unsigned before;
        bool may;

        if (l->store->coord->phase != ENG_PHASE_OPEN)
                return false;
        before = sim_enter(l->process.number);
        may = eng_is_current(l->store);
        sim_enter(before);
        return may;
}

/* No two of them may at a time. */
static void leaders_watch(void)
{
        const struct sim_leader *current = NULL;
        unsigned i;

        for (i = 0; i < nodes_plan.nodes; i++) {
                struct sim_leader *l = &sim_nodes[i].leader;

                if (l->process.ends)
                        leader_kill(l, true);
                if (l->store == NULL || !leader_may_answer(l)) {
                        l->mute = sim.now;
                        continue;
                }
                if (current != NULL)
                        sim_fail("nodes %u and %u both have a lease", current->node->process.party, l->node->process.party);
                current = l;
                if (!l->serves)
                        leader_is_open(l);
        }
}

/*
 * A leader without a lease that waits for etcd's word on an epoch waits for as long as that takes, and so does whoever
 * asks in its process: in the product lifecycle and inventory. Homes give up after 30 s.
 */
static uint64_t leader_mute(const struct eng_store *store)
{
        unsigned i;

        for (i = 0; i < nodes_plan.nodes; i++)
                if (sim_nodes[i].leader.process.runs && sim_nodes[i].leader.store == store)
                        return sim_nodes[i].leader.mute;
        return 0;
}

/* ---- a node process -------------------------------------------------------------------------- */

/* What is done with one of its folders, as by a thread. */
struct disk_start {
        struct sim_node *node;
        unsigned at;
        unsigned slot; /* to be formatted */
        struct cl_config config;
        uint64_t features;
};

static void disk_opens(void *arg)
{
        struct disk_start *start = arg;
        struct sim_process *p = &start->node->process;
        struct sim_disk *disk = start->node->disks[start->at];
        struct eng_local_options options = {.path = disk->path, .identity = disk->identity};
        struct eng_error error;

        if (rem_served_open(start->node->served[start->at], &options, &error) != 0)
                sim_fail("a drive server could not open %s: %s", disk->path, error.text);
        sim_trace("node %u: serves slot %u", p->party, disk->identity.slot);
        start->node->folders[start->at].works = false;
        free(start);
}

static struct disk_start *disk_start_new(struct sim_node *node, unsigned at)
{
        struct disk_start *start = calloc(1, sizeof(*start));

        if (start == NULL)
                abort();
        start->node = node;
        start->at = at;
        node->folders[at].works = true;
        return start;
}

static void disk_is_opened(struct sim_node *node, unsigned at)
{
        struct sim_process *p = &node->process;
        struct lp_loop *owner = p->loops[at % p->loop_count];

        if (rem_served_new(p->server, CL_POOL, node->disks[at]->identity.slot, owner, &node->served[at]) != 0)
                abort();
        sim_at(sim_skewed(SIM_NODES, 10 * SIM_US, 500 * SIM_MS), NULL, disk_opens, disk_start_new(node, at));
}

/* NODE says `made` before FORMAT is written; between the two the process may end. */
static void folder_formats(void *arg)
{
        struct disk_start *start = arg;
        struct sim_disk *disk = start->node->disks[start->at];
        struct eng_identity identity = {.slot = start->slot, .layout = FMT_LAYOUT_VERSION, .features = start->features};
        struct eng_error error;

        memcpy(identity.store_id, start->config.store_id, FMT_ID);
        memcpy(identity.drive_id, disk->identity.drive_id, FMT_ID);
        if (eng_folder_format(disk->path, &identity, start->config.epoch, start->config.epoch_len, &error) != 0)
                abort();
        sim_trace("node %u: %s is slot %u", start->node->process.party, disk->path, start->slot);
        start->node->folders[start->at].works = false;
        disk_is_opened(start->node, start->at);
        free(start);
}

/* As server/node_folders.c: what the epoch names as out, and is not made, or being added (W2). */
static void folder_may_format(struct sim_node *node, unsigned at, unsigned slot, const struct cl_pool *pool)
{
        struct disk_start *start;

        if ((node->folders[at].made && !(pool->epoch.adding >> slot & 1)) || ((pool->epoch.in | pool->epoch.joining) >> slot & 1))
                return;
        node->folders[at].made = true;
        start = disk_start_new(node, at);
        start->slot = slot;
        start->config = pool->config;
        start->features = pool->epoch.features;
        sim_at(sim_skewed(SIM_NODES, 10 * SIM_US, SIM_S), NULL, folder_formats, start);
}

static int folder_slot(const struct sim_node *node, unsigned at, const struct cl_pool *pool)
{
        unsigned slot;

        for (slot = 0; slot < pool->epoch.slots; slot++)
                if (!(pool->epoch.gone >> slot & 1) && pool->epoch.slot[slot].site.node == node->process.party &&
                    memcmp(pool->epoch.slot[slot].drive_id, node->disks[at]->identity.drive_id, FMT_ID) == 0)
                        return (int)slot;
        return -1;
}

static void folder_gone(void *arg)
{
}

static void node_folders_work(struct sim_node *node, const struct cl_pool *pool)
{
        unsigned i;

        for (i = 0; i < node->disk_count; i++) {
                struct sim_folder *folder = &node->folders[i];
                int slot = folder_slot(node, i, pool);

                if (folder->works || folder->withdrawn)
                        continue;
                if (slot < 0 && node->served[i] != NULL) {
                        folder->withdrawn = true;
                        rem_served_withdraw(node->served[i], folder_gone, NULL);
                        sim_trace("node %u: %s is no drive of the pool any more", node->process.party, node->disks[i]->path);
                } else if (slot >= 0 && node->served[i] == NULL && node->disks[i]->formatted) {
                        disk_is_opened(node, i);
                } else if (slot >= 0 && !node->disks[i]->formatted) {
                        folder_may_format(node, i, (unsigned)slot, pool);
                }
        }
}

struct sim_disk *node_new_folder(struct sim_node *node)
{
        struct sim_disk *disk = node->disk_count < NODE_DRIVES ? sim_disk_new() : NULL;
        unsigned i;

        if (disk == NULL)
                return NULL;
        for (i = 0; i < FMT_ID; i++)
                disk->identity.drive_id[i] = (uint8_t)sim_random(SIM_OPERATOR);
        node->folders[node->disk_count] = (struct sim_folder){.made = false};
        node->served[node->disk_count] = NULL;
        node->disks[node->disk_count++] = disk;
        return disk;
}

static void node_looked(void *arg, const struct cl_view *view, int error, const char *text)
{
        struct sim_node *node = arg;
        uint64_t now = sim_clock(node->process.number);
        const struct cl_pool *pool;

        rem_server_note(node->process.server, view != NULL ? REM_NOTE_ETCD : 0);
        if (view == NULL) {
                sim_trace("  node %u: etcd: %s", node->process.party, text);
                return;
        }
        pool = cl_view_pool(view, CL_POOL);
        node->leader_revision = pool->leader_revision;
        if (node->kept == 0 || now - node->kept >= KEEP_NS) {
                cl_etcd_seen(node->process.etcd, &node->seen);
                node->seen.generation = (struct cl_generation){view->format.generation, view->format.random};
                node->kept = now;
        }
        if (nodes_plan.kills_old && node->leader.process.runs && pool->is_led && pool->leader.node != node->process.party && pool->leader_revision > node->leader.judged)
                leader_kill(&node->leader, true);
        node_folders_work(node, pool);
        home_looked(node, view);
        cl_elector_look(node->elector, view);
}

static void node_leads(void *arg, int64_t leader_revision, bool whole_stop, uint64_t silent)
{
        struct sim_node *node = arg;

        if (!node->leader.process.runs && sim_clock(node->process.number) >= node->rest_until)
                leader_start(node, leader_revision, whole_stop, silent);
}

static void node_hurries(void *arg)
{
        struct sim_node *node = arg;

        if (node->looks)
                cl_directory_hurry(node->directory);
}

/* On any loop of it. */
static void node_released(void *arg)
{
        struct sim_node *node = arg;

        sim_at(sim_skewed(SIM_NODES, SIM_US, SIM_MS), node->process.loops[0], node_hurries, node);
}

static void node_waits(void *arg, const char *why)
{
        sim_trace("  node %u: %s", ((const struct sim_node *)arg)->process.party, why);
}

static void node_looks(void *arg)
{
        struct sim_node *node = arg;

        node->looks = true;
        cl_directory_start(node->directory);
}

static void node_elects(struct sim_node *node)
{
        struct sim_process *p = &node->process;
        struct rem_client_options client = {.net = p->net, .loop = p->loops[0], .wait_ms = CONNECT_MS};
        struct cl_directory_options directory = {.etcd = p->etcd, .cluster = NODES_CLUSTER, .looked = node_looked, .arg = node};
        struct cl_elector_options elector = {.node = p->party, .pool = CL_POOL, .server = p->server, .lead = node_leads, .hurry = node_hurries, .waits = node_waits, .arg = node};

        if (rem_client_new(&client, &p->client) != 0)
                abort();
        elector.client = p->client;
        if (cl_directory_new(&directory, &node->directory) != 0 || cl_elector_new(&elector, &node->elector) != 0)
                abort();
        sim_at(sim_skewed(SIM_NODES, SIM_MS, SIM_S), p->loops[0], node_looks, node);
}

static const struct net_handler drive_handler = {.bulk = rem_server_bulk, .request = rem_server_request, .lost = rem_server_lost};

void node_start(struct sim_node *node)
{
        struct sim_process *p = &node->process;
        unsigned before = sim_enter(p->number), i;

        assert(!p->runs && !node->off);
        p->runs = true;
        p->boot = ++boots;
        p->etcd = sim_etcd_client(p->host, &node->seen);
        node->kept = 0;
        node->looks = false;
        node->failures = 0;
        node->rest_until = 0;
        if (rem_server_new(&p->server) != 0)
                abort();
        p->handler = &drive_handler;
        p->handler_arg = p->server;
        rem_server_set(p->server, &(struct rem_server_options){.released = node_released, .released_arg = node});
        process_loops(p, nodes_plan.peer_slots);
        process_connects(p, p->loops, p->loop_count);
        for (i = 0; i < node->disk_count; i++) {
                node->served[i] = NULL;
                node->folders[i].works = node->folders[i].withdrawn = false;
                if (node->folders[i].made && node->disks[i]->formatted)
                        disk_is_opened(node, i);
        }
        sim_trace("node %u: begins, boot %llu", p->party, (unsigned long long)p->boot);
        node_elects(node);
        sim_enter(before);
}

void node_kill(struct sim_node *node, bool power, bool told)
{
        unsigned i;

        sim_trace("node %u: dies%s", node->process.party, !power ? "" : told ? ", and its host begins anew" : " with its host");
        home_kill(&node->home, told);
        leader_kill(&node->leader, told);
        if (node->process.runs)
                process_end(&node->process, told);
        for (i = 0; i < node->disk_count; i++) {
                sim_disk_crash(node->disks[i], power);
                sim_drive_free_retired(node->disks[i]);
        }
}

/* ---- life ------------------------------------------------------------------------------------ */

void nodes_step(void)
{
        if (!sim_step())
                sim_fail("nothing happens any more");
        if (sim.events > EVENTS_MAX)
                sim_fail("it does not come to an end");
        leaders_watch();
        lose_watch();
        homes_watch();
        clients_watch();
}

/* ---- the beginning --------------------------------------------------------------------------- */

const char *nodes_config_key(void)
{
        static char key[CL_KEY_NAME_MAX];

        cl_key_name(NODES_CLUSTER, CL_KEY_CONFIG, CL_POOL, key);
        return key;
}

static void put_into_etcd(enum cl_key_kind kind, unsigned number, const char *value, size_t len)
{
        char key[CL_KEY_NAME_MAX];

        cl_key_name(NODES_CLUSTER, kind, number, key);
        sim_etcd_put(key, value, len);
}

/* As --init-cluster. */
static void fill_etcd(void)
{
        static struct cl_config config;
        struct cl_format format = {.cluster_id = "a simulated one", .generation = 1, .random = 2};
        struct cl_boot boot = {.boot = FIRST_BOOT};
        const struct sim_record *newest = NULL;
        const struct sim_disk *disk = &sim_disks[0];
        char value[CL_JSON_MAX];
        uint64_t i;

        for (i = 0; i < disk->log_count; i++)
                if (disk->log[i].rec.type == FMT_RECORD_EPOCH)
                        newest = &disk->log[i];
        assert(newest != NULL && newest->body->len <= sizeof(config.epoch));
        memset(&config, 0, sizeof(config));
        memcpy(config.store_id, disk->identity.store_id, CL_ID);
        config.number = newest->rec.epoch;
        config.epoch_len = newest->body->len;
        memcpy(config.epoch, newest->body->data, config.epoch_len);
        put_into_etcd(CL_KEY_FORMAT, 0, value, cl_format_write(&format, value));
        put_into_etcd(CL_KEY_CONFIG, CL_POOL, value, cl_config_write(&config, value));
        for (i = 0; i < nodes_plan.nodes; i++) {
                sim_nodes[i].seen = (struct cl_seen){.cluster_id = SIM_ETCD_ID, .generation = {1, 2}, .revision = 1}; /* it has joined */
                memset(boot.claim, (int)i, sizeof(boot.claim));
                put_into_etcd(CL_KEY_BOOT, (unsigned)i + 1, value, cl_boot_write(&boot, value));
        }
}

static void format_step(void)
{
        if (!sim_step())
                sim_fail("nothing happens any more");
        clients_watch();
}

static void first_buckets(void)
{
        clients_first_bucket();
        while (world.bucket_count == 0 || !clients_idle())
                format_step();
        if (!versions_planned())
                return;
        clients_versions_bucket();
        while (!clients_idle())
                format_step();
}

/* With drives in one process: a store is formatted on folders, and a drive server opens what is formatted. */
void nodes_format(void)
{
        struct eng_options options;
        struct eng_store *store;
        struct eng_error error;
        unsigned i, process = sim_nodes[0].leader.process.number, before = sim_enter(process);

        for (i = 0; i < sim_disk_count; i++)
                paths[i] = sim_disks[i].path;
        store_loops(world.loops);
        options = store_options(world.loops);
        options.drives = paths;
        options.drive_count = sim_disk_count;
        options.ec_k = nodes_plan.k;
        options.ec_m = nodes_plan.m;
        options.sites = sites;
        options.site = sites[0];
        options.boot = FIRST_BOOT;
        options.format = true;
        if (eng_store_open(&options, &store, &error) != 0)
                sim_fail("the store cannot be formatted: %s", error.text);
        world.store = store;
        eng_store_start(store);
        sim_enter(before);
        while (store->coord->phase != ENG_PHASE_OPEN)
                format_step();
        history_settled();
        clients_start();
        first_buckets();
        world.stopping = true;
        for (i = 0; i < world.loop_count; i++)
                lp_loop_stop(world.loops[i]);
        if (!eng_store_close(world.store))
                sim_fail("a clean end did not come to its end");
        sim_process_clear(process);
        fibers_clear(process);
        sim_loops_clear_of(process);
        for (i = 0; i < sim_disk_count; i++)
                sim_disk_crash(&sim_disks[i], false);
        clients_lost();
        world.stopping = false;
        world.store = NULL;
        fill_etcd();
}

void nodes_make(void)
{
        unsigned i, j, n = 0;

        memset(sim_nodes, 0, sizeof(sim_nodes));
        boots = served_term = 0;
        serving = NULL;
        sim_net_begin();
        sim_etcd_begin();
        sim_disks_make((nodes_plan.nodes - nodes_plan.bare_nodes) * nodes_plan.drives_each + nodes_plan.first_more);
        for (i = 0; i < nodes_plan.nodes; i++) {
                struct sim_node *node = &sim_nodes[i];

                node->process = (struct sim_process){.number = i + 1, .party = (uint16_t)(i + 1), .host = i};
                node->leader.process = (struct sim_process){.number = NODES_MAX + i + 1, .party = cl_party(i + 1, CL_POOL), .host = i};
                node->leader.node = node;
                home_make(node);
                sim_clock_set(node->process.number, nodes_plan.offset_ns[i], nodes_plan.ppm[i]);
                sim_clock_set(node->leader.process.number, nodes_plan.offset_ns[i], nodes_plan.ppm[i]);
                node->disk_count = (i < nodes_plan.nodes - nodes_plan.bare_nodes ? nodes_plan.drives_each : 0) + (i == 0 ? nodes_plan.first_more : 0);
                for (j = 0; j < node->disk_count; j++, n++) {
                        node->disks[j] = &sim_disks[n];
                        node->folders[j].made = true;
                        sites[n] = (struct eng_site){.node = (uint16_t)(i + 1), .rack = (uint16_t)(i + 1)};
                }
        }
        world.step = nodes_step;
        world.mute = leader_mute;
        if (nodes_plan.homes)
                world.told_of_bucket = homes_told_of_bucket;
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
                if (stats.requests_in > node->disk_count + nodes_plan.nodes)
                        sim_fail("node %u: %llu requests are not answered", i + 1, (unsigned long long)stats.requests_in);
        }
        homes_check_idle();
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
