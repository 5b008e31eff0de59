/* page.h - pages of listings. Private to client/. */
#ifndef CLIENT_PAGE_H
#define CLIENT_PAGE_H

#include "client.h"

struct mr_target;

#define MR_VERSION_ID_MAX 1024 /* with its NUL; AWS's bound of an id */

/*
 * Reads a ListBucketResult or, with versions, a ListVersionsResult. -EPROTO, -ENOMEM; -ENODATA: it
 * is truncated and does not say where it goes on.
 */
int mr_page_read(const char *body, size_t len, bool versions, struct mr_page **out);
/*
 * Where a listing of versions goes on is two markers, which its token holds: the version's id, a
 * space, the key. Sets *key into the token and copies the id, "" where there is none. -EINVAL: no
 * such token.
 */
int mr_page_markers(const char *token, char id[MR_VERSION_ID_MAX], const char **key);
/* mr_list_start(), for whoever waits (operation_small.c). what: struct mr_list */
int mr_list_begin(struct mr_client *client, const void *what, const struct mr_target *target);

/* A percent-encoded name, in place. -EPROTO: it is not one, or holds a NUL. */
int mr_name_decode(char *text);
/* Of a date in ISO 8601; 0 where it is none. */
int64_t mr_seconds_of(const char *iso);

#endif
