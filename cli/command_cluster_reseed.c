/*
 * command_cluster_reseed.c - `millrace admin cluster reseed`: runs `millraced --reseed-cluster`, which speaks to etcd as the
 * daemon does, with its settings. No endpoint is asked: there is none while etcd is lost. Main thread only.
 */
#include "command_admin.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cli_find_daemon(char *out, size_t size)
{
        ssize_t n = readlink("/proc/self/exe", out, size - sizeof("/millraced"));
        char *slash;

        out[n > 0 ? n : 0] = '\0';
        slash = strrchr(out, '/');
        if (slash != NULL)
                strcpy(slash + 1, "millraced");
        if (slash == NULL || access(out, X_OK) != 0)
                snprintf(out, size, "millraced");
}

int cli_run_daemon(char *const args[])
{
        execvp(args[0], args);
        cli_error("%s cannot be run: %s", args[0], strerror(errno));
        return CLI_FAILED;
}

int cli_admin_cluster_reseed(struct cli_call *call)
{
        char program[PATH_MAX], config[PATH_MAX + 16], yes[] = "--reseed-yes", action[] = "--reseed-cluster";
        char **args = calloc((size_t)call->argc + 5, sizeof(*args));
        int i, n = 0;

        if (args == NULL) {
                cli_error("out of memory");
                return CLI_FAILED;
        }
        cli_find_daemon(program, sizeof(program));
        snprintf(config, sizeof(config), "--config=%s", call->argv[0]);
        args[n++] = program;
        args[n++] = config;
        args[n++] = action;
        if (call->yes)
                args[n++] = yes;
        for (i = 1; i < call->argc; i++) {
                size_t size = strlen(call->argv[i]) + sizeof("--reseed-without=");

                args[n] = malloc(size);
                if (args[n] == NULL) {
                        cli_error("out of memory");
                        return CLI_FAILED;
                }
                snprintf(args[n++], size, "--reseed-without=%s", call->argv[i]);
        }
        i = cli_run_daemon(args);
        free(args);
        return i;
}
