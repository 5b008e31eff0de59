/*
 * lookup_home.c - lookups of a home store: the leader of its pool looks the name up, and keeps the pin.
 * What it says was current when it said so, whatever the home believes of its own copies. Home loops.
 */
#include "engine/call/call_send.h"
#include "engine/txn/txn.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define ROOM (24u << 10) /* for most values, and for inline bytes of the usual limit in a cluster */

_Static_assert((unsigned)ENG_LOOKUP_VERSION == ENG_CALL_WHICH_MAX, "leader_call.h");

static void home_lookup_done(struct lp_msg *msg)
{
        struct eng_lookup *lookup = container_of(msg, struct eng_lookup, msg);

        lookup->done(lookup);
}

/* The answer is in the room of the call, which is the call's. */
static int take_looked_up(struct eng_lookup *lookup, const struct eng_call_answer *answer)
{
        lookup->value = eng_buf_new(answer->value.len);
        if (lookup->value == NULL)
                return -ENOMEM;
        memcpy(lookup->value->data, answer->value.data, answer->value.len);
        if (answer->bytes.data != NULL) {
                lookup->bytes = eng_buf_new(answer->bytes.len);
                if (lookup->bytes == NULL) {
                        eng_buf_unref(lookup->value);
                        lookup->value = NULL;
                        return -ENOMEM;
                }
                memcpy(lookup->bytes->data, answer->bytes.data, answer->bytes.len);
        }
        lookup->name = answer->name;
        return 0;
}

static void home_lookup_answered(void *arg, const struct eng_call_answer *answer)
{
        struct eng_lookup *lookup = arg;

        assert(eng_on_loop(lookup->home));
        lookup->result = answer->rv;
        lookup->pinned = answer->rv == 0 && answer->pinned;
        if (answer->rv == 0)
                lookup->result = take_looked_up(lookup, answer);
        if (lookup->result != 0 && lookup->pinned) {
                eng_home_unpin(lookup);
                lookup->pinned = false;
        }
        if (lookup->result != 0) {
                eng_buf_unref(lookup->value);
                eng_buf_unref(lookup->bytes);
                lookup->value = lookup->bytes = NULL;
        }
        lookup->done(lookup);
}

void eng_home_lookup(struct eng_lookup *lookup)
{
        struct eng_loop *el = lookup->home;
        struct eng_call call = {.kind = ENG_CALL_LOOKUP, .lookup = {.which = (uint8_t)lookup->which, .flags = lookup->flags, .name = lookup->name}};

        if (lookup->pin)
                call.lookup.pin = lookup->number = (uint64_t)(el->index + 1) << 48 | ++el->pins_given;
        memcpy(call.lookup.random, lookup->random, ENG_VERSION_RANDOM);
        lookup->result = el->view.ready ? eng_call_send(lookup->store, &call, ROOM, home_lookup_answered, lookup) : -EHOSTDOWN;
        if (lookup->result == 0)
                return;
        lookup->msg.run = home_lookup_done;
        lp_post(el->loop, &lookup->msg);
}

void eng_home_unpin(struct eng_lookup *lookup)
{
        const struct eng_leader_link *link = lookup->store->options.leader;

        link->unpin(link->arg, lookup->number);
}
