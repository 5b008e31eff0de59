/*
 * sts.h - what the actions of STS share (private to the module). owner of everything here: the loop of the request.
 */
#ifndef GATEWAY_IAM_STS_H
#define GATEWAY_IAM_STS_H

#include "gateway/iam/call.h"
#include "gateway/rights/trust.h"
#include "gateway/sts/signer.h"

/* A role that somebody wants to assume, and what comes of it. In the request's arena. */
struct sts_making {
        const struct gw_entity *role; /* until the loop's turn ends */
        char role_arn[IAM_ARN_SIZE];
        struct gw_temporary what; /* strings: of the form, the role, the token of whoever asks */
        const char *subject, *audience, *issuer; /* of a web identity; NULL: it is none */
        acc_lookup *claims;                      /* and the keys of conditions that its token gives */
        void *claims_context;
        const char *provider;
        unsigned packed;
        char secret[GW_TEMPORARY_SECRET + 1], token[GW_TOKEN_TEXT_MAX + 1];
};

/* Finds the role and what the form says of the session. NULL: refused. */
struct sts_making *sts_making_new(struct iam_call *call);
/* Asks whether that may be, seals the token, answers. */
void sts_assume(struct iam_call *call, struct sts_making *making, const char *permission);
/* The credentials of making->what, for so long; answers. */
void sts_make(struct iam_call *call, struct sts_making *making, int64_t seconds);
/* DurationSeconds, or this. */
int64_t sts_seconds(const struct iam_call *call, int64_t otherwise);

#endif
