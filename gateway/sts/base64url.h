/*
 * base64url.h - base64 for URLs (RFC 4648, section 5) without padding, as tokens have it. Pure; any thread.
 */
#ifndef GATEWAY_STS_BASE64URL_H
#define GATEWAY_STS_BASE64URL_H

#include "s3_base.h"

#define GW_BASE64URL_LEN(bytes) (((bytes) * 4 + 2) / 3)

/* Writes NUL behind it; returns the length without it. */
size_t gw_base64url_encode(const void *in, size_t len, char *out);
/*
 * The number of bytes, at most cap. -EINVAL: a character of another alphabet, padding, bits behind the end that
 * are not 0 (so that no two texts mean the same bytes); -ENOBUFS.
 */
int gw_base64url_decode(struct s3_str in, void *out, size_t cap);

#endif
