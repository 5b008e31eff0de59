/*
 * test_model.c - random histories: several clients, requests and batches on top of each other,
 * sessions that end in every way, a fabric that fails. The model is each client's shadow memory: no
 * byte outside a granted window, or after its end, is ever written; and each request ends once, in
 * right bytes or an error.
 *
 * MILLRACE_TEST_SEED repeats a run; MODEL_HISTORIES (200) says how many.
 */
#include "tests/unit/rdma/rdma_world.h"

#define CLIENTS   3u
#define ZONES     8u
#define ZONE      (MEMORY_SIZE / ZONES)
#define ENTRIES   6u
#define STEPS_OPS 60u

enum zone_state { ZONE_IDLE, ZONE_GET, ZONE_BATCH, ZONE_LOST /* fenced; the server is not through with it */ };

struct zone {
        enum zone_state state;
        struct get get;
        struct rdx_window_binding binding;
        unsigned replies;
        uint64_t number;
};

struct actor {
        struct client c;
        struct zone zone[ZONES];
        bool alive;
        unsigned right, errors;
};

static struct actor actor[CLIENTS];
static struct rdx_entry batch_entry_of[ENTRIES];

/* ---- what must always hold ------------------------------------------------------------------- */

static void check_memory(const struct actor *a)
{
        unsigned z;

        for (z = 0; z < ZONES; z++)
                if (a->zone[z].state == ZONE_IDLE || a->zone[z].state == ZONE_LOST)
                        assert_memory_equal(a->c.bytes + z * ZONE, a->c.shadow + z * ZONE, ZONE);
}

/* A right of some bytes in the zone: those behind them are never touched. */
static void check_behind(const struct actor *a, unsigned z, unsigned len)
{
        assert_memory_equal(a->c.bytes + z * ZONE + len, a->c.shadow + z * ZONE + len, ZONE - len);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* Everything of the session is over; its memory is the client's again from here on. */
static void fence(struct actor *a)
{
        unsigned z;

        rdx_client_fence(a->c.client);
        for (z = 0; z < ZONES; z++) {
                struct zone *zone = &a->zone[z];

                if (zone->state != ZONE_GET && zone->state != ZONE_BATCH)
                        continue;
                check_behind(a, z, (unsigned)zone->binding.place.length);
                rdx_window_binding_close(&zone->binding, false);
                client_keep(&a->c, z * ZONE, ZONE);
                zone->state = zone->state == ZONE_GET && !get_over(&zone->get) ? ZONE_LOST : ZONE_IDLE;
                a->errors++;
        }
        a->alive = false;
}

static void reap_get(struct actor *a, unsigned z)
{
        struct zone *zone = &a->zone[z];
        const struct get *get = &zone->get;
        unsigned len = (unsigned)zone->binding.place.length;

        if (!get_over(get))
                return;
        if (get->begin_result != 0 || !get->request.posted) { /* an error, or a body: nothing was written */
                check_behind(a, z, 0);
        } else if (get->result != 0) {
                fence(a);
                return;
        } else if (!rdx_window_binding_noticed(&zone->binding)) {
                return;
        } else {
                assert_object(a->c.bytes + z * ZONE, get->object, get->len);
                a->right++;
        }
        check_behind(a, z, len);
        if (rdx_window_binding_close(&zone->binding, !get->request.notice) != 0) {
                client_keep(&a->c, z * ZONE, ZONE);
                zone->state = ZONE_IDLE;
                fence(a);
                return;
        }
        client_keep(&a->c, z * ZONE, ZONE);
        zone->state = ZONE_IDLE;
}

static void reap_batch(struct actor *a, unsigned z)
{
        struct zone *zone = &a->zone[z];
        unsigned i;

        if (!rdx_window_binding_noticed(&zone->binding))
                return;
        for (i = 0; i < ENTRIES; i++)
                assert_object(a->c.bytes + z * ZONE + i * 1000, 11 + i, 900);
        check_behind(a, z, ENTRIES * 1000);
        if (rdx_window_binding_close(&zone->binding, false) != 0)
                a->alive = false;
        client_keep(&a->c, z * ZONE, ZONE);
        zone->state = ZONE_IDLE;
        a->right++;
}

static void reap(struct actor *a)
{
        unsigned z;

        for (z = 0; z < ZONES; z++) {
                struct zone *zone = &a->zone[z];

                if (zone->state == ZONE_LOST && get_over(&zone->get))
                        zone->state = ZONE_IDLE;
        }
        if (!a->alive)
                return;
        if (rdx_client_poll(a->c.client) != 0) {
                fence(a);
                return;
        }
        for (z = 0; z < ZONES && a->alive; z++) {
                if (a->zone[z].state == ZONE_GET)
                        reap_get(a, z);
                else if (a->zone[z].state == ZONE_BATCH)
                        reap_batch(a, z);
        }
        if (!a->alive)
                fence(a);
}

/* ---- what clients do ------------------------------------------------------------------------- */

static void start_get(struct actor *a, unsigned z)
{
        struct zone *zone = &a->zone[z];
        unsigned len = 1 + (unsigned)step_random(ZONE);
        unsigned draw = (unsigned)step_random(10);
        enum get_plan plan = draw == 0 ? GET_BODY : draw == 1 ? GET_ABANDON : draw == 2 ? GET_OUTSIDE : GET_WHOLE;
        int rv = rdx_window_binding_open(a->c.client, a->c.memory, z * ZONE, len, false, 0, &zone->binding);

        if (rv == -EAGAIN)
                return;
        if (rv != 0) {
                fence(a);
                return;
        }
        get_start(&zone->get, a->c.opened.session, zone->binding.number, &zone->binding.place, (unsigned)step_random(50), len,
                  plan);
        zone->state = ZONE_GET;
}

static void start_batch(struct actor *a, unsigned z)
{
        struct zone *zone = &a->zone[z];
        struct rdx_client_batch batch = {
                .batch = z, .replies = (uint16_t)(1 + step_random(ENTRIES)), .ordered = step_random(2) == 0};
        unsigned sent = 0;
        int rv = rdx_window_binding_open(a->c.client, a->c.memory, z * ZONE, ENTRIES * 1000, false, batch.replies, &zone->binding);

        if (rv == -EAGAIN)
                return;
        if (rv == 0) {
                zone->state = ZONE_BATCH;
                rv = rdx_client_batch(a->c.client, &zone->binding, &batch, batch_entry_of, ENTRIES, &sent);
        }
        if (rv != 0)
                fence(a);
}

/* A new session on the same link and memory. */
static void connect_again(struct actor *a)
{
        rdx_client_close(a->c.client);
        a->c.client = NULL;
        if (client_open(&a->c, rdx_client_domain_rights(a->c.link)) == 0)
                a->alive = client_connect(&a->c) == 0;
}

static void act(void)
{
        struct actor *a = &actor[step_random(CLIENTS)];
        unsigned z = (unsigned)step_random(ZONES), steps = (unsigned)step_random(120),
                 draw = (unsigned)step_random(100);

        if (a->c.memory == NULL)
                return;
        if (!a->alive)
                connect_again(a);
        else if (draw < 3)
                rdx_session_end(server, a->c.opened.session);
        else if (draw < 5)
                fence(a);
        else if (draw < 6)
                fake_kill(a->c.bytes, MEMORY_SIZE);
        else if (draw < 7)
                rdx_sessions_revoke(server, OWNER);
        else if (draw < 8)
                step_time((uint64_t)step_random(15) * 1000 * 1000 * 1000);
        else if (a->zone[z].state == ZONE_IDLE && draw < 60)
                start_get(a, z);
        else if (a->zone[z].state == ZONE_IDLE)
                start_batch(a, z);
        while (steps-- > 0)
                step();
}

/* ---- histories ------------------------------------------------------------------------------- */

static void finish(void)
{
        unsigned i, z, round;

        for (round = 0; round < 3; round++) {
                step_all();
                for (i = 0; i < CLIENTS; i++)
                        reap(&actor[i]);
                step_time(3ull * 1000 * 1000 * 1000);
        }
        for (i = 0; i < CLIENTS; i++) {
                if (actor[i].alive)
                        fence(&actor[i]);
                step_all();
                step_time(3ull * 1000 * 1000 * 1000);
                step_all();
                for (z = 0; z < ZONES; z++) /* each request ended, once */
                        assert_true(actor[i].zone[z].state != ZONE_LOST || get_over(&actor[i].zone[z].get));
        }
}

static void history(uint64_t seed)
{
        static const unsigned schemes[] = {RDX_RIGHTS_WINDOW2, RDX_RIGHTS_WINDOW1, RDX_RIGHTS_REGION};
        static const unsigned fails[] = {0, 0, 1500, 300};
        struct fake_options options = {.seed = seed, .fail_from = 100, .fail_one_in = fails[seed % 4]};
        unsigned i, op;

        memset(actor, 0, sizeof(actor));
        assert_int_equal(world_open(seed, &options, NULL), 0);
        for (i = 0; i < CLIENTS; i++) {
                actor[i].alive = client_begin(&actor[i].c, schemes[step_random(3)]) == 0;
        }
        for (op = 0; op < STEPS_OPS; op++) {
                act();
                for (i = 0; i < CLIENTS; i++) {
                        if (actor[i].c.memory == NULL)
                                continue;
                        reap(&actor[i]);
                        check_memory(&actor[i]);
                }
        }
        finish();
        for (i = 0; i < CLIENTS; i++) {
                if (actor[i].c.memory != NULL)
                        check_memory(&actor[i]);
                client_end(&actor[i].c);
        }
        step_all();
        step_time(3ull * 1000 * 1000 * 1000);
        step_all();
        world_close();
}

static void test_histories(void **state)
{
        const char *given = getenv("MODEL_HISTORIES");
        uint64_t first = test_seed(), count = given != NULL ? strtoull(given, NULL, 10) : 200, seed, right = 0,
                 errors = 0;
        static char keys[ENTRIES][16];
        unsigned i;

        for (i = 0; i < ENTRIES; i++) {
                snprintf(keys[i], sizeof(keys[i]), "%u:900", 11 + i);
                batch_entry_of[i] = (struct rdx_entry){
                        .bucket = BYTES("b"), .key = {keys[i], strlen(keys[i])}, .offset = i * 1000, .length = 1000};
        }
        for (seed = first; seed < first + count; seed++) {
                printf("history %llu\r", (unsigned long long)seed);
                history(seed);
                for (i = 0; i < CLIENTS; i++) {
                        right += actor[i].right;
                        errors += actor[i].errors;
                }
        }
        printf("%llu histories: %llu requests and batches right, %llu ended by an error\n", (unsigned long long)count,
               (unsigned long long)right, (unsigned long long)errors);
        assert_true(right > 10 * count && errors > count); /* it is about both */
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_histories)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
