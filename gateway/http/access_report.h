/*
 * access_report.h - one finished request to the counters and the access log.
 */
#ifndef GATEWAY_HTTP_ACCESS_REPORT_H
#define GATEWAY_HTTP_ACCESS_REPORT_H

#include "gateway/http/http_request.h"

/* complete: the library sent the whole answer. */
void gw_access_report(struct gw_request *req, bool complete);

#endif
