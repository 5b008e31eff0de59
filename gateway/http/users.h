/*
 * users.h - who may sign, and the keys of signatures.
 */
#ifndef GATEWAY_HTTP_USERS_H
#define GATEWAY_HTTP_USERS_H

#include "gateway/http/gw.h"

/* Of the loop's credentials as last set; NULL: there is none of that name. owner: loop */
const struct gw_credential *gw_credentials_find(struct gw_loop *loop, const char *access_key);
/* Gives a counted reference back. NULL is allowed. */
void gw_credentials_put(struct gw_credentials *c);

/* The key of that day of a user's or session's secret. owner: loop */
void gw_signing_key(struct gw_loop *loop, const struct gw_credential *credential, const char *scope_date,
                    struct s3_signing_key *out);

#endif
