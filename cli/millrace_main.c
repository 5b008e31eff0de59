/*
 * millrace_main.c - the program `millrace`: parses its arguments, makes a client, runs one command.
 */
#include "cli.h"

#include <errno.h>
#include <string.h>

int main(int argc, char **argv)
{
        struct cli_call call;
        int status = cli_call_parse(argc, argv, &call);
        int rv;

        if (status >= 0)
                return fflush(stdout) == 0 ? status : CLI_FAILED;
        rv = mr_client_new(&call.settings, &call.client);
        if (rv != 0) {
                cli_error("cannot start: %s", strerror(-rv));
                return rv == -EINVAL ? CLI_USAGE : CLI_FAILED;
        }
        cli_interrupt(call.client);
        status = call.command->run(&call);
        if (fflush(stdout) != 0 && status == CLI_OK) {
                cli_error("standard output: %s", strerror(errno));
                status = CLI_FAILED;
        }
        mr_client_free(call.client);
        return status;
}
