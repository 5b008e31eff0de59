/*
 * lifecycle.h - what the files that read lifecycle rules share.
 */
#ifndef S3_LIFECYCLE_INTERNAL_H
#define S3_LIFECYCLE_INTERNAL_H

#include "docs_internal.h"

/* The elements of LifecycleConfiguration; the numbers are those of the schema. */
enum s3_lifecycle_element {
        LC_ROOT,
        LC_RULE,
        LC_ID,
        LC_STATUS,
        LC_PREFIX,
        LC_FILTER,
        LC_FILTER_PREFIX,
        LC_FILTER_GREATER,
        LC_FILTER_LESS,
        LC_FILTER_TAG,
        LC_FILTER_TAG_KEY,
        LC_FILTER_TAG_VALUE,
        LC_AND,
        LC_AND_PREFIX,
        LC_AND_GREATER,
        LC_AND_LESS,
        LC_AND_TAG,
        LC_AND_TAG_KEY,
        LC_AND_TAG_VALUE,
        LC_EXPIRATION,
        LC_EXPIRATION_DAYS,
        LC_EXPIRATION_DATE,
        LC_EXPIRATION_MARKER,
        LC_NONCURRENT,
        LC_NONCURRENT_DAYS,
        LC_NONCURRENT_NEWER,
        LC_ABORT,
        LC_ABORT_DAYS,
        LC_TRANSITION,
        LC_TRANSITION_DAYS,
        LC_TRANSITION_DATE,
        LC_TRANSITION_CLASS,
        LC_MOVE, /* NoncurrentVersionTransition */
        LC_MOVE_DAYS,
        LC_MOVE_NEWER,
        LC_MOVE_CLASS,
        LC_ELEMENTS
};

/* owner: the lifecycle. What is not said to stay is of the reading alone. */
struct s3_lifecycle_private {
        struct s3_arena arena; /* stays, like the next two */
        /*
         * Enabled rules by prefix. Those that may be for a key are behind one of the lifecycle's
         * prefixes: of number i, from ends[i - 1] (0 for the first) up to ends[i].
         */
        const struct s3_lifecycle_rule **by_prefix;
        unsigned *ends;
        unsigned capacity; /* of the table of rules */
        bool legacy, modern;
        struct s3_lifecycle_rule rule; /* that is being read */
        unsigned predicates;           /* conditions in its And */
        unsigned tag_count;
        struct s3_tag tags[S3_OBJECT_TAGS_MAX];
};

int s3_lifecycle_compare(struct s3_str a, struct s3_str b); /* bytewise */

/*
 * The checks that S3 makes when an element of a rule has ended, beyond its own text. The doc's
 * present rule is what they look at.
 */
enum s3_error s3_lifecycle_check_filter(struct s3_doc *doc);
enum s3_error s3_lifecycle_check_and(struct s3_doc *doc);
enum s3_error s3_lifecycle_check_tag(struct s3_doc *doc, bool has_both);
enum s3_error s3_lifecycle_check_expiration(struct s3_doc *doc);
enum s3_error s3_lifecycle_check_rule(struct s3_doc *doc);
/*
 * Those of the document as a whole; rules without an ID get one, and the prefixes are collected.
 * INTERNAL_ERROR: no memory.
 */
enum s3_error s3_lifecycle_compile(struct s3_doc *doc);

#endif
