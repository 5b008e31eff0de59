/* attempt.h - one attempt of a request. Private to client_request.c, attempt.c. */
#ifndef CLIENT_ATTEMPT_H
#define CLIENT_ATTEMPT_H

#include "client/http/compose.h"

/* owner: the thread that has the request */
struct mr_attempt {
        struct mr_composed wire;
        uint64_t sent; /* of the body */
        int rv;        /* an errno of ours that ended the transfer, found again when curl returns */
        char curl_text[CURL_ERROR_SIZE];
};

/* What curl's code means where there was no answer: fills err, returns err->code. */
int mr_attempt_failure(const struct mr_attempt *attempt, CURLcode code, struct mr_error *err);

#endif
