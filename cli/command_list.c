/* command_list.c - `millrace ls` and `millrace stat`: what is there, in print. Main thread only. */
#include "cli.h"

#include <errno.h>
#include <string.h>

/* owner: the main thread */
struct listing {
        struct cli_call *call;
        size_t skip; /* bytes of a key that the user's prefix says already */
        uint64_t shown;
};

static int show_bucket(void *arg, const struct mr_bucket *bucket)
{
        char when[32];

        cli_format_when(when, sizeof(when), bucket->created_s);
        printf("%s  s3://%s\n", when, bucket->name);
        return 0;
}

static int show_entry(void *arg, const struct mr_entry *entry)
{
        struct listing *listing = arg;
        char when[32], size[24], name[CLI_KEY_MAX * 2];

        if (mr_client_canceled(listing->call->client))
                return -ECANCELED;
        listing->shown++;
        cli_printable(stdout, entry->key + listing->skip, name, sizeof(name));
        if (entry->is_prefix) {
                printf("%19s  %12s  %s\n", "", "PREFIX", name);
                return ferror(stdout) ? -EPIPE : 0;
        }
        cli_format_when(when, sizeof(when), entry->mtime_s);
        if (listing->call->human)
                cli_format_bytes(size, sizeof(size), entry->size);
        else
                snprintf(size, sizeof(size), "%llu", (unsigned long long)entry->size);
        printf("%s  %12s  %s\n", when, size, name);
        return ferror(stdout) ? -EPIPE : 0;
}

static int show_version(void *arg, const struct mr_entry *entry)
{
        struct listing *listing = arg;
        char when[32], size[24], name[CLI_KEY_MAX * 2], id[128];

        if (mr_client_canceled(listing->call->client))
                return -ECANCELED;
        listing->shown++;
        cli_printable(stdout, entry->key + listing->skip, name, sizeof(name));
        if (entry->is_prefix) {
                printf("%19s  %12s  %-32s    %s\n", "", "PREFIX", "", name);
                return ferror(stdout) ? -EPIPE : 0;
        }
        cli_format_when(when, sizeof(when), entry->mtime_s);
        if (entry->marker)
                snprintf(size, sizeof(size), "DELETED");
        else if (listing->call->human)
                cli_format_bytes(size, sizeof(size), entry->size);
        else
                snprintf(size, sizeof(size), "%llu", (unsigned long long)entry->size);
        cli_printable(stdout, entry->version_id, id, sizeof(id));
        printf("%s  %12s  %-32s  %s %s\n", when, size, id, entry->latest ? "*" : " ", name);
        return ferror(stdout) ? -EPIPE : 0;
}

static int list_buckets(struct cli_call *call)
{
        struct mr_error err;

        if (mr_buckets(call->client, show_bucket, NULL, &err) != 0)
                return cli_failed(call->settings.endpoint, &err);
        return CLI_OK;
}

int cli_ls(struct cli_call *call)
{
        struct listing listing = {.call = call};
        struct mr_error err = {0};
        struct cli_path path;
        struct mr_list list;
        const char *slash;
        int rv;

        if (call->argc == 0 || strcmp(call->argv[0], "s3://") == 0)
                return call->versions ? cli_usage(call, "--versions takes a bucket") : list_buckets(call);
        rv = cli_path_arg(call, call->argv[0], false, &path);
        if (rv != 0)
                return rv;
        slash = strrchr(path.key, '/');
        listing.skip = call->recursive || slash == NULL ? 0 : (size_t)(slash + 1 - path.key);
        list = (struct mr_list){
                .bucket = path.bucket,
                .prefix = path.key,
                .delimiter = call->recursive ? NULL : "/",
                .versions = call->versions,
        };
        rv = mr_list(call->client, &list, call->versions ? show_version : show_entry, &listing, &err);
        if (rv != 0 && err.code == 0) /* ended by show_entry(): interrupted, or nobody reads */
                return CLI_FAILED;
        if (rv != 0)
                return cli_failed(call->argv[0], &err);
        if (listing.shown == 0 && path.key[0] != '\0') {
                cli_error("%s: no key begins so", call->argv[0]);
                return CLI_FAILED;
        }
        return CLI_OK;
}

/* ---- stat ------------------------------------------------------------------------------------ */

static const char *header_of(const struct mr_object_info *info, const char *name)
{
        for (unsigned i = 0; i < info->header_count; i++)
                if (strcmp(info->headers[i].name, name) == 0)
                        return info->headers[i].value;
        return NULL;
}

static void show_metadata(const struct mr_object_info *info)
{
        static const char *const shown[] = {"content-type",     "content-encoding",   "content-disposition",
                                            "content-language", "cache-control",      "expires",
                                            "x-amz-version-id", "x-amz-storage-class"};
        char text[4096];

        for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
                if (header_of(info, shown[i]) != NULL)
                        printf("  %s: %s\n", shown[i],
                               cli_printable(stdout, header_of(info, shown[i]), text, sizeof(text)));
        for (unsigned i = 0; i < info->header_count; i++)
                if (strncmp(info->headers[i].name, "x-amz-meta-", 11) == 0)
                        printf("  %s: %s\n", info->headers[i].name,
                               cli_printable(stdout, info->headers[i].value, text, sizeof(text)));
}

static int stat_one(struct cli_call *call, const char *name, const struct cli_path *path)
{
        struct mr_head head = {.bucket = path->bucket, .key = path->key, .version_id = call->version_id};
        char printable[CLI_KEY_MAX + 128], size[24], when[32];
        struct mr_object_info info;
        struct mr_error err;

        cli_printable(stdout, name, printable, sizeof(printable));
        if (path->key[0] == '\0') {
                if (mr_bucket_head(call->client, path->bucket, &err) != 0)
                        return cli_failed(name, &err);
                printf("%s\n  bucket: exists\n", printable);
                return CLI_OK;
        }
        if (mr_head_version(call->client, &head, &info, &err) != 0)
                return cli_failed(name, &err);
        cli_format_bytes(size, sizeof(size), info.size);
        cli_format_when(when, sizeof(when), info.mtime_s);
        printf("%s\n  size: %llu (%s)\n  modified: %s\n  etag: %s\n", printable, (unsigned long long)info.size, size,
               when, info.etag);
        if (info.checksum_kind[0] != '\0')
                printf("  checksum: %s %s%s\n", info.checksum_kind, info.checksum,
                       info.checksum_composite ? " (of the parts)" : "");
        show_metadata(&info);
        mr_object_info_free(&info);
        return CLI_OK;
}

int cli_stat(struct cli_call *call)
{
        int status = CLI_OK;

        if (call->version_id != NULL && call->argc > 1)
                return cli_usage(call, "--version-id is of one object");
        for (int i = 0; i < call->argc && !mr_client_canceled(call->client); i++) {
                struct cli_path path;
                int rv = cli_path_arg(call, call->argv[i], call->version_id != NULL, &path);

                if (rv != 0)
                        return rv;
                if (stat_one(call, call->argv[i], &path) != CLI_OK)
                        status = CLI_FAILED;
        }
        return status;
}
