/*
 * op_acl.c - GET and PUT of a bucket's and an object's ACL. On the request's loop.
 *
 * Where the bucket's owner owns all, ACLs count for nothing: what was kept from before is neither
 * answered nor changed.
 */
#include <errno.h>

#include "gateway/rights/owners.h"
#include "gateway/s3/acl_request.h"
#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/version_ids.h"

#define ACL_ANSWER_MAX (128u << 10)

_Static_assert(GW_TEXT_ACL == GW_BUCKET_ACL, "the kind is stored");

/* owner: the request (arena) */
struct acl_work {
        unsigned magic; /* gw_check.h */
        struct gw_version version;
        struct s3_acl acl;
};

/* NULL: answered. */
static struct acl_work *acl_begin(struct gw_request *req)
{
        struct acl_work *work = gw_alloc(req, sizeof(*work));

        if (work == NULL) {
                gw_reply_no_memory(req);
                return NULL;
        }
        work->magic = acl_work_magic;
        req->work = work;
        gw_request_owner(req, work->acl.owner);
        s3_acl_private(gw_canonical_id(req->loop, work->acl.owner), &work->acl);
        return work;
}

/* ---- GET ------------------------------------------------------------------------------------- */

struct acl_names {
        struct gw_request *req;
        const struct s3_acl *acl;
        struct s3_str owner_id;
};

/* Names are known of the owner and of the first account. */
static const char *acl_name_of(void *arg, struct s3_str id)
{
        const struct acl_names *names = arg;

        if (s3_str_eq(id, names->owner_id))
                return gw_account_title(names->req->loop, names->acl->owner);
        return s3_str_eq(id, s3_str_of(names->req->loop->gw->owner_id)) ? "root" : NULL;
}

static void reply_acl(struct gw_request *req, const struct s3_acl *acl)
{
        struct acl_names names = {req, acl, gw_canonical_id(req->loop, acl->owner)};
        struct s3_xml xml;

        s3_xml_init(&xml, ACL_ANSWER_MAX);
        s3_xml_declaration(&xml);
        s3_acl_write(&xml, acl, names.owner_id, acl_name_of, &names);
        gw_reply_xml(req, 200, &xml);
}

static void reply_bucket_acl(struct gw_request *req, struct acl_work *work)
{
        const struct s3_acl *kept;
        int rv = -ENOENT;

        if (gw_takes_acls(req->store, req->bucket_id))
                rv = gw_bucket_acl_find(req->store, req->bucket_id, &kept);
        if (rv == 0) {
                memcpy(work->acl.grant, kept->grant, sizeof(kept->grant));
                work->acl.count = kept->count;
        }
        if (rv == 0 || rv == -ENOENT)
                reply_acl(req, &work->acl);
        else
                gw_reply_errno(req, rv == -EBADMSG ? -EIO : rv, GW_ABOUT_BUCKET);
}

/* The ACL of the object that was found, in work. False: answered. */
static bool acl_of_object(struct gw_request *req, struct acl_work *work)
{
        struct eng_str kept = eng_get_object(req->get)->acl;

        if (kept.len == 0 || !gw_takes_acls(req->store, req->bucket_id) ||
            s3_acl_decode(kept.data, kept.len, &work->acl) == 0)
                return true;
        gw_reply_errno(req, -EIO, GW_ABOUT_KEY);
        return false;
}

/* ---- PUT ------------------------------------------------------------------------------------- */

static void acl_argument(struct gw_request *req, enum s3_error error, const struct s3_acl_fault *fault)
{
        if (error == S3_ERR_INVALID_ARGUMENT)
                gw_reply_argument(req, fault->argument, fault->value, fault->message);
        else
                gw_reply_error(req, error, NULL);
}

/* The document's ACL. False: answered. */
static bool acl_of_document(struct gw_request *req, struct s3_acl *acl)
{
        struct s3_acl_fault fault;
        struct s3_str owner_id;
        enum s3_error error = s3_acl_of_config(req->body->doc->config, acl, &owner_id, &fault);

        if (error != S3_OK)
                acl_argument(req, error, &fault);
        else if (!s3_str_eq_nocase(owner_id, gw_canonical_id(req->loop, acl->owner)))
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, NULL); /* an ACL gives nothing away but rights */
        else
                return true;
        return false;
}

/* What headers or the document ask for, of something that acl->owner owns. False: answered. */
static bool acl_asked_for(struct gw_request *req, struct s3_acl *acl)
{
        bool of_bucket = req->op->scope == GW_BUCKET, by_header = gw_acl_headers_given(req);
        const struct s3_doc *doc = req->body != NULL ? req->body->doc : NULL;
        bool empty = doc == NULL || doc->empty;

        if (empty && !by_header)
                gw_reply_error(req, S3_ERR_MISSING_SECURITY_HEADER, NULL);
        else if (!empty && by_header)
                gw_reply_error(req, S3_ERR_UNEXPECTED_CONTENT, NULL);
        else
                return by_header ? gw_acl_of_headers(req, of_bucket, acl) : acl_of_document(req, acl);
        return false;
}

/* May such an ACL be set? False: answered, also where nothing is to be done. */
static bool acl_is_to_be_set(struct gw_request *req, const struct s3_acl *acl)
{
        if (!gw_takes_acls(req->store, req->bucket_id)) {
                if (s3_acl_is_private(acl, gw_canonical_id(req->loop, acl->owner)))
                        gw_reply_empty(req, 200);
                else
                        gw_reply_error(req, S3_ERR_ACL_NOT_SUPPORTED, NULL);
                return false;
        }
        if (!s3_acl_is_public(acl) || !gw_blocks_public_acls(req->store, req->bucket_id))
                return true;
        gw_reply_error(req, S3_ERR_ACCESS_DENIED,
                       "Access Denied: public ACLs are prevented by the BlockPublicAcls setting in S3 Block Public "
                       "Access.");
        return false;
}

static void bucket_acl_set(void *arg, int rv)
{
        struct gw_request *req = arg;

        if (gw_back(req) && gw_text_changed(req, rv == -ENOENT ? 0 : rv))
                gw_reply_empty(req, 200);
}

static void put_bucket_acl(struct gw_request *req, struct acl_work *work)
{
        struct eng_store *store = req->store;
        uint8_t bytes[S3_ACL_BYTES_MAX];

        if (!acl_asked_for(req, &work->acl) || !acl_is_to_be_set(req, &work->acl))
                return;
        if (s3_acl_is_private(&work->acl, gw_canonical_id(req->loop, work->acl.owner)))
                eng_text_delete(store, req->bucket_id, GW_TEXT_ACL, ENG_TEXT_ANY, bucket_acl_set, req);
        else
                eng_text_set(store, req->bucket_id, GW_TEXT_ACL, ENG_TEXT_ANY,
                             (struct eng_str){(const char *)bytes, s3_acl_encode(&work->acl, bytes)}, bucket_acl_set, req);
}

static void object_acl_set(void *arg, int rv, const struct eng_object *object)
{
        struct gw_request *req = arg;
        const struct acl_work *work;

        if (!gw_back(req))
                return;
        work = GW_CAST(acl_work, req->work);
        if (rv == -ESTALE) { /* another object was written, or its tags, by which it was permitted (P17, P21) */
                gw_reply_error(req, S3_ERR_OPERATION_ABORTED, NULL);
        } else if (rv == -ENODATA) {
                gw_version_refuse_marker(req);
        } else if (rv != 0) {
                gw_version_fail(req, &work->version, rv);
        } else {
                gw_version_header(req, &object->version);
                gw_reply_empty(req, 200);
        }
}

static void put_object_acl(struct gw_request *req, struct acl_work *work)
{
        struct eng_extras_change change = {.set_acl = true};
        struct eng_version version = eng_get_object(req->get)->version;
        char bucket_owner[GW_ACCOUNT_ID_LEN + 1];
        uint8_t bytes[S3_ACL_BYTES_MAX];

        gw_change_as_seen(req, &change);
        if (!acl_asked_for(req, &work->acl) || !acl_is_to_be_set(req, &work->acl))
                return;
        gw_request_owner(req, bucket_owner);
        if (strcmp(bucket_owner, work->acl.owner) != 0 ||
            !s3_acl_is_private(&work->acl, gw_canonical_id(req->loop, work->acl.owner)))
                change.extras.acl = (struct eng_str){(const char *)bytes, s3_acl_encode(&work->acl, bytes)};
        eng_extras_set(req->store, req->bucket_id, gw_eng_str(req->key), req->versioned ? &version : NULL,
                       &change, object_acl_set, req);
}

void gw_begin_acl_put(struct gw_request *req)
{
        if (gw_write_headers_check(req))
                gw_begin_document(req, S3_DOC_ACL);
}

/* ---- both ------------------------------------------------------------------------------------ */

static void acl_object_opened(void *arg, int rv, struct eng_get *get)
{
        struct gw_request *req = arg;
        struct acl_work *work;

        if (!gw_back_opened(req, rv, get))
                return;
        work = GW_CAST(acl_work, req->work);
        if (!gw_version_found(req, &work->version, rv, get) || !acl_of_object(req, work))
                return;
        if (strcmp(req->op->method, "PUT") == 0) {
                put_object_acl(req, work);
        } else {
                gw_version_header(req, &eng_get_object(get)->version);
                reply_acl(req, &work->acl);
        }
}

static void acl_object_look(struct gw_request *req, struct acl_work *work)
{
        if (gw_version_of(req, &work->version))
                eng_get_metadata(req->store, req->bucket_id, gw_eng_str(req->key),
                                 gw_version_asked(&work->version), acl_object_opened, req);
}

void gw_run_acl(struct gw_request *req)
{
        struct acl_work *work = acl_begin(req);

        if (work == NULL)
                return;
        if (req->op->scope == GW_OBJECT)
                acl_object_look(req, work);
        else
                reply_bucket_acl(req, work);
}

void gw_run_acl_put(struct gw_request *req)
{
        struct acl_work *work = acl_begin(req);

        if (work == NULL)
                return;
        if (req->op->scope == GW_OBJECT)
                acl_object_look(req, work);
        else
                put_bucket_acl(req, work);
}
