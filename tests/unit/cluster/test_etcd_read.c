/*
 * test_etcd_read.c - what is believed of etcd's answers, what a refusal means, and what is written.
 */
#include "tests/unit/cluster/etcd_fixture.h"

#include "cluster/etcd_read.h"
#include "cluster/etcd_write.h"

#define HEADER "\"header\":{\"cluster_id\":\"7\",\"member_id\":\"8\",\"revision\":\"20\",\"raft_term\":\"2\"}"
#define KEY(key, mod, version)                                                                                         \
        "{\"key\":\"" key "\",\"create_revision\":\"5\",\"mod_revision\":\"" mod "\",\"version\":\"" version           \
        "\",\"value\":\"eA==\"}"
/* in base64: a YQ==, ab YWI=, ac YWM=, b Yg== */

/* ---- ranges ---------------------------------------------------------------------------------- */

static int read_page(const char *body, const struct cl_request *request, struct cl_answer **answer, bool *more)
{
        struct etcd_header header;
        const char *why = NULL;
        int rv;

        *answer = cl_answer_new(1);
        rv = etcd_read_page(s3_str_of(body), request, *answer, &header, more, &why);
        if (rv == -EBADMSG)
                assert_true(why != NULL && *why != '\0');
        if (rv == 0) {
                assert_int_equal(header.cluster_id, 7);
                assert_int_equal(header.member_id, 8);
                assert_int_equal(header.revision, 20);
                assert_int_equal(header.raft_term, 2);
        }
        return rv;
}

static void page_is(const char *body, bool prefix, int64_t oldest, int expected)
{
        struct cl_request request = {.key = TEXT("a"), .prefix = prefix, .min_mod_revision = oldest};
        struct cl_answer *answer;
        bool more;
        int rv = read_page(body, &request, &answer, &more);

        if (rv != expected)
                fprintf(stderr, "%d for %s\n", rv, body);
        assert_int_equal(rv, expected);
        cl_answer_free(answer);
}

static void test_pages(void **state)
{
        struct cl_request request = {.key = TEXT("a"), .prefix = true};
        struct cl_answer *answer;
        bool more;

        assert_int_equal(read_page("{" HEADER
                                   ",\"kvs\":[" KEY("YQ==", "5", "1") "," KEY("YWI=", "20", "3") "],"
                                                                                                 "\"more\":true}",
                                   &request, &answer, &more),
                         0);
        assert_true(more);
        assert_int_equal(answer->ranges[0].count, 2);
        assert_true(bytes_are(answer->ranges[0].at[1].key, "ab"));
        assert_true(bytes_are(answer->ranges[0].at[1].value, "x"));
        assert_int_equal(answer->ranges[0].at[1].mod_revision, 20);
        assert_int_equal(answer->ranges[0].at[1].create_revision, 5);
        assert_int_equal(answer->ranges[0].at[1].version, 3);
        cl_answer_free(answer);
        page_is("{" HEADER "}", true, 0, 0);
        page_is("{" HEADER ",\"kvs\":[],\"count\":\"0\"}", true, 0, 0);
        /* a value that is empty is left out */
        page_is("{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"create_revision\":\"5\",\"mod_revision\":\"5\",\"version\":"
                "\"1\"}]}",
                false, 0, 0);
}

static void test_wrong_keys(void **state)
{
        static const char *const wrong[] = {
                /* not asked for, out of order, twice */
                "{" HEADER ",\"kvs\":[" KEY("Yg==", "5", "1") "]}",
                "{" HEADER ",\"kvs\":[" KEY("", "5", "1") "]}",
                "{" HEADER ",\"kvs\":[" KEY("YWI=", "5", "1") "," KEY("YQ==", "5", "1") "]}",
                "{" HEADER ",\"kvs\":[" KEY("YQ==", "5", "1") "," KEY("YQ==", "5", "1") "]}",
                /* revisions */
                "{" HEADER ",\"kvs\":[" KEY("YQ==", "21", "1") "]}",
                "{" HEADER ",\"kvs\":[" KEY("YQ==", "4", "1") "]}",
                "{" HEADER ",\"kvs\":[" KEY("YQ==", "-5", "1") "]}",
                "{" HEADER ",\"kvs\":[" KEY("YQ==", "5", "0") "]}",
                "{" HEADER ",\"kvs\":[" KEY("YQ==", "5.0", "1") "]}",
                "{" HEADER ",\"kvs\":[" KEY("YQ==", "9223372036854775808", "1") "]}",
                "{" HEADER ",\"kvs\":[" KEY("YQ==", "", "1") "]}",
                "{" HEADER ",\"kvs\":[{\"key\":\"YQ==\",\"create_revision\":5,\"mod_revision\":5,\"version\":1}]}",
                /* base64 */
                "{" HEADER ",\"kvs\":[" KEY("YQ", "5", "1") "]}",
                "{" HEADER ",\"kvs\":[" KEY("Y===", "5", "1") "]}",
                "{" HEADER ",\"kvs\":[" KEY("====", "5", "1") "]}",
                "{" HEADER ",\"kvs\":[" KEY("YW-_", "5", "1") "]}",
                "{" HEADER ",\"kvs\":[" KEY("YR==", "5", "1") "]}",
                "{" HEADER ",\"kvs\":[" KEY("YQ==\\u0000", "5", "1") "]}",
                /* types */
                "{" HEADER ",\"kvs\":{}}",
                "{" HEADER ",\"kvs\":[1]}",
                "{" HEADER ",\"kvs\":[null]}",
                "{" HEADER ",\"kvs\":[" KEY("YQ==", "5", "1") "],\"more\":1}",
                "{" HEADER ",\"kvs\":[],\"more\":true}",
        };
        size_t i;

        for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
                page_is(wrong[i], true, 0, -EBADMSG);
        /* one key was asked for, and newer ones */
        page_is("{" HEADER ",\"kvs\":[" KEY("YWI=", "5", "1") "]}", false, 0, -EBADMSG);
        page_is("{" HEADER ",\"kvs\":[" KEY("YQ==", "9", "1") "]}", true, 10, -EBADMSG);
}

static void test_wrong_answers(void **state)
{
        static const char *const wrong[] = {
                "",
                " ",
                "null",
                "[]",
                "\"\"",
                "{",
                "{}",
                "{\"header\":1}",
                "{\"header\":{}}",
                "{" HEADER "} x",
                "{" HEADER "," HEADER "}",
                "{\"header\":{\"cluster_id\":\"7\",\"cluster_id\":\"7\",\"revision\":\"1\"}}",
                "{\"header\":{\"cluster_id\":\"7\"}}",
                "{\"header\":{\"revision\":\"7\"}}",
                "{\"header\":{\"cluster_id\":\"0\",\"revision\":\"1\"}}",
                "{\"header\":{\"cluster_id\":\"7\",\"revision\":\"0\"}}",
                "{\"header\":{\"cluster_id\":\"7\",\"revision\":\"-1\"}}",
                "{\"header\":{\"cluster_id\":\"7\",\"revision\":\"9223372036854775808\"}}",
                "{\"header\":{\"cluster_id\":\"18446744073709551616\",\"revision\":\"1\"}}",
                "{\"header\":{\"cluster_id\":7,\"revision\":\"1\"}}",
                "{\"header\":{\"cluster_id\":\"7\",\"revision\":\"1\",\"member_id\":null}}",
        };
        char *deep = malloc(200001);
        size_t i;

        for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
                page_is(wrong[i], true, 0, -EBADMSG);
        memset(deep, '[', 200000);
        deep[200000] = '\0';
        page_is(deep, true, 0, -EBADMSG);
        free(deep);
}

static void test_too_many_keys(void **state)
{
        static const char head[] = "{" HEADER ",\"kvs\":[";
        char *body = malloc(200 * (CL_PAGE_KEYS + 2)), *at = stpcpy(body, head);
        unsigned i;

        for (i = 0; i < CL_PAGE_KEYS + 1; i++)
                at = stpcpy(stpcpy(at, i > 0 ? "," : ""), KEY("YQ==", "5", "1"));
        strcpy(at, "]}");
        page_is(body, true, 0, -EBADMSG);
        free(body);
}

/* Keys behind those of the page before, and none newer than that. */
static void test_next_page(void **state)
{
        struct cl_request request = {.key = TEXT("a"), .prefix = true};
        struct cl_answer *answer = cl_answer_new(1);
        struct etcd_header header;
        const char *why;
        bool more;

        assert_int_equal(etcd_read_page(S3_STR("{" HEADER ",\"kvs\":[" KEY("YWI=", "5", "1") "],\"more\":true}"),
                                        &request, answer, &header, &more, &why),
                         0);
        answer->revision = 10;
        assert_int_equal(etcd_read_page(S3_STR("{" HEADER ",\"kvs\":[" KEY("YWM=", "11", "1") "]}"), &request, answer,
                                        &header, &more, &why),
                         -EBADMSG);
        assert_int_equal(etcd_read_page(S3_STR("{" HEADER ",\"kvs\":[" KEY("YWI=", "5", "1") "]}"), &request, answer,
                                        &header, &more, &why),
                         -EBADMSG);
        assert_int_equal(etcd_read_page(S3_STR("{" HEADER ",\"kvs\":[" KEY("YWM=", "10", "1") "]}"), &request, answer,
                                        &header, &more, &why),
                         0);
        assert_int_equal(answer->ranges[0].count, 2);
        cl_answer_free(answer);
}

static void test_answer_bound(void **state)
{
        struct cl_answer *answer = cl_answer_new(1);
        struct cl_key key = {.key = TEXT("k"), .value = {calloc(1, CL_VALUE_MAX), CL_VALUE_MAX}};
        unsigned count = 0;
        int rv;

        while ((rv = cl_answer_add(answer, 0, &key)) == 0 && count < 100)
                count++;
        assert_int_equal(rv, -EMSGSIZE);
        assert_int_equal(count, CL_ANSWER_MAX / (CL_VALUE_MAX + 1 + CL_KEY_COST));
        free((void *)key.value.data);
        cl_answer_hold(answer);
        cl_answer_free(answer);
        assert_int_equal(answer->ranges[0].count, count);
        cl_answer_free(answer);
        cl_answer_free(NULL);
}

/* ---- transactions ---------------------------------------------------------------------------- */

static const struct cl_op success[] = {{.kind = CL_OP_PUT, .key = {"a", 1}, .value = {"x", 1}},
                                       {.kind = CL_OP_RANGE, .key = {"a", 1}, .prefix = true},
                                       {.kind = CL_OP_DELETE, .key = {"b", 1}},
                                       {.kind = CL_OP_RANGE, .key = {"b", 1}}};
static const struct cl_op failure[] = {{.kind = CL_OP_RANGE, .key = {"a", 1}}};
static const struct cl_compare compare_a = {.kind = CL_COMPARE_MOD, .key = {"a", 1}};
static const struct cl_request txn = {.compares = &compare_a,
                                      .compare_count = 1,
                                      .kind = CL_TXN,
                                      .success = success,
                                      .success_count = 4,
                                      .failure = failure,
                                      .failure_count = 1};

#define PUT     "{\"response_put\":{\"header\":{\"revision\":\"20\"}}}"
#define DELETE  "{\"response_delete_range\":{\"deleted\":\"1\"}}"
#define RANGE   "{\"response_range\":{\"kvs\":[" KEY("YQ==", "5", "1") "],\"count\":\"1\"}}"
#define NOTHING "{\"response_range\":{}}"
#define OTHER   "{\"response_range\":{\"kvs\":[" KEY("Yg==", "5", "1") "]}}"

static int read_txn(const char *body, struct cl_answer **answer)
{
        struct etcd_header header;
        const char *why;

        *answer = NULL;
        return etcd_read_txn(s3_str_of(body), &txn, answer, &header, &why);
}

static void test_txn(void **state)
{
        struct cl_answer *answer;

        assert_int_equal(read_txn("{" HEADER ",\"succeeded\":true,\"responses\":[" PUT "," RANGE "," DELETE "," NOTHING
                                  "]}",
                                  &answer),
                         0);
        assert_true(answer->succeeded);
        assert_int_equal(answer->range_count, 2);
        assert_int_equal(answer->ranges[0].count, 1);
        assert_int_equal(answer->ranges[1].count, 0);
        cl_answer_free(answer);
        assert_int_equal(read_txn("{" HEADER ",\"responses\":[" RANGE "]}", &answer), 0);
        assert_false(answer->succeeded);
        assert_int_equal(answer->range_count, 1);
        assert_true(bytes_are(answer->ranges[0].at[0].key, "a"));
        cl_answer_free(answer);
}

static void test_wrong_txn(void **state)
{
        static const char *const wrong[] = {
                "{\"succeeded\":true,\"responses\":[" PUT "," RANGE "," DELETE "," NOTHING "]}",
                "{" HEADER ",\"succeeded\":1,\"responses\":[" PUT "," RANGE "," DELETE "," NOTHING "]}",
                "{" HEADER ",\"succeeded\":true,\"responses\":[" PUT "," RANGE "," DELETE "]}",
                "{" HEADER ",\"succeeded\":true,\"responses\":[" PUT "," RANGE "," DELETE "," NOTHING "," NOTHING "]}",
                "{" HEADER ",\"succeeded\":true,\"responses\":[" RANGE "," PUT "," DELETE "," NOTHING "]}",
                "{" HEADER ",\"succeeded\":true,\"responses\":[" PUT "," OTHER "," DELETE "," NOTHING "]}",
                "{" HEADER ",\"succeeded\":true,\"responses\":[" PUT "," RANGE "," DELETE ",1]}",
                "{" HEADER ",\"succeeded\":true}",
                "{" HEADER ",\"succeeded\":false}",
                "{" HEADER ",\"responses\":{}}",
                "{" HEADER ",\"responses\":[{\"response_range\":{},\"response_put\":{}}]}",
                "{" HEADER ",\"responses\":[{\"response_range\":[]}]}",
                "{" HEADER ",\"responses\":[" OTHER "]}",
        };
        struct etcd_header header;
        struct cl_answer *answer;
        const char *why;
        size_t i;

        for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
                assert_int_equal(read_txn(wrong[i], &answer), -EBADMSG);
                assert_null(answer);
        }
        /* without compares it cannot fail */
        assert_int_equal(
                etcd_read_txn(S3_STR("{" HEADER "}"), &(struct cl_request){.kind = CL_TXN}, &answer, &header, &why),
                -EBADMSG);
        /* more keys than one page */
        assert_int_equal(read_txn("{" HEADER
                                  ",\"responses\":[{\"response_range\":{\"kvs\":[" KEY("YQ==", "5", "1") "],\"more\":"
                                                                                                         "true}}]"
                                                                                                         "}",
                                  &answer),
                         -EMSGSIZE);
}

/* ---- status and login ------------------------------------------------------------------------ */

static void test_status(void **state)
{
        static const char *const wrong[] = {
                "{" HEADER "}",
                "{" HEADER ",\"version\":3}",
                "{" HEADER ",\"version\":\"0123456789012345678901234567890123456789\"}",
                "{" HEADER ",\"version\":\"3\\u0000\"}",
                "{" HEADER ",\"version\":\"3\",\"dbSize\":\"-1\"}",
                "{" HEADER ",\"version\":\"3\",\"leader\":3}",
                "{\"version\":\"3.4.23\"}",
        };
        struct etcd_header header;
        struct cl_status status;
        const char *why;
        size_t i;

        assert_int_equal(etcd_read_status(S3_STR("{" HEADER ",\"version\":\"3.4.23\",\"dbSize\":\"32768\","
                                                 "\"leader\":\"18446744073709551615\"}"),
                                          &status, &header, &why),
                         0);
        assert_string_equal(status.version, "3.4.23");
        assert_int_equal(status.db_size, 32768);
        assert_true(status.leader == UINT64_MAX);
        for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
                assert_int_equal(etcd_read_status(s3_str_of(wrong[i]), &status, &header, &why), -EBADMSG);
}

static void test_token(void **state)
{
        static const char *const wrong[] = {"{}",
                                            "{\"token\":\"\"}",
                                            "{\"token\":1}",
                                            "{\"token\":\"a\\r\\nX: y\"}",
                                            "{\"token\":\"a\\u0000b\"}",
                                            "{\"token\":\"a b\"}",
                                            "{\"token\":\"\xc3\xa4\"}"};
        char token[ETCD_TOKEN_MAX], *longest = malloc(ETCD_TOKEN_MAX + 64);
        const char *why;
        size_t i;

        assert_int_equal(etcd_read_token(S3_STR("{\"token\":\"abc.12\"}"), token, &why), 0);
        assert_string_equal(token, "abc.12");
        for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
                assert_int_equal(etcd_read_token(s3_str_of(wrong[i]), token, &why), -EBADMSG);
        for (i = ETCD_TOKEN_MAX - 1; i <= ETCD_TOKEN_MAX; i++) {
                snprintf(longest, ETCD_TOKEN_MAX + 64, "{\"token\":\"%0*d\"}", (int)i, 0);
                assert_int_equal(etcd_read_token(s3_str_of(longest), token, &why), i < ETCD_TOKEN_MAX ? 0 : -EBADMSG);
        }
        free(longest);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
        static const struct {
                const char *text;
                int code;
                enum etcd_refusal refusal;
        } cases[] = {
                {"etcdserver: duplicate key given in txn request", 3, ETCD_REFUSED},
                {"unexpected EOF", 3, ETCD_REFUSED},
                {"etcdserver: request is too large", 3, ETCD_REFUSED},
                {"etcdserver: permission denied", 7, ETCD_DENIED},
                {"RBAC: access denied", 7, ETCD_UNCLEAR},
                {"etcdserver: invalid auth token", 16, ETCD_TOKEN_OLD},
                {"etcdserver: revision of auth store is old", 3, ETCD_TOKEN_OLD},
                {"etcdserver: invalid auth token", 14, ETCD_UNCLEAR},
                {"etcdserver: user name is empty", 3, ETCD_REFUSED},
                {"etcdserver: authentication is not enabled", 9, ETCD_REFUSED},
                {"etcdserver: mvcc: required revision has been compacted", 11, ETCD_COMPACTED},
                {"etcdserver: mvcc: required revision is a future revision", 11, ETCD_REFUSED},
                {"etcdserver: too many requests", 8, ETCD_REFUSED},
                /* both come after the transaction was carried out */
                {"etcdserver: mvcc: database space exceeded", 8, ETCD_FULL},
                {"grpc: received message larger than max (5000000 vs. 4194304)", 8, ETCD_TOO_LARGE},
                {"grpc: something else", 8, ETCD_UNCLEAR},
                {"etcdserver: request timed out", 14, ETCD_UNCLEAR},
                {"etcdserver: no leader", 14, ETCD_UNCLEAR},
                {"etcdserver: leader changed", 14, ETCD_UNCLEAR},
                {"context deadline exceeded", 4, ETCD_UNCLEAR},
                {"context canceled", 1, ETCD_UNCLEAR},
                {"etcdserver: internal", 13, ETCD_UNCLEAR},
                {"etcdserver: corrupt cluster", 15, ETCD_UNCLEAR},
        };
        char body[512], text[CL_TEXT_MAX];
        size_t i;

        for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                snprintf(body, sizeof(body), "{\"error\":\"%s\",\"message\":\"x\",\"code\":%d}", cases[i].text,
                         cases[i].code);
                assert_int_equal(etcd_read_refusal(400, s3_str_of(body), text), cases[i].refusal);
                assert_string_equal(text, cases[i].text);
        }
}

static void test_refusals_of_others(void **state)
{
        static const char *const others[] = {"",
                                             "<html>503</html>",
                                             "{}",
                                             "{\"code\":3}",
                                             "{\"error\":\"etcdserver: x\"}",
                                             "{\"error\":\"etcdserver: x\",\"code\":\"3\"}",
                                             "{\"error\":3,\"code\":3}",
                                             "[]"};
        char text[CL_TEXT_MAX];
        size_t i;

        for (i = 0; i < sizeof(others) / sizeof(*others); i++) {
                assert_int_equal(etcd_read_refusal(503, s3_str_of(others[i]), text), ETCD_UNCLEAR);
                assert_string_equal(text, "status 503 of HTTP");
        }
        etcd_read_refusal(400, S3_STR("{\"error\":\"a\\nb\\u001b[1m\",\"code\":3}"), text);
        assert_string_equal(text, "a?b?[1m");
}

/* ---- what is written ------------------------------------------------------------------------- */

static void range_writes(const struct cl_request *request, const struct etcd_page *page, const char *expected)
{
        size_t len;
        char *text = etcd_write_range(request, page, &len);

        assert_int_equal(len, strlen(expected));
        assert_string_equal(text, expected);
        free(text);
}

static void test_write_range(void **state)
{
        struct etcd_page page = {.limit = 1000};
        struct cl_request request = {.key = TEXT("a")};

        range_writes(&request, &page, "{\"key\":\"YQ==\",\"limit\":\"1000\"}");
        request.prefix = true;
        request.min_mod_revision = 5;
        range_writes(&request, &page,
                     "{\"key\":\"YQ==\",\"range_end\":\"Yg==\",\"min_mod_revision\":\"5\",\"limit\":\"1000\"}");
        page = (struct etcd_page){.after = TEXT("ab"), .revision = INT64_MAX, .limit = 1};
        range_writes(&request, &page,
                     "{\"key\":\"YWIA\",\"range_end\":\"Yg==\",\"revision\":\"9223372036854775807\","
                     "\"min_mod_revision\":\"5\",\"limit\":\"1\"}");
}

static void test_prefix_end(void **state)
{
        uint8_t end[CL_KEY_MAX];

        assert_int_equal(etcd_prefix_end(TEXT("a\xff\xff"), end), 1);
        assert_memory_equal(end, "b", 1);
        assert_int_equal(etcd_prefix_end(TEXT("a\xff\x01"), end), 3);
        assert_memory_equal(end, "a\xff\x02", 3);
        assert_int_equal(etcd_prefix_end(TEXT("\xff\xff"), end), 1);
        assert_int_equal(end[0], 0);
}

static void test_write_txn(void **state)
{
        static const struct cl_compare compares[] = {
                {.kind = CL_COMPARE_MOD, .key = {"a", 1}, .number = 0},
                {.kind = CL_COMPARE_VERSION, .key = {"a", 1}, .number = 3},
                {.kind = CL_COMPARE_VALUE, .key = {"a", 1}, .value = {"x", 1}},
        };
        struct cl_request request = txn;
        size_t len;
        char *text;

        request.compares = compares;
        request.compare_count = 3;
        text = etcd_write_txn(&request, &len);
        assert_string_equal(text, "{\"compare\":["
                                  "{\"result\":\"EQUAL\",\"target\":\"MOD\",\"key\":\"YQ==\",\"mod_revision\":\"0\"},"
                                  "{\"result\":\"EQUAL\",\"target\":\"VERSION\",\"key\":\"YQ==\",\"version\":\"3\"},"
                                  "{\"result\":\"EQUAL\",\"target\":\"VALUE\",\"key\":\"YQ==\",\"value\":\"eA==\"}],"
                                  "\"success\":[{\"request_put\":{\"key\":\"YQ==\",\"value\":\"eA==\"}},"
                                  "{\"request_range\":{\"key\":\"YQ==\",\"range_end\":\"Yg==\",\"limit\":\"1000\"}},"
                                  "{\"request_delete_range\":{\"key\":\"Yg==\"}},"
                                  "{\"request_range\":{\"key\":\"Yg==\",\"limit\":\"1000\"}}],"
                                  "\"failure\":[{\"request_range\":{\"key\":\"YQ==\",\"limit\":\"1000\"}}]}");
        assert_int_equal(len, strlen(text));
        free(text);
        text = etcd_write_login("a\"b", "c\\d", &len);
        assert_string_equal(text, "{\"name\":\"a\\\"b\",\"password\":\"c\\\\d\"}");
        free(text);
}

/* ---- bounds of requests, R2 ------------------------------------------------------------------ */

static void test_request_bounds(void **state)
{
        char *large = calloc(1, CL_VALUE_MAX + 1);
        struct cl_op ops[CL_OPS_MAX + 1];
        struct cl_compare compare = {.key = TEXT("a")};
        struct cl_request request = {.kind = CL_RANGE};
        unsigned i;

        assert_int_equal(cl_request_check(&request), -EINVAL);
        request.key = (struct cl_bytes){large, CL_KEY_MAX};
        assert_int_equal(cl_request_check(&request), 0);
        request.key.len++;
        assert_int_equal(cl_request_check(&request), -EINVAL);
        request = (struct cl_request){.kind = CL_RANGE, .key = TEXT("a"), .at_revision = -1};
        assert_int_equal(cl_request_check(&request), -EINVAL);
        request = (struct cl_request){.kind = CL_TXN, .success = ops, .success_count = CL_OPS_MAX};
        for (i = 0; i <= CL_OPS_MAX; i++)
                ops[i] = (struct cl_op){.kind = CL_OP_RANGE, .key = TEXT("a")};
        assert_int_equal(cl_request_check(&request), 0);
        assert_false(cl_request_changes(&request));
        request.success_count++;
        assert_int_equal(cl_request_check(&request), -EINVAL);
        request.success_count = 1;
        ops[0] = (struct cl_op){.kind = CL_OP_PUT, .key = TEXT("a"), .value = {large, CL_TXN_BYTES_MAX - 1}};
        assert_int_equal(cl_request_check(&request), 0);
        assert_true(cl_request_changes(&request));
        ops[0].value.len++;
        assert_int_equal(cl_request_check(&request), -EINVAL);
        ops[0].value.len = 1;
        request.compares = &compare;
        request.compare_count = 1;
        assert_int_equal(cl_request_check(&request), 0);
        compare.number = -1;
        assert_int_equal(cl_request_check(&request), -EINVAL);
        compare.number = 0;
        request.compare_count = CL_COMPARES_MAX + 1;
        assert_int_equal(cl_request_check(&request), -EINVAL);
        request = (struct cl_request){.kind = CL_TXN, .failure = ops, .failure_count = 1};
        ops[0].kind = CL_OP_DELETE;
        assert_true(cl_request_changes(&request));
        request = (struct cl_request){.kind = (enum cl_kind)9};
        assert_int_equal(cl_request_check(&request), -EINVAL);
        free(large);
}

static void test_seen(void **state)
{
        struct cl_seen seen = {0};
        struct cl_generation found = {3, 4};

        assert_int_equal(cl_seen_judge(&seen, 7, 1), CL_SEEN_FINE);
        assert_true(cl_seen_add(&seen, 7, 10));
        assert_false(cl_seen_add(&seen, 7, 9));
        assert_int_equal(seen.revision, 10);
        assert_int_equal(cl_seen_judge(&seen, 7, 10), CL_SEEN_FINE);
        assert_int_equal(cl_seen_judge(&seen, 7, 11), CL_SEEN_FINE);
        assert_int_equal(cl_seen_judge(&seen, 7, 9), CL_SEEN_LOWER_REVISION);
        assert_int_equal(cl_seen_judge(&seen, 8, 11), CL_SEEN_OTHER_CLUSTER);
        assert_int_equal(cl_seen_judge(&seen, 8, 9), CL_SEEN_OTHER_CLUSTER);
        assert_int_equal(cl_generation_judge(&seen, &found), CL_SEEN_FINE);
        seen.generation = (struct cl_generation){3, 5};
        assert_int_equal(cl_generation_judge(&seen, &found), CL_SEEN_OTHER_GENERATION);
        seen.generation = (struct cl_generation){2, 4};
        assert_int_equal(cl_generation_judge(&seen, &found), CL_SEEN_OTHER_GENERATION);
        seen.generation = found;
        assert_int_equal(cl_generation_judge(&seen, &found), CL_SEEN_FINE);
        assert_non_null(strstr(cl_verdict_text(CL_SEEN_LOWER_REVISION), "backup"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pages),         cmocka_unit_test(test_wrong_keys),
                cmocka_unit_test(test_wrong_answers), cmocka_unit_test(test_too_many_keys),
                cmocka_unit_test(test_next_page),     cmocka_unit_test(test_answer_bound),
                cmocka_unit_test(test_txn),           cmocka_unit_test(test_wrong_txn),
                cmocka_unit_test(test_status),        cmocka_unit_test(test_token),
                cmocka_unit_test(test_refusals),      cmocka_unit_test(test_refusals_of_others),
                cmocka_unit_test(test_write_range),   cmocka_unit_test(test_prefix_end),
                cmocka_unit_test(test_write_txn),     cmocka_unit_test(test_request_bounds),
                cmocka_unit_test(test_seen),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
