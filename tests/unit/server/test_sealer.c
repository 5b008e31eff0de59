/*
 * test_sealer.c - secrets of users sealed with the key file: opened by the same name and key alone, also
 * after a rotation; every alteration is refused; without a key nothing is sealed.
 */
#include "server/sealer.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
        char folder[64], key_file[128];
        struct srv_settings settings;
        struct srv_error error;
        struct srv_sealer sealer;
        struct gw_sealer gw;
};

static int setup(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        if (f == NULL)
                return -1;
        *state = f;
        unsetenv(SRV_KEY_ENV);
        strcpy(f->folder, "/tmp/millrace-sealer-XXXXXX");
        if (mkdtemp(f->folder) == NULL)
                return -1;
        snprintf(f->key_file, sizeof(f->key_file), "%s/key", f->folder);
        if (srv_settings_init(&f->settings) != 0)
                return -1;
        if (srv_settings_set(&f->settings, SRV_SETTING_key_file, SRV_FROM_FILE, f->key_file, "key_file", &f->error) !=
            0)
                return -1;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *f = *state;

        srv_sealer_close(&f->sealer);
        unlink(f->key_file);
        rmdir(f->folder);
        srv_settings_free(&f->settings);
        free(f);
        return 0;
}

static void open_sealer(struct fixture *f, bool may_make)
{
        assert_int_equal(srv_sealer_open(&f->sealer, &f->settings, may_make, &f->error), 0);
        f->gw = srv_sealer_of(&f->sealer);
}

static int seal(struct fixture *f, const char *about, const char *secret, char sealed[GW_SEALED_MAX])
{
        return f->gw.seal(f->gw.arg, about, secret, sealed, GW_SEALED_MAX);
}

static int unseal(struct fixture *f, const char *about, const char *sealed, char secret[GW_SECRET_MAX + 1])
{
        return f->gw.open(f->gw.arg, about, sealed, secret, GW_SECRET_MAX + 1);
}

/* Of every length; each time other text; by its name alone. */
static void test_seal(void **state)
{
        char secret[GW_SECRET_MAX + 2], sealed[GW_SEALED_MAX], again[GW_SEALED_MAX], out[GW_SECRET_MAX + 1];
        struct fixture *f = *state;
        struct stat st;
        size_t len;

        open_sealer(f, true);
        assert_int_equal(stat(f->key_file, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        memset(secret, 's', sizeof(secret));
        for (len = 0; len <= GW_SECRET_MAX; len++) {
                secret[len] = '\0';
                assert_int_equal(seal(f, "key A", secret, sealed), 0);
                assert_int_equal(seal(f, "key A", secret, again), 0);
                assert_string_not_equal(sealed, again);
                assert_null(strstr(sealed, "ss"));
                assert_true(f->gw.knows(f->gw.arg, sealed));
                assert_int_equal(unseal(f, "key A", sealed, out), 0);
                assert_string_equal(out, secret);
                assert_int_equal(unseal(f, "key B", sealed, out), -EBADMSG); /* swapped */
                assert_string_equal(out, "");
                secret[len] = 's';
        }
        secret[GW_SECRET_MAX + 1] = '\0';
        assert_int_equal(seal(f, "key A", secret, sealed), -EINVAL);
        assert_int_equal(f->gw.seal(f->gw.arg, "key A", "secret", sealed, 40), -EINVAL);
}

/* Each character altered, and each length cut. */
static void test_altered(void **state)
{
        char sealed[GW_SEALED_MAX], altered[GW_SEALED_MAX], out[GW_SECRET_MAX + 1];
        struct fixture *f = *state;
        size_t i;

        open_sealer(f, true);
        assert_int_equal(seal(f, "key A", "a secret of forty characters, or nearly", sealed), 0);
        for (i = 0; i < strlen(sealed); i++) {
                strcpy(altered, sealed);
                altered[i] = altered[i] == '0' ? '1' : '0';
                assert_int_not_equal(unseal(f, "key A", altered, out), 0);
                strcpy(altered, sealed);
                altered[i] = '\0';
                assert_int_not_equal(unseal(f, "key A", altered, out), 0);
                assert_string_equal(out, "");
        }
        strcat(strcpy(altered, sealed), "00");
        assert_int_equal(unseal(f, "key A", altered, out), -EBADMSG);
        assert_int_equal(unseal(f, "key A", sealed, out), 0);
        assert_int_equal(f->gw.open(f->gw.arg, "key A", sealed, out, 20), -EBADMSG); /* no room */
}

/* A new key before the others: what was sealed with a former one opens as long as that is in the file. */
static void test_rotation(void **state)
{
        char old[GW_SEALED_MAX], new[GW_SEALED_MAX], out[GW_SECRET_MAX + 1];
        struct fixture *f = *state;
        struct srv_keys keys;

        open_sealer(f, true);
        assert_int_equal(seal(f, "key A", "old", old), 0);
        assert_int_equal(srv_keys_load(&f->settings, &keys, &f->error), 0);
        assert_int_equal(srv_keys_add(&f->settings, &keys, &f->error), 0);
        srv_sealer_reload(&f->sealer, &f->settings);
        assert_int_equal(seal(f, "key A", "new", new), 0);
        assert_memory_not_equal(old, new, 16);
        assert_int_equal(unseal(f, "key A", old, out), 0);
        assert_string_equal(out, "old");
        assert_int_equal(unseal(f, "key A", new, out), 0);
        unlink(f->key_file);
        srv_sealer_reload(&f->sealer, &f->settings); /* they stay */
        assert_int_equal(unseal(f, "key A", old, out), 0);
        srv_sealer_close(&f->sealer);
        open_sealer(f, true); /* another one */
        assert_false(f->gw.knows(f->gw.arg, old));
        assert_int_equal(unseal(f, "key A", old, out), -ENOKEY);
        assert_int_equal(unseal(f, "key A", new, out), -ENOKEY);
}

static void test_no_key(void **state)
{
        char sealed[GW_SEALED_MAX];
        struct fixture *f = *state;
        int fd;

        open_sealer(f, false);
        assert_int_equal(access(f->key_file, F_OK), -1);
        assert_int_equal(seal(f, "key A", "secret", sealed), -ENOKEY);
        srv_sealer_close(&f->sealer);
        fd = open(f->key_file, O_WRONLY | O_CREAT, 0644);
        assert_true(fd >= 0);
        close(fd);
        assert_int_equal(chmod(f->key_file, 0644), 0);
        assert_int_equal(srv_sealer_open(&f->sealer, &f->settings, true, &f->error), -EPERM); /* others can read it */
        assert_non_null(strstr(f->error.text, f->key_file));
}

/* A token opens about its access key, whole, and while its key is there. */
static void test_tokens(void **state)
{
        uint8_t sealed[64 + GW_TOKEN_MORE], again[64 + GW_TOKEN_MORE], out[64], in[64];
        struct fixture *f = *state;
        const size_t len = sizeof(sealed);

        open_sealer(f, true);
        memset(in, 7, sizeof(in));
        assert_int_equal(f->gw.seal_token(f->gw.arg, "ASIA1", in, sizeof(in), sealed), 0);
        assert_int_equal(f->gw.seal_token(f->gw.arg, "ASIA1", in, sizeof(in), again), 0);
        assert_memory_not_equal(sealed, again, len);
        assert_int_equal(f->gw.open_token(f->gw.arg, "ASIA1", sealed, len, out), 0);
        assert_memory_equal(out, in, sizeof(in));
        assert_int_equal(f->gw.open_token(f->gw.arg, "ASIA2", sealed, len, out), -EBADMSG);
        assert_true(f->gw.knows_token(f->gw.arg, sealed, len));
        for (size_t i = 0; i < len; i++) {
                sealed[i] ^= 1;
                assert_int_not_equal(f->gw.open_token(f->gw.arg, "ASIA1", sealed, len, out), 0);
                sealed[i] ^= 1;
                assert_int_not_equal(f->gw.open_token(f->gw.arg, "ASIA1", sealed, i, out), 0);
        }
        unlink(f->key_file);
        srv_sealer_close(&f->sealer);
        open_sealer(f, true); /* another key */
        assert_int_equal(f->gw.open_token(f->gw.arg, "ASIA1", sealed, len, out), -ENOKEY);
        assert_false(f->gw.knows_token(f->gw.arg, sealed, len));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_seal, setup, teardown),
                cmocka_unit_test_setup_teardown(test_tokens, setup, teardown),
                cmocka_unit_test_setup_teardown(test_altered, setup, teardown),
                cmocka_unit_test_setup_teardown(test_rotation, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_key, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
