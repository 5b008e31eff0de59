/*
 * op_text_lists.c - configurations of which a bucket may have many, each with an id: inventory,
 * metrics, analytics, intelligent-tiering. Called by op_texts.c, on the request's loop.
 *
 * One text holds all of a kind, a line for each, sorted by id (bucket_texts.h). A change replaces the
 * text that it was made from; if another came between, it is made again from the newer one, a few
 * times (I9). Every search is one walk over the lines.
 */
#include <errno.h>
#include <stdlib.h>

#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/handlers.h"

#define PAGE      100u /* configurations in one answer, as AWS has it */
#define TRIES_MAX 16u

/* owner: the request (arena) */
struct list_work {
        unsigned magic; /* gw_check.h */
        const struct gw_text_row *row;
        struct s3_str id;
        char *line; /* what is to be put; NULL: the id is to be deleted */
        size_t line_len;
        char *text; /* the text that is being set */
        unsigned tries;
};

/* ---- lines ----------------------------------------------------------------------------------- */

/* Cuts the first line off. The id has no space, the document no line feed. */
bool gw_text_list_next(struct s3_str *rest, struct s3_str *id, struct s3_str *document)
{
        const char *end = rest->len > 0 ? memchr(rest->data, '\n', rest->len) : NULL;
        const char *space = end != NULL ? memchr(rest->data, ' ', (size_t)(end - rest->data)) : NULL;

        if (space == NULL)
                return false;
        *id = (struct s3_str){rest->data, (size_t)(space - rest->data)};
        *document = (struct s3_str){space + 1, (size_t)(end - space - 1)};
        rest->len -= (size_t)(end + 1 - rest->data);
        rest->data = end + 1;
        return true;
}

static int order_of_ids(struct s3_str a, struct s3_str b)
{
        int rv = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

        return rv != 0 ? rv : (a.len > b.len) - (a.len < b.len);
}

/* Where an id is, or would be. */
struct line_place {
        size_t from, to; /* bytes of its line; equal: there is none */
        unsigned lines;  /* in all */
        struct s3_str document;
};

static struct line_place line_find(struct s3_str text, struct s3_str wanted)
{
        struct line_place place = {.from = text.len, .to = text.len};
        struct s3_str rest = text, id, document;

        while (rest.len > 0) {
                size_t at = text.len - rest.len;
                int order;

                if (!gw_text_list_next(&rest, &id, &document))
                        break;
                place.lines++;
                order = order_of_ids(id, wanted);
                if (order == 0)
                        place = (struct line_place){at, text.len - rest.len, place.lines, document};
                else if (order > 0 && place.from == text.len && place.document.data == NULL)
                        place.from = place.to = at;
        }
        return place;
}

/* The text, empty if there is none, and its generation, then 0. */
static int lines_of(struct gw_request *req, const struct gw_text_row *row, struct s3_str *out, uint64_t *generation)
{
        struct eng_text *text;
        int rv = eng_text_get(req->store, req->bucket_id, row->kind, &text);

        *out = S3_STR("");
        *generation = 0;
        if (rv == -ENOENT)
                return 0;
        if (rv == 0) {
                *out = gw_s3_str(eng_text_bytes(text));
                *generation = eng_text_generation(text);
        }
        return rv;
}

/* ---- GET ------------------------------------------------------------------------------------- */

bool gw_text_list_id(struct gw_request *req)
{
        struct s3_str id = gw_query(req, "id");

        if (s3_config_id_valid(id))
                return true;
        gw_reply_argument(req, "id", id, NULL);
        return false;
}

/* The document is stored without a namespace. */
static void document_write(struct s3_xml *xml, const struct gw_text_row *row, struct s3_str document)
{
        size_t tag = strlen(row->config) + 2;

        s3_xml_declaration(xml);
        s3_xml_root(xml, row->config);
        if (document.len > tag)
                s3_xml_raw(xml, (struct s3_str){document.data + tag, document.len - tag});
}

static void reply_one(struct gw_request *req, const struct gw_text_row *row, struct s3_str text)
{
        struct line_place place = line_find(text, gw_query(req, "id"));
        struct s3_xml xml;

        if (place.document.data == NULL) {
                gw_reply_error(req, row->absent, NULL);
                return;
        }
        s3_xml_init(&xml, ENG_TEXT_MAX + 1024);
        document_write(&xml, row, place.document);
        gw_reply_xml(req, 200, &xml);
}

/* From the id behind `after` on. */
static void page_write(struct gw_request *req, struct s3_xml *xml, struct s3_str text, struct s3_str after)
{
        struct s3_str id, document, last = {NULL, 0};
        unsigned n = 0;
        bool more = false;

        while (!more && gw_text_list_next(&text, &id, &document)) {
                if (after.len > 0 && order_of_ids(id, after) <= 0)
                        continue;
                more = n == PAGE;
                if (more)
                        break;
                s3_xml_raw(xml, document);
                last = id;
                n++;
        }
        s3_xml_bool(xml, "IsTruncated", more);
        if (more) {
                const char *token = gw_token_make(req, last);

                if (token != NULL)
                        s3_xml_textz(xml, "NextContinuationToken", token);
                else
                        xml->error = -ENOMEM;
        }
}

static void reply_page(struct gw_request *req, const struct gw_text_row *row, struct s3_str text)
{
        struct s3_str token = gw_query(req, "continuation-token");
        char after[ENG_KEY_MAX];
        struct s3_xml xml;
        size_t len = 0;

        if (token.len > 0 && gw_token_read(token, after, &len) != 0) {
                gw_token_refuse(req);
                return;
        }
        s3_xml_init(&xml, 2 * ENG_TEXT_MAX);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, row->root);
        if (token.len > 0)
                s3_xml_text(&xml, "ContinuationToken", token);
        page_write(req, &xml, text, (struct s3_str){after, len});
        s3_xml_close(&xml, row->root);
        gw_reply_xml(req, 200, &xml);
}

void gw_text_list_get(struct gw_request *req, const struct gw_text_row *row)
{
        struct s3_str text;
        uint64_t generation;
        int rv = lines_of(req, row, &text, &generation);

        if (rv != 0)
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
        else if (gw_query_has(req, "id"))
                reply_one(req, row, text);
        else
                reply_page(req, row, text);
}

/* ---- changes --------------------------------------------------------------------------------- */

static void list_change(struct gw_request *req);

static void list_release(struct gw_request *req)
{
        struct list_work *work = GW_CAST(list_work, req->work);

        free(work->line);
        free(work->text);
        work->line = work->text = NULL;
}

static void list_changed(void *arg, int rv)
{
        struct gw_request *req = arg;
        struct list_work *work;

        if (!gw_back(req))
                return;
        work = GW_CAST(list_work, req->work);
        if ((rv == -ESTALE || rv == -ENOENT) && ++work->tries < TRIES_MAX)
                list_change(req);
        else if (rv == -ESTALE || rv == -ENOENT)
                gw_reply_error(req, S3_ERR_OPERATION_ABORTED, NULL);
        else if (gw_text_changed(req, rv))
                gw_reply_empty(req, work->row->status);
}

/* The text with its one line exchanged, in work->text; its length, or 0: no memory. */
static size_t list_text(struct list_work *work, struct s3_str old, const struct line_place *place)
{
        size_t len = old.len - (place->to - place->from) + work->line_len;
        char *p;

        free(work->text);
        work->text = p = malloc(len);
        if (p == NULL)
                return 0;
        memcpy(p, old.data, place->from);
        if (work->line_len > 0)
                memcpy(p + place->from, work->line, work->line_len);
        memcpy(p + place->from + work->line_len, old.data + place->to, old.len - place->to);
        return len;
}

static void list_set(struct gw_request *req, struct list_work *work, struct s3_str old, const struct line_place *place,
                     uint64_t generation)
{
        struct eng_store *store = req->store;
        size_t len = old.len - (place->to - place->from) + work->line_len;

        if (len == 0)
                eng_text_delete(store, req->bucket_id, work->row->kind, generation, list_changed, req);
        else if (len > ENG_TEXT_MAX)
                gw_reply_error(req, S3_ERR_TOO_MANY_CONFIGURATIONS,
                               gw_printf(req, "All configurations of this kind together may have %u bytes in a bucket.",
                                         ENG_TEXT_MAX));
        else if (list_text(work, old, place) == 0)
                gw_reply_no_memory(req);
        else
                eng_text_set(store, req->bucket_id, work->row->kind, generation, (struct eng_str){work->text, len},
                             list_changed, req);
}

/* Makes the change from the text that is there now. */
static void list_change(struct gw_request *req)
{
        struct list_work *work = GW_CAST(list_work, req->work);
        struct line_place place;
        uint64_t generation;
        struct s3_str old;
        int rv = lines_of(req, work->row, &old, &generation);

        if (rv != 0) {
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
                return;
        }
        place = line_find(old, work->id);
        if (work->line == NULL && place.document.data == NULL)
                gw_reply_error(req, work->row->absent, NULL);
        else if (work->line != NULL && place.document.data == NULL && place.lines >= GW_TEXT_CONFIGS_MAX)
                gw_reply_error(req, S3_ERR_TOO_MANY_CONFIGURATIONS, NULL);
        else
                list_set(req, work, old, &place, generation);
}

static struct list_work *list_work_new(struct gw_request *req, const struct gw_text_row *row)
{
        struct list_work *work = gw_alloc(req, sizeof(*work));

        if (work == NULL) {
                gw_reply_no_memory(req);
                return NULL;
        }
        *work = (struct list_work){.magic = list_work_magic, .row = row, .id = gw_query(req, "id")};
        req->work = work;
        req->release = list_release;
        return work;
}

void gw_text_list_put(struct gw_request *req, const struct gw_text_row *row)
{
        struct s3_str id = gw_query(req, "id");
        struct list_work *work;
        struct s3_xml xml;

        if (!s3_str_eq(id, s3_config_text_of(req->body->doc->config, 0, "Id"))) {
                gw_reply_argument(req, "id", id, "The id of the request is not that of the configuration.");
                return;
        }
        work = list_work_new(req, row);
        if (work == NULL)
                return;
        s3_xml_init(&xml, ENG_TEXT_MAX);
        s3_xml_raw(&xml, id);
        s3_xml_raw(&xml, S3_STR(" "));
        s3_config_write(&xml, req->body->doc->config, true);
        s3_xml_raw(&xml, S3_STR("\n"));
        if (s3_xml_take(&xml, &work->line, &work->line_len) != 0) {
                s3_xml_free(&xml);
                gw_reply_no_memory(req);
                return;
        }
        list_change(req);
}

void gw_text_list_delete(struct gw_request *req, const struct gw_text_row *row)
{
        if (gw_text_list_id(req) && list_work_new(req, row) != NULL)
                list_change(req);
}
