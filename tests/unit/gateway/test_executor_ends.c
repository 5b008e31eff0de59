/*
 * gateway/rdma/executor.c, work_item.c and bounce.c: sessions, and the gateway itself, that end at
 * any point of their BATCH messages. Everything is given back.
 */
#include "tests/unit/gateway/executor_fixture.h"

#define ENDINGS 160u
#define STOPS   40u

enum way { BY_FENCE, BY_END, BY_KILL, BY_REVOKING, WAYS };

static void end_session(enum way way)
{
        struct gw_credential other = {.access_key = "OTHER", .secret_key = "secret"};

        switch (way) {
        case BY_FENCE:
                rdx_client_fence(one.client);
                break;
        case BY_END:
                rdx_session_end(server, one.opened.session);
                break;
        case BY_KILL:
                fake_kill(one.bytes, MEMORY_SIZE);
                break;
        default:
                gw_credentials_set(gw, &other, 1);
                break;
        }
}

/* At any point, however it ends: everything is given back. */
static void sessions_that_end(void **state)
{
        for (unsigned round = 0; round < ENDINGS; round++) {
                unsigned steps = (unsigned)step_random(1500), messages;
                uint64_t at = 0;

                if (round > 0)
                        assert_int_equal(open_site(seed + round), 0);
                fake.slow_reads = step_random(2) == 0;
                fake.span = step_random(2) == 0 ? 20000 : 0;
                if (step_random(4) == 0)
                        take_all_slots();
                for (unsigned i = 0; i < 150; i++)
                        wish_whole(&wishes[i], i < 10 ? SMALL + i % 10 : i % SMALL, &at);
                messages = send_batch(&one, grips, 150, 50, step_random(2) == 0, 0);
                while (steps-- > 0 && step())
                        ;
                end_session((enum way)step_random(WAYS));
                step_all();
                for (unsigned i = 0; i < 100; i++) {
                        step_time(250 * 1000000ull);
                        step_all();
                }
                assert_int_equal(fake.gets_open <= EACH, true);
                if (step_arena[0].slots == 1 && others[0].count == 1 && step_arena[0].reserved > 0) {
                        give_all_slots();
                        step_all();
                }
                memset(others, 0, sizeof(others));
                assert_int_equal(fake.gets_open, 0);
                step_arena_check();
                rdx_client_fence(one.client);
                for (unsigned i = 0; i < messages; i++)
                        rdx_window_binding_close(&grips[i], true);
                client_keep(&one, 0, MEMORY_SIZE);
                if (round + 1 < ENDINGS)
                        teardown(state);
        }
}

/* With lookups, reads and waiting for slots under way. */
static void an_end_in_the_midst(void **state)
{
        for (unsigned round = 0; round < STOPS; round++) {
                unsigned steps = (unsigned)step_random(800), messages;
                uint64_t at = 0;

                if (round > 0)
                        assert_int_equal(open_site(seed + round), 0);
                fake.slow_reads = step_random(2) == 0;
                if (step_random(2) == 0)
                        take_all_slots();
                for (unsigned i = 0; i < 150; i++)
                        wish_whole(&wishes[i], i < 10 ? SMALL + i % 10 : i % SMALL, &at);
                messages = send_batch(&one, grips, 150, 50, step_random(2) == 0, 0);
                while (steps-- > 0 && step())
                        if (steps == 100 && round % 2 == 0)
                                fake_set_hold();
                rdx_client_fence(one.client);
                for (unsigned i = 0; i < messages; i++)
                        rdx_window_binding_close(&grips[i], true);
                client_keep(&one, 0, MEMORY_SIZE);
                if (others[0].count == 1)
                        give_all_slots();
                memset(others, 0, sizeof(others));
                if (round + 1 < STOPS)
                        teardown(state);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(sessions_that_end, setup, teardown),
                cmocka_unit_test_setup_teardown(an_end_in_the_midst, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
