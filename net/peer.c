/*
 * peer.c - what is known of the other nodes. Each loop has its own part of a peer, which tours
 * change, so that all loops see all changes in one order; a peer is never freed before the end,
 * since numbers of nodes are not used again.
 */
#include "net/net_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct net_loop *net_owner(const struct net_peer *peer, enum net_link_number link)
{
        return &peer->net->loops[(peer->node + (unsigned)link) % peer->net->options.loop_count];
}

struct net_part *net_part_of(const struct net_peer *peer, const struct net_loop *at)
{
        return &peer->parts[at->index];
}

const char *net_link_name(enum net_link_number link)
{
        static const char *const names[NET_LINKS] = {"control", "log", "first bulk", "second bulk"};

        return names[link];
}

struct net_peer *net_peer_find(struct net *net, uint16_t node)
{
        unsigned count = atomic_load_explicit(&net->peer_count, memory_order_acquire), i;

        for (i = 0; i < count; i++) {
                struct net_peer *peer = atomic_load_explicit(&net->peers[i], memory_order_relaxed);

                if (peer->node == node)
                        return peer;
        }
        return NULL;
}

uint16_t net_peer_node(const struct net_peer *peer)
{
        return peer->node;
}

static int peer_new(struct net *net, uint16_t node, struct net_peer **out)
{
        unsigned count = atomic_load(&net->peer_count), link;
        struct net_peer *peer;

        if (count == NET_PEERS_MAX)
                return -ENOSPC;
        peer = calloc(1, sizeof(*peer));
        if (peer == NULL)
                return -ENOMEM;
        peer->parts = calloc(net->options.loop_count, sizeof(*peer->parts));
        if (peer->parts == NULL) {
                free(peer);
                return -ENOMEM;
        }
        peer->net = net;
        atomic_init(&peer->clock_ahead_ms, INT64_MIN);
        peer->node = node;
        for (link = 0; link < NET_LINKS; link++)
                net_link_init(&peer->links[link], peer, link);
        atomic_store_explicit(&net->peers[count], peer, memory_order_relaxed);
        atomic_store_explicit(&net->peer_count, count + 1, memory_order_release);
        *out = peer;
        return 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* The loops' pointers, one after the other, from what was known to what is; the last loop frees the former. */
struct peer_change {
        struct net_tour tour;
        struct net_peer *peer;
        const struct net_peer_options *known, *before;
};

static void change_visit(struct net_tour *tour, struct net_loop *at)
{
        struct peer_change *change = container_of(tour, struct peer_change, tour);
        struct net_part *part = net_part_of(change->peer, at);
        unsigned link;

        change->before = part->known;
        part->known = change->known;
        if (change->known != NULL)
                return;
        part->removals++;
        net_inbound_end(change->peer, at, "the node was removed");
        for (link = 0; link < NET_LINKS; link++)
                if (net_owner(change->peer, link) == at)
                        net_link_end(&change->peer->links[link], "the node was removed");
}

static void change_end(struct net_tour *tour, struct net_loop *last)
{
        struct peer_change *change = container_of(tour, struct peer_change, tour);
        struct net *net = tour->net;

        free((void *)change->before);
        free(change);
        atomic_fetch_sub(&net->alive, 1);
}

static int peer_change(struct net_peer *peer, const struct net_peer_options *options)
{
        struct net_peer_options *known = NULL;
        struct peer_change *change = calloc(1, sizeof(*change));

        if (change == NULL)
                return -ENOMEM;
        if (options != NULL) {
                known = malloc(sizeof(*known));
                if (known == NULL) {
                        free(change);
                        return -ENOMEM;
                }
                *known = *options;
        }
        change->tour = (struct net_tour){.visit = change_visit, .end = change_end};
        change->peer = peer;
        change->known = known;
        atomic_fetch_add(&peer->net->alive, 1);
        net_tour_begin(peer->net, &change->tour);
        return 0;
}

static bool text_fits(const char *text, size_t size)
{
        size_t len = strnlen(text, size);

        return len > 0 && len < size;
}

/* OpenSSL takes a name that begins with a dot for all names that end in it. */
static bool name_is_one(const char *name)
{
        return text_fits(name, NET_NAME_MAX) && name[0] != '.';
}

int net_peer_set(struct net *net, const struct net_peer_options *options, struct net_peer **out)
{
        struct net_peer *peer = net_peer_find(net, options->node);
        int rv = 0;

        if (options->node == net->self.node || !name_is_one(options->name) ||
            !text_fits(options->address, NET_ADDRESS_MAX))
                return -EINVAL;
        if (peer == NULL)
                rv = peer_new(net, options->node, &peer);
        if (rv == 0)
                rv = peer_change(peer, options);
        if (rv == 0 && out != NULL)
                *out = peer;
        return rv;
}

int net_peer_remove(struct net_peer *peer)
{
        return peer_change(peer, NULL);
}

void net_peer_connect(struct net_peer *peer)
{
        unsigned i;

        for (i = 0; i < NET_LINKS; i++)
                net_link_connect(&peer->links[i]);
}

/* ---- state ----------------------------------------------------------------------------------- */

uint64_t net_peer_heard(const struct net_peer *peer)
{
        return atomic_load(&peer->heard);
}

void net_peer_state_read(const struct net_peer *peer, struct net_peer_state *out)
{
        uint64_t now = lp_clock();

        out->heard = net_peer_heard(peer);
        out->round_trip_ns = atomic_load(&peer->round_trip);
        out->boot = atomic_load(&peer->boot);
        out->features = atomic_load(&peer->features);
        out->open = atomic_load(&peer->open);
        out->opened_by_it = atomic_load(&peer->opened_by_it);
        out->clock_ahead_ms = atomic_load(&peer->clock_ahead_ms);
        out->refused = (enum net_reason)atomic_load(&peer->refused);
        out->secrets = (enum net_secrets_verdict)atomic_load(&peer->secrets);
        out->up = out->open + out->opened_by_it > 0 &&
                  (now <= out->heard || now - out->heard <= peer->net->options.limits.silence_ms * NET_MS);
}
