/*
 * handlers.h - the handlers that route.c names, and what they share.
 */
#ifndef GATEWAY_S3_HANDLERS_H
#define GATEWAY_S3_HANDLERS_H

#include "gateway/s3/meta.h"
#include "gateway/http/gw_check.h"
#include "gateway/s3/refuse.h"
#include "gateway/http/http_request.h"

/* ---- handlers (begin and run of struct gw_op) ---- */
void gw_run_list_buckets(struct gw_request *req);
void gw_run_bucket_create(struct gw_request *req);
void gw_begin_bucket_create(struct gw_request *req);
void gw_run_bucket_head(struct gw_request *req);
void gw_run_bucket_delete(struct gw_request *req);
void gw_run_bucket_location(struct gw_request *req);
void gw_run_config(struct gw_request *req);        /* a configuration that is never set */
void gw_run_config_delete(struct gw_request *req); /* taking away what is not there */
void gw_run_acl(struct gw_request *req);
void gw_begin_acl_put(struct gw_request *req);
void gw_run_acl_put(struct gw_request *req);

void gw_run_versioning(struct gw_request *req);
void gw_begin_versioning_put(struct gw_request *req);
void gw_run_versioning_put(struct gw_request *req);
void gw_run_lock_config(struct gw_request *req);
void gw_begin_lock_config_put(struct gw_request *req);
void gw_run_lock_config_put(struct gw_request *req);

void gw_run_policy(struct gw_request *req);
void gw_run_policy_status(struct gw_request *req);
void gw_begin_policy_put(struct gw_request *req);
void gw_run_policy_put(struct gw_request *req);
void gw_run_policy_delete(struct gw_request *req);
void gw_run_text(struct gw_request *req);
void gw_begin_text_put(struct gw_request *req);
void gw_run_text_put(struct gw_request *req);
void gw_run_text_delete(struct gw_request *req);

void gw_run_object_tagging(struct gw_request *req);
void gw_begin_object_tagging_put(struct gw_request *req);
void gw_run_object_tagging_put(struct gw_request *req);
void gw_run_object_tagging_delete(struct gw_request *req);
void gw_run_retention(struct gw_request *req);
void gw_begin_retention_put(struct gw_request *req);
void gw_run_retention_put(struct gw_request *req);
void gw_run_legal_hold(struct gw_request *req);
void gw_begin_legal_hold_put(struct gw_request *req);
void gw_run_legal_hold_put(struct gw_request *req);

void gw_run_list_objects(struct gw_request *req);
void gw_run_list_objects_v2(struct gw_request *req);
void gw_run_list_versions(struct gw_request *req);
void gw_run_list_uploads(struct gw_request *req);
void gw_run_list_parts(struct gw_request *req);

void gw_begin_get(struct gw_request *req);
void gw_run_get(struct gw_request *req);
/* Answers a website's request with the object in req->get. status: 200, or an error's, whose document it is. */
void gw_get_page(struct gw_request *req, unsigned status);
void gw_run_attributes(struct gw_request *req);
void gw_begin_put(struct gw_request *req);
void gw_run_put(struct gw_request *req);
void gw_run_copy(struct gw_request *req);
void gw_run_delete(struct gw_request *req);
void gw_begin_delete_many(struct gw_request *req);
void gw_run_delete_many(struct gw_request *req);

void gw_run_upload_create(struct gw_request *req);
void gw_run_upload_abort(struct gw_request *req);
void gw_begin_part(struct gw_request *req);
void gw_run_part(struct gw_request *req);
void gw_run_part_copy(struct gw_request *req);
void gw_begin_complete(struct gw_request *req);
void gw_run_complete(struct gw_request *req);

void gw_begin_batch(struct gw_request *req);
void gw_run_batch(struct gw_request *req);

/* ---- shared ---- */

/*
 * Opens the upload of a form's file, whose fields have become the request's headers. When it is
 * stored, and the answer has the headers of a PUT's, stored() answers. False: answered.
 */
bool gw_put_form_open(struct gw_request *req, void (*stored)(struct gw_request *req, const struct eng_object *object));

/* Why a version is not deleted or changed. */
#define GW_LOCKED_MESSAGE "Access Denied because object protected by object lock."

/*
 * If-Match and If-None-Match of a write as the engine's condition. False: answered (refused). never
 * is set where If-Match names something that is no ETag of ours, and so can never hold.
 */
bool gw_condition_read(struct gw_request *req, struct eng_condition *out, bool *never);

/*
 * Headers of an object: ETag, Last-Modified, metadata and, where the client asks for it, the
 * checksum: of the part that is read (part: its attrs), of the object (part absent), or none
 * (partial). False: no memory, answered.
 */
bool gw_object_headers(struct gw_request *req, const struct eng_object *object, bool partial, struct eng_str part);
char *gw_etag_text(struct gw_request *req, const uint8_t md5[16], unsigned parts);

/*
 * An object that is read is not encrypted: a key for it (PREFIX-customer-...) is a mistake, and so
 * is the name of an encryption (PREFIX), which only writes have. False: answered.
 */
bool gw_plain_check(struct gw_request *req, const char *prefix);

/* partNumber. False: answered. */
bool gw_part_number_of(struct gw_request *req, unsigned *out);

/* uploadId in text and back. */
#define GW_UPLOAD_ID_TEXT 33u
void gw_upload_id_text(const uint8_t id[ENG_ID_LEN], char out[GW_UPLOAD_ID_TEXT]);
int gw_upload_id_parse(struct s3_str text, uint8_t id[ENG_ID_LEN]);
/* Reads uploadId. False: answered with NoSuchUpload. */
bool gw_upload_id_of(struct gw_request *req, uint8_t id[ENG_ID_LEN]);

/*
 * Refuses an algorithm that is not computed here: one of AWS's as not implemented, another as
 * unknown. Always false.
 */
bool gw_refuse_algorithm(struct gw_request *req);
/* Name of an algorithm as messages have it: in lower case. */
const char *gw_algorithm_text(struct gw_request *req, enum s3_checksum kind);
/* The checksum an answer names, if there is one: its value alone, or with its type. */
void gw_checksum_header(struct gw_request *req, const struct gw_checksum *sum);
void gw_checksum_headers(struct gw_request *req, const struct gw_checksum *sum);
void gw_checksum_xml(struct s3_xml *xml, const struct gw_checksum *sum);
/*
 * A callback's last step: answers 204 for what is gone now, or the error that rv is about `about`.
 */
void gw_reply_deleted(struct gw_request *req, int rv, enum gw_about about);
/* The account that owns the request's bucket; of none: that of whoever asks. */
void gw_owner_xml(struct gw_request *req, struct s3_xml *xml, const char *element);

/*
 * Places in listings as opaque text: hex of the name and a check. NULL: no memory. -EINVAL: not one
 * of ours. out has room for ENG_KEY_MAX bytes.
 */
char *gw_token_make(struct gw_request *req, struct s3_str name);
int gw_token_read(struct s3_str token, char *out, size_t *len);
/* Refuses a token that is none of ours. As with AWS, the answer does not repeat it. */
bool gw_token_refuse(struct gw_request *req);
/*
 * A number among the query parameters: fallback where there is none (or none after the "="). False:
 * answered.
 */
bool gw_query_uint(struct gw_request *req, const char *name, uint64_t max, uint64_t fallback, uint64_t *out);

/* Refuses headers of a write that mean something not done here. False: answered. */
bool gw_write_headers_check(struct gw_request *req);

/*
 * What a new version is given beside bytes and metadata: x-amz-tagging, x-amz-object-lock-*, its ACL.
 * The tags are in the request's arena. False: answered.
 */
bool gw_extras_read(struct gw_request *req, struct eng_extras *out);
/* As the engine keeps them, in the request's arena. False: no memory, answered. */
bool gw_tags_keep(struct gw_request *req, const struct s3_tags *tags, struct eng_str *out);
/* A time until which something is to be kept lies ahead of both clocks. False: answered. */
bool gw_retention_ahead(struct gw_request *req, int64_t until_ms);
/* begin of an operation whose body is that document: it is read as it comes. */
void gw_begin_document(struct gw_request *req, enum s3_doc_kind kind);
/* The body came with a Content-MD5 or checksum, as AWS demands of some documents. False: answered. */
bool gw_document_summed(struct gw_request *req);
/* x-amz-bypass-governance-retention. False: answered. */
bool gw_bypass_read(struct gw_request *req, bool *out);
/* x-amz-tagging-count and x-amz-object-lock-* of an object that is read. */
void gw_extras_headers(struct gw_request *req, const struct eng_object *object);

#endif
