/*
 * etcd_fixture.h - a loop on a thread that asks and waits, and members of a real etcd on loopback,
 * with data in a temporary folder.
 */
#ifndef MILLRACE_TEST_ETCD_FIXTURE_H
#define MILLRACE_TEST_ETCD_FIXTURE_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cluster_etcd.h"
#include "tests/lib/must.h"
#include "tests/lib/wait.h"

#define TEXT(literal) ((struct cl_bytes){"" literal, sizeof(literal) - 1})
#define MS            1000000ull

static inline struct cl_bytes bytes_of(const char *text)
{
        return (struct cl_bytes){text, strlen(text)};
}

static inline bool bytes_are(struct cl_bytes bytes, const char *text)
{
        return bytes.len == strlen(text) && memcmp(bytes.data, text, bytes.len) == 0;
}

/* ---- a loop ---------------------------------------------------------------------------------- */

static struct lp_loop *the_loop;
static pthread_t loop_thread;

static inline void *loop_thread_main(void *arg)
{
        MUST(lp_loop_run(the_loop) == 0);
        return NULL;
}

static inline void wait_for(sem_t *sem)
{
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += WAIT_MOST;
        MUST(sem_timedwait(sem, &until) == 0);
}

static sem_t loop_runs;

static inline void loop_says(struct lp_msg *msg)
{
        sem_post(&loop_runs);
}

static inline int loop_begin(void **state)
{
        struct lp_config config = {0};
        struct lp_msg msg = {.run = loop_says};

        signal(SIGPIPE, SIG_IGN);
        sem_init(&loop_runs, 0, 0);
        MUST(lp_loop_new(&config, &the_loop) == 0);
        MUST(pthread_create(&loop_thread, NULL, loop_thread_main, NULL) == 0);
        lp_post(the_loop, &msg);
        wait_for(&loop_runs);
        return 0;
}

static inline int loop_finish(void **state)
{
        lp_loop_stop(the_loop);
        pthread_join(loop_thread, NULL);
        lp_loop_free(the_loop);
        return 0;
}

/* ---- asking ---------------------------------------------------------------------------------- */

struct asked {
        struct lp_msg msg;
        struct cl_etcd *etcd;
        struct cl_request request;
        struct cl_cas cas;
        struct cl_answer *answer;
        sem_t done;
        bool in_call, inside; /* done() came inside the call: never */
};

static inline void asked_done(struct cl_request *request)
{
        struct asked *asked = container_of(request, struct asked, request);

        MUST(lp_self() == the_loop && !asked->in_call);
        MUST((request->answer != NULL) == (request->outcome == CL_DONE));
        MUST((*request->text == '\0') == (request->outcome == CL_DONE));
        asked->answer = request->answer;
        if (asked->answer != NULL)
                cl_answer_hold(asked->answer);
        sem_post(&asked->done);
}

static inline void asked_submit(struct lp_msg *msg)
{
        struct asked *asked = container_of(msg, struct asked, msg);

        asked->in_call = true;
        cl_etcd_submit(asked->etcd, &asked->request);
        asked->in_call = false;
}

/* Begins asked->request, which the caller has filled. */
static inline void ask_begin(struct asked *asked, struct cl_etcd *etcd)
{
        asked->etcd = etcd;
        asked->msg.run = asked_submit;
        asked->request.done = asked_done;
        sem_init(&asked->done, 0, 0);
        lp_post(the_loop, &asked->msg);
}

static inline enum cl_outcome ask_wait(struct asked *asked)
{
        wait_for(&asked->done);
        return asked->request.outcome;
}

static inline enum cl_outcome ask(struct asked *asked, struct cl_etcd *etcd)
{
        ask_begin(asked, etcd);
        return ask_wait(asked);
}

static inline void asked_free(struct asked *asked)
{
        cl_answer_free(asked->answer);
        memset(asked, 0, sizeof(*asked));
}

static inline void ask_range(struct asked *asked, const char *key, bool prefix)
{
        asked_free(asked);
        asked->request.kind = CL_RANGE;
        asked->request.key = bytes_of(key);
        asked->request.prefix = prefix;
}

/* A transaction that puts one key, whatever there is. */
static inline void ask_put(struct asked *asked, struct cl_op *op, const char *key, const char *value)
{
        asked_free(asked);
        *op = (struct cl_op){.kind = CL_OP_PUT, .key = bytes_of(key), .value = bytes_of(value)};
        asked->request.kind = CL_TXN;
        asked->request.success = op;
        asked->request.success_count = 1;
}

static inline void put_now(struct cl_etcd *etcd, const char *key, const char *value)
{
        struct asked asked = {0};
        struct cl_op op;

        ask_put(&asked, &op, key, value);
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        asked_free(&asked);
}

static inline void cas_asked_done(struct cl_cas *cas)
{
        struct asked *asked = container_of(cas, struct asked, cas);

        MUST(lp_self() == the_loop && !asked->in_call);
        sem_post(&asked->done);
}

static inline void cas_submit(struct lp_msg *msg)
{
        struct asked *asked = container_of(msg, struct asked, msg);

        asked->in_call = true;
        cl_cas(&asked->cas);
        asked->in_call = false;
}

static inline void cas_begin(struct asked *asked, struct cl_etcd *etcd, const char *key, int64_t mod, const char *value,
                             unsigned ms)
{
        memset(asked, 0, sizeof(*asked));
        asked->cas.etcd = etcd;
        asked->cas.key = bytes_of(key);
        asked->cas.mod_revision = mod;
        asked->cas.value = bytes_of(value);
        asked->cas.deadline = lp_clock() + ms * MS;
        asked->cas.done = cas_asked_done;
        asked->msg.run = cas_submit;
        sem_init(&asked->done, 0, 0);
        lp_post(the_loop, &asked->msg);
}

static inline enum cl_cas_outcome cas_wait(struct asked *asked)
{
        wait_for(&asked->done);
        return asked->cas.outcome;
}

static inline enum cl_cas_outcome cas_now(struct asked *asked, struct cl_etcd *etcd, const char *key, int64_t mod,
                                          const char *value, unsigned ms)
{
        cas_begin(asked, etcd, key, mod, value, ms);
        return cas_wait(asked);
}

/* ---- clients --------------------------------------------------------------------------------- */

/* A client of ports on loopback; options may be filled before. */
static inline struct cl_etcd *client_with(struct cl_etcd_options *options, const char *scheme, const uint16_t *ports,
                                          unsigned count)
{
        char urls[CL_ENDPOINTS_MAX][64], why[CL_TEXT_MAX];
        const char *endpoints[CL_ENDPOINTS_MAX];
        struct cl_etcd *etcd = NULL;
        unsigned i;

        for (i = 0; i < count; i++) {
                snprintf(urls[i], sizeof(urls[i]), "%s://127.0.0.1:%u", scheme, ports[i]);
                endpoints[i] = urls[i];
        }
        options->endpoints = endpoints;
        options->endpoint_count = count;
        if (cl_etcd_new(options, &etcd, why, sizeof(why)) != 0) {
                fprintf(stderr, "%s\n", why);
                abort();
        }
        return etcd;
}

static inline struct cl_etcd *client_of_port(uint16_t port)
{
        struct cl_etcd_options options = {0};

        return client_with(&options, "http", &port, 1);
}

/* A port that nobody listens on now, and that the kernel gives to nobody by itself. */
static inline uint16_t free_port(void)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        uint16_t port;
        unsigned i;

        for (i = 0; i < 100; i++) {
                int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rv;

                MUST(fd >= 0);
                lp_random(&port, sizeof(port));
                port = (uint16_t)(15000 + port % 17000);
                at.sin_port = htons(port);
                rv = bind(fd, (struct sockaddr *)&at, sizeof(at));
                close(fd);
                if (rv == 0)
                        return port;
        }
        abort();
}

/* ---- a real etcd ----------------------------------------------------------------------------- */

#define MEMBERS_MAX 3u
#define ARGS_MAX    40u

struct etcd_member {
        pid_t pid; /* 0: does not run */
        uint16_t port, peer_port;
        char folder[96];
};

struct etcd_cluster {
        char folder[64];
        unsigned count;
        struct etcd_member members[MEMBERS_MAX];
        const char *scheme;
        const char *extra[16]; /* arguments */
        unsigned extra_count;
};

static inline int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
        return remove(path);
}

static inline void remove_folder(const char *path)
{
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void member_exec(const struct etcd_cluster *cluster, unsigned n, const char *initial)
{
        const struct etcd_member *member = &cluster->members[n];
        char name[16], client[64], peer[64], log[128];
        const char *args[ARGS_MAX] = {"etcd",         "--name",
                                      name,           "--data-dir",
                                      member->folder, "--listen-client-urls",
                                      client,         "--advertise-client-urls",
                                      client,         "--listen-peer-urls",
                                      peer,           "--initial-advertise-peer-urls",
                                      peer,           "--initial-cluster",
                                      initial,        "--unsafe-no-fsync",
                                      "--log-level",  "error",
                                      "--logger",     "zap"};
        unsigned count = 20, i;
        int fd;

        snprintf(name, sizeof(name), "m%u", n);
        snprintf(client, sizeof(client), "%s://127.0.0.1:%u", cluster->scheme, member->port);
        snprintf(peer, sizeof(peer), "http://127.0.0.1:%u", member->peer_port);
        snprintf(log, sizeof(log), "%s.log", member->folder);
        for (i = 0; i < cluster->extra_count; i++)
                args[count++] = cluster->extra[i];
        fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd >= 0) {
                dup2(fd, 1);
                dup2(fd, 2);
        }
        setenv("GOMAXPROCS", "2", 1);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* where a test fails */
        execvp("etcd", (char *const *)args);
        perror("etcd");
        _exit(127);
}

static inline void member_start(struct etcd_cluster *cluster, unsigned n)
{
        char initial[256] = "";
        unsigned i;
        pid_t pid;

        for (i = 0; i < cluster->count; i++)
                snprintf(initial + strlen(initial), sizeof(initial) - strlen(initial), "%sm%u=http://127.0.0.1:%u",
                         i > 0 ? "," : "", i, cluster->members[i].peer_port);
        pid = fork();
        MUST(pid >= 0);
        if (pid == 0)
                member_exec(cluster, n, initial);
        cluster->members[n].pid = pid;
}

static inline void member_kill(struct etcd_cluster *cluster, unsigned n)
{
        if (cluster->members[n].pid == 0)
                return;
        kill(cluster->members[n].pid, SIGKILL);
        waitpid(cluster->members[n].pid, NULL, 0);
        cluster->members[n].pid = 0;
}

/* Until all its threads have stopped. */
static inline void member_stop(struct etcd_cluster *cluster, unsigned n)
{
        int status = 0;

        kill(cluster->members[n].pid, SIGSTOP);
        MUST(waitpid(cluster->members[n].pid, &status, WUNTRACED) == cluster->members[n].pid && WIFSTOPPED(status));
}

static inline void member_continue(struct etcd_cluster *cluster, unsigned n)
{
        kill(cluster->members[n].pid, SIGCONT);
}

static inline struct cl_etcd *cluster_client(const struct etcd_cluster *cluster, struct cl_etcd_options *options)
{
        uint16_t ports[MEMBERS_MAX];
        unsigned i;

        for (i = 0; i < cluster->count; i++)
                ports[i] = cluster->members[i].port;
        return client_with(options, cluster->scheme, ports, cluster->count);
}

/* Until it answers a linearizable read, or refuses it for want of a login. */
static inline void cluster_wait(const struct etcd_cluster *cluster, const struct cl_etcd_options *like)
{
        struct cl_etcd_options options = *like;
        struct cl_etcd *etcd;
        struct asked asked = {0};

        memset(&options.seen, 0, sizeof(options.seen));
        options.violated = NULL;
        etcd = cluster_client(cluster, &options);
        ask_range(&asked, "ready", false);
        asked.request.deadline = lp_clock() + 60000 * MS;
        ask(&asked, etcd);
        if (asked.request.outcome != CL_DONE && asked.request.error != -EREMOTEIO) {
                fprintf(stderr, "etcd does not start: %s\n", asked.request.text);
                abort();
        }
        asked_free(&asked);
        cl_etcd_free(etcd);
}

static inline void cluster_make(struct etcd_cluster *cluster, unsigned count)
{
        const char *tmp = getenv("TMPDIR");
        unsigned i;

        memset(cluster, 0, sizeof(*cluster));
        snprintf(cluster->folder, sizeof(cluster->folder), "%.40s/millrace-etcd.XXXXXX", tmp != NULL ? tmp : "/tmp");
        MUST(mkdtemp(cluster->folder) != NULL);
        cluster->count = count;
        cluster->scheme = "http";
        for (i = 0; i < count; i++) {
                cluster->members[i].port = free_port();
                cluster->members[i].peer_port = free_port();
                snprintf(cluster->members[i].folder, sizeof(cluster->members[i].folder), "%s/m%u", cluster->folder, i);
        }
}

static inline void cluster_start(struct etcd_cluster *cluster)
{
        struct cl_etcd_options options = {0};
        unsigned i;

        for (i = 0; i < cluster->count; i++)
                member_start(cluster, i);
        cluster_wait(cluster, &options);
}

static inline void cluster_end(struct etcd_cluster *cluster)
{
        unsigned i;

        for (i = 0; i < cluster->count; i++)
                member_kill(cluster, i);
        remove_folder(cluster->folder);
}

#endif
