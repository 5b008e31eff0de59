/*
 * daemon_fixture.h - a whole daemon in a process of its own, and a client that speaks to it.
 *
 * The child runs srv_daemon_run() over folders in a temporary place, on ports that the system
 * chooses; the parent reads its standard error to learn them. Included by tests only.
 */
#ifndef MILLRACE_TESTS_DAEMON_FIXTURE_H
#define MILLRACE_TESTS_DAEMON_FIXTURE_H

#include "server/daemon.h"
#include "server/daemon_log.h"

#include "s3.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FX_DRIVES   4
#define FX_START_MS 60000
#define FX_ARGS_MAX 48

struct daemon_fixture {
        char folder[64];
        pid_t pid;        /* 0: none runs */
        int err;          /* reading end of its standard error */
        char text[65536]; /* what came from it */
        size_t text_len;
        char listen[64], plain[64], admin[64];
        char access_key[129], secret_key[129];
};

struct fx_reply {
        long status; /* 0: no answer */
        char body[1048576];
        size_t len;
};

static void fx_read_stderr(struct daemon_fixture *f, int timeout_ms)
{
        struct pollfd fd = {.fd = f->err, .events = POLLIN};
        char rest[4096]; /* of a report longer than the buffer: read, so that the daemon does not wait, and dropped */
        size_t room = sizeof(f->text) - f->text_len - 1;
        ssize_t n;

        if (poll(&fd, 1, timeout_ms) <= 0)
                return;
        n = room > 0 ? read(f->err, f->text + f->text_len, room) : read(f->err, rest, sizeof(rest));
        if (n > 0 && room > 0)
                f->text_len += (size_t)n;
        if (n <= 0)
                usleep(5000);
        f->text[f->text_len] = '\0';
}

/* Waits until the daemon has said something; false: it did not, or it ended. */
static inline bool fx_said(struct daemon_fixture *f, const char *part)
{
        int i;

        for (i = 0; i < FX_START_MS / 20; i++) {
                if (strstr(f->text, part) != NULL)
                        return true;
                fx_read_stderr(f, 20);
                if (f->pid != 0 && strstr(f->text, part) == NULL && waitpid(f->pid, NULL, WNOHANG | WNOWAIT) > 0 &&
                    poll(&(struct pollfd){.fd = f->err, .events = POLLIN}, 1, 50) <= 0)
                        return false;
        }
        return false;
}

/* The word after `after` in what was said. */
static inline void fx_word(const struct daemon_fixture *f, const char *after, unsigned nth, char *out, size_t size)
{
        const char *at = f->text;
        size_t len;

        *out = '\0';
        for (; (at = strstr(at, after)) != NULL; nth--) {
                at += strlen(after);
                len = strcspn(at, " \n");
                if (nth == 0 && len < size) {
                        memcpy(out, at, len);
                        out[len] = '\0';
                        return;
                }
        }
}

static inline int fx_child(int err, int argc, const char *const argv[])
{
        struct srv_settings settings;
        struct srv_error error;
        enum srv_action action;
        int status;

        dup2(err, STDERR_FILENO);
        if (srv_settings_init(&settings) != 0 || srv_settings_load(&settings, argc, argv, &action, &error) != 0)
                return 99;
        status = (int)srv_daemon_run(&settings);
        srv_settings_free(&settings);
        return status;
}

/* Starts a daemon on the fixture's drives with more arguments (ended by NULL); does not wait. */
static inline void fx_spawn(struct daemon_fixture *f, const char *const more[])
{
        const char *argv[FX_ARGS_MAX] = {"millraced",   "--listen",        "127.0.0.1:0", "--admin",
                                         "127.0.0.1:0", "--loops",         "2",           "--memory",
                                         "64MiB",       "--log-file-size", "4MiB",        "--segment-size",
                                         "16MiB",       "--full-reserve",  "1MiB"};
        char drives[FX_DRIVES][96], key_file[96];
        int argc = 15, pipe_fds[2], i;

        for (i = 0; i < FX_DRIVES; i++) {
                snprintf(drives[i], sizeof(drives[i]), "%s/%d", f->folder, i);
                argv[argc++] = "--drive";
                argv[argc++] = drives[i];
        }
        snprintf(key_file, sizeof(key_file), "%s/master-key", f->folder);
        argv[argc++] = "--key-file";
        argv[argc++] = key_file;
        while (*more != NULL) {
                for (i = 1; i < argc; i++) /* replaces a default of above */
                        if (strcmp(argv[i], "--listen") == 0 && strcmp(*more, "--listen") == 0)
                                break;
                if (i < argc) {
                        argv[i + 1] = more[1];
                        more += 2;
                        continue;
                }
                assert_true(argc < FX_ARGS_MAX);
                argv[argc++] = *more++;
        }
        assert_int_equal(pipe(pipe_fds), 0);
        f->text_len = 0;
        f->text[0] = '\0';
        fflush(NULL);
        f->pid = fork();
        assert_true(f->pid >= 0);
        if (f->pid == 0) {
                close(pipe_fds[0]);
                exit(fx_child(pipe_fds[1], argc, argv));
        }
        close(pipe_fds[1]);
        fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
        f->err = pipe_fds[0];
}

/* Starts one and waits until it is ready. */
static inline void fx_start(struct daemon_fixture *f, const char *const more[])
{
        fx_spawn(f, more);
        if (!fx_said(f, "millraced: ready\n"))
                fail_msg("the daemon did not get ready:\n%s", f->text);
        fx_word(f, "listening on ", 0, f->listen, sizeof(f->listen));
        fx_word(f, "listening on ", 1, f->plain, sizeof(f->plain));
        fx_word(f, "admin on ", 0, f->admin, sizeof(f->admin));
        if (strstr(f->text, "access key: ") != NULL) {
                fx_word(f, "access key: ", 0, f->access_key, sizeof(f->access_key));
                fx_word(f, "secret key: ", 0, f->secret_key, sizeof(f->secret_key));
        }
}

/* Exit status of the daemon, which must end by itself; -1: by a signal. */
static inline int fx_wait(struct daemon_fixture *f)
{
        int status = 0, i;

        for (i = 0; i < FX_START_MS / 20 && waitpid(f->pid, &status, WNOHANG) == 0; i++)
                fx_read_stderr(f, 20);
        assert_true(i < FX_START_MS / 20);
        while (poll(&(struct pollfd){.fd = f->err, .events = POLLIN}, 1, 0) > 0 && f->text_len + 1 < sizeof(f->text)) {
                size_t before = f->text_len;

                fx_read_stderr(f, 0);
                if (f->text_len == before)
                        break;
        }
        close(f->err);
        f->pid = 0;
        if (!WIFEXITED(status))
                fail_msg("the daemon was ended by signal %d:\n%s", WTERMSIG(status), f->text);
        return WEXITSTATUS(status);
}

static inline int fx_stop(struct daemon_fixture *f)
{
        kill(f->pid, SIGTERM);
        return fx_wait(f);
}

static inline int fx_setup(void **state)
{
        struct daemon_fixture *f = calloc(1, sizeof(*f));
        char path[96];
        int i;

        unsetenv(SRV_ACCESS_KEY_ENV);
        unsetenv(SRV_SECRET_KEY_ENV);
        unsetenv("NOTIFY_SOCKET");
        strcpy(f->folder, "/tmp/millrace-daemon-XXXXXX");
        if (mkdtemp(f->folder) == NULL)
                return -1;
        for (i = 0; i < FX_DRIVES; i++) {
                snprintf(path, sizeof(path), "%s/%d", f->folder, i);
                mkdir(path, 0700);
        }
        *state = f;
        return 0;
}

static inline int fx_teardown(void **state)
{
        struct daemon_fixture *f = *state;
        char command[96];

        if (f->pid > 0) {
                kill(f->pid, SIGKILL);
                waitpid(f->pid, NULL, 0);
                close(f->err);
        }
        snprintf(command, sizeof(command), "rm -rf %s", f->folder);
        if (system(command) != 0)
                return -1;
        free(f);
        return 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

static inline size_t fx_take_body(char *data, size_t size, size_t count, void *arg)
{
        struct fx_reply *reply = arg;
        size_t len = size * count;

        if (len > sizeof(reply->body) - reply->len - 1)
                return 0;
        memcpy(reply->body + reply->len, data, len);
        reply->len += len;
        reply->body[reply->len] = '\0';
        return len;
}

struct fx_request {
        const char *method, *scheme, *address, *path; /* scheme NULL: http */
        const char *body;
        const char *access_key, *secret_key; /* NULL: unsigned */
        const char *payload_sha256;          /* NULL: of the body */
};

static inline size_t fx_take_start(char *line, size_t size, size_t count, void *arg)
{
        static const char name[] = "x-millrace-start: ";
        char *out = arg;

        if (size * count > sizeof(name) && strncasecmp(line, name, sizeof(name) - 1) == 0)
                snprintf(out, 65, "%.*s", (int)strcspn(line + sizeof(name) - 1, "\r\n"), line + sizeof(name) - 1);
        return size * count;
}

static inline size_t fx_drop_body(char *data, size_t size, size_t count, void *arg)
{
        return size * count;
}

/* How the admin listener calls this start of the daemon. */
static inline void fx_admin_start(const struct fx_request *q, char out[65])
{
        CURL *curl = curl_easy_init();
        char url[1024];

        out[0] = '\0';
        snprintf(url, sizeof(url), "%s://%s/health/live", q->scheme != NULL ? q->scheme : "http", q->address);
        curl_easy_setopt(curl, CURLOPT_URL, url);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
        curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
        curl_easy_setopt(curl, CURLOPT_TIMEOUT, 60L);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, fx_drop_body);
        curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, fx_take_start);
        curl_easy_setopt(curl, CURLOPT_HEADERDATA, out);
        curl_easy_perform(curl);
        curl_easy_cleanup(curl);
}

/* Header lines of a signed request. */
static inline struct curl_slist *fx_sign(const struct fx_request *q, struct curl_slist *list)
{
        char date[S3_DATE_AMZ_SIZE], sha256[65], line[1024], authorization[512];
        struct s3_header headers[5];
        bool admin = strncmp(q->path, "/admin/", 7) == 0;
        uint8_t hash[S3_SHA256_LEN], random[16];
        char nonce[33], start[65];
        struct s3_signer signer;
        struct s3_request request = {.method = s3_str_of(q->method), .headers = headers, .header_count = admin ? 5 : 3};
        const char *query = strchr(q->path, '?');
        int64_t now = lp_wall_ms();

        s3_date_format_amz(now, date);
        lp_random(random, sizeof(random));
        s3_hex_encode(random, sizeof(random), nonce);
        if (q->payload_sha256 == NULL && q->body != NULL && admin) {
                EVP_Digest(q->body, strlen(q->body), hash, NULL, EVP_sha256(), NULL);
                s3_hex_encode(hash, sizeof(hash), sha256);
        } else if (q->payload_sha256 != NULL)
                snprintf(sha256, sizeof(sha256), "%s", q->payload_sha256);
        else
                snprintf(sha256, sizeof(sha256), "%s", q->body == NULL ? S3_EMPTY_SHA256 : "UNSIGNED-PAYLOAD");
        request.path = (struct s3_str){q->path, query != NULL ? (size_t)(query - q->path) : strlen(q->path)};
        if (query != NULL)
                request.query = s3_str_of(query + 1);
        headers[0] = (struct s3_header){S3_STR("host"), s3_str_of(q->address)};
        headers[1] = (struct s3_header){S3_STR("x-amz-content-sha256"), s3_str_of(sha256)};
        headers[2] = (struct s3_header){S3_STR("x-amz-date"), s3_str_of(date)};
        headers[3] = (struct s3_header){S3_STR("x-millrace-nonce"), s3_str_of(nonce)};
        if (admin)
                fx_admin_start(q, start);
        headers[4] = (struct s3_header){S3_STR("x-millrace-start"), s3_str_of(start)};
        s3_signer_init(&signer, s3_str_of(q->access_key), s3_str_of(q->secret_key), "us-east-1", now);
        assert_true(s3_sign_headers(&request, &signer, authorization, sizeof(authorization), NULL) > 0);
        snprintf(line, sizeof(line), "Authorization: %s", authorization);
        list = curl_slist_append(list, line);
        snprintf(line, sizeof(line), "x-amz-date: %s", date);
        list = curl_slist_append(list, line);
        if (admin) {
                snprintf(line, sizeof(line), "x-millrace-nonce: %s", nonce);
                list = curl_slist_append(list, line);
                snprintf(line, sizeof(line), "x-millrace-start: %s", start);
                list = curl_slist_append(list, line);
        }
        snprintf(line, sizeof(line), "x-amz-content-sha256: %s", sha256);
        return curl_slist_append(list, line);
}

static inline void fx_send(const struct fx_request *q, struct fx_reply *reply)
{
        struct curl_slist *list = curl_slist_append(NULL, "Expect:");
        CURL *curl = curl_easy_init();
        char url[1024];

        reply->status = 0;
        reply->len = 0;
        reply->body[0] = '\0';
        if (q->access_key != NULL)
                list = fx_sign(q, list);
        snprintf(url, sizeof(url), "%s://%s%s", q->scheme != NULL ? q->scheme : "http", q->address, q->path);
        curl_easy_setopt(curl, CURLOPT_URL, url);
        curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, q->method);
        curl_easy_setopt(curl, CURLOPT_NOBODY, strcmp(q->method, "HEAD") == 0 ? 1L : 0L);
        if (q->body != NULL) {
                curl_easy_setopt(curl, CURLOPT_POSTFIELDS, q->body);
                curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)strlen(q->body));
        }
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
        curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
        curl_easy_setopt(curl, CURLOPT_TIMEOUT, 60L);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, fx_take_body);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, reply);
        if (curl_easy_perform(curl) == CURLE_OK)
                curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &reply->status);
        curl_easy_cleanup(curl);
        curl_slist_free_all(list);
}

#endif
