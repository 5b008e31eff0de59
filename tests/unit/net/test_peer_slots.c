/*
 * test_peer_slots.c - bulk in slots of LP_SHARE_PEER, as a drive server has it: a request whose slot
 * is not there yet waits, and with it its connection; all go on, and all slots come back, also when
 * connections end in the middle.
 */
#include "tests/unit/net/net_fixture.h"

#define SLOTS 2u /* of each loop */
#define BULK  (300u << 10)
#define CALLS 40u

/* What the handler has of a request, from its first bulk() on. owner: the request's loop */
struct slot_hold {
        struct net_request *request;
        struct lp_reserve reserve;
        bool granted;
        void *slot;
};

static struct node a, b;
static struct net_peer *to_b;

static void hold_granted(struct lp_reserve *reserve)
{
        struct slot_hold *hold = container_of(reserve, struct slot_hold, reserve);

        hold->granted = true;
        net_request_resume(hold->request);
}

static void hold_end(struct net_request *request)
{
        struct slot_hold *hold = request->user;

        if (hold->slot != NULL)
                lp_slot_put(lp_self(), hold->slot);
        if (hold->granted)
                lp_unreserve(lp_self(), LP_SHARE_PEER, 1);
        else
                lp_reserve_cancel(lp_self(), &hold->reserve);
        free(hold);
}

static enum net_bulk slot_bulk(void *arg, struct net_request *request)
{
        struct slot_hold *hold = request->user;

        if (hold == NULL) {
                hold = calloc(1, sizeof(*hold));
                hold->request = request;
                hold->reserve = (struct lp_reserve){.count = 1, .share = LP_SHARE_PEER, .granted = hold_granted};
                request->user = hold;
                hold->granted = lp_reserve(lp_self(), &hold->reserve) == 0;
        }
        if (!hold->granted)
                return NET_BULK_WAIT;
        hold->slot = lp_slot_get(lp_self());
        request->bulk[0] = (struct iovec){(char *)hold->slot + LP_SLOT_HEADER, request->bulk_len};
        request->bulk_count = 1;
        return NET_BULK_TAKE;
}

/* The bulk goes back from its slot. */
static void slot_request(void *arg, struct net_request *request)
{
        struct net_answer answer = {.status = 1, .bulk = {request->bulk[0]}, .bulk_count = request->room > 0};

        if (request->user != NULL)
                request->answered = hold_end;
        net_reply(request, &answer);
}

static void slot_lost(void *arg, struct net_request *request)
{
        hold_end(request);
}

static int start(void **state)
{
        struct net_options options = node_options(1, 5);

        node_start(&a, &options);
        fixture_peer_slots = SLOTS;
        options = node_options(2, 6);
        options.handler = (struct net_handler){.bulk = slot_bulk, .request = slot_request, .lost = slot_lost};
        node_start(&b, &options);
        fixture_peer_slots = 0;
        to_b = node_meets(&a, &b);
        node_meets(&b, &a);
        return 0;
}

static bool all_came_back(void)
{
        struct lp_stats stats;
        unsigned i;

        for (i = 0; i < NODE_LOOPS; i++) {
                lp_stats_read(b.lp[i], &stats);
                if (stats.slots_used + stats.reserved[LP_SHARE_PEER] + stats.reserve_waiting[LP_SHARE_PEER] != 0)
                        return false;
        }
        return node_stats(&b).requests_in == 0 && node_stats(&b).body_memory == 0;
}

static void many(struct waited_call **calls, char **rooms, const char *bulk)
{
        unsigned i;

        for (i = 0; i < CALLS; i++) {
                struct net_call call = {.peer = to_b,
                                        .link = i % NET_LINKS,
                                        .lane = (uint16_t)(i % 5),
                                        .bulk = {{(char *)bulk, BULK}},
                                        .bulk_count = 1,
                                        .room = {{rooms[i] = calloc(1, BULK), BULK}},
                                        .room_count = 1};

                calls[i] = call_begin(&a, i % NODE_LOOPS, &call, 0);
        }
}

static void test_fewer_slots_than_requests(void **state)
{
        struct waited_call *calls[CALLS];
        char *rooms[CALLS], *bulk = malloc(BULK);
        unsigned i;

        for (i = 0; i < BULK; i++)
                bulk[i] = (char)pattern_byte(i);
        many(calls, rooms, bulk);
        for (i = 0; i < CALLS; i++) {
                assert_int_equal(call_wait(calls[i]), NET_ANSWERED);
                assert_memory_equal(rooms[i], bulk, BULK);
                call_free(calls[i]);
                free(rooms[i]);
        }
        free(bulk);
        WAIT_UNTIL(all_came_back());
        assert_true(all_came_back());
        node_stop(&a);
        node_stop(&b);
}

static void test_slots_come_back_when_connections_end(void **state)
{
        struct waited_call *calls[CALLS];
        char *rooms[CALLS], *bulk = calloc(1, BULK);
        unsigned i, round;

        for (round = 0; round < 5; round++) {
                many(calls, rooms, bulk);
                usleep(1000 * round);
                assert_int_equal(net_peer_remove(net_peer_find(b.net, 1)), 0);
                for (i = 0; i < CALLS; i++) {
                        call_wait(calls[i]);
                        call_free(calls[i]);
                        free(rooms[i]);
                }
                WAIT_UNTIL(all_came_back());
                assert_true(all_came_back());
                node_meets(&b, &a);
                usleep(100 * 1000); /* the links rest for less */
        }
        free(bulk);
        node_stop(&a);
        node_stop(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_fewer_slots_than_requests, start),
                cmocka_unit_test_setup(test_slots_come_back_when_connections_end, start),
        };

        return cmocka_run_group_tests(tests, fixture_certificates, fixture_no_certificates);
}
