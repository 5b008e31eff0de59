/*
 * ec_gzip.h - writing gzip (RFC 1952) by ISA-L. One writer is used by one thread at a time.
 */
#ifndef MILLRACE_EC_GZIP_H
#define MILLRACE_EC_GZIP_H

#include <stddef.h>
#include <stdint.h>

struct era_gzip;

/* More than what the compressor holds back: room that era_gzip_end() may need. */
#define ERA_GZIP_SLACK (512u << 10)

/* Writes into `out`, which stays the caller's. -ENOMEM. */
int era_gzip_new(struct era_gzip **out);
void era_gzip_free(struct era_gzip *gzip); /* NULL is allowed */
/* A new file begins. */
void era_gzip_begin(struct era_gzip *gzip, void *out, size_t cap);
/* 0, or -ENOBUFS: there was no room for it, and the file is of no use. */
int era_gzip_write(struct era_gzip *gzip, const void *data, uint32_t len);
int era_gzip_end(struct era_gzip *gzip);
/* Bytes written so far. */
size_t era_gzip_len(const struct era_gzip *gzip);

#endif
