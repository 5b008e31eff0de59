/*
 * body.h - receiving a request body: framing, hashes, lengths, and where the bytes go.
 */
#ifndef GATEWAY_HTTP_BODY_H
#define GATEWAY_HTTP_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ec.h"
#include "s3.h"

struct gw_request;

/* Contexts kept for reuse. owner: loop */
struct gw_digests {
        struct s3_sums *sums[1u << S3_CHECKSUM_KINDS]; /* one of each mask */
};

#define GW_KEPT_MAX (2u << 20) /* of a body that is kept as it is */

/* One body on its way in. owner: its request */
struct gw_body {
        struct s3_chunked *chunked;     /* decoder, NULL: the bytes come as they are */
        struct era_md5 md5;             /* of what the engine does not get */
        struct s3_sums *sums;
        unsigned sum_mask;
        bool check_sha256;              /* against x-amz-content-sha256 */
        uint8_t sha256[S3_SHA256_LEN];
        bool check_md5;                 /* against Content-MD5 */
        uint8_t want_md5[16];
        bool has_kind;                  /* the client named a checksum */
        bool in_trailer;                /* its value comes behind the body */
        enum s3_checksum kind;
        uint8_t want[S3_CHECKSUM_MAX];
        uint64_t expected;              /* decoded bytes, or S3_LENGTH_UNKNOWN */
        uint64_t received;              /* decoded bytes */
        size_t pending;                 /* decoded bytes at the front of the next input, which the engine had no room for */
        uint64_t booked;                /* of the memory all loops share */
        struct s3_form *form;           /* the object's bytes are a file of a form; or NULL */
        uint64_t file_min, file_max;    /* of such a file */
        struct s3_doc *doc;             /* where an XML body goes */
        char *kept;                     /* a body that is kept as it is: malloc'ed, received bytes; or NULL */
        size_t kept_room;
        const char *detail;             /* elements for the document of the last error; or NULL */
        const char *message;            /* fits the last error better than its default; or NULL */
        uint8_t md5_value[16];          /* after finish */
};

/*
 * Reads the headers that speak of the body and makes req->body, be it one of no bytes (an operation
 * that wants none has one only if bytes come). auth is that of this request. S3_OK or why it is
 * refused (message in *message, or NULL there).
 */
enum s3_error gw_body_new(struct gw_request *req, const struct s3_auth *auth, const struct s3_signing_key *key,
                          const char **message);
/* A form's fields have become the request's headers: reads those that speak of the file's bytes. */
enum s3_error gw_body_fields(struct gw_request *req, const char **message);
void gw_body_free(struct gw_request *req);

/*
 * Takes what came; *len becomes what was not taken (no room in the engine: wait for its wake).
 * Errors are final.
 */
enum s3_error gw_body_feed(struct gw_request *req, const char *data, size_t *len);
/* These came by another way than gw_body_feed(), and where they lie is the engine's. */
void gw_body_placed(struct gw_request *req, const void *data, size_t len);
/* All has come: lengths, signature, checksums. */
enum s3_error gw_body_finish(struct gw_request *req);
/* Value of the checksum of the bytes; after finish. NULL if that kind was not computed. */
const uint8_t *gw_body_checksum(const struct gw_request *req, enum s3_checksum kind);

void gw_digests_free(struct gw_digests *digests);

#endif
