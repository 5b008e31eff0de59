/*
 * logfile.c - the files of the log.
 *
 * log.c appends to the newest, replay.c reads them all, the drive frees those in which nothing
 * lives. A file is made ahead by a worker, full of zeroes; it is begun when its header is written
 * together with its first batch (log.c), because only then is the checksum known that chains it to
 * the file before. A file whose header is not valid has not been begun.
 *
 * The set belongs to the owner loop; the functions marked blocking touch nothing but their
 * arguments.
 */
#include "engine/drive/logfile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ec.h"
#include "engine/drive/drive.h"
#include "engine/drive/local.h"
#include "engine/drive/replay.h"

#define ZERO_STEP (1u << 20)

void eng_logfile_name(char name[ENG_LOGFILE_NAME_MAX], uint64_t number)
{
        snprintf(name, ENG_LOGFILE_NAME_MAX, "%016llx.log", (unsigned long long)number);
}

bool eng_logfile_number(const char *name, uint64_t *number)
{
        char again[ENG_LOGFILE_NAME_MAX];

        *number = strtoull(name, NULL, 16);
        eng_logfile_name(again, *number);
        return strcmp(name, again) == 0 && *number <= ENG_LOGFILE_LAST;
}

/* ---- making files ---------------------------------------------------------------------------- */

void eng_logfile_header(struct fmt_log_header *out, const struct eng_log_ident *ident, uint64_t prev_file,
                        uint32_t prev_crc, uint64_t prev_end)
{
        memset(out, 0, sizeof(*out));
        out->version = FMT_LAYOUT_VERSION;
        memcpy(out->drive_id, ident->drive_id, FMT_ID);
        out->file = ident->file;
        out->generation = ident->generation;
        out->prev_file = prev_file;
        out->prev_crc = prev_crc;
        out->prev_end = prev_end;
        eng_log_header_seal(out);
}

static size_t build_first(uint8_t *bytes, const uint8_t drive_id[FMT_ID], const void *epoch_body, size_t epoch_len)
{
        struct eng_log_ident ident = {.file = 1};
        struct fmt_record rec = {.type = FMT_RECORD_EPOCH, .position = FMT_BLOCK, .batch = FMT_BLOCK};
        struct fmt_epoch epoch;

        memcpy(&epoch, epoch_body, sizeof(epoch));
        memcpy(ident.drive_id, drive_id, FMT_ID);
        lp_random(&ident.generation, sizeof(ident.generation));
        eng_logfile_header((struct fmt_log_header *)bytes, &ident, 0, 0, 0);
        memcpy(rec.drive_id, drive_id, FMT_ID);
        rec.file = ident.file;
        rec.generation = ident.generation;
        rec.epoch = epoch.number;
        rec.time_ms = (uint64_t)lp_wall_ms();
        rec.body_len = (uint32_t)epoch_len;
        rec.body_crc = era_crc32c(0, epoch_body, epoch_len);
        eng_rec_seal(&rec);
        memcpy(bytes + FMT_BLOCK, &rec, sizeof(rec));
        memcpy(bytes + FMT_BLOCK + sizeof(rec), epoch_body, epoch_len);
        return FMT_BLOCK + eng_round_up(eng_rec_size((uint32_t)epoch_len), FMT_BLOCK);
}

static int write_all(int fd, const uint8_t *bytes, size_t len, uint64_t offset)
{
        ssize_t n;

        while (len > 0) {
                n = pwrite(fd, bytes, len, (off_t)offset);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                bytes += n;
                len -= (size_t)n;
                offset += (uint64_t)n;
        }
        return 0;
}

int eng_logfile_make_first(int dir_fd, const uint8_t drive_id[FMT_ID], const void *epoch_body, size_t epoch_len)
{
        uint8_t *bytes;
        size_t len;
        int fd, rv;

        if (eng_rec_check_epoch(epoch_body, epoch_len) != 0)
                return -EINVAL;
        bytes = calloc(1, 3 * FMT_BLOCK + epoch_len);
        if (bytes == NULL)
                return -ENOMEM;
        len = build_first(bytes, drive_id, epoch_body, epoch_len);
        assert(len <= 3 * FMT_BLOCK + epoch_len);
        fd = openat(dir_fd, ENG_LOGFILE_FIRST_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0) {
                rv = -errno;
                goto out_free;
        }
        rv = write_all(fd, bytes, len, 0);
        if (rv == 0 && fsync(fd) != 0)
                rv = -errno;
        if (rv == 0 && fsync(dir_fd) != 0)
                rv = -errno;
        close(fd);
out_free:
        free(bytes);
        return rv;
}

static int logfile_open_direct(int dir_fd, const char *name, int flags)
{
        int fd = openat(dir_fd, name, flags | O_DIRECT | O_CLOEXEC, 0600);

        if (fd < 0 && errno == EINVAL) /* a file system without it (tmpfs): the same, by way of the page cache */
                fd = openat(dir_fd, name, flags | O_CLOEXEC, 0600);
        return fd < 0 ? -errno : fd;
}

int eng_logfile_open_write(int dir_fd, uint64_t number)
{
        char name[ENG_LOGFILE_NAME_MAX];

        eng_logfile_name(name, number);
        return logfile_open_direct(dir_fd, name, O_WRONLY);
}

static int fill_with_zeroes(int fd, uint64_t bytes)
{
        uint64_t at, n;
        void *zeroes;
        int rv = 0;

        zeroes = mmap(NULL, ZERO_STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (zeroes == MAP_FAILED)
                return -ENOMEM;
        for (at = 0; at < bytes && rv == 0; at += n) {
                n = bytes - at < ZERO_STEP ? bytes - at : ZERO_STEP;
                rv = write_all(fd, zeroes, n, at);
        }
        munmap(zeroes, ZERO_STEP);
        return rv;
}

int eng_logfile_prepare(int dir_fd, uint64_t number, uint64_t bytes, bool written)
{
        char name[ENG_LOGFILE_NAME_MAX], new_name[ENG_LOGFILE_NAME_MAX];
        int fd, rv;

        assert(bytes > 0 && bytes % FMT_BLOCK == 0);
        eng_logfile_name(name, number);
        snprintf(new_name, sizeof(new_name), "%016llx.new", (unsigned long long)number);
        fd = logfile_open_direct(dir_fd, new_name, O_WRONLY | O_CREAT | O_TRUNC);
        if (fd < 0)
                return fd;
        rv = -posix_fallocate(fd, 0, (off_t)bytes);
        if (rv == 0 && written)
                rv = fill_with_zeroes(fd, bytes);
        if (rv == 0 && fsync(fd) != 0)
                rv = -errno;
        if (rv == 0 && renameat(dir_fd, new_name, dir_fd, name) != 0)
                rv = -errno;
        if (rv == 0 && fsync(dir_fd) != 0)
                rv = -errno;
        close(fd);
        if (rv != 0)
                unlinkat(dir_fd, new_name, 0);
        return rv;
}

/* ---- looking at one that the index knows ----------------------------------------------------- */

/*
 * While the drive serves, and somebody waits for a record of the file: as much is read as one batch
 * that is lost as well may hide, and nothing beyond a block that cannot be read, which may take the
 * drive half a minute each.
 */
static int salvage_generation(int dir_fd, const uint8_t drive_id[FMT_ID], uint64_t number, uint64_t *generation)
{
        struct eng_log_ident ident = {.file = number};
        struct eng_log_window window;
        int rv = eng_log_window_open(&window, dir_fd, number);

        if (rv != 0)
                return rv;
        memcpy(ident.drive_id, drive_id, FMT_ID);
        window.hasty = true;
        rv = eng_replay_generation(&window, &ident, FMT_BLOCK + ENG_REPLAY_REST_BYTES, generation);
        eng_log_window_close(&window);
        return rv == 0 || rv == -ENOENT ? -EBADMSG : rv;
}

int eng_logfile_look(int dir_fd, const uint8_t drive_id[FMT_ID], uint64_t number, uint64_t *generation)
{
        struct eng_replay_file file = {.number = number};
        int rv = eng_replay_header(dir_fd, drive_id, &file);

        if (rv == 0 && file.begun) {
                if (*generation == 0)
                        *generation = file.header.generation;
                return *generation == file.header.generation ? 0 : -EBADMSG;
        }
        if (eng_io_again(rv))
                return rv;
        return *generation != 0 ? -EBADMSG : salvage_generation(dir_fd, drive_id, number, generation);
}

/* ---- the set --------------------------------------------------------------------------------- */

struct eng_log_file *eng_log_files_add(struct eng_log_files *files, uint64_t number, uint64_t generation)
{
        struct eng_log_file *file, *before;

        assert(eng_log_files_find(files, number) == NULL);
        file = calloc(1, sizeof(*file));
        if (file == NULL)
                return NULL;
        file->number = number;
        file->generation = generation;
        eng_fd_init(&file->fd, ENG_FD_LOG);
        file->fd.checked = generation != 0;
        TAILQ_FOREACH_REVERSE(before, &files->list, eng_log_file_list, order)
        {
                if (before->number < number)
                        break;
        }
        if (before != NULL)
                TAILQ_INSERT_AFTER(&files->list, before, file, order);
        else
                TAILQ_INSERT_HEAD(&files->list, file, order);
        HASH_ADD(by_number, files->by_number, number, sizeof(file->number), file);
        files->count++;
        return file;
}

struct eng_log_file *eng_log_files_find(struct eng_log_files *files, uint64_t number)
{
        struct eng_log_file *file;

        HASH_FIND(by_number, files->by_number, &number, sizeof(number), file);
        return file;
}

void eng_log_files_init(struct eng_log_files *files)
{
        TAILQ_INIT(&files->list);
        TAILQ_INIT(&files->dirty);
}

void eng_log_file_touch(struct eng_log_files *files, struct eng_log_file *file)
{
        if (file->dirty)
                return;
        file->dirty = true;
        files->dirty_count++;
        TAILQ_INSERT_TAIL(&files->dirty, file, dirty_link);
}

static void clean_one(struct eng_log_files *files, struct eng_log_file *file)
{
        if (!file->dirty)
                return;
        assert(files->dirty_count > 0);
        file->dirty = false;
        files->dirty_count--;
        TAILQ_REMOVE(&files->dirty, file, dirty_link);
}

void eng_log_files_clean(struct eng_log_files *files)
{
        while (!TAILQ_EMPTY(&files->dirty))
                clean_one(files, TAILQ_FIRST(&files->dirty));
}

void eng_log_file_set_live(struct eng_log_files *files, struct eng_log_file *file, uint64_t names, uint64_t bytes)
{
        files->live_bytes += bytes - file->live_bytes;
        file->live_names = names;
        file->live_bytes = bytes;
}

void eng_log_files_remove(struct eng_log_files *files, struct eng_log_file *file)
{
        assert(file->pins == 0 && TAILQ_EMPTY(&file->fd.wants) && files->count > 0);
        eng_fd_close(&file->fd);
        files->live_bytes -= file->live_bytes;
        clean_one(files, file);
        TAILQ_REMOVE(&files->list, file, order);
        HASH_DELETE(by_number, files->by_number, file);
        files->count--;
        free(file);
}

void eng_log_files_close(struct eng_log_files *files)
{
        struct eng_log_file *file;

        while ((file = TAILQ_FIRST(&files->list)) != NULL) {
                file->pins = 0;
                eng_log_files_remove(files, file);
        }
        assert(files->count == 0 && files->dirty_count == 0 && files->by_number == NULL);
}
