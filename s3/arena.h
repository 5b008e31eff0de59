/*
 * arena.h - memory for the text of one document: many small pieces that are freed together.
 */
#ifndef S3_ARENA_H
#define S3_ARENA_H

#include "s3_internal.h"

#define S3_ARENA_PIECE_MAX S3_XML_TEXT_MAX /* bytes of one piece */

struct s3_arena_block;

/* {NULL} is an empty one. owner: the document or compiled form that it is part of. */
struct s3_arena {
        struct s3_arena_block *blocks; /* the one in use first */
};

/*
 * Returns a copy of the bytes, a NUL behind them; NULL without memory. len is at most
 * S3_ARENA_PIECE_MAX. The memory of all pieces is at most twice their size and one block.
 */
void *s3_arena_keep(struct s3_arena *arena, const void *bytes, size_t len);
/* The same for what has pointers or numbers in it: the copy is aligned for them, without a NUL. */
void *s3_arena_keep_aligned(struct s3_arena *arena, const void *bytes, size_t len);
/* The same for a string. S3_ERR_INTERNAL_ERROR: no memory. */
enum s3_error s3_arena_keep_str(struct s3_arena *arena, struct s3_str text, struct s3_str *out);
/* Frees all pieces and leaves an empty arena. */
void s3_arena_free(struct s3_arena *arena);

#endif
