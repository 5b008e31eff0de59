/*
 * fake_connect.c - the fake's connections: listeners, private data to and fro, events, and pairs
 * from their making to their end. Live ones do the same over fake_wire.c.
 */
#include "tests/fakerdma/fake_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- channels -------------------------------------------------------------------------------- */

int fake_channel_open(struct rdx_device *device, struct rdx_channel **out)
{
        struct rdx_channel *channel;

        fake_lock();
        channel = fake_point() ? NULL : calloc(1, sizeof(*channel));
        if (channel != NULL) {
                channel->device = device;
                channel->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
                channel->last = &channel->first;
                channel->next = fake.channels;
                fake.channels = channel;
                FAKE_MUST(channel->fd >= 0);
                fake_opened();
        }
        fake_unlock();
        *out = channel;
        return channel != NULL ? 0 : -ENOMEM;
}

void fake_channel_close(struct rdx_channel *channel)
{
        struct rdx_channel **link = &fake.channels;
        struct fake_event *event;

        fake_lock();
        FAKE_MUST(channel->users == 0);
        while (*link != channel)
                link = &(*link)->next;
        *link = channel->next;
        while ((event = channel->first) != NULL) {
                channel->first = event->next;
                FAKE_MUST(event->event.arrival == NULL); /* its listener is closed first, which takes them */
                free(event);
        }
        fake_closed();
        fake_unlock();
        close(channel->fd);
        free(channel);
}

int fake_channel_fd(const struct rdx_channel *channel)
{
        return channel->fd;
}

int fake_channel_next(struct rdx_channel *channel, struct rdx_event *out)
{
        struct fake_event *event;
        uint64_t count;

        fake_lock();
        event = channel->first;
        if (event != NULL) {
                *out = event->event;
                channel->first = event->next;
                if (channel->first == NULL)
                        channel->last = &channel->first;
                free(event);
        } else {
                while (read(channel->fd, &count, sizeof(count)) > 0)
                        ;
        }
        fake_unlock();
        return event != NULL;
}

void fake_event(struct rdx_channel *channel, enum rdx_event_kind kind, const struct rdx_pair *pair, int result,
                const void *data, size_t len, struct rdx_arrival *arrival)
{
        struct fake_event *event = calloc(1, sizeof(*event));

        FAKE_MUST(event != NULL && len <= FAKE_DATA_MOST);
        event->event.kind = kind;
        event->event.owner = pair != NULL ? pair->owner : NULL;
        event->event.result = result;
        event->event.arrival = arrival;
        if (arrival != NULL) {
                event->event.listener = arrival->listener;
                event->event.peer = arrival->peer;
        }
        if (len > 0)
                memcpy(event->event.data, data, len);
        event->event.len = len;
        event->pair = pair;
        *channel->last = event;
        channel->last = &event->next;
        fake_signal(channel->fd);
}

/* Events of a pair that is closed are never seen. */
static void forget_events(struct rdx_channel *channel, const struct rdx_pair *pair)
{
        struct fake_event **link = &channel->first, *event;

        while ((event = *link) != NULL) {
                if (event->pair == pair) {
                        *link = event->next;
                        free(event);
                } else {
                        link = &event->next;
                }
        }
        channel->last = link;
}

/* ---- listening ------------------------------------------------------------------------------- */

int fake_listen(struct rdx_channel *channel, const char *address, uint16_t port, unsigned backlog,
                struct rdx_listener **out)
{
        struct rdx_listener *listener = NULL;
        int rv = -EADDRINUSE;

        fake_lock();
        if (!fake_point()) {
                listener = calloc(1, sizeof(*listener));
                FAKE_MUST(listener != NULL);
                listener->channel = channel;
                listener->port = port != 0 ? port : ++fake.next_port;
                listener->fd = -1;
                snprintf(listener->address, sizeof(listener->address), "%s", address);
                rv = fake.live ? fake_wire_listen(listener) : 0;
        }
        if (rv == 0) {
                channel->users++;
                listener->next = fake.listeners;
                fake.listeners = listener;
                fake_opened();
        } else {
                free(listener);
                listener = NULL;
        }
        fake_unlock();
        *out = listener;
        return rv;
}

uint16_t fake_listener_port(const struct rdx_listener *listener)
{
        return listener->port;
}

static void reject_locked(struct rdx_arrival *arrival, const void *data, size_t len)
{
        struct rdx_pair *client = arrival->client;

        if (fake.live) {
                fake_wire_reject(arrival, data, len);
        } else if (client != NULL) {
                client->arrival = NULL;
                client->state = PAIR_ERROR;
                fake_event(client->channel, RDX_EVENT_REJECTED, client, -ECONNREFUSED, data, len, NULL);
        }
        fake_closed();
        free(arrival);
}

void fake_unlisten(struct rdx_listener *listener)
{
        struct rdx_listener **link = &fake.listeners;
        struct fake_event **at, *event;

        fake_lock();
        while (*link != listener)
                link = &(*link)->next;
        *link = listener->next;
        for (at = &listener->channel->first; (event = *at) != NULL;) {
                if (event->event.arrival != NULL && event->event.listener == listener) {
                        *at = event->next;
                        reject_locked(event->event.arrival, NULL, 0);
                        free(event);
                } else {
                        at = &event->next;
                }
        }
        listener->channel->last = at;
        listener->channel->users--;
        if (fake.live)
                fake_wire_unlisten(listener);
        fake_closed();
        fake_unlock();
        free(listener);
}

void fake_reject(struct rdx_arrival *arrival, const void *data, size_t len)
{
        fake_lock();
        reject_locked(arrival, data, len);
        fake_unlock();
}

/* Private data comes as the wire pads it. */
void fake_arrive(struct rdx_listener *listener, struct rdx_arrival *arrival, const void *data, size_t len)
{
        uint8_t padded[RDX_PRIVATE_MOST] = {0};

        FAKE_MUST(len <= sizeof(padded));
        memcpy(padded, data, len);
        arrival->listener = listener;
        fake_opened();
        fake_event(listener->channel, RDX_EVENT_ARRIVAL, NULL, 0, padded, sizeof(padded), arrival);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static void init_pair(struct rdx_pair *pair, const struct rdx_pair_options *options)
{
        struct rdx_arrival *arrival = options->arrival;

        pair->channel = options->channel;
        pair->domain = options->domain;
        pair->queue = options->queue;
        pair->owner = options->owner;
        pair->sends = options->sends;
        pair->receives = options->receives;
        pair->work_last = &pair->work;
        pair->receive_last = &pair->receive;
        pair->fd = -1;
        memcpy(pair->own.gid, options->domain->device->gid, RDX_GID_LEN);
        pair->own.pair = 0x100 + fake.next_pair++ % 0xfffe00;
        if (arrival != NULL) {
                pair->peer = arrival->peer;
                pair->remote = arrival->client;
                pair->fd = arrival->fd;
                pair->pid = arrival->pid;
                pair->no_reads = arrival->no_reads;
                pair->mute = arrival->mute;
        } else {
                snprintf(pair->address, sizeof(pair->address), "%s", options->address);
                pair->port = options->port;
        }
}

int fake_pair_open(const struct rdx_pair_options *options, struct rdx_pair **out)
{
        struct rdx_pair *pair = NULL;

        fake_lock();
        FAKE_MUST(options->sends > 0 && options->receives > 0);
        if (!fake_point() && (fake.options.queue_pairs == 0 || fake.pair_count < fake.options.queue_pairs))
                pair = calloc(1, sizeof(*pair));
        if (pair != NULL) {
                init_pair(pair, options);
                if (pair->remote != NULL) {
                        pair->remote->arrival = NULL;
                        pair->remote->remote = pair;
                }
                pair->domain->users++;
                pair->queue->pairs++;
                pair->channel->users++;
                pair->next = fake.pairs;
                fake.pairs = pair;
                fake.pair_count++;
                fake_opened();
                if (options->arrival != NULL) {
                        fake_closed();
                        free(options->arrival);
                }
        } else if (options->arrival != NULL) {
                reject_locked(options->arrival, NULL, 0);
        }
        fake_unlock();
        *out = pair;
        return pair != NULL ? 0 : -ENOMEM;
}

void fake_pair_parties(const struct rdx_pair *pair, struct rdx_party *own, struct rdx_party *peer)
{
        fake_lock();
        *own = pair->own;
        *peer = pair->peer;
        fake_unlock();
}

unsigned fake_pair_read_depth(const struct rdx_pair *pair)
{
        return pair->no_reads ? 0 : 16;
}

static int connect_stepped(struct rdx_pair *pair, const void *data, size_t len)
{
        struct rdx_listener *listener = fake.listeners;
        struct rdx_arrival *arrival;

        while (listener != NULL && (listener->port != pair->port || strcmp(listener->address, pair->address) != 0))
                listener = listener->next;
        if (listener == NULL)
                return -ECONNREFUSED;
        arrival = calloc(1, sizeof(*arrival));
        FAKE_MUST(arrival != NULL);
        arrival->client = pair;
        arrival->peer = pair->own;
        arrival->fd = -1;
        arrival->no_reads = fake.options.no_reads;
        arrival->mute = fake.options.mute;
        pair->arrival = arrival;
        fake_arrive(listener, arrival, data, len);
        return 0;
}

int fake_pair_connect(struct rdx_pair *pair, const void *data, size_t len)
{
        int rv = -ENETUNREACH;

        fake_lock();
        FAKE_MUST(pair->state == PAIR_NEW);
        if (!fake_point())
                rv = fake.live ? fake_wire_connect(pair, data, len) : connect_stepped(pair, data, len);
        pair->state = rv == 0 ? PAIR_CONNECTING : PAIR_ERROR;
        fake_unlock();
        return rv;
}

int fake_pair_accept(struct rdx_pair *pair, const void *data, size_t len)
{
        struct rdx_pair *client;
        int rv = -ECONNRESET;

        fake_lock();
        FAKE_MUST(pair->state == PAIR_NEW);
        client = pair->remote;
        if (!fake_point() && (fake.live || client != NULL)) {
                pair->state = PAIR_READY;
                rv = fake.live ? fake_wire_accept(pair, data, len) : 0;
                if (rv == 0 && client != NULL) {
                        client->peer = pair->own;
                        client->state = PAIR_READY;
                        fake_event(client->channel, RDX_EVENT_UP, client, 0, data, len, NULL);
                }
        }
        if (rv == 0 && !pair->mute)
                fake_event(pair->channel, RDX_EVENT_UP, pair, 0, NULL, 0, NULL);
        fake_unlock();
        return rv;
}

void fake_pair_fail(struct rdx_pair *pair)
{
        fake_lock();
        fake_to_error(pair, -ECANCELED);
        fake_unlock();
}

/* Staged bytes may still appear here, and no later. */
void fake_pair_close(struct rdx_pair *pair)
{
        struct rdx_pair **link = &fake.pairs;

        fake_lock();
        fake_to_error(pair, -ECANCELED);
        fake_forget_work(pair);
        if (pair->arrival != NULL)
                pair->arrival->client = NULL;
        if (pair->remote != NULL)
                pair->remote->remote = NULL;
        if (fake.live)
                fake_wire_close(pair);
        forget_events(pair->channel, pair);
        pair->channel->users--;
        pair->domain->users--;
        pair->queue->pairs--;
        while (*link != pair)
                link = &(*link)->next;
        *link = pair->next;
        fake.pair_count--;
        fake_closed();
        fake_unlock();
        free(pair);
}

/* ---- disasters ------------------------------------------------------------------------------- */

void fake_cut(bool device_gone)
{
        struct rdx_channel *channel;
        struct rdx_pair *pair;

        fake_lock();
        for (pair = fake.pairs; pair != NULL; pair = pair->next)
                pair->cut = true;
        for (channel = fake.channels; device_gone && channel != NULL; channel = channel->next)
                fake_event(channel, RDX_EVENT_DEVICE_GONE, NULL, -ENODEV, NULL, 0, NULL);
        fake_unlock();
}

void fake_kill(const void *memory, size_t len)
{
        const struct rdx_region *region = NULL;
        struct rdx_pair *pair;
        uint32_t i;

        fake_lock();
        for (i = 0; i < fake.key_count && region == NULL; i++) {
                if (fake.keys[i].kind == KEY_REGION)
                        region = fake.keys[i].object;
                if (region != NULL && (region->base != memory || region->len != len))
                        region = NULL;
        }
        for (pair = fake.pairs; pair != NULL; pair = pair->next)
                if (region != NULL && pair->domain == region->domain)
                        pair->cut = true;
        fake_unlock();
}
