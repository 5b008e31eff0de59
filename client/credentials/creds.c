/*
 * creds.c - keeps one set of credentials fresh for all requests of a client. Who needs them while
 * they are about to expire asks the source, one at a time, and on a worker, because sources take
 * their time; the others go on with what there is as long as it is good.
 */
#include "client/credentials/creds.h"

#include "client/base/core.h"
#include "client/base/failure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFRESH_AHEAD_MS   300000 /* before they expire, or a third of their life where that is less */
#define ASK_AGAIN_AFTER_MS 10000  /* after a source has failed, while there are good ones */

struct mr_creds {
        struct mr_creds_config config; /* constant */

        /* guarded by lock */
        pthread_mutex_t lock;
        pthread_cond_t asked; /* the source has answered */
        struct mr_key *key;
        int64_t refresh_ms, expires_ms; /* of key, wall clock; INT64_MAX: never */
        bool renewable, asking;
        uint64_t generation;
        char day[9]; /* that signing is of, and its region */
        char region[64];
        struct s3_signing_key signing;
};

int mr_creds_new(const struct mr_creds_config *config, struct mr_creds **out)
{
        struct mr_creds *creds = calloc(1, sizeof(*creds));

        if (creds == NULL)
                return -ENOMEM;
        creds->config = *config;
        pthread_mutex_init(&creds->lock, NULL);
        pthread_cond_init(&creds->asked, NULL);
        *out = creds;
        return 0;
}

void mr_key_put(struct mr_key *key)
{
        if (key == NULL || atomic_fetch_sub(&key->holders, 1) != 1)
                return;
        explicit_bzero(&key->credentials, sizeof(key->credentials));
        free(key);
}

void mr_creds_free(struct mr_creds *creds)
{
        if (creds == NULL)
                return;
        mr_key_put(creds->key);
        pthread_cond_destroy(&creds->asked);
        pthread_mutex_destroy(&creds->lock);
        explicit_bzero(creds, sizeof(*creds));
        free(creds);
}

bool mr_creds_none(const struct mr_creds *creds)
{
        return creds->config.source == MR_CREDENTIALS_NONE;
}

/* With lock. */
static bool good(const struct mr_creds *creds, int64_t now_ms)
{
        return creds->key != NULL && now_ms < creds->expires_ms;
}

static bool must_ask(const struct mr_creds *creds, int64_t now_ms)
{
        if (creds->asking)
                return false;
        return creds->key == NULL || now_ms >= creds->refresh_ms;
}

bool mr_creds_waits(struct mr_creds *creds)
{
        int64_t now_ms = mr_core_now_ms();
        bool waits;

        if (creds->config.source == MR_CREDENTIALS_EXPLICIT || mr_creds_none(creds))
                return false;
        pthread_mutex_lock(&creds->lock);
        waits = !good(creds, now_ms) || must_ask(creds, now_ms);
        pthread_mutex_unlock(&creds->lock);
        return waits;
}

/* With lock: the answer of the source becomes the key. */
static void creds_adopt(struct mr_creds *creds, struct mr_key *key, bool renewable)
{
        int64_t now_ms = mr_core_now_ms(), life_ms;

        mr_key_put(creds->key);
        creds->key = key;
        key->generation = ++creds->generation;
        creds->renewable = renewable;
        creds->day[0] = '\0';
        creds->expires_ms = INT64_MAX;
        creds->refresh_ms = INT64_MAX;
        if (key->credentials.expires_s != 0) {
                creds->expires_ms = key->credentials.expires_s * 1000;
                life_ms = creds->expires_ms - now_ms;
                creds->refresh_ms =
                        creds->expires_ms - (life_ms / 3 < REFRESH_AHEAD_MS ? life_ms / 3 : REFRESH_AHEAD_MS);
        }
}

/* With lock, which is let go of meanwhile. */
static int creds_ask(struct mr_creds *creds, struct mr_error *err)
{
        struct mr_key *key = calloc(1, sizeof(*key));
        bool renewable = false;
        int rv;

        if (key == NULL)
                return mr_failure_errno(err, -ENOMEM);
        creds->asking = true;
        pthread_mutex_unlock(&creds->lock);
        rv = mr_creds_fetch(&creds->config, &key->credentials, &renewable, err);
        if (rv == 0 && key->credentials.access_key[0] == '\0')
                rv = mr_failure(err, -EACCES, "the source of credentials gave none");
        pthread_mutex_lock(&creds->lock);
        creds->asking = false;
        pthread_cond_broadcast(&creds->asked);
        if (rv == 0) {
                atomic_init(&key->holders, 1);
                creds_adopt(creds, key, renewable);
                return 0;
        }
        explicit_bzero(key, sizeof(*key));
        free(key);
        creds->refresh_ms = mr_core_now_ms() + ASK_AGAIN_AFTER_MS;
        return rv;
}

/* With lock. */
static void derive(struct mr_creds *creds, const char *region, int64_t now_ms)
{
        char date[S3_DATE_AMZ_SIZE];

        s3_date_format_amz(now_ms, date);
        if (strncmp(creds->day, date, 8) == 0 && strcmp(creds->region, region) == 0)
                return;
        snprintf(creds->day, sizeof(creds->day), "%.8s", date);
        snprintf(creds->region, sizeof(creds->region), "%s", region);
        s3_signing_key_derive(s3_str_of(creds->key->credentials.secret_key), creds->day, region, "s3", &creds->signing);
}

int mr_creds_take(struct mr_creds *creds, const char *region, int64_t now_ms, struct mr_key **out,
                  struct s3_signing_key *signing, struct mr_error *err)
{
        int rv = 0;

        pthread_mutex_lock(&creds->lock);
        while (!good(creds, now_ms) && creds->asking)
                pthread_cond_wait(&creds->asked, &creds->lock);
        if (must_ask(creds, now_ms) || (!good(creds, now_ms) && !creds->asking))
                rv = creds_ask(creds, err);
        if (good(creds, now_ms)) {
                derive(creds, region, now_ms);
                *signing = creds->signing;
                *out = creds->key;
                atomic_fetch_add(&creds->key->holders, 1);
                rv = 0;
        } else if (rv == 0) {
                rv = mr_failure(err, -EACCES, "the source of credentials gave expired ones");
        }
        pthread_mutex_unlock(&creds->lock);
        return rv;
}

uint64_t mr_creds_generation(struct mr_creds *creds)
{
        uint64_t generation;

        pthread_mutex_lock(&creds->lock);
        generation = creds->generation;
        pthread_mutex_unlock(&creds->lock);
        return generation;
}

bool mr_creds_refused(struct mr_creds *creds, uint64_t generation)
{
        bool others;

        pthread_mutex_lock(&creds->lock);
        others = creds->renewable || generation != creds->generation;
        if (creds->renewable && generation == creds->generation)
                creds->expires_ms = 0;
        pthread_mutex_unlock(&creds->lock);
        return others;
}

int mr_client_credentials(struct mr_client *client, struct mr_credentials *out, struct mr_error *err)
{
        struct s3_signing_key signing;
        struct mr_key *key;
        int rv;

        memset(out, 0, sizeof(*out));
        if (mr_creds_none(client->creds))
                return mr_failure(err, -EACCES, "the client was opened without credentials");
        rv = mr_creds_take(client->creds, client->settings.region, mr_core_now_ms(), &key, &signing, err);
        if (rv != 0)
                return rv;
        *out = key->credentials;
        mr_key_put(key);
        explicit_bzero(&signing, sizeof(signing));
        return 0;
}
