/*
 * The table of S3 errors as values: looked up by the gateway when it answers and by clients when
 * they read an answer.
 */
#include "s3_internal.h"

static const struct s3_error_info error_table[S3_ERROR_COUNT] = {[S3_OK] = {"", 200, ""},
#define S3_ERROR_ROW(name, code, status, message) [S3_ERR_##name] = {code, status, message},
                                                                 S3_ERRORS(S3_ERROR_ROW)
#undef S3_ERROR_ROW
};

const struct s3_error_info *s3_error_info(enum s3_error error)
{
        if ((unsigned)error >= S3_ERROR_COUNT)
                error = S3_ERR_INTERNAL_ERROR;
        return &error_table[error];
}

enum s3_error s3_error_by_code(struct s3_str code)
{
        for (unsigned i = S3_OK + 1; i < S3_ERROR_COUNT; i++)
                if (s3_str_eq(s3_str_of(error_table[i].code), code))
                        return (enum s3_error)i;
        return S3_ERR_INTERNAL_ERROR;
}
