/*
 * daemon_log.c - one line on standard error for each message, and the last of them in memory.
 *
 * Called by the main thread, the admin listener's thread and the writer of the access log, never by
 * loops. One write(2) a line keeps lines of several threads whole. Nothing is buffered, so that the
 * last line before an exit is always there. What is kept for support bundles is bounded (I9): 256
 * lines of 1 KiB.
 */
#include "server/daemon_log.h"

#include "loop.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024u

static enum srv_log_level shown = SRV_LOG_INFO; /* set before threads start, read by all */
static _Thread_local unsigned about_here;        /* the pool that messages of this thread are about; 0: none */
static unsigned about;                           /* the same of all threads. Set before they log */

/* owner: lock */
static struct {
        pthread_mutex_t lock;
        uint64_t count; /* ever kept */
        struct {
                int64_t time_ms;
                char line[LINE_MAX_BYTES];
        } slot[SRV_LOG_KEPT];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

void srv_log_about(unsigned pool)
{
        about = pool;
}

void srv_log_about_here(unsigned pool)
{
        about_here = pool;
}

void srv_log_set_level(enum srv_log_level level)
{
        shown = level;
}

/* "millraced: TEXT\n", "millraced: pool 2: TEXT\n"; its length, 0 if there is nothing to say. */
static size_t format_message(char line[LINE_MAX_BYTES], const char *format, va_list args)
{
        static const char prefix[] = "millraced: ";
        const unsigned pool = about_here != 0 ? about_here : about;
        size_t len = sizeof(prefix) - 1, i;

        memcpy(line, prefix, len);
        if (pool != 0)
                len += (size_t)snprintf(line + len, LINE_MAX_BYTES - len, "pool %u: ", pool);
        if (vsnprintf(line + len, LINE_MAX_BYTES - len - 1, format, args) < 0)
                return 0;
        len += strlen(line + len);
        for (i = 0; i < len; i++)
                if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
                        line[i] = '?';
        line[len++] = '\n';
        return len;
}

static void keep_line(const char *line, size_t len)
{
        uint64_t at;

        pthread_mutex_lock(&kept.lock);
        at = kept.count++ % SRV_LOG_KEPT;
        kept.slot[at].time_ms = lp_wall_ms();
        memcpy(kept.slot[at].line, line, len - 1); /* without the newline */
        kept.slot[at].line[len - 1] = '\0';
        pthread_mutex_unlock(&kept.lock);
}

static void show_line(const char *line, size_t len)
{
        if (write(STDERR_FILENO, line, len) < 0)
                return; /* nowhere left to say it */
}

void srv_log(enum srv_log_level level, const char *format, ...)
{
        char line[LINE_MAX_BYTES];
        va_list args;
        size_t len;

        va_start(args, format);
        len = format_message(line, format, args);
        va_end(args);
        if (len == 0)
                return;
        keep_line(line, len);
        if (level <= shown)
                show_line(line, len);
}

void srv_log_secret(const char *format, ...)
{
        char line[LINE_MAX_BYTES];
        va_list args;
        size_t len;

        va_start(args, format);
        len = format_message(line, format, args);
        va_end(args);
        show_line(line, len);
        explicit_bzero(line, sizeof(line));
}

void srv_log_kept(void (*each)(void *arg, int64_t time_ms, const char *line), void *arg)
{
        uint64_t i;

        pthread_mutex_lock(&kept.lock);
        for (i = kept.count > SRV_LOG_KEPT ? kept.count - SRV_LOG_KEPT : 0; i < kept.count; i++)
                each(arg, kept.slot[i % SRV_LOG_KEPT].time_ms, kept.slot[i % SRV_LOG_KEPT].line);
        pthread_mutex_unlock(&kept.lock);
}
