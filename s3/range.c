/*
 * Ranges of bytes: of GET and HEAD (lenient: what is not understood is no range) and of
 * UploadPartCopy (strict). Called by the gateway; pure.
 */
#include <errno.h>

#include "s3_internal.h"

/*
 * "first-last" with either side possibly empty. Numbers too large for 64 bits count as the largest.
 */
static bool range_take_number(struct s3_str s, uint64_t *out)
{
        int rv = s3_parse_uint(s, UINT64_MAX, out);

        if (rv == -ERANGE)
                *out = UINT64_MAX;
        return rv != -EINVAL;
}

static struct s3_range parse_spec(struct s3_str spec)
{
        const struct s3_range none = {.form = S3_RANGE_NONE};
        struct s3_range range = none;
        struct s3_str last, first = s3_str_cut(spec, '-', &last);

        if (last.data == NULL)
                return none;
        if (first.len == 0) {
                range.form = S3_RANGE_LAST;
                return range_take_number(last, &range.last) ? range : none;
        }
        if (!range_take_number(first, &range.first))
                return none;
        if (last.len == 0) {
                range.form = S3_RANGE_FROM;
                return range;
        }
        range.form = S3_RANGE_FROM_TO;
        return range_take_number(last, &range.last) && range.first <= range.last ? range : none;
}

struct s3_range s3_range_parse(struct s3_str value)
{
        struct s3_str prefix = S3_STR("bytes=");

        value = s3_str_trim(value);
        if (!s3_str_starts_nocase(value, prefix))
                return (struct s3_range){.form = S3_RANGE_NONE};
        return parse_spec((struct s3_str){value.data + prefix.len, value.len - prefix.len});
}

enum s3_error s3_range_resolve(const struct s3_range *range, uint64_t size, uint64_t *offset, uint64_t *len)
{
        switch (range->form) {
        case S3_RANGE_NONE:
                *offset = 0;
                *len = size;
                return S3_OK;
        case S3_RANGE_LAST:
                if (range->last == 0)
                        return S3_ERR_INVALID_RANGE;
                *len = range->last < size ? range->last : size;
                *offset = size - *len;
                return S3_OK;
        case S3_RANGE_FROM:
        case S3_RANGE_FROM_TO:
                break;
        }
        if (range->first >= size)
                return S3_ERR_INVALID_RANGE;
        *offset = range->first;
        *len = size - range->first;
        if (range->form == S3_RANGE_FROM_TO && range->last - range->first < *len)
                *len = range->last - range->first + 1;
        return S3_OK;
}

enum s3_error s3_copy_range_parse(struct s3_str value, struct s3_range *out)
{
        struct s3_str prefix = S3_STR("bytes="), last, first;

        value = s3_str_trim(value);
        *out = (struct s3_range){.form = S3_RANGE_FROM_TO};
        if (!s3_str_starts(value, prefix))
                return S3_ERR_INVALID_ARGUMENT;
        first = s3_str_cut((struct s3_str){value.data + prefix.len, value.len - prefix.len}, '-', &last);
        if (s3_parse_uint(first, UINT64_MAX, &out->first) != 0 || s3_parse_uint(last, UINT64_MAX, &out->last) != 0 ||
            out->first > out->last)
                return S3_ERR_INVALID_ARGUMENT;
        return S3_OK;
}

enum s3_error s3_copy_range_resolve(const struct s3_range *range, uint64_t size, uint64_t *offset, uint64_t *len)
{
        if (range->last >= size)
                return S3_ERR_INVALID_ARGUMENT;
        *offset = range->first;
        *len = range->last - range->first + 1;
        return S3_OK;
}
