/*
 * framing.c - is a head one request and no other? See gateway_head.h.
 *
 * Called by head.c on a loop, and by the admin listener on its thread. Knows no request of ours: it
 * looks at the library's texts.
 */
#include "gateway_head.h"

#include <microhttpd.h>
#include <string.h>

/* ---- header fields --------------------------------------------------------------------------- */

struct fields {
        struct s3_header *headers;
        size_t max, count;
        bool too_many;
};

static enum MHD_Result take_field(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                  const char *value, size_t value_len)
{
        struct fields *fields = arg;

        if (fields->count == fields->max) {
                fields->too_many = true;
                return MHD_NO;
        }
        fields->headers[fields->count++] =
                (struct s3_header){{name, name_len}, {value != NULL ? value : "", value_len}};
        return MHD_YES;
}

bool gw_head_fields(struct MHD_Connection *connection, struct s3_header *headers, size_t max, size_t *count)
{
        struct fields fields = {.headers = headers, .max = max};

        MHD_get_connection_values_n(connection, MHD_HEADER_KIND, take_field, &fields);
        *count = fields.count;
        return !fields.too_many;
}

static unsigned count_fields(const struct gw_raw_head *head, const char *name, struct s3_str *value)
{
        struct s3_str wanted = s3_str_of(name);
        unsigned n = 0;
        size_t i;

        for (i = 0; i < head->header_count; i++)
                if (s3_str_eq_nocase(head->headers[i].name, wanted)) {
                        *value = s3_str_trim(head->headers[i].value);
                        n++;
                }
        return n;
}

/* ---- the body's end -------------------------------------------------------------------------- */

static enum s3_error check_length(const struct gw_raw_head *head, struct gw_framing *out, const char **message)
{
        struct s3_str length = {NULL, 0}, coding = {NULL, 0};
        unsigned lengths = count_fields(head, "Content-Length", &length);
        unsigned codings = count_fields(head, "Transfer-Encoding", &coding);

        if (lengths > 1 || codings > 1 || (lengths > 0 && codings > 0)) {
                *message = "The length of the request body is ambiguous";
                return S3_ERR_BAD_REQUEST;
        }
        if (codings == 1) {
                if (!s3_str_eq_nocase(coding, S3_STR("chunked")) || out->http10) {
                        *message = "Transfer-Encoding must be chunked";
                        return S3_ERR_NOT_IMPLEMENTED;
                }
                out->chunked = true;
                out->content_length = S3_LENGTH_UNKNOWN;
        }
        if (lengths == 1 && s3_parse_uint(length, INT64_MAX, &out->content_length) != 0) {
                *message = "Content-Length must be a whole number of bytes";
                return S3_ERR_BAD_REQUEST;
        }
        return S3_OK;
}

/* ---- lines ----------------------------------------------------------------------------------- */

bool gw_head_token(struct s3_str name)
{
        size_t i;

        for (i = 0; i < name.len; i++) {
                unsigned char c = (unsigned char)name.data[i];

                if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-')
                        continue; /* as nearly all are */
                if (c <= ' ' || c >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", c) != NULL)
                        return false;
        }
        return name.len > 0;
}

static bool value_is_text(struct s3_str value)
{
        size_t i;

        for (i = 0; i < value.len; i++) {
                unsigned char c = (unsigned char)value.data[i];

                if ((c < ' ' && c != '\t') || c == 0x7f)
                        return false;
        }
        return true;
}

/* The name is followed by its colon (a NUL by now) and blanks, then the value. */
static bool value_follows(const struct s3_header *header)
{
        const char *at = header->name.data + header->name.len + 1;

        if (header->value.data < at)
                return false;
        while (at < header->value.data && (*at == ' ' || *at == '\t'))
                at++;
        return at == header->value.data;
}

/*
 * The library takes a lone LF for a line's end, joins folded lines (to the wrong string), and ends
 * texts at a NUL; another party on the way may have read each of these otherwise. It parses in
 * place, so all of them show as gaps: every line must end in exactly CR LF (two NULs by now), and
 * the next begin right behind.
 */
static bool lines_are_whole(const struct gw_raw_head *head, struct gw_framing *out)
{
        const union MHD_ConnectionInfo *info =
                MHD_get_connection_info(head->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
        const char *at = head->target + head->target_len + 1;
        size_t i;

        if (head->version != at || info == NULL)
                return false;
        at = head->version + strlen(head->version) + 2;
        for (i = 0; i < head->header_count; i++) {
                const struct s3_header *header = &head->headers[i];

                if (header->name.data != at || !value_follows(header))
                        return false;
                at = header->value.data + header->value.len + 2;
        }
        out->body_at = at + 2;
        return out->body_at == head->method + info->header_size; /* the empty line */
}

/* ---- all of it ------------------------------------------------------------------------------- */

enum s3_error gw_head_check(const struct gw_raw_head *head, struct gw_framing *out, const char **message)
{
        struct s3_str expect = {NULL, 0};
        bool fine;
        size_t i;

        *out = (struct gw_framing){.http10 = strcmp(head->version, MHD_HTTP_VERSION_1_1) != 0};
        fine = lines_are_whole(head, out);
        for (i = 0; fine && i < head->header_count; i++)
                fine = gw_head_token(head->headers[i].name) && value_is_text(head->headers[i].value);
        if (!fine) {
                *message = "The head of the request is not well-formed";
                return S3_ERR_BAD_REQUEST;
        }
        if (count_fields(head, "Expect", &expect) > 0)
                out->expects_continue = !out->http10 && s3_str_eq_nocase(expect, S3_STR("100-continue"));
        return check_length(head, out, message);
}
