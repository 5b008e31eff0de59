/*
 * iam_users.c - IAM's actions about users and their access keys, and those that are the same for all kinds.
 * On the request's loop.
 */
#include "gateway/iam/call.h"
#include "gateway/sts/key_uses.h"

#include <errno.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define KEY_LEN 20u

/* ---- all kinds ------------------------------------------------------------------------------- */

/* A policy is named by its ARN, others by name. */
static const struct gw_entity *find_of_action(struct iam_call *call)
{
        unsigned kind = call->action->kind;

        if (kind == GW_POLICY)
                return iam_find_policy(call, call->in.value[IAM_P_ARN]);
        return iam_find(call, kind, iam_name(call, kind));
}

/* Root is no entity. */
static int show_root(struct iam_call *call, struct s3_xml *xml)
{
        char arn[IAM_ARN_SIZE];

        snprintf(arn, sizeof(arn), "arn:aws:iam::%s:root", call->account);
        s3_xml_open(xml, "User");
        s3_xml_textz(xml, "UserId", call->account);
        s3_xml_textz(xml, "Arn", arn);
        iam_show_date(xml, "CreateDate", 0);
        s3_xml_close(xml, "User");
        return 0;
}

void iam_run_get(struct iam_call *call)
{
        if (call->action->kind == GW_USER && *iam_name(call, GW_USER) == '\0')
                iam_answer(call, show_root);
        else if (find_of_action(call) != NULL)
                iam_answer(call, iam_show_who);
}

/* A policy of the account whose text cannot be read: it has a name, and no ARN. */
static bool is_unreadable_policy(struct iam_call *call)
{
        const struct gw_entity *entity;

        return gw_entity_of_arn(call->in.value[IAM_P_ARN], &call->who) == 0 && call->who.kind == GW_POLICY &&
               strcmp(call->who.account, call->account) == 0 &&
               gw_people_find(call->req->loop, &call->who, &entity, NULL) == -EIO;
}

void iam_run_delete(struct iam_call *call)
{
        if (call->action->kind == GW_POLICY) {
                if (is_unreadable_policy(call) || find_of_action(call) != NULL)
                        iam_delete(call, &call->who);
                return;
        }
        if (call->action->kind == GW_PROVIDER) {
                if (iam_provider_who(call)) /* also one whose text cannot be read */
                        iam_delete(call, &call->who);
                return;
        }
        call->who = iam_who(call, call->action->kind, iam_name(call, call->action->kind));
        iam_delete(call, &call->who); /* also one whose text cannot be read */
}

static void list_each(struct iam_call *call, struct s3_xml *xml, const char *name)
{
        struct gw_entity_name who = iam_who(call, call->action->kind, name);
        const struct gw_entity *entity;

        if (gw_people_find(call->req->loop, &who, &entity, NULL) != 0)
                return; /* gone meanwhile */
        if (who.kind == GW_USER)
                iam_show_user(xml, entity, "member");
        else if (who.kind == GW_GROUP)
                iam_show_group(xml, entity, "member");
        else
                iam_show_role(call, xml, entity, "member");
}

void iam_run_list(struct iam_call *call)
{
        static const char *const elements[] = {
                [GW_USER - GW_ACCOUNT] = "Users",
                [GW_GROUP - GW_ACCOUNT] = "Groups",
                [GW_ROLE - GW_ACCOUNT] = "Roles",
        };
        struct gw_people_query query = {.kind = call->action->kind};

        iam_list(call, &query, elements[query.kind - GW_ACCOUNT], list_each);
}

/* ---- users ----------------------------------------------------------------------------------- */

void iam_run_create_user(struct iam_call *call)
{
        const char *boundary = call->in.value[IAM_P_BOUNDARY];
        struct gw_entity user = {.boundary = boundary, .created_ms = lp_wall_ms()};

        if (boundary != NULL && iam_find_policy(call, boundary) == NULL)
                return;
        iam_create_named(call, &user, GW_USER, "AIDA");
}

void iam_run_update_user(struct iam_call *call)
{
        const struct gw_entity *user = iam_find(call, GW_USER, call->in.value[IAM_P_USER]);

        if (user != NULL)
                iam_replace_named(call, user, call->in.value[IAM_P_NEW_USER], call->in.value[IAM_P_NEW_PATH]);
}

/* ---- access keys ----------------------------------------------------------------------------- */

static bool make_secret(struct iam_call *call)
{
        unsigned char random[30];

        if (RAND_bytes(random, sizeof(random)) != 1)
                return false;
        s3_base64_encode(random, sizeof(random), call->secret);
        explicit_bzero(random, sizeof(random));
        return true;
}

static int show_new_key(struct iam_call *call, struct s3_xml *xml)
{
        const struct gw_entity *key;
        int rv = gw_people_find_key(call->req->loop, call->key, &key);

        if (rv != 0)
                return rv;
        s3_xml_open(xml, "AccessKey");
        s3_xml_textz(xml, "UserName", key->who.of);
        s3_xml_textz(xml, "AccessKeyId", key->who.name);
        s3_xml_textz(xml, "Status", "Active");
        s3_xml_textz(xml, "SecretAccessKey", call->secret);
        iam_show_date(xml, "CreateDate", key->created_ms);
        s3_xml_close(xml, "AccessKey");
        return 0;
}

bool iam_secret_can_be_told(struct iam_call *call)
{
        const struct gw_request *req = call->req;
        const union MHD_ConnectionInfo *from = MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

        if (gw_may_tell_secret(req->conn->listener->tls, from != NULL ? from->client_addr : NULL))
                return true;
        iam_fail(call, "AccessDenied",
                 "Secret keys are given out over TLS, or to the server's own machine, and not else.");
        return false;
}

void iam_run_create_key(struct iam_call *call)
{
        const struct gw_sealer *sealer = &call->req->loop->gw->sealer;
        const char *name = iam_name(call, GW_USER);
        char sealed[GW_SEALED_MAX];
        struct gw_entity key = {.owner = call->account, .sealed = sealed, .created_ms = lp_wall_ms(), .active = 1};
        const struct gw_entity *user;
        int rv;

        if (!iam_secret_can_be_told(call))
                return;
        user = *name != '\0' ? iam_find(call, GW_USER, name) : NULL;
        if (user == NULL && *name != '\0')
                return;
        if (!iam_make_id("AKIA", KEY_LEN, call->key) || !make_secret(call)) {
                iam_refuse(call, -ENOMEM);
                return;
        }
        rv = sealer->seal == NULL ? -ENOKEY
                                  : sealer->seal(sealer->arg, call->key, call->secret, sealed, sizeof(sealed));
        if (rv != 0) {
                iam_fail(call, "ServiceFailure", "The server has no key to seal secrets with.");
                return;
        }
        key.who = iam_who(call, GW_ACCESS_KEY, call->key);
        snprintf(key.who.of, sizeof(key.who.of), "%s", user != NULL ? user->who.name : "");
        iam_create(call, &key, show_new_key);
}

static void key_each(struct iam_call *call, struct s3_xml *xml, const char *name)
{
        const struct gw_entity *key;

        if (gw_people_find_key(call->req->loop, name, &key) != 0)
                return;
        s3_xml_open(xml, "member");
        s3_xml_textz(xml, "UserName", key->who.of);
        s3_xml_textz(xml, "AccessKeyId", key->who.name);
        s3_xml_textz(xml, "Status", key->active != 0 ? "Active" : "Inactive");
        iam_show_date(xml, "CreateDate", key->created_ms);
        s3_xml_close(xml, "member");
}

void iam_run_list_keys(struct iam_call *call)
{
        struct gw_people_query query = {.kind = GW_ACCESS_KEY};
        const char *name = iam_name(call, GW_USER);
        const struct gw_entity *user = *name != '\0' ? iam_find(call, GW_USER, name) : NULL;

        if (user == NULL && *name != '\0')
                return;
        snprintf(query.of, sizeof(query.of), "%s", user != NULL ? user->who.name : "");
        iam_list(call, &query, "AccessKeyMetadata", key_each);
}

/* A key of that user, or of whoever asks. NULL: refused. */
static const struct gw_entity *find_key(struct iam_call *call, const char *user)
{
        const struct gw_entity *key = iam_find(call, GW_ACCESS_KEY, call->in.value[IAM_P_KEY]);

        if (key == NULL)
                return NULL;
        if (strcmp(key->owner, call->account) == 0 && (user == NULL || strcasecmp(key->who.of, user) == 0))
                return key;
        iam_refuse(call, -ENOENT);
        return NULL;
}

void iam_run_update_key(struct iam_call *call)
{
        const struct gw_entity *key = find_key(call, iam_name(call, GW_USER));
        struct gw_entity *edited = key != NULL ? iam_edit(call, key) : NULL;

        if (edited == NULL)
                return;
        edited->active = strcmp(call->in.value[IAM_P_STATUS], "Active") == 0;
        iam_replace(call, edited, NULL);
}

void iam_run_delete_key(struct iam_call *call)
{
        if (find_key(call, iam_name(call, GW_USER)) != NULL)
                iam_delete(call, &call->who);
}

static int show_key_used(struct iam_call *call, struct s3_xml *xml)
{
        const struct gw_entity *key;
        struct gw_key_use use;
        int rv = gw_people_find_key(call->req->loop, call->in.value[IAM_P_KEY], &key);
        bool used;

        if (rv != 0)
                return rv;
        if (key->who.of[0] != '\0')
                s3_xml_textz(xml, "UserName", key->who.of);
        used = gw_key_last_used(call->req->loop->gw, key->who.name, &use);
        s3_xml_open(xml, "AccessKeyLastUsed");
        if (used)
                iam_show_date(xml, "LastUsedDate", use.ms);
        s3_xml_textz(xml, "ServiceName", used ? use.service : "N/A");
        s3_xml_textz(xml, "Region", used ? call->req->loop->gw->region : "N/A");
        s3_xml_close(xml, "AccessKeyLastUsed");
        return 0;
}

void iam_run_key_used(struct iam_call *call)
{
        if (find_key(call, NULL) != NULL)
                iam_answer(call, show_key_used);
}
