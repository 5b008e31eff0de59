/*
 * Errors of the compiler: AWS's text for the kind of policy, and the element that is wrong. Called
 * while a policy is compiled.
 */
#include <errno.h>
#include <stdio.h>

#include "builder.h"

struct refusal_texts {
        const char *s3, *iam;
};

static const struct refusal_texts refusal_texts[] = {
#define REFUSAL_TEXTS(name, s3, iam) [ACC_REFUSE_##name] = {s3, iam},
        ACC_REFUSALS(REFUSAL_TEXTS)
#undef REFUSAL_TEXTS
};

#define VALUE_SHOWN 64u

/*
 * Appends to a text that ends in NUL, and cuts what has no room. Only printable ASCII of `more` is
 * taken.
 */
static void refusal_append(char *text, size_t size, const char *more, size_t len)
{
        size_t used = strlen(text);

        for (size_t i = 0; i < len && used + 1 < size; i++)
                text[used++] = more[i] >= ' ' && more[i] <= '~' ? more[i] : '?';
        text[used] = '\0';
}

static void refusal_where(const struct acc_builder *builder, char *out, size_t size)
{
        char statement[48];

        out[0] = '\0';
        if (builder->statement != ACC_NOWHERE) {
                snprintf(statement, sizeof(statement), "Statement[%zu]", builder->statement);
                refusal_append(out, size, statement, strlen(statement));
        }
        if (builder->element == NULL)
                return;
        if (out[0] != '\0')
                refusal_append(out, size, ".", 1);
        refusal_append(out, size, builder->element, strlen(builder->element));
        if (builder->part == NULL)
                return;
        refusal_append(out, size, ".", 1);
        refusal_append(out, size, builder->part, strlen(builder->part));
}

int acc_refuse(struct acc_builder *builder, enum acc_refusal why, struct s3_str value)
{
        const char *text = builder->policy->kind == ACC_BUCKET ? refusal_texts[why].s3 : refusal_texts[why].iam;
        struct acc_error *error = builder->error;
        const char *at = strstr(text, "%s");

        error->message[0] = '\0';
        refusal_append(error->message, sizeof(error->message), text, at != NULL ? (size_t)(at - text) : strlen(text));
        if (at != NULL) {
                refusal_append(error->message, sizeof(error->message), value.data,
                               value.len < VALUE_SHOWN ? value.len : VALUE_SHOWN);
                refusal_append(error->message, sizeof(error->message), at + 2, strlen(at + 2));
        }
        refusal_where(builder, error->where, sizeof(error->where));
        return why == ACC_REFUSE_TOO_LONG ? -E2BIG : -EINVAL;
}
