/*
 * elector.c - when a node tries to lead a pool: asks the pool's drive servers, and lets election.c judge.
 *
 * Questions come in rounds, each with what was read just before. A round is judged when all have answered
 * that answered the last time: nobody waits twice for a node that is silent, and what that says late
 * counts for nothing, but that it answers again.
 */
#include "cluster_node.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/election.h"

#define STATE_WAIT_MS  500u
#define HURRY_AFTER_NS (3 * CL_SILENCE_NS / 4)

/* A node that has, or had, slots. */
struct asked {
        struct rem_pool_state state;
        struct cl_elector *elector;
        uint16_t node;      /* 0: none */
        bool wanted;        /* it has slots, by what was read for this round */
        bool out, waited;   /* the question is under way; the round waits for it */
        uint64_t round;     /* that it was asked in */
        uint64_t asked;     /* when */
        uint64_t since;     /* when it was asked first what it has not answered; 0: it has answered the last question, or none was over yet */
};

struct cl_elector {
        struct cl_elector_options options;
        struct lp_loop *loop;
        struct asked asked[CL_NODES_MAX];
        uint64_t round;
        unsigned left;  /* questions that the round waits for */
        unsigned out;   /* questions under way, of earlier rounds, too */
        /* of what was read when it asked */
        bool led;
        int64_t leader_revision;
        size_t epoch_len;
        _Alignas(8) uint8_t epoch[CL_EPOCH_MAX];
        /* of the leader key as it is */
        uint64_t since, stagger;
        uint64_t could; /* since when this node could try, and lets others go first; 0: it could not */
        bool has_seen, has_others; /* has_others: the cluster has other pools */
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

static bool has_answered(const struct cl_elector *e, const struct asked *a)
{
        return !a->out && a->round == e->round && a->state.said == REM_SAID_DONE;
}

static bool asked_is_silent(const struct cl_elector *e, const struct asked *a)
{
        return a->since != 0 && lp_now(e->loop) - a->since >= CL_ABSENT_NS;
}

/* What the wanted ones say. Sets *heard: some leader was, since their processes began; *fresh: a moment ago. */
static unsigned take_witnesses(struct cl_elector *e, const struct eng_epoch_info *epoch, struct cl_witness *witnesses, bool *heard, bool *fresh)
{
        unsigned i, count = 0;

        *heard = *fresh = false;
        for (i = 0; i < CL_NODES_MAX; i++) {
                const struct asked *a = &e->asked[i];
                struct cl_witness *w = &witnesses[count];

                if (!a->wanted)
                        continue;
                count++;
                *w = (struct cl_witness){.node = a->node, .answered = has_answered(e, a), .may_lead = !asked_is_silent(e, a)};
                if (!w->answered)
                        continue;
                w->slots = slots_of_state(&a->state, epoch);
                w->heard = a->state.heard;
                w->heard_ns = a->state.heard_ns;
                w->released = a->state.released;
                w->newest = a->state.newest.revision;
                w->may_lead = (a->state.note & REM_NOTE_ETCD) != 0;
                w->prepared = (a->state.note & REM_NOTE_PREPARED) != 0;
                *heard |= w->heard;
                *fresh |= w->newest < (uint64_t)e->leader_revision || (!w->released && w->heard_ns < HURRY_AFTER_NS);
        }
        return count;
}

static bool is_silent_node(const struct cl_elector *e, uint16_t node)
{
        unsigned i;

        for (i = 0; i < CL_NODES_MAX; i++)
                if (e->asked[i].wanted && e->asked[i].node == node)
                        return asked_is_silent(e, &e->asked[i]);
        return false;
}

static uint64_t silent_slots(const struct cl_elector *e, const struct eng_epoch_info *epoch)
{
        uint64_t slots = 0;
        unsigned i;

        for (i = 0; i < epoch->slots; i++)
                if (is_silent_node(e, epoch->slot[i].site.node))
                        slots |= 1ull << i;
        return slots;
}

/* Whether others may go first yet. */
static bool others_go_first(struct cl_elector *e, const struct cl_election *election, unsigned before, bool heard)
{
        if (e->could == 0)
                e->could = lp_now(e->loop);
        return lp_now(e->loop) - e->could < cl_election_wait(election, before, heard);
}

static void elector_judge(struct cl_elector *e)
{
        struct cl_witness witnesses[CL_NODES_MAX];
        struct cl_election election = {.node = e->options.node, .led = e->led, .owner = (uint64_t)e->leader_revision, .epoch = e->epoch, .epoch_len = e->epoch_len, .witnesses = witnesses,
                                       .unchanged = lp_now(e->loop) - e->since, .stagger = e->stagger};
        struct eng_epoch_info epoch;
        enum cl_election_verdict verdict;
        unsigned before;
        bool heard, fresh;

        if (eng_epoch_read(e->epoch, e->epoch_len, &epoch) != 0)
                return;
        election.count = take_witnesses(e, &epoch, witnesses, &heard, &fresh);
        verdict = cl_election_judge(&election);
        before = e->has_others ? cl_election_before(&election, e->options.pool) : 0;
        if (e->options.before != NULL)
                e->options.before(e->options.arg, before);
        if (verdict != CL_TRY)
                e->could = 0;
        else if (others_go_first(e, &election, before, heard))
                verdict = CL_TURN;
        if ((!e->judged || verdict != e->verdict) && verdict != CL_TRY)
                e->options.waits(e->options.arg, verdict == CL_HEARD ? "" : cl_election_text(verdict));
        e->judged = true;
        e->verdict = verdict;
        if ((verdict == CL_HEARD && !fresh) || verdict == CL_TURN)
                e->options.hurry(e->options.arg);
        if (verdict == CL_TRY)
                e->options.lead(e->options.arg, e->leader_revision, !heard, silent_slots(e, &epoch));
}

/* One that the round waited for has answered, or will not. */
static void round_goes_on(struct cl_elector *e)
{
        assert(e->left > 0);
        if (--e->left == 0 && e->stopped == NULL)
                elector_judge(e);
}

static void state_answered(struct rem_pool_state *state)
{
        struct asked *a = container_of(state, struct asked, state);
        struct cl_elector *e = a->elector;

        assert(a->out && e->out > 0);
        a->out = false;
        e->out--;
        if (state->said != REM_SAID_UNREACHABLE)
                a->since = 0;
        else if (a->since == 0)
                a->since = a->asked;
        if (a->waited)
                round_goes_on(e);
        if (e->stopped != NULL && e->out == 0)
                elector_stop_now(e);
}

/* NULL: there are too many. */
static struct asked *asked_of(struct cl_elector *e, uint16_t node)
{
        struct asked *unused = NULL;
        unsigned i;

        for (i = 0; i < CL_NODES_MAX; i++) {
                if (e->asked[i].node == node)
                        return &e->asked[i];
                if (unused == NULL && !e->asked[i].wanted && !e->asked[i].out)
                        unused = &e->asked[i];
        }
        if (unused != NULL)
                *unused = (struct asked){.elector = e, .node = node};
        return unused;
}

static void want_nodes(struct cl_elector *e, const struct eng_epoch_info *epoch)
{
        struct asked *a;
        unsigned i;

        for (i = 0; i < CL_NODES_MAX; i++)
                e->asked[i].wanted = false;
        for (i = 0; i < epoch->slots; i++) {
                a = (epoch->gone >> i & 1) != 0 ? NULL : asked_of(e, epoch->slot[i].site.node);
                if (a != NULL)
                        a->wanted = true;
        }
}

static void ask_state(struct cl_elector *e, struct asked *a)
{
        a->waited = a->since == 0;
        a->round = e->round;
        if (a->node == e->options.node) {
                rem_server_pool_state(e->options.server, e->options.pool, &a->state);
                return;
        }
        a->state = (struct rem_pool_state){.client = e->options.client, .pool = e->options.pool, .node = a->node, .wait_ms = STATE_WAIT_MS, .done = state_answered};
        a->asked = lp_now(e->loop);
        a->out = true;
        e->left += a->waited;
        e->out++;
        rem_pool_state_ask(&a->state);
}

void cl_elector_look(struct cl_elector *e, const struct cl_view *view)
{
        const struct cl_pool *pool = cl_view_pool(view, e->options.pool);
        unsigned i;

        if (e->loop == NULL)
                e->loop = lp_self();
        assert(lp_self() == e->loop);
        if (e->left > 0 || e->stopped != NULL || !pool->has_config)
                return;
        if (!e->has_seen || e->leader_revision != pool->leader_revision) {
                e->has_seen = true;
                e->could = 0;
                e->since = lp_now(e->loop);
                lp_random(&e->stagger, sizeof(e->stagger));
                e->stagger %= CL_STAGGER_NS;
        }
        e->led = pool->is_led;
        e->has_others = view->pool_count > 1;
        e->leader_revision = pool->leader_revision;
        memcpy(e->epoch, pool->config.epoch, pool->config.epoch_len);
        e->epoch_len = pool->config.epoch_len;
        want_nodes(e, &pool->epoch);
        e->round++;
        e->left = 1; /* nothing is judged before all were asked */
        for (i = 0; i < CL_NODES_MAX; i++) {
                struct asked *a = &e->asked[i];

                if (a->wanted && !a->out)
                        ask_state(e, a);
                else if (a->out)
                        a->waited = false; /* it was asked in an earlier round */
        }
        round_goes_on(e);
}

int cl_elector_new(const struct cl_elector_options *options, struct cl_elector **out)
{
        struct cl_elector *e = calloc(1, sizeof(*e));

        if (e == NULL)
                return -ENOMEM;
        e->options = *options;
        assert(options->pool >= 1);
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
