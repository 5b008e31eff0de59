/*
 * Compiles one statement of a policy: which elements it has and must not have, its Sid, Effect and
 * actions. Called by compile.c; rules A1 and A4.
 */
#include <errno.h>

#include "builder.h"

enum { SID, EFFECT, PRINCIPAL, NOT_PRINCIPAL, ACTION, NOT_ACTION, RESOURCE, NOT_RESOURCE, CONDITION, ELEMENTS };

static const char *const element_names[ELEMENTS] = {
        "Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition",
};

/* Sorts the elements of a statement. */
static int sort_elements(struct acc_builder *builder, json_t *json, json_t *elements[ELEMENTS])
{
        const char *name;
        json_t *value;

        json_object_foreach(json, name, value)
        {
                size_t i = 0;

                while (i < ELEMENTS && strcmp(name, element_names[i]) != 0)
                        i++;
                builder->element = name;
                if (i == ELEMENTS)
                        return acc_refuse(builder, ACC_REFUSE_UNKNOWN_FIELD, s3_str_of(name));
                elements[i] = value;
        }
        builder->element = NULL;
        for (size_t i = PRINCIPAL; i < CONDITION; i += 2)
                if (elements[i] != NULL && elements[i + 1] != NULL) {
                        builder->element = element_names[i];
                        return acc_refuse(builder, ACC_REFUSE_BOTH, S3_STR(""));
                }
        return 0;
}

static int build_sid(struct acc_builder *builder, json_t *json, struct acc_statement *out)
{
        struct s3_str sid = S3_STR("");

        builder->element = "Sid";
        if (json != NULL && !json_is_string(json))
                return acc_refuse(builder, ACC_REFUSE_TYPE, S3_STR(""));
        if (json != NULL)
                sid = acc_json_text(json);
        for (size_t i = 0; i < sid.len; i++) {
                char c = sid.data[i], lower = acc_lower(c);
                bool plain = (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z');

                if (!plain && (builder->policy->kind != ACC_BUCKET || (unsigned char)c < ' '))
                        return acc_refuse(builder, ACC_REFUSE_SID, sid);
        }
        return acc_keep(builder->policy, sid, &out->sid) ? 0 : -ENOMEM;
}

static int build_effect(struct acc_builder *builder, json_t *json, struct acc_statement *out)
{
        builder->element = "Effect";
        if (json == NULL)
                return acc_refuse(builder, ACC_REFUSE_NO_EFFECT, S3_STR(""));
        if (!json_is_string(json))
                return acc_refuse(builder, ACC_REFUSE_EFFECT, S3_STR(""));
        out->deny = s3_str_eq(acc_json_text(json), S3_STR("Deny"));
        if (!out->deny && !s3_str_eq(acc_json_text(json), S3_STR("Allow")))
                return acc_refuse(builder, ACC_REFUSE_EFFECT, acc_json_text(json));
        return 0;
}

/* The part before the colon: letters, digits and "-". */
static bool vendor_valid(struct s3_str vendor)
{
        for (size_t i = 0; i < vendor.len; i++) {
                char c = acc_lower(vendor.data[i]);

                if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-')
                        return false;
        }
        return vendor.len > 0;
}

static int check_action(struct acc_builder *builder, struct s3_str action)
{
        const char *colon = action.len > 0 ? memchr(action.data, ':', action.len) : NULL;
        struct s3_str vendor;

        if (s3_str_eq(action, S3_STR("*")))
                return builder->policy->kind == ACC_TRUST ? acc_refuse(builder, ACC_REFUSE_TRUST_ACTION, action) : 0;
        if (colon == NULL)
                return acc_refuse(builder, ACC_REFUSE_ACTION, action);
        vendor = (struct s3_str){action.data, (size_t)(colon - action.data)};
        if (memchr(colon + 1, ':', action.len - vendor.len - 1) != NULL)
                return acc_refuse(builder, ACC_REFUSE_ACTION_COLONS, action);
        if (!vendor_valid(vendor))
                return acc_refuse(builder, ACC_REFUSE_ACTION_VENDOR, vendor);
        if (builder->policy->kind == ACC_BUCKET && !s3_str_eq_nocase(vendor, S3_STR("s3")))
                return acc_refuse(builder, ACC_REFUSE_ACTION, action);
        if (builder->policy->kind == ACC_TRUST && !s3_str_eq_nocase(vendor, S3_STR("sts")))
                return acc_refuse(builder, ACC_REFUSE_TRUST_ACTION, action);
        return 0;
}

static int build_action(struct acc_builder *builder, struct s3_str action, struct acc_pattern *out)
{
        int rv = check_action(builder, action);
        struct s3_str kept;
        unsigned on;

        if (rv != 0)
                return rv;
        if (!acc_keep(builder->policy, action, &kept))
                return -ENOMEM;
        for (size_t i = 0; i < kept.len; i++)
                ((char *)(uintptr_t)kept.data)[i] = acc_lower(kept.data[i]);
        rv = acc_pattern_read(builder->policy, kept, true, false, out);
        if (rv != 0 || builder->policy->kind != ACC_BUCKET)
                return rv;
        on = acc_s3_actions(out);
        builder->all_on &= on;
        builder->one_on_none |= (on & (ACC_ON_BUCKET | ACC_ON_OBJECT)) == 0;
        return on != 0 ? 0 : acc_refuse(builder, ACC_REFUSE_ACTION, action);
}

int acc_build_actions(struct acc_builder *builder, json_t *json, struct acc_statement *out)
{
        size_t count = json != NULL ? acc_list_count(json) : 0;
        struct acc_pattern *patterns;

        builder->element = out->not_action ? "NotAction" : "Action";
        builder->all_on = ~0u;
        builder->one_on_none = false;
        if (count == 0)
                return acc_refuse(builder, ACC_REFUSE_NO_ACTION, S3_STR(""));
        patterns = count <= UINT16_MAX ? acc_room(builder->policy, count, sizeof(*patterns)) : NULL;
        if (patterns == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < count; i++) {
                json_t *action = acc_list_at(json, i);
                int rv;

                if (!json_is_string(action))
                        return acc_refuse(builder, ACC_REFUSE_TYPE, S3_STR(""));
                rv = build_action(builder, acc_json_text(action), &patterns[i]);
                if (rv != 0)
                        return rv;
        }
        out->action = patterns;
        out->actions = (uint16_t)count;
        return 0;
}

/* Each action of a bucket policy must apply to a resource of its statement. */
static int check_actions_apply(struct acc_builder *builder, const struct acc_statement *statement, unsigned on)
{
        bool applies = (builder->all_on & on) != 0;

        if (builder->policy->kind != ACC_BUCKET || statement->not_action || statement->not_resource)
                return 0;
        builder->element = "Action";
        if (on == (ACC_ON_BUCKET | ACC_ON_OBJECT))
                applies = !builder->one_on_none;
        return applies ? 0 : acc_refuse(builder, ACC_REFUSE_MISMATCH, S3_STR(""));
}

/* Are the elements there that this kind of policy needs, and no others? */
static int check_elements(struct acc_builder *builder, json_t *const elements[ELEMENTS])
{
        bool principal = elements[PRINCIPAL] != NULL || elements[NOT_PRINCIPAL] != NULL;
        bool resource = elements[RESOURCE] != NULL || elements[NOT_RESOURCE] != NULL;

        builder->element = "Principal";
        if (acc_kind_has_principals(builder->policy->kind) && !principal)
                return acc_refuse(builder, ACC_REFUSE_NO_PRINCIPAL, S3_STR(""));
        if (!acc_kind_has_principals(builder->policy->kind) && principal)
                return acc_refuse(builder, ACC_REFUSE_HAS_PRINCIPAL, S3_STR(""));
        builder->element = "Resource";
        if (builder->policy->kind == ACC_TRUST && resource)
                return acc_refuse(builder, ACC_REFUSE_HAS_RESOURCE, S3_STR(""));
        return 0;
}

int acc_build_statement(struct acc_builder *builder, json_t *json, struct acc_statement *out)
{
        json_t *elements[ELEMENTS] = {NULL};
        unsigned on = 0;
        int rv;

        builder->element = NULL;
        if (!json_is_object(json))
                return acc_refuse(builder, ACC_REFUSE_TYPE, S3_STR(""));
        rv = sort_elements(builder, json, elements);
        if (rv == 0)
                rv = build_sid(builder, elements[SID], out);
        if (rv == 0)
                rv = build_effect(builder, elements[EFFECT], out);
        if (rv == 0)
                rv = check_elements(builder, elements);
        out->not_principal = elements[NOT_PRINCIPAL] != NULL;
        out->not_action = elements[NOT_ACTION] != NULL;
        out->not_resource = elements[NOT_RESOURCE] != NULL;
        if (rv == 0 && acc_kind_has_principals(builder->policy->kind))
                rv = acc_build_names(builder, elements[out->not_principal ? NOT_PRINCIPAL : PRINCIPAL], out);
        if (rv == 0)
                rv = acc_build_actions(builder, elements[out->not_action ? NOT_ACTION : ACTION], out);
        if (rv == 0 && builder->policy->kind != ACC_TRUST)
                rv = acc_build_resources(builder, elements[out->not_resource ? NOT_RESOURCE : RESOURCE], out, &on);
        if (rv == 0)
                rv = check_actions_apply(builder, out, on);
        return rv == 0 && elements[CONDITION] != NULL ? acc_build_conditions(builder, elements[CONDITION], out) : rv;
}
