/*
 * test_credentials.c - root credentials: from the environment, from files, made new; and every
 * reason to refuse them.
 */
#include "server/credentials.h"
#include "server/key_file.h"
#include "server/daemon_log.h"

#include "s3.h"

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
        char folder[64], key_file[128];
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
        unsetenv(SRV_KEY_ENV);
        strcpy(f->folder, "/tmp/millrace-credentials-XXXXXX");
        if (mkdtemp(f->folder) == NULL || srv_settings_init(&f->settings) != 0)
                return -1;
        snprintf(f->key_file, sizeof(f->key_file), "%s/keys/key", f->folder);
        if (srv_settings_set(&f->settings, SRV_SETTING_key_file, SRV_FROM_FILE, f->key_file, "key_file", &f->error) != 0)
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

static bool holds(const char *path, const char *part)
{
        char text[4096] = "";
        FILE *file = fopen(path, "r");

        assert_non_null(file);
        assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
        fclose(file);
        return strstr(text, part) != NULL;
}

static void copy_file(const char *from, const char *to)
{
        char command[600];

        snprintf(command, sizeof(command), "cp -p %s %s", from, to);
        assert_int_equal(system(command), 0);
}

/* ---- made new -------------------------------------------------------------------------------- */

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
        assert_int_equal(stat(f->key_file, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_false(holds(path_of(f, 0, "CREDENTIALS"), first.secret_key));
        assert_false(holds(path_of(f, 1, "CREDENTIALS"), first.access_key));
        assert_int_equal(srv_credentials_read(path_of(f, 1, "CREDENTIALS"), &again, &f->error), -EINVAL);
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

/* ---- files ----------------------------------------------------------------------------------- */

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

/* ---- sealed ---------------------------------------------------------------------------------- */

/* What an earlier version left in plain text is sealed at the first start, drive by drive. */
static void test_plain_files_are_taken_over(void **state)
{
        struct fixture *f = *state;
        int i;

        for (i = 0; i < 2; i++)
                write_file(path_of(f, i, "CREDENTIALS"), GOOD, 0600);
        assert_int_equal(load(f, false), 0);
        for (i = 0; i < 2; i++)
                assert_false(holds(path_of(f, i, "CREDENTIALS"), "0123456789"));
        assert_int_equal(load(f, false), 0);
        assert_string_equal(f->c.secret_key, "0123456789");
        /* Cut short after the first drive; or after the key alone. */
        write_file(path_of(f, 1, "CREDENTIALS"), GOOD, 0600);
        assert_int_equal(load(f, false), 0);
        assert_false(holds(path_of(f, 1, "CREDENTIALS"), "0123456789"));
        for (i = 0; i < 2; i++)
                write_file(path_of(f, i, "CREDENTIALS"), GOOD, 0600);
        assert_int_equal(load(f, false), 0);
        assert_false(holds(path_of(f, 0, "CREDENTIALS"), "0123456789"));
        assert_string_equal(f->c.secret_key, "0123456789");
}

static void test_a_key_that_cannot_be_made(void **state)
{
        struct fixture *f = *state;

        write_file(path_of(f, 0, "x"), "", 0600);
        assert_int_equal(srv_settings_set(&f->settings, SRV_SETTING_key_file, SRV_FROM_COMMAND_LINE, "/dev/null/key", "x", &f->error), 0);
        assert_true(load(f, true) < 0); /* a new store has no secret in plain text */
        assert_int_equal(access(path_of(f, 0, "CREDENTIALS"), F_OK), -1);
}

static void test_a_lost_key(void **state)
{
        struct fixture *f = *state;
        struct srv_credentials first;

        assert_int_equal(load(f, true), 0);
        first = f->c;
        unlink(f->key_file);
        assert_int_equal(load(f, true), -ENOKEY); /* nothing is made in its place */
        names(f, f->key_file);
        names(f, "--rotate-credentials");
        assert_int_equal(srv_credentials_show(&f->settings, stdout, &f->error), -ENOKEY);
        assert_int_equal(access(f->key_file, F_OK), -1);
        assert_int_equal(srv_credentials_rotate(&f->settings, &f->error), 0);
        assert_int_equal(load(f, false), 0);
        assert_string_not_equal(f->c.secret_key, first.secret_key);
}

static void test_another_key(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(load(f, true), 0);
        write_file(f->key_file, "key = 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n", 0600);
        assert_int_equal(load(f, true), -ENOKEY);
        names(f, "has another one");
        write_file(f->key_file, "key = 0011\n", 0600);
        assert_int_equal(load(f, true), -EINVAL);
        names(f, "64 hex digits");
        write_file(f->key_file, "# none\n", 0600);
        assert_int_equal(load(f, true), -EINVAL);
        write_file(f->key_file, "key = 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n", 0640);
        assert_int_equal(load(f, true), -EPERM);
        names(f, f->key_file);
}

static void test_a_seal_that_was_tampered_with(void **state)
{
        static const char *const fields[] = {"generation = ", "nonce = ", "sealed = "};
        struct fixture *f = *state;
        char text[4096], *at;
        size_t i, n;
        FILE *file;

        assert_int_equal(load(f, true), 0);
        unlink(path_of(f, 1, "CREDENTIALS"));
        file = fopen(path_of(f, 0, "CREDENTIALS"), "r");
        n = fread(text, 1, sizeof(text) - 1, file);
        text[n] = '\0';
        fclose(file);
        for (i = 0; i < 3; i++) {
                at = strstr(text, fields[i]) + strlen(fields[i]);
                *at ^= 1;
                write_file(path_of(f, 0, "CREDENTIALS"), text, 0600);
                assert_int_equal(load(f, false), -EINVAL);
                unlink(path_of(f, 1, "CREDENTIALS"));
                *at ^= 1;
        }
}

static void test_rotated_credentials(void **state)
{
        struct fixture *f = *state;
        struct srv_credentials first;

        assert_int_equal(load(f, true), 0);
        first = f->c;
        copy_file(path_of(f, 1, "CREDENTIALS"), path_of(f, 2, "old"));
        assert_int_equal(srv_credentials_rotate(&f->settings, &f->error), 0);
        /*
         * Cut short after the first drive, or the second was away: the later ones are in force, and
         * kept everywhere.
         */
        copy_file(path_of(f, 2, "old"), path_of(f, 1, "CREDENTIALS"));
        assert_int_equal(load(f, false), 0);
        assert_string_not_equal(f->c.secret_key, first.secret_key);
        first = f->c;
        unlink(path_of(f, 0, "CREDENTIALS"));
        assert_int_equal(load(f, false), 0);
        assert_string_equal(f->c.secret_key, first.secret_key);
}

static void test_a_rotated_key(void **state)
{
        struct fixture *f = *state;
        struct srv_credentials first;
        struct srv_keys keys;
        char text[128];

        assert_int_equal(load(f, true), 0);
        first = f->c;
        copy_file(path_of(f, 1, "CREDENTIALS"), path_of(f, 2, "old"));
        assert_int_equal(srv_credentials_rotate_key(&f->settings, &f->error), 0);
        assert_int_equal(srv_keys_load(&f->settings, &keys, &f->error), 0);
        assert_int_equal(keys.count, 2);
        assert_true(holds(path_of(f, 0, "CREDENTIALS"), keys.list[0].id));
        copy_file(path_of(f, 2, "old"), path_of(f, 1, "CREDENTIALS")); /* cut short: the former key opens it, and it is sealed anew */
        assert_int_equal(load(f, false), 0);
        assert_string_equal(f->c.secret_key, first.secret_key);
        assert_true(holds(path_of(f, 1, "CREDENTIALS"), keys.list[0].id));
        s3_hex_encode(keys.list[0].bytes, SRV_KEY_LEN, text);
        setenv(SRV_KEY_ENV, text, 1); /* the same key, without a file */
        unlink(f->key_file);
        assert_int_equal(load(f, false), 0);
        assert_string_equal(f->c.secret_key, first.secret_key);
        assert_int_equal(srv_credentials_rotate_key(&f->settings, &f->error), -EINVAL);
        names(f, SRV_KEY_ENV);
        unsetenv(SRV_KEY_ENV);
}

/*
 * Sealed with a key that is gone, and later than the copy that can be opened: that one may have
 * been revoked.
 */
static void test_a_later_copy_that_cannot_be_opened(void **state)
{
        struct fixture *f = *state;
        char old_key[160];

        assert_int_equal(load(f, true), 0);
        snprintf(old_key, sizeof(old_key), "%s.old", f->key_file);
        copy_file(f->key_file, old_key);
        copy_file(path_of(f, 0, "CREDENTIALS"), path_of(f, 2, "old"));
        unlink(f->key_file);
        assert_int_equal(srv_credentials_rotate(&f->settings, &f->error), 0);
        copy_file(old_key, f->key_file);
        copy_file(path_of(f, 2, "old"), path_of(f, 0, "CREDENTIALS"));
        assert_int_equal(load(f, false), -ENOKEY);
}

static void test_a_key_on_a_drive(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(srv_settings_set(&f->settings, SRV_SETTING_key_file, SRV_FROM_COMMAND_LINE, path_of(f, 1, "key"), "x", &f->error), 0);
        assert_int_equal(load(f, true), -EINVAL);
        names(f, "keep it elsewhere");
        assert_int_equal(access(path_of(f, 1, "key"), F_OK), -1);
}

/* Its folder is made with it, so it is the nearest one that is there that counts. */
static void test_a_key_in_a_new_folder_on_a_drive(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(srv_settings_set(&f->settings, SRV_SETTING_key_file, SRV_FROM_COMMAND_LINE, path_of(f, 1, "new/er/key"), "x", &f->error), 0);
        assert_int_equal(load(f, true), -EINVAL);
        names(f, "keep it elsewhere");
        assert_int_equal(access(path_of(f, 1, "new"), F_OK), -1);
}

/* Two stores share the file and start together: both have found none. */
static void test_a_key_made_meanwhile(void **state)
{
        struct fixture *f = *state;
        struct srv_keys first, second;

        assert_int_equal(srv_keys_load(&f->settings, &first, &f->error), -ENOENT);
        second = first;
        assert_int_equal(srv_keys_add(&f->settings, &first, &f->error), 0);
        assert_int_equal(srv_keys_add(&f->settings, &second, &f->error), 0);
        assert_int_equal(second.count, 1);
        assert_string_equal(second.list[0].id, first.list[0].id);
        /* Two that add one to those they know lose neither. */
        assert_int_equal(srv_keys_add(&f->settings, &first, &f->error), 0);
        assert_int_equal(srv_keys_add(&f->settings, &second, &f->error), 0);
        assert_int_equal(second.count, 3);
        assert_non_null(srv_keys_find(&second, first.list[0].id));
}

static void test_a_key_file_that_is_no_more_readable_is_kept(void **state)
{
        struct fixture *f = *state;

        assert_int_equal(load(f, true), 0);
        write_file(f->key_file, "key = 0011\nkey = 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n", 0600);
        assert_int_equal(srv_credentials_rotate(&f->settings, &f->error), -EINVAL);
        names(f, "64 hex digits");
        assert_true(holds(f->key_file, "00112233445566778899aabbccddeeff"));
}

/* The operator is root, and the daemon is not. */
static void test_files_keep_their_owner(void **state)
{
        struct fixture *f = *state;
        struct stat st;

        if (geteuid() != 0)
                skip();
        assert_int_equal(chown(path_of(f, 0, "FORMAT"), 1236, 1237), 0);
        assert_int_equal(load(f, true), 0);
        assert_int_equal(stat(f->key_file, &st), 0); /* a new one is of whoever has the drives */
        assert_int_equal(st.st_uid, 1236);
        assert_int_equal(chown(f->key_file, 1234, 1235), 0);
        assert_int_equal(chown(path_of(f, 0, "CREDENTIALS"), 1234, 1235), 0);
        assert_int_equal(srv_credentials_rotate(&f->settings, &f->error), 0);
        assert_int_equal(srv_credentials_rotate_key(&f->settings, &f->error), 0);
        assert_int_equal(stat(f->key_file, &st), 0);
        assert_int_equal(st.st_uid, 1234);
        assert_int_equal(stat(path_of(f, 0, "CREDENTIALS"), &st), 0);
        assert_int_equal(st.st_uid, 1234);
        assert_int_equal(st.st_gid, 1235);
        assert_int_equal(st.st_mode & 07777, 0600);
}

static void test_shown(void **state)
{
        static const char *const bad[] = {
                "export AWS_ACCESS_KEY_ID=mine\nexport AWS_SECRET_ACCESS_KEY='long-enough'\n",    "export AWS_ACCESS_KEY_ID='mine'\nexport AWS_SECRET_ACCESS_KEY='long-enough\n",
                "export AWS_ACCESS_KEY_ID='mine'\nexport AWS_SECRET_ACCESS_KEY='long'-enough'\n", "export AWS_ACCESS_KEY_ID='mine'\naccess_key = mine\nsecret_key = long-enough\n",
                "export AWS_ACCESS_KEY_ID='\n"};
        struct srv_credentials read = {.access_key = ""};
        struct fixture *f = *state;
        char *text = NULL;
        size_t len, i;
        FILE *out = open_memstream(&text, &len);

        write_file(path_of(f, 0, "CREDENTIALS"), "access_key = mine\nsecret_key = it's-a-secret\n", 0600);
        assert_int_equal(srv_credentials_show(&f->settings, out, &f->error), 0);
        fclose(out);
        assert_string_equal(text, "export AWS_ACCESS_KEY_ID='mine'\nexport AWS_SECRET_ACCESS_KEY='it'\\''s-a-secret'\n");
        assert_true(holds(path_of(f, 0, "CREDENTIALS"), "it's-a-secret")); /* looking changes nothing */
        write_file(path_of(f, 1, "shown"), text, 0600);
        free(text);
        assert_int_equal(srv_credentials_read(path_of(f, 1, "shown"), &read, &f->error), 0);
        assert_string_equal(read.access_key, "mine");
        assert_string_equal(read.secret_key, "it's-a-secret");
        for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
                write_file(path_of(f, 1, "shown"), bad[i], 0600);
                assert_int_equal(srv_credentials_read(path_of(f, 1, "shown"), &read, &f->error), -EINVAL);
        }
}

/* ---- the environment ------------------------------------------------------------------------- */

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
                TEST(test_plain_files_are_taken_over),
                TEST(test_a_key_that_cannot_be_made),
                TEST(test_a_lost_key),
                TEST(test_another_key),
                TEST(test_a_seal_that_was_tampered_with),
                TEST(test_rotated_credentials),
                TEST(test_a_rotated_key),
                TEST(test_a_later_copy_that_cannot_be_opened),
                TEST(test_a_key_on_a_drive),
                TEST(test_a_key_in_a_new_folder_on_a_drive),
                TEST(test_a_key_made_meanwhile),
                TEST(test_a_key_file_that_is_no_more_readable_is_kept),
                TEST(test_files_keep_their_owner),
                TEST(test_shown),
                TEST(test_environment),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
