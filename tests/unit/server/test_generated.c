/*
 * test_generated.c - what is made of the tables and kept in the tree is what the tables say now.
 * Run in the folder of the project.
 *
 * When it fails: server/generate.sh MILLRACED writes the files again.
 */
#include "server/metrics.h"
#include "server/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *read_file(const char *path)
{
        FILE *file = fopen(path, "r");
        char *text = NULL;
        size_t size = 0;

        if (file == NULL)
                fail_msg("%s cannot be opened: run this test in the folder of the project", path);
        assert_true(getdelim(&text, &size, '\0', file) > 0);
        fclose(file);
        return text;
}

static char *print_text(void (*print)(FILE *out))
{
        char *text = NULL;
        size_t len;
        FILE *out = open_memstream(&text, &len);

        print(out);
        fclose(out);
        return text;
}

static void same_file(const char *path, void (*print)(FILE *out))
{
        char *expected = print_text(print), *found = read_file(path);

        if (strcmp(expected, found) != 0)
                fail_msg("%s is not what server/generate.sh makes", path);
        free(expected);
        free(found);
}

static void test_sample(void **state)
{
        same_file("conf/millrace.conf.sample", srv_print_sample_config);
}

static void test_configuration(void **state)
{
        same_file("docs/configuration.md", srv_print_settings_markdown);
}

static void test_metrics_table(void **state)
{
        same_file("docs/metrics.md", srv_print_metrics_markdown);
}

/* The manual page has the options between two marks. */
static void test_manual(void **state)
{
        char *page = read_file("docs/man/millraced.8"), *options = print_text(srv_print_settings_man);
        char *begin = strstr(page, ".\\\" SETTINGS BEGIN\n"), *end = strstr(page, ".\\\" SETTINGS END\n");

        assert_true(begin != NULL && end != NULL);
        begin = strchr(begin, '\n') + 1;
        if ((size_t)(end - begin) != strlen(options) || strncmp(begin, options, strlen(options)) != 0)
                fail_msg("docs/man/millraced.8 is not what server/generate.sh makes");
        free(page);
        free(options);
}

/* Every setting that is not hidden is named in --help, with its option. */
static void test_help_names_all(void **state)
{
        char *help = print_text(srv_print_help), option[64], *p;
        int i;

        for (i = 0; i < SRV_SETTING_COUNT; i++) {
                snprintf(option, sizeof(option), "  --%s", srv_setting_infos[i].name);
                for (p = option; *p != '\0'; p++)
                        *p = *p == '_' ? '-' : *p;
                if ((strstr(help, option) != NULL) != (srv_setting_infos[i].help != NULL))
                        fail_msg("%s in --help", option);
        }
        free(help);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sample),         cmocka_unit_test(test_configuration),
                cmocka_unit_test(test_metrics_table),  cmocka_unit_test(test_manual),
                cmocka_unit_test(test_help_names_all),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
