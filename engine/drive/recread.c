/*
 * recread.c - reading one record back from the log: inline bytes for LOOKUP, a pending record's
 * body for RECORD.
 *
 * The owner loop knows the file and pins it; the op's home loop reads and verifies (header, place,
 * body CRC, and that it is the record meant), so that the bytes are checked where they are used
 * (I5); the owner takes the pin back and keeps the bytes in its cache. One eng_rec_reading exists
 * per op under way, so their number is bounded by the ops. Some stay, with their blocks, for ops to
 * come.
 *
 * As in read.c, what is read for the first time is read past the page cache: the record, and what
 * it takes to begin and end where the drive can. What was read before, no longer ago than memory
 * reaches, is read through the page cache and stays there.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"

#define READ_MAX    (sizeof(struct fmt_record) + FMT_BODY_MAX)
#define SPARE_BLOCK (16u << 10) /* an object of 4 KiB with all that comes before it, in any place, and then some */
#define SPARES_MAX  64u

struct eng_rec_reading {
        struct eng_flight flight; /* first */
        uint8_t *spare; /* SPARE_BLOCK bytes, as aligned as direct reads need */
        struct eng_rec_reading *next;

        /* set by the owner before it goes to the home loop */
        struct eng_local *l;
        struct eng_op *op;
        struct eng_log_file *file; /* pinned */
        struct eng_want descriptors;
        int read_fd, direct_fd; /* in use until the I/O has ended */
        uint32_t direct_block;
        struct eng_log_ident ident;
        uint64_t position;
        uint32_t want; /* bytes of the record being read */
        bool direct;   /* past the page cache */
        struct eng_watch watch;

        /* home, until it goes back */
        struct lp_loop *home;
        struct lp_io io;
        uint8_t *large;         /* instead of spare, for a record that does not fit there */
        const uint8_t *record;  /* where it begins in what is read */
        struct eng_buf *cached; /* for the owner's cache */
        uint8_t id[FMT_ID];
        bool refused; /* direct reads are nothing for this file system */
        bool unreadable;
        struct lp_msg msg;
};

static struct eng_rec_reading *recread_of_msg(struct lp_msg *msg)
{
        return container_of(msg, struct eng_rec_reading, msg);
}

/* ---- owner: memory --------------------------------------------------------------------------- */

static void recread_destroy(struct eng_rec_reading *r)
{
        free(r->spare);
        free(r);
}

static void recread_gone(struct eng_flight *flight)
{
        recread_destroy((struct eng_rec_reading *)flight);
}

static struct eng_rec_reading *take_spare(struct eng_local *l)
{
        struct eng_rec_reading *r = l->spares.first;

        assert((r == NULL) == (l->spares.count == 0));
        if (r != NULL) {
                l->spares.first = r->next;
                l->spares.count--;
                *r = (struct eng_rec_reading){.spare = r->spare};
                return r;
        }
        r = calloc(1, sizeof(*r));
        if (r == NULL)
                return NULL;
        r->spare = aligned_alloc(FMT_BLOCK, SPARE_BLOCK);
        if (r->spare == NULL) {
                free(r);
                return NULL;
        }
        return r;
}

static void give_spare(struct eng_local *l, struct eng_rec_reading *r)
{
        if (l->spares.count == SPARES_MAX) {
                recread_destroy(r);
                return;
        }
        r->next = l->spares.first;
        l->spares.first = r;
        l->spares.count++;
}

void eng_rec_read_free(struct eng_local *l)
{
        struct eng_rec_reading *r;

        while ((r = l->spares.first) != NULL) {
                l->spares.first = r->next;
                recread_destroy(r);
        }
        l->spares.count = 0;
        eng_ghosts_clear(&l->record_ghosts);
}

/* ---- owner, afterwards ----------------------------------------------------------------------- */

static void recread_back_on_owner(struct lp_msg *msg)
{
        struct eng_rec_reading *r = recread_of_msg(msg);
        struct eng_local *l = r->l;

        assert(eng_local_on_loop(l) && r->op == NULL && r->large == NULL);
        if (!eng_local_release(l)) {
                eng_buf_unref(r->cached);
                eng_flight_end(&r->flight);
                return;
        }
        eng_watch_end(l, &r->watch);
        eng_flight_leave(l, &r->flight);
        assert(r->file->pins > 0);
        eng_fd_put(l, &r->file->fd);
        r->file->pins--;
        if (r->refused)
                l->files.no_direct = true;
        if (r->cached != NULL)
                eng_cache_put(l->cache, r->id, r->cached);
        atomic_store_explicit(&l->statistics.cache_bytes, eng_cache_bytes(l->cache), memory_order_relaxed);
        if (r->unreadable)
                eng_local_read_error(l, r->ident.file | ENG_UNREADABLE_LOG, r->position);
        eng_buf_unref(r->cached);
        r->cached = NULL;
        if (!r->flight.asked)
                give_spare(l, r);
        else
                eng_flight_end(&r->flight);
}

/* ---- home ------------------------------------------------------------------------------------ */

static void recread_finish(struct eng_rec_reading *r, int rv)
{
        assert(lp_self() == r->home);
        free(r->large);
        r->large = NULL;
        if (r->op != NULL)
                eng_local_answer(r->op, rv);
        r->op = NULL;
        r->msg.run = recread_back_on_owner;
        lp_post(r->l->drive.owner, &r->msg);
}

static int recread_copy(const uint8_t *bytes, size_t len, struct eng_buf **out)
{
        struct eng_buf *buf = eng_buf_new(len);

        if (buf == NULL)
                return -EAGAIN;
        memcpy(buf->data, bytes, len);
        *out = buf;
        return 0;
}

/*
 * The drive has failed, or gives these bytes too late: then they are as unreadable. What is read
 * into is this reading's own.
 */
static void recread_give_up(struct eng_flight *flight)
{
        struct eng_rec_reading *r = (struct eng_rec_reading *)flight;

        if (r->op == NULL)
                return;
        eng_local_answer(r->op, eng_local_failed(r->l) ? -EIO : -EBADMSG);
        r->op = NULL;
}

/* The inline bytes that the op's value speaks of. */
static int take_inline(struct eng_rec_reading *r, const struct fmt_record *rec)
{
        const struct fmt_value *wanted = (const struct fmt_value *)r->op->lookup.value->data;
        const uint8_t *body = r->record + sizeof(*rec);
        struct fmt_value value;
        struct eng_mut mut;
        size_t pos = 0;

        while (eng_rec_next(body, rec->body_len, rec->inline_len, &pos, &mut) == 1) {
                if (mut.kind != FMT_MUT_PUT || mut.value_len < sizeof(value) ||
                    eng_name_compare(mut.name, mut.name_len, r->op->lookup.name, r->op->lookup.name_len) != 0)
                        continue;
                memcpy(&value, mut.value, sizeof(value));
                if (memcmp(value.id, wanted->id, FMT_ID) != 0 || mut.inline_len != wanted->inline_len)
                        return -EBADMSG;
                memcpy(r->id, value.id, FMT_ID);
                return recread_copy(mut.inline_bytes, mut.inline_len, &r->op->lookup.bytes);
        }
        return -EBADMSG;
}

/* The whole record is there and verified. */
static void use(struct eng_rec_reading *r, const struct fmt_record *rec)
{
        int rv;

        eng_count(&r->l->statistics.read_bytes, sizeof(*rec) + rec->body_len);
        if (r->op->kind == ENG_OP_LOOKUP) {
                rv = take_inline(r, rec);
                if (rv == 0)
                        r->cached = eng_buf_ref(r->op->lookup.bytes);
        } else {
                rv = recread_copy(r->record + sizeof(*rec), rec->body_len, &r->op->append.body);
        }
        recread_finish(r, rv);
}

static void recread_bytes(struct eng_rec_reading *r, uint32_t want);

/* The bytes of the record, or as many of them as were wanted, are there. */
static void recread_look(struct eng_rec_reading *r, uint32_t got)
{
        struct fmt_record rec;
        uint32_t need;

        memcpy(&rec, r->record, sizeof(rec));
        need = eng_rec_ok(&rec, &r->ident, r->position) ? (uint32_t)sizeof(rec) + rec.body_len : UINT32_MAX;
        if (need != UINT32_MAX && need > r->want)
                recread_bytes(r, need);
        else if (need > got || era_crc32c(0, r->record + sizeof(rec), rec.body_len) != rec.body_crc)
                recread_finish(r, -EBADMSG);
        else
                use(r, &rec);
}

static void have_read(struct lp_io *io, int res)
{
        struct eng_rec_reading *r = container_of(io, struct eng_rec_reading, io);
        uint32_t before = (uint32_t)(r->position - io->offset); /* bytes read before the record */

        if (r->op == NULL) { /* answered as the drive failed */
                recread_finish(r, -EIO);
        } else if (res == -EINVAL && r->direct) { /* the file system wants larger blocks than the log has */
                r->direct = false;
                r->refused = true;
                recread_bytes(r, r->want);
        } else if (res < 0) {
                r->unreadable = eng_io_unreadable(res);
                recread_finish(r, r->unreadable ? -EBADMSG : -EAGAIN);
        } else if ((uint32_t)res < before + sizeof(struct fmt_record)) {
                recread_finish(r, -EBADMSG);
        } else {
                recread_look(r, (uint32_t)res - before);
        }
}

static void recread_bytes(struct eng_rec_reading *r, uint32_t want)
{
        uint64_t block = r->direct ? r->direct_block : 1;
        uint64_t from = r->position / block * block, end = eng_round_up(r->position + want, block);
        uint8_t *to = r->spare;

        assert(want >= sizeof(struct fmt_record) && want <= READ_MAX);
        free(r->large);
        r->large = NULL;
        if (end - from > SPARE_BLOCK)
                to = r->large = aligned_alloc(FMT_BLOCK, eng_round_up(end - from, FMT_BLOCK));
        if (to == NULL) {
                recread_finish(r, -EAGAIN);
                return;
        }
        r->want = want;
        r->record = to + (r->position - from);
        memset(&r->io, 0, sizeof(r->io));
        r->io.done = have_read;
        lp_read(r->home, &r->io, r->direct ? r->direct_fd : r->read_fd, to, (uint32_t)(end - from), from);
}

static void recread_on_home(struct lp_msg *msg)
{
        struct eng_rec_reading *r = recread_of_msg(msg);

        recread_bytes(r, r->want);
}

/* ---- owner, first ---------------------------------------------------------------------------- */

/* The descriptors are there. */
static void recread_go(struct eng_local *l, struct eng_rec_reading *r)
{
        const struct eng_log_file *f = r->file;

        assert(f->pins > 0 && f->fd.users > 0);
        r->read_fd = f->fd.read_fd;
        r->direct_fd = f->fd.direct_fd;
        r->direct_block = f->fd.direct_block;
        r->ident.generation = f->generation;
        r->direct = !eng_ghosts_touch(&l->record_ghosts, f->generation, r->position) && r->direct_fd >= 0 && !l->files.no_direct;
        r->watch.file = r->ident.file | ENG_UNREADABLE_LOG;
        r->watch.position = r->position;
        eng_watch_begin_read(l, &r->watch, &r->flight);
        eng_local_hold(l);
        eng_flight_begin(l, &r->flight, r->home, recread_give_up, recread_gone);
        r->msg.run = recread_on_home;
        if (r->home == l->drive.owner)
                recread_on_home(&r->msg);
        else
                lp_post(r->home, &r->msg);
}

static void recread_have_fds(struct eng_want *want, int rv)
{
        struct eng_rec_reading *r = container_of(want, struct eng_rec_reading, descriptors);
        struct eng_local *l = r->l;
        struct eng_op *op = r->op;

        if (rv == 0) {
                recread_go(l, r);
                return;
        }
        assert(r->file->pins > 0);
        r->file->pins--;
        give_spare(l, r);
        if (rv != -ECANCELED)
                eng_local_answer(op, rv);
}

void eng_rec_read(struct eng_local *l, struct eng_op *op, uint64_t file, uint64_t position, size_t expect)
{
        struct eng_log_file *f = eng_log_files_find(&l->files, file);
        struct eng_rec_reading *r = f != NULL ? take_spare(l) : NULL;

        if (r == NULL) { /* a file that should be there is not: what it held is damage, the drive may be sound */
                eng_local_answer(op, f != NULL ? -EAGAIN : -EBADMSG);
                return;
        }
        if (f->going) { /* by its row nothing lives in it, and it is being unlinked: the row was wrong. It is gone the next time */
                give_spare(l, r);
                eng_local_answer(op, -EAGAIN);
                return;
        }
        assert(op->kind == ENG_OP_LOOKUP ? op->lookup.value != NULL && op->lookup.bytes == NULL
                                         : op->kind == ENG_OP_RECORD && op->append.body == NULL);
        f->pins++;
        r->l = l;
        r->op = op;
        r->file = f;
        r->home = op->home;
        memcpy(r->ident.drive_id, l->files.drive_id, FMT_ID);
        r->ident.file = file;
        r->position = position;
        r->want = (uint32_t)(expect < READ_MAX ? expect : READ_MAX);
        r->descriptors.have = recread_have_fds;
        if (eng_fd_get(l, &f->fd, &r->descriptors) == 0)
                recread_go(l, r);
}
