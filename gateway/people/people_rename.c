/*
 * people_rename.c - see people_rename.h. Each step looks at what there is and makes what is missing, so a rename that a
 * crash or an error cut off goes on where it was, and doing it twice does no harm.
 */
#include "gateway/people/people_rename.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gateway/people/people_queue.h"

/* ---- renames that are not over --------------------------------------------------------------- */

void gw_rename_gone(struct gw_rename_list *list, unsigned kind, uint64_t number)
{
        struct gw_rename *rename, *next;

        for (rename = TAILQ_FIRST(list); rename != NULL; rename = next) {
                next = TAILQ_NEXT(rename, link);
                if (rename->to.kind != kind || gw_entity_number(&rename->to) != number)
                        continue;
                TAILQ_REMOVE(list, rename, link);
                free(rename);
        }
}

int gw_rename_seen(struct gw_rename_list *list, const struct gw_entity *entity)
{
        struct gw_rename *rename;

        if (!TAILQ_EMPTY(list))
                gw_rename_gone(list, entity->who.kind, gw_entity_number(&entity->who));
        if (*entity->from == '\0')
                return 0;
        rename = calloc(1, sizeof(*rename));
        if (rename == NULL)
                return -ENOMEM;
        rename->to = entity->who;
        snprintf(rename->from, sizeof(rename->from), "%s", entity->from);
        TAILQ_INSERT_TAIL(list, rename, link);
        return 0;
}

void gw_renames_forget(struct gw_rename_list *list)
{
        struct gw_rename *rename;

        while ((rename = TAILQ_FIRST(list)) != NULL) {
                TAILQ_REMOVE(list, rename, link);
                free(rename);
        }
}

void gw_renames_try(struct gw_rename_list *list)
{
        struct gw_rename *rename;

        TAILQ_FOREACH (rename, list, link)
                rename->tried = false;
}

bool gw_rename_has(const struct gw_rename_list *list, const struct gw_entity_name *who)
{
        const struct gw_rename *rename;

        TAILQ_FOREACH (rename, list, link)
                if (rename->to.kind == who->kind && strcmp(rename->to.account, who->account) == 0 &&
                    (strcasecmp(rename->to.name, who->name) == 0 || strcasecmp(rename->from, who->name) == 0))
                        return true;
        return false;
}

/* ---- records --------------------------------------------------------------------------------- */

struct rename_step {
        struct gw_people *people;
        const struct gw_entity *to; /* of the new name */
        struct gw_entity_name old;
        struct gw_rename_place *place;
        struct gw_rename_record *out;
};

/* 1, or why not. */
static int rename_write(struct rename_step *step, const struct gw_entity *entity, uint64_t generation)
{
        struct gw_rename_record *out = step->out;
        int rv = gw_entity_encode(entity, &out->text, &out->len);

        out->number = gw_entity_number(&entity->who);
        out->kind = entity->who.kind;
        out->generation = generation;
        return rv == 0 ? 1 : rv;
}

/* The first key that names the user otherwise than it is called now. As gw_rename_next(). */
static int rename_key(struct rename_step *step)
{
        const struct gw_node *node =
                gw_index_after(&step->people->index, GW_ACCESS_KEY, step->old.account, step->old.name, NULL);
        struct gw_entity_name who = {.kind = GW_ACCESS_KEY};
        const struct gw_entity *key;
        struct gw_entity edited;
        uint64_t generation;

        for (; node != NULL; node = gw_index_next(node)) {
                snprintf(who.name, sizeof(who.name), "%s", node->name);
                if (strcmp(node->of, step->to->who.name) == 0 ||
                    gw_people_find(&step->people->gw->loops[0], &who, &key, &generation) != 0)
                        continue;
                edited = *key;
                strcpy(edited.who.of, step->to->who.name);
                return rename_write(step, &edited, generation);
        }
        return 0;
}

/* The user's groups with the new name in place of the old. False: it has it already. */
static bool rename_in_groups(const struct rename_step *step, struct gw_pairs *groups,
                             struct gw_pair list[GW_ENTITY_SET_MAX])
{
        const char *name = step->to->who.name;
        unsigned count = 0;
        bool has = false, differs = false;

        for (unsigned i = 0; i < groups->count && i < GW_ENTITY_SET_MAX; i++) {
                const char *one = groups->list[i].name;
                bool is_it = strcasecmp(one, name) == 0 || strcasecmp(one, step->old.name) == 0;

                differs |= is_it && strcmp(one, name) != 0;
                if (is_it && has)
                        continue;
                has |= is_it;
                list[count++] = (struct gw_pair){.name = is_it ? name : one, .text = groups->list[i].text};
        }
        *groups = (struct gw_pairs){count, list};
        return differs;
}

/*
 * The first member whose groups have another name for it. As gw_rename_next(). Where the two names differ by case
 * alone, members that are done stay in the list: each step goes on where the one before was.
 */
static int rename_member(struct rename_step *step)
{
        const char *after = *step->place->after != '\0' ? step->place->after : NULL;
        const struct gw_node *node =
                gw_index_after(&step->people->index, GW_LIST_MEMBERS, step->old.account, step->old.name, after);
        struct gw_entity_name who = {.kind = GW_USER};
        struct gw_pair list[GW_ENTITY_SET_MAX];
        const struct gw_entity *user;
        struct gw_entity edited;
        uint64_t generation;

        strcpy(who.account, step->old.account);
        for (; node != NULL; node = gw_index_next(node)) {
                const char *slash = strchr(node->name, '/'); /* "user/NAME" */

                snprintf(who.name, sizeof(who.name), "%s", slash != NULL ? slash + 1 : node->name);
                if (gw_people_find(&step->people->gw->loops[0], &who, &user, &generation) != 0)
                        continue;
                edited = *user;
                if (!rename_in_groups(step, &edited.sets[GW_SET_GROUPS], list))
                        continue;
                snprintf(step->place->after, sizeof(step->place->after), "%s", node->name);
                return rename_write(step, &edited, generation);
        }
        return 0;
}

/* What names the old one, and then the old entry. */
static int rename_old(struct rename_step *step)
{
        const struct gw_entity *old = NULL;
        uint64_t generation = 0;
        int rv = gw_people_find(&step->people->gw->loops[0], &step->old, &old, &generation);

        if (rv != 0 && rv != -ENOENT && rv != -EIO)
                return rv;
        if (rv == 0 && strcmp(old->id, step->to->id) != 0) /* who has the name is somebody else */
                return 0;
        rv = step->old.kind == GW_USER ? rename_key(step) : rename_member(step);
        if (rv != 0 || old == NULL ||
            gw_entity_same(&step->old, &step->to->who)) /* another case of the name: one entry */
                return rv;
        *step->out = (struct gw_rename_record){
                .number = gw_entity_number(&step->old), .kind = step->old.kind, .generation = generation, .drop = true};
        return 1;
}

int gw_rename_next(struct gw_people *people, const struct gw_entity_name *to, struct gw_rename_place *place,
                   struct gw_rename_record *out)
{
        struct rename_step step = {.people = people, .place = place, .out = out};
        struct gw_entity edited;
        uint64_t generation;
        int rv = gw_people_find(&people->gw->loops[0], to, &step.to, &generation);

        *out = (struct gw_rename_record){.text = NULL};
        if (rv == -ENOENT || (rv == 0 && *step.to->from == '\0'))
                return 0;
        if (rv != 0)
                return rv;
        step.old = step.to->who;
        snprintf(step.old.name, sizeof(step.old.name), "%s", step.to->from);
        rv = rename_old(&step);
        if (rv != 0)
                return rv;
        edited = *step.to;
        edited.from = "";
        return rename_write(&step, &edited, generation);
}
