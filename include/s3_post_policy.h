/*
 * s3_post_policy.h - the policy of a browser's form: what the form may upload. See s3.h for the
 * rules of this module.
 */
#ifndef MILLRACE_S3_POST_POLICY_H
#define MILLRACE_S3_POST_POLICY_H

#include "s3_base.h"

#define S3_POST_CONDITIONS_MAX 200u
#define S3_POST_DEPTH_MAX      8u
#define S3_POST_MESSAGE        512u

/* A form, as its policy judges it. */
struct s3_post_form {
        struct s3_str bucket;           /* of the request; counts as a field */
        const struct s3_header *fields; /* key as it will be: with the file's name in it */
        size_t count;
};

/* What content-length-range allows; 0 and UINT64_MAX where there is none. */
struct s3_post_range {
        uint64_t min, max;
};

/*
 * Does the policy (base64 of JSON, as the form has it) allow this form at now_ms? Its signature is
 * the caller's to verify first. INVALID_POLICY_DOCUMENT; ACCESS_DENIED (expired, a condition that
 * fails, a field that no condition names); INTERNAL_ERROR (no memory). message, in AWS's words, is
 * filled after both of the first.
 */
enum s3_error s3_post_policy_check(struct s3_str policy, const struct s3_post_form *form, int64_t now_ms,
                                   struct s3_post_range *range, char message[S3_POST_MESSAGE]);

/*
 * The key with each "${filename}" replaced. Length, or -ENOBUFS: longer than cap.
 */
int s3_post_key(struct s3_str key, struct s3_str filename, char *out, size_t cap);

#endif
