/*
 * command_admin_drives.c - `millrace admin drive …`, `heal …` and `scrub …`. Main thread only.
 */
#include "command_admin.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define DRIVES_PATH "/admin/v1/drives"
#define HEAL_PATH   "/admin/v1/heal"
#define SCRUB_PATH  "/admin/v1/scrub"
#define SLOT_DIGITS 2u

/* ---- drives ---------------------------------------------------------------------------------- */

int cli_admin_drive_status(struct cli_call *call)
{
        json_t *answer, *drive;
        bool all_in = true;
        size_t i;
        int status = cli_admin_ask(call, "GET", DRIVES_PATH, NULL, 200, 200, &answer);

        if (status != CLI_OK)
                return status;
        if (call->json) {
                cli_json_print(answer);
                json_decref(answer);
                return CLI_OK;
        }
        printf("%4s  %-8s %10s %10s  %-32s  %s\n", "slot", "state", "size", "free", "id", "folder");
        json_array_foreach(json_object_get(answer, "drives"), i, drive)
        {
                char total[24], left[24], path[1024], reason[256];
                const char *why = cli_json_text(drive, "reason");
                bool in = strcmp(cli_json_text(drive, "state"), "in") == 0, filling = cli_json_true(drive, "filling");
                bool leaving = cli_json_true(drive, "leaving"), removed = strcmp(cli_json_text(drive, "state"), "removed") == 0;

                all_in = all_in && (in || removed) && !filling && !leaving;
                cli_format_bytes(total, sizeof(total), cli_json_number(drive, "total_bytes"));
                cli_format_bytes(left, sizeof(left), cli_json_number(drive, "free_bytes"));
                printf("%4llu  %-8s %10s %10s  %-32s  %s%s%s%s\n", (unsigned long long)cli_json_number(drive, "slot"),
                       cli_json_text(drive, "state"), total, left, cli_json_text(drive, "id"),
                       cli_printable(stdout, cli_json_text(drive, "path"), path, sizeof(path)), why[0] != '\0' ? ": " : "",
                       cli_printable(stdout, why, reason, sizeof(reason)), leaving ? " (being emptied)" : filling ? " (being filled)" : "");
        }
        json_decref(answer);
        return all_in ? CLI_OK : CLI_FAILED;
}

int cli_admin_wait(struct cli_call *call, const char *path, uint64_t number, bool *forgotten, json_t **out)
{
        static const struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};
        char text[24];
        const char *const query[] = {"number", text, NULL};

        snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
        for (;;) {
                int status = cli_admin_ask(call, "GET", path, query, 200, forgotten != NULL ? 404 : 200, out);

                const bool unknown = status == CLI_OK && json_object_get(*out, "error") != NULL;

                if (!unknown && (status != CLI_OK || !cli_json_true(*out, "running")))
                        return status;
                json_decref(*out);
                *out = NULL;
                if (unknown) {
                        *forgotten = true;
                        return CLI_FAILED;
                }
                if (mr_client_canceled(call->client)) {
                        cli_error("interrupted; the daemon goes on");
                        return CLI_FAILED;
                }
                nanosleep(&pause, NULL);
        }
}

/* Has the daemon do it and waits until it is done or begun. The slot it was done to. */
static int admin_drives_change(struct cli_call *call, const char *const query[], unsigned long long *slot)
{
        json_t *answer;
        int status = cli_admin_ask(call, "POST", DRIVES_PATH, query, 202, 202, &answer);

        if (status == CLI_OK) {
                uint64_t number = cli_json_number(answer, "number");

                json_decref(answer);
                status = cli_admin_wait(call, DRIVES_PATH, number, NULL, &answer);
        }
        if (status != CLI_OK)
                return status;
        *slot = cli_json_number(answer, "slot");
        if (!cli_json_true(answer, "taken")) {
                cli_error("%s: %s", query[3], cli_json_text(answer, "reason"));
                status = CLI_FAILED;
        }
        json_decref(answer);
        return status;
}

static bool is_slot(const char *text)
{
        return text[0] != '\0' && strlen(text) <= SLOT_DIGITS && strspn(text, "0123456789") == strlen(text);
}

/* folder NULL: where it was. */
static int attach(struct cli_call *call, const char *action, const char *slot, const char *folder)
{
        const char *const query[] = {"action", action, "slot", slot, folder != NULL ? "path" : NULL, folder, NULL};
        unsigned long long number;

        if (!is_slot(slot))
                return cli_usage(call, "SLOT is a number (see admin drive status)");
        if (folder != NULL && folder[0] != '/')
                return cli_usage(call, "FOLDER is a whole path on the daemon's machine");
        return admin_drives_change(call, query, &number);
}

/* In a cluster. */
static int add_of_node(struct cli_call *call)
{
        const char *const query[] = {"action", "add", "node", call->argv[0], call->argc > 1 ? "id" : NULL, call->argc > 1 ? call->argv[1] : NULL, NULL};
        unsigned long long slot;
        int status = admin_drives_change(call, query, &slot);

        if (status == CLI_OK && !call->quiet)
                printf("new drives have slots from %llu on, and are being brought up to date (millrace admin drive status).\n", slot);
        return status;
}

int cli_admin_drive_add(struct cli_call *call)
{
        const char *const query[] = {"action", "add", "path", call->argv[0], NULL};
        unsigned long long slot;
        char name[1024];
        int status;

        if (call->argv[0][0] != '/' && strchr(call->argv[0], '/') == NULL)
                return add_of_node(call);
        if (call->argv[0][0] != '/' || call->argc > 1)
                return cli_usage(call, "FOLDER is a whole path on the daemon's machine");
        status = admin_drives_change(call, query, &slot);
        if (status == CLI_OK && !call->quiet)
                printf("%s has slot %llu, and is being brought up to date (millrace admin drive status).\n"
                       "Give the daemon this folder, too, from its next start on.\n",
                       cli_printable(stdout, call->argv[0], name, sizeof(name)), slot);
        return status;
}

int cli_admin_drive_remove(struct cli_call *call)
{
        const char *const query[] = {"action", "remove", "slot", call->argv[0], NULL};
        unsigned long long slot;
        int status;

        if (!is_slot(call->argv[0]))
                return cli_usage(call, "SLOT is a number (see admin drive status)");
        status = admin_drives_change(call, query, &slot);
        if (status == CLI_OK && !call->quiet)
                printf("slot %llu is being emptied (millrace admin heal status). Leave the drive in until its state is \"removed\".\n", slot);
        return status;
}

static int replace_of_node(struct cli_call *call)
{
        const char *const query[] = {"action", "replace", "slot", call->argv[0], call->argc > 1 ? "id" : NULL, call->argc > 1 ? call->argv[1] : NULL, NULL};
        unsigned long long slot;
        int status;

        if (!is_slot(call->argv[0]))
                return cli_usage(call, "SLOT is a number (see admin drive status)");
        status = admin_drives_change(call, query, &slot);
        if (status == CLI_OK && !call->quiet)
                printf("slot %s has a new drive, which is being filled (millrace admin heal status).\n", call->argv[0]);
        return status;
}

int cli_admin_drive_replace(struct cli_call *call)
{
        char name[1024];
        int status;

        if (call->argc == 1 || strchr(call->argv[1], '/') == NULL)
                return replace_of_node(call);
        status = attach(call, "replace", call->argv[0], call->argv[1]);

        if (status == CLI_OK && !call->quiet)
                printf("slot %s is %s now, and is being filled (millrace admin heal status).\n"
                       "Give the daemon this folder in place of the old one from its next start on.\n",
                       call->argv[0], cli_printable(stdout, call->argv[1], name, sizeof(name)));
        return status;
}

int cli_admin_drive_return(struct cli_call *call)
{
        int status = attach(call, "return", call->argv[0], call->argc > 1 ? call->argv[1] : NULL);

        if (status == CLI_OK && !call->quiet)
                printf("slot %s is back, and is being brought up to date (millrace admin drive status).\n", call->argv[0]);
        return status;
}

/* ---- healing --------------------------------------------------------------------------------- */

void cli_admin_show_digests(const json_t *report)
{
        const json_t *drive;
        size_t i;

        json_array_foreach(json_object_get(report, "drives"), i, drive)
        {
                char bytes[24];

                cli_format_bytes(bytes, sizeof(bytes), cli_json_number(drive, "bytes"));
                printf("  slot %llu: %llu shards, %s, digest %s\n", (unsigned long long)cli_json_number(drive, "slot"),
                       (unsigned long long)cli_json_number(drive, "shards"), bytes, cli_json_text(drive, "digest"));
        }
}

static void show_running(const json_t *now, uint64_t seconds_left)
{
        char done[24], todo[24], left[24];

        cli_format_bytes(done, sizeof(done), cli_json_number(now, "done_bytes"));
        cli_format_bytes(todo, sizeof(todo), cli_json_number(now, "todo_bytes"));
        cli_format_time(left, sizeof(left), (int64_t)seconds_left);
        if (!cli_json_true(now, "surveyed"))
                printf("so far: %llu objects looked at, %llu lack shards, %llu were given theirs (%s)\n",
                       (unsigned long long)cli_json_number(now, "looked_at"), (unsigned long long)cli_json_number(now, "below"),
                       (unsigned long long)cli_json_number(now, "done_objects"), done);
        else
                printf("healing objects that lack %llu shards: %llu of %llu objects, %s of %s%s%s\n",
                       (unsigned long long)cli_json_number(now, "level"), (unsigned long long)cli_json_number(now, "done_objects"),
                       (unsigned long long)cli_json_number(now, "todo_objects"), done, todo,
                       seconds_left > 0 ? ", about " : "", seconds_left > 0 ? left : "");
}

static void show_last(const json_t *last)
{
        char took[24], when[32];

        if (cli_json_number(last, "ended_ms") == 0)
                return;
        cli_format_when(when, sizeof(when), (int64_t)cli_json_number(last, "ended_ms") / 1000);
        cli_format_time(took, sizeof(took),
                        (int64_t)(cli_json_number(last, "ended_ms") - cli_json_number(last, "started_ms")) / 1000);
        printf("last heal ended %s after %s: %llu objects given their shards, %llu not\n", when, took,
               (unsigned long long)cli_json_number(last, "done_objects"),
               (unsigned long long)cli_json_number(last, "failed_objects"));
        cli_admin_show_digests(last);
}

int cli_admin_heal_status(struct cli_call *call)
{
        json_t *answer, *now;
        char rate[24];
        int status = cli_admin_ask(call, "GET", HEAL_PATH, NULL, 200, 200, &answer);

        if (status != CLI_OK)
                return status;
        now = json_object_get(answer, "now");
        if (cli_json_number(answer, "lost_objects") > 0 || cli_json_number(now, "below") > 0 ||
            cli_json_number(now, "todo_objects") > cli_json_number(now, "done_objects"))
                status = CLI_FAILED;
        if (call->json) {
                cli_json_print(answer);
        } else {
                if (cli_json_true(now, "running"))
                        show_running(now, cli_json_number(answer, "seconds_left"));
                else
                        printf("at rest: %llu objects lack shards\n", (unsigned long long)cli_json_number(now, "below"));
                if (cli_json_number(answer, "lost_objects") > 0)
                        printf("%llu objects are lost: more shards of them are gone than parity makes good for (the daemon's log names them)\n",
                               (unsigned long long)cli_json_number(answer, "lost_objects"));
                if (cli_json_number(now, "waiting_parts") > 0)
                        printf("%llu parts of unfinished uploads lack shards: they get them when completed\n",
                               (unsigned long long)cli_json_number(now, "waiting_parts"));
                if (cli_json_number(now, "differing_names") > 0)
                        printf("members had %llu names differently since the start: %llu were made equal\n",
                               (unsigned long long)cli_json_number(now, "differing_names"),
                               (unsigned long long)cli_json_number(now, "repaired_names"));
                if (cli_json_number(now, "undecided_names") > 0)
                        printf("%llu names could not be made equal yet: the next walk looks at them again\n",
                               (unsigned long long)cli_json_number(now, "undecided_names"));
                cli_format_bytes(rate, sizeof(rate), cli_json_number(answer, "rate"));
                printf("rate allowed now: %s/s\n", rate);
                show_last(json_object_get(answer, "last"));
        }
        json_decref(answer);
        return status;
}

/* ---- scrub ----------------------------------------------------------------------------------- */

int cli_admin_scrub_start(struct cli_call *call)
{
        json_t *answer;
        int status = cli_admin_ask(call, "POST", SCRUB_PATH, NULL, 202, 202, &answer);

        json_decref(answer);
        if (status == CLI_OK && !call->quiet)
                printf("the scrub is under way (millrace admin scrub status)\n");
        return status;
}

static void show_counts(const json_t *report)
{
        char bytes[24];

        cli_format_bytes(bytes, sizeof(bytes), cli_json_number(report, "bytes"));
        printf("  %llu objects, %s, %llu shards: %llu damaged, %llu missing, %llu of these repaired; %llu objects unreadable\n",
               (unsigned long long)cli_json_number(report, "objects"), bytes,
               (unsigned long long)cli_json_number(report, "shards"),
               (unsigned long long)cli_json_number(report, "damaged_shards"),
               (unsigned long long)cli_json_number(report, "missing_shards"),
               (unsigned long long)cli_json_number(report, "repaired_shards"),
               (unsigned long long)cli_json_number(report, "unreadable_objects"));
}

static bool is_sound(const json_t *report)
{
        return cli_json_number(report, "damaged_shards") + cli_json_number(report, "missing_shards") <=
                       cli_json_number(report, "repaired_shards") &&
               cli_json_number(report, "unreadable_objects") == 0;
}

static void show_drive_scrub(const json_t *drive)
{
        uint64_t unrepaired = cli_json_number(drive, "unrepaired_shards");
        char done[24], total[24], rate[24], when[32];

        cli_format_bytes(rate, sizeof(rate), cli_json_number(drive, "rate"));
        cli_format_bytes(done, sizeof(done), cli_json_number(drive, "bytes"));
        cli_format_bytes(total, sizeof(total), cli_json_number(drive, "total_bytes"));
        printf("  %s: ", cli_json_text(drive, "path"));
        if (cli_json_true(drive, "running"))
                printf("%s of %s read, %s/s%s", done, total, rate, cli_json_true(drive, "late") ? ", late" : "");
        else
                printf("at rest");
        if (cli_json_number(drive, "last_ended_ms") > 0) {
                cli_format_when(when, sizeof(when), (int64_t)cli_json_number(drive, "last_ended_ms") / 1000);
                printf("; last round ended %s, %llu shards damaged", when,
                       (unsigned long long)cli_json_number(drive, "last_damaged_shards"));
        }
        if (unrepaired > 0)
                printf("; %llu damaged shards not repaired yet", (unsigned long long)unrepaired);
        if (cli_json_true(drive, "names_owed"))
                printf("; names are to be compared for what is damaged");
        if (cli_json_number(drive, "gaps_dropped") > 0)
                printf("; %llu damaged places not remembered", (unsigned long long)cli_json_number(drive, "gaps_dropped"));
        printf("\n");
}

static bool show_drive_scrubs(const json_t *drives, bool quiet)
{
        const json_t *drive;
        bool sound = true;
        size_t i;

        json_array_foreach (drives, i, drive) {
                sound &= cli_json_number(drive, "unrepaired_shards") == 0;
                if (!quiet && i == 0)
                        printf("data of drives:\n");
                if (!quiet)
                        show_drive_scrub(drive);
        }
        return sound;
}

int cli_admin_scrub_status(struct cli_call *call)
{
        json_t *answer, *now, *last;
        char when[32];
        int status = cli_admin_ask(call, "GET", SCRUB_PATH, NULL, 200, 200, &answer);

        if (status != CLI_OK)
                return status;
        now = json_object_get(answer, "now");
        last = json_object_get(answer, "last");
        if (!is_sound(last))
                status = CLI_FAILED;
        if (!show_drive_scrubs(json_object_get(answer, "data"), call->json))
                status = CLI_FAILED;
        if (call->json) {
                cli_json_print(answer);
                json_decref(answer);
                return status;
        }
        if (cli_json_number(now, "started_ms") > 0) {
                cli_format_when(when, sizeof(when), (int64_t)cli_json_number(now, "started_ms") / 1000);
                printf("names: %s, begun %s\n", cli_json_true(now, "running") ? "under way" : "halted, goes on soon", when);
                show_counts(now);
        } else {
                printf("names: at rest\n");
        }
        if (cli_json_number(last, "ended_ms") > 0) {
                cli_format_when(when, sizeof(when), (int64_t)cli_json_number(last, "ended_ms") / 1000);
                printf("the last walk ended %s\n", when);
                show_counts(last);
        }
        json_decref(answer);
        return status;
}
