/*
 * permit.c - the one gate of authorization (permit.h). On the loop of whoever asks; nothing here waits.
 */
#include "gateway/http/permit.h"

#include "gateway/http/users.h"

/* There is one user, root, who may do everything. gw->policy is for tests, which deny things to see that each entry asks. */
bool gw_permit(struct gw_loop *loop, const char *access_key, const char *permission, struct s3_str bucket,
               struct s3_str key)
{
        const struct gw_credential *who = access_key != NULL ? gw_credentials_find(loop, access_key) : NULL;

        if (who == NULL)
                return false; /* taken away, perhaps since the request came */
        return loop->gw->policy == NULL || loop->gw->policy(who, permission, bucket, key);
}
