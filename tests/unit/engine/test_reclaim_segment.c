/*
 * test_reclaim_segment.c - living frames leave mostly dead segments, and every copy a crash may
 * leave is judged rightly.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/frame.h"
#include "engine/drive/local.h"
#include "engine/drive/segment_priv.h"
#include "tests/lib/shard_fixture.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

#define UNIT (1u << 20)

static void make(struct fx *fx)
{
        fx_make(fx, 1);
        fx->options.reclaim_rate = UINT64_MAX;
        fx->options.reclaim_dead_percent = 30;
}

static void must_open(struct fx *fx)
{
        int rv = fx_open(fx);

        if (rv != 0)
                print_message("%s\n", fx->error.text);
        assert_int_equal(rv, 0);
}

static struct eng_drive_info info_of(struct fx *fx)
{
        struct eng_drive_info info;

        eng_drive_info(fx->local, &info);
        return info;
}

/*
 * 28 frames of 1 MiB, seven to a segment; of every seven, those whose stripe modulo 7 is below
 * living belong to object 1, the others to 2.
 */
static void fill(struct fx *fx, unsigned living)
{
        unsigned i;

        for (i = 0; i < 28; i++)
                assert_int_equal(sh_write(fx, i % 7 < living ? 1 : 2, i, UNIT), 0);
        assert_int_equal(sh_sync(fx), 0);
        assert_true(fx_wait_indexed(fx));
}

static void check_living(struct fx *fx, unsigned living)
{
        unsigned i;

        for (i = 0; i < 28; i++)
                if (i % 7 < living)
                        assert_int_equal(sh_read(fx, 1, i, UNIT), 0);
}

static void test_living_frames_move(void **state)
{
        struct eng_drive_info info;
        unsigned i, round;
        struct fx fx;

        make(&fx);
        must_open(&fx);
        fill(&fx, 2);
        assert_true(fx_count_files(&fx, "data", ".seg") >= 4);
        assert_int_equal(sh_discard(&fx, 2), 0);
        assert_true(sh_wait_files(&fx, "data", ".seg", 3)); /* 8 MiB live: the last one may still be appended to */
        WAIT_UNTIL(info_of(&fx).reclaim_freed >= 2 * (8ull << 20));
        info = info_of(&fx);
        assert_true(info.reclaim_copied >= 4 * (uint64_t)UNIT);
        assert_true(info.reclaim_freed >= 2 * (8ull << 20));
        assert_int_equal(info.reclaim_damaged, 0);
        for (round = 0; round < 3; round++) {
                check_living(&fx, 2);
                for (i = 0; i < 28 && round < 2; i++)
                        if (i % 7 >= 2)
                                assert_int_equal(sh_read(&fx, 2, i, UNIT), -ENOENT);
                fx_close(&fx);
                if (round == 1)
                        sh_remove_index(&fx);
                must_open(&fx);
        }
        fx_destroy(&fx);
}

static void take_space(void *arg)
{
        struct eng_local *l = eng_local_of(((struct fx *)arg)->local);

        eng_space_claim(l->space, 1ull << 50);
}

static void give_space(void *arg)
{
        struct eng_local *l = eng_local_of(((struct fx *)arg)->local);

        eng_space_drop(l->space, 1ull << 50);
}

/*
 * What could not be moved whole is not moved at all: a drive that is nearly full must not be filled
 * with copies that free nothing.
 */
static void test_no_room(void **state)
{
        struct fx fx;

        make(&fx);
        must_open(&fx);
        fill(&fx, 4);
        fx_call(&fx, 0, take_space, &fx);
        assert_int_equal(sh_discard(&fx, 2), 0);
        WAIT_UNTIL(info_of(&fx).reclaim_freed > 0); /* one goes into what was made ahead */
        sleep(2);                                   /* and for another there is no room */
        assert_true(info_of(&fx).reclaim_copied < 6 * (uint64_t)UNIT);
        fx_call(&fx, 0, give_space, &fx);
        WAIT_UNTIL(info_of(&fx).reclaim_copied >= 12 * (uint64_t)UNIT);
        assert_true(info_of(&fx).reclaim_copied >= 12 * (uint64_t)UNIT);
        check_living(&fx, 4);
        fx_destroy(&fx);
}

/* More frames than one look at headers takes, none of them aligned with what is read at once. */
static void test_small_frames(void **state)
{
        static const uint32_t lens[] = {4096, 20480, 8192, 65536, 4096};
        unsigned i, round;
        struct fx fx;

        make(&fx);
        must_open(&fx);
        for (i = 0; i < 700; i++)
                assert_int_equal(sh_write(&fx, i % 5 == 1 ? 10 : 20, i, lens[i % 5]), 0);
        assert_int_equal(sh_sync(&fx), 0);
        assert_int_equal(sh_discard(&fx, 20), 0);
        assert_true(sh_wait_files(&fx, "data", ".seg", 2) || info_of(&fx).reclaim_copied > 0);
        for (round = 0; round < 2; round++) {
                for (i = 0; i < 700; i++)
                        assert_int_equal(sh_read(&fx, i % 5 == 1 ? 10 : 20, i, lens[i % 5]), i % 5 == 1 ? 0 : -ENOENT);
                fx_close(&fx);
                must_open(&fx);
        }
        fx_destroy(&fx);
}

/* A frame that is damaged stays where it is, and its segment with it, until it was written anew. */
static void test_damaged_frame_is_left(void **state)
{
        char path[256];
        unsigned i;
        struct fx fx;

        make(&fx);
        must_open(&fx);
        fill(&fx, 2);
        fx_close(&fx);
        fx_first(&fx, "data", path, sizeof(path));
        fx_flip(path, 4096 + 4096 + 500000); /* stripe 0 of object 1 */
        must_open(&fx);
        assert_int_equal(sh_discard(&fx, 2), 0);
        WAIT_UNTIL(info_of(&fx).reclaim_damaged != 0);
        assert_int_equal(info_of(&fx).reclaim_damaged, 1);
        assert_int_equal(sh_read(&fx, 1, 0, UNIT), -EBADMSG);
        for (i = 1; i < 28; i++)
                if (i % 7 < 2)
                        assert_int_equal(sh_read(&fx, 1, i, UNIT), 0);
        usleep(2500000); /* it is not tried again and again, and not unlinked */
        assert_int_equal(info_of(&fx).reclaim_damaged, 1);
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(sh_write(&fx, 1, 0, UNIT), 0);
        assert_int_equal(sh_sync(&fx), 0);
        WAIT_UNTIL(access(path, F_OK) != 0);
        assert_int_not_equal(access(path, F_OK), 0);
        check_living(&fx, 2);
        fx_destroy(&fx);
}

static void test_off_and_threshold(void **state)
{
        struct fx fx;

        make(&fx);
        fx.options.reclaim_rate = ENG_RECLAIM_OFF;
        must_open(&fx);
        fill(&fx, 2);
        assert_int_equal(sh_discard(&fx, 2), 0);
        usleep(2500000);
        assert_int_equal(info_of(&fx).reclaim_copied, 0);
        fx_close(&fx);
        fx.options.reclaim_rate = UINT64_MAX;
        fx.options.reclaim_dead_percent = 90; /* they are about 70 % dead */
        must_open(&fx);
        usleep(2500000);
        assert_int_equal(info_of(&fx).reclaim_copied, 0);
        fx_close(&fx);
        fx.options.reclaim_dead_percent = 60;
        must_open(&fx);
        assert_true(sh_wait_files(&fx, "data", ".seg", 3));
        check_living(&fx, 2);
        fx_destroy(&fx);
}

static void test_rate_is_kept(void **state)
{
        struct timespec begun, now;
        double took;
        struct fx fx;

        make(&fx);
        fx.options.reclaim_rate = 1u << 20; /* four times that while idle: read and written, 16 MiB in all take 4 s */
        must_open(&fx);
        fill(&fx, 2);
        clock_gettime(CLOCK_MONOTONIC, &begun);
        assert_int_equal(sh_discard(&fx, 2), 0);
        assert_true(sh_wait_files(&fx, "data", ".seg", 3));
        clock_gettime(CLOCK_MONOTONIC, &now);
        took = (double)(now.tv_sec - begun.tv_sec) + (double)(now.tv_nsec - begun.tv_nsec) / 1e9;
        assert_true(took > 1.0);
        check_living(&fx, 2);
        fx_destroy(&fx);
}

/*
 * Objects are discarded all the time while their frames move: none comes back, and the others stay.
 */
static void test_discard_while_moving(void **state)
{
        unsigned i, round;
        struct fx fx;

        make(&fx);
        must_open(&fx);
        for (round = 0; round < 4; round++) {
                uint64_t first = 1000 * (round + 1);

                for (i = 0; i < 160; i++)
                        assert_int_equal(sh_write(&fx, first + i, 0, 262144), 0);
                assert_int_equal(sh_sync(&fx), 0);
                assert_true(fx_wait_indexed(&fx));
                for (i = 0; i < 160; i += 2)
                        assert_int_equal(sh_discard(&fx, first + i), 0);
                for (i = 1; i < 160; i += 4) {
                        usleep((useconds_t)(500 * round));
                        assert_int_equal(sh_discard(&fx, first + i), 0);
                        assert_int_equal(sh_read(&fx, first + i, 0, 262144), -ENOENT);
                }
                assert_true(fx_wait_indexed(&fx));
                usleep(1200000);
                for (i = 0; i < 160; i++)
                        assert_int_equal(sh_read(&fx, first + i, 0, 262144), i % 4 == 3 ? 0 : -ENOENT);
        }
        fx_close(&fx);
        must_open(&fx);
        for (i = 0; i < 160; i++)
                assert_int_equal(sh_read(&fx, 1000 + i, 0, 262144), i % 4 == 3 ? 0 : -ENOENT);
        fx_destroy(&fx);
}

/* ---- what a crash leaves --------------------------------------------------------------------- */

/* A segment file with one frame: what reclaim had written when the process ended. */
static void plant(struct fx *fx, uint64_t segment, uint64_t id, uint32_t stripe, uint32_t len, bool torn)
{
        struct eng_frame_what what = {
                .stripe = stripe, .shard = SH_SHARD, .k = 2, .m = 1, .payload_len = len, .epoch = FX_EPOCH};
        struct eng_frame_where where = {.segment = segment, .generation = 99, .position = 4096};
        uint8_t *bytes = calloc(1, 8192 + len);
        struct fmt_frame *frame = (struct fmt_frame *)(bytes + 4096);
        char path[256], name[SEGMENT_NAME_MAX];
        size_t i;
        int fd;

        fx_id(what.object_id, id);
        memcpy(where.drive_id, fx->options.identity.drive_id, FMT_ID);
        segment_header_make((struct fmt_segment_header *)bytes, where.drive_id, segment, where.generation);
        for (i = 0; i < len; i++)
                bytes[8192 + i] = sh_pattern(id, stripe, i);
        eng_frame_fill(frame, &what, bytes + 8192);
        frame->flags |= FMT_FRAME_MOVED;
        eng_frame_locate(frame, &where);
        if (torn)
                memset(bytes + 8192 + len / 2, 0, len / 2);
        segment_name(segment, SEGMENT_WHOLE, name);
        snprintf(path, sizeof(path), "%s/data/%s", fx->path, name);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, bytes, 8192 + len), 8192 + (ssize_t)len);
        close(fd);
        free(bytes);
}

/* One living shard in the first segment, in the index; closed. Its file in path. */
static void make_one(struct fx *fx, char *path, size_t cap, bool discarded)
{
        make(fx);
        fx->options.reclaim_rate = ENG_RECLAIM_OFF;
        must_open(fx);
        assert_int_equal(sh_write(fx, 5, 0, 65536), 0);
        assert_int_equal(sh_write(fx, 6, 0, 65536), 0); /* keeps the segment */
        assert_int_equal(sh_sync(fx), 0);
        assert_true(fx_wait_indexed(fx));
        if (discarded) {
                assert_int_equal(sh_discard(fx, 5), 0);
                assert_true(fx_wait_indexed(fx));
        }
        fx_close(fx);
        fx_first(fx, "data", path, cap);
}

static void test_the_index_decides(void **state)
{
        char path[256];
        struct fx fx;

        make_one(&fx, path, sizeof(path), false);
        plant(&fx, 9, 5, 0, 65536, false);
        fx_flip(path, 4096 + 4096 + 100); /* so that one can tell which is read */
        must_open(&fx);
        assert_int_equal(sh_read(&fx, 5, 0, 65536), -EBADMSG);
        assert_int_equal(sh_read(&fx, 6, 0, 65536), 0);
        assert_true(sh_wait_files(&fx, "data", "9.seg", 0)); /* nothing refers to it */
        fx_close(&fx);
        plant(&fx, 11, 5, 0, 65536, false);
        sh_remove_index(&fx); /* a new one takes the later frame, if it is right */
        must_open(&fx);
        assert_int_equal(sh_read(&fx, 5, 0, 65536), 0);
        fx_destroy(&fx);
}

static void test_torn_copy(void **state)
{
        char path[256];
        unsigned round;
        struct fx fx;

        make_one(&fx, path, sizeof(path), false);
        plant(&fx, 9, 5, 0, 65536, true);
        for (round = 0; round < 3; round++) {
                must_open(&fx);
                assert_int_equal(sh_read(&fx, 5, 0, 65536), 0);
                assert_int_equal(sh_read(&fx, 6, 0, 65536), 0);
                fx_close(&fx);
                if (round == 1)
                        sh_remove_index(&fx);
        }
        fx_open(&fx);
        fx_destroy(&fx);
}

/*
 * Discarded while it was being copied, then the crash: it does not come back, and its space does.
 */
static void test_copy_of_what_was_discarded(void **state)
{
        char path[256];
        struct fx fx;

        make_one(&fx, path, sizeof(path), true);
        plant(&fx, 9, 5, 0, 65536, false);
        must_open(&fx);
        assert_int_equal(sh_read(&fx, 5, 0, 65536), -ENOENT);
        assert_true(sh_wait_files(&fx, "data", "9.seg", 0));
        assert_int_equal(sh_read(&fx, 6, 0, 65536), 0);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_living_frames_move),
                cmocka_unit_test(test_no_room),
                cmocka_unit_test(test_small_frames),
                cmocka_unit_test(test_damaged_frame_is_left),
                cmocka_unit_test(test_off_and_threshold),
                cmocka_unit_test(test_rate_is_kept),
                cmocka_unit_test(test_discard_while_moving),
                cmocka_unit_test(test_the_index_decides),
                cmocka_unit_test(test_torn_copy),
                cmocka_unit_test(test_copy_of_what_was_discarded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
