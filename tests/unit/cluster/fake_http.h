/*
 * fake_http.h - a server of HTTP on loopback that does what a script says: answers, cuts, holds,
 * or passes a request on to a real etcd and drops or delays what comes back.
 */
#ifndef MILLRACE_TEST_FAKE_HTTP_H
#define MILLRACE_TEST_FAKE_HTTP_H

#include "tests/unit/cluster/etcd_fixture.h"

#define FAKE_CONNECTIONS 1200u
#define FAKE_REQUEST_MAX (2u << 20)
#define FAKE_STEPS       16u
#define FAKE_BODIES      32u

enum fake_what {
        FAKE_ANSWER,       /* status and body */
        FAKE_CUT,          /* half of that, then the connection ends */
        FAKE_CLOSE,        /* nothing: the connection ends */
        FAKE_HOLD,         /* nothing until fake_release(); then as ANSWER */
        FAKE_HUGE,         /* body, then spaces: FAKE_HUGE_BYTES */
        FAKE_DRIP,         /* a byte each 20 ms */
        FAKE_FORWARD,      /* what the other port answers */
        FAKE_FORWARD_DROP, /* passed on; what comes back is dropped, and the connection ends */
        FAKE_FORWARD_LATE  /* the connection ends; passed on at fake_release() */
};
#define FAKE_HUGE_BYTES (20u << 20)

struct fake_step {
        enum fake_what what;
        int status;
        const char *body;
        const char *header; /* lines that each end in \r\n; NULL: none */
};

struct fake;
struct fake_conn {
        struct fake *fake;
        int fd;
        pthread_t thread;
};

struct fake {
        int fd;
        uint16_t port, other; /* other: to forward to */
        pthread_t thread;
        struct fake_step steps[FAKE_STEPS];
        unsigned step_count; /* the last one goes on */
        sem_t released;
        atomic_bool ending;
        atomic_uint requests, txns, logins, held;
        /* guarded by lock */
        pthread_mutex_t lock;
        unsigned conn_count;
        struct fake_conn conns[FAKE_CONNECTIONS];
        char *bodies[FAKE_BODIES]; /* that came, with their heads */
        unsigned body_count;
};

static inline int fake_connect(uint16_t port)
{
        struct sockaddr_in at = {
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        MUST(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
        return fd;
}

static inline bool fake_write(int fd, const char *data, size_t len)
{
        size_t done = 0;

        while (done < len) {
                ssize_t n = send(fd, data + done, len - done, MSG_NOSIGNAL);

                if (n <= 0)
                        return false;
                done += (size_t)n;
        }
        return true;
}

/* A head and as much as its Content-Length says. 0: there is none. */
static inline size_t fake_read(int fd, char *buf, size_t size)
{
        size_t len = 0, want = SIZE_MAX;

        while (len < want && len < size - 1) {
                ssize_t n = recv(fd, buf + len, size - 1 - len, 0);
                char *end, *length;

                if (n <= 0)
                        return 0;
                len += (size_t)n;
                buf[len] = '\0';
                end = strstr(buf, "\r\n\r\n");
                length = strcasestr(buf, "\r\nContent-Length:");
                if (want == SIZE_MAX && end != NULL && length != NULL && length < end)
                        want = (size_t)(end + 4 - buf) + strtoul(length + 17, NULL, 10);
        }
        return len >= want ? len : 0;
}

static inline size_t fake_text(const struct fake_step *step, char *out, size_t size)
{
        const char *body = step->body != NULL ? step->body : "";
        size_t len = step->what == FAKE_HUGE ? FAKE_HUGE_BYTES : strlen(body);

        return (size_t)snprintf(out, size, "HTTP/1.1 %d Text\r\nContent-Length: %zu\r\n%s\r\n%s", step->status, len,
                                step->header != NULL ? step->header : "", body);
}

/* To the other port, by a connection that ends with it: the length of its answer. */
static inline size_t fake_forward(struct fake *fake, const char *request, size_t len, char *answer, size_t size)
{
        static const char last[] = "Connection: close\r\n";
        int fd = fake_connect(fake->other);
        size_t line = (size_t)(strstr(request, "\r\n") + 2 - request), got = 0;
        ssize_t more;

        MUST(fake_write(fd, request, line) && fake_write(fd, last, strlen(last)) &&
             fake_write(fd, request + line, len - line));
        while (got < size && (more = recv(fd, answer + got, size - got, 0)) > 0)
                got += (size_t)more;
        close(fd);
        return got;
}

static inline void fake_wait_release(struct fake *fake)
{
        atomic_fetch_add(&fake->held, 1);
        wait_for(&fake->released);
        sem_post(&fake->released); /* for all */
}

static inline bool fake_huge(int fd, const struct fake_step *step)
{
        static const char spaces[65536] = {[0 ... 65535] = ' '};
        char head[512];
        size_t len = fake_text(step, head, sizeof(head)), done;

        if (!fake_write(fd, head, len))
                return false;
        for (done = strlen(step->body); done < FAKE_HUGE_BYTES; done += sizeof(spaces)) {
                if (!fake_write(fd, spaces,
                                FAKE_HUGE_BYTES - done < sizeof(spaces) ? FAKE_HUGE_BYTES - done : sizeof(spaces)))
                        return false;
        }
        return true;
}

static inline bool fake_drip(struct fake *fake, int fd, const char *text, size_t len)
{
        size_t i;

        for (i = 0; i < len && !atomic_load(&fake->ending); i++) {
                if (!fake_write(fd, text + i, 1))
                        return false;
                usleep(20000);
        }
        return true;
}

/* One request. False: the connection ends. */
static inline bool fake_serve(struct fake *fake, int fd, const struct fake_step *step, char *request, size_t len)
{
        static _Thread_local char text[1u << 20];
        size_t size = fake_text(step, text, sizeof(text));

        switch (step->what) {
        case FAKE_ANSWER:
                return fake_write(fd, text, size);
        case FAKE_CUT:
                fake_write(fd, text, size - strlen(step->body) / 2);
                return false;
        case FAKE_CLOSE:
                return false;
        case FAKE_HOLD:
                fake_wait_release(fake);
                return !atomic_load(&fake->ending) && fake_write(fd, text, size);
        case FAKE_HUGE:
                return fake_huge(fd, step);
        case FAKE_DRIP:
                return fake_drip(fake, fd, text, size);
        case FAKE_FORWARD:
                size = fake_forward(fake, request, len, text, sizeof(text) - 1);
                fake_write(fd, text, size);
                return false;
        case FAKE_FORWARD_DROP:
                MUST(fake_forward(fake, request, len, text, sizeof(text) - 1) > 0);
                return false;
        case FAKE_FORWARD_LATE:
                shutdown(fd, SHUT_RDWR);
                fake_wait_release(fake);
                if (!atomic_load(&fake->ending))
                        MUST(fake_forward(fake, request, len, text, sizeof(text) - 1) > 0);
                return false;
        }
        return false;
}

static inline void fake_note(struct fake *fake, const char *request)
{
        if (strstr(request, "/v3/kv/txn") != NULL)
                atomic_fetch_add(&fake->txns, 1);
        if (strstr(request, "/v3/auth/authenticate") != NULL)
                atomic_fetch_add(&fake->logins, 1);
        pthread_mutex_lock(&fake->lock);
        if (fake->body_count < FAKE_BODIES)
                fake->bodies[fake->body_count++] = strdup(request);
        pthread_mutex_unlock(&fake->lock);
}

static inline void *fake_conn_main(void *arg)
{
        struct fake_conn *conn = arg;
        struct fake *fake = conn->fake;
        static _Thread_local char request[FAKE_REQUEST_MAX];
        size_t len;

        while ((len = fake_read(conn->fd, request, FAKE_REQUEST_MAX)) > 0) {
                unsigned n;

                fake_note(fake, request);
                n = atomic_fetch_add(&fake->requests, 1);
                if (n >= fake->step_count)
                        n = fake->step_count - 1;
                if (!fake_serve(fake, conn->fd, &fake->steps[n], request, len))
                        break;
        }
        shutdown(conn->fd, SHUT_RDWR);
        return NULL;
}

static inline void *fake_main(void *arg)
{
        struct fake *fake = arg;
        int fd;

        while (!atomic_load(&fake->ending) && (fd = accept4(fake->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
                struct fake_conn *conn;

                pthread_mutex_lock(&fake->lock);
                MUST(fake->conn_count < FAKE_CONNECTIONS);
                conn = &fake->conns[fake->conn_count++];
                *conn = (struct fake_conn){.fake = fake, .fd = fd};
                MUST(pthread_create(&conn->thread, NULL, fake_conn_main, conn) == 0);
                pthread_mutex_unlock(&fake->lock);
        }
        return NULL;
}

static inline struct fake *fake_start(const struct fake_step *steps, unsigned count, uint16_t other)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(at);
        struct fake *fake = calloc(1, sizeof(*fake));

        MUST(fake != NULL && count <= FAKE_STEPS);
        memcpy(fake->steps, steps, count * sizeof(*steps));
        fake->step_count = count;
        fake->other = other;
        pthread_mutex_init(&fake->lock, NULL);
        sem_init(&fake->released, 0, 0);
        fake->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        MUST(fake->fd >= 0 && bind(fake->fd, (struct sockaddr *)&at, len) == 0 && listen(fake->fd, 512) == 0);
        MUST(getsockname(fake->fd, (struct sockaddr *)&at, &len) == 0);
        fake->port = ntohs(at.sin_port);
        MUST(pthread_create(&fake->thread, NULL, fake_main, fake) == 0);
        return fake;
}

static inline struct fake *fake_one(enum fake_what what, int status, const char *body)
{
        struct fake_step step = {what, status, body, NULL};

        return fake_start(&step, 1, 0);
}

static inline void fake_release(struct fake *fake)
{
        sem_post(&fake->released);
}

static inline void fake_stop(struct fake *fake)
{
        unsigned i;

        atomic_store(&fake->ending, true);
        fake_release(fake);
        shutdown(fake->fd, SHUT_RDWR);
        pthread_join(fake->thread, NULL);
        for (i = 0; i < fake->conn_count; i++) {
                shutdown(fake->conns[i].fd, SHUT_RDWR);
                pthread_join(fake->conns[i].thread, NULL);
                close(fake->conns[i].fd);
        }
        close(fake->fd);
        for (i = 0; i < fake->body_count; i++)
                free(fake->bodies[i]);
        sem_destroy(&fake->released);
        pthread_mutex_destroy(&fake->lock);
        free(fake);
}

/* The n-th request that came has this in it. */
static inline bool fake_got(struct fake *fake, unsigned n, const char *what)
{
        bool got;

        pthread_mutex_lock(&fake->lock);
        got = n < fake->body_count && strstr(fake->bodies[n], what) != NULL;
        pthread_mutex_unlock(&fake->lock);
        return got;
}

#endif
