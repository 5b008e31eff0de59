/*
 * main.c - the program `millrace`: parses its arguments, makes a client, runs one command. An interrupt cancels the
 * client, so that uploads in parts are aborted and files half written are removed; a second one ends the process at
 * once.
 */
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static struct mr_client *volatile interruptible; /* set before the handler is installed */

static void on_interrupt(int number)
{
        if (mr_client_canceled(interruptible))
                _exit(128 + number);
        mr_client_cancel(interruptible);
}

static void catch_signals(struct mr_client *client)
{
        struct sigaction action = {.sa_handler = on_interrupt};

        interruptible = client;
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        action.sa_handler = SIG_IGN;
        sigaction(SIGPIPE, &action, NULL);
}

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
        catch_signals(call.client);
        status = call.command->run(&call);
        if (fflush(stdout) != 0 && status == CLI_OK) {
                cli_error("standard output: %s", strerror(errno));
                status = CLI_FAILED;
        }
        mr_client_free(call.client);
        return status;
}
