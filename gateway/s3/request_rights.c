/*
 * request_rights.c - see request_rights.h. Nothing here waits.
 */
#include "gateway/s3/request_rights.h"


/* Of a header that is no flag, "false" is a value as any other: the name of a tag, for example. */
static bool right_is_needed(const struct gw_request *req, const struct gw_right *right)
{
        struct s3_str value;

        if (right->header == NULL)
                return true;
        value = s3_str_trim(gw_header(req, right->header));
        return value.len > 0 && !(right->flag && s3_str_eq_nocase(value, S3_STR("false"))) &&
               !(right->any && s3_str_eq(value, S3_STR("*")));
}

/* What asks once for each right that the request needs. */
typedef enum gw_permitted rights_asker(struct gw_ask *ask, char *why);

static enum gw_permitted rights_ask_final(struct gw_ask *ask, char *why)
{
        return gw_permit(ask, why) ? GW_PERMITTED : GW_REFUSED;
}

/* One right. Its refusal's text is kept with the request. */
static enum gw_permitted rights_ask_one(struct gw_request *req, struct gw_ask *ask, rights_asker *asker,
                                        const char *permission, const char *of_version)
{
        enum gw_permitted permitted;
        char why[GW_WHY_MAX];

        ask->permission = ask->version_id.data != NULL && of_version != NULL ? of_version : permission;
        permitted = asker(ask, why);
        if (permitted == GW_REFUSED)
                req->refusal = why[0] != '\0' ? gw_copy(req, s3_str_of(why)) : NULL;
        return permitted;
}

static enum gw_permitted rights_ask(struct gw_request *req, struct gw_ask *ask, rights_asker *asker)
{
        const struct gw_op *op = req->op;
        const struct gw_right *more;
        enum gw_permitted permitted, one;

        ask->loop = req->loop;
        ask->access_key = req->access_key;
        ask->req = req;
        permitted = rights_ask_one(req, ask, asker, op->permission, op->of_version);
        for (more = op->more; permitted != GW_REFUSED && more != NULL && more->permission != NULL; more++) {
                if (!right_is_needed(req, more))
                        continue;
                one = rights_ask_one(req, ask, asker, more->permission, more->of_version);
                if (one != GW_PERMITTED)
                        permitted = one;
        }
        return permitted;
}

bool gw_rights_permit(struct gw_request *req, struct s3_str key, struct s3_str version_id)
{
        struct gw_ask ask = {.bucket = req->bucket, .bucket_id = req->bucket_id, .key = key, .version_id = version_id};

        return rights_ask(req, &ask, rights_ask_final) != GW_REFUSED;
}

bool gw_rights_permit_match(struct gw_request *req, struct s3_str key, struct s3_str version_id)
{
        struct gw_ask ask = {.loop = req->loop,
                             .access_key = req->access_key,
                             .req = req,
                             .bucket = req->bucket,
                             .bucket_id = req->bucket_id,
                             .key = key,
                             .version_id = version_id,
                             .implied = true};

        return rights_ask_one(req, &ask, rights_ask_final, "s3:GetObject", "s3:GetObjectVersion") != GW_REFUSED;
}

bool gw_rights_permit_request(struct gw_request *req, const struct eng_bucket *bucket)
{
        struct gw_ask ask = {.bucket = req->bucket, .key = req->key, .found = bucket, .bucket_sought = true};
        bool keys = req->op->scope == GW_BUCKET && req->op->of_version != NULL;
        enum gw_permitted permitted;

        if (req->op->scope == GW_RESERVED)
                ask.bucket = ask.key = (struct s3_str){NULL, 0};
        else if (req->op->scope == GW_OBJECT)
                ask.version_id = gw_query(req, "versionId");
        ask.later = keys || req->op->scope == GW_RESERVED;
        permitted = rights_ask(req, &ask, req->op->object_decides ? gw_permit_early : rights_ask_final);
        req->object_decides = permitted == GW_PERMITTED_IF;
        if (permitted != GW_REFUSED)
                return true;
        ask.version_id = S3_STR("null"); /* of some version */
        return keys && rights_ask(req, &ask, rights_ask_final) != GW_REFUSED;
}

bool gw_rights_permit_object(struct gw_request *req, const struct eng_object *object)
{
        struct gw_ask ask = {.bucket = req->bucket, .key = req->key, .version_id = gw_query(req, "versionId")};

        if (!req->object_decides)
                return true;
        gw_ask_found(&ask, req->bucket_id, object, ask.version_id.data != NULL);
        return rights_ask(req, &ask, rights_ask_final) != GW_REFUSED;
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
