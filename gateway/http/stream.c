/*
 * stream.c - the bytes of a large answer, from the engine's spans into the library's blocks.
 *
 * Called by libmicrohttpd on the loop's thread whenever it wants more to send. No span yet: the
 * connection is suspended until the engine wakes it. An error in the middle cuts the connection,
 * since the status has left: never a wrong byte (I5). The CRC32C of a large answer is not known
 * before its last byte: a client that asked for it gets it behind that.
 *
 * The other ways of bytes, for who wants to count or to slow them: http/body.c has those that come
 * in; rdma/transfer_get.c, rdma/transfer_put.c and rdma/work_item.c move those of RDMA, and do not
 * come by here. http/conn_sweep.c cuts connections off that are too slow, and would have to know
 * who is slowed on purpose. A bucket's attributes are written when it is created, and
 * bucket/bucket.c has no operation that changes them.
 */
#include "gateway/http/stream.h"

#include <errno.h>

void gw_stream_wake(void *arg)
{
        struct gw_request *req = arg;

        if (gw_back(req))
                gw_request_wake(req);
}

/* Copies what is there: up to max bytes; 0 and *rv when there is none. */
static size_t stream_take(struct gw_request *req, char *buf, size_t max, int *rv)
{
        size_t done = 0;

        *rv = 0;
        while (done < max) {
                size_t n;

                if (req->span_left == 0) {
                        *rv = eng_get_next(req->get, &req->span, &req->span_left);
                        if (*rv != 0)
                                break;
                }
                n = req->span_left < max - done ? req->span_left : max - done;
                memcpy(buf + done, req->span, n);
                req->span += n;
                req->span_left -= n;
                done += n;
        }
        return done;
}

/* What is left of the CRC, at most max bytes. */
static size_t take_crc(struct gw_request *req, char *buf, size_t max)
{
        uint32_t crc = eng_get_crc32c(req->get);
        size_t done = 0;

        while (done < max && req->crc_sent < GW_CRC_TAIL)
                buf[done++] = (char)(crc >> (24 - 8 * req->crc_sent++));
        return done;
}

ssize_t gw_stream_read(void *cls, uint64_t pos, char *buf, size_t max)
{
        struct gw_request *req = cls;
        size_t n;
        int rv;

        assert(req->alive == GW_REQUEST_ALIVE);
        lp_trace_set_request(req->number);
        if (req->peer_gone || req->get == NULL)
                return MHD_CONTENT_READER_END_WITH_ERROR;
        n = stream_take(req, buf, max, &rv);
        if (rv == -ENODATA && req->crc_follows)
                n += take_crc(req, buf + n, max - n);
        req->bytes_out += n;
        if (n > 0)
                return (ssize_t)n;
        if (rv != -EAGAIN)
                return MHD_CONTENT_READER_END_WITH_ERROR;
        req->inside = true;
        gw_request_wait(req);
        req->inside = false;
        return 0;
}

void gw_crc_header(struct gw_request *req, const struct eng_get *get)
{
        uint8_t value[S3_CHECKSUM_MAX];
        char text[S3_CHECKSUM_TEXT];
        size_t len;

        s3_checksum_from_crc(S3_CRC32C, eng_get_crc32c(get), value);
        len = s3_checksum_format(S3_CRC32C, value, 0, text);
        gw_reply_header_str(req, "x-millrace-crc32c", (struct s3_str){text, len});
}
