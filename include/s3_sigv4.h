/*
 * s3_sigv4.h - AWS Signature Version 4, both sides. See s3.h for the rules of this module.
 *
 * Server: s3_auth_parse() -> look up the secret of auth.access_key -> (derive or take a cached key)
 * -> s3_auth_verify(). Client: build the headers (host, x-amz-date, x-amz-content-sha256, ...) ->
 * s3_sign_headers(), or s3_presign().
 */
#ifndef MILLRACE_S3_SIGV4_H
#define MILLRACE_S3_SIGV4_H

#include "s3_base.h"
#include "s3_date.h"

#define S3_SHA256_LEN     32u
#define S3_SIGNATURE_LEN  64u                /* lower-case hex */
#define S3_SKEW_MS        (15 * 60 * 1000ll) /* tolerated difference of clocks */
#define S3_EXPIRES_MAX    604800u            /* seconds a presigned URL may live */
#define S3_FORM_EXPIRES_MAX 900u          /* of one for IAM or STS: a longer time ends here */
#define S3_REGION_MAX     64u
#define S3_ACCESS_KEY_MAX 128u

/* The parts of a request that are signed; slices of the caller's. */
struct s3_request {
        struct s3_str method;
        struct s3_str path;  /* raw, as on the wire: struct s3_target */
        struct s3_str query; /* raw, without "?"; may be absent */
        const struct s3_header *headers;
        size_t header_count;
};

/* First header of that name (any case), absent if there is none. Untrimmed. */
struct s3_str s3_request_header(const struct s3_request *request, const char *name);

/* ---- reasons --------------------------------------------------------------------------------- */

/* Why a request is refused: name, error, message (NULL: the error's default one). */
#define S3_AUTH_REASONS(X)                                                                                             \
        X(BOTH_FORMS, INVALID_ARGUMENT,                                                                                \
          "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string "         \
          "parameter or the Authorization header should be specified")                                                 \
        X(NO_SPACE, INVALID_ARGUMENT, "Authorization header is invalid -- one and only one ' ' (space) required.")     \
        X(UNSUPPORTED_TYPE, INVALID_ARGUMENT, "Unsupported Authorization Type")                                        \
        X(UNSUPPORTED_VERSION, INVALID_REQUEST,                                                                        \
          "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.")              \
        X(NO_COMPONENTS, AUTH_HEADER_MALFORMED,                                                                        \
          "The authorization header is malformed; the authorization header requires three components: Credential, "    \
          "SignedHeaders, and Signature.")                                                                             \
        X(NO_CREDENTIAL, AUTH_HEADER_MALFORMED, "The authorization header is malformed; missing Credential.")          \
        X(NO_SIGNED_HEADERS, AUTH_HEADER_MALFORMED, "The authorization header is malformed; missing SignedHeaders.")   \
        X(NO_SIGNATURE, AUTH_HEADER_MALFORMED, "The authorization header is malformed; missing Signature.")            \
        X(BAD_HEADER_FIELD, AUTH_HEADER_MALFORMED,                                                                     \
          "The authorization header is malformed; an element of it is not well-formed.")                               \
        X(BAD_CREDENTIAL, AUTH_HEADER_MALFORMED,                                                                       \
          "The authorization header is malformed; the Credential is mal-formed; expecting "                            \
          "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".")                                                     \
        X(BAD_SCOPE_DATE, AUTH_HEADER_MALFORMED,                                                                       \
          "The authorization header is malformed; incorrect date format. This date in the credential must be in the "  \
          "format \"yyyyMMdd\".")                                                                                      \
        X(WRONG_SCOPE_DATE, AUTH_HEADER_MALFORMED,                                                                     \
          "The authorization header is malformed; Invalid credential date. Date is not the same as X-Amz-Date.")       \
        X(WRONG_REGION, AUTH_HEADER_MALFORMED, "The authorization header is malformed; the region is wrong")           \
        X(WRONG_SERVICE, AUTH_HEADER_MALFORMED,                                                                        \
          "The authorization header is malformed; incorrect service. This endpoint belongs to \"s3\".")                \
        X(WRONG_TERMINAL, AUTH_HEADER_MALFORMED,                                                                       \
          "The authorization header is malformed; incorrect terminal. This endpoint uses \"aws4_request\".")           \
        X(Q_MISSING, AUTH_QUERY_ERROR,                                                                                 \
          "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, "    \
          "X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.")                                            \
        X(Q_ALGORITHM, AUTH_QUERY_ERROR,                                                                               \
          "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256 and AWS4-ECDSA-P256-SHA256\"")                             \
        X(Q_DUPLICATE, AUTH_QUERY_ERROR, "An authentication parameter was given more than once.")                      \
        X(Q_CREDENTIAL, AUTH_QUERY_ERROR,                                                                              \
          "Error parsing the X-Amz-Credential parameter; the Credential is mal-formed; expecting "                     \
          "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".")                                                     \
        X(Q_SCOPE_DATE, AUTH_QUERY_ERROR,                                                                              \
          "Error parsing the X-Amz-Credential parameter; incorrect date format. This date in the credential must be "  \
          "in the format \"yyyyMMdd\".")                                                                               \
        X(Q_WRONG_SCOPE_DATE, AUTH_QUERY_ERROR, "Invalid credential date. This date is not the same as X-Amz-Date.")   \
        X(Q_WRONG_REGION, AUTH_QUERY_ERROR, "Error parsing the X-Amz-Credential parameter; the region is wrong")       \
        X(Q_WRONG_SERVICE, AUTH_QUERY_ERROR,                                                                           \
          "Error parsing the X-Amz-Credential parameter; incorrect service. This endpoint belongs to \"s3\".")         \
        X(Q_WRONG_TERMINAL, AUTH_QUERY_ERROR,                                                                          \
          "Error parsing the X-Amz-Credential parameter; incorrect terminal. This endpoint uses \"aws4_request\".")    \
        X(Q_DATE, AUTH_QUERY_ERROR, "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")          \
        X(Q_EXPIRES_NUMBER, AUTH_QUERY_ERROR, "X-Amz-Expires should be a number")                                      \
        X(Q_EXPIRES_NEGATIVE, AUTH_QUERY_ERROR, "X-Amz-Expires must be non-negative")                                  \
        X(Q_EXPIRES_MAX, AUTH_QUERY_ERROR,                                                                             \
          "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than "   \
          "604800 seconds")                                                                                            \
        X(V2_MISSING, ACCESS_DENIED,                                                                                   \
          "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters")                 \
        X(V2_EXPIRES, ACCESS_DENIED, "Invalid date (should be seconds since epoch)")                                   \
        X(V2_EXPIRES_MAX, ACCESS_DENIED, "Expires must be within a week from now")                                     \
        X(Q_NOT_YET, ACCESS_DENIED, "Request is not yet valid")                                                        \
        X(Q_EXPIRED, ACCESS_DENIED, "Request has expired")                                                             \
        X(NO_DATE, ACCESS_DENIED, "AWS authentication requires a valid Date or x-amz-date header")                     \
        X(SKEWED, REQUEST_TIME_TOO_SKEWED, NULL)                                                                       \
        X(UNSIGNED_HEADERS, ACCESS_DENIED, "There were headers present in the request which were not signed")          \
        X(NO_CONTENT_SHA256, INVALID_REQUEST, "Missing required header for this request: x-amz-content-sha256")        \
        X(BAD_CONTENT_SHA256, INVALID_ARGUMENT,                                                                        \
          "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, "                        \
          "STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, "                           \
          "or a valid sha256 value.")                                                                                  \
        X(SIGV4A, NOT_IMPLEMENTED,                                                                                     \
          "AWS4-ECDSA-P256-SHA256 signatures are not supported. Please use AWS4-HMAC-SHA256.")                         \
        X(SIGV4A_PAYLOAD, NOT_IMPLEMENTED, "AWS4-ECDSA-P256-SHA256 payloads are not supported.")                       \
        X(TOKEN, INVALID_TOKEN, NULL)                                                                                  \
        X(TOKEN_EXPIRED, EXPIRED_TOKEN, NULL)                                                                          \
        X(MISMATCH, SIGNATURE_MISMATCH, NULL)                                                                          \
        X(TOO_LARGE, REQUEST_HEADERS_TOO_LARGE, NULL)                                                                  \
        X(BAD_URI, INVALID_URI, NULL)

enum s3_auth_reason {
        S3_AUTH_OK = 0,
#define S3_AUTH_ENUM(name, error, message) S3_AUTH_##name,
        S3_AUTH_REASONS(S3_AUTH_ENUM)
#undef S3_AUTH_ENUM
                S3_AUTH_REASON_COUNT
};

enum s3_error s3_auth_error(enum s3_auth_reason reason);
const char *s3_auth_message(enum s3_auth_reason reason); /* never NULL */

/* ---- server side ----------------------------------------------------------------------------- */

/*
 * QUERY_V2: a URL presigned with the signature before this one. boto3 and aws cli 1 still make
 * these by default for endpoints that are not AWS's. s3_auth_check() and s3_auth_verify() refuse it
 * (UNSUPPORTED_VERSION); who wants to honour it asks s3_auth_verify_v2(). The header form of
 * version 2 is never taken.
 */
enum s3_auth_kind { S3_AUTH_ANONYMOUS, S3_AUTH_HEADER, S3_AUTH_QUERY, S3_AUTH_QUERY_V2 };

enum s3_payload {
        S3_PAYLOAD_SHA256,          /* auth.payload_sha256 is what the body must hash to */
        S3_PAYLOAD_UNSIGNED,        /* UNSIGNED-PAYLOAD; presigned URLs without the header */
        S3_PAYLOAD_SIGNED,          /* STREAMING-AWS4-HMAC-SHA256-PAYLOAD */
        S3_PAYLOAD_SIGNED_TRAILER,  /* STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER */
        S3_PAYLOAD_UNSIGNED_TRAILER /* STREAMING-UNSIGNED-PAYLOAD-TRAILER */
};

/* What a request says of itself; all text is copied, nothing is verified. 4.7 KiB. */
struct s3_auth {
        enum s3_auth_kind kind;
        enum s3_payload payload; /* anonymous requests too: from x-amz-content-sha256, else UNSIGNED */
        uint8_t payload_sha256[S3_SHA256_LEN];
        int64_t time_ms;    /* x-amz-date, X-Amz-Date or Date; QUERY_V2: when it expires */
        uint32_t expires_s; /* query form */
        char access_key[S3_ACCESS_KEY_MAX + 1];
        char amz_date[S3_DATE_AMZ_SIZE]; /* time_ms as signed */
        char scope_date[9];              /* yyyymmdd of the credential */
        char region[S3_REGION_MAX + 1];
        char service[17];
        char signature[S3_SIGNATURE_LEN + 1]; /* hex as given: also the seed of chunk signatures; QUERY_V2: base64 */
        bool has_token;                       /* a security token came along: */
        bool token_encoded;                   /* in the URL, and percent-encoded; else in a header */
        struct s3_str token;                  /* a slice of the request; absent where more than one came */
        bool takes_token;                     /* set by a caller who looks at it; else s3_auth_check() refuses it */
        char signed_headers[4096];            /* "a;b;c" as given: names of 2 KiB of metadata and of all else fit */
        char fault[64];                       /* what was not as it must be, where the message shows it; cut to fit */
};

/*
 * S3_AUTH_OK (kind may be ANONYMOUS) or the reason why it is malformed. *out is whole either way:
 * what was not found is empty.
 */
enum s3_auth_reason s3_auth_parse(const struct s3_request *request, struct s3_auth *out);
/*
 * The same for a request of IAM or STS, whose scope names service "iam" or "sts" and which need not have
 * x-amz-content-sha256. Where that is absent, payload is SHA256, and the caller sets payload_sha256 to the hash of
 * the body before it verifies. X-Amz-Expires may be left out of a URL then: S3_FORM_EXPIRES_MAX.
 */
enum s3_auth_reason s3_auth_parse_service(const struct s3_request *request, struct s3_auth *out);

/* True for both WRONG_REGION reasons, whose answer also has <Region>expected</Region>. */
bool s3_auth_wants_region(enum s3_auth_reason reason);
/*
 * The message with what is particular to this request (regions, what was wrong). Returns buf, or a
 * text of static life.
 */
const char *s3_auth_describe(enum s3_auth_reason reason, const struct s3_auth *auth, const char *region, char *buf,
                             size_t cap);

/*
 * HMAC key of one secret, day, region and service: may be cached by (access key, scope_date,
 * region) and shared between threads.
 */
struct s3_signing_key {
        uint8_t bytes[S3_SHA256_LEN];
};
void s3_signing_key_derive(struct s3_str secret, const char *scope_date, const char *region, const char *service,
                           struct s3_signing_key *out);

/*
 * Checks dates against now_ms, scope against region, that host and all x-amz-* headers are signed,
 * and the signature in constant time. key is that of auth->scope_date, auth->region, auth->service.
 * For S3_PAYLOAD_SHA256 the caller still compares the body's hash; for the streaming kinds it
 * decodes the body with s3_chunked. Anonymous auth must not be passed.
 */
enum s3_auth_reason s3_auth_verify(const struct s3_request *request, const struct s3_auth *auth,
                                   const struct s3_signing_key *key, const char *region, int64_t now_ms);
/*
 * The part of s3_auth_verify() that needs no secret (scope, dates, signed headers), to be asked
 * before an access key is looked up if the caller wants errors in AWS's order. s3_auth_verify()
 * includes it.
 */
enum s3_auth_reason s3_auth_check(const struct s3_request *request, const struct s3_auth *auth, const char *region,
                                  int64_t now_ms);

/*
 * Verifies a QUERY_V2. bucket: the one taken from the Host header, absent for path-style requests.
 * Parameters that this signature does not cover are refused, so a listing cannot be asked for this
 * way: UNSUPPORTED_VERSION. It must expire within S3_EXPIRES_MAX. Covered are also "content-type",
 * "content-md5" and "x-amz-..." (in lower case) as the headers they were when the URL was signed;
 * the caller must heed them only where the request has no header of that name, and of the first two
 * only the first of that name.
 */
enum s3_auth_reason s3_auth_verify_v2(const struct s3_request *request, const struct s3_auth *auth,
                                      struct s3_str secret, struct s3_str bucket, int64_t now_ms);

/*
 * A browser's form: what its fields say of its signature, which is over the text of its policy.
 * *out is of kind QUERY; errors are those of a presigned URL, and SIGV4A.
 */
enum s3_auth_reason s3_auth_parse_form(struct s3_str algorithm, struct s3_str credential, struct s3_str date,
                                       struct s3_str signature, struct s3_auth *out);
/* Scope against region, and the signature in constant time; that the form is of today, its policy says. */
enum s3_auth_reason s3_auth_verify_form(const struct s3_auth *auth, const struct s3_signing_key *key,
                                        struct s3_str policy, const char *region);
/* The same with version 2: OK or MISMATCH. */
enum s3_auth_reason s3_auth_verify_form_v2(struct s3_str secret, struct s3_str policy, struct s3_str signature);

/*
 * Names of the headers of a request that had to be signed and are not, in order, parted by ", ":
 * cut where cap ends, NUL-terminated.
 */
void s3_auth_unsigned(const struct s3_request *request, const struct s3_auth *auth, char *out, size_t cap);

/*
 * For tests and for <CanonicalRequest>/<StringToSign> in error answers: NUL-terminated text.
 * Length, -ENOBUFS or -EINVAL.
 */
int s3_canonical_request(const struct s3_request *request, const struct s3_auth *auth, char *out, size_t cap);
int s3_string_to_sign(const struct s3_request *request, const struct s3_auth *auth, char *out, size_t cap);

/* ---- client side ----------------------------------------------------------------------------- */

struct s3_signer {
        struct s3_str access_key;
        struct s3_signing_key key; /* of the day of the request's time */
        const char *region;
        const char *service; /* "s3" */
};

/* Derives the key of the day of time_ms. Strings are referenced, not copied. */
void s3_signer_init(struct s3_signer *signer, struct s3_str access_key, struct s3_str secret, const char *region,
                    int64_t time_ms);

#define S3_UNSIGNED_PAYLOAD           "UNSIGNED-PAYLOAD"
#define S3_STREAMING_SIGNED           "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
#define S3_STREAMING_SIGNED_TRAILER   "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
#define S3_STREAMING_UNSIGNED_TRAILER "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
#define S3_EMPTY_SHA256               "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/*
 * Writes the value of the Authorization header (NUL-terminated) that signs all headers of the
 * request, which must contain host, x-amz-date (of the signer's day) and x-amz-content-sha256.
 * Returns its length; -EINVAL: one is missing or malformed; -ENOBUFS. signature (may be NULL)
 * receives the seed for chunk signatures.
 */
int s3_sign_headers(const struct s3_request *request, const struct s3_signer *signer, char *out, size_t cap,
                    char signature[S3_SIGNATURE_LEN + 1]);

/*
 * Writes the request target ("/path?query", NUL-terminated) of a presigned URL: the request's
 * query, the X-Amz-* parameters and the signature. headers must contain host; all given are signed.
 * token may be absent. Returns its length; -EINVAL, -ENOBUFS.
 */
int s3_presign(const struct s3_request *request, const struct s3_signer *signer, int64_t time_ms, uint32_t expires_s,
               struct s3_str token, char *out, size_t cap);

/* ---- chunk signatures ------------------------------------------------------------------------ */

/* The chain of chunk signatures of one body. */
struct s3_chunk_chain {
        struct s3_signing_key key;
        char amz_date[S3_DATE_AMZ_SIZE];
        char scope[S3_REGION_MAX + 48];      /* yyyymmdd/region/s3/aws4_request */
        char previous[S3_SIGNATURE_LEN + 1]; /* seed first, then the signature of each chunk */
};

/* Server: from a verified request. */
void s3_chunk_chain_of_auth(struct s3_chunk_chain *chain, const struct s3_auth *auth, const struct s3_signing_key *key);
/* Client: from what s3_sign_headers() was given and gave. */
int s3_chunk_chain_of_signer(struct s3_chunk_chain *chain, const struct s3_signer *signer, int64_t time_ms,
                             const char seed[S3_SIGNATURE_LEN + 1]);
/* Signature of the next chunk, whose data hashes to sha256; it becomes chain->previous. */
void s3_chunk_sign(struct s3_chunk_chain *chain, const uint8_t sha256[S3_SHA256_LEN]);
/* Signature of the trailer, the hash of "name:value\n" of each line; it becomes chain->previous. */
void s3_trailer_sign(struct s3_chunk_chain *chain, const uint8_t sha256[S3_SHA256_LEN]);

/* Constant time in len. */
bool s3_equal_secret(const void *a, const void *b, size_t len);

#endif
