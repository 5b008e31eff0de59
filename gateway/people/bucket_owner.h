/*
 * bucket_owner.h - the account that owns a bucket, as it is kept in the bucket's attrs: a byte 1 and
 * 12 digits. A bucket without attrs belongs to the first account, as all did before there was another.
 */
#ifndef GATEWAY_PEOPLE_BUCKET_OWNER_H
#define GATEWAY_PEOPLE_BUCKET_OWNER_H

#include "gateway/http/gw.h"
#include "gateway/people/entity.h"

#define GW_BUCKET_ATTRS_BYTES (1u + GW_ACCOUNT_ID_LEN)

/* "": attrs that make no sense. Then nobody owns it. Pure. */
void gw_bucket_account(const struct eng_bucket *bucket, char account[GW_ACCOUNT_ID_LEN + 1]);
/* Attrs of a new bucket of that account. Returns their length; 0: it needs none. Pure. */
size_t gw_bucket_attrs(const char *account, uint8_t out[GW_BUCKET_ATTRS_BYTES]);
/* Whether the account owns a bucket, of those that gw_bucket_list() gives. On a loop; immediate. */
bool gw_account_has_bucket(struct gw_gateway *gw, const char *account);

#endif
