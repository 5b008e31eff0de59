/*
 * node_hand_over.c - see node_hand_over.h.
 */
#include "server/node_hand_over.h"

#include "server/daemon_log.h"

#include <string.h>

static void hand_over_is_said(struct cl_hand_over *asking)
{
        struct srv_hand_over *h = asking->arg;

        atomic_store(&h->said, true);
        srv_link_wake(h->link);
}

static void begin_hand_over(void *arg)
{
        cl_hand_over_start(arg);
}

bool srv_hand_over_ready(struct srv_hand_over *h, struct srv_link *link, const struct cl_view *view, unsigned pool, bool before)
{
        const uint16_t own = link->settings->number;

        if (!h->begun) {
                *h = (struct srv_hand_over){.link = link, .begun = true};
                h->asking = (struct cl_hand_over){.client = link->client, .pool = pool, .done = hand_over_is_said, .arg = h};
                h->asking.count = cl_hand_over_nodes(cl_view_pool(view, pool), own, before, h->asking.nodes);
                srv_link_call(link, begin_hand_over, &h->asking);
        }
        if (!atomic_load(&h->said))
                return false;
        if (!h->told && h->asking.ready != 0)
                srv_log(SRV_LOG_INFO, "node %u is ready to lead pool %u", (unsigned)h->asking.ready, pool);
        else if (!h->told)
                srv_log(SRV_LOG_INFO, "no other node is ready to lead pool %u: the first that can will", pool);
        h->told = true;
        return true;
}

struct hand_over_stop {
        struct cl_hand_over *asking;
        sem_t ended;
};

static void hand_over_ended(void *arg)
{
        sem_post(arg);
}

static void stop_hand_over(void *arg)
{
        struct hand_over_stop *stop = arg;

        cl_hand_over_stop(stop->asking, hand_over_ended, &stop->ended);
}

void srv_hand_over_end(struct srv_hand_over *h)
{
        struct hand_over_stop stop = {.asking = &h->asking};

        if (!h->begun)
                return;
        sem_init(&stop.ended, 0, 0);
        srv_link_call(h->link, stop_hand_over, &stop);
        srv_link_wait(&stop.ended);
        sem_destroy(&stop.ended);
        h->begun = false;
}
