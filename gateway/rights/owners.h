/*
 * owners.h - who owns a bucket, and what its ACL says. docs/design/rights.md, P12 and on.
 *
 * The account that owns a bucket is in the bucket's attrs: a byte 1 and 12 digits. A bucket without
 * attrs belongs to the first account, as all did before there was another.
 */
#ifndef GATEWAY_RIGHTS_OWNERS_H
#define GATEWAY_RIGHTS_OWNERS_H

#include "gateway/http/permit.h"
#include "gateway/people/entity.h"

#define GW_BUCKET_ACL         16u /* the kind of text: stored */
#define GW_BUCKET_ATTRS_BYTES (1u + GW_ACCOUNT_ID_LEN)

/* "": attrs that make no sense. Then nobody owns it. */
void gw_bucket_account(const struct eng_bucket *bucket, char account[GW_ACCOUNT_ID_LEN + 1]);
/* Attrs of a new bucket of that account. Returns their length; 0: it needs none. */
size_t gw_bucket_attrs(const char *account, uint8_t out[GW_BUCKET_ATTRS_BYTES]);
/* The account of whoever asks. False: nobody, or anonymous. */
bool gw_account_of(const struct gw_ask *ask, char account[GW_ACCOUNT_ID_LEN + 1]);
/* The canonical id of an account, until the caller returns to the loop. NULL: there is no such account. */
const char *gw_canonical_id(struct gw_loop *loop, const char *account);
/* What an account is called: its title; "root" for the first one. NULL: there is no such account. */
const char *gw_account_title(struct gw_loop *loop, const char *account);

/*
 * The ACL that was set for a bucket, until the caller returns to the loop. -ENOENT: none, it is private;
 * -EBADMSG: it cannot be read; -ENOMEM; errors of eng_text_get().
 */
int gw_bucket_acl_find(struct gw_loop *loop, uint64_t bucket, const struct s3_acl **out);

#endif
