/*
 * segment_file.c - files of segments: names, header blocks, and the blocking jobs (make ahead,
 * truncate, unlink).
 *
 * The jobs run on the drive's background thread and touch nothing but the job and the file system.
 * A file is made under another name and renamed when it is whole and durable, so a file of the
 * right name always had a good header.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ec.h"
#include "engine/drive/drive.h"
#include "engine/drive/segment_priv.h"
#include "loop.h"

static const char *const segment_suffixes[] = {[SEGMENT_WHOLE] = ".seg", [SEGMENT_NEW] = ".new"};

void segment_name(uint64_t id, enum segment_suffix suffix, char out[SEGMENT_NAME_MAX])
{
        snprintf(out, SEGMENT_NAME_MAX, "%016llx%s", (unsigned long long)id, segment_suffixes[suffix]);
}

int segment_name_parse(const char *name, uint64_t *id, enum segment_suffix *suffix)
{
        char again[SEGMENT_NAME_MAX];

        *id = strtoull(name, NULL, 16);
        for (*suffix = SEGMENT_WHOLE; *suffix <= SEGMENT_NEW; (*suffix)++) {
                segment_name(*id, *suffix, again);
                if (strcmp(name, again) == 0)
                        return 0;
        }
        return -EINVAL;
}

static uint32_t segment_header_crc(const struct fmt_segment_header *header)
{
        struct fmt_segment_header copy = *header;

        copy.crc = 0;
        return era_crc32c(0, &copy, sizeof(copy));
}

void segment_header_make(struct fmt_segment_header *header, const uint8_t drive_id[FMT_ID], uint64_t id,
                         uint64_t generation)
{
        memset(header, 0, sizeof(*header));
        header->magic = FMT_SEGMENT_MAGIC;
        header->version = FMT_LAYOUT_VERSION;
        memcpy(header->drive_id, drive_id, FMT_ID);
        header->segment = id;
        header->generation = generation;
        header->crc = segment_header_crc(header);
}

int segment_header_check(const struct fmt_segment_header *header, const uint8_t drive_id[FMT_ID], uint64_t id)
{
        if (header->magic != FMT_SEGMENT_MAGIC || header->crc != segment_header_crc(header) || header->generation == 0)
                return -EBADMSG;
        if (header->version > FMT_LAYOUT_VERSION)
                return -EPROTONOSUPPORT;
        if (memcmp(header->drive_id, drive_id, FMT_ID) != 0 || header->segment != id)
                return -ESTALE;
        return 0;
}

void eng_segment_file_name(uint64_t id, char *out, size_t cap)
{
        snprintf(out, cap, "%016llx%s", (unsigned long long)id, segment_suffixes[SEGMENT_WHOLE]);
}

int eng_segment_look(int fd, const uint8_t drive_id[FMT_ID], uint64_t id, uint64_t generation)
{
        struct fmt_segment_header header;
        int rv = segment_read(fd, &header, sizeof(header), 0);

        if (rv != 0)
                return rv == -ENODATA ? -EBADMSG : rv;
        rv = segment_header_check(&header, drive_id, id);
        return rv == 0 && header.generation == generation ? 0 : -EBADMSG;
}

int segment_read(int fd, void *buf, size_t len, uint64_t offset)
{
        size_t got = 0;
        ssize_t n;

        while (got < len) {
                n = pread(fd, (uint8_t *)buf + got, len - got, (off_t)(offset + got));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return -ENODATA;
                got += (size_t)n;
        }
        return 0;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static void close_one(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

void segment_close_all(int *read_fd, int *direct_fd, int *write_fd)
{
        close_one(read_fd);
        close_one(direct_fd);
        close_one(write_fd);
}

/* ---- making ---------------------------------------------------------------------------------- */

/*
 * Not every file system has O_DIRECT: there the page cache takes the writes, and fdatasync makes
 * them durable all the same.
 */
static int segment_open_direct(int dir_fd, const char *name)
{
        int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);

        if (fd < 0 && errno == EINVAL)
                fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        return fd < 0 ? -errno : fd;
}

static int file_extend(int fd, uint64_t bytes)
{
        int rv;

        if (fallocate(fd, 0, 0, (off_t)bytes) == 0)
                return 0;
        rv = -errno;
        if (rv != -EOPNOTSUPP) {
                /* some file systems keep what they got */
                return ftruncate(fd, 0) == 0 ? rv : -errno;
        }
        return ftruncate(fd, (off_t)bytes) == 0 ? 0 : -errno;
}

static int file_write_header(const struct eng_segment_job *job)
{
        void *block; /* aligned, for O_DIRECT */
        ssize_t n;
        int rv;

        rv = posix_memalign(&block, FMT_BLOCK, sizeof(struct fmt_segment_header));
        if (rv != 0)
                return -rv;
        segment_header_make(block, job->drive_id, job->id, job->generation);
        do
                n = pwrite(job->write_fd, block, sizeof(struct fmt_segment_header), 0);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                rv = -errno;
        else if (n != sizeof(struct fmt_segment_header))
                rv = -ENOSPC;
        free(block);
        return rv;
}

/* Never over a file that is there. */
static int file_rename(int dir_fd, const char *from, const char *to)
{
        if (renameat2(dir_fd, from, dir_fd, to, RENAME_NOREPLACE) == 0)
                return 0;
        if (errno != EINVAL && errno != ENOSYS)
                return -errno;
        if (linkat(dir_fd, from, dir_fd, to, 0) != 0)
                return -errno;
        return unlinkat(dir_fd, from, 0) == 0 ? 0 : -errno;
}

static int folder_sync(int dir_fd)
{
        return fsync(dir_fd) == 0 ? 0 : -errno;
}

static int prepare_file(struct eng_segment_job *job, const char *fresh, const char *whole)
{
        int rv;

        while ((rv = file_extend(job->write_fd, job->bytes)) == -ENOSPC && job->bytes / 2 >= ENG_SEGMENT_BYTES_MIN)
                job->bytes = job->bytes / 2 / FMT_BLOCK * FMT_BLOCK; /* a short one is better than none */
        if (rv == 0)
                rv = file_write_header(job);
        if (rv == 0 && fsync(job->write_fd) != 0)
                rv = -errno;
        if (rv != 0)
                return rv;
        rv = file_rename(job->dir_fd, fresh, whole);
        if (rv != 0)
                return rv;
        rv = folder_sync(job->dir_fd);
        if (rv != 0)
                unlinkat(job->dir_fd, whole, 0); /* or it would be in the way of the next one of that number */
        return rv;
}

void eng_segment_prepare_run(struct eng_segment_job *job)
{
        char fresh[SEGMENT_NAME_MAX], whole[SEGMENT_NAME_MAX];

        assert(job->write_fd < 0 && job->bytes >= ENG_SEGMENT_BYTES_MIN && job->bytes % FMT_BLOCK == 0);
        segment_name(job->id, SEGMENT_NEW, fresh);
        segment_name(job->id, SEGMENT_WHOLE, whole);
        do
                lp_random(&job->generation, sizeof(job->generation));
        while (job->generation == 0);
        job->write_fd = segment_open_direct(job->dir_fd, fresh);
        if (job->write_fd < 0) {
                job->result = job->write_fd;
                return;
        }
        job->result = prepare_file(job, fresh, whole);
        if (job->result == 0)
                return;
        segment_close_all(&job->read_fd, &job->direct_fd, &job->write_fd);
        unlinkat(job->dir_fd, fresh, 0);
}

/* ---- giving back ----------------------------------------------------------------------------- */

void eng_segment_trim_run(struct eng_segment_job *job)
{
        char whole[SEGMENT_NAME_MAX];

        assert(job->end >= SEGMENT_FIRST_FRAME && job->end <= job->bytes); /* it does not grow */
        if (job->write_fd < 0) { /* it was active when the process before this one ended */
                segment_name(job->id, SEGMENT_WHOLE, whole);
                job->write_fd = openat(job->dir_fd, whole, O_WRONLY | O_CLOEXEC);
        }
        if (job->write_fd < 0) {
                job->result = -errno;
                return;
        }
        job->result = ftruncate(job->write_fd, (off_t)job->end) == 0 ? 0 : -errno;
        close(job->write_fd);
        job->write_fd = -1;
}

/*
 * A file that was never opened goes by what the index says of it: only if it is the file that the
 * index means.
 */
static int unlink_look(const struct eng_segment_job *job, const char *name)
{
        int fd = eng_fd_open_plain(job->dir_fd, name), rv;

        if (fd < 0)
                return fd == -ENOENT ? 0 : fd;
        rv = eng_segment_look(fd, job->drive_id, job->id, job->generation);
        close(fd);
        return rv == -EIO ? -EBADMSG : rv;
}

void eng_segment_unlink_run(struct eng_segment_job *job)
{
        char whole[SEGMENT_NAME_MAX];

        segment_name(job->id, SEGMENT_WHOLE, whole);
        segment_close_all(&job->read_fd, &job->direct_fd, &job->write_fd);
        job->result = job->look ? unlink_look(job, whole) : 0;
        if (job->result != 0)
                return;
        job->result = unlinkat(job->dir_fd, whole, 0) == 0 || errno == ENOENT ? 0 : -errno;
        if (eng_io_full(job->result))
                job->result = -EAGAIN; /* nothing was done */
        if (job->result == 0)
                job->result = folder_sync(job->dir_fd);
}
