/*
 * public_access.h - a bucket's public access block, in decisions.
 */
#ifndef GATEWAY_S3_PUBLIC_ACCESS_H
#define GATEWAY_S3_PUBLIC_ACCESS_H

#include "gateway/http/gw.h"

/* struct gw_service: restricts_public. */
bool gw_public_restricted(struct gw_loop *loop, uint64_t bucket);

#endif
