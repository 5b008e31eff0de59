/*
 * serve.c - the main thread while the daemon serves: signals, health, reloading, draining.
 *
 * It sleeps on a signalfd and looks at health now and then: health_log.c says what has changed. It
 * does nothing that a request waits for.
 */
#include "server/daemon.h"

#include "server/daemon_log.h"
#include "server/health_log.h"
#include "server/notify.h"
#include "server/certificate_pair.h"

#include "engine.h"
#include "gateway.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define STARTING_POLL_MS 10   /* until ready */
#define SERVING_POLL_MS  1000 /* health is a copy at most a second old */
#define DRAIN_POLL_MS    10
#define BUCKET_LOGS_MS   10000
#define LOCK_KEEP_S      3    /* for the lock clock's mark, at the end */

void srv_signals(sigset_t *out)
{
        sigemptyset(out);
        sigaddset(out, SIGTERM);
        sigaddset(out, SIGINT);
        sigaddset(out, SIGHUP);
        sigaddset(out, SIGCHLD);
}

int srv_signals_open(void)
{
        sigset_t set;
        int fd;

        srv_signals(&set);
        if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
                return -EINVAL;
        fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return fd >= 0 ? fd : -errno;
}

/* The next signal that came, or 0 when none did in timeout_ms. */
static int wait_signal(int fd, int timeout_ms)
{
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        struct signalfd_siginfo info;

        if (poll(&poll_fd, 1, timeout_ms) <= 0)
                return 0;
        return read(fd, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}

static int64_t monotonic_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * A drive that was away, or is new, may not know which switches are on; nor may one at the start.
 * told: as bits, those that were told.
 */
static void tell_drives_of_switches(struct srv_daemon *d, const struct eng_health *health, uint64_t *told)
{
        uint64_t in = 0;
        unsigned i;

        for (i = 0; i < health->drive_count && i < ENG_DRIVES_MAX; i++)
                if (health->ready && health->drives[i].state == ENG_DRIVE_IN)
                        in |= (uint64_t)1 << i;
        if ((in & ~*told) != 0)
                srv_switches_spread(d->switches);
        *told = in;
}

/* What etcd says of switches counts for all pools; the first one's leader has set them itself. */
static void keep_leading(struct srv_daemon *d, const struct eng_health *health)
{
        char switches[CL_SWITCHES_MAX];

        srv_lead_keep(d->lead, health);
        if (!srv_lead_is_first(d->lead) && srv_lead_switches(d->lead, switches))
                srv_switches_follow(d->switches, switches);
}

/* ---- reloading ------------------------------------------------------------------------------- */

static void reload_credentials(struct srv_daemon *d)
{
        struct srv_credentials fresh;
        struct srv_error error;

        if (srv_credentials_load(d->settings, false, &fresh, &error) != 0) {
                srv_log(SRV_LOG_ERROR, "credentials stay as they are: %s", error.text);
                return;
        }
        if (srv_gateway_credentials_set(d->gateway, &fresh) == 0) {
                if (d->admin != NULL)
                        srv_admin_credentials_set(d->admin, &fresh);
                d->credentials = fresh;
        } else {
                srv_log(SRV_LOG_ERROR, "credentials stay as they are: out of memory");
        }
        explicit_bzero(&fresh, sizeof(fresh));
}

void srv_daemon_reload(struct srv_daemon *d)
{
        struct srv_error error;

        if (d->home == NULL) /* else the node process does */
                srv_notify_reloading();
        if (d->access_log != NULL)
                srv_access_log_reopen(d->access_log);
        srv_sealer_reload(&d->sealer, d->settings);
        reload_credentials(d);
        if (d->lead != NULL)
                srv_lead_reload(d->lead);
        if (*d->settings->tls_cert != '\0' && srv_tls_load(d->settings, d->gateway, &error) != 0)
                srv_log(SRV_LOG_ERROR, "the certificate stays as it is: %s", error.text);
        if (d->home == NULL) {
                srv_log(SRV_LOG_INFO, "reloaded");
                srv_notify("READY=1");
        }
}

/* ---- draining -------------------------------------------------------------------------------- */

/* Waits for the requests that run, within the time set; a signal to end ends the waiting: that signal, or 0. */
static int drain_requests(struct srv_daemon *d, bool waits)
{
        int64_t until = monotonic_ms() + (waits ? (int64_t)d->settings->drain_timeout : 0);
        unsigned active;
        int signo = 0;

        if (d->lead == NULL && d->home == NULL) /* else the node may go on, and the node process says it */
                srv_notify("STOPPING=1");
        srv_log(SRV_LOG_INFO, "stopping");
        if (d->admin != NULL)
                srv_admin_draining(d->admin);
        gw_drain(d->gateway);
        while ((active = gw_active(d->gateway)) > 0 && monotonic_ms() < until && signo != SIGTERM && signo != SIGINT)
                signo = wait_signal(d->signal_fd, DRAIN_POLL_MS);
        if (active > 0)
                srv_log(SRV_LOG_WARNING, "stopped; requests not finished: %u", active);
        return signo == SIGTERM || signo == SIGINT ? signo : 0;
}

/* Access logs of buckets are in memory until they are written: best effort, for so long. */
static void flush_bucket_logs(struct srv_daemon *d)
{
        int64_t until = monotonic_ms() + BUCKET_LOGS_MS;

        gw_logs_flush(d->gateway);
        while (gw_logs_pending(d->gateway) > 0 && monotonic_ms() < until)
                poll(NULL, 0, DRAIN_POLL_MS);
        if (gw_logs_pending(d->gateway) > 0)
                srv_log(SRV_LOG_WARNING, "access logs of buckets could not all be written, and are lost");
}

int srv_daemon_drain(struct srv_daemon *d, bool waits)
{
        int signo = drain_requests(d, waits);

        flush_bucket_logs(d);
        return signo;
}

/* ---- the lock clock -------------------------------------------------------------------------- */

/* Static: an answer that comes late finds it still there. owner: the loop from the message to done */
static struct lock_keeping {
        struct lp_msg msg;
        struct eng_store *store;
        sem_t done;
} lock_keeping;

static void lock_kept(void *arg, int rv)
{
        struct lock_keeping *keeping = arg;

        sem_post(&keeping->done); /* the mark of some minutes ago does as well */
}

static void lock_keep_start(struct lp_msg *msg)
{
        struct lock_keeping *keeping = (struct lock_keeping *)msg;

        eng_lock_keep(keeping->store, lock_kept, keeping);
}

/* How far the lock clock has come is on the drives when the store is closed. */
static void keep_lock_clock(struct srv_daemon *d)
{
        struct timespec until;

        lock_keeping = (struct lock_keeping){.msg = {.run = lock_keep_start}, .store = d->store};
        if (sem_init(&lock_keeping.done, 0, 0) != 0 || clock_gettime(CLOCK_MONOTONIC, &until) != 0)
                return;
        until.tv_sec += LOCK_KEEP_S;
        lp_post(d->loops.loops[0], &lock_keeping.msg);
        while (sem_clockwait(&lock_keeping.done, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR)
                ;
}

/* ---- serving --------------------------------------------------------------------------------- */

static void say_addresses(const struct srv_daemon *d)
{
        if (d->few_connections[0] != '\0')
                srv_log(SRV_LOG_WARNING, "%s", d->few_connections);
        if (d->listener.count > 0)
                srv_log(SRV_LOG_INFO, "listening on %s%s", d->listener.text, *d->settings->tls_cert != '\0' ? " (TLS)" : "");
        if (d->plain_listener.count > 0)
                srv_log(SRV_LOG_INFO, "listening on %s", d->plain_listener.text);
        if (d->admin_listener.count > 0)
                srv_log(SRV_LOG_INFO, "admin on %s%s", d->admin_listener.text, d->settings->admin_tls ? " (TLS)" : "");
        srv_rdma_say(d->settings, d->rdma);
}

enum srv_exit srv_serve(struct srv_daemon *d)
{
        struct srv_health_log *watch = srv_health_log_open(0);
        enum srv_exit status = SRV_EXIT_DRAINED;
        int signo = 0, failed = 0;
        const struct eng_health *health;
        uint64_t told = 0;

        if (watch == NULL)
                return SRV_EXIT_FAILED;
        say_addresses(d);
        while (signo != SIGTERM && signo != SIGINT && failed == 0) {
                health = srv_health_log_look(watch, d->store, d->gateway);
                tell_drives_of_switches(d, health, &told);
                srv_forecast_look(d->forecast, health);
                if (d->lead != NULL)
                        keep_leading(d, health);
                signo = wait_signal(d->signal_fd, health->ready ? SERVING_POLL_MS : STARTING_POLL_MS);
                if (signo == SIGHUP)
                        srv_daemon_reload(d);
                failed = srv_loops_failed(&d->loops);
        }
        if (failed != 0) {
                srv_log(SRV_LOG_ERROR, "an event loop has failed: %s", strerror(-failed));
                status = SRV_EXIT_FAILED;
        } else {
                srv_daemon_drain(d, true);
                keep_lock_clock(d);
        }
        srv_health_log_close(watch);
        return status;
}
