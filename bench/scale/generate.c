/*
 * generate.c - fills a stopped store of one drive, which has one object, with names, log files and
 * segments in bulk, for bench/scale.py.
 *
 *   generate --drive FOLDER --names N --records R --log-bytes B --files F --segment-bytes B --orphans O
 *
 * Names are put into the index in their order, through the index's own code, and values, records
 * and headers are made by the engine's encoders, so that a change of the format needs nothing here.
 * Names are those of `load --random-names`; its first R keys, which lie all over the index, have
 * their record in the log and can be read. The others say that theirs stands in a log file that is
 * all holes, which keeps 1e8 names within some 30 GiB. F segments are holes behind a header; half
 * of each is frames that striped objects name. O more frames have ids that no name has. What is
 * made is never to be read back whole: it has no content, only size.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ec.h"
#include "engine/drive/drive.h"
#include "engine/drive/index.h"
#include "engine/drive/logfile.h"
#include "engine/drive/segment_priv.h"
#include "engine/placement/place.h"
#include "engine/record/value.h"
#include "load_content.h"

#define PER_COMMIT  200000u
#define BATCH_BYTES (256u << 10)
#define BODY_BYTES  64u /* of an object */
#define PGS         4096u

struct options {
        const char *drive;
        uint64_t names, records, log_bytes, files, segment_bytes, orphans;
};

/* A log that is written from where the index says that it ends. */
struct log {
        int dir_fd, fd;
        struct eng_log_ident ident;
        uint64_t bytes, at, batch; /* size of a file; where the next record stands; where its batch began */
        uint32_t prev_crc;
        uint8_t *buffer;
        size_t used;
};

struct run {
        struct options opt;
        struct eng_identity identity;
        struct eng_index *index;
        struct eng_index_txn *txn;
        struct log log;
        int data_fd;
        uint64_t bucket;
        uint8_t attrs[ENG_ATTRS_MAX], tag[8]; /* what the gateway keeps beside each object: as of the one it put */
        size_t attrs_len;
        uint64_t changed; /* since the last commit */
        uint64_t seq[PGS];
        uint64_t counter; /* of ids */
        uint64_t hollow;  /* number of the log file without records; 0: none yet */
};

_Noreturn static void fail(int rv, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fprintf(stderr, ": %s\n", strerror(rv < 0 ? -rv : rv));
        exit(1);
}

static void check(int rv, const char *what)
{
        if (rv < 0)
                fail(rv, "%s", what);
}

/* ---- the log --------------------------------------------------------------------------------- */

static void log_flush(struct log *log)
{
        size_t len = eng_round_up(log->used, FMT_BLOCK);

        if (log->used == 0)
                return;
        memset(log->buffer + log->used, 0, len - log->used);
        if (pwrite(log->fd, log->buffer, len, (off_t)log->batch) != (ssize_t)len)
                fail(errno, "writing the log");
        log->at = log->batch = log->batch + len;
        log->used = 0;
}

static void log_open(struct log *log, int flags)
{
        char name[ENG_LOGFILE_NAME_MAX];

        eng_logfile_name(name, log->ident.file);
        log->fd = openat(log->dir_fd, name, O_WRONLY | O_CLOEXEC | flags, 0600);
        check(log->fd < 0 ? -errno : 0, name);
}

static void log_next_file(struct log *log)
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
                fail(errno, "beginning a log file");
        log->at = log->batch = FMT_BLOCK;
}

static void log_add(struct log *log, const struct eng_body *body, uint32_t inline_len, uint32_t pg, uint64_t seq,
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
static void log_make_room(struct log *log, size_t body_len)
{
        size_t size = eng_rec_size((uint32_t)body_len);

        if (log->used + size > BATCH_BYTES)
                log_flush(log);
        if (log->batch + eng_round_up(log->used + size, FMT_BLOCK) > log->bytes)
                log_next_file(log);
}

/* ---- the index ------------------------------------------------------------------------------- */

static void commit(struct run *run)
{
        check(eng_index_write_commit(run->txn), "committing");
        check(eng_index_write_begin(run->index, &run->txn), "beginning a transaction");
        run->changed = 0;
}

static void put_name(struct run *run, const struct eng_name *name, struct eng_buf *value, uint64_t seq, uint64_t file,
                     uint64_t position)
{
        struct fmt_value head;

        memcpy(&head, value->data, sizeof(head));
        head.seq = seq;
        head.log_file = file;
        head.log_position = position;
        memcpy(value->data, &head, sizeof(head));
        check(eng_index_put(run->txn, name->data, name->len, value->data, value->len), "putting a name");
        if (++run->changed >= PER_COMMIT)
                commit(run);
}

/*
 * Unique, and older than every upload of the daemon that opens this: the epoch of formatting, in
 * which nothing is written.
 */
static void next_id(struct run *run, uint8_t id[FMT_ID])
{
        uint64_t counter = htobe64(++run->counter);

        memset(id, 0, FMT_ID);
        id[3] = 1; /* epoch */
        memcpy(id + 8, &counter, sizeof(counter));
}

/* A file of the log that is begun and holds nothing: the next one follows on it. */
static void hollow_file(struct run *run)
{
        log_next_file(&run->log);
        run->hollow = run->log.ident.file;
        log_next_file(&run->log);
}

static void inline_object(struct run *run, uint64_t i, bool record)
{
        static const uint8_t bytes[BODY_BYTES];
        struct eng_name name;
        struct eng_body body;
        struct eng_buf *value;
        uint8_t id[FMT_ID], etag[16] = {1};
        char key[64];
        int len = snprintf(key, sizeof(key), "o/%016llx",
                           (unsigned long long)load_mix(i)); /* as `load --random-names` has it */
        uint32_t pg = eng_pg_of_key(PGS, run->bucket, key, (size_t)len);
        struct eng_value_spec spec = {.space = FMT_SPACE_OBJECT,
                                      .inline_value = true,
                                      .pg = pg,
                                      .inline_len = BODY_BYTES,
                                      .size = BODY_BYTES,
                                      .mtime_ms = 1700000000000 + (int64_t)i,
                                      .id = id,
                                      .etag = etag,
                                      .attrs = run->attrs,
                                      .attrs_len = run->attrs_len,
                                      .tag = run->tag};
        uint64_t seq = ++run->seq[pg], position;

        next_id(run, id);
        eng_name_object(&name, run->bucket, key, (size_t)len);
        value = eng_value_new(&spec);
        if (value == NULL)
                fail(ENOMEM, "a value");
        if (!record) {
                put_name(run, &name, value, seq, run->hollow, FMT_BLOCK + FMT_RECORD_ALIGN * (i % 100000));
                eng_buf_unref(value);
                return;
        }
        check(eng_body_begin(&body, eng_body_need(name.len, value->len, BODY_BYTES)), "a body");
        eng_body_put(&body, &name, value, seq, bytes, BODY_BYTES);
        log_make_room(&run->log, body.len);
        position = run->log.at;
        log_add(&run->log, &body, BODY_BYTES, pg, seq, 1);
        put_name(run, &name, value, seq, run->log.ident.file, position);
        eng_buf_unref(body.buf);
        eng_buf_unref(value);
}

static int by_name(const void *a, const void *b)
{
        uint64_t left = load_mix(*(const uint64_t *)a), right = load_mix(*(const uint64_t *)b);

        return (left > right) - (left < right);
}

/* In the order of their names. */
static void make_names(struct run *run)
{
        uint64_t i, *keys = malloc(run->opt.names * sizeof(*keys));

        if (keys == NULL)
                fail(ENOMEM, "sorting names");
        for (i = 0; i < run->opt.names; i++)
                keys[i] = i;
        qsort(keys, run->opt.names, sizeof(*keys), by_name);
        for (i = 0; i < run->opt.names; i++)
                inline_object(run, keys[i], keys[i] < run->opt.records);
        free(keys);
}

/* ---- segments -------------------------------------------------------------------------------- */

static void make_segment(struct run *run, uint64_t number, uint64_t generation)
{
        struct fmt_segment_header header;
        struct fmt_index_segment row = {.segment = number,
                                        .generation = generation,
                                        .sealed = 1,
                                        .end = run->opt.segment_bytes,
                                        .indexed_to = run->opt.segment_bytes};
        char name[SEGMENT_NAME_MAX];
        int fd;

        segment_name(number, SEGMENT_WHOLE, name);
        segment_header_make(&header, run->identity.drive_id, number, generation);
        fd = openat(run->data_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        check(fd < 0 ? -errno : 0, name);
        if (ftruncate(fd, (off_t)run->opt.segment_bytes) != 0 ||
            pwrite(fd, &header, sizeof(header), 0) != sizeof(header))
                fail(errno, "%s", name);
        close(fd);
        check(eng_index_segment_put(run->txn, &row), "a segment's row");
}

static void striped_object(struct run *run, uint64_t i, const uint8_t id[FMT_ID], uint32_t unit)
{
        struct fmt_part part = {
                .k = 1, .runs = 1, .number = FMT_PART_NARROW, .unit = unit, .last_unit = unit, .size = unit};
        uint8_t encoded[sizeof(part) + 1], etag[16] = {2};
        struct eng_name name;
        struct eng_buf *value;
        char key[64];
        int len = snprintf(key, sizeof(key), "s/%016llx", (unsigned long long)i);
        uint32_t pg = eng_pg_of_key(PGS, run->bucket, key, (size_t)len);
        struct eng_value_spec spec = {.space = FMT_SPACE_OBJECT,
                                      .pg = pg,
                                      .size = unit,
                                      .mtime_ms = 1700000000000,
                                      .id = id,
                                      .etag = etag,
                                      .attrs = run->attrs,
                                      .attrs_len = run->attrs_len,
                                      .tag = run->tag,
                                      .parts = encoded,
                                      .parts_len = sizeof(encoded),
                                      .part_count = 1};

        memcpy(part.id, id, FMT_ID);
        memcpy(encoded, &part, sizeof(part));
        eng_part_slot_set(encoded + sizeof(part), 1, 0, run->identity.slot);
        value = eng_value_new(&spec);
        if (value == NULL)
                fail(ENOMEM, "a value");
        eng_name_object(&name, run->bucket, key, (size_t)len);
        put_name(run, &name, value, ++run->seq[pg], run->hollow, FMT_BLOCK);
        eng_buf_unref(value);
}

static void put_place(struct run *run, const uint8_t id[FMT_ID], uint64_t segment, uint64_t offset, uint32_t unit)
{
        struct eng_location place = {.segment = segment, .offset = offset, .payload_len = unit};

        check(eng_index_location_put(run->txn, id, &place, NULL), "a place");
        if (++run->changed >= PER_COMMIT)
                commit(run);
}

/* Frames take half of each segment, so that none is mostly dead; orphans the rest, evenly. */
static void make_segments(struct run *run)
{
        const uint32_t unit = 1u << 20, gap = FMT_BLOCK + FMT_UNIT_MAX;
        uint64_t i, f, frames = run->opt.segment_bytes / gap / 2, orphans = run->opt.orphans, generation, o;
        uint8_t id[FMT_ID];

        frames = frames == 0 ? 1 : frames;
        for (f = 1; f <= run->opt.files; f++) {
                lp_random(&generation, sizeof(generation));
                make_segment(run, f, generation | 1);
                for (i = 0; i < frames; i++) {
                        next_id(run, id);
                        put_place(run, id, f, FMT_BLOCK + i * gap, unit);
                        striped_object(run, (f - 1) * frames + i, id, unit);
                }
                for (o = orphans * (f - 1) / run->opt.files; o < orphans * f / run->opt.files; o++) {
                        next_id(run, id);
                        put_place(run, id, f, FMT_BLOCK + (frames + o % frames) * gap, FMT_BLOCK);
                }
        }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void open_drive(struct run *run, struct fmt_index_covered *covered)
{
        struct eng_index_options options = {.map_bytes = 256ull << 30};
        struct eng_error error = {""};
        enum eng_folder_state state;
        char path[4096];
        size_t len;

        if (eng_folder_probe(run->opt.drive, &state, &run->identity, &error) != 0 || state != ENG_FOLDER_DRIVE)
                fail(EINVAL, "%s is no drive: %s", run->opt.drive, error.text);
        snprintf(path, sizeof(path), "%s/index", run->opt.drive);
        options.path = path;
        memcpy(options.drive_id, run->identity.drive_id, FMT_ID);
        check(eng_index_open(&options, &run->index), path);
        check(eng_index_write_begin(run->index, &run->txn), "beginning a transaction");
        check(eng_index_meta_get(run->txn, ENG_INDEX_COVERED, covered, sizeof(*covered), &len), "where the log ends");
        snprintf(path, sizeof(path), "%s/log", run->opt.drive);
        run->log.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        snprintf(path, sizeof(path), "%s/data", run->opt.drive);
        run->data_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (run->log.dir_fd < 0 || run->data_fd < 0)
                fail(errno, "%s", path);
}

/*
 * The one object that the store has says in which bucket to go on, and what the gateway keeps of an
 * object.
 */
static void learn_from_object(struct run *run)
{
        const uint8_t space = FMT_SPACE_OBJECT;
        struct eng_index_entry entry;
        struct fmt_value head;
        uint64_t id;

        check(eng_index_seek(run->txn, &space, 1, false, &entry), "the object of the bucket that is to be filled");
        if (entry.name_len < 9 || entry.name[0] != space || eng_value_check(entry.value, entry.value_len) != 0)
                fail(ENOENT, "the object of the bucket that is to be filled");
        memcpy(&id, entry.name + 1, sizeof(id));
        run->bucket = be64toh(id);
        memcpy(&head, entry.value, sizeof(head));
        memcpy(run->tag, head.tag, sizeof(run->tag));
        memcpy(run->attrs, entry.value + sizeof(head), head.attrs_len);
        run->attrs_len = head.attrs_len;
}

static int note_pg(void *arg, const struct fmt_index_pg *row)
{
        struct run *run = arg;

        if (row->pg < PGS)
                run->seq[row->pg] = row->seq;
        return 0;
}

static void open_log(struct run *run, const struct fmt_index_covered *covered)
{
        struct log *log = &run->log;
        char name[ENG_LOGFILE_NAME_MAX];
        uint64_t ahead;

        for (ahead = covered->file + 1; ahead < covered->file + 100;
             ahead++) { /* files that the daemon made ahead, not begun */
                eng_logfile_name(name, ahead);
                unlinkat(log->dir_fd, name, 0);
        }
        log->ident.file = covered->file;
        log->ident.generation = covered->generation;
        memcpy(log->ident.drive_id, run->identity.drive_id, FMT_ID);
        log->prev_crc = covered->prev_crc;
        log->bytes = run->opt.log_bytes;
        log->buffer = malloc(BATCH_BYTES + FMT_BLOCK + FMT_BODY_MAX);
        if (log->buffer == NULL)
                fail(ENOMEM, "a batch");
        log_open(log, 0);
        log_next_file(log);
        hollow_file(run);
}

static void finish(struct run *run)
{
        struct fmt_index_covered covered = {0};
        struct fmt_index_pg row = {.epoch = 1};
        struct fmt_index_log log_row = {.first_seen_ms = 0};
        uint64_t file;

        covered.position = run->log.at; /* of the last record, not of its batch */
        log_flush(&run->log);
        if (syncfs(run->log.dir_fd) != 0)
                fail(errno, "flushing");
        covered.file = run->log.ident.file;
        covered.generation = run->log.ident.generation;
        covered.prev_crc = run->log.prev_crc;
        for (row.pg = 0; row.pg < PGS; row.pg++) {
                row.seq = row.committed = run->seq[row.pg];
                if (row.seq > 0)
                        check(eng_index_pg_put(run->txn, &row), "a group's row");
        }
        for (file = 1; file <= covered.file; file++) {
                log_row.file = file;
                log_row.bytes = run->opt.log_bytes;
                check(eng_index_log_put(run->txn, &log_row), "a log file's row");
        }
        check(eng_index_meta_put(run->txn, ENG_INDEX_COVERED, &covered, sizeof(covered)), "where the log ends");
        check(eng_index_write_commit(run->txn), "committing");
        eng_index_close(run->index);
        printf("{\"log_files\": %llu, \"segments\": %llu, \"ids\": %llu}\n", (unsigned long long)covered.file,
               (unsigned long long)run->opt.files, (unsigned long long)run->counter);
}

static void take_options(int argc, char **argv, struct options *out)
{
        static const struct option names[] = {{"drive", 1, NULL, 'd'},   {"names", 1, NULL, 'n'},
                                              {"records", 1, NULL, 'r'}, {"log-bytes", 1, NULL, 'l'},
                                              {"files", 1, NULL, 'f'},   {"segment-bytes", 1, NULL, 's'},
                                              {"orphans", 1, NULL, 'o'}, {0}};
        int c;

        while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
                uint64_t value = optarg != NULL ? strtoull(optarg, NULL, 0) : 0;

                switch (c) {
                case 'd':
                        out->drive = optarg;
                        break;
                case 'n':
                        out->names = value;
                        break;
                case 'r':
                        out->records = value;
                        break;
                case 'l':
                        out->log_bytes = value;
                        break;
                case 'f':
                        out->files = value;
                        break;
                case 's':
                        out->segment_bytes = value;
                        break;
                case 'o':
                        out->orphans = value;
                        break;
                default:
                        exit(2);
                }
        }
        if (out->drive == NULL || out->names == 0 || out->records > out->names) {
                fprintf(stderr, "generate: --drive and --names are needed, and no more records than names\n");
                exit(2);
        }
}

int main(int argc, char **argv)
{
        struct run *run = calloc(1, sizeof(*run));
        struct fmt_index_covered covered;

        if (run == NULL)
                fail(ENOMEM, "generate");
        run->opt.log_bytes = 64u << 20;
        run->opt.segment_bytes = 256u << 20;
        take_options(argc, argv, &run->opt);
        open_drive(run, &covered);
        check(eng_index_each_pg(run->txn, note_pg, run), "groups");
        learn_from_object(run);
        open_log(run, &covered);
        make_names(run);
        make_segments(run);
        finish(run);
        free(run->log.buffer);
        free(run);
        return 0;
}
