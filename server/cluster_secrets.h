/*
 * cluster_secrets.h - the secrets that all nodes of a cluster must have alike, and digests of them that nodes
 * compare (net.h).
 */
#ifndef MILLRACE_SERVER_CLUSTER_SECRETS_H
#define MILLRACE_SERVER_CLUSTER_SECRETS_H

#include "net.h"
#include "server/settings.h"

/*
 * Reads key_file and the root credentials, as they are now, and makes the digests. An HMAC by the key, over a
 * fixed text and the cluster's id: it tells nothing of the key, is another one in each cluster, and that of the
 * credentials cannot be guessed at without the key. Main thread; blocking. Errors: -ENOENT and the like, with a
 * line: a cluster cannot do without either.
 */
int srv_secrets_digest(const struct srv_settings *settings, const uint8_t cluster_id[NET_CLUSTER_LEN], struct net_secrets *out,
                       struct srv_error *error);

#endif
