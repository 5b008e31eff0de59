/*
 * test_segment_open.c - segments after a crash: what is found, what is stepped over, what is
 * refused, and that nothing written is lost or reused.
 */
#include "ec.h"
#include "test_segment_fixture.h"

static void seal_header(struct fmt_segment_header *header)
{
        header->crc = 0;
        header->crc = era_crc32c(0, header, sizeof(*header));
}

static void read_header(const struct fixture *f, uint64_t id, struct fmt_segment_header *header)
{
        char name[192];
        int fd;

        fixture_name(f, id, name);
        fd = open(name, O_RDONLY);
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, header, sizeof(*header), 0), sizeof(*header));
        close(fd);
}

/* Without rows everything is found, in order, and nothing is appended to what was there. */
static void test_all_again(void **state)
{
        struct fixture *f = *state;
        struct eng_segment *segment;
        struct eng_segment_job job;
        uint64_t position[20], where;

        for (unsigned i = 0; i < 20; i++)
                fixture_write(f, i, UNIT, &position[i]);
        fixture_prepare(f); /* one more, never used */
        fixture_close(f);
        assert_int_equal(fixture_open(f), 0);
        assert_int_equal(f->missing, 0);
        assert_int_equal(fixture_scan(f), 0);
        assert_int_equal(f->found_count, 20);
        assert_int_equal(f->done_count, 3); /* the unused one included: its row says where it ends */
        for (unsigned i = 0; i < 20; i++) {
                assert_int_equal(f->found[i].stripe, i);
                assert_int_equal(f->found[i].position, position[i]);
                assert_int_equal(f->found[i].segment, i < 15 ? 1 : 2);
        }
        segment = eng_segment_find(f->set, 2);
        assert_true(segment->sealed && segment->write_fd == -1);
        assert_int_equal(segment->end, FMT_BLOCK + 5 * FRAME);
        assert_int_equal(segment->indexed_to, segment->end);
        eng_segments_set_live(f->set, 1, 15, 15 * FRAME);
        eng_segments_set_live(f->set, 2, 5, 5 * FRAME);
        eng_segments_set_live(f->set, 77, 5, 5);
        assert_int_equal(fixture_scan(f), 0); /* once */
        assert_int_equal(f->found_count, 0);

        /*
         * The unused one goes, the one that was active gives its unused space back, and new frames
         * come into a new number.
         */
        assert_true(eng_segment_unlink_begin(f->set, &job));
        assert_int_equal(eng_segment_job_id(&job), 3);
        eng_segment_unlink_run(&job);
        assert_false(eng_segment_unlink_begin(f->set, &job));
        while (eng_segment_trim_begin(f->set, &job)) {
                eng_segment_trim_run(&job);
                assert_int_equal(job.result, 0);
                eng_segment_trim_end(f->set, &job);
        }
        assert_int_equal(segment->file_bytes, FMT_BLOCK + 5 * FRAME);
        assert_int_equal(fixture_write(f, 50, UNIT, &where)->id, 4);
        fixture_close(f);
        assert_int_equal(fixture_open(f), 0);
        assert_int_equal(fixture_scan(f), 0);
        assert_int_equal(f->found_count, 21);
}

/* With rows only what the index does not have is read. */
static void test_from_where_indexed(void **state)
{
        struct fixture *f = *state;
        uint64_t position;

        for (unsigned i = 0; i < 18; i++)
                fixture_write(f, i, UNIT, &position);
        fixture_rows(f);
        for (unsigned i = 18; i < 20; i++)
                fixture_write(f, i, UNIT, &position);
        fixture_close(f);
        assert_int_equal(fixture_open(f), 0);
        assert_int_equal(eng_segment_find(f->set, 1)->live_frames, 15);
        assert_int_equal(fixture_scan(f), 0);
        assert_int_equal(f->found_count, 2);
        assert_int_equal(f->done_count, 1);
        assert_int_equal(f->found[0].stripe, 18);
        assert_int_equal(f->found[1].stripe, 19);
        /* All indexed: nothing to read at all. */
        fixture_rows(f);
        fixture_close(f);
        assert_int_equal(fixture_open(f), 0);
        assert_int_equal(fixture_scan(f), 0);
        assert_int_equal(f->done_count, 0);
        assert_int_equal(eng_segment_find(f->set, 2)->end, FMT_BLOCK + 5 * FRAME);
}

/*
 * A torn header, garbage, a hole where a write never came, a frame of another life of the file; the
 * good ones around them are found.
 */
static void test_torn_and_garbage(void **state)
{
        struct fixture *f = *state;
        struct eng_segment *segment;
        static uint8_t garbage[FRAME];
        struct fmt_frame frame;
        uint64_t position[10], offset;
        struct eng_frame_where where;
        int fd;
        char name[192];

        for (unsigned i = 0; i < 8; i++) {
                segment = fixture_write(f, i, UNIT, &position[i]);
                if (i == 3) { /* reserved, never written: a hole */
                        assert_int_equal(eng_segment_reserve(f->set, FRAME, &segment, &offset), 0);
                        eng_segment_written(f->set, segment, FRAME, false);
                }
        }
        for (size_t i = 0; i < sizeof(garbage); i++)
                garbage[i] = (uint8_t)(i * 31 + i / 253);
        fixture_poke(f, 1, position[1] + 100, garbage, 2000);        /* half a header */
        fixture_poke(f, 1, position[4], garbage, FRAME);             /* all of a frame */
        fixture_poke(f, 1, position[6] + FMT_BLOCK, garbage, 50000); /* payload only: the reader will notice */

        /*
         * A copy of frame 0 inside the dead frame 4, as a user's bytes may hold it, and one that
         * says it stands there but is of another generation.
         */
        fixture_name(f, 1, name);
        fd = open(name, O_RDONLY);
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, &frame, sizeof(frame), (off_t)position[0]), sizeof(frame));
        close(fd);
        fixture_poke(f, 1, position[4] + FMT_BLOCK, &frame, sizeof(frame));
        memcpy(where.drive_id, f->options.drive_id, FMT_ID);
        where.segment = 1;
        where.generation = segment->generation + 1;
        where.position = position[4] + 2 * FMT_BLOCK;
        eng_frame_locate(&frame, &where);
        fixture_poke(f, 1, where.position, &frame, sizeof(frame));

        fixture_close(f);
        assert_int_equal(fixture_open(f), 0);
        assert_int_equal(fixture_scan(f), 0);
        assert_int_equal(f->found_count, 6);
        for (unsigned i = 0; i < 6; i++)
                assert_int_equal(f->found[i].stripe, ((const uint32_t[]){0, 2, 3, 5, 6, 7})[i]);
        assert_int_equal(eng_segment_find(f->set, 1)->end, position[7] + FRAME);
}

/* A whole header whose payload does not fit the file. */
static void test_cut_short(void **state)
{
        struct fixture *f = *state;
        uint64_t position[3];
        char name[192];

        for (unsigned i = 0; i < 3; i++)
                fixture_write(f, i, UNIT, &position[i]);
        fixture_close(f);
        fixture_name(f, 1, name);
        for (unsigned i = 0; i < 3; i++) {
                off_t len = (off_t)(i == 0   ? position[2] + FMT_BLOCK + 5000
                                    : i == 1 ? position[2] + 7
                                             : position[1] + FRAME - 1);

                assert_int_equal(truncate(name, len), 0);
                assert_int_equal(fixture_open(f), 0);
                assert_int_equal(fixture_scan(f), 0);
                assert_int_equal(f->found_count, i < 2 ? 2 : 1);
                fixture_close(f);
        }
        /* Shorter than its header. */
        assert_int_equal(truncate(name, 100), 0);
        assert_int_equal(fixture_open(f), 0);
        assert_int_equal(fixture_scan(f), 0);
        assert_int_equal(f->found_count, 0);
        assert_true(eng_segment_find(f->set, 1)->damaged);
}

static void test_damaged_header(void **state)
{
        struct fixture *f = *state;
        struct eng_segment_job job;
        struct eng_segment *segment;
        uint64_t position, generation;

        generation = fixture_write(f, 1, UNIT, &position)->generation;
        fixture_write(f, 2, UNIT, &position);
        fixture_rows(f);
        fixture_close(f);
        fixture_poke(f, 1, 40, "\xff", 1);

        /* The row knows the generation. */
        assert_int_equal(fixture_open(f), 0);
        segment = eng_segment_find(f->set, 1);
        assert_true(segment->damaged);
        assert_int_equal(segment->generation, generation);
        assert_int_equal(fixture_scan(f), 0);
        eng_segments_set_live(f->set, 1, 0, 0);
        assert_false(eng_segment_unlink_begin(f->set, &job)); /* not on the word of a damaged one (I6) */
        assert_false(eng_segment_trim_begin(f->set, &job));
        fixture_close(f);

        /* No rows: the frames know it. */
        f->row_count = 0;
        assert_int_equal(fixture_open(f), 0);
        assert_int_equal(eng_segment_find(f->set, 1)->generation, generation);
        assert_int_equal(fixture_scan(f), 0);
        assert_int_equal(f->found_count, 2);
        fixture_close(f);

        /* A row that places made, without a generation. */
        f->row_count = 1;
        memset(f->rows, 0, sizeof(f->rows));
        f->rows[0].segment = 1;
        assert_int_equal(fixture_open(f), 0);
        assert_int_equal(eng_segment_find(f->set, 1)->generation, generation);
}

static void test_refused(void **state)
{
        struct fixture *f = *state;
        struct fmt_segment_header header, good;
        char name[192], other[192];
        uint64_t position;

        fixture_write(f, 1, UNIT, &position);
        fixture_rows(f);
        fixture_close(f);
        read_header(f, 1, &good);

        header = good;
        header.drive_id[0] ^= 1;
        seal_header(&header);
        fixture_poke(f, 1, 0, &header, sizeof(header));
        assert_int_equal(fixture_open(f), -EBADMSG);
        assert_non_null(strstr(f->error.text, "0000000000000001"));

        header = good;
        header.version = FMT_LAYOUT_VERSION + 1;
        seal_header(&header);
        fixture_poke(f, 1, 0, &header, sizeof(header));
        assert_int_equal(fixture_open(f), -EPROTONOSUPPORT);
        assert_non_null(strstr(f->error.text, "layout"));

        fixture_poke(f, 1, 0, &good, sizeof(good));
        f->rows[0].generation++;
        assert_int_equal(fixture_open(f), -ESTALE);
        f->rows[0].generation--;

        fixture_name(f, 1, name);
        fixture_name(f, 9, other);
        assert_int_equal(rename(name, other), 0);
        f->row_count = 0;
        assert_int_equal(fixture_open(f), -EBADMSG);
        assert_int_equal(rename(other, name), 0);
        f->options.segment_bytes = 5000;
        assert_int_equal(fixture_open(f), -EINVAL);
        f->options.segment_bytes = 4096;
        assert_int_equal(fixture_open(f), -EINVAL);
        f->options.segment_bytes = 0;
        f->options.path = "/nonexistent/data";
        assert_int_equal(fixture_open(f), -ENOENT);
        assert_non_null(strstr(f->error.text, "/nonexistent/data"));
        f->options.path = f->path;
        assert_int_equal(fixture_open(f), 0);
}

static void touch(const struct fixture *f, const char *name)
{
        char path[256];
        int fd;

        snprintf(path, sizeof(path), "%s/%s", f->path, name);
        fd = open(path, O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        close(fd);
}

static bool is_there(const struct fixture *f, const char *name)
{
        char path[256];

        snprintf(path, sizeof(path), "%s/%s", f->path, name);
        return access(path, F_OK) == 0;
}

/* Half-made files go, strangers stay, a number is never used twice. */
static void test_folder(void **state)
{
        static const char *const strangers[] = {"README",
                                                "0000000000000001",
                                                "1.seg",
                                                "00000000000000AB.seg",
                                                "0000000000000001.seg~",
                                                "xyz.new",
                                                "g000000000000001.seg",
                                                "0000000000000001.new.bak"};
        struct fixture *f = *state;
        uint64_t position;

        fixture_close(f);
        touch(f, "0000000000000007.new");
        for (unsigned i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++)
                touch(f, strangers[i]);
        f->rows[0] = (struct fmt_index_segment){.segment = 3, .generation = 1, .live_frames = 2};
        f->rows[1] = (struct fmt_index_segment){.segment = 5, .generation = 1};
        f->row_count = 2;
        assert_int_equal(fixture_open(f), 0);
        assert_int_equal(f->missing, 1);
        assert_non_null(strstr(f->error.text, "0000000000000003"));
        assert_false(is_there(f, "0000000000000007.new"));
        for (unsigned i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++)
                assert_true(is_there(f, strangers[i]));
        assert_null(eng_segments_each(f->set, NULL));
        assert_int_equal(fixture_write(f, 1, UNIT, &position)->id, 6);
}

/* Rows with and without files, files with and without rows, mixed. */
static void test_rows_and_files(void **state)
{
        struct fixture *f = *state;
        struct fmt_index_segment rows[64];
        uint64_t position;
        char name[192];

        for (unsigned i = 0; i < 15 * 6; i++)
                fixture_write(f, i, UNIT, &position);
        fixture_rows(f);
        fixture_close(f);
        assert_int_equal(f->row_count, 6);
        memcpy(rows, f->rows, sizeof(rows));
        for (unsigned mask = 0; mask < 64; mask++) {
                f->row_count = 0;
                for (unsigned i = 0; i < 6; i++)
                        if ((mask & (1u << i)) != 0)
                                f->rows[f->row_count++] = rows[i];
                assert_int_equal(fixture_open(f), 0);
                assert_int_equal(f->missing, 0);
                for (unsigned i = 0; i < 6; i++)
                        assert_int_equal(eng_segment_find(f->set, i + 1)->live_frames,
                                         (mask & (1u << i)) != 0 ? 15 : 0);
                fixture_close(f);
        }
        fixture_name(f, 4, name);
        assert_int_equal(unlink(name), 0);
        fixture_name(f, 6, name);
        assert_int_equal(unlink(name), 0);
        memcpy(f->rows, rows, sizeof(rows));
        f->row_count = 6;
        assert_int_equal(fixture_open(f), 0);
        assert_int_equal(f->missing, 2);
        assert_null(eng_segment_find(f->set, 4));
        assert_int_equal(eng_segment_find(f->set, 5)->live_frames, 15);
}

/*
 * File systems may keep zeroes as a hole (ZFS does): a frame that ends with some is whole all the
 * same, and trimming leaves it so.
 */
static void zeroes_at_the_end(struct fixture *f, bool indexed)
{
        struct eng_segment *segment;
        struct eng_segment_job job;
        uint64_t position;
        char name[192];
        int fd;

        fixture_write(f, 1, UNIT, &position);
        fixture_write(f, 0, UNIT, &position); /* a payload of zeroes */
        fixture_name(f, 1, name);
        if (indexed)
                fixture_rows(f);
        fixture_close(f);
        fd = open(name, O_WRONLY);
        assert_true(fd >= 0);
        if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)position + FMT_BLOCK, UNIT) != 0) {
                assert_int_equal(errno, EOPNOTSUPP);
                print_message("no holes can be made here\n");
        }
        close(fd);
        assert_int_equal(fixture_open(f), 0);
        assert_int_equal(fixture_scan(f), 0);
        assert_int_equal(f->found_count, indexed ? 0 : 2);
        segment = eng_segment_find(f->set, 1);
        assert_int_equal(segment->end, position + FRAME);
        eng_segments_set_live(f->set, 1, 2, 2 * FRAME);
        assert_true(eng_segment_trim_begin(f->set, &job));
        eng_segment_trim_run(&job);
        eng_segment_trim_end(f->set, &job);
        assert_int_equal(segment->file_bytes, position + FRAME);
}

static void test_zeroes_at_the_end(void **state)
{
        zeroes_at_the_end(*state, false);
}

static void test_zeroes_at_the_end_known_to_the_index(void **state)
{
        zeroes_at_the_end(*state, true);
}

static void test_scan_stopped(void **state)
{
        struct fixture *f = *state;
        struct eng_segment_job job;
        uint64_t position;

        for (unsigned i = 0; i < 5; i++)
                fixture_write(f, i, UNIT, &position);
        fixture_close(f);
        assert_int_equal(fixture_open(f), 0);
        f->stop_after = 3;
        assert_int_equal(fixture_scan(f), -ECANCELED);
        assert_int_equal(f->found_count, 3);
        assert_false(eng_segment_unlink_begin(f->set, &job)); /* not scanned: what lives in it is not known */
        f->stop_after = 0;
        assert_int_equal(fixture_scan(f), 0);
        assert_int_equal(f->found_count, 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        const struct CMUnitTest tests[] = {
                TEST(test_all_again),
                TEST(test_from_where_indexed),
                TEST(test_torn_and_garbage),
                TEST(test_cut_short),
                TEST(test_damaged_header),
                TEST(test_refused),
                TEST(test_folder),
                TEST(test_rows_and_files),
                TEST(test_zeroes_at_the_end),
                TEST(test_scan_stopped),
                TEST(test_zeroes_at_the_end_known_to_the_index),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
