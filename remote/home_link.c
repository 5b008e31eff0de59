/*
 * home_link.c - the session of a home store with the leader of its pool: JOIN, then one WATCH behind the
 * other, on the coordinator's loop; calls on the loops that they are made on.
 *
 * A call is sent in a session, and never again if it changes something. One that was sent and has no
 * answer is of unknown outcome, which is said when nobody can admit it any more: behind the next JOIN, or
 * after half a minute. What was not sent waits for a session, or for others of its class to be answered
 * (the leader says how many bytes may be under way, and each loop has an equal part), for ten seconds.
 * A change that is older is not sent any more, also where there is a session at last: whoever asked for it
 * may have asked somebody else meanwhile, and have changed the same name again.
 */
#include <assert.h>
#include <bsd/sys/queue.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "remote/home_wire.h"

#define JOIN_WAIT_NS  (2000ull * 1000 * 1000)
#define WATCH_WAIT_NS (3000ull * 1000 * 1000)
#define AGAIN_NS      (100ull * 1000 * 1000) /* between two attempts, at most: the first comes sooner */
#define AGAIN_FIRST   (10ull * 1000 * 1000)
#define WAIT_MOST_NS  (10000ull * 1000 * 1000)
#define KNOW_MOST_NS  (30000ull * 1000 * 1000)
#define LOOK_NS       (250ull * 1000 * 1000)
#define ASK_TRIES     10u /* AGAIN_NS between two, while nothing was done */
#define ASK_WAIT_NS   (5000ull * 1000 * 1000) /* an operator waits */

/* A call on its way. owner: its loop */
struct home_sent {
        struct net_call call; /* first */
        TAILQ_ENTRY(home_sent) line;
        struct home_loop *hl;
        struct eng_leader_call *asked;
        enum home_class class;
        uint64_t cost;        /* home_call_cost() */
        uint64_t joins;       /* sessions that there had been when it was sent; UINT64_MAX: any will do */
        uint64_t since;       /* lp_now(): it waits, or was sent */
        uint64_t asked_at;    /* lp_now() */
        uint64_t asked_clock; /* link_clock(), which goes on while the machine sleeps */
        uint8_t body[];       /* home_call, and the call's own */
};
TAILQ_HEAD(home_line, home_sent);

/* owner: the loop */
struct home_loop {
        struct rem_home_link *link;
        struct lp_loop *loop;
        struct home_line waiting[HOME_CLASSES]; /* for credit, or for any session */
        struct home_line parked, unknown; /* parked: for another session than they were sent in */
        bool refused[HOME_CLASSES];  /* the leader had no room for one: the next is sent when the timer expires */
        uint64_t held[HOME_CLASSES]; /* cost of calls that were sent, and are not answered */
        struct lp_msg woken;
        atomic_bool waking;
        struct lp_timer timer;
        bool ticking;
};

/* Ends of pins on their way. */
struct home_unpinned {
        struct net_call call; /* first */
        struct rem_home_link *link;
        uint64_t joins; /* as of home_sent */
        uint8_t body[sizeof(struct home_call) + sizeof(uint64_t)];
};

/* A JOIN on its way. One that is not the link's own any more is answered for nothing. */
struct home_joining {
        struct net_call call; /* first */
        struct rem_home_link *link;
        struct home_join join;
};

enum link_state { LINK_IDLE, LINK_JOINING, LINK_JOINED };

struct rem_home_link {
        struct rem_home_link_options options;
        struct eng_leader_link engine;
        struct rem_home_switches switches; /* constant since the start */
        struct eng_store *home;
        struct lp_loop *coordinator;
        _Atomic uint64_t lease_end;
        _Atomic uint64_t credit[HOME_CLASSES]; /* as the leader said last */
        atomic_uint out;           /* calls of net/ that have not ended */
        atomic_bool stopped;
        _Atomic uint32_t party;    /* who leads, as was last told */
        atomic_bool telling;
        struct lp_msg told;
        struct home_loop *loops;
        pthread_mutex_t lock;
        struct net_peer *peer;     /* under lock, as the next: of the session that there is; NULL: none, or it was lost */
        uint64_t session, joins;   /* joins: sessions so far */
        /* coordinator */
        enum link_state state;
        uint16_t at;               /* party of the session, or of JOIN */
        struct eng_term term;      /* the highest that was seen */
        uint64_t version;          /* of that term: what the home has */
        uint64_t state_sum;
        uint64_t sent;             /* clock, of the WATCH under way */
        struct net_call call;      /* WATCH */
        struct home_joining *joining;
        unsigned failures;         /* in a row: there was no session, or it ended */
        uint8_t *watch;            /* home_watch, and of each loop its bound */
        uint64_t *counts;
        struct home_seen seen;
        uint8_t *rows;
        uint32_t rows_len;
        bool reading;              /* all rows: the version counts behind the last */
        struct lp_timer again;
};

static void link_look(struct rem_home_link *link);

static uint64_t link_clock(const struct rem_home_link *link)
{
        return link->options.now != NULL ? link->options.now() : lp_boot_clock();
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void sent_end(struct home_sent *s, enum eng_leader_outcome outcome)
{
        struct eng_leader_call *asked = s->asked;

        free(s);
        asked->outcome = outcome;
        asked->done(asked);
}

static void line_tick(struct lp_timer *timer);
static void line_go(struct home_loop *hl, enum home_class class);

static void home_line_add(struct home_line *line, struct home_sent *s)
{
        struct home_loop *hl = s->hl;

        TAILQ_INSERT_TAIL(line, s, line);
        if (!hl->ticking)
                lp_timer_start(hl->loop, &hl->timer, LOOK_NS);
        hl->ticking = true;
}

/*
 * The connection of a call of this session is lost, and with it, maybe, what the leader has to say of others: there is no such
 * session any more, though WATCH may go on over the next connection. The coordinator finds that when it asks WATCH again.
 */
static void link_lost(struct rem_home_link *link, const struct net_call *call, uint64_t joins)
{
        if (call->outcome == NET_ANSWERED || !(call->sent || call->status == -ENOTCONN))
                return;
        pthread_mutex_lock(&link->lock);
        if (link->joins == joins)
                link->peer = NULL;
        pthread_mutex_unlock(&link->lock);
}

/* A change that is not to be sent (again), though nothing of it was done. */
static bool sent_too_late(const struct home_sent *s)
{
        return !s->asked->reads && link_clock(s->hl->link) >= s->asked_clock + WAIT_MOST_NS;
}

/* Nothing was done, and it may be asked again in the same session. */
static void sent_not_now(struct home_sent *s)
{
        if (lp_now(s->hl->loop) >= s->asked_at + WAIT_MOST_NS) {
                sent_end(s, ENG_LEADER_NOT_SENT);
                return;
        }
        s->joins = UINT64_MAX;
        s->since = s->asked_at;
        home_line_add(&s->hl->waiting[s->class], s);
        s->hl->refused[s->class] = true;
}

static void sent_called(struct net_call *call)
{
        struct home_sent *s = (struct home_sent *)call;
        struct home_loop *hl = s->hl;
        struct rem_home_link *link = hl->link;
        struct eng_leader_call *asked = s->asked;
        enum home_class class = s->class;

        hl->held[class] -= s->cost;
        link_lost(link, call, s->joins);
        atomic_fetch_sub(&link->out, 1);
        if (call->outcome == NET_ANSWERED && call->status == HOME_DONE) {
                asked->answer = call->answer;
                asked->answer_len = call->answer_len;
                asked->answer_bulk = call->answer_bulk;
                sent_end(s, ENG_LEADER_ANSWERED); /* the answer is there until this returns */
        } else if (atomic_load(&link->stopped)) {
                sent_end(s, call->sent ? ENG_LEADER_UNKNOWN : ENG_LEADER_NOT_SENT);
        } else if (call->outcome == NET_ANSWERED && call->status == HOME_NOT_NOW) {
                sent_not_now(s);
        } else if (call->outcome == NET_ANSWERED && call->status != HOME_NO_SESSION) { /* it would be answered so again */
                sent_end(s, asked->reads || call->status == HOME_READ_ONLY ? ENG_LEADER_NOT_SENT : ENG_LEADER_UNKNOWN);
        } else if (asked->reads && lp_now(hl->loop) >= s->asked_at + KNOW_MOST_NS) {
                sent_end(s, ENG_LEADER_NOT_SENT);
        } else if (asked->reads || call->outcome == NET_UNREACHABLE || call->outcome == NET_ANSWERED) {
                home_line_add(&hl->parked, s); /* nothing was done, or nothing that matters */
        } else {
                home_line_add(&hl->unknown, s);
        }
        line_go(hl, class);
}

/* In the session that there is. False: there is none. */
static bool home_sent_go(struct home_sent *s)
{
        struct rem_home_link *link = s->hl->link;
        struct eng_leader_call *asked = s->asked;
        struct net_peer *peer;
        struct home_call head;
        unsigned i;

        pthread_mutex_lock(&link->lock);
        peer = link->peer;
        head.session = link->session;
        s->joins = link->joins;
        pthread_mutex_unlock(&link->lock);
        if (peer == NULL)
                return false;
        memset(&s->call, 0, sizeof(s->call));
        memcpy(s->body, &head, sizeof(head));
        s->call.peer = peer;
        s->call.link = NET_LOG;
        s->call.lane = (uint16_t)(asked->key_hash % NET_LANES);
        s->call.operation = HOME_CALL;
        s->call.body = s->body;
        s->call.body_len = (uint32_t)sizeof(head) + asked->body_len;
        s->call.bulk_count = asked->bulk_count;
        for (i = 0; i < asked->bulk_count; i++)
                s->call.bulk[i] = asked->bulk[i];
        if (asked->room_len > 0) {
                s->call.room[0] = (struct iovec){asked->room, asked->room_len};
                s->call.room_count = 1;
        }
        s->call.done = sent_called;
        s->since = lp_now(s->hl->loop);
        s->hl->held[s->class] += s->cost;
        atomic_fetch_add(&link->out, 1);
        net_call(&s->call);
        return true;
}

/* One call always may be under way. */
static bool sent_fits(const struct home_sent *s)
{
        const struct home_loop *hl = s->hl;

        return hl->held[s->class] == 0 ||
               (!hl->refused[s->class] && hl->held[s->class] + s->cost <= atomic_load(&hl->link->credit[s->class]) / hl->link->options.loop_count);
}

/* An answer has come, so that others may be sent, in their order. */
static void line_go(struct home_loop *hl, enum home_class class)
{
        struct home_sent *s;

        while ((s = TAILQ_FIRST(&hl->waiting[class])) != NULL && !hl->refused[class] && !sent_too_late(s) && sent_fits(s)) {
                TAILQ_REMOVE(&hl->waiting[class], s, line);
                if (home_sent_go(s))
                        continue;
                s->joins = UINT64_MAX;
                TAILQ_INSERT_HEAD(&hl->waiting[class], s, line);
                return; /* the timer runs */
        }
}

/* There is another session: these may be sent in it. */
static void parked_look(struct home_loop *hl, uint64_t joins)
{
        struct home_sent *s, *next;

        TAILQ_FOREACH_SAFE (s, &hl->parked, line, next)
                if (s->joins != joins || sent_too_late(s) || lp_now(hl->loop) >= s->since + WAIT_MOST_NS) {
                        TAILQ_REMOVE(&hl->parked, s, line);
                        s->joins = UINT64_MAX;
                        TAILQ_INSERT_TAIL(&hl->waiting[s->class], s, line);
                }
}

/* Of one class: there may be a session; for some it has been too long. */
static void line_look_at(struct home_loop *hl, enum home_class class)
{
        struct home_line waiting = TAILQ_HEAD_INITIALIZER(waiting);
        uint64_t now = lp_now(hl->loop);
        struct home_sent *s;
        bool goes = true;

        hl->refused[class] = false;
        TAILQ_CONCAT(&waiting, &hl->waiting[class], line);
        while ((s = TAILQ_FIRST(&waiting)) != NULL) {
                TAILQ_REMOVE(&waiting, s, line);
                if (sent_too_late(s)) {
                        sent_end(s, ENG_LEADER_NOT_SENT);
                        continue;
                }
                goes = goes && sent_fits(s);
                if (goes && home_sent_go(s))
                        continue;
                s->joins = UINT64_MAX;
                if (now >= s->since + WAIT_MOST_NS)
                        sent_end(s, ENG_LEADER_NOT_SENT);
                else
                        TAILQ_INSERT_TAIL(&hl->waiting[class], s, line);
        }
}

/* Goes through what waits. */
static void line_look(struct home_loop *hl)
{
        struct rem_home_link *link = hl->link;
        uint64_t now = lp_now(hl->loop), joins;
        struct home_line over = TAILQ_HEAD_INITIALIZER(over);
        struct home_sent *s, *next;
        unsigned i;

        pthread_mutex_lock(&link->lock);
        joins = link->joins;
        pthread_mutex_unlock(&link->lock);
        TAILQ_FOREACH_SAFE (s, &hl->unknown, line, next)
                if (s->joins != joins || now >= s->since + KNOW_MOST_NS) {
                        TAILQ_REMOVE(&hl->unknown, s, line);
                        TAILQ_INSERT_TAIL(&over, s, line);
                }
        while ((s = TAILQ_FIRST(&over)) != NULL) {
                TAILQ_REMOVE(&over, s, line);
                sent_end(s, ENG_LEADER_UNKNOWN);
        }
        parked_look(hl, joins);
        for (i = 0; i < HOME_CLASSES; i++)
                line_look_at(hl, (enum home_class)i);
}

static bool line_waits(const struct home_loop *hl)
{
        unsigned i;

        for (i = 0; i < HOME_CLASSES && TAILQ_EMPTY(&hl->waiting[i]); i++)
                ;
        return i < HOME_CLASSES;
}

static void line_tick(struct lp_timer *timer)
{
        struct home_loop *hl = container_of(timer, struct home_loop, timer);

        hl->ticking = false;
        line_look(hl);
        if (!hl->ticking && (line_waits(hl) || !TAILQ_EMPTY(&hl->parked) || !TAILQ_EMPTY(&hl->unknown))) {
                lp_timer_start(hl->loop, &hl->timer, LOOK_NS);
                hl->ticking = true;
        }
}

static void line_woken(struct lp_msg *msg)
{
        struct home_loop *hl = container_of(msg, struct home_loop, woken);

        atomic_store(&hl->waking, false);
        line_look(hl);
}

static uint64_t call_bulk_len(const struct eng_leader_call *asked)
{
        uint64_t len = 0;
        unsigned i;

        for (i = 0; i < asked->bulk_count; i++)
                len += asked->bulk[i].iov_len;
        return len;
}

static void link_call(void *arg, struct eng_leader_call *asked)
{
        struct rem_home_link *link = arg;
        struct home_sent *s = malloc(sizeof(*s) + sizeof(struct home_call) + asked->body_len);

        if (s == NULL)
                abort(); /* as eng_early(): not even a message */
        memset(s, 0, sizeof(*s));
        s->hl = &link->loops[lp_index(lp_self())];
        s->asked = asked;
        s->since = s->asked_at = lp_now(s->hl->loop);
        s->asked_clock = link_clock(link);
        s->joins = UINT64_MAX; /* it was sent in none */
        s->class = home_class_of(asked->body, asked->body_len);
        s->cost = home_call_cost(sizeof(struct home_call) + asked->body_len, call_bulk_len(asked), asked->room_len);
        memcpy(s->body + sizeof(struct home_call), asked->body, asked->body_len);
        if (!TAILQ_EMPTY(&s->hl->waiting[s->class]) || !sent_fits(s) || !home_sent_go(s)) {
                s->joins = UINT64_MAX;
                home_line_add(&s->hl->waiting[s->class], s);
        }
}

static void unpinned(struct net_call *call)
{
        struct home_unpinned *u = (struct home_unpinned *)call;

        link_lost(u->link, call, u->joins);
        atomic_fetch_sub(&u->link->out, 1);
        free(u); /* a pin ends with its session, too */
}

static void link_unpin(void *arg, uint64_t number)
{
        struct rem_home_link *link = arg;
        struct home_unpinned *u = calloc(1, sizeof(*u));
        struct home_call head;

        if (u == NULL)
                return; /* it ends with its session */
        pthread_mutex_lock(&link->lock);
        u->call.peer = link->peer;
        u->joins = link->joins;
        head.session = link->session;
        pthread_mutex_unlock(&link->lock);
        if (u->call.peer == NULL) {
                free(u);
                return;
        }
        u->link = link;
        memcpy(u->body, &head, sizeof(head));
        memcpy(u->body + sizeof(head), &number, sizeof(number));
        u->call.link = NET_LOG;
        u->call.lane = (uint16_t)(number % NET_LANES);
        u->call.operation = HOME_UNPIN;
        u->call.body = u->body;
        u->call.body_len = sizeof(u->body);
        u->call.done = unpinned;
        atomic_fetch_add(&link->out, 1);
        net_call(&u->call);
}

static bool link_awaits(void *arg)
{
        return atomic_load(&((struct rem_home_link *)arg)->out) > 0;
}

static bool link_path(void *arg, unsigned slot, uint16_t node, char out[ENG_PATH_MAX])
{
        const struct rem_home_link *link = arg;

        snprintf(out, ENG_PATH_MAX, "remote:%u/%u/%u", node, link->options.pool, slot);
        return true;
}

/* ---- the session ----------------------------------------------------------------------------- */

static void link_set(struct rem_home_link *link, struct net_peer *peer, uint64_t session)
{
        unsigned i;

        pthread_mutex_lock(&link->lock);
        link->peer = peer;
        link->session = session;
        link->joins += peer != NULL;
        pthread_mutex_unlock(&link->lock);
        for (i = 0; peer != NULL && i < link->options.loop_count; i++)
                if (!atomic_exchange(&link->loops[i].waking, true))
                        lp_post(link->loops[i].loop, &link->loops[i].woken);
}

static uint64_t link_rest_ns(struct rem_home_link *link)
{
        const uint64_t rest = AGAIN_FIRST << (link->failures < 4 ? link->failures : 4);

        link->failures++;
        return rest < AGAIN_NS ? rest : AGAIN_NS;
}

static void link_later(struct rem_home_link *link)
{
        link->state = LINK_IDLE;
        link_set(link, NULL, 0);
        lp_timer_stop(link->coordinator, &link->again);
        if (!atomic_load(&link->stopped))
                lp_timer_start(link->coordinator, &link->again, link_rest_ns(link));
}

static void link_send(struct rem_home_link *link, struct net_call *call, struct net_peer *peer, enum home_operation operation, const void *body, uint32_t len,
                      uint64_t wait_ns, void (*done)(struct net_call *call))
{
        memset(call, 0, sizeof(*call));
        call->peer = peer;
        call->link = NET_CONTROL;
        call->operation = operation;
        call->body = body;
        call->body_len = len;
        call->deadline = lp_now(link->coordinator) + wait_ns;
        call->done = done;
        if (operation == HOME_WATCH) {
                call->link = NET_LOG; /* its bulk is no control's */
                call->room[0] = (struct iovec){link->rows, ENG_HOME_ROWS_MAX};
                call->room_count = 1;
        }
        atomic_fetch_add(&link->out, 1);
        net_call(call);
}

static void watch_answered(struct net_call *call);

static void watch_bounded(void *arg)
{
        struct rem_home_link *link = arg;
        size_t len = link->options.loop_count * sizeof(uint64_t);
        struct home_watch watch = {.version = link->version, .state_sum = link->state_sum};
        struct net_peer *peer;

        if (link->switches.read != NULL)
                link->switches.read(link->switches.arg, &watch.switches, &watch.changing);

        pthread_mutex_lock(&link->lock);
        peer = link->peer;
        watch.session = link->session;
        pthread_mutex_unlock(&link->lock);
        if (peer == NULL || atomic_load(&link->stopped) || atomic_load(&link->party) != link->at) {
                link_later(link);
                return;
        }
        memcpy(link->watch, &watch, sizeof(watch));
        memcpy(link->watch + sizeof(watch), link->counts, len);
        link->sent = link_clock(link);
        link_send(link, &link->call, peer, HOME_WATCH, link->watch, (uint32_t)(sizeof(watch) + len), WATCH_WAIT_NS, watch_answered);
}

static void link_watch(struct rem_home_link *link)
{
        if (atomic_load(&link->stopped) || eng_home_bounds(link->home, link->counts, watch_bounded, link) != 0)
                link_later(link);
}

static void take_credit(struct rem_home_link *link, const struct home_credit *credit)
{
        unsigned i;

        for (i = 0; i < HOME_CLASSES; i++)
                atomic_store(&link->credit[i], credit->bytes[i]);
}

/* All loops go by what this WATCH brought. */
static void watch_taken(void *arg)
{
        struct rem_home_link *link = arg;

        link->state_sum = link->seen.state_sum;
        if (!link->reading)
                link->version = link->seen.version;
        if ((link->seen.flags & HOME_MORE) == 0)
                atomic_store(&link->lease_end, link->sent + HOME_LEASE_NS);
        link_watch(link);
}

static void take_seen_rows(void *arg)
{
        struct rem_home_link *link = arg;
        bool first = (link->seen.flags & HOME_FIRST) != 0, last = (link->seen.flags & HOME_LAST) != 0;

        if ((link->seen.flags & HOME_SAME) != 0) {
                link->reading = false;
                eng_home_rows_same(link->home, watch_taken, link);
                return;
        }
        if ((link->seen.flags & HOME_ROWS) == 0) {
                watch_taken(link);
                return;
        }
        link->reading = (link->reading || first) && !last;
        if (first)
                link->version = UINT64_MAX;
        if (eng_home_rows_read(link->home, link->rows, link->rows_len, first, last, watch_taken, link) != 0) {
                link->version = UINT64_MAX;
                link_later(link);
        }
}

static void watch_answered(struct net_call *call)
{
        struct rem_home_link *link = container_of(call, struct rem_home_link, call);
        const uint8_t *state = call->answer + sizeof(link->seen);

        atomic_fetch_sub(&link->out, 1);
        if (atomic_load(&link->stopped))
                return;
        if (call->outcome != NET_ANSWERED || call->status != HOME_DONE || call->answer_len < sizeof(link->seen)) {
                link_later(link);
                return;
        }
        memcpy(&link->seen, call->answer, sizeof(link->seen));
        link->rows_len = call->answer_bulk;
        take_credit(link, &link->seen.credit);
        eng_home_clock_take(link->home, link->seen.lock_now_ms);
        if (link->seen.state_len != call->answer_len - sizeof(link->seen)) {
                link_later(link);
        } else if (link->seen.state_len == 0) {
                take_seen_rows(link);
        } else if (eng_home_state_take(link->home, state, link->seen.state_len, take_seen_rows, link) != 0) {
                link->state_sum = UINT64_MAX;
                link_later(link);
        }
}

static void link_join_came(struct rem_home_link *link, const struct net_call *call)
{
        struct home_joined joined;

        if (call->outcome != NET_ANSWERED || call->status != HOME_DONE || call->answer_len != sizeof(joined)) {
                link_later(link);
                return;
        }
        memcpy(&joined, call->answer, sizeof(joined));
        if (!eng_term_is_sound(&joined.term) || eng_term_compare(&joined.term, &link->term) < 0) {
                link_later(link); /* one that has been deposed */
                return;
        }
        if (!eng_term_same(&joined.term, &link->term))
                link->version = UINT64_MAX;
        link->term = joined.term;
        link->state = LINK_JOINED;
        link->reading = false;
        link->failures = 0;
        take_credit(link, &joined.credit);
        link_set(link, call->peer, joined.session);
        link_watch(link);
}

static void join_answered(struct net_call *call)
{
        struct home_joining *joining = (struct home_joining *)call;
        struct rem_home_link *link = joining->link;

        atomic_fetch_sub(&link->out, 1);
        if (!atomic_load(&link->stopped) && link->joining == joining) {
                link->joining = NULL;
                link_join_came(link, call);
        }
        free(joining);
}

/* At a leader that answers as soon as it serves. */
static void link_join(struct rem_home_link *link, struct net_peer *peer, uint16_t party)
{
        struct home_joining *joining = calloc(1, sizeof(*joining));

        if (joining == NULL) {
                link_later(link);
                return;
        }
        link->state = LINK_JOINING;
        link->at = party;
        link->joining = joining;
        joining->link = link;
        joining->join = (struct home_join){.pool = link->options.pool, .loops = link->options.loop_count, .term = link->term, .version = link->version};
        eng_home_digest(link->home, &joining->join.digest);
        link_send(link, &joining->call, peer, HOME_JOIN, &joining->join, sizeof(joining->join), JOIN_WAIT_NS, join_answered);
}

static void link_look(struct rem_home_link *link)
{
        uint32_t party = atomic_load(&link->party);
        struct net_peer *peer = party == 0 ? NULL : net_peer_find(link->options.net, (uint16_t)party);

        if (link->state != LINK_IDLE || atomic_load(&link->stopped))
                return;
        lp_timer_stop(link->coordinator, &link->again);
        if (peer == NULL) {
                lp_timer_start(link->coordinator, &link->again, AGAIN_NS);
                return;
        }
        link_join(link, peer, (uint16_t)party);
}

static void link_again(struct lp_timer *timer)
{
        link_look(container_of(timer, struct rem_home_link, again));
}

/* Whoever leads has begun since the last attempt, maybe: the connection need not rest until its time. */
static void link_meet(struct rem_home_link *link, uint32_t party)
{
        struct net_peer *peer = party == 0 || atomic_load(&link->stopped) ? NULL : net_peer_find(link->options.net, (uint16_t)party);

        if (party != link->at)
                link->failures = 0;
        if (peer != NULL)
                net_peer_connect(peer);
}

static void home_link_told(struct lp_msg *msg)
{
        struct rem_home_link *link = container_of(msg, struct rem_home_link, told);
        uint32_t party;

        atomic_store(&link->telling, false);
        party = atomic_load(&link->party);
        if (link->state == LINK_JOINING && party != link->at) { /* that one leads no more: it may never answer */
                link->joining = NULL;
                link->state = LINK_IDLE;
        }
        if (link->state == LINK_IDLE)
                link_meet(link, party);
        link_look(link);
}

/* ---- questions of operators ------------------------------------------------------------------ */

/* owner: who asks, who waits for it; its room stays as long */
struct home_asking {
        struct net_call call; /* first */
        struct lp_msg msg;
        struct rem_home_link *link;
        const uint8_t *bytes;
        size_t len;
        uint8_t *room;
        ssize_t rv;
        sem_t ended;
};

static void asking_answered(struct net_call *call)
{
        struct home_asking *a = (struct home_asking *)call;

        atomic_fetch_sub(&a->link->out, 1);
        if (call->outcome != NET_ANSWERED)
                a->rv = call->sent ? -ETIMEDOUT : -EHOSTDOWN;
        else
                a->rv = call->status == HOME_DONE ? (ssize_t)call->answer_bulk : call->status == HOME_BAD ? -EMSGSIZE : -EHOSTDOWN;
        sem_post(&a->ended);
}

static void asking_go(struct lp_msg *msg)
{
        struct home_asking *a = container_of(msg, struct home_asking, msg);
        struct rem_home_link *link = a->link;
        uint32_t party = atomic_load(&link->party);

        a->call.peer = party == 0 || atomic_load(&link->stopped) ? NULL : net_peer_find(link->options.net, (uint16_t)party);
        if (a->call.peer == NULL) {
                a->rv = -EHOSTDOWN;
                sem_post(&a->ended);
                return;
        }
        a->call.link = NET_LOG;
        a->call.operation = HOME_ASK;
        a->call.bulk[0] = (struct iovec){(void *)(uintptr_t)a->bytes, a->len};
        a->call.bulk_count = 1;
        a->call.room[0] = (struct iovec){a->room, REM_ASK_ROOM};
        a->call.room_count = 1;
        a->call.deadline = lp_now(link->coordinator) + ASK_WAIT_NS;
        a->call.done = asking_answered;
        atomic_fetch_add(&link->out, 1);
        net_call(&a->call);
}

static ssize_t ask_once(struct rem_home_link *link, const uint8_t *bytes, size_t len, uint8_t *room)
{
        struct home_asking a = {.link = link, .bytes = bytes, .len = len, .room = room, .msg.run = asking_go};

        sem_init(&a.ended, 0, 0);
        lp_post(link->coordinator, &a.msg);
        while (sem_wait(&a.ended) != 0)
                ;
        sem_destroy(&a.ended);
        return a.rv;
}

ssize_t rem_home_link_ask(struct rem_home_link *link, const uint8_t *bytes, size_t len, uint8_t room[REM_ASK_ROOM])
{
        ssize_t rv = -EHOSTDOWN;
        unsigned tries;

        if (len == 0 || len > REM_ASK_MAX)
                return -EMSGSIZE;
        if (link->coordinator == NULL)
                return rv;
        for (tries = 0; tries < ASK_TRIES && rv == -EHOSTDOWN; tries++) { /* a connection may rest after a failure */
                if (tries > 0)
                        usleep(AGAIN_NS / 1000);
                rv = ask_once(link, bytes, len, room);
        }
        return rv;
}

/* ---- life ------------------------------------------------------------------------------------ */

int rem_home_link_new(const struct rem_home_link_options *options, struct rem_home_link **out)
{
        struct rem_home_link *link = calloc(1, sizeof(*link));
        unsigned i, j;

        if (link == NULL)
                return -ENOMEM;
        link->options = *options;
        link->loops = calloc(options->loop_count, sizeof(link->loops[0]));
        link->rows = malloc(ENG_HOME_ROWS_MAX);
        link->counts = calloc(options->loop_count, sizeof(link->counts[0]));
        link->watch = malloc(sizeof(struct home_watch) + options->loop_count * sizeof(link->counts[0]));
        if (link->loops == NULL || link->rows == NULL || link->counts == NULL || link->watch == NULL) {
                free(link->loops);
                free(link->rows);
                free(link->counts);
                free(link->watch);
                free(link);
                return -ENOMEM;
        }
        for (i = 0; i < options->loop_count; i++) {
                link->loops[i].link = link;
                for (j = 0; j < HOME_CLASSES; j++)
                        TAILQ_INIT(&link->loops[i].waiting[j]);
                TAILQ_INIT(&link->loops[i].parked);
                TAILQ_INIT(&link->loops[i].unknown);
                link->loops[i].woken.run = line_woken;
                link->loops[i].timer.expired = line_tick;
        }
        pthread_mutex_init(&link->lock, NULL);
        link->version = link->state_sum = UINT64_MAX;
        link->again.expired = link_again;
        link->told.run = home_link_told;
        link->engine = (struct eng_leader_link){.call = link_call, .unpin = link_unpin, .awaits = link_awaits, .path = link_path,
                                                .lease_end = &link->lease_end, .clock_ns = options->now, .arg = link};
        memcpy(link->engine.store_id, options->store_id, sizeof(link->engine.store_id));
        *out = link;
        return 0;
}

const struct eng_leader_link *rem_home_link_engine(struct rem_home_link *link)
{
        return &link->engine;
}

static void home_link_tell(struct rem_home_link *link)
{
        if (link->coordinator != NULL && !atomic_exchange(&link->telling, true))
                lp_post(link->coordinator, &link->told);
}

void rem_home_link_switches(struct rem_home_link *link, const struct rem_home_switches *switches)
{
        link->switches = *switches;
}

void rem_home_link_start(struct rem_home_link *link, struct eng_store *home)
{
        unsigned i;

        for (i = 0; i < link->options.loop_count; i++)
                link->loops[i].loop = eng_home_loop(home, i);
        link->home = home;
        link->coordinator = eng_home_loop(home, UINT32_MAX);
        home_link_tell(link);
}

void rem_home_link_leader(struct rem_home_link *link, uint16_t party)
{
        atomic_store(&link->party, party);
        home_link_tell(link);
}

void rem_home_link_stop(struct rem_home_link *link)
{
        struct lp_loop *before;
        struct home_sent *s;
        unsigned i, j;

        atomic_store(&link->stopped, true);
        if (link->coordinator != NULL)
                lp_timer_stop(link->coordinator, &link->again);
        for (i = 0; link->home != NULL && i < link->options.loop_count; i++) {
                struct home_loop *hl = &link->loops[i];

                before = lp_become(hl->loop);
                if (hl->ticking)
                        lp_timer_stop(hl->loop, &hl->timer);
                while ((s = TAILQ_FIRST(&hl->unknown)) != NULL) {
                        TAILQ_REMOVE(&hl->unknown, s, line);
                        sent_end(s, ENG_LEADER_UNKNOWN);
                }
                while ((s = TAILQ_FIRST(&hl->parked)) != NULL) {
                        TAILQ_REMOVE(&hl->parked, s, line);
                        sent_end(s, ENG_LEADER_NOT_SENT);
                }
                for (j = 0; j < HOME_CLASSES; j++)
                        while ((s = TAILQ_FIRST(&hl->waiting[j])) != NULL) {
                                TAILQ_REMOVE(&hl->waiting[j], s, line);
                                sent_end(s, ENG_LEADER_NOT_SENT);
                        }
                lp_become(before);
        }
}

void rem_home_link_free(struct rem_home_link *link)
{
        if (link == NULL)
                return;
        assert(atomic_load(&link->out) == 0);
        pthread_mutex_destroy(&link->lock);
        free(link->loops);
        free(link->rows);
        free(link->counts);
        free(link->watch);
        free(link);
}
