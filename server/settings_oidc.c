/*
 * settings_oidc.c - settings that name issuers of web identities. Called by the main thread before anything is
 * started.
 */
#include "server/settings.h"

#include "gateway.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* "ISSUER" or "ISSUER KEYS-URL": cuts a copy. */
static int oidc_take(struct gw_oidc *out, char *text, struct srv_error *error)
{
        struct gw_oidc_issuer *issuer = &out->issuer[out->issuer_count];
        char *blank = text + strcspn(text, " \t");

        if (out->issuer_count == GW_ISSUERS_MAX)
                return srv_fail(error, -EINVAL, "oidc_issuer: is given more than %u times", GW_ISSUERS_MAX);
        issuer->url = text;
        issuer->keys_url = NULL;
        if (*blank != '\0') {
                *blank++ = '\0';
                issuer->keys_url = blank + strspn(blank, " \t");
        }
        out->issuer_count++;
        if (!gw_oidc_url_valid(issuer->url) || (issuer->keys_url != NULL && !gw_oidc_url_valid(issuer->keys_url)))
                return srv_fail(error, -EINVAL,
                                "oidc_issuer: '%.200s' is no https URL without user, query and fragment (http only to "
                                "this machine)",
                                gw_oidc_url_valid(issuer->url) ? issuer->keys_url : issuer->url);
        return 0;
}

int srv_oidc(const struct srv_settings *settings, struct gw_oidc *out, char **room, struct srv_error *error)
{
        const struct srv_list *issuers = &settings->oidc_issuer, *audiences = &settings->oidc_audience;
        size_t bytes = 1;
        char *at;
        int rv = 0;

        memset(out, 0, sizeof(*out));
        for (unsigned i = 0; i < issuers->count; i++)
                bytes += strlen(issuers->item[i]) + 1;
        at = *room = malloc(bytes);
        if (at == NULL)
                return srv_fail(error, -ENOMEM, "oidc_issuer: out of memory");
        for (unsigned i = 0; rv == 0 && i < issuers->count; i++) {
                size_t len = strlen(issuers->item[i]) + 1;

                memcpy(at, issuers->item[i], len);
                rv = oidc_take(out, at, error);
                at += len;
        }
        for (unsigned i = 0; i < audiences->count && i < GW_AUDIENCES_MAX; i++)
                out->audience[out->audience_count++] = audiences->item[i];
        out->ca_file = settings->oidc_ca_file;
        return rv;
}
