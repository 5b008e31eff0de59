/*
 * request.c - makes one request: signs it, sends it, reads the answer, tries again where retry.h says so. Everything
 * the client does passes here, on the thread that called the client. Bounds (I9): attempts, time without progress,
 * headers and bytes kept of an answer.
 */
#include "compose.h"
#include "retry.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One attempt. owner: the thread that makes the request */
struct attempt {
        struct mr_client *client;
        struct mr_request *request;
        struct mr_response *response;
        CURL *curl;
        struct mr_composed wire;
        uint64_t sent; /* of the body */
        int rv;        /* an errno of ours that ended the transfer, found again when curl returns */
        char curl_text[CURL_ERROR_SIZE];
};

/* ---- the answer ---------------------------------------------------------------------------------- */

const char *mr_response_header(const struct mr_response *response, const char *name)
{
        for (unsigned i = 0; i < response->header_count; i++)
                if (strcmp(response->header[i].name, name) == 0)
                        return response->header[i].value;
        return NULL;
}

static void response_clear(struct mr_response *response)
{
        for (unsigned i = 0; i < response->header_count; i++) {
                free(response->header[i].name);
                free(response->header[i].value);
        }
        response->header_count = 0;
        response->status = 0;
        response->body_len = 0;
        if (response->body != NULL)
                response->body[0] = '\0';
}

void mr_response_free(struct mr_response *response)
{
        response_clear(response);
        free(response->body);
        memset(response, 0, sizeof(*response));
}

static int response_add_header(struct mr_response *response, struct s3_str name, struct s3_str value)
{
        struct mr_header *header = &response->header[response->header_count];

        if (response->header_count == MR_HEADERS_MAX)
                return 0; /* what we look for comes in the first dozen */
        header->name = strndup(name.data, name.len);
        header->value = strndup(value.data, value.len);
        if (header->name == NULL || header->value == NULL) {
                free(header->name);
                free(header->value);
                return -ENOMEM;
        }
        for (char *c = header->name; *c != '\0'; c++)
                *c = (char)tolower((unsigned char)*c);
        response->header_count++;
        return 0;
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
        struct attempt *attempt = arg;
        struct s3_str line = {data, size * count};
        const char *colon;

        if (line.len > 5 && strncmp(data, "HTTP/", 5) == 0) { /* also after a 100 Continue: only the last counts */
                const char *space = memchr(data, ' ', line.len);

                response_clear(attempt->response);
                attempt->response->status = space != NULL ? atoi(space + 1) : 0;
                return line.len;
        }
        while (line.len > 0 && (line.data[line.len - 1] == '\n' || line.data[line.len - 1] == '\r'))
                line.len--;
        colon = memchr(line.data, ':', line.len);
        if (colon != NULL) {
                struct s3_str name = {line.data, (size_t)(colon - line.data)};
                struct s3_str value = {colon + 1, line.len - name.len - 1};

                attempt->rv = response_add_header(attempt->response, name, s3_str_trim(value));
        }
        return attempt->rv == 0 ? size * count : 0;
}

static int response_append(struct mr_response *response, const void *data, size_t len)
{
        size_t need = response->body_len + len + 1;
        size_t cap = response->body_cap;
        char *grown;

        if (need > MR_ANSWER_MAX)
                return -EPROTO;
        if (need > cap) {
                cap = cap * 2 > need ? cap * 2 : need + 4096;
                grown = realloc(response->body, cap);
                if (grown == NULL)
                        return -ENOMEM;
                response->body = grown;
                response->body_cap = cap;
        }
        memcpy(response->body + response->body_len, data, len);
        response->body_len += len;
        response->body[response->body_len] = '\0';
        return 0;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
        struct attempt *attempt = arg;
        struct mr_request *request = attempt->request;
        int status = attempt->response->status;

        if (request->sink != NULL && status >= 200 && status < 300)
                attempt->rv = request->sink(request->sink_arg, attempt->response, data, size * count);
        else
                attempt->rv = response_append(attempt->response, data, size * count);
        return attempt->rv == 0 ? size * count : 0;
}

/* ---- the body sent ------------------------------------------------------------------------------- */

static size_t on_read(char *out, size_t size, size_t count, void *arg)
{
        struct attempt *attempt = arg;
        ssize_t n;

        if (attempt->sent == attempt->request->len)
                return 0;
        n = mr_body_read(attempt->request, attempt->sent, out, size * count);
        if (n < 0) {
                attempt->rv = (int)n;
                return CURL_READFUNC_ABORT;
        }
        attempt->sent += (uint64_t)n;
        if (attempt->request->progress != NULL)
                attempt->request->progress(attempt->request->progress_arg, n);
        return (size_t)n;
}

/* curl asks when a kept connection turned out dead after bytes had gone into it. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
        struct attempt *attempt = arg;

        if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > attempt->request->len)
                return CURL_SEEKFUNC_FAIL;
        if (attempt->request->progress != NULL)
                attempt->request->progress(attempt->request->progress_arg, (int64_t)offset - (int64_t)attempt->sent);
        attempt->sent = (uint64_t)offset;
        return CURL_SEEKFUNC_OK;
}

static bool stopped(const struct mr_client *client, const struct mr_request *request)
{
        if (request->stop != NULL && atomic_load(request->stop))
                return true;
        return !request->urgent && mr_client_canceled(client);
}

static int on_tick(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
        const struct attempt *attempt = arg;

        return stopped(attempt->client, attempt->request);
}

/* ---- one attempt --------------------------------------------------------------------------------- */

static void set_method(const struct attempt *attempt)
{
        const struct mr_request *request = attempt->request;
        CURL *curl = attempt->curl;

        if (strcmp(request->method, "HEAD") == 0) {
                curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
        } else if (strcmp(request->method, "PUT") == 0 || strcmp(request->method, "POST") == 0) {
                curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
                curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->len);
        }
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, strcmp(request->method, "HEAD") == 0 ? NULL : request->method);
}

static void set_limits(const struct attempt *attempt)
{
        const struct mr_settings *settings = &attempt->client->settings;
        CURL *curl = attempt->curl;

        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)settings->connect_timeout_s);
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)settings->stall_timeout_s);
        curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
        curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L); /* keys may hold ".." and "//" */
        curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
        curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 256L << 10);
        curl_easy_setopt(curl, CURLOPT_USERAGENT, "millrace/" MILLRACE_VERSION);
        if (settings->ca_file[0] != '\0')
                curl_easy_setopt(curl, CURLOPT_CAINFO, settings->ca_file);
}

static CURLcode transfer(struct attempt *attempt)
{
        CURL *curl = attempt->curl;

        set_limits(attempt);
        set_method(attempt);
        curl_easy_setopt(curl, CURLOPT_URL, attempt->wire.url);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, attempt->wire.lines);
        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, attempt->curl_text);
        curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
        curl_easy_setopt(curl, CURLOPT_HEADERDATA, attempt);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, attempt);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(curl, CURLOPT_READDATA, attempt);
        curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
        curl_easy_setopt(curl, CURLOPT_SEEKDATA, attempt);
        curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_tick);
        curl_easy_setopt(curl, CURLOPT_XFERINFODATA, attempt);
        curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
        return curl_easy_perform(curl);
}

static int failure_of_curl(const struct attempt *attempt, CURLcode code, struct mr_error *err)
{
        const char *text = attempt->curl_text[0] != '\0' ? attempt->curl_text : curl_easy_strerror(code);

        switch (code) {
        case CURLE_ABORTED_BY_CALLBACK:
                return mr_failure(err, -ECANCELED, "canceled");
        case CURLE_OPERATION_TIMEDOUT:
                return mr_failure(err, -ETIMEDOUT, "%s", text);
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_RESOLVE_PROXY:
        case CURLE_COULDNT_CONNECT:
                return mr_failure(err, -ECONNREFUSED, "%s", text);
        case CURLE_OUT_OF_MEMORY:
                return mr_failure(err, -ENOMEM, "%s", text);
        default:
                return mr_failure(err, -EIO, "%s", text);
        }
}

/* 0: a 2xx answer. Otherwise err says what went wrong and class whether to try again. */
static int attempt_run(struct attempt *attempt, struct mr_error *err, enum mr_retry *class)
{
        CURLcode code;
        int rv;

        *class = MR_RETRY_NO;
        rv = mr_compose(attempt->client, attempt->request, &attempt->wire);
        if (rv == 0)
                rv = mr_core_take(attempt->client, attempt->request->urgent, &attempt->curl);
        if (rv != 0)
                return mr_failure(err, rv, "%s", strerror(-rv));
        code = transfer(attempt);
        mr_core_give(attempt->client, attempt->curl);
        if (attempt->rv != 0)
                return mr_failure(err, attempt->rv, "%s", strerror(-attempt->rv));
        if (code == CURLE_OK && attempt->response->status >= 200 && attempt->response->status < 300)
                return 0;
        rv = code != CURLE_OK ? failure_of_curl(attempt, code, err) : mr_failure_of_answer(attempt->response, err);
        if (rv != -ECANCELED)
                *class = mr_retry_class(code, attempt->response->status, err->s3_code);
        return rv;
}

static uint32_t retry_after(const struct mr_response *response)
{
        const char *value = mr_response_header(response, "retry-after");
        uint64_t seconds;

        return value != NULL && s3_parse_uint(s3_str_of(value), 3600, &seconds) == 0 ? (uint32_t)seconds : 0;
}

/* Before attempt number next. An errno ends the request. */
static int get_ready_again(struct mr_client *client, struct mr_request *request, const struct mr_response *response,
                           enum mr_retry class, unsigned next, struct mr_error *err)
{
        uint32_t wait_ms = mr_retry_delay_ms(class, next, mr_core_random(), retry_after(response));
        int rv = mr_core_sleep(client, wait_ms, request->urgent);

        if (rv == 0 && stopped(client, request))
                rv = -ECANCELED;
        if (rv == 0 && request->again != NULL)
                rv = request->again(request->sink_arg, request);
        return rv == 0 ? 0 : mr_failure(err, rv, "%s", rv == -ECANCELED ? "canceled" : strerror(-rv));
}

static int run(struct attempt *attempt, struct mr_client *client, struct mr_request *request,
               struct mr_response *response, struct mr_error *err)
{
        unsigned most = request->once ? 1 : client->settings.attempts;
        enum mr_retry class;
        int rv;

        for (unsigned number = 1;; number++) {
                memset(attempt, 0, sizeof(*attempt));
                attempt->client = client;
                attempt->request = request;
                attempt->response = response;
                response_clear(response);
                rv = attempt_run(attempt, err, &class);
                mr_composed_free(&attempt->wire);
                if (rv == 0)
                        return 0;
                if (request->once && err->http_status != 0)
                        return 0; /* any answer will do */
                if (request->progress != NULL)
                        request->progress(request->progress_arg, -(int64_t)attempt->sent);
                if (class == MR_RETRY_NO || number >= most)
                        return rv;
                rv = get_ready_again(client, request, response, class, number + 1, err);
                if (rv != 0)
                        return rv;
        }
}

int mr_request_run(struct mr_client *client, struct mr_request *request, struct mr_response *response,
                   struct mr_error *err)
{
        struct attempt *attempt = malloc(sizeof(*attempt));
        struct mr_error ignored;
        int rv;

        memset(response, 0, sizeof(*response));
        if (err == NULL)
                err = &ignored;
        memset(err, 0, sizeof(*err));
        if (attempt == NULL)
                return mr_failure(err, -ENOMEM, "%s", strerror(ENOMEM));
        rv = run(attempt, client, request, response, err);
        free(attempt);
        return rv;
}
