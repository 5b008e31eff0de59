/*
 * lifecycle_json.h - lifecycle rules as JSON, in the form that `aws s3api` takes and gives, and as
 * the XML of S3. Private to this folder; pure.
 */
#ifndef CLI_LIFECYCLE_JSON_H
#define CLI_LIFECYCLE_JSON_H

#include <jansson.h>

#include "s3.h"

/*
 * A LifecycleConfiguration as {"Rules": [...]}, which the caller owns. -EPROTO: it is none, or has
 * an element that is not known; -ENOMEM.
 */
int cli_lifecycle_json_read(const char *xml, size_t len, json_t **out);
/*
 * Writes {"Rules": [...]} as XML. -EINVAL: it is not of this form; why gets a line that names the
 * first place. Whether the rules make sense is the endpoint's to say. -ENOMEM.
 */
int cli_lifecycle_json_write(const json_t *rules, struct s3_xml *xml, char *why, size_t why_size);

#endif
