/*
 * fuzz_xml.c - any body as each of the documents clients send, whole and cut. The first byte
 * chooses the kind, the second the size of the pieces. Results agree, tables keep their bounds, and
 * keys that were read can be written and read again.
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
        }
        s3_doc_free(whole);
        s3_doc_free(cut);
        return 0;
}
