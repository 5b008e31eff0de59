/*
 * Compiles a policy: the document as a whole. Called when a policy is set, or read from the store;
 * any thread. Nothing recurses: the depth is bounded before the JSON is parsed (A19).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "builder.h"
#include "s3_json.h"

struct kind_limits {
        size_t characters;
        bool spaces; /* white space counts */
};

static const struct kind_limits kind_limits[] = {
        [ACC_BUCKET] = {ACC_BUCKET_BYTES, true},
        [ACC_MANAGED] = {6144, false},
        [ACC_INLINE_USER] = {2048, false},
        [ACC_INLINE_GROUP] = {5120, false},
        [ACC_INLINE_ROLE] = {10240, false},
        [ACC_TRUST] = {2048, false},
        [ACC_SESSION] = {2048, true},
};

static int check_text_length(struct acc_builder *builder, struct s3_str text)
{
        const struct kind_limits *limits = &kind_limits[builder->policy->kind];
        size_t length = builder->policy->kind == ACC_BUCKET ? text.len : acc_json_characters(text, limits->spaces);
        char limit[24];

        if (length <= limits->characters && text.len <= ACC_RAW_MAX)
                return 0;
        snprintf(limit, sizeof(limit), "%zu", limits->characters);
        return acc_refuse(builder, ACC_REFUSE_TOO_LONG, s3_str_of(limit));
}

static int build_version(struct acc_builder *builder, json_t *version)
{
        builder->element = "Version";
        if (version == NULL)
                return 0; /* as 2008-10-17 */
        if (!json_is_string(version))
                return acc_refuse(builder, ACC_REFUSE_VERSION, S3_STR(""));
        builder->variables = s3_str_eq(acc_json_text(version), S3_STR("2012-10-17"));
        if (!builder->variables && !s3_str_eq(acc_json_text(version), S3_STR("2008-10-17")))
                return acc_refuse(builder, ACC_REFUSE_VERSION, acc_json_text(version));
        return 0;
}

static int check_sids(struct acc_builder *builder, const struct acc_statement *statements, size_t count)
{
        for (size_t i = 0; i < count; i++)
                for (size_t before = 0; statements[i].sid.len > 0 && before < i; before++)
                        if (s3_str_eq(statements[i].sid, statements[before].sid)) {
                                builder->statement = i;
                                builder->element = "Sid";
                                return acc_refuse(builder, ACC_REFUSE_SID_TWICE, statements[i].sid);
                        }
        return 0;
}

/*
 * Every statement takes more than 40 bytes of a text of at most ACC_RAW_MAX, if it is well-formed.
 */
#define STATEMENTS_MAX (ACC_BUCKET_BYTES / 40)

static int build_statements(struct acc_builder *builder, json_t *json)
{
        size_t count = acc_list_count(json);
        struct acc_statement *statements;

        builder->element = "Statement";
        if (!json_is_array(json) && !json_is_object(json))
                return acc_refuse(builder, ACC_REFUSE_TYPE, S3_STR(""));
        if (count == 0 || count > STATEMENTS_MAX)
                return acc_refuse(builder, count == 0 ? ACC_REFUSE_EMPTY_STATEMENT : ACC_REFUSE_TYPE, S3_STR(""));
        statements = acc_room(builder->policy, count, sizeof(*statements));
        if (statements == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < count; i++) {
                int rv;

                builder->statement = i;
                rv = acc_build_statement(builder, acc_list_at(json, i), &statements[i]);
                if (rv != 0)
                        return rv;
                builder->policy->is_public |=
                        builder->policy->kind == ACC_BUCKET && acc_statement_is_public(&statements[i]);
        }
        builder->policy->statements = statements;
        builder->policy->count = (uint16_t)count;
        return check_sids(builder, statements, count);
}

static int build_document(struct acc_builder *builder, json_t *root)
{
        json_t *version = json_object_get(root, "Version"), *statement = json_object_get(root, "Statement");
        json_t *id = json_object_get(root, "Id"), *value;
        const char *name;
        int rv;

        json_object_foreach(root, name, value) if (strcmp(name, "Version") != 0 && strcmp(name, "Id") != 0 &&
                                                   strcmp(name, "Statement") != 0)
        {
                builder->element = name;
                return acc_refuse(builder, ACC_REFUSE_UNKNOWN_FIELD, s3_str_of(name));
        }
        rv = build_version(builder, version);
        if (rv != 0)
                return rv;
        builder->element = "Id";
        if (id != NULL && !json_is_string(id))
                return acc_refuse(builder, ACC_REFUSE_TYPE, S3_STR(""));
        builder->element = "Statement";
        if (statement == NULL)
                return acc_refuse(builder, ACC_REFUSE_NO_STATEMENT, S3_STR(""));
        return build_statements(builder, statement);
}

/* Reads the JSON and builds the policy from it. */
static int build_text(struct acc_builder *builder, struct s3_str text)
{
        json_t *root;
        int rv = check_text_length(builder, text);

        if (rv != 0)
                return rv;
        if (text.len == 0 || (builder->policy->kind == ACC_BUCKET && text.data[0] != '{'))
                return acc_refuse(builder, ACC_REFUSE_FIRST_BYTE, S3_STR(""));
        if (acc_json_depth(text) > ACC_DEPTH_MAX)
                return acc_refuse(builder, ACC_REFUSE_DEEP, S3_STR(""));
        root = s3_json_load(text, JSON_REJECT_DUPLICATES, NULL);
        if (root == NULL)
                return errno == ENOMEM ? -ENOMEM : acc_refuse(builder, ACC_REFUSE_JSON, S3_STR(""));
        rv = json_is_object(root) ? build_document(builder, root) : acc_refuse(builder, ACC_REFUSE_TYPE, S3_STR(""));
        json_decref(root);
        return rv;
}

int acc_policy_compile(struct s3_str text, enum acc_kind kind, struct s3_str bucket, struct acc_policy **out,
                       struct acc_error *error)
{
        struct acc_builder builder = {.bucket = bucket, .error = error, .statement = ACC_NOWHERE};
        int rv;

        *out = NULL;
        *error = (struct acc_error){.message = ""};
        builder.policy = calloc(1, sizeof(*builder.policy));
        if (builder.policy == NULL)
                return -ENOMEM;
        builder.policy->kind = kind;
        builder.policy->bytes = sizeof(*builder.policy);
        if (acc_kind_has_principals(kind))
                text = acc_bound_cut(text, &builder.bindings);
        rv = build_text(&builder, text);
        if (rv != 0) {
                acc_policy_free(builder.policy);
                return rv;
        }
        *out = builder.policy;
        return 0;
}
