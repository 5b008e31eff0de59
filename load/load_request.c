/*
 * load_request.c - the requests of a run, one after the other, and the steps of multipart uploads.
 * Called by run.c on the running thread.
 */
#include "load/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load_content.h"

#define LIST_STARTS 64u        /* different first keys of lists */
#define READY_MAX   (1u << 20) /* targets held ready, for all servers: 400 MB at the very most */

static const char *method_of(enum load_phase phase)
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

/* ---- requests -------------------------------------------------------------------------------- */

static void request(struct load_run *run, struct load_conn *conn, const char *method, const char *target,
                    uint64_t body_len)
{
        const struct load_settings *o = run->settings;
        char range[80] = "", length[48] = "";
        int n;

        if (conn->op == LOAD_RANGE) {
                snprintf(range, sizeof(range), "Range: bytes=%llu-%llu\r\n", (unsigned long long)conn->from,
                         (unsigned long long)(conn->from + o->range_size - 1));
        }
        if (strcmp(method, "PUT") == 0 || strcmp(method, "POST") == 0)
                snprintf(length, sizeof(length), "Content-Length: %llu\r\n", (unsigned long long)body_len);
        n = snprintf(conn->head, sizeof(conn->head), "%s %s\r\nHost: %s\r\n%s%s\r\n", method, target,
                     o->server[conn->server].header, length, range);
        conn->head_len = (size_t)n;
        conn->body_len = body_len;
        run->paced += body_len;
        conn->sent = 0;
        conn->text_len = 0;
        load_parser_start(&conn->parser, strcmp(method, "HEAD") == 0);
}

int load_multipart_request(struct load_run *run, struct load_conn *conn)
{
        const struct load_settings *o = run->settings;
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
        rv = load_sign(&run->signer, conn->server, part ? "PUT" : "POST", conn->key, query, target);
        if (rv < 0)
                return rv;
        request(run, conn, part ? "PUT" : "POST", target, len);
        return 0;
}

int load_multipart_advance(struct load_conn *conn)
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
                snprintf(conn->etags[conn->step - 1], LOAD_ETAG_SIZE, "%.79s", conn->parser.etag);
        } else {
                return strstr(conn->head, "CompleteMultipartUploadResult") != NULL ? 1 : -EPROTO;
        }
        conn->step++;
        return 0;
}

static bool load_request_is_write(enum load_phase op)
{
        return op == LOAD_PUT || op == LOAD_DELETE || op == LOAD_MULTIPART;
}

static enum load_phase op_of(const struct load_settings *o, uint64_t index)
{
        if (o->phase != LOAD_MIXED)
                return o->phase;
        return load_mix(~index) % 100 < o->get_share ? LOAD_GET : LOAD_PUT;
}

static uint64_t key_of(const struct load_settings *o, enum load_phase op, uint64_t index)
{
        if (load_request_is_write(op))
                return o->start + index;
        return o->once ? load_once(index, o->keys) : load_mix(index) % o->keys;
}

void load_choose(const struct load_settings *o, uint64_t index, struct load_choice *out)
{
        out->op = op_of(o, index);
        out->key = key_of(o, out->op, index);
        out->from = out->op == LOAD_RANGE ? load_mix(out->key ^ (index + 1)) % (o->size - o->range_size + 1) : 0;
}

static int load_request_target(const struct load_run *run, unsigned server, enum load_phase op, uint64_t index,
                               uint64_t key, char out[LOAD_TARGET_MAX])
{
        char query[1600] = "";

        if (op == LOAD_LIST)
                load_list_query(run->settings, index % LIST_STARTS, LIST_STARTS, query, sizeof(query));
        return load_sign(&run->signer, server, method_of(op),
                         op == LOAD_LIST || op == LOAD_BUCKET ? UINT64_MAX : key, query, out);
}

/*
 * Which of the targets made before is an operation's; UINT64_MAX: none. A mixed phase has those of
 * its GETs.
 */
static uint64_t ready_slot(const struct load_settings *o, enum load_phase op, uint64_t index, uint64_t key)
{
        if (op == LOAD_LIST)
                return index % LIST_STARTS;
        if (load_request_is_write(op))
                return o->phase == LOAD_MIXED ? UINT64_MAX : index;
        return key;
}

int load_first_request(struct load_run *run, struct load_conn *conn, uint64_t index)
{
        const struct load_settings *o = run->settings;
        char target[LOAD_TARGET_MAX];
        struct load_choice choice;
        uint64_t slot, body_len;
        int rv;

        load_choose(o, index, &choice);
        conn->op = choice.op;
        conn->key = choice.key;
        conn->from = choice.from;
        conn->entries = 0;
        conn->matched = 0;
        conn->body = NULL;
        if (conn->op == LOAD_MULTIPART) {
                conn->step = 0;
                return load_multipart_request(run, conn);
        }
        slot = ready_slot(o, conn->op, index, conn->key);
        body_len = conn->op == LOAD_PUT ? o->size : 0;
        if (slot < run->ready_count / o->servers) {
                request(run, conn, method_of(conn->op), run->ready[slot * o->servers + conn->server], body_len);
                return 0;
        }
        rv = load_request_target(run, conn->server, conn->op, index, conn->key, target);
        if (rv < 0)
                return rv;
        request(run, conn, method_of(conn->op), target, body_len);
        return 0;
}

int load_make_ready(struct load_run *run)
{
        const struct load_settings *o = run->settings;
        enum load_phase op = o->phase == LOAD_MIXED ? LOAD_GET : o->phase;
        char target[LOAD_TARGET_MAX];
        uint64_t count = load_request_is_write(op) ? o->count : o->keys;
        int rv;

        if (op == LOAD_MULTIPART || op == LOAD_BUCKET)
                return 0;
        if (op == LOAD_LIST)
                count = LIST_STARTS;
        if (count > READY_MAX / o->servers)
                count = READY_MAX / o->servers;
        run->ready = calloc(count * o->servers + 1, sizeof(*run->ready));
        if (run->ready == NULL)
                return -ENOMEM;
        for (uint64_t i = 0; i < count * o->servers; i++) {
                uint64_t index = i / o->servers;

                rv = load_request_target(run, (unsigned)(i % o->servers), op, index,
                                         load_request_is_write(op) ? o->start + index : index, target);
                if (rv < 0)
                        return rv;
                run->ready[i] = strdup(target);
                if (run->ready[i] == NULL)
                        return -ENOMEM;
                run->ready_count = i + 1;
        }
        return 0;
}
