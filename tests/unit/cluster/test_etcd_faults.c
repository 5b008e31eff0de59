/*
 * test_etcd_faults.c - each allocation of the client of etcd fails once, in turn: nothing is lost or
 * left behind, and what is said of an outcome is still true.
 */
#include "tests/unit/cluster/fake_http.h"

#include "cluster/etcd_read.h"
#include "cluster/etcd_write.h"
#include "s3_json.h"

#define HEADER "\"header\":{\"cluster_id\":\"7\",\"member_id\":\"8\",\"revision\":\"20\",\"raft_term\":\"2\"}"
#define KEY(key)                                                                                                       \
        "{\"key\":\"" key "\",\"create_revision\":\"5\",\"mod_revision\":\"5\",\"version\":\"1\",\"value\":\"eA==\"}"
#define PAGE(keys, more) "{" HEADER ",\"kvs\":[" keys "],\"more\":" more "}"
#define TXN_DONE                                                                                                       \
        "{" HEADER                                                                                                     \
        ",\"succeeded\":true,\"responses\":[{\"response_put\":{}},{\"response_range\":{\"kvs\":[" KEY("YQ==") "]}}]}"
#define STATUS "{" HEADER ",\"version\":\"3.4.23\",\"leader\":\"8\",\"dbSize\":\"5\"}"
#define TOKEN  "{" HEADER ",\"token\":\"first.1\"}"

/* ---- allocations that fail ------------------------------------------------------------------- */

static atomic_int countdown; /* the n-th one from now fails; 0 or less: none */

static bool fails_now(void)
{
        return atomic_load(&countdown) > 0 && atomic_fetch_sub(&countdown, 1) == 1;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_malloc(size_t size)
{
        return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
        return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
        return fails_now() ? NULL : __real_realloc(memory, size);
}

/* But jansson's: it has an assertion that fails then. */
static int faults_begin(void **state)
{
        s3_json_begin();
        json_set_alloc_funcs(__real_malloc, free);
        return loop_begin(state);
}

/* ---- readers and writers --------------------------------------------------------------------- */

static const struct cl_op ops[] = {{.kind = CL_OP_PUT, .key = {"a", 1}, .value = {"x", 1}},
                                   {.kind = CL_OP_RANGE, .key = {"a", 1}, .prefix = true}};
static const struct cl_request txn = {.kind = CL_TXN, .success = ops, .success_count = 2};

static int step_page(void)
{
        struct cl_request request = {.key = TEXT("a"), .prefix = true};
        struct cl_answer *answer = cl_answer_new(1);
        struct etcd_header header;
        const char *why;
        bool more;
        int rv = -ENOMEM;

        if (answer != NULL)
                rv = etcd_read_page(S3_STR(PAGE(KEY("YQ==") "," KEY("YWI="), "true")), &request, answer, &header, &more,
                                    &why);
        if (rv == 0)
                assert_true(answer->ranges[0].count == 2 && more);
        cl_answer_free(answer);
        return rv;
}

static int step_txn(void)
{
        struct cl_answer *answer = NULL;
        struct etcd_header header;
        const char *why;
        int rv = etcd_read_txn(S3_STR(TXN_DONE), &txn, &answer, &header, &why);

        assert_int_equal(answer != NULL, rv == 0);
        cl_answer_free(answer);
        return rv;
}

static int step_write(void)
{
        struct cl_request range = {.key = TEXT("a"), .prefix = true};
        struct etcd_page page = {.limit = 5};
        size_t len = 0;
        char *text = etcd_write_txn(&txn, &len), *other = etcd_write_range(&range, &page, &len);
        char *login = etcd_write_login("root", "pass", &len);
        int rv = text != NULL && other != NULL && login != NULL ? 0 : -ENOMEM;

        free(text);
        free(other);
        free(login);
        return rv;
}

static void test_readers(void **state)
{
        static int (*const steps[])(void) = {step_page, step_txn, step_write};
        unsigned i, n, left;
        int rv;

        for (i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
                for (n = 1, left = 0; left == 0; n++) {
                        atomic_store(&countdown, (int)n);
                        rv = steps[i]();
                        left = (unsigned)atomic_exchange(&countdown, 0);
                        assert_int_equal(rv, left > 0 ? 0 : -ENOMEM);
                        assert_true(n < 1000);
                }
                assert_true(n > 2);
        }
}

/* ---- the client ------------------------------------------------------------------------------ */

/* A login, then what was asked; more than once where a login was asked for again. */
static struct fake *server_of(const char *first, const char *second)
{
        struct fake_step steps[] = {
                {FAKE_ANSWER, 200, TOKEN, NULL}, {FAKE_ANSWER, 200, first, NULL}, {FAKE_ANSWER, 200, second, NULL}};

        return fake_start(steps, 3, 0);
}

/* One request whose n-th allocation fails. False: it has fewer. */
static bool one_fails(const struct cl_request *request, const char *first, const char *second, int n)
{
        struct cl_etcd_options options = {.user = "root", .password = "pass", .timeout_ms = 3000};
        struct fake *fake = server_of(first, second);
        struct cl_etcd *etcd = client_with(&options, "http", &fake->port, 1);
        struct asked asked = {.request = *request};
        bool failed;

        atomic_store(&countdown, n);
        ask(&asked, etcd);
        failed = atomic_exchange(&countdown, 0) == 0;
        switch (asked.request.outcome) {
        case CL_DONE:
                assert_int_equal(atomic_load(&fake->txns), request->kind == CL_TXN);
                if (request->kind == CL_RANGE)
                        assert_int_equal(asked.answer->ranges[0].count, 2);
                break;
        case CL_FAILED_SURE:
                assert_true(failed);
                assert_int_equal(atomic_load(&fake->txns), 0);
                break;
        case CL_UNKNOWN:
                assert_true(failed && request->kind == CL_TXN);
                assert_int_equal(atomic_load(&fake->txns), 1);
                break;
        }
        asked_free(&asked);
        cl_etcd_free(etcd);
        fake_stop(fake);
        return failed;
}

static void all_fail(const struct cl_request *request, const char *first, const char *second)
{
        int n = 1;

        while (one_fails(request, first, second, n) && n < 300)
                n++;
        assert_in_range(n, 5, 299);
}

static void test_client(void **state)
{
        struct cl_request range = {.kind = CL_RANGE, .key = TEXT("a"), .prefix = true}, status = {.kind = CL_STATUS};

        all_fail(&txn, TXN_DONE, TXN_DONE);
        all_fail(&range, PAGE(KEY("YQ==") "," KEY("YWI="), "false"), PAGE(KEY("YQ==") "," KEY("YWI="), "false"));
        all_fail(&status, STATUS, STATUS);
}

static void test_new(void **state)
{
        const char *url = "http://127.0.0.1:1";
        struct cl_etcd_options options = {.endpoints = &url, .endpoint_count = 1};
        struct cl_etcd *etcd = NULL;
        char why[CL_TEXT_MAX];

        atomic_store(&countdown, 1);
        assert_int_equal(cl_etcd_new(&options, &etcd, why, sizeof(why)), -ENOMEM);
        atomic_store(&countdown, 0);
        assert_null(etcd);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_readers),
                cmocka_unit_test(test_client),
                cmocka_unit_test(test_new),
        };

        return cmocka_run_group_tests(tests, faults_begin, loop_finish);
}
