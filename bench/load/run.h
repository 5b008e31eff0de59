/*
 * run.h - one run of the load generator: its connections, and the requests they make. Everything is the main
 * thread's; load.c moves the bytes.
 */
#ifndef BENCH_LOAD_RUN_H
#define BENCH_LOAD_RUN_H

#include <netdb.h>

#include "content.h"
#include "parser.h"
#include "report.h"
#include "target.h"

#define LIST_STARTS 64u /* different first keys of lists */
#define ETAG_SIZE   80u

enum conn_state { CLOSED, CONNECTING, SENDING, RECEIVING };

/* One connection and the operation on it. */
struct conn {
        int fd;
        enum conn_state state;
        enum load_phase op;               /* what its operation is */
        bool busy, reused;                /* has an operation; has answered before */
        bool paused;                      /* its upload's next part is not due yet */
        uint64_t key, since_ns;           /* of the operation; a latency counts from then */
        uint64_t alive_ns;                /* when its request began, or last lost bytes to the server */
        char head[LOAD_TARGET_MAX + 512]; /* of the request; then text of a small answer */
        size_t head_len, text_len;
        const char *body;              /* a document; NULL: the object's bytes from `from` on */
        uint64_t from, body_len, sent; /* sent: of head and body together */
        struct load_parser parser;
        uint64_t entries; /* of a list */
        unsigned matched; /* bytes of "<Contents>" just seen */
        /* multipart */
        uint64_t step, parts; /* 0: create; 1..parts; parts + 1: complete */
        char upload_id[512];
        char (*etags)[ETAG_SIZE];
        char *document;
};

/* The whole run. */
struct run {
        struct load_options options;
        struct load_signer signer;
        struct load_result result;
        struct addrinfo *address;
        struct conn *conns;
        struct conn **idle; /* open loop: connections without an operation */
        unsigned idle_count, busy_count;
        struct conn **paused; /* a ring of uploads, the one that waits longest first */
        unsigned paused_first, paused_count;
        uint64_t paced; /* bytes in requests that have begun */
        char **ready;   /* targets made before the clock started */
        uint64_t ready_count;
        char *pattern, *receive;
        int epoll_fd;
        uint64_t issued, start_ns, end_ns, last_ns;
        unsigned told; /* failures explained on standard error */
        bool over;     /* no more operations begin */
};

static inline const char *method_of(enum load_phase phase)
{
        switch (phase) {
        case LOAD_BUCKET:
        case LOAD_PUT:
                return "PUT";
        case LOAD_HEADS:
                return "HEAD";
        case LOAD_DELETE:
                return "DELETE";
        default:
                return "GET";
        }
}

/* ---- requests ------------------------------------------------------------------------------------ */

static inline void request(struct run *run, struct conn *conn, const char *method, const char *target,
                           uint64_t body_len)
{
        const struct load_options *o = &run->options;
        char range[80] = "", length[48] = "";
        int n;

        if (conn->op == LOAD_RANGE) {
                conn->from = load_mix(conn->key ^ run->issued) % (o->size - o->range_size + 1);
                snprintf(range, sizeof(range), "Range: bytes=%llu-%llu\r\n", (unsigned long long)conn->from,
                         (unsigned long long)(conn->from + o->range_size - 1));
        }
        if (strcmp(method, "PUT") == 0 || strcmp(method, "POST") == 0)
                snprintf(length, sizeof(length), "Content-Length: %llu\r\n", (unsigned long long)body_len);
        n = snprintf(conn->head, sizeof(conn->head), "%s %s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n", method, target,
                     run->signer.host, length, range);
        conn->head_len = (size_t)n;
        conn->body_len = body_len;
        run->paced += body_len;
        conn->sent = 0;
        conn->text_len = 0;
        load_parser_start(&conn->parser, strcmp(method, "HEAD") == 0);
}

/* The next request of a multipart upload, by conn->step. 0 or a negative errno. */
static inline int multipart_request(struct run *run, struct conn *conn)
{
        const struct load_options *o = &run->options;
        char query[1700], id[1600], target[LOAD_TARGET_MAX];
        bool part = conn->step >= 1 && conn->step <= conn->parts;
        uint64_t len = 0;
        int rv = s3_percent_encode(s3_str_of(conn->upload_id), S3_ENCODE_QUERY, id, sizeof(id) - 1);

        if (rv < 0)
                return rv;
        id[rv] = '\0';
        conn->body = NULL;
        if (conn->step == 0)
                snprintf(query, sizeof(query), "uploads=");
        else if (part)
                snprintf(query, sizeof(query), "partNumber=%llu&uploadId=%s", (unsigned long long)conn->step, id);
        else
                snprintf(query, sizeof(query), "uploadId=%s", id);
        if (part) {
                conn->from = (conn->step - 1) * o->part_size;
                len = o->size - conn->from < o->part_size ? o->size - conn->from : o->part_size;
        } else if (conn->step > conn->parts) {
                size_t used = (size_t)sprintf(conn->document, "<CompleteMultipartUpload>");

                for (uint64_t i = 0; i < conn->parts; i++)
                        used += (size_t)sprintf(conn->document + used,
                                                "<Part><PartNumber>%llu</PartNumber><ETag>%s</ETag></Part>",
                                                (unsigned long long)i + 1, conn->etags[i]);
                used += (size_t)sprintf(conn->document + used, "</CompleteMultipartUpload>");
                conn->body = conn->document;
                len = used;
        }
        rv = load_sign(&run->signer, part ? "PUT" : "POST", conn->key, query, target);
        if (rv < 0)
                return rv;
        request(run, conn, part ? "PUT" : "POST", target, len);
        return 0;
}

/* Takes from a multipart answer what the next step needs. 1: the upload is whole; 0: there is a next step; -EPROTO. */
static inline int multipart_advance(struct conn *conn)
{
        const char *id, *end;

        conn->head[conn->text_len < sizeof(conn->head) ? conn->text_len : sizeof(conn->head) - 1] = '\0';
        if (conn->step == 0) {
                id = strstr(conn->head, "<UploadId>");
                end = id != NULL ? strstr(id, "</UploadId>") : NULL;
                if (end == NULL || (size_t)(end - id - 10) >= sizeof(conn->upload_id))
                        return -EPROTO;
                snprintf(conn->upload_id, sizeof(conn->upload_id), "%.*s", (int)(end - id - 10), id + 10);
        } else if (conn->step <= conn->parts) {
                if (conn->parser.etag[0] == '\0')
                        return -EPROTO;
                snprintf(conn->etags[conn->step - 1], ETAG_SIZE, "%.79s", conn->parser.etag);
        } else {
                return strstr(conn->head, "CompleteMultipartUploadResult") != NULL ? 1 : -EPROTO;
        }
        conn->step++;
        return 0;
}

static inline bool writes(enum load_phase op)
{
        return op == LOAD_PUT || op == LOAD_DELETE || op == LOAD_MULTIPART;
}

static inline enum load_phase op_of(const struct load_options *o, uint64_t index)
{
        if (o->phase != LOAD_MIXED)
                return o->phase;
        return load_mix(~index) % 100 < o->get_share ? LOAD_GET : LOAD_PUT;
}

static inline uint64_t key_of(const struct load_options *o, enum load_phase op, uint64_t index)
{
        if (writes(op))
                return o->start + index;
        return o->once ? load_once(index, o->keys) : load_mix(index) % o->keys;
}

static inline int target_of(const struct run *run, enum load_phase op, uint64_t index, uint64_t key,
                            char out[LOAD_TARGET_MAX])
{
        char query[1600] = "";

        if (op == LOAD_LIST)
                load_list_query(&run->options, index % LIST_STARTS, LIST_STARTS, query, sizeof(query));
        return load_sign(&run->signer, method_of(op), op == LOAD_LIST || op == LOAD_BUCKET ? UINT64_MAX : key, query,
                         out);
}

/* Which of the targets made before is an operation's; UINT64_MAX: none. A mixed phase has those of its GETs. */
static inline uint64_t ready_slot(const struct load_options *o, enum load_phase op, uint64_t index, uint64_t key)
{
        if (op == LOAD_LIST)
                return index % LIST_STARTS;
        if (writes(op))
                return o->phase == LOAD_MIXED ? UINT64_MAX : index;
        return key;
}

/* Prepares the operation's first request. 0 or a negative errno. */
static inline int first_request(struct run *run, struct conn *conn, uint64_t index)
{
        const struct load_options *o = &run->options;
        char target[LOAD_TARGET_MAX];
        uint64_t slot, body_len;
        int rv;

        conn->op = op_of(o, index);
        conn->key = key_of(o, conn->op, index);
        conn->entries = 0;
        conn->matched = 0;
        conn->from = 0;
        conn->body = NULL;
        if (conn->op == LOAD_MULTIPART) {
                conn->step = 0;
                return multipart_request(run, conn);
        }
        slot = ready_slot(o, conn->op, index, conn->key);
        body_len = conn->op == LOAD_PUT ? o->size : 0;
        if (slot < run->ready_count) {
                request(run, conn, method_of(conn->op), run->ready[slot], body_len);
                return 0;
        }
        rv = target_of(run, conn->op, index, conn->key, target);
        if (rv < 0)
                return rv;
        request(run, conn, method_of(conn->op), target, body_len);
        return 0;
}

/* Signs what can be foreseen. 0 or a negative errno. */
static inline int make_ready(struct run *run)
{
        const struct load_options *o = &run->options;
        enum load_phase op = o->phase == LOAD_MIXED ? LOAD_GET : o->phase;
        char target[LOAD_TARGET_MAX];
        uint64_t count = writes(op) ? o->count : o->keys;
        int rv;

        if (op == LOAD_MULTIPART || op == LOAD_BUCKET)
                return 0;
        if (op == LOAD_LIST)
                count = LIST_STARTS;
        if (count > LOAD_READY_MAX)
                count = LOAD_READY_MAX;
        run->ready = calloc(count + 1, sizeof(*run->ready));
        if (run->ready == NULL)
                return -ENOMEM;
        for (uint64_t i = 0; i < count; i++) {
                rv = target_of(run, op, i, writes(op) ? o->start + i : i, target);
                if (rv < 0)
                        return rv;
                run->ready[i] = strdup(target);
                if (run->ready[i] == NULL)
                        return -ENOMEM;
                run->ready_count = i + 1;
        }
        return 0;
}

#endif
