/*
 * operation.h - what the HTTP side knows of the operations above it: a table of them, and the few
 * calls by which it reaches what it must not name.
 */
#ifndef GATEWAY_HTTP_OPERATION_H
#define GATEWAY_HTTP_OPERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "s3.h"

struct eng_store;
struct gw_gateway;
struct gw_loop;
struct gw_credential;
struct gw_request;
struct gw_temporary;
struct gw_ask;

/* How a request ended. */
struct gw_ended {
        unsigned status;        /* that went out; 0: none did */
        const char *error_code; /* NULL: no error */
        uint64_t total_us, first_byte_us;
};

enum gw_scope {
        GW_SERVICE,
        GW_BUCKET,
        GW_OBJECT,
        GW_RESERVED /* a path below /_millrace/, which no bucket can have */
};

enum gw_body_kind {
        GW_BODY_NONE, /* what comes is checked and dropped */
        GW_BODY_XML,
        GW_BODY_DATA, /* an object's bytes */
        GW_BODY_KEPT, /* kept as it is, up to GW_KEPT_MAX */
        GW_BODY_FORM  /* a browser's form, with an object's bytes in it */
};

/* A right that an operation needs beside its own. */
struct gw_right {
        const char *header;     /* where the request has this one; NULL: always */
        const char *permission; /* as IAM names it; NULL ends a list */
        const char *of_version; /* instead, where the request names a version; NULL: the same */
        bool flag;              /* the header is true or false, and asks for nothing where it is false */
        bool any;               /* it asks for nothing where it is "*", which any object fits */
};

/* One S3 operation. */
struct gw_op {
        const char *name;
        const char *method;
        enum gw_scope scope;
        const char *sub;    /* query parameter that selects it, or NULL */
        const char *path;   /* GW_RESERVED: behind the reserved name, all below it if it ends in a slash; else NULL */
        const char *header; /* header that selects it, or NULL */
        enum gw_body_kind body;
        bool no_bucket;         /* the bucket need not exist */
        bool sends_object;      /* answers with an object's bytes, which RDMA can carry */
        bool sums_of_result;    /* checksums in its headers are of the object that it makes, not of its body */
        bool object_decides;    /* of an object, whose tags, owner and ACL may decide: it answers by gw_version_found() (P20) */
        bool ends_session;      /* an RDMA session's own key may ask for it */
        const char *permission; /* the right it needs, as IAM names it: gw_permit() */
        /*
         * Of an object: instead, where the request names a version; NULL: it takes no versionId. Of a
         * bucket: what keys of its body with a version need; that a request may have one of the two
         * lets it in.
         */
        const char *of_version;
        const struct gw_right *more; /* NULL: none */
        void (*begin)(struct gw_request *req); /* before the body is read; may answer (refuse); may be NULL */
        bool (*fields)(struct gw_request *req); /* of a form: all but the file is in; false: answered (refused) */
        void (*run)(struct gw_request *req);   /* all is in: answers, now or later */
        enum s3_error arg; /* what the answer of a never-set configuration is; S3_OK: see the handler */
};

/* Counted for requests that never came to an operation. */
extern const struct gw_op gw_op_none;

/* What a gateway serves. Constant; functions are called on the loop concerned unless said. */
struct gw_service {
        const struct gw_op *ops;
        const unsigned *op_count;
        const struct gw_op *const *others; /* not of S3, which no route leads to; NULL ends them; NULL: there are none */
        /*
         * The head is in. Leaves the request with its operation, or with an answer ready (refused).
         */
        void (*accept)(struct gw_request *req, const char *method, const char *version);
        /* The answer is about to be queued: adds headers that belong to every answer. */
        void (*last_headers)(struct gw_request *req);
        /* Any thread: the user with this key is gone, or has another secret. */
        void (*credential_gone)(struct gw_gateway *gw, const char *access_key);
        /*
         * Who signs with this access key, beside those that gw_credentials_set() named. False: nobody. NULL:
         * there is nobody else.
         */
        bool (*signer)(struct gw_loop *loop, const char *access_key, struct gw_credential *out);
        /*
         * What policies say to a question (permit.h), of root's key or any other. why: as for gw_permit(). NULL:
         * root may do everything, and others nothing.
         */
        bool (*permits)(const struct gw_ask *ask, bool root, char *why);
        /* Gives a reference back. Not NULL where requests have temporary credentials. */
        void (*temporary_put)(struct gw_temporary *temporary);
        /* RestrictPublicBuckets is on for the bucket. */
        bool (*restricts_public)(struct eng_store *store, uint64_t bucket);
        /* A request is over. NULL: nobody wants to know. */
        void (*ended)(struct gw_request *req, const struct gw_ended *end);
        /* ACLs count in the bucket: it has another ownership than BucketOwnerEnforced. */
        bool (*takes_acls)(struct eng_store *store, uint64_t bucket);
        /* IgnorePublicAcls is on for the bucket. */
        bool (*ignores_public_acls)(struct eng_store *store, uint64_t bucket);
        /* The loops have stopped: frees what the service keeps with a loop. */
        void (*loop_end)(struct gw_loop *loop);
};

/*
 * Number of an operation: in its service's table; gw_op_none, and what is in neither list, has that behind the last;
 * then come the service's others.
 */
unsigned gw_op_index(const struct gw_service *service, const struct gw_op *op);
/* How many there are, gw_op_none included. */
unsigned gw_op_numbers(const struct gw_service *service);
/* And back. */
const struct gw_op *gw_op_at(const struct gw_service *service, unsigned index);

#endif
