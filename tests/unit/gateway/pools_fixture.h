/*
 * pools_fixture.h - a gateway over the stores of two pools, or of one, each of which may be a home's; requests to it, and a user.
 */
#ifndef MILLRACE_TESTS_POOLS_FIXTURE_H
#define MILLRACE_TESTS_POOLS_FIXTURE_H

#include "gateway/http/gw.h"
#include "gateway/people/bucket_owner.h"
#include "tests/lib/home_fixture.h"
#include "tests/lib/store_objects.h"
#include "tests/unit/gateway/client_fixture.h"

/* Not every program uses every piece. */
#pragma GCC diagnostic ignored "-Wunused-function"

#define FIRST 1u
#define OTHER 2u

/* The pools' stores are on one loop, which is base's. A pool that is a home's has a leader on loops of its own. */
static struct sf plain[2], leader;
static struct hf hf;
static struct sf *first, *other, *base;
static struct gw_gateway *gw;
static bool with_home;
static unsigned site_logs_ms = 40; /* from a record of an access log to its delivery */

#define USER_KEY    "AKIAIOSFODNN7EXAMPLE"
#define USER_SECRET "the secret of alice"

/* It lies open. */
static int open_secret(void *arg, const char *about, const char *sealed, char *secret, size_t size)
{
        return (size_t)snprintf(secret, size, "%s", sealed) < size ? 0 : -EBADMSG;
}

/* ---- on the loop ----------------------------------------------------------------------------- */

struct job {
        const char *name;
        unsigned number;
        bool said, add_other;
        int rv;
};

static void site_make(void *arg)
{
        const struct gw_credential root = {ACCESS_KEY, SECRET_KEY};
        const struct job *job = arg;
        struct gw_options options = {.store = first->store,
                                     .pool = FIRST,
                                     .loops = base->loops,
                                     .loop_count = 1,
                                     .sealer.open = open_secret};

        assert_int_equal(gw_new(&options, &gw), 0);
        if (job->add_other)
                assert_int_equal(gw_pool_add(gw, OTHER, other->store), 0);
        assert_int_equal(gw_logs_start(gw, site_logs_ms), 0);
        assert_int_equal(gw_credentials_set(gw, &root, 1), 0);
        assert_int_equal(gw_listen(gw, 0, listen_any(&site_port), false, NULL), 0);
}

static void site_stopped(void)
{
        gw_free(gw);
}

static void site_begin(bool add_other)
{
        base->stopped = site_stopped;
        hf_run(base->loops[0], site_make, &(struct job){.add_other = add_other});
}

static void make_plain(struct sf *sf)
{
        sf_make(sf, 4, 1);
        sf->options.ec_k = sf->options.ec_m = 2;
}

static void open_leader(void)
{
        sf_make(&leader, 4, 1);
        leader.options.ec_k = leader.options.ec_m = 2;
        assert_int_equal(sf_open(&leader, true), 0);
        assert_true(sf_wait_health(&leader, so_whole, NULL, 20));
        with_home = true;
}

/* Two stores of one machine; the gateway knows the second one, or does not. */
static int begin_two(bool add_other)
{
        make_plain(&plain[0]);
        make_plain(&plain[1]);
        with_home = false;
        base = first = &plain[0];
        other = &plain[1];
        assert_int_equal(sf_open(first, true), 0);
        assert_int_equal(sf_open_beside(other, first, true), 0);
        assert_true(sf_wait_health(first, so_whole, NULL, 20));
        assert_true(sf_wait_health(other, so_whole, NULL, 20));
        site_begin(add_other);
        return 0;
}

static int begin_plain(void **state)
{
        return begin_two(true);
}

static int begin_alone(void **state)
{
        return begin_two(false);
}

/* The first pool's leader is another process; the gateway knows the other one, or does not. */
static int begin_home(bool add_other)
{
        open_leader();
        hf_open(&hf, &leader, 1);
        make_plain(&plain[0]);
        base = first = &hf.home;
        other = &plain[0];
        assert_int_equal(sf_open_beside(other, first, true), 0);
        assert_true(sf_wait_health(other, so_whole, NULL, 20));
        site_begin(add_other);
        return 0;
}

static int begin_first_home(void **state)
{
        return begin_home(true);
}

static int begin_home_alone(void **state)
{
        return begin_home(false);
}

/* The other pool's is. */
static int begin_other_home(void **state)
{
        open_leader();
        make_plain(&plain[0]);
        base = first = &plain[0];
        other = &hf.home;
        assert_int_equal(sf_open(first, true), 0);
        assert_true(sf_wait_health(first, so_whole, NULL, 20));
        hf_open_beside(&hf, &leader, first);
        site_begin(true);
        return 0;
}

static int end(void **state)
{
        bool base_is_home = with_home && base == &hf.home;

        if (base_is_home)
                hf_close(&hf);
        else
                sf_close(base);
        if (with_home && !base_is_home)
                hf_free(&hf);
        if (with_home) {
                sf_close(&leader);
                sf_remove(&leader);
        }
        sf_remove(&plain[0]);
        if (!with_home)
                sf_remove(&plain[1]);
        return 0;
}

static void ask_pool(void *arg)
{
        struct job *job = arg;

        job->rv = gw_pool_of_new(gw, s3_str_of(job->name), &job->number, &job->said);
}

static unsigned pool_of_new(const char *name)
{
        struct job job = {.name = name};

        hf_run(base->loops[0], ask_pool, &job);
        assert_int_equal(job.rv, 0);
        return job.number;
}

/* A name that was not used, and that a new bucket of this pool would have. */
static void name_for(unsigned pool, char name[32])
{
        static unsigned count;
        unsigned tries = 0;

        do
                snprintf(name, 32, "bucket-%u", count++);
        while (pool_of_new(name) != pool && tries++ < 1000);
        assert_true(tries < 1000);
}

static bool has_bucket(struct sf *sf, const char *name)
{
        struct eng_bucket_rules rules;

        return sf_rules(sf, 0, name, &rules) == 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void http_ask(const char *method, const char *target, const char *body, const struct s3_header *amz,
                     unsigned amz_count, struct answer *answer)
{
        char head[8192], more[64];
        int fd = dial();

        snprintf(more, sizeof(more), "Content-Length: %zu\r\n", strlen(body));
        send_all(fd, head,
                 signed_head(head, sizeof(head), method, target, amz, amz_count,
                             *body != '\0' || strcmp(method, "PUT") == 0 ? more : NULL));
        send_text(fd, body);
        read_answer(fd, answer, strcmp(method, "HEAD") == 0);
        close(fd);
}

static unsigned http_status(const char *method, const char *target, const char *body)
{
        struct answer answer;

        http_ask(method, target, body, NULL, 0, &answer);
        answer_free(&answer);
        return answer.status;
}

static unsigned http_bucket(const char *method, const char *bucket)
{
        char target[256];

        snprintf(target, sizeof(target), "/%s", bucket);
        return http_status(method, target, "");
}

static unsigned http_object(const char *method, const char *bucket, const char *key, const char *body)
{
        char target[256];

        snprintf(target, sizeof(target), "/%s/%s", bucket, key);
        return http_status(method, target, body);
}

static void expect_object(const char *bucket, const char *key, const char *body)
{
        struct answer answer;
        char target[256];

        snprintf(target, sizeof(target), "/%s/%s", bucket, key);
        http_ask("GET", target, "", NULL, 0, &answer);
        assert_int_equal(answer.status, 200);
        assert_string_equal(answer.body, body);
        answer_free(&answer);
}

static void expect_error(const char *method, const char *target, const char *body, unsigned status, const char *code)
{
        struct answer answer;
        char wanted[128];

        http_ask(method, target, body, NULL, 0, &answer);
        snprintf(wanted, sizeof(wanted), "<Code>%s</Code>", code);
        assert_int_equal(answer.status, status);
        assert_non_null(strstr(answer.body, wanted));
        answer_free(&answer);
}

/* Without a signature. */
static unsigned http_plain(const char *target)
{
        struct answer answer;
        char head[256];
        int fd = dial();

        snprintf(head, sizeof(head), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", target);
        send_text(fd, head);
        read_answer(fd, &answer, false);
        close(fd);
        answer_free(&answer);
        return answer.status;
}

static unsigned copy_object(const char *bucket, const char *key, const char *source)
{
        struct s3_header headers[] = {{S3_STR("x-amz-copy-source"), s3_str_of(source)}};
        struct answer answer;
        char target[128];

        snprintf(target, sizeof(target), "/%s/%s", bucket, key);
        http_ask("PUT", target, "", headers, 1, &answer);
        answer_free(&answer);
        return answer.status;
}

static bool has_object_below(const char *bucket, const char *prefix)
{
        struct answer answer;
        char target[128];
        bool has;

        snprintf(target, sizeof(target), "/%s?list-type=2&prefix=%s", bucket, prefix);
        http_ask("GET", target, "", NULL, 0, &answer);
        has = answer.body != NULL && strstr(answer.body, "<Key>") != NULL;
        answer_free(&answer);
        return has;
}

/* No leader waits for the home: that is told by hand. */
static void make_bucket(const char *name)
{
        (void)http_bucket("PUT", name);
        hf_follow(&hf);
        assert_int_equal(http_bucket("PUT", name), 200);
}

/* ---- a user ---------------------------------------------------------------------------------- */

static void keep_entity(struct sf *sf, struct gw_entity *entity)
{
        char *text;
        size_t len;

        assert_int_equal(gw_entity_encode(entity, &text, &len), 0);
        assert_int_equal(sf_text_set(sf, 0, gw_entity_number(&entity->who), entity->who.kind, 0, text, len), 0);
        free(text);
}

/* Alice, who may do all. */
static void make_user(struct sf *sf)
{
        struct gw_pair policy = {.name = "own",
                                 .text = "{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Action\":"
                                         "\"*\",\"Resource\":\"*\"}]}"};
        struct gw_entity key = {.who = {.kind = GW_ACCESS_KEY, .of = "alice", .name = USER_KEY},
                                .owner = GW_FIRST_ACCOUNT,
                                .sealed = USER_SECRET,
                                .created_ms = 1,
                                .active = 1};
        struct gw_entity user = {.who = {.kind = GW_USER, .account = GW_FIRST_ACCOUNT, .name = "alice"},
                                 .path = "/",
                                 .id = "AIDAEXAMPLE",
                                 .created_ms = 1};

        user.sets[GW_SET_INLINE] = (struct gw_pairs){1, &policy};
        keep_entity(sf, &key);
        keep_entity(sf, &user);
}

static void be_user(bool user)
{
        site_access = user ? USER_KEY : ACCESS_KEY;
        site_secret = user ? USER_SECRET : SECRET_KEY;
}

#endif
