/*
 * remote_watch.c - WATCH: a question that is always with the drive server, which answers when it has
 * something to say of the drive: statistics, values that were superseded, failure.
 *
 * owner: the owner loop of the drive. It ends when the drive is given up.
 */
#include "remote/remote_drive.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_SOON_NS  (10ull * 1000 * 1000)
#define WATCH_LATER_NS (250ull * 1000 * 1000)  /* it was not answered, or refused */
#define WATCH_LATE_NS  (5000ull * 1000 * 1000) /* a drive server answers after a second */
#define VALUES_AT_ONCE 64u

static void watch_wait_over(struct lp_timer *timer)
{
        remote_watch_send(container_of(timer, struct remote_drive, watch_again));
}

static void watch_wait(struct remote_drive *d, uint64_t ns)
{
        d->watch_again.expired = watch_wait_over;
        lp_timer_start(d->drive.owner, &d->watch_again, ns);
}

/* ---- superseded values ----------------------------------------------------------------------- */

static void values_tell(struct remote_drive *d, struct eng_buf **values, unsigned n)
{
        unsigned i;

        if (n > 0 && d->options.superseded != NULL)
                d->options.superseded(d->options.arg, &d->drive, values, n);
        for (i = 0; i < n; i++)
                eng_buf_unref(values[i]);
}

/* One of an answer; its end, or 0: it does not lie within it. */
static size_t value_at(const uint8_t *bytes, size_t len, size_t at, uint32_t *size)
{
        if (len - at < sizeof(*size))
                return 0;
        memcpy(size, bytes + at, sizeof(*size));
        at += sizeof(*size);
        return *size > len - at ? 0 : at + *size;
}

/*
 * Those that are new here, one after the other. One that makes no sense is left out: it would come
 * again and again. Without memory for one, it comes again with the next answer.
 */
static int values_take(struct remote_drive *d, uint64_t first, uint32_t count, const uint8_t *bytes, size_t len)
{
        struct eng_buf *values[VALUES_AT_ONCE];
        size_t at = 0, end;
        uint32_t size, i;
        unsigned n = 0;
        int rv = 0;

        for (i = 0; i < count && rv == 0; i++, at = end) {
                end = value_at(bytes, len, at, &size);
                if (end == 0) {
                        rv = -EBADMSG;
                        break;
                }
                if (first + i < d->next_value)
                        continue; /* the answer before told of it */
                if (eng_value_check(bytes + end - size, size) == 0) {
                        values[n] = eng_buf_new(size);
                        if (values[n] == NULL) {
                                rv = -ENOMEM;
                                break;
                        }
                        memcpy(values[n++]->data, bytes + end - size, size);
                }
                d->next_value = first + i + 1;
                if (n == VALUES_AT_ONCE) {
                        values_tell(d, values, n);
                        n = 0;
                }
        }
        values_tell(d, values, n);
        return rv == 0 && at != len ? -EBADMSG : rv;
}

/* ---- answers --------------------------------------------------------------------------------- */

static int watch_answer(struct remote_drive *d, uint32_t *values)
{
        const struct net_call *call = &d->watch;
        struct eng_drive_info info;
        struct rem_prefix prefix;
        struct rem_state state;
        int rv;

        if (!remote_prefix_read(call, &prefix))
                return -EBADMSG;
        if (prefix.incarnation != d->incarnation)
                return 0; /* of one before */
        pthread_mutex_lock(&d->lock);
        info = d->info;
        pthread_mutex_unlock(&d->lock);
        rv = rem_state_read(call->answer + sizeof(prefix), call->answer_len - sizeof(prefix), &state, &info);
        if (rv != 0)
                return rv;
        remote_take_prefix(d, &prefix);
        pthread_mutex_lock(&d->lock);
        d->info = info;
        pthread_mutex_unlock(&d->lock);
        if (state.failed)
                remote_has_failed(d, info.reason);
        if (state.starved && !d->full_told && d->options.full != NULL)
                d->options.full(d->options.arg, &d->drive);
        d->full_told = state.starved;
        *values = state.values;
        return values_take(d, state.first, state.values, d->watch_room, call->answer_bulk);
}

static void watch_called(struct net_call *call)
{
        struct remote_drive *d = container_of(call, struct remote_drive, watch);
        uint32_t values = 0;
        int rv = -EHOSTUNREACH;

        assert(lp_self() == d->drive.owner);
        if (!remote_net_ended(d))
                return;
        if (call->outcome == NET_ANSWERED)
                remote_heard(d);
        if (call->outcome == NET_ANSWERED && call->status == (int32_t)REM_DONE)
                rv = watch_answer(d, &values);
        else if (call->outcome == NET_ANSWERED && call->status != (int32_t)REM_NO_MEMORY &&
                 call->status != (int32_t)REM_BUSY)
                remote_refused(d, d->watch_begun, (enum rem_status)(uint32_t)call->status);
        if (call->outcome == NET_ANSWERED && call->status == (int32_t)REM_DEPOSED)
                remote_deposed_by(d->client, call);
        if (rv == -EBADMSG)
                remote_count(d->client, REM_COUNT_lies);
        watch_wait(d, rv == 0 && values > 0 ? 0 : rv == 0 ? WATCH_SOON_NS : WATCH_LATER_NS);
}

void remote_watch_send(struct remote_drive *d)
{
        struct rem_head head;

        if (atomic_load(&d->given_up)) {
                d->watching = false;
                return;
        }
        if (d->watch_room == NULL)
                d->watch_room = malloc(REM_ROOM_MOST);
        if (d->watch_room == NULL) {
                watch_wait(d, WATCH_LATER_NS);
                return;
        }
        remote_head(d, &head);
        d->watch_begun = d->begun;
        memcpy(d->watch_body, &head, sizeof(head));
        memcpy(d->watch_body + sizeof(head), &d->next_value, sizeof(d->next_value));
        memset(&d->watch, 0, sizeof(d->watch));
        d->watch.peer = d->peer;
        d->watch.link = NET_CONTROL;
        d->watch.lane = (uint16_t)(2 * d->lane);
        d->watch.operation = REM_WATCH;
        d->watch.deadline = lp_now(d->drive.owner) + WATCH_LATE_NS;
        d->watch.body = d->watch_body;
        d->watch.body_len = sizeof(d->watch_body);
        d->watch.room[0] = (struct iovec){d->watch_room, REM_ROOM_MOST};
        d->watch.room_count = 1;
        d->watch.done = watch_called;
        remote_net_call(d, &d->watch);
}
