/*
 * client_internal.h - the client's side of rdma/: what its files share. Nobody else includes it. No
 * loop, no thread: all of it belongs to whoever calls.
 */
#ifndef RDX_CLIENT_INTERNAL_H
#define RDX_CLIENT_INTERNAL_H

#include <pthread.h>

#include "rdma_client.h"

#define RDX_CLIENT_SENDS    128u  /* work requests posted at a time */
#define RDX_LOCAL_MS        5000u /* a binding or invalidation takes microseconds */
#define RDX_CLIENT_MESSAGES 64u

/* owner: the caller's thread, but for domain's registrations */
struct rdx_client_domain {
        const struct rdx_transport *transport;
        struct rdx_device *device;
        struct rdx_domain *pd;
        struct rdx_device_info info;
        unsigned rights;
        pthread_mutex_t lock; /* of registering */
        bool busy;            /* a session is on it: its domain is private to that one */
};

struct rdx_memory {
        struct rdx_client_domain *domain;
        struct rdx_region *region;
        char *address;
        size_t len;
};

struct rdx_pooled {
        struct rdx_window *window;
        struct rdx_pooled *next;
};

struct rdx_client {
        struct rdx_client_domain *domain;
        const struct rdx_transport *transport;
        struct rdx_client_events events;
        struct rdx_keys keys;
        char access_key[RDX_ACCESS_KEY_LEN + 1];
        uint8_t session[RDX_ID_LEN], boot[RDX_BOOT_LEN];
        enum rdx_rights rights;
        uint16_t endpoint;
        unsigned requests_most, messages_most, receives;
        unsigned requests, messages, spoken; /* outstanding; receives that may yet be used */
        uint64_t number;
        struct rdx_channel *channel;
        struct rdx_queue *queue;
        struct rdx_pair *pair; /* NULL: fenced */
        bool up, over;
        int refused;
        uint8_t *memory; /* receives, then messages */
        struct rdx_region *region;
        uint64_t taken;             /* completions */
        uint32_t posted, completed; /* of the send queue; all are signalled */
        int failed;                 /* the first completion that was not success */
        struct rdx_window_binding *bindings;
        struct rdx_window *idle[RDX_CLIENT_SENDS];
        unsigned idle_count;
        bool message_used[RDX_CLIENT_MESSAGES];
        uint64_t message_number[RDX_CLIENT_MESSAGES];
        uint32_t message_seq[RDX_CLIENT_MESSAGES];
};

/* client.c */
int rdx_client_post(struct rdx_client *client, const struct rdx_work *work);
/* Until what was posted so far is complete. */
int rdx_client_settle(struct rdx_client *client, unsigned timeout_ms);
uint64_t rdx_client_now_ms(void);
int rdx_client_pause(struct rdx_client *client, int fd, uint64_t until_ms);

/* client_window.c */
void rdx_window_binding_notice(struct rdx_client *client, uint64_t number, uint64_t mask, const struct rdx_done *done);
void rdx_window_bindings_forget(struct rdx_client *client);

/* client_batch.c */
void rdx_message_last(struct rdx_client *client, uint64_t number);

#endif
