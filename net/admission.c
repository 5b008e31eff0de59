/*
 * admission.c - strangers: they connect, say HELLO, and are refused or become the inbound connection
 * of a peer's link.
 *
 * Called on the first loop, which listens; the last part on the loop of the link. Strangers are
 * bounded in number, also those from one address, and in time. Nobody who has shown no certificate
 * of our CA, or the secret of a session that had one, is told anything.
 *
 * Admission. A connection that says a HELLO that is right is not read from any more; it becomes a
 * message, which visits all loops and is admitted by the loop of its link. On its way it closes
 * what is older: connections of and to older boots of that node on every loop, and the older one of
 * the same link. So before the first request of the newer connection is read, no loop reads from an
 * older one, and old bytes that come late find their connection closed. (Rule R11 of the page.)
 *
 *   first loop        control's loop      every loop, in order     link's loop        first loop
 *   hello judged -->  plain: MAC      --> older ones closed    --> WELCOME, or    --> REFUSED
 */
#include "net/net_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- strangers ------------------------------------------------------------------------------- */

/* Length of an address without its port. */
static size_t host_len(const char *remote)
{
        const char *colon = strrchr(remote, ':');

        return colon != NULL ? (size_t)(colon - remote) : strlen(remote);
}

static bool same_host(const char *a, const char *b)
{
        size_t len = host_len(a);

        return len == host_len(b) && memcmp(a, b, len) == 0;
}

/* Makes room for one more. Among too many, of an address or of all, the oldest goes, which is hardly one of a node. */
static bool guest_fits(struct net_loop *at, const struct net_stream *stream)
{
        const struct net_limits *limits = &at->net->options.limits;
        struct net_conn *conn, *oldest = NULL, *oldest_of_address = NULL;
        unsigned of_address = 0;

        for (conn = at->conns; conn != NULL; conn = conn->next) {
                if (conn->role != &net_role_guest || conn->state == NET_CONN_ADMISSION)
                        continue;
                if (oldest == NULL || conn->began <= oldest->began)
                        oldest = conn;
                if (!same_host(conn->stream->remote, stream->remote))
                        continue;
                of_address++;
                if (oldest_of_address == NULL || conn->began <= oldest_of_address->began)
                        oldest_of_address = conn;
        }
        if (of_address >= limits->guests_of_address)
                oldest = oldest_of_address;
        else if (atomic_load(&at->net->guests) < limits->guests)
                return true;
        if (oldest == NULL)
                return false;
        net_conn_close(oldest, "too many others connect");
        return true;
}

void net_accepted(struct net_listener *listener, struct net_stream *stream)
{
        struct net *net = container_of(listener, struct net, listener);
        struct net_loop *at = &net->loops[0];

        if (at->stopped || !guest_fits(at, stream)) {
                net_count(at, NET_COUNT_refused, 1);
                net_log(at, &at->strangers, "%s: refused: too many connections are being opened", stream->remote);
                stream->ops->close(stream);
                return;
        }
        if (net_conn_new(at, stream, &net_role_guest) != NULL)
                atomic_fetch_add(&net->guests, 1);
}

static int guest_shaken(struct net_conn *conn)
{
        return 0;
}

static int guest_head(struct net_conn *conn)
{
        if (conn->head.kind != NET_FRAME_HELLO || conn->state != NET_CONN_GREETING)
                return -EBADMSG;
        conn->body = malloc(conn->head.body_len + 1);
        return conn->body != NULL ? 0 : -ENOMEM;
}

static int guest_bulk(struct net_conn *conn)
{
        return -EBADMSG; /* a greeting has none */
}

/* ---- refusing -------------------------------------------------------------------------------- */

static void guest_refuse(struct net_conn *conn)
{
        struct net_loop *at = conn->at;
        struct net_part *part = conn->peer != NULL ? net_part_of(conn->peer, at) : NULL;
        char text[200];

        net_reason_text(&conn->refusal, text, sizeof(text));
        net_log(at, part != NULL ? &part->quiet : &at->strangers, "%s, which says it is node %u: refused: %s",
                conn->stream->remote, conn->hello.node, text);
        conn->state = NET_CONN_LEAVING;
        net_refused_write(&conn->refusal, conn->greeting_bytes);
        net_conn_greet(conn, NET_REFUSED_SIZE);
}

static void refusal_set(struct net_conn *conn, enum net_reason reason, uint64_t theirs, uint64_t ours)
{
        conn->refusal = (struct net_wire_refused){.reason = reason, .theirs = theirs, .ours = ours};
}

static void guest_closed(struct net_conn *conn, const char *why)
{
        atomic_fetch_sub(&conn->at->net->guests, 1);
        net_count(conn->at, NET_COUNT_refused, 1);
        if (conn->refusal.reason == NET_REASON_NONE && why != NULL && !conn->at->stopped)
                net_log(conn->at, &conn->at->strangers, "%s: turned away: %s", conn->remote, why);
}

/* ---- admission ------------------------------------------------------------------------------- */

/* 'None' in the refusal: so far so good. */
static bool admission_goes_on(const struct net_conn *conn)
{
        return conn->refusal.reason == NET_REASON_NONE;
}

/* First loop. */
static void admission_home(struct lp_msg *msg)
{
        struct net_conn *conn = container_of(msg, struct net_conn, tour.msg);
        struct net_loop *first = &conn->tour.net->loops[0];

        if (net_conn_join(conn, first) != 0 || first->stopped)
                net_conn_close(conn, NULL);
        else
                guest_refuse(conn);
}

/*
 * The link's loop: this connection is the newest that was admitted here, and the peer is known still.
 * If it was removed and is known again, this is a connection of what was removed.
 */
static bool admission_stands(const struct net_conn *conn, const struct net_loop *at)
{
        const struct net_part *part = net_part_of(conn->peer, at);

        return !at->stopped && part->known != NULL && part->removals == conn->removals && part->boot == conn->boot &&
               conn->peer->inbound[conn->link].seen == conn->sequence;
}

static void inbound_begin(struct net_conn *conn)
{
        const struct net_limits *limits = &conn->at->net->options.limits;
        const struct net_self *self = &conn->at->net->self;
        bool plain = (conn->hello.flags & NET_HELLO_PLAIN) != 0;
        struct net_wire_welcome welcome = {.node = self->node,
                                           .to = conn->peer->node,
                                           .version = conn->version,
                                           .boot = self->boot,
                                           .wall_ms = lp_wall_ms(),
                                           .lane_bytes = limits->lane_bytes,
                                           .body_max = NET_BODY_MAX,
                                           .requests = limits->requests};

        memcpy(welcome.nonce, conn->hello.nonce, sizeof(welcome.nonce));
        net_welcome_write(&welcome, plain ? conn->secret : NULL, conn->hello_mac, conn->greeting_bytes);
        conn->state = NET_CONN_OPEN;
        conn->heard = conn->said = lp_now(conn->at->lp); /* of this loop */
        conn->peer->inbound[conn->link].conn = conn;
        atomic_store(&conn->peer->heard, conn->heard);
        atomic_store(&conn->peer->clock_ahead_ms, conn->hello.wall_ms - lp_wall_ms());
        atomic_fetch_add(&conn->peer->opened_by_it, 1);
        net_count(conn->at, NET_COUNT_accepted, 1);
        net_conn_greet(conn, NET_WELCOME_SIZE);
}

static void admission_arrives(struct lp_msg *msg)
{
        struct net_conn *conn = container_of(msg, struct net_conn, tour.msg);
        struct net_loop *at = net_owner(conn->peer, conn->link);
        bool joined;

        atomic_fetch_sub(&at->net->guests, 1);
        conn->role = &net_role_inbound;
        joined = net_conn_join(conn, at) == 0;
        if (joined && admission_stands(conn, at) && conn->in_at == conn->in_len)
                inbound_begin(conn);
        else
                net_conn_close(conn, "a newer connection has come");
}

static void admission_end(struct net_tour *tour, struct net_loop *last)
{
        struct net_conn *conn = container_of(tour, struct net_conn, tour);
        bool admitted = admission_goes_on(conn);

        tour->msg.run = admitted ? admission_arrives : admission_home;
        if (admitted)
                net_peer_raise_boot(conn->peer, conn->boot);
        lp_post((admitted ? net_owner(conn->peer, conn->link) : &tour->net->loops[0])->lp, &tour->msg);
}

/* Connections of and to older boots, of which the peer's part on this loop knows. */
static void admission_new_boot(struct net_conn *conn, struct net_part *part, struct net_loop *at)
{
        unsigned link;

        if (part->boot != 0 && net_owner(conn->peer, conn->link) == at)
                net_log(at, NULL, "node %u: boot %llu follows boot %llu", conn->peer->node,
                        (unsigned long long)conn->boot, (unsigned long long)part->boot);
        net_inbound_end(conn->peer, at, "a newer process of the node has connected");
        part->boot = conn->boot;
        for (link = 0; link < NET_LINKS; link++)
                if (net_owner(conn->peer, link) == at) {
                        conn->peer->inbound[link].seen = 0;
                        net_link_newer_boot(&conn->peer->links[link], conn->boot);
                }
}

static void admission_visit(struct net_tour *tour, struct net_loop *at)
{
        struct net_conn *conn = container_of(tour, struct net_conn, tour);
        struct net_part *part = net_part_of(conn->peer, at);
        struct net_inbound *inbound = &conn->peer->inbound[conn->link];
        uint64_t newest = atomic_load(&conn->peer->boot); /* that has answered us, or was admitted */

        if (!admission_goes_on(conn))
                return;
        newest = newest > part->boot ? newest : part->boot;
        if (conn->boot < newest) {
                refusal_set(conn, NET_REASON_DUPLICATE, conn->boot, newest);
                return;
        }
        if (conn->boot > part->boot)
                admission_new_boot(conn, part, at);
        if (net_owner(conn->peer, conn->link) != at)
                return;
        if (conn->sequence <= inbound->seen) {
                refusal_set(conn, NET_REASON_OLDER, conn->sequence, inbound->seen);
                return;
        }
        inbound->seen = conn->sequence;
        if (inbound->conn != NULL)
                net_conn_close(inbound->conn, "a newer connection of the same kind has come");
}

static void admission_tour(struct net_conn *conn, struct net *net)
{
        conn->tour.visit = admission_visit;
        conn->tour.end = admission_end;
        if (admission_goes_on(conn)) {
                net_tour_begin(net, &conn->tour);
        } else {
                conn->tour.net = net;
                conn->tour.msg.run = admission_home;
                lp_post(net->loops[0].lp, &conn->tour.msg);
        }
}

/* Between nodes. */
static bool plain_is_allowed(const struct net *net, const struct net_conn *conn)
{
        return net->options.plain_bulk && conn->link >= NET_BULK_0;
}

/* The control link's loop: a plain connection proves that its sender has the secret of the control connection there is now. */
static void admission_prove(struct lp_msg *msg)
{
        struct net_conn *conn = container_of(msg, struct net_conn, tour.msg);
        const struct net_conn *control = conn->peer->inbound[NET_CONTROL].conn;
        struct net *net = conn->peer->net;

        if (control != NULL && control->boot == conn->boot && control->sequence == conn->hello.control_sequence &&
            control->has_secret && net_hello_proves(conn->hello_body, conn->hello_len, control->secret)) {
                memcpy(conn->secret, control->secret, NET_SECRET_LEN);
                conn->has_secret = true;
                if (plain_is_allowed(net, conn) || control->stream->same_node)
                        net_hello_judge(&net->self, &conn->hello, lp_wall_ms(), &conn->version, &conn->refusal);
                else
                        refusal_set(conn, NET_REASON_PLAIN, 0, 0);
        } else {
                refusal_set(conn, NET_REASON_SECRET, 0, 0);
        }
        admission_tour(conn, net);
}

/* First loop, when nothing on it works with the connection any more. */
static void admission_departs(struct lp_msg *msg)
{
        struct net_conn *conn = container_of(msg, struct net_conn, tour.msg);
        struct net *net = conn->at->net;
        bool closed = conn->state == NET_CONN_CLOSED;

        if (!closed)
                net_conn_leave(conn);
        net_conn_drop(conn);
        if (closed)
                return;
        if ((conn->hello.flags & NET_HELLO_PLAIN) != 0) {
                conn->tour.msg.run = admission_prove;
                lp_post(net_owner(conn->peer, NET_CONTROL)->lp, &conn->tour.msg);
        } else {
                admission_tour(conn, net);
        }
}

/* ---- HELLO ----------------------------------------------------------------------------------- */

/* It is who it says it is. False: it was refused. */
static bool hello_shares_secrets(struct net_conn *conn)
{
        struct net_secrets ours, theirs;
        enum net_secrets_verdict verdict;

        net_secrets_read(conn->at->net, &ours);
        net_hello_secrets(conn->body, conn->head.body_len, &theirs); /* guest_frame() has looked at it */
        verdict = net_secrets_compare(&ours, &theirs);
        atomic_store(&conn->peer->secrets, verdict);
        if (verdict == NET_SECRETS_APART)
                refusal_set(conn, NET_REASON_KEYS, 0, 0);
        return verdict != NET_SECRETS_APART;
}

/* Over TLS. Who it is comes first: nobody else learns the cluster's generation, or a boot. */
static void hello_judge_tls(struct net_conn *conn, const struct net_part *part)
{
        const struct net *net = conn->at->net;
        const struct net_stream *stream = conn->stream;
        const char *name = "";

        if (conn->hello.node == net->self.node)
                name = net->options.name;
        else if (part != NULL && part->known != NULL)
                name = part->known->name;
        if (name[0] == '\0')
                refusal_set(conn, NET_REASON_UNKNOWN_NODE, conn->hello.node, 0);
        else if (!stream->ops->is_named(conn->stream, name))
                refusal_set(conn, NET_REASON_CERTIFICATE, conn->hello.node, 0);
        else if (net_hello_judge(&net->self, &conn->hello, lp_wall_ms(), &conn->version, &conn->refusal) != NET_REASON_NONE)
                return;
        else if (!hello_shares_secrets(conn))
                return;
        else if (stream->ops->export_secret(conn->stream, conn->secret) == 0)
                conn->has_secret = true;
        else
                refusal_set(conn, NET_REASON_SECRET, 0, 0);
}

/* Not over TLS: nothing is known yet, and nothing is told. */
static void hello_judge_plain(struct net_conn *conn, const struct net_part *part)
{
        if (conn->link == NET_CONTROL || !(plain_is_allowed(conn->at->net, conn) || conn->stream->same_node))
                refusal_set(conn, NET_REASON_PLAIN, 0, 0);
        else if (part == NULL || part->known == NULL)
                refusal_set(conn, NET_REASON_SECRET, 0, 0);
}

static int guest_frame(struct net_conn *conn)
{
        struct net *net = conn->at->net;
        const struct net_part *part = NULL;
        bool plain;
        struct net_secrets secrets;
        int rv = net_hello_read(conn->body, conn->head.body_len, &conn->hello);

        if (rv == 0)
                rv = net_hello_secrets(conn->body, conn->head.body_len, &secrets);
        if (rv != 0)
                return rv;
        plain = (conn->hello.flags & NET_HELLO_PLAIN) != 0;
        if (plain == conn->stream->tls)
                return -EBADMSG;
        conn->link = (enum net_link_number)conn->hello.link;
        conn->boot = conn->hello.boot;
        conn->sequence = conn->hello.sequence;
        conn->peer = net_peer_find(net, conn->hello.node);
        if (conn->peer != NULL)
                part = net_part_of(conn->peer, conn->at);
        if (plain)
                hello_judge_plain(conn, part);
        else
                hello_judge_tls(conn, part);
        if (!admission_goes_on(conn)) {
                guest_refuse(conn);
                return 0;
        }
        conn->removals = part->removals;
        conn->hello_body = conn->body;
        conn->hello_len = conn->head.body_len;
        conn->body = NULL;
        memcpy(conn->hello_mac, net_greeting_mac(conn->hello_body, conn->hello_len), NET_MAC_LEN);
        conn->state = NET_CONN_ADMISSION;
        net_conn_hold(conn);
        conn->tour.msg.run = admission_departs;
        lp_post(conn->at->lp, &conn->tour.msg);
        return 0;
}

const struct net_role net_role_guest = {
        .shaken = guest_shaken,
        .head = guest_head,
        .bulk = guest_bulk,
        .frame = guest_frame,
        .closed = guest_closed,
};

/* ---- inbound connections --------------------------------------------------------------------- */

void net_inbound_closed(struct net_conn *conn)
{
        struct net_inbound *inbound = &conn->peer->inbound[conn->link];

        if (inbound->conn != conn)
                return; /* it was never admitted */
        inbound->conn = NULL;
        net_count(conn->at, NET_COUNT_lost, 1);
        atomic_fetch_sub(&conn->peer->opened_by_it, 1);
}

void net_inbound_end(struct net_peer *peer, struct net_loop *at, const char *why)
{
        unsigned link;

        for (link = 0; link < NET_LINKS; link++)
                if (net_owner(peer, link) == at && peer->inbound[link].conn != NULL)
                        net_conn_close(peer->inbound[link].conn, why);
}
