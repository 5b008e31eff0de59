/*
 * command_admin_lock.c - `millrace admin lock-clock`: the clock by which retention ends, and the
 * operator's word about the time. Main thread only.
 */
#include "command_admin.h"
#include "moments.h"

#include "s3.h"

#include <inttypes.h>
#include <string.h>

#define LOCK_CLOCK_PATH "/admin/v1/lock-clock"
#define MS_PER_HOUR     3600000.0

static void lock_clock_line(const char *name, const json_t *state, const char *member)
{
        char when[S3_DATE_ISO_SIZE];

        s3_date_format_iso((int64_t)cli_json_number(state, member), when);
        printf("%-11s %s\n", name, when);
}

static void lock_clock_show(const json_t *state)
{
        char since[S3_DATE_ISO_SIZE];

        s3_date_format_iso((int64_t)cli_json_number(state, "frozen_since_ms"), since);
        lock_clock_line("lock clock", state, "lock_ms");
        lock_clock_line("wall clock", state, "wall_ms");
        if (!cli_json_true(state, "in_use"))
                printf("%-11s not in use: no bucket has or had versions\n", "state");
        else if (cli_json_true(state, "frozen"))
                printf("%-11s FROZEN since the start at %s: locks end late until the time is confirmed\n", "state",
                       since);
        else
                printf("%-11s in use\n", "state");
        printf("%-11s %.1f h that the next starts may advance it\n", "budget",
               (double)cli_json_number(state, "budget_ms") / MS_PER_HOUR);
}

/* -1: none was given. A time so and so long ago would be the word of this machine, not of who types. */
static int lock_clock_take(struct cli_call *call, int64_t *ms)
{
        *ms = -1;
        if (call->confirm == NULL)
                return CLI_OK;
        if (strchr(call->confirm, '-') == NULL || cli_moment_parse(call->confirm, cli_now_ms(), true, ms) != 0 ||
            *ms < 0)
                return cli_usage(call, "--confirm takes a date and time, 2026-01-31T12:00:00Z: %s", call->confirm);
        return CLI_OK;
}

int cli_admin_lock_clock(struct cli_call *call)
{
        char number[24];
        const char *const query[] = {"confirm", number, NULL};
        json_t *state;
        int64_t ms;
        int status = lock_clock_take(call, &ms);

        if (status != CLI_OK)
                return status;
        snprintf(number, sizeof(number), "%" PRId64, ms);
        status = cli_admin_ask(call, ms < 0 ? "GET" : "POST", LOCK_CLOCK_PATH, ms < 0 ? NULL : query, 200, 200, &state);
        if (status != CLI_OK)
                return status;
        if (call->json)
                cli_json_print(state);
        else if (!call->quiet)
                lock_clock_show(state);
        if (cli_json_true(state, "frozen"))
                status = CLI_FAILED;
        json_decref(state);
        return status;
}
