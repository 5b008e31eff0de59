/*
 * op_bucket.c - buckets: list, create, head, delete, location. On the request's loop.
 *
 * The engine holds every bucket's configuration in each loop's memory, so all but creating and
 * deleting answers at once.
 */
#include <errno.h>

#include "gateway/http/permit.h"
#include "gateway/rights/owners.h"
#include "gateway/s3/acl_request.h"
#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/new_bucket.h"
#include "gateway/s3/new_bucket_tags.h"

#define BUCKETS_MAX 10000u     /* of one page */
#define BATCH       128u       /* asked of the engine at a time */
#define LIST_LIMIT  (8u << 20) /* bytes of the answer */

/* ---- ListBuckets ----------------------------------------------------------------------------- */

struct bucket_list {
        struct s3_str prefix;
        struct s3_str after; /* names greater than this; absent: all */
        struct s3_str last;  /* that was shown */
        uint64_t max;
        char account[GW_ACCOUNT_ID_LEN + 1]; /* whose */
        bool none; /* asked for another region's */
};

static bool bucket_list_read(struct gw_request *req, struct bucket_list *list)
{
        struct s3_str max = gw_query(req, "max-buckets"), token = gw_query(req, "continuation-token"),
                      region = gw_query(req, "bucket-region");
        char *name = gw_alloc(req, ENG_KEY_MAX);

        gw_request_owner(req, list->account);
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
                char owner[GW_ACCOUNT_ID_LEN + 1];

                if (s3_str_eq(name, list->after))
                        continue;
                if (!s3_str_starts(name, list->prefix))
                        return false;
                gw_bucket_account(batch[i], owner);
                if (strcmp(owner, list->account) != 0) {
                        list->after = name;
                        continue;
                }
                if (list->max == 0) {
                        *more = true;
                        return false;
                }
                list->max--;
                bucket_xml(req, xml, batch[i]);
                list->after = list->last = name;
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
                                     gw_bucket_list(req->loop->gw, gw_eng_str(from), BATCH, batch), &more);
        }
        s3_xml_close(xml, "Buckets");
        token = more ? gw_token_make(req, list->last) : NULL;
        if (more && token == NULL)
                xml->error = -ENOMEM;
        if (token != NULL)
                s3_xml_textz(xml, "ContinuationToken", token);
}

void gw_run_list_buckets(struct gw_request *req)
{
        struct bucket_list list = {0};
        struct s3_xml xml;

        req->lists_all = true;
        if (gw_buckets_known(req->loop->gw) != 0) { /* some are no answer */
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

/* The ownership that the headers ask for: that of new buckets, if none. False: there is no such one. */
static bool create_ownership(const struct gw_request *req, const char **out)
{
        static const char *const known[] = {"BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"};
        struct s3_str value = gw_header(req, "x-amz-object-ownership");

        *out = known[0];
        for (size_t i = 0; value.len > 0 && i < sizeof(known) / sizeof(known[0]); i++)
                if (s3_str_eq(value, s3_str_of(known[i]))) {
                        *out = known[i];
                        return true;
                }
        return value.len == 0;
}

static bool create_refuse(struct gw_request *req, enum s3_error error)
{
        gw_reply_error(req, error, NULL);
        return false;
}

/* The new bucket's ACL. Without ACLs it can only be the owner's; all access of the public is blocked at first. */
static bool create_acl_check(struct gw_request *req, const char *ownership, struct s3_acl *acl)
{
        struct s3_str owner;

        if (!gw_account_of(&(struct gw_ask){.loop = req->loop, .access_key = req->access_key, .req = req}, acl->owner))
                return create_refuse(req, S3_ERR_ACCESS_DENIED);
        owner = gw_canonical_id(req->loop, acl->owner);
        if (!gw_acl_of_headers(req, true, acl))
                return false;
        if (strcmp(ownership, "BucketOwnerEnforced") == 0 && !s3_acl_is_private(acl, owner))
                return create_refuse(req, S3_ERR_INVALID_BUCKET_ACL);
        return !s3_acl_is_public(acl) || create_refuse(req, S3_ERR_INVALID_BUCKET_PUBLIC_ACL);
}

static bool create_headers_check(struct gw_request *req)
{
        struct s3_str lock = gw_header(req, "x-amz-bucket-object-lock-enabled");
        const char *ownership;
        struct s3_acl acl;
        bool locked;

        if (!create_ownership(req, &ownership)) {
                struct s3_str value = gw_header(req, "x-amz-object-ownership");

                gw_reply_argument(req, "x-amz-object-ownership", value,
                                  gw_printf(req, "Invalid x-amz-object-ownership header: %.*s", (int)value.len, value.data));
                return false;
        }
        if (s3_lock_flag_parse(lock, &locked) != S3_OK) {
                gw_reply_argument(req, "x-amz-bucket-object-lock-enabled", lock, NULL);
                return false;
        }
        return gw_write_headers_check(req) && create_acl_check(req, ownership, &acl);
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

/* ---- the texts of a new bucket: ownership, ACL and tags, if they are not what every new bucket has ---- */

static void create_fail(struct gw_request *req, int rv)
{
        gw_reply_errno(req, rv, GW_ABOUT_BUCKET_NEW);
}

static void create_undone(void *arg, int rv)
{
        struct gw_request *req = arg;

        if (gw_back(req))
                create_fail(req, GW_CAST(gw_new_bucket, req->work)->undone);
}

/* A bucket without what was asked for is taken away again, as long as it is empty; not one that has its name since. */
static void create_undo(struct gw_request *req, int rv)
{
        GW_CAST(gw_new_bucket, req->work)->undone = rv;
        eng_bucket_delete(req->store, gw_eng_str(req->bucket), req->bucket_id, create_undone, req);
}

static void create_tags_set(void *arg, int rv)
{
        struct gw_request *req = arg;

        if (!gw_back(req))
                return;
        if (rv != 0)
                create_undo(req, rv);
        else
                reply_bucket_created(req);
}

static void create_acl_set(void *arg, int rv)
{
        struct gw_request *req = arg;
        struct eng_str tags;

        if (!gw_back(req))
                return;
        if (rv == 0)
                rv = gw_new_bucket_tags_text(req, &tags);
        if (rv != 0)
                create_undo(req, rv);
        else if (tags.len == 0)
                reply_bucket_created(req);
        else
                eng_text_set(req->store, req->bucket_id, GW_TEXT_TAGGING, ENG_TEXT_ANY, tags, create_tags_set, req);
}

static void create_ownership_set(void *arg, int rv)
{
        struct gw_request *req = arg;
        uint8_t bytes[S3_ACL_BYTES_MAX];
        struct s3_acl acl;
        const char *ownership;

        if (!gw_back(req))
                return;
        if (rv != 0) {
                create_undo(req, rv);
                return;
        }
        create_ownership(req, &ownership);
        if (!create_acl_check(req, ownership, &acl)) /* it was fine before the body */
                return;
        if (s3_acl_is_private(&acl, gw_canonical_id(req->loop, acl.owner)))
                create_acl_set(req, 0);
        else
                eng_text_set(req->store, req->bucket_id, GW_TEXT_ACL, ENG_TEXT_ANY,
                             (struct eng_str){(const char *)bytes, s3_acl_encode(&acl, bytes)}, create_acl_set, req);
}

static void create_texts(struct gw_request *req)
{
        const struct eng_bucket *bucket;
        const char *ownership, *text;
        int rv = eng_bucket_get(req->store, gw_eng_str(req->bucket), &bucket);

        create_ownership(req, &ownership);
        text = gw_printf(req,
                         "<OwnershipControls xmlns=\"" S3_XML_NAMESPACE "\"><Rule><ObjectOwnership>%s</ObjectOwnership>"
                         "</Rule></OwnershipControls>",
                         ownership);
        if (rv != 0 || text == NULL) {
                create_fail(req, rv != 0 ? rv : -ENOMEM);
                return;
        }
        req->bucket_id = bucket->id;
        if (strcmp(ownership, "BucketOwnerEnforced") == 0)
                create_ownership_set(req, 0);
        else
                eng_text_set(req->store, bucket->id, GW_TEXT_OWNERSHIP, ENG_TEXT_ANY,
                             (struct eng_str){text, strlen(text)}, create_ownership_set, req);
}

/* The tags that the request gives, if it gives any. */
static bool bucket_has_tags(struct gw_request *req, const struct eng_bucket *bucket)
{
        struct eng_text *text;
        struct eng_str tags;

        if (gw_new_bucket_tags_text(req, &tags) != 0)
                return false;
        return tags.len == 0 || (eng_text_get(bucket->store, bucket->id, GW_TEXT_TAGGING, &text) == 0 &&
                                 s3_str_eq(gw_s3_str(eng_text_bytes(text)), gw_s3_str(tags)));
}

/* The bucket that is there is as this request would make it. */
static bool is_as_asked_for(struct gw_request *req, const struct eng_bucket *bucket)
{
        struct s3_str owner = gw_header(req, "x-amz-object-ownership");
        bool lock = false, acls = owner.len > 0 && !s3_str_eq(owner, S3_STR("BucketOwnerEnforced"));

        s3_lock_flag_parse(gw_header(req, "x-amz-bucket-object-lock-enabled"), &lock);
        return (!lock || bucket->rules.lock) && acls == gw_takes_acls(bucket->store, bucket->id) && bucket_has_tags(req, bucket);
}

/*
 * There is one of this name. Its owner may create it again in us-east-1, where S3 keeps its oldest habit;
 * elsewhere it is an error. One that is not there any more, or not known here yet, is nobody's: it is asked for again.
 */
static void create_there_is(struct gw_request *req)
{
        char account[GW_ACCOUNT_ID_LEN + 1] = "", owner[GW_ACCOUNT_ID_LEN + 1];
        const struct eng_bucket *bucket = NULL;

        if (eng_bucket_get(req->store, gw_eng_str(req->bucket), &bucket) != 0) {
                gw_new_bucket_again(req);
                return;
        }
        gw_account_of(&(struct gw_ask){.loop = req->loop, .access_key = req->access_key, .req = req}, account);
        gw_bucket_account(bucket, owner);
        if (strcmp(account, owner) != 0)
                gw_reply_error(req, S3_ERR_BUCKET_ALREADY_EXISTS, NULL);
        else if (strcmp(req->loop->gw->region, "us-east-1") == 0 && is_as_asked_for(req, bucket))
                reply_bucket_created(req);
        else
                gw_reply_error(req, S3_ERR_BUCKET_ALREADY_OWNED, NULL);
}

static void bucket_created(void *arg, int rv)
{
        struct gw_request *req = arg;

        if (!gw_back(req))
                return;
        if (rv == 0)
                create_texts(req);
        else if (rv == -EEXIST)
                create_there_is(req);
        else if (rv == -EREMOTE)
                gw_new_bucket_again(req);
        else
                create_fail(req, rv);
}

/* It is known in which pool. */
static void bucket_make(struct gw_request *req, int rv)
{
        struct eng_bucket_rules rules = {.versioning = ENG_VERSIONING_NEVER};
        char account[GW_ACCOUNT_ID_LEN + 1];
        uint8_t attrs[GW_BUCKET_ATTRS_BYTES];

        if (rv == -EEXIST) {
                create_there_is(req);
                return;
        }
        if (rv != 0) {
                create_fail(req, rv);
                return;
        }
        s3_lock_flag_parse(gw_header(req, "x-amz-bucket-object-lock-enabled"), &rules.lock); /* checked before the body */
        if (rules.lock)
                rules.versioning = ENG_VERSIONING_ENABLED;
        if (!gw_account_of(&(struct gw_ask){.loop = req->loop, .access_key = req->access_key, .req = req}, account)) {
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, NULL);
                return;
        }
        eng_bucket_create(req->store, gw_eng_str(req->bucket), &rules, attrs, gw_bucket_attrs(account, attrs), bucket_created,
                          req);
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
        if (location_fits(req, req->body->doc->location) && gw_new_bucket_tags_permit(req))
                gw_new_bucket_begin(req, bucket_make);
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
        eng_bucket_delete(req->store, gw_eng_str(req->bucket), req->bucket_id, bucket_deleted, req);
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
