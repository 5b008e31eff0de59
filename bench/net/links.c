/*
 * links.c - what net/ costs: two processes move frames of 1 MiB, by bare sockets and by calls, one
 * after the other and in rounds, with and without TLS.
 *
 *   links [ROUNDS [MIB]]        5 rounds of 4,096 MiB each way of doing it
 *
 * A bare one is a blocking loop: the sender writes frames, at most 7 of them unanswered, the
 * receiver reads each into one of 7 buffers and answers 72 bytes. `crc` has a CRC32C made and
 * looked at, as net/ does. Of each the median of its rounds is shown: speed, and processor time of
 * both processes for a GiB.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ec.h"
#include "net.h"
#include "net_cert.h"

#define FRAME      (1u << 20)
#define WINDOW     7u /* frames that are unanswered at a time */
#define ANSWER     72u
#define ROUNDS_MAX 99u

#define MUST(what)                                                                                                     \
        do {                                                                                                           \
                if (!(what)) {                                                                                         \
                        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                                     \
                        exit(1);                                                                                       \
                }                                                                                                      \
        } while (0)

enum way { BARE, BARE_CRC, CALLS_PLAIN, BARE_TLS, CALLS_TLS, WAYS };
static const char *const way_names[WAYS] = {"bare", "bare, crc", "calls, plain bulk", "bare, TLS", "calls, TLS"};

static char folder[64];
static unsigned frames_wanted;
static char *buffers[WINDOW + 1];

static double now_s(void)
{
        return (double)lp_clock() / 1e9;
}

static double cpu_s(int who)
{
        struct rusage usage;

        getrusage(who, &usage);
        return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void file_of(const char *name, char *path)
{
        snprintf(path, 96, "%s/%s", folder, name);
}

/* ---- bare sockets ---------------------------------------------------------------------------- */

struct bare {
        int fd;
        SSL *ssl;
};

static SSL *bare_tls(int fd, bool accepts)
{
        SSL_CTX *context = SSL_CTX_new(TLS_method());
        char path[96];
        SSL *ssl;

        file_of("node-1.crt", path);
        MUST(SSL_CTX_use_certificate_chain_file(context, path) == 1);
        file_of("node-1.key", path);
        MUST(SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM) == 1);
        SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
        SSL_CTX_set_read_ahead(context, 1);
        SSL_CTX_set_default_read_buffer_len(context, 65536);
        ssl = SSL_new(context);
        SSL_set_fd(ssl, fd);
        MUST((accepts ? SSL_accept(ssl) : SSL_connect(ssl)) == 1);
        return ssl;
}

static void bare_write(struct bare *bare, const char *data, size_t len)
{
        while (len > 0) {
                ssize_t n = bare->ssl != NULL ? SSL_write(bare->ssl, data, (int)len)
                                              : send(bare->fd, data, len, MSG_NOSIGNAL);

                MUST(n > 0);
                data += n;
                len -= (size_t)n;
        }
}

static void bare_read(struct bare *bare, char *data, size_t len)
{
        while (len > 0) {
                ssize_t n = bare->ssl != NULL ? SSL_read(bare->ssl, data, (int)len) : recv(bare->fd, data, len, 0);

                MUST(n > 0);
                data += n;
                len -= (size_t)n;
        }
}

static void bare_receiver(int listener, enum way way)
{
        struct bare bare = {.fd = accept(listener, NULL, NULL)};
        char head[ANSWER];
        uint32_t crc;
        unsigned i;

        bare.ssl = way == BARE_TLS ? bare_tls(bare.fd, true) : NULL;
        for (i = 0; i < frames_wanted; i++) {
                bare_read(&bare, head, sizeof(head));
                bare_read(&bare, buffers[i % WINDOW], FRAME);
                memcpy(&crc, head, sizeof(crc));
                MUST(way == BARE || era_crc32c(0, buffers[i % WINDOW], FRAME) == crc);
                bare_write(&bare, head, sizeof(head));
        }
        exit(0);
}

static void bare_sender(const struct sockaddr_in *to, enum way way)
{
        struct bare bare = {.fd = socket(AF_INET, SOCK_STREAM, 0)};
        char head[ANSWER] = {0};
        uint32_t crc;
        unsigned i;
        int on = 1;

        MUST(connect(bare.fd, (const struct sockaddr *)to, sizeof(*to)) == 0);
        setsockopt(bare.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        bare.ssl = way == BARE_TLS ? bare_tls(bare.fd, false) : NULL;
        for (i = 0; i < frames_wanted + WINDOW; i++) {
                if (i >= WINDOW)
                        bare_read(&bare, head, sizeof(head));
                if (i >= frames_wanted)
                        continue;
                crc = way == BARE ? 0 : era_crc32c(0, buffers[i % WINDOW], FRAME);
                memcpy(head, &crc, sizeof(crc));
                bare_write(&bare, head, sizeof(head));
                bare_write(&bare, buffers[i % WINDOW], FRAME);
        }
        close(bare.fd);
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct side {
        struct lp_loop *loop;
        struct net *net;
        struct net_transport *transport;
        unsigned received;
        sem_t ready, over;
        char address[NET_ADDRESS_MAX];
        struct net_peer *peer;
        struct net_call calls[WINDOW];
        unsigned begun, ended;
        struct lp_msg msg;
};

static enum net_bulk receiver_bulk(void *arg, struct net_request *request)
{
        struct side *side = arg;

        request->bulk[0] = (struct iovec){buffers[side->received++ % WINDOW], request->bulk_len};
        request->bulk_count = request->bulk_len > 0;
        return NET_BULK_TAKE;
}

static void receiver_request(void *arg, struct net_request *request)
{
        struct net_answer answer = {.status = 0};

        net_reply(request, &answer);
}

static void receiver_lost(void *arg, struct net_request *request)
{
}

static void side_listens(void *arg, int result, const char *address)
{
        struct side *side = arg;

        MUST(result == 0);
        snprintf(side->address, sizeof(side->address), "%s", address);
        sem_post(&side->ready);
}

static void side_log(void *arg, const char *line)
{
        if (getenv("LINKS_LOG") != NULL)
                fprintf(stderr, "%s\n", line);
}

static void *side_thread(void *arg)
{
        MUST(lp_loop_run(arg) == 0);
        return NULL;
}

static void side_begin(struct side *side, uint16_t node, bool plain)
{
        struct lp_config config = {.name = "net"};
        struct net_options options = {
                .node = node, .boot = 1, .loop_count = 1, .plain_bulk = plain, .listen = "127.0.0.1:0"};
        char ca[96], cert[96], key[96], name[32], why[200];
        struct net_tcp_options files = {ca, cert, key};
        pthread_t thread;

        memset(side, 0, sizeof(*side));
        sem_init(&side->ready, 0, 0);
        sem_init(&side->over, 0, 0);
        MUST(lp_loop_new(&config, &side->loop) == 0);
        file_of("ca.crt", ca);
        snprintf(name, sizeof(name), "node-%u.crt", node);
        file_of(name, cert);
        snprintf(name, sizeof(name), "node-%u.key", node);
        file_of(name, key);
        MUST(net_tcp_new(&files, &side->transport, why, sizeof(why)) == 0);
        options.loops = &side->loop;
        options.transport = side->transport;
        options.handler = (struct net_handler){receiver_bulk, receiver_request, receiver_lost};
        options.handler_arg = side;
        options.log = side_log;
        options.limits.lane_bytes = (WINDOW + 1) * FRAME;
        MUST(net_new(&options, &side->net) == 0);
        MUST(pthread_create(&thread, NULL, side_thread, side->loop) == 0);
        net_start(side->net, side_listens, side);
        sem_wait(&side->ready);
}

static void side_meets(struct side *side, uint16_t node, const char *address)
{
        struct net_peer_options known = {.node = node};

        snprintf(known.name, sizeof(known.name), "node-%u", node);
        snprintf(known.address, sizeof(known.address), "%s", address);
        MUST(net_peer_set(side->net, &known, &side->peer) == 0);
}

static void sender_more(struct side *side, struct net_call *call)
{
        unsigned number = (unsigned)(call - side->calls);

        memset(call, 0, sizeof(*call));
        call->peer = side->peer;
        call->link = NET_BULK_0;
        call->bulk[0] = (struct iovec){buffers[number], FRAME};
        call->bulk_count = 1;
}

static struct side sender; /* of this process */

static void sender_call_done(struct net_call *call)
{
        if (call->outcome != NET_ANSWERED) {
                fprintf(stderr, "outcome %d\n", call->outcome);
                exit(1);
        }
        sender.ended++;
        if (sender.begun < frames_wanted) {
                sender.begun++;
                sender_more(&sender, call);
                call->done = sender_call_done;
                net_call(call);
        } else if (sender.ended == frames_wanted) {
                sem_post(&sender.over);
        }
}

static void sender_start(struct lp_msg *msg)
{
        unsigned i;

        for (i = 0; i < WINDOW; i++) {
                sender.begun++;
                sender_more(&sender, &sender.calls[i]);
                sender.calls[i].done = sender_call_done;
                net_call(&sender.calls[i]);
        }
}

/* The link is opened before the clock starts. */
static void sender_warm_done(struct net_call *call)
{
        MUST(call->outcome == NET_ANSWERED);
        sem_post(&sender.ready);
}

static void sender_warm(struct lp_msg *msg)
{
        sender_more(&sender, &sender.calls[0]);
        sender.calls[0].done = sender_warm_done;
        net_call(&sender.calls[0]);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

struct figure {
        double speed, cpu;
};

static struct figure run_bare(enum way way)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int listener = socket(AF_INET, SOCK_STREAM, 0), status;
        socklen_t len = sizeof(at);
        double begun, cpu = cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN), wall;
        pid_t child;

        MUST(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 1) == 0);
        MUST(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
        child = fork();
        if (child == 0)
                bare_receiver(listener, way);
        begun = now_s();
        bare_sender(&at, way);
        wall = now_s() - begun;
        MUST(waitpid(child, &status, 0) == child && status == 0);
        close(listener);
        return (struct figure){frames_wanted / wall,
                               (cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN) - cpu) / frames_wanted * 1024};
}

/* Two children, so that each has its processor time counted, and threads of one round are not there in the next. */
static void calls_receiver(int from, int to, bool plain)
{
        struct side side;
        char byte, address[NET_ADDRESS_MAX] = "";

        side_begin(&side, 2, plain);
        side_meets(&side, 1, "127.0.0.1:1");
        snprintf(address, sizeof(address), "%s", side.address);
        MUST(write(to, address, sizeof(address)) == sizeof(address));
        MUST(read(from, &byte, 1) == 0); /* until the sender is gone */
        exit(0);
}

static void calls_sender(const char *address, int to, bool plain)
{
        double begun, wall;

        side_begin(&sender, 1, plain);
        side_meets(&sender, 2, address);
        sender.msg.run = sender_warm;
        lp_post(sender.loop, &sender.msg);
        sem_wait(&sender.ready);
        begun = now_s();
        sender.msg.run = sender_start;
        lp_post(sender.loop, &sender.msg);
        sem_wait(&sender.over);
        wall = now_s() - begun;
        MUST(write(to, &wall, sizeof(wall)) == sizeof(wall));
        exit(0);
}

static struct figure run_calls(bool plain)
{
        int up[2], down[2], result[2], status;
        char address[NET_ADDRESS_MAX];
        double cpu = cpu_s(RUSAGE_CHILDREN), wall;
        pid_t receiver, child;

        MUST(pipe(up) == 0 && pipe(down) == 0 && pipe(result) == 0);
        receiver = fork();
        if (receiver == 0) {
                close(down[1]);
                calls_receiver(down[0], up[1], plain);
        }
        MUST(read(up[0], address, sizeof(address)) == sizeof(address));
        child = fork();
        if (child == 0) {
                close(down[1]);
                calls_sender(address, result[1], plain);
        }
        MUST(read(result[0], &wall, sizeof(wall)) == sizeof(wall));
        MUST(waitpid(child, &status, 0) == child && status == 0);
        close(down[1]);
        MUST(waitpid(receiver, &status, 0) == receiver && status == 0);
        close(up[0]), close(up[1]), close(down[0]), close(result[0]), close(result[1]);
        return (struct figure){frames_wanted / wall, (cpu_s(RUSAGE_CHILDREN) - cpu) / frames_wanted * 1024};
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

static double median(double *values, unsigned count)
{
        qsort(values, count, sizeof(*values), by_value);
        return values[count / 2];
}

static void remove_files(void)
{
        static const char *const names[] = {"ca.crt", "ca.key", "node-1.crt", "node-1.key", "node-2.crt", "node-2.key"};
        char path[96];
        unsigned i;

        for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                file_of(names[i], path);
                unlink(path);
        }
        rmdir(folder);
}

int main(int argc, char **argv)
{
        unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 5, round, way, i;
        static double speed[WAYS][ROUNDS_MAX], cpu[WAYS][ROUNDS_MAX];
        char why[200];

        frames_wanted = argc > 2 ? (unsigned)atoi(argv[2]) : 4096;
        MUST(rounds > 0 && rounds <= ROUNDS_MAX && frames_wanted >= WINDOW);
        signal(SIGPIPE, SIG_IGN);
        snprintf(folder, sizeof(folder), "/tmp/millrace-links.XXXXXX");
        MUST(mkdtemp(folder) != NULL);
        MUST(net_cert_make_ca(folder, "bench", 1, why, sizeof(why)) == 0);
        MUST(net_cert_make_node(folder, "node-1", 1, why, sizeof(why)) == 0);
        MUST(net_cert_make_node(folder, "node-2", 1, why, sizeof(why)) == 0);
        for (i = 0; i <= WINDOW; i++) {
                buffers[i] = aligned_alloc(4096, FRAME);
                MUST(buffers[i] != NULL);
                memset(buffers[i], (int)i, FRAME);
        }
        for (round = 0; round < rounds; round++)
                for (way = 0; way < WAYS; way++) {
                        struct figure figure =
                                way == CALLS_PLAIN || way == CALLS_TLS ? run_calls(way == CALLS_PLAIN) : run_bare(way);

                        speed[way][round] = figure.speed;
                        cpu[way][round] = figure.cpu;
                }
        remove_files();
        printf("%-18s %10s %14s\n", "", "MiB/s", "CPU s / GiB");
        for (way = 0; way < WAYS; way++)
                printf("%-18s %10.0f %14.3f\n", way_names[way], median(speed[way], rounds), median(cpu[way], rounds));
        return 0;
}
