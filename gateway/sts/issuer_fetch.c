/*
 * issuer_fetch.c - asks issuers (rule J2). Whatever an issuer answers, this server asks nobody but that host, for no
 * longer than FETCH_MS, and keeps no more than GW_JWKS_MAX of it.
 */
#include "gateway/sts/issuer_fetch.h"

#include "gateway.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FETCH_MS  5000L
#define DISCOVERY "/.well-known/openid-configuration"
#define URL_MAX   2048u

/* ---- URLs ------------------------------------------------------------------------------------ */

struct fetch_place {
        char *scheme, *host, *port;
};

static void place_free(struct fetch_place *place)
{
        curl_free(place->scheme);
        curl_free(place->host);
        curl_free(place->port);
}

static bool place_has(CURLU *url, CURLUPart part)
{
        char *text = NULL;
        bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK && text != NULL;

        curl_free(text);
        return has;
}

/* False: nothing that may be asked. */
static bool place_of(const char *text, struct fetch_place *out)
{
        CURLU *url = curl_url();
        bool good;

        memset(out, 0, sizeof(*out));
        good = url != NULL && strlen(text) < URL_MAX && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
               !place_has(url, CURLUPART_USER) && !place_has(url, CURLUPART_PASSWORD) &&
               !place_has(url, CURLUPART_FRAGMENT) &&
               curl_url_get(url, CURLUPART_SCHEME, &out->scheme, 0) == CURLUE_OK &&
               curl_url_get(url, CURLUPART_HOST, &out->host, 0) == CURLUE_OK &&
               curl_url_get(url, CURLUPART_PORT, &out->port, CURLU_DEFAULT_PORT) == CURLUE_OK;
        curl_url_cleanup(url);
        return good;
}

static bool place_is_loopback(const struct fetch_place *place)
{
        return strcasecmp(place->host, "localhost") == 0 || strcmp(place->host, "[::1]") == 0 ||
               strcmp(place->host, "127.0.0.1") == 0;
}

static bool place_may(const struct fetch_place *place)
{
        return strcasecmp(place->scheme, "https") == 0 ||
               (strcasecmp(place->scheme, "http") == 0 && place_is_loopback(place));
}

bool gw_oidc_url_valid(const char *url)
{
        struct fetch_place place;
        bool may = strchr(url, '?') == NULL && place_of(url, &place);

        if (strchr(url, '?') != NULL)
                return false;
        may = may && place_may(&place);
        place_free(&place);
        return may;
}

static bool is_same_place(const char *a, const char *b)
{
        struct fetch_place first, second;
        bool read_a = place_of(a, &first), read_b = place_of(b, &second);
        bool same = read_a && read_b && strcasecmp(first.scheme, second.scheme) == 0 &&
                    strcasecmp(first.host, second.host) == 0 && strcmp(first.port, second.port) == 0;

        place_free(&first);
        place_free(&second);
        return same;
}

/* ---- one document ---------------------------------------------------------------------------- */

struct fetch_text {
        size_t len;
        char bytes[GW_JWKS_MAX];
};

static size_t fetch_more(char *data, size_t size, size_t count, void *arg)
{
        struct fetch_text *text = arg;
        size_t len = size * count;

        if (len > sizeof(text->bytes) - text->len)
                return 0;
        memcpy(text->bytes + text->len, data, len);
        text->len += len;
        return len;
}

static int fetch_goes_on(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
        return atomic_load(&((struct gw_fetcher *)arg)->stop);
}

static bool fetch_document(struct gw_fetcher *fetcher, const char *url, struct fetch_text *text)
{
        CURL *curl = curl_easy_init();
        long status = 0;
        bool good;

        if (curl == NULL)
                return false;
        text->len = 0;
        curl_easy_setopt(curl, CURLOPT_URL, url);
        curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https,http");
        curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
        curl_easy_setopt(curl, CURLOPT_PROXY, "");
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, FETCH_MS);
        curl_easy_setopt(curl, CURLOPT_MAXFILESIZE, (long)GW_JWKS_MAX);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, fetch_more);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, text);
        curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, fetch_goes_on);
        curl_easy_setopt(curl, CURLOPT_XFERINFODATA, fetcher);
        if (fetcher->ca_file != NULL)
                curl_easy_setopt(curl, CURLOPT_CAINFO, fetcher->ca_file);
        good = curl_easy_perform(curl) == CURLE_OK &&
               curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK && status == 200;
        curl_easy_cleanup(curl);
        return good;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Where the keys are. The caller frees it; NULL: nothing that may be believed says so. */
static char *discover(struct gw_fetcher *fetcher, const char *issuer, struct fetch_text *text)
{
        size_t len = strlen(issuer);
        char url[URL_MAX + sizeof(DISCOVERY)], *found = NULL;
        const char *who, *where;
        json_t *json;

        if (len > 0 && issuer[len - 1] == '/')
                len--;
        if (len >= URL_MAX)
                return NULL;
        snprintf(url, sizeof(url), "%.*s" DISCOVERY, (int)len, issuer);
        if (!fetch_document(fetcher, url, text))
                return NULL;
        json = gw_jwt_object((struct s3_str){text->bytes, text->len});
        who = json_string_value(json_object_get(json, "issuer"));
        where = json_string_value(json_object_get(json, "jwks_uri"));
        if (who != NULL && where != NULL && strcmp(who, issuer) == 0 && is_same_place(where, issuer))
                found = strdup(where);
        json_decref(json);
        return found;
}

struct gw_jwks *gw_fetch_keys(struct gw_fetcher *fetcher, const char *issuer, const char *keys_url)
{
        struct fetch_text *text = malloc(sizeof(*text));
        struct gw_jwks *keys = NULL;
        char *found = NULL;

        if (text == NULL)
                return NULL;
        if (keys_url == NULL)
                keys_url = found = discover(fetcher, issuer, text);
        if (keys_url == NULL || !fetch_document(fetcher, keys_url, text) ||
            gw_jwks_parse((struct s3_str){text->bytes, text->len}, &keys) != 0)
                keys = NULL;
        free(found);
        free(text);
        return keys;
}

int gw_fetcher_init(struct gw_fetcher *fetcher, const char *ca_file)
{
        atomic_init(&fetcher->stop, false);
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                return -ENOMEM;
        if (ca_file == NULL || *ca_file == '\0')
                return 0;
        fetcher->ca_file = strdup(ca_file);
        return fetcher->ca_file != NULL ? 0 : -ENOMEM;
}

void gw_fetcher_end(struct gw_fetcher *fetcher)
{
        free(fetcher->ca_file);
        fetcher->ca_file = NULL;
}
