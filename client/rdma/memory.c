/*
 * memory.c - registrations of buffers with connections. A buffer is registered when the first grant
 * of a connection asks for it, and stays so as long as its domain, or until it is freed: registering
 * pins its pages, which takes its time. Each connection has a domain of its own, so what one endpoint
 * may write to never is another's. Registrations are listed under the context's lock, and given up
 * outside of it.
 */
#include "client/rdma/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum mr_connection_kind mr_buffer_connection(const struct mr_buffer *buffer)
{
        return buffer->fd >= 0 ? MR_CONNECTION_DMABUF : MR_CONNECTION_HOST;
}

/* With memory_lock. */
static void memory_unlink(struct mr_registration *registration)
{

        if (registration->prev != NULL)
                registration->prev->next = registration->next;
        else
                registration->list->first = registration->next;
        if (registration->next != NULL)
                registration->next->prev = registration->prev;
        atomic_store(&registration->buffer->registered[registration->list->endpoint], NULL);
}

/*
 * Where work requests and windows place it: behind a dma-buf there is no address of ours, only one
 * of the device, within a page as the bytes are.
 */
static void *memory_address_of(const struct mr_buffer *buffer)
{
        return buffer->fd >= 0 ? (void *)(uintptr_t)(buffer->fd_offset % (uint64_t)sysconf(_SC_PAGESIZE))
                               : buffer->memory;
}

int mr_memory_of(struct mr_registrations *list, struct rdx_client_domain *domain, struct mr_buffer *buffer,
                 struct rdx_memory **out)
{
        struct mr_rdma_context *context = buffer->client->rdma;
        struct mr_registration *registration = atomic_load(&buffer->registered[list->endpoint]);
        int rv;

        if (registration != NULL) {
                *out = registration->memory;
                return 0;
        }
        registration = calloc(1, sizeof(*registration));
        if (registration == NULL)
                return -ENOMEM;
        rv = rdx_client_domain_memory(domain, memory_address_of(buffer), buffer->len, buffer->fd, buffer->fd_offset,
                             &registration->memory);
        if (rv != 0) {
                free(registration);
                return rv;
        }
        registration->buffer = buffer;
        registration->list = list;
        *out = registration->memory;
        pthread_mutex_lock(&context->memory_lock);
        registration->next = list->first;
        if (list->first != NULL)
                list->first->prev = registration;
        list->first = registration;
        atomic_store(&buffer->registered[list->endpoint], registration);
        pthread_mutex_unlock(&context->memory_lock);
        return 0;
}

/* With memory_lock, which is let go of meanwhile. */
static void memory_give_up(struct mr_rdma_context *context, struct mr_registration *registration)
{
        memory_unlink(registration);
        context->closing++;
        pthread_mutex_unlock(&context->memory_lock);
        rdx_memory_close(registration->memory);
        free(registration);
        pthread_mutex_lock(&context->memory_lock);
        context->closing--;
        if (context->closing == 0)
                pthread_cond_broadcast(&context->memory_quiet);
}

void mr_memory_forget(struct mr_buffer *buffer)
{
        struct mr_rdma_context *context;

        for (unsigned i = 0; i < MR_ENDPOINTS_MAX; i++) {
                struct mr_registration *registration;

                if (atomic_load(&buffer->registered[i]) == NULL)
                        continue; /* the client may be gone by now */
                context = buffer->client->rdma;
                pthread_mutex_lock(&context->memory_lock);
                registration = atomic_load(&buffer->registered[i]);
                if (registration != NULL)
                        memory_give_up(context, registration);
                pthread_mutex_unlock(&context->memory_lock);
        }
}

/* Those that a buffer's end is giving up are waited for: the domain goes next. */
void mr_memory_drop(struct mr_registrations *list)
{
        struct mr_rdma_context *context = list->client->rdma;
        struct mr_registration *registration;

        pthread_mutex_lock(&context->memory_lock);
        while ((registration = list->first) != NULL)
                memory_give_up(context, registration);
        while (context->closing > 0)
                pthread_cond_wait(&context->memory_quiet, &context->memory_lock);
        pthread_mutex_unlock(&context->memory_lock);
}
