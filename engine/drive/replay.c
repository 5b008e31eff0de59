/*
 * replay.c - reading the log back when a drive is opened.
 *
 * Begins where the durable index ends (or at the oldest file, when the index is gone: I4) and follows the chain across files. Records
 * known committed are applied, the others stay pending for recovery to settle (TAIL, RECORD). Where the chain ends:
 * - a later file that chains on: the log goes on there;
 * - a gap of files that FREED records explain: the same;
 * - nothing behind it but what one torn batch may leave: the end of the log;
 * - anything else: damage (-EBADMSG, the text names file and offset), to be repaired from replicas.
 *
 * A tear leaves bytes behind that look like records of this file and generation. They are never overwritten in part: if there are any, the
 * next append begins a new file whose header chains to the last good record, and replay leaves this file at that record for
 * ever, because a following file that chains on outranks whatever stands behind it.
 *
 * Blocking; the thread that opens the drive, before any loop knows it.
 */
#include "engine/drive/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/identity.h"
#include "engine/drive/local.h"

struct range_list {
        struct fmt_freed *items;
        size_t count, size;
};

struct replay {
        struct eng_local *l;
        struct eng_error *error;
        struct eng_replay_file *files;
        size_t count;
        size_t at; /* file being read */
        uint64_t position;
        uint32_t crc; /* chain */
        struct eng_log_rest rest; /* behind the end of the last file */
        uint64_t spare;           /* number of a file made ahead that may be used; 0: none */
        struct range_list gaps, freed;
};

static int range_add(struct range_list *list, const struct fmt_freed *range)
{
        size_t size = list->size == 0 ? 16 : 2 * list->size;
        struct fmt_freed *items;

        if (list->count == list->size) {
                items = realloc(list->items, size * sizeof(*items));
                if (items == NULL)
                        return -ENOMEM;
                list->items = items;
                list->size = size;
        }
        list->items[list->count++] = *range;
        return 0;
}

/* One of the ranges holds all of this one. */
static bool range_in(const struct range_list *list, const struct fmt_freed *range)
{
        size_t i;

        for (i = 0; i < list->count; i++)
                if (list->items[i].first <= range->first && range->last <= list->items[i].last)
                        return true;
        return false;
}

static int damaged(struct replay *r, uint64_t file, uint64_t position, const char *what)
{
        return eng_error_set(r->error, -EBADMSG, "%s: log file %016llx.log is damaged at offset %llu: %s", r->l->path,
                             (unsigned long long)file, (unsigned long long)position, what);
}

static int trouble(struct replay *r, uint64_t file, int rv)
{
        return eng_error_set(r->error, rv, "%s: log file %016llx.log: %s", r->l->path, (unsigned long long)file,
                             strerror(-rv));
}

/* ---- records --------------------------------------------------------------------------------------- */

/* A record as replay keeps it: without its inline bytes, which stay in the log. */
static struct eng_append *keep(const struct fmt_record *rec, const uint8_t *body)
{
        struct eng_append *append = calloc(1, sizeof(*append));
        size_t len = rec->body_len - rec->inline_len;

        if (append == NULL)
                return NULL;
        append->rec = *rec;
        append->head = eng_buf_new(len);
        if (append->head == NULL) {
                free(append);
                return NULL;
        }
        memcpy(append->head->data, body, len);
        return append;
}

/*
 * Memory is bounded: a generation that reaches the bound goes into the index. Where the file system has no room for that, it may grow some more:
 * a full drive is to be opened, so that things can be deleted.
 */
static int make_room(struct eng_local *l)
{
        int rv = l->active->bytes < l->tail_bytes ? 0 : eng_batch_now(l);

        return rv == -ENOSPC && l->active->bytes < ENG_FULL_TAILS * l->tail_bytes ? 0 : rv;
}

static int take_pg(struct replay *r, const struct fmt_record *rec, const uint8_t *body)
{
        struct eng_log_pg *pg = eng_pgs_get(&r->l->pgs, rec->pg);
        struct eng_append *append = pg != NULL ? keep(rec, body) : NULL;
        int rv;

        if (append == NULL)
                return -ENOMEM;
        if (!eng_pgs_add(&r->l->pgs, pg, append))
                eng_append_free(append);
        eng_pgs_set_committed(pg, rec->committed);
        rv = eng_apply_up_to(r->l, pg, pg->committed);
        return rv != 0 ? rv : make_room(r->l);
}

static int take_copy(struct replay *r, const struct fmt_record *rec, const uint8_t *body)
{
        struct eng_append *append = keep(rec, body);
        int rv = 0;

        if (append == NULL)
                return -ENOMEM;
        if (rec->type == FMT_RECORD_COPY)
                rv = eng_apply_copy(r->l, append);
        else
                rv = eng_apply_void(r->l, append);
        eng_append_free(append);
        return rv != 0 ? rv : make_room(r->l);
}

static int take_epoch(struct replay *r, const struct fmt_record *rec, const uint8_t *body)
{
        struct eng_buf *copy = eng_buf_new(rec->body_len);
        int rv;

        if (copy == NULL)
                return -ENOMEM;
        memcpy(copy->data, body, rec->body_len);
        rv = eng_epochs_add(r->l, copy, rec->file);
        eng_buf_unref(copy);
        return rv;
}

static void mark_freed(struct replay *r, const struct fmt_freed *range)
{
        struct eng_log_file *file;

        TAILQ_FOREACH (file, &r->l->files.list, order) {
                if (file->number < range->first || file->number > range->last)
                        continue;
                file->freeing = file->freed = true; /* a crash came between the record and the unlink */
        }
}

static int take_freed(struct replay *r, const struct fmt_record *rec, const uint8_t *body)
{
        struct fmt_freed range;
        size_t at;
        int rv = 0;

        if (rec->body_len % sizeof(range) != 0)
                return -EBADMSG;
        for (at = 0; at < rec->body_len && rv == 0; at += sizeof(range)) {
                memcpy(&range, body + at, sizeof(range));
                if (range.first > range.last || range.last >= rec->file)
                        return -EBADMSG;
                mark_freed(r, &range);
                rv = range_add(&r->freed, &range);
        }
        return rv;
}

static int take(struct replay *r, const struct fmt_record *rec, const uint8_t *body)
{
        switch (rec->type) {
        case FMT_RECORD_PG:
                if (eng_rec_check_body(body, rec->body_len, rec->inline_len) != 0)
                        return -EBADMSG;
                return take_pg(r, rec, body);
        case FMT_RECORD_FENCE:
                return take_pg(r, rec, body);
        case FMT_RECORD_COPY:
                if (eng_rec_check_copy(body, rec->body_len, rec->inline_len) != 0)
                        return -EBADMSG;
                return take_copy(r, rec, body);
        case FMT_RECORD_VOID:
                return rec->body_len % sizeof(struct fmt_void) == 0 ? take_copy(r, rec, body) : -EBADMSG;
        case FMT_RECORD_EPOCH:
                return take_epoch(r, rec, body);
        case FMT_RECORD_FREED:
                return take_freed(r, rec, body);
        case FMT_RECORD_MARKS:
                return eng_file_take_marks(r->l, body, rec->body_len);
        }
        return -EBADMSG;
}

/* ---- one file -------------------------------------------------------------------------------------- */

static void make_ident(const struct replay *r, const struct eng_replay_file *file, struct eng_log_ident *out)
{
        memcpy(out->drive_id, r->l->files.drive_id, FMT_ID);
        out->file = file->number;
        out->generation = file->header.generation;
}

/* Takes the records of file r->at from r->position on. Leaves both behind the last one, and looks at what follows. */
static int read_file(struct replay *r)
{
        const struct eng_replay_file *file = &r->files[r->at];
        struct eng_log_window window;
        struct eng_log_ident ident;
        struct fmt_record rec;
        const uint8_t *body;
        int rv;

        make_ident(r, file, &ident);
        rv = eng_log_window_open(&window, r->l->files.dir_fd, file->number);
        if (rv != 0)
                return trouble(r, file->number, rv);
        while ((rv = eng_replay_next(&window, &ident, &r->position, r->crc, &rec, &body)) == 1) {
                r->crc = rec.header_crc;
                eng_log_ends_after(r->l, &rec);
                rv = take(r, &rec, body);
                if (rv != 0)
                        break;
                r->position += eng_rec_size(rec.body_len);
        }
        if (rv == -EBADMSG)
                rv = damaged(r, file->number, r->position, "a record makes no sense");
        else if (rv != 0)
                rv = trouble(r, file->number, rv);
        if (rv == 0) {
                rv = eng_replay_rest(&window, &ident, false, r->position, &r->rest);
                if (rv != 0)
                        rv = trouble(r, file->number, rv);
        }
        eng_log_window_close(&window);
        return rv;
}

/* ---- from file to file ----------------------------------------------------------------------------- */

/*
 * The files between this one and the next are missing: legitimate if a FREED record says so, which may come later. (An index that was built anew covers
 * the log up to the first record that waits for COMMIT again, and files may have been freed behind that long ago.)
 */
static int note_gap(struct replay *r, const struct eng_replay_file *file, const struct eng_replay_file *next)
{
        struct fmt_freed gap = {.first = file->number + 1, .last = next->number - 1};

        if (r->rest.damage != 0)
                return damaged(r, file->number, r->position, "valid records follow");
        if (next->header.prev_file <= file->number || gap.first > gap.last)
                return damaged(r, next->number, 0, "the file before it is missing");
        return range_add(&r->gaps, &gap);
}

/* Steps to the next file. 1: there is one; 0: the log ends here. */
static int step(struct replay *r)
{
        const struct eng_replay_file *file = &r->files[r->at], *next = file + 1;
        int rv;

        if (r->at + 1 == r->count) {
                if (r->rest.damage != 0)
                        return damaged(r, file->number, r->position, "valid records follow");
                return 0;
        }
        if (!next->begun)
                return damaged(r, next->number, 0, "its header is not valid, and a later file is");
        if (next->header.prev_file == file->number) {
                if (next->header.prev_crc != r->crc)
                        return damaged(r, file->number, r->position, "the next file goes on from elsewhere");
        } else {
                rv = note_gap(r, file, next);
                if (rv != 0)
                        return rv;
                r->crc = next->header.prev_crc;
        }
        r->at++;
        r->position = FMT_BLOCK;
        return 1;
}

static int check_gaps(struct replay *r)
{
        size_t i;

        for (i = 0; i < r->gaps.count; i++)
                if (!range_in(&r->freed, &r->gaps.items[i]))
                        return eng_error_set(r->error, -EBADMSG, "%s: log file %016llx.log is missing", r->l->path,
                                             (unsigned long long)r->gaps.items[i].first);
        return 0;
}

/* ---- before and after ------------------------------------------------------------------------------ */

static bool is_zero(const void *bytes, size_t len)
{
        const uint8_t *at = bytes;

        return at[0] == 0 && memcmp(at, at + 1, len - 1) == 0;
}

/* What stands in a file without a valid header. */
static int look_into(struct replay *r, const struct eng_replay_file *file, struct eng_log_rest *rest)
{
        struct eng_log_ident ident = {.file = file->number};
        struct eng_log_window window;
        int rv;

        memcpy(ident.drive_id, r->l->files.drive_id, FMT_ID);
        rv = eng_log_window_open(&window, r->l->files.dir_fd, file->number);
        if (rv != 0)
                return trouble(r, file->number, rv);
        rv = eng_replay_rest(&window, &ident, true, FMT_BLOCK, rest);
        eng_log_window_close(&window);
        if (rv != 0)
                return trouble(r, file->number, rv);
        if (rest->damage != 0)
                return damaged(r, file->number, 0, "its header is not valid, but records are");
        return 0;
}

/*
 * Files behind the last one that was begun were made ahead, or torn in their first write. In both cases nothing in them was ever
 * acknowledged, unless a later batch is there: then the header is damaged. One that is still as it was made is used; whatever a torn write
 * left in it would not be of the generation it gets.
 */
static int drop_unbegun(struct replay *r)
{
        const struct eng_replay_file *file;
        char name[ENG_LOGFILE_NAME_MAX];
        struct eng_log_rest rest = {.records = false};
        int rv;

        while (r->count > 0 && !r->files[r->count - 1].begun) {
                file = &r->files[--r->count];
                rv = look_into(r, file, &rest);
                if (rv != 0)
                        return rv;
                if (!rest.records && file->size == r->l->log_file_bytes &&
                    is_zero(&file->header, sizeof(file->header)) && r->count > 0 &&
                    file->number == r->files[r->count - 1].number + 1) {
                        r->spare = file->number;
                        continue;
                }
                eng_logfile_name(name, file->number);
                if (unlinkat(r->l->files.dir_fd, name, 0) != 0)
                        return trouble(r, file->number, -errno);
        }
        return 0;
}

static int add_files(struct replay *r)
{
        struct eng_log_file *file;
        size_t i;

        for (i = 0; i < r->count; i++) {
                file = eng_log_files_add(&r->l->files, r->files[i].number,
                                         r->files[i].begun ? r->files[i].header.generation : 0);
                if (file == NULL)
                        return -ENOMEM;
                file->bytes = file->capacity = r->files[i].size;
                eng_count(&r->l->figures.log_bytes, file->capacity);
        }
        return 0;
}

static int find_start(struct replay *r, const struct fmt_index_covered *covered)
{
        if (r->count == 0)
                return eng_error_set(r->error, -EBADMSG, "%s: there is no log", r->l->path);
        if (covered->file == 0) { /* a new index: all there is */
                if (!r->files[0].begun)
                        return damaged(r, r->files[0].number, 0, "its header is not valid");
                r->position = FMT_BLOCK;
                r->crc = r->files[0].header.prev_crc;
                return 0;
        }
        while (r->at < r->count && r->files[r->at].number < covered->file)
                r->at++;
        if (r->at == r->count || r->files[r->at].number != covered->file)
                return eng_error_set(r->error, -EBADMSG, "%s: log file %016llx.log is missing", r->l->path,
                                     (unsigned long long)covered->file);
        if (!r->files[r->at].begun || r->files[r->at].header.generation != covered->generation)
                return damaged(r, covered->file, 0, "it is not the file that the index knows");
        if (covered->position > eng_round_up(r->files[r->at].size, FMT_BLOCK))
                return damaged(r, covered->file, r->files[r->at].size, "it is shorter than the index knows");
        r->position = covered->position;
        r->crc = covered->prev_crc;
        return 0;
}

/* What the index knows to be committed counts now: a record that is void by a later one must not be applied by that on the way there. */
static int apply_marked(struct replay *r)
{
        struct eng_log_pg *pg = NULL;
        int rv = 0;

        while (rv == 0 && (pg = eng_pgs_next(&r->l->pgs, pg)) != NULL) {
                eng_pgs_set_committed(pg, pg->marked);
                rv = eng_apply_up_to(r->l, pg, pg->committed);
        }
        return rv;
}

/*
 * The first file of a new drive was not made ahead. It gets its space now, so that no append meets a full file system (which would fail the
 * drive); if there is none, appends begin a new file as soon as there is.
 */
static int take_space(struct replay *r, struct eng_log_file *file, int fd, uint64_t bytes)
{
        int rv;

        if (file->capacity >= bytes)
                return 0;
        rv = -posix_fallocate(fd, 0, (off_t)bytes);
        if (rv == 0) {
                eng_count(&r->l->figures.log_bytes, bytes - file->capacity);
                file->capacity = bytes;
        }
        return rv == -ENOSPC || rv == -EDQUOT ? 0 : rv;
}

/* Where appends go on. */
static int set_end(struct replay *r)
{
        const struct eng_replay_file *last = &r->files[r->at];
        struct eng_log *log = &r->l->log;
        uint64_t plain = r->l->log_file_bytes < ENG_LOG_PLAIN_BYTES ? r->l->log_file_bytes : ENG_LOG_PLAIN_BYTES;
        int fd, rv;

        log->current = eng_log_files_find(&r->l->files, last->number);
        log->current->bytes = eng_round_up(r->position, FMT_BLOCK);
        log->crc = r->crc;
        log->end.file = last->number;
        log->end.generation = last->header.generation;
        log->end.position = r->position;
        log->end.prev_crc = r->crc;
        log->fd = -1;
        if (r->spare == last->number + 1) {
                log->next = ENG_LOG_NEXT_READY;
                log->next_number = r->spare;
                log->next_bytes = r->l->log_file_bytes;
        }
        if (r->rest.records)
                return 0; /* see above: the next append begins a new file */
        fd = eng_logfile_open_write(r->l->files.dir_fd, last->number);
        if (fd < 0)
                return trouble(r, last->number, fd);
        log->fd = fd;
        rv = take_space(r, log->current, fd, plain);
        return rv == 0 ? 0 : trouble(r, last->number, rv);
}

/*
 * A process that was killed may have had a batch in flight. What is read of it need not be durable yet, and will be relied on: other members are
 * asked for nothing that this drive says it has, and the index must not cover what a power cut takes. Only the last file can hold any.
 */
static int flush_last(struct replay *r)
{
        uint64_t number = r->count > 0 ? r->files[r->count - 1].number : 0;
        int fd, rv;

        if (r->count == 0)
                return 0;
        fd = eng_logfile_open_write(r->l->files.dir_fd, number);
        if (fd < 0)
                return trouble(r, number, fd);
        rv = fdatasync(fd) == 0 ? 0 : -errno;
        close(fd);
        return rv == 0 ? 0 : trouble(r, number, rv);
}

static int replay_all(struct replay *r)
{
        int rv;

        rv = drop_unbegun(r);
        if (rv == 0)
                rv = flush_last(r);
        if (rv == 0)
                rv = add_files(r);
        if (rv == 0)
                rv = eng_open_load(r->l, r->error);
        if (rv == 0)
                rv = find_start(r, &r->l->covered);
        while (rv == 0) {
                rv = read_file(r);
                if (rv == 0)
                        rv = step(r);
                if (rv != 1)
                        break;
                rv = 0;
        }
        if (rv == 0)
                rv = check_gaps(r);
        if (rv == 0)
                rv = apply_marked(r);
        return rv != 0 ? rv : set_end(r);
}

int eng_replay(struct eng_local *l, struct eng_error *error)
{
        struct replay r = {.l = l, .error = error};
        uint64_t bad;
        int rv;

        rv = eng_replay_list(l->files.dir_fd, l->files.drive_id, &r.files, &r.count, &bad);
        if (rv != 0)
                trouble(&r, bad, rv);
        else
                rv = replay_all(&r);
        free(r.files);
        free(r.gaps.items);
        free(r.freed.items);
        return rv;
}
