/*
 * sim_net.c - see sim_net.h.
 *
 * Arrivals are the world's events; ready() is an event of the process whose end it is. A connection
 * is freed when both ends are closed and no event points to it.
 */
#include "tests/sim/nodes/sim_net.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS_MAX     8u
#define WINDOW        (256u << 10)
#define NS_PER_BYTE   8u
#define RETRY_NS      (200 * SIM_MS) /* what was lost is sent again after so long, at least */
#define BEAT_MAX      80u /* bytes */
#define READY_NS      (5 * SIM_US)
#define TAIL_IN       60 /* pieces, of which one takes long */
#define TAIL_NS       (300 * SIM_MS)

struct sim_net_figures sim_net_figures;

enum piece_kind { PIECE_BYTES, PIECE_END, PIECE_RESET };

struct piece {
        struct piece *next;
        uint64_t due;
        uint32_t len, at;
        enum piece_kind kind;
        uint8_t bytes[];
};

struct row {
        struct piece *first, **last;
};

struct party {
        struct net_transport base; /* first */
        uint16_t number;
        unsigned process, host;
        bool alive;
        struct net_listener *listener;
        struct lp_loop *loop;
};

/* One end of a connection. */
struct net_end {
        struct net_stream base; /* first */
        struct conn *conn;
        struct party *party;
        struct row flying, come; /* to this end */
        uint64_t busy_until;     /* when the last piece on its way arrives */
        size_t bytes;            /* in both rows */
        bool there;              /* it exists: a process has it, or had it */
        bool closed, gone;       /* by its process; with its process */
        bool shaken, receives, sends, arriving, waking;
        int failed;              /* how connecting went */
        bool connected;
};

struct conn {
        struct net_end ends[2]; /* who connected, who accepted */
        struct conn *next, **prev;
        unsigned refs; /* events */
        bool tls;
        uint64_t stalled_until;
        uint8_t secret[NET_EXPORT_LEN];
};

static struct party parties[SIM_PROCESSES];
static bool host_on[HOSTS_MAX];
static uint64_t cut_until[HOSTS_MAX][HOSTS_MAX]; /* from and to */
static uint64_t latencies[SIM_PROCESSES][SIM_PROCESSES];
static struct conn *conns;
static bool flip_next, prompt;
static struct {
        unsigned frames; /* until a connection is reset; 0: none is */
        bool under_way;
        uint64_t late_ns;
} armed;

static const struct net_transport_ops sim_net_ops;

static void armed_count(const struct net_end *to, const struct piece *piece);
static void end_wake(struct net_end *e);
static void end_expect(struct net_end *e);

/* ---- rows ------------------------------------------------------------------------------------ */

static struct net_end *other_end(const struct net_end *e)
{
        return &e->conn->ends[e == &e->conn->ends[0]];
}

static void row_init(struct row *row)
{
        row->first = NULL;
        row->last = &row->first;
}

static void row_add(struct row *row, struct piece *piece)
{
        piece->next = NULL;
        *row->last = piece;
        row->last = &piece->next;
}

static struct piece *row_take(struct row *row)
{
        struct piece *piece = row->first;

        row->first = piece->next;
        if (row->first == NULL)
                row->last = &row->first;
        return piece;
}

static void row_clear(struct net_end *e, struct row *row)
{
        while (row->first != NULL) {
                struct piece *piece = row_take(row);

                e->bytes -= piece->len - piece->at;
                free(piece);
        }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void conn_release(struct conn *c)
{
        unsigned i;

        for (i = 0; i < 2; i++)
                if (c->ends[i].there && !c->ends[i].closed && !c->ends[i].gone)
                        return;
        if (c->refs > 0 || c->ends[0].flying.first != NULL || c->ends[1].flying.first != NULL)
                return;
        for (i = 0; i < 2; i++)
                row_clear(&c->ends[i], &c->ends[i].come);
        *c->prev = c->next;
        if (c->next != NULL)
                c->next->prev = c->prev;
        free(c);
}

void sim_net_begin(void)
{
        unsigned i, j;

        while (conns != NULL) { /* of a history that is over */
                struct conn *c = conns;

                conns = c->next;
                for (i = 0; i < 2; i++) {
                        row_clear(&c->ends[i], &c->ends[i].come);
                        row_clear(&c->ends[i], &c->ends[i].flying);
                }
                free(c);
        }
        memset(parties, 0, sizeof(parties));
        memset(cut_until, 0, sizeof(cut_until));
        flip_next = prompt = false;
        memset(&armed, 0, sizeof(armed));
        for (i = 0; i < HOSTS_MAX; i++)
                host_on[i] = true;
        for (i = 0; i < SIM_PROCESSES; i++)
                for (j = 0; j <= i; j++)
                        latencies[i][j] = latencies[j][i] = sim_skewed(SIM_NET, 20 * SIM_US, 2 * SIM_MS);
}

void sim_net_prompt(void)
{
        prompt = true;
}

void sim_net_slow(uint64_t least_ns, uint64_t most_ns)
{
        unsigned i, j;

        for (i = 0; i < SIM_PROCESSES; i++)
                for (j = 0; j <= i; j++)
                        latencies[i][j] = latencies[j][i] = least_ns + sim_below(SIM_NET, most_ns - least_ns);
}

bool sim_net_is_prompt(void)
{
        return prompt;
}

void sim_net_name(unsigned process, uint16_t party, unsigned host)
{
        parties[process] = (struct party){.number = party, .process = process, .host = host};
}

struct net_transport *sim_net_party(unsigned process, uint16_t party, unsigned host)
{
        struct party *p = &parties[process];

        assert(process < SIM_PROCESSES && host < HOSTS_MAX && !p->alive);
        *p = (struct party){.base = {.ops = &sim_net_ops}, .number = party, .process = process, .host = host, .alive = true};
        return &p->base;
}

/* ---- on the way ------------------------------------------------------------------------------ */

static uint64_t sim_net_latency(unsigned from, unsigned to)
{
        uint64_t usual = parties[from].host == parties[to].host ? 15 * SIM_US : latencies[from][to];

        if (!prompt && sim_chance(SIM_NET, TAIL_IN))
                return sim_skewed(SIM_NET, usual, TAIL_NS);
        return usual + sim_below(SIM_NET, usual);
}

/* To this end, behind all that is on its way there. */
static void end_send(struct net_end *to, struct piece *piece)
{
        uint64_t due = sim.now + sim_net_latency(other_end(to)->party->process, to->party->process);

        if (due <= to->busy_until)
                due = to->busy_until + (uint64_t)piece->len * NS_PER_BYTE + 1;
        to->busy_until = piece->due = due;
        row_add(&to->flying, piece);
        end_expect(to);
}

static void end_say(struct net_end *to, enum piece_kind kind)
{
        struct piece *piece = calloc(1, sizeof(*piece));

        assert(piece != NULL);
        piece->kind = kind;
        if (to->there && !to->closed && !to->gone)
                end_send(to, piece);
        else
                free(piece);
}

/* When the first piece may arrive, if it can't now; 0: it can. */
static uint64_t held_until(const struct net_end *to)
{
        const struct net_end *from = other_end(to);
        uint64_t cut = cut_until[from->party->host][to->party->host];

        if (cut > sim.now)
                return cut;
        if (to->conn->stalled_until > sim.now)
                return to->conn->stalled_until;
        return host_on[to->party->host] ? 0 : sim.now + SIM_S;
}

/* What arrives where nobody has the stream any more is answered with a reset. */
static void arrive_nowhere(struct net_end *to)
{
        bool any = false;

        while (to->flying.first != NULL && to->flying.first->due <= sim.now) {
                struct piece *piece = row_take(&to->flying);

                any |= piece->kind == PIECE_BYTES;
                to->bytes -= piece->len - piece->at;
                free(piece);
        }
        if (any)
                end_say(other_end(to), PIECE_RESET);
}

static void end_arrives(void *arg)
{
        struct net_end *to = arg;
        uint64_t held = held_until(to);

        to->arriving = false;
        to->conn->refs--;
        if (to->flying.first == NULL) {
                conn_release(to->conn);
                return;
        }
        if (held != 0) {
                to->flying.first->due = held + RETRY_NS / 4 + sim_below(SIM_NET, RETRY_NS);
        } else if (to->closed || to->gone) {
                arrive_nowhere(to);
        } else {
                while (to->flying.first != NULL && to->flying.first->due <= sim.now) {
                        if (to->flying.first->kind == PIECE_RESET && sim_chance(SIM_NET, 2))
                                row_clear(to, &to->come); /* what was not read is lost with it */
                        row_add(&to->come, row_take(&to->flying));
                }
                end_wake(to);
        }
        end_expect(to);
        conn_release(to->conn);
}

static void end_expect(struct net_end *e)
{
        unsigned before;

        if (e->arriving || e->flying.first == NULL)
                return;
        e->arriving = true;
        e->conn->refs++;
        before = sim_enter(0);
        sim_at(e->flying.first->due > sim.now ? e->flying.first->due - sim.now : 0, NULL, end_arrives, e);
        sim_enter(before);
}

/* ---- ready() --------------------------------------------------------------------------------- */

static bool has_room(const struct net_end *e)
{
        const struct net_end *to = other_end(e);

        return to->bytes < WINDOW || (e->come.first != NULL && e->come.first->kind == PIECE_RESET);
}

static bool is_ready(const struct net_end *e)
{
        if (!e->there || e->closed || e->gone || e->base.loop == NULL || e->base.ready == NULL)
                return false;
        if (!e->connected && e->failed == 0)
                return false;
        return !e->shaken || (e->receives && e->come.first != NULL) || (e->sends && has_room(e));
}

static void end_woken(void *arg)
{
        struct net_end *e = arg;

        e->waking = false;
        if (is_ready(e) && sim.self == e->base.loop)
                e->base.ready(&e->base);
        end_wake(e);
        e->conn->refs--;
        conn_release(e->conn);
}

/* The reference is dropped by the event, or when the process dies. */
static void end_wake(struct net_end *e)
{
        unsigned before;

        if (e->waking || !is_ready(e))
                return;
        e->waking = true;
        e->conn->refs++;
        before = sim_enter(e->party->process);
        sim_at(READY_NS + sim_below(SIM_NET, 2 * READY_NS), e->base.loop, end_woken, e);
        sim_enter(before);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static struct party *party_named(const char *name)
{
        unsigned number, i;

        if (sscanf(name, "node-%u", &number) != 1)
                return NULL;
        for (i = 0; i < SIM_PROCESSES; i++)
                if (parties[i].number == number)
                        return &parties[i];
        return NULL;
}

static void end_init(struct net_end *e, struct conn *c, struct party *party)
{
        e->conn = c;
        e->party = party;
        e->base.ops = &sim_net_ops;
        e->base.tls = c->tls;
        e->receives = true;
        row_init(&e->flying);
        row_init(&e->come);
        snprintf(e->base.remote, sizeof(e->base.remote), "10.0.0.%u:1", other_end(e)->party->number);
}

/* In the process that listens, on its loop. */
static void conn_accept(void *arg)
{
        struct conn *c = arg;
        struct net_end *e = &c->ends[1];
        struct party *party = e->party;

        if (!e->gone && party->listener != NULL) {
                e->base.loop = party->loop;
                party->listener->accepted(party->listener, &e->base);
                end_wake(e);
        } else {
                e->closed = true;
                end_say(&c->ends[0], PIECE_RESET);
        }
        c->refs--;
        conn_release(c);
}

/* The other host has, or has not, answered. */
static void conn_connects(void *arg)
{
        struct conn *c = arg;
        struct net_end *near = &c->ends[0], *far = &c->ends[1];
        struct party *to = far->party, *from = near->party;
        uint64_t cut = cut_until[from->host][to->host], back = cut_until[to->host][from->host];

        c->refs--;
        if (near->closed || near->gone) {
                conn_release(c);
                return;
        }
        cut = cut > back ? cut : back;
        if (cut > sim.now || !host_on[to->host]) {
                c->refs++;
                sim_at(cut > sim.now ? cut - sim.now + SIM_MS : SIM_S, NULL, conn_connects, c);
                return;
        }
        if (!to->alive || to->listener == NULL) {
                near->failed = -ECONNREFUSED;
                sim_net_figures.refused++;
                end_wake(near);
                return;
        }
        far->there = far->connected = near->connected = true;
        sim_net_figures.streams++;
        end_wake(near);
        c->refs++;
        sim_enter(to->process);
        sim_at(READY_NS, to->loop, conn_accept, c);
        sim_enter(0);
}

static int sim_connect(struct net_transport *transport, struct lp_loop *loop, const char *address, bool tls, struct net_stream **out)
{
        struct party *from = (struct party *)transport, *to = party_named(address);
        struct conn *c = calloc(1, sizeof(*c));
        unsigned before;

        assert(c != NULL && to != NULL);
        c->tls = tls;
        lp_random(c->secret, sizeof(c->secret));
        c->ends[0].party = from;
        c->ends[1].party = to;
        end_init(&c->ends[0], c, from);
        end_init(&c->ends[1], c, to);
        c->ends[0].there = true;
        c->ends[0].base.loop = loop;
        c->next = conns;
        c->prev = &conns;
        if (conns != NULL)
                conns->prev = &c->next;
        conns = c;
        c->refs++;
        before = sim_enter(0);
        sim_at(2 * sim_net_latency(from->process, to->process), NULL, conn_connects, c);
        sim_enter(before);
        *out = &c->ends[0].base;
        return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static struct net_end *end_of(struct net_stream *stream)
{
        return (struct net_end *)stream;
}

static int sim_listen(struct net_transport *transport, struct lp_loop *loop, struct net_listener *listener, char *address, size_t size)
{
        struct party *p = (struct party *)transport;

        p->listener = listener;
        p->loop = loop;
        return 0;
}

static void sim_unlisten(struct net_transport *transport, struct net_listener *listener)
{
        ((struct party *)transport)->listener = NULL;
}

static int sim_handshake(struct net_stream *stream)
{
        struct net_end *e = end_of(stream);

        if (e->failed != 0)
                return e->failed;
        e->shaken = e->connected;
        return e->connected ? 1 : 0;
}

static bool sim_is_named(struct net_stream *stream, const char *name)
{
        char shown[32];

        snprintf(shown, sizeof(shown), "node-%u", other_end(end_of(stream))->party->number);
        return stream->tls && strcmp(shown, name) == 0;
}

static int sim_export(struct net_stream *stream, uint8_t out[NET_EXPORT_LEN])
{
        memcpy(out, end_of(stream)->conn->secret, NET_EXPORT_LEN);
        return stream->tls ? 0 : -EPROTO;
}

static ssize_t sim_receive(struct net_stream *stream, const struct iovec *pieces, unsigned count)
{
        struct net_end *e = end_of(stream);
        size_t sum = 0, at = 0;
        unsigned i = 0;

        if (e->come.first == NULL)
                return -EAGAIN;
        while (i < count && e->come.first != NULL && e->come.first->kind == PIECE_BYTES) {
                struct piece *piece = e->come.first;
                size_t left = piece->len - piece->at, n = pieces[i].iov_len - at < left ? pieces[i].iov_len - at : left;

                if (n > 0)
                        memcpy((uint8_t *)pieces[i].iov_base + at, piece->bytes + piece->at, n);
                piece->at += (uint32_t)n;
                sum += n;
                at += n;
                if (piece->at == piece->len)
                        free(row_take(&e->come));
                if (at == pieces[i].iov_len) {
                        i++;
                        at = 0;
                }
        }
        e->bytes -= sum;
        if (sum > 0) {
                end_wake(other_end(e));
                return (ssize_t)sum;
        }
        if (e->come.first == NULL || e->come.first->kind == PIECE_BYTES)
                return -EAGAIN;
        return e->come.first->kind == PIECE_RESET ? -ECONNRESET : 0;
}

static void piece_flip(struct piece *piece)
{
        uint64_t bit = sim_below(SIM_NET, 8 * (uint64_t)piece->len);

        flip_next = false;
        sim_net_figures.flips++;
        sim_trace("  a bit of %u bytes flips", piece->len);
        piece->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

static ssize_t sim_send(struct net_stream *stream, const struct iovec *pieces, unsigned count)
{
        struct net_end *e = end_of(stream), *to = other_end(e);
        size_t room = to->bytes < WINDOW ? WINDOW - to->bytes : 0, sum = 0;
        struct piece *piece;
        unsigned i;

        if (e->come.first != NULL && e->come.first->kind == PIECE_RESET)
                return -ECONNRESET;
        for (i = 0; i < count; i++)
                sum += pieces[i].iov_len;
        if (sum > room)
                sum = room;
        if (sum == 0)
                return -EAGAIN;
        piece = malloc(sizeof(*piece) + sum);
        assert(piece != NULL);
        *piece = (struct piece){.len = (uint32_t)sum};
        for (i = 0, sum = 0; i < count && sum < piece->len; i++) {
                size_t n = pieces[i].iov_len < piece->len - sum ? pieces[i].iov_len : piece->len - sum;

                memcpy(piece->bytes + sum, pieces[i].iov_base, n);
                sum += n;
        }
        if (flip_next)
                piece_flip(piece);
        to->bytes += sum;
        sim_net_figures.bytes += sum;
        end_send(to, piece);
        armed_count(to, piece);
        return (ssize_t)sum;
}

static void sim_want(struct net_stream *stream, bool receive, bool send)
{
        struct net_end *e = end_of(stream);

        e->receives = receive;
        e->sends = send;
        end_wake(e);
}

static void sim_leave(struct net_stream *stream)
{
        stream->loop = NULL;
}

static int sim_join(struct net_stream *stream, struct lp_loop *loop)
{
        stream->loop = loop;
        end_wake(end_of(stream));
        return 0;
}

/* What was sent still arrives; what was not read makes a reset of the end. */
static void sim_close(struct net_stream *stream)
{
        struct net_end *e = end_of(stream);
        bool unread = e->come.first != NULL && e->come.first->kind == PIECE_BYTES;

        e->closed = true;
        e->base.ready = NULL;
        row_clear(e, &e->come);
        if (e->connected)
                end_say(other_end(e), unread ? PIECE_RESET : PIECE_END);
        conn_release(e->conn);
}

static const struct net_transport_ops sim_net_ops = {
        .listen = sim_listen,
        .unlisten = sim_unlisten,
        .connect = sim_connect,
        .handshake = sim_handshake,
        .is_named = sim_is_named,
        .export_secret = sim_export,
        .receive = sim_receive,
        .send = sim_send,
        .want = sim_want,
        .leave = sim_leave,
        .join = sim_join,
        .close = sim_close,
};

/* ---- processes and hosts --------------------------------------------------------------------- */

static void end_killed(struct net_end *e, bool told)
{
        struct net_end *to = other_end(e);

        e->gone = true;
        e->base.ready = NULL;
        e->conn->refs -= e->waking;
        e->waking = false;
        row_clear(e, &e->come);
        if (!told) {
                row_clear(to, &to->flying); /* its host had them still */
                return;
        }
        if (e->connected)
                end_say(to, sim_chance(SIM_NET, 2) ? PIECE_RESET : PIECE_END);
}

void sim_net_killed(unsigned process, bool told)
{
        struct conn *c, *next;
        unsigned i;

        parties[process].alive = false;
        parties[process].listener = NULL;
        for (c = conns; c != NULL; c = next) {
                next = c->next;
                for (i = 0; i < 2; i++) {
                        if (c->ends[i].party->process != process || c->ends[i].closed || c->ends[i].gone)
                                continue;
                        if (c->ends[i].there)
                                end_killed(&c->ends[i], told);
                        if (i == 1 && c->ends[1].there && c->ends[1].base.loop == NULL && !c->ends[1].shaken)
                                c->refs--; /* it was to be accepted */
                }
                conn_release(c);
        }
}

void sim_net_host(unsigned host, bool on)
{
        host_on[host] = on;
}

/* ---- faults ---------------------------------------------------------------------------------- */

void sim_net_cut(unsigned from, unsigned to, uint64_t ns)
{
        if (cut_until[from][to] < sim.now + ns)
                cut_until[from][to] = sim.now + ns;
        sim_net_figures.cuts++;
}

void sim_net_heal(void)
{
        struct conn *c;

        memset(cut_until, 0, sizeof(cut_until));
        for (c = conns; c != NULL; c = c->next)
                c->stalled_until = 0;
        flip_next = false;
        armed.frames = 0;
}

static struct conn *any_conn(void)
{
        struct conn *c, *found = NULL;
        unsigned n = 0;

        for (c = conns; c != NULL; c = c->next) {
                const struct net_end *a = &c->ends[0], *b = &c->ends[1];

                if (a->connected && !a->closed && !a->gone && b->base.loop != NULL && !b->closed && !b->gone &&
                    sim_below(SIM_NET, ++n) == 0)
                        found = c;
        }
        return found;
}

static void conn_reset(void *arg)
{
        struct conn *c = arg;
        struct net_end *late = &c->ends[c->ends[1].flying.first != NULL], *now = other_end(late);
        struct piece *piece;

        armed.under_way = false;
        c->refs--;
        if (now->closed || now->gone || late->closed || late->gone || late->base.loop == NULL) {
                conn_release(c);
                return;
        }
        sim_trace("  a connection of node %u and node %u is reset at the first's end, %.3f s later at the other", now->party->number,
                  late->party->number, (double)armed.late_ns / 1e9);
        sim_net_figures.resets++;
        sim_net_figures.late += late->flying.first != NULL;
        row_clear(now, &now->come);
        row_clear(now, &now->flying);
        piece = calloc(1, sizeof(*piece));
        assert(piece != NULL);
        piece->kind = PIECE_RESET;
        row_add(&now->come, piece);
        end_wake(now);
        for (piece = late->flying.first; piece != NULL; piece = piece->next)
                piece->due += armed.late_ns;
        late->busy_until = (sim.now > late->busy_until ? sim.now : late->busy_until) + armed.late_ns;
        end_say(late, PIECE_RESET);
}

/* One more frame is on its way to this end. */
static void armed_count(const struct net_end *to, const struct piece *piece)
{
        unsigned before;

        if (armed.frames == 0 || piece->len <= BEAT_MAX || --armed.frames > 0)
                return;
        armed.under_way = true;
        to->conn->refs++;
        before = sim_enter(0);
        sim_at(sim_below(SIM_NET, piece->due - sim.now), NULL, conn_reset, to->conn);
        sim_enter(before);
}

void sim_net_arm(unsigned frames, uint64_t late_ns)
{
        armed.frames = frames;
        armed.late_ns = late_ns;
}

bool sim_net_armed(void)
{
        return armed.frames > 0 || armed.under_way;
}

bool sim_net_stall(uint64_t ns)
{
        struct conn *c = any_conn();

        if (c == NULL)
                return false;
        sim_trace("  a connection of node %u and node %u stalls for %.3f s", c->ends[0].party->number, c->ends[1].party->number,
                  (double)ns / 1e9);
        sim_net_figures.stalls++;
        c->stalled_until = sim.now + ns;
        return true;
}

bool sim_net_flip(void)
{
        flip_next = true;
        return true;
}
