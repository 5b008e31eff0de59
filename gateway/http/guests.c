/*
 * guests.c - connections on which no valid signature has come yet, and who goes when there are too
 * many.
 *
 * Anybody may open connections and leave them open, and what is open is bounded; so strangers must
 * not be able to hold all of it. Two rules: an address (of IPv6: a network of 64 bits) may have so
 * many guests, and the oldest of them makes room for the next; and when all connections are taken,
 * the oldest guest goes, whatever its address, or else the connection that has been idle for
 * longest. Who signs is no guest from then on, so a client with credentials needs a place for as
 * long as its first request's head takes; for so long nobody is sent away, or strangers that come
 * in quick succession would push such a client out before it could sign. So an address may have
 * more than its share for a moment, until the next sweep.
 *
 * The table is shared by all loops. A connection is cut on its own loop: it is put into that loop's
 * list, and the loop is sent a message.
 */
#include "gateway/http/guests.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/http_request.h"

#define GUEST_LEAST_NS 500000000ull  /* everybody has this long to shake hands and to send a head */
#define IDLE_LEAST_NS  1000000000ull /* a client between two requests */

/* One address that has guests. */
struct gw_guest_address {
        LIST_ENTRY(gw_guest_address) entry;
        uint8_t key[16];
        unsigned count;
        struct gw_guest_list guests; /* the oldest first */
};

/* ---- addresses ------------------------------------------------------------------------------- */

/* IPv4 as the IPv6 address that holds it. False: of another family. */
static bool address_of(const struct sockaddr *from, uint8_t out[16])
{
        static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

        if (from != NULL && from->sa_family == AF_INET) {
                memcpy(out, mapped, sizeof(mapped));
                memcpy(out + 12, &((const struct sockaddr_in *)from)->sin_addr, 4);
        } else if (from != NULL && from->sa_family == AF_INET6) {
                memcpy(out, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
        } else {
                return false;
        }
        return true;
}

static bool address_in_network(const uint8_t address[16], const struct gw_network *network)
{
        unsigned bytes = network->bits / 8, rest = network->bits % 8;

        if (memcmp(address, network->address, bytes) != 0)
                return false;
        return rest == 0 || ((address[bytes] ^ network->address[bytes]) >> (8 - rest)) == 0;
}

static bool is_proxy(const struct gw_gateway *gw, const uint8_t address[16])
{
        for (unsigned i = 0; gw->proxies != NULL && i < gw->proxies->count; i++)
                if (address_in_network(address, &gw->proxies->list[i]))
                        return true;
        return false;
}

/* A host has as many IPv6 addresses as it likes, of one network of 64 bits. */
static void widen(uint8_t address[16])
{
        static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

        if (memcmp(address, mapped, sizeof(mapped)) != 0)
                memset(address + 8, 0, 8);
}

static struct gw_guest_bucket *bucket_of(struct gw_guests *guests, const uint8_t key[16])
{
        uint64_t halves[2], h;

        memcpy(halves, key, sizeof(halves));
        h = (halves[0] ^ guests->seed) * 0x9e3779b97f4a7c15ull;
        h = (h ^ (h >> 29) ^ halves[1]) * 0xbf58476d1ce4e5b9ull;
        return &guests->buckets[(h >> 40) % GW_GUEST_BUCKETS];
}

/* NULL: no memory, and this one is not counted. */
static struct gw_guest_address *find_address(struct gw_guests *guests, const uint8_t key[16])
{
        struct gw_guest_bucket *bucket = bucket_of(guests, key);
        struct gw_guest_address *address;

        LIST_FOREACH(address, bucket, entry)
                if (memcmp(address->key, key, sizeof(address->key)) == 0)
                        return address;
        address = calloc(1, sizeof(*address)); /* freed with its last guest */
        if (address == NULL)
                return NULL;
        memcpy(address->key, key, sizeof(address->key));
        TAILQ_INIT(&address->guests);
        LIST_INSERT_HEAD(bucket, address, entry);
        return address;
}

/* ---- the table, under its lock --------------------------------------------------------------- */

static void guest_take_out(struct gw_guests *guests, struct gw_guest *guest)
{
        struct gw_guest_address *address = guest->address;

        if (guest->state == GW_GUEST_IN)
                TAILQ_REMOVE(&guests->all, guest, by_age);
        else
                TAILQ_REMOVE(&guest->loop->going, guest, by_age);
        guest->state = GW_GUEST_NONE;
        guest->address = NULL;
        if (address == NULL)
                return;
        TAILQ_REMOVE(&address->guests, guest, by_address);
        if (--address->count == 0) {
                LIST_REMOVE(address, entry);
                free(address);
        }
}

/* Its loop will cut it. */
static void send_away(struct gw_guests *guests, struct gw_guest *guest)
{
        struct gw_loop *loop = guest->loop;

        guest_take_out(guests, guest);
        guest->state = GW_GUEST_GOING;
        TAILQ_INSERT_TAIL(&loop->going, guest, by_age);
        if (!atomic_exchange(&loop->going_posted, true))
                lp_post(loop->lp, &loop->going_msg);
}

/* The clocks of loops are one, but a guest may have come since now was read. */
static bool is_ripe(const struct gw_guest *guest, uint64_t now)
{
        return now > guest->since_ns && now - guest->since_ns >= GUEST_LEAST_NS;
}

/* ---- on the loops ---------------------------------------------------------------------------- */

static struct gw_conn *guest_conn(struct gw_guest *guest)
{
        return container_of(guest, struct gw_conn, guest);
}

/* Who has signed meanwhile has left the list, and stays. */
static void cut_going(struct lp_msg *msg)
{
        struct gw_loop *loop = container_of(msg, struct gw_loop, going_msg);
        struct gw_guests *guests = &loop->gw->guests;
        struct gw_guest *guest;

        atomic_store(&loop->going_posted, false);
        for (;;) {
                pthread_mutex_lock(&guests->lock);
                guest = TAILQ_FIRST(&loop->going);
                if (guest != NULL)
                        guest_take_out(guests, guest);
                pthread_mutex_unlock(&guests->lock);
                if (guest == NULL)
                        return;
                gw_count(&loop->stats.connections_evicted, 1);
                gw_conn_cut(guest_conn(guest));
        }
}

void gw_guest_enter(struct gw_conn *conn, const struct sockaddr *from)
{
        struct gw_loop *loop = conn->listener->loop;
        struct gw_guests *guests = &loop->gw->guests;
        struct gw_guest *guest = &conn->guest;
        struct gw_guest_address *address = NULL;
        uint8_t key[16];

        guest->state = GW_GUEST_IN;
        guest->since_ns = conn->since_ns;
        guest->loop = loop;
        pthread_mutex_lock(&guests->lock);
        if (address_of(from, key) && !is_proxy(loop->gw, key)) {
                widen(key);
                address = find_address(guests, key);
        }
        guest->address = address;
        if (address != NULL) {
                address->count++;
                TAILQ_INSERT_TAIL(&address->guests, guest, by_address);
        }
        TAILQ_INSERT_TAIL(&guests->all, guest, by_age);
        pthread_mutex_unlock(&guests->lock);
}

void gw_guests_trim(struct gw_gateway *gw, uint64_t now)
{
        struct gw_guests *guests = &gw->guests;
        struct gw_guest *guest, *next;

        pthread_mutex_lock(&guests->lock);
        for (guest = TAILQ_FIRST(&guests->all); guest != NULL && is_ripe(guest, now); guest = next) {
                next = TAILQ_NEXT(guest, by_age);
                if (guest->address != NULL && guest->address->count > gw->limits.guests)
                        send_away(guests, guest);
        }
        pthread_mutex_unlock(&guests->lock);
}

void gw_guest_leave(struct gw_conn *conn)
{
        struct gw_guests *guests = &conn->listener->loop->gw->guests;

        if (conn->known)
                return;
        conn->known = true;
        pthread_mutex_lock(&guests->lock);
        if (conn->guest.state != GW_GUEST_NONE)
                guest_take_out(guests, &conn->guest);
        pthread_mutex_unlock(&guests->lock);
}

/* ---- room ------------------------------------------------------------------------------------ */

static bool send_oldest_away(struct gw_gateway *gw, uint64_t now)
{
        struct gw_guest *oldest;
        bool found;

        pthread_mutex_lock(&gw->guests.lock);
        oldest = TAILQ_FIRST(&gw->guests.all);
        found = oldest != NULL && is_ripe(oldest, now);
        if (found)
                send_away(&gw->guests, oldest);
        pthread_mutex_unlock(&gw->guests.lock);
        return found;
}

/* Of those that have signed. */
static bool cut_idle(struct gw_loop *loop, uint64_t now)
{
        struct gw_conn *conn, *longest = NULL;

        LIST_FOREACH(conn, &loop->conns, entry)
                if (conn->known && conn->request == NULL && !conn->cut &&
                    (longest == NULL || conn->since_ns < longest->since_ns))
                        longest = conn;
        if (longest == NULL || now - longest->since_ns < IDLE_LEAST_NS)
                return false;
        gw_count(&loop->stats.connections_evicted, 1);
        gw_conn_cut(longest);
        return true;
}

/*
 * The message goes from loop to loop until one has an idle connection, and back to the loop whose
 * it is.
 */
static void asked_for_room(struct lp_msg *msg)
{
        struct gw_loop *asker = container_of(msg, struct gw_loop, room_msg);
        struct gw_gateway *gw = asker->gw;
        struct gw_loop *here = &gw->loops[asker->room_at];

        if (here == asker || gw->ending) { /* of a gateway that ends, a loop that was drained would hold the message for ever */
                asker->room_asked = false;
                return;
        }
        asker->room_at = cut_idle(here, gw_clock_ns()) ? asker->index : (here->index + 1) % gw->loop_count;
        lp_post(gw->loops[asker->room_at].lp, msg);
}

void gw_make_room(struct gw_loop *loop)
{
        uint64_t now = gw_clock_ns();

        if (send_oldest_away(loop->gw, now) || cut_idle(loop, now) || loop->room_asked || loop->gw->loop_count == 1)
                return;
        loop->room_asked = true;
        loop->room_at = (loop->index + 1) % loop->gw->loop_count;
        lp_post(loop->gw->loops[loop->room_at].lp, &loop->room_msg);
}

static void resume_loop(struct lp_msg *msg)
{
        struct gw_loop *loop = container_of(msg, struct gw_loop, resume_msg);
        struct gw_listener *listener;

        atomic_store(&loop->resume_posted, false);
        SLIST_FOREACH(listener, &loop->listeners, next)
                gw_accept_resume(listener);
}

void gw_room_made(struct gw_loop *loop)
{
        struct gw_gateway *gw = loop->gw;
        struct gw_loop *other;

        for (unsigned i = 0; i < gw->loop_count && !gw->ending; i++) {
                other = &gw->loops[i];
                if (other != loop && atomic_load(&other->starved) && !atomic_exchange(&other->resume_posted, true))
                        lp_post(other->lp, &other->resume_msg);
        }
}

/* ---- life ------------------------------------------------------------------------------------ */

void gw_guests_init(struct gw_guests *guests)
{
        pthread_mutex_init(&guests->lock, NULL);
        lp_random(&guests->seed, sizeof(guests->seed));
        TAILQ_INIT(&guests->all);
        for (unsigned i = 0; i < GW_GUEST_BUCKETS; i++)
                LIST_INIT(&guests->buckets[i]);
}

void gw_guests_start(struct gw_loop *loop)
{
        TAILQ_INIT(&loop->going);
        loop->going_msg.run = cut_going;
        loop->room_msg.run = asked_for_room;
        loop->resume_msg.run = resume_loop;
}

void gw_guests_free(struct gw_guests *guests)
{
        assert(TAILQ_EMPTY(&guests->all));
        pthread_mutex_destroy(&guests->lock);
}
