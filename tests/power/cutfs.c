/*
 * cutfs.c - a file system in memory that writes down what a power cut would leave of it.
 *
 *   cutfs FOLDER LOG
 *
 * Mounts itself on FOLDER and serves one request after the other until SIGTERM. It behaves like any
 * file system to who uses it, and appends each change, each flush and each end of an O_DSYNC write
 * to LOG (cutlog.h), from which cutimg makes the file system as it could be found after a cut at
 * any moment.
 *
 * What is durable is what POSIX promises and no more: data and size of a file after fsync or
 * fdatasync of it, the bytes of one write after an O_DSYNC or RWF_DSYNC write, names after fsync of
 * their folder.
 *
 * The file .cut in its root is the control: reading it gives the number of entries so far; writing
 * "settle" makes everything durable, "fail NAME" and "mend NAME" make a folder of the root answer
 * EIO, and no more.
 */
#define FUSE_USE_VERSION 312

#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "tests/power/cuttree.h"

#define CONTROL_NAME ".cut"
#define SPACE        (64ull << 30) /* what statvfs says: half of it is free */
#define NEVER        1e9           /* seconds that the kernel may keep attributes and names: nobody else changes them */

/* What an open file remembers. */
struct handle {
        bool synced; /* the last request was a write with O_DSYNC: an fsync right behind it is the kernel's own */
};

/* ---- answers --------------------------------------------------------------------------------- */

static void control_attributes(struct stat *out)
{
        memset(out, 0, sizeof(*out));
        out->st_ino = CUT_CONTROL;
        out->st_mode = S_IFREG | 0600;
        out->st_nlink = 1;
}

static void reply_node(fuse_req_t req, struct cut_node *node, struct fuse_file_info *info)
{
        struct fuse_entry_param param = {
                .ino = node->inode, .generation = 1, .attr_timeout = NEVER, .entry_timeout = NEVER};

        cut_node_attributes(node, &param.attr);
        node->lookups++;
        if (info != NULL)
                fuse_reply_create(req, &param, info);
        else
                fuse_reply_entry(req, &param);
}

/* ---- the control ----------------------------------------------------------------------------- */

static void control_lookup(fuse_req_t req)
{
        struct fuse_entry_param param = {.ino = CUT_CONTROL, .generation = 1};

        control_attributes(&param.attr);
        fuse_reply_entry(req, &param);
}

static void control_read(fuse_req_t req, size_t size, off_t offset)
{
        char text[32];
        size_t len = (size_t)snprintf(text, sizeof(text), "%llu\n", (unsigned long long)cut_log_count());

        if ((size_t)offset >= len)
                fuse_reply_buf(req, NULL, 0);
        else
                fuse_reply_buf(req, text + offset, size < len - (size_t)offset ? size : len - (size_t)offset);
}

static int control_command(const char *text)
{
        struct cut_name *entry;
        char name[64];

        if (strcmp(text, "settle") == 0) {
                cut_log_inode(CUT_SETTLE, CUT_ROOT, 0, 0);
                return 0;
        }
        if (sscanf(text, "fail %63s", name) != 1 && sscanf(text, "mend %63s", name) != 1)
                return -EINVAL;
        entry = cut_name_find(cut_node_of(CUT_ROOT), name);
        if (entry == NULL)
                return -ENOENT;
        entry->node->failing = text[0] == 'f';
        return 0;
}

static void control_write(fuse_req_t req, const char *data, size_t size)
{
        char text[80];
        int rv;

        snprintf(text, sizeof(text), "%.*s", (int)(size < sizeof(text) ? size : sizeof(text) - 1), data);
        text[strcspn(text, "\n")] = '\0';
        rv = control_command(text);
        if (rv != 0)
                fuse_reply_err(req, -rv);
        else
                fuse_reply_write(req, size);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
        struct fuse_entry_param none = {.entry_timeout = NEVER};
        struct cut_name *entry;

        if (parent == CUT_ROOT && strcmp(name, CONTROL_NAME) == 0) {
                control_lookup(req);
                return;
        }
        entry = cut_name_find(cut_node_of(parent), name);
        if (entry != NULL)
                reply_node(req, entry->node, NULL);
        else
                fuse_reply_entry(req, &none);
}

static void forget(fuse_ino_t inode, uint64_t count)
{
        struct cut_node *node = inode == CUT_CONTROL ? NULL : cut_node_of(inode);

        if (node == NULL || inode == CUT_ROOT)
                return;
        node->lookups -= count < node->lookups ? count : node->lookups;
        cut_node_release(node);
}

static void op_forget(fuse_req_t req, fuse_ino_t inode, uint64_t count)
{
        forget(inode, count);
        fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *list)
{
        size_t i;

        for (i = 0; i < count; i++)
                forget(list[i].ino, list[i].nlookup);
        fuse_reply_none(req);
}

/* A new file or folder; 0 or an errno of the kernel's kind. */
static int make(fuse_ino_t parent, const char *name, mode_t mode, struct cut_node **out)
{
        struct cut_node *folder = cut_node_of(parent);

        if (cut_node_failing(folder))
                return EIO;
        if (cut_name_find(folder, name) != NULL)
                return EEXIST;
        *out = cut_node_new(folder, mode);
        if (*out == NULL || cut_name_add(folder, name, *out) != 0)
                return ENOSPC;
        cut_log_name(S_ISDIR(mode) ? CUT_MKDIR : CUT_CREATE, folder, *out, name, NULL);
        return 0;
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
        struct cut_node *node;
        int error = make(parent, name, S_IFDIR | (mode & 07777), &node);

        if (error != 0)
                fuse_reply_err(req, error);
        else
                reply_node(req, node, NULL);
}

static int remove_name(fuse_ino_t parent, const char *name, bool folders)
{
        struct cut_node *folder = cut_node_of(parent);
        struct cut_name *entry = cut_name_find(folder, name);

        if (cut_node_failing(folder))
                return EIO;
        if (entry == NULL)
                return ENOENT;
        if (folders && !TAILQ_EMPTY(&entry->node->names))
                return ENOTEMPTY;
        cut_log_name(CUT_UNLINK, folder, entry->node, name, NULL);
        cut_name_remove(folder, entry);
        return 0;
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
        fuse_reply_err(req, remove_name(parent, name, false));
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
        fuse_reply_err(req, remove_name(parent, name, true));
}

/* Within a folder only: that is one change for every file system that keeps a journal. */
static int rename_within(struct cut_node *folder, const char *name, const char *new_name, unsigned flags)
{
        struct cut_name *from = cut_name_find(folder, name), *to = cut_name_find(folder, new_name);
        char *copy;

        if (cut_node_failing(folder))
                return EIO;
        if (from == NULL)
                return ENOENT;
        if (to != NULL && (flags & RENAME_NOREPLACE) != 0)
                return EEXIST;
        copy = strdup(new_name);
        if (copy == NULL)
                return ENOMEM;
        cut_log_name(CUT_RENAME, folder, from->node, name, new_name);
        if (to != NULL)
                cut_name_remove(folder, to);
        free(from->text);
        from->text = copy;
        return 0;
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent, const char *new_name,
                      unsigned flags)
{
        int error;

        if (parent != new_parent || (flags & ~(unsigned)RENAME_NOREPLACE) != 0)
                error = parent != new_parent ? EXDEV : EINVAL;
        else
                error = rename_within(cut_node_of(parent), name, new_name, flags);
        fuse_reply_err(req, error);
}

static void op_readdir(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *info)
{
        struct cut_name *entry;
        struct stat st;
        char *buffer = malloc(size);
        size_t used = 0, n;

        if (buffer == NULL) {
                fuse_reply_err(req, ENOMEM);
                return;
        }
        TAILQ_FOREACH (entry, &cut_node_of(inode)->names, link) {
                if (entry->cookie <= offset)
                        continue;
                cut_node_attributes(entry->node, &st);
                n = fuse_add_direntry(req, buffer + used, size - used, entry->text, &st, entry->cookie);
                if (n > size - used)
                        break;
                used += n;
        }
        fuse_reply_buf(req, buffer, used);
        free(buffer);
}

static void op_fsyncdir(fuse_req_t req, fuse_ino_t inode, int datasync, struct fuse_file_info *info)
{
        if (cut_node_failing(cut_node_of(inode))) {
                fuse_reply_err(req, EIO);
                return;
        }
        cut_log_inode(CUT_FSYNCDIR, inode, 0, 0);
        fuse_reply_err(req, 0);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void op_getattr(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *info)
{
        struct stat st;

        if (inode == CUT_CONTROL)
                control_attributes(&st);
        else
                cut_node_attributes(cut_node_of(inode), &st);
        fuse_reply_attr(req, &st, inode == CUT_CONTROL ? 0 : NEVER);
}

static void op_setattr(fuse_req_t req, fuse_ino_t inode, struct stat *attr, int which, struct fuse_file_info *info)
{
        struct cut_node *node = inode == CUT_CONTROL ? NULL : cut_node_of(inode);

        if (node != NULL && cut_node_failing(node)) {
                fuse_reply_err(req, EIO);
                return;
        }
        if (node != NULL && (which & FUSE_SET_ATTR_SIZE) != 0) {
                if ((uint64_t)attr->st_size > CUT_FILE_MAX) {
                        fuse_reply_err(req, EFBIG);
                        return;
                }
                cut_node_set_size(node, (uint64_t)attr->st_size);
        }
        if (node != NULL && (which & FUSE_SET_ATTR_MODE) != 0)
                node->mode = (node->mode & S_IFMT) | (attr->st_mode & 07777);
        op_getattr(req, inode, info);
}

static void op_statfs(fuse_req_t req, fuse_ino_t inode)
{
        struct statvfs st = {.f_bsize = CUT_PAGE,
                             .f_frsize = CUT_PAGE,
                             .f_blocks = SPACE / CUT_PAGE,
                             .f_bfree = SPACE / CUT_PAGE / 2,
                             .f_bavail = SPACE / CUT_PAGE / 2,
                             .f_namemax = 255};

        fuse_reply_statfs(req, &st);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int open_handle(struct fuse_file_info *info)
{
        struct handle *handle = calloc(1, sizeof(*handle));

        if (handle == NULL)
                return ENOMEM;
        info->fh = (uint64_t)(uintptr_t)handle;
        info->keep_cache = 1; /* what is mapped must not be thrown away */
        return 0;
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *info)
{
        struct cut_node *node;
        int error = make(parent, name, S_IFREG | (mode & 07777), &node);

        if (error == 0)
                error = open_handle(info);
        if (error != 0)
                fuse_reply_err(req, error);
        else
                reply_node(req, node, info);
}

static void op_open(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *info)
{
        int error = 0;

        if (inode == CUT_CONTROL)
                info->direct_io = 1;
        else
                error = open_handle(info);
        if (error != 0)
                fuse_reply_err(req, error);
        else
                fuse_reply_open(req, info);
}

static void op_release(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *info)
{
        free((struct handle *)(uintptr_t)info->fh);
        fuse_reply_err(req, 0);
}

static void op_read(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *info)
{
        struct cut_node *node = cut_node_of(inode);
        uint64_t at = (uint64_t)offset;

        if (inode == CUT_CONTROL)
                control_read(req, size, offset);
        else if (cut_node_failing(node))
                fuse_reply_err(req, EIO);
        else if (at >= node->size)
                fuse_reply_buf(req, NULL, 0);
        else
                fuse_reply_buf(req, (const char *)node->data + at, size < node->size - at ? size : node->size - at);
}

/*
 * The kernel hands O_DSYNC and RWF_DSYNC down with each write. Until the range entry a cut finds
 * the write torn.
 */
static void op_write(fuse_req_t req, fuse_ino_t inode, const char *data, size_t size, off_t offset,
                     struct fuse_file_info *info)
{
        struct handle *handle = (struct handle *)(uintptr_t)info->fh;
        struct cut_node *node = cut_node_of(inode);

        if (inode == CUT_CONTROL) {
                control_write(req, data, size);
                return;
        }
        if (cut_node_failing(node) || (uint64_t)offset + size > CUT_FILE_MAX) {
                fuse_reply_err(req, cut_node_failing(node) ? EIO : EFBIG);
                return;
        }
        cut_log_write(inode, (uint64_t)offset, data, size);
        memcpy(node->data + offset, data, size);
        if ((uint64_t)offset + size > node->size)
                node->size = (uint64_t)offset + size;
        clock_gettime(CLOCK_REALTIME, &node->mtime);
        handle->synced = (info->flags & O_DSYNC) != 0 && !info->writepage; /* O_SYNC has the bit, too */
        if (handle->synced)
                cut_log_inode(CUT_RANGE, inode, (uint64_t)offset, size);
        fuse_reply_write(req, size);
}

static void op_fsync(fuse_req_t req, fuse_ino_t inode, int datasync, struct fuse_file_info *info)
{
        struct handle *handle = (struct handle *)(uintptr_t)info->fh;

        if (inode == CUT_CONTROL) {
                fuse_reply_err(req, 0);
                return;
        }
        if (cut_node_failing(cut_node_of(inode))) {
                fuse_reply_err(req, EIO);
                return;
        }
        if (!handle->synced) /* else it promises no more than the write before it, which is durable */
                cut_log_inode(CUT_FSYNC, inode, 0, 0);
        handle->synced = false;
        fuse_reply_err(req, 0);
}

static void op_fallocate(fuse_req_t req, fuse_ino_t inode, int mode, off_t offset, off_t length,
                         struct fuse_file_info *info)
{
        struct cut_node *node = cut_node_of(inode);
        uint64_t end = (uint64_t)offset + (uint64_t)length;

        if (mode != 0 || cut_node_failing(node) || end > CUT_FILE_MAX) {
                fuse_reply_err(req, mode != 0 ? EOPNOTSUPP : cut_node_failing(node) ? EIO : EFBIG);
                return;
        }
        if (end > node->size)
                cut_node_set_size(node, end);
        fuse_reply_err(req, 0);
}

/* Pages of zeroes are holes. */
static void op_lseek(fuse_req_t req, fuse_ino_t inode, off_t offset, int whence, struct fuse_file_info *info)
{
        struct cut_node *node = cut_node_of(inode);
        uint64_t at = (uint64_t)offset, page;

        if (at >= node->size) {
                fuse_reply_err(req, ENXIO);
                return;
        }
        for (page = at / CUT_PAGE * CUT_PAGE; page < node->size; page += CUT_PAGE) {
                if (cut_all_zero(node->data + page, CUT_PAGE) == (whence == SEEK_HOLE))
                        break;
        }
        if (page >= node->size && whence == SEEK_DATA)
                fuse_reply_err(req, ENXIO);
        else
                fuse_reply_lseek(req, (off_t)(page < at ? at : page > node->size ? node->size : page));
}

/* ---- life ------------------------------------------------------------------------------------ */

static void op_init(void *arg, struct fuse_conn_info *conn)
{
        conn->max_write = 1u << 20;
        conn->want &= ~(unsigned)FUSE_CAP_WRITEBACK_CACHE; /* the order of writes is the caller's */
}

static const struct fuse_lowlevel_ops operations = {
        .init = op_init,
        .lookup = op_lookup,
        .forget = op_forget,
        .forget_multi = op_forget_multi,
        .getattr = op_getattr,
        .setattr = op_setattr,
        .statfs = op_statfs,
        .mkdir = op_mkdir,
        .unlink = op_unlink,
        .rmdir = op_rmdir,
        .rename = op_rename,
        .readdir = op_readdir,
        .fsyncdir = op_fsyncdir,
        .create = op_create,
        .open = op_open,
        .release = op_release,
        .read = op_read,
        .write = op_write,
        .fsync = op_fsync,
        .fallocate = op_fallocate,
        .lseek = op_lseek,
};

static int serve(struct fuse_session *session, const char *folder)
{
        int rv;

        if (fuse_set_signal_handlers(session) != 0)
                return 1;
        if (fuse_session_mount(session, folder) != 0) {
                fuse_remove_signal_handlers(session);
                return 1;
        }
        rv = fuse_session_loop(session);
        fuse_session_unmount(session);
        fuse_remove_signal_handlers(session);
        return rv < 0;
}

int main(int argc, char **argv)
{
        char flag[] = "-o", options[] = "fsname=cutfs,default_permissions";
        char *arguments[] = {argv[0], flag, options, NULL};
        struct fuse_args args = FUSE_ARGS_INIT(3, arguments);
        struct fuse_session *session;
        int rv;

        if (argc != 3) {
                fprintf(stderr, "usage: cutfs FOLDER LOG\n");
                return 2;
        }
        cut_log_open(argv[2]);
        cut_node_new(NULL, S_IFDIR | 0755);
        session = fuse_session_new(&args, &operations, sizeof(operations), NULL);
        if (session == NULL)
                return 1;
        rv = serve(session, argv[1]);
        fuse_session_destroy(session);
        fuse_opt_free_args(&args);
        return rv;
}
