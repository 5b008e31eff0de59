/*
 * permit.c - the one gate of authorization (permit.h). On the loop of whoever asks; nothing here
 * waits.
 */
#include "gateway/http/permit.h"

#include <string.h>

#include "gateway/http/users.h"

/*
 * What only asks is named as such; everything else changes something, also what is named otherwise
 * one day.
 */
bool gw_changes(const char *permission)
{
        const char *name = strchr(permission, ':');

        return name == NULL || (strncmp(name, ":Get", 4) != 0 && strncmp(name, ":List", 5) != 0);
}

static bool is_switched_off(const struct gw_loop *loop, const char *permission)
{
        return atomic_load(&loop->gw->read_only) && gw_changes(permission);
}

const char *gw_permit_refusal(const struct gw_loop *loop, const char *permission)
{
        return is_switched_off(loop, permission) ? "The store is read-only: its operator has switched off changes." : NULL;
}

/*
 * Root may do everything. Users of the directory sign, and may do nothing until policies say what
 * they may: they are not among the credentials that are looked at here. gw->policy is for tests,
 * which deny things to see that each entry asks.
 */
bool gw_permit(struct gw_loop *loop, const char *access_key, const char *permission, struct s3_str bucket,
               struct s3_str key)
{
        const struct gw_credential *who = access_key != NULL ? gw_credentials_find(loop, access_key) : NULL;

        if (who == NULL)
                return false; /* taken away, perhaps since the request came */
        if (is_switched_off(loop, permission))
                return false;
        return loop->gw->policy == NULL || loop->gw->policy(who, permission, bucket, key);
}
