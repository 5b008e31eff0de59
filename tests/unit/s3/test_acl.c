/*
 * s3/acl.c: canned ACLs, grants of headers, documents, the bytes that are kept, and whom they let do
 * what.
 */
#include <errno.h>

#include "tests/unit/s3/doc_fixture.h"

#define ID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define ALL  "http://acs.amazonaws.com/groups/global/AllUsers"

static struct s3_acl acl;

static enum s3_error canned(const char *name, bool of_bucket)
{
        struct s3_acl_owners owners = {S3_STR(ID_A), of_bucket ? S3_STR(ID_A) : S3_STR(ID_B), of_bucket};

        strcpy(acl.owner, "000000000001");
        return s3_acl_canned(s3_str_of(name), &owners, &acl);
}

static void canned_acls(void **state)
{
        static const struct {
                const char *name;
                bool of_bucket;
                unsigned count;
                bool public;
        } cases[] = {
                {"private", true, 1, false},
                {"public-read", true, 2, true},
                {"public-read-write", false, 3, true},
                {"authenticated-read", false, 2, true},
                {"aws-exec-read", false, 2, false},
                {"bucket-owner-read", false, 2, false},
                {"bucket-owner-read", true, 1, false},
                {"bucket-owner-full-control", false, 2, false},
                {"bucket-owner-full-control", true, 1, false},
                {"log-delivery-write", true, 3, false},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(canned(cases[i].name, cases[i].of_bucket), S3_OK);
                assert_int_equal(acl.count, cases[i].count);
                assert_int_equal(s3_acl_is_public(&acl), cases[i].public);
                assert_int_equal(s3_acl_is_private(&acl, S3_STR(ID_A)), cases[i].count == 1);
        }
        assert_int_equal(canned("log-delivery-write", false), S3_ERR_INVALID_ARGUMENT);
        assert_int_equal(canned("Private", true), S3_ERR_INVALID_ARGUMENT);
        assert_int_equal(canned("", true), S3_ERR_INVALID_ARGUMENT);
}

static enum s3_error header(const char *value, struct s3_acl_fault *fault)
{
        acl.count = 0;
        return s3_acl_header("x-amz-grant-read", s3_str_of(value), S3_ACL_READ, &acl, fault);
}

static void grants_of_headers(void **state)
{
        static const char *const wrong[] = {"", "id", "who=\"" ID_A "\"", "id=\"12\"", "id=", "uri=\"http://a/\"", "id=\"" ID_A "\",,",
                                            "id=\"" ID_A "0\""};
        struct s3_acl_fault fault;

        assert_int_equal(header("id=\"" ID_A "\", uri=\"" ALL "\" ,ID=" ID_B, &fault), S3_OK);
        assert_int_equal(acl.count, 3);
        assert_int_equal(acl.grant[1].grantee, S3_ACL_ALL_USERS);
        assert_int_equal(acl.grant[2].permission, S3_ACL_READ);
        assert_int_equal(header("emailAddress=\"a@b\"", &fault), S3_ERR_UNRESOLVABLE_GRANT);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                if (header(wrong[i], &fault) != S3_ERR_INVALID_ARGUMENT)
                        fail_msg("%s", wrong[i]);
                assert_non_null(fault.argument);
                assert_non_null(fault.message);
        }
        acl.count = S3_ACL_GRANTS_MAX;
        assert_int_equal(s3_acl_header("x", S3_STR("id=" ID_A), S3_ACL_READ, &acl, &fault), S3_ERR_MALFORMED_ACL);
}

#define POLICY(grants)                                                                                                 \
        "<AccessControlPolicy><Owner><ID>" ID_A "</ID></Owner><AccessControlList>" grants                              \
        "</AccessControlList></AccessControlPolicy>"
#define GRANT(who, what) "<Grant><Grantee>" who "</Grantee><Permission>" what "</Permission></Grant>"

static void documents(void **state)
{
        static const char *const malformed[] = {
                "<AccessControlPolicy/>",
                "<AccessControlPolicy><Owner><ID>a</ID></Owner></AccessControlPolicy>",
                POLICY(GRANT("<ID>" ID_A "</ID>", "LOOK")),
                POLICY(GRANT("<ID>" ID_A "</ID><URI>" ALL "</URI>", "READ")),
                POLICY(GRANT("", "READ")),
                POLICY("<Grant><Grantee><ID>" ID_A "</ID></Grantee></Grant>"),
                "<Other/>",
                "<AccessControlPolicy>",
        };
        struct s3_acl_fault fault;
        struct s3_str owner;
        static char many[64 << 10];

        for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++)
                expect_refused(S3_DOC_ACL, malformed[i], S3_ERR_MALFORMED_ACL, NULL);
        assert_int_equal(read_doc(S3_DOC_ACL, POLICY(GRANT("<ID> " ID_B " </ID>", "FULL_CONTROL") GRANT("<URI>" ALL "</URI>", "READ_ACP"))), S3_OK);
        assert_int_equal(s3_acl_of_config(doc->config, &acl, &owner, &fault), S3_OK);
        assert_int_equal(acl.count, 2);
        assert_true(s3_str_eq(owner, S3_STR(ID_A)));
        assert_int_equal(read_doc(S3_DOC_ACL, POLICY(GRANT("<EmailAddress>a@b</EmailAddress>", "READ"))), S3_OK);
        assert_int_equal(s3_acl_of_config(doc->config, &acl, &owner, &fault), S3_ERR_UNRESOLVABLE_GRANT);
        assert_int_equal(read_doc(S3_DOC_ACL, POLICY(GRANT("<ID>x</ID>", "READ"))), S3_OK);
        assert_int_equal(s3_acl_of_config(doc->config, &acl, &owner, &fault), S3_ERR_INVALID_ARGUMENT);
        assert_string_equal(fault.argument, "CanonicalUser/ID");
        assert_int_equal(read_doc(S3_DOC_ACL, POLICY(GRANT("<URI>x</URI>", "READ"))), S3_OK);
        assert_int_equal(s3_acl_of_config(doc->config, &acl, &owner, &fault), S3_ERR_INVALID_ARGUMENT);
        assert_string_equal(fault.argument, "Group/URI");
        assert_int_equal(read_doc(S3_DOC_ACL, ""), S3_OK);
        assert_true(doc->empty);

        strcpy(many, "<AccessControlPolicy><Owner><ID>" ID_A "</ID></Owner><AccessControlList>");
        for (unsigned i = 0; i <= S3_ACL_GRANTS_MAX; i++)
                strcat(many, GRANT("<ID>" ID_B "</ID>", "READ"));
        strcat(many, "</AccessControlList></AccessControlPolicy>");
        expect_refused(S3_DOC_ACL, many, S3_ERR_MALFORMED_ACL, NULL);
}

/* Each length cut, each byte changed: an error, or another ACL that is written as the same bytes. */
static void kept_bytes(void **state)
{
        uint8_t bytes[S3_ACL_BYTES_MAX], again[S3_ACL_BYTES_MAX];
        struct s3_acl read;
        size_t len;

        assert_int_equal(canned("bucket-owner-read", false), S3_OK);
        acl.grant[acl.count++] = (struct s3_grant){.permission = S3_ACL_READ, .grantee = S3_ACL_ALL_USERS};
        len = s3_acl_encode(&acl, bytes);
        assert_int_equal(s3_acl_decode(bytes, len, &read), 0);
        assert_string_equal(read.owner, "000000000001");
        assert_int_equal(read.count, 3);
        assert_int_equal(s3_acl_encode(&read, again), len);
        assert_memory_equal(bytes, again, len);
        for (size_t cut = 0; cut < len; cut++)
                assert_int_equal(s3_acl_decode(bytes, cut, &read), -EINVAL);
        assert_int_equal(s3_acl_decode(bytes, len + 1, &read), -EINVAL);
        for (size_t i = 0; i < len; i++)
                for (unsigned value = 0; value < 256; value++) {
                        uint8_t was = bytes[i];

                        bytes[i] = (uint8_t)value;
                        if (s3_acl_decode(bytes, len, &read) == 0) {
                                assert_int_equal(s3_acl_encode(&read, again), len);
                                assert_memory_equal(bytes, again, len);
                        }
                        bytes[i] = was;
                }
}

static void who_may_what(void **state)
{
        struct s3_acl_permissions a, b, nobody;

        assert_int_equal(canned("bucket-owner-read", false), S3_OK);
        acl.grant[acl.count++] = (struct s3_grant){.permission = S3_ACL_READ_ACP, .grantee = S3_ACL_AUTHENTICATED};
        acl.grant[acl.count++] = (struct s3_grant){.permission = S3_ACL_WRITE, .grantee = S3_ACL_LOG_DELIVERY};
        a = s3_acl_look(&acl, S3_STR(ID_A));
        b = s3_acl_look(&acl, S3_STR(ID_B));
        nobody = s3_acl_look(&acl, (struct s3_str){NULL, 0});
        assert_int_equal(a.by_id & (S3_ACL_READ | S3_ACL_WRITE_ACP), S3_ACL_READ | S3_ACL_WRITE_ACP);
        assert_int_equal(b.by_id, S3_ACL_READ);
        assert_int_equal(b.by_known, S3_ACL_READ_ACP);
        assert_int_equal(nobody.by_id | nobody.by_all, 0);
        /* zeroes are not the id of a group, nor of who has none */
        assert_int_equal(s3_acl_look(&acl, S3_STR("0000000000000000000000000000000000000000000000000000000000000000")).by_id, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(canned_acls),  cmocka_unit_test(grants_of_headers), cmocka_unit_test(documents),
                cmocka_unit_test(kept_bytes),   cmocka_unit_test(who_may_what),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, teardown);
}
