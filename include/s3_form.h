/*
 * s3_form.h - forms that browsers post: multipart/form-data (RFC 7578) as it comes, cut anywhere.
 * See s3.h for the rules of this module.
 *
 * Fields are kept, within AWS's limit for all that is not the file; the file's bytes are handed out
 * as slices of the input. The file is the last field: what comes below it is skipped.
 */
#ifndef MILLRACE_S3_FORM_H
#define MILLRACE_S3_FORM_H

#include "s3_base.h"

#define S3_FORM_BOUNDARY_MAX 70u    /* RFC 2046 */
#define S3_FORM_BYTES_MAX    20480u /* of the whole body without the file */
#define S3_FORM_FIELDS_MAX   160u   /* 100 of metadata, and all others that S3 knows */

/* A form being read. owner: one request */
struct s3_form;

/* The boundary that a Content-Type names. False: it is no multipart/form-data, or has no valid boundary. */
bool s3_form_boundary(struct s3_str content_type, struct s3_str *out);
/* boundary is one of s3_form_boundary(), and copied. INTERNAL_ERROR: no memory. */
enum s3_error s3_form_new(struct s3_str boundary, struct s3_form **out);
void s3_form_free(struct s3_form *form); /* NULL is allowed */

/*
 * Advances *in, which is not empty. *data: bytes of the file, which hold until the next call; empty
 * where none came. The call that meets the file returns before its first byte. Errors are final:
 * MALFORMED_POST, MAX_POST_PRE_DATA, INVALID_ARGUMENT (a field that is there twice, or too many).
 */
enum s3_error s3_form_next(struct s3_form *form, struct s3_str *in, struct s3_str *data);
/* The last bytes of the *data just handed out were not taken: they are handed out again. */
void s3_form_again(struct s3_form *form, struct s3_str *in, struct s3_str left);
/* All has come. MALFORMED_POST: it does not end in its closing boundary; INCORRECT_FILES: it has no file. */
enum s3_error s3_form_finish(const struct s3_form *form);
/* After an error: fits better than its default, or NULL. */
const char *s3_form_message(const struct s3_form *form);

/* The file was met: all fields are in. */
bool s3_form_at_file(const struct s3_form *form);
unsigned s3_form_count(const struct s3_form *form);
/* The slices hold until s3_form_free(). */
struct s3_header s3_form_field(const struct s3_form *form, unsigned i);
/* Value of the field of that name (any case); absent if there is none. */
struct s3_str s3_form_find(const struct s3_form *form, const char *name);
/* Name of the file as its user had it, without the folders before it; empty if there is none. */
struct s3_str s3_form_filename(const struct s3_form *form);

#endif
