/*
 * token_client.h - the memory of a client of the header protocol: a device, a target, and regions
 * that tokens name. Its shadow is what it must look like outside them.
 */
#ifndef RDMA_TESTS_TOKEN_CLIENT_H
#define RDMA_TESTS_TOKEN_CLIENT_H

#include "tests/unit/rdma/rdma_world.h"

struct far {
        struct rdx_device *device;
        struct rdx_domain *domain;
        struct rdx_region *writable, *readable;
        struct fake_target *target;
        uint8_t gid[RDX_GID_LEN];
        uint8_t *bytes, *shadow;
};

/* With failures off: what fails here is nothing that the server would see. */
static inline int far_open(struct far *far)
{
        const struct rdx_transport *transport = fake_transport();
        struct rdx_device_info info;
        char why[100];
        int rv;

        memset(far, 0, sizeof(*far));
        far->bytes = aligned_alloc(4096, MEMORY_SIZE);
        far->shadow = malloc(MEMORY_SIZE);
        assert_true(far->bytes != NULL && far->shadow != NULL);
        memset(far->bytes, 0x5a, MEMORY_SIZE);
        memset(far->shadow, 0x5a, MEMORY_SIZE);
        rv = transport->device_open("10.0.0.1", 0, true, 10, &far->device, why, sizeof(why));
        if (rv == 0)
                rv = transport->domain_open(far->device, &far->domain);
        if (rv == 0)
                rv = transport->region_open(far->domain, far->bytes, MEMORY_SIZE, RDX_LOCAL_WRITE | RDX_REMOTE_WRITE,
                                            &far->writable);
        if (rv == 0)
                rv = transport->region_open(far->domain, far->bytes, MEMORY_SIZE, RDX_REMOTE_READ, &far->readable);
        if (rv == 0)
                rv = fake_target_open(far->domain, TOKEN_KEY, &far->target);
        if (rv == 0) {
                transport->device_info(far->device, &info);
                memcpy(far->gid, info.gid, RDX_GID_LEN);
        }
        return rv;
}

static inline void far_close(struct far *far)
{
        const struct rdx_transport *transport = fake_transport();

        if (far->target != NULL)
                fake_target_close(far->target);
        if (far->readable != NULL)
                transport->region_close(far->readable);
        if (far->writable != NULL)
                transport->region_close(far->writable);
        if (far->domain != NULL)
                transport->domain_close(far->domain);
        if (far->device != NULL)
                transport->device_close(far->device);
        assert_memory_equal(far->bytes, far->shadow, MEMORY_SIZE);
        free(far->bytes);
        free(far->shadow);
}

static inline struct rdx_token far_token(const struct far *far, unsigned from, unsigned len, bool read)
{
        struct rdx_token token = {.address = (uintptr_t)far->bytes + from,
                                  .size = len,
                                  .rkey = fake_transport()->region_rkey(read ? far->readable : far->writable),
                                  .dct = fake_target_number(far->target),
                                  .has_gid = true};

        memcpy(token.gid, far->gid, RDX_GID_LEN);
        return token;
}

/* What is there now stays. */
static inline void far_keep(struct far *far, unsigned from, unsigned len)
{
        memcpy(far->shadow + from, far->bytes + from, len);
}

static inline void far_fill(struct far *far, unsigned from, unsigned len, unsigned object)
{
        unsigned i;

        for (i = 0; i < len; i++)
                far->bytes[from + i] = far->shadow[from + i] = object_byte(object, i);
}

#endif
