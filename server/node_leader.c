/*
 * node_leader.c - see node_leader.h: the node process's side.
 */
#include "server/node_leader.h"

#include "server/daemon.h"
#include "server/daemon_log.h"

#include "cluster_node.h"
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILLED_MS 200u /* that the end of one that is killed is waited for */

int srv_lead_parse(const char *text, struct srv_lead_spec *out)
{
        unsigned long long cluster_id, generation, random, silent;
        unsigned whole_stop, prepared;
        int end = -1;

        if (sscanf(text, "%u:%u:%u:%u:%" SCNd64 ":%u:%u:%llx:%llx:%llu:%llx:%" SCNd64 ":%d%n", &out->node, &out->pool, &out->pools, &out->leads, &out->leader_revision, &prepared, &whole_stop, &silent, &cluster_id,
                   &generation, &random, &out->seen.revision, &out->pair, &end) != 13 ||
            out->node < 1 || out->node > CL_NODE_LAST || out->pool < 1 || out->pool > CL_POOLS_MAX || out->leads < 1 || end < 0 || text[end] != '\0')
                return -EINVAL;
        out->prepared = prepared != 0;
        out->whole_stop = whole_stop != 0;
        out->silent = silent;
        out->seen.cluster_id = cluster_id;
        out->seen.generation.number = generation;
        out->seen.generation.random = random;
        return 0;
}

/* The settings that are in force, as a file that the leader process reads. */
static int settings_file(const struct srv_settings *settings, int *out)
{
        int fd = memfd_create("millrace.conf", MFD_CLOEXEC), rv;
        FILE *file = fd < 0 ? NULL : fdopen(dup(fd), "w");

        rv = file == NULL ? -errno : srv_settings_write(settings, file);
        if (file != NULL && fclose(file) != 0 && rv == 0)
                rv = -errno;
        if (rv != 0 && fd >= 0)
                close(fd);
        *out = fd;
        return rv;
}

void srv_node_leader_init(struct srv_node_leader *leader, unsigned pool)
{
        memset(leader, 0, sizeof(*leader));
        leader->pool = pool;
        leader->pair = -1;
}

/*
 * Not by fork(): that copies what loops have registered with the kernel, and the drives that this node serves would stand still
 * meanwhile. What a terminal sends to the node process comes to the other one through that, which is why it has a group of its
 * own.
 */
static int spawn_leader(char *const argv[], const int *fds, unsigned count, pid_t *out)
{
        posix_spawn_file_actions_t files;
        posix_spawnattr_t attributes;
        sigset_t signals;
        unsigned i;
        int rv = -posix_spawn_file_actions_init(&files);

        if (rv != 0)
                return rv;
        rv = -posix_spawnattr_init(&attributes);
        if (rv != 0) {
                posix_spawn_file_actions_destroy(&files);
                return rv;
        }
        srv_signals(&signals);
        posix_spawnattr_setsigmask(&attributes, &signals); /* one that is told to end before it has begun hands over as any other */
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
        for (i = 0; rv == 0 && i < count; i++)
                rv = -posix_spawn_file_actions_adddup2(&files, fds[i], fds[i]); /* it is not closed then */
        if (rv == 0)
                rv = -posix_spawn(out, "/proc/self/exe", &files, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&files);
        return rv;
}

int srv_node_leader_start(struct srv_node_leader *leader, const char *program, const struct srv_settings *settings, const struct srv_lead_spec *spec)
{
        char text[256], config[64];
        char *args[] = {(char *)(uintptr_t)program, config, text, NULL};
        int pair[2], file, rv = settings_file(settings, &file);

        if (rv != 0)
                return rv;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
                rv = -errno;
                close(file);
                return rv;
        }
        snprintf(config, sizeof(config), "--config=/proc/self/fd/%d", file);
        snprintf(text, sizeof(text), "--lead=%u:%u:%u:%u:%" PRId64 ":%u:%u:%llx:%llx:%llu:%llx:%" PRId64 ":%d", spec->node, spec->pool, spec->pools, spec->leads, spec->leader_revision,
                 spec->prepared ? 1u : 0u, spec->whole_stop ? 1u : 0u,
                 (unsigned long long)spec->silent, (unsigned long long)spec->seen.cluster_id, (unsigned long long)spec->seen.generation.number, (unsigned long long)spec->seen.generation.random,
                 spec->seen.revision, pair[1]);
        fcntl(pair[0], F_SETFL, O_NONBLOCK);
        rv = spawn_leader(args, (int[]){pair[1], file}, 2, &leader->pid);
        close(pair[1]);
        close(file);
        if (rv != 0) {
                close(pair[0]);
                leader->pid = 0;
                return rv;
        }
        leader->pair = pair[0];
        leader->idle = spec->prepared;
        leader->pools = spec->pools;
        leader->ends_by = 0;
        leader->leader_revision = spec->leader_revision;
        return 0;
}

void srv_node_leader_go(struct srv_node_leader *leader, const struct srv_lead_go *go)
{
        if (leader->pid == 0 || !leader->idle)
                return;
        leader->idle = false;
        leader->leader_revision = go->leader_revision;
        if (send(leader->pair, go, sizeof(*go), MSG_NOSIGNAL) != sizeof(*go)) /* it has ended, and is reaped soon */
                srv_log(SRV_LOG_WARNING, "the leader process cannot be told: %s", strerror(errno));
}

static void hear(struct srv_node_leader *leader)
{
        char said[16];
        ssize_t n, i;

        while (leader->pair >= 0 && (n = read(leader->pair, said, sizeof(said))) > 0)
                for (i = 0; i < n; i++) {
                        leader->waits |= said[i] == SRV_LEADER_WAITS;
                        leader->listens |= said[i] == SRV_LEADER_LISTENS;
                        leader->serves |= said[i] == SRV_LEADER_SERVES;
                        leader->whole = (leader->whole || said[i] == SRV_LEADER_WHOLE) && said[i] != SRV_LEADER_LACKS;
                }
}

/* "", or of which pool, where there are several. */
static const char *leader_of(const struct srv_node_leader *leader, char out[24])
{
        *out = '\0';
        if (leader->pools > 1)
                snprintf(out, 24, " of pool %u", leader->pool);
        return out;
}

/* It leads no more, and waits for nothing. True: it has only waited to lead. */
static bool leader_is_over(struct srv_node_leader *leader)
{
        const bool idle = leader->idle;

        hear(leader);
        if (!idle) { /* one that only waited has failed at nothing */
                leader->failures = leader->serves ? 0 : leader->failures + 1;
                leader->rest_until = lp_clock() + cl_elector_rest(leader->failures);
        }
        leader->listens = leader->serves = leader->whole = leader->waits = leader->idle = false;
        leader->ends_by = 0;
        return idle;
}

static void leader_reaped(struct srv_node_leader *leader, int status)
{
        const bool idle = !leader->killed && leader_is_over(leader);
        char of[24];

        close(leader->pair);
        leader->pair = -1;
        leader->pid = 0;
        leader->killed = false;
        if (idle)
                srv_log(SRV_LOG_INFO, "the process that waited to lead%s has ended", leader_of(leader, of));
        else if (WIFSIGNALED(status))
                srv_log(SRV_LOG_WARNING, "the leader process%s was ended by signal %d", leader_of(leader, of), WTERMSIG(status));
        else if (WEXITSTATUS(status) != 0)
                srv_log(SRV_LOG_INFO, "the leader process%s has ended (%d)", leader_of(leader, of), WEXITSTATUS(status));
        else
                srv_log(SRV_LOG_INFO, "the leader process%s has handed over", leader_of(leader, of));
}

/* Reaped if it has ended. */
static bool leader_has_ended(struct srv_node_leader *leader)
{
        int status;

        if (waitpid(leader->pid, &status, WNOHANG) != leader->pid)
                return false;
        leader_reaped(leader, status);
        return true;
}

void srv_node_leader_look(struct srv_node_leader *leader)
{
        if (leader->pid == 0)
                return;
        if (!leader->killed)
                hear(leader);
        if (!leader_has_ended(leader) && leader->ends_by != 0 && lp_clock() >= leader->ends_by)
                srv_node_leader_kill(leader, "it has not ended in time");
}

void srv_node_leader_signal(struct srv_node_leader *leader, int signo)
{
        if (leader->pid != 0)
                kill(leader->pid, signo);
}

void srv_node_leader_end(struct srv_node_leader *leader, uint64_t ms)
{
        if (leader->pid != 0 && !leader->killed && leader->ends_by == 0)
                leader->ends_by = lp_clock() + ms * 1000000ull;
        srv_node_leader_signal(leader, SIGTERM);
}

void srv_node_leader_kill(struct srv_node_leader *leader, const char *why)
{
        char of[24];
        unsigned ms;

        if (leader->pid == 0 || leader->killed)
                return;
        srv_log(SRV_LOG_INFO, "the leader process%s is ended: %s", leader_of(leader, of), why);
        kill(leader->pid, SIGKILL);
        for (ms = 0; ms < KILLED_MS; ms++) {
                if (leader_has_ended(leader))
                        return;
                usleep(1000);
        }
        srv_log(SRV_LOG_WARNING, "the leader process%s was killed, and does not end: the kernel holds it up", leader_of(leader, of));
        leader_is_over(leader);
        leader->killed = true;
}
