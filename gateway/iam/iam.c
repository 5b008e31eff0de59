/*
 * iam.c - takes requests of IAM and STS: checks the signature once the body is in, then finds the action
 * and asks whether it is permitted. On the request's loop.
 */
#include "gateway/iam/iam.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gateway/http/permit.h"
#include "gateway/http/users.h"
#include "gateway/iam/call.h"
#include "gateway/sts/signer.h"

#define IAM_VERSION "2010-05-08"
#define STS_VERSION "2011-06-15"
#define IAM_REGION  "us-east-1" /* what tools sign for with IAM, wherever they are */

#define IAM_NO_TOKEN       "Request is missing Authentication Token"
#define IAM_WRONG_REGION   "Credential should be scoped to a valid region. "
#define IAM_WRONG_SERVICE  "Credential should be scoped to correct service: 'iam' or 'sts'."
#define IAM_WRONG_TERMINAL "Credential should be scoped with a valid terminator: 'aws4_request'."
#define IAM_WRONG_DATE     "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP."

static void iam_run_form(struct gw_request *req);

const struct gw_op gw_iam_op = {
        .name = "IAM",
        .method = "POST",
        .scope = GW_SERVICE,
        .body = GW_BODY_KEPT,
        .no_bucket = true,
        .permission = "iam:*",
        .run = iam_run_form,
};

const struct gw_op gw_sts_op = {
        .name = "STS",
        .method = "POST",
        .scope = GW_SERVICE,
        .body = GW_BODY_KEPT,
        .no_bucket = true,
        .permission = "sts:*",
        .run = iam_run_form,
};

static struct s3_request iam_signed(const struct gw_request *req)
{
        return (struct s3_request){
                .method = req->method,
                .path = req->cut.path,
                .query = req->cut.query,
                .headers = req->headers,
                .header_count = req->header_count,
        };
}

static bool is_get(const struct gw_request *req)
{
        return s3_str_eq(req->method, S3_STR("GET"));
}

static bool is_posted_form(const struct gw_request *req)
{
        struct s3_str type = gw_header(req, "Content-Type");
        const char *parameters = type.len > 0 ? memchr(type.data, ';', type.len) : NULL;

        if (parameters != NULL)
                type = s3_str_trim((struct s3_str){type.data, (size_t)(parameters - type.data)});
        return s3_str_eq(req->method, S3_STR("POST")) &&
               s3_str_eq_nocase(type, S3_STR("application/x-www-form-urlencoded"));
}

/* What is signed for S3 lists buckets, whatever its parameters are called. */
static bool is_query(const struct gw_request *req)
{
        struct s3_request request = iam_signed(req);
        struct s3_auth *auth = &req->loop->auth;

        if (!is_get(req) || !gw_query_has(req, "Action") || !gw_query_has(req, "Version"))
                return false;
        return s3_auth_parse(&request, auth) != S3_AUTH_OK || auth->kind == S3_AUTH_ANONYMOUS;
}

bool gw_iam_is(const struct gw_request *req)
{
        return s3_str_eq(req->cut.path, S3_STR("/")) && req->bucket.len == 0 && (is_posted_form(req) || is_query(req));
}

/* ---- the signature --------------------------------------------------------------------------- */

static bool iam_signs_host(const struct s3_auth *auth)
{
        const char *names = auth->signed_headers, *stop;

        for (; names != NULL; names = stop != NULL ? stop + 1 : NULL) {
                size_t len = strcspn(names, ";");

                stop = strchr(names, ';');
                if (s3_str_eq_nocase((struct s3_str){names, len}, S3_STR("host")))
                        return true;
        }
        return false;
}

/* Which of the two it is, AWS says with both times. */
static void refuse_time(struct gw_request *req, bool sts, int64_t time_ms)
{
        int64_t now_ms = lp_wall_ms(), edge_ms = time_ms < now_ms ? now_ms - S3_SKEW_MS : now_ms + S3_SKEW_MS;
        char then[S3_DATE_AMZ_SIZE], now[S3_DATE_AMZ_SIZE], edge[S3_DATE_AMZ_SIZE];
        bool late = time_ms < now_ms;

        s3_date_format_amz(time_ms, then);
        s3_date_format_amz(now_ms, now);
        s3_date_format_amz(edge_ms, edge);
        iam_fail_request(req, sts, "SignatureDoesNotMatch",
                         gw_printf(req, "%s: %s is %s than %s (%s %c 15 min.)",
                                   late ? "Signature expired" : "Signature not yet current", then,
                                   late ? "now earlier" : "still later", edge, now, late ? '-' : '+'));
}

/* Reasons that are another code than IncompleteSignature. NULL as message: that of the reason. */
static const struct {
        enum s3_auth_reason reason;
        const char *code, *message;
} iam_reasons[] = {
        {S3_AUTH_MISMATCH, "SignatureDoesNotMatch",
         "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access "
         "Key and signing method. Consult the service documentation for details."},
        {S3_AUTH_TOKEN_EXPIRED, "ExpiredToken", "The security token included in the request is expired"},
        {S3_AUTH_TOKEN, "InvalidClientTokenId", "The security token included in the request is invalid."},
        {S3_AUTH_WRONG_REGION, "SignatureDoesNotMatch", IAM_WRONG_REGION},
        {S3_AUTH_Q_WRONG_REGION, "SignatureDoesNotMatch", IAM_WRONG_REGION},
        {S3_AUTH_WRONG_SERVICE, "SignatureDoesNotMatch", IAM_WRONG_SERVICE},
        {S3_AUTH_Q_WRONG_SERVICE, "SignatureDoesNotMatch", IAM_WRONG_SERVICE},
        {S3_AUTH_WRONG_TERMINAL, "SignatureDoesNotMatch", IAM_WRONG_TERMINAL},
        {S3_AUTH_Q_WRONG_TERMINAL, "SignatureDoesNotMatch", IAM_WRONG_TERMINAL},
        {S3_AUTH_BAD_SCOPE_DATE, "SignatureDoesNotMatch", IAM_WRONG_DATE},
        {S3_AUTH_Q_SCOPE_DATE, "SignatureDoesNotMatch", IAM_WRONG_DATE},
        {S3_AUTH_WRONG_SCOPE_DATE, "SignatureDoesNotMatch", IAM_WRONG_DATE},
        {S3_AUTH_Q_WRONG_SCOPE_DATE, "SignatureDoesNotMatch", IAM_WRONG_DATE},
        {S3_AUTH_NO_SPACE, "MissingAuthenticationToken", IAM_NO_TOKEN},
        {S3_AUTH_UNSUPPORTED_TYPE, "MissingAuthenticationToken", IAM_NO_TOKEN},
        {S3_AUTH_Q_ALGORITHM, "MissingAuthenticationToken", IAM_NO_TOKEN},
        {S3_AUTH_SIGV4A, "MissingAuthenticationToken", IAM_NO_TOKEN},
        {S3_AUTH_Q_EXPIRED, "RequestExpired", NULL},
};

static void refuse_signature(struct gw_request *req, const struct s3_auth *auth, enum s3_auth_reason reason)
{
        const char *code = "IncompleteSignature", *message = NULL;
        bool sts = strcmp(auth->service, "sts") == 0;

        if (reason == S3_AUTH_SKEWED || reason == S3_AUTH_Q_NOT_YET) {
                refuse_time(req, sts, auth->time_ms);
                return;
        }
        for (size_t i = 0; i < sizeof(iam_reasons) / sizeof(iam_reasons[0]); i++)
                if (iam_reasons[i].reason == reason) {
                        code = iam_reasons[i].code;
                        message = iam_reasons[i].message;
                }
        if (reason == S3_AUTH_UNSIGNED_HEADERS && !iam_signs_host(auth)) {
                code = "SignatureDoesNotMatch";
                message = "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.";
        }
        if (reason == S3_AUTH_Q_MISSING && !gw_query_has(req, "X-Amz-Algorithm")) {
                code = "MissingAuthenticationToken";
                message = IAM_NO_TOKEN;
        }
        iam_fail_request(req, sts, code, message != NULL ? message : s3_auth_message(reason));
}

static bool is_presigned(const struct gw_request *req, const struct s3_auth *auth)
{
        return auth->kind == S3_AUTH_QUERY && is_get(req);
}

/* What can be said before the body is there. */
static enum s3_auth_reason check_head(struct gw_request *req, struct s3_auth *auth)
{
        struct s3_request request = iam_signed(req);
        enum s3_auth_reason reason = s3_auth_parse_service(&request, auth);
        const char *region;

        auth->takes_token = true;
        region = strcmp(auth->region, IAM_REGION) == 0 ? IAM_REGION : req->loop->gw->region;

        if (reason != S3_AUTH_OK)
                return reason;
        if (auth->kind == S3_AUTH_ANONYMOUS)
                return S3_AUTH_OK;
        if (auth->payload != S3_PAYLOAD_SHA256 || !(auth->kind == S3_AUTH_HEADER || is_presigned(req, auth)))
                return S3_AUTH_UNSUPPORTED_VERSION;
        return s3_auth_check(&request, auth, region, lp_wall_ms());
}

void gw_iam_accept(struct gw_request *req)
{
        struct s3_auth *auth = &req->loop->auth;
        const struct s3_signing_key no_key = {.bytes = {0}};
        const char *message = NULL;
        enum s3_auth_reason reason;
        enum s3_error error;
        bool sts;

        req->op = &gw_iam_op;
        reason = check_head(req, auth);
        sts = strcmp(auth->service, "sts") == 0;
        if (sts)
                req->op = &gw_sts_op;
        if (reason != S3_AUTH_OK) {
                refuse_signature(req, auth, reason);
                return;
        }
        if (auth->kind == S3_AUTH_ANONYMOUS && req->loop->gw->issuers == NULL) { /* else it may be a web identity */
                iam_fail_request(req, sts, "MissingAuthenticationToken", IAM_NO_TOKEN);
                return;
        }
        if (req->content_length != S3_LENGTH_UNKNOWN && req->content_length > IAM_FORM_MAX) {
                iam_fail_request(req, sts, "RequestEntityTooLarge", "The form is longer than 65536 bytes.");
                return;
        }
        auth->payload = S3_PAYLOAD_UNSIGNED; /* the hash is compared below, with the signature */
        error = gw_body_new(req, auth, &no_key, &message);
        if (error != S3_OK)
                gw_reply_error(req, error, message);
}

/* The body is in: was it sent by whom it says? False: refused. */
static bool is_authentic(struct gw_request *req, struct s3_auth *auth)
{
        struct s3_request request = iam_signed(req);
        enum s3_auth_reason reason = check_head(req, auth);
        struct gw_signer signer;
        const struct gw_body *body = req->body;
        uint8_t digest[ERA_DIGEST_MAX];
        struct s3_signing_key key;

        era_digest_of(ERA_SHA256, body->kept != NULL ? body->kept : "", body->received, digest);
        if (reason == S3_AUTH_OK && s3_request_header(&request, "x-amz-content-sha256").data != NULL &&
            memcmp(auth->payload_sha256, digest, S3_SHA256_LEN) != 0)
                reason = S3_AUTH_MISMATCH;
        memcpy(auth->payload_sha256, digest, S3_SHA256_LEN);
        if (reason != S3_AUTH_OK) {
                refuse_signature(req, auth, reason);
                return false;
        }
        if (auth->kind == S3_AUTH_ANONYMOUS)
                return true;
        gw_signer_take(req->loop, auth, &signer);
        reason = signer.reason == S3_AUTH_OK && signer.credential == NULL ? S3_AUTH_TOKEN : signer.reason;
        if (reason == S3_AUTH_OK) {
                gw_scope_key(req->loop, signer.credential, auth->scope_date,
                             (struct gw_key_scope){auth->region, auth->service}, &key);
                reason = s3_auth_verify(&request, auth, &key, auth->region, lp_wall_ms());
                explicit_bzero(&key, sizeof(key));
        }
        if (reason == S3_AUTH_OK)
                gw_signer_accept(req, &signer);
        else
                refuse_signature(req, auth, reason);
        gw_signer_drop(&signer);
        return reason == S3_AUTH_OK;
}

/* ---- the action ------------------------------------------------------------------------------ */

/* Whose key it is. False: nobody's any more. */
static bool take_caller(struct iam_call *call)
{
        const struct gw_temporary *session = call->req->temporary;
        const char *access_key = call->req->access_key;
        const struct gw_entity *key;

        if (access_key == NULL) { /* a web identity, or nobody: see iam_take_action() */
                strcpy(call->account, GW_FIRST_ACCOUNT);
                return true;
        }
        call->role_session = session != NULL && session->kind == GW_SESSION_OF_ROLE;
        if (call->role_session) {
                snprintf(call->account, sizeof(call->account), "%s", session->account);
                return true;
        }
        if (session != NULL)
                access_key = session->issuer;
        if (gw_credentials_find(call->req->loop, access_key) != NULL) {
                strcpy(call->account, GW_FIRST_ACCOUNT);
                return true;
        }
        if (gw_people_find_key(call->req->loop, access_key, &key) != 0)
                return false;
        snprintf(call->account, sizeof(call->account), "%s", key->owner);
        snprintf(call->caller, sizeof(call->caller), "%s", key->who.of);
        return true;
}

/* anew: of what the entity is to be; else of what it is now. False: refused. */
static bool is_allowed_at(struct iam_call *call, const char *permission, bool anew)
{
        struct gw_request *req = call->req;
        char why[GW_WHY_MAX], resource[IAM_RESOURCE_SIZE];
        int rv;

        if (!(anew ? iam_new_resource(call, resource) : iam_resource(call, resource))) {
                iam_fail(call, "ValidationError", "No entity can have this name.");
                return false;
        }
        rv = iam_permitted(call, permission, resource, why);
        if (rv == 0)
                return true;
        if (rv == -ENOMEM) {
                iam_refuse(call, rv);
                return false;
        }
        iam_fail(call, "AccessDenied",
                 why[0] != '\0'
                         ? gw_copy(req, s3_str_of(why))
                         : gw_printf(req, "User: arn:aws:iam::%s:%s%s is not authorized to perform: %s", call->account,
                                     *call->caller != '\0' ? "user/" : "root", call->caller, permission));
        return false;
}

/*
 * Limits temporary credentials. Those of a user cannot call IAM, as AWS has it without MFA, and no session can get
 * itself another one. Where an action means the caller if it names no user, a role's session must name one (T17).
 */
static bool session_may(struct iam_call *call)
{
        const struct iam_action *action = call->action;

        if (call->req->temporary == NULL)
                return true;
        if (call->sts && strcmp(action->name, "AssumeRole") != 0 && strcmp(action->name, "GetCallerIdentity") != 0)
                iam_fail(call, "AccessDenied",
                         gw_printf(call->req, "Cannot call %s with session credentials", action->name));
        else if (!call->sts && !call->role_session)
                iam_fail(call, "InvalidClientTokenId", "The security token included in the request is invalid.");
        else if (!call->sts && action->kind == GW_USER && call->in.value[IAM_P_USER] == NULL &&
                 (action->may & IAM_BIT(USER)) != 0)
                iam_fail(call, "ValidationError", "Must specify userName when calling with non-User credentials");
        else
                return true;
        return false;
}

/* As is_allowed_at(). verb and what: of the permission's name. */
static bool is_allowed_to(struct iam_call *call, const char *verb, const char *what, bool anew)
{
        const char *permission = gw_printf(call->req, "iam:%s%s", verb, what);

        if (permission == NULL)
                iam_refuse(call, -ENOMEM);
        return permission != NULL && is_allowed_at(call, permission, anew);
}

/* Tags that something is made with need the right to tag it, as in AWS. */
static bool is_allowed_to_tag(struct iam_call *call)
{
        const char create[] = "Create", *name = call->action->name;

        return call->in.tag_count == 0 || strncmp(name, create, sizeof(create) - 1) != 0 ||
               is_allowed_to(call, "Tag", name + sizeof(create) - 1, false);
}

bool iam_allowed(struct iam_call *call)
{
        bool renames = call->in.value[IAM_P_NEW_PATH] != NULL || call->in.value[IAM_P_NEW_USER] != NULL ||
                       call->in.value[IAM_P_NEW_GROUP] != NULL;

        iam_decision_begin(call);
        return is_allowed_to(call, "", call->action->name, false) && is_allowed_to_tag(call) &&
               (!renames || is_allowed_to(call, "", call->action->name, true));
}

/* GetCallerIdentity and GetSessionToken need no right, as AWS says; roles have a policy of their own. */
static bool is_allowed(struct iam_call *call)
{
        struct gw_request *req = call->req;
        const char *permission;

        if (call->sts)
                return true;
        permission = gw_printf(req, "iam:%s", call->action->name);
        if (permission == NULL) {
                iam_refuse(call, -ENOMEM);
                return false;
        }
        if (gw_changes(permission)) { /* counted before the gate is asked: gw_changing() */
                req->changing = true;
                atomic_fetch_add(&req->loop->stats.changes_active, 1);
        }
        return iam_allowed(call);
}

/* The form says a known action of this version, with parameters as they must be. */
static bool iam_take_action(struct iam_call *call, char *body, size_t len)
{
        const char *name, *version, *expected = call->sts ? STS_VERSION : IAM_VERSION;
        char message[IAM_MESSAGE_SIZE];
        int rv = iam_form_parse(body, len, &call->form);

        if (is_get(call->req))
                iam_form_drop_signature(&call->form);
        if (rv == 0)
                rv = iam_form_check_names(&call->form);
        if (rv != 0) {
                iam_fail(call, "MalformedQueryString", "The body is not a form, or names a parameter twice.");
                return false;
        }
        name = iam_form_value(&call->form, "Action");
        version = iam_form_value(&call->form, "Version");
        if (name == NULL) {
                iam_fail(call, "MissingAction", "The request must have the parameter Action.");
                return false;
        }
        if (call->req->access_key == NULL && strcmp(name, "AssumeRoleWithWebIdentity") != 0) {
                iam_fail(call, "MissingAuthenticationToken", IAM_NO_TOKEN);
                return false;
        }
        call->action = version != NULL && strcmp(version, expected) == 0 ? iam_action_find(name, call->sts) : NULL;
        if (call->action == NULL) {
                iam_fail(call, "InvalidAction",
                         gw_printf(call->req, "Could not find operation %.64s for version %.16s", name,
                                   version != NULL ? version : "NO_VERSION_SPECIFIED"));
                return false;
        }
        rv = iam_params_take(&call->form, call->action->needs, call->action->may, &call->in, message, sizeof(message));
        if (!session_may(call))
                return false;
        if (rv != 0) /* whoever may do nothing is not told what is wrong with it */
                memset(&call->in, 0, sizeof(call->in));
        if (!is_allowed(call))
                return false;
        if (rv != 0)
                iam_fail(call,
                         rv == -EBADMSG  ? "MalformedInput"
                         : rv == -EEXIST ? "InvalidInput"
                                         : "ValidationError",
                         message);
        return rv == 0;
}

/* The form: the query of a GET, whose body says nothing; else the body. */
static struct s3_str iam_text(const struct gw_request *req)
{
        return is_get(req) ? req->cut.query : (struct s3_str){req->body->kept, req->body->received};
}

/* All is in. */
static void iam_run_form(struct gw_request *req)
{
        struct s3_auth *auth = &req->loop->auth;
        struct iam_call *call;
        bool unsigned_one;
        struct s3_str form;
        char *body;

        if (!is_authentic(req, auth))
                return;
        unsigned_one = auth->kind == S3_AUTH_ANONYMOUS;
        if (!unsigned_one) {
                gw_guest_leave(req->conn);
                req->access_key = gw_copy(req, s3_str_of(auth->access_key));
        }
        form = iam_text(req);
        body = gw_alloc(req, form.len + 1);
        call = gw_alloc(req, sizeof(*call));
        if ((req->access_key == NULL && !unsigned_one) || body == NULL || call == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        if (form.len > 0)
                memcpy(body, form.data, form.len);
        call->req = req;
        call->sts = unsigned_one || strcmp(auth->service, "sts") == 0;
        if (!take_caller(call))
                iam_fail(call, "InvalidClientTokenId", "The security token included in the request is invalid.");
        else if (iam_take_action(call, body, form.len))
                call->action->run(call);
}
