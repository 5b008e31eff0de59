/*
 * test_notify.c - the sd_notify protocol, against a socket of our own in place of the service
 * manager's.
 */
#include "server/notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/millrace-notify-XXXXXX";
static char path[128];

static int make_folder(void **state)
{
        if (mkdtemp(folder) == NULL)
                return -1;
        snprintf(path, sizeof(path), "%s/socket", folder);
        return 0;
}

static int remove_folder(void **state)
{
        unlink(path);
        return rmdir(folder);
}

static int manager(const char *name, size_t len)
{
        struct sockaddr_un addr = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

        assert_true(fd >= 0);
        memcpy(addr.sun_path, name, len);
        assert_int_equal(bind(fd, (struct sockaddr *)&addr, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
                         0);
        return fd;
}

static void expect_message(int fd, const char *expected)
{
        char buf[256] = "";

        assert_true(recv(fd, buf, sizeof(buf) - 1, 0) > 0);
        assert_int_equal(strncmp(buf, expected, strlen(expected)), 0);
}

static void test_nobody_asked(void **state)
{
        unsetenv("NOTIFY_SOCKET");
        assert_int_equal(srv_notify("READY=1"), 0);
        setenv("NOTIFY_SOCKET", "", 1);
        assert_int_equal(srv_notify("READY=1"), 0);
}

static void test_path_and_abstract(void **state)
{
        char abstract[64];
        size_t len;
        int fd;

        fd = manager(path, strlen(path) + 1);
        setenv("NOTIFY_SOCKET", path, 1);
        assert_int_equal(srv_notify("READY=1\nSTATUS=ready"), 1);
        expect_message(fd, "READY=1\nSTATUS=ready");
        assert_int_equal(srv_notify_reloading(), 1);
        expect_message(fd, "RELOADING=1\nMONOTONIC_USEC=");
        assert_int_equal(srv_notify_waits("for etcd"), 1);
        expect_message(fd, "READY=1\nSTATUS=waits for etcd");
        close(fd);

        len = (size_t)snprintf(abstract, sizeof(abstract), "@millrace-test-%ld", (long)getpid());
        setenv("NOTIFY_SOCKET", abstract, 1);
        abstract[0] = '\0';
        fd = manager(abstract, len);
        assert_int_equal(srv_notify("STOPPING=1"), 1);
        expect_message(fd, "STOPPING=1");
        close(fd);
}

static void test_cannot_be_sent(void **state)
{
        char long_path[300];

        setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
        assert_true(srv_notify("READY=1") < 0);
        setenv("NOTIFY_SOCKET", "relative", 1);
        assert_true(srv_notify("READY=1") < 0);
        memset(long_path, 'x', sizeof(long_path));
        long_path[0] = '/';
        long_path[sizeof(long_path) - 1] = '\0';
        setenv("NOTIFY_SOCKET", long_path, 1);
        assert_true(srv_notify("READY=1") < 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nobody_asked),
                cmocka_unit_test(test_path_and_abstract),
                cmocka_unit_test(test_cannot_be_sent),
        };

        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
