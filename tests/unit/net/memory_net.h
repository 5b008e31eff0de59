/*
 * memory_net.h - a transport in memory, loops that are stepped by the test, and a clock that it
 * sets: nodes talk as over a network whose every byte the test may hold, change or cut. The test
 * can also be the other end of a stream itself.
 */
#ifndef MILLRACE_TEST_MEMORY_NET_H
#define MILLRACE_TEST_MEMORY_NET_H

#include "loop/loop_internal.h"
#include "tests/unit/net/net_fixture.h"

#define MEM_LOOPS 2u
#define MEM_ROOM  (256u << 10) /* of bytes on their way; then the sender has to wait */
#define MEM_ENDS  256u

/* One end of a stream. */
struct mem_end {
        struct net_stream base;
        struct mem_end *other; /* NULL: closed */
        uint8_t *bytes;        /* that have come and were not read */
        size_t len, size;
        bool shaken, raw, receives, sends, reset;
        bool held;      /* what has come is not shown to its reader */
        char shown[32]; /* the name in the certificate that the other end shows */
        uint8_t secret[NET_EXPORT_LEN];
};

struct mem_node {
        struct node node; /* its handler's state, and its net */
        struct net_transport transport;
        struct lp_loop *loops[MEM_LOOPS];
        struct net_listener *listener;
        char name[32];
        bool stopped;
};

static struct mem_end *mem_ends[MEM_ENDS];
static struct mem_node *mem_nodes[8];
static unsigned mem_node_count;
static uint64_t mem_now;
static bool mem_same_node; /* streams that are opened now are within one */
static bool mem_catches;   /* what their openers send is held; the newest: mem_caught */
static struct mem_end *mem_caught;
/* For cuts at every place: bytes that are shown to a reader at once; events so far, and the one at which its connection is reset (0: none). */
static size_t mem_chunk = SIZE_MAX;
static unsigned mem_event_count, mem_cut_at;

/* ---- streams --------------------------------------------------------------------------------- */

static struct mem_end *mem_of(struct net_stream *stream)
{
        return container_of(stream, struct mem_end, base);
}

static struct mem_end *mem_end_new(const struct net_transport_ops *ops, bool tls)
{
        struct mem_end *end = calloc(1, sizeof(*end));
        unsigned i;

        end->base.ops = ops;
        end->base.tls = tls;
        end->base.same_node = mem_same_node;
        end->receives = true;
        snprintf(end->base.remote, sizeof(end->base.remote), "10.0.0.1:1");
        for (i = 0; mem_ends[i] != NULL; i++)
                MUST(i + 1 < MEM_ENDS);
        mem_ends[i] = end;
        return end;
}

static void mem_close(struct net_stream *stream)
{
        struct mem_end *end = mem_of(stream);
        unsigned i;

        if (end->other != NULL)
                end->other->other = NULL;
        for (i = 0; i < MEM_ENDS; i++)
                if (mem_ends[i] == end)
                        mem_ends[i] = NULL;
        free(end->bytes);
        free(end);
}

/* Bytes for the reader of an end. */
static void mem_arrive(struct mem_end *end, const void *bytes, size_t len)
{
        if (end->len + len > end->size) {
                end->size = 2 * (end->len + len);
                end->bytes = realloc(end->bytes, end->size);
                MUST(end->bytes != NULL);
        }
        if (len > 0)
                memcpy(end->bytes + end->len, bytes, len);
        end->len += len;
}

static ssize_t mem_send(struct net_stream *stream, const struct iovec *pieces, unsigned count)
{
        struct mem_end *end = mem_of(stream);
        ssize_t sum = 0;
        unsigned i;

        if (end->other == NULL)
                return -EPIPE;
        for (i = 0; i < count && end->other->len < MEM_ROOM; i++) {
                size_t room = MEM_ROOM - end->other->len, n = pieces[i].iov_len < room ? pieces[i].iov_len : room;

                mem_arrive(end->other, pieces[i].iov_base, n);
                sum += (ssize_t)n;
        }
        return sum > 0 ? sum : -EAGAIN;
}

static bool mem_readable(const struct mem_end *end)
{
        return end->reset || (!end->held && (end->len > 0 || end->other == NULL));
}

static ssize_t mem_receive(struct net_stream *stream, const struct iovec *pieces, unsigned count)
{
        struct mem_end *end = mem_of(stream);
        size_t sum = 0;
        unsigned i;

        if (end->reset)
                return -ECONNRESET;
        if (!mem_readable(end))
                return -EAGAIN;
        for (i = 0; i < count; i++) {
                size_t left = end->len - sum < mem_chunk - sum ? end->len - sum : mem_chunk - sum;
                size_t n = pieces[i].iov_len < left ? pieces[i].iov_len : left;

                if (n > 0)
                        memcpy(pieces[i].iov_base, end->bytes + sum, n);
                sum += n;
        }
        end->len -= sum;
        if (end->len > 0)
                memmove(end->bytes, end->bytes + sum, end->len);
        return (ssize_t)sum;
}

static int mem_handshake(struct net_stream *stream)
{
        mem_of(stream)->shaken = true;
        return 1;
}

static bool mem_is_named(struct net_stream *stream, const char *name)
{
        return stream->tls && strcmp(mem_of(stream)->shown, name) == 0;
}

static int mem_export(struct net_stream *stream, uint8_t out[NET_EXPORT_LEN])
{
        memcpy(out, mem_of(stream)->secret, NET_EXPORT_LEN);
        return stream->tls ? 0 : -EPROTO;
}

static void mem_want(struct net_stream *stream, bool receive, bool send)
{
        mem_of(stream)->receives = receive;
        mem_of(stream)->sends = send;
}

static void mem_leave(struct net_stream *stream)
{
        stream->loop = NULL;
}

static int mem_join(struct net_stream *stream, struct lp_loop *loop)
{
        stream->loop = loop;
        return 0;
}

/* ---- nodes' ends ----------------------------------------------------------------------------- */

static int mem_listen(struct net_transport *transport, struct lp_loop *loop, struct net_listener *listener,
                      char *address, size_t size)
{
        struct mem_node *node = container_of(transport, struct mem_node, transport);

        node->listener = listener;
        snprintf(address, size, "%s", node->name);
        return 0;
}

static void mem_unlisten(struct net_transport *transport, struct net_listener *listener)
{
        container_of(transport, struct mem_node, transport)->listener = NULL;
}

static int mem_connect(struct net_transport *transport, struct lp_loop *loop, const char *address, bool tls,
                       struct net_stream **out);

static const struct net_transport_ops mem_ops = {mem_listen,   mem_unlisten, mem_connect, mem_handshake,
                                                 mem_is_named, mem_export,   mem_receive, mem_send,
                                                 mem_want,     mem_leave,    mem_join,    mem_close};

static struct mem_node *mem_listening(const char *address)
{
        unsigned i;

        for (i = 0; i < mem_node_count; i++)
                if (mem_nodes[i]->listener != NULL && strcmp(mem_nodes[i]->name, address) == 0)
                        return mem_nodes[i];
        return NULL;
}

/* A stream to a node; who: the certificate that its opener shows. The node's end is accepted at once, so that the two are there in order. */
static struct mem_end *mem_dial(struct mem_node *to, const char *who, bool tls)
{
        struct mem_end *near = mem_end_new(&mem_ops, tls), *far = mem_end_new(&mem_ops, tls);
        struct lp_loop *outer = lp_become(to->loops[0]);

        near->other = far;
        far->other = near;
        snprintf(near->shown, sizeof(near->shown), "%s", to->name);
        snprintf(far->shown, sizeof(far->shown), "%s", who);
        lp_random(near->secret, sizeof(near->secret));
        memcpy(far->secret, near->secret, sizeof(far->secret));
        far->base.loop = to->loops[0];
        far->held = mem_catches;
        mem_caught = mem_catches ? far : NULL;
        to->listener->accepted(to->listener, &far->base);
        lp_become(outer);
        return near;
}

static int mem_connect(struct net_transport *transport, struct lp_loop *loop, const char *address, bool tls,
                       struct net_stream **out)
{
        struct mem_node *from = container_of(transport, struct mem_node, transport), *to = mem_listening(address);
        struct mem_end *end;

        if (to == NULL)
                return -ECONNREFUSED;
        end = mem_dial(to, from->name, tls);
        end->base.loop = loop;
        *out = &end->base;
        return 0;
}

/* The test's own end: nothing reads there but the test. */
static struct mem_end *mem_dial_raw(struct mem_node *to, const char *who, bool tls)
{
        struct mem_end *end = mem_dial(to, who, tls);

        end->raw = true;
        return end;
}

/* Both ends see a reset; what was held is lost with it. */
static inline void mem_reset(struct mem_end *end)
{
        end->reset = true;
        if (end->other != NULL) {
                end->other->reset = true;
                end->other->other = NULL;
        }
        end->other = NULL;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool mem_event(struct mem_end *end)
{
        bool sends = end->sends && (end->other == NULL || end->other->len < MEM_ROOM);
        struct lp_loop *outer;

        if (end->raw || end->base.loop == NULL || end->base.ready == NULL)
                return false;
        if (end->shaken && !(end->receives && mem_readable(end)) && !sends)
                return false;
        if (++mem_event_count == mem_cut_at)
                mem_reset(end);
        outer = lp_become(end->base.loop);
        end->base.ready(&end->base);
        lp_become(outer);
        return true;
}

/* Messages, and slots for those whose turn has come. */
static bool mem_turn(struct lp_loop *loop)
{
        struct lp_loop *outer = lp_become(loop);
        bool more = lp_loop_drain(loop) > 0 || lp_arena_grant_due(loop);

        lp_arena_grant(loop);
        lp_become(outer);
        return more;
}

/* Until nothing more happens without time. */
static void mem_settle(void)
{
        unsigned i, j, turns = 0;
        bool more = true;

        while (more) {
                MUST(turns++ < 1000000);
                more = false;
                for (i = 0; i < mem_node_count; i++)
                        for (j = 0; j < MEM_LOOPS; j++)
                                more |= mem_turn(mem_nodes[i]->loops[j]);
                for (i = 0; i < MEM_ENDS; i++)
                        if (mem_ends[i] != NULL)
                                more |= mem_event(mem_ends[i]);
        }
}

static void mem_pass(unsigned ms)
{
        unsigned i, j;

        mem_settle();
        for (; ms > 0; ms -= ms < 10 ? ms : 10) {
                mem_now += (ms < 10 ? ms : 10) * NET_MS;
                for (i = 0; i < mem_node_count; i++)
                        for (j = 0; j < MEM_LOOPS; j++) {
                                struct lp_loop *loop = mem_nodes[i]->loops[j], *outer = lp_become(loop);

                                loop->now = mem_now;
                                lp_timers_expire(&loop->timers, mem_now);
                                lp_become(outer);
                        }
                mem_settle();
        }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void mem_node_start(struct mem_node *node, struct net_options *options)
{
        unsigned i;

        memset(node, 0, sizeof(*node));
        pthread_mutex_init(&node->node.lock, NULL);
        if (mem_now == 0)
                mem_now = lp_clock();
        snprintf(node->name, sizeof(node->name), "node-%u", options->node);
        node->transport.ops = &mem_ops;
        for (i = 0; i < MEM_LOOPS; i++) {
                struct lp_config config = {.index = i, .peer_slots = fixture_peer_slots};

                MUST(lp_loop_new(&config, &node->loops[i]) == 0);
                node->loops[i]->running = true; /* its clock is ours */
                node->loops[i]->now = mem_now;
        }
        mem_nodes[mem_node_count++] = node;
        options->loops = node->loops;
        options->loop_count = MEM_LOOPS;
        options->transport = &node->transport;
        options->log_arg = &node->node;
        if (options->handler.bulk == NULL) {
                options->handler = (struct net_handler){.bulk = node_bulk, .request = node_request, .lost = node_lost};
                options->handler_arg = &node->node;
        }
        options->log = node_log;
        MUST(net_new(options, &node->node.net) == 0);
        net_start(node->node.net, NULL, NULL);
        mem_settle();
}

static void mem_has_stopped(void *arg)
{
        ((struct mem_node *)arg)->stopped = true;
}

static void mem_release(struct mem_node *node)
{
        unsigned i, count = node->node.held_count;

        node->node.held_count = 0;
        for (i = 0; i < count; i++)
                if (node->node.held[i] != NULL) {
                        struct lp_loop *outer = lp_become(node->node.held[i]->conn->at->lp);

                        release_one(node->node.held[i]);
                        lp_become(outer);
                }
        mem_settle();
}

/* Its net has stopped; its loops are there yet. */
static void mem_node_halt(struct mem_node *node)
{
        net_stop(node->node.net, mem_has_stopped, node);
        mem_settle();
        mem_release(node);
        mem_pass(50);
        MUST(node->stopped);
        MUST(atomic_load(&node->node.net->alive) == 0);
}

static void mem_node_free(struct mem_node *node)
{
        unsigned i;

        net_free(node->node.net);
        for (i = 0; mem_nodes[i] != node; i++)
                ;
        mem_nodes[i] = mem_nodes[--mem_node_count];
        for (i = 0; i < MEM_LOOPS; i++) {
                node->loops[i]->running = false;
                lp_loop_free(node->loops[i]);
        }
        pthread_mutex_destroy(&node->node.lock);
}

/* The last one to stop stops the network. */
static inline void mem_node_stop(struct mem_node *node)
{
        mem_node_halt(node);
        mem_node_free(node);
}

static struct net_peer *mem_knows(struct mem_node *node, uint16_t number)
{
        struct net_peer_options options = {.node = number};
        struct net_peer *peer;

        snprintf(options.name, sizeof(options.name), "node-%u", number);
        snprintf(options.address, sizeof(options.address), "node-%u", number);
        MUST(net_peer_set(node->node.net, &options, &peer) == 0);
        mem_settle();
        return peer;
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct mem_call {
        struct net_call call;
        bool done;
};

static void mem_call_done(struct net_call *call)
{
        struct mem_call *mem = container_of(call, struct mem_call, call);

        MUST(!mem->done);
        mem->done = true;
}

/* From the first loop. */
static void mem_call(struct mem_node *node, struct mem_call *mem)
{
        struct lp_loop *outer = lp_become(node->loops[0]);

        mem->done = false;
        mem->call.done = mem_call_done;
        net_call(&mem->call);
        lp_become(outer);
        mem_settle();
}

static inline enum net_outcome mem_echo(struct mem_node *node, struct net_peer *peer, enum net_link_number link)
{
        struct mem_call mem = {
                .call = {.peer = peer, .link = link, .operation = OP_ECHO, .body = "some", .body_len = 4}};

        mem_call(node, &mem);
        MUST(mem.done);
        return mem.call.outcome;
}

static inline struct net_stats mem_stats(const struct mem_node *node)
{
        struct net_stats stats;

        net_stats_read(node->node.net, &stats);
        return stats;
}

/* ---- the test's own frames ------------------------------------------------------------------- */

struct raw_frame {
        uint8_t bytes[NET_HEAD_SIZE + NET_BODY_MAX + 4096];
        size_t len;
};

/* A frame with this head, body and bulk, and right checksums. */
static inline struct raw_frame *raw_frame(struct net_wire_head *head, const void *body, const void *bulk)
{
        struct raw_frame *frame = malloc(sizeof(*frame));

        MUST(frame != NULL && head->bulk_len <= 4096 && (head->body_len == 0 || body != NULL) &&
             (head->bulk_len == 0 || bulk != NULL));
        head->bulk_crc = head->bulk_len > 0 ? era_crc32c(0, bulk, head->bulk_len) : 0;
        net_head_write(head, body, frame->bytes);
        if (head->body_len > 0 && body != NULL)
                memcpy(frame->bytes + NET_HEAD_SIZE, body, head->body_len);
        if (head->bulk_len > 0 && bulk != NULL)
                memcpy(frame->bytes + NET_HEAD_SIZE + head->body_len, bulk, head->bulk_len);
        frame->len = NET_HEAD_SIZE + head->body_len + head->bulk_len;
        return frame;
}

/* HELLO of node 1 to node 2, over TLS. */
static inline struct net_wire_hello raw_hello(enum net_link_number link, uint64_t boot, uint64_t sequence)
{
        struct net_wire_hello hello = {.generation = 7,
                                       .generation_random = 99,
                                       .node = 1,
                                       .to = 2,
                                       .link = (uint8_t)link,
                                       .version_min = 1,
                                       .version_max = 1,
                                       .boot = boot,
                                       .sequence = sequence,
                                       .wall_ms = lp_wall_ms()};

        memcpy(hello.cluster, "a test cluster", 14);
        return hello;
}

static inline void raw_send(struct mem_end *end, const void *bytes, size_t len)
{
        if (end->other != NULL)
                mem_arrive(end->other, bytes, len);
}

/* Connects as node 1, and says this HELLO. */
static inline struct mem_end *raw_greet(struct mem_node *to, const struct net_wire_hello *hello, const uint8_t *secret)
{
        struct mem_end *end = mem_dial_raw(to, "node-1", secret == NULL);
        uint8_t bytes[NET_HELLO_SIZE];

        net_hello_write(hello, secret, bytes);
        raw_send(end, bytes, sizeof(bytes));
        mem_settle();
        return end;
}

/* The kind of the first frame that has come, and the reason if it is REFUSED; 0: none. */
static inline unsigned raw_heard(struct mem_end *end, enum net_reason *reason)
{
        struct net_wire_head head;
        struct net_wire_refused refused;

        if (end->len < NET_HEAD_SIZE || net_head_read(end->bytes, &head) != 0 ||
            end->len < NET_HEAD_SIZE + head.body_len)
                return 0;
        if (reason != NULL && head.kind == NET_FRAME_REFUSED &&
            net_refused_read(end->bytes + NET_HEAD_SIZE, head.body_len, &refused) == 0)
                *reason = (enum net_reason)refused.reason;
        end->len -= NET_HEAD_SIZE + head.body_len + head.bulk_len;
        memmove(end->bytes, end->bytes + NET_HEAD_SIZE + head.body_len + head.bulk_len, end->len);
        return head.kind;
}

#endif
