/*
 * people_index.c - the names of all entities in order, their ids, and who refers to whom: users that are in
 * a group, entities that a policy is attached to. Trees, so that no change rebuilds anything. First loop.
 *
 * An access key stands with its user, in the account that it belongs to.
 */
#include "gateway/people/people_index.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define INDEX_COUNTS 512u /* and a kind: how many there are of it */

static int compare_names(const struct gw_node *a, const struct gw_node *b)
{
        int c;

        if (a->kind != b->kind)
                return a->kind < b->kind ? -1 : 1;
        c = strcmp(a->account, b->account);
        if (c == 0)
                c = strcasecmp(a->of, b->of);
        return c != 0 ? c : strcasecmp(a->name, b->name);
}

static int compare_numbers(const struct gw_node *a, const struct gw_node *b)
{
        if (a->kind != b->kind)
                return a->kind < b->kind ? -1 : 1;
        return a->number < b->number ? -1 : a->number > b->number;
}

static int compare_entity_ids(const struct gw_node *a, const struct gw_node *b)
{
        int c = strcasecmp(a->id, b->id);

        return c != 0 ? c : compare_numbers(a, b);
}

RB_GENERATE_INTERNAL(gw_names, gw_node, by_name, compare_names, __attribute__((unused)) static)
RB_GENERATE_INTERNAL(gw_numbers, gw_node, by_number, compare_numbers, __attribute__((unused)) static)
RB_GENERATE_INTERNAL(gw_ids, gw_node, by_id, compare_entity_ids, __attribute__((unused)) static)

void gw_index_init(struct gw_people_index *index)
{
        RB_INIT(&index->names);
        RB_INIT(&index->numbers);
        RB_INIT(&index->ids);
}

void gw_index_free(struct gw_people_index *index)
{
        struct gw_node *node;

        while ((node = RB_ROOT(&index->names)) != NULL) {
                RB_REMOVE(gw_names, &index->names, node);
                free(node);
        }
        RB_INIT(&index->numbers);
        RB_INIT(&index->ids);
}

static struct gw_node *node_new(unsigned kind, const char *account, const char *of, const char *name, const char *path,
                                const char *id)
{
        size_t a = strlen(account) + 1, o = strlen(of) + 1, n = strlen(name) + 1, p = strlen(path) + 1;
        size_t i = strlen(id) + 1;
        struct gw_node *node = calloc(1, sizeof(*node) + a + o + n + p + i);

        if (node == NULL)
                return NULL;
        node->kind = kind;
        node->account = memcpy(node->bytes, account, a);
        node->of = memcpy(node->bytes + a, of, o);
        node->name = memcpy(node->bytes + a + o, name, n);
        node->path = memcpy(node->bytes + a + o + n, path, p);
        node->id = memcpy(node->bytes + a + o + n + p, id, i);
        return node;
}

/* ---- how many -------------------------------------------------------------------------------- */

static struct gw_node *index_count_of(struct gw_people_index *index, unsigned kind, const char *account)
{
        struct gw_node key = {.kind = INDEX_COUNTS + kind, .account = account, .of = "", .name = ""};

        return RB_FIND(gw_names, &index->names, &key);
}

unsigned gw_index_count(struct gw_people_index *index, unsigned kind, const char *account)
{
        const struct gw_node *node = index_count_of(index, kind, account);

        return node == NULL ? 0 : node->count;
}

static bool count_one(struct gw_people_index *index, unsigned kind, const char *account)
{
        struct gw_node *node = index_count_of(index, kind, account);

        if (node == NULL) {
                node = node_new(INDEX_COUNTS + kind, account, "", "", "", "");
                if (node == NULL)
                        return false;
                RB_INSERT(gw_names, &index->names, node);
        }
        node->count++;
        return true;
}

static void count_one_less(struct gw_people_index *index, unsigned kind, const char *account)
{
        struct gw_node *node = index_count_of(index, kind, account);

        assert(node != NULL && node->count > 0);
        if (--node->count > 0)
                return;
        RB_REMOVE(gw_names, &index->names, node);
        free(node);
}

/* ---- entities -------------------------------------------------------------------------------- */

static void index_drop(struct gw_people_index *index, struct gw_node *node)
{
        struct gw_node *reference;

        while ((reference = node->next) != NULL) {
                node->next = reference->next;
                RB_REMOVE(gw_names, &index->names, reference);
                free(reference);
        }
        RB_REMOVE(gw_names, &index->names, node);
        RB_REMOVE(gw_numbers, &index->numbers, node);
        if (*node->id != '\0')
                RB_REMOVE(gw_ids, &index->ids, node);
        count_one_less(index, node->kind, node->account);
        free(node);
}

static struct gw_node *index_find_number(struct gw_people_index *index, unsigned kind, uint64_t number)
{
        struct gw_node key = {.kind = kind, .number = number};

        return RB_FIND(gw_numbers, &index->numbers, &key);
}

const struct gw_node *gw_index_number(struct gw_people_index *index, unsigned kind, uint64_t number)
{
        return index_find_number(index, kind, number);
}

void gw_index_remove(struct gw_people_index *index, unsigned kind, uint64_t number)
{
        struct gw_node *node = index_find_number(index, kind, number);

        if (node != NULL)
                index_drop(index, node);
}

/* The entity refers to `of`, by its own name and kind. What is named twice counts once. */
static bool index_refer(struct gw_people_index *index, struct gw_node *node, unsigned kind, const char *of)
{
        char name[GW_ENTITY_NAME_MAX + 8];
        struct gw_node *reference;

        snprintf(name, sizeof(name), "%s/%s",
                 node->kind == GW_USER    ? "user"
                 : node->kind == GW_GROUP ? "group"
                                          : "role",
                 node->name);
        reference = node_new(kind, node->account, of, name, node->path, "");
        if (reference == NULL)
                return false;
        if (RB_INSERT(gw_names, &index->names, reference) != NULL) {
                free(reference);
                return true;
        }
        reference->next = node->next;
        node->next = reference;
        return true;
}

static bool index_refer_all(struct gw_people_index *index, struct gw_node *node, const struct gw_entity *entity)
{
        const struct gw_pairs *groups = &entity->sets[GW_SET_GROUPS], *attached = &entity->sets[GW_SET_ATTACHED];
        bool fine = true;
        unsigned i;

        for (i = 0; fine && i < groups->count; i++)
                fine = index_refer(index, node, GW_LIST_MEMBERS, groups->list[i].name);
        for (i = 0; fine && i < attached->count; i++)
                fine = index_refer(index, node, GW_LIST_ATTACHED, attached->list[i].name);
        if (fine && *entity->boundary != '\0')
                fine = index_refer(index, node, GW_LIST_BOUNDED, entity->boundary);
        return fine;
}

int gw_index_put(struct gw_people_index *index, const struct gw_entity *entity)
{
        const struct gw_entity_name *who = &entity->who;
        const char *account = who->kind == GW_ACCESS_KEY ? entity->owner : who->account;
        uint64_t number = gw_entity_number(who);
        struct gw_node *node;

        gw_index_remove(index, who->kind, number);
        node = node_new(who->kind, account, who->of, who->name, entity->path, entity->id);
        if (node == NULL)
                return -ENOMEM;
        node->number = number;
        if (!count_one(index, who->kind, account)) {
                free(node);
                return -ENOMEM;
        }
        RB_INSERT(gw_numbers, &index->numbers, node);
        RB_INSERT(gw_names, &index->names, node);
        if (*node->id != '\0')
                RB_INSERT(gw_ids, &index->ids, node);
        if (index_refer_all(index, node, entity))
                return 0;
        index_drop(index, node);
        return -ENOMEM;
}

bool gw_index_has_id(struct gw_people_index *index, const char *id)
{
        struct gw_node key = {.id = id};
        const struct gw_node *node = RB_NFIND(gw_ids, &index->ids, &key);

        return node != NULL && strcasecmp(node->id, id) == 0;
}

/* ---- in order -------------------------------------------------------------------------------- */

const struct gw_node *gw_index_after(struct gw_people_index *index, unsigned kind, const char *account, const char *of,
                                     const char *after)
{
        struct gw_node key = {.kind = kind, .account = account, .of = of, .name = after == NULL ? "" : after};
        struct gw_node *node = RB_NFIND(gw_names, &index->names, &key);

        if (node != NULL && after != NULL && compare_names(node, &key) == 0)
                node = RB_NEXT(gw_names, &index->names, node);
        if (node == NULL || node->kind != kind || strcmp(node->account, account) != 0 || strcasecmp(node->of, of) != 0)
                return NULL;
        return node;
}

const struct gw_node *gw_index_next(const struct gw_node *node)
{
        struct gw_node *from = (struct gw_node *)(uintptr_t)node, *next = RB_NEXT(gw_names, NULL, from);

        if (next == NULL || next->kind != node->kind || strcmp(next->account, node->account) != 0 ||
            strcasecmp(next->of, node->of) != 0)
                return NULL;
        return next;
}

/* One look at each ARN that is named, however many name it. */
static bool index_refers_to_name(struct gw_people_index *index, unsigned kind, const char *account, const char *name)
{
        struct gw_node key = {.kind = kind, .account = account, .of = "", .name = ""};
        const struct gw_node *node;

        while ((node = RB_NFIND(gw_names, &index->names, &key)) != NULL && node->kind == kind &&
               strcmp(node->account, account) == 0) {
                const char *slash = strrchr(node->of, '/');

                if (slash != NULL && strcasecmp(slash + 1, name) == 0 &&
                    strncmp(node->of, GW_AWS_POLICY_ARN, sizeof(GW_AWS_POLICY_ARN) - 1) != 0)
                        return true;
                key.of = node->of;
                key.name = "\x7f"; /* behind all names */
        }
        return false;
}

bool gw_index_names_policy(struct gw_people_index *index, const char *account, const char *name)
{
        return index_refers_to_name(index, GW_LIST_ATTACHED, account, name) ||
               index_refers_to_name(index, GW_LIST_BOUNDED, account, name);
}
