/*
 * people.h - the directory: who there is. docs/design/people.md has the rules.
 *
 * Finding is immediate on any loop. Lists and changes go to the first loop, which has the index of names
 * and decides about all changes, one after the other.
 */
#ifndef GATEWAY_PEOPLE_PEOPLE_H
#define GATEWAY_PEOPLE_PEOPLE_H

#include "access.h"
#include "gateway/http/gw.h"
#include "gateway/people/entity.h"

/*
 * From now on the directory is kept. Once, before the store is started (or, in tests, on the first loop).
 * -ENOMEM. Without it nobody is found but root, and changes are refused.
 */
int gw_people_start(struct gw_gateway *gw);
/* After the loops have stopped. */
void gw_people_free(struct gw_gateway *gw);

/* ---- finding --------------------------------------------------------------------------------- */

/*
 * Immediate. *out holds until the caller returns to the loop. generation may be NULL. -ENOENT; -EIO: it is
 * there, and cannot be read; -ENOMEM; -EHOSTDOWN: the store is not open. The first account has no entry: -ENOENT.
 */
int gw_people_find(struct gw_loop *loop, const struct gw_entity_name *who, const struct gw_entity **out,
                   uint64_t *generation);
/* The access key of this name; active or not. */
int gw_people_find_key(struct gw_loop *loop, const char *access_key, const struct gw_entity **out);
/* What an ARN names. -EINVAL: nothing that is kept here. */
int gw_people_find_arn(struct gw_loop *loop, const char *arn, const struct gw_entity **out, uint64_t *generation);
/*
 * Policies, compiled when they were first asked for, and kept with their entity. broken: one of them cannot be
 * read, and may have denied anything.
 */
struct gw_policies {
        bool broken;
        unsigned count;
        struct acc_policy *list[];
};
/* As gw_people_find(), with a user's, group's or role's own policies. -ENOMEM. entity may be NULL. */
int gw_people_policies(struct gw_loop *loop, const struct gw_entity_name *who, const struct gw_entity **entity,
                       const struct gw_policies **out);
/* The policy of this ARN, in its version in force. As gw_people_find_arn(). -ENOMEM. */
int gw_people_managed(struct gw_loop *loop, const char *arn, const struct gw_policies **out);
/*
 * Text and bindings (access.h) of a policy that is to be kept, to be given back with free(). -ENOENT: a user or role
 * that it names is not there; -EIO, -ENOMEM, -EHOSTDOWN.
 */
int gw_people_bind(struct gw_loop *loop, const struct acc_policy *policy, struct s3_str text, char **out, size_t *len);
/* A kept policy as it is shown, to be given back with free(). NULL: no memory, or it is no policy. */
char *gw_people_bound_text(struct gw_loop *loop, struct s3_str stored);
/* Whether there is such an account. */
bool gw_people_has_account(struct gw_loop *loop, const char *account);
/*
 * Who signs with this key: an active one of a user or account that is there, with its secret. False: nobody.
 * The caller clears *out when it is done.
 */
bool gw_people_signer(struct gw_loop *loop, const char *access_key, struct gw_credential *out);

/* ---- changes --------------------------------------------------------------------------------- */

/*
 * What a change relies on (D25, D26): whoever has this name when the change is made is the one who was meant. It is
 * compared on the first loop, where no other change comes between: -EREMCHG, another id; -ESTALE, another generation,
 * also where nobody has the name any more. An id of a name that nobody has is left to the change.
 */
struct gw_people_seen {
        struct gw_entity_name who;
        char id[GW_ENTITY_ID_MAX + 1]; /* of whoever is meant; "": the generation is compared */
        uint64_t generation;           /* that was seen; GW_PEOPLE_UNSEEN: nobody who can be read */
};
#define GW_PEOPLE_UNSEEN    UINT64_MAX /* the generation of nothing that can be read */
#define GW_PEOPLE_TERMS_MAX 256u
struct gw_people_terms {
        unsigned count;
        const struct gw_people_seen *list;
};

/*
 * On any loop; entity and terms (NULL: none) are copied. 0: done() comes on the same loop, after every loop has the change, never
 * from inside. -EINVAL, -E2BIG, -ENOMEM, -ESTALE (it is being renamed): it does not come. The answers, and what
 * IAM calls them:
 *   -EEXIST  EntityAlreadyExists            -ENOENT  NoSuchEntity: it, or what it names
 *   -EBUSY   DeleteConflict                 -EDQUOT  LimitExceeded
 *   -EINVAL  ValidationError                -ESTALE  EntityTemporarilyUnmodifiable: another generation is there
 *   -EPERM   the first account and its root -EAGAIN  ServiceFailure: the index is not ready, or too much waits
 *   -ENOSPC  there can be no more           -EREMCHG a name is somebody else's than the terms say
 *   -ENOTUNIQ, -EILSEQ  an id that somebody has, or that none can have
 *   others of eng_text_set()
 */
typedef void (*gw_people_done)(void *arg, int rv);
int gw_people_create(struct gw_loop *loop, const struct gw_entity *entity, const struct gw_people_terms *terms,
                     gw_people_done done, void *arg);
/* In place of what there is of this name, which is of this generation. */
int gw_people_change(struct gw_loop *loop, const struct gw_entity *entity, uint64_t generation,
                     const struct gw_people_terms *terms, gw_people_done done, void *arg);
/* What there is of this name, if it is of this generation; 0: whatever it is. What cannot be read is deleted in any case. */
int gw_people_delete(struct gw_loop *loop, const struct gw_entity_name *who, uint64_t generation,
                     const struct gw_people_terms *terms, gw_people_done done, void *arg);
/*
 * A user or group that is called `from`, and of this generation, is to be as the entity says, whose name is another
 * one; keys and members follow (D19). As the others, and -EEXIST: somebody has that name.
 */
int gw_people_rename(struct gw_loop *loop, const struct gw_entity *entity, const char *from, uint64_t generation,
                     const struct gw_people_terms *terms, gw_people_done done, void *arg);

/* ---- lists ----------------------------------------------------------------------------------- */

/* What else can be listed beside entities of a kind: */
#define GW_LIST_MEMBERS  1u /* of a group (of): "user/NAME" */
#define GW_LIST_ATTACHED 2u /* to a policy (of: its ARN): "user/NAME", "group/NAME", "role/NAME" */
#define GW_LIST_BOUNDED  3u /* by a policy (of: its ARN) */
#define GW_LIST_MAX      1000u

struct gw_people_query {
        unsigned kind;                       /* of entities, or GW_LIST_ */
        char account[GW_ACCOUNT_ID_LEN + 1]; /* of accounts: "" */
        char of[2049];                       /* of access keys: their user, "" is the account's root */
        char after[GW_ENTITY_NAME_MAX + 8];  /* names behind this one */
        char path[GW_ENTITY_PATH_MAX + 1];   /* with this prefix; "" any */
        unsigned max;                        /* at most GW_LIST_MAX */
};
struct gw_listed {
        char name[GW_ENTITY_NAME_MAX + 8];
};
/*
 * Names in order, without regard to case. done() on the same loop, with what holds during the call. more:
 * there are others behind `last`, which may be so although fewer than max are given: a page looks at some
 * names and no more. rv: -EAGAIN. Returns 0, or -EINVAL or -ENOMEM: done() does not come.
 */
typedef void (*gw_people_listed)(void *arg, int rv, const struct gw_listed *names, unsigned count, bool more,
                                 const char *last);
int gw_people_list(struct gw_loop *loop, const struct gw_people_query *query, gw_people_listed done, void *arg);

/* How many entities of each kind (from GW_ACCOUNT on) an account has. As gw_people_list(). */
typedef void (*gw_people_counted)(void *arg, int rv, const unsigned counts[]);
int gw_people_count(struct gw_loop *loop, const char *account, gw_people_counted done, void *arg);

#endif
