/*
 * test_near_drive.c - real drives of a node as the loops of its gateway ask them: while they are closed and
 * opened anew, and while these loops end in the middle.
 */
#include "tests/unit/remote/remote_nodes.h"

#include <endian.h>

#include "engine/base/store.h"
#include "tests/lib/store_fixture.h"

#define DRIVES  2u
#define GATES   3u /* loops of the gateway, with the same numbers as the drives' */
#define STRIPES 120u
#define UNIT    (64u << 10)

static struct rn nodes;
static struct sf sf;
static struct rem_served *served[DRIVES];

/* Shards that one loop writes to one drive, makes durable, and reads. owner: its loop */
struct chain {
        struct lp_msg msg;
        struct lp_timer again;
        struct eng_op op;
        struct eng_drive *drive;
        struct lp_loop *loop;
        unsigned number;
        void *slot;
        uint32_t stripe, stripes;
        uint64_t incarnation;
        unsigned good, failed;
        bool synced[STRIPES];
        _Atomic bool ended;
};

struct gate {
        struct rem_client *client;
        struct lp_loop *loops[GATES];
        pthread_t threads[GATES];
        struct eng_drive *drives[DRIVES];
        struct chain chains[GATES][DRIVES];
};

/* ---- the drives' side ------------------------------------------------------------------------ */

static void serve(unsigned slot)
{
        struct eng_local_options options = {.path = sf.path[slot], .log_file_bytes = 4 << 20, .segment_bytes = 16 << 20, .full_reserve_bytes = 1 << 20};
        enum eng_folder_state state;
        struct eng_error error;

        MUST(eng_folder_probe(sf.path[slot], &state, &options.identity, &error) == 0 && state == ENG_FOLDER_DRIVE);
        MUST(rem_served_new(nodes.server, RN_POOL, slot, nodes.b.lp[slot % NODE_LOOPS], &served[slot]) == 0);
        MUST(rem_served_open(served[slot], &options, &error) == 0);
}

static void let_go(void *arg)
{
        unsigned *slot = arg;

        if (eng_drive_let_go(rem_served_drive(served[*slot])))
                *slot = UINT32_MAX;
}

static void close_drive(unsigned slot)
{
        struct eng_drive *drive = rem_served_drive(served[slot]);

        drive->ops->close(drive);
        rem_served_free(served[slot]);
}

/* Its folder is closed, and opened again by another incarnation; the old one is closed when its loops have stopped. */
static struct rem_served *old[16];
static unsigned olds;

static void serve_anew(unsigned slot)
{
        unsigned arg = slot;

        rn_withdraw(served[slot]);
        WAIT_UNTIL((on_loop(nodes.b.lp[slot % NODE_LOOPS], let_go, &arg), arg == UINT32_MAX));
        MUST(arg == UINT32_MAX && olds < 16);
        old[olds++] = served[slot];
        serve(slot);
}

static void close_drives(void *arg)
{
        unsigned i;

        for (i = 0; i < olds; i++) {
                struct eng_drive *drive = rem_served_drive(old[i]);

                drive->ops->close(drive);
                rem_served_free(old[i]);
        }
        olds = 0;
        for (i = 0; i < DRIVES; i++)
                close_drive(i);
}

static int start(void **state)
{
        unsigned i;

        fixture_certificates(state);
        sf_make(&sf, DRIVES, 1);
        MUST(sf_open(&sf, true) == 0 && sf_wait_ready(&sf, 20));
        sf_close(&sf);
        rn_start(&nodes, 8);
        for (i = 0; i < DRIVES; i++)
                serve(i);
        return 0;
}

static int stop(void **state)
{
        rn_stop(&nodes, close_drives, NULL);
        sf_remove(&sf);
        return fixture_no_certificates(state);
}

/* ---- the gateway's --------------------------------------------------------------------------- */

static void *gate_loop(void *loop)
{
        MUST(lp_loop_run(loop) == 0);
        return NULL;
}

static void gate_told(void *arg, struct eng_drive *drive, const char *text)
{
}

static void gate_open(struct gate *g)
{
        const struct rem_client_options client = {
                .net = nodes.a.net,
                .loop = nodes.a.lp[0],
                .home = true,
                .near = {.server = nodes.server, .node = 2, .maker = 1, .boot = 5, .loops = nodes.b.lp, .loop_count = NODE_LOOPS}};
        struct eng_error error;
        char path[32];
        unsigned i;

        memset(g, 0, sizeof(*g));
        MUST(rem_client_new(&client, &g->client) == 0);
        for (i = 0; i < GATES; i++)
                MUST(lp_loop_new(&(struct lp_config){.index = i, .name = "gate", .slots = 24}, &g->loops[i]) == 0);
        for (i = 0; i < DRIVES; i++) {
                struct eng_local_options options = {.path = path, .owner = g->loops[i], .failed = gate_told, .unreachable = gate_told};
                enum eng_folder_state state;

                snprintf(path, sizeof(path), "remote:2/%u/%u", RN_POOL, i);
                MUST(eng_folder_probe(sf.path[i], &state, &options.identity, &error) == 0);
                MUST(eng_drive_open(rem_client_opener(g->client), &options, &g->drives[i], &error) == 0);
        }
        for (i = 0; i < GATES; i++)
                MUST(pthread_create(&g->threads[i], NULL, gate_loop, g->loops[i]) == 0);
}

/* As a store is closed: its loops have stopped, and are drained until its drives await nothing. */
static void gate_close(struct gate *g)
{
        unsigned i, turns, done;

        for (i = 0; i < GATES; i++)
                lp_loop_stop(g->loops[i]);
        for (i = 0; i < GATES; i++)
                pthread_join(g->threads[i], NULL);
        for (turns = 0;; turns++) {
                MUST(turns < 20000);
                for (i = 0, done = 0; i < GATES; i++)
                        done += lp_loop_drain(g->loops[i]) > 0;
                for (i = 0; i < DRIVES && done == 0; i++)
                        done += eng_drive_awaits_file(g->drives[i]);
                if (done == 0)
                        break;
                usleep(1000);
        }
        for (i = 0; i < DRIVES; i++)
                g->drives[i]->ops->close(g->drives[i]);
        for (i = 0; i < GATES; i++)
                lp_loop_free(g->loops[i]);
        rem_client_free(g->client);
}

/* ---- chains ---------------------------------------------------------------------------------- */

static uint8_t byte_of(const struct chain *c, uint32_t stripe, size_t at)
{
        return (uint8_t)((c->number * 1000 + stripe) * 31 + at * 7);
}

static void chain_id(const struct chain *c, uint8_t id[FMT_ID])
{
        const uint16_t maker = htobe16(1);
        const uint64_t counter = htobe64((uint64_t)5 << 40 | c->number);

        memset(id, 0, FMT_ID);
        memcpy(id + 6, &maker, 2);
        memcpy(id + 8, &counter, 8);
}

static void chain_done(struct eng_op *op);

static void chain_submit(struct chain *c, enum eng_op_kind kind)
{
        uint8_t *payload = (uint8_t *)c->slot + LP_SLOT_HEADER;
        size_t i;

        c->op = (struct eng_op){.kind = kind, .flags = ENG_OP_RESERVE, .epoch = 1000, .done = chain_done};
        if (kind == ENG_OP_WRITE) {
                chain_id(c, c->op.write.object_id);
                c->op.write.stripe = c->stripe;
                c->op.write.k = 1;
                c->op.write.payload_len = UNIT;
                c->op.write.slot = c->slot;
                c->op.write.payload = payload;
                for (i = 0; i < UNIT; i++)
                        payload[i] = byte_of(c, c->stripe, i);
        } else if (kind == ENG_OP_SYNC) {
                c->op.incarnation = c->incarnation;
        } else {
                memset(payload, 0, UNIT);
                chain_id(c, c->op.read.object_id);
                c->op.read.stripe = c->stripe;
                c->op.read.len = c->op.read.payload_len = UNIT;
                c->op.read.slot = c->slot;
                c->op.read.left = NULL;
        }
        eng_drive_submit(c->drive, &c->op);
}

static void chain_begin(struct chain *c)
{
        if (c->stripe == c->stripes) {
                lp_slot_put(c->loop, c->slot);
                lp_unreserve(c->loop, LP_SHARE_GET, 1);
                atomic_store(&c->ended, true);
                return;
        }
        chain_submit(c, ENG_OP_WRITE);
}

static void chain_again(struct lp_timer *timer)
{
        chain_begin(container_of(timer, struct chain, again));
}

static void chain_done(struct eng_op *op)
{
        struct chain *c = container_of(op, struct chain, op);
        const uint8_t *payload = (const uint8_t *)c->slot + LP_SLOT_HEADER;
        size_t i;

        MUST(lp_self() == c->loop);
        if (op->result != 0) { /* it is being opened anew */
                MUST(op->result == -EHOSTUNREACH || op->result == -EIO || op->result == -EAGAIN);
                c->failed++;
                c->again.expired = chain_again;
                lp_timer_start(c->loop, &c->again, 1000 * 1000);
                return;
        }
        if (op->kind == ENG_OP_WRITE) {
                c->incarnation = op->incarnation;
                chain_submit(c, ENG_OP_SYNC);
        } else if (op->kind == ENG_OP_SYNC) {
                c->synced[c->stripe] = true;
                chain_submit(c, ENG_OP_READ);
        } else {
                for (i = 0; i < UNIT; i++)
                        MUST(payload[i] == byte_of(c, c->stripe, i));
                c->good++;
                c->stripe++;
                chain_begin(c);
        }
}

static void chain_start(struct lp_msg *msg)
{
        struct chain *c = container_of(msg, struct chain, msg);
        struct lp_reserve reserve = {.count = 1, .share = LP_SHARE_GET};

        MUST(lp_reserve(c->loop, &reserve) == 0);
        c->slot = lp_slot_get(c->loop);
        chain_begin(c);
}

static void chains_start(struct gate *g, unsigned first, uint32_t stripes)
{
        unsigned i, j;

        for (i = 0; i < GATES; i++)
                for (j = 0; j < DRIVES; j++) {
                        struct chain *c = &g->chains[i][j];

                        c->drive = g->drives[j];
                        c->loop = g->loops[i];
                        c->number = first + i * DRIVES + j;
                        c->stripes = stripes;
                        c->msg.run = chain_start;
                        lp_post(c->loop, &c->msg);
                }
}

static bool chains_ended(struct gate *g)
{
        unsigned i, j, n = 0;

        for (i = 0; i < GATES; i++)
                for (j = 0; j < DRIVES; j++)
                        n += atomic_load(&g->chains[i][j].ended);
        return n == GATES * DRIVES;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* What was made durable is there, also when the drive is another incarnation's by then. */
static void test_while_drives_begin_anew(void **state)
{
        static struct gate g;
        unsigned i, failed = 0;

        gate_open(&g);
        chains_start(&g, 1, STRIPES);
        for (i = 0; i < 3; i++) {
                usleep(30000);
                serve_anew(i % DRIVES);
        }
        WAIT_UNTIL(chains_ended(&g));
        assert_true(chains_ended(&g));
        for (i = 0; i < GATES * DRIVES; i++) {
                assert_int_equal(g.chains[i / DRIVES][i % DRIVES].good, STRIPES);
                failed += g.chains[i / DRIVES][i % DRIVES].failed;
        }
        print_message("%u operations met a drive that was not there\n", failed);
        gate_close(&g);
}

/* The gateway's loops end in the middle: its drives are as they were to others. */
static void test_loops_end(void **state)
{
        static struct gate g;
        struct eng_drive_info info;
        unsigned round, i;

        for (round = 0; round < 10; round++) {
                gate_open(&g);
                chains_start(&g, 100 + round * GATES * DRIVES, STRIPES);
                usleep(1000 + 3000 * round);
                gate_close(&g);
                for (i = 0; i < DRIVES; i++) {
                        eng_drive_info(rem_served_drive(served[i]), &info);
                        assert_int_equal(info.state, ENG_DRIVE_IN);
                }
        }
        gate_open(&g);
        chains_start(&g, 500, 3);
        WAIT_UNTIL(chains_ended(&g));
        assert_true(chains_ended(&g));
        gate_close(&g);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_while_drives_begin_anew),
                cmocka_unit_test(test_loops_end),
        };

        return cmocka_run_group_tests(tests, start, stop);
}
