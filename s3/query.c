/*
 * Query parameters, decoded once per request into a buffer of the caller's. Order and duplicates
 * are kept: the gateway decides what a repeated parameter means.
 */
#include "s3_internal.h"

bool s3_query_decode(struct s3_str raw, char *buf, size_t cap, size_t *used, struct s3_str *out)
{
        int n = s3_percent_decode(raw, true, buf + *used, cap - *used);

        if (n < 0)
                return false;
        *out = (struct s3_str){buf + *used, (size_t)n};
        *used += (size_t)n;
        return s3_utf8_valid(*out);
}

enum s3_error s3_query_parse(struct s3_str raw, char *buf, size_t cap, struct s3_query *out)
{
        size_t used = 0;

        out->count = 0;
        while (raw.len > 0) {
                struct s3_str piece = s3_str_cut(raw, '&', &raw), name, value;
                struct s3_query_param *param;

                if (piece.len == 0)
                        continue;
                if (out->count == S3_QUERY_PARAMS_MAX)
                        return S3_ERR_INVALID_ARGUMENT;
                param = &out->param[out->count];
                name = s3_str_cut(piece, '=', &value);
                param->has_value = value.data != NULL;
                if (!s3_query_decode(name, buf, cap, &used, &param->name) ||
                    !s3_query_decode(value, buf, cap, &used, &param->value))
                        return S3_ERR_INVALID_URI;
                out->count++;
        }
        return S3_OK;
}

const struct s3_query_param *s3_query_find(const struct s3_query *query, const char *name)
{
        struct s3_str wanted = s3_str_of(name);

        for (unsigned i = 0; i < query->count; i++)
                if (s3_str_eq(query->param[i].name, wanted))
                        return &query->param[i];
        return NULL;
}

unsigned s3_query_count(const struct s3_query *query, const char *name)
{
        struct s3_str wanted = s3_str_of(name);
        unsigned count = 0;

        for (unsigned i = 0; i < query->count; i++)
                count += s3_str_eq(query->param[i].name, wanted);
        return count;
}

/* ---- headers in presigned URLs --------------------------------------------------------------- */

#define NAME(text)                                                                                                     \
        {                                                                                                              \
                text, sizeof(text) - 1                                                                                 \
        }
static const struct s3_str not_headers[] = {
        NAME("X-Amz-Algorithm"),      NAME("X-Amz-Credential"),
        NAME("X-Amz-Date"),           NAME("X-Amz-Expires"),
        NAME("X-Amz-SignedHeaders"),  NAME("X-Amz-Signature"),
        NAME("X-Amz-Security-Token"), NAME("X-Amz-Content-Sha256"),
        NAME("X-Amz-User-Agent"),     NAME("x-amz-sdk-checksum-algorithm"),
};
#undef NAME

static bool stands_for_header(struct s3_str name)
{
        enum s3_checksum kind;

        if (!s3_str_starts_nocase(name, S3_STR("x-amz-")))
                return false;
        for (size_t i = 0; i < sizeof(not_headers) / sizeof(not_headers[0]); i++)
                if (name.len == not_headers[i].len && s3_str_eq_nocase(name, not_headers[i]))
                        return false;
        return s3_checksum_by_header(name, &kind) != 0;
}

size_t s3_query_headers(const struct s3_query *query, struct s3_header *out, size_t max)
{
        size_t count = 0;

        for (unsigned i = 0; i < query->count; i++) {
                if (!stands_for_header(query->param[i].name))
                        continue;
                if (count < max)
                        out[count] = (struct s3_header){query->param[i].name, query->param[i].value};
                count++;
        }
        return count;
}
