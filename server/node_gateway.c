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

struct srv_node_gateway {
        struct srv_daemon daemon;
        struct srv_daemon_home home;
        struct rem_client *client;
        struct rem_home_link *link;
        struct srv_link *poster; /* its loops post to those of the gateway */
        struct srv_health_log *log;
        uint16_t node;
};

void srv_node_gateway_see(struct srv_node_gateway *g, const struct cl_view *view, bool here)
{
        rem_home_link_leader(g->link, view->is_led ? cl_party(view->leader.node, CL_POOL) : 0);
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

static ssize_t ask_leader(void *arg, const uint8_t *bytes, size_t len, uint8_t *room)
{
        return rem_home_link_ask(((struct srv_node_gateway *)arg)->link, bytes, len, room);
}

static int make_link(struct srv_node_gateway *g, struct srv_link *link, struct rem_server *server, uint64_t boot, const struct cl_view *view, struct srv_error *error)
{
        const struct srv_link_party party = {.party = cl_party(g->daemon.settings->number, CL_POOL_HOMES), .boot = boot, .format = &view->format};
        struct rem_client_options client = {.loop = link->loops.loops[0], .home = true, .wait_ms = 1000};
        struct rem_home_link_options options = {.pool = CL_POOL};
        unsigned loops, slots;
        int rv = srv_loops_plan(g->daemon.settings, SRV_PART_GATEWAY, &loops, &slots, error);

        if (rv == 0)
                rv = srv_link_connect_home(link, &party, error);
        if (rv != 0)
                return rv;
        client.net = options.net = link->home_net;
        client.near = (struct rem_near){.server = server, .node = g->daemon.settings->number, .maker = party.party, .boot = (uint32_t)boot,
                                        .loops = link->loops.loops, .loop_count = link->loops.count};
        options.loop_count = loops;
        memcpy(options.store_id, view->config.store_id, sizeof(options.store_id));
        rv = rem_client_new(&client, &g->client);
        if (rv == 0)
                rv = rem_home_link_new(&options, &g->link);
        return rv == 0 ? 0 : srv_fail(error, rv, "out of memory");
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
        g->daemon = (struct srv_daemon){.settings = settings, .signal_fd = -1, .started_ms = lp_wall_ms(), .home = &g->home};
        g->log = srv_health_log_open();
        rv = g->log == NULL ? srv_fail(error, -ENOMEM, "out of memory") : make_link(g, link, server, boot, view, error);
        if (rv != 0)
                return rv;
        g->home = (struct srv_daemon_home){.leader = rem_home_link_engine(g->link), .opener = rem_client_opener(g->client), .node = settings->number, .party = cl_party(settings->number, CL_POOL_HOMES),
                                           .boot = (uint32_t)boot, .s3 = s3->fds[0], .plain = plain->count > 0 ? plain->fds[0] : -1,
                                           .admin = admin->fds[0], .link = link, .ask_leader = ask_leader, .arg = g};
        rv = srv_daemon_open(&g->daemon, error);
        if (rv != 0)
                return rv;
        srv_node_gateway_see(g, view, false);
        rem_home_link_switches(g->link, &(struct rem_home_switches){.read = gateway_switches, .arg = g});
        rem_home_link_start(g->link, g->daemon.store);
        return 0;
}

bool srv_node_gateway_look(struct srv_node_gateway *g)
{
        srv_health_log_look(g->log, g->daemon.store, g->daemon.gateway);
        return srv_loops_failed(&g->daemon.loops) == 0;
}

void srv_node_gateway_reload(struct srv_node_gateway *g)
{
        srv_daemon_reload(&g->daemon);
}

void srv_node_gateway_drain(struct srv_node_gateway *g, int signal_fd)
{
        g->daemon.signal_fd = signal_fd;
        srv_daemon_drain(&g->daemon);
        g->daemon.signal_fd = -1;
}

/* The loops have stopped. What waits for the leader has its answer; what net/ has ends there. */
static bool end_calls(void *arg)
{
        struct srv_node_gateway *g = arg;
        const struct eng_leader_link *engine = rem_home_link_engine(g->link);
        unsigned i;

        rem_home_link_stop(g->link);
        for (i = 0; i < END_TRIES && engine->awaits(engine->arg); i++) {
                srv_loops_drain(&g->daemon.loops);
                usleep(1000);
        }
        return !engine->awaits(engine->arg);
}

/* Whoever has posted to a loop writes to its eventfd behind that: what was posted may have been run, and the loop be freed by then. */
static void loops_are_left(void *arg)
{
        srv_link_quiet(((struct srv_node_gateway *)arg)->poster);
}

bool srv_node_gateway_close(struct srv_node_gateway *g)
{
        if (g == NULL)
                return true;
        g->home.stopped = g->link != NULL ? end_calls : NULL;
        g->home.quiet = loops_are_left;
        if (!srv_daemon_close(&g->daemon))
                return false;
        rem_home_link_free(g->link);
        rem_client_free(g->client);
        srv_health_log_close(g->log);
        free(g);
        return true;
}
