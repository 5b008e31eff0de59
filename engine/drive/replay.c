/*
 * replay.c - reading the log back when a drive is opened.
 *
 * Begins where the durable index ends (or at the oldest file, when the index is gone: I4) and
 * follows the chain across files. Records known committed are applied, the others stay pending for
 * recovery to reconcile (TAIL, RECORD). Where the chain ends:
 * - a later file that chains on: the log goes on there;
 * - a gap of files that FREED records explain, and it is there that an ENDS record says the file
 *   ended: the same;
 * - nothing behind it but what one torn batch may leave: the end of the log;
 * - anything else: damage. What was there is lost, and the log goes on at the next whole record:
 *   the drive opens, and says so (damage.c), for its names to be compared with other members'.
 *   Where what the index covers is missing or another's: -EBADMSG.
 *
 * A tear leaves bytes behind that look like records of this file and generation. They are never
 * overwritten in part: if there are any, the next append begins a new file whose header chains to
 * the last good record, and replay leaves this file at that record for ever, because a following
 * file that chains on outranks whatever stands behind it.
 *
 * FREED and ENDS stand behind the gaps that they speak of. So where there are any, the log is gone
 * through twice, first for them alone: damage is known when it is met, and is remembered before the
 * index covers anything behind it.
 *
 * Blocking; the thread that opens the drive, before any loop knows it.
 */
#include "engine/drive/replay.h"

#include <assert.h>
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
        bool looking;             /* ahead: only FREED and ENDS records are taken */
        struct range_list freed;  /* ascending once that is done */
        size_t freed_at;          /* those before it begin at or before the last gap; reach is where the furthest of them ends */
        uint64_t reach;
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

static int range_order(const void *a, const void *b)
{
        const struct fmt_freed *x = a, *y = b;

        return (x->first > y->first) - (x->first < y->first);
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

/* ---- records --------------------------------------------------------------------------------- */

/* A record as replay keeps it: without its inline bytes, which stay in the log. */
static struct eng_append *replay_keep(const struct fmt_record *rec, const uint8_t *body)
{
        struct eng_append *append = calloc(1, sizeof(*append));
        size_t len = rec->body_len - rec->inline_len;

        assert(rec->inline_len <= rec->body_len); /* eng_rec_ok() */
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
 * Memory is bounded: a generation that reaches the bound goes into the index. Where the file system
 * has no room for that, it may grow some more: a full drive is to be opened, so that things can be
 * deleted.
 */
static int replay_make_room(struct eng_local *l)
{
        int rv = l->active->bytes < l->memtable_bytes ? 0 : eng_batch_now(l);

        return rv == -ENOSPC && l->active->bytes < ENG_FULL_TAILS * l->memtable_bytes ? 0 : rv;
}

static int take_pg(struct replay *r, const struct fmt_record *rec, const uint8_t *body)
{
        struct eng_log_pg *pg = eng_pgs_get(&r->l->pgs, rec->pg);
        struct eng_append *append = pg != NULL ? replay_keep(rec, body) : NULL;
        int rv;

        if (append == NULL)
                return -ENOMEM;
        if (!eng_pgs_add(&r->l->pgs, pg, append))
                eng_append_free(append);
        eng_pgs_set_committed(pg, rec->committed);
        rv = eng_apply_up_to(r->l, pg, pg->committed);
        return rv != 0 ? rv : replay_make_room(r->l);
}

static int take_copy(struct replay *r, const struct fmt_record *rec, const uint8_t *body)
{
        struct eng_append *append = replay_keep(rec, body);
        int rv = 0;

        if (append == NULL)
                return -ENOMEM;
        if (rec->type == FMT_RECORD_COPY)
                rv = eng_apply_copy(r->l, append);
        else
                rv = eng_apply_void(r->l, append);
        eng_append_free(append);
        return rv != 0 ? rv : replay_make_room(r->l);
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

/* file: where the search begins; ranges ascend as a rule. Returns where the next one may begin. */
static struct eng_log_file *mark_freed(struct replay *r, const struct fmt_freed *range, struct eng_log_file *file)
{
        if (file == NULL || file->number > range->first)
                file = TAILQ_FIRST(&r->l->files.list);
        for (; file != NULL && file->number <= range->last; file = TAILQ_NEXT(file, order))
                if (file->number >= range->first)
                        file->freeing = file->freed = true; /* a crash came between the record and the unlink */
        return file;
}

static int take_freed(struct replay *r, const struct fmt_record *rec, const uint8_t *body)
{
        struct eng_log_file *file = NULL;
        struct fmt_freed range;
        size_t at;
        int rv = 0;

        if (rec->body_len % sizeof(range) != 0)
                return -EBADMSG;
        for (at = 0; at < rec->body_len && rv == 0; at += sizeof(range)) {
                memcpy(&range, body + at, sizeof(range));
                if (range.first > range.last || range.last >= rec->file)
                        return -EBADMSG;
                if (r->looking)
                        rv = range_add(&r->freed, &range);
                else
                        file = mark_freed(r, &range, file);
        }
        return rv;
}

static int replay_take_ends(struct replay *r, const struct fmt_record *rec, const uint8_t *body)
{
        struct eng_log_file *file;
        struct fmt_end end;
        size_t at;

        if (rec->body_len % sizeof(end) != 0)
                return -EBADMSG;
        for (at = 0; at < rec->body_len; at += sizeof(end)) {
                memcpy(&end, body + at, sizeof(end));
                file = eng_log_files_find(&r->l->files, end.file);
                if (end.file >= rec->file)
                        return -EBADMSG;
                if (file == NULL || (file->end_crc == end.crc && (file->end != 0 || end.end_units == 0)))
                        continue;
                file->end_crc = end.crc;
                file->end = (uint64_t)end.end_units * FMT_RECORD_ALIGN;
                eng_log_file_touch(&r->l->files, file);
        }
        return 0;
}

/* What explains gaps, and nothing else. What of it makes no sense is met again. */
static int replay_look_at(struct replay *r, const struct fmt_record *rec, const uint8_t *body)
{
        int rv = 0;

        if (rec->type == FMT_RECORD_FREED)
                rv = take_freed(r, rec, body);
        else if (rec->type == FMT_RECORD_ENDS)
                rv = replay_take_ends(r, rec, body);
        return rv == -EBADMSG ? 0 : rv;
}

static int replay_take(struct replay *r, const struct fmt_record *rec, const uint8_t *body)
{
        assert(!r->looking);
        switch (rec->type) {
        case FMT_RECORD_PG:
                if (eng_rec_check_stored(body, rec->body_len, rec->inline_len) != 0)
                        return -EBADMSG;
                return take_pg(r, rec, body);
        case FMT_RECORD_COPY:
                if (eng_rec_check_stored_copy(body, rec->body_len, rec->inline_len) != 0)
                        return -EBADMSG;
                return take_copy(r, rec, body);
        case FMT_RECORD_VOID:
                return rec->body_len % sizeof(struct fmt_void) == 0 ? take_copy(r, rec, body) : -EBADMSG;
        case FMT_RECORD_EPOCH:
                return take_epoch(r, rec, body);
        case FMT_RECORD_TERM:
                return eng_terms_take(r->l, body, rec->body_len, rec->file);
        case FMT_RECORD_FREED:
                return take_freed(r, rec, body);
        case FMT_RECORD_ENDS:
                return replay_take_ends(r, rec, body);
        case FMT_RECORD_MARKS:
                return eng_file_take_marks(r->l, body, rec->body_len);
        }
        return (rec->flags & FMT_RECORD_OPTIONAL) != 0 ? 0 : -EPROTONOSUPPORT;
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* What can't be read is told when it is met to be taken. */
static void lost(struct replay *r, const struct fmt_record *rec)
{
        if (!r->looking)
                eng_damage_lost(r->l, rec);
}

static int found_damage(struct replay *r, uint64_t file, uint64_t position)
{
        return r->looking ? 0 : eng_damage_found(r->l, file, position);
}

/* ---- how far the index reached --------------------------------------------------------------- */

static void note_reach(struct replay *r)
{
        struct fmt_index_covered *reach = &r->l->reach;

        if (!r->looking && reach->file == r->files[r->at].number && reach->position == r->position && reach->prev_crc == r->crc)
                reach->file = 0;
}

/*
 * The drive lost what it had acknowledged. Its index is of no use: the next try makes one of what
 * the log still has.
 */
static int log_is_lost(struct replay *r, const struct fmt_index_covered *known)
{
        eng_damage_mark_lost(r->l, known);
        eng_local_index_error(r->l, -EBADMSG);
        return eng_error_set(r->error, -EBADMSG, "%s: log file %016llx.log ends before offset %llu, up to where the index knows it",
                             r->l->path, (unsigned long long)known->file, (unsigned long long)known->position);
}

/*
 * All that is left has been read, without coming to where the index reached: what the index holds
 * of there is not in the log. Only damage found on the way may stand in for it, with the log going
 * on behind: it stays where it is, and whoever builds the index anew meets it.
 */
static int check_index(struct replay *r)
{
        const struct fmt_index_covered *reach = &r->l->reach;
        uint64_t file = r->files[r->at].number;
        bool behind = file > reach->file || (file == reach->file && r->position > reach->position);

        if (reach->file != 0 && !(behind && r->l->damage.locations > 0))
                return log_is_lost(r, reach);
        r->l->reach.file = 0;
        return 0;
}

/* ---- one file -------------------------------------------------------------------------------- */

static void make_ident(const struct replay *r, const struct eng_replay_file *file, struct eng_log_ident *out)
{
        memcpy(out->drive_id, r->l->files.drive_id, FMT_ID);
        out->file = file->number;
        out->generation = file->header.generation;
}

/*
 * Takes the records that follow each other. One that was written whole and makes no sense is damage
 * of its own.
 */
static int take_chain(struct replay *r, struct eng_log_window *window, const struct eng_log_ident *ident)
{
        struct fmt_record rec;
        const uint8_t *body;
        int rv;

        while ((rv = eng_replay_next(window, ident, &r->position, r->crc, &rec, &body)) == 1) {
                r->crc = rec.header_crc;
                if (!r->looking)
                        eng_log_ends_after(r->l, &rec);
                rv = r->looking ? replay_look_at(r, &rec, body) : replay_take(r, &rec, body);
                if (rv == -EBADMSG && !r->l->index_condemned) {
                        lost(r, &rec);
                        rv = found_damage(r, ident->file, r->position);
                }
                if (rv == -EPROTONOSUPPORT)
                        eng_error_set(r->error, rv, "%s: log file %016llx.log has a record of type %u: written by a newer version",
                                      r->l->path, (unsigned long long)ident->file, rec.type);
                if (rv != 0)
                        break;
                r->position += eng_rec_size(rec.body_len);
                note_reach(r);
        }
        return rv;
}

/*
 * The chain has ended in file r->at: is that damage? It is not where the next file, or an ENDS
 * record, says that the file ended.
 */
static bool breaks_off(const struct replay *r)
{
        const struct eng_replay_file *file = &r->files[r->at], *next = file + 1;
        const struct eng_log_file *known = eng_log_files_find(&r->l->files, file->number);

        if (r->at + 1 < r->count && !next->salvaged && next->header.prev_file == file->number)
                return next->header.prev_crc != r->crc;
        if (known != NULL && known->end_crc != 0)
                return known->end_crc != r->crc;
        return r->rest.damage != 0 || (file->salvaged && r->position == FMT_BLOCK);
}

/*
 * Where file r->at ended. Records behind that were in a batch that a crash tore: nobody was told
 * that they are there, and their numbers were given again.
 */
static uint64_t end_of_file(const struct replay *r)
{
        const struct eng_replay_file *file = &r->files[r->at], *next = file + 1;
        const struct eng_log_file *known = eng_log_files_find(&r->l->files, file->number);
        uint64_t end = known != NULL ? known->end : 0;

        if (r->at + 1 < r->count && !next->salvaged && next->header.prev_file == file->number)
                end = next->header.prev_end;
        return end != 0 ? end : UINT64_MAX;
}

struct passing {
        struct replay *r;
        uint64_t explained; /* bytes of records whose headers could be read */
};

static void passed_record(void *arg, const struct fmt_record *rec)
{
        struct passing *passing = arg;

        passing->explained += eng_rec_size(rec->body_len);
        lost(passing->r, rec);
}

/*
 * Over a place that can't be read. 1: to the next whole record, whatever it chains to; 0: there is
 * none in this file.
 */
static int pass_over(struct replay *r, struct eng_log_window *window, const struct eng_log_ident *ident)
{
        struct passing passing = {.r = r};
        uint64_t from = r->position;
        struct fmt_record rec;
        int rv, found;

        found = eng_replay_resume(window, ident, &r->position, end_of_file(r), &rec, passed_record, &passing);
        if (found < 0)
                return found;
        if (found == 0 || passing.explained == 0 || r->position - from >= passing.explained + 2 * FMT_BLOCK)
                lost(r, NULL);
        rv = found_damage(r, ident->file, from);
        if (rv != 0)
                return rv;
        if (found == 1)
                r->crc = rec.prev_crc;
        return found;
}

/*
 * Takes the records of file r->at from r->position on. Leaves both behind the last one, and looks
 * at what follows.
 */
static int read_file(struct replay *r)
{
        const struct eng_replay_file *file = &r->files[r->at];
        struct eng_log_window window;
        struct eng_log_ident ident;
        int rv;

        make_ident(r, file, &ident);
        rv = eng_log_window_open(&window, r->l->files.dir_fd, file->number);
        if (rv != 0)
                return trouble(r, file->number, rv);
        do {
                rv = take_chain(r, &window, &ident);
                if (rv == 0)
                        rv = eng_replay_rest(&window, &ident, false, r->position, &r->rest);
                if (rv == 0 && breaks_off(r))
                        rv = pass_over(r, &window, &ident);
        } while (rv == 1);
        eng_log_window_close(&window);
        return rv == 0 || rv == -EPROTONOSUPPORT ? rv : trouble(r, file->number, rv);
}

/* ---- from file to file ----------------------------------------------------------------------- */

/*
 * The files between this one and the next are missing: legitimate if a FREED record says so. (An
 * index that was built anew covers the log up to the first record that waits for COMMIT again, and
 * files may have been freed behind that long ago.) Gaps ascend.
 */
static bool is_explained(struct replay *r, const struct fmt_freed *gap)
{
        for (; r->freed_at < r->freed.count && r->freed.items[r->freed_at].first <= gap->first; r->freed_at++)
                if (r->freed.items[r->freed_at].last > r->reach)
                        r->reach = r->freed.items[r->freed_at].last;
        return r->reach >= gap->last;
}

static int meet_gap(struct replay *r, const struct eng_replay_file *file, const struct eng_replay_file *next)
{
        struct fmt_freed gap = {.first = file->number + 1, .last = next->number - 1};
        bool missing = gap.first <= gap.last;

        if (r->looking || (next->header.prev_file > file->number && missing && is_explained(r, &gap)))
                return 0;
        lost(r, NULL);
        return found_damage(r, missing ? gap.first : next->number, 0);
}

/* Steps to the next file. 1: there is one; 0: the log ends here. */
static int replay_step(struct replay *r)
{
        const struct eng_replay_file *file = &r->files[r->at], *next = file + 1;
        int rv;

        if (r->at + 1 == r->count)
                return 0;
        assert(next->number > file->number);
        if (next->header.prev_file != file->number && !next->salvaged) {
                rv = meet_gap(r, file, next);
                if (rv != 0)
                        return rv;
        }
        if (!next->salvaged) /* else its records say whether they chain on */
                r->crc = next->header.prev_crc; /* where it is another than the chain's, that is known by now */
        r->at++;
        r->position = FMT_BLOCK;
        note_reach(r);
        return 1;
}

/* From r->position in file r->at to the end of the log. */
static int read_all(struct replay *r)
{
        int rv;

        do {
                rv = read_file(r);
                if (rv == 0)
                        rv = replay_step(r);
        } while (rv == 1);
        return rv;
}

static bool has_gap(const struct replay *r)
{
        size_t i;

        for (i = r->at; i + 1 < r->count; i++)
                if (r->files[i + 1].number != r->files[i].number + 1)
                        return true;
        return false;
}

/* Learns what explains the gaps, if there are any in what is to be read. */
static int look_ahead(struct replay *r)
{
        uint64_t position = r->position;
        uint32_t crc = r->crc;
        size_t at = r->at;
        int rv;

        if (!has_gap(r))
                return 0;
        r->looking = true;
        rv = read_all(r);
        r->looking = false;
        r->at = at;
        r->position = position;
        r->crc = crc;
        if (r->freed.count > 0)
                qsort(r->freed.items, r->freed.count, sizeof(*r->freed.items), range_order);
        return rv;
}

/* ---- before and after ------------------------------------------------------------------------ */

static bool replay_is_zero(const void *bytes, size_t len)
{
        const uint8_t *at = bytes;

        return at[0] == 0 && memcmp(at, at + 1, len - 1) == 0;
}

/* What stands in a file without a valid header. */
static int replay_look_into(struct replay *r, const struct eng_replay_file *file, struct eng_log_rest *rest)
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
        return 0;
}

/* A file that was begun, and whose header is damaged, is read by what its records say. */
static int salvage(struct replay *r, struct eng_replay_file *file)
{
        struct eng_log_ident ident = {.file = file->number};
        struct eng_log_window window;
        int rv;

        memcpy(ident.drive_id, r->l->files.drive_id, FMT_ID);
        memset(&file->header, 0, sizeof(file->header));
        rv = eng_log_window_open(&window, r->l->files.dir_fd, file->number);
        if (rv != 0)
                return trouble(r, file->number, rv);
        rv = eng_replay_generation(&window, &ident, window.size, &file->header.generation);
        eng_log_window_close(&window);
        if (rv != 0 && rv != -ENOENT)
                return trouble(r, file->number, rv);
        file->header.file = file->number;
        file->begun = file->salvaged = true;
        return 0;
}

static int salvage_all(struct replay *r)
{
        size_t i;
        int rv = 0;

        for (i = 0; i < r->count && rv == 0; i++)
                if (!r->files[i].begun)
                        rv = salvage(r, &r->files[i]);
        return rv;
}

/*
 * Files behind the last one that was begun were made ahead, or torn in their first write. In both
 * cases nothing in them was ever acknowledged, unless a later batch is there: then the header is
 * damaged. One that is still as it was made is used; whatever a torn write left in it would not be
 * of the generation it gets. The only file there is was begun: a drive has one from its making on.
 */
static int drop_unbegun(struct replay *r)
{
        const struct eng_replay_file *file;
        char name[ENG_LOGFILE_NAME_MAX];
        struct eng_log_rest rest = {.records = false};
        int rv;

        while (r->count > 1 && !r->files[r->count - 1].begun) {
                file = &r->files[r->count - 1];
                rv = replay_look_into(r, file, &rest);
                if (rv != 0 || rest.damage != 0)
                        return rv;
                r->count--;
                if (!rest.records && file->size == r->l->log_file_bytes &&
                    replay_is_zero(&file->header, sizeof(file->header)) &&
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
                                         r->files[i].header.generation);
                if (file == NULL)
                        return -ENOMEM;
                file->bytes = file->capacity = r->files[i].size;
                eng_count(&r->l->statistics.log_bytes, file->capacity);
        }
        return 0;
}

/*
 * The log may end before what the index covers, but not go on elsewhere behind that: that is
 * damage, and found on the way.
 */
static int check_reach(struct replay *r, const struct fmt_index_covered *covered)
{
        int rv;

        if (r->at + 1 < r->count)
                return 0;
        rv = eng_replay_reaches(r->l->files.dir_fd, r->l->files.drive_id, &r->files[r->at], covered);
        if (rv < 0)
                return trouble(r, covered->file, rv);
        return rv == 1 ? 0 : log_is_lost(r, covered);
}

static int find_start(struct replay *r, const struct fmt_index_covered *covered)
{
        if (r->count == 0)
                return eng_error_set(r->error, -EBADMSG, "%s: there is no log", r->l->path);
        if (covered->file == 0) { /* a new index: all there is */
                r->position = FMT_BLOCK;
                r->crc = r->files[0].header.prev_crc;
                return 0;
        }
        while (r->at < r->count && r->files[r->at].number < covered->file)
                r->at++;
        if (r->at == r->count)
                return log_is_lost(r, covered);
        if (r->files[r->at].number != covered->file)
                return eng_error_set(r->error, -EBADMSG, "%s: log file %016llx.log is missing", r->l->path,
                                     (unsigned long long)covered->file);
        if (!r->files[r->at].begun || r->files[r->at].header.generation != covered->generation)
                return damaged(r, covered->file, 0, "it is not the file that the index knows");
        r->position = covered->position;
        r->crc = covered->prev_crc;
        return check_reach(r, covered);
}

/*
 * What the index knows to be committed counts now: a record that is void by a later one must not be
 * applied by that on the way there.
 */
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
 * The first file of a new drive was not made ahead. It gets its space now, so that no append meets
 * a full file system (which would fail the drive); if there is none, appends begin a new file as
 * soon as there is.
 */
static int take_space(struct replay *r, struct eng_log_file *file, int fd, uint64_t bytes)
{
        int rv;

        if (file->capacity >= bytes)
                return 0;
        rv = -posix_fallocate(fd, 0, (off_t)bytes);
        if (rv == 0) {
                eng_count(&r->l->statistics.log_bytes, bytes - file->capacity);
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

        assert(r->at + 1 == r->count && TAILQ_EMPTY(&log->queue));
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
 * A process that was killed may have had a batch in flight. What is read of it need not be durable
 * yet, and will be relied on: other members are asked for nothing that this drive says it has, and
 * the index must not cover what a power cut takes. Only the last file can hold any.
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
                rv = salvage_all(r);
        if (rv == 0)
                rv = add_files(r);
        if (rv == 0)
                rv = eng_open_load(r->l, r->error);
        if (rv == 0)
                rv = find_start(r, &r->l->covered);
        if (rv == 0)
                rv = look_ahead(r);
        if (rv == 0)
                rv = read_all(r);
        if (rv == 0)
                rv = check_index(r);
        if (rv == 0)
                rv = apply_marked(r);
        if (rv == 0)
                rv = eng_damage_end(r->l);
        return rv != 0 ? rv : set_end(r);
}

static int note_known(void *arg, const struct fmt_index_log *row)
{
        struct eng_replay_known *known = arg;
        size_t size = known->size == 0 ? 64 : 2 * known->size;
        uint64_t *numbers;

        if (known->count == known->size) {
                numbers = realloc(known->numbers, size * sizeof(*numbers));
                if (numbers == NULL)
                        return -ENOMEM;
                known->numbers = numbers;
                known->size = size;
        }
        assert(known->count == 0 || known->numbers[known->count - 1] < row->file);
        known->numbers[known->count++] = row->file;
        return 0;
}

/* Which files the index covers as a whole: what stands in them was checked when it was taken in. */
static int replay_find_known(struct eng_local *l, struct eng_replay_known *known)
{
        struct fmt_index_covered covered;
        int rv = eng_index_read_begin(l->reader);

        if (rv != 0)
                return rv;
        rv = eng_index_covered(l->reader, &covered);
        if (rv == 0)
                rv = eng_index_each_log(l->reader, note_known, known);
        eng_index_read_end(l->reader);
        while (rv == 0 && known->count > 0 && known->numbers[known->count - 1] >= covered.file)
                known->count--;
        return rv == -ENOENT ? 0 : rv; /* a new index knows none */
}

int eng_replay(struct eng_local *l, struct eng_error *error)
{
        struct replay r = {.l = l, .error = error};
        struct eng_replay_known known = {.count = 0};
        uint64_t bad;
        int rv = replay_find_known(l, &known);

        assert(!l->opened);
        eng_local_index_error(l, rv);
        if (rv != 0) {
                eng_error_set(error, rv, "%s/index cannot be read: %s", l->path, strerror(-rv));
        } else {
                rv = eng_replay_list(l->files.dir_fd, l->files.drive_id, &known, &r.files, &r.count, &bad);
                if (rv != 0)
                        trouble(&r, bad, rv);
                else
                        rv = replay_all(&r);
        }
        free(known.numbers);
        free(r.files);
        free(r.freed.items);
        return rv;
}
