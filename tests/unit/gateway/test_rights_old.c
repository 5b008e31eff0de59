/*
 * What a gateway knows of users and policies may be old: its lease is over, and its leader does what it is asked all the
 * same. Nothing is decided then, so nothing is done, whichever way a request comes in.
 */
#include <openssl/hmac.h>

#include "gateway/http/permit.h"
#include "gateway/http/http_request.h"
#include "tests/unit/gateway/pools_fixture.h"

#define DELETE_KEPT "<Delete><Object><Key>kept</Key></Object></Delete>"
#define KEPT_MD5    "v6AlUCiJRY2+bWDc6BQpTA=="
#define MAKE_BOB    "Action=CreateUser&Version=2010-05-08&UserName=bob"
#define BOB_SHA256  "39c73d01b8967b225aa9691ddfc8e21e587235c0e63951ff5fba27b8dc6c1450"
#define TAGS        "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"
#define B           "xYzZ"
#define FIELD(name, value) "--" B "\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"
#define FORM                                                                                                           \
        FIELD("key", "new") FIELD("policy", "%s") FIELD("x-amz-algorithm", "AWS4-HMAC-SHA256")                         \
        FIELD("x-amz-credential", "%s") FIELD("x-amz-date", "%s") FIELD("x-amz-signature", "%s")                       \
        "--" B "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nbytes\r\n--" B "--\r\n"
#define FORM_POLICY                                                                                                    \
        "{\"expiration\":\"2099-01-01T00:00:00Z\",\"conditions\":[{\"bucket\":\"%s\"},{\"key\":\"new\"},"                \
        "{\"x-amz-algorithm\":\"AWS4-HMAC-SHA256\"},{\"x-amz-credential\":\"%s\"},{\"x-amz-date\":\"%s\"}]}"
#define POLICY                                                                                                         \
        "{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Principal\":{\"Service\":"                       \
        "\"logging.s3.amazonaws.com\"},\"Action\":\"s3:PutObject\",\"Resource\":\"arn:aws:s3:::%s/*\"}]}"

static char bucket[32];

/* In the bucket, with one header more; NULL: with none. */
static unsigned change_it(const char *method, const char *rest, const char *body, const char *header, const char *value)
{
        struct s3_header headers[] = {{s3_str_of(header), s3_str_of(value)}};
        struct answer answer;
        char target[128];

        snprintf(target, sizeof(target), "/%s%s", bucket, rest);
        http_ask(method, target, body, headers, header != NULL, &answer);
        answer_free(&answer);
        return answer.status;
}

/* Its policy is signed, and who signs that may put the object. */
static void make_form(char *out, size_t size)
{
        char date[S3_DATE_AMZ_SIZE], day[9], credential[128], policy[512], text[1024], signature[65];
        struct s3_signing_key key;
        uint8_t mac[32];
        size_t len;
        unsigned i;

        s3_date_format_amz(lp_wall_ms(), date);
        snprintf(day, sizeof(day), "%.8s", date);
        snprintf(credential, sizeof(credential), "%s/%s/%s/s3/aws4_request", site_access, day, site_region);
        len = (size_t)snprintf(policy, sizeof(policy), FORM_POLICY, bucket, credential, date);
        s3_base64_encode(policy, len, text);
        s3_signing_key_derive(s3_str_of(site_secret), day, site_region, "s3", &key);
        assert_non_null(HMAC(EVP_sha256(), key.bytes, sizeof(key.bytes), (const uint8_t *)text, strlen(text), mac, NULL));
        for (i = 0; i < sizeof(mac); i++)
                snprintf(signature + 2 * i, 3, "%02x", mac[i]);
        assert_true((size_t)snprintf(out, size, FORM, text, credential, date, signature) < size);
}

static unsigned send_form(void)
{
        struct answer answer;
        char head[256], form[4096];
        int fd = dial();

        make_form(form, sizeof(form));
        snprintf(head, sizeof(head),
                 "POST /%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=" B
                 "\r\nContent-Length: %zu\r\n\r\n",
                 bucket, strlen(form));
        send_text(fd, head);
        send_text(fd, form);
        read_answer(fd, &answer, false);
        close(fd);
        answer_free(&answer);
        return answer.status;
}

static unsigned put_new(void)
{
        return change_it("PUT", "/new", "bytes", NULL, NULL);
}

static unsigned copy_kept(void)
{
        char source[64];

        snprintf(source, sizeof(source), "/%s/kept", bucket);
        return change_it("PUT", "/new", "", "x-amz-copy-source", source);
}

static unsigned tag_kept(void)
{
        return change_it("PUT", "/kept?tagging", TAGS, NULL, NULL);
}

static unsigned delete_policy(void)
{
        return change_it("DELETE", "?policy", "", NULL, NULL);
}

static unsigned delete_many(void)
{
        return change_it("POST", "?delete", DELETE_KEPT, "Content-MD5", KEPT_MD5);
}

static unsigned delete_kept(void)
{
        return change_it("DELETE", "/kept", "", NULL, NULL);
}

static unsigned make_bob(void)
{
        struct s3_header headers[] = {{S3_STR("Content-Type"), S3_STR("application/x-www-form-urlencoded")},
                                      {S3_STR("x-amz-content-sha256"), S3_STR(BOB_SHA256)}};
        struct answer answer;

        site_service = "iam";
        http_ask("POST", "/", MAKE_BOB, headers, 2, &answer);
        site_service = "s3";
        answer_free(&answer);
        return answer.status;
}

/* One after the other, and what each of them says where the lease lasts. */
static const struct {
        const char *name;
        unsigned (*change)(void);
        unsigned status;
} ways[] = {
        {"form", send_form, 204},       {"PUT", put_new, 200},
        {"copy", copy_kept, 200},       {"tags", tag_kept, 200},
        {"policy", delete_policy, 204}, {"DeleteObjects", delete_many, 200},
        {"DELETE", delete_kept, 204},
        {"IAM", make_bob, 404}, /* he is made, and the home is told of it by hand, later */
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void expect_status(unsigned way, unsigned status)
{
        unsigned said = ways[way].change();

        if (said != status)
                fail_msg("%s: %u", ways[way].name, said);
}

static bool has_bob(void)
{
        const struct gw_entity_name bob = {.kind = GW_USER, .account = GW_FIRST_ACCOUNT, .name = "bob"};
        struct eng_text *text;
        bool has = sf_text(&leader, 0, gw_entity_number(&bob), GW_USER, &text) == 0;

        if (has)
                eng_text_unref(text);
        return has;
}

static void find_bucket(void *arg)
{
        const struct eng_bucket *found;

        assert_int_equal(eng_bucket_get(first->store, (struct eng_str){bucket, strlen(bucket)}, &found), 0);
        *(uint64_t *)arg = found->id;
}

static uint64_t bucket_id(void)
{
        uint64_t id;

        hf_run(base->loops[0], find_bucket, &id);
        return id;
}

/* From here on alice signs, and the leader does what it is asked at any time. */
static void prepare(unsigned pool)
{
        char body[512], target[64];

        name_for(pool, bucket);
        make_user(&leader);
        make_bucket(bucket);
        assert_int_equal(http_object("PUT", bucket, "kept", "bytes"), 200);
        snprintf(target, sizeof(target), "/%s?policy", bucket);
        snprintf(body, sizeof(body), POLICY, bucket);
        assert_int_equal(http_status("PUT", target, body), 204);
        hf_follow(&hf);
        EVENTUALLY(http_plain("/minio/health/cluster") == 200); /* people are gone through first */
        be_user(true);
}

static void nothing_is_done(void)
{
        struct answer answer;
        char target[64];
        unsigned i;

        hf_lease(&hf, false);
        for (i = 0; i < WAYS; i++)
                expect_status(i, 503);
        hf_lease(&hf, true);
        hf_follow(&hf);
        expect_object(bucket, "kept", "bytes");
        assert_int_equal(http_object("GET", bucket, "new", ""), 404);
        snprintf(target, sizeof(target), "/%s/kept?tagging", bucket);
        http_ask("GET", target, "", NULL, 0, &answer);
        assert_int_equal(answer.status, 200);
        assert_null(strstr(answer.body, "<Key>"));
        answer_free(&answer);
        snprintf(target, sizeof(target), "/%s?policy", bucket);
        assert_int_equal(http_status("GET", target, ""), 200);
        assert_false(has_bob());
}

/* It was nothing but the lease. */
static void all_is_done(void)
{
        unsigned i;

        for (i = 0; i < WAYS; i++) {
                expect_status(i, ways[i].status);
                hf_follow(&hf);
        }
        assert_true(has_bob());
        be_user(false);
}

static void test_one_pool(void **state)
{
        prepare(FIRST);
        nothing_is_done();
        all_is_done();
}

/* The bucket's pool is current; who alice is, the first pool would know. */
static void test_only_the_directory(void **state)
{
        prepare(OTHER);
        nothing_is_done();
        all_is_done();
}

struct question {
        struct gw_request req;
        struct gw_ask ask;
        bool permitted;
};

static void ask_it(void *arg)
{
        struct question *q = arg;

        q->permitted = gw_permit(&q->ask, NULL);
}

/* In the middle of a request, about one more of its keys: what the bucket's policy says is not known, which is no refusal. */
static void test_only_the_bucket(void **state)
{
        static const char *const permissions[] = {"s3:DeleteObject", "s3:GetObject"};
        struct question q;
        unsigned i;

        name_for(OTHER, bucket);
        make_bucket(bucket);
        for (i = 0; i < 4; i++) {
                bool lasts = i >= 2;

                hf_lease(&hf, lasts);
                memset(&q, 0, sizeof(q));
                q.ask = (struct gw_ask){.loop = &gw->loops[0],
                                        .access_key = ACCESS_KEY,
                                        .req = &q.req,
                                        .permission = permissions[i % 2],
                                        .bucket = s3_str_of(bucket),
                                        .bucket_id = 1,
                                        .key = s3_str_of("k")};
                hf_run(base->loops[0], ask_it, &q);
                assert_false(q.permitted); /* another bucket is meant, as far as is known */
                assert_int_equal(q.req.undecided, !lasts);
        }
}

static int begin_slow_logs(void **state)
{
        site_logs_ms = 2000;
        return begin_home_alone(state);
}

static int end_slow_logs(void **state)
{
        site_logs_ms = 40;
        return end(state);
}

/* Whether the target's policy still lets logs be delivered is not known: they wait. */
static void test_logs(void **state)
{
        static const char logging[] =
                "<BucketLoggingStatus xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><LoggingEnabled><TargetBucket>%s</TargetBucket>"
                "<TargetPrefix>log/</TargetPrefix></LoggingEnabled></BucketLoggingStatus>";
        char body[512], target[64];
        char *list;
        bool more;
        int rv;

        prepare(FIRST);
        be_user(false);
        snprintf(target, sizeof(target), "/%s?logging", bucket);
        snprintf(body, sizeof(body), logging, bucket);
        assert_int_equal(http_status("PUT", target, body), 200);
        hf_follow(&hf);
        assert_int_equal(http_object("PUT", bucket, "logged", "bytes"), 200);
        hf_lease(&hf, false);
        sleep_ms(2800); /* it is tried again, and not given up yet */
        list = sf_list(&leader, 0, bucket_id(), "log/", "", "", 10, &rv, &more);
        assert_int_equal(rv, 0);
        assert_string_equal(list, "");
        free(list);
        hf_lease(&hf, true);
        EVENTUALLY(has_object_below(bucket, "log/"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_one_pool, begin_home_alone, end),
                cmocka_unit_test_setup_teardown(test_only_the_directory, begin_first_home, end),
                cmocka_unit_test_setup_teardown(test_only_the_bucket, begin_other_home, end),
                cmocka_unit_test_setup_teardown(test_logs, begin_slow_logs, end_slow_logs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
