/*
 * sdk_request.h - a request as a real client sent it to a listener that wrote down what came:
 * signed with the credentials of sigv4_fixture.h, headers that are neither signed nor x-amz- left
 * out, HTTP's own chunking taken off the body.
 */
#ifndef MILLRACE_TEST_S3_SDK_REQUEST_H
#define MILLRACE_TEST_S3_SDK_REQUEST_H

#include "s3.h"

struct sdk_request {
        const char *client, *method, *target, *headers;
        struct s3_str body;
};

#define BODY(text) {text, sizeof(text) - 1}

#endif
