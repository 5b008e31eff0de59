/*
 * s3.h - the pure pieces of the S3 protocol, for servers and clients alike.
 *
 * No I/O, no threads, no sockets, no HTTP library: functions over values and caller-owned buffers.
 * Any thread may call them; one object is used by one thread at a time. Nothing here keeps a
 * pointer to its input after returning unless its comment says so.
 *
 * Two kinds of results: functions whose failure is an answer to an S3 client return `enum s3_error`
 * (S3_OK is 0); the others return 0 or a negative errno.
 */
#ifndef MILLRACE_S3_H
#define MILLRACE_S3_H

#include "s3_base.h"      /* strings, the table of errors, bucket names */
#include "s3_uri.h"       /* request targets, buckets and keys, query parameters, percent-encoding */
#include "s3_date.h"      /* the date formats of S3 and HTTP */
#include "s3_sigv4.h"     /* AWS Signature Version 4: parse, verify, sign, presign */
#include "s3_checksum.h"  /* checksums, ETags, base64, hex */
#include "s3_chunked.h"   /* aws-chunked bodies */
#include "s3_form.h"      /* forms that browsers post */
#include "s3_version.h"   /* versioning, version ids */
#include "s3_tags.h"      /* tags: limits, header, stored form */
#include "s3_lock.h"      /* object lock: default retention, retention, legal hold, headers */
#include "s3_lifecycle.h" /* lifecycle rules, and what they make due */
#include "s3_inventory.h" /* inventory reports: configurations, periods, rows */
#include "s3_log.h"       /* records of access logs */
#include "s3_config.h"    /* configurations that are kept as they were read */
#include "s3_acl.h"       /* access control lists */
#include "s3_cors.h"      /* requests of other sites' pages */
#include "s3_website.h"   /* buckets as websites */
#include "s3_post_policy.h" /* what such a form may upload */
#include "s3_xml.h"       /* XML writing, bounded XML reading, the documents clients send */
#include "s3_request.h"   /* ranges, copy sources, conditions */

#endif
