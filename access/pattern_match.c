/*
 * Matches texts of a request with patterns. Called for each request; pure; rules A5 to A8.
 *
 * What stands before the first star and behind the last one is compared in place; the blocks
 * between stars are searched for from the left, which never misses a match. A block that is one text
 * is found by memmem(), which is linear; others by acc_block_find().
 */
#include "compiled.h"

bool acc_piece_text(const struct acc_request *request, const struct acc_piece *piece, struct s3_str *out)
{
        struct acc_values values;
        struct s3_str room;

        *out = piece->text;
        if (piece->kind != ACC_PIECE_VARIABLE)
                return true;
        if (request != NULL && acc_key_values(request, piece->key, &room, &values)) {
                if (values.count != 1)
                        return false;
                *out = values.values[0];
                return true;
        }
        return piece->text.data != NULL;
}

static bool same_text(const char *bytes, struct s3_str text, bool nocase)
{
        return nocase ? s3_str_eq_nocase((struct s3_str){bytes, text.len}, text)
                      : text.len == 0 || memcmp(bytes, text.data, text.len) == 0;
}

/* Takes a piece that is no star off the front of the text. */
static bool match_front(const struct acc_request *request, const struct acc_piece *piece, bool nocase,
                        struct s3_str *text)
{
        struct s3_str want;
        size_t taken = 0;

        if (piece->kind != ACC_PIECE_ONE) {
                if (!acc_piece_text(request, piece, &want) || text->len < want.len ||
                    !same_text(text->data, want, nocase))
                        return false;
                taken = want.len;
        } else {
                for (uint32_t i = 0; i < piece->count; i++) {
                        if (taken == text->len)
                                return false;
                        do
                                taken++;
                        while (taken < text->len && acc_continues(text->data[taken]));
                }
        }
        text->data += taken;
        text->len -= taken;
        return true;
}

/* The same from the end of the text. */
static bool match_back(const struct acc_request *request, const struct acc_piece *piece, bool nocase,
                       struct s3_str *text)
{
        size_t left = text->len;
        struct s3_str want;

        if (piece->kind != ACC_PIECE_ONE) {
                if (!acc_piece_text(request, piece, &want) || left < want.len ||
                    !same_text(text->data + left - want.len, want, nocase))
                        return false;
                left -= want.len;
        } else {
                for (uint32_t i = 0; i < piece->count; i++) {
                        if (left == 0)
                                return false;
                        do
                                left--;
                        while (left > 0 && acc_continues(text->data[left]));
                }
        }
        text->len = left;
        return true;
}

/* Finds the pieces of a block, and cuts the text behind them. */
static bool match_block(const struct acc_request *request, const struct acc_piece *pieces, size_t count,
                        struct s3_str *text)
{
        struct s3_str want;
        size_t end;

        if (count == 1 && pieces->kind != ACC_PIECE_ONE) {
                const char *found;

                if (!acc_piece_text(request, pieces, &want) || want.len > text->len)
                        return false;
                if (want.len == 0)
                        return true;
                found = memmem(text->data, text->len, want.data, want.len);
                if (found == NULL)
                        return false;
                end = (size_t)(found - text->data) + want.len;
        } else if (!acc_block_find(request, pieces, count, *text, &end)) {
                return false;
        }
        text->data += end;
        text->len -= end;
        return true;
}

/* The pieces between the first star and the last, both left out. */
static bool match_middle(const struct acc_request *request, const struct acc_piece *pieces, size_t count,
                         struct s3_str text)
{
        for (size_t start = 0, at = 0; at <= count; at++) {
                if (at < count && pieces[at].kind != ACC_PIECE_STAR)
                        continue;
                if (at > start && !match_block(request, pieces + start, at - start, &text))
                        return false;
                start = at + 1;
        }
        return true;
}

static bool pattern_known(const struct acc_request *request, const struct acc_pattern *pattern)
{
        struct s3_str text;

        for (size_t i = 0; pattern->variables && i < pattern->count; i++)
                if (!acc_piece_text(request, &pattern->pieces[i], &text))
                        return false;
        return true;
}

enum acc_match acc_pattern_match(const struct acc_request *request, const struct acc_pattern *pattern,
                                 struct s3_str text, bool nocase)
{
        const struct acc_piece *pieces = pattern->pieces;
        size_t first = 0, last = pattern->count;

        if (!pattern_known(request, pattern))
                return ACC_MATCH_UNKNOWN;
        if (text.data == NULL)
                text = (struct s3_str){"", 0};
        while (first < last && pieces[first].kind != ACC_PIECE_STAR)
                if (!match_front(request, &pieces[first++], nocase, &text))
                        return ACC_MATCH_NO;
        if (!pattern->stars)
                return text.len == 0 ? ACC_MATCH_YES : ACC_MATCH_NO;
        while (pieces[last - 1].kind != ACC_PIECE_STAR)
                if (!match_back(request, &pieces[--last], nocase, &text))
                        return ACC_MATCH_NO;
        if (last - first <= 1) /* one star takes the rest */
                return ACC_MATCH_YES;
        return match_middle(request, pieces + first + 1, last - first - 2, text) ? ACC_MATCH_YES : ACC_MATCH_NO;
}

/* The parts lie in a row, as they were cut. */
static enum acc_match arn_whole_match(const struct acc_request *request, const struct acc_pattern *whole,
                                      const struct s3_str parts[ACC_ARN_PARTS])
{
        const struct s3_str *last = &parts[ACC_ARN_PARTS - 1];

        return acc_pattern_match(request, whole, (struct s3_str){parts[0].data, (size_t)(last->data + last->len - parts[0].data)}, false);
}

enum acc_match acc_arn_match(const struct acc_request *request, const struct acc_arn *arn,
                             const struct s3_str parts[ACC_ARN_PARTS])
{
        unsigned part = 0;

        if (arn->any)
                return ACC_MATCH_YES;
        if (arn->whole != NULL && arn_whole_match(request, arn->whole, parts) == ACC_MATCH_YES)
                return ACC_MATCH_YES;
        if (arn->head.data != NULL) {
                part = ACC_ARN_PARTS - 1;
                if (!s3_str_eq((struct s3_str){parts[0].data, (size_t)(parts[part].data - parts[0].data)}, arn->head))
                        return ACC_MATCH_NO;
        }
        for (; part < ACC_ARN_PARTS; part++) {
                enum acc_match match = acc_pattern_match(request, &arn->parts[part], parts[part], false);

                if (match != ACC_MATCH_YES)
                        return match;
        }
        return ACC_MATCH_YES;
}

enum acc_unknown acc_pattern_unknown(const struct acc_request *request, const struct acc_pattern *pattern)
{
        enum acc_unknown state = ACC_KNOWN;

        for (size_t i = 0; pattern->variables && request != NULL && i < pattern->count; i++) {
                struct acc_values values;
                struct s3_str room;

                if (pattern->pieces[i].kind != ACC_PIECE_VARIABLE)
                        continue;
                acc_key_values(request, pattern->pieces[i].key, &room, &values);
                if (values.unknown == ACC_UNKNOWN)
                        return ACC_UNKNOWN;
                if (values.unknown == ACC_OPEN)
                        state = ACC_OPEN;
        }
        return state;
}

enum acc_unknown acc_arn_unknown(const struct acc_request *request, const struct acc_arn *arn)
{
        enum acc_unknown state = ACC_KNOWN;

        for (unsigned part = arn->head.data != NULL ? ACC_ARN_PARTS - 1 : 0; !arn->any && part < ACC_ARN_PARTS; part++) {
                enum acc_unknown of_part = acc_pattern_unknown(request, &arn->parts[part]);

                if (of_part == ACC_UNKNOWN)
                        return ACC_UNKNOWN;
                if (of_part == ACC_OPEN)
                        state = ACC_OPEN;
        }
        return state;
}
