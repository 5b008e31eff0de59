/*
 * client_domain.c - the way to a server, and memory registered on it. The protection domain serves
 * one session at a time, so that the session's queue pairs are the only ones in it: that is what
 * schemes (b) and (c) of docs/rdma-protocol.md stand on.
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

int rdx_client_domain_open(const struct rdx_transport *transport, const char *address, uint16_t port, unsigned rights,
                  unsigned timeout_ms, struct rdx_client_domain **out, char *why, size_t why_len)
{
        struct rdx_client_domain *domain = calloc(1, sizeof(*domain));
        int rv;

        *out = NULL;
        if (domain == NULL)
                return -ENOMEM;
        domain->transport = transport;
        rv = transport->device_open(address, port, true, timeout_ms, &domain->device, why, why_len);
        if (rv != 0)
                goto err_free;
        transport->device_info(domain->device, &domain->info);
        domain->rights = choose_rights(rights, domain->info.rights);
        rv = -ENOTSUP;
        if (domain->rights == 0)
                goto err_close;
        rv = transport->domain_open(domain->device, &domain->pd);
        if (rv != 0)
                goto err_close;
        pthread_mutex_init(&domain->lock, NULL);
        *out = domain;
        return 0;

err_close:
        transport->device_close(domain->device);
err_free:
        free(domain);
        return rv;
}

void rdx_client_domain_close(struct rdx_client_domain *domain)
{
        if (domain == NULL)
                return;
        assert(!domain->busy);
        domain->transport->domain_close(domain->pd);
        domain->transport->device_close(domain->device);
        pthread_mutex_destroy(&domain->lock);
        free(domain);
}

unsigned rdx_client_domain_rights(const struct rdx_client_domain *domain)
{
        return domain->rights;
}

void rdx_client_domain_device(const struct rdx_client_domain *domain, struct rdx_device_info *out)
{
        *out = domain->info;
}

/* What may be done to it without a window: nothing, where there are windows. */
static unsigned access_of(const struct rdx_client_domain *domain)
{
        unsigned access = RDX_LOCAL_WRITE;

        if ((domain->rights & (RDX_RIGHTS_WINDOW2 | RDX_RIGHTS_WINDOW1)) != 0)
                access |= RDX_WINDOWS;
        if ((domain->rights & RDX_RIGHTS_REGION) != 0)
                access |= RDX_REMOTE_WRITE | RDX_REMOTE_READ;
        return access;
}

int rdx_client_domain_memory(struct rdx_client_domain *domain, void *address, size_t len, int dmabuf_fd, uint64_t offset,
                    struct rdx_memory **out)
{
        const struct rdx_transport *transport = domain->transport;
        struct rdx_memory *memory = NULL;
        int rv;

        *out = NULL;
        if (len == 0 || (dmabuf_fd >= 0 && domain->rights != RDX_RIGHTS_REGION))
                return -EINVAL;
        if (dmabuf_fd >= 0 && transport->region_open_dmabuf == NULL)
                return -ENOTSUP;
        memory = calloc(1, sizeof(*memory));
        if (memory == NULL)
                return -ENOMEM;
        memory->domain = domain;
        memory->address = address;
        memory->len = len;
        pthread_mutex_lock(&domain->lock);
        if (dmabuf_fd >= 0)
                rv = transport->region_open_dmabuf(domain->pd, dmabuf_fd, offset, (uint64_t)(uintptr_t)address, len,
                                                   access_of(domain), &memory->region);
        else
                rv = transport->region_open(domain->pd, address, len, access_of(domain), &memory->region);
        pthread_mutex_unlock(&domain->lock);
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
        pthread_mutex_lock(&memory->domain->lock);
        memory->domain->transport->region_close(memory->region);
        pthread_mutex_unlock(&memory->domain->lock);
        free(memory);
}
