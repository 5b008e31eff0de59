/*
 * s3_uri.h - request targets: bucket and key, query parameters, percent-encoding. See s3.h for the
 * rules of this module.
 */
#ifndef MILLRACE_S3_URI_H
#define MILLRACE_S3_URI_H

#include "s3_base.h"

#define S3_KEY_MAX    1024u
#define S3_TARGET_MAX (16u << 10) /* bytes of a request target; longer: URITooLong */

/* A request target as it came over the wire, cut but not decoded: slices of the input. */
struct s3_target {
        struct s3_str host;  /* authority of an absolute-form target ("GET http://host/b/k"), else absent */
        struct s3_str path;  /* begins with "/" (an absolute form without a path gives "/") */
        struct s3_str query; /* without "?"; absent if there was no "?" */
};

/*
 * INVALID_URI: neither origin-form nor absolute-form (http, https), a fragment, control bytes or
 * spaces; URI_TOO_LONG. "*" gives path "*" (OPTIONS).
 */
enum s3_error s3_target_split(struct s3_str raw, struct s3_target *out);

/* ---- authority ------------------------------------------------------------------------------- */

/* Host and port that a request is sent to: a slice of the Host header. */
struct s3_authority {
        struct s3_str host; /* a name without a final dot, or an IPv6 address in brackets; absent: none was named */
        bool has_port;
        uint16_t port;
};

/*
 * False: no name, IPv4 address or IPv6 literal with an optional port. User information, paths,
 * escapes and zones are refused.
 */
bool s3_authority_parse(struct s3_str text, struct s3_authority *out);
/*
 * The same host, whatever its case, and the same port: "h" and "h:80" differ, since the scheme is
 * not known here.
 */
bool s3_authority_equal(const struct s3_authority *a, const struct s3_authority *b);
/*
 * The authority of a request: that of its one Host header, which signatures cover. An absolute-form
 * target must name the same. Only HTTP/1.0 may leave Host out, and then not with an absolute form.
 * BAD_REQUEST, and *message says why.
 */
enum s3_error s3_authority_of_request(const struct s3_target *target, const struct s3_header *headers, size_t count,
                                      bool http10, struct s3_authority *out, const char **message);

/* ---- bucket and key -------------------------------------------------------------------------- */

/*
 * What a path names. bucket_len 0: the service; key_len 0: the bucket. Keys may hold NUL: the
 * length counts. Both arrays end in NUL for those who log.
 */
struct s3_address {
        size_t bucket_len, key_len;
        bool virtual_host;              /* the bucket was taken from the Host header */
        char bucket[S3_BUCKET_ONCE_MAX + 1]; /* not checked against the rules of names beyond its length */
        char key[S3_KEY_MAX + 1];
};

/*
 * Decodes a raw path. host: that of struct s3_authority (may be absent); domains: suffixes for
 * virtual-host addressing, lower case, without leading dot. "bucket.domain" gives bucket; the bare
 * domain and everything else is path-style. "+" is a plus, "//", "..", a leading "/" of the key
 * stay as they are. INVALID_URI: bad percent escape or invalid UTF-8; KEY_TOO_LONG;
 * INVALID_BUCKET_NAME: longer than S3_BUCKET_ONCE_MAX.
 */
enum s3_error s3_address_parse(struct s3_str path, struct s3_str host, const struct s3_str *domains,
                               size_t domain_count, struct s3_address *out);

static inline struct s3_str s3_address_bucket(const struct s3_address *a)
{
        return (struct s3_str){a->bucket, a->bucket_len};
}
static inline struct s3_str s3_address_key(const struct s3_address *a)
{
        return (struct s3_str){a->key, a->key_len};
}

/* ---- query parameters ------------------------------------------------------------------------ */

#define S3_QUERY_PARAMS_MAX 64u

struct s3_query_param {
        struct s3_str name, value; /* decoded; a value that is not there ("?acl") is "" with has_value false */
        bool has_value;
};

struct s3_query {
        unsigned count;
        struct s3_query_param param[S3_QUERY_PARAMS_MAX]; /* in the order received; empty pieces ("&&") left out */
};

/*
 * Decodes a raw query ("+" is a space). buf receives the decoded text and must hold raw.len bytes
 * (-> S3_TARGET_MAX always suffices); the slices point into it. INVALID_URI: bad escape, invalid
 * UTF-8; INVALID_ARGUMENT: too many parameters.
 */
enum s3_error s3_query_parse(struct s3_str raw, char *buf, size_t cap, struct s3_query *out);
/* First of that name (names are case-sensitive) or NULL. */
const struct s3_query_param *s3_query_find(const struct s3_query *query, const char *name);
/* Number of parameters of that name. */
unsigned s3_query_count(const struct s3_query *query, const char *name);

/*
 * The parameters of a presigned URL that stand for headers: SDKs move x-amz-meta-..., x-amz-acl and
 * their like there, and S3 reads them as headers. Writes at most max of them (slices of the query's
 * buffer) and returns how many there are. Left out: those of the signature itself, and checksums,
 * which S3 does not read there (aws-sdk-js puts that of an empty body).
 */
size_t s3_query_headers(const struct s3_query *query, struct s3_header *out, size_t max);

/* ---- percent-encoding ------------------------------------------------------------------------ */

enum s3_encode {
        S3_ENCODE_PATH,  /* SigV4 canonical URI: unreserved bytes and "/" kept, upper-case %XX else */
        S3_ENCODE_QUERY, /* SigV4 canonical query: unreserved bytes kept */
        S3_ENCODE_LIST,  /* encoding-type=url as S3 answers it: space is "+"; letters, digits, - _ . / and * kept */
};

/*
 * Writes at most cap bytes, no NUL; 3 * in.len always suffices. Returns bytes written, or -ENOBUFS.
 */
int s3_percent_encode(struct s3_str in, enum s3_encode mode, char *out, size_t cap);
/*
 * out may be in.data. plus: "+" becomes a space. Returns bytes written (never more than in.len),
 * -EINVAL, -ENOBUFS.
 */
int s3_percent_decode(struct s3_str in, bool plus, char *out, size_t cap);

#endif
