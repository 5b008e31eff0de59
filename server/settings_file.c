/*
 * settings_file.c - the configuration file: `name = value` lines, read with inih.
 *
 * Called by the main thread while it starts, once. What inih lets pass is refused here: names that are no settings, sections, lines too
 * long for its buffer (it would take their rest for another line), and bytes of zero, at which it would stop reading a line.
 */
#include "server/settings.h"

#include <errno.h>
#include <ini.h>
#include <string.h>

#define LINE_SIZE ((int)SRV_VALUE_MAX + 128)

struct reading {
        FILE *file;
        const char *path;
        struct srv_settings *settings;
        struct srv_error *error;
        unsigned line;
        int rv; /* of the first thing that was wrong */
};

/* inih's reader. NULL ends the reading, also where a line was refused. */
static char *next_line(char *buf, int size, void *stream)
{
        struct reading *r = stream;
        int len = 0, c;

        if (r->rv != 0)
                return NULL;
        r->line++;
        while ((c = getc(r->file)) != EOF) {
                if (c == '\0') {
                        r->rv = srv_fail(r->error, -EINVAL, "%s:%u: line has a byte of zero", r->path, r->line);
                        return NULL;
                }
                if (len >= size - 1) {
                        r->rv = srv_fail(r->error, -EINVAL, "%s:%u: line is too long", r->path, r->line);
                        return NULL;
                }
                buf[len++] = (char)c;
                if (c == '\n')
                        break;
        }
        if (ferror(r->file)) {
                r->rv = srv_fail(r->error, -EIO, "%s: cannot be read", r->path);
                return NULL;
        }
        buf[len] = '\0';
        return len > 0 ? buf : NULL;
}

/* inih's handler; 0 says that the line was wrong. */
static int take_line(void *arg, const char *section, const char *name, const char *value)
{
        struct reading *r = arg;
        char shown_as[320];
        int id;

        if (r->rv != 0)
                return 1;
        if (*section != '\0') {
                r->rv = srv_fail(r->error, -EINVAL, "%s:%u: there are no sections, but here is [%.60s]", r->path, r->line,
                                 section);
                return 0;
        }
        id = srv_setting_find(name);
        if (id < 0) {
                r->rv = srv_fail(r->error, -EINVAL, "%s:%u: unknown setting '%.100s'", r->path, r->line, name);
                return 0;
        }
        snprintf(shown_as, sizeof(shown_as), "%.200s:%u: %s", r->path, r->line, name);
        r->rv = srv_settings_set(r->settings, (enum srv_setting_id)id, SRV_FROM_FILE, value, shown_as, r->error);
        return r->rv == 0;
}

int srv_settings_read_file(struct srv_settings *settings, const char *path, struct srv_error *error)
{
        struct reading reading = {.path = path, .settings = settings, .error = error};
        int bad_line;

        reading.file = fopen(path, "re");
        if (reading.file == NULL)
                return srv_fail(error, -errno, "--config: cannot open %.200s: %s", path, strerror(errno));
        ini_use_stack = false;
        ini_max_line = LINE_SIZE;
        ini_initial_alloc = LINE_SIZE;
        ini_allow_multiline = false;      /* an indented line is a line like any other */
        ini_allow_inline_comments = false; /* a path may hold " ;" */
        ini_stop_on_first_error = true;
        bad_line = ini_parse_stream(next_line, &reading, take_line, &reading);
        fclose(reading.file);
        if (reading.rv != 0)
                return reading.rv;
        if (bad_line > 0)
                return srv_fail(error, -EINVAL, "%s:%d: line is not of the form NAME = VALUE", path, bad_line);
        if (bad_line < 0)
                return srv_fail(error, -ENOMEM, "%s: out of memory", path);
        return 0;
}
