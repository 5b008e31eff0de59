/*
 * doctor_cluster.c - what doctor finds out of a node of a cluster: `millraced --doctor-cluster` looks, which has the settings, and
 * prints findings as they are printed here. Main thread only.
 */
#include "command_admin.h"
#include "doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

/* The other program, which writes both of its outputs into the pipe. -1: it cannot be started. */
static pid_t doctor_start(const char *settings, int *out)
{
        char program[PATH_MAX], config[PATH_MAX + 16];
        int pair[2];
        pid_t pid;

        cli_find_daemon(program, sizeof(program));
        snprintf(config, sizeof(config), "--config=%s", settings);
        if (pipe(pair) != 0)
                return -1;
        pid = fork();
        if (pid == 0) {
                dup2(pair[1], STDOUT_FILENO);
                dup2(pair[1], STDERR_FILENO);
                close(pair[0]);
                close(pair[1]);
                execlp(program, program, config, "--doctor-cluster", (char *)NULL);
                _exit(127);
        }
        close(pair[1]);
        if (pid < 0)
                close(pair[0]);
        *out = pair[0];
        return pid;
}

/* A finding is counted; what is none is an error of the program: what it does not start for. */
static void take_line(struct cli_report *report, char *line)
{
        char text[LINE_MAX_BYTES];

        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "ok    ", 6) != 0 && strncmp(line, "note  ", 6) != 0 && strncmp(line, "MEND  ", 6) != 0 && strncmp(line, "      ", 6) != 0) {
                cli_find(report, CLI_MEND, "settings", "millraced does not start with them", "%s", line);
                return;
        }
        report->notes += line[0] == 'n';
        report->mends += line[0] == 'M';
        printf("%s\n", cli_printable(stdout, line, text, sizeof(text)));
        fflush(stdout);
}

void cli_doctor_cluster(struct cli_report *report, const char *settings)
{
        char line[LINE_MAX_BYTES];
        int out = -1, status = 0;
        pid_t pid = doctor_start(settings, &out);
        FILE *in = pid > 0 ? fdopen(out, "r") : NULL;

        if (in == NULL) {
                cli_find(report, CLI_MEND, "settings", NULL, "millraced cannot be started: %s", strerror(errno));
                if (pid <= 0)
                        return;
                close(out);
        }
        while (in != NULL && fgets(line, sizeof(line), in) != NULL)
                take_line(report, line);
        if (in != NULL)
                fclose(in);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
                cli_find(report, CLI_MEND, "settings", "install it beside this program, or in the PATH", "millraced is not there");
        else if (!WIFEXITED(status))
                cli_find(report, CLI_MEND, "settings", NULL, "millraced was ended by signal %d", WTERMSIG(status));
}
