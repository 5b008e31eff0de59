/*
 * people_rename.h - users and groups get other names: which records are left to be made (private to the module). Rules
 * D19 to D22 of docs/design/people.md. First loop.
 */
#ifndef GATEWAY_PEOPLE_PEOPLE_RENAME_H
#define GATEWAY_PEOPLE_PEOPLE_RENAME_H

#include "gateway/people/people_index.h"

struct gw_people;

/* A new entry that says `from`: the rename is not over. owner: first loop */
struct gw_rename {
        TAILQ_ENTRY(gw_rename) link;
        struct gw_entity_name to;
        char from[GW_ENTITY_NAME_MAX + 1];
        bool tried; /* and failed, since the last change came */
};
TAILQ_HEAD(gw_rename_list, gw_rename);

/* What an entry says now; an entity that is not being renamed is forgotten. -ENOMEM. */
int gw_rename_seen(struct gw_rename_list *list, const struct gw_entity *entity);
/* It is gone. */
void gw_rename_gone(struct gw_rename_list *list, unsigned kind, uint64_t number);
void gw_renames_forget(struct gw_rename_list *list);
/* Those that failed are tried once more. */
void gw_renames_try(struct gw_rename_list *list);
/* Whether an entity is the old or the new one of a rename: nobody changes it before that is over. */
bool gw_rename_has(const struct gw_rename_list *list, const struct gw_entity_name *who);

/* One record. text is to be given back with free(). */
struct gw_rename_record {
        uint64_t number, generation;
        unsigned kind;
        bool drop; /* the entry is deleted, and there is no text */
        char *text;
        size_t len;
};
/* How far a rename has come among the members of a group: those in front are done. Empty: it begins. */
struct gw_rename_place {
        char after[GW_ENTITY_NAME_MAX + 8]; /* as GW_LIST_MEMBERS has them */
};
/* The next one, by what there is. 1; 0: nothing is left to be done; else why it cannot be made. */
int gw_rename_next(struct gw_people *people, const struct gw_entity_name *to, struct gw_rename_place *place,
                   struct gw_rename_record *out);

#endif
