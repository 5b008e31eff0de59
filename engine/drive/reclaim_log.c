/*
 * reclaim_log.c - one mostly dead log file: its living values go to the log's end, as COPY records
 * of their own.
 *
 * The worker follows the file's chain from its header and reads whole records, every CRC checked,
 * and goes on behind what is damaged; the loop looks each name up, and where the value that counts
 * stands in exactly this record, its mutation is appended anew: same number, same epoch, inline
 * bytes included. The index batch that holds the new position takes the old one off the file's
 * count, and with none left file.c frees it. Values in a damaged or unreadable record keep the file
 * until a verification has written them anew from other drives.
 *
 * A copy never beats a newer value, also in a replay from nothing, where the index may have
 * forgotten why a name is gone: a copy is queued only while no other record of its group is queued,
 * being written or pending. So in the order of the log nothing newer of that name stands before it,
 * and whatever comes later stands behind it. Names of a group that is busy are tried again for a
 * while, and then wait for another pass.
 *
 * What is not copied: dead values; tombstones, which file.c keeps until no older file is left;
 * EPOCH records, which epoch.c copies; marks and gaps, which are written anew by file.c. owner: the
 * loop, but for what is marked blocking.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"

#define OF(member, at) (container_of((at), struct eng_local, reclaim.member))

#define BUSY_TRIES   50u
#define BUSY_WAIT_NS 2000000ull

_Static_assert(FMT_BODY_MAX <= ENG_MOVE_BYTES, "the buffer has room for any record");

static void reclaim_log_read_start(struct eng_local *l);
static void copy_step(struct eng_local *l);

/* ---- reading (blocking) ---------------------------------------------------------------------- */

static int move_open(struct eng_log_move *move)
{
        struct fmt_log_header header;
        const uint8_t *bytes;
        int rv;

        rv = eng_log_window_open(&move->window, move->dir_fd, move->ident.file);
        if (rv != 0)
                return rv;
        move->open = true;
        rv = eng_log_window_at(&move->window, 0, sizeof(header), &bytes);
        if (rv != 0)
                return rv;
        if (bytes == NULL)
                return -EBADMSG;
        memcpy(&header, bytes, sizeof(header));
        if (!eng_log_header_ok(&header, move->ident.drive_id) || header.file != move->ident.file)
                return -EBADMSG;
        if (move->ident.generation == 0) /* nobody had read the file yet */
                move->ident.generation = header.generation;
        if (header.generation != move->ident.generation)
                return -EBADMSG;
        move->position = FMT_BLOCK;
        move->crc = header.prev_crc;
        return 0;
}

/* A record that may hold values. */
static bool has_values(const struct fmt_record *rec, const uint8_t *body)
{
        return (rec->type == FMT_RECORD_PG || rec->type == FMT_RECORD_COPY) &&
               eng_rec_check_body(body, rec->body_len, rec->inline_len) == 0;
}

/*
 * Steps over what is no record. 1: there is one behind it; 0: the file ends. The index says which
 * of its values count, so none needs the chain.
 */
static int move_skip(struct eng_log_move *move)
{
        struct fmt_record rec;
        const uint8_t *bytes;
        uint64_t at;
        int rv;

        for (at = eng_round_up(move->position, FMT_RECORD_ALIGN); at < move->end; at += FMT_RECORD_ALIGN) {
                rv = eng_log_window_at(&move->window, at, sizeof(rec), &bytes);
                if (rv != 0 || bytes == NULL)
                        return rv;
                memcpy(&rec, bytes, sizeof(rec));
                if (rec.magic != FMT_RECORD_MAGIC || !eng_rec_ok(&rec, &move->ident, at))
                        continue;
                rv = eng_log_window_at(&move->window, at, sizeof(rec) + rec.body_len, &bytes);
                if (rv != 0)
                        return rv;
                if (bytes == NULL || era_crc32c(0, bytes + sizeof(rec), rec.body_len) != rec.body_crc)
                        continue;
                move->position = at;
                move->crc = rec.prev_crc;
                return 1;
        }
        return 0;
}

void eng_log_move_read(struct eng_log_move *move)
{
        struct fmt_record rec;
        const uint8_t *body;
        uint64_t before;
        uint32_t used = 0;
        int rv = move->open ? 1 : move_open(move);

        move->count = 0;
        if (rv == 0)
                rv = 1;
        while (rv == 1 && move->count < ENG_MOVE_RECORDS) {
                before = move->position;
                rv = eng_replay_next(&move->window, &move->ident, &move->position, move->crc, &rec, &body);
                if (rv == 0) {
                        rv = move_skip(move);
                        continue;
                }
                if (rv != 1)
                        break;
                if (has_values(&rec, body)) {
                        if (used + rec.body_len > ENG_MOVE_BYTES) {
                                move->position = before;
                                break;
                        }
                        memcpy(move->buffer + used, body, rec.body_len);
                        move->records[move->count].rec = rec;
                        move->records[move->count++].at = used;
                        used += rec.body_len;
                }
                move->crc = rec.header_crc;
                move->position += eng_rec_size(rec.body_len);
        }
        move->ended = rv != 1; /* for whatever reason: living names behind it keep the file */
        move->result = rv < 0 && rv != -EBADMSG ? rv : 0;
}

void eng_log_move_end(struct eng_log_move *move)
{
        if (move->open)
                eng_log_window_close(&move->window);
        move->open = false;
        free(move->buffer);
        move->buffer = NULL;
}

/* ---- which groups are busy ------------------------------------------------------------------- */

static void mark_busy(struct eng_reclaim *rc, uint32_t pg)
{
        rc->busy[pg % ENG_RECLAIM_BUSY_BITS / 64] |= 1ull << (pg % 64);
}

static bool reclaim_log_is_busy(const struct eng_reclaim *rc, uint32_t pg)
{
        return (rc->busy[pg % ENG_RECLAIM_BUSY_BITS / 64] >> (pg % 64) & 1) != 0;
}

static void find_busy(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;
        const struct eng_append *append;

        memset(rc->busy, 0, sizeof(rc->busy));
        TAILQ_FOREACH (append, &l->log.queue, link)
                mark_busy(rc, append->rec.pg);
        TAILQ_FOREACH (append, &l->log.batch, link)
                mark_busy(rc, append->rec.pg);
        TAILQ_FOREACH (append, &l->pgs.order, order)
                mark_busy(rc, append->rec.pg);
}

/* ---- copying --------------------------------------------------------------------------------- */

/*
 * 1: the value that counts for this name stands in this record. 0, ENG_INDEX_ABSENT, -ENOMEM, -EIO.
 */
static int reclaim_log_lives(struct eng_local *l, const struct fmt_record *rec, const struct eng_mut *mut)
{
        struct fmt_value head;
        struct eng_buf *value = NULL;
        int rv = eng_lookup_value(l, mut->name, mut->name_len, &value);

        eng_local_index_error(l, rv);
        if (rv != 0)
                return rv == -ENOENT || rv == -EBADMSG ? 0 : rv;
        memcpy(&head, value->data, sizeof(head));
        eng_buf_unref(value);
        return head.log_file == rec->file && head.log_position == rec->position;
}

static void pass_on(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;

        rc->step_bytes = 0;
        if (rc->absent) {
                copy_step(l);
                return;
        }
        if (rc->met_busy > 0 && rc->again < BUSY_TRIES) {
                rc->again++;
                eng_reclaim_wait(l, BUSY_WAIT_NS, copy_step);
                return;
        }
        rc->incomplete |= rc->met_busy > 0;
        if (rc->move.ended)
                eng_reclaim_passed(l);
        else
                reclaim_log_read_start(l);
}

/* What was on its way together has come back. */
static void one_back(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;

        assert(rc->state == ENG_RECLAIM_APPEND && rc->out > 0);
        if (--rc->out == 0)
                eng_reclaim_pace(l, rc->step_bytes, pass_on);
}

/* The page that the last look into the index lacked is there, or cannot be had now. */
static void page_back(struct eng_local *l, struct eng_page_wait *wait, int rv)
{
        struct eng_reclaim *rc = &l->reclaim;

        (void)wait;
        if (rv == -ECANCELED || eng_local_failed(l))
                return;
        if (rv != 0) { /* what is behind it stays */
                rc->absent = false;
                rc->incomplete = true;
                rc->move.ended = true;
        }
        one_back(l);
}

/*
 * Record number i needs a page that is not in memory. It counts among what is on its way; when all
 * of that is back, the records are gone through again.
 */
static void await_page(struct eng_local *l, unsigned i)
{
        struct eng_reclaim *rc = &l->reclaim;

        assert(!rc->absent && i < rc->move.count);
        if (i > rc->wait.done)
                rc->wait.tries = 0;
        rc->wait.done = i;
        rc->wait.again = page_back;
        rc->absent = true;
        rc->out++;
        eng_pages_wait(l, &rc->wait);
}

static void copy_durable(void *arg, struct eng_append *append)
{
        struct eng_local *l = arg;
        int rv = eng_apply_copy(l, append);

        eng_count(&l->statistics.reclaim_copied, eng_rec_size(append->rec.body_len));
        eng_append_free(append);
        if (rv != 0)
                eng_local_fail(l, rv, "moving a record");
        else
                one_back(l);
}

static struct eng_buf *reclaim_log_copy_body(const struct eng_mut *mut)
{
        struct fmt_mutation head = {.kind = FMT_MUT_PUT, .name_len = mut->name_len, .value_len = mut->value_len};
        size_t at = sizeof(head);
        struct eng_buf *body = eng_buf_new(at + mut->name_len + mut->value_len + mut->inline_len);

        if (body == NULL)
                return NULL;
        memcpy(body->data, &head, sizeof(head));
        memcpy(body->data + at, mut->name, mut->name_len);
        at += mut->name_len;
        memcpy(body->data + at, mut->value, mut->value_len);
        at += mut->value_len;
        if (mut->inline_len > 0)
                memcpy(body->data + at, mut->inline_bytes, mut->inline_len);
        return body;
}

static int reclaim_log_append_copy(struct eng_local *l, const struct fmt_record *rec, const struct eng_mut *mut)
{
        struct eng_buf *body = reclaim_log_copy_body(mut);
        struct eng_append *append = body != NULL ? eng_append_new(FMT_RECORD_COPY, body) : NULL;

        eng_buf_unref(body);
        if (append == NULL)
                return -ENOMEM;
        assert(append->rec.body_len <= rec->body_len); /* a part of it */
        append->rec.body_crc = era_crc32c(0, append->body->data, append->body->len);
        append->rec.inline_len = mut->inline_len;
        append->rec.pg = rec->pg;
        append->rec.seq = rec->seq;
        append->rec.epoch = rec->epoch;
        append->rec.time_ms = rec->time_ms;
        append->durable = copy_durable;
        eng_log_append(l, append);
        l->reclaim.out++;
        l->reclaim.step_bytes += eng_rec_size(append->rec.body_len);
        return 0;
}

static int copy_record(struct eng_local *l, const struct fmt_record *rec, const uint8_t *body)
{
        struct eng_reclaim *rc = &l->reclaim;
        struct eng_mut mut;
        size_t pos = 0;
        int rv = 0;

        while (rv == 0 && eng_rec_next(body, rec->body_len, rec->inline_len, &pos, &mut) == 1) {
                if (mut.kind != FMT_MUT_PUT)
                        continue;
                rv = reclaim_log_lives(l, rec, &mut);
                if (rv == 1 && reclaim_log_is_busy(rc, rec->pg)) {
                        rc->met_busy++;
                        rv = 0;
                } else if (rv == 1) {
                        rv = reclaim_log_append_copy(l, rec, &mut);
                }
        }
        return rv;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void read_run(struct eng_job *job)
{
        eng_log_move_read(&OF(job, job)->reclaim.move);
}

/*
 * Goes through the records that were read. Again: what was copied has another place by now, and is
 * passed over.
 */
static void copy_step(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;
        unsigned i;
        int rv;

        assert(rc->file != NULL && rc->out == 0);
        rc->out = rc->met_busy = 0;
        rc->absent = false;
        rc->state = ENG_RECLAIM_APPEND;
        find_busy(l);
        rv = rc->move.result;
        for (i = 0; i < rc->move.count && rv == 0; i++)
                rv = copy_record(l, &rc->move.records[i].rec, rc->move.buffer + rc->move.records[i].at);
        if (rv == ENG_INDEX_ABSENT) {
                eng_log_kick(l);
                await_page(l, i - 1);
                return;
        }
        if (rv != 0) { /* memory, or the index: what was appended counts */
                rc->incomplete = true;
                rc->move.ended = true;
        }
        if (rc->out == 0)
                eng_reclaim_pace(l, rc->step_bytes, pass_on);
        else
                eng_log_kick(l);
}

static void reclaim_log_read_done(struct eng_job *job)
{
        struct eng_local *l = OF(job, job);
        struct eng_log_move *move = &l->reclaim.move;

        if (!eng_local_release(l) || eng_local_failed(l))
                return;
        assert(l->reclaim.state == ENG_RECLAIM_RECORDS && move->count <= ENG_MOVE_RECORDS);
        if (move->window.unreadable != move->unreadable)
                eng_local_read_error(l, move->ident.file | ENG_UNREADABLE_LOG, move->window.unreadable);
        move->unreadable = move->window.unreadable;
        l->reclaim.again = l->reclaim.wait.done = l->reclaim.wait.tries = 0;
        l->reclaim.step_bytes = move->position - l->reclaim.read_from;
        l->reclaim.read_from = move->position;
        copy_step(l);
}

static void reclaim_log_read_start(struct eng_local *l)
{
        struct eng_reclaim *rc = &l->reclaim;

        rc->state = ENG_RECLAIM_RECORDS;
        eng_local_give(l, &rc->worker, &rc->job, read_run, reclaim_log_read_done);
}

int eng_reclaim_log(struct eng_local *l, struct eng_log_file *victim)
{
        struct eng_reclaim *rc = &l->reclaim;

        assert(rc->state == ENG_RECLAIM_IDLE && victim != l->log.current);
        memset(&rc->move, 0, sizeof(rc->move));
        rc->read_from = 0;
        rc->move.buffer = malloc(ENG_MOVE_BYTES);
        if (rc->move.buffer == NULL)
                return -ENOMEM;
        rc->move.dir_fd = l->files.dir_fd;
        memcpy(rc->move.ident.drive_id, l->files.drive_id, FMT_ID);
        rc->move.ident.file = victim->number;
        rc->move.ident.generation = victim->generation;
        rc->move.end = victim->bytes != 0 ? victim->bytes : victim->capacity;
        rc->file = victim;
        rc->file_number = victim->number;
        victim->pins++;
        reclaim_log_read_start(l);
        return 0;
}
