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
        unsigned number;
        struct rem_client *client;
        struct rem_home_link *link;
        struct srv_health_log *log;
        struct eng_store *store;
        bool served; /* clients are, from it */
};

struct srv_node_gateway {
        struct srv_daemon daemon;
        struct srv_daemon_home home;
        struct gateway_pool pools[CL_POOLS_MAX]; /* the first pool first; any thread: those up to the count are constant */
        atomic_uint pool_count;
        struct srv_link *poster; /* its loops post to those of the gateway */
        struct rem_server *server;
        uint64_t boot;
        unsigned loops;
        uint32_t told; /* pools that could not be served, a bit for each number */
};

static struct gateway_pool *gateway_pool(struct srv_node_gateway *g, unsigned number)
{
        const unsigned count = atomic_load_explicit(&g->pool_count, memory_order_acquire);
        unsigned i;

        for (i = 0; i < count; i++)
                if (g->pools[i].number == number)
                        return &g->pools[i];
        return NULL;
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

static void free_way(struct gateway_pool *way)
{
        rem_home_link_free(way->link);
        rem_client_free(way->client);
        srv_health_log_close(way->log);
        memset(way, 0, sizeof(*way));
}

/* several: lines about it name it. */
static int make_way(struct srv_node_gateway *g, const struct cl_pool *pool, bool several, struct gateway_pool *way, struct srv_error *error)
{
        const uint16_t node = g->daemon.settings->number;
        const struct srv_link *link = g->poster;
        struct rem_client_options client = {.net = link->home_net, .loop = link->loops.loops[0], .home = true, .wait_ms = 1000};
        struct rem_home_link_options options = {.net = link->home_net, .pool = pool->number, .loop_count = g->loops};
        int rv;

        client.near = (struct rem_near){.server = g->server, .node = node, .maker = cl_party(node, CL_POOL_HOMES), .boot = (uint32_t)g->boot,
                                        .loops = link->loops.loops, .loop_count = link->loops.count};
        memcpy(options.store_id, pool->config.store_id, sizeof(options.store_id));
        way->number = pool->number;
        way->log = srv_health_log_open(several ? pool->number : 0);
        rv = way->log == NULL ? -ENOMEM : rem_client_new(&client, &way->client);
        if (rv == 0)
                rv = rem_home_link_new(&options, &way->link);
        if (rv == 0)
                return 0;
        free_way(way);
        return srv_fail(error, rv, "pool %u: out of memory", pool->number);
}

/* Its store is open, and the loops run. */
static void start_way(struct srv_node_gateway *g, struct gateway_pool *way)
{
        rem_home_link_switches(way->link, &(struct rem_home_switches){.read = gateway_switches, .arg = g});
        rem_home_link_start(way->link, way->store);
}

/* The first pool, in whose place there is the daemon's own store. */
static int open_first(struct srv_node_gateway *g, const struct cl_pool *pool, bool several, struct srv_error *error)
{
        struct gateway_pool *way = &g->pools[0];
        int rv = make_way(g, pool, several, way, error);

        if (rv != 0)
                return rv;
        atomic_store(&g->pool_count, 1);
        g->home.leader = rem_home_link_engine(way->link);
        g->home.opener = rem_client_opener(way->client);
        g->home.pool = way->number;
        rv = srv_daemon_open(&g->daemon, error);
        if (rv != 0)
                return rv;
        way->store = g->daemon.store;
        way->served = true;
        start_way(g, way);
        return 0;
}

static void serve_from(struct srv_node_gateway *g, struct gateway_pool *way)
{
        way->served = true;
        if (gw_pool_add(g->daemon.gateway, way->number, way->store) != 0)
                abort(); /* its number is that of a pool in etcd, which is not served yet */
}

static int add_pool(struct srv_node_gateway *g, const struct cl_pool *pool, struct srv_error *error)
{
        const unsigned count = atomic_load(&g->pool_count);
        struct gateway_pool *way = &g->pools[count];
        int rv = make_way(g, pool, true, way, error);

        if (rv != 0)
                return rv;
        rv = srv_daemon_add_pool(&g->daemon, pool->number, rem_home_link_engine(way->link), rem_client_opener(way->client), &way->store, error);
        if (rv != 0) {
                free_way(way);
                return rv;
        }
        start_way(g, way);
        atomic_store_explicit(&g->pool_count, count + 1, memory_order_release);
        return 0;
}

/* Pools that this gateway has not met yet; one that it cannot is tried again at the next look. The last error. */
static int meet_pools(struct srv_node_gateway *g, const struct cl_view *view, struct srv_error *error)
{
        int rv, last = 0;
        unsigned i;

        for (i = 0; i < view->pool_count; i++) {
                const struct cl_pool *pool = &view->pools[i];

                if (pool->bad || !pool->has_config || gateway_pool(g, pool->number) != NULL)
                        continue;
                rv = add_pool(g, pool, error);
                if (rv != 0 && (g->told >> pool->number & 1) == 0)
                        srv_log(SRV_LOG_WARNING, "buckets of a pool cannot be served: %s", error->text);
                g->told |= rv != 0 ? 1u << pool->number : 0;
                last = rv != 0 ? rv : last;
        }
        return last;
}

void srv_node_gateway_see(struct srv_node_gateway *g, const struct cl_view *view, uint32_t here)
{
        struct srv_error error;
        unsigned i;

        (void)meet_pools(g, view, &error);
        for (i = 0; i < view->pool_count; i++) {
                const struct cl_pool *pool = &view->pools[i];
                struct gateway_pool *way = gateway_pool(g, pool->number);

                if (way != NULL && !pool->bad) /* then who led it goes on */
                        rem_home_link_leader(way->link, pool->is_led ? cl_party(pool->leader.node, pool->number) : 0);
        }
        srv_switches_follow(g->daemon.switches, view->switches);
        srv_admin_leads(g->daemon.admin, here);
}

int srv_node_gateway_open(const struct srv_settings *settings, struct srv_link *link, struct rem_server *server, uint64_t boot, const struct srv_listener *s3,
                          const struct srv_listener *plain, const struct srv_listener *admin, const struct cl_view *view, struct srv_node_gateway **out,
                          struct srv_error *error)
{
        const struct srv_link_party party = {.party = cl_party(settings->number, CL_POOL_HOMES), .boot = boot, .format = &view->format};
        struct srv_node_gateway *g = calloc(1, sizeof(*g));
        unsigned slots, i;
        int rv;

        if (g == NULL)
                return srv_fail(error, -ENOMEM, "out of memory");
        *out = g;
        g->poster = link;
        g->server = server;
        g->boot = boot;
        g->daemon = (struct srv_daemon){.settings = settings, .signal_fd = -1, .started_ms = lp_wall_ms(), .home = &g->home};
        g->home = (struct srv_daemon_home){.node = settings->number, .party = party.party, .boot = (uint32_t)boot, .s3 = s3->fds[0],
                                           .plain = plain->count > 0 ? plain->fds[0] : -1, .admin = admin->fds[0], .link = link, .ask_leader = ask_leader, .arg = g};
        rv = srv_loops_plan(settings, SRV_PART_GATEWAY, &g->loops, &slots, error);
        if (rv == 0)
                rv = srv_link_connect_home(link, &party, error);
        if (rv == 0)
                rv = open_first(g, cl_view_pool(view, CL_POOL), view->pool_count > 1, error);
        if (rv == 0)
                rv = meet_pools(g, view, error);
        if (rv != 0)
                return rv;
        for (i = 1; i < g->pool_count; i++)
                serve_from(g, &g->pools[i]); /* it may have buckets whose entries are lost: until it answers, nobody says that they are not there */
        srv_node_gateway_see(g, view, 0);
        return 0;
}

bool srv_node_gateway_look(struct srv_node_gateway *g)
{
        unsigned i;

        for (i = 0; i < g->pool_count; i++) {
                struct gateway_pool *way = &g->pools[i];
                const struct eng_health *health = srv_health_log_look(way->log, way->store, g->daemon.gateway);

                if (way->served || !health->ready)
                        continue;
                srv_log(SRV_LOG_INFO, "pool %u is new: buckets of it are served", way->number);
                serve_from(g, way);
        }
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
        for (i = 0; i < g->pool_count; i++)
                free_way(&g->pools[i]);
        free(g);
        return true;
}
