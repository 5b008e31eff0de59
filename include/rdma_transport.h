/*
 * rdma_transport.h - the seam between the RDMA module and what carries bytes: one table of
 * operations.
 *
 * Real verbs implement it (rdma/verbs*.c, libibverbs and librdmacm loaded at run time), and so does
 * the fake of the tests. Everything above, sessions on the server and in the client library, calls
 * nothing else. The names are those of verbs, shortened: domain = protection domain, region =
 * memory region, queue = completion queue, pair = queue pair (RC), channel = rdma_cm event channel.
 *
 * No call blocks but those that say so. Objects of one device may be used from any thread; one
 * object from one thread at a time, but for queues and pairs: posting to a pair and polling its
 * queue may run on two. Errors are negative errno values.
 */
#ifndef MILLRACE_RDMA_TRANSPORT_H
#define MILLRACE_RDMA_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdma_wire.h"

#define RDX_TRANSPORT_VERSION 3u

struct rdx_device;
struct rdx_domain;
struct rdx_region;
struct rdx_window;
struct rdx_queue;
struct rdx_channel;
struct rdx_listener;
struct rdx_pair;
struct rdx_arrival;   /* a connection that was asked for and is not answered yet */
struct rdx_initiator; /* a pair without a peer of its own: each work request names its target */
struct rdx_route;     /* the way to a port of the fabric (an address handle) */

/* Rights schemes, by value a mask. As narrow as can be first. */
enum rdx_rights { RDX_RIGHTS_WINDOW2 = 1, RDX_RIGHTS_WINDOW1 = 2, RDX_RIGHTS_REGION = 4 };
const char *rdx_rights_name(enum rdx_rights rights); /* as the protocol has it: "window2"; "": not one scheme */
unsigned rdx_rights_named(const char *name);         /* 0: no scheme has that name */

struct rdx_device_info {
        char name[64]; /* e.g. mlx5_0 */
        char link[24]; /* Ethernet, InfiniBand, fake */
        uint8_t gid[RDX_GID_LEN];
        unsigned mtu; /* bytes on the wire, 0: not known */
        bool up;
        bool window1, window2; /* memory windows it has */
        bool dc;               /* dynamically connected transport, compiled in and supported */
        bool on_demand_paging;
        unsigned read_depth; /* RDMA READs in flight per pair */
        unsigned rights;     /* mask of enum rdx_rights it can serve */
};

enum rdx_access { RDX_LOCAL_WRITE = 1, RDX_REMOTE_WRITE = 2, RDX_REMOTE_READ = 4, RDX_WINDOWS = 8 };

/* ---- work ------------------------------------------------------------------------------------ */

enum rdx_op {
        RDX_OP_WRITE,
        RDX_OP_WRITE_NOTICE, /* of no bytes, with imm */
        RDX_OP_READ,
        RDX_OP_SEND,
        RDX_OP_SEND_INVALIDATE, /* rkey: the peer's window */
        RDX_OP_BIND, /* own window over own region: address, len (0: unbinds a type 1 window), access; ends in a new rkey */
        RDX_OP_INVALIDATE, /* own type 2 window: rkey */
};

/*
 * One work request. Its memory (address) belongs to the device until its completion, or that of a
 * later one of the same pair (I7).
 */
struct rdx_work {
        uint64_t tag; /* comes back in rdx_done */
        enum rdx_op op;
        bool signalled; /* else only its failure completes */
        void *address;
        uint32_t len, lkey;
        uint64_t remote;
        uint32_t rkey;
        uint32_t imm;
        /* BIND */
        struct rdx_window *window;
        struct rdx_region *region;
        uint64_t bind_len;
        unsigned access;
        /* of an initiator: WRITE and READ only */
        struct rdx_route *route; /* stays until the completion */
        uint32_t target;         /* number of the target there, 24 bits */
        uint64_t key;            /* the target's access key */
};

/* A port of the fabric: by GID, and on InfiniBand by LID too. */
struct rdx_port {
        uint8_t gid[RDX_GID_LEN];
        uint16_t lid;
};

enum rdx_done_kind { RDX_DONE_SENT, RDX_DONE_RECEIVED };

/*
 * One completion. Those of one pair's sends come in the order of posting, those of its receives
 * too.
 */
struct rdx_done {
        uint64_t tag;
        enum rdx_done_kind kind;
        int result; /* 0; -ECANCELED: flushed; -EACCES: refused by the peer's rights; -ETIMEDOUT: no answer; -EIO: other */
        uint32_t len; /* received */
        bool has_imm, invalidated;
        uint32_t imm; /* imm, or the rkey invalidated */
};

/* ---- connections ----------------------------------------------------------------------------- */

enum rdx_event_kind {
        RDX_EVENT_ARRIVAL,     /* arrival, private data, binding.client: to be accepted or rejected */
        RDX_EVENT_UP,          /* pair; client: private data of the answer */
        RDX_EVENT_REJECTED,    /* pair; private data */
        RDX_EVENT_DOWN,        /* pair: the peer left, or the connection or the device failed */
        RDX_EVENT_DEVICE_GONE, /* the device was removed or its link has gone for good: all pairs on it are dead */
};

struct rdx_event {
        enum rdx_event_kind kind;
        void *owner; /* of the pair, as given when it was made; may be of a pair closed since only if the caller closed it before this event was taken */
        struct rdx_arrival *arrival;
        struct rdx_listener *listener;
        struct rdx_party peer; /* ARRIVAL: who asks */
        int result;            /* REJECTED, DOWN: why, as errno; 0: not known */
        uint8_t data[RDX_PRIVATE_MOST + 200];
        size_t len;
};

struct rdx_pair_options {
        struct rdx_channel *channel; /* where its events come; must outlive it */
        struct rdx_domain *domain;
        struct rdx_queue *queue;  /* of sends and receives */
        unsigned sends, receives; /* depth of the two work queues */
        void *owner;
        struct rdx_arrival *arrival; /* server: consumed, also by a failure; NULL: client */
        const char *address;         /* client: whom to connect to */
        uint16_t port;
        unsigned timeout_ms; /* client: of finding the way */
};

struct rdx_transport {
        uint32_t version; /* RDX_TRANSPORT_VERSION */
        const char *name; /* "verbs", "fake" */

        /*
         * Blocking. Shows each device there is; how many, or -ENOSYS: the libraries are not there.
         */
        int (*devices)(void (*visit)(void *arg, const struct rdx_device_info *info), void *arg);

        /*
         * Blocking. The device that has this address (remote: through which it is reached).
         * -ENODEV: none; -ENOSYS: the libraries are not there. why: a line for the log.
         */
        int (*device_open)(const char *address, uint16_t port, bool remote, unsigned timeout_ms,
                           struct rdx_device **out, char *why, size_t why_len);
        void (*device_close)(struct rdx_device *device); /* after all that is on it */
        void (*device_info)(struct rdx_device *device, struct rdx_device_info *out);

        int (*domain_open)(struct rdx_device *device, struct rdx_domain **out);
        void (*domain_close)(struct rdx_domain *domain);

        /* Blocking: pins memory. */
        int (*region_open)(struct rdx_domain *domain, void *address, size_t len, unsigned access,
                           struct rdx_region **out);
        /*
         * NULL, or as region_open for memory behind a dma-buf descriptor; address is the one that
         * work requests and windows use.
         */
        int (*region_open_dmabuf)(struct rdx_domain *domain, int fd, uint64_t offset, uint64_t address, size_t len,
                                  unsigned access, struct rdx_region **out);
        void (*region_close)(struct rdx_region *region);
        uint32_t (*region_lkey)(const struct rdx_region *region);
        uint32_t (*region_rkey)(const struct rdx_region *region);

        /*
         * type: 1 or 2. The rkey is that of the last BIND posted (type 2: chosen when it is
         * posted).
         */
        int (*window_open)(struct rdx_domain *domain, unsigned type, struct rdx_window **out);
        void (*window_close)(struct rdx_window *window);
        uint32_t (*window_rkey)(const struct rdx_window *window);

        int (*queue_open)(struct rdx_device *device, unsigned entries, struct rdx_queue **out);
        void (*queue_close)(struct rdx_queue *queue);
        int (*queue_fd)(const struct rdx_queue *queue);
        /*
         * Readable at the next completion. Completions that came before are not announced: poll
         * once more behind it.
         */
        int (*queue_arm)(struct rdx_queue *queue);
        int (*queue_poll)(struct rdx_queue *queue, struct rdx_done *out, unsigned most);

        int (*channel_open)(struct rdx_device *device, struct rdx_channel **out);
        void (*channel_close)(struct rdx_channel *channel);
        int (*channel_fd)(const struct rdx_channel *channel);
        int (*channel_next)(struct rdx_channel *channel, struct rdx_event *out); /* 1: an event, 0: none, or an error */

        int (*listen)(struct rdx_channel *channel, const char *address, uint16_t port, unsigned backlog,
                      struct rdx_listener **out);
        uint16_t (*listener_port)(const struct rdx_listener *listener);
        void (*unlisten)(struct rdx_listener *listener);
        void (*reject)(struct rdx_arrival *arrival, const void *data, size_t len); /* consumes the arrival */

        /* Makes the pair; receives can be posted. Client: blocks, at most timeout_ms. */
        int (*pair_open)(const struct rdx_pair_options *options, struct rdx_pair **out);
        /* Own side, and as far as known the other one. */
        void (*pair_parties)(const struct rdx_pair *pair, struct rdx_party *own, struct rdx_party *peer);
        /*
         * READs that it may have outstanding at its peer: as many as both devices have and the peer
         * offered when it connected. 0: the peer takes none.
         */
        unsigned (*pair_read_depth)(const struct rdx_pair *pair);
        int (*pair_connect)(struct rdx_pair *pair, const void *data, size_t len);
        int (*pair_accept)(struct rdx_pair *pair, const void *data, size_t len);
        /*
         * To the error state: what was posted completes with -ECANCELED, the peer is told. Harmless
         * twice.
         */
        void (*pair_fail)(struct rdx_pair *pair);
        /*
         * When it returns, the device does not touch memory posted to it any more; completions may
         * still lie in the queue.
         */
        void (*pair_close)(struct rdx_pair *pair);

        /* In order; all, or the first *posted of them and an error. */
        int (*post)(struct rdx_pair *pair, const struct rdx_work *work, unsigned count, unsigned *posted);
        int (*post_receive)(struct rdx_pair *pair, uint64_t tag, void *address, uint32_t len, uint32_t lkey);

        /*
         * Dynamically connected transport. All of it NULL where it is not compiled in;
         * device_info.dc says whether a device has it. An initiator completes in the order of
         * posting, into queue. Once one of its work requests fails, what was posted behind it is
         * flushed (-ECANCELED), and nothing is taken until a reset.
         */
        int (*initiator_open)(struct rdx_domain *domain, struct rdx_queue *queue, unsigned sends,
                              struct rdx_initiator **out);
        /*
         * When it returns, the device does not touch memory posted to it any more; completions may
         * still lie in the queue.
         */
        void (*initiator_close)(struct rdx_initiator *initiator);
        /* After the last completion of what was posted: it can be posted to again. */
        int (*initiator_reset)(struct rdx_initiator *initiator);
        int (*initiator_post)(struct rdx_initiator *initiator, const struct rdx_work *work, unsigned count,
                              unsigned *posted);
        /* Finds the way, which may block (it asks the network) where route_blocks is set. */
        int (*route_open)(struct rdx_domain *domain, const struct rdx_port *port, struct rdx_route **out);
        void (*route_close)(struct rdx_route *route);
        bool route_blocks;
};

/* Verbs. The table is always there; device_open answers -ENOSYS where the libraries are not. */
const struct rdx_transport *rdx_verbs(void);

/*
 * Blocking. A transport from a shared object that exports `const struct rdx_transport
 * *rdx_driver(void)`; for tests and measurements: nothing in the product names one. It stays
 * loaded. -ENOENT, -ENOEXEC (no such symbol), -EPROTO (another version).
 */
int rdx_transport_load(const char *path, const struct rdx_transport **out);

#endif
