/*
 * doctor_drive.c - what doctor finds out of one drive folder: its file system, space, and whether
 * the kinds of I/O that the engine uses work in it, tried on a file that is deleted again. Main
 * thread only.
 */
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

#define BLOCK  4096u
#define WRITES 16

static const struct {
        unsigned long magic;
        const char *name;
        enum cli_finding finding;
        const char *mend;
} file_systems[] = {
        {XFS_SUPER_MAGIC, "xfs", CLI_GOOD, NULL},
        {EXT4_SUPER_MAGIC, "ext4", CLI_GOOD, NULL},
        {BTRFS_SUPER_MAGIC, "btrfs", CLI_NOTE,
         "copy-on-write doubles the work of every durable write: use XFS or ext4"},
        {TMPFS_MAGIC, "tmpfs", CLI_MEND, "it is memory, and empty after a restart: use a real drive"},
        {OVERLAYFS_SUPER_MAGIC, "overlayfs", CLI_MEND, "a container's own layer is no drive: mount a volume"},
        {NFS_SUPER_MAGIC, "nfs", CLI_MEND, "use local drives: durability over NFS is the server's word"},
};

static void find_file_system(struct cli_report *report, const char *folder)
{
        struct statfs fs;
        char space[24], size[24];
        double free_part;
        size_t i;

        if (statfs(folder, &fs) != 0) {
                cli_find(report, CLI_MEND, "  file system", NULL, "%s", strerror(errno));
                return;
        }
        for (i = 0; i < sizeof(file_systems) / sizeof(file_systems[0]); i++)
                if (file_systems[i].magic == (unsigned long)fs.f_type)
                        break;
        if (i < sizeof(file_systems) / sizeof(file_systems[0]))
                cli_find(report, file_systems[i].finding, "  file system", file_systems[i].mend, "%s",
                         file_systems[i].name);
        else
                cli_find(report, CLI_NOTE, "  file system", "XFS and ext4 are the ones that are tested", "type 0x%lx",
                         (unsigned long)fs.f_type);
        cli_format_bytes(space, sizeof(space), (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize);
        cli_format_bytes(size, sizeof(size), (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize);
        free_part = fs.f_blocks > 0 ? (double)fs.f_bavail / (double)fs.f_blocks : 0;
        cli_find(report,
                 free_part >= 0.1    ? CLI_GOOD
                 : free_part >= 0.03 ? CLI_NOTE
                                     : CLI_MEND,
                 "  free space", "make room or add a drive: writes are refused when a drive is nearly full", "%s of %s",
                 space, size);
        if (fs.f_files > 0 && fs.f_ffree < 10000)
                cli_find(report, CLI_NOTE, "  inodes", "segments need a file each", "%llu left",
                         (unsigned long long)fs.f_ffree);
}

static double milliseconds_since(const struct timespec *start)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)(now.tv_sec - start->tv_sec) * 1e3 + (double)(now.tv_nsec - start->tv_nsec) / 1e6;
}

/*
 * The engine's way of making an append durable: one aligned write past the page cache that returns
 * when it is stable.
 */
static int try_durable_writes(int fd, void *block, double *mean_ms)
{
        struct iovec part = {block, BLOCK};
        struct timespec start;

        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int i = 0; i < WRITES; i++) {
                ssize_t n = pwritev2(fd, &part, 1, (off_t)i * BLOCK, RWF_DSYNC);

                if (n != (ssize_t)BLOCK)
                        return n < 0 ? -errno : -EIO;
        }
        *mean_ms = milliseconds_since(&start) / WRITES;
        return 0;
}

static void find_io(struct cli_report *report, int folder_fd)
{
        static const char name[] = ".millrace-doctor";
        double mean_ms = 0;
        void *block = NULL;
        int fd, rv;

        (void)unlinkat(folder_fd, name, 0); /* left by a doctor that was killed */
        fd = openat(folder_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_DIRECT, 0600);
        if (fd < 0) {
                rv = -errno;
                (void)unlinkat(folder_fd, name, 0); /* some file systems create the file and then refuse O_DIRECT */
                cli_find(report, CLI_MEND, "  O_DIRECT",
                         rv == -EINVAL ? "use a file system with O_DIRECT: XFS or ext4"
                                       : "the daemon's user must be able to write in the folder",
                         "cannot make a file: %s", strerror(-rv));
                return;
        }
        rv = posix_memalign(&block, BLOCK, BLOCK) != 0 ? -ENOMEM : 0;
        if (rv == 0) {
                memset(block, 0x5a, BLOCK);
                rv = try_durable_writes(fd, block, &mean_ms);
        }
        free(block);
        close(fd);
        (void)unlinkat(folder_fd, name, 0);
        if (rv != 0) {
                cli_find(report, CLI_MEND, "  durable writes", "O_DIRECT with RWF_DSYNC must work: use XFS or ext4",
                         "%s", strerror(-rv));
                return;
        }
        cli_find(report, CLI_GOOD, "  O_DIRECT", NULL, "works");
        cli_find(report, mean_ms < 20 ? CLI_GOOD : CLI_NOTE, "  durable writes",
                 "every acknowledgement waits for one of these: a faster drive makes faster uploads",
                 "RWF_DSYNC of 4 KiB takes %.2f ms", mean_ms);
}

/* What lies in the folder already: a store's drive, nothing, or something foreign. */
static void find_content(struct cli_report *report, int folder_fd)
{
        struct stat st;

        if (fstatat(folder_fd, "FORMAT", &st, 0) == 0)
                cli_find(report, CLI_GOOD, "  content", NULL, "a drive of a store");
        else
                cli_find(report, CLI_NOTE, "  content", "millraced --format makes a store of empty folders",
                         "no drive of a store yet");
}

void cli_doctor_drive(struct cli_report *report, const char *folder)
{
        int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0) {
                cli_find(report, CLI_MEND, "drive", "is the drive mounted, and the path right?", "%s: %s", folder,
                         strerror(errno));
                return;
        }
        cli_find(report, CLI_GOOD, "drive", NULL, "%s", folder);
        find_file_system(report, folder);
        find_content(report, fd);
        find_io(report, fd);
        close(fd);
}
