/*
 * sts_web.c - AssumeRoleWithWebIdentity: nobody signed, and a token of an issuer that the operator named, and that is
 * a provider of the role's account, says who asks (rules J1 to J11 in docs/design/sts.md). On the request's loop; it
 * waits where keys are asked for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/iam/sts.h"
#include "gateway/sts/issuers.h"

#define AMR_MAX 16u

/* In the request's arena. */
struct sts_web {
        struct iam_call *call;
        struct gw_issuer *issuer;
        struct gw_jwt jwt;
        struct s3_str value[4], amr[AMR_MAX];
};

/* Its own memory: it outlives a gateway that stops meanwhile. */
struct web_wait {
        struct gw_issuer_wait wait; /* first */
        struct sts_web *web;
};

static void web_fail(struct iam_call *call, enum gw_jwt_fault fault)
{
        const char *code = fault == GW_JWT_EXPIRED ? "ExpiredTokenException" : "InvalidIdentityToken";

        if (fault == GW_JWT_NO_MEMORY)
                iam_refuse(call, -ENOMEM);
        else
                iam_fail(call, code, gw_jwt_message(fault));
}

static void web_no_provider(struct iam_call *call)
{
        iam_fail(call, "InvalidIdentityToken",
                 "No OpenIDConnect provider found in your account for the token's issuer.");
}

static void web_end(struct gw_request *req)
{
        struct sts_web *web = req->work;

        gw_jwt_free(&web->jwt);
}

/* ---- providers ------------------------------------------------------------------------------- */

/* Of the role that is asked for. What names no role is refused later. */
static void web_account(const struct iam_call *call, char account[GW_ACCOUNT_ID_LEN + 1])
{
        struct gw_entity_name role;
        bool names_role = gw_entity_of_arn(call->in.value[IAM_P_ROLE_ARN], &role) == 0 && role.kind == GW_ROLE;

        strcpy(account, names_role ? role.account : GW_FIRST_ACCOUNT);
}

/*
 * The account's own provider for this issuer, until the loop's turn ends. As gw_people_find(); -ESRCH: what has its
 * place, and so its ARN, is another issuer by another scheme.
 */
static int web_own_provider(const struct iam_call *call, const char *issuer, const struct gw_entity **out)
{
        struct gw_entity_name who = {.kind = GW_PROVIDER};
        int rv;

        web_account(call, who.account);
        gw_provider_name(gw_provider_place(issuer), who.name);
        rv = gw_people_find(call->req->loop, &who, out, NULL);
        return rv == 0 && strcmp((*out)->url, issuer) != 0 ? -ESRCH : rv;
}

/*
 * The audiences of the provider of the role's account: its own, or, of the first account, that of the settings (J10).
 * They stay as long as the turn. False: refused.
 */
static bool web_audiences(struct sts_web *web, const char *const **out, unsigned *count)
{
        struct iam_call *call = web->call;
        char account[GW_ACCOUNT_ID_LEN + 1];
        const struct gw_entity *own;
        const struct gw_pairs *clients;
        const char **list;
        int rv = web_own_provider(call, web->jwt.issuer, &own);

        web_account(call, account);
        if (rv == -ENOENT && strcmp(account, GW_FIRST_ACCOUNT) == 0) {
                *out = gw_issuer_audiences(call->req->loop->gw, count);
                return true;
        }
        if (rv == -ENOENT || rv == -ESRCH) {
                web_no_provider(call);
                return false;
        }
        clients = rv == 0 ? &own->sets[GW_SET_CLIENTS] : NULL;
        list = rv == 0 ? gw_alloc(call->req, (clients->count + 1) * sizeof(*list)) : NULL;
        if (list == NULL) {
                iam_refuse(call, rv != 0 ? rv : -ENOMEM); /* also where what it says cannot be read */
                return false;
        }
        for (unsigned i = 0; i < clients->count; i++)
                list[i] = clients->list[i].name;
        *out = list;
        *count = clients->count;
        return true;
}

/* The operator has not named the issuer, and so nobody asks it (J1). */
static void web_refuse_issuer(struct sts_web *web)
{
        const struct gw_entity *own;

        if (web_own_provider(web->call, web->jwt.issuer, &own) != 0)
                web_no_provider(web->call);
        else
                iam_fail(web->call, "IDPCommunicationError",
                         "This server may not ask the identity provider: its operator has to name it in the setting "
                         "oidc_issuer.");
}

/* ---- conditions ------------------------------------------------------------------------------ */

static bool web_says(struct sts_web *web, unsigned slot, const char *text, struct acc_values *out)
{
        web->value[slot] = s3_str_of(text);
        *out = (struct acc_values){&web->value[slot], 1, false};
        return true;
}

static bool web_amr(struct sts_web *web, struct acc_values *out)
{
        const json_t *amr = json_object_get(web->jwt.claims, "amr");
        size_t count = 0;

        for (size_t i = 0; i < json_array_size(amr) && count < AMR_MAX; i++)
                if (json_is_string(json_array_get(amr, i)))
                        web->amr[count++] = s3_str_of(json_string_value(json_array_get(amr, i)));
        *out = (struct acc_values){web->amr, count, false};
        return count > 0;
}

/* "HOST/PATH:sub" and its like. */
static bool web_claim(void *context, const struct acc_key *key, struct acc_values *out)
{
        struct sts_web *web = context;
        const char *name = gw_issuer_name(web->issuer);
        size_t len = strlen(name);
        struct s3_str claim;

        if (key->id == ACC_KEY_AWS_FEDERATED_PROVIDER)
                return web_says(web, 0, web->call->making->provider, out);
        if (key->id != ACC_KEY_OTHER || key->name.len <= len || key->name.data[len] != ':' ||
            !s3_str_eq_nocase((struct s3_str){key->name.data, len}, s3_str_of(name)))
                return false;
        claim = (struct s3_str){key->name.data + len + 1, key->name.len - len - 1};
        if (s3_str_eq_nocase(claim, S3_STR("sub")))
                return web_says(web, 1, web->jwt.subject, out);
        if (s3_str_eq_nocase(claim, S3_STR("aud")))
                return web_says(web, 2, web->jwt.audience, out);
        return s3_str_eq_nocase(claim, S3_STR("amr")) && web_amr(web, out);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* The token is good. */
static void web_assume(struct sts_web *web)
{
        struct iam_call *call = web->call;
        struct sts_making *making = sts_making_new(call);

        if (making == NULL)
                return;
        call->making = making;
        making->provider = gw_printf(call->req, "arn:aws:iam::%s:oidc-provider/%s", making->what.account,
                                     gw_issuer_name(web->issuer));
        making->subject = web->jwt.subject;
        making->audience = web->jwt.audience;
        making->issuer = making->provider;
        making->what.provider = making->provider;
        making->claims = web_claim;
        making->claims_context = web;
        if (making->provider == NULL)
                iam_refuse(call, -ENOMEM);
        else
                sts_assume(call, making, "sts:AssumeRoleWithWebIdentity");
}

static void web_judge(struct sts_web *web, enum gw_jwt_fault fault)
{
        const char *const *audiences;
        unsigned count;

        if (fault == GW_JWT_OK) {
                if (!web_audiences(web, &audiences, &count))
                        return;
                fault = gw_jwt_check(&web->jwt, web->jwt.issuer, audiences, count, lp_wall_ms() / 1000);
        }
        if (fault == GW_JWT_OK)
                web_assume(web);
        else
                web_fail(web->call, fault);
}

/* Keys were asked for: what there is now counts. */
static void web_asked(struct gw_issuer_wait *wait)
{
        struct sts_web *web = ((struct web_wait *)wait)->web;
        struct gw_jwks *keys;
        bool stale;

        free(wait);
        if (!gw_back(web->call->req))
                return;
        keys = gw_issuer_keys(web->issuer, &stale);
        if (keys == NULL)
                iam_fail(web->call, "IDPCommunicationError", "The identity provider's keys cannot be had.");
        else
                web_judge(web, gw_jwt_verify(&web->jwt, keys));
        gw_jwks_put(keys);
}

static int web_ask(struct sts_web *web)
{
        struct web_wait *wait = malloc(sizeof(*wait));
        int rv;

        if (wait == NULL)
                return -ENOMEM;
        wait->web = web;
        wait->wait.loop = web->call->req->loop;
        wait->wait.done = web_asked;
        rv = gw_issuer_refresh(web->issuer, &wait->wait);
        if (rv != 0)
                free(wait);
        return rv;
}

static void web_verify(struct sts_web *web)
{
        enum gw_jwt_fault fault = GW_JWT_NO_KEY;
        struct gw_jwks *keys;
        bool stale;

        keys = gw_issuer_keys(web->issuer, &stale);
        if (keys != NULL)
                fault = gw_jwt_verify(&web->jwt, keys);
        if ((stale || fault == GW_JWT_NO_KEY) && web_ask(web) == 0) {
                gw_jwks_put(keys);
                return;
        }
        if (keys == NULL)
                iam_fail(web->call, "IDPCommunicationError", "The identity provider's keys cannot be had.");
        else
                web_judge(web, fault);
        gw_jwks_put(keys);
}

void iam_run_web_identity(struct iam_call *call)
{
        struct gw_request *req = call->req;
        struct sts_web *web = gw_alloc(req, sizeof(*web));
        const char *const *audiences;
        enum gw_jwt_fault fault;
        unsigned count;

        if (web == NULL) {
                iam_refuse(call, -ENOMEM);
                return;
        }
        web->call = call;
        fault = gw_jwt_parse(s3_str_of(call->in.value[IAM_P_WEB_TOKEN]), &web->jwt);
        req->work = web;
        req->release = web_end;
        if (fault == GW_JWT_OK)
                web->issuer = gw_issuer_find(req->loop->gw, web->jwt.issuer);
        if (fault != GW_JWT_OK)
                web_fail(call, fault);
        else if (web->issuer == NULL)
                web_refuse_issuer(web);
        else if (web_audiences(web, &audiences, &count)) /* and once more when keys are there: they may be asked for */
                web_verify(web);
}
