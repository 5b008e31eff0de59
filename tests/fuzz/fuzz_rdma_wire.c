/*
 * fuzz_rdma_wire.c - private data, tokens, windows and messages of RDMA sessions from any bytes.
 * The first byte chooses which. What is taken is inside what was given, keeps the limits, and
 * written again it is read as the same.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "rdma_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_bytes(struct rdx_bytes bytes, const uint8_t *data, size_t size, size_t most)
{
        assert(bytes.len <= most);
        if (bytes.len > 0)
                assert((const uint8_t *)bytes.data >= data && (const uint8_t *)bytes.data + bytes.len <= data + size);
}

static void private_data(const uint8_t *data, size_t size)
{
        static const uint8_t key[RDX_KEY_LEN];
        static const struct rdx_binding binding;
        struct rdx_private private;
        uint8_t out[RDX_PRIVATE_LEN];
        bool right;

        if (rdx_private_parse(data, size, &private) != 0)
                return;
        right = rdx_private_verify(&private, key, &binding);
        rdx_private_build(&private, key, &binding, out);
        assert(right == (memcmp(out, data, RDX_PRIVATE_LEN) == 0));
}

static void texts(const char *text, size_t size)
{
        uint8_t session[RDX_ID_LEN];
        char again[RDX_PLACE_TEXT + 1];
        struct rdx_token token;
        struct rdx_window_span place;

        if (rdx_token_parse(text, size, &token) == 0)
                assert(token.size > 0 && token.size <= UINT64_MAX - token.address && token.dct < 1u << 24);
        if (rdx_window_span_parse(text, size, &place) == 0) {
                rdx_window_span_print(&place, again);
                assert(memcmp(again, text, size) == 0);
        }
        if (rdx_access_key_parse(text, size, session)) {
                rdx_access_key(session, again);
                assert(memcmp(again, text, size) == 0);
        }
        rdx_reject_parse(text, size);
}

/* What was read is written again, and must be no longer. */
static void message(const uint8_t *data, size_t size)
{
        static uint8_t out[RDX_MESSAGE_MAX];
        struct rdx_reader reader, again;
        struct rdx_writer writer;
        struct rdx_result result;
        struct rdx_entry entry;
        size_t len;

        if (rdx_reader_open(&reader, data, size) != 0 || rdx_reader_check(&reader) != 0)
                return;
        rdx_writer_open(&writer, out, &reader.message);
        while (reader.message.type == RDX_BATCH && rdx_reader_entry(&reader, &entry) == 1) {
                check_bytes(entry.key, data, size, RDX_KEY_MOST);
                check_bytes(entry.bucket, data, size, RDX_BUCKET_MOST);
                check_bytes(entry.if_match, data, size, RDX_ETAG_MOST);
                check_bytes(entry.version_id, data, size, RDX_VERSION_ID_MOST);
                assert(rdx_window_span_holds(&reader.message.window, entry.offset, entry.length));
                assert(rdx_writer_entry(&writer, &entry) == 0);
        }
        while (reader.message.type == RDX_RESULT && rdx_reader_result(&reader, &result) == 1) {
                check_bytes(result.etag, data, size, RDX_ETAG_MOST);
                check_bytes(result.version_id, data, size, RDX_VERSION_ID_MOST);
                assert(rdx_writer_result(&writer, &result) == 0);
        }
        len = rdx_writer_finish(&writer);
        assert(len <= size);
        assert(rdx_reader_open(&again, out, len) == 0 && rdx_reader_check(&again) == 0);
        assert(again.message.count == reader.message.count && again.message.number == reader.message.number);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *copy;

        if (size < 1)
                return 0;
        copy = malloc(size > 1 ? size - 1 : 1); /* so that a byte too far is noticed at both ends */
        if (copy == NULL)
                return 0;
        memcpy(copy, data + 1, size - 1);
        if (data[0] % 3 == 0)
                private_data(copy, size - 1);
        else if (data[0] % 3 == 1)
                texts((const char *)copy, size - 1);
        else
                message(copy, size - 1);
        free(copy);
        return 0;
}
