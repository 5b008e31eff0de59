/*
 * fake_internal.h - what the files of the fake share. All of it is guarded by the world's lock,
 * which public operations take; functions declared here are called with it held.
 *
 *   post ─> pair->work ─> transmit: the peer executes, or (live) it travels ─> executed ─> complete: completion queue
 *                                    WRITE: staged ─(notice)─> memory
 */
#ifndef FAKERDMA_FAKE_INTERNAL_H
#define FAKERDMA_FAKE_INTERNAL_H

#include "tests/fakerdma/fake.h"

#include <pthread.h>
#include <sys/types.h>

#define FAKE_MTU       4096u
#define FAKE_DATA_MOST 196u
#define FAKE_SEND_MOST 16384u
#define FAKE_BULK_MOST 32u /* WRITEs and READs of one message of the live wire */

#define FAKE_MUST(what)                                                                                                \
        do {                                                                                                           \
                if (!(what))                                                                                           \
                        fake_die(__FILE__, __LINE__, #what);                                                           \
        } while (0)
/*
 * A broken rule of the caller's own: what a device answers with a local error is the end of a test.
 */
void fake_die(const char *file, int line, const char *what) __attribute__((noreturn));

struct rdx_device {
        uint8_t gid[RDX_GID_LEN];
        char address[64];
        struct rdx_device *next;
};

struct rdx_domain {
        struct rdx_device *device;
        unsigned users;
};

enum key_kind { KEY_FREE, KEY_REGION, KEY_WINDOW };

struct fake_key {
        enum key_kind kind;
        uint8_t generation;
        void *object;
};

struct rdx_region {
        struct rdx_domain *domain;
        char *base;
        size_t len;
        unsigned access;
        uint32_t key;
        unsigned windows;
};

struct rdx_window {
        struct rdx_domain *domain;
        unsigned type;
        uint32_t index;
        uint32_t posted_key; /* of the last bind that was posted */
        uint32_t key;        /* in force; 0: not bound */
        uint64_t address, len;
        unsigned access;
        struct rdx_region *region;
        const struct rdx_pair *pair; /* type 2: the one it is good for */
};

struct rdx_queue {
        struct rdx_device *device;
        int fd;
        bool armed;
        unsigned size, head, count;
        struct rdx_done *done;
        unsigned pairs;
};

struct fake_event {
        struct rdx_event event;
        const struct rdx_pair *pair;
        struct fake_event *next;
};

struct rdx_channel {
        struct rdx_device *device;
        int fd;
        struct fake_event *first, **last;
        unsigned users;
        bool dead; /* its process is: nothing comes or goes */
        struct rdx_channel *next;
};

struct rdx_listener {
        struct rdx_channel *channel;
        char address[64];
        uint16_t port;
        int fd; /* live */
        struct rdx_listener *next;
};

struct rdx_arrival {
        struct rdx_listener *listener;
        struct rdx_pair *client; /* stepped */
        int fd;                  /* live */
        struct rdx_party peer;
        pid_t pid;
        bool no_reads, mute;
};

enum fake_state { PAIR_NEW, PAIR_CONNECTING, PAIR_READY, PAIR_ERROR };

struct fake_work {
        struct rdx_work work;
        char *inline_data; /* of a SEND: taken when posted only by the live wire */
        uint32_t seq;
        bool sent, executed;
        int result;
        int dialled; /* live: the connection that it went over */
        struct fake_work *next;
};

struct fake_receive {
        uint64_t tag;
        void *address;
        uint32_t len;
        struct fake_receive *next;
};

struct fake_staged {
        char *to, *bytes;
        uint32_t len;
        struct fake_staged *next;
};

struct rdx_pair {
        struct rdx_channel *channel;
        struct rdx_domain *domain;
        struct rdx_queue *queue;
        void *owner;
        enum fake_state state;
        struct rdx_party own, peer;
        struct rdx_pair *remote; /* stepped: the other end, NULL when it is gone */
        struct rdx_arrival *arrival;
        int fd;    /* live: the connection; -1 */
        pid_t pid; /* live: of the other end */
        char address[64];
        uint16_t port;
        bool cut;
        bool no_reads; /* of the other end */
        bool mute;     /* the other end never says that it is established */
        unsigned sends, receives, sends_used, receives_used;
        uint32_t next_seq;
        struct fake_work *work, **work_last;
        struct fake_receive *receive, **receive_last;
        struct fake_staged *staged; /* bytes that are here and not visible */
        bool dials;                 /* an initiator's: it has no peer of its own */
        struct rdx_pair *next;
};

/* fake_initiator.c */
struct rdx_initiator {
        struct rdx_pair pair;
};

struct rdx_route {
        struct rdx_domain *domain;
        struct rdx_port port;
        unsigned works; /* that name it and are not over */
};

struct fake_target {
        struct rdx_domain *domain;
        uint32_t number;
        uint64_t key;
        int fd; /* live: listens */
        struct fake_target *next;
};

/* Live: a connection between an initiator and a target of another process, at either end. */
struct fake_link {
        struct rdx_pair *initiator; /* at its end */
        struct fake_target *target; /* at the other one */
        uint8_t gid[RDX_GID_LEN];   /* whom it reaches */
        uint32_t number;
        struct rdx_pair pair; /* descriptor, process and domain, as those who copy want them */
        struct fake_link *next;
};

struct fake_world {
        pthread_mutex_t lock;
        struct fake_options options;
        struct fake_counts counts;
        uint64_t random;
        bool live, strict;
        struct rdx_device *devices;
        struct rdx_listener *listeners;
        struct rdx_pair *pairs;
        struct rdx_channel *channels;
        struct fake_target *targets;
        struct fake_link *links;
        struct fake_key *keys;
        uint32_t key_count;
        uint32_t next_pair;
        uint64_t writes_out;
        unsigned pair_count;
        uint16_t next_port;
};
extern struct fake_world fake;

void fake_lock(void);
void fake_unlock(void);
uint64_t fake_random(uint64_t below);
/* Counts a point; true: it fails. */
bool fake_point(void);
void fake_opened(void);
void fake_closed(void);

/* fake_faults.c: live. Opens what the environment names, if anything. */
void fake_faults_open(void);
/* Can work like this fail? */
bool fake_faults_may(const struct rdx_work *work);
/* Counts a point of it; true: it fails. */
bool fake_fault(const struct rdx_work *work);

/* fake_objects.c: the operations of the table that it has, and */
extern const struct rdx_transport fake_table;
void fake_device_open_env(void);
bool fake_region_holds(const struct rdx_region *region, const void *address, uint64_t len);
struct rdx_region *fake_region_of(uint32_t lkey);
/* 0, or -EACCES. */
int fake_check_rights(const struct rdx_pair *pair, uint32_t rkey, uint64_t address, uint64_t len, unsigned access);
int fake_bind(struct rdx_pair *pair, const struct rdx_work *work);
int fake_invalidate(struct rdx_pair *pair, uint32_t rkey);
void fake_queue_push(struct rdx_queue *queue, const struct rdx_done *done);
void fake_signal(int fd);

int fake_device_open(const char *address, uint16_t port, bool remote, unsigned timeout_ms, struct rdx_device **out,
                     char *why, size_t why_len);
void fake_device_close(struct rdx_device *device);
int fake_devices(void (*visit)(void *arg, const struct rdx_device_info *info), void *arg);
void fake_device_info(struct rdx_device *device, struct rdx_device_info *out);
int fake_domain_open(struct rdx_device *device, struct rdx_domain **out);
void fake_domain_close(struct rdx_domain *domain);
int fake_region_open(struct rdx_domain *domain, void *address, size_t len, unsigned access, struct rdx_region **out);
void fake_region_close(struct rdx_region *region);
uint32_t fake_region_lkey(const struct rdx_region *region);
uint32_t fake_region_rkey(const struct rdx_region *region);
int fake_window_open(struct rdx_domain *domain, unsigned type, struct rdx_window **out);
void fake_window_close(struct rdx_window *window);
uint32_t fake_window_rkey(const struct rdx_window *window);
int fake_queue_open(struct rdx_device *device, unsigned entries, struct rdx_queue **out);
void fake_queue_close(struct rdx_queue *queue);
int fake_queue_fd(const struct rdx_queue *queue);
int fake_queue_arm(struct rdx_queue *queue);
int fake_queue_poll(struct rdx_queue *queue, struct rdx_done *out, unsigned most);

/* fake_connect.c */
int fake_channel_open(struct rdx_device *device, struct rdx_channel **out);
void fake_channel_close(struct rdx_channel *channel);
int fake_channel_fd(const struct rdx_channel *channel);
int fake_channel_next(struct rdx_channel *channel, struct rdx_event *out);
int fake_listen(struct rdx_channel *channel, const char *address, uint16_t port, unsigned backlog,
                struct rdx_listener **out);
uint16_t fake_listener_port(const struct rdx_listener *listener);
void fake_unlisten(struct rdx_listener *listener);
void fake_reject(struct rdx_arrival *arrival, const void *data, size_t len);
int fake_pair_open(const struct rdx_pair_options *options, struct rdx_pair **out);
unsigned fake_pair_read_depth(const struct rdx_pair *pair);
void fake_pair_parties(const struct rdx_pair *pair, struct rdx_party *own, struct rdx_party *peer);
int fake_pair_connect(struct rdx_pair *pair, const void *data, size_t len);
int fake_pair_accept(struct rdx_pair *pair, const void *data, size_t len);
void fake_pair_fail(struct rdx_pair *pair);
void fake_pair_close(struct rdx_pair *pair);
void fake_event(struct rdx_channel *channel, enum rdx_event_kind kind, const struct rdx_pair *pair, int result,
                const void *data, size_t len, struct rdx_arrival *arrival);
void fake_arrive(struct rdx_listener *listener, struct rdx_arrival *arrival, const void *data, size_t len);

/* fake_work.c */
int fake_post(struct rdx_pair *pair, const struct rdx_work *work, unsigned count, unsigned *posted);
int fake_post_receive(struct rdx_pair *pair, uint64_t tag, void *address, uint32_t len, uint32_t lkey);
/* To the error state, with what was posted flushed; the oldest with result first. */
void fake_to_error(struct rdx_pair *pair, int result);
void fake_forget_work(struct rdx_pair *pair);
/* Where bytes of the other end come from, or go. */
typedef int (*fake_copy)(const struct rdx_pair *pair, void *own, void *other, uint32_t len, bool fetch);
int fake_copy_here(const struct rdx_pair *pair, void *own, void *other, uint32_t len, bool fetch);
/* At the responder: one work request of its peer's. */
int fake_execute(struct rdx_pair *pair, const struct rdx_work *work, fake_copy copy);
/* The oldest that were executed, up to seq (all earlier ones were too), complete. */
void fake_executed(struct rdx_pair *pair, uint32_t seq, int result);
bool fake_complete(struct rdx_pair *pair);
void fake_settle(struct rdx_pair *pair, bool all);

/* More of it goes out, where it can. Live only. */
void fake_transmit_live(struct rdx_pair *pair);

/* fake_bulk.c: live. A fake_copy from or to the process of the other end. */
int fake_copy_between(const struct rdx_pair *pair, void *own, void *other, uint32_t len, bool fetch);
/*
 * At the responder: WRITEs and READs in order, until one fails: *last is the last one executed, and
 * what is returned is its result.
 */
int fake_execute_bulk(struct rdx_pair *pair, const struct rdx_work *work, unsigned count, unsigned *last);

/* fake_initiator.c */
int fake_initiator_open(struct rdx_domain *domain, struct rdx_queue *queue, unsigned sends, struct rdx_initiator **out);
void fake_initiator_close(struct rdx_initiator *initiator);
int fake_initiator_reset(struct rdx_initiator *initiator);
int fake_initiator_post(struct rdx_initiator *initiator, const struct rdx_work *work, unsigned count, unsigned *posted);
int fake_route_open(struct rdx_domain *domain, const struct rdx_port *port, struct rdx_route **out);
void fake_route_close(struct rdx_route *route);
/* Of this process. */
struct fake_target *fake_target_find(const uint8_t gid[RDX_GID_LEN], uint32_t number);
/* At the target: one work request; the pair is for whom it is copied. */
int fake_target_execute(const struct fake_target *target, const struct rdx_pair *pair, const struct rdx_work *work,
                        fake_copy copy);

/* fake_wire.c: live */
void fake_wire_start(void);
int fake_wire_listen(struct rdx_listener *listener);
void fake_wire_unlisten(struct rdx_listener *listener);
int fake_wire_connect(struct rdx_pair *pair, const void *data, size_t len);
int fake_wire_accept(struct rdx_pair *pair, const void *data, size_t len);
void fake_wire_reject(struct rdx_arrival *arrival, const void *data, size_t len);
void fake_wire_send(struct rdx_pair *pair, const struct fake_work *work);
/* The same of count WRITEs and READs that follow one another, at most FAKE_BULK_MOST. */
void fake_wire_send_bulk(struct rdx_pair *pair, const struct fake_work *first, unsigned count);
void fake_wire_close(struct rdx_pair *pair);
int fake_wire_target(struct fake_target *target);
void fake_wire_untarget(struct fake_target *target);
/* Its answer comes, or it has failed at once (false). */
bool fake_wire_dial(struct rdx_pair *pair, struct fake_work *work);
void fake_wire_hang_up(const struct rdx_pair *initiator);

#endif
