/*
 * test_etcd_real.c - the client with a real etcd: what it reads and writes, login, TLS, members
 * that stop, a store that was restored, and transactions whose answers a proxy drops or delays.
 */
#include "tests/unit/cluster/fake_http.h"

/* One member that most tests use, each with keys of its own. */
static struct etcd_cluster one;
static struct cl_etcd *etcd;

static int one_begin(void **state)
{
        struct cl_etcd_options options = {0};

        loop_begin(state);
        cluster_make(&one, 1);
        cluster_start(&one);
        etcd = cluster_client(&one, &options);
        return 0;
}

static int one_end(void **state)
{
        cl_etcd_free(etcd);
        cluster_end(&one);
        return loop_finish(state);
}

#define LARGE 14u /* values of 1 MiB: more than an answer may have at once */

/* ---- keys ------------------------------------------------------------------------------------ */

static void test_txn(void **state)
{
        struct cl_compare compare = {.kind = CL_COMPARE_MOD, .key = TEXT("txn/a")};
        struct cl_op success[] = {{.kind = CL_OP_PUT, .key = TEXT("txn/a"), .value = TEXT("1")},
                                  {.kind = CL_OP_PUT, .key = TEXT("txn/b"), .value = {"", 0}},
                                  {.kind = CL_OP_RANGE, .key = TEXT("txn/"), .prefix = true},
                                  {.kind = CL_OP_RANGE, .key = TEXT("txn/none")}};
        struct cl_op failure[] = {{.kind = CL_OP_RANGE, .key = TEXT("txn/a")}};
        struct cl_request txn = {.kind = CL_TXN,
                                 .compares = &compare,
                                 .compare_count = 1,
                                 .success = success,
                                 .success_count = 4,
                                 .failure = failure,
                                 .failure_count = 1};
        struct asked asked = {.request = txn};
        const struct cl_key *key;
        int64_t revision;

        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_true(asked.answer->succeeded);
        revision = asked.answer->revision;
        assert_int_equal(asked.answer->range_count, 2);
        assert_int_equal(asked.answer->ranges[0].count, 2);
        assert_int_equal(asked.answer->ranges[1].count, 0);
        key = asked.answer->ranges[0].at;
        assert_true(bytes_are(key[0].key, "txn/a") && bytes_are(key[0].value, "1"));
        assert_true(bytes_are(key[1].key, "txn/b") && key[1].value.len == 0);
        /* what a transaction has put has its revision */
        assert_int_equal(key[0].mod_revision, revision);
        assert_int_equal(key[1].mod_revision, revision);
        assert_int_equal(key[0].version, 1);
        asked_free(&asked);

        asked.request = txn;
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_false(asked.answer->succeeded);
        assert_int_equal(asked.answer->range_count, 1);
        assert_int_equal(asked.answer->ranges[0].at[0].mod_revision, revision);
        asked_free(&asked);

        /* by version, by value, and a deletion of a prefix */
        compare = (struct cl_compare){.kind = CL_COMPARE_VERSION, .key = TEXT("txn/a"), .number = 1};
        success[0] = (struct cl_op){.kind = CL_OP_DELETE, .key = TEXT("txn/"), .prefix = true};
        txn.success_count = 1;
        asked.request = txn;
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_true(asked.answer->succeeded);
        asked_free(&asked);
        compare = (struct cl_compare){.kind = CL_COMPARE_VALUE, .key = TEXT("txn/a"), .value = TEXT("1")};
        asked.request = txn;
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_false(asked.answer->succeeded);
        assert_int_equal(asked.answer->ranges[0].count, 0);
        asked_free(&asked);
}

static void test_wrong_txn(void **state)
{
        struct cl_op twice[] = {{.kind = CL_OP_PUT, .key = TEXT("a"), .value = TEXT("1")},
                                {.kind = CL_OP_PUT, .key = TEXT("a"), .value = TEXT("2")}};
        struct asked asked = {.request = {.kind = CL_TXN, .success = twice, .success_count = 2}};

        assert_int_equal(ask(&asked, etcd), CL_FAILED_SURE);
        assert_int_equal(asked.request.error, -EREMOTEIO);
        assert_non_null(strstr(asked.request.text, "duplicate key"));
        asked_free(&asked);
}

static void test_binary_keys(void **state)
{
        static const char name[] = "\xff\xff\0\x01", value[] = "\0\xff";
        struct cl_op op = {.kind = CL_OP_PUT, .key = {name, 4}, .value = {value, 2}};
        struct asked asked = {.request = {.kind = CL_TXN, .success = &op, .success_count = 1}};

        assert_int_equal(ask(&asked, etcd), CL_DONE);
        asked_free(&asked);
        asked.request = (struct cl_request){.kind = CL_RANGE, .key = {name, 2}, .prefix = true};
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_int_equal(asked.answer->ranges[0].count, 1);
        assert_int_equal(asked.answer->ranges[0].at[0].key.len, 4);
        assert_memory_equal(asked.answer->ranges[0].at[0].key.data, name, 4);
        assert_memory_equal(asked.answer->ranges[0].at[0].value.data, value, 2);
        asked_free(&asked);
}

/* What has changed since, what was then, and what is gone. */
static void test_revisions(void **state)
{
        struct asked asked = {0};
        int64_t first, last;

        put_now(etcd, "rev/a", "1");
        ask_range(&asked, "rev/", true);
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        first = asked.answer->revision;
        put_now(etcd, "rev/b", "2");
        put_now(etcd, "rev/a", "3");
        ask_range(&asked, "rev/", true);
        asked.request.min_mod_revision = first + 2;
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        last = asked.answer->revision;
        assert_int_equal(last, first + 2);
        assert_int_equal(asked.answer->ranges[0].count, 1);
        assert_true(bytes_are(asked.answer->ranges[0].at[0].value, "3"));
        ask_range(&asked, "rev/", true);
        asked.request.at_revision = first;
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_int_equal(asked.answer->revision, first);
        assert_int_equal(asked.answer->ranges[0].count, 1);
        assert_true(bytes_are(asked.answer->ranges[0].at[0].value, "1"));
        ask_range(&asked, "rev/", true);
        asked.request.at_revision = last + 1000;
        assert_int_equal(ask(&asked, etcd), CL_FAILED_SURE);
        assert_int_equal(asked.request.error, -EREMOTEIO);
        asked_free(&asked);
}

static void post(const struct etcd_cluster *cluster, const char *path, const char *body)
{
        static char text[65536];
        int fd = fake_connect(cluster->members[0].port);
        size_t got = 0;
        ssize_t more;

        snprintf(text, sizeof(text),
                 "POST /v3/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s", path,
                 strlen(body), body);
        MUST(fake_write(fd, text, strlen(text)));
        while (got < sizeof(text) - 1 && (more = recv(fd, text + got, sizeof(text) - 1 - got, 0)) > 0)
                got += (size_t)more;
        text[got] = '\0';
        close(fd);
        MUST(strstr(text, "200 OK") != NULL);
}

static void test_compacted(void **state)
{
        struct asked asked = {0};
        char body[64];
        int64_t then;

        put_now(etcd, "compact", "1");
        ask_range(&asked, "compact", false);
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        then = asked.answer->revision;
        put_now(etcd, "compact", "2");
        snprintf(body, sizeof(body), "{\"revision\":\"%lld\"}", (long long)then + 1);
        post(&one, "kv/compaction", body);
        ask_range(&asked, "compact", false);
        asked.request.at_revision = then;
        assert_int_equal(ask(&asked, etcd), CL_FAILED_SURE);
        assert_int_equal(asked.request.error, -ESTALE);
        asked_free(&asked);
}

/* Keys of len bytes each, with so many of them. */
static void put_many(const char *folder, unsigned count, size_t len)
{
        static char names[CL_OPS_MAX][64];
        char *value = malloc(len);
        struct cl_op ops[CL_OPS_MAX];
        struct asked asked = {0};
        unsigned done, n;

        memset(value, 'v', len);
        for (done = 0; done < count; done += n) {
                for (n = 0; n < CL_OPS_MAX && done + n < count && (n + 1) * (len + 64) < CL_TXN_BYTES_MAX; n++) {
                        snprintf(names[n], sizeof(names[n]), "%s%06u", folder, done + n);
                        ops[n] = (struct cl_op){.kind = CL_OP_PUT, .key = bytes_of(names[n]), .value = {value, len}};
                }
                asked.request = (struct cl_request){.kind = CL_TXN, .success = ops, .success_count = n};
                assert_int_equal(ask(&asked, etcd), CL_DONE);
                asked_free(&asked);
        }
        free(value);
}

static void many_are(const char *folder, unsigned count, size_t len)
{
        struct asked asked = {0};
        char name[64];
        unsigned i;

        ask_range(&asked, folder, true);
        asked.request.deadline = lp_clock() + 60000 * MS;
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_int_equal(asked.answer->ranges[0].count, count);
        for (i = 0; i < count; i++) {
                snprintf(name, sizeof(name), "%s%06u", folder, i);
                assert_true(bytes_are(asked.answer->ranges[0].at[i].key, name));
                assert_int_equal(asked.answer->ranges[0].at[i].value.len, len);
        }
        asked_free(&asked);
}

static void test_pages(void **state)
{
        put_many("pages/", 2 * CL_PAGE_KEYS + 500, 10);
        many_are("pages/", 2 * CL_PAGE_KEYS + 500, 10);
        put_many("full/", CL_PAGE_KEYS, 10);
        many_are("full/", CL_PAGE_KEYS, 10);
}

/* A page may be larger than an answer may be: smaller ones do it. */
static void test_large_values(void **state)
{
        struct cl_op ops[LARGE];
        struct asked asked = {0};
        char names[LARGE][16];
        unsigned i;

        put_many("large/", LARGE, CL_VALUE_MAX - 1000);
        many_are("large/", LARGE, CL_VALUE_MAX - 1000);
        for (i = 0; i < LARGE; i++) {
                snprintf(names[i], sizeof(names[i]), "large/%06u", i);
                ops[i] = (struct cl_op){.kind = CL_OP_RANGE, .key = bytes_of(names[i])};
        }
        asked.request = (struct cl_request){.kind = CL_TXN, .success = ops, .success_count = LARGE};
        assert_int_equal(ask(&asked, etcd), CL_FAILED_SURE);
        assert_int_equal(asked.request.error, -EMSGSIZE);
        asked_free(&asked);
        /* carried out, though its answer cannot be had */
        ops[LARGE - 1] = (struct cl_op){.kind = CL_OP_PUT, .key = TEXT("large-put"), .value = TEXT("x")};
        asked.request = (struct cl_request){.kind = CL_TXN, .success = ops, .success_count = LARGE};
        assert_int_equal(ask(&asked, etcd), CL_UNKNOWN);
        assert_int_equal(asked.request.error, -EMSGSIZE);
        ask_range(&asked, "large-put", false);
        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_int_equal(asked.answer->ranges[0].count, 1);
        asked_free(&asked);
}

static void test_status(void **state)
{
        struct asked asked = {.request = {.kind = CL_STATUS}};
        struct cl_seen seen;

        assert_int_equal(ask(&asked, etcd), CL_DONE);
        assert_int_equal(strncmp(asked.answer->status.version, "3.", 2), 0);
        assert_true(asked.answer->status.leader == asked.answer->member_id && asked.answer->member_id != 0);
        assert_true(asked.answer->status.db_size > 0 && asked.answer->raft_term > 0 && asked.answer->revision > 0);
        cl_etcd_seen(etcd, &seen);
        assert_true(seen.cluster_id == asked.answer->cluster_id);
        asked_free(&asked);
}

/* ---- a full store ---------------------------------------------------------------------------- */

/* etcd says that it has no space before it carries a transaction out, or after that: as it comes. */
static void test_no_space(void **state)
{
        struct etcd_cluster full;
        struct cl_etcd_options options = {0};
        struct cl_etcd *client;
        struct asked asked = {0};
        char *value = calloc(1, 900000), name[16];
        unsigned i;

        cluster_make(&full, 1);
        full.extra[full.extra_count++] = "--quota-backend-bytes";
        full.extra[full.extra_count++] = "4000000";
        cluster_start(&full);
        client = cluster_client(&full, &options);
        for (i = 0; i < 20; i++) {
                struct cl_op op = {.kind = CL_OP_PUT, .value = {value, 900000}};

                asked_free(&asked);
                snprintf(name, sizeof(name), "k%u", i);
                op.key = bytes_of(name);
                asked.request = (struct cl_request){.kind = CL_TXN, .success = &op, .success_count = 1};
                if (ask(&asked, client) != CL_DONE)
                        break;
        }
        assert_int_equal(asked.request.outcome, CL_UNKNOWN);
        assert_int_equal(asked.request.error, -ENOSPC);
        free(value);
        cl_etcd_free(client);
        cluster_end(&full);
}

/* ---- login and TLS --------------------------------------------------------------------------- */

static void test_login(void **state)
{
        struct etcd_cluster locked;
        struct cl_etcd_options options = {.user = "root", .password = "p\"\\w"}, none = {0}, wrong = options;
        struct cl_etcd *client, *other;
        struct asked asked = {0};
        struct cl_op op;

        cluster_make(&locked, 1);
        cluster_start(&locked);
        post(&locked, "auth/user/add", "{\"name\":\"root\",\"password\":\"p\\\"\\\\w\"}");
        post(&locked, "auth/role/add", "{\"name\":\"root\"}");
        post(&locked, "auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
        post(&locked, "auth/enable", "{}");
        client = cluster_client(&locked, &options);
        put_now(client, "a", "1");
        other = cluster_client(&locked, &none);
        ask_put(&asked, &op, "a", "x");
        assert_int_equal(ask(&asked, other), CL_FAILED_SURE);
        cl_etcd_free(other);
        wrong.password = "else";
        other = cluster_client(&locked, &wrong);
        ask_put(&asked, &op, "a", "x");
        assert_int_equal(ask(&asked, other), CL_FAILED_SURE);
        assert_int_equal(asked.request.error, -EACCES);
        cl_etcd_free(other);
        /* a member that restarted knows no token */
        member_kill(&locked, 0);
        member_start(&locked, 0);
        cluster_wait(&locked, &none);
        put_now(client, "a", "2");
        ask_range(&asked, "a", false);
        assert_int_equal(ask(&asked, client), CL_DONE);
        assert_true(bytes_are(asked.answer->ranges[0].at[0].value, "2"));
        asked_free(&asked);
        cl_etcd_free(client);
        cluster_end(&locked);
}

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *format, ...)
{
        char command[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(command, sizeof(command), format, args);
        va_end(args);
        MUST(system(command) == 0);
}

static void test_tls(void **state)
{
        struct etcd_cluster tls;
        char ca[128], other_ca[128], cert[128], key[128];
        struct cl_etcd_options options = {.ca_file = ca, .cert_file = cert, .key_file = key}, wrong = options,
                               bare = options;
        struct cl_etcd *client;
        struct asked asked = {0};
        struct cl_op op;
        unsigned i;

        cluster_make(&tls, 1);
        snprintf(ca, sizeof(ca), "%s/ca.crt", tls.folder);
        snprintf(other_ca, sizeof(other_ca), "%s/other.crt", tls.folder);
        snprintf(cert, sizeof(cert), "%s/node.crt", tls.folder);
        snprintf(key, sizeof(key), "%s/node.key", tls.folder);
        run("cd %s && exec 2>/dev/null"
            " && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.crt -subj "
            "/CN=ca -days 2"
            " && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout o.key -out other.crt "
            "-subj /CN=o -days 2"
            " && openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout node.key -out node.csr -subj "
            "/CN=node"
            " && echo subjectAltName=IP:127.0.0.1 >san && openssl x509 -req -in node.csr -CA ca.crt -CAkey ca.key"
            " -CAcreateserial -extfile san -out node.crt -days 2",
            tls.folder);
        tls.scheme = "https";
        tls.extra[0] = "--cert-file";
        tls.extra[1] = cert;
        tls.extra[2] = "--key-file";
        tls.extra[3] = key;
        tls.extra[4] = "--client-cert-auth";
        tls.extra[5] = "--trusted-ca-file";
        tls.extra[6] = ca;
        tls.extra_count = 7;
        for (i = 0; i < tls.count; i++)
                member_start(&tls, i);
        cluster_wait(&tls, &options);
        client = cluster_client(&tls, &options);
        put_now(client, "a", "1");
        cl_etcd_free(client);
        /* a CA that is not etcd's: nothing is sent */
        wrong.ca_file = other_ca;
        client = cluster_client(&tls, &wrong);
        ask_put(&asked, &op, "a", "x");
        asked.request.deadline = lp_clock() + 500 * MS;
        assert_int_equal(ask(&asked, client), CL_FAILED_SURE);
        cl_etcd_free(client);
        /* no certificate */
        bare.cert_file = bare.key_file = NULL;
        client = cluster_client(&tls, &bare);
        ask_put(&asked, &op, "a", "x");
        asked.request.deadline = lp_clock() + 500 * MS;
        assert_int_not_equal(ask(&asked, client), CL_DONE);
        asked_free(&asked);
        cl_etcd_free(client);
        client = cluster_client(&tls, &options);
        ask_range(&asked, "a", false);
        assert_int_equal(ask(&asked, client), CL_DONE);
        assert_true(bytes_are(asked.answer->ranges[0].at[0].value, "1"));
        asked_free(&asked);
        cl_etcd_free(client);
        cluster_end(&tls);
}

/* ---- R1 -------------------------------------------------------------------------------------- */

static struct fake *proxy_of(enum fake_what txn)
{
        struct fake_step steps[] = {{txn, 0, "", NULL}, {FAKE_FORWARD, 0, "", NULL}};

        return fake_start(steps, 2, one.members[0].port);
}

static int64_t revision_of(const char *key)
{
        struct asked asked = {0};
        int64_t revision;

        ask_range(&asked, key, false);
        MUST(ask(&asked, etcd) == CL_DONE && asked.answer->ranges[0].count == 1);
        revision = asked.answer->ranges[0].at[0].mod_revision;
        asked_free(&asked);
        return revision;
}

static void test_cas(void **state)
{
        struct asked asked;
        int64_t revision;

        assert_int_equal(cas_now(&asked, etcd, "cas", 0, "one", 5000), CL_CAS_WON);
        revision = revision_of("cas");
        assert_int_equal(asked.cas.revision, revision);
        assert_int_equal(cas_now(&asked, etcd, "cas", 0, "two", 5000), CL_CAS_LOST);
        assert_int_equal(cas_now(&asked, etcd, "cas", revision, "two", 5000), CL_CAS_WON);
        assert_true(asked.cas.revision > revision);
        assert_int_equal(cas_now(&asked, etcd, "cas", revision, "three", 5000), CL_CAS_LOST);
}

/* Carried out, and the answer is lost. */
static void test_answer_is_lost(void **state)
{
        struct fake *proxy = proxy_of(FAKE_FORWARD_DROP);
        struct cl_etcd *client = client_of_port(proxy->port);
        struct asked asked;

        assert_int_equal(cas_now(&asked, client, "lost", 0, "own", 5000), CL_CAS_WON);
        assert_int_equal(asked.cas.revision, revision_of("lost"));
        cl_etcd_free(client);
        fake_stop(proxy);
}

/* It hangs between the two, is not there when it is looked for, and comes later all the same. */
static void test_late(void **state)
{
        struct fake *proxy;
        struct cl_etcd *client;
        struct asked asked;
        int64_t old;

        put_now(etcd, "late", "old");
        old = revision_of("late");
        proxy = proxy_of(FAKE_FORWARD_LATE);
        client = client_of_port(proxy->port);
        cas_begin(&asked, client, "late", old, "own", 10000);
        /* it was read back some times */
        WAIT_UNTIL(atomic_load(&proxy->requests) >= 4);
        assert_int_equal(revision_of("late"), old);
        fake_release(proxy);
        assert_int_equal(cas_wait(&asked), CL_CAS_WON);
        assert_int_equal(asked.cas.revision, revision_of("late"));
        cl_etcd_free(client);
        fake_stop(proxy);
}

static void test_never_decided(void **state)
{
        struct fake *proxy;
        struct cl_etcd *client;
        struct asked asked;
        int64_t old;

        put_now(etcd, "never", "old");
        old = revision_of("never");
        proxy = proxy_of(FAKE_FORWARD_LATE);
        client = client_of_port(proxy->port);
        assert_int_equal(cas_now(&asked, client, "never", old, "own", 4000), CL_CAS_UNKNOWN);
        assert_int_equal(asked.cas.now.mod_revision, old);
        cl_etcd_free(client);
        fake_stop(proxy);
}

/* Another change comes first: it can never be carried out any more, and is not. */
static void test_another_comes_first(void **state)
{
        struct fake *proxy;
        struct cl_etcd *client;
        struct asked asked;
        int64_t old;

        put_now(etcd, "other", "old");
        old = revision_of("other");
        proxy = proxy_of(FAKE_FORWARD_LATE);
        client = client_of_port(proxy->port);
        cas_begin(&asked, client, "other", old, "own", 10000);
        WAIT_UNTIL(atomic_load(&proxy->requests) >= 2);
        put_now(etcd, "other", "new");
        put_now(etcd, "other", "newer");
        assert_int_equal(cas_wait(&asked), CL_CAS_LOST);
        fake_release(proxy);
        cl_etcd_free(client);
        fake_stop(proxy);
        assert_int_equal(cas_now(&asked, etcd, "other", revision_of("other"), "last", 5000), CL_CAS_WON);
}

/* Carried out, answer lost, and overwritten before it is read back. */
static void test_overwritten(void **state)
{
        struct fake_step steps[] = {
                {FAKE_FORWARD_DROP, 0, "", NULL}, {FAKE_HOLD, 503, "", NULL}, {FAKE_FORWARD, 0, "", NULL}};
        struct fake *proxy = fake_start(steps, 3, one.members[0].port);
        struct cl_etcd *client = client_of_port(proxy->port);
        struct asked asked;
        int64_t own;

        cas_begin(&asked, client, "over", 0, "own", 10000);
        WAIT_UNTIL(atomic_load(&proxy->held) == 1);
        own = revision_of("over");
        put_now(etcd, "over", "new");
        fake_release(proxy);
        assert_int_equal(cas_wait(&asked), CL_CAS_WON);
        assert_int_equal(asked.cas.revision, own);
        cl_etcd_free(client);
        fake_stop(proxy);
}

/* ---- three members --------------------------------------------------------------------------- */

/* Tries until one is decided: what an attempt before left undecided is settled by that. The last value, which counts. */
static void elect(struct cl_etcd *client, const char *key, char *value, size_t size)
{
        struct asked asked;
        unsigned i;

        for (i = 0; i < 20; i++) {
                snprintf(value, size, "attempt-%u", i);
                if (cas_now(&asked, client, key, 0, value, 3000) == CL_CAS_WON)
                        return;
                if (asked.cas.outcome == CL_CAS_LOST) {
                        assert_true(i > 0);
                        *value = '\0'; /* an earlier one */
                        return;
                }
        }
        assert_true(i < 20);
}

static void three_have(struct cl_etcd *client, const char *key, const char *value)
{
        struct asked asked = {0};

        ask_range(&asked, key, false);
        asked.request.deadline = lp_clock() + 60000 * MS;
        assert_int_equal(ask(&asked, client), CL_DONE);
        assert_int_equal(asked.answer->ranges[0].count, 1);
        assert_int_equal(asked.answer->ranges[0].at[0].version, 1);
        if (*value != '\0')
                assert_true(bytes_are(asked.answer->ranges[0].at[0].value, value));
        asked_free(&asked);
}

static void test_three_members(void **state)
{
        struct etcd_cluster three;
        struct cl_etcd_options options = {.timeout_ms = 15000};
        struct cl_etcd *client;
        struct asked asked = {0};
        char keys[3][16], values[3][32];
        unsigned i;

        cluster_make(&three, 3);
        cluster_start(&three);
        client = cluster_client(&three, &options);
        for (i = 0; i < 3; i++) {
                member_stop(&three, i);
                snprintf(keys[i], sizeof(keys[i]), "k%u", i);
                elect(client, keys[i], values[i], sizeof(values[i]));
                member_continue(&three, i);
        }
        /* what the stopped ones had in hand comes now, and changes nothing */
        usleep(500000);
        for (i = 0; i < 3; i++)
                three_have(client, keys[i], values[i]);
        /* one goes on: it knows nothing for sure */
        member_stop(&three, 0);
        member_stop(&three, 1);
        ask_range(&asked, "k0", false);
        asked.request.deadline = lp_clock() + 1000 * MS;
        assert_int_equal(ask(&asked, client), CL_FAILED_SURE);
        member_continue(&three, 0);
        member_continue(&three, 1);
        three_have(client, keys[0], values[0]);
        asked_free(&asked);
        cl_etcd_free(client);
        cluster_end(&three);
}

/* ---- R2 -------------------------------------------------------------------------------------- */

static atomic_int violation;

static void on_violated(void *arg, enum cl_verdict verdict)
{
        atomic_store((atomic_int *)arg, (int)verdict);
}

/* The same members with an empty store have the same cluster id. */
static void test_restored(void **state)
{
        struct etcd_cluster restored;
        struct cl_etcd_options options = {.violated = on_violated, .arg = &violation}, none = {0};
        struct cl_etcd *client;
        struct asked asked = {0};
        struct cl_seen seen;
        unsigned i;

        cluster_make(&restored, 1);
        cluster_start(&restored);
        client = cluster_client(&restored, &options);
        for (i = 0; i < 5; i++)
                put_now(client, "a", "1");
        cl_etcd_seen(client, &seen);
        member_kill(&restored, 0);
        remove_folder(restored.members[0].folder);
        member_start(&restored, 0);
        cluster_wait(&restored, &none);
        ask_range(&asked, "a", false);
        assert_int_equal(ask(&asked, client), CL_FAILED_SURE);
        assert_int_equal(asked.request.error, -EREMCHG);
        assert_int_equal(atomic_load(&violation), CL_SEEN_LOWER_REVISION);
        cl_etcd_free(client);
        /* and a node that restarts with what its folders say */
        options.seen = seen;
        client = cluster_client(&restored, &options);
        ask_range(&asked, "a", false);
        assert_int_equal(ask(&asked, client), CL_FAILED_SURE);
        assert_int_equal(asked.request.error, -EREMCHG);
        cl_etcd_free(client);
        options.seen.cluster_id++;
        options.seen.revision = 1;
        client = cluster_client(&restored, &options);
        ask_range(&asked, "a", false);
        assert_int_equal(ask(&asked, client), CL_FAILED_SURE);
        assert_int_equal(atomic_load(&violation), CL_SEEN_OTHER_CLUSTER);
        asked_free(&asked);
        cl_etcd_free(client);
        cluster_end(&restored);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_txn),
                cmocka_unit_test(test_wrong_txn),
                cmocka_unit_test(test_binary_keys),
                cmocka_unit_test(test_revisions),
                cmocka_unit_test(test_compacted),
                cmocka_unit_test(test_pages),
                cmocka_unit_test(test_large_values),
                cmocka_unit_test(test_status),
                cmocka_unit_test(test_no_space),
                cmocka_unit_test(test_login),
                cmocka_unit_test(test_tls),
                cmocka_unit_test(test_cas),
                cmocka_unit_test(test_answer_is_lost),
                cmocka_unit_test(test_late),
                cmocka_unit_test(test_never_decided),
                cmocka_unit_test(test_another_comes_first),
                cmocka_unit_test(test_overwritten),
                cmocka_unit_test(test_three_members),
                cmocka_unit_test(test_restored),
        };

        return cmocka_run_group_tests(tests, one_begin, one_end);
}
