/*
 * test_rdma_context.c - rdma_context.c: sessions with several endpoints at once, to which of them a
 * grant goes, what the end of one leaves to the others, and how many there may be.
 */
#include "tests/unit/client/connection_world.h"

#define ENDPOINTS 10u /* more than may have sessions at once */
#define ALL       ((1u << ENDPOINTS) - 1)

static struct want want[ENDPOINTS], other;

static int set_up(void **state)
{
        char list[512];
        size_t len = 0;

        for (unsigned i = 0; i < ENDPOINTS; i++)
                len += (size_t)snprintf(list + len, sizeof(list) - len, "%shttp://127.0.0.1:%u", i == 0 ? "" : ",",
                                        i + 1);
        return world_set_up_of(list);
}

/* At this endpoint, if that may be: it has been at all others. */
static void want_init_at(struct want *one, unsigned endpoint)
{
        want_init(one);
        one->grant.tried = ALL & ~(1u << endpoint);
}

static int ask_at(struct want *one, unsigned endpoint)
{
        want_init_at(one, endpoint);
        want_ask(one);
        return want_answer(one);
}

/* Grants from the first endpoints, which stay. */
static void grants_at_each(unsigned count)
{
        for (unsigned i = 0; i < count; i++) {
                assert_int_equal(ask_at(&want[i], i), 0);
                assert_int_equal(want[i].grant.key.endpoint, i);
        }
}

static void end_well(struct want *one)
{
        mr_grant_over(&one->grant, MR_LEASE_QUIET);
        assert_int_equal(want_end(one), 0);
}

static void none_is_busy(void)
{
        pthread_mutex_lock(&world.client->lock);
        for (unsigned i = 0; i < ENDPOINTS; i++)
                assert_int_equal(world.client->endpoints.at[i].load, 0);
        pthread_mutex_unlock(&world.client->lock);
}

static void fail_openings(int rv, int status, unsigned sound)
{
        world_locked();
        world.open_rv = rv;
        world.open_status = status;
        world.sound = sound;
        world_unlocked();
}

/* ---- several at once ------------------------------------------------------------------------- */

static void each_has_a_session(void **state)
{
        grants_at_each(3);
        assert_int_equal(world_count(&world.opens), 3);
        assert_int_equal(world_count(&world.clients_open), 3);
        assert_int_equal(world_count(&world.registrations), 3); /* none can reach what another was granted */
        for (unsigned i = 0; i < 3; i++)
                end_well(&want[i]);
        none_is_busy();
        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(ask_at(&want[i], i), 0);
                end_well(&want[i]);
        }
        assert_int_equal(world_count(&world.opens), 3);
        assert_int_equal(world_count(&world.registrations), 3);
}

/* As attempts of requests are: to the less busy of two that are drawn. */
static void grants_are_spread(void **state)
{
        static struct want many[60];
        unsigned at[ENDPOINTS] = {0};

        world.requests = WORLD_GRIPS;
        for (unsigned i = 0; i < 60; i++) {
                want_init(&many[i]);
                want_granted_now(&many[i]);
                at[many[i].grant.key.endpoint]++;
        }
        for (unsigned i = 0; i < 60; i++)
                end_well(&many[i]);
        for (unsigned i = 0; i < ENDPOINTS; i++)
                assert_in_range(at[i], 0, WORLD_GRIPS);
        assert_int_equal(world_count(&world.opens), MR_RDMA_ENDPOINTS);
        none_is_busy();
}

static void one_dies_alone(void **state)
{
        grants_at_each(3);
        world_down_at(1);
        for (unsigned i = 0; i < 3; i++)
                mr_grant_over(&want[i].grant, MR_LEASE_NOTICED);
        assert_int_equal(want_end(&want[1]), -ENOTCONN);
        assert_int_equal(world_count(&world.clients_open), 2);
        assert_int_equal(want[0].ends + want[2].ends, 0);
        assert_true(world_notice(&want[0].grant));
        assert_true(world_notice(&want[2].grant));
        assert_int_equal(want_end(&want[0]), 0);
        assert_int_equal(want_end(&want[2]), 0);
        assert_int_equal(world_count(&world.fences), 1);

        /* what it held is asked for again, of one whose session lives */
        want[1].grant.tried &= ~5u;
        want[1].ends = 0;
        want_ask(&want[1]);
        assert_int_equal(want_answer(&want[1]), 0);
        assert_in_set(want[1].grant.key.endpoint, ((const unsigned long[]){0, 2}), 2);
        end_well(&want[1]);
        assert_int_equal(world_count(&world.opens), 3);
}

/* Endpoint 1 alone breaks three times a minute: for a minute nothing goes there, and all goes elsewhere. */
static void one_that_keeps_breaking(void **state)
{
        grants_at_each(1);
        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(ask_at(&other, 1), 0);
                assert_int_equal(other.grant.key.endpoint, 1);
                world_down_at(1);
                mr_grant_over(&other.grant, MR_LEASE_NOTICED);
                assert_int_equal(want_end(&other), -ENOTCONN);
        }
        assert_int_equal(world_count(&world.links_open), 1);
        assert_int_equal(world_count(&world.registered), 1);
        assert_int_equal(mr_rdma_context_refused(world.client, MR_CONNECTION_HOST, NULL), 0);
        assert_int_equal(ask_at(&other, 1), 0);
        assert_int_not_equal(other.grant.key.endpoint, 1);
        end_well(&other);
        end_well(&want[0]);
        atomic_fetch_add(&world.clock_ms, 60000);
        assert_int_equal(ask_at(&other, 1), 0);
        assert_int_equal(other.grant.key.endpoint, 1);
        end_well(&other);
}

/* ---- where one has no RDMA ------------------------------------------------------------------- */

static void what_one_lacks_another_has(void **state)
{
        struct mr_error err;

        fail_openings(-EOPNOTSUPP, 501, ALL & ~2u);
        want_init_at(&other, 1);
        other.grant.insist = true;
        want_ask(&other);
        assert_int_equal(want_answer(&other), -EOPNOTSUPP);
        assert_false(mr_grant_may_pass(world.client, &other.grant, -EOPNOTSUPP)); /* it was everywhere */
        assert_false(mr_grant_may_pass(world.client, &other.grant, -ENOMEM));
        assert_true(mr_grant_may_pass(world.client, &other.grant, -ENOTCONN));
        other.grant.tried = 2;
        assert_true(mr_grant_may_pass(world.client, &other.grant, -EOPNOTSUPP));
        assert_true(mr_grant_may_pass(world.client, &other.grant, -EACCES));
        assert_true(mr_grant_may_pass(world.client, &other.grant, -ENOMEM));
        want_ask(&other);
        assert_int_equal(want_answer(&other), 0);
        assert_int_not_equal(other.grant.key.endpoint, 1);
        end_well(&other);
        assert_int_equal(mr_rdma_context_refused(world.client, MR_CONNECTION_HOST, &err), 0);
        assert_int_equal(ask_at(&other, 1), 0); /* nobody asks it again */
        end_well(&other);

        fail_openings(-EOPNOTSUPP, 501, 0);
        for (unsigned i = 0; i < ENDPOINTS; i++)
                world_down_at(i);
        while (mr_rdma_context_refused(world.client, MR_CONNECTION_HOST, &err) == 0) {
                want_init(&other);
                want_ask(&other);
                assert_int_equal(want_answer(&other), -EOPNOTSUPP);
        }
        assert_int_equal(err.code, -EOPNOTSUPP);
        assert_false(mr_grant_may_pass(world.client, &other.grant, -EOPNOTSUPP));
        assert_int_equal(world_count(&world.links_open), 0);
        none_is_busy();
}

/* ---- how many -------------------------------------------------------------------------------- */

static void as_many_as_may_be(void **state)
{
        grants_at_each(MR_RDMA_ENDPOINTS);
        assert_int_equal(ask_at(&other, 9), 0); /* it goes where a session is */
        assert_in_range(other.grant.key.endpoint, 0, MR_RDMA_ENDPOINTS - 1);
        end_well(&other);
        assert_int_equal(world_count(&world.opens), MR_RDMA_ENDPOINTS);

        /* one breaks, and cannot be opened again: another endpoint takes its place */
        world_down_at(3);
        mr_grant_over(&want[3].grant, MR_LEASE_NOTICED);
        assert_int_equal(want_end(&want[3]), -ENOTCONN);
        fail_openings(-ECONNREFUSED, 0, ALL & ~8u);
        assert_int_equal(ask_at(&other, 3), -ECONNREFUSED);
        assert_int_equal(world_count(&world.registered), MR_RDMA_ENDPOINTS - 1);
        assert_int_equal(ask_at(&other, 9), 0);
        assert_int_equal(other.grant.key.endpoint, 9);
        end_well(&other);
        for (unsigned i = 0; i < MR_RDMA_ENDPOINTS; i++)
                if (i != 3)
                        end_well(&want[i]);
        assert_int_equal(world_count(&world.clients_open), MR_RDMA_ENDPOINTS);
        assert_int_equal(world_count(&world.links_most), MR_RDMA_ENDPOINTS);
}

/* It was asked for while there was room, and comes when there is none. */
static void one_too_many(void **state)
{
        want_init_at(&other, 9);
        other.grant.delay_ms = 1000;
        want_ask(&other);
        grants_at_each(MR_RDMA_ENDPOINTS);
        atomic_fetch_add(&world.clock_ms, 1000);
        mr_core_wake(world.client);
        assert_int_equal(want_answer(&other), -EBUSY);
        assert_non_null(strstr(other.grant.error.message, "8 other endpoints"));
        assert_true(mr_grant_may_pass(world.client, &other.grant, -EBUSY));
        other.grant.delay_ms = 0;
        want_ask(&other);
        assert_int_equal(want_answer(&other), 0);
        assert_in_range(other.grant.key.endpoint, 0, MR_RDMA_ENDPOINTS - 1);
        end_well(&other);
        for (unsigned i = 0; i < MR_RDMA_ENDPOINTS; i++)
                end_well(&want[i]);
        assert_int_equal(world_count(&world.opens), MR_RDMA_ENDPOINTS);
        none_is_busy();
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void a_buffer_that_all_know(void **state)
{
        struct mr_buffer *buffer;

        assert_int_equal(mr_buffer_new(world.client, 4096, 0, &buffer), 0);
        for (unsigned i = 0; i < 3; i++) {
                want_init_at(&want[i], i);
                want[i].grant.buffer = buffer;
                want[i].grant.offset = 0;
                want_granted_now(&want[i]);
                end_well(&want[i]);
        }
        assert_int_equal(world_count(&world.registered), 3);
        assert_int_equal(mr_buffer_free(buffer), 0);
        assert_int_equal(world_count(&world.registered), 0);
}

static void the_end_of_all(void **state)
{
        grants_at_each(3);
        for (unsigned i = 0; i < 3; i++)
                end_well(&want[i]);
        mr_client_cancel(world.client);
        mr_rdma_context_stop(world.client->rdma);
        assert_int_equal(world_count(&world.deletes), 3);
        assert_int_equal(world_count(&world.links_open), 0);
        assert_int_equal(world_count(&world.registered), 0);
}

#define AT_MANY(test) cmocka_unit_test_setup_teardown(test, set_up, world_tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                AT_MANY(each_has_a_session),
                AT_MANY(grants_are_spread),
                AT_MANY(one_dies_alone),
                AT_MANY(one_that_keeps_breaking),
                AT_MANY(what_one_lacks_another_has),
                AT_MANY(as_many_as_may_be),
                AT_MANY(one_too_many),
                AT_MANY(a_buffer_that_all_know),
                AT_MANY(the_end_of_all),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
