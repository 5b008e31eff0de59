/*
 * download.h - one object, or a range of it, as one fetch or several in parallel. Private to
 * client/.
 */
#ifndef CLIENT_DOWNLOAD_H
#define CLIENT_DOWNLOAD_H

#include "client/transfer/fetch.h"
#include "client/transfer/plan.h"
#include "client/base/object_check.h"

struct mr_span;

/*
 * owner: the caller until mr_download_start(), and again from done() on. Zeroed by the caller.
 * Strings are referenced until done().
 */
struct mr_download {
        unsigned magic; /* object_check.h */
        struct mr_client *client;
        const char *bucket, *key;
        const char *version_id, *etag; /* NULL: any */
        uint64_t offset, len, last;    /* as in struct mr_get */
        int64_t size;                  /* known beforehand, with etag; -1: not */
        unsigned restarts_max;
        const atomic_bool *canceled; /* as in struct mr_request */
        enum mr_transport transport;

        char *memory; /* of room bytes; NULL: a dma-buf or, where it is set, write(), with the offset in what is wanted, any thread, several at once */
        struct mr_buffer *buffer; /* where the memory is registered, at buffer_at of it; NULL: nowhere */
        uint64_t buffer_at;
        bool unseen; /* as in struct mr_fetch */
        uint64_t room;
        int (*write)(void *arg, uint64_t at, const void *data, size_t len);
        void *write_arg;
        mr_progress_fn progress;
        void *progress_arg;

        void (*done)(void *arg, struct mr_download *download, int rv); /* on a loop or worker; must not wait */
        void *done_arg;

        /* what came of it */
        struct mr_object_info info;
        uint64_t got;
        bool wire_verified, object_verified;
        enum mr_transport carried;
        unsigned restarts;
        struct mr_error error;

        /* private to download.c */
        atomic_bool stop; /* any thread: a part has failed */
        char if_match[100];
        struct mr_request head;
        struct mr_plan plan;
        uint64_t base;  /* of the object: where what is wanted begins */
        uint64_t bound; /* bytes that will come, once a HEAD has told; 0: it has not */
        bool summed;
        enum s3_checksum sum_kind;
        uint8_t wanted[S3_CHECKSUM_MAX];
        bool inited;

        /* guarded by lock */
        pthread_mutex_t lock;
        struct mr_span *span;
        unsigned spans, flying;
        uint32_t next;
        uint8_t (*sum)[S3_CHECKSUM_MAX]; /* of each part */
        int rv;                          /* the first failure */
};

/*
 * 0: done() will be called, perhaps before this returns; else nothing was begun and error is
 * filled.
 */
int mr_download_start(struct mr_download *download);

#endif
