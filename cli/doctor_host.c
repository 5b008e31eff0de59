/*
 * doctor_host.c - what doctor finds out of the machine: kernel, io_uring (by making a ring, not by
 * version numbers), limits, RDMA devices, the clock. Main thread only.
 */
#include "doctor.h"

#include "rdma_transport.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <liburing.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <sys/utsname.h>

/* ---- kernel ---------------------------------------------------------------------------------- */

/* The operations the daemon's loops submit. */
static const struct {
        int op;
        const char *name;
} needed_ops[] = {
        {IORING_OP_READ, "READ"},
        {IORING_OP_WRITE, "WRITE"},
        {IORING_OP_READ_FIXED, "READ_FIXED"},
        {IORING_OP_WRITE_FIXED, "WRITE_FIXED"},
        {IORING_OP_FSYNC, "FSYNC"},
};

static void find_ops(struct cli_report *report, struct io_uring *ring)
{
        struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
        char missing[128] = "";

        if (probe == NULL) {
                cli_find(report, CLI_MEND, "io_uring ops", "use Linux 6.1 or newer",
                         "the kernel cannot be asked for them");
                return;
        }
        for (size_t i = 0; i < sizeof(needed_ops) / sizeof(needed_ops[0]); i++) {
                if (io_uring_opcode_supported(probe, needed_ops[i].op))
                        continue;
                strncat(missing, " ", sizeof(missing) - strlen(missing) - 1);
                strncat(missing, needed_ops[i].name, sizeof(missing) - strlen(missing) - 1);
        }
        io_uring_free_probe(probe);
        if (missing[0] != '\0')
                cli_find(report, CLI_MEND, "io_uring ops", "use Linux 6.1 or newer", "missing:%s", missing);
        else
                cli_find(report, CLI_GOOD, "io_uring ops", NULL, "all %zu that are used",
                         sizeof(needed_ops) / sizeof(needed_ops[0]));
}

/*
 * Registered memory counts against RLIMIT_MEMLOCK for an unprivileged user: 8 MiB shows whether it
 * is the default of old.
 */
static void find_buffers(struct cli_report *report, struct io_uring *ring)
{
        static char memory[8 << 20] __attribute__((aligned(4096)));
        struct iovec buffer = {memory, sizeof(memory)};
        int rv = io_uring_register_buffers(ring, &buffer, 1);

        if (rv == 0) {
                io_uring_unregister_buffers(ring);
                cli_find(report, CLI_GOOD, "io_uring buffers", NULL, "8 MiB registered");
        } else {
                cli_find(report, CLI_MEND, "io_uring buffers",
                         "raise the memlock limit: LimitMEMLOCK= in the unit, or ulimit -l",
                         "cannot register 8 MiB: %s", strerror(-rv));
        }
}

static void find_flags(struct cli_report *report)
{
        struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
        struct io_uring ring;
        int rv = io_uring_queue_init_params(8, &ring, &params);

        if (rv != 0) {
                cli_find(report, CLI_NOTE, "io_uring flags", "Linux 6.1 or newer does more work with less CPU",
                         "no SINGLE_ISSUER and DEFER_TASKRUN: %s", strerror(-rv));
                return;
        }
        io_uring_queue_exit(&ring);
        cli_find(report, CLI_GOOD, "io_uring flags", NULL, "SINGLE_ISSUER and DEFER_TASKRUN");
}

void cli_doctor_kernel(struct cli_report *report)
{
        struct utsname name;
        struct io_uring ring;
        int major = 0, minor = 0, rv;

        uname(&name);
        if (sscanf(name.release, "%d.%d", &major, &minor) == 2 && (major > 6 || (major == 6 && minor >= 1)))
                cli_find(report, CLI_GOOD, "kernel", NULL, "%s %s", name.sysname, name.release);
        else
                cli_find(report, CLI_NOTE, "kernel", "6.1 (Debian 12) is the oldest that is tested", "%s %s",
                         name.sysname, name.release);
        rv = io_uring_queue_init(8, &ring, 0);
        if (rv != 0) {
                cli_find(report, CLI_MEND, "io_uring",
                         rv == -EPERM
                                 ? "allow it: sysctl kernel.io_uring_disabled=0; in a container, its seccomp profile"
                                 : "use a kernel with io_uring, Linux 6.1 or newer",
                         "cannot make a ring: %s", strerror(-rv));
                return;
        }
        cli_find(report, CLI_GOOD, "io_uring", NULL, "a ring was made");
        find_ops(report, &ring);
        find_buffers(report, &ring);
        io_uring_queue_exit(&ring);
        find_flags(report);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void limit_text(char *out, size_t size, rlim_t value, bool bytes)
{
        if (value == RLIM_INFINITY)
                snprintf(out, size, "unlimited");
        else if (bytes)
                cli_format_bytes(out, size, value);
        else
                snprintf(out, size, "%llu", (unsigned long long)value);
}

void cli_doctor_limits(struct cli_report *report)
{
        struct rlimit memlock, files;
        char soft[32], hard[32];

        getrlimit(RLIMIT_MEMLOCK, &memlock);
        getrlimit(RLIMIT_NOFILE, &files);
        limit_text(soft, sizeof(soft), memlock.rlim_cur, true);
        cli_find(report, memlock.rlim_cur >= 512ul << 20 ? CLI_GOOD : CLI_NOTE, "memlock limit",
                 "an unprivileged daemon registers its buffers within it: LimitMEMLOCK=infinity in the unit", "%s",
                 soft);
        limit_text(soft, sizeof(soft), files.rlim_cur, false);
        limit_text(hard, sizeof(hard), files.rlim_max, false);
        cli_find(report,
                 files.rlim_max >= 65536  ? CLI_GOOD
                 : files.rlim_max >= 4096 ? CLI_NOTE
                                          : CLI_MEND,
                 "open files", "10,000 connections need more: LimitNOFILE=65536 in the unit, or ulimit -n",
                 "%s, may be raised to %s", soft, hard);
}

/* ---- RDMA ------------------------------------------------------------------------------------ */

static void read_line(const char *path, char *out, size_t size)
{
        FILE *file = fopen(path, "re");

        out[0] = '\0';
        if (file == NULL)
                return;
        if (fgets(out, (int)size, file) != NULL)
                out[strcspn(out, "\n")] = '\0';
        fclose(file);
}

/* The rights schemes that a device can serve, narrowest first. */
static const char *schemes(unsigned rights, char *out, size_t size)
{
        snprintf(out, size, "%s%s%s%s", rights & RDX_RIGHTS_WINDOW2 ? " window2" : "",
                 rights & RDX_RIGHTS_WINDOW1 ? " window1" : "", rights & RDX_RIGHTS_REGION ? " region" : "",
                 rights == 0 ? " none" : "");
        return out;
}

/* A GID that holds an IPv4 address reads as one. */
static const char *gid_text(const uint8_t gid[RDX_GID_LEN], char out[INET6_ADDRSTRLEN])
{
        return inet_ntop(AF_INET6, gid, out, INET6_ADDRSTRLEN) != NULL ? out : "?";
}

static void say_device(void *arg, const struct rdx_device_info *device)
{
        char gid[INET6_ADDRSTRLEN], text[64];

        cli_find(arg, device->up ? CLI_GOOD : CLI_NOTE, "RDMA by verbs", "its link is down: see rdma link, ibv_devinfo",
                 "%s: %s, GID %s, MTU %u; windows: type 1 %s, type 2 %s; DC %s; on-demand paging %s; rights:%s",
                 device->name, device->link, gid_text(device->gid, gid), device->mtu, device->window1 ? "yes" : "no",
                 device->window2 ? "yes" : "no", device->dc ? "yes" : "no", device->on_demand_paging ? "yes" : "no",
                 schemes(device->rights, text, sizeof(text)));
}

void cli_doctor_verbs(struct cli_report *report)
{
        int rv = rdx_verbs()->devices(say_device, report);

        if (rv == -ENOSYS)
                cli_find(report, CLI_NOTE, "RDMA by verbs",
                         "packages libibverbs1 and librdmacm1, where there is a device", "the libraries are not there");
        else if (rv < 0)
                cli_find(report, CLI_NOTE, "RDMA by verbs", NULL, "no devices can be listed: %s", strerror(-rv));
        else if (rv == 0)
                cli_find(report, CLI_NOTE, "RDMA by verbs", NULL, "no device");
}

void cli_doctor_rdma(struct cli_report *report, const char *class_folder)
{
        DIR *folder = opendir(class_folder != NULL ? class_folder : "/sys/class/infiniband");
        const struct dirent *entry;
        unsigned found = 0;

        while (folder != NULL && (entry = readdir(folder)) != NULL) {
                char path[1024], state[64], rate[64];

                if (entry->d_name[0] == '.')
                        continue;
                found++;
                snprintf(path, sizeof(path), "%s/%s/ports/1/state",
                         class_folder != NULL ? class_folder : "/sys/class/infiniband", entry->d_name);
                read_line(path, state, sizeof(state));
                snprintf(strrchr(path, '/'), 8, "/rate");
                read_line(path, rate, sizeof(rate));
                cli_find(report, strstr(state, "ACTIVE") != NULL ? CLI_GOOD : CLI_NOTE, "RDMA device",
                         "its port 1 is not active: see rdma link, ibv_devinfo", "%s: %s, %s", entry->d_name,
                         state[0] != '\0' ? state : "no port", rate[0] != '\0' ? rate : "no rate");
        }
        if (folder != NULL)
                closedir(folder);
        if (found == 0)
                cli_find(report, CLI_NOTE, "RDMA device", "none is needed: everything goes over TCP", "none");
}

/* ---- clock ----------------------------------------------------------------------------------- */

void cli_doctor_clock(struct cli_report *report)
{
        struct timex state = {0};
        struct timespec now;
        char when[32];

        clock_gettime(CLOCK_REALTIME, &now);
        cli_format_when(when, sizeof(when), now.tv_sec);
        if (now.tv_sec < 1735689600) { /* 2025: before this program was written */
                cli_find(report, CLI_MEND, "clock", "set it: signatures are refused beyond 15 minutes of difference",
                         "%s", when);
                return;
        }
        if (adjtimex(&state) == TIME_ERROR || (state.status & STA_UNSYNC) != 0)
                cli_find(report, CLI_NOTE, "clock", "run chrony or systemd-timesyncd, unless the host keeps the time",
                         "%s, not known to be synchronised", when);
        else
                cli_find(report, CLI_GOOD, "clock", NULL, "%s, synchronised", when);
}
