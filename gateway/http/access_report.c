/*
 * access_report.c - tells the counters and the access log of a request that is over. On its loop; must not
 * block, nor does what it calls.
 */
#include "gateway/http/access_report.h"

#include "gateway/http/operation.h"
#include "gateway/http/trace_context.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#define REMOTE_TEXT (INET6_ADDRSTRLEN + 8)

static const char *remote_text(struct MHD_Connection *mhd, char out[REMOTE_TEXT])
{
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        const struct sockaddr *addr = info != NULL ? info->client_addr : NULL;
        char ip[INET6_ADDRSTRLEN];

        if (addr != NULL && addr->sa_family == AF_INET) {
                const struct sockaddr_in *in = (const struct sockaddr_in *)addr;

                inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
                snprintf(out, REMOTE_TEXT, "%s:%u", ip, ntohs(in->sin_port));
                return out;
        }
        if (addr != NULL && addr->sa_family == AF_INET6) {
                const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

                inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof(ip));
                snprintf(out, REMOTE_TEXT, "[%s]:%u", ip, ntohs(in6->sin6_port));
                return out;
        }
        return NULL;
}

/* Status that went out; the library's own where it answered in our place; 0 where none did. */
static unsigned status_of(const struct gw_request *req)
{
        const union MHD_ConnectionInfo *info;

        if (req->answered_ns != 0)
                return req->answer.status;
        info = MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
        return info != NULL ? info->http_status : 0;
}

/* What the library copies are C strings; ours too, as arena texts end in NUL. */
static const char *text_or_null(struct gw_request *req, struct s3_str s)
{
        return s.len > 0 ? gw_copy(req, s) : NULL;
}

void gw_access_report(struct gw_request *req, bool complete)
{
        struct gw_gateway *gw = req->loop->gw;
        uint64_t now = gw_clock_ns();
        uint64_t total_us = (now - req->started_ns) / 1000;
        unsigned status = status_of(req);
        struct gw_trace_context trace;
        char remote[REMOTE_TEXT];
        struct gw_access line;
        struct gw_ended end;
        bool traced;

        gw_stats_request(&req->loop->stats, gw_op_index(gw->service, req->op), status, req->bytes_in, req->bytes_out, now - req->started_ns);
        gw_request_leaves(req, now);
        lp_trace_set_request(req->number);
        lp_trace_at(now, LP_TRACE_HTTP_END, req->bytes_in, req->bytes_out);
        end = (struct gw_ended){
                .status = status,
                .error_code = req->answer.error_code != NULL || complete ? req->answer.error_code : "ClientGone",
                .total_us = total_us,
                .first_byte_us = req->answered_ns != 0 ? (req->answered_ns - req->started_ns) / 1000 : total_us,
        };
        if (gw->service->ended != NULL)
                gw->service->ended(req, &end);
        if (gw->access == NULL)
                return;
        traced = gw_trace_context_of(req->headers, req->header_count, &trace);
        line = (struct gw_access){
                .time_ms = lp_wall_ms(),
                .request_id = req->id,
                .remote = remote_text(req->mhd, remote),
                .method = text_or_null(req, req->method),
                .target = req->target.data,
                .operation = req->op->name,
                .bucket = text_or_null(req, req->bucket),
                .key = text_or_null(req, req->key),
                .error_code = end.error_code,
                .access_key = req->access_key,
                .user_agent = text_or_null(req, gw_header(req, "User-Agent")),
                .trace_id = traced ? trace.trace_id : NULL,
                .parent_id = traced ? trace.parent_id : NULL,
                .status = status,
                .bytes_in = req->bytes_in,
                .bytes_out = req->bytes_out,
                .total_us = total_us,
                .first_byte_us = end.first_byte_us,
        };
        gw->access(gw->access_arg, &line);
}
