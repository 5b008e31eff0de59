/*
 * admin_lock.c - what the admin listener answers about the lock clock, by which retention ends:
 * /admin/v1/lock-clock (docs/design/bucket-rules.md, L2, L3 and L7).
 *
 * On the admin thread. A confirmation is the engine's work on a loop, and waited for at most a few
 * seconds; the daemon's log says when it is in force (health_log.c).
 */
#include "server/admin_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOCK_ANSWER_S 5

/*
 * The confirmation under way: one at a time. Static: an answer that comes late finds it still there.
 * msg, store and wall_ms are the loop's while it is pending.
 */
static struct lock_confirming {
        struct lp_msg msg;
        struct eng_store *store;
        int64_t wall_ms;
        pthread_mutex_t lock; /* over the members below */
        pthread_cond_t answered;
        bool pending;
        int rv;
} lock_confirming = {.lock = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};

static void lock_confirmed(void *arg, int rv)
{
        struct lock_confirming *confirming = arg;

        pthread_mutex_lock(&confirming->lock);
        confirming->rv = rv;
        confirming->pending = false;
        pthread_cond_signal(&confirming->answered);
        pthread_mutex_unlock(&confirming->lock);
}

static void lock_confirm_start(struct lp_msg *msg)
{
        struct lock_confirming *confirming = container_of(msg, struct lock_confirming, msg);

        eng_lock_confirm(confirming->store, confirming->wall_ms, lock_confirmed, confirming);
}

/* What eng_lock_confirm() said. -EALREADY: another one is under way; -ETIMEDOUT: it has not answered yet. */
static int lock_confirm(struct srv_admin *admin, int64_t wall_ms)
{
        struct lock_confirming *confirming = &lock_confirming;
        struct timespec until;
        int rv = 0;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += LOCK_ANSWER_S;
        pthread_mutex_lock(&confirming->lock);
        if (confirming->pending) {
                pthread_mutex_unlock(&confirming->lock);
                return -EALREADY;
        }
        confirming->pending = true;
        confirming->store = admin->source.store;
        confirming->wall_ms = wall_ms;
        confirming->msg.run = lock_confirm_start;
        lp_post(admin->source.loops[0], &confirming->msg);
        while (confirming->pending && rv == 0)
                rv = pthread_cond_clockwait(&confirming->answered, &confirming->lock, CLOCK_MONOTONIC, &until);
        rv = confirming->pending ? -ETIMEDOUT : confirming->rv;
        pthread_mutex_unlock(&confirming->lock);
        return rv;
}

static const struct refusal {
        int rv;
        unsigned status;
        const char *code, *message;
} refusals[] = {
        {-ENODATA, 409, "NotInUse",
         "no bucket of this store has or had versions: there are no locks, and there is no time to confirm"},
        {-EINVAL, 400, "BadRequest", "the time is before 1970"},
        {-EALREADY, 409, "AlreadyRunning", "another confirmation is under way"},
        {-EROFS, 503, "NotWritable", "the store takes no changes, so the drives cannot keep the time"},
        {-EHOSTDOWN, 503, "NotReady", "the store is not ready"},
        {-ETIMEDOUT, 503, "NoAnswerYet",
         "the drives have not kept the time yet, and may still do so: look at the lock clock again"},
};

static struct admin_answer lock_refused(const struct srv_admin *admin, int rv)
{
        char time[S3_DATE_ISO_SIZE], message[160];
        struct eng_lock_state state;
        size_t i;

        if (rv == -ESTALE) {
                eng_lock_read(admin->source.store, &state);
                s3_date_format_iso(state.wall_ms, time);
                snprintf(message, sizeof(message),
                         "the daemon's wall clock shows %s, more than a minute from the time given: set the wrong one "
                         "right",
                         time);
                return srv_admin_error(409, "ClocksDiffer", message);
        }
        for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
                if (refusals[i].rv == rv)
                        return srv_admin_error(refusals[i].status, refusals[i].code, refusals[i].message);
        return srv_admin_error(503, "Unavailable", strerror(-rv));
}

struct admin_answer srv_admin_get_lock_clock(struct admin_request *request)
{
        struct eng_lock_state state;

        eng_lock_read(request->admin->source.store, &state);
        if (!state.begun)
                return lock_refused(request->admin, -EHOSTDOWN);
        return srv_admin_json(200, json_pack("{s:b, s:b, s:I, s:I, s:I, s:I}", "in_use", state.in_use, "frozen",
                                             state.frozen, "frozen_since_ms", (json_int_t)state.frozen_ms, "lock_ms",
                                             (json_int_t)state.now_ms, "wall_ms", (json_int_t)state.wall_ms,
                                             "budget_ms", (json_int_t)state.budget_ms));
}

struct admin_answer srv_admin_post_lock_clock(struct admin_request *request)
{
        struct admin_parameters *p = srv_admin_parameters(request);
        bool given;
        uint64_t wall_ms;
        int rv;

        if (p == NULL)
                return srv_admin_error(400, "BadRequest", "the query is malformed");
        given = srv_admin_parameter_number(p, "confirm", &wall_ms) && wall_ms <= INT64_MAX;
        free(p);
        if (!given)
                return srv_admin_error(400, "BadRequest",
                                       "confirm=MILLISECONDS must be given, since 1970: the time that it is");
        rv = lock_confirm(request->admin, (int64_t)wall_ms);
        return rv == 0 ? srv_admin_get_lock_clock(request) : lock_refused(request->admin, rv);
}
