/*
 * fuzz_chunked.c - any aws-chunked body, cut anywhere. The first byte chooses form and announced
 * length, the second the size of the pieces. Whatever the cuts, bytes and result are the same as in
 * one piece, and no more is handed out than announced.
 */
#include <assert.h>
#include <stdlib.h>

#include "s3.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const enum s3_payload forms[] = {S3_PAYLOAD_SIGNED, S3_PAYLOAD_SIGNED_TRAILER, S3_PAYLOAD_UNSIGNED_TRAILER,
                                        S3_PAYLOAD_UNSIGNED};

struct result {
        enum s3_error error;
        uint64_t len;
        uint32_t sum;
        unsigned trailers;
};

static struct result run(const struct s3_chunked_params *params, struct s3_str body, size_t step)
{
        struct result result = {S3_OK, 0, 0, 0};
        struct s3_chunked *dec;

        result.error = s3_chunked_new(params, &dec);
        if (result.error != S3_OK)
                return result;
        while (body.len > 0 && result.error == S3_OK) {
                struct s3_str in = {body.data, step < body.len ? step : body.len}, out;

                body.data += in.len;
                body.len -= in.len;
                while (in.len > 0 && result.error == S3_OK) {
                        result.error = s3_chunked_next(dec, &in, &out);
                        assert(result.error == S3_OK || out.len == 0);
                        for (size_t i = 0; i < out.len; i++)
                                result.sum = result.sum * 31 + (uint8_t)out.data[i];
                        result.len += out.len;
                }
        }
        if (result.error == S3_OK)
                result.error = s3_chunked_finish(dec);
        assert(result.len == s3_chunked_decoded(dec));
        assert(params->decoded_length == S3_LENGTH_UNKNOWN || result.len <= params->decoded_length);
        if (result.error == S3_OK) {
                assert(params->decoded_length == S3_LENGTH_UNKNOWN || result.len == params->decoded_length);
                result.trailers = s3_chunked_trailer_count(dec);
                for (unsigned i = 0; i < result.trailers; i++)
                        assert(s3_chunked_trailer(dec, i).name.len > 0);
        }
        s3_chunked_free(dec);
        return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct s3_chunk_chain chain = {.amz_date = "20130524T000000Z", .scope = "20130524/us-east-1/s3/aws4_request"};
        struct s3_chunked_params params = {.chain = &chain, .decoded_length = S3_LENGTH_UNKNOWN};
        struct s3_str body;
        struct result whole, cut;
        size_t step;

        if (size < 2)
                return 0;
        memset(chain.previous, '0', S3_SIGNATURE_LEN);
        params.form = forms[data[0] & 3];
        params.any_chunk_size = (data[0] & 4) != 0;
        if ((data[0] & 8) != 0 &&
            (params.form == S3_PAYLOAD_SIGNED_TRAILER || params.form == S3_PAYLOAD_UNSIGNED_TRAILER))
                params.trailers = S3_STR("x-amz-checksum-crc32");
        if ((data[0] & 16) != 0)
                params.decoded_length = data[0] >> 5;
        step = 1 + data[1];
        body = (struct s3_str){(const char *)data + 2, size - 2};
        whole = run(&params, body, size);
        cut = run(&params, body, step);
        /* A wrong chunk's data may have gone out in part: only good bodies must agree in bytes. */
        assert(whole.error == cut.error && whole.trailers == cut.trailers);
        if (whole.error == S3_OK)
                assert(whole.len == cut.len && whole.sum == cut.sum);
        return 0;
}
