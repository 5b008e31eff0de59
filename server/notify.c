/*
 * notify.c - the sd_notify protocol: one datagram to a Unix socket.
 *
 * Called by the main thread. Written here because it is a few lines, and libsystemd would be a
 * library to carry everywhere for them.
 */
#include "server/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

int srv_notify(const char *state)
{
        struct sockaddr_un addr = {.sun_family = AF_UNIX};
        const char *path = getenv("NOTIFY_SOCKET");
        socklen_t addr_len;
        int fd, rv = 1;

        if (path == NULL || *path == '\0')
                return 0;
        if ((*path != '/' && *path != '@') || strlen(path) >= sizeof(addr.sun_path))
                return -EINVAL;
        memcpy(addr.sun_path, path, strlen(path));
        if (*path == '@')
                addr.sun_path[0] = '\0'; /* a socket in the abstract name space: its name has no NUL at its end */
        addr_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + (*path == '/'));
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&addr, addr_len) < 0)
                rv = -errno;
        close(fd);
        return rv;
}

int srv_notify_waits(const char *what)
{
        char state[400];

        snprintf(state, sizeof(state), "READY=1\nSTATUS=waits %s", what);
        return srv_notify(state);
}

int srv_notify_reloading(void)
{
        struct timespec now;
        char state[80];

        clock_gettime(CLOCK_MONOTONIC, &now);
        snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
                 (unsigned long long)now.tv_sec * 1000000ull + (unsigned long long)now.tv_nsec / 1000ull);
        return srv_notify(state);
}
