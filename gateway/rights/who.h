/*
 * who.h - the principal of a question, and the principal's own policies (private to the module).
 */
#ifndef GATEWAY_RIGHTS_WHO_H
#define GATEWAY_RIGHTS_WHO_H

#include "gateway/people/people.h"
#include "gateway/rights/rights.h"
#include "gateway/sts/signer.h"

/* AWS's quotas of groups, attached and inline policies allow fewer. */
#define GW_IDENTITY_MAX 1024u

struct gw_conditions;

/* owner: whoever asks, until it returns to the loop */
struct gw_who {
        struct acc_principal principal;
        const struct gw_entity *user; /* or the role of a session; NULL: neither */
        char arn[GW_ENTITY_PATH_MAX + GW_ENTITY_NAME_MAX + 64];
        struct gw_temporary *temporary; /* counted; NULL: a permanent key */
        char role_arn[GW_ENTITY_PATH_MAX + GW_ENTITY_NAME_MAX + 64], session_id[136];
        const struct acc_policy *session[1 + GW_SESSION_ARNS];
        size_t sessions;
        size_t policies;
        const struct acc_policy *policy[GW_IDENTITY_MAX];
        const struct acc_policy *boundary; /* NULL: none */
};

/*
 * Finds the principal of a question, and its own policies. False if the request must be refused: the principal does
 * not exist any more, its key is inactive, or one of its policies cannot be read. Call gw_who_put() in either case.
 */
bool gw_who_find(const struct gw_ask *ask, bool root, struct gw_who *out);
/* Releases what gw_who_find() has taken. */
void gw_who_put(struct gw_who *who);

/* In who.c, for who_session.c. Finds the principal of a permanent key. */
bool gw_who_of_key(struct gw_loop *loop, const char *access_key, bool root, struct gw_who *out);
/* Adds the policies of a user or role, `own`, and those attached to it. False if one is missing or cannot be read. */
bool gw_who_take_policies(struct gw_loop *loop, struct gw_who *who, const struct gw_policies *own);
/* The managed policy of that ARN. NULL if there is none, or if it cannot be read. */
const struct acc_policy *gw_who_managed(struct gw_loop *loop, const char *arn);
/* In who_session.c. Finds the principal of temporary credentials, out->temporary. */
bool gw_who_of_session(struct gw_loop *loop, struct gw_who *out);
/* Answers condition keys that only sessions have. False if the session has no such key. */
bool gw_who_session_key(struct gw_conditions *conditions, const struct acc_key *key, struct acc_values *out);

#endif
