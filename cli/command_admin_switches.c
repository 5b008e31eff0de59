/*
 * command_admin_switches.c - `millrace admin read-only …` and `millrace admin maintenance …`: switches of the daemon. Main thread only.
 */
#include "command_admin.h"

#include <string.h>

static void admin_switch_say(const char *name, const json_t *state)
{
        bool on = cli_json_true(state, "on"), by_setting = cli_json_true(state, "by_setting");

        printf("%-12s %s%s\n", name, on ? "on" : "off", by_setting ? " (the configuration says so)" : "");
        if (!cli_json_true(state, "kept"))
                printf("%-12s no drive has stored it yet: a restart may find what was before\n", "NOT KEPT");
}

/* What of the requests that were let in before is not over. */
static void admin_switch_say_under_way(const json_t *state, const char *member, const char *what)
{
        unsigned long long count = cli_json_number(state, member);

        if (cli_json_true(state, "on"))
                printf("%-12s %llu\n", what, count);
}

/* state: "on", "off"; NULL: asks. read_only: that switch, else maintenance. */
static int admin_switch_call(struct cli_call *call, bool read_only, const char *state)
{
        const char *path = read_only ? "/admin/v1/read-only" : "/admin/v1/maintenance";
        const char *const query[] = {"state", state, NULL};
        json_t *answer;
        int status = cli_admin_ask(call, state != NULL ? "POST" : "GET", path, state != NULL ? query : NULL, 200, 200, &answer);

        if (status != CLI_OK)
                return status;
        if (call->json) {
                cli_json_print(answer);
        } else if (!call->quiet) {
                admin_switch_say(read_only ? "read-only" : "maintenance", answer);
                admin_switch_say_under_way(answer, read_only ? "changes_under_way" : "requests_under_way", "under way");
        }
        if (state == NULL && cli_json_true(answer, "on"))
                status = CLI_FAILED;
        json_decref(answer);
        return status;
}

int cli_admin_read_only_on(struct cli_call *call)
{
        return admin_switch_call(call, true, "on");
}

int cli_admin_read_only_off(struct cli_call *call)
{
        return admin_switch_call(call, true, "off");
}

int cli_admin_read_only_status(struct cli_call *call)
{
        return admin_switch_call(call, true, NULL);
}

int cli_admin_maintenance_on(struct cli_call *call)
{
        return admin_switch_call(call, false, "on");
}

int cli_admin_maintenance_off(struct cli_call *call)
{
        return admin_switch_call(call, false, "off");
}

int cli_admin_maintenance_status(struct cli_call *call)
{
        return admin_switch_call(call, false, NULL);
}
