/*
 * s3_cors.h - rules for requests of other sites' pages: which rule of a CORSConfiguration allows one.
 * See s3.h for the rules of this module; the document is read by s3_doc_new(S3_DOC_CORS).
 */
#ifndef MILLRACE_S3_CORS_H
#define MILLRACE_S3_CORS_H

#include "s3_config.h"

#define S3_CORS_RULES_MAX 100u
#define S3_CORS_BODY_MAX  (64u << 10)
#define S3_CORS_NAMES_MAX 100u /* of Access-Control-Request-Headers; more are allowed by no rule */

/* The methods of rules, and so those a preflight may ask for. */
bool s3_cors_method(struct s3_str method);

/*
 * The first rule that allows the method to a page of that origin with these headers (the value of
 * Access-Control-Request-Headers, or absent), or S3_CONFIG_NONE. *any: it allows every origin.
 * Takes linear time in the rules, times the number of headers.
 */
uint32_t s3_cors_find(const struct s3_config *config, struct s3_str origin, struct s3_str method, struct s3_str headers,
                      bool *any);

#endif
