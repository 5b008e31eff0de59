/*
 * Writing aws-chunked bodies: the client library and the benchmarks call this, and tests make their
 * input with it.
 */
#include "sha256.h" /* first: it includes OpenSSL its own way */

#include <errno.h>
#include <stdio.h>

static const char signature_field[] = ";chunk-signature=";
static const char trailer_signature_field[] = "x-amz-trailer-signature:";

static uint64_t hex_digits(uint64_t value)
{
        uint64_t digits = 1;

        while (value >>= 4)
                digits++;
        return digits;
}

static uint64_t head_length(bool is_signed, uint64_t len)
{
        return hex_digits(len) + (is_signed ? sizeof(signature_field) - 1 + S3_SIGNATURE_LEN : 0) + 2;
}

uint64_t s3_chunked_encoded_length(enum s3_payload form, uint64_t decoded_length, uint64_t chunk_size,
                                   size_t trailer_len)
{
        bool is_signed = form == S3_PAYLOAD_SIGNED || form == S3_PAYLOAD_SIGNED_TRAILER;
        uint64_t full = decoded_length / chunk_size, rest = decoded_length % chunk_size;
        uint64_t total = full * (head_length(is_signed, chunk_size) + chunk_size + 2);

        if (rest > 0)
                total += head_length(is_signed, rest) + rest + 2;
        total += head_length(is_signed, 0) + 2;
        if (trailer_len > 0)
                total += trailer_len + 1 + 2;
        if (form == S3_PAYLOAD_SIGNED_TRAILER)
                total += sizeof(trailer_signature_field) - 1 + S3_SIGNATURE_LEN + 2;
        return total;
}

size_t s3_chunk_head(struct s3_chunk_chain *chain, uint64_t len, const uint8_t sha256[S3_SHA256_LEN],
                     char out[S3_CHUNK_HEAD_MAX])
{
        if (chain == NULL)
                return (size_t)snprintf(out, S3_CHUNK_HEAD_MAX, "%llx\r\n", (unsigned long long)len);
        s3_chunk_sign(chain, sha256);
        return (size_t)snprintf(out, S3_CHUNK_HEAD_MAX, "%llx%s%s\r\n", (unsigned long long)len, signature_field,
                                chain->previous);
}

int s3_chunk_tail(struct s3_chunk_chain *chain, bool sign_trailer, const char *trailer_name, const char *trailer_value,
                  char *out, size_t cap)
{
        uint8_t digest[S3_SHA256_LEN];
        char head[S3_CHUNK_HEAD_MAX], line[512] = "";
        const char *field = "", *signature = "", *end = "";
        SHA256_CTX hash;
        int n;

        SHA256_Init(&hash);
        SHA256_Final(digest, &hash);
        s3_chunk_head(chain, 0, digest, head);
        SHA256_Init(&hash);
        if (trailer_name != NULL) {
                n = snprintf(line, sizeof(line), "%s:%s\r\n", trailer_name, trailer_value);
                if (n < 0 || (size_t)n >= sizeof(line))
                        return -ENOBUFS;
                SHA256_Update(&hash, line, (size_t)n - 2);
                SHA256_Update(&hash, "\n", 1);
        }
        SHA256_Final(digest, &hash);
        if (chain != NULL && sign_trailer) {
                s3_trailer_sign(chain, digest);
                field = trailer_signature_field;
                signature = chain->previous;
                end = "\r\n";
        }
        n = snprintf(out, cap, "%s%s%s%s%s\r\n", head, line, field, signature, end);
        return n >= 0 && (size_t)n < cap ? n : -ENOBUFS;
}
