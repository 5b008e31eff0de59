/*
 * stop_watch.h - bounds the time that closing everything may take: a drive that hangs may keep a
 * thread in the kernel for good.
 */
#ifndef MILLRACE_SERVER_STOP_WATCH_H
#define MILLRACE_SERVER_STOP_WATCH_H

/*
 * Main thread, once. If srv_stop_watch_end() is not called within that time, the log says so, and
 * the process ends with this status.
 */
void srv_stop_watch_begin(unsigned seconds, int status);
void srv_stop_watch_end(void);

#endif
