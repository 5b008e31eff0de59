/*
 * buf.c - bytes that are handed from loop to loop by reference count.
 *
 * Answers of drives and bodies of records are such buffers: the engine's loops and the drives share
 * them without copying. Any thread; the count, and a checksum that is kept, are all that changes in
 * them once they are shared.
 */
#include "engine/record/value.h"

#include "ec.h"

#include <assert.h>
#include <stdlib.h>

#define CRC_KNOWN (1ull << 32)

struct eng_buf *eng_buf_new(size_t len)
{
        struct eng_buf *buf;

        if (len > UINT32_MAX)
                return NULL;
        buf = malloc(sizeof(*buf) + len);
        if (buf == NULL)
                return NULL;
        atomic_init(&buf->refs, 1);
        atomic_init(&buf->crc, 0);
        buf->len = (uint32_t)len;
        buf->data = buf->own;
        buf->of = NULL;
        return buf;
}

struct eng_buf *eng_buf_slice(struct eng_buf *of, size_t offset, size_t len)
{
        struct eng_buf *buf = eng_buf_new(0);

        assert(offset + len <= of->len);
        if (buf == NULL)
                return NULL;
        buf->len = (uint32_t)len;
        buf->data = of->data + offset;
        buf->of = eng_buf_ref(of);
        return buf;
}

struct eng_buf *eng_buf_ref(struct eng_buf *buf)
{
        unsigned before = atomic_fetch_add_explicit(&buf->refs, 1, memory_order_relaxed);

        assert(before > 0);
        return buf;
}

/* Two that ask first at the same moment find the same. */
uint32_t eng_buf_crc32c(struct eng_buf *buf)
{
        uint64_t known = atomic_load_explicit(&buf->crc, memory_order_relaxed);

        if (known == 0) {
                known = CRC_KNOWN | era_crc32c(0, buf->data, buf->len);
                atomic_store_explicit(&buf->crc, known, memory_order_relaxed);
        }
        return (uint32_t)known;
}

void eng_buf_unref(struct eng_buf *buf)
{
        unsigned before;

        if (buf == NULL)
                return;
        before = atomic_fetch_sub_explicit(&buf->refs, 1, memory_order_acq_rel);
        assert(before > 0);
        if (before != 1)
                return;
        eng_buf_unref(buf->of);
        free(buf);
}
