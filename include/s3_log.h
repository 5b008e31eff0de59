/*
 * s3_log.h - records of a bucket's access log, and names of the objects that hold them, in AWS's
 * format. See s3.h for the rules of this module.
 */
#ifndef MILLRACE_S3_LOG_H
#define MILLRACE_S3_LOG_H

#include <sys/types.h>

#include "s3_base.h"

/* What one request was. Texts that are absent or empty are "-". */
struct s3_log_facts {
        struct s3_str owner, bucket, remote, requester, request_id, operation, key, method, target, error_code, referer,
                user_agent, version_id, host_id, signature, cipher, auth_type, host, tls;
        int64_t time_ms;
        bool http10, acl_required;
        unsigned status;                /* 0: none was sent */
        uint64_t bytes_sent;
        bool has_size;
        uint64_t object_size;
        uint64_t total_ms, turn_ms;
};

#define S3_LOG_FIELD_MAX  (8u << 10) /* bytes of a field in quotes that are looked at */
#define S3_LOG_RECORD_MAX (80u << 10)

/* The record with its line feed; its length. -ENOBUFS. */
ssize_t s3_log_record(const struct s3_log_facts *facts, char *out, size_t cap);

/* How names of objects are made. */
struct s3_log_name {
        struct s3_str prefix;
        bool partitioned;
        bool by_event;                  /* partitions are days of events, else of deliveries */
        struct s3_str account, region, bucket; /* of the source */
        int64_t event_ms, delivery_ms;
        uint64_t unique;
};

#define S3_LOG_NAME_SIZE 1536u
/* Its length, without the NUL. -ENOBUFS. */
ssize_t s3_log_name(const struct s3_log_name *name, char *out, size_t cap);

#endif
