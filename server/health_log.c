/*
 * health_log.c - what has changed in the store's state, as lines of the daemon's log.
 *
 * Each function compares what health says now with what was last said, and remembers what it says.
 * Counters are kept as they were when they were last said: what a line says is what has happened
 * since the line before.
 */
#include "server/health_log.h"

#include "server/daemon_log.h"
#include "server/metrics.h"
#include "server/notify.h"

#include "gateway.h"
#include "loop.h"
#include "s3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_START_MS 2000 /* a start shorter than this is not commented */

/* Kinds of lines that come at most once in SRV_HEALTH_LOG_PACE_MS. */
enum line { LINE_EPOCH, LINE_REPAIR, LINE_ORPHANS, LINE_SCRUB, LINE_RECLAIM, LINES };

/* owner: the main thread */
struct srv_health_log {
        struct eng_health *health;            /* where srv_health_log_look() reads to */
        enum eng_drive_state said[ENG_DRIVES_MAX];
        bool unreliable[ENG_DRIVES_MAX];
        uint64_t unknown[ENG_DRIVES_MAX];
        bool scrub_late[ENG_DRIVES_MAX];
        uint64_t rotten[ENG_DRIVES_MAX];      /* shards that the scrub found damaged */
        uint64_t dropped[ENG_DRIVES_MAX];     /* gaps that it could not remember */
        int64_t scrub_started[ENG_DRIVES_MAX]; /* of the round that was last said to have begun */
        int64_t scrub_ended[ENG_DRIVES_MAX];
        uint64_t freed[ENG_DRIVES_MAX], copied[ENG_DRIVES_MAX]; /* bytes that reclaim has */
        int64_t next_ms[LINES][ENG_DRIVES_MAX]; /* before then, no line of this kind; of the store: slot 0 */
        uint64_t lost;                        /* number of the last object said to be lost */
        uint64_t epoch;
        uint64_t orphans;
        int64_t repair_ended_ms;
        uint64_t below;                       /* objects said to lack shards */
        bool ready, was_ready, writable;
        bool frozen;                          /* the lock clock */
        int64_t confirmed_ms;                 /* what it was set to, of the confirmation that was last said */
        char reason[200];
        int64_t started_ms;
        unsigned pool;                        /* that its lines name; 0: none */
};

/* Whether a line of this kind may come now; the next one may a minute later. */
static bool may_say(struct srv_health_log *log, enum line line, unsigned slot, int64_t now_ms)
{
        if (now_ms < log->next_ms[line][slot])
                return false;
        log->next_ms[line][slot] = now_ms + SRV_HEALTH_LOG_PACE_MS;
        return true;
}

static void say_ready_changes(struct srv_health_log *log, const struct eng_health *h, int64_t now_ms)
{
        if (h->ready && !log->ready) {
                if (!log->was_ready && h->ec_m == 0)
                        srv_log(SRV_LOG_WARNING, "the erasure code is %u+0: one lost drive loses objects", h->ec_k);
                if (!log->was_ready)
                        srv_log(SRV_LOG_INFO, "recovery has ended after %.1f s: epoch %llu, %u of %u drives are members, %llu records completed",
                                (double)(now_ms - log->started_ms) / 1000, (unsigned long long)h->epoch, h->drives_in,
                                h->drive_count - h->drives_removed, (unsigned long long)h->reconciled_records);
                srv_log(SRV_LOG_INFO, "ready");
                log->epoch = h->epoch;
                srv_notify("READY=1\nSTATUS=ready");
                log->was_ready = true;
        }
        if (!h->ready && (log->ready || now_ms - log->started_ms > QUIET_START_MS) &&
            strcmp(log->reason, h->reason) != 0) {
                srv_log(log->was_ready ? SRV_LOG_ERROR : SRV_LOG_WARNING, "not ready: %s", h->reason);
                strcpy(log->reason, h->reason);
        }
        if (h->ready && log->ready && h->writable != log->writable)
                srv_log(h->writable ? SRV_LOG_INFO : SRV_LOG_ERROR, h->writable ? "writable again" : "not writable: %s",
                        h->reason);
        if (h->ready && !log->ready && !h->writable)
                srv_log(SRV_LOG_ERROR, "not writable: %s", h->reason);
        if (h->ready)
                log->reason[0] = '\0';
        log->ready = h->ready;
        log->writable = h->writable;
}

static void say_drive_changes(struct srv_health_log *log, const struct eng_health *h)
{
        const struct eng_drive_info *drive;
        unsigned i;

        for (i = 0; i < h->drive_count && i < ENG_DRIVES_MAX; i++) {
                drive = &h->drives[i];
                if (drive->state == log->said[i])
                        continue;
                log->said[i] = drive->state;
                if (drive->state == ENG_DRIVE_IN)
                        srv_log(SRV_LOG_INFO, "drive %s (%s) is in use", drive->path, drive->id);
                else if (drive->state == ENG_DRIVE_JOINING)
                        srv_log(SRV_LOG_INFO, "drive %s (%s) catches up: it is written to, and compared with the others", drive->path, drive->id);
                else
                        srv_log(SRV_LOG_ERROR, "drive %s (%s) is %s: %s", *drive->path != '\0' ? drive->path : "?",
                                drive->id, srv_drive_state_name(drive->state), drive->reason);
        }
}

/*
 * A drive that is in use and loses what it holds: the operator is to replace it before it goes
 * altogether.
 */
static void say_unreliable_drives(struct srv_health_log *log, const struct eng_health *h)
{
        const struct eng_drive_info *drive;
        unsigned i;

        for (i = 0; i < h->drive_count && i < ENG_DRIVES_MAX; i++) {
                drive = &h->drives[i];
                if (drive->unreliable && !log->unreliable[i])
                        srv_log(SRV_LOG_ERROR,
                                "drive %s (%s) is unreliable: many places of it could not be read (%llu errors). It is "
                                "read last: replace or remove it",
                                drive->path, drive->id, (unsigned long long)drive->read_errors);
                log->unreliable[i] = drive->unreliable;
        }
}

/* Names that nobody can repair, and that keep orphans from being discarded. */
static void say_unknown_owners(struct srv_health_log *log, const struct eng_health *h)
{
        const struct eng_drive_info *drive;
        unsigned i;

        for (i = 0; i < h->drive_count && i < ENG_DRIVES_MAX; i++) {
                drive = &h->drives[i];
                if (drive->unknown_owners > log->unknown[i])
                        srv_log(SRV_LOG_ERROR,
                                "drive %s (%s) has %llu names whose records do not say which shards they have: no shards "
                                "are discarded as unused until they have been overwritten or deleted",
                                drive->path, drive->id, (unsigned long long)drive->unknown_owners);
                log->unknown[i] = drive->unknown_owners;
        }
}

static void say_scrub(struct srv_health_log *log, const struct eng_health *h)
{
        const struct eng_drive_info *drive;
        unsigned i;

        for (i = 0; i < h->drive_count && i < ENG_DRIVES_MAX; i++) {
                drive = &h->drives[i];
                if (drive->scrub.damaged > log->rotten[i])
                        srv_log(SRV_LOG_WARNING, "drive %s (%s): the scrub has found %llu damaged shards since it was opened", drive->path,
                                drive->id, (unsigned long long)drive->scrub.damaged);
                if (drive->scrub.late && !log->scrub_late[i])
                        srv_log(SRV_LOG_WARNING,
                                "drive %s (%s): the scrub takes longer than scrub_period: %llu of %llu bytes so far. Raise "
                                "scrub_rate, or the period",
                                drive->path, drive->id, (unsigned long long)drive->scrub.bytes,
                                (unsigned long long)drive->scrub.total);
                if (drive->scrub.gaps_dropped > log->dropped[i])
                        srv_log(SRV_LOG_WARNING,
                                "drive %s (%s): the scrub has found %llu more places than can be remembered of which nobody can tell what stood there. "
                                "Names are compared, and another round begins behind that",
                                drive->path, drive->id, (unsigned long long)drive->scrub.gaps_dropped);
                log->dropped[i] = drive->scrub.gaps_dropped;
                log->rotten[i] = drive->scrub.damaged;
                log->scrub_late[i] = drive->scrub.late;
        }
}

/* Each walk that meets one says it again: nothing but its owner can help it. */
static void say_lost_objects(struct srv_health_log *log, struct eng_store *store)
{
        struct eng_lost_object *lost = malloc(sizeof(*lost));
        unsigned i;

        while (lost != NULL && eng_lost_object_next(store, &log->lost, lost)) {
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

/* Sets of members, each of which all of its members have written down. */
static void say_epoch(struct srv_health_log *log, const struct eng_health *h, int64_t now_ms)
{
        if (!h->ready || h->epoch == log->epoch || !may_say(log, LINE_EPOCH, 0, now_ms))
                return;
        srv_log(SRV_LOG_INFO, "epoch %llu is in force: %u of %u drives are members", (unsigned long long)h->epoch, h->drives_in,
                h->drive_count - h->drives_removed);
        log->epoch = h->epoch;
}

static void say_repair(struct srv_health_log *log, const struct eng_health *h, const struct eng_heal_report *last, int64_t now_ms)
{
        bool ended = last->ended_ms != log->repair_ended_ms && last->ended_ms != 0;

        if (h->objects_below == log->below && !ended)
                return;
        if (!may_say(log, LINE_REPAIR, 0, now_ms))
                return;
        if (h->objects_below > log->below)
                srv_log(SRV_LOG_WARNING, "repair: %llu objects lack shards, %llu bytes are to be written", (unsigned long long)h->objects_below,
                        (unsigned long long)h->heal_bytes_left);
        if (ended)
                srv_log(last->failed_objects == 0 ? SRV_LOG_INFO : SRV_LOG_WARNING,
                        "repair has ended after %.1f s: %llu objects have their shards again (%llu bytes written), %llu could not be given theirs",
                        (double)(last->ended_ms - last->started_ms) / 1000, (unsigned long long)last->done_objects, (unsigned long long)last->written,
                        (unsigned long long)last->failed_objects);
        log->below = h->objects_below;
        log->repair_ended_ms = last->ended_ms;
}

static void say_orphans(struct srv_health_log *log, const struct eng_health *h, int64_t now_ms)
{
        if (h->orphan_ids == log->orphans || h->collecting_orphans || !may_say(log, LINE_ORPHANS, 0, now_ms))
                return;
        srv_log(SRV_LOG_INFO, "the search for orphans has discarded shards of %llu objects that no record names", (unsigned long long)(h->orphan_ids - log->orphans));
        log->orphans = h->orphan_ids;
}

static void say_scrub_rounds(struct srv_health_log *log, const struct eng_health *h, int64_t now_ms)
{
        const struct eng_drive_info *drive;
        bool begun, ended;
        unsigned i;

        for (i = 0; i < h->drive_count && i < ENG_DRIVES_MAX; i++) {
                drive = &h->drives[i];
                ended = drive->scrub.last_ended_ms > log->scrub_ended[i];
                begun = drive->scrub.running && drive->scrub.started_ms != log->scrub_started[i];
                if ((!ended && !begun) || !may_say(log, LINE_SCRUB, i, now_ms))
                        continue;
                if (ended)
                        srv_log(SRV_LOG_INFO, "drive %s (%s): a scrub has ended: %llu bytes read, %llu shards damaged", drive->path, drive->id,
                                (unsigned long long)drive->scrub.last_bytes, (unsigned long long)drive->scrub.last_damaged);
                if (begun)
                        srv_log(SRV_LOG_INFO, "drive %s (%s): a scrub of %llu bytes is under way, at %llu bytes/s", drive->path, drive->id,
                                (unsigned long long)drive->scrub.total, (unsigned long long)drive->scrub.rate);
                log->scrub_ended[i] = drive->scrub.last_ended_ms;
                if (begun)
                        log->scrub_started[i] = drive->scrub.started_ms;
        }
}

static void say_reclaim(struct srv_health_log *log, const struct eng_health *h, int64_t now_ms)
{
        const struct eng_drive_info *drive;
        unsigned i;

        for (i = 0; i < h->drive_count && i < ENG_DRIVES_MAX; i++) {
                drive = &h->drives[i];
                if (drive->reclaim_freed < log->freed[i])
                        log->freed[i] = log->copied[i] = 0; /* it was opened anew */
                if (drive->reclaim_freed == log->freed[i] || !may_say(log, LINE_RECLAIM, i, now_ms))
                        continue;
                srv_log(SRV_LOG_INFO, "drive %s (%s): reclaim has freed %llu bytes of files, for which it copied %llu", drive->path, drive->id,
                        (unsigned long long)(drive->reclaim_freed - log->freed[i]),
                        (unsigned long long)(drive->reclaim_copied - (drive->reclaim_copied < log->copied[i] ? 0 : log->copied[i])));
                log->freed[i] = drive->reclaim_freed;
                log->copied[i] = drive->reclaim_copied;
        }
}

/* Whoever reads the log by a program finds times and lengths as NAME=VALUE. */
static void say_lock_clock(struct srv_health_log *log, const struct eng_lock_state *lock)
{
        char time[S3_DATE_ISO_SIZE], other[S3_DATE_ISO_SIZE];

        s3_date_format_iso(lock->now_ms, time);
        s3_date_format_iso(lock->wall_ms, other);
        if (lock->frozen && !log->frozen)
                srv_log(SRV_LOG_WARNING,
                        "lock clock frozen: lock_time=%s wall_time=%s ahead_s=%lld budget_s=%lld; locks end late until "
                        "millrace admin lock-clock --confirm",
                        time, other, (long long)(lock->wall_ms - lock->now_ms) / 1000, (long long)lock->budget_ms / 1000);
        log->frozen = lock->frozen;
        if (lock->confirmed_ms == log->confirmed_ms)
                return;
        s3_date_format_iso(lock->confirmed_ms, time);
        s3_date_format_iso(lock->before_ms, other);
        srv_log(SRV_LOG_WARNING, "lock clock confirmed: lock_time=%s before=%s budget_s=%lld", time, other, (long long)lock->budget_ms / 1000);
        log->confirmed_ms = lock->confirmed_ms;
}

struct srv_health_log *srv_health_log_open(unsigned pool)
{
        struct srv_health_log *log = calloc(1, sizeof(*log));

        if (log == NULL)
                return NULL;
        log->health = calloc(1, sizeof(*log->health));
        if (log->health == NULL) {
                free(log);
                return NULL;
        }
        log->started_ms = (int64_t)(lp_clock() / 1000000u);
        log->pool = pool;
        return log;
}

void srv_health_log_close(struct srv_health_log *log)
{
        if (log == NULL)
                return;
        free(log->health);
        free(log);
}

/*
 * Drives are compared with "in use" from the moment the store is ready; before that they are still
 * being looked at.
 */
void srv_health_log_say(struct srv_health_log *log, const struct eng_health *health, const struct eng_heal_report *repair, int64_t now_ms)
{
        if (health->ready || log->was_ready)
                say_drive_changes(log, health);
        say_unreliable_drives(log, health);
        say_unknown_owners(log, health);
        say_scrub(log, health);
        say_ready_changes(log, health, now_ms);
        say_lock_clock(log, &health->lock);
        say_epoch(log, health, now_ms);
        say_repair(log, health, repair, now_ms);
        say_orphans(log, health, now_ms);
        say_scrub_rounds(log, health, now_ms);
        say_reclaim(log, health, now_ms);
}

void srv_health_read(struct eng_store *store, const struct gw_gateway *gateway, struct eng_health *out)
{
        eng_health_read(store, out);
        if (!out->ready || gw_people_known(gateway))
                return;
        out->ready = out->writable = false;
        snprintf(out->reason, sizeof(out->reason), "the directory of users is being read");
}

const struct eng_health *srv_health_log_look(struct srv_health_log *log, struct eng_store *store,
                                             const struct gw_gateway *gateway)
{
        struct eng_heal_report now, last;

        srv_health_read(store, gateway, log->health);
        eng_heal_read(store, &now, &last);
        srv_log_about_here(log->pool);
        say_lost_objects(log, store);
        srv_health_log_say(log, log->health, &last, (int64_t)(lp_clock() / 1000000u));
        srv_log_about_here(0);
        return log->health;
}
