/*
 * What the files of the signature code share: the sink into which canonical text flows.
 */
#ifndef S3_SIGV4_INTERNAL_H
#define S3_SIGV4_INTERNAL_H

#include "sha256.h"

/*
 * Text goes either into a hash or into a buffer, so that verifying a request needs no memory in
 * proportion to it.
 */
struct s3_sink {
        SHA256_CTX *hash; /* NULL: into out */
        char *out;
        size_t cap, len;
        bool overflow;
        size_t pending; /* bytes in piece not yet hashed */
        char piece[1024];
};

void s3_sink_put(struct s3_sink *sink, const char *data, size_t len);
void s3_sink_flush(struct s3_sink *sink);

/*
 * The canonical request; signed header names in lower case. 0, or -EINVAL: bad escape, too many
 * query parameters.
 */
int s3_canonical_emit(const struct s3_request *request, const struct s3_auth *auth, struct s3_sink *sink);

/* "yyyymmdd/region/service/aws4_request"; returns its length. */
#define S3_SCOPE_SIZE (8 + 1 + S3_REGION_MAX + 1 + 16 + 1 + 12 + 1)
size_t s3_scope_format(const struct s3_auth *auth, char out[S3_SCOPE_SIZE]);

/* Reads "access-key/yyyymmdd/region/service/aws4_request" into *out; errors are those of a presigned URL. */
enum s3_auth_reason s3_auth_credential(struct s3_str text, struct s3_auth *out);

/* Hex signature of a request. 0 or -EINVAL. */
int s3_auth_signature(const struct s3_request *request, const struct s3_auth *auth, const struct s3_signing_key *key,
                      char out[S3_SIGNATURE_LEN + 1]);

/*
 * sigv2.c: the parameters of a URL presigned with version 2. False: it is none. *reason says what
 * is wrong with it.
 */
bool s3_auth_parse_v2(struct s3_str query, struct s3_auth *out, enum s3_auth_reason *reason);

#endif
