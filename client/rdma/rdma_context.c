/*
 * rdma_context.c - what a client has of RDMA. Nothing is opened, loaded or begun before the first
 * grant: a client that moves bytes by TCP alone does not even look for the libraries.
 */
#include "client/rdma/rdma_context.h"

#include "client/rdma/bounce_buffers.h"
#include "client/rdma/grants.h"
#include "client/rdma/memory.h"

#include <errno.h>
#include <stdlib.h>

int mr_rdma_context_new(struct mr_client *client, struct mr_rdma_context **out)
{
        struct mr_rdma_context *context = calloc(1, sizeof(*context));

        *out = context;
        if (context == NULL)
                return -ENOMEM;
        if (mr_bounce_new(client, &context->bounce) != 0) {
                free(context);
                *out = NULL;
                return -ENOMEM;
        }
        context->client = client;
        pthread_mutex_init(&context->memory_lock, NULL);
        pthread_cond_init(&context->memory_quiet, NULL);
        return 0;
}

void mr_rdma_context_stop(struct mr_rdma_context *context)
{
        for (unsigned i = 0; i < MR_CONNECTIONS; i++) {
                struct mr_connection *connection = atomic_load(&context->connection[i]);

                if (connection != NULL)
                        mr_connection_free(connection);
                atomic_store(&context->connection[i], NULL);
        }
}

void mr_rdma_context_free(struct mr_rdma_context *context)
{
        if (context == NULL)
                return;
        mr_bounce_free(context->bounce);
        pthread_cond_destroy(&context->memory_quiet);
        pthread_mutex_destroy(&context->memory_lock);
        free(context);
}

uint64_t mr_client_bounced(const struct mr_client *client)
{
        return mr_bounce_asked(client->rdma->bounce);
}

void mr_rdma_context_wake(struct mr_rdma_context *context)
{
        for (unsigned i = 0; i < MR_CONNECTIONS; i++) {
                struct mr_connection *connection = atomic_load(&context->connection[i]);

                if (connection != NULL)
                        mr_connection_wake(connection);
        }
}

/* The connection of that kind, begun if need be. */
static int connection_of(struct mr_client *client, enum mr_connection_kind kind, struct mr_connection **out)
{
        struct mr_rdma_context *context = client->rdma;
        int rv = 0;

        *out = atomic_load(&context->connection[kind]);
        if (*out != NULL)
                return 0;
        pthread_mutex_lock(&client->lock);
        *out = atomic_load(&context->connection[kind]);
        if (*out == NULL) {
                rv = mr_connection_new(client, kind, out);
                if (rv == 0)
                        atomic_store(&context->connection[kind], *out);
        }
        pthread_mutex_unlock(&client->lock);
        return rv;
}

int mr_grant_ask(struct mr_client *client, struct mr_grant *grant)
{
        struct mr_connection *connection;
        int rv = mr_core_enter(client);

        if (rv != 0)
                return rv;
        rv = connection_of(client, mr_buffer_connection(grant->buffer), &connection);
        if (rv != 0) {
                mr_core_leave(client);
                return rv;
        }
        grant->magic = mr_grant_magic;
        mr_grants_add(connection, grant);
        return 0;
}

int mr_rdma_context_refused(struct mr_client *client, enum mr_connection_kind kind, struct mr_error *err)
{
        struct mr_connection *connection = atomic_load(&client->rdma->connection[kind]);

        return connection != NULL ? mr_connection_refused(connection, err) : 0;
}
