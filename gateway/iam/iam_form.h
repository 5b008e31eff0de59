/*
 * iam_form.h - bodies of type application/x-www-form-urlencoded. Pure; any thread.
 */
#ifndef GATEWAY_IAM_IAM_FORM_H
#define GATEWAY_IAM_IAM_FORM_H

#include <stddef.h>

#include "s3.h"

#define IAM_FORM_MAX  (64u << 10) /* bytes of a body */
#define IAM_PAIRS_MAX 256u        /* 50 tags are 100 pairs */

struct iam_pair {
        const char *name, *value; /* decoded, with NUL */
};
struct iam_form {
        unsigned count;
        struct iam_pair pair[IAM_PAIRS_MAX];
};

/*
 * Decodes a body in place; names and values point into it. It has len bytes and room for one more. -EINVAL: a
 * wrong escape, a NUL, bytes that are no UTF-8, a pair without a name. -E2BIG: too many pairs.
 */
int iam_form_parse(char *body, size_t len, struct iam_form *out);
/* The value of this name; NULL: there is none. */
const char *iam_form_value(const struct iam_form *form, const char *name);
/* -EEXIST: a name occurs twice. Sorts the pairs by name. */
int iam_form_check_names(struct iam_form *form);
/* Takes the parameters of a signature out, which stand beside those of the action in a URL. */
void iam_form_drop_signature(struct iam_form *form);

#endif
