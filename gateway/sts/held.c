/*
 * held.c - tokens that RDMA sessions were opened with (rule T13). A batch on a session has the session's access key
 * and no token, so the opened token is kept until the session has ended at the latest.
 *
 * Sessions are bounded, and each holds one token at most. When the table is full, what is over gives way: whose time
 * is up, or whose sessions have all ended, so that nobody fills the table by opening and ending. Any thread; the lock
 * is held for a look at one chain, or, where the table is full, at all of it and at the sessions that there are.
 */
#include "gateway/sts/key_uses.h"
#include "gateway/sts/signer.h"

#include "rdma.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define HELD_MAX    4096u
#define HELD_CHAINS 1024u

struct held_one {
        struct gw_temporary *temporary;
        int64_t until_ms;
        bool used; /* of held_sweep(): it has a session */
        LIST_ENTRY(held_one) chain;
};
LIST_HEAD(held_chain, held_one);

struct gw_held {
        pthread_mutex_t lock;
        unsigned count;
        struct held_chain chain[HELD_CHAINS];
};

int gw_sts_start(struct gw_gateway *gw)
{
        struct gw_held *held = calloc(1, sizeof(*held));

        if (held == NULL)
                return -ENOMEM;
        pthread_mutex_init(&held->lock, NULL);
        gw->held = held;
        return gw_key_uses_start(gw);
}

static void held_remove(struct gw_held *held, struct held_one *one)
{
        assert(held->count > 0);
        LIST_REMOVE(one, chain);
        held->count--;
        gw_temporary_put(one->temporary);
        free(one);
}

static void held_prune(struct gw_held *held, int64_t now_ms)
{
        for (unsigned i = 0; i < HELD_CHAINS; i++) {
                struct held_one *one = LIST_FIRST(&held->chain[i]), *next;

                for (; one != NULL; one = next) {
                        next = LIST_NEXT(one, chain);
                        if (one->until_ms <= now_ms)
                                held_remove(held, one);
                }
        }
}

void gw_sts_free(struct gw_gateway *gw)
{
        gw_key_uses_free(gw);
        if (gw->held == NULL)
                return;
        held_prune(gw->held, INT64_MAX);
        assert(gw->held->count == 0);
        pthread_mutex_destroy(&gw->held->lock);
        free(gw->held);
        gw->held = NULL;
}

static struct held_chain *held_chain_of(struct gw_held *held, const char *access_key)
{
        unsigned hash = 0;

        for (; *access_key != '\0'; access_key++)
                hash = hash * 31 + (unsigned char)*access_key;
        return &held->chain[hash % HELD_CHAINS];
}

static struct held_one *held_find(struct gw_held *held, const char *access_key)
{
        struct held_one *one;

        LIST_FOREACH(one, held_chain_of(held, access_key), chain)
                if (strcmp(one->temporary->access_key, access_key) == 0)
                        return one;
        return NULL;
}

static void held_use(void *arg, const char *owner)
{
        struct held_one *one = held_find(arg, owner);

        if (one != NULL)
                one->used = true;
}

/* Whose sessions have ended. A session is there before its token is held, so none is taken for ended too early. */
static void held_sweep(struct gw_held *held, struct rdx_server *rdma)
{
        for (unsigned i = 0; i < HELD_CHAINS; i++) {
                struct held_one *one;

                LIST_FOREACH(one, &held->chain[i], chain)
                        one->used = false;
        }
        if (rdma != NULL)
                rdx_sessions_each(rdma, held_use, held);
        for (unsigned i = 0; i < HELD_CHAINS; i++) {
                struct held_one *one = LIST_FIRST(&held->chain[i]), *next;

                for (; one != NULL; one = next) {
                        next = LIST_NEXT(one, chain);
                        if (!one->used)
                                held_remove(held, one);
                }
        }
}

static int held_add(struct gw_gateway *gw, struct gw_temporary *temporary, int64_t until_ms)
{
        struct gw_held *held = gw->held;
        struct held_one *one;

        if (held->count >= HELD_MAX)
                held_prune(held, lp_wall_ms());
        if (held->count >= HELD_MAX)
                held_sweep(held, gw->rdma);
        if (held->count >= HELD_MAX)
                return -ENOSPC;
        one = malloc(sizeof(*one));
        if (one == NULL)
                return -ENOMEM;
        one->temporary = gw_temporary_get(temporary);
        one->until_ms = until_ms;
        LIST_INSERT_HEAD(held_chain_of(held, temporary->access_key), one, chain);
        held->count++;
        return 0;
}

int gw_temporary_hold(struct gw_gateway *gw, struct gw_temporary *temporary, int64_t until_ms)
{
        struct gw_held *held = gw->held;
        struct held_one *one;
        int rv = 0;

        if (held == NULL)
                return -ENOSPC;
        pthread_mutex_lock(&held->lock);
        one = held_find(held, temporary->access_key);
        if (one == NULL)
                rv = held_add(gw, temporary, until_ms);
        else if (one->until_ms < until_ms)
                one->until_ms = until_ms;
        pthread_mutex_unlock(&held->lock);
        return rv;
}

struct gw_temporary *gw_temporary_held(struct gw_gateway *gw, const char *access_key)
{
        struct gw_held *held = gw->held;
        struct gw_temporary *found = NULL;
        struct held_one *one;

        if (held == NULL || strncmp(access_key, GW_TEMPORARY_PREFIX, strlen(GW_TEMPORARY_PREFIX)) != 0)
                return NULL;
        pthread_mutex_lock(&held->lock);
        one = held_find(held, access_key);
        if (one != NULL)
                found = gw_temporary_get(one->temporary);
        pthread_mutex_unlock(&held->lock);
        return found;
}
