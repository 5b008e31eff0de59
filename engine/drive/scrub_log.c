/*
 * scrub_log.c - SCRUB, behind the segments: the log files that are closed, in the order of their
 * numbers, each record checked by its own checksums.
 *
 *   WINDOW   a stretch of the file, past the page cache; its whole records are checked
 *     | a record is not right, or the stretch cannot be read: nothing is said yet, it is read again ...
 *   BLOCKS   ... block by block; what cannot be read is as zeroes
 *     +-> a header that is right, a body that is not: the name that lives here, if it can still be told, is damaged
 *     +-> no header: a gap, up to the next record, or to the end of the file unless nothing but zeroes is there
 *
 * No false alarm: the bytes of a closed file never change (I3), and a name counts as damaged only
 * if tail or index say that its value stands in this very record. What is dead, torn by a crash, or
 * left of a longer batch that was written before, they do not name. Where no name can be told the
 * place is remembered (rot.c), and a value of which the index says that it stands there is damaged
 * when somebody asks for it with ENG_OP_WANT_RECORD.
 *
 * The op runs on the drive's own loop, one at a time, one read in flight, into memory of its own:
 * so the op is answered at once when the drive fails.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"

#define WINDOW   (sizeof(struct fmt_record) + FMT_BODY_MAX + 2 * FMT_BLOCK) /* any record fits, wherever it begins */
#define NOT_ZERO 1u /* in state.gap, which is a multiple of FMT_RECORD_ALIGN: some of it is not zero, or cannot be read */

/* One SCRUB of the log under way. owner: the loop */
struct eng_log_scrubbing {
        struct eng_flight flight; /* first */
        struct eng_local *l;
        struct eng_op *op;         /* NULL: it was answered */
        struct eng_log_file *file; /* pinned, its descriptors held; NULL: none */
        struct eng_want descriptors;
        struct eng_page_wait page; /* of the index: what was read is looked at again when it is there */
        struct eng_log_ident ident;
        uint8_t *bytes;            /* WINDOW */
        uint64_t from;             /* of bytes in the file, a multiple of FMT_BLOCK */
        uint32_t want, have;
        bool blocks, buffered;
        bool lost;                 /* some of bytes cannot be read and is zeroes ... */
        uint8_t gone[WINDOW / FMT_BLOCK + 2]; /* ... of these blocks */
        uint64_t read;
        struct lp_io io;
        struct eng_watch watch;
};

static struct fmt_drive_scrub *state_of(struct eng_log_scrubbing *s)
{
        return &s->op->scrub.state;
}

static uint64_t number_of(uint64_t segment)
{
        return segment & ~ENG_UNREADABLE_LOG;
}

/* ---- files ----------------------------------------------------------------------------------- */

static struct eng_log_file *closed_from(struct eng_local *l, uint64_t number)
{
        struct eng_log_file *f;

        TAILQ_FOREACH (f, &l->files.list, order)
                if (f->number >= number && f != l->log.current && !f->freed && !f->going)
                        return f;
        return NULL;
}

static void scrub_log_enter(struct fmt_drive_scrub *state, const struct eng_log_file *f)
{
        state->segment = f->number | ENG_UNREADABLE_LOG;
        state->generation = f->generation;
        state->position = FMT_BLOCK;
        state->gap = 0;
}

uint64_t eng_scrub_log_bytes(struct eng_local *l)
{
        struct eng_log_file *f;
        uint64_t bytes = 0;

        TAILQ_FOREACH (f, &l->files.list, order)
                bytes += f == l->log.current ? 0 : f->bytes;
        return bytes;
}

bool eng_scrub_log_first(struct eng_local *l, struct fmt_drive_scrub *state)
{
        struct eng_log_file *f = closed_from(l, 0), *last = f;

        if (f == NULL)
                return false;
        TAILQ_FOREACH (f, &l->files.list, order)
                if (f != l->log.current)
                        last = f;
        scrub_log_enter(state, closed_from(l, 0));
        state->last = last->number | ENG_UNREADABLE_LOG;
        return true;
}

/* The file that is to be read on; NULL: the round is over. One that is gone is passed by. */
static struct eng_log_file *current_file(struct eng_log_scrubbing *s)
{
        struct fmt_drive_scrub *state = state_of(s);
        struct eng_log_file *f = eng_log_files_find(&s->l->files, number_of(state->segment));

        if (f != NULL && f->going)
                f = NULL;
        if (f != NULL && f != s->l->log.current && state->position >= FMT_BLOCK && state->position % FMT_RECORD_ALIGN == 0 &&
            state->position < f->bytes)
                return f;
        if (f != NULL && (state->gap & NOT_ZERO) != 0 && (state->gap & ~(uint64_t)NOT_ZERO) < f->bytes) /* the state is what the index has kept */
                eng_rot_add_gap(s->l, state->segment, state->gap & ~(uint64_t)NOT_ZERO, f->bytes, false);
        f = closed_from(s->l, number_of(state->segment) + 1);
        while (f != NULL && (f->bytes <= FMT_BLOCK || f == s->l->log.current))
                f = closed_from(s->l, f->number + 1);
        if (f == NULL || f->number > number_of(state->last))
                return NULL;
        scrub_log_enter(state, f);
        return f;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void log_scrub_gone(struct eng_flight *flight)
{
        free(((struct eng_log_scrubbing *)flight)->bytes);
        free(flight);
}

static void log_scrub_answer(struct eng_log_scrubbing *s, int rv)
{
        struct eng_local *l = s->l;
        struct eng_op *op = s->op;

        assert(l->rot.scrubbing);
        if (s->file != NULL) {
                assert(s->file->pins > 0);
                eng_fd_put(l, &s->file->fd);
                s->file->pins--;
        }
        eng_flight_leave(l, &s->flight);
        l->rot.scrubbing = false;
        if (op != NULL && rv == 0) {
                eng_count(&l->statistics.read_bytes, s->read);
                eng_rot_answer(l, op);
        }
        s->op = NULL;
        if (op != NULL && rv != 0) {
                eng_buf_unref(op->scrub.names);
                op->scrub.names = NULL;
        }
        if (op != NULL)
                eng_local_answer(op, rv);
        eng_flight_end(&s->flight);
}

/* Nobody waits for an answer: the drive is closed. */
static void log_scrub_forget(struct eng_log_scrubbing *s)
{
        eng_flight_leave(s->l, &s->flight);
        eng_flight_end(&s->flight);
}

/* The drive has failed. */
static void log_scrub_give_up(struct eng_flight *flight)
{
        struct eng_log_scrubbing *s = (struct eng_log_scrubbing *)flight;

        if (s->op != NULL)
                eng_local_answer(s->op, -EIO);
        s->op = NULL;
}

/* ---- what was read --------------------------------------------------------------------------- */

static void scrub_log_move_to(struct eng_log_scrubbing *s, uint64_t position)
{
        assert(position >= state_of(s)->position);
        state_of(s)->bytes += position - state_of(s)->position;
        state_of(s)->position = position;
}

static const uint8_t *bytes_at(const struct eng_log_scrubbing *s, uint64_t position, uint64_t need)
{
        assert(position >= s->from);
        return position - s->from + need <= s->have ? s->bytes + (position - s->from) : NULL;
}

static bool header_at(const struct eng_log_scrubbing *s, uint64_t position, struct fmt_record *rec)
{
        const uint8_t *bytes = bytes_at(s, position, sizeof(*rec));

        if (bytes == NULL)
                return false;
        memcpy(rec, bytes, sizeof(*rec));
        return rec->magic == FMT_RECORD_MAGIC && eng_rec_ok(rec, &s->ident, position);
}

/*
 * Whether the value that counts stands in this record. 1, 0, or negative errno, to be tried again.
 */
static int name_lives(struct eng_log_scrubbing *s, const struct fmt_record *rec, const struct eng_mut *mut)
{
        struct eng_buf *value = NULL;
        const struct fmt_value *head;
        int rv;

        rv = eng_lookup_value(s->l, mut->name, mut->name_len, &value);
        eng_local_index_error(s->l, rv);
        if (rv == -ENOENT || rv == -EBADMSG)
                return 0;
        if (rv != 0)
                return rv;
        head = (const struct fmt_value *)value->data;
        rv = value->len >= sizeof(*head) && head->log_file == rec->file && head->log_position == rec->position;
        eng_buf_unref(value);
        return rv;
}

/* Adds a name to the op's. -ENOMEM. */
static int scrub_log_add_name(struct eng_op *op, const struct eng_mut *mut)
{
        struct eng_buf *before = op->scrub.names;
        uint16_t len = (uint16_t)mut->name_len;
        size_t had = before == NULL ? 0 : before->len;
        struct eng_buf *names = eng_buf_new(had + sizeof(len) + len);

        if (names == NULL)
                return -ENOMEM;
        if (had != 0)
                memcpy(names->data, before->data, had);
        memcpy(names->data + had, &len, sizeof(len));
        memcpy(names->data + had + sizeof(len), mut->name, len);
        eng_buf_unref(before);
        op->scrub.names = names;
        return 0;
}

/*
 * The names in a damaged record whose values stand there: that of a version has two. 1: they are the
 * op's; 0: none can be told; negative errno. all: the record has no other names.
 */
static int scrub_log_find_names(struct eng_log_scrubbing *s, const struct fmt_record *rec, bool *all)
{
        const uint8_t *body = bytes_at(s, rec->position, sizeof(*rec) + rec->body_len);
        struct eng_mut mut;
        size_t pos = 0;
        unsigned names = 0, found = 0;
        int rv = 0;

        *all = false;
        if (body == NULL || (rec->type != FMT_RECORD_PG && rec->type != FMT_RECORD_COPY))
                return 0;
        body += sizeof(*rec);
        while (rv == 0 && eng_rec_next(body, rec->body_len, rec->inline_len, &pos, &mut) == 1) {
                names++;
                rv = mut.kind == FMT_MUT_PUT ? name_lives(s, rec, &mut) : 0;
                if (rv == 1) {
                        found++;
                        rv = scrub_log_add_name(s->op, &mut);
                }
        }
        if (rv < 0)
                return rv;
        *all = names == found && pos + rec->inline_len == rec->body_len;
        return found > 0;
}

/* 0, or negative errno: to be tried again. */
static int record_damaged(struct eng_log_scrubbing *s, const struct fmt_record *rec)
{
        uint64_t end = rec->position + eng_rec_size(rec->body_len);
        bool all;
        int rv = scrub_log_find_names(s, rec, &all);

        if (rv < 0)
                return rv;
        eng_rot_add_gap(s->l, state_of(s)->segment, rec->position, end, all && rv == 1);
        if (s->lost)
                eng_local_read_error(s->l, state_of(s)->segment, rec->position);
        if (rv == 1) {
                s->op->scrub.damaged = true;
                state_of(s)->damaged++;
        }
        scrub_log_move_to(s, end);
        return 0;
}

enum looked { LOOKED_ON, LOOKED_AGAIN, LOOKED_MORE };

/* The record at this place, whose header is right. */
static int scrub_log_take_record(struct eng_log_scrubbing *s, const struct fmt_record *rec, enum looked *next)
{
        const uint8_t *bytes = bytes_at(s, rec->position, sizeof(*rec) + rec->body_len);
        struct fmt_drive_scrub *state = state_of(s);
        uint64_t gap = state->gap & ~(uint64_t)NOT_ZERO;

        *next = LOOKED_MORE;
        if (bytes == NULL && rec->position + sizeof(*rec) + rec->body_len <= s->file->bytes)
                return 0; /* the rest is behind what was read */
        if (bytes == NULL || era_crc32c(0, bytes + sizeof(*rec), rec->body_len) != rec->body_crc) {
                *next = s->blocks ? LOOKED_ON : LOOKED_AGAIN;
                if (!s->blocks)
                        return 0;
        }
        if (gap != 0 && gap < rec->position && ((state->gap & NOT_ZERO) != 0 || rec->position > eng_round_up(gap, FMT_BLOCK)))
                eng_rot_add_gap(s->l, state->segment, gap, rec->position, false);
        state->gap = 0;
        scrub_log_move_to(s, rec->position);
        if (*next == LOOKED_ON)
                return record_damaged(s, rec);
        *next = LOOKED_ON;
        eng_rot_sound(s->l, state->segment, rec->position);
        state->frames++;
        scrub_log_move_to(s, rec->position + eng_rec_size(rec->body_len));
        return 0;
}

static const uint8_t zeroes[FMT_RECORD_ALIGN];

static bool scrub_log_is_zero(const struct eng_log_scrubbing *s, uint64_t position)
{
        const uint8_t *bytes = bytes_at(s, position, FMT_RECORD_ALIGN);

        return !s->lost && (bytes == NULL || memcmp(bytes, zeroes, sizeof(zeroes)) == 0);
}

/*
 * Behind the last record of a batch, which ends at a multiple of FMT_BLOCK: there is nothing. What
 * is not zero was a record.
 */
static bool is_padding(const struct eng_log_scrubbing *s, uint64_t position, uint64_t end)
{
        const uint8_t *bytes;

        if (s->gone[(position - s->from) / FMT_BLOCK] != 0)
                return false;
        for (; position < end; position += FMT_RECORD_ALIGN) {
                bytes = bytes_at(s, position, FMT_RECORD_ALIGN);
                if (bytes != NULL && memcmp(bytes, zeroes, sizeof(zeroes)) != 0)
                        return false;
        }
        return true;
}

/* No record begins here. */
static void scrub_log_step_over(struct eng_log_scrubbing *s)
{
        struct fmt_drive_scrub *state = state_of(s);

        if (state->gap == 0)
                state->gap = state->position;
        if (!scrub_log_is_zero(s, state->position))
                state->gap |= NOT_ZERO;
        scrub_log_move_to(s, state->position + FMT_RECORD_ALIGN);
}

/* More must be read before it can be said what stands here. */
static bool is_cut_off(const struct eng_log_scrubbing *s, uint64_t block)
{
        const struct fmt_drive_scrub *state = &s->op->scrub.state;
        uint64_t last = state->gap == 0 ? block : state->position;

        return bytes_at(s, last, sizeof(struct fmt_record)) == NULL && s->from + s->have < s->file->bytes;
}

/* Looks at what was read, as far as it goes. 0, or negative errno: to be tried again. */
static int look_through(struct eng_log_scrubbing *s, enum looked *next)
{
        struct fmt_drive_scrub *state = state_of(s);
        struct fmt_record rec;
        int rv = 0;

        *next = LOOKED_ON;
        while (rv == 0 && *next == LOOKED_ON && !s->op->scrub.damaged && state->position - s->from + FMT_RECORD_ALIGN <= s->have) {
                uint64_t block = eng_round_up(state->position, FMT_BLOCK);

                if (header_at(s, state->position, &rec) ||
                    (state->gap == 0 && is_padding(s, state->position, block) && header_at(s, block, &rec)))
                        rv = scrub_log_take_record(s, &rec, next);
                else if (is_cut_off(s, block))
                        *next = LOOKED_MORE;
                else if (!s->blocks && state->gap == 0 && !(scrub_log_is_zero(s, state->position) && scrub_log_is_zero(s, block)))
                        *next = LOOKED_AGAIN;
                else
                        scrub_log_step_over(s);
        }
        return rv;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void log_scrub_go(struct eng_log_scrubbing *s);
static void log_scrub_have(struct lp_io *io, int res);

static void scrub_log_submit(struct eng_log_scrubbing *s)
{
        const struct eng_fd *fd = &s->file->fd;
        bool direct = !s->buffered && fd->direct_fd >= 0 && !s->l->files.no_direct;
        uint32_t want = s->blocks ? FMT_BLOCK : s->want;

        assert(want > 0 && s->have + want <= eng_round_up(WINDOW, FMT_BLOCK));
        s->io.done = log_scrub_have;
        lp_read(s->l->drive.owner, &s->io, direct ? fd->direct_fd : fd->read_fd, s->bytes + s->have, want, s->from + s->have);
}

static void read_on(struct eng_log_scrubbing *s)
{
        eng_watch_begin_read(s->l, &s->watch, NULL);
        eng_local_hold(s->l);
        scrub_log_submit(s);
}

/* From the block in which the position is. */
static void read_window(struct eng_log_scrubbing *s, bool blocks, uint64_t most)
{
        uint64_t left;

        s->from = state_of(s)->position / FMT_BLOCK * FMT_BLOCK;
        left = eng_round_up(s->file->bytes, FMT_BLOCK) - s->from;
        most = eng_round_up(most < WINDOW ? most : WINDOW, FMT_BLOCK);
        s->want = (uint32_t)(left < most ? left : most);
        s->have = 0;
        s->blocks = blocks;
        s->lost = false;
        memset(s->gone, 0, sizeof(s->gone));
        read_on(s);
}

static void log_scrub_look(struct eng_log_scrubbing *s)
{
        enum looked next = LOOKED_ON;
        uint64_t before = state_of(s)->position;
        int rv = look_through(s, &next);

        if (eng_local_failed(s->l)) /* by what the index said */
                log_scrub_answer(s, -EIO);
        else if (rv == ENG_INDEX_ABSENT)
                eng_pages_wait(s->l, &s->page);
        else if (rv != 0)
                log_scrub_answer(s, -EAGAIN);
        else if (next == LOOKED_AGAIN)
                read_window(s, true, WINDOW);
        else if (next == LOOKED_MORE && state_of(s)->position == before)
                read_window(s, s->blocks, WINDOW); /* a record that is longer than what was read */
        else if (s->op->scrub.damaged || s->read >= s->op->scrub.most)
                log_scrub_answer(s, 0);
        else
                log_scrub_go(s);
}

static void log_scrub_page_came(struct eng_local *l, struct eng_page_wait *wait, int rv)
{
        struct eng_log_scrubbing *s = container_of(wait, struct eng_log_scrubbing, page);

        if (rv == -ECANCELED)
                log_scrub_forget(s);
        else if (rv == 0 && s->op != NULL && !eng_local_failed(l))
                log_scrub_look(s);
        else
                log_scrub_answer(s, rv != 0 && !eng_local_failed(l) ? rv : -EIO);
}

/*
 * One block, or all that was wanted. What is not there is as zeroes. True: there is more to be read
 * before it is looked at.
 */
static bool took(struct eng_log_scrubbing *s, int res)
{
        uint32_t want = s->blocks ? FMT_BLOCK : s->want, got = res > 0 ? (uint32_t)res : 0;

        if (got < want) {
                if (res < 0 || s->from + s->have + got < s->file->bytes) {
                        s->lost = true;
                        memset(s->gone + (s->have + got) / FMT_BLOCK, 1, (s->have + want - 1) / FMT_BLOCK - (s->have + got) / FMT_BLOCK + 1);
                }
                memset(s->bytes + s->have + got, 0, want - got);
        }
        s->have += want;
        return s->have < s->want;
}

static void log_scrub_have(struct lp_io *io, int res)
{
        struct eng_log_scrubbing *s = container_of(io, struct eng_log_scrubbing, io);
        struct eng_local *l = s->l;

        if (res == -EINVAL && !s->buffered) { /* the file system wants larger blocks */
                s->buffered = true;
                scrub_log_submit(s);
                return;
        }
        if (!eng_local_release(l)) {
                eng_flight_end(&s->flight);
                return;
        }
        eng_watch_end(l, &s->watch);
        s->read += res > 0 ? (uint32_t)res : FMT_BLOCK; /* what was read in vain counts as well */
        if (s->op == NULL || eng_local_failed(l)) {
                log_scrub_answer(s, -EIO);
        } else if (res < 0 && !eng_io_unreadable(res)) {
                log_scrub_answer(s, -EAGAIN);
        } else if (res < 0 && !s->blocks) {
                read_window(s, true, WINDOW);
        } else if (took(s, res)) {
                read_on(s);
        } else {
                s->page.tries = 0;
                s->page.again = log_scrub_page_came;
                log_scrub_look(s);
        }
}

static void scrub_log_begin_file(struct eng_log_scrubbing *s)
{
        assert(s->file->pins > 0 && s->file->fd.users > 0);
        memcpy(s->ident.drive_id, s->l->files.drive_id, FMT_ID);
        s->ident.file = s->file->number;
        s->ident.generation = s->file->generation; /* known since it was opened */
        read_window(s, false, s->op->scrub.most);
}

static void log_scrub_have_fds(struct eng_want *want, int rv)
{
        struct eng_log_scrubbing *s = container_of(want, struct eng_log_scrubbing, descriptors);
        struct eng_log_file *f = s->file;

        if (rv == 0 && s->op != NULL) {
                scrub_log_begin_file(s);
                return;
        }
        if (rv != 0) { /* they are not held */
                assert(f->pins > 0);
                s->file = NULL;
                f->pins--;
        }
        if (rv == -ECANCELED) {
                log_scrub_forget(s);
        } else if (rv == -EBADMSG && s->op != NULL) { /* the file is lost: so is all that may be in it */
                state_of(s)->gap = FMT_BLOCK | NOT_ZERO;
                scrub_log_move_to(s, f->bytes > FMT_BLOCK ? eng_round_up(f->bytes, FMT_RECORD_ALIGN) : FMT_BLOCK);
                log_scrub_go(s);
        } else {
                log_scrub_answer(s, rv == 0 ? -EIO : rv);
        }
}

/* Reads on where the position is, or answers. */
static void log_scrub_go(struct eng_log_scrubbing *s)
{
        struct eng_log_file *f = current_file(s);

        if (f == s->file && f != NULL) {
                scrub_log_begin_file(s);
                return;
        }
        if (s->file != NULL) {
                eng_fd_put(s->l, &s->file->fd);
                s->file->pins--;
                s->file = NULL;
        }
        s->op->scrub.ended = f == NULL;
        if (f == NULL) {
                log_scrub_answer(s, 0);
                return;
        }
        s->file = f;
        f->pins++;
        s->descriptors.have = log_scrub_have_fds;
        if (eng_fd_get(s->l, &f->fd, &s->descriptors) == 0)
                scrub_log_begin_file(s);
}

void eng_scrub_log(struct eng_local *l, struct eng_op *op)
{
        struct eng_log_scrubbing *s = calloc(1, sizeof(*s));

        if (s != NULL)
                s->bytes = aligned_alloc(FMT_BLOCK, eng_round_up(WINDOW, FMT_BLOCK));
        if (s == NULL || s->bytes == NULL) {
                free(s);
                eng_local_answer(op, -EAGAIN);
                return;
        }
        s->l = l;
        s->op = op;
        assert(!l->rot.scrubbing);
        l->rot.scrubbing = true;
        eng_flight_begin(l, &s->flight, l->drive.owner, log_scrub_give_up, log_scrub_gone);
        log_scrub_go(s);
}
