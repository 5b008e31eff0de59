/*
 * issuer_fetch.h - gets an issuer's keys over HTTPS (private to the module). Blocks: a thread of its own calls it.
 */
#ifndef GATEWAY_STS_ISSUER_FETCH_H
#define GATEWAY_STS_ISSUER_FETCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "gateway/sts/jwt.h"

/* owner: the thread that fetches, but: */
struct gw_fetcher {
        atomic_bool stop; /* any thread: what is under way ends */
        char *ca_file;    /* NULL: the system's */
};

/* -ENOMEM. Main thread. */
int gw_fetcher_init(struct gw_fetcher *fetcher, const char *ca_file);
void gw_fetcher_end(struct gw_fetcher *fetcher);
/* Counted. keys_url NULL: the issuer's document of discovery says it. NULL: they could not be had. */
struct gw_jwks *gw_fetch_keys(struct gw_fetcher *fetcher, const char *issuer, const char *keys_url);

#endif
