/*
 * ops_fixture.h - asking a gateway over the fake engine for one operation, and what its failures
 * must look like. Included by one test program each.
 */
#include "tests/unit/gateway/gateway_fixture.h"

#define ID "00000000000000000000000000000000"

/* Sends a signed request; body NULL: none. */
static void ask(int fd, const char *method, const char *target, const struct s3_header *amz, unsigned amz_count,
                const char *more, const char *body)
{
        char head[8192], lines[1024];

        snprintf(lines, sizeof(lines), "Content-Length: %zu\r\n%s", body != NULL ? strlen(body) : 0,
                 more != NULL ? more : "");
        send_all(fd, head, signed_head(head, sizeof(head), method, target, amz, amz_count, lines));
        if (body != NULL)
                send_text(fd, body);
}

/* Asks and checks status and code. */
static void refused(int fd, const char *method, const char *target, const char *body, unsigned status, const char *code)
{
        ask(fd, method, target, NULL, 0, NULL, body);
        expect(fd, status, code);
}

static void has(const struct answer *a, const char *text)
{
        if (a->body == NULL || strstr(a->body, text) == NULL)
                fail_msg("no %s in %s", text, a->body != NULL ? a->body : a->head);
}

static void has_not(const struct answer *a, const char *text)
{
        assert_non_null(a->body);
        if (strstr(a->body, text) != NULL)
                fail_msg("%s in %s", text, a->body);
}

/* What the engine may say at any time, and how it must look. */
static const struct {
        int rv;
        unsigned status;
        const char *code;
} failures[] = {
        {-EAGAIN, 503, "SlowDown"},
        {-EROFS, 503, "SlowDown"},
        {-ETIMEDOUT, 503, "SlowDown"},
        {-ENOMEM, 503, "SlowDown"},
        {-EHOSTDOWN, 503, "ServiceUnavailable"},
        {-ENOSPC, 507, "InsufficientStorage"},
        {-EIO, 500, "InternalError"},
        {-EPROTO, 500, "InternalError"}, /* never promised: must not look like an answer about the data */
};

#define FAILURES (sizeof(failures) / sizeof(failures[0]))
