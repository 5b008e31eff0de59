/*
 * s3_tags.h - tags of objects and buckets: limits, the header of uploads, the form in which they
 * are stored. See s3.h for the rules of this module. Tagging documents are read by
 * s3_doc_new(S3_DOC_OBJECT_TAGGING or S3_DOC_BUCKET_TAGGING) and written by s3_tags_write(), in
 * s3_xml.h.
 */
#ifndef MILLRACE_S3_TAGS_H
#define MILLRACE_S3_TAGS_H

#include "s3_base.h"

#include <sys/types.h>

#define S3_OBJECT_TAGS_MAX 10u
#define S3_TAGS_MAX        50u  /* of a bucket */
#define S3_TAG_KEY_MAX     128u /* UTF-16 units, as AWS counts; 1 at least */
#define S3_TAG_VALUE_MAX   256u
/* A UTF-16 unit is at most three bytes of UTF-8; a pair of them is four. */
#define S3_TAG_KEY_BYTES   (3 * S3_TAG_KEY_MAX)
#define S3_TAG_VALUE_BYTES (3 * S3_TAG_VALUE_MAX)

struct s3_tag {
        struct s3_str key, value; /* the value is never absent, but may be empty */
};

/* In the order given. Who owns the bytes is said by what fills it. */
struct s3_tags {
        unsigned count;
        struct s3_tag tag[S3_TAGS_MAX];
};

/*
 * The rules of AWS for a set of at most max tags. BAD_REQUEST: too many; INVALID_TAG: a key or
 * value that is too long or has characters that are not allowed (letters, numbers and spaces of any
 * script and _.:/=+-@ are), a key of the prefix "aws:" in any case, a key that is there twice.
 * *message says which of these, in AWS's words.
 */
enum s3_error s3_tags_check(const struct s3_tags *tags, unsigned max, const char **message);
/* UTF-8 of characters that a tag may have, within a length in UTF-16 units. */
bool s3_tag_text_valid(struct s3_str s, size_t max);
/* The number of UTF-16 units of valid UTF-8. */
size_t s3_utf16_len(struct s3_str s);
/* Is this tag, key and value, among them? */
bool s3_tags_have(const struct s3_tags *tags, const struct s3_tag *tag);

/*
 * Value of x-amz-tagging: tags of an object as parameters of a query, "a=1&b=2". buf receives the
 * decoded text and must hold value.len bytes; the tags point into it. INVALID_ARGUMENT: bad escape,
 * invalid UTF-8, an empty key, a key twice; else as s3_tags_check(). An empty value is no tags.
 */
enum s3_error s3_tags_header_parse(struct s3_str value, char *buf, size_t cap, struct s3_tags *out,
                                   const char **message);
/*
 * x-amz-tagging-directive: COPY (also if absent) or REPLACE. INVALID_ARGUMENT: neither.
 */
enum s3_error s3_tagging_directive_parse(struct s3_str value, bool *replace, const char **message);

/* ---- as they are stored ---------------------------------------------------------------------- */

/*
 * | count u8 | { key_len u16, value_len u16, key, value } x count |, numbers little-endian, lengths
 * in bytes. No tags are the one byte 0.
 */
#define S3_TAGS_SIZE(count) (1 + (size_t)(count) * (4 + S3_TAG_KEY_BYTES + S3_TAG_VALUE_BYTES)) /* always enough */

/* Tags that s3_tags_check() accepts. Returns the bytes written; -ENOBUFS. */
ssize_t s3_tags_encode(const struct s3_tags *tags, void *out, size_t cap);
/* The tags point into data. -EINVAL: not exactly the form above, or beyond the limits of length. */
int s3_tags_decode(const void *data, size_t len, struct s3_tags *out);

#endif
