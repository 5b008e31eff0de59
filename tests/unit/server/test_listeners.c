/*
 * test_listeners.c - listening sockets: shared by loops, refused where somebody listens already.
 */
#include "server/listeners.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct srv_address address_of(const char *text)
{
        struct srv_address address;
        const char *why;

        assert_int_equal(srv_parse_address(text, &address, &why), 0);
        return address;
}

static int open_one(const char *text, unsigned count, struct srv_listener *out, struct srv_error *error)
{
        struct srv_address address = address_of(text);

        return srv_listener_open(&address, "listen", count, out, error);
}

static int connect_to(const char *text)
{
        struct sockaddr_in addr = {.sin_family = AF_INET};
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        addr.sin_port = htons((uint16_t)atoi(strrchr(text, ':') + 1));
        inet_pton(AF_INET, "127.0.0.1", &addr.sin_addr);
        assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
        return fd;
}

/* The kernel spreads connections over the sockets: with many of them each gets some. */
static void test_shared_port(void **state)
{
        struct srv_listener l;
        struct srv_error error;
        struct pollfd ready[4];
        int clients[64], i;

        assert_int_equal(open_one("127.0.0.1:0", 4, &l, &error), 0);
        assert_int_equal(l.count, 4);
        assert_int_equal(strncmp(l.text, "127.0.0.1:", 10), 0);
        assert_string_not_equal(l.text, "127.0.0.1:0");
        for (i = 0; i < 4; i++) {
                assert_true((fcntl(l.fds[i], F_GETFL) & O_NONBLOCK) != 0);
                assert_true((fcntl(l.fds[i], F_GETFD) & FD_CLOEXEC) != 0);
                ready[i] = (struct pollfd){.fd = l.fds[i], .events = POLLIN};
        }
        for (i = 0; i < 64; i++)
                clients[i] = connect_to(l.text);
        assert_int_equal(poll(ready, 4, 1000), 4);
        for (i = 0; i < 64; i++)
                close(clients[i]);
        srv_listener_close(&l);
        srv_listener_close(&l); /* harmless */
}

/* Also where both would share by SO_REUSEPORT. */
static void test_busy_port(void **state)
{
        struct srv_listener first, second;
        struct srv_error error;

        assert_int_equal(open_one("127.0.0.1:0", 2, &first, &error), 0);
        assert_int_equal(open_one(first.text, 2, &second, &error), -EADDRINUSE);
        assert_non_null(strstr(error.text, first.text));
        assert_non_null(strstr(error.text, "listen"));
        assert_int_equal(open_one(first.text, 1, &second, &error), -EADDRINUSE);
        srv_listener_close(&first);
        assert_int_equal(open_one(first.text, 2, &second, &error), 0);
        srv_listener_close(&second);

        assert_int_equal(open_one("127.0.0.1:0", 1, &first, &error), 0);
        assert_int_equal(open_one(first.text, 2, &second, &error), -EADDRINUSE);
        srv_listener_close(&first);
}

static void test_handed_over_is_not_closed(void **state)
{
        struct srv_listener l;
        struct srv_error error;
        int fd;

        assert_int_equal(open_one("127.0.0.1:0", 1, &l, &error), 0);
        fd = l.fds[0];
        l.fds[0] = -1;
        srv_listener_close(&l);
        assert_true(fcntl(fd, F_GETFD) >= 0);
        close(fd);
}

static void test_forms_of_addresses(void **state)
{
        struct srv_listener l;
        struct srv_error error;

        assert_int_equal(open_one("*:0", 1, &l, &error), 0);
        assert_int_equal(strncmp(l.text, "0.0.0.0:", 8), 0);
        srv_listener_close(&l);
        assert_int_equal(open_one("localhost:0", 1, &l, &error), 0);
        srv_listener_close(&l);
        if (open_one("[::1]:0", 1, &l, &error) == 0) { /* a machine may be without IPv6 */
                assert_int_equal(strncmp(l.text, "[::1]:", 6), 0);
                srv_listener_close(&l);
        }
        assert_true(open_one("no.such.host.invalid:80", 1, &l, &error) < 0);
        assert_non_null(strstr(error.text, "no.such.host.invalid"));
        assert_int_equal(open_one("192.0.2.1:80", 1, &l, &error), -EADDRNOTAVAIL);
        assert_non_null(strstr(error.text, "192.0.2.1:80"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shared_port),
                cmocka_unit_test(test_busy_port),
                cmocka_unit_test(test_handed_over_is_not_closed),
                cmocka_unit_test(test_forms_of_addresses),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
