/*
 * log.c - one line on standard error for each message.
 *
 * Called by the main thread, the admin listener's thread and the writer of the access log, never by loops. One
 * write(2) a line keeps lines of several threads whole. Nothing is buffered, so that the last line before an exit is
 * always there.
 */
#include "server/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum srv_log_level shown = SRV_LOG_INFO; /* set before threads start, read by all */

void srv_log_set_level(enum srv_log_level level)
{
        shown = level;
}

void srv_log(enum srv_log_level level, const char *format, ...)
{
        static const char prefix[] = "millraced: ";
        char line[1024];
        size_t len = sizeof(prefix) - 1, i;
        va_list args;
        int rv;

        if (level > shown)
                return;
        memcpy(line, prefix, len);
        va_start(args, format);
        rv = vsnprintf(line + len, sizeof(line) - len - 1, format, args);
        va_end(args);
        if (rv < 0)
                return;
        len += strlen(line + len);
        for (i = 0; i < len; i++)
                if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
                        line[i] = '?';
        line[len++] = '\n';
        if (write(STDERR_FILENO, line, len) < 0)
                return; /* nowhere left to say it */
}
