/*
 * client_request.c - makes one request: signs it, has it sent, tries again where retry.h says so.
 * Everything the client does passes here.
 *
 *   start ──> prepare ──> wait for a turn ──> sent by a loop ──┬──> done()
 *                ^   (worker, where it takes time)             │
 *                └──────── pause, in the loop <────────────────┘ a failure that may pass
 *
 * Bounds (I9): attempts, pauses.
 */
#include "client/base/client_wait.h"
#include "client/credentials/creds.h"
#include "client/http/attempt.h"
#include "client/http/curl_loop.h"
#include "client/http/request_queue.h"
#include "client/http/retry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct mr_request_events request_events;

/* ---- the attempt's endpoint ------------------------------------------------------------------ */

/* Where there is one, use says so already: its index is 0. */
static bool request_chooses(const struct mr_request *request)
{
        return request->admin_path == NULL && request->client->endpoints.count > 1;
}

/* What an RDMA session's requests use of its endpoint is counted by their grants (rdma_context.c). */
static void request_take_endpoint(struct mr_request *request)
{
        const unsigned *only = request->session != NULL ? &request->session->endpoint : request->only;
        struct mr_client *client = request->client;

        if (!request_chooses(request))
                return;
        if (only != NULL) {
                request->use = (struct mr_endpoint_use){.index = *only};
                return;
        }
        pthread_mutex_lock(&client->lock);
        request->use = mr_endpoints_take(&client->endpoints, request->tried | request->shunned, mr_core_clock_ms(),
                                         mr_core_random());
        pthread_mutex_unlock(&client->lock);
}

static void request_give_endpoint(struct mr_request *request, enum mr_endpoint_end end)
{
        struct mr_client *client = request->client;

        if (!request_chooses(request) || (!request->use.taken && end == MR_ENDPOINT_UNKNOWN))
                return;
        pthread_mutex_lock(&client->lock);
        if (request->use.taken)
                mr_endpoints_give(&client->endpoints, &request->use, end, mr_core_clock_ms(), mr_core_random());
        else
                mr_endpoints_note(&client->endpoints, request->use.index, end, mr_core_clock_ms(), mr_core_random());
        pthread_mutex_unlock(&client->lock);
}

static bool request_endpoint_avoided(const struct mr_request *request)
{
        struct mr_client *client = request->client;
        bool avoided;

        pthread_mutex_lock(&client->lock);
        avoided = mr_endpoint_avoided(&client->endpoints.at[request->use.index], mr_core_clock_ms());
        pthread_mutex_unlock(&client->lock);
        return avoided;
}

/* After a failure: the next attempt should go elsewhere. True: it can go where none has been. */
static bool request_mark_tried(struct mr_request *request)
{
        unsigned all = (1u << request->client->endpoints.count) - 1, this = 1u << request->use.index;

        if (!request_chooses(request))
                return false;
        request->tried |= this;
        if (request->tried != all)
                return true;
        request->tried = this;
        return false;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void request_end(struct mr_request *request, int rv)
{
        struct mr_client *client = request->client;

        request_give_endpoint(request, MR_ENDPOINT_UNKNOWN);
        mr_composed_free(&request->attempt->wire);
        free(request->attempt);
        request->attempt = NULL;
        request->done(request->done_arg, request, rv);
        mr_core_leave(client);
}

/* Before an attempt. */
static void request_fail(struct mr_request *request, int rv)
{
        request_end(request, mr_request_doubt(request, &request->error) ? -EIO : rv);
}

static void request_canceled(struct mr_request *request)
{
        request_end(request, mr_failure(&request->error, -ECANCELED, "canceled"));
}

/* ---- before an attempt ----------------------------------------------------------------------- */

static int request_prepare(struct mr_request *request)
{
        int rv;

        mr_composed_free(&request->attempt->wire);
        memset(&request->error, 0, sizeof(request->error));
        request_take_endpoint(request);
        rv = mr_compose(request->client, request, &request->attempt->wire);
        if (rv != 0 && request->error.code == 0)
                mr_failure_errno(&request->error, rv);
        return rv;
}

static void prepare_job(void *arg)
{
        struct mr_request *request = MR_CAST(mr_request, arg);
        int rv = mr_request_stopped(request) ? mr_failure(&request->error, -ECANCELED, "canceled")
                                             : request_prepare(request);

        if (rv != 0)
                request_fail(request, rv);
        else
                mr_request_queue_add(request->client, request);
}

static void prepare_elsewhere(struct mr_request *request)
{
        request->job = (struct mr_job){.run = prepare_job, .arg = request};
        mr_work(request->client, &request->job);
}

int mr_request_start(struct mr_client *client, struct mr_request *request)
{
        int rv = mr_core_enter(client);

        if (rv != 0)
                return mr_failure(&request->error, rv, "the client was made before a fork");
        request->magic = mr_request_magic;
        request->client = client;
        request->events = &request_events;
        request->number = 1;
        request->sends = 0;
        if (mr_request_stopped(request)) {
                rv = mr_failure(&request->error, -ECANCELED, "canceled");
                goto err_leave;
        }
        request->attempt = calloc(1, sizeof(*request->attempt));
        rv = request->attempt != NULL ? mr_request_queue_prepare(client) : -ENOMEM;
        if (rv != 0) {
                mr_failure_errno(&request->error, rv);
                goto err_free;
        }
        if (mr_compose_waits(client, request)) {
                prepare_elsewhere(request);
                return 0;
        }
        rv = request_prepare(request);
        if (rv != 0)
                goto err_free;
        mr_request_queue_add(client, request);
        return 0;

err_free:
        request_give_endpoint(request, MR_ENDPOINT_UNKNOWN);
        if (request->attempt != NULL)
                mr_composed_free(&request->attempt->wire);
        free(request->attempt);
        request->attempt = NULL;
err_leave:
        mr_core_leave(client);
        return rv;
}

/*
 * While it waited for its turn its endpoint may have failed others. A body that would have to be
 * read again goes there all the same.
 */
static int request_begin(struct mr_request *request)
{
        int rv;

        if (!request->use.taken || !request_endpoint_avoided(request) || mr_compose_waits(request->client, request))
                return 0;
        request_give_endpoint(request, MR_ENDPOINT_UNKNOWN);
        rv = request_prepare(request);
        request->attempt->rv = rv;
        return rv;
}

static void request_ready_again(struct mr_request *request)
{
        int rv = request->again != NULL ? request->again(request->sink_arg, request) : 0;

        if (rv != 0) {
                request_fail(request, mr_failure_errno(&request->error, rv));
        } else if (mr_compose_waits(request->client, request)) {
                prepare_elsewhere(request);
        } else {
                prepare_job(request);
        }
}

/* ---- after an attempt ------------------------------------------------------------------------ */

static uint32_t retry_after(const struct mr_response *response)
{
        const char *value = mr_response_header(response, "retry-after");
        uint64_t seconds;

        return value != NULL && s3_parse_uint(s3_str_of(value), 3600, &seconds) == 0 ? (uint32_t)seconds : 0;
}

/*
 * 0: a 2xx answer, and what it brought is right. Otherwise error says what went wrong and class
 * whether to try again.
 */
static int request_classify(struct mr_request *request, CURLcode code, enum mr_retry *class)
{
        struct mr_attempt *attempt = request->attempt;
        struct mr_error *err = &request->error;
        int rv;

        *class = MR_RETRY_NO;
        if (attempt->rv != 0)
                return mr_failure_errno(err, attempt->rv);
        if (code == CURLE_OK && request->response.status >= 200 && request->response.status < 300) {
                rv = request->check != NULL ? request->check(request->sink_arg, &request->response, err) : 0;
                if (rv == -EBADMSG || rv == -EAGAIN) {
                        *class = MR_RETRY_SOON;
                        (void)request_mark_tried(request);
                }
                return rv;
        }
        rv = code != CURLE_OK ? mr_attempt_failure(attempt, code, err) : mr_failure_of_answer(&request->response, err);
        if (rv == -ECANCELED)
                return rv;
        *class = mr_retry_class(code, request->response.status, err->s3_code);
        if (*class == MR_RETRY_SOON || *class == MR_RETRY_SLOWER)
                (void)request_mark_tried(request);
        else if (code == CURLE_PEER_FAILED_VERIFICATION && request_mark_tried(request))
                *class = MR_RETRY_SOON; /* nothing was sent, and the next one has a certificate of its own */
        if (*class == MR_RETRY_CREDENTIALS && request->session == NULL) {
                /* once: whoever is refused with new ones, too, is refused */
                *class = !request->renewed && mr_creds_refused(request->client->creds, request->key_generation)
                                 ? MR_RETRY_SOON
                                 : MR_RETRY_NO;
                request->renewed = true;
        }
        return rv;
}

/*
 * Whether the server said itself that it has not done what was asked. One that takes it for a
 * repetition does not say so; one that does not know it (501) does.
 */
static bool request_was_refused(const struct mr_request *request, CURLcode code)
{
        int status = request->response.status;

        return code == CURLE_OK && request->attempt->rv == 0 && ((status >= 300 && status < 500) || status == 501) &&
               strcmp(request->error.s3_code, "RDMARequestRepeated") != 0;
}

/*
 * What the attempt's failure is worth after those before it, curl's own copies included; 0: it did
 * not fail. Notes for those behind it whether this one is in doubt.
 */
static int request_doubt(struct mr_request *request, CURLcode code, int rv)
{
        if (request->sends > 1)
                request->in_doubt = true;
        if (rv == 0)
                return 0;
        if (mr_request_doubt(request, &request->error))
                rv = -EIO;
        if (request->sends > 0 && !request_was_refused(request, code))
                request->in_doubt = true;
        return rv;
}

/*
 * What an attempt says about its endpoint. Nothing, where the answer says that one bucket's pool is
 * not served at present: any other endpoint of the cluster would have to say the same.
 */
static enum mr_endpoint_end request_endpoint_end(const struct mr_request *request, CURLcode code)
{
        const struct mr_response *response = &request->response;
        const char *what = response->status == 503 ? mr_response_header(response, "x-millrace-unavailable") : NULL;

        if (request->attempt->rv != 0 || (what != NULL && strcmp(what, "pool") == 0))
                return MR_ENDPOINT_UNKNOWN;
        return mr_retry_endpoint(code, response->status, request->error.s3_code);
}

static void request_over(struct mr_request *request, struct mr_loop *loop, CURLcode code)
{
        unsigned most = request->once || request->single ? 1 : request->client->settings.attempts;
        enum mr_retry class;
        int rv = request_classify(request, code, &class);
        uint32_t pause_ms;

        rv = request_doubt(request, code, rv);
        request_give_endpoint(request, request_endpoint_end(request, code));
        if (rv == 0 || (request->once && request->error.http_status != 0)) {
                request_end(request, 0);
                return;
        }
        if (request->progress != NULL)
                request->progress(request->progress_arg, -(int64_t)request->attempt->sent);
        request->may_pass = class != MR_RETRY_NO;
        if (class == MR_RETRY_NO || request->number >= most) {
                request_end(request, rv);
                return;
        }
        request->number++;
        pause_ms = mr_retry_delay_ms(class, request->number, mr_core_random(), retry_after(&request->response));
        request->sends = 0;
        request->attempt->sent = 0;
        request->attempt->curl_text[0] = '\0';
        mr_response_clear(&request->response);
        mr_loop_pause(loop, request, pause_ms);
}

static const struct mr_request_events request_events = {
        .begin = request_begin,
        .over = request_over,
        .ready_again = request_ready_again,
        .canceled = request_canceled,
};

/* ---- waiting for one ------------------------------------------------------------------------- */

static void request_pause_over(void *arg, struct mr_request *request, int rv)
{
        mr_wait_tell(arg, rv);
}

int mr_request_run(struct mr_client *client, struct mr_request *request, struct mr_response *response,
                   struct mr_error *err)
{
        struct mr_wait wait = MR_WAIT_INIT;
        int rv;

        request->done = request_pause_over;
        request->done_arg = &wait;
        rv = mr_request_start(client, request);
        if (rv == 0)
                rv = mr_wait_for(&wait);
        *response = request->response;
        memset(&request->response, 0, sizeof(request->response));
        if (err != NULL)
                *err = request->error;
        return rv;
}
