/*
 * doctor_node.c - what doctor finds out of a node of a cluster: `millraced --doctor-cluster` looks, which has the settings, and
 * prints findings as they are printed here; and what the node says of its way to the leader. Main thread only.
 */
#include "command_admin.h"
#include "doctor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048
#define ROUND_TRIP_MS  10.0
#define RATE_MB        100.0 /* of 1 MiB at a time, the call included */
#define SKEW_S         1.0

/* A finding is counted; what is none is an error of the program: what it does not start for. True: it says that this is a node. */
static bool take_line(struct cli_report *report, char *line)
{
        char text[LINE_MAX_BYTES];

        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "ok    ", 6) != 0 && strncmp(line, "note  ", 6) != 0 && strncmp(line, "MEND  ", 6) != 0 && strncmp(line, "      ", 6) != 0) {
                cli_find(report, CLI_MEND, "settings", "millraced does not start with them", "%s", line);
                return false;
        }
        report->notes += line[0] == 'n';
        report->mends += line[0] == 'M';
        printf("%s\n", cli_printable(stdout, line, text, sizeof(text)));
        fflush(stdout);
        return strncmp(line, "ok    node  ", 12) == 0;
}

bool cli_doctor_node(struct cli_report *report, const char *settings)
{
        char line[LINE_MAX_BYTES];
        int out = -1, status = 0;
        pid_t pid = cli_start_daemon(settings, "--doctor-cluster", CLI_DAEMON_SAYS, &out);
        FILE *in = pid > 0 ? fdopen(out, "r") : NULL;
        bool is_node = false;

        if (in == NULL) {
                cli_find(report, CLI_MEND, "settings", NULL, "millraced cannot be started: %s", strerror(errno));
                if (pid <= 0)
                        return false;
                close(out);
        }
        while (in != NULL && fgets(line, sizeof(line), in) != NULL)
                is_node |= take_line(report, line);
        if (in != NULL)
                fclose(in);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
                cli_find(report, CLI_MEND, "settings", "install it beside this program, or in the PATH", "millraced is not there");
        else if (!WIFEXITED(status))
                cli_find(report, CLI_MEND, "settings", NULL, "millraced was ended by signal %d", WTERMSIG(status));
        return is_node;
}

static void find_measured(struct cli_report *report, const json_t *answer, const json_t *measured)
{
        const double ms = (double)cli_json_number(measured, "round_trip_us") / 1000, rate = (double)cli_json_number(measured, "bytes_per_second") / 1e6;
        const double ahead = (double)json_integer_value(json_object_get(measured, "clock_ahead_ms")) / 1000;

        cli_find(report, ms < ROUND_TRIP_MS ? CLI_GOOD : CLI_NOTE, "to the leader", "every change waits for such round trips: nodes belong at one site",
                 "node %s to %s: a call takes %.2f ms", cli_json_text(answer, "node"), cli_json_text(answer, "leader_name"), ms);
        cli_find(report, rate >= RATE_MB ? CLI_GOOD : CLI_NOTE, "  rate", "is the network between nodes one of 10 Gbit/s?", "%.0f MB/s from there to here, one call after the other", rate);
        cli_find(report, ahead < SKEW_S && ahead > -SKEW_S ? CLI_GOOD : CLI_NOTE, "  its clock", "let a time service set all clocks", "%+.3f s from this node's", ahead);
}

/* What the running node says of its own way there; the ways of others are measured where they are asked. */
void cli_doctor_leader(struct cli_report *report, struct mr_client *client)
{
        static const char *const query[] = {"measure", "yes", NULL};
        struct mr_reply reply;
        struct mr_error err;
        json_t *answer, *measured;

        if (mr_admin(client, "GET", "/admin/v1/cluster", query, &reply, &err) != 0) {
                cli_find(report, CLI_NOTE, "to the leader", "name this node's admin address with --admin", "not measured: the admin listener does not answer: %s", err.message);
                return;
        }
        answer = json_loadb(reply.body, reply.body_len, 0, NULL);
        measured = json_object_get(answer, "measured");
        if (reply.status != 200)
                cli_find(report, CLI_NOTE, "to the leader", reply.status == 403 ? "root credentials, or a user's who may do it, are needed" : "is that this node's admin address?",
                         "not measured: the admin listener answers HTTP %d %s", reply.status, cli_json_text(answer, "message"));
        else if (!json_is_object(measured))
                cli_find(report, CLI_MEND, "to the leader", "millrace admin cluster status says who is there", "not measured: node %s: %s", cli_json_text(answer, "node"),
                         cli_json_text(answer, "pool_reason"));
        else if (strcmp(cli_json_text(answer, "node"), cli_json_text(answer, "leader_name")) == 0)
                cli_find(report, CLI_GOOD, "to the leader", NULL, "not measured: this node, %s, leads; the other nodes measure their ways to it", cli_json_text(answer, "node"));
        else
                find_measured(report, answer, measured);
        json_decref(answer);
        mr_reply_free(&reply);
}
