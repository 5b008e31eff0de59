/*
 * fuzz_xml.c - any body as each of the documents clients send, whole and cut. The first byte
 * chooses the kind, the second the size of the pieces. Results agree, tables keep their bounds, and
 * keys and configurations that were read can be written and read again.
 */
#include <assert.h>
#include <stdlib.h>

#include "s3.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum s3_error read_doc(struct s3_doc *doc, const char *data, size_t len, size_t step)
{
        enum s3_error error = S3_OK;

        for (size_t at = 0; at < len && error == S3_OK; at += step)
                error = s3_doc_feed(doc, data + at, step < len - at ? step : len - at);
        return error == S3_OK ? s3_doc_finish(doc) : error;
}

/* Writes a Delete of the keys that were read and reads it. */
static void check_round_trip(const struct s3_doc *doc)
{
        struct s3_doc *again;
        struct s3_xml xml;

        s3_xml_init(&xml, S3_XML_BODY_MAX);
        s3_xml_root(&xml, "Delete");
        for (unsigned i = 0; i < doc->object_count; i++) {
                s3_xml_open(&xml, "Object");
                s3_xml_text(&xml, "Key", doc->objects[i].key);
                s3_xml_close(&xml, "Object");
        }
        s3_xml_close(&xml, "Delete");
        assert(xml.error == 0);
        if (s3_doc_new(S3_DOC_DELETE, &again) != 0)
                abort();
        assert(read_doc(again, xml.buf, xml.len, 4096) == S3_OK && again->object_count == doc->object_count);
        for (unsigned i = 0; i < doc->object_count; i++)
                assert(s3_str_eq(again->objects[i].key, doc->objects[i].key));
        s3_doc_free(again);
        s3_xml_free(&xml);
}

/* Writes the configuration that was read; false: the kind has no writer. */
static bool write_config(struct s3_xml *xml, const struct s3_doc *doc)
{
        switch (doc->kind) {
        case S3_DOC_VERSIONING:
                s3_versioning_write(xml, doc->versioning);
                return true;
        case S3_DOC_OBJECT_TAGGING:
        case S3_DOC_BUCKET_TAGGING:
                s3_tags_write(xml, &doc->tags);
                return true;
        case S3_DOC_LOCK_CONFIG:
                s3_lock_config_write(xml, &doc->lock_config);
                return true;
        case S3_DOC_RETENTION:
                /* Dates are written from 1970 on. */
                if (doc->retention.until_ms < 0)
                        return false;
                s3_retention_write(xml, &doc->retention);
                return true;
        case S3_DOC_LEGAL_HOLD:
                s3_legal_hold_write(xml, doc->legal_hold);
                return true;
        case S3_DOC_LIFECYCLE:
                if (doc->lifecycle->transition)
                        return false;
                for (unsigned i = 0; i < doc->lifecycle->rule_count; i++)
                        if (doc->lifecycle->rules[i].date_ms < 0)
                                return false;
                s3_lifecycle_write(xml, doc->lifecycle);
                return true;
        default:
                if (doc->config == NULL)
                        return false;
                s3_config_write(xml, doc->config, false);
                return true;
        }
}

/* What is written is read as the same: it is written alike once more. */
static void check_config(const struct s3_doc *doc)
{
        struct s3_xml first, second;
        struct s3_doc *again;

        s3_xml_init(&first, 2 * S3_XML_BODY_MAX);
        s3_xml_init(&second, 2 * S3_XML_BODY_MAX);
        if (write_config(&first, doc)) {
                assert(first.error == 0);
                assert(s3_doc_read(doc->kind, (struct s3_str){first.buf, first.len}, &again) == S3_OK);
                assert(write_config(&second, again) && second.len == first.len &&
                       memcmp(first.buf, second.buf, first.len) == 0);
                s3_doc_free(again);
        }
        s3_xml_free(&first);
        s3_xml_free(&second);
}

/* Asks about some versions: whatever the rules are, an action has a rule and a time. */
static void check_lifecycle(const struct s3_lifecycle *lifecycle)
{
        assert(lifecycle->rule_count >= 1 && lifecycle->rule_count <= S3_LIFECYCLE_RULES_MAX);
        assert(lifecycle->prefix_count <= lifecycle->rule_count);
        for (unsigned i = 0; i < 8; i++) {
                struct s3_lifecycle_version version = {
                        .key = lifecycle->rules[i % lifecycle->rule_count].prefix,
                        .mtime_ms = 1700000000000,
                        .successor_ms = 1700000000000,
                        .latest = i & 1,
                        .marker = i & 2,
                        .only = i & 4,
                        .newer_noncurrent = 100,
                };
                struct s3_lifecycle_due due = s3_lifecycle_evaluate(lifecycle, &version, S3_SECONDS_PER_DAY);
                char text[S3_LIFECYCLE_EXPIRATION_SIZE];

                assert((due.action != S3_LIFECYCLE_NOTHING) == (due.rule != NULL));
                if (due.rule != NULL)
                        assert(s3_lifecycle_expiration(&due, text) < sizeof(text));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct s3_doc *whole, *cut;
        enum s3_doc_kind kind;
        enum s3_error error;

        if (size < 2)
                return 0;
        kind = (enum s3_doc_kind)(data[0] % S3_DOC_KINDS);
        if (s3_doc_new(kind, &whole) != 0 || s3_doc_new(kind, &cut) != 0)
                abort();
        error = read_doc(whole, (const char *)data + 2, size - 2, size);
        assert(read_doc(cut, (const char *)data + 2, size - 2, 1 + data[1]) == error);
        assert(whole->part_count <= S3_PARTS_MAX && whole->object_count <= S3_DELETE_MAX);
        if (error == S3_OK) {
                assert(whole->part_count == cut->part_count && whole->object_count == cut->object_count);
                assert(s3_str_eq(whole->location, cut->location));
                assert(whole->elements == cut->elements && whole->leaf_count == cut->leaf_count);
                for (unsigned i = 0; i < whole->leaf_count; i++)
                        assert(s3_str_eq(whole->leaf[i].name, cut->leaf[i].name) &&
                               s3_str_eq(whole->leaf[i].value, cut->leaf[i].value));
                for (unsigned i = 1; i < whole->part_count; i++)
                        assert(whole->parts[i - 1].number < whole->parts[i].number);
                if (kind == S3_DOC_DELETE)
                        check_round_trip(whole);
                if (kind == S3_DOC_LIFECYCLE)
                        check_lifecycle(whole->lifecycle);
                check_config(whole);
        }
        s3_doc_free(whole);
        s3_doc_free(cut);
        return 0;
}
