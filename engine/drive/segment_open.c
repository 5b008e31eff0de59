/*
 * segment_open.c - opening the segments a drive has, and reading the frames its index may not know.
 *
 * Called on the thread that opens the drive, before its loop runs; blocking. Every segment found is
 * sealed: one that was active at a crash may have frames beyond the last known one, and appending
 * behind them could overwrite what a record names (I3). Nothing is deleted here but half-made
 * files. Data past the last whole frame is left alone: a header that went bad is damage, not free
 * space.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/drive/frame.h"
#include "engine/drive/segment_priv.h"

#define SEGMENT_FILES_MAX (1u << 20)

static int __attribute__((format(printf, 3, 4))) fail(struct eng_error *error, int rv, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(error->text, sizeof(error->text), format, args);
        va_end(args);
        return rv;
}

/* ---- the folder ------------------------------------------------------------------------------ */

struct id_list {
        uint64_t *ids;
        size_t count, cap;
};

static int ids_add(struct id_list *list, uint64_t id)
{
        size_t cap = list->cap != 0 ? list->cap * 2 : 64;
        uint64_t *grown;

        if (list->count == SEGMENT_FILES_MAX)
                return -EMFILE;
        if (list->count == list->cap) {
                grown = realloc(list->ids, cap * sizeof(*grown));
                if (grown == NULL)
                        return -ENOMEM;
                list->ids = grown;
                list->cap = cap;
        }
        list->ids[list->count++] = id;
        return 0;
}

static int id_compare(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return (x > y) - (x < y);
}

/*
 * Numbers of the segment files, ascending. Half-made files go; other names are none of ours and are
 * left.
 */
static int folder_list(int dir_fd, struct id_list *list)
{
        enum segment_suffix suffix;
        struct dirent *entry;
        uint64_t id;
        int fd, rv = 0;
        DIR *dir;

        fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        dir = fdopendir(fd);
        if (dir == NULL) {
                rv = -errno;
                close(fd);
                return rv;
        }
        while (rv == 0 && (errno = 0, entry = readdir(dir)) != NULL) {
                if (segment_name_parse(entry->d_name, &id, &suffix) != 0)
                        continue;
                if (suffix == SEGMENT_WHOLE)
                        rv = ids_add(list, id);
                else if (unlinkat(dir_fd, entry->d_name, 0) != 0 && errno != ENOENT)
                        rv = -errno;
        }
        if (rv == 0 && errno != 0)
                rv = -errno;
        closedir(dir);
        if (rv == 0 && list->count > 0)
                qsort(list->ids, list->count, sizeof(*list->ids), id_compare);
        return rv;
}

/* ---- where data is --------------------------------------------------------------------------- */

/*
 * First byte at or after offset that may be data, down to a block; file_bytes when none is. File
 * systems without holes say: all of it.
 */
static uint64_t data_from(const struct eng_segment *segment, uint64_t offset)
{
        off_t at;

        if (offset >= segment->file_bytes)
                return segment->file_bytes;
        at = lseek(segment->fd.read_fd, (off_t)offset, SEEK_DATA);
        if (at < 0)
                return errno == ENXIO ? segment->file_bytes : offset;
        if ((uint64_t)at <= offset)
                return offset;
        return (uint64_t)at / FMT_BLOCK * FMT_BLOCK;
}

/* End of the last data of the file, up to a block. */
static uint64_t data_end(const struct eng_segment *segment)
{
        uint64_t at = SEGMENT_FIRST_FRAME, end = SEGMENT_FIRST_FRAME;
        off_t hole;

        for (;;) {
                at = data_from(segment, at);
                if (at >= segment->file_bytes)
                        return end;
                hole = lseek(segment->fd.read_fd, (off_t)at, SEEK_HOLE);
                if (hole < 0 || (uint64_t)hole <= at)
                        return segment->file_bytes / FMT_BLOCK * FMT_BLOCK;
                at = end = ((uint64_t)hole + FMT_BLOCK - 1) / FMT_BLOCK * FMT_BLOCK;
        }
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* 1: a whole frame of the segment stands at offset; 0: none; -EIO: the block cannot be read. */
static int frame_at(const struct eng_segments *set, const struct eng_segment *segment, uint64_t offset,
                    bool any_generation, struct fmt_frame *frame)
{
        struct eng_frame_where where = {.segment = segment->id, .generation = segment->generation, .position = offset};
        int rv;

        memcpy(where.drive_id, set->drive_id, FMT_ID);
        rv = segment_read(segment->fd.read_fd, frame, sizeof(*frame), offset);
        if (rv == -ENODATA)
                return 0;
        if (rv != 0)
                return rv;
        if (any_generation)
                where.generation = frame->generation;
        if (eng_frame_check(frame, &where) != 0)
                return 0;
        return offset + FMT_BLOCK + frame->payload_len <= segment->file_bytes;
}

typedef int (*frame_fn)(void *arg, struct eng_segment *segment, const struct fmt_frame *frame);

static int frames_walk(struct eng_segments *set, struct eng_segment *segment, uint64_t from, bool any_generation,
                       frame_fn each, void *arg)
{
        struct fmt_frame frame;
        uint64_t at = from;
        int rv;

        assert(from >= SEGMENT_FIRST_FRAME && segment->fd.read_fd >= 0);
        while ((at = data_from(segment, at)) + FMT_BLOCK <= segment->file_bytes) {
                rv = frame_at(set, segment, at, any_generation, &frame);
                if (rv < 0 && rv != -EIO)
                        return rv;
                if (rv == -EIO)
                        segment->damaged = true;
                if (rv <= 0) {
                        at += FMT_BLOCK;
                        continue;
                }
                rv = each(arg, segment, &frame);
                if (rv != 0)
                        return rv;
                at += FMT_BLOCK + frame.payload_len;
                if (at > segment->end)
                        segment->end = at; /* its payload ends with zeroes, which the file system keeps as a hole */
        }
        return 0;
}

static int generation_found(void *arg, struct eng_segment *segment, const struct fmt_frame *frame)
{
        segment->generation = frame->generation;
        return 1;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* A header that cannot be read or is bad: the frames may be good all the same. */
static int open_damaged(struct eng_segments *set, struct eng_segment *segment, const struct fmt_index_segment *row)
{
        int rv;

        segment->damaged = true;
        if (row != NULL && row->generation != 0) {
                segment->generation = row->generation;
                return 0;
        }
        rv = frames_walk(set, segment, SEGMENT_FIRST_FRAME, true, generation_found, NULL);
        return rv < 0 ? rv : 0;
}

static int open_header(struct eng_segments *set, struct eng_segment *segment, const struct fmt_index_segment *row,
                       struct eng_error *error)
{
        struct fmt_segment_header header;
        int rv;

        rv = segment_read(segment->fd.read_fd, &header, sizeof(header), 0);
        if (rv == 0)
                rv = segment_header_check(&header, set->drive_id, segment->id);
        if (rv == -ENODATA || rv == -EIO || rv == -EBADMSG)
                rv = open_damaged(set, segment, row);
        else if (rv == 0)
                segment->generation = header.generation;
        if (rv == -ESTALE)
                return fail(error, -EBADMSG, "segment %016llx belongs to another drive or has another number",
                            (unsigned long long)segment->id);
        if (rv == -EPROTONOSUPPORT)
                return fail(error, rv, "segment %016llx has layout %u, newer than this program knows",
                            (unsigned long long)segment->id, header.version);
        if (rv != 0)
                return fail(error, rv, "segment %016llx: %s", (unsigned long long)segment->id, strerror(-rv));
        if (row != NULL && row->generation != 0 && row->generation != segment->generation)
                return fail(error, -ESTALE, "the index does not know this segment %016llx",
                            (unsigned long long)segment->id);
        return 0;
}

/* Opens it for as long as it is looked at. */
static int look_begin(struct eng_segments *set, struct eng_segment *segment)
{
        char name[SEGMENT_NAME_MAX];
        int fd;

        assert(segment->fd.read_fd < 0 && segment->fd.users == 0);
        segment_name(segment->id, SEGMENT_WHOLE, name);
        fd = eng_fd_open_plain(set->dir_fd, name);
        if (fd < 0)
                return fd;
        segment->fd.read_fd = fd;
        return 0;
}

static void look_end(struct eng_segment *segment)
{
        eng_fd_close(&segment->fd);
}

/* The row tells all there is to know of the file. */
static bool row_is_enough(const struct fmt_index_segment *row)
{
        return row != NULL && row->sealed && row->generation != 0 && row->indexed_to == row->end &&
               row->end >= SEGMENT_FIRST_FRAME;
}

static void trust(struct eng_segment *segment, const struct fmt_index_segment *row)
{
        segment->generation = row->generation;
        segment->end = segment->file_bytes = row->end;
        segment->trimmed = segment->row_sealed = true;
}

/* The file, whose row is missing or does not tell all, is looked at. */
static int segment_open_look_into(struct eng_segments *set, struct eng_segment *segment, const struct fmt_index_segment *row,
                     struct eng_error *error)
{
        struct stat st;
        int rv = look_begin(set, segment);

        if (rv == 0 && fstat(segment->fd.read_fd, &st) != 0)
                rv = -errno;
        if (rv != 0) {
                fail(error, rv, "segment %016llx: %s", (unsigned long long)segment->id, strerror(-rv));
                look_end(segment);
                return rv;
        }
        segment->file_bytes = (uint64_t)st.st_size;
        rv = open_header(set, segment, row, error);
        if (rv == 0) {
                segment->end = data_end(segment);
                if (row != NULL && segment->end < row->indexed_to)
                        segment->end = row->indexed_to; /* as in frames_walk() */
                segment->trimmed = segment->damaged || segment->end >= segment->file_bytes;
                segment->fd.checked = true;
        }
        look_end(segment);
        return rv;
}

static int open_one(struct eng_segments *set, uint64_t id, const struct fmt_index_segment *row, struct eng_error *error)
{
        struct eng_segment *segment;
        int rv = 0;

        segment = calloc(1, sizeof(*segment));
        if (segment == NULL)
                return fail(error, -ENOMEM, "no memory for segments");
        segment->id = id;
        segment->write_fd = -1;
        segment->sealed = true;
        eng_fd_init(&segment->fd, ENG_FD_SEGMENT);
        if (row_is_enough(row))
                trust(segment, row);
        else
                rv = segment_open_look_into(set, segment, row, error);
        if (rv != 0) {
                segment_free(segment);
                return rv;
        }
        if (row != NULL) {
                segment->indexed_to = row->indexed_to;
                segment->live_frames = row->live_frames;
                segment->live_bytes = row->live_bytes;
        }
        segment_add(set, segment);
        return 0;
}

/* Walks files and rows, both ascending. */
static int open_all(struct eng_segments *set, const struct id_list *list, const struct fmt_index_segment *rows,
                    size_t row_count, unsigned *missing, struct eng_error *error)
{
        const struct fmt_index_segment *row;
        size_t r = 0;
        int rv;

        for (size_t i = 0; i <= list->count; i++) {
                for (; r < row_count && (i == list->count || rows[r].segment < list->ids[i]); r++) {
                        assert(r == 0 || rows[r - 1].segment < rows[r].segment);
                        if (rows[r].live_frames == 0)
                                continue;
                        (*missing)++;
                        fail(error, 0, "segment %016llx is gone, with %llu shards", (unsigned long long)rows[r].segment,
                             (unsigned long long)rows[r].live_frames);
                }
                if (i == list->count)
                        break;
                row = r < row_count && rows[r].segment == list->ids[i] ? &rows[r] : NULL;
                rv = open_one(set, list->ids[i], row, error);
                if (rv != 0)
                        return rv;
                r += row != NULL;
        }
        /* A number is used once, also when its file is gone. */
        set->next_id = 1;
        if (list->count > 0)
                set->next_id = list->ids[list->count - 1] + 1;
        if (row_count > 0 && rows[row_count - 1].segment >= set->next_id)
                set->next_id = rows[row_count - 1].segment + 1;
        return 0;
}

int eng_segments_open(const struct eng_segments_options *options, const struct fmt_index_segment *rows,
                      size_t row_count, struct eng_segments **out, unsigned *missing, struct eng_error *error)
{
        struct id_list list = {0};
        struct eng_segments *set;
        int rv;

        *missing = 0;
        error->text[0] = '\0';
        set = calloc(1, sizeof(*set));
        if (set == NULL)
                return fail(error, -ENOMEM, "no memory for segments");
        RB_INIT(&set->by_id);
        TAILQ_INIT(&set->unsynced);
        TAILQ_INIT(&set->stale);
        TAILQ_INIT(&set->quiet);
        memcpy(set->drive_id, options->drive_id, FMT_ID);
        set->segment_bytes = options->segment_bytes != 0 ? options->segment_bytes : ENG_SEGMENT_BYTES_DEFAULT;
        set->dir_fd = open(options->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (set->dir_fd < 0) {
                rv = fail(error, -errno, "%s: %s", options->path, strerror(errno));
                free(set);
                return rv;
        }
        if (set->segment_bytes < ENG_SEGMENT_BYTES_MIN || set->segment_bytes % FMT_BLOCK != 0) {
                rv = fail(error, -EINVAL, "segments of %llu bytes", (unsigned long long)set->segment_bytes);
                goto err;
        }
        rv = folder_list(set->dir_fd, &list);
        if (rv != 0)
                rv = fail(error, rv, "%s: %s", options->path, strerror(-rv));
        if (rv == 0)
                rv = open_all(set, &list, rows, row_count, missing, error);
        free(list.ids);
        if (rv != 0)
                goto err;
        *out = set;
        return 0;

err:
        eng_segments_close(set);
        return rv;
}

/* ---- scanning -------------------------------------------------------------------------------- */

static int scan_open(struct eng_segments *set, struct eng_segment *segment, eng_segment_found found, void *arg,
                     struct eng_error *error)
{
        uint64_t from = segment->indexed_to > SEGMENT_FIRST_FRAME ? segment->indexed_to : SEGMENT_FIRST_FRAME;
        int rv;

        /*
         * A process that was killed may have left frames that are not durable yet. The index must
         * not name such a one in place of another, whose segment could go before a power cut takes
         * it.
         */
        if (fdatasync(segment->fd.read_fd) != 0)
                return fail(error, -errno, "segment %016llx cannot be flushed: %s", (unsigned long long)segment->id,
                            strerror(errno));
        rv = frames_walk(set, segment, from, false, found, arg);
        if (rv != 0)
                return fail(error, rv, "scan of segment %016llx ended: %s", (unsigned long long)segment->id,
                            rv < 0 ? strerror(-rv) : "stopped");
        if (segment->end < from)
                segment->end = from;
        return 0;
}

static int scan_one(struct eng_segments *set, struct eng_segment *segment, eng_segment_found found, void *arg,
                    struct eng_error *error)
{
        int rv = look_begin(set, segment);

        if (rv != 0)
                return fail(error, rv, "segment %016llx: %s", (unsigned long long)segment->id, strerror(-rv));
        segment_count_out(set, segment);
        rv = scan_open(set, segment, found, arg, error);
        segment_count_in(set, segment);
        look_end(segment);
        return rv;
}

int eng_segments_scan(struct eng_segments *set, eng_segment_found found,
                      int (*segment_done)(void *arg, struct eng_segment *segment), void *arg, struct eng_error *error)
{
        struct eng_segment *segment;
        int rv;

        assert(set->active == NULL && set->next == NULL && !set->preparing); /* the loop does not use it yet */
        RB_FOREACH (segment, segment_tree, &set->by_id) {
                if (!segment->sealed || segment->scanned)
                        continue;
                if (segment->indexed_to < segment->end) {
                        rv = scan_one(set, segment, found, arg, error);
                        if (rv != 0)
                                return rv;
                        if (segment_done != NULL)
                                rv = segment_done(arg, segment);
                        if (rv < 0)
                                return rv;
                        if (rv == 0)
                                segment->indexed_to = segment->end;
                        else
                                segment_row_changes(set, segment);
                }
                segment->scanned = true;
                segment_note_quiet(set, segment);
        }
        return 0;
}
