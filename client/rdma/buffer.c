/*
 * buffer.c - memory that is registered once and sliced by places. TCP needs no registration: a
 * buffer is then its memory and a count of those that use it; a transport that does need it finds
 * the memory here. Any thread.
 */
#include "client/rdma/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE (2u << 20)

static int buffer_new(struct mr_client *client, struct mr_buffer **out)
{
        struct mr_buffer *buffer = calloc(1, sizeof(*buffer));

        if (buffer == NULL)
                return -ENOMEM;
        buffer->magic = mr_buffer_magic;
        buffer->client = client;
        buffer->fd = -1;
        *out = buffer;
        return 0;
}

int mr_buffer_new(struct mr_client *client, size_t len, unsigned flags, struct mr_buffer **out)
{
        struct mr_buffer *buffer;
        size_t page = flags & MR_BUFFER_HUGE ? HUGE_PAGE : (size_t)sysconf(_SC_PAGESIZE);
        void *memory = MAP_FAILED;
        int rv;

        if (len == 0 || len > SIZE_MAX / 2 || (flags & ~MR_BUFFER_HUGE) != 0)
                return -EINVAL;
        rv = buffer_new(client, &buffer);
        if (rv != 0)
                return rv;
        buffer->len = len;
        buffer->mapped = (len + page - 1) / page * page;
        if (flags & MR_BUFFER_HUGE)
                memory = mmap(NULL, buffer->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
                              -1, 0);
        if (memory == MAP_FAILED)
                memory = mmap(NULL, buffer->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
                rv = -errno;
                free(buffer);
                return rv;
        }
        if (flags & MR_BUFFER_HUGE)
                (void)madvise(memory, buffer->mapped, MADV_HUGEPAGE); /* where none were set aside */
        buffer->memory = memory;
        *out = buffer;
        return 0;
}

int mr_buffer_register(struct mr_client *client, void *memory, size_t len, struct mr_buffer **out)
{
        int rv;

        if (memory == NULL || len == 0 || len > UINTPTR_MAX - (uintptr_t)memory)
                return -EINVAL;
        rv = buffer_new(client, out);
        if (rv != 0)
                return rv;
        (*out)->memory = memory;
        (*out)->len = len;
        return 0;
}

/*
 * So that what a device has written can be compared with its checksum. Few GPUs let their memory be
 * mapped; then there is none.
 */
static void map_view(struct mr_buffer *buffer)
{
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = buffer->fd_offset % page;
        void *view;

        if (buffer->len > SIZE_MAX / 2)
                return;
        buffer->viewed = buffer->len + before;
        view = mmap(NULL, buffer->viewed, PROT_READ, MAP_SHARED, buffer->fd, (off_t)(buffer->fd_offset - before));
        if (view == MAP_FAILED)
                buffer->viewed = 0;
        else
                buffer->view = (const char *)view + before;
}

int mr_buffer_register_dmabuf(struct mr_client *client, int fd, uint64_t offset, size_t len, struct mr_buffer **out)
{
        struct mr_buffer *buffer;
        int rv;

        if (len == 0 || offset > UINT64_MAX - len)
                return -EINVAL;
        rv = buffer_new(client, &buffer);
        if (rv != 0)
                return rv;
        buffer->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (buffer->fd < 0) {
                rv = -errno;
                free(buffer);
                return rv;
        }
        buffer->fd_offset = offset;
        buffer->len = len;
        map_view(buffer);
        *out = buffer;
        return 0;
}

int mr_buffer_free(struct mr_buffer *buffer)
{
        if (buffer == NULL)
                return 0;
        if (atomic_load(&buffer->uses) != 0)
                return -EBUSY;
        mr_memory_forget(buffer);
        if (buffer->viewed != 0)
                munmap((void *)(uintptr_t)(buffer->view - (buffer->viewed - buffer->len)), buffer->viewed);
        if (buffer->mapped != 0)
                munmap(buffer->memory, buffer->mapped);
        if (buffer->fd >= 0)
                close(buffer->fd);
        free(buffer);
        return 0;
}

void *mr_buffer_memory(const struct mr_buffer *buffer)
{
        return buffer->memory;
}

size_t mr_buffer_len(const struct mr_buffer *buffer)
{
        return buffer->len;
}

int mr_place_take(struct mr_client *client, const struct mr_place *place, struct mr_buffer **buffer, char **memory)
{
        *buffer = NULL;
        if (place->buffer == NULL) {
                if (place->memory == NULL && place->len != 0)
                        return -EINVAL;
                /* an address is needed even where there is nothing to put there */
                *memory = place->memory != NULL ? (char *)place->memory + place->offset : (char *)"";
                return 0;
        }
        if (place->memory != NULL || place->offset > place->buffer->len ||
            place->len > place->buffer->len - place->offset)
                return -EINVAL;
        if (place->buffer->memory == NULL && place->buffer->client != client)
                return -EINVAL;
        *memory = place->buffer->memory != NULL ? place->buffer->memory + place->offset : NULL;
        *buffer = place->buffer;
        MR_CHECK(mr_buffer, place->buffer);
        atomic_fetch_add(&place->buffer->uses, 1);
        return 0;
}

void mr_buffer_put(struct mr_buffer *buffer)
{
        if (buffer != NULL) {
                unsigned before = atomic_fetch_sub(&buffer->uses, 1);

                assert(before > 0);
        }
}

bool mr_buffer_unseen(const struct mr_buffer *buffer)
{
        return buffer != NULL && buffer->memory == NULL && buffer->view == NULL;
}

struct mr_buffer *mr_buffer_of(const struct mr_client *client, struct mr_buffer *buffer)
{
        return buffer != NULL && buffer->client == client ? buffer : NULL;
}
