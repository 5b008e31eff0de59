/*
 * test_etcd_client.c - the client before servers that do what a real etcd does not: cut, hold,
 * redirect, lie. What it says of an outcome is right, and a transaction is sent once.
 */
#include "tests/unit/cluster/fake_http.h"

#define HEADER_AT(cluster, revision)                                                                                   \
        "\"header\":{\"cluster_id\":\"" cluster "\",\"member_id\":\"8\",\"revision\":\"" revision                      \
        "\",\"raft_term\":\"2\"}"
#define HEADER        HEADER_AT("7", "20")
#define NOTHING       "{" HEADER "}"
#define AT(revision)  "{" HEADER_AT("7", revision) "}"
#define TXN_DONE      "{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_put\":{}}]}"
#define REFUSAL(c, t) "{\"error\":\"" t "\",\"message\":\"" t "\",\"code\":" #c "}"
#define STEPS(...)                                                                                                     \
        (const struct fake_step[]){__VA_ARGS__}, sizeof((struct fake_step[]){__VA_ARGS__}) / sizeof(struct fake_step), 0

/* One request to one server that does one thing. */
static struct cl_request asked_of(enum cl_kind kind, enum fake_what what, int status, const char *body, unsigned ms,
                                  unsigned txns)
{
        struct fake *fake = fake_one(what, status, body);
        struct cl_etcd *etcd = client_of_port(fake->port);
        struct asked asked = {0};
        struct cl_request copy;
        struct cl_op op;

        if (kind == CL_TXN)
                ask_put(&asked, &op, "a", "x");
        else
                ask_range(&asked, "a", false);
        asked.request.kind = kind;
        asked.request.deadline = lp_clock() + ms * MS;
        ask(&asked, etcd);
        copy = asked.request;
        asked_free(&asked);
        cl_etcd_free(etcd);
        assert_int_equal(atomic_load(&fake->txns), txns);
        fake_stop(fake);
        return copy;
}

static void outcome_is(struct cl_request request, enum cl_outcome outcome, int error)
{
        if (request.outcome != outcome || request.error != error)
                fprintf(stderr, "outcome %d, error %d: %s\n", request.outcome, request.error, request.text);
        assert_int_equal(request.outcome, outcome);
        assert_int_equal(request.error, error);
}

/* ---- answers that are lost or wrong ---------------------------------------------------------- */

static void test_lost_answers(void **state)
{
        outcome_is(asked_of(CL_TXN, FAKE_ANSWER, 200, TXN_DONE, 5000, 1), CL_DONE, 0);
        outcome_is(asked_of(CL_TXN, FAKE_CUT, 200, TXN_DONE, 5000, 1), CL_UNKNOWN, -EHOSTUNREACH);
        outcome_is(asked_of(CL_TXN, FAKE_CLOSE, 0, "", 5000, 1), CL_UNKNOWN, -EHOSTUNREACH);
        outcome_is(asked_of(CL_TXN, FAKE_HOLD, 200, TXN_DONE, 1500, 1), CL_UNKNOWN, -ETIMEDOUT);
        outcome_is(asked_of(CL_TXN, FAKE_DRIP, 200, TXN_DONE, 1500, 1), CL_UNKNOWN, -ETIMEDOUT);
        outcome_is(asked_of(CL_RANGE, FAKE_CUT, 200, NOTHING, 2000, 0), CL_FAILED_SURE, -EHOSTUNREACH);
        outcome_is(asked_of(CL_RANGE, FAKE_CLOSE, 0, "", 2000, 0), CL_FAILED_SURE, -EHOSTUNREACH);
        outcome_is(asked_of(CL_RANGE, FAKE_HOLD, 200, NOTHING, 300, 0), CL_FAILED_SURE, -ETIMEDOUT);
}

static void test_wrong_answers(void **state)
{
        outcome_is(asked_of(CL_TXN, FAKE_ANSWER, 200, "{\"header\":", 5000, 1), CL_UNKNOWN, -EBADMSG);
        outcome_is(asked_of(CL_TXN, FAKE_ANSWER, 200, NOTHING, 5000, 1), CL_UNKNOWN, -EBADMSG);
        outcome_is(asked_of(CL_TXN, FAKE_ANSWER, 200, "", 5000, 1), CL_UNKNOWN, -EBADMSG);
        outcome_is(asked_of(CL_RANGE, FAKE_ANSWER, 200, "[[[", 5000, 0), CL_FAILED_SURE, -EBADMSG);
        outcome_is(asked_of(CL_RANGE, FAKE_ANSWER, 200, NOTHING, 5000, 0), CL_DONE, 0);
        outcome_is(asked_of(CL_STATUS, FAKE_ANSWER, 200, NOTHING, 5000, 0), CL_FAILED_SURE, -EBADMSG);
}

static void test_large_answers(void **state)
{
        outcome_is(asked_of(CL_TXN, FAKE_HUGE, 200, TXN_DONE, 20000, 1), CL_UNKNOWN, -EMSGSIZE);
        /* with ever smaller pages */
        outcome_is(asked_of(CL_RANGE, FAKE_HUGE, 200, NOTHING, 20000, 0), CL_FAILED_SURE, -EMSGSIZE);
        outcome_is(asked_of(CL_STATUS, FAKE_HUGE, 200, NOTHING, 20000, 0), CL_FAILED_SURE, -EMSGSIZE);
}

static void test_refusals(void **state)
{
        outcome_is(asked_of(CL_TXN, FAKE_ANSWER, 503, "busy", 5000, 1), CL_UNKNOWN, -EHOSTUNREACH);
        outcome_is(asked_of(CL_TXN, FAKE_ANSWER, 503, REFUSAL(14, "etcdserver: request timed out"), 5000, 1),
                   CL_UNKNOWN, -EHOSTUNREACH);
        outcome_is(asked_of(CL_TXN, FAKE_ANSWER, 429, REFUSAL(8, "etcdserver: mvcc: database space exceeded"), 5000, 1),
                   CL_UNKNOWN, -ENOSPC);
        outcome_is(asked_of(CL_TXN, FAKE_ANSWER, 429, REFUSAL(8, "grpc: received message larger than max"), 5000, 1),
                   CL_UNKNOWN, -EMSGSIZE);
        outcome_is(asked_of(CL_TXN, FAKE_ANSWER, 400, REFUSAL(3, "etcdserver: request is too large"), 5000, 1),
                   CL_FAILED_SURE, -EREMOTEIO);
        outcome_is(asked_of(CL_TXN, FAKE_ANSWER, 403, REFUSAL(7, "etcdserver: permission denied"), 5000, 1),
                   CL_FAILED_SURE, -EACCES);
        outcome_is(asked_of(CL_TXN, FAKE_ANSWER, 401, REFUSAL(16, "etcdserver: invalid auth token"), 5000, 1),
                   CL_FAILED_SURE, -EACCES);
        outcome_is(asked_of(CL_RANGE, FAKE_ANSWER, 503, "busy", 2000, 0), CL_FAILED_SURE, -EHOSTUNREACH);
        outcome_is(asked_of(CL_RANGE, FAKE_ANSWER, 400,
                            REFUSAL(11, "etcdserver: mvcc: required revision has been compacted"), 5000, 0),
                   CL_FAILED_SURE, -ESTALE);
}

/* Nobody is asked but an endpoint, whatever it says. */
static void test_redirect(void **state)
{
        struct fake *target = fake_one(FAKE_ANSWER, 200, TXN_DONE), *fake;
        char header[128];
        struct fake_step step = {FAKE_ANSWER, 307, "", header};
        struct cl_etcd *etcd;
        struct asked asked = {0};
        struct cl_op op;

        snprintf(header, sizeof(header), "Location: http://127.0.0.1:%u/v3/kv/txn\r\n", target->port);
        fake = fake_start(&step, 1, 0);
        etcd = client_of_port(fake->port);
        ask_put(&asked, &op, "a", "x");
        assert_int_equal(ask(&asked, etcd), CL_UNKNOWN);
        ask_range(&asked, "a", false);
        asked.request.deadline = lp_clock() + 200 * MS;
        assert_int_equal(ask(&asked, etcd), CL_FAILED_SURE);
        asked_free(&asked);
        cl_etcd_free(etcd);
        fake_stop(fake);
        assert_int_equal(atomic_load(&target->requests), 0);
        fake_stop(target);
}

/* libcurl would send it again by itself on a new connection. */
static void test_kept_connection_ends(void **state)
{
        struct fake *fake = fake_start(STEPS({FAKE_ANSWER, 200, NOTHING, NULL}, {FAKE_CLOSE, 0, "", NULL},
                                             {FAKE_ANSWER, 200, TXN_DONE, NULL}));
        struct cl_etcd *etcd = client_of_port(fake->port);
        struct asked asked = {0};
        struct cl_op op;

        ask_range(&asked, "a", false);
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        ask_put(&asked, &op, "a", "x");
        assert_int_equal(ask(&asked, etcd), CL_UNKNOWN);
        usleep(100000);
        assert_int_equal(atomic_load(&fake->txns), 1);
        /* the client itself goes on */
        assert_int_equal(asked_of(CL_TXN, FAKE_ANSWER, 200, TXN_DONE, 5000, 1).outcome, CL_DONE);
        asked_free(&asked);
        cl_etcd_free(etcd);
        fake_stop(fake);
}

/* ---- several endpoints ----------------------------------------------------------------------- */

static void test_next_endpoint(void **state)
{
        static const enum fake_what bad[] = {FAKE_CLOSE, FAKE_HOLD, FAKE_ANSWER, FAKE_CUT};
        struct asked asked = {0};
        struct cl_op op;
        size_t i;

        for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
                struct fake *first = fake_one(bad[i], 503, "busy"), *second = fake_one(FAKE_ANSWER, 200, NOTHING);
                uint16_t ports[] = {first->port, second->port};
                struct cl_etcd_options options = {.timeout_ms = 2000};
                struct cl_etcd *etcd = client_with(&options, "http", ports, 2);

                ask_range(&asked, "a", false);
                assert_int_equal(ask(&asked, etcd), CL_DONE);
                assert_int_equal(atomic_load(&first->requests), 1);
                /* the one that answers is asked first from then on */
                ask_range(&asked, "a", false);
                assert_int_equal(ask(&asked, etcd), CL_DONE);
                assert_int_equal(atomic_load(&first->requests), 1);
                asked_free(&asked);
                cl_etcd_free(etcd);
                /* a transaction does not go on */
                etcd = client_with(&options, "http", ports, 2);
                ask_put(&asked, &op, "a", "x");
                assert_int_equal(ask(&asked, etcd), CL_UNKNOWN);
                assert_int_equal(atomic_load(&first->txns), 1);
                assert_int_equal(atomic_load(&second->txns), 0);
                asked_free(&asked);
                cl_etcd_free(etcd);
                fake_stop(first);
                fake_stop(second);
        }
}

static void test_refused_connections(void **state)
{
        struct fake *fake = fake_one(FAKE_ANSWER, 200, TXN_DONE);
        uint16_t ports[] = {free_port(), free_port(), fake->port};
        struct cl_etcd_options options = {0};
        struct cl_etcd *etcd = client_with(&options, "http", ports, 3);
        struct asked asked = {0};
        struct cl_op op;

        ask_put(&asked, &op, "a", "x");
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_int_equal(atomic_load(&fake->txns), 1);
        asked_free(&asked);
        cl_etcd_free(etcd);
        etcd = client_with(&options, "http", ports, 2);
        ask_put(&asked, &op, "a", "x");
        asked.request.deadline = lp_clock() + 2000 * MS;
        assert_int_equal(ask(&asked, etcd), CL_FAILED_SURE);
        assert_int_equal(asked.request.error, -EHOSTUNREACH);
        asked_free(&asked);
        cl_etcd_free(etcd);
        fake_stop(fake);
}

static void test_status_of_a_member(void **state)
{
        static const char body[] = "{" HEADER ",\"version\":\"3.4.23\",\"leader\":\"8\",\"dbSize\":\"5\"}";
        struct fake *fake = fake_one(FAKE_ANSWER, 200, body);
        uint16_t ports[] = {free_port(), fake->port};
        struct cl_etcd_options options = {0};
        struct cl_etcd *etcd = client_with(&options, "http", ports, 2);
        struct asked asked = {0};
        unsigned member;

        for (member = 0; member <= 3; member++) {
                asked.request = (struct cl_request){.kind = CL_STATUS, .member = member};
                assert_int_equal(ask(&asked, etcd), member == 0 || member == 2 ? CL_DONE : CL_FAILED_SURE);
                if (asked.answer != NULL) {
                        assert_string_equal(asked.answer->status.version, "3.4.23");
                        assert_int_equal(asked.answer->member_id, 8);
                        assert_int_equal(asked.answer->raft_term, 2);
                } else {
                        assert_int_equal(asked.request.error, member == 3 ? -EINVAL : -EHOSTUNREACH);
                }
                asked_free(&asked);
        }
        cl_etcd_free(etcd);
        fake_stop(fake);
}

/* ---- pages ----------------------------------------------------------------------------------- */

#define KEY(key)                                                                                                       \
        "{\"key\":\"" key "\",\"create_revision\":\"5\",\"mod_revision\":\"5\",\"version\":\"1\",\"value\":\"eA==\"}"
#define PAGE(revision, keys, more) "{" HEADER_AT("7", revision) ",\"kvs\":[" keys "],\"more\":" more "}"
#define COMPACTED                  REFUSAL(11, "etcdserver: mvcc: required revision has been compacted")

static void test_pages(void **state)
{
        struct fake *fake =
                fake_start(STEPS({FAKE_ANSWER, 200, PAGE("20", KEY("YQ=="), "true"), NULL}, {FAKE_CLOSE, 0, "", NULL},
                                 {FAKE_ANSWER, 200, PAGE("30", KEY("YWI="), "true"), NULL},
                                 {FAKE_ANSWER, 200, PAGE("31", KEY("YWM="), "false"), NULL}));
        struct cl_etcd *etcd = client_of_port(fake->port);
        struct asked asked = {0};
        struct cl_seen seen;

        ask_range(&asked, "a", true);
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_int_equal(asked.answer->revision, 20);
        assert_int_equal(asked.answer->ranges[0].count, 3);
        assert_true(fake_got(fake, 0, "{\"key\":\"YQ==\",\"range_end\":\"Yg==\",\"limit\":\"1000\"}"));
        assert_true(
                fake_got(fake, 1, "{\"key\":\"YQA=\",\"range_end\":\"Yg==\",\"revision\":\"20\",\"limit\":\"1000\"}"));
        assert_true(
                fake_got(fake, 3, "{\"key\":\"YWIA\",\"range_end\":\"Yg==\",\"revision\":\"20\",\"limit\":\"1000\"}"));
        cl_etcd_seen(etcd, &seen);
        assert_int_equal(seen.revision, 31);
        assert_int_equal(seen.cluster_id, 7);
        asked_free(&asked);
        cl_etcd_free(etcd);
        fake_stop(fake);
}

/* Between two pages the revision goes: all anew, some times. */
static void test_compacted_pages(void **state)
{
        struct fake *fake = fake_start(
                STEPS({FAKE_ANSWER, 200, PAGE("20", KEY("YQ=="), "true"), NULL}, {FAKE_ANSWER, 400, COMPACTED, NULL},
                      {FAKE_ANSWER, 200, PAGE("30", KEY("YQ==") "," KEY("YWI="), "false"), NULL}));
        struct cl_etcd *etcd = client_of_port(fake->port);
        struct asked asked = {0};
        unsigned i;

        ask_range(&asked, "a", true);
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_int_equal(asked.answer->revision, 30);
        assert_int_equal(asked.answer->ranges[0].count, 2);
        asked_free(&asked);
        cl_etcd_free(etcd);
        for (i = 0; i < 10; i++)
                fake->steps[i] = (struct fake_step){FAKE_ANSWER, i % 2 == 0 ? 200 : 400,
                                                    i % 2 == 0 ? PAGE("40", KEY("YQ=="), "true") : COMPACTED, NULL};
        fake->step_count = 10;
        atomic_store(&fake->requests, 0);
        etcd = client_of_port(fake->port);
        ask_range(&asked, "a", true);
        assert_int_equal(ask(&asked, etcd), CL_FAILED_SURE);
        assert_int_equal(asked.request.error, -ESTALE);
        assert_int_equal(atomic_load(&fake->requests), 8);
        asked_free(&asked);
        cl_etcd_free(etcd);
        fake_stop(fake);
}

/* A wrong second page from one of two members, a right one from the other: nothing of the wrong one is left. */
static void test_wrong_page(void **state)
{
        struct fake *first =
                fake_start(STEPS({FAKE_ANSWER, 200, PAGE("20", KEY("YQ=="), "true"), NULL},
                                 {FAKE_ANSWER, 200, PAGE("20", KEY("YWI=") "," KEY("YQ=="), "false"), NULL}));
        struct fake *second = fake_one(FAKE_ANSWER, 200, PAGE("21", KEY("YQ==") "," KEY("YWM="), "false"));
        uint16_t ports[] = {first->port, second->port};
        struct cl_etcd_options options = {0};
        struct cl_etcd *etcd = client_with(&options, "http", ports, 2);
        struct asked asked = {0};

        ask_range(&asked, "a", true);
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_int_equal(asked.answer->revision, 21);
        assert_int_equal(asked.answer->ranges[0].count, 2);
        assert_true(bytes_are(asked.answer->ranges[0].at[1].key, "ac"));
        asked_free(&asked);
        cl_etcd_free(etcd);
        fake_stop(first);
        fake_stop(second);
}

/* ---- login ----------------------------------------------------------------------------------- */

#define TOKEN(token) "{" HEADER ",\"token\":\"" token "\"}"
#define OLD_TOKEN    REFUSAL(16, "etcdserver: invalid auth token")

static struct cl_etcd *client_with_login(uint16_t port)
{
        struct cl_etcd_options options = {.user = "root", .password = "pass"};

        return client_with(&options, "http", &port, 1);
}

static void test_login(void **state)
{
        struct fake *fake =
                fake_start(STEPS({FAKE_ANSWER, 200, TOKEN("first.1"), NULL}, {FAKE_ANSWER, 200, TXN_DONE, NULL},
                                 {FAKE_ANSWER, 401, OLD_TOKEN, NULL}, {FAKE_ANSWER, 200, TOKEN("second.2"), NULL},
                                 {FAKE_ANSWER, 200, TXN_DONE, NULL}));
        struct cl_etcd *etcd = client_with_login(fake->port);
        struct asked asked = {0};
        struct cl_op op;

        ask_put(&asked, &op, "a", "x");
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_true(fake_got(fake, 0, "{\"name\":\"root\",\"password\":\"pass\"}"));
        assert_true(fake_got(fake, 1, "Authorization: first.1\r\n"));
        /* refused as too old: it was not carried out, and goes once more */
        ask_put(&asked, &op, "a", "x");
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_true(fake_got(fake, 2, "Authorization: first.1\r\n"));
        assert_true(fake_got(fake, 4, "Authorization: second.2\r\n"));
        assert_int_equal(atomic_load(&fake->logins), 2);
        asked_free(&asked);
        cl_etcd_free(etcd);
        fake_stop(fake);
}

/* Nothing else has to wake the client: that would be once a second. */
static void test_logins_do_not_wait(void **state)
{
        enum { TIMES = 8 };
        uint64_t begun = lp_clock();
        unsigned i;

        for (i = 0; i < TIMES; i++) {
                struct fake *fake = fake_start(
                        STEPS({FAKE_ANSWER, 200, TOKEN("first.1"), NULL}, {FAKE_ANSWER, 200, TXN_DONE, NULL}));
                struct cl_etcd *etcd = client_with_login(fake->port);

                put_now(etcd, "a", "x");
                cl_etcd_free(etcd);
                fake_stop(fake);
        }
        assert_true(lp_clock() - begun < TIMES * 500 * MS);
}

static void test_login_fails(void **state)
{
        static const struct {
                struct fake_step step;
                int error;
        } cases[] = {
                {{FAKE_ANSWER, 400, REFUSAL(3, "etcdserver: authentication failed, invalid user ID or password"), NULL},
                 -EACCES},
                {{FAKE_ANSWER, 412, REFUSAL(9, "etcdserver: authentication is not enabled"), NULL}, -EACCES},
                {{FAKE_ANSWER, 200, TOKEN("a\\r\\nb"), NULL}, -EBADMSG},
                {{FAKE_ANSWER, 200, "{", NULL}, -EBADMSG},
                {{FAKE_HUGE, 200, "{", NULL}, -EMSGSIZE},
        };
        struct asked asked[3];
        struct cl_op ops[3];
        size_t i, k;

        memset(asked, 0, sizeof(asked));
        for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct fake *fake = fake_start(&cases[i].step, 1, 0);
                struct cl_etcd *etcd = client_with_login(fake->port);

                for (k = 0; k < 3; k++) {
                        ask_put(&asked[k], &ops[k], "a", "x");
                        ask_begin(&asked[k], etcd);
                }
                for (k = 0; k < 3; k++) {
                        assert_int_equal(ask_wait(&asked[k]), CL_FAILED_SURE);
                        assert_int_equal(asked[k].request.error, cases[i].error);
                        asked_free(&asked[k]);
                }
                assert_int_equal(atomic_load(&fake->txns), 0);
                cl_etcd_free(etcd);
                fake_stop(fake);
        }
}

/* A login that is never answered, and a token that is never good. */
static void test_login_without_end(void **state)
{
        struct fake_step steps[FAKE_STEPS];
        struct fake *fake = fake_one(FAKE_HOLD, 200, TOKEN("a"));
        struct cl_etcd *etcd = client_with_login(fake->port);
        struct asked asked = {0};
        unsigned i;

        ask_range(&asked, "a", false);
        asked.request.deadline = lp_clock() + 300 * MS;
        assert_int_equal(ask(&asked, etcd), CL_FAILED_SURE);
        assert_int_equal(asked.request.error, -ETIMEDOUT);
        asked_free(&asked);
        cl_etcd_free(etcd);
        fake_stop(fake);
        for (i = 0; i < FAKE_STEPS; i++)
                steps[i] = i % 2 == 0 ? (struct fake_step){FAKE_ANSWER, 200, TOKEN("a"), NULL}
                                      : (struct fake_step){FAKE_ANSWER, 401, OLD_TOKEN, NULL};
        fake = fake_start(steps, FAKE_STEPS, 0);
        etcd = client_with_login(fake->port);
        ask_range(&asked, "a", false);
        assert_int_equal(ask(&asked, etcd), CL_FAILED_SURE);
        assert_int_equal(asked.request.error, -EACCES);
        assert_int_equal(atomic_load(&fake->logins), 3);
        asked_free(&asked);
        cl_etcd_free(etcd);
        fake_stop(fake);
}

/* ---- R2 -------------------------------------------------------------------------------------- */

static atomic_int violations, violation;

static void on_violated(void *arg, enum cl_verdict verdict)
{
        atomic_fetch_add(&violations, 1);
        atomic_store(&violation, verdict);
}

static struct cl_etcd *client_that_saw(uint16_t port, uint64_t cluster, int64_t revision)
{
        struct cl_etcd_options options = {.seen = {.cluster_id = cluster, .revision = revision},
                                          .violated = on_violated};

        atomic_store(&violations, 0);
        return client_with(&options, "http", &port, 1);
}

static void test_other_cluster(void **state)
{
        struct fake *fake = fake_one(FAKE_ANSWER, 200, TXN_DONE);
        struct cl_etcd *etcd = client_that_saw(fake->port, 6, 1);
        struct asked asked = {0};
        struct cl_op op;

        ask_put(&asked, &op, "a", "x");
        assert_int_equal(ask(&asked, etcd), CL_UNKNOWN);
        assert_int_equal(asked.request.error, -EREMCHG);
        assert_int_equal(atomic_load(&violations), 1);
        assert_int_equal(atomic_load(&violation), CL_SEEN_OTHER_CLUSTER);
        /* for good, and nothing is sent */
        ask_put(&asked, &op, "a", "x");
        assert_int_equal(ask(&asked, etcd), CL_FAILED_SURE);
        assert_int_equal(asked.request.error, -EREMCHG);
        assert_int_equal(atomic_load(&fake->requests), 1);
        assert_int_equal(atomic_load(&violations), 1);
        asked_free(&asked);
        cl_etcd_free(etcd);
        fake_stop(fake);
}

static void test_lower_revision(void **state)
{
        static const char status[] = "{" HEADER_AT("7", "3") ",\"version\":\"3\"}";
        struct fake *fake = fake_start(STEPS({FAKE_ANSWER, 200, status, NULL}, {FAKE_ANSWER, 200, AT("20"), NULL},
                                             {FAKE_ANSWER, 200, AT("20"), NULL}, {FAKE_ANSWER, 200, AT("19"), NULL}));
        struct cl_etcd *etcd = client_that_saw(fake->port, 7, 10);
        struct asked asked = {0};
        unsigned i;

        /* a member that lags says so of its status, which proves nothing */
        asked.request.kind = CL_STATUS;
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        for (i = 0; i < 4; i++) {
                ask_range(&asked, "a", false);
                assert_int_equal(ask(&asked, etcd), i < 2 ? CL_DONE : CL_FAILED_SURE);
        }
        assert_int_equal(asked.request.error, -EREMCHG);
        assert_int_equal(atomic_load(&violations), 1);
        assert_int_equal(atomic_load(&violation), CL_SEEN_LOWER_REVISION);
        assert_int_equal(atomic_load(&fake->requests), 4);
        asked_free(&asked);
        cl_etcd_free(etcd);
        fake_stop(fake);
}

/* A request that began before the higher revision was seen may show a lower one. */
static void test_begun_before(void **state)
{
        struct fake *fake = fake_start(STEPS({FAKE_HOLD, 200, AT("15"), NULL}, {FAKE_ANSWER, 200, AT("20"), NULL},
                                             {FAKE_ANSWER, 200, AT("20"), NULL}));
        struct cl_etcd *etcd = client_that_saw(fake->port, 7, 10);
        struct asked early = {0}, late = {0};
        struct cl_seen seen;

        ask_range(&early, "a", false);
        ask_begin(&early, etcd);
        WAIT_UNTIL(atomic_load(&fake->held) == 1);
        ask_range(&late, "a", false);
        assert_int_equal(ask(&late, etcd), CL_DONE);
        fake_release(fake);
        assert_int_equal(ask_wait(&early), CL_DONE);
        cl_etcd_seen(etcd, &seen);
        assert_int_equal(seen.revision, 20);
        ask_range(&late, "a", false);
        assert_int_equal(ask(&late, etcd), CL_DONE);
        assert_int_equal(atomic_load(&violations), 0);
        asked_free(&early);
        asked_free(&late);
        cl_etcd_free(etcd);
        fake_stop(fake);
}

/* What is under way when another sign is found. */
static void test_distrust(void **state)
{
        struct fake *fake = fake_one(FAKE_HOLD, 200, TXN_DONE);
        struct cl_etcd *etcd = client_that_saw(fake->port, 7, 10);
        struct asked asked = {0}, later = {0};
        struct cl_op op, later_op;

        ask_put(&asked, &op, "a", "x");
        ask_begin(&asked, etcd);
        WAIT_UNTIL(atomic_load(&fake->held) == 1);
        cl_etcd_distrust(etcd, CL_SEEN_OTHER_GENERATION);
        cl_etcd_distrust(etcd, CL_SEEN_OTHER_CLUSTER);
        ask_put(&later, &later_op, "a", "x");
        assert_int_equal(ask(&later, etcd), CL_FAILED_SURE);
        assert_string_equal(later.request.text, cl_verdict_text(CL_SEEN_OTHER_GENERATION));
        fake_release(fake);
        assert_int_equal(ask_wait(&asked), CL_UNKNOWN);
        assert_int_equal(asked.request.error, -EREMCHG);
        assert_int_equal(atomic_load(&violations), 0);
        cl_etcd_free(etcd);
        fake_stop(fake);
}

/* ---- bounds and the end ---------------------------------------------------------------------- */

static void test_queue(void **state)
{
        enum { OVER = 10 };
        struct fake *fake = fake_one(FAKE_HOLD, 200, TXN_DONE);
        struct cl_etcd *etcd = client_of_port(fake->port);
        struct asked *asked = calloc(CL_QUEUE_MAX + OVER, sizeof(*asked));
        struct cl_op op = {.kind = CL_OP_PUT, .key = TEXT("a"), .value = TEXT("x")};
        unsigned i, unknown = 0, sure = 0;

        for (i = 0; i < CL_QUEUE_MAX + OVER; i++) {
                asked[i].request = (struct cl_request){.kind = CL_TXN, .success = &op, .success_count = 1};
                asked[i].request.deadline = lp_clock() + 60000 * MS;
                ask_begin(&asked[i], etcd);
        }
        for (i = CL_QUEUE_MAX; i < CL_QUEUE_MAX + OVER; i++) {
                assert_int_equal(ask_wait(&asked[i]), CL_FAILED_SURE);
                assert_int_equal(asked[i].request.error, -EBUSY);
        }
        WAIT_UNTIL(atomic_load(&fake->held) == 32);
        usleep(50000);
        assert_int_equal(atomic_load(&fake->txns), 32);
        /* those that were sent are unknown, the others never went */
        cl_etcd_free(etcd);
        for (i = 0; i < CL_QUEUE_MAX; i++) {
                ask_wait(&asked[i]);
                assert_int_equal(asked[i].request.error, -ECANCELED);
                unknown += asked[i].request.outcome == CL_UNKNOWN;
                sure += asked[i].request.outcome == CL_FAILED_SURE;
        }
        assert_int_equal(unknown, 32);
        assert_int_equal(sure, CL_QUEUE_MAX - 32);
        free(asked);
        fake_stop(fake);
}

/* The end comes while requests wait for a login, a pause, a server. */
static void test_free_in_the_middle(void **state)
{
        static const enum fake_what whats[] = {FAKE_HOLD, FAKE_CLOSE};
        struct asked asked[8];
        size_t i, k;

        for (i = 0; i < 4; i++) {
                struct fake *fake = fake_one(whats[i % 2], 200, NOTHING);
                struct cl_etcd *etcd = i < 2 ? client_of_port(fake->port) : client_with_login(fake->port);

                memset(asked, 0, sizeof(asked));
                for (k = 0; k < 8; k++) {
                        ask_range(&asked[k], "a", false);
                        ask_begin(&asked[k], etcd);
                }
                usleep(20000);
                cl_etcd_free(etcd);
                for (k = 0; k < 8; k++) {
                        assert_int_equal(ask_wait(&asked[k]), CL_FAILED_SURE);
                        assert_int_equal(asked[k].request.error, -ECANCELED);
                }
                fake_stop(fake);
        }
        cl_etcd_free(NULL);
}

static void test_wrong_requests(void **state)
{
        outcome_is(asked_of((enum cl_kind)7, FAKE_ANSWER, 200, NOTHING, 5000, 0), CL_FAILED_SURE, -EINVAL);
}

static void test_no_proxy(void **state)
{
        char proxy[64];

        snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%u", free_port());
        setenv("http_proxy", proxy, 1);
        setenv("all_proxy", proxy, 1);
        outcome_is(asked_of(CL_RANGE, FAKE_ANSWER, 200, NOTHING, 1000, 0), CL_DONE, 0);
        unsetenv("http_proxy");
        unsetenv("all_proxy");
}

static void test_options(void **state)
{
        static const char *const wrong[] = {"",
                                            "127.0.0.1:2379",
                                            "ftp://127.0.0.1:2379",
                                            "http://127.0.0.1",
                                            "http://a:b@127.0.0.1:2379",
                                            "http://127.0.0.1:2379/v3",
                                            "http://127.0.0.1:2379?a",
                                            "http://127.0.0.1:2379#a",
                                            "http://127.0.0.1:99999",
                                            "http:// :1"};
        const char *url = "http://127.0.0.1:2379/", *far = "http://192.0.2.1:2379", *near = "http://[::1]:2379",
                   *many[CL_ENDPOINTS_MAX + 1];
        struct cl_etcd_options options = {.endpoints = &url, .endpoint_count = 1};
        struct cl_etcd *etcd = NULL;
        char why[CL_TEXT_MAX];
        size_t i;

        assert_int_equal(cl_etcd_new(&options, &etcd, why, sizeof(why)), 0);
        cl_etcd_free(etcd);
        for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
                options.endpoints = &wrong[i];
                assert_int_equal(cl_etcd_new(&options, &etcd, why, sizeof(why)), -EINVAL);
                assert_true(*why != '\0');
        }
        options.endpoints = &far;
        assert_int_equal(cl_etcd_new(&options, &etcd, why, sizeof(why)), 0);
        cl_etcd_free(etcd);
        options.user = "root";
        assert_int_equal(cl_etcd_new(&options, &etcd, why, sizeof(why)), -EINVAL);
        options.password = "pass";
        assert_int_equal(cl_etcd_new(&options, &etcd, why, sizeof(why)), -EINVAL);
        assert_non_null(strstr(why, "https"));
        options.endpoints = &near;
        assert_int_equal(cl_etcd_new(&options, &etcd, why, sizeof(why)), 0);
        cl_etcd_free(etcd);
        options = (struct cl_etcd_options){.endpoints = &url, .endpoint_count = 1, .cert_file = "a"};
        assert_int_equal(cl_etcd_new(&options, &etcd, why, sizeof(why)), -EINVAL);
        options = (struct cl_etcd_options){.endpoints = many};
        assert_int_equal(cl_etcd_new(&options, &etcd, why, sizeof(why)), -EINVAL);
        for (i = 0; i <= CL_ENDPOINTS_MAX; i++)
                many[i] = url;
        options.endpoint_count = CL_ENDPOINTS_MAX + 1;
        assert_int_equal(cl_etcd_new(&options, &etcd, why, sizeof(why)), -EINVAL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lost_answers),
                cmocka_unit_test(test_wrong_answers),
                cmocka_unit_test(test_large_answers),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_redirect),
                cmocka_unit_test(test_kept_connection_ends),
                cmocka_unit_test(test_next_endpoint),
                cmocka_unit_test(test_refused_connections),
                cmocka_unit_test(test_status_of_a_member),
                cmocka_unit_test(test_pages),
                cmocka_unit_test(test_compacted_pages),
                cmocka_unit_test(test_wrong_page),
                cmocka_unit_test(test_login),
                cmocka_unit_test(test_logins_do_not_wait),
                cmocka_unit_test(test_login_fails),
                cmocka_unit_test(test_login_without_end),
                cmocka_unit_test(test_other_cluster),
                cmocka_unit_test(test_lower_revision),
                cmocka_unit_test(test_begun_before),
                cmocka_unit_test(test_distrust),
                cmocka_unit_test(test_queue),
                cmocka_unit_test(test_free_in_the_middle),
                cmocka_unit_test(test_wrong_requests),
                cmocka_unit_test(test_no_proxy),
                cmocka_unit_test(test_options),
        };

        return cmocka_run_group_tests(tests, loop_begin, loop_finish);
}
