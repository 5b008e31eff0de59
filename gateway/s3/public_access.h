/*
 * public_access.h - a bucket's public access block, in decisions.
 */
#ifndef GATEWAY_S3_PUBLIC_ACCESS_H
#define GATEWAY_S3_PUBLIC_ACCESS_H

#include "gateway/http/gw.h"

/* One of the four settings, by its element's name: on where nothing was ever set, and where it cannot be read. */
bool gw_public_access_is(struct eng_store *store, uint64_t bucket, const char *what);
/* struct gw_service: restricts_public. */
bool gw_public_restricted(struct eng_store *store, uint64_t bucket);

#endif
