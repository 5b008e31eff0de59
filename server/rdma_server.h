/*
 * rdma_server.h - the RDMA module inside the daemon: its listeners, and the loops' arenas
 * registered with their devices.
 */
#ifndef MILLRACE_SERVER_FABRIC_H
#define MILLRACE_SERVER_FABRIC_H

#include "rdma.h"
#include "server/loops.h"

/*
 * Main thread, before the loops run. 0 and *out NULL where none is asked for, or there is no device
 * for it (said once in the log): the daemon serves without. batch and arg: see struct
 * rdx_server_options. An error: what was asked for can't be had, the daemon must not start.
 */
int srv_rdma_open(const struct srv_settings *settings, const struct srv_loops *loops,
                  void (*batch)(void *arg, struct rdx_batch *batch), void *arg, struct rdx_server **out,
                  struct srv_error *error);
/* Says where sessions are connected, and by what. */
void srv_rdma_say(const struct srv_settings *settings, const struct rdx_server *rdma);

#endif
