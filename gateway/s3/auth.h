/*
 * auth.h - who sent a request: SigV4 against the table of credentials.
 */
#ifndef GATEWAY_S3_AUTH_H
#define GATEWAY_S3_AUTH_H

#include "gateway/http/http_request.h"

/*
 * Verifies the signature of a request whose head has been read. True: req->access_key is set, or NULL where
 * nobody signed; loop->auth filled, *key the signing key (for chunk signatures). False: answered. routed: why
 * the request has no operation, if it has none; one that claims to be nobody's is told that first.
 */
bool gw_authenticate(struct gw_request *req, struct s3_signing_key *key, enum s3_error routed);

/* Nobody signed it, and nobody may do it without a signature. */
void gw_auth_stranger_refuse(struct gw_request *req);

#endif
