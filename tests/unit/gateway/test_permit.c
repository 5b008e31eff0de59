/*
 * gateway/http/permit.c: every operation of the table asks whether it is permitted, with the
 * permission of its row, before anything else is looked for; and what reaches objects that a
 * request's path does not name asks for each (also test_get_batch.c, test_executor.c,
 * test_transfer_put.c).
 */
#include "gateway/s3/meta.h"
#include "gateway/s3/route.h"
#include "tests/unit/gateway/ops_fixture.h"

static bool nothing_is_permitted(const char *permission, struct s3_str bucket, struct s3_str key)
{
        return false;
}

/* A request that the operation's row fits. */
static void print_target(const struct gw_op *op, char *out, size_t size)
{
        static const char *const paths[] = {[GW_SERVICE] = "/", [GW_BUCKET] = "/absent", [GW_OBJECT] = "/absent/key"};
        bool part = op->sub != NULL && strcmp(op->sub, "uploadId") == 0;

        if (op->scope == GW_RESERVED)
                snprintf(out, size, "/" GW_RESERVED_NAME "/%s%s", op->path,
                         op->path[strlen(op->path) - 1] == '/' ? ID : "");
        else if (op->sub == NULL)
                snprintf(out, size, "%s", paths[op->scope]);
        else if (part && strcmp(op->method, "PUT") == 0)
                snprintf(out, size, "%s?partNumber=1&uploadId=" ID, paths[op->scope]);
        else
                snprintf(out, size, "%s?%s=%s", paths[op->scope], op->sub,
                         part                                ? ID
                         : strcmp(op->sub, "list-type") == 0 ? "2"
                                                             : "");
}

/* Which of the two a key of its body needs is not known yet. */
static bool asks_for_either(const struct gw_op *op)
{
        return op->scope == GW_BUCKET && op->of_version != NULL;
}

/* Rights that it always needs beside its own. */
static unsigned more_rights(const struct gw_op *op)
{
        unsigned count = 0;

        for (const struct gw_right *right = op->more; right != NULL && right->permission != NULL; right++)
                count += right->header == NULL;
        return count;
}

static void every_operation_asks(void **state)
{
        site_may = nothing_is_permitted;
        for (unsigned i = 0; i < gw_op_count; i++) {
                const struct gw_op *op = &gw_ops[i];
                struct s3_header header = {s3_str_of(op->header != NULL ? op->header : ""), S3_STR("/bucket/source")};
                unsigned lines = site.lines, asked = site_asked;
                char target[256];
                struct answer a;
                int fd = dial();

                print_target(op, target, sizeof(target));
                ask(fd, op->method, target, &header, op->header != NULL, NULL, NULL);
                read_answer(fd, &a, strcmp(op->method, "HEAD") == 0);
                EVENTUALLY(site.lines == lines + 1);
                assert_string_equal(site.last_operation, op->name);
                if (a.status != 403 || strcmp(site.last_error, "AccessDenied") != 0)
                        fail_msg("%s: %u %s", op->name, a.status, site.last_error);
                assert_int_equal(site_asked, asked + 1 + asks_for_either(op));
                assert_string_equal(site_asked_for, asks_for_either(op) ? op->of_version : op->permission);
                answer_free(&a);
                close(fd);
        }
}

static const char *forbidden;

static bool is_not_forbidden(const char *permission, struct s3_str bucket, struct s3_str key)
{
        return strcmp(permission, forbidden) != 0;
}

/* Which right it is about decides: that of a version, and those of what headers ask for. */
static void versions_and_headers_have_rights_of_their_own(void **state)
{
        static const struct {
                const char *method, *target;
                struct s3_header header;
                const char *needed, *other; /* other: is not asked for */
        } cases[] = {
                {"GET", "/bucket/key", {.name = S3_STR("")}, "s3:GetObject", "s3:GetObjectVersion"},
                {"GET", "/bucket/key?versionId=null", {.name = S3_STR("")}, "s3:GetObjectVersion", "s3:GetObject"},
                {"DELETE", "/bucket/key?versionId=null", {.name = S3_STR("")}, "s3:DeleteObjectVersion", "s3:DeleteObject"},
                {"GET", "/bucket?versions", {.name = S3_STR("")}, "s3:ListBucketVersions", "s3:ListBucket"},
                {"GET", "/bucket/key?tagging&versionId=null", {.name = S3_STR("")}, "s3:GetObjectVersionTagging", "s3:GetObjectTagging"},
                {"PUT", "/bucket/key?tagging&versionId=null", {.name = S3_STR("")}, "s3:PutObjectVersionTagging", "s3:PutObjectTagging"},
                {"DELETE", "/bucket/key?tagging&versionId=null", {.name = S3_STR("")}, "s3:DeleteObjectVersionTagging", "s3:DeleteObjectTagging"},
                {"GET", "/bucket/key?acl&versionId=null", {.name = S3_STR("")}, "s3:GetObjectVersionAcl", "s3:GetObjectAcl"},
                {"GET", "/bucket/key?attributes", {.name = S3_STR("")}, "s3:GetObject", "s3:GetObjectVersion"},
                {"GET", "/bucket/key?attributes&versionId=null", {.name = S3_STR("")}, "s3:GetObjectVersion", "s3:GetObject"},
                {"GET", "/bucket/key?attributes&versionId=null", {.name = S3_STR("")}, "s3:GetObjectVersionAttributes", "s3:GetObjectAttributes"},
                {"GET", "/bucket/key?retention&versionId=null", {.name = S3_STR("")}, "s3:GetObjectRetention", "s3:GetObjectVersion"},
                {"PUT", "/bucket/key", {S3_STR("x-amz-tagging"), S3_STR("a=b")}, "s3:PutObjectTagging", "s3:PutObjectRetention"},
                {"PUT", "/bucket/key", {S3_STR("x-amz-object-lock-mode"), S3_STR("GOVERNANCE")}, "s3:PutObjectRetention", "s3:PutObjectTagging"},
                {"POST", "/bucket/key?uploads", {S3_STR("x-amz-object-lock-legal-hold"), S3_STR("ON")}, "s3:PutObjectLegalHold", "s3:PutObjectRetention"},
                {"PUT", "/bucket/key", {S3_STR("x-amz-acl"), S3_STR("private")}, "s3:PutObjectAcl", "s3:PutObjectTagging"},
                {"DELETE", "/bucket/key?versionId=null", {S3_STR("x-amz-bypass-governance-retention"), S3_STR("true")}, "s3:BypassGovernanceRetention", "s3:DeleteObject"},
                {"DELETE", "/bucket/key", {S3_STR("x-amz-bypass-governance-retention"), S3_STR("False")}, "s3:DeleteObject", "s3:BypassGovernanceRetention"},
                {"PUT", "/bucket/key?retention", {S3_STR("x-amz-bypass-governance-retention"), S3_STR("true")}, "s3:BypassGovernanceRetention", "s3:PutObject"},
                {"PUT", "/another", {S3_STR("x-amz-bucket-object-lock-enabled"), S3_STR("true")}, "s3:PutBucketObjectLockConfiguration", "s3:PutBucketAcl"},
        };

        for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
                bool denied = i % 2 == 0;
                struct answer a;
                int fd = dial();

                forbidden = denied ? cases[i / 2].needed : cases[i / 2].other;
                site_may = is_not_forbidden;
                ask(fd, cases[i / 2].method, cases[i / 2].target, &cases[i / 2].header, cases[i / 2].header.name.len > 0, NULL, NULL);
                read_answer(fd, &a, false);
                if ((a.status == 403) != denied)
                        fail_msg("%s %s: %u without %s", cases[i / 2].method, cases[i / 2].target, a.status, forbidden);
                answer_free(&a);
                close(fd);
        }
}

static bool source_is_secret(const char *permission, struct s3_str bucket, struct s3_str key)
{
        return strcmp(permission, "s3:GetObject") != 0 || !s3_str_eq(bucket, S3_STR("bucket")) ||
               !s3_str_eq(key, S3_STR("source"));
}

/* To write the target is permitted, to read the source is not. */
static void copies_ask_for_their_source(void **state)
{
        static const struct s3_header source = {S3_STR("x-amz-copy-source"), S3_STR("/bucket/source")};
        static struct gw_meta meta;
        ssize_t len = gw_meta_encode(&meta, fake.upload_attrs, sizeof(fake.upload_attrs));
        int fd = dial();

        assert_true(len >= 0);
        fake.upload_rv = 0;
        fake.upload = (struct eng_object){.attrs = {(const char *)fake.upload_attrs, (size_t)len}};
        send_put(fd, "/bucket/source", "x", 1);
        expect(fd, 200, NULL);
        for (unsigned denied = 0; denied < 2; denied++) {
                site_may = denied ? source_is_secret : NULL;
                ask(fd, "PUT", "/bucket/copy", &source, 1, NULL, NULL);
                expect(fd, denied ? 403 : 200, denied ? "AccessDenied" : NULL);
                ask(fd, "PUT", "/bucket/copy?partNumber=1&uploadId=" ID, &source, 1, NULL, NULL);
                expect(fd, denied ? 403 : 200, denied ? "AccessDenied" : NULL);
        }
        close(fd);
}

/* A version of the source has its own right. */
static void copies_of_versions_ask_for_versions(void **state)
{
        static const struct s3_header source = {S3_STR("x-amz-copy-source"), S3_STR("/bucket/source?versionId=null")};
        int fd = dial();

        send_put(fd, "/bucket/source", "x", 1);
        expect(fd, 200, NULL);
        site_may = is_not_forbidden;
        forbidden = "s3:GetObjectVersion";
        ask(fd, "PUT", "/bucket/copy", &source, 1, NULL, NULL);
        expect(fd, 403, "AccessDenied");
        forbidden = "s3:GetObject";
        ask(fd, "PUT", "/bucket/copy", &source, 1, NULL, NULL);
        expect(fd, 200, NULL);
        close(fd);
}

/* DeleteObjects in the bucket, with this document: it is answered key by key. */
static void delete_keys(const char *body, struct answer *a)
{
        uint8_t md5[ERA_DIGEST_MAX];
        char text[S3_BASE64_SIZE(16)], more[64];
        int fd = dial();

        era_digest_of(ERA_MD5, body, strlen(body), md5);
        s3_base64_encode(md5, 16, text);
        snprintf(more, sizeof(more), "Content-MD5: %s\r\n", text);
        ask(fd, "POST", "/bucket?delete", NULL, 0, more, body);
        read_answer(fd, a, false);
        assert_int_equal(a->status, 200);
        close(fd);
}

static bool b_is_kept(const char *permission, struct s3_str bucket, struct s3_str key)
{
        return !s3_str_eq(key, S3_STR("b"));
}

static void deletes_ask_for_each_key(void **state)
{
        static const char body[] = "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key></Object></Delete>";
        struct answer a;

        site_may = b_is_kept;
        delete_keys(body, &a);
        has(&a, "<Deleted><Key>a</Key></Deleted>");
        has(&a, "<Error><Key>b</Key><Code>AccessDenied</Code>");
        answer_free(&a);
}

/* Each key by its own right, and the request by either of the two. */
static void deletes_tell_versions_apart(void **state)
{
        static const char body[] = "<Delete><Object><Key>a</Key></Object>"
                                   "<Object><Key>b</Key><VersionId>null</VersionId></Object></Delete>";
        struct answer a;

        site_may = is_not_forbidden;
        forbidden = "s3:DeleteObjectVersion";
        delete_keys(body, &a);
        has(&a, "<Deleted><Key>a</Key></Deleted>");
        has(&a, "<Error><Key>b</Key><VersionId>null</VersionId><Code>AccessDenied</Code>");
        answer_free(&a);
        forbidden = "s3:DeleteObject";
        delete_keys(body, &a);
        has(&a, "<Error><Key>a</Key><Code>AccessDenied</Code>");
        has(&a, "<Deleted><Key>b</Key><VersionId>null</VersionId></Deleted>");
        answer_free(&a);
}

/*
 * By their names, not by the permission that the gate looks at: what makes, changes or takes away.
 */
static bool changes(const struct gw_op *op)
{
        static const char *const begin[] = {"Put", "Delete", "Create", "Copy", "Upload", "Complete", "Abort"};

        for (unsigned i = 0; i < sizeof(begin) / sizeof(begin[0]); i++)
                if (strncmp(op->name, begin[i], strlen(begin[i])) == 0)
                        return true;
        return false;
}

/* Sends what the operation's row fits. True: it is refused because the store is read-only. */
static bool is_refused(const struct gw_op *op)
{
        struct s3_header header = {s3_str_of(op->header != NULL ? op->header : ""), S3_STR("/bucket/source")};
        unsigned lines = site.lines;
        bool refused;
        char target[256];
        struct answer a;
        int fd = dial();

        print_target(op, target, sizeof(target));
        ask(fd, op->method, target, &header, op->header != NULL, NULL, NULL);
        read_answer(fd, &a, strcmp(op->method, "HEAD") == 0);
        EVENTUALLY(site.lines == lines + 1);
        assert_string_equal(site.last_operation, op->name);
        refused = a.status == 403 && strcmp(site.last_error, "AccessDenied") == 0 && strstr(a.body, "is read-only") != NULL;
        answer_free(&a);
        close(fd);
        return refused;
}

/*
 * Every operation of the table: a new one that nobody thought of counts as a change, and fails here
 * if its name does not say so.
 */
static void read_only_refuses_what_changes(void **state)
{
        gw_read_only(site.gw, true);
        for (unsigned i = 0; i < gw_op_count; i++) {
                unsigned asked = site_asked;

                if (is_refused(&gw_ops[i]) != changes(&gw_ops[i]))
                        fail_msg("%s", gw_ops[i].name);
                assert_int_equal(site_asked, asked + (changes(&gw_ops[i]) ? 0 : 1 + more_rights(&gw_ops[i])));
        }
        EVENTUALLY(gw_changing(site.gw) == 0);
        gw_read_only(site.gw, false);
        for (unsigned i = 0; i < gw_op_count; i++)
                if (is_refused(&gw_ops[i]))
                        fail_msg("%s is refused", gw_ops[i].name);
        EVENTUALLY(gw_changing(site.gw) == 0);
}

/*
 * Switched on between a request's head and its keys: what the gate let through before is done, the
 * rest is refused key by key.
 */
static bool switch_on_at_b(const char *permission, struct s3_str bucket, struct s3_str key)
{
        if (s3_str_eq(key, S3_STR("b")))
                gw_read_only(site.gw, true);
        return true;
}

static void read_only_comes_between_keys(void **state)
{
        static const char body[] =
                "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key></Object><Object><Key>c</Key></Object></Delete>";
        struct answer a;

        site_may = switch_on_at_b;
        delete_keys(body, &a);
        has(&a, "<Deleted><Key>a</Key></Deleted>");
        has(&a, "<Deleted><Key>b</Key></Deleted>");
        has(&a, "<Error><Key>c</Key><Code>AccessDenied</Code>");
        answer_free(&a);
}

/* ---- users ----------------------------------------------------------------------------------- */

#define USER_KEY    "AKIAIOSFODNN7EXAMPLE"
#define USER_SECRET "another secret, of a user"

static bool user_signs(struct gw_loop *loop, const char *access_key, struct gw_credential *out)
{
        memset(out, 0, sizeof(*out));
        strcpy(out->access_key, USER_KEY);
        strcpy(out->secret_key, USER_SECRET);
        return strcmp(access_key, USER_KEY) == 0;
}

static struct gw_service service_with_user;

static int user_setup(void **state)
{
        site_open(NULL);
        service_with_user = *site.gw->service;
        service_with_user.signer = user_signs;
        site.gw->service = &service_with_user;
        site_access = USER_KEY;
        site_secret = USER_SECRET;
        return 0;
}

static int user_teardown(void **state)
{
        site_access = ACCESS_KEY;
        site_secret = SECRET_KEY;
        site_close();
        return 0;
}

static void user_asks(const struct gw_op *op, const char *error)
{
        struct s3_header header = {s3_str_of(op->header != NULL ? op->header : ""), S3_STR("/bucket/source")};
        unsigned lines = site.lines;
        char target[256];
        struct answer a;
        int fd = dial();

        print_target(op, target, sizeof(target));
        ask(fd, op->method, target, &header, op->header != NULL, NULL, NULL);
        read_answer(fd, &a, strcmp(op->method, "HEAD") == 0);
        EVENTUALLY(site.lines == lines + 1);
        if (a.status != 403 || strcmp(site.last_error, error) != 0)
                fail_msg("%s: %u %s", op->name, a.status, site.last_error);
        answer_free(&a);
        close(fd);
}

/* A user is known by his key, and may do nothing; a wrong secret and an unknown key are other answers. */
static void a_user_may_nothing(void **state)
{
        unsigned asked = site_asked;
        struct answer a;
        int fd;

        for (unsigned i = 0; i < gw_op_count; i++)
                user_asks(&gw_ops[i], "AccessDenied");
        assert_int_equal(site_asked, asked); /* refused for whom it is */
        site_secret = SECRET_KEY;
        user_asks(&gw_ops[0], "SignatureDoesNotMatch");
        site_access = "AKIAIOSFODNN7EXAMPLF";
        user_asks(&gw_ops[0], "InvalidAccessKeyId");
        site_access = ACCESS_KEY;
        fd = dial();
        send_signed(fd, "GET", "/", NULL); /* root still may */
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        answer_free(&a);
        close(fd);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(every_operation_asks, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(versions_and_headers_have_rights_of_their_own, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(copies_ask_for_their_source, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(copies_of_versions_ask_for_versions, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(deletes_ask_for_each_key, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(deletes_tell_versions_apart, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(read_only_refuses_what_changes, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(read_only_comes_between_keys, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(a_user_may_nothing, user_setup, user_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
