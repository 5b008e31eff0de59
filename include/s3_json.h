/*
 * s3_json.h - reads JSON whose every byte counts: policies, and what is known of users.
 */
#ifndef MILLRACE_S3_JSON_H
#define MILLRACE_S3_JSON_H

#include <jansson.h>

#include "s3_base.h"

/*
 * Lets jansson's allocations be watched. Once, before other threads use jansson; again is fine.
 */
void s3_json_begin(void);
/*
 * json_loadb(), but for one thing: where memory ran out, the answer is always NULL. jansson itself
 * leaves out a byte of a string for which it has no memory, and goes on. error may be NULL. errno:
 * 0, EBADMSG (no such JSON) or ENOMEM. Any thread.
 */
json_t *s3_json_load(struct s3_str text, size_t flags, json_error_t *error);

#endif
