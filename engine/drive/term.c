/*
 * term.c - the operation OPEN, and the fence that it sets: a drive that a leader has OPENed takes
 * operations of that leader's term alone (docs/design/on-disk.md, "Terms").
 *
 * The fence holds from the moment OPEN is taken on; OPEN is answered when a TERM record is durable
 * behind all appends that were taken on before. One such record is on its way at a time: OPENs that
 * come meanwhile share the next one.
 *
 * A new leader must not wait for room that the old one's COMMITs would free, since they are refused
 * from then on. So OPEN refuses what of older terms still waits in the log's queue, its record goes
 * ahead of the drive's own records there, needs no room in the memtable, and has some of each log
 * file to itself (log.c).
 *
 * owner: the loop (replay: the opening thread).
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "ec.h"

/* ---- what is known --------------------------------------------------------------------------- */

void eng_terms_add(struct eng_local *l, const struct fmt_term *term, uint64_t file)
{
        struct eng_terms *terms = &l->terms;
        struct eng_term found = {
                .generation = term->generation, .revision = term->revision, .boot = term->boot, .node = term->node};
        int order = eng_term_compare(&found, &terms->durable);

        if (order < 0 || (order == 0 && file <= terms->file))
                return;
        eng_log_file_needed(l, terms->file, -1);
        eng_log_file_needed(l, file, 1);
        terms->durable = found;
        memcpy(terms->cluster, term->cluster, FMT_ID);
        terms->file = file;
        terms->dirty = true;
        if (eng_term_compare(&found, &terms->admitted) >= 0) {
                terms->admitted = found;
                memcpy(terms->admitted_cluster, term->cluster, FMT_ID);
        }
}

static void term_record(const struct eng_term *term, const uint8_t cluster[FMT_ID], struct fmt_term *out)
{
        *out = (struct fmt_term){
                .generation = term->generation, .revision = term->revision, .boot = term->boot, .node = term->node};
        memcpy(out->cluster, cluster, FMT_ID);
}

int eng_terms_load(struct eng_local *l, struct eng_index_txn *txn)
{
        struct fmt_index_term row;
        size_t len;
        int rv = eng_index_meta_get(txn, ENG_INDEX_TERM, &row, sizeof(row), &len);

        if (rv != 0)
                return rv == -ENOENT ? 0 : -EBADMSG;
        if (len != sizeof(row))
                return -EBADMSG;
        eng_terms_add(l, &row.term, row.file);
        l->terms.dirty = false;
        return 0;
}

int eng_terms_take(struct eng_local *l, const uint8_t *body, size_t len, uint64_t file)
{
        struct fmt_term term;

        if (len != sizeof(term))
                return -EBADMSG;
        memcpy(&term, body, sizeof(term));
        eng_terms_add(l, &term, file);
        return 0;
}

void eng_terms_snapshot(const struct eng_local *l, struct fmt_index_term *out)
{
        term_record(&l->terms.durable, l->terms.cluster, &out->term);
        out->file = l->terms.file;
}

/* On the thread that opened it, before any operation, or on the owner loop. */
void eng_local_term(struct eng_drive *drive, struct eng_term *out, uint8_t cluster[FMT_ID])
{
        const struct eng_terms *terms = &eng_local_of(drive)->terms;

        *out = terms->durable;
        memcpy(cluster, terms->cluster, FMT_ID);
}

/* ---- the fence ------------------------------------------------------------------------------- */

/* What gateways ask without a term. */
static bool term_is_free(const struct eng_op *op)
{
        return op->of_home && (op->kind == ENG_OP_READ || op->kind == ENG_OP_WRITE || op->kind == ENG_OP_SYNC ||
                               op->kind == ENG_OP_HELD) &&
               eng_term_is_none(&op->term);
}

int eng_terms_check(const struct eng_terms *terms, struct eng_op *op)
{
        int order = eng_term_compare(&op->term, &terms->admitted);

        if (op->kind == ENG_OP_OPEN || term_is_free(op))
                return 0; /* OPEN looks by itself */
        if (order > 0 || (order == 0 && !terms->opened))
                return -ENOTCONN;
        if (order == 0 && eng_term_same(&op->term, &terms->admitted))
                return 0;
        op->deposed = true;
        return -ESTALE;
}

/* ---- OPEN ------------------------------------------------------------------------------------ */

static void open_answer(struct eng_local *l, struct eng_op *op, int rv)
{
        if (rv == 0 && eng_term_compare(&op->term, &l->terms.admitted) < 0) {
                rv = -ESTALE; /* a newer one has come meanwhile */
                op->deposed = true;
        }
        if (rv == -ESTALE || rv == -EXDEV)
                op->open.newest = l->terms.admitted;
        eng_local_answer(op, rv);
}

static void open_answer_all(struct eng_local *l, struct eng_op **list, int rv)
{
        struct eng_op *op;

        while ((op = *list) != NULL) {
                *list = op->next;
                open_answer(l, op, rv);
        }
}

static void term_durable(void *arg, struct eng_append *append)
{
        struct eng_local *l = arg;
        int rv = eng_terms_take(l, append->body->data, append->body->len, append->rec.file);

        assert(rv == 0 && l->terms.running != NULL);
        eng_append_free(append);
        open_answer_all(l, &l->terms.running, 0);
        eng_terms_go_on(l);
}

static void term_moved(void *arg, struct eng_append *append)
{
        struct eng_local *l = arg;

        eng_terms_take(l, append->body->data, append->body->len, append->rec.file);
        eng_append_free(append);
}

static struct eng_buf *term_body(const struct eng_term *term, const uint8_t cluster[FMT_ID])
{
        struct eng_buf *body = eng_buf_new(sizeof(struct fmt_term));
        struct fmt_term record;

        if (body == NULL)
                return NULL;
        term_record(term, cluster, &record);
        memcpy(body->data, &record, sizeof(record));
        return body;
}

int eng_terms_move(struct eng_local *l, const struct eng_log_file *file)
{
        struct eng_buf *body;
        int rv;

        if (l->terms.file != file->number)
                return 0;
        body = term_body(&l->terms.durable, l->terms.cluster);
        rv = body == NULL ? -ENOMEM : eng_append_own(l, FMT_RECORD_TERM, body, 0, term_moved);
        eng_buf_unref(body);
        return rv;
}

/* The record that all who wait are answered by. */
static int open_append(struct eng_local *l)
{
        struct eng_buf *body = term_body(&l->terms.admitted, l->terms.admitted_cluster);
        struct eng_append *append = body == NULL ? NULL : eng_append_new(FMT_RECORD_TERM, body);

        eng_buf_unref(body);
        if (append == NULL)
                return -EAGAIN;
        append->rec.body_crc = era_crc32c(0, append->body->data, append->body->len);
        append->rec.time_ms = (uint64_t)lp_wall_ms();
        append->durable = term_durable;
        l->terms.running = l->terms.waiting;
        l->terms.waiting = NULL;
        eng_log_append_term(l, append);
        eng_log_kick(l);
        return 0;
}

void eng_terms_go_on(struct eng_local *l)
{
        if (l->terms.waiting == NULL || l->terms.running != NULL || eng_local_failed(l))
                return;
        if (!l->terms.guarded)
                eng_features_guard(l); /* comes back here */
        else if (open_append(l) != 0)
                open_answer_all(l, &l->terms.waiting, -EAGAIN);
}

void eng_terms_guarded(struct eng_local *l, int rv)
{
        if (rv != 0)
                open_answer_all(l, &l->terms.waiting, -EAGAIN);
        else
                eng_terms_go_on(l);
}

static int open_admit(const struct eng_local *l, const struct eng_op *op)
{
        const struct eng_term *known = &l->terms.admitted;

        if (eng_term_is_none(&op->term))
                return -EINVAL;
        if (eng_term_compare(&op->term, known) < 0 ||
            (eng_term_compare(&op->term, known) == 0 && !eng_term_same(&op->term, known)))
                return -ESTALE;
        if (!eng_term_is_none(known) && op->term.generation == known->generation &&
            memcmp(op->open.cluster, l->terms.admitted_cluster, FMT_ID) != 0)
                return -EXDEV;
        return 0;
}

void eng_open_op(struct eng_local *l, struct eng_op *op)
{
        struct eng_terms *terms = &l->terms;
        int rv = open_admit(l, op);

        assert(eng_local_on_loop(l));
        op->deposed = rv == -ESTALE;
        if (rv != 0) {
                open_answer(l, op, rv);
                return;
        }
        terms->admitted = op->term;
        memcpy(terms->admitted_cluster, op->open.cluster, FMT_ID);
        terms->opened = true;
        eng_log_depose(l, &terms->admitted);
        op->next = terms->waiting;
        terms->waiting = op;
        eng_terms_go_on(l);
}

void eng_terms_fail(struct eng_local *l)
{
        open_answer_all(l, &l->terms.waiting, -EIO);
        open_answer_all(l, &l->terms.running, -EIO);
}
