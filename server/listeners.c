/*
 * listeners.c - sockets bound before anything else happens.
 *
 * Called by the main thread while it starts: a busy port ends the start before a drive is touched.
 * Each loop gets a socket of its own on the same address, and the kernel spreads connections over
 * them.
 */
#include "server/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 4096 /* the kernel cuts it to net.core.somaxconn */

static int resolve_address(const struct srv_address *address, struct sockaddr_storage *out, socklen_t *out_len,
                           const char **why)
{
        struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
        char port[8];
        int rv;

        snprintf(port, sizeof(port), "%u", address->port);
        if (*address->host == '\0')
                hints.ai_family = AF_INET;
        rv = getaddrinfo(*address->host != '\0' ? address->host : NULL, port, &hints, &found);
        if (rv != 0) {
                *why = rv == EAI_SYSTEM ? strerror(errno) : gai_strerror(rv);
                return -EINVAL;
        }
        memcpy(out, found->ai_addr, found->ai_addrlen);
        *out_len = found->ai_addrlen;
        freeaddrinfo(found);
        return 0;
}

static int bind_socket(const struct sockaddr_storage *addr, socklen_t len, bool share, int *out)
{
        int fd, one = 1, rv;

        fd = socket(addr->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
            (share && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) != 0) ||
            bind(fd, (const struct sockaddr *)addr, len) != 0 || listen(fd, BACKLOG) != 0) {
                rv = -errno;
                close(fd);
                return rv;
        }
        *out = fd;
        return 0;
}

/* A socket that shares nothing can be bound only where nobody listens. */
static int check_address_free(const struct sockaddr_storage *addr, socklen_t len)
{
        int fd, rv;

        rv = bind_socket(addr, len, false, &fd);
        if (rv == 0)
                close(fd);
        return rv;
}

static uint16_t port_of(const struct sockaddr_storage *addr)
{
        if (addr->ss_family == AF_INET6)
                return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
        return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

static int format_address(const struct sockaddr_storage *addr, socklen_t len, char *out, size_t size)
{
        char host[64];

        if (getnameinfo((const struct sockaddr *)addr, len, host, sizeof(host), NULL, 0, NI_NUMERICHOST) != 0)
                return -EINVAL;
        snprintf(out, size, addr->ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host, port_of(addr));
        return 0;
}

static int bind_all(struct sockaddr_storage *addr, socklen_t len, unsigned count, struct srv_listener *out)
{
        int rv = 0;

        if (count > 1 && port_of(addr) != 0)
                rv = check_address_free(addr, len);
        while (rv == 0 && out->count < count) {
                rv = bind_socket(addr, len, count > 1, &out->fds[out->count]);
                if (rv != 0)
                        break;
                out->count++;
                /* After the first one the port is known, also where the system was to choose it. */
                if (out->count == 1 && getsockname(out->fds[0], (struct sockaddr *)addr, &len) != 0)
                        rv = -errno;
        }
        if (rv == 0)
                rv = format_address(addr, len, out->text, sizeof(out->text));
        return rv;
}

int srv_listener_open(const struct srv_address *address, const char *setting, unsigned count, struct srv_listener *out,
                      struct srv_error *error)
{
        struct sockaddr_storage addr;
        socklen_t len;
        const char *why;
        int rv;

        memset(out, 0, sizeof(*out));
        memset(&addr, 0, sizeof(addr));
        rv = resolve_address(address, &addr, &len, &why);
        if (rv != 0)
                return srv_fail(error, rv, "%s: no such address '%s': %s", setting, address->host, why);
        out->fds = calloc(count, sizeof(*out->fds));
        if (out->fds == NULL)
                return srv_fail(error, -ENOMEM, "%s: out of memory", setting);
        rv = bind_all(&addr, len, count, out);
        if (rv == 0)
                return 0;
        srv_listener_close(out);
        return srv_fail(error, rv, "%s: cannot listen on %s:%u: %s", setting,
                        *address->host != '\0' ? address->host : "*", address->port, strerror(-rv));
}

int srv_listener_adopt(int fd, unsigned count, struct srv_listener *out, struct srv_error *error)
{
        memset(out, 0, sizeof(*out));
        out->fds = calloc(count, sizeof(*out->fds));
        if (out->fds == NULL)
                return srv_fail(error, -ENOMEM, "out of memory");
        srv_listener_name(fd, out);
        for (; out->count < count; out->count++) {
                out->fds[out->count] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
                if (out->fds[out->count] < 0)
                        return srv_fail(error, -errno, "the node's sockets cannot be used: %s", strerror(errno));
        }
        return 0;
}

void srv_listener_name(int fd, struct srv_listener *out)
{
        struct sockaddr_storage addr;
        socklen_t len = sizeof(addr);

        if (getsockname(fd, (struct sockaddr *)&addr, &len) != 0 || format_address(&addr, len, out->text, sizeof(out->text)) != 0)
                snprintf(out->text, sizeof(out->text), "?");
}

void srv_listener_close(struct srv_listener *listener)
{
        unsigned i;

        for (i = 0; i < listener->count; i++)
                if (listener->fds[i] >= 0)
                        close(listener->fds[i]);
        free(listener->fds);
        listener->fds = NULL;
        listener->count = 0;
}
