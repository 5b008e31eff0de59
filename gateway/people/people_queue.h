/*
 * people_queue.h - the directory's state on the first loop (private to the module).
 */
#ifndef GATEWAY_PEOPLE_PEOPLE_QUEUE_H
#define GATEWAY_PEOPLE_PEOPLE_QUEUE_H

#include "gateway/people/people_rename.h"

struct gw_change;
STAILQ_HEAD(gw_change_list, gw_change);

/* owner: first loop */
struct gw_people {
        struct gw_gateway *gw;
        struct lp_msg start;
        struct lp_timer timer;
        struct gw_people_index index;
        uint32_t position;             /* where the walk over all entries is */
        bool ready;                    /* all that there was has been seen */
        uint64_t opened_ns;            /* when the store was found open; 0: not yet */
        _Atomic bool known;            /* any thread: it was ready once, or has taken too long */
        struct gw_change_list changes; /* the head is being done */
        struct gw_rename_list renames; /* that are not over */
        unsigned change_count;
        struct lp_timer again;         /* the head is decided again: another process has changed entries meanwhile */
        bool resting;                  /* until then: the head is not with the engine */
};

/* People, once the index is ready; NULL: not yet. First loop. */
struct gw_people *gw_people_ready(struct gw_gateway *gw);
/*
 * The loops have stopped: what waits is dropped. False: one change is with the engine, which may come back:
 * it frees people then, if gw is NULL.
 */
bool gw_people_drop_changes(struct gw_people *people);
/* 0, or why no entity with this one's id may be made: -EILSEQ, -ENOTUNIQ. The index must be whole. First loop. */
int gw_people_id_refusal(struct gw_people *people, const struct gw_entity *entity);
/* The index is whole: renames that were cut off go on, unless the store is read-only. First loop. */
void gw_people_renames_go(struct gw_people *people);
/* people_terms.c. A copy, to be given back with free(). NULL: no memory. terms may be NULL. */
struct gw_people_terms *gw_terms_copy(const struct gw_people_terms *terms);
/* 0, or why a change that relies on them is not made: -ESTALE, -EREMCHG, -EIO, -ENOMEM. First loop. */
int gw_terms_refusal(struct gw_people *people, const struct gw_people_terms *terms);
/*
 * Cuts off the line in front of an entity's text that says whom it means (gw_people_put()); *out, to be given back with
 * free(), has no names where there is no such line. -EINVAL: the line makes no sense; -ENOMEM. Pure.
 */
int gw_terms_read(struct eng_str *text, struct gw_people_terms **out);
/* policies_compile.c. NULL: no memory. */
struct gw_policies *gw_policies_compile(const struct gw_entity *entity);
void gw_policies_free(struct gw_policies *policies); /* NULL is fine */
/* What a text says, made once. NULL, and errno: EBADMSG, it is no such text; ENOMEM. Any thread. */
const struct gw_entity *gw_entity_form(struct eng_text *text);

#endif
