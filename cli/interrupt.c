/*
 * interrupt.c - an interrupt cancels the clients of this run, so that uploads in parts are aborted
 * and files half written are removed; a second one ends the process at once. The main thread sets
 * which; the signal's handler reads it.
 */
#include "cli.h"

#include <signal.h>
#include <unistd.h>

static struct mr_client *volatile interruptible; /* set before the handler is installed */
static struct mr_client *volatile another;       /* may be NULL */

static void on_interrupt(int number)
{
        struct mr_client *also = another;

        if (mr_client_canceled(interruptible))
                _exit(128 + number);
        mr_client_cancel(interruptible);
        if (also != NULL)
                mr_client_cancel(also);
}

void cli_interrupt(struct mr_client *client)
{
        struct sigaction action = {.sa_handler = on_interrupt};

        interruptible = client;
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        action.sa_handler = SIG_IGN;
        sigaction(SIGPIPE, &action, NULL);
}

void cli_interrupt_also(struct mr_client *client)
{
        another = client;
        if (client != NULL && interruptible != NULL &&
            mr_client_canceled(interruptible)) /* it was too early for the handler */
                mr_client_cancel(client);
}
