/*
 * permit.c - the one gate of authorization (permit.h). On the loop of whoever asks; nothing here
 * waits.
 */
#include "gateway/http/permit.h"

#include <errno.h>
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

void gw_ask_bucket(struct gw_ask *ask)
{
        int rv;

        if (ask->bucket_sought)
                return;
        rv = ask->bucket.len == 0 ? -ENOENT : gw_bucket_get(ask->loop->gw, ask->bucket, &ask->found, NULL);
        ask->bucket_sought = true;
        ask->bucket_lost = rv == -EHOSTDOWN && !gw_pool_alone(ask->loop->gw); /* else the one store says so itself */
        if (rv != 0)
                ask->found = NULL;
}

/*
 * gw->policy is for tests, which deny root things to see that each operation asks.
 */
static bool permit_asked(const struct gw_ask *ask, char *why)
{
        const struct gw_loop *loop = ask->loop;
        const struct gw_service *service = loop->gw->service;
        const struct gw_credential *root =
                ask->access_key != NULL ? gw_credentials_find(ask->loop, ask->access_key) : NULL;

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

bool gw_ask_decided(const struct gw_ask *ask)
{
        const struct eng_store *of = ask->found != NULL ? ask->found->store : ask->loop->gw->store;

        if (ask->req == NULL || gw_decision_is_current(ask->req, ask->access_key, of))
                return true;
        ask->req->undecided = true;
        return false;
}

bool gw_permit(const struct gw_ask *asked, char *why)
{
        struct gw_ask ask = *asked;
        bool permitted;

        if (why != NULL)
                *why = '\0';
        gw_ask_bucket(&ask);
        if (ask.bucket_lost && ask.req != NULL) {
                ask.req->undecided = true; /* what its policy says is not known: no refusal either */
                return false;
        }
        if (ask.bucket_id != 0 && (ask.found == NULL || ask.found->id != ask.bucket_id))
                return false; /* no policy of that other bucket is about what was found (P22) */
        permitted = permit_asked(&ask, why);
        return gw_ask_decided(&ask) && permitted;
}

/* Where an object's ACL counts, its owner may be another whatever is said now: only the second answer counts. */
static bool object_acls_count(const struct gw_ask *ask)
{
        const struct gw_service *service = ask->loop->gw->service;

        return ask->found != NULL && service->takes_acls != NULL && service->takes_acls(ask->found->store, ask->found->id);
}

enum gw_permitted gw_permit_early(struct gw_ask *ask, char *why)
{
        gw_ask_bucket(ask);
        ask->look = GW_LOOK_NEVER;
        if (!object_acls_count(ask) && gw_permit(ask, why))
                return GW_PERMITTED;
        ask->look = GW_LOOK_LATER;
        return gw_permit(ask, why) ? GW_PERMITTED_IF : GW_REFUSED;
}

void gw_ask_found(struct gw_ask *ask, uint64_t bucket_id, const struct eng_object *object, bool by_version)
{
        ask->bucket_id = bucket_id;
        ask->object = object;
        if (object == NULL)
                ask->look = GW_LOOK_NOTHING;
        else if (object->marker)
                ask->look = by_version ? GW_LOOK_MARKER : GW_LOOK_NOTHING;
        else
                ask->look = GW_LOOK_FOUND;
}
