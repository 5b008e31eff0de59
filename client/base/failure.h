/* failure.h - errno values and lines for people, from what went wrong. Private to client/. */
#ifndef CLIENT_FAILURE_H
#define CLIENT_FAILURE_H

#include "millrace.h"

/*
 * An answer that is no success: its status, its body (an Error document, or nothing), its
 * x-amz-request-id (NULL: none). Fills err; returns err->code.
 */
int mr_failure_of_document(int status, const char *body, size_t len, const char *request_id, struct mr_error *err);
/* The same of an answer that is no document: err has words of ours. */
int mr_failure_of_code(int status, const char *s3_code, struct mr_error *err);
/* Fills err (NULL is allowed) for a failure without an answer; returns code. */
int mr_failure(struct mr_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int mr_failure_errno(struct mr_error *err, int code); /* in the words of strerror() */

#endif
