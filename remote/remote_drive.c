/*
 * remote_drive.c - a drive of another node, as the engine's table of operations sees it.
 *
 * An operation goes from its home loop to the owner loop of the drive, by a message as all others, so
 * that they keep their order; and its answer back. What the engine asks beside operations is answered
 * from what the opening, and answers since, have told.
 */
#include "remote/remote_drive.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- operations ------------------------------------------------------------------------------ */

static void remote_deliver(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        assert(lp_self() == op->home);
        op->done(op);
}

void remote_answer(struct remote_drive *d, struct eng_op *op, int rv)
{
        uint64_t before = lp_trace_request(), now = lp_clock();

        assert(lp_self() == d->drive.owner && atomic_load(&d->calls) > 0);
        lp_trace_set_request(op->request);
        if (rv == -EHOSTUNREACH)
                remote_count(d->client, REM_COUNT_unreachable);
        if (op->submitted != 0 && d->options.times != NULL)
                lp_times_add(&d->options.times[lp_index(lp_self())].step[op->kind], now - op->submitted);
        lp_trace_at(now, LP_TRACE_OP_DONE, ENG_TRACE_OP(op->kind, d->drive.slot), (uint64_t)(int64_t)rv);
        op->result = rv;
        op->msg.run = remote_deliver;
        atomic_fetch_sub(&d->calls, 1);
        lp_post(op->home, &op->msg);
        lp_trace_set_request(before);
}

static void remote_arrive(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);
        struct remote_drive *d = remote_of(op->drive);

        if (atomic_load(&d->given_up))
                remote_answer(d, op, -EIO);
        else
                remote_call_submit(d, op);
}

static void remote_submit(struct eng_drive *drive, struct eng_op *op)
{
        struct remote_drive *d = remote_of(drive);

        assert(op->kind < ENG_OP_KINDS && op->done != NULL && lp_self() != NULL);
        op->home = lp_self();
        op->drive = drive;
        op->msg.run = remote_arrive;
        atomic_fetch_add(&d->calls, 1);
        lp_post(drive->owner, &op->msg);
}

void remote_head(struct remote_drive *d, struct rem_head *out)
{
        *out = (struct rem_head){.pool = d->place.pool,
                                 .slot = d->place.slot,
                                 .incarnation = d->incarnation,
                                 .session = d->session,
                                 .commits = d->commits,
                                 .term = d->client->options.term};
        memcpy(out->drive_id, d->drive_id, FMT_ID);
        if (d->client->options.home) {
                out->flags = REM_HOME;
                out->incarnation = 0;
        }
}

void remote_net_call(struct remote_drive *d, struct net_call *call)
{
        atomic_fetch_add(&d->in_net, 1);
        net_call(call);
}

bool remote_net_ended(struct remote_drive *d)
{
        atomic_fetch_sub(&d->in_net, 1);
        return !d->closed;
}

/* ---- what answers tell ----------------------------------------------------------------------- */

void remote_heard(struct remote_drive *d)
{
        d->heard = lp_now(d->drive.owner);
        if (atomic_load_explicit(&d->mute, memory_order_relaxed))
                atomic_store_explicit(&d->mute, false, memory_order_relaxed);
}

void remote_take_prefix(struct remote_drive *d, const struct rem_prefix *prefix)
{
        atomic_store_explicit(&d->exhausted, (prefix->flags & REM_EXHAUSTED) != 0, memory_order_relaxed);
        atomic_store_explicit(&d->unreliable, (prefix->flags & REM_UNRELIABLE) != 0, memory_order_relaxed);
        atomic_store_explicit(&d->stalled, (prefix->flags & REM_STALLED) != 0, memory_order_relaxed);
        atomic_store(&d->vanished, (prefix->flags & REM_VANISHED) != 0);
        atomic_store(&d->index_damaged, (prefix->flags & REM_INDEX_DAMAGED) != 0);
        atomic_store(&d->lacks, (prefix->flags & REM_LACKS) != 0);
        atomic_store(&d->lost_end, (prefix->flags & REM_LOG_LOST) != 0);
}

void remote_refused(struct remote_drive *d, uint64_t begun, enum rem_status status)
{
        static const char *const why[REM_STATUSES] = {[REM_BAD] = "its node does not understand this one",
                                                      [REM_UNKNOWN_DRIVE] = "its node does not serve it",
                                                      [REM_OTHER_INCARNATION] = "it was opened anew",
                                                      [REM_DEPOSED] = "it serves a newer leader",
                                                      [REM_OLD_SESSION] = "it serves another",
                                                      [REM_GAP] = "a COMMIT was lost on its way",
                                                      [REM_NOT_OPEN] = "its leader has not opened it"};

        assert(lp_self() == d->drive.owner);
        remote_count(d->client, status < REM_STATUSES ? REM_COUNT_refused : REM_COUNT_lies);
        if (begun != d->begun || d->told == begun || atomic_load(&d->given_up))
                return;
        d->told = begun;
        if (d->options.unreachable != NULL)
                d->options.unreachable(d->options.arg, &d->drive,
                                       status < REM_STATUSES && why[status] != NULL ? why[status]
                                                                                    : "it makes no sense");
}

void remote_has_failed(struct remote_drive *d, const char *text)
{
        assert(lp_self() == d->drive.owner);
        if (d->failed_told || atomic_load(&d->given_up))
                return;
        d->failed_told = true;
        atomic_store(&d->failed, true);
        if (d->options.failed != NULL)
                d->options.failed(d->options.arg, &d->drive, text);
}

/* ---- beside operations ----------------------------------------------------------------------- */

static int remote_epoch(struct eng_drive *drive, void *out, size_t cap, size_t *len, struct eng_epoch_history *history)
{
        const struct rem_facts *facts = remote_of(drive)->facts;

        *len = facts->epoch_len;
        memcpy(out, facts->epoch, *len < cap ? *len : cap);
        if (history != NULL)
                *history = facts->history;
        return *len <= cap ? 0 : -ENOBUFS;
}

static bool remote_log_lost(struct eng_drive *drive)
{
        return atomic_load(&remote_of(drive)->lost_end);
}

static bool remote_let_go(struct eng_drive *drive)
{
        struct remote_drive *d = remote_of(drive);

        assert(lp_self() == drive->owner);
        atomic_store(&d->given_up, true);
        return atomic_load(&d->calls) == 0 && !d->watching;
}

static bool remote_ends(struct eng_drive *drive, unsigned seconds)
{
        return true; /* it has no threads */
}

/* The loops of a net that is not this store's own go on, and give every call its end. */
static bool remote_awaits_file(struct eng_drive *drive)
{
        return atomic_load(&remote_of(drive)->in_net) > 0;
}

static bool remote_vanished(struct eng_drive *drive)
{
        struct remote_drive *d = remote_of(drive);

        return atomic_load(&d->vanished) || atomic_load(&d->index_damaged);
}

static bool remote_index_damaged(struct eng_drive *drive)
{
        return atomic_load(&remote_of(drive)->index_damaged);
}

static const char *remote_damage(struct eng_drive *drive)
{
        const struct remote_drive *d = remote_of(drive);

        if (!atomic_load(&d->lacks))
                return NULL; /* its node may have opened it anew since */
        return d->facts->damage[0] != '\0' ? d->facts->damage : "its log lost its end, or is damaged";
}

static void remote_info(struct eng_drive *drive, struct eng_drive_info *out)
{
        struct remote_drive *d = remote_of(drive);

        pthread_mutex_lock(&d->lock);
        *out = d->info;
        pthread_mutex_unlock(&d->lock);
        if (atomic_load(&d->failed) || atomic_load(&d->given_up))
                out->state = ENG_DRIVE_FAILED;
        out->unreliable = atomic_load_explicit(&d->unreliable, memory_order_relaxed);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* What is under way is not answered: whoever closed the drive has given it up. What net/ has yet stays. */
static void remote_close(struct eng_drive *drive)
{
        struct remote_drive *d = remote_of(drive);
        struct remote_call *c, *next;

        LIST_FOREACH (c, &d->out, link)
                lp_timer_stop(drive->owner, &c->again);
        lp_timer_stop(drive->owner, &d->watch_again);
        lp_timer_stop(drive->owner, &d->mute_look);
        pthread_mutex_lock(&d->client->lock);
        LIST_REMOVE(d, link);
        pthread_mutex_unlock(&d->client->lock);
        d->closed = true;
        if (atomic_load(&d->in_net) > 0)
                return;
        LIST_FOREACH_SAFE (c, &d->out, link, next) {
                c->slot = NULL; /* its loop ends with the store */
                remote_call_free(c);
        }
        pthread_mutex_destroy(&d->lock);
        free((void *)d->facts);
        free(d->watch_room);
        free(d);
}

/* What answers told, what the opening told, and what is under way. */
static const struct eng_drive_ops remote_ops = {
        .submit = remote_submit,
        .close = remote_close,
        .info = remote_info,
        .vanished = remote_vanished,
        .index_damaged = remote_index_damaged,
        .damage = remote_damage,
        .epoch = remote_epoch,
        .log_lost = remote_log_lost,
        .let_go = remote_let_go,
        .awaits_file = remote_awaits_file,
        .ends = remote_ends,
};

static void remote_start(struct lp_msg *msg)
{
        remote_watch_send(container_of(msg, struct remote_drive, start_msg));
}

static void remote_name(struct remote_drive *d)
{
        unsigned i;

        snprintf(d->info.path, sizeof(d->info.path), "%s", d->options.path);
        for (i = 0; i < FMT_ID; i++)
                snprintf(d->info.id + 2 * i, 3, "%02x", d->drive_id[i]);
}

/* What may be slow by itself has lanes of its own on the connections to its node, as long as there are any. */
static void remote_enter(struct remote_drive *d)
{
        unsigned users[REM_LANES] = {0}, i;
        const struct remote_drive *other;

        pthread_mutex_lock(&d->client->lock);
        LIST_FOREACH (other, &d->client->drives, link)
                if (other->place.node == d->place.node)
                        users[other->lane]++;
        d->lane = rem_place_lane(&d->place);
        for (i = 0; i < REM_LANES; i++)
                if (users[i] < users[d->lane])
                        d->lane = i;
        LIST_INSERT_HEAD(&d->client->drives, d, link);
        pthread_mutex_unlock(&d->client->lock);
}

int remote_drive_new(const struct rem_opening *opening, const struct eng_local_options *options, struct eng_drive **out)
{
        struct remote_drive *d = calloc(1, sizeof(*d));
        struct rem_facts *facts = malloc(sizeof(*facts));

        if (d == NULL || facts == NULL) {
                free(d);
                free(facts);
                return -ENOMEM;
        }
        *facts = opening->facts;
        d->facts = facts;
        atomic_init(&d->lacks, facts->log_lost || facts->damage[0] != '\0');
        atomic_init(&d->lost_end, facts->log_lost);
        d->drive.ops = &remote_ops;
        d->drive.slot = facts->identity.slot;
        memcpy(d->drive.id, facts->identity.drive_id, FMT_ID);
        d->drive.owner = options->owner;
        d->drive.exhausted = &d->exhausted;
        d->drive.unreliable = &d->unreliable;
        d->drive.mute = &d->mute;
        d->drive.stalled = &d->stalled;
        d->drive.far = true;
        d->drive.node = opening->place.node;
        d->client = opening->client;
        d->peer = opening->call.peer;
        d->place = opening->place;
        remote_enter(d);
        memcpy(d->drive_id, facts->identity.drive_id, FMT_ID);
        d->options = *options;
        d->incarnation = opening->prefix.incarnation;
        d->session = d->begun = opening->session;
        d->next_value = 0;
        d->watching = !d->client->options.home;
        pthread_mutex_init(&d->lock, NULL);
        LIST_INIT(&d->out);
        TAILQ_INIT(&d->waits);
        remote_name(d);
        d->options.path = d->info.path;
        remote_take_prefix(d, &opening->prefix);
        d->start_msg.run = remote_start;
        if (d->watching) /* what a drive says by itself is its leader's to hear */
                lp_post(d->drive.owner, &d->start_msg);
        *out = &d->drive;
        return 0;
}

uint64_t rem_client_incarnation(struct rem_client *client, uint16_t node, uint32_t pool, unsigned slot)
{
        uint64_t incarnation = 0;
        struct remote_drive *d;

        pthread_mutex_lock(&client->lock);
        LIST_FOREACH(d, &client->drives, link)
                if (d->place.node == node && d->place.pool == pool && d->place.slot == slot && incarnation == 0) /* the newest; one that has failed, too: it is its node that grants */
                        incarnation = atomic_load(&d->incarnation);
        pthread_mutex_unlock(&client->lock);
        return incarnation;
}
