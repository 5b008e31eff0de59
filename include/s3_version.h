/*
 * s3_version.h - whether a bucket keeps versions, and the ids of versions. See s3.h for the rules
 * of this module. VersioningConfiguration is read by s3_doc_new(S3_DOC_VERSIONING) and written by
 * s3_versioning_write(), both in s3_xml.h.
 */
#ifndef MILLRACE_S3_VERSION_H
#define MILLRACE_S3_VERSION_H

#include "s3_base.h"

/* ---- versioning ------------------------------------------------------------------------------ */

/*
 * NEVER: the bucket has had no configuration; GET answers an empty one, and no request can ask for
 * it. A request is refused with ILLEGAL_VERSIONING if it has no Status, with MALFORMED_XML if a
 * value is none of AWS's, and with NOT_IMPLEMENTED if it asks for MFA delete.
 */
enum s3_versioning { S3_VERSIONING_NEVER, S3_VERSIONING_ENABLED, S3_VERSIONING_SUSPENDED };

/* ---- version ids ----------------------------------------------------------------------------- */

#define S3_VERSION_BYTES 24u      /* number and random bytes */
#define S3_VERSION_TEXT  (32 + 1) /* base64url and NUL */

/* What an id names: a version by its number, or the null version. */
struct s3_version {
        bool null;          /* `null`; the rest is zero then */
        uint64_t number;    /* the store's, unique among the versions of a key */
        uint8_t random[16]; /* what makes the id unguessable */
};

/* `null`, or base64url of the number (big-endian) and the random bytes. Returns the length. */
size_t s3_version_format(const struct s3_version *version, char out[S3_VERSION_TEXT]);
/*
 * Strict: `null`, or exactly the 32 characters that s3_version_format() writes of a number that is
 * not 0. INVALID_ARGUMENT
 * with AWS's text in *message: anything else. An id that another store gave out is INVALID_ARGUMENT
 * as well, not NoSuchVersion, as with AWS.
 */
enum s3_error s3_version_parse(struct s3_str text, struct s3_version *out, const char **message);

#endif
