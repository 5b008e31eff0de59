/*
 * rdma_client.h - the client's side of an RDMA session: registered memory, windows, notices,
 * batches, fencing.
 *
 * No thread, no event loop: the caller polls, or waits for a descriptor to be readable. HTTP,
 * signatures and retries are the caller's (libmillrace). One domain and all that is on it belongs
 * to one thread at a time, but for rdx_client_domain_memory() and rdx_memory_close(), which lock.
 * Errors are negative errno values; -ENOTCONN: the session is over, open another.
 */
#ifndef MILLRACE_RDMA_CLIENT_H
#define MILLRACE_RDMA_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdma_transport.h"
#include "rdma_wire.h"

struct rdx_client_domain;
struct rdx_memory;
struct rdx_client;

/* ---- the way to a server, and memory --------------------------------------------------------- */

/*
 * Blocking. The device through which address is reached, and a protection domain of its own on it,
 * for one session at a time. Outlives sessions. rights: mask of enum rdx_rights that may be used;
 * 0: windows where the device has them, else regions. Memory is registered for these only.
 */
int rdx_client_domain_open(const struct rdx_transport *transport, const char *address, uint16_t port, unsigned rights,
                  unsigned timeout_ms, struct rdx_client_domain **out, char *why, size_t why_len);
void rdx_client_domain_close(struct rdx_client_domain *domain); /* after its clients and memory. NULL is allowed */
/* Mask of enum rdx_rights, for the request that opens a session. */
unsigned rdx_client_domain_rights(const struct rdx_client_domain *domain);
void rdx_client_domain_device(const struct rdx_client_domain *domain, struct rdx_device_info *out);

/*
 * Blocking: pins. Registered once, sliced forever. dmabuf_fd: -1, or the memory is behind that
 * descriptor at offset (GPU memory).
 */
int rdx_client_domain_memory(struct rdx_client_domain *domain, void *address, size_t len, int dmabuf_fd, uint64_t offset,
                    struct rdx_memory **out);
/* No window on it may be open. */
void rdx_memory_close(struct rdx_memory *memory);

/* ---- a session ------------------------------------------------------------------------------- */

/* From the answer to the opening request. */
struct rdx_grant {
        uint8_t signing_key[RDX_KEY_LEN], client_nonce[RDX_NONCE_LEN], server_nonce[RDX_NONCE_LEN];
        uint8_t session[RDX_ID_LEN], boot[RDX_BOOT_LEN];
        enum rdx_rights rights;
        const char *address;
        uint16_t port, endpoint;
        unsigned requests, messages; /* the answer's limits, as far as this client makes use of them */
        unsigned receives;           /* as in the opening request */
};

struct rdx_client_result {
        uint64_t number;
        uint16_t notices; /* of other queue pairs to wait for */
        bool last;
        struct rdx_reader reader; /* of its entries; valid during the call */
};

struct rdx_client_events {
        /* A notice, or a RESULT message, has come. From inside rdx_client_poll(). */
        void (*noticed)(void *arg, uint64_t number);
        void (*result)(void *arg, const struct rdx_client_result *result);
        /*
         * How to wait until fd is readable, in milliseconds: 1, or 0 when the time is over. NULL:
         * poll(2).
         */
        int (*wait)(void *arg, int fd, unsigned timeout_ms);
        void *arg;
};

/*
 * Blocking, at most timeout_ms. -EACCES: the server did not prove that it is the one (or refused us
 * as unknown); -EEXIST, -ENOSPC, -EPROTO: refused.
 */
int rdx_client_connect(struct rdx_client_domain *domain, const struct rdx_grant *grant, const struct rdx_client_events *events,
                       unsigned timeout_ms, struct rdx_client **out);
/* Fences, and frees. All windows are over. NULL is allowed. */
void rdx_client_close(struct rdx_client *client);

/* Readable when rdx_client_poll() should be called. */
int rdx_client_fd(const struct rdx_client *client);
/* The same, of the connection's end; it may stay readable until rdx_client_poll(). */
int rdx_client_event_fd(const struct rdx_client *client);
/* Takes what has come, makes the descriptor ready for the next. 0, or -ENOTCONN. */
int rdx_client_poll(struct rdx_client *client);
/* poll() and rdx_client_poll() until something came: 0, -ETIMEDOUT, -ENOTCONN. */
int rdx_client_wait(struct rdx_client *client, unsigned timeout_ms);

/* Access key and secret for the session's requests. */
const char *rdx_client_access_key(const struct rdx_client *client);
const char *rdx_client_secret(const struct rdx_client *client);
/* The next request number. */
uint64_t rdx_client_number(struct rdx_client *client);

/* ---- requests -------------------------------------------------------------------------------- */

/*
 * One request's right to a slice of memory. The caller's; zero it, open it, give place to the
 * server, and close it. Between: the memory may be used by nobody.
 */
struct rdx_window_binding {
        struct rdx_window_span place;
        uint64_t number;
        /* private */
        struct rdx_client *client;
        struct rdx_window *window;
        struct rdx_memory *memory;
        unsigned receives, replies; /* receives that are spoken for */
        bool bound, noticed;
        struct rdx_window_binding *next;
};

/*
 * For a GET (write), or PUT (read) of memory[offset, offset + len). replies: of a BATCH; 0: one
 * notice is expected, or none for a PUT. Waits for the binding, up to 5 s. -EAGAIN: more
 * outstanding than limits and receives allow.
 */
int rdx_window_binding_open(struct rdx_client *client, struct rdx_memory *memory, uint64_t offset, uint64_t len, bool read,
                  unsigned replies, struct rdx_window_binding *binding);
/* The server's notice for it (or LAST result) has come. */
bool rdx_window_binding_noticed(const struct rdx_window_binding *binding);
/*
 * After a reply that says that the request is over, and its notice where it names one: ends the
 * right. no_notice: the reply names none. Blocks up to 5 s for a local invalidate, where one is
 * needed. 0: nobody writes to the memory any more. Else the session is fenced by that, and over,
 * with the same result for this memory.
 */
int rdx_window_binding_close(struct rdx_window_binding *binding, bool no_notice);

/*
 * All queue pairs to the error state and destroyed: nobody writes to any memory of this session any
 * more, whatever was granted. The session is over; close the bindings, then the client. Harmless
 * twice.
 */
void rdx_client_fence(struct rdx_client *client);

/*
 * Sends a BATCH message: entries as many as fit, at most RDX_MESSAGE_ENTRIES, from entries on.
 * *sent: how many. -EAGAIN: too many outstanding.
 */
struct rdx_client_batch {
        uint32_t batch, deadline_ms;
        uint16_t first, replies;
        bool ordered;
};
int rdx_client_batch(struct rdx_client *client, const struct rdx_window_binding *binding, const struct rdx_client_batch *batch,
                     const struct rdx_entry *entries, unsigned count, unsigned *sent);

#endif
