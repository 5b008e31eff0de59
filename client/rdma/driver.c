/*
 * driver.c - finds what moves bytes by RDMA: libibverbs and a device, or the driver that tests
 * name. On a connection's thread.
 */
#include "client/rdma/rdma_context.h"

#include "client/base/failure.h"

#include <errno.h>

static void driver_seen(void *arg, const struct rdx_device_info *info)
{
}

int mr_rdma_driver(struct mr_client *client, const struct rdx_transport **out, struct mr_error *err)
{
        const char *driver = client->settings.test_rdma_driver;
        int rv = 0;

        *out = rdx_verbs();
        if (driver[0] != '\0')
                rv = rdx_transport_load(driver, out);
        if (rv != 0)
                return mr_failure(err, -EOPNOTSUPP, "test_rdma_driver: cannot load %.300s", driver);
        rv = (*out)->devices(driver_seen, NULL);
        if (rv == -ENOSYS)
                return mr_failure(err, -EOPNOTSUPP, "libibverbs and librdmacm are not installed");
        if (rv <= 0)
                return mr_failure(err, -EOPNOTSUPP, "there is no RDMA device in this machine");
        return 0;
}
