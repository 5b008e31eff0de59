/*
 * link_conn.c - frames over one stream: bytes in become a head, a body and a bulk that lies where its
 * receiver wants it, and frames that wait become bytes out.
 *
 * Called by link.c and admission.c, whose roles decide what a frame means; on the connection's loop.
 * Nothing is believed before its checksum was right: the head's before its lengths, the body's
 * before the bulk is given memory. A frame that is wrong ends the connection. Receiving does a
 * bounded piece of work and goes on in a later round; so does sending. What stops receiving
 * (-EAGAIN of a role) costs the connection nothing but time.
 */
#include "net/net_internal.h"

#include "ec.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#define READ_BUDGET    (2u << 20)   /* bytes of one turn, either way */
#define READ_MOST      (256u << 10) /* of one call: they are in the cache still when their checksum is made */
#define SEND_PIECES    64u
#define FRAMES_AT_ONCE 128u

/* ---- life ------------------------------------------------------------------------------------ */

static void conn_stream_ready(struct net_stream *stream);
static void conn_again(struct lp_msg *msg);
static void conn_flush_later(struct lp_msg *msg);

/* A stream does not name its connection: it is looked up among those of the loop. */
static void conn_list(struct net_conn *conn, struct net_loop *at)
{
        conn->at = at;
        conn->prev = NULL;
        conn->next = at->conns;
        if (at->conns != NULL)
                at->conns->prev = conn;
        at->conns = conn;
}

static void conn_unlist(struct net_conn *conn)
{
        if (conn->prev != NULL)
                conn->prev->next = conn->next;
        else
                conn->at->conns = conn->next;
        if (conn->next != NULL)
                conn->next->prev = conn->prev;
        conn->next = conn->prev = NULL;
}

struct net_conn *net_conn_new(struct net_loop *at, struct net_stream *stream, const struct net_role *role)
{
        struct net_conn *conn = malloc(sizeof(*conn));

        if (conn == NULL) {
                stream->ops->close(stream);
                return NULL;
        }
        memset(conn, 0, offsetof(struct net_conn, in));
        conn->stream = stream;
        conn->role = role;
        conn->refs = 1;
        memcpy(conn->remote, stream->remote, sizeof(conn->remote));
        conn->began = conn->heard = conn->said = lp_now(at->lp);
        conn->again.run = conn_again;
        conn->flush.run = conn_flush_later;
        stream->user = conn;
        stream->ready = conn_stream_ready;
        conn_list(conn, at);
        atomic_fetch_add(&at->net->alive, 1);
        return conn;
}

void net_conn_hold(struct net_conn *conn)
{
        conn->refs++;
}

void net_conn_drop(struct net_conn *conn)
{
        struct net *net = conn->at->net;

        assert(conn->refs > 0);
        if (--conn->refs > 0)
                return;
        assert(conn->state == NET_CONN_CLOSED && conn->out_first == NULL);
        free(conn->hello_body);
        OPENSSL_cleanse(conn->secret, sizeof(conn->secret));
        free(conn);
        atomic_fetch_sub(&net->alive, 1);
}

void net_conn_close(struct net_conn *conn, const char *why)
{
        struct net_out *out;

        if (conn->state == NET_CONN_CLOSED)
                return;
        conn->state = NET_CONN_CLOSED;
        conn->stream->ops->close(conn->stream);
        conn->stream = NULL;
        while ((out = conn->out_first) != NULL) {
                conn->out_first = out->next;
                out->queued = false;
                out->next = out->prev = NULL;
                if (out->gone != NULL)
                        out->gone(out, false);
        }
        conn->out_last = NULL;
        conn->role->closed(conn, why);
        free(conn->body);
        conn->body = NULL;
        conn_unlist(conn);
        net_conn_drop(conn);
}

/* ---- from loop to loop ----------------------------------------------------------------------- */

void net_conn_leave(struct net_conn *conn)
{
        assert(!conn->again_posted && !conn->flush_posted && conn->out_first == NULL);
        conn->stream->ops->leave(conn->stream);
        conn_unlist(conn);
}

int net_conn_join(struct net_conn *conn, struct net_loop *at)
{
        int rv;

        conn_list(conn, at);
        rv = conn->stream->ops->join(conn->stream, at->lp);
        if (rv == 0)
                conn->stream->ops->want(conn->stream, true, false);
        return rv;
}

/* ---- sending --------------------------------------------------------------------------------- */

uint32_t net_pieces_len(const struct iovec *pieces, unsigned count)
{
        size_t len = 0;
        unsigned i;

        for (i = 0; i < count; i++)
                len += pieces[i].iov_len;
        assert(len <= NET_BULK_MAX);
        return (uint32_t)len;
}

static uint32_t pieces_crc(const struct iovec *pieces, unsigned count)
{
        uint32_t crc = 0;
        unsigned i;

        for (i = 0; i < count; i++)
                crc = era_crc32c(crc, pieces[i].iov_base, pieces[i].iov_len);
        return crc;
}

void net_out_fill(struct net_out *out, struct net_wire_head *head, const void *body, const struct iovec *bulk,
                  unsigned bulk_count, const uint32_t *crc_known)
{
        head->bulk_len = net_pieces_len(bulk, bulk_count);
        head->bulk_crc = head->bulk_len == 0 ? 0 : crc_known != NULL ? *crc_known : pieces_crc(bulk, bulk_count);
        out->body = body;
        out->body_len = head->body_len;
        out->bulk = bulk;
        out->bulk_count = bulk_count;
        out->bulk_len = head->bulk_len;
        out->begun = false;
        net_head_write(head, body, out->head);
}

static void conn_want(struct net_conn *conn)
{
        bool reads = !conn->stalled && conn->state != NET_CONN_ADMISSION;

        conn->stream->ops->want(conn->stream, reads, conn->asks_to_send);
}

/* Frames of one round leave together. */
static void conn_post_flush(struct net_conn *conn)
{
        if (conn->flush_posted || conn->asks_to_send)
                return;
        conn->flush_posted = true;
        net_conn_hold(conn);
        lp_post_last(conn->at->lp, &conn->flush);
}

void net_conn_send(struct net_conn *conn, struct net_out *out)
{
        assert(!out->queued && conn->state != NET_CONN_CLOSED);
        out->queued = true;
        out->begun = false;
        out->next = NULL;
        out->prev = conn->out_last;
        if (conn->out_last != NULL)
                conn->out_last->next = out;
        else
                conn->out_first = out;
        conn->out_last = out;
        conn_post_flush(conn);
}

static void conn_out_unlink(struct net_conn *conn, struct net_out *out)
{
        if (out->prev != NULL)
                out->prev->next = out->next;
        else
                conn->out_first = out->next;
        if (out->next != NULL)
                out->next->prev = out->prev;
        else
                conn->out_last = out->prev;
        out->next = out->prev = NULL;
        out->queued = false;
}

void net_conn_unsend(struct net_conn *conn, struct net_out *out)
{
        assert(out->queued && !out->begun);
        conn_out_unlink(conn, out);
}

static uint64_t out_len(const struct net_out *out)
{
        return (uint64_t)NET_HEAD_SIZE + out->body_len + out->bulk_len;
}

/* The piece of memory, less its first `skip` bytes, goes behind those there are. */
static void gather_piece(struct iovec *pieces, unsigned *count, const void *from, size_t len, uint64_t *skip)
{
        size_t left_out = *skip < len ? (size_t)*skip : len;

        *skip -= left_out;
        if (len == left_out || *count == SEND_PIECES)
                return;
        pieces[(*count)++] = (struct iovec){(char *)from + left_out, len - left_out};
}

static unsigned conn_gather(const struct net_conn *conn, struct iovec *pieces)
{
        const struct net_out *out;
        uint64_t skip = conn->out_at;
        unsigned count = 0, i;

        for (out = conn->out_first; out != NULL && count < SEND_PIECES; out = out->next) {
                gather_piece(pieces, &count, out->head, NET_HEAD_SIZE, &skip);
                gather_piece(pieces, &count, out->body, out->body_len, &skip);
                for (i = 0; i < out->bulk_count; i++)
                        gather_piece(pieces, &count, out->bulk[i].iov_base, out->bulk[i].iov_len, &skip);
        }
        return count;
}

/* So many bytes more were taken. */
static void conn_advance(struct net_conn *conn, uint64_t bytes)
{
        struct net_out *out;

        conn->said = lp_now(conn->at->lp);
        net_count(conn->at, NET_COUNT_bytes_out, (int64_t)bytes);
        while (bytes > 0 && (out = conn->out_first) != NULL) {
                uint64_t left = out_len(out) - conn->out_at;

                if (!out->begun) {
                        out->begun = true;
                        conn->out_since = conn->said;
                }
                if (bytes < left) {
                        conn->out_at += bytes;
                        return;
                }
                bytes -= left;
                conn->out_at = 0;
                conn_out_unlink(conn, out);
                net_count(conn->at, NET_COUNT_frames_out, 1);
                if (out->gone != NULL)
                        out->gone(out, true);
        }
}

/* Sends what goes now. 0, or why the connection ends. */
static int conn_write(struct net_conn *conn)
{
        struct iovec pieces[SEND_PIECES];
        uint64_t budget = READ_BUDGET;
        ssize_t sent = 0;
        unsigned count;

        while (conn->out_first != NULL && budget > 0) {
                count = conn_gather(conn, pieces);
                sent = conn->stream->ops->send(conn->stream, pieces, count);
                if (sent < 0)
                        break;
                budget -= (uint64_t)sent < budget ? (uint64_t)sent : budget;
                conn_advance(conn, (uint64_t)sent);
                if (conn->state == NET_CONN_CLOSED)
                        return 0;
        }
        if (sent < 0 && sent != -EAGAIN)
                return (int)sent;
        if (conn->asks_to_send != (conn->out_first != NULL)) {
                conn->asks_to_send = conn->out_first != NULL;
                conn_want(conn);
        }
        return 0;
}

static void conn_failed(struct net_conn *conn, int rv);

static void conn_write_or_end(struct net_conn *conn)
{
        int rv = conn_write(conn);

        if (rv != 0)
                conn_failed(conn, rv);
        else if (conn->state == NET_CONN_LEAVING && conn->out_first == NULL)
                net_conn_close(conn, NULL);
}

static void conn_flush_later(struct lp_msg *msg)
{
        struct net_conn *conn = container_of(msg, struct net_conn, flush);

        conn->flush_posted = false;
        if (conn->state != NET_CONN_CLOSED && conn->state != NET_CONN_SHAKING && !conn->asks_to_send)
                conn_write_or_end(conn);
        net_conn_drop(conn);
}

void net_conn_greet(struct net_conn *conn, size_t len)
{
        struct net_out *out = &conn->greeting;

        memcpy(out->head, conn->greeting_bytes, NET_HEAD_SIZE);
        out->body = conn->greeting_bytes + NET_HEAD_SIZE;
        out->body_len = (uint32_t)(len - NET_HEAD_SIZE);
        net_conn_send(conn, out);
}

/* ---- beats ----------------------------------------------------------------------------------- */

/* One at a time: a ping that finds the answer to an earlier one waiting still is answered by that. */
static void conn_beat(struct net_conn *conn, enum net_frame_kind kind, uint64_t id)
{
        struct net_wire_head head = {.version = conn->version, .kind = (uint8_t)kind, .id = id};

        if (conn->beat.queued)
                return;
        net_out_fill(&conn->beat, &head, NULL, NULL, 0, NULL);
        net_conn_send(conn, &conn->beat);
}

static int conn_beaten(struct net_conn *conn)
{
        uint64_t now = lp_now(conn->at->lp);

        if (conn->role == &net_role_inbound) {
                if (conn->head.kind != NET_FRAME_PING || conn->head.id == 0)
                        return -EBADMSG;
                conn_beat(conn, NET_FRAME_PONG, conn->head.id);
        } else {
                if (conn->head.kind != NET_FRAME_PONG)
                        return -EBADMSG;
                if (conn->head.id != 0 && conn->head.id == conn->ping && now > conn->ping)
                        atomic_store_explicit(&conn->peer->round_trip, now - conn->ping, memory_order_relaxed);
        }
        return 0;
}

/*
 * A frame is half sent that should not take long: an answer, whose room is there; a request whose
 * caller waits for nothing else. Other requests may have to wait for memory.
 */
static bool conn_is_stuck(const struct net_conn *conn)
{
        const struct net_out *out = conn->out_first;

        return out != NULL && out->begun && (conn->role == &net_role_inbound || net_call_is_late(out));
}

static void conn_tick_open(struct net_conn *conn, uint64_t now, const struct net_limits *limits)
{
        bool inbound = conn->role == &net_role_inbound, is_old = conn->boot < atomic_load(&conn->peer->boot);
        uint64_t frame_ns = limits->frame_ms * NET_MS, silence_ns = limits->silence_ms * NET_MS;

        if (conn->frame_since != 0 && !conn->stalled && now - conn->frame_since > frame_ns) {
                net_conn_close(conn, "a frame was begun and did not end");
        } else if (conn_is_stuck(conn) && now - conn->out_since > frame_ns) {
                net_conn_close(conn, inbound ? "it does not take its answers" : "it does not take a request");
        } else if (!conn->stalled && now - conn->heard > silence_ns * (inbound ? NET_DEAF : 1)) {
                net_conn_close(conn, "nothing was heard of it");
        } else if (is_old) { /* another link met it */
                net_conn_close(conn, "a newer process of the node runs");
        } else if (inbound && now - conn->said >= NET_BEAT_NS) {
                conn_beat(conn, NET_FRAME_PONG, 0);
        } else if (!inbound && now - conn->ping >= NET_BEAT_NS &&
                   (conn->link == NET_CONTROL || now - conn->said >= NET_BEAT_NS)) {
                conn->ping = now;
                conn_beat(conn, NET_FRAME_PING, now);
        }
}

void net_conn_tick(struct net_conn *conn, uint64_t now)
{
        const struct net_limits *limits = &conn->at->net->options.limits;

        if (conn->state == NET_CONN_OPEN)
                conn_tick_open(conn, now, limits);
        else if (conn->state != NET_CONN_ADMISSION && now - conn->began > limits->handshake_ms * NET_MS)
                net_conn_close(conn, "it took too long to connect");
}

/* ---- receiving ------------------------------------------------------------------------------- */

static uint32_t conn_take(struct net_conn *conn, void *to, size_t most)
{
        unsigned there = conn->in_len - conn->in_at, n = most < there ? (unsigned)most : there;

        if (to != NULL)
                memcpy(to, conn->in + conn->in_at, n);
        conn->in_at += n;
        return n;
}

/* The memory for the next bytes of the bulk, at most `count` pieces. Returns how many. */
static unsigned bulk_rest(const struct net_conn *conn, struct iovec *pieces, unsigned count, size_t most)
{
        size_t left = conn->head.bulk_len - conn->bulk_at, skip = conn->bulk_at;
        unsigned used = 0, i;

        left = left < most ? left : most;
        if (conn->bulk_count == 0) {
                pieces[0] = (struct iovec){conn->at->scratch, left < NET_SCRATCH ? left : NET_SCRATCH};
                return left > 0;
        }
        for (i = 0; i < conn->bulk_count && used < count && left > 0; i++) {
                size_t len = conn->bulk[i].iov_len, drop = skip < len ? skip : len;

                skip -= drop;
                len -= drop;
                len = len < left ? len : left;
                if (len > 0)
                        pieces[used++] = (struct iovec){(char *)conn->bulk[i].iov_base + drop, len};
                left -= len;
        }
        return used;
}

/* So many bytes of the bulk are in their places. */
static void bulk_arrived(struct net_conn *conn, const struct iovec *pieces, unsigned count, size_t bytes)
{
        unsigned i;

        for (i = 0; i < count && bytes > 0; i++) {
                size_t len = pieces[i].iov_len < bytes ? pieces[i].iov_len : bytes;

                conn->bulk_crc = era_crc32c(conn->bulk_crc, pieces[i].iov_base, len);
                conn->bulk_at += (uint32_t)len;
                bytes -= len;
        }
}

static void bulk_from_buffer(struct net_conn *conn)
{
        struct iovec pieces[NET_PIECES];
        unsigned count, i;

        while (conn->in_at < conn->in_len &&
               (count = bulk_rest(conn, pieces, NET_PIECES, conn->in_len - conn->in_at)) > 0)
                for (i = 0; i < count; i++) {
                        conn_take(conn, pieces[i].iov_base, pieces[i].iov_len);
                        bulk_arrived(conn, &pieces[i], 1, pieces[i].iov_len);
                }
}

static int rx_head(struct net_conn *conn)
{
        uint8_t bytes[NET_HEAD_SIZE];

        if (conn->in_len - conn->in_at < NET_HEAD_SIZE)
                return 0;
        conn_take(conn, bytes, NET_HEAD_SIZE);
        if (net_head_read(bytes, &conn->head) != 0)
                return -EBADMSG;
        if (conn->state == NET_CONN_OPEN && conn->head.version != conn->version)
                return -EBADMSG;
        conn->body_at = conn->bulk_at = conn->bulk_crc = conn->bulk_count = 0;
        conn->rx = NET_RX_ADMIT;
        return 1;
}

static int rx_body(struct net_conn *conn)
{
        conn->body_at += conn_take(conn, conn->body != NULL ? conn->body + conn->body_at : NULL,
                                   conn->head.body_len - conn->body_at);
        if (conn->body_at < conn->head.body_len)
                return 0;
        if (!net_body_matches(&conn->head, conn->body))
                return -EBADMSG;
        conn->rx = NET_RX_CHOOSE;
        return 1;
}

static bool is_beat(const struct net_conn *conn)
{
        return conn->head.kind == NET_FRAME_PING || conn->head.kind == NET_FRAME_PONG;
}

/* The frame is whole. */
static int rx_whole(struct net_conn *conn)
{
        conn->rx = NET_RX_HEAD;
        conn->frame_since = 0;
        net_count(conn->at, NET_COUNT_frames_in, 1);
        return is_beat(conn) ? conn_beaten(conn) : conn->role->frame(conn);
}

/* One step with the bytes that are there. 1: a step was made; 0: more bytes are needed; -EAGAIN: a role wants to wait; or why it ends. */
static int conn_step(struct net_conn *conn)
{
        int rv;

        switch (conn->rx) {
        case NET_RX_HEAD:
                return rx_head(conn);
        case NET_RX_ADMIT:
                rv = is_beat(conn) && conn->state == NET_CONN_OPEN ? 0 : conn->role->head(conn);
                if (rv == 0)
                        conn->rx = NET_RX_BODY;
                return rv == 0 ? 1 : rv;
        case NET_RX_BODY:
                return rx_body(conn);
        case NET_RX_CHOOSE:
                rv = conn->head.bulk_len > 0 ? conn->role->bulk(conn) : 0;
                if (rv == 0)
                        conn->rx = NET_RX_BULK;
                return rv == 0 ? 1 : rv;
        default:
                bulk_from_buffer(conn);
                if (conn->bulk_at < conn->head.bulk_len)
                        return 0;
                if (conn->bulk_crc != conn->head.bulk_crc)
                        return -EBADMSG;
                rv = rx_whole(conn);
                return rv == 0 ? 1 : rv;
        }
}

/* All frames that are there, at most FRAMES_AT_ONCE. 1: there may be more; 0; -EAGAIN; or why it ends. */
static int conn_parse(struct net_conn *conn)
{
        unsigned frames = 0;
        int rv = 1;

        while (rv == 1 && conn->state != NET_CONN_CLOSED && conn->state != NET_CONN_ADMISSION) {
                if (conn->rx == NET_RX_HEAD && frames++ == FRAMES_AT_ONCE)
                        return 1;
                if (conn->rx == NET_RX_HEAD && conn->frame_since == 0 && conn->in_at < conn->in_len)
                        conn->frame_since = lp_now(conn->at->lp);
                rv = conn_step(conn);
        }
        return rv == 1 ? 0 : rv;
}

/* Reads once, straight to where it belongs as far as that is known. Bytes, 0 at the end, or a negative errno. */
static ssize_t conn_fill(struct net_conn *conn)
{
        struct iovec pieces[NET_PIECES + 1];
        unsigned count = 0;
        size_t direct = 0, i;
        ssize_t got;

        if (conn->in_at == conn->in_len)
                conn->in_at = conn->in_len = 0;
        if (conn->in_at > 0) { /* part of a head */
                memmove(conn->in, conn->in + conn->in_at, conn->in_len - conn->in_at);
                conn->in_len -= conn->in_at;
                conn->in_at = 0;
        }
        if (conn->rx == NET_RX_BULK)
                count = bulk_rest(conn, pieces, NET_PIECES, READ_MOST);
        else if (conn->rx == NET_RX_BODY && conn->body_at < conn->head.body_len)
                pieces[count++] = (struct iovec){conn->body + conn->body_at, conn->head.body_len - conn->body_at};
        for (i = 0; i < count; i++)
                direct += pieces[i].iov_len;
        pieces[count] = (struct iovec){conn->in + conn->in_len, NET_IN_BUFFER - conn->in_len};
        got = conn->stream->ops->receive(conn->stream, pieces, count + 1);
        if (got <= 0)
                return got;
        direct = (size_t)got < direct ? (size_t)got : direct;
        if (conn->rx == NET_RX_BULK)
                bulk_arrived(conn, pieces, count, direct);
        else
                conn->body_at += (uint32_t)direct;
        conn->in_len += (unsigned)((size_t)got - direct);
        return got;
}

static void conn_heard(struct net_conn *conn, size_t bytes)
{
        conn->heard = lp_now(conn->at->lp);
        net_count(conn->at, NET_COUNT_bytes_in, (int64_t)bytes);
        if (conn->peer != NULL && conn->state == NET_CONN_OPEN)
                atomic_store_explicit(&conn->peer->heard, conn->heard, memory_order_relaxed);
}

static void conn_post_again(struct net_conn *conn)
{
        if (conn->again_posted)
                return;
        conn->again_posted = true;
        net_conn_hold(conn);
        lp_post(conn->at->lp, &conn->again);
}

/* What has come after REFUSED was sent interests nobody. */
static int conn_throw_away(struct net_conn *conn)
{
        struct iovec piece = {conn->at->scratch, NET_SCRATCH};
        ssize_t got = conn->stream->ops->receive(conn->stream, &piece, 1);

        return got > 0 || got == -EAGAIN ? 0 : got == 0 ? -ECONNRESET : (int)got;
}

static int conn_read_loop(struct net_conn *conn)
{
        uint64_t budget = READ_BUDGET;
        ssize_t got;
        int rv;

        if (conn->state == NET_CONN_LEAVING)
                return conn_throw_away(conn);
        for (;;) {
                rv = conn_parse(conn);
                if (rv == 1 || (rv == 0 && budget == 0)) {
                        conn_post_again(conn);
                        return 0;
                }
                if (rv != 0 || conn->state == NET_CONN_CLOSED || conn->state == NET_CONN_ADMISSION ||
                    conn->state == NET_CONN_LEAVING)
                        return rv;
                got = conn_fill(conn);
                if (got <= 0)
                        return got == 0 ? -ECONNRESET : got == -EAGAIN ? 0 : (int)got;
                conn_heard(conn, (size_t)got);
                budget -= (uint64_t)got < budget ? (uint64_t)got : budget;
        }
}

static const char *conn_why(const struct net_conn *conn, int rv)
{
        if (rv == -EBADMSG)
                return "a frame was wrong";
        if (conn->stream->why[0] != '\0')
                return conn->stream->why;
        return rv == -ECONNRESET ? "the other end closed it" : strerror(-rv);
}

static void conn_failed(struct net_conn *conn, int rv)
{
        char why[NET_WHY_MAX];

        if (rv == -EBADMSG)
                net_count(conn->at, NET_COUNT_bad_frames, 1);
        strncpy(why, conn_why(conn, rv), sizeof(why) - 1); /* the stream goes first */
        why[sizeof(why) - 1] = '\0';
        net_conn_close(conn, why);
}

static void conn_read(struct net_conn *conn)
{
        int rv = conn_read_loop(conn);

        if (conn->state == NET_CONN_CLOSED)
                return;
        if (rv == -EAGAIN) {
                conn->stalled = true;
                net_count(conn->at, NET_COUNT_waits, 1);
                conn_want(conn);
        } else if (rv != 0) {
                conn_failed(conn, rv);
        }
}

void net_conn_resume(struct net_conn *conn)
{
        if (conn->state == NET_CONN_CLOSED || !conn->stalled)
                return;
        conn->stalled = false;
        conn->heard = lp_now(conn->at->lp);
        if (conn->frame_since != 0)
                conn->frame_since = conn->heard;
        conn_want(conn);
        conn_post_again(conn);
}

static void conn_again(struct lp_msg *msg)
{
        struct net_conn *conn = container_of(msg, struct net_conn, again);

        conn->again_posted = false;
        if (conn->state != NET_CONN_CLOSED && !conn->stalled)
                conn_read(conn);
        net_conn_drop(conn);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void conn_shake(struct net_conn *conn)
{
        int rv = conn->stream->ops->handshake(conn->stream);

        if (rv == 0)
                return;
        if (rv == 1) {
                conn->state = NET_CONN_GREETING;
                rv = conn->role->shaken(conn);
                if (rv == 0 && conn->state != NET_CONN_CLOSED)
                        conn_want(conn);
        }
        if (rv < 0 && conn->state != NET_CONN_CLOSED)
                conn_failed(conn, rv);
}

static void conn_stream_ready(struct net_stream *stream)
{
        struct net_conn *conn = stream->user;

        net_conn_hold(conn);
        if (conn->state == NET_CONN_SHAKING)
                conn_shake(conn);
        if (conn->state != NET_CONN_CLOSED && conn->state != NET_CONN_SHAKING && conn->asks_to_send)
                conn_write_or_end(conn);
        if (conn->state != NET_CONN_CLOSED && conn->state != NET_CONN_SHAKING && !conn->stalled)
                conn_read(conn);
        net_conn_drop(conn);
}
