/*
 * op_put_object.c - PutObject and UploadPart: what is refused before the body, and what is stored
 * after it.
 *
 * begin opens the upload in the engine before a byte of body is asked for; body.c feeds it; run
 * commits it once lengths, signatures and checksums held. All on the request's loop. Nothing is
 * stored on any error: what is open is aborted with the request.
 */
#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/version_ids.h"
#include "gateway/rdma/rdma_session.h"

#include <errno.h>

/* owner: the request (arena) */
struct put_work {
        unsigned magic; /* gw_check.h */
        struct eng_extras extras;
        struct gw_meta meta;            /* slices of headers, which stay until the request ends */
        struct eng_condition condition;
        struct gw_checksum upload_sum;  /* what the upload was begun with (parts) */
        uint8_t upload_id[ENG_ID_LEN];
        unsigned part;                  /* 0: an object */
        struct gw_checksum sum;         /* computed, stored and answered */
        void (*stored)(struct gw_request *req, const struct eng_object *object); /* of a form; NULL: others */
};

/* ---- begin ----------------------------------------------------------------------------------- */

/* NULL: answered. */
static struct put_work *put_work_new(struct gw_request *req)
{
        struct put_work *work = gw_alloc(req, sizeof(*work));

        if (work == NULL) {
                gw_reply_no_memory(req);
                return NULL;
        }
        work->magic = put_work_magic;
        req->work = work;
        return work;
}

/* Size of the object as announced. False: answered. */
static bool size_of_body(struct gw_request *req, uint64_t *size)
{
        if (gw_header(req, "Content-Length").data == NULL && !req->chunked) {
                gw_reply_error(req, S3_ERR_MISSING_CONTENT_LENGTH, NULL);
                return false;
        }
        *size = req->body->expected;
        if (*size != S3_LENGTH_UNKNOWN && *size > GW_OBJECT_MAX) {
                gw_reply_error(req, S3_ERR_ENTITY_TOO_LARGE, NULL);
                return false;
        }
        return true;
}

static void put_room(void *arg)
{
        struct gw_request *req = arg;

        if (gw_back(req))
                gw_request_wake(req);
}

/* False: answered. */
static bool put_upload_open(struct gw_request *req, struct put_work *work)
{
        struct eng_put_params params = {
                .bucket = req->bucket_id,
                .key = gw_eng_str(req->key),
                .is_part = work->part != 0,
                .part_number = work->part,
                .md5 = true,
                .wake = put_room,
                .arg = req,
        };
        uint64_t size;
        int rv;

        if (!size_of_body(req, &size))
                return false;
        params.size = size == S3_LENGTH_UNKNOWN ? ENG_SIZE_UNKNOWN : size;
        memcpy(params.upload_id, work->upload_id, ENG_ID_LEN);
        if (gw_carried_upload(req))
                gw_transfer_wakes(req, &params);
        rv = eng_put_open(req->store, &params, &req->put);
        if (rv != 0)
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
        return rv == 0;
}

static void open_put(struct gw_request *req, struct put_work *work)
{
        if (!put_upload_open(req, work))
                return;
        if (gw_carried_upload(req))
                gw_transfer_receive(req);
        else
                gw_begin_done(req);
}

/*
 * A condition that does not hold now is refused before the body is sent. What holds now is checked
 * once more with the commit, which is the check that counts.
 */
static void present_found(void *arg, int rv, struct eng_get *get)
{
        struct gw_request *req = arg;
        struct put_work *work = req->work;
        const struct eng_condition *c = &work->condition;
        bool same = false;

        if (rv == 0) {
                const struct eng_object *object = eng_get_object(get);

                same = memcmp(object->etag, c->etag, 16) == 0 && object->etag_parts == c->etag_parts;
                rv = object->marker ? -ENOENT : 0;
                eng_get_close(get);
        }
        if (!gw_back(req))
                return;
        if (rv == 0 && (c->if_absent || (c->if_etag && !same)))
                gw_reply_error(req, S3_ERR_PRECONDITION_FAILED, NULL);
        else if (rv != 0 && !(rv == -ENOENT && c->if_absent))
                gw_reply_errno(req, rv, GW_ABOUT_WRITE);
        else
                open_put(req, work);
}

/*
 * What cannot be deleted for years must be what the client meant: protected by the headers of the put
 * or of the upload, or by the bucket's default. Where the bytes come by RDMA the client may not be able
 * to sum them, as they lie in a device's memory: the default does not ask for it then. False: answered.
 */
static bool lock_is_summed(struct gw_request *req, const struct put_work *work, bool hold, const struct eng_retention *retention)
{
        bool locked = hold || retention->mode != ENG_RETENTION_NONE || (req->retains && !gw_carried_upload(req));

        if (!locked || req->body->check_md5 || req->body->has_kind)
                return true;
        gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                       gw_printf(req,
                                 "Content-MD5 OR x-amz-checksum- HTTP header is required for Put %s requests with Object "
                                 "Lock parameters",
                                 work->part != 0 ? "Part" : "Object"));
        return false;
}

/* What the headers say of a new version. NULL: answered. */
static struct put_work *put_work_read(struct gw_request *req)
{
        struct put_work *work = put_work_new(req);
        enum s3_error error;
        bool never;

        if (work == NULL || !gw_write_headers_check(req) || !gw_extras_read(req, &work->extras) ||
            !lock_is_summed(req, work, work->extras.hold, &work->extras.retention) ||
            !gw_condition_read(req, &work->condition, &never))
                return NULL;
        error = gw_meta_of_headers(req->headers, req->header_count, &work->meta);
        if (error != S3_OK)
                gw_reply_error(req, error, NULL);
        return error == S3_OK ? work : NULL;
}

bool gw_put_form_open(struct gw_request *req, void (*stored)(struct gw_request *req, const struct eng_object *object))
{
        struct put_work *work = put_work_read(req);

        if (work == NULL)
                return false;
        work->stored = stored;
        return put_upload_open(req, work);
}

static void begin_put(struct gw_request *req)
{
        struct put_work *work = put_work_read(req);

        if (work == NULL)
                return;
        if (work->condition.if_absent || work->condition.if_present || work->condition.if_etag)
                eng_get_metadata(req->store, req->bucket_id, gw_eng_str(req->key), NULL, present_found, req);
        else
                open_put(req, work);
}

void gw_begin_put(struct gw_request *req)
{
        if (gw_carried_upload(req))
                gw_transfer_begin(req, begin_put);
        else
                begin_put(req);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/*
 * The checksum of a part is of the kind the upload was begun with. Where the whole is to have a
 * checksum of checksums, each part must come with its own; a checksum over all bytes needs none of
 * the client's.
 */
static bool part_sum_fits(struct gw_request *req, const struct put_work *work)
{
        const struct gw_body *body = req->body;

        if (!work->upload_sum.has_kind || (body->has_kind && body->kind == work->upload_sum.kind) ||
            (!body->has_kind && work->upload_sum.type == S3_FULL_OBJECT))
                return true;
        gw_reply_error(
                req, S3_ERR_INVALID_REQUEST,
                gw_printf(req, "Checksum Type mismatch occurred, expected checksum Type: %s, actual checksum Type: %s",
                          gw_algorithm_text(req, work->upload_sum.kind),
                          body->has_kind ? gw_algorithm_text(req, body->kind) : "null"));
        return false;
}

/* The kind stored with each part: that of the upload, or CRC64NVME as AWS does now. */
static enum s3_checksum part_kind(const struct put_work *work)
{
        return work->upload_sum.has_kind ? work->upload_sum.kind : S3_CRC64NVME;
}

/* Sees to it that the kind stored is among those computed; no byte has come yet. */
static bool compute_kind(struct gw_request *req, enum s3_checksum kind)
{
        struct gw_body *body = req->body;
        struct s3_sums *sums;

        if ((body->sum_mask & S3_CHECKSUM_BIT(kind)) != 0)
                return true;
        if (s3_sums_new(body->sum_mask | S3_CHECKSUM_BIT(kind), &sums) != 0) {
                gw_reply_no_memory(req);
                return false;
        }
        s3_sums_free(body->sums);
        body->sums = sums;
        body->sum_mask |= S3_CHECKSUM_BIT(kind);
        return true;
}

static void put_upload_found(void *arg, int rv, const struct eng_object *object)
{
        struct gw_request *req = arg;
        struct put_work *work;

        if (!gw_back(req))
                return;
        work = GW_CAST(put_work, req->work);
        if (rv == 0 && gw_meta_decode_checksum(object->attrs, &work->upload_sum) != 0)
                rv = -EIO;
        if (rv != 0) {
                gw_reply_errno(req, rv, GW_ABOUT_UPLOAD);
                return;
        }
        if (lock_is_summed(req, work, object->hold, &object->retention) && part_sum_fits(req, work) &&
            compute_kind(req, part_kind(work)))
                open_put(req, work);
}

static void begin_part(struct gw_request *req)
{
        struct put_work *work = put_work_new(req);

        if (work == NULL || !gw_write_headers_check(req) || !gw_part_number_of(req, &work->part))
                return;
        if (gw_upload_id_of(req, work->upload_id))
                eng_upload_get(req->store, req->bucket_id, gw_eng_str(req->key), work->upload_id,
                               put_upload_found, req);
}

void gw_begin_part(struct gw_request *req)
{
        if (gw_carried_upload(req))
                gw_transfer_begin(req, begin_part);
        else
                begin_part(req);
}

/* ---- run ------------------------------------------------------------------------------------- */

static void take_sum(const struct gw_request *req, enum s3_checksum kind, struct gw_checksum *out)
{
        const uint8_t *value = gw_body_checksum(req, kind);

        memset(out, 0, sizeof(*out));
        if (value == NULL)
                return;
        out->has = out->has_kind = true;
        out->kind = kind;
        out->type = S3_FULL_OBJECT;
        memcpy(out->value, value, s3_checksum_info(kind)->len);
}

static void put_stored(void *arg, int rv, const struct eng_object *object)
{
        struct gw_request *req = arg;
        struct put_work *work;

        if (!gw_back(req))
                return;
        work = GW_CAST(put_work, req->work);
        if (rv != 0) {
                gw_reply_errno(req, rv, work->part != 0 ? GW_ABOUT_UPLOAD : GW_ABOUT_WRITE);
                return;
        }
        gw_reply_header(req, "ETag", gw_etag_text(req, object->etag, 0));
        if (work->part == 0) {
                gw_expiration_header(req, object);
                gw_version_header(req, &object->version);
                gw_checksum_headers(req, &work->sum);
        } else { /* how the parts' checksums make that of the object is the upload's affair */
                gw_checksum_header(req, &work->sum);
        }
        if (gw_carried_upload(req))
                gw_session_headers(req, 200, req->rdma->window.length);
        if (work->stored != NULL)
                work->stored(req, object);
        else
                gw_reply_empty(req, 200);
}

static void put_object_commit(struct gw_request *req, struct put_work *work)
{
        static _Thread_local uint8_t encoded[ENG_ATTRS_MAX]; /* copied by the engine within the call */
        struct eng_put_commit c = {.condition = work->condition, .extras = work->extras, .attrs = encoded};
        struct eng_put *put = req->put;
        ssize_t len;

        len = gw_meta_encode(&work->meta, encoded, sizeof(encoded));
        if (len < 0) {
                gw_reply_error(req, S3_ERR_METADATA_TOO_LARGE, NULL);
                return;
        }
        c.attrs_len = (size_t)len;
        memcpy(c.etag, req->body->md5_value, sizeof(c.etag));
        gw_tag_make(&work->meta, c.tag);
        req->put = NULL;
        eng_put_commit(put, &c, put_stored, req);
}

void gw_run_put(struct gw_request *req)
{
        struct put_work *work = GW_CAST(put_work, req->work);

        take_sum(req, req->body->has_kind ? req->body->kind : S3_CRC64NVME, &work->meta.sum);
        work->sum = work->meta.sum;
        put_object_commit(req, work);
}

void gw_run_part(struct gw_request *req)
{
        struct put_work *work = GW_CAST(put_work, req->work);

        take_sum(req, part_kind(work), &work->meta.sum);
        /* One that neither the upload nor the part names is our own affair. */
        if (req->body->has_kind || work->upload_sum.has_kind)
                take_sum(req, req->body->has_kind ? req->body->kind : part_kind(work), &work->sum);
        put_object_commit(req, work);
}
