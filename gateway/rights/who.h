/*
 * who.h - who asks, and by which policies of their own (private to the module).
 */
#ifndef GATEWAY_RIGHTS_WHO_H
#define GATEWAY_RIGHTS_WHO_H

#include "gateway/people/people.h"
#include "gateway/rights/rights.h"

/* More than AWS's quotas of groups, attached and inline policies allow. */
#define GW_IDENTITY_MAX 1024u

/* owner: whoever asks, until it returns to the loop */
struct gw_who {
        struct acc_principal principal;
        const struct gw_entity *user; /* NULL: no user */
        char arn[GW_ENTITY_PATH_MAX + GW_ENTITY_NAME_MAX + 64];
        size_t policies;
        const struct acc_policy *policy[GW_IDENTITY_MAX];
        const struct acc_policy *boundary; /* NULL: none */
};

/* False: nobody who may do anything: gone, switched off, or with a policy that cannot be read. */
bool gw_who_find(const struct gw_ask *ask, bool root, struct gw_who *out);

#endif
