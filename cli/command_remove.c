/*
 * command_remove.c - `millrace rm`, `mb` and `rb`. Recursive deletes list on the main thread and
 * delete a thousand keys a request on the workers.
 */
#include "cli.h"
#include "job_queue.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 1000u

/* owner: the main thread until it is handed to the workers, then the worker that does it */
struct batch {
        char bucket[64];
        size_t count;
        struct mr_key_version version[BATCH]; /* strings are malloc'ed; an id of NULL: the object */
};

/* One recursive delete. owner: the main thread, but for what is atomic */
struct sweep {
        struct cli_call *call;
        const struct cli_path *path;
        struct cli_work *work;
        struct batch *filling;
        _Atomic uint64_t deleted;
        atomic_int status;
};

static void remove_version_free(struct mr_key_version *version)
{
        free((char *)version->key);
        free((char *)version->version_id);
}

static void remove_batch_free(struct batch *batch)
{
        for (size_t i = 0; i < batch->count; i++)
                remove_version_free(&batch->version[i]);
        free(batch);
}

/* owner: one batch's worker */
struct batch_failures {
        const char *bucket;
        uint64_t count;
};

static void key_failed(void *arg, const char *key, const char *code, const char *message)
{
        struct batch_failures *failures = arg;
        char what[CLI_KEY_MAX + 80];
        struct mr_error err = {0};

        failures->count++;
        snprintf(what, sizeof(what), "s3://%s/%s", failures->bucket, key);
        snprintf(err.message, sizeof(err.message), "%s", message);
        snprintf(err.s3_code, sizeof(err.s3_code), "%s", code);
        cli_failed(what, &err);
}

static void remove_delete_batch(void *arg, void *job)
{
        struct sweep *sweep = arg;
        struct batch *batch = job;
        struct batch_failures failures = {.bucket = batch->bucket};
        struct mr_error err;

        if (mr_client_canceled(sweep->call->client)) {
                atomic_store(&sweep->status, CLI_FAILED);
        } else if (mr_delete_many_versions(sweep->call->client, batch->bucket, batch->version, batch->count,
                                           sweep->call->bypass_governance, key_failed, &failures, &err) != 0) {
                cli_failed(batch->bucket, &err);
                atomic_store(&sweep->status, CLI_FAILED);
        } else {
                atomic_fetch_add(&sweep->deleted, batch->count - failures.count);
                if (failures.count > 0)
                        atomic_store(&sweep->status, CLI_FAILED);
        }
        remove_batch_free(batch);
}

static int remove_take_entry(void *arg, const struct mr_entry *entry)
{
        struct mr_key_version version = {NULL, NULL};
        struct sweep *sweep = arg;

        if (mr_client_canceled(sweep->call->client))
                return -ECANCELED;
        if (sweep->filling == NULL) {
                sweep->filling = calloc(1, sizeof(*sweep->filling));
                if (sweep->filling == NULL)
                        return -ENOMEM;
                memcpy(sweep->filling->bucket, sweep->path->bucket, sizeof(sweep->filling->bucket));
        }
        version.key = strdup(entry->key);
        if (sweep->call->versions)
                version.version_id = strdup(entry->version_id);
        if (version.key == NULL || (sweep->call->versions && version.version_id == NULL)) {
                remove_version_free(&version);
                return -ENOMEM;
        }
        sweep->filling->version[sweep->filling->count++] = version;
        if (sweep->filling->count == BATCH) {
                cli_work_add(sweep->work, sweep->filling);
                sweep->filling = NULL;
        }
        return 0;
}

/* Deletes what lies below the path's key (all of the bucket, if it is empty). An exit status. */
static int remove_below(struct cli_call *call, struct cli_path *path, uint64_t *deleted)
{
        struct sweep sweep = {.call = call, .path = path};
        struct mr_list list = {.bucket = path->bucket, .prefix = path->key, .versions = call->versions};
        size_t len = strlen(path->key);
        struct mr_error err;
        int rv;

        if (len > 0 && path->key[len - 1] != '/' && len < CLI_KEY_MAX)
                memcpy(path->key + len, "/", 2);
        rv = cli_work_new(call->settings.parallel < 4 ? call->settings.parallel : 4, remove_delete_batch, &sweep,
                          &sweep.work);
        if (rv != 0) {
                cli_error("cannot start: %s", strerror(-rv));
                return CLI_FAILED;
        }
        rv = mr_list(call->client, &list, remove_take_entry, &sweep, &err);
        if (rv != 0)
                atomic_store(&sweep.status, CLI_FAILED);
        if (rv != 0 && err.code != 0)
                cli_failed(path->bucket, &err);
        if (sweep.filling != NULL)
                cli_work_add(sweep.work, sweep.filling);
        cli_work_finish(sweep.work);
        if (!call->quiet)
                printf("rm s3://%s/%s: %llu %s\n", path->bucket, path->key,
                       (unsigned long long)atomic_load(&sweep.deleted), call->versions ? "versions" : "objects");
        *deleted = atomic_load(&sweep.deleted);
        return atomic_load(&sweep.status);
}

static int remove_one(struct cli_call *call, const char *name, const struct cli_path *path)
{
        struct mr_delete del = {
                .bucket = path->bucket,
                .key = path->key,
                .version_id = call->version_id,
                .bypass_governance = call->bypass_governance,
        };
        char printable[CLI_KEY_MAX + 128];
        struct mr_error err;

        if (mr_delete_version(call->client, &del, &err) != 0)
                return cli_failed(name, &err);
        if (!call->quiet)
                printf("rm %s%s%s\n", cli_printable(stdout, name, printable, sizeof(printable)),
                       call->version_id != NULL ? " version " : "", call->version_id != NULL ? call->version_id : "");
        return CLI_OK;
}

/* Parses every argument before the first is acted upon. */
static int check_paths(struct cli_call *call, bool with_key, bool bucket_only)
{
        struct cli_path path;
        int rv;

        for (int i = 0; i < call->argc; i++) {
                rv = cli_path_arg(call, call->argv[i], with_key, &path);
                if (rv != 0)
                        return rv;
                if (bucket_only && path.key[0] != '\0')
                        return cli_usage(call, "not a bucket: %s", call->argv[i]);
        }
        return 0;
}

int cli_rm(struct cli_call *call)
{
        int status = CLI_OK, rv = check_paths(call, !call->recursive, false);
        uint64_t deleted;

        if (rv != 0)
                return rv;
        if (call->version_id != NULL && (call->recursive || call->argc > 1))
                return cli_usage(call, "--version-id is of one object");
        if (call->versions && !call->recursive)
                return cli_usage(call, "--versions needs -r; of one version, --version-id is");
        if (call->bypass_governance && call->version_id == NULL && !call->versions)
                return cli_usage(call, "--bypass-governance needs --version-id or --versions");
        for (int i = 0; i < call->argc && !mr_client_canceled(call->client); i++) {
                struct cli_path path;

                (void)cli_path_parse(call->argv[i], &path);
                rv = call->recursive ? remove_below(call, &path, &deleted) : remove_one(call, call->argv[i], &path);
                if (rv != CLI_OK)
                        status = rv;
        }
        return mr_client_canceled(call->client) ? CLI_FAILED : status;
}

/* ---- buckets --------------------------------------------------------------------------------- */

int cli_mb(struct cli_call *call)
{
        int status = CLI_OK, rv = check_paths(call, false, true);

        if (rv != 0)
                return rv;
        for (int i = 0; i < call->argc; i++) {
                struct cli_path path;
                struct mr_error err;

                (void)cli_path_parse(call->argv[i], &path);
                if (mr_bucket_create(call->client, path.bucket, &err) != 0)
                        status = cli_failed(call->argv[i], &err);
                else if (!call->quiet)
                        printf("mb s3://%s\n", path.bucket);
        }
        return status;
}

/* owner: the main thread */
struct abort_all {
        struct cli_call *call;
        const char *bucket;
        uint64_t found;
};

static int abort_upload(void *arg, const struct mr_upload *upload)
{
        struct abort_all *all = arg;
        struct mr_error err;
        int rv = mr_upload_abort(all->call->client, all->bucket, upload->key, upload->upload_id, &err);

        all->found++;
        if (rv == 0 || rv == -ENOENT) /* completed or aborted meanwhile */
                return 0;
        cli_failed(upload->key, &err);
        return rv;
}

int cli_empty(struct cli_call *call, struct cli_path *path, uint64_t *found)
{
        struct abort_all all = {call, path->bucket, 0};
        struct mr_error err;
        uint64_t deleted = 0;
        int status = remove_below(call, path, &deleted), rv;

        *found = deleted;
        if (status != CLI_OK)
                return status;
        rv = mr_uploads(call->client, path->bucket, path->key[0] != '\0' ? path->key : NULL, abort_upload, &all, &err);
        *found += all.found;
        if (rv != 0 && err.code != 0)
                return cli_failed(path->bucket, &err);
        return rv == 0 ? CLI_OK : CLI_FAILED;
}

int cli_rb(struct cli_call *call)
{
        int status = CLI_OK, rv = check_paths(call, false, true);
        uint64_t found;

        if (rv != 0)
                return rv;
        if (call->versions && !call->force)
                return cli_usage(call, "--versions needs -f");
        for (int i = 0; i < call->argc && !mr_client_canceled(call->client); i++) {
                struct cli_path path;
                struct mr_error err;

                (void)cli_path_parse(call->argv[i], &path);
                if (call->force && cli_empty(call, &path, &found) != CLI_OK)
                        status = CLI_FAILED;
                else if (mr_bucket_delete(call->client, path.bucket, &err) != 0)
                        status = cli_failed(call->argv[i], &err);
                else if (!call->quiet)
                        printf("rb s3://%s\n", path.bucket);
        }
        return status;
}
