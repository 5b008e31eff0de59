/*
 * bare.c - what sockets alone can do at most: a loop of recv and send over epoll in each thread,
 * which answers every request head, when its body was thrown away, with 200 and SIZE bytes (none
 * for PUT). No HTTP beyond Content-Length; one request at a time on a connection.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include "listen.h"

#define RECEIVE  (256u << 10)
#define HEAD_MAX 8192u

/* owner: the thread it was given to */
struct conn {
        int fd;
        bool writes;        /* the request is a PUT */
        bool answering;     /* its head and body are read */
        size_t sent;        /* of the answer */
        uint64_t body_left; /* of the request */
        size_t head_len;
        char head[HEAD_MAX + 1];
};

struct worker {
        pthread_t thread;
        int epoll_fd;
        char *receive;
};

/* Made before the threads start, then only read. */
static char *object_bytes;
static size_t object_len;
static char get_head[80];
static const char put_head[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"0\"\r\n\r\n";

static void conn_end(struct conn *conn)
{
        close(conn->fd);
        free(conn);
}

/* 1: the answer has left; 0: it goes on when the socket takes more; -1: the peer is gone. */
static int answer(struct conn *conn)
{
        const char *head = conn->writes ? put_head : get_head;
        size_t head_len = strlen(head), total = head_len + (conn->writes ? 0 : object_len);

        while (conn->sent < total) {
                struct iovec piece[2] = {{NULL, 0}, {object_bytes, total - head_len}};
                struct msghdr message = {.msg_iov = piece, .msg_iovlen = 2};
                ssize_t n;

                if (conn->sent < head_len)
                        piece[0] = (struct iovec){(char *)head + conn->sent, head_len - conn->sent};
                else
                        piece[1] = (struct iovec){object_bytes + conn->sent - head_len, total - conn->sent};
                n = sendmsg(conn->fd, &message, MSG_NOSIGNAL);
                if (n < 0 && errno == EAGAIN)
                        return 0;
                if (n < 0 && errno != EINTR)
                        return -1;
                if (n > 0)
                        conn->sent += (size_t)n;
        }
        conn->sent = 0;
        conn->answering = false;
        return 1;
}

/* Takes bytes of a request. 0, or -1: no request that is known here. */
static int take(struct conn *conn, const char *data, size_t len)
{
        const char *end, *length;

        if (conn->body_left > 0) {
                if (len > conn->body_left)
                        return -1;
                conn->body_left -= len;
                conn->answering = conn->body_left == 0;
                return 0;
        }
        while (len > 0) {
                if (conn->head_len == HEAD_MAX)
                        return -1;
                conn->head[conn->head_len++] = *data++;
                len--;
                if (data[-1] != '\n' || conn->head_len < 4 ||
                    memcmp(conn->head + conn->head_len - 4, "\r\n\r\n", 4) != 0)
                        continue;
                conn->head[conn->head_len] = '\0';
                end = conn->head;
                length = strcasestr(end, "\r\nContent-Length:");
                conn->body_left = length != NULL ? strtoull(length + 17, NULL, 10) : 0;
                conn->writes = end[0] == 'P';
                conn->head_len = 0;
                if (len > conn->body_left)
                        return -1;
                conn->body_left -= len;
                conn->answering = conn->body_left == 0;
                return 0;
        }
        return 0;
}

/* 0, or -1: the connection has ended. */
static int on_event(struct worker *worker, struct conn *conn)
{
        for (;;) {
                ssize_t n;

                if (conn->answering) {
                        int rv = answer(conn);

                        if (rv <= 0)
                                return rv;
                }
                n = recv(conn->fd, worker->receive, RECEIVE, 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return 0;
                if (n <= 0 || take(conn, worker->receive, (size_t)n) != 0)
                        return -1;
        }
}

static void *serve(void *arg)
{
        struct worker *worker = arg;
        struct epoll_event events[256];

        for (;;) {
                int n = epoll_wait(worker->epoll_fd, events, 256, -1);

                for (int i = 0; i < n; i++)
                        if (on_event(worker, events[i].data.ptr) != 0)
                                conn_end(events[i].data.ptr);
        }
        return NULL;
}

static int worker_start(struct worker *worker)
{
        worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        worker->receive = malloc(RECEIVE);
        if (worker->epoll_fd < 0 || worker->receive == NULL)
                return -1;
        return pthread_create(&worker->thread, NULL, serve, worker) == 0 ? 0 : -1;
}

static int hand_over(struct worker *worker, int fd)
{
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
        struct conn *conn = calloc(1, sizeof(*conn));

        if (conn == NULL)
                return -1;
        conn->fd = fd;
        event.data.ptr = conn;
        if (epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
                return 0;
        free(conn);
        return -1;
}

int main(int argc, char **argv)
{
        static struct worker workers[LIMIT_THREADS_MAX];
        struct limit_options options;
        int listener, fd;

        if (limit_options_parse(argc, argv, &options) != 0)
                return 2;
        object_len = options.size;
        object_bytes = calloc(1, object_len + 1);
        snprintf(get_head, sizeof(get_head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", object_len);
        for (unsigned i = 0; i < options.threads; i++)
                if (object_bytes == NULL || worker_start(&workers[i]) != 0)
                        return 1;
        listener = limit_listen();
        for (unsigned turn = 0; listener >= 0 && (fd = limit_accept(listener)) >= 0; turn++)
                if (hand_over(&workers[turn % options.threads], fd) != 0)
                        break;
        fprintf(stderr, "bare: %s\n", strerror(errno));
        return 1;
}
