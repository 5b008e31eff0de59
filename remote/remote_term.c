/*
 * remote_term.c - what leaders and candidates ask drive servers (remote.h): OPEN of a drive, PING,
 * RELEASE, STATE and PREPARE of a pool on a node; and telling a client's owner that it is deposed.
 *
 * Each question is one call on the loop that asks. OPEN goes by the log connection, as what it must
 * not be overtaken by; the others by control, so that they wait for no drive.
 */
#include "remote/remote_drive.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static uint64_t client_now(const struct rem_client *client)
{
        return client->options.now != NULL ? client->options.now(client->options.now_arg) : lp_boot_clock();
}

/* ---- deposed --------------------------------------------------------------------------------- */

void remote_deposed(struct rem_client *client, const struct eng_term *by)
{
        static const struct eng_term unknown;

        if (eng_term_is_none(&client->options.term) || atomic_exchange(&client->deposed, true))
                return;
        if (client->options.deposed != NULL)
                client->options.deposed(client->options.deposed_arg, by != NULL ? by : &unknown);
}

void remote_deposed_by(struct rem_client *client, const struct net_call *call)
{
        struct rem_refusal refusal;

        if (rem_refusal_read(call->answer, call->answer_len, &refusal) != 0)
                memset(&refusal, 0, sizeof(refusal));
        remote_deposed(client, &refusal.newest);
}

/* ---- one call -------------------------------------------------------------------------------- */

/* As a call that nobody was reached by: never inside the asking. */
static void question_unreachable(struct lp_msg *msg)
{
        struct rem_question *question = container_of(msg, struct rem_question, msg);

        question->call.outcome = NET_UNREACHABLE;
        question->call.done(&question->call);
}

static void term_call(struct rem_client *client, struct rem_question *question, uint16_t node, unsigned wait_ms)
{
        struct net_call *call = &question->call;

        call->peer = net_peer_find(client->net, node);
        if (call->peer == NULL) { /* its node is not known */
                question->msg.run = question_unreachable;
                lp_post(lp_self(), &question->msg);
                return;
        }
        call->deadline = lp_now(lp_self()) + (wait_ms != 0 ? wait_ms * 1000ull * 1000 : client->wait_ns);
        net_call(call);
}

static enum rem_said said_of(const struct net_call *call)
{
        if (call->outcome != NET_ANSWERED)
                return REM_SAID_UNREACHABLE;
        switch ((enum rem_status)(uint32_t)call->status) {
        case REM_DONE:
                return REM_SAID_DONE;
        case REM_GRANTED:
                return REM_SAID_GRANTED;
        case REM_DEPOSED:
                return REM_SAID_DEPOSED;
        case REM_NOT_OPEN:
                return REM_SAID_NOT_OPEN;
        case REM_UNKNOWN_DRIVE:
                return REM_SAID_ABSENT;
        case REM_OTHER_CLUSTER:
                return REM_SAID_OTHER;
        case REM_BUSY:
        case REM_NO_MEMORY:
                return REM_SAID_AGAIN;
        case REM_FAILED:
                return REM_SAID_FAILED;
        default:
                return REM_SAID_REFUSED;
        }
}

/* What comes with a refusal; one that makes no sense is said to be so. */
static enum rem_said refusal_of(struct rem_client *client, const struct net_call *call, enum rem_said said,
                                struct eng_term *newest, uint64_t *left_ns)
{
        struct rem_refusal refusal = {0};

        if (said != REM_SAID_UNREACHABLE && rem_refusal_read(call->answer, call->answer_len, &refusal) != 0) {
                remote_count(client, REM_COUNT_lies);
                said = REM_SAID_REFUSED;
        }
        *newest = refusal.newest;
        *left_ns = refusal.left_ns;
        if (said == REM_SAID_DEPOSED)
                remote_deposed(client, newest);
        return said;
}

/* ---- OPEN ------------------------------------------------------------------------------------ */

/* False: it makes no sense. facts: its memory until the answer was told. */
static bool open_facts(struct rem_open *open, struct rem_facts *facts)
{
        static const uint8_t any[FMT_ID];
        const struct net_call *call = &open->question.call;
        struct fmt_epoch epoch;
        struct rem_prefix prefix;
        struct rem_before before;

        if (!remote_prefix_read(call, &prefix) || call->answer_len < sizeof(prefix) + sizeof(before))
                return false;
        memcpy(&before, call->answer + sizeof(prefix), sizeof(before));
        if (!eng_term_is_sound(&before.term) ||
            rem_facts_read(call->answer + sizeof(prefix) + sizeof(before),
                           call->answer_len - sizeof(prefix) - sizeof(before), facts) != 0)
                return false;
        if (facts->identity.slot != open->slot ||
            (memcmp(open->drive_id, any, FMT_ID) != 0 && memcmp(open->drive_id, facts->identity.drive_id, FMT_ID) != 0))
                return false;
        memcpy(&epoch, facts->epoch, sizeof(epoch));
        open->incarnation = prefix.incarnation;
        open->features = facts->identity.features;
        open->log_lost = facts->log_lost;
        memcpy(open->store_id, facts->identity.store_id, FMT_ID);
        memcpy(open->found_id, facts->identity.drive_id, FMT_ID);
        open->epoch = epoch.number;
        memcpy(open->epoch_id, epoch.id, FMT_ID);
        open->epoch_body = facts->epoch;
        open->epoch_len = facts->epoch_len;
        open->before = before.term;
        memcpy(open->before_cluster, before.cluster, FMT_ID);
        return true;
}

static void open_called(struct net_call *call)
{
        struct rem_open *open = container_of(call, struct rem_open, question.call);
        struct rem_facts facts;

        open->said = said_of(call);
        if (open->said != REM_SAID_DONE) {
                open->said = refusal_of(open->client, call, open->said, &open->newest, &open->left_ns);
        } else if (!open_facts(open, &facts)) {
                remote_count(open->client, REM_COUNT_lies);
                open->said = REM_SAID_REFUSED;
        }
        open->done(open);
}

void rem_open_ask(struct rem_open *open)
{
        const struct rem_client *client = open->client;
        struct rem_place place = {.node = open->node, .slot = open->slot, .pool = open->pool};
        struct rem_head head = {.pool = open->pool, .slot = open->slot, .term = client->options.term};

        _Static_assert(sizeof(head) + FMT_ID <= sizeof(open->body) && NET_CLUSTER_LEN == FMT_ID, "room");
        assert(!eng_term_is_none(&head.term) && open->slot < REM_SLOTS_MAX);
        memcpy(head.drive_id, open->drive_id, FMT_ID);
        memcpy(open->body, &head, sizeof(head));
        memcpy(open->body + sizeof(head), client->options.cluster, FMT_ID);
        memset(&open->question.call, 0, sizeof(open->question.call));
        open->question.call.link = NET_LOG;
        open->question.call.lane = (uint16_t)(2 * rem_place_lane(&place) + 1);
        open->question.call.operation = REM_OPEN;
        open->question.call.body = open->body;
        open->question.call.body_len = sizeof(head) + FMT_ID;
        open->question.call.done = open_called;
        term_call(open->client, &open->question, open->node, open->wait_ms);
}

/* ---- PING, RELEASE, STATE, PREPARE -------------------------------------------------------------------- */

static void pool_call_fill(struct net_call *call, uint8_t *body, uint32_t pool, uint32_t operation,
                           const struct eng_term *term)
{
        struct rem_head head = {.pool = pool};

        if (term != NULL)
                head.term = *term;
        memcpy(body, &head, sizeof(head));
        memset(call, 0, sizeof(*call));
        call->link = NET_CONTROL;
        call->lane = (uint16_t)(2 * (pool % REM_LANES) + 1); /* WATCH has the others */
        call->operation = operation;
        call->body = body;
        call->body_len = sizeof(head);
}

static void ping_called(struct net_call *call)
{
        struct rem_ping *ping = container_of(call, struct rem_ping, question.call);
        struct rem_pool_head head;
        uint64_t left;

        ping->said = said_of(call);
        if (ping->said != REM_SAID_DONE) {
                ping->said = refusal_of(ping->client, call, ping->said, &ping->newest, &left);
        } else if (rem_pool_read(call->answer, call->answer_len, &head, ping->slots) != 0) {
                remote_count(ping->client, REM_COUNT_lies);
                ping->said = REM_SAID_REFUSED;
        } else {
                ping->count = head.count;
                ping->note = head.note;
                ping->newest = head.newest;
        }
        ping->done(ping);
}

static void ping_ask(struct rem_ping *ping, uint32_t operation)
{
        _Static_assert(sizeof(struct rem_head) <= sizeof(ping->body), "room");
        assert(!eng_term_is_none(&ping->client->options.term));
        pool_call_fill(&ping->question.call, ping->body, ping->pool, operation, &ping->client->options.term);
        ping->question.call.done = ping_called;
        ping->count = 0;
        ping->sent = client_now(ping->client);
        term_call(ping->client, &ping->question, ping->node, ping->wait_ms);
}

void rem_ping_ask(struct rem_ping *ping)
{
        ping_ask(ping, REM_PING);
}

void rem_release_ask(struct rem_ping *release)
{
        ping_ask(release, REM_RELEASE);
}

static void state_called(struct net_call *call)
{
        struct rem_pool_state *state = container_of(call, struct rem_pool_state, question.call);
        struct rem_pool_head head;

        state->said = said_of(call);
        if (state->said == REM_SAID_DONE && rem_pool_read(call->answer, call->answer_len, &head, state->slots) != 0) {
                remote_count(state->client, REM_COUNT_lies);
                state->said = REM_SAID_REFUSED;
        } else if (state->said == REM_SAID_DONE) {
                rem_pool_state_take(state, &head);
        }
        state->done(state);
}

void rem_pool_state_ask(struct rem_pool_state *state)
{
        _Static_assert(sizeof(struct rem_head) <= sizeof(state->body), "room");
        pool_call_fill(&state->question.call, state->body, state->pool, REM_STATE, NULL);
        state->question.call.done = state_called;
        state->count = 0;
        term_call(state->client, &state->question, state->node, state->wait_ms);
}

static void prepare_called(struct net_call *call)
{
        struct rem_prepare *prepare = container_of(call, struct rem_prepare, question.call);

        prepare->said = said_of(call);
        prepare->done(prepare);
}

void rem_prepare_ask(struct rem_prepare *prepare)
{
        _Static_assert(sizeof(struct rem_head) <= sizeof(prepare->body), "room");
        pool_call_fill(&prepare->question.call, prepare->body, prepare->pool, REM_PREPARE, NULL);
        prepare->question.call.done = prepare_called;
        term_call(prepare->client, &prepare->question, prepare->node, prepare->wait_ms);
}
