/*
 * op_versioning.c - the rules of a bucket: versioning, and object lock with its default retention.
 * On the request's loop.
 *
 * Rules are changed by generation: who reads them, changes them and finds others in force reads
 * them again, at most TRIES times, so that two requests at once do not undo each other's part.
 */
#include <errno.h>

#include "gateway/s3/handlers.h"

#define DOC_MAX 4096u
#define TRIES   4u

/* owner: the request (arena) */
struct rules_work {
        unsigned magic; /* gw_check.h */
        unsigned tries;
};

/* ---- reading --------------------------------------------------------------------------------- */

/* NULL: answered. */
static const struct eng_bucket *rules_bucket(struct gw_request *req)
{
        const struct eng_bucket *bucket;
        int rv = eng_bucket_get(req->store, gw_eng_str(req->bucket), &bucket);

        if (rv == 0 && bucket->id != req->bucket_id)
                rv = -EIDRM;
        if (rv == 0)
                return bucket;
        gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
        return NULL;
}

void gw_run_versioning(struct gw_request *req)
{
        static const enum s3_versioning words[] = {[ENG_VERSIONING_NEVER] = S3_VERSIONING_NEVER,
                                                   [ENG_VERSIONING_ENABLED] = S3_VERSIONING_ENABLED,
                                                   [ENG_VERSIONING_SUSPENDED] = S3_VERSIONING_SUSPENDED};
        const struct eng_bucket *bucket = rules_bucket(req);
        struct s3_xml xml;

        if (bucket == NULL)
                return;
        s3_xml_init(&xml, DOC_MAX);
        s3_xml_declaration(&xml);
        s3_versioning_write(&xml, words[bucket->rules.versioning]);
        gw_reply_xml(req, 200, &xml);
}

void gw_run_lock_config(struct gw_request *req)
{
        const struct eng_bucket *bucket = rules_bucket(req);
        struct s3_lock_config config = {.mode = S3_LOCK_NONE};
        struct s3_xml xml;

        if (bucket == NULL)
                return;
        if (!bucket->rules.lock) {
                gw_reply_error(req, S3_ERR_NO_SUCH_OBJECT_LOCK_CONFIG, NULL);
                return;
        }
        config.mode = (enum s3_lock_mode)bucket->rules.default_mode;
        if (bucket->rules.default_years)
                config.years = bucket->rules.default_period;
        else
                config.days = bucket->rules.default_period;
        s3_xml_init(&xml, DOC_MAX);
        s3_xml_declaration(&xml);
        s3_lock_config_write(&xml, &config);
        gw_reply_xml(req, 200, &xml);
}

/* ---- changing -------------------------------------------------------------------------------- */

static void rules_change(struct gw_request *req);

static void rules_are_set(void *arg, int rv)
{
        struct gw_request *req = arg;
        struct rules_work *work;

        if (!gw_back(req))
                return;
        work = GW_CAST(rules_work, req->work);
        if (rv == -ESTALE && ++work->tries < TRIES)
                rules_change(req);
        else if (rv == -ESTALE)
                gw_reply_error(req, S3_ERR_OPERATION_ABORTED, NULL);
        else if (rv == -EPERM)
                gw_reply_error(req, S3_ERR_INVALID_BUCKET_STATE,
                               "An Object Lock configuration is present on this bucket, so the versioning state cannot be "
                               "changed.");
        else if (rv != 0)
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
        else
                gw_reply_empty(req, 200);
}

/* The rules as the document wants them. */
static void rules_from_doc(const struct s3_doc *doc, struct eng_bucket_rules *rules)
{
        if (doc->kind == S3_DOC_VERSIONING) {
                rules->versioning =
                        doc->versioning == S3_VERSIONING_ENABLED ? ENG_VERSIONING_ENABLED : ENG_VERSIONING_SUSPENDED;
                return;
        }
        rules->lock = true;
        rules->default_mode = (enum eng_retention_mode)doc->lock_config.mode;
        rules->default_years = doc->lock_config.years != 0;
        rules->default_period = rules->default_years ? doc->lock_config.years : doc->lock_config.days;
}

static void rules_change(struct gw_request *req)
{
        const struct eng_bucket *bucket = rules_bucket(req);
        struct eng_bucket_rules rules;

        if (bucket == NULL)
                return;
        rules = bucket->rules;
        if (req->body->doc->kind == S3_DOC_LOCK_CONFIG && rules.versioning != ENG_VERSIONING_ENABLED) {
                gw_reply_error(req, S3_ERR_INVALID_BUCKET_STATE,
                               "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration");
                return;
        }
        rules_from_doc(req->body->doc, &rules);
        eng_bucket_rules_set(req->store, req->bucket_id, &rules, rules_are_set, req);
}

static void rules_doc_begin(struct gw_request *req, enum s3_doc_kind kind)
{
        if (gw_write_headers_check(req))
                gw_begin_document(req, kind);
}

static void rules_run(struct gw_request *req)
{
        struct rules_work *work = gw_alloc(req, sizeof(*work));

        if (work == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        work->magic = rules_work_magic;
        req->work = work;
        rules_change(req);
}

void gw_begin_versioning_put(struct gw_request *req)
{
        if (gw_header(req, "x-amz-mfa").data != NULL)
                gw_refuse_header(req, "x-amz-mfa");
        else
                rules_doc_begin(req, S3_DOC_VERSIONING);
}

void gw_run_versioning_put(struct gw_request *req)
{
        rules_run(req);
}

void gw_begin_lock_config_put(struct gw_request *req)
{
        if (gw_document_summed(req))
                rules_doc_begin(req, S3_DOC_LOCK_CONFIG);
}

void gw_run_lock_config_put(struct gw_request *req)
{
        rules_run(req);
}
