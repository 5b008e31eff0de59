/*
 * op_extras.c - what a version has beside its bytes and metadata, by operations of its own: tags,
 * retention, legal hold. On the request's loop.
 */
#include <errno.h>

#include "gateway/s3/handlers.h"
#include "gateway/s3/version_ids.h"

#define DOC_MAX (64u << 10)

/* owner: the request (arena) */
struct extras_work {
        unsigned magic; /* gw_check.h */
        struct gw_version version;
        void (*reply)(struct gw_request *req, const struct eng_object *object);
        struct eng_extras_change change;
};

static struct extras_work *extras_begin(struct gw_request *req)
{
        struct extras_work *work = gw_alloc(req, sizeof(*work));

        if (work == NULL) {
                gw_reply_no_memory(req);
                return NULL;
        }
        work->magic = extras_work_magic;
        req->work = work;
        return gw_version_of(req, &work->version) ? work : NULL;
}

/* Retention and holds are of buckets with object lock. False: answered. */
static bool lock_is_there(struct gw_request *req)
{
        if (!req->lockable)
                gw_reply_error(req, S3_ERR_INVALID_REQUEST, "Bucket is missing Object Lock Configuration");
        return req->lockable;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void extras_opened(void *arg, int rv, struct eng_get *get)
{
        struct gw_request *req = arg;
        struct extras_work *work;

        if (!gw_back_opened(req, rv, get))
                return;
        work = GW_CAST(extras_work, req->work);
        if (gw_version_found(req, &work->version, rv, get))
                work->reply(req, eng_get_object(get));
}

/* What has been begun; NULL: answered. */
static void extras_look(struct gw_request *req, struct extras_work *work,
                        void (*reply)(struct gw_request *req, const struct eng_object *object))
{
        if (work == NULL)
                return;
        work->reply = reply;
        eng_get_metadata(req->store, req->bucket_id, gw_eng_str(req->key), gw_version_asked(&work->version),
                         extras_opened, req);
}

static void reply_tagging(struct gw_request *req, const struct eng_object *object)
{
        struct s3_tags tags = {.count = 0};
        struct s3_xml xml;

        if (object->tags.len > 0 && s3_tags_decode(object->tags.data, object->tags.len, &tags) != 0) {
                gw_reply_errno(req, -EIO, GW_ABOUT_KEY);
                return;
        }
        gw_version_header(req, &object->version);
        s3_xml_init(&xml, DOC_MAX);
        s3_xml_declaration(&xml);
        s3_tags_write(&xml, &tags);
        gw_reply_xml(req, 200, &xml);
}

static void reply_retention(struct gw_request *req, const struct eng_object *object)
{
        struct s3_retention retention = {.mode = (enum s3_lock_mode)object->retention.mode,
                                         .until_ms = object->retention.until_ms};
        struct s3_xml xml;

        if (retention.mode == S3_LOCK_NONE) {
                gw_reply_error(req, S3_ERR_NO_SUCH_OBJECT_LOCK, NULL);
                return;
        }
        s3_xml_init(&xml, DOC_MAX);
        s3_xml_declaration(&xml);
        s3_retention_write(&xml, &retention);
        gw_reply_xml(req, 200, &xml);
}

static void reply_legal_hold(struct gw_request *req, const struct eng_object *object)
{
        struct s3_xml xml;

        if (!object->hold_known) {
                gw_reply_error(req, S3_ERR_NO_SUCH_OBJECT_LOCK, NULL);
                return;
        }
        s3_xml_init(&xml, DOC_MAX);
        s3_xml_declaration(&xml);
        s3_legal_hold_write(&xml, object->hold);
        gw_reply_xml(req, 200, &xml);
}

void gw_run_object_tagging(struct gw_request *req)
{
        extras_look(req, extras_begin(req), reply_tagging);
}

void gw_run_retention(struct gw_request *req)
{
        if (lock_is_there(req))
                extras_look(req, extras_begin(req), reply_retention);
}

void gw_run_legal_hold(struct gw_request *req)
{
        if (lock_is_there(req))
                extras_look(req, extras_begin(req), reply_legal_hold);
}

/* ---- changing -------------------------------------------------------------------------------- */

static void extras_are_set(void *arg, int rv, const struct eng_object *object)
{
        struct gw_request *req = arg;
        const struct extras_work *work;

        if (!gw_back(req))
                return;
        work = GW_CAST(extras_work, req->work);
        if (rv == -EACCES) {
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, GW_LOCKED_MESSAGE);
        } else if (rv == -ESTALE) { /* it is not any more what was permitted to be changed (P21) */
                gw_reply_error(req, S3_ERR_OPERATION_ABORTED, NULL);
        } else if (rv == -ENODATA) {
                gw_version_refuse_marker(req);
        } else if (rv != 0) {
                gw_version_fail(req, &work->version, rv);
        } else {
                gw_version_header(req, &object->version);
                gw_reply_empty(req, s3_str_eq(req->method, S3_STR("DELETE")) ? 204 : 200);
        }
}

/* What was found may be changed: that version, as it is. */
static void extras_change_found(struct gw_request *req, const struct eng_object *object)
{
        struct extras_work *work = GW_CAST(extras_work, req->work);

        gw_change_as_seen(req, &work->change);
        eng_extras_set(req->store, req->bucket_id, gw_eng_str(req->key), req->versioned ? &object->version : NULL,
                       &work->change, extras_are_set, req);
}

static void extras_change(struct gw_request *req, const struct eng_extras_change *change)
{
        struct extras_work *work = extras_begin(req);

        if (work == NULL)
                return;
        work->change = *change;
        if (req->object_decides) /* it has to be looked at before (P21) */
                extras_look(req, work, extras_change_found);
        else
                eng_extras_set(req->store, req->bucket_id, gw_eng_str(req->key), gw_version_asked(&work->version),
                               change, extras_are_set, req);
}

void gw_begin_object_tagging_put(struct gw_request *req)
{
        gw_begin_document(req, S3_DOC_OBJECT_TAGGING);
}

void gw_run_object_tagging_put(struct gw_request *req)
{
        struct eng_extras_change change = {.set_tags = true};

        if (gw_tags_keep(req, &req->body->doc->tags, &change.extras.tags))
                extras_change(req, &change);
}

void gw_run_object_tagging_delete(struct gw_request *req)
{
        extras_change(req, &(struct eng_extras_change){.set_tags = true});
}

void gw_begin_retention_put(struct gw_request *req)
{
        if (lock_is_there(req) && gw_document_summed(req))
                gw_begin_document(req, S3_DOC_RETENTION);
}

void gw_run_retention_put(struct gw_request *req)
{
        const struct s3_retention *wanted = &req->body->doc->retention;
        struct eng_extras_change change = {.set_retention = true,
                                           .extras.retention = {.mode = (enum eng_retention_mode)wanted->mode,
                                                                .until_ms = wanted->until_ms}};

        if (wanted->mode != S3_LOCK_NONE && !gw_retention_ahead(req, wanted->until_ms))
                return;
        if (gw_bypass_read(req, &change.bypass_governance))
                extras_change(req, &change);
}

void gw_begin_legal_hold_put(struct gw_request *req)
{
        if (lock_is_there(req) && gw_document_summed(req))
                gw_begin_document(req, S3_DOC_LEGAL_HOLD);
}

void gw_run_legal_hold_put(struct gw_request *req)
{
        extras_change(req, &(struct eng_extras_change){.set_hold = true, .extras.hold = req->body->doc->legal_hold});
}
