/*
 * heads.c - heads that name a version which no member has: a lookup that met one says so, and the head
 * is written anew, with its key locked (docs/design/versions.md, V35).
 *
 * No comparison of members finds such a head, because they agree; and a walk that looked for the row of
 * each head would cost a lookup for each key. Who reads the key meets it. One is looked at at a time: it
 * is rare, and who is answered 503 asks again.
 */
#include "engine/resync/resync.h"
#include "engine/upkeep/upkeep.h"

#include <assert.h>
#include <stdlib.h>

/* owner: the loop that met it, until sent; then the coordinator */
struct eng_head_check {
        struct lp_msg msg;
        struct eng_store *store;
        struct eng_agree agree;
};

static void head_check_end(struct eng_head_check *check)
{
        struct eng_store *store = check->store;

        assert(store->coord->head_check == check);
        store->coord->head_check = NULL;
        free(check);
        atomic_store(&store->head_checked, false);
}

static void head_checked(struct eng_agree *agree)
{
        head_check_end(container_of(agree, struct eng_head_check, agree));
}

static void head_check_begin(struct lp_msg *msg)
{
        struct eng_head_check *check = container_of(msg, struct eng_head_check, msg);
        struct eng_store *store = check->store;

        assert(eng_on_coordinator(store) && store->coord->head_check == NULL);
        store->coord->head_check = check;
        if (store->stopping || eng_agree_start(store, &check->agree) != 0)
                head_check_end(check);
}

void eng_heads_look_at(struct eng_store *store, const struct eng_name *name)
{
        struct eng_head_check *check;

        if (atomic_exchange(&store->head_checked, true))
                return;
        check = calloc(1, sizeof(*check));
        if (check == NULL) {
                atomic_store(&store->head_checked, false);
                return;
        }
        check->store = store;
        check->agree.name = *name;
        check->agree.done = head_checked;
        check->msg.run = head_check_begin;
        lp_post(store->coord_loop->loop, &check->msg);
}

void eng_heads_free(struct eng_store *store)
{
        struct eng_head_check *check = store->coord->head_check;

        if (check == NULL)
                return;
        eng_agree_drop(&check->agree);
        head_check_end(check);
}
