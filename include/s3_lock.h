/*
 * s3_lock.h - object lock: the default of a bucket, retention and legal hold of a version, and the
 * headers that carry them. See s3.h for the rules of this module. The documents are read by
 * s3_doc_new(S3_DOC_LOCK_CONFIG, S3_DOC_RETENTION or S3_DOC_LEGAL_HOLD) and written by
 * s3_lock_config_write(), s3_retention_write() and s3_legal_hold_write(), in s3_xml.h.
 *
 * Nothing here knows the time. Whether a date lies in the future is for the caller to check, who
 * answers INVALID_ARGUMENT with S3_LOCK_PAST_MESSAGE if it does not.
 */
#ifndef MILLRACE_S3_LOCK_H
#define MILLRACE_S3_LOCK_H

#include "s3_base.h"

#define S3_LOCK_DAYS_MAX     36500u
#define S3_LOCK_YEARS_MAX    100u
#define S3_LOCK_PAST_MESSAGE "The retain until date must be in the future!"

/* The numbers are those that are stored. */
enum s3_lock_mode { S3_LOCK_NONE = 0, S3_LOCK_GOVERNANCE = 1, S3_LOCK_COMPLIANCE = 2 };

/* "GOVERNANCE", "COMPLIANCE"; "" for NONE. */
const char *s3_lock_mode_name(enum s3_lock_mode mode);

/* ---- documents ------------------------------------------------------------------------------- */

/*
 * ObjectLockConfiguration of a bucket whose lock is enabled. mode NONE: it has no default; else
 * exactly one of days and years is not 0. A document is refused with MALFORMED_XML if
 * ObjectLockEnabled is not there or not Enabled, a Rule lacks its DefaultRetention, the mode is
 * neither, or it has both of Days and Years or none; with INVALID_ARGUMENT if the period is not
 * positive or beyond the bounds above.
 */
struct s3_lock_config {
        enum s3_lock_mode mode;
        uint32_t days, years;
};

/* Retention of a version. A document without mode and date asks to remove it: NONE. */
struct s3_retention {
        enum s3_lock_mode mode;
        int64_t until_ms;
};

/*
 * The retention that an object gets which is written at that time. Years are those of the calendar;
 * February 29 becomes March 1 where there is none. mode NONE if the bucket has no default.
 */
struct s3_retention s3_lock_default(const struct s3_lock_config *config, int64_t now_ms);

/* ---- headers --------------------------------------------------------------------------------- */

/* Of PutObject, CopyObject and CreateMultipartUpload. */
struct s3_lock_headers {
        struct s3_retention retention; /* mode NONE: none is asked for */
        bool has_hold, hold;           /* x-amz-object-lock-legal-hold, and whether it is ON */
        const char *wrong;             /* after INVALID_ARGUMENT: the header; NULL: no single one */
};

/*
 * Values of x-amz-object-lock-mode, -retain-until-date and -legal-hold; absent where not sent.
 * INVALID_ARGUMENT with AWS's text in *message: a mode without a date or the other way round, a
 * mode that is neither, no ISO 8601 date, neither ON nor OFF.
 */
enum s3_error s3_lock_headers_parse(struct s3_str mode, struct s3_str until, struct s3_str hold,
                                    struct s3_lock_headers *out, const char **message);
/*
 * x-amz-bypass-governance-retention and x-amz-bucket-object-lock-enabled: true or false, in any
 * case; false if absent. INVALID_ARGUMENT: something else.
 */
enum s3_error s3_lock_flag_parse(struct s3_str value, bool *out);

#endif
