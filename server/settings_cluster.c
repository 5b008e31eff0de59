/*
 * settings_cluster.c - what the settings of a cluster's node must say together.
 */
#include "server/settings.h"

#include "cluster_keys.h"

#include <errno.h>
#include <string.h>

bool srv_address_is_every(const struct srv_address *address)
{
        return *address->host == '\0' || strcmp(address->host, "0.0.0.0") == 0 || strcmp(address->host, "::") == 0;
}

uint16_t srv_cluster_rack(const struct srv_settings *s)
{
        return (uint16_t)(s->rack != 0 ? s->rack : s->node);
}

static int check_etcd(const struct srv_settings *s, struct srv_error *error)
{
        if (s->etcd.count == 0)
                return srv_fail(error, -EINVAL, "cluster: given without etcd: name at least one member");
        if ((*s->etcd_cert != '\0') != (*s->etcd_key != '\0'))
                return srv_fail(error, -EINVAL, "%s: given without %s", *s->etcd_cert != '\0' ? "etcd_cert" : "etcd_key",
                                *s->etcd_cert != '\0' ? "etcd_key" : "etcd_cert");
        if ((*s->etcd_user != '\0') != (*s->etcd_password_file != '\0'))
                return srv_fail(error, -EINVAL, "%s: given without %s", *s->etcd_user != '\0' ? "etcd_user" : "etcd_password_file",
                                *s->etcd_user != '\0' ? "etcd_password_file" : "etcd_user");
        return 0;
}

static int check_node(const struct srv_settings *s, struct srv_error *error)
{
        const struct {
                const char *name, *value;
        } files[] = {{"cluster_ca", s->cluster_ca}, {"cluster_cert", s->cluster_cert}, {"cluster_key", s->cluster_key}};
        size_t i;

        if (s->node == 0)
                return srv_fail(error, -EINVAL, "cluster: given without node, the number of this node");
        if (!s->cluster_listen.set || srv_address_is_every(&s->cluster_listen) || s->cluster_listen.port == 0)
                return srv_fail(error, -EINVAL, "cluster_listen: other nodes need an address and a port");
        if (!cl_name_is_sound(*s->node_name != '\0' ? s->node_name : s->cluster_listen.host))
                return srv_fail(error, -EINVAL, "node_name: give a name of letters, digits, - _ and . that the node's certificate is for");
        for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                if (*files[i].value == '\0')
                        return srv_fail(error, -EINVAL, "cluster: given without %s", files[i].name);
        if (s->upgrade)
                return srv_fail(error, -EINVAL, "upgrade: a cluster's drives are of this layout");
        return 0;
}

int srv_cluster_check(const struct srv_settings *s, enum srv_action action, struct srv_error *error)
{
        int rv;

        if (*s->cluster == '\0')
                return srv_fail(error, -EINVAL, "%s: give the cluster a name (cluster)", action == SRV_RESEED_CLUSTER ? "--reseed-cluster" : "--init-cluster");
        if (!cl_name_is_sound(s->cluster))
                return srv_fail(error, -EINVAL, "cluster: '%.100s' is no name of letters, digits, - _ and .", s->cluster);
        rv = check_etcd(s, error);
        if (rv == 0 && action == SRV_INIT_CLUSTER && s->new_pool_nodes.count == 0)
                rv = srv_fail(error, -EINVAL, "--init-cluster: name the nodes whose folders it is to use (new_pool_nodes)");
        if (rv == 0 && action == SRV_RUN)
                rv = check_node(s, error);
        return rv;
}
