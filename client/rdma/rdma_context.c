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

int mr_fabric_new(struct mr_client *client, struct mr_fabric **out)
{
        struct mr_fabric *fabric = calloc(1, sizeof(*fabric));

        *out = fabric;
        if (fabric == NULL)
                return -ENOMEM;
        if (mr_bounce_new(client, &fabric->bounce) != 0) {
                free(fabric);
                *out = NULL;
                return -ENOMEM;
        }
        fabric->client = client;
        pthread_mutex_init(&fabric->memory_lock, NULL);
        pthread_cond_init(&fabric->memory_quiet, NULL);
        return 0;
}

void mr_fabric_stop(struct mr_fabric *fabric)
{
        for (unsigned i = 0; i < MR_LANES; i++) {
                struct mr_lane *lane = atomic_load(&fabric->lane[i]);

                if (lane != NULL)
                        mr_lane_free(lane);
                atomic_store(&fabric->lane[i], NULL);
        }
}

void mr_fabric_free(struct mr_fabric *fabric)
{
        if (fabric == NULL)
                return;
        mr_bounce_free(fabric->bounce);
        pthread_cond_destroy(&fabric->memory_quiet);
        pthread_mutex_destroy(&fabric->memory_lock);
        free(fabric);
}

uint64_t mr_client_bounced(const struct mr_client *client)
{
        return mr_bounce_asked(client->fabric->bounce);
}

void mr_fabric_wake(struct mr_fabric *fabric)
{
        for (unsigned i = 0; i < MR_LANES; i++) {
                struct mr_lane *lane = atomic_load(&fabric->lane[i]);

                if (lane != NULL)
                        mr_lane_wake(lane);
        }
}

int mr_fabric_lane(struct mr_client *client, enum mr_lane_kind kind, struct mr_lane **out)
{
        struct mr_fabric *fabric = client->fabric;
        int rv = 0;

        *out = atomic_load(&fabric->lane[kind]);
        if (*out != NULL)
                return 0;
        pthread_mutex_lock(&client->lock);
        *out = atomic_load(&fabric->lane[kind]);
        if (*out == NULL) {
                rv = mr_lane_new(client, kind, out);
                if (rv == 0)
                        atomic_store(&fabric->lane[kind], *out);
        }
        pthread_mutex_unlock(&client->lock);
        return rv;
}

int mr_fabric_refused(struct mr_client *client, enum mr_lane_kind kind, struct mr_error *err)
{
        struct mr_lane *lane = atomic_load(&client->fabric->lane[kind]);

        return lane != NULL ? mr_lane_refused(lane, err) : 0;
}

static void seen(void *arg, const struct rdx_device_info *info)
{
}

int mr_fabric_transport(struct mr_client *client, const struct rdx_transport **out, struct mr_error *err)
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
