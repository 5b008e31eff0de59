/*
 * fetch_rdma.c - gets one range of one version into its place by RDMA: a grant of the place, a GET
 * over HTTP that names it, and the bytes written there by the server (docs/rdma-protocol.md,
 * "GET").
 *
 *   start ─> (slot of the bounce pool) ─> grant ─> GET ─> its answer ─> grant over ─┬─> written: compared with the CRC32C ─> done
 *     ^                                                                            ├─> in the body: came over TCP, done
 *     └───────────────── again, with another number, or over TCP ──────────────────┴─> failed
 *
 * Memory is looked at, and given back, only when the grant has ended: reply and notice are here, or
 * the session was fenced. No byte is called got that was not compared with the CRC32C that the
 * answer names (but those the CPU cannot see, where the caller takes such). Steps follow one
 * another, on the connection's thread, loops and workers; no two at a time. Bounds (I9): attempts,
 * pauses, the session's limits, slots.
 */
#include "client/http/retry.h"
#include "client/rdma/bounce_buffers.h"
#include "client/rdma/memory.h"
#include "client/rdma/rdma_context.h"
#include "client/transfer/fetch.h"
#include "client/transfer/plan.h"
#include "client/base/object_check.h"

#include <errno.h>
#include <linux/dma-buf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define AUTO_ATTEMPTS 2u          /* then TCP, with all of its own */
#define VERIFY_HERE   (64u << 10) /* bytes that the connection's thread sums by the way */

enum outcome { WRITTEN, IN_BODY, FAILED };

struct mr_transfer {
        unsigned magic; /* object_check.h */
        struct mr_client *client;
        struct mr_fetch *fetch;
        struct mr_grant grant;
        struct mr_bounce_wait bounce;
        struct mr_job job;
        bool bounced, insist;
        unsigned attempts;
        uint64_t bytes; /* written */
        enum outcome outcome;
        int rv; /* of the request */
        char number[24], place[RDX_PLACE_TEXT + 1];
};

static void fetch_rdma_attempt(struct mr_transfer *transfer);

/* ---- the end --------------------------------------------------------------------------------- */

static void fetch_rdma_release(struct mr_transfer *transfer)
{
        struct mr_fetch *fetch = transfer->fetch;

        if (transfer->bounced)
                mr_bounce_put(transfer->client->rdma->bounce, &transfer->bounce);
        mr_response_free(&fetch->request.response);
        fetch->transfer = NULL;
        explicit_bzero(&transfer->grant.key, sizeof(transfer->grant.key));
        free(transfer);
}

static void fetch_rdma_finish(struct mr_transfer *transfer, int rv)
{
        struct mr_fetch *fetch = transfer->fetch;

        if (rv != 0 && fetch->error.code == 0)
                mr_failure_errno(&fetch->error, rv);
        fetch->carried = transfer->outcome == WRITTEN ? MR_TRANSPORT_RDMA : MR_TRANSPORT_TCP;
        fetch_rdma_release(transfer);
        s3_sums_free(fetch->sums);
        fetch->sums = NULL;
        fetch->done(fetch->done_arg, fetch, rv);
}

/* Over TCP, from the beginning. */
static void fetch_rdma_go_tcp(struct mr_transfer *transfer)
{
        struct mr_client *client = transfer->client;
        struct mr_fetch *fetch = transfer->fetch;
        int rv;

        fetch_rdma_release(transfer);
        mr_fetch_begin_again(fetch);
        rv = mr_fetch_tcp(client, fetch);
        if (rv == 0)
                return;
        s3_sums_free(fetch->sums);
        fetch->sums = NULL;
        fetch->done(fetch->done_arg, fetch, rv);
}

/* What TCP would answer, too. */
static bool fetch_rdma_is_final(const struct mr_transfer *transfer, int rv)
{
        const struct mr_error *err = &transfer->fetch->error;

        return rv == -ECANCELED || rv == -EMSGSIZE || rv == -EILSEQ || err->http_status == 404 ||
               err->http_status == 412 || err->http_status == 416;
}

static void fetch_rdma_retry_or_fail(struct mr_transfer *transfer, int rv, bool may_pass)
{
        struct mr_fetch *fetch = transfer->fetch;
        unsigned most = transfer->insist ? transfer->client->settings.attempts : AUTO_ATTEMPTS;

        if (fetch_rdma_is_final(transfer, rv)) {
                fetch_rdma_finish(transfer, mr_fetch_explain(fetch, rv));
        } else if (may_pass && transfer->attempts < most) {
                transfer->grant.delay_ms =
                        mr_retry_delay_ms(fetch->error.http_status == 503 ? MR_RETRY_SLOWER : MR_RETRY_SOON,
                                          transfer->attempts + 1, mr_core_random(), 0);
                mr_response_free(&fetch->request.response);
                mr_fetch_begin_again(fetch);
                fetch_rdma_attempt(transfer);
        } else if (!transfer->insist) {
                fetch_rdma_go_tcp(transfer);
        } else {
                fetch_rdma_finish(transfer, mr_fetch_explain(fetch, rv));
        }
}

/* ---- what has come --------------------------------------------------------------------------- */

/* Where the bytes are to be seen; NULL: nowhere. */
static const char *fetch_rdma_received(const struct mr_transfer *transfer)
{
        const struct mr_buffer *buffer = transfer->grant.buffer;
        const char *from = buffer->memory != NULL ? buffer->memory : buffer->view;

        return from != NULL ? from + transfer->grant.offset : NULL;
}

/*
 * The device's caches and ours: a dma-buf is looked at between these two. Other descriptors know no
 * such thing, and need none.
 */
static void fetch_rdma_sync_dma_buf(const struct mr_transfer *transfer, uint64_t flag)
{
        struct dma_buf_sync sync = {.flags = DMA_BUF_SYNC_READ | flag};

        if (transfer->grant.buffer->fd >= 0 && transfer->grant.buffer->view != NULL)
                (void)ioctl(transfer->grant.buffer->fd, DMA_BUF_IOCTL_SYNC, &sync);
}

static void fetch_rdma_verify(struct mr_transfer *transfer)
{
        struct mr_fetch *fetch = transfer->fetch;
        int rv;

        fetch_rdma_sync_dma_buf(transfer, DMA_BUF_SYNC_START);
        rv = mr_fetch_written(fetch, &fetch->request.response, fetch->unseen ? NULL : fetch_rdma_received(transfer),
                              transfer->bytes, &fetch->error);
        fetch_rdma_sync_dma_buf(transfer, DMA_BUF_SYNC_END);
        if (rv == 0)
                fetch_rdma_finish(transfer, 0);
        else
                fetch_rdma_retry_or_fail(transfer, rv, rv == -EBADMSG || rv == -EPROTO);
}

static void verify_job(void *arg)
{
        fetch_rdma_verify(arg);
}

/* The memory is ours again. */
static void fetch_rdma_grant_ended(void *arg, struct mr_grant *grant, int rv)
{
        struct mr_transfer *transfer = MR_CAST(mr_transfer, arg);
        struct mr_fetch *fetch = transfer->fetch;

        if (transfer->outcome == WRITTEN && rv == 0) {
                if (transfer->bytes <= VERIFY_HERE) {
                        fetch_rdma_verify(transfer);
                        return;
                }
                transfer->job = (struct mr_job){.run = verify_job, .arg = transfer};
                mr_work(transfer->client, &transfer->job);
        } else if (transfer->outcome == WRITTEN) {
                mr_failure(&fetch->error, rv == -ENOTCONN ? -EIO : rv,
                           "the RDMA session ended before all bytes were here");
                fetch_rdma_retry_or_fail(transfer, fetch->error.code, true);
        } else if (transfer->outcome == IN_BODY && transfer->rv == 0 && rv == 0) {
                fetch_rdma_finish(transfer, 0);
        } else if (transfer->outcome == IN_BODY && transfer->attempts > 0) {
                if (transfer->rv == -ECANCELED || transfer->rv == -EMSGSIZE || transfer->rv == -EILSEQ)
                        fetch_rdma_finish(transfer, mr_fetch_explain(fetch, transfer->rv));
                else
                        fetch_rdma_go_tcp(transfer); /* it was on its way over TCP anyway */
        } else {
                /*
                 * whoever lost the session by another's fault tries again, whatever the answer said
                 * of that
                 */
                fetch_rdma_retry_or_fail(transfer, transfer->rv, fetch->request.may_pass || rv != 0);
        }
}

/* ---- the answer ------------------------------------------------------------------------------ */

static bool fetch_rdma_header_is(const struct mr_response *response, const char *name, const char *value)
{
        const char *text = mr_response_header(response, name);

        return text != NULL && strcmp(text, value) == 0;
}

static bool in_body(const struct mr_response *response)
{
        return fetch_rdma_header_is(response, "x-millrace-transport", "tcp");
}

/* A body answers only where the answer says that nothing is written. */
static int sink(void *arg, const struct mr_response *response, const void *data, size_t len)
{
        struct mr_fetch *fetch = MR_CAST(mr_fetch, arg);

        if (!in_body(response))
                return -EPROTO;
        if (fetch->memory == NULL && fetch->write == NULL)
                return -EOPNOTSUPP;
        return mr_fetch_sink(arg, response, data, len);
}

static int fetch_rdma_check_answer(void *arg, const struct mr_response *response, struct mr_error *err)
{
        struct mr_fetch *fetch = MR_CAST(mr_fetch, arg);
        const char *text = mr_response_header(response, "x-millrace-rdma-bytes");

        if (in_body(response))
                return mr_fetch_check(arg, response, err);
        if (!fetch_rdma_header_is(response, "x-millrace-transport", "rdma") || text == NULL ||
            s3_parse_uint(s3_str_of(text), fetch->transfer->grant.len, &fetch->transfer->bytes) != 0)
                return mr_failure(err, -EPROTO, "the endpoint's answer does not say how the bytes travelled");
        return 0;
}

/* How much there is, where there was no room for it: as TCP would have told. */
static void note_size(struct mr_transfer *transfer)
{
        struct mr_fetch *fetch = transfer->fetch;
        const char *text = mr_response_header(&fetch->request.response, "x-millrace-rdma-needed");
        uint64_t needed;

        if (text == NULL || s3_parse_uint(s3_str_of(text), INT64_MAX, &needed) != 0 ||
            strcmp(fetch->error.s3_code, "RDMAWindowTooSmall") != 0)
                return;
        if (transfer->bounced && needed <= fetch->room) /* it was our window that was too small, not the place */
                return;
        fetch->info.size = fetch->offset + needed;
        fetch->info_known = true;
        transfer->rv = -EMSGSIZE;
}

/*
 * Of a request that failed: may somebody write yet? docs/rdma-protocol.md, "Errors, timeouts,
 * fencing".
 */
static enum mr_grant_end fetch_rdma_failure(const struct mr_transfer *transfer)
{
        const struct mr_request *request = &transfer->fetch->request;
        const struct mr_response *response = &request->response;

        if (!request->went_out || in_body(response))
                return MR_LEASE_QUIET;
        if (transfer->rv == -ECANCELED)
                return MR_LEASE_UNWANTED;
        /*
         * Repeated: on a connection that had died; what the first of the two does is not known.
         * InvalidAccessKeyId: it knows no such session.
         */
        if (strcmp(request->error.s3_code, "RDMARequestRepeated") == 0 ||
            strcmp(request->error.s3_code, "InvalidAccessKeyId") == 0)
                return MR_LEASE_DOUBT;
        return fetch_rdma_header_is(response, "x-millrace-rdma-posted", "none") ? MR_LEASE_QUIET : MR_LEASE_DOUBT;
}

static void fetch_rdma_answered(void *arg, struct mr_request *request, int rv)
{
        struct mr_transfer *transfer = MR_CAST(mr_transfer, arg);
        const struct mr_response *response = &request->response;
        enum mr_grant_end how;

        transfer->rv = rv;
        transfer->fetch->error = request->error;
        if (in_body(response)) {
                transfer->outcome = IN_BODY;
                how = MR_LEASE_QUIET;
        } else if (rv == 0) {
                transfer->outcome = WRITTEN;
                how = mr_response_header(response, "x-millrace-rdma-notices") != NULL ? MR_LEASE_NOTICED
                                                                                      : MR_LEASE_QUIET;
                if (how == MR_LEASE_QUIET && transfer->bytes > 0) /* bytes whose arrival nobody tells */
                        how = MR_LEASE_DOUBT;
        } else {
                transfer->outcome = FAILED;
                how = fetch_rdma_failure(transfer);
                note_size(transfer);
        }
        /*
         * curl sent it twice: "nothing is posted" speaks of the second copy, and the first may come
         * yet (I7). Not so where the second has written: the endpoint refuses its number afterwards.
         */
        if (how == MR_LEASE_QUIET && request->sends > 1)
                how = MR_LEASE_DOUBT;
        mr_grant_over(&transfer->grant, how);
}

/* ---- the request ----------------------------------------------------------------------------- */

static void fetch_rdma_granted(void *arg, struct mr_grant *grant, int rv)
{
        struct mr_transfer *transfer = MR_CAST(mr_transfer, arg);
        struct mr_fetch *fetch = transfer->fetch;
        struct mr_request *request = &fetch->request;

        transfer->outcome = FAILED;
        transfer->rv = rv;
        if (rv != 0) {
                fetch->error = grant->error;
                fetch->error.http_status = 0; /* it was not this request that was answered so */
                fetch_rdma_retry_or_fail(transfer, rv, mr_grant_may_pass(transfer->client, grant, rv));
                return;
        }
        snprintf(transfer->number, sizeof(transfer->number), "%llu", (unsigned long long)grant->number);
        rdx_window_span_print(&grant->place, transfer->place);
        mr_fetch_request(fetch);
        request->single = true;
        request->session = &grant->key;
        request->sink = sink;
        request->check = fetch_rdma_check_answer;
        request->done = fetch_rdma_answered;
        request->done_arg = transfer;
        mr_request_header(request, "x-millrace-rdma-session", grant->key.id);
        mr_request_header(request, "x-millrace-rdma-request", transfer->number);
        mr_request_header(request, "x-millrace-rdma-window", transfer->place);
        transfer->bytes = 0;
        rv = mr_request_start(transfer->client, request);
        if (rv == 0)
                return;
        transfer->rv = rv;
        fetch->error = request->error;
        mr_grant_over(grant, MR_LEASE_QUIET);
}

static void fetch_rdma_attempt(struct mr_transfer *transfer)
{
        int rv;

        transfer->attempts++;
        rv = mr_grant_ask(transfer->client, &transfer->grant);
        if (rv == 0)
                return;
        mr_failure_errno(&transfer->fetch->error, rv);
        fetch_rdma_finish(transfer, rv);
}

/* Bytes that may come; UINT64_MAX: nobody knows. */
static uint64_t fetch_rdma_limit(const struct mr_fetch *fetch)
{
        uint64_t bound = fetch->last != 0 ? fetch->last : fetch->len;

        return bound < fetch->room || fetch->room == 0 ? bound : fetch->room;
}

static void fetch_rdma_have_slot(void *arg)
{
        struct mr_transfer *transfer = MR_CAST(mr_transfer, arg);

        transfer->grant.buffer = mr_bounce_buffer(transfer->client->rdma->bounce);
        transfer->grant.offset = mr_bounce_offset(&transfer->bounce);
        fetch_rdma_attempt(transfer);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static bool is_dmabuf(const struct mr_fetch *fetch)
{
        return fetch->buffer != NULL && fetch->buffer->fd >= 0;
}

bool mr_fetch_suits_rdma(struct mr_client *client, const struct mr_fetch *fetch)
{
        if (fetch->buffer == NULL || fetch->transport != MR_TRANSPORT_AUTO)
                return false;
        if (is_dmabuf(fetch))
                return true;
        return fetch_rdma_limit(fetch) >= MR_RDMA_LEAST &&
               mr_rdma_context_refused(client, MR_CONNECTION_HOST, NULL) == 0;
}

static int begin_bounced(struct mr_transfer *transfer)
{
        struct mr_rdma_context *context = transfer->client->rdma;
        int rv;

        transfer->bounced = true;
        transfer->bounce.ready = fetch_rdma_have_slot;
        transfer->bounce.arg = transfer;
        rv = mr_bounce_take(context->bounce, &transfer->bounce);
        if (rv == 0)
                fetch_rdma_have_slot(transfer);
        return rv < 0 ? rv : 0;
}

int mr_fetch_rdma(struct mr_client *client, struct mr_fetch *fetch)
{
        struct mr_transfer *transfer;
        uint64_t len = fetch_rdma_limit(fetch);
        int rv = 0;

        if (is_dmabuf(fetch) && fetch->buffer->view == NULL && !fetch->unseen)
                return mr_failure(&fetch->error, -EOPNOTSUPP,
                                  "bytes in this memory cannot be compared with their checksum here; MR_GET_UNVERIFIED "
                                  "takes them as they are");
        if (fetch->buffer == NULL && len > MR_BOUNCE_SLOT)
                return mr_fetch_tcp(client, fetch);
        if (len == 0) /* no room, and no window has no bytes: whether it fits is asked over TCP */
                return mr_fetch_tcp(client, fetch);
        transfer = calloc(1, sizeof(*transfer));
        if (transfer == NULL)
                return mr_failure_errno(&fetch->error, -ENOMEM);
        transfer->magic = mr_transfer_magic;
        transfer->client = client;
        transfer->fetch = fetch;
        transfer->insist = fetch->transport == MR_TRANSPORT_RDMA || is_dmabuf(fetch);
        transfer->grant = (struct mr_grant){.buffer = fetch->buffer,
                                            .offset = fetch->buffer_at,
                                            .len = len,
                                            .insist = transfer->insist,
                                            .stop = fetch->stop,
                                            .canceled = fetch->canceled,
                                            .granted = fetch_rdma_granted,
                                            .ended = fetch_rdma_grant_ended,
                                            .arg = transfer};
        fetch->transfer = transfer;
        if (fetch->buffer == NULL)
                rv = begin_bounced(transfer);
        else
                fetch_rdma_attempt(transfer);
        if (rv != 0) {
                fetch->transfer = NULL;
                free(transfer);
                return mr_failure_errno(&fetch->error, rv);
        }
        return 0;
}
