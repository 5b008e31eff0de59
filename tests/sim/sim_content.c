/*
 * sim_content.c - the bytes that clients store: derived from a number, so that none need be kept.
 */
#include "tests/sim/sim_content.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

static struct sim_content *contents;
static unsigned count, size;

void contents_begin(void)
{
        count = 1; /* 0 is nothing */
}

uint32_t content_new(uint64_t bytes)
{
        if (count >= size) {
                size = size * 2 + 256;
                contents = realloc(contents, size * sizeof(contents[0]));
                assert(contents != NULL);
        }
        contents[count] = (struct sim_content){.size = bytes};
        return count++;
}

uint32_t content_joined(const uint32_t *parts, unsigned part_count)
{
        uint64_t bytes = 0;
        uint32_t made;
        unsigned i;

        for (i = 0; i < part_count; i++)
                bytes += contents[parts[i]].size;
        made = content_new(bytes);
        contents[made].part_count = part_count;
        memcpy(contents[made].parts, parts, part_count * sizeof(parts[0]));
        return made;
}

const struct sim_content *content_of(uint32_t content)
{
        return content > 0 && content < count ? &contents[content] : NULL;
}

static void fill_own(uint32_t content, uint64_t offset, uint8_t *to, size_t len)
{
        while (len > 0) {
                uint64_t word = sim_mix((uint64_t)content << 32 ^ (offset / 8 + 1));
                size_t skip = offset % 8, n = 8 - skip < len ? 8 - skip : len;

                memcpy(to, (const uint8_t *)&word + skip, n);
                to += n;
                offset += n;
                len -= n;
        }
}

void content_fill(uint32_t content, uint64_t offset, uint8_t *to, size_t len)
{
        const struct sim_content *c = &contents[content];
        unsigned i;

        assert(offset + len <= c->size);
        if (c->part_count == 0) {
                fill_own(content, offset, to, len);
                return;
        }
        for (i = 0; i < c->part_count && len > 0; i++) {
                uint64_t part = contents[c->parts[i]].size;
                size_t n;

                if (offset >= part) {
                        offset -= part;
                        continue;
                }
                n = part - offset < len ? (size_t)(part - offset) : len;
                fill_own(c->parts[i], offset, to, n);
                to += n;
                len -= n;
                offset = 0;
        }
}

bool content_equals(uint32_t content, uint64_t offset, const uint8_t *data, size_t len)
{
        uint8_t expected[4096];

        while (len > 0) {
                size_t n = len < sizeof(expected) ? len : sizeof(expected);

                content_fill(content, offset, expected, n);
                if (memcmp(expected, data, n) != 0)
                        return false;
                offset += n;
                data += n;
                len -= n;
        }
        return true;
}

void content_etag(uint32_t content, uint8_t etag[16])
{
        uint64_t check = sim_mix(content + sim.seed);

        memset(etag, 0, 16);
        memcpy(etag, &content, sizeof(content));
        memcpy(etag + 8, &check, sizeof(check));
}

uint32_t content_of_etag(const uint8_t etag[16])
{
        uint8_t expected[16];
        uint32_t content;

        memcpy(&content, etag, sizeof(content));
        content_etag(content, expected);
        return content_of(content) != NULL && memcmp(etag, expected, 16) == 0 ? content : 0;
}

size_t content_attrs(uint32_t tag, uint8_t attrs[CONTENT_ATTRS_MAX])
{
        size_t len = tag % CONTENT_ATTRS_MAX;

        fill_own(tag, 1 << 20, attrs, len);
        return len;
}
