/*
 * command_admin_switches.c - `millrace admin read-only …` and `millrace admin maintenance …`:
 * switches of the daemon. Which one, and what to do with it, is in the name of the command. Main
 * thread only.
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

int cli_admin_switch(struct cli_call *call)
{
        const char *name = call->command->name, *action = strrchr(name, ' ') + 1;
        bool read_only = strstr(name, "read-only") != NULL, asks = strcmp(action, "status") == 0;
        const char *path = read_only ? "/admin/v1/read-only" : "/admin/v1/maintenance";
        const char *const query[] = {"state", action, NULL};
        json_t *answer;
        int status = cli_admin_ask(call, asks ? "GET" : "POST", path, asks ? NULL : query, 200, 200, &answer);

        if (status != CLI_OK)
                return status;
        if (call->json) {
                cli_json_print(answer);
        } else if (!call->quiet) {
                admin_switch_say(read_only ? "read-only" : "maintenance", answer);
                admin_switch_say_under_way(answer, read_only ? "changes_under_way" : "requests_under_way", "under way");
        }
        if (asks && cli_json_true(answer, "on"))
                status = CLI_FAILED;
        json_decref(answer);
        return status;
}
