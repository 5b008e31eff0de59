/*
 * test_segment.c - segments while a drive runs: allocation and rolling over, flush groups, counts,
 * pins, trimming and unlinking.
 */
#include <sys/mount.h>

#include "test_segment_fixture.h"

static void test_rolls_over(void **state)
{
        struct fixture *f = *state;
        struct eng_segment *segment, *first;
        uint64_t offset, last_id = 0, next = FMT_BLOCK;
        struct eng_segment_job job;

        assert_int_equal(eng_segment_reserve(f->set, FRAME, &segment, &offset), -EAGAIN);
        assert_true(eng_segments_want_next(f->set));
        fixture_prepare(f);
        assert_null(eng_segments_each(f->set, NULL)); /* at hand, not yet used */
        for (unsigned i = 0; i < 40; i++) {
                segment = fixture_write(f, i, UNIT, &offset);
                if (segment->id != last_id) {
                        assert_true(segment->id > last_id);
                        next = FMT_BLOCK;
                }
                last_id = segment->id;
                assert_int_equal(offset, next);
                next += FRAME;
                assert_true(next <= ENG_SEGMENT_BYTES_MIN);
                assert_true(segment->write_fd >= 0 && !segment->sealed);
        }
        assert_int_equal(last_id, 3);
        first = eng_segment_find(f->set, 1);
        assert_true(first->sealed);
        assert_int_equal(first->live_frames, 15);
        assert_int_equal(first->live_bytes, 15 * FRAME);
        assert_null(eng_segment_find(f->set, 99));
        /* Not flushed yet: neither trimmed nor unlinked. */
        assert_false(eng_segment_trim_begin(f->set, &job));
}

static void test_small_frames_fill_the_end(void **state)
{
        struct fixture *f = *state;
        struct eng_segment *segment;
        uint64_t offset;

        fixture_prepare(f);
        for (unsigned i = 0; i < (ENG_SEGMENT_BYTES_MIN - FMT_BLOCK) / 8192; i++) {
                assert_int_equal(eng_segment_reserve(f->set, 8192, &segment, &offset), 0);
                assert_int_equal(segment->id, 1);
                eng_segment_written(f->set, segment, 8192, false);
        }
        assert_int_equal(eng_segment_reserve(f->set, 8192, &segment, &offset), -EAGAIN);
        assert_int_equal(eng_segment_reserve(f->set, 8192, &segment, &offset), -EAGAIN);
        fixture_prepare(f);
        assert_int_equal(eng_segment_reserve(f->set, 8192, &segment, &offset), 0);
        assert_int_equal(segment->id, 2);
        eng_segment_written(f->set, segment, 8192, true);
}

/*
 * What a crash would find after each flush is what the flush promised; the group of segments is
 * right.
 */
static void test_flush_groups(void **state)
{
        struct fixture *f = *state;
        struct eng_segment *group[4], *segment;
        uint64_t offset;

        assert_int_equal(eng_segments_take_unsynced(f->set, group, 4), 0);
        segment = fixture_write(f, 1, UNIT, &offset);
        fixture_write(f, 2, UNIT, &offset);
        assert_int_equal(eng_segments_take_unsynced(f->set, group, 4), 1);
        assert_ptr_equal(group[0], segment);
        assert_int_equal(segment->pins, 1);
        assert_int_equal(eng_segments_take_unsynced(f->set, group + 1, 3), 0);
        fixture_write(f, 3, UNIT, &offset); /* completes while the flush runs: wants another */
        eng_segment_synced(f->set, group[0], true);
        assert_true(segment->unsynced);
        for (unsigned i = 0; i < 35; i++)
                fixture_write(f, i, UNIT, &offset);
        assert_int_equal(eng_segments_take_unsynced(f->set, group, 2), 2);
        assert_int_equal(eng_segments_take_unsynced(f->set, group + 2, 2), 1);
        for (unsigned i = 0; i < 3; i++)
                eng_segment_synced(f->set, group[i], true);
        assert_int_equal(eng_segments_take_unsynced(f->set, group, 4), 0);
}

/* A written frame that failed is neither alive nor waiting for a flush. */
static void test_failed_write(void **state)
{
        struct fixture *f = *state;
        struct eng_segment *segment, *group[1];
        struct fmt_index_segment row, earlier;
        uint64_t offset;

        fixture_prepare(f);
        assert_int_equal(eng_segment_reserve(f->set, FRAME, &segment, &offset), 0);
        eng_segment_row(segment, &row);
        assert_int_equal(row.indexed_to, FMT_BLOCK); /* a frame is being written: the row promises nothing about it */
        assert_int_equal(row.end, FMT_BLOCK + FRAME);
        eng_segment_written(f->set, segment, FRAME, false);
        assert_int_equal(segment->live_frames, 0);
        assert_int_equal(eng_segments_take_unsynced(f->set, group, 1), 0);
        eng_segment_row(segment, &row);
        assert_int_equal(row.indexed_to, FMT_BLOCK + FRAME);
        eng_segment_set_indexed(f->set, segment, &row);
        earlier = row;
        earlier.indexed_to = FMT_BLOCK;
        eng_segment_set_indexed(f->set, segment, &earlier);
        assert_int_equal(segment->indexed_to, row.indexed_to);
}

/* Below whole_to nothing is being written, whatever the index says. */
static void test_what_is_whole(void **state)
{
        struct fixture *f = *state;
        struct eng_segment *segment;
        struct fmt_index_segment row;
        uint64_t offset;

        fixture_prepare(f);
        assert_int_equal(eng_segment_reserve(f->set, FRAME, &segment, &offset), 0);
        eng_segment_written(f->set, segment, FRAME, true);
        assert_int_equal(eng_segment_reserve(f->set, FRAME, &segment, &offset), 0);
        assert_int_equal(segment->whole_to, FMT_BLOCK + FRAME);
        assert_int_equal(eng_segment_reserve(f->set, FRAME, &segment, &offset), 0);
        eng_segment_written(f->set, segment, FRAME, true);
        eng_segment_row(segment, &row);
        row.indexed_to = row.end;
        eng_segment_set_indexed(f->set, segment, &row);
        assert_int_equal(segment->writing, 1);
        assert_int_equal(segment->whole_to, FMT_BLOCK + FRAME);
        eng_segment_written(f->set, segment, FRAME, true);
        assert_int_equal(eng_segment_reserve(f->set, FRAME, &segment, &offset), 0);
        assert_int_equal(segment->whole_to, FMT_BLOCK + 3ull * FRAME);
        eng_segment_written(f->set, segment, FRAME, true);
}

static void test_trim(void **state)
{
        struct fixture *f = *state;
        struct eng_segment *segment;
        struct eng_segment_job job;
        struct stat st;
        char name[192];
        uint64_t offset;

        for (unsigned i = 0; i < 16; i++)
                fixture_write(f, i, UNIT, &offset);
        segment = eng_segment_find(f->set, 1);
        assert_true(segment->sealed);
        assert_false(eng_segment_trim_begin(f->set, &job));
        fixture_sync(f);
        eng_segment_pin(segment);
        assert_false(eng_segment_trim_begin(f->set, &job));
        eng_segment_unpin(f->set, segment);
        assert_true(eng_segment_trim_begin(f->set, &job));
        assert_int_equal(eng_segment_job_id(&job), 1);
        assert_int_equal(segment->pins, 1);
        eng_segment_trim_run(&job);
        assert_int_equal(job.result, 0);
        eng_segment_trim_end(f->set, &job);
        fixture_name(f, 1, name);
        assert_int_equal(stat(name, &st), 0);
        assert_int_equal(st.st_size, FMT_BLOCK + 15 * FRAME);
        assert_int_equal(segment->write_fd, -1);
        assert_int_equal(segment->file_bytes, st.st_size);
        assert_false(eng_segment_trim_begin(f->set, &job)); /* once; the active one never */
}

static void test_unlink(void **state)
{
        struct fixture *f = *state;
        struct eng_segment *segment;
        struct eng_segments_info info;
        struct eng_segment_job job;
        uint64_t offset;

        for (unsigned i = 0; i < 16; i++)
                fixture_write(f, i, UNIT, &offset);
        segment = eng_segment_find(f->set, 1);
        eng_segment_pin(segment); /* a read */
        for (unsigned i = 0; i < 15; i++) {
                assert_false(eng_segment_unlink_begin(f->set, &job));
                eng_segment_dead(f->set, segment, FRAME);
        }
        assert_false(eng_segment_unlink_begin(f->set, &job));
        fixture_sync(f);
        assert_false(eng_segment_unlink_begin(f->set, &job));
        eng_segment_unpin(f->set, segment);
        eng_segment_pin(segment); /* again pinned when it is picked */
        assert_false(eng_segment_unlink_begin(f->set, &job));
        eng_segment_unpin(f->set, segment);
        assert_true(eng_segment_unlink_begin(f->set, &job));
        assert_int_equal(eng_segment_job_id(&job), 1);
        assert_null(eng_segment_find(f->set, 1));
        assert_true(fixture_exists(f, 1));
        eng_segment_unlink_run(&job);
        assert_int_equal(job.result, 0);
        assert_false(fixture_exists(f, 1));
        assert_false(eng_segment_unlink_begin(f->set, &job));

        /* The active one stays, even with nothing alive in it. */
        segment = eng_segment_find(f->set, 2);
        eng_segment_dead(f->set, segment, FRAME);
        assert_false(eng_segment_unlink_begin(f->set, &job));
        eng_segments_info(f->set, &info);
        assert_int_equal(info.segments, 1);
        assert_int_equal(info.live_frames, 0);
        assert_int_equal(info.bytes, ENG_SEGMENT_BYTES_MIN);
        fixture_prepare(f);
        eng_segments_info(f->set, &info);
        assert_int_equal(info.bytes, 2 * ENG_SEGMENT_BYTES_MIN);
}

/* More frames died than the index said there are: nobody knows what lives, so the file stays. */
static void test_wrong_counts(void **state)
{
        struct fixture *f = *state;
        struct eng_segment *segment;
        struct eng_segment_job job;
        uint64_t offset;

        for (unsigned i = 0; i < 16; i++)
                fixture_write(f, i, UNIT, &offset);
        fixture_sync(f);
        segment = eng_segment_find(f->set, 1);
        eng_segments_set_live(f->set, 1, 1, FRAME);
        eng_segment_dead(f->set, segment, FRAME + 1);
        eng_segment_dead(f->set, segment, FRAME);
        eng_segment_dead(f->set, segment, FRAME);
        assert_int_equal(segment->live_frames, 0);
        assert_true(segment->damaged);
        assert_false(eng_segment_unlink_begin(f->set, &job));
}

/* Trimming and dying at once, in both orders. */
static void test_trim_and_unlink(void **state)
{
        struct fixture *f = *state;
        struct eng_segment *segment;
        struct eng_segment_job trim, unlinked;
        uint64_t offset;

        for (unsigned i = 0; i < 31; i++)
                fixture_write(f, i, UNIT, &offset);
        fixture_sync(f);
        segment = eng_segment_find(f->set, 1);
        assert_true(eng_segment_trim_begin(f->set, &trim));
        for (unsigned i = 0; i < 15; i++)
                eng_segment_dead(f->set, segment, FRAME);
        assert_false(eng_segment_unlink_begin(f->set, &unlinked)); /* the trim holds it */
        eng_segment_trim_run(&trim);
        eng_segment_trim_end(f->set, &trim);
        assert_true(eng_segment_unlink_begin(f->set, &unlinked));
        eng_segment_unlink_run(&unlinked);

        segment = eng_segment_find(f->set, 2);
        for (unsigned i = 0; i < 15; i++)
                eng_segment_dead(f->set, segment, FRAME);
        assert_true(eng_segment_unlink_begin(f->set, &unlinked)); /* never trimmed: its write descriptor goes too */
        eng_segment_unlink_run(&unlinked);
        assert_int_equal(unlinked.result, 0);
        assert_false(eng_segment_trim_begin(f->set, &trim));
        assert_false(fixture_exists(f, 1) || fixture_exists(f, 2));
}

static void test_prepare_fails(void **state)
{
        struct fixture *f = *state;
        struct eng_segment_job job;
        struct dirent *entry;
        unsigned names = 0;
        DIR *dir;

        fixture_close(f);
        if (mount("tmpfs", f->path, "tmpfs", 0, "size=1m") != 0) {
                assert_int_equal(fixture_open(f), 0);
                skip();
        }
        assert_int_equal(fixture_open(f), 0);
        for (unsigned i = 0; i < 3; i++) {
                assert_true(eng_segments_want_next(f->set));
                eng_segment_prepare_begin(f->set, &job);
                eng_segment_prepare_run(&job);
                assert_int_equal(eng_segment_prepare_end(f->set, &job), -ENOSPC);
        }
        dir = opendir(f->path);
        assert_non_null(dir);
        while ((entry = readdir(dir)) != NULL)
                names += entry->d_name[0] != '.';
        closedir(dir);
        assert_int_equal(names, 0);
        fixture_close(f);
        assert_int_equal(umount(f->path), 0);
        assert_int_equal(fixture_open(f), 0);
        fixture_prepare(f);
}

/* A file of the name is there already (it cannot, but a bug must not cost data). */
static void test_never_overwrites(void **state)
{
        struct fixture *f = *state;
        struct eng_segment_job job;
        struct stat st;
        char name[192];
        int fd;

        fixture_name(f, 1, name);
        fd = open(name, O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, "x", 1), 1);
        close(fd);
        eng_segment_prepare_begin(f->set, &job);
        eng_segment_prepare_run(&job);
        assert_int_equal(eng_segment_prepare_end(f->set, &job), -EEXIST);
        assert_int_equal(stat(name, &st), 0);
        assert_int_equal(st.st_size, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        const struct CMUnitTest tests[] = {
                TEST(test_rolls_over),    TEST(test_small_frames_fill_the_end),
                TEST(test_flush_groups),  TEST(test_failed_write),
                TEST(test_what_is_whole),
                TEST(test_trim),          TEST(test_unlink),
                TEST(test_wrong_counts),  TEST(test_trim_and_unlink),
                TEST(test_prepare_fails), TEST(test_never_overwrites),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
