/*
 * cors_answer.h - requests of other sites' pages (CORS): what a browser asks beforehand, and what it
 * has to find in an answer.
 */
#ifndef GATEWAY_S3_CORS_ANSWER_H
#define GATEWAY_S3_CORS_ANSWER_H

#include "gateway/http/http_request.h"

/* Answers an OPTIONS request, which needs no signature, and whose bucket and key are known. */
void gw_cors_preflight(struct gw_request *req);
/*
 * The answer, whatever it is, is about to be queued: adds headers if the request has an Origin, and a
 * rule of its bucket allows it.
 */
void gw_cors_headers(struct gw_request *req);

#endif
