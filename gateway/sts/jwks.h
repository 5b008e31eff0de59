/*
 * jwks.h - keys of signatures (private to the module). Pure; any thread.
 */
#ifndef GATEWAY_STS_JWKS_H
#define GATEWAY_STS_JWKS_H

#include <stdbool.h>

bool gw_jwk_algorithm_known(const char *algorithm);

#endif
