/*
 * s3_xml.h - writing XML, reading it within bounds, and the documents clients send. See s3.h for
 * the rules of this module.
 */
#ifndef MILLRACE_S3_XML_H
#define MILLRACE_S3_XML_H

#include "s3_base.h"
#include "s3_checksum.h"
#include "s3_config.h"
#include "s3_lifecycle.h"
#include "s3_lock.h"
#include "s3_tags.h"
#include "s3_uri.h"
#include "s3_version.h"

#define S3_XML_NAMESPACE "http://s3.amazonaws.com/doc/2006-03-01/"

/* ---- writer ---------------------------------------------------------------------------------- */

/*
 * A growing text with a bound. Errors stick: check once, at the end, with s3_xml_take() or error.
 * owner: one thread.
 */
struct s3_xml {
        char *buf; /* malloc'ed */
        size_t len, cap;
        size_t limit; /* bytes it may grow to */
        int error;    /* 0, -ENOMEM, -ENOBUFS (limit) */
};

void s3_xml_init(struct s3_xml *xml, size_t limit);
void s3_xml_free(struct s3_xml *xml);
void s3_xml_declaration(struct s3_xml *xml);             /* <?xml version="1.0" encoding="UTF-8"?>\n */
void s3_xml_root(struct s3_xml *xml, const char *name);  /* <name xmlns="http://s3.amazonaws.com/..."> */
void s3_xml_open(struct s3_xml *xml, const char *name);  /* <name> */
void s3_xml_close(struct s3_xml *xml, const char *name); /* </name> */
/*
 * <name>escaped text</name>. Control characters are written as &#xN; as AWS does; bytes that are
 * not UTF-8 as U+FFFD.
 */
void s3_xml_text(struct s3_xml *xml, const char *name, struct s3_str text);
void s3_xml_textz(struct s3_xml *xml, const char *name, const char *text);
void s3_xml_uint(struct s3_xml *xml, const char *name, uint64_t value);
void s3_xml_bool(struct s3_xml *xml, const char *name, bool value);
void s3_xml_date(struct s3_xml *xml, const char *name, int64_t ms); /* 2013-05-24T00:00:00.000Z */
/*
 * A key, prefix or delimiter: percent-encoded first where the client asked for encoding-type=url.
 */
void s3_xml_key(struct s3_xml *xml, const char *name, struct s3_str key, bool url_encoded);
void s3_xml_escaped(struct s3_xml *xml, struct s3_str text); /* text without an element */
void s3_xml_raw(struct s3_xml *xml, struct s3_str markup);   /* as it is */
/* Hands the text over (the caller frees it) and empties the writer; 0 or the error that stuck. */
int s3_xml_take(struct s3_xml *xml, char **text, size_t *len);

/*
 * An <Error> document: request_id, resource may be NULL; extra (may be absent) is markup put before
 * </Error>.
 */
void s3_xml_error(struct s3_xml *xml, enum s3_error error, const char *message, struct s3_str resource,
                  const char *request_id, struct s3_str extra);

/* ---- bounded reader -------------------------------------------------------------------------- */

#define S3_XML_DEPTH_MAX 16u
#define S3_XML_ATTRIBUTES_MAX 32u   /* of one element, declarations of namespaces included; 16 KiB with the element's name */
#define S3_XML_TEXT_MAX  8192u      /* decoded text of one element */
#define S3_XML_BODY_MAX  (8u << 20) /* a document in all: 1,000 keys of 1,024 bytes, each byte an entity */

/*
 * Events of a document, any namespace prefix taken off. text is the element's own text, entities
 * resolved, not trimmed; "" for elements with children. depth of the root is 0. A nonzero return
 * ends the reading with that result.
 */
struct s3_xml_events {
        enum s3_error (*open)(void *arg, unsigned depth, struct s3_str name);
        enum s3_error (*close)(void *arg, unsigned depth, struct s3_str name, struct s3_str text);
};

struct s3_xml_reader; /* push parser: no DTD, no entities but the five, no network */

/* 0, -ENOMEM. body_max 0: S3_XML_BODY_MAX. */
int s3_xml_reader_new(const struct s3_xml_events *events, void *arg, size_t body_max, struct s3_xml_reader **out);
void s3_xml_reader_free(struct s3_xml_reader *reader); /* NULL is allowed */
/*
 * Fragments of any size; events and errors may come with a later fragment or at the end.
 * MALFORMED_XML, MAX_MESSAGE_LENGTH, what a callback returned. Errors are final.
 */
enum s3_error s3_xml_reader_feed(struct s3_xml_reader *reader, const void *data, size_t len);
enum s3_error s3_xml_reader_finish(struct s3_xml_reader *reader);

/* ---- documents of requests ------------------------------------------------------------------- */

#define S3_PARTS_MAX  10000u
#define S3_DELETE_MAX 1000u

enum s3_doc_kind {
        S3_DOC_COMPLETE_UPLOAD,
        S3_DOC_DELETE,
        S3_DOC_CREATE_BUCKET,
        S3_DOC_CONFIG,          /* any other: its elements are counted, and those that have text are kept */
        S3_DOC_VERSIONING,      /* VersioningConfiguration */
        S3_DOC_OBJECT_TAGGING,  /* Tagging, of an object */
        S3_DOC_BUCKET_TAGGING,  /* Tagging, of a bucket: more tags */
        S3_DOC_LOCK_CONFIG,     /* ObjectLockConfiguration */
        S3_DOC_RETENTION,       /* Retention */
        S3_DOC_LEGAL_HOLD,      /* LegalHold */
        S3_DOC_LIFECYCLE,       /* LifecycleConfiguration */
        S3_DOC_CORS,            /* CORSConfiguration; this and the following are kept as they were read */
        S3_DOC_WEBSITE,         /* WebsiteConfiguration */
        S3_DOC_LOGGING,         /* BucketLoggingStatus */
        S3_DOC_OWNERSHIP,       /* OwnershipControls */
        S3_DOC_PUBLIC_ACCESS,   /* PublicAccessBlockConfiguration */
        S3_DOC_REQUEST_PAYMENT, /* RequestPaymentConfiguration */
        S3_DOC_ACCELERATE,      /* AccelerateConfiguration */
        S3_DOC_INVENTORY,       /* InventoryConfiguration */
        S3_DOC_METRICS,         /* MetricsConfiguration */
        S3_DOC_ANALYTICS,       /* AnalyticsConfiguration */
        S3_DOC_TIERING,         /* IntelligentTieringConfiguration */
        S3_DOC_NOTIFICATION,    /* NotificationConfiguration: an empty one, others are NOT_IMPLEMENTED */
        S3_DOC_ACL,             /* AccessControlPolicy; its form's errors are MALFORMED_ACL */
        S3_DOC_KINDS
};
#define S3_DOC_LEAVES_MAX 16u

struct s3_complete_part {
        uint16_t number;       /* 1..10,000, ascending */
        bool etag_known;       /* false: the text was no ETag of ours, so it matches no part */
        struct s3_str etag;    /* that text; absent where the ETag is known */
        uint16_t checksum_mask; /* S3_CHECKSUM_BITs given */
        uint8_t md5[16];
        const uint8_t *checksum[S3_CHECKSUM_KINDS]; /* values where given */
};

struct s3_delete_object {
        struct s3_str key;        /* 1..1,024 bytes of UTF-8 */
        struct s3_str version_id; /* absent if not given */
        struct s3_str etag;       /* condition, as given; absent if not given */
        bool has_time, has_size;  /* conditions */
        int64_t time_ms;
        uint64_t size;
};

/* A document being read or read. Pointers hold until s3_doc_free(). owner: one request. */
struct s3_doc {
        enum s3_doc_kind kind;
        const char *message;            /* after an error: fits better than its default, or NULL */
        struct s3_complete_part *parts; /* COMPLETE_UPLOAD */
        unsigned part_count;
        struct s3_delete_object *objects; /* DELETE */
        unsigned object_count;
        bool quiet;
        struct s3_str location; /* CREATE_BUCKET: LocationConstraint; absent if not given */
        bool empty;             /* CONFIG: the body was */
        unsigned elements;      /* CONFIG: all but the root */
        unsigned leaf_count;    /* CONFIG: of those with text, at most S3_DOC_LEAVES_MAX; there may be more */
        struct s3_header leaf[S3_DOC_LEAVES_MAX];
        enum s3_versioning versioning;     /* VERSIONING: ENABLED or SUSPENDED */
        struct s3_tags tags;               /* OBJECT_TAGGING, BUCKET_TAGGING, CREATE_BUCKET: within the limits, no key twice */
        struct s3_lock_config lock_config; /* LOCK_CONFIG */
        struct s3_retention retention;     /* RETENTION: mode NONE asks to remove it */
        bool legal_hold;                   /* LEGAL_HOLD */
        struct s3_lifecycle *lifecycle;    /* LIFECYCLE: the document's; s3_doc_take_lifecycle() */
        struct s3_config *config;          /* kinds from CORS on: the document's; s3_doc_take_config() */
        struct s3_doc_private *priv;
};

int s3_doc_new(enum s3_doc_kind kind, struct s3_doc **out); /* -ENOMEM */
void s3_doc_free(struct s3_doc *doc);                       /* NULL is allowed */
size_t s3_doc_bytes_max(const struct s3_doc *doc);          /* of a body: a longer one is MAX_MESSAGE_LENGTH */
/*
 * Fragments of any size, then finish. MALFORMED_XML, INVALID_PART_ORDER, INVALID_ARGUMENT,
 * INVALID_REQUEST, INVALID_TAG, BAD_REQUEST (too many tags), ILLEGAL_VERSIONING, KEY_TOO_LONG,
 * NOT_IMPLEMENTED, MAX_MESSAGE_LENGTH, INTERNAL_ERROR (no memory). An empty body is fine for
 * CREATE_BUCKET, CONFIG and ACL only; the kinds after CONFIG answer MISSING_REQUEST_BODY. What those
 * kinds fill holds only after s3_doc_finish() has returned S3_OK.
 */
enum s3_error s3_doc_feed(struct s3_doc *doc, const void *data, size_t len);
enum s3_error s3_doc_finish(struct s3_doc *doc);
/*
 * A document that is there in one piece, as a store keeps configurations: new, feed and finish in
 * one. Rules that such a one may be older than are not applied. *out is set unless the memory for it
 * was lacking, and is the caller's to free, after an error as well: it has the message.
 */
enum s3_error s3_doc_read(enum s3_doc_kind kind, struct s3_str text, struct s3_doc **out);
/*
 * Hands over the lifecycle that was read, which holds beyond s3_doc_free(); the caller frees it by
 * s3_lifecycle_free(). NULL: there is none, or it was taken.
 */
struct s3_lifecycle *s3_doc_take_lifecycle(struct s3_doc *doc);
/* The same for a configuration that is kept as it was read; the caller frees it by s3_config_free(). */
struct s3_config *s3_doc_take_config(struct s3_doc *doc);

/* ---- documents of answers -------------------------------------------------------------------- */

/* An element Deleted of DeleteResult. Strings are absent where the element lacks them. */
struct s3_deleted {
        struct s3_str key;
        struct s3_str version_id;        /* as the request named it */
        bool marker;                     /* a delete marker was made, or is what was deleted */
        struct s3_str marker_version_id; /* the id of that marker */
};
void s3_deleted_write(struct s3_xml *xml, const struct s3_deleted *deleted);

/* What GET answers; each is a whole document, but for the declaration. */
void s3_versioning_write(struct s3_xml *xml, enum s3_versioning versioning);
void s3_tags_write(struct s3_xml *xml, const struct s3_tags *tags);
void s3_lock_config_write(struct s3_xml *xml, const struct s3_lock_config *config);
void s3_retention_write(struct s3_xml *xml, const struct s3_retention *retention);
void s3_legal_hold_write(struct s3_xml *xml, bool on);
/*
 * Rules that were read are written as they were meant: reading the text gives equal rules. Those
 * with a transition cannot be written: it is left out (see struct s3_lifecycle).
 */
void s3_lifecycle_write(struct s3_xml *xml, const struct s3_lifecycle *lifecycle);

#endif
