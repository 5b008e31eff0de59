/*
 * test_net_tls.c - who may connect over real TLS, and that both ends say in a line why not; the
 * certificates that cert.c makes; strangers on real sockets.
 */
#include "tests/unit/net/net_fixture.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static struct node a, b;
static struct net_peer *to_b;

static void start_a(struct net_transport *transport)
{
        struct net_options options = node_options(1, 5);

        node_start_with(&a, &options, transport);
        to_b = node_meets(&a, &b);
}

static int start_b(void **state)
{
        struct net_options options = node_options(2, 6);

        node_start(&b, &options);
        node_knows(&b, 1, "node-1", "127.0.0.1:1");
        return 0;
}

static int stop_b(void **state)
{
        node_stop(&b);
        return 0;
}

static void check_refused(const char *at_a, const char *at_b)
{
        assert_int_equal(call_once(&a, to_b, NET_CONTROL), NET_UNREACHABLE);
        WAIT_UNTIL(node_said(&a, at_a) && node_said(&b, at_b));
        if (!node_said(&a, at_a) || !node_said(&b, at_b))
                fail_msg("a: %s\nb: %s", a.lines, b.lines);
        assert_int_equal(node_stats(&b).accepted, 0);
        assert_int_equal(node_stats(&a).opened, 0);
        node_stop(&a);
}

/* ---- certificates ---------------------------------------------------------------------------- */

static void test_right_certificates(void **state)
{
        struct net_transport *transport = fixture_transport("ca", "node-1");
        char why[256];

        assert_int_equal(net_tcp_check(transport, "node-1", why, sizeof(why)), 0);
        assert_int_equal(net_tcp_check(transport, "node-2", why, sizeof(why)), -EACCES);
        assert_string_equal(why, "it is not for node-2, this node's name");
        assert_int_equal(net_tcp_check(transport, "127.0.0.1", why, sizeof(why)), -EACCES);
        net_tcp_free(transport);
        start_a(fixture_transport("ca", "node-1"));
        assert_int_equal(call_once(&a, to_b, NET_CONTROL), NET_ANSWERED);
        node_stop(&a);
}

static void test_expired_certificate(void **state)
{
        struct net_tcp_options files;
        char why[256], folder[80], paths[3][256];
        struct net_transport *transport;

        snprintf(folder, sizeof(folder), "%s/old", fixture_folder);
        assert_int_equal(mkdir(folder, 0700), 0);
        snprintf(paths[0], 256, "cp %s/ca.* %s", fixture_folder, folder);
        assert_int_equal(system(paths[0]), 0);
        assert_int_equal(net_cert_make_node(folder, "node-1", -1, why, sizeof(why)), 0);
        snprintf(paths[0], 256, "%s/ca.crt", folder);
        snprintf(paths[1], 256, "%s/node-1.crt", folder);
        snprintf(paths[2], 256, "%s/node-1.key", folder);
        files = (struct net_tcp_options){paths[0], paths[1], paths[2]};
        assert_int_equal(net_tcp_new(&files, &transport, why, sizeof(why)), 0);
        assert_int_equal(net_tcp_check(transport, "node-1", why, sizeof(why)), -EACCES);
        assert_string_equal(why, "other nodes would refuse it: certificate has expired");
        start_a(transport);
        check_refused("certificate expired", "certificate has expired");
        fixture_remove(folder);
}

/* Of the same name, since a cluster's CAs have its. */
static void another_ca(char *folder, size_t size, const char *name)
{
        char why[256], command[600];

        snprintf(folder, size, "%s/%s", fixture_folder, name);
        assert_int_equal(mkdir(folder, 0700), 0);
        assert_int_equal(net_cert_make_ca(folder, "test", 10, why, sizeof(why)), 0);
        assert_int_equal(net_cert_make_node(folder, "node-1", 10, why, sizeof(why)), 0);
        snprintf(command, sizeof(command), "cat %s/ca.crt %s/ca.crt >%s/both.crt", fixture_folder, folder, folder);
        assert_int_equal(system(command), 0);
}

/* A cluster changes its CA while nodes go on: all trust both first, then they show certificates of the new one. */
static void test_two_authorities(void **state)
{
        struct net_options options = node_options(2, 6), options_of_a;
        uint64_t opened;
        char fixture_ca[256], folder[80], both[256], of_a[3][256], of_b[3][256], why[256];
        struct net_tcp_options files_a = {both, of_a[1], of_a[2]}, files_b = {both, of_b[1], of_b[2]}, bad;

        another_ca(folder, sizeof(folder), "two");
        snprintf(both, sizeof(both), "%s/both.crt", folder);
        snprintf(fixture_ca, sizeof(fixture_ca), "%s/ca.crt", fixture_folder);
        snprintf(of_a[1], 256, "%s/node-1.crt", folder);
        snprintf(of_a[2], 256, "%s/node-1.key", folder);
        snprintf(of_b[1], 256, "%s/node-2.crt", fixture_folder);
        snprintf(of_b[2], 256, "%s/node-2.key", fixture_folder);
        node_start(&b, &options);
        node_knows(&b, 1, "node-1", "127.0.0.1:1");

        start_a(fixture_transport("ca", "node-1"));
        /* what cannot be used, or others would not take, changes nothing */
        bad = files_a;
        bad.ca_file = "/nowhere";
        assert_int_equal(net_tcp_renew(a.transport, &bad, "node-1", why, sizeof(why)), -EINVAL);
        bad = files_a;
        bad.key_file = of_b[2];
        assert_int_equal(net_tcp_renew(a.transport, &bad, "node-1", why, sizeof(why)), -EINVAL);
        bad = files_a;
        bad.ca_file = fixture_ca;
        assert_int_equal(net_tcp_renew(a.transport, &bad, "node-1", why, sizeof(why)), -EACCES);
        assert_int_equal(net_tcp_renew(a.transport, &files_a, "node-2", why, sizeof(why)), -EACCES);
        assert_int_equal(call_once(&a, to_b, NET_CONTROL), NET_ANSWERED);
        assert_int_equal(net_tcp_renew(a.transport, &files_a, "node-1", why, sizeof(why)), 0);
        assert_int_equal(call_once(&a, to_b, NET_CONTROL), NET_ANSWERED); /* a connection that is open stays */
        opened = node_stats(&a).opened;
        assert_int_equal(call_once(&a, to_b, NET_LOG), NET_UNREACHABLE); /* the other end does not trust it yet */
        WAIT_UNTIL(node_said(&b, "certificate"));
        assert_int_equal(node_stats(&a).opened, opened);
        node_stop(&a);

        options_of_a = node_options(1, 6);
        node_start_with(&a, &options_of_a, fixture_transport("ca", "node-1"));
        to_b = node_meets(&a, &b);
        assert_int_equal(net_tcp_renew(b.transport, &files_b, "node-2", why, sizeof(why)), 0);
        assert_int_equal(net_tcp_renew(a.transport, &files_a, "node-1", why, sizeof(why)), 0);
        assert_int_equal(call_once(&a, to_b, NET_CONTROL), NET_ANSWERED);
        node_stop(&a);
        node_stop(&b);
        fixture_remove(folder);
}

static void test_certificate_of_another_ca(void **state)
{
        struct net_tcp_options files;
        char why[256], folder[80], paths[3][256];
        struct net_transport *transport;

        snprintf(folder, sizeof(folder), "%s/other", fixture_folder);
        assert_int_equal(mkdir(folder, 0700), 0);
        assert_int_equal(net_cert_make_ca(folder, "test", 10, why, sizeof(why)), 0);
        assert_int_equal(net_cert_make_node(folder, "node-1", 10, why, sizeof(why)), 0);
        snprintf(paths[0], 256, "%s/ca.crt", fixture_folder); /* it trusts the true one, which does not trust it */
        snprintf(paths[1], 256, "%s/node-1.crt", folder);
        snprintf(paths[2], 256, "%s/node-1.key", folder);
        files = (struct net_tcp_options){paths[0], paths[1], paths[2]};
        assert_int_equal(net_tcp_new(&files, &transport, why, sizeof(why)), 0);
        assert_int_equal(net_tcp_check(transport, "node-1", why, sizeof(why)), -EACCES);
        assert_non_null(strstr(why, "other nodes would refuse it: "));
        start_a(transport);
        check_refused("TLS: ", "its certificate: ");
        snprintf(paths[0], 256, "%s/ca.crt", folder); /* and the other way round */
        assert_int_equal(net_tcp_new(&files, &transport, why, sizeof(why)), 0);
        assert_int_equal(net_tcp_check(transport, "node-1", why, sizeof(why)), 0); /* a node cannot tell that it has the wrong CA */
        start_a(transport);
        check_refused("its certificate: ", "TLS: ");
        fixture_remove(folder);
}

static void test_certificate_of_another_node(void **state)
{
        start_a(fixture_transport("ca", "node-3"));
        check_refused("refuses this node: the certificate is not for the name of node 1",
                      "which says it is node 1: refused: the certificate is not for the name of node 1");
}

static void test_another_node_answers(void **state)
{
        start_a(fixture_transport("ca", "node-1"));
        to_b = node_knows(&a, 3, "node-3", b.address);
        check_refused("cannot open the control connection: its certificate is not for its name",
                      ""); /* and sends it nothing */
        assert_false(node_said(&b, "refused: node 3"));
        start_a(fixture_transport("ca", "node-1"));
        to_b = node_knows(&a, 3, "node-2", b.address); /* its name is right, its number is not */
        check_refused("refuses this node: node 3 was asked for, and this is node 2",
                      "node 3 was asked for, and this is node 2");
}

static void test_plain_is_refused_where_all_is_tls(void **state)
{
        struct net_options options = node_options(1, 5);

        options.plain_bulk = true;
        node_start(&a, &options);
        to_b = node_meets(&a, &b);
        assert_int_equal(call_once(&a, to_b, NET_CONTROL), NET_ANSWERED);
        assert_int_equal(call_once(&a, to_b, NET_BULK_0), NET_UNREACHABLE);
        WAIT_UNTIL(node_said(&a, "refuses this node: only TLS is allowed here"));
        assert_true(node_said(&a, "refuses this node: only TLS is allowed here"));
        node_stop(&a);
}

/* On the loop of the link. */
struct link_seen {
        const struct net_link *link;
        bool tls;
};

static void link_see(void *arg)
{
        struct link_seen *seen = arg;

        seen->tls = seen->link->conn->stream->tls;
}

static bool link_is_tls(struct net_peer *peer, enum net_link_number number)
{
        struct link_seen seen = {.link = &peer->links[number]};

        on_loop(net_owner(peer, number)->lp, link_see, &seen);
        return seen.tls;
}

/* Two processes of one node use TLS for the control connection alone; two nodes at one address use it for all. */
static void test_plain_within_a_node(void **state)
{
        static const char *const names[] = {"node-1", "node-2"};
        struct net_options options = node_options(2, 7);
        unsigned i, link;
        struct node c;

        for (i = 0; i < 2; i++) {
                start_a(fixture_transport("ca", names[i]));
                node_start(&c, &options);
                node_knows(&c, 1, names[i], a.address);
                to_b = node_meets(&a, &c);
                for (link = 0; link < NET_LINKS; link++) {
                        assert_int_equal(call_once(&a, to_b, link), NET_ANSWERED);
                        assert_int_equal(link_is_tls(to_b, link), link == NET_CONTROL || i == 0);
                }
                node_stop(&c);
                node_stop(&a);
        }
}

/* ---- strangers ------------------------------------------------------------------------------- */

static int dial(const char *address)
{
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1))};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
        return fd;
}

/* Rubbish of all kinds: the connection ends, nobody else notices. */
static void test_rubbish(void **state)
{
        unsigned descriptors, i;
        uint8_t bytes[600];
        int fd;

        start_a(fixture_transport("ca", "node-1"));
        assert_int_equal(call_once(&a, to_b, NET_CONTROL), NET_ANSWERED);
        descriptors = open_descriptors();
        srand(1);
        for (i = 0; i < 300; i++) {
                size_t len = (size_t)rand() % sizeof(bytes), j;

                for (j = 0; j < len; j++)
                        bytes[j] = (uint8_t)rand();
                if (i % 3 == 0)
                        bytes[0] = 22;
                if (i % 3 == 1)
                        memcpy(bytes, "MRNF", 4);
                fd = dial(b.address);
                MUST(send(fd, bytes, len, MSG_NOSIGNAL) >= 0 || errno == ECONNRESET);
                if (i % 2 == 0) { /* until it is closed at the other end, or there is nothing it could know better */
                        shutdown(fd, SHUT_WR);
                        while (recv(fd, bytes, sizeof(bytes), 0) > 0)
                                ;
                }
                close(fd);
        }
        WAIT_UNTIL(node_stats(&b).guests == 0 && open_descriptors() == descriptors);
        assert_int_equal(node_stats(&b).guests, 0);
        assert_int_equal(open_descriptors(), descriptors);
        assert_int_equal(call_once(&a, to_b, NET_CONTROL), NET_ANSWERED);
        assert_int_equal(node_stats(&a).lost, 0);
        node_stop(&a);
}

/* Those who say nothing hold as many places as one address may have, and nobody else's. */
static void test_silent_strangers(void **state)
{
        int fds[40];
        unsigned i;

        for (i = 0; i < 40; i++)
                fds[i] = dial(b.address);
        WAIT_UNTIL(node_stats(&b).guests == 16 && node_stats(&b).refused == 24);
        assert_int_equal(node_stats(&b).guests, 16);
        for (i = 0; i < 40; i++)
                close(fds[i]);
        WAIT_UNTIL(node_stats(&b).guests == 0);
        assert_int_equal(node_stats(&b).guests, 0);
}

/* There is no descriptor for who connects: the loop does not spin, and accepts when there is one. */
static void test_no_descriptors(void **state)
{
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(strrchr(b.address, ':') + 1))};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct rlimit before, none;
        struct lp_stats first, last;

        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = before;
        none.rlim_cur = (rlim_t)fd + 1; /* all below are taken */
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        lp_stats_read(b.lp[0], &first);
        assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
        usleep(300 * 1000);
        lp_stats_read(b.lp[0], &last);
        assert_int_equal(node_stats(&b).guests, 0);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_true(last.rounds - first.rounds < 1000); /* of a spinning loop there would be many more */
        WAIT_UNTIL(node_stats(&b).guests == 1);
        assert_int_equal(node_stats(&b).guests, 1);
        close(fd);
}

/* ---- files ----------------------------------------------------------------------------------- */

static X509 *read_cert(const char *name)
{
        char path[256];
        FILE *file;
        X509 *cert;

        snprintf(path, sizeof(path), "%s/%s.crt", fixture_folder, name);
        file = fopen(path, "r");
        MUST(file != NULL);
        cert = PEM_read_X509(file, NULL, NULL, NULL);
        fclose(file);
        MUST(cert != NULL);
        return cert;
}

static void test_certificates_as_made(void **state)
{
        static const char *const names[] = {"ca.crt", "ca.key", "node-1.crt", "node-1.key"};
        X509 *ca = read_cert("ca"), *node = read_cert("node-1");
        struct stat st;
        char path[256];
        unsigned i;

        for (i = 0; i < 4; i++) {
                snprintf(path, sizeof(path), "%s/%s", fixture_folder, names[i]);
                assert_int_equal(stat(path, &st), 0);
                assert_int_equal(st.st_mode & 07777, strstr(names[i], ".key") != NULL ? 0600 : 0644);
        }
        assert_int_equal(X509_check_ca(ca), 1);
        assert_int_equal(X509_check_ca(node), 0);
        assert_int_equal(X509_verify(node, X509_get0_pubkey(ca)), 1);
        assert_int_equal(X509_check_host(node, "node-1", 0, 0, NULL), 1);
        assert_int_equal(X509_check_host(node, "node-2", 0, 0, NULL), 0);
        assert_int_equal(X509_check_purpose(node, X509_PURPOSE_SSL_SERVER, 0), 1);
        assert_int_equal(X509_check_purpose(node, X509_PURPOSE_SSL_CLIENT, 0), 1);
        assert_int_equal(X509_get_pathlen(ca), 0);
        X509_free(ca);
        X509_free(node);
}

static void test_certificates_that_are_not_made(void **state)
{
        static const char *const bad[] = {"", ".", "a/b", "..", "a,DNS:b", "ca", "-x", "a\nb", "a b", "*"};
        char why[256], folder[80], path[256];
        unsigned i;
        X509 *cert;

        for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(net_cert_make_node(fixture_folder, bad[i], 1, why, sizeof(why)), -EINVAL);
        assert_int_equal(net_cert_make_ca(fixture_folder, "test", 1, why, sizeof(why)), -EEXIST);
        assert_int_equal(net_cert_make_node(fixture_folder, "node-1", 1, why, sizeof(why)), -EEXIST);
        assert_int_equal(net_cert_make_node("/nowhere", "node-1", 1, why, sizeof(why)), -EINVAL);
        assert_non_null(strstr(why, "/nowhere/ca.crt: No such file or directory"));
        assert_int_equal(net_cert_make_ca("/nowhere", "test", 1, why, sizeof(why)), -ENOENT);
        assert_non_null(strstr(why, "/nowhere/ca.key: No such file or directory"));
        /* one of the two is there: the other is not left */
        snprintf(folder, sizeof(folder), "%s/half", fixture_folder);
        assert_int_equal(mkdir(folder, 0700), 0);
        snprintf(path, sizeof(path), "%s/ca.crt", folder);
        close(open(path, O_CREAT | O_WRONLY, 0600));
        assert_int_equal(net_cert_make_ca(folder, "test", 1, why, sizeof(why)), -EEXIST);
        snprintf(path, sizeof(path), "%s/ca.key", folder);
        assert_int_equal(access(path, F_OK), -1);
        assert_int_equal(net_cert_make_node(folder, "node-1", 1, why, sizeof(why)), -EINVAL);
        fixture_remove(folder);
        /* addresses are names, too */
        assert_int_equal(net_cert_make_node(fixture_folder, "192.0.2.1", 1, why, sizeof(why)), 0);
        cert = read_cert("192.0.2.1");
        assert_int_equal(X509_check_ip_asc(cert, "192.0.2.1", 0), 1);
        X509_free(cert);
}

static void test_files_that_cannot_be_used(void **state)
{
        struct net_tcp_options files;
        struct net_transport *transport;
        char paths[3 * 256], why[256];

        fixture_files(&files, "none", "node-1", paths);
        assert_int_equal(net_tcp_new(&files, &transport, why, sizeof(why)), -EINVAL);
        assert_non_null(strstr(why, "the cluster's CA"));
        fixture_files(&files, "ca", "none", paths);
        assert_int_equal(net_tcp_new(&files, &transport, why, sizeof(why)), -EINVAL);
        assert_non_null(strstr(why, "this node's certificate"));
        fixture_files(&files, "ca", "node-1", paths);
        snprintf(paths + 512, 256, "%s/node-2.key", fixture_folder);
        assert_int_equal(net_tcp_new(&files, &transport, why, sizeof(why)), -EINVAL);
        assert_non_null(strstr(why, "this node's key"));
}

static void test_addresses_that_cannot_be_listened_at(void **state)
{
        static const char *const bad[] = {"127.0.0.1", "localhost:1", "127.0.0.1:x", ":1", "[::1:1", "203.0.113.7:1"};
        struct net_transport *transport = fixture_transport("ca", "node-1");
        struct net_listener listener;
        struct net_stream *stream;
        char address[NET_ADDRESS_MAX];
        unsigned i;

        for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                snprintf(address, sizeof(address), "%s", bad[i]);
                assert_in_range(-transport->ops->listen(transport, b.lp[0], &listener, address, sizeof(address)), 1,
                                200);
        }
        assert_int_equal(transport->ops->connect(transport, b.lp[0], "nobody", true, &stream), -EINVAL);
        net_tcp_free(transport);
}

/* ---- a socket that breaks -------------------------------------------------------------------- */

enum { PART = 20000, LARGE = 100000 };

/* Of this thread: the next large send() takes a part, the one after it fails, and then nothing can be watched once more. */
static _Thread_local enum { SENDS, TAKES_A_PART, FAILS, CANNOT_BE_WATCHED } socket_state;
static _Thread_local int socket_error;
static _Thread_local bool socket_is_full; /* with EAGAIN: for one send() only, and it can be watched */

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
        if (socket_state == FAILS) {
                socket_state = socket_error == EAGAIN && !socket_is_full ? CANNOT_BE_WATCHED : SENDS;
                errno = socket_error;
                return -1;
        }
        if (socket_state == TAKES_A_PART && len > PART) {
                socket_state = FAILS;
                len = PART;
        }
        return syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
}

int epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
        if (socket_state == CANNOT_BE_WATCHED && what == EPOLL_CTL_ADD) {
                socket_state = SENDS;
                errno = ENOMEM;
                return -1;
        }
        return (int)syscall(SYS_epoll_ctl, epoll, what, fd, event);
}

static int breaks_with;

static void calls_over_a_breaking_socket(void *arg)
{
        struct waited_call **calls = arg;

        socket_error = breaks_with;
        socket_state = TAKES_A_PART;
        waited_call_start(calls[0]);
        waited_call_start(calls[1]);
}

/*
 * Two requests are encrypted and sent together. The socket takes the first, which the peer does, and a part of the
 * second; then it fails: neither is unreachable, which would mean that it may be done again.
 */
static void socket_breaks_behind_a_request(int error)
{
        struct waited_call *calls[2];
        uint8_t *bulk = calloc(1, LARGE);
        unsigned i;

        start_a(fixture_transport("ca", "node-1"));
        assert_int_equal(call_once(&a, to_b, NET_LOG), NET_ANSWERED);
        for (i = 0; i < 2; i++) {
                calls[i] = calloc(1, sizeof(*calls[i]));
                calls[i]->call = (struct net_call){
                        .peer = to_b, .link = NET_LOG, .operation = OP_HOLD, .done = waited_call_done};
                sem_init(&calls[i]->done, 0, 0);
        }
        calls[1]->call.bulk[0] = (struct iovec){bulk, LARGE};
        calls[1]->call.bulk_count = 1;
        breaks_with = error;
        on_loop(net_owner(to_b, NET_LOG)->lp, calls_over_a_breaking_socket, calls);
        for (i = 0; i < 2; i++) {
                assert_int_equal(call_wait(calls[i]), NET_UNKNOWN);
                assert_true(calls[i]->call.sent);
                call_free(calls[i]);
        }
        WAIT_UNTIL(node_number(&b, &b.held_count) == 1);
        assert_int_equal(node_number(&b, &b.held_count), 1); /* the first one was done */
        node_release(&b);
        node_stop(&a);
        free(bulk);
}

static void test_a_socket_that_breaks_behind_a_request(void **state)
{
        socket_breaks_behind_a_request(ECONNRESET);
}

static void test_no_memory_to_wait_for_a_socket(void **state)
{
        socket_breaks_behind_a_request(EAGAIN);
}

static void call_over_a_full_socket(void *arg)
{
        socket_error = EAGAIN;
        socket_is_full = true;
        socket_state = TAKES_A_PART;
        waited_call_start(arg);
}

/* The socket is full for a moment, and takes what was left with what is sent next: nobody waits for it to take more. */
static void test_a_socket_that_was_full(void **state)
{
        struct waited_call *call = calloc(1, sizeof(*call));
        uint8_t *bulk = calloc(4, LARGE);
        struct lp_stats before, after;
        struct lp_loop *loop;

        start_a(fixture_transport("ca", "node-1"));
        assert_int_equal(call_once(&a, to_b, NET_LOG), NET_ANSWERED);
        loop = net_owner(to_b, NET_LOG)->lp;
        call->call = (struct net_call){.peer = to_b, .link = NET_LOG, .operation = OP_HOLD, .done = waited_call_done};
        call->call.bulk[0] = (struct iovec){bulk, 4 * LARGE};
        call->call.bulk_count = 1;
        sem_init(&call->done, 0, 0);
        on_loop(loop, call_over_a_full_socket, call);
        WAIT_UNTIL(node_number(&b, &b.held_count) == 1);
        lp_stats_read(loop, &before);
        usleep(200000);
        lp_stats_read(loop, &after);
        assert_in_range(after.rounds - before.rounds, 0, 20);
        node_release(&b);
        assert_int_equal(call_wait(call), NET_ANSWERED);
        call_free(call);
        node_stop(&a);
        free(bulk);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, start_b, stop_b)

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_certificates_as_made),
                cmocka_unit_test(test_certificates_that_are_not_made),
                cmocka_unit_test(test_files_that_cannot_be_used),
                CASE(test_addresses_that_cannot_be_listened_at),
                CASE(test_right_certificates),
                CASE(test_expired_certificate),
                CASE(test_certificate_of_another_ca),
                cmocka_unit_test(test_two_authorities),
                CASE(test_certificate_of_another_node),
                CASE(test_another_node_answers),
                CASE(test_plain_is_refused_where_all_is_tls),
                CASE(test_plain_within_a_node),
                CASE(test_rubbish),
                CASE(test_silent_strangers),
                CASE(test_no_descriptors),
                CASE(test_a_socket_that_breaks_behind_a_request),
                CASE(test_no_memory_to_wait_for_a_socket),
                CASE(test_a_socket_that_was_full),
        };

        return cmocka_run_group_tests(tests, fixture_certificates, fixture_no_certificates);
}
