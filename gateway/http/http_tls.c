/*
 * http_tls.c - the certificate pair, changeable while serving, and what a handshake may agree on.
 *
 * gw_tls_set() is called by any thread; gw_tls_retrieve() by GnuTLS within a handshake, on a loop's
 * thread. A pair in use by a handshake must not go away under it, so the last few are kept.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include "gateway/http/gw.h"

#define CERTS_MAX 16u
#define KEPT_MAX 16u

/* One pair. Immutable once listed; list under gw->lock. */
struct gw_tls {
        struct gw_tls *next;
        gnutls_pcert_st certs[CERTS_MAX];
        unsigned count;
        gnutls_privkey_t key;
};

/* GnuTLS hands its callback nothing of ours. owner: the thread */
static _Thread_local struct gw_gateway *serving;

void gw_tls_serve(struct gw_gateway *gw)
{
        serving = gw;
}

void *gw_tls_callback(void)
{
        return (void *)(uintptr_t)gw_tls_retrieve;
}

int gw_tls_check_priorities(const char *text, const char **where)
{
        gnutls_priority_t priorities;

        *where = text;
        if (gnutls_priority_init(&priorities, text, where) != 0)
                return -EINVAL;
        gnutls_priority_deinit(priorities);
        return 0;
}

static void free_pair(struct gw_tls *tls)
{
        unsigned i;

        for (i = 0; i < tls->count; i++)
                gnutls_pcert_deinit(&tls->certs[i]);
        if (tls->key != NULL)
                gnutls_privkey_deinit(tls->key);
        free(tls);
}

void gw_tls_free(struct gw_gateway *gw)
{
        struct gw_tls *tls;

        while ((tls = gw->tls) != NULL) {
                gw->tls = tls->next;
                free_pair(tls);
        }
}

/* The key's public half is the certificate's. */
static bool match(const struct gw_tls *tls)
{
        unsigned char a[64], b[64];
        size_t a_len = sizeof(a), b_len = sizeof(b);
        gnutls_pubkey_t pub;
        bool same = false;

        if (gnutls_pubkey_init(&pub) != 0)
                return false;
        if (gnutls_pubkey_import_privkey(pub, tls->key, 0, 0) == 0 &&
            gnutls_pubkey_get_key_id(pub, GNUTLS_KEYID_USE_SHA256, a, &a_len) == 0 &&
            gnutls_pubkey_get_key_id(tls->certs[0].pubkey, GNUTLS_KEYID_USE_SHA256, b, &b_len) == 0)
                same = a_len == b_len && memcmp(a, b, a_len) == 0;
        gnutls_pubkey_deinit(pub);
        return same;
}

static gnutls_datum_t datum(const char *text)
{
        return (gnutls_datum_t){(unsigned char *)text, (unsigned)strlen(text)};
}

static int tls_pair_parse(struct gw_tls *tls, const char *cert_pem, const char *key_pem)
{
        gnutls_datum_t cert = datum(cert_pem), key = datum(key_pem);
        unsigned count = CERTS_MAX;

        if (gnutls_pcert_list_import_x509_raw(tls->certs, &count, &cert, GNUTLS_X509_FMT_PEM, 0) != 0)
                return -EINVAL;
        tls->count = count;
        if (count == 0 || gnutls_privkey_init(&tls->key) != 0)
                return -EINVAL;
        if (gnutls_privkey_import_x509_raw(tls->key, &key, GNUTLS_X509_FMT_PEM, NULL, 0) != 0 || !match(tls))
                return -EINVAL;
        return 0;
}

/* Frees what is older than the last few. Under gw->lock. */
static void forget_old(struct gw_gateway *gw)
{
        struct gw_tls *tls = gw->tls, *old;
        unsigned i;

        for (i = 1; tls != NULL && i < KEPT_MAX; i++)
                tls = tls->next;
        while (tls != NULL && (old = tls->next) != NULL) {
                tls->next = old->next;
                free_pair(old);
        }
}

int gw_tls_set(struct gw_gateway *gw, const char *cert_pem, const char *key_pem)
{
        struct gw_tls *tls = calloc(1, sizeof(*tls));
        int rv;

        if (tls == NULL)
                return -ENOMEM;
        rv = tls_pair_parse(tls, cert_pem, key_pem);
        if (rv != 0) {
                free_pair(tls);
                return rv;
        }
        pthread_mutex_lock(&gw->lock);
        tls->next = gw->tls;
        gw->tls = tls;
        forget_old(gw);
        pthread_mutex_unlock(&gw->lock);
        return 0;
}

int gw_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *ca, int ca_count, const gnutls_pk_algorithm_t *algos,
                    int algo_count, gnutls_pcert_st **pcert, unsigned *pcert_count, gnutls_privkey_t *key)
{
        struct gw_gateway *gw = serving;
        struct gw_tls *tls;

        if (gw == NULL)
                return -1;
        pthread_mutex_lock(&gw->lock);
        tls = gw->tls;
        pthread_mutex_unlock(&gw->lock);
        if (tls == NULL)
                return -1;
        *pcert = tls->certs;
        *pcert_count = tls->count;
        *key = tls->key;
        return 0;
}
