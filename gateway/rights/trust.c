/*
 * trust.c - see trust.h. On the loop of whoever asks; nothing here waits.
 */
#include "gateway/rights/trust.h"

#include "gateway/http/users.h"
#include "gateway/rights/conditions.h"

static bool trust_who(const struct gw_ask *ask, const struct gw_trust *trust, struct gw_who *who)
{
        struct gw_ask nobody = {.loop = ask->loop, .req = ask->req};
        bool root = ask->access_key != NULL && gw_credentials_find(ask->loop, ask->access_key) != NULL;

        if (trust->provider.data == NULL)
                return gw_who_find(ask, root, who);
        gw_who_find(&nobody, false, who);
        who->principal = (struct acc_principal){.kind = ACC_WEB_IDENTITY, .name = trust->provider};
        return true;
}

bool gw_rights_trust(const struct gw_ask *ask, const struct gw_trust *trust, char *why)
{
        struct gw_conditions conditions;
        struct acc_verdict verdict = {.allowed = false};
        struct gw_who who;
        struct acc_request request = {.principal = &who.principal,
                                      .action = s3_str_of(ask->permission),
                                      .resource = ask->resource,
                                      .lookup = gw_conditions_lookup,
                                      .context = &conditions};

        if (why != NULL)
                *why = '\0';
        if (trust_who(ask, trust, &who)) {
                struct acc_policies policies = {.identity = who.policy,
                                                .identities = who.policies,
                                                .boundary = who.boundary,
                                                .session = who.session,
                                                .sessions = who.sessions,
                                                .resource = trust->policy,
                                                .resource_account = trust->account};

                gw_conditions_init(&conditions, ask, &who);
                conditions.more = trust->more;
                conditions.more_context = trust->more_context;
                verdict = acc_decide(&policies, &request);
                if (!verdict.allowed && why != NULL && ask->access_key != NULL)
                        acc_verdict_message(&verdict, &request, why, GW_WHY_MAX);
        }
        gw_who_put(&who);
        return gw_ask_decided(ask) && verdict.allowed;
}
