/*
 * broadcast.c - tells every loop something, and tells the coordinator when all have taken it in;
 * views go to the loops this way.
 */
#include "engine/base/store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BROADCAST_MSG(m) (container_of((m), struct eng_broadcast_msg, msg))

static void acked(struct lp_msg *msg)
{
        struct eng_broadcast *broadcast = BROADCAST_MSG(msg)->broadcast;

        assert(eng_on_coordinator(broadcast->store));
        assert(broadcast->left > 0);
        if (--broadcast->left > 0)
                return;
        if (broadcast->done != NULL)
                broadcast->done(broadcast->store, broadcast->arg);
        free(broadcast);
}

static void arrived(struct lp_msg *msg)
{
        struct eng_broadcast_msg *cm = BROADCAST_MSG(msg);

        assert(eng_on_loop(cm->to));
        msg->run = acked;
        if (cm->broadcast->run(cm->to, cm->broadcast->arg, msg))
                lp_post(cm->broadcast->store->coord_loop->loop, msg);
}

int eng_broadcast(struct eng_store *store, bool (*run)(struct eng_loop *el, void *arg, struct lp_msg *ack),
             void (*done)(struct eng_store *store, void *arg), void *arg)
{
        struct eng_broadcast *broadcast = calloc(1, sizeof(*broadcast) + store->loop_count * sizeof(broadcast->msgs[0]));
        unsigned i;

        assert(eng_on_coordinator(store));
        if (broadcast == NULL)
                return -ENOMEM;
        broadcast->store = store;
        broadcast->run = run;
        broadcast->done = done;
        broadcast->arg = arg;
        broadcast->left = store->loop_count;
        for (i = 0; i < store->loop_count; i++) {
                broadcast->msgs[i].broadcast = broadcast;
                broadcast->msgs[i].to = &store->loops[i];
                broadcast->msgs[i].msg.run = arrived;
                lp_post(store->loops[i].loop, &broadcast->msgs[i].msg);
        }
        return 0;
}

static bool take_view(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        const struct eng_view *view = arg;

        assert(view->epoch >= el->view.epoch);
        assert(el->leader.quiet == NULL);
        assert(!view->ready || view->map != NULL);
        el->view = *view; /* not looked at again: once the ack is posted, it may be gone */
        if (el->view.paused)
                el->leader.quiet = ack;
        el->store->events->view_changed(el);
        return !el->view.paused;
}

struct spread {
        struct eng_view view;
        void (*done)(struct eng_store *store, void *arg);
};

static void spread_done(struct eng_store *store, void *arg)
{
        struct spread *spread = arg;

        if (spread->done != NULL)
                spread->done(store, NULL);
        free(spread);
}

void eng_view_spread(struct eng_store *store, const struct eng_view *view, void (*done)(struct eng_store *store, void *arg))
{
        struct spread *spread = malloc(sizeof(*spread));
        unsigned i;

        assert(!view->paused || (view->ready && view->writable));
        assert((view->in & view->joining) == 0);
        if (spread != NULL) {
                spread->view = *view;
                spread->done = done;
                for (i = 0; i < ENG_DRIVES_MAX; i++)
                        memcpy(&spread->view.drive_key[i], store->members[i].id, sizeof(uint64_t));
        }
        if (spread == NULL || eng_broadcast(store, take_view, spread_done, spread) != 0)
                abort(); /* loops that disagree about the membership would be worse than a restart */
}
