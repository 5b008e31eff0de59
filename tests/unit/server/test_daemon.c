/*
 * test_daemon.c - the daemon as a process: starting, refusing to start, serving, reloading,
 * stopping.
 */
#include "daemon_fixture.h"
#include "tests/lib/wait.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_ARGS   ((const char *const[]){NULL})

static struct fx_reply reply;

static long s3_call(struct daemon_fixture *f, const char *method, const char *path, const char *body)
{
        struct fx_request q = {.method = method,
                               .address = f->listen,
                               .path = path,
                               .body = body,
                               .access_key = f->access_key,
                               .secret_key = f->secret_key};

        fx_send(&q, &reply);
        return reply.status;
}

static long admin_get(struct daemon_fixture *f, const char *path)
{
        struct fx_request q = {.method = "GET", .address = f->admin, .path = path};

        fx_send(&q, &reply);
        return reply.status;
}

static void path_in(struct daemon_fixture *f, const char *name, char *out, size_t size)
{
        snprintf(out, size, "%s/%s", f->folder, name);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
        int fd;

        unlink(path);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL, mode);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
}

/* ---- a life ---------------------------------------------------------------------------------- */

static void test_format_serve_restart(void **state)
{
        struct daemon_fixture *f = *state;
        char path[128];
        struct stat st;

        fx_start(f, ARGS("--format"));
        assert_int_equal(strlen(f->access_key), 20);
        assert_int_equal(strlen(f->secret_key), 40);
        path_in(f, "3/CREDENTIALS", path, sizeof(path));
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(admin_get(f, "/health/live"), 200);
        assert_int_equal(admin_get(f, "/health/ready"), 200);
        assert_non_null(strstr(reply.body, "\"drives_in\":4"));
        assert_int_equal(s3_call(f, "PUT", "/bucket", NULL), 200);
        assert_int_equal(s3_call(f, "PUT", "/bucket/key", "what is kept"), 200);
        assert_int_equal(s3_call(f, "GET", "/bucket/key", NULL), 200);
        assert_string_equal(reply.body, "what is kept");
        assert_int_equal(admin_get(f, "/metrics"), 200);
        assert_non_null(strstr(reply.body, "\nmillrace_ready 1\n"));
        assert_non_null(strstr(reply.body, "millrace_requests_total{operation=\"PutObject\",status=\"2xx\"} 1\n"));
        assert_non_null(strstr(reply.body, "\nmillrace_drives_in 4\n"));
        assert_int_equal(fx_stop(f), SRV_EXIT_DRAINED);
        assert_non_null(strstr(f->text, "millraced: stopping\n"));

        /*
         * Again, with --format left on the command line: nothing is formatted, nothing is shown
         * again.
         */
        fx_start(f, ARGS("--format"));
        assert_null(strstr(f->text, f->secret_key));
        assert_int_equal(s3_call(f, "GET", "/bucket/key", NULL), 200);
        assert_string_equal(reply.body, "what is kept");
        assert_int_equal(fx_stop(f), SRV_EXIT_DRAINED);
}

static void test_environment_credentials(void **state)
{
        struct daemon_fixture *f = *state;
        char path[128];

        setenv(SRV_ACCESS_KEY_ENV, "given", 1);
        setenv(SRV_SECRET_KEY_ENV, "given-secret", 1);
        fx_start(f, ARGS("--format"));
        assert_null(strstr(f->text, "secret"));
        path_in(f, "0/CREDENTIALS", path, sizeof(path));
        assert_int_equal(access(path, F_OK), -1);
        strcpy(f->access_key, "given");
        strcpy(f->secret_key, "given-secret");
        assert_int_equal(s3_call(f, "GET", "/", NULL), 200);
        strcpy(f->secret_key, "other-secret");
        assert_int_equal(s3_call(f, "GET", "/", NULL), 403);
        assert_int_equal(fx_stop(f), SRV_EXIT_DRAINED);

        unsetenv(SRV_ACCESS_KEY_ENV);
        unsetenv(SRV_SECRET_KEY_ENV);
        fx_spawn(f, NO_ARGS);
        assert_int_equal(fx_wait(f), SRV_EXIT_NOT_STARTED);
        assert_non_null(strstr(f->text, SRV_ACCESS_KEY_ENV));
}

/* ---- refusing to start ----------------------------------------------------------------------- */

/* It ends with status 2, and the one line it says has all these parts. */
static void refuses(struct daemon_fixture *f, const char *const args[], const char *part, const char *other)
{
        fx_spawn(f, args);
        if (fx_wait(f) != SRV_EXIT_NOT_STARTED || strstr(f->text, part) == NULL || strstr(f->text, other) == NULL)
                fail_msg("expected '%s' and '%s' in:\n%s", part, other, f->text);
        if (strchr(f->text, '\n') != f->text + strlen(f->text) - 1)
                fail_msg("more than one line:\n%s", f->text);
}

static void test_busy_addresses(void **state)
{
        struct daemon_fixture *f = *state, other = *f;

        fx_start(f, ARGS("--format"));
        strcpy(other.folder, "/tmp/millrace-nothing-is-here");
        refuses(&other, ARGS("--listen", f->listen), f->listen, "listen: cannot listen on");
        refuses(&other, ARGS("--plain-listen", f->admin), f->admin, "plain_listen: cannot listen on");
        assert_int_equal(fx_stop(f), SRV_EXIT_DRAINED);
}

static void test_two_daemons_on_one_drive(void **state)
{
        struct daemon_fixture *f = *state, other = *f;

        fx_start(f, ARGS("--format"));
        refuses(&other, NO_ARGS, f->folder, "");
        assert_int_equal(fx_stop(f), SRV_EXIT_DRAINED);
}

static void test_drives_that_cannot_be_used(void **state)
{
        struct daemon_fixture *f = *state;
        char path[128];

        refuses(f, NO_ARGS, f->folder, ""); /* all empty, and no --format */
        path_in(f, "2/photo.jpg", path, sizeof(path));
        write_file(path, "x", 0600);
        path_in(f, "2", path, sizeof(path));
        refuses(f, ARGS("--format"), path, "");
        path_in(f, "0/FORMAT", path, sizeof(path));
        assert_int_equal(access(path, F_OK), -1); /* nothing was formatted */
}

static void test_bad_files(void **state)
{
        struct daemon_fixture *f = *state;
        char cert[128], key[128];

        refuses(f, ARGS("--access-log", "/nowhere/at/all", "--format"), "access_log", "/nowhere/at/all");
        refuses(f,
                ARGS("--tls-cert", "/nowhere/cert", "--tls-key", "/nowhere/key", "--root-credentials", "/nowhere/root",
                     "--format"),
                "/nowhere/root", "cannot write");
        path_in(f, "cert", cert, sizeof(cert));
        path_in(f, "key", key, sizeof(key));
        write_file(cert, "this is no certificate", 0600);
        setenv(SRV_ACCESS_KEY_ENV, "given", 1);
        setenv(SRV_SECRET_KEY_ENV, "given-secret", 1);
        refuses(f, ARGS("--tls-cert", cert, "--tls-key", key, "--format"), "tls_key", key);
        write_file(key, "this is no key", 0600);
        refuses(f, ARGS("--tls-cert", cert, "--tls-key", key, "--format"), "tls_cert", cert);
}

/* ---- the admin listener ---------------------------------------------------------------------- */

static long admin_call(struct daemon_fixture *f, const char *method, const char *path, const char *body)
{
        struct fx_request q = {.method = method,
                               .address = f->admin,
                               .path = path,
                               .body = body,
                               .access_key = f->access_key,
                               .secret_key = f->secret_key};

        fx_send(&q, &reply);
        return reply.status;
}

static void has(const char *part)
{
        if (strstr(reply.body, part) == NULL)
                fail_msg("no '%s' in:\n%s", part, reply.body);
}

static void check_admin_calls(struct daemon_fixture *f)
{
        int i;

        assert_int_equal(admin_call(f, "GET", "/admin/v1/info", NULL), 200);
        has("\"ec\":\"2+2\"");
        has("\"state\":\"in\"");
        has("\"log_bytes\":");
        has("\"version\":\"" MILLRACE_VERSION "\"");
        assert_int_equal(admin_call(f, "HEAD", "/admin/v1/info", NULL), 200);
        assert_int_equal(admin_call(f, "GET", "/admin/v1/verify", NULL), 200);
        has("\"running\":false");
        assert_int_equal(admin_call(f, "POST", "/admin/v1/verify", NULL), 202);
        for (i = 0; i < (int)WAIT_TURNS; i++) {
                assert_int_equal(admin_call(f, "GET", "/admin/v1/verify", NULL), 200);
                if (strstr(reply.body, "\"running\":false") != NULL)
                        break;
                usleep(10000);
        }
        has("\"unreadable_objects\":0");
        has("\"objects\":1");
        assert_int_equal(admin_call(f, "GET", "/admin/v1/lock-clock", NULL), 200);
        has("\"in_use\":false,\"frozen\":false");
        assert_int_equal(admin_call(f, "POST", "/admin/v1/lock-clock", NULL), 400);
        assert_int_equal(admin_call(f, "POST", "/admin/v1/lock-clock?confirm=1&confirm=1", NULL), 400);
        assert_int_equal(admin_call(f, "POST", "/admin/v1/lock-clock?confirm=18446744073709551615", NULL), 400);
        assert_int_equal(admin_call(f, "POST", "/admin/v1/lock-clock?confirm=0", NULL), 400);
        assert_int_equal(admin_call(f, "POST", "/admin/v1/lock-clock?confirm=1", NULL), 409);
        has("NotInUse");
        assert_int_equal(admin_call(f, "GET", "/admin/v1/nothing", NULL), 404);
        assert_int_equal(admin_call(f, "DELETE", "/admin/v1/info", NULL), 405);
        assert_int_equal(admin_call(f, "POST", "/admin/v1/info", "body"), 405);
        has("MethodNotAllowed");
}

static void check_open_calls(struct daemon_fixture *f)
{
        struct fx_request q = {.method = "POST", .address = f->admin, .path = "/metrics", .body = "x"};
        char *large = malloc(300001);

        assert_int_equal(admin_get(f, "/"), 404);
        assert_int_equal(admin_get(f, "/health"), 404);
        assert_int_equal(admin_get(f, "/health/ready?x=1"), 200);
        assert_int_equal(admin_get(f, "/%68ealth/ready"), 404); /* paths are compared as they came */
        fx_send(&q, &reply);
        assert_int_equal(reply.status, 405);
        memset(large, 'x', 300000);
        large[300000] = '\0';
        q.body = large;
        fx_send(&q, &reply);
        assert_int_equal(reply.status, 413);
        free(large);
}

static void check_refusals(struct daemon_fixture *f)
{
        struct fx_request q = {.method = "GET", .address = f->admin, .path = "/admin/v1/info"};

        fx_send(&q, &reply);
        assert_int_equal(reply.status, 403);
        has("AccessDenied");
        assert_int_equal(admin_get(f, "/admin/v1/nothing"), 403);
        assert_int_equal(admin_get(f, "/admin/v1/info?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=x"), 403);
        q.access_key = f->access_key;
        q.secret_key = "another secret";
        fx_send(&q, &reply);
        assert_int_equal(reply.status, 403);
        has("SignatureDoesNotMatch");
        q.secret_key = f->secret_key;
        q.access_key = "nobody";
        fx_send(&q, &reply);
        assert_int_equal(reply.status, 403);
        has("InvalidAccessKeyId");
        q.access_key = f->access_key;
        q.method = "POST";
        q.path = "/admin/v1/verify";
        q.body = "not what was signed";
        q.payload_sha256 = S3_EMPTY_SHA256;
        fx_send(&q, &reply);
        assert_int_equal(reply.status, 403);
        has("not the one that was signed");
        q.payload_sha256 = S3_STREAMING_SIGNED;
        fx_send(&q, &reply);
        assert_int_equal(reply.status, 403);
}

#define STRANGERS 112 /* more than one address may have open */

/* They send the beginning of a request, and keep their connections. */
static void check_crowd(struct daemon_fixture *f)
{
        const char *port = strrchr(f->admin, ':');
        struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port + 1)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fds[STRANGERS], i;

        for (i = 0; i < STRANGERS; i++) {
                fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                assert_int_equal(connect(fds[i], (struct sockaddr *)&addr, sizeof(addr)), 0);
                assert_int_equal(send(fds[i], "GET /", 5, MSG_NOSIGNAL), 5);
        }
        assert_int_equal(admin_get(f, "/health/live"), 200);
        assert_int_equal(admin_call(f, "GET", "/admin/v1/info", NULL), 200);
        for (i = 0; i < STRANGERS; i++)
                close(fds[i]);
        assert_int_equal(admin_get(f, "/health/live"), 200);
}

static void test_admin(void **state)
{
        struct daemon_fixture *f = *state;

        fx_start(f, ARGS("--format"));
        assert_int_equal(s3_call(f, "PUT", "/bucket", NULL), 200);
        assert_int_equal(s3_call(f, "PUT", "/bucket/key", "bytes"), 200);
        check_open_calls(f);
        check_refusals(f);
        check_admin_calls(f);
        check_crowd(f);
        assert_int_equal(fx_stop(f), SRV_EXIT_DRAINED);
}

/* ---- reloading ------------------------------------------------------------------------------- */

static void hang_up(struct daemon_fixture *f)
{
        f->text_len = 0;
        f->text[0] = '\0';
        kill(f->pid, SIGHUP);
        assert_true(fx_said(f, "millraced: reloaded\n"));
}

static bool grows(const char *path)
{
        struct stat st;
        WAIT_UNTIL(stat(path, &st) == 0 && st.st_size > 0);
        return stat(path, &st) == 0 && st.st_size > 0;
}

static void test_reload(void **state)
{
        struct daemon_fixture *f = *state;
        char log[128], moved[128], root[128];

        path_in(f, "access.log", log, sizeof(log));
        path_in(f, "moved.log", moved, sizeof(moved));
        path_in(f, "root", root, sizeof(root));
        write_file(root, "access_key = first\nsecret_key = first-secret\n", 0600);
        fx_start(f, ARGS("--format", "--access-log", log, "--root-credentials", root));
        strcpy(f->access_key, "first");
        strcpy(f->secret_key, "first-secret");
        assert_int_equal(s3_call(f, "GET", "/", NULL), 200);
        assert_true(grows(log));

        assert_int_equal(rename(log, moved), 0);
        write_file(root, "access_key = second\nsecret_key = second-secret\n", 0600);
        hang_up(f);
        assert_int_equal(s3_call(f, "GET", "/", NULL), 403);
        strcpy(f->access_key, "second");
        strcpy(f->secret_key, "second-secret");
        assert_int_equal(s3_call(f, "GET", "/", NULL), 200);
        assert_int_equal(admin_call(f, "GET", "/admin/v1/info", NULL), 200);
        assert_true(grows(log));

        write_file(root, "nonsense\n", 0600);
        hang_up(f);
        assert_non_null(strstr(f->text, "credentials stay as they are"));
        assert_int_equal(s3_call(f, "GET", "/", NULL), 200);
        assert_int_equal(fx_stop(f), SRV_EXIT_DRAINED);
}

static void make_certificate(const char *cert, const char *key, const char *name)
{
        char command[512];

        snprintf(command, sizeof(command),
                 "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=%s -days 2 "
                 "-keyout %s -out %s 2>/dev/null",
                 name, key, cert);
        assert_int_equal(system(command), 0);
}

static void test_tls(void **state)
{
        struct daemon_fixture *f = *state;
        struct fx_request q = {.method = "GET", .scheme = "https", .path = "/"};
        char cert[128], key[128];

        path_in(f, "cert", cert, sizeof(cert));
        path_in(f, "key", key, sizeof(key));
        make_certificate(cert, key, "one");
        fx_start(f, ARGS("--format", "--tls-cert", cert, "--tls-key", key, "--plain-listen", "127.0.0.1:0"));
        assert_non_null(strstr(f->text, "(TLS)"));
        q.address = f->listen;
        q.access_key = f->access_key;
        q.secret_key = f->secret_key;
        fx_send(&q, &reply);
        assert_int_equal(reply.status, 200);
        q.scheme = "http";
        q.address = f->plain;
        fx_send(&q, &reply);
        assert_int_equal(reply.status, 200);

        make_certificate(cert, key, "two");
        hang_up(f);
        q.scheme = "https";
        q.address = f->listen;
        fx_send(&q, &reply);
        assert_int_equal(reply.status, 200);

        write_file(cert, "no certificate any more", 0600);
        hang_up(f);
        assert_non_null(strstr(f->text, "the certificate stays as it is"));
        fx_send(&q, &reply);
        assert_int_equal(reply.status, 200);
        assert_int_equal(fx_stop(f), SRV_EXIT_DRAINED);
}

/* ---- the service manager --------------------------------------------------------------------- */

static bool manager_got(int fd, const char *part)
{
        char buf[256];
        ssize_t n;

        while ((n = recv(fd, buf, sizeof(buf) - 1, MSG_DONTWAIT)) >= 0) {
                buf[n] = '\0';
                if (strstr(buf, part) != NULL)
                        return true;
        }
        return false;
}

static void test_service_manager(void **state)
{
        struct daemon_fixture *f = *state;
        struct sockaddr_un addr = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
        bool told = false;

        path_in(f, "notify", addr.sun_path, sizeof(addr.sun_path));
        assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
        setenv("NOTIFY_SOCKET", addr.sun_path, 1);
        fx_start(f, ARGS("--format"));
        WAIT_UNTIL((told = manager_got(fd, "READY=1")));
        assert_true(told);
        hang_up(f);
        assert_true(manager_got(fd, "RELOADING=1"));
        assert_int_equal(fx_stop(f), SRV_EXIT_DRAINED);
        assert_true(manager_got(fd, "STOPPING=1"));
        close(fd);
}

/*
 * SIGTERM while it starts, and while a client keeps its connection open: an idle connection delays
 * nothing.
 */
static void test_stop_at_any_time(void **state)
{
        struct daemon_fixture *f = *state;
        int delay_us;

        fx_start(f, ARGS("--format"));
        assert_int_equal(fx_stop(f), SRV_EXIT_DRAINED);
        for (delay_us = 20000; delay_us < 400000; delay_us += 90000) {
                fx_spawn(f, NO_ARGS);
                assert_true(fx_said(
                        f, "listening on")); /* before: the signal would end the child that is not the daemon yet */
                usleep((useconds_t)delay_us);
                assert_int_equal(fx_stop(f), SRV_EXIT_DRAINED);
        }
}

/* A connection on which an upload has begun and does not go on. */
static int begin_upload(struct daemon_fixture *f)
{
        struct fx_request q = {.method = "PUT",
                               .address = f->listen,
                               .path = "/bucket/key",
                               .body = "",
                               .access_key = f->access_key,
                               .secret_key = f->secret_key};
        struct curl_slist *list = fx_sign(&q, NULL), *line;
        struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        char head[4096];
        size_t len;

        addr.sin_port = htons((uint16_t)atoi(strrchr(f->listen, ':') + 1));
        assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
        len = (size_t)snprintf(head, sizeof(head), "PUT /bucket/key HTTP/1.1\r\nHost: %s\r\n", f->listen);
        for (line = list; line != NULL; line = line->next)
                len += (size_t)snprintf(head + len, sizeof(head) - len, "%s\r\n", line->data);
        len += (size_t)snprintf(head + len, sizeof(head) - len, "Content-Length: 1000000\r\n\r\nbegun");
        assert_int_equal(write(fd, head, len), (ssize_t)len);
        curl_slist_free_all(list);
        return fd;
}

/* SIGTERM waits for an upload that runs; a second one does not. */
static void test_second_signal(void **state)
{
        struct daemon_fixture *f = *state;
        int fd;

        fx_start(f, ARGS("--format"));
        assert_int_equal(s3_call(f, "PUT", "/bucket", NULL), 200);
        fd = begin_upload(f);
        WAIT_UNTIL(admin_get(f, "/metrics") == 200 && strstr(reply.body, "\nmillrace_changes_active 1\n") != NULL);
        kill(f->pid, SIGTERM);
        assert_true(fx_said(f, "millraced: stopping\n"));
        WAIT_UNTIL(admin_get(f, "/health/ready") == 503); /* the line comes first */
        has("stopping");
        usleep(200000);
        assert_int_equal(waitpid(f->pid, NULL, WNOHANG), 0);
        assert_int_equal(fx_stop(f), SRV_EXIT_DRAINED);
        assert_non_null(strstr(f->text, "stopped; requests not finished: 1"));
        close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_format_serve_restart),
                TEST(test_environment_credentials),
                TEST(test_busy_addresses),
                TEST(test_two_daemons_on_one_drive),
                TEST(test_drives_that_cannot_be_used),
                TEST(test_bad_files),
                TEST(test_admin),
                TEST(test_reload),
                TEST(test_tls),
                TEST(test_service_manager),
                TEST(test_stop_at_any_time),
                TEST(test_second_signal),
        };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
