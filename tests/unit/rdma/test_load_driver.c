/*
 * test_load_driver.c - transports that are loaded: the fake as a driver, and what is none.
 */
#include "tests/unit/rdma/rdma_fixture.h"

#include <libgen.h>
#include <unistd.h>

#include "rdma_transport.h"

/* Of the same build: build/KIND/unit/rdma/test_load_driver and build/KIND/libfakerdma.so. */
static void test_the_fake_is_a_driver(void **state)
{
        const struct rdx_transport *transport;
        char self[400], path[500];
        ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

        assert_true(len > 0);
        self[len] = '\0';
        snprintf(path, sizeof(path), "%s/../../libfakerdma.so", dirname(self));
        assert_int_equal(rdx_transport_load(path, &transport), 0);
        assert_string_equal(transport->name, "fake");
        assert_int_equal(transport->version, RDX_TRANSPORT_VERSION);
        assert_non_null(transport->post);
}

static void test_what_is_no_driver(void **state)
{
        const struct rdx_transport *transport;

        assert_int_equal(rdx_transport_load("/nowhere/at/all.so", &transport), -ENOENT);
        assert_null(transport);
        assert_int_equal(rdx_transport_load("/proc/self/exe", &transport), -ENOEXEC);
        assert_int_equal(rdx_transport_load("/proc/self/cmdline", &transport), -ENOEXEC);
        assert_null(transport);
}

static void count(void *arg, const struct rdx_device_info *info)
{
        ++*(int *)arg;
}

/* Whatever the machine has: an answer, and a line that says why not. */
static void test_verbs_without_a_device(void **state)
{
        struct rdx_device *device;
        char why[200] = "";
        int seen = 0, n = rdx_verbs()->devices(count, &seen);

        assert_true(n == -ENOSYS || n == seen || n < 0);
        if (n > 0)
                skip();
        assert_int_not_equal(rdx_verbs()->device_open("127.0.0.1", 0, false, 100, &device, why, sizeof(why)), 0);
        assert_null(device);
        assert_true(strlen(why) > 0);
        assert_int_equal(rdx_verbs()->device_open("no address", 0, false, 100, &device, why, sizeof(why)), -EINVAL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_fake_is_a_driver),
                cmocka_unit_test(test_what_is_no_driver),
                cmocka_unit_test(test_verbs_without_a_device),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
