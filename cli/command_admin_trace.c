/*
 * command_admin_trace.c - `millrace admin trace`: what happened on a daemon's loops last, one event
 * a line. Main thread only.
 */
#include "command_admin.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define TRACE_PATH "/admin/v1/trace"
#define NS_PER_MS  1000000ull

/* Wall clock of an event, to the microsecond, local time. */
static void format_time(char *out, size_t size, uint64_t wall_us)
{
        time_t seconds = (time_t)(wall_us / 1000000u);
        struct tm local;
        size_t len;

        localtime_r(&seconds, &local);
        len = strftime(out, size, "%H:%M:%S", &local);
        snprintf(out + len, size - len, ".%06u", (unsigned)(wall_us % 1000000u));
}

static void show_words(json_t *event)
{
        static const char *const head[] = {"time_ns", "loop", "request", "event"};
        const char *name;
        json_t *value;

        json_object_foreach(event, name, value)
        {
                bool shown = false;

                for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
                        shown = shown || strcmp(name, head[i]) == 0;
                if (shown)
                        continue;
                if (json_is_string(value))
                        printf(" %s=%s", name, json_string_value(value));
                else
                        printf(" %s=%" JSON_INTEGER_FORMAT, name, json_integer_value(value));
        }
        putchar('\n');
}

static void show_events(const json_t *answer)
{
        uint64_t now_ns = cli_json_number(answer, "now_ns"), now_us = cli_json_number(answer, "now_ms") * 1000u;
        uint64_t before = 0;
        json_t *event;
        size_t i;

        printf("%-15s %10s  %-10s %-16s  %s\n", "time", "+us", "loop", "request", "event");
        json_array_foreach(json_object_get(answer, "events"), i, event)
        {
                uint64_t at = cli_json_number(event, "time_ns");
                const char *request = cli_json_text(event, "request");
                char when[32];

                format_time(when, sizeof(when), now_us - (now_ns > at ? now_ns - at : 0) / 1000u);
                printf("%-15s %10.1f  %-10s %-16s  %s", when,
                       before == 0 || at < before ? 0.0 : (double)(at - before) / 1000.0, cli_json_text(event, "loop"),
                       request[0] != '\0' ? request : "-", cli_json_text(event, "event"));
                show_words(event);
                before = at;
        }
        if (cli_json_true(answer, "truncated"))
                cli_error("there is more: only the newest events are shown");
}

int cli_admin_trace(struct cli_call *call)
{
        const char *const query[] = {"request", call->request, NULL};
        json_t *answer;
        int status;

        status = cli_admin_ask(call, "GET", TRACE_PATH, call->request != NULL ? query : NULL, 200, 200, &answer);
        if (status != CLI_OK)
                return status;
        if (call->json)
                cli_json_print(answer);
        else
                show_events(answer);
        if (json_array_size(json_object_get(answer, "events")) == 0) {
                cli_error(call->request != NULL ? "no event of this request is kept any more" : "there are no events");
                status = CLI_FAILED;
        }
        json_decref(answer);
        return status;
}
