/*
 * serve.c - the main thread while the daemon serves: signals, health, reloading, draining.
 *
 * It sleeps on a signalfd and looks at health now and then: what changes (ready, a drive that leaves) is said on
 * standard error and to the service manager. It does nothing that a request waits for.
 */
#include "server/daemon.h"

#include "server/daemon_log.h"
#include "server/notify.h"
#include "server/certificate_pair.h"

#include "engine.h"
#include "gateway.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define STARTING_POLL_MS 10   /* until ready */
#define SERVING_POLL_MS  1000 /* health is a copy at most a second old */
#define DRAIN_POLL_MS    10
#define QUIET_START_MS   2000 /* a start shorter than this is not commented */

/* What of health was last said. owner: the main thread */
struct watch {
        struct eng_health *health;
        enum eng_drive_state said[ENG_DRIVES_MAX];
        bool unreliable[ENG_DRIVES_MAX];
        uint64_t unknown[ENG_DRIVES_MAX];
        bool scrub_late[ENG_DRIVES_MAX];
        uint64_t rotten[ENG_DRIVES_MAX]; /* shards that the scrub found damaged */
        uint64_t dropped[ENG_DRIVES_MAX]; /* gaps that it could not remember */
        uint64_t lost; /* number of the last object said to be lost */
        uint64_t told; /* drives that have been told of the switches, as bits */
        bool ready, was_ready, writable;
        char reason[200];
        int64_t started_ms;
};

int srv_signals_open(void)
{
        sigset_t set;
        int fd;

        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGHUP);
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

/* ---- health --------------------------------------------------------------------------------------- */

/* A drive that was away, or is new, may not know which switches are on; nor may one at the start. */
static void tell_drives_of_switches(struct srv_daemon *d, struct watch *w)
{
        uint64_t in = 0;
        unsigned i;

        for (i = 0; i < w->health->drive_count && i < ENG_DRIVES_MAX; i++)
                if (w->health->ready && w->health->drives[i].state == ENG_DRIVE_IN)
                        in |= (uint64_t)1 << i;
        if ((in & ~w->told) != 0)
                srv_switches_spread(d->switches);
        w->told = in;
}

static void say_ready_changes(struct watch *w)
{
        const struct eng_health *h = w->health;

        if (h->ready && !w->ready) {
                if (!w->was_ready && h->ec_m == 0)
                        srv_log(SRV_LOG_WARNING, "the erasure code is %u+0: one lost drive loses objects", h->ec_k);
                srv_log(SRV_LOG_INFO, "ready");
                srv_notify("READY=1\nSTATUS=ready");
                w->was_ready = true;
        }
        if (!h->ready && (w->ready || monotonic_ms() - w->started_ms > QUIET_START_MS) &&
            strcmp(w->reason, h->reason) != 0) {
                srv_log(w->was_ready ? SRV_LOG_ERROR : SRV_LOG_WARNING, "not ready: %s", h->reason);
                strcpy(w->reason, h->reason);
        }
        if (h->ready && w->ready && h->writable != w->writable)
                srv_log(h->writable ? SRV_LOG_INFO : SRV_LOG_ERROR, h->writable ? "writable again" : "not writable: %s",
                        h->reason);
        if (h->ready && !w->ready && !h->writable)
                srv_log(SRV_LOG_ERROR, "not writable: %s", h->reason);
        if (h->ready)
                w->reason[0] = '\0';
        w->ready = h->ready;
        w->writable = h->writable;
}

static void say_drive_changes(struct watch *w)
{
        const struct eng_drive_info *drive;
        unsigned i;

        for (i = 0; i < w->health->drive_count && i < ENG_DRIVES_MAX; i++) {
                drive = &w->health->drives[i];
                if (drive->state == w->said[i])
                        continue;
                w->said[i] = drive->state;
                if (drive->state == ENG_DRIVE_IN)
                        srv_log(SRV_LOG_INFO, "drive %s (%s) is in use", drive->path, drive->id);
                else
                        srv_log(SRV_LOG_ERROR, "drive %s (%s) is %s: %s", *drive->path != '\0' ? drive->path : "?",
                                drive->id, srv_drive_state_name(drive->state), drive->reason);
        }
}

/* A drive that is in use and loses what it holds: the operator is to replace it before it goes altogether. */
static void say_unreliable_drives(struct watch *w)
{
        const struct eng_drive_info *drive;
        unsigned i;

        for (i = 0; i < w->health->drive_count && i < ENG_DRIVES_MAX; i++) {
                drive = &w->health->drives[i];
                if (drive->unreliable && !w->unreliable[i])
                        srv_log(SRV_LOG_ERROR,
                                "drive %s (%s) is unreliable: many places of it could not be read (%llu errors). It is "
                                "read last: replace or remove it",
                                drive->path, drive->id, (unsigned long long)drive->read_errors);
                w->unreliable[i] = drive->unreliable;
        }
}

/* Names that nobody can repair, and that keep orphans from being discarded. */
static void say_unknown_owners(struct watch *w)
{
        const struct eng_drive_info *drive;
        unsigned i;

        for (i = 0; i < w->health->drive_count && i < ENG_DRIVES_MAX; i++) {
                drive = &w->health->drives[i];
                if (drive->unknown_owners > w->unknown[i])
                        srv_log(SRV_LOG_ERROR,
                                "drive %s (%s) has %llu names whose records do not say which shards they have: no shards "
                                "are discarded as unused until they have been overwritten or deleted",
                                drive->path, drive->id, (unsigned long long)drive->unknown_owners);
                w->unknown[i] = drive->unknown_owners;
        }
}

static void say_scrub(struct watch *w)
{
        const struct eng_drive_info *drive;
        unsigned i;

        for (i = 0; i < w->health->drive_count && i < ENG_DRIVES_MAX; i++) {
                drive = &w->health->drives[i];
                if (drive->scrub.damaged > w->rotten[i])
                        srv_log(SRV_LOG_WARNING, "drive %s (%s): the scrub has found %llu damaged shards since it was opened", drive->path,
                                drive->id, (unsigned long long)drive->scrub.damaged);
                if (drive->scrub.late && !w->scrub_late[i])
                        srv_log(SRV_LOG_WARNING,
                                "drive %s (%s): the scrub takes longer than scrub_period: %llu of %llu bytes so far. Raise "
                                "scrub_rate, or the period",
                                drive->path, drive->id, (unsigned long long)drive->scrub.bytes,
                                (unsigned long long)drive->scrub.total);
                if (drive->scrub.gaps_dropped > w->dropped[i])
                        srv_log(SRV_LOG_WARNING,
                                "drive %s (%s): the scrub has found %llu more places than can be remembered of which nobody can tell what stood there. "
                                "Names are compared, and another round begins behind that",
                                drive->path, drive->id, (unsigned long long)drive->scrub.gaps_dropped);
                w->dropped[i] = drive->scrub.gaps_dropped;
                w->rotten[i] = drive->scrub.damaged;
                w->scrub_late[i] = drive->scrub.late;
        }
}

/* Each walk that meets one says it again: nothing but its owner can help it. */
static void say_lost_objects(struct srv_daemon *d, struct watch *w)
{
        struct eng_lost_object *lost = malloc(sizeof(*lost));
        unsigned i;

        while (lost != NULL && eng_lost_object_next(d->store, &w->lost, lost)) {
                for (i = 0; i < lost->key_len; i++)
                        if ((unsigned char)lost->key[i] < ' ' || lost->key[i] == 0x7f)
                                lost->key[i] = '?';
                srv_log(SRV_LOG_ERROR,
                        "object %s/%.*s is lost: of one of its stripes at least, more shards are gone than parity makes good for. All others "
                        "were repaired. Put it anew, or delete it",
                        lost->bucket, (int)lost->key_len, lost->key);
        }
        free(lost);
}

/* Drives are compared with "in use" from the moment the store is ready; before that they are still being looked at. */
static void watch_health(struct srv_daemon *d, struct watch *w)
{
        eng_health_read(d->store, w->health);
        if (w->health->ready || w->was_ready)
                say_drive_changes(w);
        say_unreliable_drives(w);
        say_unknown_owners(w);
        say_scrub(w);
        say_lost_objects(d, w);
        say_ready_changes(w);
        tell_drives_of_switches(d, w);
        srv_forecast_look(d->forecast, w->health);
}

/* ---- reloading ------------------------------------------------------------------------------------ */

static void reload_credentials(struct srv_daemon *d)
{
        struct srv_credentials fresh;
        struct srv_error error;

        if (srv_credentials_load(d->settings, false, &fresh, &error) != 0) {
                srv_log(SRV_LOG_ERROR, "credentials stay as they are: %s", error.text);
                return;
        }
        if (srv_gateway_credentials_set(d->gateway, &fresh) == 0) {
                srv_admin_credentials_set(d->admin, &fresh);
                d->credentials = fresh;
        } else {
                srv_log(SRV_LOG_ERROR, "credentials stay as they are: out of memory");
        }
        explicit_bzero(&fresh, sizeof(fresh));
}

static void reload(struct srv_daemon *d)
{
        struct srv_error error;

        srv_notify_reloading();
        if (d->access_log != NULL)
                srv_access_log_reopen(d->access_log);
        reload_credentials(d);
        if (*d->settings->tls_cert != '\0' && srv_tls_load(d->settings, d->gateway, &error) != 0)
                srv_log(SRV_LOG_ERROR, "the certificate stays as it is: %s", error.text);
        srv_log(SRV_LOG_INFO, "reloaded");
        srv_notify("READY=1");
}

/* ---- draining ------------------------------------------------------------------------------------- */

/* Waits for the requests that run, within the time set; a second signal ends the waiting. */
static void drain_requests(struct srv_daemon *d)
{
        int64_t until = monotonic_ms() + (int64_t)d->settings->drain_timeout;
        unsigned active;
        int signo;

        srv_notify("STOPPING=1");
        srv_log(SRV_LOG_INFO, "stopping");
        srv_admin_draining(d->admin);
        gw_drain(d->gateway);
        while ((active = gw_active(d->gateway)) > 0 && monotonic_ms() < until) {
                signo = wait_signal(d->signal_fd, DRAIN_POLL_MS);
                if (signo == SIGTERM || signo == SIGINT)
                        break;
        }
        if (active > 0)
                srv_log(SRV_LOG_WARNING, "stopped; requests not finished: %u", active);
}

/* ---- serving -------------------------------------------------------------------------------------- */

static void say_addresses(const struct srv_daemon *d)
{
        if (d->few_connections[0] != '\0')
                srv_log(SRV_LOG_WARNING, "%s", d->few_connections);
        srv_log(SRV_LOG_INFO, "listening on %s%s", d->listener.text, *d->settings->tls_cert != '\0' ? " (TLS)" : "");
        if (d->plain_listener.count > 0)
                srv_log(SRV_LOG_INFO, "listening on %s", d->plain_listener.text);
        srv_log(SRV_LOG_INFO, "admin on %s%s", d->admin_listener.text, d->settings->admin_tls ? " (TLS)" : "");
        srv_rdma_say(d->settings, d->rdma);
}

enum srv_exit srv_serve(struct srv_daemon *d)
{
        struct watch watch = {.started_ms = monotonic_ms()};
        enum srv_exit status = SRV_EXIT_DRAINED;
        int signo = 0, failed = 0;

        watch.health = calloc(1, sizeof(*watch.health));
        if (watch.health == NULL)
                return SRV_EXIT_FAILED;
        say_addresses(d);
        while (signo != SIGTERM && signo != SIGINT && failed == 0) {
                watch_health(d, &watch);
                signo = wait_signal(d->signal_fd, watch.ready ? SERVING_POLL_MS : STARTING_POLL_MS);
                if (signo == SIGHUP)
                        reload(d);
                failed = srv_loops_failed(&d->loops);
        }
        if (failed != 0) {
                srv_log(SRV_LOG_ERROR, "an event loop has failed: %s", strerror(-failed));
                status = SRV_EXIT_FAILED;
        } else {
                drain_requests(d);
        }
        free(watch.health);
        return status;
}
