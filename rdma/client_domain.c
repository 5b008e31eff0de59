/*
 * client_domain.c - the way to a server, and memory registered on it. The protection domain serves one session at a time, so that the session's queue pairs are the only ones in it: that
 * is what schemes (b) and (c) of docs/rdma-protocol.md stand on.
 */
#include "rdma/client_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static unsigned choose_rights(unsigned wanted, unsigned device)
{
        unsigned windows = device & (RDX_RIGHTS_WINDOW2 | RDX_RIGHTS_WINDOW1);

        if (wanted != 0)
                return wanted & device;
        return windows != 0 ? windows : device & RDX_RIGHTS_REGION;
}

int rdx_link_open(const struct rdx_transport *transport, const char *address, uint16_t port, unsigned rights,
                  unsigned timeout_ms, struct rdx_link **out, char *why, size_t why_len)
{
        struct rdx_link *link = calloc(1, sizeof(*link));
        int rv;

        *out = NULL;
        if (link == NULL)
                return -ENOMEM;
        link->transport = transport;
        rv = transport->device_open(address, port, true, timeout_ms, &link->device, why, why_len);
        if (rv != 0)
                goto err_free;
        transport->device_info(link->device, &link->info);
        link->rights = choose_rights(rights, link->info.rights);
        rv = -ENOTSUP;
        if (link->rights == 0)
                goto err_close;
        rv = transport->domain_open(link->device, &link->domain);
        if (rv != 0)
                goto err_close;
        pthread_mutex_init(&link->lock, NULL);
        *out = link;
        return 0;

err_close:
        transport->device_close(link->device);
err_free:
        free(link);
        return rv;
}

void rdx_link_close(struct rdx_link *link)
{
        if (link == NULL)
                return;
        assert(!link->busy);
        link->transport->domain_close(link->domain);
        link->transport->device_close(link->device);
        pthread_mutex_destroy(&link->lock);
        free(link);
}

unsigned rdx_link_rights(const struct rdx_link *link)
{
        return link->rights;
}

void rdx_link_device(const struct rdx_link *link, struct rdx_device_info *out)
{
        *out = link->info;
}

/* What may be done to it without a window: nothing, where there are windows. */
static unsigned access_of(const struct rdx_link *link)
{
        unsigned access = RDX_LOCAL_WRITE;

        if ((link->rights & (RDX_RIGHTS_WINDOW2 | RDX_RIGHTS_WINDOW1)) != 0)
                access |= RDX_WINDOWS;
        if ((link->rights & RDX_RIGHTS_REGION) != 0)
                access |= RDX_REMOTE_WRITE | RDX_REMOTE_READ;
        return access;
}

int rdx_link_memory(struct rdx_link *link, void *address, size_t len, int dmabuf_fd, uint64_t offset,
                    struct rdx_memory **out)
{
        const struct rdx_transport *transport = link->transport;
        struct rdx_memory *memory = NULL;
        int rv;

        *out = NULL;
        if (len == 0 || (dmabuf_fd >= 0 && link->rights != RDX_RIGHTS_REGION))
                return -EINVAL;
        if (dmabuf_fd >= 0 && transport->region_open_dmabuf == NULL)
                return -ENOTSUP;
        memory = calloc(1, sizeof(*memory));
        if (memory == NULL)
                return -ENOMEM;
        memory->link = link;
        memory->address = address;
        memory->len = len;
        pthread_mutex_lock(&link->lock);
        if (dmabuf_fd >= 0)
                rv = transport->region_open_dmabuf(link->domain, dmabuf_fd, offset, (uint64_t)(uintptr_t)address, len,
                                                   access_of(link), &memory->region);
        else
                rv = transport->region_open(link->domain, address, len, access_of(link), &memory->region);
        pthread_mutex_unlock(&link->lock);
        if (rv != 0) {
                free(memory);
                return rv;
        }
        *out = memory;
        return 0;
}

void rdx_memory_close(struct rdx_memory *memory)
{
        if (memory == NULL)
                return;
        pthread_mutex_lock(&memory->link->lock);
        memory->link->transport->region_close(memory->region);
        pthread_mutex_unlock(&memory->link->lock);
        free(memory);
}
