/*
 * issuers.h - the issuers of web identities that the operator named, and their keys (rules J1 to J3 in
 * docs/design/sts.md).
 */
#ifndef GATEWAY_STS_ISSUERS_H
#define GATEWAY_STS_ISSUERS_H

#include <sys/queue.h>

#include "gateway/http/gw.h"
#include "gateway/sts/jwt.h"

/* Before the loops run; options are copied. -EINVAL: a URL is none that can be asked; -ENOMEM; -EAGAIN: no thread. */
int gw_issuers_start(struct gw_gateway *gw, const struct gw_oidc *options);
/* After the loops have stopped. */
void gw_issuers_free(struct gw_gateway *gw);

struct gw_issuer;
/* NULL: the operator has not named it. Any thread. */
struct gw_issuer *gw_issuer_find(struct gw_gateway *gw, const char *issuer);
/* Without its scheme: as trust policies name it. */
const char *gw_issuer_name(const struct gw_issuer *issuer);
/* What tokens must be made for. */
const char *const *gw_issuer_audiences(const struct gw_gateway *gw, unsigned *count);
/* Counted; NULL: there are none. stale: they are to be asked for again. Any thread. */
struct gw_jwks *gw_issuer_keys(struct gw_issuer *issuer, bool *stale);

/* Somebody who waits for keys. owner: the loop, but until done() the module's */
struct gw_issuer_wait {
        struct lp_msg msg; /* first */
        struct gw_loop *loop;
        void (*done)(struct gw_issuer_wait *wait); /* on the loop */
        STAILQ_ENTRY(gw_issuer_wait) next;
};
/*
 * Asks the issuer. 0: done() will come, whatever the issuer says; -EAGAIN: it was asked a moment ago; -EBUSY: too
 * many wait.
 */
int gw_issuer_refresh(struct gw_issuer *issuer, struct gw_issuer_wait *wait);

#endif
