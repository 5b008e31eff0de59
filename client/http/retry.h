/* retry.h - which failures are tried again, and when. Pure; any thread. */
#ifndef CLIENT_RETRY_H
#define CLIENT_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/endpoints.h"

enum mr_retry {
        MR_RETRY_NO,
        MR_RETRY_SOON,       /* something broke: the next attempt will likely pass */
        MR_RETRY_SLOWER,     /* the server asked for less */
        MR_RETRY_CREDENTIALS /* they expired: worth it with others */
};

/* curl_code: the CURLcode; status and s3_code: of the answer, 0 and "" where there was none. */
enum mr_retry mr_retry_class(int curl_code, int status, const char *s3_code);

/* What the same says about the endpoint. */
enum mr_endpoint_end mr_retry_endpoint(int curl_code, int status, const char *s3_code);

/*
 * Milliseconds to wait before attempt number next (2 is the first repetition). random is 32 random
 * bits; retry_after_s what the answer asked for, or 0. Full jitter: uniform between a floor and a
 * ceiling that doubles, at most 20 s.
 */
uint32_t mr_retry_delay_ms(enum mr_retry class, unsigned next, uint32_t random, uint32_t retry_after_s);

#endif
