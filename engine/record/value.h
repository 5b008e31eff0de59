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
/* The first field of a kind in a checked value; NULL: there is none. *field_len: of it. */
const uint8_t *eng_value_field(const void *value, size_t len, enum fmt_field_kind kind, size_t *field_len);
/* Whether a checked value is the head of a key with versions; if so, what it says of them. */
bool eng_value_head_field(const void *value, size_t len, struct fmt_head *out);
/* Encoded fields being put together in the caller's memory, which has room for what is added. */
struct eng_fields {
        uint8_t *data;
        size_t len, size;
};
void eng_fields_add(struct eng_fields *fields, enum fmt_field_kind kind, const void *data, size_t len);
/* The rules of a bucket as FMT_FIELD_BUCKET. */
struct fmt_bucket_rules eng_rules_encode(const struct eng_bucket_rules *rules);
/* And back. -EBADMSG: they make no sense. */
int eng_rules_decode(const uint8_t *data, size_t len, struct eng_bucket_rules *out);
/* Whether they contradict each other, or are out of bounds: no bucket can have them. */
bool eng_rules_make_sense(const struct eng_bucket_rules *rules);
/* They say the same, whatever their generation. */
bool eng_rules_same(const struct eng_bucket_rules *a, const struct eng_bucket_rules *b);
/* Bytes that a field with so many bytes of data takes. */
size_t eng_field_size(size_t len);
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
/* Some shard of it was never written, or was written to a drive that has left. */
bool eng_value_lacks_shards(const void *buf, size_t len);
static inline bool eng_value_has_shards(const struct fmt_value *value)
{
        return value->parts > 0;
}

/* Whether two encoded values say the same, wherever they stand and whatever their numbers. */
bool eng_value_alike(const void *a, size_t a_len, const void *b, size_t b_len);

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
/* Version `number` of a key (docs/design/versions.md). */
void eng_name_version(struct eng_name *out, uint64_t bucket, const void *key, size_t len, uint64_t number);
/* The prefix of all versions of a key. */
void eng_name_versions(struct eng_name *out, uint64_t bucket, const void *key, size_t len);
/* The number in the name of a version that eng_name_key() has taken. */
uint64_t eng_name_version_number(const uint8_t *name, size_t len);
/* The least name greater than every name that begins with this one; false if there is none. */
bool eng_name_successor(struct eng_name *name);
/*
 * Gives bucket and key of an index name: what its changes are locked by, and its group follows from.
 * -EBADMSG: it is no name of ours.
 */
int eng_name_key(const struct eng_name *name, uint64_t *bucket, uint8_t key[FMT_NAME_MAX], size_t *len);

/* It is the name of an object's row, or of a version's. */
static inline bool eng_name_is_objects(const struct eng_name *name)
{
        return name->len > 0 && (name->data[0] == FMT_SPACE_OBJECT || name->data[0] == FMT_SPACE_VERSION);
}
/* A plain object or a version with bytes: no head, no delete marker. */
static inline bool eng_value_is_object(const struct fmt_value *value)
{
        return (value->space == FMT_SPACE_OBJECT || value->space == FMT_SPACE_VERSION) && (value->state & (FMT_STATE_HEAD | FMT_STATE_MARKER)) == 0;
}

/* How bucket and key stand in the names of a space (spaces.def). */
enum eng_name_form {
        ENG_FORM_CONFIG,               /* the configuration's own forms */
        ENG_FORM_RAW,                  /* the key, up to the end of the name */
        ENG_FORM_ESCAPED               /* the key escaped, its end mark 00 01, a tail */
};
/* Bytes behind the key in names of a space, the end mark included. */
size_t eng_space_tail(enum fmt_space space);
/* Space, bucket and the start of names of one bucket. */
void eng_name_space(struct eng_name *out, enum fmt_space space, uint64_t bucket);

/*
 * The name of the record that says that the bucket of this name and id was deleted, and that
 * unfinished uploads may be left of it. Written by the change that deletes the bucket, removed when
 * nothing is left. Changed with the lock of the bucket's name held.
 */
void eng_name_dead_bucket(struct eng_name *out, const char *bucket, uint64_t id);
/* A piece of a text of a bucket; all texts of the bucket: eng_name_texts() is their prefix. */
void eng_name_text(struct eng_name *out, uint64_t bucket, unsigned kind, unsigned piece);
void eng_name_texts(struct eng_name *out, uint64_t bucket);
/* False: it is none. */
bool eng_text_name(const uint8_t *name, size_t len, uint64_t *bucket, unsigned *kind, unsigned *piece);
/* What a text's rows are locked by, as the key of a change of bucket 0; eng_name_key() gives the same. */
#define ENG_TEXT_KEY 10u
void eng_text_key(uint8_t key[ENG_TEXT_KEY], uint64_t bucket, unsigned kind);
/* Length of the bucket's name in such a name, which begins at data[10]; 0: it is none. */
size_t eng_dead_bucket_name_len(const struct eng_name *name);

/* ---- rows of buckets (bucket_row.c) ---------------------------------------------------------- */

/* The value of a bucket's row. NULL: no memory. */
struct eng_buf *eng_bucket_value(uint32_t pg, const struct eng_bucket *bucket);
/* A name and value of the CONFIG PG as a bucket. -EBADMSG: they are none. */
int eng_bucket_decode(const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len, struct eng_bucket *out);
/* They say the same of a bucket of this name. */
bool eng_bucket_same(const struct eng_bucket *a, const struct eng_bucket *b);

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
        uint32_t state;                /* enum fmt_value_state */
        const void *attrs;
        size_t attrs_len;
        const void *fields;            /* encoded fmt_fields, each padded */
        size_t fields_len;
        const void *parts;             /* encoded fmt_parts */
        size_t parts_len;
        uint32_t part_count;
};
struct eng_buf *eng_value_new(const struct eng_value_spec *spec);
/*
 * Fills object from a checked value; its strings point into it. name: of the value, which has the
 * number of a version; NULL: it is none.
 */
void eng_value_object(const struct eng_buf *value, const struct eng_name *name, struct eng_object *out);
/* The same of len bytes, which need not be aligned and may end behind the head, attrs or fields. */
void eng_encoded_object(const uint8_t *value, size_t len, struct eng_object *out);
/* What a listing shows of a value, and how drives and leaders pass it on: not on disk. */
struct eng_listed {
        uint64_t size;
        int64_t mtime_ms;
        uint8_t etag[16], tag[8];
        uint16_t etag_parts;
        uint16_t state;                /* enum fmt_value_state */
} __attribute__((packed));
_Static_assert(sizeof(struct eng_listed) == 44, "44 bytes of each name of a listing");
/* Of a value, which need not be aligned. */
void eng_listed_of(const uint8_t *value, struct eng_listed *out);
/* The object as far as the short form tells; not aligned. All else of out is zero. */
void eng_listed_object(const uint8_t *listed, struct eng_object *out);
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
