/*
 * doctor_node.c - what doctor finds out of a node of a cluster: `millraced --doctor-cluster` looks, which has the settings, and
 * prints findings as they are printed here; and what the node says of its way to the leader. Main thread only.
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
#define ROUND_TRIP_MS  10.0
#define RATE_MB        100.0 /* of 1 MiB at a time, the call included */
#define SKEW_S         1.0

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

void cli_doctor_node(struct cli_report *report, const char *settings)
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

/* Nothing is said where the admin listener is no node's, or takes no word of ours: that is told elsewhere. */
void cli_doctor_leader(struct cli_report *report, struct mr_client *client)
{
        static const char *const query[] = {"measure", "yes", NULL};
        struct mr_reply reply;
        struct mr_error err;
        json_t *answer, *measured;
        double ms, rate, ahead;

        if (mr_admin(client, "GET", "/admin/v1/cluster", query, &reply, &err) != 0)
                return;
        answer = reply.status == 200 ? json_loadb(reply.body, reply.body_len, 0, NULL) : NULL;
        measured = json_object_get(answer, "measured");
        if (answer != NULL && !json_is_object(measured))
                cli_find(report, CLI_MEND, "to the leader", "millrace admin cluster status says who is there", "node %s: %s", cli_json_text(answer, "node"),
                         cli_json_text(answer, "pool_reason"));
        if (json_is_object(measured)) {
                ms = (double)cli_json_number(measured, "round_trip_us") / 1000;
                rate = (double)cli_json_number(measured, "bytes_per_second") / 1e6;
                ahead = (double)json_integer_value(json_object_get(measured, "clock_ahead_ms")) / 1000;
                cli_find(report, ms < ROUND_TRIP_MS ? CLI_GOOD : CLI_NOTE, "to the leader", "every change waits for such round trips: nodes belong at one site",
                         "node %s to %s: a call takes %.2f ms", cli_json_text(answer, "node"), cli_json_text(answer, "leader_name"), ms);
                cli_find(report, rate >= RATE_MB ? CLI_GOOD : CLI_NOTE, "  rate", "is the network between nodes one of 10 Gbit/s?", "%.0f MB/s, one call after the other", rate);
                cli_find(report, ahead < SKEW_S && ahead > -SKEW_S ? CLI_GOOD : CLI_NOTE, "  its clock", "let a time service set all clocks", "%+.3f s from this node's", ahead);
        }
        json_decref(answer);
        mr_reply_free(&reply);
}
