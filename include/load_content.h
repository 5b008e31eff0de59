/*
 * load_content.h - the bytes of a test object, from its key's number and the offset, at no cost: a
 * window that slides over one fixed pseudo-random pattern. Its length is a prime, so that no block,
 * unit or stripe of a server falls onto a copy of itself. Pure after making; any thread.
 */
#ifndef LOAD_CONTENT_H
#define LOAD_CONTENT_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LOAD_PATTERN 8388617u

static inline uint64_t load_mix(uint64_t x)
{
        x += 0x9e3779b97f4a7c15ull;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
        return x ^ (x >> 31);
}

/*
 * The index-th of count keys (index < count < 2^32) in a shuffled order that has each once: the
 * prime divides no count that is smaller.
 */
static inline uint64_t load_once(uint64_t index, uint64_t count)
{
        return (index * 2654435761u + 12345) % count;
}

/* malloc'ed, or NULL. */
static inline char *load_pattern_new(void)
{
        char *pattern = malloc(LOAD_PATTERN + 8);

        for (uint32_t i = 0; pattern != NULL && i < LOAD_PATTERN; i += 8) {
                uint64_t word = load_mix(i);

                memcpy(pattern + i, &word, 8);
        }
        return pattern;
}

/* Where in the pattern byte `offset` of object number `key` lies. */
static inline uint32_t load_content_at(uint64_t key, uint64_t offset)
{
        return (uint32_t)((load_mix(~key) % LOAD_PATTERN + offset % LOAD_PATTERN) % LOAD_PATTERN);
}

/* How many bytes from there on lie in one piece. */
static inline size_t load_content_run(uint32_t at, uint64_t wanted)
{
        return wanted < LOAD_PATTERN - at ? (size_t)wanted : LOAD_PATTERN - at;
}

/* 0 where data is what the object has at offset, else -EBADMSG. */
static inline int load_content_check(const char *pattern, uint64_t key, uint64_t offset, const char *data, size_t len)
{
        while (len > 0) {
                uint32_t at = load_content_at(key, offset);
                size_t run = load_content_run(at, len);

                if (memcmp(pattern + at, data, run) != 0)
                        return -EBADMSG;
                data += run;
                len -= run;
                offset += run;
        }
        return 0;
}

#endif
