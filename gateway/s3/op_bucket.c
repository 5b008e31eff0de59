/*
 * op_bucket.c - buckets: list, create, head, delete, location. On the request's loop.
 *
 * The engine holds every bucket's configuration in each loop's memory, so all but creating and
 * deleting answers at once.
 */
#include <errno.h>

#include "gateway/s3/handlers.h"

#define BUCKETS_MAX 10000u     /* of one page */
#define BATCH       128u       /* asked of the engine at a time */
#define LIST_LIMIT  (8u << 20) /* bytes of the answer */

/* ---- ListBuckets ----------------------------------------------------------------------------- */

struct bucket_list {
        struct s3_str prefix;
        struct s3_str after; /* names greater than this; absent: all */
        uint64_t max;
        bool none; /* asked for another region's */
};

static bool bucket_list_read(struct gw_request *req, struct bucket_list *list)
{
        struct s3_str max = gw_query(req, "max-buckets"), token = gw_query(req, "continuation-token"),
                      region = gw_query(req, "bucket-region");
        char *name = gw_alloc(req, ENG_KEY_MAX);

        list->prefix = gw_query(req, "prefix");
        list->max = BUCKETS_MAX;
        list->none = region.len > 0 && !s3_str_eq(region, s3_str_of(req->loop->gw->region));
        if (name == NULL) {
                gw_reply_no_memory(req);
                return false;
        }
        if (max.data != NULL && (s3_parse_uint(max, BUCKETS_MAX, &list->max) != 0 || list->max == 0)) {
                gw_reply_argument(req, "max-buckets", max,
                                  "Argument max-buckets must be an integer between 1 and 10000");
                return false;
        }
        if (list->none && !s3_region_known(region)) {
                gw_reply_argument(req, "bucket-region", region,
                                  gw_printf(req, "Argument value %.*s is not a valid AWS Region", (int)region.len, region.data));
                return false;
        }
        if (token.len == 0) /* of no length: the beginning */
                return true;
        list->after.data = name;
        return gw_token_read(token, name, &list->after.len) == 0 || gw_token_refuse(req);
}

static void bucket_xml(struct gw_request *req, struct s3_xml *xml, const struct eng_bucket *bucket)
{
        s3_xml_open(xml, "Bucket");
        s3_xml_textz(xml, "Name", bucket->name);
        s3_xml_date(xml, "CreationDate", bucket->created_ms);
        s3_xml_textz(xml, "BucketRegion", req->loop->gw->region);
        s3_xml_close(xml, "Bucket");
}

/* Copies from batch what belongs to the page; false when the page is over. *more: others follow. */
static bool bucket_batch(struct gw_request *req, struct s3_xml *xml, struct bucket_list *list,
                         const struct eng_bucket *const *batch, unsigned count, bool *more)
{
        for (unsigned i = 0; i < count; i++) {
                struct s3_str name = s3_str_of(batch[i]->name);

                if (s3_str_eq(name, list->after))
                        continue;
                if (!s3_str_starts(name, list->prefix))
                        return false;
                if (list->max == 0) {
                        *more = true;
                        return false;
                }
                list->max--;
                bucket_xml(req, xml, batch[i]);
                list->after = name;
        }
        return count == BATCH;
}

static struct s3_str later_text(struct s3_str a, struct s3_str b)
{
        size_t common = a.len < b.len ? a.len : b.len;
        int order = common > 0 ? memcmp(a.data, b.data, common) : 0;

        return order > 0 || (order == 0 && a.len >= b.len) ? a : b;
}

static void buckets_xml(struct gw_request *req, struct s3_xml *xml, struct bucket_list *list)
{
        const struct eng_bucket *batch[BATCH];
        bool more = false, going = !list->none;
        char *token;

        s3_xml_open(xml, "Buckets");
        while (going) {
                struct s3_str from = later_text(list->after, list->prefix);

                going = bucket_batch(req, xml, list, batch,
                                     eng_bucket_list(req->loop->gw->store, gw_eng_str(from), BATCH, batch), &more);
        }
        s3_xml_close(xml, "Buckets");
        token = more ? gw_token_make(req, list->after) : NULL;
        if (more && token == NULL)
                xml->error = -ENOMEM;
        if (token != NULL)
                s3_xml_textz(xml, "ContinuationToken", token);
}

void gw_run_list_buckets(struct gw_request *req)
{
        struct bucket_list list = {0};
        const struct eng_bucket *any;
        struct s3_xml xml;

        /* An engine that is not ready gives no buckets, which is no answer. */
        if (eng_bucket_get(req->loop->gw->store, (struct eng_str){"-", 1}, &any) == -EHOSTDOWN) {
                gw_reply_errno(req, -EHOSTDOWN, GW_ABOUT_BUCKET);
                return;
        }
        if (!bucket_list_read(req, &list))
                return;
        s3_xml_init(&xml, LIST_LIMIT);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, "ListAllMyBucketsResult");
        gw_owner_xml(req, &xml, "Owner");
        buckets_xml(req, &xml, &list);
        if (list.prefix.data != NULL)
                s3_xml_text(&xml, "Prefix", list.prefix);
        s3_xml_close(&xml, "ListAllMyBucketsResult");
        gw_reply_xml(req, 200, &xml);
}

/* ---- CreateBucket ---------------------------------------------------------------------------- */

static bool create_headers_check(struct gw_request *req)
{
        bool locked;
        struct s3_str lock = gw_header(req, "x-amz-bucket-object-lock-enabled"),
                      ownership = gw_header(req, "x-amz-object-ownership"), acl = gw_header(req, "x-amz-acl");

        if (ownership.len > 0 && !s3_str_eq(ownership, S3_STR("BucketOwnerEnforced")) &&
            !s3_str_eq(ownership, S3_STR("BucketOwnerPreferred")) && !s3_str_eq(ownership, S3_STR("ObjectWriter"))) {
                gw_reply_argument(req, "x-amz-object-ownership", ownership,
                                  gw_printf(req, "Invalid x-amz-object-ownership header: %.*s", (int)ownership.len,
                                            ownership.data));
                return false;
        }
        if (ownership.len > 0 && acl.len > 0 && !s3_str_eq(acl, S3_STR("private")) &&
            s3_str_eq(ownership, S3_STR("BucketOwnerEnforced"))) {
                gw_reply_error(req, S3_ERR_INVALID_BUCKET_ACL, NULL);
                return false;
        }
        if (s3_lock_flag_parse(lock, &locked) != S3_OK) {
                gw_reply_argument(req, "x-amz-bucket-object-lock-enabled", lock, NULL);
                return false;
        }
        if (ownership.len > 0 && !s3_str_eq(ownership, S3_STR("BucketOwnerEnforced"))) {
                gw_refuse_header(req, "x-amz-object-ownership");
                return false;
        }
        return gw_write_headers_check(req);
}

void gw_begin_bucket_create(struct gw_request *req)
{
        if (!s3_bucket_name_creatable(req->bucket)) {
                gw_reply_error(req, S3_ERR_INVALID_BUCKET_NAME, NULL);
                return;
        }
        if (!create_headers_check(req))
                return;
        gw_begin_document(req, S3_DOC_CREATE_BUCKET);
}

static void arn_header(struct gw_request *req)
{
        gw_reply_header(req, "x-amz-bucket-arn",
                        gw_printf(req, "arn:aws:s3:::%.*s", (int)req->bucket.len, req->bucket.data));
}

static void reply_bucket_created(struct gw_request *req)
{
        arn_header(req);
        gw_reply_header(req, "Location", gw_printf(req, "/%s", gw_copy(req, req->bucket)));
        gw_reply_empty(req, 200);
}

/* A bucket that is there has the lock, if this request would make it with one. */
static bool has_lock_asked_for(struct gw_request *req)
{
        const struct eng_bucket *bucket;
        bool lock = false;

        s3_lock_flag_parse(gw_header(req, "x-amz-bucket-object-lock-enabled"), &lock);
        return !lock || (eng_bucket_get(req->loop->gw->store, gw_eng_str(req->bucket), &bucket) == 0 && bucket->rules.lock);
}

static void bucket_created(void *arg, int rv)
{
        struct gw_request *req = arg;

        if (!gw_back(req))
                return;
        /*
         * The owner may create it again in us-east-1, where S3 keeps its oldest habit; elsewhere it
         * is an error.
         */
        if (rv == 0 || (rv == -EEXIST && strcmp(req->loop->gw->region, "us-east-1") == 0 && has_lock_asked_for(req)))
                reply_bucket_created(req);
        else
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET_NEW);
}

/*
 * A bucket that is made in us-east-1 without a location stays there; to name that region, which AWS
 * refuses, is taken for what it means. Every other region must be named, and only itself: "EU" is
 * what eu-west-1 was first called. Another region of AWS cannot be served here; what is no region,
 * an element without text included, is invalid. False: answered.
 */
static bool location_fits(struct gw_request *req, struct s3_str location)
{
        const char *region = req->loop->gw->region;
        bool at_home = strcmp(region, "us-east-1") == 0;
        struct s3_str name = location.len > 0 ? location : S3_STR("unspecified");

        if (s3_str_eq(location, s3_str_of(region)) || (at_home && location.data == NULL) ||
            (strcmp(region, "eu-west-1") == 0 && s3_str_eq(location, S3_STR("EU"))))
                return true;
        if (location.data != NULL && !s3_region_known(location)) {
                gw_reply_error_extra(req, S3_ERR_INVALID_LOCATION, NULL,
                                     gw_detail(req, "LocationConstraint", location, NULL, (struct s3_str){NULL, 0}));
                return false;
        }
        gw_reply_error(req, S3_ERR_ILLEGAL_LOCATION,
                       gw_printf(req,
                                 "The %.*s location constraint is incompatible for the region specific endpoint this "
                                 "request was sent to.",
                                 (int)name.len, name.data));
        return false;
}

void gw_run_bucket_create(struct gw_request *req)
{
        struct eng_bucket_rules rules = {.versioning = ENG_VERSIONING_NEVER};

        if (!location_fits(req, req->body->doc->location))
                return;
        s3_lock_flag_parse(gw_header(req, "x-amz-bucket-object-lock-enabled"), &rules.lock); /* checked before the body */
        if (rules.lock)
                rules.versioning = ENG_VERSIONING_ENABLED;
        eng_bucket_create(req->loop->gw->store, gw_eng_str(req->bucket), &rules, NULL, 0, bucket_created, req);
}

/* ---- HeadBucket, DeleteBucket, GetBucketLocation --------------------------------------------- */

void gw_run_bucket_head(struct gw_request *req)
{
        gw_reply_header(req, "x-amz-bucket-region", req->loop->gw->region);
        gw_reply_header(req, "x-amz-access-point-alias", "false");
        arn_header(req);
        gw_reply_header(req, "Content-Type", "application/xml");
        gw_reply_empty(req, 200);
}

static void bucket_deleted(void *arg, int rv)
{
        gw_reply_deleted(arg, rv, GW_ABOUT_BUCKET);
}

void gw_run_bucket_delete(struct gw_request *req)
{
        eng_bucket_delete(req->loop->gw->store, gw_eng_str(req->bucket), bucket_deleted, req);
}

void gw_run_bucket_location(struct gw_request *req)
{
        const char *region = req->loop->gw->region;
        struct s3_xml xml;

        s3_xml_init(&xml, 4096);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, "LocationConstraint");
        if (strcmp(region, "us-east-1") != 0) /* which has no name here */
                s3_xml_escaped(&xml, s3_str_of(region));
        s3_xml_close(&xml, "LocationConstraint");
        gw_reply_xml(req, 200, &xml);
}
