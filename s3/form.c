/*
 * multipart/form-data, as a machine that can be left and entered between any two bytes. Called by
 * the gateway for each piece of a body whose sender is not known yet: memory is one fixed struct,
 * and each byte is looked at a bounded number of times.
 *
 * A delimiter is CR LF "--" boundary. CR stands only at its front, so after a mismatch no part of
 * what was held back can begin another one, and what was held back is a prefix of the delimiter:
 * it is handed out from there.
 */
#include <stdlib.h>

#include "s3_form.h"
#include "s3_internal.h"

#define LINE_MAX_BYTES 4096u /* one header line of a part */

enum form_state {
        FORM_PREAMBLE, /* before the first delimiter */
        FORM_AFTER,    /* behind a delimiter: another part, or the end? */
        FORM_LINES,    /* header lines of a part */
        FORM_VALUE,    /* of a field */
        FORM_FILE,
        FORM_IGNORED,  /* parts below the file */
        FORM_END       /* behind the closing delimiter */
};

struct s3_form {
        enum form_state state;
        char delimiter[4 + S3_FORM_BOUNDARY_MAX];
        size_t delimiter_len;
        size_t held;            /* bytes of a delimiter that have matched in earlier input */
        struct s3_str owed;     /* of the delimiter's text: to be handed out again */
        char after;             /* first of the two bytes behind a delimiter; 0: not there yet */
        bool file_met;
        bool has_name, is_file; /* of the part whose lines come */
        size_t spent;           /* bytes that are not the file's */
        const char *message;
        char line[LINE_MAX_BYTES];
        size_t line_len;
        char filename_text[LINE_MAX_BYTES];
        struct s3_str filename;
        char text[S3_FORM_BYTES_MAX]; /* names and values, never more than was spent */
        size_t used;
        unsigned count;
        struct s3_header field[S3_FORM_FIELDS_MAX];
};

/* ---- parameters of a header ------------------------------------------------------------------ */

/*
 * Takes the next "; name=value" off *rest; values may be quoted. A backslash escapes a quote only:
 * some browsers send paths that have backslashes. False: there is none, or it is malformed.
 */
static bool form_parameter(struct s3_str *rest, struct s3_str *name, struct s3_str *value)
{
        size_t i = 0, from;

        while (i < rest->len && (rest->data[i] == ' ' || rest->data[i] == '\t' || rest->data[i] == ';'))
                i++;
        for (from = i; i < rest->len && rest->data[i] != '='; i++)
                if (rest->data[i] == ';')
                        return false;
        if (i == rest->len)
                return false;
        *name = s3_str_trim((struct s3_str){rest->data + from, i - from});
        i++;
        if (i < rest->len && rest->data[i] == '"') {
                for (from = ++i; i < rest->len && rest->data[i] != '"'; i++)
                        i += rest->data[i] == '\\' && i + 1 < rest->len && rest->data[i + 1] == '"';
                if (i >= rest->len)
                        return false;
                *value = (struct s3_str){rest->data + from, i - from};
                i++;
        } else {
                for (from = i; i < rest->len && rest->data[i] != ';';)
                        i++;
                *value = s3_str_trim((struct s3_str){rest->data + from, i - from});
        }
        *rest = (struct s3_str){rest->data + i, rest->len - i};
        return true;
}

static bool boundary_valid(struct s3_str boundary)
{
        static const char others[] = "'()+_,-./:=? ";

        if (boundary.len == 0 || boundary.len > S3_FORM_BOUNDARY_MAX || boundary.data[boundary.len - 1] == ' ')
                return false;
        for (size_t i = 0; i < boundary.len; i++) {
                char c = boundary.data[i], l = s3_lower(c);

                if (!s3_is_digit(c) && !(l >= 'a' && l <= 'z') && (c == '\0' || strchr(others, c) == NULL))
                        return false;
        }
        return true;
}

bool s3_form_boundary(struct s3_str content_type, struct s3_str *out)
{
        struct s3_str rest, name, value, type = s3_str_trim(s3_str_cut(content_type, ';', &rest));

        *out = (struct s3_str){NULL, 0};
        if (!s3_str_eq_nocase(type, S3_STR("multipart/form-data")))
                return false;
        while (form_parameter(&rest, &name, &value)) {
                if (!s3_str_eq_nocase(name, S3_STR("boundary")))
                        continue;
                if (out->data != NULL || !boundary_valid(value))
                        return false;
                *out = value;
        }
        return out->data != NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

enum s3_error s3_form_new(struct s3_str boundary, struct s3_form **out)
{
        struct s3_form *form;

        *out = NULL;
        if (!boundary_valid(boundary))
                return S3_ERR_MALFORMED_POST;
        form = calloc(1, sizeof(*form));
        if (form == NULL)
                return S3_ERR_INTERNAL_ERROR;
        memcpy(form->delimiter, "\r\n--", 4);
        memcpy(form->delimiter + 4, boundary.data, boundary.len);
        form->delimiter_len = 4 + boundary.len;
        form->held = 2; /* the first one may lack the line's end before it */
        form->filename = S3_STR("");
        *out = form;
        return S3_OK;
}

void s3_form_free(struct s3_form *form)
{
        free(form);
}

static void form_skip(struct s3_str *in, size_t n)
{
        in->data += n;
        in->len -= n;
}

/* ---- delimiters ------------------------------------------------------------------------------ */

/* How many bytes at the end of the input may be the front of a delimiter. */
static size_t form_tail(const struct s3_form *form, struct s3_str in)
{
        size_t most = form->delimiter_len - 1, at = in.len > most ? in.len - most : 0;

        for (; at < in.len; at++)
                if (memcmp(in.data + at, form->delimiter, in.len - at) == 0)
                        return in.len - at;
        return 0;
}

/* Goes on with a delimiter that began in earlier input. True: it is one, and behind us. */
static bool form_match_on(struct s3_form *form, struct s3_str *in, struct s3_str *data)
{
        while (in->len > 0 && form->held < form->delimiter_len && in->data[0] == form->delimiter[form->held]) {
                form->held++;
                form_skip(in, 1);
        }
        if (form->held == form->delimiter_len) {
                form->held = 0;
                return true;
        }
        if (in->len > 0) {
                *data = (struct s3_str){form->delimiter, form->held};
                form->held = 0;
        }
        return false;
}

/* *data: what comes before the next delimiter, as far as it is there. True: a delimiter was passed. */
static bool form_scan(struct s3_form *form, struct s3_str *in, struct s3_str *data)
{
        const char *at;
        size_t n;

        if (form->owed.len > 0) {
                *data = form->owed;
                form->owed.len = 0;
                return false;
        }
        if (form->held > 0)
                return form_match_on(form, in, data);
        at = memmem(in->data, in->len, form->delimiter, form->delimiter_len);
        if (at == in->data) {
                form_skip(in, form->delimiter_len);
                return true;
        }
        n = at != NULL ? (size_t)(at - in->data) : in->len - form_tail(form, *in);
        if (n > 0) {
                *data = (struct s3_str){in->data, n};
                form_skip(in, n);
        } else {
                form->held = in->len;
                form_skip(in, in->len);
        }
        return false;
}

void s3_form_again(struct s3_form *form, struct s3_str *in, struct s3_str left)
{
        if (left.data >= form->delimiter && left.data < form->delimiter + sizeof(form->delimiter)) {
                form->owed = left;
                return;
        }
        in->len += (size_t)(in->data - left.data);
        in->data = left.data;
}

/* ---- header lines of a part ------------------------------------------------------------------ */

static bool form_keep(struct s3_form *form, struct s3_str piece)
{
        if (sizeof(form->text) - form->used < piece.len)
                return false;
        if (piece.len > 0)
                memcpy(form->text + form->used, piece.data, piece.len);
        form->used += piece.len;
        return true;
}

static enum s3_error form_refuse(struct s3_form *form, const char *message)
{
        form->message = message;
        return S3_ERR_INVALID_ARGUMENT;
}

static enum s3_error form_field_begins(struct s3_form *form, struct s3_str name)
{
        struct s3_header *field = &form->field[form->count];

        if (form->has_name)
                return S3_ERR_MALFORMED_POST;
        form->has_name = true;
        form->is_file = s3_str_eq_nocase(name, S3_STR("file"));
        if (form->is_file)
                return S3_OK;
        if (form->count == S3_FORM_FIELDS_MAX)
                return form_refuse(form, "The form has too many fields");
        for (unsigned i = 0; i < form->count; i++)
                if (s3_str_eq_nocase(form->field[i].name, name))
                        return form_refuse(form, "A field of the form was given more than once");
        field->name = (struct s3_str){form->text + form->used, name.len};
        if (!form_keep(form, name))
                return S3_ERR_MAX_POST_PRE_DATA;
        field->value = (struct s3_str){form->text + form->used, 0};
        return S3_OK;
}

/* As AWS: of a path, what follows its last separator. */
static void form_take_filename(struct s3_form *form, struct s3_str name)
{
        size_t len = 0;

        for (size_t i = 0; i < name.len; i++) {
                if (name.data[i] == '\\' && i + 1 < name.len && name.data[i + 1] == '"')
                        i++;
                else if (name.data[i] == '/' || name.data[i] == '\\') {
                        len = 0;
                        continue;
                }
                form->filename_text[len++] = name.data[i];
        }
        form->filename = (struct s3_str){form->filename_text, len};
}

static enum s3_error form_disposition(struct s3_form *form, struct s3_str value)
{
        struct s3_str rest, name, text, found = {NULL, 0}, filename = {NULL, 0};
        struct s3_str type = s3_str_trim(s3_str_cut(value, ';', &rest));
        enum s3_error error;

        if (!s3_str_eq_nocase(type, S3_STR("form-data")))
                return S3_ERR_MALFORMED_POST;
        while (form_parameter(&rest, &name, &text)) {
                if (s3_str_eq_nocase(name, S3_STR("name")))
                        found = text;
                else if (s3_str_eq_nocase(name, S3_STR("filename")))
                        filename = text;
        }
        if (found.len == 0)
                return S3_ERR_MALFORMED_POST;
        error = form_field_begins(form, found);
        if (error == S3_OK && form->is_file)
                form_take_filename(form, filename);
        return error;
}

static enum s3_error form_line(struct s3_form *form, struct s3_str line)
{
        struct s3_str value, name = s3_str_cut(line, ':', &value);

        if (value.data == NULL)
                return S3_ERR_MALFORMED_POST;
        value = s3_str_trim(value);
        if (s3_str_eq_nocase(name, S3_STR("Content-Disposition")))
                return form_disposition(form, value);
        /* An encoding that is not undone would store other bytes than were meant. */
        if (s3_str_eq_nocase(name, S3_STR("Content-Transfer-Encoding")) &&
            (s3_str_eq_nocase(value, S3_STR("base64")) || s3_str_eq_nocase(value, S3_STR("quoted-printable"))))
                return S3_ERR_MALFORMED_POST;
        return S3_OK;
}

/* The empty line was met. */
static enum s3_error form_lines_over(struct s3_form *form)
{
        if (!form->has_name)
                return S3_ERR_MALFORMED_POST;
        form->file_met = form->is_file;
        form->state = form->is_file ? FORM_FILE : FORM_VALUE;
        return S3_OK;
}

static enum s3_error form_lines(struct s3_form *form, struct s3_str *in)
{
        struct s3_str line;
        char c = in->data[0];

        form_skip(in, 1);
        if (c != '\n') {
                if (form->line_len == sizeof(form->line) || c == '\0')
                        return S3_ERR_MALFORMED_POST;
                form->line[form->line_len++] = c;
                return S3_OK;
        }
        if (form->line_len == 0 || form->line[form->line_len - 1] != '\r')
                return S3_ERR_MALFORMED_POST;
        line = (struct s3_str){form->line, form->line_len - 1};
        form->line_len = 0;
        return line.len == 0 ? form_lines_over(form) : form_line(form, line);
}

/* ---- the body -------------------------------------------------------------------------------- */

/* Two bytes behind a delimiter, and blanks that a mail gateway may have put before them. */
static enum s3_error form_after(struct s3_form *form, struct s3_str *in)
{
        char c = in->data[0];

        form_skip(in, 1);
        if (form->after == 0) {
                if (c == '-' || c == '\r')
                        form->after = c;
                return c == '-' || c == '\r' || c == ' ' || c == '\t' ? S3_OK : S3_ERR_MALFORMED_POST;
        }
        if (c != (form->after == '-' ? '-' : '\n'))
                return S3_ERR_MALFORMED_POST;
        if (form->after == '-')
                form->state = FORM_END;
        else
                form->state = form->file_met ? FORM_IGNORED : FORM_LINES;
        form->after = 0;
        form->has_name = form->is_file = false;
        return S3_OK;
}

static enum s3_error form_value(struct s3_form *form, struct s3_str *in)
{
        struct s3_str piece = {NULL, 0};

        if (form_scan(form, in, &piece)) {
                form->count++;
                form->state = FORM_AFTER;
                return S3_OK;
        }
        if (!form_keep(form, piece))
                return S3_ERR_MAX_POST_PRE_DATA;
        form->field[form->count].value.len += piece.len;
        return S3_OK;
}

static enum s3_error form_step(struct s3_form *form, struct s3_str *in, struct s3_str *data)
{
        struct s3_str dropped = {NULL, 0};

        switch (form->state) {
        case FORM_PREAMBLE:
        case FORM_IGNORED:
                if (form_scan(form, in, &dropped))
                        form->state = FORM_AFTER;
                return S3_OK;
        case FORM_AFTER:
                return form_after(form, in);
        case FORM_LINES:
                return form_lines(form, in);
        case FORM_VALUE:
                return form_value(form, in);
        case FORM_FILE:
                if (form_scan(form, in, data))
                        form->state = FORM_AFTER;
                return S3_OK;
        case FORM_END:
                break;
        }
        form_skip(in, in->len);
        return S3_OK;
}

enum s3_error s3_form_next(struct s3_form *form, struct s3_str *in, struct s3_str *data)
{
        enum form_state state = form->state;
        size_t before = in->len;
        enum s3_error error;

        *data = (struct s3_str){NULL, 0};
        error = form_step(form, in, data);
        if (state != FORM_FILE)
                form->spent += before - in->len;
        if (form->spent > S3_FORM_BYTES_MAX && error == S3_OK)
                error = S3_ERR_MAX_POST_PRE_DATA;
        return error;
}

enum s3_error s3_form_finish(const struct s3_form *form)
{
        if (form->state != FORM_END)
                return S3_ERR_MALFORMED_POST;
        return form->file_met ? S3_OK : S3_ERR_INCORRECT_FILES;
}

/* ---- what has come --------------------------------------------------------------------------- */

const char *s3_form_message(const struct s3_form *form)
{
        return form->message;
}

bool s3_form_at_file(const struct s3_form *form)
{
        return form->file_met;
}

unsigned s3_form_count(const struct s3_form *form)
{
        return form->count;
}

struct s3_header s3_form_field(const struct s3_form *form, unsigned i)
{
        return form->field[i];
}

struct s3_str s3_form_find(const struct s3_form *form, const char *name)
{
        for (unsigned i = 0; i < form->count; i++)
                if (s3_str_eq_nocase(form->field[i].name, s3_str_of(name)))
                        return form->field[i].value;
        return (struct s3_str){NULL, 0};
}

struct s3_str s3_form_filename(const struct s3_form *form)
{
        return form->filename;
}
