/*
 * listen.h - what the servers of limits/ share: the command line SIZE THREADS [ENTRIES], a
 * listening socket that is told on standard output, and connections handed to the threads in turn.
 * Main thread.
 */
#ifndef BENCH_LIMITS_LISTEN_H
#define BENCH_LIMITS_LISTEN_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT_THREADS_MAX 256u
#define LIMIT_SIZE_MAX    (1ul << 30)
#define LIMIT_ENTRIES_MAX 10000ul

struct limit_options {
        size_t size;      /* bytes of a body that answers GET */
        unsigned threads; /* as many as the server that is compared has loops */
        unsigned entries; /* of a body that answers GET of a bucket */
};

/* 0, or -1 with a line on standard error. */
static inline int limit_options_parse(int argc, char **argv, struct limit_options *out)
{
        unsigned long numbers[3] = {4096, 1, 1000};

        for (int i = 1; i < argc && i <= 3; i++)
                numbers[i - 1] = strtoul(argv[i], NULL, 10);
        out->size = numbers[0];
        out->threads = (unsigned)numbers[1];
        out->entries = (unsigned)numbers[2];
        if (argc <= 4 && numbers[0] <= LIMIT_SIZE_MAX && numbers[1] >= 1 && numbers[1] <= LIMIT_THREADS_MAX &&
            numbers[2] <= LIMIT_ENTRIES_MAX)
                return 0;
        fprintf(stderr, "usage: %s SIZE THREADS [ENTRIES]\n", argv[0]);
        return -1;
}

/* A socket that listens on a free port of 127.0.0.1, which a line on standard output names; -1. */
static inline int limit_listen(void)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(address);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -1;
        if (bind(fd, (const struct sockaddr *)&address, len) != 0 || listen(fd, 4096) != 0 ||
            getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
                close(fd);
                return -1;
        }
        printf("listening on 127.0.0.1:%u\n", ntohs(address.sin_port));
        fflush(stdout);
        return fd;
}

/* The next connection, non-blocking and without delay, or -1. */
static inline int limit_accept(int listener)
{
        int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0)
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        return fd;
}

#endif
