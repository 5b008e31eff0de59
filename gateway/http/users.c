/*
 * users.c - the users' keys and secrets, and signing keys made of them. Set by any thread; each
 * loop has its own counted reference and looks whether there are newer ones.
 *
 * Signing keys (four HMACs) are cached per loop, the least recently used gives way, and all are
 * forgotten when credentials change.
 */
#include "gateway/http/users.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/operation.h"

void gw_credentials_put(struct gw_credentials *c)
{
        if (c == NULL || atomic_fetch_sub(&c->references, 1) != 1)
                return;
        explicit_bzero(c->list, c->count * sizeof(c->list[0]));
        free(c);
}

static bool holds_credential(const struct gw_credential *list, unsigned count, const struct gw_credential *one)
{
        for (unsigned i = 0; i < count; i++)
                if (strcmp(list[i].access_key, one->access_key) == 0 &&
                    strcmp(list[i].secret_key, one->secret_key) == 0)
                        return true;
        return false;
}

/* What was opened with credentials ends with them. */
static void tell_of_gone(struct gw_gateway *gw, const struct gw_credentials *old, const struct gw_credential *list,
                         unsigned count)
{
        for (unsigned i = 0; old != NULL && i < old->count; i++)
                if (!holds_credential(list, count, &old->list[i]))
                        gw->service->credential_gone(gw, old->list[i].access_key);
}

int gw_credentials_set(struct gw_gateway *gw, const struct gw_credential *list, unsigned count)
{
        struct gw_credentials *c = calloc(1, sizeof(*c) + count * sizeof(c->list[0])), *old;

        if (c == NULL)
                return -ENOMEM;
        atomic_init(&c->references, 1);
        c->count = count;
        memcpy(c->list, list, count * sizeof(c->list[0]));
        pthread_mutex_lock(&gw->lock);
        old = gw->credentials;
        gw->credentials = c;
        atomic_fetch_add(&gw->credentials_generation, 1);
        pthread_mutex_unlock(&gw->lock);
        tell_of_gone(gw, old, list, count);
        gw_credentials_put(old);
        return 0;
}

static void refresh_credentials(struct gw_loop *loop)
{
        struct gw_gateway *gw = loop->gw;

        if (loop->credentials_seen == atomic_load(&gw->credentials_generation))
                return;
        pthread_mutex_lock(&gw->lock);
        gw_credentials_put(loop->credentials);
        loop->credentials = gw->credentials;
        if (loop->credentials != NULL)
                atomic_fetch_add(&loop->credentials->references, 1);
        loop->credentials_seen = atomic_load(&gw->credentials_generation);
        pthread_mutex_unlock(&gw->lock);
        explicit_bzero(loop->keys, sizeof(loop->keys)); /* keys of secrets that may be gone */
}

const struct gw_credential *gw_credentials_find(struct gw_loop *loop, const char *access_key)
{
        unsigned i;

        refresh_credentials(loop);
        for (i = 0; loop->credentials != NULL && i < loop->credentials->count; i++)
                if (strcmp(loop->credentials->list[i].access_key, access_key) == 0)
                        return &loop->credentials->list[i];
        return NULL;
}

const struct gw_credential *gw_signer_find(struct gw_loop *loop, const char *access_key, struct gw_credential *room)
{
        const struct gw_credential *root = gw_credentials_find(loop, access_key);

        if (root != NULL)
                return root;
        return loop->gw->service->signer != NULL && loop->gw->service->signer(loop, access_key, room) ? room : NULL;
}

/* ---- signing keys ---------------------------------------------------------------------------- */

static bool is_key_of(const struct gw_key_cached *k, const char *access_key, const char *scope_date,
                      struct gw_key_scope scope)
{
        return strcmp(k->access_key, access_key) == 0 && strcmp(k->scope_date, scope_date) == 0 &&
               strcmp(k->service, scope.service) == 0 && strcmp(k->region, scope.region) == 0;
}

void gw_signing_key(struct gw_loop *loop, const struct gw_credential *credential, const char *scope_date,
                    struct s3_signing_key *out)
{
        gw_scope_key(loop, credential, scope_date, (struct gw_key_scope){loop->gw->region, "s3"}, out);
}

void gw_scope_key(struct gw_loop *loop, const struct gw_credential *credential, const char *scope_date,
                  struct gw_key_scope scope, struct s3_signing_key *out)
{
        struct gw_key_cached *slot = &loop->keys[0];
        unsigned i;

        for (i = 0; i < GW_KEYS_CACHED; i++) {
                struct gw_key_cached *k = &loop->keys[i];

                if (is_key_of(k, credential->access_key, scope_date, scope)) {
                        k->used = ++loop->key_uses;
                        *out = k->key;
                        return;
                }
                if (k->used < slot->used)
                        slot = k;
        }
        memset(slot, 0, sizeof(*slot));
        slot->used = ++loop->key_uses;
        snprintf(slot->access_key, sizeof(slot->access_key), "%s", credential->access_key);
        snprintf(slot->scope_date, sizeof(slot->scope_date), "%s", scope_date);
        snprintf(slot->service, sizeof(slot->service), "%s", scope.service);
        snprintf(slot->region, sizeof(slot->region), "%s", scope.region);
        s3_signing_key_derive(s3_str_of(credential->secret_key), scope_date, scope.region, scope.service, &slot->key);
        *out = slot->key;
}
