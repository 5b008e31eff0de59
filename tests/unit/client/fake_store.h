/*
 * fake_store.h - objects behind fake_s3.h: one that can be replaced, damaged and cut while it is
 * read, and keys that take what is put. Only what the tests of operations need of S3.
 */
#ifndef TESTS_FAKE_STORE_H
#define TESTS_FAKE_STORE_H

#include "tests/unit/client/fake_s3.h"

#include "ec.h"
#include "rdma_wire.h"
#include "s3.h"

#define STORE_PARTS 16

/* Guarded by the fake's lock while it runs. */
struct store {
        char *data; /* of every key that begins with "obj" */
        size_t len;
        unsigned generation; /* ETag "gN"; bytes of generation N are those of 1 with N - 1 added */
        bool no_sum, no_crc;
        bool crc_follows; /* where the client takes that; else before the bytes */
        bool tail_short;
        bool weak_etag;       /* W/"gN", which If-Match never matches */
        bool range_less;      /* ranges lack their last byte, and say so */
        unsigned range_early; /* ranges of GETs from this number on begin a byte too early, and say so; 0: none */

        unsigned replace_at;                /* before the answer to GET number N the object is replaced; 0: never */
        _Atomic unsigned replace_each_from; /* before each GET from this number on; set while it serves */
        unsigned damage_from, damage_to;    /* GETs with these numbers have a wrong byte */
        unsigned cut_from, cut_to;          /* half of the body comes */
        unsigned fail_from, fail_to;        /* 503 SlowDown */
        unsigned lack_at;                   /* GET N is answered 404 */
        bool has_batch;                     /* GetBatch; else 405 */
        unsigned batch_damage, batch_cut,
                batch_lack; /* entry N (from 1): a wrong byte, the end of the answer, 404; 0: none */
        unsigned batches;
        unsigned gets, heads, puts, aborts, completes, with_match, copies;

        char *part[STORE_PARTS + 1];
        size_t part_len[STORE_PARTS + 1];
        bool fail_parts; /* 400 to each part from the second on */
        char *stored;    /* what was put last */
        size_t stored_len;
        char query[8192];
};

static inline void store_make(struct store *store, size_t len)
{
        memset(store, 0, sizeof(*store));
        store->data = malloc(len + 1);
        store->len = len;
        store->generation = 1;
        for (size_t i = 0; i < len; i++)
                store->data[i] = (char)(i * 2654435761u >> 13);
}

static inline void store_free(struct store *store)
{
        free(store->data);
        free(store->stored);
        for (unsigned i = 0; i <= STORE_PARTS; i++)
                free(store->part[i]);
}

static inline bool store_is(const struct store *store, const char *found, size_t offset, size_t len,
                            unsigned generation)
{
        for (size_t i = 0; i < len; i++)
                if ((char)(store->data[offset + i] + (int)generation - 1) != found[i])
                        return false;
        return true;
}

static inline void store_sum(const void *data, size_t len, enum s3_checksum kind, char text[S3_CHECKSUM_TEXT])
{
        struct s3_sums *sums;

        s3_sums_new(S3_CHECKSUM_BIT(kind), &sums);
        s3_sums_update(sums, data, len);
        s3_sums_final(sums);
        s3_checksum_format(kind, s3_sums_value(sums, kind), 0, text);
        s3_sums_free(sums);
}

static inline void store_header(struct fake_reply *reply, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
static inline void store_header(struct fake_reply *reply, const char *format, ...)
{
        size_t used = strlen(reply->headers);
        va_list args;

        va_start(args, format);
        vsnprintf(reply->headers + used, sizeof(reply->headers) - used, format, args);
        va_end(args);
}

static inline bool between(unsigned n, unsigned from, unsigned to)
{
        return from != 0 && n >= from && n <= to;
}

static inline void store_read(struct store *store, const struct fake_request *request, struct fake_reply *reply)
{
        bool head = strcmp(request->method, "HEAD") == 0, ranged = false;
        unsigned long long first = 0, last = store->len == 0 ? 0 : store->len - 1, back;
        char value[512], etag[32], text[S3_CHECKSUM_TEXT];
        unsigned n = head ? ++store->heads : ++store->gets;

        if (!head && (n == store->replace_at || (store->replace_each_from != 0 && n >= store->replace_each_from)))
                store->generation++;
        if (!head && between(n, store->fail_from, store->fail_to)) {
                fake_error(reply, 503, "SlowDown");
                return;
        }
        if (!head && n == store->lack_at) {
                fake_error(reply, 404, "NoSuchKey");
                return;
        }
        snprintf(etag, sizeof(etag), "%s\"g%u\"", store->weak_etag ? "W/" : "", store->generation);
        fake_header(request, "If-Match", value);
        store->with_match += !head && value[0] != '\0';
        if (value[0] != '\0' && (store->weak_etag || strcmp(value, etag) != 0)) {
                fake_error(reply, 412, "PreconditionFailed");
                return;
        }
        fake_header(request, "Range", value);
        if (sscanf(value, "bytes=-%llu", &back) == 1) {
                ranged = true;
                first = back < store->len ? store->len - back : 0;
        } else if (sscanf(value, "bytes=%llu-%llu", &first, &last) >= 1) {
                ranged = true;
                if (last >= store->len)
                        last = store->len - 1;
        }
        if (ranged && first >= store->len) {
                fake_error(reply, 416, "InvalidRange");
                return;
        }
        if (ranged && store->range_less)
                last--;
        if (ranged && store->range_early != 0 && n >= store->range_early)
                first--;
        reply->status = ranged ? 206 : 200;
        store_header(reply, "ETag: %s\r\nLast-Modified: Fri, 24 May 2013 00:00:00 GMT\r\nx-amz-meta-colour: red\r\n",
                     etag);
        if (ranged)
                store_header(reply, "Content-Range: bytes %llu-%llu/%zu\r\n", first, last, store->len);
        fake_body(reply, store->data + first, store->len == 0 ? 0 : (size_t)(last + 1 - first));
        for (size_t i = 0; i < reply->body_len; i++)
                reply->body[i] = (char)(reply->body[i] + (int)store->generation - 1);
        if (!ranged && !store->no_sum) {
                store_sum(reply->body, reply->body_len, S3_CRC64NVME, text);
                store_header(reply, "x-amz-checksum-crc64nvme: %s\r\n", text);
        }
        if (!head && store->crc_follows && strcmp(fake_header(request, "x-millrace-crc32c", value), "follows") == 0) {
                uint8_t crc[S3_CHECKSUM_MAX];

                s3_checksum_from_crc(S3_CRC32C, era_crc32c(0, reply->body, reply->body_len), crc);
                reply->body = realloc(reply->body, reply->body_len + 4);
                memcpy(reply->body + reply->body_len, crc, 4);
                reply->body_len += store->tail_short ? 2 : 4;
                store_header(reply, "x-millrace-crc32c: follows\r\n");
        } else if (!head && !store->no_crc) {
                store_sum(reply->body, reply->body_len, S3_CRC32C, text);
                store_header(reply, "x-millrace-crc32c: %s\r\n", text);
        }
        if (!head && between(n, store->damage_from, store->damage_to) && reply->body_len > 4)
                reply->body[reply->body_len / 2] ^= 1;
        if (!head && between(n, store->cut_from, store->cut_to))
                reply->send = reply->body_len / 2;
}

static inline void store_keep(char **at, size_t *len, const struct fake_request *request)
{
        free(*at);
        *at = malloc(request->body_len + 1);
        memcpy(*at, request->body, request->body_len);
        *len = request->body_len;
}

static inline void store_write(struct store *store, const struct fake_request *request, struct fake_reply *reply)
{
        const char *part = strstr(request->target, "partNumber=");
        unsigned number = part != NULL ? (unsigned)strtoul(part + 11, NULL, 10) : 0;
        char value[512];

        store->puts++;
        if (fake_header(request, "x-amz-copy-source", value)[0] != '\0') {
                store->copies++;
                snprintf(store->query, sizeof(store->query), "%s", value);
                fake_text(reply, "<CopyObjectResult><ETag>\"c1\"</ETag></CopyObjectResult>");
                return;
        }
        if (part != NULL && store->fail_parts && number > 1) {
                fake_error(reply, 400, "InvalidArgument");
                return;
        }
        if (part != NULL && number <= STORE_PARTS)
                store_keep(&store->part[number], &store->part_len[number], request);
        else
                store_keep(&store->stored, &store->stored_len, request);
        store_header(reply, "ETag: \"p%u\"\r\n", number);
}

static inline void store_complete(struct store *store, struct fake_reply *reply)
{
        store->completes++;
        store->stored_len = 0;
        for (unsigned i = 1; i <= STORE_PARTS; i++) {
                store->stored = realloc(store->stored, store->stored_len + store->part_len[i] + 1);
                if (store->part_len[i] > 0)
                        memcpy(store->stored + store->stored_len, store->part[i], store->part_len[i]);
                store->stored_len += store->part_len[i];
        }
        fake_text(reply, "<CompleteMultipartUploadResult><ETag>\"whole-2\"</ETag></CompleteMultipartUploadResult>");
}

static inline void store_append(struct fake_reply *reply, const void *data, size_t len)
{
        reply->body = realloc(reply->body, reply->body_len + len + 1);
        memcpy(reply->body + reply->body_len, data, len);
        reply->body_len += len;
}

/* Answers backwards: order is not promised. */
static inline void store_batch(struct store *store, const struct fake_request *request, struct fake_reply *reply)
{
        struct rdx_body body = {.data = (const uint8_t *)request->body, .len = request->body_len};
        struct rdx_entry entry[RDX_MESSAGE_ENTRIES];
        bool ordered;
        int count = rdx_body_check(request->body, request->body_len, &ordered);
        unsigned index;

        store->batches++;
        if (!store->has_batch) {
                fake_error(reply, 405, "MethodNotAllowed");
                return;
        }
        assert_in_range(count, 1, RDX_MESSAGE_ENTRIES);
        while (rdx_body_next(&body, &entry[body.next < RDX_MESSAGE_ENTRIES ? body.next : 0], &index) == 1)
                continue;
        store_header(reply, "Content-Type: " RDX_BATCH_TYPE "\r\n");
        for (unsigned i = (unsigned)count; i-- > 0;) {
                struct rdx_result result = {.index = (uint16_t)i, .status = 206, .size = store->len, .etag = {"g1", 2}};
                uint8_t head[RDX_FRAME_HEAD_MOST], tail[RDX_FRAME_TAIL];
                size_t at;

                result.bytes = entry[i].range_first < store->len ? store->len - entry[i].range_first : 0;
                if (entry[i].range_length != 0 && result.bytes > entry[i].range_length)
                        result.bytes = entry[i].range_length;
                if (result.bytes == 0 || result.bytes > entry[i].length || i + 1 == store->batch_lack) {
                        result.code = RDX_CODE_NO_SUCH_KEY;
                        result.status = 404;
                        result.bytes = 0;
                }
                store_append(reply, head, rdx_frame_head(&result, head));
                at = reply->body_len;
                store_append(reply, store->data + entry[i].range_first, result.bytes);
                rdx_frame_tail(era_crc32c(0, reply->body + at, result.bytes), tail);
                if (i + 1 == store->batch_damage)
                        reply->body[at] ^= 1;
                if (result.bytes > 0)
                        store_append(reply, tail, sizeof(tail));
                if (i + 1 == store->batch_cut)
                        reply->send = reply->body_len - 20;
        }
        store_append(reply, "\0\0\0", 4);
}

static inline void store_serve(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct store *store = arg;

        if (strcmp(request->method, "DELETE") == 0) {
                store->aborts += strstr(request->target, "uploadId=") != NULL;
                reply->status = 204;
        } else if (strstr(request->target, "list-type=2") != NULL) {
                bool second = strstr(request->target, "continuation-token=t1") != NULL;

                fake_text(
                        reply,
                        second ? "<ListBucketResult><Contents><Key>c</Key><Size>3</Size></Contents></ListBucketResult>"
                               : "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t1</"
                                 "NextContinuationToken>"
                                 "<Contents><Key>a</Key><Size>1</Size></Contents><CommonPrefixes><Prefix>b/</Prefix></"
                                 "CommonPrefixes>"
                                 "</ListBucketResult>");
        } else if (strcmp(request->method, "POST") == 0 && strstr(request->target, "uploads=") != NULL) {
                fake_text(reply,
                          "<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>");
        } else if (strcmp(request->method, "POST") == 0 && strcmp(request->target, "/_millrace/v1/batch") == 0) {
                store_batch(store, request, reply);
        } else if (strcmp(request->method, "POST") == 0) {
                store_complete(store, reply);
        } else if (strcmp(request->method, "PUT") == 0) {
                store_write(store, request, reply);
        } else {
                store_read(store, request, reply);
        }
}

/* A client made by millrace.h, with parts of 5 MiB. */
static inline struct mr_client *store_client(const struct fake_s3 *fake, unsigned attempts)
{
        struct mr_options options;
        struct mr_client *client;
        struct mr_error err;

        mr_options_init(&options);
        options.endpoint = fake->url;
        options.access_key = "AKID";
        options.secret_key = "secret";
        options.attempts = attempts;
        options.parallel = 4;
        options.part_size = 5u << 20;
        assert_int_equal(mr_client_open(&options, &client, &err), 0);
        return client;
}

#endif
