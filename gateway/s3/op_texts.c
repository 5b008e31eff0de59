/*
 * op_texts.c - configurations of buckets that are kept as texts: GET, PUT and DELETE, for all rows
 * of text_rows.c. On the request's loop.
 *
 * A document is read, checked, and kept as s3/ writes it, so that GET answers what was stored, and
 * what is in force is what GET answers.
 */
#include <errno.h>
#include <stdlib.h>

#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/handlers.h"

#define ANSWER_MORE 1024u /* bytes of an answer beside the text */

/* owner: the request (arena) */
struct text_work {
        unsigned magic; /* gw_check.h */
        char *text;
};

static void text_headers(struct gw_request *req, const struct gw_text_row *row)
{
        if (row->headers != NULL)
                row->headers(req);
}

/* ---- GET ------------------------------------------------------------------------------------- */

static void reply_absent(struct gw_request *req, const struct gw_text_row *row)
{
        if (row->write == NULL) /* tags and lifecycle rules name the bucket alone */
                req->refused_query = s3_str_of(row->sub);
        gw_reply_error(req, row->absent, NULL);
}

static void reply_never_set(struct gw_request *req, const struct gw_text_row *row)
{
        struct s3_xml xml;

        if (row->root == NULL) {
                reply_absent(req, row);
                return;
        }
        s3_xml_init(&xml, ANSWER_MORE);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, row->root);
        s3_xml_raw(&xml, s3_str_of(row->content));
        s3_xml_close(&xml, row->root);
        gw_reply_xml(req, 200, &xml);
}

static void reply_text(struct gw_request *req, const struct gw_text_row *row, struct eng_str bytes)
{
        struct s3_xml xml;

        if (row->says_gone && s3_str_eq(gw_s3_str(bytes), S3_STR(GW_TEXT_GONE))) {
                reply_absent(req, row);
                return;
        }
        text_headers(req, row);
        s3_xml_init(&xml, bytes.len + ANSWER_MORE);
        s3_xml_declaration(&xml);
        s3_xml_raw(&xml, gw_s3_str(bytes));
        gw_reply_xml(req, 200, &xml);
}

void gw_run_text(struct gw_request *req)
{
        const struct gw_text_row *row = gw_text_row_of(req);
        struct eng_text *text;
        int rv;

        if (row->config != NULL) {
                gw_text_list_get(req, row);
                return;
        }
        rv = row->kind == GW_TEXT_NONE ? -ENOENT : eng_text_get(req->store, req->bucket_id, row->kind, &text);
        if (rv == 0)
                reply_text(req, row, eng_text_bytes(text));
        else if (rv == -ENOENT)
                reply_never_set(req, row);
        else
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
}

/* ---- DELETE ---------------------------------------------------------------------------------- */

static void text_deleted(void *arg, int rv)
{
        gw_reply_deleted(arg, rv == -ENOENT ? 0 : rv, GW_ABOUT_BUCKET);
}

void gw_run_text_delete(struct gw_request *req)
{
        const struct gw_text_row *row = gw_text_row_of(req);
        struct eng_store *store = req->store;

        if (row->config != NULL)
                gw_text_list_delete(req, row);
        else if (row->says_gone)
                eng_text_set(store, req->bucket_id, row->kind, ENG_TEXT_ANY,
                             (struct eng_str){GW_TEXT_GONE, sizeof(GW_TEXT_GONE) - 1}, text_deleted, req);
        else
                eng_text_delete(store, req->bucket_id, row->kind, ENG_TEXT_ANY, text_deleted, req);
}

/* ---- PUT ------------------------------------------------------------------------------------- */

static void text_release(struct gw_request *req)
{
        struct text_work *work = GW_CAST(text_work, req->work);

        free(work->text);
        work->text = NULL;
}

bool gw_text_changed(struct gw_request *req, int rv)
{
        if (rv == -EDQUOT)
                gw_reply_error(req, S3_ERR_INSUFFICIENT_STORAGE,
                               "The configurations of all buckets have no room for this one.");
        else if (rv != 0)
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
        return rv == 0;
}

static void text_is_set(void *arg, int rv)
{
        struct gw_request *req = arg;
        const struct gw_text_row *row;

        if (!gw_back(req) || !gw_text_changed(req, rv))
                return;
        row = gw_text_row_of(req);
        text_headers(req, row);
        gw_reply_empty(req, row->status);
}

static void text_is_taken_away(void *arg, int rv)
{
        text_is_set(arg, rv == -ENOENT ? 0 : rv);
}

void gw_begin_text_put(struct gw_request *req)
{
        const struct gw_text_row *row = gw_text_row_of(req);

        if (!gw_write_headers_check(req) || (row->summed && !gw_document_summed(req)))
                return;
        if ((row->config != NULL && !gw_text_list_id(req)) || (row->begin != NULL && !row->begin(req)))
                return;
        gw_begin_document(req, row->doc);
}

/* What was written is what will be read: a date beyond the year 9999, for example, is not. */
static bool reads_back(enum s3_doc_kind kind, struct s3_str text)
{
        struct s3_doc *doc;
        enum s3_error error = s3_doc_read(kind, text, &doc);

        s3_doc_free(doc);
        return error == S3_OK;
}

static void text_write(struct s3_xml *xml, const struct gw_text_row *row, const struct s3_doc *doc)
{
        s3_xml_init(xml, ENG_TEXT_MAX);
        if (row->write != NULL)
                row->write(xml, doc);
        else
                s3_config_write(xml, doc->config, false);
}

static void text_keep(struct gw_request *req, const struct gw_text_row *row)
{
        struct text_work *work = gw_alloc(req, sizeof(*work));
        struct s3_xml xml;
        size_t len;
        int rv;

        if (work == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        work->magic = text_work_magic;
        req->work = work;
        req->release = text_release;
        text_write(&xml, row, req->body->doc);
        rv = s3_xml_take(&xml, &work->text, &len);
        if (rv == 0 && !reads_back(row->doc, (struct s3_str){work->text, len})) {
                gw_reply_error(req, S3_ERR_INVALID_ARGUMENT, NULL);
                return;
        }
        if (rv == -ENOBUFS)
                gw_reply_error(
                        req, S3_ERR_MAX_MESSAGE_LENGTH,
                        gw_printf(req,
                                  "The configuration is longer than the %u bytes that are kept of one: shorten its "
                                  "IDs, prefixes and tags, or give it fewer rules.",
                                  ENG_TEXT_MAX));
        else if (rv != 0)
                gw_reply_no_memory(req);
        else
                eng_text_set(req->store, req->bucket_id, row->kind, ENG_TEXT_ANY,
                             (struct eng_str){work->text, len}, text_is_set, req);
        if (rv != 0)
                s3_xml_free(&xml);
}

void gw_run_text_put(struct gw_request *req)
{
        const struct gw_text_row *row = gw_text_row_of(req);
        const struct s3_doc *doc = req->body->doc;

        if (row->check != NULL && !row->check(req, doc))
                return;
        if (row->kind == GW_TEXT_NONE)
                text_is_set(req, 0);
        else if (row->is_none != NULL && row->is_none(doc))
                eng_text_delete(req->store, req->bucket_id, row->kind, ENG_TEXT_ANY, text_is_taken_away, req);
        else if (row->config != NULL)
                gw_text_list_put(req, row);
        else
                text_keep(req, row);
}
