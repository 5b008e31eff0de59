/*
 * fuzz_log_record.c - any bytes as a log file and as a record's body: reading them back must end,
 * and stay inside them.
 *
 * The first byte says how the rest is used. Checksums are made right where they stand in the way,
 * so that what lies behind them is met.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ec.h"
#include "engine/drive/drive.h"
#include "engine/drive/rec.h"
#include "engine/drive/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct eng_log_ident ident = {.drive_id = {1, 2, 3}, .file = 1, .generation = 42};

/* The body of a PG record, in memory of its exact size. */
static void try_body(const uint8_t *data, size_t size)
{
        uint32_t inline_len = size > 0 ? data[0] : 0;
        struct eng_part part;
        struct eng_mut mut;
        size_t pos = 0, at;
        uint8_t *body;

        if (size == 0 || inline_len > size - 1)
                return;
        size--;
        body = malloc(size > 0 ? size : 1);
        if (body == NULL)
                abort();
        memcpy(body, data + 1, size);
        if (eng_rec_check_body(body, size, inline_len) == 0) {
                while (eng_rec_next(body, size, inline_len, &pos, &mut) == 1) {
                        at = 0;
                        while (mut.kind == FMT_MUT_PUT &&
                               eng_value_next_part(mut.value, mut.value_len, &at, &part) == 1)
                                eng_part_drive(&part, eng_part_stripes(&part.head) - 1, 0);
                }
        }
        eng_rec_check_copy(body, size, inline_len);
        eng_value_check(body, size);
        eng_rec_check_epoch(body, size);
        free(body);
}

/* Makes the record at a place believable: what the fuzzer gives is its lengths and its body. */
static void seal_at(uint8_t *bytes, size_t size, size_t at, uint32_t *prev_crc)
{
        struct fmt_record rec;
        size_t left = size - at - sizeof(rec);

        memcpy(&rec, bytes + at, sizeof(rec));
        memcpy(rec.drive_id, ident.drive_id, FMT_ID);
        rec.file = ident.file;
        rec.generation = ident.generation;
        rec.position = at;
        rec.prev_crc = *prev_crc;
        rec.body_len %= (uint32_t)left + 64;
        rec.inline_len = rec.body_len > 0 ? rec.inline_len % rec.body_len : 0;
        rec.type = (uint16_t)(1 + rec.type % 8);
        rec.batch = at / FMT_BLOCK * FMT_BLOCK;
        if (rec.body_len <= left)
                rec.body_crc = era_crc32c(0, bytes + at + sizeof(rec), rec.body_len);
        eng_rec_seal(&rec);
        *prev_crc = rec.header_crc;
        memcpy(bytes + at, &rec, sizeof(rec));
}

static void try_file(const uint8_t *data, size_t size, unsigned sealed)
{
        char path[] = "/tmp/fuzz-log-XXXXXX", name[64];
        struct eng_log_window window;
        struct eng_log_rest rest;
        struct fmt_record rec;
        uint64_t position = 0;
        const uint8_t *body;
        uint32_t prev_crc = 0, chain = 0;
        uint8_t *bytes = malloc(size + 1);
        size_t at = 0;
        FILE *file;
        int dir_fd;

        if (bytes == NULL || mkdtemp(path) == NULL)
                abort();
        memcpy(bytes, data, size);
        for (; sealed > 0 && at + sizeof(rec) <= size; sealed--) {
                seal_at(bytes, size, at, &prev_crc);
                memcpy(&rec, bytes + at, sizeof(rec));
                at += eng_rec_size(rec.body_len);
        }
        snprintf(name, sizeof(name), "%s/0000000000000001.log", path);
        file = fopen(name, "w");
        if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
                abort();
        free(bytes);
        dir_fd = open(path, O_RDONLY | O_DIRECTORY);
        if (dir_fd < 0 || eng_log_window_open(&window, dir_fd, 1) != 0)
                abort();
        while (eng_replay_next(&window, &ident, &position, chain, &rec, &body) == 1) {
                eng_rec_check_body(body, rec.body_len, rec.inline_len);
                chain = rec.header_crc;
                position += eng_rec_size(rec.body_len);
        }
        eng_replay_rest(&window, &ident, size % 2 == 0, position, &rest);
        eng_log_window_close(&window);
        close(dir_fd);
        unlink(name);
        rmdir(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < 1 || size > 64u << 10)
                return 0;
        if (data[0] % 2 == 0)
                try_body(data + 1, size - 1);
        else
                try_file(data + 1, size - 1, data[0] / 2 % 8);
        return 0;
}
