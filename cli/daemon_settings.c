/*
 * daemon_settings.c - what a daemon's settings file says to whoever asks that daemon: its addresses and root credentials, as
 * `millraced --show-client` prints them. That program alone reads its settings. Main thread only.
 */
#include "command_admin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MAX_BYTES 5120

pid_t cli_start_daemon(const char *settings, const char *action, enum cli_daemon_says says, int *out)
{
        char program[PATH_MAX], config[PATH_MAX + 16];
        int pair[2];
        pid_t pid;

        cli_find_daemon(program, sizeof(program));
        snprintf(config, sizeof(config), "--config=%s", settings);
        if (pipe2(pair, O_CLOEXEC) != 0)
                return -1;
        pid = fork();
        if (pid == 0) {
                dup2(pair[1], STDOUT_FILENO);
                if (says == CLI_DAEMON_SAYS)
                        dup2(pair[1], STDERR_FILENO);
                else if (says == CLI_DAEMON_IS_QUIET)
                        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
                execlp(program, program, config, action, (char *)NULL);
                _exit(127);
        }
        close(pair[1]);
        if (pid < 0)
                close(pair[0]);
        *out = pair[0];
        return pid;
}

/* Nobody has given it: it is as in `before`, which has the defaults, and the credentials that were given. */
static bool setting_is_free(const struct mr_settings *settings, const struct mr_settings *before, const char *name)
{
        if (strcmp(name, "endpoint") == 0)
                return strcmp(settings->endpoint, before->endpoint) == 0;
        if (strcmp(name, "admin") == 0)
                return strcmp(settings->admin, before->admin) == 0;
        if (strcmp(name, "region") == 0)
                return strcmp(settings->region, before->region) == 0;
        return before->access_key[0] == '\0' && before->secret_key[0] == '\0'; /* a key of one and a secret of another are none */
}

static int take_setting(struct mr_settings *settings, const struct mr_settings *before, char *line)
{
        char *equals = strstr(line, " = "), why[256];

        line[strcspn(line, "\n")] = '\0';
        if (equals == NULL)
                return 0;
        *equals = '\0';
        if (!setting_is_free(settings, before, line) || mr_settings_set(settings, line, equals + 3, why, sizeof(why)) == 0)
                return 0;
        cli_error("%s", why);
        return CLI_USAGE;
}

int cli_settings_of_daemon(struct mr_settings *settings, const char *file, bool quiet)
{
        struct mr_settings before;
        char line[LINE_MAX_BYTES];
        int out = -1, status = 0, rv = 0;
        pid_t pid = cli_start_daemon(file, "--show-client", quiet ? CLI_DAEMON_IS_QUIET : CLI_DAEMON_SAYS_HERE, &out);
        FILE *in = pid > 0 ? fdopen(out, "r") : NULL;

        if (pid > 0 && in == NULL)
                close(out);
        mr_settings_default(&before);
        memcpy(before.access_key, settings->access_key, sizeof(before.access_key));
        memcpy(before.secret_key, settings->secret_key, sizeof(before.secret_key));
        while (in != NULL && rv == 0 && fgets(line, sizeof(line), in) != NULL)
                rv = take_setting(settings, &before, line);
        explicit_bzero(line, sizeof(line));
        explicit_bzero(&before, sizeof(before));
        if (in != NULL)
                fclose(in);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (quiet || rv != 0)
                return quiet ? 0 : rv;
        if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        cli_error("%s: %s", file, pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127 ? "millraced, which reads it, is not there" : "millraced cannot be asked what it says");
        return CLI_USAGE;
}
