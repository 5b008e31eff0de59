/*
 * new_bucket.c - in which pool a bucket is made. On the request's loop.
 *
 * The leader of the first pool decides, once for each name: either there is a bucket of it in the first pool, or an entry that
 * names another one. Gateways may think differently of pools, and make the bucket at the same time: whoever comes second is told that
 * there is an entry (-EREMOTE, -ESTALE), or a bucket (-EEXIST). An entry that this gateway has not been told of yet will be here in
 * a moment, and is waited for. docs/design/pools.md has the rules.
 */
#include "gateway/s3/new_bucket.h"

#include <errno.h>

#include "gateway/http/gw_check.h"
#include "gateway/http/reply.h"

#define TURN_NS (10ull * 1000 * 1000)
#define TURNS   500u /* five seconds */

static void pool_seek(struct gw_request *req);

static void new_bucket_release(struct gw_request *req)
{
        struct gw_new_bucket *work = GW_CAST(gw_new_bucket, req->work);

        lp_timer_stop(req->loop->lp, &work->timer);
}

static void pool_seek_again(struct lp_timer *timer)
{
        pool_seek(container_of(timer, struct gw_new_bucket, timer)->req);
}

void gw_new_bucket_again(struct gw_request *req)
{
        struct gw_new_bucket *work = GW_CAST(gw_new_bucket, req->work);

        if (++work->turns > TURNS || req->peer_gone)
                gw_reply_error(req, S3_ERR_OPERATION_ABORTED, NULL);
        else
                lp_timer_start(req->loop->lp, &work->timer, TURN_NS);
}

static void pool_take(struct gw_request *req, unsigned number)
{
        struct gw_new_bucket *work = GW_CAST(gw_new_bucket, req->work);
        struct eng_store *store = gw_pool_store(req->loop->gw, number);

        if (store != NULL)
                req->store = store;
        work->make(req, store != NULL ? 0 : -EHOSTDOWN);
}

static void pool_is_said(void *arg, int rv)
{
        struct gw_request *req = arg;
        struct gw_new_bucket *work;

        if (!gw_back(req))
                return;
        work = GW_CAST(gw_new_bucket, req->work);
        switch (rv) {
        case 0:
                pool_take(req, work->number);
                break;
        case -ESTALE:
                gw_new_bucket_again(req);
                break;
        case -ENOTUNIQ: /* the entry is another name's, or there is no room for one */
        case -ENOSPC:
        case -EDQUOT:
                work->make(req, 0);
                break;
        default:
                work->make(req, rv);
        }
}

static void pool_seek(struct gw_request *req)
{
        struct gw_new_bucket *work = GW_CAST(gw_new_bucket, req->work);
        struct gw_gateway *gw = req->loop->gw;
        bool said;
        int rv = gw_pool_of_new(gw, req->bucket, &work->number, &said);

        req->store = gw->store;
        if (rv != 0)
                work->make(req, rv);
        else if (said || work->number == gw->pools.list[0].number)
                pool_take(req, work->number);
        else
                eng_bucket_pool_set(gw->store, gw_eng_str(req->bucket), work->number, pool_is_said, req);
}

void gw_new_bucket_begin(struct gw_request *req, void (*make)(struct gw_request *req, int rv))
{
        struct gw_new_bucket *work = gw_alloc(req, sizeof(*work));

        if (work == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        *work = (struct gw_new_bucket){
                .magic = gw_new_bucket_magic, .req = req, .make = make, .timer.expired = pool_seek_again};
        req->work = work;
        req->release = new_bucket_release;
        pool_seek(req);
}
