/*
 * node_process.c - the main thread of a node process.
 *
 *   look at the folders -> etcd -> join -> links -> drives -> every second: who leads, what is there, what to do
 *
 * It sleeps until a signal comes, or a loop has something to look at. Starting a process and logging are done here; what
 * must not wait is done on loops, what may hang with a drive by threads of the folders.
 */
#include "server/node_process.h"

#include "server/daemon_log.h"
#include "server/cluster_link.h"
#include "server/cluster_secrets.h"
#include "server/node_folders.h"
#include "server/node_gateway.h"
#include "server/node_hand_over.h"
#include "server/node_leader.h"
#include "server/node_reseed.h"
#include "server/notify.h"
#include "server/standby.h"
#include "server/stop_watch.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define POLL_MS        1000
#define NS_A_SECOND    1000000000ull
#define KEEP_NS        (60 * NS_A_SECOND) /* between two times that what was seen is kept */
#define BEAT_NS        (3 * NS_A_SECOND)  /* between two times that a node says that it waits */
#define LEAVE_EXTRA_MS 15000u
#define HURRIED_MS     3000u /* for leader processes, when it is told to end once more */
#define NEXT_LEADER_MS 3000u
#define NEXT_START_MS  1500u
#define NODE_CLOSE_S   60u
#define GIVE_BACK_MOST 60u /* times the first pause, between two hand-overs of one pool: doubled each time that it comes back soon */
#define PREPARED_NS    (5 * NS_A_SECOND)       /* that the next leader is kept ready behind a hand-over */
#define GAVE_BACK_NS   (3 * NS_A_SECOND)       /* that others have to take it */
#define NOT_NEEDED_NS  (10 * NS_A_SECOND)      /* after a process that waited to lead in vain: no other one for so long */
#define SETTLE_MS      5000u /* for what is being done with folders: what was seen is kept where nothing is */

/* A pool of the cluster. owner: the main thread, but for what is under the lock */
struct node_pool {
        struct node *node;
        unsigned number;
        struct cl_elector *elector; /* NULL: it is not known of yet */
        bool elects;                /* of the loop: it uses the elector */
        bool bad;                   /* what etcd has of it makes no sense, which was said */
        struct srv_node_leader leader;
        uint64_t since;  /* lp_clock(): since when another node goes before this one, which leads; 0: none does */
        uint64_t pause;  /* before it is handed over once more */
        uint64_t handed; /* lp_clock(): when it was handed over; 0: never */
        struct srv_hand_over hand_over; /* while another node is got ready to lead */
        uint64_t idle_until; /* lp_clock(): no process is started that waits to lead */
        bool has_idle, says_prepared; /* at the last look: a process waits to lead; others were told so */
        /* under the node's lock: what the elector has said last */
        bool wanted, whole_stop;
        uint64_t silent;
        int64_t wanted_revision;
        unsigned before; /* nodes that go before this one */
        uint64_t asked;  /* lp_clock(): when this node was asked last to be ready to lead; 0: never */
        enum rem_prepared prepared; /* what is said to who asks */
        char waits[160];
};

/* owner: the main thread, but for what is under the lock */
struct node {
        const struct srv_settings *settings; /* own */
        struct srv_settings own;             /* a copy, which gets the number when it is known */
        const char *program;
        int signal_fd;
        int signo; /* that it ends by; 0: none yet */
        bool hurried; /* by another one: it waits for nothing and nobody any more, but for a moment */
        struct srv_listener s3, plain, admin;
        struct srv_standby *standby; /* while there is no gateway */
        struct srv_node_gateway *gateway;            /* NULL: not yet */
        struct srv_folders folders;
        struct srv_link link;
        struct rem_server *server;
        bool elects; /* of the loop: it uses the server and the electors */
        struct node_pool pools[CL_POOLS_MAX]; /* by number, from CL_POOL on */
        uint64_t handed; /* lp_clock(): when a pool was last handed over to whose turn it is; 0: none was */
        struct cl_view view;
        int view_error; /* why nothing newer was read; 0: it was */
        char view_text[CL_TEXT_MAX];
        bool waits_told, ready, distrusts, has_drives;
        uint64_t kept; /* lp_clock() */
        char kept_switches[CL_SWITCHES_MAX];
        unsigned kept_pools;
        struct cl_name_take name;
        struct cl_join join;
        uint64_t boot; /* the highest that this process has taken */
        sem_t joined;
        struct lp_msg hurry_msg;
        atomic_bool hurry_posted;
        bool prepares; /* under lock: it serves, and may be asked to be ready to lead */
        pthread_mutex_t lock;
};

/* What clients are told. */
static void node_says(struct node *n, const char *text, const char *leader)
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
static void node_wait(struct node *n, int timeout_ms)
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
static bool node_take_view(struct node *n)
{
        struct cl_view view;

        srv_link_keep(&n->link);
        if (srv_link_view(&n->link, &view, &n->view_error, n->view_text) != 0)
                return n->view.revision > 0;
        cl_view_free(&n->view);
        n->view = view;
        return n->view.revision > 0;
}

/* ---- joining --------------------------------------------------------------------------------- */

static void node_joined(struct cl_join *join)
{
        sem_post(&container_of(join, struct node, join)->joined);
}

static void begin_join(void *arg)
{
        cl_join(arg);
}

static void node_named(struct cl_name_take *take)
{
        sem_post(&container_of(take, struct node, name)->joined);
}

static void begin_name(void *arg)
{
        cl_name_take(arg);
}

static void node_describe(struct node *n, struct cl_node *out)
{
        const struct srv_settings *s = n->settings;
        struct srv_address s3 = s->listen, admin = s->admin;

        memset(out, 0, sizeof(*out));
        snprintf(out->name, sizeof(out->name), "%s", n->link.name);
        snprintf(out->address, sizeof(out->address), "%.255s", n->link.address);
        if (srv_address_is_every(&s3))
                memcpy(s3.host, s->cluster_listen.host, sizeof(s3.host));
        srv_address_text(&s3, out->s3, sizeof(out->s3));
        if (srv_address_is_every(&admin))
                memcpy(admin.host, s->cluster_listen.host, sizeof(admin.host));
        srv_address_text(&admin, out->admin, sizeof(out->admin));
        snprintf(out->version, sizeof(out->version), "%s", MILLRACE_VERSION);
        out->rack = srv_cluster_rack(s);
        srv_folders_announce(&n->folders, out);
}

/* The number that etcd has for the node's name; it does not change while this process lives. */
static int node_take_number(struct node *n, struct srv_error *error)
{
        n->name = (struct cl_name_take){.etcd = n->link.etcd, .cluster = n->own.cluster, .name = n->own.node, .bound = n->own.number, .view = &n->view, .done = node_named};
        srv_link_call(&n->link, begin_name, &n->name);
        srv_link_wait(&n->joined);
        if (n->name.rv != 0)
                return srv_fail(error, n->name.rv, "%s", n->name.text);
        n->own.number = n->name.number;
        srv_folders_own(&n->folders, n->own.number);
        return 0;
}

static bool is_removed(const struct node *n)
{
        const struct cl_member *self = cl_view_member(&n->view, n->settings->number);

        return self != NULL && self->node.state == CL_NODE_GONE;
}

/* 0, -EAGAIN: not now, -ENOSPC: etcd is full, or an error with a line. */
static int try_to_join(struct node *n, struct srv_error *error)
{
        struct cl_node self;
        int rv = node_take_number(n, error);

        if (rv != 0)
                return rv;
        if (!srv_folders_belong(&n->folders, &n->view))
                return srv_fail(error, -EEXIST, "node %u has drives in the pool, and none of them is here: this is another machine, or its disks are not there",
                                (unsigned)n->settings->number);
        if (!is_removed(n) && srv_folders_drained(&n->folders, &n->view))
                return srv_fail(error, -EEXIST, "node %s was drained: a machine that joins the cluster anew needs another name, and empty folders", n->link.name);
        node_describe(n, &self);
        n->join = (struct cl_join){.etcd = n->link.etcd, .cluster = n->settings->cluster, .number = n->settings->number, .node = &self, .view = &n->view, .done = node_joined};
        srv_link_call(&n->link, begin_join, &n->join);
        srv_link_wait(&n->joined);
        if (n->join.boot > n->boot)
                n->boot = n->join.boot;
        return n->join.rv == 0 ? 0 : srv_fail(error, n->join.rv, "%s", n->join.text);
}

/* Until etcd answers, takes changes, and the node has joined, or it is told to end. */
static int node_join(struct node *n, struct srv_error *error)
{
        struct srv_error before = {""};
        const uint64_t begun = lp_clock();
        bool told = false;
        int rv = -EAGAIN;

        while (n->signo == 0) {
                if (node_take_view(n)) {
                        rv = try_to_join(n, error);
                        if (rv != -EAGAIN && rv != -ENOSPC) /* a full etcd is mended */
                                return rv;
                        if (*error->text != '\0' && strcmp(error->text, before.text) != 0)
                                srv_log(SRV_LOG_WARNING, "cannot join yet: %s", error->text);
                        before = *error;
                } else if (n->view_error == -EREMCHG) {
                        return srv_fail(error, -EREMCHG, "%s (millrace admin cluster reseed)", n->view_text);
                }
                if (!told && lp_clock() - begun >= BEAT_NS) {
                        srv_notify_waits(n->view.revision > 0 ? "to join its cluster: its log says why" : "for etcd");
                        told = true;
                }
                node_wait(n, POLL_MS);
        }
        return -EINTR;
}

/* Another process has entered under this node's number: a copy of this machine, or one that was started twice. */
static bool is_replaced(const struct node *n)
{
        const struct cl_member *self = cl_view_member(&n->view, n->settings->number);

        return self != NULL && self->node.boot > n->boot;
}

/* -EEXIST: started again, it would only take the other one's place in turn. */
static int fail_replaced(const struct node *n, struct srv_error *error)
{
        return srv_fail(error, -EEXIST, "another process has entered the cluster as %s, at %s: this one ends. Of two machines with one name, one needs another name and empty folders",
                        n->link.name, cl_view_member(&n->view, n->own.number)->node.address);
}

/* Until there is a pool. While it waits it says again and again that it is there: --init-cluster counts on no others. */
static int wait_for_pool(struct node *n, struct srv_error *error)
{
        uint64_t said = lp_clock();

        while (n->signo == 0) {
                if (node_take_view(n) && n->view.has_format && cl_view_pool(&n->view, CL_POOL)->has_config) /* it may be a reseed's, and this number another node's there */
                        return srv_folders_belong(&n->folders, &n->view) ? 0 : srv_fail(error, -EEXIST, "node %u has drives in the pool, and none of them is here: %s needs another number, and gets it by its next start",
                                                                                       (unsigned)n->own.number, n->link.name);
                if (n->view_error == -EREMCHG)
                        return srv_fail(error, -EREMCHG, "%s (millrace admin cluster reseed)", n->view_text);
                if (!n->waits_told) {
                        srv_log(SRV_LOG_INFO, "node %u, %s, waits for the cluster %s to be made: millrace admin cluster %s", (unsigned)n->settings->number, n->link.name,
                                n->settings->cluster, srv_folders_hold(&n->folders) ? "adopt --yes (its folders hold drives)" : "init");
                        node_says(n, "The cluster has not been made yet.", "");
                        srv_notify_waits("for the cluster to be made: millrace admin cluster init, or adopt");
                }
                n->waits_told = true;
                if (n->view_error == 0 && lp_clock() - said >= BEAT_NS) {
                        said = lp_clock();
                        if (is_replaced(n))
                                return fail_replaced(n, error);
                        if (try_to_join(n, error) == -EEXIST)
                                return -EEXIST;
                }
                node_wait(n, POLL_MS);
        }
        return -EINTR;
}

/* ---- on the loop ----------------------------------------------------------------------------- */

static void on_lead(void *arg, int64_t leader_revision, bool whole_stop, uint64_t silent)
{
        struct node_pool *pool = arg;

        pthread_mutex_lock(&pool->node->lock);
        pool->wanted = true;
        pool->wanted_revision = leader_revision;
        pool->whole_stop = whole_stop;
        pool->silent = silent;
        pthread_mutex_unlock(&pool->node->lock);
        srv_link_wake(&pool->node->link);
}

static void on_waits(void *arg, const char *why)
{
        struct node_pool *pool = arg;

        pthread_mutex_lock(&pool->node->lock);
        pool->wanted = false;
        snprintf(pool->waits, sizeof(pool->waits), "%s", why);
        pthread_mutex_unlock(&pool->node->lock);
}

static void on_before(void *arg, unsigned nodes)
{
        struct node_pool *pool = arg;

        pthread_mutex_lock(&pool->node->lock);
        pool->before = nodes;
        pthread_mutex_unlock(&pool->node->lock);
}

/* etcd was asked. */
static void on_looked(void *arg, const struct cl_view *view)
{
        struct node *n = arg;
        unsigned i;

        if (!n->elects)
                return;
        rem_server_note(n->server, view != NULL ? REM_NOTE_ETCD : 0);
        for (i = 0; i < CL_POOLS_MAX && view != NULL; i++)
                if (n->pools[i].elects)
                        cl_elector_look(n->pools[i].elector, view);
}

static void hurry(struct node *n)
{
        cl_directory_hurry(n->link.directory);
}

static void on_hurry(void *arg)
{
        hurry(((struct node_pool *)arg)->node);
}

static void hurry_now(struct lp_msg *msg)
{
        struct node *n = container_of(msg, struct node, hurry_msg);

        atomic_store(&n->hurry_posted, false);
        hurry(n);
}

/* On the loop of a connection: the leader has handed over, or there is another. */
static void on_released(void *arg)
{
        struct node *n = arg;

        if (atomic_exchange(&n->hurry_posted, true))
                return;
        n->hurry_msg.run = hurry_now;
        lp_post(n->link.loops.loops[0], &n->hurry_msg);
}

/*
 * On the loop of a connection: the leader of a pool is about to hand over, and this node is to be ready. The main thread makes
 * it so (be_ready_to_lead()).
 */
static enum rem_prepared on_prepare(void *arg, uint32_t number)
{
        enum rem_prepared prepared = REM_PREPARED_NO;
        struct node *n = arg;
        struct node_pool *pool;
        bool wake = false;

        if (number < CL_POOL || number > CL_POOLS_MAX)
                return prepared;
        pool = &n->pools[number - CL_POOL];
        pthread_mutex_lock(&n->lock);
        if (n->prepares) {
                prepared = pool->prepared;
                wake = prepared == REM_PREPARED_SOON && pool->asked == 0;
                pool->asked = prepared == REM_PREPARED_NO ? 0 : lp_clock();
        }
        pthread_mutex_unlock(&n->lock);
        if (wake)
                srv_link_wake(&n->link);
        return prepared;
}

static void begin_elections(void *arg)
{
        ((struct node *)arg)->elects = true;
}

static void begin_electing(void *arg)
{
        ((struct node_pool *)arg)->elects = true;
}

/* Pools that etcd has by now get an elector each. */
static int meet_pools(struct node *n, struct srv_error *error)
{
        unsigned i;

        for (i = 0; i < n->view.pool_count; i++) {
                struct node_pool *pool = &n->pools[n->view.pools[i].number - CL_POOL];
                struct cl_elector_options options = {.node = n->settings->number, .pool = pool->number, .client = n->link.client, .server = n->server, .lead = on_lead,
                                                     .hurry = on_hurry, .waits = on_waits, .before = on_before, .arg = pool};

                if (pool->elector != NULL || !n->view.pools[i].has_config)
                        continue;
                if (cl_elector_new(&options, &pool->elector) != 0)
                        return srv_fail(error, -ENOMEM, "out of memory");
                srv_link_call(&n->link, begin_electing, pool);
        }
        return 0;
}

/* ---- who leads ------------------------------------------------------------------------------- */

static bool leads_here(const struct node *n, unsigned number)
{
        const struct cl_pool *pool = cl_view_pool(&n->view, number);

        return pool->is_led && pool->leader.node == n->settings->number;
}

/* Pools that are led by this node, a bit for each number; asked: whose process here can be asked. */
static uint32_t led_here(const struct node *n, bool asked)
{
        uint32_t led = 0;
        unsigned i;

        for (i = 0; i < CL_POOLS_MAX; i++)
                if (leads_here(n, CL_POOL + i) && (!asked || n->pools[i].leader.listens))
                        led |= 1u << (CL_POOL + i);
        return led;
}

/* Of the first pool, without which no request is served. */
static void say_who_leads(struct node *n)
{
        const struct cl_pool *first = cl_view_pool(&n->view, CL_POOL);
        const struct cl_member *leader = first->is_led ? cl_view_member(&n->view, first->leader.node) : NULL;
        char text[512], waits[160];

        pthread_mutex_lock(&n->lock);
        memcpy(waits, n->pools[0].waits, sizeof(waits));
        pthread_mutex_unlock(&n->lock);
        if (leader != NULL && !leads_here(n, CL_POOL))
                snprintf(text, sizeof(text), "Node %u, %s, leads the pool: its S3 address is %s.", (unsigned)leader->number, leader->node.name, leader->node.s3);
        else if (n->pools[0].leader.pid != 0)
                snprintf(text, sizeof(text), "This node is about to lead the pool.");
        else
                snprintf(text, sizeof(text), "No node leads the pool at the moment%s%s.", *waits != '\0' ? ": " : "", waits);
        node_says(n, text, leader != NULL && !leads_here(n, CL_POOL) ? leader->node.s3 : "");
}

static void node_seen(struct node *n, struct cl_seen *out)
{
        cl_etcd_seen(n->link.etcd, out);
        if (n->view.has_format)
                out->generation = (struct cl_generation){n->view.format.generation, n->view.format.random};
}

/* A reseed asks for all pools that some folder knows of. */
static unsigned known_pools(const struct cl_view *view)
{
        return view->pool_count > 0 ? view->pools[view->pool_count - 1].number : 0;
}

static void keep_seen(struct node *n)
{
        uint64_t now = lp_clock();
        struct cl_seen seen;

        node_seen(n, &seen);
        if (n->kept != 0 && now - n->kept < KEEP_NS && memcmp(&seen.generation, &n->folders.seen.generation, sizeof(seen.generation)) == 0 &&
            strcmp(n->kept_switches, n->view.switches) == 0 && n->kept_pools == known_pools(&n->view))
                return;
        memcpy(n->kept_switches, n->view.switches, sizeof(n->kept_switches));
        n->kept_pools = known_pools(&n->view);
        n->kept = srv_folders_keep(&n->folders, &seen, n->view.boots[n->settings->number], n->kept_pools > 1 ? n->kept_pools : 0, n->view.switches) ? now : now - KEEP_NS + 2 * NS_A_SECOND;
}

/* How many pools each node leads when all do: the nodes that have slots share them. */
static unsigned pools_a_node(const struct cl_view *view)
{
        bool has[CL_NODE_LAST + 1] = {false};
        unsigned i, slot, nodes = 0;

        for (i = 0; i < view->pool_count; i++) {
                const struct eng_epoch_info *epoch = &view->pools[i].epoch;

                for (slot = 0; slot < epoch->slots; slot++)
                        if ((epoch->gone >> slot & 1) == 0 && !has[epoch->slot[slot].site.node & CL_NODE_LAST]) {
                                has[epoch->slot[slot].site.node & CL_NODE_LAST] = true;
                                nodes++;
                        }
        }
        return nodes == 0 ? 1 : (view->pool_count + nodes - 1) / nodes;
}

static void say_tries(const struct node_pool *pool, unsigned pools)
{
        if (pools > 1)
                srv_log(SRV_LOG_INFO, "this node tries to lead pool %u", pool->number);
        else
                srv_log(SRV_LOG_INFO, "this node tries to lead the pool");
}

/* waits: it is told to lead later, if at all. */
static void start_leader(struct node *n, struct node_pool *pool, int64_t leader_revision, bool waits, bool whole_stop, uint64_t silent)
{
        struct srv_lead_spec spec = {.node = n->own.number,
                                     .pool = pool->number,
                                     .pools = n->view.pool_count,
                                     .leads = pools_a_node(&n->view),
                                     .leader_revision = leader_revision,
                                     .prepared = waits,
                                     .whole_stop = whole_stop,
                                     .silent = silent};
        int rv;

        node_seen(n, &spec.seen);
        rv = srv_node_leader_start(&pool->leader, n->program, n->settings, &spec);
        if (rv != 0)
                srv_log(SRV_LOG_ERROR, "cannot start a leader process: %s", strerror(-rv));
        else if (waits)
                srv_log(SRV_LOG_INFO, "the leader of pool %u is about to hand over: this node gets ready to lead it", pool->number);
        else
                say_tries(pool, spec.pools);
}

/*
 * Whose turn it is gets the pool that this node leads in its place: when all of the pool is whole, one pool a minute. A pool that
 * comes back waits longer each time.
 */
static void hand_pool_back(struct node *n, struct node_pool *pool, unsigned before)
{
        const uint64_t now = lp_clock(), pause = n->settings->test_give_back * 1000000ull, most = GIVE_BACK_MOST * pause;

        if (before == 0 || pool->leader.pid == 0 || !pool->leader.serves || !pool->leader.whole || !leads_here(n, pool->number)) {
                pool->since = 0;
                if (!pool->handed || now - pool->handed > PREPARED_NS) /* the next one is kept ready until it leads */
                        srv_hand_over_end(&pool->hand_over);
                return;
        }
        if (pool->since == 0)
                pool->since = now;
        if (now - pool->since < pause || (n->handed != 0 && now - n->handed < pause) || (pool->handed != 0 && now - pool->handed < pool->pause)) {
                if (now - pool->handed > PREPARED_NS) /* it has come back */
                        srv_hand_over_end(&pool->hand_over);
                return;
        }
        if (!srv_hand_over_ready(&pool->hand_over, &n->link, &n->view, pool->number, true))
                return; /* and the link is woken when it is */
        srv_log(SRV_LOG_INFO, "pool %u is handed over: another node leads it in its turn", pool->number);
        pool->pause = pool->handed == 0 || now - pool->handed > most ? pause : pool->pause < most / 2 ? 2 * pool->pause : most;
        pool->handed = n->handed = now;
        pool->since = 0;
        srv_node_leader_end(&pool->leader, n->settings->drain_timeout + LEAVE_EXTRA_MS);
}

/* That others have the time to take it: this node leads it only if they do not. */
static bool was_given_back(const struct node_pool *pool)
{
        return pool->handed != 0 && pool->leader.failures == 0 && lp_clock() - pool->handed < GAVE_BACK_NS;
}

static bool has_slots(const struct cl_pool *pool, uint16_t node)
{
        const struct eng_epoch_info *epoch = &pool->epoch;
        unsigned slot;

        for (slot = 0; slot < epoch->slots; slot++)
                if ((epoch->gone >> slot & 1) == 0 && epoch->slot[slot].site.node == node)
                        return true;
        return false;
}

static bool may_get_ready(const struct node *n, const struct node_pool *pool)
{
        const struct srv_node_leader *leader = &pool->leader;
        const struct cl_pool *seen = cl_view_pool(&n->view, pool->number);

        return n->signo == 0 && !n->distrusts && n->view_error == 0 && seen->is_led && seen->leader.node != n->settings->number && lp_clock() >= leader->rest_until &&
               lp_clock() >= pool->idle_until && has_slots(seen, n->settings->number);
}

/* Others let this node go first while it says so: until it leads, which they see in etcd by then. */
static void say_prepared(struct node *n, struct node_pool *pool)
{
        const struct srv_node_leader *leader = &pool->leader;
        const bool is = leader->pid != 0 && leader->waits && !leader->listens;

        if (is != pool->says_prepared && rem_server_prepared(n->server, pool->number, is) == 0)
                pool->says_prepared = is;
}

/*
 * A leader is about to hand over, and asks this node to be ready: a process is started that does all that needs no right, and
 * waits. It is ended when nobody asks for it any more.
 */
static void be_ready_to_lead(struct node *n, struct node_pool *pool)
{
        const struct cl_pool *seen = cl_view_pool(&n->view, pool->number);
        struct srv_node_leader *leader = &pool->leader;
        uint64_t asked, now;

        pthread_mutex_lock(&n->lock);
        now = lp_clock(); /* not before it was asked */
        asked = pool->asked;
        if (asked != 0 && now - asked >= CL_KEEP_MS * 1000000ull)
                asked = pool->asked = 0;
        pthread_mutex_unlock(&n->lock);
        if (leader->pid == 0 && pool->has_idle)
                pool->idle_until = now + NOT_NEEDED_NS; /* it ended by itself */
        if (asked == 0 && leader->pid != 0 && leader->idle) {
                srv_node_leader_kill(leader, "nobody hands over to it");
                pool->idle_until = now + NOT_NEEDED_NS;
        }
        if (asked != 0 && leader->pid == 0 && may_get_ready(n, pool))
                start_leader(n, pool, seen->leader_revision, true, false, 0);
        pool->has_idle = leader->pid != 0 && leader->idle;
        say_prepared(n, pool);
        pthread_mutex_lock(&n->lock);
        if (leader->pid != 0)
                pool->prepared = !leader->idle ? REM_PREPARED_NO : leader->waits ? REM_PREPARED_YES : REM_PREPARED_SOON;
        else
                pool->prepared = may_get_ready(n, pool) ? REM_PREPARED_SOON : REM_PREPARED_NO;
        pthread_mutex_unlock(&n->lock);
}

static void lead_pool(struct node *n, struct node_pool *pool, int64_t revision, bool whole_stop, uint64_t silent)
{
        struct srv_node_leader *leader = &pool->leader;

        if (leader->pid == 0) {
                start_leader(n, pool, revision, false, whole_stop, silent);
        } else if (leader->idle) {
                say_tries(pool, n->view.pool_count);
                srv_node_leader_go(leader, &(struct srv_lead_go){.leader_revision = revision, .silent = silent});
        }
}

static void look_at_leader(struct node *n, struct node_pool *pool)
{
        const struct cl_pool *seen = cl_view_pool(&n->view, pool->number);
        struct srv_node_leader *leader = &pool->leader;
        bool wanted, whole_stop;
        unsigned before;
        uint64_t silent;
        int64_t revision;

        srv_node_leader_look(leader);
        /* another node has taken the key since: the process here will find out, unless it is stopped */
        if (leader->pid != 0 && seen->leader_revision > leader->leader_revision && seen->is_led && !leads_here(n, pool->number))
                srv_node_leader_kill(leader, "another node leads the pool");
        pthread_mutex_lock(&n->lock);
        wanted = pool->wanted;
        whole_stop = pool->whole_stop;
        silent = pool->silent;
        revision = pool->wanted_revision;
        before = pool->before;
        pool->wanted = false;
        pthread_mutex_unlock(&n->lock);
        if (wanted && !n->distrusts && lp_clock() >= leader->rest_until && !was_given_back(pool))
                lead_pool(n, pool, revision, whole_stop, silent);
        be_ready_to_lead(n, pool);
        hand_pool_back(n, pool, before);
}

static void look_at_leaders(struct node *n)
{
        unsigned i;

        for (i = 0; i < CL_POOLS_MAX; i++)
                if (n->pools[i].elector != NULL)
                        look_at_leader(n, &n->pools[i]);
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
        while (n->signo == 0 && srv_loops_failed(&n->link.loops) == 0 && !is_replaced(n) && !is_removed(n) && !n->distrusts) {
                node_take_view(n);
                if (n->folders.seen.generation.number == 0)
                        node_seen(n, &n->folders.seen);
                srv_folders_work(&n->folders, n->server, &n->link, &n->view);
                keep_seen(n);
                heed_etcd(n);
                say_bad_pools(n);
                if (meet_pools(n, &error) != 0)
                        srv_log(SRV_LOG_WARNING, "%s", error.text); /* again in a second */
                look_at_leaders(n);
                say_who_leads(n);
                srv_node_gateway_see(n->gateway, &n->view, led_here(n, true));
                if (!srv_node_gateway_look(n->gateway))
                        break;
                if (!n->ready) {
                        srv_log(SRV_LOG_INFO, "node %u, %s, is ready: drives on %s, S3 on %s, admin on %s", (unsigned)n->settings->number, n->link.name, n->link.address, n->s3.text,
                                n->admin.text);
                        srv_notify("READY=1\nSTATUS=serves");
                }
                n->ready = true;
                node_wait(n, POLL_MS);
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
                node_says(n, "This node has not joined its cluster yet.", "");
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
        rem_server_set(n->server, &(struct rem_server_options){.released = on_released, .released_arg = n, .opened = on_released, .opened_arg = n, .prepare = on_prepare, .prepare_arg = n});
        party.handler_arg = n->server;
        rv = srv_link_connect(&n->link, &party, error);
        if (rv != 0)
                return rv;
        srv_link_call(&n->link, begin_elections, n);
        return meet_pools(n, error);
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
                rv = srv_link_look(&n->link, on_looked, n, error);
        if (rv == 0)
                rv = node_join(n, error);
        if (rv == 0)
                rv = wait_for_pool(n, error);
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
                say_prepared(n, &n->pools[i]);
        }
        while (!ready && !n->hurried) {
                ready = true;
                for (i = 0; i < CL_POOLS_MAX; i++)
                        srv_node_leader_look(&n->pools[i].leader);
                for (i = 0; i < CL_POOLS_MAX; i++)
                        if (n->pools[i].leader.pid != 0 && n->pools[i].leader.serves)
                                ready &= srv_hand_over_ready(&n->pools[i].hand_over, &n->link, &n->view, n->pools[i].number, false);
                if (!ready)
                        node_wait(n, 50);
                srv_link_keep(&n->link);
        }
}

/* Until they have ended, or their time has. One that is killed gives no grants back, so they have a moment even when it is hurried. */
static void wait_for_leaders(struct node *n)
{
        uint64_t until = lp_clock() + (n->settings->drain_timeout + LEAVE_EXTRA_MS) * 1000000ull, soon;
        bool told = false;

        while (leader_runs(n) && lp_clock() < until) {
                if (n->hurried && !told) {
                        told = true;
                        signal_leaders(n, SIGTERM);
                        soon = lp_clock() + HURRIED_MS * 1000000ull;
                        until = soon < until ? soon : until;
                }
                node_wait(n, 50);
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
        while (led_here(n, false) != 0 && lp_clock() < until) {
                node_wait(n, 50);
                node_take_view(n);
        }
        say_who_leads(n);
        if (led_here(n, false) == 0)
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

        if (is_removed(n)) {
                srv_log(SRV_LOG_ERROR, "this node, %s, was removed from the cluster", n->link.name);
                return SRV_EXIT_NOT_STARTED;
        }
        if (is_replaced(n)) {
                fail_replaced(n, &error);
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
                keep_seen(n); /* what begins anew knows no more than the folders say */
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
