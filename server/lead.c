/*
 * lead.c - see lead.h.
 */
#include "server/lead.h"

#include "server/admin_listener.h"
#include "server/daemon_log.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define VIEW_WAIT_MS    5000
#define RELEASE_WAIT_MS 2000
#define DRIVE_WAIT_MS   4750u  /* 1.25 T + 1 s: drives that were granted to another leader are free again */
#define WHOLE_WAIT_MS   45000u /* the whole pool was stopped: its nodes may be on their way */
#define KEEP_S          1
#define SETTLE_LEAST_MS 5u
#define SETTLE_MS       150u /* for calls under way, before it hands over */
#define LEAD_ENDED      3 /* exit status: it does not lead any more */

/* ---- the node process ------------------------------------------------------------------------ */

/* Waits for the end of the node process, and of this one with it. One that is prepared is told when to lead. */
static void *watch_node(void *arg)
{
        struct srv_lead *lead = arg;
        uint8_t told[sizeof(struct srv_lead_go)];
        size_t has = 0;
        ssize_t n;

        while ((n = read(lead->spec.pair, told + has, sizeof(told) - has)) > 0 || (n < 0 && errno == EINTR)) {
                has += n > 0 ? (size_t)n : 0;
                if (has < sizeof(told))
                        continue;
                memcpy(&lead->go, told, sizeof(told));
                sem_post(&lead->told);
                has = 0;
        }
        _exit(LEAD_ENDED);
}

static int begin_watch(struct srv_lead *lead, struct srv_error *error)
{
        pthread_t thread;
        int rv;

        sem_init(&lead->told, 0, 0);
        rv = -pthread_create(&thread, NULL, watch_node, lead);
        if (rv != 0)
                return srv_fail(error, rv, "cannot start a thread: %s", strerror(-rv));
        pthread_detach(thread);
        return 0;
}

static void tell_node(const struct srv_lead *lead, char what)
{
        if (send(lead->spec.pair, &what, 1, MSG_NOSIGNAL) < 0)
                srv_log(SRV_LOG_WARNING, "the node process cannot be told: %s", strerror(errno));
}

/* ---- the leader key -------------------------------------------------------------------------- */

static void on_ended(void *arg, const char *why)
{
        srv_log(SRV_LOG_WARNING, "this process does not lead the pool any more: %s", why);
        _exit(LEAD_ENDED);
}

static void on_says(void *arg, const char *text)
{
        srv_log(SRV_LOG_WARNING, "%s", text);
}

static void on_deposed(void *arg, const struct eng_term *by)
{
        on_ended(arg, "another process leads it");
}

struct claiming {
        struct srv_lead *lead;
        sem_t done;
};

/* On the link's loop, until it is done. */
static void claiming_wait(struct claiming *claiming, void (*start)(void *arg))
{
        sem_init(&claiming->done, 0, 0);
        srv_link_call(&claiming->lead->link, start, claiming);
        srv_link_wait(&claiming->done);
        sem_destroy(&claiming->done);
}

static void boot_taken(struct cl_boot_take *take)
{
        sem_post(&((struct claiming *)take->arg)->done);
}

static void start_boot(void *arg)
{
        struct claiming *claiming = arg;

        cl_boot_take(&claiming->lead->boot);
}

/* It is a party of net/ by that, and claims with it. */
static int lead_take_boot(struct srv_lead *lead, struct srv_error *error)
{
        const struct srv_settings *s = lead->link.settings;
        struct claiming claiming = {.lead = lead};

        lead->boot = (struct cl_boot_take){.etcd = lead->link.etcd, .cluster = s->cluster, .node = s->number, .done = boot_taken, .arg = &claiming};
        claiming_wait(&claiming, start_boot);
        return lead->boot.rv == 0 ? 0 : srv_fail(error, lead->boot.rv, "this node does not lead the pool: %s", lead->boot.text);
}

static void claim_done(struct cl_claim *claim)
{
        sem_post(&((struct claiming *)claim->arg)->done);
}

static void start_claim(void *arg)
{
        struct claiming *claiming = arg;

        cl_claim_start(&claiming->lead->claim);
}

static int lead_take_key(struct srv_lead *lead, struct srv_error *error)
{
        const struct srv_settings *s = lead->link.settings;
        struct claiming claiming = {.lead = lead};

        lead->claim = (struct cl_claim){.etcd = lead->link.etcd, .cluster = s->cluster, .pool = lead->spec.pool, .node = s->number,
                                        .boot_taken = lead->boot.boot, .leader_revision = lead->go.leader_revision, .done = claim_done, .arg = &claiming};
        claiming_wait(&claiming, start_claim);
        if (lead->claim.rv != 0)
                return srv_fail(error, lead->claim.rv, "this node does not lead the pool: %s", lead->claim.text);
        if (memcmp(&lead->claim.format, &lead->format, sizeof(lead->format)) != 0) /* what connects it is of another cluster, or generation */
                return srv_fail(error, -EREMCHG, "this node does not lead the pool: etcd was written anew meanwhile");
        return 0;
}

/* Peers are known from it, so the first one is waited for. */
static int wait_for_view(struct srv_lead *lead, struct srv_error *error)
{
        uint64_t until = lp_clock() + VIEW_WAIT_MS * 1000000ull;
        char text[CL_TEXT_MAX] = "";
        struct cl_view view;
        int64_t revision = 0;
        int rv;

        while (revision == 0 && lp_clock() < until) {
                if (srv_link_view(&lead->link, &view, &rv, text) == 0) {
                        revision = view.has_format ? view.revision : 0;
                        lead->format = view.format;
                        cl_view_free(&view);
                }
                if (revision == 0)
                        usleep(2000);
        }
        return revision > 0 ? 0 : srv_fail(error, -EAGAIN, "etcd does not answer: %s", text);
}

/* Requests of homes. Until the store is open they are told so. */
static enum net_bulk lead_bulk(void *arg, struct net_request *request)
{
        return rem_home_server_bulk(atomic_load(&((struct srv_lead *)arg)->homes), request);
}

static void lead_request(void *arg, struct net_request *request)
{
        rem_home_server_request(atomic_load(&((struct srv_lead *)arg)->homes), request);
}

static void lead_lost(void *arg, struct net_request *request)
{
        rem_home_server_lost(atomic_load(&((struct srv_lead *)arg)->homes), request);
}

/* What connections may be made of before there is a term: it says who this is. */
static int connect_lead(struct srv_lead *lead, struct srv_error *error)
{
        static const struct net_handler handler = {.bulk = lead_bulk, .request = lead_request, .lost = lead_lost};
        struct srv_link_party party = {.party = cl_party(lead->link.settings->number, lead->spec.pool), .pool = lead->spec.pool, .boot = lead->boot.boot, .format = &lead->format,
                                       .handler = &handler, .handler_arg = lead};

        return srv_link_connect(&lead->link, &party, error);
}

static int make_leader(struct srv_lead *lead, struct srv_error *error)
{
        struct rem_client_options client = {.loop = lead->link.loops.loops[0], .term = lead->claim.term, .deposed = on_deposed, .deposed_arg = lead, .wait_ms = 1000};
        struct cl_leader_options leader = {.etcd = lead->link.etcd, .cluster = lead->link.settings->cluster, .pool = lead->spec.pool, .claim = &lead->claim, .whole_stop = lead->spec.whole_stop, .may_lose = true, .silent = lead->go.silent, .ended = on_ended, .says = on_says, .arg = lead};
        int rv;

        client.net = lead->link.net;
        memcpy(client.cluster, lead->claim.format.cluster_id, sizeof(client.cluster));
        rv = rem_client_new(&client, &lead->link.client);
        leader.client = lead->link.client;
        if (rv == 0)
                rv = cl_leader_new(&leader, &lead->leader);
        return rv == 0 ? 0 : srv_fail(error, rv, "cannot lead: %s", strerror(-rv));
}

int srv_lead_open(const struct srv_settings *settings, struct srv_lead **out, struct srv_error *error)
{
        static struct srv_lead the_lead; /* it is large, and there is one */
        struct srv_lead *lead = &the_lead;
        unsigned loops, slots;
        int rv;

        *out = NULL;
        if (*settings->lead == '\0')
                return 0;
        if (srv_lead_parse(settings->lead, &lead->spec) != 0)
                return srv_fail(error, -EINVAL, "lead: is for the node process alone");
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the node process is gone by now, its end of the pair is closed */
        prctl(PR_SET_NAME, "millraced-lead");
        if (lead->spec.pools > 1)
                srv_log_about(lead->spec.pool);
        lead->go = (struct srv_lead_go){.leader_revision = lead->spec.leader_revision, .silent = lead->spec.silent};
        rv = begin_watch(lead, error);
        if (rv == 0)
                rv = srv_loops_plan(settings, SRV_PART_LEADER, &loops, &slots, error);
        if (rv == 0)
                rv = srv_link_open(&lead->link, settings, srv_loops_share(loops, lead->spec.leads), 0, &lead->spec.seen, error);
        if (rv == 0)
                rv = srv_link_look(&lead->link, NULL, NULL, error);
        if (rv == 0)
                rv = wait_for_view(lead, error);
        if (rv == 0)
                rv = lead_take_boot(lead, error);
        if (rv == 0)
                rv = connect_lead(lead, error);
        *out = lead;
        return rv;
}

/* Until the node process says so. Nodes that come meanwhile are met. */
static void wait_to_lead(struct srv_lead *lead)
{
        struct timespec until;

        srv_link_warm(&lead->link);
        tell_node(lead, SRV_LEADER_WAITS);
        do {
                srv_link_keep(&lead->link);
                clock_gettime(CLOCK_MONOTONIC, &until);
                until.tv_sec += KEEP_S;
        } while (sem_clockwait(&lead->told, CLOCK_MONOTONIC, &until) != 0);
}

int srv_lead_claim(struct srv_lead *lead, struct srv_error *error)
{
        int rv;

        if (lead->spec.prepared)
                wait_to_lead(lead);
        rv = lead_take_key(lead, error);
        return rv == 0 ? make_leader(lead, error) : rv;
}

void srv_lead_options(struct srv_lead *lead, struct eng_options *options)
{
        const struct srv_settings *s = lead->link.settings;

        options->cluster = cl_leader_cluster(lead->leader);
        options->opener = rem_client_opener(lead->link.client);
        options->drives = NULL;
        options->drive_count = 0;
        options->format = false;
        options->site = (struct eng_site){.node = s->number, .rack = srv_cluster_rack(s)};
        options->boot = (uint32_t)lead->claim.term.boot;
        options->maker = lead->claim.term.node; /* ids that homes of this node make are others' */
        options->drive_wait_ms = lead->spec.whole_stop ? WHOLE_WAIT_MS : DRIVE_WAIT_MS;
}

unsigned srv_lead_sessions(void *lead)
{
        struct rem_home_server *homes = atomic_load(&((struct srv_lead *)lead)->homes);

        return homes != NULL ? rem_home_server_sessions(homes) : 0;
}

static void lead_asked(void *arg, struct rem_home_asked *asked)
{
        struct srv_admin *admin = atomic_load(&((struct srv_lead *)arg)->admin);

        if (admin != NULL)
                srv_admin_ask(admin, asked);
        else
                rem_home_asked_answer(asked);
}

int srv_lead_homes(struct srv_lead *lead, struct eng_store *store, struct lp_loop *coordinator, struct srv_error *error)
{
        const struct eng_cluster *cluster = cl_leader_cluster(lead->leader);
        struct rem_home_server_options options = {.store = store, .coordinator = coordinator, .pool = lead->spec.pool, .term = lead->claim.term,
                                                  .lease_end = cluster->lease_end, .now = cluster->clock_ns, .ask = lead_asked, .ask_arg = lead};
        struct rem_home_server *homes;

        if (rem_home_server_new(&options, &homes) != 0)
                return srv_fail(error, -ENOMEM, "out of memory");
        atomic_store(&lead->homes, homes);
        return 0;
}

void srv_lead_read_only(struct srv_lead *lead, uint64_t generation)
{
        rem_home_server_read_only(atomic_load(&lead->homes), generation);
}

unsigned srv_lead_changing(struct srv_lead *lead)
{
        return rem_home_server_changing(atomic_load(&lead->homes));
}

void srv_lead_admin(struct srv_lead *lead, struct srv_admin *admin)
{
        atomic_store(&lead->admin, admin);
}

/* ---- leading --------------------------------------------------------------------------------- */

struct starting {
        struct lp_msg msg;
        struct srv_lead *lead;
        struct eng_store *store;
};

static void start_leading(struct lp_msg *msg)
{
        struct starting *starting = container_of(msg, struct starting, msg);

        cl_leader_start(starting->lead->leader, starting->store);
}

void srv_lead_start(struct srv_lead *lead, struct eng_store *store, struct lp_loop *coordinator)
{
        static struct starting starting;

        lead->coordinator = coordinator;
        starting = (struct starting){.msg.run = start_leading, .lead = lead, .store = store};
        lp_post(coordinator, &starting.msg);
        tell_node(lead, SRV_LEADER_LISTENS);
}

/* All drives are used, and nothing is to be moved or repaired: another process may lead as well. */
static bool pool_is_whole(const struct eng_health *health)
{
        unsigned i;

        if (!health->ready || !health->writable || health->healing || health->objects_below > 0)
                return false;
        for (i = 0; i < health->drive_count; i++) {
                const struct eng_drive_info *drive = &health->drives[i];

                if (drive->state != ENG_DRIVE_REMOVED && (drive->state != ENG_DRIVE_IN || drive->adding || drive->filling || drive->leaving))
                        return false;
        }
        return true;
}

void srv_lead_keep(struct srv_lead *lead, const struct eng_health *health)
{
        const bool whole = pool_is_whole(health);

        srv_link_keep(&lead->link);
        if (health->ready && !lead->serves_told)
                tell_node(lead, SRV_LEADER_SERVES);
        if (whole != lead->whole_told)
                tell_node(lead, whole ? SRV_LEADER_WHOLE : SRV_LEADER_LACKS);
        lead->serves_told |= health->ready;
        lead->whole_told = whole;
}

bool srv_lead_is_first(const struct srv_lead *lead)
{
        return lead->spec.pool == CL_POOL;
}

bool srv_lead_switches(struct srv_lead *lead, char out[CL_SWITCHES_MAX])
{
        char text[CL_TEXT_MAX];
        struct cl_view view;
        bool there;
        int why;

        if (srv_link_view(&lead->link, &view, &why, text) != 0)
                return false;
        there = view.revision > 0;
        memcpy(out, view.switches, CL_SWITCHES_MAX);
        cl_view_free(&view);
        return there;
}

void srv_lead_reload(struct srv_lead *lead)
{
        srv_link_reload(&lead->link);
}

struct releasing {
        struct lp_msg msg;
        struct srv_lead *lead;
        sem_t done;
};

static void lead_released(void *arg)
{
        sem_post(&((struct releasing *)arg)->done);
}

static void start_release(struct lp_msg *msg)
{
        struct releasing *releasing = container_of(msg, struct releasing, msg);

        cl_leader_release(releasing->lead->leader, lead_released, releasing);
}

/*
 * What homes ask from here on is for the next leader. What they have asked is answered, also that it was not let in: else nobody
 * knows what became of it. What is on its way comes within the first milliseconds.
 */
static void settle_calls(struct rem_home_server *homes)
{
        unsigned i;

        rem_home_server_close(homes);
        for (i = 0; i < SETTLE_MS && (i < SETTLE_LEAST_MS || rem_home_server_calls(homes) > 0); i++)
                usleep(1000);
}

void srv_lead_leave(struct srv_lead *lead, int status)
{
        static struct releasing releasing;
        struct rem_home_server *homes = atomic_load(&lead->homes);
        struct timespec until;

        if (homes != NULL)
                settle_calls(homes);
        if (lead->coordinator != NULL) {
                releasing = (struct releasing){.msg.run = start_release, .lead = lead};
                sem_init(&releasing.done, 0, 0);
                clock_gettime(CLOCK_MONOTONIC, &until);
                until.tv_sec += RELEASE_WAIT_MS / 1000;
                lp_post(lead->coordinator, &releasing.msg);
                while (sem_clockwait(&releasing.done, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR)
                        ;
        }
        srv_link_keep(&lead->link);
        _exit(status);
}
