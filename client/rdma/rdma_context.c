/*
 * rdma_context.c - what a client has of RDMA. Nothing is opened, loaded or begun before the first lease: a client that moves bytes by TCP alone does not even look
 * for the libraries.
 */
#include "client/rdma/rdma_context.h"

#include "client/base/failure.h"
#include "client/rdma/bounce_buffers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

int mr_rdma_context_lane(struct mr_client *client, enum mr_connection_kind kind, struct mr_connection **out)
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

int mr_rdma_context_refused(struct mr_client *client, enum mr_connection_kind kind, struct mr_error *err)
{
        struct mr_connection *connection = atomic_load(&client->rdma->connection[kind]);

        return connection != NULL ? mr_connection_refused(connection, err) : 0;
}

static void seen(void *arg, const struct rdx_device_info *info)
{
}

int mr_rdma_context_transport(struct mr_client *client, const struct rdx_transport **out, struct mr_error *err)
{
        const char *driver = client->settings.test_rdma_driver;
        int rv = 0;

        *out = rdx_verbs();
        if (driver[0] != '\0')
                rv = rdx_transport_load(driver, out);
        if (rv != 0)
                return mr_failure(err, -EOPNOTSUPP, "test_rdma_driver: cannot load %.300s", driver);
        rv = (*out)->devices(seen, NULL);
        if (rv == -ENOSYS)
                return mr_failure(err, -EOPNOTSUPP, "libibverbs and librdmacm are not installed");
        if (rv <= 0)
                return mr_failure(err, -EOPNOTSUPP, "there is no RDMA device in this machine");
        return 0;
}
