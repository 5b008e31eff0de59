/*
 * command_get.c - `millrace get` and `millrace cat`. A file is fetched under another name in its
 * own folder and takes its place when it is whole and its checksum was right, so that nobody sees a
 * part of it. Listings come from outside: path.h keeps their keys inside the target folder.
 */
#include "file_transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ----------------------------------------------------------------------------------- */

/* Makes the folders that a path lies in. */
static int get_make_folders(const char *path)
{
        char folder[PATH_MAX];

        if (snprintf(folder, sizeof(folder), "%s", path) >= (int)sizeof(folder))
                return -ENAMETOOLONG;
        for (char *c = folder + 1; *c != '\0'; c++) {
                if (*c != '/')
                        continue;
                *c = '\0';
                if (mkdir(folder, 0777) != 0 && errno != EEXIST)
                        return -errno;
                *c = '/';
        }
        return 0;
}

/* "dir/.millrace-XXXXXX" beside the file that is to appear. */
static int open_beside(const char *path, char name[PATH_MAX])
{
        const char *base = cli_base_name(path);
        int fd;

        if (snprintf(name, PATH_MAX, "%.*s.millrace-XXXXXX", (int)(base - path), path) >= PATH_MAX)
                return -ENAMETOOLONG;
        fd = mkostemp(name, O_CLOEXEC);
        return fd >= 0 ? fd : -errno;
}

static int put_in_place(int fd, const char *name, const char *path, int64_t mtime_s)
{
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = mtime_s}};
        mode_t mask = umask(0);

        umask(mask);
        if (mtime_s != 0)
                (void)futimens(fd, times); /* a file system that keeps no such time still keeps the file */
        if (fchmod(fd, 0666 & ~mask) != 0 || rename(name, path) != 0)
                return -errno;
        return 0;
}

static int fetch_file(struct cli_transfers *transfers, const struct cli_transfer *transfer, const struct mr_get_fd *get)
{
        struct mr_get_fd_result result;
        char name[PATH_MAX];
        struct mr_error err;
        int rv = get_make_folders(transfer->local);
        int fd = rv == 0 ? open_beside(transfer->local, name) : rv;

        if (fd < 0) {
                cli_transfers_fail(transfers, transfer->local, strerror(-fd));
                return CLI_FAILED;
        }
        rv = mr_get_file(transfers->call->client, get, fd, &result, &err);
        if (rv != 0) {
                cli_transfers_failed(transfers, get->key, &err);
        } else {
                rv = put_in_place(fd, name, transfer->local, result.mtime_s);
                if (rv != 0)
                        cli_transfers_fail(transfers, transfer->local, strerror(-rv));
        }
        if (close(fd) != 0 && rv == 0) {
                rv = -errno;
                cli_transfers_fail(transfers, transfer->local, strerror(-rv));
        }
        if (rv != 0) {
                unlink(name); /* if it was renamed already there is nothing of that name */
                return CLI_FAILED;
        }
        cli_transfers_say(transfers, "get s3://%s/%s -> %s", get->bucket, get->key, transfer->local);
        return CLI_OK;
}

static int fetch_stream(struct cli_transfers *transfers, const struct cli_transfer *transfer,
                        const struct mr_get_fd *get)
{
        bool standard = strcmp(transfer->local, "-") == 0;
        int fd = standard ? STDOUT_FILENO : open(transfer->local, O_WRONLY | O_CLOEXEC);
        struct mr_get_fd_result result;
        struct mr_error err;
        int rv;

        if (fd < 0) {
                cli_transfers_fail(transfers, transfer->local, strerror(errno));
                return CLI_FAILED;
        }
        rv = mr_get_stream(transfers->call->client, get, fd, &result, &err);
        if (!standard)
                close(fd);
        if (rv == -EPIPE)
                return CLI_FAILED; /* whoever reads has enough: nothing to say */
        return rv == 0 ? CLI_OK : cli_transfers_failed(transfers, get->key, &err);
}

static int get_one(struct cli_transfers *transfers, struct cli_transfer *transfer)
{
        struct mr_get_fd get = {
                .bucket = transfer->bucket,
                .key = transfer->key,
                .version_id = transfers->call->version_id,
                .size = transfer->size,
                .etag = transfer->etag[0] != '\0' ? transfer->etag : NULL,
                .progress = cli_progress_bytes,
                .progress_arg = transfers->progress,
        };
        size_t len = strlen(transfer->local);
        struct stat st;
        int rv;

        if (strcmp(transfer->local, "-") == 0)
                return fetch_stream(transfers, transfer, &get);
        if (transfer->local[len - 1] == '/') { /* a marker of a folder, without content */
                rv = get_make_folders(transfer->local);
                if (rv != 0)
                        cli_transfers_fail(transfers, transfer->local, strerror(-rv));
                return rv == 0 ? CLI_OK : CLI_FAILED;
        }
        if (stat(transfer->local, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
                return fetch_stream(transfers, transfer, &get); /* /dev/null, a pipe */
        return fetch_file(transfers, transfer, &get);
}

/* ---- what to fetch, and where to ------------------------------------------------------------- */

static struct cli_transfer *transfer_new(struct cli_transfers *transfers, const struct cli_path *from)
{
        struct cli_transfer *transfer = calloc(1, sizeof(*transfer));

        if (transfer == NULL) {
                cli_transfers_fail(transfers, from->key, strerror(ENOMEM));
                return NULL;
        }
        transfer->size = -1;
        memcpy(transfer->bucket, from->bucket, sizeof(transfer->bucket));
        memcpy(transfer->key, from->key, sizeof(transfer->key));
        return transfer;
}

/* owner: the main thread */
struct tree {
        struct cli_transfers *transfers;
        const struct cli_path *from; /* its key is "" or ends in a slash */
        const char *to;
        uint64_t found;
};

static int get_take_entry(void *arg, const struct mr_entry *entry)
{
        struct tree *tree = arg;
        const char *relative = entry->key + strlen(tree->from->key);
        struct cli_transfer *transfer;
        int rv;

        if (mr_client_canceled(tree->transfers->call->client))
                return -ECANCELED;
        tree->found++;
        if (relative[0] == '\0') /* the marker of the folder asked for */
                return 0;
        transfer = transfer_new(tree->transfers, tree->from);
        if (transfer == NULL)
                return -ENOMEM;
        rv = cli_local_join(transfer->local, sizeof(transfer->local), tree->to, relative);
        if (rv != 0 || strlen(entry->key) > CLI_KEY_MAX) {
                cli_transfers_fail(tree->transfers, entry->key, "cannot be a file name here; left out");
                free(transfer);
                return 0;
        }
        snprintf(transfer->key, sizeof(transfer->key), "%s", entry->key);
        snprintf(transfer->etag, sizeof(transfer->etag), "%s", entry->etag);
        transfer->size = (int64_t)entry->size;
        cli_transfers_add(tree->transfers, transfer, entry->size);
        return 0;
}

static void get_tree(struct cli_transfers *transfers, struct cli_path *from, const char *to)
{
        struct mr_list list = {.bucket = from->bucket, .prefix = from->key};
        struct tree tree = {.transfers = transfers, .from = from, .to = to};
        size_t len = strlen(from->key);
        struct mr_error err;
        int rv;

        if (len > 0 && from->key[len - 1] != '/' && len < CLI_KEY_MAX)
                memcpy(from->key + len, "/", 2);
        rv = mr_list(transfers->call->client, &list, get_take_entry, &tree, &err);
        if (rv != 0 && err.code != 0)
                cli_transfers_failed(transfers, from->bucket, &err);
        else if (rv == 0 && tree.found == 0 && from->key[0] != '\0')
                cli_transfers_fail(transfers, from->key, "nothing below it");
}

static void get_download_object(struct cli_transfers *transfers, const struct cli_path *from, const char *to,
                                bool into_folder)
{
        struct mr_head head = {.bucket = from->bucket, .key = from->key, .version_id = transfers->call->version_id};
        struct cli_transfer *transfer = transfer_new(transfers, from);
        struct mr_object_info info;
        struct mr_error err;
        uint64_t size = 0;
        int rv = 0;

        if (transfer == NULL)
                return;
        if (into_folder)
                rv = cli_local_join(transfer->local, sizeof(transfer->local), to, cli_base_name(from->key));
        else if (snprintf(transfer->local, sizeof(transfer->local), "%s", to) >= (int)sizeof(transfer->local))
                rv = -ENAMETOOLONG;
        if (rv != 0) {
                cli_transfers_fail(transfers, from->key, "cannot be a file name here");
                free(transfer);
                return;
        }
        if (cli_progress_wanted(transfers->call) != CLI_PROGRESS_NONE) { /* a bar needs to know how long it is */
                if (mr_head_version(transfers->call->client, &head, &info, &err) == 0) {
                        size = info.size;
                        mr_object_info_free(&info);
                }
        }
        cli_transfers_add(transfers, transfer, size);
}

int cli_get(struct cli_call *call)
{
        int sources = call->argc > 1 ? call->argc - 1 : 1;
        const char *to = call->argc > 1 ? call->argv[sources] : ".";
        bool standard = strcmp(to, "-") == 0, folder;
        struct cli_transfers transfers;
        struct cli_path from;
        struct stat st;
        int rv;

        folder = !standard && (sources > 1 || to[strlen(to) - (to[0] != '\0')] == '/' ||
                               (stat(to, &st) == 0 && S_ISDIR(st.st_mode)));
        if (cli_path_is_s3(to) || to[0] == '\0')
                return cli_usage(call, "not a local file or folder: %s", to);
        if (standard && (sources > 1 || call->recursive))
                return cli_usage(call, "standard output takes one object");
        if (call->version_id != NULL && (sources > 1 || call->recursive))
                return cli_usage(call, "--version-id is of one object");
        for (int i = 0; i < sources; i++) {
                rv = cli_path_arg(call, call->argv[i], !call->recursive, &from);
                if (rv != 0)
                        return rv;
        }
        if (standard)
                call->quiet = true; /* lines would end up between the bytes */
        rv = cli_transfers_begin(&transfers, call, get_one);
        if (rv != CLI_OK)
                return rv;
        for (int i = 0; i < sources && !mr_client_canceled(call->client); i++) {
                (void)cli_path_parse(call->argv[i], &from); /* checked above */
                if (call->recursive)
                        get_tree(&transfers, &from, to);
                else
                        get_download_object(&transfers, &from, to, folder);
        }
        return cli_transfers_end(&transfers);
}

int cli_cat(struct cli_call *call)
{
        struct cli_path from;
        int status = CLI_OK;

        if (call->version_id != NULL && call->argc > 1)
                return cli_usage(call, "--version-id is of one object");
        for (int i = 0; i < call->argc; i++) {
                status = cli_path_arg(call, call->argv[i], true, &from);
                if (status != 0)
                        return status;
        }
        for (int i = 0; i < call->argc && !mr_client_canceled(call->client); i++) {
                struct mr_get_fd get = {
                        .bucket = from.bucket,
                        .key = from.key,
                        .version_id = call->version_id,
                        .size = -1,
                };
                struct mr_get_fd_result result;
                struct mr_error err;
                int rv;

                (void)cli_path_parse(call->argv[i], &from);
                rv = mr_get_stream(call->client, &get, STDOUT_FILENO, &result, &err);
                if (rv == -EPIPE)
                        return CLI_FAILED;
                if (rv != 0)
                        status = cli_failed(call->argv[i], &err);
        }
        return status;
}
