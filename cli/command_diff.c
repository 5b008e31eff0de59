/*
 * command_diff.c - `millrace diff`: which keys were not the same at two times, by their versions.
 * One listing on the main thread; memory is that of its pages and of one key. A version that was
 * deleted for good meanwhile, or replaced as the version `null`, is not seen.
 */
#include "key_versions.h"
#include "moments.h"

#include <stdint.h>
#include <string.h>

#define DIFF_ID_MAX 1024 /* AWS's bound */

/* What a key was at a time. owner: the diff */
struct diff_state {
        bool known;           /* the newest version that is not younger than the time has been met */
        char id[DIFF_ID_MAX]; /* "": there was no object, or it was deleted */
};

/* owner: the main thread */
struct diff {
        const struct cli_path *path;
        int64_t from_ms, to_ms;
        char key[CLI_KEY_MAX + 1]; /* that the listing is at; "": none yet */
        struct diff_state from, to;
        uint64_t added, changed, deleted;
};

static void diff_say(struct diff *diff)
{
        const char *before = diff->from.id, *after = diff->to.id;
        char key[CLI_KEY_MAX + 1];
        const char *verb;

        if (strcmp(before, after) == 0)
                return;
        if (before[0] == '\0') {
                verb = "added";
                diff->added++;
        } else if (after[0] == '\0') {
                verb = "deleted";
                diff->deleted++;
        } else {
                verb = "changed";
                diff->changed++;
        }
        printf("%-7s  %-32s  %-32s  s3://%s/%s\n", verb, before[0] != '\0' ? before : "-",
               after[0] != '\0' ? after : "-", diff->path->bucket, cli_printable(stdout, diff->key, key, sizeof(key)));
}

/* Versions of a key come the newest first. */
static void diff_note(struct diff_state *state, int64_t at_ms, const struct mr_entry *entry)
{
        if (state->known || entry->mtime_ms > at_ms)
                return;
        state->known = true;
        snprintf(state->id, sizeof(state->id), "%s", entry->marker ? "" : entry->version_id);
}

static int diff_take_version(void *arg, const struct mr_entry *entry)
{
        struct diff *diff = arg;

        if (strcmp(diff->key, entry->key) != 0) {
                diff_say(diff);
                snprintf(diff->key, sizeof(diff->key), "%s", entry->key);
                diff->from.known = diff->to.known = false;
                diff->from.id[0] = diff->to.id[0] = '\0';
        }
        diff_note(&diff->from, diff->from_ms, entry);
        diff_note(&diff->to, diff->to_ms, entry);
        return ferror(stdout) ? -1 : 0;
}

int cli_diff(struct cli_call *call)
{
        struct diff diff = {.to_ms = INT64_MAX};
        int64_t now = cli_now_ms();
        struct cli_path path;
        int rv = cli_path_arg(call, call->argv[0], false, &path);

        if (rv != 0)
                return rv;
        if (call->from == NULL)
                return cli_usage(call, "--from is needed");
        if (cli_moment_parse(call->from, now, true, &diff.from_ms) != 0)
                return cli_usage(call, "--from: not a time: %s", call->from);
        if (call->to != NULL && cli_moment_parse(call->to, now, true, &diff.to_ms) != 0)
                return cli_usage(call, "--to: not a time: %s", call->to);
        if (diff.from_ms > diff.to_ms)
                return cli_usage(call, "--from is later than --to");
        diff.path = &path;
        rv = cli_key_versions(call, &path, diff_take_version, &diff);
        if (rv != CLI_OK)
                return rv;
        diff_say(&diff);
        if (!call->quiet)
                printf("%s: %llu added, %llu changed, %llu deleted\n", call->argv[0], (unsigned long long)diff.added,
                       (unsigned long long)diff.changed, (unsigned long long)diff.deleted);
        return CLI_OK;
}
