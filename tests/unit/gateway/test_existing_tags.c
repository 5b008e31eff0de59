/*
 * gateway/http/permit.c, gw_permit_early() and gw_ask_found(): what is decided when the object is found, by its tags,
 * and what may happen between the two questions (rules P20 to P22 of docs/design/rights.md). Each way in with a real
 * store: tests/integration/test_existing_tags.py.
 */
#include "tests/unit/gateway/people_fixture.h"

#define DRAFT(actions) POLICY("{\"Effect\":\"Allow\",\"Action\":" actions ",\"Resource\":\"*\"" IF("StringEquals", "s3:ExistingObjectTag/state", "draft") "}")
#define ALL_OF_IT      DRAFT("\"s3:*\"")
#define TAGGING(value) "<Tagging><TagSet><Tag><Key>state</Key><Value>" value "</Value></Tag></TagSet></Tagging>"

static const struct s3_header draft = {S3_STR("x-amz-tagging"), S3_STR("state=draft")},
                              final = {S3_STR("x-amz-tagging"), S3_STR("state=final")},
                              from_draft = {S3_STR("x-amz-copy-source"), S3_STR("/bucket/draft")},
                              from_final = {S3_STR("x-amz-copy-source"), S3_STR("/bucket/final")},
                              from_plain = {S3_STR("x-amz-copy-source"), S3_STR("/bucket/plain")},
                              full_control = {S3_STR("x-amz-acl"), S3_STR("bucket-owner-full-control")};

static void be_alice(const char *policy)
{
        be_user(policy, NULL, NULL, false);
}

static struct fake_object *object_of(const char *key)
{
        struct fake_object *o = fake_find(fake.buckets[0].id, key, strlen(key));

        assert_non_null(o);
        return o;
}

static int tags_setup(void **state)
{
        user_setup(state);
        be_root();
        assert_int_equal(send_as_is("PUT", "/bucket/draft", &draft, "text"), 200);
        assert_int_equal(send_as_is("PUT", "/bucket/final", &final, "text"), 200);
        assert_int_equal(send_as_is("PUT", "/bucket/plain", NULL, "text"), 200);
        return 0;
}

/* What AWS lists for the key: each of these is decided by the tag, and nothing else is. */
static void the_tag_decides(void **state)
{
        static const struct {
                const char *method, *query, *body;
                bool by_tag;
        } cases[] = {
                {"GET", "", NULL, true},
                {"HEAD", "", NULL, true},
                {"GET", "?attributes", NULL, true},
                {"GET", "?tagging", NULL, true},
                {"GET", "?acl", NULL, true},
                {"PUT", "?tagging", TAGGING("draft"), true},
                {"PUT", "", "text", false},
                {"POST", "?uploads", NULL, false},
                {"GET", "?retention", NULL, false},
                {"GET", "?legal-hold", NULL, false},
        };
        char target[64];

        be_alice(ALL_OF_IT);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                static const char *const keys[] = {"final", "plain", "none"};
                struct s3_header attributes = {S3_STR("x-amz-object-attributes"), S3_STR("ETag")};
                unsigned status;

                snprintf(target, sizeof(target), "/bucket/draft%s", cases[i].query);
                status = send_as_is(cases[i].method, target, &attributes, cases[i].body);
                if (status != (cases[i].by_tag ? 200 : 403))
                        fail_msg("%s %s: %u", cases[i].method, target, status);
                for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
                        snprintf(target, sizeof(target), "/bucket/%s%s", keys[k], cases[i].query);
                        status = send_as_is(cases[i].method, target, &attributes, cases[i].body);
                        if (status != 403)
                                fail_msg("%s %s: %u", cases[i].method, target, status);
                }
        }
        assert_int_equal(send_as_is("PUT", "/bucket/draft?acl", &full_control, NULL), 200);
        assert_int_equal(send_as_is("PUT", "/bucket/final?acl", &full_control, NULL), 403);
        assert_int_equal(send_as_is("DELETE", "/bucket/final?tagging", NULL, NULL), 403);
        assert_int_equal(send_as_is("DELETE", "/bucket/draft", NULL, NULL), 403); /* AWS has no such key there */
        assert_int_equal(send_as_is("DELETE", "/bucket/draft?tagging", NULL, NULL), 204);
        assert_int_equal(object_of("draft")->object.tags.len, 0);
        assert_int_equal(send_as_is("DELETE", "/bucket/draft?tagging", NULL, NULL), 403); /* it is no draft any more */
        assert_int_equal(send_as_is("GET", "/bucket/draft", NULL, NULL), 403);
}

/* The source of a copy is read like any object; its tags are read, too, where they are copied. */
static void sources_of_copies(void **state)
{
        static const char reads[] = POLICY(ALLOW("[\"s3:PutObject\",\"s3:PutObjectTagging\"]", "\"*\"") ","
                "{\"Effect\":\"Allow\",\"Action\":\"s3:GetObject\",\"Resource\":\"*\"" IF("StringEquals", "s3:ExistingObjectTag/state", "draft") "}");
        static const char reads_tags[] = POLICY(ALLOW("[\"s3:PutObject\",\"s3:PutObjectTagging\"]", "\"*\"") ","
                "{\"Effect\":\"Allow\",\"Action\":[\"s3:GetObject\",\"s3:GetObjectTagging\"],\"Resource\":\"*\"" IF("StringEquals", "s3:ExistingObjectTag/state", "draft") "}");

        be_alice(reads);
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &from_final, NULL), 403);
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &from_draft, NULL), 403); /* not its tags */
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &from_plain, NULL), 403); /* has no tags to be copied */
        be_alice(reads_tags);
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &from_draft, NULL), 200);
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &from_final, NULL), 403);
        assert_int_equal(send_as_is("PUT", "/bucket/copy", &(struct s3_header){S3_STR("x-amz-copy-source"), S3_STR("/bucket/none")}, NULL), 403);
        be_root();
        assert_int_equal(send_as_is("GET", "/bucket/copy", NULL, NULL), 200);
}

/* ---- between the two questions --------------------------------------------------------------- */

/* A request that has to look at the object, which is held there. */
static int begin_held(const char *method, const char *target, const struct s3_header *header, const char *body)
{
        int fd = dial();

        fake_set_hold();
        ask(fd, method, target, header, header != NULL, NULL, body);
        EVENTUALLY(fake_held() == 1);
        return fd;
}

static unsigned end_held(int fd)
{
        struct answer a;

        fake_release();
        read_answer(fd, &a, false);
        answer_free(&a);
        close(fd);
        return a.status;
}

static void swap_tags(const char *one, const char *other)
{
        struct fake_object *a = object_of(one), *b = object_of(other);

        assert_int_equal(a->object.tags.len, b->object.tags.len);
        memcpy(a->tags, b->tags, b->object.tags.len);
}

/* Tags that are changed before the look decide; after it they stop the change, which would undo them. */
static void tags_change_meanwhile(void **state)
{
        int fd;

        be_alice(ALL_OF_IT);
        fd = begin_held("PUT", "/bucket/draft?tagging", NULL, TAGGING("other"));
        swap_tags("draft", "final");
        assert_int_equal(end_held(fd), 403);
        be_root();
        assert_int_equal(send_as_is("PUT", "/bucket/draft", &draft, "text"), 200);
        be_alice(ALL_OF_IT);
        fd = begin_held("PUT", "/bucket/draft?tagging", NULL, TAGGING("other"));
        fake_release_held();
        EVENTUALLY(fake_held() == 1); /* it was permitted */
        swap_tags("draft", "final");
        assert_int_equal(end_held(fd), 409);
        EVENTUALLY(last_error_is("OperationAborted"));
        assert_memory_equal(object_of("draft")->tags, object_of("final")->tags, object_of("final")->object.tags.len);
        be_root();
        assert_int_equal(send_as_is("PUT", "/bucket/draft", &draft, "text"), 200);
        be_alice(ALL_OF_IT);
        fd = begin_held("DELETE", "/bucket/draft?tagging", NULL, NULL);
        fake_release_held();
        EVENTUALLY(fake_held() == 1);
        object_of("draft")->object.tags.len = 0;
        assert_int_equal(end_held(fd), 409);
}

/* An object that is written meanwhile is another one, also if it has the same tags: nobody has decided about it. */
static void objects_change_meanwhile(void **state)
{
        static const char owner_writes[] =
                "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>";
        int fd;

        fake_text_set(GW_TEXT_OWNERSHIP, (struct eng_str){owner_writes, sizeof(owner_writes) - 1});
        be_alice(ALL_OF_IT);
        fd = begin_held("PUT", "/bucket/draft?acl", &full_control, NULL);
        fake_release_held();
        EVENTUALLY(fake_held() == 1);
        object_of("draft")->object.id[0]++;
        assert_int_equal(end_held(fd), 409);
        fd = begin_held("PUT", "/bucket/draft?acl", &full_control, NULL);
        fake_release_held();
        EVENTUALLY(fake_held() == 1);
        swap_tags("draft", "final");
        assert_int_equal(end_held(fd), 409);
        assert_int_equal(send_as_is("PUT", "/bucket/draft?acl", &full_control, NULL), 403);
}

/* A bucket that was made again under the name has a policy about its own objects alone (P22). */
static void buckets_change_meanwhile(void **state)
{
        uint64_t id = fake.buckets[0].id;
        int fd;

        be_alice(ALL_OF_IT);
        fd = begin_held("GET", "/bucket/draft", NULL, NULL);
        fake.buckets[0].id = id + 77;
        assert_int_equal(end_held(fd), 403);
        fake.buckets[0].id = id;
        fd = begin_held("GET", "/bucket/draft", NULL, NULL);
        fake.bucket_count = 0;
        assert_int_equal(end_held(fd), 403);
        fake.bucket_count = 1;
        fd = begin_held("GET", "/bucket/draft", NULL, NULL);
        assert_int_equal(end_held(fd), 200);
}

/* A right that is taken away while the object is looked for is gone: the second question is asked from the beginning. */
static void policies_change_meanwhile(void **state)
{
        int fd;

        be_alice(ALL_OF_IT);
        fd = begin_held("GET", "/bucket/draft", NULL, NULL);
        be_alice(DRAFT("\"s3:PutObject\""));
        assert_int_equal(end_held(fd), 403);
        be_alice(POLICY(ALLOW("\"s3:GetObject\"", "\"*\"")));
        fd = begin_held("GET", "/bucket/draft", NULL, NULL); /* whatever the tags are: decided by then */
        be_alice(NULL);
        assert_int_equal(end_held(fd), 200);
}

/* Tags that cannot be read hold for a Deny and for no Allow. */
static void damaged_tags_are_unknown(void **state)
{
        object_of("draft")->tags[0] ^= 0xff;
        be_alice(ALL_OF_IT);
        assert_int_equal(send_as_is("GET", "/bucket/draft", NULL, NULL), 403);
        be_alice(POLICY(ALLOW("\"s3:GetObject\"", "\"*\"") ",{\"Effect\":\"Deny\",\"Action\":\"s3:*\",\"Resource\":\"*\"" IF("StringEquals", "s3:ExistingObjectTag/state", "final") "}"));
        assert_int_equal(send_as_is("GET", "/bucket/draft", NULL, NULL), 403);
        assert_int_equal(send_as_is("GET", "/bucket/plain", NULL, NULL), 200);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(the_tag_decides, tags_setup, user_teardown),
                cmocka_unit_test_setup_teardown(sources_of_copies, tags_setup, user_teardown),
                cmocka_unit_test_setup_teardown(tags_change_meanwhile, tags_setup, user_teardown),
                cmocka_unit_test_setup_teardown(objects_change_meanwhile, tags_setup, user_teardown),
                cmocka_unit_test_setup_teardown(buckets_change_meanwhile, tags_setup, user_teardown),
                cmocka_unit_test_setup_teardown(policies_change_meanwhile, tags_setup, user_teardown),
                cmocka_unit_test_setup_teardown(damaged_tags_are_unknown, tags_setup, user_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
