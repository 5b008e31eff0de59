/*
 * cast.c - tells every loop something, and tells the coordinator when all have taken it in; views go to the loops this way.
 */
#include "engine/base/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAST_MSG(m) (container_of((m), struct eng_cast_msg, msg))

static void acked(struct lp_msg *msg)
{
        struct eng_cast *cast = CAST_MSG(msg)->cast;

        if (--cast->left > 0)
                return;
        if (cast->done != NULL)
                cast->done(cast->store, cast->arg);
        free(cast);
}

static void arrived(struct lp_msg *msg)
{
        struct eng_cast_msg *cm = CAST_MSG(msg);

        msg->run = acked;
        if (cm->cast->run(cm->to, cm->cast->arg, msg))
                lp_post(cm->cast->store->loops[0].loop, msg);
}

int eng_cast(struct eng_store *store, bool (*run)(struct eng_loop *el, void *arg, struct lp_msg *ack),
             void (*done)(struct eng_store *store, void *arg), void *arg)
{
        struct eng_cast *cast = calloc(1, sizeof(*cast) + store->loop_count * sizeof(cast->msgs[0]));
        unsigned i;

        if (cast == NULL)
                return -ENOMEM;
        cast->store = store;
        cast->run = run;
        cast->done = done;
        cast->arg = arg;
        cast->left = store->loop_count;
        for (i = 0; i < store->loop_count; i++) {
                cast->msgs[i].cast = cast;
                cast->msgs[i].to = &store->loops[i];
                cast->msgs[i].msg.run = arrived;
                lp_post(store->loops[i].loop, &cast->msgs[i].msg);
        }
        return 0;
}

static bool take_view(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        const struct eng_view *view = arg;

        el->view = *view; /* not looked at again: once the ack is posted, it may be gone */
        if (el->view.paused)
                el->quiet = ack;
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

        if (spread != NULL) {
                spread->view = *view;
                spread->done = done;
        }
        if (spread == NULL || eng_cast(store, take_view, spread_done, spread) != 0)
                abort(); /* loops that disagree about the membership would be worse than a restart */
}
