/*
 * gateway.c - the gateway's life: its share of each loop, its listeners, draining.
 *
 * libmicrohttpd's daemons are driven from the loops: the daemon's epoll descriptor is watched, and
 * a hook runs each daemon that has something to do before the loop sleeps, for at most as long as
 * the library's own next timeout.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "gateway/http/budget.h"
#include "gateway/http/users.h"
#include "gateway/http/http_request.h"

#define DEFAULT(value, fallback) ((value) != 0 ? (value) : (fallback))

/* ---- driving the daemons --------------------------------------------------------------------- */

static void daemon_ready(struct lp_watch *watch, uint32_t events)
{
        struct gw_listener *listener = container_of(watch, struct gw_listener, watch);

        listener->due = true;
}

/* Runs one daemon; how long it may be left alone then, in nanoseconds. */
static uint64_t run_daemon(struct gw_listener *listener)
{
        MHD_UNSIGNED_LONG_LONG ms;

        if (listener->due) {
                listener->due = false;
                gw_tls_serve(listener->loop->gw);
                MHD_run(listener->daemon);
        }
        if (listener->due)
                return 0; /* a request was woken while it ran */
        if (MHD_get_timeout(listener->daemon, &ms) != MHD_YES)
                return UINT64_MAX;
        if (ms == 0)
                listener->due = true;
        return ms * 1000000ull;
}

static uint64_t before_sleep(struct lp_hook *hook)
{
        struct gw_loop *loop = container_of(hook, struct gw_loop, hook);
        uint64_t longest = UINT64_MAX, asked;
        struct gw_listener *listener;

        gw_answers_serve(loop);
        SLIST_FOREACH(listener, &loop->listeners, next)
        {
                if (listener->timeout_ns != 0 && gw_clock_ns() >= listener->timeout_ns)
                        listener->due = true;
                asked = run_daemon(listener);
                listener->timeout_ns = asked == UINT64_MAX ? 0 : gw_clock_ns() + asked;
                longest = asked < longest ? asked : longest;
        }
        return longest;
}

int gw_listen(struct gw_gateway *gw, unsigned loop, int fd, bool tls, const struct gw_targets *targets)
{
        struct gw_listener *listener = calloc(1, sizeof(*listener));
        const union MHD_DaemonInfo *info;
        int rv;

        if (listener == NULL)
                return -ENOMEM;
        listener->loop = &gw->loops[loop];
        listener->accept.fd = fd;
        listener->tls = tls;
        listener->targets = targets;
        listener->daemon = gw_http_daemon(listener);
        if (listener->daemon == NULL) {
                free(listener);
                return -EINVAL;
        }
        info = MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        listener->watch.fd = info->epoll_fd;
        listener->watch.ready = daemon_ready;
        listener->due = true;
        rv = lp_watch_add(listener->loop->lp, &listener->watch, EPOLLIN);
        if (rv == 0)
                rv = gw_accept_resume(listener);
        if (rv != 0) {
                MHD_stop_daemon(listener->daemon);
                free(listener);
                return rv;
        }
        if (!listener->loop->sweep_armed)
                gw_sweep_start(listener->loop);
        SLIST_INSERT_HEAD(&listener->loop->listeners, listener, next);
        return 0;
}

/* ---- draining -------------------------------------------------------------------------------- */

static void drain_loop(struct lp_msg *msg)
{
        struct gw_loop *loop = container_of(msg, struct gw_loop, drain_msg);
        struct gw_listener *listener;
        struct gw_conn *conn;

        loop->draining = true;
        SLIST_FOREACH(listener, &loop->listeners, next)
        {
                gw_accept_end(listener);
                listener->due = true;
        }
        LIST_FOREACH(conn, &loop->conns, entry)
                if (conn->request == NULL)
                        gw_conn_cut(conn);
}

void gw_drain(struct gw_gateway *gw)
{
        unsigned i;

        if (atomic_exchange(&gw->drain, true))
                return;
        for (i = 0; i < gw->loop_count; i++) {
                gw->loops[i].drain_msg.run = drain_loop;
                lp_post(gw->loops[i].lp, &gw->loops[i].drain_msg);
        }
}

/* ---- switches -------------------------------------------------------------------------------- */

/*
 * Behind the store, gw_changing() counts everybody whom the old value let in: see
 * is_permitted_request() of head.c.
 */
void gw_read_only(struct gw_gateway *gw, bool on)
{
        atomic_store(&gw->read_only, on);
}

void gw_shed(struct gw_gateway *gw, bool on)
{
        atomic_store(&gw->shedding, on);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* False: not all of them have room. */
static bool take_domains(struct gw_domains *domains, const char *text)
{
        char *rest = domains->text, *one;
        int len = snprintf(domains->text, sizeof(domains->text), "%s", text != NULL ? text : "");

        while ((one = strsep(&rest, ",")) != NULL) {
                struct s3_str domain = s3_str_trim(s3_str_of(one));

                if (domain.len > 0 && domains->count == GW_DOMAINS_MAX)
                        return false;
                if (domain.len > 0)
                        domains->list[domains->count++] = domain;
        }
        return len >= 0 && (size_t)len < sizeof(domains->text);
}

static bool domains_have(const struct gw_domains *domains, struct s3_str name)
{
        for (unsigned i = 0; i < domains->count; i++)
                if (s3_str_eq_nocase(domains->list[i], name))
                        return true;
        return false;
}

/* The hosts of websites are those of nothing else. */
static bool take_site_hosts(struct gw_gateway *gw, const char *domains, const char *hosts)
{
        if (!take_domains(&gw->site_domains, domains) || !take_domains(&gw->site_hosts, hosts))
                return false;
        for (unsigned i = 0; i < gw->domains.count; i++)
                if (domains_have(&gw->site_domains, gw->domains.list[i]) || domains_have(&gw->site_hosts, gw->domains.list[i]))
                        return false;
        return true;
}

static void take_limits(struct gw_gateway *gw, const struct gw_limits *l)
{
        uint64_t quarter;

        gw->limits.connections = DEFAULT(l->connections, 5000);
        quarter = (uint64_t)gw->limits.connections * gw->loop_count / 4;
        gw->limits.guests = DEFAULT(l->guests, quarter > GW_GUESTS_LEAST ? (unsigned)quarter : GW_GUESTS_LEAST);
        gw->limits.idle_ms = DEFAULT(l->idle_ms, 60000);
        gw->limits.request_ms = DEFAULT(l->request_ms, 30000);
        gw->limits.min_rate = DEFAULT(l->min_rate, 16 << 10);
        gw->limits.upload_memory = DEFAULT(l->upload_memory, 256 << 20);
        gw->limits.answer_memory = DEFAULT(l->answer_memory, 64 << 20);
}

/*
 * Ids that stay the same for a gateway: the owner's canonical id, and the name of this host in
 * answers.
 */
static void make_ids(struct gw_gateway *gw)
{
        uint8_t digest[ERA_DIGEST_MAX], random[24];

        era_digest_of(ERA_SHA256, "millrace root", 13, digest);
        s3_hex_encode(digest, 32, gw->owner_id);
        lp_random(random, sizeof(random));
        s3_base64_encode(random, sizeof(random), gw->host_id);
}

static void init_loop(struct gw_gateway *gw, unsigned i, struct lp_loop *lp)
{
        struct gw_loop *loop = &gw->loops[i];

        loop->gw = gw;
        loop->lp = lp;
        loop->index = i;
        SLIST_INIT(&loop->listeners);
        LIST_INIT(&loop->conns);
        LIST_INIT(&loop->lingers);
        STAILQ_INIT(&loop->spare);
        STAILQ_INIT(&loop->left);
        STAILQ_INIT(&loop->line);
        gw_guests_start(loop);
        lp_random(&loop->next_id, sizeof(loop->next_id));
        loop->hook.before_sleep = before_sleep;
        lp_hook_add(lp, &loop->hook);
}

/* The newest of the process, for a debugger (tools/gdb/millrace.py); nothing here reads it. */
static struct gw_gateway *volatile for_debuggers __attribute__((used));

int gw_site_new(const struct gw_options *options, const struct gw_service *service, struct gw_gateway **out)
{
        struct gw_gateway *gw = calloc(1, sizeof(*gw));
        bool sites_fine;
        unsigned i;

        if (gw == NULL)
                return -ENOMEM;
        gw->loops = calloc(options->loop_count, sizeof(gw->loops[0]));
        if (gw->loops == NULL) {
                free(gw);
                return -ENOMEM;
        }
        pthread_mutex_init(&gw->lock, NULL);
        gw->service = service;
        gw->started_ns = gw_clock_ns();
        gw_pools_init(gw, options->pool, options->store);
        gw->sealer = options->sealer;
        gw->rdma = options->rdma;
        gw->proxies = options->proxies;
        gw_guests_init(&gw->guests);
        gw->loop_count = options->loop_count;
        gw->access = options->access;
        gw->access_arg = options->access_arg;
        gw->tls_priorities = options->tls_priorities != NULL ? options->tls_priorities : GW_TLS_PRIORITIES;
        snprintf(gw->region, sizeof(gw->region), "%s", options->region != NULL ? options->region : "us-east-1");
        take_domains(&gw->domains, options->domains); /* those that have no room were never taken */
        sites_fine = take_site_hosts(gw, options->website_domains, options->website_hosts);
        gw->presign_v2 = options->presign_v2;
        take_limits(gw, &options->limits);
        make_ids(gw);
        for (i = 0; i < gw->loop_count; i++)
                init_loop(gw, i, options->loops[i]);
        for_debuggers = gw;
        if (!sites_fine) {
                gw_free(gw);
                return -EINVAL;
        }
        *out = gw;
        return 0;
}

/*
 * Requests the loops were stopped around: their connections are closed. Where the engine was asked
 * for something it may still come back: that request is left in memory, as an orphan, for its
 * callback to find.
 */
static void abandon_requests(struct gw_loop *loop)
{
        struct gw_conn *conn;

        LIST_FOREACH(conn, &loop->conns, entry) {
                struct gw_request *req = conn->request;

                if (req == NULL)
                        continue;
                req->orphan = req->state == GW_RUN || req->state == GW_BEGIN;
                req->peer_gone = true;
                gw_request_release(req);
                gw_request_move(req, GW_GONE);
                gw_request_wake(req);
        }
}

/* On its loop: uploads that are given up have the engine discard what they wrote. */
static void gateway_loop_free(struct gw_loop *loop)
{
        struct gw_gateway *gw = loop->gw;
        struct lp_loop *before = lp_become(loop->lp);
        struct gw_listener *listener;
        struct gw_request *req;

        lp_timer_stop(loop->lp, &loop->sweep);
        abandon_requests(loop);
        while ((listener = SLIST_FIRST(&loop->listeners)) != NULL) {
                SLIST_REMOVE_HEAD(&loop->listeners, next);
                gw_accept_end(listener);
                lp_watch_remove(loop->lp, &listener->watch);
                MHD_run(listener->daemon); /* what was woken leaves the library's list of the suspended */
                MHD_stop_daemon(listener->daemon);
                free(listener);
        }
        gw_requests_abandon(loop);
        gw->service->loop_end(loop);
        gw_linger_free_all(loop); /* after the daemons, whose closing connections may leave some */
        while ((req = STAILQ_FIRST(&loop->spare)) != NULL) {
                STAILQ_REMOVE_HEAD(&loop->spare, spare);
                free(req);
        }
        gw_digests_free(&loop->digests);
        gw_credentials_put(loop->credentials);
        lp_become(before);
}

void gw_free(struct gw_gateway *gw)
{
        unsigned i;

        if (gw == NULL)
                return;
        gw->ending = true;
        for (i = 0; i < gw->loop_count; i++)
                lp_loop_drain(gw->loops[i].lp); /* a drain message that was not run yet */
        for (i = 0; i < gw->loop_count; i++)
                gateway_loop_free(&gw->loops[i]);
        gw_tls_free(gw);
        gw_guests_free(&gw->guests);
        gw_credentials_put(gw->credentials);
        pthread_mutex_destroy(&gw->lock);
        free(gw->loops);
        free(gw);
}
