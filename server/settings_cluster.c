/*
 * settings_cluster.c - what the settings of a cluster's node must say together.
 */
#include "server/settings.h"

#include "server/node_leader.h"

#include "cluster_keys.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool srv_address_is_every(const struct srv_address *address)
{
        return *address->host == '\0' || strcmp(address->host, "0.0.0.0") == 0 || strcmp(address->host, "::") == 0;
}

uint16_t srv_cluster_rack(const struct srv_settings *s)
{
        return (uint16_t)(s->rack != 0 ? s->rack : s->number);
}

/* If it was not given, and only_there is false or the file is there. */
static int default_file(struct srv_settings *s, enum srv_setting_id id, const char *config, const char *name, const char *end, bool only_there,
                        struct srv_error *error)
{
        const char *value = *(char *const *)((const char *)s + srv_setting_infos[id].offset), *slash = strrchr(config, '/');
        int folder = slash != NULL ? (int)(slash + 1 - config) : 0;
        char path[SRV_VALUE_MAX];

        if (*value != '\0')
                return 0;
        if (snprintf(path, sizeof(path), "%.*s%s%s", folder, config, name, end) >= (int)sizeof(path))
                return srv_fail(error, -ENAMETOOLONG, "--config: the path is too long");
        if (only_there && access(path, F_OK) != 0)
                return 0;
        return srv_settings_set(s, id, SRV_FROM_FILE, path, srv_setting_infos[id].name, error);
}

int srv_cluster_defaults(struct srv_settings *s, const char *config, struct srv_error *error)
{
        const struct {
                enum srv_setting_id id;
                const char *name, *end;
                bool only_there; /* what there is without it is found out later */
        } files[] = {
                {SRV_SETTING_cluster_ca, "ca", ".crt", false},
                {SRV_SETTING_cluster_cert, s->node, ".crt", false},
                {SRV_SETTING_cluster_key, s->node, ".key", false},
                {SRV_SETTING_key_file, "key", "", true},
                {SRV_SETTING_root_credentials, "root-credentials", "", true},
        };
        struct srv_lead_spec spec;
        size_t i;
        int rv = 0;

        if (*s->cluster == '\0')
                return 0;
        if (*s->lead != '\0' && srv_lead_parse(s->lead, &spec) == 0)
                s->number = (uint16_t)spec.node;
        if (s->source[SRV_SETTING_format] == SRV_FROM_DEFAULT)
                rv = srv_settings_set(s, SRV_SETTING_format, SRV_FROM_FILE, "yes", "format", error);
        for (i = 0; rv == 0 && config != NULL && cl_name_is_sound(s->node) && i < sizeof(files) / sizeof(files[0]); i++)
                rv = default_file(s, files[i].id, config, files[i].name, files[i].end, files[i].only_there, error);
        return rv;
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

        if (!cl_name_is_sound(s->node))
                return srv_fail(error, -EINVAL, "node: give this node a name of letters, digits, - _ and . that its certificate is for");
        if (!s->cluster_listen.set || srv_address_is_every(&s->cluster_listen) || s->cluster_listen.port == 0)
                return srv_fail(error, -EINVAL, "cluster_listen: other nodes need an address and a port");
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
                return srv_fail(error, -EINVAL, "%s: give the cluster a name (cluster)", action == SRV_RESEED_CLUSTER ? "--reseed-cluster" : action == SRV_ADOPT_STORE ? "--adopt-store" : action == SRV_DOCTOR_CLUSTER ? "--doctor-cluster" : "--init-cluster");
        if (!cl_name_is_sound(s->cluster))
                return srv_fail(error, -EINVAL, "cluster: '%.100s' is no name of letters, digits, - _ and .", s->cluster);
        rv = check_etcd(s, error);
        if (rv == 0 && action == SRV_INIT_CLUSTER && s->new_pool_nodes.count == 0)
                rv = srv_fail(error, -EINVAL, "--init-cluster: name the nodes whose folders it is to use (new_pool_nodes)");
        if (rv == 0 && (action == SRV_RUN || action == SRV_DOCTOR_CLUSTER || action == SRV_ADOPT_STORE))
                rv = check_node(s, error);
        return rv;
}
