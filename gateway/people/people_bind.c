/*
 * people_bind.c - binds the users and roles that a policy names to their unique ids, so that nobody who is made
 * under the same name later gets what they had; and shows such a policy again, as AWS does: with the ARN that the
 * one of this id has now, or with the id where there is none any more. Rules B1 to B4 of rights.md. Any loop.
 */
#include "gateway/people/people.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s3_json.h"

#define ARN_SIZE (GW_ENTITY_PATH_MAX + GW_ENTITY_NAME_MAX + 64)

/* The user or role of an ARN. -ENOENT: it names neither, or nobody that there is. */
static int bind_find(struct gw_loop *loop, struct s3_str arn, const struct gw_entity **out)
{
        char text[ARN_SIZE];
        int rv;

        if (arn.len >= sizeof(text))
                return -ENOENT;
        memcpy(text, arn.data, arn.len);
        text[arn.len] = '\0';
        rv = gw_people_find_arn(loop, text, out, NULL);
        if (rv == 0 && (*out)->who.kind != GW_USER && (*out)->who.kind != GW_ROLE)
                rv = -ENOENT;
        return rv == -EINVAL ? -ENOENT : rv;
}

/* ---- when it is set -------------------------------------------------------------------------- */

struct bind_work {
        struct gw_loop *loop;
        FILE *out;
        char *text;
        size_t len, start; /* where lines begin in text, once that is flushed */
        int rv;
};

static bool bind_is_there(struct bind_work *work, struct s3_str arn)
{
        struct s3_str lines;

        if (fflush(work->out) != 0)
                return false;
        lines = (struct s3_str){work->text + work->start, work->len - work->start};
        return acc_bound_id(lines, arn).len > 0;
}

static bool bind_one(void *context, enum acc_name_kind kind, struct s3_str name)
{
        struct bind_work *work = context;
        const struct gw_entity *entity;

        if (kind != ACC_NAME_ARN || s3_str_starts(name, S3_STR("arn:aws:sts:")) || bind_is_there(work, name))
                return true;
        work->rv = bind_find(work->loop, name, &entity);
        if (work->rv == 0)
                fprintf(work->out, "%s %.*s\n", entity->id, (int)name.len, name.data);
        return work->rv == 0;
}

int gw_people_bind(struct gw_loop *loop, const struct acc_policy *policy, struct s3_str text, char **out, size_t *len)
{
        struct bind_work work = {.loop = loop};

        *out = NULL;
        work.out = open_memstream(&work.text, &work.len);
        if (work.out == NULL)
                return -ENOMEM;
        fwrite(text.data, 1, text.len, work.out);
        fputs(ACC_BOUND_MARK, work.out);
        work.start = text.len + sizeof(ACC_BOUND_MARK) - 1;
        acc_policy_principals(policy, bind_one, &work);
        if (fclose(work.out) != 0 && work.rv == 0)
                work.rv = -ENOMEM;
        if (work.rv != 0) {
                free(work.text);
                return work.rv;
        }
        if (work.len == work.start) /* it names nobody */
                work.len = text.len;
        work.text[work.len] = '\0';
        *out = work.text;
        *len = work.len;
        return 0;
}

/* ---- when it is shown ------------------------------------------------------------------------ */

/*
 * How a bound name is shown now: as it was, by the ARN that it has since then, or by the id. room: for an ARN. A
 * user's path can change, and the name stays.
 */
static const char *bind_shown(struct gw_loop *loop, const char *arn, struct s3_str id, char room[ARN_SIZE])
{
        struct gw_entity_name who;
        const struct gw_entity *entity;

        if (gw_entity_of_arn(arn, &who) == 0 && gw_people_find(loop, &who, &entity, NULL) == 0 &&
            s3_str_eq(s3_str_of(entity->id), id) && gw_entity_arn(entity, room, ARN_SIZE))
                return room;
        snprintf(room, ARN_SIZE, "%.*s", (int)id.len, id.data);
        return room;
}

static json_t *bind_show_name(struct gw_loop *loop, json_t *name, struct s3_str bindings)
{
        const char *text = json_string_value(name);
        struct s3_str id = text != NULL ? acc_bound_id(bindings, s3_str_of(text)) : (struct s3_str){NULL, 0};
        char room[ARN_SIZE];

        return id.len > 0 ? json_string(bind_shown(loop, text, id, room)) : json_incref(name);
}

/* False: no memory. */
static bool bind_show_names(struct gw_loop *loop, json_t *principal, struct s3_str bindings)
{
        json_t *names = json_object_get(principal, "AWS");

        if (names == NULL)
                return true;
        if (!json_is_array(names))
                return json_object_set_new(principal, "AWS", bind_show_name(loop, names, bindings)) == 0;
        for (size_t i = 0; i < json_array_size(names); i++)
                if (json_array_set_new(names, i, bind_show_name(loop, json_array_get(names, i), bindings)) != 0)
                        return false;
        return true;
}

static bool bind_show_statement(struct gw_loop *loop, json_t *statement, struct s3_str bindings)
{
        return bind_show_names(loop, json_object_get(statement, "Principal"), bindings) &&
               bind_show_names(loop, json_object_get(statement, "NotPrincipal"), bindings);
}

static char *bind_show_json(struct gw_loop *loop, struct s3_str text, struct s3_str bindings)
{
        json_t *root = s3_json_load(text, 0, NULL), *list = json_object_get(root, "Statement");
        bool fine = root != NULL;
        char *out;

        if (json_is_object(list))
                fine = bind_show_statement(loop, list, bindings);
        for (size_t i = 0; fine && i < json_array_size(list); i++)
                fine = bind_show_statement(loop, json_array_get(list, i), bindings);
        out = fine ? json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
        json_decref(root);
        return out;
}

/* Everybody has the ARN that the text says. */
static bool bind_holds(struct gw_loop *loop, struct s3_str bindings)
{
        while (bindings.len > 0) {
                const char *end = memchr(bindings.data, '\n', bindings.len), *space;
                size_t line = end != NULL ? (size_t)(end - bindings.data) : bindings.len;
                const struct gw_entity *entity;

                space = memchr(bindings.data, ' ', line);
                if (space == NULL || end == NULL ||
                    bind_find(loop, (struct s3_str){space + 1, (size_t)(end - space) - 1}, &entity) != 0 ||
                    !s3_str_eq(s3_str_of(entity->id), (struct s3_str){bindings.data, (size_t)(space - bindings.data)}))
                        return false;
                bindings = (struct s3_str){end + 1, bindings.len - line - 1};
        }
        return true;
}

char *gw_people_bound_text(struct gw_loop *loop, struct s3_str stored)
{
        struct s3_str bindings, text = acc_bound_cut(stored, &bindings);

        return bind_holds(loop, bindings) ? strndup(text.data, text.len) : bind_show_json(loop, text, bindings);
}
