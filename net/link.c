/*
 * link.c - one connection to a peer: it is opened when a call wants it, greeted, kept, and opened
 * again after a rest that doubles from failure to failure.
 *
 * Called on the loop of the link. Every other link first asks the control link, maybe on another
 * loop, whether it can be plain and by which secret: without an authenticated control connection
 * there is no other connection.
 *
 *   IDLE -> (ASKING ->) OPENING -> OPEN -> RESTING -> ...      removed or stopped: IDLE
 */
#include "net/net_internal.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX   4096u
#define STEADY_NS     (1000 * NET_MS) /* a connection that lived so long was none that failed */
#define BACKOFF_SHARE 64u             /* of the longest rest: the first */

static struct net_loop *link_at(const struct net_link *link)
{
        return net_owner(link->peer, link->number);
}

static bool link_wanted(const struct net_link *link)
{
        const struct net_loop *at = link_at(link);

        return !at->stopped && net_part_of(link->peer, at)->known != NULL;
}

/* It is plain TCP, or does not open. */
static bool link_must_be_plain(const struct net_link *link)
{
        return link->peer->net->options.plain_bulk && link->number >= NET_BULK_0;
}

/* ---- rests ----------------------------------------------------------------------------------- */

static void link_rested(struct lp_timer *timer)
{
        struct net_link *link = container_of(timer, struct net_link, rest);

        link->state = NET_LINK_IDLE;
        net_link_open(link);
}

/* Half of it, and some of the other half, so that nodes that failed together do not come back together. */
static void link_rest(struct net_link *link, bool steady)
{
        uint64_t longest = link->peer->net->options.limits.backoff_ms * NET_MS, first = longest / BACKOFF_SHARE;
        uint64_t half;
        uint32_t chance;

        link->backoff_ns = steady || link->backoff_ns == 0  ? first
                           : link->backoff_ns * 2 < longest ? link->backoff_ns * 2
                                                            : longest;
        lp_random(&chance, sizeof(chance));
        half = link->backoff_ns / 2;
        link->state = NET_LINK_RESTING;
        link->rest.expired = link_rested;
        lp_timer_start(link_at(link)->lp, &link->rest, half + (half >> 16) * (chance >> 16));
}

/* ---- the control connection's secret --------------------------------------------------------- */

static void link_told(struct lp_msg *msg);

static void link_tell(struct net_link *control, struct net_link *other)
{
        const struct net_conn *conn = control->conn;

        other->secret_known = control->state == NET_LINK_OPEN && conn->has_secret;
        if (other->secret_known) {
                other->same_node = conn->stream->same_node;
                if (other->control_sequence != conn->sequence)
                        other->needs_tls = false;
                memcpy(other->secret, conn->secret, NET_SECRET_LEN);
                other->control_sequence = conn->sequence;
        }
        other->ask.run = link_told;
        lp_post(link_at(other)->lp, &other->ask);
}

static void link_tell_all(struct net_link *control)
{
        struct net_link *other;

        while ((other = control->asking) != NULL) {
                control->asking = other->asking;
                other->asking = NULL;
                link_tell(control, other);
        }
}

/* On the control link's loop. */
static void link_asked(struct lp_msg *msg)
{
        struct net_link *other = container_of(msg, struct net_link, ask), *control = &other->peer->links[NET_CONTROL];

        if (control->state == NET_LINK_RESTING) { /* who asks has rested itself */
                lp_timer_stop(link_at(control)->lp, &control->rest);
                control->state = NET_LINK_IDLE;
        }
        if (control->state == NET_LINK_IDLE)
                net_link_open(control);
        if (control->state == NET_LINK_OPENING) {
                other->asking = control->asking;
                control->asking = other;
        } else {
                link_tell(control, other);
        }
}

static void link_ask(struct net_link *link)
{
        link->state = NET_LINK_ASKING;
        if (link->ask_out)
                return; /* the answer to an earlier question is as good */
        link->ask_out = true;
        atomic_fetch_add(&link->peer->net->alive, 1);
        link->ask.run = link_asked;
        lp_post(net_owner(link->peer, NET_CONTROL)->lp, &link->ask);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* why NULL: it was said already. */
static void link_failed(struct net_link *link, const char *why)
{
        struct net_loop *at = link_at(link);
        const struct net_part *part = net_part_of(link->peer, at);

        net_count(at, NET_COUNT_failed, 1);
        if (part->known != NULL && !at->stopped && why != NULL)
                net_log(at, &link->quiet, "node %u (%s) at %s: cannot open the %s connection: %s", link->peer->node,
                        part->known->name, part->known->address, net_link_name(link->number), why);
        net_calls_fail(link, -ENOTCONN);
        if (link_wanted(link))
                link_rest(link, false);
        else
                link->state = NET_LINK_IDLE;
        link_tell_all(link);
}

static void link_connect(struct net_link *link)
{
        struct net_loop *at = link_at(link);
        struct net_transport *transport = at->net->options.transport;
        struct net_stream *stream;
        struct net_conn *conn;
        int rv = transport->ops->connect(transport, at->lp, net_part_of(link->peer, at)->known->address, !link->plain,
                                         &stream);

        if (rv != 0) {
                link_failed(link, strerror(-rv));
                return;
        }
        conn = net_conn_new(at, stream, &net_role_outbound);
        if (conn == NULL) {
                link_failed(link, "no memory");
                return;
        }
        conn->peer = link->peer;
        conn->link = link->number;
        conn->sequence = ++link->sequence;
        link->conn = conn;
        link->state = NET_LINK_OPENING;
}

void net_link_open(struct net_link *link)
{
        assert(link->state == NET_LINK_IDLE);
        if (!link_wanted(link))
                return;
        if (link->number == NET_CONTROL)
                link_connect(link);
        else
                link_ask(link);
}

static void link_told(struct lp_msg *msg)
{
        struct net_link *link = container_of(msg, struct net_link, ask);
        struct net *net = link->peer->net;

        link->ask_out = false;
        if (link->state == NET_LINK_ASKING) {
                link->plain = link_must_be_plain(link) || (link->same_node && !link->needs_tls);
                if (!link->secret_known || !link_wanted(link))
                        link_failed(link, "there is no control connection");
                else
                        link_connect(link);
        }
        atomic_fetch_sub(&net->alive, 1);
}

static void link_connect_now(struct lp_msg *msg)
{
        struct net_link *link = container_of(msg, struct net_link, connect);
        struct net *net = link->peer->net;
        bool opens = link->state == NET_LINK_IDLE && link->number < NET_BULK_0;

        atomic_store(&link->connect_out, false);
        if (link->state == NET_LINK_RESTING) {
                lp_timer_stop(link_at(link)->lp, &link->rest);
                link->backoff_ns = 0;
                link->state = NET_LINK_IDLE;
                opens = true;
        }
        if (opens)
                net_link_open(link);
        atomic_fetch_sub(&net->alive, 1);
}

void net_link_connect(struct net_link *link)
{
        if (atomic_exchange(&link->connect_out, true))
                return;
        atomic_fetch_add(&link->peer->net->alive, 1);
        link->connect.run = link_connect_now;
        lp_post(link_at(link)->lp, &link->connect);
}

void net_link_end(struct net_link *link, const char *why)
{
        assert(!link_wanted(link));
        lp_timer_stop(link_at(link)->lp, &link->rest);
        if (link->conn != NULL)
                net_conn_close(link->conn, why);
        link->state = NET_LINK_IDLE;
        net_calls_fail(link, -ENOTCONN);
        if (link->number == NET_CONTROL) /* of others `asking` belongs to that one's loop */
                link_tell_all(link);
}

void net_link_newer_boot(struct net_link *link, uint64_t boot)
{
        if (link->state == NET_LINK_OPEN && link->conn->boot < boot)
                net_conn_close(link->conn, "a newer process of the node runs");
}

void net_link_init(struct net_link *link, struct net_peer *peer, enum net_link_number number)
{
        link->peer = peer;
        link->number = number;
}

/* ---- greetings ------------------------------------------------------------------------------- */

static int outbound_refuse(struct net_conn *conn, int rv, const char *why)
{
        snprintf(conn->stream->why, sizeof(conn->stream->why), "%s", why);
        return rv;
}

static int outbound_shaken(struct net_conn *conn)
{
        struct net_link *link = &conn->peer->links[conn->link];
        const struct net_part *part = net_part_of(conn->peer, conn->at);
        const struct net_self *self = &conn->at->net->self;
        const struct net_transport_ops *ops = conn->stream->ops;
        bool plain = link->plain;
        struct net_wire_hello hello = {.generation = self->generation.number,
                                       .generation_random = self->generation.random,
                                       .node = self->node,
                                       .to = conn->peer->node,
                                       .link = (uint8_t)conn->link,
                                       .version_min = NET_VERSION_LEAST,
                                       .version_max = NET_VERSION_NEWEST,
                                       .flags = plain ? NET_HELLO_PLAIN : 0,
                                       .boot = self->boot,
                                       .sequence = conn->sequence,
                                       .wall_ms = lp_wall_ms(),
                                       .control_sequence = plain ? link->control_sequence : 0};
        struct net_secrets secrets;
        size_t len = NET_HELLO_SIZE;

        if (conn->stream->tls == plain)
                return outbound_refuse(conn, -EPROTO, plain ? "TLS on a plain connection" : "no TLS");
        if (plain && !link_must_be_plain(link) && !conn->stream->same_node) {
                link->needs_tls = true;
                return outbound_refuse(conn, -EPROTO, "it is not within the node");
        }
        if (!plain && !ops->is_named(conn->stream, part->known->name))
                return outbound_refuse(conn, -EACCES, "its certificate is not for its name");
        if (!plain && ops->export_secret(conn->stream, conn->secret) != 0)
                return outbound_refuse(conn, -EPROTO, "no secret");
        if (plain)
                memcpy(conn->secret, link->secret, NET_SECRET_LEN);
        conn->has_secret = true;
        memcpy(hello.cluster, self->cluster, NET_CLUSTER_LEN);
        lp_random(conn->to.nonce, sizeof(conn->to.nonce));
        memcpy(hello.nonce, conn->to.nonce, sizeof(hello.nonce));
        if (plain) {
                net_hello_write(&hello, conn->secret, conn->greeting_bytes);
        } else {
                net_secrets_read(conn->at->net, &secrets);
                len = net_hello_write_secrets(&hello, &secrets, conn->greeting_bytes);
        }
        memcpy(conn->hello_mac, net_greeting_mac(conn->greeting_bytes, len), NET_MAC_LEN);
        net_conn_greet(conn, len);
        return 0;
}

static int outbound_head(struct net_conn *conn)
{
        if (conn->state == NET_CONN_OPEN)
                return net_calls_reply_head(conn);
        if (conn->head.kind != NET_FRAME_WELCOME && conn->head.kind != NET_FRAME_REFUSED)
                return -EBADMSG;
        conn->body = malloc(conn->head.body_len + 1); /* of at most NET_GREET_MAX; none is none, not NULL */
        return conn->body != NULL ? 0 : -ENOMEM;
}

static int outbound_entries(struct net_conn *conn, unsigned count)
{
        unsigned i;

        count = count < ENTRIES_MAX ? count : ENTRIES_MAX;
        conn->to.entries = calloc(count, sizeof(*conn->to.entries));
        if (conn->to.entries == NULL)
                return -ENOMEM;
        conn->to.entry_count = count;
        for (i = 0; i < count; i++)
                conn->to.entries[i].next_free = (uint16_t)(i + 1);
        return 0;
}

/* What WELCOME says about the other end is what was expected. */
static int welcome_judge(struct net_conn *conn, const struct net_wire_welcome *welcome)
{
        const struct net_self *self = &conn->at->net->self;
        bool plain = conn->peer->links[conn->link].plain;

        if (CRYPTO_memcmp(welcome->nonce, conn->to.nonce, sizeof(welcome->nonce)) != 0 || welcome->to != self->node)
                return -EBADMSG;
        if (plain && !net_welcome_proves(conn->body, conn->head.body_len, conn->secret, conn->hello_mac))
                return outbound_refuse(conn, -EACCES, "it does not know the secret of the control connection");
        if (welcome->node != conn->peer->node)
                return outbound_refuse(conn, -EACCES, "another node answers there");
        if (welcome->boot < atomic_load(&conn->peer->boot))
                return outbound_refuse(conn, -EACCES, "the node runs twice, or an old process of it answers");
        return 0;
}

static int outbound_welcome(struct net_conn *conn)
{
        struct net_link *link = &conn->peer->links[conn->link];
        const struct net_part *part = net_part_of(conn->peer, conn->at);
        struct net_wire_welcome welcome;
        int rv = net_welcome_read(conn->body, conn->head.body_len, &welcome);

        if (rv == 0)
                rv = welcome_judge(conn, &welcome);
        if (rv == 0)
                rv = outbound_entries(conn, welcome.requests);
        if (rv != 0)
                return rv;
        conn->version = (uint16_t)welcome.version;
        conn->boot = welcome.boot;
        conn->to.lane_bytes = welcome.lane_bytes;
        conn->to.body_max = welcome.body_max;
        conn->state = NET_CONN_OPEN;
        conn->ping = lp_now(conn->at->lp);
        link->state = NET_LINK_OPEN;
        link->opened = conn->ping;
        net_peer_raise_boot(conn->peer, welcome.boot);
        atomic_store(&conn->peer->features, welcome.features);
        atomic_store(&conn->peer->heard, conn->heard);
        atomic_store(&conn->peer->refused, NET_REASON_NONE);
        atomic_fetch_add(&conn->peer->open, 1);
        net_count(conn->at, NET_COUNT_opened, 1);
        if (conn->link == NET_CONTROL)
                net_log(conn->at, NULL, "node %u (%s) at %s: connected, its boot is %llu", conn->peer->node,
                        part->known->name, conn->stream->remote, (unsigned long long)conn->boot);
        link_tell_all(link);
        net_calls_pump(link);
        return 0;
}

static int outbound_refused(struct net_conn *conn)
{
        const struct net_part *part = net_part_of(conn->peer, conn->at);
        struct net_wire_refused refused;
        char text[200];

        if (net_refused_read(conn->body, conn->head.body_len, &refused) != 0)
                return -EBADMSG;
        conn->refusal = refused;
        if (refused.reason == NET_REASON_PLAIN)
                conn->peer->links[conn->link].needs_tls = true;
        net_reason_text(&refused, text, sizeof(text));
        atomic_store(&conn->peer->refused, refused.reason < NET_REASONS_END ? refused.reason : NET_REASON_NONE);
        net_log(conn->at, &conn->peer->links[conn->link].quiet, "node %u (%s) at %s refuses this node: %s",
                conn->peer->node, part->known->name, conn->stream->remote, text);
        return outbound_refuse(conn, -EACCES, "refused");
}

static int outbound_frame(struct net_conn *conn)
{
        int rv;

        if (conn->state == NET_CONN_OPEN)
                return net_calls_reply(conn);
        rv = conn->head.kind == NET_FRAME_WELCOME ? outbound_welcome(conn) : outbound_refused(conn);
        free(conn->body);
        conn->body = NULL;
        return rv;
}

/* ---- the end of a connection ----------------------------------------------------------------- */

static void outbound_closed(struct net_conn *conn, const char *why)
{
        struct net_link *link = &conn->peer->links[conn->link];
        struct net_loop *at = conn->at;
        const struct net_part *part = net_part_of(conn->peer, at);
        bool steady;

        net_calls_lost(link, conn);
        link->conn = NULL;
        if (link->state != NET_LINK_OPEN) {
                link_failed(link, conn->refusal.reason == NET_REASON_NONE ? why : NULL);
                return;
        }
        net_count(at, NET_COUNT_lost, 1);
        atomic_fetch_sub(&conn->peer->open, 1);
        steady = lp_now(at->lp) - link->opened > STEADY_NS;
        if (part->known != NULL && !at->stopped)
                net_log(at, &link->quiet, "node %u (%s): the %s connection to it ended: %s", conn->peer->node,
                        part->known->name, net_link_name(conn->link), why);
        if (link_wanted(link))
                link_rest(link, steady);
        else
                link->state = NET_LINK_IDLE;
        net_calls_fail(link, -ENOTCONN);
}

const struct net_role net_role_outbound = {
        .shaken = outbound_shaken,
        .head = outbound_head,
        .bulk = net_calls_reply_bulk,
        .frame = outbound_frame,
        .closed = outbound_closed,
};
