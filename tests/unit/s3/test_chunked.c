/*
 * test_chunked.c - s3/chunked.c and s3/chunk_encode.c: AWS's published bodies, every cut, every
 * altered byte, every bound.
 */
#include "ec.h"
#include "tests/unit/s3/sigv4_fixture.h"

#define NOW 1369353600000 /* 2013-05-24T00:00:00Z */

/* ---- helpers --------------------------------------------------------------------------------- */

static struct s3_chunk_chain seed_chain;

/* A chain as after a verified request whose signature was seed. */
static struct s3_chunk_chain chain_of(const char *seed)
{
        struct s3_signer signer;
        struct s3_chunk_chain chain;

        s3_signer_init(&signer, S3_STR(ACCESS_KEY), S3_STR(SECRET_KEY), REGION, NOW);
        assert_int_equal(s3_chunk_chain_of_signer(&chain, &signer, NOW, seed), 0);
        return chain;
}

static struct s3_chunked *make(enum s3_payload form, uint64_t length, const char *trailers)
{
        struct s3_chunked_params params = {.form = form, .decoded_length = length, .trailers = s3_str_of(trailers)};
        struct s3_chunked *dec;

        params.chain = &seed_chain;
        assert_int_equal(s3_chunked_new(&params, &dec), S3_OK);
        return dec;
}

struct out {
        char *data;
        size_t len, cap;
};

/*
 * Feeds a body in two pieces cut at first, then in pieces of step. Every piece lies on the heap by
 * itself.
 */
static enum s3_error run(struct s3_chunked *dec, struct s3_str body, size_t first, size_t step, struct out *out)
{
        enum s3_error error = S3_OK;

        out->len = 0;
        for (size_t at = 0, n = first; at < body.len && error == S3_OK; at += n, n = step) {
                struct s3_str piece, in, data;

                n = n < body.len - at ? n : body.len - at;
                piece = in = heap_copy(body.data + at, n);
                while (in.len > 0 && error == S3_OK) {
                        size_t before = in.len;

                        error = s3_chunked_next(dec, &in, &data);
                        if (error != S3_OK) {
                                assert_int_equal(data.len, 0);
                                break;
                        }
                        assert_true(in.len < before);
                        assert_true(out->len + data.len <= out->cap);
                        if (data.len > 0)
                                memcpy(out->data + out->len, data.data, data.len);
                        out->len += data.len;
                }
                heap_free(piece);
        }
        assert_true(s3_chunked_decoded(dec) == out->len);
        if (error == S3_OK)
                return s3_chunked_finish(dec);
        assert_int_equal(s3_chunked_finish(dec), error);
        assert_true(strlen(s3_chunked_message(dec)) > 0);
        return error;
}

static enum s3_error decode(enum s3_payload form, uint64_t length, const char *trailers, struct s3_str body)
{
        static char data[1 << 20];
        struct out out = {data, 0, sizeof(data)};
        struct s3_chunked *dec = make(form, length, trailers);
        enum s3_error error = run(dec, body, body.len, 1, &out);

        s3_chunked_free(dec);
        return error;
}

static void sha256_of(const void *data, size_t len, uint8_t out[S3_SHA256_LEN])
{
        uint8_t digest[ERA_DIGEST_MAX];

        era_digest_of(ERA_SHA256, data, len, digest);
        memcpy(out, digest, S3_SHA256_LEN);
}

/* Encodes data in chunks of the given size; returns the body (to be freed). */
static struct s3_str encode(enum s3_payload form, const char *data, size_t len, size_t chunk, const char *trailer,
                            const char *value)
{
        bool is_signed = form != S3_PAYLOAD_UNSIGNED_TRAILER;
        struct s3_chunk_chain chain = seed_chain, *use = is_signed ? &chain : NULL;
        size_t trailer_len = trailer != NULL ? strlen(trailer) + strlen(value) : 0, used = 0;
        uint64_t total = s3_chunked_encoded_length(form, len, chunk, trailer_len);
        char *body = malloc(total + 1);
        uint8_t digest[S3_SHA256_LEN];
        int n;

        assert_non_null(body);
        for (size_t at = 0; at < len; at += chunk) {
                size_t part = chunk < len - at ? chunk : len - at;
                char head[S3_CHUNK_HEAD_MAX];
                size_t head_len;

                sha256_of(data + at, part, digest);
                head_len = s3_chunk_head(use, part, digest, head);
                memcpy(body + used, head, head_len);
                memcpy(body + used + head_len, data + at, part);
                memcpy(body + used + head_len + part, "\r\n", 2);
                used += head_len + part + 2;
        }
        n = s3_chunk_tail(use, form == S3_PAYLOAD_SIGNED_TRAILER, trailer, value, body + used, total + 1 - used);
        assert_true(n > 0);
        assert_true(used + (size_t)n == total);
        return (struct s3_str){body, total};
}

/* ---- AWS's examples -------------------------------------------------------------------------- */

#define SEED         "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
#define TRAILER_SEED "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
#define SIG1         "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"
#define SIG2         "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"
#define SIG3         "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"

/* "10000;..." 64 KiB of 'a', "400;..." 1 KiB, the end. */
static struct s3_str published_body(const char *sig1, const char *sig2, const char *tail)
{
        size_t cap = 70000, n;
        char *body = malloc(cap);

        assert_non_null(body);
        n = (size_t)snprintf(body, cap, "10000;chunk-signature=%s\r\n", sig1);
        memset(body + n, 'a', 65536);
        n += 65536;
        n += (size_t)snprintf(body + n, cap - n, "\r\n400;chunk-signature=%s\r\n", sig2);
        memset(body + n, 'a', 1024);
        n += 1024;
        n += (size_t)snprintf(body + n, cap - n, "\r\n%s", tail);
        return (struct s3_str){body, n};
}

static void test_published_signed(void **state)
{
        struct s3_str body = published_body(SIG1, SIG2, "0;chunk-signature=" SIG3 "\r\n\r\n"), encoded;
        static char data[66560];

        seed_chain = chain_of(SEED);
        assert_int_equal(body.len, 66824);
        assert_int_equal(s3_chunked_encoded_length(S3_PAYLOAD_SIGNED, 66560, 65536, 0), 66824);
        assert_int_equal(decode(S3_PAYLOAD_SIGNED, 66560, NULL, body), S3_OK);
        memset(data, 'a', sizeof(data));
        encoded = encode(S3_PAYLOAD_SIGNED, data, sizeof(data), 65536, NULL, NULL);
        assert_int_equal(encoded.len, body.len);
        assert_memory_equal(encoded.data, body.data, body.len);
        heap_free(encoded);
        heap_free(body);
}

/* The seed of the documented request itself. */
static void test_published_seed(void **state)
{
        struct wire wire;
        struct s3_auth auth;
        struct s3_signing_key key;
        struct s3_chunk_chain chain;

        wire_make(&wire, "PUT", "/examplebucket/chunkObject.txt",
                  "Host: s3.amazonaws.com\nx-amz-date: 20130524T000000Z\nx-amz-storage-class: REDUCED_REDUNDANCY\n"
                  "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
                  "SignedHeaders=content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;"
                  "x-amz-decoded-content-length;x-amz-storage-class,Signature=" SEED "\n"
                  "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\nContent-Encoding: aws-chunked\n"
                  "x-amz-decoded-content-length: 66560\nContent-Length: 66824\n");
        expect_reason(wire_verify(&wire, NOW, &auth), S3_AUTH_OK);
        assert_int_equal(auth.payload, S3_PAYLOAD_SIGNED);
        s3_signing_key_derive(S3_STR(SECRET_KEY), auth.scope_date, auth.region, auth.service, &key);
        s3_chunk_chain_of_auth(&chain, &auth, &key);
        seed_chain = chain_of(SEED);
        assert_memory_equal(chain.key.bytes, seed_chain.key.bytes, sizeof(chain.key.bytes));
        assert_string_equal(chain.scope, seed_chain.scope);
        assert_string_equal(chain.previous, SEED);
        assert_string_equal(chain.amz_date, "20130524T000000Z");
}

static void test_published_trailer(void **state)
{
        struct s3_str body = published_body("b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
                                            "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
                                            "0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f8"
                                            "5863f992\r\nx-amz-checksum-crc32c:sOO8/Q==\n\r\nx-amz-trailer-signature:"
                                            "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n");
        static char data[66560];
        struct out out = {data, 0, sizeof(data)};
        struct s3_chunked *dec;
        struct s3_header trailer;

        seed_chain = chain_of(TRAILER_SEED);
        dec = make(S3_PAYLOAD_SIGNED_TRAILER, 66560, "x-amz-checksum-crc32c");
        assert_int_equal(run(dec, body, body.len, 1, &out), S3_OK);
        assert_int_equal(out.len, 66560);
        assert_int_equal(s3_chunked_trailer_count(dec), 1);
        trailer = s3_chunked_trailer(dec, 0);
        expect_str(trailer.name, "x-amz-checksum-crc32c");
        expect_str(trailer.value, "sOO8/Q==");
        s3_chunked_free(dec);
        heap_free(body);
}

/* ---- cuts and alterations -------------------------------------------------------------------- */

static const enum s3_payload forms[] = {S3_PAYLOAD_SIGNED, S3_PAYLOAD_SIGNED_TRAILER, S3_PAYLOAD_UNSIGNED_TRAILER};

static const char *trailers_of(enum s3_payload form)
{
        return form == S3_PAYLOAD_SIGNED ? NULL : "x-amz-checksum-crc32";
}

static void test_every_cut(void **state)
{
        static char text[8192 + 300], data[sizeof(text)];
        struct out out = {data, 0, sizeof(data)};

        for (size_t i = 0; i < sizeof(text); i++)
                text[i] = (char)random_next();
        seed_chain = chain_of(SEED);
        for (size_t f = 0; f < COUNT(forms); f++) {
                struct s3_str body = encode(forms[f], text, sizeof(text), 8192, trailers_of(forms[f]), "AAAAAA==");
                bool near_border = true;

                /* Inside the long chunk one cut is like another. */
                for (size_t at = 1; at < body.len; at += near_border ? 1 : 97) {
                        struct s3_chunked *dec = make(forms[f], sizeof(text), trailers_of(forms[f]));

                        assert_int_equal(run(dec, body, at, body.len, &out), S3_OK);
                        assert_int_equal(out.len, sizeof(text));
                        assert_memory_equal(data, text, sizeof(text));
                        s3_chunked_free(dec);
                        near_border = at < 120 || at > 8100;
                }
                for (size_t step = 1; step < 200; step += step < 8 ? 1 : 31) {
                        struct s3_chunked *dec = make(forms[f], sizeof(text), trailers_of(forms[f]));

                        assert_int_equal(run(dec, body, step, step, &out), S3_OK);
                        assert_memory_equal(data, text, sizeof(text));
                        s3_chunked_free(dec);
                }
                heap_free(body);
        }
}

static void test_every_truncation(void **state)
{
        static char text[8192 + 40];

        memset(text, 'x', sizeof(text));
        seed_chain = chain_of(SEED);
        for (size_t f = 0; f < COUNT(forms); f++) {
                struct s3_str body = encode(forms[f], text, sizeof(text), 8192, trailers_of(forms[f]), "AAAAAA==");

                for (size_t len = 0; len < body.len; len += len < 200 || len > 8200 ? 1 : 501) {
                        enum s3_error error =
                                decode(forms[f], sizeof(text), trailers_of(forms[f]), (struct s3_str){body.data, len});

                        if (error != S3_ERR_INCOMPLETE_BODY && error != S3_ERR_MALFORMED_TRAILER)
                                fail_msg("form %d cut to %zu of %zu: %s", (int)forms[f], len, body.len,
                                         s3_error_info(error)->code);
                }
                heap_free(body);
        }
}

/* What the decoder gave is what was encoded, trailer included. */
static bool unaltered(const struct s3_chunked *dec, const struct out *out, const char *text, size_t len, bool trailer)
{
        struct s3_header got;

        if (out->len != len || memcmp(out->data, text, len) != 0 || s3_chunked_trailer_count(dec) != trailer)
                return false;
        if (!trailer)
                return true;
        got = s3_chunked_trailer(dec, 0);
        return s3_str_eq(got.name, S3_STR("x-amz-checksum-crc32")) && s3_str_eq(got.value, S3_STR("AAAAAA=="));
}

/*
 * In the signed forms an altered byte is noticed, or (upper case in a trailer's name, a blank for
 * its CR) makes no difference. In the unsigned form data is guarded by the checksum in the trailer,
 * which the caller compares.
 */
static void test_every_alteration(void **state)
{
        static char text[8192 + 40], data[sizeof(text) + 64];
        struct out out = {data, 0, sizeof(data)};

        for (size_t i = 0; i < sizeof(text); i++)
                text[i] = (char)random_next();
        seed_chain = chain_of(SEED);
        for (size_t f = 0; f < COUNT(forms); f++) {
                struct s3_str body = encode(forms[f], text, sizeof(text), 8192, trailers_of(forms[f]), "AAAAAA==");

                for (size_t at = 0; at < body.len; at += at < 200 || at > 8200 ? 1 : 211) {
                        char *byte = (char *)(uintptr_t)(body.data + at), was = *byte;

                        for (unsigned bit = 0; bit < 8; bit++) {
                                struct s3_chunked *dec = make(forms[f], sizeof(text), trailers_of(forms[f]));
                                enum s3_error error;

                                *byte = (char)(was ^ (1 << bit));
                                error = run(dec, body, body.len, 1, &out);
                                if (error == S3_OK && forms[f] != S3_PAYLOAD_UNSIGNED_TRAILER &&
                                    !unaltered(dec, &out, text, sizeof(text), trailers_of(forms[f]) != NULL))
                                        fail_msg("form %d, byte %zu, bit %u", (int)forms[f], at, bit);
                                s3_chunked_free(dec);
                        }
                        *byte = was;
                }
                heap_free(body);
        }
}

/* The last slice of a chunk with a wrong signature is never handed out. */
static void test_bad_chunk_is_held_back(void **state)
{
        static char data[1024];
        struct out out = {data, 0, sizeof(data)};
        struct s3_str body;
        struct s3_chunked *dec;

        seed_chain = chain_of(SEED);
        body = encode(S3_PAYLOAD_SIGNED, "hello world", 11, 11, NULL, NULL);
        ((char *)(uintptr_t)body.data)[86] ^= 1;
        dec = make(S3_PAYLOAD_SIGNED, 11, NULL);
        assert_int_equal(run(dec, body, body.len, 1, &out), S3_ERR_SIGNATURE_MISMATCH);
        assert_int_equal(out.len, 0);
        s3_chunked_free(dec);
        heap_free(body);
}

/* ---- framing --------------------------------------------------------------------------------- */

static void expect_plain(const char *body, uint64_t length, const char *trailers, enum s3_error wanted)
{
        enum s3_error error = decode(S3_PAYLOAD_UNSIGNED_TRAILER, length, trailers, s3_str_of(body));

        if (error != wanted)
                fail_msg("%s: %s, wanted %s", body, s3_error_info(error)->code, s3_error_info(wanted)->code);
}

#define CRC "x-amz-checksum-crc32"

static void test_unsigned_framing(void **state)
{
        expect_plain("5\r\nhello\r\n0\r\n\r\n", 5, NULL, S3_OK);
        expect_plain("5\r\nhello\r\n0\r\n\r\n", S3_LENGTH_UNKNOWN, NULL, S3_OK);
        expect_plain("00005\r\nhello\r\n000\r\n\r\n", 5, NULL, S3_OK);
        expect_plain("0\r\n\r\n", 0, NULL, S3_OK);
        expect_plain("A\r\n0123456789\r\n0\r\n\r\n", 10, NULL, S3_OK);
        expect_plain("0\r\n\r\n\r\n", 0, NULL, S3_OK);
        expect_plain("0\r\n\r\n\r\nx", 0, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("0\r\n\r\n\r\n\r\n", 0, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("0\r\n\r\n0\r\n\r\n", 0, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("", 0, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("hello", 5, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("\r\n", 5, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("5\nhello\n0\n\n", 5, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("5 \r\nhello\r\n0\r\n\r\n", 5, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("-5\r\nhello\r\n0\r\n\r\n", 5, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("0x5\r\nhello\r\n0\r\n\r\n", 5, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("5\r\nhelloX\n0\r\n\r\n", 5, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("5\r\nhello\rX0\r\n\r\n", 5, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("5;a=b\r\nhello\r\n0\r\n\r\n", 5, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("5\r\nhello\r\n0\r\n\r\n", 6, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("5\r\nhello\r\n0\r\n\r\n", 4, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("10000000000000000\r\n", S3_LENGTH_UNKNOWN, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("140000001\r\n", S3_LENGTH_UNKNOWN, NULL, S3_ERR_ENTITY_TOO_LARGE);
        expect_plain("ffffffffffffffff\r\n", S3_LENGTH_UNKNOWN, NULL, S3_ERR_ENTITY_TOO_LARGE);
        expect_plain("5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n", 10, NULL, S3_ERR_INVALID_CHUNK_SIZE);
}

static void test_small_chunks_allowed(void **state)
{
        struct s3_chunked_params params = {
                .form = S3_PAYLOAD_UNSIGNED_TRAILER, .decoded_length = 10, .any_chunk_size = true};
        char data[16];
        struct out out = {data, 0, sizeof(data)};
        struct s3_chunked *dec;

        assert_int_equal(s3_chunked_new(&params, &dec), S3_OK);
        assert_int_equal(run(dec, S3_STR("5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n"), 7, 3, &out), S3_OK);
        assert_memory_equal(data, "helloworld", 10);
        s3_chunked_free(dec);
}

static void test_line_bound(void **state)
{
        char line[S3_CHUNK_LINE_MAX + 64];
        struct s3_str body = {line, sizeof(line)};

        memset(line, '0', sizeof(line));
        assert_int_equal(decode(S3_PAYLOAD_UNSIGNED_TRAILER, 0, NULL, body), S3_ERR_INCOMPLETE_BODY);
        memcpy(line, "0\r\n", 3);
        assert_int_equal(decode(S3_PAYLOAD_UNSIGNED_TRAILER, 0, CRC, body), S3_ERR_MALFORMED_TRAILER);
}

static void test_trailers(void **state)
{
        expect_plain("0\r\n" CRC ":AAAAAA==\r\n\r\n", 0, CRC, S3_OK);
        expect_plain("0\r\n" CRC ":AAAAAA==\n\r\n", 0, CRC, S3_OK);
        expect_plain("0\r\n" CRC ":AAAAAA==\n\r\n\r\n", 0, CRC, S3_OK);
        expect_plain("0\r\nX-Amz-Checksum-CRC32 : \tAAAAAA== \r\n\r\n", 0, " " CRC " ", S3_OK);
        expect_plain("0\r\nx-amz-checksum-sha1:a\r\n" CRC ":b\r\n\r\n", 0, CRC ",x-amz-checksum-sha1", S3_OK);
        expect_plain("0\r\n\r\n", 0, CRC, S3_ERR_MALFORMED_TRAILER);
        expect_plain("0\r\n" CRC ":a\r\n\r\n", 0, CRC ", x-amz-checksum-sha1", S3_ERR_MALFORMED_TRAILER);
        expect_plain("0\r\n" CRC ":a\r\n\r\n", 0, NULL, S3_ERR_MALFORMED_TRAILER);
        expect_plain("0\r\nx-amz-checksum-sha256:a\r\n\r\n", 0, CRC, S3_ERR_MALFORMED_TRAILER);
        expect_plain("0\r\n" CRC ":a\r\n" CRC ":a\r\n\r\n", 0, CRC, S3_ERR_MALFORMED_TRAILER);
        expect_plain("0\r\n" CRC "\r\n\r\n", 0, CRC, S3_ERR_MALFORMED_TRAILER);
        expect_plain("0\r\nx-amz-meta-a:b\r\n\r\n", 0, CRC, S3_ERR_MALFORMED_TRAILER);
        expect_plain("0\r\nx-amz-trailer-signature:a\r\n\r\n", 0, CRC, S3_ERR_MALFORMED_TRAILER);
        /*
         * LF alone ends a line only as in the example that AWS publishes: before the empty one,
         * which ends in CR LF.
         */
        expect_plain("0\r\nx-amz-checksum-crc32:AAAAAA==\n\r\n", 0, CRC, S3_OK);
        expect_plain("0\r\nx-amz-checksum-crc32:AAAAAA==\n\n", 0, CRC, S3_ERR_MALFORMED_TRAILER);
        expect_plain("0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\n", 0, CRC, S3_ERR_MALFORMED_TRAILER);
        expect_plain("0\r\nx-amz-checksum-crc32:AAAAAA==\nx-amz-checksum-sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n", 0,
                     CRC ",x-amz-checksum-sha1", S3_ERR_MALFORMED_TRAILER);
        expect_plain("0\n\r\n", 0, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("1\na\r\n0\r\n\r\n", 1, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("1\r\na\n0\r\n\r\n", 1, NULL, S3_ERR_INCOMPLETE_BODY);
        expect_plain("0\r\n" CRC ":a\r\n", 0, CRC, S3_ERR_INCOMPLETE_BODY);
        expect_plain("0\r\n" CRC ":a", 0, CRC, S3_ERR_INCOMPLETE_BODY);
        expect_plain("0\r\n" CRC ":\r\n\r\n", 0, CRC, S3_OK); /* empty: the value is the caller's to check */
}

static void test_signed_trailers(void **state)
{
        const size_t signature_line = sizeof("x-amz-trailer-signature:") - 1 + S3_SIGNATURE_LEN + 2;
        struct s3_str body;
        char text[512];
        int n;

        seed_chain = chain_of(TRAILER_SEED);
        body = encode(S3_PAYLOAD_SIGNED_TRAILER, "", 0, 8192, CRC, "AAAAAA==");
        assert_int_equal(decode(S3_PAYLOAD_SIGNED_TRAILER, 0, CRC, body), S3_OK);
        /* Without the signature line, and with something behind it. */
        n = snprintf(text, sizeof(text), "%.*s\r\n\r\n", (int)(body.len - 2 - signature_line), body.data);
        assert_int_equal(decode(S3_PAYLOAD_SIGNED_TRAILER, 0, CRC, (struct s3_str){text, (size_t)n}),
                         S3_ERR_MALFORMED_TRAILER);
        n = snprintf(text, sizeof(text), "%.*sa:b\r\n\r\n", (int)(body.len - 2), body.data);
        assert_int_equal(decode(S3_PAYLOAD_SIGNED_TRAILER, 0, CRC, (struct s3_str){text, (size_t)n}),
                         S3_ERR_MALFORMED_TRAILER);
        heap_free(body);
        /* A trailer section that is empty altogether. */
        body = encode(S3_PAYLOAD_SIGNED, "", 0, 8192, NULL, NULL);
        assert_int_equal(decode(S3_PAYLOAD_SIGNED_TRAILER, 0, NULL, body), S3_ERR_MALFORMED_TRAILER);
        heap_free(body);
        /* No trailer but its signature. */
        body = encode(S3_PAYLOAD_SIGNED_TRAILER, "", 0, 8192, NULL, NULL);
        assert_int_equal(decode(S3_PAYLOAD_SIGNED_TRAILER, 0, NULL, body), S3_OK);
        heap_free(body);
}

/* Trailer lines are bounded in number and in bytes; both only matter for hostile bodies. */
static void test_trailer_bounds(void **state)
{
        char body[64 << 10] = "0\r\n";
        size_t used = 3;

        for (unsigned i = 0; i < S3_TRAILER_LINES_MAX + 4; i++)
                used += (size_t)snprintf(body + used, sizeof(body) - used, "%s:%d\r\n", CRC, i);
        assert_int_equal(decode(S3_PAYLOAD_UNSIGNED_TRAILER, 0, CRC, (struct s3_str){body, used}),
                         S3_ERR_MALFORMED_TRAILER);
        used = 3;
        for (enum s3_checksum kind = 0; kind <= S3_SHA256; kind++)
                used += (size_t)snprintf(body + used, sizeof(body) - used, "%s:%0900d\r\n",
                                         s3_checksum_info(kind)->header, 7);
        used += (size_t)snprintf(body + used, sizeof(body) - used, "\r\n");
        assert_int_equal(decode(S3_PAYLOAD_UNSIGNED_TRAILER, 0,
                                "x-amz-checksum-crc32,x-amz-checksum-crc32c,x-amz-checksum-crc64nvme,"
                                "x-amz-checksum-sha1,x-amz-checksum-sha256",
                                (struct s3_str){body, used}),
                         S3_OK);
}

static void test_signed_framing(void **state)
{
        static const char *const bad[] = {
                "0\r\n\r\n",
                "0;chunk-signature=\r\n\r\n",
                "0;chunk-signature=" SIG3 "0\r\n\r\n",
                "0;chunk-signature:" SIG3 "\r\n\r\n",
                "0;chunk-signature=" SIG3 ";x=y\r\n\r\n",
                "0; chunk-signature=" SIG3 "\r\n\r\n",
                ";chunk-signature=" SIG3 "\r\n\r\n",
        };

        seed_chain = chain_of(SEED);
        for (size_t i = 0; i < COUNT(bad); i++)
                assert_int_equal(decode(S3_PAYLOAD_SIGNED, 0, NULL, s3_str_of(bad[i])), S3_ERR_INCOMPLETE_BODY);
        assert_int_equal(decode(S3_PAYLOAD_SIGNED, 0, NULL, S3_STR("0;chunk-signature=" SIG3 "\r\n\r\n")),
                         S3_ERR_SIGNATURE_MISMATCH);
}

/* aws-chunked without a form of its own: extensions are ignored, trailers are not expected. */
static void test_plain_form(void **state)
{
        assert_int_equal(decode(S3_PAYLOAD_UNSIGNED, 5, NULL, S3_STR("5\r\nhello\r\n0\r\n\r\n")), S3_OK);
        assert_int_equal(decode(S3_PAYLOAD_SHA256, 5, NULL, S3_STR("5;a=b;c\r\nhello\r\n0;\r\n\r\n")), S3_OK);
        assert_int_equal(decode(S3_PAYLOAD_UNSIGNED, 0, NULL, S3_STR("0\r\n" CRC ":a\r\n\r\n")),
                         S3_ERR_MALFORMED_TRAILER);
}

static void test_refused_parameters(void **state)
{
        struct s3_chunked_params params = {.form = S3_PAYLOAD_UNSIGNED_TRAILER, .trailers = S3_STR("x-amz-meta-a")};
        struct s3_chunked *dec;

        assert_int_equal(s3_chunked_new(&params, &dec), S3_ERR_INVALID_REQUEST);
        params.trailers = S3_STR("");
        assert_int_equal(s3_chunked_new(&params, &dec), S3_ERR_INVALID_REQUEST);
        params.trailers = S3_STR(CRC ",");
        assert_int_equal(s3_chunked_new(&params, &dec), S3_ERR_INVALID_REQUEST);
        params.trailers = S3_STR(CRC);
        params.form = S3_PAYLOAD_SIGNED;
        assert_int_equal(s3_chunked_new(&params, &dec), S3_ERR_INVALID_REQUEST);
        params.trailers = (struct s3_str){NULL, 0};
        assert_int_equal(s3_chunked_new(&params, &dec), S3_ERR_ACCESS_DENIED);
        s3_chunked_free(NULL);
}

static void test_encoder_bounds(void **state)
{
        struct s3_signer signer;
        struct s3_chunk_chain chain;
        char out[64], value[600], seed[S3_SIGNATURE_LEN + 1] = "short";

        assert_int_equal(s3_chunk_tail(NULL, false, CRC, "AAAAAA==", out, 20), -ENOBUFS);
        memset(value, 'v', sizeof(value) - 1);
        value[sizeof(value) - 1] = '\0';
        assert_int_equal(s3_chunk_tail(NULL, false, CRC, value, out, sizeof(out)), -ENOBUFS);
        assert_int_equal(s3_chunk_tail(NULL, false, NULL, NULL, out, sizeof(out)), 5);
        assert_string_equal(out, "0\r\n\r\n");
        s3_signer_init(&signer, S3_STR(ACCESS_KEY), S3_STR(SECRET_KEY), REGION, NOW);
        assert_int_equal(s3_chunk_chain_of_signer(&chain, &signer, NOW, seed), -EINVAL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_published_signed),
                cmocka_unit_test(test_published_seed),
                cmocka_unit_test(test_published_trailer),
                cmocka_unit_test(test_every_cut),
                cmocka_unit_test(test_every_truncation),
                cmocka_unit_test(test_every_alteration),
                cmocka_unit_test(test_bad_chunk_is_held_back),
                cmocka_unit_test(test_unsigned_framing),
                cmocka_unit_test(test_small_chunks_allowed),
                cmocka_unit_test(test_line_bound),
                cmocka_unit_test(test_trailers),
                cmocka_unit_test(test_signed_trailers),
                cmocka_unit_test(test_trailer_bounds),
                cmocka_unit_test(test_signed_framing),
                cmocka_unit_test(test_plain_form),
                cmocka_unit_test(test_refused_parameters),
                cmocka_unit_test(test_encoder_bounds),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
