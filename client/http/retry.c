/*
 * retry.c - the retry policy. client_request.c asks it after each attempt that failed, on the loop
 * that made it. Retries are bounded twice (I9): by the settings' `attempts`, and by a ceiling for
 * each wait.
 */
#include "client/http/retry.h"

#include <curl/curl.h>
#include <stddef.h>
#include <string.h>

#define WAIT_MAX_MS 20000u

/*
 * Failures of the way to the server. Certificates, unreadable URLs and the like would fail again.
 */
static bool connection_may_recover(int curl_code)
{
        switch (curl_code) {
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_CONNECT:
        case CURLE_PARTIAL_FILE:
        case CURLE_OPERATION_TIMEDOUT:
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_GOT_NOTHING:
        case CURLE_SEND_ERROR:
        case CURLE_RECV_ERROR:
                return true;
        default:
                return false;
        }
}

/*
 * A damaged body (…Digest, …Mismatch) is read again from its source and sent again.
 * RequestTimeTooSkewed is not here: the clock will be as wrong the next time.
 */
static const struct {
        const char *code;
        enum mr_retry class;
} by_code[] = {
        {"SlowDown", MR_RETRY_SLOWER},
        {"ServiceUnavailable", MR_RETRY_SLOWER},
        {"TooManyRequests", MR_RETRY_SLOWER},
        {"InternalError", MR_RETRY_SOON},
        {"RequestTimeout", MR_RETRY_SOON},
        {"IncompleteBody", MR_RETRY_SOON},
        {"BadDigest", MR_RETRY_SOON},
        {"XAmzContentSHA256Mismatch", MR_RETRY_SOON},
        {"XAmzContentChecksumMismatch", MR_RETRY_SOON},
        {"OperationAborted", MR_RETRY_SOON},
        {"ConditionalRequestConflict", MR_RETRY_SOON},
        {"ExpiredToken", MR_RETRY_CREDENTIALS},
        {"ExpiredTokenException", MR_RETRY_CREDENTIALS},
        {"TokenRefreshRequired", MR_RETRY_CREDENTIALS},
        {"InvalidToken", MR_RETRY_CREDENTIALS},
        {"InsufficientStorage", MR_RETRY_NO},
        {"XMinioStorageFull", MR_RETRY_NO},
        {"NotImplemented", MR_RETRY_NO},
};

enum mr_retry mr_retry_class(int curl_code, int status, const char *s3_code)
{
        if (curl_code != CURLE_OK)
                return connection_may_recover(curl_code) ? MR_RETRY_SOON : MR_RETRY_NO;
        for (size_t i = 0; i < sizeof(by_code) / sizeof(by_code[0]); i++)
                if (strcmp(by_code[i].code, s3_code) == 0)
                        return by_code[i].class;
        switch (status) {
        case 429:
        case 503:
                return MR_RETRY_SLOWER;
        case 408:
        case 500:
        case 502:
        case 504:
                return MR_RETRY_SOON;
        default:
                return MR_RETRY_NO;
        }
}

/*
 * 503 says "less, please" or "not at all": the first comes of an endpoint that works. A 500 may be
 * the object's fault.
 */
enum mr_endpoint_end mr_retry_endpoint(int curl_code, int status, const char *s3_code)
{
        if (curl_code == CURLE_PEER_FAILED_VERIFICATION || connection_may_recover(curl_code))
                return MR_ENDPOINT_FAILED;
        if (curl_code != CURLE_OK || status == 0)
                return MR_ENDPOINT_UNKNOWN;
        if (status == 502 || status == 504)
                return MR_ENDPOINT_FAILED;
        if (status == 503 && strcmp(s3_code, "SlowDown") != 0 && strcmp(s3_code, "TooManyRequests") != 0)
                return MR_ENDPOINT_FAILED;
        return MR_ENDPOINT_WORKS;
}

uint32_t mr_retry_delay_ms(enum mr_retry class, unsigned next, uint32_t random, uint32_t retry_after_s)
{
        uint32_t floor = class == MR_RETRY_SLOWER ? 200 : 20;
        uint32_t ceiling = class == MR_RETRY_SLOWER ? 1000 : 100;

        for (unsigned i = 2; i < next && ceiling < WAIT_MAX_MS; i++)
                ceiling *= 2;
        if (ceiling > WAIT_MAX_MS)
                ceiling = WAIT_MAX_MS;
        if (retry_after_s != 0) {
                floor = retry_after_s < WAIT_MAX_MS / 1000 ? retry_after_s * 1000 : WAIT_MAX_MS;
                if (ceiling < floor)
                        ceiling = floor;
        }
        return floor + (uint32_t)((uint64_t)random * (ceiling - floor) >> 32);
}
