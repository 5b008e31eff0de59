/*
 * key_versions.c - walks the versions of keys below a path by one listing, on the main thread.
 * Memory is that of the listing's pages.
 */
#include "key_versions.h"
#include "sub_resources.h"

#include <errno.h>
#include <string.h>

/* owner: one call of cli_key_versions() */
struct version_walk {
        struct cli_call *call;
        const struct cli_path *path;
        cli_key_version_fn fn;
        void *arg;
        bool found;
};

static int walk_version(void *arg, const struct mr_entry *entry)
{
        struct version_walk *walk = arg;

        if (mr_client_canceled(walk->call->client))
                return -ECANCELED;
        if (!cli_key_is_below(entry->key, walk->path->key))
                return 0;
        walk->found = true;
        return walk->fn(walk->arg, entry);
}

/* 0, or the exit status to end with. */
static int bucket_has_versions(struct cli_call *call, const struct cli_path *path)
{
        struct cli_path bucket = *path;
        struct s3_doc *doc;
        struct mr_error err;
        char status[16];
        int rv;

        bucket.key[0] = '\0';
        rv = cli_document_get(call, &bucket, "versioning", S3_DOC_CONFIG, &doc, &err);
        if (rv == 0)
                cli_config_text(doc, "Status", status, sizeof(status));
        s3_doc_free(doc);
        if (rv != 0)
                return cli_failed(path->bucket, &err);
        if (status[0] != '\0')
                return 0;
        cli_error("%s: the bucket has never kept versions", path->bucket);
        return CLI_FAILED;
}

int cli_key_versions(struct cli_call *call, const struct cli_path *path, cli_key_version_fn fn, void *arg)
{
        struct version_walk walk = {.call = call, .path = path, .fn = fn, .arg = arg};
        struct mr_list list = {.bucket = path->bucket, .prefix = path->key, .versions = true};
        struct mr_error err = {0};
        int rv = bucket_has_versions(call, path);

        if (rv != 0)
                return rv;
        rv = mr_list(call->client, &list, walk_version, &walk, &err);
        if (rv != 0 && err.code != 0)
                return cli_failed(path->bucket, &err);
        if (rv != 0) /* ended by walk_version(): interrupted, or by fn */
                return CLI_FAILED;
        if (!walk.found && path->key[0] != '\0') {
                cli_error("%s: no key of this name, or below it", call->argv[0]);
                return CLI_FAILED;
        }
        return CLI_OK;
}
