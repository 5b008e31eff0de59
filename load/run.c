/*
 * run.c - one phase against an endpoint: what it needs, when operations begin, who looks on. Called
 * by whoever wants a load, on the thread that is the run's. conn.c moves the bytes.
 */
#include "load/run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "load_content.h"
#include "load/load_tls.h"

#define PROBE_MS   3000
#define PROBES_MAX 8u
#define ANSWER_S   60 /* a request has failed whose bytes nobody takes, or that nobody answers, for so long */

uint64_t load_now_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double load_own_cpu_s(void)
{
        struct rusage usage;

        getrusage(RUSAGE_SELF, &usage);
        return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* ---- when operations begin ------------------------------------------------------------------- */

static void load_run_begin(struct load_run *run, struct load_conn *conn, uint64_t since_ns)
{
        conn->busy = true;
        run->busy_count++;
        conn->since_ns = since_ns;
        load_send_request(run, conn, true);
}

static bool load_run_more_to_do(struct load_run *run, uint64_t now)
{
        if (run->settings->count > 0 && run->issued >= run->settings->count)
                run->over = true;
        if (run->end_ns != 0 && now >= run->end_ns)
                run->over = true;
        return !run->over;
}

/*
 * When the next request may begin, by the rate and the pace, the first one with the clock; 0: at
 * once.
 */
static uint64_t load_run_due_ns(const struct load_run *run)
{
        double rate_s = run->settings->rate > 0 ? (double)run->issued / run->settings->rate : 0;
        double pace_s = run->settings->pace > 0 ? (double)run->paced / (double)run->settings->pace : 0;
        double seconds = rate_s > pace_s ? rate_s : pace_s;

        if (run->settings->rate <= 0 && run->settings->pace == 0)
                return 0;
        return run->start_ns + (uint64_t)(seconds * 1e9);
}

/*
 * Uploads that wait for the pace go on before new ones begin, and to their end when the time is
 * over.
 */
static void go_on_with_what_is_due(struct load_run *run)
{
        while (run->paused_count > 0 && load_run_due_ns(run) <= load_now_ns()) {
                struct load_conn *conn = run->paused[run->paused_first];

                run->paused_first = (run->paused_first + 1) % run->settings->connections;
                run->paused_count--;
                conn->paused = false;
                load_send_request(run, conn, false);
        }
}

static void load_run_begin_due(struct load_run *run)
{
        unsigned budget = run->idle_count; /* those that fail at once come back: not in this round */

        while (budget > 0 && run->idle_count > 0) {
                uint64_t now = load_now_ns();
                uint64_t since = now;

                if (!load_run_more_to_do(run, now))
                        return;
                if (load_run_due_ns(run) > now)
                        return;
                if (run->settings->rate > 0)
                        since = load_run_due_ns(run);
                budget--;
                load_run_begin(run, run->idle[--run->idle_count], since);
        }
}

static void fail_the_overdue(struct load_run *run)
{
        uint64_t now = load_now_ns();

        for (unsigned i = 0; i < run->settings->connections; i++)
                if (run->conns[i].busy && !run->conns[i].paused &&
                    now - run->conns[i].alive_ns > ANSWER_S * 1000000000ull)
                        load_fail(run, &run->conns[i], LOAD_FAIL_TIMEOUT, "no answer in %d s", ANSWER_S);
}

/* How long nothing may happen: until an operation is due, or somebody wants to look. */
static struct timespec load_run_longest_wait(const struct load_run *run)
{
        uint64_t now = load_now_ns(), until = now + 1000000000u;

        if (run->moment_ns < until)
                until = run->moment_ns;
        if ((run->paused_count > 0 || (run->idle_count > 0 && !run->over)) && load_run_due_ns(run) < until)
                until = load_run_due_ns(run);
        return (struct timespec){.tv_nsec =
                                         until > now ? (long)(until - now < 999999999u ? until - now : 999999999u) : 0};
}

/* What is done now and then. */
static void load_run_check_time(struct load_run *run, bool interrupted)
{
        const struct load_watch *watch = run->watch;
        uint64_t now = load_now_ns();

        if (now >= run->second_ns) {
                run->second_ns = now + 1000000000u;
                fail_the_overdue(run);
        }
        if (now < run->moment_ns && !interrupted)
                return;
        run->moment_ns = now + (watch->every_ms > 0 ? watch->every_ms : 1000) * 1000000ull;
        run->result->seconds = (double)(now - run->start_ns) / 1e9;
        if (watch->moment != NULL)
                watch->moment(watch->arg, run->result);
        run->result->stopped = watch->stop != NULL && watch->stop(watch->arg);
}

static void wait_for_events(struct load_run *run)
{
        struct epoll_event events[256];
        struct timespec wait = load_run_longest_wait(run);
        int n = epoll_pwait2(run->epoll_fd, events, 256, &wait, NULL);
        bool interrupted = n < 0 && errno == EINTR;

        for (int i = 0; i < n; i++)
                load_conn_event(run, events[i].data.ptr, events[i].events);
        load_run_check_time(run, interrupted);
}

static void load_run_loop(struct load_run *run)
{
        double cpu = load_own_cpu_s();

        run->start_ns = load_now_ns();
        run->last_ns = run->start_ns;
        if (run->settings->duration_s > 0)
                run->end_ns = run->start_ns + (uint64_t)(run->settings->duration_s * 1e9);
        while (!run->result->stopped) {
                go_on_with_what_is_due(run);
                load_run_begin_due(run);
                if (!load_run_more_to_do(run, load_now_ns()) && run->busy_count == 0)
                        break;
                wait_for_events(run);
        }
        run->result->seconds = (double)(run->last_ns - run->start_ns) / 1e9;
        run->result->cpu_s = load_own_cpu_s() - cpu;
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* Whether somebody listens there. */
static bool answers(const struct addrinfo *address)
{
        int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = -1;
        struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
        socklen_t len = sizeof(error);

        if (fd < 0)
                return false;
        if (connect(fd, address->ai_addr, address->ai_addrlen) == 0)
                error = 0;
        else if (errno == EINPROGRESS && poll(&poll_fd, 1, PROBE_MS) == 1)
                (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
        close(fd);
        return error == 0;
}

/*
 * The first address of the host at which somebody listens: "localhost" has two, and many a server
 * one of them. Where nobody does, the first.
 */
static struct addrinfo *choose_address(struct addrinfo *addresses)
{
        unsigned tried = 0;

        if (addresses->ai_next == NULL)
                return addresses;
        for (struct addrinfo *at = addresses; at != NULL && tried < PROBES_MAX; at = at->ai_next, tried++) {
                if (answers(at))
                        return at;
        }
        return addresses;
}

static int find_servers(struct load_run *run)
{
        const struct load_settings *o = run->settings;
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
        char why[300];
        int rv;

        for (unsigned i = 0; i < o->servers; i++) {
                rv = getaddrinfo(o->server[i].host, o->server[i].port, &hints, &run->addresses[i]);
                if (rv != 0) {
                        load_tell(run, "%s: %s", o->server[i].host, gai_strerror(rv));
                        return -EINVAL;
                }
                run->address[i] = choose_address(run->addresses[i]);
        }
        if (!o->tls)
                return 0;
        rv = load_tls_new(o, &run->tls, why, sizeof(why));
        if (rv != 0)
                load_tell(run, "TLS: %s", why);
        return rv;
}

static int set_up_connections(struct load_run *run)
{
        const struct load_settings *o = run->settings;

        run->conns = calloc(o->connections, sizeof(*run->conns));
        run->idle = calloc(o->connections, sizeof(struct load_conn *));
        run->paused = calloc(o->connections, sizeof(struct load_conn *));
        if (run->conns == NULL || run->idle == NULL || run->paused == NULL)
                return -ENOMEM;
        for (unsigned i = 0; i < o->connections; i++) {
                run->conns[i].fd = -1;
                run->conns[i].server = i % o->servers;
        }
        for (unsigned i = o->connections; i-- > 0;) {
                struct load_conn *conn = &run->conns[i];

                run->idle[run->idle_count++] = conn;
                if (o->phase != LOAD_MULTIPART)
                        continue;
                conn->parts = (o->size + o->part_size - 1) / o->part_size;
                conn->etags = calloc(conn->parts, sizeof(*conn->etags));
                conn->document = malloc(conn->parts * (LOAD_ETAG_SIZE + 64) + 64);
                if (conn->etags == NULL || conn->document == NULL)
                        return -ENOMEM;
        }
        return 0;
}

static int load_run_set_up(struct load_run *run)
{
        struct timespec now;
        int rv = find_servers(run);

        if (rv != 0)
                return rv;
        clock_gettime(CLOCK_REALTIME, &now);
        load_signer_init(&run->signer, run->settings, (int64_t)now.tv_sec * 1000);
        run->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        run->pattern = load_pattern_new();
        run->receive = malloc(LOAD_RECEIVE);
        rv = set_up_connections(run);
        if (run->epoll_fd < 0 || run->pattern == NULL || run->receive == NULL)
                rv = -ENOMEM;
        if (rv == 0)
                rv = load_make_ready(run);
        if (rv != 0)
                load_tell(run, "cannot start: %s", strerror(-rv));
        return rv;
}

static void load_run_tear_down(struct load_run *run)
{
        for (unsigned i = 0; run->conns != NULL && i < run->settings->connections; i++) {
                load_conn_close(&run->conns[i]);
                free(run->conns[i].etags);
                free(run->conns[i].document);
        }
        for (uint64_t i = 0; i < run->ready_count; i++)
                free(run->ready[i]);
        free(run->ready);
        free(run->conns);
        free(run->idle);
        free(run->paused);
        free(run->pattern);
        free(run->receive);
        if (run->epoll_fd >= 0)
                close(run->epoll_fd);
        for (unsigned i = 0; i < LOAD_SERVERS_MAX; i++)
                if (run->addresses[i] != NULL)
                        freeaddrinfo(run->addresses[i]);
        load_tls_free(run->tls);
}

int load_run(const struct load_settings *settings, const struct load_watch *watch, struct load_result *out)
{
        struct load_run *run = calloc(1, sizeof(*run));
        int rv;

        if (run == NULL)
                return -ENOMEM;
        memset(out, 0, sizeof(*out));
        run->settings = settings;
        run->watch = watch;
        run->result = out;
        run->epoll_fd = -1;
        rv = load_run_set_up(run);
        if (rv == 0)
                load_run_loop(run);
        load_run_tear_down(run);
        explicit_bzero(&run->signer, sizeof(run->signer));
        free(run);
        return rv;
}
