/*
 * test_sdk.c - what real clients send: their signatures verify, their bodies decode whatever the
 * cuts, their checksums hold, and one altered byte of a body is noticed.
 */
#include "ec.h"
#include "tests/unit/s3/sdk_requests_other.h"
#include "tests/unit/s3/sdk_requests_python.h"
#include "tests/unit/s3/sigv4_fixture.h"

static struct wire wire;
static struct s3_auth auth;

static struct s3_chunked *decoder(void)
{
        struct s3_signing_key key;
        struct s3_chunk_chain chain;
        struct s3_chunked_params params = {.form = auth.payload, .chain = &chain};
        struct s3_chunked *dec;

        s3_signing_key_derive(S3_STR(SECRET_KEY), auth.scope_date, auth.region, auth.service, &key);
        s3_chunk_chain_of_auth(&chain, &auth, &key);
        params.trailers = s3_request_header(&wire.request, "x-amz-trailer");
        assert_int_equal(s3_parse_uint(s3_request_header(&wire.request, "x-amz-decoded-content-length"), UINT64_MAX,
                                       &params.decoded_length),
                         0);
        assert_int_equal(s3_chunked_new(&params, &dec), S3_OK);
        return dec;
}

/* Decodes in pieces of step bytes; the decoded bytes go through sums. */
static enum s3_error decode(struct s3_chunked *dec, struct s3_str body, size_t step, struct s3_sums *sums)
{
        enum s3_error error = S3_OK;

        for (size_t at = 0; at < body.len && error == S3_OK; at += step) {
                struct s3_str in = {body.data + at, step < body.len - at ? step : body.len - at}, data;

                do {
                        error = s3_chunked_next(dec, &in, &data);
                        s3_sums_update(sums, data.data, data.len);
                } while (error == S3_OK && in.len > 0);
        }
        return error == S3_OK ? s3_chunked_finish(dec) : error;
}

static bool trailers_right(struct s3_chunked *dec, struct s3_sums *sums)
{
        bool right = true;

        s3_sums_final(sums);
        for (unsigned i = 0; i < s3_chunked_trailer_count(dec); i++) {
                struct s3_header trailer = s3_chunked_trailer(dec, i);
                uint8_t value[S3_CHECKSUM_MAX];
                enum s3_checksum kind;

                assert_int_equal(s3_checksum_by_header(trailer.name, &kind), 0);
                right = right && s3_checksum_parse(kind, trailer.value, value) == 0 &&
                        memcmp(value, s3_sums_value(sums, kind), s3_checksum_info(kind)->len) == 0;
        }
        return right;
}

static void check_chunked_body(struct s3_str body)
{
        struct s3_sums *sums;

        assert_int_equal(s3_sums_new(S3_CHECKSUM_BIT(S3_CHECKSUM_KINDS) - 1, &sums), 0);
        for (size_t step = 1; step <= body.len; step++) {
                struct s3_chunked *dec = decoder();

                s3_sums_reset(sums);
                assert_int_equal(decode(dec, body, step, sums), S3_OK);
                assert_true(trailers_right(dec, sums));
                s3_chunked_free(dec);
        }
        for (size_t at = 0; at < body.len; at++) {
                struct s3_str altered = heap_copy(body.data, body.len);
                struct s3_chunked *dec = decoder();
                char *byte = (char *)(uintptr_t)(altered.data + at);

                *byte ^= 0x01;
                s3_sums_reset(sums);
                if (decode(dec, altered, body.len, sums) == S3_OK && trailers_right(dec, sums))
                        fail_msg("altered byte %zu of %zu passed", at, body.len);
                s3_chunked_free(dec);
                heap_free(altered);
        }
        s3_sums_free(sums);
}

/* A header such as x-amz-checksum-crc32 holds for a body sent as it is. */
static void check_header_sums(struct s3_str body)
{
        for (size_t i = 0; i < wire.request.header_count; i++) {
                struct s3_sums *sums;
                uint8_t value[S3_CHECKSUM_MAX];
                enum s3_checksum kind;

                if (s3_checksum_by_header(wire.headers[i].name, &kind) != 0)
                        continue;
                assert_int_equal(s3_checksum_parse(kind, wire.headers[i].value, value), 0);
                assert_int_equal(s3_sums_new(S3_CHECKSUM_BIT(kind), &sums), 0);
                s3_sums_update(sums, body.data, body.len);
                s3_sums_final(sums);
                assert_memory_equal(value, s3_sums_value(sums, kind), s3_checksum_info(kind)->len);
                s3_sums_free(sums);
        }
}

static void check_request(const struct sdk_request *sent)
{
        enum s3_auth_reason reason;
        uint8_t digest[ERA_DIGEST_MAX];

        wire_make(&wire, sent->method, sent->target, sent->headers);
        reason = wire_verify(&wire, 0, &auth);
        if (reason != S3_AUTH_OK)
                fail_msg("%s %s %s: %s", sent->client, sent->method, sent->target, s3_auth_message(reason));
        switch (auth.payload) {
        case S3_PAYLOAD_SHA256:
                era_digest_of(ERA_SHA256, sent->body.data, sent->body.len, digest);
                assert_memory_equal(digest, auth.payload_sha256, S3_SHA256_LEN);
                check_header_sums(sent->body);
                break;
        case S3_PAYLOAD_UNSIGNED:
                check_header_sums(sent->body);
                break;
        case S3_PAYLOAD_SIGNED:
        case S3_PAYLOAD_SIGNED_TRAILER:
        case S3_PAYLOAD_UNSIGNED_TRAILER:
                check_chunked_body(sent->body);
                break;
        }
}

static void test_python_clients(void **state)
{
        for (size_t i = 0; i < COUNT(python_requests); i++)
                check_request(&python_requests[i]);
}

static void test_other_clients(void **state)
{
        for (size_t i = 0; i < COUNT(other_requests); i++)
                check_request(&other_requests[i]);
}

/* Bodies that are XML documents of requests can be read. */
static void test_documents(void **state)
{
        unsigned documents = 0;

        for (size_t i = 0; i < COUNT(python_requests) + COUNT(other_requests); i++) {
                const struct sdk_request *sent =
                        i < COUNT(python_requests) ? &python_requests[i] : &other_requests[i - COUNT(python_requests)];
                struct s3_target target;
                enum s3_doc_kind kind;
                struct s3_doc *doc;

                assert_int_equal(s3_target_split(s3_str_of(sent->target), &target), S3_OK);
                if (strcmp(sent->method, "POST") != 0 || sent->body.len == 0)
                        continue;
                kind = s3_str_starts(target.query, S3_STR("delete")) ? S3_DOC_DELETE : S3_DOC_COMPLETE_UPLOAD;
                assert_int_equal(s3_doc_new(kind, &doc), 0);
                assert_int_equal(s3_doc_feed(doc, sent->body.data, sent->body.len), S3_OK);
                assert_int_equal(s3_doc_finish(doc), S3_OK);
                assert_true(doc->part_count + doc->object_count > 0);
                s3_doc_free(doc);
                documents++;
        }
        assert_true(documents >= 5);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_python_clients),
                cmocka_unit_test(test_other_clients),
                cmocka_unit_test(test_documents),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
