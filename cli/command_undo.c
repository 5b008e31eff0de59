/*
 * command_undo.c - `millrace undo`: takes back the last change of each key below a path, by
 * deleting its newest version or delete marker. The main thread lists and decides when all that
 * matters of a key has been seen; workers delete. A change that comes in between stays: what is
 * deleted is named by its id.
 */
#include "cli.h"
#include "job_queue.h"
#include "key_versions.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* One key's newest version. owner: the main thread until it is handed to the workers */
struct undo_job {
        char *key, *id;
        bool marker, older; /* older: there is another version behind it */
};

/* owner: the main thread, but for what is atomic */
struct undo {
        struct cli_call *call;
        const struct cli_path *path;
        struct cli_work *work;
        struct undo_job *newest; /* of the key that the listing is at; NULL: none yet */
        _Atomic uint64_t undone, kept;
        atomic_int status;
};

static void undo_job_free(struct undo_job *job)
{
        if (job == NULL)
                return;
        free(job->key);
        free(job->id);
        free(job);
}

static void undo_say(struct undo *undo, const char *verb, const struct undo_job *job)
{
        char key[CLI_KEY_MAX + 1], id[128];

        if (undo->call->quiet)
                return;
        cli_printable(stdout, job->key, key, sizeof(key));
        cli_printable(stdout, job->id, id, sizeof(id));
        printf("%-8s  %-32s  s3://%s/%s\n", verb, id, undo->path->bucket, key);
}

/* On a worker. */
static void undo_one(void *arg, void *given)
{
        struct undo *undo = arg;
        struct undo_job *job = given;
        struct mr_delete del = {
                .bucket = undo->path->bucket,
                .key = job->key,
                .version_id = job->id,
                .bypass_governance = undo->call->bypass_governance,
        };
        char what[CLI_KEY_MAX + 80];
        struct mr_error err;

        if (!job->marker && !job->older) {
                atomic_fetch_add(&undo->kept, 1);
                undo_say(undo, "keep", job);
        } else if (mr_client_canceled(undo->call->client)) {
                atomic_store(&undo->status, CLI_FAILED);
        } else if (!undo->call->dry_run && mr_delete_version(undo->call->client, &del, &err) != 0) {
                snprintf(what, sizeof(what), "s3://%s/%s", undo->path->bucket, job->key);
                atomic_store(&undo->status, cli_failed(what, &err));
        } else {
                atomic_fetch_add(&undo->undone, 1);
                undo_say(undo, job->marker ? "undelete" : "revert", job);
        }
        undo_job_free(job);
}

/* The listing is past the key, or at its end. */
static void undo_key_seen(struct undo *undo)
{
        if (undo->newest != NULL)
                cli_work_add(undo->work, undo->newest);
        undo->newest = NULL;
}

static int undo_take_version(void *arg, const struct mr_entry *entry)
{
        struct undo *undo = arg;
        struct undo_job *job;

        if (undo->newest != NULL && strcmp(undo->newest->key, entry->key) == 0) {
                undo->newest->older = true;
                return 0;
        }
        undo_key_seen(undo);
        job = calloc(1, sizeof(*job));
        if (job == NULL)
                return -ENOMEM;
        *job = (struct undo_job){.key = strdup(entry->key), .id = strdup(entry->version_id), .marker = entry->marker};
        if (job->key == NULL || job->id == NULL) {
                undo_job_free(job);
                return -ENOMEM;
        }
        undo->newest = job;
        return 0;
}

int cli_undo(struct cli_call *call)
{
        struct undo undo = {.call = call};
        struct cli_path path;
        int rv = cli_path_arg(call, call->argv[0], false, &path);

        if (rv != 0)
                return rv;
        undo.path = &path;
        /* one worker says in the order of the keys what would be done */
        rv = cli_work_new(call->dry_run ? 1 : call->settings.parallel, undo_one, &undo, &undo.work);
        if (rv != 0) {
                cli_error("cannot start: %s", strerror(-rv));
                return CLI_FAILED;
        }
        rv = cli_key_versions(call, &path, undo_take_version, &undo);
        if (rv == CLI_OK)
                undo_key_seen(&undo);
        undo_job_free(undo.newest); /* not seen to its end: left alone */
        cli_work_finish(undo.work);
        if (!call->quiet && (rv == CLI_OK || atomic_load(&undo.undone) > 0))
                printf("%s: %llu %s, %llu kept\n", call->argv[0], (unsigned long long)atomic_load(&undo.undone),
                       call->dry_run ? "would be taken back" : "taken back",
                       (unsigned long long)atomic_load(&undo.kept));
        return rv != CLI_OK ? rv : atomic_load(&undo.status);
}
