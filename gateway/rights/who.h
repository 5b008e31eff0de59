/*
 * who.h - who asks, and by which policies of their own (private to the module).
 */
#ifndef GATEWAY_RIGHTS_WHO_H
#define GATEWAY_RIGHTS_WHO_H

#include "gateway/people/people.h"
#include "gateway/rights/rights.h"
#include "gateway/sts/signer.h"

/* More than AWS's quotas of groups, attached and inline policies allow. */
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

/* False: nobody who may do anything: gone, switched off, or with a policy that cannot be read. */
bool gw_who_find(const struct gw_ask *ask, bool root, struct gw_who *out);
/* What find() holds, whatever it said. */
void gw_who_put(struct gw_who *who);

/* who.c, for who_session.c: each as find(), by a permanent key, and for a role. */
bool gw_who_of_key(struct gw_loop *loop, const char *access_key, bool root, struct gw_who *out);
bool gw_who_take_policies(struct gw_loop *loop, struct gw_who *who, const struct gw_policies *own);
const struct acc_policy *gw_who_managed(struct gw_loop *loop, const char *arn);
/* who_session.c: who has out->temporary. */
bool gw_who_of_session(struct gw_loop *loop, struct gw_who *out);
/* Keys of conditions that a session has, and others lack. False: it has none of this name. */
bool gw_who_session_key(struct gw_conditions *conditions, const struct acc_key *key, struct acc_values *out);

#endif
