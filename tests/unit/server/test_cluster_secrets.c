/*
 * test_cluster_secrets.c - digests of what all nodes must have alike: the same of the same, others of anything
 * else, another one in each cluster, and nothing that can be had without the key.
 */
#include "server/cluster_secrets.h"

#include "server/credentials.h"
#include "server/key_file.h"

#include <errno.h>
#include <openssl/hmac.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define KEY_A "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define KEY_B "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

struct fixture {
        char folder[64], key_file[128], root[128];
        struct srv_settings settings;
        struct srv_error error;
};

static const uint8_t cluster[NET_CLUSTER_LEN] = "one cluster", another[NET_CLUSTER_LEN] = "another";

static int setup(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        if (f == NULL)
                return -1;
        *state = f;
        unsetenv(SRV_KEY_ENV);
        unsetenv(SRV_ACCESS_KEY_ENV);
        unsetenv(SRV_SECRET_KEY_ENV);
        strcpy(f->folder, "/tmp/millrace-secrets-XXXXXX");
        if (mkdtemp(f->folder) == NULL)
                return -1;
        snprintf(f->key_file, sizeof(f->key_file), "%s/key", f->folder);
        snprintf(f->root, sizeof(f->root), "%s/root", f->folder);
        if (srv_settings_init(&f->settings) != 0)
                return -1;
        return srv_settings_set(&f->settings, SRV_SETTING_key_file, SRV_FROM_FILE, f->key_file, "key_file", &f->error) != 0 ||
                               srv_settings_set(&f->settings, SRV_SETTING_root_credentials, SRV_FROM_FILE, f->root, "root_credentials", &f->error) != 0
                       ? -1
                       : 0;
}

static int teardown(void **state)
{
        struct fixture *f = *state;

        unlink(f->key_file);
        unlink(f->root);
        rmdir(f->folder);
        srv_settings_free(&f->settings);
        free(f);
        return 0;
}

static struct net_secrets digest(struct fixture *f, const char *keys, const char *access_key, const char *secret_key, const uint8_t *id)
{
        struct srv_credentials credentials = {.access_key = ""};
        struct net_secrets out;

        snprintf(credentials.access_key, sizeof(credentials.access_key), "%s", access_key);
        snprintf(credentials.secret_key, sizeof(credentials.secret_key), "%s", secret_key);
        assert_int_equal(srv_secret_write(f->key_file, keys, &f->error), 0);
        assert_int_equal(srv_credentials_write(f->root, &credentials, &f->error), 0);
        assert_int_equal(srv_secrets_digest(&f->settings, id, &out, &f->error), 0);
        return out;
}

static void test_digests_compare(void **state)
{
        struct fixture *f = *state;
        struct net_secrets first = digest(f, "key = " KEY_A "\n", "root", "a-secret-of-some-length", cluster), again, two;

        assert_int_equal(first.count, 1);
        again = digest(f, "# the same\nkey = " KEY_A "\n", "root", "a-secret-of-some-length", cluster);
        assert_memory_equal(&first, &again, sizeof(first));
        again = digest(f, "key = " KEY_A "\n", "root", "a-secret-of-same-length", cluster);
        assert_int_equal(net_secrets_compare(&first, &again), NET_SECRETS_ROOT_DIFFERS);
        again = digest(f, "key = " KEY_A "\n", "roota", "-secret-of-some-length", cluster);
        assert_int_equal(net_secrets_compare(&first, &again), NET_SECRETS_ROOT_DIFFERS);
        again = digest(f, "key = " KEY_B "\n", "root", "a-secret-of-some-length", cluster);
        assert_int_equal(net_secrets_compare(&first, &again), NET_SECRETS_APART);
        two = digest(f, "key = " KEY_A "\nkey = " KEY_B "\n", "root", "a-secret-of-some-length", cluster);
        assert_int_equal(two.count, 2);
        assert_int_equal(net_secrets_compare(&first, &two), NET_SECRETS_SAME);
        again = digest(f, "key = " KEY_B "\nkey = " KEY_A "\n", "root", "a-secret-of-some-length", cluster);
        assert_int_equal(net_secrets_compare(&two, &again), NET_SECRETS_FIRST_DIFFERS);
        assert_int_equal(net_secrets_compare(&first, &again), NET_SECRETS_APART);
}

/* Two clusters with one key, or one password, do not show it; and a digest is not that of a key alone. */
static void test_digests_tell_nothing(void **state)
{
        struct fixture *f = *state;
        struct net_secrets here = digest(f, "key = " KEY_A "\n", "root", "a-secret-of-some-length", cluster), there;
        struct srv_keys keys;
        char id[17];
        unsigned i;

        there = digest(f, "key = " KEY_A "\n", "root", "a-secret-of-some-length", another);
        assert_int_equal(net_secrets_compare(&here, &there), NET_SECRETS_APART);
        assert_memory_not_equal(here.root[0], there.root[0], NET_DIGEST_LEN);
        assert_memory_not_equal(here.root[0], here.key[0], NET_DIGEST_LEN);
        there = digest(f, "key = " KEY_B "\n", "root", "a-secret-of-some-length", cluster);
        assert_memory_not_equal(here.root[0], there.root[0], NET_DIGEST_LEN);
        assert_int_equal(srv_keys_load(&f->settings, &keys, &f->error), 0);
        for (i = 0; i < NET_DIGEST_LEN; i++)
                snprintf(id + 2 * i, 3, "%02x", there.key[0][i]);
        assert_string_not_equal(id, keys.list[0].id); /* which stands beside what it has sealed */
}

static void test_what_is_missing_is_named(void **state)
{
        struct fixture *f = *state;
        struct srv_credentials credentials = {.access_key = "root", .secret_key = "a-secret-of-some-length"};
        struct net_secrets out;

        assert_int_equal(srv_secrets_digest(&f->settings, cluster, &out, &f->error), -ENOENT);
        assert_non_null(strstr(f->error.text, f->root));
        assert_int_equal(srv_credentials_write(f->root, &credentials, &f->error), 0);
        assert_int_equal(srv_secrets_digest(&f->settings, cluster, &out, &f->error), -ENOENT);
        assert_non_null(strstr(f->error.text, "key_file: a cluster needs one"));
        assert_int_equal(out.count, 0);
        assert_int_equal(srv_secret_write(f->key_file, "key = 12\n", &f->error), 0);
        assert_int_equal(srv_secrets_digest(&f->settings, cluster, &out, &f->error), -EINVAL);
        assert_int_equal(out.count, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_digests_compare, setup, teardown),
                cmocka_unit_test_setup_teardown(test_digests_tell_nothing, setup, teardown),
                cmocka_unit_test_setup_teardown(test_what_is_missing_is_named, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
