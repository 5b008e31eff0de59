/*
 * new_bucket.h - in which pool a bucket is made. On the request's loop.
 */
#ifndef GATEWAY_S3_NEW_BUCKET_H
#define GATEWAY_S3_NEW_BUCKET_H

#include "gateway/http/http_request.h"

/* req->work of CreateBucket. owner: the request (arena) */
struct gw_new_bucket {
        unsigned magic; /* gw_check.h */
        int undone;     /* why the bucket that was made is taken away again */
        /* private */
        struct gw_request *req;
        struct lp_timer timer;
        unsigned turns, number;
        void (*make)(struct gw_request *req, int rv);
};

/*
 * Makes req->work; then make() is called, now or later: 0, and req->store is the pool that the bucket is to be made in; -EEXIST, there
 * is one already in req->store; or another error.
 */
void gw_new_bucket_begin(struct gw_request *req, void (*make)(struct gw_request *req, int rv));
/* The pool has said -EREMOTE: another one was chosen meanwhile. make() is called again. */
void gw_new_bucket_again(struct gw_request *req);

#endif
