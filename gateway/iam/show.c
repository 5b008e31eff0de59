/*
 * show.c - entities as IAM's documents show them. Called while an answer is written, on the request's loop.
 */
#include "gateway/iam/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void iam_show_date(struct s3_xml *xml, const char *element, int64_t ms)
{
        char text[S3_DATE_SECONDS_SIZE];

        s3_date_format_seconds(ms, text);
        s3_xml_textz(xml, element, text);
}

void iam_show_document(struct s3_xml *xml, const char *element, const char *text)
{
        size_t room = 3 * strlen(text) + 1;
        char *encoded = malloc(room);
        int n = encoded == NULL ? -1 : s3_percent_encode(s3_str_of(text), S3_ENCODE_QUERY, encoded, room);

        if (n < 0)
                xml->error = xml->error != 0 ? xml->error : -ENOMEM;
        else
                s3_xml_text(xml, element, (struct s3_str){encoded, (size_t)n});
        free(encoded);
}

void iam_show_tags(struct s3_xml *xml, const struct gw_pairs *tags)
{
        if (tags->count == 0)
                return;
        s3_xml_open(xml, "Tags");
        for (unsigned i = 0; i < tags->count; i++) {
                s3_xml_open(xml, "member");
                s3_xml_textz(xml, "Key", tags->list[i].name);
                s3_xml_textz(xml, "Value", tags->list[i].text);
                s3_xml_close(xml, "member");
        }
        s3_xml_close(xml, "Tags");
}

static void show_boundary(struct s3_xml *xml, const struct gw_entity *entity)
{
        if (*entity->boundary == '\0')
                return;
        s3_xml_open(xml, "PermissionsBoundary");
        s3_xml_textz(xml, "PermissionsBoundaryType", "Policy");
        s3_xml_textz(xml, "PermissionsBoundaryArn", entity->boundary);
        s3_xml_close(xml, "PermissionsBoundary");
}

/* Path, name, id, ARN and date, which all have; kind: "User" and so on. */
static void show_common(struct s3_xml *xml, const struct gw_entity *entity, const char *kind)
{
        char arn[IAM_ARN_SIZE], element[32];

        s3_xml_textz(xml, "Path", entity->path);
        snprintf(element, sizeof(element), "%sName", kind);
        s3_xml_textz(xml, element, entity->who.name);
        snprintf(element, sizeof(element), "%sId", kind);
        s3_xml_textz(xml, element, entity->id);
        if (gw_entity_arn(entity, arn, sizeof(arn)))
                s3_xml_textz(xml, "Arn", arn);
        iam_show_date(xml, "CreateDate", entity->created_ms);
}

static void show_user_in(struct s3_xml *xml, const struct gw_entity *user)
{
        show_common(xml, user, "User");
        show_boundary(xml, user);
        iam_show_tags(xml, &user->sets[GW_SET_TAGS]);
}

void iam_show_user(struct s3_xml *xml, const struct gw_entity *user, const char *element)
{
        s3_xml_open(xml, element);
        show_user_in(xml, user);
        s3_xml_close(xml, element);
}

void iam_show_group(struct s3_xml *xml, const struct gw_entity *group, const char *element)
{
        s3_xml_open(xml, element);
        show_common(xml, group, "Group");
        s3_xml_close(xml, element);
}

static void show_role_in(struct iam_call *call, struct s3_xml *xml, const struct gw_entity *role)
{
        char *trust = gw_people_bound_text(call->req->loop, s3_str_of(role->trust));

        show_common(xml, role, "Role");
        if (trust != NULL)
                iam_show_document(xml, "AssumeRolePolicyDocument", trust);
        else
                xml->error = xml->error != 0 ? xml->error : -ENOMEM;
        free(trust);
        if (*role->description != '\0')
                s3_xml_textz(xml, "Description", role->description);
        s3_xml_uint(xml, "MaxSessionDuration", role->session_seconds > 0 ? (uint64_t)role->session_seconds : 3600);
        show_boundary(xml, role);
        iam_show_tags(xml, &role->sets[GW_SET_TAGS]);
}

void iam_show_role(struct iam_call *call, struct s3_xml *xml, const struct gw_entity *role, const char *element)
{
        s3_xml_open(xml, element);
        show_role_in(call, xml, role);
        if (strcmp(element, "Role") == 0) { /* not in lists; uses are not recorded, which AWS shows empty */
                s3_xml_open(xml, "RoleLastUsed");
                s3_xml_close(xml, "RoleLastUsed");
        }
        s3_xml_close(xml, element);
}

static void show_policy_in(struct s3_xml *xml, const struct gw_entity *policy)
{
        const struct gw_pairs *versions = &policy->sets[GW_SET_VERSIONS];

        show_common(xml, policy, "Policy");
        s3_xml_textz(xml, "DefaultVersionId", policy->version);
        s3_xml_bool(xml, "IsAttachable", true);
        if (*policy->description != '\0')
                s3_xml_textz(xml, "Description", policy->description);
        iam_show_date(xml, "UpdateDate", versions->list[versions->count - 1].ms);
        iam_show_tags(xml, &policy->sets[GW_SET_TAGS]);
}

void iam_show_policy(struct s3_xml *xml, const struct gw_entity *policy, const char *element)
{
        s3_xml_open(xml, element);
        show_policy_in(xml, policy);
        s3_xml_close(xml, element);
}

void iam_show_details(struct iam_call *call, struct s3_xml *xml, const struct gw_entity *entity)
{
        s3_xml_open(xml, "member");
        if (entity->who.kind == GW_USER)
                show_user_in(xml, entity);
        else if (entity->who.kind == GW_GROUP)
                show_common(xml, entity, "Group");
        else if (entity->who.kind == GW_ROLE)
                show_role_in(call, xml, entity);
        else
                show_policy_in(xml, entity);
        iam_show_holdings(xml, entity);
        s3_xml_close(xml, "member");
}

void iam_show_version(struct s3_xml *xml, const struct gw_entity *policy, const struct gw_pair *version,
                      const char *element, bool with_document)
{
        s3_xml_open(xml, element);
        if (with_document)
                iam_show_document(xml, "Document", version->text);
        s3_xml_textz(xml, "VersionId", version->name);
        s3_xml_bool(xml, "IsDefaultVersion", strcmp(version->name, policy->version) == 0);
        iam_show_date(xml, "CreateDate", version->ms);
        s3_xml_close(xml, element);
}

int iam_show_who(struct iam_call *call, struct s3_xml *xml)
{
        const struct gw_entity *entity;
        int rv = iam_found(call, &entity);

        if (rv != 0)
                return rv;
        if (entity->who.kind == GW_USER)
                iam_show_user(xml, entity, "User");
        else if (entity->who.kind == GW_GROUP)
                iam_show_group(xml, entity, "Group");
        else if (entity->who.kind == GW_ROLE)
                iam_show_role(call, xml, entity, "Role");
        else
                iam_show_policy(xml, entity, "Policy");
        return 0;
}
