/*
 * put_object.h - one object stored from bytes at hand: one PUT, or parts in parallel. Private to
 * client/.
 */
#ifndef CLIENT_PUT_OBJECT_H
#define CLIENT_PUT_OBJECT_H

#include "client/transfer/plan.h"
#include "client/transfer/upload.h"
#include "client/base/object_check.h"

struct mr_putting_part;

/*
 * owner: the caller until mr_putting_start(), and again from done() on. Zeroed by the caller.
 * Strings are referenced until done().
 */
struct mr_putting {
        unsigned magic; /* object_check.h */
        struct mr_client *client;
        const struct mr_put_head *head;
        const char *data; /* size bytes, or, where it is NULL, those of fd from base */
        int fd;
        uint64_t base, size;
        enum mr_transport transport;
        struct mr_buffer
                *buffer; /* where data is registered, at buffer_at of it; NULL: nowhere. A dma-buf has no data */
        uint64_t buffer_at;
        mr_progress_fn progress;
        void *progress_arg;
        const atomic_bool *canceled;                                 /* as in struct mr_request */
        void (*done)(void *arg, struct mr_putting *putting, int rv); /* on a loop or worker; must not wait */
        void *done_arg;

        /* what came of it */
        struct mr_put_done result;
        struct mr_error error;

        /* private to put_object.c */
        struct mr_request whole;
        struct mr_send send;
        char *names, if_match[100];
        struct mr_upload_steps steps;
        struct mr_plan plan;
        /* guarded by lock */
        pthread_mutex_t lock;
        struct mr_putting_part *part;
        uint32_t next;
        unsigned flying;
        bool by_tcp; /* a part of it */
        int rv;      /* the first failure */
};

/*
 * 0: done() will be called, perhaps before this returns; else nothing was begun and error is
 * filled.
 */
int mr_putting_start(struct mr_putting *putting);

#endif
