/*
 * iam_form.c - reads forms (iam_form.h): "name=value&name=value", percent-encoded, "+" for a space. Each byte is
 * looked at a fixed number of times.
 */
#include "gateway/iam/iam_form.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Decodes one part in place, and ends it with NUL: there is a separator, or the spare byte, behind it. */
static bool form_decode(char *text, size_t len)
{
        int n = s3_percent_decode((struct s3_str){text, len}, true, text, len);

        if (n < 0 || memchr(text, '\0', (size_t)n) != NULL || !s3_utf8_valid((struct s3_str){text, (size_t)n}))
                return false;
        text[n] = '\0';
        return true;
}

int iam_form_parse(char *body, size_t len, struct iam_form *out)
{
        char *at = body, *end = body + len;

        out->count = 0;
        while (at < end) {
                char *stop = memchr(at, '&', (size_t)(end - at)), *sign;
                size_t size = (size_t)((stop != NULL ? stop : end) - at);

                if (size > 0) {
                        sign = memchr(at, '=', size);
                        if (out->count == IAM_PAIRS_MAX)
                                return -E2BIG;
                        if (sign == at)
                                return -EINVAL;
                        out->pair[out->count].name = at;
                        out->pair[out->count].value = sign != NULL ? sign + 1 : "";
                        if (sign != NULL && !form_decode(sign + 1, (size_t)(at + size - sign - 1)))
                                return -EINVAL;
                        if (!form_decode(at, sign != NULL ? (size_t)(sign - at) : size))
                                return -EINVAL;
                        out->count++;
                }
                at += size + 1;
        }
        return 0;
}

const char *iam_form_value(const struct iam_form *form, const char *name)
{
        for (unsigned i = 0; i < form->count; i++)
                if (strcmp(form->pair[i].name, name) == 0)
                        return form->pair[i].value;
        return NULL;
}

static int form_compare(const void *a, const void *b)
{
        return strcmp(((const struct iam_pair *)a)->name, ((const struct iam_pair *)b)->name);
}

int iam_form_check_names(struct iam_form *form)
{
        qsort(form->pair, form->count, sizeof(form->pair[0]), form_compare);
        for (unsigned i = 1; i < form->count; i++)
                if (strcmp(form->pair[i - 1].name, form->pair[i].name) == 0)
                        return -EEXIST;
        return 0;
}

void iam_form_drop_signature(struct iam_form *form)
{
        static const char *const names[] = {"X-Amz-Algorithm", "X-Amz-Credential",     "X-Amz-Date",          "X-Amz-Expires",
                                            "X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Security-Token"};
        unsigned kept = 0;

        for (unsigned i = 0; i < form->count; i++) {
                bool of_signature = false;

                for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
                        of_signature = of_signature || strcmp(form->pair[i].name, names[k]) == 0;
                if (!of_signature)
                        form->pair[kept++] = form->pair[i];
        }
        form->count = kept;
}
