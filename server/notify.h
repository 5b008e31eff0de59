/*
 * notify.h - tells a service manager (systemd, or anything that speaks its protocol) how the daemon
 * is.
 */
#ifndef MILLRACE_SERVER_NOTIFY_H
#define MILLRACE_SERVER_NOTIFY_H

/*
 * Sends state ("READY=1", lines separated by newlines) to the socket that $NOTIFY_SOCKET names. Any
 * thread; does not block. 1: sent; 0: nobody asked; negative errno: could not be sent.
 */
int srv_notify(const char *state);

/*
 * The daemon is started, and what it waits for ("for etcd") is an operator's to mend, or not of this machine: whoever started it
 * need not wait for that, too, and sees what it is as the service's status.
 */
int srv_notify_waits(const char *what);

/* "RELOADING=1" with the time that the protocol wants beside it. */
int srv_notify_reloading(void);

#endif
