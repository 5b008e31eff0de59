/*
 * Finds the pieces between two stars of a pattern in a text: the part of matching that could take
 * quadratic time with question marks. Called by pattern_match.c; pure.
 *
 * It is Shift-And: one bit for each position of the block says whether the block up to there ends
 * at the byte that was read last. Blocks longer than 64 positions are gone through 64 at a time; a bit
 * for each byte of the text carries over from one such column to the next. So a search takes one
 * step for each byte of the text and each 64 positions, whatever the texts are (A6).
 */
#include <assert.h>

#include "compiled.h"

#define COLUMN 64u

/* Goes through the positions of a block. */
struct block_walk {
        const struct acc_request *request;
        const struct acc_piece *piece, *end;
        struct s3_str text; /* of the piece, unless it is ONE */
        size_t at;          /* in the piece */
};

/* What 64 positions of a block expect. */
struct block_column {
        uint64_t bytes[256]; /* positions that expect this byte */
        uint64_t ones;       /* positions that expect any character */
        unsigned count;
};

/* The variables of the block have a value: the caller has seen to that. */
static size_t walk_length(struct block_walk *walk)
{
        if (walk->piece->kind == ACC_PIECE_ONE)
                return walk->piece->count;
        if (walk->at == 0 && !acc_piece_text(walk->request, walk->piece, &walk->text))
                walk->text.len = 0;
        return walk->text.len;
}

/* Fills the next column. */
static void walk_column(struct block_walk *walk, struct block_column *column)
{
        memset(column, 0, sizeof(*column));
        while (column->count < COLUMN && walk->piece < walk->end) {
                uint64_t bit = 1ull << column->count;

                if (walk->at == walk_length(walk)) {
                        walk->piece++;
                        walk->at = 0;
                        continue;
                }
                if (walk->piece->kind == ACC_PIECE_ONE)
                        column->ones |= bit;
                else
                        column->bytes[(unsigned char)walk->text.data[walk->at]] |= bit;
                walk->at++;
                column->count++;
        }
}

/*
 * Runs a column over the text. carry: bit t says that all columns before end at byte t; it is
 * replaced by what this column says. For the first column, which may begin anywhere, it is NULL in
 * `in`. Returns behind which byte the column ended first; 0: behind none.
 */
static size_t column_run(const struct block_column *column, struct s3_str text, bool first, uint8_t *carry)
{
        uint64_t state = 0, last;
        bool in = first; /* may position 0 begin at this byte? */
        size_t ended = 0;

        assert(column->count > 0 && column->count <= COLUMN);
        last = 1ull << (column->count - 1);
        for (size_t t = 0; t < text.len; t++) {
                bool carried = (carry[t / 8] >> (t % 8) & 1) != 0;
                unsigned char c = (unsigned char)text.data[t];
                uint64_t next = (state << 1) | in;

                next &= acc_continues((char)c) ? column->bytes[c] : column->bytes[c] | column->ones;
                if (acc_continues((char)c))
                        next |= state & column->ones; /* the rest of a character that was taken */
                state = next;
                carry[t / 8] =
                        (uint8_t)((carry[t / 8] & ~(1u << (t % 8))) | (unsigned)((state & last) != 0) << (t % 8));
                if ((state & last) != 0 && ended == 0)
                        ended = t + 1;
                in = first || carried;
        }
        return ended;
}

bool acc_block_find(const struct acc_request *request, const struct acc_piece *pieces, size_t count, struct s3_str text,
                    size_t *end)
{
        struct block_walk walk = {.request = request, .piece = pieces, .end = pieces + count};
        uint8_t carry[ACC_TEXT_MAX / 8 + 1];
        struct block_column column;
        size_t total = 0;

        for (; walk.piece < walk.end; walk.piece++)
                total += walk_length(&walk);
        walk.piece = pieces;
        *end = 0;
        if (total == 0)
                return true;
        if (text.len > ACC_TEXT_MAX || total > text.len) /* a character is a byte or more */
                return false;
        memset(carry, 0, text.len / 8 + 1);
        for (bool first = true; total > 0; first = false) {
                walk_column(&walk, &column);
                total -= column.count;
                *end = column_run(&column, text, first, carry);
                if (*end == 0)
                        return false;
        }
        return true;
}
