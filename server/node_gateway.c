/*
 * node_gateway.c - see node_gateway.h. What it is made of is a daemon's (daemon.h); the store is another.
 */
#include "server/node_gateway.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "remote_home.h"
#include "server/daemon.h"
#include "server/daemon_log.h"
#include "server/health_log.h"

#define END_TRIES 10000u /* of a millisecond: calls of the leader that are under way end with their connections */

/* The way to one pool. */
struct gateway_pool {
        unsigned number; /* 0: none */
        struct rem_client *client;
        struct rem_home_link *link;
        struct srv_health_log *log;
        struct eng_store *store; /* of the first pool: the daemon's */
};

struct srv_node_gateway {
        struct srv_daemon daemon;
        struct srv_daemon_home home;
        struct srv_daemon_pool others[CL_POOLS_MAX - 1]; /* for the daemon */
        struct gateway_pool pools[CL_POOLS_MAX];         /* the first pool first */
        unsigned pool_count;
        struct srv_link *poster; /* its loops post to those of the gateway */
        struct rem_server *server;
        uint64_t boot;
        unsigned loops;
        uint32_t told; /* pools that were said to need a restart, a bit for each number */
};

static struct gateway_pool *gateway_pool(struct srv_node_gateway *g, unsigned number)
{
        unsigned i;

        for (i = 0; i < g->pool_count; i++)
                if (g->pools[i].number == number)
                        return &g->pools[i];
        return NULL;
}

void srv_node_gateway_see(struct srv_node_gateway *g, const struct cl_view *view, uint32_t here)
{
        unsigned i;

        for (i = 0; i < view->pool_count; i++) {
                const struct cl_pool *pool = &view->pools[i];
                struct gateway_pool *way = gateway_pool(g, pool->number);

                if (way != NULL && !pool->bad) /* then who led it goes on */
                        rem_home_link_leader(way->link, pool->is_led ? cl_party(pool->leader.node, pool->number) : 0);
                else if (way == NULL && pool->has_config && (g->told >> pool->number & 1) == 0)
                        srv_log(SRV_LOG_WARNING, "pool %u is new: this node's gateway serves its buckets from its next start on", pool->number);
                g->told |= way == NULL && pool->has_config ? 1u << pool->number : 0;
        }
        srv_switches_follow(g->daemon.switches, view->switches);
        srv_admin_leads(g->daemon.admin, here);
}

/* The generation first: what is let in behind it is refused by it. */
static void gateway_switches(void *arg, uint64_t *generation, uint64_t *changing)
{
        struct srv_node_gateway *g = arg;

        *generation = srv_switches_generation(g->daemon.switches);
        *changing = srv_switches_changing(g->daemon.switches);
}

static ssize_t ask_leader(void *arg, unsigned pool, const uint8_t *bytes, size_t len, uint8_t *room)
{
        struct gateway_pool *way = gateway_pool(arg, pool);

        return way != NULL ? rem_home_link_ask(way->link, bytes, len, room) : -ENOENT;
}

/* several: lines about it name it. */
static int make_way(struct srv_node_gateway *g, const struct cl_pool *pool, bool several, struct srv_error *error)
{
        const uint16_t node = g->daemon.settings->number;
        const struct srv_link *link = g->poster;
        struct gateway_pool *way = &g->pools[g->pool_count];
        struct rem_client_options client = {.net = link->home_net, .loop = link->loops.loops[0], .home = true, .wait_ms = 1000};
        struct rem_home_link_options options = {.net = link->home_net, .pool = pool->number, .loop_count = g->loops};
        int rv;

        client.near = (struct rem_near){.server = g->server, .node = node, .maker = cl_party(node, CL_POOL_HOMES), .boot = (uint32_t)g->boot,
                                        .loops = link->loops.loops, .loop_count = link->loops.count};
        memcpy(options.store_id, pool->config.store_id, sizeof(options.store_id));
        way->number = pool->number;
        g->pool_count++;
        way->log = srv_health_log_open(several ? pool->number : 0);
        rv = way->log == NULL ? -ENOMEM : rem_client_new(&client, &way->client);
        if (rv == 0)
                rv = rem_home_link_new(&options, &way->link);
        return rv == 0 ? 0 : srv_fail(error, rv, "out of memory");
}

static int make_ways(struct srv_node_gateway *g, const struct cl_view *view, struct srv_error *error)
{
        const struct srv_link_party party = {.party = cl_party(g->daemon.settings->number, CL_POOL_HOMES), .boot = g->boot, .format = &view->format};
        unsigned slots, i;
        int rv = srv_loops_plan(g->daemon.settings, SRV_PART_GATEWAY, &g->loops, &slots, error);

        if (rv == 0)
                rv = srv_link_connect_home(g->poster, &party, error);
        for (i = 0; rv == 0 && i < view->pool_count; i++)
                if (view->pools[i].has_config)
                        rv = make_way(g, &view->pools[i], view->pool_count > 1, error);
        return rv;
}

static void describe_home(struct srv_node_gateway *g)
{
        unsigned i;

        g->home.leader = rem_home_link_engine(g->pools[0].link);
        g->home.opener = rem_client_opener(g->pools[0].client);
        g->home.pool = g->pools[0].number;
        g->home.others = g->others;
        for (i = 1; i < g->pool_count; i++)
                g->others[g->home.other_count++] = (struct srv_daemon_pool){.number = g->pools[i].number, .leader = rem_home_link_engine(g->pools[i].link),
                                                                             .opener = rem_client_opener(g->pools[i].client)};
}

/* The stores are open, and their loops run. */
static void start_ways(struct srv_node_gateway *g)
{
        unsigned i;

        for (i = 0; i < g->pool_count; i++) {
                g->pools[i].store = i == 0 ? g->daemon.store : g->others[i - 1].store;
                rem_home_link_switches(g->pools[i].link, &(struct rem_home_switches){.read = gateway_switches, .arg = g});
                rem_home_link_start(g->pools[i].link, g->pools[i].store);
        }
}

int srv_node_gateway_open(const struct srv_settings *settings, struct srv_link *link, struct rem_server *server, uint64_t boot, const struct srv_listener *s3,
                          const struct srv_listener *plain, const struct srv_listener *admin, const struct cl_view *view, struct srv_node_gateway **out,
                          struct srv_error *error)
{
        struct srv_node_gateway *g = calloc(1, sizeof(*g));
        int rv;

        if (g == NULL)
                return srv_fail(error, -ENOMEM, "out of memory");
        *out = g;
        g->poster = link;
        g->server = server;
        g->boot = boot;
        g->daemon = (struct srv_daemon){.settings = settings, .signal_fd = -1, .started_ms = lp_wall_ms(), .home = &g->home};
        rv = make_ways(g, view, error);
        if (rv != 0)
                return rv;
        g->home = (struct srv_daemon_home){.node = settings->number, .party = cl_party(settings->number, CL_POOL_HOMES), .boot = (uint32_t)boot, .s3 = s3->fds[0],
                                           .plain = plain->count > 0 ? plain->fds[0] : -1, .admin = admin->fds[0], .link = link, .ask_leader = ask_leader, .arg = g};
        describe_home(g);
        rv = srv_daemon_open(&g->daemon, error);
        if (rv != 0)
                return rv;
        srv_node_gateway_see(g, view, 0);
        start_ways(g);
        return 0;
}

bool srv_node_gateway_look(struct srv_node_gateway *g)
{
        unsigned i;

        for (i = 0; i < g->pool_count; i++)
                srv_health_log_look(g->pools[i].log, g->pools[i].store, g->daemon.gateway);
        return srv_loops_failed(&g->daemon.loops) == 0;
}

void srv_node_gateway_reload(struct srv_node_gateway *g)
{
        srv_daemon_reload(&g->daemon);
}

int srv_node_gateway_drain(struct srv_node_gateway *g, int signal_fd, bool waits)
{
        int signo;

        g->daemon.signal_fd = signal_fd;
        signo = srv_daemon_drain(&g->daemon, waits);
        g->daemon.signal_fd = -1;
        return signo;
}

static bool way_awaits(const struct gateway_pool *way)
{
        const struct eng_leader_link *engine = rem_home_link_engine(way->link);

        return engine->awaits(engine->arg);
}

/* The loops have stopped. What waits for leaders has its answer; what net/ has ends there. */
static bool end_calls(void *arg)
{
        struct srv_node_gateway *g = arg;
        bool awaits = false;
        unsigned i, way;

        for (way = 0; way < g->pool_count; way++)
                rem_home_link_stop(g->pools[way].link);
        for (i = 0; i < END_TRIES; i++) {
                for (way = 0, awaits = false; way < g->pool_count; way++)
                        awaits |= way_awaits(&g->pools[way]);
                if (!awaits)
                        break;
                srv_loops_drain(&g->daemon.loops);
                usleep(1000);
        }
        return !awaits;
}

/* Whoever has posted to a loop writes to its eventfd behind that: what was posted may have been run, and the loop be freed by then. */
static void loops_are_left(void *arg)
{
        srv_link_quiet(((struct srv_node_gateway *)arg)->poster);
}

bool srv_node_gateway_close(struct srv_node_gateway *g)
{
        unsigned i;

        if (g == NULL)
                return true;
        g->home.stopped = g->home.leader != NULL ? end_calls : NULL;
        g->home.quiet = loops_are_left;
        if (!srv_daemon_close(&g->daemon))
                return false;
        for (i = 0; i < g->pool_count; i++) {
                rem_home_link_free(g->pools[i].link);
                rem_client_free(g->pools[i].client);
                srv_health_log_close(g->pools[i].log);
        }
        free(g);
        return true;
}
