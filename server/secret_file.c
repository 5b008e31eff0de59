/*
 * secret_file.c - small files that hold secrets: read only where nobody else may, replaced in one
 * step.
 *
 * Called by the main thread; blocking.
 */
#include "server/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_SIZE_MAX 4096

static int check_file(int fd, const char *path, struct srv_error *error)
{
        struct stat st;

        if (fstat(fd, &st) != 0)
                return srv_fail(error, -errno, "%.300s: %s", path, strerror(errno));
        if (!S_ISREG(st.st_mode) || st.st_size > FILE_SIZE_MAX)
                return srv_fail(error, -EINVAL, "%.300s: is not a small file", path);
        if ((st.st_mode & 077) != 0)
                return srv_fail(error, -EPERM, "%.300s: others can read it or write to it (mode %04o): chmod 600 it",
                                path, st.st_mode & 07777u);
        return 0;
}

int srv_secret_open(const char *path, FILE **out, struct srv_error *error)
{
        int fd, rv;

        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return srv_fail(error, -errno, "%.300s: cannot open it: %s", path, strerror(errno));
        rv = check_file(fd, path, error);
        if (rv != 0) {
                close(fd);
                return rv;
        }
        *out = fdopen(fd, "r");
        if (*out != NULL)
                return 0;
        close(fd);
        return srv_fail(error, -ENOMEM, "%.300s: out of memory", path);
}

static int write_secret_text(int fd, const char *text)
{
        size_t len = strlen(text);
        ssize_t n;

        while (len > 0) {
                n = write(fd, text, len);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                text += n;
                len -= (size_t)n;
        }
        return fsync(fd) == 0 ? 0 : -errno;
}

/*
 * An operator may be root, and the daemon another user, who could not read a file of root's: whose
 * it was keeps it.
 */
static int give_to_owner(int fd, int dir, const char *name)
{
        struct stat st;

        if (geteuid() != 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
                return 0;
        return fchown(fd, st.st_uid, st.st_gid) == 0 ? 0 : -errno;
}

static int replace_file(int dir, const char *name, const char *text)
{
        char fresh[NAME_MAX + 1];
        int fd, rv;

        if (snprintf(fresh, sizeof(fresh), "%s.new", name) >= (int)sizeof(fresh))
                return -ENAMETOOLONG;
        if (unlinkat(dir, fresh, 0) != 0 && errno != ENOENT) /* of a start that was cut short */
                return -errno;
        fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        rv = give_to_owner(fd, dir, name);
        if (rv == 0)
                rv = write_secret_text(fd, text);
        close(fd);
        if (rv == 0 && renameat(dir, fresh, dir, name) != 0)
                rv = -errno;
        if (rv == 0 && fsync(dir) != 0)
                rv = -errno;
        if (rv != 0)
                unlinkat(dir, fresh, 0);
        return rv;
}

int srv_secret_write(const char *path, const char *text, struct srv_error *error)
{
        char folder[PATH_MAX], name[PATH_MAX];
        int dir, rv;

        if (strlen(path) >= PATH_MAX)
                return srv_fail(error, -ENAMETOOLONG, "%.300s: name is too long", path);
        strcpy(folder, path); /* dirname() and basename() write into what they are given */
        strcpy(name, path);
        dir = open(dirname(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return srv_fail(error, -errno, "%.300s: cannot write it: %s", path, strerror(errno));
        rv = replace_file(dir, basename(name), text);
        close(dir);
        return rv == 0 ? 0 : srv_fail(error, rv, "%.300s: cannot write it: %s", path, strerror(-rv));
}
