/*
 * http.c - between libmicrohttpd and the requests.
 *
 * One daemon per listener, driven by the loop through its epoll descriptor (gateway.c). The library
 * calls us on the loop's thread: when a connection opens or closes, when a request line is in, once
 * when a head is in ("first call"), for each piece of body, once when all is in, and when the
 * request is over. What may be done when, measured with 0.9.75:
 *  - An answer queued in the first call closes the connection, and no "100 Continue" goes out. So a refusal before a body is queued there if the
 *    client waits for "100 Continue" or the body is too long to be dropped; otherwise the body is dropped first and the connection stays.
 *  - In the middle of a body nothing can be queued: the rest is dropped (bounded), or the answer is written past the library.
 *  - A suspended connection is in no timeout list and is not watched: conn_sweep.c does that.
 *  - To suspend and resume one takes two epoll_ctl() and a read for nothing, a tenth of what a small GET costs. When all is in and neither an answer
 *    is queued nor the connection suspended, the library comes back in its next round, without sleeping before.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http/access_report.h"
#include "gateway/http/http_request.h"

/*
 * The library counts a connection a little longer than we do (accept.c), and must not refuse the
 * one that comes in its place.
 */
#define CLOSING_MAX 64u

/* ---- refusing -------------------------------------------------------------------------------- */

static bool has_body(const struct gw_request *req)
{
        return req->content_length > 0;
}

/* The answer goes out now, in the first call: the library closes the connection behind it. */
static enum MHD_Result refuse_now(struct gw_request *req)
{
        gw_request_move(req, GW_ANSWER);
        if (has_body(req) || req->closing)
                gw_conn_linger(req->conn);
        return gw_reply_queue(req) ? MHD_YES : MHD_NO;
}

/* The head was refused: an answer is ready. */
static enum MHD_Result refuse_request(struct gw_request *req)
{
        if (req->closing)
                return refuse_now(req);
        if (!has_body(req)) {
                gw_request_move(req, GW_ANSWER); /* queued at the second call, which keeps the connection */
                return MHD_YES;
        }
        if (req->expects_continue || (!req->chunked && req->content_length > GW_DRAIN_BYTES))
                return refuse_now(req);
        gw_request_move(req, GW_DRAIN);
        return MHD_YES;
}

/* The body was refused while it came: an answer is ready. */
static enum MHD_Result refuse_body(struct gw_request *req)
{
        if (req->chunked || req->content_length - req->bytes_in <= GW_DRAIN_BYTES) {
                req->drained = 0;
                gw_request_move(req, GW_DRAIN);
                return MHD_YES;
        }
        gw_conn_answer(req);
        gw_request_move(req, GW_GONE);
        return MHD_NO;
}

/* ---- the calls of one request ---------------------------------------------------------------- */

/* begin() has let the request pass, or has refused it, or waits for the engine. */
static enum MHD_Result begin_over(struct gw_request *req)
{
        if (gw_answered(req))
                return refuse_request(req);
        if (!req->begun) {
                gw_request_wait(req);
                return MHD_YES;
        }
        gw_request_move(req, has_body(req) || gw_carried_upload(req) ? GW_BODY : GW_CHECKED);
        return MHD_YES;
}

static enum MHD_Result first_call(struct gw_request *req, const char *method, const char *version)
{
        req->loop->gw->service->accept(req, method, version);
        if (gw_answered(req))
                return refuse_request(req);
        gw_request_move(req, GW_BEGIN);
        if (req->op->begin != NULL)
                req->op->begin(req);
        else
                req->begun = true;
        return begin_over(req);
}

static enum MHD_Result queue(struct gw_request *req)
{
        return gw_reply_queue(req) ? MHD_YES : MHD_NO;
}

static bool changes_something(const struct gw_request *req)
{
        return strcmp(req->op->method, "GET") != 0 && strcmp(req->op->method, "HEAD") != 0;
}

/* All is in. */
static enum MHD_Result run_request(struct gw_request *req)
{
        enum s3_error error = req->body != NULL ? gw_body_finish(req) : S3_OK;

        if (error != S3_OK) {
                gw_reply_error_extra(req, error, req->body->message, req->body->detail);
                gw_request_move(req, GW_ANSWER);
                return queue(req);
        }
        if (changes_something(req) && gw_conn_gave_up(req->conn)) {
                gw_request_move(req, GW_GONE);
                return MHD_NO;
        }
        gw_request_move(req, GW_RUN);
        req->op->run(req);
        if (gw_answered(req))
                return queue(req);
        if (!req->asking) /* else the library calls again in its next round */
                gw_request_wait(req);
        return MHD_YES;
}

/* Its bytes come by RDMA: woken when they are there, or when it was refused. */
static enum MHD_Result window_call(struct gw_request *req)
{
        if (gw_answered(req)) {
                gw_request_move(req, GW_ANSWER);
                return queue(req);
        }
        if (req->put != NULL)
                return run_request(req);
        gw_request_wait(req);
        return MHD_YES;
}

/*
 * The library takes a lone LF for the end of a chunk's line. What stands between the data of two
 * chunks, or between the place where it reads bodies to and the first data there, are such lines,
 * as far as they came together with the data.
 */
static bool chunk_lines_whole(const struct gw_request *req, const char *data)
{
        const char *at = req->body_seen > req->body_at && req->body_seen <= data ? req->body_seen : req->body_at;

        if (!req->chunked || data < at || data - at > (ptrdiff_t)GW_POOL_BYTES)
                return true;
        for (; at < data; at++)
                if (*at == '\n' && (at == req->body_at || at[-1] != '\r'))
                        return false;
        return true;
}

static enum MHD_Result body_call(struct gw_request *req, const char *data, size_t *len)
{
        size_t offered = *len;
        enum s3_error error;

        if (gw_carried_upload(req))
                return window_call(req);
        if (offered == 0 && req->put != NULL && !eng_put_md5_ready(req->put)) {
                gw_request_wait(req);
                return MHD_YES;
        }
        if (offered == 0)
                return run_request(req);
        if (!chunk_lines_whole(req, data)) {
                req->bytes_in += *len;
                *len = 0;
                gw_reply_error(req, S3_ERR_BAD_REQUEST, "A line of the chunked body does not end in CR LF");
                return refuse_body(req);
        }
        error = gw_body_feed(req, data, len);
        req->body_seen = data + (offered - *len);
        req->bytes_in += offered - *len;
        if (error != S3_OK) {
                req->bytes_in += *len;
                *len = 0;
                if (!gw_answered(req))
                        gw_reply_error_extra(req, error, req->body->message, req->body->detail);
                return refuse_body(req);
        }
        if (*len > 0)
                gw_request_wait(req);
        return MHD_YES;
}

static enum MHD_Result drain_call(struct gw_request *req, size_t *len)
{
        if (*len == 0) {
                gw_request_move(req, GW_ANSWER);
                return queue(req);
        }
        req->bytes_in += *len;
        req->drained += *len;
        *len = 0;
        if (req->drained <= GW_DRAIN_BYTES)
                return MHD_YES;
        gw_conn_answer(req);
        gw_request_move(req, GW_GONE);
        return MHD_NO;
}

static enum MHD_Result serve(struct gw_request *req, const char *method, const char *version, const char *data,
                             size_t *len)
{
        switch (req->state) {
        case GW_LINE:
                return first_call(req, method, version);
        case GW_BEGIN:
                return begin_over(req);
        case GW_BODY:
                return body_call(req, data, len);
        case GW_DRAIN:
                return drain_call(req, len);
        case GW_CHECKED:
                return run_request(req);
        case GW_RUN:
                gw_request_wait(req); /* woken for nothing, or not told yet */
                return MHD_YES;
        case GW_ANSWER:
                return queue(req);
        case GW_SENDING:
        case GW_GONE:
                break;
        }
        return MHD_NO;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                                  const char *version, const char *data, size_t *len, void **ctx)
{
        struct gw_request *req = *ctx;
        enum MHD_Result result;

        if (req == NULL)
                return MHD_NO; /* no memory when its line came */
        assert(req->alive == GW_REQUEST_ALIVE);
        assert(!req->inside);
        req->inside = true;
        lp_trace_set_request(req->number);
        result = serve(req, method, version, data, len);
        req->inside = false;
        return result;
}

/* ---- events of the library ------------------------------------------------------------------- */

static struct gw_conn *mhd_conn(struct MHD_Connection *mhd)
{
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

        return info != NULL ? info->socket_context : NULL;
}

static void *on_line(void *cls, const char *target, struct MHD_Connection *mhd)
{
        struct gw_listener *listener = cls;
        struct gw_conn *conn = mhd_conn(mhd);
        struct gw_request *req;

        if (conn == NULL)
                return NULL;
        req = gw_request_new(listener->loop, target);
        if (req == NULL)
                return NULL;
        req->conn = conn;
        req->mhd = mhd;
        req->raw_target = target;
        conn->request = req;
        return req;
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **ctx, enum MHD_RequestTerminationCode code)
{
        struct gw_request *req = *ctx;

        if (req == NULL)
                return;
        *ctx = NULL;
        assert(req->alive == GW_REQUEST_ALIVE);
        assert(req->conn->request == req);
        gw_access_report(req, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
        req->conn->request = NULL;
        req->conn->broken = req->state == GW_LINE;
        req->conn->since_ns = req->state_ns; /* it has just left its last stage */
        gw_request_free(req);
}

static void conn_opened(struct gw_listener *listener, struct MHD_Connection *mhd, void **context)
{
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        const union MHD_ConnectionInfo *from = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        struct gw_loop *loop = listener->loop;
        struct gw_conn *conn = calloc(1, sizeof(*conn));

        if (conn == NULL)
                return; /* its requests are closed in on_line() */
        conn->listener = listener;
        conn->mhd = mhd;
        conn->fd = info->connect_fd;
        conn->since_ns = gw_clock_ns();
        LIST_INSERT_HEAD(&loop->conns, conn, entry);
        gw_count(&loop->stats.connections_open, 1);
        gw_count(&loop->stats.connections_total, 1);
        gw_guest_enter(conn, from != NULL ? from->client_addr : NULL);
        *context = conn;
}

/*
 * A request that the library refused by itself before its head was in: it never says that this is
 * over.
 */
static void drop_unfinished(struct gw_conn *conn)
{
        struct gw_request *req = conn->request;

        if (req == NULL)
                return;
        conn->request = NULL;
        gw_access_report(req, false);
        gw_request_free(req);
}

static void conn_notified(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
        struct gw_listener *listener = cls;
        struct gw_conn *conn = *context;

        listener->due = true;
        if (code == MHD_CONNECTION_NOTIFY_STARTED) {
                conn_opened(listener, mhd, context);
                return;
        }
        atomic_fetch_sub(&listener->loop->taken, 1);
        gw_accept_resume(listener);
        gw_room_made(listener->loop);
        if (conn != NULL) {
                gw_guest_leave(conn);
                drop_unfinished(conn);
                gw_conn_closing(conn);
                LIST_REMOVE(conn, entry);
                gw_count(&listener->loop->stats.connections_open, (uint64_t)-1);
                free(conn);
                *context = NULL;
        }
}

/*
 * Targets are decoded by s3_uri.h, from the raw text; the library's own decoding is switched off.
 */
static size_t keep_escapes(void *cls, struct MHD_Connection *mhd, char *text)
{
        return strlen(text);
}

/* The library's remarks are about clients' mistakes; the access log has them. */
static void no_log(void *cls, const char *format, va_list args)
{
}

struct MHD_Daemon *gw_http_daemon(struct gw_listener *listener)
{
        const struct gw_limits *limits = &listener->loop->gw->limits;
        unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
                         (listener->tls ? MHD_USE_TLS : 0);
        struct MHD_OptionItem tls[] = {
                {MHD_OPTION_HTTPS_PRIORITIES, (intptr_t)0, (void *)(uintptr_t)listener->loop->gw->tls_priorities},
                {MHD_OPTION_HTTPS_CERT_CALLBACK, (intptr_t)0, gw_tls_callback()},
                {MHD_OPTION_END, 0, NULL},
        };
        struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

        return MHD_start_daemon(flags, 0, NULL, NULL, on_request, listener, MHD_OPTION_EXTERNAL_LOGGER, no_log, NULL,
                                MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)GW_POOL_BYTES, MHD_OPTION_CONNECTION_LIMIT,
                                limits->connections + CLOSING_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
                                (unsigned)((limits->idle_ms + 999) / 1000), MHD_OPTION_URI_LOG_CALLBACK, on_line,
                                listener, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_NOTIFY_COMPLETED,
                                on_completed, listener, MHD_OPTION_NOTIFY_CONNECTION, conn_notified, listener,
                                MHD_OPTION_ARRAY, listener->tls ? tls : none, MHD_OPTION_END);
}
