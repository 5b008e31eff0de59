/*
 * daemon.c - the order in which the process is put together and taken apart.
 *
 * The main thread. First what can fail without having touched anything (addresses), then the store,
 * then who may use it, then the two sides that serve. Nothing runs until everything is bound and
 * open: an error before that is exit status 2 and one line.
 */
#include "server/daemon.h"

#include "server/descriptors.h"
#include "server/daemon_log.h"
#include "server/stop_watch.h"
#include "server/certificate_pair.h"

#include "ec.h"
#include "engine.h"
#include "gateway.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CLOSE_LIMIT_S 60u

/* ---- limits of the process ------------------------------------------------------------------- */

static void raise_limit(__rlimit_resource_t resource)
{
        struct rlimit limit;

        if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
                return;
        limit.rlim_cur = limit.rlim_max;
        setrlimit(resource, &limit); /* what is not granted shows in process_max_fds */
}

void srv_raise_limits(void)
{
        raise_limit(RLIMIT_NOFILE);
        raise_limit(RLIMIT_MEMLOCK); /* buffers registered with io_uring count */
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_listeners(struct srv_daemon *d, unsigned loop_count, struct srv_error *error)
{
        const struct srv_settings *s = d->settings;
        int rv;

        if (d->lead != NULL)
                return 0; /* it is asked by nodes alone */
        if (d->home != NULL) {
                rv = srv_listener_adopt(d->home->s3, loop_count, &d->listener, error);
                if (rv == 0 && d->home->plain >= 0)
                        rv = srv_listener_adopt(d->home->plain, loop_count, &d->plain_listener, error);
                return rv == 0 ? srv_listener_adopt(d->home->admin, 1, &d->admin_listener, error) : rv;
        }
        rv = srv_listener_open(&s->listen, "listen", loop_count, &d->listener, error);
        if (rv == 0 && s->plain_listen.set)
                rv = srv_listener_open(&s->plain_listen, "plain_listen", loop_count, &d->plain_listener, error);
        if (rv == 0)
                rv = srv_listener_open(&s->admin, "admin", 1, &d->admin_listener, error);
        return rv;
}

/* Of a home store: it has no drives of its own. */
static void home_options(const struct srv_daemon_home *home, const struct eng_leader_link *leader, const struct eng_drive_opener *opener, struct eng_options *options)
{
        options->leader = leader;
        options->opener = opener;
        options->drives = NULL;
        options->drive_count = 0;
        options->format = options->one_machine = false;
        options->site.node = home->node;
        options->maker = home->party;
        options->boot = home->boot;
}

/* Of a store of one machine: in a cluster others say where the drives are. */
static void store_options(const struct srv_daemon *d, struct eng_options *out)
{
        const struct srv_settings *s = d->settings;

        *out = (struct eng_options){
                .drives = (const char *const *)s->drive.item,
                .drive_count = s->drive.count,
                .format = s->format,
                .one_machine = d->lead == NULL,
                .upgrade = s->upgrade,
                .ec_k = s->ec.k,
                .ec_m = s->ec.m,
                .loops = d->loops.loops,
                .loop_count = d->loops.count,
                .hash_loops = d->loops.loops + d->loops.count,
                .hash_loop_count = d->loops.hashers,
                .inline_max = s->inline_max == 0 ? ENG_INLINE_NONE : (uint32_t)s->inline_max,
                .cache_bytes = s->cache,
                .log_file_bytes = s->log_file_size & ~4095ull, /* whole blocks */
                .segment_bytes = s->segment_size & ~4095ull,
                .open_files = srv_descriptors_files(s, d->loops.count),
                .memtable_bytes = s->memtable_size,
                .full_reserve_bytes = s->full_reserve,
                .drive_wait_ms = s->drive_wait,
                .heal_rate = s->heal_rate,
                .scrub_rate = s->scrub_rate,
                .scrub_interval_ms = s->scrub_interval,
                .scrub_period_ms = s->scrub_period,
                .reclaim_rate = s->reclaim_rate,
                .faults = *s->test_faults != '\0' ? s->test_faults : NULL,
        };
}

static void keep_store(struct srv_daemon *d, unsigned number, struct eng_store *store)
{
        const unsigned count = atomic_load(&d->pools.count);

        assert(count < CL_POOLS_MAX);
        d->pools.list[count] = (struct srv_pool_source){.number = number, .store = store};
        atomic_store_explicit(&d->pools.count, count + 1, memory_order_release);
}

int srv_daemon_add_pool(struct srv_daemon *d, unsigned number, const struct eng_leader_link *leader, const struct eng_drive_opener *opener, struct eng_store **out,
                        struct srv_error *error)
{
        struct eng_error why = {""};
        struct eng_options options;
        int rv;

        store_options(d, &options);
        home_options(d->home, leader, opener, &options);
        rv = eng_store_open(&options, out, &why);
        if (rv != 0)
                return srv_fail(error, rv, "pool %u: %s", number, why.text);
        keep_store(d, number, *out);
        eng_store_start(*out);
        return 0;
}

/*
 * All at once: one that still ran would ask its leader and its drives on, while the loops are drained for another. False: as
 * eng_stores_close().
 */
static bool close_stores(struct srv_daemon *d)
{
        struct eng_store *stores[CL_POOLS_MAX];
        const unsigned count = atomic_load(&d->pools.count);
        unsigned i;

        for (i = 0; i < count; i++)
                stores[i] = d->pools.list[i].store;
        return eng_stores_close(stores, count);
}

static int open_store(struct srv_daemon *d, struct srv_error *error)
{
        const struct srv_settings *s = d->settings;
        struct eng_error why = {""};
        struct eng_options options;
        int rv;

        store_options(d, &options);
        if (d->lead != NULL)
                srv_lead_options(d->lead, &options);
        if (d->home != NULL)
                home_options(d->home, d->home->leader, d->home->opener, &options);
        era_md5_limit((unsigned)s->test_md5_lanes);
        rv = eng_store_open(&options, &d->store, &why);
        if (rv != 0)
                return srv_fail(error, rv, "%s", why.text);
        keep_store(d, d->home != NULL ? d->home->pool : 0, d->store);
        if (*eng_store_unused(d->store) != '\0')
                srv_log(SRV_LOG_WARNING, "folders that are not used: %s", eng_store_unused(d->store));
        return 0;
}

/* It is a new store, and of one machine. */
static bool makes_secrets(const struct srv_daemon *d)
{
        return eng_store_formatted(d->store) || (d->settings->format && d->lead == NULL && d->home == NULL);
}

/*
 * Given --format, a start that was cut short between formatting and keeping credentials is
 * completed by the next.
 */
static int load_credentials(struct srv_daemon *d, struct srv_error *error)
{
        return srv_credentials_load(d->settings, makes_secrets(d), &d->credentials,
                                    error);
}

static int open_sealer(struct srv_daemon *d, struct srv_error *error)
{
        d->sealer_open = true;
        return srv_sealer_open(&d->sealer, d->settings, makes_secrets(d), error);
}

int srv_gateway_credentials_set(struct gw_gateway *gateway, const struct srv_credentials *c)
{
        struct gw_credential one;
        int rv;

        memset(&one, 0, sizeof(one));
        memcpy(one.access_key, c->access_key, sizeof(one.access_key));
        memcpy(one.secret_key, c->secret_key, sizeof(one.secret_key));
        rv = gw_credentials_set(gateway, &one, 1);
        explicit_bzero(&one, sizeof(one));
        return rv;
}

/* Gives each loop its socket of a listener. */
static int hand_over_sockets(struct srv_daemon *d, struct srv_listener *listener, bool tls,
                             const struct gw_targets *targets, struct srv_error *error)
{
        unsigned i;
        int rv;

        for (i = 0; i < listener->count; i++) {
                rv = gw_listen(d->gateway, i, listener->fds[i], tls, targets);
                if (rv != 0)
                        return srv_fail(error, rv, "cannot serve %s: %s", listener->text, strerror(-rv));
                listener->fds[i] = -1;
        }
        return 0;
}

static int open_gateway(struct srv_daemon *d, struct srv_error *error)
{
        const struct srv_settings *s = d->settings;
        bool tls = *s->tls_cert != '\0';
        struct gw_options options = {
                .store = d->store,
                .pool = d->home != NULL ? d->home->pool : 0, /* a leader process knows its own pool alone */
                .loops = d->loops.loops,
                .loop_count = d->loops.count,
                .region = s->region,
                .domains = s->domain,
                .website_domains = s->website_domain,
                .website_hosts = s->website_host,
                .presign_v2 = s->presign_v2,
                .tls_priorities = s->tls_priorities,
                .sealer = srv_sealer_of(&d->sealer),
                .rdma = d->rdma,
                .proxies = &d->proxies,
                .limits = {.connections = (srv_descriptors_connections(s, d->loops.count, d->few_connections) + d->loops.count - 1) / d->loops.count,
                           .guests = (unsigned)s->max_unsigned_connections,
                           .idle_ms = s->idle_timeout,
                           .request_ms = s->request_timeout,
                           .min_rate = s->min_rate,
                           .upload_memory = s->upload_memory,
                           .answer_memory = s->answer_memory},
                .access = d->access_log != NULL ? srv_access_log_callback : NULL,
                .access_arg = d->access_log,
        };
        struct gw_oidc oidc;
        char *room;
        int rv;

        rv = srv_networks(&s->proxy, "proxy", &d->proxies, error);
        if (rv != 0)
                return rv;
        rv = srv_oidc(s, &oidc, &room, error);
        if (rv != 0) {
                free(room);
                return rv;
        }
        options.oidc = &oidc;
        rv = gw_new(&options, &d->gateway);
        free(room);
        if (rv == -EINVAL)
                return srv_fail(error, rv, "website_domain, website_host: at most 16 names each, and none that is in domain, too");
        if (rv == 0)
                rv = srv_gateway_credentials_set(d->gateway, &d->credentials);
        if (rv != 0)
                return srv_fail(error, rv, "cannot make the gateway: %s", strerror(-rv));
        if (tls)
                rv = srv_tls_load(s, d->gateway, error);
        if (rv == 0)
                rv = srv_token_gids(&s->rdma_token_gid, "rdma_token_gid", &d->targets, error);
        if (rv == 0)
                rv = srv_token_gids(&s->rdma_token_gid_plain, "rdma_token_gid_plain", &d->plain_targets, error);
        if (rv == 0)
                rv = hand_over_sockets(d, &d->listener, tls, &d->targets, error);
        if (rv == 0)
                rv = hand_over_sockets(d, &d->plain_listener, false, &d->plain_targets, error);
        return rv;
}

/* On a loop, and so behind everything that is opened here. */
static void run_batch(void *arg, struct rdx_batch *batch)
{
        const struct srv_daemon *d = arg;

        gw_rdma_batch(d->gateway, batch);
}

static int open_admin(struct srv_daemon *d, struct srv_error *error)
{
        struct srv_admin_options options = {
                .source = {.store = d->store,
                           .pools = &d->pools,
                           .gateway = d->gateway,
                           .loops = d->loops.loops,
                           .loop_count = d->loops.count,
                           .access_log = d->access_log,
                           .rdma = d->rdma,
                           .switches = d->switches,
                           .forecast = d->forecast,
                           .started_ms = d->started_ms},
                .region = d->settings->region,
                .fd = d->lead != NULL ? -1 : d->admin_listener.fds[0],
                .link = d->home != NULL ? d->home->link : d->lead != NULL ? &d->lead->link : NULL,
                .sessions = d->lead != NULL ? srv_lead_sessions : NULL,
                .sessions_arg = d->lead,
                .pool = d->lead != NULL ? d->lead->spec.pool : 0,
                .ask_leader = d->home != NULL ? d->home->ask_leader : NULL,
                .ask_arg = d->home != NULL ? d->home->arg : NULL,
                .hosts = &d->settings->admin_host,
                .tls = d->settings->admin_tls ? d->gateway : NULL,
                .tls_priorities = d->settings->tls_priorities,
                .settings = d->settings,
        };
        int rv;

        rv = srv_admin_start(&options, &d->credentials, &d->admin);
        if (rv != 0)
                return srv_fail(error, rv, "cannot serve %s: %s", d->admin_listener.text, strerror(-rv));
        if (d->lead != NULL)
                srv_lead_admin(d->lead, d->admin);
        else
                d->admin_listener.fds[0] = -1;
        return 0;
}

/* A node's process has loops for links to other nodes, which run before these and for which these do most of what they do. */
static int start_loops(struct srv_daemon *d, struct srv_error *error)
{
        const struct srv_link *link = d->lead != NULL ? &d->lead->link : d->home != NULL ? d->home->link : NULL;

        return link != NULL ? srv_loops_start_with(&d->loops, &link->loops, error) : srv_loops_start(&d->loops, error);
}

int srv_daemon_open(struct srv_daemon *d, struct srv_error *error)
{
        unsigned loop_count, slots;
        int rv;

        if (d->home == NULL)
                d->signal_fd = srv_signals_open();
        if (d->home == NULL && d->signal_fd < 0)
                return srv_fail(error, d->signal_fd, "cannot receive signals: %s", strerror(-d->signal_fd));
        rv = srv_loops_plan(d->settings, d->home != NULL ? SRV_PART_GATEWAY : *d->settings->lead != '\0' ? SRV_PART_LEADER : SRV_PART_ALL, &loop_count, &slots, error);
        if (rv == 0 && d->home == NULL)
                rv = srv_lead_open(d->settings, &d->lead, error);
        if (d->lead != NULL)
                loop_count = srv_loops_share(loop_count, d->lead->spec.leads);
        if (rv == 0)
                rv = open_listeners(d, loop_count, error);
        if (rv == 0 && *d->settings->access_log != '\0')
                rv = srv_access_log_open(d->settings->access_log, loop_count, &d->access_log, error);
        if (rv == 0 && srv_credentials_from_environment(&d->credentials, error) < 0)
                rv = -EINVAL; /* before anything is formatted */
        if (rv == 0)
                rv = srv_loops_make(loop_count, slots, &d->loops, error);
        if (rv == 0 && d->lead != NULL) /* last of what needs no right to lead */
                rv = srv_lead_claim(d->lead, error);
        if (rv == 0)
                rv = open_store(d, error);
        if (rv == 0 && d->lead != NULL)
                rv = srv_lead_homes(d->lead, d->store, d->loops.loops[0], error);
        if (rv == 0)
                rv = load_credentials(d, error);
        if (rv == 0)
                rv = srv_rdma_open(d->settings, &d->loops, run_batch, d, &d->rdma, error);
        if (rv == 0)
                rv = open_gateway(d, error);
        if (rv == 0)
                rv = open_sealer(d, error); /* the loops, which use it, do not run yet */
        d->forecast = srv_forecast_new((unsigned)d->settings->test_forecast_speed);
        if (rv == 0 && d->forecast == NULL)
                rv = srv_fail(error, -ENOMEM, "out of memory");
        if (rv == 0) {
                rv = d->home != NULL ? srv_switches_of_node(d->settings, d->gateway, &d->switches)
                                     : srv_switches_open(d->settings, d->store, d->gateway, d->lead, &d->switches);
                if (rv != 0)
                        srv_fail(error, rv, "read-only and maintenance cannot be read: %s", strerror(-rv));
        }
        if (rv == 0 && gw_logs_start(d->gateway, d->settings->bucket_log_interval) != 0)
                rv = srv_fail(error, -ENOMEM, "out of memory");
        if (rv == 0 && d->home == NULL && gw_inventory_start(d->gateway, (unsigned)d->settings->test_day_seconds) != 0)
                rv = srv_fail(error, -ENOMEM, "out of memory");
        if (rv == 0 && d->home == NULL && gw_lifecycle_start(d->gateway, (unsigned)d->settings->test_day_seconds) != 0)
                rv = srv_fail(error, -ENOMEM, "out of memory");
        if (rv == 0)
                rv = start_loops(d, error);
        if (rv != 0)
                return rv;
        eng_store_start(d->store);
        rv = open_admin(d, error);
        if (rv == 0 && d->lead != NULL)
                srv_lead_start(d->lead, d->store, d->loops.loops[0]);
        return rv;
}

/* ---- closing --------------------------------------------------------------------------------- */

/*
 * Whatever of it is open. The gateway's requests point into the store, so it goes first, once what
 * the loops were doing for them has ended; what a loop may still hold (messages, operations on
 * buffers) is freed after the loops. False: a thread may still use all that is left; the process is
 * to end at once.
 */
bool srv_daemon_close(struct srv_daemon *d)
{
        if (d->admin != NULL)
                srv_admin_stop(d->admin);
        if (!srv_loops_stop(&d->loops)) {
                srv_log(SRV_LOG_WARNING, "a drive has not come back from what it was asked to read or write: it is not waited for");
                return false;
        }
        if (d->home != NULL && d->home->stopped != NULL && !d->home->stopped(d->home->arg))
                return false;
        if (d->rdma != NULL)
                rdx_server_stop(d->rdma); /* from here on no device touches the arenas (I7) */
        srv_loops_drain(&d->loops);
        if (d->gateway != NULL)
                gw_free(d->gateway);
        srv_loops_drain(&d->loops); /* transfers that requests were still in have let go of what they read */
        if (!close_stores(d)) {
                srv_log(SRV_LOG_WARNING, "a drive has not come back from what it was asked for (to open a file, or to read one): it is not waited for");
                srv_access_log_close(d->access_log);
                return false;
        }
        rdx_server_free(d->rdma);
        if (d->home != NULL && d->home->quiet != NULL)
                d->home->quiet(d->home->arg);
        srv_loops_free(&d->loops);
        srv_admin_free(d->admin);
        srv_switches_free(d->switches);
        srv_forecast_free(d->forecast);
        srv_access_log_close(d->access_log);
        srv_listener_close(&d->listener);
        srv_listener_close(&d->plain_listener);
        srv_listener_close(&d->admin_listener);
        explicit_bzero(&d->credentials, sizeof(d->credentials));
        if (d->sealer_open)
                srv_sealer_close(&d->sealer);
        if (d->signal_fd >= 0)
                close(d->signal_fd);
        return true;
}

enum srv_exit srv_daemon_run(const struct srv_settings *settings)
{
        struct srv_daemon daemon = {.settings = settings, .signal_fd = -1, .started_ms = lp_wall_ms()};
        enum srv_exit status = SRV_EXIT_NOT_STARTED;
        struct srv_error error = {""};

        signal(SIGPIPE, SIG_IGN);
        srv_raise_limits();
        if (srv_daemon_open(&daemon, &error) != 0)
                srv_log(SRV_LOG_ERROR, "%s", error.text);
        else
                status = srv_serve(&daemon);
        if (daemon.lead != NULL) {
                srv_access_log_close(daemon.access_log);
                srv_lead_leave(daemon.lead, (int)status);
        }
        srv_stop_watch_begin(CLOSE_LIMIT_S, (int)status);
        if (!srv_daemon_close(&daemon))
                _exit((int)status);
        srv_stop_watch_end();
        return status;
}
