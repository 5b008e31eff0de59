/*
 * daemon_log.h - the daemon's own messages: plain lines on standard error.
 */
#ifndef MILLRACE_SERVER_DAEMON_LOG_H
#define MILLRACE_SERVER_DAEMON_LOG_H

#include <stdint.h>

enum srv_log_level {
        SRV_LOG_ALWAYS = -1, /* shown whatever the level is */
        SRV_LOG_ERROR,
        SRV_LOG_WARNING,
        SRV_LOG_INFO
};

/*
 * What is shown: messages up to this level. Before any thread is started; SRV_LOG_INFO until
 * called.
 */
void srv_log_set_level(enum srv_log_level level);

/* Before any other thread logs: each message is about this pool, which it begins with. 0: of none. */
void srv_log_about(unsigned pool);
/* The same of this thread's messages alone, until it is called with 0. */
void srv_log_about_here(unsigned pool);

/*
 * Writes "millraced: TEXT" and a newline in one write(2). Any thread, but not on a loop: standard
 * error may block. Control characters are shown as '?', so that one message is one line whatever a
 * path contains.
 */
void srv_log(enum srv_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a secret that must be seen once: it is shown whatever the level is, and not kept. */
void srv_log_secret(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define SRV_LOG_KEPT 256u

/*
 * Calls `each` with the last SRV_LOG_KEPT messages, the oldest first, those too that the level did
 * not show. Any thread but a loop; `each` must not log. time_ms: since 1970.
 */
void srv_log_kept(void (*each)(void *arg, int64_t time_ms, const char *line), void *arg);

#endif
