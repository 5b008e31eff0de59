/*
 * command_admin_start.c - `millrace admin start`: lets a store go on without drives that are gone
 * for good; and `millrace admin pool force`: the same of a cluster's pool that serves without some groups. What that would mean is the daemon's to say; without --yes it is shown, and nothing is
 * done. Main thread only.
 */
#include "command_admin.h"

#include <string.h>

#define START_PATH "/admin/v1/start"

static void show_drives(const json_t *answer)
{
        const json_t *drive;
        size_t i;

        printf("%s\n\nIn use in epoch %llu, the newest that the drives here know, or in the one before it, and missing:\n",
               cli_json_text(answer, "reason"), (unsigned long long)cli_json_number(answer, "epoch"));
        json_array_foreach(json_object_get(answer, "missed"), i, drive)
        {
                char path[1024], reason[256];
                const char *where = cli_json_text(drive, "path");

                printf("  slot %-3llu %s  %s%s%s\n", (unsigned long long)cli_json_number(drive, "slot"), cli_json_text(drive, "id"),
                       cli_printable(stdout, where, path, sizeof(path)), where[0] != '\0' ? ": " : "",
                       cli_printable(stdout, cli_json_text(drive, "reason"), reason, sizeof(reason)));
        }
}

static void show_losses(const json_t *answer)
{
        unsigned long long groups = cli_json_number(answer, "groups"), needed = cli_json_number(answer, "drives_needed");
        unsigned long long doubt = cli_json_number(answer, "groups_in_doubt"), lost = cli_json_number(answer, "groups_lost");
        unsigned long long alone = cli_json_number(answer, "groups_alone");
        unsigned long long unreadable = cli_json_number(answer, "groups_unreadable");

        printf("\nWithout them:\n  - every change that only they acknowledged is lost, also where they went on without the others\n"
               "  - %llu of %llu groups of names are in doubt: their last changes count as far as a drive here has them\n",
               doubt, groups);
        if (cli_json_true(answer, "buckets_in_doubt"))
                printf("  - the list of buckets is in doubt, too\n");
        if (lost > 0)
                printf("  - %llu groups have no copy here: all names in them are lost. They, and all listings, answer 503 until\n"
                       "    a drive is replaced that held them; then they begin empty\n",
                       lost);
        if (alone > 0)
                printf("  - %llu groups have one copy here: changes of names in them answer 503 until a drive is replaced\n", alone);
        if (unreadable > 0)
                printf("  - objects that are not inline (larger than inline_max) can't be read where fewer than %llu of their shards are\n"
                       "    left: those written with all drives in, in %llu of %llu groups\n",
                       needed, unreadable, groups);
        printf("  - %llu of %llu drives go on: %s\n", (unsigned long long)cli_json_number(answer, "drives_left"),
               (unsigned long long)cli_json_number(answer, "drives_total"),
               cli_json_true(answer, "writable") ? "they take writes" : "they are read; writes are refused until drives are replaced");
        printf("  - the drives named are no drives of this store any more. They must never be used with their old content: the store\n"
               "    refuses them, and they can come back only by admin drive replace, in emptied folders\n");
}

/* A pool that serves without lost groups. */
static void show_waits(const json_t *answer)
{
        const json_t *drive;
        size_t i;

        printf("%s\n\nThey wait for these drives:\n", cli_json_text(answer, "reason"));
        json_array_foreach(json_object_get(answer, "missed"), i, drive)
        {
                char path[1024], reason[256];

                printf("  slot %-3llu %s  %s: %s\n           %llu lost groups wait for it; of %llu of them no other drive knows anything%s\n",
                       (unsigned long long)cli_json_number(drive, "slot"), cli_json_text(drive, "id"),
                       cli_printable(stdout, cli_json_text(drive, "path"), path, sizeof(path)),
                       cli_printable(stdout, cli_json_text(drive, "reason"), reason, sizeof(reason)),
                       (unsigned long long)cli_json_number(drive, "groups_waiting"), (unsigned long long)cli_json_number(drive, "groups_only"),
                       cli_json_true(drive, "lost_writes") ? ".\n           It is here, and lost writes: it would be believed as it is" : "");
        }
        if (cli_json_number(answer, "groups_gone") > 0)
                printf("%llu lost groups wait for nothing any more: all drives that knew them were given up\n", (unsigned long long)cli_json_number(answer, "groups_gone"));
        printf("\nWithout those named:\n  - changes that only they knew are lost: the drives that had a group before them, and went away earlier, are\n"
               "    believed. A group of which no other drive knows anything stays lost, and so do all listings\n"
               "  - those that are not here are no drives of this pool any more: what they hold is never used again\n");
}

/* Exit status 1 always: nothing was done. */
static int preview(struct cli_call *call, const char *const query[])
{
        json_t *answer;
        int status = cli_admin_ask(call, "GET", START_PATH, query, 200, 200, &answer);
        const char *refusal;

        if (status != CLI_OK)
                return status;
        refusal = cli_json_text(answer, "refusal");
        if (call->json) {
                cli_json_print(answer);
        } else if (refusal[0] != '\0') {
                cli_error("%s", refusal);
        } else {
                if (cli_json_true(answer, "losing")) {
                        show_waits(answer);
                } else {
                        show_drives(answer);
                        show_losses(answer);
                }
                printf("\nNothing was done. There is no way back: if that is what you want, give the same command with --yes.\n");
        }
        json_decref(answer);
        return CLI_FAILED;
}

static int admin_start_run(struct cli_call *call, const char *const query[], const char *before, const char *after)
{
        json_t *answer;
        uint64_t number;
        int status = cli_admin_ask(call, "POST", START_PATH, query, 202, 202, &answer);

        if (status != CLI_OK)
                return status;
        number = cli_json_number(answer, "number");
        json_decref(answer);
        status = cli_admin_wait(call, START_PATH, number, NULL, &answer);
        if (status != CLI_OK)
                return status;
        if (call->json) {
                cli_json_print(answer);
        } else if (!cli_json_true(answer, "open")) {
                cli_error("the store is not open: %s", cli_json_text(answer, "reason"));
        } else if (!call->quiet) {
                printf("%s %s %s\n", before, query[1], after);
        }
        status = cli_json_true(answer, "open") ? CLI_OK : CLI_FAILED;
        json_decref(answer);
        return status;
}

int cli_admin_start(struct cli_call *call)
{
        const char *const query[] = {"without", call->force_without, NULL};

        if (call->force_without == NULL)
                return cli_usage(call, "--force-without SLOT[,SLOT]... must be given");
        return call->yes ? admin_start_run(call, query, "The store is open without", "(millrace admin drive replace SLOT FOLDER puts another in its place)")
                         : preview(call, query);
}

int cli_admin_pool_force(struct cli_call *call)
{
        const char *const query[] = {"without", call->argv[0], NULL};

        return call->yes ? admin_start_run(call, query, "Lost groups do not wait any more for drive", "") : preview(call, query);
}
