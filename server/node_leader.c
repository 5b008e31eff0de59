/*
 * node_leader.c - see node_leader.h: the node process's side.
 */
#include "server/node_leader.h"

#include "server/daemon_log.h"

#include "cluster_node.h"
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 1024

int srv_lead_parse(const char *text, struct srv_lead_spec *out)
{
        unsigned whole_stop;
        int end = -1;

        if (sscanf(text, "%u:%" SCNd64 ":%u:%d:%d:%d:%d%n", &out->pool, &out->leader_revision, &whole_stop, &out->pair, &out->s3, &out->plain, &out->admin, &end) != 7 ||
            end < 0 || text[end] != '\0')
                return -EINVAL;
        out->whole_stop = whole_stop != 0;
        return 0;
}

void srv_node_leader_init(struct srv_node_leader *leader)
{
        memset(leader, 0, sizeof(*leader));
        leader->pair = -1;
}

/* Between fork() and exec() of a process with threads: calls that are allowed in a signal handler alone. */
static void become_leader(char *const argv[], const int *fds, unsigned count, pid_t parent)
{
        sigset_t none;
        unsigned i;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        for (i = 0; i < count; i++)
                if (fds[i] >= 0)
                        fcntl(fds[i], F_SETFD, 0);
        execv("/proc/self/exe", argv);
        _exit(2);
}

int srv_node_leader_start(struct srv_node_leader *leader, char *const argv[], const struct srv_lead_spec *spec)
{
        char text[160], *args[ARGS_MAX + 2];
        int pair[2], fds[4], rv, i;
        pid_t parent = getpid();

        for (i = 0; argv[i] != NULL; i++) {
                if (i == ARGS_MAX)
                        return -E2BIG;
                args[i] = argv[i];
        }
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
                return -errno;
        snprintf(text, sizeof(text), "--lead=%u:%" PRId64 ":%u:%d:%d:%d:%d", spec->pool, spec->leader_revision, spec->whole_stop ? 1u : 0u, pair[1], spec->s3, spec->plain, spec->admin);
        args[i] = text;
        args[i + 1] = NULL;
        memcpy(fds, (int[]){pair[1], spec->s3, spec->plain, spec->admin}, sizeof(fds));
        fcntl(pair[0], F_SETFL, O_NONBLOCK);
        leader->pid = fork();
        if (leader->pid == 0)
                become_leader(args, fds, 4, parent);
        rv = leader->pid < 0 ? -errno : 0;
        close(pair[1]);
        if (rv != 0) {
                close(pair[0]);
                leader->pid = 0;
                return rv;
        }
        leader->pair = pair[0];
        leader->listens = leader->serves = false;
        leader->leader_revision = spec->leader_revision;
        return 0;
}

static void hear(struct srv_node_leader *leader)
{
        char said[16];
        ssize_t n, i;

        while (leader->pair >= 0 && (n = read(leader->pair, said, sizeof(said))) > 0)
                for (i = 0; i < n; i++) {
                        leader->listens |= said[i] == SRV_LEADER_LISTENS;
                        leader->serves |= said[i] == SRV_LEADER_SERVES;
                }
}

static void leader_reaped(struct srv_node_leader *leader, int status)
{
        hear(leader);
        close(leader->pair);
        leader->pair = -1;
        leader->pid = 0;
        leader->failures = leader->serves ? 0 : leader->failures + 1;
        leader->rest_until = lp_clock() + cl_elector_rest(leader->failures);
        leader->listens = leader->serves = false;
        if (WIFSIGNALED(status))
                srv_log(SRV_LOG_WARNING, "the leader process was ended by signal %d", WTERMSIG(status));
        else if (WEXITSTATUS(status) != 0)
                srv_log(SRV_LOG_INFO, "the leader process has ended (%d)", WEXITSTATUS(status));
        else
                srv_log(SRV_LOG_INFO, "the leader process has handed over");
}

void srv_node_leader_look(struct srv_node_leader *leader)
{
        int status;

        if (leader->pid == 0)
                return;
        hear(leader);
        if (waitpid(leader->pid, &status, WNOHANG) == leader->pid)
                leader_reaped(leader, status);
}

void srv_node_leader_signal(struct srv_node_leader *leader, int signo)
{
        if (leader->pid != 0)
                kill(leader->pid, signo);
}

void srv_node_leader_kill(struct srv_node_leader *leader, const char *why)
{
        int status;

        if (leader->pid == 0)
                return;
        srv_log(SRV_LOG_INFO, "the leader process is ended: %s", why);
        kill(leader->pid, SIGKILL);
        while (waitpid(leader->pid, &status, 0) < 0 && errno == EINTR)
                ;
        leader_reaped(leader, status);
}
