/*
 * gateway/http/permit.c: every operation of the table asks whether it is permitted, with the
 * permission of its row, before anything else is looked for; and what reaches objects that a
 * request's path does not name asks for each (also test_get_batch.c, test_executor.c,
 * test_transfer_put.c).
 */
#include "gateway/http/permit.h"
#include "gateway/s3/meta.h"
#include "gateway/s3/route.h"
#include "tests/unit/gateway/people_fixture.h"

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
                assert_int_equal(site_asked, asked + 1 + (asks_for_either(op) || op->object_decides));
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
                {"PUT", "/bucket/key", {S3_STR("x-amz-tagging"), S3_STR("false")}, "s3:PutObjectTagging", "s3:PutObjectRetention"}, /* a tag of that name */
                {"POST", "/bucket/key?uploads", {S3_STR("x-amz-tagging"), S3_STR("FALSE")}, "s3:PutObjectTagging", "s3:PutObjectRetention"},
                {"POST", "/bucket/key?uploads", {S3_STR("x-amz-object-lock-legal-hold"), S3_STR("ON")}, "s3:PutObjectLegalHold", "s3:PutObjectRetention"},
                {"PUT", "/bucket/key", {S3_STR("x-amz-acl"), S3_STR("private")}, "s3:PutObjectAcl", "s3:PutObjectTagging"},
                {"DELETE", "/bucket/key?versionId=null", {S3_STR("x-amz-bypass-governance-retention"), S3_STR("true")}, "s3:BypassGovernanceRetention", "s3:DeleteObject"},
                {"DELETE", "/bucket/key", {S3_STR("x-amz-bypass-governance-retention"), S3_STR("False")}, "s3:DeleteObject", "s3:BypassGovernanceRetention"},
                {"PUT", "/bucket/key?retention", {S3_STR("x-amz-bypass-governance-retention"), S3_STR("true")}, "s3:BypassGovernanceRetention", "s3:PutObject"},
                {"PUT", "/bucket/key", {S3_STR("If-Match"), S3_STR("\"0123456789abcdef0123456789abcdef\"")}, "s3:GetObject", "s3:GetObjectVersion"},
                {"PUT", "/bucket/key", {S3_STR("If-Match"), S3_STR("*")}, "s3:PutObject", "s3:GetObject"},
                {"PUT", "/bucket/key", {S3_STR("If-None-Match"), S3_STR("*")}, "s3:PutObject", "s3:GetObject"},
                {"POST", "/bucket/key?uploadId=" ID, {S3_STR("If-Match"), S3_STR("0123456789abcdef0123456789abcdef")}, "s3:GetObject", "s3:GetObjectVersion"},
                {"DELETE", "/bucket/key", {S3_STR("If-Match"), S3_STR("x")}, "s3:GetObject", "s3:GetObjectVersion"},
                {"DELETE", "/bucket/key?versionId=null", {S3_STR("If-Match"), S3_STR("x")}, "s3:GetObjectVersion", "s3:GetObject"},
                {"DELETE", "/bucket/key", {S3_STR("If-Match"), S3_STR("*")}, "s3:DeleteObject", "s3:GetObject"},
                {"DELETE", "/bucket/key", {S3_STR("x-amz-if-match-size"), S3_STR("0")}, "s3:GetObject", "s3:GetObjectVersion"},
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

/* A condition of a key tells what is there: it needs the right to read (P23). */
static void conditions_of_keys_need_the_right_to_read(void **state)
{
        static const char body[] = "<Delete><Object><Key>a</Key><ETag>\"x\"</ETag></Object><Object><Key>b</Key><Size>1</Size></Object>"
                                   "<Object><Key>c</Key><ETag>*</ETag></Object></Delete>";
        struct answer a;

        site_may = is_not_forbidden;
        forbidden = "s3:GetObject";
        delete_keys(body, &a);
        has(&a, "<Error><Key>a</Key><Code>AccessDenied</Code>");
        has(&a, "<Error><Key>b</Key><Code>AccessDenied</Code>");
        has_not(&a, "<Key>c</Key><Code>AccessDenied</Code>");
        answer_free(&a);
        forbidden = "s3:GetObjectVersion";
        delete_keys(body, &a);
        has_not(&a, "AccessDenied");
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

/* It asks when the fields of its form are in: tests/integration/test_post_form.py. */
static bool is_form(const struct gw_op *op)
{
        return op->body == GW_BODY_FORM;
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

                if (is_form(&gw_ops[i]))
                        continue;
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

/* A user who signs, and is not in the directory, may do nothing; a wrong secret and an unknown key are other answers. */
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

/* ---- policies -------------------------------------------------------------------------------- */

/* What an operation of the table answers; its headers and target are as every_operation_asks() has them. */
static unsigned send_op(const struct gw_op *op, bool stranger)
{
        struct s3_header header = {s3_str_of(op->header != NULL ? op->header : ""), S3_STR("/bucket/source")};
        unsigned lines = site.lines, status;
        char target[256], line[128];

        print_target(op, target, sizeof(target));
        snprintf(line, sizeof(line), "%s%s", op->header != NULL ? op->header : "", op->header != NULL ? ": /bucket/source\r\n" : "");
        status = stranger ? send_stranger(op->method, target, line, "")
                          : send_as_is(op->method, target, op->header != NULL ? &header : NULL, NULL);
        EVENTUALLY(site.lines == lines + 1);
        fake.bucket_count = 1;
        return status;
}

/* A policy with just the rights that the operation's row names. */
static void print_rights(const struct gw_op *op, char *out, size_t size, const char *format)
{
        char actions[256];

        snprintf(actions, sizeof(actions), "[\"%s\"", op->permission);
        for (const struct gw_right *right = op->more; right != NULL && right->permission != NULL; right++)
                if (right->header == NULL)
                        snprintf(actions + strlen(actions), sizeof(actions) - strlen(actions), ",\"%s\"", right->permission);
        strcat(actions, "]");
        snprintf(out, size, format, actions);
}

/* Each operation: as anonymous, without a right, with its right alone, and with an explicit deny of it. */
static void each_operation_needs_its_right(void **state)
{
        char policy[1024];

        for (unsigned i = 0; i < gw_op_count; i++) {
                const struct gw_op *op = &gw_ops[i];

                if (is_form(op))
                        continue;
                if (send_op(op, true) != 403)
                        fail_msg("%s as anonymous", op->name);
                if (op->scope == GW_RESERVED || asks_for_either(op))
                        continue; /* key by key */
                be_user(NULL, NULL, NULL, false);
                if (send_op(op, false) != 403)
                        fail_msg("%s without a right", op->name);
                print_rights(op, policy, sizeof(policy), POLICY(ALLOW("%s", "\"*\"")));
                be_user(policy, NULL, NULL, false);
                if (send_op(op, false) == 403)
                        fail_msg("%s with %s: %s", op->name, policy, site.last_error);
                print_rights(op, policy, sizeof(policy), POLICY(ALLOW("\"s3:*\"", "\"*\"") "," DENY("%s", "\"*\"")));
                be_user(policy, NULL, NULL, false);
                if (send_op(op, false) != 403)
                        fail_msg("%s with an explicit deny", op->name);
        }
}

static void refusals_say_why(void **state)
{
        struct answer a;
        int fd = dial();

        be_user(NULL, NULL, NULL, false);
        send_signed(fd, "GET", "/bucket/a%3Cb", NULL);
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 403);
        has(&a, "User: arn:aws:iam::000000000001:user/alice is not authorized to perform: s3:GetObject on resource: ");
        has(&a, "arn:aws:s3:::bucket/a&lt;b");
        has(&a, "because no identity-based policy allows the s3:GetObject action");
        answer_free(&a);
        close(fd);
}

/* Identity policies come from everywhere they can; what is missing or cannot be read denies. */
static void policies_of_a_user(void **state)
{
        struct gw_entity group = {.who = {.kind = GW_GROUP, .account = GW_FIRST_ACCOUNT, .name = "staff"},
                                  .path = "/", .id = "AGPAEXAMPLE", .created_ms = 1};
        struct gw_entity managed = {.who = {.kind = GW_POLICY, .account = GW_FIRST_ACCOUNT, .name = "lists"},
                                    .path = "/", .id = "ANPAEXAMPLE", .version = "v1", .created_ms = 1};
        struct gw_pair own = {"own", POLICY(ALLOW("\"s3:ListBucket\"", "\"*\"")), 0}, version = {"v1", POLICY(ALLOW("\"s3:ListBucket\"", "\"*\"")), 1};

        be_user(NULL, NULL, NULL, true);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 403); /* there is no such group */
        group.sets[GW_SET_INLINE] = (struct gw_pairs){1, &own};
        keep_entity(&group);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 200);
        be_user(NULL, "arn:aws:iam::000000000001:policy/lists", NULL, false);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 403);
        managed.sets[GW_SET_VERSIONS] = (struct gw_pairs){1, &version};
        keep_entity(&managed);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 200);
        be_user(POLICY(ALLOW("\"s3:*\"", "\"*\"")), "arn:aws:iam::000000000001:policy/gone", NULL, false);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 403);
        be_user(POLICY(ALLOW("\"s3:*\"", "\"*\"")), NULL, "arn:aws:iam::000000000001:policy/lists", false);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 200);
        assert_int_equal(send_as_is("GET", "/bucket?cors", NULL, NULL), 403); /* beyond the boundary */
        be_user(POLICY(ALLOW("\"s3:*\"", "\"*\"")), NULL, "arn:aws:iam::000000000001:policy/gone", false);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 403);
        be_user("{\"Version\":\"2012-10-17\"}", "arn:aws:iam::aws:policy/AdministratorAccess", NULL, false);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 403); /* one that is no policy */
        be_user(NULL, "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess", NULL, false);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 200);
        assert_int_equal(send_as_is("DELETE", "/bucket/key", NULL, NULL), 403);
        be_user(NULL, "arn:aws:iam::aws:policy/NoSuchPolicy", NULL, false);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 403);
}

/* Only a bucket policy lets strangers in, and only where the public access block lets it. */
static void strangers_need_a_bucket_policy(void **state)
{
        be_root();
        assert_int_equal(send_as_is("PUT", "/bucket/public/x", NULL, "text"), 200);
        assert_int_equal(send_as_is("PUT", "/bucket/private", NULL, "text"), 200);
        bucket_policy(POLICY(TO_ALL("Allow", "s3:GetObject", "bucket/public/*", "")));
        assert_int_equal(send_stranger("GET", "/bucket/public/x", "", ""), 403); /* RestrictPublicBuckets */
        unblock_public(true);
        assert_int_equal(send_stranger("GET", "/bucket/public/x", "", ""), 200);
        assert_int_equal(send_stranger("HEAD", "/bucket/public/x", "", ""), 200);
        assert_int_equal(send_stranger("GET", "/bucket/private", "", ""), 403);
        assert_int_equal(send_stranger("GET", "/bucket/public/none", "", ""), 403); /* 404 is for those who list */
        assert_int_equal(send_stranger("GET", "/bucket/public/x?response-content-type=text/html", "", ""), 400);
        assert_int_equal(send_stranger("GET", "/bucket/public/x", "x-millrace-rdma-session: 00\r\n", ""), 403);
        assert_int_equal(send_stranger("GET", "/bucket/public/x", "x-amz-rdma-token: 00\r\n", ""), 403);
        bucket_policy(POLICY(TO_ALL("Allow", "s3:GetObject", "bucket/*", "") "," TO_ALL("Allow", "s3:ListBucket", "bucket", "")));
        assert_int_equal(send_stranger("GET", "/bucket/public/none", "", ""), 404);
        assert_int_equal(send_stranger("GET", "/bucket", "", ""), 200);
        assert_int_equal(send_stranger("PUT", "/bucket/new", "", "text"), 403);
        bucket_policy(POLICY(TO_ALL("Allow", "s3:*", "bucket/*", "") "," TO_ALL("Allow", "s3:*", "bucket", "")));
        assert_int_equal(send_stranger("PUT", "/bucket/new", "", "text"), 200);
        assert_int_equal(send_stranger("PUT", "/bucket/new", "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\r\nx-amz-decoded-content-length: 4\r\n", "text"), 403);
        assert_int_equal(send_stranger("GET", "/", "", ""), 403);
        assert_int_equal(send_stranger("PUT", "/bucket", "", ""), 403);
        assert_int_equal(send_stranger("POST", "/" GW_RESERVED_NAME "/v1/batch", "", ""), 403);
        assert_int_equal(send_stranger("POST", "/" GW_RESERVED_NAME "/rdma/v1/sessions", "", ""), 403);
}

/* Each key of a body, and the source of a copy, is asked for by itself. */
static void keys_and_sources_are_decided_one_by_one(void **state)
{
        static const char body[] = "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key></Object></Delete>";
        static const struct s3_header source = {S3_STR("x-amz-copy-source"), S3_STR("/bucket/source")},
                                      secret = {S3_STR("x-amz-copy-source"), S3_STR("bucket/secre%74")},
                                      none = {S3_STR("x-amz-copy-source"), S3_STR("/bucket/source-none")};
        struct answer a;

        be_root();
        assert_int_equal(send_as_is("PUT", "/bucket/source", NULL, "text"), 200);
        assert_int_equal(send_as_is("PUT", "/bucket/secret", NULL, "text"), 200);
        be_user(POLICY(ALLOW("\"s3:DeleteObject\"", "\"arn:aws:s3:::bucket/a\"") "," ALLOW("\"s3:PutObject\"", "\"*\"") "," ALLOW("\"s3:GetObject\"", "\"arn:aws:s3:::bucket/source*\"")),
                NULL, NULL, false);
        delete_keys(body, &a);
        has(&a, "<Deleted><Key>a</Key></Deleted>");
        has(&a, "<Error><Key>b</Key><Code>AccessDenied</Code>");
        answer_free(&a);
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &source, NULL), 200);
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &secret, NULL), 403);
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &none, NULL), 403); /* may not list */
        be_user(POLICY(ALLOW("\"s3:*\"", "\"*\"") ",{\"Effect\":\"Deny\",\"Action\":\"s3:PutObject\",\"Resource\":\"*\"" IF("StringLike", "s3:x-amz-copy-source", "bucket/secret") "}"),
                NULL, NULL, false);
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &source, NULL), 200);
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &secret, NULL), 403); /* however it is spelled */
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &none, NULL), 404);
}

/* What requests know of conditions: each allows one request and not the other. */
static void conditions_know_the_request(void **state)
{
        static const struct {
                const char *condition, *method, *yes, *no;
                struct s3_header header; /* of the one that is permitted */
        } cases[] = {
                {IF("IpAddress", "aws:SourceIp", "127.0.0.0/8"), "GET", "/bucket", NULL, {.name = S3_STR("")}},
                {IF("IpAddress", "aws:SourceIp", "10.0.0.0/8"), "GET", NULL, "/bucket", {.name = S3_STR("")}},
                {IF("Bool", "aws:SecureTransport", "true"), "GET", NULL, "/bucket", {.name = S3_STR("")}},
                {IF("Bool", "aws:SecureTransport", "false"), "GET", "/bucket", NULL, {.name = S3_STR("")}},
                {IF("DateGreaterThan", "aws:CurrentTime", "2020-01-01T00:00:00Z"), "GET", "/bucket", NULL, {.name = S3_STR("")}},
                {IF("NumericLessThan", "aws:EpochTime", "1000000000"), "GET", NULL, "/bucket", {.name = S3_STR("")}},
                {IF("StringEquals", "aws:PrincipalTag/Team", "blue"), "GET", "/bucket", NULL, {.name = S3_STR("")}},
                {IF("StringEquals", "aws:username", "alice"), "GET", "/bucket", NULL, {.name = S3_STR("")}},
                {IF("StringEquals", "aws:userid", "AIDAEXAMPLE"), "GET", "/bucket", NULL, {.name = S3_STR("")}},
                {IF("StringEquals", "s3:prefix", "home/"), "GET", "/bucket?prefix=home/", "/bucket?prefix=other/", {.name = S3_STR("")}},
                {IF("StringEquals", "s3:delimiter", "/"), "GET", "/bucket?delimiter=/", "/bucket", {.name = S3_STR("")}},
                {IF("NumericLessThanEquals", "s3:max-keys", "10"), "GET", "/bucket?max-keys=10", "/bucket?max-keys=11", {.name = S3_STR("")}},
                {IF("StringEquals", "s3:authType", "REST-HEADER"), "GET", "/bucket", NULL, {.name = S3_STR("")}},
                {IF("StringEquals", "s3:signatureversion", "AWS4-HMAC-SHA256"), "GET", "/bucket", NULL, {.name = S3_STR("")}},
                {IF("NumericLessThan", "s3:signatureAge", "600000"), "GET", "/bucket", NULL, {.name = S3_STR("")}},
                {IF("StringEquals", "s3:VersionId", "null"), "DELETE", "/bucket/k?versionId=null", "/bucket/k?versionId=abc", {.name = S3_STR("")}},
                {IF("StringEquals", "s3:x-amz-acl", "private"), "PUT", "/bucket/k", "/bucket/k", {S3_STR("x-amz-acl"), S3_STR("private")}},
                {IF("StringEquals", "s3:x-amz-storage-class", "STANDARD"), "PUT", "/bucket/k", "/bucket/k", {S3_STR("x-amz-storage-class"), S3_STR("STANDARD")}},
                {IF("Bool", "s3:ObjectCreationOperation", "true"), "PUT", "/bucket/k", "/bucket/k?partNumber=1&uploadId=" ID, {.name = S3_STR("")}},
                {IF("Bool", "s3:ObjectCreationOperation", "true"), "POST", "/bucket/k?uploadId=" ID, "/bucket/k?uploads", {.name = S3_STR("")}},
                {IF("Bool", "s3:ObjectCreationOperation", "false"), "POST", "/bucket/k?uploads", "/bucket/k?uploadId=" ID, {.name = S3_STR("")}},
                {IF("Bool", "s3:ObjectCreationOperation", "true"), "PUT", NULL, "/bucket/k?tagging", {.name = S3_STR("")}},
                {IF("ForAllValues:StringEquals", "s3:InventoryAccessibleOptionalFields", "Size"), "GET", "/bucket?inventory&id=a", NULL, {.name = S3_STR("")}},
                {IF("ForAllValues:StringEquals", "s3:InventoryAccessibleOptionalFields", "Size"), "PUT", NULL, "/bucket?inventory&id=a", {.name = S3_STR("")}},
                {IF("StringEquals", "s3:RequestObjectTag/a", "1"), "PUT", "/bucket/k", "/bucket/k", {S3_STR("x-amz-tagging"), S3_STR("a=1&b=2")}},
                {IF("ForAnyValue:StringEquals", "s3:RequestObjectTagKeys", "b"), "PUT", "/bucket/k", "/bucket/k", {S3_STR("x-amz-tagging"), S3_STR("a=1&b=2")}},
                {IF("StringEquals", "s3:ExistingObjectTag/a", "1"), "GET", "/bucket/k", "/bucket/none", {.name = S3_STR("")}},
                {IF("StringNotEquals", "s3:ExistingObjectTag/a", "1"), "DELETE", NULL, "/bucket/k", {.name = S3_STR("")}},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct s3_header *header = cases[i].header.name.len > 0 ? &cases[i].header : NULL;
                char policy[512];

                snprintf(policy, sizeof(policy), "{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Action\":\"s3:*\",\"Resource\":\"*\"%s}]}",
                         cases[i].condition);
                be_user(policy, NULL, NULL, false);
                if (cases[i].yes != NULL && send_as_is(cases[i].method, cases[i].yes, header, NULL) == 403)
                        fail_msg("%s is refused", policy);
                if (cases[i].no != NULL && send_as_is(cases[i].method, cases[i].no, NULL, NULL) != 403)
                        fail_msg("%s lets through", policy);
        }
}

/* An entry of a batch on an RDMA session: nothing of a request is there. */
struct batch_entry {
        struct lp_msg msg; /* first */
        bool permitted;
        atomic_bool answered;
};

static void ask_of_batch(struct lp_msg *msg)
{
        struct batch_entry *entry = (struct batch_entry *)msg;
        struct gw_ask ask = {.loop = &site.gw->loops[0],
                             .access_key = USER_KEY,
                             .permission = "s3:GetObject",
                             .bucket = S3_STR("bucket"),
                             .key = S3_STR("k"),
                             .implied = true};

        entry->permitted = gw_permit(&ask, NULL);
        atomic_store(&entry->answered, true);
}

static bool batch_permits(void)
{
        struct batch_entry entry = {.msg.run = ask_of_batch};

        lp_post(site.gw->loops[0].lp, &entry.msg);
        EVENTUALLY(atomic_load(&entry.answered));
        return entry.permitted;
}

/* Where a batch comes from is not known, so a policy about addresses keeps it out, whichever way it says so (P9). */
static void addresses_of_batches_are_unknown(void **state)
{
        static const char *const denies[] = {
                POLICY(TO_ALL("Deny", "s3:GetObject", "bucket/*", IF("IpAddress", "aws:SourceIp", "10.0.0.0/8"))),
                POLICY(TO_ALL("Deny", "s3:GetObject", "bucket/*", IF("NotIpAddress", "aws:SourceIp", "127.0.0.0/8"))),
                POLICY(TO_ALL("Deny", "s3:GetObject", "bucket/*", IF("IpAddressIfExists", "aws:SourceIp", "10.0.0.0/8"))),
        };

        be_root();
        assert_int_equal(send_as_is("PUT", "/bucket/k", NULL, "text"), 200);
        be_user(POLICY(ALLOW("\"s3:*\"", "\"*\"")), NULL, NULL, false);
        assert_true(batch_permits());
        for (size_t i = 0; i < sizeof(denies) / sizeof(denies[0]); i++) {
                bucket_policy(denies[i]);
                assert_false(batch_permits());
                assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 200);
        }
        bucket_policy("");
        be_user(POLICY("{\"Effect\":\"Allow\",\"Action\":\"s3:*\",\"Resource\":\"*\"" IF("NotIpAddress", "aws:SourceIp", "10.0.0.0/8") "}"), NULL, NULL, false);
        assert_false(batch_permits());
        assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 200);
}

/* What is not known at the gate holds for a Deny, unless the object's tags are looked at once it is found (P11, P20). */
static void unknown_keys_deny(void **state)
{
        be_root();
        assert_int_equal(send_as_is("PUT", "/bucket/k", NULL, "text"), 200);
        be_user(POLICY(ALLOW("\"s3:*\"", "\"*\"")), NULL, NULL, false);
        bucket_policy(POLICY(TO_ALL("Deny", "s3:GetObject", "bucket/*", IF("StringEquals", "s3:BucketTag/a", "1"))));
        assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 403);
        bucket_policy(POLICY(TO_ALL("Deny", "s3:DeleteObject", "bucket/*", IF("StringEquals", "s3:ExistingObjectTag/a", "1"))));
        assert_int_equal(send_as_is("DELETE", "/bucket/k", NULL, NULL), 403);
        bucket_policy(POLICY(TO_ALL("Deny", "s3:GetObject", "bucket/*", IF("StringEquals", "s3:ExistingObjectTag/a", "1"))));
        assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 200);
        assert_int_equal(send_as_is("PUT", "/bucket/k", NULL, "text"), 200);
}

/* The same of a variable of such a key, among the values of a condition or in a resource. */
static void unknown_variables_deny(void **state)
{
        static const char *const denies[] = {
                POLICY(TO_ALL("Deny", "s3:*Object", "bucket/*", IF("StringEquals", "aws:PrincipalType", "${s3:ExistingObjectTag/a}"))),
                POLICY(TO_ALL("Deny", "s3:*Object", "bucket/*", IF("ArnEquals", "aws:PrincipalArn", "arn:aws:iam::1:user/${s3:ExistingObjectTag/a}"))),
                POLICY(TO_ALL("Deny", "s3:*Object", "bucket/${s3:ExistingObjectTag/a}", "")),
        };

        be_root();
        assert_int_equal(send_as_is("PUT", "/bucket/k", NULL, "text"), 200);
        be_user(POLICY(ALLOW("\"s3:*\"", "\"*\"")), NULL, NULL, false);
        for (size_t i = 0; i < sizeof(denies) / sizeof(denies[0]); i++) {
                bucket_policy(denies[i]);
                assert_int_equal(send_as_is("DELETE", "/bucket/k", NULL, NULL), 403); /* its tags are not looked at */
                assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 200);    /* they are, and it has none */
        }
        bucket_policy("");
        be_user(POLICY("{\"Effect\":\"Allow\",\"Action\":\"s3:*\",\"Resource\":\"*\"" IF("StringNotEquals", "aws:PrincipalType", "${s3:ExistingObjectTag/a}") "}"), NULL, NULL, false);
        assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 200);
        assert_int_equal(send_as_is("DELETE", "/bucket/k", NULL, NULL), 403);
}

static unsigned put_policy(const char *text, bool confirmed)
{
        static const struct s3_header confirm = {S3_STR("x-amz-confirm-remove-self-bucket-access"), S3_STR("true")};

        return send_as_is("PUT", "/bucket?policy", confirmed ? &confirm : NULL, text);
}

/* Set, answered, public or not, taken away. */
static void bucket_policies_are_kept(void **state)
{
        static const char private[] = POLICY(TO_ALL("Allow", "s3:GetObject", "bucket/*", IF("IpAddress", "aws:SourceIp", "10.0.0.0/8")));
        static const char public[] = POLICY(TO_ALL("Allow", "s3:GetObject", "bucket/*", ""));
        struct answer a;
        int fd = dial();

        be_root();
        assert_int_equal(send_as_is("GET", "/bucket?policy", NULL, NULL), 404);
        assert_int_equal(send_as_is("GET", "/bucket?policyStatus", NULL, NULL), 404);
        assert_int_equal(put_policy("", false), 400);
        assert_int_equal(put_policy("{\"Version\":", false), 400);
        assert_int_equal(put_policy(POLICY(TO_ALL("Allow", "s3:GetObject", "other/*", "")), false), 400);
        assert_int_equal(put_policy(POLICY("{\"Effect\":\"Allow\",\"Principal\":{\"AWS\":\"arn:aws:iam::000000000001:user/nobody\"},\"Action\":\"s3:GetObject\",\"Resource\":\"arn:aws:s3:::bucket/*\"}"), false), 400);
        assert_int_equal(put_policy(public, false), 403); /* BlockPublicPolicy */
        assert_int_equal(put_policy(private, false), 204);
        send_signed(fd, "GET", "/bucket?policy", NULL);
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, private);
        answer_free(&a);
        send_signed(fd, "GET", "/bucket?policyStatus", NULL);
        read_answer(fd, &a, false);
        has(&a, "<IsPublic>false</IsPublic>");
        answer_free(&a);
        unblock_public(true);
        assert_int_equal(put_policy(public, false), 204);
        send_signed(fd, "GET", "/bucket?policyStatus", NULL);
        read_answer(fd, &a, false);
        has(&a, "<IsPublic>true</IsPublic>");
        answer_free(&a);
        close(fd);
        assert_int_equal(send_as_is("DELETE", "/bucket?policy", NULL, NULL), 204);
        assert_int_equal(send_as_is("GET", "/bucket?policy", NULL, NULL), 404);
}

static void shown_policy_has(const char *text)
{
        struct answer a;
        int fd = dial();

        be_root();
        send_signed(fd, "GET", "/bucket?policy", NULL);
        read_answer(fd, &a, false);
        has(&a, text);
        answer_free(&a);
        close(fd);
}

/* A policy means whom it named when it was set, not who has the name later (B1 to B4). */
static void policies_mean_whom_they_named(void **state)
{
        static const char to_alice[] = POLICY("{\"Effect\":\"Allow\",\"Principal\":{\"AWS\":\"arn:aws:iam::000000000001:user/alice\"},"
                                              "\"Action\":\"s3:GetObject\",\"Resource\":\"arn:aws:s3:::bucket/*\"}");

        be_user(NULL, NULL, NULL, false);
        be_root();
        assert_int_equal(send_as_is("PUT", "/bucket/k", NULL, "text"), 200);
        assert_int_equal(put_policy(to_alice, false), 204);
        be_alice_of("AIDAEXAMPLE", "/");
        assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 200);
        shown_policy_has("user/alice");
        be_alice_of("AIDAEXAMPLE", "/staff/");
        assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 200);
        shown_policy_has("user/staff/alice");
        be_alice_of("AIDAANOTHER", "/");
        assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 403);
        shown_policy_has("\"AIDAEXAMPLE\"");
        be_root();
        assert_int_equal(send_as_is("PUT", "/bucket?policy", NULL, POLICY(TO_ALL("Deny", "s3:GetObject", "bucket/*", "")) "\n#1\nAIDAANOTHER arn:aws:iam::000000000001:user/alice\n"), 400);
}

/* ---- ACLs and accounts ----------------------------------------------------------------------- */

#define OTHER    "000000000002"
#define OTHER_ID "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define OWNED(mode) "<OwnershipControls><Rule><ObjectOwnership>" mode "</ObjectOwnership></Rule></OwnershipControls>"

static void ownership(const char *text)
{
        fake_text_set(GW_TEXT_OWNERSHIP, (struct eng_str){text, strlen(text)});
}

/* The account 000000000002 is there, and site_access signs for its root, or a user of it with that policy. */
static void be_other(const char *policy, bool root)
{
        struct gw_entity account = {.who = {.kind = GW_ACCOUNT, .name = OTHER}, .id = OTHER_ID, .title = "other", .created_ms = 1};
        struct gw_entity key = {.who = {.kind = GW_ACCESS_KEY, .name = USER_KEY}, .owner = OTHER, .sealed = "x", .created_ms = 1, .active = 1};
        struct gw_entity user = {.who = {.kind = GW_USER, .account = OTHER, .name = "bob"}, .path = "/", .id = "AIDAOTHER", .created_ms = 1};

        one_inline.text = policy;
        user.sets[GW_SET_INLINE] = (struct gw_pairs){policy != NULL, &one_inline};
        if (!root)
                strcpy(key.who.of, "bob");
        keep_entity(&account);
        keep_entity(&key);
        keep_entity(&user);
        site_access = USER_KEY;
        site_secret = USER_SECRET;
}

static const struct s3_header grant_other = {S3_STR("x-amz-grant-full-control"), S3_STR("id=" OTHER_ID)},
                              read_other = {S3_STR("x-amz-grant-read"), S3_STR("id=" OTHER_ID)},
                              public_read = {S3_STR("x-amz-acl"), S3_STR("public-read")},
                              known_read = {S3_STR("x-amz-acl"), S3_STR("authenticated-read")},
                              private_acl = {S3_STR("x-amz-acl"), S3_STR("private")},
                              to_owner = {S3_STR("x-amz-acl"), S3_STR("bucket-owner-full-control")};

/* Where the bucket's owner owns all, ACLs are refused, and those from before count for nothing. */
static void acls_count_only_where_the_owner_says_so(void **state)
{
        be_root();
        assert_int_equal(send_as_is("PUT", "/bucket/k", &public_read, "text"), 400);
        assert_int_equal(send_as_is("PUT", "/bucket/k", &read_other, "text"), 400);
        assert_int_equal(send_as_is("PUT", "/bucket/k", &private_acl, "text"), 200);
        assert_int_equal(send_as_is("PUT", "/bucket/k", &to_owner, "text"), 200);
        assert_int_equal(send_as_is("PUT", "/bucket?acl", &public_read, NULL), 400);
        assert_int_equal(send_as_is("PUT", "/bucket/k?acl", &public_read, NULL), 400);
        ownership(OWNED("ObjectWriter"));
        assert_int_equal(send_as_is("PUT", "/bucket/k", &public_read, "text"), 403); /* BlockPublicAcls */
        assert_int_equal(send_as_is("PUT", "/bucket?acl", &public_read, NULL), 403);
        assert_int_equal(send_as_is("PUT", "/bucket/k?acl", &known_read, NULL), 403);
        unblock_public(true);
        assert_int_equal(send_as_is("PUT", "/bucket/k", &public_read, "text"), 200);
        assert_int_equal(send_stranger("GET", "/bucket/k", "", ""), 200);
        assert_int_equal(send_stranger("HEAD", "/bucket/k", "", ""), 200);
        assert_int_equal(send_stranger("GET", "/bucket/k?acl", "", ""), 403);
        assert_int_equal(send_stranger("GET", "/bucket/k?tagging", "", ""), 403);
        assert_int_equal(send_stranger("GET", "/bucket/none", "", ""), 403);
        assert_int_equal(send_stranger("DELETE", "/bucket/k", "", ""), 403);
        assert_int_equal(send_stranger("GET", "/bucket", "", ""), 403);
        unblock_public(false); /* IgnorePublicAcls */
        assert_int_equal(send_stranger("GET", "/bucket/k", "", ""), 403);
        unblock_public(true);
        ownership(OWNED("BucketOwnerEnforced"));
        assert_int_equal(send_stranger("GET", "/bucket/k", "", ""), 403);
        ownership(GW_TEXT_GONE); /* as before there was ownership */
        assert_int_equal(send_stranger("GET", "/bucket/k", "", ""), 200);
        bucket_policy(POLICY(TO_ALL("Deny", "s3:GetObject", "bucket/*", "")));
        assert_int_equal(send_stranger("GET", "/bucket/k", "", ""), 403); /* a Deny wins */
        be_root();
        assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 403);
}

/* Each permission of a bucket's ACL lets a stranger do what the table says, and nothing else. */
static void acls_of_a_bucket(void **state)
{
        be_root();
        ownership(OWNED("ObjectWriter"));
        unblock_public(true);
        assert_int_equal(send_as_is("PUT", "/bucket/k", NULL, "text"), 200);
        assert_int_equal(send_as_is("PUT", "/bucket?acl", &public_read, NULL), 200);
        assert_int_equal(send_stranger("GET", "/bucket", "", ""), 200);
        assert_int_equal(send_stranger("GET", "/bucket?uploads", "", ""), 200);
        assert_int_equal(send_stranger("GET", "/bucket?acl", "", ""), 403);
        assert_int_equal(send_stranger("GET", "/bucket?policy", "", ""), 403);
        assert_int_equal(send_stranger("GET", "/bucket/k", "", ""), 403); /* that is the object's to grant */
        assert_int_equal(send_stranger("PUT", "/bucket/new", "", "text"), 403);
        be_root();
        assert_int_equal(send_as_is("PUT", "/bucket?acl", &(struct s3_header){S3_STR("x-amz-acl"), S3_STR("public-read-write")}, NULL), 200);
        assert_int_equal(send_stranger("PUT", "/bucket/new", "", "text"), 200);
        assert_int_equal(send_stranger("DELETE", "/bucket/new", "", ""), 403);
        be_root();
        assert_int_equal(send_as_is("GET", "/bucket/new", NULL, NULL), 200); /* a stranger's is the bucket owner's */
        assert_int_equal(send_as_is("PUT", "/bucket?acl", &private_acl, NULL), 200);
        assert_int_equal(send_stranger("GET", "/bucket", "", ""), 403);
}

/* An account that is granted something passes it on by its own policies; its root needs none. */
static void acls_of_another_account(void **state)
{
        be_root();
        ownership(OWNED("ObjectWriter"));
        assert_int_equal(send_as_is("PUT", "/bucket/k", &read_other, "text"), 200);
        assert_int_equal(send_as_is("PUT", "/bucket/own", NULL, "text"), 200);
        assert_int_equal(send_as_is("PUT", "/bucket?acl", &grant_other, NULL), 200);
        be_other(NULL, true);
        assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 200);
        assert_int_equal(send_as_is("GET", "/bucket/own", NULL, NULL), 403);
        assert_int_equal(send_as_is("GET", "/bucket/none", NULL, NULL), 404); /* may list */
        assert_int_equal(send_as_is("PUT", "/bucket/k?acl", &private_acl, NULL), 403);
        assert_int_equal(send_as_is("GET", "/bucket?cors", NULL, NULL), 403);
        assert_int_equal(send_as_is("DELETE", "/bucket", NULL, NULL), 403);
        be_other(NULL, false);
        assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 403);
        be_other(POLICY(ALLOW("\"s3:*\"", "\"*\"")), false);
        assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 200);
        assert_int_equal(send_as_is("GET", "/bucket/own", NULL, NULL), 403);
        be_other(POLICY(ALLOW("\"s3:*\"", "\"*\"") "," DENY("\"s3:GetObject\"", "\"*\"")), false);
        assert_int_equal(send_as_is("GET", "/bucket/k", NULL, NULL), 403);
}

/* Who writes an object owns it, unless the bucket's owner is given it and wants it. */
static void writers_own_their_objects(void **state)
{
        static const struct s3_header source = {S3_STR("x-amz-copy-source"), S3_STR("/bucket/theirs")};

        be_root();
        ownership(OWNED("BucketOwnerPreferred"));
        assert_int_equal(send_as_is("PUT", "/bucket?acl", &grant_other, NULL), 200);
        be_other(NULL, true);
        assert_int_equal(send_as_is("PUT", "/bucket/theirs", NULL, "text"), 200);
        assert_int_equal(send_as_is("PUT", "/bucket/given", &to_owner, "text"), 200);
        assert_int_equal(send_as_is("GET", "/bucket/theirs", NULL, NULL), 200);
        assert_int_equal(send_as_is("GET", "/bucket/given", NULL, NULL), 403); /* the bucket owner's now */
        be_root();
        assert_int_equal(send_as_is("GET", "/bucket/theirs", NULL, NULL), 403);
        assert_int_equal(send_as_is("GET", "/bucket/theirs?acl", NULL, NULL), 403);
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &source, NULL), 403);
        assert_int_equal(send_as_is("GET", "/bucket/given", NULL, NULL), 200);
        bucket_policy(POLICY(TO_ALL("Allow", "s3:GetObject", "bucket/*", "")));
        unblock_public(true);
        assert_int_equal(send_stranger("GET", "/bucket/given", "", ""), 200);
        assert_int_equal(send_stranger("GET", "/bucket/theirs", "", ""), 403); /* not the bucket owner's to give */
        bucket_policy("");
        be_other(NULL, true);
        assert_int_equal(send_as_is("PUT", "/bucket/theirs?acl", &to_owner, NULL), 200);
        be_root();
        assert_int_equal(send_as_is("GET", "/bucket/theirs", NULL, NULL), 200); /* by its ACL */
        be_other(NULL, true);
        assert_int_equal(send_as_is("PUT", "/bucket/theirs?acl", &private_acl, NULL), 200);
        be_root();
        assert_int_equal(send_as_is("GET", "/bucket/theirs", NULL, NULL), 403);
        ownership(OWNED("BucketOwnerEnforced"));
        assert_int_equal(send_as_is("GET", "/bucket/theirs", NULL, NULL), 200); /* all is the bucket owner's */
        be_other(NULL, true);
        assert_int_equal(send_as_is("GET", "/bucket/theirs", NULL, NULL), 403);
}

static void list_buckets(struct answer *a)
{
        int fd = dial();

        send_signed(fd, "GET", "/", NULL);
        read_answer(fd, a, false);
        close(fd);
}

/* Who makes a bucket owns it: others neither see it in their list nor get in, the first account's root included. */
static void buckets_have_owners(void **state)
{
        static const struct s3_header theirs = {S3_STR("x-amz-expected-bucket-owner"), S3_STR(OTHER)},
                                      first = {S3_STR("x-amz-expected-bucket-owner"), S3_STR(GW_FIRST_ACCOUNT)},
                                      bad = {S3_STR("x-amz-expected-bucket-owner"), S3_STR("me")},
                                      source = {S3_STR("x-amz-copy-source"), S3_STR("/theirs/k")};
        struct answer a;

        be_other(NULL, true);
        assert_int_equal(send_as_is("PUT", "/theirs", NULL, NULL), 200);
        assert_int_equal(fake.buckets[1].attrs_len, 13);
        assert_int_equal(send_as_is("PUT", "/bucket", NULL, NULL), 409); /* BucketAlreadyExists */
        EVENTUALLY(last_error_is("BucketAlreadyExists"));
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 403);
        assert_int_equal(send_as_is("GET", "/theirs", &theirs, NULL), 200);
        assert_int_equal(send_as_is("GET", "/theirs", &first, NULL), 403);
        assert_int_equal(send_as_is("GET", "/theirs", &bad, NULL), 400);
        assert_int_equal(send_as_is("PUT", "/theirs/k", NULL, "text"), 200);
        list_buckets(&a);
        has(&a, "<Name>theirs</Name>");
        has(&a, "<Owner><ID>" OTHER_ID "</ID><DisplayName>other</DisplayName></Owner>");
        assert_null(strstr(a.body, "<Name>bucket</Name>"));
        answer_free(&a);
        be_root();
        list_buckets(&a);
        has(&a, "<Name>bucket</Name>");
        assert_null(strstr(a.body, "<Name>theirs</Name>"));
        answer_free(&a);
        assert_int_equal(send_as_is("GET", "/theirs", NULL, NULL), 403);
        assert_int_equal(send_as_is("GET", "/theirs/k", NULL, NULL), 403);
        assert_int_equal(send_as_is("PUT", "/theirs?policy", NULL, "{}"), 403);
        assert_int_equal(send_as_is("DELETE", "/theirs", NULL, NULL), 403);
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &source, NULL), 403);
        assert_int_equal(send_as_is("PUT", "/theirs", NULL, NULL), 409);
        EVENTUALLY(last_error_is("BucketAlreadyExists"));
        be_user(POLICY(ALLOW("\"s3:*\"", "\"*\"")), NULL, NULL, false);
        assert_int_equal(send_as_is("GET", "/theirs/k", NULL, NULL), 403);
        fake.buckets[1].attrs[0] = 9; /* nobody's */
        be_other(NULL, true);
        assert_int_equal(send_as_is("GET", "/theirs/k", NULL, NULL), 403);
        fake.bucket_count = 1;
}

/* A Deny binds root, too, but for the policy itself; users confirm that they lock themselves out. */
static void nobody_is_locked_out_by_mistake(void **state)
{
        static const char deny[] = POLICY(TO_ALL("Deny", "s3:*", "bucket", "") "," TO_ALL("Deny", "s3:*", "bucket/*", ""));

        be_user(POLICY(ALLOW("\"s3:*\"", "\"*\"")), NULL, NULL, false);
        assert_int_equal(put_policy(deny, false), 403);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 200);
        assert_int_equal(put_policy(deny, true), 204);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 403);
        assert_int_equal(send_as_is("DELETE", "/bucket?policy", NULL, NULL), 403);
        be_root();
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 403);
        assert_int_equal(put_policy(deny, false), 204);
        assert_int_equal(send_as_is("DELETE", "/bucket?policy", NULL, NULL), 204);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 200);
        bucket_policy("{ damaged");
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 403);
        be_user(POLICY(ALLOW("\"s3:*\"", "\"*\"")), NULL, NULL, false);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 403);
        assert_int_equal(send_as_is("DELETE", "/bucket?policy", NULL, NULL), 403);
        be_root();
        assert_int_equal(send_as_is("DELETE", "/bucket?policy", NULL, NULL), 204);
        assert_int_equal(send_as_is("GET", "/bucket", NULL, NULL), 200);
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
                cmocka_unit_test_setup_teardown(conditions_of_keys_need_the_right_to_read, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(read_only_refuses_what_changes, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(read_only_comes_between_keys, site_setup, site_teardown),
                cmocka_unit_test_setup_teardown(a_user_may_nothing, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(each_operation_needs_its_right, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(refusals_say_why, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(policies_of_a_user, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(strangers_need_a_bucket_policy, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(keys_and_sources_are_decided_one_by_one, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(conditions_know_the_request, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(addresses_of_batches_are_unknown, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(unknown_keys_deny, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(unknown_variables_deny, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(bucket_policies_are_kept, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(policies_mean_whom_they_named, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(nobody_is_locked_out_by_mistake, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(acls_count_only_where_the_owner_says_so, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(acls_of_a_bucket, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(acls_of_another_account, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(writers_own_their_objects, user_setup, user_teardown),
                cmocka_unit_test_setup_teardown(buckets_have_owners, user_setup, user_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
