/*
 * test_identity.c - which folders are drives, which may become one, and which are never touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/drive/drive.h"
#include "engine/drive/identity.h"
#include "engine/drive/rec.h"

#include <setjmp.h>
#include <cmocka.h>

static const struct fmt_epoch epoch = {.number = 1, .id = {9}, .pg_count = 16, .k = 1};

static struct eng_identity make_identity(void)
{
        struct eng_identity identity = {.slot = 3, .layout = FMT_LAYOUT_VERSION, .created_ms = 1234567890123};

        memset(identity.store_id, 0x5a, FMT_ID);
        memset(identity.drive_id, 0xc3, FMT_ID);
        return identity;
}

struct location {
        char path[160];
};

static int make_location(void **state)
{
        const char *tmp = getenv("TMPDIR");
        struct location *location = calloc(1, sizeof(*location));

        snprintf(location->path, sizeof(location->path), "%s/mr-ident-XXXXXX", tmp != NULL ? tmp : "/tmp");
        assert_non_null(mkdtemp(location->path));
        *state = location;
        return 0;
}

static int drop_location(void **state)
{
        struct location *location = *state;
        char command[512];

        snprintf(command, sizeof(command), "chmod -R u+rwx '%s'; rm -rf '%s'", location->path, location->path);
        assert_int_equal(system(command), 0);
        free(location);
        return 0;
}

static void write_file(const struct location *location, const char *name, const char *text)
{
        char path[256];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", location->path, name);
        file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
}

static void make_folder(const struct location *location, const char *name)
{
        char path[256];

        snprintf(path, sizeof(path), "%s/%s", location->path, name);
        assert_int_equal(mkdir(path, 0700), 0);
}

static enum eng_folder_state probe(const struct location *location)
{
        struct eng_identity found;
        enum eng_folder_state state;
        struct eng_error error;

        assert_int_equal(eng_folder_probe(location->path, &state, &found, &error), 0);
        return state;
}

static int format(const struct location *location)
{
        struct eng_identity identity = make_identity();
        struct eng_error error;

        return eng_folder_format(location->path, &identity, &epoch, sizeof(epoch), &error);
}

static void test_absent(void **state)
{
        struct location there = {"/nonexistent-folder-of-this-test"}, file = {"/etc/passwd"};

        assert_int_equal(probe(&there), ENG_FOLDER_ABSENT);
        assert_int_equal(probe(&file), ENG_FOLDER_ABSENT);
        assert_int_equal(format(&there), -ENOENT);
}

static void test_format_and_probe(void **state)
{
        const struct location *location = *state;
        struct eng_identity identity = make_identity(), found, other;
        enum eng_folder_state folder;
        struct eng_error error;

        assert_int_equal(probe(location), ENG_FOLDER_EMPTY);
        make_folder(location, "lost+found");
        assert_int_equal(probe(location), ENG_FOLDER_EMPTY);
        assert_int_equal(format(location), 0);
        assert_int_equal(eng_folder_probe(location->path, &folder, &found, &error), 0);
        assert_int_equal(folder, ENG_FOLDER_DRIVE);
        assert_memory_equal(&found, &identity, sizeof(found));
        assert_int_equal(format(location), 0); /* the same again */
        other = identity;
        other.slot = 4;
        assert_int_equal(eng_folder_format(location->path, &other, &epoch, sizeof(epoch), &error), -EEXIST);
        assert_non_null(strstr(error.text, location->path));
}

static void test_foreign_is_not_touched(void **state)
{
        static const char *const names[] = {"file", ".hidden", "LOCK2", "data.txt"};
        const struct location *location = *state;
        char path[256];
        unsigned i;

        for (i = 0; i < 4; i++) {
                write_file(location, names[i], "mine");
                assert_int_equal(probe(location), ENG_FOLDER_FOREIGN);
                assert_int_equal(format(location), -EEXIST);
                snprintf(path, sizeof(path), "%s/%s", location->path, names[i]);
                assert_int_equal(unlink(path), 0);
        }
        assert_int_equal(probe(location), ENG_FOLDER_EMPTY);
        /* a drive that lost its FORMAT is not an unfinished format */
        assert_int_equal(format(location), 0);
        snprintf(path, sizeof(path), "%s/FORMAT", location->path);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(probe(location), ENG_FOLDER_FOREIGN);
        assert_int_equal(format(location), -EEXIST);
}

static void test_partial_format_is_finished(void **state)
{
        const struct location *location = *state;
        char from[256], to[256];

        /* as after each step of a format */
        write_file(location, "FORMAT.new", "");
        assert_int_equal(probe(location), ENG_FOLDER_PARTIAL);
        make_folder(location, "log");
        assert_int_equal(probe(location), ENG_FOLDER_PARTIAL);
        write_file(location, "log/0000000000000001.log", "half");
        make_folder(location, "data");
        assert_int_equal(probe(location), ENG_FOLDER_PARTIAL);
        assert_int_equal(format(location), 0);
        assert_int_equal(probe(location), ENG_FOLDER_DRIVE);
        /* but not one in which something was kept */
        snprintf(from, sizeof(from), "%s/FORMAT", location->path);
        snprintf(to, sizeof(to), "%s/FORMAT.new", location->path);
        assert_int_equal(rename(from, to), 0);
        assert_int_equal(probe(location), ENG_FOLDER_PARTIAL);
        write_file(location, "data/0000000000000001.seg", "kept");
        assert_int_equal(probe(location), ENG_FOLDER_FOREIGN);
}

/*
 * A crash between the last steps of the drives of a store: what was prepared says what it was to
 * be, and is made that.
 */
static void test_prepared_is_finished(void **state)
{
        const struct location *location = *state;
        struct eng_identity identity = make_identity(), found, none = {.slot = 0};
        enum eng_folder_state folder;
        struct eng_error error;

        write_file(location, "FORMAT.new", "half");
        assert_int_equal(eng_folder_probe(location->path, &folder, &found, &error), 0);
        assert_memory_equal(&found, &none, sizeof(found));
        assert_int_equal(eng_folder_prepare(location->path, &identity, &epoch, sizeof(epoch), &error), 0);
        assert_int_equal(eng_folder_probe(location->path, &folder, &found, &error), 0);
        assert_int_equal(folder, ENG_FOLDER_PARTIAL);
        assert_memory_equal(&found, &identity, sizeof(found));
        assert_int_equal(eng_folder_finish(location->path, &error), 0);
        assert_int_equal(probe(location), ENG_FOLDER_DRIVE);
        assert_int_equal(format(location), 0); /* this very format */
        assert_int_equal(eng_folder_prepare(location->path, &identity, &epoch, sizeof(epoch), &error), -EEXIST);
        assert_int_equal(eng_folder_finish(location->path, &error), -ENOENT);
        assert_non_null(strstr(error.text, location->path));
}

static void test_damaged_format(void **state)
{
        const struct location *location = *state;
        struct eng_identity identity = make_identity(), found;
        enum eng_folder_state folder;
        struct eng_error error;
        char text[2048];
        size_t len = eng_identity_print(&identity, text, sizeof(text)), i;

        assert_int_equal(eng_identity_parse(text, len, &found), 0);
        for (i = 0; i + 2 < len; i++) {
                text[i] ^= 1;
                assert_int_equal(eng_identity_parse(text, len, &found), -EBADMSG);
                text[i] ^= 1;
                assert_int_equal(eng_identity_parse(text, i, &found), -EBADMSG);
        }
        memset(text, 'x', sizeof(text));
        assert_int_equal(eng_identity_parse(text, sizeof(text), &found), -EBADMSG);
        identity.layout = FMT_LAYOUT_VERSION + 1;
        len = eng_identity_print(&identity, text, sizeof(text));
        assert_int_equal(eng_identity_parse(text, len, &found), -EPROTONOSUPPORT);
        write_file(location, "FORMAT", text);
        assert_int_equal(eng_folder_probe(location->path, &folder, &found, &error), -EPROTONOSUPPORT);
        assert_non_null(strstr(error.text, "newer"));
        identity = make_identity();
        identity.features = 1ull << 63;
        len = eng_identity_print(&identity, text, sizeof(text));
        assert_int_equal(eng_identity_parse(text, len, &found), -EPROTONOSUPPORT);
        identity = make_identity();
        identity.slot = ENG_DRIVES_MAX;
        len = eng_identity_print(&identity, text, sizeof(text));
        assert_int_equal(eng_identity_parse(text, len, &found), -EBADMSG);
        write_file(location, "FORMAT", "millrace drive\nlayout 1\n");
        assert_int_equal(eng_folder_probe(location->path, &folder, &found, &error), -EBADMSG);
        assert_non_null(strstr(error.text, location->path));
}

static void test_lock(void **state)
{
        const struct location *location = *state;
        int dir = open(location->path, O_RDONLY | O_DIRECTORY), first, second;
        struct eng_error error;

        assert_int_equal(eng_folder_lock(dir, location->path, &first, &error), 0);
        assert_int_equal(eng_folder_lock(dir, location->path, &second, &error), -EBUSY);
        close(first);
        assert_int_equal(eng_folder_lock(dir, location->path, &second, &error), 0);
        close(second);
        close(dir);
}

static void test_bad_epoch(void **state)
{
        const struct location *location = *state;
        struct eng_identity identity = make_identity();
        struct fmt_epoch other = epoch;
        struct eng_error error;

        assert_int_equal(eng_folder_format(location->path, &identity, &epoch, sizeof(epoch) - 1, &error), -EINVAL);
        other.k = 0; /* what no store has, and is divided by */
        assert_int_equal(eng_rec_check_epoch(&other, sizeof(other)), -EBADMSG);
        other.k = 1;
        assert_int_equal(eng_rec_check_epoch(&other, sizeof(other)), 0);
        other.pg_count = 0;
        assert_int_equal(eng_rec_check_epoch(&other, sizeof(other)), -EBADMSG);
        assert_int_equal(probe(location), ENG_FOLDER_PARTIAL);
        assert_int_equal(format(location), 0);
}

static unsigned renamed_flushes;

/* The test's own: counts flushes of a folder in which FORMAT has got its name. */
int fsync(int fd)
{
        struct stat st;

        if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && faccessat(fd, "FORMAT", F_OK, 0) == 0 &&
            faccessat(fd, "FORMAT.new", F_OK, 0) != 0)
                renamed_flushes++;
        return (int)syscall(SYS_fsync, fd);
}

/*
 * What is written as layout 2 from here on must not be found with the FORMAT of layout 1 after a
 * power cut: its new name is flushed.
 */
static void test_upgrade_is_flushed(void **state)
{
        const struct location *location = *state;
        struct eng_identity identity = make_identity(), found;
        enum eng_folder_state what;
        struct eng_error error;
        int dir_fd;

        assert_int_equal(format(location), 0);
        dir_fd = open(location->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(dir_fd >= 0);
        identity.layout = 1;
        renamed_flushes = 0;
        assert_int_equal(eng_folder_upgrade(dir_fd, location->path, &identity, &error), 0);
        assert_true(renamed_flushes > 0);
        assert_int_equal(eng_folder_probe(location->path, &what, &found, &error), 0);
        assert_int_equal(what, ENG_FOLDER_DRIVE);
        assert_int_equal(found.layout, FMT_LAYOUT_VERSION);
        close(dir_fd);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_absent),
                cmocka_unit_test_setup_teardown(test_format_and_probe, make_location, drop_location),
                cmocka_unit_test_setup_teardown(test_foreign_is_not_touched, make_location, drop_location),
                cmocka_unit_test_setup_teardown(test_partial_format_is_finished, make_location, drop_location),
                cmocka_unit_test_setup_teardown(test_prepared_is_finished, make_location, drop_location),
                cmocka_unit_test_setup_teardown(test_damaged_format, make_location, drop_location),
                cmocka_unit_test_setup_teardown(test_lock, make_location, drop_location),
                cmocka_unit_test_setup_teardown(test_bad_epoch, make_location, drop_location),
                cmocka_unit_test_setup_teardown(test_upgrade_is_flushed, make_location, drop_location),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
