/*
 * command_admin_cluster.c - `millrace admin cluster init`, `pool add` and `adopt`: runs `millraced --init-cluster` or `--adopt-store`, which speak to
 * etcd with the daemon's settings. No endpoint is asked: there is none before there is a cluster. Main thread only.
 */
#include "command_admin.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_CONFIG "/etc/millrace/millrace.conf"

/* Of the daemon's settings: as an argument of it. */
static void config_argument(const struct cli_call *call, char *out, size_t size)
{
        const char *settings = call->argc > 0 ? call->argv[0] : getenv("MILLRACE_SETTINGS");

        snprintf(out, size, "--config=%s", settings != NULL && settings[0] != '\0' ? settings : DEFAULT_CONFIG);
}

/* more: there is a cluster, which gets further pools. */
static int run_init(struct cli_call *call, bool more)
{
        char program[PATH_MAX], config[PATH_MAX + 16], nodes[8192], ec[64], pools[32], action[] = "--init-cluster", ask[] = "--init-ask", further[] = "--init-more";
        char *args[10];
        int n = 0;

        if (call->nodes == NULL)
                return cli_usage(call, "--nodes is missing: the names of the nodes");
        if (snprintf(nodes, sizeof(nodes), "--new-pool-nodes=%s", call->nodes) >= (int)sizeof(nodes))
                return cli_usage(call, "--nodes is too long");
        cli_find_daemon(program, sizeof(program));
        config_argument(call, config, sizeof(config));
        args[n++] = program;
        args[n++] = config;
        args[n++] = action;
        args[n++] = nodes;
        if (call->ec != NULL) {
                snprintf(ec, sizeof(ec), "--ec=%.50s", call->ec);
                args[n++] = ec;
        }
        if (call->pools != NULL) {
                snprintf(pools, sizeof(pools), "--new-pools=%.10s", call->pools);
                args[n++] = pools;
        }
        if (more)
                args[n++] = further;
        if (!call->yes)
                args[n++] = ask;
        args[n] = NULL;
        return cli_run_daemon(args);
}

int cli_admin_cluster_init(struct cli_call *call)
{
        return run_init(call, false);
}

int cli_admin_cluster_pool_add(struct cli_call *call)
{
        return run_init(call, true);
}

int cli_admin_cluster_adopt(struct cli_call *call)
{
        char program[PATH_MAX], config[PATH_MAX + 16], action[] = "--adopt-store", yes[] = "--adopt-yes";
        char *args[] = {program, config, action, call->yes ? yes : NULL, NULL};

        cli_find_daemon(program, sizeof(program));
        config_argument(call, config, sizeof(config));
        return cli_run_daemon(args);
}
