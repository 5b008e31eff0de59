/*
 * bulk.c - a stopped drive that is filled through the engine's own encoders and index; see bulk.h.
 */
#include "bench/scale/bulk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ec.h"

#define PER_COMMIT  200000u
#define BATCH_BYTES (256u << 10)

void bulk_fail(int rv, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fprintf(stderr, ": %s\n", strerror(rv < 0 ? -rv : rv));
        exit(1);
}

void bulk_check(int rv, const char *what)
{
        if (rv < 0)
                bulk_fail(rv, "%s", what);
}

/* ---- the log --------------------------------------------------------------------------------- */

static void log_flush(struct bulk_log *log)
{
        size_t len = eng_round_up(log->used, FMT_BLOCK);

        if (log->used == 0)
                return;
        memset(log->buffer + log->used, 0, len - log->used);
        if (pwrite(log->fd, log->buffer, len, (off_t)log->batch) != (ssize_t)len)
                bulk_fail(errno, "writing the log");
        log->at = log->batch = log->batch + len;
        log->used = 0;
}

static void log_open(struct bulk_log *log, int flags)
{
        char name[ENG_LOGFILE_NAME_MAX];

        eng_logfile_name(name, log->ident.file);
        log->fd = openat(log->dir_fd, name, O_WRONLY | O_CLOEXEC | flags, 0600);
        bulk_check(log->fd < 0 ? -errno : 0, name);
}

static void log_next_file(struct bulk_log *log)
{
        struct fmt_log_header header;
        uint64_t before = log->ident.file, end = log->at;

        log_flush(log);
        close(log->fd);
        log->ident.file++;
        lp_random(&log->ident.generation, sizeof(log->ident.generation));
        log_open(log, O_CREAT | O_TRUNC);
        eng_logfile_header(&header, &log->ident, before, log->prev_crc, end);
        if (ftruncate(log->fd, (off_t)log->bytes) != 0 || pwrite(log->fd, &header, sizeof(header), 0) != sizeof(header))
                bulk_fail(errno, "beginning a log file");
        log->at = log->batch = FMT_BLOCK;
}

static void log_add(struct bulk_log *log, const struct eng_body *body, uint32_t inline_len, uint32_t pg, uint64_t seq,
                    uint64_t epoch)
{
        size_t size = eng_rec_size((uint32_t)body->len);
        struct fmt_record rec = {.type = FMT_RECORD_PG,
                                 .body_len = (uint32_t)body->len,
                                 .inline_len = inline_len,
                                 .pg = pg,
                                 .epoch = epoch,
                                 .seq = seq};

        memcpy(rec.drive_id, log->ident.drive_id, FMT_ID);
        rec.file = log->ident.file;
        rec.generation = log->ident.generation;
        rec.position = log->at;
        rec.batch = log->batch;
        rec.prev_crc = log->prev_crc;
        rec.committed = seq - 1;
        rec.time_ms = (uint64_t)lp_wall_ms();
        rec.body_crc = era_crc32c(0, body->buf->data, body->len);
        eng_rec_seal(&rec);
        memset(log->buffer + log->used, 0, size);
        memcpy(log->buffer + log->used, &rec, sizeof(rec));
        memcpy(log->buffer + log->used + sizeof(rec), body->buf->data, body->len);
        log->used += size;
        log->at += size;
        log->prev_crc = rec.header_crc;
}

/* There is room for one more record of this body, in a batch of its own if need be. */
static void log_make_room(struct bulk_log *log, size_t body_len)
{
        size_t size = eng_rec_size((uint32_t)body_len);

        if (log->used + size > BATCH_BYTES)
                log_flush(log);
        if (log->batch + eng_round_up(log->used + size, FMT_BLOCK) > log->bytes)
                log_next_file(log);
}

uint64_t bulk_record(struct bulk *bulk, const struct eng_body *body, uint32_t inline_len, uint32_t pg, uint64_t seq)
{
        uint64_t position;

        log_make_room(&bulk->log, body->len);
        position = bulk->log.at;
        log_add(&bulk->log, body, inline_len, pg, seq, 1);
        return position;
}

/* ---- the index ------------------------------------------------------------------------------- */

void bulk_changed(struct bulk *bulk)
{
        if (++bulk->changed < PER_COMMIT)
                return;
        bulk_check(eng_index_write_commit(bulk->txn), "committing");
        bulk_check(eng_index_write_begin(bulk->index, &bulk->txn), "beginning a transaction");
        bulk->changed = 0;
}

void bulk_name(struct bulk *bulk, const struct eng_name *name, struct eng_buf *value, uint64_t seq, uint64_t file,
               uint64_t position)
{
        struct fmt_value head;

        memcpy(&head, value->data, sizeof(head));
        head.seq = seq;
        head.log_file = file;
        head.log_position = position;
        memcpy(value->data, &head, sizeof(head));
        bulk_check(eng_index_put(bulk->txn, name->data, name->len, value->data, value->len), "putting a name");
        eng_buf_unref(value);
        bulk_changed(bulk);
}

void bulk_hollow_name(struct bulk *bulk, const struct eng_name *name, struct eng_buf *value, uint64_t seq,
                      uint64_t which)
{
        bulk_name(bulk, name, value, seq, bulk->hollow, FMT_BLOCK + FMT_RECORD_ALIGN * (which % 100000));
}

void bulk_next_id(struct bulk *bulk, uint8_t id[FMT_ID])
{
        uint64_t counter = htobe64(++bulk->counter);

        memset(id, 0, FMT_ID);
        id[3] = 1; /* epoch */
        memcpy(id + 8, &counter, sizeof(counter));
}

void bulk_learn(const struct bulk *bulk, enum fmt_space space, struct bulk_model *out)
{
        struct eng_index_entry entry = {.name_len = 0};
        uint8_t name[FMT_NAME_MAX] = {(uint8_t)space};
        size_t len = 1;
        struct fmt_value head;
        uint64_t id;

        do {
                bulk_check(eng_index_seek(bulk->txn, name, len, len > 1, &entry), "an object to go by");
                if (entry.name_len < 9 || entry.name[0] != space || eng_value_check(entry.value, entry.value_len) != 0)
                        bulk_fail(ENOENT, "an object to go by");
                len = entry.name_len;
                memcpy(name, entry.name, len);
                memcpy(&head, entry.value, sizeof(head));
        } while (!eng_value_is_object(&head));
        memcpy(&id, entry.name + 1, sizeof(id));
        out->bucket = be64toh(id);
        memcpy(out->tag, head.tag, sizeof(out->tag));
        memcpy(out->attrs, entry.value + sizeof(head), head.attrs_len);
        out->attrs_len = head.attrs_len;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int open_folder(const char *drive, const char *name)
{
        char path[4096];
        int fd;

        snprintf(path, sizeof(path), "%s/%s", drive, name);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bulk_check(fd < 0 ? -errno : 0, path);
        return fd;
}

static void open_drive(struct bulk *bulk, const char *drive, struct fmt_index_covered *covered)
{
        struct eng_index_options options = {.map_bytes = 256ull << 30};
        struct eng_error error = {""};
        enum eng_folder_state state;
        char path[4096];
        size_t len;

        if (eng_folder_probe(drive, &state, &bulk->identity, &error) != 0 || state != ENG_FOLDER_DRIVE)
                bulk_fail(EINVAL, "%s is no drive: %s", drive, error.text);
        snprintf(path, sizeof(path), "%s/index", drive);
        options.path = path;
        memcpy(options.drive_id, bulk->identity.drive_id, FMT_ID);
        bulk_check(eng_index_open(&options, &bulk->index), path);
        bulk_check(eng_index_write_begin(bulk->index, &bulk->txn), "beginning a transaction");
        bulk_check(eng_index_meta_get(bulk->txn, ENG_INDEX_COVERED, covered, sizeof(*covered), &len),
                   "where the log ends");
        bulk->log.dir_fd = open_folder(drive, "log");
        bulk->data_fd = open_folder(drive, "data");
}

static int note_pg(void *arg, const struct fmt_index_pg *row)
{
        struct bulk *bulk = arg;

        if (row->pg < BULK_PGS)
                bulk->seq[row->pg] = row->seq;
        return 0;
}

/* Behind its first new file comes one that is begun and holds nothing. */
static void open_log(struct bulk *bulk, const struct fmt_index_covered *covered)
{
        struct bulk_log *log = &bulk->log;
        char name[ENG_LOGFILE_NAME_MAX];
        uint64_t ahead;

        for (ahead = covered->file + 1; ahead < covered->file + 100;
             ahead++) { /* files that the daemon made ahead, not begun */
                eng_logfile_name(name, ahead);
                unlinkat(log->dir_fd, name, 0);
        }
        log->ident.file = covered->file;
        log->ident.generation = covered->generation;
        memcpy(log->ident.drive_id, bulk->identity.drive_id, FMT_ID);
        log->prev_crc = covered->prev_crc;
        log->buffer = malloc(BATCH_BYTES + FMT_BLOCK + FMT_BODY_MAX);
        if (log->buffer == NULL)
                bulk_fail(ENOMEM, "a batch");
        log_open(log, 0);
        log_next_file(log);
        log_next_file(log);
        bulk->hollow = log->ident.file;
        log_next_file(log);
}

void bulk_open(struct bulk *bulk, const char *drive, uint64_t log_bytes)
{
        struct fmt_index_covered covered;

        memset(bulk, 0, sizeof(*bulk));
        bulk->log.bytes = log_bytes;
        open_drive(bulk, drive, &covered);
        bulk_check(eng_index_each_pg(bulk->txn, note_pg, bulk), "groups");
        open_log(bulk, &covered);
}

void bulk_close(struct bulk *bulk)
{
        struct fmt_index_covered covered = {.position = bulk->log.at}; /* of the last record, not of its batch */
        struct fmt_index_pg row = {.epoch = 1};
        struct fmt_index_log log_row = {.bytes = bulk->log.bytes};

        log_flush(&bulk->log);
        if (syncfs(bulk->log.dir_fd) != 0)
                bulk_fail(errno, "flushing");
        covered.file = bulk->log.ident.file;
        covered.generation = bulk->log.ident.generation;
        covered.prev_crc = bulk->log.prev_crc;
        for (row.pg = 0; row.pg < BULK_PGS; row.pg++) {
                row.seq = row.committed = bulk->seq[row.pg];
                if (row.seq > 0)
                        bulk_check(eng_index_pg_put(bulk->txn, &row), "a group's row");
        }
        for (log_row.file = 1; log_row.file <= covered.file; log_row.file++)
                bulk_check(eng_index_log_put(bulk->txn, &log_row), "a log file's row");
        bulk_check(eng_index_meta_put(bulk->txn, ENG_INDEX_COVERED, &covered, sizeof(covered)), "where the log ends");
        bulk_check(eng_index_write_commit(bulk->txn), "committing");
        eng_index_close(bulk->index);
        free(bulk->log.buffer);
}
