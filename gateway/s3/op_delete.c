/*
 * op_delete.c - DeleteObject and DeleteObjects. On the request's loop.
 *
 * A request of many keys keeps at most AT_ONCE of them under way (I9), and answers in the order of
 * its document. Each key stands for itself: one that fails does not stop the others.
 */
#include <errno.h>

#include "gateway/s3/handlers.h"
#include "gateway/s3/request_rights.h"
#include "gateway/s3/version_ids.h"

#define AT_ONCE      32u
#define ANSWER_LIMIT (24u << 20)

/* ---- DeleteObject ---------------------------------------------------------------------------- */

/* Conditions of a delete beside If-Match. False: answered. */
static bool read_more_conditions(struct gw_request *req, struct eng_condition *condition)
{
        struct s3_str time = gw_header(req, "x-amz-if-match-last-modified-time"),
                      size = gw_header(req, "x-amz-if-match-size");
        int64_t ms = 0;

        condition->if_mtime = time.data != NULL;
        condition->if_size = size.data != NULL;
        if ((condition->if_mtime && s3_date_parse_http(time, &ms) != 0 && s3_date_parse_iso(time, &ms) != 0) ||
            (condition->if_size && s3_parse_uint(size, INT64_MAX, &condition->size) != 0)) {
                gw_reply_error(req, S3_ERR_INVALID_ARGUMENT, NULL);
                return false;
        }
        condition->mtime_s = ms / 1000;
        return true;
}

static bool read_condition(struct gw_request *req, struct eng_condition *condition)
{
        bool never;

        if (!gw_condition_read(req, condition, &never))
                return false;
        if (condition->if_absent || gw_header(req, "x-amz-mfa").data != NULL) {
                gw_refuse_header(req, condition->if_absent ? "If-None-Match" : "x-amz-mfa");
                return false;
        }
        return read_more_conditions(req, condition);
}

static void object_deleted(void *arg, int rv, const struct eng_deleted *deleted)
{
        struct gw_request *req = arg;

        if (!gw_back(req))
                return;
        if (rv == -EACCES) {
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, GW_LOCKED_MESSAGE);
                return;
        }
        if (rv != 0) {
                gw_reply_errno(req, rv, GW_ABOUT_KEY);
                return;
        }
        if (deleted->marker)
                gw_reply_header(req, "x-amz-delete-marker", "true");
        if (deleted->versioned)
                gw_version_header(req, &deleted->version);
        gw_reply_empty(req, 204);
}

void gw_run_delete(struct gw_request *req)
{
        struct eng_delete_params params = {.bucket = req->bucket_id, .key = gw_eng_str(req->key)};
        struct gw_version version;

        if (!gw_version_of(req, &version) || !read_condition(req, &params.condition) ||
            !gw_bypass_read(req, &params.bypass_governance))
                return;
        params.version = gw_version_asked(&version);
        eng_delete(req->store, &params, object_deleted, req);
}

/* ---- DeleteObjects --------------------------------------------------------------------------- */

/* One key of a request. owner: the request */
struct item {
        unsigned magic; /* gw_check.h */
        struct gw_request *req;
        enum s3_error error;
        bool locked;                    /* it is protected */
        bool versioned, marker;         /* as the engine said of what was deleted */
        struct eng_version version;
};

/* owner: its request */
struct many {
        unsigned magic; /* gw_check.h */
        const struct s3_doc *doc;
        struct item *items;
        unsigned next; /* first not begun */
        unsigned under_way;
        bool bypass_governance;
};

void gw_begin_delete_many(struct gw_request *req)
{
        if (gw_header(req, "x-amz-mfa").data != NULL) {
                gw_refuse_header(req, "x-amz-mfa");
                return;
        }
        if (!gw_document_summed(req))
                return;
        gw_begin_document(req, S3_DOC_DELETE);
}

static void put_error(struct s3_xml *xml, const struct s3_delete_object *object, const struct item *item)
{
        const struct s3_error_info *info = s3_error_info(item->error);

        s3_xml_open(xml, "Error");
        s3_xml_text(xml, "Key", object->key);
        if (object->version_id.data != NULL)
                s3_xml_text(xml, "VersionId", object->version_id);
        s3_xml_textz(xml, "Code", info->code);
        s3_xml_textz(xml, "Message", item->locked ? GW_LOCKED_MESSAGE : info->message);
        s3_xml_close(xml, "Error");
}

static void put_deleted(struct s3_xml *xml, const struct s3_delete_object *object, const struct item *item)
{
        struct s3_deleted deleted = {.key = object->key, .version_id = object->version_id, .marker = item->marker};
        char text[S3_VERSION_TEXT];

        if (item->marker && item->versioned)
                deleted.marker_version_id = (struct s3_str){text, gw_version_text(&item->version, text)};
        s3_deleted_write(xml, &deleted);
}

static void reply_many(struct gw_request *req)
{
        const struct many *many = GW_CAST(many, req->work);
        struct s3_xml xml;

        s3_xml_init(&xml, ANSWER_LIMIT);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, "DeleteResult");
        for (unsigned i = 0; i < many->doc->object_count; i++) {
                if (many->items[i].error != S3_OK)
                        put_error(&xml, &many->doc->objects[i], &many->items[i]);
                else if (!many->doc->quiet)
                        put_deleted(&xml, &many->doc->objects[i], &many->items[i]);
        }
        s3_xml_close(&xml, "DeleteResult");
        gw_reply_xml(req, 200, &xml);
}

/* Version and conditions of one key; false: its error is set. */
static bool item_read(struct item *item, const struct s3_delete_object *object, struct gw_version *version,
                      struct eng_condition *out)
{
        const char *message;
        unsigned parts = 0;

        *out = (struct eng_condition){.if_mtime = object->has_time,
                                      .mtime_s = object->time_ms / 1000,
                                      .if_size = object->has_size,
                                      .size = object->size};
        if (gw_version_parse(object->version_id, version, &message) != S3_OK)
                item->error = S3_ERR_NO_SUCH_VERSION;
        if (object->etag.data == NULL || item->error != S3_OK)
                return item->error == S3_OK;
        out->if_present = s3_str_eq(object->etag, S3_STR("*"));
        out->if_etag = !out->if_present;
        if (out->if_etag && s3_etag_parse(object->etag, out->etag, &parts) != 0)
                parts = UINT16_MAX; /* more than any object has: never true */
        out->etag_parts = (uint16_t)parts;
        return true;
}

/* The key, and what its condition would tell. */
static bool item_permitted(struct gw_request *req, const struct s3_delete_object *object)
{
        bool any = object->etag.data == NULL || s3_str_eq(object->etag, S3_STR("*"));

        if (!gw_rights_permit(req, object->key, object->version_id))
                return false;
        return (any && !object->has_time && !object->has_size) ||
               gw_rights_permit_match(req, object->key, object->version_id);
}

static void begin_some(struct gw_request *req);

static void item_deleted(void *arg, int rv, const struct eng_deleted *deleted)
{
        struct item *item = GW_CAST(item, arg);
        struct gw_request *req = item->req;
        struct many *many;

        if (!gw_back(req))
                return;
        many = GW_CAST(many, req->work);
        assert(many->under_way > 0);
        many->under_way--;
        item->error = gw_error_of(rv, GW_ABOUT_KEY);
        item->locked = rv == -EACCES;
        if (rv == 0) {
                item->versioned = deleted->versioned;
                item->marker = deleted->marker;
                item->version = deleted->version;
        }
        begin_some(req);
}

static void begin_some(struct gw_request *req)
{
        struct many *many = GW_CAST(many, req->work);

        while (!req->undecided && many->next < many->doc->object_count && many->under_way < AT_ONCE) {
                const struct s3_delete_object *object = &many->doc->objects[many->next];
                struct item *item = &many->items[many->next++];
                struct eng_delete_params params = {.bucket = req->bucket_id,
                                                   .key = gw_eng_str(object->key),
                                                   .bypass_governance = many->bypass_governance};
                struct gw_version version;

                if (req->peer_gone)
                        item->error = S3_ERR_REQUEST_TIMEOUT; /* nobody will read it */
                else if (!item_permitted(req, object))
                        item->error = S3_ERR_ACCESS_DENIED;
                else if (item_read(item, object, &version, &params.condition)) {
                        params.version = gw_version_asked(&version);
                        many->under_way++;
                        eng_delete(req->store, &params, item_deleted, item);
                }
        }
        if (many->under_way == 0)
                reply_many(req);
}

void gw_run_delete_many(struct gw_request *req)
{
        struct many *many = gw_alloc(req, sizeof(*many));

        if (many != NULL)
                many->items = gw_alloc(req, req->body->doc->object_count * sizeof(many->items[0]));
        if (many == NULL || many->items == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        if (!gw_bypass_read(req, &many->bypass_governance))
                return;
        many->doc = req->body->doc;
        for (unsigned i = 0; i < many->doc->object_count; i++) {
                many->items[i].magic = item_magic;
                many->items[i].req = req;
        }
        many->magic = many_magic;
        req->work = many;
        begin_some(req);
}
