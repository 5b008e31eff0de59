/*
 * error_page.h - errors as pages for browsers, which websites answer instead of XML (W9 in
 * docs/design/website.md).
 */
#ifndef GATEWAY_HTTP_ERROR_PAGE_H
#define GATEWAY_HTTP_ERROR_PAGE_H

#include "gateway/http/http_request.h"

/*
 * The page of an error; the caller frees it. message NULL: the usual one; extra: what the XML form
 * has beside code and message, or NULL. -ENOMEM, -ENOBUFS.
 */
int gw_error_page(struct gw_request *req, enum s3_error error, const char *message, const char *extra, char **text,
                  size_t *len);
/* x-amz-error-code and x-amz-error-message. */
void gw_error_page_headers(struct gw_request *req, enum s3_error error, const char *message);

#endif
