/*
 * near_drive.c - a drive that this process serves, as the home store of the same process uses it.
 *
 * An operation goes to the drive itself, on the loop that asks and with that loop's slots, as on one
 * machine. It is held to what a drive server lets a home do (served_op.c): READ, WRITE, SYNC and HELD,
 * without a term and without a session; shards of own uploads; SYNC of the incarnation that took them.
 * A reference of the served drive is held until the answer, so that a drive that is withdrawn knows.
 *
 * The store's loops end before those of the drives, which may be about to post to them: so the drive
 * is let go only after a message has been through all of these (near_awaits_file()).
 */
#include "remote/drive_server.h"
#include "remote/remote_drive.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_home.h"

/* A message that goes through all loops of the server's drives, when nothing is under way. */
enum near_round {
        ROUND_NONE,
        ROUND_UNDER_WAY,
        ROUND_ENDED, /* what they have posted before it is in the mailboxes of the store's loops */
        ROUND_DRAINED
};

struct near_drive {
        struct eng_drive drive; /* first */
        struct rem_client *client;
        struct rem_place place;
        struct eng_local_options options; /* whom it tells; times */
        char path[ENG_PATH_MAX];
        /* any thread */
        atomic_bool exhausted, unreliable, stalled, vanished, index_damaged, failed, given_up;
        atomic_uint calls;      /* operations that are not answered yet, and what is being told */
        _Atomic uint64_t begun; /* operations, in all */
        atomic_bool telling;
        /* owner: the loop that set telling, then the drive's owner */
        struct lp_msg tell_msg;
        const char *text;
        bool tell_failure;
        /* owner: the thread that closes the store; round_loop: the loop where the message is */
        _Atomic enum near_round round;
        uint64_t round_begun; /* what was begun before it */
        unsigned round_loop;
        struct lp_msg round_msg;
};

/* An operation under way. owner: the loop that asked; op: the drive until done */
struct near_call {
        struct eng_op op; /* first: what the drive has */
        struct eng_op *asked;
        struct near_drive *d;
        struct rem_served *served;
};

static struct near_drive *near_of(struct eng_drive *drive)
{
        return (struct near_drive *)drive;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void near_told(struct lp_msg *msg)
{
        struct near_drive *d = container_of(msg, struct near_drive, tell_msg);
        void (*tell)(void *arg, struct eng_drive *drive, const char *text) =
                d->tell_failure ? d->options.failed : d->options.unreachable;
        const char *text = d->text;

        atomic_store(&d->telling, false);
        if (tell != NULL && !atomic_load(&d->given_up))
                tell(d->options.arg, &d->drive, text);
        atomic_fetch_sub(&d->calls, 1);
}

/* The store is told once at a time. text: it stays. */
static void near_tell(struct near_drive *d, bool failure, const char *text)
{
        if (atomic_exchange(&d->telling, true))
                return;
        d->tell_failure = failure;
        d->text = text;
        d->tell_msg.run = near_told;
        atomic_fetch_add(&d->calls, 1);
        lp_post(d->drive.owner, &d->tell_msg);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void near_end(struct near_drive *d, struct eng_op *op)
{
        if (op->result == -EHOSTUNREACH)
                remote_count(d->client, REM_COUNT_unreachable);
        if (op->submitted != 0 && d->options.times != NULL)
                lp_times_add(&d->options.times[lp_index(op->home)].step[op->kind], lp_clock() - op->submitted);
        atomic_fetch_sub(&d->calls, 1);
        op->done(op);
}

static void near_refused_now(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        assert(lp_self() == op->home);
        lp_trace(LP_TRACE_OP_DONE, ENG_TRACE_OP(op->kind, op->drive->slot), (uint64_t)(int64_t)op->result);
        near_end(near_of(op->drive), op);
}

/* The drive was not asked. */
static void near_refuse(struct eng_op *op, int rv)
{
        op->result = rv;
        op->msg.run = near_refused_now;
        lp_post(op->home, &op->msg);
}

static void near_take_flags(struct near_drive *d, const struct rem_served *served)
{
        struct rem_prefix prefix;

        served_prefix(served, &prefix);
        atomic_store_explicit(&d->exhausted, (prefix.flags & REM_EXHAUSTED) != 0, memory_order_relaxed);
        atomic_store_explicit(&d->unreliable, (prefix.flags & REM_UNRELIABLE) != 0, memory_order_relaxed);
        atomic_store_explicit(&d->stalled, (prefix.flags & REM_STALLED) != 0, memory_order_relaxed);
        atomic_store_explicit(&d->vanished, (prefix.flags & REM_VANISHED) != 0, memory_order_relaxed);
        atomic_store_explicit(&d->index_damaged, (prefix.flags & REM_INDEX_DAMAGED) != 0, memory_order_relaxed);
}

static void near_called(struct eng_op *inner)
{
        struct near_call *c = container_of(inner, struct near_call, op);
        struct near_drive *d = c->d;
        struct eng_op *op = c->asked;

        assert(lp_self() == op->home);
        op->result = inner->result;
        op->deposed = inner->deposed;
        op->incarnation = c->served->incarnation;
        if (op->kind == ENG_OP_READ)
                op->read = inner->read;
        else if (op->kind == ENG_OP_HELD)
                op->held = inner->held;
        near_take_flags(d, c->served);
        served_put(c->served);
        free(c);
        atomic_store_explicit(&d->failed, op->result == -EIO, memory_order_relaxed);
        if (op->result == -EIO)
                near_tell(d, true, "it has failed");
        near_end(d, op);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool near_may(const struct near_drive *d, const struct eng_op *op)
{
        const struct rem_near *near = &d->client->options.near;
        uint16_t maker;
        uint32_t boot;

        if (op->kind == ENG_OP_READ || op->kind == ENG_OP_SYNC || op->kind == ENG_OP_HELD)
                return true;
        if (op->kind != ENG_OP_WRITE)
                return false;
        eng_id_maker(op->write.object_id, &maker, &boot);
        return maker == near->maker && boot == near->boot;
}

/* The drive as it is served now, held. NULL: it is not, or another drive has its slot. */
static struct rem_served *near_find(const struct rem_client *client, const struct rem_place *place,
                                    const uint8_t drive_id[FMT_ID])
{
        struct rem_served *served = server_find(client->options.near.server, place->pool, place->slot);

        if (served == NULL || !served_get(served))
                return NULL;
        if (memcmp(served->identity.drive_id, drive_id, FMT_ID) == 0)
                return served;
        served_put(served);
        return NULL;
}

/* -EHOSTUNREACH: the store is told. -EAGAIN: homes have as much of the drive as is theirs. */
static int near_reach(struct near_drive *d, const struct eng_op *op, struct rem_served **out)
{
        struct rem_served *served;
        const char *why = "it makes no sense";
        int rv = -EHOSTUNREACH;

        if (atomic_load(&d->given_up))
                return -EIO;
        served = near_may(d, op) ? near_find(d->client, &d->place, d->drive.id) : NULL;
        if (served != NULL && op->kind == ENG_OP_SYNC && op->incarnation != 0 && op->incarnation != served->incarnation)
                why = "it was opened anew";
        else if (served != NULL && atomic_load(&served->refs) > REM_REQUESTS_MAX / 2)
                rv = -EAGAIN;
        else if (served != NULL)
                rv = 0;
        else if (near_may(d, op))
                why = "it is not served";
        *out = served;
        if (rv == 0)
                return 0;
        if (served != NULL)
                served_put(served);
        if (rv == -EHOSTUNREACH) {
                remote_count(d->client, REM_COUNT_refused);
                near_tell(d, false, why);
        }
        return rv;
}

static void near_submit(struct eng_drive *drive, struct eng_op *op)
{
        struct near_drive *d = near_of(drive);
        struct rem_served *served;
        struct near_call *c;
        int rv;

        assert(op->kind < ENG_OP_KINDS && op->done != NULL && lp_self() != NULL);
        op->home = lp_self();
        op->drive = drive;
        atomic_fetch_add(&d->begun, 1);
        atomic_fetch_add(&d->calls, 1);
        rv = near_reach(d, op, &served);
        if (rv != 0) {
                near_refuse(op, rv);
                return;
        }
        c = malloc(sizeof(*c));
        if (c == NULL) {
                served_put(served);
                near_refuse(op, -EAGAIN);
                return;
        }
        c->op = *op;
        c->op.flags &= ~ENG_OP_ANEW; /* a session's */
        c->op.term = (struct eng_term){0};
        c->op.of_home = true;
        c->op.done = near_called;
        c->asked = op;
        c->d = d;
        c->served = served;
        served->drive->ops->submit(served->drive, &c->op); /* eng_drive_submit() has traced it */
}

/* ---- beside operations ----------------------------------------------------------------------- */

static int near_epoch(struct eng_drive *drive, void *out, size_t cap, size_t *len, struct eng_epoch_history *history)
{
        return -EOPNOTSUPP; /* a home's epochs are its leader's */
}

static bool near_log_lost(struct eng_drive *drive)
{
        return false;
}

static bool near_let_go(struct eng_drive *drive)
{
        struct near_drive *d = near_of(drive);

        atomic_store(&d->given_up, true);
        return atomic_load(&d->calls) == 0;
}

static bool near_ends(struct eng_drive *drive, unsigned seconds)
{
        return true; /* it has no threads */
}

static void near_round_goes(struct lp_msg *msg)
{
        struct near_drive *d = container_of(msg, struct near_drive, round_msg);
        const struct rem_near *near = &d->client->options.near;

        if (++d->round_loop < near->loop_count)
                lp_post(near->loops[d->round_loop], msg);
        else
                atomic_store(&d->round, ROUND_ENDED); /* the last that is done with the drive here */
}

static void near_round_begin(struct near_drive *d, uint64_t begun)
{
        d->round_begun = begun;
        d->round_loop = 0;
        d->round_msg.run = near_round_goes;
        atomic_store(&d->round, ROUND_UNDER_WAY);
        lp_post(d->client->options.near.loops[0], &d->round_msg);
}

/*
 * The loops of the store have stopped, and are drained between two calls. A drive's own loop may be about
 * to post to one of them though all is answered: that an I/O of that loop be given up, which is back.
 */
static bool near_awaits_file(struct eng_drive *drive)
{
        struct near_drive *d = near_of(drive);
        uint64_t begun = atomic_load(&d->begun);

        if (atomic_load(&d->calls) > 0)
                return true;
        if (begun == 0)
                return false;
        switch (atomic_load(&d->round)) {
        case ROUND_UNDER_WAY:
                return true;
        case ROUND_ENDED:
                atomic_store(&d->round, ROUND_DRAINED);
                return true; /* once more */
        case ROUND_DRAINED:
                if (d->round_begun == begun)
                        return false;
                break;
        case ROUND_NONE:
                break;
        }
        near_round_begin(d, begun);
        return true;
}

static bool near_vanished(struct eng_drive *drive)
{
        return atomic_load(&near_of(drive)->vanished) || atomic_load(&near_of(drive)->index_damaged);
}

static bool near_index_damaged(struct eng_drive *drive)
{
        return atomic_load(&near_of(drive)->index_damaged);
}

static const char *near_damage(struct eng_drive *drive)
{
        return NULL; /* its leader's to know */
}

static void near_info(struct eng_drive *drive, struct eng_drive_info *out)
{
        struct near_drive *d = near_of(drive);
        struct rem_served *served = near_find(d->client, &d->place, d->drive.id);

        memset(out, 0, sizeof(*out));
        if (served != NULL) {
                eng_drive_info(served->drive, out);
                served_put(served);
        }
        snprintf(out->path, sizeof(out->path), "%s", d->path);
        if (served == NULL || atomic_load(&d->failed) || atomic_load(&d->given_up))
                out->state = ENG_DRIVE_FAILED;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void near_close(struct eng_drive *drive)
{
        struct near_drive *d = near_of(drive);

        assert(atomic_load(&d->calls) == 0 && atomic_load(&d->round) != ROUND_UNDER_WAY);
        free(d);
}

static const struct eng_drive_ops near_ops = {
        .submit = near_submit,
        .close = near_close,
        .info = near_info,
        .vanished = near_vanished,
        .index_damaged = near_index_damaged,
        .damage = near_damage,
        .epoch = near_epoch,
        .log_lost = near_log_lost,
        .let_go = near_let_go,
        .awaits_file = near_awaits_file,
        .ends = near_ends,
};

int near_drive_open(struct rem_client *client, const struct rem_place *place, const struct eng_local_options *options,
                    struct eng_drive **out)
{
        struct rem_served *served = near_find(client, place, options->identity.drive_id);
        struct near_drive *d;

        if (served == NULL)
                return -EAGAIN;
        d = calloc(1, sizeof(*d));
        if (d == NULL) {
                served_put(served);
                return -ENOMEM;
        }
        d->drive = (struct eng_drive){.ops = &near_ops,
                                      .slot = place->slot,
                                      .owner = options->owner,
                                      .exhausted = &d->exhausted,
                                      .unreliable = &d->unreliable,
                                      .stalled = &d->stalled};
        memcpy(d->drive.id, options->identity.drive_id, FMT_ID);
        d->client = client;
        d->place = *place;
        d->options = *options;
        snprintf(d->path, sizeof(d->path), "%s", options->path);
        d->options.path = d->path;
        near_take_flags(d, served);
        served_put(served);
        *out = &d->drive;
        return 0;
}
