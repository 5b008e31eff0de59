/*
 * fuzz_form.c - any body as a browser's form, cut anywhere, and its field "policy" judged. The
 * first byte is the size of the pieces, the second how often bytes of the file are not taken.
 * Whatever the cuts, fields, file and result are the same as in one piece.
 */
#include <assert.h>
#include <stdlib.h>

#include "s3.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
        enum s3_error error;
        uint64_t len;
        uint32_t sum;
        unsigned count;
};

static void judge(const struct s3_form *form)
{
        struct s3_header fields[S3_FORM_FIELDS_MAX];
        struct s3_post_form judged = {.bucket = S3_STR("b"), .fields = fields, .count = s3_form_count(form)};
        char message[S3_POST_MESSAGE], key[S3_KEY_MAX];
        struct s3_post_range range;
        enum s3_error error;

        for (unsigned i = 0; i < judged.count; i++)
                fields[i] = s3_form_field(form, i);
        error = s3_post_policy_check(s3_form_find(form, "policy"), &judged, 0, &range, message);
        assert(memchr(message, '\0', sizeof(message)) != NULL);
        assert(error != S3_OK || range.min <= INT64_MAX);
        assert(s3_post_key(s3_form_find(form, "key"), s3_form_filename(form), key, sizeof(key)) <= (int)sizeof(key));
}

static struct outcome run(struct s3_str body, size_t step, unsigned refuse)
{
        struct outcome r = {.error = S3_OK};
        struct s3_form *form;
        unsigned turn = 0;

        if (s3_form_new(S3_STR("B"), &form) != S3_OK)
                abort();
        while (body.len > 0 && r.error == S3_OK) {
                struct s3_str in = {body.data, step < body.len ? step : body.len}, out;

                body.data += in.len;
                body.len -= in.len;
                while (in.len > 0 && r.error == S3_OK) {
                        size_t taken;

                        r.error = s3_form_next(form, &in, &out);
                        taken = refuse != 0 && out.len > 0 && ++turn % refuse == 0 ? out.len / 2 : out.len;
                        for (size_t i = 0; i < taken; i++)
                                r.sum = r.sum * 31 + (uint8_t)out.data[i];
                        r.len += taken;
                        if (r.error == S3_OK && taken < out.len)
                                s3_form_again(form, &in, (struct s3_str){out.data + taken, out.len - taken});
                }
        }
        if (r.error == S3_OK)
                r.error = s3_form_finish(form);
        r.count = s3_form_count(form);
        if (s3_form_at_file(form))
                judge(form);
        s3_form_free(form);
        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct outcome whole, cut;
        struct s3_str body;

        if (size < 2)
                return 0;
        body = (struct s3_str){(const char *)data + 2, size - 2};
        whole = run(body, size, 0);
        cut = run(body, 1u + data[0], data[1] % 2 ? 2 + data[1] / 2 : 0);
        assert(whole.error == cut.error && whole.count == cut.count);
        if (whole.error == S3_OK)
                assert(whole.len == cut.len && whole.sum == cut.sum);
        return 0;
}
