/*
 * request_rights.c - see request_rights.h. Nothing here waits.
 */
#include "gateway/s3/request_rights.h"

#include "gateway/http/permit.h"
#include "gateway/s3/acl_request.h"

/* Of a header that is no flag, "false" is a value as any other: the name of a tag, for example. */
static bool right_is_needed(const struct gw_request *req, const struct gw_right *right)
{
        struct s3_str value;

        if (right->header == NULL)
                return true;
        value = s3_str_trim(gw_header(req, right->header));
        return value.len > 0 && !(right->flag && s3_str_eq_nocase(value, S3_STR("false")));
}

/* One right. Its refusal's text is kept with the request. */
static bool rights_ask_one(struct gw_request *req, struct gw_ask *ask, const char *permission, const char *of_version)
{
        char why[GW_WHY_MAX];

        ask->permission = ask->version_id.data != NULL && of_version != NULL ? of_version : permission;
        if (gw_permit(ask, why))
                return true;
        req->refusal = why[0] != '\0' ? gw_copy(req, s3_str_of(why)) : NULL;
        return false;
}

static bool rights_ask(struct gw_request *req, struct gw_ask *ask)
{
        const struct gw_op *op = req->op;
        const struct gw_right *more;

        ask->loop = req->loop;
        ask->access_key = req->access_key;
        ask->req = req;
        if (!rights_ask_one(req, ask, op->permission, op->of_version))
                return false;
        for (more = op->more; more != NULL && more->permission != NULL; more++)
                if (right_is_needed(req, more) && !rights_ask_one(req, ask, more->permission, more->of_version))
                        return false;
        return true;
}

bool gw_rights_permit(struct gw_request *req, struct s3_str key, struct s3_str version_id)
{
        struct gw_ask ask = {.bucket = req->bucket, .key = key, .version_id = version_id};

        return rights_ask(req, &ask);
}

/* Whether the object's owner and ACL have a say, which are not known before it is found. */
static bool object_has_a_say(const struct gw_request *req)
{
        const struct eng_bucket *bucket;

        return req->op->asks_object &&
               eng_bucket_get(req->loop->gw->store, gw_eng_str(req->bucket), &bucket) == 0 &&
               gw_takes_acls(req->loop, bucket->id);
}

bool gw_rights_permit_request(struct gw_request *req)
{
        struct gw_ask ask = {.bucket = req->bucket, .key = req->key};
        bool keys = req->op->scope == GW_BUCKET && req->op->of_version != NULL;

        if (req->op->scope == GW_RESERVED)
                ask.bucket = ask.key = (struct s3_str){NULL, 0};
        else if (req->op->scope == GW_OBJECT)
                ask.version_id = gw_query(req, "versionId");
        req->object_asks = ask.object_later = object_has_a_say(req);
        ask.later = keys || req->op->scope == GW_RESERVED;
        if (rights_ask(req, &ask))
                return true;
        if (req->op->tags_decide) {
                ask.tags_open = true;
                req->tags_pending = rights_ask(req, &ask);
                return req->tags_pending;
        }
        ask.version_id = S3_STR("null"); /* of some version */
        return keys && rights_ask(req, &ask);
}

bool gw_rights_permit_object(struct gw_request *req, const struct eng_object *object)
{
        struct s3_tags tags = {.count = 0};
        struct gw_ask ask = {.bucket = req->bucket,
                             .key = req->key,
                             .version_id = gw_query(req, "versionId"),
                             .existing = &tags,
                             .object_known = object != NULL};

        if (!req->tags_pending && (!req->object_asks || object == NULL))
                return true;
        if (object != NULL && object->tags.len > 0 && s3_tags_decode(object->tags.data, object->tags.len, &tags) != 0)
                return false;
        if (object != NULL)
                ask.object_acl = gw_s3_str(object->acl);
        return rights_ask(req, &ask);
}

enum s3_error gw_rights_missing(struct gw_request *req, struct s3_str bucket, enum s3_error error)
{
        struct gw_ask ask = {.loop = req->loop,
                             .access_key = req->access_key,
                             .req = req,
                             .permission = "s3:ListBucket",
                             .bucket = bucket,
                             .implied = true};

        return gw_permit(&ask, NULL) ? error : S3_ERR_ACCESS_DENIED;
}
