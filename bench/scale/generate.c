/*
 * generate.c - fills a stopped store of one drive, which has one object, with names, log files and
 * segments in bulk, for bench/scale.py.
 *
 *   generate --drive FOLDER --names N --records R --log-bytes B --files F --segment-bytes B --orphans O
 *
 * Names are those of `load --random-names`; the first R keys, which lie all over the index, have
 * their record in the log and can be read. The others say that theirs stands in a log file that is
 * all holes, which keeps 1e8 names within some 30 GiB. F segments are holes behind a header; half
 * of each is frames that striped objects name. O more frames have ids that no name has. What is
 * made is never to be read back whole: it has no content, only size.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/scale/bulk.h"
#include "engine/drive/segment_priv.h"
#include "load_content.h"

#define BODY_BYTES 64u /* of an object */

struct options {
        const char *drive;
        uint64_t names, records, log_bytes, files, segment_bytes, orphans;
};

struct run {
        struct options opt;
        struct bulk bulk;
        struct bulk_model model;
};

/* ---- names ----------------------------------------------------------------------------------- */

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
        uint32_t pg = eng_pg_of_key(BULK_PGS, run->model.bucket, key, (size_t)len);
        struct eng_value_spec spec = {.space = FMT_SPACE_OBJECT,
                                      .inline_value = true,
                                      .pg = pg,
                                      .inline_len = BODY_BYTES,
                                      .size = BODY_BYTES,
                                      .mtime_ms = 1700000000000 + (int64_t)i,
                                      .id = id,
                                      .etag = etag,
                                      .attrs = run->model.attrs,
                                      .attrs_len = run->model.attrs_len,
                                      .tag = run->model.tag};
        uint64_t seq = ++run->bulk.seq[pg], position;

        bulk_next_id(&run->bulk, id);
        eng_name_object(&name, run->model.bucket, key, (size_t)len);
        value = eng_value_new(&spec);
        if (value == NULL)
                bulk_fail(ENOMEM, "a value");
        if (!record) {
                bulk_hollow_name(&run->bulk, &name, value, seq, i);
                return;
        }
        bulk_check(eng_body_begin(&body, eng_body_need(name.len, value->len, BODY_BYTES)), "a body");
        eng_body_put(&body, &name, value, seq, bytes, BODY_BYTES);
        position = bulk_record(&run->bulk, &body, BODY_BYTES, pg, seq);
        bulk_name(&run->bulk, &name, value, seq, run->bulk.log.ident.file, position);
        eng_buf_unref(body.buf);
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
                bulk_fail(ENOMEM, "sorting names");
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
        segment_header_make(&header, run->bulk.identity.drive_id, number, generation);
        fd = openat(run->bulk.data_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        bulk_check(fd < 0 ? -errno : 0, name);
        if (ftruncate(fd, (off_t)run->opt.segment_bytes) != 0 ||
            pwrite(fd, &header, sizeof(header), 0) != sizeof(header))
                bulk_fail(errno, "%s", name);
        close(fd);
        bulk_check(eng_index_segment_put(run->bulk.txn, &row), "a segment's row");
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
        uint32_t pg = eng_pg_of_key(BULK_PGS, run->model.bucket, key, (size_t)len);
        struct eng_value_spec spec = {.space = FMT_SPACE_OBJECT,
                                      .pg = pg,
                                      .size = unit,
                                      .mtime_ms = 1700000000000,
                                      .id = id,
                                      .etag = etag,
                                      .attrs = run->model.attrs,
                                      .attrs_len = run->model.attrs_len,
                                      .tag = run->model.tag,
                                      .parts = encoded,
                                      .parts_len = sizeof(encoded),
                                      .part_count = 1};

        memcpy(part.id, id, FMT_ID);
        memcpy(encoded, &part, sizeof(part));
        eng_part_slot_set(encoded + sizeof(part), 1, 0, run->bulk.identity.slot);
        value = eng_value_new(&spec);
        if (value == NULL)
                bulk_fail(ENOMEM, "a value");
        eng_name_object(&name, run->model.bucket, key, (size_t)len);
        bulk_hollow_name(&run->bulk, &name, value, ++run->bulk.seq[pg], 0);
}

static void put_place(struct run *run, const uint8_t id[FMT_ID], uint64_t segment, uint64_t offset, uint32_t unit)
{
        struct eng_location place = {.segment = segment, .offset = offset, .payload_len = unit};

        bulk_check(eng_index_location_put(run->bulk.txn, id, &place, NULL), "a place");
        bulk_changed(&run->bulk);
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
                        bulk_next_id(&run->bulk, id);
                        put_place(run, id, f, FMT_BLOCK + i * gap, unit);
                        striped_object(run, (f - 1) * frames + i, id, unit);
                }
                for (o = orphans * (f - 1) / run->opt.files; o < orphans * f / run->opt.files; o++) {
                        bulk_next_id(&run->bulk, id);
                        put_place(run, id, f, FMT_BLOCK + (frames + o % frames) * gap, FMT_BLOCK);
                }
        }
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

        if (run == NULL) {
                fprintf(stderr, "generate: no memory\n");
                return 2;
        }
        run->opt.log_bytes = 64u << 20;
        run->opt.segment_bytes = 256u << 20;
        take_options(argc, argv, &run->opt);
        bulk_open(&run->bulk, run->opt.drive, run->opt.log_bytes);
        bulk_learn(&run->bulk, FMT_SPACE_OBJECT, &run->model);
        make_names(run);
        make_segments(run);
        bulk_close(&run->bulk);
        printf("{\"log_files\": %llu, \"segments\": %llu, \"ids\": %llu}\n",
               (unsigned long long)run->bulk.log.ident.file, (unsigned long long)run->opt.files,
               (unsigned long long)run->bulk.counter);
        free(run);
        return 0;
}
