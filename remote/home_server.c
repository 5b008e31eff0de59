/*
 * home_server.c - sessions of home stores at the leader of their pool.
 *
 * JOIN and WATCH are the coordinator's; calls go from the loop of their connection to a loop of the
 * store, and back. What decides whether a call is admitted is the session's time, which its connection's
 * loop and the loop that does it compare, each for itself.
 */
#include <assert.h>
#include <bsd/sys/queue.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "ec.h"
#include "engine/bucket/config_feed.h"
#include "engine/serve/serve.h"
#include "remote/home_wire.h"

#define LOOK_NS   (1000ull * 1000 * 1000)
#define HOLD_NS   (1500ull * 1000 * 1000) /* a JOIN waits for so long until the pool is served: less than its home waits */
#define HELD_NS   (5ull * 1000 * 1000)    /* between two looks whether it is */
#define PINS_MOST 65536u /* of a session */
#define ENDED_MOST 128u /* sessions of a home with pins, of the last minute */
#define MEMORY    (256ull << 20)

/* A value that a session has pinned, once for all of its pins: that of an object of many parts is large, and many read it. Under the server's lock. */
struct home_pinned {
        UT_hash_handle hh;
        uint8_t id[FMT_ID];
        struct eng_buf *value;
        unsigned pins;
        bool found;                    /* by its id: else that of the same upload was changed, and the newer one has its place */
};

/* A pin that a session has. Under the server's lock. */
struct home_pin {
        UT_hash_handle hh;
        uint64_t number;
        struct eng_lookup *pin;
        struct home_pinned *pinned;    /* whose value the pin has */
};

/* A WATCH, or a JOIN, that waits to be answered. owner: the coordinator; the connection's loop before and after */
struct watching {
        struct lp_msg msg;
        LIST_ENTRY(watching) held;     /* a JOIN */
        uint64_t since;                /* lp_now() */
        struct rem_home_server *server;
        struct net_request *request;
        struct lp_loop *at;
        struct home_watch said;
        uint64_t *counts;              /* loops of them */
        unsigned loops;
        uint16_t node;
        uint64_t boot;
        struct net_answer answer;
        struct home_seen seen;
        uint8_t *body, *rows;
};

struct home_session {
        LIST_ENTRY(home_session) link;
        uint16_t node;
        uint64_t boot, number;
        atomic_uint refs;              /* the server's, and calls under way */
        struct eng_served_home home;
        uint64_t told;                 /* coordinator: lp_now() when its bounds came last; 0: never */
        _Atomic uint64_t until;        /* by the server's clock: calls are admitted before that */
        struct home_pin *pins;         /* under the server's lock, like the next */
        unsigned pin_count;
        struct home_pinned *pinned;    /* by id */
        uint64_t held[HOME_CLASSES];   /* bytes of its calls */
        uint64_t pin_bytes;            /* of values that it has pinned */
        bool ended;
        atomic_bool shut;              /* its clients change nothing; changed under the lock */
        /* coordinator */
        struct eng_feed_reader reader;
        struct eng_home_reading reading;
        uint64_t state_sum;            /* of what was sent last */
        struct watching *watch;
        uint64_t watched;              /* lp_now() */
        uint64_t unpin_at;             /* lp_now(), of one that has ended */
        bool has_past;                 /* it has told what `past` says, for the orphan collection under way */
        uint64_t *past;                /* of its loops: its bounds when that began */
        _Atomic uint64_t bounds[];     /* of its loops: no id below is named any more; behind them is `past` */
};

struct rem_home_server {
        struct rem_home_server_options options;
        pthread_mutex_t lock;
        struct home_session *by_node[REM_HOME_NODES]; /* by party, from REM_HOME_FIRST on; under lock: those that have not ended */
        atomic_uint count;
        atomic_uint changes;           /* calls under way that change something for clients */
        atomic_uint calls;             /* calls under way */
        atomic_bool closing;           /* no more of them are let in */
        uint64_t read_only;            /* generation, under lock; 0: clients may change something */
        uint64_t limit[HOME_CLASSES];  /* constant */
        uint64_t held[HOME_CLASSES];   /* bytes of calls under way, under lock */
        uint64_t pin_bytes;            /* likewise, of values that are pinned */
        /* coordinator */
        uint64_t number;
        LIST_HEAD(, home_session) sessions, ended; /* ended: that have pins yet */
        LIST_HEAD(, watching) joining; /* JOINs that are held */
        struct lp_timer timer, join_timer;
        bool begun, stopped;
        struct eng_homes homes;
        struct lp_msg start, close;
};

static bool is_home(uint16_t party)
{
        return party >= REM_HOME_FIRST && party - REM_HOME_FIRST < REM_HOME_NODES;
}

static uint64_t server_clock(const struct rem_home_server *server)
{
        return server->options.now != NULL ? server->options.now() : lp_boot_clock();
}

static bool leads(const struct rem_home_server *server)
{
        return server->options.lease_end == NULL || server_clock(server) < atomic_load(server->options.lease_end);
}

static uint64_t loop_now(const struct rem_home_server *server)
{
        return lp_now(server->options.coordinator);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void home_reply(struct net_request *request, enum home_status status)
{
        struct net_answer answer = {.status = (int32_t)status};

        request->answered = NULL;
        net_reply(request, &answer);
}

static void watching_free(struct watching *w)
{
        free(w->body);
        free(w->rows);
        free(w->counts);
        free(w);
}

static void watching_answered(struct net_request *request)
{
        watching_free(request->user);
}

static void watching_reply(struct lp_msg *msg)
{
        struct watching *w = container_of(msg, struct watching, msg);

        w->request->user = w;
        w->request->answered = watching_answered;
        net_reply(w->request, &w->answer);
}

static void watching_end(struct watching *w, enum home_status status)
{
        w->answer.status = (int32_t)status;
        w->msg.run = watching_reply;
        lp_post(w->at, &w->msg);
}

/* ---- sessions -------------------------------------------------------------------------------- */

static void session_put(struct home_session *s)
{
        if (atomic_fetch_sub(&s->refs, 1) == 1)
                free(s);
}

/* Of each session: an equal part. */
static uint64_t session_share(const struct rem_home_server *server, enum home_class class)
{
        unsigned sessions = atomic_load(&server->count);

        return server->limit[class] / (sessions == 0 ? 1 : sessions);
}

static struct home_credit session_credit(const struct rem_home_server *server)
{
        return (struct home_credit){{session_share(server, HOME_CALLS), session_share(server, HOME_LOOKUPS)}};
}

/* Under the lock: as many bytes of values as lookups may have under way, in equal parts. One pin always may be. */
static bool pin_fits(const struct rem_home_server *server, const struct home_session *s, uint64_t bytes)
{
        return s->pin_count == 0 || (s->pin_count < PINS_MOST && s->pin_bytes + bytes <= session_share(server, HOME_LOOKUPS) &&
                                     server->pin_bytes + bytes <= server->limit[HOME_LOOKUPS]);
}

/* But for where their records stand, which each drive says of itself. */
static bool same_value(const struct eng_buf *one, const struct eng_buf *other)
{
        struct fmt_value a = *eng_value_head(one->data), b = *eng_value_head(other->data);

        a.crc = b.crc = 0;
        a.log_file = b.log_file = a.log_position = b.log_position = 0;
        return one->len == other->len && memcmp(&a, &b, sizeof(a)) == 0 && memcmp(one->data + sizeof(a), other->data + sizeof(b), one->len - sizeof(a)) == 0;
}

/* Under the lock, as the next two: of the session's own; NULL: it has no such value. */
static struct home_pinned *pinned_value(const struct home_session *s, const struct eng_buf *value)
{
        struct home_pinned *pinned;

        HASH_FIND(hh, s->pinned, eng_value_head(value->data)->id, FMT_ID, pinned);
        return pinned != NULL && same_value(pinned->value, value) ? pinned : NULL;
}

/* `made`: becomes that of a value which the session does not have. */
static struct home_pinned *pinned_make(struct rem_home_server *server, struct home_session *s, struct home_pinned *made, struct eng_buf *value)
{
        const uint8_t *id = eng_value_head(value->data)->id;
        struct home_pinned *before;

        HASH_FIND(hh, s->pinned, id, FMT_ID, before);
        if (before != NULL) {
                HASH_DEL(s->pinned, before);
                before->found = false;
        }
        *made = (struct home_pinned){.value = eng_buf_ref(value), .found = true};
        memcpy(made->id, id, FMT_ID);
        HASH_ADD(hh, s->pinned, id, FMT_ID, made);
        s->pin_bytes += value->len;
        server->pin_bytes += value->len;
        return made;
}

static void pinned_put(struct rem_home_server *server, struct home_session *s, struct home_pinned *pinned)
{
        if (--pinned->pins > 0)
                return;
        s->pin_bytes -= pinned->value->len;
        server->pin_bytes -= pinned->value->len;
        if (pinned->found)
                HASH_DEL(s->pinned, pinned);
        eng_buf_unref(pinned->value);
        free(pinned);
}

static void pin_end(struct rem_home_server *server, struct home_session *s, struct home_pin *p)
{
        HASH_DEL(s->pins, p);
        s->pin_count--;
        pinned_put(server, s, p->pinned);
        eng_serve_unpin(p->pin);
        free(p);
}

static void session_unpin_all(struct rem_home_server *server, struct home_session *s)
{
        struct home_pin *pin, *next;

        pthread_mutex_lock(&server->lock);
        HASH_ITER (hh, s->pins, pin, next)
                pin_end(server, s, pin);
        s->ended = true; /* what comes from now on is given back at once */
        pthread_mutex_unlock(&server->lock);
}

static bool session_pins(struct rem_home_server *server, const struct home_session *s)
{
        bool pins;

        pthread_mutex_lock(&server->lock);
        pins = s->pin_count > 0;
        pthread_mutex_unlock(&server->lock);
        return pins;
}

/* What it has sent and is not admitted yet is refused from here on. Its pins last for a while. */
static void session_end(struct rem_home_server *server, struct home_session *s)
{
        atomic_store(&s->until, 0);
        pthread_mutex_lock(&server->lock);
        if (server->by_node[s->node - REM_HOME_FIRST] == s)
                server->by_node[s->node - REM_HOME_FIRST] = NULL;
        pthread_mutex_unlock(&server->lock);
        if (s->watch != NULL)
                watching_end(s->watch, HOME_NO_SESSION);
        s->watch = NULL;
        eng_feed_detach(server->options.store, &s->reader);
        LIST_REMOVE(s, link);
        LIST_INSERT_HEAD(&server->ended, s, link);
        s->unpin_at = loop_now(server) + HOME_PINS_NS;
        atomic_fetch_sub(&server->count, 1);
}

static struct home_session *home_session_of(struct rem_home_server *server, uint16_t node)
{
        struct home_session *s;

        LIST_FOREACH (s, &server->sessions, link)
                if (s->node == node)
                        return s;
        return NULL;
}

/*
 * It takes the place of the one before, if there is one; and is waited for by changes of the configuration as long as that
 * would have been: its home may believe what it was told then.
 */
static struct home_session *session_begin(struct rem_home_server *server, const struct watching *w, const struct home_join *join, struct home_session *before)
{
        struct home_session *s = calloc(1, sizeof(*s) + join->loops * (sizeof(s->bounds[0]) + sizeof(s->past[0])));

        if (s == NULL)
                return NULL;
        s->past = (uint64_t *)(s->bounds + join->loops);
        s->home = (struct eng_served_home){.node = w->node, .boot = (uint32_t)w->boot, .loops = join->loops, .bounds = s->bounds};
        s->node = w->node;
        s->boot = w->boot;
        s->number = ++server->number;
        atomic_store(&s->refs, 1);
        s->state_sum = UINT64_MAX;
        s->reading.version = eng_term_same(&join->term, &server->options.term) ? join->version : UINT64_MAX; /* of none: all rows */
        s->reading.says = true;
        s->reading.digest = join->digest;
        s->watched = loop_now(server);
        atomic_store(&s->until, server_clock(server) + HOME_SILENT_NS);
        if (before != NULL)
                s->reader.until = before->reader.until;
        eng_feed_attach(server->options.store, &s->reader);
        if (before != NULL)
                session_end(server, before);
        LIST_INSERT_HEAD(&server->sessions, s, link);
        pthread_mutex_lock(&server->lock);
        atomic_store(&s->shut, server->read_only != 0);
        server->by_node[s->node - REM_HOME_FIRST] = s;
        pthread_mutex_unlock(&server->lock);
        atomic_fetch_add(&server->count, 1);
        return s;
}

/* Sessions of a home that have ended, and have pins yet: each may have one whatever there is room for. */
static bool ended_too_often(const struct rem_home_server *server, uint16_t node)
{
        const struct home_session *s;
        unsigned count = 0;

        LIST_FOREACH (s, &server->ended, link)
                count += s->node == node;
        return count >= ENDED_MOST;
}

static void join_now(struct watching *w)
{
        struct rem_home_server *server = w->server;
        struct home_joined *joined = malloc(sizeof(*joined));
        struct home_session *s = home_session_of(server, w->node);
        struct home_join join;

        memcpy(&join, w->body, sizeof(join));
        free(w->body);
        w->body = (uint8_t *)joined;
        if (server->stopped || atomic_load(&server->closing) || joined == NULL || !leads(server) || ended_too_often(server, w->node) ||
            (s != NULL && s->boot > w->boot)) {
                watching_end(w, s != NULL && s->boot > w->boot ? HOME_BAD : HOME_NOT_NOW);
                return;
        }
        if (join.pool != server->options.pool || join.loops == 0 || join.loops > HOME_LOOPS_MAX) {
                watching_end(w, join.pool != server->options.pool ? HOME_OTHER_POOL : HOME_BAD);
                return;
        }
        s = session_begin(server, w, &join, s);
        if (s == NULL) {
                watching_end(w, HOME_NOT_NOW);
                return;
        }
        *joined = (struct home_joined){.session = s->number, .term = server->options.term, .credit = session_credit(server)};
        w->answer.body = joined;
        w->answer.body_len = sizeof(*joined);
        watching_end(w, HOME_DONE);
}

/* Homes know who leads before it serves. They are told when it does, so that none asks again and again. */
static bool join_is_held(const struct rem_home_server *server, const struct watching *w)
{
        return !server->stopped && !atomic_load(&server->closing) && !(leads(server) && eng_home_serves(server->options.store)) &&
               loop_now(server) < w->since + HOLD_NS;
}

static void joins_look(struct lp_timer *timer)
{
        struct rem_home_server *server = container_of(timer, struct rem_home_server, join_timer);
        struct watching *w, *next;

        LIST_FOREACH_SAFE (w, &server->joining, held, next)
                if (!join_is_held(server, w)) {
                        LIST_REMOVE(w, held);
                        join_now(w);
                }
        if (!LIST_EMPTY(&server->joining))
                lp_timer_start(server->options.coordinator, timer, HELD_NS);
}

/* A home has one under way: an earlier one of it is not waited for any more. */
static void join_forget(struct rem_home_server *server, uint16_t node)
{
        struct watching *w, *next;

        LIST_FOREACH_SAFE (w, &server->joining, held, next)
                if (w->node == node) {
                        LIST_REMOVE(w, held);
                        watching_end(w, HOME_NOT_NOW);
                }
}

static void join_arrive(struct lp_msg *msg)
{
        struct watching *w = container_of(msg, struct watching, msg);
        struct rem_home_server *server = w->server;

        w->since = loop_now(server);
        join_forget(server, w->node);
        if (!join_is_held(server, w)) {
                join_now(w);
                return;
        }
        if (LIST_EMPTY(&server->joining)) {
                server->join_timer.expired = joins_look;
                lp_timer_start(server->options.coordinator, &server->join_timer, HELD_NS);
        }
        LIST_INSERT_HEAD(&server->joining, w, held);
}

/* ---- WATCH ----------------------------------------------------------------------------------- */

/* The state, where it is another than what the home has. */
static void seen_state(struct rem_home_server *server, struct home_session *s, struct watching *w)
{
        size_t len = eng_home_state_write(server->options.store, w->body + sizeof(w->seen));
        uint64_t sum = era_crc32c(0, w->body + sizeof(w->seen), len);

        w->seen.state_sum = sum;
        w->seen.state_len = len == 0 || sum == w->said.state_sum ? 0 : (uint32_t)len;
        s->state_sum = sum;
}

static void seen_rows(struct rem_home_server *server, struct home_session *s, struct watching *w)
{
        bool first, last;
        size_t len = eng_home_rows_write(server->options.store, &s->reading, w->rows, &first, &last);

        w->seen.version = s->reading.version;
        w->seen.flags = s->reading.same ? HOME_SAME : 0;
        if (len > 0 || first || last)
                w->seen.flags = HOME_ROWS | (first ? HOME_FIRST : 0) | (last ? HOME_LAST : 0);
        w->seen.flags |= s->reading.more ? HOME_MORE : 0;
        w->answer.bulk[0] = (struct iovec){w->rows, len};
        w->answer.bulk_count = len > 0;
}

/* Answers a WATCH if there is something to say, or it has waited long enough. */
static void session_look(struct rem_home_server *server, struct home_session *s)
{
        struct watching *w = s->watch;

        if (w == NULL || !leads(server))
                return;
        seen_state(server, s, w);
        seen_rows(server, s, w);
        if (w->seen.state_len == 0 && (w->seen.flags & ~HOME_MORE) == 0 && loop_now(server) < s->watched + HOME_WATCH_NS)
                return;
        if (!leads(server)) { /* what was read may be another's by now; rows that were passed over are read anew */
                s->reading.version = UINT64_MAX;
                s->reading.all = false;
                return;
        }
        w->seen.credit = session_credit(server);
        w->seen.lock_now_ms = eng_lock_now(server->options.store);
        memcpy(w->body, &w->seen, sizeof(w->seen));
        w->answer.body = w->body;
        w->answer.body_len = (uint32_t)(sizeof(w->seen) + w->seen.state_len);
        s->watch = NULL;
        if ((w->seen.flags & HOME_MORE) == 0)
                s->reader.until = loop_now(server) + HOME_GRANT_NS; /* with others no lease comes, so nobody waits for it */
        atomic_store(&s->until, server_clock(server) + HOME_SILENT_NS);
        watching_end(w, HOME_DONE);
}

/* Bounds only rise: what a sweep relies on is what calls are admitted by. */
static void take_bounds(struct rem_home_server *server, struct home_session *s, const struct watching *w)
{
        unsigned i;

        for (i = 0; i < w->loops; i++)
                if (w->counts[i] > atomic_load(&s->bounds[i]))
                        atomic_store(&s->bounds[i], w->counts[i]);
        s->told = loop_now(server);
}

/* Its gateway refuses what would change anything, and has nothing of the kind under way: it need not be believed from here on. */
static void take_switches(struct rem_home_server *server, struct home_session *s, const struct watching *w)
{
        pthread_mutex_lock(&server->lock);
        if (server->read_only != 0 && w->said.switches >= server->read_only && w->said.changing == 0)
                atomic_store(&s->shut, true);
        pthread_mutex_unlock(&server->lock);
}

static void watch_arrive(struct lp_msg *msg)
{
        struct watching *w = container_of(msg, struct watching, msg);
        struct rem_home_server *server = w->server;
        struct home_session *s = home_session_of(server, w->node);

        if (server->stopped || s == NULL || s->boot != w->boot || s->number != w->said.session || s->watch != NULL || w->loops != s->home.loops) {
                watching_end(w, HOME_NO_SESSION);
                return;
        }
        take_bounds(server, s, w);
        take_switches(server, s, w);
        w->rows = malloc(ENG_HOME_ROWS_MAX);
        free(w->body);
        w->body = malloc(sizeof(w->seen) + ENG_HOME_STATE_MAX);
        if (w->rows == NULL || w->body == NULL) {
                watching_end(w, HOME_NOT_NOW);
                return;
        }
        s->watch = w;
        s->watched = loop_now(server);
        if (w->said.version <= eng_feed_version(server->options.store) && s->reading.version != UINT64_MAX && !s->reading.all)
                s->reader.has = w->said.version;
        eng_feed_read(server->options.store, &s->reader);
        session_look(server, s);
}

static void server_look_all(void *arg)
{
        struct rem_home_server *server = arg;
        struct home_session *s, *next;

        LIST_FOREACH_SAFE (s, &server->sessions, link, next)
                session_look(server, s);
}

static void server_tick(struct lp_timer *timer)
{
        struct rem_home_server *server = container_of(timer, struct rem_home_server, timer);
        uint64_t now = loop_now(server);
        struct home_session *s, *next;

        LIST_FOREACH_SAFE (s, &server->sessions, link, next)
                if (s->watch == NULL && now >= s->watched + HOME_SILENT_NS)
                        session_end(server, s);
        LIST_FOREACH_SAFE (s, &server->ended, link, next)
                if (atomic_load(&s->refs) == 1 && (now >= s->unpin_at || !session_pins(server, s))) {
                        LIST_REMOVE(s, link);
                        session_unpin_all(server, s);
                        session_put(s);
                }
        server_look_all(server);
        lp_timer_start(server->options.coordinator, timer, LOOK_NS / 4);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* owner: the connection's loop, then a loop of the store, then the connection's */
struct home_served {
        struct eng_serving serving; /* first */
        struct lp_msg msg;
        struct rem_home_server *server;
        struct home_session *session;
        struct net_request *request;
        struct lp_loop *at;
        struct eng_buf *bulk;
        uint8_t *body, *memory; /* a copy of the call's body; the answer */
        struct eng_buf *page;   /* bulk of the answer, where it is a page */
        bool changes;           /* it is counted in the server's */
        enum home_class class;
        uint64_t cost;          /* of it, which session and server hold */
        struct net_answer answer;
};

static void home_served_free(struct home_served *c)
{
        atomic_fetch_sub(&c->server->calls, 1);
        if (c->changes)
                atomic_fetch_sub(&c->server->changes, 1);
        if (c->session != NULL) {
                pthread_mutex_lock(&c->server->lock);
                c->session->held[c->class] -= c->cost;
                c->server->held[c->class] -= c->cost;
                pthread_mutex_unlock(&c->server->lock);
                session_put(c->session);
        }
        eng_buf_unref(c->bulk);
        eng_buf_unref(c->page);
        free(c->body);
        free(c->memory);
        free(c);
}

static void home_served_answered(struct net_request *request)
{
        home_served_free(request->user);
}

static void home_served_reply(struct lp_msg *msg)
{
        struct home_served *c = container_of(msg, struct home_served, msg);

        c->request->user = c;
        c->request->answered = home_served_answered;
        net_reply(c->request, &c->answer);
}

static void home_served_end(struct home_served *c, enum home_status status)
{
        c->answer.status = (int32_t)status;
        c->msg.run = home_served_reply;
        if (lp_self() == c->at)
                home_served_reply(&c->msg);
        else
                lp_post(c->at, &c->msg);
}

/*
 * Else than HOME_DONE: it is given back. *replaced: its value, instead of which it has the one that the session had of it; the
 * caller gives it up when the answer was made. Else NULL.
 */
static enum home_status keep_home_pin(struct home_served *c, struct eng_lookup *pin, uint64_t number, struct eng_buf **replaced)
{
        struct home_pinned *made = malloc(sizeof(*made)), *pinned = NULL;
        struct home_pin *p = malloc(sizeof(*p)), *old;
        struct home_session *s = c->session;
        enum home_status status = HOME_DONE;

        *replaced = NULL;
        pthread_mutex_lock(&c->server->lock);
        HASH_FIND(hh, s->pins, &number, sizeof(number), old);
        if (old == NULL && !s->ended)
                pinned = pinned_value(s, pin->value);
        if (old != NULL || s->ended)
                status = HOME_NO_SESSION;
        else if (p == NULL || made == NULL || !pin_fits(c->server, s, pinned != NULL ? 0 : pin->value->len))
                status = HOME_NOT_NOW;
        if (status == HOME_DONE) {
                if (pinned != NULL) {
                        *replaced = pin->value;
                        pin->value = eng_buf_ref(pinned->value);
                } else {
                        pinned = pinned_make(c->server, s, made, pin->value);
                        made = NULL;
                }
                pinned->pins++;
                *p = (struct home_pin){.number = number, .pin = pin, .pinned = pinned};
                HASH_ADD(hh, s->pins, number, sizeof(p->number), p);
                s->pin_count++;
        }
        pthread_mutex_unlock(&c->server->lock);
        free(made);
        if (status != HOME_DONE) {
                free(p);
                eng_serve_unpin(pin);
        }
        return status;
}

static enum home_status home_served_fill(struct home_served *c)
{
        const struct eng_serving *serving = &c->serving;
        size_t bulk = 0, at;
        unsigned i;

        for (i = 0; serving->page == NULL && i < serving->answer_bulk.count; i++)
                bulk += serving->answer_bulk.piece[i].len;
        c->memory = malloc(serving->answer_len + bulk + 1);
        if (c->memory == NULL)
                return HOME_BAD; /* what became of it cannot be said */
        memcpy(c->memory, serving->answer, serving->answer_len);
        for (i = 0, at = serving->answer_len; at < serving->answer_len + bulk; at += serving->answer_bulk.piece[i++].len)
                memcpy(c->memory + at, serving->answer_bulk.piece[i].bytes, serving->answer_bulk.piece[i].len);
        c->answer.body = c->memory;
        c->answer.body_len = (uint32_t)serving->answer_len;
        c->answer.bulk[0] = (struct iovec){c->memory + serving->answer_len, bulk};
        if (serving->page != NULL) {
                c->page = eng_buf_ref(serving->page);
                c->answer.bulk[0] = (struct iovec){c->page->data, c->page->len};
        }
        c->answer.bulk_count = c->answer.bulk[0].iov_len > 0;
        return HOME_DONE;
}

static void home_served_done(struct eng_serving *serving)
{
        struct home_served *c = (struct home_served *)serving;
        enum home_status status = serving->refused ? HOME_NO_SESSION : HOME_DONE;
        struct eng_buf *replaced = NULL;

        if (serving->pin != NULL)
                status = keep_home_pin(c, serving->pin, serving->pin_number, &replaced);
        if (status == HOME_DONE)
                status = home_served_fill(c);
        eng_buf_unref(replaced); /* the answer was made of it */
        home_served_end(c, status);
}

/* Under the lock: neither all homes nor this one have too much under way. One call always may be. */
static bool call_fits(const struct rem_home_server *server, const struct home_session *s, enum home_class class, uint64_t cost)
{
        if (server->held[class] != 0 && server->held[class] + cost > server->limit[class])
                return false;
        return s->held[class] == 0 || s->held[class] + cost <= session_share(server, class);
}

/* The session that the call is of, referenced, with memory for it; NULL, and why. */
static struct home_session *session_take(struct home_served *c, const struct net_request *request, uint64_t number, enum home_status *status)
{
        struct rem_home_server *server = c->server;
        uint16_t node = net_peer_node(request->peer);
        struct home_session *s = NULL;

        *status = HOME_NO_SESSION;
        if (!is_home(node))
                return NULL;
        pthread_mutex_lock(&server->lock);
        s = server->by_node[node - REM_HOME_FIRST];
        if (s != NULL && (s->boot != request->boot || s->number != number || server_clock(server) >= atomic_load(&s->until)))
                s = NULL;
        if (s != NULL && !call_fits(server, s, c->class, c->cost)) {
                *status = HOME_NOT_NOW;
                s = NULL;
        }
        if (s != NULL) {
                s->held[c->class] += c->cost;
                server->held[c->class] += c->cost;
                atomic_fetch_add(&s->refs, 1);
        }
        pthread_mutex_unlock(&server->lock);
        return s;
}

enum home_class home_class_of(const uint8_t *body, size_t len)
{
        return len > 0 && body[0] == ENG_CALL_LOOKUP ? HOME_LOOKUPS : HOME_CALLS;
}

static struct home_served *home_served_new(struct rem_home_server *server, struct net_request *request, enum home_status *status)
{
        struct home_served *c;
        struct home_call head;

        *status = HOME_BAD;
        if (request->body_len <= sizeof(head))
                return NULL;
        memcpy(&head, request->body, sizeof(head));
        *status = HOME_NOT_NOW;
        c = calloc(1, sizeof(*c));
        if (c == NULL)
                return NULL;
        c->server = server;
        c->request = request;
        c->at = lp_self();
        c->class = home_class_of(request->body + sizeof(head), request->body_len - sizeof(head));
        c->cost = home_call_cost(request->body_len, request->bulk_len, request->room);
        atomic_fetch_add(&server->calls, 1); /* before it is looked whether it is let in */
        c->session = session_take(c, request, head.session, status);
        if (c->session != NULL && leads(server) && !atomic_load(&server->closing))
                return c;
        if (c->session != NULL)
                *status = HOME_NO_SESSION;
        home_served_free(c);
        return NULL;
}

/* Bulk links may be plain: who is on the way could join in the name of a home, or ask as an operator does. */
static bool link_is_right(const struct net_request *request)
{
        return request->link == (request->operation == HOME_JOIN ? NET_CONTROL : NET_LOG);
}

enum net_bulk rem_home_server_bulk(void *arg, struct net_request *request)
{
        const uint8_t *call = request->body + sizeof(struct home_call);
        enum home_status status;
        struct home_served *c;

        request->user = NULL;
        if (!link_is_right(request))
                return NET_BULK_DISCARD;
        if (arg != NULL && request->operation == HOME_ASK)
                return is_home(net_peer_node(request->peer)) ? home_ask_bulk(request) : NET_BULK_DISCARD;
        if (arg == NULL || request->operation != HOME_CALL)
                return NET_BULK_DISCARD;
        c = home_served_new(arg, request, &status);
        if (c == NULL)
                return NET_BULK_DISCARD;
        if (eng_call_bulk_len(call, request->body_len - sizeof(struct home_call)) == (int64_t)request->bulk_len)
                c->bulk = eng_buf_new(request->bulk_len);
        if (c->bulk == NULL) {
                home_served_free(c);
                return NET_BULK_DISCARD;
        }
        request->user = c;
        request->bulk[0] = (struct iovec){c->bulk->data, request->bulk_len};
        request->bulk_count = 1;
        return NET_BULK_TAKE;
}

void rem_home_server_lost(void *arg, struct net_request *request)
{
        if (request->user != NULL && request->operation == HOME_ASK)
                home_ask_lost(request);
        else if (request->user != NULL)
                home_served_free(request->user);
}

/* False: it changes something, which clients of its home do not now. It is counted before that is looked at. */
static bool may_change(struct home_served *c, bool changes)
{
        c->changes = changes;
        if (changes)
                atomic_fetch_add(&c->server->changes, 1);
        return !changes || !atomic_load(&c->session->shut);
}

static void serve_home_call(struct rem_home_server *server, struct net_request *request)
{
        enum home_status status = HOME_NO_SESSION;
        struct home_served *c = request->bulk_len > 0 ? request->user : home_served_new(server, request, &status);
        size_t len = request->body_len - sizeof(struct home_call);

        if (c == NULL) {
                home_reply(request, status);
                return;
        }
        c->body = malloc(len);
        if (c->body == NULL) {
                home_served_end(c, HOME_NOT_NOW);
                return;
        }
        memcpy(c->body, request->body + sizeof(struct home_call), len);
        if (!may_change(c, eng_call_changes(c->body, len))) {
                home_served_end(c, HOME_READ_ONLY);
                return;
        }
        c->serving = (struct eng_serving){.store = server->options.store, .body = c->body, .len = len, .bulk = c->bulk, .room = request->room,
                                          .until = &c->session->until, .clock_ns = server->options.now, .done = home_served_done};
        if (eng_serve_call(&c->serving, &c->session->home) != 0)
                home_served_end(c, HOME_BAD);
}

/* Of any session of the home that has pins of these numbers: numbers of one boot are never used twice. */
static void serve_unpin(struct rem_home_server *server, struct net_request *request)
{
        size_t count = request->body_len < sizeof(struct home_call) ? 0 : (request->body_len - sizeof(struct home_call)) / sizeof(uint64_t), i;
        uint16_t node = net_peer_node(request->peer);
        struct home_session *s;
        struct home_call head;
        struct home_pin *pin;
        uint64_t number;

        if (request->body_len < sizeof(head) || !is_home(node)) {
                home_reply(request, HOME_BAD);
                return;
        }
        memcpy(&head, request->body, sizeof(head));
        pthread_mutex_lock(&server->lock);
        s = server->by_node[node - REM_HOME_FIRST];
        for (i = 0; s != NULL && s->number == head.session && s->boot == request->boot && i < count; i++) {
                memcpy(&number, request->body + sizeof(head) + i * sizeof(number), sizeof(number));
                HASH_FIND(hh, s->pins, &number, sizeof(number), pin);
                if (pin != NULL)
                        pin_end(server, s, pin);
        }
        pthread_mutex_unlock(&server->lock);
        home_reply(request, HOME_DONE);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* of_loops: numbers of loops may follow. */
static void to_coordinator(struct rem_home_server *server, struct net_request *request, size_t len, bool of_loops, void (*run)(struct lp_msg *msg))
{
        size_t more = request->body_len < len ? 0 : request->body_len - len;
        bool fits = request->body_len >= len && (of_loops ? more % sizeof(uint64_t) == 0 && more <= HOME_LOOPS_MAX * sizeof(uint64_t) : more == 0);
        struct watching *w = fits && is_home(net_peer_node(request->peer)) ? calloc(1, sizeof(*w)) : NULL;

        if (w != NULL) {
                w->body = malloc(len);
                w->counts = malloc(more + 1);
        }
        if (w == NULL || w->body == NULL || w->counts == NULL) {
                if (w != NULL)
                        watching_free(w);
                home_reply(request, fits ? HOME_NOT_NOW : HOME_BAD);
                return;
        }
        memcpy(w->counts, request->body + len, more);
        w->loops = (unsigned)(more / sizeof(uint64_t));
        w->server = server;
        w->request = request;
        w->at = lp_self();
        w->node = net_peer_node(request->peer);
        w->boot = request->boot;
        memcpy(w->body, request->body, len);
        if (request->operation == HOME_WATCH)
                memcpy(&w->said, request->body, sizeof(w->said));
        w->msg.run = run;
        lp_post(server->options.coordinator, &w->msg);
}

void rem_home_server_request(void *arg, struct net_request *request)
{
        struct rem_home_server *server = arg;

        if (!link_is_right(request)) {
                home_reply(request, HOME_BAD);
                return;
        }
        if (server == NULL || (request->bulk_len > 0 && (request->discarded || (request->operation != HOME_CALL && request->operation != HOME_ASK)))) {
                home_reply(request, HOME_NOT_NOW);
                return;
        }
        switch (request->operation) {
        case HOME_JOIN:
                to_coordinator(server, request, sizeof(struct home_join), false, join_arrive);
                break;
        case HOME_WATCH:
                if (request->room >= ENG_HOME_ROWS_MAX)
                        to_coordinator(server, request, sizeof(struct home_watch), true, watch_arrive);
                else
                        home_reply(request, HOME_BAD);
                break;
        case HOME_CALL:
                serve_home_call(server, request);
                break;
        case HOME_UNPIN:
                serve_unpin(server, request);
                break;
        case HOME_ASK:
                if (is_home(net_peer_node(request->peer)))
                        home_ask_request(&server->options, request);
                else
                        home_reply(request, HOME_BAD);
                break;
        default:
                home_reply(request, HOME_BAD);
                break;
        }
}

/* ---- what the engine asks --------------------------------------------------------------------- */

/* Calls of a session that has ended are under way here yet: what they have PUT may still be recorded. */
static bool homes_left_calls(const struct rem_home_server *server)
{
        const struct home_session *ended;

        LIST_FOREACH (ended, &server->ended, link)
                if (atomic_load(&ended->refs) > 1)
                        return true;
        return false;
}

/*
 * What is past stays as it is while the collection lasts: an upload that is under way now is recorded later, and nobody
 * will look for that record where the collection looks for names.
 */
static bool homes_have_told(void *arg, uint64_t since)
{
        const struct rem_home_server *server = arg;
        struct home_session *s;
        unsigned i;

        LIST_FOREACH (s, &server->sessions, link)
                if (s->told < since || s->told == 0)
                        return false;
        if (homes_left_calls(server))
                return false;
        LIST_FOREACH (s, &server->sessions, link) {
                for (i = 0; i < s->home.loops; i++)
                        s->past[i] = atomic_load(&s->bounds[i]);
                s->has_past = true;
        }
        return true;
}

static bool homes_is_past(void *arg, uint16_t node, uint32_t boot, uint16_t loop, uint64_t count)
{
        const struct home_session *s = home_session_of(arg, node);

        if (s == NULL || !s->has_past || boot > s->boot)
                return false;
        return boot < s->boot || (loop < s->home.loops && count < s->past[loop]);
}

static void pinned_of(const struct home_session *s, void (*each)(void *context, const void *value, size_t len), void *context)
{
        const struct home_pin *pin;

        for (pin = s->pins; pin != NULL; pin = pin->hh.next)
                each(context, pin->pin->value->data, pin->pin->value->len);
}

static void homes_each_pinned(void *arg, void (*each)(void *context, const void *value, size_t len), void *context)
{
        struct rem_home_server *server = arg;
        const struct home_session *s;

        pthread_mutex_lock(&server->lock);
        LIST_FOREACH (s, &server->sessions, link)
                pinned_of(s, each, context);
        LIST_FOREACH (s, &server->ended, link)
                pinned_of(s, each, context);
        pthread_mutex_unlock(&server->lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void server_start(struct lp_msg *msg)
{
        struct rem_home_server *server = container_of(msg, struct rem_home_server, start);

        if (server->stopped)
                return;
        server->begun = true;
        server->homes = (struct eng_homes){.have_told = homes_have_told, .is_past = homes_is_past, .each_pinned = homes_each_pinned, .arg = server};
        eng_homes_set(server->options.store, &server->homes);
        eng_feed_strangers(server->options.store, HOME_GRANT_NS);
        eng_pins_strangers(server->options.store, HOME_PINS_NS);
        server->timer.expired = server_tick;
        lp_timer_start(server->options.coordinator, &server->timer, LOOK_NS / 4);
}

int rem_home_server_new(const struct rem_home_server_options *options, struct rem_home_server **out)
{
        struct rem_home_server *server = calloc(1, sizeof(*server));

        if (server == NULL)
                return -ENOMEM;
        server->options = *options;
        server->limit[HOME_LOOKUPS] = (options->memory != 0 ? options->memory : MEMORY) / 4;
        server->limit[HOME_CALLS] = server->limit[HOME_LOOKUPS] * 3;
        pthread_mutex_init(&server->lock, NULL);
        LIST_INIT(&server->sessions);
        LIST_INIT(&server->ended);
        LIST_INIT(&server->joining);
        eng_home_watch(options->store, server_look_all, server);
        server->start.run = server_start;
        lp_post(options->coordinator, &server->start);
        *out = server;
        return 0;
}

uint64_t rem_home_server_bytes(struct rem_home_server *server)
{
        uint64_t bytes;

        pthread_mutex_lock(&server->lock);
        bytes = server->held[HOME_CALLS] + server->held[HOME_LOOKUPS];
        pthread_mutex_unlock(&server->lock);
        return bytes;
}

uint64_t rem_home_server_pinned(struct rem_home_server *server)
{
        uint64_t bytes;

        pthread_mutex_lock(&server->lock);
        bytes = server->pin_bytes;
        pthread_mutex_unlock(&server->lock);
        return bytes;
}

unsigned rem_home_server_sessions(struct rem_home_server *server)
{
        return atomic_load(&server->count);
}

void rem_home_server_read_only(struct rem_home_server *server, uint64_t generation)
{
        unsigned i;

        pthread_mutex_lock(&server->lock);
        server->read_only = generation;
        for (i = 0; i < REM_HOME_NODES; i++)
                if (generation == 0 && server->by_node[i] != NULL)
                        atomic_store(&server->by_node[i]->shut, false);
        pthread_mutex_unlock(&server->lock);
}

unsigned rem_home_server_changing(struct rem_home_server *server)
{
        unsigned i, n = 0;

        pthread_mutex_lock(&server->lock);
        for (i = 0; i < REM_HOME_NODES; i++)
                n += server->read_only != 0 && server->by_node[i] != NULL && !atomic_load(&server->by_node[i]->shut);
        pthread_mutex_unlock(&server->lock);
        return n + atomic_load(&server->changes); /* behind the sessions: a call is counted before its session is looked at */
}

/* Homes know from here on that they have no session, and send nothing more. */
static void server_close(struct lp_msg *msg)
{
        struct rem_home_server *server = container_of(msg, struct rem_home_server, close);
        struct home_session *s;

        if (server->stopped)
                return;
        eng_feed_freeze(server->options.store); /* homes may go by what they have for as long as their leases run */
        while ((s = LIST_FIRST(&server->sessions)) != NULL)
                session_end(server, s);
}

void rem_home_server_close(struct rem_home_server *server)
{
        if (atomic_exchange(&server->closing, true))
                return;
        server->close.run = server_close;
        lp_post(server->options.coordinator, &server->close);
}

unsigned rem_home_server_calls(struct rem_home_server *server)
{
        return atomic_load(&server->calls);
}

void rem_home_server_stop(struct rem_home_server *server)
{
        struct home_session *s;
        struct watching *w;

        server->stopped = true;
        while ((w = LIST_FIRST(&server->joining)) != NULL) {
                LIST_REMOVE(w, held);
                watching_end(w, HOME_NOT_NOW);
        }
        lp_timer_stop(server->options.coordinator, &server->join_timer);
        eng_home_watch(server->options.store, NULL, NULL);
        eng_homes_set(server->options.store, NULL);
        if (server->begun)
                lp_timer_stop(server->options.coordinator, &server->timer);
        while ((s = LIST_FIRST(&server->sessions)) != NULL)
                session_end(server, s);
        LIST_FOREACH (s, &server->ended, link)
                session_unpin_all(server, s);
}

void rem_home_server_free(struct rem_home_server *server)
{
        struct home_session *s;

        if (server == NULL)
                return;
        while ((s = LIST_FIRST(&server->ended)) != NULL) {
                LIST_REMOVE(s, link);
                session_put(s);
        }
        pthread_mutex_destroy(&server->lock);
        free(server);
}
