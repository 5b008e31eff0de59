/*
 * completed.h - the version that an upload became, for a client that asks again to complete it. On
 * the request's loop.
 */
#ifndef GATEWAY_S3_COMPLETED_H
#define GATEWAY_S3_COMPLETED_H

#include "gateway/http/http_request.h"

/* owner: whoever looks; it lives as long as the request */
struct gw_completed {
        unsigned magic; /* gw_check.h */
        struct gw_request *req;
        uint8_t upload_id[ENG_ID_LEN];
        /* 0: get is the caller's, with its metadata alone. -ENOENT: there is none; errors of the engine. */
        void (*found)(struct gw_request *req, int rv, struct eng_get *get);
        /* private */
        unsigned pages;
        bool listed;
        struct eng_version version;
};
/*
 * Looks for it among the newest versions of the request's key, as many as the engine looks at (V23).
 * Set the members above before.
 */
void gw_completed_find(struct gw_completed *completed);

#endif
