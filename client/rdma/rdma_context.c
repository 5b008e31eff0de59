/*
 * rdma_context.c - what a client has of RDMA: its connections, and to which of them a grant goes.
 * Nothing is opened, loaded or begun before the first grant: a client that moves bytes by TCP alone
 * does not even look for the libraries. Bounds (I9): endpoints with sessions.
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

static void rdma_context_each(struct mr_rdma_context *context, void (*call)(struct mr_connection *connection))
{
        for (unsigned i = 0; i < MR_CONNECTIONS; i++)
                for (unsigned e = 0; e < MR_ENDPOINTS_MAX; e++) {
                        struct mr_connection *connection = atomic_load(&context->connection[i][e]);

                        if (connection != NULL)
                                call(connection);
                }
}

void mr_rdma_context_stop(struct mr_rdma_context *context)
{
        rdma_context_each(context, mr_connection_end);
        for (unsigned i = 0; i < MR_CONNECTIONS; i++)
                for (unsigned e = 0; e < MR_ENDPOINTS_MAX; e++) {
                        struct mr_connection *connection = atomic_exchange(&context->connection[i][e], NULL);

                        if (connection != NULL)
                                mr_connection_free(connection);
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
        rdma_context_each(context, mr_connection_wake);
}

/* ---- which endpoints ------------------------------------------------------------------------- */

/* With the client's lock. */
static bool rdma_context_has_room(const struct mr_rdma_context *context, enum mr_connection_kind kind)
{
        return (unsigned)__builtin_popcount(context->held[kind]) < MR_RDMA_ENDPOINTS;
}

bool mr_rdma_context_hold(struct mr_client *client, enum mr_connection_kind kind, unsigned endpoint)
{
        struct mr_rdma_context *context = client->rdma;
        bool held;

        pthread_mutex_lock(&client->lock);
        if (rdma_context_has_room(context, kind))
                context->held[kind] |= 1u << endpoint;
        held = (context->held[kind] & 1u << endpoint) != 0;
        pthread_mutex_unlock(&client->lock);
        return held;
}

void mr_rdma_context_release(struct mr_client *client, enum mr_connection_kind kind, unsigned endpoint)
{
        pthread_mutex_lock(&client->lock);
        client->rdma->held[kind] &= ~(1u << endpoint);
        pthread_mutex_unlock(&client->lock);
}

/* A mask of those that do not refuse such a grant now, as far as is known. */
static unsigned rdma_context_willing(struct mr_client *client, enum mr_connection_kind kind, bool insist,
                                     struct mr_error *err)
{
        unsigned willing = 0;

        for (unsigned i = 0; i < client->endpoints.count; i++) {
                struct mr_connection *connection = atomic_load(&client->rdma->connection[kind][i]);

                if (connection == NULL || mr_connection_refused(connection, insist, err) == 0)
                        willing |= 1u << i;
        }
        return willing;
}

int mr_rdma_context_refused(struct mr_client *client, enum mr_connection_kind kind, struct mr_error *err)
{
        struct mr_error why = {0};

        if (rdma_context_willing(client, kind, false, &why) != 0)
                return 0;
        if (err != NULL)
                *err = why;
        return why.code;
}

bool mr_grant_may_pass(struct mr_client *client, const struct mr_grant *grant, int rv)
{
        unsigned willing;

        if (rv != -EOPNOTSUPP && rv != -EACCES && rv != -ENOMEM)
                return true;
        willing = rdma_context_willing(client, mr_buffer_connection(grant->buffer), grant->insist, NULL);
        return (willing & ~grant->tried) != 0;
}

/* With the client's lock. One that has a session, where no more may. */
static void rdma_context_take_endpoint(struct mr_client *client, enum mr_connection_kind kind, struct mr_grant *grant)
{
        unsigned among = rdma_context_willing(client, kind, grant->insist, NULL), tried = grant->tried;
        const struct mr_rdma_context *context = client->rdma;

        if (!rdma_context_has_room(context, kind) && (among & context->held[kind]) != 0)
                among &= context->held[kind];
        if (among == 0)
                among = (1u << client->endpoints.count) - 1;
        if ((among & ~tried) == 0)
                tried = 1u << grant->use.index; /* it has been everywhere: only not at the same again */
        grant->use = mr_endpoints_take_among(&client->endpoints, among, tried, mr_core_clock_ms(), mr_core_random());
        grant->tried |= 1u << grant->use.index;
}

/* With the client's lock. */
static void rdma_context_return_endpoint(struct mr_client *client, struct mr_grant *grant)
{
        mr_endpoints_give(&client->endpoints, &grant->use, MR_ENDPOINT_UNKNOWN, 0, 0);
}

void mr_rdma_context_give_endpoint(struct mr_client *client, struct mr_grant *grant)
{
        pthread_mutex_lock(&client->lock);
        rdma_context_return_endpoint(client, grant);
        pthread_mutex_unlock(&client->lock);
}

/* ---- grants ---------------------------------------------------------------------------------- */

/* With the client's lock: the connection that the grant goes to, begun if need be. */
static int connection_of(struct mr_client *client, struct mr_grant *grant, struct mr_connection **out)
{
        enum mr_connection_kind kind = mr_buffer_connection(grant->buffer);
        _Atomic(struct mr_connection *) *connection;
        int rv = 0;

        rdma_context_take_endpoint(client, kind, grant);
        connection = &client->rdma->connection[kind][grant->use.index];
        *out = atomic_load(connection);
        if (*out == NULL)
                rv = mr_connection_new(client, kind, grant->use.index, out);
        if (rv == 0)
                atomic_store(connection, *out);
        else
                rdma_context_return_endpoint(client, grant);
        return rv;
}

int mr_grant_ask(struct mr_client *client, struct mr_grant *grant)
{
        struct mr_connection *connection;
        int rv = mr_core_enter(client);

        if (rv != 0)
                return rv;
        pthread_mutex_lock(&client->lock);
        rv = connection_of(client, grant, &connection);
        pthread_mutex_unlock(&client->lock);
        if (rv != 0) {
                mr_core_leave(client);
                return rv;
        }
        grant->magic = mr_grant_magic;
        mr_grants_add(connection, grant);
        return 0;
}
