/*
 * fake_rdma.h - the endpoints and the device of connections under test: doubles of
 * session_request.h and rdma_client.h that say yes and no, and keep account of who may write where.
 * The clock stands still until the test moves it.
 *
 * To be included first, by connection_world.h. The doubles of rdma_client.h have its names, so that
 * the linker takes none of rdma/client*.c.
 */
#ifndef TESTS_FAKE_RDMA_H
#define TESTS_FAKE_RDMA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define mr_core_clock_ms          world_clock_ms
#define mr_session_open           world_session_open
#define mr_session_delete         world_session_delete
#define mr_rdma_driver world_transport
#include "client/rdma/connection.c"
#include "client/rdma/connection_session.c"
#include "client/rdma/grants.c"

#include <semaphore.h>

#include "tests/lib/must.h"

#define WORLD_GRIPS 16u
#define WORLD_BYTES (1u << 20)
#define WORLD_WANTS 512u

struct want;

struct rdx_client_domain {
        unsigned rights, registered;
        bool busy;
};

struct rdx_memory {
        struct rdx_client_domain *link;
        void *address;
        size_t len;
};

struct rdx_client {
        struct rdx_client_domain *link;
        struct rdx_client_events events;
        int fd, event_fd;
        bool fenced, down;
        uint64_t number;
        unsigned endpoint, requests, messages; /* of the grant: how many at once */
        struct rdx_window_binding *binding[WORLD_GRIPS];
        uint64_t arrived[WORLD_GRIPS], told[WORLD_GRIPS]; /* numbers of notices, and of results that are not the last */
        unsigned arrivals, results;
};

static struct world {
        struct mr_client *client;
        struct mr_buffer *buffer;
        atomic_llong clock_ms;
        atomic_bool letting; /* an endpoint that is slow answers */

        pthread_mutex_t lock; /* guards what follows */
        /* what the test wants */
        int open_rv, open_status, transport_rv, link_rv, connect_rv, memory_rv, close_rv;
        unsigned sound;        /* mask of the endpoints that open_rv is not for */
        unsigned fail_binding; /* opening this binding, counted from 1, fails */
        int binding_rv;
        bool slow;
        int64_t life_ms;
        uint64_t window_bytes;
        unsigned requests, messages, device_rights;
        enum rdx_rights rights; /* 0: the first of those asked for */
        char address[64];
        /* what has come of it */
        unsigned opens, deletes, links, links_open, links_most, connects, clients_open, fences, bindings, registered,
                registrations, batches, waits;
        unsigned asked_rights;
        int dmabuf_fd;
        uint64_t dmabuf_at;
        void *dmabuf_address;
        struct rdx_client *rdx[MR_ENDPOINTS_MAX]; /* those that are open */
        sem_t opening;          /* posted at each opening of a session */

        struct want *want[WORLD_WANTS]; /* that were asked for; the test's thread */
        unsigned wants;
} world;

/* ---- the clock ------------------------------------------------------------------------------- */

int64_t world_clock_ms(void)
{
        return atomic_load(&world.clock_ms);
}

/* ---- the endpoint ---------------------------------------------------------------------------- */

static inline void world_locked(void)
{
        pthread_mutex_lock(&world.lock);
}

static inline void world_unlocked(void)
{
        pthread_mutex_unlock(&world.lock);
}

int world_transport(struct mr_client *client, const struct rdx_transport **out, struct mr_error *err)
{
        int rv;

        world_locked();
        rv = world.transport_rv;
        world_unlocked();
        *out = NULL;
        return rv != 0 ? mr_failure(err, rv, "no transport, says the test") : 0;
}

int world_session_open(struct mr_client *client, unsigned endpoint, unsigned rights, const struct mr_session_wait *wait,
                       struct mr_session *out, struct mr_error *err)
{
        bool slow;
        int rv;

        world_locked();
        world.opens++;
        world.asked_rights = rights;
        slow = world.slow;
        world_unlocked();
        sem_post(&world.opening);
        while (slow && !atomic_load(&world.letting) && !mr_client_canceled(client))
                wait->pause(wait->arg);
        memset(out, 0, sizeof(*out));
        if (mr_client_canceled(client))
                return mr_failure(err, -ECANCELED, "canceled");
        world_locked();
        rv = (world.sound & 1u << endpoint) != 0 ? 0 : world.open_rv;
        out->grant.endpoint = (uint16_t)endpoint;
        out->grant.rights = world.rights != 0 ? world.rights : (enum rdx_rights)(rights & -rights);
        out->grant.requests = world.requests;
        out->grant.messages = world.messages;
        out->grant.port = 9010;
        out->window_bytes = world.window_bytes;
        out->expires_ms = world_clock_ms() + world.life_ms;
        snprintf(out->address, sizeof(out->address), "%s", world.address);
        if (rv != 0) {
                mr_failure(err, rv, "no session, says the test");
                err->http_status = world.open_status;
        }
        world_unlocked();
        out->grant.address = out->address;
        out->generation = mr_creds_generation(client->creds);
        memset(out->id, 'a', sizeof(out->id) - 1);
        return rv;
}

void world_session_delete(struct mr_client *client, const struct mr_session_key *key,
                          const struct mr_session_wait *wait)
{
        world_locked();
        MUST(key->id[0] == 'a');
        world.deletes++;
        world_unlocked();
}

/* ---- the device ------------------------------------------------------------------------------ */

int rdx_client_domain_open(const struct rdx_transport *transport, const char *address, uint16_t port, unsigned rights,
                  unsigned timeout_ms, struct rdx_client_domain **out, char *why, size_t why_len)
{
        int rv;

        world_locked();
        world.links++;
        rv = world.link_rv;
        MUST(strcmp(address, world.address) == 0 && port == 9010);
        if (rv == 0) {
                *out = calloc(1, sizeof(**out));
                MUST(*out != NULL);
                (*out)->rights = rights != 0 ? rights & world.device_rights : world.device_rights;
                world.links_open++;
                if (world.links_open > world.links_most)
                        world.links_most = world.links_open;
        }
        world_unlocked();
        return rv;
}

void rdx_client_domain_close(struct rdx_client_domain *link)
{
        world_locked();
        MUST(!link->busy && link->registered == 0);
        world.links_open--;
        world_unlocked();
        free(link);
}

unsigned rdx_client_domain_rights(const struct rdx_client_domain *link)
{
        return link->rights;
}

void rdx_client_domain_device(const struct rdx_client_domain *link, struct rdx_device_info *out)
{
        *out = (struct rdx_device_info){.name = "double0", .link = "test"};
}

int rdx_client_domain_memory(struct rdx_client_domain *link, void *address, size_t len, int dmabuf_fd, uint64_t offset,
                    struct rdx_memory **out)
{
        int rv;

        world_locked();
        rv = world.memory_rv;
        world.registrations++;
        world.dmabuf_fd = dmabuf_fd;
        world.dmabuf_at = offset;
        world.dmabuf_address = address;
        if (rv == 0) {
                *out = calloc(1, sizeof(**out));
                MUST(*out != NULL);
                **out = (struct rdx_memory){link, address, len};
                link->registered++;
                world.registered++;
        }
        world_unlocked();
        return rv;
}

void rdx_memory_close(struct rdx_memory *memory)
{
        world_locked();
        memory->link->registered--;
        world.registered--;
        world_unlocked();
        free(memory);
}

/* ---- the session ----------------------------------------------------------------------------- */

int rdx_client_connect(struct rdx_client_domain *link, const struct rdx_grant *grant, const struct rdx_client_events *events,
                       unsigned timeout_ms, struct rdx_client **out)
{
        struct rdx_client *client;
        int rv;

        world_locked();
        world.connects++;
        rv = world.connect_rv;
        MUST(!link->busy);
        if (rv == 0) {
                client = calloc(1, sizeof(*client));
                MUST(client != NULL);
                client->link = link;
                client->events = *events;
                client->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                client->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                client->requests = grant->requests;
                client->messages = grant->messages;
                link->busy = true;
                client->endpoint = grant->endpoint;
                world.rdx[client->endpoint] = *out = client;
                world.clients_open++;
        }
        world_unlocked();
        return rv;
}

void rdx_client_fence(struct rdx_client *client)
{
        world_locked();
        world.fences += !client->fenced;
        client->fenced = true;
        world_unlocked();
}

void rdx_client_close(struct rdx_client *client)
{
        if (client == NULL)
                return;
        rdx_client_fence(client);
        world_locked();
        for (unsigned i = 0; i < WORLD_GRIPS; i++)
                MUST(client->binding[i] == NULL);
        client->link->busy = false;
        world.rdx[client->endpoint] = NULL;
        world.clients_open--;
        world_unlocked();
        close(client->fd);
        close(client->event_fd);
        free(client);
}

int rdx_client_fd(const struct rdx_client *client)
{
        return client->fd;
}

int rdx_client_event_fd(const struct rdx_client *client)
{
        return client->event_fd;
}

const char *rdx_client_access_key(const struct rdx_client *client)
{
        return "session-key";
}

const char *rdx_client_secret(const struct rdx_client *client)
{
        return "session-secret";
}

static inline struct rdx_window_binding *world_binding(struct rdx_client *client, uint64_t number)
{
        for (unsigned i = 0; i < WORLD_GRIPS; i++)
                if (client->binding[i] != NULL && client->binding[i]->number == number)
                        return client->binding[i];
        return NULL;
}

int rdx_client_poll(struct rdx_client *client)
{
        struct rdx_client_events events = client->events;
        uint64_t arrived[WORLD_GRIPS], told[WORLD_GRIPS], count;
        unsigned arrivals, results;
        bool over;

        world_locked();
        over = client->fenced || client->down;
        (void)!read(client->fd, &count, sizeof(count));
        (void)!read(client->event_fd, &count, sizeof(count));
        memcpy(arrived, client->arrived, sizeof(arrived));
        memcpy(told, client->told, sizeof(told));
        arrivals = client->arrivals;
        results = client->results;
        client->arrivals = client->results = 0;
        for (unsigned i = 0; i < arrivals; i++)
                if (world_binding(client, arrived[i]) != NULL)
                        world_binding(client, arrived[i])->noticed = true;
        world_unlocked();
        for (unsigned i = 0; i < results; i++)
                events.result(events.arg, &(struct rdx_client_result){.number = told[i]});
        for (unsigned i = 0; i < arrivals; i++)
                events.noticed(events.arg, arrived[i]);
        return over ? -ENOTCONN : 0;
}

int rdx_window_binding_open(struct rdx_client *client, struct rdx_memory *memory, uint64_t offset, uint64_t len, bool read,
                  unsigned replies, struct rdx_window_binding *binding)
{
        unsigned slot = 0, alike = 0;
        int rv = 0;

        world_locked();
        for (unsigned i = 0; i < WORLD_GRIPS; i++)
                alike += client->binding[i] != NULL && (client->binding[i]->replies > 0) == (replies > 0);
        while (slot < WORLD_GRIPS && client->binding[slot] != NULL)
                slot++;
        if (client->fenced || client->down)
                rv = -ENOTCONN;
        else if (offset > memory->len || len > memory->len - offset)
                rv = -EINVAL;
        else if (slot == WORLD_GRIPS || alike >= (replies > 0 ? client->messages : client->requests))
                rv = -EAGAIN;
        else if (++world.bindings == world.fail_binding)
                rv = world.binding_rv;
        if (rv == 0) {
                *binding = (struct rdx_window_binding){.client = client, .memory = memory, .replies = replies, .bound = true};
                binding->number = ++client->number;
                binding->place = (struct rdx_window_span){
                        .address = (uint64_t)(uintptr_t)memory->address + offset, .rkey = 7, .length = len};
                client->binding[slot] = binding;
        }
        world_unlocked();
        return rv;
}

bool rdx_window_binding_noticed(const struct rdx_window_binding *binding)
{
        bool noticed;

        world_locked();
        noticed = binding->noticed;
        world_unlocked();
        return noticed;
}

int rdx_window_binding_close(struct rdx_window_binding *binding, bool no_notice)
{
        struct rdx_client *client = binding->client;
        int rv;

        world_locked();
        rv = client->fenced || client->down ? -ENOTCONN : world.close_rv;
        if (rv == 0 && !no_notice && !binding->noticed)
                rv = -EPROTO;
        if (rv != 0) {
                world.fences += !client->fenced;
                client->fenced = true;
        }
        for (unsigned i = 0; i < WORLD_GRIPS; i++)
                if (client->binding[i] == binding)
                        client->binding[i] = NULL;
        binding->bound = false;
        world_unlocked();
        return rv;
}

int rdx_client_batch(struct rdx_client *client, const struct rdx_window_binding *binding, const struct rdx_client_batch *batch,
                     const struct rdx_entry *entries, unsigned count, unsigned *sent)
{
        world_locked();
        MUST(binding->bound && binding->client == client && binding->replies > 0);
        world.batches++;
        world_unlocked();
        *sent = count;
        return 0;
}

/* ---- what the other side does ---------------------------------------------------------------- */

static inline void world_ring(int fd)
{
        uint64_t one = 1;

        MUST(write(fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
}

/* The notice of this request, or its LAST result, comes; false: its session is over. */
static inline bool world_notice(const struct mr_grant *grant)
{
        struct rdx_client *client;
        unsigned i = 0;

        world_locked();
        client = world.rdx[grant->key.endpoint];
        while (client != NULL && i < WORLD_GRIPS && client->binding[i] != &grant->binding)
                i++;
        if (client != NULL && i < WORLD_GRIPS) {
                client->arrived[client->arrivals++] = client->binding[i]->number;
                world_ring(client->fd);
        }
        world_unlocked();
        return client != NULL && i < WORLD_GRIPS;
}

/* A RESULT message that is not the last. */
static inline void world_result(uint64_t number)
{
        world_locked();
        world.rdx[0]->told[world.rdx[0]->results++] = number;
        world_ring(world.rdx[0]->fd);
        world_unlocked();
}

/* Its session breaks, if it has one. */
static inline void world_down_at(unsigned endpoint)
{
        world_locked();
        if (world.rdx[endpoint] != NULL) {
                world.rdx[endpoint]->down = true;
                world_ring(world.rdx[endpoint]->event_fd);
        }
        world_unlocked();
}

static inline void world_down(void)
{
        world_down_at(0);
}

/* One of the counters above. */
static inline unsigned world_count(const unsigned *counter)
{
        unsigned value;

        world_locked();
        value = *counter;
        world_unlocked();
        return value;
}

#endif
