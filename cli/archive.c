/*
 * archive.c - a POSIX ustar archive, compressed with gzip by ISA-L, which is linked for its other
 * half anyway. For bundles of a few megabytes: all of it is in memory until it is written.
 */
#include "archive.h"

#include <errno.h>
#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 512u

/* The header of one file, as POSIX has it. */
struct tar_header {
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, linkname[100], magic[6], version[2],
                uname[32], gname[32], device_major[8], device_minor[8], prefix[155], unused[12];
};

_Static_assert(sizeof(struct tar_header) == BLOCK, "the header is one block");

/* owner: the main thread */
struct cli_archive {
        char folder[64];
        int64_t time_s;
        FILE *tar; /* to the two below */
        char *bytes;
        size_t len;
};

struct cli_archive *cli_archive_new(const char *folder, int64_t time_s)
{
        struct cli_archive *archive = calloc(1, sizeof(*archive));

        if (archive == NULL)
                return NULL;
        snprintf(archive->folder, sizeof(archive->folder), "%s", folder);
        archive->time_s = time_s;
        archive->tar = open_memstream(&archive->bytes, &archive->len);
        if (archive->tar != NULL)
                return archive;
        free(archive);
        return NULL;
}

static void seal(struct tar_header *header)
{
        const unsigned char *p = (const unsigned char *)header;
        unsigned sum = 0;

        memset(header->checksum, ' ', sizeof(header->checksum));
        for (size_t i = 0; i < sizeof(*header); i++)
                sum += p[i];
        snprintf(header->checksum, sizeof(header->checksum), "%06o", sum);
}

int cli_archive_add(struct cli_archive *archive, const char *name, const void *data, size_t len)
{
        static const char zeroes[BLOCK];
        struct tar_header header = {.mode = "0000600", .uid = "0000000", .gid = "0000000", .type = '0', .magic = "ustar", .version = "00"};

        if (snprintf(header.name, sizeof(header.name), "%s/%s", archive->folder, name) >= (int)sizeof(header.name))
                return -ENAMETOOLONG;
        snprintf(header.size, sizeof(header.size), "%011llo", (unsigned long long)len);
        snprintf(header.mtime, sizeof(header.mtime), "%011llo", (unsigned long long)archive->time_s);
        seal(&header);
        fwrite(&header, sizeof(header), 1, archive->tar);
        fwrite(data, 1, len, archive->tar);
        fwrite(zeroes, 1, (BLOCK - len % BLOCK) % BLOCK, archive->tar);
        return ferror(archive->tar) ? -ENOMEM : 0;
}

/* *out is the caller's. */
static int archive_compress(const char *bytes, size_t len, uint8_t **out, size_t *out_len)
{
        size_t room = len + len / 100 + 4096; /* what does not shrink is stored, with a few bytes for each 64 KiB */
        struct isal_zstream *stream = malloc(sizeof(*stream));
        uint8_t *buf = malloc(room);
        int rv = -ENOMEM;

        if (stream != NULL && buf != NULL && len < UINT32_MAX / 2) {
                isal_deflate_stateless_init(stream);
                stream->next_in = (uint8_t *)(uintptr_t)bytes;
                stream->avail_in = (uint32_t)len;
                stream->next_out = buf;
                stream->avail_out = (uint32_t)room;
                stream->gzip_flag = IGZIP_GZIP;
                stream->end_of_stream = 1;
                rv = isal_deflate_stateless(stream) == COMP_OK ? 0 : -ENOMEM;
                *out_len = stream->total_out;
        }
        free(stream);
        if (rv == 0)
                *out = buf;
        else
                free(buf);
        return rv;
}

static int archive_write_all(int fd, const uint8_t *bytes, size_t len)
{
        while (len > 0) {
                ssize_t n = write(fd, bytes, len);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                bytes += n;
                len -= (size_t)n;
        }
        return 0;
}

static int archive_write_file(const char *path, const uint8_t *bytes, size_t len)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        int rv;

        if (fd < 0)
                return -errno;
        rv = archive_write_all(fd, bytes, len);
        if (close(fd) != 0 && rv == 0)
                rv = -errno;
        if (rv != 0)
                unlink(path);
        return rv;
}

int cli_archive_write(struct cli_archive *archive, const char *path)
{
        static const char end[2 * BLOCK];
        uint8_t *bytes = NULL;
        size_t len = 0;
        bool failed;
        int rv;

        fwrite(end, sizeof(end), 1, archive->tar);
        failed = ferror(archive->tar) != 0;
        failed |= fclose(archive->tar) != 0;
        archive->tar = NULL;
        rv = failed ? -ENOMEM : archive_compress(archive->bytes, archive->len, &bytes, &len);
        if (rv == 0)
                rv = archive_write_file(path, bytes, len);
        free(bytes);
        return rv;
}

void cli_archive_free(struct cli_archive *archive)
{
        if (archive == NULL)
                return;
        if (archive->tar != NULL)
                fclose(archive->tar);
        free(archive->bytes);
        free(archive);
}
