/*
 * s3_request.h - ranges, copy sources, conditions. See s3.h for the rules of this module.
 */
#ifndef MILLRACE_S3_REQUEST_H
#define MILLRACE_S3_REQUEST_H

#include "s3_base.h"
#include "s3_uri.h"

#include <sys/types.h>

/* ---- metadata -------------------------------------------------------------------------------- */

bool s3_ascii(struct s3_str s);

/* Room that is always enough for s3_words_encode(). */
#define S3_WORDS_SIZE(len) (8 * (len) + 16)
/*
 * Metadata that is not ASCII, as it stands in a header of an answer: encoded words of RFC 2047 in
 * UTF-8, of at most 75 characters and of whole characters each, one space between them. "Q" where
 * most characters are ASCII, else "B". Bytes that are no UTF-8 are taken for ISO-8859-1. The
 * length; -ENOBUFS.
 */
ssize_t s3_words_encode(struct s3_str value, char *out, size_t cap);
/*
 * The way back, for clients: a value that consists of such words and blanks between them, to UTF-8
 * that is no longer than it was (out may be where value is). The length; -EINVAL: it is something
 * else, or would have control characters, which no header has.
 */
ssize_t s3_words_decode(struct s3_str value, char *out);

/* ---- ranges ---------------------------------------------------------------------------------- */

enum s3_range_form { S3_RANGE_NONE, S3_RANGE_FROM_TO, S3_RANGE_FROM, S3_RANGE_LAST };

struct s3_range {
        enum s3_range_form form;
        uint64_t first; /* FROM_TO, FROM */
        uint64_t last;  /* FROM_TO: inclusive; LAST: number of bytes */
};

/*
 * Range header of a GET or HEAD. What is not one well-formed range of bytes is no range at all
 * (NONE: the whole object).
 */
struct s3_range s3_range_parse(struct s3_str value);
/* Places it in an object of that size: 0 with offset and length (NONE: all), or INVALID_RANGE. */
enum s3_error s3_range_resolve(const struct s3_range *range, uint64_t size, uint64_t *offset, uint64_t *len);
/*
 * x-amz-copy-source-range: "bytes=first-last" that lies within the source, else INVALID_ARGUMENT.
 */
enum s3_error s3_copy_range_parse(struct s3_str value, struct s3_range *out);
enum s3_error s3_copy_range_resolve(const struct s3_range *range, uint64_t size, uint64_t *offset, uint64_t *len);

/* ---- copy sources ---------------------------------------------------------------------------- */

#define S3_VERSION_ID_MAX 1024u

struct s3_copy_source {
        struct s3_address address; /* bucket and key, decoded */
        bool has_version;
        size_t version_len;
        char version[S3_VERSION_ID_MAX + 1];
};

/*
 * x-amz-copy-source: [/]bucket/key[?versionId=v], percent-encoded or not quite. INVALID_ARGUMENT;
 * KEY_TOO_LONG; INVALID_BUCKET_NAME; INVALID_REQUEST for access point ARNs.
 */
enum s3_error s3_copy_source_parse(struct s3_str value, struct s3_copy_source *out);

/* ---- conditions ------------------------------------------------------------------------------ */

/*
 * Header values as received; absent where not sent. For copies: the x-amz-copy-source-if-... ones.
 */
struct s3_conditions {
        struct s3_str if_match, if_none_match, if_modified_since, if_unmodified_since;
};

/*
 * GET and HEAD (copy false): S3_OK, NOT_MODIFIED or PRECONDITION_FAILED. Copies: S3_OK or
 * PRECONDITION_FAILED. etag with or without quotes. S3's precedence: If-Match true makes
 * If-Unmodified-Since moot, If-None-Match makes If-Modified-Since moot; dates that don't parse or
 * lie in the future are ignored.
 */
enum s3_error s3_conditions_check(const struct s3_conditions *conditions, struct s3_str etag, int64_t mtime_ms,
                                  int64_t now_ms, bool copy);
/*
 * One of a list of ETags ("a", "b" or *) equals etag; quotes don't matter, W/ never matches for
 * If-Match.
 */
bool s3_etag_in_list(struct s3_str list, struct s3_str etag);

enum s3_put_condition { S3_PUT_ALWAYS, S3_PUT_IF_ABSENT, S3_PUT_IF_MATCH };

/*
 * If-None-Match and If-Match of PUT, CompleteMultipartUpload, CopyObject's target and DELETE.
 * S3_PUT_IF_MATCH gives the ETag wanted without quotes ("*": any). NOT_IMPLEMENTED: If-None-Match
 * other than "*", or both headers.
 */
enum s3_error s3_put_condition_parse(struct s3_str if_match, struct s3_str if_none_match, enum s3_put_condition *out,
                                     struct s3_str *etag);

#endif
