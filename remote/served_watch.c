/*
 * served_watch.c - what a drive server says of a drive beside the answers of operations: INFO, for
 * an opening, and WATCH, which is answered when there is something to say, or after a second.
 *
 * Superseded values are kept until the next WATCH says that they have come: an answer may be lost.
 *
 * owner: the loop of the drive.
 */
#include "remote/drive_server.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_u64(const struct served_request *r, uint64_t *out)
{
        if (r->request->body_len != sizeof(struct rem_head) + sizeof(*out) || r->request->bulk_len != 0)
                return false;
        memcpy(out, r->request->body + sizeof(struct rem_head), sizeof(*out));
        return true;
}

/* ---- INFO ------------------------------------------------------------------------------------ */

static void info_facts(struct rem_served *served, struct rem_facts *facts)
{
        const char *damage = eng_drive_damage(served->drive);

        memset(facts, 0, sizeof(*facts));
        facts->identity = served->identity;
        facts->log_lost = eng_drive_log_lost(served->drive);
        if (damage != NULL)
                snprintf(facts->damage, sizeof(facts->damage), "%s", damage);
        if (eng_drive_epoch(served->drive, facts->epoch, sizeof(facts->epoch), &facts->epoch_len, &facts->history) != 0)
                facts->epoch_len = 0;
}

void served_facts_say(struct served_request *r, const struct rem_before *before)
{
        struct rem_facts *facts = malloc(sizeof(*facts));
        struct rem_prefix prefix;
        size_t at = sizeof(prefix);

        r->more = malloc(sizeof(prefix) + sizeof(*before) + REM_INFO_MAX);
        if (r->more != NULL && facts != NULL) {
                info_facts(r->served, facts);
                served_prefix(r->served, &prefix);
                memcpy(r->more, &prefix, sizeof(prefix));
                if (before != NULL) {
                        memcpy(r->more + at, before, sizeof(*before));
                        at += sizeof(*before);
                }
                r->answer.body = r->more;
                r->answer.body_len = (uint32_t)(at + rem_facts_write(facts, r->more + at));
                r->status = REM_DONE;
                served_answer(r);
        } else {
                served_refuse(r, REM_NO_MEMORY);
        }
        free(facts);
}

static void info_has_features(struct eng_op *op)
{
        struct served_request *r = container_of(op, struct served_request, op);

        if (op->result != 0) {
                served_refuse(r, REM_BUSY);
                return;
        }
        r->served->identity.features |= op->features.bits;
        served_facts_say(r, NULL);
}

void served_info(struct lp_msg *msg)
{
        struct served_request *r = container_of(msg, struct served_request, msg);
        struct rem_served *served = r->served;
        uint64_t features;
        enum rem_status status = read_u64(r, &features) && rem_is_known(0, features) ? REM_DONE : REM_BAD;

        if (status == REM_DONE && (r->head.flags & REM_BEGIN) != 0)
                status = served_admit(served, r, true);
        if (status != REM_DONE) {
                served_refuse(r, status);
                return;
        }
        if ((r->head.flags & REM_BEGIN) == 0 || (features & ~served->identity.features) == 0) {
                served_facts_say(r, NULL);
                return;
        }
        r->op = (struct eng_op){
                .kind = ENG_OP_FEATURES, .flags = ENG_OP_RESERVE, .term = r->head.term, .done = info_has_features};
        r->op.features.bits = features;
        eng_drive_submit(served->drive, &r->op);
}

/* ---- superseded values ----------------------------------------------------------------------- */

static void report_drop(struct rem_served *served)
{
        struct rem_report *report = STAILQ_FIRST(&served->reports);

        STAILQ_REMOVE_HEAD(&served->reports, link);
        served->report_bytes -= report->value->len;
        served->report_first++;
        eng_buf_unref(report->value);
        free(report);
}

void served_reports_free(struct rem_served *served)
{
        while (!STAILQ_EMPTY(&served->reports))
                report_drop(served);
}

void rem_served_superseded(void *arg, struct eng_drive *drive, struct eng_buf *const values[], unsigned n)
{
        struct rem_served *served = arg;
        unsigned i;

        assert(lp_self() == served->owner);
        for (i = 0; i < n && served->report_bytes + values[i]->len <= REM_REPORT_BYTES; i++) {
                struct rem_report *report = malloc(sizeof(*report));

                if (report == NULL)
                        break;
                report->value = eng_buf_ref(values[i]);
                served->report_bytes += values[i]->len;
                STAILQ_INSERT_TAIL(&served->reports, report, link);
        }
        served_watch_kick(served);
}

void rem_served_failed(void *arg, struct eng_drive *drive, const char *text)
{
        served_watch_kick(arg);
}

/* Values for an answer; NULL: none, or no memory now. */
static struct eng_buf *pack_reports(struct rem_served *served, uint32_t room, uint32_t *count)
{
        struct rem_report *report;
        struct eng_buf *buf;
        size_t bytes = 0;
        uint8_t *to;

        *count = 0;
        STAILQ_FOREACH (report, &served->reports, link) {
                if (bytes + sizeof(uint32_t) + report->value->len > room)
                        break;
                bytes += sizeof(uint32_t) + report->value->len;
                ++*count;
        }
        buf = *count > 0 ? eng_buf_new(bytes) : NULL;
        if (buf == NULL) {
                *count = 0;
                return NULL;
        }
        to = buf->data;
        STAILQ_FOREACH (report, &served->reports, link) {
                if (to == buf->data + bytes)
                        break;
                memcpy(to, &report->value->len, sizeof(uint32_t));
                memcpy(to + sizeof(uint32_t), report->value->data, report->value->len);
                to += sizeof(uint32_t) + report->value->len;
        }
        return buf;
}

/* ---- WATCH ----------------------------------------------------------------------------------- */

static void watch_say(struct served_request *r)
{
        struct rem_served *served = r->served;
        struct eng_drive_info info;
        struct rem_prefix prefix;
        uint32_t values;

        _Static_assert(sizeof(prefix) + REM_STATE_MAX <= REM_SMALL_ANSWER, "small");
        eng_drive_info(served->drive, &info);
        served_prefix(served, &prefix);
        r->values = pack_reports(served, r->request->room, &values);
        memcpy(r->small, &prefix, sizeof(prefix));
        r->answer.body = r->small;
        r->answer.body_len = (uint32_t)(sizeof(prefix) + rem_state_write(&info, served->report_first, values,
                                                                         r->small + sizeof(prefix)));
        if (r->values != NULL) {
                r->answer.bulk[0] = (struct iovec){r->values->data, r->values->len};
                r->answer.bulk_count = 1;
        }
        r->status = REM_DONE;
        served_answer(r);
}

static struct served_request *watch_take_off(struct rem_served *served)
{
        struct served_request *r = served->watch;

        served->watch = NULL;
        lp_timer_stop(served->owner, &served->watch_timer);
        return r;
}

void served_watch_kick(struct rem_served *served)
{
        assert(lp_self() == served->owner);
        if (served->watch != NULL)
                watch_say(watch_take_off(served));
}

void served_watch_end(struct rem_served *served, enum rem_status status)
{
        if (served->watch != NULL)
                served_refuse(watch_take_off(served), status);
}

static void watch_time_over(struct lp_timer *timer)
{
        served_watch_kick(container_of(timer, struct rem_served, watch_timer));
}

void served_watch(struct lp_msg *msg)
{
        struct served_request *r = container_of(msg, struct served_request, msg);
        struct rem_served *served = r->served;
        uint64_t next;
        enum rem_status status = read_u64(r, &next) ? served_admit(served, r, false) : REM_BAD;

        if (status != REM_DONE) {
                served_refuse(r, status);
                return;
        }
        served_watch_end(served, REM_OLD_SESSION);
        while (!STAILQ_EMPTY(&served->reports) && served->report_first < next)
                report_drop(served);
        served->watch = r;
        if (!STAILQ_EMPTY(&served->reports) || atomic_load(&served->server->stopped)) {
                served_watch_kick(served);
                return;
        }
        served->watch_timer.expired = watch_time_over;
        lp_timer_start(served->owner, &served->watch_timer, REM_WATCH_NS);
}
