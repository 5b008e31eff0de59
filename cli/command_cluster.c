/*
 * command_cluster.c - `millrace cluster cert`: makes the certificates that the nodes of a cluster
 * show one another. Files in a folder of this machine; no endpoint is asked. Main thread only.
 */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "net_cert.h"

#define WHY_MAX 512

int cli_cluster_cert_ca(struct cli_call *call)
{
        char why[WHY_MAX];

        if (mkdir(call->argv[0], 0700) != 0 && errno != EEXIST) {
                cli_error("%s: %s", call->argv[0], strerror(errno));
                return CLI_FAILED;
        }
        if (net_cert_make_ca(call->argv[0], call->argv[1], NET_CERT_DAYS_CA, why, sizeof(why)) != 0) {
                cli_error("%s", why);
                return CLI_FAILED;
        }
        if (!call->quiet)
                printf("%s/ca.crt is for every node; keep %s/ca.key away from them, and make a copy of it.\n",
                       call->argv[0], call->argv[0]);
        return CLI_OK;
}

int cli_cluster_cert_node(struct cli_call *call)
{
        char why[WHY_MAX];
        int i;

        for (i = 1; i < call->argc; i++) {
                if (net_cert_make_node(call->argv[0], call->argv[i], NET_CERT_DAYS_NODE, why, sizeof(why)) != 0) {
                        cli_error("%s", why);
                        return CLI_FAILED;
                }
                if (!call->quiet)
                        printf("%s/%s.crt and %s/%s.key are for node %s, with ca.crt.\n", call->argv[0], call->argv[i],
                               call->argv[0], call->argv[i], call->argv[i]);
        }
        return CLI_OK;
}
