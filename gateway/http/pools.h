/*
 * pools.h - the pools of a gateway: which store has a bucket, which is to get a new one, and whether what was read of
 * them is current. docs/design/pools.md has the rules.
 *
 * On a loop, unless a function says otherwise; nothing here waits.
 */
#ifndef GATEWAY_HTTP_POOLS_H
#define GATEWAY_HTTP_POOLS_H

#include <stdatomic.h>
#include <stdint.h>

#include "engine.h"
#include "gateway.h"
#include "s3.h"

struct gw_request;

/* The first pool is at 0. Any thread: list up to count is constant. */
struct gw_pools {
        atomic_uint count;
        struct gw_pool {
                unsigned number; /* 0: this is no cluster */
                struct eng_store *store;
        } list[GW_POOLS_MAX];
};

/* Before the loops run. */
void gw_pools_init(struct gw_gateway *gw, unsigned number, struct eng_store *first);
/* The store of a pool; NULL: it was not added. Any thread. */
struct eng_store *gw_pool_store(const struct gw_gateway *gw, unsigned number);
/* The first pool is the only one that has buckets. Any thread. */
bool gw_pool_alone(const struct gw_gateway *gw);

/*
 * Finds the bucket of a name in the pool that has it; its `store` is that pool's. -ENOENT: there is none; -EHOSTDOWN: that is not
 * known now; -EIO: nor ever, until an operator repairs it. *decides, which may be NULL: the store that says so; left alone for
 * -EHOSTDOWN. Until the caller returns to the loop.
 */
int gw_bucket_get(struct gw_gateway *gw, struct s3_str name, const struct eng_bucket **out, struct eng_store **decides);
/* As eng_bucket_list(), over all pools. It is all there is only where gw_buckets_known() says 0, before and after it. */
unsigned gw_bucket_list(struct gw_gateway *gw, struct eng_str from, unsigned max, const struct eng_bucket **out);
/* Some pool answers here, so that this gateway is of use. */
bool gw_pool_answers(const struct gw_gateway *gw);
/* 0: the buckets of all pools are known; -EHOSTDOWN. */
int gw_buckets_known(struct gw_gateway *gw);

/*
 * The pool that a new bucket of this name is to be made in: 0; *said: an entry says so already, or the pool has such a bucket; else the
 * choice is the caller's to make known. Errors of eng_bucket_pool_get(), but for -ENOENT.
 */
int gw_pool_of_new(struct gw_gateway *gw, struct s3_str name, unsigned *number, bool *said);

/*
 * What was decided for whoever signed with this key (NULL: nobody) was current when it was read: who that is, and what the pool
 * `of` says of a bucket. The first pool: of none.
 */
bool gw_decision_is_current(const struct gw_request *req, const char *access_key, const struct eng_store *of);
/* What an answer to this request says was current when it was read. Any answer but a refusal for want of a leader. */
bool gw_answer_is_current(const struct gw_request *req);

#endif
