/*
 * s3_date.h - the date formats of S3 and HTTP. Times are milliseconds since 1970 UTC; no locale, no
 * time zone, no libc state. See s3.h for the rules of this module.
 */
#ifndef MILLRACE_S3_DATE_H
#define MILLRACE_S3_DATE_H

#include "s3_base.h"

#define S3_DATE_AMZ_SIZE     17 /* 20130524T000000Z and NUL */
#define S3_DATE_ISO_SIZE     25 /* 2013-05-24T00:00:00.000Z and NUL */
#define S3_DATE_SECONDS_SIZE 21 /* 2013-05-24T00:00:00Z and NUL */
#define S3_DATE_HTTP_SIZE    30 /* Fri, 24 May 2013 00:00:00 GMT and NUL */

/* Writers: years 1970 to 9999; times outside are clamped. Return the length without NUL. */
size_t s3_date_format_amz(int64_t ms, char out[S3_DATE_AMZ_SIZE]);
size_t s3_date_format_iso(int64_t ms, char out[S3_DATE_ISO_SIZE]);
size_t s3_date_format_seconds(int64_t ms, char out[S3_DATE_SECONDS_SIZE]);
size_t s3_date_format_http(int64_t ms, char out[S3_DATE_HTTP_SIZE]);

/* Parsers: the whole string must be a date. 0 or -EINVAL. */
int s3_date_parse_amz(struct s3_str s, int64_t *ms);  /* 20130524T000000Z */
int s3_date_parse_iso(struct s3_str s, int64_t *ms);  /* 2013-05-24T00:00:00[.123][Z|+hh:mm] */
int s3_date_parse_http(struct s3_str s, int64_t *ms); /* RFC 1123 (also with +0000 or UTC), RFC 850, asctime */

/*
 * The same moment so many years later; March 1 where the year has no February 29. Clamped like the
 * writers.
 */
int64_t s3_date_add_years(int64_t ms, unsigned years);

#endif
