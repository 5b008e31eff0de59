/*
 * body_fixture.h - bodies of records for tests: mutations, one after the other.
 */
#ifndef MILLRACE_TESTS_BODY_FIXTURE_H
#define MILLRACE_TESTS_BODY_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/drive/drive.h"

struct fx_body {
        uint8_t bytes[FMT_BODY_MAX];
        size_t len, inline_len;
};
/* An inline object. id: 8 bytes of it; the rest is zero. */
void fx_body_put(struct fx_body *body, const void *name, size_t name_len, uint64_t id, uint32_t pg, const void *bytes,
                 size_t len);
/* An object of one part with shards, part id == id. */
void fx_body_put_part(struct fx_body *body, const void *name, size_t name_len, uint64_t id, uint64_t part_id,
                      uint32_t pg);
/* An object of several parts, as an upload that was completed leaves it. */
void fx_body_put_parts(struct fx_body *body, const void *name, size_t name_len, uint64_t id, const uint64_t *part_ids,
                       unsigned count, uint32_t pg);
void fx_body_delete(struct fx_body *body, const void *name, size_t name_len);
void fx_body_end_upload(struct fx_body *body, const void *name, size_t name_len, const uint64_t *ids, size_t count);
void fx_id(uint8_t out[FMT_ID], uint64_t id);
struct eng_buf *fx_body_buf(const struct fx_body *body);
/* Names of the fixture are objects of bucket 1. */
size_t fx_name(uint8_t *out, const char *key);

#endif
