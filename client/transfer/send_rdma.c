/*
 * send_rdma.c - bodies that the server reads by RDMA (docs/rdma-protocol.md, "PUT"): a grant that
 * lets it read the place, and a PUT that names it. Bytes that are not registered, or lie in a file,
 * are copied to a slot of the bounce pool first, and the server compares them with the checksum
 * that is sent along.
 *
 * done() is called when the grant has ended: nobody reads the memory any more. Steps follow one
 * another, on the connection's thread, loops and workers; no two at a time. Bounds (I9): attempts,
 * pauses, the session's limits, slots.
 */
#include "client/http/compose.h"
#include "client/http/retry.h"
#include "client/rdma/memory.h"
#include "client/rdma/rdma_context.h"
#include "client/transfer/plan.h"
#include "client/transfer/send.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define AUTO_ATTEMPTS 2u

static void send_rdma_attempt(struct mr_send *send);

/* The request is the caller's again. */
static void restore(struct mr_send *send)
{
        struct mr_request *request = send->request;

        if (send->bounced)
                mr_bounce_put(send->client->rdma->bounce, &send->bounce);
        request->header_count = send->headers;
        request->session = NULL;
        request->single = false;
        request->by_window = false;
        request->check = NULL; /* what has a body to send asks nothing of the answer's */
        request->sink_arg = NULL;
        request->done = send->done;
        request->done_arg = send->done_arg;
        explicit_bzero(&send->grant.key, sizeof(send->grant.key));
}

static void send_rdma_finish(struct mr_send *send, int rv)
{
        struct mr_request *request = send->request;

        restore(send);
        send->carried = rv == 0 ? MR_TRANSPORT_RDMA : MR_TRANSPORT_AUTO;
        if (rv != 0 && request->error.code == 0)
                mr_failure_errno(&request->error, rv);
        if (rv != 0 && mr_request_doubt(request, &request->error))
                rv = -EIO;
        if (rv == 0 && request->progress != NULL)
                request->progress(request->progress_arg, (int64_t)request->len);
        request->done(request->done_arg, request, rv);
}

static void send_rdma_go_tcp(struct mr_send *send)
{
        struct mr_request *request = send->request;
        struct mr_client *client = send->client;
        int rv;

        restore(send);
        send->carried = MR_TRANSPORT_TCP;
        mr_response_free(&request->response);
        request->hashed = false; /* a body that is sent is signed, too */
        rv = mr_request_start(client, request);
        if (rv != 0)
                request->done(request->done_arg, request, rv);
}

static bool send_rdma_has_body(const struct mr_send *send)
{
        return send->buffer == NULL || send->buffer->memory != NULL;
}

/* What TCP would answer, too. */
static bool send_rdma_is_final(const struct mr_send *send, int rv)
{
        int status = send->request->error.http_status;

        return rv == -ECANCELED || (status >= 400 && status < 500 && status != 403 && status != 409 && status != 400);
}

static void send_rdma_retry_or_fail(struct mr_send *send, int rv, bool may_pass)
{
        struct mr_request *request = send->request;
        unsigned most = send->insist ? send->client->settings.attempts : AUTO_ATTEMPTS;

        if (send_rdma_is_final(send, rv)) {
                send_rdma_finish(send, rv);
        } else if (may_pass && !send->declined && send->attempts < most) {
                send->grant.delay_ms =
                        mr_retry_delay_ms(request->error.http_status == 503 ? MR_RETRY_SLOWER : MR_RETRY_SOON,
                                          send->attempts + 1, mr_core_random(), 0);
                send_rdma_attempt(send);
        } else if (send_rdma_has_body(send) && (send->declined || !send->insist)) {
                send_rdma_go_tcp(send);
        } else {
                send_rdma_finish(send, rv);
        }
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void send_rdma_grant_ended(void *arg, struct mr_grant *grant, int rv)
{
        struct mr_send *send = MR_CAST(mr_send, arg);

        if (send->rv == 0)
                send_rdma_finish(send, 0); /* all was read and stored when the answer was given */
        else
                send_rdma_retry_or_fail(send, send->rv, send->request->may_pass || rv != 0);
}

static bool send_rdma_header_is(const struct mr_response *response, const char *name, const char *value)
{
        const char *text = mr_response_header(response, name);

        return text != NULL && strcmp(text, value) == 0;
}

/* That it read them all, and no less. */
static int send_rdma_check_answer(void *arg, const struct mr_response *response, struct mr_error *err)
{
        const struct mr_send *send = MR_CAST(mr_send, arg);
        const char *text = mr_response_header(response, "x-millrace-rdma-bytes");
        uint64_t bytes;

        if (send_rdma_header_is(response, "x-millrace-transport", "rdma") && text != NULL &&
            s3_parse_uint(s3_str_of(text), INT64_MAX, &bytes) == 0 && bytes == send->request->len)
                return 0;
        return mr_failure(err, -EPROTO, "the endpoint's answer does not say that it read the bytes by RDMA");
}

/* As of a GET that failed: may somebody read yet? */
static enum mr_grant_end send_rdma_failure(const struct mr_send *send)
{
        const struct mr_request *request = send->request;

        if (!request->went_out)
                return MR_LEASE_QUIET;
        if (send->rv == -ECANCELED)
                return MR_LEASE_UNWANTED;
        if (request->sends > 1 || strcmp(request->error.s3_code, "RDMARequestRepeated") == 0 ||
            strcmp(request->error.s3_code, "InvalidAccessKeyId") == 0)
                return MR_LEASE_DOUBT;
        return send_rdma_header_is(&request->response, "x-millrace-rdma-posted", "none") ? MR_LEASE_QUIET
                                                                                         : MR_LEASE_DOUBT;
}

static void send_rdma_answered(void *arg, struct mr_request *request, int rv)
{
        struct mr_send *send = MR_CAST(mr_send, arg);

        send->rv = rv;
        send->declined = strcmp(request->error.s3_code, "RDMADeclined") == 0;
        mr_grant_over(&send->grant, rv == 0 ? MR_LEASE_QUIET : send_rdma_failure(send));
}

/* ---- the request ----------------------------------------------------------------------------- */

static void send_rdma_granted(void *arg, struct mr_grant *grant, int rv)
{
        struct mr_send *send = MR_CAST(mr_send, arg);
        struct mr_request *request = send->request;

        send->rv = rv;
        if (rv != 0) {
                request->error = grant->error;
                request->error.http_status = 0; /* it was not this request that was answered so */
                send_rdma_retry_or_fail(send, rv, mr_grant_may_pass(send->client, grant, rv));
                return;
        }
        snprintf(send->number, sizeof(send->number), "%llu", (unsigned long long)grant->number);
        rdx_window_span_print(&grant->place, send->place);
        mr_response_free(&request->response);
        request->header_count = send->headers;
        mr_request_header(request, "x-millrace-rdma-session", grant->key.id);
        mr_request_header(request, "x-millrace-rdma-request", send->number);
        mr_request_header(request, "x-millrace-rdma-window", send->place);
        request->session = &grant->key;
        request->single = true;
        request->by_window = true;
        request->went_out = false;
        request->check = send_rdma_check_answer;
        request->sink_arg = send;
        request->done = send_rdma_answered;
        request->done_arg = send;
        rv = mr_request_start(send->client, request);
        if (rv == 0)
                return;
        send->rv = rv;
        mr_grant_over(grant, MR_LEASE_QUIET);
}

static void send_rdma_attempt(struct mr_send *send)
{
        int rv;

        send->attempts++;
        rv = mr_grant_ask(send->client, &send->grant);
        if (rv != 0)
                send_rdma_finish(send, mr_failure_errno(&send->request->error, rv));
}

/* On a worker: reading a file takes its time. */
static void fill_slot(void *arg)
{
        struct mr_send *send = MR_CAST(mr_send, arg);
        struct mr_buffer *buffer = mr_bounce_buffer(send->client->rdma->bounce);
        uint64_t at = 0, offset = mr_bounce_offset(&send->bounce);
        ssize_t n = 0;

        while (at < send->request->len) {
                n = mr_body_read(send->request, at, buffer->memory + offset + at, (size_t)(send->request->len - at));
                if (n < 0)
                        break;
                at += (uint64_t)n;
        }
        send->grant.buffer = buffer;
        send->grant.offset = offset;
        if (n < 0)
                send_rdma_finish(send, mr_failure_errno(&send->request->error, (int)n));
        else
                send_rdma_attempt(send);
}

static void send_rdma_have_slot(void *arg)
{
        struct mr_send *send = MR_CAST(mr_send, arg);

        send->job = (struct mr_job){.run = fill_slot, .arg = send};
        mr_work(send->client, &send->job);
}

static bool send_rdma_suits_rdma(struct mr_client *client, const struct mr_send *send)
{
        if (send->request->len == 0)
                return false;
        if (send->transport == MR_TRANSPORT_RDMA)
                return send->buffer != NULL || send->request->len <= MR_BOUNCE_SLOT;
        if (!send_rdma_has_body(send))
                return true;
        return send->transport == MR_TRANSPORT_AUTO && send->buffer != NULL && send->request->len >= MR_RDMA_LEAST &&
               mr_rdma_context_refused(client, MR_CONNECTION_HOST, NULL) == 0;
}

int mr_send_start(struct mr_client *client, struct mr_send *send)
{
        struct mr_request *request = send->request;
        int rv;

        send->carried = MR_TRANSPORT_TCP;
        if (!send_rdma_suits_rdma(client, send)) {
                if (!send_rdma_has_body(send) && request->len > 0)
                        return mr_failure(&request->error, -EOPNOTSUPP, "only RDMA reaches this memory");
                return mr_request_start(client, request);
        }
        send->magic = mr_send_magic;
        send->client = client;
        send->insist = send->transport == MR_TRANSPORT_RDMA || !send_rdma_has_body(send);
        send->done = request->done;
        send->done_arg = request->done_arg;
        send->headers = request->header_count;
        send->grant = (struct mr_grant){.buffer = send->buffer,
                                        .offset = send->buffer_at,
                                        .len = request->len,
                                        .read = true,
                                        .insist = send->insist,
                                        .stop = request->stop,
                                        .canceled = request->canceled,
                                        .granted = send_rdma_granted,
                                        .ended = send_rdma_grant_ended,
                                        .arg = send};
        if (send->buffer != NULL) {
                send_rdma_attempt(send);
                return 0;
        }
        send->bounced = true;
        send->bounce.ready = send_rdma_have_slot;
        send->bounce.arg = send;
        rv = mr_bounce_take(client->rdma->bounce, &send->bounce);
        if (rv == 0)
                send_rdma_have_slot(send);
        return rv < 0 ? mr_failure_errno(&request->error, rv) : 0;
}
