/*
 * listeners.h - listening sockets.
 */
#ifndef MILLRACE_SERVER_LISTENERS_H
#define MILLRACE_SERVER_LISTENERS_H

#include "server/settings.h"

#define SRV_ADDRESS_TEXT 128u

/* Sockets that share one address, one for each loop. */
struct srv_listener {
        unsigned count;
        int *fds;                    /* -1 where handed over */
        char text[SRV_ADDRESS_TEXT]; /* the address bound, "127.0.0.1:9000" */
};

/*
 * Binds count sockets to one address and makes them listen, non-blocking. With count above 1 they
 * share it by SO_REUSEPORT; whether someone else listens there already is found out first, because
 * SO_REUSEPORT would let two daemons of one user share a port unnoticed. Blocking (a host name is
 * looked up). 0 or a negative errno with a line in *error.
 */
int srv_listener_open(const struct srv_address *address, const char *setting, unsigned count, struct srv_listener *out,
                      struct srv_error *error);
/*
 * Sockets of an address that another listener, or process, has bound: `count` times the one of fd, which
 * stays the caller's. As above.
 */
int srv_listener_adopt(int fd, unsigned count, struct srv_listener *out, struct srv_error *error);
/* The address of a socket that was bound elsewhere, into out->text. */
void srv_listener_name(int fd, struct srv_listener *out);
/* Closes what was not handed over. Harmless on a zeroed one. */
void srv_listener_close(struct srv_listener *listener);

#endif
