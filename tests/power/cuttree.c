/*
 * cuttree.c - the files and folders of a cutfs in memory, and the log of what happens to them.
 */
#include "tests/power/cuttree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define NODES_MAX (1u << 20)

static struct cut_node *nodes[NODES_MAX];
static uint64_t last_inode = CUT_CONTROL;
static off_t last_cookie;
static int log_fd;
static uint64_t entry_count;

/* ---- the log --------------------------------------------------------------------------------- */

bool cut_all_zero(const uint8_t *data, size_t len)
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
        if (data != NULL && cut_all_zero(data, entry->data_len)) {
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

void cut_log_inode(enum cut_kind kind, uint64_t inode, uint64_t offset, uint64_t len)
{
        struct cut_entry entry = {.kind = (uint16_t)kind, .inode = inode, .offset = offset, .data_len = len};

        log_entry(&entry, NULL, NULL, NULL);
}

void cut_log_name(enum cut_kind kind, const struct cut_node *folder, const struct cut_node *node, const char *name,
                  const char *new_name)
{
        struct cut_entry entry = {
                .kind = (uint16_t)kind, .inode = node->inode, .folder = folder->inode, .offset = node->mode};

        log_entry(&entry, name, new_name, NULL);
}

void cut_log_write(uint64_t inode, uint64_t offset, const void *data, uint64_t len)
{
        struct cut_entry entry = {.kind = CUT_WRITE, .inode = inode, .offset = offset, .data_len = len};

        log_entry(&entry, NULL, NULL, data);
}

void cut_log_open(const char *path)
{
        log_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (log_fd >= 0)
                return;
        perror(path);
        exit(1);
}

uint64_t cut_log_count(void)
{
        return entry_count;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

struct cut_node *cut_node_of(uint64_t inode)
{
        return nodes[inode];
}

bool cut_node_failing(const struct cut_node *node)
{
        return node->top != NULL && node->top->failing;
}

struct cut_node *cut_node_new(const struct cut_node *folder, mode_t mode)
{
        struct cut_node *node;

        if (last_inode + 1 == NODES_MAX)
                return NULL;
        node = calloc(1, sizeof(*node));
        if (node == NULL)
                return NULL;
        if (S_ISREG(mode)) {
                node->data = mmap(NULL, CUT_FILE_MAX, PROT_READ | PROT_WRITE,
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
        TAILQ_INIT(&node->names);
        clock_gettime(CLOCK_REALTIME, &node->mtime);
        nodes[node->inode] = node;
        return node;
}

/* Once nothing names it and the kernel has forgotten it. */
void cut_node_release(struct cut_node *node)
{
        if (node->links > 0 || node->lookups > 0)
                return;
        nodes[node->inode] = NULL;
        if (node->data != NULL)
                munmap(node->data, CUT_FILE_MAX);
        free(node);
}

struct cut_name *cut_name_find(const struct cut_node *folder, const char *name)
{
        struct cut_name *entry;

        TAILQ_FOREACH (entry, &folder->names, link)
                if (strcmp(entry->text, name) == 0)
                        return entry;
        return NULL;
}

int cut_name_add(struct cut_node *folder, const char *name, struct cut_node *node)
{
        struct cut_name *entry = calloc(1, sizeof(*entry));

        if (entry == NULL)
                return -ENOMEM;
        entry->text = strdup(name);
        if (entry->text == NULL) {
                free(entry);
                return -ENOMEM;
        }
        entry->node = node;
        entry->cookie = ++last_cookie;
        TAILQ_INSERT_TAIL(&folder->names, entry, link);
        return 0;
}

void cut_name_remove(struct cut_node *folder, struct cut_name *entry)
{
        struct cut_node *node = entry->node;

        TAILQ_REMOVE(&folder->names, entry, link);
        free(entry->text);
        free(entry);
        node->links--;
        cut_node_release(node);
}

void cut_node_attributes(const struct cut_node *node, struct stat *out)
{
        memset(out, 0, sizeof(*out));
        out->st_ino = node->inode;
        out->st_mode = node->mode;
        out->st_nlink = S_ISDIR(node->mode) ? 2 : node->links;
        out->st_size = (off_t)node->size;
        out->st_blocks = (blkcnt_t)((node->size + CUT_SECTOR - 1) / CUT_SECTOR);
        out->st_blksize = (blksize_t)CUT_PAGE;
        out->st_uid = getuid();
        out->st_gid = getgid();
        out->st_atim = out->st_mtim = out->st_ctim = node->mtime;
}

void cut_node_set_size(struct cut_node *node, uint64_t size)
{
        uint64_t page = (size + CUT_PAGE - 1) / CUT_PAGE * CUT_PAGE;

        if (size < node->size) {
                memset(node->data + size, 0, page - size);
                madvise(node->data + page, CUT_FILE_MAX - page, MADV_DONTNEED);
        }
        node->size = size;
        cut_log_inode(CUT_SIZE, node->inode, size, 0);
}
