/*
 * attempt.c - one attempt of a request as curl sees it: limits, callbacks for headers and bodies,
 * what curl's failures mean. On the loop that sends it. Bounds (I9): time without progress, headers
 * and bytes kept of an answer (response.c).
 */
#include "client/http/attempt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- before it is sent ----------------------------------------------------------------------- */

/* curl has a connection, and sends. */
static int on_send(void *arg, char *address, char *local_address, int port, int local_port)
{
        struct mr_request *request = MR_CAST(mr_request, arg);

        request->sends++;
        return CURL_PREREQFUNC_OK;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
        struct mr_request *request = MR_CAST(mr_request, arg);

        request->attempt->rv = mr_response_add_line(&request->response, data, size * count);
        return request->attempt->rv == 0 ? size * count : 0;
}

static size_t attempt_on_body(char *data, size_t size, size_t count, void *arg)
{
        struct mr_request *request = MR_CAST(mr_request, arg);
        struct mr_attempt *attempt = request->attempt;
        int status = request->response.status;

        if (request->sink != NULL && status >= 200 && status < 300)
                attempt->rv = request->sink(request->sink_arg, &request->response, data, size * count);
        else
                attempt->rv = mr_response_add_body(&request->response, data, size * count);
        return attempt->rv == 0 ? size * count : 0;
}

/* ---- the body sent --------------------------------------------------------------------------- */

static size_t on_read(char *out, size_t size, size_t count, void *arg)
{
        struct mr_request *request = MR_CAST(mr_request, arg);
        struct mr_attempt *attempt = request->attempt;
        ssize_t n;

        if (request->by_window || attempt->sent == request->len)
                return 0;
        n = mr_body_read(request, attempt->sent, out, size * count);
        if (n < 0) {
                attempt->rv = (int)n;
                return CURL_READFUNC_ABORT;
        }
        attempt->sent += (uint64_t)n;
        if (request->progress != NULL)
                request->progress(request->progress_arg, n);
        return (size_t)n;
}

/* curl asks when a kept connection turned out dead after bytes had gone into it. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
        struct mr_request *request = MR_CAST(mr_request, arg);
        struct mr_attempt *attempt = request->attempt;

        if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > request->len)
                return CURL_SEEKFUNC_FAIL;
        if (request->progress != NULL)
                request->progress(request->progress_arg, (int64_t)offset - (int64_t)attempt->sent);
        attempt->sent = (uint64_t)offset;
        return CURL_SEEKFUNC_OK;
}

/* ---- the handle ------------------------------------------------------------------------------ */

static void set_method(const struct mr_request *request, CURL *curl)
{
        if (strcmp(request->method, "HEAD") == 0) {
                curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
                return;
        }
        if (strcmp(request->method, "PUT") == 0 || strcmp(request->method, "POST") == 0) {
                curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
                curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, request->by_window ? 0 : (curl_off_t)request->len);
        }
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

static void attempt_set_limits(const struct mr_settings *settings, CURL *curl)
{
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)settings->connect_timeout_s);
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)settings->stall_timeout_s);
        /* connections to a name of many addresses spread over these */
        curl_easy_setopt(curl, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);
        curl_easy_setopt(curl, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
        curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
        curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L); /* keys may hold ".." and "//" */
        curl_easy_setopt(curl, CURLOPT_USERAGENT, "millrace/" MILLRACE_VERSION);
        if (settings->ca_file[0] != '\0')
                curl_easy_setopt(curl, CURLOPT_CAINFO, settings->ca_file);
}

void mr_request_set(struct mr_request *request, CURL *curl)
{
        struct mr_attempt *attempt = request->attempt;

        request->went_out = true;
        curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, request->fresh ? 1L : 0L);
        attempt_set_limits(&request->client->settings, curl);
        curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, request->piece != 0 ? (long)request->piece : 256L << 10);
        curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, request->len <= 64 << 10 ? 64L << 10 : 256L << 10);
        if (request->limit_ms != 0)
                curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)request->limit_ms);
        set_method(request, curl);
        curl_easy_setopt(curl, CURLOPT_URL, attempt->wire.url);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, attempt->wire.lines);
        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, attempt->curl_text);
        curl_easy_setopt(curl, CURLOPT_PREREQFUNCTION, on_send);
        curl_easy_setopt(curl, CURLOPT_PREREQDATA, request);
        curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
        curl_easy_setopt(curl, CURLOPT_HEADERDATA, request);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, attempt_on_body);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, request);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(curl, CURLOPT_READDATA, request);
        curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
        curl_easy_setopt(curl, CURLOPT_SEEKDATA, request);
}

int mr_attempt_failure(const struct mr_attempt *attempt, CURLcode code, struct mr_error *err)
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
