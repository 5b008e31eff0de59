/*
 * millrace.h - libmillrace: a client library of S3 endpoints, millrace's and others'. The stable
 * interface; `pkg-config --cflags --libs millrace`.
 *
 * A client does its work on threads of its own. Each operation exists twice: NAME_start() begins it
 * and returns; its result comes out of a completion queue, whose descriptor can be polled. NAME()
 * begins it and waits. Failures that may pass (connections, 5xx, SlowDown, expired credentials,
 * bytes damaged on the way) have been retried, with jitter, before they are reported.
 *
 * Results are 0 or a negative errno, and struct mr_error says more:
 *   -ENOENT no such key, bucket, version or upload    -EACCES refused, or no credentials       -EEXIST it exists, a condition does not hold
 *   -ESTALE the object changed meanwhile              -EMSGSIZE the bytes do not fit the place -ERANGE the range begins behind the object's end
 *   -EBADMSG bytes do not match their checksum        -EBUSY 503 or 429 to the last one        -ENOSPC the store is full
 *   -ECONNREFUSED endpoint not reached                -ETIMEDOUT no answer in time             -EIO the connection broke, outcome unknown
 *   -ECANCELED canceled                               -EOPNOTSUPP this transport is not there  -EINVAL malformed, by us or by the endpoint's word
 *   -EAGAIN the queue has no room for another         -ECHILD the client was made before a fork -ENOTEMPTY the bucket holds objects
 *   -EPROTO an answer that is not S3                  -EREMOTEIO any other answer of failure   -ENOMEM
 *
 * After -EIO, -ETIMEDOUT, -EBUSY, -EREMOTEIO or -ECANCELED the change that was asked for may have been
 * made: look what is there. Any other code says that it was not. So -EIO is also the result where the
 * answer of an earlier attempt was lost or 5xx, and a later one was refused, by what the earlier has
 * done (a conditional PUT or copy, a bucket that is created or deleted) or for any other reason.
 * http_status and s3_code are those of the refusal.
 *
 * Threads: every function may be called by any thread at any time, several at once on the same
 * client, unless it says otherwise. None but mr_client_cancel() may be called by a signal handler.
 * A client does not survive fork(): the child opens its own.
 *
 * Structs that the caller fills are zeroed first; zero means the default, and `reserved` must stay
 * zero. Strings given to a function are copied, unless it says otherwise.
 */
#ifndef MILLRACE_H
#define MILLRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MR_API __attribute__((visibility("default")))

struct mr_client;
struct mr_queue;
struct mr_buffer;

struct mr_error {
        int code;         /* the result of the call */
        int http_status;  /* 0: there was no answer */
        char s3_code[64]; /* "NoSuchKey"; "" where the answer had none */
        char request_id[64];
        char message[512]; /* one line for a person */
};

MR_API const char *mr_version(void);

/* ---- credentials ----------------------------------------------------------------------------- */

struct mr_credentials {
        char access_key[129], secret_key[129], session_token[8193];
        int64_t expires_s; /* seconds since 1970; 0: never */
};

/*
 * Fills out (zeroed). Called by a thread of the client, one call at a time, at first and again
 * before the last answer expires. 0 or a negative errno.
 */
typedef int (*mr_credentials_fn)(void *arg, struct mr_credentials *out);

/* ---- a client -------------------------------------------------------------------------------- */

/*
 * What a body is signed with. AUTO: its SHA-256 on http://, UNSIGNED-PAYLOAD on https:// (TLS
 * covers it).
 */
enum mr_sign_body { MR_SIGN_AUTO, MR_SIGN_ALWAYS, MR_SIGN_NEVER };

/* The checksum computed for, sent with, and stored by an upload. */
enum mr_checksum { MR_CRC64NVME, MR_CRC32C, MR_CRC32, MR_CHECKSUM_NONE };

/*
 * What AUTO finds credentials in, the first that has any: AWS_ACCESS_KEY_ID with
 * AWS_SECRET_ACCESS_KEY; AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN; the profile (keys,
 * credential_process, or web_identity_token_file with role_arn); AWS_CONTAINER_CREDENTIALS_FULL_URI
 * or _RELATIVE_URI. The others name one of these alone.
 */
enum mr_credentials_source {
        MR_CREDENTIALS_AUTO,
        MR_CREDENTIALS_EXPLICIT, /* access_key, secret_key, session_token; also what AUTO means where access_key is set */
        MR_CREDENTIALS_CALLBACK, /* credentials_fn; also what AUTO means where it is set */
        MR_CREDENTIALS_ENVIRONMENT,
        MR_CREDENTIALS_PROFILE,
        MR_CREDENTIALS_WEB_IDENTITY,
        MR_CREDENTIALS_CONTAINER,
        MR_CREDENTIALS_NONE /* requests are not signed: public objects */
};

enum mr_transport { MR_TRANSPORT_AUTO, MR_TRANSPORT_TCP, MR_TRANSPORT_RDMA };

/* NULL, 0: the default. Zero it, or copy one that mr_options_init() made. */
struct mr_options {
        const char *
                endpoint; /* http[s]://host[:port], or several of one store with commas between them, 16 at most, all of one scheme; default:
                                 AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's endpoint_url, else AWS's own of the region */
        const char *region;  /* default: AWS_REGION, AWS_DEFAULT_REGION, the profile's, "us-east-1" */
        const char *ca_file; /* PEM bundle that TLS trusts; default: AWS_CA_BUNDLE, the system's */
        const char *profile; /* default: AWS_PROFILE, "default" */

        enum mr_credentials_source credentials;
        const char *access_key, *secret_key, *session_token;
        mr_credentials_fn credentials_fn;
        void *credentials_arg;

        enum mr_transport transport; /* of requests that say AUTO */
        enum mr_sign_body sign_body;
        enum mr_checksum checksum;
        unsigned parallel;          /* requests at once, 1..256; default 16 */
        unsigned threads;           /* that they are spread over, at most, 1..16; default: processors, up to 4 */
        unsigned attempts;          /* per request, 1..20; default 5 */
        unsigned connect_timeout_s; /* 1..300; default 10 */
        unsigned stall_timeout_s;   /* no byte moves for this long: the attempt has failed; 1..3,600; default 60 */
        uint64_t part_size; /* bytes, 5 MiB..5 GiB; default: chosen by the object's size, 8-64 MiB; of a GET 8 MiB */
        unsigned
                rdma_rights; /* how narrow the server's rights to memory are, a mask: 1 type 2 windows, 2 type 1 windows, 4 whole buffers; default: windows
                                 where the device has them */
        const char *
                test_rdma_driver; /* a transport without hardware, loaded in place of verbs: for tests and measurements */
        uint64_t reserved[6];
};

MR_API void mr_options_init(struct mr_options *options);

/*
 * Reads environment and profile, starts nothing yet: neither endpoint nor credentials have been
 * tried. -EINVAL: a value is malformed or out of its range; -ENOENT: the profile named does not
 * exist.
 */
MR_API int mr_client_open(const struct mr_options *options, struct mr_client **out, struct mr_error *err);
/*
 * Cancels what is under way, waits until it has ended, and frees. No other call may be under way;
 * queues and buffers of the client are freed before. In a child of fork() it frees nothing and
 * returns. NULL is allowed.
 */
MR_API void mr_client_free(struct mr_client *client);
/*
 * Also in signal handlers: operations under way, and later ones, end soon with -ECANCELED. Uploads
 * in parts are still aborted.
 */
MR_API void mr_client_cancel(struct mr_client *client);
MR_API bool mr_client_canceled(const struct mr_client *client);
/*
 * Where requests go to (of several endpoints the first), and the region they are signed for; valid
 * as long as the client.
 */
MR_API const char *mr_client_endpoint(const struct mr_client *client);
MR_API const char *mr_client_region(const struct mr_client *client);
/*
 * The credentials in use, refreshed if they were about to expire; may wait for their source. For
 * what the library does not do: presigning.
 */
MR_API int mr_client_credentials(struct mr_client *client, struct mr_credentials *out, struct mr_error *err);

/* ---- memory ---------------------------------------------------------------------------------- */

#define MR_BUFFER_HUGE 1u /* huge pages, or ordinary ones where there are none */

/*
 * Memory of the library's, registered, zeroed, aligned to a page. Costly: make few and slice them.
 */
MR_API int mr_buffer_new(struct mr_client *client, size_t len, unsigned flags, struct mr_buffer **out);
/* Registers the caller's memory, which stays valid until mr_buffer_free(). */
MR_API int mr_buffer_register(struct mr_client *client, void *memory, size_t len, struct mr_buffer **out);
/*
 * Registers len bytes of a dma-buf (GPU memory) from offset; the descriptor is duplicated. Only
 * MR_TRANSPORT_RDMA can reach it.
 */
MR_API int mr_buffer_register_dmabuf(struct mr_client *client, int fd, uint64_t offset, size_t len,
                                     struct mr_buffer **out);
/* -EBUSY while an operation uses it, and then it is not freed. NULL is allowed. */
MR_API int mr_buffer_free(struct mr_buffer *buffer);
/* NULL for a dma-buf. */
MR_API void *mr_buffer_memory(const struct mr_buffer *buffer);
MR_API size_t mr_buffer_len(const struct mr_buffer *buffer);

/*
 * Where bytes go to or come from: len bytes from offset of a buffer or, where that is NULL, of
 * memory. It belongs to the operation until its result is out.
 */
struct mr_place {
        struct mr_buffer *buffer;
        void *memory;
        uint64_t offset, len;
};

/* ---- results --------------------------------------------------------------------------------- */

struct mr_header {
        char *name, *value;
};

struct mr_object_info {
        uint64_t size;
        int64_t mtime_s;         /* seconds since 1970 */
        char etag[96];           /* without quotes */
        char version_id[128];    /* "" where the endpoint named none */
        char checksum_kind[16];  /* "CRC64NVME", "SHA256" …; "" where the endpoint named none */
        char checksum[96];       /* base64, as answered */
        bool checksum_composite; /* of the parts' checksums, not of the bytes */
        unsigned header_count;
        struct mr_header *headers; /* of a HEAD: all of the answer, names in lower case; owner: this struct */
};
MR_API void mr_object_info_free(struct mr_object_info *info);

/* Strings are valid as long as what they came with. */
struct mr_entry {
        const char *key;
        bool is_prefix; /* a common prefix: nothing but key is set */
        uint64_t size;
        int64_t mtime_s;
        const char *etag;
        const char *version_id; /* of a listing of versions; "" where the endpoint named none */
        bool latest;            /* of a listing of versions: the newest of its key */
        bool marker;            /* of a listing of versions: a delete marker, without size and ETag */
        int64_t mtime_ms;       /* mtime_s, and the milliseconds that the endpoint named */
};

struct mr_page;
MR_API size_t mr_page_count(const struct mr_page *page);
/* In order of keys, and of one key's versions the newest first; NULL past the last. */
MR_API const struct mr_entry *mr_page_entry(const struct mr_page *page, size_t index);
MR_API const char *mr_page_token(const struct mr_page *page); /* of the next page; NULL: this is the last */
MR_API void mr_page_free(struct mr_page *page);               /* NULL is allowed */

#define MR_ENTRY_NONE SIZE_MAX

struct mr_result {
        uint64_t op;  /* as given by NAME_start() */
        void *tag;    /* of the caller */
        size_t entry; /* of a batch with `each`: which one; MR_ENTRY_NONE: the operation itself, its last result */
        int code;     /* 0 or a negative errno */
        enum mr_transport transport;  /* that carried the bytes; AUTO: none were carried */
        uint64_t bytes;               /* got or put; of a batch: the sum */
        uint64_t failed;              /* of a batch: entries */
        bool wire_verified;           /* each byte got was compared with the endpoint's CRC32C of what it sent */
        bool object_verified;         /* the whole object was got, and compared with its own checksum */
        unsigned restarts;            /* of a GET: times the object was replaced under it, and it began again */
        struct mr_object_info object; /* of GET: size, time, ETag …; PUT: size, ETag; HEAD: all of it */
        struct mr_page *page;         /* LIST */
        struct mr_error error;
};

/* Frees what a HEAD's or LIST's result owns; for others it does nothing. */
MR_API void mr_result_free(struct mr_result *result);

/* ---- completion queues ----------------------------------------------------------------------- */

/*
 * At most capacity operations (a batch with `each` counts as one for each entry, and one) can be
 * bound for it at once, 1..1,048,576.
 */
MR_API int mr_queue_new(struct mr_client *client, unsigned capacity, struct mr_queue **out);
/*
 * Operations bound for it are canceled and waited for; results not taken are dropped. No other call
 * on it may be under way.
 */
MR_API void mr_queue_free(struct mr_queue *queue);
/* An eventfd, readable while there are results; to be polled, never read. */
MR_API int mr_queue_fd(const struct mr_queue *queue);
/*
 * Takes up to max results, waiting for the first: timeout_ms < 0: as long as it takes, 0: not at
 * all. Returns how many, 0 after the timeout or where nothing is under way. Several threads may
 * take from one queue. The caller frees each by mr_result_free().
 */
MR_API int mr_queue_take(struct mr_queue *queue, struct mr_result *out, unsigned max, int timeout_ms);

/*
 * Ends an operation soon; its result still comes, -ECANCELED or, where it was done already, what it
 * was. One that has ended or never was is left alone. Memory may be touched until the result is
 * out.
 */
MR_API void mr_cancel(struct mr_client *client, uint64_t op);

/*
 * NAME_start(client, what, queue, tag, op): 0 and *op (may be NULL) set, and one result will come
 * out of queue; else nothing was begun: -EINVAL, -EAGAIN, -ENOMEM, -ECHILD. NAME(client, what,
 * out): the same, awaited; returns out->code. err and out may be NULL where a result has nothing to
 * free.
 */

/* ---- reading --------------------------------------------------------------------------------- */

/*
 * Bytes that the CPU cannot see, in a dma-buf that cannot be mapped, are taken as they come; else
 * such a read is -EOPNOTSUPP.
 */
#define MR_GET_UNVERIFIED 1u

struct mr_get {
        const char *bucket, *key;
        const char *version_id; /* NULL: the current one */
        const char *if_match;   /* an ETag, with or without quotes: this one or -ESTALE; NULL: any */
        uint64_t offset, len;   /* len 0: to the object's end. Less comes where the object ends earlier */
        uint64_t last;          /* not 0: the last bytes instead of offset and len */
        struct mr_place place;  /* at least len (or last) bytes; len 0: -EMSGSIZE where the object has more than fit */
        enum mr_transport transport;
        unsigned flags; /* MR_GET_UNVERIFIED */
        uint64_t reserved[4];
};

/*
 * Bytes of one version of one object. Large ones come as ranges in parallel; each, and each retry,
 * asks for the version that the first answer was of. Where the object is replaced meanwhile (and
 * neither version_id nor if_match is set) it begins again, a few times, then -ESTALE. What a
 * failure leaves in the place is not to be used.
 */
MR_API int mr_get_start(struct mr_client *client, const struct mr_get *get, struct mr_queue *queue, void *tag,
                        uint64_t *op);
MR_API int mr_get(struct mr_client *client, const struct mr_get *get, struct mr_result *out);

/* What came of one entry of a batch. */
struct mr_got {
        int code; /* 1: not yet */
        enum mr_transport transport;
        bool wire_verified, object_verified;
        uint64_t bytes, size; /* got; of the whole object (known also with -EMSGSIZE) */
        char etag[96];
        struct mr_error error;
};

#define MR_BATCH_MAX 65536u

struct mr_batch {
        const struct mr_get *gets; /* copied */
        size_t count;              /* 1..MR_BATCH_MAX */
        struct mr_got
                *got; /* count of them, the caller's until the last result: each is written once, before its result */
        bool each;    /* a result for each entry, as it is done; the last one is of the batch in either case */
        uint64_t reserved[4];
};

/*
 * Many reads at once. The batch's own result is 0 where every entry is, else the first failure by
 * order; the others are done all the same.
 */
MR_API int mr_get_batch_start(struct mr_client *client, const struct mr_batch *batch, struct mr_queue *queue, void *tag,
                              uint64_t *op);
MR_API int mr_get_batch(struct mr_client *client, const struct mr_batch *batch, struct mr_result *out);

/* ---- what is there --------------------------------------------------------------------------- */

struct mr_head {
        const char *bucket, *key, *version_id; /* version_id may be NULL */
        uint64_t reserved[4];
};

MR_API int mr_head_start(struct mr_client *client, const struct mr_head *head, struct mr_queue *queue, void *tag,
                         uint64_t *op);
MR_API int mr_head(struct mr_client *client, const char *bucket, const char *key, struct mr_object_info *out,
                   struct mr_error *err);
/* mr_head_start(), awaited. */
MR_API int mr_head_version(struct mr_client *client, const struct mr_head *head, struct mr_object_info *out,
                           struct mr_error *err);

struct mr_list {
        const char *bucket, *prefix, *delimiter, *start_after; /* all but bucket may be NULL */
        unsigned page;                                         /* max-keys; 0: 1,000 */
        const char *token;                                     /* of mr_page_token(); NULL: the first page */
        bool versions; /* all versions and delete markers of each key; page counts these */
        uint64_t reserved[3];
};

/* One page. A token leads on only in a listing of the same kind: with versions, or without. */
MR_API int mr_list_start(struct mr_client *client, const struct mr_list *list, struct mr_queue *queue, void *tag,
                         uint64_t *op);

/* All of a listing, one thread at a time. The next page is asked for while one is handed out. */
struct mr_lister;
MR_API int mr_lister_open(struct mr_client *client, const struct mr_list *list, struct mr_lister **out,
                          struct mr_error *err);
/*
 * 1: *out is valid until the next call; 0: that was all; else a negative errno, and again the same
 * each time.
 */
MR_API int mr_lister_next(struct mr_lister *lister, const struct mr_entry **out, struct mr_error *err);
MR_API void mr_lister_free(struct mr_lister *lister); /* NULL is allowed */

struct mr_bucket {
        const char *name;
        int64_t created_s;
};
/* A result of fn other than 0 ends the listing, and is its result. */
typedef int (*mr_bucket_fn)(void *arg, const struct mr_bucket *bucket);
MR_API int mr_buckets(struct mr_client *client, mr_bucket_fn bucket, void *arg, struct mr_error *err);
/* -EIO: an earlier attempt, whose answer was lost, may have made or deleted it. */
MR_API int mr_bucket_create(struct mr_client *client, const char *bucket, struct mr_error *err);
MR_API int mr_bucket_delete(struct mr_client *client, const char *bucket, struct mr_error *err);
MR_API int mr_bucket_head(struct mr_client *client, const char *bucket, struct mr_error *err);

/* ---- writing --------------------------------------------------------------------------------- */

struct mr_put {
        const char *bucket, *key;
        struct mr_place place;            /* the bytes: not to change until the result is out */
        const char *content_type;         /* NULL: not sent */
        const struct mr_header *metadata; /* x-amz-meta-NAME: value */
        unsigned metadata_count;
        bool if_none_match;   /* only where the key does not exist, else -EEXIST; -EIO: this PUT may have been done */
        const char *if_match; /* only over this ETag, else -EEXIST; -EIO: this PUT may have been done */
        enum mr_transport transport;
        uint64_t reserved[4];
};

/*
 * One PUT or, where it is large, parts in parallel. Seen by others only once whole; a failure
 * aborts it.
 */
MR_API int mr_put_start(struct mr_client *client, const struct mr_put *put, struct mr_queue *queue, void *tag,
                        uint64_t *op);
MR_API int mr_put(struct mr_client *client, const struct mr_put *put, struct mr_result *out);

/*
 * An upload in parts that the caller cuts: begun by the first part, made visible by the completion.
 * Parts may be started in any order by any thread; completion and abort only when no part is under
 * way.
 */
struct mr_multipart;
/* put->place is not looked at. */
MR_API int mr_multipart_new(struct mr_client *client, const struct mr_put *put, struct mr_multipart **out);
/* number: 1..10,000; all but the last at least 5 MiB. A part that failed may be started again. */
MR_API int mr_multipart_part_start(struct mr_multipart *upload, unsigned number, const struct mr_place *place,
                                   struct mr_queue *queue, void *tag, uint64_t *op);
MR_API int mr_multipart_part(struct mr_multipart *upload, unsigned number, const struct mr_place *place,
                             struct mr_result *out);
/*
 * -EINVAL where a part is missing or failed. No part at all makes an empty object. Where it fails
 * the upload was aborted.
 */
MR_API int mr_multipart_complete_start(struct mr_multipart *upload, struct mr_queue *queue, void *tag, uint64_t *op);
MR_API int mr_multipart_complete(struct mr_multipart *upload, struct mr_result *out);
/* Forgets the parts at the endpoint, also after mr_client_cancel(). Waits for its answer. */
MR_API int mr_multipart_abort(struct mr_multipart *upload, struct mr_error *err);
/*
 * Not while an operation of it is under way; one neither completed nor aborted is aborted. NULL is
 * allowed.
 */
MR_API void mr_multipart_free(struct mr_multipart *upload);

struct mr_copy {
        const char *bucket, *key; /* the new object */
        const char *source_bucket, *source_key;
        bool if_none_match; /* only where the key does not exist, else -EEXIST; -EIO: this copy may have been done */
        const char *source_version_id; /* NULL: the current one */
        uint64_t reserved[3];
};

/* The endpoint copies an object of up to 5 GiB, with its metadata. */
MR_API int mr_copy_start(struct mr_client *client, const struct mr_copy *copy, struct mr_queue *queue, void *tag,
                         uint64_t *op);
MR_API int mr_copy(struct mr_client *client, const struct mr_copy *copy, struct mr_error *err);

struct mr_delete {
        const char *bucket, *key;
        const char *version_id; /* this version, for good; NULL: a bucket with versions keeps them all */
        bool bypass_governance; /* also a version that GOVERNANCE protects, where the user may */
        uint64_t reserved[3];
};

/* A key that does not exist is deleted, too: 0. -EACCES: the version is locked. */
MR_API int mr_delete_start(struct mr_client *client, const struct mr_delete *del, struct mr_queue *queue, void *tag,
                           uint64_t *op);
MR_API int mr_delete(struct mr_client *client, const char *bucket, const char *key, struct mr_error *err);
/* mr_delete_start(), awaited. */
MR_API int mr_delete_version(struct mr_client *client, const struct mr_delete *del, struct mr_error *err);

/*
 * failed: called for each key that was not deleted, by the calling thread. Any count; 1,000 a
 * request. 0 if each request was answered.
 */
typedef void (*mr_delete_failed_fn)(void *arg, const char *key, const char *code, const char *message);
MR_API int mr_delete_many(struct mr_client *client, const char *bucket, const char *const keys[], size_t count,
                          mr_delete_failed_fn failed, void *arg, struct mr_error *err);

struct mr_key_version {
        const char *key;
        const char *version_id; /* this version, for good; NULL: as mr_delete_many() */
};
/* The same of versions. bypass_governance: also those that GOVERNANCE protects, where the user may. */
MR_API int mr_delete_many_versions(struct mr_client *client, const char *bucket, const struct mr_key_version versions[],
                                   size_t count, bool bypass_governance, mr_delete_failed_fn failed, void *arg,
                                   struct mr_error *err);

/* ---- sub-resources --------------------------------------------------------------------------- */

/*
 * One request for what S3 keeps beside an object or bucket as a small XML document: "tagging",
 * "retention", "legal-hold", "object-lock", "versioning", "lifecycle" …
 */
struct mr_sub_resource {
        const char *method;       /* "GET", "PUT" or "DELETE" */
        const char *bucket, *key; /* key NULL: the bucket's own */
        const char *name;
        const char *version_id; /* NULL: the current one */
        const char *body;       /* of a PUT: the document, len bytes; not copied */
        size_t len;
        bool bypass_governance; /* also against GOVERNANCE, where the user may */
        const char *const *query; /* more parameters: two names and values by turns at most, ended by a NULL; NULL: none */
        uint64_t reserved[3];
};

struct mr_document {
        char *text; /* NUL-terminated; "" where the answer had none; owner: this struct */
        size_t len;
        char version_id[128]; /* of the version it is of; "" where the endpoint named none */
};
MR_API void mr_document_free(struct mr_document *document);

/*
 * Makes the request and waits. out (may be NULL) gets the answer as it is, which the caller frees
 * in every case. -ENOENT also where there is no such document: s3_code says which. -EINVAL: another
 * method, or no name.
 */
MR_API int mr_sub_resource(struct mr_client *client, const struct mr_sub_resource *what, struct mr_document *out,
                           struct mr_error *err);

#ifdef __cplusplus
}
#endif

#endif
