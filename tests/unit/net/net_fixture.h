/*
 * net_fixture.h - nodes of a cluster in one process: each with loops on threads, certificates in a
 * folder, and a handler that answers by the operation that is asked for.
 */
#ifndef MILLRACE_TEST_NET_FIXTURE_H
#define MILLRACE_TEST_NET_FIXTURE_H

#include <arpa/inet.h>
#include <errno.h>
#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ec.h"
#include "net.h"
#include "net/net_internal.h"
#include "net_cert.h"
#include "tests/lib/must.h"
#include "tests/lib/wait.h"

#define NODE_LOOPS 3u
#define NODES_MOST 4u
#define HELD_MOST  1024u

enum {
        OP_ECHO = 1, /* body and bulk come back */
        OP_READ,     /* room bytes of a pattern come back */
        OP_HOLD,     /* answered when node_release() says so */
        OP_DISCARD,  /* the bulk is thrown away */
        OP_WAIT      /* the bulk's memory is there when node_release() says so */
};

struct node_loop {
        struct lp_loop *lp;
        pthread_t thread;
};

struct node {
        struct node_loop loops[NODE_LOOPS];
        struct lp_loop *lp[NODE_LOOPS];
        struct net *net;
        struct net_transport *transport;
        char address[NET_ADDRESS_MAX];
        sem_t listening, stopped;
        int listen_result;
        /* guarded by lock: what the handler holds, and what it said */
        pthread_mutex_t lock;
        struct net_request *held[HELD_MOST];
        unsigned held_count, requests, lost, waiting;
        char lines[65536];
};

/* ---- certificates ---------------------------------------------------------------------------- */

static char fixture_folder[64];

static inline void fixture_files(struct net_tcp_options *options, const char *ca, const char *name, char *paths)
{
        snprintf(paths, 256, "%s/%s.crt", fixture_folder, ca);
        snprintf(paths + 256, 256, "%s/%s.crt", fixture_folder, name);
        snprintf(paths + 512, 256, "%s/%s.key", fixture_folder, name);
        *options = (struct net_tcp_options){paths, paths + 256, paths + 512};
}

static inline void fixture_remove(const char *folder)
{
        DIR *dir = opendir(folder);
        struct dirent *entry;

        while (dir != NULL && (entry = readdir(dir)) != NULL)
                unlinkat(dirfd(dir), entry->d_name, 0);
        if (dir != NULL)
                closedir(dir);
        rmdir(folder);
}

/* A CA, and node-1 .. node-4. */
static inline int fixture_certificates(void **state)
{
        char why[256], name[16];
        unsigned i;

        signal(SIGPIPE, SIG_IGN);
        snprintf(fixture_folder, sizeof(fixture_folder), "/tmp/millrace-net.XXXXXX");
        MUST(mkdtemp(fixture_folder) != NULL);
        MUST(net_cert_make_ca(fixture_folder, "test", 10, why, sizeof(why)) == 0);
        for (i = 1; i <= NODES_MOST; i++) {
                snprintf(name, sizeof(name), "node-%u", i);
                MUST(net_cert_make_node(fixture_folder, name, 10, why, sizeof(why)) == 0);
        }
        return 0;
}

static inline int fixture_no_certificates(void **state)
{
        fixture_remove(fixture_folder);
        return 0;
}

/* ---- the handler ----------------------------------------------------------------------------- */

static inline void node_request_free(struct net_request *request)
{
        if (request->bulk_count > 0 && request->bulk[0].iov_base != NULL)
                free(request->bulk[0].iov_base);
        if (request->user != NULL && (request->bulk_count == 0 || request->user != request->bulk[0].iov_base))
                free(request->user);
}

static inline enum net_bulk node_bulk(void *arg, struct net_request *request)
{
        struct node *node = arg;
        uint32_t first = request->bulk_len / 3;

        if (request->operation == OP_DISCARD)
                return NET_BULK_DISCARD;
        if (request->operation == OP_WAIT && request->user == NULL) {
                request->user = calloc(1, 1);
                pthread_mutex_lock(&node->lock);
                node->held[node->held_count++] = request;
                node->waiting++;
                pthread_mutex_unlock(&node->lock);
                return NET_BULK_WAIT;
        }
        /* one memory in two pieces */
        request->bulk[0] = (struct iovec){malloc(request->bulk_len), first};
        request->bulk[1] = (struct iovec){(char *)request->bulk[0].iov_base + first, request->bulk_len - first};
        request->bulk_count = 2;
        return NET_BULK_TAKE;
}

static inline uint8_t pattern_byte(uint32_t at)
{
        return (uint8_t)(at * 2654435761u >> 24);
}

static inline void node_answer(struct net_request *request)
{
        struct net_answer answer = {
                .status = (int32_t)request->operation, .body = request->body, .body_len = request->body_len};
        uint32_t i;

        request->answered = node_request_free;
        if (request->operation == OP_READ && request->room > 0) {
                request->user = malloc(request->room);
                for (i = 0; i < request->room; i++)
                        ((uint8_t *)request->user)[i] = pattern_byte(i);
                answer.bulk[0] = (struct iovec){request->user, request->room};
                answer.bulk_count = 1;
        } else if (request->room >= request->bulk_len && request->bulk_count == 2) {
                memcpy(answer.bulk, request->bulk, sizeof(answer.bulk));
                answer.bulk_count = 2;
        }
        net_reply(request, &answer);
}

static inline void node_request(void *arg, struct net_request *request)
{
        struct node *node = arg;
        bool hold = request->operation == OP_HOLD;

        pthread_mutex_lock(&node->lock);
        node->requests++;
        if (hold) {
                MUST(node->held_count < HELD_MOST);
                node->held[node->held_count++] = request;
        }
        pthread_mutex_unlock(&node->lock);
        if (!hold)
                node_answer(request);
}

static inline void node_lost(void *arg, struct net_request *request)
{
        struct node *node = arg;
        unsigned i;

        pthread_mutex_lock(&node->lock);
        node->lost++;
        for (i = 0; i < node->held_count; i++)
                if (node->held[i] == request)
                        node->held[i] = NULL;
        pthread_mutex_unlock(&node->lock);
        node_request_free(request);
}

static inline void node_log(void *arg, const char *line)
{
        struct node *node = arg;
        size_t len;

        pthread_mutex_lock(&node->lock);
        len = strlen(node->lines);
        snprintf(node->lines + len, sizeof(node->lines) - len, "%s\n", line);
        pthread_mutex_unlock(&node->lock);
        if (getenv("NET_TEST_LOG") != NULL)
                fprintf(stderr, "%p %s\n", arg, line);
}

static inline bool node_said(struct node *node, const char *text)
{
        bool said;

        pthread_mutex_lock(&node->lock);
        said = strstr(node->lines, text) != NULL;
        pthread_mutex_unlock(&node->lock);
        return said;
}

static inline unsigned node_number(struct node *node, const unsigned *number)
{
        unsigned n;

        pthread_mutex_lock(&node->lock);
        n = *number;
        pthread_mutex_unlock(&node->lock);
        return n;
}

/* ---- on a loop ------------------------------------------------------------------------------- */

struct on_loop {
        struct lp_msg msg;
        void (*func)(void *arg);
        void *arg;
        sem_t done;
};

static inline void on_loop_run(struct lp_msg *msg)
{
        struct on_loop *on = container_of(msg, struct on_loop, msg);

        on->func(on->arg);
        sem_post(&on->done);
}

static inline void sem_wait_or_fail(sem_t *sem)
{
        struct timespec until;
        int rv;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += WAIT_MOST;
        do
                rv = sem_timedwait(sem, &until);
        while (rv != 0 && errno == EINTR);
        MUST(rv == 0);
}

static inline void on_loop(struct lp_loop *lp, void (*func)(void *arg), void *arg)
{
        struct on_loop on = {.msg.run = on_loop_run, .func = func, .arg = arg};

        sem_init(&on.done, 0, 0);
        lp_post(lp, &on.msg);
        sem_wait_or_fail(&on.done);
        sem_destroy(&on.done);
}

static inline void release_one(void *arg)
{
        struct net_request *request = arg;

        if (request->operation == OP_HOLD)
                node_answer(request);
        else
                net_request_resume(request);
}

/* All that is held goes on. */
static inline void node_release(struct node *node)
{
        struct net_request *held[HELD_MOST];
        unsigned count, i;

        pthread_mutex_lock(&node->lock);
        count = node->held_count;
        memcpy(held, node->held, sizeof(held));
        node->held_count = 0;
        pthread_mutex_unlock(&node->lock);
        for (i = 0; i < count; i++)
                if (held[i] != NULL)
                        on_loop(held[i]->conn->at->lp, release_one, held[i]);
}

/* ---- life ------------------------------------------------------------------------------------ */

static inline void *node_loop_thread(void *arg)
{
        struct node_loop *loop = arg;

        MUST(lp_loop_run(loop->lp) == 0);
        return NULL;
}

static inline void node_listens(void *arg, int result, const char *address)
{
        struct node *node = arg;

        node->listen_result = result;
        snprintf(node->address, sizeof(node->address), "%s", address);
        sem_post(&node->listening);
}

static inline void node_has_stopped(void *arg)
{
        sem_post(&((struct node *)arg)->stopped);
}

/* What all nodes of a test have in common; change it before node_start(). */
static inline struct net_options node_options(uint16_t number, uint64_t boot)
{
        struct net_options options = {.cluster = "a test cluster",
                                      .generation = {7, 99},
                                      .node = number,
                                      .boot = boot,
                                      .listen = "127.0.0.1:0"};

        options.limits.backoff_ms = 640;
        snprintf(options.name, sizeof(options.name), "node-%u", number);
        return options;
}

/* Of each loop, of nodes that are started from now on. */
static unsigned fixture_peer_slots;

static inline void node_start_with(struct node *node, struct net_options *options, struct net_transport *transport)
{
        struct lp_config config = {.name = "net", .peer_slots = fixture_peer_slots};
        unsigned i;

        memset(node, 0, sizeof(*node));
        pthread_mutex_init(&node->lock, NULL);
        sem_init(&node->listening, 0, 0);
        sem_init(&node->stopped, 0, 0);
        for (i = 0; i < NODE_LOOPS; i++) {
                config.index = i;
                MUST(lp_loop_new(&config, &node->loops[i].lp) == 0);
                node->lp[i] = node->loops[i].lp;
                MUST(pthread_create(&node->loops[i].thread, NULL, node_loop_thread, &node->loops[i]) == 0);
        }
        node->transport = transport;
        options->loops = node->lp;
        options->loop_count = NODE_LOOPS;
        options->transport = transport;
        if (options->handler.bulk == NULL)
                options->handler = (struct net_handler){.bulk = node_bulk, .request = node_request, .lost = node_lost};
        if (options->handler_arg == NULL)
                options->handler_arg = node;
        options->log = node_log;
        options->log_arg = node;
        MUST(net_new(options, &node->net) == 0);
        net_start(node->net, node_listens, node);
        sem_wait_or_fail(&node->listening);
        MUST(node->listen_result == 0);
}

static inline struct net_transport *fixture_transport(const char *ca, const char *name)
{
        struct net_tcp_options files;
        struct net_transport *transport;
        char paths[3 * 256], why[256];

        fixture_files(&files, ca, name, paths);
        MUST(net_tcp_new(&files, &transport, why, sizeof(why)) == 0);
        return transport;
}

static inline void node_start(struct node *node, struct net_options *options)
{
        char name[16];

        snprintf(name, sizeof(name), "node-%u", options->node % 1024); /* parties of a node have its certificate */
        node_start_with(node, options, fixture_transport("ca", name));
}

/* Called by node_stop() before its loops go: who has answered from other loops is done with that. NULL: nobody. */
static void (*fixture_net_stopped)(void);

static inline void node_stop(struct node *node)
{
        unsigned i;

        net_stop(node->net, node_has_stopped, node);
        node_release(node);
        sem_wait_or_fail(&node->stopped);
        if (fixture_net_stopped != NULL)
                fixture_net_stopped();
        for (i = 0; i < NODE_LOOPS; i++)
                lp_loop_stop(node->loops[i].lp);
        for (i = 0; i < NODE_LOOPS; i++)
                pthread_join(node->loops[i].thread, NULL);
        net_free(node->net);
        for (i = 0; i < NODE_LOOPS; i++)
                lp_loop_free(node->loops[i].lp);
        net_tcp_free(node->transport);
        sem_destroy(&node->listening);
        sem_destroy(&node->stopped);
        pthread_mutex_destroy(&node->lock);
}

static inline void nothing_more(void *arg)
{
}

/* What was set goes from loop to loop: so does this, behind it. */
static inline void node_all_know(struct node *node)
{
        unsigned i;

        for (i = 0; i < NODE_LOOPS; i++)
                on_loop(node->lp[i], nothing_more, NULL);
}

static inline struct net_peer *node_knows(struct node *node, uint16_t number, const char *name, const char *address)
{
        struct net_peer_options options = {.node = number};
        struct net_peer *peer;

        snprintf(options.name, sizeof(options.name), "%s", name);
        snprintf(options.address, sizeof(options.address), "%s", address);
        MUST(net_peer_set(node->net, &options, &peer) == 0);
        node_all_know(node);
        return peer;
}

static inline struct net_peer *node_meets(struct node *node, const struct node *other)
{
        char name[16];

        snprintf(name, sizeof(name), "node-%u", other->net->self.node % 1024);
        return node_knows(node, other->net->self.node, name, other->address);
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct waited_call {
        struct net_call call;
        sem_t done;
        unsigned times;
        uint8_t *answer;
};

static inline void waited_call_done(struct net_call *call)
{
        struct waited_call *waited = container_of(call, struct waited_call, call);

        waited->times++;
        if (call->answer_len > 0) {
                waited->answer = malloc(call->answer_len);
                memcpy(waited->answer, call->answer, call->answer_len);
        }
        sem_post(&waited->done);
}

static inline void waited_call_start(void *arg)
{
        struct waited_call *waited = arg;

        if (waited->call.deadline != 0)
                waited->call.deadline += lp_now(lp_self());
        net_call(&waited->call);
}

/* deadline_ms 0: none */
static inline struct waited_call *call_begin(struct node *node, unsigned loop, const struct net_call *call,
                                             unsigned deadline_ms)
{
        struct waited_call *waited = calloc(1, sizeof(*waited));

        waited->call = *call;
        waited->call.done = waited_call_done;
        waited->call.deadline = deadline_ms * NET_MS;
        sem_init(&waited->done, 0, 0);
        on_loop(node->lp[loop], waited_call_start, waited);
        return waited;
}

static inline enum net_outcome call_wait(struct waited_call *waited)
{
        sem_wait_or_fail(&waited->done);
        MUST(waited->times == 1);
        return waited->call.outcome;
}

static inline void call_free(struct waited_call *waited)
{
        sem_destroy(&waited->done);
        free(waited->answer);
        free(waited);
}

/* One call of a few bytes, whose answer is right. */
static inline enum net_outcome call_once(struct node *node, struct net_peer *peer, enum net_link_number link)
{
        struct net_call call = {.peer = peer, .link = link, .operation = OP_ECHO, .body = "some", .body_len = 4};
        struct waited_call *waited = call_begin(node, (unsigned)link % NODE_LOOPS, &call, 0);
        enum net_outcome outcome = call_wait(waited);

        if (outcome == NET_ANSWERED)
                MUST(waited->call.answer_len == 4 && memcmp(waited->answer, "some", 4) == 0 &&
                     waited->call.status == OP_ECHO);
        call_free(waited);
        return outcome;
}

/* Until it is answered: the other end may have to be found again first. */
static inline bool call_until_answered(struct node *node, struct net_peer *peer, enum net_link_number link)
{
        unsigned turns;

        for (turns = 0; turns < WAIT_TURNS; turns++) {
                if (call_once(node, peer, link) == NET_ANSWERED)
                        return true;
                usleep(WAIT_STEP_US);
        }
        return false;
}

static inline struct net_stats node_stats(const struct node *node)
{
        struct net_stats stats;

        net_stats_read(node->net, &stats);
        return stats;
}

static inline unsigned open_descriptors(void)
{
        DIR *dir = opendir("/proc/self/fd");
        unsigned count = 0;

        while (readdir(dir) != NULL)
                count++;
        closedir(dir);
        return count;
}

#endif
