/*
 * Memory for the text of one document. Blocks double in size, so that a configuration of two lines
 * that is kept costs a kilobyte and one of a thousand rules few allocations. Called by what reads
 * documents, for the request or compiled form that owns the arena.
 */
#include <assert.h>
#include <stdlib.h>

#include "arena.h"

#define BLOCK_MIN 1024u
#define BLOCK_MAX (32u << 10)

struct s3_arena_block {
        struct s3_arena_block *next;
        size_t used, size;
        char bytes[];
};

static struct s3_arena_block *arena_block_new(struct s3_arena *arena, size_t len)
{
        size_t size = arena->blocks != NULL ? 2 * arena->blocks->size : BLOCK_MIN;
        struct s3_arena_block *block;

        if (size > BLOCK_MAX)
                size = BLOCK_MAX;
        while (size < len)
                size *= 2;
        block = malloc(sizeof(*block) + size);
        if (block == NULL)
                return NULL;
        block->next = arena->blocks;
        block->used = 0;
        block->size = size;
        arena->blocks = block;
        return block;
}

/* Room for len bytes at a multiple of align, a power of two. */
static char *arena_room(struct s3_arena *arena, size_t len, size_t align)
{
        struct s3_arena_block *block = arena->blocks;
        size_t at = block != NULL ? (block->used + align - 1) & ~(align - 1) : 0;

        assert(len <= S3_ARENA_PIECE_MAX + 1);
        if (block == NULL || at > block->size || block->size - at < len) {
                block = arena_block_new(arena, len);
                at = 0;
        }
        if (block == NULL)
                return NULL;
        block->used = at + len;
        return block->bytes + at;
}

void *s3_arena_keep(struct s3_arena *arena, const void *bytes, size_t len)
{
        char *at = arena_room(arena, len + 1, 1);

        if (at == NULL)
                return NULL;
        if (len > 0)
                memcpy(at, bytes, len);
        at[len] = '\0';
        return at;
}

void *s3_arena_keep_aligned(struct s3_arena *arena, const void *bytes, size_t len)
{
        char *at = arena_room(arena, len, _Alignof(struct s3_arena_block));

        return at != NULL ? memcpy(at, bytes, len) : NULL;
}

enum s3_error s3_arena_keep_str(struct s3_arena *arena, struct s3_str text, struct s3_str *out)
{
        out->data = s3_arena_keep(arena, text.data, text.len);
        out->len = text.len;
        return out->data != NULL ? S3_OK : S3_ERR_INTERNAL_ERROR;
}

void s3_arena_free(struct s3_arena *arena)
{
        while (arena->blocks != NULL) {
                struct s3_arena_block *next = arena->blocks->next;

                free(arena->blocks);
                arena->blocks = next;
        }
}
