/*
 * people_index.h - the names of all entities in order, and who refers to whom (private to the module).
 */
#ifndef GATEWAY_PEOPLE_PEOPLE_INDEX_H
#define GATEWAY_PEOPLE_PEOPLE_INDEX_H

#include <bsd/sys/tree.h>

#include "gateway/people/people.h"

/* A name, or a reference (kind GW_LIST_), or how many there are of a kind in an account. owner: first loop */
struct gw_node {
        RB_ENTRY(gw_node) by_name;
        RB_ENTRY(gw_node) by_number; /* of a name */
        RB_ENTRY(gw_node) by_id;     /* of a name that has an id */
        struct gw_node *next;        /* of a name: its references; of those: the next one of the same entity */
        uint64_t number;             /* of a name: that of its entry */
        unsigned kind, count;
        const char *account, *of, *name, *path, *id; /* in bytes */
        char bytes[];
};
RB_HEAD(gw_names, gw_node);
RB_HEAD(gw_numbers, gw_node);
RB_HEAD(gw_ids, gw_node);

/* owner: first loop */
struct gw_people_index {
        struct gw_names names;
        struct gw_numbers numbers;
        struct gw_ids ids; /* while somebody is being renamed, and of files from before D23, two can have one */
};

void gw_index_init(struct gw_people_index *index);
void gw_index_free(struct gw_people_index *index);
/* In place of what was known of it. -ENOMEM: nothing is known of it now. */
int gw_index_put(struct gw_people_index *index, const struct gw_entity *entity);
void gw_index_remove(struct gw_people_index *index, unsigned kind, uint64_t number);
/* What is known of an entry; NULL: nothing. */
const struct gw_node *gw_index_number(struct gw_people_index *index, unsigned kind, uint64_t number);
/* Whether an entity of any kind, in any account, has this id. */
bool gw_index_has_id(struct gw_people_index *index, const char *id);
/* The first name or reference of this kind behind `after` (NULL: the first of all); NULL: there is none. */
const struct gw_node *gw_index_after(struct gw_people_index *index, unsigned kind, const char *account, const char *of,
                                     const char *after);
/* The one behind that, of the same kind, account and `of`. */
const struct gw_node *gw_index_next(const struct gw_node *node);
/* Whether a policy of this name, whatever its path, is attached to somebody of the account, or is a boundary. */
bool gw_index_names_policy(struct gw_people_index *index, const char *account, const char *name);
/* Entities of a kind in an account. */
unsigned gw_index_count(struct gw_people_index *index, unsigned kind, const char *account);

#endif
