/*
 * signer.c - opens the token of a request, and says whether its credentials are still good (rules T6 to T11).
 *
 * Each loop keeps the tokens that it opened of late, in a table of a fixed size by access key, which it compares
 * as a whole: an opened token costs some microseconds, and one with a session policy some tens.
 */
#include "gateway/sts/signer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"
#include "gateway/http/http_request.h"
#include "gateway/people/people.h"
#include "gateway/sts/base64url.h"
#include "gateway/sts/key_uses.h"

#define OPENED 256u

/* ---- still good ------------------------------------------------------------------------------ */

uint64_t gw_root_mark(const struct gw_credential *root)
{
        char text[sizeof(root->access_key) + sizeof(root->secret_key) + 16];
        uint8_t digest[ERA_DIGEST_MAX];
        uint64_t mark;
        int len = snprintf(text, sizeof(text), "mark %s %s", root->access_key, root->secret_key);

        era_digest_of(ERA_SHA256, text, (size_t)len, digest);
        memcpy(&mark, digest, sizeof(mark));
        explicit_bzero(text, sizeof(text));
        return mark;
}

static bool role_is_there(struct gw_loop *loop, const struct gw_temporary *t)
{
        struct gw_entity_name who = {.kind = GW_ROLE};
        const struct gw_entity *role;

        if (strlen(t->role) >= sizeof(who.name))
                return false;
        strcpy(who.account, t->account);
        strcpy(who.name, t->role);
        return gw_people_find(loop, &who, &role, NULL) == 0 && strcmp(role->id, t->role_id) == 0;
}

static bool issuer_is_there(struct gw_loop *loop, const struct gw_temporary *t)
{
        const struct gw_credential *root = gw_credentials_find(loop, t->issuer);
        struct gw_entity_name who = {.kind = GW_USER};
        const struct gw_entity *key, *user;

        if (root != NULL)
                return gw_root_mark(root) == t->mark;
        if (gw_people_find_key(loop, t->issuer, &key) != 0 || !key->active || strcmp(key->who.name, t->issuer) != 0 ||
            strcmp(key->owner, t->account) != 0)
                return false;
        if (key->who.of[0] == '\0')
                return gw_people_has_account(loop, key->owner);
        strcpy(who.account, key->owner);
        strcpy(who.name, key->who.of);
        return gw_people_find(loop, &who, &user, NULL) == 0;
}

bool gw_temporary_alive(struct gw_loop *loop, const struct gw_temporary *t)
{
        if (lp_wall_ms() >= t->expires_ms)
                return false;
        return t->kind == GW_SESSION_OF_ROLE ? role_is_there(loop, t) : issuer_is_there(loop, t);
}

/* ---- tokens opened of late ------------------------------------------------------------------- */

static struct gw_temporary **opened_slot(struct gw_loop *loop, const char *access_key)
{
        unsigned hash = 0;

        if (loop->opened == NULL)
                loop->opened = calloc(OPENED, sizeof(loop->opened[0]));
        for (const char *p = access_key; *p != '\0'; p++)
                hash = hash * 31 + (unsigned char)*p;
        return loop->opened != NULL ? &loop->opened[hash % OPENED] : NULL;
}

/* Its key may have left the key file since. */
static bool opened_holds(const struct gw_sealer *sealer, const struct gw_temporary *t, const char *access_key,
                         struct s3_str text)
{
        uint8_t head[GW_TOKEN_MORE];
        struct s3_str start = {text.data, GW_BASE64URL_LEN(GW_TOKEN_MORE) / 4 * 4};

        if (t == NULL || text.len != t->text_len || memcmp(text.data, t->text, text.len) != 0 ||
            strcmp(t->access_key, access_key) != 0)
                return false;
        return gw_base64url_decode(start, head, sizeof(head)) > 0 && sealer->knows_token != NULL &&
               sealer->knows_token(sealer->arg, head, sizeof(head));
}

/* Counted. */
static int opened_take(struct gw_loop *loop, const char *access_key, struct s3_str text, struct gw_temporary **out)
{
        const struct gw_sealer *sealer = &loop->gw->sealer;
        struct gw_temporary **slot = opened_slot(loop, access_key);
        int rv;

        if (slot != NULL && opened_holds(sealer, *slot, access_key, text)) {
                *out = gw_temporary_get(*slot);
                return 0;
        }
        rv = gw_temporary_open(sealer, access_key, text, out);
        if (rv == 0 && slot != NULL) {
                gw_temporary_put(*slot);
                *slot = gw_temporary_get(*out);
        }
        return rv;
}

void gw_sts_loop_end(struct gw_loop *loop)
{
        for (unsigned i = 0; loop->opened != NULL && i < OPENED; i++)
                gw_temporary_put(loop->opened[i]);
        free(loop->opened);
        loop->opened = NULL;
}

/* ---- who signs ------------------------------------------------------------------------------- */

static enum s3_auth_reason signer_reason(struct gw_loop *loop, const struct gw_temporary *t)
{
        if (lp_wall_ms() >= t->expires_ms)
                return S3_AUTH_TOKEN_EXPIRED;
        return gw_temporary_alive(loop, t) ? S3_AUTH_OK : S3_AUTH_TOKEN;
}

void gw_signer_take_of(struct gw_loop *loop, const char *access_key, struct s3_str token, struct gw_signer *out)
{
        int rv;

        *out = (struct gw_signer){.reason = S3_AUTH_OK};
        if (token.data == NULL) {
                out->credential = gw_signer_find(loop, access_key, &out->room);
                return;
        }
        rv = strncmp(access_key, GW_TEMPORARY_PREFIX, strlen(GW_TEMPORARY_PREFIX)) != 0 ||
                             gw_credentials_find(loop, access_key) != NULL
                     ? -EBADMSG
                     : opened_take(loop, access_key, token, &out->temporary);
        out->reason = rv == 0 ? signer_reason(loop, out->temporary) : S3_AUTH_TOKEN;
        if (out->reason != S3_AUTH_OK)
                return;
        strcpy(out->room.access_key, out->temporary->access_key);
        strcpy(out->room.secret_key, out->temporary->secret);
        out->credential = &out->room;
}

void gw_signer_take(struct gw_loop *loop, const struct s3_auth *auth, struct gw_signer *out)
{
        char text[GW_TOKEN_TEXT_MAX + 1];
        struct s3_str token = auth->token;
        int n;

        if (auth->has_token && (auth->kind == S3_AUTH_QUERY_V2 || token.data == NULL)) {
                *out = (struct gw_signer){.reason = S3_AUTH_TOKEN};
                return;
        }
        if (auth->has_token && auth->token_encoded) {
                n = s3_percent_decode(token, true, text, sizeof(text));
                token = (struct s3_str){text, n > 0 ? (size_t)n : 0};
        }
        gw_signer_take_of(loop, auth->access_key, auth->has_token ? token : (struct s3_str){NULL, 0}, out);
}

void gw_signer_drop(struct gw_signer *signer)
{
        explicit_bzero(&signer->room, sizeof(signer->room));
        gw_temporary_put(signer->temporary);
        signer->temporary = NULL;
        signer->credential = NULL;
}

/* Of users and roots of accounts: root of the settings, and sessions, have keys that nobody can ask for. */
static void signer_note_use(struct gw_request *req, const struct gw_signer *signer)
{
        if (signer->temporary == NULL && !signer->by_session && signer->credential == &signer->room)
                gw_key_used(req->loop->gw, signer->room.access_key, req->op, lp_wall_ms());
}

void gw_signer_accept(struct gw_request *req, struct gw_signer *signer)
{
        signer_note_use(req, signer);
        gw_temporary_put(req->temporary);
        req->temporary = signer->temporary;
        signer->temporary = NULL;
        gw_signer_drop(signer);
}

struct gw_temporary *gw_temporary_of(struct gw_loop *loop, const struct gw_request *req, const char *access_key)
{
        if (access_key == NULL)
                return NULL;
        if (req != NULL && req->temporary != NULL && strcmp(req->temporary->access_key, access_key) == 0)
                return gw_temporary_get(req->temporary);
        return req == NULL ? gw_temporary_held(loop->gw, access_key) : NULL;
}
