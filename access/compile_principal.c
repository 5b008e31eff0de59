/*
 * Compiles Principal and NotPrincipal. Called by compile_statement.c; rule A10.
 */
#include <errno.h>

#include "builder.h"

#define ACCOUNT_DIGITS   12u
#define CANONICAL_DIGITS 64u
#define NAME_MAX_BYTES   2048u

static bool is_account(struct s3_str text)
{
        for (size_t i = 0; i < text.len; i++)
                if (text.data[i] < '0' || text.data[i] > '9')
                        return false;
        return text.len == ACCOUNT_DIGITS;
}

/*
 * Are all characters those of ARNs of users, roles and sessions: no wildcard, no variable, no
 * space?
 */
static bool is_plain(struct s3_str text)
{
        for (size_t i = 0; i < text.len; i++)
                if (text.data[i] <= ' ' || text.data[i] > '~' || memchr("*?${}", text.data[i], 5) != NULL)
                        return false;
        return text.len > 0;
}

/* "role/path/name": something behind the prefix, not ending in "/". */
static bool names_one(struct s3_str resource, struct s3_str prefix)
{
        return s3_str_starts(resource, prefix) && resource.len > prefix.len && resource.data[resource.len - 1] != '/';
}

/* "assumed-role/role/session": two names. */
static bool names_session(struct s3_str resource)
{
        struct s3_str prefix = S3_STR("assumed-role/");
        const char *slash;

        if (!names_one(resource, prefix))
                return false;
        slash = memchr(resource.data + prefix.len, '/', resource.len - prefix.len);
        return slash != NULL && slash > resource.data + prefix.len;
}

/* The ARN of an account, a user, a role or a session. */
static bool name_of_arn(struct s3_str arn, struct acc_name *out)
{
        struct s3_str part[ACC_ARN_PARTS];
        bool iam, sts;

        if (!is_plain(arn) || !acc_arn_split(arn, part) || !s3_str_eq(part[0], S3_STR("arn")) ||
            !s3_str_starts(part[1], S3_STR("aws")) || part[3].len > 0 || !is_account(part[4]))
                return false;
        iam = s3_str_eq(part[2], S3_STR("iam"));
        sts = s3_str_eq(part[2], S3_STR("sts"));
        if (iam && s3_str_eq(part[5], S3_STR("root"))) {
                *out = (struct acc_name){.kind = ACC_NAME_ACCOUNT, .text = part[4]};
                return true;
        }
        *out = (struct acc_name){.kind = ACC_NAME_ARN, .text = arn};
        return (iam && (names_one(part[5], S3_STR("user/")) || names_one(part[5], S3_STR("role/")))) ||
               (sts && (names_session(part[5]) || names_one(part[5], S3_STR("federated-user/"))));
}

static bool name_of_aws(struct s3_str text, struct acc_name *out)
{
        if (s3_str_eq(text, S3_STR("*")) || is_account(text)) {
                *out = (struct acc_name){.kind = text.len == 1 ? ACC_NAME_ANY_AWS : ACC_NAME_ACCOUNT, .text = text};
                return true;
        }
        return name_of_arn(text, out);
}

static bool name_of_canonical(struct s3_str text, struct acc_name *out)
{
        for (size_t i = 0; i < text.len; i++)
                if (memchr("0123456789abcdef", acc_lower(text.data[i]), 16) == NULL)
                        return false;
        *out = (struct acc_name){.kind = ACC_NAME_CANONICAL, .text = text};
        return text.len == CANONICAL_DIGITS;
}

/* One name of the map's entry `type`. False: it is none. */
static bool name_read(enum acc_kind kind, const char *type, struct s3_str text, struct acc_name *out)
{
        if (text.len == 0 || text.len > NAME_MAX_BYTES)
                return false;
        if (strcmp(type, "AWS") == 0)
                return name_of_aws(text, out);
        if (strcmp(type, "CanonicalUser") == 0)
                return kind == ACC_BUCKET && name_of_canonical(text, out);
        *out = (struct acc_name){.kind = strcmp(type, "Service") == 0 ? ACC_NAME_SERVICE : ACC_NAME_FEDERATED, .text = text};
        return (strcmp(type, "Service") == 0 || strcmp(type, "Federated") == 0) && is_plain(text);
}

static int keep_name(struct acc_builder *builder, struct acc_name *name)
{
        if (name->kind == ACC_NAME_ARN)
                name->id = acc_bound_id(builder->bindings, name->text);
        if (!acc_keep(builder->policy, name->text, &name->text) ||
            (name->id.len > 0 && !acc_keep(builder->policy, name->id, &name->id)))
                return -ENOMEM;
        for (size_t i = 0; name->kind == ACC_NAME_CANONICAL && i < name->text.len; i++)
                ((char *)(uintptr_t)name->text.data)[i] = acc_lower(name->text.data[i]);
        return 0;
}

static int build_map(struct acc_builder *builder, json_t *json, struct acc_name *names)
{
        const char *type;
        json_t *list;
        size_t at = 0;

        json_object_foreach(json, type, list)
        {
                builder->part = type;
                for (size_t i = 0; i < acc_list_count(list); i++, at++) {
                        json_t *text = acc_list_at(list, i);
                        int rv;

                        if (!json_is_string(text))
                                return acc_refuse(builder, ACC_REFUSE_PRINCIPAL, S3_STR(""));
                        if (!name_read(builder->policy->kind, type, acc_json_text(text), &names[at]))
                                return acc_refuse(builder, ACC_REFUSE_PRINCIPAL, acc_json_text(text));
                        rv = keep_name(builder, &names[at]);
                        if (rv != 0)
                                return rv;
                }
        }
        builder->part = NULL;
        return 0;
}

int acc_build_names(struct acc_builder *builder, json_t *json, struct acc_statement *out)
{
        bool everyone = json_is_string(json) && s3_str_eq(acc_json_text(json), S3_STR("*"));
        size_t count = everyone;
        struct acc_name *names;
        const char *type;
        json_t *list;

        builder->element = out->not_principal ? "NotPrincipal" : "Principal";
        if (!everyone && !json_is_object(json))
                return acc_refuse(builder, ACC_REFUSE_PRINCIPAL,
                                  json_is_string(json) ? acc_json_text(json) : S3_STR(""));
        if (!everyone)
                json_object_foreach(json, type, list) count += acc_list_count(list);
        if (count == 0)
                return acc_refuse(builder, ACC_REFUSE_PRINCIPAL, S3_STR(""));
        names = count <= UINT16_MAX ? acc_room(builder->policy, count, sizeof(*names)) : NULL;
        if (names == NULL)
                return -ENOMEM;
        out->name = names;
        out->names = (uint16_t)count;
        if (everyone)
                names[0] = (struct acc_name){.kind = ACC_NAME_EVERYONE, .text = S3_STR("*")};
        return everyone ? 0 : build_map(builder, json, names);
}
