/*
 * sigv4_fixture.h - requests as tests write them: a method, a target and header lines, all as on
 * the wire.
 */
#ifndef MILLRACE_TEST_S3_SIGV4_FIXTURE_H
#define MILLRACE_TEST_S3_SIGV4_FIXTURE_H

#include "tests/unit/s3/s3_fixture.h"

/* The credentials of AWS's documentation. */
#define ACCESS_KEY "AKIAIOSFODNN7EXAMPLE"
#define SECRET_KEY "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define REGION     "us-east-1"

struct wire {
        struct s3_request request;
        struct s3_header headers[64];
        char text[8192]; /* the header lines the slices point into */
};

/* headers: "Name: value\n" lines. */
static inline void wire_make(struct wire *wire, const char *method, const char *target, const char *headers)
{
        struct s3_target split;
        char *p = wire->text, *end;
        size_t count = 0;

        assert_int_equal(s3_target_split(s3_str_of(target), &split), S3_OK);
        assert_true(strlen(headers) < sizeof(wire->text));
        strcpy(wire->text, headers);
        for (; (end = strchr(p, '\n')) != NULL; p = end + 1) {
                char *colon = memchr(p, ':', (size_t)(end - p));

                assert_non_null(colon);
                assert_true(count < COUNT(wire->headers));
                wire->headers[count].name = (struct s3_str){p, (size_t)(colon - p)};
                colon += colon[1] == ' ' ? 2 : 1;
                wire->headers[count++].value = (struct s3_str){colon, (size_t)(end - colon)};
        }
        wire->request = (struct s3_request){s3_str_of(method), split.path, split.query, wire->headers, count};
}

/*
 * What a server does with a request: parse, derive the key, verify. now_ms 0: the request's own
 * time.
 */
static inline enum s3_auth_reason wire_verify(const struct wire *wire, int64_t now_ms, struct s3_auth *auth)
{
        enum s3_auth_reason reason = s3_auth_parse(&wire->request, auth);
        struct s3_signing_key key;
        struct s3_str secret;

        if (reason != S3_AUTH_OK)
                return reason;
        secret = strcmp(auth->access_key, ACCESS_KEY) == 0 ? S3_STR(SECRET_KEY) : S3_STR("somebody else's");
        s3_signing_key_derive(secret, auth->scope_date, auth->region, auth->service, &key);
        return s3_auth_verify(&wire->request, auth, &key, REGION, now_ms != 0 ? now_ms : auth->time_ms);
}

static inline void expect_reason(enum s3_auth_reason got, enum s3_auth_reason wanted)
{
        if (got != wanted)
                fail_msg("got reason %d (%s), wanted %d (%s)", (int)got, s3_auth_message(got), (int)wanted,
                         s3_auth_message(wanted));
}

#endif
