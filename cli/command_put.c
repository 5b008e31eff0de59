/*
 * command_put.c - `millrace put`: finds the files, names their keys, hands them to the workers. The
 * walk runs on the main thread and waits when the workers are behind.
 */
#include "media.h"
#include "file_transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int put_one(struct cli_transfers *transfers, struct cli_transfer *transfer)
{
        const struct cli_call *call = transfers->call;
        bool standard = strcmp(transfer->local, "-") == 0;
        struct mr_put_fd put = {
                .bucket = transfer->bucket,
                .key = transfer->key,
                .fd = standard ? STDIN_FILENO : open(transfer->local, O_RDONLY | O_CLOEXEC),
                .content_type = call->content_type != NULL ? call->content_type : cli_media_type(transfer->key),
                .metadata = call->meta,
                .metadata_count = call->meta_count,
                .if_none_match = call->no_clobber,
                .progress = cli_progress_bytes,
                .progress_arg = transfers->progress,
        };
        struct mr_put_fd_result result;
        struct mr_error err;
        int rv;

        if (put.fd < 0) {
                cli_transfers_fail(transfers, transfer->local, strerror(errno));
                return CLI_FAILED;
        }
        rv = mr_put_fd(call->client, &put, &result, &err);
        if (!standard)
                close(put.fd);
        if (rv != 0)
                return cli_transfers_failed(transfers, transfer->local, &err);
        cli_transfers_say(transfers, "put %s -> s3://%s/%s", transfer->local, transfer->bucket, transfer->key);
        return CLI_OK;
}

static void put_add(struct cli_transfers *transfers, const char *local, const struct cli_path *to, bool under,
                    const char *relative, uint64_t size)
{
        struct cli_transfer *transfer = calloc(1, sizeof(*transfer));

        if (transfer == NULL) {
                cli_transfers_fail(transfers, local, strerror(ENOMEM));
                return;
        }
        if (snprintf(transfer->local, sizeof(transfer->local), "%s", local) >= (int)sizeof(transfer->local) ||
            cli_key_join(transfer->key, sizeof(transfer->key), to->key, under, relative) != 0) {
                cli_transfers_fail(transfers, local, "the name is too long for a key");
                free(transfer);
                return;
        }
        memcpy(transfer->bucket, to->bucket, sizeof(transfer->bucket));
        cli_transfers_add(transfers, transfer, size);
}

/* One entry of a walk. root_len: bytes of the path that are the folder itself and its slash. */
static void put_entry(struct cli_transfers *transfers, const FTSENT *entry, size_t root_len, const struct cli_path *to)
{
        const char *relative = entry->fts_path + root_len;

        switch (entry->fts_info) {
        case FTS_F:
                put_add(transfers, entry->fts_path, to, true, relative + strspn(relative, "/"),
                        (uint64_t)entry->fts_statp->st_size);
                break;
        case FTS_DC:
                cli_transfers_fail(transfers, entry->fts_path, "a folder that contains itself; left out");
                break;
        case FTS_DNR:
        case FTS_ERR:
        case FTS_NS:
                cli_transfers_fail(transfers, entry->fts_path, strerror(entry->fts_errno));
                break;
        case FTS_SLNONE:
                cli_transfers_fail(transfers, entry->fts_path, "a symbolic link to nothing; left out");
                break;
        case FTS_DEFAULT:
                cli_transfers_fail(transfers, entry->fts_path, "neither a file nor a folder; left out");
                break;
        default: /* folders, before and after */
                break;
        }
}

static void put_folder(struct cli_transfers *transfers, char *folder, const struct cli_path *to)
{
        char *roots[] = {folder, NULL};
        FTS *walk = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL);
        FTSENT *entry;

        if (walk == NULL) {
                cli_transfers_fail(transfers, folder, strerror(errno));
                return;
        }
        while (!mr_client_canceled(transfers->call->client) && (entry = fts_read(walk)) != NULL)
                put_entry(transfers, entry, strlen(folder), to);
        fts_close(walk);
}

static void put_source(struct cli_transfers *transfers, char *source, const struct cli_path *to, bool under)
{
        struct stat st = {0};

        if (strcmp(source, "-") == 0) {
                put_add(transfers, source, to, false, "", 0);
                return;
        }
        if (stat(source, &st) != 0)
                cli_transfers_fail(transfers, source, strerror(errno));
        else if (!S_ISDIR(st.st_mode))
                put_add(transfers, source, to, under, under ? cli_base_name(source) : "",
                        S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0);
        else if (!transfers->call->recursive)
                cli_transfers_fail(transfers, source, "is a folder (-r puts what is in it)");
        else
                put_folder(transfers, source, to);
}

int cli_put(struct cli_call *call)
{
        struct cli_transfers transfers;
        struct cli_path to;
        int sources = call->argc - 1;
        size_t key_len;
        bool under;
        int rv = cli_path_arg(call, call->argv[sources], false, &to);

        if (rv != 0)
                return rv;
        key_len = strlen(to.key);
        under = sources > 1 || key_len == 0 || to.key[key_len - 1] == '/';
        for (int i = 0; i < sources; i++) {
                if (cli_path_is_s3(call->argv[i]))
                        return cli_usage(call, "not a local file: %s", call->argv[i]);
                if (strcmp(call->argv[i], "-") == 0 && under)
                        return cli_usage(call, "standard input needs a key, and no other files beside it");
        }
        rv = cli_transfers_begin(&transfers, call, put_one);
        if (rv != CLI_OK)
                return rv;
        for (int i = 0; i < sources; i++)
                put_source(&transfers, call->argv[i], &to, under);
        return cli_transfers_end(&transfers);
}
