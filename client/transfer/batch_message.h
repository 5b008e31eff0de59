/*
 * batch_message.h - many objects by one BATCH message on an RDMA session (docs/rdma-protocol.md).
 * Private to client/.
 */
#ifndef CLIENT_BATCH_MESSAGE_H
#define CLIENT_BATCH_MESSAGE_H

#include "client/rdma/connection.h"
#include "client/transfer/plan.h"
#include "client/base/object_check.h"

#define MR_MESSAGE_OBJECT MR_GET_PART /* what may be larger comes as ranges in parallel */
#define MR_MESSAGE_WINDOW                                                                                              \
        (64 * MR_MIB) /* from the first byte of its places to the last: what the server may write to meanwhile */

enum mr_message_state {
        MR_MESSAGE_OPEN,    /* nothing has come that would stand; it may with the next message */
        MR_MESSAGE_GOT,     /* the bytes are in their place, and are right */
        MR_MESSAGE_FAILED,  /* for good: mr_message_error() */
        MR_MESSAGE_DECLINED /* not over RDMA */
};

/* owner: the message */
struct mr_message_entry {
        size_t index; /* the caller's */
        const struct mr_get *get;
        uint64_t at; /* of its place in the buffer */
        enum mr_message_state state;
        bool answered;
        uint16_t status, code;
        uint32_t crc;
        uint64_t bytes, size; /* size: of the whole object; 0: not known */
        char etag[RDX_ETAG_MOST + 1];
};

/*
 * owner: the caller until mr_message_start(), and again from settled(last) on; between, the
 * connection's thread, then a worker. Zeroed by the caller.
 */
struct mr_message {
        unsigned magic; /* object_check.h */
        struct mr_client *client;
        struct mr_buffer *buffer;    /* of all its places: of this host's memory, in use by the caller */
        const atomic_bool *canceled; /* as in struct mr_request */
        bool insist;                 /* no other transport will do */
        unsigned count;
        struct mr_message_entry entry[RDX_MESSAGE_ENTRIES];

        /*
         * Something is known: the memory of entries GOT, FAILED and DECLINED is nobody's any more,
         * which is said once of each. last: of all entries, and those OPEN are to be got in another
         * way; else those OPEN are asked for again. Must not wait.
         */
        void (*settled)(void *arg, struct mr_message *message, bool last);
        void *arg;

        /* private to batch_message.c */
        struct rdx_entry wire[RDX_MESSAGE_ENTRIES];
        size_t size;       /* encoded */
        uint64_t from, to; /* of the buffer: the window */
        struct mr_grant grant;
        struct mr_job job;
        uint64_t written; /* bytes that results told of */
        unsigned attempts;
        bool slower;
        int rv;
        struct mr_error error; /* of a grant that was refused, or a session that ended */
};

/*
 * Adds an entry whose place lies in the buffer. Its strings are referenced. -ENOSPC: not into this
 * message any more; -EINVAL: not a thing for any message.
 */
int mr_message_add(struct mr_message *message, const struct mr_get *get, size_t index);
/*
 * 0: settled() will be called; else nothing was begun: -ENOMEM, -EAGAIN, -ECHILD. There is an entry
 * at least.
 */
int mr_message_start(struct mr_message *message);
/* Of an entry that FAILED: fills err as its GET would; returns err->code. */
int mr_message_error(const struct mr_message *message, const struct mr_message_entry *entry, struct mr_error *err);

#endif
