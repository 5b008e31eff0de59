/*
 * etcd_write.c - writes requests as etcd's gateway reads them: keys and values in base64, 64-bit
 * numbers as strings. Called by the client's thread.
 */
#include "cluster/etcd_write.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s3_checksum.h"

/* ---- text ------------------------------------------------------------------------------------ */

struct etcd_text {
        FILE *file;
        char *data;
        size_t len;
        bool failed;
};

static bool text_open(struct etcd_text *text)
{
        memset(text, 0, sizeof(*text));
        text->file = open_memstream(&text->data, &text->len);
        return text->file != NULL;
}

static char *text_close(struct etcd_text *text, size_t *len)
{
        bool failed = text->failed || ferror(text->file) != 0;

        failed = fclose(text->file) != 0 || failed;
        if (failed) {
                free(text->data);
                return NULL;
        }
        *len = text->len;
        return text->data;
}

/* "name":"base64" */
static void text_bytes(struct etcd_text *text, const char *name, const void *data, size_t len)
{
        char *encoded = malloc(S3_BASE64_SIZE(len));

        if (encoded == NULL) {
                text->failed = true;
                return;
        }
        s3_base64_encode(data, len, encoded);
        fprintf(text->file, "\"%s\":\"%s\"", name, encoded);
        free(encoded);
}

size_t etcd_prefix_end(struct cl_bytes prefix, uint8_t *end)
{
        size_t len = prefix.len;

        memcpy(end, prefix.data, len);
        while (len > 0 && end[len - 1] == 0xff)
                len--;
        if (len == 0) {
                end[0] = 0;
                return 1;
        }
        end[len - 1]++;
        return len;
}

static void text_prefix_end(struct etcd_text *text, struct cl_bytes prefix)
{
        uint8_t end[CL_KEY_MAX];
        size_t len = etcd_prefix_end(prefix, end);

        fputc(',', text->file);
        text_bytes(text, "range_end", end, len);
}

/* ---- a range --------------------------------------------------------------------------------- */

char *etcd_write_range(const struct cl_request *request, const struct etcd_page *page, size_t *len)
{
        uint8_t first[CL_KEY_MAX + 1] = {0};
        struct cl_bytes from = page->after.len > 0 ? page->after : request->key;
        struct etcd_text text;

        if (!text_open(&text))
                return NULL;
        memcpy(first, from.data, from.len);
        fputc('{', text.file);
        /* with a 0 byte more it is the first key behind the last one */
        text_bytes(&text, "key", first, from.len + (page->after.len > 0));
        if (request->prefix)
                text_prefix_end(&text, request->key);
        if (page->revision > 0)
                fprintf(text.file, ",\"revision\":\"%" PRId64 "\"", page->revision);
        if (request->min_mod_revision > 0)
                fprintf(text.file, ",\"min_mod_revision\":\"%" PRId64 "\"", request->min_mod_revision);
        fprintf(text.file, ",\"limit\":\"%u\"}", page->limit);
        return text_close(&text, len);
}

/* ---- a transaction --------------------------------------------------------------------------- */

static void text_compare(struct etcd_text *text, const struct cl_compare *compare)
{
        static const char *const targets[] = {"MOD", "VERSION", "VALUE"};

        fprintf(text->file, "{\"result\":\"EQUAL\",\"target\":\"%s\",", targets[compare->kind]);
        text_bytes(text, "key", compare->key.data, compare->key.len);
        fputc(',', text->file);
        switch (compare->kind) {
        case CL_COMPARE_MOD:
                fprintf(text->file, "\"mod_revision\":\"%" PRId64 "\"", compare->number);
                break;
        case CL_COMPARE_VERSION:
                fprintf(text->file, "\"version\":\"%" PRId64 "\"", compare->number);
                break;
        case CL_COMPARE_VALUE:
                text_bytes(text, "value", compare->value.data, compare->value.len);
                break;
        }
        fputc('}', text->file);
}

static void text_op(struct etcd_text *text, const struct cl_op *op)
{
        static const char *const names[] = {"request_put", "request_delete_range", "request_range"};

        fprintf(text->file, "{\"%s\":{", names[op->kind]);
        text_bytes(text, "key", op->key.data, op->key.len);
        if (op->kind == CL_OP_PUT) {
                fputc(',', text->file);
                text_bytes(text, "value", op->value.data, op->value.len);
        } else if (op->prefix) {
                text_prefix_end(text, op->key);
        }
        if (op->kind == CL_OP_RANGE)
                fprintf(text->file, ",\"limit\":\"%u\"", CL_PAGE_KEYS);
        fputs("}}", text->file);
}

static void text_ops(struct etcd_text *text, const char *name, const struct cl_op *ops, unsigned count)
{
        unsigned i;

        fprintf(text->file, ",\"%s\":[", name);
        for (i = 0; i < count; i++) {
                if (i > 0)
                        fputc(',', text->file);
                text_op(text, &ops[i]);
        }
        fputc(']', text->file);
}

char *etcd_write_txn(const struct cl_request *request, size_t *len)
{
        struct etcd_text text;
        unsigned i;

        if (!text_open(&text))
                return NULL;
        fputs("{\"compare\":[", text.file);
        for (i = 0; i < request->compare_count; i++) {
                if (i > 0)
                        fputc(',', text.file);
                text_compare(&text, &request->compares[i]);
        }
        fputc(']', text.file);
        text_ops(&text, "success", request->success, request->success_count);
        text_ops(&text, "failure", request->failure, request->failure_count);
        fputc('}', text.file);
        return text_close(&text, len);
}

/* ---- a login --------------------------------------------------------------------------------- */

char *etcd_write_login(const char *user, const char *password, size_t *len)
{
        json_t *json = json_pack("{s:s, s:s}", "name", user, "password", password);
        char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;

        json_decref(json);
        if (text != NULL)
                *len = strlen(text);
        return text;
}
