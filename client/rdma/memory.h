/*
 * memory.h - buffers of the program, and their registrations with connections. Private to client/.
 */
#ifndef CLIENT_MEMORY_H
#define CLIENT_MEMORY_H

#include "client/rdma/rdma_context.h"
#include "client/base/object_check.h"

/*
 * A buffer that is registered on a connection's domain. Guarded by the context's memory_lock, but
 * for memory, which is constant.
 */
struct mr_registration {
        struct rdx_memory *memory;
        struct mr_buffer *buffer;
        struct mr_registrations *list;
        struct mr_registration *next, *prev;
};

/* The registrations of one connection. owner: the connection */
struct mr_registrations {
        struct mr_client *client;      /* constant */
        enum mr_connection_kind kind;  /* constant */
        unsigned endpoint;             /* constant */
        struct mr_registration *first; /* guarded by the context's memory_lock */
};

struct mr_buffer {
        unsigned magic; /* object_check.h */
        /* constant */
        struct mr_client *client;
        char *memory;       /* NULL: a dma-buf */
        const char *view;   /* of a dma-buf: where the CPU sees its bytes; NULL: nowhere */
        size_t len, mapped; /* mapped: bytes that are ours; 0: the caller's */
        size_t viewed;      /* bytes mapped for view, which lies in them */
        int fd;             /* of a dma-buf, with fd_offset; else -1 */
        uint64_t fd_offset;

        atomic_uint uses; /* operations under way; any thread */
        /* with the connections of its kind, by endpoint; written under the context's memory_lock */
        _Atomic(struct mr_registration *) registered[MR_ENDPOINTS_MAX];
};

/* ---- buffer.c -------------------------------------------------------------------------------- */

/*
 * The memory of a place, NULL where it is a dma-buf; its buffer is in use until mr_buffer_put().
 * -EINVAL: it does not lie in its buffer, or that is another client's dma-buf.
 */
int mr_place_take(struct mr_client *client, const struct mr_place *place, struct mr_buffer **buffer, char **memory);
void mr_buffer_put(struct mr_buffer *buffer); /* NULL is allowed */
/*
 * The same, where it was made for this client; else NULL: then it is memory like any other. NULL is
 * allowed.
 */
struct mr_buffer *mr_buffer_of(const struct mr_client *client, struct mr_buffer *buffer);
/* Its bytes cannot be seen by the CPU: a dma-buf that cannot be mapped. NULL is allowed. */
bool mr_buffer_unseen(const struct mr_buffer *buffer);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* The kind of connection that reaches it. */
enum mr_connection_kind mr_buffer_connection(const struct mr_buffer *buffer);

/*
 * The buffer on the connection's domain: registered now (blocking: pins) or before. On the
 * connection's thread, while the buffer is in use.
 */
int mr_memory_of(struct mr_registrations *list, struct rdx_client_domain *domain, struct mr_buffer *buffer,
                 struct rdx_memory **out);
/*
 * Gives up all registrations of the connection's domain. On the connection's thread; nothing is
 * leased.
 */
void mr_memory_drop(struct mr_registrations *list);
/* Gives up all registrations of a buffer that nobody uses. Any thread; blocking. */
void mr_memory_forget(struct mr_buffer *buffer);

#endif
