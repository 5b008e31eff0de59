/*
 * recread.c - reading one record back from the log: inline bytes for LOOKUP, a pending record's body for RECORD.
 *
 * The owner loop knows the file and pins it; the op's home loop reads and verifies (header, place, body CRC, and that it is the record
 * meant), so that the bytes are checked where they are used (I5); the owner takes the pin back and keeps the bytes in its cache.
 * One eng_rec_reading exists per op under way, so their number is bounded by the ops.
 */
#include "engine/drive/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"

#define READ_MAX (sizeof(struct fmt_record) + FMT_BODY_MAX)

struct eng_rec_reading {
        /* set by the owner before it goes to the home loop */
        struct eng_local *l;
        struct eng_op *op;
        struct eng_log_file *file; /* pinned */
        struct eng_log_ident ident;
        uint64_t position;
        int fd;
        uint32_t want; /* bytes being read */
        struct eng_watch watch;

        /* home, until it goes back */
        struct lp_loop *home;
        struct lp_io io;
        struct eng_buf *buf;
        struct eng_buf *cached; /* for the owner's cache */
        uint8_t id[FMT_ID];
        int failed; /* errno of a failed read */
        struct lp_msg msg;
};

static struct eng_rec_reading *of_msg(struct lp_msg *msg)
{
        return (struct eng_rec_reading *)((char *)msg - offsetof(struct eng_rec_reading, msg));
}

/* ---- owner, afterwards ----------------------------------------------------------------------------- */

static void back_on_owner(struct lp_msg *msg)
{
        struct eng_rec_reading *r = of_msg(msg);
        struct eng_local *l = r->l;

        if (eng_local_release(l)) {
                eng_watch_end(l, &r->watch);
                r->file->pins--;
                if (r->cached != NULL)
                        eng_cache_put(l->cache, r->id, r->cached);
                atomic_store_explicit(&l->figures.cache_bytes, eng_cache_bytes(l->cache), memory_order_relaxed);
                if (r->failed != 0)
                        eng_local_fail(l, r->failed, "reading log file %llu", (unsigned long long)r->ident.file);
        }
        eng_buf_unref(r->cached);
        free(r);
}

/* ---- home ------------------------------------------------------------------------------------------ */

static void finish(struct eng_rec_reading *r, int rv)
{
        eng_buf_unref(r->buf);
        r->buf = NULL;
        r->failed = rv == -EIO ? rv : 0;
        eng_local_answer(r->op, rv);
        r->msg.run = back_on_owner;
        lp_post(r->l->drive.owner, &r->msg);
}

/* The inline bytes that the op's value speaks of, moved to the front of the buffer. */
static int take_inline(struct eng_rec_reading *r, const struct fmt_record *rec)
{
        const struct fmt_value *wanted = (const struct fmt_value *)r->op->lookup.value->data;
        const uint8_t *body = r->buf->data + sizeof(*rec);
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
                memmove(r->buf->data, mut.inline_bytes, mut.inline_len);
                r->buf->len = mut.inline_len;
                memcpy(r->id, value.id, FMT_ID);
                return 0;
        }
        return -EBADMSG;
}

/* The whole record is in the buffer and verified. */
static void use(struct eng_rec_reading *r, const struct fmt_record *rec)
{
        int rv = 0;

        eng_count(&r->l->figures.read_bytes, sizeof(*rec) + rec->body_len);
        if (r->op->kind == ENG_OP_LOOKUP) {
                rv = take_inline(r, rec);
                if (rv == 0) {
                        r->cached = eng_buf_ref(r->buf);
                        r->op->lookup.bytes = r->buf;
                        r->buf = NULL;
                }
        } else {
                memmove(r->buf->data, r->buf->data + sizeof(*rec), rec->body_len);
                r->buf->len = rec->body_len;
                r->op->append.body = r->buf;
                r->buf = NULL;
        }
        finish(r, rv);
}

static void read_bytes(struct eng_rec_reading *r, uint32_t want);

static void have_read(struct lp_io *io, int res)
{
        struct eng_rec_reading *r = (struct eng_rec_reading *)((char *)io - offsetof(struct eng_rec_reading, io));
        struct fmt_record rec;
        uint32_t need;

        if (res < (int)sizeof(rec)) {
                finish(r, res < 0 ? -EIO : -EBADMSG);
                return;
        }
        memcpy(&rec, r->buf->data, sizeof(rec));
        need = eng_rec_ok(&rec, &r->ident, r->position) ? (uint32_t)sizeof(rec) + rec.body_len : UINT32_MAX;
        if (need != UINT32_MAX && need > r->want)
                read_bytes(r, need);
        else if (need > (uint32_t)res || era_crc32c(0, r->buf->data + sizeof(rec), rec.body_len) != rec.body_crc)
                finish(r, -EBADMSG);
        else
                use(r, &rec);
}

static void read_bytes(struct eng_rec_reading *r, uint32_t want)
{
        eng_buf_unref(r->buf);
        r->buf = eng_buf_new(want);
        if (r->buf == NULL) {
                finish(r, -EAGAIN);
                return;
        }
        r->want = want;
        memset(&r->io, 0, sizeof(r->io));
        r->io.done = have_read;
        lp_read(r->home, &r->io, r->fd, r->buf->data, want, r->position);
}

static void on_home(struct lp_msg *msg)
{
        struct eng_rec_reading *r = of_msg(msg);

        read_bytes(r, r->want);
}

/* ---- owner, first ---------------------------------------------------------------------------------- */

void eng_rec_read(struct eng_local *l, struct eng_op *op, uint64_t file, uint64_t position, size_t expect)
{
        struct eng_log_file *f = eng_log_files_find(&l->files, file);
        int fd = f != NULL ? eng_log_file_read_fd(&l->files, f) : -EBADMSG;
        struct eng_rec_reading *r;

        if (fd < 0) { /* a file that should be there is not: what it held is damage, the drive may be sound */
                eng_local_answer(op, fd == -EMFILE || fd == -ENFILE ? -EAGAIN : -EBADMSG);
                return;
        }
        r = calloc(1, sizeof(*r));
        if (r == NULL) {
                eng_local_answer(op, -EAGAIN);
                return;
        }
        f->pins++;
        eng_watch_begin(l, &r->watch);
        eng_local_hold(l);
        r->l = l;
        r->op = op;
        r->file = f;
        memcpy(r->ident.drive_id, l->files.drive_id, FMT_ID);
        r->ident.file = file;
        r->ident.generation = f->generation;
        r->position = position;
        r->fd = fd;
        r->home = op->home;
        r->want = (uint32_t)(expect < READ_MAX ? expect : READ_MAX);
        r->msg.run = on_home;
        if (op->home == l->drive.owner)
                on_home(&r->msg);
        else
                lp_post(op->home, &r->msg);
}
