/*
 * op_texts.c - configurations of buckets that are kept as texts: tags and lifecycle rules. On the
 * request's loop.
 *
 * A document is read, checked, and kept as s3/ writes it, so that GET answers what was stored, and
 * what is in force is what GET answers.
 */
#include "gateway/s3/bucket_texts.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/s3/handlers.h"

/* owner: the request (arena) */
struct text_work {
        unsigned magic; /* gw_check.h */
        char *text;
};

static unsigned text_kind_of(const struct gw_request *req)
{
        return strcmp(req->op->sub, "tagging") == 0 ? GW_TEXT_TAGGING : GW_TEXT_LIFECYCLE;
}

/* ---- what is in force ------------------------------------------------------------------------ */

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

        if (eng_text_get(req->loop->gw->store, req->bucket_id, GW_TEXT_LIFECYCLE, &text) != 0)
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
                gw_reply_header_str(req, "x-amz-expiration", (struct s3_str){text, s3_lifecycle_expiration(&due, text)});
}

/* ---- the least size of what transitions ------------------------------------------------------ */

/*
 * There are no transitions, so nothing depends on it; but clients wait until it is as they have set
 * it. It is always what AWS takes by default.
 */
static const char minimum_size_name[] = "x-amz-transition-default-minimum-object-size";
static const char minimum_size_value[] = "all_storage_classes_128K";

static void minimum_size_header(struct gw_request *req)
{
        if (text_kind_of(req) == GW_TEXT_LIFECYCLE)
                gw_reply_header(req, minimum_size_name, minimum_size_value);
}

static bool minimum_size_is_known(struct gw_request *req)
{
        struct s3_str given = gw_header(req, minimum_size_name);

        if (given.len == 0 || s3_str_eq(given, s3_str_of(minimum_size_value)))
                return true;
        if (s3_str_eq(given, S3_STR("varies_by_storage_class")))
                gw_reply_error(req, S3_ERR_NOT_IMPLEMENTED, "There is one storage class: rules cannot have transitions.");
        else
                gw_reply_error(req, S3_ERR_INVALID_ARGUMENT, NULL);
        return false;
}

/* ---- GET ------------------------------------------------------------------------------------- */

void gw_run_text(struct gw_request *req)
{
        struct eng_text *text;
        struct eng_str bytes;
        struct s3_xml xml;
        int rv = eng_text_get(req->loop->gw->store, req->bucket_id, text_kind_of(req), &text);

        if (rv == -ENOENT) {
                gw_reply_error(req, text_kind_of(req) == GW_TEXT_TAGGING ? S3_ERR_NO_SUCH_TAG_SET : S3_ERR_NO_SUCH_LIFECYCLE, NULL);
                return;
        }
        if (rv != 0) {
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
                return;
        }
        bytes = eng_text_bytes(text);
        minimum_size_header(req);
        s3_xml_init(&xml, bytes.len + 1024);
        s3_xml_declaration(&xml);
        s3_xml_raw(&xml, gw_s3_str(bytes));
        gw_reply_xml(req, 200, &xml);
}

/* ---- PUT ------------------------------------------------------------------------------------- */

static void text_release(struct gw_request *req)
{
        struct text_work *work = GW_CAST(text_work, req->work);

        free(work->text);
        work->text = NULL;
}

static void text_is_set(void *arg, int rv)
{
        struct gw_request *req = arg;

        if (!gw_back(req))
                return;
        if (rv == -EDQUOT)
                gw_reply_error(req, S3_ERR_INSUFFICIENT_STORAGE, "The configurations of all buckets have no room for this one.");
        else if (rv != 0)
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
        else {
                minimum_size_header(req);
                gw_reply_empty(req, text_kind_of(req) == GW_TEXT_TAGGING ? 204 : 200);
        }
}

void gw_begin_text_put(struct gw_request *req)
{
        if (!gw_write_headers_check(req))
                return;
        if (text_kind_of(req) == GW_TEXT_LIFECYCLE && (!gw_document_summed(req) || !minimum_size_is_known(req)))
                return;
        gw_begin_document(req, text_kind_of(req) == GW_TEXT_TAGGING ? S3_DOC_BUCKET_TAGGING : S3_DOC_LIFECYCLE);
}

static void text_write(struct s3_xml *xml, const struct s3_doc *doc)
{
        s3_xml_init(xml, ENG_TEXT_MAX);
        if (doc->kind == S3_DOC_LIFECYCLE)
                s3_lifecycle_write(xml, doc->lifecycle);
        else
                s3_tags_write(xml, &doc->tags);
}

/* What was written is what will be read: a date beyond the year 9999, for example, is not. */
static bool reads_back(enum s3_doc_kind kind, struct s3_str text)
{
        struct s3_doc *doc;
        enum s3_error error = s3_doc_read(kind, text, &doc);

        s3_doc_free(doc);
        return error == S3_OK;
}

void gw_run_text_put(struct gw_request *req)
{
        const struct s3_doc *doc = req->body->doc;
        struct text_work *work;
        struct s3_xml xml;
        size_t len;
        int rv;

        if (doc->kind == S3_DOC_LIFECYCLE && doc->lifecycle->transition) {
                gw_reply_error(req, S3_ERR_NOT_IMPLEMENTED, "There is one storage class: rules cannot have transitions.");
                return;
        }
        work = gw_alloc(req, sizeof(*work));
        if (work == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        work->magic = text_work_magic;
        req->work = work;
        req->release = text_release;
        text_write(&xml, doc);
        rv = s3_xml_take(&xml, &work->text, &len);
        if (rv == 0 && !reads_back(doc->kind, (struct s3_str){work->text, len})) {
                gw_reply_error(req, S3_ERR_INVALID_ARGUMENT, NULL);
                return;
        }
        if (rv == -ENOBUFS)
                gw_reply_error(req, S3_ERR_MAX_MESSAGE_LENGTH,
                               gw_printf(req, "The configuration is longer than the %u bytes that are kept of one: shorten its "
                                              "IDs, prefixes and tags, or give it fewer rules.", ENG_TEXT_MAX));
        else if (rv != 0)
                gw_reply_no_memory(req);
        else
                eng_text_set(req->loop->gw->store, req->bucket_id, text_kind_of(req), ENG_TEXT_ANY,
                             (struct eng_str){work->text, len}, text_is_set, req);
        if (rv != 0)
                s3_xml_free(&xml);
}

/* ---- DELETE ---------------------------------------------------------------------------------- */

static void text_deleted(void *arg, int rv)
{
        gw_reply_deleted(arg, rv == -ENOENT ? 0 : rv, GW_ABOUT_BUCKET);
}

void gw_run_text_delete(struct gw_request *req)
{
        eng_text_delete(req->loop->gw->store, req->bucket_id, text_kind_of(req), ENG_TEXT_ANY, text_deleted, req);
}
