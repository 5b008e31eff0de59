/*
 * node_elections.c - which pools a node leads: electors and their words, leader processes, and their handing over (node.h).
 * docs/design/leaders.md, hand-over.md.
 */
#include "server/node.h"

#include "server/daemon_log.h"

#include <errno.h>
#include <string.h>

#define KEEP_NS        (60 * NS_A_SECOND) /* between two times that what was seen is kept */
#define GIVE_BACK_MOST 60u /* times the first pause, between two hand-overs of one pool: doubled each time that it comes back soon */
#define PREPARED_NS    (5 * NS_A_SECOND) /* that the next leader is kept ready behind a hand-over */
#define GAVE_BACK_NS   (3 * NS_A_SECOND) /* that others have to take it */
#define NOT_NEEDED_NS  (10 * NS_A_SECOND) /* after a process that waited to lead in vain: no other one for so long */

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
void srv_node_looked(void *arg, const struct cl_view *view)
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
void srv_node_released(void *arg)
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
enum rem_prepared srv_node_prepare(void *arg, uint32_t number)
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

void srv_node_begin_elections(void *arg)
{
        ((struct node *)arg)->elects = true;
}

static void begin_electing(void *arg)
{
        ((struct node_pool *)arg)->elects = true;
}

/* Pools that etcd has by now get an elector each. */
int srv_node_meet_pools(struct node *n, struct srv_error *error)
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
uint32_t srv_node_led_here(const struct node *n, bool asked)
{
        uint32_t led = 0;
        unsigned i;

        for (i = 0; i < CL_POOLS_MAX; i++)
                if (leads_here(n, CL_POOL + i) && (!asked || n->pools[i].leader.listens))
                        led |= 1u << (CL_POOL + i);
        return led;
}

/* Of the first pool, without which no request is served. */
void srv_node_say_who_leads(struct node *n)
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
        srv_node_says(n, text, leader != NULL && !leads_here(n, CL_POOL) ? leader->node.s3 : "");
}

void srv_node_seen(struct node *n, struct cl_seen *out)
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

void srv_node_keep_seen(struct node *n)
{
        uint64_t now = lp_clock();
        struct cl_seen seen;

        srv_node_seen(n, &seen);
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

        srv_node_seen(n, &spec.seen);
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
        srv_node_leader_end(&pool->leader, n->settings->drain_timeout + NODE_LEAVE_EXTRA_MS);
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
void srv_node_say_prepared(struct node *n, struct node_pool *pool)
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
        srv_node_say_prepared(n, pool);
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

void srv_node_look_at_leaders(struct node *n)
{
        unsigned i;

        for (i = 0; i < CL_POOLS_MAX; i++)
                if (n->pools[i].elector != NULL)
                        look_at_leader(n, &n->pools[i]);
}
