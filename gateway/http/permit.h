/*
 * permit.h - the one gate of authorization.
 */
#ifndef GATEWAY_HTTP_PERMIT_H
#define GATEWAY_HTTP_PERMIT_H

#include "gateway/http/gw.h"

/*
 * May the user with this access key do what needs `permission` (as IAM names it) to that bucket and
 * key? An absent key: to the bucket, or to some key in it, each of which is asked for when its turn
 * comes; an absent bucket: to none, or likewise. NULL is nobody's access key. Whatever comes to the
 * engine for a user asks first: requests (head.c), what they copy from (copy.c), each key of
 * DeleteObjects (op_delete.c), each entry of a batch (entry.c). owner: loop
 */
bool gw_permit(struct gw_loop *loop, const char *access_key, const char *permission, struct s3_str bucket,
               struct s3_str key);
/*
 * The text of AccessDenied where gw_permit() refused that because the store is read-only
 * (gw_read_only()); NULL: the usual text.
 */
const char *gw_permit_refusal(const struct gw_loop *loop, const char *permission);
/* Whether what needs this permission changes something in the store. Pure. */
bool gw_changes(const char *permission);

#endif
