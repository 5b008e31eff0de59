/*
 * test_session_request.c - session_request.c: what is asked of an endpoint that is to open an RDMA
 * session, every answer it may give, wrong ones too, and the request that ends a session.
 */
#include "tests/unit/client/fake_s3.h"

#include "client/http/client_request.h"

#include <semaphore.h>
#include <sys/random.h>

static unsigned fail_calloc; /* this one, counted from 1, fails; 0: none */
static bool no_chance;

static void *counted_calloc(size_t count, size_t size)
{
        return fail_calloc != 0 && --fail_calloc == 0 ? NULL : calloc(count, size);
}

static ssize_t chance(void *out, size_t len, unsigned flags)
{
        return no_chance ? -1 : getrandom(out, len, flags);
}

/* What was asked for last. */
static unsigned asked_limit_ms;
static bool asked_fresh;

static int start_noted(struct mr_client *client, struct mr_request *request)
{
        asked_limit_ms = request->limit_ms;
        asked_fresh = request->fresh;
        return mr_request_start(client, request);
}

#define mr_request_start start_noted
#define calloc           counted_calloc
#define getrandom        chance
#include "client/rdma/session_request.c"
#undef mr_request_start
#undef calloc
#undef getrandom

#include <errno.h>

#define ID    "00112233445566778899aabbccddeeff"
#define NONCE "ffeeddccbbaa99887766554433221100"
#define GOOD                                                                                                           \
        "{\"version\":1,\"session\":\"" ID "\",\"server_nonce\":\"" NONCE                                              \
        "\",\"rights\":\"window2\",\"expires\":\"2026-01-31T12:00:00Z\",\"expires_ms\":3600000,\"connect_ms\":10000,"  \
        "\"endpoints\":[{\"endpoint\":3,\"address\":\"10.0.0.1\",\"port\":9010,\"boot_id\":\"0102030405060708\","      \
        "\"queue_pairs\":1,\"control\":true}],\"limits\":{\"requests\":64,\"messages\":8,\"message_bytes\":16384,"     \
        "\"message_entries\":256,\"batch_entries\":1024,\"number_window\":1024,\"window_bytes\":5368709120}}"

static struct {
        struct fake_s3 fake;
        struct mr_client *client;
        struct mr_session session;
        struct mr_error err;
        sem_t woken;
        int64_t expires_s; /* of the credentials */

        /* guarded by the fake's lock while it serves */
        int status;
        const char *code; /* of an error; NULL: answer is the body */
        char answer[4096];
        unsigned requests;
        char method[16], target[256], authorization[512], type[512], body[4096];
} f;

/* ---- the endpoint ---------------------------------------------------------------------------- */

static void serve(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        f.requests++;
        snprintf(f.method, sizeof(f.method), "%s", request->method);
        snprintf(f.target, sizeof(f.target), "%.255s", request->target);
        fake_header(request, "Authorization", f.authorization);
        fake_header(request, "Content-Type", f.type);
        snprintf(f.body, sizeof(f.body), "%s", request->body);
        if (f.code != NULL)
                fake_error(reply, f.status, f.code);
        else
                fake_text(reply, f.answer);
        reply->status = f.status;
}

static void on_pause(void *arg)
{
        sem_wait(&f.woken);
}

static void on_wake(void *arg)
{
        sem_post(&f.woken);
}

static const struct mr_session_wait waits = {on_pause, on_wake, NULL};

static int credentials(void *arg, struct mr_credentials *out)
{
        snprintf(out->access_key, sizeof(out->access_key), "AKID");
        snprintf(out->secret_key, sizeof(out->secret_key), "secret");
        out->expires_s = f.expires_s;
        return 0;
}

static int set_up(void **state)
{
        struct mr_options options;

        memset(&f, 0, sizeof(f));
        fail_calloc = 0;
        no_chance = false;
        sem_init(&f.woken, 0, 0);
        f.status = 200;
        snprintf(f.answer, sizeof(f.answer), "%s", GOOD);
        fake_start(&f.fake, serve, NULL);
        mr_options_init(&options);
        options.endpoint = f.fake.url;
        options.credentials_fn = credentials;
        options.attempts = 5;
        return mr_client_open(&options, &f.client, NULL);
}

static int tear_down(void **state)
{
        mr_client_free(f.client);
        fake_stop(&f.fake);
        sem_destroy(&f.woken);
        return 0;
}

static int open_session(unsigned rights)
{
        int rv;

        memset(&f.err, 0, sizeof(f.err));
        rv = mr_session_open(f.client, 0, rights, &waits, &f.session, &f.err);
        if (rv != 0) { /* no key is left behind */
                static const struct mr_session none;

                assert_memory_equal(&f.session, &none, sizeof(none));
                assert_int_equal(f.err.code, rv);
                assert_true(f.err.message[0] != '\0');
        }
        return rv;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void what_is_asked(void **state)
{
        json_t *wish;
        const char *nonce;
        uint8_t bytes[RDX_NONCE_LEN];

        assert_int_equal(open_session(RDX_RIGHTS_WINDOW2 | RDX_RIGHTS_REGION), 0);
        assert_int_equal(f.requests, 1);
        assert_in_range(asked_limit_ms, 1, 10000); /* a mute endpoint holds transfers up no longer */
        assert_true(asked_fresh);                  /* or curl may open two */
        assert_string_equal(f.method, "POST");
        assert_string_equal(f.target, "/_millrace/rdma/v1/sessions");
        assert_string_equal(f.type, "application/json");
        assert_non_null(strstr(f.authorization, "Credential=AKID/"));
        wish = json_loads(f.body, 0, NULL);
        assert_non_null(wish);
        assert_int_equal(json_integer_value(json_array_get(json_object_get(wish, "versions"), 0)), 1);
        assert_int_equal(json_integer_value(json_object_get(wish, "queue_pairs")), 1);
        assert_int_equal(json_integer_value(json_object_get(wish, "receives")), 128);
        assert_int_equal(json_array_size(json_object_get(wish, "rights")), 2);
        assert_string_equal(json_string_value(json_array_get(json_object_get(wish, "rights"), 0)), "window2");
        assert_string_equal(json_string_value(json_array_get(json_object_get(wish, "rights"), 1)), "region");
        nonce = json_string_value(json_object_get(wish, "client_nonce"));
        assert_true(rdx_unhex(nonce, strlen(nonce), bytes, sizeof(bytes)));
        assert_memory_equal(bytes, f.session.grant.client_nonce, sizeof(bytes));
        json_decref(wish);
}

static void what_is_answered(void **state)
{
        const struct rdx_grant *grant = &f.session.grant;
        uint8_t before[RDX_NONCE_LEN];
        static const uint8_t none[RDX_KEY_LEN];
        int64_t now = mr_core_clock_ms();

        assert_int_equal(open_session(RDX_RIGHTS_WINDOW2 | RDX_RIGHTS_WINDOW1), 0);
        assert_string_equal(f.session.id, ID);
        assert_string_equal(grant->address, "10.0.0.1");
        assert_ptr_equal(grant->address, f.session.address);
        assert_int_equal(grant->port, 9010);
        assert_int_equal(grant->endpoint, 3);
        assert_int_equal(grant->rights, RDX_RIGHTS_WINDOW2);
        assert_int_equal(grant->requests, 64);
        assert_int_equal(grant->messages, 8);
        assert_int_equal(grant->receives, MR_SESSION_RECEIVES);
        assert_int_equal(f.session.window_bytes, 5368709120);
        assert_int_equal(f.session.generation, mr_creds_generation(f.client->creds));
        assert_true(f.session.expires_ms >= now + 3600000 && f.session.expires_ms <= mr_core_clock_ms() + 3600000);
        assert_memory_not_equal(grant->signing_key, none, RDX_KEY_LEN);
        memcpy(before, grant->client_nonce, sizeof(before));
        assert_int_equal(open_session(RDX_RIGHTS_WINDOW2), 0);
        assert_memory_not_equal(before, grant->client_nonce, sizeof(before)); /* new for each */
}

/* A session may not outlive the credentials, whatever the endpoint says. */
static void credentials_that_end_sooner(void **state)
{
        f.expires_s = mr_core_now_ms() / 1000 + 600;
        assert_int_equal(open_session(RDX_RIGHTS_WINDOW2), 0);
        assert_true(f.session.expires_ms <= mr_core_clock_ms() + 600000);
}

/* The answer with one thing changed: no session comes of it, and no use in asking again soon. */
static void answers_that_open_none(void **state)
{
        static const struct {
                const char *what, *by;
        } cases[] = {
                {"\"version\":1", "\"version\":2"},
                {"\"version\":1", "\"version\":\"1\""},
                {"\"session\":\"00", "\"session\":\"0g"},
                {"\"session\":\"00", "\"session\":\""},
                {"\"session\":\"00", "\"session\":\"0000"},
                {"\"server_nonce\"", "\"server\""},
                {"\"rights\":\"window2\"", "\"rights\":\"region\""}, /* not asked for */
                {"\"rights\":\"window2\"", "\"rights\":\"window1,window2\""},
                {"\"rights\":\"window2\"", "\"rights\":7"},
                {"3600000", "-1"},
                {"3600000", "9223372036854775807"},
                {"3600000", "1e300"},
                {"[{", "["},
                {"\"endpoints\":[{", "\"endpoints\":[],\"others\":[{"},
                {"\"endpoints\"", "\"ends\""},
                {"\"endpoint\":3", "\"endpoint\":65536"},
                {"\"endpoint\":3", "\"endpoint\":-1"},
                {"\"port\":9010", "\"port\":0"},
                {"\"port\":9010", "\"port\":65536"},
                {"0102030405060708", "01020304050607"},
                {"\"10.0.0.1\"", "1"},
                {"10.0.0.1", "a-name-of-an-endpoint-that-is-longer-than-any-address-of-one-could-ever-be"},
                {"\"queue_pairs\":1", "\"queue_pairs\":0"},
                {"\"queue_pairs\":1", "\"queue_pairs\":2"},
                {"\"boot_id\"", "\"x\":{}},{\"boot_id\""},
                {"\"control\":true", "\"control\":false"},
                {"\"control\":true", "\"control\":1"},
                {"\"requests\":64", "\"requests\":0"},
                {"\"requests\":64", "\"requests\":4294967296"},
                {"\"messages\":8", "\"messages\":-1"},
                {"5368709120", "0"},
                {"\"limits\":{", "\"limits\":{},\"more\":{"},
                {"{\"version\"", "{{\"version\""},
                {GOOD, ""},
                {GOOD, "[]"},
                {GOOD, "null"},
                {GOOD, "<html></html>"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *at = strstr(GOOD, cases[i].what);

                assert_non_null(at);
                snprintf(f.answer, sizeof(f.answer), "%.*s%s%s", (int)(at - GOOD), GOOD, cases[i].by,
                         at + strlen(cases[i].what));
                if (open_session(RDX_RIGHTS_WINDOW2 | RDX_RIGHTS_WINDOW1) != -EOPNOTSUPP)
                        fail_msg("%s was taken", f.answer);
        }
}

static void fields_of_another_age(void **state)
{
        snprintf(f.answer, sizeof(f.answer), "{\"new\":[1,{}],%s", GOOD + 1);
        assert_int_equal(open_session(RDX_RIGHTS_WINDOW2), 0);
}

static void refusals(void **state)
{
        static const struct {
                int status;
                const char *code;
                int rv;
        } cases[] = {
                {501, "RDMANotSupported", -EOPNOTSUPP},
                {501, "NotImplemented", -EOPNOTSUPP},
                {405, "MethodNotAllowed", -EOPNOTSUPP},
                {404, "NoSuchBucket", -EOPNOTSUPP},
                {400, "InvalidBucketName", -EOPNOTSUPP},
                {400, "RDMAVersionUnsupported", -EOPNOTSUPP},
                {400, "RDMARightsUnsupported", -EOPNOTSUPP},
                {307, "TemporaryRedirect", -EOPNOTSUPP},
                {204, NULL, -EOPNOTSUPP},
                {403, "AccessDenied", -EACCES},
                {503, "SlowDown", -EBUSY},
                {500, "InternalError", -EREMOTEIO},
                {408, "RequestTimeout", -ETIMEDOUT},
                {429, "TooManyRequests", -EBUSY},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                unsigned before = f.requests;
                int rv;

                f.status = cases[i].status;
                f.code = cases[i].code;
                if (f.code == NULL)
                        f.answer[0] = '\0';
                rv = open_session(RDX_RIGHTS_WINDOW2);
                if (rv != cases[i].rv)
                        fail_msg("%d %s: %d", cases[i].status, cases[i].code, rv);
                assert_int_equal(f.err.http_status, cases[i].status);
                assert_int_equal(f.requests, before + 1); /* whoever wants it tries again, not this */
        }
}

static void no_answer(void **state)
{
        f.status = 0;
        assert_int_equal(open_session(RDX_RIGHTS_WINDOW2), -EIO);
        assert_int_equal(f.err.http_status, 0);
}

static void canceled(void **state)
{
        mr_client_cancel(f.client);
        assert_int_equal(open_session(RDX_RIGHTS_WINDOW2), -ECANCELED);
        assert_int_equal(f.requests, 0);
}

static void without_memory(void **state)
{
        fail_calloc = 1;
        assert_int_equal(open_session(RDX_RIGHTS_WINDOW2), -ENOMEM);
        no_chance = true;
        assert_int_equal(open_session(RDX_RIGHTS_WINDOW2), -ENOMEM);
        assert_int_equal(f.requests, 0);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* From now on, and with counting begun anew. */
static void say(int status, const char *code)
{
        pthread_mutex_lock(&f.fake.lock);
        f.status = status;
        f.code = code;
        f.answer[0] = '\0';
        f.requests = 0;
        pthread_mutex_unlock(&f.fake.lock);
}

/* Once, by the session's own key, and also when the client was canceled; whatever is answered. */
static void it_is_ended(void **state)
{
        static const int statuses[] = {204, 403, 404, 500, 503, 0};
        struct mr_session_key key = {.id = ID, .access_key = "SESSION", .secret = "s"};
        unsigned requests;
        char seen[1024];

        for (unsigned i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
                say(statuses[i], statuses[i] >= 400 ? "AccessDenied" : NULL);
                if (i == 1)
                        mr_client_cancel(f.client);
                mr_session_delete(f.client, &key, &waits);
                pthread_mutex_lock(&f.fake.lock);
                requests = f.requests;
                snprintf(seen, sizeof(seen), "%s %s %.255s", f.method, f.target, f.authorization);
                pthread_mutex_unlock(&f.fake.lock);
                /* curl repeats one that meets a kept connection's end */
                assert_in_range(requests, 1, 1 + (statuses[i] == 0));
                assert_non_null(strstr(seen, "DELETE /_millrace/rdma/v1/sessions/" ID " "));
                assert_non_null(strstr(seen, "Credential=SESSION/"));
        }
        say(204, NULL);
        fail_calloc = 1;
        mr_session_delete(f.client, &key, &waits);
        pthread_mutex_lock(&f.fake.lock);
        requests = f.requests;
        pthread_mutex_unlock(&f.fake.lock);
        assert_int_equal(requests, 0);
}

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                WITH_SERVER(what_is_asked),
                WITH_SERVER(what_is_answered),
                WITH_SERVER(credentials_that_end_sooner),
                WITH_SERVER(answers_that_open_none),
                WITH_SERVER(fields_of_another_age),
                WITH_SERVER(refusals),
                WITH_SERVER(no_answer),
                WITH_SERVER(canceled),
                WITH_SERVER(without_memory),
                WITH_SERVER(it_is_ended),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
