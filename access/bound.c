/*
 * Texts of policies whose users and roles are bound to their unique ids: the JSON, ACC_BOUND_MARK, and a line
 * "ID ARN" for each. Pure; rule A24.
 */
#include "compiled.h"

struct s3_str acc_bound_cut(struct s3_str text, struct s3_str *bindings)
{
        struct s3_str mark = S3_STR(ACC_BOUND_MARK);
        const char *at = text.len > 0 ? memmem(text.data, text.len, mark.data, mark.len) : NULL;
        size_t before;

        *bindings = (struct s3_str){NULL, 0};
        if (at == NULL)
                return text;
        before = (size_t)(at - text.data);
        *bindings = (struct s3_str){at + mark.len, text.len - before - mark.len};
        return (struct s3_str){text.data, before};
}

struct s3_str acc_bound_id(struct s3_str bindings, struct s3_str arn)
{
        while (bindings.len > 0) {
                const char *end = memchr(bindings.data, '\n', bindings.len);
                size_t line = end != NULL ? (size_t)(end - bindings.data) : bindings.len;
                const char *space = memchr(bindings.data, ' ', line);

                if (space != NULL) {
                        size_t id = (size_t)(space - bindings.data);

                        if (s3_str_eq((struct s3_str){space + 1, line - id - 1}, arn))
                                return (struct s3_str){bindings.data, id};
                }
                line += end != NULL;
                bindings = (struct s3_str){bindings.data + line, bindings.len - line};
        }
        return (struct s3_str){NULL, 0};
}
