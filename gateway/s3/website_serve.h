/*
 * website_serve.h - buckets as websites (docs/design/website.md). On the request's loop.
 */
#ifndef GATEWAY_S3_WEBSITE_SERVE_H
#define GATEWAY_S3_WEBSITE_SERVE_H

#include "gateway/http/http_request.h"

/*
 * The host is a website's, by the settings: W1. *bucket is then the name of its bucket, a slice of
 * host whose letters may be of either case, or empty. Pure. website_host.c
 */
bool gw_site_host(const struct gw_gateway *gw, struct s3_str host, struct s3_str *bucket);
/* Bucket and key of a request to such a host, whose path is in req->cut. website_host.c */
enum s3_error gw_site_address(struct gw_request *req, const struct s3_authority *authority, struct s3_str bucket);
/* The head of such a request is in. Leaves it with its operation, or answered. website_serve.c */
void gw_site_accept(struct gw_request *req);

#endif
