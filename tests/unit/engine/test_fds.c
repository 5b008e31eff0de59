/*
 * test_fds.c - descriptors of segments and log files: opened when a file is read, bounded however
 * many files there are, never another file's; and what is found when a file is opened that a start
 * had taken for granted. Openings are seen, refused and held up by an openat() of the test's own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/drive/local.h"
#include "engine/drive/segment_priv.h"
#include "tests/lib/shard_fixture.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

#define LEN      (1u << 20)
#define SHARDS   40u /* three of them fill a segment */
#define FEW      8u
#define MANY     20000u

static atomic_uint opened_segments, opened_logs;
static atomic_bool refuse, hold;
static sem_t held, go_on;
static unsigned stale;

static bool ends_in(const char *path, const char *suffix)
{
        size_t n = strlen(path), m = strlen(suffix);

        return n >= m && strcmp(path + n - m, suffix) == 0;
}

int openat(int dir_fd, const char *name, int flags, ...)
{
        bool reads = (flags & O_ACCMODE) == O_RDONLY && (ends_in(name, ".seg") || ends_in(name, ".log"));
        va_list args;
        mode_t mode;

        va_start(args, flags);
        mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
        va_end(args);
        if (reads && atomic_exchange(&hold, false)) {
                sem_post(&held);
                while (sem_wait(&go_on) != 0)
                        ;
        }
        if (reads && atomic_load(&refuse)) {
                errno = EMFILE;
                return -1;
        }
        opened_segments += ends_in(name, ".seg");
        opened_logs += ends_in(name, ".log");
        return (int)syscall(SYS_openat, dir_fd, name, flags, mode);
}

/*
 * Reads of log files: how many of them the drive could not do, and how much they read. unreadable:
 * those are from there on.
 */
static atomic_uint log_reads_failed;
static atomic_ulong log_bytes_read, unreadable = UINT64_MAX;

ssize_t pread(int fd, void *bytes, size_t len, off_t at)
{
        char link[32], path[512];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, sizeof(path) - 1);
        path[n > 0 ? n : 0] = '\0';
        if (ends_in(path, ".log")) {
                if ((uint64_t)at >= unreadable) {
                        log_reads_failed++;
                        errno = EIO;
                        return -1;
                }
                len = (uint64_t)at + len > unreadable ? unreadable - (uint64_t)at : len;
                log_bytes_read += len;
        }
        return syscall(SYS_pread64, fd, bytes, len, at);
}

/* Descriptors of this process that are open for reading files of a suffix. */
static unsigned descriptors(const char *suffix)
{
        char link[300], path[512];
        struct dirent *entry;
        unsigned count = 0;
        ssize_t n;
        DIR *dir = opendir("/proc/self/fd");

        assert_non_null(dir);
        while ((entry = readdir(dir)) != NULL) {
                snprintf(link, sizeof(link), "/proc/self/fd/%s", entry->d_name);
                n = readlink(link, path, sizeof(path) - 1);
                path[n > 0 ? n : 0] = '\0';
                count += ends_in(path, suffix) && (fcntl(atoi(entry->d_name), F_GETFL) & O_ACCMODE) == O_RDONLY;
        }
        closedir(dir);
        return count;
}

static void fill(struct fx *fx, unsigned loops)
{
        unsigned i;

        fx_make(fx, loops);
        fx->options.segment_bytes = ENG_SEGMENT_BYTES_MIN;
        fx->options.open_files = FEW;
        fx->options.reclaim_rate = ENG_RECLAIM_OFF;
        assert_int_equal(fx_open(fx), 0);
        for (i = 0; i < SHARDS; i++) {
                assert_int_equal(sh_write(fx, 1 + i, 0, LEN), 0);
                assert_int_equal(sh_sync(fx), 0);
        }
}

static void count_stale(void *arg)
{
        struct fx *fx = arg;

        stale = eng_segments_stale(eng_local_of(fx->local)->segments);
}

/*
 * The rows of all segments but the last are final: the next start takes them for granted. Files are
 * trimmed, then batches say that they are sealed.
 */
static void settle_rows(struct fx *fx)
{
        WAIT_UNTIL((assert_int_equal(fx_put(fx, "k", "v", 1), 0), fx_call(fx, 0, count_stale, fx), stale <= 1));
        assert_true(stale <= 1);
}

static void reopen(struct fx *fx)
{
        fx_close(fx);
        opened_segments = opened_logs = 0;
        assert_int_equal(fx_open(fx), 0);
}

static void segment_path(const struct fx *fx, uint64_t id, char out[256])
{
        snprintf(out, 256, "%s/data/%016llx.seg", fx->path, (unsigned long long)id);
}

static void test_bounded(void **state)
{
        struct eng_local *l;
        unsigned i, seed = 7;
        struct fx fx;

        fill(&fx, 2);
        for (i = 0; i < 300; i++) {
                seed = seed * 1103515245u + 12345u;
                assert_int_equal(sh_read(&fx, 1 + (seed >> 16) % SHARDS, 0, LEN), 0);
                assert_true(descriptors(".seg") <= 2 * FEW);
        }
        l = eng_local_of(fx.local);
        assert_true(l->fds.open <= FEW);
        fx_destroy(&fx);
}

/* More reads at once than files may be open: those in use are not closed, all bytes are right. */
static void test_all_at_once(void **state)
{
        static struct fx_op ops[SHARDS];
        static uint8_t *slots[SHARDS];
        unsigned i, round;
        struct fx fx;
        size_t at;

        fill(&fx, 2);
        for (round = 0; round < 6; round++) {
                for (i = 0; i < SHARDS; i++) {
                        if (slots[i] == NULL)
                                slots[i] = sh_new_slot();
                        memset(&ops[i], 0, sizeof(ops[i]));
                        ops[i].op.kind = ENG_OP_READ;
                        fx_id(ops[i].op.read.object_id, 1 + (i * 17 + round) % SHARDS);
                        ops[i].op.read.shard = SH_SHARD;
                        ops[i].op.read.len = ops[i].op.read.payload_len = LEN;
                        ops[i].op.read.slot = slots[i];
                        fx_start(&fx, i % 2, &ops[i]);
                }
                for (i = 0; i < SHARDS; i++) {
                        assert_int_equal(fx_wait(&ops[i]), 0);
                        for (at = 0; at < LEN; at += 4099)
                                assert_int_equal(slots[i][LP_SLOT_HEADER + at], sh_pattern(1 + (i * 17 + round) % SHARDS, 0, at));
                }
                assert_int_equal(sh_read(&fx, 1, 0, LEN), 0);
                assert_true(descriptors(".seg") <= 2 * FEW);
        }
        for (i = 0; i < SHARDS; i++) {
                free(slots[i]);
                slots[i] = NULL;
        }
        fx_destroy(&fx);
}

/* A start opens what the index does not know all about, and nothing else. */
static void test_start(void **state)
{
        unsigned i;
        struct fx fx;

        fill(&fx, 1);
        settle_rows(&fx);
        fx_snapshot(&fx, "killed");
        reopen(&fx);
        assert_true(opened_segments <= 4); /* the last ones, and the one made ahead */
        assert_true(fx_count_files(&fx, "data", ".seg") > SHARDS / 3);
        assert_int_equal(descriptors(".seg"), 0);
        for (i = 0; i < SHARDS; i++)
                assert_int_equal(sh_read(&fx, 1 + i, 0, LEN), 0);
        fx_close(&fx);
        fx_restore(&fx, "killed");
        opened_segments = 0;
        assert_int_equal(fx_open(&fx), 0);
        assert_true(opened_segments <= 8); /* those that are scanned are opened twice */
        for (i = 0; i < SHARDS; i++)
                assert_int_equal(sh_read(&fx, 1 + i, 0, LEN), 0);
        /* Without an index all are read, as ever. */
        fx_close(&fx);
        sh_remove_index(&fx);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < SHARDS; i++)
                assert_int_equal(sh_read(&fx, 1 + i, 0, LEN), 0);
        fx_destroy(&fx);
}

/* Log files as well; what is in them is read by a generation that is learned then. */
static void test_start_logs(void **state)
{
        static uint8_t bytes[100000];
        char name[32];
        struct fx fx;
        unsigned i;

        fx_make(&fx, 1);
        fx.options.cache_bytes = 1;
        fx.options.open_files = FEW;
        fx.options.reclaim_rate = ENG_RECLAIM_OFF;
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 500; i++) {
                memset(bytes, (int)i, sizeof(bytes));
                snprintf(name, sizeof(name), "%u", i);
                assert_int_equal(fx_put(&fx, name, bytes, sizeof(bytes)), 0);
        }
        assert_true(fx_wait_indexed(&fx));
        assert_true(fx_count_files(&fx, "log", ".log") > 10);
        reopen(&fx);
        assert_true(opened_logs <= 8); /* the newest, and the one made ahead */
        for (i = 0; i < 500; i += 7) {
                memset(bytes, (int)i, sizeof(bytes));
                snprintf(name, sizeof(name), "%u", i);
                assert_true(fx_has(&fx, name, bytes, sizeof(bytes)));
                assert_true(descriptors(".log") <= 2 * FEW);
        }
        fx_destroy(&fx);
}

/*
 * The header of a log file that a start took for granted went bad: its records are found all the
 * same.
 */
static void test_log_header(void **state)
{
        static uint8_t bytes[100000];
        char path[256], name[32];
        struct fx fx;
        unsigned i;

        fx_make(&fx, 1);
        fx.options.cache_bytes = 1;
        fx.options.reclaim_rate = ENG_RECLAIM_OFF;
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 100; i++) {
                snprintf(name, sizeof(name), "%u", i);
                assert_int_equal(fx_put(&fx, name, bytes, sizeof(bytes)), 0);
        }
        assert_true(fx_wait_indexed(&fx));
        fx_first(&fx, "log", path, sizeof(path));
        fx_close(&fx);
        fx_flip(path, 20);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 100; i++) {
                snprintf(name, sizeof(name), "%u", i);
                assert_true(fx_has(&fx, name, bytes, sizeof(bytes)));
        }
        fx_destroy(&fx);
}

/* A drive with 500 names, all in the index, whose first log file a start takes for granted. */
static void fill_log(struct fx *fx, char path[256])
{
        static uint8_t bytes[100000];
        char name[32];
        unsigned i;

        fx_make(fx, 1);
        fx->options.cache_bytes = 1;
        fx->options.log_file_bytes = 32 << 20;
        fx->options.reclaim_rate = ENG_RECLAIM_OFF;
        assert_int_equal(fx_open(fx), 0);
        for (i = 0; i < 500; i++) {
                snprintf(name, sizeof(name), "%u", i);
                assert_int_equal(fx_put(fx, name, bytes, sizeof(bytes)), 0);
        }
        assert_true(fx_wait_indexed(fx));
        fx_first(fx, "log", path, 256);
        fx_close(fx);
}

/*
 * Whatever of the header is damaged, the opening of the file for a read ends soon, and the drive
 * goes on.
 */
static void test_log_header_each_field(void **state)
{
        static const size_t fields[] = {
                offsetof(struct fmt_log_header, magic),     offsetof(struct fmt_log_header, crc),        offsetof(struct fmt_log_header, version),
                offsetof(struct fmt_log_header, flags),     offsetof(struct fmt_log_header, drive_id),   offsetof(struct fmt_log_header, file),
                offsetof(struct fmt_log_header, generation), offsetof(struct fmt_log_header, prev_file), offsetof(struct fmt_log_header, prev_crc),
        };
        static const uint8_t bytes[100000];
        char path[256];
        struct fx fx;
        size_t i;

        fill_log(&fx, path);
        for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
                fx_flip(path, fields[i]);
                assert_int_equal(fx_open(&fx), 0);
                log_bytes_read = 0;
                assert_true(fx_has(&fx, "7", bytes, sizeof(bytes)));
                assert_true(log_bytes_read <= FMT_BLOCK + ENG_REPLAY_REST_BYTES);
                fx_close(&fx);
                fx_flip(path, fields[i]);
        }
        assert_int_equal(fx_open(&fx), 0);
        assert_true(fx_has(&fx, "7", bytes, sizeof(bytes)));
        fx_destroy(&fx);
}

/*
 * What stands behind the header is lost as well, or cannot be read: the file is not read to its end
 * for it.
 */
static void test_log_header_and_more(void **state)
{
        static const uint64_t from[] = {0, FMT_BLOCK};
        static const uint8_t zeroes[8 << 20], bytes[100000];
        char path[256];
        struct fx fx;
        unsigned i;
        int fd;

        fill_log(&fx, path);
        fx_snapshot(&fx, "whole");
        for (i = 0; i < 2; i++) {
                fx_flip(path, 20);
                assert_int_equal(fx_open(&fx), 0);
                log_reads_failed = 0;
                unreadable = from[i];
                assert_false(fx_has(&fx, "7", bytes, sizeof(bytes)));
                unreadable = UINT64_MAX;
                assert_in_range(log_reads_failed, 1, 4);
                assert_true(fx_has(&fx, "499", bytes, sizeof(bytes)));
                fx_close(&fx);
                fx_restore(&fx, "whole");
        }
        fd = open(path, O_WRONLY);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, zeroes, sizeof(zeroes), 0), sizeof(zeroes));
        close(fd);
        assert_int_equal(fx_open(&fx), 0);
        log_bytes_read = 0;
        assert_false(fx_has(&fx, "7", bytes, sizeof(bytes)));
        assert_in_range(log_bytes_read, FMT_BLOCK, 2 * ENG_REPLAY_REST_BYTES);
        assert_true(fx_has(&fx, "499", bytes, sizeof(bytes)));
        fx_destroy(&fx);
}

/*
 * A header that was damaged since it was seen: frames are read, the file is never unlinked on the
 * index's word.
 */
static void test_damaged_since(void **state)
{
        char path[256];
        struct fx fx;
        unsigned i;

        fill(&fx, 1);
        settle_rows(&fx);
        fx_close(&fx);
        segment_path(&fx, 2, path);
        fx_flip(path, 44);
        segment_path(&fx, 3, path);
        fx_flip(path, 44);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 3; i < 6; i++) /* of segment 2; 3 is not opened before it is to go */
                assert_int_equal(sh_read(&fx, 1 + i, 0, LEN), 0);
        for (i = 0; i < SHARDS; i++)
                assert_int_equal(sh_discard(&fx, 1 + i), 0);
        assert_int_equal(fx_put(&fx, "k", "w", 1), 0);
        assert_true(sh_wait_files(&fx, "data", ".seg", 5));
        segment_path(&fx, 2, path);
        assert_int_equal(access(path, F_OK), 0);
        segment_path(&fx, 3, path);
        assert_int_equal(access(path, F_OK), 0);
        fx_destroy(&fx);
}

/* Two files changed places, one is gone: never wrong bytes, and the drive stays. */
static void test_other_files(void **state)
{
        char one[256], two[256], aside[300];
        struct eng_drive_info info;
        struct fx fx;
        unsigned i;

        fill(&fx, 1);
        settle_rows(&fx);
        reopen(&fx);
        segment_path(&fx, 1, one);
        segment_path(&fx, 2, two);
        snprintf(aside, sizeof(aside), "%s.aside", one);
        assert_int_equal(rename(one, aside), 0);
        assert_int_equal(rename(two, one), 0);
        assert_int_equal(rename(aside, two), 0);
        segment_path(&fx, 3, one);
        assert_int_equal(unlink(one), 0);
        for (i = 0; i < 9; i++)
                assert_int_equal(sh_read(&fx, 1 + i, 0, LEN), -EBADMSG);
        for (; i < SHARDS; i++)
                assert_int_equal(sh_read(&fx, 1 + i, 0, LEN), 0);
        eng_drive_info(fx.local, &info);
        assert_int_equal(info.state, ENG_DRIVE_IN);
        fx_destroy(&fx);
}

static void test_none_left(void **state)
{
        struct eng_drive_info info;
        struct fx fx;

        fill(&fx, 1);
        assert_int_equal(sh_read(&fx, 1, 0, LEN), 0);
        atomic_store(&refuse, true);
        assert_int_equal(sh_read(&fx, 10, 0, LEN), -EAGAIN);
        assert_int_equal(sh_read(&fx, 20, 0, LEN), -EAGAIN);
        atomic_store(&refuse, false);
        assert_int_equal(sh_read(&fx, 10, 0, LEN), 0);
        assert_int_equal(sh_read(&fx, 1, 0, LEN), 0);
        eng_drive_info(fx.local, &info);
        assert_int_equal(info.state, ENG_DRIVE_IN);
        fx_destroy(&fx);
}

static void fail_now(void *arg)
{
        eng_local_fail(eng_local_of(((struct fx *)arg)->local), -ETIMEDOUT, "a read, write or flush");
}

/*
 * An opening that does not come back: who waits for it is answered when the drive fails, and
 * nothing is left open.
 */
static void test_hangs(void **state)
{
        struct fx_op op = {.op = {.kind = ENG_OP_READ}};
        uint8_t *slot = sh_new_slot();
        struct fx fx;

        fill(&fx, 1);
        atomic_store(&hold, true);
        fx_id(op.op.read.object_id, 5);
        op.op.read.shard = SH_SHARD;
        op.op.read.len = op.op.read.payload_len = LEN;
        op.op.read.slot = slot;
        fx_start(&fx, 0, &op);
        while (sem_wait(&held) != 0)
                ;
        fx_call(&fx, 0, fail_now, &fx);
        assert_int_equal(fx_wait(&op), -EIO);
        sem_post(&go_on);
        fx_destroy(&fx);
        assert_int_equal(descriptors(".seg"), 0);
        free(slot);
}

/* Closed while somebody waits for an opening: nothing leaks, the worker is waited for. */
static void test_closed_meanwhile(void **state)
{
        static struct fx_op op;
        uint8_t *slot = sh_new_slot();
        struct fx fx;

        fill(&fx, 1);
        atomic_store(&hold, true);
        memset(&op, 0, sizeof(op));
        op.op.kind = ENG_OP_READ;
        fx_id(op.op.read.object_id, 5);
        op.op.read.shard = SH_SHARD;
        op.op.read.len = op.op.read.payload_len = LEN;
        op.op.read.slot = slot;
        fx_start(&fx, 0, &op);
        while (sem_wait(&held) != 0)
                ;
        sem_post(&go_on);
        fx_destroy(&fx);
        assert_int_equal(descriptors(".seg"), 0);
        free(slot);
}

/*
 * Files that the index knows all about are not touched: these are empty, and there are more of them
 * than descriptors.
 */
static void test_thousands(void **state)
{
        struct eng_segments_options options = {0};
        struct fmt_index_segment *rows = calloc(MANY, sizeof(*rows));
        struct rlimit before, few = {.rlim_cur = 64};
        char path[] = "/tmp/mr-fds-XXXXXX", name[64];
        struct eng_segments_info info;
        struct eng_segments *set;
        struct eng_error error;
        unsigned i, missing;
        int fd;

        assert_non_null(rows);
        assert_non_null(mkdtemp(path));
        for (i = 0; i < MANY; i++) {
                rows[i] = (struct fmt_index_segment){.segment = i + 1,
                                                     .generation = i + 1,
                                                     .sealed = 1,
                                                     .end = 1u << 20,
                                                     .indexed_to = 1u << 20,
                                                     .live_frames = 1,
                                                     .live_bytes = 8192};
                snprintf(name, sizeof(name), "%s/%016x.seg", path, i + 1);
                fd = open(name, O_WRONLY | O_CREAT, 0600);
                assert_true(fd >= 0);
                close(fd);
        }
        options.path = path;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        few.rlim_max = before.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        opened_segments = 0;
        assert_int_equal(eng_segments_open(&options, rows, MANY, &set, &missing, &error), 0);
        assert_int_equal(eng_segments_scan(set, NULL, NULL, NULL, &error), 0);
        assert_int_equal(opened_segments, 0);
        eng_segments_info(set, &info);
        assert_int_equal(info.segments, MANY);
        assert_int_equal(info.live_bytes, 8192ull * MANY);
        assert_int_equal(info.bytes, (uint64_t)MANY << 20);
        assert_int_equal(eng_segments_stale(set), 0); /* a batch has nothing to do for them */
        eng_segments_close(set);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        for (i = 0; i < MANY; i++) {
                snprintf(name, sizeof(name), "%s/%016x.seg", path, i + 1);
                unlink(name);
        }
        rmdir(path);
        free(rows);
}

static int pass_by(void *arg, struct eng_segment *segment, const struct fmt_frame *frame)
{
        return 0;
}

static int not_in_the_index(void *arg, struct eng_segment *segment)
{
        return 1;
}

/*
 * The index had no room for what a start found, so it waits in memory: the batch that brings it
 * into the index writes the rows as well.
 */
static void test_rows_are_behind(void **state)
{
        struct eng_segments_options options = {0};
        struct eng_segments_info info;
        struct eng_segments *set;
        struct eng_error error;
        unsigned missing;
        char path[256];
        struct fx fx;

        fill(&fx, 1);
        settle_rows(&fx);
        fx_close(&fx);
        snprintf(path, sizeof(path), "%s/data", fx.path);
        options.path = path;
        memcpy(options.drive_id, fx.options.identity.drive_id, FMT_ID);
        assert_int_equal(eng_segments_open(&options, NULL, 0, &set, &missing, &error), 0);
        assert_int_equal(eng_segments_scan(set, pass_by, not_in_the_index, NULL, &error), 0);
        eng_segments_info(set, &info);
        assert_true(info.segments > SHARDS / 3);
        assert_int_equal(eng_segments_stale(set), info.segments);
        eng_segments_close(set);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_bounded),       cmocka_unit_test(test_all_at_once),
                cmocka_unit_test(test_start),         cmocka_unit_test(test_start_logs),
                cmocka_unit_test(test_log_header_each_field),
                cmocka_unit_test(test_log_header_and_more),
                cmocka_unit_test(test_log_header),    cmocka_unit_test(test_damaged_since),
                cmocka_unit_test(test_other_files),   cmocka_unit_test(test_none_left),
                cmocka_unit_test(test_hangs),         cmocka_unit_test(test_closed_meanwhile),
                cmocka_unit_test(test_thousands),     cmocka_unit_test(test_rows_are_behind),
        };

        sem_init(&held, 0, 0);
        sem_init(&go_on, 0, 0);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
