/* object_info.h - what answers say of an object. Private to client/. */
#ifndef CLIENT_OBJECT_INFO_H
#define CLIENT_OBJECT_INFO_H

#include "client/http/client_request.h"

/* Without quotes; NULL gives "". */
void mr_etag_copy(char *out, size_t size, const char *etag);
/* For If-Match: in quotes, which are kept where they are there. */
void mr_etag_quote(char out[100], const char *etag);
/*
 * Size, time, ETag and checksum of a HEAD's or a whole GET's answer; headers are left out. -EPROTO:
 * no Content-Length.
 */
int mr_info_of_answer(const struct mr_response *response, struct mr_object_info *out);
void mr_checksum_of_answer(const struct mr_response *response, struct mr_object_info *out);

#endif
