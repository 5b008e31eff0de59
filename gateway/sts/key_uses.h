/*
 * key_uses.h - when access keys of users were last used to sign, for GetAccessKeyLastUsed (rule T23 in
 * docs/design/sts.md). Any thread, without locks.
 */
#ifndef GATEWAY_STS_KEY_USES_H
#define GATEWAY_STS_KEY_USES_H

#include <stdint.h>

#include "gateway/http/gw.h"
#include "gateway/http/operation.h"

/* -ENOMEM. */
int gw_key_uses_start(struct gw_gateway *gw);
void gw_key_uses_free(struct gw_gateway *gw);

/* The key has signed this operation, which is permitted or not. */
void gw_key_used(struct gw_gateway *gw, const char *access_key, const struct gw_op *op, int64_t now_ms);

struct gw_key_use {
        int64_t ms;          /* of whole seconds */
        const char *service; /* "s3", "iam" or "sts" */
};
/* False: not since the start, or so long ago that others have taken its place. */
bool gw_key_last_used(const struct gw_gateway *gw, const char *access_key, struct gw_key_use *out);

#endif
