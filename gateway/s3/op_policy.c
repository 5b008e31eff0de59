/*
 * op_policy.c - the policy of a bucket: set, answered, taken away, and whether it is public. On the request's
 * loop.
 *
 * It is kept as it was sent, with the ids of the users and roles that it names behind it (rules B1 to B4 of
 * docs/design/rights.md). It is compiled when it is checked, and that form is handed to the text once it is set, so
 * that no request waits for a compilation.
 */
#include <errno.h>
#include <stdlib.h>

#include "gateway/http/permit.h"
#include "gateway/people/people.h"
#include "gateway/rights/bucket_policy.h"
#include "gateway/rights/rights.h"
#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/public_access.h"

#define STATUS_MAX    1024u
#define CONFIRMATION  "x-amz-confirm-remove-self-bucket-access"

_Static_assert(GW_TEXT_POLICY == GW_BUCKET_POLICY, "the kind is stored");

/* owner: the request (arena) */
struct policy_work {
        unsigned magic; /* gw_check.h */
        struct acc_policy *policy; /* without bindings once it is compiled, then with them */
        char *text;                /* as it is kept */
        size_t len;
};

/* ---- public access --------------------------------------------------------------------------- */

/* Where nothing was ever set, everything is blocked; where that was taken away, nothing is. */
bool gw_public_access_is(struct eng_store *store, uint64_t bucket, const char *what)
{
        const struct s3_config *config;
        int rv = gw_config_find(store, bucket, GW_TEXT_PUBLIC_ACCESS, &config);

        if (rv == -ENODATA)
                return false;
        return rv != 0 || s3_str_eq_nocase(s3_config_text_of(config, 0, what), S3_STR("true"));
}

bool gw_public_restricted(struct eng_store *store, uint64_t bucket)
{
        return gw_public_access_is(store, bucket, "RestrictPublicBuckets");
}

/* ---- GET ------------------------------------------------------------------------------------- */

static void policy_refuse(struct gw_request *req, int rv)
{
        if (rv == -ENOENT) {
                req->refused_query = s3_str_of(req->op->sub);
                gw_reply_error(req, S3_ERR_NO_SUCH_BUCKET_POLICY, NULL);
        } else {
                gw_reply_errno(req, rv == -EBADMSG ? -EIO : rv, GW_ABOUT_BUCKET);
        }
}

void gw_run_policy(struct gw_request *req)
{
        struct eng_text *text;
        struct eng_str bytes;
        int rv = eng_text_get(req->store, req->bucket_id, GW_TEXT_POLICY, &text);
        char *copy;

        if (rv != 0) {
                policy_refuse(req, rv);
                return;
        }
        bytes = eng_text_bytes(text);
        copy = gw_people_bound_text(req->loop, (struct s3_str){bytes.data, bytes.len});
        if (copy == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        gw_reply_header(req, "Content-Type", "application/json");
        gw_reply_buffer(req, 200, copy, strlen(copy));
}

void gw_run_policy_status(struct gw_request *req)
{
        const struct acc_policy *policy;
        struct s3_xml xml;
        int rv = gw_bucket_policy_find(req->store, req->bucket_id, req->bucket, &policy);

        if (rv != 0) {
                policy_refuse(req, rv);
                return;
        }
        s3_xml_init(&xml, STATUS_MAX);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, "PolicyStatus");
        s3_xml_textz(&xml, "IsPublic", acc_policy_is_public(policy) ? "true" : "false");
        s3_xml_close(&xml, "PolicyStatus");
        gw_reply_xml(req, 200, &xml);
}

/* ---- DELETE ---------------------------------------------------------------------------------- */

static void policy_deleted(void *arg, int rv)
{
        gw_reply_deleted(arg, rv == -ENOENT ? 0 : rv, GW_ABOUT_BUCKET);
}

void gw_run_policy_delete(struct gw_request *req)
{
        eng_text_delete(req->store, req->bucket_id, GW_TEXT_POLICY, ENG_TEXT_ANY, policy_deleted, req);
}

/* ---- PUT ------------------------------------------------------------------------------------- */

static void policy_release(struct gw_request *req)
{
        struct policy_work *work = GW_CAST(policy_work, req->work);

        acc_policy_free(work->policy);
        work->policy = NULL;
        free(work->text);
        work->text = NULL;
}

void gw_begin_policy_put(struct gw_request *req)
{
        if (gw_write_headers_check(req))
                gw_begin_done(req);
}

/* A user, role or account that is named exists. Sessions come and go, and of other accounts no id is known. */
static bool principal_exists(void *context, enum acc_name_kind kind, struct s3_str name)
{
        struct gw_request *req = context;
        const struct gw_entity *found;
        char text[2048];

        if ((kind != ACC_NAME_ACCOUNT && kind != ACC_NAME_ARN) || s3_str_starts(name, S3_STR("arn:aws:sts:")))
                return true;
        if (name.len >= sizeof(text))
                return false;
        memcpy(text, name.data, name.len);
        text[name.len] = '\0';
        if (kind == ACC_NAME_ACCOUNT)
                return gw_people_has_account(req->loop, text);
        return gw_people_find_arn(req->loop, text, &found, NULL) == 0 && found->who.kind != GW_PROVIDER;
}

/* Whoever sets it can set another one, or says that this is not wanted. */
static bool keeps_its_setter(struct gw_request *req, const struct acc_policy *policy)
{
        struct gw_ask ask = {.loop = req->loop,
                             .access_key = req->access_key,
                             .req = req,
                             .permission = "s3:PutBucketPolicy",
                             .bucket = req->bucket};

        return s3_str_eq_nocase(gw_header(req, CONFIRMATION), S3_STR("true")) || gw_rights_decide_under(&ask, policy);
}

/* False: answered. */
static bool policy_check(struct gw_request *req, const struct acc_policy *policy)
{
        if (!acc_policy_principals(policy, principal_exists, req))
                gw_reply_error(req, S3_ERR_MALFORMED_POLICY, "Invalid principal in policy");
        else if (acc_policy_is_public(policy) && gw_public_access_is(req->store, req->bucket_id, "BlockPublicPolicy"))
                gw_reply_error(req, S3_ERR_ACCESS_DENIED,
                               "Access Denied: public policies are prevented by the BlockPublicPolicy setting in S3 "
                               "Block Public Access.");
        else if (!keeps_its_setter(req, policy))
                gw_reply_error(req, S3_ERR_ACCESS_DENIED,
                               "The policy would keep you from setting another one. Confirm that with the header "
                               CONFIRMATION ".");
        else
                return true;
        return false;
}

static void policy_is_set(void *arg, int rv)
{
        struct gw_request *req = arg;
        struct policy_work *work;

        if (!gw_back(req) || !gw_text_changed(req, rv))
                return;
        work = GW_CAST(policy_work, req->work);
        gw_bucket_policy_keep(req->store, req->bucket_id, req->bucket, (struct s3_str){work->text, work->len},
                              work->policy);
        work->policy = NULL;
        gw_reply_empty(req, 204);
}

/* Compiles it as it will be kept: for the users and roles that there are now, and nobody else. False: answered. */
static bool policy_bind(struct gw_request *req, struct policy_work *work, struct s3_str text)
{
        int rv = gw_people_bind(req->loop, work->policy, text, &work->text, &work->len);
        struct acc_error error;

        acc_policy_free(work->policy);
        work->policy = NULL;
        if (rv == 0)
                rv = acc_policy_compile((struct s3_str){work->text, work->len}, ACC_BUCKET, req->bucket, &work->policy,
                                        &error);
        if (rv == 0)
                return true;
        if (rv == -ENOENT)
                gw_reply_error(req, S3_ERR_MALFORMED_POLICY, "Invalid principal in policy");
        else
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
        return false;
}

void gw_run_policy_put(struct gw_request *req)
{
        struct policy_work *work = gw_alloc(req, sizeof(*work));
        const struct gw_body *body = req->body;
        struct s3_str text = S3_STR(""), bindings;
        struct acc_error error;
        int rv;

        if (work == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        if (body != NULL && body->kept != NULL)
                text = (struct s3_str){body->kept, (size_t)body->received};
        acc_bound_cut(text, &bindings);
        rv = acc_policy_compile(text, ACC_BUCKET, req->bucket, &work->policy, &error);
        if (rv == -ENOMEM) {
                gw_reply_no_memory(req);
                return;
        }
        if (rv != 0 || bindings.data != NULL) { /* nobody but the server binds */
                acc_policy_free(work->policy);
                work->policy = NULL;
                gw_reply_error(req, S3_ERR_MALFORMED_POLICY, rv != 0 ? error.message : "Invalid policy syntax.");
                return;
        }
        work->magic = policy_work_magic;
        req->work = work;
        req->release = policy_release;
        if (!acc_policy_conditions_apply(work->policy)) {
                gw_reply_error(req, S3_ERR_MALFORMED_POLICY,
                               "Conditions do not apply to combination of actions and resources in statement");
                return;
        }
        if (policy_check(req, work->policy) && policy_bind(req, work, text))
                eng_text_set(req->store, req->bucket_id, GW_TEXT_POLICY, ENG_TEXT_ANY,
                             (struct eng_str){work->text, work->len}, policy_is_set, req);
}
