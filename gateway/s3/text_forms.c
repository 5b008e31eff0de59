/*
 * text_forms.c - configurations of buckets in the form in which they are asked: parsed once, and
 * kept with their text. On the request's loop.
 */
#include <errno.h>

#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/handlers.h"

/* ---- lifecycle ------------------------------------------------------------------------------- */

static void *lifecycle_make(struct eng_str bytes, void *arg)
{
        struct s3_lifecycle *lifecycle = NULL;
        struct s3_doc *doc;

        if (s3_doc_read(S3_DOC_LIFECYCLE, (struct s3_str){bytes.data, bytes.len}, &doc) == S3_OK)
                lifecycle = s3_doc_take_lifecycle(doc);
        s3_doc_free(doc);
        return lifecycle;
}

static void lifecycle_drop(void *form)
{
        s3_lifecycle_free(form);
}

const struct s3_lifecycle *gw_lifecycle_form(struct eng_text *text)
{
        return eng_text_form(text, lifecycle_make, NULL, lifecycle_drop);
}

const struct s3_lifecycle *gw_lifecycle_of(struct gw_request *req)
{
        struct eng_text *text;

        if (eng_text_get(req->store, req->bucket_id, GW_TEXT_LIFECYCLE, &text) != 0)
                return NULL;
        return gw_lifecycle_form(text);
}

void gw_expiration_header(struct gw_request *req, const struct eng_object *object)
{
        const struct s3_lifecycle *lifecycle = gw_lifecycle_of(req);
        struct s3_lifecycle_version version = {
                .key = req->key, .size = object->size, .mtime_ms = object->mtime_ms, .latest = true};
        char text[S3_LIFECYCLE_EXPIRATION_SIZE];
        struct s3_lifecycle_due due;
        struct s3_tags tags;

        if (lifecycle == NULL)
                return;
        if (object->tags.len > 0 && s3_tags_decode(object->tags.data, object->tags.len, &tags) == 0)
                version.tags = &tags;
        due = s3_lifecycle_evaluate(lifecycle, &version, S3_SECONDS_PER_DAY);
        if (due.action == S3_LIFECYCLE_EXPIRE)
                gw_reply_header_str(req, "x-amz-expiration",
                                    (struct s3_str){text, s3_lifecycle_expiration(&due, text)});
}

/* ---- those that are kept as they were read --------------------------------------------------- */

static const enum s3_doc_kind doc_kinds[] = {
        [GW_TEXT_CORS] = S3_DOC_CORS,
        [GW_TEXT_WEBSITE] = S3_DOC_WEBSITE,
        [GW_TEXT_LOGGING] = S3_DOC_LOGGING,
        [GW_TEXT_OWNERSHIP] = S3_DOC_OWNERSHIP,
        [GW_TEXT_PUBLIC_ACCESS] = S3_DOC_PUBLIC_ACCESS,
        [GW_TEXT_REQUEST_PAYMENT] = S3_DOC_REQUEST_PAYMENT,
        [GW_TEXT_ACCELERATE] = S3_DOC_ACCELERATE,
};

static void *config_make(struct eng_str bytes, void *arg)
{
        const enum s3_doc_kind *kind = arg;
        struct s3_config *config = NULL;
        struct s3_doc *doc;

        if (s3_doc_read(*kind, (struct s3_str){bytes.data, bytes.len}, &doc) == S3_OK)
                config = s3_doc_take_config(doc);
        s3_doc_free(doc);
        return config;
}

static void config_drop(void *form)
{
        s3_config_free(form);
}

const struct s3_config *gw_config_form(struct eng_text *text, enum gw_text_kind kind)
{
        enum s3_doc_kind doc = doc_kinds[kind];

        assert(doc >= S3_DOC_CORS);
        return eng_text_form(text, config_make, &doc, config_drop);
}

int gw_config_find(struct eng_store *store, uint64_t bucket, enum gw_text_kind kind, const struct s3_config **out)
{
        struct eng_text *text;
        int rv = eng_text_get(store, bucket, kind, &text);

        if (rv != 0)
                return rv;
        if (s3_str_eq(gw_s3_str(eng_text_bytes(text)), S3_STR(GW_TEXT_GONE)))
                return -ENODATA;
        *out = gw_config_form(text, kind);
        return *out != NULL ? 0 : -ENOMEM;
}
