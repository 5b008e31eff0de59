/*
 * s3_lifecycle.h - lifecycle rules in a compiled form, and what they make due when. See s3.h for
 * the rules of this module. LifecycleConfiguration is read by s3_doc_new(S3_DOC_LIFECYCLE), which
 * s3_doc_take_lifecycle() takes the rules from, and written by s3_lifecycle_write(), in s3_xml.h.
 *
 * Nothing here knows the time: the caller compares what is due with its clock.
 */
#ifndef MILLRACE_S3_LIFECYCLE_H
#define MILLRACE_S3_LIFECYCLE_H

#include "s3_base.h"
#include "s3_tags.h"

#define S3_LIFECYCLE_RULES_MAX 1000u
#define S3_LIFECYCLE_BODY_MAX  (2u << 20)
#define S3_LIFECYCLE_ID_MAX    255u              /* UTF-16 units */
#define S3_LIFECYCLE_NEWER_MAX 100u              /* of NewerNoncurrentVersions */
#define S3_LIFECYCLE_SIZE_MAX  1099511627776000u /* of ObjectSizeGreaterThan and -LessThan */

/* How a rule says which objects it is for; it is written as it was read. */
enum s3_lifecycle_filter {
        S3_FILTER_LEGACY, /* Prefix of the rule itself */
        S3_FILTER_ONE,    /* Filter with one condition, or none: all objects */
        S3_FILTER_AND     /* Filter with And */
};

/* Strings and tags belong to the lifecycle. */
struct s3_lifecycle_rule {
        struct s3_str id; /* made up if the document had none: "rule-" and a number */
        bool enabled;
        bool transition; /* has a Transition or NoncurrentVersionTransition */
        enum s3_lifecycle_filter filter;
        struct s3_str prefix; /* absent: no condition */
        unsigned tag_count;   /* all of them are needed */
        const struct s3_tag *tags;
        bool has_greater, has_less;
        uint64_t greater, less; /* bytes: size > greater, size < less */
        uint32_t days;          /* Expiration: Days; 0: none */
        bool has_date;          /* Expiration: Date, a midnight UTC */
        int64_t date_ms;
        bool has_marker, marker;                  /* Expiration: ExpiredObjectDeleteMarker, as given */
        uint32_t noncurrent_days, newer_versions; /* NoncurrentVersionExpiration; 0: none */
        uint32_t abort_days;                      /* AbortIncompleteMultipartUpload; 0: none */
};

struct s3_lifecycle_private;

/*
 * Rules that were read. Immutable, so any number of threads may ask at the same time. Reading
 * refuses, with AWS's texts: MALFORMED_XML, what the schema does not allow, no rule or more than
 * S3_LIFECYCLE_RULES_MAX, a Filter of several conditions without And, an And of fewer than two;
 * INVALID_ARGUMENT, numbers and dates out of range, an ID that is too long or there twice;
 * INVALID_REQUEST, a rule without an action, actions that the filter does not allow, sizes out of
 * order, tags out of bounds, and rules with a Filter beside rules with a Prefix of their own.
 */
struct s3_lifecycle {
        unsigned rule_count;
        struct s3_lifecycle_rule *rules; /* in the order of the document */
        /* A rule has a transition: a caller with one storage class answers NOT_IMPLEMENTED. */
        bool transition;
        /*
         * The prefixes of keys that enabled rules are for, sorted bytewise, none a prefix of another:
         * a walk over these ranges meets everything that can be due, and nothing twice. One empty
         * prefix: all keys.
         */
        unsigned prefix_count;
        struct s3_str *prefixes;
        struct s3_lifecycle_private *priv;
};

void s3_lifecycle_free(struct s3_lifecycle *lifecycle); /* NULL is allowed */

/* ---- what is due ----------------------------------------------------------------------------- */

#define S3_SECONDS_PER_DAY 86400u

/* One version of an object, as a walker meets it. */
struct s3_lifecycle_version {
        struct s3_str key;
        const struct s3_tags *tags; /* NULL: none */
        uint64_t size;
        int64_t mtime_ms;          /* when it was written */
        bool latest;               /* the newest version of its key */
        bool marker;               /* a delete marker: it has neither tags nor a size that a filter could ask for */
        bool only;                 /* latest: the key has no other version */
        int64_t successor_ms;      /* not latest: when the next newer version, or marker, was written */
        unsigned newer_noncurrent; /* not latest: versions of the key that are newer, the latest one left out */
};

enum s3_lifecycle_action {
        S3_LIFECYCLE_NOTHING,
        S3_LIFECYCLE_EXPIRE,         /* as a DELETE without a version id: a bucket with versions gets a marker */
        S3_LIFECYCLE_DELETE_VERSION, /* a version that is not the latest is to go for good */
        S3_LIFECYCLE_DELETE_MARKER,  /* a delete marker with nothing behind it is to go */
        S3_LIFECYCLE_ABORT           /* an upload is to be aborted */
};

/* When it is due; at or before now: it is due now. NOTHING: the rest is zero. */
struct s3_lifecycle_due {
        enum s3_lifecycle_action action;
        int64_t at_ms;
        const struct s3_lifecycle_rule *rule; /* the lifecycle's */
};

/*
 * The action of an enabled rule that is due first; of those due at the same time, that of the first
 * rule. Days count from mtime, or from successor for a version that is not the latest, and the sum
 * is moved on to the next midnight UTC, as AWS rounds; what is a midnight already is moved on by a
 * day. seconds_per_day is S3_SECONDS_PER_DAY, or less to let days pass faster in tests: midnights
 * are then its multiples; dates remain what they are.
 *
 * Days and Date apply to a latest delete marker, too, if it is the only version, as AWS documents.
 */
struct s3_lifecycle_due s3_lifecycle_evaluate(const struct s3_lifecycle *lifecycle,
                                              const struct s3_lifecycle_version *version, unsigned seconds_per_day);
/* The same for a multipart upload: NOTHING or ABORT. */
struct s3_lifecycle_due s3_lifecycle_evaluate_upload(const struct s3_lifecycle *lifecycle, struct s3_str key,
                                                     int64_t initiated_ms, unsigned seconds_per_day);

#define S3_LIFECYCLE_EXPIRATION_SIZE (64 + 9 * S3_LIFECYCLE_ID_MAX) /* always enough */

/*
 * Value of x-amz-expiration for what EXPIREs: expiry-date="Fri, 21 Dec 2012 00:00:00 GMT",
 * rule-id="percent-encoded". Returns its length, a NUL behind it.
 */
size_t s3_lifecycle_expiration(const struct s3_lifecycle_due *due, char out[S3_LIFECYCLE_EXPIRATION_SIZE]);

#endif
