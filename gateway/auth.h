/*
 * auth.h - who sent a request: SigV4 against the table of credentials.
 */
#ifndef GATEWAY_AUTH_H
#define GATEWAY_AUTH_H

#include "request.h"

/*
 * Verifies the signature of a request whose head has been read. True: req->access_key is set, loop->auth filled, *key the signing key (for chunk
 * signatures). False: answered.
 */
bool gw_authenticate(struct gw_request *req, struct s3_signing_key *key);

#endif
