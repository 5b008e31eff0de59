/*
 * connection_world.h - a connection with its sessions and registrations, as they are, over the
 * endpoint and the device of fake_rdma.h; and grants that look, when they end, whether somebody may
 * still touch their memory. To be included first.
 */
#ifndef TESTS_CONNECTION_WORLD_H
#define TESTS_CONNECTION_WORLD_H

#include "tests/unit/client/fake_rdma.h"

/* ---- a grant --------------------------------------------------------------------------------- */

struct want {
        struct mr_grant grant;
        atomic_bool stop;
        sem_t granted, ended;
        unsigned grants, ends, results;
        int granted_rv, ended_rv;
        bool send, over; /* in granted(): a BATCH is sent, or it is over at once */
        enum mr_grant_end how;
        struct want *another; /* is asked for when this one ends */
};

static inline void want_granted(void *arg, struct mr_grant *grant, int rv)
{
        struct want *want = arg;
        unsigned sent;

        want->grants++;
        want->granted_rv = rv;
        MUST((rv == 0) == (grant->error.code == 0));
        if (rv == 0 && want->send)
                MUST(mr_grant_batch(grant, &(struct rdx_client_batch){.batch = 1, .replies = 1}, NULL, 3, &sent) == 0);
        if (rv == 0 && want->over)
                mr_grant_over(grant, want->how);
        sem_post(&want->granted);
}

static inline void want_result(void *arg, struct mr_grant *grant, const struct rdx_client_result *result)
{
        ((struct want *)arg)->results++;
}

/* The memory is the caller's again: nobody may be able to write there. */
static inline void want_ended(void *arg, struct mr_grant *grant, int rv)
{
        struct want *want = arg;

        world_locked();
        MUST(!grant->binding.bound);
        world_unlocked();
        MUST(grant->key.secret[0] == '\0');
        want->ends++;
        want->ended_rv = rv;
        if (want->another != NULL)
                MUST(mr_grant_ask(world.client, &want->another->grant) == 0);
        sem_post(&want->ended);
}

static inline void want_init(struct want *want)
{
        memset(want, 0, sizeof(*want));
        sem_init(&want->granted, 0, 0);
        sem_init(&want->ended, 0, 0);
        want->grant = (struct mr_grant){.buffer = world.buffer,
                                        .offset = 4096,
                                        .len = 1000,
                                        .stop = &want->stop,
                                        .granted = want_granted,
                                        .result = want_result,
                                        .ended = want_ended,
                                        .arg = want};
}

static inline void want_ask(struct want *want)
{
        assert_in_range(world.wants, 0, WORLD_WANTS - 1);
        assert_int_equal(mr_grant_ask(world.client, &want->grant), 0);
        world.want[world.wants++] = want;
}

static inline int want_answer(struct want *want)
{
        sem_wait(&want->granted);
        return want->granted_rv;
}

static inline int want_end(struct want *want)
{
        sem_wait(&want->ended);
        assert_int_equal(want->ends, 1);
        return want->ended_rv;
}

/* What it is answered; one that is granted is over at once. */
static inline int want_briefly(struct want *want)
{
        int rv;

        want->over = true;
        want_ask(want);
        rv = want_answer(want);
        if (rv == 0)
                assert_int_equal(want_end(want), 0);
        return rv;
}

static inline void want_granted_now(struct want *want)
{
        want_ask(want);
        assert_int_equal(want_answer(want), 0);
}

/* Granted, and its BATCH is sent. */
static inline void want_batch(struct want *want)
{
        want_init(want);
        want->grant.replies = 1;
        want->send = true;
        want_granted_now(want);
}

/* The connection has looked at everything that was said to it before. */
static inline void connection_turn(void)
{
        static struct want none;

        want_init(&none);
        atomic_store(&none.stop, true);
        want_ask(&none);
        assert_int_equal(want_answer(&none), -ECANCELED);
}

static inline void world_advance(int64_t ms)
{
        atomic_fetch_add(&world.clock_ms, ms);
        connection_turn();
}

/* ---- its beginning and end ------------------------------------------------------------------- */

static inline int world_credentials(void *arg, struct mr_credentials *out)
{
        snprintf(out->access_key, sizeof(out->access_key), "AKID");
        snprintf(out->secret_key, sizeof(out->secret_key), "secret");
        return 0;
}

static inline int world_set_up_of(const char *endpoints)
{
        struct mr_options options;
        struct mr_error err;
        struct mr_credentials credentials;

        memset(&world, 0, sizeof(world));
        pthread_mutex_init(&world.lock, NULL);
        sem_init(&world.opening, 0, 0);
        atomic_store(&world.clock_ms, 1000000);
        world.life_ms = 3600000;
        world.window_bytes = 5ull << 30;
        world.requests = 4;
        world.messages = 2;
        world.device_rights = RDX_RIGHTS_WINDOW2 | RDX_RIGHTS_WINDOW1;
        snprintf(world.address, sizeof(world.address), "10.0.0.1");
        mr_options_init(&options);
        options.endpoint = endpoints;
        options.credentials_fn = world_credentials;
        if (mr_client_open(&options, &world.client, &err) != 0 ||
            mr_client_credentials(world.client, &credentials, &err) != 0)
                return -1;
        return mr_buffer_new(world.client, WORLD_BYTES, 0, &world.buffer);
}

static inline int world_set_up(void **state)
{
        return world_set_up_of("http://127.0.0.1:1");
}

/* A test that failed leaves grants behind: they are over, so that it can be told. */
static inline int world_tear_down(void **state)
{
        int rv;

        mr_client_cancel(world.client);
        for (unsigned i = 0; i < world.wants; i++)
                if (world.want[i]->grants > 0 && world.want[i]->granted_rv == 0 && world.want[i]->ends == 0)
                        mr_grant_over(&world.want[i]->grant, MR_LEASE_UNWANTED);
        connection_turn();
        rv = mr_buffer_free(world.buffer);
        mr_client_free(world.client);
        MUST(world.links_open == 0 && world.clients_open == 0 && world.registered == 0);
        sem_destroy(&world.opening);
        pthread_mutex_destroy(&world.lock);
        return rv;
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, world_set_up, world_tear_down)

#endif
