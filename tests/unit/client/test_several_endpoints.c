/*
 * test_several_endpoints.c - requests of a client with three endpoints, servers of the test's own:
 * where they go, where they go again, and how often an endpoint that fails is asked.
 */
#include "tests/unit/client/fake_s3.h"

#include "client/base/endpoints.h"
#include "client/http/client_request.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#define SERVERS 3
#define BODY    100000

/* What a server does with each request. Set before it starts, or under its lock. */
enum manner { SERVES, SLOW_DOWN, UNAVAILABLE, POOL_UNAVAILABLE, HANGS_UP, CUTS_BODIES, SLEEPS };

struct server {
        struct fake_s3 fake;
        enum manner manner;
        bool wrong_host;
        unsigned served;
};

struct store {
        struct server server[SERVERS];
};

static char bytes[BODY];

static void serve_object(const struct fake_request *request, struct fake_reply *reply)
{
        char range[512];
        size_t from = 0;

        if (sscanf(fake_header(request, "Range", range), "bytes=%zu-", &from) == 1) {
                reply->status = 206;
                snprintf(reply->headers, sizeof(reply->headers), "Content-Range: bytes %zu-%d/%d\r\nETag: \"e\"\r\n", from,
                         BODY - 1, BODY);
        } else {
                snprintf(reply->headers, sizeof(reply->headers), "ETag: \"e\"\r\n");
        }
        if (strcmp(request->method, "GET") == 0)
                fake_body(reply, bytes + from, BODY - from);
}

static void serve_by_manner(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct server *server = arg;
        char host[512];

        if (strcmp(fake_header(request, "Host", host), server->fake.url + strlen("http://")) != 0)
                server->wrong_host = true;
        switch (server->manner) {
        case SLOW_DOWN:
                fake_error(reply, 503, "SlowDown");
                return;
        case UNAVAILABLE:
                fake_error(reply, 503, "ServiceUnavailable");
                return;
        case POOL_UNAVAILABLE:
                fake_error(reply, 503, "ServiceUnavailable");
                snprintf(reply->headers, sizeof(reply->headers), "x-millrace-unavailable: pool\r\n");
                return;
        case HANGS_UP:
                reply->status = 0;
                return;
        case SLEEPS:
                nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
                reply->status = 0;
                return;
        case CUTS_BODIES:
        case SERVES:
                break;
        }
        if (strstr(request->target, "missing") != NULL) {
                fake_error(reply, 404, "NoSuchKey");
                return;
        }
        server->served++;
        serve_object(request, reply);
        if (server->manner == CUTS_BODIES)
                reply->send = reply->body_len / 2;
}

static unsigned stall_timeout_s = 1; /* the least: some endpoints hang */

static struct mr_client *start(struct store *store, enum manner first, enum manner others, unsigned attempts)
{
        struct mr_settings settings;
        struct mr_client *client;
        size_t len = 0;

        memset(store, 0, sizeof(*store));
        mr_settings_default(&settings);
        for (unsigned i = 0; i < SERVERS; i++) {
                struct server *server = &store->server[i];

                server->manner = i == 0 ? first : others;
                fake_start(&server->fake, serve_by_manner, server);
                len += (size_t)snprintf(settings.endpoint + len, sizeof(settings.endpoint) - len, "%s%s",
                                        i == 0 ? "" : ",", server->fake.url);
        }
        snprintf(settings.access_key, sizeof(settings.access_key), "AKID");
        snprintf(settings.secret_key, sizeof(settings.secret_key), "secret");
        settings.parallel = 4;
        settings.attempts = attempts;
        settings.stall_timeout_s = stall_timeout_s;
        assert_int_equal(mr_client_new(&settings, &client), 0);
        return client;
}

static void stop(struct store *store, struct mr_client *client)
{
        mr_client_free(client);
        for (unsigned i = 0; i < SERVERS; i++) {
                fake_stop(&store->server[i].fake);
                assert_false(store->server[i].wrong_host);
        }
}

/* Only after stop(), or where nothing is under way. */
static unsigned requests_of(const struct store *store)
{
        unsigned all = 0;

        for (unsigned i = 0; i < SERVERS; i++)
                all += store->server[i].fake.requests;
        return all;
}

/* So many requests, none of which fails. */
static void delete_all(struct mr_client *client, unsigned count)
{
        for (unsigned i = 0; i < count; i++)
                assert_int_equal(mr_delete(client, "bkt", "k", NULL), 0);
}

static int request_at(struct mr_client *client, const unsigned *endpoint)
{
        struct mr_request request = {.method = "DELETE", .bucket = "bkt", .key = "k", .only = endpoint, .single = true};
        struct mr_response response;
        int rv = mr_request_run(client, &request, &response, NULL);

        mr_response_free(&response);
        assert_int_equal(request.use.index, *endpoint);
        return rv;
}

static void get_whole(struct mr_client *client)
{
        struct mr_get get = {.bucket = "bkt", .key = "k"};
        struct mr_result result;
        static char into[BODY];

        memset(into, 0, sizeof(into));
        get.place = (struct mr_place){.memory = into, .len = BODY};
        assert_int_equal(mr_get(client, &get, &result), 0);
        assert_int_equal(result.bytes, BODY);
        assert_memory_equal(into, bytes, BODY);
        mr_result_free(&result);
}

static void requests_spread(void **state)
{
        struct store store;
        struct mr_client *client = start(&store, SERVES, SERVES, 1);

        delete_all(client, 120);
        assert_string_equal(mr_client_endpoint(client), store.server[0].fake.url);
        stop(&store, client);
        for (unsigned i = 0; i < SERVERS; i++)
                assert_in_range(store.server[i].served, 15, 75);
}

static void retries_go_elsewhere(void **state)
{
        static const enum manner manners[] = {SLOW_DOWN, UNAVAILABLE, POOL_UNAVAILABLE, HANGS_UP};

        for (size_t i = 0; i < sizeof(manners) / sizeof(manners[0]); i++) {
                struct store store;
                struct mr_client *client = start(&store, manners[i], SERVES, 2);

                /* two attempts are enough: the second is never where the first was */
                delete_all(client, 16);
                stop(&store, client);
                assert_int_equal(store.server[1].served + store.server[2].served, 16);
        }
}

/* SlowDown comes of an endpoint that works; the others are left alone for a while. */
static void those_that_fail_are_avoided(void **state)
{
        struct store store;
        struct mr_client *client = start(&store, UNAVAILABLE, SERVES, 2);

        delete_all(client, 100);
        stop(&store, client);
        assert_in_range(store.server[0].fake.requests, 1, 8);
}

static unsigned failures_of(struct mr_client *client, unsigned index)
{
        unsigned failures;

        pthread_mutex_lock(&client->lock);
        failures = client->endpoints.at[index].failures;
        pthread_mutex_unlock(&client->lock);
        return failures;
}

/* What one pool of a cluster lacks keeps no request for another pool from any endpoint. */
static void a_pool_that_is_down_is_no_fault_of_an_endpoint(void **state)
{
        struct store store;
        struct mr_client *client = start(&store, POOL_UNAVAILABLE, POOL_UNAVAILABLE, 4);
        struct mr_error err;

        assert_int_equal(mr_delete(client, "bkt", "k", &err), -EBUSY);
        assert_string_equal(err.s3_code, "ServiceUnavailable");
        for (unsigned i = 0; i < SERVERS; i++)
                assert_int_equal(failures_of(client, i), 0);
        stop(&store, client);
        assert_int_equal(requests_of(&store), 4);
        for (unsigned i = 0; i < SERVERS; i++)
                assert_in_range(store.server[i].fake.requests, 1, 2);
}

/* Nor does it say that an endpoint which had failed is well again. */
static void a_pool_that_is_down_praises_no_endpoint(void **state)
{
        static const unsigned first = 0;
        struct store store;
        struct mr_client *client = start(&store, UNAVAILABLE, SERVES, 1);

        assert_int_equal(request_at(client, &first), -EBUSY);
        assert_int_equal(failures_of(client, 0), 1);
        pthread_mutex_lock(&store.server[0].fake.lock);
        store.server[0].manner = POOL_UNAVAILABLE;
        pthread_mutex_unlock(&store.server[0].fake.lock);
        assert_int_equal(request_at(client, &first), -EBUSY);
        assert_int_equal(failures_of(client, 0), 1);
        stop(&store, client);
}

static void a_stopped_one_is_avoided(void **state)
{
        struct store store;
        struct mr_client *client = start(&store, SERVES, SERVES, 2);

        shutdown(store.server[0].fake.listen_fd, SHUT_RDWR); /* connections are refused from now on */
        delete_all(client, 100);
        stop(&store, client);
        assert_int_equal(store.server[1].served + store.server[2].served, 100);
}

static void one_that_comes_back_is_used_again(void **state)
{
        struct store store;
        struct mr_client *client = start(&store, UNAVAILABLE, SERVES, 2);
        unsigned served = 0;

        delete_all(client, 30);
        pthread_mutex_lock(&store.server[0].fake.lock);
        store.server[0].manner = SERVES;
        pthread_mutex_unlock(&store.server[0].fake.lock);
        for (unsigned k = 0; k < 1000 && served < 3; k++) {
                nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
                assert_int_equal(mr_delete(client, "bkt", "k", NULL), 0);
                pthread_mutex_lock(&store.server[0].fake.lock);
                served = store.server[0].served;
                pthread_mutex_unlock(&store.server[0].fake.lock);
        }
        stop(&store, client);
        assert_int_equal(served, 3);
}

static void a_cut_body_is_continued_elsewhere(void **state)
{
        struct store store;
        struct mr_client *client = start(&store, CUTS_BODIES, SERVES, 3);

        for (unsigned k = 0; k < 30; k++)
                get_whole(client);
        stop(&store, client);
        assert_true(store.server[0].served > 0);
}

static void one_that_hangs_is_given_up(void **state)
{
        struct store store;
        struct mr_client *client = start(&store, SLEEPS, SERVES, 2);

        delete_all(client, 8);
        stop(&store, client);
        assert_int_equal(store.server[1].served + store.server[2].served, 8);
}

static void lasting_failures_are_not_tried_elsewhere(void **state)
{
        struct store store;
        struct mr_client *client = start(&store, SERVES, SERVES, 5);
        struct mr_error err;

        assert_int_equal(mr_delete(client, "bkt", "missing", &err), -ENOENT);
        stop(&store, client);
        assert_int_equal(requests_of(&store), 1);
}

static void attempts_count_over_all(void **state)
{
        struct store store;
        struct mr_client *client = start(&store, UNAVAILABLE, UNAVAILABLE, 4);
        struct mr_error err;

        assert_int_equal(mr_delete(client, "bkt", "k", &err), -EBUSY);
        assert_string_equal(err.s3_code, "ServiceUnavailable");
        stop(&store, client);
        assert_int_equal(requests_of(&store), 4);
        for (unsigned i = 0; i < SERVERS; i++)
                assert_in_range(store.server[i].fake.requests, 1, 2);
}

static void all_down_is_a_failure_like_any(void **state)
{
        struct store store;
        struct mr_client *client = start(&store, SERVES, SERVES, 4);
        struct mr_error err;

        for (unsigned i = 0; i < SERVERS; i++)
                shutdown(store.server[i].fake.listen_fd, SHUT_RDWR);
        assert_int_equal(mr_delete(client, "bkt", "k", &err), -ECONNREFUSED);
        assert_int_equal(mr_delete(client, "bkt", "k", &err), -ECONNREFUSED);
        stop(&store, client);
        assert_int_equal(requests_of(&store), 0);
}

struct deleter {
        struct mr_client *client;
        pthread_t thread;
        int failed;
};

static void *delete_many(void *arg)
{
        struct deleter *deleter = arg;

        for (unsigned k = 0; k < 50; k++)
                deleter->failed += mr_delete(deleter->client, "bkt", "k", NULL) != 0;
        return NULL;
}

/* More threads than turns: requests wait with an endpoint that fails meanwhile. */
static void threads_share_what_is_known(void **state)
{
        struct store store;
        struct mr_client *client = start(&store, HANGS_UP, SERVES, 3);
        struct deleter deleter[8];

        for (unsigned i = 0; i < 8; i++) {
                deleter[i] = (struct deleter){.client = client};
                assert_int_equal(pthread_create(&deleter[i].thread, NULL, delete_many, &deleter[i]), 0);
        }
        for (unsigned i = 0; i < 8; i++) {
                pthread_join(deleter[i].thread, NULL);
                assert_int_equal(deleter[i].failed, 0);
        }
        stop(&store, client);
        assert_int_equal(store.server[1].served + store.server[2].served, 400);
        assert_in_range(store.server[0].fake.requests, 1, 60);
}

/* As what concerns an RDMA session does. What it meets there is known to all. */
static void a_request_may_have_one_endpoint_alone(void **state)
{
        static const unsigned first = 0, second = 1;
        struct store store;
        struct mr_client *client = start(&store, UNAVAILABLE, SERVES, 2);

        for (unsigned i = 0; i < 20; i++)
                assert_int_equal(request_at(client, &second), 0);
        assert_int_equal(request_at(client, &first), -EBUSY);
        delete_all(client, 20);
        assert_int_equal(request_at(client, &first), -EBUSY);
        pthread_mutex_lock(&client->lock);
        for (unsigned i = 0; i < SERVERS; i++)
                assert_int_equal(client->endpoints.at[i].load, 0);
        assert_true(client->endpoints.at[0].failures > 0);
        pthread_mutex_unlock(&client->lock);
        stop(&store, client);
        assert_int_equal(store.server[1].served + store.server[2].served, 40);
        assert_in_range(store.server[1].served, 20, 39);
}

struct name {
        struct store store;
        atomic_bool taken, lost; /* the answer to whoever takes it is lost */
};

/* A name that may be created once, at any of the endpoints. Requests come one after another. */
static void serve_name(void *arg, const struct fake_request *request, struct fake_reply *reply)
{
        struct name *name = arg;

        if (name->taken) {
                fake_error(reply, 412, "PreconditionFailed");
                return;
        }
        name->taken = true;
        if (name->lost)
                reply->status = 0;
}

static struct mr_client *start_name(struct name *name, bool taken, bool lost)
{
        struct mr_client *client;

        stall_timeout_s = 60; /* none hangs, and one that is slow leaves doubt */
        client = start(&name->store, SERVES, SERVES, 3);
        stall_timeout_s = 1;
        name->taken = taken;
        name->lost = lost;
        for (unsigned i = 0; i < SERVERS; i++) {
                struct fake_s3 *fake = &name->store.server[i].fake;

                pthread_mutex_lock(&fake->lock);
                fake->serve = serve_name;
                fake->arg = name;
                pthread_mutex_unlock(&fake->lock);
        }
        return client;
}

static int create_name(struct mr_client *client, struct mr_error *err)
{
        struct mr_put put = {.bucket = "bkt", .key = "k", .if_none_match = true};
        struct mr_result result;
        int rv;

        put.place = (struct mr_place){.memory = bytes, .len = 10};
        rv = mr_put(client, &put, &result);
        *err = result.error;
        mr_result_free(&result);
        return rv;
}

/* The next endpoint finds what the first has made. */
static void a_name_created_in_doubt(void **state)
{
        struct name name;
        struct mr_client *client = start_name(&name, false, true);
        struct mr_error err;

        assert_int_equal(create_name(client, &err), -EIO);
        assert_int_equal(err.http_status, 412);
        assert_string_equal(err.s3_code, "PreconditionFailed");
        stop(&name.store, client);
        assert_int_equal(requests_of(&name.store), 2);
}

static void a_name_of_anothers(void **state)
{
        struct name name;
        struct mr_client *client = start_name(&name, true, false);
        struct mr_error err;

        for (unsigned i = 0; i < 8; i++)
                assert_int_equal(create_name(client, &err), -EEXIST);
        stop(&name.store, client);
        assert_int_equal(requests_of(&name.store), 8);
}

/* Nothing was sent to the one that refuses connections. */
static void a_name_of_anothers_behind_a_refusal(void **state)
{
        struct name name;
        struct mr_client *client = start_name(&name, true, false);
        struct mr_error err;
        unsigned count = 0;

        shutdown(name.store.server[0].fake.listen_fd, SHUT_RDWR);
        shutdown(name.store.server[1].fake.listen_fd, SHUT_RDWR);
        for (; count == 0 || failures_of(client, 0) + failures_of(client, 1) == 0; count++) /* which are drawn is chance */
                assert_int_equal(create_name(client, &err), -EEXIST);
        stop(&name.store, client);
        assert_int_equal(requests_of(&name.store), count);
}

static void bad_lists_make_no_client(void **state)
{
        struct mr_settings settings;
        struct mr_client *client;
        char why[512];

        mr_settings_default(&settings);
        assert_int_equal(mr_settings_set(&settings, "endpoint", "http://a , https://b", why, sizeof(why)), -EINVAL);
        assert_int_equal(mr_settings_set(&settings, "endpoint", " http://a/ ,http://b, http://a", why, sizeof(why)), 0);
        assert_string_equal(settings.endpoint, "http://a,http://b");
        snprintf(settings.endpoint, sizeof(settings.endpoint), "http://a,https://b");
        assert_int_equal(mr_client_new(&settings, &client), -EINVAL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(requests_spread),
                cmocka_unit_test(retries_go_elsewhere),
                cmocka_unit_test(those_that_fail_are_avoided),
                cmocka_unit_test(a_pool_that_is_down_is_no_fault_of_an_endpoint),
                cmocka_unit_test(a_pool_that_is_down_praises_no_endpoint),
                cmocka_unit_test(a_stopped_one_is_avoided),
                cmocka_unit_test(one_that_comes_back_is_used_again),
                cmocka_unit_test(a_cut_body_is_continued_elsewhere),
                cmocka_unit_test(one_that_hangs_is_given_up),
                cmocka_unit_test(lasting_failures_are_not_tried_elsewhere),
                cmocka_unit_test(attempts_count_over_all),
                cmocka_unit_test(all_down_is_a_failure_like_any),
                cmocka_unit_test(threads_share_what_is_known),
                cmocka_unit_test(a_request_may_have_one_endpoint_alone),
                cmocka_unit_test(a_name_created_in_doubt),
                cmocka_unit_test(a_name_of_anothers),
                cmocka_unit_test(a_name_of_anothers_behind_a_refusal),
                cmocka_unit_test(bad_lists_make_no_client),
        };

        for (unsigned i = 0; i < BODY; i++)
                bytes[i] = (char)(i * 7 % 251);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
