/*
 * append_check.c - what every drive asks of a record before it appends it, and what it makes of it:
 * a local drive, and the simulator's. No I/O.
 */
#include "engine/drive/pgs.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/drive/rec.h"

struct eng_append *eng_append_new(enum fmt_record_type type, struct eng_buf *body)
{
        struct eng_append *append = calloc(1, sizeof(*append));

        if (append == NULL)
                return NULL;
        append->rec.type = (uint16_t)type;
        if (body != NULL) {
                append->body = eng_buf_ref(body);
                append->rec.body_len = body->len;
        }
        return append;
}

int eng_append_check(const struct eng_op *op)
{
        const struct eng_buf *body = op->append.body;
        size_t len = body != NULL ? body->len : 0;

        if (len > FMT_BODY_MAX || op->append.inline_len > len)
                return -EINVAL;
        switch (op->append.type) {
        case FMT_RECORD_PG:
                return body != NULL && eng_rec_check_body(body->data, len, op->append.inline_len) == 0 ? 0 : -EINVAL;
        case FMT_RECORD_EPOCH:
                return body != NULL && eng_rec_check_epoch(body->data, len) == 0 ? 0 : -EINVAL;
        case FMT_RECORD_COPY:
                return body != NULL && eng_rec_check_copy(body->data, len, op->append.inline_len) == 0 ? 0 : -EINVAL;
        case FMT_RECORD_VOID:
                return len == 0 ? 0 : -EINVAL;
        }
        return -EINVAL;
}

bool eng_append_have(const struct eng_pgs *pgs, const struct eng_op *op)
{
        const struct eng_log_pg *pg;

        if (op->append.type != FMT_RECORD_PG)
                return false;
        pg = eng_pgs_find(pgs, op->append.pg);
        return pg != NULL &&
               (eng_pgs_find_pending(pg, op->append.seq) != NULL || eng_pgs_applied_lately(pg, op->append.seq));
}

void eng_append_describe(struct eng_append *append, const struct eng_op *op)
{
        if (op->append.type != FMT_RECORD_VOID) /* a drive knows best what it has not applied: a VOID's body is its own */
                append->rec.body_crc = op->append.body_crc;
        append->rec.inline_len = op->append.inline_len;
        append->rec.pg = op->append.pg;
        append->rec.epoch = op->append.record_epoch != 0 ? op->append.record_epoch : op->epoch;
        append->rec.seq = op->append.seq;
        append->rec.committed = op->append.committed;
        append->rec.time_ms = op->append.time_ms;
}
