/*
 * issuers.c - a thread that asks issuers for their keys, one after the other, so that no loop waits. Keys are
 * shared by all loops, under a lock that is held for a look.
 */
#include "gateway/sts/issuers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/http_request.h"
#include "gateway/sts/issuer_fetch.h"

#define NS_PER_S       UINT64_C(1000000000)
#define ASK_AGAIN_NS   (30 * NS_PER_S)
#define STALE_NS       (3600 * NS_PER_S)
#define FORGOTTEN_NS   (86400 * NS_PER_S)
#define WAITING_MAX    256u

STAILQ_HEAD(issuer_waits, gw_issuer_wait);

struct gw_issuer {
        struct gw_issuers *all;
        char *url;          /* constant */
        const char *name;   /* in it */
        char *keys_url;     /* constant; NULL: the document of discovery says it */
        /* owner: all->lock */
        struct gw_jwks *keys;
        uint64_t asked_ns, got_ns; /* 0: never */
        bool wanted;
        struct issuer_waits waits;
};

struct gw_issuers {
        pthread_mutex_t lock;
        pthread_cond_t wake;
        pthread_t thread;
        bool running;
        struct gw_fetcher fetcher; /* owner: the thread */
        unsigned waiting;          /* owner: lock */
        unsigned count, audience_count;
        struct gw_issuer list[GW_ISSUERS_MAX];
        const char *audience[GW_AUDIENCES_MAX];
};

/* ---- the thread ------------------------------------------------------------------------------ */

static struct gw_issuer *issuer_wanted(struct gw_issuers *all)
{
        for (unsigned i = 0; i < all->count; i++)
                if (all->list[i].wanted)
                        return &all->list[i];
        return NULL;
}

static void issuer_tell(struct gw_issuer *issuer)
{
        struct gw_issuer_wait *wait;

        while ((wait = STAILQ_FIRST(&issuer->waits)) != NULL) {
                STAILQ_REMOVE_HEAD(&issuer->waits, next);
                issuer->all->waiting--;
                lp_post(wait->loop->lp, &wait->msg);
        }
}

/* Under the lock. Keys that could not be had leave those of before. */
static void issuer_take(struct gw_issuer *issuer, struct gw_jwks *keys)
{
        uint64_t now = gw_clock_ns();

        if (keys != NULL || (issuer->keys != NULL && now - issuer->got_ns > FORGOTTEN_NS)) {
                gw_jwks_put(issuer->keys);
                issuer->keys = keys;
                issuer->got_ns = now;
        }
        issuer->asked_ns = now;
        issuer->wanted = false;
        issuer_tell(issuer);
}

static void *issuers_run(void *arg)
{
        struct gw_issuers *all = arg;
        struct gw_issuer *issuer;
        struct gw_jwks *keys;

        pthread_mutex_lock(&all->lock);
        while (!atomic_load(&all->fetcher.stop)) {
                issuer = issuer_wanted(all);
                if (issuer == NULL) {
                        pthread_cond_wait(&all->wake, &all->lock);
                        continue;
                }
                pthread_mutex_unlock(&all->lock);
                keys = gw_fetch_keys(&all->fetcher, issuer->url, issuer->keys_url);
                pthread_mutex_lock(&all->lock);
                issuer_take(issuer, keys);
        }
        pthread_mutex_unlock(&all->lock);
        return NULL;
}

/* ---- any thread ------------------------------------------------------------------------------ */

struct gw_issuer *gw_issuer_find(struct gw_gateway *gw, const char *issuer)
{
        struct gw_issuers *all = gw->issuers;

        for (unsigned i = 0; all != NULL && i < all->count; i++)
                if (strcmp(all->list[i].url, issuer) == 0)
                        return &all->list[i];
        return NULL;
}

const char *gw_issuer_name(const struct gw_issuer *issuer)
{
        return issuer->name;
}

const char *const *gw_issuer_audiences(const struct gw_gateway *gw, unsigned *count)
{
        *count = gw->issuers->audience_count;
        return gw->issuers->audience;
}

struct gw_jwks *gw_issuer_keys(struct gw_issuer *issuer, bool *stale)
{
        struct gw_jwks *keys = NULL;

        pthread_mutex_lock(&issuer->all->lock);
        if (issuer->keys != NULL)
                keys = gw_jwks_get(issuer->keys);
        *stale = keys == NULL || gw_clock_ns() - issuer->got_ns > STALE_NS;
        pthread_mutex_unlock(&issuer->all->lock);
        return keys;
}

static void issuer_waited(struct lp_msg *msg)
{
        struct gw_issuer_wait *wait = (struct gw_issuer_wait *)msg;

        wait->done(wait);
}

int gw_issuer_refresh(struct gw_issuer *issuer, struct gw_issuer_wait *wait)
{
        struct gw_issuers *all = issuer->all;
        int rv = 0;

        wait->msg.run = issuer_waited;
        pthread_mutex_lock(&all->lock);
        if (!issuer->wanted && issuer->asked_ns != 0 && gw_clock_ns() - issuer->asked_ns < ASK_AGAIN_NS)
                rv = -EAGAIN;
        else if (all->waiting >= WAITING_MAX)
                rv = -EBUSY;
        if (rv == 0) {
                all->waiting++;
                STAILQ_INSERT_TAIL(&issuer->waits, wait, next);
                issuer->wanted = true;
                pthread_cond_signal(&all->wake);
        }
        pthread_mutex_unlock(&all->lock);
        return rv;
}

/* ---- start and end --------------------------------------------------------------------------- */

static int issuer_fill(struct gw_issuer *issuer, const struct gw_oidc_issuer *options)
{
        const char *scheme = strstr(options->url, "://");

        STAILQ_INIT(&issuer->waits);
        if (!gw_oidc_url_valid(options->url) || scheme == NULL ||
            (options->keys_url != NULL && !gw_oidc_url_valid(options->keys_url)))
                return -EINVAL;
        issuer->url = strdup(options->url);
        issuer->keys_url = options->keys_url != NULL ? strdup(options->keys_url) : NULL;
        if (issuer->url == NULL || (options->keys_url != NULL && issuer->keys_url == NULL))
                return -ENOMEM;
        issuer->name = issuer->url + (scheme - options->url) + 3;
        return 0;
}

int gw_issuers_start(struct gw_gateway *gw, const struct gw_oidc *options)
{
        struct gw_issuers *all;
        int rv = 0;

        if (options->issuer_count == 0)
                return 0;
        all = calloc(1, sizeof(*all));
        if (all == NULL)
                return -ENOMEM;
        pthread_mutex_init(&all->lock, NULL);
        pthread_cond_init(&all->wake, NULL);
        gw->issuers = all;
        for (unsigned i = 0; rv == 0 && i < options->issuer_count && i < GW_ISSUERS_MAX; i++) {
                all->list[i].all = all;
                all->count++;
                rv = issuer_fill(&all->list[i], &options->issuer[i]);
        }
        for (unsigned i = 0; rv == 0 && i < options->audience_count && i < GW_AUDIENCES_MAX; i++) {
                all->audience[all->audience_count] = strdup(options->audience[i]);
                rv = all->audience[all->audience_count++] != NULL ? 0 : -ENOMEM;
        }
        if (rv == 0)
                rv = gw_fetcher_init(&all->fetcher, options->ca_file);
        if (rv == 0)
                rv = -pthread_create(&all->thread, NULL, issuers_run, all);
        all->running = rv == 0;
        if (rv != 0)
                gw_issuers_free(gw);
        return rv;
}

void gw_issuers_free(struct gw_gateway *gw)
{
        struct gw_issuers *all = gw->issuers;

        if (all == NULL)
                return;
        gw->issuers = NULL;
        pthread_mutex_lock(&all->lock);
        atomic_store(&all->fetcher.stop, true);
        pthread_cond_signal(&all->wake);
        pthread_mutex_unlock(&all->lock);
        if (all->running)
                pthread_join(all->thread, NULL);
        gw_fetcher_end(&all->fetcher);
        for (unsigned i = 0; i < all->count; i++) {
                struct gw_issuer_wait *wait;

                while ((wait = STAILQ_FIRST(&all->list[i].waits)) != NULL) { /* their loops have stopped */
                        STAILQ_REMOVE_HEAD(&all->list[i].waits, next);
                        free(wait);
                }
                gw_jwks_put(all->list[i].keys);
                free(all->list[i].url);
                free(all->list[i].keys_url);
        }
        for (unsigned i = 0; i < all->audience_count; i++)
                free((char *)(uintptr_t)all->audience[i]);
        pthread_cond_destroy(&all->wake);
        pthread_mutex_destroy(&all->lock);
        free(all);
}
