/*
 * filter.c - drives that stand before another drive and spoil, delay or repeat its operations, for
 * tests.
 *
 * A daemon takes the text only from the hidden setting test_faults. Grammar:
 *
 *   text    = filter { ";" filter }              each filter wraps the ones before it: the last is the outermost
 *   filter  = kind [ ":" setting { "," setting } ]
 *   kind    = fail       the op answers -EIO, and so does every op after it
 *           | again      the op is answered -EAGAIN
 *           | delay      the op is passed on after ms
 *           | corrupt    answers -EBADMSG (read, lookup, record, scan)
 *           | drop       answers -EIO after ms (10,000), and so does every op from then on; the drive below never sees it
 *           | duplicate  the op is submitted a second time after it was answered; the second answer counts, an error of either too
 *           | unreach    for ms (10,000) from the op on none is answered but -EHOSTUNREACH; the drive below never sees every other one, and does the rest.
 *                      Once; with every, each time
 *           | serialise  op and answer are turned into bytes and back
 *           | open       the drive takes ms to be opened; its operations are not touched
 *           | pages      pages of the index are not in memory before they were read; with ms, all such reads but the first `after` take that long
 *           | files      each file of the drive takes ms to be opened for reading
 *   setting = op=append|commit|lookup|scan|write|sync|read|discard|tail|record|features|open    which ops it looks at; else all (corrupt: all four)
 *           | after=N    the first N of them pass untouched (0)
 *           | every=N    from then on each Nth is hit (1)
 *           | ms=N
 *           | slot=N     only on drive number N
 *
 * Nonsense is -EINVAL with a text. Ops are counted over all loops; everything else of an op belongs
 * to its home loop.
 */
#include "engine/drive/filter.h"

#include <assert.h>
#include <bsd/sys/queue.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/drive/identity.h"
#include "engine/drive/local.h"

#define TEXT_MAX    1024u
#define DROP_MS     10000u
#define MS          1000000ull
#define ALL_KINDS   ((1u << ENG_OP_KINDS) - 1)
#define CORRUPTIBLE (1u << ENG_OP_READ | 1u << ENG_OP_LOOKUP | 1u << ENG_OP_RECORD | 1u << ENG_OP_SCAN)

enum filter_kind { FAIL, AGAIN, DELAY, CORRUPT, DROP, DUPLICATE, UNREACH, SERIALISE, OPEN, PAGES, FILES, FILTER_KINDS };

static const char *const kind_names[FILTER_KINDS] = {
        [FAIL] = "fail", [AGAIN] = "again",         [DELAY] = "delay",         [CORRUPT] = "corrupt",
        [DROP] = "drop", [DUPLICATE] = "duplicate", [UNREACH] = "unreach", [SERIALISE] = "serialise", [OPEN] = "open",
        [PAGES] = "pages", [FILES] = "files",
};
struct eng_filter {
        struct eng_drive drive; /* first */
        struct eng_drive *inner;
        enum filter_kind kind; /* this and the settings: constant */
        unsigned ops;          /* bit by enum eng_op_kind */
        uint64_t after, every, ms;
        int slot;                  /* -1: any */
        atomic_uint_fast64_t seen; /* any loop, like the next */
        atomic_bool dead;
        atomic_uint_fast64_t cut_until, cut_ops; /* UNREACH: lp_clock(); ops met since the first cut */
        pthread_mutex_t lock;
        LIST_HEAD(, eng_filter_op) waiting; /* under lock: ops whose timers run, which end with their loops */
};

static const struct eng_filter_codec *codec; /* of SERIALISE; NULL: there is none. Constant once drives are open */

void eng_filter_serialise_by(const struct eng_filter_codec *by)
{
        codec = by;
}

/* ---- answering ------------------------------------------------------------------------------- */

static void free_op(struct eng_filter_op *of)
{
        if (of->wire != NULL || of->slot != NULL)
                codec->free(of);
        free(of);
}

static void filter_answer(struct eng_filter_op *of, int rv)
{
        struct eng_op *above = of->above;

        above->result = rv;
        free_op(of);
        above->done(above);
}

static void answer_message(struct lp_msg *msg)
{
        struct eng_filter_op *of = container_of(msg, struct eng_filter_op, msg);

        filter_answer(of, of->result);
}

/* From inside submit: the answer comes in a later message. */
static void answer_later(struct eng_filter_op *of, int rv)
{
        of->result = rv;
        of->msg.run = answer_message;
        lp_post(lp_self(), &of->msg);
}

static void pass(struct eng_filter_op *of);

static void below_done(struct eng_op *op)
{
        struct eng_filter_op *of = (struct eng_filter_op *)op;
        struct eng_filter *filter = of->filter;
        int rv = op->result;

        assert(of->rounds > 0);
        if (rv == 0 && --of->rounds > 0) {
                eng_filter_drop_answer(op);
                pass(of);
                return;
        }
        if (filter->kind == UNREACH) { /* the answer is lost */
                if (rv == 0 || op->kind == ENG_OP_LOOKUP) /* whose value comes with damaged bytes, too */
                        eng_filter_drop_answer(op);
                if (op->kind == ENG_OP_READ)
                        of->above->read.slot = op->read.slot; /* the drive may have it yet */
                rv = -EHOSTUNREACH;
        } else if (filter->kind == SERIALISE && rv == 0) {
                rv = codec->answer(of);
        } else if (filter->kind == SERIALISE && op->kind != ENG_OP_LOOKUP) { /* as above */
                of->above->deposed = op->deposed; /* memory below, as a READ's slot, is not the one above */
        } else {
                eng_filter_copy_answer(of->above, op);
        }
        filter_answer(of, rv);
}

static void pass(struct eng_filter_op *of)
{
        if (of->filter->kind != SERIALISE)
                eng_filter_copy_request(&of->op, of->above);
        of->op.done = below_done;
        eng_drive_submit(of->filter->inner, &of->op);
}

static struct eng_filter_op *end_wait_of(struct lp_timer *timer)
{
        struct eng_filter_op *of = container_of(timer, struct eng_filter_op, timer);

        assert(lp_self() == of->loop);
        pthread_mutex_lock(&of->filter->lock);
        LIST_REMOVE(of, entry);
        pthread_mutex_unlock(&of->filter->lock);
        return of;
}

static void delay_over(struct lp_timer *timer)
{
        pass(end_wait_of(timer));
}

static void drop_over(struct lp_timer *timer)
{
        struct eng_filter_op *of = end_wait_of(timer);

        atomic_store(&of->filter->dead, true);
        filter_answer(of, -EIO);
}

/* ---- submitting ------------------------------------------------------------------------------ */

static bool is_hit(struct eng_filter *filter, enum eng_op_kind kind)
{
        uint64_t n;

        if (filter->kind == UNREACH && lp_clock() < atomic_load(&filter->cut_until))
                return true; /* whatever it is */
        if ((filter->ops >> kind & 1) == 0)
                return false;
        n = atomic_fetch_add(&filter->seen, 1);
        if (n < filter->after || (n - filter->after) % filter->every != filter->every - 1)
                return false;
        if (filter->kind == UNREACH && filter->every == 1 && atomic_load(&filter->cut_until) != 0)
                return false; /* that was all */
        if (filter->kind == UNREACH)
                atomic_store(&filter->cut_until, lp_clock() + filter->ms * MS);
        return true;
}

static void wait_and(struct eng_filter_op *of, void (*expired)(struct lp_timer *timer))
{
        of->timer.expired = expired;
        of->loop = lp_self();
        pthread_mutex_lock(&of->filter->lock);
        LIST_INSERT_HEAD(&of->filter->waiting, of, entry);
        pthread_mutex_unlock(&of->filter->lock);
        lp_timer_start(of->loop, &of->timer, of->filter->ms * MS);
}

static void hit(struct eng_filter_op *of)
{
        struct eng_filter *filter = of->filter;

        assert(filter->kind < OPEN); /* the others touch the drive itself */
        switch (filter->kind) {
        case FAIL:
                atomic_store(&filter->dead, true);
                answer_later(of, -EIO);
                return;
        case AGAIN:
                answer_later(of, -EAGAIN);
                return;
        case DELAY:
                wait_and(of, delay_over);
                return;
        case CORRUPT:
                answer_later(of, -EBADMSG);
                return;
        case DROP:
                wait_and(of, drop_over);
                return;
        case DUPLICATE:
                of->rounds = 2;
                pass(of);
                return;
        case UNREACH:
                if (atomic_fetch_add(&filter->cut_ops, 1) % 2 == 0)
                        answer_later(of, -EHOSTUNREACH);
                else
                        pass(of);
                return;
        case SERIALISE:
                if (codec->request(of) == 0)
                        pass(of);
                else
                        answer_later(of, -EAGAIN);
                return;
        case OPEN:
        case PAGES:
        case FILES:
        case FILTER_KINDS:
                break;
        }
}

static void refuse_message(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        op->done(op);
}

static void filter_submit(struct eng_drive *drive, struct eng_op *op)
{
        struct eng_filter *filter = (struct eng_filter *)drive;
        bool dead = atomic_load(&filter->dead);
        struct eng_filter_op *of;

        assert(lp_self() != NULL && op->kind < ENG_OP_KINDS);
        if (!dead && !is_hit(filter, op->kind)) {
                eng_drive_submit(filter->inner, op);
                return;
        }
        of = dead ? NULL : calloc(1, sizeof(*of));
        if (of == NULL) {
                op->result = dead ? -EIO : -EAGAIN;
                op->msg.run = refuse_message;
                lp_post(lp_self(), &op->msg);
                return;
        }
        of->above = op;
        of->filter = filter;
        of->rounds = 1;
        hit(of);
}

static void filter_close(struct eng_drive *drive)
{
        struct eng_filter *filter = (struct eng_filter *)drive;
        struct eng_filter_op *of;

        filter->inner->ops->close(filter->inner);
        while ((of = LIST_FIRST(&filter->waiting)) != NULL) {
                LIST_REMOVE(of, entry);
                lp_timer_stop(of->loop, &of->timer);
                free_op(of);
        }
        pthread_mutex_destroy(&filter->lock);
        free(filter);
}

/* What is no operation on data is asked of the drive below. */
static struct eng_drive *below(struct eng_drive *drive)
{
        return ((struct eng_filter *)drive)->inner;
}

static int filter_epoch(struct eng_drive *drive, void *out, size_t cap, size_t *len, struct eng_epoch_history *history)
{
        return eng_drive_epoch(below(drive), out, cap, len, history);
}

static bool filter_log_lost(struct eng_drive *drive)
{
        return eng_drive_log_lost(below(drive));
}

static bool filter_let_go(struct eng_drive *drive)
{
        return eng_drive_let_go(below(drive));
}

static bool filter_ends(struct eng_drive *drive, unsigned seconds)
{
        return eng_drive_ends(below(drive), seconds);
}

static bool filter_awaits_file(struct eng_drive *drive)
{
        return eng_drive_awaits_file(below(drive));
}

static bool filter_vanished(struct eng_drive *drive)
{
        return eng_drive_vanished(below(drive));
}

static bool filter_index_damaged(struct eng_drive *drive)
{
        return eng_drive_index_damaged(below(drive));
}

static const char *filter_damage(struct eng_drive *drive)
{
        return eng_drive_damage(below(drive));
}

static void filter_info(struct eng_drive *drive, struct eng_drive_info *out)
{
        eng_drive_info(below(drive), out);
}

static const struct eng_drive_ops filter_ops = {
        .submit = filter_submit,
        .close = filter_close,
        .epoch = filter_epoch,
        .log_lost = filter_log_lost,
        .let_go = filter_let_go,
        .ends = filter_ends,
        .awaits_file = filter_awaits_file,
        .vanished = filter_vanished,
        .index_damaged = filter_index_damaged,
        .damage = filter_damage,
        .info = filter_info,
};

/* ---- the text -------------------------------------------------------------------------------- */

static int filter_find_name(const char *const *names, unsigned count, const char *name)
{
        unsigned i;

        for (i = 0; i < count; i++)
                if (strcmp(names[i], name) == 0)
                        return (int)i;
        return -1;
}

static int parse_number(const char *text, uint64_t *out)
{
        char *end;

        if (*text < '0' || *text > '9')
                return -EINVAL;
        errno = 0;
        *out = strtoull(text, &end, 10);
        return *end == '\0' && errno == 0 && *out <= 1000000000ull ? 0 : -EINVAL;
}

static int parse_setting(struct eng_filter *filter, char *setting)
{
        char *value = strchr(setting, '=');
        uint64_t number;
        int op;

        if (value == NULL)
                return -EINVAL;
        *value++ = '\0';
        if (strcmp(setting, "op") == 0) {
                op = filter_find_name(eng_drive_step_names, ENG_OP_KINDS, value);
                filter->ops = op >= 0 ? 1u << op : 0;
                return op >= 0 && (filter->kind != CORRUPT || (CORRUPTIBLE & filter->ops) != 0) ? 0 : -EINVAL;
        }
        if (parse_number(value, &number) != 0)
                return -EINVAL;
        if (strcmp(setting, "after") == 0)
                filter->after = number;
        else if (strcmp(setting, "every") == 0 && number > 0)
                filter->every = number;
        else if (strcmp(setting, "ms") == 0)
                filter->ms = number;
        else if (strcmp(setting, "slot") == 0 && number < ENG_DRIVES_MAX)
                filter->slot = (int)number;
        else
                return -EINVAL;
        return 0;
}

static int parse_filter(struct eng_filter *filter, char *text)
{
        char *settings = strchr(text, ':'), *setting, *save;
        int kind, rv = 0;

        if (settings != NULL)
                *settings++ = '\0';
        kind = filter_find_name(kind_names, FILTER_KINDS, text);
        if (kind < 0 || (kind == SERIALISE && codec == NULL))
                return -EINVAL;
        filter->kind = (enum filter_kind)kind;
        filter->ops = kind == CORRUPT ? CORRUPTIBLE : ALL_KINDS;
        filter->every = 1;
        filter->ms = kind == DROP || kind == UNREACH ? DROP_MS : 0;
        filter->slot = -1;
        setting = settings != NULL ? strtok_r(settings, ",", &save) : NULL;
        for (; setting != NULL && rv == 0; setting = strtok_r(NULL, ",", &save))
                rv = parse_setting(filter, setting);
        return rv;
}

/* On the thread that opens the drive. */
static void take_time(uint64_t ms)
{
        struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000 * MS)};

        while (nanosleep(&left, &left) != 0 && errno == EINTR)
                ;
}

/* Not operations of the drive but the drive itself. */
static void touch_drive(const struct eng_filter *filter, struct eng_drive *inner)
{
        if (filter->kind == OPEN)
                take_time(filter->ms);
        else if (inner->ops == &eng_local_ops && filter->kind == PAGES)
                eng_pages_pretend_soon(inner, filter->after, filter->ms);
        else if (inner->ops == &eng_local_ops)
                eng_fds_pretend(inner, filter->ms);
}

/* Puts one filter on top of *top, unless it is meant for another drive. */
static int add_filter(struct eng_drive **top, struct eng_drive *inner, char *text, struct eng_error *error)
{
        char shown[64];
        struct eng_filter *filter = calloc(1, sizeof(*filter));

        if (filter == NULL)
                return eng_error_set(error, -ENOMEM, "no memory");
        snprintf(shown, sizeof(shown), "%s", text);
        if (parse_filter(filter, text) != 0) {
                free(filter);
                return eng_error_set(error, -EINVAL, "test_faults: \"%s\" makes no sense", shown);
        }
        if (filter->slot >= 0 && (unsigned)filter->slot != (*top)->slot) {
                free(filter);
                return 0;
        }
        if (filter->kind == OPEN || filter->kind == PAGES || filter->kind == FILES) {
                touch_drive(filter, inner);
                free(filter);
                return 0;
        }
        pthread_mutex_init(&filter->lock, NULL);
        LIST_INIT(&filter->waiting);
        filter->drive.ops = &filter_ops;
        filter->drive.slot = (*top)->slot;
        memcpy(filter->drive.id, (*top)->id, FMT_ID);
        filter->drive.owner = (*top)->owner;
        filter->drive.exhausted = (*top)->exhausted;
        filter->drive.unreliable = (*top)->unreliable;
        filter->drive.mute = (*top)->mute;
        filter->drive.stalled = (*top)->stalled;
        filter->drive.far = (*top)->far;
        filter->drive.node = (*top)->node;
        filter->inner = *top;
        *top = &filter->drive;
        return 0;
}

int eng_filter_stack(struct eng_drive *inner, const char *text, struct eng_drive **out, struct eng_error *error)
{
        char copy[TEXT_MAX], *one, *save;
        struct eng_drive *top = inner;
        int rv = 0;

        *out = inner;
        if (text == NULL)
                return 0;
        if (strlen(text) >= sizeof(copy))
                return eng_error_set(error, -EINVAL, "test_faults is longer than %u bytes", TEXT_MAX - 1);
        memcpy(copy, text, strlen(text) + 1);
        for (one = strtok_r(copy, ";", &save); one != NULL && rv == 0; one = strtok_r(NULL, ";", &save))
                rv = add_filter(&top, inner, one, error);
        while (rv != 0 && top != inner) { /* inner stays the caller's */
                struct eng_filter *filter = (struct eng_filter *)top;

                top = filter->inner;
                free(filter);
        }
        *out = top;
        return rv;
}
