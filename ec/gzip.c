/*
 * gzip.c - writing gzip by ISA-L, for reports. See ec_gzip.h.
 */
#include "ec_gzip.h"

#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <stdlib.h>

struct era_gzip {
        struct isal_zstream stream;
        size_t cap;
};

int era_gzip_new(struct era_gzip **out)
{
        *out = calloc(1, sizeof(**out));
        return *out != NULL ? 0 : -ENOMEM;
}

void era_gzip_free(struct era_gzip *gzip)
{
        free(gzip);
}

void era_gzip_begin(struct era_gzip *gzip, void *out, size_t cap)
{
        isal_deflate_init(&gzip->stream);
        gzip->stream.gzip_flag = IGZIP_GZIP;
        gzip->stream.next_out = out;
        gzip->stream.avail_out = (uint32_t)cap;
        gzip->cap = cap;
}

int era_gzip_write(struct era_gzip *gzip, const void *data, uint32_t len)
{
        gzip->stream.next_in = (uint8_t *)(uintptr_t)data; /* it is only read */
        gzip->stream.avail_in = len;
        return isal_deflate(&gzip->stream) == COMP_OK && gzip->stream.avail_in == 0 ? 0 : -ENOBUFS;
}

int era_gzip_end(struct era_gzip *gzip)
{
        gzip->stream.next_in = NULL;
        gzip->stream.avail_in = 0;
        gzip->stream.end_of_stream = 1;
        return isal_deflate(&gzip->stream) == COMP_OK && gzip->stream.internal_state.state == ZSTATE_END ? 0 : -ENOBUFS;
}

size_t era_gzip_len(const struct era_gzip *gzip)
{
        return gzip->cap - gzip->stream.avail_out;
}
