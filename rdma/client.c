/*
 * client.c - a client's session: connecting with proof on both sides, what arrives, and the fence.
 *
 * One queue pair (control and data). All receives are posted before the connection is asked for,
 * each is posted again as soon as it was looked at, and client_window.c counts who may use them: so
 * no message can meet none. Every work request of the send queue is signalled: they are few.
 */
#include "rdma/client_internal.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_MOST   32u
#define TAG_RECEIVE (1ull << 63)

/* ---- waiting --------------------------------------------------------------------------------- */

uint64_t rdx_client_now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int wait_fd(int fd, unsigned timeout_ms)
{
        struct pollfd item = {.fd = fd, .events = POLLIN};
        int n = poll(&item, 1, timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms);

        return n < 0 && errno == EINTR ? 1 : n > 0; /* interrupted: look, and wait for the rest */
}

int rdx_client_pause(struct rdx_client *client, int fd, uint64_t until_ms)
{
        uint64_t now = rdx_client_now_ms();
        unsigned left = now < until_ms ? (unsigned)(until_ms - now) : 0;
        int n = client->events.wait != NULL ? client->events.wait(client->events.arg, fd, left) : wait_fd(fd, left);

        return n > 0 ? 0 : -ETIMEDOUT;
}

/* ---- what comes ------------------------------------------------------------------------------ */

static uint8_t *receive_buffer(const struct rdx_client *client, unsigned i)
{
        return client->memory + (size_t)i * RDX_MESSAGE_MAX;
}

static int post_receive(struct rdx_client *client, unsigned i)
{
        return client->transport->post_receive(client->pair, TAG_RECEIVE | i, receive_buffer(client, i),
                                               RDX_MESSAGE_MAX, client->transport->region_lkey(client->region));
}

/*
 * A RESULT. What the callback makes of entries that came broken is its own affair: the session is
 * over after a wrong message.
 */
static int rdma_client_take_result(struct rdx_client *client, const struct rdx_reader *reader,
                                   const struct rdx_done *done)
{
        const struct rdx_message *message = &reader->message;
        struct rdx_client_result result = {.number = message->number,
                                           .notices = message->first,
                                           .last = (message->flags & RDX_LAST) != 0,
                                           .reader = *reader};

        if (rdx_reader_check(reader) != 0)
                return -EBADMSG;
        if (result.last) {
                rdx_message_last(client, message->number);
                rdx_window_binding_notice(client, message->number, UINT64_MAX, done);
        }
        if (client->events.result != NULL)
                client->events.result(client->events.arg, &result);
        return 0;
}

static int take_message(struct rdx_client *client, const struct rdx_done *done)
{
        struct rdx_reader reader;
        int rv;

        if (done->has_imm) {
                rdx_window_binding_notice(client, done->imm, UINT32_MAX, done);
                return 0;
        }
        rv = rdx_reader_open(&reader, receive_buffer(client, (uint32_t)done->tag), done->len);
        if (rv == 0 && reader.message.type == RDX_RESULT)
                return rdma_client_take_result(client, &reader, done);
        if (rv == 0 && reader.message.type == RDX_NOTICE)
                rdx_window_binding_notice(client, reader.message.number, UINT64_MAX, done);
        else
                rv = -EBADMSG;
        return rv;
}

static void rdma_client_take_done(struct rdx_client *client, const struct rdx_done *done)
{
        client->taken++;
        if ((done->tag & TAG_RECEIVE) == 0) {
                client->completed++;
                if (done->result != 0 && client->failed == 0)
                        client->failed = done->result;
        }
        if (done->result != 0) {
                client->over = true;
                return;
        }
        if ((done->tag & TAG_RECEIVE) != 0 && client->pair != NULL &&
            (take_message(client, done) != 0 || post_receive(client, (uint32_t)done->tag) != 0))
                client->over = true;
}

/* After the pair is up only its end is of interest. */
static void take_events(struct rdx_client *client)
{
        struct rdx_event event;

        while (client->transport->channel_next(client->channel, &event) == 1)
                if (event.kind == RDX_EVENT_DOWN || event.kind == RDX_EVENT_DEVICE_GONE ||
                    event.kind == RDX_EVENT_REJECTED)
                        client->over = true;
}

int rdx_client_poll(struct rdx_client *client)
{
        struct rdx_done done[POLL_MOST];
        bool armed = false;
        int i, n;

        for (;;) {
                n = client->transport->queue_poll(client->queue, done, POLL_MOST);
                for (i = 0; i < n; i++)
                        rdma_client_take_done(client, &done[i]);
                if (n <= 0 && armed)
                        break;
                if (n <= 0) {
                        client->transport->queue_arm(client->queue);
                        armed = true;
                }
        }
        take_events(client);
        return client->over || client->pair == NULL ? -ENOTCONN : 0;
}

int rdx_client_fd(const struct rdx_client *client)
{
        return client->transport->queue_fd(client->queue);
}

int rdx_client_event_fd(const struct rdx_client *client)
{
        return client->transport->channel_fd(client->channel);
}

int rdx_client_wait(struct rdx_client *client, unsigned timeout_ms)
{
        uint64_t before = client->taken;
        int rv = rdx_client_poll(client);

        if (rv != 0 || client->taken != before)
                return rv;
        rv = rdx_client_pause(client, rdx_client_fd(client), rdx_client_now_ms() + timeout_ms);
        return rv == 0 ? rdx_client_poll(client) : rv;
}

/* ---- work of its own ------------------------------------------------------------------------- */

int rdx_client_post(struct rdx_client *client, const struct rdx_work *work)
{
        struct rdx_work signalled = *work;
        unsigned taken = 0;
        int rv;

        if (client->pair == NULL || client->over)
                return -ENOTCONN;
        if (client->posted - client->completed >= RDX_CLIENT_SENDS)
                return -EAGAIN;
        signalled.signalled = true;
        signalled.tag = client->posted;
        rv = client->transport->post(client->pair, &signalled, 1, &taken);
        client->posted += taken;
        if (rv != 0)
                client->over = true;
        return rv;
}

int rdx_client_settle(struct rdx_client *client, unsigned timeout_ms)
{
        uint64_t until = rdx_client_now_ms() + timeout_ms;
        uint32_t wanted = client->posted;
        int rv = rdx_client_poll(client);

        while (rv == 0 && (int32_t)(client->completed - wanted) < 0) {
                rv = rdx_client_pause(client, rdx_client_fd(client), until);
                if (rv == 0)
                        rv = rdx_client_poll(client);
        }
        return rv;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static int reject_errno(const struct rdx_event *event)
{
        switch (rdx_reject_parse(event->data, event->len)) {
        case RDX_REJECT_UNKNOWN:
                return -EACCES;
        case RDX_REJECT_AGAIN:
                return -EEXIST;
        case RDX_REJECT_NO_ROOM:
                return -ENOSPC;
        case RDX_REJECT_MALFORMED:
                return -EPROTO;
        default:
                return -ECONNREFUSED;
        }
}

/* The server proves that it is the one that was asked over HTTP. */
static int check_answer(struct rdx_client *client, const struct rdx_event *event)
{
        struct rdx_binding binding;
        struct rdx_private answer;

        memset(&binding, 0, sizeof(binding));
        memcpy(binding.boot, client->boot, RDX_BOOT_LEN);
        client->transport->pair_parties(client->pair, &binding.client, &binding.server);
        if (rdx_private_parse(event->data, event->len, &answer) != 0 || answer.kind != RDX_PRIVATE_ACCEPTED)
                return -EPROTO;
        if (!rdx_private_verify(&answer, client->keys.connect, &binding) ||
            memcmp(answer.session, client->session, RDX_ID_LEN) != 0 || answer.endpoint != client->endpoint ||
            answer.index != 0)
                return -EACCES;
        if (answer.messages < client->messages_most)
                client->messages_most = answer.messages;
        return 0;
}

static int await_answer(struct rdx_client *client, uint64_t until)
{
        struct rdx_event event;
        int rv = 0;

        for (;;) {
                int n = client->transport->channel_next(client->channel, &event);

                if (n == 1 && event.kind == RDX_EVENT_UP)
                        return check_answer(client, &event);
                if (n == 1 && event.kind == RDX_EVENT_REJECTED)
                        return reject_errno(&event);
                if (n == 1 || n < 0)
                        return -ECONNRESET;
                rv = rdx_client_pause(client, client->transport->channel_fd(client->channel), until);
                if (rv != 0)
                        return rv;
        }
}

static int rdma_client_ask(struct rdx_client *client)
{
        struct rdx_private private = {.kind = RDX_PRIVATE_CONNECT, .endpoint = client->endpoint};
        struct rdx_binding binding;
        struct rdx_party peer;
        uint8_t data[RDX_PRIVATE_LEN];

        memset(&binding, 0, sizeof(binding));
        memcpy(private.session, client->session, RDX_ID_LEN);
        memcpy(binding.boot, client->boot, RDX_BOOT_LEN);
        client->transport->pair_parties(client->pair, &binding.client, &peer);
        rdx_private_build(&private, client->keys.connect, &binding, data);
        return client->transport->pair_connect(client->pair, data, sizeof(data));
}

static int open_objects(struct rdx_client *client, const struct rdx_grant *grant, unsigned timeout_ms)
{
        const struct rdx_transport *transport = client->transport;
        size_t size = (size_t)(client->receives + client->messages_most) * RDX_MESSAGE_MAX;
        struct rdx_pair_options options = {.domain = client->domain->pd,
                                           .sends = RDX_CLIENT_SENDS,
                                           .receives = client->receives,
                                           .address = grant->address,
                                           .port = grant->port,
                                           .timeout_ms = timeout_ms};
        unsigned i;
        int rv;

        client->memory = aligned_alloc(4096, size);
        if (client->memory == NULL)
                return -ENOMEM;
        memset(client->memory, 0, size);
        rv = transport->region_open(client->domain->pd, client->memory, size, RDX_LOCAL_WRITE, &client->region);
        if (rv == 0)
                rv = transport->channel_open(client->domain->device, &client->channel);
        if (rv == 0)
                rv = transport->queue_open(client->domain->device, RDX_CLIENT_SENDS + client->receives, &client->queue);
        options.channel = client->channel;
        options.queue = client->queue;
        if (rv == 0)
                rv = transport->pair_open(&options, &client->pair);
        for (i = 0; rv == 0 && i < client->receives; i++)
                rv = post_receive(client, i);
        return rv;
}

static void rdma_client_fill(struct rdx_client *client, const struct rdx_grant *grant)
{
        struct rdx_key_input input;

        memcpy(input.signing_key, grant->signing_key, RDX_KEY_LEN);
        memcpy(input.session, grant->session, RDX_ID_LEN);
        memcpy(input.client_nonce, grant->client_nonce, RDX_NONCE_LEN);
        memcpy(input.server_nonce, grant->server_nonce, RDX_NONCE_LEN);
        rdx_keys_derive(&input, &client->keys);
        OPENSSL_cleanse(&input, sizeof(input));
        memcpy(client->session, grant->session, RDX_ID_LEN);
        memcpy(client->boot, grant->boot, RDX_BOOT_LEN);
        rdx_access_key(client->session, client->access_key);
        client->rights = grant->rights;
        client->endpoint = grant->endpoint;
        client->requests_most = grant->requests;
        client->messages_most = grant->messages < RDX_CLIENT_MESSAGES ? grant->messages : RDX_CLIENT_MESSAGES;
        client->receives = grant->receives;
}

int rdx_client_connect(struct rdx_client_domain *domain, const struct rdx_grant *grant, const struct rdx_client_events *events,
                       unsigned timeout_ms, struct rdx_client **out)
{
        uint64_t until = rdx_client_now_ms() + timeout_ms;
        struct rdx_client *client;
        int rv;

        *out = NULL;
        if ((grant->rights & domain->rights) == 0 || (grant->rights & (grant->rights - 1)) != 0 || grant->receives < 16 ||
            grant->receives > 4096)
                return -EINVAL;
        if (domain->busy)
                return -EBUSY;
        client = calloc(1, sizeof(*client));
        if (client == NULL)
                return -ENOMEM;
        domain->busy = true;
        client->domain = domain;
        client->transport = domain->transport;
        client->events = *events;
        rdma_client_fill(client, grant);
        rv = open_objects(client, grant, timeout_ms);
        if (rv == 0)
                rv = rdma_client_ask(client);
        if (rv == 0)
                rv = await_answer(client, until);
        if (rv == 0)
                client->transport->queue_arm(client->queue);
        if (rv != 0) {
                rdx_client_close(client);
                return rv;
        }
        *out = client;
        return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Windows go before the pair that they are bound to: Soft-RoCE loses 50 s otherwise. */
void rdx_client_fence(struct rdx_client *client)
{
        client->over = true;
        if (client->pair == NULL)
                return;
        client->transport->pair_fail(client->pair);
        rdx_window_bindings_forget(client);
        while (client->idle_count > 0)
                client->transport->window_close(client->idle[--client->idle_count]);
        client->transport->pair_close(client->pair);
        client->pair = NULL;
}

void rdx_client_close(struct rdx_client *client)
{
        if (client == NULL)
                return;
        rdx_client_fence(client);
        if (client->queue != NULL)
                client->transport->queue_close(client->queue);
        if (client->channel != NULL)
                client->transport->channel_close(client->channel);
        if (client->region != NULL)
                client->transport->region_close(client->region);
        client->domain->busy = false;
        free(client->memory);
        OPENSSL_cleanse(client, sizeof(*client));
        free(client);
}

const char *rdx_client_access_key(const struct rdx_client *client)
{
        return client->access_key;
}

const char *rdx_client_secret(const struct rdx_client *client)
{
        return client->keys.secret;
}

uint64_t rdx_client_number(struct rdx_client *client)
{
        return ++client->number;
}
