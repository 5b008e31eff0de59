/* page.h - pages of listings. Private to client/. */
#ifndef CLIENT_PAGE_H
#define CLIENT_PAGE_H

#include "client.h"

struct mr_target;

/*
 * Reads a ListBucketResult. -EPROTO, -ENOMEM; -ENODATA: it is truncated and does not say where it
 * goes on.
 */
int mr_page_read(const char *body, size_t len, struct mr_page **out);
/* mr_list_start(), for whoever waits (operation_small.c). what: struct mr_list */
int mr_list_begin(struct mr_client *client, const void *what, const struct mr_target *target);

/* A percent-encoded name, in place. -EPROTO: it is not one, or holds a NUL. */
int mr_name_decode(char *text);
/* Of a date in ISO 8601; 0 where it is none. */
int64_t mr_seconds_of(const char *iso);

#endif
