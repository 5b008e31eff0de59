/*
 * sts_make.c - makes temporary credentials: an access key, a secret, and the token that has all there is to know
 * (docs/design/sts.md). And GetSessionToken, GetCallerIdentity. On the request's loop; nothing waits.
 */
#include <assert.h>
#include <errno.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/users.h"
#include "gateway/iam/sts.h"

#define SESSION_DEFAULT_S 43200 /* of GetSessionToken, */
#define SESSION_ROOT_S    3600  /* and of root */

int64_t sts_seconds(const struct iam_call *call, int64_t otherwise)
{
        const char *text = call->in.value[IAM_P_DURATION];

        return text != NULL ? strtol(text, NULL, 10) : otherwise;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void show_role_session(struct iam_call *call, struct s3_xml *xml, const struct sts_making *making)
{
        const struct gw_temporary *what = &making->what;

        s3_xml_open(xml, "AssumedRoleUser");
        s3_xml_textz(xml, "AssumedRoleId", gw_printf(call->req, "%s:%s", what->role_id, what->session));
        s3_xml_textz(xml, "Arn",
                     gw_printf(call->req, "arn:aws:sts::%s:assumed-role/%s/%s", what->account, what->role,
                               what->session));
        s3_xml_close(xml, "AssumedRoleUser");
        if (what->source != NULL)
                s3_xml_textz(xml, "SourceIdentity", what->source);
        if (what->arn_count + what->tag_count > 0 || what->policy_text != NULL)
                s3_xml_uint(xml, "PackedPolicySize", making->packed);
        if (making->subject == NULL)
                return;
        s3_xml_textz(xml, "SubjectFromWebIdentityToken", making->subject);
        s3_xml_textz(xml, "Audience", making->audience);
        s3_xml_textz(xml, "Provider", making->issuer);
}

static int show_credentials(struct iam_call *call, struct s3_xml *xml)
{
        const struct sts_making *making = call->making;

        s3_xml_open(xml, "Credentials");
        s3_xml_textz(xml, "AccessKeyId", making->what.access_key);
        s3_xml_textz(xml, "SecretAccessKey", making->secret);
        s3_xml_textz(xml, "SessionToken", making->token);
        iam_show_date(xml, "Expiration", making->what.expires_ms);
        s3_xml_close(xml, "Credentials");
        if (making->what.kind == GW_SESSION_OF_ROLE)
                show_role_session(call, xml, making);
        return 0;
}

static bool make_session_secret(struct sts_making *making)
{
        unsigned char random[GW_TEMPORARY_SECRET / 4 * 3];

        if (RAND_bytes(random, sizeof(random)) != 1)
                return false;
        s3_base64_encode(random, sizeof(random), making->secret);
        explicit_bzero(random, sizeof(random));
        return true;
}

void sts_make(struct iam_call *call, struct sts_making *making, int64_t seconds)
{
        struct gw_temporary *what = &making->what;
        int rv;

        assert(seconds > 0 && what->kind != 0);
        if (!iam_secret_can_be_told(call))
                return;
        if (!iam_make_id(GW_TEMPORARY_PREFIX, GW_TEMPORARY_ID_LEN, what->access_key) || !make_session_secret(making)) {
                iam_refuse(call, -ENOMEM);
                return;
        }
        what->secret = making->secret;
        what->issued_ms = lp_wall_ms() / 1000 * 1000; /* as aws:TokenIssueTime shows it */
        what->expires_ms = what->issued_ms + seconds * 1000;
        making->packed = (unsigned)((gw_temporary_packed(what) * 100 + GW_TOKEN_PACKED_MAX - 1) / GW_TOKEN_PACKED_MAX);
        rv = gw_temporary_seal(&call->req->loop->gw->sealer, what, making->token);
        call->making = making;
        if (rv == -E2BIG)
                iam_fail(call, "PackedPolicyTooLarge",
                         gw_printf(call->req, "PackedSize: %u%% of the size that session policies and tags may have",
                                   making->packed));
        else if (rv != 0)
                iam_fail(call, "ServiceFailure", "The server has no key to seal tokens with.");
        else
                iam_answer(call, show_credentials);
        explicit_bzero(making->secret, sizeof(making->secret));
        explicit_bzero(making->token, sizeof(making->token));
}

/* ---- GetSessionToken ------------------------------------------------------------------------- */

void iam_run_session_token(struct iam_call *call)
{
        struct gw_request *req = call->req;
        const struct gw_credential *root = gw_credentials_find(req->loop, req->access_key);
        struct sts_making *making = gw_alloc(req, sizeof(*making));
        int64_t seconds = sts_seconds(call, SESSION_DEFAULT_S);

        if (making == NULL) {
                iam_refuse(call, -ENOMEM);
                return;
        }
        making->what.kind = GW_SESSION_OF_KEY;
        making->what.account = call->account;
        making->what.issuer = req->access_key;
        if (root != NULL)
                making->what.mark = gw_root_mark(root);
        if (*call->caller == '\0' && seconds > SESSION_ROOT_S)
                seconds = SESSION_ROOT_S;
        sts_make(call, making, seconds);
}

/* ---- GetCallerIdentity ----------------------------------------------------------------------- */

static int show_identity(struct iam_call *call, struct s3_xml *xml)
{
        struct gw_entity_name who = iam_who(call, GW_USER, call->caller);
        const struct gw_temporary *session = call->role_session ? call->req->temporary : NULL;
        const struct gw_entity *user = NULL;
        const char *id;
        char arn[IAM_ARN_SIZE];
        int rv = *call->caller != '\0' ? gw_people_find(call->req->loop, &who, &user, NULL) : 0;

        if (rv != 0)
                return rv;
        id = user != NULL ? user->id : call->account;
        if (session != NULL) {
                id = gw_printf(call->req, "%s:%s", session->role_id, session->session);
                snprintf(arn, sizeof(arn), "arn:aws:sts::%s:assumed-role/%s/%s", session->account, session->role,
                         session->session);
        } else if (user == NULL || !gw_entity_arn(user, arn, sizeof(arn))) {
                snprintf(arn, sizeof(arn), "arn:aws:iam::%s:root", call->account);
        }
        if (id == NULL)
                return -ENOMEM;
        s3_xml_textz(xml, "Arn", arn);
        s3_xml_textz(xml, "UserId", id);
        s3_xml_textz(xml, "Account", call->account);
        return 0;
}

void iam_run_identity(struct iam_call *call)
{
        iam_answer(call, show_identity);
}
