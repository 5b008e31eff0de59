/*
 * buf.c - bytes that are handed from loop to loop by reference count.
 *
 * Answers of drives and bodies of records are such buffers: the engine's loops and the drives share them without copying. Any
 * thread; the count, and that their checksum is known, are the only things in them that change once they are shared.
 */
#include "engine/drive.h"

#include "ec.h"

#include <assert.h>
#include <stdlib.h>

struct eng_buf *eng_buf_new(size_t len)
{
        struct eng_buf *buf;

        if (len > UINT32_MAX)
                return NULL;
        buf = malloc(sizeof(*buf) + len);
        if (buf == NULL)
                return NULL;
        atomic_init(&buf->refs, 1);
        buf->len = (uint32_t)len;
        buf->data = buf->own;
        buf->of = NULL;
        atomic_init(&buf->summed, 0);
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

/* Two threads that meet here find the same. */
uint32_t eng_buf_crc32c(struct eng_buf *buf)
{
        uint64_t summed = atomic_load_explicit(&buf->summed, memory_order_relaxed);

        if (summed == 0) {
                summed = UINT64_C(1) << 32 | era_crc32c(0, buf->data, buf->len);
                atomic_store_explicit(&buf->summed, summed, memory_order_relaxed);
        }
        return (uint32_t)summed;
}

struct eng_buf *eng_buf_ref(struct eng_buf *buf)
{
        unsigned before = atomic_fetch_add_explicit(&buf->refs, 1, memory_order_relaxed);

        assert(before > 0);
        return buf;
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
