/*
 * batch_request.h - many objects by one request, GetBatch (docs/rdma-protocol.md). Private to
 * client/.
 */
#ifndef CLIENT_BATCH_REQUEST_H
#define CLIENT_BATCH_REQUEST_H

#include "client/http/client_request.h"
#include "rdma_wire.h"
#include "client/base/object_check.h"

#define MR_BATCH_OBJECT (1u << 20) /* what may be larger is asked for by itself: it fills a connection of its own */

/* owner: the batch */
struct mr_batch_entry {
        size_t index; /* the caller's */
        char *memory;
        uint64_t room;
        bool got;
};

/* owner: the caller until mr_batch_start(), and again from done() on. Zeroed by the caller. */
struct mr_batch_fetch {
        unsigned magic; /* object_check.h */
        struct mr_client *client;
        const atomic_bool *canceled; /* as in struct mr_request */
        unsigned count;
        struct mr_batch_entry entry[RDX_MESSAGE_ENTRIES];

        /*
         * On a loop; must not wait. got: the bytes of this entry are in its memory, and are right.
         * done: no other entry will be.
         */
        void (*got)(void *arg, const struct mr_batch_entry *entry, const struct rdx_result *result);
        void (*done)(void *arg);
        void *arg;

        /* private to batch_request.c */
        struct mr_request request;
        struct rdx_writer writer;
        unsigned step;
        uint8_t piece[RDX_RESULT_MOST]; /* of a frame: a length, a head, a tail */
        size_t piece_len, piece_want;
        struct rdx_result result; /* its strings point into head */
        uint8_t head[RDX_RESULT_MOST];
        uint64_t at; /* bytes of the entry */
        uint32_t crc;
        uint8_t message[RDX_MESSAGE_MAX];
};

/* A read as the message's entry, whose strings are the read's; the place's offset is not set. */
void mr_batch_wire(const struct mr_get *get, struct rdx_entry *out);
/* Bytes that may come. */
uint64_t mr_batch_most(const struct mr_get *get);

/* Until the endpoint has refused one. Any thread. */
bool mr_batch_offered(struct mr_client *client);
/*
 * Adds an entry, whose strings are copied. -ENOSPC: it is full; -EINVAL: not a thing for a batch.
 */
int mr_batch_add(struct mr_batch_fetch *batch, const struct mr_get *get, char *memory, size_t index);
/*
 * Sends it, once: what is not got has failed, or never came, and is to be asked for by itself,
 * which says why. 0: done() will be called; else nothing was begun.
 */
int mr_batch_start(struct mr_batch_fetch *batch);

#endif
