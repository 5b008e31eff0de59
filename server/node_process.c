/*
 * node_process.c - the main thread of a node process.
 *
 *   look at the folders -> etcd -> join -> links -> drives -> every second: who leads, what is there, what to do
 *
 * It sleeps until a signal comes, or a loop has something to look at. Starting a process and logging are done here; what
 * must not wait is done on loops, what may hang with a drive by threads of the folders.
 */
#include "server/node_process.h"

#include "server/cluster_secrets.h"
#include "server/daemon_log.h"
#include "server/node.h"
#include "server/node_reseed.h"
#include "server/notify.h"
#include "server/stop_watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define HURRIED_MS     3000u /* for leader processes, when it is told to end once more */
#define NEXT_LEADER_MS 3000u
#define NEXT_START_MS  1500u
#define NODE_CLOSE_S   60u
#define SETTLE_MS      5000u /* for what is being done with folders: what was seen is kept where nothing is */

/* What clients are told. */
void srv_node_says(struct node *n, const char *text, const char *leader)
{
        srv_standby_say(n->standby, text, leader);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void signal_leaders(struct node *n, int signo)
{
        unsigned i;

        for (i = 0; i < CL_POOLS_MAX; i++)
                srv_node_leader_signal(&n->pools[i].leader, signo);
}

static void kill_leaders(struct node *n, const char *why)
{
        unsigned i;

        for (i = 0; i < CL_POOLS_MAX; i++)
                srv_node_leader_kill(&n->pools[i].leader, why);
}

static void node_reload(struct node *n)
{
        srv_notify_reloading();
        srv_link_reload(&n->link);
        srv_standby_reload(n->standby);
        if (n->gateway != NULL)
                srv_node_gateway_reload(n->gateway);
        signal_leaders(n, SIGHUP);
        srv_log(SRV_LOG_INFO, "reloaded");
        srv_notify("READY=1");
}

static void node_told_to_end(struct node *n, int signo)
{
        n->hurried = n->signo != 0;
        n->signo = signo;
}

static void take_signals(struct node *n)
{
        struct signalfd_siginfo info;

        while (read(n->signal_fd, &info, sizeof(info)) == sizeof(info)) {
                if (info.ssi_signo == SIGHUP)
                        node_reload(n);
                else if (info.ssi_signo != SIGCHLD)
                        node_told_to_end(n, (int)info.ssi_signo);
        }
}

/* Until a signal has come, a loop or the leader process has something to say, or so long. One that was killed says no more. */
void srv_node_wait(struct node *n, int timeout_ms)
{
        struct pollfd fds[2 + CL_POOLS_MAX] = {{.fd = n->signal_fd, .events = POLLIN}, {.fd = n->link.settings != NULL ? n->link.wake : -1, .events = POLLIN}};
        uint64_t count;
        unsigned i;

        for (i = 0; i < CL_POOLS_MAX; i++)
                fds[2 + i] = (struct pollfd){.fd = n->pools[i].leader.killed ? -1 : n->pools[i].leader.pair, .events = POLLIN};
        if (poll(fds, 2 + CL_POOLS_MAX, timeout_ms) <= 0)
                return;
        if (fds[1].revents != 0 && read(n->link.wake, &count, sizeof(count)) < 0)
                return; /* it was read already */
        take_signals(n);
}

/* The newest view. False: nothing was read yet. */
bool srv_node_take_view(struct node *n)
{
        struct cl_view view;

        srv_link_keep(&n->link);
        if (srv_link_view(&n->link, &view, &n->view_error, n->view_text) != 0)
                return n->view.revision > 0;
        cl_view_free(&n->view);
        n->view = view;
        return n->view.revision > 0;
}

/* ---- a second -------------------------------------------------------------------------------- */

/* Rule R2: etcd is not the one that this node knows. It takes no leader any more, and has none. */
static void heed_etcd(struct node *n)
{
        if ((n->view_error != -EREMCHG && !n->view.has_request) || n->distrusts)
                return;
        n->distrusts = true;
        srv_log(SRV_LOG_ERROR, "%s: this node leads no more, and begins anew (millrace admin cluster reseed)",
                n->view_error == -EREMCHG ? n->view_text : "etcd is being written anew from what the nodes hold");
        rem_server_distrust(n->server);
        kill_leaders(n, "etcd is not the one that this node knows");
}

/* A key of one pool makes no sense: the others do not wait for that. */
static void say_bad_pools(struct node *n)
{
        unsigned i;

        for (i = 0; i < n->view.pool_count; i++) {
                const struct cl_pool *seen = &n->view.pools[i];
                struct node_pool *pool = &n->pools[seen->number - CL_POOL];

                if (seen->bad && !pool->bad)
                        srv_log(SRV_LOG_ERROR, "what etcd has of pool %u, its config or its leader, makes no sense: who leads it goes on, and no other node can", seen->number);
                pool->bad = seen->bad;
        }
}

/* Whether this node may be asked to be ready to lead. */
static void set_prepares(struct node *n, bool prepares)
{
        unsigned i;

        pthread_mutex_lock(&n->lock);
        n->prepares = prepares;
        for (i = 0; i < CL_POOLS_MAX && !prepares; i++)
                n->pools[i].asked = 0;
        pthread_mutex_unlock(&n->lock);
}

static void serve_node(struct node *n)
{
        struct srv_error error;

        set_prepares(n, true);
        while (n->signo == 0 && srv_loops_failed(&n->link.loops) == 0 && !srv_node_is_replaced(n) && !srv_node_is_removed(n) && !n->distrusts) {
                srv_node_take_view(n);
                if (n->folders.seen.generation.number == 0)
                        srv_node_seen(n, &n->folders.seen);
                srv_folders_work(&n->folders, n->server, &n->link, &n->view);
                srv_node_keep_seen(n);
                heed_etcd(n);
                say_bad_pools(n);
                if (srv_node_meet_pools(n, &error) != 0)
                        srv_log(SRV_LOG_WARNING, "%s", error.text); /* again in a second */
                srv_node_look_at_leaders(n);
                srv_node_say_who_leads(n);
                srv_node_gateway_see(n->gateway, &n->view, srv_node_led_here(n, true));
                if (!srv_node_gateway_look(n->gateway))
                        break;
                if (!n->ready) {
                        srv_log(SRV_LOG_INFO, "node %u, %s, is ready: drives on %s, S3 on %s, admin on %s", (unsigned)n->settings->number, n->link.name, n->link.address, n->s3.text,
                                n->admin.text);
                        srv_notify("READY=1\nSTATUS=serves");
                }
                n->ready = true;
                srv_node_wait(n, NODE_POLL_MS);
        }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int open_node_listeners(struct node *n, struct srv_error *error)
{
        const struct srv_settings *s = n->settings;
        int rv = srv_listener_open(&s->listen, "listen", 1, &n->s3, error);

        if (rv == 0 && s->plain_listen.set)
                rv = srv_listener_open(&s->plain_listen, "plain_listen", 1, &n->plain, error);
        if (rv == 0)
                rv = srv_listener_open(&s->admin, "admin", 1, &n->admin, error);
        if (rv == 0)
                rv = srv_standby_new(s, &n->s3, &n->plain, &n->admin, &n->standby, error);
        if (rv == 0) {
                srv_node_says(n, "This node has not joined its cluster yet.", "");
                rv = srv_standby_begin(n->standby);
        }
        return rv;
}

static int start_serving(struct node *n, struct srv_error *error)
{
        const struct net_handler handler = {.bulk = rem_server_bulk, .request = rem_server_request, .lost = rem_server_lost};
        struct srv_link_party party = {.party = n->settings->number, .boot = n->boot, .format = &n->view.format, .handler = &handler};
        int rv;

        if (rem_server_new(&n->server) != 0)
                return srv_fail(error, -ENOMEM, "out of memory");
        rem_server_set(n->server, &(struct rem_server_options){.released = srv_node_released, .released_arg = n, .opened = srv_node_released, .opened_arg = n, .prepare = srv_node_prepare, .prepare_arg = n});
        party.handler_arg = n->server;
        rv = srv_link_connect(&n->link, &party, error);
        if (rv != 0)
                return rv;
        srv_link_call(&n->link, srv_node_begin_elections, n);
        return srv_node_meet_pools(n, error);
}

/* Clients are answered by this node's gateway from here on, whoever leads. */
static int open_node_gateway(struct node *n, struct srv_error *error)
{
        srv_standby_end(n->standby);
        return srv_node_gateway_open(n->settings, &n->link, n->server, n->boot, &n->s3, &n->plain, &n->admin, &n->view, &n->gateway, error);
}

static int node_open(struct node *n, struct srv_error *error)
{
        static const uint8_t no_cluster[CL_ID];
        struct net_secrets secrets;
        unsigned loops, slots, i;
        int rv;

        n->signal_fd = srv_signals_open();
        if (n->signal_fd < 0)
                return srv_fail(error, n->signal_fd, "cannot receive signals: %s", strerror(-n->signal_fd));
        rv = srv_secrets_digest(n->settings, no_cluster, &secrets, error); /* what a leader process needs is found amiss before it has the pool's key */
        if (rv == 0)
                rv = srv_link_check_files(n->settings, error);
        if (rv == 0)
                rv = srv_loops_plan(n->settings, SRV_PART_LINKS, &loops, &slots, error);
        if (rv == 0)
                rv = open_node_listeners(n, error);
        if (rv == 0)
                rv = srv_folders_look(&n->folders, n->settings, error);
        n->own.number = n->folders.number;
        for (i = 0; rv == 0 && i < n->folders.count; i++)
                n->has_drives |= n->folders.at[i].state == ENG_FOLDER_DRIVE;
        if (rv == 0)
                rv = srv_reseed_gate(n->settings, &n->folders, n->standby, n->signal_fd, &n->signo, error);
        if (rv == 0)
                rv = srv_link_open(&n->link, n->settings, loops, slots, &n->folders.seen, error);
        if (rv == 0)
                rv = srv_link_look(&n->link, srv_node_looked, n, error);
        if (rv == 0)
                rv = srv_node_join(n, error);
        if (rv == 0)
                rv = srv_node_wait_for_pool(n, error);
        if (rv == 0)
                rv = start_serving(n, error);
        return rv == 0 ? open_node_gateway(n, error) : rv;
}

static bool leader_runs(struct node *n)
{
        bool runs = false;
        unsigned i;

        for (i = 0; i < CL_POOLS_MAX; i++) {
                srv_node_leader_look(&n->pools[i].leader);
                runs |= n->pools[i].leader.pid != 0 && !n->pools[i].leader.killed;
        }
        return runs;
}

/*
 * Pools that this node leads go to nodes that are ready for them. It takes some seconds at most, in which all of them are served;
 * a second signal ends it.
 */
static void get_others_ready(struct node *n)
{
        bool ready = n->signo == 0; /* it stops since something has failed */
        unsigned i;

        set_prepares(n, false);
        for (i = 0; i < CL_POOLS_MAX; i++) {
                if (n->pools[i].leader.pid != 0 && n->pools[i].leader.idle)
                        srv_node_leader_kill(&n->pools[i].leader, "this node stops");
                srv_node_say_prepared(n, &n->pools[i]);
        }
        while (!ready && !n->hurried) {
                ready = true;
                for (i = 0; i < CL_POOLS_MAX; i++)
                        srv_node_leader_look(&n->pools[i].leader);
                for (i = 0; i < CL_POOLS_MAX; i++)
                        if (n->pools[i].leader.pid != 0 && n->pools[i].leader.serves)
                                ready &= srv_hand_over_ready(&n->pools[i].hand_over, &n->link, &n->view, n->pools[i].number, false);
                if (!ready)
                        srv_node_wait(n, 50);
                srv_link_keep(&n->link);
        }
}

/* Until they have ended, or their time has. One that is killed gives no grants back, so they have a moment even when it is hurried. */
static void wait_for_leaders(struct node *n)
{
        uint64_t until = lp_clock() + (n->settings->drain_timeout + NODE_LEAVE_EXTRA_MS) * 1000000ull, soon;
        bool told = false;

        while (leader_runs(n) && lp_clock() < until) {
                if (n->hurried && !told) {
                        told = true;
                        signal_leaders(n, SIGTERM);
                        soon = lp_clock() + HURRIED_MS * 1000000ull;
                        until = soon < until ? soon : until;
                }
                srv_node_wait(n, 50);
                srv_link_keep(&n->link);
        }
}

/*
 * Leader processes drain and hand over first: they need the drives of this node, too. So does the next leader of each pool,
 * which would wait for them in vain: it gets some time to begin with them.
 */
static void node_end_leaders(struct node *n)
{
        uint64_t until;

        if (!leader_runs(n))
                return;
        signal_leaders(n, SIGTERM);
        wait_for_leaders(n);
        kill_leaders(n, "it has not ended in time");
        until = lp_clock() + NEXT_LEADER_MS * 1000000ull;
        while (srv_node_led_here(n, false) != 0 && lp_clock() < until) {
                srv_node_wait(n, 50);
                srv_node_take_view(n);
        }
        srv_node_say_who_leads(n);
        if (srv_node_led_here(n, false) == 0)
                usleep(NEXT_START_MS * 1000);
}

struct node_stop {
        struct node_pool *pool;
        sem_t done;
};

static void node_stopped(void *arg)
{
        sem_post(arg);
}

static void stop_elector(void *arg)
{
        struct node_stop *stop = arg;

        stop->pool->elects = false;
        cl_elector_stop(stop->pool->elector, node_stopped, &stop->done);
}

static void end_electing(struct node *n, struct node_pool *pool)
{
        struct node_stop stop = {.pool = pool};

        if (pool->elector == NULL)
                return;
        sem_init(&stop.done, 0, 0);
        srv_link_call(&n->link, stop_elector, &stop);
        srv_link_wait(&stop.done);
        sem_destroy(&stop.done);
}

static void node_close(struct node *n)
{
        unsigned i;

        for (i = 0; i < CL_POOLS_MAX; i++) {
                srv_hand_over_end(&n->pools[i].hand_over);
                end_electing(n, &n->pools[i]);
        }
        srv_folders_settle(&n->folders, UINT32_MAX); /* the stop watch ends it, if a drive hangs */
        if (n->server != NULL)
                rem_server_stop(n->server);
        srv_link_end(&n->link);
        srv_folders_close(&n->folders);
        for (i = 0; i < CL_POOLS_MAX; i++)
                cl_elector_free(n->pools[i].elector);
        rem_server_free(n->server);
        srv_link_close(&n->link);
        srv_standby_free(n->standby);
        srv_listener_close(&n->s3);
        srv_listener_close(&n->plain);
        srv_listener_close(&n->admin);
        cl_view_free(&n->view);
        if (n->signal_fd >= 0)
                close(n->signal_fd);
}

/*
 * The program again, in this process's place: nothing of what it knew, served or granted is left. It waits before it joins. A
 * leader process that the kernel holds up would be left: it goes with this process alone.
 */
static void begin_anew(struct node *n, char *const argv[])
{
        unsigned i;

        for (i = 0; i < CL_POOLS_MAX; i++) {
                srv_node_leader_look(&n->pools[i].leader);
                if (n->pools[i].leader.pid != 0) {
                        srv_log(SRV_LOG_ERROR, "cannot begin anew: a leader process has not ended");
                        return;
                }
        }
        execv("/proc/self/exe", argv);
        srv_log(SRV_LOG_ERROR, "cannot begin anew: %s", strerror(errno));
}

/* Clients first: what they have asked for is answered while there is a leader. One that was to begin anew may be told to end now. */
static void end_node_gateway(struct node *n)
{
        int signo = srv_node_gateway_drain(n->gateway, n->signal_fd, !n->hurried);

        if (signo != 0) {
                node_told_to_end(n, signo);
                if (n->distrusts && !n->hurried) /* else it was said */
                        srv_notify("STOPPING=1");
        }
        srv_standby_begin(n->standby);
}

/* It was not told to end: the status for that. Who would only come back to what ended it is not to be started again. */
static enum srv_exit say_why_it_ends(const struct node *n)
{
        struct srv_error error;

        if (srv_node_is_removed(n)) {
                srv_log(SRV_LOG_ERROR, "this node, %s, was removed from the cluster", n->link.name);
                return SRV_EXIT_NOT_STARTED;
        }
        if (srv_node_is_replaced(n)) {
                srv_node_fail_replaced(n, &error);
                srv_log(SRV_LOG_ERROR, "%s", error.text);
                return SRV_EXIT_NOT_STARTED;
        }
        srv_log(SRV_LOG_ERROR, "an event loop has failed: %s", strerror(-srv_loops_failed(&n->link.loops)));
        return SRV_EXIT_FAILED;
}

enum srv_exit srv_node_run(const struct srv_settings *settings, char *const argv[])
{
        static struct node node; /* it is large, and there is one */
        struct node *n = &node;
        enum srv_exit status = SRV_EXIT_DRAINED, failed = SRV_EXIT_FAILED;
        struct srv_error error = {""};
        unsigned i;
        int rv;

        n->own = *settings;
        n->settings = &n->own;
        n->program = argv[0];
        n->signal_fd = -1;
        signal(SIGPIPE, SIG_IGN);
        srv_raise_limits();
        for (i = 0; i < CL_POOLS_MAX; i++) {
                n->pools[i].node = n;
                n->pools[i].number = CL_POOL + i;
                srv_node_leader_init(&n->pools[i].leader, CL_POOL + i);
        }
        pthread_mutex_init(&n->lock, NULL);
        sem_init(&n->joined, 0, 0);
        rv = node_open(n, &error);
        if (rv == 0) {
                serve_node(n);
                if (!n->distrusts || n->signo != 0) /* systemd would kill what begins anew */
                        srv_notify("STOPPING=1");
                srv_log(SRV_LOG_INFO, "stopping");
                if (n->signo == 0 && !n->distrusts)
                        failed = say_why_it_ends(n);
                get_others_ready(n);
                end_node_gateway(n);
                if (!n->distrusts)
                        node_end_leaders(n);
                srv_folders_settle(&n->folders, SETTLE_MS);
                n->kept = 0;
                srv_node_keep_seen(n); /* what begins anew knows no more than the folders say */
                status = n->signo != 0 ? SRV_EXIT_DRAINED : failed; /* one that cannot begin anew has failed */
        } else if (rv == -EREMCHG && n->folders.seen.cluster_id != 0 && n->has_drives) {
                srv_log(SRV_LOG_ERROR, "%s", error.text);
                n->distrusts = true;
                status = SRV_EXIT_FAILED;
        } else if (rv != -EINTR) {
                srv_log(SRV_LOG_ERROR, "%s", error.text);
                status = SRV_EXIT_NOT_STARTED;
        }
        srv_stop_watch_begin(NODE_CLOSE_S, (int)status);
        if (!srv_node_gateway_close(n->gateway) && (!n->distrusts || n->signo != 0))
                _exit((int)status);
        node_close(n);
        srv_stop_watch_end();
        if (n->distrusts && n->signo == 0)
                begin_anew(n, argv);
        return status;
}
