/*
 * s3_config.h - configurations of buckets whose document is kept as it was read: a list of its
 * elements. See s3.h for the rules of this module. s3_doc_new() reads them (s3_xml.h); the kinds
 * from S3_DOC_CORS on are such.
 *
 * Each kind has a table of its elements (name, parent, how often, type); the reader refuses what the
 * table does not allow, so whoever asks here finds only what is valid.
 */
#ifndef MILLRACE_S3_CONFIG_H
#define MILLRACE_S3_CONFIG_H

#include "s3_base.h"

struct s3_xml;
struct s3_config;

/* A document that was read. Immutable, so any number of threads may ask at the same time. */
void s3_config_free(struct s3_config *config); /* NULL is allowed */

/*
 * Elements have numbers in document order; the root is 0. Returns the number of the first element of
 * that name which is directly within `parent` and comes after `after` (parent itself: from the first
 * on), or S3_CONFIG_NONE.
 */
#define S3_CONFIG_NONE UINT32_MAX
uint32_t s3_config_next(const struct s3_config *config, uint32_t parent, uint32_t after, const char *name);
static inline uint32_t s3_config_first(const struct s3_config *config, uint32_t parent, const char *name)
{
        return s3_config_next(config, parent, parent, name);
}
/* The text of an element; absent for S3_CONFIG_NONE. It belongs to the configuration. */
struct s3_str s3_config_text(const struct s3_config *config, uint32_t element);
/* The text of the first element of that name within the parent; absent if there is none. */
struct s3_str s3_config_text_of(const struct s3_config *config, uint32_t parent, const char *name);

#define S3_CONFIG_ID_MAX 64u
/* The id of a configuration of which a bucket may have many: letters, digits, '-', '_', '.'. */
bool s3_config_id_valid(struct s3_str id);

/* Writes the document. plain: as within a list, where the root has no namespace; and in one line. */
void s3_config_write(struct s3_xml *xml, const struct s3_config *config, bool plain);

#endif
