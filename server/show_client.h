/* show_client.h - `--show-client`: what the command `millrace` needs to ask the daemon of these settings. */
#ifndef MILLRACE_SERVER_SHOW_CLIENT_H
#define MILLRACE_SERVER_SHOW_CLIENT_H

#include "server/settings.h"

#include <stdio.h>

/*
 * Prints endpoint, admin address, region and root credentials, a line NAME = VALUE each, as in the client's configuration file.
 * Main thread. 0; where credentials cannot be read that and a line, and the others are printed all the same.
 */
int srv_show_client(const struct srv_settings *settings, FILE *out, struct srv_error *error);

#endif
