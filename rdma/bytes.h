/*
 * bytes.h - little-endian integers at any address, as docs/rdma-protocol.md has them in binary
 * layouts; x86-64 is what the project runs on, so these are plain copies.
 */
#ifndef RDX_BYTES_H
#define RDX_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "layouts are copied as they are");

static inline uint16_t rdx_get16(const uint8_t *at)
{
        uint16_t value;

        memcpy(&value, at, sizeof(value));
        return value;
}

static inline uint32_t rdx_get32(const uint8_t *at)
{
        uint32_t value;

        memcpy(&value, at, sizeof(value));
        return value;
}

static inline uint64_t rdx_get64(const uint8_t *at)
{
        uint64_t value;

        memcpy(&value, at, sizeof(value));
        return value;
}

static inline void rdx_put16(uint8_t *at, uint16_t value)
{
        memcpy(at, &value, sizeof(value));
}

static inline void rdx_put32(uint8_t *at, uint32_t value)
{
        memcpy(at, &value, sizeof(value));
}

static inline void rdx_put64(uint8_t *at, uint64_t value)
{
        memcpy(at, &value, sizeof(value));
}

#endif
