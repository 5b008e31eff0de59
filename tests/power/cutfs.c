/*
 * cutfs.c - a file system in memory that writes down what a power cut would leave of it.
 *
 *   cutfs FOLDER LOG
 *
 * Mounts itself on FOLDER and serves one request after the other until SIGTERM. It behaves like any file system to who uses it, and appends each
 * change, each flush and each end of an O_DSYNC write to LOG (cutlog.h), from which cutimg makes the file system as it could be found
 * after a cut at any moment.
 *
 * What is durable is what POSIX promises and no more: data and size of a file after fsync or fdatasync of it, the bytes of one write after an
 * O_DSYNC or RWF_DSYNC write, names after fsync of their folder.
 *
 * The file .cut in its root is the control: reading it gives the number of entries so far; writing "settle" makes everything
 * durable, "fail NAME" and "mend NAME" make a folder of the root answer EIO, and no more.
 */
#define FUSE_USE_VERSION 312

#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "tests/power/cutlog.h"

#define CONTROL_NAME  ".cut"
#define CONTROL_INODE 2u
#define FILE_MAX      (1ull << 30) /* address space of each file */
#define PAGE          4096ull
#define SPACE         (64ull << 30) /* what statvfs says: half of it is free */
#define NEVER         1e9           /* seconds that the kernel may keep attributes and names: nobody else changes them */

struct entry {
        char *name;
        struct node *node;
        off_t cookie; /* for readdir: increases, never used again */
        TAILQ_ENTRY(entry) link;
};

struct node {
        fuse_ino_t inode;
        struct node *top; /* folder of the root it lies in; NULL: the root itself */
        bool failing;     /* of a top folder */
        mode_t mode;
        uint64_t lookups;
        unsigned links;
        struct timespec mtime;
        uint8_t *data; /* files: FILE_MAX bytes of address space */
        uint64_t size;
        TAILQ_HEAD(, entry) entries; /* folders */
};

/* What an open file remembers. */
struct handle {
        bool synced; /* the last request was a write with O_DSYNC: an fsync right behind it is the kernel's own */
};

static struct node *nodes[1u << 20];
static fuse_ino_t last_inode = CONTROL_INODE;
static off_t last_cookie;
static int log_fd;
static uint64_t entry_count;

/* ---- the log --------------------------------------------------------------------------------------- */

static bool all_zero(const uint8_t *data, size_t len)
{
        return len > 0 && data[0] == 0 && memcmp(data, data + 1, len - 1) == 0;
}

static void log_entry(struct cut_entry *entry, const char *name, const char *new_name, const void *data)
{
        struct iovec parts[4];
        size_t total = 0;
        unsigned i;

        entry->magic = CUT_MAGIC;
        entry->name_len = name != NULL ? (uint16_t)strlen(name) : 0;
        entry->new_len = new_name != NULL ? (uint16_t)strlen(new_name) : 0;
        if (data != NULL && all_zero(data, entry->data_len)) {
                entry->flags |= CUT_ZEROES;
                data = NULL;
        }
        parts[0] = (struct iovec){entry, sizeof(*entry)};
        parts[1] = (struct iovec){(void *)name, entry->name_len};
        parts[2] = (struct iovec){(void *)new_name, entry->new_len};
        parts[3] = (struct iovec){(void *)data, data != NULL ? entry->data_len : 0};
        for (i = 0; i < 4; i++)
                total += parts[i].iov_len;
        if (writev(log_fd, parts, 4) != (ssize_t)total) {
                perror("cutfs: log");
                abort(); /* without it nothing that follows means anything */
        }
        entry_count++;
}

static void log_inode(enum cut_kind kind, fuse_ino_t inode, uint64_t offset, uint64_t len)
{
        struct cut_entry entry = {.kind = (uint16_t)kind, .inode = inode, .offset = offset, .data_len = len};

        log_entry(&entry, NULL, NULL, NULL);
}

static void log_name(enum cut_kind kind, const struct node *folder, const struct node *node, const char *name,
                     const char *new_name)
{
        struct cut_entry entry = {
                .kind = (uint16_t)kind, .inode = node->inode, .folder = folder->inode, .offset = node->mode};

        log_entry(&entry, name, new_name, NULL);
}

/* ---- nodes ----------------------------------------------------------------------------------------- */

static struct node *node_of(fuse_ino_t inode)
{
        return nodes[inode];
}

static bool failing(const struct node *node)
{
        return node->top != NULL && node->top->failing;
}

static struct node *node_new(const struct node *folder, mode_t mode)
{
        struct node *node;

        if (last_inode + 1 == sizeof(nodes) / sizeof(nodes[0]))
                return NULL;
        node = calloc(1, sizeof(*node));
        if (node == NULL)
                return NULL;
        if (S_ISREG(mode)) {
                node->data = mmap(NULL, FILE_MAX, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                if (node->data == MAP_FAILED) {
                        free(node);
                        return NULL;
                }
        }
        node->inode = folder == NULL ? CUT_ROOT : ++last_inode;
        node->mode = mode;
        node->top = folder == NULL ? NULL : folder->top != NULL ? folder->top : node;
        node->links = 1;
        TAILQ_INIT(&node->entries);
        clock_gettime(CLOCK_REALTIME, &node->mtime);
        nodes[node->inode] = node;
        return node;
}

/* Once nothing names it and the kernel has forgotten it. */
static void node_release(struct node *node)
{
        if (node->links > 0 || node->lookups > 0)
                return;
        nodes[node->inode] = NULL;
        if (node->data != NULL)
                munmap(node->data, FILE_MAX);
        free(node);
}

static struct entry *entry_find(const struct node *folder, const char *name)
{
        struct entry *entry;

        TAILQ_FOREACH (entry, &folder->entries, link)
                if (strcmp(entry->name, name) == 0)
                        return entry;
        return NULL;
}

static int entry_add(struct node *folder, const char *name, struct node *node)
{
        struct entry *entry = calloc(1, sizeof(*entry));

        if (entry == NULL)
                return -ENOMEM;
        entry->name = strdup(name);
        if (entry->name == NULL) {
                free(entry);
                return -ENOMEM;
        }
        entry->node = node;
        entry->cookie = ++last_cookie;
        TAILQ_INSERT_TAIL(&folder->entries, entry, link);
        return 0;
}

static void entry_remove(struct node *folder, struct entry *entry)
{
        struct node *node = entry->node;

        TAILQ_REMOVE(&folder->entries, entry, link);
        free(entry->name);
        free(entry);
        node->links--;
        node_release(node);
}

static void attributes(const struct node *node, struct stat *out)
{
        memset(out, 0, sizeof(*out));
        out->st_ino = node->inode;
        out->st_mode = node->mode;
        out->st_nlink = S_ISDIR(node->mode) ? 2 : node->links;
        out->st_size = (off_t)node->size;
        out->st_blocks = (blkcnt_t)((node->size + CUT_SECTOR - 1) / CUT_SECTOR);
        out->st_blksize = (blksize_t)PAGE;
        out->st_uid = getuid();
        out->st_gid = getgid();
        out->st_atim = out->st_mtim = out->st_ctim = node->mtime;
}

static void control_attributes(struct stat *out)
{
        memset(out, 0, sizeof(*out));
        out->st_ino = CONTROL_INODE;
        out->st_mode = S_IFREG | 0600;
        out->st_nlink = 1;
}

static void reply_node(fuse_req_t req, struct node *node, struct fuse_file_info *info)
{
        struct fuse_entry_param param = {
                .ino = node->inode, .generation = 1, .attr_timeout = NEVER, .entry_timeout = NEVER};

        attributes(node, &param.attr);
        node->lookups++;
        if (info != NULL)
                fuse_reply_create(req, &param, info);
        else
                fuse_reply_entry(req, &param);
}

/* ---- the control ----------------------------------------------------------------------------------- */

static void control_lookup(fuse_req_t req)
{
        struct fuse_entry_param param = {.ino = CONTROL_INODE, .generation = 1};

        control_attributes(&param.attr);
        fuse_reply_entry(req, &param);
}

static void control_read(fuse_req_t req, size_t size, off_t offset)
{
        char text[32];
        size_t len = (size_t)snprintf(text, sizeof(text), "%llu\n", (unsigned long long)entry_count);

        if ((size_t)offset >= len)
                fuse_reply_buf(req, NULL, 0);
        else
                fuse_reply_buf(req, text + offset, size < len - (size_t)offset ? size : len - (size_t)offset);
}

static int control_command(const char *text)
{
        struct entry *entry;
        char name[64];

        if (strcmp(text, "settle") == 0) {
                log_inode(CUT_SETTLE, CUT_ROOT, 0, 0);
                return 0;
        }
        if (sscanf(text, "fail %63s", name) != 1 && sscanf(text, "mend %63s", name) != 1)
                return -EINVAL;
        entry = entry_find(node_of(CUT_ROOT), name);
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

/* ---- names ----------------------------------------------------------------------------------------- */

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
        struct fuse_entry_param none = {.entry_timeout = NEVER};
        struct entry *entry;

        if (parent == CUT_ROOT && strcmp(name, CONTROL_NAME) == 0) {
                control_lookup(req);
                return;
        }
        entry = entry_find(node_of(parent), name);
        if (entry != NULL)
                reply_node(req, entry->node, NULL);
        else
                fuse_reply_entry(req, &none);
}

static void forget(fuse_ino_t inode, uint64_t count)
{
        struct node *node = inode == CONTROL_INODE ? NULL : node_of(inode);

        if (node == NULL || inode == CUT_ROOT)
                return;
        node->lookups -= count < node->lookups ? count : node->lookups;
        node_release(node);
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
static int make(fuse_ino_t parent, const char *name, mode_t mode, struct node **out)
{
        struct node *folder = node_of(parent);

        if (failing(folder))
                return EIO;
        if (entry_find(folder, name) != NULL)
                return EEXIST;
        *out = node_new(folder, mode);
        if (*out == NULL || entry_add(folder, name, *out) != 0)
                return ENOSPC;
        log_name(S_ISDIR(mode) ? CUT_MKDIR : CUT_CREATE, folder, *out, name, NULL);
        return 0;
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
        struct node *node;
        int error = make(parent, name, S_IFDIR | (mode & 07777), &node);

        if (error != 0)
                fuse_reply_err(req, error);
        else
                reply_node(req, node, NULL);
}

static int remove_name(fuse_ino_t parent, const char *name, bool folders)
{
        struct node *folder = node_of(parent);
        struct entry *entry = entry_find(folder, name);

        if (failing(folder))
                return EIO;
        if (entry == NULL)
                return ENOENT;
        if (folders && !TAILQ_EMPTY(&entry->node->entries))
                return ENOTEMPTY;
        log_name(CUT_UNLINK, folder, entry->node, name, NULL);
        entry_remove(folder, entry);
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
static int rename_within(struct node *folder, const char *name, const char *new_name, unsigned flags)
{
        struct entry *from = entry_find(folder, name), *to = entry_find(folder, new_name);
        char *copy;

        if (failing(folder))
                return EIO;
        if (from == NULL)
                return ENOENT;
        if (to != NULL && (flags & RENAME_NOREPLACE) != 0)
                return EEXIST;
        copy = strdup(new_name);
        if (copy == NULL)
                return ENOMEM;
        log_name(CUT_RENAME, folder, from->node, name, new_name);
        if (to != NULL)
                entry_remove(folder, to);
        free(from->name);
        from->name = copy;
        return 0;
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent, const char *new_name,
                      unsigned flags)
{
        int error;

        if (parent != new_parent || (flags & ~(unsigned)RENAME_NOREPLACE) != 0)
                error = parent != new_parent ? EXDEV : EINVAL;
        else
                error = rename_within(node_of(parent), name, new_name, flags);
        fuse_reply_err(req, error);
}

static void op_readdir(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *info)
{
        struct entry *entry;
        struct stat st;
        char *buffer = malloc(size);
        size_t used = 0, n;

        if (buffer == NULL) {
                fuse_reply_err(req, ENOMEM);
                return;
        }
        TAILQ_FOREACH (entry, &node_of(inode)->entries, link) {
                if (entry->cookie <= offset)
                        continue;
                attributes(entry->node, &st);
                n = fuse_add_direntry(req, buffer + used, size - used, entry->name, &st, entry->cookie);
                if (n > size - used)
                        break;
                used += n;
        }
        fuse_reply_buf(req, buffer, used);
        free(buffer);
}

static void op_fsyncdir(fuse_req_t req, fuse_ino_t inode, int datasync, struct fuse_file_info *info)
{
        if (failing(node_of(inode))) {
                fuse_reply_err(req, EIO);
                return;
        }
        log_inode(CUT_FSYNCDIR, inode, 0, 0);
        fuse_reply_err(req, 0);
}

/* ---- attributes ------------------------------------------------------------------------------------ */

static void op_getattr(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *info)
{
        struct stat st;

        if (inode == CONTROL_INODE)
                control_attributes(&st);
        else
                attributes(node_of(inode), &st);
        fuse_reply_attr(req, &st, inode == CONTROL_INODE ? 0 : NEVER);
}

static void set_size(struct node *node, uint64_t size)
{
        uint64_t page = (size + PAGE - 1) / PAGE * PAGE;

        if (size < node->size) {
                memset(node->data + size, 0, page - size);
                madvise(node->data + page, FILE_MAX - page, MADV_DONTNEED);
        }
        node->size = size;
        log_inode(CUT_SIZE, node->inode, size, 0);
}

static void op_setattr(fuse_req_t req, fuse_ino_t inode, struct stat *attr, int which, struct fuse_file_info *info)
{
        struct node *node = inode == CONTROL_INODE ? NULL : node_of(inode);

        if (node != NULL && failing(node)) {
                fuse_reply_err(req, EIO);
                return;
        }
        if (node != NULL && (which & FUSE_SET_ATTR_SIZE) != 0) {
                if ((uint64_t)attr->st_size > FILE_MAX) {
                        fuse_reply_err(req, EFBIG);
                        return;
                }
                set_size(node, (uint64_t)attr->st_size);
        }
        if (node != NULL && (which & FUSE_SET_ATTR_MODE) != 0)
                node->mode = (node->mode & S_IFMT) | (attr->st_mode & 07777);
        op_getattr(req, inode, info);
}

static void op_statfs(fuse_req_t req, fuse_ino_t inode)
{
        struct statvfs st = {.f_bsize = PAGE,
                             .f_frsize = PAGE,
                             .f_blocks = SPACE / PAGE,
                             .f_bfree = SPACE / PAGE / 2,
                             .f_bavail = SPACE / PAGE / 2,
                             .f_namemax = 255};

        fuse_reply_statfs(req, &st);
}

/* ---- files ----------------------------------------------------------------------------------------- */

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
        struct node *node;
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

        if (inode == CONTROL_INODE)
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
        struct node *node = node_of(inode);
        uint64_t at = (uint64_t)offset;

        if (inode == CONTROL_INODE)
                control_read(req, size, offset);
        else if (failing(node))
                fuse_reply_err(req, EIO);
        else if (at >= node->size)
                fuse_reply_buf(req, NULL, 0);
        else
                fuse_reply_buf(req, (const char *)node->data + at, size < node->size - at ? size : node->size - at);
}

/* The kernel hands O_DSYNC and RWF_DSYNC down with each write. Until the range entry a cut finds the write torn. */
static void op_write(fuse_req_t req, fuse_ino_t inode, const char *data, size_t size, off_t offset,
                     struct fuse_file_info *info)
{
        struct cut_entry entry = {.kind = CUT_WRITE, .inode = inode, .offset = (uint64_t)offset, .data_len = size};
        struct handle *handle = (struct handle *)(uintptr_t)info->fh;
        struct node *node = node_of(inode);

        if (inode == CONTROL_INODE) {
                control_write(req, data, size);
                return;
        }
        if (failing(node) || (uint64_t)offset + size > FILE_MAX) {
                fuse_reply_err(req, failing(node) ? EIO : EFBIG);
                return;
        }
        log_entry(&entry, NULL, NULL, data);
        memcpy(node->data + offset, data, size);
        if ((uint64_t)offset + size > node->size)
                node->size = (uint64_t)offset + size;
        clock_gettime(CLOCK_REALTIME, &node->mtime);
        handle->synced = (info->flags & O_DSYNC) != 0 && !info->writepage; /* O_SYNC has the bit, too */
        if (handle->synced)
                log_inode(CUT_RANGE, inode, (uint64_t)offset, size);
        fuse_reply_write(req, size);
}

static void op_fsync(fuse_req_t req, fuse_ino_t inode, int datasync, struct fuse_file_info *info)
{
        struct handle *handle = (struct handle *)(uintptr_t)info->fh;

        if (inode == CONTROL_INODE) {
                fuse_reply_err(req, 0);
                return;
        }
        if (failing(node_of(inode))) {
                fuse_reply_err(req, EIO);
                return;
        }
        if (!handle->synced) /* else it promises no more than the write before it, which is durable */
                log_inode(CUT_FSYNC, inode, 0, 0);
        handle->synced = false;
        fuse_reply_err(req, 0);
}

static void op_fallocate(fuse_req_t req, fuse_ino_t inode, int mode, off_t offset, off_t length,
                         struct fuse_file_info *info)
{
        struct node *node = node_of(inode);
        uint64_t end = (uint64_t)offset + (uint64_t)length;

        if (mode != 0 || failing(node) || end > FILE_MAX) {
                fuse_reply_err(req, mode != 0 ? EOPNOTSUPP : failing(node) ? EIO : EFBIG);
                return;
        }
        if (end > node->size)
                set_size(node, end);
        fuse_reply_err(req, 0);
}

/* Pages of zeroes are holes. */
static void op_lseek(fuse_req_t req, fuse_ino_t inode, off_t offset, int whence, struct fuse_file_info *info)
{
        struct node *node = node_of(inode);
        uint64_t at = (uint64_t)offset, page;

        if (at >= node->size) {
                fuse_reply_err(req, ENXIO);
                return;
        }
        for (page = at / PAGE * PAGE; page < node->size; page += PAGE) {
                if (all_zero(node->data + page, PAGE) == (whence == SEEK_HOLE))
                        break;
        }
        if (page >= node->size && whence == SEEK_DATA)
                fuse_reply_err(req, ENXIO);
        else
                fuse_reply_lseek(req, (off_t)(page < at ? at : page > node->size ? node->size : page));
}

/* ---- life ------------------------------------------------------------------------------------------ */

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
        log_fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (log_fd < 0) {
                perror(argv[2]);
                return 1;
        }
        node_new(NULL, S_IFDIR | 0755);
        session = fuse_session_new(&args, &operations, sizeof(operations), NULL);
        if (session == NULL)
                return 1;
        rv = serve(session, argv[1]);
        fuse_session_destroy(session);
        fuse_opt_free_args(&args);
        close(log_fd);
        return rv;
}
