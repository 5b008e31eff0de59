/*
 * replay_file.c - reading one log file back: a window over it, the next record of the chain, and
 * what stands behind its end.
 *
 * The chain is unbroken only if each record is whole, stands where it says, in this generation of
 * this file, and names the checksum of the record before it. Where it ends, the question is whether
 * that is the end of the log or damage in it: batches are written one after the other, each durable
 * before the next begins, so a crash leaves at most one batch torn. Any record of a later batch
 * behind the break therefore proves that the broken one was whole once.
 */
#include "engine/drive/replay.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ec.h"
#include "engine/drive/drive.h"
#include "engine/drive/local.h"

#define WINDOW_BYTES (4u << 20)

/* ---- the window ------------------------------------------------------------------------------ */

int eng_log_window_open(struct eng_log_window *window, int dir_fd, uint64_t number)
{
        char name[ENG_LOGFILE_NAME_MAX];
        struct stat st;
        int rv;

        memset(window, 0, sizeof(*window));
        eng_logfile_name(name, number);
        window->fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
        if (window->fd < 0)
                return -errno;
        window->bytes = malloc(WINDOW_BYTES);
        rv = window->bytes == NULL ? -ENOMEM : fstat(window->fd, &st) != 0 ? -errno : 0;
        if (rv != 0)
                eng_log_window_close(window);
        else
                window->size = (uint64_t)st.st_size;
        return rv;
}

void eng_log_window_close(struct eng_log_window *window)
{
        if (window->fd >= 0)
                close(window->fd);
        free(window->bytes);
        window->bytes = NULL;
        window->fd = -1;
}

/*
 * A block that cannot be read is damage as one whose checksums are wrong: what stands in it is no
 * record, what stands behind it may be.
 */
static void fill_unreadable(struct eng_log_window *window)
{
        size_t end = window->len / FMT_BLOCK * FMT_BLOCK + FMT_BLOCK;

        assert(end <= WINDOW_BYTES);
        memset(window->bytes + window->len, 0, end - window->len);
        window->len = end;
        window->unreadable = window->start + window->len;
}

static int replay_file_fill(struct eng_log_window *window, uint64_t position)
{
        size_t want = WINDOW_BYTES;
        ssize_t n;

        window->start = position / FMT_BLOCK * FMT_BLOCK;
        window->len = 0;
        while (window->len < WINDOW_BYTES) {
                n = pread(window->fd, window->bytes + window->len,
                          want < WINDOW_BYTES - window->len ? want : WINDOW_BYTES - window->len,
                          (off_t)(window->start + window->len));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && !eng_io_unreadable(-errno))
                        return -errno;
                if (n < 0 && want > FMT_BLOCK) {
                        want = FMT_BLOCK; /* which one is it? */
                        continue;
                }
                if (n < 0 && !window->hasty) {
                        fill_unreadable(window);
                        continue;
                }
                if (n <= 0)
                        break;
                window->len += (size_t)n;
        }
        return 0;
}

int eng_log_window_at(struct eng_log_window *window, uint64_t position, size_t need, const uint8_t **out)
{
        int rv;

        assert(need + FMT_BLOCK <= WINDOW_BYTES);
        *out = NULL;
        if (position > window->size || window->size - position < need)
                return 0;
        if (position < window->start || position + need > window->start + window->len) {
                rv = replay_file_fill(window, position);
                if (rv != 0)
                        return rv;
        }
        if (position + need <= window->start + window->len)
                *out = window->bytes + (position - window->start);
        return 0;
}

/* ---- records --------------------------------------------------------------------------------- */

/* The record at exactly this position: 1, 0 or an errno. */
static int record_at(struct eng_log_window *window, const struct eng_log_ident *ident, uint64_t position,
                     uint32_t prev_crc, struct fmt_record *rec, const uint8_t **body)
{
        const uint8_t *bytes;
        int rv;

        rv = eng_log_window_at(window, position, sizeof(*rec), &bytes);
        if (rv != 0 || bytes == NULL)
                return rv;
        memcpy(rec, bytes, sizeof(*rec));
        if (!eng_rec_ok(rec, ident, position) || rec->prev_crc != prev_crc)
                return 0;
        rv = eng_log_window_at(window, position, sizeof(*rec) + rec->body_len, &bytes);
        if (rv != 0 || bytes == NULL)
                return rv;
        *body = bytes + sizeof(*rec);
        return era_crc32c(0, *body, rec->body_len) == rec->body_crc;
}

int eng_replay_next(struct eng_log_window *window, const struct eng_log_ident *ident, uint64_t *position,
                    uint32_t prev_crc, struct fmt_record *rec, const uint8_t **body)
{
        uint64_t block = eng_round_up(*position, FMT_BLOCK);
        int rv;

        rv = record_at(window, ident, *position, prev_crc, rec, body);
        if (rv != 0 || block == *position)
                return rv;
        rv = record_at(window, ident, block, prev_crc, rec, body);
        if (rv == 1)
                *position = block;
        return rv;
}

int eng_replay_rest(struct eng_log_window *window, const struct eng_log_ident *ident, bool any_generation,
                    uint64_t position, struct eng_log_rest *out)
{
        uint64_t torn = eng_round_up(position, FMT_BLOCK), at, end = torn + ENG_REPLAY_REST_BYTES;
        struct eng_log_ident own = *ident;
        struct fmt_record rec;
        const uint8_t *bytes;
        int rv;

        memset(out, 0, sizeof(*out));
        for (at = eng_round_up(position, FMT_RECORD_ALIGN); at < end; at += FMT_RECORD_ALIGN) {
                rv = eng_log_window_at(window, at, sizeof(rec), &bytes);
                if (rv != 0)
                        return rv;
                if (bytes == NULL)
                        break;
                memcpy(&rec, bytes, sizeof(rec));
                if (any_generation)
                        own.generation = rec.generation;
                if (rec.magic != FMT_RECORD_MAGIC || !eng_rec_ok(&rec, &own, at))
                        continue;
                out->records = true;
                if (rec.batch > torn && out->damage == 0)
                        out->damage = at;
        }
        /* Nobody knows what stood in a block that cannot be read: it may have been acknowledged. */
        if (out->damage == 0 && window->unreadable > position)
                out->damage = window->unreadable - FMT_BLOCK;
        return 0;
}

static int body_ok(struct eng_log_window *window, uint64_t position, const struct fmt_record *rec)
{
        const uint8_t *bytes;
        int rv = eng_log_window_at(window, position, sizeof(*rec) + rec->body_len, &bytes);

        if (rv != 0 || bytes == NULL)
                return rv;
        return era_crc32c(0, bytes + sizeof(*rec), rec->body_len) == rec->body_crc;
}

int eng_replay_resume(struct eng_log_window *window, const struct eng_log_ident *ident, uint64_t *position, uint64_t end,
                      struct fmt_record *rec, eng_replay_lost lost, void *arg)
{
        uint64_t at = eng_round_up(*position, FMT_RECORD_ALIGN);
        const uint8_t *bytes;
        int rv;

        for (;; at += FMT_RECORD_ALIGN) {
                if (at >= end)
                        return 0;
                rv = eng_log_window_at(window, at, sizeof(*rec), &bytes);
                if (rv != 0 || bytes == NULL)
                        return rv;
                memcpy(rec, bytes, sizeof(*rec));
                if (rec->magic != FMT_RECORD_MAGIC || !eng_rec_ok(rec, ident, at))
                        continue;
                rv = body_ok(window, at, rec);
                if (rv < 0)
                        return rv;
                if (rv == 1)
                        break;
                if (lost != NULL)
                        lost(arg, rec);
                at += eng_rec_size(rec->body_len) - FMT_RECORD_ALIGN;
        }
        *position = at;
        return 1;
}

int eng_replay_generation(struct eng_log_window *window, const struct eng_log_ident *ident, uint64_t end, uint64_t *out)
{
        struct eng_log_ident own = *ident;
        struct fmt_record rec;
        const uint8_t *bytes;
        uint64_t at;
        int rv;

        for (at = FMT_BLOCK; at < end; at += FMT_RECORD_ALIGN) {
                rv = eng_log_window_at(window, at, sizeof(rec), &bytes);
                if (rv != 0 || bytes == NULL)
                        return rv != 0 ? rv : -ENOENT;
                memcpy(&rec, bytes, sizeof(rec));
                own.generation = rec.generation;
                if (rec.magic != FMT_RECORD_MAGIC || !eng_rec_ok(&rec, &own, at))
                        continue;
                *out = rec.generation;
                return 0;
        }
        return -ENOENT;
}

/* ---- the folder ------------------------------------------------------------------------------ */

int eng_replay_header(int dir_fd, const uint8_t drive_id[FMT_ID], struct eng_replay_file *file)
{
        char name[ENG_LOGFILE_NAME_MAX];
        struct stat st = {.st_size = 0};
        ssize_t n;
        int fd, rv = 0;

        eng_logfile_name(name, file->number);
        fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        n = pread(fd, &file->header, sizeof(file->header), 0);
        if (n < 0 || fstat(fd, &st) != 0)
                rv = -errno;
        close(fd);
        if (rv != 0)
                return rv;
        file->size = (uint64_t)st.st_size;
        if (n != sizeof(file->header))
                return 0;
        if (!eng_log_header_ok(&file->header, file->header.drive_id))
                return 0;
        if (memcmp(file->header.drive_id, drive_id, FMT_ID) != 0)
                return -EBADMSG;
        if (file->header.version > FMT_LAYOUT_VERSION)
                return -EPROTONOSUPPORT;
        file->begun = file->header.file == file->number;
        return 0;
}

static int compare_files(const void *a, const void *b)
{
        const struct eng_replay_file *x = a, *y = b;

        return x->number < y->number ? -1 : x->number > y->number;
}

static int add_file(struct eng_replay_file **list, size_t *count, size_t *size, uint64_t number)
{
        size_t grown = *size == 0 ? 16 : 2 * *size;
        struct eng_replay_file *items;

        if (*count == *size) {
                items = realloc(*list, grown * sizeof(*items));
                if (items == NULL)
                        return -ENOMEM;
                *list = items;
                *size = grown;
        }
        memset(&(*list)[*count], 0, sizeof(**list));
        (*list)[(*count)++].number = number;
        return 0;
}

static int list_folder(int dir_fd, struct eng_replay_file **out, size_t *count)
{
        int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct dirent *entry;
        size_t size = 0;
        uint64_t number;
        DIR *dir;
        int rv = 0;

        dir = fd >= 0 ? fdopendir(fd) : NULL;
        if (dir == NULL) {
                rv = -errno;
                if (fd >= 0)
                        close(fd);
                return rv;
        }
        while (rv == 0) {
                const char *dot;

                errno = 0;
                entry = readdir(dir);
                if (entry == NULL) {
                        rv = -errno; /* a file that is not listed might be the newest, and be made anew */
                        break;
                }
                dot = strrchr(entry->d_name, '.');
                if (dot != NULL && strcmp(dot, ".new") == 0)
                        unlinkat(dir_fd, entry->d_name, 0); /* was being made when a process ended; nothing is in it */
                else if (eng_logfile_number(entry->d_name, &number))
                        rv = add_file(out, count, &size, number);
        }
        closedir(dir);
        return rv;
}

static int look_length(int dir_fd, struct eng_replay_file *file)
{
        char name[ENG_LOGFILE_NAME_MAX];
        struct stat st;

        eng_logfile_name(name, file->number);
        if (fstatat(dir_fd, name, &st, 0) != 0)
                return -errno;
        file->size = (uint64_t)st.st_size;
        file->begun = file->known = true;
        return 0;
}

/* Both lists ascend. */
static int replay_file_look_at_all(int dir_fd, const uint8_t drive_id[FMT_ID], const struct eng_replay_known *known,
                       struct eng_replay_file *files, size_t count, uint64_t *bad_number)
{
        size_t i, k = 0;
        int rv = 0;

        for (i = 0; i < count && rv == 0; i++) {
                while (k < known->count && known->numbers[k] < files[i].number)
                        k++;
                if (k < known->count && known->numbers[k] == files[i].number)
                        rv = look_length(dir_fd, &files[i]);
                else
                        rv = eng_replay_header(dir_fd, drive_id, &files[i]);
                *bad_number = files[i].number;
        }
        return rv;
}

int eng_replay_list(int dir_fd, const uint8_t drive_id[FMT_ID], const struct eng_replay_known *known,
                    struct eng_replay_file **out, size_t *count, uint64_t *bad_number)
{
        int rv;

        *out = NULL;
        *count = 0;
        *bad_number = 0;
        rv = list_folder(dir_fd, out, count);
        if (rv == 0 && *count > 0)
                qsort(*out, *count, sizeof(**out), compare_files);
        if (rv == 0)
                rv = replay_file_look_at_all(dir_fd, drive_id, known, *out, *count, bad_number);
        if (rv != 0) {
                free(*out);
                *out = NULL;
                *count = 0;
        }
        return rv;
}
