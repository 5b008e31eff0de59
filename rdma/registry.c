/*
 * registry.c - the sessions there are: who may connect, with which keys, and for how long. Any
 * thread, under the server's lock, which is held for a look through at most limits.sessions records
 * and never across anything that waits.
 *
 * A record is made by rdx_session_open(), taken once by the queue pair whose private data verifies,
 * ended once, and free again when its loop has let go of the session. Ending posts a message;
 * whoever ends it, the session's loop does the rest.
 */
#include "rdma/rdma_internal.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

int rdx_registry_new(struct rdx_server *server)
{
        server->record_count = server->limits.sessions;
        server->record = calloc(server->record_count, sizeof(*server->record));
        return server->record != NULL ? 0 : -ENOMEM;
}

void rdx_registry_free(struct rdx_server *server)
{
        if (server->record != NULL)
                OPENSSL_cleanse(server->record, server->record_count * sizeof(*server->record));
        free(server->record);
}

/* With the lock held. */
static struct rdx_record *registry_find(struct rdx_server *server, const uint8_t id[RDX_ID_LEN])
{
        unsigned i;

        for (i = 0; i < server->record_count; i++) {
                struct rdx_record *record = &server->record[i];

                if (record->state != RDX_RECORD_FREE && !record->ended && memcmp(record->id, id, RDX_ID_LEN) == 0)
                        return record;
        }
        return NULL;
}

static void set_free(struct rdx_record *record)
{
        struct rdx_server *server = record->server;
        uint16_t generation = record->generation;

        OPENSSL_cleanse(record, sizeof(*record));
        record->server = server;
        record->generation = (uint16_t)(generation + 1);
        assert(server->sessions > 0);
        server->sessions--;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Counts what there is; a free record, or NULL. */
static struct rdx_record *free_record(struct rdx_server *server, const char *owner, unsigned *of_owner)
{
        struct rdx_record *chosen = NULL;
        unsigned i;

        *of_owner = 0;
        for (i = 0; i < server->record_count; i++) {
                struct rdx_record *record = &server->record[i];

                if (record->state == RDX_RECORD_FREE)
                        chosen = chosen != NULL ? chosen : record;
                else if (strcmp(record->owner, owner) == 0)
                        ++*of_owner;
        }
        return chosen;
}

/* The loop with the fewest; each has a bound. */
static int choose_home(struct rdx_server *server)
{
        unsigned i, least = UINT32_MAX, chosen = 0;

        for (i = 0; i < server->home_count; i++) {
                unsigned used = 0, r;

                for (r = 0; r < server->record_count; r++)
                        used += server->record[r].state != RDX_RECORD_FREE && server->record[r].home == i;
                if (used < least) {
                        least = used;
                        chosen = i;
                }
        }
        return least < server->home[chosen].slot_count ? (int)chosen : -EBUSY;
}

static int choose_endpoint(struct rdx_server *server)
{
        unsigned i;

        for (i = 0; i < server->endpoint_count; i++) {
                unsigned endpoint = server->next_endpoint++ % server->endpoint_count;

                if (!atomic_load(&server->endpoint[endpoint].gone))
                        return (int)endpoint;
        }
        return -ENODEV;
}

static void fill_answer(const struct rdx_server *server, const struct rdx_record *record, uint64_t life_ms,
                        struct rdx_opened *out)
{
        const struct rdx_endpoint *endpoint = &server->endpoint[record->endpoint];
        struct rdx_opened_endpoint *to = &out->endpoint[0];

        memcpy(out->session, record->id, RDX_ID_LEN);
        out->rights = record->rights;
        out->expires_ms = life_ms;
        out->connect_ms = server->limits.connect_ms;
        out->limits = server->limits;
        out->endpoint_count = 1;
        to->endpoint = record->endpoint;
        to->address = endpoint->address;
        to->port = endpoint->port;
        memcpy(to->boot, server->boot, RDX_BOOT_LEN);
        to->queue_pairs = 1;
        to->control = true;
}

static void fill_record(struct rdx_record *record, const struct rdx_open *open, unsigned home, unsigned endpoint,
                        uint64_t life_ms, struct rdx_opened *out)
{
        struct rdx_server *server = record->server;
        struct rdx_key_input input;
        uint64_t now = lp_now(lp_self());

        lp_random(record->id, RDX_ID_LEN);
        lp_random(out->server_nonce, RDX_NONCE_LEN);
        memcpy(input.signing_key, open->signing_key, RDX_KEY_LEN);
        memcpy(input.session, record->id, RDX_ID_LEN);
        memcpy(input.client_nonce, open->client_nonce, RDX_NONCE_LEN);
        memcpy(input.server_nonce, out->server_nonce, RDX_NONCE_LEN);
        rdx_keys_derive(&input, &record->keys);
        OPENSSL_cleanse(&input, sizeof(input));
        record->state = RDX_RECORD_OPEN;
        record->home = home;
        record->endpoint = endpoint;
        record->rights = open->rights & -open->rights; /* the narrowest they have; one queue pair serves all of them */
        memcpy(record->owner, open->owner, strlen(open->owner) + 1); /* its length was checked */
        record->expires = now + life_ms * RDX_NS_PER_MS;
        record->connect_by = now + server->limits.connect_ms * RDX_NS_PER_MS;
        record->connect_msg.run = rdx_session_connect;
        record->end_msg.run = rdx_session_over;
        fill_answer(server, record, life_ms, out);
}

int rdx_session_open(struct rdx_server *server, const struct rdx_open *open, struct rdx_opened *out)
{
        uint64_t life_ms = server->limits.life_ms;
        struct rdx_record *record;
        unsigned of_owner;
        int home, endpoint, rv = 0;

        memset(out, 0, sizeof(*out));
        if (strlen(open->owner) > RDX_OWNER_MAX || open->queue_pairs == 0 || open->receives < 16)
                return -EINVAL;
        if ((open->rights & (RDX_RIGHTS_WINDOW2 | RDX_RIGHTS_WINDOW1 | RDX_RIGHTS_REGION)) == 0)
                return -ENOTSUP;
        if (open->credentials_ms > 0 && open->credentials_ms < life_ms)
                life_ms = open->credentials_ms;
        pthread_mutex_lock(&server->lock);
        record = free_record(server, open->owner, &of_owner);
        home = choose_home(server);
        endpoint = choose_endpoint(server);
        if (endpoint < 0 || atomic_load(&server->stopped))
                rv = -ENODEV;
        else if (of_owner >= server->limits.sessions_per_key)
                rv = -EDQUOT;
        else if (record == NULL || home < 0)
                rv = -EBUSY;
        if (rv == 0) {
                fill_record(record, open, (unsigned)home, (unsigned)endpoint, life_ms, out);
                server->sessions++;
                server->opened++;
        }
        pthread_mutex_unlock(&server->lock);
        return rv;
}

/* ---- finding --------------------------------------------------------------------------------- */

int rdx_session_find(struct rdx_server *server, const uint8_t session[RDX_ID_LEN], struct rdx_session_info *out)
{
        const struct rdx_record *record;

        pthread_mutex_lock(&server->lock);
        record = registry_find(server, session);
        if (record != NULL) {
                memcpy(out->owner, record->owner, sizeof(out->owner));
                memcpy(out->secret, record->keys.secret, sizeof(out->secret));
                out->connected = record->connected;
        }
        pthread_mutex_unlock(&server->lock);
        return record != NULL ? 0 : -ENOENT;
}

int rdx_registry_home(struct rdx_server *server, const uint8_t id[RDX_ID_LEN], unsigned *home)
{
        const struct rdx_record *record;

        pthread_mutex_lock(&server->lock);
        record = registry_find(server, id);
        if (record != NULL)
                *home = record->home;
        pthread_mutex_unlock(&server->lock);
        return record != NULL ? 0 : -ENOENT;
}

/* ---- connecting ------------------------------------------------------------------------------ */

uintptr_t rdx_registry_handle(const struct rdx_record *record)
{
        return (uintptr_t)(record - record->server->record) << 16 | record->generation;
}

/* Which reason a refusal gives, 0: none. Two HMACs at most are spent on anybody. */
static int registry_judge(struct rdx_server *server, struct rdx_record *record, unsigned endpoint,
                          const struct rdx_private *private, const struct rdx_party *peer)
{
        struct rdx_binding binding = {.client = *peer};

        memcpy(binding.boot, server->boot, RDX_BOOT_LEN);
        if (record == NULL || private->endpoint != endpoint || record->endpoint != endpoint || private->index != 0 ||
            !rdx_private_verify(private, record->keys.connect, &binding))
                return RDX_REJECT_UNKNOWN;
        return record->state == RDX_RECORD_TAKEN ? RDX_REJECT_AGAIN : 0;
}

/* The message is posted under the lock, so that the one that ends the session comes behind it. */
int rdx_registry_take(struct rdx_server *server, unsigned endpoint, const struct rdx_event *event)
{
        struct rdx_private private;
        struct rdx_record *record;
        int reason = RDX_REJECT_MALFORMED;

        if (rdx_private_parse(event->data, event->len, &private) == 0 && private.kind == RDX_PRIVATE_CONNECT) {
                pthread_mutex_lock(&server->lock);
                record = registry_find(server, private.session);
                reason = registry_judge(server, record, endpoint, &private, &event->peer);
                if (reason == 0) {
                        record->state = RDX_RECORD_TAKEN;
                        record->arrival = event->arrival;
                        record->peer = event->peer;
                        lp_post(server->home[record->home].loop, &record->connect_msg);
                }
                pthread_mutex_unlock(&server->lock);
        }
        return reason;
}

void rdx_registry_connected(struct rdx_record *record)
{
        pthread_mutex_lock(&record->server->lock);
        record->connected = true;
        pthread_mutex_unlock(&record->server->lock);
}

/* One message serves all sessions of a loop; it looks which of them are meant. */
void rdx_registry_established(struct rdx_server *server, uintptr_t handle)
{
        struct rdx_record *record;
        struct rdx_home *home;

        if (handle >> 16 >= server->record_count)
                return;
        record = &server->record[handle >> 16];
        pthread_mutex_lock(&server->lock);
        if (record->generation == (handle & 0xffff) && record->state == RDX_RECORD_TAKEN) {
                home = &server->home[record->home];
                atomic_store(&record->established, true);
                if (!atomic_exchange(&home->established_sent, true))
                        lp_post(home->loop, &home->established_msg);
        }
        pthread_mutex_unlock(&server->lock);
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* With the lock held. */
static void end_locked(struct rdx_record *record, enum rdx_end end)
{
        struct rdx_server *server = record->server;

        if (record->state == RDX_RECORD_FREE || record->ended)
                return;
        record->ended = true;
        record->end = end;
        server->ended[end]++;
        if (record->state == RDX_RECORD_TAKEN)
                lp_post(server->home[record->home].loop, &record->end_msg);
        else
                set_free(record);
}

void rdx_registry_end(struct rdx_record *record, enum rdx_end end)
{
        pthread_mutex_lock(&record->server->lock);
        end_locked(record, end);
        pthread_mutex_unlock(&record->server->lock);
}

void rdx_registry_down(struct rdx_server *server, uintptr_t handle, enum rdx_end end)
{
        struct rdx_record *record;

        if (handle >> 16 >= server->record_count)
                return;
        record = &server->record[handle >> 16];
        pthread_mutex_lock(&server->lock);
        if (record->generation == (handle & 0xffff))
                end_locked(record, end);
        pthread_mutex_unlock(&server->lock);
}

void rdx_registry_device_gone(struct rdx_server *server, unsigned endpoint)
{
        unsigned i;

        pthread_mutex_lock(&server->lock);
        for (i = 0; i < server->record_count; i++)
                if (server->record[i].endpoint == endpoint)
                        end_locked(&server->record[i], RDX_END_DEVICE);
        pthread_mutex_unlock(&server->lock);
}

void rdx_registry_release(struct rdx_record *record)
{
        struct rdx_server *server = record->server;

        pthread_mutex_lock(&server->lock);
        set_free(record);
        pthread_mutex_unlock(&server->lock);
}

void rdx_registry_expire(struct rdx_home *home, uint64_t now)
{
        struct rdx_server *server = home->server;
        unsigned i;

        pthread_mutex_lock(&server->lock);
        for (i = 0; i < server->record_count; i++) {
                struct rdx_record *record = &server->record[i];

                if (record->home != home->index)
                        continue;
                if (record->state == RDX_RECORD_OPEN && now >= record->connect_by)
                        end_locked(record, RDX_END_UNCONNECTED);
                else if (now >= record->expires)
                        end_locked(record, RDX_END_EXPIRED);
        }
        pthread_mutex_unlock(&server->lock);
}

void rdx_registry_stop(struct rdx_server *server)
{
        unsigned i;

        pthread_mutex_lock(&server->lock);
        for (i = 0; i < server->record_count; i++)
                end_locked(&server->record[i], RDX_END_SHUTDOWN);
        pthread_mutex_unlock(&server->lock);
}

int rdx_session_end(struct rdx_server *server, const uint8_t session[RDX_ID_LEN])
{
        struct rdx_record *record;

        pthread_mutex_lock(&server->lock);
        record = registry_find(server, session);
        if (record != NULL)
                end_locked(record, RDX_END_REQUEST);
        pthread_mutex_unlock(&server->lock);
        return record != NULL ? 0 : -ENOENT;
}

unsigned rdx_sessions_revoke(struct rdx_server *server, const char *owner)
{
        unsigned i, count = 0;

        pthread_mutex_lock(&server->lock);
        for (i = 0; i < server->record_count; i++) {
                struct rdx_record *record = &server->record[i];

                if (record->state == RDX_RECORD_FREE || record->ended || strcmp(record->owner, owner) != 0)
                        continue;
                end_locked(record, RDX_END_REVOKED);
                count++;
        }
        pthread_mutex_unlock(&server->lock);
        return count;
}

void rdx_sessions_each(struct rdx_server *server, void (*each)(void *arg, const char *owner), void *arg)
{
        pthread_mutex_lock(&server->lock);
        for (unsigned i = 0; i < server->record_count; i++)
                if (server->record[i].state != RDX_RECORD_FREE && !server->record[i].ended)
                        each(arg, server->record[i].owner);
        pthread_mutex_unlock(&server->lock);
}
