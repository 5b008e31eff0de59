/*
 * own_object.h - objects that the store writes for itself: logs and reports. On one loop.
 */
#ifndef GATEWAY_S3_OWN_OBJECT_H
#define GATEWAY_S3_OWN_OBJECT_H

#include "gateway/http/gw.h"

/* One object that is being written. owner: whoever writes it, who keeps it until done() */
struct gw_own {
        unsigned magic; /* gw_check.h */
        struct gw_loop *loop;
        struct eng_store *store;        /* that has the bucket */
        uint64_t bucket;
        struct s3_str key;
        const char *type;               /* Content-Type */
        struct eng_str acl;             /* as s3_acl_encode() writes it; empty: none, it is the bucket owner's alone */
        const char *data;
        size_t len;
        void (*done)(void *arg, int rv);
        void *arg;
        /* private */
        size_t at;
        struct eng_put *put;            /* until it is committed */
        bool left;                      /* the gateway is gone */
        uint8_t md5[16];
};

/*
 * Writes it; done() comes unless this fails (-EROFS where changes are switched off; errors of
 * eng_put_open()). All members that are not private are set; strings stay until done().
 */
int gw_own_write(struct gw_own *own);
/* The gateway ends. True: nothing comes back; false: done() may still come, with -ECANCELED. */
bool gw_own_leave(struct gw_own *own);

#endif
