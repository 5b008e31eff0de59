/*
 * reply.c - answers: headers, buffers, error documents, and the library's response made of them.
 *
 * Called by the operations and by http.c, on the request's loop. An answer is prepared once; making
 * it wakes a suspended connection, and the library's next call queues it. I9: the memory of blocks
 * in flight is bounded by choosing smaller blocks as streams grow in number.
 */
#include "gateway/http/reply.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "gateway/http/budget.h"
#include "gateway/http/error_page.h"
#include "gateway/http/http_request.h"
#include "gateway/http/stream.h"

#define HEADERS_FIRST 24u
#define ERROR_DOC_MAX (64u << 10)
#define NO_VALUE " " /* the library refuses ""; who reads takes blanks off */
#define SERVER_NAME "millrace"

#define NOT_REACHED "Too few drives of the pool that this is about answer now, or nobody leads it. Please try again."
#define NOT_CURRENT "Another node may lead the pool that this is about, so what this one knows may be old. Please try again."

bool gw_answered(const struct gw_request *req)
{
        return req->answer.status != 0;
}

/* ---- headers --------------------------------------------------------------------------------- */

void gw_reply_header(struct gw_request *req, const char *name, const char *value)
{
        struct gw_answer *a = &req->answer;

        if (value == NULL || a->header_count == GW_ANSWER_HEADERS)
                return;
        if (a->header_count == a->header_room) {
                unsigned room = a->header_room == 0 ? HEADERS_FIRST : GW_ANSWER_HEADERS;
                struct gw_answer_header *more = gw_alloc(req, room * sizeof(*more));

                if (more == NULL)
                        return;
                if (a->header_count > 0)
                        memcpy(more, a->headers, a->header_count * sizeof(*more));
                a->headers = more;
                a->header_room = room;
        }
        a->headers[a->header_count++] = (struct gw_answer_header){name, value};
}

void gw_reply_header_str(struct gw_request *req, const char *name, struct s3_str value)
{
        gw_reply_header(req, name, gw_copy(req, value));
}

void gw_reply_header_uint(struct gw_request *req, const char *name, uint64_t value)
{
        char digits[21];
        unsigned at = sizeof(digits);

        do {
                digits[--at] = (char)('0' + value % 10);
                value /= 10;
        } while (value != 0);
        gw_reply_header_str(req, name, (struct s3_str){digits + at, sizeof(digits) - at});
}

/* ---- kinds of answers ------------------------------------------------------------------------ */

/* The answer is complete: the request moves on, now or when the library calls again. */
static void reply_finish(struct gw_request *req, unsigned status)
{
        assert(req->answer.status == 0);
        req->answer.status = status;
        if (req->state == GW_RUN)
                gw_request_move(req, GW_ANSWER);
        gw_request_wake(req);
}

void gw_reply_empty(struct gw_request *req, unsigned status)
{
        req->answer.body = GW_ANSWER_EMPTY;
        reply_finish(req, status);
}

void gw_reply_buffer(struct gw_request *req, unsigned status, char *buffer, size_t len)
{
        if (!gw_answer_book(req, len)) {
                free(buffer);
                req->answer.header_count = 0;
                gw_reply_error(req, S3_ERR_SLOW_DOWN, NULL);
                return;
        }
        gw_answer_fits(req, len);
        req->answer.body = GW_ANSWER_BUFFER;
        req->answer.buffer = buffer;
        req->answer.size = len;
        reply_finish(req, status);
}

void gw_reply_kept(struct gw_request *req, unsigned status, const void *bytes, size_t len, void *kept)
{
        req->answer.body = GW_ANSWER_KEPT;
        req->answer.bytes = bytes;
        req->answer.kept = kept;
        req->answer.size = len;
        reply_finish(req, status);
}

/*
 * A document has grown by doubling; what is sent slowly should hold what it needs, and no more than
 * is booked.
 */
static char *fitted(char *text, size_t len)
{
        char *less = len > GW_UNCOUNTED ? realloc(text, len) : NULL;

        return less != NULL ? less : text;
}

void gw_reply_xml(struct gw_request *req, unsigned status, struct s3_xml *xml)
{
        char *text;
        size_t len;
        int rv = s3_xml_take(xml, &text, &len);

        if (rv != 0) {
                s3_xml_free(xml);
                gw_reply_errno(req, rv == -ENOMEM ? -ENOMEM : -EIO, GW_ABOUT_KEY);
                return;
        }
        gw_reply_header(req, "Content-Type", "application/xml");
        gw_reply_buffer(req, status, fitted(text, len), len);
}

void gw_reply_stream(struct gw_request *req, unsigned status, uint64_t size)
{
        req->answer.body = GW_ANSWER_STREAM;
        req->answer.size = size;
        req->answer.reader = gw_stream_read;
        reply_finish(req, status);
}

void gw_reply_chunks(struct gw_request *req, unsigned status,
                     ssize_t (*reader)(void *cls, uint64_t pos, char *buf, size_t max))
{
        req->answer.body = GW_ANSWER_STREAM;
        req->answer.size = MHD_SIZE_UNKNOWN;
        req->answer.reader = reader;
        reply_finish(req, status);
}

void gw_reply_length(struct gw_request *req, unsigned status, uint64_t size)
{
        req->answer.body = GW_ANSWER_LENGTH_ONLY;
        req->answer.size = size;
        reply_finish(req, status);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/*
 * What the client asked for, as the error document shows it: the raw path, with a sub-resource that
 * is not there.
 */
static struct s3_str resource_of(struct gw_request *req)
{
        if (req->refused_query.data != NULL)
                return s3_str_of(gw_printf(req, "%.*s?%.*s", (int)req->cut.path.len, req->cut.path.data,
                                           (int)req->refused_query.len, req->refused_query.data));
        if (req->cut.path.data != NULL)
                return req->cut.path;
        return req->target;
}

static const char *error_type(const struct gw_request *req)
{
        return req->site ? "text/html; charset=utf-8" : "application/xml";
}

static int error_text(struct gw_request *req, enum s3_error error, const char *message, const char *extra, char **text,
                      size_t *len)
{
        struct s3_xml xml;
        int rv;

        if (req->site)
                return gw_error_page(req, error, message, extra, text, len);
        s3_xml_init(&xml, ERROR_DOC_MAX);
        s3_xml_error(&xml, error, message, resource_of(req), req->id,
                     s3_str_of(gw_printf(req, "%s<HostId>%s</HostId>", extra != NULL ? extra : "",
                                         req->loop->gw->host_id)));
        rv = s3_xml_take(&xml, text, len);
        if (rv != 0)
                s3_xml_free(&xml);
        return rv;
}

void gw_reply_error_extra(struct gw_request *req, enum s3_error error, const char *message, const char *extra)
{
        const struct s3_error_info *info = s3_error_info(error);
        char *text = NULL;
        size_t len = 0;

        if (gw_answered(req))
                return;
        req->answer.error_code = info->code;
        if (error != S3_ERR_NOT_MODIFIED) {
                gw_reply_header(req, "Content-Type", error_type(req));
                if (req->site)
                        gw_error_page_headers(req, error, message);
                if (!req->is_head)
                        error_text(req, error, message, extra != NULL ? extra : gw_detail_of(req, error), &text, &len);
        }
        if (text != NULL && !gw_answer_book(req, len)) {
                free(text); /* its status says the most of it */
                text = NULL;
        }
        /* Only now: the message may be a text of what is released. */
        gw_request_release(req);
        if (text != NULL)
                gw_reply_buffer(req, info->status, text, len);
        else
                gw_reply_empty(req, info->status);
}

void gw_reply_error(struct gw_request *req, enum s3_error error, const char *message)
{
        gw_reply_error_extra(req, error, message, NULL);
}

/* Of several pools: requests for others are served here, so this says nothing of the endpoint. */
static void pool_unavailable(struct gw_request *req)
{
        if (!gw_pool_alone(req->loop->gw) && gw_pool_answers(req->loop->gw))
                gw_reply_header(req, "x-millrace-unavailable", "pool");
}

void gw_reply_errno(struct gw_request *req, int rv, enum gw_about about)
{
        if (rv == -EHOSTDOWN && !gw_answered(req))
                pool_unavailable(req);
        gw_reply_error(req, gw_error_of(rv, about), rv == -EHOSTDOWN ? NOT_REACHED : NULL);
}

void gw_reply_no_memory(struct gw_request *req)
{
        gw_reply_errno(req, -ENOMEM, GW_ABOUT_KEY);
}

/* ---- towards the library --------------------------------------------------------------------- */

/* Bytes of one block of a streamed answer: large while few stream, small when thousands do. */
static size_t block_size(const struct gw_loop *loop)
{
        if (loop->streams < 128)
                return 256u << 10;
        return loop->streams < 1024 ? 64u << 10 : 16u << 10;
}

static ssize_t never_read(void *cls, uint64_t pos, char *buf, size_t max)
{
        return MHD_CONTENT_READER_END_WITH_ERROR;
}

static struct MHD_Response *make_response(struct gw_request *req)
{
        struct gw_answer *a = &req->answer;
        struct MHD_Response *response = NULL;

        switch (a->body) {
        case GW_ANSWER_EMPTY:
                response = MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
                break;
        case GW_ANSWER_BUFFER:
                response = MHD_create_response_from_buffer_with_free_callback(a->size, a->buffer, free);
                if (response != NULL)
                        a->buffer = NULL;
                req->bytes_out = a->size;
                break;
        case GW_ANSWER_KEPT: /* the library only reads it */
                response = MHD_create_response_from_buffer_with_free_callback_cls(a->size, (void *)a->bytes,
                                                                                  eng_kept_release, a->kept);
                if (response != NULL)
                        a->kept = NULL;
                req->bytes_out = a->size;
                break;
        case GW_ANSWER_STREAM:
                response = MHD_create_response_from_callback(a->size, block_size(req->loop), a->reader, req, NULL);
                if (response != NULL) {
                        req->streaming = true;
                        req->loop->streams++;
                }
                break;
        case GW_ANSWER_LENGTH_ONLY:
                response = MHD_create_response_from_callback(a->size, 1, never_read, NULL, NULL);
                break;
        }
        return response;
}

static bool add_headers(const struct gw_request *req, struct MHD_Response *response)
{
        const struct gw_answer *a = &req->answer;
        bool ok = MHD_add_response_header(response, "Server", SERVER_NAME) == MHD_YES &&
                  MHD_add_response_header(response, "x-amz-request-id", req->id) == MHD_YES &&
                  MHD_add_response_header(response, "x-amz-id-2", req->loop->gw->host_id) == MHD_YES;

        /*
         * What the library took for the end of a chunked body may have been another's idea of its
         * middle: nothing follows it here.
         */
        if (req->closing || req->chunked || req->loop->draining ||
            atomic_load_explicit(&req->loop->gw->shedding, memory_order_relaxed))
                ok = ok && MHD_add_response_header(response, "Connection", "close") == MHD_YES;
        /* A value the library refuses (none should be left) is not worth the answer. */
        for (unsigned i = 0; i < a->header_count; i++)
                MHD_add_response_header(response, a->headers[i].name,
                                        a->headers[i].value[0] != '\0' ? a->headers[i].value : NO_VALUE);
        return ok;
}

/* Another process may lead a pool that this is about: what is said here of buckets and users may be old. */
static void unsay(struct gw_request *req)
{
        struct gw_answer *a = &req->answer;
        char *text = NULL;
        size_t len = 0;

        if (a->status >= 500 || gw_answer_is_current(req))
                return;
        free(a->buffer);
        a->status = 503;
        a->error_code = "ServiceUnavailable";
        a->header_count = 0;
        pool_unavailable(req);
        if (!req->is_head)
                error_text(req, S3_ERR_SERVICE_UNAVAILABLE, NOT_CURRENT, NULL, &text, &len);
        if (text != NULL)
                gw_reply_header(req, "Content-Type", error_type(req));
        a->body = text != NULL ? GW_ANSWER_BUFFER : GW_ANSWER_EMPTY;
        a->buffer = text;
        a->size = len;
}

bool gw_reply_queue(struct gw_request *req)
{
        struct MHD_Response *response;
        bool ok;

        unsay(req);
        response = make_response(req);
        if (response == NULL)
                return false;
        req->loop->gw->service->last_headers(req);
        ok = add_headers(req, response);
        gw_request_move(req, GW_SENDING);
        req->answered_ns = req->state_ns;
        lp_trace_at(req->state_ns, LP_TRACE_HTTP_ANSWER, req->answer.status, req->answer.error_code != NULL);
        ok = ok && MHD_queue_response(req->mhd, req->answer.status, response) == MHD_YES;
        MHD_destroy_response(response);
        return ok;
}

/*
 * All of it or a cut: nothing was sent on this request yet, so there is room in an empty socket
 * buffer.
 */
static bool send_tls(struct gw_request *req, const struct iovec *iov)
{
        const union MHD_ConnectionInfo *info =
                MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);

        for (unsigned i = 0; i < 2; i++)
                if (info == NULL || (iov[i].iov_len > 0 && gnutls_record_send(info->tls_session, iov[i].iov_base,
                                                                              iov[i].iov_len) <= 0))
                        return false;
        return true;
}

bool gw_reply_raw(struct gw_request *req)
{
        struct gw_answer *a = &req->answer;
        char head[1024];
        struct iovec iov[2];
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
        bool sent;
        int n;

        unsay(req);
        n = snprintf(head, sizeof(head),
                     "HTTP/1.1 %u %s\r\nServer: " SERVER_NAME "\r\nx-amz-request-id: %s\r\nx-amz-id-2: %s\r\n"
                     "Content-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                     a->status, MHD_get_reason_phrase_for(a->status), req->id, req->loop->gw->host_id, error_type(req),
                     a->body == GW_ANSWER_BUFFER ? (size_t)a->size : 0);
        if (n < 0 || (size_t)n >= sizeof(head))
                return false;
        iov[0] = (struct iovec){head, (size_t)n};
        iov[1] = (struct iovec){a->buffer, a->body == GW_ANSWER_BUFFER ? a->size : 0};
        if (req->conn->listener->tls)
                sent = send_tls(req, iov);
        else
                sent = sendmsg(req->conn->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
        if (!sent)
                return false;
        req->answered_ns = gw_clock_ns();
        req->bytes_out = iov[1].iov_len;
        return true;
}
