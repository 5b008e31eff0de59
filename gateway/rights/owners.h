/*
 * owners.h - who owns a bucket, and what its ACL says. docs/design/rights.md, P12 and on.
 */
#ifndef GATEWAY_RIGHTS_OWNERS_H
#define GATEWAY_RIGHTS_OWNERS_H

#include "gateway/http/permit.h"
#include "gateway/people/bucket_owner.h"

#define GW_BUCKET_ACL 16u /* the kind of text: stored */

/* The account of whoever asks. False: nobody, or anonymous. */
bool gw_account_of(const struct gw_ask *ask, char account[GW_ACCOUNT_ID_LEN + 1]);
/* The account that owns a bucket; "": there is none of that name, or nobody owns it. */
void gw_account_of_bucket(struct gw_loop *loop, struct s3_str name, char account[GW_ACCOUNT_ID_LEN + 1]);
/* Does one account own that bucket and the one of that name? */
bool gw_same_owner(struct gw_loop *loop, const struct eng_bucket *bucket, struct s3_str name);
/* The canonical id of an account, until the caller returns to the loop; "" where there is no such account. */
struct s3_str gw_canonical_id(struct gw_loop *loop, const char *account);
/* The same of the account that owns the bucket of that name. */
struct s3_str gw_canonical_id_of_bucket(struct gw_loop *loop, struct s3_str name);
/* What an account is called: its title; "root" for the first one. NULL: there is no such account. */
const char *gw_account_title(struct gw_loop *loop, const char *account);

/*
 * The ACL that was set for a bucket, until the caller returns to the loop. -ENOENT: none, it is private;
 * -EBADMSG: it cannot be read; -ENOMEM; errors of eng_text_get().
 */
int gw_bucket_acl_find(struct eng_store *store, uint64_t bucket, const struct s3_acl **out);

#endif
