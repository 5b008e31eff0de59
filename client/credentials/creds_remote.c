/*
 * creds_remote.c - credentials that somebody else hands out: a token service
 * (AssumeRoleWithWebIdentity), the endpoint of a container, a process. On a worker, with time
 * limits. Answers are bounded (I9), and nothing of them goes into messages: they are secrets.
 */
#include "client/credentials/creds.h"

#include "client/base/core.h"
#include "client/base/failure.h"
#include "client/base/xml_answer.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MAX (64u << 10)
#define TRIES      3

extern char **environ;

/* A text that grows to ANSWER_MAX. owner: one call */
struct text {
        size_t len;
        char data[ANSWER_MAX + 1];
};

/* Where a service is reached: one at least. owner: one call */
struct sources {
        unsigned count;
        const char *url[MR_ENDPOINTS_MAX]; /* of text, or the caller's */
        char text[MR_ENDPOINTS_MAX * MR_ENDPOINT_URL_MAX];
};

static int creds_remote_add(struct text *text, const void *data, size_t len)
{
        if (len > ANSWER_MAX - text->len)
                return -E2BIG;
        memcpy(text->data + text->len, data, len);
        text->len += len;
        text->data[text->len] = '\0';
        return 0;
}

static int creds_remote_set(char *out, size_t size, const char *value)
{
        if (value == NULL || strlen(value) >= size || strpbrk(value, "\r\n") != NULL)
                return -EPROTO;
        memcpy(out, value, strlen(value) + 1);
        return 0;
}

static int set_all(struct mr_credentials *out, const char *key, const char *secret, const char *token,
                   const char *expires)
{
        int64_t ms = 0;
        int rv = creds_remote_set(out->access_key, sizeof(out->access_key), key);

        if (rv == 0)
                rv = creds_remote_set(out->secret_key, sizeof(out->secret_key), secret);
        if (rv == 0)
                rv = creds_remote_set(out->session_token, sizeof(out->session_token), token != NULL ? token : "");
        if (rv == 0 && expires != NULL && expires[0] != '\0' && s3_date_parse_iso(s3_str_of(expires), &ms) != 0)
                rv = -EPROTO;
        out->expires_s = ms / 1000;
        return rv;
}

/* {"AccessKeyId": …, "SecretAccessKey": …, "SessionToken" or "Token": …, "Expiration": …} */
static int read_json(const struct text *text, const char *token_name, struct mr_credentials *out)
{
        json_t *root = json_loadb(text->data, text->len, 0, NULL);
        int rv = -EPROTO;

        if (json_is_object(root))
                rv = set_all(out, json_string_value(json_object_get(root, "AccessKeyId")),
                             json_string_value(json_object_get(root, "SecretAccessKey")),
                             json_string_value(json_object_get(root, token_name)),
                             json_string_value(json_object_get(root, "Expiration")));
        json_decref(root);
        return rv;
}

/* A small file's text, without blanks at its end. */
static int read_text(const char *path, struct text *out, struct mr_error *err)
{
        char block[4096];
        ssize_t n;
        int fd = open(path, O_RDONLY | O_CLOEXEC), rv = 0;

        out->len = 0;
        out->data[0] = '\0';
        if (fd < 0)
                return mr_failure(err, -EACCES, "%s: %s", path, strerror(errno));
        while (rv == 0 && (n = read(fd, block, sizeof(block))) != 0) {
                if (n < 0)
                        rv = -errno;
                else
                        rv = creds_remote_add(out, block, (size_t)n);
        }
        close(fd);
        while (out->len > 0 && strchr(" \t\r\n", out->data[out->len - 1]) != NULL)
                out->data[--out->len] = '\0';
        if (rv == 0 && out->len == 0)
                return mr_failure(err, -EACCES, "%s is empty", path);
        return rv == 0 ? 0 : mr_failure(err, -EACCES, "%s: %s", path, strerror(-rv));
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

static size_t creds_remote_on_body(char *data, size_t size, size_t count, void *arg)
{
        return creds_remote_add(arg, data, size * count) == 0 ? size * count : 0;
}

static CURLcode perform(const struct mr_creds_config *config, const char *url, const char *form,
                        const struct curl_slist *lines, struct text *answer, long *status)
{
        CURL *curl = curl_easy_init();
        CURLcode code = CURLE_OUT_OF_MEMORY;

        if (curl == NULL)
                return code;
        answer->len = 0;
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_URL, url);
        curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
        curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)config->timeout_s);
        curl_easy_setopt(curl, CURLOPT_USERAGENT, "millrace/" MILLRACE_VERSION);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, lines);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, creds_remote_on_body);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
        if (form != NULL)
                curl_easy_setopt(curl, CURLOPT_POSTFIELDS, form);
        if (config->ca_file[0] != '\0')
                curl_easy_setopt(curl, CURLOPT_CAINFO, config->ca_file);
        code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
        curl_easy_cleanup(curl);
        return code;
}

/*
 * Of the places that answer for one service the first that does, from a random one on: each once at
 * least, without a pause between two that were not asked yet. Fills *asked with the last.
 */
static int creds_remote_fetch(const struct mr_creds_config *config, const struct sources *sources, const char *form,
                              const struct curl_slist *lines, struct text *answer, const char **asked,
                              struct mr_error *err)
{
        unsigned tries = sources->count > TRIES ? sources->count : TRIES, first = mr_core_random() % sources->count;
        CURLcode code = CURLE_OK;
        long status = 0;

        for (unsigned i = 0; i < tries; i++) {
                struct timespec pause = {.tv_nsec = 100000000L << i / sources->count};

                if (i >= sources->count)
                        nanosleep(&pause, NULL);
                *asked = sources->url[(first + i) % sources->count];
                code = perform(config, *asked, form, lines, answer, &status);
                if (code == CURLE_OK && status == 200)
                        return 0;
                if (code == CURLE_OK && status < 500)
                        break;
        }
        if (code != CURLE_OK)
                return mr_failure(err, -EACCES, "credentials from %s: %s", *asked, curl_easy_strerror(code));
        return mr_failure(err, -EACCES, "credentials from %s: HTTP %ld", *asked, status);
}

/* ---- web identity ---------------------------------------------------------------------------- */

static int creds_remote_take_credentials(void *arg, const struct mr_record *record)
{
        if (strcmp(record->name, "Credentials") != 0)
                return 0;
        return set_all(arg, mr_record_get(record, "AccessKeyId"), mr_record_get(record, "SecretAccessKey"),
                       mr_record_get(record, "SessionToken"), mr_record_get(record, "Expiration"));
}

/* Like the store's endpoints they may be a list; unlike these they may have paths. */
static int service_sources(const struct mr_creds_config *config, struct sources *out, struct mr_error *err)
{
        const char *given = getenv("AWS_ENDPOINT_URL_STS");
        char *rest = NULL;
        int n;

        if (given == NULL || given[0] == '\0')
                given = getenv("AWS_ENDPOINT_URL");
        if (given != NULL && given[0] != '\0')
                n = snprintf(out->text, sizeof(out->text), "%s", given);
        else
                n = snprintf(out->text, sizeof(out->text), "https://sts.%s.amazonaws.com/", config->region);
        if (n < 0 || (size_t)n >= sizeof(out->text))
                return mr_failure(err, -EINVAL, "the token service's address is too long");
        out->count = 0;
        for (char *url = strtok_r(out->text, ", \t", &rest); url != NULL; url = strtok_r(NULL, ", \t", &rest)) {
                if (out->count == MR_ENDPOINTS_MAX)
                        return mr_failure(err, -EINVAL, "more than %u addresses of the token service",
                                          MR_ENDPOINTS_MAX);
                out->url[out->count++] = url;
        }
        return out->count > 0 ? 0 : mr_failure(err, -EINVAL, "the token service's address is empty");
}

static int form_add(char *form, size_t size, const char *name, const char *value)
{
        size_t len = strlen(form);
        int n = snprintf(form + len, size - len, "%s%s=", len > 0 ? "&" : "", name);

        if (n < 0 || (size_t)n >= size - len)
                return -E2BIG;
        len += (size_t)n;
        n = s3_percent_encode(s3_str_of(value), S3_ENCODE_QUERY, form + len, size - len - 1);
        if (n < 0)
                return -E2BIG;
        form[len + (size_t)n] = '\0';
        return 0;
}

int mr_creds_web_identity(const struct mr_creds_config *config, const char *token_file, const char *role,
                          const char *session, struct mr_credentials *out, struct mr_error *err)
{
        size_t size = 3 * ANSWER_MAX + 8192;
        struct text *text = malloc(sizeof(*text));
        char *form = calloc(1, size);
        struct sources sources;
        const char *asked;
        int rv = -ENOMEM;

        if (text == NULL || form == NULL) {
                rv = mr_failure_errno(err, rv);
                goto out;
        }
        rv = read_text(token_file, text, err);
        if (rv != 0)
                goto out;
        rv = form_add(form, size, "Action", "AssumeRoleWithWebIdentity");
        if (rv == 0)
                rv = form_add(form, size, "Version", "2011-06-15");
        if (rv == 0)
                rv = form_add(form, size, "RoleArn", role);
        if (rv == 0)
                rv = form_add(form, size, "RoleSessionName", session != NULL ? session : "millrace");
        if (rv == 0)
                rv = form_add(form, size, "WebIdentityToken", text->data);
        if (rv != 0) {
                mr_failure_errno(err, rv);
                goto out;
        }
        rv = service_sources(config, &sources, err);
        if (rv == 0)
                rv = creds_remote_fetch(config, &sources, form, NULL, text, &asked, err);
        if (rv == 0 && (mr_answer_read(text->data, text->len, "AssumeRoleWithWebIdentityResponse", 2,
                                       creds_remote_take_credentials, out) != 0 ||
                        out->access_key[0] == '\0'))
                rv = mr_failure(err, -EACCES, "the answer of %s has no credentials", asked);
out:
        if (text != NULL)
                explicit_bzero(text, sizeof(*text));
        if (form != NULL)
                explicit_bzero(form, size);
        free(text);
        free(form);
        return rv;
}

/* ---- containers ------------------------------------------------------------------------------ */

/* Whoever can set a variable must not make us send the token in the clear to just anybody. */
static bool is_trusted(const char *url)
{
        static const char *const hosts[] = {"127.",          "localhost",      "[::1]",
                                            "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};

        if (strncmp(url, "https://", 8) == 0)
                return true;
        if (strncmp(url, "http://", 7) != 0 || strchr(url, '@') != NULL) /* NAME:WORD@HOST goes to HOST */
                return false;
        for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
                size_t len = strlen(hosts[i]);

                if (strncmp(url + 7, hosts[i], len) == 0 &&
                    (i == 0 ? strspn(url + 7, "0123456789.") == strcspn(url + 7, ":/")
                            : strchr(":/", url[7 + len]) != NULL))
                        return true;
        }
        return false;
}

static int container_url(char *out, size_t size, struct mr_error *err)
{
        const char *full = getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
                   *relative = getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        int n;

        if (relative != NULL && relative[0] != '\0')
                n = snprintf(out, size, "http://169.254.170.2%s%s", relative[0] == '/' ? "" : "/", relative);
        else
                n = snprintf(out, size, "%s", full);
        if (n < 0 || (size_t)n >= size)
                return mr_failure(err, -EINVAL, "the address of the container's credentials is too long");
        return is_trusted(out) ? 0
                               : mr_failure(err, -EINVAL, "%s is neither https:// nor an address of this host", out);
}

static int container_token(struct text *text, struct curl_slist **lines, struct mr_error *err)
{
        const char *file = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
                   *token = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN");
        char *line;
        int rv = 0;

        if (file != NULL && file[0] != '\0') {
                rv = read_text(file, text, err);
                token = text->data;
        }
        if (rv != 0 || token == NULL || token[0] == '\0')
                return rv;
        if (strpbrk(token, "\r\n") != NULL)
                return mr_failure(err, -EINVAL, "the container's authorization token is not one line");
        if (asprintf(&line, "Authorization: %s", token) < 0)
                return mr_failure_errno(err, -ENOMEM);
        *lines = curl_slist_append(NULL, line);
        explicit_bzero(line, strlen(line));
        free(line);
        return *lines != NULL ? 0 : mr_failure_errno(err, -ENOMEM);
}

int mr_creds_container(const struct mr_creds_config *config, struct mr_credentials *out, struct mr_error *err)
{
        struct text *text = malloc(sizeof(*text));
        struct curl_slist *lines = NULL;
        struct sources sources = {.count = 1, .url = {sources.text}};
        const char *asked;
        int rv;

        if (text == NULL)
                return mr_failure_errno(err, -ENOMEM);
        rv = container_url(sources.text, sizeof(sources.text), err);
        if (rv == 0)
                rv = container_token(text, &lines, err);
        if (rv == 0)
                rv = creds_remote_fetch(config, &sources, NULL, lines, text, &asked, err);
        if (rv == 0 && read_json(text, "Token", out) != 0)
                rv = mr_failure(err, -EACCES, "the answer of %s has no credentials", asked);
        curl_slist_free_all(lines);
        explicit_bzero(text, sizeof(*text));
        free(text);
        return rv;
}

/* ---- a process ------------------------------------------------------------------------------- */

/*
 * A shell in a process group of its own, its output in *fd. Signals that this thread blocks are not
 * blocked in it.
 */
static int start_shell(const char *command, pid_t *pid, int *fd)
{
        char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)command, NULL};
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attr;
        sigset_t none;
        int ends[2], rv;

        if (pipe2(ends, O_CLOEXEC) != 0)
                return -errno;
        sigemptyset(&none);
        posix_spawnattr_init(&attr);
        posix_spawnattr_setsigmask(&attr, &none);
        posix_spawnattr_setpgroup(&attr, 0);
        posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        rv = -posix_spawn(pid, argv[0], &actions, &attr, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attr);
        close(ends[1]);
        if (rv != 0)
                close(ends[0]);
        else
                *fd = ends[0];
        return rv;
}

static int read_output(int fd, int64_t until_ms, struct text *out)
{
        char block[4096];

        out->len = 0;
        for (;;) {
                struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
                int64_t left_ms = until_ms - mr_core_clock_ms();
                ssize_t n;
                int rv;

                if (left_ms <= 0)
                        return -ETIMEDOUT;
                if (poll(&poll_fd, 1, (int)left_ms) <= 0)
                        continue;
                n = read(fd, block, sizeof(block));
                if (n == 0)
                        return 0;
                if (n < 0 && errno != EINTR)
                        return -errno;
                rv = n > 0 ? creds_remote_add(out, block, (size_t)n) : 0;
                if (rv != 0)
                        return rv;
        }
}

/*
 * One that has closed its output may not have ended. What it leaves behind in its group is killed
 * only where it fails.
 */
static int end_shell(pid_t pid, int64_t until_ms, int rv, int *status)
{
        const struct timespec pause = {.tv_nsec = 5000000};
        pid_t ended = 0;

        while (rv == 0 && ended == 0) {
                ended = waitpid(pid, status, WNOHANG);
                if (ended == 0 && mr_core_clock_ms() >= until_ms)
                        rv = -ETIMEDOUT;
                else if (ended == 0)
                        nanosleep(&pause, NULL);
        }
        if (rv != 0)
                kill(-pid, SIGKILL);
        while (ended == 0 && waitpid(pid, status, 0) < 0 && errno == EINTR)
                ;
        return rv;
}

int mr_creds_process(const struct mr_creds_config *config, const char *command, struct mr_credentials *out,
                     struct mr_error *err)
{
        struct text *text = malloc(sizeof(*text));
        int64_t until_ms = mr_core_clock_ms() + (int64_t)config->timeout_s * 1000;
        int fd = -1, status = 0, rv;
        pid_t pid;

        if (text == NULL)
                return mr_failure_errno(err, -ENOMEM);
        rv = start_shell(command, &pid, &fd);
        if (rv == 0) {
                rv = read_output(fd, until_ms, text);
                close(fd);
                rv = end_shell(pid, until_ms, rv, &status);
        }
        if (rv != 0)
                mr_failure(err, -EACCES, "credential_process: %s", strerror(-rv));
        else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                mr_failure(err, -EACCES, "credential_process ended with status %d",
                           WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        else if (read_json(text, "SessionToken", out) != 0)
                mr_failure(err, -EACCES, "credential_process did not print credentials");
        else
                err->code = 0;
        explicit_bzero(text, sizeof(*text));
        free(text);
        return err->code;
}
