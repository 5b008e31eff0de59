/*
 * fuzz_iam_form.c - any bytes as a form of IAM. What is read is text within the body, and parameters are taken
 * or refused, whatever an action has of them.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/iam/params.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_params(const struct iam_form *form)
{
        static struct iam_params params;
        char message[256];

        for (unsigned i = 0; i < 8; i++) {
                uint64_t tags = (i & 1 ? IAM_TAGS : 0) | (i & 2 ? IAM_TAG_KEYS : 0), all = IAM_TAGS - 1;

                message[0] = '\0';
                if (iam_params_take(form, i & 4 ? tags : 0, all | tags, &params, message, sizeof(message)) != 0)
                        assert(message[0] != '\0');
                else
                        assert(params.tag_count <= IAM_TAGS_MAX && params.tag_key_count <= IAM_TAGS_MAX);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct iam_form form;
        char *body = malloc(size + 1);

        if (body == NULL)
                abort();
        if (size > 0)
                memcpy(body, data, size);
        if (iam_form_parse(body, size, &form) == 0) {
                assert(form.count <= IAM_PAIRS_MAX);
                for (unsigned i = 0; i < form.count; i++)
                        assert(s3_utf8_valid(s3_str_of(form.pair[i].name)) &&
                               s3_utf8_valid(s3_str_of(form.pair[i].value)));
                if (iam_form_check_names(&form) == 0)
                        check_params(&form);
        }
        free(body);
        return 0;
}
