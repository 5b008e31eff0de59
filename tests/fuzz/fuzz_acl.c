/*
 * fuzz_acl.c - any bytes as an ACL that was kept, as grants of a header, and as a document. What is
 * accepted is written as the same bytes, or as a document that says the same.
 */
#include <assert.h>
#include <stdlib.h>

#include "s3.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct s3_acl acl;

static void check_kept(const uint8_t *data, size_t size)
{
        uint8_t again[S3_ACL_BYTES_MAX];

        if (s3_acl_decode(data, size, &acl) == 0)
                assert(s3_acl_encode(&acl, again) == size && memcmp(again, data, size) == 0);
}

static void check_round(const struct s3_acl *wanted)
{
        uint8_t bytes[S3_ACL_BYTES_MAX];
        size_t len = s3_acl_encode(wanted, bytes);

        assert(s3_acl_decode(bytes, len, &acl) == 0 && acl.count == wanted->count);
}

static void check_header(struct s3_str text)
{
        static struct s3_acl read = {.owner = "000000000001"};
        struct s3_acl_fault fault;

        read.count = 0;
        if (s3_acl_header("x-amz-grant-read", text, S3_ACL_READ, &read, &fault) == S3_OK)
                check_round(&read);
}

static void check_document(struct s3_str text)
{
        static struct s3_acl read = {.owner = "000000000001"};
        struct s3_acl_fault fault;
        struct s3_str owner;
        struct s3_doc *doc;

        if (s3_doc_read(S3_DOC_ACL, text, &doc) == S3_OK && !doc->empty &&
            s3_acl_of_config(doc->config, &read, &owner, &fault) == S3_OK)
                check_round(&read);
        s3_doc_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct s3_str text = {(const char *)data, size};

        check_kept(data, size);
        check_header(text);
        check_document(text);
        return 0;
}
