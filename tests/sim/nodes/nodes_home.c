/*
 * nodes_home.c - home stores of nodes: what server/node_gateway.c puts together, and of server/lead.c what serves homes.
 */
#include "tests/sim/nodes/nodes_process.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/store.h"
#include "engine/upkeep/upkeep.h"
#include "tests/sim/nodes/fiber.h"
#include "tests/sim/nodes/sim_net.h"

#define REACH_MS 1000u /* this is server/node_gateway.c's */

/* ---- the leader's side ----------------------------------------------------------------------- */

static enum net_bulk homes_bulk(void *leader, struct net_request *request)
{
        return rem_home_server_bulk(((struct sim_leader *)leader)->homes, request);
}

static void homes_request(void *leader, struct net_request *request)
{
        rem_home_server_request(((struct sim_leader *)leader)->homes, request);
}

static void homes_lost(void *leader, struct net_request *request)
{
        rem_home_server_lost(((struct sim_leader *)leader)->homes, request);
}

const struct net_handler leader_handler = {.bulk = homes_bulk, .request = homes_request, .lost = homes_lost};

void leader_has_homes(struct sim_leader *l)
{
        const struct eng_cluster *cluster = cl_leader_cluster(l->leader);
        struct rem_home_server_options options = {.store = l->store, .coordinator = l->loops[0], .pool = CL_POOL, .term = l->claim->term,
                                                  .lease_end = cluster->lease_end, .now = cluster->clock_ns};

        if (rem_home_server_new(&options, &l->homes) != 0)
                abort();
}

/* ---- a home ---------------------------------------------------------------------------------- */

/* A thread. */
static void *home_opens(void *arg)
{
        struct sim_home *h = arg;
        struct eng_options options = store_options(h->loops);
        struct eng_store *store;
        struct eng_error error;

        options.leader = rem_home_link_engine(h->link);
        options.opener = rem_client_opener(h->process.client);
        options.site.node = h->node->process.party;
        options.maker = h->process.party;
        options.boot = (uint32_t)h->process.boot;
        if (eng_store_open(&options, &store, &error) != 0)
                sim_fail("node %u: its home store cannot be opened: %s", h->node->process.party, error.text);
        h->store = store;
        eng_store_start(store);
        rem_home_link_leader(h->link, h->leads);
        rem_home_link_start(h->link, store);
        sim_trace("node %u: its home store is open", h->node->process.party);
        return NULL;
}

static void home_starts(struct sim_home *h, const struct cl_view *view)
{
        struct sim_process *p = &h->process;
        const struct sim_process *serves = &h->node->process; /* what the daemon has in one process is two here, which live and die together */
        struct rem_client_options client = {.home = true, .wait_ms = REACH_MS};
        struct rem_home_link_options link = {.pool = CL_POOL, .loop_count = world.loop_count};
        unsigned before = sim_enter(p->number);

        p->runs = true;
        p->boot = h->node->process.boot;
        h->serves = false;
        h->store = NULL;
        process_loops(p, 0);
        store_loops(h->loops);
        process_connects(p, p->loops, p->loop_count);
        client.net = link.net = p->net;
        client.loop = p->loops[0];
        client.near = (struct rem_near){.server = serves->server, .node = serves->party, .maker = p->party, .boot = (uint32_t)p->boot, .loops = serves->loops, .loop_count = serves->loop_count};
        memcpy(link.store_id, cl_view_pool(view, CL_POOL)->config.store_id, sizeof(link.store_id));
        if (rem_client_new(&client, &p->client) != 0 || rem_home_link_new(&link, &h->link) != 0)
                abort();
        nodes_figures.homes++;
        fiber_start(home_opens, h);
        sim_enter(before);
}

static void home_is_told(void *arg)
{
        struct sim_home *h = arg;

        rem_home_link_leader(h->link, h->leads);
}

void home_looked(struct sim_node *node, const struct cl_view *view)
{
        const struct cl_pool *pool = cl_view_pool(view, CL_POOL);
        struct sim_home *h = &node->home;

        if (!nodes_plan.homes)
                return;
        h->leads = pool->is_led ? cl_party(pool->leader.node, CL_POOL) : 0;
        if (!h->process.runs)
                home_starts(h, view);
        else if (h->store != NULL)
                sim_at(SIM_US, h->process.loops[0], home_is_told, h);
}

void home_kill(struct sim_home *h, bool told)
{
        struct eng_store *store = h->store;

        if (!h->process.runs)
                return;
        process_end(&h->process, told);
        h->store = NULL;
        h->serves = false;
        if (store == NULL)
                return;
        clients_lost_of(store);
        clients_seek();
}

void home_make(struct sim_node *node)
{
        unsigned i = node->process.host;

        node->home.node = node;
        node->home.process = (struct sim_process){.number = 2 * NODES_MAX + i + 1, .party = cl_party(i + 1, CL_POOL_HOMES), .host = i};
        sim_net_name(node->home.process.number, node->home.process.party, i);
        sim_net_name(node->leader.process.number, node->leader.process.party, i);
        sim_clock_set(node->home.process.number, nodes_plan.offset_ns[i], nodes_plan.ppm[i]);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool home_is_current(const struct sim_home *h)
{
        unsigned before, i;
        bool is;

        if (h->store == NULL)
                return false;
        for (i = 0; i < h->store->loop_count; i++)
                if (!h->store->loops[i].view.ready)
                        return false;
        before = sim_enter(h->process.number);
        is = eng_is_current(h->store);
        sim_enter(before);
        return is;
}

static void home_looks_at_buckets(struct sim_home *h);

void homes_watch(void)
{
        unsigned i;

        for (i = 0; nodes_plan.homes && i < nodes_plan.nodes; i++) {
                struct sim_home *h = &sim_nodes[i].home;
                const bool believed = h->believes;

                h->believes = home_is_current(h);
                if (h->believes && !believed)
                        home_looks_at_buckets(h);
                if (h->serves || !h->believes)
                        continue;
                sim_trace("node %u: its home store serves", h->node->process.party);
                h->serves = true;
                clients_home(h->store, h->loops);
        }
}

/* ---- orphans --------------------------------------------------------------------------------- */

/* On the coordinator's loop of the leader. */
static void collect_orphans(void *store)
{
        eng_orphans_consider(store);
}

/* Collections follow heals, and are short here. So that uploads of homes meet more of them, others are begun in between. */
static void orphans_due(void *arg)
{
        struct sim_leader *l = newest_leader();
        unsigned before;

        if (world.last)
                return;
        if (l != NULL && l->serves) {
                before = sim_enter(l->process.number);
                sim_at(SIM_US, l->loops[0], collect_orphans, l->store);
                sim_enter(before);
        }
        sim_at(sim_skewed(SIM_HOMES, 100 * SIM_MS, 4 * SIM_S), NULL, orphans_due, NULL);
}

void homes_start(void)
{
        if (nodes_plan.homes)
                orphans_due(NULL);
}

/* ---- what homes believe ---------------------------------------------------------------------- */

/* On this loop of it: a home that may answer from its copies says what a client has just been told. */
static void home_believes(struct sim_home *h, struct lp_loop *loop, struct eng_str name, bool there)
{
        struct lp_loop *self = sim.self;
        unsigned before = sim_enter(h->process.number);
        const struct eng_bucket *found;
        int rv;

        sim.self = loop;
        rv = eng_bucket_get(h->store, name, &found);
        if ((rv == 0 || rv == -ENOENT) && (rv == 0) != there && eng_is_current(h->store))
                sim_fail("node %u: its home store believes that there is %s bucket %.*s", h->node->process.party, rv == 0 ? "a" : "no", (int)name.len, name.data);
        sim.self = self;
        sim_enter(before);
}

void homes_told_of_bucket(struct eng_str name, bool there)
{
        unsigned i, j;

        for (i = 0; i < nodes_plan.nodes; i++)
                for (j = 0; sim_nodes[i].home.serves && j < world.loop_count; j++)
                        home_believes(&sim_nodes[i].home, sim_nodes[i].home.loops[j], name, there);
}

/* What clients were told while it could not answer. */
static void home_looks_at_buckets(struct sim_home *h)
{
        unsigned i, j;

        for (i = 0; i < world.bucket_count; i++) {
                const struct sim_bucket *b = &world.buckets[i];
                const struct eng_str name = {b->name, strlen(b->name)};

                for (j = 0; j < world.loop_count; j++)
                        if (b->gone || (b->made && !b->closing))
                                home_believes(h, h->loops[j], name, !b->gone);
        }
}

/* ---- the end --------------------------------------------------------------------------------- */

/* It reaches all drives that are in, by the leader's epoch. */
static bool home_is_whole(const struct sim_home *h)
{
        const struct eng_view *view;

        if (!h->serves || !home_is_current(h))
                return false;
        view = &h->store->coord->view;
        return view->epoch == world.store->coord->view.epoch && (view->in & ~view->up) == 0 && view->writable;
}

bool homes_have_joined(void)
{
        const struct sim_leader *l = newest_leader();
        unsigned i;

        if (!nodes_plan.homes)
                return true;
        if (l == NULL || l->homes == NULL || rem_home_server_sessions(l->homes) != nodes_plan.nodes)
                return false;
        for (i = 0; i < nodes_plan.nodes; i++)
                if (!home_is_whole(&sim_nodes[i].home))
                        return false;
        return true;
}

void homes_tell(void)
{
        const struct sim_leader *l = newest_leader();
        unsigned i;

        printf("the leader has %u sessions\n", l == NULL || l->homes == NULL ? 0 : rem_home_server_sessions(l->homes));
        for (i = 0; i < nodes_plan.nodes; i++) {
                const struct sim_home *h = &sim_nodes[i].home;
                const struct eng_view *view = h->store == NULL ? NULL : &h->store->coord->view;

                printf("  node %u: %s", i + 1, view == NULL ? "no home\n" : home_is_current(h) ? "current" : "not current");
                if (view != NULL)
                        printf(", %sready, %swritable, epoch %llu, in %llx, up %llx\n", view->ready ? "" : "not ", view->writable ? "" : "not ",
                               (unsigned long long)view->epoch, (unsigned long long)view->in, (unsigned long long)view->up);
        }
}

void homes_check_idle(void)
{
        unsigned i, j;

        for (i = 0; nodes_plan.homes && i < nodes_plan.nodes; i++) {
                const struct sim_home *h = &sim_nodes[i].home;

                for (j = 0; j < world.loop_count; j++) {
                        if (sim_slots_out(h->loops[j]) > 0)
                                sim_fail("node %u: loop %u of its home: %u slots were not given back", i + 1, j, sim_slots_out(h->loops[j]));
                        if (!TAILQ_EMPTY(&h->store->loops[j].home.puts))
                                sim_fail("node %u: loop %u of its home: an upload is under way", i + 1, j);
                }
        }
}
