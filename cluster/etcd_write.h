/*
 * etcd_write.h - what is sent to etcd: JSON of its gateway, version 3.
 */
#ifndef MILLRACE_CLUSTER_ETCD_WRITE_H
#define MILLRACE_CLUSTER_ETCD_WRITE_H

#include "cluster_etcd.h"

/* The part of a CL_RANGE that is asked for at once. */
struct etcd_page {
        struct cl_bytes after; /* the last key that is known; len 0: none */
        int64_t revision;      /* 0: now */
        unsigned limit;
};

/* Text that the caller frees, and its length; NULL: no memory. Any thread. */
char *etcd_write_range(const struct cl_request *request, const struct etcd_page *page, size_t *len);
char *etcd_write_txn(const struct cl_request *request, size_t *len);
char *etcd_write_login(const char *user, const char *password, size_t *len);

/*
 * The first key behind all that begin with a prefix, into end[CL_KEY_MAX]: its length. There is none behind 0xff 0xff ..: one 0
 * byte, which is etcd's word for that.
 */
size_t etcd_prefix_end(struct cl_bytes prefix, uint8_t *end);

#endif
