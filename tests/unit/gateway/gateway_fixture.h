/*
 * gateway_fixture.h - a gateway on one loop of its own thread over the fake engine.
 */
#include "gateway.h"
#include "gateway/http/gw.h"
#include "s3.h"
#include "tests/unit/gateway/client_fixture.h"
#include "tests/unit/gateway/fake_engine.h"

static struct {
        struct lp_loop *loop;
        struct gw_gateway *gw;
        pthread_t thread;
        pthread_mutex_t lock;
        struct gw_access last;          /* of the access log; only its numbers */
        char last_operation[64], last_error[64];
        _Atomic unsigned lines;
} site = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct rdx_server *site_rdma;                                     /* of the next site_open() */
static unsigned site_day_seconds; /* of lifecycle rules, from the next site_open() on; 0: none are run */

/*
 * What root may not do, while it is set: of gw_permit(). asked counts its questions, and asked_for
 * is the permission of the last.
 */
typedef bool site_policy(const char *permission, struct s3_str bucket, struct s3_str key);
static _Atomic(site_policy *) site_may;
static _Atomic unsigned site_asked;
static _Atomic(const char *) site_asked_for;

static bool ask_policy(const struct gw_credential *who, const char *permission, struct s3_str bucket, struct s3_str key)
{
        site_policy *may = site_may;

        site_asked++;
        site_asked_for = permission;
        return may == NULL || may(permission, bucket, key);
}

static void note_access(void *arg, const struct gw_access *line)
{
        pthread_mutex_lock(&site.lock);
        site.last = *line;
        snprintf(site.last_operation, sizeof(site.last_operation), "%s", line->operation);
        snprintf(site.last_error, sizeof(site.last_error), "%s", line->error_code != NULL ? line->error_code : "");
        site.lines++;
        pthread_mutex_unlock(&site.lock);
}

/* Of the answer before: it may have come before its line. */
static inline bool last_error_is(const char *code)
{
        bool is;

        pthread_mutex_lock(&site.lock);
        is = strcmp(site.last_error, code) == 0;
        pthread_mutex_unlock(&site.lock);
        return is;
}

static void *run_loop(void *arg)
{
        assert_int_equal(lp_loop_run(arg), 0);
        return NULL;
}

static void site_open(const struct gw_limits *limits)
{
        const struct gw_credential root = {ACCESS_KEY, SECRET_KEY};
        struct lp_config config = {.slots = 8};
        struct gw_options options = {.store = &fake.store, .loops = &site.loop, .loop_count = 1, .region = site_region, .rdma = site_rdma,
                                     .domains = "s3.example.org", .access = note_access};

        if (limits != NULL)
                options.limits = *limits;
        site.lines = 0;
        assert_int_equal(lp_loop_new(&config, &site.loop), 0);
        fake_reset(site.loop);
        assert_int_equal(gw_new(&options, &site.gw), 0);
        if (site_day_seconds != 0)
                assert_int_equal(gw_lifecycle_start(site.gw, site_day_seconds), 0);
        site_may = NULL;
        site.gw->policy = ask_policy;
        assert_int_equal(gw_credentials_set(site.gw, &root, 1), 0);
        assert_int_equal(gw_listen(site.gw, 0, listen_any(&site_port), false, NULL), 0);
        assert_int_equal(pthread_create(&site.thread, NULL, run_loop, site.loop), 0);
}

static void site_close(void)
{
        lp_loop_stop(site.loop);
        pthread_join(site.thread, NULL);
        gw_free(site.gw);
        lp_loop_free(site.loop);
        fake_reset(NULL);
}

static int site_setup(void **state)
{
        site_open(NULL);
        return 0;
}

static int site_teardown(void **state)
{
        site_close();
        return 0;
}

static struct gw_stats figures(void)
{
        struct gw_stats stats;

        gw_stats_read(site.gw, &stats);
        return stats;
}

static uint64_t connections_open(void)
{
        return figures().connections_open;
}
