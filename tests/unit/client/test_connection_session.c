/*
 * test_connection_session.c - connection_session.c: sessions that are refused, expire, break, and
 * are opened again, as grants see them; for how long nobody asks where RDMA is not to be had; and
 * the link below, which outlives them.
 */
#include "tests/unit/client/connection_world.h"

static struct want want;

static int ask_one(bool insist)
{
        want_init(&want);
        want.grant.insist = insist;
        return want_briefly(&want);
}

static void say(int rv, int status)
{
        world_locked();
        world.open_rv = rv;
        world.open_status = status;
        world_unlocked();
}

/* ---- no RDMA --------------------------------------------------------------------------------- */

/* So long is nobody asked, and then once. */
static void refused_for(int rv, int status, int64_t ms, bool even_who_insists)
{
        unsigned opens;

        say(rv, status);
        assert_int_equal(ask_one(false), rv);
        opens = world_count(&world.opens);
        assert_non_null(strstr(want.grant.error.message, "says the test"));
        world_advance(ms - 1);
        assert_int_equal(ask_one(false), rv);
        assert_non_null(strstr(want.grant.error.message, "says the test"));
        assert_int_equal(world_count(&world.opens), opens);
        if (even_who_insists)
                assert_int_equal(ask_one(true), rv);
        assert_int_equal(world_count(&world.opens), opens);
        world_advance(1);
        say(0, 0);
        assert_int_equal(ask_one(false), 0);
        assert_int_equal(world_count(&world.opens), opens + 1);
}

static void an_endpoint_without_rdma(void **state)
{
        refused_for(-EOPNOTSUPP, 501, 300000, true);
}

static void a_machine_without_rdma(void **state)
{
        refused_for(-EOPNOTSUPP, 0, 60000, true);
}

static void a_user_who_may_not(void **state)
{
        refused_for(-EACCES, 403, 10000, false);
}

static void too_many_sessions(void **state)
{
        refused_for(-EBUSY, 503, 1000, false);
}

static void failures_in_a_row(void **state)
{
        static const int64_t pauses[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000};

        say(-ECONNREFUSED, 0);
        for (unsigned i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
                assert_int_equal(ask_one(false), -ECONNREFUSED);
                assert_int_equal(world_count(&world.opens), i + 1);
                world_advance(pauses[i] - 1);
                assert_int_equal(ask_one(false), -ECONNREFUSED);
                assert_int_equal(world_count(&world.opens), i + 1);
                world_advance(1);
        }
        say(0, 0);
        assert_int_equal(ask_one(false), 0);
        world_down();
        connection_turn();
        refused_for(-ECONNREFUSED, 0, 1000, false); /* a success begins it anew */
}

static void who_insists_asks_anyway(void **state)
{
        say(-EBUSY, 503);
        assert_int_equal(ask_one(false), -EBUSY);
        assert_int_equal(ask_one(true), -EBUSY);
        assert_int_equal(world_count(&world.opens), 2);
        say(0, 0);
        assert_int_equal(ask_one(true), 0);
        assert_int_equal(ask_one(false), 0);
}

/* One opening is for all that wait, and so is its failure. */
static void a_refusal_is_everybodys(void **state)
{
        static struct want wants[5];

        world.slow = true;
        say(-EBUSY, 503);
        for (unsigned i = 0; i < 5; i++) {
                want_init(&wants[i]);
                wants[i].grant.insist = i % 2 == 0;
                want_ask(&wants[i]);
        }
        sem_wait(&world.opening);
        connection_turn();
        atomic_store(&world.letting, true);
        mr_core_wake(world.client);
        for (unsigned i = 0; i < 5; i++)
                assert_int_equal(want_answer(&wants[i]), -EBUSY);
        assert_int_equal(world_count(&world.opens), 1);
}

static void no_transport(void **state)
{
        world.transport_rv = -EOPNOTSUPP;
        assert_int_equal(ask_one(true), -EOPNOTSUPP);
        assert_int_equal(world_count(&world.opens), 0);
}

static void unsigned_requests(void **state)
{
        struct mr_options options;
        struct mr_client *signs = world.client;

        mr_options_init(&options);
        options.endpoint = "http://127.0.0.1:1";
        options.credentials = MR_CREDENTIALS_NONE;
        assert_int_equal(mr_client_open(&options, &world.client, NULL), 0);
        assert_int_equal(ask_one(true), -EOPNOTSUPP);
        assert_int_equal(world_count(&world.opens), 0);
        mr_client_free(world.client);
        world.client = signs;
}

/* ---- sessions that end ----------------------------------------------------------------------- */

/* One is lost now, and the next later. */
static void lose_one(int64_t later)
{
        assert_int_equal(ask_one(false), 0);
        world_down();
        connection_turn();
        world_advance(later);
}

static void sessions_that_keep_breaking(void **state)
{
        lose_one(30001);
        lose_one(30001);
        lose_one(0); /* three, but not within a minute */
        lose_one(0);
        assert_int_equal(ask_one(false), -EOPNOTSUPP); /* the last three were */
        assert_non_null(strstr(want.grant.error.message, "keep breaking"));
        assert_int_equal(ask_one(true), -EOPNOTSUPP);
        world_advance(59999);
        assert_int_equal(ask_one(true), -EOPNOTSUPP);
        world_advance(1);
        assert_int_equal(ask_one(false), 0);
        assert_int_equal(world_count(&world.opens), 5);
}

static void one_that_expires_is_replaced_before(void **state)
{
        assert_int_equal(ask_one(false), 0);
        world_advance(3600000 - 60001);
        assert_int_equal(world_count(&world.opens), 1);
        world_advance(1);
        connection_turn();
        assert_int_equal(world_count(&world.opens), 2); /* it was used: another is there before anybody asks */
        assert_int_equal(world_count(&world.deletes), 1);
        assert_int_equal(world_count(&world.links), 1);
        world_advance(3600000);
        connection_turn();
        assert_int_equal(world_count(&world.opens), 2); /* this one was not */
        assert_int_equal(world_count(&world.deletes), 2);
        assert_int_equal(world_count(&world.clients_open), 0);
        assert_int_equal(ask_one(false), 0);
        assert_int_equal(world_count(&world.opens), 3);
}

/* Requests that are out keep theirs; what comes later waits for the next. */
static void one_that_expires_in_use(void **state)
{
        struct want *old = &want;
        static struct want next;

        want_init(old);
        want_ask(old);
        assert_int_equal(want_answer(old), 0);
        world_advance(3600000 - 60000);
        want_init(&next);
        want_ask(&next);
        connection_turn();
        assert_int_equal(next.grants, 0);
        assert_int_equal(world_count(&world.fences), 0);
        mr_grant_over(&old->grant, MR_LEASE_QUIET);
        assert_int_equal(want_end(old), 0);
        assert_int_equal(want_answer(&next), 0);
        assert_int_equal(world_count(&world.opens), 2);
        assert_int_equal(world_count(&world.deletes), 1);
        mr_grant_over(&next.grant, MR_LEASE_QUIET);
        assert_int_equal(want_end(&next), 0);
}

static void a_short_one(void **state)
{
        world.life_ms = 1000; /* a tenth of it is kept back */
        assert_int_equal(ask_one(false), 0);
        world_advance(899);
        assert_int_equal(world_count(&world.opens), 1);
        world_advance(1);
        connection_turn();
        assert_int_equal(world_count(&world.opens), 2);
}

/* It would be opened again and again, and never be granted from. */
static void one_that_expires_at_once(void **state)
{
        world.life_ms = 0;
        assert_int_equal(ask_one(true), -EPROTO);
        assert_non_null(strstr(want.grant.error.message, "expires"));
        assert_int_equal(world_count(&world.opens), 1);
        assert_int_equal(ask_one(false), -EPROTO);
        assert_int_equal(world_count(&world.opens), 1);
        assert_int_equal(world_count(&world.clients_open), 0);
}

static void other_credentials(void **state)
{
        struct mr_credentials credentials;

        assert_int_equal(ask_one(false), 0);
        assert_true(mr_creds_refused(world.client->creds, mr_creds_generation(world.client->creds)));
        assert_int_equal(mr_client_credentials(world.client, &credentials, NULL), 0);
        assert_int_equal(ask_one(false), 0);
        assert_int_equal(world_count(&world.opens), 2);
        assert_int_equal(world_count(&world.deletes), 1);
}

static void canceled_meanwhile(void **state)
{
        world.slow = true;
        want_init(&want);
        want_ask(&want);
        sem_wait(&world.opening);
        mr_client_cancel(world.client);
        assert_int_equal(want_answer(&want), -ECANCELED);
        assert_int_equal(mr_rdma_context_refused(world.client, MR_CONNECTION_HOST, NULL),
                         0); /* which says nothing of the endpoint */
}

/* ---- the link -------------------------------------------------------------------------------- */

static void another_address(void **state)
{
        assert_int_equal(ask_one(false), 0);
        assert_int_equal(world_count(&world.registrations), 1);
        world_down();
        world_locked();
        snprintf(world.address, sizeof(world.address), "10.0.0.2");
        world_unlocked();
        connection_turn();
        assert_int_equal(ask_one(false), 0);
        assert_int_equal(world_count(&world.links), 2);
        assert_int_equal(world_count(&world.links_open), 1);
        assert_int_equal(world_count(&world.registrations), 2);
        assert_int_equal(world_count(&world.registered), 1);
}

/* Perhaps the device is gone: all that hangs on it is given up. */
static void no_connection(void **state)
{
        static const struct {
                int rv, error;
        } cases[] = {{-EACCES, -EACCES}, {-ENODEV, -EIO}, {-ETIMEDOUT, -ETIMEDOUT}};

        for (unsigned i = 0; i < 3; i++) {
                world_advance(61000);
                world_locked();
                world.connect_rv = 0;
                world_unlocked();
                assert_int_equal(ask_one(false), 0);
                world_down();
                world_locked();
                world.connect_rv = cases[i].rv;
                world_unlocked();
                connection_turn();
                assert_int_equal(ask_one(true), cases[i].error);
                assert_non_null(strstr(want.grant.error.message, "connection"));
                assert_int_equal(world_count(&world.links_open), 0);
                assert_int_equal(world_count(&world.registered), 0);
        }
}

static void no_device(void **state)
{
        static const struct {
                int rv, error;
                bool lasts;
        } cases[] = {{-ENODEV, -EOPNOTSUPP, true},
                     {-ENOSYS, -EOPNOTSUPP, true},
                     {-ENOTSUP, -EOPNOTSUPP, true},
                     {-ETIMEDOUT, -ETIMEDOUT, false}};

        for (unsigned i = 0; i < 4; i++) {
                unsigned opens = world_count(&world.opens);

                world_advance(61000);
                world_locked();
                world.link_rv = cases[i].rv;
                world_unlocked();
                assert_int_equal(ask_one(true), cases[i].error);
                assert_int_equal(ask_one(true), cases[i].error);
                assert_int_equal(world_count(&world.opens), opens + (cases[i].lasts ? 1 : 2));
        }
}

static void rights_that_the_device_lacks(void **state)
{
        world.device_rights = RDX_RIGHTS_WINDOW1;
        assert_int_equal(ask_one(false), 0); /* the endpoint chose type 2, before anybody knew the device */
        assert_int_equal(world_count(&world.opens), 2);
        assert_int_equal(world_count(&world.asked_rights), RDX_RIGHTS_WINDOW1);
        world_down();
        connection_turn();
        assert_int_equal(ask_one(false), 0);
        assert_int_equal(world_count(&world.opens), 3); /* it is known now */
}

static void what_has_granted_it(void **state)
{
        struct mr_rdma_report report = {0};

        want_init(&want);
        want_ask(&want);
        assert_int_equal(want_answer(&want), 0);
        mr_grant_describe(&want.grant, &report);
        assert_string_equal(report.device, "double0");
        assert_string_equal(report.address, "10.0.0.1");
        assert_string_equal(report.rights, "window2");
        assert_int_equal(report.port, 9010);
        assert_int_equal(report.requests, 4);
        mr_grant_over(&want.grant, MR_LEASE_QUIET);
        assert_int_equal(want_end(&want), 0);
}

/* A session that is open is told to end; nothing is left (world_tear_down() looks). */
static void the_end(void **state)
{
        assert_int_equal(ask_one(false), 0);
        mr_client_cancel(world.client);
        mr_rdma_context_stop(world.client->rdma);
        assert_int_equal(world_count(&world.deletes), 1);
        assert_int_equal(world_count(&world.links_open), 0);
        assert_int_equal(world_count(&world.registered), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                IN_A_WORLD(an_endpoint_without_rdma),
                IN_A_WORLD(a_machine_without_rdma),
                IN_A_WORLD(a_user_who_may_not),
                IN_A_WORLD(too_many_sessions),
                IN_A_WORLD(failures_in_a_row),
                IN_A_WORLD(who_insists_asks_anyway),
                IN_A_WORLD(a_refusal_is_everybodys),
                IN_A_WORLD(no_transport),
                IN_A_WORLD(unsigned_requests),
                IN_A_WORLD(sessions_that_keep_breaking),
                IN_A_WORLD(one_that_expires_is_replaced_before),
                IN_A_WORLD(one_that_expires_in_use),
                IN_A_WORLD(a_short_one),
                IN_A_WORLD(one_that_expires_at_once),
                IN_A_WORLD(other_credentials),
                IN_A_WORLD(canceled_meanwhile),
                IN_A_WORLD(another_address),
                IN_A_WORLD(no_connection),
                IN_A_WORLD(no_device),
                IN_A_WORLD(rights_that_the_device_lacks),
                IN_A_WORLD(what_has_granted_it),
                IN_A_WORLD(the_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
