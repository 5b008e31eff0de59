/*
 * iam_account.c - IAM's actions about a whole account: how much there is of what, everything that there is, and
 * its aliases, of which there are none. On the request's loop; lists and counts come back to it.
 */
#include "gateway/iam/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/people/quotas.h"

/* ---- GetAccountSummary ----------------------------------------------------------------------- */

static void show_count(struct s3_xml *xml, const char *key, uint64_t value)
{
        s3_xml_open(xml, "entry");
        s3_xml_textz(xml, "key", key);
        s3_xml_uint(xml, "value", value);
        s3_xml_close(xml, "entry");
}

static void show_quotas(struct s3_xml *xml)
{
        static const struct {
                const char *key;
                uint64_t value;
        } quotas[] = {
                {"UsersQuota", USERS_MAX},
                {"GroupsQuota", GROUPS_MAX},
                {"RolesQuota", ROLES_MAX},
                {"PoliciesQuota", POLICIES_MAX},
                {"AccessKeysPerUserQuota", KEYS_OF_USER_MAX},
                {"GroupsPerUserQuota", GROUPS_OF_USER_MAX},
                {"AttachedPoliciesPerUserQuota", ATTACHED_MAX},
                {"AttachedPoliciesPerGroupQuota", ATTACHED_MAX},
                {"AttachedPoliciesPerRoleQuota", ATTACHED_MAX},
                {"VersionsPerPolicyQuota", VERSIONS_MAX},
                {"PolicySizeQuota", POLICY_CHARS},
                {"UserPolicySizeQuota", INLINE_USER_CHARS},
                {"GroupPolicySizeQuota", INLINE_GROUP_CHARS},
                {"RolePolicySizeQuota", INLINE_ROLE_CHARS},
        };

        for (size_t i = 0; i < sizeof(quotas) / sizeof(quotas[0]); i++)
                show_count(xml, quotas[i].key, quotas[i].value);
}

static void summary_counted(void *arg, int rv, const unsigned counts[])
{
        struct iam_call *call = arg;
        struct s3_xml xml;

        if (!gw_back(call->req))
                return;
        if (rv != 0) {
                iam_refuse(call, rv);
                return;
        }
        iam_answer_begin(call, &xml, true);
        s3_xml_open(&xml, "SummaryMap");
        show_count(&xml, "Users", counts[GW_USER - GW_ACCOUNT]);
        show_count(&xml, "Groups", counts[GW_GROUP - GW_ACCOUNT]);
        show_count(&xml, "Roles", counts[GW_ROLE - GW_ACCOUNT]);
        show_count(&xml, "Policies", counts[GW_POLICY - GW_ACCOUNT]);
        show_count(&xml, "Providers", counts[GW_PROVIDER - GW_ACCOUNT]);
        show_quotas(&xml);
        show_count(&xml, "AccountAccessKeysPresent", 1);
        show_count(&xml, "AccountMFAEnabled", 0);
        show_count(&xml, "AccountSigningCertificatesPresent", 0);
        show_count(&xml, "MFADevices", 0);
        show_count(&xml, "MFADevicesInUse", 0);
        show_count(&xml, "InstanceProfiles", 0);
        show_count(&xml, "ServerCertificates", 0);
        s3_xml_close(&xml, "SummaryMap");
        iam_answer_end(call, &xml, true);
}

void iam_run_summary(struct iam_call *call)
{
        int rv = gw_people_count(call->req->loop, call->account, summary_counted, call);

        if (rv != 0)
                iam_refuse(call, rv);
}

/* ---- ListAccountAliases ---------------------------------------------------------------------- */

static int show_aliases(struct iam_call *call, struct s3_xml *xml)
{
        s3_xml_open(xml, "AccountAliases");
        s3_xml_close(xml, "AccountAliases");
        iam_show_page(xml, false, NULL);
        return 0;
}

void iam_run_aliases(struct iam_call *call)
{
        iam_answer(call, show_aliases);
}

/* ---- GetAccountAuthorizationDetails ---------------------------------------------------------- */

/* In this order; a marker is the number of a stage, a slash, and the last name. */
static const struct details_stage {
        const char *filter, *element;
        unsigned kind; /* 0: policies that are always there */
} details_stages[] = {
        {"User", "UserDetailList", GW_USER},
        {"Group", "GroupDetailList", GW_GROUP},
        {"Role", "RoleDetailList", GW_ROLE},
        {"LocalManagedPolicy", "Policies", GW_POLICY},
        {"AWSManagedPolicy", "Policies", 0},
};
#define DETAILS_STAGES (sizeof(details_stages) / sizeof(details_stages[0]))

/* owner: the request (arena), but for what xml holds */
struct iam_details {
        struct s3_xml xml;
        bool writing; /* xml is to be freed */
        unsigned stage, left;
        const char *open; /* the list that is being written */
        char after[GW_ENTITY_NAME_MAX + 8];
};

static void details_release(struct gw_request *req)
{
        struct iam_call *call = req->work;

        if (call->details->writing)
                s3_xml_free(&call->details->xml);
        call->details->writing = false;
}

static void show_pairs(struct s3_xml *xml, const char *element, const struct gw_pairs *set, bool documents)
{
        s3_xml_open(xml, element);
        for (unsigned i = 0; i < set->count; i++) {
                const struct gw_pair *pair = &set->list[i];
                const char *slash = strrchr(pair->name, '/');

                s3_xml_open(xml, "member");
                s3_xml_textz(xml, "PolicyName", !documents && slash != NULL ? slash + 1 : pair->name);
                if (documents)
                        iam_show_document(xml, "PolicyDocument", pair->text);
                else
                        s3_xml_textz(xml, "PolicyArn", pair->name);
                s3_xml_close(xml, "member");
        }
        s3_xml_close(xml, element);
}

/* What the details have beside what the action about one of them shows; called inside its element. */
void iam_show_holdings(struct s3_xml *xml, const struct gw_entity *entity)
{
        const struct gw_pairs *groups = &entity->sets[GW_SET_GROUPS], *versions = &entity->sets[GW_SET_VERSIONS];

        switch (entity->who.kind) {
        case GW_USER:
                show_pairs(xml, "UserPolicyList", &entity->sets[GW_SET_INLINE], true);
                s3_xml_open(xml, "GroupList");
                for (unsigned i = 0; i < groups->count; i++)
                        s3_xml_textz(xml, "member", groups->list[i].name);
                s3_xml_close(xml, "GroupList");
                break;
        case GW_GROUP:
                show_pairs(xml, "GroupPolicyList", &entity->sets[GW_SET_INLINE], true);
                break;
        case GW_ROLE:
                show_pairs(xml, "RolePolicyList", &entity->sets[GW_SET_INLINE], true);
                s3_xml_open(xml, "InstanceProfileList");
                s3_xml_close(xml, "InstanceProfileList");
                break;
        default:
                s3_xml_open(xml, "PolicyVersionList");
                for (unsigned i = versions->count; i > 0; i--)
                        iam_show_version(xml, entity, &versions->list[i - 1], "member", true);
                s3_xml_close(xml, "PolicyVersionList");
                return;
        }
        show_pairs(xml, "AttachedManagedPolicies", &entity->sets[GW_SET_ATTACHED], false);
}

static bool details_wanted(const struct iam_call *call, unsigned stage)
{
        bool any = false;
        char name[32];

        for (unsigned i = 1; i <= DETAILS_STAGES; i++) {
                const char *filter;

                snprintf(name, sizeof(name), "Filter.member.%u", i);
                filter = iam_form_value(&call->form, name);
                if (filter != NULL && strcmp(filter, details_stages[stage].filter) == 0)
                        return true;
                any |= filter != NULL;
        }
        return !any;
}

static void details_finish(struct iam_call *call, bool more)
{
        struct iam_details *details = call->details;
        char marker[sizeof(details->after) + 8];

        if (details->open != NULL)
                s3_xml_close(&details->xml, details->open);
        snprintf(marker, sizeof(marker), "%u/%s", details->stage, details->after);
        iam_show_page(&details->xml, more, marker);
        details->writing = false; /* the answer takes it */
        iam_answer_end(call, &details->xml, true);
}

static void details_open(struct iam_details *details)
{
        const char *element = details_stages[details->stage].element;

        if (details->open != NULL && strcmp(details->open, element) == 0)
                return;
        if (details->open != NULL)
                s3_xml_close(&details->xml, details->open);
        s3_xml_open(&details->xml, element);
        details->open = element;
}

/* False: the page is full. */
static bool details_show(struct iam_call *call, const struct gw_entity *entity)
{
        struct iam_details *details = call->details;

        iam_show_details(call, &details->xml, entity);
        snprintf(details->after, sizeof(details->after), "%s", entity->who.name);
        details->left--;
        return details->left > 0 && details->xml.len < IAM_PAGE_BYTES;
}

static void details_go_on(struct iam_call *call);

static void details_listed(void *arg, int rv, const struct gw_listed *names, unsigned count, bool more, const char *last)
{
        struct iam_call *call = arg;
        struct iam_details *details = call->details;
        const struct gw_entity *entity;
        struct gw_entity_name who;

        if (!gw_back(call->req))
                return;
        if (rv != 0) {
                iam_refuse(call, rv);
                return;
        }
        details_open(details);
        for (unsigned i = 0; i < count; i++) {
                who = iam_who(call, details_stages[details->stage].kind, names[i].name);
                if (gw_people_find(call->req->loop, &who, &entity, NULL) == 0 && !details_show(call, entity)) {
                        details_finish(call, true);
                        return;
                }
        }
        if (more) {
                snprintf(details->after, sizeof(details->after), "%s", last);
        } else {
                details->stage++;
                details->after[0] = '\0';
        }
        details_go_on(call);
}

/* Those that are always there: the last stage. */
static void details_canned(struct iam_call *call)
{
        struct iam_details *details = call->details;
        const struct gw_entity *entity;
        bool behind = details->after[0] == '\0';

        details_open(details);
        for (unsigned i = 0; (entity = iam_canned_at(i)) != NULL; i++) {
                if (!behind)
                        behind = strcmp(entity->who.name, details->after) == 0;
                else if (!details_show(call, entity)) {
                        details_finish(call, iam_canned_at(i + 1) != NULL);
                        return;
                }
        }
        details_finish(call, false);
}

static void details_go_on(struct iam_call *call)
{
        struct iam_details *details = call->details;
        struct gw_people_query query = {.max = details->left};
        int rv;

        while (details->stage < DETAILS_STAGES && !details_wanted(call, details->stage))
                details->stage++;
        if (details->stage == DETAILS_STAGES) {
                details_finish(call, false);
                return;
        }
        query.kind = details_stages[details->stage].kind;
        if (query.kind == 0) {
                details_canned(call);
                return;
        }
        snprintf(query.account, sizeof(query.account), "%s", call->account);
        snprintf(query.after, sizeof(query.after), "%s", details->after);
        rv = gw_people_list(call->req->loop, &query, details_listed, call);
        if (rv != 0)
                iam_refuse(call, rv);
}

/* Filters are numbered from 1 on, and each is a word of AWS's. */
static bool details_filters_fit(const struct iam_call *call)
{
        unsigned wanted = 0, given = 0;

        for (unsigned i = 0; i < call->form.count; i++) {
                const struct iam_pair *pair = &call->form.pair[i];
                bool known = false;

                if (strncmp(pair->name, "Filter.member.", 14) != 0)
                        continue;
                given++;
                for (unsigned stage = 0; stage < DETAILS_STAGES; stage++)
                        known |= strcmp(pair->value, details_stages[stage].filter) == 0;
                wanted += known && strlen(pair->name) == 15 && pair->name[14] >= '1' && pair->name[14] <= '5';
        }
        return wanted == given;
}

/* One kind after the other, until the page is full. */
void iam_run_details(struct iam_call *call)
{
        const char *marker = call->in.value[IAM_P_MARKER];
        struct iam_details *details = gw_alloc(call->req, sizeof(*details));

        if (details == NULL) {
                iam_refuse(call, -ENOMEM);
                return;
        }
        if (!details_filters_fit(call) ||
            (marker != NULL && (marker[0] < '0' || marker[0] >= (char)('0' + DETAILS_STAGES) || marker[1] != '/' ||
                                strlen(marker + 2) >= sizeof(details->after)))) {
                iam_fail(call, "ValidationError", "Filter or Marker has a value that is not valid.");
                return;
        }
        details->left = iam_max_items(call);
        details->stage = marker != NULL ? (unsigned)(marker[0] - '0') : 0;
        snprintf(details->after, sizeof(details->after), "%s", marker != NULL ? marker + 2 : "");
        details->writing = true;
        call->details = details;
        call->req->work = call;
        call->req->release = details_release;
        iam_answer_begin(call, &details->xml, true);
        details_go_on(call);
}
