/*
 * trace_context.h - which trace of the client's a request belongs to, for those who read logs.
 */
#ifndef GATEWAY_HTTP_TRACE_CONTEXT_H
#define GATEWAY_HTTP_TRACE_CONTEXT_H

#include "s3.h"

/*
 * What a traceparent header says. Anybody can send any: it identifies lines of logs, and nothing is
 * decided by it.
 */
struct gw_trace_context {
        char trace_id[32 + 1];  /* lower-case hexadecimal, as sent */
        char parent_id[16 + 1]; /* of the client's span */
};

/*
 * Fills `out` from the one traceparent header of a request (W3C Trace Context, version 00, and what
 * of a later version has the same beginning). False: there is none, there are several, or it does
 * not have the form exactly.
 */
bool gw_trace_context_of(const struct s3_header *headers, unsigned count, struct gw_trace_context *out);

#endif
