/*
 * admin_trace.c - the newest trace records of all loops (loop_trace.h), in the order of their
 * times. On the admin thread.
 *
 * Records have numbers alone: no names of buckets or objects, and no secrets.
 */
#include "server/admin_private.h"

#include "engine.h"
#include "gateway.h"
#include "loop_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_MOST 10000u /* of one answer: the newest */
#define ID_DIGITS   16u
#define RESULT_MOST 4095

/* owner: one call */
struct dump {
        struct lp_trace_record *records;
        size_t count, room;
        uint64_t request; /* 0: of all */
};

static int by_time(const void *a, const void *b)
{
        const struct lp_trace_record *one = a, *other = b;

        return one->time < other->time ? -1 : one->time > other->time;
}

static void keep_wanted(struct dump *dump, size_t added)
{
        size_t end = dump->count + added, i;

        if (dump->request == 0) {
                dump->count = end;
                return;
        }
        for (i = dump->count; i < end; i++)
                if (dump->records[i].request == dump->request)
                        dump->records[dump->count++] = dump->records[i];
}

static int take_ring(struct dump *dump, unsigned ring)
{
        struct lp_trace_record *more;

        if (dump->room - dump->count < LP_TRACE_RECORDS) {
                more = reallocarray(dump->records, dump->count + LP_TRACE_RECORDS, sizeof(*more));
                if (more == NULL)
                        return -ENOMEM;
                dump->records = more;
                dump->room = dump->count + LP_TRACE_RECORDS;
        }
        keep_wanted(dump, lp_trace_read(ring, dump->records + dump->count, LP_TRACE_RECORDS));
        return 0;
}

/* By name where it has one. A result is a negative errno. */
static void set_word(json_t *event, const char *name, enum lp_trace_event kind, unsigned word, uint64_t value)
{
        char text[LP_TRACE_WORD];
        json_t *shown;

        if (name[0] == '\0')
                return;
        if (eng_trace_word(kind, word, value, text) || gw_trace_word(kind, word, value, text))
                shown = json_string(text);
        else if ((int64_t)value < -RESULT_MOST)
                shown = json_sprintf("%016llX", (unsigned long long)value); /* an id */
        else
                shown = json_integer((json_int_t)value);
        json_object_set_new(event, name, shown);
}

static json_t *show_record(const struct lp_trace_record *record)
{
        const struct lp_trace_text *text;
        char loop[24];
        json_t *event;

        if (record->event == LP_TRACE_NONE || record->event >= LP_TRACE_COUNT)
                return NULL;
        text = &lp_trace_texts[record->event];
        lp_trace_ring_name(record->ring, loop);
        event = json_pack("{s:o, s:s, s:o, s:s}", "time_ns", srv_admin_number(record->time), "loop", loop, "request",
                          record->request == 0 ? json_null()
                                               : json_sprintf("%016llX", (unsigned long long)record->request),
                          "event", text->name);
        set_word(event, text->a, record->event, 0, record->a);
        set_word(event, text->b, record->event, 1, record->b);
        return event;
}

static json_t *show_dump(struct dump *dump)
{
        json_t *events = json_array();
        size_t i = dump->count > EVENTS_MOST ? dump->count - EVENTS_MOST : 0;

        if (dump->count > 0)
                qsort(dump->records, dump->count, sizeof(*dump->records), by_time);
        for (; i < dump->count; i++)
                json_array_append_new(events, show_record(&dump->records[i]));
        return json_pack("{s:o, s:o, s:b, s:o}", "now_ns", srv_admin_number(lp_clock()), "now_ms",
                         srv_admin_number((uint64_t)lp_wall_ms()), "truncated", dump->count > EVENTS_MOST, "events",
                         events);
}

/* ?request=ID, as x-amz-request-id shows it, or nothing. */
static bool take_trace_query(const struct admin_request *request, uint64_t *out)
{
        struct admin_parameters *p = srv_admin_parameters(request);
        char digits[ID_DIGITS + 1];
        bool fine;

        *out = 0;
        if (p == NULL)
                return false;
        fine = p->query.count == 0;
        if (p->query.count == 1 && srv_admin_parameter(p, "request", digits, sizeof(digits)) &&
            strspn(digits, "0123456789abcdefABCDEF") == ID_DIGITS) {
                *out = strtoull(digits, NULL, 16);
                fine = *out != 0;
        }
        free(p);
        return fine;
}

struct admin_answer srv_admin_get_trace(struct admin_request *request)
{
        struct dump dump = {.records = NULL};
        struct admin_answer answer;
        unsigned rings = lp_trace_rings(), i;
        int rv = 0;

        if (!take_trace_query(request, &dump.request))
                return srv_admin_error(400, "BadRequest", "request is an x-amz-request-id: 16 hexadecimal digits");
        for (i = 0; rv == 0 && i < rings; i++)
                rv = take_ring(&dump, i);
        answer = rv == 0 ? srv_admin_json(200, show_dump(&dump)) : srv_admin_error(503, "OutOfMemory", "out of memory");
        free(dump.records);
        return answer;
}
