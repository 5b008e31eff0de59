/*
 * value.h - what records and index rows hold: shared buffers, names, values with their parts,
 * bodies of records. Functions over values, any thread.
 */
#ifndef MILLRACE_ENGINE_VALUE_H
#define MILLRACE_ENGINE_VALUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "engine/format.h"

/* Bytes shared by value between loops; the last release frees. Any thread. */
struct eng_buf {
        atomic_uint refs;
        uint32_t len;
        uint8_t *data;
        struct eng_buf *of;            /* NULL, or whose bytes they are */
        atomic_uint_fast64_t crc;      /* CRC32C of them, and a bit above it; 0: not asked for yet */
        uint8_t own[];
};
struct eng_buf *eng_buf_new(size_t len);              /* one reference; NULL: no memory */
/* Some of another's bytes, which stays as long as this does. */
struct eng_buf *eng_buf_slice(struct eng_buf *of, size_t offset, size_t len);
struct eng_buf *eng_buf_ref(struct eng_buf *buf);
void eng_buf_unref(struct eng_buf *buf);              /* NULL is allowed */
/*
 * Of all bytes, which nobody changes any more. Summed when it is first asked for, and kept: what is
 * read often is summed once.
 */
uint32_t eng_buf_crc32c(struct eng_buf *buf);

/* ---- values (value.c) ------------------------------------------------------------------------ */

/* A decoded part: pointers into the buffer it was decoded from. */
struct eng_part {
        struct fmt_part head;        /* copied out */
        const uint8_t *attrs;
        const uint8_t *drives;       /* head.runs * (k+m) slots, each of `width` bytes: eng_part_slot() reads them */
        unsigned width;              /* 1 or 2; head.number has no FMT_PART_NARROW any more */
};
#define ENG_NO_DRIVE 0xffffu
/*
 * Slot of entry i of the part's drives (run * (k+m) + shard); ENG_NO_DRIVE: the shard is missing.
 */
unsigned eng_part_slot(const struct eng_part *part, size_t i);
/* Writes entry i of encoded drives; slot: a drive's, or ENG_NO_DRIVE. */
void eng_part_slot_set(uint8_t *drives, unsigned width, size_t i, unsigned slot);

/*
 * Steps through the optional fields of a checked value, which stand between attrs and parts. *pos
 * 0: begins. 1: out and data are set; 0: end; -EBADMSG: the fields make no sense.
 */
int eng_value_next_field(const void *buf, size_t len, size_t *pos, struct fmt_field *out, const uint8_t **data);
/* Where the parts begin: behind head, attrs and fields. */
static inline size_t eng_value_parts_at(const struct fmt_value *value)
{
        return sizeof(*value) + value->attrs_len + value->fields_len;
}
/* Drive slot of a shard in the run that stripe belongs to; 0xffff: missing. */
unsigned eng_part_drive(const struct eng_part *part, uint32_t stripe, unsigned shard);
uint32_t eng_part_stripes(const struct fmt_part *part);
/* Unit (payload bytes per shard) of one stripe. */
uint32_t eng_part_unit(const struct fmt_part *part, uint32_t stripe);

/* Checks lengths and limits of an encoded value (outside data: disk, network). -EBADMSG. */
int eng_value_check(const void *buf, size_t len);
/* The same but for the parts: what else is in it can be relied on. */
int eng_value_check_head(const void *buf, size_t len);
/*
 * Total encoded length from a prefix of it is known only by walking: iterate parts with a cursor
 * starting at *pos = 0. Returns 1 and a part, 0 at the end, -EBADMSG.
 */
int eng_value_next_part(const void *buf, size_t len, size_t *pos, struct eng_part *out);
static inline bool eng_value_has_shards(const struct fmt_value *value)
{
        return value->parts > 0;
}

/* Order-preserving escape for names (see format.h). Returns the length written; dst needs 2*len. */
size_t eng_name_escape(uint8_t *dst, const void *src, size_t len);
size_t eng_name_unescape(uint8_t *dst, const void *src, size_t len, size_t *consumed); /* up to and with 00 01; (size_t)-1: malformed */

/* ---- names (name.c) -------------------------------------------------------------------------- */

struct eng_name {
        uint16_t len;
        uint8_t data[FMT_NAME_MAX];
};
void eng_name_object(struct eng_name *out, uint64_t bucket, const void *key, size_t len);
void eng_name_bucket(struct eng_name *out, const char *bucket);
void eng_name_upload(struct eng_name *out, uint64_t bucket, const void *key, size_t len, const uint8_t id[FMT_ID]);
/* part 0: the prefix of all parts */
void eng_name_part(struct eng_name *out, uint64_t bucket, const void *key, size_t len, const uint8_t id[FMT_ID],
                   unsigned part);
/* The least name greater than every name that begins with this one; false if there is none. */
bool eng_name_successor(struct eng_name *name);
/* Space, bucket and the start of names of one bucket. */
void eng_name_space(struct eng_name *out, enum fmt_space space, uint64_t bucket);

/*
 * The name of the record that says that the bucket of this name and id was deleted, and that
 * unfinished uploads may be left of it. Written by the change that deletes the bucket, removed when
 * nothing is left. Changed with the lock of the bucket's name held.
 */
void eng_name_dead_bucket(struct eng_name *out, const char *bucket, uint64_t id);
/* Length of the bucket's name in such a name, which begins at data[10]; 0: it is none. */
size_t eng_dead_bucket_name_len(const struct eng_name *name);

/* ---- values and record bodies (record.c) ----------------------------------------------------- */

/* What a new value says; encoded by eng_value_new(). */
struct eng_value_spec {
        enum fmt_space space;
        bool inline_value;
        uint32_t pg, inline_len;
        uint64_t size;
        int64_t mtime_ms;
        const uint8_t *id, *etag, *upload_id, *tag; /* NULL: zeroes */
        uint16_t etag_parts;
        const void *attrs;
        size_t attrs_len;
        const void *fields;            /* encoded fmt_fields, each padded */
        size_t fields_len;
        const void *parts;             /* encoded fmt_parts */
        size_t parts_len;
        uint32_t part_count;
};
struct eng_buf *eng_value_new(const struct eng_value_spec *spec);
/* Fills object from an encoded value; attrs point into it. */
void eng_value_object(const struct eng_buf *value, struct eng_object *out);
static inline const struct fmt_value *eng_value_head(const void *encoded)
{
        return encoded;
}

/* Appends mutations to a body under construction. */
struct eng_body {
        struct eng_buf *buf;
        size_t len;
};
int eng_body_begin(struct eng_body *body, size_t capacity);
void eng_body_put(struct eng_body *body, const struct eng_name *name, const struct eng_buf *value, uint64_t seq,
                  const void *inline_bytes, size_t inline_len);
void eng_body_delete(struct eng_body *body, const struct eng_name *name);
void eng_body_end_upload(struct eng_body *body, const struct eng_name *upload, const uint8_t (*ids)[FMT_ID], size_t count);
size_t eng_body_need(size_t name_len, size_t value_len, size_t inline_len);

/* ---- digests of shards (digest.c) ------------------------------------------------------------ */

void eng_digest_add(struct eng_digest *digest, const uint8_t object_id[FMT_ID], uint32_t stripe, unsigned shard,
                    const void *payload, size_t len);
/* Of what is in either, and not in both. */
void eng_digest_merge(struct eng_digest *digest, const struct eng_digest *more);

#endif
