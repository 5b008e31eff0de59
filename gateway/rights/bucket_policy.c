/*
 * bucket_policy.c - see bucket_policy.h. On any loop; all loops share a text and its form.
 */
#include "gateway/rights/bucket_policy.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* policy NULL: the text is no policy. That is remembered, too, so that it is not tried for each request. */
struct bucket_policy_form {
        struct acc_policy *policy;
};

/* What a form is made of beside its text. */
struct bucket_policy_source {
        struct s3_str bucket, text;
        struct acc_policy *compiled; /* of that text; NULL once it was taken over */
};

static void bucket_policy_drop(void *form)
{
        struct bucket_policy_form *made = form;

        acc_policy_free(made->policy);
        free(made);
}

static void *bucket_policy_make(struct eng_str bytes, void *arg)
{
        struct bucket_policy_source *source = arg;
        struct bucket_policy_form *made = calloc(1, sizeof(*made));
        struct s3_str text = {bytes.data, bytes.len};
        struct acc_error error;

        if (made == NULL)
                return NULL;
        if (source->compiled != NULL && s3_str_eq(text, source->text)) {
                made->policy = source->compiled;
                source->compiled = NULL;
                return made;
        }
        if (acc_policy_compile(text, ACC_BUCKET, source->bucket, &made->policy, &error) != -ENOMEM)
                return made;
        free(made);
        return NULL;
}

int gw_bucket_policy_find(struct eng_store *store, uint64_t bucket, struct s3_str name, const struct acc_policy **out)
{
        struct bucket_policy_source source = {.bucket = name};
        const struct bucket_policy_form *made;
        struct eng_text *text;
        int rv = eng_text_get(store, bucket, GW_BUCKET_POLICY, &text);

        if (rv != 0)
                return rv;
        made = eng_text_form(text, bucket_policy_make, &source, bucket_policy_drop);
        if (made == NULL)
                return -ENOMEM;
        assert(source.compiled == NULL);
        *out = made->policy;
        return made->policy != NULL ? 0 : -EBADMSG;
}

void gw_bucket_policy_keep(struct eng_store *store, uint64_t bucket, struct s3_str name, struct s3_str text,
                           struct acc_policy *compiled)
{
        struct bucket_policy_source source = {.bucket = name, .text = text, .compiled = compiled};
        struct eng_text *there;

        if (eng_text_get(store, bucket, GW_BUCKET_POLICY, &there) == 0)
                eng_text_form(there, bucket_policy_make, &source, bucket_policy_drop);
        acc_policy_free(source.compiled);
}
