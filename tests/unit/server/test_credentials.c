/*
 * test_credentials.c - root credentials: from the environment, from files, made new; and every reason to refuse them.
 */
#include "server/credentials.h"
#include "server/log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define DRIVES 3

struct fixture {
        char folder[64];
        struct srv_settings settings;
        struct srv_error error;
        struct srv_credentials c;
};

static char *path_of(struct fixture *f, int drive, const char *name)
{
        static char path[4][256];
        static int next;
        char *out = path[next++ % 4];

        snprintf(out, 256, "%s/%d%s%s", f->folder, drive, *name != '\0' ? "/" : "", name);
        return out;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
        int fd;

        unlink(path);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        assert_int_equal(fchmod(fd, mode), 0);
        close(fd);
}

/* Three drives, the last of which is an empty folder: a missing one. */
static int setup(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));
        int i;

        unsetenv(SRV_ACCESS_KEY_ENV);
        unsetenv(SRV_SECRET_KEY_ENV);
        strcpy(f->folder, "/tmp/millrace-credentials-XXXXXX");
        if (mkdtemp(f->folder) == NULL || srv_settings_init(&f->settings) != 0)
                return -1;
        for (i = 0; i < DRIVES; i++) {
                mkdir(path_of(f, i, ""), 0700);
                if (i < DRIVES - 1)
                        write_file(path_of(f, i, "FORMAT"), "x", 0600);
                if (srv_settings_set(&f->settings, SRV_SETTING_drive, SRV_FROM_COMMAND_LINE, path_of(f, i, ""),
                                     "--drive", &f->error) != 0)
                        return -1;
        }
        *state = f;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *f = *state;
        char command[128];

        snprintf(command, sizeof(command), "rm -rf %s", f->folder);
        if (system(command) != 0)
                return -1;
        srv_settings_free(&f->settings);
        free(f);
        return 0;
}

static int load(struct fixture *f, bool may_generate)
{
        memset(&f->c, 0, sizeof(f->c));
        f->error.text[0] = '\0';
        return srv_credentials_load(&f->settings, may_generate, &f->c, &f->error);
}

static void names(struct fixture *f, const char *part)
{
        if (strstr(f->error.text, part) == NULL)
                fail_msg("'%s' does not name '%s'", f->error.text, part);
}

static void use_file(struct fixture *f, const char *path)
{
        assert_int_equal(srv_settings_set(&f->settings, SRV_SETTING_root_credentials, SRV_FROM_COMMAND_LINE, path, "x",
                                          &f->error),
                         0);
}

/* ---- made new ------------------------------------------------------------------------------------- */

static void test_generated(void **state)
{
        struct fixture *f = *state;
        struct srv_credentials first, again;
        struct stat st;

        assert_int_equal(load(f, true), 0);
        first = f->c;
        assert_int_equal(strlen(first.access_key), 20);
        assert_int_equal(strlen(first.secret_key), 40);
        assert_int_equal(stat(path_of(f, 0, "CREDENTIALS"), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(srv_credentials_read(path_of(f, 1, "CREDENTIALS"), &again, &f->error), 0);
        assert_memory_equal(&first, &again, sizeof(first));
        /* The folder that is no drive was not written to, and nothing half-made lies about. */
        assert_int_equal(access(path_of(f, 2, "CREDENTIALS"), F_OK), -1);
        assert_int_equal(access(path_of(f, 0, "CREDENTIALS.new"), F_OK), -1);
        assert_int_equal(load(f, true), 0);
        assert_memory_equal(&first, &f->c, sizeof(first));
}

static void test_never_the_same_twice(void **state)
{
        struct srv_credentials a, b;

        srv_credentials_generate(&a);
        srv_credentials_generate(&b);
        assert_string_not_equal(a.access_key, b.access_key);
        assert_string_not_equal(a.secret_key, b.secret_key);
}

static void test_not_generated_unless_asked(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(load(f, false), -ENOENT);
        names(f, SRV_ACCESS_KEY_ENV);
        assert_int_equal(access(path_of(f, 0, "CREDENTIALS"), F_OK), -1);
}

static void test_generated_into_the_named_file(void **state)
{
        struct fixture *f = *state;
        struct srv_credentials again;
        char path[128];

        snprintf(path, sizeof(path), "%s/root", f->folder);
        use_file(f, path);
        assert_int_equal(load(f, true), 0);
        assert_int_equal(srv_credentials_read(path, &again, &f->error), 0);
        assert_memory_equal(&f->c, &again, sizeof(again));
        assert_int_equal(access(path_of(f, 0, "CREDENTIALS"), F_OK), -1);
}

static void test_cannot_be_kept(void **state)
{
        struct fixture *f = *state;

        use_file(f, "/nowhere/at/all");
        assert_true(load(f, true) < 0);
        names(f, "/nowhere/at/all");
}

static void test_left_over_of_a_crash(void **state)
{
        struct fixture *f = *state;

        write_file(path_of(f, 0, "CREDENTIALS.new"), "half", 0600);
        assert_int_equal(load(f, true), 0);
        assert_int_equal(access(path_of(f, 0, "CREDENTIALS.new"), F_OK), -1);
}

/* ---- files ---------------------------------------------------------------------------------------- */

#define GOOD "# mine\naccess_key = mine\nsecret_key=0123456789\n"

static void test_lost_copy_is_made_again(void **state)
{
        struct fixture *f = *state;

        write_file(path_of(f, 1, "CREDENTIALS"), GOOD, 0600);
        assert_int_equal(load(f, false), 0);
        assert_string_equal(f->c.access_key, "mine");
        assert_string_equal(f->c.secret_key, "0123456789");
        assert_int_equal(access(path_of(f, 0, "CREDENTIALS"), F_OK), 0);
        assert_int_equal(access(path_of(f, 2, "CREDENTIALS"), F_OK), -1);
}

static void test_permissions(void **state)
{
        static const mode_t refused[] = {0640, 0604, 0620, 0602, 0666, 0610};
        struct fixture *f = *state;
        size_t i;

        for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
                write_file(path_of(f, 0, "CREDENTIALS"), GOOD, refused[i]);
                assert_int_equal(load(f, true), -EPERM);
                names(f, path_of(f, 0, "CREDENTIALS"));
        }
        write_file(path_of(f, 0, "CREDENTIALS"), GOOD, 0400);
        assert_int_equal(load(f, true), 0);
        write_file(path_of(f, 1, "CREDENTIALS"), GOOD, 0644); /* a good copy does not excuse it */
        assert_int_equal(load(f, true), -EPERM);
}

static void test_damaged(void **state)
{
        static const char *const damaged[] = {"",
                                              "access_key = mine\n",
                                              "secret_key = 0123456789\n",
                                              "access_key = mine\nsecret_key = short\n",
                                              "access_key = me\nsecret_key = 0123456789\n",
                                              "access_key = a/b\nsecret_key = 0123456789\n",
                                              "access_key = a,b\nsecret_key = 0123456789\n",
                                              "access_key = a b\nsecret_key = 0123456789\n",
                                              "access_key = mine\nsecret_key = 01234\x7f"
                                              "56789\n",
                                              "access_key = mine\nsecret_key = \xc3\xa9zzzzzzzzzz\n",
                                              "access_key = mine\naccess_key = mine\nsecret_key = 0123456789\n",
                                              "access_key = mine\nsecret_key = 0123456789\nuser = me\n",
                                              "[root]\naccess_key = mine\nsecret_key = 0123456789\n",
                                              "nonsense\n"};
        struct fixture *f = *state;
        char *path = strdup(path_of(f, 0, "CREDENTIALS")), *copy = strdup(path_of(f, 1, "CREDENTIALS"));
        char long_one[512];
        size_t i;

        for (i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
                write_file(path, damaged[i], 0600);
                unlink(copy);
                if (load(f, true) != -EINVAL)
                        fail_msg("taken: %s", damaged[i]);
                names(f, path);
                write_file(copy, GOOD, 0600); /* the good copy serves, the damaged one stays for the operator to see */
                assert_int_equal(load(f, true), 0);
        }
        unlink(copy);
        snprintf(long_one, sizeof(long_one), "access_key = mine\nsecret_key = %0200d\n", 7);
        write_file(path, long_one, 0600);
        assert_int_equal(load(f, true), -EINVAL);
        free(path);
        free(copy);
}

static void test_not_a_file(void **state)
{
        struct fixture *f = *state;
        char *huge = calloc(1, 5001);

        use_file(f, f->folder);
        assert_int_equal(load(f, true), -EINVAL);
        memset(huge, '#', 5000);
        write_file(path_of(f, 0, "huge"), huge, 0600);
        assert_int_equal(srv_credentials_read(path_of(f, 0, "huge"), &f->c, &f->error), -EINVAL);
        free(huge);
        /* A FIFO must not make the daemon wait. */
        assert_int_equal(mkfifo(path_of(f, 0, "fifo"), 0600), 0);
        assert_int_equal(srv_credentials_read(path_of(f, 0, "fifo"), &f->c, &f->error), -EINVAL);
}

static void test_copies_that_differ(void **state)
{
        struct fixture *f = *state;

        write_file(path_of(f, 0, "CREDENTIALS"), GOOD, 0600);
        write_file(path_of(f, 1, "CREDENTIALS"), "access_key = mine\nsecret_key = other-secret\n", 0600);
        assert_int_equal(load(f, true), -EEXIST);
        names(f, path_of(f, 0, "CREDENTIALS"));
        names(f, path_of(f, 1, "CREDENTIALS"));
        assert_null(strstr(f->error.text, "other-secret"));
}

/* ---- the environment ------------------------------------------------------------------------------ */

static void test_environment(void **state)
{
        struct fixture *f = *state;

        write_file(path_of(f, 0, "CREDENTIALS"), GOOD, 0600);
        setenv(SRV_ACCESS_KEY_ENV, "from-env", 1);
        setenv(SRV_SECRET_KEY_ENV, "secret-of-env", 1);
        assert_int_equal(load(f, true), 0);
        assert_string_equal(f->c.access_key, "from-env");
        assert_string_equal(f->c.secret_key, "secret-of-env");
        assert_int_equal(access(path_of(f, 1, "CREDENTIALS"), F_OK), -1); /* nothing is written */

        unsetenv(SRV_SECRET_KEY_ENV);
        assert_int_equal(load(f, true), -EINVAL);
        names(f, SRV_SECRET_KEY_ENV);
        setenv(SRV_SECRET_KEY_ENV, "secret-of-env", 1);
        unsetenv(SRV_ACCESS_KEY_ENV);
        assert_int_equal(load(f, true), -EINVAL);
        names(f, SRV_ACCESS_KEY_ENV);
        setenv(SRV_ACCESS_KEY_ENV, "with space", 1);
        assert_int_equal(load(f, true), -EINVAL);
        setenv(SRV_ACCESS_KEY_ENV, "from-env", 1);
        setenv(SRV_SECRET_KEY_ENV, "short", 1);
        assert_int_equal(load(f, true), -EINVAL);
        assert_null(strstr(f->error.text, "short"));
        setenv(SRV_ACCESS_KEY_ENV, "", 1);
        setenv(SRV_SECRET_KEY_ENV, "", 1);
        assert_int_equal(load(f, true), 0);
        assert_string_equal(f->c.access_key, "mine");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_generated),
                TEST(test_never_the_same_twice),
                TEST(test_not_generated_unless_asked),
                TEST(test_generated_into_the_named_file),
                TEST(test_cannot_be_kept),
                TEST(test_left_over_of_a_crash),
                TEST(test_lost_copy_is_made_again),
                TEST(test_permissions),
                TEST(test_damaged),
                TEST(test_not_a_file),
                TEST(test_copies_that_differ),
                TEST(test_environment),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
