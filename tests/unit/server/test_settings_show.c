/*
 * test_settings_show.c - server/settings_show.c: values as text that a file could have, and secrets
 * that are not shown.
 */
#include "server/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void set(struct srv_settings *settings, enum srv_setting_id id, const char *value)
{
        struct srv_error error;

        assert_int_equal(srv_settings_set(settings, id, SRV_FROM_FILE, value, "x", &error), 0);
}

static void expect_shown(const struct srv_settings *settings, enum srv_setting_id id, const char *want)
{
        char *text = srv_setting_show(settings, id);

        assert_non_null(text);
        assert_string_equal(text, want);
        free(text);
}

static void test_values(void **state)
{
        struct srv_settings settings;

        assert_int_equal(srv_settings_init(&settings), 0);
        expect_shown(&settings, SRV_SETTING_listen, "127.0.0.1:9000");
        expect_shown(&settings, SRV_SETTING_plain_listen, "");
        expect_shown(&settings, SRV_SETTING_ec, "");
        expect_shown(&settings, SRV_SETTING_drive, "");
        expect_shown(&settings, SRV_SETTING_log_level, "info");
        set(&settings, SRV_SETTING_listen, "[::1]:80");
        set(&settings, SRV_SETTING_plain_listen, "*:9000");
        set(&settings, SRV_SETTING_ec, "4+2");
        set(&settings, SRV_SETTING_drive, "/a");
        set(&settings, SRV_SETTING_drive, "/b c");
        set(&settings, SRV_SETTING_log_level, "warning");
        set(&settings, SRV_SETTING_presign_v2, "yes");
        set(&settings, SRV_SETTING_memory, "64MiB");
        set(&settings, SRV_SETTING_drive_wait, "90s");
        expect_shown(&settings, SRV_SETTING_listen, "[::1]:80");
        expect_shown(&settings, SRV_SETTING_plain_listen, "*:9000");
        expect_shown(&settings, SRV_SETTING_ec, "4+2");
        expect_shown(&settings, SRV_SETTING_drive, "/a, /b c");
        expect_shown(&settings, SRV_SETTING_log_level, "warning");
        expect_shown(&settings, SRV_SETTING_presign_v2, "yes");
        expect_shown(&settings, SRV_SETTING_memory, "64MiB");
        assert_string_equal(srv_source_name(settings.source[SRV_SETTING_memory]), "file");
        assert_string_equal(srv_source_name(settings.source[SRV_SETTING_cache]), "default");
        srv_settings_free(&settings);
}

/* What is shown of a default means the default. */
static void test_round_trip(void **state)
{
        struct srv_settings one, other;

        assert_int_equal(srv_settings_init(&one), 0);
        assert_int_equal(srv_settings_init(&other), 0);
        for (int id = 0; id < SRV_SETTING_COUNT; id++) {
                char *text = srv_setting_show(&one, (enum srv_setting_id)id);

                assert_non_null(text);
                if (text[0] != '\0' && strcmp(text, "*") != 0) {
                        set(&other, (enum srv_setting_id)id, text);
                        expect_shown(&other, (enum srv_setting_id)id, text);
                }
                free(text);
        }
        srv_settings_free(&one);
        srv_settings_free(&other);
}

/*
 * A setting that is named like a secret is one, unless it names a file, counts something, or is
 * listed here as harmless.
 */
static void test_secrets(void **state)
{
        static const char *const words[] = {"key", "secret", "password", "token", "credential"};
        static const char *const harmless[] = {"rdma_token_gid", "rdma_token_gid_plain"}; /* addresses */
        struct srv_settings settings;

        assert_int_equal(srv_settings_init(&settings), 0);
        set(&settings, SRV_SETTING_rdma_token_key, "1234abcd");
        for (int id = 0; id < SRV_SETTING_COUNT; id++) {
                const struct srv_setting_info *info = &srv_setting_infos[id];
                char *text = srv_setting_show(&settings, (enum srv_setting_id)id);
                bool suspect = false;

                for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                        suspect |= strstr(info->name, words[i]) != NULL;
                for (unsigned i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
                        suspect &= strcmp(info->name, harmless[i]) != 0;
                suspect &= info->type != SRV_INT && (info->argument == NULL || strcmp(info->argument, "FILE") != 0);
                if (suspect && strcmp(text, "*") != 0)
                        fail_msg("%s is shown: %s", info->name, text);
                free(text);
        }
        expect_shown(&settings, SRV_SETTING_rdma_token_key, "*");
        srv_settings_free(&settings);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_secrets),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
