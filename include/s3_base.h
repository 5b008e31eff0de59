/*
 * s3_base.h - strings, the one table of S3 errors, bucket names. See s3.h for the rules of this
 * module.
 */
#ifndef MILLRACE_S3_BASE_H
#define MILLRACE_S3_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * A string that need not end in NUL and may contain NUL. data == NULL: absent. Owned by whoever the
 * context says.
 */
struct s3_str {
        const char *data;
        size_t len;
};

#define S3_STR(literal) ((struct s3_str){"" literal, sizeof(literal) - 1})

static inline struct s3_str s3_str_of(const char *text)
{
        return (struct s3_str){text, text != NULL ? strlen(text) : 0};
}

static inline bool s3_str_eq(struct s3_str a, struct s3_str b)
{
        return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

bool s3_str_eq_nocase(struct s3_str a, struct s3_str b); /* ASCII */
bool s3_str_starts(struct s3_str s, struct s3_str prefix);
bool s3_str_starts_nocase(struct s3_str s, struct s3_str prefix);
struct s3_str s3_str_trim(struct s3_str s); /* spaces and tabs at both ends */
/* Is the token, whatever its case, one of a list parted by commas? */
bool s3_list_has(struct s3_str list, struct s3_str token);
bool s3_utf8_valid(struct s3_str s);        /* RFC 3629: no surrogates, no overlong forms */
/* Decimal digits only, no sign, no spaces, at most max. -EINVAL, -ERANGE. */
int s3_parse_uint(struct s3_str s, uint64_t max, uint64_t *out);

/* One HTTP header field as received or to be sent. */
struct s3_header {
        struct s3_str name;
        struct s3_str value;
};

/* ---- errors ---------------------------------------------------------------------------------- */

/* Everything a server of ours may answer: name, code, HTTP status, default message. */
#define S3_ERRORS(X)                                                                                                   \
        X(ACCESS_DENIED, "AccessDenied", 403, "Access Denied")                                                         \
        X(ACL_NOT_SUPPORTED, "AccessControlListNotSupported", 400, "The bucket does not allow ACLs")                   \
        X(AUTH_HEADER_MALFORMED, "AuthorizationHeaderMalformed", 400,                                                  \
          "The authorization header you provided is invalid.")                                                         \
        X(AUTH_QUERY_ERROR, "AuthorizationQueryParametersError", 400,                                                  \
          "The authorization query parameters that you provided are not valid.")                                       \
        X(BAD_DIGEST, "BadDigest", 400,                                                                                \
          "The Content-MD5 or checksum value that you specified did not match what the server received.")              \
        X(BAD_REQUEST, "BadRequest", 400, "Bad Request")                                                               \
        X(BUCKET_ALREADY_EXISTS, "BucketAlreadyExists", 409,                                                           \
          "The requested bucket name is not available. The bucket namespace is shared by all users of the system. "    \
          "Please select a different name and try again.")                                                             \
        X(BUCKET_ALREADY_OWNED, "BucketAlreadyOwnedByYou", 409,                                                        \
          "Your previous request to create the named bucket succeeded and you already own it.")                        \
        X(BUCKET_NOT_EMPTY, "BucketNotEmpty", 409, "The bucket you tried to delete is not empty.")                     \
        X(CONDITIONAL_CONFLICT, "ConditionalRequestConflict", 409,                                                     \
          "The conditional request cannot succeed due to a conflicting operation against this resource.")              \
        X(CONTENT_SHA256_MISMATCH, "XAmzContentSHA256Mismatch", 400,                                                   \
          "The provided 'x-amz-content-sha256' header does not match what was computed.")                              \
        X(CORS_FORBIDDEN, "AccessForbidden", 403, "CORSResponse: CORS is not enabled for this bucket.")                \
        X(ENTITY_TOO_LARGE, "EntityTooLarge", 400, "Your proposed upload exceeds the maximum allowed size")            \
        X(ENTITY_TOO_SMALL, "EntityTooSmall", 400, "Your proposed upload is smaller than the minimum allowed size")    \
        X(EXPIRED_TOKEN, "ExpiredToken", 400, "The provided token has expired.")                                       \
        X(ILLEGAL_LOCATION, "IllegalLocationConstraintException", 400,                                                 \
          "The specified location-constraint is incompatible for the region specific endpoint this request was sent "  \
          "to.")                                                                                                       \
        X(ILLEGAL_VERSIONING, "IllegalVersioningConfigurationException", 400,                                          \
          "The versioning configuration specified in the request is invalid.")                                         \
        X(INCOMPLETE_BODY, "IncompleteBody", 400,                                                                      \
          "You did not provide the number of bytes specified by the Content-Length HTTP header.")                      \
        X(INCORRECT_FILES, "IncorrectNumberOfFilesInPostRequest", 400,                                                 \
          "POST requires exactly one file upload per request.")                                                        \
        X(INSUFFICIENT_STORAGE, "InsufficientStorage", 507, "There is not enough space left to store this request.")   \
        X(INTERNAL_ERROR, "InternalError", 500, "We encountered an internal error. Please try again.")                 \
        X(INVALID_ACCESS_KEY_ID, "InvalidAccessKeyId", 403,                                                            \
          "The AWS Access Key Id you provided does not exist in our records.")                                         \
        X(INVALID_ARGUMENT, "InvalidArgument", 400, "Invalid Argument")                                                \
        X(INVALID_BUCKET_ACL, "InvalidBucketAclWithObjectOwnership", 400,                                              \
          "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting")                            \
        X(INVALID_BUCKET_PUBLIC_ACL, "InvalidBucketAclWithBlockPublicAccessError", 400,                                \
          "Bucket cannot have public ACLs set with BlockPublicAccess enabled")                                         \
        X(INVALID_BUCKET_OWNER, "InvalidBucketOwnerAWSAccountID", 400,                                                 \
          "The value of the expected bucket owner parameter must be an AWS account ID")                                \
        X(INVALID_BUCKET_NAME, "InvalidBucketName", 400, "The specified bucket is not valid.")                         \
        X(INVALID_BUCKET_STATE, "InvalidBucketState", 409,                                                             \
          "The request is not valid with the current state of the bucket.")                                            \
        X(INVALID_CHUNK_SIZE, "InvalidChunkSizeError", 403,                                                            \
          "Only the last chunk is allowed to have a size less than 8192 bytes")                                        \
        X(INVALID_DIGEST, "InvalidDigest", 400, "The Content-MD5 you specified was invalid.")                          \
        X(INVALID_LOCATION, "InvalidLocationConstraint", 400, "The specified location-constraint is not valid")        \
        X(INVALID_OBJECT_STATE, "InvalidObjectState", 403,                                                             \
          "The operation is not valid for the object's storage class")                                                 \
        X(INVALID_PART, "InvalidPart", 400,                                                                            \
          "One or more of the specified parts could not be found.  The part may not have been uploaded, or the "       \
          "specified entity tag may not match the part's entity tag.")                                                 \
        X(INVALID_PART_NUMBER, "InvalidPartNumber", 416, "The requested partnumber is not satisfiable")                \
        X(INVALID_PART_ORDER, "InvalidPartOrder", 400,                                                                 \
          "The list of parts was not in ascending order. Parts must be ordered by part number.")                       \
        X(INVALID_POLICY_DOCUMENT, "InvalidPolicyDocument", 400,                                                       \
          "The content of the form does not meet the conditions specified in the policy document.")                    \
        X(INVALID_RANGE, "InvalidRange", 416, "The requested range is not satisfiable")                                \
        X(INVALID_RDMA_TOKEN, "InvalidRDMAToken", 400, "x-amz-rdma-token does not have its form")                      \
        X(INVALID_REDIRECT, "InvalidRedirectLocation", 400,                                                            \
          "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.")                       \
        X(INVALID_REQUEST, "InvalidRequest", 400, "Invalid Request")                                                   \
        X(INVALID_STORAGE_CLASS, "InvalidStorageClass", 400, "The storage class you specified is not valid")           \
        X(INVALID_TAG, "InvalidTag", 400, "The tag provided was not a valid tag.")                                     \
        X(INVALID_TARGET_BUCKET, "InvalidTargetBucketForLogging", 400,                                                 \
          "The target bucket for logging does not exist, is not owned by you, or does not have the appropriate grants " \
          "for the log-delivery group.")                                                                               \
        X(INVALID_TOKEN, "InvalidToken", 400, "The provided token is malformed or otherwise invalid.")                 \
        X(INVALID_URI, "InvalidURI", 400, "Couldn't parse the specified URI.")                                         \
        X(KEY_TOO_LONG, "KeyTooLongError", 400, "Your key is too long")                                                \
        X(MALFORMED_ACL, "MalformedACLError", 400,                                                                     \
          "The XML you provided was not well-formed or did not validate against our published schema")                 \
        X(MALFORMED_POLICY, "MalformedPolicy", 400, "Policies must be valid JSON and the first byte must be '{'")      \
        X(MALFORMED_POST, "MalformedPOSTRequest", 400,                                                                 \
          "The body of your POST request is not well-formed multipart/form-data.")                                     \
        X(MALFORMED_RDMA_REQUEST, "MalformedRDMARequest", 400,                                                         \
          "The request does not have the form that the protocol gives it")                                             \
        X(MALFORMED_TRAILER, "MalformedTrailerError", 400,                                                             \
          "The request contained trailing data that was not well-formed or did not conform to our published schema.")  \
        X(MALFORMED_XML, "MalformedXML", 400,                                                                          \
          "The XML you provided was not well-formed or did not validate against our published schema")                 \
        X(MAX_MESSAGE_LENGTH, "MaxMessageLengthExceeded", 400, "Your request was too big.")                            \
        X(MAX_POST_PRE_DATA, "MaxPostPreDataLengthExceededError", 400,                                                 \
          "Your POST request fields preceding the upload file were too large.")                                        \
        X(METADATA_TOO_LARGE, "MetadataTooLarge", 400,                                                                 \
          "Your metadata headers exceed the maximum allowed metadata size")                                            \
        X(METHOD_NOT_ALLOWED, "MethodNotAllowed", 405, "The specified method is not allowed against this resource.")   \
        X(MISSING_CONTENT_LENGTH, "MissingContentLength", 411, "You must provide the Content-Length HTTP header.")     \
        X(MISSING_REQUEST_BODY, "MissingRequestBodyError", 400, "Request body is empty.")                              \
        X(MISSING_SECURITY_HEADER, "MissingSecurityHeader", 400, "Your request was missing a required header")         \
        X(NO_SUCH_BUCKET, "NoSuchBucket", 404, "The specified bucket does not exist")                                  \
        X(NO_SUCH_BUCKET_POLICY, "NoSuchBucketPolicy", 404, "The bucket policy does not exist")                        \
        X(NO_SUCH_CONFIGURATION, "NoSuchConfiguration", 404, "The specified configuration does not exist.")            \
        X(NO_SUCH_CORS, "NoSuchCORSConfiguration", 404, "The CORS configuration does not exist")                       \
        X(NO_SUCH_ENCRYPTION, "ServerSideEncryptionConfigurationNotFoundError", 404,                                   \
          "The server side encryption configuration was not found")                                                    \
        X(NO_SUCH_KEY, "NoSuchKey", 404, "The specified key does not exist.")                                          \
        X(NO_SUCH_LIFECYCLE, "NoSuchLifecycleConfiguration", 404, "The lifecycle configuration does not exist")        \
        X(NO_SUCH_METADATA_CONFIG, "MetadataConfigurationNotFound", 404, "The metadata configuration was not found")   \
        X(NO_SUCH_OBJECT_LOCK, "NoSuchObjectLockConfiguration", 404,                                                   \
          "The specified object does not have a ObjectLock configuration")                                             \
        X(NO_SUCH_OBJECT_LOCK_CONFIG, "ObjectLockConfigurationNotFoundError", 404,                                     \
          "Object Lock configuration does not exist for this bucket")                                                  \
        X(NO_SUCH_OWNERSHIP, "OwnershipControlsNotFoundError", 404, "The bucket ownership controls were not found")    \
        X(NO_SUCH_PUBLIC_ACCESS_BLOCK, "NoSuchPublicAccessBlockConfiguration", 404,                                    \
          "The public access block configuration was not found")                                                       \
        X(NO_SUCH_REPLICATION, "ReplicationConfigurationNotFoundError", 404,                                           \
          "The replication configuration was not found")                                                               \
        X(NO_SUCH_TAG_SET, "NoSuchTagSet", 404, "The TagSet does not exist")                                           \
        X(NO_SUCH_UPLOAD, "NoSuchUpload", 404,                                                                         \
          "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or " \
          "completed.")                                                                                                \
        X(NO_SUCH_VERSION, "NoSuchVersion", 404, "The specified version does not exist.")                              \
        X(NO_SUCH_WEBSITE, "NoSuchWebsiteConfiguration", 404,                                                          \
          "The specified bucket does not have a website configuration")                                                \
        X(NOT_IMPLEMENTED, "NotImplemented", 501,                                                                      \
          "A header or query you provided implies functionality that is not implemented.")                             \
        X(NOT_MODIFIED, "NotModified", 304, "Not Modified")                                                            \
        X(OPERATION_ABORTED, "OperationAborted", 409,                                                                  \
          "A conflicting conditional operation is currently in progress against this resource. Please try again.")     \
        X(PRECONDITION_FAILED, "PreconditionFailed", 412,                                                              \
          "At least one of the pre-conditions you specified did not hold")                                             \
        X(RDMA_DECLINED, "RDMADeclined", 501,                                                                          \
          "Not over RDMA: send it with a body.")                                                                       \
        X(RDMA_NOT_SUPPORTED, "RDMANotSupported", 501,                                                                 \
          "This server has no RDMA.")                                                                                  \
        X(RDMA_REQUEST_REPEATED, "RDMARequestRepeated", 409,                                                           \
          "A request of this session had this number before, or it is out of range.")                                  \
        X(RDMA_RIGHTS_UNSUPPORTED, "RDMARightsUnsupported", 400,                                                       \
          "No scheme of rights is in common.")                                                                         \
        X(RDMA_VERSION_UNSUPPORTED, "RDMAVersionUnsupported", 400,                                                     \
          "No version of the protocol is in common.")                                                                  \
        X(RDMA_WINDOW_TOO_SMALL, "RDMAWindowTooSmall", 400,                                                            \
          "The window has no room for the bytes that are asked for.")                                                  \
        X(REQUEST_HEADERS_TOO_LARGE, "RequestHeaderSectionTooLarge", 400,                                              \
          "Your request header section exceeds the maximum allowed request header section size.")                      \
        X(REQUEST_TIMEOUT, "RequestTimeout", 400,                                                                      \
          "Your socket connection to the server was not read from or written to within the timeout period. Idle "      \
          "connections will be closed.")                                                                               \
        X(REQUEST_TIME_TOO_SKEWED, "RequestTimeTooSkewed", 403,                                                        \
          "The difference between the request time and the current time is too large.")                                \
        X(SERVICE_UNAVAILABLE, "ServiceUnavailable", 503, "Service is unable to handle request.")                      \
        X(SIGNATURE_MISMATCH, "SignatureDoesNotMatch", 403,                                                            \
          "The request signature we calculated does not match the signature you provided. Check your key and signing " \
          "method.")                                                                                                   \
        X(SLOW_DOWN, "SlowDown", 503, "Please reduce your request rate.")                                              \
        X(TOO_MANY_BUCKETS, "TooManyBuckets", 400, "You have attempted to create more buckets than allowed")           \
        X(TOO_MANY_CONFIGURATIONS, "TooManyConfigurations", 400,                                                       \
          "You are attempting to create a new configuration but have already reached the 1,000-configuration limit.")  \
        X(TOO_MANY_PARTS, "TooManyParts", 400, "You have attempted to upload more parts than allowed")                 \
        X(UNEXPECTED_CONTENT, "UnexpectedContent", 400, "This request does not support content")                       \
        X(UNRESOLVABLE_GRANT, "UnresolvableGrantByEmailAddress", 400,                                                  \
          "The email address you provided does not match any account on record.")                                      \
        X(UNSUPPORTED_SIGNATURE, "UnsupportedSignature", 400,                                                          \
          "The provided request is signed with an unsupported STS Token version or the signature version is not "      \
          "supported.")                                                                                                \
        X(URI_TOO_LONG, "URITooLong", 414, "The request URI is too long.")

enum s3_error {
        S3_OK = 0,
#define S3_ERROR_ENUM(name, code, status, message) S3_ERR_##name,
        S3_ERRORS(S3_ERROR_ENUM)
#undef S3_ERROR_ENUM
                S3_ERROR_COUNT
};

struct s3_error_info {
        const char *code;    /* as in <Code> */
        unsigned status;     /* HTTP */
        const char *message; /* default for <Message> */
};

/* Never NULL; S3_OK gives {"", 200, ""}. */
const struct s3_error_info *s3_error_info(enum s3_error error);
/* Client side: the error of that <Code>, or S3_ERR_INTERNAL_ERROR if we don't know it. */
enum s3_error s3_error_by_code(struct s3_str code);

/* ---- bucket names ---------------------------------------------------------------------------- */

#define S3_BUCKET_MAX 63u

/*
 * AWS's rules for general purpose buckets: 3-63 of [a-z0-9.-], ends on a letter or digit, no "..",
 * not an IPv4 address, no reserved prefix (xn--, sthree-, amzn-s3-demo-) or suffix (-s3alias,
 * --ol-s3, .mrap, --x-s3, --table-s3).
 */
bool s3_bucket_name_valid(struct s3_str name);
/*
 * The same for a bucket that is to be made: each label between dots ends on a letter or digit at
 * both sides, too. Buckets that were made before this was asked for keep their names.
 */
bool s3_bucket_name_creatable(struct s3_str name);
#define S3_BUCKET_ONCE_MAX 255u
/*
 * Names that us-east-1 gave out until 2018: 3-255 of [A-Za-z0-9._-]. There are none here, but
 * asking for one is no mistake.
 */
bool s3_bucket_name_once_valid(struct s3_str name);

/* ---- regions --------------------------------------------------------------------------------- */

/* The code of a region of AWS, or "EU", as LocationConstraint once called eu-west-1. */
bool s3_region_known(struct s3_str name);

#endif
