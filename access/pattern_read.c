/*
 * Reads the texts of a policy that may have wildcards and variables into pieces. Called when a
 * policy is compiled; rules A5, A7 and A8.
 *
 * A text is gone through twice by the same function: to count its pieces, and to fill them.
 */
#include <errno.h>

#include "compiled.h"

struct pattern_reader {
        struct acc_policy *policy;
        struct acc_piece *pieces; /* NULL: they are only counted */
        size_t count;
        bool stars, found_variable;
};

static struct acc_piece *reader_last(struct pattern_reader *r)
{
        return r->pieces != NULL && r->count > 0 ? &r->pieces[r->count - 1] : NULL;
}

static int reader_add(struct pattern_reader *r, struct acc_piece piece)
{
        if (r->pieces != NULL) {
                if ((piece.kind == ACC_PIECE_TEXT || piece.text.data != NULL) &&
                    !acc_keep(r->policy, piece.text, &piece.text))
                        return -ENOMEM;
                r->pieces[r->count] = piece;
        }
        r->count++;
        return 0;
}

/* A star behind a star adds nothing; question marks in a row are one piece. */
static int reader_wildcard(struct pattern_reader *r, char c, char before)
{
        if (c == '*') {
                r->stars = true;
                return before == '*' ? 0 : reader_add(r, (struct acc_piece){.kind = ACC_PIECE_STAR});
        }
        if (before != '?')
                return reader_add(r, (struct acc_piece){.kind = ACC_PIECE_ONE, .count = 1});
        if (reader_last(r) != NULL)
                reader_last(r)->count++;
        return 0;
}

static size_t skip_spaces(struct s3_str text, size_t at)
{
        while (at < text.len && text.data[at] == ' ')
                at++;
        return at;
}

/* A variable's text: `key` or `key, 'default'`. */
struct variable_text {
        struct s3_str key, fallback;
};

/* Reads a variable whose "${" stands before `at`. Returns where it ends, 0: it is none. */
static size_t variable_scan(struct s3_str text, size_t at, struct variable_text *out)
{
        size_t start = at = skip_spaces(text, at), end;

        while (at < text.len && text.data[at] != ',' && text.data[at] != '}')
                at++;
        end = at;
        while (end > start && text.data[end - 1] == ' ')
                end--;
        *out = (struct variable_text){.key = {text.data + start, end - start}};
        if (at == text.len || end == start)
                return 0;
        if (text.data[at] == ',') {
                at = skip_spaces(text, at + 1);
                if (at == text.len || text.data[at] != '\'')
                        return 0;
                start = ++at;
                while (at < text.len && text.data[at] != '\'')
                        at++;
                out->fallback = (struct s3_str){text.data + start, at - start};
                at = skip_spaces(text, at < text.len ? at + 1 : at);
        }
        return at < text.len && text.data[at] == '}' ? at + 1 : 0;
}

static int reader_key(struct pattern_reader *r, const struct variable_text *variable)
{
        struct acc_piece piece = {.kind = ACC_PIECE_VARIABLE, .text = variable->fallback};
        struct acc_key *key;
        struct s3_str name;

        r->found_variable = true;
        if (r->pieces != NULL) {
                key = acc_room(r->policy, 1, sizeof(*key));
                if (key == NULL || !acc_keep(r->policy, variable->key, &name))
                        return -ENOMEM;
                *key = acc_key_find(name);
                piece.key = key;
        }
        return reader_add(r, piece);
}

/* Reads "${...}" at `*at`: an escaped wildcard or dollar, or a variable. */
static int reader_dollar(struct pattern_reader *r, struct s3_str text, size_t *at)
{
        struct variable_text variable;
        size_t end = variable_scan(text, *at + 2, &variable);

        if (end == 0)
                return -EINVAL;
        *at = end;
        if (variable.key.len == 1 && variable.fallback.data == NULL && memchr("*?$", variable.key.data[0], 3) != NULL)
                return reader_add(r, (struct acc_piece){.kind = ACC_PIECE_TEXT, .text = variable.key});
        return reader_key(r, &variable);
}

static bool starts_variable(struct s3_str text, size_t at)
{
        return text.data[at] == '$' && at + 1 < text.len && text.data[at + 1] == '{';
}

static int reader_run(struct pattern_reader *r, struct s3_str text, bool like, bool variables)
{
        char before = '\0';
        int rv = 0;

        for (size_t at = 0; at < text.len && rv == 0;) {
                size_t start = at;

                if (like && (text.data[at] == '*' || text.data[at] == '?')) {
                        rv = reader_wildcard(r, text.data[at], before);
                        before = text.data[at++];
                        continue;
                }
                before = '\0';
                if (variables && starts_variable(text, at)) {
                        rv = reader_dollar(r, text, &at);
                        continue;
                }
                do
                        at++;
                while (at < text.len && !(like && (text.data[at] == '*' || text.data[at] == '?')) &&
                       !(variables && starts_variable(text, at)));
                rv = reader_add(r, (struct acc_piece){.kind = ACC_PIECE_TEXT, .text = {text.data + start, at - start}});
        }
        return rv;
}

int acc_pattern_read(struct acc_policy *policy, struct s3_str text, bool like, bool variables, struct acc_pattern *out)
{
        struct pattern_reader r = {.policy = policy};
        int rv = reader_run(&r, text, like, variables);
        size_t count = r.count;

        if (rv != 0)
                return rv;
        if (count > UINT16_MAX)
                return -EINVAL;
        r.pieces = acc_room(policy, count, sizeof(*r.pieces));
        if (r.pieces == NULL)
                return -ENOMEM;
        r.count = 0;
        rv = reader_run(&r, text, like, variables);
        *out = (struct acc_pattern){r.pieces, (uint16_t)count, r.stars, r.found_variable};
        return rv;
}

/* Where the part of an ARN ends that begins at `at`: a colon outside variables, or the end. */
static size_t arn_part_end(struct s3_str text, size_t at, bool variables)
{
        struct variable_text variable;

        while (at < text.len && text.data[at] != ':') {
                size_t end = variables && starts_variable(text, at) ? variable_scan(text, at + 2, &variable) : 0;

                at = end > 0 ? end : at + 1;
        }
        return at;
}

/* Keeps the first five parts as one text, if they have neither wildcards nor variables. */
static bool arn_head(struct acc_policy *policy, struct s3_str text, struct acc_arn *arn)
{
        struct s3_str parts[ACC_ARN_PARTS], head;

        for (unsigned part = 0; part + 1 < ACC_ARN_PARTS; part++)
                for (size_t i = 0; i < arn->parts[part].count; i++)
                        if (arn->parts[part].pieces[i].kind != ACC_PIECE_TEXT)
                                return true;
        if (!acc_arn_split(text, parts))
                return true;
        head = (struct s3_str){text.data, (size_t)(parts[ACC_ARN_PARTS - 1].data - text.data)};
        if (memchr(head.data, '$', head.len) != NULL) /* it may be an escaped wildcard */
                return true;
        return acc_keep(policy, head, &arn->head);
}

/* Keeps the text as one pattern, too. */
static int arn_whole(struct acc_policy *policy, struct s3_str text, bool variables, struct acc_arn *arn)
{
        struct acc_pattern *whole = acc_room(policy, 1, sizeof(*whole));

        arn->whole = whole;
        return whole != NULL ? acc_pattern_read(policy, text, true, variables, whole) : -ENOMEM;
}

int acc_arn_read(struct acc_policy *policy, struct s3_str text, bool variables, bool padded, struct acc_arn *out)
{
        size_t at = 0;

        *out = (struct acc_arn){.any = s3_str_eq(text, S3_STR("*"))};
        if (out->any)
                return 0;
        for (unsigned part = 0; part < ACC_ARN_PARTS; part++) {
                size_t end = part + 1 < ACC_ARN_PARTS && at <= text.len ? arn_part_end(text, at, variables) : text.len;
                struct s3_str piece = S3_STR("*");
                int rv;

                if (at <= text.len)
                        piece = (struct s3_str){text.data + at, end - at};
                else if (!padded)
                        return -EINVAL;
                rv = acc_pattern_read(policy, piece, true, variables, &out->parts[part]);
                if (rv != 0)
                        return rv;
                if (at > text.len && out->whole == NULL && (rv = arn_whole(policy, text, variables, out)) != 0)
                        return rv;
                at = at <= text.len ? end + 1 : at;
        }
        return arn_head(policy, text, out) ? 0 : -ENOMEM;
}

bool acc_arn_split(struct s3_str text, struct s3_str parts[ACC_ARN_PARTS])
{
        for (unsigned part = 0; part + 1 < ACC_ARN_PARTS; part++) {
                const char *colon = text.len > 0 ? memchr(text.data, ':', text.len) : NULL;

                if (colon == NULL)
                        return false;
                parts[part] = (struct s3_str){text.data, (size_t)(colon - text.data)};
                text.len -= parts[part].len + 1;
                text.data = colon + 1;
        }
        parts[ACC_ARN_PARTS - 1] = text;
        return true;
}
