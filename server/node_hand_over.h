/*
 * node_hand_over.h - a node process gets another node ready to lead, before its leader process hands over
 * (docs/design/hand-over.md).
 *
 * owner: the main thread
 */
#ifndef MILLRACE_SERVER_NODE_HAND_OVER_H
#define MILLRACE_SERVER_NODE_HAND_OVER_H

#include <stdatomic.h>

#include "server/cluster_link.h"

/* Of one pool. Zeroes: nobody is asked. */
struct srv_hand_over {
        struct cl_hand_over asking; /* owner: the link's loop, while it is begun */
        struct srv_link *link;
        bool begun, told;
        atomic_bool said; /* it is known who is ready, or that nobody is */
};

/*
 * True: the pool may be handed over. The first call begins to ask nodes that may lead next (before: only those that go before this
 * one); the link is woken when it is true, some seconds later at the latest, whether a node is ready or not. It is kept ready.
 */
bool srv_hand_over_ready(struct srv_hand_over *hand_over, struct srv_link *link, const struct cl_view *view, unsigned pool, bool before);
/* Nobody is asked any more. Before the link ends. */
void srv_hand_over_end(struct srv_hand_over *hand_over);

#endif
