/*
 * fake_s3.h - an HTTP server inside a test: a function of the test answers each request, and may
 * answer wrongly, late, in part, or not at all. One thread accepts, one serves each connection; the
 * test's function runs under a lock.
 */
#ifndef TESTS_FAKE_S3_H
#define TESTS_FAKE_S3_H

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "client.h"

#define FAKE_CONNECTIONS 512
#define FAKE_HEAD_MAX    32768

struct fake_request {
        char method[16], target[8192];
        const char *head; /* the whole of it */
        char *body;
        size_t body_len;
        unsigned number; /* 1 is the first request of all */
};

struct fake_reply {
        int status;         /* 0: hang up without an answer */
        char headers[4096]; /* lines, each ending in \r\n */
        char *body;         /* malloc'ed, or NULL */
        size_t body_len;
        size_t send; /* bytes of the body to send before hanging up; SIZE_MAX: all, and keep the connection */
};

struct fake_s3 {
        int listen_fd;
        char url[64];
        void (*serve)(void *arg, const struct fake_request *request, struct fake_reply *reply);
        void *arg;
        pthread_t acceptor, thread[FAKE_CONNECTIONS];
        pthread_mutex_t lock;
        int fd[FAKE_CONNECTIONS]; /* guarded by lock, as is what follows */
        unsigned connections, requests;
};

struct fake_connection {
        struct fake_s3 *fake;
        int fd;
};

static inline bool fake_send_all(int fd, const char *data, size_t len)
{
        while (len > 0) {
                ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

                if (n <= 0)
                        return false;
                data += n;
                len -= (size_t)n;
        }
        return true;
}

/* The value of a header, copied; "" where there is none. */
static inline const char *fake_header(const struct fake_request *request, const char *name, char out[512])
{
        size_t len = strlen(name);

        out[0] = '\0';
        for (const char *line = strstr(request->head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
                line += 2;
                if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
                        line += len + 1 + strspn(line + len + 1, " ");
                        snprintf(out, 512, "%.*s", (int)strcspn(line, "\r"), line);
                        break;
                }
        }
        return out;
}

static inline bool fake_read_body(int fd, struct fake_request *request, const char *rest, size_t rest_len)
{
        char length[512];

        request->body_len = strtoull(fake_header(request, "Content-Length", length), NULL, 10);
        request->body = malloc(request->body_len + 1);
        if (rest_len > request->body_len)
                rest_len = request->body_len;
        memcpy(request->body, rest, rest_len);
        if (strcasecmp(fake_header(request, "Expect", length), "100-continue") == 0)
                fake_send_all(fd, "HTTP/1.1 100 Continue\r\n\r\n", 25);
        while (rest_len < request->body_len) {
                ssize_t n = recv(fd, request->body + rest_len, request->body_len - rest_len, 0);

                if (n <= 0)
                        return false;
                rest_len += (size_t)n;
        }
        request->body[rest_len] = '\0';
        return true;
}

static inline bool fake_answer(struct fake_s3 *fake, int fd, struct fake_request *request)
{
        struct fake_reply reply = {.status = 200, .send = SIZE_MAX};
        char head[8192];
        bool keep;
        int n;

        pthread_mutex_lock(&fake->lock);
        request->number = ++fake->requests;
        fake->serve(fake->arg, request, &reply);
        pthread_mutex_unlock(&fake->lock);
        if (reply.status == 0) {
                free(reply.body);
                return false;
        }
        n = snprintf(head, sizeof(head), "HTTP/1.1 %d X\r\nDate: Fri, 24 May 2013 00:00:00 GMT\r\n%s%s%zu\r\n\r\n",
                     reply.status, reply.headers, "Content-Length: ", reply.body_len);
        keep = fake_send_all(fd, head, (size_t)n) && reply.send == SIZE_MAX;
        if (strcmp(request->method, "HEAD") != 0)
                keep = fake_send_all(fd, reply.body, reply.send < reply.body_len ? reply.send : reply.body_len) && keep;
        free(reply.body);
        return keep;
}

static inline void *fake_connection_main(void *arg)
{
        struct fake_connection *connection = arg;
        char *head = malloc(FAKE_HEAD_MAX + 1);
        size_t len = 0;
        bool keep = true;

        while (keep) {
                struct fake_request request = {.head = head};
                char *end = NULL;

                while (end == NULL && len < FAKE_HEAD_MAX) {
                        ssize_t n = recv(connection->fd, head + len, FAKE_HEAD_MAX - len, 0);

                        if (n <= 0)
                                break;
                        len += (size_t)n;
                        head[len] = '\0';
                        end = strstr(head, "\r\n\r\n");
                }
                if (end == NULL)
                        break;
                end[2] = '\0';
                sscanf(head, "%15s %8191s", request.method, request.target);
                keep = fake_read_body(connection->fd, &request, end + 4, len - (size_t)(end + 4 - head));
                if (keep)
                        keep = fake_answer(connection->fake, connection->fd, &request);
                free(request.body);
                len = 0;
        }
        shutdown(connection->fd, SHUT_RDWR);
        free(head);
        free(connection);
        return NULL;
}

static inline void *fake_accept_main(void *arg)
{
        struct fake_s3 *fake = arg;

        for (;;) {
                struct fake_connection *connection;
                int fd = accept(fake->listen_fd, NULL, NULL);

                if (fd < 0)
                        return NULL;
                connection = malloc(sizeof(*connection));
                *connection = (struct fake_connection){fake, fd};
                pthread_mutex_lock(&fake->lock);
                if (fake->connections == FAKE_CONNECTIONS ||
                    pthread_create(&fake->thread[fake->connections], NULL, fake_connection_main, connection) != 0) {
                        close(fd);
                        free(connection);
                } else {
                        fake->fd[fake->connections++] = fd;
                }
                pthread_mutex_unlock(&fake->lock);
        }
}

static inline void fake_start(struct fake_s3 *fake,
                              void (*serve)(void *arg, const struct fake_request *request, struct fake_reply *reply),
                              void *arg)
{
        signal(SIGPIPE, SIG_IGN); /* as the programs do: a peer that hangs up is an error of the write */
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(address);

        memset(fake, 0, sizeof(*fake));
        fake->serve = serve;
        fake->arg = arg;
        pthread_mutex_init(&fake->lock, NULL);
        fake->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fake->listen_fd >= 0);
        assert_int_equal(bind(fake->listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(fake->listen_fd, 64), 0);
        assert_int_equal(getsockname(fake->listen_fd, (struct sockaddr *)&address, &len), 0);
        snprintf(fake->url, sizeof(fake->url), "http://127.0.0.1:%u", ntohs(address.sin_port));
        assert_int_equal(pthread_create(&fake->acceptor, NULL, fake_accept_main, fake), 0);
}

static inline void fake_stop(struct fake_s3 *fake)
{
        shutdown(fake->listen_fd, SHUT_RDWR);
        pthread_join(fake->acceptor, NULL);
        close(fake->listen_fd);
        for (unsigned i = 0; i < fake->connections; i++) {
                shutdown(fake->fd[i], SHUT_RDWR);
                pthread_join(fake->thread[i], NULL);
                close(fake->fd[i]);
        }
        pthread_mutex_destroy(&fake->lock);
}

/* A client of it, with credentials and four requests at once. */
static inline struct mr_client *fake_client(const struct fake_s3 *fake, unsigned attempts)
{
        struct mr_settings settings;
        struct mr_client *client;

        mr_settings_default(&settings);
        snprintf(settings.endpoint, sizeof(settings.endpoint), "%s", fake->url);
        snprintf(settings.admin, sizeof(settings.admin), "%s", fake->url);
        snprintf(settings.access_key, sizeof(settings.access_key), "AKID");
        snprintf(settings.secret_key, sizeof(settings.secret_key), "secret");
        settings.parallel = 4;
        settings.attempts = attempts;
        settings.part_size = 5u << 20;
        assert_int_equal(mr_client_new(&settings, &client), 0);
        return client;
}

/* Sets the body of a reply. */
static inline void fake_body(struct fake_reply *reply, const void *data, size_t len)
{
        reply->body = malloc(len + 1);
        memcpy(reply->body, data, len);
        reply->body_len = len;
}

static inline void fake_text(struct fake_reply *reply, const char *text)
{
        fake_body(reply, text, strlen(text));
}

static inline void fake_error(struct fake_reply *reply, int status, const char *code)
{
        char text[512];

        reply->status = status;
        snprintf(text, sizeof(text),
                 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>said so</Message>"
                 "<RequestId>R1</RequestId></Error>",
                 code);
        fake_text(reply, text);
}

#endif
