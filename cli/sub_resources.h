/*
 * sub_resources.h - small documents beside objects and buckets, as commands ask for and store them.
 * Private to this folder. Main thread only.
 */
#ifndef CLI_SUB_RESOURCES_H
#define CLI_SUB_RESOURCES_H

#include "cli.h"
#include "s3.h"

/*
 * One request about the bucket or, where the path has a key, the object, and of that the version
 * that the call names. body (a PUT's, NULL: none) is freed. out may be NULL. As mr_sub_resource().
 */
int cli_sub_resource(struct cli_call *call, const char *method, const struct cli_path *path, const char *name,
                     struct s3_xml *body, struct mr_document *out, struct mr_error *err);

/*
 * GETs a document of that kind. *out is the caller's to free by s3_doc_free() in every case.
 * -EPROTO: it is no such document.
 */
int cli_document_get(struct cli_call *call, const struct cli_path *path, const char *name, enum s3_doc_kind kind,
                     struct s3_doc **out, struct mr_error *err);
/*
 * Of a document of the kind S3_DOC_CONFIG: the text of an element of that name, copied; "" where
 * there is none, or where out has no room.
 */
const char *cli_config_text(const struct s3_doc *doc, const char *name, char *out, size_t size);

#endif
