/*
 * test_segment_fixture.h - a data folder, a set of segments over it, and frames written into them.
 */
#ifndef MILLRACE_TEST_SEGMENT_FIXTURE_H
#define MILLRACE_TEST_SEGMENT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/drive/frame.h"
#include "engine/drive/segment.h"

#define UNIT  (256u << 10)
#define FRAME (FMT_BLOCK + UNIT)

struct fixture {
        char path[128];
        struct eng_segments_options options;
        struct eng_segments *set;
        struct eng_error error;
        unsigned missing;
        uint8_t *slot; /* aligned: header and payload */
        struct fmt_index_segment rows[64];
        size_t row_count;
        struct {
                uint64_t segment, position;
                uint32_t stripe;
        } found[256];
        unsigned found_count, done_count, stop_after;
};

static inline int fixture_open(struct fixture *f)
{
        return eng_segments_open(&f->options, f->row_count > 0 ? f->rows : NULL, f->row_count, &f->set, &f->missing,
                                 &f->error);
}

static inline void fixture_close(struct fixture *f)
{
        eng_segments_close(f->set);
        f->set = NULL;
}

static inline void fixture_name(const struct fixture *f, uint64_t id, char out[192])
{
        snprintf(out, 192, "%s/%016llx.seg", f->path, (unsigned long long)id);
}

static inline bool fixture_exists(const struct fixture *f, uint64_t id)
{
        char name[192];

        fixture_name(f, id, name);
        return access(name, F_OK) == 0;
}

static inline int fixture_setup(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));
        const char *base = getenv("TMPDIR");

        assert_non_null(f);
        snprintf(f->path, sizeof(f->path), "%s/millrace-segment-XXXXXX", base != NULL ? base : "/tmp");
        assert_non_null(mkdtemp(f->path));
        assert_int_equal(posix_memalign((void **)&f->slot, FMT_BLOCK, FMT_BLOCK + FMT_UNIT_MAX), 0);
        f->options.path = f->path;
        f->options.segment_bytes = ENG_SEGMENT_BYTES_MIN;
        memset(f->options.drive_id, 0xd2, FMT_ID);
        assert_int_equal(fixture_open(f), 0);
        *state = f;
        return 0;
}

static inline int fixture_teardown(void **state)
{
        struct fixture *f = *state;
        struct dirent *entry;
        DIR *dir;

        eng_segments_close(f->set);
        dir = opendir(f->path);
        assert_non_null(dir);
        while ((entry = readdir(dir)) != NULL)
                unlinkat(dirfd(dir), entry->d_name, 0);
        closedir(dir);
        assert_int_equal(rmdir(f->path), 0);
        free(f->slot);
        free(f);
        return 0;
}

static inline void fixture_prepare(struct fixture *f)
{
        struct eng_segment_job job;

        if (!eng_segments_want_next(f->set))
                return;
        eng_segment_prepare_begin(f->set, &job);
        assert_false(eng_segments_want_next(f->set));
        eng_segment_prepare_run(&job);
        assert_int_equal(eng_segment_prepare_end(f->set, &job), 0);
}

/* Reserves and writes one frame; stripe tells it from others. */
static inline struct eng_segment *fixture_write(struct fixture *f, uint32_t stripe, uint32_t payload_len,
                                                uint64_t *position)
{
        struct eng_frame_what what = {.stripe = stripe, .shard = 1, .k = 2, .m = 1, .payload_len = payload_len};
        struct eng_frame_where where;
        struct eng_segment *segment;

        if (eng_segment_reserve(f->set, FMT_BLOCK + payload_len, &segment, position) == -EAGAIN) {
                fixture_prepare(f);
                assert_int_equal(eng_segment_reserve(f->set, FMT_BLOCK + payload_len, &segment, position), 0);
        }
        memset(f->slot + FMT_BLOCK, (int)stripe, payload_len);
        memcpy(where.drive_id, f->options.drive_id, FMT_ID);
        where.segment = segment->id;
        where.generation = segment->generation;
        where.position = *position;
        eng_frame_fill((struct fmt_frame *)f->slot, &what, f->slot + FMT_BLOCK);
        eng_frame_locate((struct fmt_frame *)f->slot, &where);
        assert_int_equal(pwrite(segment->write_fd, f->slot, FMT_BLOCK + payload_len, (off_t)*position),
                         FMT_BLOCK + payload_len);
        eng_segment_written(f->set, segment, FMT_BLOCK + payload_len, true);
        return segment;
}

static inline void fixture_sync(struct fixture *f)
{
        struct eng_segment *segments[8];
        unsigned n;

        while ((n = eng_segments_take_unsynced(f->set, segments, 8)) > 0)
                for (unsigned i = 0; i < n; i++) {
                        assert_int_equal(fdatasync(segments[i]->write_fd), 0);
                        eng_segment_synced(f->set, segments[i], true);
                }
}

/* Writes bytes into a segment's file behind the set's back. */
static inline void fixture_poke(const struct fixture *f, uint64_t id, uint64_t offset, const void *bytes, size_t len)
{
        char name[192];
        int fd;

        fixture_name(f, id, name);
        fd = open(name, O_WRONLY);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, bytes, len, (off_t)offset), len);
        close(fd);
}

static inline int fixture_found(void *arg, struct eng_segment *segment, const struct fmt_frame *frame)
{
        struct fixture *f = arg;

        assert_true(f->found_count < 256);
        f->found[f->found_count].segment = segment->id;
        f->found[f->found_count].position = frame->position;
        f->found[f->found_count++].stripe = frame->stripe;
        return f->stop_after != 0 && f->found_count == f->stop_after ? -ECANCELED : 0;
}

static inline int fixture_done(void *arg, struct eng_segment *segment)
{
        ((struct fixture *)arg)->done_count++;
        return 0;
}

static inline int fixture_scan(struct fixture *f)
{
        f->found_count = f->done_count = 0;
        return eng_segments_scan(f->set, fixture_found, fixture_done, f, &f->error);
}

/* Rows as the index would keep them, with all frames counted as the set counts them. */
static inline void fixture_rows(struct fixture *f)
{
        struct eng_segment *segment = NULL;

        f->row_count = 0;
        while ((segment = eng_segments_each(f->set, segment)) != NULL)
                eng_segment_row(segment, &f->rows[f->row_count++]);
}

#endif
