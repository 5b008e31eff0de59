/*
 * node_gateway.h - the S3 side of a node process: a gateway over a home store of each pool, whose leader is the process
 * that leads the pool, on whichever node (docs/design/any-gateway.md, pool-leaders.md).
 *
 * owner: the main thread.
 */
#ifndef MILLRACE_SERVER_NODE_GATEWAY_H
#define MILLRACE_SERVER_NODE_GATEWAY_H

#include "server/cluster_link.h"
#include "server/listeners.h"

struct srv_node_gateway;

/*
 * Serves S3 and admin on these sockets from here on, which stay the caller's. boot: of this process. link: connected.
 * server: it has this node's drives. Negative errno, with a line.
 */
int srv_node_gateway_open(const struct srv_settings *settings, struct srv_link *link, struct rem_server *server, uint64_t boot, const struct srv_listener *s3,
                          const struct srv_listener *plain, const struct srv_listener *admin, const struct cl_view *view, struct srv_node_gateway **out,
                          struct srv_error *error);
/*
 * Who leads, as the view has it; here: pools whose process is this node's, and can be asked, a bit for each number. A pool that
 * it has not seen before gets a home store.
 */
void srv_node_gateway_see(struct srv_node_gateway *gateway, const struct cl_view *view, uint32_t here);
/* Each second, and on SIGHUP. The first says what has changed; false: a loop of it has failed. */
bool srv_node_gateway_look(struct srv_node_gateway *gateway);
void srv_node_gateway_reload(struct srv_node_gateway *gateway);
/*
 * No request begins any more, and those that run may end, within the time that is set, if it waits for that. The leader is there
 * yet. The signal by which that has ended, or 0.
 */
int srv_node_gateway_drain(struct srv_node_gateway *gateway, int signal_fd, bool waits);
/* The link goes on. False: a thread may still use all that is left, and the process is to end at once. NULL is allowed. */
bool srv_node_gateway_close(struct srv_node_gateway *gateway);

#endif
