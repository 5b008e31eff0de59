/*
 * elector.c - when a node tries to lead: asks the drive servers of the pool, and lets election.c judge.
 */
#include "cluster_node.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/election.h"

#define STATE_WAIT_MS  500u
#define HURRY_AFTER_NS (3 * CL_SILENCE_NS / 4)

/* A node that has slots. */
struct asked {
        struct rem_pool_state state;
        struct cl_elector *elector;
        uint16_t node;
};

struct cl_elector {
        struct cl_elector_options options;
        struct lp_loop *loop;
        struct asked asked[CL_NODES_MAX];
        unsigned count, out;
        /* of what was read when it asked */
        bool led;
        int64_t leader_revision;
        size_t epoch_len;
        _Alignas(8) uint8_t epoch[CL_EPOCH_MAX];
        /* of the leader key as it is */
        uint64_t since, stagger;
        bool has_seen;
        enum cl_election_verdict verdict;
        bool judged;
        void (*stopped)(void *arg);
        void *stopped_arg;
        struct lp_msg stop_msg;
};

static void elector_stopped(struct lp_msg *msg)
{
        struct cl_elector *e = container_of(msg, struct cl_elector, stop_msg);

        e->stopped(e->stopped_arg);
}

static void elector_stop_now(struct cl_elector *e)
{
        e->stop_msg.run = elector_stopped;
        lp_post(e->loop, &e->stop_msg);
}

static uint64_t slots_of_state(const struct rem_pool_state *state, const struct eng_epoch_info *epoch)
{
        uint64_t slots = 0;
        unsigned i;

        for (i = 0; i < state->count; i++) {
                const struct rem_slot *slot = &state->slots[i];

                if (slot->slot < epoch->slots && (slot->flags & REM_SLOT_FAILED) == 0 && memcmp(slot->drive_id, epoch->slot[slot->slot].drive_id, ENG_ID_LEN) == 0)
                        slots |= 1ull << slot->slot;
        }
        return slots;
}

static void elector_judge(struct cl_elector *e)
{
        struct cl_witness witnesses[CL_NODES_MAX];
        struct cl_election election = {.node = e->options.node, .led = e->led, .epoch = e->epoch, .epoch_len = e->epoch_len, .witnesses = witnesses, .count = e->count,
                                       .unchanged = lp_now(e->loop) - e->since, .stagger = e->stagger};
        struct eng_epoch_info epoch;
        enum cl_election_verdict verdict;
        bool heard = false, fresh = false; /* fresh: something came of the leader a moment ago */
        unsigned i;

        if (eng_epoch_read(e->epoch, e->epoch_len, &epoch) != 0)
                return;
        for (i = 0; i < e->count; i++) {
                const struct rem_pool_state *state = &e->asked[i].state;

                witnesses[i] = (struct cl_witness){.node = e->asked[i].node, .answered = state->said == REM_SAID_DONE};
                if (!witnesses[i].answered)
                        continue;
                witnesses[i].slots = slots_of_state(state, &epoch);
                witnesses[i].heard_ns = state->heard_ns;
                witnesses[i].released = state->released;
                heard |= state->heard;
                fresh |= !state->released && state->heard_ns < HURRY_AFTER_NS;
        }
        verdict = cl_election_judge(&election);
        if ((!e->judged || verdict != e->verdict) && verdict != CL_TRY)
                e->options.waits(e->options.arg, verdict == CL_HEARD ? "" : cl_election_text(verdict));
        e->judged = true;
        e->verdict = verdict;
        if (verdict == CL_HEARD && !fresh)
                e->options.hurry(e->options.arg);
        if (verdict == CL_TRY)
                e->options.lead(e->options.arg, e->leader_revision, !heard);
}

static void elector_answered(struct cl_elector *e)
{
        assert(e->out > 0);
        if (--e->out > 0)
                return;
        if (e->stopped != NULL)
                elector_stop_now(e);
        else
                elector_judge(e);
}

static void state_answered(struct rem_pool_state *state)
{
        elector_answered(container_of(state, struct asked, state)->elector);
}

static void add_asked(struct cl_elector *e, uint16_t node)
{
        unsigned i;

        for (i = 0; i < e->count; i++)
                if (e->asked[i].node == node)
                        return;
        if (e->count < CL_NODES_MAX)
                e->asked[e->count++] = (struct asked){.elector = e, .node = node};
}

static void ask_state(struct cl_elector *e, struct asked *a)
{
        if (a->node == e->options.node) {
                rem_server_pool_state(e->options.server, CL_POOL, &a->state);
                elector_answered(e);
                return;
        }
        a->state = (struct rem_pool_state){.client = e->options.client, .pool = CL_POOL, .node = a->node, .wait_ms = STATE_WAIT_MS, .done = state_answered};
        rem_pool_state_ask(&a->state);
}

void cl_elector_look(struct cl_elector *e, const struct cl_view *view)
{
        unsigned i;

        if (e->loop == NULL)
                e->loop = lp_self();
        assert(lp_self() == e->loop);
        if (e->out > 0 || e->stopped != NULL || !view->has_pool)
                return;
        if (!e->has_seen || e->leader_revision != view->leader_revision) {
                e->has_seen = true;
                e->since = lp_now(e->loop);
                lp_random(&e->stagger, sizeof(e->stagger));
                e->stagger %= CL_STAGGER_NS;
        }
        e->led = view->is_led;
        e->leader_revision = view->leader_revision;
        memcpy(e->epoch, view->config.epoch, view->config.epoch_len);
        e->epoch_len = view->config.epoch_len;
        e->count = 0;
        for (i = 0; i < view->epoch.slots; i++)
                if ((view->epoch.gone >> i & 1) == 0)
                        add_asked(e, view->epoch.slot[i].site.node);
        e->out = e->count + 1; /* nothing is judged before all were asked */
        for (i = 0; i < e->count; i++)
                ask_state(e, &e->asked[i]);
        elector_answered(e);
}

int cl_elector_new(const struct cl_elector_options *options, struct cl_elector **out)
{
        struct cl_elector *e = calloc(1, sizeof(*e));

        if (e == NULL)
                return -ENOMEM;
        e->options = *options;
        *out = e;
        return 0;
}

void cl_elector_stop(struct cl_elector *e, void (*stopped)(void *arg), void *arg)
{
        assert(e->stopped == NULL);
        e->loop = lp_self();
        e->stopped = stopped;
        e->stopped_arg = arg;
        if (e->out == 0)
                elector_stop_now(e);
}

void cl_elector_free(struct cl_elector *e)
{
        free(e);
}

uint64_t cl_elector_rest(unsigned times)
{
        return cl_election_rest(times);
}
