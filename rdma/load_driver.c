/*
 * load_driver.c - transports that are loaded: for tests and measurements, which bring their own.
 * Blocking; at start.
 */
#include "rdma_transport.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

int rdx_transport_load(const char *path, const struct rdx_transport **out)
{
        const struct rdx_transport *(*driver)(void);
        void *object, *symbol;

        *out = NULL;
        if (access(path, R_OK) != 0)
                return -ENOENT;
        object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (object == NULL)
                return -ENOEXEC;
        symbol = dlsym(object, "rdx_driver");
        if (symbol == NULL) {
                dlclose(object);
                return -ENOEXEC;
        }
        memcpy(&driver, &symbol, sizeof(driver)); /* ISO C has no other way from an object pointer to a function's */
        if (driver()->version != RDX_TRANSPORT_VERSION) {
                dlclose(object);
                return -EPROTO;
        }
        *out = driver();
        return 0;
}
