/*
 * fd_faults.c - see fd_faults.h. Used by unit tests of the drive, from the test's thread.
 */

#include "tests/lib/fd_faults.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void path_of(int fd, char path[512])
{
        char link[64];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, 511);
        path[n > 0 ? n : 0] = '\0';
}

static bool is_meant(int fd, const char *part)
{
        char path[512];

        path_of(fd, path);
        return strstr(path, part) != NULL && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

static void replace(struct fd_faults *faults, const char *part, int by)
{
        DIR *dir = opendir("/proc/self/fd");
        struct dirent *entry;
        int fd;

        assert(dir != NULL);
        faults->count = 0;
        while ((entry = readdir(dir)) != NULL) {
                fd = atoi(entry->d_name);
                if (entry->d_name[0] == '.' || !is_meant(fd, part))
                        continue;
                assert(faults->count < FD_FAULTS_MAX);
                faults->at[faults->count].fd = fd;
                faults->at[faults->count].before = dup(fd);
                assert(faults->at[faults->count].before >= 0);
                faults->count++;
                if (dup2(by, fd) != fd)
                        abort();
        }
        closedir(dir);
        assert(faults->count > 0);
        path_of(by, faults->stand_in);
}

void fd_faults_unreadable(struct fd_faults *faults, const char *part)
{
        int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);

        assert(mem >= 0);
        faults->pipe[0] = faults->pipe[1] = -1;
        replace(faults, part, mem);
        close(mem);
}

void fd_faults_hang(struct fd_faults *faults, const char *part)
{
        int rv = pipe2(faults->pipe, O_CLOEXEC);

        assert(rv == 0);
        replace(faults, part, faults->pipe[0]);
}

void fd_faults_feed(const struct fd_faults *faults, unsigned bytes)
{
        static const char nothing[4096];
        unsigned len;

        for (; bytes > 0; bytes -= len) {
                len = bytes < sizeof(nothing) ? bytes : sizeof(nothing);
                if (write(faults->pipe[1], nothing, len) != (ssize_t)len)
                        abort();
        }
}

/*
 * The drive may have closed a file meanwhile, and its number is another's: that one stays as it is.
 */
void fd_faults_end(struct fd_faults *faults)
{
        char path[512];
        unsigned i;

        for (i = 0; i < faults->count; i++) {
                path_of(faults->at[i].fd, path);
                if (strcmp(path, faults->stand_in) == 0 && dup2(faults->at[i].before, faults->at[i].fd) < 0)
                        abort();
                close(faults->at[i].before);
        }
        faults->count = 0;
        for (i = 0; i < 2; i++)
                if (faults->pipe[i] >= 0)
                        close(faults->pipe[i]);
}
