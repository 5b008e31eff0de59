/*
 * iam_policies.c - IAM's actions about managed policies and their versions. On the request's loop.
 */
#include "gateway/iam/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_BYTES 24576u /* of a text that is kept, white space included */
#define VERSIONS_MOST 5u

void iam_run_create_policy(struct iam_call *call)
{
        const char *document = call->in.value[IAM_P_DOCUMENT];
        struct gw_pair first = {.name = "v1", .text = document, .ms = lp_wall_ms()};
        struct gw_entity policy = {
                .description = call->in.value[IAM_P_DESCRIPTION],
                .version = "v1",
                .created_ms = first.ms,
        };

        if (!iam_check_document(call, document, ACC_MANAGED, VERSION_BYTES))
                return;
        policy.sets[GW_SET_VERSIONS] = (struct gw_pairs){1, &first};
        iam_create_named(call, &policy, GW_POLICY, "ANPA");
}

static void refuse_version(struct iam_call *call, const char *version)
{
        iam_fail(call, "NoSuchEntity", gw_printf(call->req, "Policy version %s does not exist.", version));
}

static int show_version_of(struct iam_call *call, struct s3_xml *xml, const char *version, bool with_document)
{
        const struct gw_entity *policy;
        const struct gw_pair *pair;
        int rv = iam_found(call, &policy);

        if (rv != 0)
                return rv;
        pair = iam_pair_find(&policy->sets[GW_SET_VERSIONS], version);
        if (pair == NULL)
                return -ENOENT;
        iam_show_version(xml, policy, pair, "PolicyVersion", with_document);
        return 0;
}

static int show_version_asked(struct iam_call *call, struct s3_xml *xml)
{
        return show_version_of(call, xml, call->in.value[IAM_P_VERSION], true);
}

static int show_version_made(struct iam_call *call, struct s3_xml *xml)
{
        return show_version_of(call, xml, call->key, false);
}

void iam_run_get_version(struct iam_call *call)
{
        const struct gw_entity *policy = iam_find_policy(call, call->in.value[IAM_P_ARN]);

        if (policy == NULL)
                return;
        if (iam_pair_find(&policy->sets[GW_SET_VERSIONS], call->in.value[IAM_P_VERSION]) == NULL)
                refuse_version(call, call->in.value[IAM_P_VERSION]);
        else
                iam_answer(call, show_version_asked);
}

/* Behind the newest that there is. */
void iam_run_create_version(struct iam_call *call)
{
        const char *document = call->in.value[IAM_P_DOCUMENT], *as_default = call->in.value[IAM_P_AS_DEFAULT];
        struct gw_entity *edited;
        struct gw_pairs *versions;

        if (!iam_check_document(call, document, ACC_MANAGED, VERSION_BYTES))
                return;
        edited = iam_find_edit_policy(call, call->in.value[IAM_P_ARN]);
        if (edited == NULL)
                return;
        versions = &edited->sets[GW_SET_VERSIONS];
        if (versions->count >= VERSIONS_MOST) {
                iam_fail(call, "LimitExceeded",
                         "A managed policy can have up to 5 versions. Before you create a new version, you must delete "
                         "an existing version.");
                return;
        }
        snprintf(call->key, sizeof(call->key), "v%lu",
                 strtoul(versions->list[versions->count - 1].name + 1, NULL, 10) + 1);
        iam_pair_put(versions, call->key, document, lp_wall_ms());
        if (as_default != NULL && strcmp(as_default, "true") == 0)
                edited->version = call->key;
        iam_replace(call, edited, show_version_made);
}

void iam_run_default_version(struct iam_call *call)
{
        struct gw_entity *edited = iam_find_edit_policy(call, call->in.value[IAM_P_ARN]);
        const struct gw_pair *pair;

        if (edited == NULL)
                return;
        pair = iam_pair_find(&edited->sets[GW_SET_VERSIONS], call->in.value[IAM_P_VERSION]);
        if (pair == NULL) {
                refuse_version(call, call->in.value[IAM_P_VERSION]);
                return;
        }
        edited->version = pair->name;
        iam_replace(call, edited, NULL);
}

void iam_run_delete_version(struct iam_call *call)
{
        const char *version = call->in.value[IAM_P_VERSION];
        struct gw_entity *edited = iam_find_edit_policy(call, call->in.value[IAM_P_ARN]);
        struct gw_pair *pair = edited != NULL ? iam_pair_find(&edited->sets[GW_SET_VERSIONS], version) : NULL;

        if (edited == NULL)
                return;
        if (pair == NULL) {
                refuse_version(call, version);
                return;
        }
        if (strcmp(version, edited->version) == 0) {
                iam_fail(call, "DeleteConflict", "Cannot delete the default version of a policy.");
                return;
        }
        iam_pair_drop(&edited->sets[GW_SET_VERSIONS], pair);
        iam_replace(call, edited, NULL);
}

/* Newest first. */
static int show_versions(struct iam_call *call, struct s3_xml *xml)
{
        const struct gw_entity *policy;
        const struct gw_pairs *versions;
        int rv = iam_found(call, &policy);
        const char *marker = call->in.value[IAM_P_MARKER];
        unsigned most = iam_max_items(call), i, shown = 0;

        if (rv != 0)
                return rv;
        versions = &policy->sets[GW_SET_VERSIONS];
        i = versions->count;
        if (marker != NULL)
                for (i = 0; i < versions->count && strcmp(versions->list[i].name, marker) != 0; i++)
                        ;
        s3_xml_open(xml, "Versions");
        for (; i > 0 && shown < most; i--, shown++)
                iam_show_version(xml, policy, &versions->list[i - 1], "member", false);
        s3_xml_close(xml, "Versions");
        iam_show_page(xml, i > 0, i < versions->count ? versions->list[i].name : "");
        return 0;
}

void iam_run_list_versions(struct iam_call *call)
{
        if (iam_find_policy(call, call->in.value[IAM_P_ARN]) != NULL)
                iam_answer(call, show_versions);
}

/* ---- whom a policy is attached to ------------------------------------------------------------ */

static bool filter_passes(const struct iam_call *call, const char *name)
{
        const char *filter = call->in.value[IAM_P_FILTER];

        return filter == NULL || (strcmp(filter, "User") == 0 && strncmp(name, "user/", 5) == 0) ||
               (strcmp(filter, "Group") == 0 && strncmp(name, "group/", 6) == 0) ||
               (strcmp(filter, "Role") == 0 && strncmp(name, "role/", 5) == 0);
}

/* Those of one kind among the names of a page, which are "user/NAME" and so on. */
static void show_holders(struct iam_call *call, struct s3_xml *xml, const struct gw_listed *names, unsigned count,
                         unsigned kind)
{
        static const char *const words[] = {"user/", "", "group/", "role/"};
        static const char *const shown[] = {"User", "", "Group", "Role"};
        const char *word = words[kind - GW_USER], *as = shown[kind - GW_USER];
        const struct gw_entity *entity;
        char element[32], field[32];

        snprintf(element, sizeof(element), "Policy%ss", as);
        s3_xml_open(xml, element);
        for (unsigned i = 0; i < count; i++) {
                struct gw_entity_name who;

                if (strncmp(names[i].name, word, strlen(word)) != 0 || !filter_passes(call, names[i].name))
                        continue;
                who = iam_who(call, kind, names[i].name + strlen(word));
                if (gw_people_find(call->req->loop, &who, &entity, NULL) != 0)
                        continue;
                s3_xml_open(xml, "member");
                snprintf(field, sizeof(field), "%sName", as);
                s3_xml_textz(xml, field, entity->who.name);
                snprintf(field, sizeof(field), "%sId", as);
                s3_xml_textz(xml, field, entity->id);
                s3_xml_close(xml, "member");
        }
        s3_xml_close(xml, element);
}

static void holders_each(struct iam_call *call, struct s3_xml *xml, const struct gw_listed *names, unsigned count)
{
        show_holders(call, xml, names, count, GW_GROUP);
        show_holders(call, xml, names, count, GW_USER);
        show_holders(call, xml, names, count, GW_ROLE);
}

void iam_run_entities_of(struct iam_call *call)
{
        const char *usage = call->in.value[IAM_P_USAGE];
        bool bounds = usage != NULL && strcmp(usage, "PermissionsBoundary") == 0;
        struct gw_people_query query = {.kind = bounds ? GW_LIST_BOUNDED : GW_LIST_ATTACHED};
        const struct gw_entity *policy = iam_find_policy(call, call->in.value[IAM_P_ARN]);

        if (policy == NULL)
                return;
        gw_entity_arn(policy, query.of, sizeof(query.of));
        call->page = holders_each;
        iam_list(call, &query, NULL, NULL);
}
