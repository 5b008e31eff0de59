/*
 * users.h - who may sign, and the keys of signatures.
 */
#ifndef GATEWAY_HTTP_USERS_H
#define GATEWAY_HTTP_USERS_H

#include "gateway/http/gw.h"

/* Root: of the loop's credentials as last set; NULL: there is none of that name. owner: loop */
const struct gw_credential *gw_credentials_find(struct gw_loop *loop, const char *access_key);
/*
 * Who may sign with this access key: one of those, or one that the service knows, for whom *room is filled;
 * the caller clears that. NULL: nobody. owner: loop
 */
const struct gw_credential *gw_signer_find(struct gw_loop *loop, const char *access_key, struct gw_credential *room);
/* Gives a counted reference back. NULL is allowed. */
void gw_credentials_put(struct gw_credentials *c);

/* What a signing key is good for, beside its day. */
struct gw_key_scope {
        const char *region, *service;
};
/* The key of that day and scope of a user's or session's secret. owner: loop */
void gw_scope_key(struct gw_loop *loop, const struct gw_credential *credential, const char *scope_date,
                  struct gw_key_scope scope, struct s3_signing_key *out);
/* That of S3, in the gateway's region. */
void gw_signing_key(struct gw_loop *loop, const struct gw_credential *credential, const char *scope_date,
                    struct s3_signing_key *out);

#endif
