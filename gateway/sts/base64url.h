/*
 * base64url.h - reads base64 for URLs (RFC 4648, section 5) without padding, as tokens have it; s3_base64url_encode() writes
 * it. Pure; any thread.
 */
#ifndef GATEWAY_STS_BASE64URL_H
#define GATEWAY_STS_BASE64URL_H

#include "s3_base.h"

#define GW_BASE64URL_LEN(bytes) (((bytes) * 4 + 2) / 3)

/*
 * The number of bytes, at most cap. -EINVAL: a character of another alphabet, padding, bits behind the end that
 * are not 0 (so that no two texts mean the same bytes); -ENOBUFS.
 */
int gw_base64url_decode(struct s3_str in, void *out, size_t cap);

#endif
