/*
 * stream.h - the bytes of a large answer.
 */
#ifndef GATEWAY_HTTP_STREAM_H
#define GATEWAY_HTTP_STREAM_H

#include <sys/types.h>

#include "gateway/http/http_request.h"

#define GW_CRC_TAIL                                                                                                    \
        4u /* bytes of the CRC32C, most significant first, that follow the object's where the client asked for it */

/* What eng_get_start() is to call: wakes the request; arg is the request. */
void gw_stream_wake(void *arg);
/* Content reader of the library over req->get. */
ssize_t gw_stream_read(void *cls, uint64_t pos, char *buf, size_t max);
/* x-millrace-crc32c of what get has handed out. */
void gw_crc_header(struct gw_request *req, const struct eng_get *get);

#endif
