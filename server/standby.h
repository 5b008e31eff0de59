/*
 * standby.h - answers on a node's S3 and admin addresses while its leader process does not: 503, and where
 * the pool's leader is.
 *
 * owner: the main thread.
 */
#ifndef MILLRACE_SERVER_STANDBY_H
#define MILLRACE_SERVER_STANDBY_H

#include "server/listeners.h"
#include "server/settings.h"

struct srv_standby;

/* The sockets stay the caller's, and are given again each time. -ENOMEM, or the files of TLS, with a line. */
int srv_standby_new(const struct srv_settings *settings, const struct srv_listener *s3, const struct srv_listener *plain, const struct srv_listener *admin,
                    struct srv_standby **out, struct srv_error *error);
/* What it says from now on: a sentence; and the leader's S3 address, "": nobody leads. */
void srv_standby_say(struct srv_standby *standby, const char *text, const char *leader);
/* It accepts connections from now on. -ENOMEM: it does not on some address. */
int srv_standby_begin(struct srv_standby *standby);
/* It does not any more, and its connections end. */
void srv_standby_end(struct srv_standby *standby);
/* The certificate anew. */
void srv_standby_reload(struct srv_standby *standby);
void srv_standby_free(struct srv_standby *standby); /* NULL is allowed */

#endif
