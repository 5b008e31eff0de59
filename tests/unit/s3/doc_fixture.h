/*
 * doc_fixture.h - what the tests of configurations share: reading a document in pieces, and writing
 * what was read.
 */
#ifndef MILLRACE_TEST_DOC_FIXTURE_H
#define MILLRACE_TEST_DOC_FIXTURE_H

#include "tests/unit/s3/s3_fixture.h"

static struct s3_doc *doc;

/* The document stays in doc until the next call. */
static inline enum s3_error read_doc(enum s3_doc_kind kind, const char *text)
{
        enum s3_error error = S3_OK;
        size_t len = strlen(text), step = 1 + random_next() % 64;

        s3_doc_free(doc);
        assert_int_equal(s3_doc_new(kind, &doc), 0);
        for (size_t at = 0; at < len && error == S3_OK; at += step)
                error = s3_doc_feed(doc, text + at, step < len - at ? step : len - at);
        return error == S3_OK ? s3_doc_finish(doc) : error;
}

static inline int teardown(void **state)
{
        s3_doc_free(doc);
        doc = NULL;
        return 0;
}

/* message: what it has to say; NULL: the default one. */
static inline void expect_refused(enum s3_doc_kind kind, const char *text, enum s3_error wanted, const char *message)
{
        enum s3_error error = read_doc(kind, text);

        if (error != wanted)
                fail_msg("%s: %s, wanted %s", text, s3_error_info(error)->code, s3_error_info(wanted)->code);
        if (strcmp(message != NULL ? message : "", doc->message != NULL ? doc->message : "") != 0)
                fail_msg("%s: \"%s\", wanted \"%s\"", text, doc->message != NULL ? doc->message : "",
                         message != NULL ? message : "");
}

/* What a writer has written, against the text between the root's tags. Frees it. */
static inline void expect_written(struct s3_xml *xml, const char *root, const char *inside)
{
        char *text, *wanted = NULL;
        size_t len;

        assert_int_equal(s3_xml_take(xml, &text, &len), 0);
        assert_true(asprintf(&wanted, "<%s xmlns=\"" S3_XML_NAMESPACE "\">%s</%s>", root, inside, root) > 0);
        expect_str((struct s3_str){text, len}, wanted);
        free(wanted);
        free(text);
}

#endif
