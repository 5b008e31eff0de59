/*
 * gateway_head.h - is the head of an HTTP request one request and no other? For every listener that
 * libmicrohttpd serves.
 *
 * Whatever could make another HTTP implementation see different requests in the same bytes
 * (smuggling) is refused. A listener answers such a request with the error and ends its connection.
 */
#ifndef MILLRACE_GATEWAY_HEAD_H
#define MILLRACE_GATEWAY_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "s3.h"

struct MHD_Connection;

/*
 * All texts are the library's, where it parsed them: their addresses show what lies between them.
 */
struct gw_raw_head {
        struct MHD_Connection *connection;
        const char *target;           /* as MHD_OPTION_URI_LOG_CALLBACK gave it */
        size_t target_len;            /* which is what it was then */
        const char *method, *version; /* as the handler's first call gave them */
        const struct s3_header *headers;
        size_t header_count;
};

/* Where the request's body begins, and how its end is known. */
struct gw_framing {
        const char *body_at;
        bool http10, chunked, expects_continue;
        uint64_t content_length; /* S3_LENGTH_UNKNOWN when chunked, 0 when there is no body */
};

/* Collects the header fields of a request. False: there are more than max. */
bool gw_head_fields(struct MHD_Connection *connection, struct s3_header *headers, size_t max, size_t *count);

/*
 * Checks the head in the handler's first call. S3_ERR_BAD_REQUEST; S3_ERR_NOT_IMPLEMENTED: another
 * Transfer-Encoding than chunked. *message says why. *out is filled as far as it is known.
 */
enum s3_error gw_head_check(const struct gw_raw_head *head, struct gw_framing *out, const char **message);

/* The name of a header field, as RFC 9110 has it: a token. */
bool gw_head_token(struct s3_str name);

#endif
