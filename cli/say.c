/*
 * say.c - what the commands say: errors, usage, names and times in print. Any thread; a line goes
 * out in one write.
 */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void cli_error(const char *format, ...)
{
        char line[2048], shown[2048]; /* servers and files have a part in some */
        va_list args;

        va_start(args, format);
        vsnprintf(line, sizeof(line), format, args);
        va_end(args);
        fprintf(stderr, "millrace: %s\n", cli_printable(stderr, line, shown, sizeof(shown)));
}

int cli_failed(const char *what, const struct mr_error *err)
{
        char name[1200];

        cli_printable(stderr, what, name, sizeof(name));
        if (err->s3_code[0] != '\0')
                cli_error("%s: %s (%s%s%s)", name, err->message, err->s3_code,
                          err->request_id[0] != '\0' ? ", request " : "", err->request_id);
        else
                cli_error("%s: %s", name, err->message);
        return CLI_FAILED;
}

int cli_usage(const struct cli_call *call, const char *format, ...)
{
        char line[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(line, sizeof(line), format, args);
        va_end(args);
        cli_error("%s (see millrace %s --help)", line, call->command->name);
        return CLI_USAGE;
}

int cli_path_arg(const struct cli_call *call, const char *text, bool with_key, struct cli_path *out)
{
        int rv = cli_path_parse(text, out);

        if (rv == -ENAMETOOLONG)
                return cli_usage(call, "a key has at most %d bytes: %.80s...", CLI_KEY_MAX, text);
        if (rv != 0 || out->bucket[0] == '\0')
                return cli_usage(call, "not a path of the form s3://bucket/key: %s", text);
        if (with_key && out->key[0] == '\0')
                return cli_usage(call, "no key in %s", text);
        return 0;
}

enum cli_progress_style cli_progress_wanted(const struct cli_call *call)
{
        bool terminal = isatty(STDERR_FILENO) == 1;

        if (call->quiet || call->no_progress)
                return CLI_PROGRESS_NONE;
        if (terminal)
                return CLI_PROGRESS_BAR;
        return call->progress ? CLI_PROGRESS_LINES : CLI_PROGRESS_NONE;
}

const char *cli_printable(FILE *to, const char *name, char *out, size_t size)
{
        bool terminal = isatty(fileno(to)) == 1;
        size_t n = 0;

        for (; *name != '\0' && n + 1 < size; name++)
                out[n++] = terminal && ((unsigned char)*name < 0x20 || *name == 0x7f) ? '?' : *name;
        out[n] = '\0';
        return out;
}

void cli_format_when(char *out, size_t size, int64_t seconds)
{
        time_t when = (time_t)seconds;
        struct tm tm;

        if (seconds == 0 || localtime_r(&when, &tm) == NULL)
                snprintf(out, size, "%19s", "");
        else
                strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm);
}
