/*
 * settings_network.c - settings that name networks of addresses. Called by the main thread before
 * anything is started.
 */
#include "server/settings.h"

#include "gateway.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define IPV4_BITS_BEFORE 96u

/* "10.1.0.0/16", "::1". An IPv4 address is the IPv6 one that holds it. */
static bool parse_network(char *text, struct gw_network *out)
{
        static const uint8_t mapped[12] = {[10] = 0xff, 0xff};
        char *slash = strchr(text, '/');
        const char *why;
        uint64_t bits;
        bool v4;

        if (slash != NULL)
                *slash++ = '\0';
        v4 = strchr(text, ':') == NULL;
        memcpy(out->address, mapped, sizeof(mapped));
        if (inet_pton(v4 ? AF_INET : AF_INET6, text, v4 ? out->address + 12 : out->address) != 1)
                return false;
        bits = v4 ? 32 : 128;
        if (slash != NULL && (srv_parse_int(slash, &bits, &why) != 0 || bits > (v4 ? 32u : 128u)))
                return false;
        out->bits = (unsigned)bits + (v4 ? IPV4_BITS_BEFORE : 0);
        return true;
}

static int take_networks(char *text, const char *name, struct gw_networks *out, struct srv_error *error)
{
        char *rest = text, *one, shown[64];

        while ((one = strsep(&rest, ",")) != NULL) {
                one += strspn(one, " \t");
                one[strcspn(one, " \t")] = '\0';
                snprintf(shown, sizeof(shown), "%s", one);
                if (out->count == GW_NETWORKS_MAX)
                        return srv_fail(error, -EINVAL, "%s: names more than %u networks", name, GW_NETWORKS_MAX);
                if (!parse_network(one, &out->list[out->count]))
                        return srv_fail(error, -EINVAL, "%s: '%s' is not an address or a network like 10.1.0.0/16", name,
                                        shown);
                out->count++;
        }
        return 0;
}

int srv_networks(const struct srv_list *list, const char *name, struct gw_networks *out, struct srv_error *error)
{
        unsigned i;
        int rv = 0;

        memset(out, 0, sizeof(*out));
        for (i = 0; rv == 0 && i < list->count; i++) {
                char *copy = strdup(list->item[i]);

                rv = copy != NULL ? take_networks(copy, name, out, error) :
                                    srv_fail(error, -ENOMEM, "%s: out of memory", name);
                free(copy);
        }
        return rv;
}
