/*
 * fuzz_call.c - libFuzzer: bytes that claim to be a call of a home store, the answer to one, or rows of
 * the configuration. What is taken lies within what came; a call is the same bytes when it is written
 * again. A text that is set is read as the pool of a bucket, too.
 *
 * The first byte chooses: a call, rows, or an answer to which kind; the next two how much of the rest is
 * the bulk part.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"
#include "engine/bucket/bucket_pool.h"
#include "engine/bucket/config_feed.h"
#include "engine/call/leader_call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t again[ENG_CALL_BODY_MAX];
static volatile uint32_t sum; /* so that all bytes are read */

static void read_all(struct eng_str s)
{
        if (s.len > 0)
                sum = era_crc32c(0, s.data, s.len);
}

static void same(int len, const uint8_t *body, size_t size)
{
        if (len < 0 || (size_t)len != size || memcmp(again, body, size) != 0)
                abort();
}

/* As the leader reads what a home says of the pool of a bucket. */
static void take_bucket_pool(struct eng_str bytes)
{
        struct eng_text *text = eng_text_new(ENG_ENTRY_BUCKET_POOL, bytes.data, bytes.len);
        struct eng_str name;
        unsigned pool;

        if (text == NULL)
                abort();
        if (eng_bucket_pool_read(text, &name, &pool)) {
                if (pool == 0 || pool >= ENG_POOLS_MAX || name.len == 0 || name.len > ENG_BUCKET_NAME_MAX)
                        abort();
                read_all(name);
        }
        eng_text_unref(text);
}

static void take_call(const uint8_t *body, size_t len, const uint8_t *bulk, size_t bulk_len)
{
        struct eng_call_bulk pieces;
        struct eng_call call;

        (void)eng_call_bulk_len(body, len);
        if (eng_call_get(body, len, bulk, bulk_len, &call) != 0)
                return;
        same(eng_call_put(&call, again, &pieces), body, len);
        read_all(call.key);
        if (call.kind == ENG_CALL_PUT) {
                read_all(call.put.value);
                read_all(call.put.bytes);
        }
        if (call.kind == ENG_CALL_TEXT_SET)
                take_bucket_pool(call.text.bytes);
        if (call.kind == ENG_CALL_COMPLETE)
                read_all((struct eng_str){(const char *)call.complete.parts, call.complete.count * sizeof(call.complete.parts[0])});
}

static void take_answer(enum eng_call_kind kind, const uint8_t *body, size_t len, const uint8_t *bulk, size_t bulk_len)
{
        struct eng_call_answer answer;
        struct eng_call_bulk pieces;

        if (eng_call_get_answer(kind, body, len, bulk, bulk_len, &answer) != 0)
                return;
        same(eng_call_put_answer(kind, &answer, again, &pieces), body, len);
        read_all(answer.value);
        read_all(answer.bytes);
        read_all(answer.object.attrs);
        read_all(answer.entries); /* which fuzz_drive_wire.c looks into */
}

static void take_rows(const uint8_t *bytes, size_t len)
{
        struct eng_row row;
        size_t at = 0;

        while (at < len && eng_row_get(bytes, len, &at, &row) == 0)
                if (row.key.what == ENG_ROW_TEXT)
                        read_all(row.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *body, *bulk;
        size_t bulk_len;

        if (size < 3 || size - 3 > ENG_CALL_BODY_MAX)
                return 0;
        bulk_len = (size_t)(data[1] | data[2] << 8) % (size - 2);
        body = malloc(size); /* each of its length, so that a sanitizer sees what lies beyond */
        bulk = malloc(bulk_len + 1);
        if (body == NULL || bulk == NULL)
                abort();
        memcpy(body, data + 3, size - 3 - bulk_len);
        memcpy(bulk, data + size - bulk_len, bulk_len);
        if (data[0] == 0)
                take_call(body, size - 3 - bulk_len, bulk, bulk_len);
        else if (data[0] == 1)
                take_rows(body, size - 3 - bulk_len);
        else
                take_answer((enum eng_call_kind)(1 + data[0] % (ENG_CALL_KINDS - 1)), body, size - 3 - bulk_len, bulk, bulk_len);
        free(body);
        free(bulk);
        return 0;
}
