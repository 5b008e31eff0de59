/*
 * Values of keys in etcd: there and back, and anything else.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster_keys.h"
#include "engine.h"
#include "engine/format.h"

static char value[CL_JSON_MAX];

static void make_config(struct cl_config *c)
{
        struct fmt_epoch epoch = {.number = 12, .pg_count = 64, .drives = 3, .k = 2, .m = 1};

        memset(c, 0, sizeof(*c));
        memset(c->store_id, 0xab, CL_ID);
        c->number = epoch.number;
        c->epoch_len = sizeof(epoch) + 3 * sizeof(struct fmt_epoch_drive);
        memcpy(c->epoch, &epoch, sizeof(epoch));
}

static void test_there_and_back(void **state)
{
        struct cl_format format = {.cluster_id = {1, 2, 0xfe}, .generation = 3, .random = 0xfedcba9876543210}, format2;
        struct cl_node node = {.name = "n-1.a", .address = "[::1]:7000", .s3 = "h:9000", .rack = 65535, .state = CL_NODE_DRAINING, .boot = 7, .drive_count = 2, .drives = {{1}, {2, 0xfe}}}, node2;
        struct cl_boot boot = {.boot = ENG_BOOT_MAX, .claim = {3}}, boot2;
        struct cl_owner owner = {.node = CL_NODE_LAST, .boot = 1, .claim = {9}}, owner2;
        static struct cl_config config, config2;

        assert_int_equal(cl_format_read(value, cl_format_write(&format, value), &format2), 0);
        assert_memory_equal(&format, &format2, sizeof(format));
        assert_int_equal(cl_node_read(value, cl_node_write(&node, value), &node2), 0);
        assert_string_equal(node2.name, node.name);
        assert_string_equal(node2.address, node.address);
        assert_string_equal(node2.s3, node.s3);
        assert_true(node2.rack == node.rack && node2.state == node.state && node2.boot == node.boot && node2.drive_count == 2);
        assert_memory_equal(node2.drives, node.drives, sizeof(node.drives));
        assert_int_equal(cl_boot_read(value, cl_boot_write(&boot, value), &boot2), 0);
        assert_true(boot2.boot == boot.boot && boot2.claim[0] == 3);
        assert_int_equal(cl_owner_read(value, cl_owner_write(&owner, value), &owner2), 0);
        assert_true(owner2.node == owner.node && owner2.boot == owner.boot);
        assert_memory_equal(owner2.claim, owner.claim, CL_ID);
        make_config(&config);
        assert_int_equal(cl_config_read(value, cl_config_write(&config, value), &config2), 0);
        assert_int_equal(config2.epoch_len, config.epoch_len);
        assert_memory_equal(config2.epoch, config.epoch, config.epoch_len);
        assert_true(config2.number == 12);
}

/* The longest epoch there can be fits. */
static void test_longest(void **state)
{
        struct fmt_epoch epoch = {.number = 1, .pg_count = 64, .drives = ENG_DRIVES_MAX, .k = 2, .m = 1};
        static struct cl_config config, out;

        assert_true(FMT_EPOCH_MAX(ENG_DRIVES_MAX) <= CL_EPOCH_MAX);
        make_config(&config);
        config.number = 1;
        config.epoch_len = FMT_EPOCH_PLACED(ENG_DRIVES_MAX);
        memset(config.epoch, 0xff, config.epoch_len);
        memcpy(config.epoch, &epoch, sizeof(epoch));
        assert_int_equal(cl_config_read(value, cl_config_write(&config, value), &out), 0);
        assert_memory_equal(out.epoch, config.epoch, config.epoch_len);
        config.epoch_len = CL_EPOCH_MAX + 1;
        assert_int_equal(cl_config_write(&config, value), 0);
}

static void test_names(void **state)
{
        char key[CL_KEY_NAME_MAX], name[CL_NAME_MAX + 1];

        assert_int_equal(cl_key_name("c1", CL_KEY_FORMAT, 0, key), strlen("/millrace/c1/format"));
        cl_key_name("c1", CL_KEY_LEADER, 7, key);
        assert_string_equal(key, "/millrace/c1/pools/7/leader");
        cl_key_name("c1", CL_KEY_BOOT, 7, key);
        assert_string_equal(key, "/millrace/c1/boots/7");
        assert_true(cl_name_is_sound("a") && cl_name_is_sound("9.b-C_d"));
        assert_false(cl_name_is_sound("") || cl_name_is_sound("/") || cl_name_is_sound("-a") || cl_name_is_sound("a/b") || cl_name_is_sound("a b"));
        memset(name, 'a', sizeof(name));
        name[CL_NAME_MAX - 1] = 0;
        assert_true(cl_name_is_sound(name));
        assert_true(cl_key_name(name, CL_KEY_CONFIG, 4294967295u, key) < CL_KEY_NAME_MAX);
        name[CL_NAME_MAX - 1] = 'a';
        name[CL_NAME_MAX] = 0;
        assert_false(cl_name_is_sound(name));
}

static void test_parse(void **state)
{
        static const char *const nonsense[] = {"", "/millrace/c1/", "/millrace/c1/nodes/", "/millrace/c1/nodes/0", "/millrace/c1/nodes/1024", "/millrace/c1/nodes/01",
                                               "/millrace/c1/nodes/1x", "/millrace/c1/nodes/99999999999999999999", "/millrace/c1/pools/63/config", "/millrace/c1/pools/1/",
                                               "/millrace/c1/pools/1/leader/x", "/millrace/c1/format2", "/millrace/c12/format", "/millrace/c1/buckets/a"};
        enum cl_key_kind kind, found;
        char key[CL_KEY_NAME_MAX];
        unsigned number, i;
        size_t len;

        for (kind = CL_KEY_FORMAT; kind <= CL_KEY_LEADER; kind++) {
                len = cl_key_name("c1", kind, CL_POOL_LAST, key);
                assert_true(cl_key_parse("c1", key, len, &found, &number));
                assert_int_equal(found, kind);
                assert_int_equal(number, kind == CL_KEY_FORMAT ? 0 : CL_POOL_LAST);
                assert_false(cl_key_parse("c2", key, len, &found, &number));
                assert_false(cl_key_parse("c1", key, len - 1, &found, &number) && found == kind && number == CL_POOL_LAST);
        }
        for (i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++)
                assert_false(cl_key_parse("c1", nonsense[i], strlen(nonsense[i]), &found, &number));
}

static void refuse_all(const char *text, size_t len)
{
        static struct cl_config config;
        struct cl_format format;
        struct cl_owner owner;
        struct cl_node node;
        struct cl_boot boot;

        assert_int_equal(cl_format_read(text, len, &format), -EBADMSG);
        assert_int_equal(cl_node_read(text, len, &node), -EBADMSG);
        if (len < 7 || memcmp(text, "{\"node\"", 7) != 0) /* those have a boot */
                assert_int_equal(cl_boot_read(text, len, &boot), -EBADMSG);
        assert_int_equal(cl_config_read(text, len, &config), -EBADMSG);
        assert_int_equal(cl_owner_read(text, len, &owner), -EBADMSG);
}

static void test_nonsense(void **state)
{
        static const char *const texts[] = {
                "", "{", "[]", "null", "7", "{}", "{\"boot\":0}", "{\"boot\":-1}", "{\"boot\":1.5}", "{\"boot\":1}", "{\"boot\":\"1\"}", "{\"boot\":16777216}",
                "{\"boot\":1,\"boot\":2}", "{\"boot\":99999999999999999999}", "{\"node\":0,\"boot\":1,\"claim\":\"00000000000000000000000000000000\"}",
                "{\"node\":1024,\"boot\":1,\"claim\":\"00000000000000000000000000000000\"}", "{\"node\":1,\"boot\":1,\"claim\":\"0000\"}",
                "{\"node\":1,\"boot\":1,\"claim\":\"0000000000000000000000000000000G\"}",
                "{\"name\":\"a\",\"address\":\"\",\"s3\":\"\",\"rack\":0,\"state\":\"in\",\"boot\":1}",
                "{\"name\":\"a/\",\"address\":\"h:1\",\"s3\":\"\",\"rack\":0,\"state\":\"in\",\"boot\":1}",
                "{\"name\":\"a\",\"address\":\"h:1\\u0000x\",\"s3\":\"\",\"rack\":0,\"state\":\"in\",\"boot\":1}",
                "{\"name\":\"a\",\"address\":\"h:1\",\"s3\":\"\",\"rack\":65536,\"state\":\"in\",\"boot\":1}",
                "{\"name\":\"a\",\"address\":\"h:1\",\"s3\":\"\",\"rack\":0,\"state\":\"out\",\"boot\":1}",
                "{\"name\":\"a\",\"address\":\"h:1\",\"s3\":\"\",\"rack\":0,\"state\":\"in\"}",
                "{\"name\":\"a\",\"address\":\"h:1\",\"s3\":\"\",\"rack\":0,\"state\":\"in\",\"boot\":1,\"drives\":7}",
                "{\"name\":\"a\",\"address\":\"h:1\",\"s3\":\"\",\"rack\":0,\"state\":\"in\",\"boot\":1,\"drives\":[\"00\"]}",
                "{\"name\":\"a\",\"address\":\"h:1\",\"s3\":\"\",\"rack\":0,\"state\":\"in\",\"boot\":1,\"drives\":[7]}",
                "{\"store_id\":\"00000000000000000000000000000000\",\"number\":1,\"epoch\":\"\"}",
                "{\"store_id\":\"00000000000000000000000000000000\",\"number\":1,\"epoch\":\"AAA\"}",
                "{\"store_id\":\"00000000000000000000000000000000\",\"number\":1,\"epoch\":\"A===\"}",
                "{\"store_id\":\"00000000000000000000000000000000\",\"number\":1,\"epoch\":\"AAAA\"}",
                "{\"store_id\":\"00000000000000000000000000000000\",\"number\":1,\"epoch\":7}",
        };
        static struct cl_config config, out;
        unsigned i;
        size_t len;

        for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                refuse_all(texts[i], strlen(texts[i]));
        memset(value, ' ', sizeof(value));
        refuse_all(value, sizeof(value));
        make_config(&config);
        config.number = 13; /* is not the body's */
        len = cl_config_write(&config, value);
        assert_int_equal(cl_config_read(value, len, &out), -EBADMSG);
        config.number = 12;
        len = cl_config_write(&config, value);
        for (i = 0; i < len; i++) { /* cut anywhere, and with any byte changed: refused, or read as something sound */
                char c = value[i];

                assert_int_equal(cl_config_read(value, i, &out), -EBADMSG);
                value[i] = (char)(c ^ 0x15);
                if (cl_config_read(value, len, &out) == 0)
                        assert_true(out.number == 12 && out.epoch_len <= CL_EPOCH_MAX);
                value[i] = c;
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_there_and_back),
                cmocka_unit_test(test_longest),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_parse),
                cmocka_unit_test(test_nonsense),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
