/*
 * test_node_folders.c - the first look at a node's folders, with one that hangs: it delays neither the others nor
 * the node, is as if it were not there, and is looked at again when it answers.
 */
#include "server/node_folders.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "loop.h"
#include "tests/lib/wait.h"

#define FOLDERS 3u
#define SECOND  1000000000ull

static struct {
        char root[64], path[FOLDERS][80];
        struct srv_settings settings;
        struct srv_folders folders;
        struct srv_error error;
} f;

/* Probes of a folder of which `hangs` has a bit wait until that is gone; all others wait until so many probe at once. */
static atomic_uint hangs, together, probing, probes;

int __real_eng_folder_probe(const char *path, enum eng_folder_state *state, struct eng_identity *out, struct eng_error *error);
int __wrap_eng_folder_probe(const char *path, enum eng_folder_state *state, struct eng_identity *out, struct eng_error *error);

int __wrap_eng_folder_probe(const char *path, enum eng_folder_state *state, struct eng_identity *out, struct eng_error *error)
{
        unsigned bit = 1u << (path[strlen(path) - 1] - '0');

        atomic_fetch_add(&probes, 1);
        atomic_fetch_add(&probing, 1);
        WAIT_UNTIL((atomic_load(&hangs) & bit) == 0 && atomic_load(&probing) >= atomic_load(&together));
        return __real_eng_folder_probe(path, state, out, error);
}

static int setup(void **state)
{
        unsigned i;

        memset(&f, 0, sizeof(f));
        atomic_store(&hangs, 0);
        atomic_store(&together, 0);
        atomic_store(&probing, 0);
        atomic_store(&probes, 0);
        strcpy(f.root, "/tmp/millrace-folders-XXXXXX");
        if (mkdtemp(f.root) == NULL || srv_settings_init(&f.settings) != 0)
                return -1;
        for (i = 0; i < FOLDERS; i++) {
                snprintf(f.path[i], sizeof(f.path[i]), "%s/%u", f.root, i);
                if (mkdir(f.path[i], 0700) != 0 || srv_settings_set(&f.settings, SRV_SETTING_drive, SRV_FROM_COMMAND_LINE, f.path[i], "drive", &f.error) != 0)
                        return -1;
        }
        return srv_settings_set(&f.settings, SRV_SETTING_cluster, SRV_FROM_COMMAND_LINE, "c1", "cluster", &f.error) != 0 ||
                               srv_settings_set(&f.settings, SRV_SETTING_node, SRV_FROM_FILE, "n1", "node", &f.error) != 0 ||
                               srv_settings_set(&f.settings, SRV_SETTING_format, SRV_FROM_COMMAND_LINE, "yes", "format", &f.error) != 0
                       ? -1
                       : 0;
}

static int teardown(void **state)
{
        char file[128];
        unsigned i;

        atomic_store(&hangs, 0);
        srv_folders_settle(&f.folders, 10000);
        srv_folders_close(&f.folders);
        for (i = 0; i < FOLDERS; i++) {
                snprintf(file, sizeof(file), "%s/%s", f.path[i], ENG_FOLDER_NODE_FILE);
                unlink(file);
                rmdir(f.path[i]);
        }
        srv_settings_free(&f.settings);
        return rmdir(f.root);
}

static unsigned announced(void)
{
        struct cl_node node;

        srv_folders_announce(&f.folders, &node);
        return node.drive_count;
}

static void test_all_are_looked_at_at_once(void **state)
{
        atomic_store(&together, FOLDERS); /* each waits for the others */
        assert_int_equal(srv_folders_look(&f.folders, &f.settings, &f.error), 0);
        assert_int_equal(atomic_load(&probes), FOLDERS);
        assert_int_equal(announced(), FOLDERS);
}

static void test_a_folder_that_hangs_is_left_out(void **state)
{
        struct cl_view view = {.pool_count = 0};
        uint64_t begun = lp_clock();

        atomic_store(&hangs, 1u << 0);
        assert_int_equal(srv_folders_look(&f.folders, &f.settings, &f.error), 0);
        assert_in_range(lp_clock() - begun, SECOND, 8 * SECOND);
        assert_int_equal(f.folders.at[0].state, ENG_FOLDER_ABSENT);
        assert_int_equal(announced(), FOLDERS - 1);
        assert_false(srv_folders_settle(&f.folders, 20));
        srv_folders_work(&f.folders, NULL, NULL, &view); /* not a second time while it hangs */
        usleep(50000);
        assert_int_equal(atomic_load(&probes), FOLDERS);
        assert_int_equal(f.folders.at[0].state, ENG_FOLDER_ABSENT);

        atomic_store(&hangs, 0);
        assert_true(srv_folders_settle(&f.folders, 10000));
        assert_int_equal(f.folders.at[0].state, ENG_FOLDER_ABSENT); /* what comes so late does not count */
        srv_folders_work(&f.folders, NULL, NULL, &view);
        assert_true(srv_folders_settle(&f.folders, 10000));
        assert_int_equal(f.folders.at[0].state, ENG_FOLDER_EMPTY);
        assert_int_equal(announced(), FOLDERS);
}

/* What is wrong with one is said in their order, though the others hang or have answered first. */
static void test_a_folder_of_another_node(void **state)
{
        struct srv_folders before;
        unsigned i;

        assert_int_equal(srv_folders_look(&f.folders, &f.settings, &f.error), 0);
        before = f.folders;
        assert_int_equal(srv_settings_set(&f.settings, SRV_SETTING_node, SRV_FROM_COMMAND_LINE, "n2", "node", &f.error), 0);
        atomic_store(&hangs, 1u << 0);
        assert_int_equal(srv_folders_look(&f.folders, &f.settings, &f.error), -EINVAL);
        assert_non_null(strstr(f.error.text, f.path[1]));
        assert_non_null(strstr(f.error.text, "belongs to node n1, and this is node n2"));
        for (i = 0; i < FOLDERS; i++)
                close(before.at[i].dir);
}

/* A pool that has the drive of one folder here, as its only slot. */
static void make_pool(struct cl_pool *pool, unsigned number, const uint8_t drive[CL_ID])
{
        const struct eng_site site = {.node = f.settings.number, .rack = 1};
        uint8_t ids[1][ENG_ID_LEN];
        struct eng_new_pool new_pool = {.count = 1, .drive_ids = ids, .sites = &site};
        struct eng_error error;

        memcpy(ids[0], drive, CL_ID);
        memset(pool, 0, sizeof(*pool));
        pool->number = number;
        pool->has_config = true;
        pool->config.store_id[0] = (uint8_t)number;
        pool->config.number = 1;
        assert_int_equal(eng_pool_make(&new_pool, pool->config.epoch, &pool->config.epoch_len, &error), 0);
        assert_int_equal(eng_epoch_read(pool->config.epoch, pool->config.epoch_len, &pool->epoch), 0);
}

/* What is done with folders is nothing: they are not to be formatted. */
static void folders_work(const struct cl_view *view)
{
        srv_folders_work(&f.folders, NULL, NULL, view);
        assert_true(srv_folders_settle(&f.folders, 10000));
        srv_folders_work(&f.folders, NULL, NULL, view);
}

static void test_folders_of_pools(void **state)
{
        static struct cl_pool pools[2];
        struct cl_view view = {.pool_count = 2, .pools = pools};
        static const uint8_t other[CL_ID] = {0xff};

        f.settings.number = 7;
        assert_int_equal(srv_folders_look(&f.folders, &f.settings, &f.error), 0);
        srv_folders_own(&f.folders, 7);
        f.settings.format = false;
        make_pool(&pools[0], 1, f.folders.at[0].file.drive);
        make_pool(&pools[1], 2, other);
        assert_true(srv_folders_belong(&f.folders, &view)); /* one pool has something here */
        folders_work(&view);
        assert_true(f.folders.unheld[1] == 0 && f.folders.unheld[2] == 1);
        pools[1].epoch.gone = 1;
        assert_false(srv_folders_drained(&f.folders, &view));
        pools[0].epoch.gone = 1;
        assert_true(srv_folders_drained(&f.folders, &view)); /* by both */
        f.folders.at[1].state = ENG_FOLDER_DRIVE;
        f.folders.at[1].identity.store_id[0] = 3; /* etcd lacks pool 3, or what it has of it makes no sense */
        assert_false(srv_folders_drained(&f.folders, &view));
        f.folders.at[1].identity.store_id[0] = 2;
        assert_true(srv_folders_drained(&f.folders, &view));
        make_pool(&pools[0], 1, other);
        make_pool(&pools[1], 2, other);
        assert_false(srv_folders_belong(&f.folders, &view));
}

/* Two requests at once may name one folder: one pool has it, whatever the order in which they are seen. */
static void test_folder_of_two_pools(void **state)
{
        static struct cl_pool pools[2];
        struct cl_view view = {.pool_count = 2, .pools = pools};

        f.settings.number = 7;
        assert_int_equal(srv_folders_look(&f.folders, &f.settings, &f.error), 0);
        srv_folders_own(&f.folders, 7);
        f.settings.format = false;
        make_pool(&pools[0], 1, f.folders.at[0].file.drive);
        make_pool(&pools[1], 2, f.folders.at[0].file.drive);
        folders_work(&view);
        assert_true(f.folders.unheld[1] == 0 && f.folders.unheld[2] == 1);
        f.folders.at[0].state = ENG_FOLDER_DRIVE; /* it became a drive of the second before the first named it */
        f.folders.at[0].identity.store_id[0] = 2;
        folders_work(&view);
        assert_true(f.folders.unheld[1] == 1 && f.folders.unheld[2] == 0);
        f.folders.at[0].state = ENG_FOLDER_EMPTY;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_all_are_looked_at_at_once, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_folder_that_hangs_is_left_out, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_folder_of_another_node, setup, teardown),
                cmocka_unit_test_setup_teardown(test_folders_of_pools, setup, teardown),
                cmocka_unit_test_setup_teardown(test_folder_of_two_pools, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
