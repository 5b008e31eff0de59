/*
 * permit.c - the one gate of authorization (permit.h). On the loop of whoever asks; nothing here
 * waits.
 */
#include "gateway/http/permit.h"

#include <string.h>

#include "gateway/http/operation.h"
#include "gateway/http/users.h"

/*
 * What only asks is named as such; everything else changes something, also what is named otherwise
 * one day.
 */
bool gw_changes(const char *permission)
{
        const char *name = strchr(permission, ':');

        return name == NULL ||
               (strncmp(name, ":Get", 4) != 0 && strncmp(name, ":List", 5) != 0 && strcmp(permission, "admin:ServerInfo") != 0);
}

static bool is_switched_off(const struct gw_loop *loop, const char *permission)
{
        return atomic_load(&loop->gw->read_only) && gw_changes(permission);
}

/*
 * gw->policy is for tests, which deny root things to see that each operation asks.
 */
bool gw_permit(const struct gw_ask *ask, char *why)
{
        const struct gw_loop *loop = ask->loop;
        const struct gw_service *service = loop->gw->service;
        const struct gw_credential *root =
                ask->access_key != NULL ? gw_credentials_find(ask->loop, ask->access_key) : NULL;

        if (why != NULL)
                *why = '\0';
        if (is_switched_off(loop, ask->permission)) {
                if (why != NULL)
                        strcpy(why, "The store is read-only: its operator has switched off changes.");
                return false;
        }
        if (root != NULL && loop->gw->policy != NULL &&
            !loop->gw->policy(root, ask->permission, ask->bucket, ask->key))
                return false;
        return service->permits != NULL ? service->permits(ask, root != NULL, why) : root != NULL;
}
