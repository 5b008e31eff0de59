/*
 * load_settings.c - what a run is asked to do: defaults, and what does not fit together. Called by
 * whoever wants a run, on any thread.
 */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX_MAX 200u
#define PARTS_MAX  10000u

static const char *const phase_names[LOAD_PHASES] = {"bucket", "put",    "get",       "range", "list",
                                                     "head",   "delete", "multipart", "mixed"};

const char *load_phase_name(enum load_phase phase)
{
        return phase_names[phase];
}

int load_parse_size(const char *text, uint64_t *out)
{
        char *end;
        unsigned shift = 0;

        *out = strtoull(text, &end, 10);
        if (end == text || text[0] < '0' || text[0] > '9')
                return -1;
        if (*end == 'K' || *end == 'k')
                shift = 10;
        else if (*end == 'M' || *end == 'm')
                shift = 20;
        else if (*end == 'G' || *end == 'g')
                shift = 30;
        end += shift != 0;
        if (*out > UINT64_MAX >> shift)
                return -1;
        *out <<= shift;
        return *end == '\0' ? 0 : -1;
}

void load_settings_default(struct load_settings *settings)
{
        *settings = (struct load_settings){
                .phase = LOAD_PHASES,
                .endpoint = "http://127.0.0.1:9000",
                .bucket = "load",
                .prefix = "o/",
                .region = "us-east-1",
                .access_key = "",
                .secret_key = "",
                .size = 4096,
                .range_size = 4096,
                .part_size = 8 << 20,
                .connections = 16,
                .max_keys = 1000,
                .get_share = 70,
        };
}

/*
 * "http[s]://host[:port][/]" of len bytes into its pieces; a host in brackets is an IPv6 address. 0
 * or -1.
 */
static int take_server(struct load_settings *settings, const char *at, size_t len)
{
        bool tls = len > 8 && strncmp(at, "https://", 8) == 0, brackets;
        struct load_address *server = &settings->server[settings->servers];
        const char *host, *port;
        size_t scheme = tls ? 8 : 7, host_len;

        if (len <= scheme || settings->servers == LOAD_SERVERS_MAX || (settings->servers > 0 && tls != settings->tls) ||
            (!tls && strncmp(at, "http://", 7) != 0))
                return -1;
        at += scheme;
        len -= scheme;
        if (at[len - 1] == '/')
                len--;
        if (memchr(at, '/', len) != NULL)
                return -1;
        brackets = at[0] == '[';
        host = at + brackets;
        host_len = strcspn(host, brackets ? "]/," : ":/,");
        if (brackets && host[host_len] != ']')
                return -1;
        if (!brackets && host_len > len)
                host_len = len;
        port = host + host_len + brackets;
        if (port < at + len && *port != ':')
                return -1;
        snprintf(server->host, sizeof(server->host), "%.*s", (int)host_len, host);
        snprintf(server->port, sizeof(server->port), "%.*s", port < at + len ? (int)(at + len - port - 1) : 3,
                 port < at + len ? port + 1
                 : tls           ? "443"
                                 : "80");
        if (host_len == 0 || host_len >= sizeof(server->host) || server->port[0] == '\0')
                return -1;
        if (strcmp(server->port, tls ? "443" : "80") == 0) /* what HTTP libraries would send */
                len = (size_t)(host + host_len + brackets - at);
        snprintf(server->header, sizeof(server->header), "%.*s", (int)len, at);
        settings->tls = tls;
        settings->servers++;
        return 0;
}

static int take_endpoints(struct load_settings *settings)
{
        const char *at = settings->endpoint;
        bool last;

        settings->servers = 0;
        do {
                size_t whole, len;

                at += strspn(at, " ");
                whole = len = strcspn(at, ",");
                while (len > 0 && at[len - 1] == ' ')
                        len--;
                if (take_server(settings, at, len) != 0)
                        return -1;
                last = at[whole] == '\0';
                at += whole + 1;
        } while (!last);
        return 0;
}

static void take_defaults(struct load_settings *s)
{
        if (s->once && s->count == 0)
                s->count = s->keys;
        if (s->count == 0 && s->duration_s <= 0)
                s->count = s->phase == LOAD_BUCKET ? 1 : 1000;
        if (s->phase == LOAD_BUCKET)
                s->connections = 1;
        if (s->keys == 0)
                s->keys = s->count;
        if (s->phase == LOAD_MIXED && s->start == 0)
                s->start = s->keys;
}

const char *load_settings_complete(struct load_settings *s)
{
        take_defaults(s);
        if (s->connections == 0 || s->connections > LOAD_CONNECTIONS_MAX)
                return "--conns takes 1 to 20,000";
        if (s->keys == 0 && s->phase != LOAD_PUT && s->phase != LOAD_MULTIPART)
                return "with --duration say how many --keys there are";
        if (s->phase == LOAD_DELETE && s->count == 0)
                return "delete takes a --count";
        if (s->once && s->count > s->keys)
                return "--once takes no more --count than --keys";
        if (s->get_share > 100)
                return "--get-share takes 1 to 100";
        if (s->random_names && s->phase == LOAD_LIST)
                return "list needs counted names";
        if (s->phase == LOAD_RANGE && (s->range_size == 0 || s->range_size > s->size))
                return "--range is larger than --size";
        if (s->phase == LOAD_MULTIPART &&
            (s->part_size == 0 || s->size == 0 || (s->size - 1) / s->part_size >= PARTS_MAX))
                return "an object has 1 to 10,000 parts, of at least a byte";
        if (strlen(s->prefix) > PREFIX_MAX)
                return "--prefix is longer than 200 bytes";
        if (take_endpoints(s) != 0)
                return "--endpoint takes http://HOST:PORT or https://HOST:PORT, or several with commas between them";
        if (s->access_key[0] == '\0' || s->secret_key[0] == '\0')
                return "no credentials in the environment";
        return NULL;
}
