/*
 * leader.c - leading a pool: pings and the lease that they give, epochs by compare-and-set, and the end.
 *
 * Everything on one loop. The lease's end is one number that all loops of the store read.
 */
#include "cluster_leader.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS    (200ull * 1000 * 1000)
#define FULL_NS     (1000ull * 1000 * 1000) /* etcd's database is full: doubled each time, up to ... */
#define FULL_MOST_NS (30 * FULL_NS)
#define RELEASE_NS  (1000ull * 1000 * 1000)
#define SILENT_PINGS 4u /* and so much of the lease's time is gone, in which it could have answered so many */
#define MISSED_PINGS 2u
#define LEADER_PATH 48u

#define OPEN_SOON_NS  (10ull * 1000 * 1000) /* doubled each time, up to ... */
#define OPEN_AGAIN_NS (250ull * 1000 * 1000)
#define OPEN_LATE_NS  (1000ull * 1000) /* behind the end of a grant */

/* A slot, which takes nothing of this leader before it was OPENed; and again when its node process begins anew. */
struct opened {
        struct rem_open open;
        struct cl_leader *leader;
        struct lp_timer again;
        unsigned failures; /* in a row: it was not answered, or the drive is not there yet */
        bool out, waits, done;
};

/* A node that has slots. */
struct pinged {
        struct rem_ping ping;
        struct cl_leader *leader;
        uint16_t node;
        bool out, heard; /* heard: it has answered some ping, whatever it said */
        bool again;      /* another one when this one is answered: a slot was OPENed meanwhile */
        bool absent;     /* the node was silent before this process began */
        uint64_t answered; /* when the newest answered ping was sent, or since when it is pinged */
        unsigned missed;   /* pings since that were not */
        /* the newest ping that granted, and what its answer showed; 0: none has */
        uint64_t shown_at;
        unsigned shown_count;
        struct rem_slot shown[REM_SLOTS_MAX];
};

struct cl_leader {
        struct cl_leader_options options;
        struct eng_cluster cluster;
        struct lp_loop *loop;    /* the coordinator's; NULL until something is asked there */
        struct eng_store *store; /* NULL until it starts */
        char name[CL_NAME_MAX], leader_key[CL_KEY_NAME_MAX], config_key[CL_KEY_NAME_MAX];
        struct eng_term term;
        char paths[REM_SLOTS_MAX][LEADER_PATH];
        const char *path[REM_SLOTS_MAX];
        struct cl_config config; /* that etcd has */
        int64_t config_revision;
        struct eng_epoch_info epoch, next; /* its epoch; and the one that is proposed */
        struct lp_timer timer;
        atomic_bool over;
        bool releasing;
        const char *why; /* it gives its grants back */
        uint64_t began, answered; /* answered: when etcd last did */
        uint64_t noted;           /* when a node said last that it reaches etcd; 0: none did */
        struct eng_health health; /* as it was last read */
        struct opened slot[REM_SLOTS_MAX];
        /* pings */
        struct pinged node[CL_LEADER_NODES];
        unsigned nodes;
        struct rem_lease lease;
        _Atomic uint64_t lease_end;
        uint64_t last_end; /* of the newest lease; 0: there was none */
        unsigned releases;
        struct lp_timer release_timer;
        void (*released)(void *arg);
        void *released_arg;
        void (*stopped)(void *arg);
        void *stopped_arg;
        bool stop_posted;
        struct lp_msg stop_msg;
        /* the leader key, looked at */
        struct cl_request look;
        struct cl_compare look_compare;
        bool looking;
        /* a proposal */
        bool proposing, deciding;
        uint64_t proposed;
        uint64_t full; /* etcd's database was, the last time: until it is asked again; 0: it was not */
        char full_text[CL_TEXT_MAX];
        struct cl_config proposal;
        struct cl_cas cas;
        struct cl_compare own;
        char value[CL_JSON_MAX];
        struct lp_timer again;
        void (*decided)(void *p);
        void *decided_arg;
};

static uint64_t leader_now(const struct cl_leader *l)
{
        return l->options.clock_ns != NULL ? l->options.clock_ns() : lp_boot_clock();
}

static struct cl_bytes leader_bytes(const char *text)
{
        return (struct cl_bytes){text, strlen(text)};
}

/* Nothing is answered from here on. In the product the callback does not return. */
static void leader_over(struct cl_leader *l, const char *why)
{
        if (atomic_exchange(&l->over, true))
                return;
        atomic_store(&l->lease_end, 0);
        l->options.ended(l->options.arg, why);
}

static void leader_stopped(struct lp_msg *msg)
{
        struct cl_leader *l = container_of(msg, struct cl_leader, stop_msg);

        l->stopped(l->stopped_arg);
}

/* Something that was asked was answered. */
static void leader_answered(struct cl_leader *l)
{
        bool out = l->looking || l->deciding;
        unsigned i;

        for (i = 0; i < l->nodes; i++)
                out |= l->node[i].out;
        for (i = 0; i < REM_SLOTS_MAX; i++)
                out |= l->slot[i].out;
        if (out || l->stopped == NULL || l->stop_posted)
                return;
        l->stop_posted = true;
        l->stop_msg.run = leader_stopped;
        lp_post(l->loop, &l->stop_msg); /* whoever is under way here is done with the leader first */
}

/* ---- the lease ------------------------------------------------------------------------------- */

/* Slots that a lease needs: while an epoch is undecided, those of both. */
static uint64_t needed(const struct cl_leader *l)
{
        return l->epoch.in | l->epoch.joining | (l->proposing ? l->next.in | l->next.joining : 0);
}

static uint16_t site_node(const struct cl_leader *l, unsigned slot)
{
        return slot < l->epoch.slots ? l->epoch.slot[slot].site.node : l->next.slot[slot].site.node;
}

/*
 * Whom a lease needs now, and when it ends. A member whose drive the store does not use has no
 * incarnation, and no ping shows that: no lease. One that is needed from now on counts by the newest
 * ping, if that has shown its slot OPENed, and of this incarnation: what was granted then bound that
 * slot, too.
 */
static void lease_look(struct cl_leader *l)
{
        struct rem_lease_member members[REM_SLOTS_MAX];
        uint64_t need = needed(l), end;
        unsigned slot, count = 0, i;

        for (slot = 0; slot < REM_SLOTS_MAX; slot++)
                if (need >> slot & 1)
                        members[count++] = (struct rem_lease_member){.incarnation = rem_client_incarnation(l->options.client, site_node(l, slot), l->options.pool, slot),
                                                                     .node = site_node(l, slot),
                                                                     .slot = (uint16_t)slot};
        rem_lease_need(&l->lease, members, count);
        for (i = 0; i < l->nodes; i++)
                if (l->node[i].shown_at != 0)
                        rem_lease_renew(&l->lease, l->node[i].node, l->node[i].shown_at, l->node[i].shown, l->node[i].shown_count);
        end = rem_lease_end(&l->lease);
        if (end != 0)
                l->last_end = end;
        atomic_store(&l->lease_end, l->over || l->releasing ? 0 : end);
}

/* ---- OPEN ------------------------------------------------------------------------------------ */

static void open_slot(struct cl_leader *l, unsigned slot);
static void ping_soon(struct cl_leader *l, uint16_t node);

static void open_slot_again(struct lp_timer *timer)
{
        struct opened *o = container_of(timer, struct opened, again);

        o->waits = false;
        open_slot(o->leader, (unsigned)(o - o->leader->slot));
}

static void open_slot_later(struct opened *o, uint64_t delay)
{
        o->waits = true;
        o->again.expired = open_slot_again;
        lp_timer_start(o->leader->loop, &o->again, delay);
}

static void slot_opened(struct rem_open *open)
{
        struct opened *o = container_of(open, struct opened, open);
        struct cl_leader *l = o->leader;
        uint64_t left;

        o->out = false;
        leader_answered(l);
        if (l->over || l->releasing)
                return;
        if (memcmp(open->drive_id, l->epoch.slot[open->slot].drive_id, sizeof(open->drive_id)) != 0) {
                open_slot(l, open->slot); /* the slot has another drive by now */
                return;
        }
        switch (open->said) {
        case REM_SAID_DONE:
                o->done = true;
                o->failures = 0;
                ping_soon(l, open->node); /* which grants from now on */
                break;
        case REM_SAID_DEPOSED:
                leader_over(l, "another process leads the pool: a drive was OPENed by it");
                break;
        case REM_SAID_OTHER:
                leader_over(l, "a drive was OPENed by a leader that etcd knows nothing of: etcd was restored (millrace admin cluster reseed)");
                break;
        case REM_SAID_GRANTED:
                left = open->left_ns < 2 * l->lease.term_ns ? open->left_ns : 2 * l->lease.term_ns;
                open_slot_later(o, left / 10 * 9 + OPEN_LATE_NS); /* by this clock, which may be slower than that */
                break;
        default:
                open_slot_later(o, o->failures < 5 ? OPEN_SOON_NS << o->failures : OPEN_AGAIN_NS);
                o->failures++;
                break;
        }
}

static void open_slot(struct cl_leader *l, unsigned slot)
{
        struct opened *o = &l->slot[slot];

        if (o->out || o->waits || o->done || l->over || l->releasing)
                return;
        o->leader = l;
        o->open = (struct rem_open){.client = l->options.client, .pool = l->options.pool, .node = site_node(l, slot), .slot = (uint16_t)slot, .done = slot_opened};
        memcpy(o->open.drive_id, l->epoch.slot[slot].drive_id, sizeof(o->open.drive_id));
        o->out = true;
        rem_open_ask(&o->open);
}

/* Slots of the pool that are not gone: members or not, they are to be ready when the store takes them in. */
static uint64_t all_slots(const struct cl_leader *l)
{
        return (l->epoch.slots == 64 ? ~0ull : (1ull << l->epoch.slots) - 1) & ~l->epoch.gone;
}

static void open_slots(struct cl_leader *l)
{
        uint64_t all = all_slots(l);
        unsigned slot;

        for (slot = 0; slot < REM_SLOTS_MAX; slot++)
                if (all >> slot & 1)
                        open_slot(l, slot);
}

/* ---- pings ----------------------------------------------------------------------------------- */

/* What a node serves: a slot that it opened anew since is to be OPENed again. */
static void take_pinged_slots(struct cl_leader *l, const struct pinged *p)
{
        uint64_t opened = 0, all = all_slots(l);
        unsigned slot, i;

        for (i = 0; p->ping.said == REM_SAID_DONE && i < p->ping.count; i++)
                if (p->ping.slots[i].flags & REM_SLOT_OPENED)
                        opened |= 1ull << p->ping.slots[i].slot;
        for (slot = 0; slot < REM_SLOTS_MAX; slot++)
                if ((all & ~opened) >> slot & 1 && site_node(l, slot) == p->node) {
                        l->slot[slot].done = false;
                        open_slot(l, slot);
                }
}

static void release_node(struct cl_leader *l, struct pinged *p);

static void pinged_answer(struct rem_ping *ping)
{
        struct pinged *p = container_of(ping, struct pinged, ping);
        struct cl_leader *l = p->leader;

        p->out = false;
        if (l->releasing && !l->over) {
                release_node(l, p);
                return;
        }
        leader_answered(l);
        if (l->over)
                return;
        switch (ping->said) {
        case REM_SAID_DONE:
                p->answered = ping->sent;
                p->missed = 0;
                if (ping->note & REM_NOTE_ETCD)
                        l->noted = leader_now(l);
                p->shown_at = ping->sent;
                p->shown_count = ping->count;
                memcpy(p->shown, ping->slots, ping->count * sizeof(p->shown[0]));
                lease_look(l);
                take_pinged_slots(l, p);
                break;
        case REM_SAID_NOT_OPEN:
        case REM_SAID_ABSENT:
                take_pinged_slots(l, p);
                break;
        case REM_SAID_DEPOSED:
                leader_over(l, "another process leads the pool: a drive server says so");
                break;
        default: /* it renews nothing */
                break;
        }
        p->missed += ping->said != REM_SAID_DONE;
        p->heard |= ping->said != REM_SAID_UNREACHABLE;
        if (p->again && !l->over)
                ping_soon(l, p->node);
}

/* One that is lost is over when the next one is due. */
static unsigned ping_ms(const struct cl_leader *l)
{
        return (unsigned)(l->lease.term_ns / CL_PINGS / 1000000 * 9 / 10);
}

static struct pinged *pinged_of(struct cl_leader *l, uint16_t node)
{
        unsigned i;

        for (i = 0; i < l->nodes; i++)
                if (l->node[i].node == node)
                        return &l->node[i];
        assert(l->nodes < CL_LEADER_NODES); /* at most one for each slot */
        l->node[l->nodes] = (struct pinged){.leader = l, .node = node, .answered = leader_now(l)};
        for (i = 0; i < l->epoch.slots; i++)
                l->node[l->nodes].absent |= (l->options.silent >> i & 1) != 0 && l->epoch.slot[i].site.node == node;
        return &l->node[l->nodes++];
}

/* The node's slots are of no use to the store now. */
static void tell_silent(struct cl_leader *l, uint16_t node)
{
        uint64_t need = needed(l);
        unsigned slot;

        for (slot = 0; slot < REM_SLOTS_MAX; slot++)
                if ((need >> slot & 1) && site_node(l, slot) == node)
                        eng_slot_silent(l->store, slot, "its node does not answer pings");
}

/*
 * While the store starts, the drives of a node that has said anything are on their way. One that has not is waited for only
 * where the whole pool was stopped; and not for long, if it was silent before.
 */
static bool is_absent(const struct cl_leader *l, const struct pinged *p, uint64_t since)
{
        if (l->options.whole_stop || p->heard)
                return false;
        return p->absent ? p->missed > 0 : p->missed >= MISSED_PINGS && since >= CL_ABSENT_NS;
}

/* missed: if it is this process that stood still, the node is not silent. */
static bool is_silent(const struct cl_leader *l, const struct pinged *p)
{
        uint64_t since = leader_now(l) - p->answered;

        if (l->store == NULL)
                return false;
        if (!l->health.ready)
                return is_absent(l, p, since);
        return p->missed >= MISSED_PINGS && since >= l->lease.term_ns / CL_PINGS * SILENT_PINGS;
}

static void ping_now(struct cl_leader *l, struct pinged *p)
{
        p->ping = (struct rem_ping){.client = l->options.client, .pool = l->options.pool, .node = p->node, .wait_ms = ping_ms(l), .done = pinged_answer};
        p->out = true;
        p->again = false;
        rem_ping_ask(&p->ping);
}

/* What one that is under way grants may be of before. */
static void ping_soon(struct cl_leader *l, uint16_t node)
{
        struct pinged *p = pinged_of(l, node);

        if (p->out)
                p->again = true;
        else
                ping_now(l, p);
}

static void ping_node(struct cl_leader *l, struct pinged *p)
{
        if (is_silent(l, p))
                tell_silent(l, p->node);
        if (!p->out)
                ping_now(l, p);
}

static void ping_all(struct cl_leader *l)
{
        uint64_t need = needed(l), all = all_slots(l) | need, members = 0;
        unsigned slot, i;

        for (slot = 0; slot < REM_SLOTS_MAX; slot++)
                if (all >> slot & 1) {
                        struct pinged *p = pinged_of(l, site_node(l, slot));

                        members |= need >> slot & 1 ? 1ull << (p - l->node) : 0;
                }
        for (i = 0; i < l->nodes; i++) {
                if ((members >> i & 1) == 0) { /* it has no member: it may be silent */
                        l->node[i].answered = leader_now(l);
                        l->node[i].missed = 0;
                }
                ping_node(l, &l->node[i]);
        }
}

/* ---- the leader key -------------------------------------------------------------------------- */

static void looked(struct cl_request *request)
{
        struct cl_leader *l = container_of(request, struct cl_leader, look);

        l->looking = false;
        leader_answered(l);
        if (l->over)
                return;
        if (request->outcome != CL_DONE) {
                if (request->error == -EREMCHG)
                        leader_over(l, request->text);
                return;
        }
        l->answered = leader_now(l);
        if (!request->answer->succeeded)
                leader_over(l, "another process has taken the pool's leader key");
}

static void look_at_key(struct cl_leader *l)
{
        if (l->looking)
                return;
        l->looking = true;
        l->look_compare = (struct cl_compare){.kind = CL_COMPARE_MOD, .key = leader_bytes(l->leader_key), .number = (int64_t)l->term.revision};
        memset(&l->look, 0, sizeof(l->look));
        l->look.kind = CL_TXN;
        l->look.compares = &l->look_compare;
        l->look.compare_count = 1;
        l->look.done = looked;
        cl_etcd_submit(l->options.etcd, &l->look);
}

static bool leader_etcd_answers(void *arg)
{
        const struct cl_leader *l = arg;

        return l->full == 0 && leader_now(l) - l->answered <= CL_ANSWERS_NS;
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static void propose_now(struct cl_leader *l);

static void propose_again(struct lp_timer *timer)
{
        struct cl_leader *l = container_of(timer, struct cl_leader, again);

        if (!l->over)
                propose_now(l);
}

static void propose_later(struct cl_leader *l, uint64_t ns)
{
        l->again.expired = propose_again;
        lp_timer_start(l->loop, &l->again, ns);
}

/* Nobody can do better: it waits for room, and says so. An epoch without which nothing goes on: leader_judge(). */
static void propose_when_room(struct cl_leader *l, const char *text)
{
        if (l->full == 0 && l->options.says != NULL)
                l->options.says(l->options.arg, text);
        snprintf(l->full_text, sizeof(l->full_text), "%s", text);
        l->full = l->full == 0 ? FULL_NS : 2 * l->full < FULL_MOST_NS ? 2 * l->full : FULL_MOST_NS;
        propose_later(l, l->full);
}

/* Slots whose drive is another one: it is yet to be OPENed. */
static void open_exchanged(struct cl_leader *l, const struct eng_epoch_info *before)
{
        unsigned slot;

        for (slot = 0; slot < before->slots && slot < l->epoch.slots; slot++)
                if (memcmp(before->slot[slot].drive_id, l->epoch.slot[slot].drive_id, sizeof(before->slot[slot].drive_id)) != 0)
                        l->slot[slot].done = false;
}

static void is_decided(struct cl_leader *l, int64_t revision)
{
        const struct eng_epoch_info before = l->epoch;

        l->config = l->proposal;
        l->config_revision = revision;
        l->epoch = l->next;
        open_exchanged(l, &before);
        l->proposing = false;
        l->full = 0;
        l->answered = leader_now(l);
        lease_look(l);
        l->decided(l->decided_arg);
}

static void cas_came(struct cl_cas *cas)
{
        struct cl_leader *l = container_of(cas, struct cl_leader, cas);
        char text[sizeof(cas->text) + 64];

        l->deciding = false;
        leader_answered(l);
        if (l->over)
                return;
        switch (cas->outcome) {
        case CL_CAS_WON:
                is_decided(l, cas->revision);
                return;
        case CL_CAS_LOST:
        case CL_CAS_OVERTAKEN:
                leader_over(l, "an epoch was refused: another process leads the pool (R4)");
                return;
        case CL_CAS_FAILED:
        case CL_CAS_UNKNOWN: /* the same value over the same revision counts once, however often it is sent */
                break;
        }
        if (cas->error == -EREMCHG) {
                snprintf(text, sizeof(text), "etcd is not the one that it was: %s", cas->text);
                leader_over(l, text);
                return;
        }
        if (cas->error == -ENOSPC)
                propose_when_room(l, cas->text);
        else
                propose_later(l, AGAIN_NS);
}

static void propose_now(struct cl_leader *l)
{
        size_t len = cl_config_write(&l->proposal, l->value);

        if (len == 0) { /* no memory now */
                propose_later(l, AGAIN_NS);
                return;
        }
        l->own = (struct cl_compare){.kind = CL_COMPARE_MOD, .key = leader_bytes(l->leader_key), .number = (int64_t)l->term.revision};
        memset(&l->cas, 0, sizeof(l->cas));
        l->cas.etcd = l->options.etcd;
        l->cas.key = leader_bytes(l->config_key);
        l->cas.value = (struct cl_bytes){l->value, len};
        l->cas.mod_revision = l->config_revision;
        l->cas.others = &l->own; /* R4 */
        l->cas.other_count = 1;
        l->cas.deadline = lp_now(l->loop) + CL_UNDECIDED_NS;
        l->cas.done = cas_came;
        l->deciding = true;
        cl_cas(&l->cas);
}

static void leader_propose(void *arg, const void *body, size_t len, void (*decided)(void *p), void *p)
{
        struct cl_leader *l = arg;

        if (l->over)
                return;
        if (l->loop == NULL)
                l->loop = lp_self();
        assert(!l->proposing && len <= CL_EPOCH_MAX && lp_self() == l->loop);
        memcpy(l->proposal.store_id, l->config.store_id, CL_ID);
        memcpy(l->proposal.epoch, body, len);
        l->proposal.epoch_len = len;
        if (eng_epoch_read(body, len, &l->next) != 0)
                abort(); /* the store makes none that is not one */
        l->proposal.number = l->next.number;
        l->proposing = true;
        l->decided = decided;
        l->decided_arg = p;
        l->proposed = leader_now(l);
        lease_look(l);
        ping_all(l); /* members of the next epoch that were none: there is a lease again when they have answered */
        propose_now(l);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void leader_ended(void *arg, const char *why)
{
        leader_over(arg, why); /* a loop of the store: options.ended() is any thread's */
}

static void release_first(void *arg)
{
        struct cl_leader *l = arg;

        leader_over(l, l->why);
}

/* Another node may do better: it need not wait for grants. */
static void give_back(struct cl_leader *l, const char *why)
{
        l->why = why;
        cl_leader_release(l, release_first, l);
}

/* Changes are paused until the epoch that is proposed is decided, or reads have no lease. */
static bool waits_for_epoch(const struct cl_leader *l)
{
        return ((l->epoch.in | l->epoch.joining) & ~(l->next.in | l->next.joining)) != 0 || leader_now(l) >= l->last_end;
}

static void leader_judge(struct cl_leader *l)
{
        const uint64_t now = leader_now(l), term = l->lease.term_ns;

        eng_health_read(l->store, &l->health);
        if (l->proposing) { /* without an answer the lease may end, and be had again */
                if (now - l->proposed >= 2 * term && l->noted != 0 && now - l->noted < term)
                        give_back(l, "etcd does not answer this node, and others say that it does");
                else if (now - l->proposed >= 2 * term && l->full != 0 && waits_for_epoch(l))
                        give_back(l, l->full_text);
        } else if (l->health.waits && now - l->began >= CL_START_NS) {
                give_back(l, "drives that the pool needs do not answer this node");
        } else if (!l->health.ready && now - l->began >= CL_START_MOST_NS) {
                give_back(l, "the pool could not be opened in time");
        } else if (l->last_end == 0 && now - l->began >= CL_START_MOST_NS) {
                give_back(l, "members of the pool do not grant this node a lease");
        } else if (l->last_end != 0 && now >= l->last_end + term) {
                leader_over(l, "members of the pool have not answered for too long");
        }
}

static void leader_tick(struct lp_timer *timer)
{
        struct cl_leader *l = container_of(timer, struct cl_leader, timer);

        if (l->over || l->releasing)
                return;
        lease_look(l);
        open_slots(l);
        ping_all(l);
        look_at_key(l);
        leader_judge(l);
        if (!l->over && !l->releasing)
                lp_timer_start(l->loop, timer, l->lease.term_ns / CL_PINGS);
}

static void all_released(struct cl_leader *l)
{
        void (*done)(void *arg) = l->released;

        l->released = NULL;
        lp_timer_stop(l->loop, &l->release_timer);
        if (done != NULL)
                done(l->released_arg);
}

static void release_answer(struct rem_ping *ping)
{
        struct pinged *p = container_of(ping, struct pinged, ping);
        struct cl_leader *l = p->leader;

        p->out = false;
        if (--l->releases == 0)
                all_released(l);
        leader_answered(l);
}

static void release_node(struct cl_leader *l, struct pinged *p)
{
        p->ping = (struct rem_ping){.client = l->options.client, .pool = l->options.pool, .node = p->node, .wait_ms = ping_ms(l), .done = release_answer};
        p->out = true;
        rem_release_ask(&p->ping);
}

static void release_late(struct lp_timer *timer)
{
        all_released(container_of(timer, struct cl_leader, release_timer));
}

void cl_leader_release(struct cl_leader *l, void (*done)(void *arg), void *arg)
{
        unsigned i;

        assert(lp_self() == l->loop);
        if (l->releasing) { /* it gives its grants back already: whoever asked last is told */
                if (l->released == NULL)
                        done(arg);
                l->released = l->released != NULL ? done : NULL;
                l->released_arg = arg;
                return;
        }
        l->releasing = true;
        atomic_store(&l->lease_end, 0); /* all loops compare it with the clock: there is nobody else to tell */
        l->released = done;
        l->released_arg = arg;
        l->releases = 1;
        l->release_timer.expired = release_late;
        lp_timer_start(l->loop, &l->release_timer, RELEASE_NS);
        for (i = 0; i < l->nodes; i++) {
                l->releases++;
                if (!l->node[i].out) /* else when its ping is answered, which may grant yet */
                        release_node(l, &l->node[i]);
        }
        if (--l->releases == 0)
                all_released(l);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void leader_path(void *arg, unsigned slot, uint16_t node, char out[ENG_PATH_MAX])
{
        const struct cl_leader *l = arg;

        snprintf(out, ENG_PATH_MAX, "remote:%u/%u/%u", (unsigned)node, l->options.pool, slot);
}

int cl_leader_new(const struct cl_leader_options *options, struct cl_leader **out)
{
        struct cl_leader *l = calloc(1, sizeof(*l));
        unsigned slot;

        if (l == NULL)
                return -ENOMEM;
        l->options = *options;
        snprintf(l->name, sizeof(l->name), "%s", options->cluster);
        l->options.cluster = l->name;
        l->options.claim = NULL;
        l->term = options->claim->term;
        l->config = options->claim->config;
        l->config_revision = options->claim->config_revision;
        cl_key_name(l->name, CL_KEY_LEADER, options->pool, l->leader_key);
        cl_key_name(l->name, CL_KEY_CONFIG, options->pool, l->config_key);
        if (eng_epoch_read(l->config.epoch, l->config.epoch_len, &l->epoch) != 0) { /* a claim has what was read so */
                free(l);
                return -EBADMSG;
        }
        for (slot = 0; slot < REM_SLOTS_MAX; slot++) {
                if (slot < l->epoch.slots)
                        snprintf(l->paths[slot], LEADER_PATH, "remote:%u/%u/%u", (unsigned)l->epoch.slot[slot].site.node, options->pool, slot);
                l->path[slot] = l->paths[slot];
        }
        rem_lease_init(&l->lease, options->term_ms);
        memcpy(l->cluster.store_id, l->config.store_id, CL_ID);
        l->cluster.epoch = l->config.epoch;
        l->cluster.epoch_len = l->config.epoch_len;
        l->cluster.paths = l->path;
        l->cluster.may_lose = options->may_lose;
        l->cluster.propose = leader_propose;
        l->cluster.answers = leader_etcd_answers;
        l->cluster.path = leader_path;
        l->cluster.ended = leader_ended;
        l->cluster.arg = l;
        l->cluster.clock_ns = options->clock_ns;
        l->cluster.lease_end = &l->lease_end;
        *out = l;
        return 0;
}

const struct eng_cluster *cl_leader_cluster(const struct cl_leader *l)
{
        return &l->cluster;
}

void cl_leader_start(struct cl_leader *l, struct eng_store *store)
{
        assert((l->loop == NULL || lp_self() == l->loop) && l->store == NULL);
        l->loop = lp_self();
        l->store = store;
        l->began = l->answered = leader_now(l);
        l->timer.expired = leader_tick;
        leader_tick(&l->timer);
}

void cl_leader_stop(struct cl_leader *l, void (*stopped)(void *arg), void *arg)
{
        unsigned i;

        assert(lp_self() == l->loop && l->stopped == NULL);
        atomic_store(&l->over, true);
        atomic_store(&l->lease_end, 0);
        lp_timer_stop(l->loop, &l->timer);
        lp_timer_stop(l->loop, &l->again);
        lp_timer_stop(l->loop, &l->release_timer);
        for (i = 0; i < REM_SLOTS_MAX; i++)
                lp_timer_stop(l->loop, &l->slot[i].again);
        l->stopped = stopped;
        l->stopped_arg = arg;
        leader_answered(l);
}

void cl_leader_free(struct cl_leader *l)
{
        free(l);
}
