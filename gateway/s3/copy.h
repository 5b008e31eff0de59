/*
 * copy.h - CopyObject and UploadPartCopy share their source, and the way of its bytes.
 */
#ifndef GATEWAY_S3_COPY_H
#define GATEWAY_S3_COPY_H

#include "ec.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/version_ids.h"

/* One copy under way: req->work. owner: its request */
struct gw_copying {
        unsigned magic; /* gw_check.h */
        struct s3_copy_source source;
        struct gw_version version;      /* of the source */
        uint64_t source_bucket;
        const struct eng_store *source_store; /* that has it; compared alone */
        bool source_versioned;
        bool source_decides; /* let in if the source is such: asked again once it is found (P15, P20) */
        struct eng_condition condition; /* on the target */
        struct eng_extras extras;       /* of the target: the request's; tags may be the source's */
        bool replace_tags;
        struct gw_meta meta;            /* of the target: slices of headers, or of the source's attrs */
        bool has_kind;                  /* the checksum the client (or the upload) wants */
        enum s3_checksum kind;
        bool is_part;
        unsigned part_number;
        uint8_t upload_id[ENG_ID_LEN];
        struct s3_range range; /* of the source; parts only */
        uint64_t offset, len;
        uint8_t md5_value[16];
        struct era_digest *md5; /* running; NULL: the source's ETag is it */
        struct s3_sums *sums;   /* running; NULL: the source's checksum is it */
        const uint8_t *span;    /* read and not yet taken by the target */
        size_t span_len;
        bool committing;
        void (*opened)(struct gw_request *req); /* the source is open and its conditions hold */
};

/* Makes req->work: headers that both have. False: answered. */
bool gw_copy_begin(struct gw_request *req, void (*opened)(struct gw_request *req));
/* Of the source that was looked for, or of the version of it that was named. NULL: nothing was found. False: answered. */
bool gw_copy_permits(struct gw_request *req, const struct eng_object *source, const char *permission,
                     const char *of_version);
/* Looks the source up; calls opened, or answers. */
void gw_copy_open(struct gw_request *req);
/* From the source to a new object or part: offset and len are set. Answers. */
void gw_copy_run(struct gw_request *req);
/* <CopyObjectResult> or <CopyPartResult>. */
void gw_copy_reply(struct gw_request *req, const char *root, const struct eng_object *object);

#endif
