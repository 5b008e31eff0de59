/*
 * ini_file.c - NAME = VALUE lines, read with inih: the configuration file and files of credentials.
 *
 * Called by the main thread. What inih would let pass is refused here: sections, lines too long for
 * its buffer (it would take their rest for another line), and bytes of zero, at which it would stop
 * reading a line.
 */
#include "server/ini_file.h"

#include <errno.h>
#include <ini.h>
#include <string.h>

#define LINE_SIZE ((int)SRV_VALUE_MAX + 128)

struct reading {
        FILE *file;
        const char *path;
        srv_ini_line line;
        void *arg;
        struct srv_error *error;
        unsigned number; /* of the line */
        int rv;          /* of the first thing that was wrong */
};

static int refuse_line(struct reading *r, const char *why)
{
        r->rv = srv_fail(r->error, -EINVAL, "%.300s:%u: %s", r->path, r->number, why);
        return r->rv;
}

/* inih's reader. NULL ends the reading, also where a line was refused. */
static char *next_line(char *buf, int size, void *stream)
{
        struct reading *r = stream;
        int len = 0, c;

        if (r->rv != 0)
                return NULL;
        r->number++;
        while ((c = getc(r->file)) != EOF) {
                if (c == '\0' && refuse_line(r, "line has a byte of zero") != 0)
                        return NULL;
                if (len >= size - 1 && refuse_line(r, "line is too long") != 0)
                        return NULL;
                buf[len++] = (char)c;
                if (c == '\n')
                        break;
        }
        if (ferror(r->file)) {
                r->rv = srv_fail(r->error, -EIO, "%.300s: cannot be read: %s", r->path, strerror(errno));
                return NULL;
        }
        buf[len] = '\0';
        return len > 0 ? buf : NULL;
}

/* inih's handler; 0 says that the line was wrong. */
static int take_ini_line(void *arg, const char *section, const char *name, const char *value)
{
        struct reading *r = arg;
        char shown_as[400];
        int rv;

        if (r->rv != 0)
                return 1;
        if (*section != '\0')
                return refuse_line(r, "there are no sections here") == 0;
        snprintf(shown_as, sizeof(shown_as), "%.300s:%u: %.60s", r->path, r->number, name);
        rv = r->line(r->arg, name, value, shown_as, r->error);
        if (rv == -ENOENT)
                rv = srv_fail(r->error, -EINVAL, "%.300s:%u: unknown setting '%.100s'", r->path, r->number, name);
        r->rv = rv;
        return rv == 0;
}

int srv_ini_read(FILE *file, const char *path, srv_ini_line line, void *arg, struct srv_error *error)
{
        struct reading reading = {.file = file, .path = path, .line = line, .arg = arg, .error = error};
        int bad_line;

        ini_use_stack = false;
        ini_max_line = LINE_SIZE;
        ini_initial_alloc = LINE_SIZE;
        ini_allow_multiline = false;       /* an indented line is a line like any other */
        ini_allow_inline_comments = false; /* a path may hold " ;" */
        ini_stop_on_first_error = true;
        bad_line = ini_parse_stream(next_line, &reading, take_ini_line, &reading);
        if (reading.rv != 0)
                return reading.rv;
        if (bad_line > 0)
                return srv_fail(error, -EINVAL, "%.300s:%d: line is not of the form NAME = VALUE", path, bad_line);
        if (bad_line < 0)
                return srv_fail(error, -ENOMEM, "%.300s: out of memory", path);
        return 0;
}
