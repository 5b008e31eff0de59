/*
 * iam_canned.c - managed policies that are always there, as entities that IAM's actions can show, and the list of
 * all policies, which begins with them. On the request's loop.
 */
#include "gateway/iam/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/rights/rights.h"

#define CANNED_MAX     16u
#define CANNED_MADE_MS 1262304000000 /* 2010-01-01 */
#define CANNED_MARKER  "aws/"        /* and a number: no name of a policy has a slash */

/* A form for each, which never changes. Of this thread. */
struct canned_form {
        struct gw_entity entity;
        struct gw_pair version;
};

static void canned_make(struct canned_form *form, const struct gw_canned *canned)
{
        form->version = (struct gw_pair){.name = "v1", .text = canned->text, .ms = CANNED_MADE_MS};
        form->entity = (struct gw_entity){
                .who = {.kind = GW_POLICY, .account = "aws"},
                .path = "/",
                .id = canned->id,
                .title = "",
                .description = "",
                .boundary = "",
                .version = "v1",
                .created_ms = CANNED_MADE_MS,
                .sets[GW_SET_VERSIONS] = {1, &form->version},
        };
        snprintf(form->entity.who.name, sizeof(form->entity.who.name), "%s",
                 canned->arn + sizeof(GW_AWS_POLICY_ARN) - 1);
}

const struct gw_entity *iam_canned_at(unsigned index)
{
        static __thread struct canned_form forms[CANNED_MAX];
        const struct gw_canned *canned = index < CANNED_MAX ? gw_canned_at(index) : NULL;

        if (canned == NULL)
                return NULL;
        if (forms[index].entity.id == NULL)
                canned_make(&forms[index], canned);
        return &forms[index].entity;
}

const struct gw_entity *iam_canned_find(const char *arn)
{
        for (unsigned i = 0; gw_canned_at(i) != NULL; i++)
                if (strcmp(gw_canned_at(i)->arn, arn) == 0)
                        return iam_canned_at(i);
        return NULL;
}

/* ---- ListPolicies ---------------------------------------------------------------------------- */

static bool scope_has(const struct iam_call *call, const char *which)
{
        const char *scope = call->in.value[IAM_P_SCOPE];

        return scope == NULL || strcmp(scope, "All") == 0 || strcmp(scope, which) == 0;
}

/* The first one of this page. */
static unsigned canned_first(const struct iam_call *call)
{
        const char *marker = call->in.value[IAM_P_MARKER], *prefix = call->in.value[IAM_P_PREFIX];

        if (!scope_has(call, "AWS") || (prefix != NULL && strcmp(prefix, "/") != 0))
                return CANNED_MAX;
        if (marker == NULL)
                return 0;
        if (strncmp(marker, CANNED_MARKER, sizeof(CANNED_MARKER) - 1) != 0)
                return CANNED_MAX;
        return (unsigned)strtoul(marker + sizeof(CANNED_MARKER) - 1, NULL, 10);
}

/* And how many of them there are on it. */
static unsigned canned_count(const struct iam_call *call)
{
        unsigned first = canned_first(call), count = 0, most = iam_max_items(call);

        while (count < most && iam_canned_at(first + count) != NULL)
                count++;
        return count;
}

static void show_canned(struct iam_call *call, struct s3_xml *xml)
{
        unsigned first = canned_first(call), count = canned_count(call);

        for (unsigned i = first; i < first + count; i++)
                iam_show_policy(xml, iam_canned_at(i), "member");
}

/* A page that no entry is on. */
static int show_canned_page(struct iam_call *call, struct s3_xml *xml)
{
        unsigned next = canned_first(call) + canned_count(call);
        bool more = iam_canned_at(next) != NULL || (scope_has(call, "Local") && canned_count(call) > 0);

        s3_xml_open(xml, "Policies");
        show_canned(call, xml);
        s3_xml_close(xml, "Policies");
        snprintf(call->key, sizeof(call->key), CANNED_MARKER "%u", next);
        iam_show_page(xml, more, call->key);
        return 0;
}

static void policy_each(struct iam_call *call, struct s3_xml *xml, const char *name)
{
        struct gw_entity_name who = iam_who(call, GW_POLICY, name);
        const struct gw_entity *policy;

        if (gw_people_find(call->req->loop, &who, &policy, NULL) == 0) /* else gone meanwhile */
                iam_show_policy(xml, policy, "member");
}

void iam_run_list_policies(struct iam_call *call)
{
        struct gw_people_query query = {.kind = GW_POLICY};
        const char *marker = call->in.value[IAM_P_MARKER];

        if (!scope_has(call, "Local") || canned_count(call) == iam_max_items(call)) {
                iam_answer(call, show_canned_page);
                return;
        }
        call->before = show_canned;
        call->skipped = canned_count(call);
        call->from_start = marker != NULL && strncmp(marker, CANNED_MARKER, sizeof(CANNED_MARKER) - 1) == 0;
        iam_list(call, &query, "Policies", policy_each);
}
