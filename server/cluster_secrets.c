/*
 * cluster_secrets.c - see cluster_secrets.h.
 */
#include "server/cluster_secrets.h"

#include "server/credentials.h"
#include "server/key_file.h"

#include <errno.h>
#include <openssl/hmac.h>
#include <string.h>

_Static_assert(SRV_KEYS_MAX <= NET_SECRETS_MAX, "there is a digest for each key of the file");

#define SECRETS_LABEL "millrace cluster secrets 1"

/* What is digested by a key: of the key itself, credentials that are empty. Fixed lengths: no two inputs read alike. */
struct secrets_text {
        char label[32];
        uint8_t cluster_id[NET_CLUSTER_LEN];
        struct srv_credentials credentials;
};

static bool secrets_mac(const struct srv_key *key, const struct secrets_text *text, uint8_t out[NET_DIGEST_LEN])
{
        uint8_t mac[32];
        unsigned len = sizeof(mac);

        if (HMAC(EVP_sha256(), key->bytes, SRV_KEY_LEN, (const uint8_t *)text, sizeof(*text), mac, &len) == NULL)
                return false;
        memcpy(out, mac, NET_DIGEST_LEN);
        return true;
}

static int secrets_read(const struct srv_settings *settings, struct srv_keys *keys, struct srv_credentials *credentials,
                        struct srv_error *error)
{
        int rv = srv_credentials_from_environment(credentials, error);

        if (rv == 0 && *settings->root_credentials == '\0')
                return srv_fail(error, -EINVAL, "root_credentials: a cluster needs them from a file, the same on all nodes");
        if (rv == 0)
                rv = srv_credentials_read(settings->root_credentials, credentials, error);
        if (rv < 0)
                return rv;
        rv = srv_keys_load(settings, keys, error);
        return rv != -ENOENT ? rv : srv_fail(error, rv, "key_file: a cluster needs one, the same on all nodes (millraced --rotate-key makes it)");
}

int srv_secrets_digest(const struct srv_settings *settings, const uint8_t cluster_id[NET_CLUSTER_LEN], struct net_secrets *out,
                       struct srv_error *error)
{
        struct secrets_text of_key = {.label = SECRETS_LABEL}, of_root = of_key;
        struct srv_credentials read = {.access_key = ""};
        struct srv_keys keys = {.count = 0};
        int rv = secrets_read(settings, &keys, &read, error);
        unsigned i;

        memset(out, 0, sizeof(*out));
        memcpy(of_key.cluster_id, cluster_id, NET_CLUSTER_LEN);
        memcpy(of_root.cluster_id, cluster_id, NET_CLUSTER_LEN);
        strcpy(of_root.credentials.access_key, read.access_key); /* what lies behind the texts must not count */
        strcpy(of_root.credentials.secret_key, read.secret_key);
        for (i = 0; rv == 0 && i < keys.count; i++)
                if (!secrets_mac(&keys.list[i], &of_key, out->key[i]) || !secrets_mac(&keys.list[i], &of_root, out->root[i]))
                        rv = srv_fail(error, -ENOMEM, "out of memory");
        out->count = rv == 0 ? keys.count : 0;
        explicit_bzero(&of_root, sizeof(of_root));
        explicit_bzero(&read, sizeof(read));
        explicit_bzero(&keys, sizeof(keys));
        return rv;
}
