/*
 * iam_attach.c - IAM's actions about what users, groups and roles have: attached and inline policies,
 * boundaries, tags. The action's row says of which kind. On the request's loop.
 */
#include "gateway/iam/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define INLINE_BYTES 10240u /* of a text that is kept, white space included */

/* Whom the action is about; a policy or provider by its ARN. NULL: refused. */
static const struct gw_entity *find_holder(struct iam_call *call)
{
        if (call->action->kind == GW_POLICY)
                return iam_find_policy(call, call->in.value[IAM_P_ARN]);
        if (call->action->kind == GW_PROVIDER)
                return iam_find_provider(call);
        return iam_find(call, call->action->kind, iam_name(call, call->action->kind));
}

static struct gw_entity *edit_holder(struct iam_call *call)
{
        const struct gw_entity *holder = find_holder(call);

        return holder != NULL ? iam_edit(call, holder) : NULL;
}

/* A page of one of its sets, once the answer is written. */
static int show_set_of(struct iam_call *call, struct s3_xml *xml, enum gw_entity_set set, const char *element,
                       void (*each)(struct iam_call *call, struct s3_xml *xml, const struct gw_pair *pair))
{
        const struct gw_entity *holder;
        int rv = iam_found(call, &holder);

        if (rv == 0)
                iam_show_set(call, xml, &holder->sets[set], element, each);
        return rv;
}

/* ---- attached policies ----------------------------------------------------------------------- */

void iam_run_attach(struct iam_call *call)
{
        const char *arn = call->in.value[IAM_P_ARN];
        struct gw_entity *holder;

        if (iam_find_policy(call, arn) == NULL)
                return;
        holder = edit_holder(call);
        if (holder == NULL)
                return;
        if (iam_pair_find(&holder->sets[GW_SET_ATTACHED], arn) != NULL) {
                iam_answer(call, NULL);
                return;
        }
        iam_pair_put(&holder->sets[GW_SET_ATTACHED], arn, "", 0);
        iam_replace(call, holder, NULL);
}

void iam_run_detach(struct iam_call *call)
{
        struct gw_entity *holder = edit_holder(call);
        const char *arn = call->in.value[IAM_P_ARN];
        struct gw_pair *pair = holder != NULL ? iam_pair_find(&holder->sets[GW_SET_ATTACHED], arn) : NULL;

        if (holder == NULL)
                return;
        if (pair == NULL) {
                iam_fail(call, "NoSuchEntity", gw_printf(call->req, "Policy %s was not found.", arn));
                return;
        }
        iam_pair_drop(&holder->sets[GW_SET_ATTACHED], pair);
        iam_replace(call, holder, NULL);
}

static void attached_each(struct iam_call *call, struct s3_xml *xml, const struct gw_pair *pair)
{
        const char *prefix = call->in.value[IAM_P_PREFIX], *path = strchr(pair->name, '/');

        if (path == NULL || (prefix != NULL && strncmp(path, prefix, strlen(prefix)) != 0))
                return;
        s3_xml_open(xml, "member");
        s3_xml_textz(xml, "PolicyName", strrchr(pair->name, '/') + 1);
        s3_xml_textz(xml, "PolicyArn", pair->name);
        s3_xml_close(xml, "member");
}

static int show_attached(struct iam_call *call, struct s3_xml *xml)
{
        return show_set_of(call, xml, GW_SET_ATTACHED, "AttachedPolicies", attached_each);
}

void iam_run_list_attached(struct iam_call *call)
{
        if (find_holder(call) != NULL)
                iam_answer(call, show_attached);
}

/* ---- inline policies ------------------------------------------------------------------------- */

void iam_run_put_inline(struct iam_call *call)
{
        unsigned kind = call->action->kind;
        enum acc_kind as = kind == GW_USER ? ACC_INLINE_USER : kind == GW_GROUP ? ACC_INLINE_GROUP : ACC_INLINE_ROLE;
        struct gw_entity *holder;

        if (!iam_check_document(call, call->in.value[IAM_P_DOCUMENT], as, INLINE_BYTES))
                return;
        holder = edit_holder(call);
        if (holder == NULL)
                return;
        if (holder->sets[GW_SET_INLINE].count >= GW_ENTITY_SET_MAX &&
            iam_pair_find(&holder->sets[GW_SET_INLINE], call->in.value[IAM_P_POLICY]) == NULL) {
                iam_refuse(call, -EDQUOT);
                return;
        }
        iam_pair_put(&holder->sets[GW_SET_INLINE], call->in.value[IAM_P_POLICY], call->in.value[IAM_P_DOCUMENT], 0);
        iam_replace(call, holder, NULL);
}

static void refuse_inline(struct iam_call *call)
{
        iam_fail(call, "NoSuchEntity",
                 gw_printf(call->req, "The policy with name %s cannot be found.", call->in.value[IAM_P_POLICY]));
}

static int show_inline(struct iam_call *call, struct s3_xml *xml)
{
        static const char *const names[] = {"UserName", "", "GroupName", "RoleName"};
        const struct gw_entity *holder;
        const struct gw_pair *pair;
        int rv = iam_found(call, &holder);

        if (rv != 0)
                return rv;
        pair = iam_pair_find(&holder->sets[GW_SET_INLINE], call->in.value[IAM_P_POLICY]);
        if (pair == NULL)
                return -ENOENT;
        s3_xml_textz(xml, names[call->who.kind - GW_USER], holder->who.name);
        s3_xml_textz(xml, "PolicyName", pair->name);
        iam_show_document(xml, "PolicyDocument", pair->text);
        return 0;
}

void iam_run_get_inline(struct iam_call *call)
{
        const struct gw_entity *holder = find_holder(call);

        if (holder == NULL)
                return;
        if (iam_pair_find(&holder->sets[GW_SET_INLINE], call->in.value[IAM_P_POLICY]) == NULL)
                refuse_inline(call);
        else
                iam_answer(call, show_inline);
}

void iam_run_delete_inline(struct iam_call *call)
{
        struct gw_entity *holder = edit_holder(call);
        struct gw_pair *pair =
                holder != NULL ? iam_pair_find(&holder->sets[GW_SET_INLINE], call->in.value[IAM_P_POLICY]) : NULL;

        if (holder == NULL)
                return;
        if (pair == NULL) {
                refuse_inline(call);
                return;
        }
        iam_pair_drop(&holder->sets[GW_SET_INLINE], pair);
        iam_replace(call, holder, NULL);
}

static void inline_each(struct iam_call *call, struct s3_xml *xml, const struct gw_pair *pair)
{
        s3_xml_textz(xml, "member", pair->name);
}

static int show_inline_names(struct iam_call *call, struct s3_xml *xml)
{
        return show_set_of(call, xml, GW_SET_INLINE, "PolicyNames", inline_each);
}

void iam_run_list_inline(struct iam_call *call)
{
        if (find_holder(call) != NULL)
                iam_answer(call, show_inline_names);
}

/* ---- boundaries ------------------------------------------------------------------------------ */

void iam_run_put_boundary(struct iam_call *call)
{
        struct gw_entity *holder;

        if (iam_find_policy(call, call->in.value[IAM_P_BOUNDARY]) == NULL)
                return;
        holder = edit_holder(call);
        if (holder == NULL)
                return;
        holder->boundary = call->in.value[IAM_P_BOUNDARY];
        iam_replace(call, holder, NULL);
}

void iam_run_drop_boundary(struct iam_call *call)
{
        struct gw_entity *holder = edit_holder(call);

        if (holder == NULL)
                return;
        if (*holder->boundary == '\0') {
                iam_fail(call, "NoSuchEntity", "There is no permissions boundary.");
                return;
        }
        holder->boundary = "";
        iam_replace(call, holder, NULL);
}

/* ---- tags ------------------------------------------------------------------------------------ */

void iam_run_tag(struct iam_call *call)
{
        struct gw_entity *holder = edit_holder(call);

        if (holder == NULL)
                return;
        for (unsigned i = 0; i < call->in.tag_count; i++) {
                const struct gw_pair *tag = &call->in.tags[i];
                struct gw_pair *there = iam_tag_find(holder, tag->name);

                *(there != NULL ? there : &holder->sets[GW_SET_TAGS].list[holder->sets[GW_SET_TAGS].count++]) = *tag;
        }
        if (holder->sets[GW_SET_TAGS].count > IAM_TAGS_MAX)
                iam_refuse(call, -EDQUOT);
        else
                iam_replace(call, holder, NULL);
}

void iam_run_untag(struct iam_call *call)
{
        struct gw_entity *holder = edit_holder(call);

        if (holder == NULL)
                return;
        for (unsigned i = 0; i < call->in.tag_key_count; i++) {
                struct gw_pair *pair = iam_tag_find(holder, call->in.tag_keys[i]);

                if (pair != NULL)
                        iam_pair_drop(&holder->sets[GW_SET_TAGS], pair);
        }
        iam_replace(call, holder, NULL);
}

static void tag_each(struct iam_call *call, struct s3_xml *xml, const struct gw_pair *pair)
{
        s3_xml_open(xml, "member");
        s3_xml_textz(xml, "Key", pair->name);
        s3_xml_textz(xml, "Value", pair->text);
        s3_xml_close(xml, "member");
}

static int show_tags_page(struct iam_call *call, struct s3_xml *xml)
{
        return show_set_of(call, xml, GW_SET_TAGS, "Tags", tag_each);
}

void iam_run_list_tags(struct iam_call *call)
{
        if (find_holder(call) != NULL)
                iam_answer(call, show_tags_page);
}
