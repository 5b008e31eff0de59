/*
 * endpoints.c - the list of a store's endpoints, and the choice among them: the less loaded of two
 * drawn at random, growing pauses for those that fail, one try at a time after a pause. Pure; the
 * client calls it under its lock. Bounds (I9): endpoints, pauses.
 */
#include "client/base/endpoints.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- the list -------------------------------------------------------------------------------- */

int mr_url_check(const char *url)
{
        const char *host;
        size_t len;

        if (strncmp(url, "http://", 7) == 0)
                host = url + 7;
        else if (strncmp(url, "https://", 8) == 0)
                host = url + 8;
        else
                return -EINVAL;
        len = strcspn(host, "/");
        if (len == 0 || host[0] == ':' || (host[len] == '/' && host[len + 1] != '\0'))
                return -EINVAL;
        return strcspn(host, "@?#\\\"<>, \t\r\n") < len ? -EINVAL : 0;
}

/* "http://host:80" -> "host": what curl would send, and so what is signed. */
void mr_url_host(const char *url, bool *tls, char *out, size_t size)
{
        const char *port;
        size_t len;

        *tls = strncmp(url, "https://", 8) == 0;
        url += *tls ? 8 : 7;
        port = *tls ? ":443" : ":80";
        len = strcspn(url, "/");
        if (len > strlen(port) && strncmp(url + len - strlen(port), port, strlen(port)) == 0)
                len -= strlen(port);
        snprintf(out, size, "%.*s", (int)len, url);
}

static bool endpoints_has_host(const struct mr_endpoints *endpoints, const char *host)
{
        for (unsigned i = 0; i < endpoints->count; i++)
                if (strcasecmp(endpoints->at[i].host, host) == 0)
                        return true;
        return false;
}

static int endpoints_add(struct mr_endpoints *endpoints, const char *text, size_t len)
{
        struct mr_endpoint endpoint = {0};
        bool tls;

        if (len == 0 || len >= sizeof(endpoint.url))
                return -EINVAL;
        memcpy(endpoint.url, text, len);
        if (mr_url_check(endpoint.url) != 0)
                return -EINVAL;
        if (endpoint.url[len - 1] == '/')
                endpoint.url[len - 1] = '\0';
        mr_url_host(endpoint.url, &tls, endpoint.host, sizeof(endpoint.host));
        if (endpoints->count > 0 && tls != endpoints->tls)
                return -EINVAL;
        endpoints->tls = tls;
        if (endpoints_has_host(endpoints, endpoint.host))
                return 0;
        if (endpoints->count == MR_ENDPOINTS_MAX)
                return -EINVAL;
        endpoints->at[endpoints->count++] = endpoint;
        return 0;
}

int mr_endpoints_parse(const char *text, struct mr_endpoints *out)
{
        int rv = 0;

        memset(out, 0, sizeof(*out));
        for (bool last = false; rv == 0 && !last;) {
                size_t len, whole;

                text += strspn(text, " \t");
                whole = len = strcspn(text, ",");
                while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
                        len--;
                rv = endpoints_add(out, text, len);
                last = text[whole] == '\0';
                text += whole + !last;
        }
        return rv;
}

/* ---- the choice ------------------------------------------------------------------------------ */

bool mr_endpoint_avoided(const struct mr_endpoint *endpoint, int64_t now_ms)
{
        return endpoint->failures > 0 && now_ms < endpoint->avoided_until;
}

/* An attempt may take it without being the last resort. */
static bool endpoint_open(const struct mr_endpoint *endpoint, int64_t now_ms)
{
        return endpoint->failures == 0 || (now_ms >= endpoint->avoided_until && !endpoint->probed);
}

/* The less loaded of two of the candidates, which are a mask and at least one. */
static unsigned endpoints_draw(const struct mr_endpoints *endpoints, unsigned candidates, uint32_t random)
{
        unsigned list[MR_ENDPOINTS_MAX], count = 0, first, second;

        for (unsigned i = 0; i < endpoints->count; i++)
                if ((candidates & 1u << i) != 0)
                        list[count++] = i;
        assert(count > 0);
        if (count == 1)
                return list[0];
        first = (random & 0xffff) % count;
        second = (first + 1 + (random >> 16) % (count - 1)) % count;
        return endpoints->at[list[second]].load < endpoints->at[list[first]].load ? list[second] : list[first];
}

/* Of the candidates, a mask, the one that is due first; endpoints->count where there is none. */
static unsigned endpoints_due_first(const struct mr_endpoints *endpoints, unsigned candidates)
{
        unsigned best = endpoints->count;

        for (unsigned i = 0; i < endpoints->count; i++) {
                if ((candidates & 1u << i) == 0)
                        continue;
                if (best == endpoints->count || endpoints->at[i].avoided_until < endpoints->at[best].avoided_until)
                        best = i;
        }
        return best;
}

static unsigned endpoints_choose(const struct mr_endpoints *endpoints, unsigned among, unsigned tried, int64_t now_ms,
                                 uint32_t random)
{
        unsigned open = 0, index;

        for (unsigned i = 0; i < endpoints->count; i++)
                if ((among & 1u << i) != 0 && endpoint_open(&endpoints->at[i], now_ms))
                        open |= 1u << i;
        if ((open & ~tried) != 0)
                return endpoints_draw(endpoints, open & ~tried, random);
        if (open != 0)
                return endpoints_draw(endpoints, open, random);
        index = endpoints_due_first(endpoints, among & ~tried);
        return index < endpoints->count ? index : endpoints_due_first(endpoints, among);
}

struct mr_endpoint_use mr_endpoints_take_among(struct mr_endpoints *endpoints, unsigned among, unsigned tried,
                                               int64_t now_ms, uint32_t random)
{
        unsigned index = endpoints_choose(endpoints, among, tried, now_ms, random);
        struct mr_endpoint *endpoint = &endpoints->at[index];
        bool probe = endpoint->failures > 0 && endpoint_open(endpoint, now_ms);

        endpoint->load++;
        endpoint->probed = endpoint->probed || probe;
        return (struct mr_endpoint_use){.index = index, .taken = true, .probe = probe};
}

struct mr_endpoint_use mr_endpoints_take(struct mr_endpoints *endpoints, unsigned tried, int64_t now_ms,
                                         uint32_t random)
{
        return mr_endpoints_take_among(endpoints, (1u << endpoints->count) - 1, tried, now_ms, random);
}

/* ---- what an attempt's end says -------------------------------------------------------------- */

/* Failures while it is avoided are of attempts begun before, and one of them was counted. */
static void endpoint_failed(struct mr_endpoint *endpoint, int64_t now_ms, uint32_t random)
{
        int64_t pause = MR_ENDPOINT_PAUSE_MS;

        if (mr_endpoint_avoided(endpoint, now_ms))
                return;
        for (unsigned i = 0; i < endpoint->failures && pause < MR_ENDPOINT_PAUSE_MAX_MS; i++)
                pause *= 2;
        if (pause > MR_ENDPOINT_PAUSE_MAX_MS)
                pause = MR_ENDPOINT_PAUSE_MAX_MS;
        endpoint->failures++;
        endpoint->avoided_until = now_ms + pause / 2 + (int64_t)((uint64_t)random * (uint64_t)(pause / 2) >> 32);
}

void mr_endpoints_note(struct mr_endpoints *endpoints, unsigned index, enum mr_endpoint_end end, int64_t now_ms,
                       uint32_t random)
{
        assert(index < endpoints->count);
        if (end == MR_ENDPOINT_FAILED)
                endpoint_failed(&endpoints->at[index], now_ms, random);
        else if (end == MR_ENDPOINT_WORKS)
                endpoints->at[index].failures = 0;
}

void mr_endpoints_give(struct mr_endpoints *endpoints, struct mr_endpoint_use *use, enum mr_endpoint_end end,
                       int64_t now_ms, uint32_t random)
{
        struct mr_endpoint *endpoint = &endpoints->at[use->index];

        assert(use->taken && endpoint->load > 0);
        use->taken = false;
        endpoint->load--;
        if (use->probe)
                endpoint->probed = false;
        mr_endpoints_note(endpoints, use->index, end, now_ms, random);
}
