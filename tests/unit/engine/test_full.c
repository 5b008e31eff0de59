/*
 * test_full.c - full is not failed: the watermark that drives of one file system share, and a file
 * system that is really full.
 *
 * Each test mounts a small tmpfs, which only root may; without that right it is skipped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/shard_fixture.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

#define MIB  (1ull << 20)
#define UNIT (1u << 20)

static char mount_point[64], *tmp_before;

/* Folders of fixtures made from now on lie on it. */
static bool mount_small(unsigned mib)
{
        const char *before = getenv("TMPDIR");
        char options[32];

        snprintf(mount_point, sizeof(mount_point), "/tmp/mr-full-XXXXXX");
        assert_non_null(mkdtemp(mount_point));
        snprintf(options, sizeof(options), "size=%um", mib);
        if (mount("tmpfs", mount_point, "tmpfs", 0, options) != 0) {
                rmdir(mount_point);
                mount_point[0] = '\0';
                return false;
        }
        tmp_before = before != NULL ? strdup(before) : NULL;
        setenv("TMPDIR", mount_point, 1);
        return true;
}

/* After each test, also one that failed. */
static int unmount_small(void **state)
{
        if (mount_point[0] == '\0')
                return 0;
        if (tmp_before != NULL)
                setenv("TMPDIR", tmp_before, 1);
        else
                unsetenv("TMPDIR");
        free(tmp_before);
        umount2(mount_point, MNT_DETACH);
        rmdir(mount_point);
        mount_point[0] = '\0';
        return 0;
}

static void make(struct fx *fx, uint64_t reserve)
{
        fx_make(fx, 1);
        fx->options.full_reserve_bytes = reserve;
        fx->options.segment_bytes = 64 * MIB; /* larger than is reasonable there: files shrink with the room */
        fx->options.log_file_bytes = 64 * MIB;
        fx->options.reclaim_rate = UINT64_MAX;
        fx->options.cache_bytes = 1;
}

static void must_open(struct fx *fx)
{
        int rv = fx_open(fx);

        if (rv != 0)
                print_message("%s\n", fx->error.text);
        assert_int_equal(rv, 0);
}

static void must_be_sound(struct fx *fx)
{
        struct eng_drive_info info;

        eng_drive_info(fx->local, &info);
        if (info.state != ENG_DRIVE_IN)
                print_message("%s\n", info.reason);
        assert_int_equal(info.state, ENG_DRIVE_IN);
}

/* Objects first.. of one frame until the drive refuses; returns how many were taken. */
static unsigned fill_shards(struct fx *fx, uint64_t first)
{
        unsigned n = 0;
        int rv;

        while ((rv = sh_write(fx, first + n, 0, UNIT)) == 0 && n < 100000)
                n++;
        assert_int_equal(rv, -ENOSPC);
        assert_int_equal(sh_sync(fx), 0);
        must_be_sound(fx);
        return n;
}

static void key_name(char *out, size_t cap, const char *prefix, unsigned i)
{
        snprintf(out, cap, "%s-%05u", prefix, i);
}

static const uint8_t *content(unsigned i, size_t len)
{
        static uint8_t bytes[1u << 16];

        memset(bytes, (int)(i * 13 + 5), len);
        memcpy(bytes, &i, sizeof(i));
        return bytes;
}

/*
 * Puts names first.. until refused; each that was not refused has to be there ever after. Returns
 * how many.
 */
static unsigned fill_names(struct fx *fx, const char *prefix, unsigned first, size_t len)
{
        unsigned n = 0;
        char name[32];
        int rv;

        for (;;) {
                key_name(name, sizeof(name), prefix, first + n);
                rv = fx_put(fx, name, content(first + n, len), len);
                if (rv != 0)
                        break;
                n++;
        }
        if (rv != -ENOSPC && rv != -EAGAIN)
                print_message("put: %d\n", rv);
        assert_true(rv == -ENOSPC || rv == -EAGAIN);
        must_be_sound(fx);
        return n;
}

static void check_names(struct fx *fx, const char *prefix, unsigned from, unsigned to, size_t len)
{
        char name[32];
        unsigned i;

        for (i = from; i < to; i++) {
                key_name(name, sizeof(name), prefix, i);
                assert_true(fx_has(fx, name, content(i, len), len));
        }
}

/*
 * As the engine deletes: the reserve may be used. Bounded patience, for where the disk was full to
 * the last byte.
 */
static void delete_name(struct fx *fx, const char *name)
{
        static struct fx_body body;
        uint8_t full[FMT_NAME_MAX];
        size_t len = fx_name(full, name);
        struct fx_op op;
        int rv = -1;

        body.len = body.inline_len = 0;
        fx_body_delete(&body, full, len);
        fx->seq++;
        for (unsigned turns = 0; turns < WAIT_TURNS && rv != 0; turns++) {
                fx_fill_append(&op, &body, 1, fx->seq, fx->seq - 1);
                op.op.flags = ENG_OP_RESERVE;
                rv = fx_run(fx, &op);
                eng_buf_unref(op.op.append.body);
                if (rv != 0)
                        usleep(WAIT_STEP_US);
        }
        assert_int_equal(rv, 0);
        assert_int_equal(fx_commit(fx, 1, fx->seq), 0);
}

static bool write_again(struct fx *fx, uint64_t id)
{
        int rv;

        WAIT_UNTIL((rv = sh_write(fx, id, 0, UNIT)) == 0);
        return rv == 0;
}

static void test_shared_watermark(void **state)
{
        static struct fx a, b; /* static, here as below: threads of a drive that a failed assertion left open go on writing to them */
        unsigned n, i;
        struct eng_drive_info info;

        if (!mount_small(160))
                skip();
        make(&a, 32 * MIB);
        make(&b, 32 * MIB);
        must_open(&a);
        must_open(&b);
        assert_int_equal(fx_put(&b, "early", "x", 1), 0);
        n = fill_shards(&a, 1000);
        assert_true(n >= 60 && n <= 128);
        eng_drive_info(a.local, &info);
        assert_true(info.free_bytes >= 24 * MIB);                 /* the reserve is there */
        for (i = 0; i < 20 && sh_write(&b, 1, i, UNIT) == 0; i++) /* what b had made ahead may still be used */
                ;
        assert_int_equal(sh_write(&b, 2, 0, UNIT), -ENOSPC);
        delete_name(&b, "early");
        assert_int_equal(fx_lookup_rv(&b, "early"), -ENOENT);
        for (i = 0; i < n; i++)
                assert_int_equal(sh_read(&a, 1000 + i, 0, UNIT), 0);
        for (i = 0; i < n; i++) /* each other: nothing is wholly dead, so frames have to move, in the reserve */
                if (i % 2 == 0)
                        assert_int_equal(sh_discard(&a, 1000 + i), 0);
        assert_true(write_again(&a, 5000));
        assert_true(write_again(&b, 5000));
        for (i = 0; i < n; i++)
                assert_int_equal(sh_read(&a, 1000 + i, 0, UNIT), i % 2 == 0 ? -ENOENT : 0);
        n = 0; /* it comes back segment by segment */
        WAIT_UNTIL((n += fill_shards(&a, 10000 + n)) >= 20);
        assert_true(n >= 20);
        fx_close(&a); /* and while it is full */
        must_open(&a);
        for (i = 0; i < n; i++)
                assert_int_equal(sh_read(&a, 10000 + i, 0, UNIT), 0);
        fx_destroy(&a);
        fx_destroy(&b);
}

static void test_names_until_full(void **state)
{
        unsigned n, i, more = 0;
        char name[32];
        static struct fx fx;
        int rv;

        if (!mount_small(96))
                skip();
        make(&fx, 24 * MIB);
        must_open(&fx);
        n = fill_names(&fx, "a", 0, 20000);
        assert_true(n > 1000);
        check_names(&fx, "a", 0, n, 20000);
        fx_close(&fx);
        must_open(&fx);
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        check_names(&fx, "a", 0, n, 20000);
        fill_names(&fx, "c", 0, 20000); /* what the restart gave back */
        for (i = 0; i < n; i++)
                if (i % 3 != 0) {
                        key_name(name, sizeof(name), "a", i);
                        delete_name(&fx, name);
                }
        WAIT_UNTIL((rv = fx_put(&fx, "again", "x", 1)) == 0);
        assert_int_equal(rv, 0);
        WAIT_UNTIL((more += fill_names(&fx, "b", more, 20000)) > n / 4); /* it comes back file by file */
        assert_true(more > n / 4);
        fx_close(&fx);
        sh_remove_index(&fx);
        must_open(&fx);
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        for (i = 0; i < n; i++) {
                key_name(name, sizeof(name), "a", i);
                if (i % 3 == 0)
                        check_names(&fx, "a", i, i + 1, 20000);
                else
                        assert_int_equal(fx_lookup_rv(&fx, name), -ENOENT);
        }
        check_names(&fx, "b", 0, more, 20000);
        fx_destroy(&fx);
}

/* Something else takes the rest of the file system. */
static void take_all(const char *path)
{
        static uint8_t block[65536];
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        ssize_t n;

        assert_true(fd >= 0);
        do
                n = write(fd, block, sizeof(block));
        while (n > 0);
        close(fd);
}

static void check_turns(struct fx *fx, const unsigned *taken, unsigned turns)
{
        char name[32];
        unsigned i;

        for (i = 0; i < turns; i++) {
                snprintf(name, sizeof(name), "b%u", i);
                check_names(fx, name, 0, taken[i], 4000);
        }
}

/* No watermark: log files, segments and the index meet ENOSPC itself. */
static void test_really_full(void **state)
{
        unsigned names, more = 0, turns, shards, i, taken[WAIT_MOST];
        char filler[96], name[32];
        static struct fx fx;

        if (!mount_small(96))
                skip();
        make(&fx, 1);
        must_open(&fx);
        for (i = 0; i < 2000; i++) { /* an index of some size */
                key_name(name, sizeof(name), "early", i);
                assert_int_equal(fx_put(&fx, name, content(i, 100), 100), 0);
        }
        assert_true(fx_wait_indexed(&fx));
        snprintf(filler, sizeof(filler), "%s/filler", mount_point);
        shards = fill_shards(&fx, 1000);
        take_all(filler);
        names = fill_names(&fx, "a", 0, 4000); /* into what was made ahead */
        sleep(2);                           /* index batches meet it */
        must_be_sound(&fx);
        take_all(filler);
        check_names(&fx, "early", 0, 2000, 100);
        check_names(&fx, "a", 0, names, 4000);
        for (i = 0; i < shards; i++)
                assert_int_equal(sh_read(&fx, 1000 + i, 0, UNIT), 0);
        fx.seq++;
        fx_close(&fx); /* and to be closed and opened without a byte to spare */
        must_open(&fx);
        must_be_sound(&fx);
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        check_names(&fx, "early", 0, 2000, 100);
        check_names(&fx, "a", 0, names, 4000);
        for (i = 0; i < shards; i++)
                assert_int_equal(sh_read(&fx, 1000 + i, 0, UNIT), 0);
        sleep(2);
        must_be_sound(&fx);
        assert_int_equal(unlink(filler), 0);
        for (i = 0; i < shards; i++)
                assert_int_equal(sh_discard(&fx, 1000 + i), 0);
        for (i = 0; i < 2000; i++) {
                key_name(name, sizeof(name), "early", i);
                delete_name(&fx, name);
        }
        assert_true(write_again(&fx, 7000));
        for (turns = 0; turns < WAIT_MOST && more <= 1000; turns++) { /* it comes back file by file */
                sleep(1);
                snprintf(name, sizeof(name), "b%u", turns);
                taken[turns] = fill_names(&fx, name, 0, 4000);
                more += taken[turns];
        }
        assert_true(more > 1000);
        check_turns(&fx, taken, turns);
        check_names(&fx, "a", 0, names, 4000);
        fx_close(&fx);
        must_open(&fx);
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        check_names(&fx, "a", 0, names, 4000);
        check_turns(&fx, taken, turns);
        assert_int_equal(sh_read(&fx, 7000, 0, UNIT), 0);
        fx_destroy(&fx);
}

/* ---- a new leader of a full drive ------------------------------------------------------------ */

static int open_term(struct fx *fx, uint64_t revision, struct fx_op *op)
{
        *op = (struct fx_op){.op = {.kind = ENG_OP_OPEN, .flags = ENG_OP_RESERVE}};
        op->op.term = (struct eng_term){.generation = 1, .revision = revision, .node = 1};
        fx->term = op->op.term;
        return fx_run(fx, op);
}

#define WAITING 64u

/*
 * Deletions of one leader wait in the log for room that there is none of; another comes. It is not
 * kept waiting, nor are several after it, and what waited is refused. Then there is room again.
 */
static void test_open_of_a_full_drive(void **state)
{
        static struct fx_op ops[WAITING], op;
        static struct fx_body body;
        uint8_t full[FMT_NAME_MAX];
        unsigned i, waited = 0, names;
        char filler[96], kept[96], name[32];
        static struct fx fx;
        int rv, fd;

        if (!mount_small(96))
                skip();
        make(&fx, 1);
        must_open(&fx);
        assert_int_equal(open_term(&fx, 1, &op), 0);
        snprintf(filler, sizeof(filler), "%s/filler", mount_point);
        snprintf(kept, sizeof(kept), "%s/kept", mount_point);
        fd = open(kept, O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0 && posix_fallocate(fd, 0, 32 * MIB) == 0);
        close(fd);
        names = fill_names(&fx, "a", 0, 60000);
        take_all(filler);
        for (i = 0; i < 100000 && !eng_drive_exhausted(fx.local); i++) { /* each alone, to the end of the log file */
                body.len = body.inline_len = 0;
                fx_body_delete(&body, full, fx_name(full, "none"));
                fx_fill_append(&ops[0], &body, 2, i + 1, i);
                ops[0].op.flags = ENG_OP_RESERVE;
                fx_start(&fx, 0, &ops[0]);
                WAIT_UNTIL((sem_getvalue(&ops[0].ended, &rv), rv > 0) || eng_drive_exhausted(fx.local));
                if (rv > 0) {
                        assert_int_equal(fx_wait(&ops[0]), 0);
                        eng_buf_unref(ops[0].op.append.body);
                }
        }
        assert_true(eng_drive_exhausted(fx.local));
        for (i = 1; i < WAITING; i++) {
                fx_fill_append(&ops[i], &body, 3, i, 0);
                ops[i].op.flags = ENG_OP_RESERVE;
                fx_start(&fx, 0, &ops[i]);
        }
        assert_int_equal(open_term(&fx, 2, &op), 0);
        for (i = 0; i < WAITING; i++) {
                rv = fx_wait(&ops[i]);
                assert_true(rv == 0 || (rv == -ESTALE && ops[i].op.deposed));
                waited += rv != 0;
                eng_buf_unref(ops[i].op.append.body);
        }
        assert_true(waited >= WAITING - 1);
        for (i = 3; i < 13; i++)
                assert_int_equal(open_term(&fx, i, &op), 0);
        must_be_sound(&fx);
        fx_close(&fx);
        must_open(&fx);
        assert_int_equal(open_term(&fx, 12, &op), 0); /* of this one there is a record */
        assert_int_equal(unlink(filler) | unlink(kept), 0);
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        for (i = 0; i < names; i++) {
                key_name(name, sizeof(name), "a", i);
                delete_name(&fx, name);
        }
        WAIT_UNTIL((rv = fx_put(&fx, "again", "x", 1)) == 0);
        assert_int_equal(rv, 0);
        fx_destroy(&fx);
}

/* ---- openings without room ------------------------------------------------------------------- */

/* What the drive's folder lacks when it is opened. */
enum lack { NOTHING, INDEX_BYTES, INDEX, SOUND_INDEX, LACKS };

static void take_away(struct fx *fx, enum lack lack)
{
        char path[300];
        int fd;

        snprintf(path, sizeof(path), "%s/index/data.mdb", fx->path);
        if (lack == INDEX_BYTES) /* its making was cut short */
                assert_int_equal(truncate(path, 0), 0);
        if (lack == INDEX)
                sh_remove_index(fx);
        if (lack == SOUND_INDEX) {
                snprintf(path, sizeof(path), "%s/index/CONDEMNED", fx->path);
                fd = open(path, O_WRONLY | O_CREAT, 0600);
                assert_true(fd >= 0);
                close(fd);
        }
}

/* Everything is taken but so much. */
static void leave(const char *filler, unsigned kib)
{
        struct stat st;

        take_all(filler);
        assert_int_equal(stat(filler, &st), 0);
        assert_int_equal(truncate(filler, st.st_size - (off_t)kib * 1024), 0);
}

static ino_t index_inode(const struct fx *fx)
{
        char path[300];
        struct stat st;

        snprintf(path, sizeof(path), "%s/index/data.mdb", fx->path);
        return stat(path, &st) == 0 ? st.st_ino : 0;
}

static bool is_condemned(const struct fx *fx)
{
        char path[300];

        snprintf(path, sizeof(path), "%s/index/CONDEMNED", fx->path);
        return access(path, F_OK) == 0;
}

/*
 * A drive that was killed is opened with little room or none. It opens, or says that there is no
 * room, which the store tries again; it never says anything else, and a sound index is neither
 * condemned nor made anew. With room all is there.
 */
static void test_open_full(void **state)
{
        static const unsigned left[] = {0, 4, 8, 12, 16, 20, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 4096};
        unsigned i, opened[LACKS] = {0};
        char filler[96], name[32];
        static struct fx fx;
        ino_t index;
        int lack, rv;

        if (!mount_small(64))
                skip();
        make(&fx, 1);
        fx.options.log_file_bytes = 4 * MIB;
        fx.options.segment_bytes = 8 * MIB;
        must_open(&fx);
        for (i = 0; i < 1000; i++) {
                key_name(name, sizeof(name), "early", i);
                assert_int_equal(fx_put(&fx, name, content(i, 100), 100), 0);
        }
        assert_true(fx_wait_indexed(&fx));
        for (i = 0; i < 200; i++) {
                key_name(name, sizeof(name), "late", i);
                assert_int_equal(fx_put(&fx, name, content(i, 1000), 1000), 0);
        }
        fx_snapshot(&fx, "killed");
        fx_close(&fx);
        snprintf(filler, sizeof(filler), "%s/filler", mount_point);
        for (lack = 0; lack < LACKS; lack++)
                for (i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
                        fx_restore(&fx, "killed");
                        take_away(&fx, (enum lack)lack);
                        index = index_inode(&fx);
                        leave(filler, left[i]);
                        rv = fx_open(&fx);
                        if (rv != 0 && rv != -ENOSPC)
                                print_message("lack %d, %u KiB left: %s\n", lack, left[i], fx.error.text);
                        assert_true(rv == 0 || rv == -ENOSPC);
                        if (rv == 0) {
                                opened[lack]++;
                                must_be_sound(&fx);
                                check_names(&fx, "early", 0, 1000, 100);
                                check_names(&fx, "late", 0, 199, 1000); /* the last one is pending */
                                fx_close(&fx);
                        }
                        if (lack == NOTHING) {
                                assert_false(is_condemned(&fx));
                                assert_true(index_inode(&fx) == index);
                        }
                        assert_int_equal(unlink(filler), 0);
                        must_open(&fx);
                        must_be_sound(&fx);
                        check_names(&fx, "early", 0, 1000, 100);
                        check_names(&fx, "late", 0, 199, 1000);
                        fx_close(&fx);
                }
        assert_int_equal(opened[NOTHING], sizeof(left) / sizeof(left[0])); /* what is whole needs no room */
        assert_true(opened[INDEX_BYTES] > 0 && opened[INDEX] > 0 && opened[SOUND_INDEX] > 0);
        fx_destroy(&fx);
}

/* The index's map is too small again and again; nobody notices. */
static void test_map_grows(void **state)
{
        struct eng_drive_info info;
        char name[32];
        struct fx fx;
        unsigned i;

        fx_make(&fx, 1);
        fx.options.index_map_bytes = 256 << 10;
        must_open(&fx);
        for (i = 0; i < 6000; i++) {
                key_name(name, sizeof(name), "name", i);
                assert_int_equal(fx_put(&fx, name, content(i, 40), 40), 0);
        }
        assert_true(fx_wait_indexed(&fx));
        must_be_sound(&fx);
        eng_drive_info(fx.local, &info);
        assert_true(info.index_bytes > 1 * MIB);
        check_names(&fx, "name", 0, 6000, 40);
        fx_close(&fx);
        sh_remove_index(&fx);
        must_open(&fx);
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        check_names(&fx, "name", 0, 6000, 40);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_shared_watermark, unmount_small),
                cmocka_unit_test_teardown(test_names_until_full, unmount_small),
                cmocka_unit_test_teardown(test_really_full, unmount_small),
                cmocka_unit_test_teardown(test_open_of_a_full_drive, unmount_small),
                cmocka_unit_test_teardown(test_open_full, unmount_small),
                cmocka_unit_test(test_map_grows),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
