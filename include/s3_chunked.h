/*
 * s3_chunked.h - aws-chunked bodies: the streaming decoder of servers, the encoder of clients. See
 * s3.h for the rules.
 */
#ifndef MILLRACE_S3_CHUNKED_H
#define MILLRACE_S3_CHUNKED_H

#include "s3_base.h"
#include "s3_sigv4.h"

#define S3_CHUNK_LINE_MAX    1024u        /* chunk header line */
#define S3_CHUNK_MAX         (5ull << 30) /* bytes of one chunk */
#define S3_CHUNK_MIN         8192u        /* all but the last, as AWS demands */
#define S3_TRAILER_BYTES_MAX (8u << 10)
#define S3_TRAILER_LINES_MAX 16u
#define S3_LENGTH_UNKNOWN    UINT64_MAX

/* ---- decoder --------------------------------------------------------------------------------- */

struct s3_chunked;

struct s3_chunked_params {
        enum s3_payload form;               /* SIGNED, SIGNED_TRAILER, UNSIGNED_TRAILER; UNSIGNED or SHA256: plain
                                             * aws-chunked, whose chunk extensions are ignored */
        const struct s3_chunk_chain *chain; /* the signed forms: copied; else NULL */
        uint64_t decoded_length;            /* x-amz-decoded-content-length, or S3_LENGTH_UNKNOWN */
        struct s3_str trailers;             /* value of x-amz-trailer: names that may and must come; absent: none */
        bool any_chunk_size;                /* do not insist on S3_CHUNK_MIN */
};

/*
 * INVALID_REQUEST: the x-amz-trailer value is malformed or unsupported for this form;
 * ACCESS_DENIED: a signed form without a chain (an anonymous request); INTERNAL_ERROR: no memory.
 */
enum s3_error s3_chunked_new(const struct s3_chunked_params *params, struct s3_chunked **out);
void s3_chunked_free(struct s3_chunked *dec); /* NULL is allowed */

/*
 * Takes input of any size, cut anywhere. Consumes from *in (advances it) until it has decoded bytes
 * to hand out, as a slice of the input (*data, len 0: none), or all is consumed. Call until in->len
 * is 0 (and data->len is 0). Data is handed out before its chunk's signature is known: nothing may
 * become visible before s3_chunked_finish() returned S3_OK. Errors are final: SIGNATURE_MISMATCH,
 * INCOMPLETE_BODY (malformed framing, bytes behind the end, more or less data than announced),
 * INVALID_CHUNK_SIZE, ENTITY_TOO_LARGE, MALFORMED_TRAILER.
 */
enum s3_error s3_chunked_next(struct s3_chunked *dec, struct s3_str *in, struct s3_str *data);
/*
 * The body has ended: S3_OK if the final chunk, its signature and all trailers were there, else
 * INCOMPLETE_BODY, MALFORMED_TRAILER or the error s3_chunked_next() had returned.
 */
enum s3_error s3_chunked_finish(struct s3_chunked *dec);
/* A message fitting the last error better than its default one; never NULL. */
const char *s3_chunked_message(const struct s3_chunked *dec);
uint64_t s3_chunked_decoded(const struct s3_chunked *dec); /* bytes handed out so far */

/*
 * After s3_chunked_finish(): the trailers but x-amz-trailer-signature; valid until
 * s3_chunked_free().
 */
unsigned s3_chunked_trailer_count(const struct s3_chunked *dec);
struct s3_header s3_chunked_trailer(const struct s3_chunked *dec, unsigned index);

/* ---- encoder --------------------------------------------------------------------------------- */

#define S3_CHUNK_HEAD_MAX 128u

/*
 * Bytes on the wire of a body of decoded_length cut in chunks of chunk_size, with one trailer
 * (trailer_len: length of its name and value together; 0: no trailer). form: SIGNED, SIGNED_TRAILER
 * or UNSIGNED_TRAILER. For Content-Length.
 */
uint64_t s3_chunked_encoded_length(enum s3_payload form, uint64_t decoded_length, uint64_t chunk_size,
                                   size_t trailer_len);
/*
 * Writes what precedes a chunk's data (NUL-terminated, returns the length). chain: NULL for the
 * unsigned form; else sha256 is the hash of the chunk's data and the chain advances. After the data
 * comes "\r\n". len 0 writes the final chunk's line (trailers or "\r\n" follow: see
 * s3_chunk_tail()).
 */
size_t s3_chunk_head(struct s3_chunk_chain *chain, uint64_t len, const uint8_t sha256[S3_SHA256_LEN],
                     char out[S3_CHUNK_HEAD_MAX]);
/*
 * Writes all from the final zero chunk on: its line, the trailer if name is not NULL, the trailer's
 * signature if sign_trailer (the SIGNED_TRAILER form), the empty line. Name in lower case. Returns
 * the length or -ENOBUFS.
 */
int s3_chunk_tail(struct s3_chunk_chain *chain, bool sign_trailer, const char *trailer_name, const char *trailer_value,
                  char *out, size_t cap);

#endif
