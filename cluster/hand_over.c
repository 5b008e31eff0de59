/*
 * hand_over.c - a node that leads a pool and is about to hand over finds another one that is ready to lead, and keeps it
 * ready (docs/design/hand-over.md).
 *
 * One node is asked at a time, in the order in which they go: until it says that it is ready, that it will not be, or the
 * time is over. The next leader is not decided here: that is etcd's key. On one loop.
 */
#include "cluster_node.h"

#include <assert.h>
#include <string.h>

#include "cluster/election.h"

#define MS_NS     (1000ull * 1000)
#define ANSWER_MS 500u          /* that an answer is waited for */
#define AGAIN_NS  (20 * MS_NS)  /* between two questions to one that is not ready yet ... */
#define KEEP_NS   (500 * MS_NS) /* ... and to one that is */

static void hand_over_ask(struct cl_hand_over *h);

/* It is known who is ready, or that nobody is. */
static void hand_over_said(struct cl_hand_over *h, uint16_t ready)
{
        h->ready = ready;
        h->done(h);
}

static void hand_over_again(struct lp_timer *timer)
{
        hand_over_ask(container_of(timer, struct cl_hand_over, timer));
}

static void hand_over_later(struct cl_hand_over *h, uint64_t ns)
{
        h->timer.expired = hand_over_again;
        lp_timer_start(h->loop, &h->timer, ns);
}

static void hand_over_answer(struct rem_prepare *prepare)
{
        struct cl_hand_over *h = container_of(prepare, struct cl_hand_over, prepare);

        h->out = false;
        if (h->stopped != NULL) {
                h->stopped(h->stopped_arg);
                return;
        }
        if (h->ready == 0 && prepare->said == REM_SAID_DONE)
                hand_over_said(h, prepare->node);
        if (h->ready != 0) {
                hand_over_later(h, KEEP_NS);
        } else if (prepare->said == REM_SAID_AGAIN) {
                hand_over_later(h, AGAIN_NS);
        } else { /* it will not be ready, or is of a build that does not know the question */
                h->at++;
                hand_over_ask(h);
        }
}

static void hand_over_ask(struct cl_hand_over *h)
{
        if (h->stopped != NULL)
                return;
        if (h->at == h->count || (h->ready == 0 && lp_now(h->loop) >= h->until)) {
                hand_over_said(h, 0);
                return;
        }
        h->prepare = (struct rem_prepare){.client = h->client,
                                          .pool = h->pool,
                                          .node = h->nodes[h->at],
                                          .wait_ms = ANSWER_MS,
                                          .done = hand_over_answer};
        h->out = true;
        rem_prepare_ask(&h->prepare);
}

unsigned cl_hand_over_nodes(const struct cl_pool *pool, uint16_t node, bool before, uint16_t out[ENG_DRIVES_MAX])
{
        uint16_t order[ENG_DRIVES_MAX];
        unsigned i,
                count = pool->has_config
                                ? cl_election_order(pool->config.epoch, pool->config.epoch_len, pool->number, order)
                                : 0,
                n = 0;

        for (i = 0; i < count && !(before && order[i] == node); i++)
                if (order[i] != node)
                        out[n++] = order[i];
        return n;
}

void cl_hand_over_start(struct cl_hand_over *h)
{
        assert(h->count <= ENG_DRIVES_MAX && h->client != NULL && h->done != NULL);
        h->loop = lp_self();
        h->until = lp_now(h->loop) + CL_PREPARE_MS * MS_NS;
        hand_over_ask(h);
}

void cl_hand_over_stop(struct cl_hand_over *h, void (*stopped)(void *arg), void *arg)
{
        assert(lp_self() == h->loop && h->stopped == NULL);
        h->stopped = stopped;
        h->stopped_arg = arg;
        lp_timer_stop(h->loop, &h->timer);
        if (!h->out)
                stopped(arg);
}
