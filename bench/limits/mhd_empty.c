/*
 * mhd_empty.c - what libmicrohttpd can do at most: requests answered from memory by a handler that
 * does nothing. As in millraced each thread runs a daemon of its own from outside, over epoll, and
 * gets connections handed to it.
 *
 *   GET, HEAD   200 with SIZE bytes, or 206 with what Range asks for (up to 1 MiB), or for a bucket a page of ENTRIES
 *   PUT, POST   200 when the body was thrown away
 *   DELETE      204
 */
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>

#include "listen.h"

#define POOL_BYTES        (32u << 10) /* as millraced has them */
#define CONNECTIONS_LIMIT 20000u
#define RANGE_MAX         (1u << 20)

/* owner: its thread; hand_over is written by the main thread */
struct worker {
        pthread_t thread;
        struct MHD_Daemon *daemon;
        struct MHD_Response *object, *page, *none, *range;
        size_t range_len; /* of range's body */
        int hand_over[2]; /* a pipe of descriptors */
};

static char *object_bytes;

static struct MHD_Response *response_of(void *bytes, size_t len)
{
        return MHD_create_response_from_buffer(len, bytes, MHD_RESPMEM_PERSISTENT);
}

/* "<Contents>" so many times, each with about what an entry of a real page has. */
static struct MHD_Response *page_of(unsigned entries)
{
        static const char entry[] =
                "<Contents><Key>s/000000000000</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
                "<ETag>&quot;00000000000000000000000000000000&quot;</ETag><Size>4096</Size>"
                "<StorageClass>STANDARD</StorageClass></Contents>";
        size_t len = sizeof(entry) - 1;
        char *text = malloc(len * entries + 1);

        if (text == NULL)
                return NULL;
        for (unsigned i = 0; i < entries; i++)
                memcpy(text + i * len, entry, len);
        return response_of(text, len * entries);
}

/* The length of "bytes=FROM-TO"; 0: not that. */
static size_t range_len(const char *range)
{
        unsigned long long from, to;

        if (range == NULL || sscanf(range, "bytes=%llu-%llu", &from, &to) != 2 || to < from || to - from >= RANGE_MAX)
                return 0;
        return (size_t)(to - from) + 1;
}

static enum MHD_Result answer_range(struct worker *worker, struct MHD_Connection *connection, size_t len)
{
        static char zeroes[RANGE_MAX];

        if (len != worker->range_len) {
                if (worker->range != NULL)
                        MHD_destroy_response(worker->range);
                worker->range = response_of(zeroes, len);
                worker->range_len = len;
        }
        return MHD_queue_response(connection, 206, worker->range);
}

/* A bucket's path has no second slash. */
static bool names_bucket(const char *url)
{
        return url[0] == '/' && strchr(url + 1, '/') == NULL;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *data_len, void **request)
{
        struct worker *worker = arg;
        size_t len;

        if (*request == NULL) { /* the head alone: answering now would close the connection */
                *request = worker;
                return MHD_YES;
        }
        if (*data_len > 0) {
                *data_len = 0;
                return MHD_YES;
        }
        if (strcmp(method, "DELETE") == 0)
                return MHD_queue_response(connection, 204, worker->none);
        if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
                return MHD_queue_response(connection, 200, worker->none);
        if (names_bucket(url))
                return MHD_queue_response(connection, 200, worker->page);
        len = range_len(MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Range"));
        if (len > 0)
                return answer_range(worker, connection, len);
        return MHD_queue_response(connection, 200, worker->object);
}

static void take_connections(struct worker *worker)
{
        struct sockaddr_in nobody = {.sin_family = AF_INET};
        int fds[64];
        ssize_t n = read(worker->hand_over[0], fds, sizeof(fds));

        for (ssize_t i = 0; i < n / (ssize_t)sizeof(int); i++)
                MHD_add_connection(worker->daemon, fds[i], (const struct sockaddr *)&nobody, sizeof(nobody));
}

static void *serve(void *arg)
{
        struct worker *worker = arg;
        const union MHD_DaemonInfo *info = MHD_get_daemon_info(worker->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        struct pollfd watched[2] = {{.fd = info->epoll_fd, .events = POLLIN},
                                    {.fd = worker->hand_over[0], .events = POLLIN}};

        for (;;) {
                MHD_UNSIGNED_LONG_LONG wait;
                int ms = MHD_get_timeout(worker->daemon, &wait) == MHD_YES && wait < 1000 ? (int)wait : 1000;

                if (poll(watched, 2, ms) < 0 && errno != EINTR)
                        return NULL;
                if (watched[1].revents != 0)
                        take_connections(worker);
                MHD_run(worker->daemon);
        }
}

static int worker_start(struct worker *worker, const struct limit_options *options)
{
        if (pipe(worker->hand_over) != 0)
                return -1;
        worker->object = response_of(object_bytes, options->size);
        worker->page = page_of(options->entries);
        worker->none = response_of(object_bytes, 0);
        worker->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, on_request, worker,
                                          MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
                                          MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_LIMIT, MHD_OPTION_END);
        if (worker->object == NULL || worker->page == NULL || worker->none == NULL || worker->daemon == NULL)
                return -1;
        return pthread_create(&worker->thread, NULL, serve, worker) == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
        static struct worker workers[LIMIT_THREADS_MAX];
        struct limit_options options;
        int listener, fd;

        if (limit_options_parse(argc, argv, &options) != 0)
                return 2;
        object_bytes = calloc(1, options.size + 1);
        if (object_bytes == NULL)
                return 1;
        for (unsigned i = 0; i < options.threads; i++)
                if (worker_start(&workers[i], &options) != 0)
                        return 1;
        listener = limit_listen();
        for (unsigned turn = 0; listener >= 0 && (fd = limit_accept(listener)) >= 0; turn++)
                if (write(workers[turn % options.threads].hand_over[1], &fd, sizeof(fd)) != sizeof(fd))
                        break;
        fprintf(stderr, "mhd_empty: %s\n", strerror(errno));
        return 1;
}
