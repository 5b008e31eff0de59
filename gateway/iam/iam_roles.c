/*
 * iam_roles.c - IAM's actions about roles. On the request's loop.
 */
#include "gateway/iam/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TRUST_BYTES 8192u /* of a text that is kept, white space included */

static int64_t session_seconds(const struct iam_call *call)
{
        const char *text = call->in.value[IAM_P_SESSION];

        return text != NULL ? strtol(text, NULL, 10) : 0;
}

void iam_run_create_role(struct iam_call *call)
{
        const char *boundary = call->in.value[IAM_P_BOUNDARY];
        struct gw_entity role = {
                .description = call->in.value[IAM_P_DESCRIPTION],
                .boundary = boundary,
                .created_ms = lp_wall_ms(),
                .session_seconds = session_seconds(call),
        };

        role.trust = iam_bind_trust(call, call->in.value[IAM_P_TRUST], TRUST_BYTES);
        if (role.trust == NULL || (boundary != NULL && iam_find_policy(call, boundary) == NULL))
                return;
        iam_create_named(call, &role, GW_ROLE, "AROA");
}

static int show_nothing(struct iam_call *call, struct s3_xml *xml)
{
        return 0;
}

void iam_run_update_role(struct iam_call *call)
{
        struct gw_entity *edited = iam_find_edit(call, GW_ROLE, call->in.value[IAM_P_ROLE]);

        if (edited == NULL)
                return;
        if (call->in.value[IAM_P_DESCRIPTION] != NULL)
                edited->description = call->in.value[IAM_P_DESCRIPTION];
        if (call->in.value[IAM_P_SESSION] != NULL)
                edited->session_seconds = session_seconds(call);
        iam_replace(call, edited, show_nothing);
}

void iam_run_update_trust(struct iam_call *call)
{
        const char *trust = iam_bind_trust(call, call->in.value[IAM_P_DOCUMENT], TRUST_BYTES);
        struct gw_entity *edited;

        if (trust == NULL)
                return;
        edited = iam_find_edit(call, GW_ROLE, call->in.value[IAM_P_ROLE]);
        if (edited == NULL)
                return;
        edited->trust = trust;
        iam_replace(call, edited, NULL);
}
