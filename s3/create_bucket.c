/*
 * create_bucket.c - CreateBucketConfiguration: where a bucket is to be made, and with which tags. Called by docs.c; pure.
 */
#include "s3/docs_internal.h"

#define CREATE_MAX (1u << 20)

enum { CREATE, LOCATION, TAGS, TAG, KEY, VALUE, PLACE, BUCKET };

static const struct s3_element create_elements[] = {
        [CREATE] = {.name = "CreateBucketConfiguration"},
        [LOCATION] = {"LocationConstraint", CREATE, .text = true},
        [TAGS] = {.name = "Tags", .parent = CREATE},
        [TAG] = {"Tag", TAGS, .many = true},
        [KEY] = {"Key", TAG, .text = true},
        [VALUE] = {"Value", TAG, .text = true},
        [PLACE] = {.name = "Location", .parent = CREATE},
        [BUCKET] = {.name = "Bucket", .parent = CREATE},
};

static enum s3_error create_open(struct s3_doc *doc, unsigned number)
{
        if (number == PLACE || number == BUCKET) /* of directory buckets: they would change what is made */
                return s3_doc_refuse_element(doc, s3_str_of(create_elements[number].name));
        return number == TAG ? s3_doc_tag_begin(doc, S3_TAGS_MAX) : S3_OK;
}

static enum s3_error create_close(struct s3_doc *doc, unsigned number, struct s3_str text)
{
        switch (number) {
        case LOCATION:
                return s3_arena_keep_str(&doc->priv->arena, s3_xml_trim(text), &doc->location);
        case KEY:
        case VALUE:
                return s3_doc_tag_part(doc, text, number == VALUE);
        case TAG:
                return s3_doc_tag_end(doc, s3_doc_saw_of(doc, S3_SEEN(KEY) | S3_SEEN(VALUE)) == 2);
        case TAGS:
                return s3_tags_check(&doc->tags, S3_TAGS_MAX, &doc->message);
        default:
                return S3_OK;
        }
}

S3_SCHEMA(s3_create_bucket_schema, create_elements, CREATE_MAX, create_open, create_close);
