/*
 * settings_token.c - settings of the header protocol (x-amz-rdma-token): whose memory a listener's
 * requests may name, and the targets' key. Called by the main thread before anything is started.
 * There is no word for "everybody": a signed request could make the daemon write to any machine of
 * the fabric then.
 */
#include "server/settings.h"

#include "gateway.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An IPv4 address stands for the IPv6 one that holds it, which is what RoCE makes a GID of. */
static bool parse_gid(const char *text, uint8_t out[16])
{
        static const uint8_t none[16], mapped[12] = {[10] = 0xff, 0xff};

        if (strchr(text, ':') == NULL) {
                memcpy(out, mapped, sizeof(mapped));
                return inet_pton(AF_INET, text, out + 12) == 1 && memcmp(out + 12, none, 4) != 0;
        }
        return inet_pton(AF_INET6, text, out) == 1 && memcmp(out, none, sizeof(none)) != 0;
}

static char *trim(char *text)
{
        char *end;

        while (isspace((unsigned char)*text))
                text++;
        end = text + strlen(text);
        while (end > text && isspace((unsigned char)end[-1]))
                *--end = '\0';
        return text;
}

static int take_list(char *text, const char *name, struct gw_targets *out, struct srv_error *error)
{
        char *rest = text, *one;

        while ((one = strsep(&rest, ",")) != NULL) {
                one = trim(one);
                if (out->count == GW_TARGETS_MAX)
                        return srv_fail(error, -EINVAL, "%s: names more than %u GIDs", name, GW_TARGETS_MAX);
                if (!parse_gid(one, out->gid[out->count]))
                        return srv_fail(error, -EINVAL,
                                        "%s: '%.200s' is not the GID of one client, like fe80::1 or 10.0.0.1", name,
                                        one);
                out->count++;
        }
        return 0;
}

int srv_token_gids(const struct srv_list *list, const char *name, struct gw_targets *out, struct srv_error *error)
{
        unsigned i;
        int rv = 0;

        memset(out, 0, sizeof(*out));
        for (i = 0; i < list->count && rv == 0; i++) {
                char *text = strdup(list->item[i]);

                if (text == NULL)
                        return srv_fail(error, -ENOMEM, "%s: out of memory", name);
                rv = take_list(text, name, out, error);
                free(text);
        }
        return rv;
}

int srv_token_key(const char *text, uint64_t *out, struct srv_error *error)
{
        size_t digits = strspn(text, "0123456789abcdefABCDEF");

        if (digits == 0 || digits > 16 || text[digits] != '\0')
                return srv_fail(error, -EINVAL, "rdma_token_key: '%.200s' is not 1 to 16 hex digits", text);
        *out = strtoull(text, NULL, 16);
        return 0;
}

int srv_token_check(const struct srv_settings *settings, struct srv_error *error)
{
        const struct srv_list *main_list = &settings->rdma_token_gid, *plain_list = &settings->rdma_token_gid_plain;
        struct gw_targets targets;
        uint64_t key;
        int rv;

        rv = srv_token_gids(main_list, "rdma_token_gid", &targets, error);
        if (rv == 0)
                rv = srv_token_gids(plain_list, "rdma_token_gid_plain", &targets, error);
        if (rv == 0)
                rv = srv_token_key(settings->rdma_token_key, &key, error);
        if (rv != 0)
                return rv;
        if (main_list->count + plain_list->count > 0 && settings->rdma_listen.count == 0)
                return srv_fail(error, -EINVAL, "%s: given without rdma_listen",
                                main_list->count > 0 ? "rdma_token_gid" : "rdma_token_gid_plain");
        return 0;
}
